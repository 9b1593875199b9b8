//! Which Machine is remediated, and what holds it: one table per question of `remediation.go`, each row with the
//! evidence that a reader finds.

use serde_json::json;

use super::super::{Observed, Workload, plan};
use super::rules::condition;
use crate::etcd::Membership;
use crate::plan::Write;
use crate::status::control_plane::OwnedMachine;
use crate::status::control_plane::fixtures::{self, of};
use crate::status::remediation::RemediationData;
use capi_types::names::annotation;

type Edit = fn(&mut Observed);

/// A healthy control plane of so many, the oldest first; the first one leads etcd.
fn control_plane(count: usize) -> Observed {
    let created = |n: usize| format!("2026-11-20T09:{:02}:00Z", n * 5);
    fixtures::observed(
        (1..=count).map(|n| fixtures::machine_created(&format!("m{n}"), &created(n))).collect(),
    )
}

/// Its health check failed, and its owner is asked.
fn fail(machine: &mut OwnedMachine) {
    condition(machine, "HealthCheckSucceeded", "False", "UnhealthyNode");
    condition(machine, "OwnerRemediated", "False", "WaitingForRemediation");
}

fn annotate(machine: &mut OwnedMachine, key: &str, value: String) {
    machine.machine.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value);
}

/// Its member raised an alarm, and so is not healthy.
fn alarm(o: &mut Observed, machine: &str) {
    let Workload::Reached(facts) = &mut o.workload else { unreachable!("fixtures reach it") };
    let Membership::Known(members) = &mut facts.etcd else { unreachable!("fixtures know them") };
    let member = members.list.iter_mut().find(|m| m.name == format!("node-{machine}")).unwrap();
    member.alarms.push("NOSPACE".to_owned());
}

/// This pod of the Machine's Node is gone.
fn lose_pod(o: &mut Observed, component: &str, machine: &str) {
    let Workload::Reached(facts) = &mut o.workload else { unreachable!("fixtures reach it") };
    let name = format!("{component}-node-{machine}");
    facts.pods.as_mut().unwrap().retain(|pod| pod.metadata.name.as_ref() != Some(&name));
}

fn lose_node(o: &mut Observed, at: usize) {
    o.machines[at].machine.status.as_mut().unwrap().node_ref = None;
    o.workload = Workload::Reached(Box::new(fixtures::reached(&o.machines)));
}

/// The Machines that are deleted, and what the last mark of `OwnerRemediated` is.
fn outcome(o: &Observed) -> (Vec<String>, String) {
    let plan = plan(o, fixtures::now());
    let (mut deleted, mut said) = (Vec::new(), String::new());
    for write in plan.steps.iter().flat_map(|step| &step.writes) {
        match write {
            Write::Delete { object } => deleted.push(object.key.name.clone()),
            Write::MachineCondition { condition: Some(new), .. } => {
                said = format!("{} {}", new.reason, new.message);
            }
            _ => {}
        }
    }
    (deleted, said)
}

#[test]
fn the_machine_that_is_asked_for_or_worst_goes_first_and_one_at_a_time() {
    let rows: [(&str, Edit, &str); 8] = [
        ("all alike: the oldest", |_| {}, "m1"),
        (
            "a person asked for it",
            |o| annotate(&mut o.machines[2], annotation::REMEDIATE_MACHINE, String::new()),
            "m3",
        ),
        ("it has no Node", |o| lose_node(o, 1), "m2"),
        ("its member is ill", |o| alarm(o, "m3"), "m3"),
        ("its etcd pod is gone", |o| lose_pod(o, "etcd", "m2"), "m2"),
        ("its scheduler is gone", |o| lose_pod(o, "kube-scheduler", "m3"), "m3"),
        (
            "the API server before the scheduler",
            |o| {
                lose_pod(o, "kube-scheduler", "m2");
                lose_pod(o, "kube-apiserver", "m3");
            },
            "m3",
        ),
        (
            "whom a person asked for before one without Node",
            |o| {
                lose_node(o, 1);
                annotate(&mut o.machines[2], annotation::REMEDIATE_MACHINE, String::new());
            },
            "m3",
        ),
    ];
    for (why, edit, expected) in rows {
        let mut o = control_plane(4);
        o.machines[..3].iter_mut().for_each(fail);
        edit(&mut o);
        assert_eq!(
            outcome(&o),
            (vec![expected.to_owned()], "MachineDeleting Machine is deleting".to_owned()),
            "{why}"
        );
    }
}

const QUORUM: &str = "CannotBeRemediated KubeadmControlPlane can't remediate this Machine because this could result in \
                      loosing Kubernetes control plane components or in etcd quorum loss";

#[test]
fn the_members_that_stay_keep_quorum() {
    for (members, others_ill, goes) in [
        (2, 0, true),
        (3, 0, true),
        (3, 1, false),
        (4, 0, true),
        (4, 1, true),
        (4, 2, false),
        (5, 1, true),
        (5, 2, false),
        (7, 2, true),
        (7, 3, false),
    ] {
        let mut o = control_plane(members);
        fail(o.machines.last_mut().unwrap());
        (1..=others_ill).for_each(|n| alarm(&mut o, &format!("m{n}")));
        let (deleted, said) = outcome(&o);
        assert_eq!(deleted.is_empty(), !goes, "{members} members, {others_ill} others ill: {said}");
        assert!(goes || said == QUORUM, "{said}");
    }
}

#[test]
fn what_holds_a_remediation_is_named_on_the_machine() {
    let rows: [(&str, Edit, &str); 8] = [
        (
            "the last one",
            |o| {
                o.machines.truncate(2);
                o.machines.remove(0);
                o.workload = Workload::Reached(Box::new(fixtures::reached(&o.machines)));
            },
            "CannotBeRemediated KubeadmControlPlane can't remediate if current replicas are less or equal to 1",
        ),
        (
            "another one comes up",
            |o| lose_node(o, 2),
            "RemediationDeferred KubeadmControlPlane waiting for control plane Machine provisioning to complete before \
             triggering remediation",
        ),
        (
            "a version is on its way",
            |o| o.cluster.spec.topology = Some(of(json!({"version": "v1.35.0", "classRef": {"name": "c"}}))),
            "RemediationDeferred KubeadmControlPlane can't remediate while waiting for a version upgrade to v1.35.0 to be \
             propagated from Cluster.spec.topology",
        ),
        (
            "no other one serves",
            |o| ["m1", "m3"].iter().for_each(|m| lose_pod(o, "kube-apiserver", m)),
            QUORUM,
        ),
        ("a learner", learner, QUORUM),
        (
            "Nodes cannot be read",
            |o| {
                let Workload::Reached(facts) = &mut o.workload else { unreachable!("fixtures reach it") };
                facts.nodes = Err("refused".to_owned());
            },
            "RemediationDeferred Failed to check etcd cluster health before remediation",
        ),
        (
            "its retry is too soon",
            |o| retried(o, 1, 5),
            "RemediationDeferred KubeadmControlPlane can't remediate this machine because the operation already failed in the \
             latest 10m0s (RetryPeriodSeconds)",
        ),
        (
            "its retries are used up",
            |o| retried(o, 2, 15),
            "CannotBeRemediated KubeadmControlPlane can't remediate this machine because the operation already failed 2 times \
             (MaxRetry)",
        ),
    ];
    for (why, edit, expected) in rows {
        let mut o = control_plane(3);
        fail(&mut o.machines[1]);
        edit(&mut o);
        assert_eq!(outcome(&o), (vec![], expected.to_owned()), "{why}");
        let held =
            plan(&o, fixtures::now()).blockers.into_iter().find(|b| b.reason.rule == "remediation-held");
        let held = held.expect(why);
        assert!(expected.ends_with(&held.reason.sentence), "{why}");
        assert!(!held.evidence.is_empty(), "{why}");
    }
}

fn learner(o: &mut Observed) {
    let Workload::Reached(facts) = &mut o.workload else { unreachable!("fixtures reach it") };
    let Membership::Known(members) = &mut facts.etcd else { unreachable!("fixtures know them") };
    members.list[2].learner = true;
}

/// The replacement of a Machine that was remediated so many minutes ago failed too; 2 retries, 10 minutes apart.
fn retried(o: &mut Observed, count: i32, minutes: i64) {
    let limits = json!({"maxRetry": 2, "retryPeriodSeconds": 600, "minHealthyPeriodSeconds": 1800});
    o.control_plane.spec.remediation = Some(of(limits));
    let timestamp = fixtures::now() - chrono::TimeDelta::minutes(minutes);
    let note = RemediationData { machine: "m0".to_owned(), timestamp, retry_count: count };
    annotate(&mut o.machines[1], annotation::REMEDIATION_FOR, note.to_json());
}

#[test]
fn retries_are_counted_until_a_machine_was_well_for_long() {
    for (count, minutes, expected) in
        [(0, 10, Some(1)), (1, 29, Some(2)), (2, 30, None), (2, 31, Some(0)), (1, 9, None)]
    {
        let mut o = control_plane(3);
        fail(&mut o.machines[1]);
        retried(&mut o, count, minutes);
        let plan = plan(&o, fixtures::now());
        let noted = plan.steps.iter().flat_map(|step| &step.writes).find_map(|write| {
            let Write::Patch { body, .. } = write else { return None };
            let note = body["metadata"]["annotations"][annotation::REMEDIATION_IN_PROGRESS].as_str()?;
            RemediationData::parse(note).map(|data| data.retry_count)
        });
        assert_eq!(noted, expected, "retry {count} after {minutes} minutes");
    }
}

#[test]
fn a_remediation_that_waits_for_its_time_is_looked_at_then() {
    for (count, minutes, expected_s) in [(1, 4, 6 * 60 + 1), (2, 12, 18 * 60 + 1)] {
        let mut o = control_plane(3);
        fail(&mut o.machines[1]);
        retried(&mut o, count, minutes);
        assert_eq!(plan(&o, fixtures::now()).recheck, Some(std::time::Duration::from_secs(expected_s)));
    }
}

#[test]
fn leadership_moves_before_its_machine_goes() {
    let mut o = control_plane(3);
    fail(&mut o.machines[0]);
    let plan = plan(&o, fixtures::now());
    let titles: Vec<String> =
        plan.steps.iter().filter_map(|step| step.action.as_ref().map(ToString::to_string)).collect();
    assert_eq!(titles[..2], ["move etcd leadership from node-m1 to node-m3", "delete Machine m1"]);
}

#[test]
fn a_first_machine_that_never_came_up_is_replaced_without_questions() {
    let mut o = control_plane(1);
    fail(&mut o.machines[0]);
    o.control_plane.status = None;
    o.workload = Workload::NotAsked;
    o.machines[0].machine.status.as_mut().unwrap().node_ref = None;
    assert_eq!(outcome(&o).0, ["m1"]);
}

#[test]
fn while_one_remediation_runs_no_other_begins() {
    let mark = |minutes: i64| {
        let timestamp = fixtures::now() - chrono::TimeDelta::minutes(minutes);
        RemediationData { machine: "m0".to_owned(), timestamp, retry_count: 0 }.to_json()
    };
    for (minutes, expected) in [(1, vec![]), (120, vec!["m2".to_owned()])] {
        let mut o = control_plane(3);
        fail(&mut o.machines[1]);
        let annotations = o.control_plane.metadata.annotations.get_or_insert_default();
        annotations.insert(annotation::REMEDIATION_IN_PROGRESS.to_owned(), mark(minutes));
        assert_eq!(outcome(&o).0, expected, "its mark is {minutes} minutes old");
    }
    let mut o = control_plane(3);
    fail(&mut o.machines[1]);
    o.machines[0].machine.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(fixtures::now()));
    assert_eq!(outcome(&o).0, Vec::<String>::new(), "one is on its way");
}
