//! `capstan simulated-ssh`, which is called as ssh is and runs a line on a simulated host; and the program that a
//! standalone server writes for it. Owns the words of the command line; must not know what a host does.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use tokio_util::task::AbortOnDropHandle;

use capstan_base::private_file;
use capstan_commands::exit_code::WrongUsage;
use capstan_commands::output;
use capstan_worlds::standalone::stack::Stack;
use capstan_worlds::workload_api::commands::{HostCommand, send};

/// What `simulated-ssh` is called with.
#[derive(Clone, Debug, Args)]
pub struct SimulatedSshArgs {
    /// The socket at which simulated hosts take commands
    #[arg(long, value_name = "FILE")]
    pub socket: PathBuf,
    /// Options of ssh, the host, and the command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "[OPTION] HOST COMMAND")]
    pub words: Vec<String>,
}

/// Options of ssh that have a value of their own.
const WITH_VALUE: [&str; 6] = ["-o", "-l", "-p", "-i", "-F", "-J"];
/// A command that reads what it is given.
const READS_INPUT: &str = "/dev/stdin";

/// Runs the line, prints what it printed, and returns its exit status.
///
/// # Errors
/// No host or line, or nobody takes commands at the socket.
pub async fn run(args: &SimulatedSshArgs) -> anyhow::Result<u8> {
    let Some((host, line)) = host_and_line(&args.words) else {
        bail!(WrongUsage("simulated-ssh: expected HOST COMMAND after the options of ssh".to_owned()));
    };
    let mut input = String::new();
    if line.contains(READS_INPUT) {
        std::io::stdin().read_to_string(&mut input).context("the standard input cannot be read")?;
    }
    let answer = send(&args.socket, &HostCommand { host, line, input }).await;
    let place = args.socket.display();
    let answer = answer.with_context(|| {
        format!(
            "no simulated hosts take commands at {place}: is `capstan standalone --simulated-ssh` running?"
        )
    })?;
    output::print(&answer.stdout)?;
    answer.stderr.lines().for_each(output::remark);
    Ok(u8::try_from(answer.status).unwrap_or(1))
}

/// Of words as ssh takes them: options, perhaps `--`, the host, and the rest as one line.
fn host_and_line(words: &[String]) -> Option<(String, String)> {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
        if word == "--" {
            at += 1;
            break;
        }
        at += if WITH_VALUE.contains(&word.as_str()) { 2 } else { 1 };
    }
    let (host, line) = (words.get(at)?, words.get(at + 1..)?.join(" "));
    let host = host.rsplit_once('@').map_or(host.as_str(), |(_, host)| host);
    (!line.is_empty()).then(|| (host.to_owned(), line))
}

/// Writes the program when one is asked for, and takes what it sends, until the handle is dropped.
///
/// # Errors
/// The file or its socket cannot be made, or nothing is simulated here.
pub async fn offer(program: Option<&Path>, stack: &Stack) -> anyhow::Result<Option<AbortOnDropHandle<()>>> {
    let Some(program) = program else { return Ok(None) };
    let apis = stack.workload_apis().context("--simulated-ssh: nothing is simulated here")?;
    private_file::check_target(program).context("--simulated-ssh")?;
    // The program is called from any folder.
    let program = std::path::absolute(program).context("--simulated-ssh")?;
    let socket = PathBuf::from(format!("{}.sock", program.display()));
    let taking = apis.take_commands(&socket).await.context("--simulated-ssh")?;
    let own = std::env::current_exe().context("the path of capstan is not known")?;
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
    let text = format!(
        "#!/bin/sh\n# Called as ssh is, it runs a line on a simulated host of capstan.\nexec {} simulated-ssh --socket {} \"$@\"\n",
        quoted(&own),
        quoted(&socket)
    );
    private_file::write(&program, &text).context("--simulated-ssh")?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700))
        .with_context(|| format!("{} cannot be made a program", program.display()))?;
    Ok(Some(taking))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_as_ssh_takes_them() {
        let read =
            |words: &[&str]| host_and_line(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let expected = Some(("10.0.0.1".to_owned(), "systemctl restart kubelet".to_owned()));
        for words in [
            &["-o", "BatchMode=yes", "-l", "root", "--", "10.0.0.1", "systemctl restart kubelet"][..],
            &["10.0.0.1", "systemctl", "restart", "kubelet"],
            &["-T", "root@10.0.0.1", "systemctl restart kubelet"],
        ] {
            assert_eq!(read(words), expected, "{words:?}");
        }
        for words in [&[][..], &["-o", "x", "host"], &["--", "host"]] {
            assert_eq!(read(words), None, "{words:?}");
        }
    }
}
