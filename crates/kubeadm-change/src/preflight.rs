//! What a host must have before a change is begun: root, programs, kubeadm of the right release, the keys and files that steps
//! read, room for a snapshot. It is asked in one line that only reads. Owns that question, and what an answer lacks; must not
//! know how a host is asked.

use std::collections::BTreeSet;

use super::plan::{ChangePlan, PlannedStep};
use super::render::{ClusterSettings, Release};
use super::steps::StepId;
use capstan_base::command_line::CommandLine;

/// Begins a line of an answer about something that is missing.
const MISSING: &str = "missing: ";
/// Every command takes a lock by flock(1).
const ALWAYS: [&str; 1] = ["flock"];
const WHERE_USED: [&str; 5] = ["kubeadm", "crictl", "openssl", "systemctl", "sha256sum"];
/// Beside the snapshot itself.
const ROOM_KIB: u64 = 64 * 1024;

/// What the steps of a plan need on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNeeds {
    /// Lines that hold, each with what is missing where it does not.
    tests: Vec<(CommandLine, String)>,
    /// The minor release that its kubeadm has to be of.
    kubeadm: Option<Release>,
    /// The folder of etcd's data of which a snapshot is taken there.
    snapshot: Option<String>,
}

impl HostNeeds {
    /// For the commands of a plan on a node.
    pub fn of(plan: &ChangePlan, node: &str, settings: &ClusterSettings<'_>) -> Self {
        let steps: Vec<&PlannedStep> =
            plan.steps.iter().filter(|step| step.nodes.iter().any(|name| name == node)).collect();
        let used = programs(&steps);
        let mut tests = vec![is_root()];
        tests.extend(used.iter().map(|program| is_installed(program)));
        tests.extend(steps.iter().flat_map(|step| files(step, settings)));
        if let Some(folder) = plan.patches.as_ref().filter(|_| used.contains("kubeadm")) {
            tests.push((CommandLine::of("test -d {}", [folder]), format!("{folder}, the folder of patches")));
        }
        let takes_snapshot = steps.iter().any(|step| step.id == StepId::B1);
        Self {
            tests,
            kubeadm: used.contains("kubeadm").then_some(settings.release),
            snapshot: takes_snapshot.then(|| settings.etcd_data_dir().to_owned()),
        }
    }

    /// One line that reads, and prints what [`HostNeeds::missing`] understands.
    pub fn question(&self) -> CommandLine {
        let mut lines: Vec<CommandLine> = Vec::new();
        for (test, words) in &self.tests {
            lines.push(test.clone().or_echo(&format!("{MISSING}{words}")));
        }
        if self.kubeadm.is_some() {
            lines.push(CommandLine::of("kubeadm version -o short", []));
        }
        if let Some(data) = &self.snapshot {
            // `-P`: one line for each file system, however long its name is.
            lines.push(CommandLine::of("df -Pk /etc/kubernetes {}", [data]));
            // A snapshot is the database, which is there; the log of the member is not in it.
            lines.push(CommandLine::of("du -sk {}", [&format!("{data}/member/snap")]));
        }
        // The status says whether the host can be asked; what is missing is in the answer.
        lines.push(CommandLine::of("true", []));
        CommandLine::one_after_the_other(&lines)
    }

    /// Everything that a host lacks by its answer, a sentence each.
    pub fn missing(&self, answer: &str) -> Vec<String> {
        let complaints = answer.lines().filter_map(|line| line.strip_prefix(MISSING)).map(str::to_owned);
        complaints.chain(self.other_release(answer)).chain(self.too_full(answer)).collect()
    }

    fn other_release(&self, answer: &str) -> Option<String> {
        let wanted = self.kubeadm?;
        // Without a version in the answer kubeadm is missing, which its own test has named.
        let version = answer.lines().find(|line| line.starts_with("v1."))?.trim();
        // Patch releases may differ: the rules of what kubeadm writes belong to the minor one.
        let is_other = Release::of(version).is_none_or(|release| release.minor != wanted.minor);
        is_other.then(|| {
            format!(
                "kubeadm is {version}, and the cluster 1.{0}: it would write what its own release writes; install kubeadm 1.{0}",
                wanted.minor
            )
        })
    }

    fn too_full(&self, answer: &str) -> Option<String> {
        let data = self.snapshot.as_ref()?;
        // Data and kept files may be on two file systems, and the snapshot passes through both.
        let free = answer.lines().filter_map(free_kib).min()?;
        let folder = format!("{data}/member/snap");
        let used =
            answer.lines().find_map(|line| line.strip_suffix(folder.as_str())?.trim().parse::<u64>().ok())?;
        (free < used + ROOM_KIB).then(|| {
            format!(
                "a snapshot of etcd needs {} MiB below /etc/kubernetes and {data}, and {} MiB are free",
                (used + ROOM_KIB) / 1024,
                free / 1024
            )
        })
    }
}

/// The fourth column of df(1) is what is free.
fn free_kib(line: &str) -> Option<u64> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let [_, _, _, free, used, ..] = columns.as_slice() else { return None };
    // The head of the table and other lines of the answer have no percentage there.
    used.strip_suffix('%')?.parse::<u64>().ok()?;
    free.parse().ok()
}

fn is_root() -> (CommandLine, String) {
    let words = "commands are not run as root there: use --sudo, or --ssh-user root";
    (CommandLine::of("test -w /etc/kubernetes", []), words.to_owned())
}

fn is_installed(program: &str) -> (CommandLine, String) {
    (CommandLine::of("command -v {}", [program]), format!("{program} is not installed"))
}

fn programs(steps: &[&PlannedStep]) -> BTreeSet<&'static str> {
    let is_used = |program: &&&str| {
        // With these signs a path in which a program's name stands is one word, and another one.
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '/' | '_');
        let lines = || steps.iter().flat_map(|step| &step.commands);
        // Lines of kubectl are run where the API is reached, not on the host.
        let on_host = lines().map(CommandLine::as_str).filter(|line| !line.starts_with("kubectl "));
        on_host.flat_map(|line| line.split(|c: char| !is_word(c))).any(|word| word == **program)
    };
    WHERE_USED.iter().filter(is_used).chain(&ALWAYS).copied().collect()
}

/// What a step reads on the host and no step of the plan puts there.
fn files(step: &PlannedStep, settings: &ClusterSettings<'_>) -> Vec<(CommandLine, String)> {
    let key = |authority: &str| {
        let path = format!("{}/{authority}.key", settings.certificates_dir());
        let words = format!("{path}, without which kubeadm cannot sign there");
        (CommandLine::of("test -s {}", [&path]), words)
    };
    let joined = step.joined.map(|id| PlannedStep { id, joined: None, ..step.clone() });
    let of_joined = joined.iter().flat_map(|step| files(step, settings));
    let of_step = match step.id {
        StepId::C1 | StepId::F1 => vec![key("ca")],
        StepId::C2 => vec![key("etcd/ca")],
        StepId::E1 => {
            let member = format!("{}/member", settings.etcd_data_dir());
            vec![(CommandLine::of("test -d {}", [&member]), format!("{member}, the data of etcd's member"))]
        }
        StepId::B1 => {
            let line = "crictl exec $(crictl ps -q --name '^etcd$') etcdctl version";
            let words = "etcdctl in the container of etcd, which takes the snapshot";
            vec![(CommandLine::of(line, []), words.to_owned())]
        }
        StepId::H1 => {
            // The commands of H1 only read, so that they can be run as tests.
            let words = |line: &CommandLine| format!("a file that the change names (`{line}` fails)");
            step.commands.iter().map(|line| (line.clone(), words(line))).collect()
        }
        _ => Vec::new(),
    };
    of_joined.chain(of_step).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::document::DocumentKind;
    use crate::plan::tests::{cluster, planned};

    const AUDIT: &str = "apiServer.extraVolumes[audit]={hostPath: /etc/audit, mountPath: /etc/audit}";

    fn needs(edits: &[&str]) -> HostNeeds {
        let inputs = cluster(1, 1);
        let plan = planned(&inputs, edits);
        let document = inputs.document(DocumentKind::Cluster).expect("there");
        let settings = ClusterSettings::new(&document.value, None).expect("a version");
        HostNeeds::of(&plan, "cp-0", &settings)
    }

    #[test]
    fn a_host_needs_what_its_steps_use() {
        for (edits, words) in [
            (&["maxPods=60"][..], vec!["/etc/kubernetes", "kubeadm", "systemctl"]),
            (&["apiServer.certSANs=[a.example]"], vec!["openssl", "crictl", "/etc/kubernetes/pki/ca.key"]),
            (&["etcd.local.serverCertSANs=[a.example]"], vec!["/etc/kubernetes/pki/etcd/ca.key"]),
            (&["etcd.local.extraArgs[snapshot-count]=20000"], vec!["/var/lib/etcd/member", "etcdctl"]),
            (
                &["apiServer.extraArgs[audit-policy-file]=/etc/audit/a.yaml", AUDIT],
                vec!["sha256sum", "/etc/audit/a.yaml"],
            ),
        ] {
            let question = needs(edits).question();
            for word in words.into_iter().chain(["flock", "test -w /etc/kubernetes"]) {
                assert!(question.as_str().contains(word), "{edits:?}: {word} in {question}");
            }
        }
        let question = needs(&["maxPods=60"]).question();
        assert!(!question.as_str().contains("openssl"), "{question}");
    }

    #[test]
    fn everything_that_is_missing_is_named_at_once() {
        let needs = needs(&["apiServer.certSANs=[a.example]"]);
        let folder = tempfile::tempdir().expect("a folder");
        let line = needs
            .question()
            .as_str()
            .replace("/etc/kubernetes", &folder.path().join("k").display().to_string());
        // Only a shell, and no program.
        let output =
            Command::new("/bin/sh").arg("-c").arg(line).env("PATH", folder.path()).output().expect("a shell");
        let missing = needs.missing(&String::from_utf8_lossy(&output.stdout)).join("\n");
        for word in [
            "--sudo",
            "crictl is not",
            "flock is not",
            "kubeadm is not",
            "openssl is not",
            "ca.key",
            "etcdctl in",
        ] {
            assert!(missing.contains(word), "{word} in {missing}");
        }
    }

    #[test]
    fn answers_are_understood() {
        let needs = needs(&["apiServer.extraArgs[event-ttl]=2h"]);
        let disk = |free: u64| {
            format!(
                "/usr/bin/kubeadm\netcdctl version: 3.6.8\nv1.36.9\nFilesystem 1024-blocks Used Available Capacity Mounted on\n\
                 /dev/vda1 100000000 1 {free} 78% /\n/dev/vdb1 100000000 1 90000000 1% /var/lib/etcd\n80000\t/var/lib/etcd/member/snap\n"
            )
        };
        assert_eq!(needs.missing(&disk(90_000_000)), [""; 0], "another patch release will do");
        let full = needs.missing(&disk(100_000));
        assert!(
            full.len() == 1 && full[0].contains("needs 142 MiB") && full[0].contains("97 MiB"),
            "{full:?}"
        );
        let older = needs.missing("v1.34.1\n");
        assert!(
            older.len() == 1 && older[0].starts_with("kubeadm is v1.34.1, and the cluster 1.36"),
            "{older:?}"
        );
        assert_eq!(needs.missing("missing: crictl is not installed\n"), ["crictl is not installed"]);
    }
}
