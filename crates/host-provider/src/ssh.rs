//! The machines behind Hosts, over the operator's own ssh. Owns the files with pinned host keys, and that nothing is changed in
//! `--read-only`; what is sent and how answers are read says `capstan_hosts`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use capstan_base::command_line::CommandLine;
use capstan_base::private_file;
use capstan_base::text::sanitize_line;
use capstan_base::time::Clock;
use capstan_hosts::clean::{self, Proof};
use capstan_hosts::facts::HostFacts;
use capstan_hosts::owner::{self, HostOwner, OwnerAnswer};
use capstan_hosts::probe;
use capstan_hosts::request::{AnswerError, ShellRequest};
use capstan_hosts::run::{self, Changed, Redactor, RunId, RunPlan, Start, Watched};
use capstan_remote::destination::Destination;
use capstan_remote::openssh::{Call, OpenSsh, PINNED_NAME, ShellOutput};
use capstan_remote::sockets::ControlSockets;
use capstan_remote::sudo::Sudo;
use capstan_remote::trouble::SshTrouble;

use super::access::{Claim, Machines, Silence};
use super::reach::SshReach;

/// A machine that does not say what it is by then is silent.
const FACTS_LIMIT: Duration = Duration::from_secs(30);

/// Machines over ssh.
pub struct SshMachines {
    /// Program and control sockets; the rest comes from each Host.
    ssh: OpenSsh,
    /// Control sockets and pinned keys, of this process alone. It is made when the first machine is called, as most processes call none.
    folder: OnceLock<TempDir>,
    clock: Clock,
    is_read_only: bool,
}

impl SshMachines {
    /// Nothing is called, and nothing made, before a machine is asked.
    pub fn new(program: &str, clock: Clock, is_read_only: bool) -> Self {
        Self { ssh: OpenSsh::named(program), folder: OnceLock::new(), clock, is_read_only }
    }

    fn folder(&self) -> Result<&Path, Silence> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder.path());
        }
        let own = Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix("capstan-ssh-").permissions(own).tempdir();
        let made = made.map_err(|error| {
            Silence::because(format!("cannot make a folder for ssh's control sockets: {error}; check TMPDIR"))
        })?;
        // Where another thread was faster, its folder counts and this one goes.
        Ok(self.folder.get_or_init(|| made).path())
    }

    /// Ssh as it is called for one Host.
    fn ssh(&self, at: &SshReach) -> Result<OpenSsh, Silence> {
        let host_keys = match at.host_keys.as_slice() {
            [] => None,
            keys => Some(self.pinned(keys)?),
        };
        let sudo = if at.sudo { Sudo::Passwordless } else { Sudo::No };
        // A connection that was made with other keys is not theirs. Where no folder is fit, each line makes one.
        let sockets = ControlSockets::at(&self.folder()?.join(digest(&at.host_keys))).ok();
        Ok(OpenSsh { jump: at.jump.clone(), sudo, host_keys, sockets, ..self.ssh.clone() })
    }

    /// A known-hosts file with these keys and no others, named by what is in it, so that it is written once.
    fn pinned(&self, keys: &[String]) -> Result<PathBuf, Silence> {
        let text: String = keys.iter().map(|key| format!("{PINNED_NAME} {}\n", sanitize_line(key))).collect();
        let path = self.folder()?.join(format!("{}.keys", digest(keys)));
        write_once(&path, &text).map_err(|error| Silence::because(error.to_string()))?;
        Ok(path)
    }

    async fn ask<T>(
        &self,
        at: &SshReach,
        request: ShellRequest,
        read: impl FnOnce(&str) -> Result<T, AnswerError>,
    ) -> Result<T, Silence> {
        if request.changes && self.is_read_only {
            return Err(Silence::read_only());
        }
        let ssh = self.ssh(at)?;
        let limit = Duration::from_secs(request.limit_s);
        let output = call(&ssh, &at.to, &request.line, &request.input, limit).await?;
        read(&output.stdout).map_err(|error| Silence::because(format!("{error}{}", complaint(&output))))
    }
}

/// What a machine is, by a program that changes nothing and needs no sudo: it finds out by itself whether sudo is there.
///
/// # Errors
/// The machine does not answer, or not with facts.
pub async fn facts(
    ssh: &OpenSsh,
    to: &Destination,
    limit: Duration,
    clock: &Clock,
) -> Result<HostFacts, Silence> {
    let line = CommandLine::of("sh -s", []);
    let before = clock.now();
    let output = call(ssh, to, &line, probe::PROGRAM.as_bytes(), limit).await?;
    let between = before + (clock.now() - before) / 2;
    probe::read(&output.stdout, between.timestamp())
        .map_err(|error| Silence::because(format!("{error}{}", complaint(&output))))
}

async fn call(
    ssh: &OpenSsh,
    to: &Destination,
    line: &CommandLine,
    input: &[u8],
    limit: Duration,
) -> Result<ShellOutput, Silence> {
    let environment = [("CAPSTAN_NODE", to.host.as_str())];
    let call = Call { to, line, input, environment: &environment, limit: Some(limit) };
    let output = ssh.call(call).await.map_err(|error| Silence::because(error.to_string()))?;
    let Some((trouble, reason)) = output.trouble() else { return Ok(output) };
    let is_about_keys = matches!(trouble, SshTrouble::UnknownHostKey | SshTrouble::ChangedHostKey);
    let offered = if is_about_keys { ssh.offered_keys(to).await } else { Vec::new() };
    Err(Silence { trouble: Some(trouble), offered, ..Silence::because(reason) })
}

/// A name for a set of keys; short, as it is part of the path of a socket.
fn digest(keys: &[String]) -> String {
    let digest = Sha256::digest(keys.join("\n").as_bytes());
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn write_once(path: &Path, text: &str) -> Result<(), private_file::FileError> {
    if private_file::read(path).is_ok_and(|held| held.as_deref() == Some(text)) {
        return Ok(());
    }
    private_file::write(path, text)
}

/// What a shell complained about that did not come to its end.
fn complaint(output: &ShellOutput) -> String {
    match output.stderr.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => format!(" ({}: {})", output.status, sanitize_line(line)),
        None => format!(" ({})", output.status),
    }
}

#[async_trait]
impl Machines for SshMachines {
    async fn facts(&self, at: &SshReach) -> Result<HostFacts, Silence> {
        let ssh = OpenSsh { sudo: Sudo::No, ..self.ssh(at)? };
        facts(&ssh, &at.to, FACTS_LIMIT, &self.clock).await
    }

    async fn owner(&self, at: &SshReach) -> Result<OwnerAnswer, Silence> {
        self.ask(at, owner::look(), owner::read).await
    }

    async fn prove(&self, at: &SshReach) -> Result<Proof, Silence> {
        self.ask(at, clean::prove(), clean::read).await
    }

    async fn claim(&self, at: &SshReach, claim: &Claim, owner: &HostOwner) -> Result<OwnerAnswer, Silence> {
        let request = match claim {
            Claim::Make => owner::claim(owner),
            Claim::TakeFrom(before) => owner::take_over(owner, before),
            Claim::Release => owner::release(owner),
        };
        self.ask(at, request, owner::read).await
    }

    async fn upload(&self, at: &SshReach, plan: &RunPlan, owner: &HostOwner) -> Result<Changed, Silence> {
        self.ask(at, run::upload(plan, owner), run::read_changed).await
    }

    async fn start(
        &self,
        at: &SshReach,
        id: &RunId,
        owner: &HostOwner,
        start: &Start,
    ) -> Result<Changed, Silence> {
        self.ask(at, run::start(id, owner, *start), run::read_changed).await
    }

    async fn watch(
        &self,
        at: &SshReach,
        id: &RunId,
        log_from: u64,
        redactor: &Redactor,
    ) -> Result<Watched, Silence> {
        self.ask(at, run::watch(id, log_from), |stdout| run::read_watch(stdout, redactor)).await
    }

    async fn stop(&self, at: &SshReach, id: &RunId, owner: &HostOwner) -> Result<Changed, Silence> {
        self.ask(at, run::stop(id, owner), run::read_changed).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_hosts::bootstrap::{self, Instance};
    use capstan_hosts::run::RunOptions;

    fn reach(host_keys: &[&str]) -> SshReach {
        SshReach {
            to: Destination::host("h1").expect("a host"),
            jump: Vec::new(),
            host_keys: host_keys.iter().map(|key| (*key).to_owned()).collect(),
            sudo: false,
        }
    }

    /// No program is there to be called.
    fn machines(is_read_only: bool) -> SshMachines {
        SshMachines::new("/nowhere/ssh", Clock::system(), is_read_only)
    }

    #[tokio::test]
    async fn read_only_looks_and_changes_nothing() {
        let owner = HostOwner::new("here", "host", "machine", "ns/c", 1).expect("an owner");
        let start = Start { attempt: 1, from_step: 1 };
        let run = RunId::bootstrap("machine").expect("an id");
        let machines = machines(true);
        let at = reach(&[]);
        for claim in [Claim::Make, Claim::TakeFrom(owner.clone()), Claim::Release] {
            let silence = machines.claim(&at, &claim, &owner).await.expect_err("refused");
            assert!(silence.reason.contains("--read-only"), "{claim:?}: {silence}");
        }
        let instance = Instance { instance_id: "machine".to_owned(), local_hostname: "h1".to_owned() };
        let data = bootstrap::read("#cloud-config\nruncmd:\n- kubeadm init\n", &instance).expect("data");
        let plan = RunPlan::bootstrap(run.clone(), &data, &RunOptions::default());
        for changed in [
            machines.upload(&at, &plan, &owner).await,
            machines.start(&at, &run, &owner, &start).await,
            machines.stop(&at, &run, &owner).await,
        ] {
            let silence = changed.expect_err("refused");
            assert!(silence.is_read_only && silence.reason.contains("--read-only"), "{silence}");
        }
        for looked in [
            machines.owner(&at).await.err(),
            machines.prove(&at).await.err(),
            machines.facts(&at).await.err(),
        ] {
            let reason = looked.expect("there is no ssh").reason;
            assert!(reason.starts_with("cannot run /nowhere/ssh"), "{reason}");
        }
    }

    #[test]
    fn pinned_keys_have_a_file_and_connections_of_their_own() {
        let machines = machines(false);
        let open = machines.ssh(&reach(&[])).expect("ssh");
        let one = machines.ssh(&reach(&["ssh-ed25519 AAAA", "ssh-rsa BBBB"])).expect("ssh");
        let other = machines.ssh(&reach(&["ssh-ed25519 CCCC"])).expect("ssh");
        assert_eq!(open.host_keys, None);
        let file = one.host_keys.clone().expect("a file");
        let text = std::fs::read_to_string(&file).expect("its text");
        assert_eq!(text, "capstan-pinned ssh-ed25519 AAAA\ncapstan-pinned ssh-rsa BBBB\n");
        assert_ne!(one.host_keys, other.host_keys);
        assert!(one.sockets.is_some() && one.sockets != other.sockets && one.sockets != open.sockets);
    }
}
