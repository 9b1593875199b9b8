//! Deletions that the server refuses: what is told, that the others go on, and that all ends well once the
//! refusal does.

use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned, find};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capstan_engine::client::Object;
use k8s_openapi::api::core::v1::Event;
use serde_json::json;

use super::simulation::{Sim, manifest, settled};

fn hold(sim: &Sim, ends: &[&str]) {
    *sim.undeletable.lock().expect("no panic while held") =
        ends.iter().map(|end| (*end).to_owned()).collect();
}

async fn deleting<K: Object + Conditioned>(sim: &Sim, name: &str) -> (String, String) {
    let object: K = sim.get(name).await.expect("it is still there");
    find(object.conditions(), "Deleting").map(|c| (c.reason.clone(), c.message.clone())).unwrap_or_default()
}

fn trouble() -> (String, String) {
    ("InternalError".to_owned(), "Please check controller logs for errors".to_owned())
}

async fn is_leaving<K: Object>(sim: &Sim, name: &str) -> bool {
    sim.get::<K>(name).await.is_none_or(|object| object.meta().deletion_timestamp.is_some())
}

/// How the last run of a controller ended.
fn ending(sim: &Sim, controller: &str) -> String {
    let entries = sim.handle.trace().entries();
    entries
        .iter()
        .rev()
        .find(|e| e.controller == controller)
        .map(|e| format!("{:?}", e.ending))
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_child_of_a_cluster_that_cannot_be_deleted_does_not_hold_the_others() {
    let sim = Sim::start(31).await;
    let mut objects = manifest(1, 1);
    let mut others: Vec<_> = objects.iter().filter(|o| o["kind"] == "MachineDeployment").cloned().collect();
    for (other, name) in others.iter_mut().zip(["harbor-md-1"]) {
        other["metadata"]["name"] = json!(name);
        other["spec"]["replicas"] = json!(0);
        other["spec"]["selector"]["matchLabels"]["cluster.x-k8s.io/deployment-name"] = json!(name);
        other["spec"]["template"]["metadata"]["labels"]["cluster.x-k8s.io/deployment-name"] = json!(name);
    }
    objects.extend(others);
    sim.create(objects).await;
    sim.until("1 + 1 machines up", 180, async |s| settled(s, 1, 1, "v1.34.1").await).await;

    hold(&sim, &["/harbor-md-0", "/harbor-md-1"]);
    sim.delete::<Cluster>("harbor").await;
    sim.until("trouble", 30, async |s| deleting::<Cluster>(s, "harbor").await == trouble()).await;
    let told = ending(&sim, "cluster");
    assert!(told.contains("harbor-md-0") && told.contains("harbor-md-1"), "{told}");

    hold(&sim, &["/harbor-md-0"]);
    let other_leaves = async |s: &Sim| is_leaving::<MachineDeployment>(s, "harbor-md-1").await;
    sim.until("the other MachineDeployment leaves", 120, other_leaves).await;
    assert!(!is_leaving::<MachineDeployment>(&sim, "harbor-md-0").await);
    assert_eq!(deleting::<Cluster>(&sim, "harbor").await, trouble());

    hold(&sim, &[]);
    sim.until("the Cluster gone", 900, async |s| s.get::<Cluster>("harbor").await.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_a_control_plane_that_cannot_be_deleted_does_not_hold_the_others() {
    let sim = Sim::start(32).await;
    sim.create(manifest(3, 0)).await;
    sim.until("3 machines up", 300, async |s| settled(s, 3, 0, "v1.34.1").await).await;
    let mut machines: Vec<String> =
        sim.list::<Machine>().await.into_iter().filter_map(|m| m.metadata.name).collect();
    machines.sort();
    let held = machines.remove(1);

    hold(&sim, &[&format!("/machines/{held}")]);
    sim.delete::<KubeadmControlPlane>("harbor-cp").await;
    let in_trouble = async |s: &Sim| deleting::<KubeadmControlPlane>(s, "harbor-cp").await == trouble();
    sim.until("trouble", 30, in_trouble).await;
    for machine in &machines {
        assert!(is_leaving::<Machine>(&sim, machine).await, "{machine}");
    }
    let stays: Machine = sim.get(&held).await.expect("it could not be deleted");
    assert!(stays.metadata.deletion_timestamp.is_none());
    let told: Vec<Event> = sim.list().await;
    assert!(told.iter().any(|e| e.reason.as_deref() == Some("FailedDelete")), "nobody was told");

    hold(&sim, &[]);
    sim.until("the control plane gone", 900, async |s| {
        s.get::<KubeadmControlPlane>("harbor-cp").await.is_none()
    })
    .await;
}
