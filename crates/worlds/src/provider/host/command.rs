//! The shell of a host: which command a line names, and what the simple ones do to its files. Must not know how kubeadm
//! renders.

use std::ops::ControlFlow;
use std::time::Duration;

use chrono::TimeDelta;
use sha2::{Digest as _, Sha256};

use super::shell::{self, Joint, Simple};
use super::{KUBELET_FILE, KubeadmHost, MANIFESTS, Surroundings, sed};
use kubeadm_change::render::API_SERVER;

/// How long an ordinary command takes.
const QUICK: Duration = Duration::from_millis(30);
/// A command that is not there, as a shell answers.
const NOT_FOUND: i32 = 127;

/// What is installed on a host.
const PROGRAMS: [&str; 8] =
    ["crictl", "curl", "flock", "journalctl", "kubeadm", "openssl", "sha256sum", "systemctl"];

/// What became of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
    /// How long whoever sent it waits for the end.
    pub takes: Duration,
}

impl Output {
    pub(super) fn printed(stdout: impl Into<String>) -> Self {
        Self { stdout: stdout.into(), takes: QUICK, ..Self::default() }
    }

    pub(super) fn failed(status: i32, stderr: impl Into<String>) -> Self {
        Self { status, stderr: stderr.into(), takes: QUICK, ..Self::default() }
    }

    pub(super) fn after(self, takes: Duration) -> Self {
        Self { takes, ..self }
    }

    fn then(mut self, next: Self) -> Self {
        self.status = next.status;
        self.stdout.push_str(&next.stdout);
        self.stderr.push_str(&next.stderr);
        self.takes += next.takes;
        self
    }
}

impl KubeadmHost {
    /// Runs a line as a shell of the host would; `input` is what a command reads.
    pub fn run(&mut self, line: &str, input: &str, around: &Surroundings<'_>) -> Output {
        let commands = match shell::parse(line) {
            Ok(commands) => commands,
            Err(why) => return Output::failed(2, format!("sh: syntax error: {why}\n")),
        };
        let (ControlFlow::Break(output) | ControlFlow::Continue(output)) =
            self.run_all(&commands, input, around);
        output
    }

    /// A break when `exit` ended the shell.
    fn run_all(
        &mut self,
        commands: &[Simple],
        input: &str,
        around: &Surroundings<'_>,
    ) -> ControlFlow<Output, Output> {
        let mut output = Output::default();
        for command in commands {
            // The status is that of the last command that ran; one that is passed over leaves it.
            let runs = match command.joint {
                Joint::Then => true,
                Joint::And => output.status == 0,
                Joint::Or => output.status != 0,
            };
            if !runs {
                continue;
            }
            let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
            if let ["exit", status] = words.as_slice() {
                output.status = status.parse().unwrap_or(2);
                return ControlFlow::Break(output);
            }
            let ran = if command.group.is_empty() {
                ControlFlow::Continue(self.command(&words, input, around))
            } else {
                self.run_all(&command.group, input, around)
            };
            // Braces are no shell of their own: an `exit` in them ends what stands behind them, too.
            let is_over = ran.is_break();
            let (ControlFlow::Break(mut said) | ControlFlow::Continue(mut said)) = ran;
            if command.is_error {
                said.stderr.push_str(&std::mem::take(&mut said.stdout));
            }
            output = output.then(said);
            // A kubelet looks by itself; here it looks after
            // each command, so that the next one finds its work.
            self.sync_pods(around.now);
            self.read_certificates();
            if is_over {
                return ControlFlow::Break(output);
            }
        }
        ControlFlow::Continue(output)
    }

    /// flock(1): the lock is held until the command in it has ended.
    fn flock(&mut self, words: &[&str], input: &str, around: &Surroundings<'_>) -> Output {
        let (waits, busy, rest) = match words {
            ["-n", "-E", status, _, rest @ ..] => (false, status.parse().unwrap_or(1), rest),
            ["-w", _, _, rest @ ..] => (true, 1, rest),
            // 64 is EX_USAGE of sysexits.h, with which flock(1) ends over its options.
            _ => return Output::failed(64, "flock: this form is not simulated\n"),
        };
        // Commands of here end at once; the lock lasts for as long as the command is said to take.
        let left = self.locked_until.and_then(|until| (until - around.now).to_std().ok()).unwrap_or_default();
        if !left.is_zero() && !waits {
            return Output::failed(busy, "");
        }
        // Run at once even so, while the time it takes begins when the lock is free.
        let output = self.command(rest, input, around);
        let takes = left + output.takes;
        self.locked_until = TimeDelta::from_std(takes).ok().map(|takes| around.now + takes);
        output.after(takes)
    }

    fn command(&mut self, words: &[&str], input: &str, around: &Surroundings<'_>) -> Output {
        match without_sudo(words) {
            ["flock", rest @ ..] => self.flock(rest, input, around),
            // Nothing runs between two lines, so that no process of before is ever found.
            ["pgrep", "-x", _] => Output { status: 1, ..Output::printed("") },
            // The shell of here knows no pipes, and what old plans kept ends with the process.
            ["sh", "-c", line] if line.starts_with("ls -dt /etc/kubernetes/tmp/capstan-") => {
                Output::printed("")
            }
            // The host's state is one for all shells: there are no variables to be kept apart.
            ["sh" | "bash", "-c", line] => self.run(line, input, around),
            ["sh", script, ..] if script.ends_with("/back.sh") => self.put_back(script, around),
            // The kubelet of here ends a container as soon as its manifest is away.
            ["timeout", _, "sh", "-c", line] if line.starts_with("while crictl ps -q --name ") => {
                Output::printed("")
            }
            ["timeout", _, "sh", "-c", line] if line.contains("/healthz") => match self.kubelet_works() {
                true => Output::printed(""),
                // 124 is the status of timeout(1) when the time is over.
                false => Output::failed(124, ""),
            },
            ["journalctl", "-u", "kubelet", ..] => Output::printed("the kubelet does not start\n"),
            ["command", "-v", program] if PROGRAMS.contains(program) => {
                Output::printed(format!("/usr/bin/{program}\n"))
            }
            ["command", "-v", _] => Output { status: 1, ..Output::printed("") },
            ["df", "-Pk", folders @ ..] => Output::printed(room(folders)),
            ["du", "-sk", folder] => Output::printed(format!("20480\t{folder}\n")),
            ["true"] => Output::printed(""),
            ["false"] => Output::failed(1, ""),
            ["hostname"] => Output::printed(format!("{}\n", self.facts.name)),
            ["echo", rest @ ..] => Output::printed(format!("{}\n", rest.join(" "))),
            ["test", flag, path] => self.test(flag, path),
            ["test", "!", flag, path] => {
                let output = self.test(flag, path);
                Output { status: i32::from(output.status == 0), ..output }
            }
            ["openssl", "verify", "-CAfile", authority, "-verify_hostname" | "-verify_ip", name, path] => {
                self.verify(authority, name, path)
            }
            ["systemctl", "restart", "kubelet"] => self.restart_kubelet(around),
            ["systemctl", "is-active", "kubelet"] if self.kubelet_works() => Output::printed("active\n"),
            // 3 is systemctl's status for a unit that is not active.
            ["systemctl", "is-active", "kubelet"] => Output { status: 3, ..Output::printed("failed\n") },
            ["crictl", rest @ ..] => self.crictl(rest, around),
            ["kubeadm", rest @ ..] => self.kubeadm(rest, around),
            ["curl", .., url] if url.ends_with("/readyz") => self.curl(around),
            others => self.file_command(others, input),
        }
    }

    /// Programs that only read and write files.
    fn file_command(&mut self, words: &[&str], input: &str) -> Output {
        match words {
            // Before the other forms of `install`, which write a file.
            ["install", "-d", "-m", "0700", path] => {
                self.folders.insert((*path).to_owned());
                Output::printed("")
            }
            ["ln", "-s", from, to] => {
                // A copy does: what is linked to does not change here.
                let text = self.files.get(*from).cloned();
                self.files.extend(text.map(|text| ((*to).to_owned(), text)));
                Output::printed("")
            }
            ["mkdir", paths @ ..] => {
                self.folders.extend(operands(paths).map(str::to_owned));
                Output::printed("")
            }
            // With the slash, or a neighbour whose name begins alike would go too.
            ["rm", "-rf", folder] => {
                let below = format!("{folder}/");
                self.files.retain(|path, _| !path.starts_with(&below));
                self.folders.retain(|path| path != folder && !path.starts_with(&below));
                Output::printed("")
            }
            ["rm", paths @ ..] => {
                operands(paths).for_each(|path| drop(self.files.remove(path)));
                Output::printed("")
            }
            ["mv", from @ .., to] => self.copy(&operands(from).collect::<Vec<_>>(), to, true),
            ["cp", from @ .., to] => self.copy(&operands(from).collect::<Vec<_>>(), to, false),
            ["sed", "-i", script, path] => self.edit(script, path),
            ["cat", path] => self.read("cat", path).map_or_else(|failed| failed, Output::printed),
            ["sha256sum", rest @ ..] => self.checksums(rest),
            ["install", .., "/dev/stdin", path] => {
                self.files.insert((*path).to_owned(), input.to_owned());
                Output::printed("")
            }
            [program, ..] => Output::failed(NOT_FOUND, format!("sh: 1: {program}: not found\n")),
            [] => Output::default(),
        }
    }

    fn is_folder(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        self.folders.iter().any(|f| f.trim_end_matches('/') == path || f.starts_with(&below))
            || self.files.keys().any(|file| file.starts_with(&below))
            || self.facts.ca_folders.iter().any(|folder| folder == path)
    }

    fn test(&self, flag: &str, path: &str) -> Output {
        let file = self.files.get(path);
        let holds = match flag {
            "-d" => self.is_folder(path),
            "-s" => file.is_some_and(|text| !text.is_empty()),
            "-f" => file.is_some(),
            // Commands are run as root.
            "-w" => true,
            "-e" => file.is_some() || self.is_folder(path),
            _ => return Output::failed(2, format!("sh: 1: test: {flag}: unexpected operator\n")),
        };
        Output { status: i32::from(!holds), ..Output::printed("") }
    }

    fn read(&self, program: &str, path: &str) -> Result<String, Output> {
        let missing = || Output::failed(1, format!("{program}: {path}: No such file or directory\n"));
        self.files.get(path).cloned().ok_or_else(missing)
    }

    fn copy(&mut self, from: &[&str], to: &str, moves: bool) -> Output {
        let program = if moves { "mv" } else { "cp" };
        let into_folder = to.ends_with('/') || self.is_folder(to);
        for path in from {
            if self.is_folder(path) {
                self.copy_folder(path, to, moves);
                continue;
            }
            let Some(text) = self.files.get(*path).cloned() else {
                let why = format!("{program}: cannot stat '{path}': No such file or directory\n");
                return Output::failed(1, why);
            };
            let name = path.rsplit('/').next().unwrap_or(path);
            let target =
                if into_folder { format!("{}/{name}", to.trim_end_matches('/')) } else { to.to_owned() };
            if moves {
                self.files.remove(*path);
            }
            self.files.insert(target, text);
        }
        Output::printed("")
    }

    /// A folder under another name.
    fn copy_folder(&mut self, from: &str, to: &str, moves: bool) {
        let from = from.trim_end_matches('/');
        for (path, text) in self.files_at(from) {
            if moves {
                self.files.remove(&path);
            }
            self.files.insert(format!("{to}{}", &path[from.len()..]), text);
        }
        if moves {
            self.folders.remove(from);
        }
        self.folders.insert(to.to_owned());
    }

    /// The script that a change leaves on a host: what stood there before is put back.
    fn put_back(&mut self, script: &str, around: &Surroundings<'_>) -> Output {
        let Err(failed) = self.read("sh", script) else {
            let kept = script.trim_end_matches("/back.sh").to_owned();
            let mut said = String::new();
            for (path, text) in self.files_at(&format!("{kept}/manifests")) {
                let name = path.rsplit('/').next().unwrap_or_default();
                said.push_str(&self.put_file(format!("{MANIFESTS}/{name}"), text));
            }
            if let Some(text) = self.files.get(&format!("{kept}/kubelet-config.yaml")).cloned() {
                let put = self.put_file(KUBELET_FILE.to_owned(), text);
                if !put.is_empty() {
                    said.push_str(&put);
                    return Output::printed(said).then(self.restart_kubelet(around));
                }
            }
            return Output::printed(said);
        };
        failed
    }

    fn put_file(&mut self, path: String, text: String) -> String {
        if self.files.get(&path) == Some(&text) {
            return String::new();
        }
        let said = format!("put back {path}\n");
        self.files.insert(path, text);
        said
    }

    fn edit(&mut self, script: &str, path: &str) -> Output {
        let text = match self.read("sed", path) {
            Ok(text) => text,
            Err(failed) => return failed,
        };
        match sed::edited(&text, script) {
            Ok(edited) => {
                self.files.insert(path.to_owned(), edited);
                Output::printed("")
            }
            Err(why) => Output::failed(1, format!("sed: {why}\n")),
        }
    }

    /// A certificate here is the list of its names.
    fn verify(&self, authority: &str, name: &str, path: &str) -> Output {
        match (self.read("openssl", authority), self.read("openssl", path)) {
            (Err(failed), _) | (_, Err(failed)) => failed,
            (Ok(_), Ok(text)) if text.lines().any(|line| line == name) => {
                Output::printed(format!("{path}: OK\n"))
            }
            _ => Output::failed(2, format!("error {path}: verification failed: hostname mismatch\n")),
        }
    }

    fn checksums(&self, words: &[&str]) -> Output {
        let mut said = String::new();
        for path in operands(words) {
            match self.read("sha256sum", path) {
                Ok(text) => {
                    let sum: String =
                        // Real sums: a runbook compares them with those of files that it sent.
                        Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
                    said.push_str(&format!("{sum}  {path}\n"));
                }
                Err(failed) => return failed,
            }
        }
        Output::printed(said)
    }

    fn restart_kubelet(&mut self, around: &Surroundings<'_>) -> Output {
        if self.faults.kubelet_stays_down {
            self.kubelet.up_at = None;
            let why = "Job for kubelet.service failed because the control process exited with error code.\n\
                       See \"systemctl status kubelet.service\" and \"journalctl -xeu kubelet.service\" for details.\n";
            return Output::failed(1, why);
        }
        self.kubelet.up_at = Some(around.now + self.scaled(super::KUBELET_RESTART));
        // Read now and never again: a file that is written later shows only after the next restart.
        self.kubelet.configuration = self.kubelet_file();
        Output::printed("")
    }

    fn crictl(&mut self, words: &[&str], around: &Surroundings<'_>) -> Output {
        match words {
            ["ps", "-q", "--name", pattern] => {
                // The component's name is its container's id, so that no second table is needed.
                let component = pattern.trim_matches(['^', '$']);
                let id = self.containers.contains_key(component).then(|| format!("{component}\n"));
                Output::printed(id.unwrap_or_default())
            }
            ["stop", id] => match component_of(id).filter(|component| self.restart(component, around.now)) {
                Some(component) => Output::printed(format!("{component}\n")),
                None => Output::failed(1, "crictl stop: no container of that name runs\n"),
            },
            // No image is there, so that the line of a runbook goes on to fetch it.
            ["inspecti", "-q", _] => Output { status: 1, ..Output::printed("") },
            ["pull", image] => Output::printed(format!("Image is up to date for {image}\n")),
            ["exec", id, "etcdctl", rest @ ..] => self.etcdctl(id, rest, around),
            _ => Output::failed(1, format!("crictl: `{}` is not simulated\n", words.join(" "))),
        }
    }

    fn etcdctl(&mut self, id: &str, words: &[&str], around: &Surroundings<'_>) -> Output {
        let runs = component_of(id).and_then(|component| self.containers.get(component));
        // Ready, not merely there: etcdctl reaches nothing while etcd starts.
        if !runs.is_some_and(|container| container.is_ready(around.now)) {
            return Output::failed(1, "FATA[0000] execing command in container: etcd does not run\n");
        }
        match words {
            [.., "snapshot", "save", path] => {
                self.files.insert((*path).to_owned(), "snapshot".to_owned());
                Output::printed(format!("Snapshot saved at {path}\n"))
            }
            ["version"] => Output::printed("etcdctl version: 3.6.8\n"),
            _ => Output::failed(1, format!("etcdctl: `{}` is not simulated\n", words.join(" "))),
        }
    }

    fn curl(&self, around: &Surroundings<'_>) -> Output {
        if self.is_up(API_SERVER, around.now) {
            return Output::printed("ok");
        }
        Output::failed(7, "curl: (7) Failed to connect to localhost port 6443: Connection refused\n")
    }
}

/// What df(1) says: the disks of these hosts are large.
fn room(folders: &[&str]) -> String {
    let row = |folder: &&str| format!("/dev/vda1 104857600 20971520 83886080 20% {folder}\n");
    "Filesystem 1024-blocks Used Available Capacity Mounted on\n".to_owned()
        + &folders.iter().map(row).collect::<String>()
}

/// The command that is run as root.
fn without_sudo<'w, 'a>(mut words: &'w [&'a str]) -> &'w [&'a str] {
    // Everyone is root here, so sudo neither asks nor refuses.
    while let ["sudo", "-n", rest @ ..] | ["sudo", rest @ ..] = words {
        words = rest;
    }
    words
}

/// Words that are not options.
fn operands<'w>(words: &'w [&'w str]) -> impl Iterator<Item = &'w str> {
    words.iter().copied().filter(|word| !word.starts_with('-'))
}

/// The component behind a container's id: `etcd`, or the line that asks for it.
fn component_of(id: &str) -> Option<&str> {
    let asked = id.strip_prefix("$(crictl ps -q --name ").and_then(|rest| rest.strip_suffix(')'));
    let name = asked.unwrap_or(id).trim_matches(['\'', '"', '^', '$']);
    (!name.is_empty()).then_some(name)
}
