//! Commands on nodes: one at a time, through ssh. Owns that no two of them run beside each other on a host, and the words of
//! their failures; must not know which commands, nor their order.

use async_trait::async_trait;

use capstan_base::command_line::CommandLine;
use capstan_remote::destination::Destination;
use capstan_remote::openssh::{Call, CallError, OpenSsh};
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
    #[error(transparent)]
    Ssh(#[from] CallError),
    /// What the cluster says of a node is no address of one.
    #[error("{node} is not reached: {reason}")]
    Host { node: String, reason: String },
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

/// Runs `sent` for `line`, which is the one that is named when it fails. A command may take minutes, and has no limit.
async fn send(
    ssh: &OpenSsh,
    target: &CommandTarget,
    (line, sent): (&CommandLine, &CommandLine),
    input: &str,
) -> Result<String, ExecutorError> {
    let to = Destination::host(&target.host)
        .map_err(|error| ExecutorError::Host { node: target.node.clone(), reason: error.to_string() })?;
    let environment = [("CAPSTAN_NODE", target.node.as_str())];
    let call = Call { to: &to, line: sent, input: input.as_bytes(), environment: &environment, limit: None };
    let answer = ssh.call(call).await?;
    if answer.is_success() {
        return Ok(answer.stdout);
    }
    if answer.code == Some(host_lock::BUSY) {
        return Err(ExecutorError::Busy { node: target.node.clone(), kubeadm: answer.stdout });
    }
    Err(ExecutorError::Failed {
        node: target.node.clone(),
        line: line.to_string(),
        status: answer.status,
        output: answer.stderr + &answer.stdout,
    })
}

#[async_trait]
impl NodeExecutor for OpenSsh {
    async fn run(
        &self,
        target: &CommandTarget,
        line: &CommandLine,
        input: &str,
    ) -> Result<String, ExecutorError> {
        send(self, target, (line, &host_lock::alone(line)), input).await
    }

    async fn look(&self, target: &CommandTarget, line: &CommandLine) -> Result<String, ExecutorError> {
        send(self, target, (line, line), "").await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> CommandTarget {
        CommandTarget { node: "cp-0".to_owned(), host: "10.0.0.1".to_owned() }
    }

    #[tokio::test]
    async fn output_input_and_failure() {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/reconfigure/ssh").to_owned();
        let ssh = OpenSsh::named(&program);
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
        let missing = OpenSsh::named("/nowhere/ssh");
        let error = missing
            .run(&target(), &CommandLine::of("true", []), "")
            .await
            .expect_err("no program")
            .to_string();
        assert!(
            error.starts_with("cannot run /nowhere/ssh: ") && error.ends_with("; check --ssh-program"),
            "{error}"
        );
        let option = CommandTarget { node: "cp-0".to_owned(), host: "-oProxyCommand=id".to_owned() };
        let error = ssh.look(&option, &CommandLine::of("true", [])).await.expect_err("an option").to_string();
        assert!(error.starts_with("cp-0 is not reached: `-oProxyCommand=id` is not the name"), "{error}");
    }
}
