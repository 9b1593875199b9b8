//! A machine for tests: a folder in the place of its root, a shell, and stand-ins for systemd and kubeadm. What is sent to it is what
//! a real one gets. No other program of the machine that runs the tests is found but those in `HARMLESS`: a test, as root on a node
//! of Kubernetes, must not reach its pods, links, rules, mounts and users.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::request::ShellRequest;

/// Programs that are counted, so that a run can be ended at each of them.
const COUNTED: [&str; 12] =
    ["cat", "chmod", "chown", "cp", "date", "flock", "mkdir", "mv", "rm", "rmdir", "sha256sum", "sync"];

/// Programs that read, or write what they are given by name, which is below the folder of the test.
const HARMLESS: [&str; 25] = [
    "awk", "cut", "env", "false", "grep", "head", "id", "kill", "ln", "ls", "mktemp", "ps", "readlink",
    "sed", "setsid", "sleep", "sort", "tail", "tar", "timeout", "touch", "tr", "true", "uniq", "wc",
];

pub(crate) struct Machine {
    root: TempDir,
    shell: Vec<String>,
}

/// Ends with what it holds.
pub(crate) struct Lock(Child);

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.kill().expect("a process");
        self.0.wait().expect("an end");
    }
}

impl Machine {
    /// One for each shell that is installed: Debian's, bash as POSIX wants it, and the one of Alpine.
    pub fn of_each_shell() -> Vec<Self> {
        let is_there =
            |name: &str| Command::new(name).arg("-c").arg("true").output().is_ok() || name == "busybox";
        let is_busybox = Command::new("busybox").args(["sh", "-c", "true"]).output().is_ok();
        let mut shells = vec!["sh"];
        // On Debian `sh` is dash.
        let is_dash = fs::canonicalize("/bin/sh").is_ok_and(|path| path.ends_with("dash"));
        shells.extend((!is_dash && is_there("dash")).then_some("dash"));
        shells.extend(is_there("bash").then_some("bash --posix"));
        shells.extend(is_busybox.then_some("busybox sh"));
        shells.into_iter().map(Self::of_shell).collect()
    }

    pub fn of_shell(shell: &str) -> Self {
        // In memory where there is such a folder: a run waits for the disk at each of its marks.
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let root = root.expect("a folder");
        let machine = Self { root, shell: with_path(shell) };
        for folder in ["programs", "root/var/lib/capstan/runs", "root/etc", "root/run", "root/proc/net"] {
            fs::create_dir_all(machine.root.path().join(folder)).expect("a folder");
        }
        machine.program("systemctl", include_str!("shell_machine/systemctl.sh"));
        machine.program("systemd-run", include_str!("shell_machine/systemd-run.sh"));
        machine.program("kubeadm", include_str!("shell_machine/kubeadm.sh"));
        // By its path: by its name it would find itself.
        machine.program("sh", &format!("exec {} \"$@\"\n", machine.shell.join(" ")));
        for name in COUNTED {
            machine.program(name, &include_str!("shell_machine/counted.sh").replace("NAME", name));
        }
        for name in HARMLESS {
            let places = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
            if let Some(path) = places.iter().find(|path| path.exists()) {
                symlink(path, machine.root.path().join("programs").join(name)).expect("a link");
            }
        }
        machine
    }

    /// Stands in for a program: notes its words in `calls`, and prints the note `NAME.says` where there is one.
    pub fn stand_in(&self, name: &str) {
        self.program(name, &include_str!("shell_machine/noted.sh").replace("NAME", name));
    }

    /// Busybox takes its own `umount`, `passwd` and others before those of the path: no stand-in is called under it.
    pub fn of_each_shell_with_stand_ins() -> Vec<Self> {
        let mut machines = Self::of_each_shell();
        machines.retain(|machine| machine.shell.iter().all(|word| !word.ends_with("busybox")));
        machines
    }

    /// Another with the same shell.
    pub fn like(other: &Self) -> Self {
        Self::of_shell(&other.shell.join(" "))
    }

    /// A program of this machine, in the place of one that it has.
    pub fn program(&self, name: &str, text: &str) {
        let path = self.root.path().join("programs").join(name);
        let _ = fs::remove_file(&path);
        fs::write(&path, format!("#!/bin/sh\n{text}")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("root").join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    pub fn link(&self, from: &str, to: &str) {
        symlink(self.path(to), self.path(from)).expect("a link");
    }

    /// What the stand-ins write down beside the root.
    pub fn noted(&self, name: &str) -> String {
        fs::read_to_string(self.root.path().join(name)).unwrap_or_default()
    }

    pub fn has_note(&self, name: &str) -> bool {
        self.root.path().join(name).exists()
    }

    pub fn note(&self, name: &str, text: &str) {
        fs::write(self.root.path().join(name), text).expect("written");
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.shell[0]);
        let programs = self.root.path().join("programs");
        command
            .args(&self.shell[1..])
            .env("CAPSTAN_ROOT", self.path("").to_string_lossy().trim_end_matches('/'));
        command.env("CAPSTAN_PATH", &programs);
        command.env("MACHINE", self.root.path()).env("MACHINE_SHELL", self.shell.join(" "));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What the machine says to a request.
    pub fn answer(&self, request: &ShellRequest) -> String {
        self.answer_unless_killed(request).expect("nobody ends it")
    }

    /// The same; `None` where it was ended by a signal.
    pub fn answer_unless_killed(&self, request: &ShellRequest) -> Option<String> {
        let mut command = self.command();
        // What ends it ends its group.
        let mut child =
            command.process_group(0).arg("-c").arg(request.line.as_str()).spawn().expect("a shell");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A program that answers without reading its input ends the pipe.
        let _ = stdin.write_all(&request.input);
        drop(stdin);
        let output = child.wait_with_output().expect("an end");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.signal().is_some() {
            return None;
        }
        assert!(output.status.success(), "{:?}: {}: {out}{err}", self.shell, output.status);
        Some(out.into_owned())
    }

    /// As a job does.
    pub fn hold_lock(&self) -> Lock {
        let line = format!(
            "exec 9>>{}; flock 9; echo held; exec sleep 60",
            self.path("var/lib/capstan/lock").display()
        );
        let mut child =
            Command::new("sh").args(["-c", &line]).stdout(Stdio::piped()).spawn().expect("a shell");
        let mut held = [0_u8; 5];
        std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut held).expect("a line");
        Lock(child)
    }

    /// Until nothing of a job is left.
    pub fn wait_for_job(&self) {
        let status = Command::new("flock").arg(self.root.path().join("running")).arg("true").status();
        assert!(status.expect("flock").success());
    }

    /// Ends everything of the job when a folder has so many entries.
    pub fn kill_job_at_mark(&self, folder: &str, entries: usize) {
        let job = fs::read_to_string(self.root.path().join("unit-capstan-uid-1")).expect("a job");
        let count = || fs::read_dir(self.path(folder)).map_or(0, Iterator::count);
        // One that has ended meanwhile ends the waiting as well.
        let is_alive = || Path::new("/proc").join(job.trim()).join("cwd").exists();
        while count() < entries && is_alive() {
            std::thread::yield_now();
        }
        let _ = Command::new("kill").args(["-9", "--", &format!("-{}", job.trim())]).output();
        self.wait_for_job();
    }

    /// Every path below the root that is not capstan's own, with mode and content.
    pub fn tree(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        walk(&self.path(""), &self.path(""), &mut found);
        found.retain(|path, _| !path.starts_with("var/lib/capstan"));
        found
    }
}

/// Program and arguments of a shell, the program by its path.
fn with_path(shell: &str) -> Vec<String> {
    let mut words: Vec<String> = shell.split(' ').map(str::to_owned).collect();
    let places = ["/bin", "/usr/bin", "/usr/local/bin"].map(|folder| Path::new(folder).join(&words[0]));
    if let Some(path) = places.iter().find(|path| path.exists()) {
        words[0] = path.to_string_lossy().into_owned();
    }
    words
}

fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
        let meta = fs::symlink_metadata(&path).expect("there");
        let mode = meta.permissions().mode() & 0o7777;
        if meta.is_dir() {
            found.insert(name, format!("folder {mode:o}"));
            walk(root, &path, found);
        } else {
            // A link to a folder has none.
            let content = fs::read(&path).unwrap_or_default();
            found.insert(name, format!("{mode:o} {}", String::from_utf8_lossy(&content)));
        }
    }
}
