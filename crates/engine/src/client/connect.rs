//! From a kubeconfig, the environment of a pod, or a service in this process to a connected client.
//! Owns how a server is found and trusted; must not know the requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kube::client::{Body, ClientBuilder};
use kube::config::Kubeconfig;
use kube::{Client, Config};
use tokio::time::{Instant, timeout};
use tower::{BoxError, Service};

use super::context_settings::{ContextSetting, ContextSettings};
use super::errors::{Cause, classify, explain};
use super::json_lines::JsonLinesLayer;
use super::kubeconfig::{Chosen, Merged};
use super::live::{Live, Reload, Route};
use super::login::{LoginError, PluginTerminal};
use super::proxy::{self, Environment, Proxy};
use super::pulse::{Pulse, PulseLayer};
use super::read_only::ReadOnlyLayer;
use super::retry;
use capstan_base::time::Clock;

/// How long the first request may take before the server counts as dead.
const HELLO_TIMEOUT: Duration = Duration::from_secs(15);

/// Where to connect and how.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// `--kubeconfig`; else `$KUBECONFIG`, `~/.kube/config`, the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`; else the file's current one.
    pub context: Option<String>,
    /// `-n`; else the context's namespace.
    pub namespace: Option<String>,
    /// Lets only reads leave the process.
    pub read_only: bool,
    /// No namespace that is set for the context narrows what is looked at.
    pub all_namespaces: bool,
    /// What a person set for contexts.
    pub settings: ContextSettings,
    /// `--as`, `--as-group`.
    pub impersonated: Impersonated,
    /// Where credential plugins talk to a person.
    pub terminal: PluginTerminal,
}

impl ConnectOptions {
    /// Nothing may be written where they lead, whether or not that server answers.
    pub fn forbid_writes(&self) -> bool {
        let context = || self.context.clone().or_else(|| load(self).ok().map(|route| route.context));
        self.read_only || context().is_some_and(|context| self.settings.of(&context).read_only)
    }
}

/// In whose name requests are sent, in place of the kubeconfig's user. The server decides whether that user may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonated {
    pub user: Option<String>,
    /// Only with a user.
    pub groups: Vec<String>,
}

impl Impersonated {
    fn apply(&self, config: &mut Config) {
        let Some(user) = &self.user else { return };
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups = Some(self.groups.clone()).filter(|groups| !groups.is_empty());
    }
}

/// A client and what is known about the other end.
#[derive(Clone)]
pub struct Connection {
    pub client: Client,
    /// The kubeconfig context, `in-cluster`, or the name given to [`in_process`].
    pub context: String,
    /// The server's address, for messages.
    pub server: String,
    /// The namespace to use when none is named.
    pub namespace: String,
    pub read_only: bool,
    /// What a person set for the context.
    pub setting: ContextSetting,
    /// What the client's requests show about the other end.
    pub pulse: Pulse,
}

/// Why there is no connection: sentences for an operator.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot read kubeconfig {}: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("kubeconfig {origin} is not valid: {reason}")]
    Invalid { origin: String, reason: String },
    #[error("no kubeconfig: neither --kubeconfig, $KUBECONFIG nor {} leads to one, and this is not a pod", default.display())]
    Missing { default: PathBuf },
    #[error("there is no context {wanted:?} in {origin}; it has: {}", list(known))]
    UnknownContext { wanted: String, origin: String, known: Vec<String> },
    #[error("{origin} names no current context; choose one with --context: {}", list(known))]
    NoContext { origin: String, known: Vec<String> },
    #[error("no proxy can be used: {0}")]
    Proxy(String),
    #[error("no credentials for {server}: {source}")]
    Login { server: String, source: LoginError },
    /// No API server answers, or none that works: a sentence.
    #[error("{0}")]
    Unanswered(String),
    #[error("{0}")]
    Server(String),
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Reads the configuration, builds the client and sends one request, so that a dead server, a wrong
/// certificate or a refused login is reported here and not by the first screen.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect(options: &ConnectOptions) -> Result<Connection, ConnectError> {
    let connection = prepare(options).await?;
    hello(&connection, HELLO_TIMEOUT).await?;
    Ok(connection)
}

/// [`connect`] for a caller who has so long for everything: credential plugins, the connection and the first answer.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect_within(limit: Duration, options: &ConnectOptions) -> Result<Connection, ConnectError> {
    let began = Instant::now();
    let late = |_| {
        ConnectError::Server(format!(
            "the credentials were not there within {} s: look at the credential plugin of the kubeconfig",
            whole_seconds(limit)
        ))
    };
    let connection = timeout(limit, prepare(options)).await.map_err(late)??;
    // What credential plugins took of the limit is not given again.
    hello(&connection, HELLO_TIMEOUT.min(limit.saturating_sub(began.elapsed()))).await?;
    Ok(connection)
}

/// [`connect`] without the first request: for a dashboard that shows the error and keeps trying.
///
/// # Errors
/// [`ConnectError`], never [`ConnectError::Unanswered`] for a server that is only away.
pub async fn prepare(options: &ConnectOptions) -> Result<Connection, ConnectError> {
    let route = load(options)?;
    let mut again = options.clone();
    // By its name: a file that makes another context current must not lead this connection
    // elsewhere.
    again.context = Some(route.context.clone());
    let reload: Reload = Arc::new(move || load(&again).ok());
    let reload = (!route.files.is_empty()).then_some(reload);
    finish(route, reload, options).await
}

async fn finish(
    mut route: Route,
    reload: Option<Reload>,
    options: &ConnectOptions,
) -> Result<Connection, ConnectError> {
    let setting = options.settings.of(&route.context);
    let of_setting = setting.namespace.as_ref().filter(|_| !options.all_namespaces);
    if let Some(namespace) = options.namespace.as_ref().or(of_setting) {
        route.config.default_namespace.clone_from(namespace);
    }
    let (context, namespace) = (route.context.clone(), route.config.default_namespace.clone());
    let server = route.config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let live = Live::open(route, reload, options.terminal.clone(), Clock::system()).await;
    let live = live.map_err(|source| ConnectError::Login { server: server.clone(), source })?;
    let (pulse, read_only) = (Pulse::default(), options.read_only || setting.read_only);
    let client = layered(live, &namespace, read_only, &pulse);
    Ok(Connection { client, context, server, namespace, read_only, setting, pulse })
}

fn layered(live: Live, namespace: &str, read_only: bool, pulse: &Pulse) -> Client {
    let builder = ClientBuilder::new(live, namespace).with_layer(&retry::when_asked());
    let builder = builder.with_layer(&PulseLayer(pulse.clone())).with_layer(&JsonLinesLayer);
    // Outside of the pulse: what is refused here shows nothing about the server.
    if read_only { builder.with_layer(&ReadOnlyLayer).build() } else { builder.build() }
}

/// A connection to an API server that is a service in this process: no socket, same client.
pub fn in_process<S, B>(service: S, name: &str, namespace: &str, read_only: bool) -> Connection
where
    S: Service<Request<Body>, Response = http::Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + Send + 'static,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let pulse = Pulse::default();
    let builder = ClientBuilder::new(service, namespace);
    let builder = builder.with_layer(&PulseLayer(pulse.clone())).with_layer(&JsonLinesLayer);
    let client = if read_only { builder.with_layer(&ReadOnlyLayer).build() } else { builder.build() };
    Connection {
        client,
        context: name.to_owned(),
        server: "this process".to_owned(),
        namespace: namespace.to_owned(),
        read_only,
        setting: ContextSetting::default(),
        pulse,
    }
}

/// A connection from a kubeconfig that came out of a Secret. A person who may write that Secret must not
/// gain rights on this machine, so credentials that run programs or read files are refused.
///
/// # Errors
/// [`ConnectError::Invalid`] when it is not a kubeconfig or names a program or a file.
pub async fn from_secret(text: &str, origin: &str, read_only: bool) -> Result<Connection, ConnectError> {
    let chosen = Merged::of_text(text, origin)?.choose(None)?;
    if let Some(reason) = reaches_out(&chosen.config) {
        return Err(ConnectError::Invalid { origin: origin.to_owned(), reason });
    }
    let options = ConnectOptions { read_only, ..ConnectOptions::default() };
    finish(configured(chosen, origin)?, None, &options).await
}

/// A kubeconfig that came out of a Secret, for a program of the person's, which may use any context in it. It is written anew, so that
/// the program reads what was looked at here, however it understands the Secret's text.
///
/// # Errors
/// [`ConnectError::Invalid`] as for [`from_secret`].
pub fn harmless(text: &str, origin: &str) -> Result<String, ConnectError> {
    let invalid = |reason| ConnectError::Invalid { origin: origin.to_owned(), reason };
    let merged = Merged::of_text(text, origin)?;
    match reaches_out(merged.whole()) {
        Some(reason) => Err(invalid(reason)),
        None => serde_json::to_string_pretty(merged.whole()).map_err(|error| invalid(error.to_string())),
    }
}

/// What in a kubeconfig would run a program or read a file here.
fn reaches_out(config: &Kubeconfig) -> Option<String> {
    let users = config.auth_infos.iter().filter_map(|user| user.auth_info.as_ref());
    for user in users {
        // Whoever may write the Secret would run programs as the user of this process.
        if user.exec.is_some() || user.auth_provider.is_some() {
            return Some("it runs a credential program, which a Secret may not ask for".to_owned());
        }
        if user.token_file.is_some() || user.client_certificate.is_some() || user.client_key.is_some() {
            return Some("it names local files, which a Secret may not ask for".to_owned());
        }
    }
    let mut clusters = config.clusters.iter().filter_map(|cluster| cluster.cluster.as_ref());
    clusters
        .any(|cluster| cluster.certificate_authority.is_some())
        .then(|| "it names local files, which a Secret may not ask for".to_owned())
}

/// One cheap request, with a limit in time.
async fn hello(connection: &Connection, limit: Duration) -> Result<(), ConnectError> {
    match timeout(limit, connection.client.apiserver_version()).await {
        Ok(Ok(_)) => Ok(()),
        // Some servers refuse /version to ordinary users; an answer is enough.
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => Ok(()),
        Ok(Err(error)) => Err(unconnected(&error, &connection.server)),
        Err(_) => Err(ConnectError::Unanswered(format!(
            "{} did not answer within {} s: check the network, proxies and firewalls between",
            connection.server,
            whole_seconds(limit)
        ))),
    }
}

fn unconnected(error: &kube::Error, server: &str) -> ConnectError {
    let sentence = explain(error, server);
    match classify(error) {
        Cause::Unreachable | Cause::UnknownHost | Cause::Proxy | Cause::TimedOut | Cause::ServerTrouble => {
            ConnectError::Unanswered(sentence)
        }
        _ => ConnectError::Server(sentence),
    }
}

/// Rounded up, so that what is left of five seconds is said as five.
fn whole_seconds(limit: Duration) -> u64 {
    limit.as_secs() + u64::from(limit.subsec_nanos() > 0)
}

fn load(options: &ConnectOptions) -> Result<Route, ConnectError> {
    let mut route = match Merged::read(options.kubeconfig.as_deref()) {
        Ok(merged) => {
            let mut route = configured(merged.choose(options.context.as_deref())?, merged.origin())?;
            route.files.extend_from_slice(merged.files());
            route
        }
        // As kubectl: a kubeconfig that is there comes before the service account of the pod.
        Err(missing @ ConnectError::Missing { .. }) => in_cluster()?.ok_or(missing)?,
        Err(error) => return Err(error),
    };
    options.impersonated.apply(&mut route.config);
    Ok(route)
}

/// The route of a context, unless something of it cannot be used.
fn configured(chosen: Chosen, origin: &str) -> Result<Route, ConnectError> {
    let invalid = |reason: String| ConnectError::Invalid { origin: origin.to_owned(), reason };
    let chosen = chosen.usable().map_err(invalid)?;
    let config = chosen.setup().map_err(invalid)?;
    let proxy = proxy_to(chosen.proxy_url(), &config)?;
    Ok(Route { config, proxy, files: chosen.files(), context: chosen.context })
}

fn proxy_to(proxy_url: Option<&str>, config: &Config) -> Result<Option<Proxy>, ConnectError> {
    proxy::choose(proxy_url, &config.cluster_url, &Environment::of_process()).map_err(ConnectError::Proxy)
}

fn in_cluster() -> Result<Option<Route>, ConnectError> {
    let Ok(config) = Config::incluster() else { return Ok(None) };
    let proxy = proxy_to(None, &config)?;
    Ok(Some(Route { config, proxy, files: Vec::new(), context: "in-cluster".to_owned() }))
}

/// The contexts of the kubeconfig that [`prepare`] would read; none where there is none that can be read.
pub fn contexts(kubeconfig: Option<&Path>) -> Vec<String> {
    Merged::read(kubeconfig).map(|merged| merged.names()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    const FILE: &str = r#"
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts:
- {name: one, context: {cluster: c, user: u, namespace: fleet}}
- {name: two, context: {cluster: c, user: u}}
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: PLUGIN, interactiveMode: Never}}}]
"#;

    fn options(text: &str, context: Option<&str>) -> (tempfile::TempDir, ConnectOptions) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config");
        std::fs::write(&path, text).expect("written");
        let context = context.map(str::to_owned);
        (dir, ConnectOptions { kubeconfig: Some(path), context, ..ConnectOptions::default() })
    }

    fn with_token(token: &str) -> String {
        let plugin =
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: PLUGIN, interactiveMode: Never}";
        FILE.replace(plugin, &format!("token: \"{token}\""))
    }

    async fn refusal(options: &ConnectOptions) -> String {
        prepare(options).await.map(|_| ()).expect_err("refused").to_string()
    }

    #[tokio::test]
    async fn a_token_that_no_header_takes_is_named() {
        let text = refusal(&options(&with_token(r"a\nb"), None).1).await;
        assert!(
            text.starts_with(
                "no credentials for https://127.0.0.1:1: a token or a password has a line break"
            ),
            "{text}"
        );
    }

    #[tokio::test]
    async fn bad_files_are_named_with_the_reason() {
        let missing =
            ConnectOptions { kubeconfig: Some("/no/such/file".into()), ..ConnectOptions::default() };
        let text = refusal(&missing).await;
        assert!(text.contains("/no/such/file") && text.contains("No such file"), "{text}");
        let (_dir, broken) = options("contexts: {not: [a list", None);
        let text = refusal(&broken).await;
        assert!(text.contains("is not valid"), "{text}");
        let (_dir, empty) = options("", None);
        let text = refusal(&empty).await;
        assert!(text.contains("no current context"), "{text}");
    }

    #[tokio::test]
    async fn an_unknown_context_lists_the_known_ones() {
        let (_dir, options) = options(FILE, Some("three"));
        let text = refusal(&options).await;
        assert!(text.contains("\"three\"") && text.contains("one, two"), "{text}");
    }

    #[tokio::test]
    async fn plugins_get_no_terminal_and_their_complaint_is_shown() {
        let dir = tempfile::tempdir().expect("a directory");
        let plugin = dir.path().join("plugin");
        // Its exit code shows whether it could read a byte, and which mode it was given.
        let script = "#!/bin/sh\nif read -r line; then echo got input >&2; exit 3; fi\n\
            case \"$KUBERNETES_EXEC_INFO\" in *'\"interactive\":false'*) echo no terminal here >&2; exit 4;; esac\nexit 5\n";
        std::fs::write(&plugin, script).expect("written");
        std::fs::set_permissions(&plugin, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("executable");
        let (_dir, options) = options(&FILE.replace("PLUGIN", &plugin.display().to_string()), None);
        let text = refusal(&options).await;
        assert!(text.contains("credential plugin") && text.contains("no terminal here"), "{text}");
    }

    #[tokio::test]
    async fn a_secret_may_not_run_programs_or_read_files() {
        let text = from_secret(FILE, "Secret a/b", true).await.map(|_| ()).expect_err("refused").to_string();
        assert!(text.contains("Secret a/b") && text.contains("credential program"), "{text}");
        let file = FILE.replace(
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: PLUGIN, interactiveMode: Never}",
            "tokenFile: /etc/shadow",
        );
        let text = from_secret(&file, "Secret a/b", true).await.map(|_| ()).expect_err("refused").to_string();
        assert!(text.contains("local files"), "{text}");
    }

    #[test]
    fn what_a_person_gets_of_a_secret_runs_no_program_in_any_context() {
        let plugin =
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: PLUGIN, interactiveMode: Never}";
        let other = format!("users: [{{name: other, user: {{{plugin}}}}}, ");
        let text = harmless(&with_token("t").replace("users: [", &other), "Secret a/b").expect_err("refused");
        assert!(text.to_string().contains("credential program"), "{text}");
        let text = harmless(&with_token("t"), "Secret a/b").expect("it can be given out");
        let again = Merged::of_text(&text, "Secret a/b").and_then(|merged| merged.choose(Some("two")));
        let user = again.expect("a kubeconfig").config.auth_infos.remove(0).auth_info.expect("a user");
        assert_eq!(user.token.map(|token| token.expose_secret().to_owned()).as_deref(), Some("t"));
    }

    #[tokio::test]
    async fn a_silent_server_is_waited_for_as_long_as_the_caller_has() {
        // The system takes connections for it, and the test does not read them.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (_dir, options) = options(&with_token("t").replace("127.0.0.1:1", &address), Some("two"));
        let began = std::time::Instant::now();
        let text = connect_within(Duration::from_millis(300), &options).await.map(|_| ());
        let text = text.expect_err("nothing answers").to_string();
        assert!(text.contains(&format!("https://{address} did not answer within 1 s")), "{text}");
        assert!(began.elapsed() < HELLO_TIMEOUT, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_dead_server_is_one_sentence() {
        let (_dir, options) = options(&with_token("t"), Some("two"));
        let text = connect(&options).await.map(|_| ()).expect_err("port 1 is closed").to_string();
        assert!(text.contains("no API server answers at https://127.0.0.1:1"), "{text}");
    }
}
