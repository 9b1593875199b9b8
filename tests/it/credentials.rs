//! Credentials and certificates over real connections: what is renewed while a client lives, and who is named when a
//! connection does not work: the client's certificate, the server's, the clock, the plugin or the right.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use capstan_apiserver::Tokens;
use capstan_apiserver::serve;
use capstan_apiserver::serve::tls::Authority;
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp, rfc3339};
use capstan_dashboard::fleet::watch::{self, Scope};
use capstan_dashboard::fleet::{Delta, SourceId};
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command::check;
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::script::text;
use capstan_dashboard::tui::update::update;
use capstan_engine::client::{Client, ConnectOptions, Connection, connect, explain};
use chrono::TimeDelta;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use ratatui::layout::Rect;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

use crate::conformance::Site;
use crate::conformance::wire::{ADMIN, VIEWER};
use crate::workload_api::until;

const V1: &str = "client.authentication.k8s.io/v1";

fn now() -> Timestamp {
    Clock::system().now()
}

fn days(count: i64) -> TimeDelta {
    TimeDelta::days(count)
}

/// PEM of a certificate and of its key.
#[derive(Clone)]
struct Pair {
    certificate: String,
    key: String,
}

/// Good from the first moment to the second.
fn params(name: &str, dates: (Timestamp, Timestamp)) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let at = |moment: Timestamp| {
        let seconds = u64::try_from(moment.timestamp()).expect("after 1970");
        rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds)
    };
    (params.not_before, params.not_after) = (at(dates.0), at(dates.1));
    params
}

fn always() -> (Timestamp, Timestamp) {
    (now() - days(1000), now() + days(1000))
}

fn authority(name: &str) -> Pair {
    let key = KeyPair::generate().expect("a key");
    let mut params = params(name, always());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    Pair { certificate, key: key.serialize_pem() }
}

impl Pair {
    fn signs(&self, params: &CertificateParams) -> Self {
        let signer = KeyPair::from_pem(&self.key).expect("a key");
        let issuer = Issuer::from_ca_cert_pem(&self.certificate, signer).expect("an authority");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate").pem();
        Self { certificate, key: key.serialize_pem() }
    }

    fn server(&self, name: &str, dates: (Timestamp, Timestamp)) -> Self {
        let mut params = params("server", dates);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names =
            CertificateParams::new(vec![name.to_owned()]).expect("a name").subject_alt_names;
        self.signs(&params)
    }

    fn client(&self, user: &str, dates: (Timestamp, Timestamp)) -> Self {
        let mut params = params(user, dates);
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.signs(&params)
    }

    fn as_user(&self) -> Value {
        json!({ "client-certificate-data": BASE64.encode(&self.certificate), "client-key-data": BASE64.encode(&self.key) })
    }
}

fn kubeconfig(address: SocketAddr, authority: &str, user: &Value) -> Value {
    json!({ "current-context": "x", "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "clusters": [{ "name": "c", "cluster": {
            "server": format!("https://{address}"), "certificate-authority-data": BASE64.encode(authority) } }],
        "users": [{ "name": "u", "user": user }] })
}

/// A folder with a kubeconfig and what it names.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        // As a login does it: readers see one or the other whole.
        let beside = self.path(&format!("{name}.new"));
        std::fs::write(&beside, text).expect("written");
        std::fs::rename(beside, self.path(name)).expect("renamed");
    }

    /// A user whose plugin prints what [`Self::prints`] says, and notes each run.
    fn plugin(&self) -> Value {
        self.write("plugin", "#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho run >> runs\ncat printed\n");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.path("plugin"), executable).expect("executable");
        json!({ "exec": { "apiVersion": V1, "command": "./plugin", "interactiveMode": "Never" } })
    }

    fn prints(&self, status: &Value) {
        let credential = json!({ "apiVersion": V1, "kind": "ExecCredential", "status": status });
        self.write("printed", &credential.to_string());
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(self.path("runs")).map_or(0, |text| text.lines().count())
    }

    async fn connect(&self, config: &Value) -> Result<Connection, String> {
        self.write("config", &config.to_string());
        let options = ConnectOptions { kubeconfig: Some(self.path("config")), ..ConnectOptions::default() };
        connect(&options).await.map_err(|error| error.to_string())
    }
}

/// The server with certificates of `authority`, and its address.
async fn server(authority: &Pair) -> (Site, serve::Listening) {
    let site = Site::open().await;
    let authority = Authority::of(authority.certificate.clone(), authority.key.clone(), now());
    let address = "127.0.0.1:0".parse().expect("an address");
    let listening = serve::listen(site.server.guarded(), address, &authority).await.expect("a port");
    (site, listening)
}

fn admin_is(site: &Site, token: &str) {
    site.server.replace_tokens(Tokens { admin: token.to_owned(), read_only: VIEWER.to_owned() });
}

/// Whom the server takes us for.
async fn who(client: &Client) -> Result<String, String> {
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .expect("a request");
    let answer: Value = client.request(request).await.map_err(|error| explain(&error, "the server"))?;
    Ok(answer["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_plugin_is_run_again_once_when_its_token_is_refused() {
    let ca = authority("ours");
    let (site, listening) = server(&ca).await;
    let home = Home::new();
    home.prints(&json!({ "token": ADMIN }));
    let config = kubeconfig(listening.address(), &ca.certificate, &home.plugin());
    let client = home.connect(&config).await.expect("connected").client;
    assert_eq!((who(&client).await.as_deref(), home.runs()), (Ok("kubernetes-admin"), 1));
    admin_is(&site, "second");
    home.prints(&json!({ "token": "second" }));
    // The request that was refused is sent again: nobody sees the refusal.
    assert_eq!((who(&client).await.as_deref(), home.runs()), (Ok("kubernetes-admin"), 2));
    admin_is(&site, "third");
    for _ in 0..3 {
        let refused = who(&client).await.expect_err("refused");
        assert!(refused.contains("(401)"), "{refused}");
        assert_eq!(home.runs(), 3, "not for every refusal");
    }
}

#[tokio::test]
async fn a_kubeconfig_is_read_again_when_its_token_is_refused() {
    let ca = authority("ours");
    let (site, listening) = server(&ca).await;
    let home = Home::new();
    let config = |token: &str| kubeconfig(listening.address(), &ca.certificate, &json!({ "token": token }));
    let client = home.connect(&config(ADMIN)).await.expect("connected").client;
    admin_is(&site, "second");
    home.write("config", &config("second").to_string());
    assert_eq!(who(&client).await.as_deref(), Ok("kubernetes-admin"));
    // Another server under the same name has to be opened by a person.
    let elsewhere = authority("elsewhere");
    let (_other, other) = server(&elsewhere).await;
    home.write(
        "config",
        &kubeconfig(other.address(), &elsewhere.certificate, &json!({ "token": ADMIN })).to_string(),
    );
    assert_eq!(who(&client).await.as_deref(), Ok("kubernetes-admin"));
    admin_is(&site, "third");
    assert!(who(&client).await.expect_err("refused").contains("(401)"));
}

/// A login of somebody else, and an authority that signs anew: nothing is refused before the file is looked at again.
#[tokio::test]
async fn a_kubeconfig_that_changes_is_read_again_before_anything_is_refused() {
    let ca = authority("ours");
    let (site, listening) = server(&ca).await;
    let home = Home::new();
    let config = |token: &str| kubeconfig(listening.address(), &ca.certificate, &json!({ "token": token }));
    let client = home.connect(&config(ADMIN)).await.expect("connected").client;
    assert_eq!(who(&client).await.as_deref(), Ok("kubernetes-admin"));
    // Both tokens are good: only the file says which one counts.
    home.write("config", &config(VIEWER).to_string());
    assert_eq!(
        who(&client).await.as_deref(),
        Ok("kubernetes-admin"),
        "it is not looked at with each request"
    );
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(10)).await;
    tokio::time::resume();
    until("the other user", async || who(&client).await.as_deref() != Ok("kubernetes-admin")).await;
    who(&client).await.expect("nothing was refused");
    drop(site);
}

#[tokio::test]
async fn a_certificate_of_a_plugin_is_renewed_before_its_end() {
    let ca = authority("ours");
    let (_site, listening) = server(&ca).await;
    let home = Home::new();
    let prints = |user: &str, end: Timestamp| {
        let pair = ca.client(user, (now() - days(1), end));
        home.prints(&json!({ "clientCertificateData": pair.certificate, "clientKeyData": pair.key,
            "expirationTimestamp": rfc3339(end) }));
    };
    prints("alice", now() + TimeDelta::seconds(6));
    let config = kubeconfig(listening.address(), &ca.certificate, &home.plugin());
    let client = home.connect(&config).await.expect("connected").client;
    assert_eq!((who(&client).await.as_deref(), home.runs()), (Ok("alice"), 1));
    prints("bob", now() + days(1));
    until("the new certificate", async || who(&client).await.expect("always an answer") == "bob").await;
    assert_eq!(home.runs(), 2);
}

#[tokio::test]
async fn a_token_goes_beside_a_certificate() {
    let ca = authority("ours");
    let (_site, listening) = server(&ca).await;
    let home = Home::new();
    let alice = ca.client("alice", always());
    let config = kubeconfig(listening.address(), &ca.certificate, &home.plugin());
    for (token, expected) in
        [(None, Ok("alice")), (Some(ADMIN), Ok("kubernetes-admin")), (Some("wrong"), Err("(401)"))]
    {
        let mut status = json!({ "clientCertificateData": alice.certificate, "clientKeyData": alice.key });
        if let Some(token) = token {
            status["token"] = json!(token);
        }
        home.prints(&status);
        let found = match home.connect(&config).await {
            Ok(connection) => who(&connection.client).await,
            Err(error) => Err(error),
        };
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, _) => panic!("{token:?}: {found:?}"),
        }
    }
}

/// A port that speaks TLS with that certificate, asks for none, and gives one answer to everything.
async fn answering(pair: &Pair, answer: &'static str) -> SocketAddr {
    let chain = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .expect("a pair");
    let (acceptor, listener) =
        (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.expect("a port"));
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await.ok()?;
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.ok()?);
                }
                stream.write_all(answer.as_bytes()).await.ok()?;
                stream.shutdown().await.ok()
            });
        }
    });
    address
}

const FORBIDDEN: &str = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const UNAUTHORIZED: &str = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn the_certificate_of_the_server_is_blamed_for_what_is_wrong_with_it() {
    let (ca, other) = (authority("ours"), authority("other"));
    let year = days(365);
    let right = ca.server("127.0.0.1", always());
    let over = ca.server("127.0.0.1", (now() - year, now() - days(1)));
    let early = ca.server("127.0.0.1", (now() + days(1), now() + year));
    let named = ca.server("api.example", always());
    let foreign = other.server("127.0.0.1", always());
    let (ca, for_clients) = (&ca.certificate, ca.client("server", always()));
    // What shows it, what the kubeconfig trusts, and what is said; nothing when it is trusted.
    for (what, shown, trusted, expected) in [
        ("signed", &right, ca, ""),
        ("itself among the roots", &right, &right.certificate, ""),
        ("over", &over, ca, "ended at"),
        ("over among the roots", &over, &over.certificate, "ended at"),
        ("early", &early, ca, "check the clock of this machine"),
        ("early among the roots", &early, &early.certificate, "check the clock of this machine"),
        ("another name", &named, ca, "is for api.example and not for 127.0.0.1"),
        (
            "another name among the roots",
            &named,
            &named.certificate,
            "is for api.example and not for 127.0.0.1",
        ),
        ("another authority", &foreign, ca, "is not signed by the authority"),
        ("another leaf among the roots", &foreign, &right.certificate, "is not signed by the authority"),
        ("for clients, among the roots", &for_clients, &for_clients.certificate, "cannot be used"),
    ] {
        let address = answering(shown, FORBIDDEN).await;
        let config = kubeconfig(address, trusted, &json!({ "token": "t" }));
        match Home::new().connect(&config).await {
            Ok(_) => assert_eq!(expected, "", "{what}"),
            Err(said) => {
                assert!(!expected.is_empty() && said.contains(expected), "{what}: {said}");
                assert!(
                    said.starts_with(&format!("the certificate of https://{address} ")),
                    "{what}: {said}"
                );
            }
        }
    }
}

#[tokio::test]
async fn the_certificate_of_the_client_is_blamed_for_what_is_wrong_with_it() {
    let (ca, other) = (authority("ours"), authority("other"));
    let (_site, listening) = server(&ca).await;
    let over = ca.client("alice", (now() - days(9), now() - days(1)));
    let early = ca.client("alice", (now() + days(1), now() + days(9)));
    for (what, shown, expected) in [
        ("over", &over, "(it says that its time is over)"),
        ("another authority", &other.client("alice", always()), "(it does not know its authority)"),
        (
            "a server's",
            &ca.server("127.0.0.1", always()),
            "does not accept the client certificate of the kubeconfig (",
        ),
    ] {
        let config = kubeconfig(listening.address(), &ca.certificate, &shown.as_user());
        let said = Home::new().connect(&config).await.map(drop).expect_err("refused");
        let server = format!("https://{} does not accept the client certificate", listening.address());
        assert!(said.starts_with(&server) && said.contains(expected), "{what}: {said}");
    }
    // As a server of Kubernetes does it: every certificate is taken in the handshake, and judged later.
    let address = answering(&ca.server("127.0.0.1", always()), UNAUTHORIZED).await;
    for (shown, expected) in [(&over, "ended at"), (&early, "check the clock")] {
        let config = kubeconfig(address, &ca.certificate, &shown.as_user());
        let said = Home::new().connect(&config).await.map(drop).expect_err("refused");
        assert!(
            said.contains("(401): the client certificate of the kubeconfig") && said.contains(expected),
            "{said}"
        );
    }
    let config = kubeconfig(address, &ca.certificate, &ca.client("alice", always()).as_user());
    let said = Home::new().connect(&config).await.map(drop).expect_err("refused");
    assert!(
        said.contains("does not accept these credentials (401): the token or certificate is wrong"),
        "{said}"
    );
}

#[tokio::test]
async fn plugins_and_rights_are_blamed_as_such() {
    let ca = authority("ours");
    let (_site, listening) = server(&ca).await;
    let connected = async |user: Value| {
        Home::new().connect(&kubeconfig(listening.address(), &ca.certificate, &user)).await
    };
    let missing = json!({ "exec": { "apiVersion": V1, "command": "kubelogin-nope", "interactiveMode": "IfAvailable",
        "installHint": "Install it from https://example.invalid", "provideClusterInfo": true } });
    let said = connected(missing).await.map(drop).expect_err("refused");
    assert!(said.contains("the credential plugin kubelogin-nope cannot be started"), "{said}");
    assert!(said.ends_with("Install it from https://example.invalid"), "{said}");

    let viewer = connected(json!({ "token": VIEWER })).await.expect("connected");
    let secrets = Api::<Secret>::default_namespaced(viewer.client);
    let error = secrets.list(&ListParams::default()).await.map(drop).expect_err("forbidden");
    let said = explain(&error, &viewer.server);
    assert!(said.contains("does not allow this (403)") && said.contains("capstan-viewer"), "{said}");
}

/// The dashboard as it runs: its screen, and the feeds behind it.
struct Dashboard {
    model: Model,
    batches: mpsc::Receiver<Vec<Delta>>,
    _source: watch::Source,
}

impl Dashboard {
    fn over(connection: &Connection) -> Self {
        let clock = Clock::system();
        let (batches, source) =
            watch::spawn(connection, SourceId(0), Scope::default(), clock.clone(), Rng::seeded(1));
        let look =
            Look::load("default", "default", Tier::None, false, None, check).expect("shipped files load");
        let model = Model::new(Session::default(), look, Rect::new(0, 0, 120, 24), clock.now());
        Self { model, batches, _source: source }
    }

    /// The screen, with what came in.
    fn text(&mut self) -> String {
        while let Ok(batch) = self.batches.try_recv() {
            update(&mut self.model, Msg::Fleet(batch));
        }
        text(&mut self.model)
    }

    async fn shows(&mut self, words: &str) {
        let shown = async {
            while !self.text().contains(words) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(60), shown).await.is_ok();
        assert!(in_time, "{words} did not come\n{}", self.text());
    }
}

/// So that the files are looked at again, and what waits for the next attempt begins it.
async fn later(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

/// A server that is set up anew, with another authority: whoever has a login of it goes on looking without opening it again.
#[tokio::test]
async fn a_new_authority_of_the_server_is_taken_up_by_the_dashboard_while_it_runs() {
    let cluster = |name: &str| {
        json!({ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": { "name": name, "namespace": "default" },
            "spec": { "controlPlaneRef": { "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": name } } })
    };
    for is_file in [false, true] {
        let (first, second) = (authority("first"), authority("second"));
        let site = Site::serving(capi_types::crds::all()).await;
        site.server.import(std::iter::once(cluster("before"))).await.expect("imported");
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.expect("a port"));
        let listen = |pair: &Pair| {
            let authority = Authority::of(pair.certificate.clone(), pair.key.clone(), now());
            serve::serve(site.server.guarded(), listener.clone(), &authority, &[]).expect("served")
        };
        let listening = listen(&first);
        let home = Home::new();
        let config = |pair: &Pair| {
            let mut config = kubeconfig(listening.address(), &pair.certificate, &json!({ "token": ADMIN }));
            if is_file {
                let named = &mut config["clusters"][0]["cluster"];
                named.as_object_mut().expect("a cluster").remove("certificate-authority-data");
                named["certificate-authority"] = json!("ca.crt");
            }
            config
        };
        home.write("ca.crt", &first.certificate);
        let connection = home.connect(&config(&first)).await.expect("connected");
        let mut dashboard = Dashboard::over(&connection);
        dashboard.shows("before").await;
        dashboard.shows("  live").await;

        let (old, again) = (config(&first), config(&second));
        drop(listening);
        let _listening = listen(&second);
        site.server.import(std::iter::once(cluster("after"))).await.expect("imported");
        later(40).await;
        dashboard.shows("not connected").await;
        assert!(!dashboard.text().contains("after"), "{}", dashboard.text());

        home.write("ca.crt", &second.certificate);
        home.write("config", &if is_file { old } else { again }.to_string());
        until("the new authority", async || {
            later(15).await;
            who(&connection.client).await.is_ok()
        })
        .await;
        later(40).await;
        dashboard.shows("after").await;
        dashboard.shows("  live").await;
    }
}
