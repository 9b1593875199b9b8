//! Orphans that change while they are adopted: their owner waits for them, and makes and deletes nothing in their place.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{ObjectKey, controller_of};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capstan_engine::client::Object;
use capstan_engine::client::write::{Mode, Part};
use http::{Method, Request, StatusCode};
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::client::Body;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::simulation::{Disturb, Disturbance, Sim, manifest, settled};

const ORPHANS: u32 = 5;

fn reference(group: &str, kind: &str, name: &str) -> Value {
    json!({"apiGroup": format!("{group}cluster.x-k8s.io"), "kind": kind, "name": name})
}

/// Machines that stand alone, each with its parts.
fn orphans() -> Vec<Value> {
    let labels = json!({"cluster.x-k8s.io/cluster-name": "harbor", "grp": "x"});
    let of_one = |name: String| {
        let object = |group: &str, kind: &str, spec: Value| {
            json!({"apiVersion": format!("{group}cluster.x-k8s.io/v1beta2"), "kind": kind,
                "metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec})
        };
        let join = json!({"joinConfiguration": {"nodeRegistration": {"criSocket": "unix:///x"}}});
        let machine = json!({"clusterName": "harbor", "version": "v1.34.1",
            "bootstrap": {"configRef": reference("bootstrap.", "KubeadmConfig", &name)},
            "infrastructureRef": reference("infrastructure.", "DevMachine", &name)});
        [
            object("bootstrap.", "KubeadmConfig", join),
            object("infrastructure.", "DevMachine", json!({"backend": {"inMemory": {}}})),
            object("", "Machine", machine),
        ]
    };
    (0..ORPHANS).flat_map(|index| of_one(format!("orphan-{index}"))).collect()
}

fn adopter() -> Value {
    let labels = json!({"grp": "x"});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
        "metadata": {"name": "adopter", "namespace": "default"},
        "spec": {"clusterName": "harbor", "replicas": ORPHANS, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "clusterName": "harbor", "version": "v1.34.1",
                "bootstrap": {"configRef": reference("bootstrap.", "KubeadmConfigTemplate", "harbor-md-0")},
                "infrastructureRef": reference("infrastructure.", "DevMachineTemplate", "harbor-md-0")}}}})
}

/// With a control plane, and nothing else.
async fn harbor(seed: u64, workers: u32) -> Sim {
    let mut sim = Sim::start(seed).await;
    sim.machines_max = (1, 10);
    sim.create(manifest(1, workers)).await;
    let up = async |s: &Sim| settled(s, 1, workers.cast_signed(), "v1.34.1").await;
    sim.until("the control plane up", 300, up).await;
    sim
}

/// A merge patch of the object itself, of this kind and with this beginning of its name: no apply and no status.
fn is_patch_of(request: &Request<Body>, start: &str) -> bool {
    let is_merge =
        request.headers().get("content-type").is_some_and(|kind| kind == "application/merge-patch+json");
    let path = request.uri().path();
    request.method() == Method::PATCH && is_merge && path.contains(start) && !path.ends_with("/status")
}

/// Somebody who writes to these objects ten times a second, as controllers of others do while Machines come up.
fn busy<K: Object>(sim: &Sim, names: Vec<String>) -> AbortOnDropHandle<()> {
    let writer = sim.writer.clone();
    AbortOnDropHandle::new(tokio::spawn(async move {
        for round in 0.. {
            for name in &names {
                let key = ObjectKey::new("default", name);
                let body = json!({"metadata": {"annotations": {"example.com/round": format!("{round}")}}});
                let _ = writer.patch_part::<K>(&key, Part::Main, &body, Mode::Real).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }))
}

async fn uids<K: Object>(sim: &Sim) -> BTreeSet<String> {
    sim.list::<K>().await.into_iter().filter_map(|object| object.meta().uid.clone()).collect()
}

async fn adopted<K: Object>(sim: &Sim, start: &str, owner: &str) -> usize {
    let all: Vec<K> = sim.list().await;
    let mine = all.iter().filter(|o| o.meta().name.as_ref().is_some_and(|name| name.starts_with(start)));
    mine.filter(|o| controller_of(*o).is_some_and(|by| by.kind == owner)).count()
}

/// No Machine comes or goes for two minutes.
async fn nothing_turns_over(sim: &Sim, before: &BTreeSet<String>) {
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(uids::<Machine>(sim).await, *before, "Machines came or went");
        let machines: Vec<Machine> = sim.list().await;
        assert!(machines.iter().all(|m| m.metadata.deletion_timestamp.is_none()), "one is being deleted");
    }
}

/// All five were deleted and replaced: each adoption was refused because the Machine had changed, and the MachineSet made others.
#[tokio::test(start_paused = true)]
async fn machines_that_change_meanwhile_are_adopted_and_not_replaced() {
    let sim = harbor(61, 0).await;
    sim.create(orphans()).await;
    let before = uids::<Machine>(&sim).await;
    let busy = busy::<Machine>(&sim, (0..ORPHANS).map(|index| format!("orphan-{index}")).collect());
    let slow: Disturb = Arc::new(|request: &Request<Body>| match is_patch_of(request, "/machines/orphan-") {
        true => Disturbance::Delay(Duration::from_millis(300)),
        false => Disturbance::None,
    });
    sim.disturb_by(slow);
    sim.create(vec![adopter()]).await;
    sim.until("all adopted", 30, async |s| adopted::<Machine>(s, "orphan-", "MachineSet").await == 5).await;
    drop(busy);
    nothing_turns_over(&sim, &before).await;
}

/// What refuses is not the orphan's word that it belongs to nobody.
#[tokio::test(start_paused = true)]
async fn a_pass_in_which_an_adoption_failed_makes_and_deletes_nothing() {
    for (seed, code) in [(62, StatusCode::CONFLICT), (63, StatusCode::INTERNAL_SERVER_ERROR)] {
        let sim = harbor(seed, 0).await;
        sim.create(orphans()).await;
        let before = uids::<Machine>(&sim).await;
        let refused = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&refused);
        let refuse: Disturb = Arc::new(move |request: &Request<Body>| {
            let is_held = ["1", "3"].iter().any(|i| is_patch_of(request, &format!("/machines/orphan-{i}")));
            match is_held && count.fetch_add(1, Ordering::Relaxed) < 12 {
                true => Disturbance::Refuse(code),
                false => Disturbance::None,
            }
        });
        sim.disturb_by(refuse);
        sim.create(vec![adopter()]).await;
        let others = async |s: &Sim| adopted::<Machine>(s, "orphan-", "MachineSet").await >= 3;
        sim.until("the others adopted", 10, others).await;
        let events: Vec<Event> = sim.list().await;
        assert!(events.iter().any(|event| event.reason.as_deref() == Some("FailedAdopt")), "{code}");
        sim.until("all adopted", 120, async |s| adopted::<Machine>(s, "orphan-", "MachineSet").await == 5)
            .await;
        assert!(refused.load(Ordering::Relaxed) >= 12, "{code}");
        nothing_turns_over(&sim, &before).await;
    }
}

/// A second, equal MachineSet was made, and one Machine too many.
#[tokio::test(start_paused = true)]
async fn a_machine_set_that_changes_meanwhile_is_adopted_and_not_made_again() {
    let sim = harbor(64, 3).await;
    let sets = uids::<MachineSet>(&sim).await;
    let name = sim.list::<MachineSet>().await[0].metadata.name.clone().expect("a name");
    let busy = busy::<MachineSet>(&sim, vec![name.clone()]);
    let slow: Disturb =
        Arc::new(|request: &Request<Body>| match is_patch_of(request, "/machinesets/harbor-md-0") {
            true => Disturbance::Delay(Duration::from_millis(300)),
            false => Disturbance::None,
        });
    sim.disturb_by(slow);
    sim.patch::<MachineSet>(&name, json!({"metadata": {"ownerReferences": null}})).await;
    sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"replicas": 4}})).await;
    let is_adopted = async |s: &Sim| adopted::<MachineSet>(s, "harbor-md-0", "MachineDeployment").await == 1;
    sim.until("it is adopted again", 30, is_adopted).await;
    drop(busy);
    sim.until("four workers", 120, async |s| settled(s, 1, 4, "v1.34.1").await).await;
    assert_eq!(uids::<MachineSet>(&sim).await, sets, "no other MachineSet was made");
    assert_eq!(sim.list::<Machine>().await.len(), 5, "one for the control plane, four workers");
}

/// The Secrets stayed without an owner once the control plane had been made anew, and outlived the Cluster.
#[tokio::test(start_paused = true)]
async fn certificates_without_an_owner_are_owned_again() {
    const PAIRS: [&str; 4] = ["harbor-ca", "harbor-sa", "harbor-proxy", "harbor-etcd"];
    let sim = harbor(63, 0).await;
    let cluster = sim.get::<Cluster>("harbor").await.expect("the Cluster").metadata.uid;
    let another = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "harbor", "uid": cluster,
        "controller": true}]);
    for (pair, owners) in PAIRS.into_iter().zip([json!(null), another, json!([]), json!(null)]) {
        sim.patch::<Secret>(pair, json!({"metadata": {"ownerReferences": owners}})).await;
    }
    let touched = json!({"metadata": {"annotations": {"touched": "yes"}}});
    sim.patch::<KubeadmControlPlane>("harbor-cp", touched).await;
    sim.until("owned", 60, async |sim| {
        let secrets: Vec<Secret> = sim.list().await;
        let is_owned = |name: &&str| {
            let secret = secrets.iter().find(|secret| secret.metadata.name.as_deref() == Some(name));
            secret.and_then(controller_of).is_some_and(|owner| owner.kind == "KubeadmControlPlane")
        };
        PAIRS.iter().filter(|name| is_owned(name)).count() == PAIRS.len()
    })
    .await;
}
