//! Whole-engine simulations: from a manifest to a living cluster, through scaling and rollouts, to
//! nothing.

use std::time::Duration;

use capi_types::bootstrap::KubeadmConfig;
use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned, find, is_true};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::dev::{DevCluster, DevMachine};
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capstan_base::time::from_k8s;
use capstan_engine::client::Object;
use capstan_engine::workload::{Addon, Workload as _};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, WatchEvent, WatchParams};
use serde_json::json;
use tokio::task::JoinHandle;

use super::simulation::{Sim, labels, manifest, settled, worker_names};

/// Appendix A of the status reference: everything true that should be, with no message.
async fn assert_steady_state(sim: &Sim) {
    quiet::<Cluster>(sim).await;
    quiet::<KubeadmControlPlane>(sim).await;
    quiet::<MachineDeployment>(sim).await;
    quiet::<MachineSet>(sim).await;
    quiet::<Machine>(sim).await;
    quiet::<KubeadmConfig>(sim).await;
    for machine in sim.list::<Machine>().await {
        let status = machine.status.unwrap_or_default();
        assert_eq!(status.phase.as_deref(), Some("Running"));
        assert_eq!(status.observed_generation, machine.metadata.generation, "{:?}", machine.metadata.name);
        let name = machine.metadata.name.unwrap_or_default();
        assert_eq!(machine.spec.provider_id, Some(format!("in-memory://{name}")));
        assert_eq!(status.node_ref.map(|r| r.name), Some(name));
    }
    for secret in ["harbor-ca", "harbor-etcd", "harbor-proxy", "harbor-sa", "harbor-kubeconfig"] {
        assert!(sim.get::<Secret>(secret).await.is_some(), "Secret {secret}");
    }
}

/// A year after the API server came up, of control plane Machines only.
async fn ends_of_certificates_are_noted(sim: &Sim) -> bool {
    let (machines, now): (Vec<Machine>, _) = (sim.list().await, sim.clock.now());
    machines.iter().all(|machine| {
        let end = machine.status.as_ref().and_then(|status| status.certificates_expiry_date.as_ref());
        let days = end.map(|end| (from_k8s(end) - now).num_days());
        days == labels(machine).any(|label| label == "cluster.x-k8s.io/control-plane").then_some(364)
    })
}

/// What `capstan etcd status` and the etcd screen read of a simulated cluster.
#[cfg(feature = "etcd")]
async fn assert_etcd_is_shown(sim: &Sim) {
    use capi_rules::etcd::report::Report;
    use capstan_dashboard::operations::EtcdReader as _;
    let (connection, clock) = (sim.connection.clone(), sim.clock.clone());
    let reader = capstan_dashboard::operations::ClusterEtcd { connection, clock };
    let facts = reader.look(&ObjectKey::new("default", "harbor")).await.expect("a look");
    let report = Report::of(&facts, None);
    assert_eq!(report.summary, "3 voters, healthy 3, can lose 1 more", "{report:#?}");
    assert!(report.findings.is_empty() && report.members.iter().all(|m| m.machine.is_some()), "{report:#?}");
    let seen = sim.world.etcd(&ObjectKey::new("default", "harbor")).await.expect("the world's own view");
    let ids: Vec<String> = seen.members.iter().map(|member| format!("{:x}", member.id)).collect();
    assert!(report.members.iter().all(|member| ids.contains(&member.id)), "{report:#?}");
    assert_eq!(Some(&report.members[0].id), seen.leader.map(|id| format!("{id:x}")).as_ref());
    let missing = reader.look(&ObjectKey::new("default", "nowhere")).await;
    assert_eq!(missing, Err("there is no Cluster default/nowhere".to_owned()));
}

async fn quiet<K: Object + Conditioned>(sim: &Sim) {
    let negative =
        ["Deleting", "Updating", "RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Paused"];
    for object in sim.list::<K>().await {
        for c in object.conditions() {
            let expected = if negative.contains(&c.type_.as_str()) { "False" } else { "True" };
            assert_eq!(
                (c.status.as_str(), c.message.as_str()),
                (expected, ""),
                "{} {}: {} {}",
                K::kind(&()),
                ObjectKey::of(&object),
                c.type_,
                c.reason
            );
        }
    }
}

async fn gone(sim: &Sim) -> bool {
    sim.list::<Cluster>().await.is_empty()
}

#[tokio::test(start_paused = true)]
async fn a_manifest_comes_up_scales_and_goes() {
    let mut sim = Sim::start(1).await;
    sim.create(manifest(1, 2)).await;
    sim.until("1 + 2 machines up", 180, async |s| settled(s, 1, 2, "v1.34.1").await).await;
    assert_steady_state(&sim).await;

    sim.machines_max = (3, 5);
    sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"replicas": 3}})).await;
    sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"replicas": 5}})).await;
    sim.until("3 + 5 machines up", 300, async |s| settled(s, 3, 5, "v1.34.1").await).await;
    assert_steady_state(&sim).await;
    sim.until("ends noted", 5, async |s| ends_of_certificates_are_noted(s).await).await;
    #[cfg(feature = "etcd")]
    assert_etcd_is_shown(&sim).await;

    sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"replicas": 1}})).await;
    sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"replicas": 1}})).await;
    sim.until("1 + 1 machines left", 300, async |s| settled(s, 1, 1, "v1.34.1").await).await;
    assert_steady_state(&sim).await;

    sim.delete::<Cluster>("harbor").await;
    sim.until("the Cluster gone", 180, async |s| gone(s).await).await;
    assert!(sim.list::<Machine>().await.is_empty());
    assert!(sim.list::<DevMachine>().await.is_empty());
    assert!(sim.list::<KubeadmControlPlane>().await.is_empty());
    assert!(sim.list::<MachineDeployment>().await.is_empty());
    assert!(sim.list::<DevCluster>().await.is_empty());
}

/// What a watch sees of `count` objects of the kind when they go: `Deleting`, and of Machines their bootstrap.
async fn ends_of<K: Object + Conditioned>(sim: &Sim, count: usize) -> JoinHandle<Vec<String>> {
    let api: Api<K> = Api::all(sim.connection.client.clone());
    let watch = api.watch(&WatchParams::default(), "0").await.expect("a watch").boxed();
    let ends = watch.filter_map(async |event| {
        let WatchEvent::Deleted(object) = event.expect("an event") else { return None };
        let said =
            |type_: &str| find(object.conditions(), type_).map(|c| format!("{} {}", c.reason, c.message));
        let parts = [said("Deleting"), said("BootstrapConfigReady")];
        Some(parts.into_iter().flatten().collect::<Vec<_>>().join(" | "))
    });
    tokio::spawn(ends.take(count).collect())
}

#[tokio::test(start_paused = true)]
async fn objects_went_without_a_last_status() {
    let sim = Sim::start(11).await;
    sim.create(manifest(1, 1)).await;
    sim.until("1 + 1 machines up", 180, async |s| settled(s, 1, 1, "v1.34.1").await).await;
    let machines = ends_of::<Machine>(&sim, 2).await;
    let others = [
        ends_of::<MachineSet>(&sim, 1).await,
        ends_of::<MachineDeployment>(&sim, 1).await,
        ends_of::<KubeadmControlPlane>(&sim, 1).await,
        ends_of::<Cluster>(&sim, 1).await,
    ];
    sim.delete::<Cluster>("harbor").await;
    sim.until("the Cluster gone", 180, async |s| gone(s).await).await;
    let end = "DeletionCompleted Deletion completed | ObjectDeleted KubeadmConfig has been deleted";
    assert_eq!(machines.await.expect("the watch"), [end, end]);
    for watch in others {
        let seen = watch.await.expect("the watch").remove(0);
        assert!(seen.ends_with("Deletion completed"), "{seen}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_generation_was_observed_although_a_template_was_missing() {
    let sim = Sim::start(12).await;
    sim.create(manifest(1, 1)).await;
    sim.until("1 + 1 machines up", 180, async |s| settled(s, 1, 1, "v1.34.1").await).await;
    let observed = async |s: &Sim| {
        let deployment: MachineDeployment = s.get("harbor-md-0").await.expect("a MachineDeployment");
        let status = deployment.status.unwrap_or_default();
        status.observed_generation == deployment.metadata.generation
    };
    let template =
        |name: &str| json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": name}}}}});
    sim.patch::<MachineDeployment>("harbor-md-0", template("not-there")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!observed(&sim).await, "a client that waits for the generation was told that it is carried out");
    sim.patch::<MachineDeployment>("harbor-md-0", template("harbor-md-0")).await;
    sim.until("the generation observed", 60, observed).await;
}

#[tokio::test(start_paused = true)]
async fn a_version_rolls_control_plane_then_workers() {
    let mut sim = Sim::start(2).await;
    sim.create(manifest(3, 3)).await;
    sim.machines_max = (4, 4);
    sim.until("3 + 3 machines up", 300, async |s| settled(s, 3, 3, "v1.34.1").await).await;

    sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"version": "v1.35.0"}})).await;
    let rolled = async |s: &Sim| {
        let kcp = s.get::<KubeadmControlPlane>("harbor-cp").await.and_then(|k| k.status).unwrap_or_default();
        kcp.versions.len() == 1 && kcp.versions[0].version == "v1.35.0" && kcp.replicas == Some(3)
    };
    sim.until("the control plane on v1.35.0", 600, rolled).await;
    let cluster = ObjectKey::new("default", "harbor");
    for name in ["kubeadm:cluster-admins", "kubeadm:apiserver-kubelet-client"] {
        assert_eq!(sim.world.binds_cluster_role(&cluster, name).await, Ok(true), "{name}");
    }
    let dns = json!({"imageTag": "v1.12.1"});
    let body = json!({"spec": {"kubeadmConfigSpec": {"clusterConfiguration": {"dns": dns}}}});
    sim.patch::<KubeadmControlPlane>("harbor-cp", body).await;
    let dns_is_new = async |s: &Sim| {
        let image = s.world.addon_image(&cluster, Addon::CoreDns).await;
        image == Ok(Some("registry.k8s.io/coredns/coredns:v1.12.1".to_owned()))
    };
    sim.until("the new CoreDNS", 600, dns_is_new).await;
    let map = sim.world.kubeadm_config(&cluster).await.expect("an answer").expect("the map");
    let text = map.data.expect("data")["ClusterConfiguration"].clone();
    assert!(text.contains("imageTag: v1.12.1"), "{text}");
    let body = json!({"spec": {"template": {"spec": {"version": "v1.35.0"}}}});
    sim.patch::<MachineDeployment>("harbor-md-0", body).await;
    sim.until("everything on v1.35.0", 600, async |s| settled(s, 3, 3, "v1.35.0").await).await;
    assert_steady_state(&sim).await;
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_rolls_without_surge_and_on_time() {
    let mut sim = Sim::start(3).await;
    sim.create(manifest(3, 0)).await;
    sim.until("3 machines up", 300, async |s| settled(s, 3, 0, "v1.34.1").await).await;
    sim.machines_max = (3, 0);
    let before: Vec<Machine> = sim.list().await;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}});
    let body = json!({"spec": {"rollout": {"after": "2026-11-20T10:10:00Z", "strategy": strategy}}});
    sim.patch::<KubeadmControlPlane>("harbor-cp", body).await;
    while sim.elapsed_s() < 595 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        sim.check().await;
    }
    let names =
        |machines: &[Machine]| machines.iter().filter_map(|m| m.metadata.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&sim.list().await), names(&before), "nothing moves before its time");
    let replaced = async |s: &Sim| {
        let now: Vec<Machine> = s.list().await;
        now.len() == 3 && names(&now).iter().all(|name| !names(&before).contains(name))
    };
    sim.until("all machines replaced", 900, replaced).await;
    sim.until("a steady control plane", 120, async |s| settled(s, 3, 0, "v1.34.1").await).await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_cluster_stands_still() {
    let sim = Sim::start(4).await;
    sim.create(manifest(1, 1)).await;
    sim.until("1 + 1 machines up", 180, async |s| settled(s, 1, 1, "v1.34.1").await).await;
    sim.patch::<Cluster>("harbor", json!({"spec": {"paused": true}})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"replicas": 3}})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(sim.list::<Machine>().await.len(), 2, "nothing is made while paused");
    let cluster: Cluster = sim.get("harbor").await.expect("the Cluster");
    assert!(is_true(cluster.conditions(), "Paused"));
    sim.patch::<Cluster>("harbor", json!({"spec": {"paused": null}})).await;
    sim.until("3 workers after the pause", 180, async |s| settled(s, 1, 3, "v1.34.1").await).await;
}

#[tokio::test(start_paused = true)]
async fn a_settled_fleet_writes_nothing() {
    let mut sim = Sim::start(5).await;
    sim.create(manifest(3, 2)).await;
    sim.until("3 + 2 machines up", 300, async |s| settled(s, 3, 2, "v1.34.1").await).await;
    // Keyed lists, maps and defaults, in what is applied to MachineSets, Machines and the objects behind them.
    let gates = json!([{"conditionType": "Backup"}, {"conditionType": "Audit", "polarity": "Negative"}]);
    let metadata = json!({"labels": {"team": "a"}, "annotations": {"note": "b"}});
    let spec = json!({"readinessGates": gates, "deletion": {"nodeDrainTimeoutSeconds": 60}});
    let body = json!({"spec": {"template": {"metadata": metadata, "spec": spec}}});
    sim.patch::<MachineDeployment>("harbor-md-0", body).await;
    let body = json!({"spec": {"machineTemplate": {"metadata": metadata, "spec": spec}}});
    sim.patch::<KubeadmControlPlane>("harbor-cp", body).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let writes = sim.handle.writes();
    tokio::time::sleep(Duration::from_secs(6 * 3600)).await;
    assert_eq!(sim.handle.writes(), writes, "writes in six hours without events");
    sim.restart(55);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(sim.handle.writes(), 0, "writes of an engine that finds everything settled");
}

#[tokio::test(start_paused = true)]
async fn workers_roll_within_surge_and_availability() {
    let mut sim = Sim::start(6).await;
    sim.create(manifest(1, 4)).await;
    sim.machines_max = (1, 4);
    sim.until("1 + 4 machines up", 300, async |s| settled(s, 1, 4, "v1.34.1").await).await;
    sim.workers_available_min = 3;
    let limits = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let after = json!({"after": "2026-11-20T10:01:00Z", "strategy": limits});
    let before: Vec<String> = worker_names(&sim).await;
    sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"rollout": after}})).await;
    let replaced = async |s: &Sim| {
        let now = worker_names(s).await;
        now.len() == 4 && now.iter().all(|name| !before.contains(name))
    };
    sim.until("every worker replaced", 600, replaced).await;
    sim.until("a steady deployment", 120, async |s| settled(s, 1, 4, "v1.34.1").await).await;
    let sets: Vec<MachineSet> = sim.list().await;
    assert_eq!(sets.iter().filter(|set| set.spec.replicas != Some(0)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hook_holds_a_machine_until_it_is_taken_away() {
    let sim = Sim::start(7).await;
    sim.create(manifest(1, 2)).await;
    sim.until("1 + 2 machines up", 180, async |s| settled(s, 1, 2, "v1.34.1").await).await;
    let name = worker_names(&sim).await.remove(0);
    const HOOK: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io/backup";
    sim.patch::<Machine>(&name, json!({"metadata": {"annotations": {HOOK: "ops"}}})).await;
    sim.delete::<Machine>(&name).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let held: Machine = sim.get(&name).await.expect("still there");
    let deleting = find(held.conditions(), "Deleting").expect("Deleting");
    let text = format!("Waiting for pre-drain hooks to succeed (hooks: {HOOK})");
    assert_eq!(
        (deleting.reason.as_str(), deleting.message.as_str()),
        ("WaitingForPreDrainHook", text.as_str())
    );
    assert_eq!(held.status.and_then(|s| s.phase).as_deref(), Some("Deleting"));
    assert!(sim.get::<DevMachine>(&name).await.is_some(), "its host is untouched");
    sim.patch::<Machine>(&name, json!({"metadata": {"annotations": {HOOK: null}}})).await;
    sim.until("the Machine gone", 120, async |s| s.get::<Machine>(&name).await.is_none()).await;
    let cluster = ObjectKey::new("default", "harbor");
    assert_eq!(sim.world.node(&cluster, &name).await, Ok(None), "and its Node");
    sim.until("a replacement", 180, async |s| settled(s, 1, 2, "v1.34.1").await).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_can_go_at_any_time() {
    for (seed, after_s) in [(8, 1), (9, 4), (10, 13), (11, 20), (12, 31)] {
        let sim = Sim::start(seed).await;
        sim.create(manifest(3, 2)).await;
        tokio::time::sleep(Duration::from_secs(after_s)).await;
        sim.delete::<Cluster>("harbor").await;
        sim.until("the Cluster gone", 300, async |s| gone(s).await).await;
        assert!(sim.list::<Machine>().await.is_empty(), "seed {seed}");
        assert!(sim.list::<DevMachine>().await.is_empty(), "seed {seed}");
    }
}

/// `clusterctl move` pauses a fleet and deletes its objects; the machines go on for their new manager.
#[tokio::test(start_paused = true)]
async fn deleted_infrastructure_stays_while_its_cluster_is_paused() {
    let sim = Sim::start(13).await;
    sim.create(manifest(1, 1)).await;
    sim.until("1 + 1 machines up", 180, async |s| settled(s, 1, 1, "v1.34.1").await).await;
    sim.patch::<Cluster>("harbor", json!({"spec": {"paused": true}})).await;
    let name = worker_names(&sim).await.remove(0);
    sim.delete::<DevMachine>(&name).await;
    sim.delete::<DevCluster>("harbor").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let machine: DevMachine = sim.get(&name).await.expect("still there");
    let cluster: DevCluster = sim.get("harbor").await.expect("still there");
    for meta in [machine.metadata, cluster.metadata] {
        assert!(meta.deletion_timestamp.is_some() && meta.finalizers.is_some_and(|f| !f.is_empty()));
    }
    sim.patch::<Cluster>("harbor", json!({"spec": {"paused": null}})).await;
    sim.until("the DevMachine gone", 60, async |s| s.get::<DevMachine>(&name).await.is_none()).await;
}
