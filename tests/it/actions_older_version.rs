//! Actions on servers that have Cluster API only as v1beta1: each is stored in the field of that version, or refused; none is
//! "done" without a difference. The definitions have the fields of upstream's v1beta1 that actions come near to, and drop
//! every other one.

use std::sync::Arc;

use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_pool::MachinePool;
use capi_types::machine_set::MachineSet;
use capstan_dashboard::actions::in_place::InPlaceChange;
use capstan_dashboard::actions::{Action, Request};
use capstan_dashboard::operations::Severity;
use capstan_engine::client::read::get_value;
use chrono::TimeDelta;
use k8s_machinery::admission::AdmitAll;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::actions::{Place, Temper};

const CORE: &str = "cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const PLANE_UID: &str = "7f4f7d0e-53c7-4c8c-9d5e-1f0d4c2a9b11";

pub fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn of(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn definition(group: &str, kind: &str, spec: Value) -> CustomResourceDefinition {
    only_older(group, kind, &of(spec))
}

/// A kind that is served as v1beta1 alone; `spec` is a schema.
pub fn only_older(group: &str, kind: &str, spec: &Value) -> CustomResourceDefinition {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = of(json!({"spec": spec, "status": anything()}));
    let definition = json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}]
        }
    });
    serde_json::from_value(definition).expect("a definition")
}

/// Source: cluster-api `api/core/v1beta1`, `api/controlplane/kubeadm/v1beta1`, v1.14.2.
fn definitions() -> Vec<CustomResourceDefinition> {
    let (text, number, flag) =
        (json!({"type": "string"}), json!({"type": "integer"}), json!({"type": "boolean"}));
    let moment = json!({"type": "string", "format": "date-time"});
    let machine = json!({"clusterName": text, "version": text, "bootstrap": anything(),
        "infrastructureRef": anything(), "nodeDrainTimeout": text});
    let template = of(json!({"metadata": anything(), "spec": of(machine.clone())}));
    let pool = json!({"clusterName": text, "replicas": number, "selector": anything(), "template": template});
    let mut deployment = pool.clone();
    deployment["paused"] = flag.clone();
    deployment["rolloutAfter"] = moment.clone();
    deployment["strategy"] = anything();
    vec![
        definition(
            CORE,
            "Cluster",
            json!({"paused": flag, "controlPlaneRef": anything(),
            "topology": of(json!({"class": text, "version": text}))}),
        ),
        definition(CORE, "MachineDeployment", deployment),
        definition(CORE, "MachineSet", pool.clone()),
        definition(CORE, "MachinePool", pool),
        definition(CORE, "Machine", machine),
        definition(CORE, "MachineHealthCheck", json!({"selector": anything()})),
        definition(
            CONTROL_PLANE,
            "KubeadmControlPlane",
            json!({"replicas": number, "version": text,
            "rolloutAfter": moment, "rolloutStrategy": anything(), "kubeadmConfigSpec": anything(),
            "machineTemplate": of(json!({"infrastructureRef": anything()}))}),
        ),
    ]
}

fn object(group: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{group}/v1beta1"), "kind": kind, "spec": spec,
        "metadata": {"name": name, "namespace": "default", "labels": {"cluster.x-k8s.io/cluster-name": "c"}}})
}

/// A control plane Machine with conditions as releases before 1.9 write them.
fn member(name: &str, node_healthy: &str) -> Value {
    let mut machine = object(
        CORE,
        "Machine",
        name,
        json!({"clusterName": "c", "version": "v1.31.0", "bootstrap": {},
        "infrastructureRef": {"apiVersion": "i/v1beta1", "kind": "I", "name": name}}),
    );
    let reason = if node_healthy == "Unknown" { "NodeConditionsFailed" } else { "" };
    machine["metadata"]["labels"]["cluster.x-k8s.io/control-plane"] = json!("");
    machine["metadata"]["finalizers"] = json!(["machine.cluster.x-k8s.io"]);
    machine["metadata"]["ownerReferences"] = json!([{"apiVersion": format!("{CONTROL_PLANE}/v1beta1"),
        "kind": "KubeadmControlPlane", "name": "cp", "uid": PLANE_UID, "controller": true}]);
    machine["status"] = json!({"nodeRef": {"kind": "Node", "name": name}, "conditions": [
        {"type": "NodeHealthy", "status": node_healthy, "reason": reason},
        {"type": "EtcdMemberHealthy", "status": "True"}]});
    machine
}

async fn place(definitions: Vec<CustomResourceDefinition>, nodes: [&str; 3]) -> Place {
    let template = json!({"spec": {"clusterName": "c", "version": "v1.31.0", "bootstrap": {},
        "infrastructureRef": {"apiVersion": "i/v1beta1", "kind": "IMachineTemplate", "name": "t"}}});
    let pool = json!({"clusterName": "c", "replicas": 3, "template": template});
    let mut place = Place::serving(definitions, Arc::new(AdmitAll)).await;
    let plane = json!({"replicas": 3, "version": "v1.31.0", "kubeadmConfigSpec": {},
        "machineTemplate": {"infrastructureRef": {"apiVersion": "i/v1beta1", "kind": "IMachineTemplate", "name": "t"}}});
    let mut plane = object(CONTROL_PLANE, "KubeadmControlPlane", "cp", plane);
    plane["metadata"]["uid"] = json!(PLANE_UID);
    for object in [
        object(CORE, "Cluster", "c", json!({"topology": {"class": "k", "version": "v1.31.0"}})),
        plane,
        object(CORE, "MachineDeployment", "md", pool.clone()),
        object(CORE, "MachineSet", "ms", pool.clone()),
        object(CORE, "MachinePool", "mp", pool),
        member("m0", nodes[0]),
        member("m1", nodes[1]),
        member("m2", nodes[2]),
    ] {
        place = place.with(object).await;
    }
    place
}

/// As the command line names it: in the newest version.
fn target<K: kube::Resource<DynamicType = ()>>(name: &str) -> ObjectRef {
    ObjectRef { gvk: Gvk::of::<K>(), key: ObjectKey::new("default", name), uid: String::new() }
}

/// As the dashboard names it: in the version that is watched.
fn watched(target: &ObjectRef) -> ObjectRef {
    ObjectRef { gvk: Gvk { version: "v1beta1".to_owned(), ..target.gvk.clone() }, ..target.clone() }
}

async fn read(place: &Place, target: &ObjectRef) -> Value {
    let found = get_value(&place.connection(false).client, &watched(target)).await;
    found.expect("read").expect("there")
}

async fn perform(place: &Place, target: &ObjectRef, action: Action) -> Result<String, String> {
    let executor = place.executor(false);
    let preview = executor.preview(&Request::new(target.clone(), action)).await;
    let preview = preview.map_err(|error| error.to_string())?;
    let report = executor.perform(&preview).await;
    report.map(|report| report.text).map_err(|error| error.to_string())
}

/// What is stored under a pointer; the annotations have dots and slashes in their names.
fn stored(object: &Value, pointer: &str) -> Value {
    match pointer.strip_prefix('@') {
        Some(annotation) => object["metadata"]["annotations"][annotation].clone(),
        None => object.pointer(pointer).cloned().unwrap_or_default(),
    }
}

const PAUSED: &str = "@cluster.x-k8s.io/paused";

/// The restart was "done", and nothing was stored; from the command line every action failed.
#[tokio::test]
async fn every_action_is_stored_where_the_served_version_has_it() {
    let version = || Action::SetVersion { version: "v1.31.4".to_owned() };
    let at = chrono::DateTime::parse_from_rfc3339("2099-01-01T00:00:00Z").expect("a moment").to_utc();
    let (cluster, plane, deployment) =
        (target::<Cluster>("c"), target::<KubeadmControlPlane>("cp"), target::<MachineDeployment>("md"));
    let (set, pool, machine) =
        (target::<MachineSet>("ms"), target::<MachinePool>("mp"), target::<Machine>("m0"));
    let mut rows: Vec<(&ObjectRef, Action, &str, Value)> = vec![
        (&cluster, version(), "/spec/topology/version", json!("v1.31.4")),
        (&plane, version(), "/spec/version", json!("v1.31.4")),
        (&deployment, version(), "/spec/template/spec/version", json!("v1.31.4")),
        (&pool, version(), "/spec/template/spec/version", json!("v1.31.4")),
        (&machine, Action::Remediate, "@cluster.x-k8s.io/remediate-machine", json!("")),
    ];
    for (object, field) in [(&cluster, "/spec/paused"), (&deployment, "/spec/paused")] {
        rows.push((object, Action::Pause, field, json!(true)));
        rows.push((object, Action::Resume, field, json!(false)));
    }
    for object in [&plane, &set, &pool, &machine] {
        rows.push((object, Action::Pause, PAUSED, json!("true")));
        rows.push((object, Action::Resume, PAUSED, Value::Null));
    }
    for object in [&plane, &deployment, &set, &pool] {
        rows.push((object, Action::Scale { replicas: 5 }, "/spec/replicas", json!(5)));
    }
    for object in [&plane, &deployment] {
        rows.push((object, Action::RolloutAfter { at }, "/spec/rolloutAfter", json!("2099-01-01T00:00:00Z")));
        rows.push((object, Action::ClearSchedule, "/spec/rolloutAfter", Value::Null));
    }
    let place = place(definitions(), ["True", "True", "True"]).await;
    for (at, (object, action, field, value)) in rows.into_iter().enumerate() {
        let named = if at % 2 == 0 { object.clone() } else { watched(object) };
        let before = read(&place, object).await;
        let done = perform(&place, &named, action.clone())
            .await
            .unwrap_or_else(|why| panic!("{action} {object}: {why}"));
        assert!(done.ends_with(&action.done()), "{done}");
        let after = read(&place, object).await;
        assert_eq!(stored(&after, field), value, "{action} of {object}");
        assert_ne!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
        let again = perform(&place, &named, action.clone()).await.expect_err("nothing to change");
        assert!(again.starts_with("nothing to change: "), "{action}: {again}");
        if matches!(action, Action::SetVersion { .. }) {
            continue;
        }
        perform(&place, &named, Action::Undo)
            .await
            .unwrap_or_else(|why| panic!("undo {action} of {object}: {why}"));
        let back = read(&place, object).await;
        assert_eq!(stored(&back, field), stored(&before, field), "undo {action} of {object}");
        // What follows builds on it.
        perform(&place, &named, Action::Undo).await.expect("the undo is undone");
    }
    for object in [&plane, &deployment] {
        perform(&place, object, Action::Restart).await.expect("restarted");
        let after = read(&place, object).await;
        let after = stored(&after, "/spec/rolloutAfter");
        let moment =
            chrono::DateTime::parse_from_rfc3339(after.as_str().expect("a moment")).expect("a moment");
        assert!((capstan_base::time::Clock::system().now() - moment.to_utc()).abs() < TimeDelta::minutes(1));
    }
    perform(&place, &target::<Machine>("m1"), Action::Delete).await.expect("deleted");
    assert!(read(&place, &target::<Machine>("m1")).await["metadata"]["deletionTimestamp"].is_string());
    let lines = place.journal();
    assert!(lines.iter().all(|line| line["outcome"] != "failed"), "{lines:?}");
    assert!(lines.iter().all(|line| line["api_version"].as_str().is_some_and(|it| it.ends_with("/v1beta1"))));
}

#[tokio::test]
async fn what_the_served_version_cannot_express_is_refused() {
    let place = place(definitions(), ["True", "True", "True"]).await;
    let change = InPlaceChange::parse("v1.31.4 allow-replace").expect("a change");
    let refused =
        perform(&place, &target::<MachineDeployment>("md"), Action::UpdateInPlace(Box::new(change)))
            .await
            .expect_err("refused");
    assert!(refused.contains("needs Cluster API v1.12, and the server offers only v1beta1"), "{refused}");
    let missing =
        perform(&place, &target::<MachineDeployment>("other"), Action::Pause).await.expect_err("refused");
    assert!(missing.contains("there is no MachineDeployment default/other: check the name"), "{missing}");
    let mut definitions = definitions();
    definitions.retain(|definition| definition.spec.names.kind != "MachinePool");
    let without = Place::serving(definitions, Arc::new(AdmitAll)).await;
    let refused = perform(&without, &target::<MachinePool>("mp"), Action::Pause).await.expect_err("refused");
    assert!(refused.contains("the server has no kind MachinePool of cluster.x-k8s.io"), "{refused}");
    assert_eq!(place.journal(), Vec::<Value>::new());
}

/// A release without the field: a server that is asked to be strict says so, and what an older one drops is looked for.
#[tokio::test]
async fn a_field_that_the_server_does_not_have_is_never_done() {
    let mut definitions = definitions();
    definitions.retain(|definition| definition.spec.names.kind != "MachineDeployment");
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    let fields = json!({"clusterName": text, "replicas": number, "template": anything()});
    definitions.push(definition(CORE, "MachineDeployment", fields));
    let mut place = place(definitions, ["True", "True", "True"]).await;
    let deployment = target::<MachineDeployment>("md");
    let strict = perform(&place, &deployment, Action::Restart).await.expect_err("refused");
    let unknown = "cannot rollout restart MachineDeployment default/md: v1beta1 has not all that would be written there: \
                   unknown field \"spec.rolloutAfter\"";
    assert!(strict.starts_with(unknown), "{strict}");
    place.temper = Temper::NotStrict;
    for (action, field) in [(Action::Restart, "spec.rolloutAfter"), (Action::Pause, "spec.paused")] {
        let dropped = perform(&place, &deployment, action).await.expect_err("refused");
        assert!(
            dropped.contains(&format!("the server would not store {field}: v1beta1 has no such field")),
            "{dropped}"
        );
    }
    assert_eq!(place.journal(), Vec::<Value>::new());
}

/// Nothing around the Machine was looked at there, so that nothing was in the way.
#[tokio::test]
async fn the_last_api_server_is_named_there_too() {
    let place = place(definitions(), ["True", "Unknown", "Unknown"]).await;
    let preview = place.executor(false).preview(&Request::new(target::<Machine>("m0"), Action::Delete)).await;
    let preview = preview.expect("a preview");
    let blockers: Vec<_> = preview.findings.iter().filter(|f| f.severity == Severity::Blocker).collect();
    let named = "2 of 3 control plane Nodes are unreachable (m1, m2): m0 is the last API server that answers";
    assert!(blockers.iter().any(|f| f.rule == "last-api-server" && f.text == named), "{blockers:?}");
    assert!(blockers.iter().any(|f| f.rule == "quorum-lost"), "{blockers:?}");
}
