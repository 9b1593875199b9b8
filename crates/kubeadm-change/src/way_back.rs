//! The way back on a host when no API server answers: what is kept there before a change, the script that puts it back, and the line
//! that runs it. Owns these words; must not know what a change does.

use super::host_folder::{self, folder};
use capstan_base::command_line::CommandLine;

/// Where kubelets look for static pods.
pub const MANIFESTS: &str = "/etc/kubernetes/manifests";
const KUBELET: &str = "/var/lib/kubelet/config.yaml";
/// Folders of plans that stay on a host.
const KEPT_MAX: usize = 3;

/// Keeps what stands on a host before a plan, once, and removes what plans of long ago kept.
pub fn keep(plan: &str) -> Vec<CommandLine> {
    let kept = folder(plan);
    // A copy that was interrupted has the other name, and is never taken for what stood there.
    let (manifests, half) = (format!("{kept}/manifests"), format!("{kept}/manifests.new"));
    let words = [&manifests, &half, MANIFESTS, &half, &half, &manifests].map(|word| word as &str);
    vec![
        CommandLine::of("install -d -m 0700 {}", [&kept]),
        CommandLine::of("test -d {} || { rm -rf {} && cp -rp {} {} && mv {} {}; }", words),
        copied_kubelet(plan),
        without_old(),
    ]
}

/// Keeps the file of a kubelet before a plan, once, and removes what plans of long ago kept.
pub fn keep_kubelet(plan: &str) -> Vec<CommandLine> {
    vec![CommandLine::of("install -d -m 0700 {}", [&folder(plan)]), copied_kubelet(plan), without_old()]
}

fn copied_kubelet(plan: &str) -> CommandLine {
    let copy = format!("{}/kubelet-config.yaml", folder(plan));
    CommandLine::of("test ! -e {} || test -e {} || cp -p {} {}", [KUBELET, &copy, KUBELET, &copy])
}

fn without_old() -> CommandLine {
    // By time: the id of a plan says nothing of its age.
    let old = format!("ls -dt /etc/kubernetes/tmp/capstan-* | tail -n +{} | xargs -r rm -rf", KEPT_MAX + 1);
    CommandLine::of("sh -c {}", [&old])
}

/// Puts back what was kept, on one host, for somebody who has taken the lock of that host. Without a plan: what was kept last.
pub fn line(plan: Option<&str>) -> CommandLine {
    match plan {
        Some(plan) => CommandLine::of("sh {} locked", [&host_folder::way_back(plan)]),
        None => {
            CommandLine::of("sh \"$(ls -t /etc/kubernetes/tmp/capstan-*/back.sh | head -n 1)\" locked", [])
        }
    }
}

/// The script. Files that are as they were are left alone; certificates are, too: the API server starts with either.
pub fn script(plan: &str) -> String {
    let head = format!(
        "#!/bin/sh\n# Puts back what stood on this host before change {plan}, for when no API server answers. As root.\n\
         # When the API answers again: capstan change rollback\ncd {} || exit 1\n",
        folder(plan)
    );
    head + SCRIPT
}

const SCRIPT: &str = r#"if [ "$1" != locked ]; then
  exec 9>/run/capstan-change.lock
  flock -w 300 9 || { echo 'another command of a change runs on this host' >&2; exit 75; }
fi
if pgrep -x kubeadm >/dev/null; then echo 'kubeadm runs on this host: wait until it has ended' >&2; exit 75; fi
status=0
put_back() { # KEPT, PLACE, THE SAME UNDER A NAME THAT NOTHING READS
  cmp -s "$1" "$2" && return 1
  cp -p "$1" "$3" && mv -f "$3" "$2" && echo "put back $2" && return 0
  echo "cannot put back $2" >&2; status=1; return 1
}
for manifest in manifests/*.yaml; do
  name=${manifest#manifests/}
  put_back "$manifest" "/etc/kubernetes/manifests/$name" "/etc/kubernetes/manifests/.$name" || true
done
if [ -e kubelet-config.yaml ]; then
  put_back kubelet-config.yaml /var/lib/kubelet/config.yaml /var/lib/kubelet/.config.yaml && systemctl restart kubelet
fi
exit $status
"#;

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Output};

    use super::*;
    use crate::host_lock;

    /// A text with folders of this test in place of those of the host, and without programs that are not for a test.
    fn here(text: &str, host: &Path) -> String {
        let place = host.display().to_string();
        let text = ["/etc/kubernetes", "/var/lib/kubelet", "/run/capstan-change.lock"]
            .iter()
            .fold(text.to_owned(), |text, path| text.replace(path, &format!("{place}{path}")));
        text.replace("pgrep -x kubeadm", "false").replace("systemctl restart", "echo restart")
    }

    fn run(text: &str, host: &Path) -> Output {
        Command::new("sh").arg("-c").arg(here(text, host)).output().expect("a shell")
    }

    fn host() -> tempfile::TempDir {
        let host = tempfile::tempdir().expect("a folder");
        for (path, text) in [
            ("etc/kubernetes/manifests/kube-apiserver.yaml", "flag: old"),
            ("etc/kubernetes/manifests/etcd.yaml", "etcd"),
            ("var/lib/kubelet/config.yaml", "maxPods: 110"),
            ("run/x", ""),
        ] {
            let path = host.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        host
    }

    fn kept(host: &Path, plan: &str) {
        for line in keep(plan) {
            let output = run(line.as_str(), host);
            assert!(output.status.success(), "{line}: {output:?}");
        }
    }

    fn read(host: &Path, path: &str) -> String {
        std::fs::read_to_string(host.join(path)).expect("a file")
    }

    #[test]
    fn what_stood_there_is_put_back() {
        let host = host();
        kept(host.path(), "0a");
        let manifest = host.path().join("etc/kubernetes/manifests/kube-apiserver.yaml");
        std::fs::write(&manifest, "flag: broken").expect("written");
        std::fs::write(host.path().join("var/lib/kubelet/config.yaml"), "maxPods: x").expect("written");
        // What is kept is what was there before the plan, however often it is begun.
        kept(host.path(), "0a");
        let output = run(&script("0a"), host.path());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.matches("put back ").count() == 2, "{output:?}");
        assert!(said.ends_with("restart kubelet\n"), "{said}");
        assert_eq!(read(host.path(), "etc/kubernetes/manifests/kube-apiserver.yaml"), "flag: old");
        assert_eq!(read(host.path(), "var/lib/kubelet/config.yaml"), "maxPods: 110");
        std::fs::remove_file(&manifest).expect("a restart that was interrupted");
        assert!(run(&script("0a"), host.path()).status.success());
        assert_eq!(read(host.path(), "etc/kubernetes/manifests/kube-apiserver.yaml"), "flag: old");
        let again = run(&script("0a"), host.path());
        assert!(again.status.success() && again.stdout.is_empty(), "nothing is left to do: {again:?}");
    }

    #[test]
    fn only_the_last_plans_stay_on_a_host() {
        let host = host();
        let plans = ["01", "02", "03", "04", "05"];
        for (at, plan) in plans.iter().enumerate() {
            kept(host.path(), plan);
            let folder = std::fs::File::open(host.path().join(format!("etc/kubernetes/tmp/capstan-{plan}")))
                .expect("it is there");
            let moment =
                std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000 + at as u64);
            folder.set_modified(moment).expect("older than the next");
        }
        let there = |plan: &&str| host.path().join(format!("etc/kubernetes/tmp/capstan-{plan}")).exists();
        assert_eq!(plans.into_iter().filter(there).collect::<Vec<_>>(), ["03", "04", "05"]);
    }

    #[test]
    fn it_waits_for_whatever_is_at_work() {
        let host = host();
        kept(host.path(), "0a");
        let busy = script("0a").replace("flock -w 300", "false;");
        assert_eq!(run(&busy, host.path()).status.code(), Some(75));
    }

    #[test]
    fn who_has_the_lock_does_not_wait_for_it() {
        let host = host();
        kept(host.path(), "0a");
        let file = host.path().join("etc/kubernetes/tmp/capstan-0a/back.sh");
        let script = script("0a").replace("flock -w 300", "flock -n");
        std::fs::write(file, here(&script, host.path())).expect("written");
        for line in [line(Some("0a")), line(None)] {
            let output = run(host_lock::alone(&line).as_str(), host.path());
            assert!(output.status.success(), "{line}: {output:?}");
        }
    }
}
