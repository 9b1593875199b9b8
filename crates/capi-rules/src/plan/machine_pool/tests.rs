//! A pool from its first object to its end, one line for each rule that speaks.

use serde_json::{Value, json};

use super::*;
use crate::plan::Step;
use crate::status::contract::External;
use crate::status::machine_pool::machine_up_to_date;
use capi_types::condition::find;
use capi_types::machine::Machine;
use capstan_base::time::{parse_rfc3339, to_k8s};

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

fn provided(kind: &str, name: &str, owner: Option<&str>, spec: Value, status: Value) -> Provided {
    let owner = owner.map(|uid| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": "p", "uid": uid,
               "controller": true, "blockOwnerDeletion": true})
    });
    let owners: Vec<Value> = owner.into_iter().collect();
    Provided::new(json!({
        "apiVersion": "x.cluster.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {"name": name, "namespace": "ns", "uid": name, "ownerReferences": owners,
            "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "spec": spec, "status": status,
    }))
}

fn node(name: &str, id: &str, taints: Value) -> Node {
    object(json!({"metadata": {"name": name, "uid": name, "resourceVersion": "5"},
        "spec": {"providerID": id, "taints": taints},
        "status": {"nodeInfo": {"kubeletVersion": "v1.34.1", "architecture": "", "bootID": "",
            "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "",
            "operatingSystem": "", "osImage": "", "systemUUID": ""},
            "conditions": [{"type": "Ready", "status": "True"}]}}))
}

/// A pool of two in a cluster that is reached, with nothing behind it yet.
fn fresh() -> Observed {
    let reference = |kind: &str| json!({"apiGroup": "x.cluster.x-k8s.io", "kind": kind, "name": "p"});
    let owner =
        json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "c"}]);
    Observed {
        pool: object(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "p", "ownerReferences": owner,
                "labels": {"cluster.x-k8s.io/cluster-name": "c"},
                "finalizers": ["machinepool.cluster.x-k8s.io"]},
            "spec": {"clusterName": "c", "replicas": 2, "template": {
                "metadata": {"labels": {"team": "a"}},
                "spec": {"clusterName": "c", "version": "v1.34.1",
                    "bootstrap": {"configRef": reference("KubeadmConfig")},
                    "infrastructureRef": reference("Group")}}}})),
        cluster: std::sync::Arc::new(object(
            json!({"metadata": {"name": "c", "namespace": "ns", "uid": "c"}, "spec": {}}),
        )),
        bootstrap: External::Found(provided("KubeadmConfig", "p", Some("p"), json!({}), json!({}))),
        infrastructure: External::Found(provided("Group", "p", Some("p"), json!({}), json!({}))),
        nodes: Some(Vec::new()),
        ..Observed::default()
    }
}

/// The same when all is up: two hosts `a` and `b`, their Machines and Nodes.
fn settled() -> Observed {
    let mut o = fresh();
    let data = json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "p"});
    o.bootstrap = External::Found(provided("KubeadmConfig", "p", Some("p"), json!({}), data));
    o.infrastructure = External::Found(provided(
        "Group",
        "p",
        Some("p"),
        json!({"providerIDList": ["id://a", "id://b"]}),
        json!({"ready": true, "replicas": 2, "infrastructureMachineKind": "Host"}),
    ));
    let host = |name: &str| {
        let id = format!("id://{name}");
        provided("Host", name, None, json!({"providerID": id}), json!({}))
    };
    o.hosts = vec![host("a"), host("b")];
    o.nodes = Some(vec![node("na", "id://a", json!([])), node("nb", "id://b", json!([]))]);
    o
}

/// Performs what the plan says of the pool and its Machines, as far as tests need it.
fn done(mut o: Observed) -> Observed {
    let planned = plan(&o, now());
    for write in planned.steps.iter().flat_map(|step| &step.writes) {
        match write {
            Write::Patch { object: of, body } if of.gvk.kind == "MachinePool" => {
                let mut pool = serde_json::to_value(&o.pool).expect("JSON");
                k8s_machinery::merge::apply(&mut pool, body);
                o.pool = object(pool);
            }
            Write::Create { content, .. } => o.machines.push(object(content.clone())),
            Write::Workload { call: WorkloadCall::PatchNode { node: name, body }, .. } => {
                let nodes = o.nodes.as_mut().expect("Nodes");
                let node =
                    nodes.iter_mut().find(|n| n.metadata.name.as_ref() == Some(name)).expect("the Node");
                let mut value = serde_json::to_value(&*node).expect("JSON");
                k8s_machinery::merge::apply(&mut value, body);
                *node = object(value);
            }
            _ => {}
        }
    }
    for machine in &mut o.machines {
        machine.status.get_or_insert_default().conditions = vec![machine_up_to_date(machine)];
        // As the server records it.
        machine.metadata.managed_fields = None;
    }
    o.pool.status = Some(status(&o, now()));
    o
}

fn check(o: &Observed, steps: &[&str], blockers: &[&str]) -> Vec<Step> {
    let plan = plan(o, now());
    let did: Vec<_> = plan.steps.iter().map(|s| s.reason.rule).collect();
    let held: Vec<_> = plan.blockers.iter().map(|b| b.reason.rule).collect();
    assert_eq!((did.as_slice(), held.as_slice()), (steps, blockers));
    plan.steps
}

#[test]
fn a_new_pool_belongs_adopts_and_waits() {
    let mut o = fresh();
    check(&o, &[], &["waiting-for-data-secret", "waiting-for-infrastructure", "waiting-for-provider-ids"]);
    o.pool.metadata.labels = None;
    o.pool.metadata.owner_references = None;
    o.bootstrap = External::Found(provided("KubeadmConfig", "p", None, json!({}), json!({})));
    o.infrastructure = External::Found(provided("Group", "p", Some("other"), json!({}), json!({})));
    let steps = check(
        &o,
        &["belongs-to-cluster", "adopt-provider-object"],
        &[
            "waiting-for-data-secret",
            "controlled-by-another",
            "waiting-for-infrastructure",
            "waiting-for-provider-ids",
        ],
    );
    let Write::Patch { body, .. } = &steps[1].writes[0] else { unreachable!("a patch") };
    assert_eq!(body["metadata"]["ownerReferences"][0]["controller"], true);
    o.infrastructure = External::NotFound { kind: "Group".to_owned() };
    let missing = plan(&o, now());
    assert!(missing.blockers.iter().any(|b| b.reason.rule == "missing-provider-object"));
    assert!(missing.recheck.is_some());
}

#[test]
fn a_machine_shows_each_host_and_nodes_are_claimed() {
    let o = settled();
    let all = [
        "copy-data-secret-name",
        "machine-of-host",
        "machine-of-host",
        "copy-provider-ids",
        "nodes-found",
        "node-metadata",
        "node-metadata",
    ];
    let steps = check(&o, &all, &[]);
    let Write::Create { content, manager, .. } = &steps[1].writes[0] else { unreachable!("a Machine") };
    assert_eq!(*manager, Some("machinepool-controller"));
    assert_eq!(content["metadata"]["name"], "a");
    assert_eq!(
        content["metadata"]["labels"],
        json!({"team": "a", "cluster.x-k8s.io/pool-name": "p", "cluster.x-k8s.io/cluster-name": "c"})
    );
    assert_eq!(content["spec"]["bootstrap"], json!({"dataSecretName": ""}));
    assert_eq!(content["spec"]["version"], "v1.34.1");
    assert_eq!(content["spec"]["infrastructureRef"]["kind"], "Host");
    assert_eq!(content["metadata"]["ownerReferences"][0]["controller"], true);
    let Write::Event { message, .. } = &steps[4].writes[0] else { unreachable!("an event") };
    let first = "[{Kind:Node Namespace: Name:na UID:na APIVersion:v1 ResourceVersion: FieldPath:} {Kind:Node";
    assert!(message.starts_with(first), "{message}");
    let after = done(o);
    check(&after, &[], &[]);
    assert_eq!(after.pool.spec.provider_id_list, ["id://a", "id://b"]);
    let made = after.pool.status.expect("a status");
    assert_eq!((made.phase.as_deref(), made.node_refs.len()), (Some("Running"), 2));
}

#[test]
fn a_node_loses_only_the_taint_of_the_uninitialized() {
    let mut o = settled();
    let taints =
        json!([{"key": UNINITIALIZED, "effect": "NoSchedule"}, {"key": "mine", "effect": "NoExecute"}]);
    o.nodes = Some(vec![node("na", "id://a", taints), node("nb", "id://b", json!([]))]);
    let steps = plan(&o, now()).steps;
    let step = steps.iter().find(|step| step.reason.rule == "node-metadata").expect("a step");
    let Write::Workload { call: WorkloadCall::PatchNode { node, body }, .. } = &step.writes[0] else {
        unreachable!("a Node")
    };
    assert_eq!(node, "na");
    assert_eq!(body["spec"]["taints"], json!([{"key": "mine", "effect": "NoExecute"}]));
    assert_eq!(body["metadata"]["resourceVersion"], "5");
    assert_eq!(body["metadata"]["annotations"]["cluster.x-k8s.io/owner-kind"], "MachinePool");
}

#[test]
fn a_node_whose_id_is_gone_is_deleted() {
    let mut o = done(settled());
    let External::Found(infrastructure) = &o.infrastructure else { unreachable!("it is there") };
    let mut content = infrastructure.content().clone();
    content["spec"]["providerIDList"] = json!(["id://a"]);
    content["status"]["replicas"] = json!(1);
    o.infrastructure = External::Found(Provided::new(content));
    o.pool.spec.replicas = Some(1);
    o.hosts.truncate(1);
    let steps = check(&o, &["copy-provider-ids", "node-retired", "nodes-found"], &[]);
    let Write::Workload { call, .. } = &steps[1].writes[0] else { unreachable!("a Node") };
    assert_eq!(*call, WorkloadCall::DeleteNode { node: "nb".to_owned(), must: true });
}

#[test]
fn without_a_connection_nothing_of_the_machines_is_known() {
    let mut o = done(settled());
    o.nodes = None;
    check(&o, &[], &["not-connected"]);
    o = settled();
    o.nodes = Some(Vec::new());
    let waiting = plan(&o, now());
    assert_eq!(waiting.recheck, Some(NODES_RETRY), "{waiting:?}");
    assert!(waiting.blockers.iter().any(|b| b.reason.rule == "waiting-for-nodes"));
}

#[test]
fn an_infrastructure_that_names_no_kind_has_no_machines() {
    let mut o = settled();
    let External::Found(infrastructure) = &o.infrastructure else { unreachable!("it is there") };
    let mut content = infrastructure.content().clone();
    content["status"].as_object_mut().expect("a status").remove("infrastructureMachineKind");
    o.infrastructure = External::Found(Provided::new(content));
    assert!(plan(&o, now()).steps.iter().all(|step| step.reason.rule != "machine-of-host"));
}

#[test]
fn machines_in_deletion_are_not_up_to_date() {
    let mut o = done(settled());
    o.machines[0].metadata.deletion_timestamp = Some(to_k8s(now()));
    let steps = check(&o, &["mark-up-to-date"], &[]);
    let Write::MachineCondition { condition: Some(condition), .. } = &steps[0].writes[0] else {
        unreachable!("a condition")
    };
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "NotUpToDate"));
    let machine: &Machine = &o.machines[1];
    assert!(find(&machine.status.as_ref().expect("a status").conditions, "UpToDate").is_some());
}

#[test]
fn the_way_out_is_provider_objects_then_nodes_then_the_pool() {
    let mut o = done(settled());
    o.pool.metadata.deletion_timestamp = Some(to_k8s(now()));
    let gone = || External::NotFound { kind: "Group".to_owned() };
    let waits = ["waiting-for-deletion", "waiting-for-deletion"];
    check(&o, &["delete-provider-object", "delete-provider-object"], &waits);
    o.bootstrap = gone();
    check(&o, &["delete-provider-object"], &["waiting-for-deletion"]);
    o.infrastructure = gone();
    // Only Nodes whose provider IDs left the list go, as upstream.
    let planned = plan(&o, now());
    assert_eq!((planned.steps.len(), planned.is_last), (1, true));
    o.pool.spec.provider_id_list.truncate(1);
    check(&o, &["node-retired", "deletion-completed"], &[]);
    o.nodes = None;
    check(&o, &[], &["not-connected"]);
    o.pool.spec.template.spec.deletion = Some(object(json!({"nodeDeletionTimeoutSeconds": 10})));
    check(&o, &[], &["not-connected"]);
    o.pool.metadata.deletion_timestamp = Some(to_k8s(now() - TimeDelta::seconds(11)));
    check(&o, &["deletion-completed"], &[]);
}
