//! A Cluster without a control plane object: control plane Machines that a person made, the certificates and the
//! kubeconfig of their cluster, and a KubeadmControlPlane that takes all of it over later.

use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned as _, is_true};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::dev::DevMachine;
use capi_types::machine::Machine;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::simulation::{Sim, labels, manifest};

const AUTHORITIES: [&str; 4] = ["harbor-ca", "harbor-etcd", "harbor-proxy", "harbor-sa"];

fn is_control_plane_object(object: &Value) -> bool {
    object["kind"] == "KubeadmControlPlane"
}

/// The cluster of [`manifest`] with `count` Machines instead of its KubeadmControlPlane.
fn stand_alone(count: u32) -> Vec<Value> {
    let mut objects = manifest(1, 1);
    objects.retain(|object| !is_control_plane_object(object));
    objects[0]["spec"].as_object_mut().expect("a spec").remove("controlPlaneRef");
    let labels = json!({"cluster.x-k8s.io/cluster-name": "harbor", "cluster.x-k8s.io/control-plane": ""});
    for index in 0..count {
        let name = format!("cp-{index}");
        let object = |group: &str, kind: &str, spec: Value| {
            json!({"apiVersion": format!("{group}cluster.x-k8s.io/v1beta2"), "kind": kind,
                "metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec})
        };
        let reference = |group: &str, kind: &str| json!({"apiGroup": format!("{group}cluster.x-k8s.io"), "kind": kind, "name": name});
        objects.push(object("bootstrap.", "KubeadmConfig", json!({"verbosity": 1})));
        objects.push(object("infrastructure.", "DevMachine", json!({"backend": {"inMemory": {}}})));
        objects.push(object(
            "",
            "Machine",
            json!({"clusterName": "harbor", "version": "v1.34.1",
                "bootstrap": {"configRef": reference("bootstrap.", "KubeadmConfig")},
                "infrastructureRef": reference("infrastructure.", "DevMachine")}),
        ));
    }
    objects
}

async fn owner(sim: &Sim, secret: &str) -> OwnerReference {
    let secret: Secret = sim.get(secret).await.unwrap_or_else(|| panic!("Secret {secret}"));
    let mut owners = secret.metadata.owner_references.unwrap_or_default();
    assert_eq!(owners.len(), 1, "{owners:?}");
    owners.remove(0)
}

/// Names of the control plane Machines that boot with `kubeadm init`.
async fn initializers(sim: &Sim, count: u32) -> Vec<String> {
    let mut found = Vec::new();
    for index in 0..count {
        let name = format!("cp-{index}");
        let data: Secret = sim.get(&name).await.expect("bootstrap data");
        let text = data.data.and_then(|mut data| data.remove("value")).expect("user data").0;
        if String::from_utf8(text).expect("text").contains("kubeadm init --config") {
            found.push(name);
        }
    }
    found
}

async fn running(sim: &Sim, count: usize) -> bool {
    let machines: Vec<Machine> = sim.list().await;
    let running = |m: &&Machine| m.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running");
    machines.iter().filter(running).count() == count
}

#[tokio::test(start_paused = true)]
async fn machines_without_a_control_plane_object_come_up_are_adopted_and_go() {
    let mut sim = Sim::start(41).await;
    sim.machines_max = (4, 2);
    sim.create(stand_alone(3)).await;
    sim.until("3 + 1 machines up", 240, async |s| running(s, 4).await).await;

    let first = initializers(&sim, 3).await;
    assert_eq!(first.len(), 1, "the lock lets one Machine initialize: {first:?}");
    for secret in AUTHORITIES {
        let owner = owner(&sim, secret).await;
        assert_eq!((owner.kind.as_str(), owner.controller), ("KubeadmConfig", Some(true)), "{secret}");
        assert_eq!(owner.name, first[0], "{secret}");
    }
    let kubeconfig = owner(&sim, "harbor-kubeconfig").await;
    assert_eq!((kubeconfig.kind.as_str(), kubeconfig.controller), ("Cluster", None));
    let cluster: Cluster = sim.get("harbor").await.expect("the Cluster");
    assert!(is_true(cluster.conditions(), "ControlPlaneInitialized"), "{:?}", cluster.conditions());

    let mut adopting = manifest(3, 0);
    adopting.retain(is_control_plane_object);
    sim.create(adopting).await;
    let reference = json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "harbor-cp"});
    sim.patch::<Cluster>("harbor", json!({"spec": {"controlPlaneRef": reference}})).await;
    sim.until("the control plane adopts them", 60, async |s| {
        let control_plane: Option<KubeadmControlPlane> = s.get("harbor-cp").await;
        control_plane.and_then(|c| c.status).is_some_and(|status| status.replicas == Some(3))
    })
    .await;
    for secret in AUTHORITIES {
        assert_eq!(owner(&sim, secret).await.kind, "KubeadmControlPlane", "{secret}");
    }
    sim.delete::<Cluster>("harbor").await;
    sim.until("the Cluster gone", 240, async |s| s.list::<Cluster>().await.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_deletes_its_stand_alone_machines_after_the_workers() {
    let mut sim = Sim::start(42).await;
    sim.machines_max = (1, 1);
    sim.create(stand_alone(1)).await;
    sim.until("1 + 1 machines up", 180, async |s| running(s, 2).await).await;
    sim.delete::<Cluster>("harbor").await;
    let workers_gone = async |s: &Sim| {
        let machines: Vec<Machine> = s.list().await;
        machines.iter().all(|m| labels(m).any(|l| l == "cluster.x-k8s.io/control-plane"))
    };
    sim.until("the workers gone", 120, workers_gone).await;
    sim.until("the Cluster gone", 120, async |s| s.list::<Cluster>().await.is_empty()).await;
    assert!(sim.list::<DevMachine>().await.is_empty());
}
