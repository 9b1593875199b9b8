//! The way to a server through proxies that run in this process: which is taken, what goes through it, and what is said when
//! it refuses.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use capstan_apiserver::serve::tls::Authority;
use capstan_base::time::Clock;
use capstan_engine::client::proxy::{Environment, choose};
use capstan_engine::client::{ConnectOptions, Connection, connect};
use capstan_engine::workload::static_pods::secure_page;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, ListParams, PostParams, WatchParams};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

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

/// A proxy on a port of its own, and what it was asked for.
struct Running {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
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
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let acceptor =
            tls.map(|authority| TlsAcceptor::from(authority.server_config(address).expect("a certificate")));
        let (asked, is_socks) = (Arc::<Mutex<Vec<String>>>::default(), scheme == "socks5");
        let log = asked.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, log) = (acceptor.clone(), log.clone());
                tokio::spawn(async move {
                    let stream: Box<dyn Duplex> = match acceptor {
                        Some(acceptor) => Box::new(acceptor.accept(stream).await.ok()?),
                        None => Box::new(stream),
                    };
                    if is_socks {
                        socks(stream, manner, &log).await
                    } else {
                        http(stream, manner, &log).await
                    }
                });
            }
        });
        Self { address, asked, task }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
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
async fn http(mut stream: Box<dyn Duplex>, manner: Manner, log: &Mutex<Vec<String>>) -> Option<()> {
    let head = head(&mut stream).await?;
    let line = head.lines().next()?.to_owned();
    log.lock().push(line.clone());
    let login = format!("proxy-authorization: basic {}", BASE64.encode("ann:p@ss")).to_lowercase();
    let answer: Option<&[u8]> = match manner {
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
    let mut server = TcpStream::connect(target).await.ok()?;
    stream.write_all(b"HTTP/1.0 200 Connection established\r\n\r\n").await.ok()?;
    tokio::io::copy_bidirectional(&mut stream, &mut server).await.ok().map(drop)
}

/// `None` when the client has gone.
async fn socks(mut stream: Box<dyn Duplex>, manner: Manner, log: &Mutex<Vec<String>>) -> Option<()> {
    let mut greeting = [0; 2];
    stream.read_exact(&mut greeting).await.ok()?;
    let mut methods = vec![0; usize::from(greeting[1])];
    stream.read_exact(&mut methods).await.ok()?;
    let wanted = if manner == Manner::WithLogin { 2 } else { 0 };
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
    log.lock().push(target.clone());
    let server = if manner == Manner::Forbidding { None } else { TcpStream::connect(target).await.ok() };
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

/// A list, a watch with news, and a port-forward, which is a WebSocket.
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
}

#[tokio::test]
async fn lists_watches_and_forwarded_ports_go_through_each_kind_of_proxy() {
    let harbor = Harbor::start().await;
    let config: Value = serde_saphyr::from_slice(&harbor.kubeconfig().await).expect("a kubeconfig");
    let (_, control_plane) = harbor.nodes().await;
    let pods = Api::<Pod>::namespaced(harbor.client.clone(), "kube-system");
    let pod = format!("kube-apiserver-{control_plane}");
    until("the static pod", async || pods.get(&pod).await.is_ok()).await;
    let server = config["clusters"][0]["cluster"]["server"].as_str().expect("a server");
    let target = server.trim_start_matches("https://").to_owned();
    for (scheme, manner) in [
        ("http", Manner::Open),
        ("http", Manner::WithLogin),
        ("socks5", Manner::Open),
        ("socks5", Manner::WithLogin),
    ] {
        let proxy = Running::start(scheme, manner, None).await;
        let login = if manner == Manner::WithLogin { "ann:p%40ss@" } else { "" };
        let connection = through(&config, &format!("{scheme}://{login}{}", proxy.address)).await;
        let name = format!("by-{scheme}-{manner:?}").to_lowercase();
        works(&connection.expect("connected"), &harbor, &name).await;
        let asked = proxy.asked();
        let expected = if scheme == "http" { format!("CONNECT {target} HTTP/1.1") } else { target.clone() };
        assert!(!asked.is_empty() && asked.iter().all(|line| *line == expected), "{asked:?}");
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
