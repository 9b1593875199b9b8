//! What `capstan host check` prints. Owns words, columns and the shape of the JSON; must not judge.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Checked;
use super::args::HostCheckArgs;
use crate::arguments::PlanOutputArg;
use crate::output::{self, Style, colour};
use capstan_base::text::{counted, width, wrap_at_words};
use capstan_host_provider::access::Silence;
use capstan_hosts::facts::HostFacts;
use capstan_hosts::finding::{Fitness, HostFinding, Purpose};
use capstan_remote::destination::Destination;
use capstan_remote::trouble::SshTrouble;

const WIDTH: usize = 80;
/// `  unfit    container-runtime  `: the outcome and the rule.
const OUTCOME_CELLS: usize = 9;
const RULE_CELLS: usize = 20;

pub(super) fn document(
    checked: &[Checked],
    purpose: &Purpose,
    args: &HostCheckArgs,
    style: Style,
) -> anyhow::Result<String> {
    if args.output == PlanOutputArg::Json {
        let hosts: Vec<Value> = checked.iter().map(of_host).collect();
        return Ok(output::json(&json!({ "hosts": hosts }))?);
    }
    let texts: Vec<String> = checked.iter().map(|it| text(it, purpose, args.all, style)).collect();
    // What a machine said is harmless since it was read.
    Ok(texts.join("\n"))
}

fn of_host(checked: &Checked) -> Value {
    let mut value = json!({ "host": checked.host.to_string(), "outcome": checked.outcome() });
    match &checked.answer {
        Ok(facts) => {
            value["facts"] = json!(facts);
            value["findings"] = json!(checked.findings);
        }
        Err(silence) => {
            value["reason"] = json!(silence.reason);
            value["remedy"] = json!(remedy(silence, &checked.host));
            if let Some(trouble) = silence.trouble {
                value["trouble"] = json!(trouble);
            }
            if !silence.offered.is_empty() {
                value["offeredKeys"] = json!(silence.offered);
            }
        }
    }
    value
}

fn text(checked: &Checked, purpose: &Purpose, all: bool, style: Style) -> String {
    let mut out = format!("{}: {}\n", checked.host, headline(checked, purpose));
    match &checked.answer {
        Ok(facts) => {
            out.push_str(&hanging("  ", &about(facts)));
            let shown = checked.findings.iter().filter(|it| all || it.outcome != Fitness::Passed);
            shown.for_each(|finding| out.push_str(&of_finding(finding, style)));
            let passed = checked.findings.iter().filter(|it| it.outcome == Fitness::Passed).count();
            if !all && passed > 0 {
                let _ = writeln!(out, "  passed   {} (--all shows them)", counted(passed, "rule"));
            }
        }
        Err(silence) => {
            out.push_str(&hanging("  ", &silence.reason));
            for key in &silence.offered {
                let _ = writeln!(out, "  offers   {} {}", key.kind, key.fingerprint);
            }
            out.push_str(&hanging("  ", &remedy(silence, &checked.host)));
        }
    }
    out
}

fn headline(checked: &Checked, purpose: &Purpose) -> String {
    let version = purpose.version.as_ref().map(|version| format!(" of v{version}")).unwrap_or_default();
    let goal = format!("{}{version}", purpose.role.words());
    match (&checked.answer, checked.outcome()) {
        (Err(silence), _) => silence.trouble.map_or("no answer", words).to_owned(),
        (Ok(_), Fitness::Unfit) => format!("unfit for {goal}"),
        (Ok(_), Fitness::Unknown) => format!("not known to be fit for {goal}"),
        (Ok(_), Fitness::Warned | Fitness::Passed) => format!("fit for {goal}"),
    }
}

fn words(trouble: SshTrouble) -> &'static str {
    match trouble {
        SshTrouble::Unreachable => "not reached",
        SshTrouble::UnknownHostKey => "not trusted: its host key is not known",
        SshTrouble::ChangedHostKey => "not trusted: its host key is not the one that is known",
        SshTrouble::Denied => "not let in",
        SshTrouble::Configuration => "ssh does not take its configuration",
    }
}

fn remedy(silence: &Silence, host: &Destination) -> String {
    let place = host.port.map_or_else(|| host.host.clone(), |port| format!("-p {port} {}", host.host));
    match silence.trouble {
        Some(SshTrouble::UnknownHostKey) => format!(
            "Compare a fingerprint with what the machine's own console says (`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`); \
             then add its keys: `ssh-keyscan {place} >> ~/.ssh/known_hosts`."
        ),
        Some(SshTrouble::ChangedHostKey) => format!(
            "The machine was installed anew, or another one answers at its address. Compare a fingerprint with what its own console \
             says; only then remove the old key: `ssh-keygen -R {}`.",
            host.port.map_or_else(|| host.host.clone(), |port| format!("'[{}]:{port}'", host.host))
        ),
        Some(SshTrouble::Denied) => {
            "Check the user (--ssh-user), and that ssh has a key for it: `ssh-add -l`.".to_owned()
        }
        Some(SshTrouble::Configuration) => "Check ~/.ssh/config.".to_owned(),
        Some(SshTrouble::Unreachable) | None => {
            format!("Check address, port and network: `ssh -v {place}`.")
        }
    }
}

/// One line about a machine: what it is and what it has.
fn about(facts: &HostFacts) -> String {
    let gib = |kib: u64| format!("{}.{} GiB", kib / 1_048_576, kib % 1_048_576 * 10 / 1_048_576);
    let parts = [
        facts.os.clone(),
        facts.kernel.as_ref().map(|kernel| format!("kernel {kernel}")),
        facts.arch.clone(),
        facts.cpus.map(|cpus| counted(cpus, "CPU")),
        facts.memory_kib.map(|kib| format!("{} of memory", gib(kib))),
        facts.runtime.as_ref().map(ToString::to_string),
        facts.kubeadm.as_ref().map(|version| format!("kubeadm v{version}")),
        facts.kubelet.as_ref().map(|version| format!("kubelet v{version}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn of_finding(finding: &HostFinding, style: Style) -> String {
    let (word, colour) = match finding.outcome {
        Fitness::Unfit => ("unfit", colour::RED),
        Fitness::Unknown => ("unknown", colour::YELLOW),
        Fitness::Warned => ("warned", colour::YELLOW),
        Fitness::Passed => ("passed", colour::GREEN),
    };
    let (begin, end) = if style.color { (colour, colour::RESET) } else { ("", "") };
    let check =
        finding.kubeadm_check.as_ref().map(|check| format!(" (kubeadm: {check})")).unwrap_or_default();
    let indent = " ".repeat(2 + OUTCOME_CELLS + RULE_CELLS);
    let body = hanging(&indent, &format!("{}{check}", finding.evidence));
    let blanks = " ".repeat(OUTCOME_CELLS.saturating_sub(width(word)));
    let head = format!("  {begin}{word}{end}{blanks}{:RULE_CELLS$}", finding.rule);
    let remedy = if finding.remedy.is_empty() { String::new() } else { hanging(&indent, &finding.remedy) };
    format!("{head}{}{remedy}", body.trim_start())
}

/// Lines of [`WIDTH`] cells, each behind the indent.
fn hanging(indent: &str, text: &str) -> String {
    let lines = wrap_at_words(text, WIDTH.saturating_sub(width(indent)));
    lines.iter().map(|line| format!("{indent}{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::judged;
    use super::*;
    use capstan_hosts::finding::NodeRole;
    use capstan_hosts::probe;
    use capstan_remote::host_key::HostKey;

    fn purpose() -> Purpose {
        Purpose { role: NodeRole::Worker, version: None }
    }

    fn shown(checked: &Checked) -> String {
        text(checked, &purpose(), false, Style::default())
    }

    #[test]
    fn a_machine_is_shown_with_what_speaks_against_it() {
        let answer = "root=yes\nnow=100\nos=Debian GNU/Linux 12 (bookworm)\nsystem=Linux\nkernel=6.1.0-40-amd64\narch=x86_64\ncpus=1\n\
            memory_kib=4030464\ndisk_kib=100\ndisk_free_kib=50\ninit=systemd\ncgroup=2\ncontroller=cpu\ncontroller=cpuset\n\
            controller=memory\ncontroller=pids\nswap=/dev/sda2\nports_read=yes\nlistens=280A\nhostname=h1\ncommand=losetup\ncommand=mount\n\
            command=cp\nsocket=/var/run/containerd/containerd.sock\nkubeadm=v1.36.3\nkubelet=Kubernetes v1.36.3\nkubelet_unit=enabled\n\
            ip_forward=1\nend=yes\n";
        let facts = probe::read(answer, 100).expect("facts");
        let host = "root@h1".parse().expect("a host");
        let text = shown(&judged(host, Ok(facts), &purpose()));
        let expected = "\
root@h1: unfit for a worker
  Debian GNU/Linux 12 (bookworm), kernel 6.1.0-40-amd64, x86_64, 1 CPU, 3.8 GiB
  of memory, kubeadm v1.36.3, kubelet v1.36.3
  unfit    ports               10250 is in use (kubeadm: Port-10250)
                               find what listens there (`ss -ltnp sport =
                               :10250`) and stop it
  warned   swap                /dev/sda2 in use (kubeadm: Swap)
                               `swapoff -a` and take it out of /etc/fstab, or
                               configure the kubelet for it (failSwapOn,
                               memorySwap)
  passed   17 rules (--all shows them)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_machine_that_is_not_trusted_is_shown_with_the_keys_it_offers() {
        let offered = vec![HostKey { kind: "ssh-ed25519".to_owned(), fingerprint: "SHA256:abc".to_owned() }];
        let silence =
            Silence { trouble: Some(SshTrouble::UnknownHostKey), offered, ..Silence::because("No key.") };
        let host: Destination = "h1:2222".parse().expect("a host");
        let text = shown(&judged(host, Err(silence), &purpose()));
        assert!(text.starts_with("h1:2222: not trusted: its host key is not known\n  No key.\n  offers   ssh-ed25519 SHA256:abc\n"), "{text}");
        assert!(text.contains("`ssh-keyscan -p\n  2222 h1 >> ~/.ssh/known_hosts`"), "{text}");
        for (trouble, words) in [
            (Some(SshTrouble::ChangedHostKey), "`ssh-keygen -R '[h1]:2222'`"),
            (Some(SshTrouble::Denied), "`ssh-add -l`"),
            (Some(SshTrouble::Configuration), "~/.ssh/config"),
            (Some(SshTrouble::Unreachable), "`ssh -v -p 2222 h1`"),
            (None, "`ssh -v -p 2222 h1`"),
        ] {
            let silence = Silence { trouble, ..Silence::because("no") };
            let text = shown(&judged("h1:2222".parse().expect("a host"), Err(silence), &purpose()));
            assert!(text.contains(words), "{text}");
        }
    }
}
