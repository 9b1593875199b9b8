//! The way to a server through proxies that run in this process: which is taken, what goes through it, and what is said when
//! it refuses.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use capi_types::dev::DevCluster;
use capi_types::key::ObjectKey;
use capstan::cli::args::{Cli, Command};
use capstan_apiserver::serve;
use capstan_apiserver::serve::tls::Authority;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_commands::change::source::Reach;
use capstan_commands::change::{Session, run};
use capstan_commands::engine_status;
use capstan_commands::output::Style;
use capstan_dashboard::operations::guard::Guard;
use capstan_dashboard::operations::journal::Journal;
use capstan_engine::client::proxy::{Environment, choose};
use capstan_engine::client::{ConnectOptions, Connection, Writer, connect, get, in_process};
use capstan_engine::engine::lease::LeaseOptions;
use capstan_engine::engine::{Engine, EngineOptions};
use capstan_engine::workload::connect_to;
use capstan_engine::workload::static_pods::{page as page_of, secure_page};
use capstan_worlds::provider::{self, ProviderOptions};
use clap::Parser as _;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, ListParams, PostParams, WatchParams};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::conformance::Site;
use crate::engine::make_cluster;
use crate::proxy_rules::RULES;
use crate::workload_api::{Harbor, until};

#[test]
fn the_environment_names_a_proxy_as_it_does_for_kubectl() {
    for (variables, server, expected) in RULES {
        let variable = |wanted: &str| {
            variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned())
        };
        let address = server.parse().expect("an address");
        let chosen = choose(None, &address, &Environment::read(variable)).expect("a proxy or none");
        let chosen = chosen.map(|proxy| proxy.to_string()).unwrap_or_default();
        assert_eq!(chosen, *expected, "{variables:?} {server}");
    }
}

/// How a proxy answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Open,
    /// Only for `ann` with the password `p@ss`.
    WithLogin,
    Forbidding,
}

/// A server by a name and a port that only a proxy knows: servers of this repository let themselves be called so.
const NAME: &str = "localhost:6443";

/// What all connections of a proxy share.
struct Kept {
    manner: Manner,
    /// What it was asked for.
    asked: Mutex<Vec<String>>,
    /// Where [`NAME`] is.
    knows: Option<SocketAddr>,
}

impl Kept {
    async fn reach(&self, target: &str) -> Option<TcpStream> {
        match self.knows.filter(|_| target == NAME) {
            Some(address) => TcpStream::connect(address).await.ok(),
            None => TcpStream::connect(target).await.ok(),
        }
    }
}

/// A proxy on a port of its own.
struct Running {
    address: SocketAddr,
    kept: Arc<Kept>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

impl Running {
    async fn start(scheme: &str, manner: Manner, tls: Option<&Authority>) -> Self {
        Self::knowing(scheme, manner, tls, None).await
    }

    async fn knowing(
        scheme: &str,
        manner: Manner,
        tls: Option<&Authority>,
        knows: Option<SocketAddr>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let acceptor =
            tls.map(|authority| TlsAcceptor::from(authority.server_config(address).expect("a certificate")));
        let (kept, is_socks) =
            (Arc::new(Kept { manner, asked: Mutex::default(), knows }), scheme == "socks5");
        let of_all = kept.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, kept) = (acceptor.clone(), of_all.clone());
                tokio::spawn(async move {
                    let stream: Box<dyn Duplex> = match acceptor {
                        Some(acceptor) => Box::new(acceptor.accept(stream).await.ok()?),
                        None => Box::new(stream),
                    };
                    if is_socks { socks(stream, &kept).await } else { http(stream, &kept).await }
                });
            }
        });
        Self { address, kept, task }
    }

    fn asked(&self) -> Vec<String> {
        self.kept.asked.lock().clone()
    }

    /// It was asked for this server and for nothing else.
    #[track_caller]
    fn was_asked_for(&self, scheme: &str, target: &str) {
        let asked = self.asked();
        let expected =
            if scheme == "socks5" { target.to_owned() } else { format!("CONNECT {target} HTTP/1.1") };
        assert!(!asked.is_empty() && asked.iter().all(|line| *line == expected), "{asked:?}");
    }
}

async fn head(stream: &mut Box<dyn Duplex>) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

/// `None` when the client has gone.
async fn http(mut stream: Box<dyn Duplex>, kept: &Kept) -> Option<()> {
    let head = head(&mut stream).await?;
    let line = head.lines().next()?.to_owned();
    kept.asked.lock().push(line.clone());
    let login = format!("proxy-authorization: basic {}", BASE64.encode("ann:p@ss")).to_lowercase();
    let answer: Option<&[u8]> = match kept.manner {
        Manner::Forbidding => Some(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"),
        Manner::WithLogin if !head.to_lowercase().contains(&login) => {
            Some(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
        }
        _ => None,
    };
    if let Some(answer) = answer {
        return stream.write_all(answer).await.ok();
    }
    let Some(target) = line.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()) else {
        // A request that it reads is answered in the server's place.
        let body = json!({ "major": "1", "minor": "35", "gitVersion": "v1.35.0", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": "" });
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        return stream.write_all((head + &body).as_bytes()).await.ok();
    };
    let mut server = kept.reach(target).await?;
    stream.write_all(b"HTTP/1.0 200 Connection established\r\n\r\n").await.ok()?;
    tokio::io::copy_bidirectional(&mut stream, &mut server).await.ok().map(drop)
}

/// `None` when the client has gone.
async fn socks(mut stream: Box<dyn Duplex>, kept: &Kept) -> Option<()> {
    let mut greeting = [0; 2];
    stream.read_exact(&mut greeting).await.ok()?;
    let mut methods = vec![0; usize::from(greeting[1])];
    stream.read_exact(&mut methods).await.ok()?;
    let wanted = if kept.manner == Manner::WithLogin { 2 } else { 0 };
    if !methods.contains(&wanted) {
        return stream.write_all(&[5, 0xFF]).await.ok();
    }
    stream.write_all(&[5, wanted]).await.ok()?;
    if wanted == 2 {
        let _version = stream.read_u8().await.ok()?;
        let user = counted(&mut stream).await?;
        let password = counted(&mut stream).await?;
        let is_ann = user == "ann" && password == "p@ss";
        stream.write_all(&[1, u8::from(!is_ann)]).await.ok()?;
    }
    let mut request = [0; 4];
    stream.read_exact(&mut request).await.ok()?;
    let host = match request[3] {
        1 => std::net::Ipv4Addr::from(stream.read_u32().await.ok()?).to_string(),
        _ => counted(&mut stream).await?,
    };
    let target = format!("{host}:{}", stream.read_u16().await.ok()?);
    kept.asked.lock().push(target.clone());
    let server = if kept.manner == Manner::Forbidding { None } else { kept.reach(&target).await };
    let Some(mut server) = server else {
        return stream.write_all(&[5, 2, 0, 1, 0, 0, 0, 0, 0, 0]).await.ok();
    };
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.ok()?;
    tokio::io::copy_bidirectional(&mut stream, &mut server).await.ok().map(drop)
}

async fn counted(stream: &mut Box<dyn Duplex>) -> Option<String> {
    let mut text = vec![0; usize::from(stream.read_u8().await.ok()?)];
    stream.read_exact(&mut text).await.ok()?;
    String::from_utf8(text).ok()
}

fn file(folder: &Path, config: &Value) -> ConnectOptions {
    let path = folder.join("config");
    std::fs::write(&path, config.to_string()).expect("written");
    ConnectOptions { kubeconfig: Some(path), ..ConnectOptions::default() }
}

async fn through(config: &Value, proxy_url: &str) -> Result<Connection, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config.clone();
    config["clusters"][0]["cluster"]["proxy-url"] = json!(proxy_url);
    connect(&file(folder.path(), &config)).await.map_err(|error| error.to_string())
}

/// A list, a watch with news, and port-forwards, which are WebSockets: to an API server, and to an etcd.
async fn works(connection: &Connection, harbor: &Harbor, name: &str) {
    let client = connection.client.clone();
    let (_, control_plane) = harbor.nodes().await;
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.expect("a list");
    assert_eq!(nodes.items.len(), 2, "{name}");
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "kube-system");
    let news = maps.watch(&WatchParams::default(), "0").await.expect("a watch");
    let mut news = news.boxed();
    let map = json!({ "metadata": { "name": name } });
    let map: ConfigMap = serde_json::from_value(map).expect("a map");
    maps.create(&PostParams::default(), &map).await.expect("created");
    let is_it = |event: &kube::api::WatchEvent<ConfigMap>| matches!(event, kube::api::WatchEvent::Added(map) if map.metadata.name.as_deref() == Some(name));
    while let Some(event) = news.try_next().await.expect("news") {
        if is_it(&event) {
            break;
        }
    }
    let server = format!("kube-apiserver-{control_plane}");
    let page = secure_page(client, &server, 6443, "/readyz").await.expect("a page");
    assert_eq!(page, "ok", "{name}");
    let etcd = format!("etcd-{control_plane}");
    let health = page_of(connection.client.clone(), &etcd, 2381, "/health").await.expect("a page");
    assert!(health.contains("true"), "{name}: {health}");
}

/// The kubeconfig of a cluster and the address of its server, once its static Pods are there.
async fn reachable(harbor: &Harbor) -> (Value, String) {
    let config: Value = serde_saphyr::from_slice(&harbor.kubeconfig().await).expect("a kubeconfig");
    let (_, control_plane) = harbor.nodes().await;
    let pods = Api::<Pod>::namespaced(harbor.client.clone(), "kube-system");
    for component in ["kube-apiserver", "etcd"] {
        let pod = format!("{component}-{control_plane}");
        until("the static pod", async || pods.get(&pod).await.is_ok()).await;
    }
    let server = config["clusters"][0]["cluster"]["server"].as_str().expect("a server");
    let target = server.trim_start_matches("https://").to_owned();
    (config, target)
}

#[tokio::test]
async fn lists_watches_and_forwarded_ports_go_through_each_kind_of_proxy() {
    let harbor = Harbor::start().await;
    // A proxy that speaks TLS is trusted by what the server is trusted by, and sees the same client.
    let proxies = harbor.authority().await;
    let (config, target) = reachable(&harbor).await;
    for (scheme, manner) in [
        ("http", Manner::Open),
        ("http", Manner::WithLogin),
        ("https", Manner::Open),
        ("https", Manner::WithLogin),
        ("socks5", Manner::Open),
        ("socks5", Manner::WithLogin),
    ] {
        let proxy = Running::start(scheme, manner, (scheme == "https").then_some(&proxies)).await;
        let login = if manner == Manner::WithLogin { "ann:p%40ss@" } else { "" };
        let connection = through(&config, &format!("{scheme}://{login}{}", proxy.address)).await;
        let name = format!("by-{scheme}-{manner:?}").to_lowercase();
        works(&connection.expect("connected"), &harbor, &name).await;
        proxy.was_asked_for(scheme, &target);
    }
}

/// As the management cluster keeps it: a workload cluster behind a proxy is reached by its Secret.
#[tokio::test]
async fn a_workload_cluster_is_reached_through_the_proxy_that_its_secret_names() {
    let harbor = Harbor::start().await;
    // A proxy that speaks TLS is trusted by what the server is trusted by, and sees the same client.
    let proxies = harbor.authority().await;
    let (config, target) = reachable(&harbor).await;
    for scheme in ["http", "https", "socks5"] {
        let proxy = Running::start(scheme, Manner::Open, (scheme == "https").then_some(&proxies)).await;
        let mut config = config.clone();
        config["clusters"][0]["cluster"]["proxy-url"] = json!(format!("{scheme}://{}", proxy.address));
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "far-kubeconfig", "namespace": "default"},
            "data": {"value": BASE64.encode(config.to_string())}});
        let site = Site::open().await;
        site.server.import(std::iter::once(secret)).await.expect("imported");
        let management = in_process(site.server.clone(), "test", "default", false);
        let far = connect_to(&management.client, &ObjectKey::new("default", "far"), false).await;
        let connection = Connection { client: far.expect("connected"), ..management };
        works(&connection, &harbor, &format!("secret-{scheme}")).await;
        proxy.was_asked_for(scheme, &target);
    }
}

/// A kubeconfig whose server has a name that only the proxy knows, and whose certificate is for `host`.
fn by_name(config: &Value, host: &str, scheme: &str, proxy: &Running) -> Value {
    let mut config = config.clone();
    let cluster = &mut config["clusters"][0]["cluster"];
    cluster["server"] = json!(format!("https://{NAME}"));
    cluster["tls-server-name"] = json!(host);
    cluster["proxy-url"] = json!(format!("{scheme}://{}", proxy.address));
    config
}

#[tokio::test]
async fn a_change_is_planned_and_looked_at_by_a_name_that_only_the_proxy_knows() {
    let harbor = Harbor::start().await;
    // A proxy that speaks TLS is trusted by what the server is trusted by, and sees the same client.
    let proxies = harbor.authority().await;
    let (config, target) = reachable(&harbor).await;
    let (host, _) = target.rsplit_once(':').expect("a port");
    for (scheme, set) in [
        ("http", "metricsBindAddress=0.0.0.0"),
        ("https", "metricsBindAddress=0.0.0.0:10249"),
        ("socks5", "metricsBindAddress=127.0.0.1:10249"),
    ] {
        let tls = (scheme == "https").then_some(&proxies);
        let proxy = Running::knowing(scheme, Manner::Open, tls, target.parse().ok()).await;
        let folder = tempfile::tempdir().expect("a folder");
        let options = file(folder.path(), &by_name(&config, host, scheme, &proxy));
        for (words, expected) in
            [(&["status"][..], 0), (&["plan", "--set", set], 10), (&["apply", "--yes", "--set", set], 0)]
        {
            let head = ["capstan", "change"].into_iter().chain(words.iter().copied());
            let parsed = Cli::try_parse_from(head).expect("arguments");
            let Some(Command::Change(command)) = parsed.command else { panic!("not a change") };
            let journal = Journal::at(folder.path().join("journal.jsonl"));
            let session = Session {
                reach: Reach::Options(options.clone()),
                style: Style::default(),
                guard: Guard::new(journal, Clock::system(), "ann".to_owned()),
                executor: None,
            };
            let mut out = Vec::new();
            let answer = run(&command, &session, &mut out, &mut &b""[..]).await.expect("an answer");
            let text = String::from_utf8(out).expect("text") + &answer.document;
            println!("{scheme} {words:?} {} {text}", answer.exit_code.number());
            assert_eq!(answer.exit_code.number(), expected, "{scheme} {words:?}: {text}");
        }
        proxy.was_asked_for(scheme, NAME);
    }
}

/// Its Lease, its watches and its writes.
#[tokio::test]
async fn an_engine_works_by_a_name_that_only_the_proxy_knows() {
    let authority = Authority::generate(Clock::system().now()).expect("an authority");
    for scheme in ["http", "https", "socks5"] {
        let site = Site::serving(capi_types::crds::all()).await;
        let address = "127.0.0.1:0".parse().expect("an address");
        let listening = serve::listen(site.server.guarded(), address, &authority).await.expect("a port");
        let text = serve::kubeconfig(listening.address(), &authority, "admin-token");
        let config: Value = serde_json::from_str(&text).expect("a kubeconfig");
        let tls = (scheme == "https").then_some(&authority);
        let proxy = Running::knowing(scheme, Manner::Open, tls, Some(listening.address())).await;
        let folder = tempfile::tempdir().expect("a folder");
        let options = file(folder.path(), &by_name(&config, "127.0.0.1", scheme, &proxy));
        let connection = connect(&options).await.expect("connected");
        let lease = LeaseOptions::new("default", engine_status::ENGINE_LEASE, "far");
        let engine_options =
            EngineOptions { lease: Some(lease), time_scale: 1000.0, ..EngineOptions::default() };
        let mut engine =
            Engine::new(connection.client.clone(), Clock::system(), Rng::seeded(1), engine_options);
        let _world = provider::register(&mut engine, ProviderOptions::default());
        let stop = CancellationToken::new();
        let task = tokio::spawn(engine.run(stop.clone()));
        make_cluster(&Writer::new(connection.client.clone(), "test")).await;
        let leases = Api::<Lease>::namespaced(connection.client.clone(), "default");
        until("the Lease", async || {
            let found = leases.get(engine_status::ENGINE_LEASE).await.ok().and_then(|lease| lease.spec);
            found.is_some_and(|spec| spec.holder_identity.as_deref() == Some("far"))
        })
        .await;
        until("a finalizer of its controller", async || {
            let key = ObjectKey::new("default", "c");
            let found = get::<DevCluster>(&connection.client, &key).await.expect("an answer");
            found.is_some_and(|cluster| cluster.metadata.finalizers.is_some_and(|all| !all.is_empty()))
        })
        .await;
        stop.cancel();
        task.await.expect("the engine ends");
        proxy.was_asked_for(scheme, NAME);
    }
}

#[tokio::test]
async fn a_proxy_that_speaks_tls_is_trusted_as_the_server_is() {
    let site = crate::conformance::wire::Port::open().await;
    let text = capstan_apiserver::serve::kubeconfig(site.address(), &site.authority, "admin-token");
    let config: Value = serde_json::from_str(&text).expect("a kubeconfig");
    let known = Running::start("https", Manner::WithLogin, Some(&site.authority)).await;
    let connection = through(&config, &format!("https://ann:p%40ss@{}", known.address)).await;
    connection.expect("connected").client.apiserver_version().await.expect("an answer");
    assert!(!known.asked().is_empty());
    let other = Authority::generate(Clock::system().now()).expect("an authority");
    let unknown = Running::start("https", Manner::Open, Some(&other)).await;
    let said =
        through(&config, &format!("https://{}", unknown.address)).await.map(drop).expect_err("refused");
    assert!(said.contains(&format!("the certificate of the proxy https://{}", unknown.address)), "{said}");
    assert!(unknown.asked().is_empty());
}

#[tokio::test]
async fn requests_to_plain_http_are_read_by_the_proxy() {
    let proxy = Running::start("http", Manner::WithLogin, None).await;
    let config = json!({ "current-context": "x", "contexts": [{ "name": "x", "context": { "cluster": "c" } }],
        "clusters": [{ "name": "c", "cluster": { "server": "http://api.example:8080/below" } }] });
    through(&config, &format!("http://ann:p%40ss@{}", proxy.address)).await.expect("an answer");
    assert_eq!(proxy.asked(), ["GET http://api.example:8080/below/version HTTP/1.1"]);
}

/// Each sentence names the proxy and not the server as the one to look at, and what to look at.
#[tokio::test]
async fn a_proxy_that_refuses_is_blamed_and_not_the_server() {
    let site = crate::conformance::wire::Port::open().await;
    let text = capstan_apiserver::serve::kubeconfig(site.address(), &site.authority, "admin-token");
    let config: Value = serde_json::from_str(&text).expect("a kubeconfig");
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let mut proxies = Vec::new();
    for (scheme, manner, login, expected) in [
        ("http", Manner::Forbidding, "", "does not connect to"),
        ("http", Manner::Forbidding, "", "(it answers 403 Forbidden)"),
        ("http", Manner::WithLogin, "", "wants a user and a password"),
        ("http", Manner::WithLogin, "eve:x@", "does not accept the user and the password"),
        ("socks5", Manner::Forbidding, "", "does not connect to"),
        ("socks5", Manner::WithLogin, "", "wants a user and a password"),
        ("socks5", Manner::WithLogin, "eve:x@", "does not accept the user and the password"),
    ] {
        let proxy = Running::start(scheme, manner, None).await;
        let url = format!("{scheme}://{login}{}", proxy.address);
        let shown = format!("{scheme}://{}", proxy.address);
        proxies.push((proxy, url, shown, expected));
    }
    let mut cases: Vec<(String, String, &str)> =
        proxies.iter().map(|(_, url, shown, expected)| (url.clone(), shown.clone(), *expected)).collect();
    for scheme in ["http", "https", "socks5"] {
        cases.push((format!("{scheme}://{closed}"), format!("{scheme}://{closed}"), "does not answer"));
    }
    for (url, shown, expected) in cases {
        let said = through(&config, &url).await.map(drop).expect_err("refused");
        let server = format!("https://{} is not reached: the proxy {shown} ", site.address());
        assert!(said.starts_with(&server) && said.contains(expected), "{url}: {said}");
        assert!(said.ends_with("check proxy-url of the kubeconfig"), "{said}");
        assert!(!said.contains("eve"), "{said}");
    }
}
