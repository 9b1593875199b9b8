//! Statements 147-150: who may do what, and how the server knows.

use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use capstan_apiserver::serve::{self, rotation, tls};
use capstan_apiserver::{Identity, Tokens};
use capstan_base::time::Clock;
use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::net::UnixStream;

use super::protobuf::{body, bytes, metadata};
use super::wire::{ADMIN, Port, VIEWER, code, exchange};
use super::{Ask, JSON, MAPS, MERGE, NAMESPACES, PROTOBUF, Site, THINGS, config_map, thing};

const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn access(verb: &str, group: &str, resource: &str, subresource: &str) -> Value {
    json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": { "resourceAttributes": {
        "namespace": "default", "verb": verb, "group": group, "resource": resource, "subresource": subresource } } })
}

fn access_protobuf(verb: &str, group: &str, resource: &str, subresource: &str) -> Vec<u8> {
    let attributes = [
        bytes(1, "default"),
        bytes(2, verb),
        bytes(3, group),
        bytes(4, ""),
        bytes(5, resource),
        bytes(6, subresource),
        bytes(7, ""),
    ];
    let spec = bytes(2, bytes(1, attributes.concat()));
    body("authorization.k8s.io/v1", "SelfSubjectAccessReview", &[metadata("", ""), spec, bytes(3, "")])
}

fn with_token(ask: Ask, token: &str) -> Ask {
    ask.header("authorization", &format!("Bearer {token}"))
}

#[tokio::test]
async fn s147_reviews_tell_what_would_happen() {
    let site = Site::open().await.guarded();
    for (verb, group, resource, subresource, viewer) in [
        ("get", "", "configmaps", "", true),
        ("list", "", "configmaps", "", true),
        ("watch", "example.io", "things", "", true),
        ("get", "example.io", "things", "status", true),
        ("create", "example.io", "things", "", false),
        ("update", "example.io", "things", "status", false),
        ("patch", "example.io", "things", "scale", false),
        ("delete", "", "configmaps", "", false),
        ("deletecollection", "", "configmaps", "", false),
        ("get", "", "secrets", "", false),
        ("*", "*", "*", "", false),
        ("create", "authorization.k8s.io", "selfsubjectaccessreviews", "", true),
    ] {
        for (token, expected) in [(ADMIN, true), (VIEWER, viewer)] {
            let review = access(verb, group, resource, subresource);
            let protobuf = access_protobuf(verb, group, resource, subresource);
            for ask in [Ask::post(ACCESS, &review), Ask::new(Method::POST, ACCESS).body(PROTOBUF, protobuf)] {
                let answer = site.send(with_token(ask, token)).await.expect(201).json();
                assert_eq!(
                    answer["status"]["allowed"], expected,
                    "{token}: {verb} {group}/{resource}/{subresource}"
                );
                assert_eq!(answer["spec"]["resourceAttributes"]["verb"], verb);
                assert_eq!(
                    (&answer["kind"], &answer["metadata"]),
                    (&json!("SelfSubjectAccessReview"), &json!({}))
                );
            }
        }
    }
    let path = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                       "spec": { "nonResourceAttributes": { "verb": "get", "path": "/metrics" } } });
    assert_eq!(
        site.send(with_token(Ask::post(ACCESS, &path), VIEWER)).await.expect(201).json()["status"]["allowed"],
        true
    );
    let nothing =
        json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {} });
    site.send(with_token(Ask::post(ACCESS, &nothing), ADMIN)).await.refused(422, "Invalid");
}

#[tokio::test]
async fn s147_rules_and_names_are_told() {
    let site = Site::open().await.guarded();
    let rules = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": { "namespace": "default" } });
    let who = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let ask = async |path: &str, review: &Value, token: &str| {
        site.send(with_token(Ask::post(path, review), token)).await.expect(201).json()["status"].clone()
    };
    assert_eq!(
        ask(RULES, &rules, ADMIN).await,
        json!({ "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
                "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }], "incomplete": false })
    );
    let viewer = ask(RULES, &rules, VIEWER).await;
    let writes = viewer["resourceRules"].as_array().expect("rules").iter().any(|rule| {
        let text = rule.to_string();
        text.contains("\"*\"]}") && text.contains("delete") || text.contains("secrets")
    });
    assert!(!writes, "{viewer}");
    assert_eq!(
        ask(SELF, &who, VIEWER).await["userInfo"],
        json!({ "username": "capstan-viewer", "groups": ["capstan:viewers", "system:authenticated"] })
    );
    assert_eq!(
        ask(SELF, &who, ADMIN).await["userInfo"]["groups"],
        json!(["system:masters", "system:authenticated"])
    );
    let protobuf =
        body("authentication.k8s.io/v1", "SelfSubjectReview", &[metadata("", ""), bytes(2, bytes(1, ""))]);
    let answer =
        site.send(with_token(Ask::new(Method::POST, SELF).body(PROTOBUF, protobuf), ADMIN)).await.expect(201);
    assert_eq!(answer.json()["status"]["userInfo"]["username"], "kubernetes-admin");
    // Asked, not stored; and not by strangers.
    site.send(with_token(Ask::get(SELF), ADMIN)).await.refused(405, "MethodNotAllowed");
    site.post(SELF, &who).await.refused(401, "Unauthorized");
}

#[tokio::test]
async fn s148_readers_read_and_write_nothing() {
    let site = Site::open().await;
    site.made(THINGS, &thing("a", json!({ "replicas": 1 }))).await;
    site.made(MAPS, &config_map("m", json!({}))).await;
    let before = site.revision().await;
    let guarded = site.guarded();
    let (a, m) = (format!("{THINGS}/a"), format!("{MAPS}/m"));
    for path in [
        THINGS,
        MAPS,
        &a,
        &m,
        &format!("{a}/status"),
        &format!("{a}/scale"),
        "/api",
        "/apis",
        "/openapi/v3",
        "/metrics",
    ] {
        guarded.send(with_token(Ask::get(path), VIEWER)).await.expect(200);
    }
    let watch = guarded.follow(with_token(Ask::get(&format!("{THINGS}?watch")), VIEWER)).await;
    assert_eq!(watch.code, 200);
    let patch = json!({ "spec": { "replicas": 2 }, "status": { "replicas": 2 } });
    let mut writes = vec![
        Ask::post(THINGS, &thing("b", json!({}))),
        Ask::delete(THINGS),
        Ask::delete(MAPS),
        Ask::delete(&format!("{NAMESPACES}/default")),
    ];
    for path in [a.clone(), m, format!("{a}/status"), format!("{a}/scale")] {
        writes.push(Ask::put(&path, &thing("a", json!({}))));
        writes.push(Ask::patch(&path, MERGE, &patch));
        writes.push(Ask::patch(&format!("{path}?fieldManager=x&force=true"), super::APPLY, &patch));
        writes.push(Ask::delete(&path));
        writes.push(Ask::patch(&format!("{path}?dryRun=All"), MERGE, &patch));
    }
    for ask in writes {
        let what = ask.to_string();
        let refused = guarded.send(with_token(ask, VIEWER)).await.refused(403, "Forbidden");
        assert!(
            refused.message().contains("User \"capstan-viewer\" cannot "),
            "{what}: {}",
            refused.message()
        );
    }
    for path in [
        "/api/v1/namespaces/default/secrets",
        "/api/v1/secrets?watch",
        "/api/v1/namespaces/default/secrets/s",
    ] {
        guarded.send(with_token(Ask::get(path), VIEWER)).await.refused(403, "Forbidden");
    }
    assert_eq!(site.revision().await, before);
}

async fn client(kubeconfig: &str) -> kube::Client {
    let config = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    let config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.expect("a config");
    kube::Client::try_from(config).expect("a client")
}

/// Name and groups, as the server knows a client.
async fn known_as(client: &kube::Client) -> Result<Value, kube::Error> {
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let request =
        http::Request::post(SELF).header("content-type", JSON).body(review.to_string().into_bytes());
    let mut answer: Value = client.request(request.expect("a request")).await?;
    Ok(answer["status"]["userInfo"].take())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s149_certificates_say_who_it_is() {
    let port = Port::open().await;
    for (user, group, may_write) in [
        ("alice", Some("system:masters"), true),
        ("bob", Some("capstan:viewers"), false),
        ("mallory", None, false),
    ] {
        let certificate = port.authority.client_certificate(user, group).expect("a certificate");
        let mut config: Value =
            serde_json::from_str(&serve::kubeconfig(port.address(), &port.authority, "")).expect("JSON");
        config["users"][0]["user"] = json!({
            "client-certificate-data": BASE64.encode(&certificate.certificate_pem),
            "client-key-data": BASE64.encode(&certificate.key_pem),
        });
        let client = client(&config.to_string()).await;
        let expected: Vec<&str> = group.into_iter().chain(["system:authenticated"]).collect();
        assert_eq!(known_as(&client).await.expect("known"), json!({ "username": user, "groups": expected }));
        let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::default_namespaced(client);
        let map = serde_json::from_value(config_map(user, json!({}))).expect("a map");
        let made = maps.create(&kube::api::PostParams::default(), &map).await;
        assert_eq!(made.is_ok(), may_write, "{user}");
        let listed = maps.list(&kube::api::ListParams::default()).await;
        assert_eq!(listed.is_ok(), user != "mallory", "{user}");
    }
    // A certificate of somebody else's authority ends the handshake; none at all does not.
    let other = tls::Authority::generate(Clock::system().now()).expect("an authority");
    let forged = other.client_certificate("alice", Some("system:masters")).expect("a certificate");
    let request = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = match port.connect("http/1.1", Some(&forged)).await {
        // In TLS 1.3 the client learns of it with its first read.
        Ok(mut stream) => exchange(&mut stream, request).await,
        Err(_) => String::new(),
    };
    assert_eq!(answer, "");
    assert_eq!(code(&port.raw(request).await), 200);
    // A token on a connection with a certificate decides for its request.
    let viewer = port.authority.client_certificate("bob", Some("capstan:viewers")).expect("a certificate");
    let mut stream = port.connect("http/1.1", Some(&viewer)).await.expect("connected");
    let request = format!(
        "GET /api/v1/secrets HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(code(&exchange(&mut stream, request.as_bytes()).await), 200);
}

#[tokio::test]
async fn s149_only_administrators_act_as_others() {
    let site = Site::open().await;
    let who = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let review = |headers: &[(&'static str, &str)]| {
        headers.iter().fold(Ask::post(SELF, &who), |ask, (name, value)| ask.header(name, value))
    };
    let acted = site
        .send(review(&[("impersonate-user", "jane"), ("impersonate-group", "a"), ("impersonate-group", "b")]))
        .await;
    assert_eq!(
        acted.expect(201).json()["status"]["userInfo"],
        json!({ "username": "jane", "groups": ["a", "b", "system:authenticated"] })
    );
    let refused =
        site.send(Ask::get(MAPS).header("impersonate-user", "jane")).await.refused(403, "Forbidden");
    assert!(
        refused.message().contains("User \"jane\" cannot list resource \"configmaps\""),
        "{}",
        refused.message()
    );
    site.send(
        Ask::get(MAPS).header("impersonate-user", "jane").header("impersonate-group", "capstan:viewers"),
    )
    .await
    .expect(200);
    site.send(review(&[("impersonate-group", "a")])).await.refused(400, "BadRequest");
    site.send(review(&[("impersonate-user", ""), ("impersonate-group", "a")]))
        .await
        .refused(400, "BadRequest");
    site.send(review(&[("impersonate-user", "jane"), ("impersonate-uid", "1")]))
        .await
        .refused(403, "Forbidden");
    let viewer = site.acting_as(Identity::READ_ONLY);
    let refused = viewer
        .send(Ask::get(MAPS).header("impersonate-user", "kubernetes-admin"))
        .await
        .refused(403, "Forbidden");
    assert_eq!(
        refused.message(),
        "users \"kubernetes-admin\" is forbidden: User \"capstan-viewer\" cannot impersonate resource \"users\" in API group \
         \"\" at the cluster scope"
    );
    site.guarded().send(Ask::get(MAPS).header("impersonate-user", "x")).await.refused(401, "Unauthorized");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s150_foreign_hosts_and_web_pages_are_refused() {
    let port = Port::open().await;
    for (headers, expected) in [
        (&[("Host", "localhost:6443")][..], 200),
        (&[("Host", "127.0.0.1")], 200),
        (&[("Host", "[::1]:1")], 200),
        (&[("Host", "kubernetes.default.svc")], 200),
        (&[("Host", "rebound.example:6443")], 403),
        (&[("Host", "localhost.rebound.example")], 403),
        (&[("Host", "10.9.8.7")], 403),
        (&[("Host", "")], 403),
        (&[("Origin", "https://rebound.example")], 403),
        (&[("Origin", "null")], 403),
    ] {
        let answer = port.get("/api/v1/namespaces", Some(ADMIN), headers).await;
        assert_eq!(code(&answer), expected, "{headers:?}: {answer}");
        assert!(expected == 200 || answer.contains("\"reason\":\"Forbidden\""), "{answer}");
        assert!(!answer.to_lowercase().contains("access-control-"), "no CORS: {answer}");
    }
    let nameless = port.raw(b"GET /version HTTP/1.1\r\nConnection: close\r\n\r\n").await;
    assert_eq!(code(&nameless), 400, "{nameless}");
    let mut connection = port.http2().await;
    let ask = |url: &str| {
        http::Request::get(url).body(http_body_util::Full::new(bytes::Bytes::new())).expect("a request")
    };
    let foreign = connection.send_request(ask("https://rebound.example/version")).await.expect("an answer");
    assert_eq!(foreign.status().as_u16(), 403);
    let ours = connection.send_request(ask("https://localhost/version")).await.expect("an answer");
    assert_eq!(ours.status().as_u16(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s150_the_socket_is_for_its_owner() {
    let site = Site::open().await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run").join("api.sock");
    let handle = serve::listen_on_socket(site.server.clone(), &path).await.expect("a socket");
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().expect("a folder"))), (0o600, 0o700));
    let ask = async |request: String| {
        let mut stream = UnixStream::connect(&path).await.expect("connected");
        exchange(&mut stream, request.as_bytes()).await
    };
    let get = |headers: &str| {
        format!("GET /api/v1/secrets HTTP/1.1\r\nHost: anything\r\nConnection: close\r\n{headers}\r\n")
    };
    // The owner of the socket needs no token; one that is given counts.
    assert_eq!(code(&ask(get("")).await), 200);
    assert_eq!(code(&ask(get(&format!("Authorization: Bearer {VIEWER}\r\n"))).await), 403);
    assert_eq!(code(&ask(get("Authorization: Bearer wrong\r\n")).await), 401);
    assert_eq!(code(&ask(get("Origin: null\r\n")).await), 403);
    // One server per socket; a file that is none, and a folder for all, are refused.
    let said = |error: serve::ListenError| error.to_string();
    let second = serve::listen_on_socket(site.server.clone(), &path).await.err().map(said).expect("refused");
    assert!(second.contains("another process serves it"), "{second}");
    let file = path.with_file_name("file");
    std::fs::write(&file, "").expect("written");
    let refused = serve::listen_on_socket(site.server.clone(), &file).await.err().map(said).expect("refused");
    assert!(refused.contains("it is a regular file, not a socket"), "{refused}");
    let open = folder.path().join("open");
    std::fs::create_dir(&open).expect("made");
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).expect("opened");
    let refused =
        serve::listen_on_socket(site.server.clone(), &open.join("s")).await.err().map(said).expect("refused");
    assert!(refused.contains("others can enter the folder"), "{refused}");
    // The file goes with its server, and what a killed one left is replaced.
    drop(handle);
    let gone = async {
        while path.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(super::SOON, gone).await.expect("the file goes");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket that nobody serves"));
    assert!(path.exists(), "left behind");
    let _again = serve::listen_on_socket(site.server.clone(), &path).await.expect("a socket");
    assert_eq!(code(&ask(get("")).await), 200);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_replaced_while_the_server_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = tls::tokens_in(folder.path()).expect("tokens");
    let site = Site::paused().await;
    site.server.replace_tokens(tokens.clone());
    let _follow = rotation::follow_tokens(folder.path().to_owned(), site.server.clone());
    let guarded = site.guarded();
    let knocks = async |token: &str| guarded.send(with_token(Ask::get(MAPS), token)).await.code;
    assert_eq!((knocks(&tokens.admin).await, knocks(ADMIN).await), (200, 401));
    let fresh = Tokens::random().admin;
    capstan_base::private_file::write(&folder.path().join("admin.token"), &fresh).expect("written");
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(
        (knocks(&fresh).await, knocks(&tokens.admin).await, knocks(&tokens.read_only).await),
        (200, 401, 200)
    );
}
