//! One table per rule.

use serde_json::json;

use super::super::preflight::{self, Intent};
use super::super::{Act, Observed, Template, Workload, decide, leader, plan, select};
use crate::etcd::{Change, Membership};
use crate::plan::{WorkloadCall, Write};
use crate::status::control_plane::certificates::{Certificates, Purpose};
use crate::status::control_plane::fixtures::{self, of};
use crate::status::control_plane::{Kubeconfig, OwnedMachine};
use capi_types::names::annotation;
use capstan_base::time::parse_rfc3339;

/// Steps and blockers of a plan, as text and as rule names.
pub(super) fn check(observed: &Observed, steps: &[&str], blockers: &[&str]) {
    let plan = plan(observed, fixtures::now());
    let acts: Vec<String> =
        plan.steps.iter().filter_map(|s| s.action.as_ref().map(ToString::to_string)).collect();
    assert_eq!(acts, steps, "blockers: {:?}", plan.blockers);
    let rules: Vec<&str> = plan.blockers.iter().map(|b| b.reason.rule).collect();
    assert_eq!(rules, blockers);
}

/// The condition that a write sets on a Machine.
fn mark(write: &Write) -> Option<capi_types::condition::Condition> {
    match write {
        Write::MachineCondition { condition: Some(condition), .. } => Some((**condition).clone()),
        _ => None,
    }
}

pub(super) fn condition(machine: &mut OwnedMachine, type_: &str, status: &str, reason: &str) {
    let list = &mut machine.machine.status.as_mut().unwrap().conditions;
    list.retain(|c| c.type_ != type_);
    let mut new: capi_types::condition::Condition = of(fixtures::condition(type_, status));
    new.reason = reason.to_owned();
    list.push(new);
}

/// The pods of this Machine's Node are gone.
pub(super) fn break_pods(observed: &mut Observed, machine: &str) {
    let Workload::Reached(facts) = &mut observed.workload else { unreachable!("fixtures reach it") };
    facts
        .pods
        .as_mut()
        .unwrap()
        .retain(|p| !p.metadata.name.as_ref().unwrap().ends_with(&format!("-{machine}")));
}

fn domains(observed: &mut Observed, names: &[&str]) {
    let list: Vec<_> = names.iter().map(|n| json!({ "name": n, "controlPlane": true })).collect();
    observed.cluster.status.as_mut().unwrap().failure_domains = of(json!(list));
}

#[test]
fn a_healthy_control_plane_needs_nothing() {
    check(&fixtures::three(), &[], &[]);
}

#[test]
fn what_comes_before_machines() {
    let fresh = || {
        let mut o = fixtures::observed(Vec::new());
        o.control_plane = fixtures::control_plane(3);
        o.control_plane.status = None;
        o.certificates = Certificates::Found(Vec::new());
        o.kubeconfig = Kubeconfig::Missing;
        o.workload = Workload::NotAsked;
        o
    };
    check(
        &fresh(),
        &[
            "create certificates ca, sa, proxy, etcd",
            "create the kubeconfig secret for https://10.0.0.9:6443",
            "create Machine prod-control-plane-abcde (initializes)",
        ],
        &[],
    );
    let with = |change: &dyn Fn(&mut Observed)| {
        let mut o = fresh();
        change(&mut o);
        o
    };
    check(&with(&|o| o.cluster.status = None), &[], &["infrastructure-not-provisioned"]);
    let early = with(&|o| {
        o.cluster.status = None;
        o.machines = fixtures::three().machines;
        o.foreign = vec!["x".into()];
    });
    check(&early, &[], &["infrastructure-not-provisioned"]);
    assert!(decide(early, fixtures::now()).observed.machines.is_empty(), "no Machine counts yet");
    check(
        &with(&|o| o.cluster.spec.control_plane_endpoint = None),
        &["create certificates ca, sa, proxy, etcd"],
        &["endpoint-missing"],
    );
    check(&with(&|o| o.template = Template::Missing), &[], &["template-missing"]);
    check(&with(&|o| o.cluster.spec.paused = Some(true)), &[], &["paused"]);
    check(
        &with(&|o| o.certificates = Certificates::Unreadable("refused".into())),
        &[],
        &["certificates-unreadable"],
    );
    check(&with(&|o| o.foreign = vec!["x".into()]), &[], &["mixed-management"]);
    let external = json!({ "clusterConfiguration": { "etcd": { "external": {
        "endpoints": ["https://e"], "caFile": "c", "certFile": "c", "keyFile": "k",
    } } } });
    check(
        &with(&|o| o.control_plane.spec.kubeadm_config_spec = Some(of(external.clone()))),
        &[],
        &["external-certificates-missing"],
    );
    check(
        &with(&|o| {
            if let Template::Found(t) = &mut o.template {
                t["metadata"]["ownerReferences"] = json!([]);
            }
            o.cluster.status = None;
        }),
        &["make the Cluster an owner of the infrastructure template"],
        &["infrastructure-not-provisioned"],
    );
}

#[test]
fn orphans_are_adopted_all_or_none() {
    let mut o = fixtures::three();
    o.orphans = vec![o.machines.remove(0)];
    check(&o, &["adopt Machine m1"], &[]);
    o.orphans[0].machine.spec.version = Some("v1.30.0".into());
    check(&o, &[], &["adoption-refused"]);
    let decision = decide(o.clone(), fixtures::now());
    let Write::Event { message, warning: true, .. } = &decision.plan.steps[0].writes[0] else {
        panic!("an Event")
    };
    let expected = "Could not adopt Machine default/m1: its version (\"v1.30.0\") is outside supported +/- one minor \
                    version skew from KCP's (\"v1.34.1\")";
    assert_eq!(message, expected);
}

#[test]
fn kubeconfig_is_renewed_at_half_its_life_and_taken_over() {
    let mut o = fixtures::three();
    let expires = |days| Some(fixtures::now() + chrono::TimeDelta::days(days));
    for (kubeconfig, steps) in [
        (
            Kubeconfig::Found { ours: true, controlled: true, expires: expires(181) },
            vec!["renew the kubeconfig's client certificate"],
        ),
        (Kubeconfig::Found { ours: true, controlled: true, expires: expires(183) }, vec![]),
        (
            Kubeconfig::Found { ours: true, controlled: false, expires: expires(1) },
            vec!["adopt the kubeconfig secret"],
        ),
        (Kubeconfig::Found { ours: false, controlled: false, expires: expires(1) }, vec![]),
    ] {
        o.kubeconfig = kubeconfig;
        check(&o, &steps, &[]);
    }
    o.kubeconfig = Kubeconfig::Missing;
    o.certificates = Certificates::Found(vec![Purpose::Etcd]);
    check(&o, &[], &["authority-missing"]);
}

#[test]
fn certificates_are_taken_over_in_every_pass() {
    let mut o = fixtures::three();
    o.unowned_certificates = vec![Purpose::Ca, Purpose::FrontProxy];
    check(&o, &["adopt certificates ca, proxy"], &[]);
    // What is missing is made in the same pass.
    o.control_plane.status = None;
    o.machines.clear();
    o.certificates = Certificates::Found(vec![Purpose::Ca]);
    o.unowned_certificates = vec![Purpose::Ca];
    let steps: Vec<String> = plan(&o, fixtures::now())
        .steps
        .iter()
        .filter_map(|s| s.action.as_ref().map(ToString::to_string))
        .collect();
    assert_eq!(steps[..2], ["adopt certificates ca", "create certificates sa, proxy, etcd"], "{steps:?}");
}

#[test]
fn labels_gates_and_timeouts_change_in_place() {
    let mut o = fixtures::three();
    let metadata = o.control_plane.spec.machine_template.metadata.get_or_insert_default();
    metadata.labels.insert("team".into(), "a".into());
    let plan = plan(&o, fixtures::now());
    let syncs: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    assert_eq!(
        syncs[0],
        "keep Machine m1 in step: labels, labels or annotations of its objects differ from the template"
    );
    assert_eq!(syncs.len(), 3);
    let Some(Write::Apply { body, .. }) = plan.steps[0].writes.get(1) else { unreachable!("checked above") };
    assert_eq!(*body, json!({ "metadata": { "labels": { "team": "a" } } }));
}

#[test]
fn nothing_changes_while_the_workload_cluster_is_out_of_sight() {
    let mut o = fixtures::three();
    o.control_plane.spec.replicas = Some(5);
    o.workload = Workload::Down(crate::status::control_plane::Connection::default());
    check(&o, &[], &["not-inspected"]);
    assert!(!decide(o.clone(), fixtures::now()).pass.completed);
    // Not initialized yet, so that nothing was inspected: a rollout needs the connection all the same.
    let mut young = o.clone();
    young.control_plane.status = None;
    young.control_plane.spec.version = "v1.99.0".to_owned();
    let blockers = plan(&young, fixtures::now()).blockers;
    assert_eq!(blockers.iter().map(|b| b.reason.rule).collect::<Vec<_>>(), ["not-inspected"]);
    // A forecast believes the stored conditions.
    let members = fixtures::reached(&o.machines).etcd;
    o.workload = Workload::Assumed(members);
    check(&o, &["create Machine prod-control-plane-abcde (joins)"], &[]);
}

#[test]
fn preflight_wants_every_machine_healthy() {
    let mut o = fixtures::three();
    o.control_plane.spec.replicas = Some(5);
    check(&o, &["create Machine prod-control-plane-abcde (joins)"], &[]);
    break_pods(&mut o, "m2");
    let blocked = ["machine-unhealthy"; 4];
    check(&o, &[], &blocked);
    let decision = decide(o, fixtures::now());
    assert_eq!(
        decision.plan.blockers[0].to_string(),
        "Machine m2 reports APIServerPodHealthy condition is false (Pod does not exist)"
    );
    assert!(decision.pass.findings.components_unhealthy && !decision.pass.findings.etcd_unhealthy);
}

#[test]
fn a_control_plane_stood_still_without_an_event() {
    let told = |o: &Observed| -> Vec<String> {
        let plan = plan(o, fixtures::now());
        let events = plan.steps.iter().flat_map(|step| &step.writes).filter_map(|write| match write {
            Write::Event { about, warning: true, reason, message } => Some((about, reason, message)),
            _ => None,
        });
        events.map(|(about, reason, message)| format!("{} {reason} {message}", about.gvk.kind)).collect()
    };
    let mut o = fixtures::three();
    o.control_plane.spec.replicas = Some(5);
    assert_eq!(told(&o), Vec::<String>::new(), "all is well");
    break_pods(&mut o, "m2");
    let begin = "KubeadmControlPlane ControlPlaneUnhealthy Waiting for control plane to pass preflight checks to \
                 continue reconciliation: [Machine m2 reports APIServerPodHealthy condition is false (Pod does not \
                 exist), Machine m2 reports ControllerManagerPodHealthy condition is false (Pod does not exist), ";
    let events = told(&o);
    assert!(events.len() == 1 && events[0].starts_with(begin), "{events:?}");
    o.control_plane.spec.replicas = Some(3);
    assert_eq!(told(&o), Vec::<String>::new(), "nothing is due");
    let mut o = fixtures::three();
    o.control_plane.spec.replicas = Some(5);
    o.certificates = Certificates::Found(vec![Purpose::Ca]);
    assert_eq!(told(&o), Vec::<String>::new(), "it waits for something else than health");
}

#[test]
fn preflight_knows_nodes_certificates_and_topology() {
    let mut o = fixtures::three();
    o.control_plane.spec.replicas = Some(5);
    o.certificates = Certificates::Found(vec![Purpose::Ca, Purpose::ServiceAccount]);
    check(&o, &[], &["certificates-missing"]);
    o.control_plane.spec.replicas = Some(1);
    check(&o, &["move etcd leadership from node-m1 to node-m3", "delete Machine m1"], &[]);

    let mut o = fixtures::three();
    o.control_plane.spec.replicas = Some(5);
    o.machines[2].machine.status.as_mut().unwrap().node_ref = None;
    o.workload = Workload::Reached(Box::new(fixtures::reached(&o.machines[..2])));
    let plan = plan(&o, fixtures::now());
    assert_eq!(
        plan.blockers[0].to_string(),
        "Machine m3 does not have a corresponding Node yet (Machine.status.nodeRef not set)"
    );

    let mut o = fixtures::three();
    o.control_plane.spec.replicas = Some(5);
    o.cluster.spec.topology = Some(of(json!({ "version": "v1.35.0", "classRef": { "name": "c" } })));
    check(&o, &[], &["topology-version"]);
}

#[test]
fn a_replacement_is_held_without_a_word_while_members_are_unknown() {
    let mut o = fixtures::three();
    o.control_plane.spec.replicas = Some(5);
    break_pods(&mut o, "m1");
    let mark = json!({ "machine": "m0", "timestamp": fixtures::ago(0), "retryCount": 0 }).to_string();
    let annotations = o.control_plane.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::REMEDIATION_IN_PROGRESS.to_owned(), mark);
    if let Workload::Reached(facts) = &mut o.workload {
        facts.etcd = Membership::NoLeader;
    }
    check(&o, &[], &["add-would-break"]);
    assert!(
        decide(o, fixtures::now()).pass.findings.lines().is_empty(),
        "upstream's condition does not say why"
    );
}

#[test]
fn a_machine_that_is_updated_in_place_is_waited_for() {
    let mut o = fixtures::three();
    o.control_plane.spec.replicas = Some(5);
    let annotations = o.machines[1].machine.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::UPDATE_IN_PROGRESS.to_owned(), String::new());
    annotations.insert(annotation::PENDING_HOOKS.to_owned(), "UpdateMachine".to_owned());
    check(&o, &[], &["updating-in-place"]);
}

#[test]
fn who_goes_first() {
    let who = |change: &dyn Fn(&mut Observed), outdated: &[&str]| {
        let mut o = fixtures::three();
        change(&mut o);
        select::machine_to_go(&o, outdated).map(|m| m.name().to_owned()).unwrap()
    };
    let annotate = |o: &mut Observed, index: usize, key: &str| {
        let annotations = o.machines[index].machine.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), String::new());
    };
    let place = |o: &mut Observed, places: [&str; 3]| {
        domains(o, &["a", "b"]);
        for (m, place) in o.machines.iter_mut().zip(places) {
            m.machine.spec.failure_domain = Some(place.to_owned());
        }
    };
    assert_eq!(who(&|_| {}, &[]), "m1", "the oldest");
    assert_eq!(who(&|_| {}, &["m2", "m3"]), "m2", "the oldest outdated");
    assert_eq!(who(&|o| annotate(o, 2, annotation::DELETE_MACHINE), &["m1"]), "m3", "marked by a person");
    assert_eq!(
        who(&|o| condition(&mut o.machines[2], "EtcdMemberHealthy", "False", "x"), &["m2", "m3"]),
        "m3",
        "outdated and unhealthy"
    );
    assert_eq!(who(&|o| place(o, ["a", "b", "b"]), &[]), "m2", "the fuller domain");
    assert_eq!(who(&|o| place(o, ["b", "a", "zz"]), &[]), "m3", "no known domain");
    assert_eq!(who(&|o| place(o, ["b", "a", "a"]), &["m1"]), "m1", "only outdated ones count");
}

#[test]
fn where_a_new_machine_goes() {
    let mut o = fixtures::three();
    assert_eq!(select::domain_for_new(&o), None);
    domains(&mut o, &["a", "b", "c"]);
    assert!(select::domain_for_new(&o).is_some(), "any of them");
    for (m, place) in o.machines.iter_mut().zip(["a", "b", "c"]) {
        m.machine.spec.failure_domain = Some(place.to_owned());
    }
    condition(&mut o.machines[1], "UpToDate", "False", "x");
    assert_eq!(select::domain_for_new(&o).as_deref(), Some("b"), "its Machine is outdated");
}

#[test]
fn leadership_goes_to_the_best_candidate() {
    let mut o = fixtures::three();
    let to = |o: &Observed| match leader::forward(o, &o.machines[0]) {
        Ok(Some(Act::Workload(WorkloadCall::MoveEtcdLeader { candidates, .. }))) => {
            candidates[0].name.clone()
        }
        other => format!("{other:?}"),
    };
    assert_eq!(to(&o), "node-m3", "the newest");
    condition(&mut o.machines[2], "UpToDate", "False", "x");
    assert_eq!(to(&o), "node-m2", "up to date before newest");
    condition(&mut o.machines[1], "EtcdMemberHealthy", "False", "x");
    assert_eq!(to(&o), "node-m3", "healthy before up to date");
    assert_eq!(leader::forward(&o, &o.machines[1]), Ok(None), "it does not lead");
    if let Workload::Reached(facts) = &mut o.workload {
        facts.etcd = Membership::NoLeader;
    }
    assert_eq!(to(&o), "Err(LeaderUnknown)");
}

#[test]
fn a_surge_of_zero_deletes_first() {
    let mut o = fixtures::three();
    o.control_plane.spec.version = "v1.35.0".into();
    let map = "update ConfigMap kube-system/kubeadm-config";
    check(&o, &[map, "create Machine prod-control-plane-abcde (joins)"], &[]);
    o.control_plane.spec.rollout = Some(of(json!({
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0 } },
    })));
    check(&o, &[map, "move etcd leadership from node-m1 to node-m3", "delete Machine m1"], &[]);
    let plan = plan(&o, fixtures::now());
    assert_eq!(plan.steps[2].reason.to_string(), "Version v1.34.1, v1.35.0 required");
}

#[test]
fn a_machine_that_goes_need_not_be_healthy_itself() {
    let mut o = fixtures::three();
    break_pods(&mut o, "m1");
    o.control_plane.spec.replicas = Some(1);
    check(&o, &["move etcd leadership from node-m1 to node-m3", "delete Machine m1"], &[]);
    let result = preflight::check(&o, &[], Intent::Remove("m1"));
    assert!(result.blockers.is_empty());
}

#[test]
fn remediation_is_held_back_by_name() {
    let unhealthy = |change: &dyn Fn(&mut Observed)| {
        let mut o = fixtures::three();
        condition(&mut o.machines[1], "HealthCheckSucceeded", "False", "x");
        condition(&mut o.machines[1], "OwnerRemediated", "False", "WaitingForRemediation");
        change(&mut o);
        o
    };
    let said = |o: &Observed| {
        let plan = plan(o, fixtures::now());
        let marks = plan.steps.iter().flat_map(|step| &step.writes).find_map(mark);
        marks.map(|mark| format!("{}: {}", mark.reason, mark.message)).unwrap_or_default()
    };
    let expect = |o: &Observed, reason: &str, message: &str| {
        let plan = plan(o, fixtures::now());
        let marks = plan.steps.iter().flat_map(|step| &step.writes).find_map(mark);
        let expected = ("False", reason, message);
        let of = "Machine by KubeadmControlPlane";
        crate::status::tests::witness::expect_one(of, &marks.expect("a mark"), "OwnerRemediated", expected);
    };
    expect(&unhealthy(&|_| {}), "MachineDeleting", "Machine is deleting");
    let odd = unhealthy(&|o| {
        let annotations = o.control_plane.metadata.annotations.get_or_insert_default();
        annotations.insert(annotation::REMEDIATION_IN_PROGRESS.to_owned(), "garbage".to_owned());
    });
    check(&odd, &[], &["remediation-mark-malformed"]);
    let begun = decide(unhealthy(&|_| {}), fixtures::now());
    let last = crate::status::control_plane::status(&begun.observed, &begun.pass, fixtures::now());
    assert_eq!(last.last_remediation.map(|r| r.machine), Some("m2".to_owned()), "told at once");
    let only = unhealthy(&|o| {
        o.machines.remove(0);
        o.machines.pop();
        o.control_plane.spec.replicas = Some(1);
        o.workload = Workload::Reached(Box::new(fixtures::reached(&o.machines)));
    });
    expect(
        &only,
        "CannotBeRemediated",
        "KubeadmControlPlane can't remediate if current replicas are less or equal to 1",
    );
    let quorum = unhealthy(&|o| {
        if let Workload::Reached(facts) = &mut o.workload
            && let Membership::Known(members) = &mut facts.etcd
        {
            members.list[0].alarms.push("CORRUPT".into());
        }
    });
    assert!(
        said(&quorum)
            .starts_with("CannotBeRemediated: KubeadmControlPlane can't remediate this Machine because")
    );
    let note =
        |at: &str, count: i32| json!({ "machine": "m0", "timestamp": at, "retryCount": count }).to_string();
    let retried = |minutes: i64, max_retry: i32, period_s: i32| {
        unhealthy(&|o| {
            o.control_plane.spec.remediation =
                Some(of(json!({ "maxRetry": max_retry, "retryPeriodSeconds": period_s })));
            let annotations = o.machines[1].machine.metadata.annotations.get_or_insert_default();
            annotations.insert(annotation::REMEDIATION_FOR.to_owned(), note(&fixtures::ago(minutes), 1));
        })
    };
    assert_eq!(said(&retried(10, 3, 0)), "MachineDeleting: Machine is deleting");
    assert_eq!(
        said(&retried(10, 1, 0)),
        "CannotBeRemediated: KubeadmControlPlane can't remediate this machine because the operation already failed 1 times (MaxRetry)"
    );
    expect(
        &retried(1, 3, 300),
        "RemediationDeferred",
        "KubeadmControlPlane can't remediate this machine because the operation already failed in the latest 5m0s (RetryPeriodSeconds)",
    );
    assert_eq!(
        said(&retried(61, 1, 0)),
        "MachineDeleting: Machine is deleting",
        "long healthy: a new problem"
    );
}

#[test]
fn quorum_is_judged_by_the_machines_conditions() {
    let mut o = fixtures::three();
    assert!(preflight::quorum_survives(&o, Change::Remove("node-m1")));
    condition(&mut o.machines[1], "EtcdMemberHealthy", "Unknown", "x");
    assert!(!preflight::quorum_survives(&o, Change::Remove("node-m1")));
    assert!(preflight::quorum_survives(&o, Change::Remove("node-m2")));
    assert!(!preflight::quorum_survives(&o, Change::Add));
    assert!(preflight::components_survive(&o, Change::Add));
    o.workload = Workload::NotAsked;
    assert!(!preflight::quorum_survives(&o, Change::None));
}

#[test]
fn kube_proxy_follows_once_nothing_else_is_to_do() {
    let mut o = fixtures::three();
    let Workload::Reached(facts) = &mut o.workload else { unreachable!("fixtures reach it") };
    facts.kube_proxy_image = Some("registry.k8s.io/kube-proxy:v1.33.0".into());
    check(&o, &["set the image of kube-proxy to registry.k8s.io/kube-proxy:v1.34.1"], &[]);
    let annotations = o.control_plane.metadata.annotations.get_or_insert_default();
    annotations.insert("controlplane.cluster.x-k8s.io/skip-kube-proxy".into(), String::new());
    check(&o, &[], &[]);
}

#[test]
fn a_recheck_is_set_for_the_moment_time_alone_changes_the_plan() {
    let mut o = fixtures::three();
    assert_eq!(plan(&o, fixtures::now()).recheck, None);
    let at = parse_rfc3339("2026-11-20T10:05:00Z").unwrap();
    o.control_plane.spec.rollout.get_or_insert_default().after = Some(capstan_base::time::to_k8s(at));
    assert_eq!(plan(&o, fixtures::now()).recheck, Some(std::time::Duration::from_secs(301)));
}
