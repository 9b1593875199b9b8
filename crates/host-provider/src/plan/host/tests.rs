//! What is said of a Host, look by look.

use super::*;
use capi_types::host::{HostMaintenance, HostRunStatus, HostSpec, HostStatus};
use capstan_hosts::clean::{Leftover, LeftoverKind};
use capstan_hosts::facts::{CONTAINERD, ContainerRuntime};
use capstan_remote::host_key::HostKey;

fn at(second: i64) -> Timestamp {
    Timestamp::from_timestamp(1_800_000_000 + second, 0).expect("a moment")
}

fn fit() -> HostFacts {
    let version = |text: &str| Some(text.parse().expect("a version"));
    HostFacts {
        privilege: Privilege::Root,
        clock_ahead_s: Some(0),
        system: Some("Linux".to_owned()),
        init: Some("systemd".to_owned()),
        kernel: Some("6.1.0".to_owned()),
        cpus: Some(4),
        memory_kib: Some(8_000_000),
        disk_kib: Some(100),
        disk_free_kib: Some(90),
        cgroup: Some(2),
        controllers: [
            "cpu", "cpuset", "memory", "pids", "cpuacct", "devices", "freezer", "hugetlb", "io", "blkio",
        ]
        .map(str::to_owned)
        .into(),
        listens: Some(BTreeSet::new()),
        etcd_entries: Some(0),
        commands: ["losetup", "mount", "cp", "conntrack"].map(str::to_owned).into(),
        sockets: vec!["/var/run/containerd/containerd.sock".to_owned()],
        kubeadm: version("1.36.3"),
        kubelet: version("1.36.3"),
        runtime: Some(ContainerRuntime { name: CONTAINERD, version: "2.1.0".to_owned() }),
        kubelet_unit: Some("enabled".to_owned()),
        forwards_ipv4: Some(true),
        hostname: Some("h1".to_owned()),
        name_addresses: Some(vec!["10.0.0.1".to_owned()]),
        ..HostFacts::default()
    }
}

fn host() -> Host {
    let mut host = Host::new("h1", HostSpec { address: "10.0.0.1".to_owned(), ..HostSpec::default() });
    host.metadata.uid = Some("host-1".to_owned());
    host
}

fn owner(installation: &str, machine: &str) -> OwnerAnswer {
    let owner = HostOwner::new(installation, "host-1", machine, "ns/c", 1).expect("an owner");
    OwnerAnswer::Other { owner, since_s: None }
}

fn seen(facts: HostFacts, owner: OwnerAnswer, left: &[&str]) -> Look {
    let leftover = |what: &&str| Leftover { kind: LeftoverKind::File, what: (*what).to_owned() };
    let proof = Proof { left: left.iter().map(leftover).collect(), unread: Vec::new() };
    let seen = SeenHost { facts, owner: Ok(owner), proof: Some(Ok(proof)) };
    Look { answer: Ok(seen), silent_since: None }
}

fn silent(trouble: Option<SshTrouble>, since: i64) -> Look {
    let offered = vec![HostKey { kind: "ssh-ed25519".to_owned(), fingerprint: "SHA256:abc".to_owned() }];
    let silence = Silence { trouble, offered, ..Silence::because("ssh's words") };
    Look { answer: Err(silence), silent_since: Some(at(since)) }
}

fn judged(host: &Host, look: Option<&Look>, ignored: &[&'static str]) -> (Vec<Condition>, &'static str) {
    let observed = ObservedHost {
        host,
        ignored: ignored.iter().copied().collect(),
        look,
        twins: Vec::new(),
        installation: "here",
        now: at(100),
    };
    let conditions = conditions(&observed);
    let state = state(host, &conditions);
    (conditions, state)
}

/// `status reason` of one condition.
fn status_of(conditions: &[Condition], type_: &str) -> String {
    let found = find(conditions, type_).expect(type_);
    format!("{} {}", found.status, found.reason)
}

#[test]
fn each_look_has_a_state_and_a_reason_why_it_is_not_available() {
    let free = OwnerAnswer::Free;
    let poor = HostFacts { init: Some("busybox".to_owned()), ..fit() };
    let user = HostFacts { privilege: Privilege::None, ..fit() };
    let old = HostFacts { cgroup: Some(1), ..fit() };
    for (look, ignored, available, state) in [
        (None, &[][..], "Unknown NotAskedYet", "Unknown"),
        (Some(seen(fit(), free.clone(), &[])), &[], "True Available", "Available"),
        (Some(seen(poor, free.clone(), &[])), &[], "False Unfit", "Unfit"),
        (Some(seen(user, free.clone(), &[])), &[], "False NotPrivileged", "NotPrivileged"),
        (Some(seen(old.clone(), free.clone(), &[])), &[], "False Unfit", "Unfit"),
        (Some(seen(old, free.clone(), &[])), &["cgroup"], "True Available", "Available"),
        (Some(seen(fit(), free, &["/etc/kubernetes/admin.conf"])), &[], "False Leftovers", "Quarantined"),
        (Some(seen(fit(), owner("there", "m"), &[])), &[], "False OwnedElsewhere", "OwnedElsewhere"),
        (Some(seen(fit(), owner("here", "m"), &[])), &[], "False Leftovers", "Quarantined"),
        (Some(silent(Some(SshTrouble::UnknownHostKey), 0)), &[], "False UnknownHostKey", "Untrusted"),
        (Some(silent(Some(SshTrouble::ChangedHostKey), 0)), &[], "False ChangedHostKey", "Untrusted"),
        (Some(silent(Some(SshTrouble::Denied), 0)), &[], "False Denied", "Denied"),
        (Some(silent(Some(SshTrouble::Configuration), 0)), &[], "Unknown NotAskedYet", "Unreachable"),
    ] {
        let (conditions, found) = judged(&host(), look.as_ref(), ignored);
        assert_eq!(
            (status_of(&conditions, type_::AVAILABLE).as_str(), found),
            (available, state),
            "{look:?}"
        );
        assert_eq!(conditions.len(), 7, "{conditions:?}");
    }
}

#[test]
fn a_key_that_is_not_trusted_is_said_with_what_to_do() {
    let (conditions, _) = judged(&host(), Some(&silent(Some(SshTrouble::ChangedHostKey), 0)), &[]);
    let message = &find(&conditions, type_::HOST_KEY_VERIFIED).expect("a condition").message;
    assert_eq!(
        message,
        "ssh's words; the machine offers: ssh-ed25519 SHA256:abc. Compare one with what the machine's own console says, then: \
         capstan host trust h1 --fingerprint SHA256:…"
    );
    let nothing = Silence {
        trouble: Some(SshTrouble::UnknownHostKey),
        ..Silence::because("No ED25519 host key is known for bastion")
    };
    let look = Look { answer: Err(nothing), silent_since: Some(at(0)) };
    let (conditions, state) = judged(&host(), Some(&look), &[]);
    let message = &find(&conditions, type_::HOST_KEY_VERIFIED).expect("a condition").message;
    assert!(message.contains("known_hosts file of the operator's ssh") && state == "Untrusted", "{message}");
}

#[test]
fn a_machine_that_was_reached_is_lost_only_after_a_while() {
    let mut host = host();
    let (before, _) = judged(&host, Some(&seen(fit(), OwnerAnswer::Free, &[])), &[]);
    host.status = Some(HostStatus { conditions: before, ..HostStatus::default() });
    for (since, reachable, available) in [
        (90, "Unknown ConnectionLost", "Unknown ConnectionLost"),
        (-50, "False Unreachable", "False Unreachable"),
    ] {
        let look = silent(Some(SshTrouble::Unreachable), since);
        let (conditions, _) = judged(&host, Some(&look), &[]);
        assert_eq!(status_of(&conditions, type_::REACHABLE), reachable);
        assert_eq!(status_of(&conditions, type_::AVAILABLE), available);
        assert_eq!(
            status_of(&conditions, type_::CLEAN),
            "Unknown NotProved",
            "it was clean when it was seen last"
        );
    }
}

#[test]
fn a_host_that_somebody_has_is_what_its_run_is() {
    let mut host = host();
    host.spec.consumer_ref = Some(HostConsumer {
        kind: "HostMachine".to_owned(),
        name: "m".to_owned(),
        uid: "m-1".to_owned(),
        cluster_name: None,
    });
    for (id, kind, phase, state) in [
        ("m-1", "Bootstrap", "Running", "Bootstrapping"),
        ("m-1", "Bootstrap", "Succeeded", "InUse"),
        ("m-1", "Bootstrap", "Failed", "BootstrapFailed"),
        ("m-1", "Reset", "Running", "Resetting"),
        ("m-1", "Reset", "Failed", "Quarantined"),
        ("m-0", "Bootstrap", "Succeeded", "Claimed"),
    ] {
        let text = |text: &str| Some(text.to_owned());
        let run =
            HostRunStatus { id: text(id), kind: text(kind), phase: text(phase), ..HostRunStatus::default() };
        host.status = Some(HostStatus { run: Some(run), ..HostStatus::default() });
        let look = SeenHost { facts: fit(), owner: Ok(owner("here", "m-1")), proof: None };
        let look = Look { answer: Ok(look), silent_since: None };
        let (conditions, found) = judged(&host, Some(&look), &[]);
        assert_eq!(found, state, "{kind} {phase}");
        assert_eq!(status_of(&conditions, type_::CLAIMED), "True Claimed");
        assert_eq!(status_of(&conditions, type_::CLEAN), "Unknown InUse");
        assert_eq!(status_of(&conditions, type_::AVAILABLE), "False Claimed");
    }
    host.spec.consumer_ref = None;
    host.spec.maintenance = Some(HostMaintenance { reason: "new fans".to_owned() });
    let (conditions, found) = judged(&host, Some(&seen(fit(), OwnerAnswer::Free, &[])), &[]);
    assert_eq!(
        (status_of(&conditions, type_::AVAILABLE).as_str(), found),
        ("False Maintenance", "Maintenance")
    );
}

#[test]
fn two_hosts_of_one_machine_are_not_used_whatever_is_ignored() {
    let finding = |rule| HostFinding {
        rule,
        outcome: Fitness::Unfit,
        evidence: "1 is that of ns/h2 as well".to_owned(),
        remedy: String::new(),
        kubeadm_check: None,
    };
    let (host, look) = (host(), seen(fit(), OwnerAnswer::Free, &[]));
    for (rule, suitable) in
        [("machine-id", "False Unfit"), ("host-key", "False Unfit"), ("product-uuid", "True Suitable")]
    {
        let observed = ObservedHost {
            host: &host,
            ignored: [rule].into(),
            look: Some(&look),
            twins: vec![finding(rule)],
            installation: "here",
            now: at(0),
        };
        assert_eq!(status_of(&conditions(&observed), type_::SUITABLE), suitable, "{rule}");
    }
}
