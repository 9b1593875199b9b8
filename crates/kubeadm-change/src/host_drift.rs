//! What only the host of a node shows: a certificate that is served and is not the one in its file, flags of a kubelet that were
//! edited since it started, an address of a kubelet that its Node does not have. It is asked in one line that only reads. Owns that
//! question, and what differs by its answer; must not know how a host is asked.

use std::collections::BTreeMap;

use super::network::parse_ip;
use super::render::{API_SERVER, ClusterSettings, ETCD, HostFacts};
use capstan_base::command_line::CommandLine;

/// Begins the part of an answer that a command printed.
const PART: &str = "== ";
/// kubeadm writes the flags of a kubelet there, as a variable of that name.
/// Source: kubeadm `phases/kubelet/flags.go` (`WriteKubeletDynamicEnvFile`), v1.36.
const FLAGS_FILE: &str = "/var/lib/kubelet/kubeadm-flags.env";
const FLAGS_VARIABLE: &str = "KUBELET_KUBEADM_ARGS=";
const ETCD_SERVES: &str = "127.0.0.1:2379";
const FINGERPRINT: &str = "openssl x509 -noout -fingerprint -sha256 -enddate";

/// One certificate of a control plane node: whose it is, where it stands, and where it is served.
struct Served {
    component: &'static str,
    file: String,
    address: String,
}

fn certificates(settings: &ClusterSettings<'_>, host: Option<&HostFacts>) -> Vec<Served> {
    let Some(host) = host else { return Vec::new() };
    let folder = settings.certificates_dir();
    let address = if host.address.contains(':') {
        format!("[{}]:{}", host.address, host.port)
    } else {
        format!("{}:{}", host.address, host.port)
    };
    let mut found = vec![Served { component: API_SERVER, file: format!("{folder}/apiserver.crt"), address }];
    if settings.has_local_etcd() {
        let file = format!("{folder}/etcd/server.crt");
        found.push(Served { component: ETCD, file, address: ETCD_SERVES.to_owned() });
    }
    found
}

/// One line that reads, and prints what [`differences`] understands. `host`: of a control plane node.
pub fn question(settings: &ClusterSettings<'_>, host: Option<&HostFacts>) -> CommandLine {
    let mut lines = Vec::new();
    let mut asked = |part: &str, line: CommandLine| {
        lines.push(CommandLine::of("echo {}", [&format!("{PART}{part}")]));
        lines.push(line);
    };
    for Served { component, file, address } in certificates(settings, host) {
        asked(
            &format!("file {component}"),
            CommandLine::of(FINGERPRINT, []).with(&CommandLine::of("-in {}", [&file])),
        );
        // Without input openssl ends behind the handshake instead of waiting for what is typed.
        let shown = CommandLine::of("openssl s_client -connect {} </dev/null 2>/dev/null", [&address]);
        let line = shown.with(&CommandLine::of(FINGERPRINT, []).behind("| "));
        asked(&format!("served {component}"), CommandLine::of("sh -c {}", [line.as_str()]));
    }
    asked("flags file", CommandLine::of("cat {}", [FLAGS_FILE]));
    // The kernel puts a zero byte behind each variable and each argument of a process.
    let of_process = |file: &'static str| CommandLine::of(file, []);
    asked(
        "flags running",
        of_process(
            "sh -c 'tr \"\\000\" \"\\n\" </proc/$(pgrep -xo kubelet)/environ | grep ^KUBELET_KUBEADM_ARGS='",
        ),
    );
    asked("command", of_process("sh -c 'tr \"\\000\" \"\\n\" </proc/$(pgrep -xo kubelet)/cmdline'"));
    // A part may fail; only the status of the whole line says whether the host can be asked.
    lines.push(CommandLine::of("true", []));
    CommandLine::one_after_the_other(&lines)
}

/// What each command printed, by the name of its part; one that printed nothing has no part.
fn parts(answer: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut parts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut part = "";
    for line in answer.lines() {
        match line.strip_prefix(PART) {
            Some(name) => part = name,
            None if !line.trim().is_empty() => parts.entry(part).or_default().push(line.trim()),
            None => {}
        }
    }
    parts
}

/// What differs on a host, a sentence each. `addresses`: those that its Node says it has. What the host does not show differs
/// from nothing.
pub fn differences(
    answer: &str,
    settings: &ClusterSettings<'_>,
    host: Option<&HostFacts>,
    addresses: &[String],
) -> Vec<String> {
    let parts = parts(answer);
    let part = |name: &str| parts.get(name).map(Vec::as_slice).unwrap_or_default();
    let of_certificates = certificates(settings, host).into_iter().filter_map(|served| {
        let shown =
            (part(&format!("file {}", served.component)), part(&format!("served {}", served.component)));
        other_certificate(&served, shown)
    });
    let mut found: Vec<String> = of_certificates.collect();
    found.extend(other_flags(part("flags file"), part("flags running")));
    found.extend(other_address(part("command"), addresses));
    found
}

/// Is another certificate served than stands in the file?
fn other_certificate(served: &Served, (file, shown): (&[&str], &[&str])) -> Option<String> {
    let value = |lines: &[&str], name: &str| {
        let line = lines.iter().find_map(|line| line.split_once('=').filter(|(key, _)| key.ends_with(name)));
        line.map(|(_, value)| value.to_owned())
    };
    let (in_file, at_port) = (value(file, "Fingerprint")?, value(shown, "Fingerprint")?);
    let until = |lines: &[&str]| value(lines, "notAfter").unwrap_or_else(|| "an unknown day".to_owned());
    (in_file != at_port).then(|| {
        format!(
            "{} serves a certificate (until {}) that is not the one in {} (until {}): that was not read since it was written, or does not fit its key",
            served.component,
            until(shown),
            served.file,
            until(file)
        )
    })
}

/// How the flags in the file differ from those that the kubelet was started with.
fn other_flags(file: &[&str], running: &[&str]) -> Option<String> {
    let flags = |lines: &[&str]| -> Option<Vec<String>> {
        let text = lines.iter().find_map(|line| line.strip_prefix(FLAGS_VARIABLE))?;
        Some(text.trim_matches(['"', '\'']).split_whitespace().map(str::to_owned).collect())
    };
    let (wanted, has) = (flags(file)?, flags(running)?);
    let only = |these: &[String], others: &[String], sign: &str| -> Vec<String> {
        these.iter().filter(|flag| !others.contains(flag)).map(|flag| format!("{sign} {flag}")).collect()
    };
    let lines = [only(&has, &wanted, "-"), only(&wanted, &has, "+")].concat();
    (!lines.is_empty()).then(|| {
        format!("kubelet has not been restarted since {FLAGS_FILE} was edited: {}", lines.join(", "))
    })
}

/// Addresses that a kubelet was given by `--node-ip`, and that its Node does not have.
fn other_address(command: &[&str], addresses: &[String]) -> Option<String> {
    // Of a flag that stands twice the kubelet takes the last one.
    let given = command.iter().rev().find_map(|argument| argument.strip_prefix("--node-ip="))?;
    let has: Vec<_> = addresses.iter().filter_map(|address| parse_ip(address)).collect();
    let is_missing = |address: &&str| {
        // An unspecified address asks for one of its family.
        parse_ip(address).is_some_and(|address| !address.is_unspecified() && !has.contains(&address))
    };
    let missing: Vec<&str> = given.split(',').map(str::trim).filter(is_missing).collect();
    // A Node without any address proves nothing: its kubelet may not have reported yet.
    (!missing.is_empty() && !has.is_empty()).then(|| {
        format!("kubelet was started with --node-ip={given}, and its Node has {}", addresses.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answered(parts: &[(&str, &str)]) -> String {
        parts.iter().map(|(name, text)| format!("{PART}{name}\n{text}\n")).collect()
    }

    fn found(answer: &str, addresses: &[&str]) -> Vec<String> {
        let document = json!({"kubernetesVersion": "v1.36.1"});
        let settings = ClusterSettings::new(&document, None).expect("a version");
        let addresses: Vec<String> = addresses.iter().map(|address| (*address).to_owned()).collect();
        differences(answer, &settings, Some(&HostFacts::new("cp-0", "10.0.0.1")), &addresses)
    }

    #[test]
    fn a_certificate_that_is_served_is_the_one_in_its_file() {
        let one = "sha256 Fingerprint=AA:01\nnotAfter=Nov 28 10:00:00 2027 GMT";
        let other = "SHA256 Fingerprint=BB:02\nnotAfter=Nov 28 10:00:00 2026 GMT";
        let same = answered(&[("file kube-apiserver", one), ("served kube-apiserver", one)]);
        assert_eq!(found(&same, &[]), [""; 0]);
        let unread = answered(&[("file etcd", ""), ("served etcd", one), ("file kube-apiserver", one)]);
        assert_eq!(found(&unread, &[]), [""; 0], "what is not shown does not differ");
        let differs = answered(&[("file etcd", one), ("served etcd", other)]);
        assert_eq!(
            found(&differs, &[]),
            [
                "etcd serves a certificate (until Nov 28 10:00:00 2026 GMT) that is not the one in /etc/kubernetes/pki/etcd/server.crt (until Nov 28 10:00:00 2027 GMT): that was not read since it was written, or does not fit its key"
            ]
        );
    }

    #[test]
    fn flags_of_a_kubelet_are_those_of_its_file() {
        let file = "KUBELET_KUBEADM_ARGS=\"--node-ip=10.0.0.2 --v=2\"";
        let same = answered(&[
            ("flags file", file),
            ("flags running", "KUBELET_KUBEADM_ARGS=--v=2 --node-ip=10.0.0.2"),
        ]);
        assert_eq!(found(&same, &[]), [""; 0], "the order does not count");
        let edited = answered(&[
            ("flags file", file),
            ("flags running", "KUBELET_KUBEADM_ARGS=--node-ip=10.0.0.1 --v=2"),
        ]);
        assert_eq!(
            found(&edited, &[]),
            [
                "kubelet has not been restarted since /var/lib/kubelet/kubeadm-flags.env was edited: - --node-ip=10.0.0.1, + --node-ip=10.0.0.2"
            ]
        );
        assert_eq!(found(&answered(&[("flags file", file)]), &[]), [""; 0], "no kubelet was found");
    }

    #[test]
    fn a_node_has_the_address_that_its_kubelet_was_given() {
        for (given, addresses, differs) in [
            ("10.0.0.1", &["10.0.0.1"][..], false),
            ("10.0.0.9", &["10.0.0.1"], true),
            ("10.0.0.1,fd00::0:1", &["10.0.0.1", "fd00::1"], false),
            ("10.0.0.1,fd00::1", &["10.0.0.1"], true),
            ("0.0.0.0", &["10.0.0.1"], false),
            ("10.0.0.9", &[], false),
        ] {
            let answer = answered(&[("command", &format!("/usr/bin/kubelet\n--node-ip={given}"))]);
            assert_eq!(found(&answer, addresses).len(), usize::from(differs), "{given} {addresses:?}");
        }
        let last = answered(&[("command", "kubelet\n--node-ip=10.0.0.9\n--node-ip=10.0.0.1")]);
        assert_eq!(found(&last, &["10.0.0.1"]), [""; 0], "the last one counts");
    }

    /// A shell reads the line, and what it cannot do prints nothing else.
    #[test]
    fn the_question_is_a_line_of_a_shell() {
        let document = json!({"kubernetesVersion": "v1.36.1", "certificatesDir": "/nowhere/it's"});
        let settings = ClusterSettings::new(&document, None).expect("a version");
        let host = HostFacts::new("cp-0", "fd00::1");
        let line = question(&settings, Some(&host));
        assert!(line.as_str().contains("[fd00::1]:6443"), "{line}");
        let folder = tempfile::tempdir().expect("a folder");
        // Only a shell, and no program.
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", line.as_str()])
            .env("PATH", folder.path())
            .output()
            .expect("a shell");
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(answer.lines().filter(|line| line.starts_with(PART)).count(), 7, "{answer}");
        assert_eq!(differences(&answer, &settings, Some(&host), &["fd00::1".to_owned()]), [""; 0]);
        assert!(!question(&settings, None).as_str().contains("openssl"), "a worker has no such certificates");
    }
}
