//! Rule tables of the MachineSet planner.

use super::*;
use crate::status::conditions::setter::condition;
use capi_types::condition::{Conditioned as _, Status, find};
use capi_types::machine::{Bootstrap, MachineStatus};
use capi_types::machine_set::DeletionOrder;
use capi_types::reference::{ContractRef, NodeRef, TemplateMeta};
use capstan_base::time::{parse_rfc3339, to_k8s};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

pub(super) fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

fn template(kind: &str, group: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/v1beta2"), "kind": kind, "metadata": {"name": "t"},
        "spec": {"template": {"spec": {"marker": kind}}}
    })
}

pub(super) fn observed(replicas: i32, machines: Vec<Machine>) -> Observed {
    let mut set = MachineSet::default();
    set.metadata.name = Some("md-x".into());
    set.metadata.namespace = Some("ns".into());
    set.metadata.uid = Some("set-uid".into());
    set.metadata.labels = Some([(names::label::DEPLOYMENT_NAME.to_owned(), "md".to_owned())].into());
    set.spec.cluster_name = "c".into();
    set.spec.replicas = Some(replicas);
    set.spec.template.metadata = Some(TemplateMeta {
        labels: [("pool".to_owned(), "md".to_owned())].into(),
        ..TemplateMeta::default()
    });
    let to = |group: &str, kind: &str| ContractRef {
        api_group: group.into(),
        kind: kind.into(),
        name: "t".into(),
    };
    set.spec.template.spec.infrastructure_ref = to(names::INFRASTRUCTURE_GROUP, "DevMachineTemplate");
    set.spec.template.spec.bootstrap = Bootstrap {
        config_ref: Some(to(names::BOOTSTRAP_GROUP, "KubeadmConfigTemplate")),
        data_secret_name: None,
    };
    Observed {
        set,
        machines: machines.into_iter().map(Arc::new).collect(),
        clones: Vec::new(),
        infrastructure_template: Some(template("DevMachineTemplate", names::INFRASTRUCTURE_GROUP).into()),
        bootstrap_template: Some(template("KubeadmConfigTemplate", names::BOOTSTRAP_GROUP).into()),
        missing_templates: Vec::new(),
        has_unreadable_template: false,
        needs_templates: true,
        preflight: Preflight::default(),
        remediation: Limits { is_current_revision: true, max_in_flight: None, replicas },
        suffixes: (0..10).map(|i| format!("aaaa{i}")).collect(),
        updates_in_place: false,
        target: None,
    }
}

/// A healthy Machine in step with the MachineSet of [`observed`].
pub(super) fn machine(name: &str, age_days: i64) -> Machine {
    let mut machine = Machine::default();
    machine.metadata.name = Some(name.into());
    machine.metadata.namespace = Some("ns".into());
    machine.metadata.uid = Some(format!("uid-{name}"));
    machine.metadata.creation_timestamp = Some(to_k8s(now() - chrono::Duration::days(age_days)));
    machine.status =
        Some(MachineStatus { node_ref: Some(NodeRef { name: name.into() }), ..MachineStatus::default() });
    let set = observed(0, Vec::new()).set;
    let kept = desired::kept(&machine, &set);
    machine.spec = kept.spec;
    machine.metadata.labels = kept.metadata.labels;
    machine.metadata.finalizers = kept.metadata.finalizers;
    machine.metadata.owner_references = kept.metadata.owner_references;
    machine
}

fn writes(plan: &Plan) -> Vec<String> {
    plan.steps
        .iter()
        .flat_map(|s| &s.writes)
        .filter(|w| !matches!(w, Write::Event { .. }))
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_machine_is_made_after_the_objects_it_refers_to() {
    let plan = plan(&observed(1, Vec::new()), now());
    assert_eq!(
        writes(&plan),
        [
            "create KubeadmConfig ns/md-x-aaaa0",
            "take over fields of KubeadmConfig ns/md-x-aaaa0",
            "create DevMachine ns/md-x-aaaa0",
            "take over fields of DevMachine ns/md-x-aaaa0",
            "create Machine ns/md-x-aaaa0"
        ]
    );
    let Write::Create { content, .. } = &plan.steps[2].writes[0] else { panic!("a creation") };
    let machine: Machine = serde_json::from_value(content.clone()).expect("a Machine");
    assert_eq!(machine.spec.infrastructure_ref.kind, "DevMachine");
    assert_eq!(machine.spec.infrastructure_ref.name, "md-x-aaaa0");
    assert_eq!(machine.spec.bootstrap.config_ref.as_ref().map(|r| r.kind.as_str()), Some("KubeadmConfig"));
    assert_eq!(machine.metadata.finalizers, Some(vec![names::finalizer::MACHINE.to_owned()]));
    let labels = machine.metadata.labels.expect("labels");
    assert_eq!(labels[names::label::SET_NAME], "md-x");
    assert_eq!(labels[names::label::DEPLOYMENT_NAME], "md");
    assert_eq!(labels["pool"], "md");
}

#[test]
fn what_holds_creation_back_is_a_blocker() {
    let mut disabled = observed(1, Vec::new());
    let key = names::annotation::DISABLE_MACHINE_CREATE.to_owned();
    disabled.set.metadata.annotations = Some([(key, "true".to_owned())].into());
    let mut missing = observed(1, Vec::new());
    missing.missing_templates = vec!["DevMachineTemplate".into()];
    let mut waiting = observed(1, Vec::new());
    waiting.preflight.control_plane =
        Some(preflight::ControlPlane { name: "KubeadmControlPlane ns/cp".into(), ..Default::default() });
    for (observed, rule) in
        [(disabled, "creation-disabled"), (missing, "templates-missing"), (waiting, "preflight")]
    {
        let plan = plan(&observed, now());
        assert_eq!(plan.blockers[0].reason.rule, rule);
        assert!(!writes(&plan).iter().any(|w| w.contains("create Machine")), "{rule}");
    }
}

#[test]
fn deletion_order_is_marked_unhealthy_then_policy() {
    let mut marked = machine("c-marked", 1);
    marked.metadata.annotations =
        Some([(names::annotation::DELETE_MACHINE.to_owned(), String::new())].into());
    let mut unhealthy = machine("d-unhealthy", 1);
    unhealthy.status = None;
    let all = vec![machine("a-old", 30), machine("b-new", 1), marked, unhealthy];
    for (policy, expected) in [
        (None, ["c-marked", "d-unhealthy", "a-old", "b-new"]),
        (Some("Oldest"), ["c-marked", "d-unhealthy", "a-old", "b-new"]),
        (Some("Newest"), ["c-marked", "d-unhealthy", "b-new", "a-old"]),
    ] {
        let mut given = observed(0, all.clone());
        given.set.spec.deletion = Some(DeletionOrder { order: policy.map(str::to_owned) });
        let deleted: Vec<String> = writes(&plan(&given, now()));
        let expected: Vec<String> = expected.iter().map(|n| format!("delete Machine ns/{n}")).collect();
        assert_eq!(deleted, expected, "{policy:?}");
    }
}

#[test]
fn machines_already_going_count_as_deleted() {
    let mut going = machine("a", 1);
    going.metadata.deletion_timestamp = Some(to_k8s(now()));
    let given = observed(1, vec![going, machine("b", 1)]);
    assert!(!writes(&plan(&given, now())).iter().any(|w| w.starts_with("delete")));
}

#[test]
fn template_changes_reach_existing_machines() {
    let mut given = observed(1, vec![machine("a", 1)]);
    assert_eq!(writes(&plan(&given, now())), Vec::<String>::new());
    given.set.spec.template.spec.min_ready_seconds = Some(30);
    assert_eq!(writes(&plan(&given, now())), ["apply Machine ns/a"]);
}

#[test]
fn a_deleted_set_deletes_its_machines() {
    let mut given = observed(1, vec![machine("a", 1)]);
    given.set.metadata.deletion_timestamp = Some(to_k8s(now()));
    let leaving = plan(&given, now());
    assert_eq!(writes(&leaving), ["delete Machine ns/a"]);
    assert!(!leaving.is_last);
    let told =
        leaving.steps.iter().flat_map(|s| &s.writes).filter(|w| matches!(w, Write::Event { .. })).count();
    assert_eq!(told, 0, "a MachineSet that goes reported SuccessfulDelete for each Machine");
    given.machines.clear();
    given.set.metadata.finalizers = Some(vec![names::finalizer::MACHINE_SET.to_owned()]);
    let last = plan(&given, now());
    assert_eq!(last.steps[0].to_string(), "patch MachineSet ns/md-x: no Machine is left");
    assert!(last.is_last, "nothing is left to report on");
}

#[test]
fn names_are_drawn_for_what_is_missing_and_a_hundred_at_most() {
    for (replicas, current, expected) in [(3, 1, 2), (1, 3, 0), (500, 0, 100), (-1, 0, 0)] {
        let set = observed(replicas, Vec::new()).set;
        assert_eq!(names_wanted(&set, current), expected, "{replicas} wanted, {current} there");
    }
    let mut unsaid = observed(0, Vec::new()).set;
    unsaid.spec.replicas = None;
    assert_eq!(names_wanted(&unsaid, 0), 1);
}

#[test]
fn a_pass_is_complete_unless_something_it_needs_was_not_read() {
    let unread = || Preflight { unread: Some("no".to_owned()), ..Preflight::default() };
    let missing = || vec!["XTemplate".to_owned()];
    for (why, replicas, change, expected) in [
        ("all is well", 1, (|_| {}) as fn(&mut Observed), true),
        ("a template is unreadable", 1, |o| o.has_unreadable_template = true, false),
        ("a template is missing", 1, |_| {}, false),
        ("it is missing and not needed", 1, |o| o.needs_templates = false, true),
        ("the control plane is unreadable", 1, |_| {}, false),
        ("and no Machine is wanted", 0, |_| {}, true),
    ] {
        let mut o = observed(replicas, Vec::new());
        if why.contains("missing") {
            o.missing_templates = missing();
        }
        if why.starts_with("the control plane") || why.starts_with("and") {
            o.preflight = unread();
        }
        change(&mut o);
        assert_eq!(is_complete(&o), expected, "{why}");
    }
}

#[test]
fn machines_that_are_not_ready_or_available_are_looked_at_again() {
    let mut set = observed(3, Vec::new()).set;
    let counted = |ready, available| MachineSetStatus {
        replicas: Some(3),
        ready_replicas: Some(ready),
        available_replicas: Some(available),
        ..MachineSetStatus::default()
    };
    let seconds = |set: &MachineSet, ready, available| {
        recheck(set, &counted(ready, available)).map(|delay| delay.as_secs())
    };
    assert_eq!(seconds(&set, 3, 3), None);
    assert_eq!(seconds(&set, 2, 2), Some(15));
    assert_eq!(seconds(&set, 3, 2), None, "nothing makes them available but an event");
    set.spec.template.spec.min_ready_seconds = Some(40);
    assert_eq!(seconds(&set, 3, 2), Some(40));
    set.metadata.deletion_timestamp = Some(to_k8s(now()));
    assert_eq!(seconds(&set, 2, 2), None);
}

/// Its health check said so, and its owner has not acted.
fn unhealthy(name: &str, age_days: i64) -> Machine {
    let mut machine = machine(name, age_days);
    let mark = |type_: &str, reason: &str| condition(type_, Status::False, reason, "");
    let marks = vec![mark("HealthCheckSucceeded", "NodeUnhealthy"), mark(MARK, "WaitingForRemediation")];
    *machine.conditions_mut() = marks;
    machine
}

const MARK: &str = "OwnerRemediated";

#[test]
fn an_unhealthy_machine_is_marked_and_then_deleted() {
    let mut o = observed(3, vec![machine("a", 3), unhealthy("b", 2), unhealthy("c", 1)]);
    let mark = |name: &str| format!("set {MARK}=False/MachineDeleting of Machine ns/{name}");
    assert_eq!(
        writes(&plan(&o, now())),
        [mark("c"), mark("b"), "delete Machine ns/c".into(), "delete Machine ns/b".into()],
        "no replacement before the Machine is gone"
    );
    o.remediation.max_in_flight = Some(IntOrString::Int(1));
    let limited = plan(&o, now());
    let deferred = format!("set {MARK}=False/RemediationDeferred of Machine ns/b");
    assert_eq!(writes(&limited), [mark("c"), deferred, "delete Machine ns/c".into()]);
    assert_eq!(limited.blockers[0].reason.rule, "remediation-held");
}

#[test]
fn what_was_marked_already_is_not_written_again() {
    let mut o = observed(1, vec![unhealthy("a", 3)]);
    o.remediation.is_current_revision = false;
    assert_eq!(writes(&plan(&o, now())), [format!("set {MARK}=False/CannotBeRemediated of Machine ns/a")]);
    o.machines = remediate::marked(&o, now());
    assert_eq!(find(o.machines[0].conditions(), MARK).unwrap().reason, "CannotBeRemediated");
    assert_eq!(writes(&plan(&o, now())), Vec::<String>::new());
}

#[test]
fn a_machine_that_recovered_loses_its_mark() {
    let mut machine = unhealthy("a", 3);
    machine.conditions_mut()[0].status = "True".into();
    let o = observed(1, vec![machine]);
    assert_eq!(writes(&plan(&o, now())), [format!("clear {MARK} of Machine ns/a")]);
    assert_eq!(find(remediate::marked(&o, now())[0].conditions(), MARK), None);
}

#[test]
fn a_failed_preflight_holds_a_remediation() {
    let mut o = observed(1, vec![unhealthy("a", 3)]);
    o.preflight.control_plane =
        Some(preflight::ControlPlane { name: "KubeadmControlPlane ns/cp".into(), ..Default::default() });
    o.preflight.skip = ["All".to_owned()].into();
    assert_eq!(writes(&plan(&o, now())).len(), 2);
    o.preflight.skip.clear();
    o.preflight.control_plane.as_mut().unwrap().version = "v1.35.0".into();
    let held = plan(&o, now());
    assert_eq!(writes(&held), [format!("set {MARK}=False/RemediationDeferred of Machine ns/a")]);
    assert_eq!(held.recheck, Some(PREFLIGHT_RECHECK));
    o.preflight.unread = Some("the control plane could not be read".into());
    assert_eq!(writes(&plan(&o, now())), Vec::<String>::new(), "nothing is marked by what is not known");
}

const MOVE: &str = names::annotation::MOVE_MACHINES_TO;
const RECEIVE: &str = names::annotation::RECEIVE_MACHINES_FROM;

fn note(set: &mut MachineSet, key: &str, value: &str) {
    set.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

/// Three Machines of which two are to move to `md-y`.
fn giving() -> Observed {
    let mut o = observed(1, vec![machine("a", 3), machine("b", 2), machine("c", 1)]);
    note(&mut o.set, MOVE, "md-y");
    let mut target = o.set.clone();
    target.metadata.name = Some("md-y".into());
    target.metadata.uid = Some("uid-md-y".into());
    target.metadata.annotations = None;
    note(&mut target, RECEIVE, "md-w,md-x");
    let labels = target.metadata.labels.get_or_insert_default();
    labels.insert(names::label::MACHINE_TEMPLATE_HASH.to_owned(), "hash-y".to_owned());
    o.target = Some(Arc::new(target));
    o
}

#[test]
fn a_machine_moves_with_owner_label_and_marks() {
    let plan = plan(&giving(), now());
    assert_eq!(writes(&plan), ["patch Machine ns/a", "patch Machine ns/b"]);
    let Write::Patch { body, .. } = &plan.steps[0].writes[0] else { panic!("a patch") };
    let owner = &body["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["name"], &owner["uid"]), (&"md-y".into(), &"uid-md-y".into()));
    assert_eq!(body["metadata"]["labels"][names::label::MACHINE_TEMPLATE_HASH], "hash-y");
    let marks = body["metadata"]["annotations"].as_object().expect("annotations");
    assert!(marks.contains_key(names::annotation::UPDATE_IN_PROGRESS));
    assert!(marks.contains_key(names::annotation::PENDING_ACKNOWLEDGE_MOVE));
    assert!(plan.steps.iter().all(|step| step.on_failure.is_independent));
}

#[test]
fn a_move_needs_both_sides() {
    let refused = |change: &dyn Fn(&mut Observed)| {
        let mut o = giving();
        change(&mut o);
        let plan = plan(&o, now());
        assert_eq!(writes(&plan), <[String; 0]>::default(), "nothing is moved and nothing deleted");
        plan.blockers[0].to_string()
    };
    assert!(refused(&|o| o.target = None).starts_with("failed to get MachineSet md-y"));
    let other = |o: &mut Observed| {
        let mut target = o.target.as_ref().expect("a target").as_ref().clone();
        note(&mut target, RECEIVE, "md-w");
        o.target = Some(Arc::new(target));
    };
    assert_eq!(
        refused(&other),
        "MachineSet md-x is set to move replicas to md-y, but md-y only accepts Machines from md-w"
    );
}

#[test]
fn who_cannot_move_stays_and_who_is_unhealthy_goes() {
    let mut o = giving();
    let mut machines: Vec<Machine> = o.machines.iter().map(|m| m.as_ref().clone()).collect();
    machines[0].status.as_mut().expect("a status").node_ref = None;
    let marks = machines[1].metadata.annotations.get_or_insert_default();
    marks.insert(names::annotation::UPDATE_IN_PROGRESS.to_owned(), String::new());
    o.machines = machines.into_iter().map(Arc::new).collect();
    o.updates_in_place = false;
    assert_eq!(writes(&plan(&o, now())), ["patch Machine ns/c"], "one is updated, one has no Node");

    let mut o = giving();
    let mut machines: Vec<Machine> = o.machines.iter().map(|m| m.as_ref().clone()).collect();
    let bad = |type_: &str| {
        serde_json::json!({"type": type_, "status": "False", "reason": "R", "message": "",
                                   "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    machines[0].status.as_mut().expect("a status").conditions =
        serde_json::from_value(serde_json::json!([bad("HealthCheckSucceeded"), bad("OwnerRemediated")]))
            .expect("conditions");
    o.machines = machines.into_iter().map(Arc::new).collect();
    o.remediation = Limits { is_current_revision: false, ..o.remediation };
    let said = writes(&plan(&o, now()));
    assert!(said.contains(&"delete Machine ns/a".to_owned()), "{said:?}");
    assert!(said.contains(&"patch Machine ns/b".to_owned()), "{said:?}");
}

/// A Machine that arrived from another MachineSet, with the objects behind it.
fn receiving(acknowledged: bool) -> Observed {
    let mut moved = machine("a", 3);
    moved.spec.version = Some("v1".into());
    let reference =
        |kind: &str| ContractRef { kind: kind.into(), name: "a".into(), ..ContractRef::default() };
    moved.spec.infrastructure_ref = reference("DevMachine");
    moved.spec.bootstrap.config_ref = Some(reference("KubeadmConfig"));
    let marks = moved.metadata.annotations.get_or_insert_default();
    marks.insert(names::annotation::UPDATE_IN_PROGRESS.to_owned(), String::new());
    marks.insert(names::annotation::PENDING_ACKNOWLEDGE_MOVE.to_owned(), String::new());
    let mut o = observed(i32::from(acknowledged), vec![moved]);
    let clone = |kind: &str| {
        External::Found(crate::status::contract::Provided::new(serde_json::json!({
            "apiVersion": "g/v1", "kind": kind,
            "metadata": {"name": "a", "namespace": "ns", "uid": kind, "labels": {"pool": "md"}},
            "spec": {"marker": "old"},
        })))
    };
    o.clones = vec![[clone("DevMachine"), clone("KubeadmConfig")]];
    o.updates_in_place = true;
    o.set.spec.template.spec.version = Some("v2".into());
    note(&mut o.set, RECEIVE, "md-w");
    if acknowledged {
        note(&mut o.set, names::annotation::ACKNOWLEDGED_MOVE, "a,b");
    }
    o
}

fn begun(o: &Observed) -> Option<Vec<String>> {
    let plan = plan(o, now());
    let step = plan.steps.into_iter().find(|step| step.reason.rule == "update-in-place")?;
    Some(step.writes.iter().map(ToString::to_string).collect())
}

#[test]
fn an_arrived_machine_waits_until_it_is_counted() {
    let waiting = receiving(false);
    assert_eq!(begun(&waiting), None);
    let said = writes(&plan(&waiting, now()));
    assert!(!said.iter().any(|w| w.starts_with("delete")), "it is not surplus: {said:?}");
    assert_eq!(
        begun(&receiving(true)).expect("an update"),
        [
            "apply DevMachine ns/a",
            "apply KubeadmConfig ns/a",
            "apply Machine ns/a",
            "patch Machine ns/a",
            "report SuccessfulStartInPlaceUpdate on Machine ns/a",
        ]
    );
    let mut closed = receiving(true);
    closed.updates_in_place = false;
    assert_eq!(begun(&closed), None, "the gate is closed");
}

#[test]
fn a_change_of_mind_counts_arrived_machines_like_others() {
    let mut o = receiving(false);
    o.set.metadata.annotations = None;
    assert!(begun(&o).is_some(), "nobody acknowledges any more");
    let said = writes(&plan(&o, now()));
    assert!(said.contains(&"delete Machine ns/a".to_owned()), "and it is surplus: {said:?}");
}

#[test]
fn what_is_applied_is_the_template_and_the_mark() {
    let plan = plan(&receiving(true), now());
    let step = plan.steps.iter().find(|s| s.reason.rule == "update-in-place").expect("an update");
    let Write::Apply { intent, manager, .. } = &step.writes[0] else { panic!("an apply") };
    assert_eq!(*manager, manager::MACHINE_SET);
    assert_eq!(intent["spec"], serde_json::json!({"marker": "DevMachineTemplate"}));
    assert_eq!(intent["metadata"]["labels"], serde_json::Value::Null, "kept in step by another manager");
    assert_eq!(intent["metadata"]["annotations"][names::annotation::UPDATE_IN_PROGRESS], "");
    assert!(intent["metadata"]["ownerReferences"].is_null());
    let Write::Apply { intent, .. } = &step.writes[2] else { panic!("an apply") };
    assert_eq!(intent["spec"]["version"], "v2");
    assert_eq!(intent["spec"]["infrastructureRef"]["name"], "a");
}
