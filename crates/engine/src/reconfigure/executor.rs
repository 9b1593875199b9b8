//! Commands on nodes: one at a time, through a program that is called like ssh. Owns how it is called; must not know which
//! commands, nor their order.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::thread;

use async_trait::async_trait;

use kubeadm_change::command_line::CommandLine;
use kubeadm_change::host_lock;

/// A node as a command reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTarget {
    pub node: String,
    /// What the program connects to: an address, or the node's name.
    pub host: String,
}

/// A command that did not end well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecutorError {
    #[error("cannot run {program}: {reason}; check --ssh-program")]
    Program { program: String, reason: String },
    /// Nothing was begun; it may be tried again.
    #[error("{node} is busy: another command of a change runs there{}", process(.kubeadm))]
    Busy { node: String, kubeadm: String },
    #[error("`{line}` on {node} ended with {status}{}", last_lines(.output))]
    Failed { node: String, line: String, status: String, output: String },
}

fn last_lines(output: &str) -> String {
    let last: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = last.len().saturating_sub(5);
    if last.is_empty() { String::new() } else { format!(": {}", last[from..].join("; ")) }
}

impl ExecutorError {
    /// The last words of what did not work, without the line.
    pub fn words(&self) -> String {
        match self {
            Self::Failed { status, output, .. } => {
                let last = last_lines(output);
                last.strip_prefix(": ").map_or_else(|| status.clone(), str::to_owned)
            }
            other => other.to_string(),
        }
    }
}

/// The process of kubeadm, where it is one.
fn process(kubeadm: &str) -> String {
    let numbers: Vec<&str> = kubeadm.split_whitespace().collect();
    if numbers.is_empty() { String::new() } else { format!(" (kubeadm, process {})", numbers.join(", ")) }
}

/// Runs commands on nodes.
#[async_trait]
pub trait NodeExecutor: Send + Sync {
    /// Runs one line of a POSIX shell as root, with `input` on its standard input, and gives what it printed. While something
    /// else is at work on the host the line is not begun: [`ExecutorError::Busy`].
    async fn run(
        &self,
        target: &CommandTarget,
        line: &CommandLine,
        input: &str,
    ) -> Result<String, ExecutorError>;

    /// Runs one line that only reads, beside whatever is at work on the host.
    async fn look(&self, target: &CommandTarget, line: &CommandLine) -> Result<String, ExecutorError>;
}

/// The system's ssh, or a program that is called in the same way.
#[derive(Clone, Debug)]
pub struct Ssh {
    pub program: String,
    pub user: Option<String>,
    /// The user is not root: lines run through `sudo -n`.
    pub sudo: bool,
}

impl Ssh {
    fn command(&self, target: &CommandTarget, line: &CommandLine) -> Command {
        let mut command = Command::new(&self.program);
        // Never a question, never a host that is not known: both need a person.
        command.args(["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=15"]);
        // Without it a connection that was cut would be waited for without end.
        command.args(["-o", "ServerAliveInterval=15"]);
        if let Some(user) = &self.user {
            command.args(["-l", user]);
        }
        let line =
            if self.sudo { CommandLine::of("sudo -n sh -c {}", [line.as_str()]) } else { line.clone() };
        // The dashes keep a host that begins with one from being read as an option.
        command.args(["--", &target.host, line.as_str()]).env("CAPSTAN_NODE", &target.node);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `sent` for `line`, which is the one that is named when it fails.
    async fn send(
        &self,
        target: &CommandTarget,
        (line, sent): (&CommandLine, &CommandLine),
        input: &str,
    ) -> Result<String, ExecutorError> {
        let (mut command, input) = (self.command(target, sent), input.to_owned());
        let program = |reason: String| ExecutorError::Program { program: self.program.clone(), reason };
        // A command may take minutes, for which no thread of the runtime may stand still.
        let run = tokio::task::spawn_blocking(move || run_to_end(&mut command, &input)).await;
        let output =
            run.map_err(|error| program(error.to_string()))?.map_err(|error| program(error.to_string()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        if output.status.code() == Some(host_lock::BUSY) {
            return Err(ExecutorError::Busy { node: target.node.clone(), kubeadm: text(&output.stdout) });
        }
        Err(ExecutorError::Failed {
            node: target.node.clone(),
            line: line.to_string(),
            status: output.status.to_string(),
            output: text(&output.stderr) + &text(&output.stdout),
        })
    }
}

#[async_trait]
impl NodeExecutor for Ssh {
    async fn run(
        &self,
        target: &CommandTarget,
        line: &CommandLine,
        input: &str,
    ) -> Result<String, ExecutorError> {
        self.send(target, (line, &host_lock::alone(line)), input).await
    }

    async fn look(&self, target: &CommandTarget, line: &CommandLine) -> Result<String, ExecutorError> {
        self.send(target, (line, line), "").await
    }
}

fn run_to_end(command: &mut Command, input: &str) -> std::io::Result<Output> {
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    thread::scope(|scope| {
        // Written beside the reading: a program that prints more than a pipe holds before it reads
        // would wait for ever, and so would we.
        scope.spawn(move || {
            if let Some(mut stdin) = stdin {
                // A program that does not read its input ends the pipe: its own status says more.
                let _ = stdin.write_all(input.as_bytes());
            }
        });
        child.wait_with_output()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> CommandTarget {
        CommandTarget { node: "cp-0".to_owned(), host: "10.0.0.1".to_owned() }
    }

    #[test]
    fn the_program_is_called_like_ssh() {
        let ssh = Ssh { program: "ssh".to_owned(), user: Some("admin".to_owned()), sudo: true };
        let command = ssh.command(&target(), &CommandLine::of("test -e {}", ["a b"]));
        let arguments: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(arguments[..4], ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]);
        let line = CommandLine::of("sudo -n sh -c {}", ["test -e 'a b'"]);
        assert_eq!(arguments[8..], ["-l", "admin", "--", "10.0.0.1", line.as_str()]);
    }

    #[tokio::test]
    async fn output_input_and_failure() {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/reconfigure/ssh").to_owned();
        let ssh = Ssh { program, user: None, sudo: false };
        let line = CommandLine::of("cat && echo done", []);
        assert_eq!(ssh.run(&target(), &line, "text\n").await.as_deref(), Ok("text\ndone\n"));
        let much = "x".repeat(200_000);
        let line = CommandLine::of("head -c 200000 /dev/zero | tr '\\0' y; cat", []);
        let both = ssh.run(&target(), &line, &much).await.expect("both pipes are served");
        assert_eq!(both.len(), 400_000);
        let line = CommandLine::of("echo no space >&2; exit 3", []);
        let error = ssh.run(&target(), &line, "").await.expect_err("3").to_string();
        assert_eq!(error, "`echo no space >&2; exit 3` on cp-0 ended with exit status: 3: no space");
        let error =
            ssh.run(&target(), &CommandLine::of("exit 75", []), "").await.expect_err("busy").to_string();
        assert_eq!(error, "cp-0 is busy: another command of a change runs there");
        let error =
            ExecutorError::Busy { node: "cp-0".to_owned(), kubeadm: "71\n72\n".to_owned() }.to_string();
        assert!(error.ends_with("runs there (kubeadm, process 71, 72)"), "{error}");
        let error =
            ssh.look(&target(), &CommandLine::of("echo no key >&2; exit 255", [])).await.expect_err("255");
        assert_eq!(error.words(), "no key");
        let missing = Ssh { program: "/nowhere/ssh".to_owned(), user: None, sudo: false };
        let error = missing
            .run(&target(), &CommandLine::of("true", []), "")
            .await
            .expect_err("no program")
            .to_string();
        assert!(
            error.starts_with("cannot run /nowhere/ssh: ") && error.ends_with("; check --ssh-program"),
            "{error}"
        );
    }
}
