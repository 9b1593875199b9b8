//! Each rule, and a machine that breaks it.

use std::collections::BTreeSet;

use super::super::check::{check, overall};
use super::super::finding::Fitness;
use super::*;

fn containerd(version: &str) -> ContainerRuntime {
    ContainerRuntime { name: CONTAINERD, version: version.to_owned() }
}

/// A machine against which nothing speaks.
fn fit() -> HostFacts {
    let words = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    HostFacts {
        privilege: Privilege::Root,
        clock_ahead_s: Some(-1),
        system: Some("Linux".to_owned()),
        init: Some("systemd".to_owned()),
        kernel: Some("6.1.0-40-amd64".to_owned()),
        cpus: Some(2),
        memory_kib: Some(1_740_800),
        disk_kib: Some(100),
        disk_free_kib: Some(15),
        cgroup: Some(2),
        controllers: words(&["cpu", "cpuset", "io", "memory", "pids"]),
        listens: Some(BTreeSet::from([22])),
        etcd_entries: Some(0),
        commands: words(&["losetup", "mount", "cp"]),
        sockets: vec!["/var/run/containerd/containerd.sock".to_owned()],
        runtime: Some(containerd("2.1.4")),
        kubeadm: Some(Version::new(1, 36, 3)),
        kubelet: Some(Version::new(1, 36, 3)),
        kubelet_unit: Some("enabled".to_owned()),
        forwards_ipv4: Some(true),
        hostname: Some("h1".to_owned()),
        name_addresses: Some(vec!["10.0.0.1".to_owned()]),
        ..HostFacts::default()
    }
}

fn purpose(role: NodeRole, version: Option<&str>) -> Purpose {
    Purpose { role, version: version.map(|text| Version::parse(text).expect("a version")) }
}

/// What does not pass, as `rule: evidence`.
fn against(facts: &HostFacts, purpose: &Purpose) -> Vec<(Fitness, String)> {
    let found = check(facts, purpose).into_iter().filter(|finding| finding.outcome != Fitness::Passed);
    found.map(|finding| (finding.outcome, format!("{}: {}", finding.rule, finding.evidence))).collect()
}

#[test]
fn a_fit_machine_has_nothing_against_it() {
    for (role, version) in [
        (NodeRole::ControlPlane, None),
        (NodeRole::Worker, Some("1.36.1")),
        (NodeRole::ControlPlane, Some("1.36.3")),
    ] {
        let purpose = purpose(role, version);
        assert_eq!(against(&fit(), &purpose), [], "{purpose:?}");
        assert_eq!(overall(&check(&fit(), &purpose)), Fitness::Passed);
    }
}

#[test]
fn each_rule_has_a_machine_that_breaks_it() {
    use Fitness::{Unfit, Unknown, Warned};
    let cases: [(fn(&mut HostFacts), NodeRole, Option<&str>, Fitness, &str); 34] = [
        (|f| f.privilege = Privilege::None, NodeRole::Worker, None, Unfit, "root: the user is not root"),
        (|f| f.system = Some("FreeBSD".to_owned()), NodeRole::Worker, None, Unfit, "system: FreeBSD"),
        (|f| f.init = Some("init".to_owned()), NodeRole::Worker, None, Unfit, "system: process 1 is init"),
        (|f| f.kernel = Some("4.18.0-553.el8".to_owned()), NodeRole::Worker, None, Unfit, "kernel: 4.18.0"),
        (|f| f.kernel = Some("5.14.0".to_owned()), NodeRole::Worker, None, Unfit, "kernel: 5.14.0"),
        (|f| f.kernel = Some("garbage".to_owned()), NodeRole::Worker, None, Unfit, "kernel: garbage"),
        (
            |f| f.cgroup = None,
            NodeRole::Worker,
            None,
            Unknown,
            "cgroup: the version of cgroup cannot be read",
        ),
        (
            |f| {
                f.controllers.remove("pids");
            },
            NodeRole::Worker,
            None,
            Unfit,
            "cgroup-controllers: pids missing",
        ),
        (|f| f.cpus = Some(1), NodeRole::ControlPlane, None, Unfit, "cpus: 1, and 2 are the least"),
        (|f| f.memory_kib = Some(1_740_799), NodeRole::ControlPlane, None, Unfit, "memory: 1699 MiB"),
        (|f| f.disk_free_kib = Some(14), NodeRole::Worker, None, Warned, "disk: 14 % of /var/lib is free"),
        (|f| f.disk_free_kib = Some(9), NodeRole::Worker, None, Unfit, "disk: 9 % of /var/lib is free"),
        (
            |f| f.disk_kib = Some(0),
            NodeRole::Worker,
            None,
            Unknown,
            "disk: the free space of /var/lib cannot be read",
        ),
        (
            |f| f.swaps = vec!["/dev/sda2".to_owned()],
            NodeRole::Worker,
            None,
            Warned,
            "swap: /dev/sda2 in use",
        ),
        (|f| f.clock_ahead_s = Some(6), NodeRole::Worker, None, Warned, "clock: 6 s ahead"),
        (
            |f| f.clock_ahead_s = Some(i64::MIN),
            NodeRole::Worker,
            None,
            Unfit,
            "clock: 9223372036854775808 s behind",
        ),
        (|f| f.hostname = Some("a_b".to_owned()), NodeRole::Worker, None, Unfit, "hostname: `a_b` cannot be"),
        (
            |f| f.name_addresses = Some(Vec::new()),
            NodeRole::Worker,
            None,
            Warned,
            "hostname: h1 does not resolve",
        ),
        (
            |f| f.listens = Some(BTreeSet::from([2380])),
            NodeRole::ControlPlane,
            None,
            Unfit,
            "ports: 2380 is in use",
        ),
        (
            |f| f.listens = Some(BTreeSet::from([10250])),
            NodeRole::Worker,
            None,
            Unfit,
            "ports: 10250 is in use",
        ),
        (
            |f| f.listens = None,
            NodeRole::Worker,
            None,
            Unknown,
            "ports: which ports are in use cannot be read",
        ),
        (
            |f| {
                f.files.insert("/etc/kubernetes/manifests/etcd.yaml".to_owned());
            },
            NodeRole::ControlPlane,
            None,
            Unfit,
            "files: /etc/kubernetes/manifests/etcd.yaml is there",
        ),
        (
            |f| {
                f.files.insert("/etc/kubernetes/admin.conf".to_owned());
            },
            NodeRole::Worker,
            None,
            Warned,
            "files: /etc/kubernetes/admin.conf is there",
        ),
        (
            |f| f.etcd_entries = Some(1),
            NodeRole::ControlPlane,
            None,
            Unfit,
            "etcd-data: /var/lib/etcd is not empty",
        ),
        (
            |f| f.etcd_entries = None,
            NodeRole::ControlPlane,
            None,
            Unknown,
            "etcd-data: /var/lib/etcd cannot be read",
        ),
        (
            |f| f.distributions = vec!["k3s".to_owned()],
            NodeRole::Worker,
            None,
            Unfit,
            "other-distribution: k3s is installed",
        ),
        (
            |f| {
                f.commands.remove("losetup");
            },
            NodeRole::Worker,
            None,
            Unfit,
            "commands: losetup is not in PATH",
        ),
        (
            |f| f.sockets.clear(),
            NodeRole::Worker,
            None,
            Unfit,
            "container-runtime: containerd 2.1.4 is installed and has no socket",
        ),
        (
            |f| f.sockets.push("/var/run/crio/crio.sock".to_owned()),
            NodeRole::Worker,
            None,
            Warned,
            "container-runtime: several",
        ),
        (
            |f| f.kubelet = Some(Version::new(1, 32, 9)),
            NodeRole::Worker,
            None,
            Unfit,
            "kubelet: v1.32.9 is too old for kubeadm v1.36.3",
        ),
        (
            |f| f.kubelet_unit = None,
            NodeRole::Worker,
            None,
            Warned,
            "kubelet-unit: the unit of the kubelet is not there",
        ),
        (
            |f| f.runtime = Some(containerd("1.6.20~ds1")),
            NodeRole::Worker,
            None,
            Warned,
            "runtime-version: containerd before 2.0",
        ),
        (
            |f| f.forwards_ipv4 = Some(false),
            NodeRole::Worker,
            None,
            Unfit,
            "ip-forward: net.ipv4.ip_forward is 0",
        ),
        (|f| f.is_firewalld_active = true, NodeRole::Worker, None, Warned, "firewall: firewalld is active"),
    ];
    for (spoil, role, version, outcome, expected) in cases {
        let mut facts = fit();
        spoil(&mut facts);
        let found = against(&facts, &purpose(role, version));
        assert_eq!(found.len(), 1, "{expected}: {found:?}");
        assert_eq!(found[0].0, outcome, "{expected}");
        assert!(found[0].1.starts_with(expected), "{expected}: {found:?}");
    }
}

#[test]
fn what_is_wanted_decides_about_versions() {
    let old_cgroup = |kubelet: u64| {
        let controllers = ["cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"];
        HostFacts {
            cgroup: Some(1),
            controllers: controllers.map(str::to_owned).into(),
            kubelet: Some(Version::new(1, kubelet, 0)),
            kubeadm: Some(Version::new(1, kubelet, 0)),
            ..fit()
        }
    };
    for (facts, version, outcome, expected) in [
        (old_cgroup(34), None, Fitness::Warned, "cgroup: version 1"),
        (old_cgroup(35), None, Fitness::Unfit, "cgroup: version 1, which a kubelet of v1.35.0 refuses"),
        (fit(), Some("1.37.0"), Fitness::Warned, "kubeadm: v1.36.3 for v1.37.0"),
        (fit(), Some("1.35.0"), Fitness::Unfit, "kubelet: v1.36.3 is newer than a control plane of v1.35.0"),
    ] {
        let found = against(&facts, &purpose(NodeRole::Worker, version));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0 == outcome && found[0].1.starts_with(expected), "{found:?}");
    }
    let old =
        HostFacts { kubeadm: Some(Version::new(1, 31, 0)), kubelet: Some(Version::new(1, 31, 0)), ..fit() };
    let found = against(&old, &purpose(NodeRole::Worker, None));
    assert_eq!(found, [(Fitness::Unfit, "commands: conntrack is not in PATH".to_owned())]);
    let nothing = against(
        &HostFacts { kubeadm: None, kubelet: None, ..fit() },
        &purpose(NodeRole::Worker, Some("1.36.0")),
    );
    let words: Vec<&str> = nothing.iter().map(|(_, words)| words.as_str()).collect();
    assert_eq!(words, ["kubeadm: kubeadm is not in PATH", "kubelet: kubelet is not in PATH"]);
}

#[test]
fn a_machine_of_which_nothing_is_known_is_not_called_fit() {
    assert_ne!(
        overall(&check(&HostFacts::default(), &purpose(NodeRole::ControlPlane, None))),
        Fitness::Passed
    );
    assert_eq!(overall(&[]), Fitness::Unknown);
}
