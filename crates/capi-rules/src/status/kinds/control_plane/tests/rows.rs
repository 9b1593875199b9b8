//! Every reason of a control plane's conditions, and of those it writes on its Machines.

use super::*;
use crate::status::conditions::setter::CHECK_LOGS;
use crate::status::tests::witness::{self, Triple};

const PODS: [(&str, &str); 4] = [
    ("APIServerPodHealthy", "kube-apiserver-node-m1"),
    ("ControllerManagerPodHealthy", "kube-controller-manager-node-m1"),
    ("SchedulerPodHealthy", "kube-scheduler-node-m1"),
    ("EtcdPodHealthy", "etcd-node-m1"),
];
const HEALTH: [&str; 2] = ["EtcdClusterHealthy", "ControlPlaneComponentsHealthy"];
const LABELS: &str = "NodeKubeadmLabelsAndTaintsSet";
const MEMBER: &str = "EtcdMemberHealthy";

/// A condition of Machine m1 after an inspection of three with this change.
#[track_caller]
fn on_machine(change: impl FnOnce(&mut Observed), type_: &str, expected: Triple<'_>) {
    let mut o = fixtures::three();
    change(&mut o);
    let found = inspect(&o, fixtures::now());
    witness::expect("Machine by KubeadmControlPlane", &found.machines["m1"], type_, expected);
}

/// The conditions of the control plane after an inspection.
#[track_caller]
fn on_plane(change: impl FnOnce(&mut Observed), type_: &str, expected: Triple<'_>) {
    let mut o = fixtures::three();
    change(&mut o);
    let found = inspect(&o, fixtures::now()).control_plane;
    witness::expect("KubeadmControlPlane", &found, type_, expected);
}

/// What a whole pass writes.
#[track_caller]
fn whole(change: impl FnOnce(&mut Observed), type_: &str, expected: Triple<'_>) {
    witness::expect("KubeadmControlPlane", &report(change), type_, expected);
}

/// The status where Machines were not inspected.
#[track_caller]
fn stored(change: impl FnOnce(&mut Observed), type_: &str, expected: Triple<'_>) {
    let mut o = fixtures::three();
    change(&mut o);
    let conditions = status(&o, &Pass::default(), fixtures::now()).conditions;
    witness::expect("KubeadmControlPlane", &conditions, type_, expected);
}

/// Replaces a condition of Machine m1; an empty status takes it away.
fn put(o: &mut Observed, type_: &str, status: &str, message: &str) {
    let mut list = o.machines[0].conditions().to_vec();
    list.retain(|c| c.type_ != type_);
    if !status.is_empty() {
        let mut condition: Condition = of(fixtures::condition(type_, status));
        condition.message = message.to_owned();
        list.push(condition);
    }
    o.machines[0].set_conditions(list);
}

fn goes(o: &mut Observed) {
    o.machines[0].machine.metadata.deletion_timestamp = Some(to_k8s(fixtures::now()));
}

fn lost(o: &mut Observed) {
    o.workload = Workload::Down(Connection {
        last_success: Some(fixtures::now() - TimeDelta::minutes(6)),
        consecutive_failures: 9,
        ..Connection::default()
    });
}

#[test]
fn machines_without_inspection() {
    let waiting = "Waiting for Cluster control plane to be initialized";
    let last = "Last successful probe at 2026-11-20T09:54:00Z";
    for type_ in &OWNED_ON_MACHINES[1..] {
        on_machine(|o| o.control_plane.status = None, type_, ("Unknown", "InspectionFailed", waiting));
        on_machine(lost, type_, ("Unknown", "ConnectionDown", last));
    }
    for type_ in HEALTH {
        on_plane(|o| o.control_plane.status = None, type_, ("Unknown", "InspectionFailed", waiting));
        on_plane(lost, type_, ("Unknown", "ConnectionDown", last));
    }
}

#[test]
fn components_of_a_machine() {
    let without_node = |o: &mut Observed| {
        goes(o);
        facts(o).nodes.as_mut().unwrap().remove(0);
    };
    let leaving = ("False", "Deleting", "Machine is deleting");
    on_machine(|_| {}, LABELS, ("True", "Set", ""));
    on_machine(without_node, LABELS, leaving);
    on_machine(
        |o| facts(o).nodes.as_mut().unwrap()[0].metadata.labels = None,
        LABELS,
        ("False", "NotSet", "Node node-m1 does not have the node-role.kubernetes.io/control-plane label"),
    );
    for (type_, name) in PODS {
        let phase = |phase: &'static str| {
            move |o: &mut Observed| {
                let pods = facts(o).pods.as_mut().unwrap();
                let pod = pods.iter_mut().find(|p| p.metadata.name.as_deref() == Some(name)).unwrap();
                pod.status = Some(of(json!({ "phase": phase })));
            }
        };
        on_machine(|_| {}, type_, ("True", "Running", ""));
        on_machine(goes, type_, leaving);
        on_machine(phase("Pending"), type_, ("False", "Provisioning", "Waiting to be scheduled"));
        on_machine(phase("Failed"), type_, ("False", "Failed", "All the containers have been terminated"));
        on_machine(
            |o| facts(o).pods.as_mut().unwrap().retain(|p| p.metadata.name.as_deref() != Some(name)),
            type_,
            ("False", "DoesNotExist", "Pod does not exist"),
        );
    }
    on_machine(|_| {}, MEMBER, ("True", "Healthy", ""));
    on_machine(goes, MEMBER, leaving);
    let alarm = ("False", "NotHealthy", "Etcd reports alarms: NOSPACE");
    on_machine(|o| members(o)[0].alarms.push("NOSPACE".into()), MEMBER, alarm);
}

/// A reader of files takes the stored conditions of members as they are.
#[test]
fn assumed_members_change_nothing() {
    let assume = |o: &mut Observed| {
        put(o, MEMBER, "False", "Etcd reports alarms: CORRUPT");
        let list = o.machines.iter().zip(1..).map(|(m, id)| fixtures::member(id, m.node_name().unwrap()));
        let list = list.collect();
        facts(o).etcd = Membership::Assumed(crate::etcd::Members { list, leader: None });
    };
    let line = "* Machine m1:\n  * EtcdMemberHealthy: Etcd reports alarms: CORRUPT";
    on_plane(assume, "EtcdClusterHealthy", ("False", "NotHealthy", line));
    let mut o = fixtures::three();
    assume(&mut o);
    let found = inspect(&o, fixtures::now());
    let kept =
        condition::find(&found.machines["m1"], MEMBER).map(|c| (c.reason.as_str(), c.message.as_str()));
    assert_eq!(kept, Some(("Test", "Etcd reports alarms: CORRUPT")));
    assert!(found.members_match && found.members.is_some_and(|members| members.len() == 3));
}

/// Without Nodes a Machine that just came looks like one that lost its member.
#[test]
fn whether_assumed_members_match_stays_as_told() {
    let mut o = fixtures::three();
    let list = vec![fixtures::member(1, o.machines[0].node_name().unwrap())];
    let known = Membership::Known(crate::etcd::Members { list, leader: None });
    o.workload = crate::status::control_plane::Workload::Assumed(known);
    assert!(inspect(&o, fixtures::now()).members_match);
    let told = super::super::available::MEMBERS_DO_NOT_MATCH;
    let told = setter::condition("Available", Status::False, "NotAvailable", told);
    o.control_plane.status.get_or_insert_default().conditions.push(told);
    assert!(!inspect(&o, fixtures::now()).members_match);
}

#[test]
fn machines_of_the_control_plane_are_up_to_date_or_not() {
    const TYPE: &str = "UpToDate";
    on_machine(|_| {}, TYPE, ("True", TYPE, ""));
    let version = ("False", "NotUpToDate", "* Version v1.34.1, v1.35.0 required");
    on_machine(|o| o.control_plane.spec.version = "v1.35.0".into(), TYPE, version);
    on_machine(in_place, TYPE, ("False", "Updating", "* In-place update in progress"));
}

fn in_place(o: &mut Observed) {
    let annotations = o.machines[0].machine.metadata.annotations.get_or_insert_default();
    annotations.insert(capi_types::names::annotation::UPDATE_IN_PROGRESS.to_owned(), String::new());
}

#[test]
fn health_of_the_control_plane() {
    for type_ in HEALTH {
        on_plane(|_| {}, type_, ("True", "Healthy", ""));
    }
    let line = "* Machine m1:\n  * EtcdMemberHealthy: Etcd reports alarms: NOSPACE";
    on_plane(
        |o| members(o)[0].alarms.push("NOSPACE".into()),
        "EtcdClusterHealthy",
        ("False", "NotHealthy", line),
    );
    let lines = "* Machines m1, m2, m3:\n  * EtcdMemberHealthy: Failed to connect to etcd: refused";
    on_plane(
        |o| facts(o).etcd = Membership::NoClient("refused".into()),
        "EtcdClusterHealthy",
        ("Unknown", "HealthUnknown", lines),
    );
    let line = "* Machine m1:\n  * SchedulerPodHealthy: Pod does not exist";
    let without = |o: &mut Observed| {
        facts(o).pods.as_mut().unwrap().retain(|p| p.metadata.name.as_deref() != Some(PODS[2].1));
    };
    on_plane(without, "ControlPlaneComponentsHealthy", ("False", "NotHealthy", line));
    let lines = "* Machine m1:\n  * Control plane components: Node node-m1 does not exist";
    on_plane(
        |o| {
            facts(o).nodes.as_mut().unwrap().remove(0);
        },
        "ControlPlaneComponentsHealthy",
        ("Unknown", "HealthUnknown", lines),
    );
}

#[test]
fn a_control_plane_at_rest() {
    for (type_, status, reason) in [
        ("Available", "True", "Available"),
        ("CertificatesAvailable", "True", "Available"),
        ("Initialized", "True", "Initialized"),
        ("RollingOut", "False", "NotRollingOut"),
        ("ScalingUp", "False", "NotScalingUp"),
        ("ScalingDown", "False", "NotScalingDown"),
        ("MachinesReady", "True", "Ready"),
        ("MachinesUpToDate", "True", "UpToDate"),
        ("Remediating", "False", "NotRemediating"),
        ("Deleting", "False", "NotDeleting"),
    ] {
        whole(|_| {}, type_, (status, reason, ""));
    }
}

#[test]
fn certificates_and_initialization() {
    const TYPE: &str = "CertificatesAvailable";
    let missing = "Cluster certificates for ca, sa, proxy, etcd are not available, please check cluster certificate secrets";
    whole(|o| o.certificates = Certificates::Found(vec![]), TYPE, ("False", "NotAvailable", missing));
    whole(
        |o| o.certificates = Certificates::Unreadable("refused".into()),
        TYPE,
        ("Unknown", "InternalError", CHECK_LOGS),
    );
    let fresh = |o: &mut Observed| {
        o.control_plane.status = None;
        facts(o).kubeadm_config = Ok(None);
    };
    whole(fresh, "Initialized", ("False", "NotInitialized", ""));
    whole(fresh, "Available", ("False", "NotAvailable", "Control plane not yet initialized"));
    let blind = |o: &mut Observed| facts(o).etcd = Membership::NoLeader;
    whole(blind, "Available", ("Unknown", "InspectionFailed", "Failed to get etcd members"));
}

#[test]
fn machines_of_the_control_plane_are_summed_up() {
    for (type_, source, no, unknown) in [
        ("MachinesReady", "Ready", "NotReady", "ReadyUnknown"),
        ("MachinesUpToDate", "UpToDate", "NotUpToDate", "UpToDateUnknown"),
    ] {
        stored(|o| o.machines.clear(), type_, ("True", "NoReplicas", ""));
        stored(|o| put(o, source, "False", "m"), type_, ("False", no, "* Machine m1: m"));
        let missing = format!("* Machine m1: Condition {source} not yet reported");
        stored(|o| put(o, source, "", ""), type_, ("Unknown", unknown, &missing));
    }
    let out = "Rolling out 1 not up-to-date replicas\n* In-place update in progress";
    whole(in_place, "RollingOut", ("True", "RollingOut", out));
    stored(
        |o| {
            put(o, "HealthCheckSucceeded", "False", "");
            put(o, "OwnerRemediated", "False", "waits");
        },
        "Remediating",
        ("True", "Remediating", "* Machine m1: waits"),
    );
}

#[test]
fn replicas_of_the_control_plane() {
    let replicas = |n: Option<i32>| move |o: &mut Observed| o.control_plane.spec.replicas = n;
    stored(replicas(Some(5)), "ScalingUp", ("True", "ScalingUp", "Scaling up from 3 to 5 replicas"));
    stored(replicas(Some(1)), "ScalingDown", ("True", "ScalingDown", "Scaling down from 3 to 1 replicas"));
    for type_ in ["ScalingUp", "ScalingDown"] {
        stored(replicas(None), type_, ("Unknown", "WaitingForReplicasSet", "Waiting for spec.replicas set"));
    }
}

#[test]
fn a_deletion_at_every_stage() {
    let stage = |change: &dyn Fn(&mut Observed), failed: bool, reason: &str, message: &str| {
        let mut o = fixtures::three();
        o.control_plane.metadata.deletion_timestamp = Some(to_k8s(fixtures::now()));
        change(&mut o);
        let condition = scaling::deleting(&o, failed, fixtures::now());
        witness::expect_one("KubeadmControlPlane", &condition, "Deleting", ("True", reason, message));
    };
    stage(&|_| {}, false, "WaitingForMachineDeletion", "Deleting 3 Machines");
    stage(&|_| {}, true, "InternalError", CHECK_LOGS);
    let blocked =
        "KubeadmControlPlane deletion blocked because following objects still exist:\n* Machines: a";
    stage(&|o| o.worker_machines = vec!["a".into()], false, "WaitingForWorkersDeletion", blocked);
    stage(&|o| o.machines.clear(), false, "DeletionCompleted", "Deletion completed");
}
