//! Tables for the Machine's plan: which rules speak, in which order.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::status::contract::{External, Provided};
use crate::status::drain::Tenants;
use crate::status::drain::volumes::Storage;
use crate::status::machine::Failed;
use crate::status::machine::{NodeReading, Probe, StorageReading, SyncedKeys, TenantsReading};
use capstan_base::time::parse_rfc3339;

fn now() -> Timestamp {
    parse_rfc3339("2026-01-01T12:00:00Z").expect("a moment")
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

fn provider(kind: &str, spec: Value, status: Value) -> External {
    External::Found(Provided::new(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {"name": "m", "namespace": "ns", "uid": kind, "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m", "uid": "m",
                                 "controller": true, "blockOwnerDeletion": true}]},
        "spec": spec, "status": status,
    })))
}

/// A worker that has everything.
fn settled() -> Observed {
    Observed {
        machine: object(json!({
            "metadata": {"name": "m", "namespace": "ns", "uid": "m", "finalizers": ["machine.cluster.x-k8s.io"],
                "labels": {"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/set-name": "s"}},
            "spec": {"clusterName": "c", "providerID": "in-memory://m",
                "bootstrap": {"configRef": {"apiGroup": "b", "kind": "KubeadmConfig", "name": "m"}, "dataSecretName": "m"},
                "infrastructureRef": {"apiGroup": "i", "kind": "DevMachine", "name": "m"}},
            "status": {"nodeRef": {"name": "m"}, "initialization": {"infrastructureProvisioned": true}}})),
        cluster: object(json!({"metadata": {"name": "c", "namespace": "ns"}, "spec": {}, "status": {
            "initialization": {"infrastructureProvisioned": true},
            "conditions": [{"type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized",
                            "message": "", "lastTransitionTime": "2026-01-01T11:00:00Z"}]}})),
        bootstrap: provider(
            "KubeadmConfig",
            json!({}),
            json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "m"}),
        ),
        infrastructure: provider(
            "DevMachine",
            json!({"providerID": "in-memory://m"}),
            json!({"initialization": {"provisioned": true}}),
        ),
        probe: Probe { last_success: Some(now()), ..Probe::default() },
        control_plane_machines_left: 1,
        node: NodeReading::Found(Arc::new(object(json!({"metadata": {"name": "m", "annotations": {
            "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/cluster-namespace": "ns", "cluster.x-k8s.io/machine": "m",
            "cluster.x-k8s.io/labels-from-machine": "", "cluster.x-k8s.io/annotations-from-machine": ""}}})))),
        ..Observed::default()
    }
}

fn rules(plan: &Plan) -> (Vec<&'static str>, Vec<&'static str>) {
    (
        plan.steps.iter().map(|s| s.reason.rule).collect(),
        plan.blockers.iter().map(|b| b.reason.rule).collect(),
    )
}

fn check(o: &Observed, steps: &[&str], blockers: &[&str]) {
    let mut plan = plan(o, now());
    plan.extend(leave(o, now()));
    let (did, held) = rules(&plan);
    assert_eq!((did.as_slice(), held.as_slice()), (steps, blockers));
}

#[test]
fn a_settled_machine_needs_nothing() {
    check(&settled(), &[], &[]);
}

#[test]
fn the_finalizer_comes_alone_and_first() {
    let mut o = settled();
    o.machine.metadata.finalizers = None;
    o.bootstrap = provider("KubeadmConfig", json!({}), json!({}));
    check(&o, &["add-finalizer"], &[]);
}

#[test]
fn provisioning_copies_what_providers_offer() {
    let mut o = settled();
    o.machine.spec.provider_id = None;
    o.machine.spec.bootstrap.data_secret_name = None;
    o.machine.status = None;
    o.node = NodeReading::NotAsked;
    check(&o, &["copy-data-secret-name", "copy-provider-id"], &[]);
    o.bootstrap = provider("KubeadmConfig", json!({}), json!({}));
    o.infrastructure = provider("DevMachine", json!({}), json!({}));
    check(&o, &[], &["waiting-for-data-secret", "waiting-for-infrastructure"]);
    o.infrastructure = provider("DevMachine", json!({}), json!({"initialization": {"provisioned": true}}));
    check(&o, &[], &["waiting-for-data-secret", "waiting-for-provider-id"]);
    o.infrastructure = External::NotFound { kind: "DevMachine".to_owned() };
    check(&o, &[], &["waiting-for-data-secret", "missing-provider-object"]);
}

#[test]
fn the_node_gets_what_the_machine_says() {
    let mut o = settled();
    o.machine
        .metadata
        .labels
        .get_or_insert_default()
        .insert("node-role.kubernetes.io/worker".into(), String::new());
    o.node = NodeReading::Found(Arc::new(object(json!({
        "metadata": {"name": "m", "labels": {"old.node.cluster.x-k8s.io/x": "1", "other": "1"},
            "annotations": {"cluster.x-k8s.io/labels-from-machine": "old.node.cluster.x-k8s.io/x"}},
        "spec": {"taints": [{"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"},
                            {"key": "mine", "effect": "NoSchedule"}]}}))));
    let plan = plan(&o, now());
    let Write::Workload { call: crate::plan::WorkloadCall::PatchNode { body, .. }, .. } =
        &plan.steps[0].writes[0]
    else {
        unreachable!("a node patch")
    };
    assert_eq!(
        body["metadata"]["labels"],
        json!({"node-role.kubernetes.io/worker": "", "old.node.cluster.x-k8s.io/x": null})
    );
    assert_eq!(
        body["metadata"]["annotations"]["cluster.x-k8s.io/labels-from-machine"],
        "node-role.kubernetes.io/worker"
    );
    assert_eq!(body["spec"]["taints"], json!([{"key": "mine", "effect": "NoSchedule"}]));
}

/// The patch of the Node; `None` when there is none.
fn node_patch(o: &Observed) -> Option<Value> {
    let steps = plan(o, now()).steps;
    steps.into_iter().flat_map(|step| step.writes).find_map(|write| match write {
        Write::Workload { call: crate::plan::WorkloadCall::PatchNode { body, .. }, .. } => Some(body),
        _ => None,
    })
}

#[test]
fn the_node_gets_what_the_patterns_match() {
    let mut o = settled();
    let patterns = |text: &str| vec![regex::Regex::new(text).expect("a pattern")];
    o.synced_keys = Arc::new(SyncedKeys { labels: patterns("^team/"), annotations: patterns("note$") });
    let entries = |keys: [&str; 2]| keys.map(|key| (key.to_owned(), "x".to_owned())).into_iter().collect();
    o.machine.metadata.labels = Some(entries(["team/a", "a-team/a"]));
    o.machine.metadata.annotations = Some(entries(["a/note", "a/note-b"]));
    let body = node_patch(&o).expect("a patch");
    assert_eq!(body["metadata"]["labels"], json!({"team/a": "x"}));
    assert_eq!(body["metadata"]["annotations"]["a/note"], "x");
    assert!(body["metadata"]["annotations"].get("a/note-b").is_none());
    assert_eq!(body["metadata"]["annotations"]["cluster.x-k8s.io/annotations-from-machine"], "a/note");
}

#[test]
fn the_node_gets_the_machines_taints_and_keeps_those_of_others() {
    const NOTE: &str = "cluster.x-k8s.io/taints-from-machine";
    let taint = |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
    let node = |note: Option<&str>, taints: Value| {
        let annotations = note.map_or(json!({}), |note| json!({NOTE: note}));
        NodeReading::Found(Arc::new(object(
            json!({"metadata": {"name": "m", "annotations": annotations}, "spec": {"taints": taints}}),
        )))
    };
    let mut o = settled();
    let wanted = |key: &str, propagation: &str| json!({"key": key, "value": "1", "effect": "NoSchedule", "propagation": propagation});
    o.machine.spec.taints = object(json!([wanted("always", "Always"), wanted("once", "OnInitialization")]));
    // The first meeting.
    let met = o.machine.status.clone();
    o.machine.status.as_mut().expect("a status").node_ref = None;
    o.node = node(None, json!([taint("mine", "")]));
    let body = node_patch(&o).expect("a patch");
    assert_eq!(body["spec"]["taints"], json!([taint("mine", ""), taint("always", "1"), taint("once", "1")]));
    assert_eq!(body["metadata"]["annotations"][NOTE], "always:NoSchedule");
    // Later: another value comes back, what was set once may go.
    o.machine.status = met;
    o.node = node(Some("always:NoSchedule"), json!([taint("always", "2")]));
    assert_eq!(node_patch(&o).expect("a patch")["spec"]["taints"], json!([taint("always", "1")]));
    // The Machine loses its taints.
    o.machine.spec.taints.clear();
    o.node = node(Some("always:NoSchedule"), json!([taint("always", "1"), taint("once", "1")]));
    let body = node_patch(&o).expect("a patch");
    assert_eq!(
        (&body["spec"]["taints"], &body["metadata"]["annotations"][NOTE]),
        (&json!([taint("once", "1")]), &json!(""))
    );
}

fn tenants(pods: Value) -> TenantsReading {
    let namespaces = Ok([("d".to_owned(), std::collections::BTreeMap::new())].into());
    let daemon_sets = std::collections::BTreeSet::new();
    TenantsReading::Known(Box::new(Tenants {
        pods: object(pods),
        rules: Ok(Vec::new()),
        namespaces,
        daemon_sets,
    }))
}

#[test]
fn deletion_takes_one_stage_at_a_time() {
    let mut o = settled();
    o.machine.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(now()));
    check(&o, &["record-drain-start", "cordon"], &[]);
    o.machine.status =
        object(json!({"nodeRef": {"name": "m"}, "initialization": {"infrastructureProvisioned": true},
        "deletion": {"nodeDrainStartTime": "2026-01-01T12:00:00Z"}}));
    check(&o, &["cordon"], &[]);
    o.tenants = tenants(json!([{"metadata": {"namespace": "d", "name": "p"}}]));
    check(&o, &["drain"], &["draining"]);
    assert_eq!(leave(&o, now()).hold, Some(Duration::from_secs(20)));
    o.tenants = tenants(json!([]));
    check(&o, &[], &["waiting-for-volumes"]);
    let attachment = json!({"metadata": {"name": "a"}, "spec": {"attacher": "x", "nodeName": "m",
        "source": {"persistentVolumeName": "v"}}, "status": {"attached": true}});
    o.storage = StorageReading::Known(Box::new(Storage {
        attachments: Ok(vec![object(attachment)]),
        volumes: Ok(Vec::new()),
    }));
    check(&o, &["report-progress"], &["waiting-for-volumes"]);
    assert_eq!(leave(&o, now()).hold, Some(Duration::from_secs(20)));
    o.storage =
        StorageReading::Known(Box::new(Storage { attachments: Ok(Vec::new()), volumes: Ok(Vec::new()) }));
    check(&o, &["report-progress", "report-progress", "delete-infrastructure"], &["waiting-for-deletion"]);
    let gone = |kind: &str| External::NotFound { kind: kind.to_owned() };
    o.infrastructure = gone("DevMachine");
    check(&o, &["delete-bootstrap"], &["waiting-for-deletion"]);
    o.bootstrap = gone("KubeadmConfig");
    check(&o, &["delete-node", "deletion-completed"], &[]);
    o.node = NodeReading::NotFound;
    check(&o, &["deletion-completed"], &[]);
}

#[test]
fn what_cannot_be_told_is_complained_about() {
    let mut o = settled();
    o.machine.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(now()));
    o.tenants = TenantsReading::Failed("refused".to_owned());
    check(&o, &["report-progress"], &["cannot-drain"]);
    o.tenants = tenants(json!([]));
    let refused = || Err("refused".to_owned());
    let storage = Storage { attachments: refused(), volumes: Ok(Vec::new()) };
    o.storage = StorageReading::Known(Box::new(storage));
    check(&o, &["report-progress", "report-progress"], &["volumes-unknown"]);
    o.control_plane = External::Unreadable { kind: "X".to_owned(), error: "refused".to_owned() };
    check(&o, &[], &["cannot-tell-whether-node-goes"]);
    for (failed, events) in [
        (Failed::Cordon, &["FailedDrainNode"][..]),
        (Failed::DeleteNode, &["FailedDeleteNode"]),
        (Failed::DeleteBootstrap, &[]),
    ] {
        let told: Vec<&str> = complaint(&o, failed, "refused")
            .iter()
            .filter_map(|step| match &step.writes[0] {
                Write::Event { reason, warning: true, .. } => Some(*reason),
                _ => None,
            })
            .collect();
        assert_eq!(told, events);
    }
}

#[test]
fn an_unreachable_node_is_drained_without_patience() {
    let mut o = settled();
    o.machine.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(now()));
    o.tenants = tenants(json!([{"metadata": {"namespace": "d", "name": "p"}}]));
    let grace = |o: &Observed| {
        leave(o, now()).steps.iter().flat_map(|step| &step.writes).find_map(|write| match write {
            Write::Workload { call: crate::plan::WorkloadCall::Evict { grace_period_s, .. }, .. } => {
                Some(*grace_period_s)
            }
            _ => None,
        })
    };
    assert_eq!(grace(&o), Some(None));
    o.named_node = NodeReading::Found(Arc::new(object(json!({"metadata": {"name": "other"},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}))));
    assert_eq!(grace(&o), Some(Some(1)));
}

#[test]
fn with_the_cluster_the_node_is_left_alone() {
    let mut o = settled();
    o.machine.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(now()));
    std::sync::Arc::make_mut(&mut o.cluster).metadata.deletion_timestamp =
        Some(capstan_base::time::to_k8s(now()));
    check(&o, &["delete-infrastructure"], &["waiting-for-deletion"]);
    o.infrastructure = External::NotFound { kind: "DevMachine".to_owned() };
    o.bootstrap = External::NotFound { kind: "KubeadmConfig".to_owned() };
    check(&o, &["deletion-completed"], &[]);
}

#[test]
fn a_machine_without_a_cluster_waits_for_it_by_label_or_looks_again() {
    let mut machine = settled().machine;
    assert_eq!(recheck_without_cluster(&machine), None, "the Cluster's arrival wakes it");
    machine.metadata.labels = None;
    assert_eq!(recheck_without_cluster(&machine), Some(std::time::Duration::from_secs(30)));
}

#[test]
fn a_machine_that_nothing_made_belongs_to_its_cluster() {
    let mut o = settled();
    o.node = NodeReading::NotAsked;
    o.machine.metadata.labels = None;
    check(&o, &["label-with-cluster", "own-stand-alone-machine"], &[]);
    let controller = json!({"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "x", "controller": true});
    o.machine.metadata.owner_references = Some(vec![object(controller)]);
    check(&o, &["label-with-cluster"], &[]);
    o.machine.metadata.owner_references = None;
    for made_by in ["set-name", "pool-name", "control-plane-name"] {
        let labels = [("cluster.x-k8s.io/cluster-name", "c"), (&format!("cluster.x-k8s.io/{made_by}"), "x")];
        o.machine.metadata.labels =
            Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        check(&o, &[], &[]);
    }
}

#[test]
fn a_host_that_vanished_is_missed_and_its_failure_domain_counts() {
    let mut o = settled();
    o.infrastructure = provider(
        "DevMachine",
        json!({"providerID": "in-memory://m", "failureDomain": "a"}),
        json!({"initialization": {"provisioned": true}}),
    );
    check(&o, &["copy-failure-domain"], &[]);
    o.machine.spec.failure_domain = Some("a".to_owned());
    check(&o, &[], &[]);
    o.infrastructure = External::NotFound { kind: "DevMachine".to_owned() };
    check(&o, &[], &["vanished-provider-object"]);
}

#[test]
fn a_node_that_vanished_is_missed() {
    let mut o = settled();
    o.node = NodeReading::NotFound;
    check(&o, &[], &["node-vanished"]);
    o.machine.status.as_mut().expect("a status").node_ref = None;
    check(&o, &[], &["waiting-for-node"]);
    std::sync::Arc::make_mut(&mut o.cluster).status = None;
    check(&o, &[], &["waiting-for-control-plane"]);
}

/// The settled worker, handed over for an update in place.
fn handed_over() -> Observed {
    use capi_types::names::annotation;
    let mut o = settled();
    o.updates_in_place = true;
    let marks = o.machine.metadata.annotations.get_or_insert_default();
    marks.insert(annotation::UPDATE_IN_PROGRESS.to_owned(), String::new());
    marks.insert(annotation::PENDING_HOOKS.to_owned(), "Other,UpdateMachine".to_owned());
    o.machine.status.get_or_insert_default().initialization =
        object(json!({"infrastructureProvisioned": true, "bootstrapDataSecretCreated": true}));
    for external in [&mut o.infrastructure, &mut o.bootstrap] {
        let External::Found(provided) = external else { panic!("it is there") };
        let mut content = provided.content().clone();
        content["metadata"]["annotations"][annotation::UPDATE_IN_PROGRESS] = json!("");
        *external = External::Found(Provided::new(content));
    }
    o
}

#[test]
fn an_extension_is_called_when_everything_is_marked() {
    use capi_types::names::annotation;
    use update::{Due, due};
    let check = |change: &dyn Fn(&mut Observed), expected: Due| {
        let mut o = handed_over();
        change(&mut o);
        assert_eq!(due(&o), expected);
    };
    let unmark = |o: &mut Observed, key: &str| {
        o.machine.metadata.annotations.get_or_insert_default().remove(key);
    };
    check(&|_| {}, Due::Call);
    check(&|o| o.updates_in_place = false, Due::Nothing);
    check(&|o| unmark(o, annotation::PENDING_HOOKS), Due::Prepared);
    check(&|o| unmark(o, annotation::UPDATE_IN_PROGRESS), Due::CleanUp);
    check(&|o| o.infrastructure = settled().infrastructure, Due::Prepared);
    check(&|o| o.bootstrap = settled().bootstrap, Due::Prepared);
    check(&|o| o.bootstrap = External::NotSet, Due::Call);
    check(
        &|o| o.infrastructure = External::NotFound { kind: "DevMachine".into() },
        Due::InfrastructureMissing,
    );
    check(&|o| o.machine.status.as_mut().expect("a status").node_ref = None, Due::Nothing);
    check(&|o| o.machine.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(now())), Due::Nothing);
}

#[test]
fn an_update_that_is_done_loses_its_marks_in_upstreams_order() {
    use crate::status::machine::Update;
    let mut o = handed_over();
    o.update = Some(Update::Done);
    let plan = plan(&o, now());
    let writes: Vec<String> =
        plan.steps.iter().flat_map(|s| &s.writes).map(|w| format!("{w} {}", patch_of(w))).collect();
    let key = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";
    assert_eq!(
        writes,
        [
            format!(r#"patch Machine ns/m {{"metadata":{{"annotations":{{"{key}":null}}}}}}"#),
            format!(r#"patch DevMachine ns/m {{"metadata":{{"annotations":{{"{key}":null}}}}}}"#),
            format!(r#"patch KubeadmConfig ns/m {{"metadata":{{"annotations":{{"{key}":null}}}}}}"#),
            r#"patch Machine ns/m {"metadata":{"annotations":{"runtime.cluster.x-k8s.io/pending-hooks":"Other"}}}"#
                .to_owned(),
        ]
    );
}

fn patch_of(write: &Write) -> String {
    match write {
        Write::Patch { body, .. } => body.to_string(),
        _ => String::new(),
    }
}

#[test]
fn an_update_that_runs_is_looked_at_when_its_extension_says() {
    use crate::status::machine::Update;
    let mut o = handed_over();
    o.update = Some(Update::Running("draining".to_owned()));
    o.update_again = Some(Duration::from_secs(7));
    let running = plan(&o, now());
    assert!(running.steps.is_empty());
    assert_eq!(running.blockers[0].to_string(), "an extension updates it in place: draining");
    assert_eq!(running.recheck, Some(Duration::from_secs(7)));
    o.update = Some(Update::Failed);
    o.update_error = Some("extension handler x answered Failure: no disk".to_owned());
    let failed = plan(&o, now());
    let said = "in-place update failed: extension handler x answered Failure: no disk";
    assert_eq!(failed.blockers[0].to_string(), said);
    assert_eq!(update::failure(&o).as_deref(), Some(said));
    assert!(matches!(&failed.steps[0].writes[0], Write::Event { warning: true, .. }), "people are told");
}

#[test]
fn an_extension_gets_the_machine_and_its_objects_as_they_should_be() {
    let o = handed_over();
    let request = serde_json::to_value(update::request(&o)).expect("JSON");
    assert_eq!(request["kind"], "UpdateMachineRequest");
    for (field, kind) in [
        ("machine", "Machine"),
        ("infrastructureMachine", "DevMachine"),
        ("bootstrapConfig", "KubeadmConfig"),
    ] {
        assert_eq!(request["desired"][field]["kind"], kind);
        assert!(request["desired"][field].get("status").is_none(), "{field}");
    }
}
