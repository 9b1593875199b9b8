//! Tables: what an inspection finds, when a control plane is available, what its conditions are.

mod rows;

use chrono::TimeDelta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use super::fixtures::{self, of};
use super::scaling::{self, PreflightFindings};
use super::*;
use crate::etcd::Member;
use crate::status::conditions::setter;
use crate::status::machines;
use capi_types::condition::Status;
use capstan_base::time::to_k8s;

fn words(c: Option<&Condition>) -> String {
    c.map_or_else(String::new, |c| match c.message.as_str() {
        "" => format!("{}/{}", c.status, c.reason),
        message => format!("{}/{} {message}", c.status, c.reason),
    })
}

/// A condition of the control plane after an inspection.
fn found(observed: &Observed, type_: &str) -> String {
    let inspection = inspect(observed, fixtures::now());
    words(condition::find(&inspection.control_plane, type_))
}

/// A condition of a Machine after an inspection.
fn on(observed: &Observed, machine: &str, type_: &str) -> String {
    let inspection = inspect(observed, fixtures::now());
    words(condition::find(&inspection.machines[machine], type_))
}

fn facts(observed: &mut Observed) -> &mut Reached {
    match &mut observed.workload {
        Workload::Reached(facts) => facts,
        other => panic!("fixtures reach it, but {other:?}"),
    }
}

fn members(observed: &mut Observed) -> &mut Vec<Member> {
    match &mut facts(observed).etcd {
        Membership::Known(members) => &mut members.list,
        other => panic!("fixtures know the members, but {other:?}"),
    }
}

/// Everything a pass would write, with this change to a healthy control plane of three.
fn report(change: impl FnOnce(&mut Observed)) -> Vec<Condition> {
    let mut observed = fixtures::three();
    change(&mut observed);
    let inspection = inspect(&observed, fixtures::now());
    observed.take_in(&inspection);
    let certificates = observed.certificates.condition(!observed.etcd_is_managed(), true);
    let pass = Pass {
        inspection: Some(inspection),
        conditions: vec![certificates],
        completed: true,
        ..Pass::default()
    };
    // Later than the flap tolerance, so that what is broken counts as broken.
    status(&observed, &pass, fixtures::now() + TimeDelta::seconds(11)).conditions
}

fn said(conditions: &[Condition], type_: &str) -> String {
    words(condition::find(conditions, type_))
}

#[test]
fn a_healthy_control_plane_reports_health() {
    let o = fixtures::three();
    for type_ in OWNED_ON_MACHINES {
        assert!(on(&o, "m2", type_).starts_with("True/"), "{type_}: {}", on(&o, "m2", type_));
    }
    let conditions = report(|_| {});
    for (type_, expected) in [
        ("Available", "True/Available"),
        ("EtcdClusterHealthy", "True/Healthy"),
        ("ControlPlaneComponentsHealthy", "True/Healthy"),
        ("RollingOut", "False/NotRollingOut"),
        ("MachinesReady", "True/Ready"),
        ("MachinesUpToDate", "True/UpToDate"),
        ("Deleting", "False/NotDeleting"),
    ] {
        assert_eq!(said(&conditions, type_), expected);
    }
}

#[test]
fn before_initialization_everything_waits_for_it() {
    let mut o = fixtures::three();
    o.control_plane.status = None;
    let expected = "Unknown/InspectionFailed Waiting for Cluster control plane to be initialized";
    assert_eq!(found(&o, "EtcdClusterHealthy"), expected);
    assert_eq!(found(&o, "ControlPlaneComponentsHealthy"), expected);
    for type_ in &OWNED_ON_MACHINES[1..] {
        assert_eq!(on(&o, "m1", type_), expected, "{type_}");
    }
    assert_eq!(on(&o, "m1", "UpToDate"), "True/UpToDate");
    assert_eq!(inspect(&o, fixtures::now()).failure, None);
}

#[test]
fn a_lost_connection_keeps_what_is_known_for_five_minutes() {
    let lost = |minutes: Option<i64>, failures: u32, error: Option<&str>| {
        let mut o = fixtures::three();
        o.workload = Workload::Down(Connection {
            last_success: minutes.map(|m| fixtures::now() - TimeDelta::minutes(m)),
            consecutive_failures: failures,
            error: error.map(str::to_owned),
            ..Connection::default()
        });
        o
    };
    let fresh = lost(None, 1, None);
    assert_eq!(
        found(&fresh, "EtcdClusterHealthy"),
        "Unknown/ConnectionDown Remote connection not established yet"
    );
    let recent = lost(Some(4), 5, None);
    assert_eq!(
        found(&recent, "EtcdClusterHealthy"),
        "Unknown/ConnectionDown Last successful probe at 2026-11-20T09:56:00Z"
    );
    // A stored condition stays, and with it the Machines' part.
    let mut known = lost(Some(4), 5, None);
    let stored: Condition = of(fixtures::condition("EtcdClusterHealthy", "True"));
    known.control_plane.status.as_mut().unwrap().conditions.push(stored);
    assert_eq!(found(&known, "EtcdClusterHealthy"), "");
    assert_eq!(on(&known, "m1", "EtcdMemberHealthy"), "True/Test");
    let old = lost(Some(6), 9, None);
    assert_eq!(
        on(&old, "m1", "EtcdMemberHealthy"),
        "Unknown/ConnectionDown Last successful probe at 2026-11-20T09:54:00Z"
    );
    let broken = lost(Some(1), 5, Some("bad certificate"));
    assert_eq!(
        found(&broken, "ControlPlaneComponentsHealthy"),
        "Unknown/InspectionFailed Please check controller logs for errors"
    );
    for o in [fresh, recent, known, old, broken] {
        assert!(inspect(&o, fixtures::now()).failure.is_some());
    }
}

#[test]
fn nodes_decide_what_can_be_said_of_pods() {
    let mut o = fixtures::three();
    o.machines[0].machine.status.as_mut().unwrap().node_ref = None;
    assert_eq!(
        on(&o, "m1", "SchedulerPodHealthy"),
        "Unknown/InspectionFailed Waiting for a Node with spec.providerID in-memory://m1 to exist"
    );
    o.machines[0].machine.spec.provider_id = None;
    assert_eq!(
        on(&o, "m1", "EtcdMemberHealthy"),
        "Unknown/InspectionFailed Waiting for DevMachine to report spec.providerID"
    );
    let mut o = fixtures::three();
    facts(&mut o).nodes.as_mut().unwrap().remove(1);
    assert_eq!(on(&o, "m2", "APIServerPodHealthy"), "Unknown/InspectionFailed Node node-m2 does not exist");
    let mut o = fixtures::three();
    let node = &mut facts(&mut o).nodes.as_mut().unwrap()[1];
    let taints = node.spec.as_mut().unwrap().taints.as_mut().unwrap();
    taints.push(of(json!({ "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" })));
    assert_eq!(on(&o, "m2", "APIServerPodHealthy"), "Unknown/InspectionFailed Node node-m2 is unreachable");
    assert_eq!(
        found(&o, "ControlPlaneComponentsHealthy"),
        "Unknown/HealthUnknown * Machine m2:\n  * Control plane components: Node node-m2 is unreachable"
    );
    let mut o = fixtures::three();
    facts(&mut o).nodes = Err("refused".into());
    assert_eq!(
        on(&o, "m1", "NodeKubeadmLabelsAndTaintsSet"),
        "Unknown/InspectionFailed Failed to get the Node"
    );
    assert_eq!(
        on(&o, "m1", "APIServerPodHealthy"),
        "Unknown/InspectionFailed Failed to get the Node hosting the Pod: refused"
    );
    assert_eq!(
        found(&o, "EtcdClusterHealthy"),
        "Unknown/InspectionFailed Failed to get Nodes hosting the etcd cluster"
    );
    let mut o = fixtures::three();
    o.machines.pop();
    assert_eq!(
        found(&o, "ControlPlaneComponentsHealthy"),
        "False/NotHealthy * Control plane Node node-m3 does not have a corresponding Machine"
    );
}

#[test]
fn a_leaving_machine_says_so() {
    let mut o = fixtures::three();
    o.machines[0].machine.metadata.deletion_timestamp = Some(to_k8s(fixtures::now()));
    let leaving = "False/Deleting Machine is deleting";
    assert_eq!(on(&o, "m1", "EtcdPodHealthy"), leaving);
    assert_eq!(on(&o, "m1", "EtcdMemberHealthy"), leaving);
    assert_eq!(on(&o, "m1", "NodeKubeadmLabelsAndTaintsSet"), "True/Set", "its Node is still there");
    // Its member is gone already: that is the message.
    members(&mut o).remove(0);
    assert_eq!(
        on(&o, "m1", "EtcdMemberHealthy"),
        "False/NotHealthy Etcd doesn't have an etcd member for Node node-m1"
    );
    assert!(inspect(&o, fixtures::now()).members_match, "a leaving Machine needs no member");
}

#[test]
fn members_are_compared_with_machines() {
    let mut o = fixtures::three();
    members(&mut o)[0].learner = true;
    assert_eq!(
        on(&o, "m1", "EtcdMemberHealthy"),
        "False/NotHealthy Waiting for learner etcd member to be promoted"
    );
    members(&mut o)[1].alarms = vec!["NOSPACE".into(), "CORRUPT".into()];
    assert_eq!(on(&o, "m2", "EtcdMemberHealthy"), "False/NotHealthy Etcd reports alarms: NOSPACE, CORRUPT");

    let mut o = fixtures::three();
    members(&mut o).remove(2);
    assert!(!inspect(&o, fixtures::now()).members_match, "its Node is an hour old");
    let node = &mut facts(&mut o).nodes.as_mut().unwrap()[2];
    node.metadata.creation_timestamp = Some(to_k8s(fixtures::now() - TimeDelta::minutes(1)));
    assert!(inspect(&o, fixtures::now()).members_match, "its Node is young");

    let mut o = fixtures::three();
    members(&mut o).push(Member { id: 9, ..Member::default() });
    assert_eq!(
        found(&o, "EtcdClusterHealthy"),
        "False/NotHealthy * Etcd member 9 (Name not yet assigned) does not have a corresponding Machine"
    );
    assert!(!inspect(&o, fixtures::now()).members_match);
    o.machines[2].machine.status.as_mut().unwrap().node_ref = None;
    assert!(inspect(&o, fixtures::now()).members_match, "it may belong to the Machine on its way");

    for (etcd, expected) in [
        (
            Membership::NoClient("refused".into()),
            "Unknown/InspectionFailed Failed to connect to etcd: refused",
        ),
        (Membership::ListFailed("slow".into()), "Unknown/InspectionFailed Failed to get etcd members: slow"),
        (Membership::AlarmsFailed("slow".into()), "Unknown/InspectionFailed Failed to get etcd alarms: slow"),
        (Membership::NoLeader, "True/Test"),
        (
            Membership::NoNodes,
            "False/NotHealthy Etcd reports the cluster is composed by [], but the etcd member hosted on \
             Machine m1 (node-m1) is not included",
        ),
    ] {
        let mut o = fixtures::three();
        facts(&mut o).etcd = etcd;
        assert_eq!(on(&o, "m1", "EtcdMemberHealthy"), expected);
    }
    let mut o = fixtures::three();
    for m in &mut o.machines {
        m.machine.metadata.deletion_timestamp = Some(to_k8s(fixtures::now()));
    }
    assert!(inspect(&o, fixtures::now()).members.is_none(), "Machines that leave are not asked");
}

#[test]
fn available_counts_what_is_left() {
    let break_pod = |o: &mut Observed, names: &[&str]| {
        let pods = facts(o).pods.as_mut().unwrap();
        pods.retain(|p| {
            !names.iter().any(|n| p.metadata.name.as_deref() == Some(&format!("kube-scheduler-node-{n}")))
        });
    };
    assert_eq!(
        said(&report(|o| break_pod(o, &["m1"])), "Available"),
        "True/Available * 2 of 3 Machines have healthy control plane components, at least 1 required"
    );
    assert_eq!(
        said(&report(|o| break_pod(o, &["m1", "m2"])), "Available"),
        "True/Available * 1 of 3 Machines has healthy control plane components, at least 1 required"
    );
    assert_eq!(
        said(&report(|o| break_pod(o, &["m1", "m2", "m3"])), "Available"),
        "False/NotAvailable * There are no Machines with healthy control plane components, at least 1 required"
    );
    let alarms = |o: &mut Observed, count: usize| {
        for m in members(o).iter_mut().take(count) {
            m.alarms.push("NOSPACE".into());
        }
    };
    assert_eq!(
        said(&report(|o| alarms(o, 1)), "Available"),
        "True/Available * 2 of 3 etcd members are healthy, at least 2 healthy member required for etcd quorum\n\
         * 2 of 3 Machines have healthy control plane components, at least 1 required"
    );
    assert_eq!(
        said(&report(|o| alarms(o, 2)), "Available"),
        "False/NotAvailable * 1 of 3 etcd members is healthy, at least 2 healthy member required for etcd quorum"
    );
    assert_eq!(
        said(&report(|o| alarms(o, 3)), "Available"),
        "False/NotAvailable * There are no healthy etcd member, at least 2 healthy member required for etcd quorum\n\
         * There are no Machines with healthy control plane components, at least 1 required"
    );
}

#[test]
fn available_needs_initialization_members_and_certificates() {
    let available = |change: &dyn Fn(&mut Observed)| said(&report(|o| change(o)), "Available");
    assert_eq!(
        available(&|o| {
            o.control_plane.status = None;
            facts(o).kubeadm_config = Ok(None);
        }),
        "False/NotAvailable Control plane not yet initialized"
    );
    assert_eq!(
        available(&|o| facts(o).etcd = Membership::NoLeader),
        "Unknown/InspectionFailed Failed to get etcd members"
    );
    assert_eq!(
        available(&|o| {
            facts(o).etcd = Membership::NoLeader;
            let initialized = &mut o.control_plane.status.as_mut().unwrap().conditions[0];
            initialized.last_transition_time = to_k8s(fixtures::now());
        }),
        "False/NotAvailable Waiting for etcd to report the list of members"
    );
    assert_eq!(
        available(&|o| {
            members(o).remove(2);
        }),
        "False/NotAvailable The list of etcd members does not match the list of Machines and Nodes"
    );
    assert_eq!(
        available(&|o| o.certificates = Certificates::Found(vec![])),
        "False/NotAvailable * Control plane certificates are not available"
    );
    assert_eq!(
        available(&|o| o.control_plane.metadata.deletion_timestamp = Some(to_k8s(fixtures::now()))),
        "False/NotAvailable * Control plane metadata.deletionTimestamp is set"
    );
}

#[test]
fn initialization_is_found_out_and_kept() {
    let mut o = fixtures::three();
    o.control_plane.status = None;
    let conditions = report(|o| o.control_plane.status = None);
    assert_eq!(said(&conditions, "Initialized"), "True/Initialized");
    assert_eq!(
        said(&conditions, "Available"),
        "False/NotAvailable Waiting for etcd to report the list of members"
    );
    // Not used while the only Machine leaves.
    o.machines.truncate(1);
    o.machines[0].machine.metadata.deletion_timestamp = Some(to_k8s(fixtures::now()));
    let new = status(&o, &Pass::default(), fixtures::now());
    assert_eq!(said(&new.conditions, "Initialized"), "False/NotInitialized");
    assert_eq!(new.initialization, None);
}

#[test]
fn scaling_conditions_name_what_blocks() {
    let mut o = fixtures::three();
    o.control_plane.spec.replicas = Some(5);
    let findings = PreflightFindings { machine_deleting: true, ..PreflightFindings::default() };
    assert_eq!(
        words(Some(&scaling::scaling_up(&o, &findings))),
        "True/ScalingUp Scaling up from 3 to 5 replicas is blocked because:\n\
         * waiting for a control plane Machine to complete deletion"
    );
    o.template = Template::Missing;
    assert_eq!(
        words(Some(&scaling::scaling_up(&o, &PreflightFindings::default()))),
        "True/ScalingUp Scaling up from 3 to 5 replicas is blocked because:\n* DevMachineTemplate does not exist"
    );
    o.control_plane.spec.replicas = Some(3);
    assert_eq!(
        words(Some(&scaling::scaling_up(&o, &PreflightFindings::default()))),
        "False/NotScalingUp Scaling up would be blocked because DevMachineTemplate does not exist"
    );
    let mut going = o.clone();
    going.control_plane.metadata.deletion_timestamp = Some(to_k8s(fixtures::now()));
    let said = scaling::scaling_up(&going, &PreflightFindings::default());
    assert_eq!(words(Some(&said)), "False/NotScalingUp", "nobody looks for a template");
    o.control_plane.spec.replicas = Some(1);
    o.machines[0].machine.metadata.deletion_timestamp =
        Some(to_k8s(fixtures::now() - TimeDelta::minutes(16)));
    assert_eq!(
        words(Some(&scaling::scaling_down(&o, &PreflightFindings::default(), fixtures::now()))),
        "True/ScalingDown Scaling down from 3 to 1 replicas is blocked because:\n\
         * Machine m1 is in deletion since more than 15m"
    );
    o.control_plane.spec.replicas = None;
    assert_eq!(
        words(Some(&scaling::scaling_down(&o, &PreflightFindings::default(), fixtures::now()))),
        "Unknown/WaitingForReplicasSet Waiting for spec.replicas set"
    );
}

#[test]
fn rolling_out_lists_reasons_once_versions_first() {
    let outdated = |message: &str| {
        let mut machine = fixtures::machine("m");
        let new = setter::condition("UpToDate", Status::False, "NotUpToDate", message);
        machine.set_conditions(vec![new]);
        machine.machine
    };
    let (a, b) = (
        outdated("* KubeadmConfig is not up-to-date\n* Version 1, 2 required"),
        outdated("* Version 1, 2 required"),
    );
    assert_eq!(
        words(Some(&machines::rolling_out(&machines::members([&a, &b])).into())),
        "True/RollingOut Rolling out 2 not up-to-date replicas\n* Version 1, 2 required\n* KubeadmConfig is not up-to-date"
    );
}

#[test]
fn deletion_is_told_in_stages() {
    let mut o = fixtures::three();
    o.control_plane.metadata.deletion_timestamp = Some(to_k8s(fixtures::now()));
    let said = |o: &Observed| words(Some(&scaling::deleting(o, false, fixtures::now())));
    assert_eq!(said(&o), "True/WaitingForMachineDeletion Deleting 3 Machines");
    assert_eq!(
        words(Some(&scaling::deleting(&o, true, fixtures::now()))),
        "True/InternalError Please check controller logs for errors"
    );
    o.worker_machines = ["f", "a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
    o.machine_pools = vec!["p".into()];
    assert_eq!(
        said(&o),
        "True/WaitingForWorkersDeletion KubeadmControlPlane deletion blocked because following objects still exist:\n\
         * MachinePools: p\n* Machines: a, b, c, d, e, ... (1 more)"
    );
    (o.worker_machines, o.machine_pools, o.foreign) = (Vec::new(), Vec::new(), vec!["other".into()]);
    assert_eq!(
        said(&o),
        "True/WaitingForWorkersDeletion KubeadmControlPlane deletion blocked because following objects still exist:\n",
        "a control plane Machine of somebody else blocks without being named"
    );
    o.machines.clear();
    assert_eq!(said(&o), "True/DeletionCompleted Deletion completed");
}

#[test]
fn counters_and_versions_follow_the_machines() {
    let mut o = fixtures::three();
    o.machines[2].machine.spec.version = Some("v1.33.0".into());
    o.machines[2].set_conditions(Vec::new());
    let new = status(&o, &Pass { completed: true, ..Pass::default() }, fixtures::now());
    assert_eq!(
        [new.replicas, new.ready_replicas, new.available_replicas, new.up_to_date_replicas],
        [Some(3), Some(2), Some(2), Some(2)]
    );
    assert_eq!(new.version.as_deref(), Some("v1.33.0"));
    let versions: Vec<_> = new.versions.iter().map(|v| (v.version.as_str(), v.replicas)).collect();
    assert_eq!(versions, [("v1.33.0", Some(1)), ("v1.34.1", Some(2))]);
    assert_eq!(
        new.selector.as_deref(),
        Some("cluster.x-k8s.io/cluster-name=prod,cluster.x-k8s.io/control-plane")
    );
    assert_eq!(new.observed_generation, Some(1));
    let failed = status(&o, &Pass::default(), fixtures::now());
    assert_eq!(failed.observed_generation, None);
}

#[test]
fn the_generation_waits_for_the_answer_whether_it_is_initialized() {
    let down = |error: Option<&str>| {
        Workload::Down(Connection { error: error.map(str::to_owned), ..Connection::default() })
    };
    for (workload, expected) in [(down(None), Some(1)), (down(Some("no client")), None)] {
        let mut o = fixtures::three();
        let pass = Pass { completed: true, ..Pass::default() };
        o.workload = workload;
        assert_eq!(status(&o, &pass, fixtures::now()).observed_generation, Some(1), "it was before");
        o.control_plane.status = None;
        let new = status(&o, &pass, fixtures::now());
        assert_eq!((new.observed_generation, new.initialization), (expected, None));
    }
    let mut o = fixtures::three();
    o.control_plane.status = None;
    facts(&mut o).kubeadm_config = Err("refused".to_owned());
    let new = status(&o, &Pass { completed: true, ..Pass::default() }, fixtures::now());
    assert_eq!(new.observed_generation, None);
}

#[test]
fn a_remediation_mark_that_cannot_be_read_keeps_what_is_stored() {
    let good = r#"{"machine": "old", "timestamp": "2026-01-01T00:00:00Z", "retryCount": 2}"#;
    for (marks, expected) in [([good, ""], Some("old")), ([good, "garbage"], None), (["garbage", ""], None)] {
        let mut o = fixtures::three();
        for (machine, mark) in o.machines.iter_mut().zip(marks).filter(|(_, mark)| !mark.is_empty()) {
            let annotations = machine.machine.metadata.annotations.get_or_insert_default();
            annotations.insert("controlplane.cluster.x-k8s.io/remediation-for".to_owned(), mark.to_owned());
        }
        let new = status(&o, &Pass { completed: true, ..Pass::default() }, fixtures::now());
        assert_eq!(new.last_remediation.map(|r| r.machine).as_deref(), expected, "{marks:?}");
        assert_eq!(new.observed_generation, expected.map(|_| 1), "{marks:?}");
    }
}

#[test]
fn without_its_template_the_infrastructure_of_a_control_plane_that_goes_is_as_it_should_be() {
    let mut o = fixtures::three();
    o.control_plane.spec.machine_template.spec.infrastructure_ref.name = "new".into();
    o.control_plane.metadata.deletion_timestamp = Some(to_k8s(fixtures::now()));
    assert_eq!(on(&o, "m1", "UpToDate"), "False/NotUpToDate * DevMachine is not up-to-date");
    o.template = Template::Missing;
    assert_eq!(on(&o, "m1", "UpToDate"), "True/UpToDate");
}

#[test]
fn external_etcd_is_not_inspected() {
    let mut o = fixtures::three();
    o.control_plane.spec.kubeadm_config_spec =
        Some(of(json!({ "clusterConfiguration": { "etcd": { "external": {
        "endpoints": ["https://e"], "caFile": "c", "certFile": "c", "keyFile": "k",
    } } } })));
    facts(&mut o).etcd = Membership::NotAsked;
    assert_eq!(found(&o, "EtcdClusterHealthy"), "");
    assert_eq!(found(&o, "ControlPlaneComponentsHealthy"), "True/Healthy");
    assert!(inspect(&o, fixtures::now()).members_match);
}

#[test]
fn an_inspection_leaves_what_others_say_of_a_machine() {
    let seen = setter::condition("UpToDate", Status::True, "UpToDate", "");
    let stale = setter::condition("Ready", Status::False, "Old", "as the inspection saw it");
    let mut machine = fixtures::three().machines.remove(0).machine;
    let others = |machine: &Machine| {
        let list = machine.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        list.into_iter().filter(|c| !OWNED_ON_MACHINES.contains(&c.type_.as_str())).collect::<Vec<_>>()
    };
    let before = others(&machine);
    assert!(before.iter().any(|c| c.type_ == "Ready"));
    machine = inspected_machine(&machine, &[seen, stale]);
    assert_eq!(others(&machine), before);
    let list = &machine.status.as_ref().expect("a status").conditions;
    assert_eq!(list.iter().filter(|c| OWNED_ON_MACHINES.contains(&c.type_.as_str())).count(), 1);
}
