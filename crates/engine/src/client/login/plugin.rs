//! Credential plugins: programs that print who we are. Owns how they are run and what of their output counts; must not know
//! what the credentials are sent to.
//!
//! Source: client-go `plugin/pkg/client/auth/exec/exec.go` (`refreshCredsLocked`, `wrapCmdRunErrorLocked`), `pkg/apis/clientauthentication`,
//! `tools/clientcmd/api/types.go` (`ExecInteractiveMode`), v0.36.3. Different: a plugin that does not end is stopped.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use kube::config::{ExecConfig, ExecInteractiveMode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::terminal::{PluginNews, PluginTerminal, Sink};
use capstan_base::time::{Timestamp, parse_rfc3339};

/// A person may have to open a page and to enter a code there.
pub const RUN_MAX: Duration = Duration::from_secs(300);
/// More than any credential has.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// What is kept of its complaints, from the end.
const WORDS_BYTES_MAX: usize = 4 << 10;
/// A browser that it has opened may keep its standard error open.
const WORDS_GRACE: Duration = Duration::from_millis(200);
/// Between looks whether one that has closed its output has ended.
const END_LOOK: Duration = Duration::from_millis(10);

/// Why a plugin gave no credentials: sentences for an operator.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PluginError {
    #[error("the credential plugin {program} cannot be started: {reason}{hint}")]
    Start { program: String, reason: String, hint: String },
    #[error("the credential plugin {program} failed: {words} ({status})")]
    Failed { program: String, words: String, status: ExitStatus },
    #[error("the credential plugin {program} did not end within {} s and was stopped; it said: {words}", limit.as_secs())]
    TooLong { program: String, words: String, limit: Duration },
    #[error("the credential plugin {program} printed no credential: {reason}")]
    Output { program: String, reason: String },
    #[error("the credential plugin {program} asks at the terminal (interactiveMode Always), and {reason}")]
    NoTerminal { program: String, reason: &'static str },
}

/// What a plugin printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginCredential {
    pub token: Option<String>,
    /// Certificates and their key, PEM.
    pub certificate: Option<(String, String)>,
    pub expires_at: Option<Timestamp>,
}

/// Runs the plugin to its end.
///
/// # Errors
/// [`PluginError`].
pub async fn run(exec: &ExecConfig, terminal: &PluginTerminal) -> Result<PluginCredential, PluginError> {
    run_within(RUN_MAX, exec, terminal).await
}

async fn run_within(
    limit: Duration,
    exec: &ExecConfig,
    terminal: &PluginTerminal,
) -> Result<PluginCredential, PluginError> {
    let program = exec.command.clone().unwrap_or_default();
    let sink = terminal.sink();
    let is_interactive = is_interactive(exec, &sink)
        .map_err(|reason| PluginError::NoTerminal { program: program.clone(), reason })?;
    let child = command(exec, &sink, is_interactive).spawn().map_err(|error| start_error(exec, &error))?;
    let _shown = sink.shows(&program, limit);
    let words = Arc::new(Mutex::new(String::new()));
    let said = || last_line(&words.lock());
    let Ok((output, status)) = timeout(limit, ended(child, &sink, &words)).await else {
        return Err(PluginError::TooLong { program, words: said(), limit });
    };
    let status = status
        .map_err(|error| PluginError::Output { program: program.clone(), reason: error.to_string() })?;
    if !status.success() {
        return Err(PluginError::Failed { program, words: said(), status });
    }
    let version = exec.api_version.as_deref().unwrap_or_default();
    printed(&output, version).map_err(|reason| PluginError::Output { program, reason })
}

/// May it read from the terminal?
fn is_interactive(exec: &ExecConfig, sink: &Sink) -> Result<bool, &'static str> {
    let has_input = || std::io::stdin().is_terminal();
    match (&exec.interactive_mode, sink) {
        (Some(ExecInteractiveMode::Always), Sink::Shown(_)) => {
            Err("the dashboard has it: log in before, such as with `capstan get clusters`")
        }
        (Some(ExecInteractiveMode::Always), _) if !has_input() => Err("standard input is not one"),
        (Some(ExecInteractiveMode::Always), _) => Ok(true),
        (Some(ExecInteractiveMode::IfAvailable), Sink::Terminal) => Ok(has_input()),
        _ => Ok(false),
    }
}

fn command(exec: &ExecConfig, sink: &Sink, is_interactive: bool) -> Command {
    let mut command = Command::new(exec.command.as_deref().unwrap_or_default());
    command.args(exec.args.iter().flatten());
    let pairs = exec.env.iter().flatten();
    command.envs(
        pairs.filter_map(|pair| Some((pair.get("name")?, pair.get("value").map_or("", String::as_str)))),
    );
    command.env("KUBERNETES_EXEC_INFO", exec_info(exec, is_interactive));
    command.stdin(if is_interactive { Stdio::inherit() } else { Stdio::null() });
    command.stdout(Stdio::piped());
    let is_shared = matches!(sink, Sink::Terminal);
    command.stderr(if is_shared { Stdio::inherit() } else { Stdio::piped() });
    if !is_shared && !is_interactive {
        // The keys of a dashboard are not its own: a group in the background cannot read them.
        command.process_group(0);
    }
    command
}

/// What the plugin is told about us.
fn exec_info(exec: &ExecConfig, is_interactive: bool) -> String {
    let mut spec = json!({ "interactive": is_interactive });
    if let Some(cluster) = exec.cluster.as_ref().and_then(|cluster| serde_json::to_value(cluster).ok()) {
        spec["cluster"] = cluster;
    }
    json!({ "apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec }).to_string()
}

/// What it printed, and how it ended.
async fn ended(
    child: Child,
    sink: &Sink,
    words: &Arc<Mutex<String>>,
) -> (Vec<u8>, std::io::Result<ExitStatus>) {
    let mut child = Killed(child);
    let (told, kept) = (sink.clone(), words.clone());
    let listening = child.0.stderr.take().map(|stderr| in_thread(move || listen(stderr, &told, &kept)));
    let reading = child.0.stdout.take().map(|stdout| in_thread(move || read(stdout)));
    // To the end, and before the wait: a program stands still when the pipe is full.
    let output = match reading {
        Some(reading) => reading.await.unwrap_or_default(),
        None => Vec::new(),
    };
    let status = loop {
        match child.0.try_wait() {
            Ok(None) => sleep(END_LOOK).await,
            Ok(Some(status)) => break Ok(status),
            Err(error) => break Err(error),
        }
    };
    if let Some(listening) = listening {
        // What is left of its words is not worth more.
        let _ = timeout(WORDS_GRACE, listening).await;
    }
    (output, status)
}

/// Stopped when nobody waits for it any more.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A thread of its own, since a browser that the plugin has opened may keep a pipe open for hours.
fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
    let (send, done) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = send.send(work());
    });
    done
}

fn read(stdout: impl Read) -> Vec<u8> {
    let mut output = Vec::new();
    // A pipe that breaks is an output that is cut short, which the reader of it says.
    let _ = stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut output);
    output
}

/// Passes on what it says, line by line, and keeps the end of it.
fn listen(mut stderr: impl Read, sink: &Sink, words: &Mutex<String>) {
    let mut bytes = [0; 1024];
    let mut line = Vec::new();
    while let Ok(count @ 1..) = stderr.read(&mut bytes) {
        for byte in &bytes[..count] {
            if *byte != b'\n' {
                line.push(*byte);
            }
            // A program that writes no line break must not take memory without end.
            if *byte == b'\n' || line.len() >= WORDS_BYTES_MAX {
                keep_line(&mut line, sink, words);
            }
        }
    }
    keep_line(&mut line, sink, words);
}

fn keep_line(line: &mut Vec<u8>, sink: &Sink, words: &Mutex<String>) {
    let text = capstan_base::text::sanitize_line(String::from_utf8_lossy(line).trim_end());
    line.clear();
    if text.is_empty() {
        return;
    }
    let mut words = words.lock();
    // A line always fits: they are cut at that length.
    if words.len() + text.len() > WORDS_BYTES_MAX {
        words.clear();
    }
    let _ = writeln!(words, "{text}");
    sink.send(PluginNews::Says(text));
}

fn last_line(words: &str) -> String {
    words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing").trim().to_owned()
}

fn start_error(exec: &ExecConfig, error: &std::io::Error) -> PluginError {
    let program = exec.command.clone().unwrap_or_default();
    let is_missing = error.kind() == std::io::ErrorKind::NotFound;
    let reason = match program.contains(std::path::MAIN_SEPARATOR) {
        true if is_missing => "there is no such file".to_owned(),
        false if is_missing => "it is not installed, or not in $PATH".to_owned(),
        _ => error.to_string(),
    };
    let hint = exec.install_hint.as_deref().map(str::trim).filter(|hint| !hint.is_empty());
    PluginError::Start { program, reason, hint: hint.map(|hint| format!("\n\n{hint}")).unwrap_or_default() }
}

fn printed(output: &[u8], version: &str) -> Result<PluginCredential, String> {
    // client-go's decoder takes YAML as well.
    let value: Value = serde_saphyr::from_slice(output).map_err(|_| "it is not JSON".to_owned())?;
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    if text("kind") != "ExecCredential" {
        return Err(format!("its kind is {:?}, not ExecCredential", text("kind")));
    }
    if text("apiVersion") != version {
        return Err(format!("it is of {:?}, and the kubeconfig asks for {version:?}", text("apiVersion")));
    }
    let status = value.get("status").filter(|status| status.is_object()).ok_or("it has no status")?;
    let word = |field: &str| status[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let (certificate, key) = (word("clientCertificateData"), word("clientKeyData"));
    if certificate.is_some() != key.is_some() {
        return Err("it has only one of clientCertificateData and clientKeyData".to_owned());
    }
    let (token, certificate) = (word("token"), certificate.zip(key));
    if token.is_none() && certificate.is_none() {
        return Err("it has neither a token nor a certificate".to_owned());
    }
    let expires_at = word("expirationTimestamp")
        .map(|text| parse_rfc3339(&text).ok_or_else(|| format!("its expirationTimestamp is {text:?}")))
        .transpose()?;
    Ok(PluginCredential { token, certificate, expires_at })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const VERSION: &str = "client.authentication.k8s.io/v1";

    fn exec(script: &str) -> ExecConfig {
        ExecConfig {
            api_version: Some(VERSION.to_owned()),
            command: Some("/bin/sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script.to_owned()]),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        }
    }

    async fn complaint(exec: &ExecConfig) -> String {
        complaint_within(Duration::from_secs(60), exec).await
    }

    async fn complaint_within(limit: Duration, exec: &ExecConfig) -> String {
        run_within(limit, exec, &PluginTerminal::default()).await.expect_err("refused").to_string()
    }

    #[test]
    fn what_counts_of_the_output() {
        let credential = |version: &str, status: Value| {
            json!({ "kind": "ExecCredential", "apiVersion": version, "status": status }).to_string()
        };
        let v1 = |status| credential(VERSION, status);
        let token = PluginCredential { token: Some("t".to_owned()), ..PluginCredential::default() };
        let both = PluginCredential {
            certificate: Some(("c".to_owned(), "k".to_owned())),
            expires_at: parse_rfc3339("2026-11-29T00:00:00Z"),
            ..token.clone()
        };
        let whole = json!({ "token": "t", "clientCertificateData": "c", "clientKeyData": "k",
            "expirationTimestamp": "2026-11-29T00:00:00Z" });
        for (output, expected) in [
            (v1(json!({ "token": "t" })), Ok(token)),
            (v1(whole), Ok(both)),
            (v1(json!({ "token": "" })), Err("neither a token nor a certificate")),
            (v1(json!({ "token": "t", "clientKeyData": "k" })), Err("only one of")),
            (v1(json!({ "token": "t", "expirationTimestamp": "soon" })), Err("\"soon\"")),
            (v1(json!(null)), Err("no status")),
            (credential("client.authentication.k8s.io/v1beta1", json!({ "token": "t" })), Err("asks for")),
            ("{}".to_owned(), Err("its kind is \"\"")),
            ("[".to_owned(), Err("not JSON")),
        ] {
            match (printed(output.as_bytes(), VERSION), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{output}: {found}"),
                (found, _) => panic!("{output}: {found:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_failure_names_the_program_and_what_it_said_last() {
        let said = complaint(&exec("echo first >&2; echo log in again >&2; exit 3")).await;
        assert_eq!(said, "the credential plugin /bin/sh failed: log in again (exit status: 3)");
        let waiting = exec("echo open this page >&2; exec sleep 60");
        let said = complaint_within(Duration::from_secs(1), &waiting).await;
        assert!(said.contains("did not end within 1 s and was stopped; it said: open this page"), "{said}");
        let missing = ExecConfig {
            command: Some("kubelogin-nope".to_owned()),
            install_hint: Some("Install it from https://example.invalid".to_owned()),
            ..exec("")
        };
        let said = complaint(&missing).await;
        assert!(said.contains("plugin kubelogin-nope cannot be started: it is not installed"), "{said}");
        assert!(said.ends_with("\n\nInstall it from https://example.invalid"), "{said}");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plugin");
        std::fs::write(&path, "#!/bin/sh").expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("not executable");
        let said = complaint(&ExecConfig { command: Some(path.display().to_string()), ..exec("") }).await;
        assert!(said.contains("Permission denied"), "{said}");
    }

    #[tokio::test]
    async fn it_is_told_of_the_cluster_and_has_no_input() {
        let script = "read -r line && exit 9; case \"$KUBERNETES_EXEC_INFO\" in \
            *'\"interactive\":false'*) ;; *) exit 8;; esac; case \"$KUBERNETES_EXEC_INFO\" in \
            *'\"server\":\"https://one\"'*) ;; *) exit 7;; esac; test \"$COLOUR\" = red || exit 6; echo none >&2; exit 3";
        let cluster = kube::config::ExecAuthCluster {
            server: Some("https://one".to_owned()),
            ..kube::config::ExecAuthCluster::default()
        };
        let variable = [("name".to_owned(), "COLOUR".to_owned()), ("value".to_owned(), "red".to_owned())];
        let exec = ExecConfig { cluster: Some(cluster), env: Some(vec![variable.into()]), ..exec(script) };
        assert_eq!(complaint(&exec).await, "the credential plugin /bin/sh failed: none (exit status: 3)");
    }

    #[tokio::test]
    async fn what_it_says_is_told_while_it_runs_and_its_end() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let terminal = PluginTerminal::default();
        let log = told.clone();
        terminal.show_with(move |news| log.lock().push(news));
        let json = json!({ "kind": "ExecCredential", "apiVersion": VERSION, "status": { "token": "t" } });
        let exec = exec(&format!("echo code ABCD >&2; echo '{json}'"));
        assert_eq!(run(&exec, &terminal).await.expect("a credential").token.as_deref(), Some("t"));
        let program = "/bin/sh".to_owned();
        let expected = [
            PluginNews::Runs { program, limit: RUN_MAX },
            PluginNews::Says("code ABCD".to_owned()),
            PluginNews::Ended,
        ];
        assert_eq!(*told.lock(), expected);
        let always = ExecConfig { interactive_mode: Some(ExecInteractiveMode::Always), ..exec };
        let said = run(&always, &terminal).await.expect_err("refused").to_string();
        assert!(said.contains("the dashboard has it"), "{said}");
    }
}
