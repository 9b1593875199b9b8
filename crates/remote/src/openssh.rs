//! The system's OpenSSH client, or a program that is called in the same way. Owns its arguments; must not know which lines are run.

use std::path::PathBuf;
use std::time::Duration;

use tokio::process::Command;

use capstan_base::command_line::CommandLine;
use capstan_base::text::counted;

use super::destination::Destination;
pub use super::host_key::PINNED_NAME;
use super::host_key::{self, HostKey, PublicKey};
use super::program::run_to_end;
use super::sockets::ControlSockets;
use super::sudo::{Sudo, refusal_of};
use super::trouble::{OF_SSH, SshTrouble, of_complaint};

/// Of each stream of a line so much is kept.
const OUTPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// A host that does not say its keys by then is not waited for.
const KEYS_WITHIN: Duration = Duration::from_secs(10);

/// As long as ssh itself waits for a connection, and some more for the next hop.
const WAY_WITHIN: Duration = Duration::from_secs(20);

/// For every hop. Never a question, never a host that is not known: both need a person. Without a question of its own, a connection
/// that was cut would be waited for without end. What the user's agent and screen can do is none of the host's business.
const OPTIONS: [&str; 6] = [
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "ConnectTimeout=15",
    "ServerAliveInterval=15",
    "ForwardAgent=no",
    "ForwardX11=no",
];

/// How ssh is called for every host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSsh {
    pub program: String,
    pub user: Option<String>,
    pub sudo: Sudo,
    /// Hosts to go through, in their order; none: as the ssh configuration says.
    pub jump: Vec<Destination>,
    /// A known-hosts file whose keys, of the host [`PINNED_NAME`], are the only ones that are trusted. `None`: as the ssh
    /// configuration says. It does not count for jump hosts.
    pub host_keys: Option<PathBuf>,
    /// Where connections are kept open; `None`: each line makes one, unless the ssh configuration says otherwise.
    pub sockets: Option<ControlSockets>,
}

/// One line for one host.
#[derive(Clone, Debug)]
pub struct Call<'c> {
    pub to: &'c Destination,
    pub line: &'c CommandLine,
    pub input: &'c [u8],
    /// For programs around ssh, not for the host.
    pub environment: &'c [(&'static str, &'c str)],
    /// `None`: as long as it takes.
    pub limit: Option<Duration>,
}

/// What a line printed, and its exit status as words and as a number (`None`: ended by a signal).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellOutput {
    pub code: Option<i32>,
    pub status: String,
    pub stdout: String,
    pub stderr: String,
}

impl ShellOutput {
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// Why there was no shell, where ssh itself failed, with its own words. A line that ends with 255 looks the same.
    pub fn trouble(&self) -> Option<(SshTrouble, String)> {
        (self.code == Some(OF_SSH)).then(|| of_complaint(&self.stderr))
    }
}

/// No answer at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("cannot run {program}: {reason}; check --ssh-program")]
    Program { program: String, reason: String },
    #[error("no end within {}", counted(*.0, "second"))]
    TimedOut(u64),
    #[error("sudo gave no shell of root: {0}; check the password, and that sudo asks for nothing else")]
    Sudo(String),
}

/// What ssh makes of a destination (`ssh -G`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Resolved {
    hostname: Option<String>,
    port: Option<u16>,
    is_behind_another: bool,
}

impl OpenSsh {
    /// The program by its name, everything else as its configuration says.
    pub fn named(program: &str) -> Self {
        let program = program.to_owned();
        Self { program, user: None, sudo: Sudo::No, jump: Vec::new(), host_keys: None, sockets: None }
    }

    fn arguments(&self, to: &Destination, line: &CommandLine) -> Vec<String> {
        let mut words = options_of(&OPTIONS);
        words.extend(self.pinned());
        let sockets = self.sockets.iter().flat_map(|sockets| sockets.options(&self.way(to)));
        words.extend(sockets.flat_map(|option| ["-o".to_owned(), option]));
        if let Some(proxy) = self.proxy(&self.jump) {
            words.extend(["-o".to_owned(), format!("ProxyCommand={}", proxy.as_str())]);
        }
        words.extend(place(to, self.user.as_ref()));
        let line = self.sudo.around(line);
        // The dashes keep a host that begins with one from being read as an option.
        words.extend(["--".to_owned(), to.host.clone(), line.as_str().to_owned()]);
        words
    }

    /// Only the pinned keys, where there are any.
    fn pinned(&self) -> Vec<String> {
        let Some(file) = &self.host_keys else { return Vec::new() };
        let options = [
            format!("UserKnownHostsFile={}", quoted(&file.display().to_string())),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
            "KnownHostsCommand=none".to_owned(),
            format!("HostKeyAlias={PINNED_NAME}"),
            "VerifyHostKeyDNS=no".to_owned(),
            "UpdateHostKeys=no".to_owned(),
        ];
        options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect()
    }

    /// The command that gets a connection through these jump hosts: its input and output are the connection. `-J` would do the same
    /// without the options, which ssh does not hand on: a jump host could ask a question, or be taken for known.
    fn proxy(&self, jump: &[Destination]) -> Option<CommandLine> {
        let (last, before) = jump.split_last()?;
        let mut words = vec![self.program.replace('%', "%%")];
        words.extend(options_of(&OPTIONS));
        if let Some(proxy) = self.proxy(before) {
            // What is expanded for this hop is not for the one before it.
            words.extend(["-o".to_owned(), format!("ProxyCommand={}", proxy.as_str().replace('%', "%%"))]);
        }
        words.extend(place(last, None));
        words.extend(["-W", "[%h]:%p", "--"].map(str::to_owned));
        words.push(last.host.replace('%', "%%"));
        words.iter().map(|word| CommandLine::of("{}", [word.as_str()])).reduce(|line, word| line.with(&word))
    }

    /// What a connection that is kept open is for, where jump hosts lead to it; empty otherwise.
    fn way(&self, to: &Destination) -> String {
        if self.jump.is_empty() {
            return String::new();
        }
        let hops: Vec<String> = self.jump.iter().chain([to]).map(ToString::to_string).collect();
        format!("{} {}", self.user.as_deref().unwrap_or_default(), hops.join(","))
    }

    /// Runs one line of a POSIX shell on a host.
    ///
    /// # Errors
    /// Ssh cannot be started, or time ran out. What the line or ssh said stands in the answer.
    pub async fn call(&self, call: Call<'_>) -> Result<ShellOutput, CallError> {
        let mut command = Command::new(&self.program);
        command.args(self.arguments(call.to, call.line)).envs(call.environment.iter().copied());
        let opening = self.sudo.opening();
        let ended = run_to_end(command, call.input, opening, call.limit, OUTPUT_BYTES_MAX).await;
        let ended = ended.map_err(|error| CallError::Program {
            program: self.program.clone(),
            reason: error.to_string(),
        })?;
        let Some(status) = ended.status else {
            return Err(CallError::TimedOut(call.limit.map_or(0, |limit| limit.as_secs())));
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !ended.is_open && status.code() != Some(OF_SSH) {
            return Err(CallError::Sudo(refusal_of(&text(&ended.stderr))));
        }
        let mut output = ShellOutput {
            code: status.code(),
            status: status.to_string(),
            stdout: text(&ended.stdout),
            stderr: text(&ended.stderr),
        };
        if matches!(output.trouble(), Some((SshTrouble::Unreachable, _)))
            && let Some(complaint) = self.complaint_of_way(&call).await
        {
            output.stderr = complaint;
        }
        Ok(output)
    }

    /// What is wrong on the way through jump hosts: ssh throws their complaints away where it keeps a connection open, so that a key
    /// that changed would look like a machine that is away ("Connection closed by UNKNOWN"). Anything else that ssh says it says itself,
    /// and is not asked for again.
    async fn complaint_of_way(&self, call: &Call<'_>) -> Option<String> {
        if self.jump.is_empty() || self.sockets.is_none() {
            return None;
        }
        let ssh = Self { sockets: None, sudo: Sudo::No, ..self.clone() };
        let line = CommandLine::of("true", []);
        let asked = Call { line: &line, input: b"", limit: Some(WAY_WITHIN), ..call.clone() };
        let answer = Box::pin(ssh.call(asked)).await.ok()?;
        answer.trouble().is_some().then_some(answer.stderr)
    }

    /// The same, in full: type and base64, for those that a person compared to be pinned.
    pub async fn offered_public_keys(&self, to: &Destination) -> Vec<PublicKey> {
        host_key::public_keys_of_lines(&self.scanned(to).await)
    }

    /// The keys that a host offers now, for a person to compare; none where it cannot be asked directly, as behind a jump host.
    pub async fn offered_keys(&self, to: &Destination) -> Vec<HostKey> {
        host_key::of_lines(&self.scanned(to).await)
    }

    /// What `ssh-keyscan` prints of a host; nothing where it cannot be asked.
    async fn scanned(&self, to: &Destination) -> String {
        if !self.jump.is_empty() {
            return String::new();
        }
        let resolved = self.resolved(to).await;
        if resolved.is_behind_another {
            return String::new();
        }
        let host = resolved.hostname.unwrap_or_else(|| to.host.clone());
        let port = to.port.or(resolved.port).unwrap_or(22).to_string();
        // What a configuration says is text of a person, and still no option.
        let Ok(to) = Destination::host(&host) else { return String::new() };
        let mut command = Command::new("ssh-keyscan");
        command.args(["-T", "5", "-p", &port, "--", &to.host]);
        let ended = run_to_end(command, b"", None, Some(KEYS_WITHIN), OUTPUT_BYTES_MAX).await;
        ended.map(|ended| String::from_utf8_lossy(&ended.stdout).into_owned()).unwrap_or_default()
    }

    async fn resolved(&self, to: &Destination) -> Resolved {
        let mut command = Command::new(&self.program);
        command.arg("-G").args(place(to, self.user.as_ref())).args(["--", &to.host]);
        let ended = run_to_end(command, b"", None, Some(KEYS_WITHIN), OUTPUT_BYTES_MAX).await;
        ended.map(|ended| resolved_of(&String::from_utf8_lossy(&ended.stdout))).unwrap_or_default()
    }
}

fn options_of(options: &[&str]) -> Vec<String> {
    options.iter().flat_map(|option| ["-o".to_owned(), (*option).to_owned()]).collect()
}

/// User and port.
fn place(to: &Destination, otherwise: Option<&String>) -> Vec<String> {
    let mut words = Vec::new();
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    if let Some(user) = to.user.as_ref().or(otherwise) {
        option("-l", user.clone());
    }
    if let Some(port) = to.port {
        option("-p", port.to_string());
    }
    words
}

/// A path as ssh takes several of them: a blank would begin another one.
fn quoted(path: &str) -> String {
    format!("\"{}\"", path.replace('"', ""))
}

fn resolved_of(text: &str) -> Resolved {
    let mut found = Resolved::default();
    for (name, value) in text.lines().filter_map(|line| line.split_once(' ')) {
        match name {
            "hostname" => found.hostname = Some(value.to_owned()),
            "port" => found.port = value.parse().ok(),
            "proxyjump" | "proxycommand" if value != "none" => found.is_behind_another = true,
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sudo::Password;

    fn ssh() -> OpenSsh {
        OpenSsh::named("ssh")
    }

    #[test]
    fn the_program_is_called_as_ssh_is() {
        let to: Destination = "root@[fd00::1]:2222".parse().expect("a destination");
        let jump = ["admin@bastion:22", "inner"].map(|text| text.parse().expect("a destination")).to_vec();
        let ssh = OpenSsh { user: Some("nobody".to_owned()), sudo: Sudo::Passwordless, jump, ..ssh() };
        let words = ssh.arguments(&to, &CommandLine::of("test -e {}", ["a b"]));
        assert_eq!(words[..4], ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]);
        let line = CommandLine::of("sudo -n sh -c {}", ["test -e 'a b'"]);
        assert_eq!(words[14..], ["-l", "root", "-p", "2222", "--", "fd00::1", line.as_str()]);
        let plain = OpenSsh { user: Some("admin".to_owned()), ..self::ssh() };
        let words = plain.arguments(&Destination::host("h1").expect("a host"), &CommandLine::of("true", []));
        assert_eq!(words[12..], ["-l", "admin", "--", "h1", "true"]);
    }

    /// Ssh expands `%` once for each hop, and a shell takes the quotes of one away.
    #[test]
    fn every_jump_host_is_called_with_the_options() {
        let jump = ["admin@fe80::1%eth0", "inner:2222"].map(|text| text.parse().expect("a destination"));
        let ssh = OpenSsh { jump: jump.to_vec(), ..ssh() };
        let options: String = OPTIONS.iter().map(|option| format!("-o {option} ")).collect();
        let unquoted = |text: &str| text.replace(['\'', '\\'], "");
        let alone = ssh.proxy(&ssh.jump[..1]).expect("a command");
        assert_eq!(unquoted(alone.as_str()), format!("ssh {options}-l admin -W [%h]:%p -- fe80::1%%eth0"));
        let both = ssh.proxy(&ssh.jump).expect("a command");
        let inner = format!("ProxyCommand=ssh {options}-l admin -W [%%h]:%%p -- fe80::1%%%%eth0");
        assert_eq!(unquoted(both.as_str()), format!("ssh {options}-o {inner} -p 2222 -W [%h]:%p -- inner"));
        assert_eq!(ssh.proxy(&[]), None);
    }

    #[test]
    fn a_connection_that_is_kept_is_of_one_way() {
        let folder = tempfile::tempdir().expect("a folder");
        let sockets = ControlSockets::at(&folder.path().join("s")).expect("made");
        let to = Destination::host("10.0.0.1").expect("a host");
        let path = |jump: &[&str]| {
            let jump = jump.iter().map(|text| text.parse().expect("a destination")).collect();
            let ssh = OpenSsh { jump, sockets: Some(sockets.clone()), ..ssh() };
            let words = ssh.arguments(&to, &CommandLine::of("true", []));
            words.into_iter().find(|word| word.starts_with("ControlPath=")).expect("a path")
        };
        let paths = [path(&[]), path(&["a"]), path(&["b"]), path(&["a", "b"]), path(&["b", "a"])];
        assert!(paths[0].ends_with("/%C"), "{paths:?}");
        let different: std::collections::BTreeSet<&String> = paths.iter().collect();
        assert_eq!(different.len(), paths.len(), "{paths:?}");
        assert_eq!(path(&["a"]), paths[1]);
    }

    #[test]
    fn pinned_keys_are_the_only_ones() {
        let ssh = OpenSsh { host_keys: Some(PathBuf::from("/run/a b/keys")), ..ssh() };
        let words = ssh.arguments(&Destination::host("h1").expect("a host"), &CommandLine::of("true", []));
        let options: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "-o").collect();
        for wanted in [
            "StrictHostKeyChecking=yes",
            "UserKnownHostsFile=\"/run/a b/keys\"",
            "GlobalKnownHostsFile=/dev/null",
            "KnownHostsCommand=none",
            "HostKeyAlias=capstan-pinned",
        ] {
            assert!(options.contains(&wanted), "{wanted}: {options:?}");
        }
    }

    #[test]
    fn what_ssh_makes_of_a_name_is_read() {
        let text = "host h1\nhostname 10.77.0.11\nport 2222\nproxycommand none\n";
        let plain =
            Resolved { hostname: Some("10.77.0.11".to_owned()), port: Some(2222), is_behind_another: false };
        assert_eq!(resolved_of(text), plain);
        assert!(resolved_of("proxyjump bastion\n").is_behind_another);
        assert_eq!(resolved_of(""), Resolved::default());
    }

    /// A shell in the place of ssh: it takes `-o` as an option of its own, so the line has to be found by a script.
    fn shell() -> OpenSsh {
        OpenSsh::named(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/reconfigure/ssh"))
    }

    async fn said(line: CommandLine, limit: Option<Duration>) -> Result<ShellOutput, CallError> {
        let to = Destination::host("h1").expect("a host");
        let environment = [("CAPSTAN_NODE", "h1")];
        shell().call(Call { to: &to, line: &line, input: b"text\n", environment: &environment, limit }).await
    }

    #[tokio::test]
    async fn output_status_and_trouble_are_kept_apart() {
        let answer = said(CommandLine::of("cat; echo no >&2; exit 3", []), None).await.expect("an answer");
        assert_eq!(
            (answer.code, answer.stdout.as_str(), answer.stderr.as_str()),
            (Some(3), "text\n", "no\n")
        );
        assert_eq!(answer.trouble(), None);
        let line = CommandLine::of("echo 'x: Permission denied (publickey).' >&2; exit 255", []);
        let answer = said(line, None).await.expect("an answer");
        assert_eq!(answer.trouble().map(|(trouble, _)| trouble), Some(SshTrouble::Denied));
        let missing = OpenSsh::named("/nowhere/ssh");
        let to = Destination::host("h1").expect("a host");
        let line = CommandLine::of("true", []);
        let call = Call { to: &to, line: &line, input: b"", environment: &[], limit: None };
        let error = missing.call(call).await.expect_err("no program").to_string();
        assert!(error.starts_with("cannot run /nowhere/ssh: ") && error.ends_with("; check --ssh-program"));
    }

    /// What is said where the complaints of jump hosts are thrown away (`ControlMaster`), and how often ssh is called for it.
    #[tokio::test]
    async fn the_way_is_asked_once_more_only_where_ssh_says_too_little() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("ssh");
        let script = "#!/bin/sh\necho called >>\"$FOLDER/calls\"\ncase \"$*\" in *ControlMaster*) cat \"$FOLDER/says\" >&2 ;; *) echo 'No ED25519 host key is known for bastion' >&2 ;; esac\nexit 255\n";
        std::fs::write(&program, script).expect("written");
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("a mode");
        let sockets = ControlSockets::at(&folder.path().join("s")).expect("made");
        let jump = vec![Destination::host("bastion").expect("a host")];
        let named = OpenSsh::named(&program.display().to_string());
        let ssh = OpenSsh { jump, sockets: Some(sockets), ..named };
        let to = Destination::host("h1").expect("a host");
        let line = CommandLine::of("true", []);
        let place = folder.path().display().to_string();
        let environment = [("FOLDER", place.as_str())];
        for (says, trouble, times) in [
            ("", SshTrouble::UnknownHostKey, 2),
            ("of no known sentence\n", SshTrouble::UnknownHostKey, 2),
            ("Connection closed by UNKNOWN port 65535\n", SshTrouble::UnknownHostKey, 2),
            ("root@h1: Permission denied (publickey).\n", SshTrouble::Denied, 1),
            ("Host key verification failed.\n", SshTrouble::UnknownHostKey, 1),
            ("command-line: line 0: Bad configuration option: x\n", SshTrouble::Configuration, 1),
        ] {
            std::fs::write(folder.path().join("says"), says).expect("written");
            std::fs::write(folder.path().join("calls"), "").expect("written");
            let call = Call { to: &to, line: &line, input: b"", environment: &environment, limit: None };
            let answer = ssh.call(call).await.expect("an answer");
            assert_eq!(answer.trouble().map(|(trouble, _)| trouble), Some(trouble), "{says}");
            let calls = std::fs::read_to_string(folder.path().join("calls")).expect("calls");
            assert_eq!(calls.lines().count(), times, "{says}");
        }
    }

    /// A shell that stands in for ssh, on a host where sudo wants a password.
    fn with_password(password: &str) -> OpenSsh {
        OpenSsh { sudo: Sudo::Password(Password::new(password.to_owned())), ..shell() }
    }

    async fn answered(ssh: &OpenSsh, sudo: &'static str) -> Result<ShellOutput, CallError> {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("sudo");
        std::fs::write(&program, format!("#!/bin/sh\n{sudo}\n")).expect("written");
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("a mode");
        let place = folder.path().display().to_string();
        let path = format!("{place}:{}", std::env::var("PATH").unwrap_or_default());
        let to = Destination::host("h1").expect("a host");
        let line = CommandLine::of("cat; echo complaint >&2; exit 3", []);
        let environment = [("CAPSTAN_NODE", "h1"), ("PATH", path.as_str())];
        let limit = Some(Duration::from_secs(20));
        ssh.call(Call { to: &to, line: &line, input: b"text\n", environment: &environment, limit }).await
    }

    #[tokio::test]
    async fn a_password_is_written_when_sudo_asks_and_never_before() {
        // As sudo does it: it asks on its error stream, and reads one line.
        let asks = r#"echo banner >&2; printf %s "$3" >&2; read -r word; [ "$word" = right ] || { printf 'Sorry, try again.\n%s' "$3" >&2; read -r word || echo 'sudo: no password was provided' >&2; exit 1; }; shift 3; exec "$@""#;
        let answer = answered(&with_password("right"), asks).await.expect("an answer");
        let streams = (answer.code, answer.stdout.as_str(), answer.stderr.as_str());
        assert_eq!(streams, (Some(3), "text\n", "complaint\n"), "the password is not part of the input");
        let error = answered(&with_password("wrong"), asks).await.expect_err("refused").to_string();
        let expected = "sudo gave no shell of root: sudo: no password was provided; check the password";
        assert!(error.starts_with(expected), "{error}");
        // It asks for nothing, as NOPASSWD has it: the password is not sent.
        let answer = answered(&with_password("right"), r#"shift 3; exec "$@""#).await.expect("an answer");
        assert_eq!((answer.code, answer.stdout.as_str()), (Some(3), "text\n"));
        let tty = "echo 'sudo: sorry, you must have a tty to run sudo' >&2; exit 1";
        let error = answered(&with_password("right"), tty).await.expect_err("refused");
        assert_eq!(error, CallError::Sudo("sudo: sorry, you must have a tty to run sudo".to_owned()));
    }

    #[test]
    fn no_password_is_in_an_argument_or_in_debug() {
        let ssh = with_password("a-secret");
        let to = Destination::host("h1").expect("a host");
        let words = ssh.arguments(&to, &CommandLine::of("true", []));
        assert!(!words.concat().contains("a-secret") && !format!("{ssh:?}").contains("a-secret"));
    }

    #[tokio::test]
    async fn a_line_has_its_time_and_its_room() {
        let limit = Some(Duration::from_millis(50));
        let error = said(CommandLine::of("exec cat /dev/zero >/dev/null", []), limit).await;
        assert_eq!(error, Err(CallError::TimedOut(0)));
        let much = said(CommandLine::of("head -c 20000000 /dev/zero | tr '\\0' y", []), None).await;
        let much = much.expect("an answer");
        assert_eq!((much.code, much.stdout.len() as u64), (Some(0), OUTPUT_BYTES_MAX));
    }
}
