//! Who owns which field of Machines and the objects behind them: what leaves a template leaves existing objects,
//! what people and other controllers wrote stays, also when an earlier version made the fleet.

use capi_types::bootstrap::KubeadmConfig;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::dev::DevMachine;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capstan_engine::client::write::{Mode, Part, Precondition};
use capstan_engine::client::{Object, read};
use serde_json::{Map, Value, json};

use super::simulation::{Sim, manifest, settled};

const TEMPLATE: &str = "cluster.x-k8s.io/cloned-from-name";

/// Control plane and workers, whose templates have a label and an annotation.
async fn labelled_fleet(seed: u64) -> Sim {
    let sim = Sim::start(seed).await;
    sim.create(manifest(1, 2)).await;
    set_template(&sim, json!("a")).await;
    sim.until("1 + 2 machines up", 180, async |s| settled(s, 1, 2, "v1.34.1").await).await;
    sim.until("the label everywhere", 60, async |s| has_everywhere(s, "team", true).await).await;
    sim
}

/// The label `team` and the annotation `note` of both templates.
async fn set_template(sim: &Sim, value: Value) {
    let metadata = json!({"labels": {"team": value}, "annotations": {"note": value}});
    let body = json!({"spec": {"machineTemplate": {"metadata": metadata}}});
    sim.patch::<KubeadmControlPlane>("harbor-cp", body).await;
    let body = json!({"spec": {"template": {"metadata": metadata}}});
    sim.patch::<MachineDeployment>("harbor-md-0", body).await;
}

async fn values<K: Object>(sim: &Sim) -> Vec<Value> {
    read::list_values(&sim.connection.client, &Gvk::of::<K>(), "default", "").await.expect("a list")
}

/// Machines, DevMachines and KubeadmConfigs.
async fn all(sim: &Sim) -> Vec<Value> {
    let mut all = values::<Machine>(sim).await;
    all.extend(values::<DevMachine>(sim).await);
    all.extend(values::<KubeadmConfig>(sim).await);
    all
}

/// The label and the annotation of the template are on every object, or on none.
async fn has_everywhere(sim: &Sim, label: &str, wanted: bool) -> bool {
    let all = all(sim).await;
    all.len() == 9
        && all.iter().all(|object| {
            let metadata = &object["metadata"];
            [&metadata["labels"][label], &metadata["annotations"]["note"]]
                .iter()
                .all(|v| v.is_null() != wanted)
        })
}

fn reference<K: Object>(value: &Value) -> ObjectRef {
    let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
    ObjectRef { gvk: Gvk::of::<K>(), key: ObjectKey::new("default", text("name")), uid: text("uid") }
}

async fn patch_all<K: Object>(sim: &Sim, body: impl Fn(&Value) -> Value) {
    for object in values::<K>(sim).await {
        let (target, body) = (reference::<K>(&object), body(&object));
        let writer = sim.writer.managed_by("kubectl-label");
        writer
            .patch_value(&target, Part::Main, &body, &Precondition::default(), Mode::Real)
            .await
            .expect("kept");
    }
}

/// What people, and a provider, wrote on everything.
async fn label_by_hand(sim: &Sim) {
    let body = |_: &Value| json!({"metadata": {"labels": {"mine": "x"}, "annotations": {"theirs": "y"}}});
    patch_all::<Machine>(sim, body).await;
    patch_all::<DevMachine>(sim, body).await;
    patch_all::<KubeadmConfig>(sim, body).await;
}

async fn assert_the_rest_stayed(sim: &Sim) {
    for object in all(sim).await {
        let (metadata, kind) = (&object["metadata"], &object["kind"]);
        assert_eq!(metadata["labels"]["mine"], "x", "{kind} {metadata}");
        assert_eq!(metadata["annotations"]["theirs"], "y", "{kind} {metadata}");
        assert_eq!(metadata["labels"]["cluster.x-k8s.io/cluster-name"], "harbor", "{kind} {metadata}");
        assert!(metadata["ownerReferences"][0]["uid"].is_string(), "{kind} {metadata}");
        let is_cloned_from_template = metadata["annotations"][TEMPLATE].is_string();
        assert_eq!(
            is_cloned_from_template,
            kind == "DevMachine"
                || metadata["labels"]["cluster.x-k8s.io/set-name"].is_string() && kind != "Machine"
        );
        if kind == "Machine" {
            assert!(object["spec"]["providerID"].is_string(), "the provider's field stays");
            assert!(object["spec"]["bootstrap"]["dataSecretName"].is_string());
            assert_eq!(metadata["finalizers"], json!(["machine.cluster.x-k8s.io"]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_leaves_a_template_leaves_existing_objects() {
    let sim = labelled_fleet(61).await;
    label_by_hand(&sim).await;
    set_template(&sim, json!("b")).await;
    let changed =
        async |s: &Sim| all(s).await.iter().all(|object| object["metadata"]["labels"]["team"] == "b");
    sim.until("the new value everywhere", 60, changed).await;
    set_template(&sim, Value::Null).await;
    sim.until("the label nowhere", 60, async |s| has_everywhere(s, "team", false).await).await;
    for set in sim.list::<MachineSet>().await {
        assert!(!set.metadata.labels.is_some_and(|labels| labels.contains_key("team")));
    }
    assert_the_rest_stayed(&sim).await;
    assert_eq!(sim.list::<Machine>().await.len(), 3, "nothing is replaced for it");
}

/// As an engine left it that wrote everything by creations and merge patches.
fn as_written_by_patches(object: &Value) -> Value {
    let paths = |value: &Value| {
        let all = value.as_object().into_iter().flatten();
        Value::Object(all.map(|(key, _)| (format!("f:{key}"), json!({}))).collect::<Map<_, _>>())
    };
    let metadata = &object["metadata"];
    let set = json!({
        "f:metadata": {"f:labels": paths(&metadata["labels"]), "f:annotations": paths(&metadata["annotations"])},
        "f:spec": paths(&object["spec"]),
    });
    let entries = metadata["managedFields"].as_array().cloned().unwrap_or_default();
    let mut kept: Vec<Value> = entries
        .into_iter()
        .filter(|e| !e["manager"].as_str().is_some_and(|m| m.starts_with("capi-")))
        .filter(|e| !(e["manager"] == "capstan" && e["subresource"].is_null()))
        .collect();
    kept.push(json!({"manager": "capstan", "operation": "Update", "apiVersion": object["apiVersion"],
                     "fieldsType": "FieldsV1", "fieldsV1": set}));
    json!({"metadata": {"managedFields": kept}})
}

async fn managers(sim: &Sim) -> Vec<String> {
    let entries = all(sim)
        .await
        .into_iter()
        .flat_map(|o| o["metadata"]["managedFields"].as_array().cloned().unwrap_or_default());
    entries
        .filter_map(|e| e["manager"].as_str().map(str::to_owned))
        .filter(|m| m.starts_with("capi-"))
        .collect()
}

async fn a_new_engine_takes_over(seed: u64, written: impl Fn(&Value) -> Value + Copy) {
    let mut sim = labelled_fleet(seed).await;
    sim.kill_after(0);
    tokio::time::sleep(std::time::Duration::from_secs(30)).await;
    patch_all::<MachineSet>(&sim, written).await;
    patch_all::<Machine>(&sim, written).await;
    patch_all::<DevMachine>(&sim, written).await;
    patch_all::<KubeadmConfig>(&sim, written).await;
    label_by_hand(&sim).await;
    assert_eq!(managers(&sim).await, Vec::<String>::new());
    sim.restart(seed + 1);
    sim.until("every object taken over", 60, async |s| managers(s).await.len() >= 9).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let writes = sim.handle.writes();
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert_eq!(sim.handle.writes(), writes, "it happens once");
    set_template(&sim, Value::Null).await;
    sim.until("the label nowhere", 60, async |s| has_everywhere(s, "team", false).await).await;
    assert_the_rest_stayed(&sim).await;
    assert_eq!(sim.list::<Machine>().await.len(), 3, "nothing is replaced for it");
}

#[tokio::test(start_paused = true)]
async fn a_fleet_written_by_patches_is_taken_over_once() {
    a_new_engine_takes_over(63, as_written_by_patches).await;
}

#[tokio::test(start_paused = true)]
async fn a_fleet_without_recorded_owners_is_taken_over_once() {
    a_new_engine_takes_over(65, |_| json!({"metadata": {"managedFields": [{}]}})).await;
}

#[tokio::test(start_paused = true)]
async fn a_label_that_somebody_changes_comes_back_and_one_that_somebody_applies_too_stays() {
    let sim = labelled_fleet(67).await;
    let machine = values::<Machine>(&sim).await.remove(0);
    let target = reference::<Machine>(&machine);
    let body = json!({"metadata": {"labels": {"team": "stolen"}}});
    let kubectl = sim.writer.managed_by("kubectl-label");
    kubectl
        .patch_value(&target, Part::Main, &body, &Precondition::default(), Mode::Real)
        .await
        .expect("patched");
    sim.until("the template's value again", 30, async |s| has_value(s, &target, json!("a")).await).await;

    let intent = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": target.key.name, "namespace": "default", "labels": {"team": "a"}}});
    kubectl
        .apply_value(&target, &intent, "kubectl", &Precondition::default(), Mode::Real)
        .await
        .expect("applied");
    set_template(&sim, Value::Null).await;
    let left = async |s: &Sim| {
        all(s).await.iter().filter(|object| object["metadata"]["labels"]["team"].is_string()).count() == 1
    };
    sim.until("the label where somebody else applies it", 60, left).await;
    assert!(has_value(&sim, &target, json!("a")).await);
}

async fn has_value(sim: &Sim, target: &ObjectRef, wanted: Value) -> bool {
    let live = read::get_value(&sim.connection.client, target).await.expect("an answer").expect("there");
    live["metadata"]["labels"]["team"] == wanted
}
