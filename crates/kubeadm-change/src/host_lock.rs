//! One command at a time on a host: a lock that every command takes, and kubeadm, which may still run there after the
//! connection of whoever sent it has ended. Owns these words; must not know what a command does.
//!
//! Two kubeadms on one host move the same manifests, and one may put back what the other has just written. A process keeps
//! the lock of a command that started it (flock(1) hands its file on), so that it is held as long as kubeadm runs.

use capstan_base::command_line::CommandLine;

/// The status of a command that was not begun because another one is at work (`EX_TEMPFAIL` of sysexits.h).
pub const BUSY: i32 = 75;

/// A line that is begun only when nothing else is at work on its host; otherwise it ends with [`BUSY`] at once.
pub fn alone(line: &CommandLine) -> CommandLine {
    // A kubeadm that somebody else started holds no lock, so it is looked for by name, under the lock.
    let without_kubeadm = line.clone().behind("pgrep -x kubeadm && exit 75; ");
    // `-n`: whoever sends commands shows the wait and ends it, which a shell on the host could not.
    CommandLine::of("flock -n -E 75 /run/capstan-change.lock sh -c {}", [without_kubeadm.as_str()])
}

/// A line for people to paste: kubeadm waits for the lock, as far as one line can carry it.
pub fn pasted(line: &CommandLine) -> CommandLine {
    if line.as_str().starts_with("kubeadm ") {
        line.clone().behind("flock -w 300 /run/capstan-change.lock ")
    } else {
        line.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Command;

    use super::*;

    #[test]
    fn only_kubeadm_waits_in_a_pasted_line() {
        let kubeadm = pasted(&CommandLine::of("kubeadm config images pull --config {}", ["a b"]));
        assert_eq!(
            kubeadm.as_str(),
            "flock -w 300 /run/capstan-change.lock kubeadm config images pull --config 'a b'"
        );
        let other = CommandLine::of("systemctl restart kubelet", []);
        assert_eq!(pasted(&other), other);
    }

    /// With the lock in a folder of this test; `kubeadm`: what stands for the look for a running one.
    fn run(line: &CommandLine, folder: &std::path::Path, kubeadm: &str) -> (Option<i32>, String) {
        let line = line
            .as_str()
            .replace("/run/", &format!("{}/", folder.display()))
            .replace("pgrep -x kubeadm", kubeadm);
        let output = Command::new("sh").arg("-c").arg(line).output().expect("a shell");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    #[test]
    fn a_line_is_not_begun_while_another_one_is_at_work() {
        let folder = tempfile::tempdir().expect("a folder");
        let line = alone(&CommandLine::of("echo {} && exit 3", ["it's"]));
        assert_eq!(
            run(&line, folder.path(), "false"),
            (Some(3), "it's\n".to_owned()),
            "its own status counts"
        );
        let lock = File::open(folder.path().join("capstan-change.lock")).expect("the lock");
        lock.lock().expect("it is free");
        assert_eq!(run(&line, folder.path(), "false"), (Some(BUSY), String::new()));
        lock.unlock().expect("it is ours");
        assert_eq!(run(&line, folder.path(), "false").0, Some(3));
        assert_eq!(
            run(&line, folder.path(), "echo 71"),
            (Some(BUSY), "71\n".to_owned()),
            "kubeadm still runs"
        );
    }
}
