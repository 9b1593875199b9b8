//! Tables for the Machine's plan: which rules speak, in which order.

use serde_json::{Value, json};

use super::*;
use crate::status::contract::{External, Provided};
use crate::status::machine::{NodeReading, PodsReading, Probe};
use crate::time::parse_rfc3339;

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
        node: NodeReading::Found(Box::new(object(json!({"metadata": {"name": "m", "annotations": {
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
    let (did, held) = rules(&plan(o, now()));
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
    o.node = NodeReading::Found(Box::new(object(json!({
        "metadata": {"name": "m", "labels": {"old.node.cluster.x-k8s.io/x": "1", "other": "1"},
            "annotations": {"cluster.x-k8s.io/labels-from-machine": "old.node.cluster.x-k8s.io/x"}},
        "spec": {"taints": [{"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"},
                            {"key": "mine", "effect": "NoSchedule"}]}}))));
    let plan = plan(&o, now());
    let Write::Workload { call: crate::plan::WorkloadCall::PatchNode { body, .. }, .. } =
        &plan.steps[0].write
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

#[test]
fn deletion_takes_one_stage_at_a_time() {
    let mut o = settled();
    o.machine.metadata.deletion_timestamp = Some(crate::time::to_k8s(now()));
    o.pods = PodsReading::Known(vec![object(json!({"metadata": {"namespace": "d", "name": "p"}}))]);
    check(&o, &["cordon", "drain"], &["draining"]);
    o.pods = PodsReading::Known(Vec::new());
    check(&o, &["report-drain", "delete-infrastructure"], &["waiting-for-deletion"]);
    let gone = |kind: &str| External::NotFound { kind: kind.to_owned() };
    o.infrastructure = gone("DevMachine");
    check(&o, &["delete-bootstrap"], &["waiting-for-deletion"]);
    o.bootstrap = gone("KubeadmConfig");
    check(&o, &["delete-node", "deletion-completed"], &[]);
    o.node = NodeReading::NotFound;
    check(&o, &["deletion-completed"], &[]);
}

#[test]
fn with_the_cluster_the_node_is_left_alone() {
    let mut o = settled();
    o.machine.metadata.deletion_timestamp = Some(crate::time::to_k8s(now()));
    o.cluster.metadata.deletion_timestamp = Some(crate::time::to_k8s(now()));
    check(&o, &["delete-infrastructure"], &["waiting-for-deletion"]);
    o.infrastructure = External::NotFound { kind: "DevMachine".to_owned() };
    o.bootstrap = External::NotFound { kind: "KubeadmConfig".to_owned() };
    check(&o, &["deletion-completed"], &[]);
}
