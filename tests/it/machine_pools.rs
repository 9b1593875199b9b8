//! MachinePools with simulated machines behind them: they come up, scale, are upgraded, survive a restart, and go.

use capi_types::bootstrap::KubeadmConfig;
use capi_types::condition::{Conditioned as _, is_true};
use capi_types::dev::DevMachine;
use capi_types::dev_pool::DevMachinePool;
use capi_types::key::{ObjectKey, controller_of};
use capi_types::machine::Machine;
use capi_types::machine_pool::MachinePool;
use capstan_engine::workload::Workload as _;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::simulation::{Sim, labels, manifest};

const POOL: &str = "harbor-mp-0";

/// The cluster of [`manifest`] with a MachinePool of `replicas` instead of its MachineDeployment.
fn with_pool(replicas: u32) -> Vec<Value> {
    let mut objects = manifest(1, 0);
    objects.retain(|object| {
        object["kind"] != "MachineDeployment" && object["metadata"]["name"] != "harbor-md-0"
    });
    let object = |group: &str, kind: &str, spec: Value| {
        json!({"apiVersion": format!("{group}cluster.x-k8s.io/v1beta2"), "kind": kind,
            "metadata": {"name": POOL, "namespace": "default"}, "spec": spec})
    };
    let reference = |group: &str, kind: &str| json!({"apiGroup": format!("{group}cluster.x-k8s.io"), "kind": kind, "name": POOL});
    objects.push(object("bootstrap.", "KubeadmConfig", json!({"verbosity": 1})));
    objects.push(object("infrastructure.", "DevMachinePool", json!({"backend": {"inMemory": {}}})));
    objects.push(object(
        "",
        "MachinePool",
        json!({"clusterName": "harbor", "replicas": replicas, "template": {
            "metadata": {"labels": {"node.cluster.x-k8s.io/team": "a"}},
            "spec": {"clusterName": "harbor", "version": "v1.34.1",
                "bootstrap": {"configRef": reference("bootstrap.", "KubeadmConfig")},
                "infrastructureRef": reference("infrastructure.", "DevMachinePool")}}}),
    ));
    objects
}

/// All replicas are there, ready, of this version, and the pool says so.
async fn runs(sim: &Sim, replicas: i32, version: &str) -> bool {
    let Some(pool) = sim.get::<MachinePool>(POOL).await else { return false };
    let status = pool.status.unwrap_or_default();
    let counts =
        [status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas];
    let versions: Vec<(&str, Option<i32>)> =
        status.versions.iter().map(|v| (v.version.as_str(), v.replicas)).collect();
    status.phase.as_deref() == Some("Running")
        && counts.iter().all(|count| *count == Some(replicas))
        && i32::try_from(status.node_refs.len()) == Ok(replicas)
        && i32::try_from(pool.spec.provider_id_list.len()) == Ok(replicas)
        && versions == [(version, Some(replicas))]
}

async fn pool_machines(sim: &Sim) -> Vec<Machine> {
    let mut machines: Vec<Machine> = sim.list().await;
    machines.retain(|machine| labels(machine).any(|label| label == "cluster.x-k8s.io/pool-name"));
    machines
}

async fn assert_nodes_are_claimed(sim: &Sim) {
    let nodes = sim.world.nodes(&ObjectKey::new("default", "harbor")).await.expect("Nodes");
    let claimed = nodes.iter().filter(|node| {
        let annotations = node.metadata.annotations.clone().unwrap_or_default();
        annotations.get("cluster.x-k8s.io/owner-kind").is_some_and(|kind| kind == "MachinePool")
            && annotations.get("cluster.x-k8s.io/owner-name").is_some_and(|name| name == POOL)
    });
    assert_eq!(claimed.count(), pool_machines(sim).await.len());
}

async fn token(sim: &Sim) -> String {
    let config: KubeadmConfig = sim.get(POOL).await.expect("a KubeadmConfig");
    let join = config.spec.join_configuration.and_then(|join| join.discovery);
    join.and_then(|d| d.bootstrap_token).and_then(|t| t.token).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_pool_comes_up_scales_and_goes() {
    let mut sim = Sim::start(51).await;
    sim.machines_max = (1, 5);
    sim.create(with_pool(3)).await;
    sim.until("the pool runs", 240, async |s| runs(s, 3, "v1.34.1").await).await;
    assert_nodes_are_claimed(&sim).await;
    for machine in pool_machines(&sim).await {
        let owner = controller_of(&machine).expect("a controller");
        assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("MachinePool", POOL));
        assert!(is_true(machine.conditions(), "UpToDate"), "{:?}", machine.conditions());
        assert!(is_true(machine.conditions(), "Available"), "{:?}", machine.conditions());
        assert_eq!(machine.spec.version.as_deref(), Some("v1.34.1"));
    }
    let data: Secret = sim.get(POOL).await.expect("bootstrap data");
    let owner = data.metadata.owner_references.unwrap_or_default().remove(0);
    assert_eq!((owner.kind.as_str(), owner.controller), ("KubeadmConfig", Some(true)));

    sim.patch::<MachinePool>(POOL, json!({"spec": {"replicas": 5}})).await;
    sim.until("five", 120, async |s| runs(s, 5, "v1.34.1").await).await;
    let marked = pool_machines(&sim).await[3].metadata.name.clone().expect("a name");
    sim.patch::<Machine>(
        &marked,
        json!({"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": ""}}}),
    )
    .await;
    sim.patch::<MachinePool>(POOL, json!({"spec": {"replicas": 4}})).await;
    sim.until("four", 120, async |s| runs(s, 4, "v1.34.1").await).await;
    assert!(sim.get::<Machine>(&marked).await.is_none(), "the marked one went first");
    assert_nodes_are_claimed(&sim).await;

    sim.delete::<MachinePool>(POOL).await;
    sim.until("the pool gone", 180, async |s| s.list::<MachinePool>().await.is_empty()).await;
    assert!(pool_machines(&sim).await.is_empty());
    assert!(sim.list::<DevMachinePool>().await.is_empty());
    assert_eq!(sim.list::<DevMachine>().await.len(), 1, "that of the control plane");
}

#[tokio::test(start_paused = true)]
async fn another_version_replaces_the_machines_of_a_pool() {
    let mut sim = Sim::start(52).await;
    sim.machines_max = (1, 4);
    sim.create(with_pool(2)).await;
    sim.until("the pool runs", 240, async |s| runs(s, 2, "v1.34.1").await).await;
    sim.restart(53);
    let before: Vec<_> = pool_machines(&sim).await.into_iter().map(|m| m.metadata.name).collect();
    sim.patch::<MachinePool>(POOL, json!({"spec": {"template": {"spec": {"version": "v1.34.2"}}}})).await;
    sim.until("the other version", 240, async |s| runs(s, 2, "v1.34.2").await).await;
    let after: Vec<_> = pool_machines(&sim).await.into_iter().map(|m| m.metadata.name).collect();
    assert!(after.iter().all(|name| !before.contains(name)), "{before:?} {after:?}");
}

#[tokio::test(start_paused = true)]
async fn the_join_token_of_a_pool_is_renewed_for_machines_to_come() {
    let mut sim = Sim::start(54).await;
    sim.machines_max = (1, 1);
    sim.create(with_pool(1)).await;
    sim.until("the pool runs", 240, async |s| runs(s, 1, "v1.34.1").await).await;
    let first = token(&sim).await;
    sim.until("another token", 900, async |s| token(s).await != first).await;
    let data: Secret = sim.get(POOL).await.expect("bootstrap data");
    let text = data.data.and_then(|mut data| data.remove("value")).expect("user data").0;
    let renewed = token(&sim).await;
    assert!(String::from_utf8(text).expect("text").contains(&renewed), "the data has the new token");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_takes_its_pools_along() {
    let mut sim = Sim::start(55).await;
    sim.machines_max = (1, 2);
    sim.create(with_pool(2)).await;
    sim.until("the pool runs", 240, async |s| runs(s, 2, "v1.34.1").await).await;
    sim.delete::<capi_types::cluster::Cluster>("harbor").await;
    let gone = async |s: &Sim| s.list::<capi_types::cluster::Cluster>().await.is_empty();
    sim.until("the Cluster gone", 300, gone).await;
    assert!(sim.list::<DevMachine>().await.is_empty());
}
