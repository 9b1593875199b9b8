//! The world as a workload, with a clock that is moved by hand. (End to end with controllers and an
//! API server: `tests/it/provider.rs`.)

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use parking_lot::Mutex;
use serde_json::json;

use super::World;
use super::boot_data::BootData;
use super::faults::Fault;
use super::served::ShownKind;
use super::sim_cluster::SimMachine;
use capi_types::dev::Host;
use capi_types::key::ObjectKey;
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, TimeSource, Timestamp};
use capstan_engine::workload::{Announcement, Eviction, PodScope, Workload, WorkloadError};
use capstan_physics::boot::{Boot, Delays};

#[derive(Clone)]
pub(super) struct Hand(Arc<Mutex<Timestamp>>);

impl TimeSource for Hand {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}

impl Hand {
    pub(super) fn pass(&self, seconds: i64) {
        *self.0.lock() += chrono::TimeDelta::seconds(seconds);
    }
}

pub(super) fn cluster() -> ObjectKey {
    ObjectKey::new("default", "c")
}

/// A world with one cluster whose named control plane machines are up at once.
pub(super) fn world(names: &[&str]) -> (World, Hand) {
    let hand = Hand(Arc::new(Mutex::new(Timestamp::UNIX_EPOCH)));
    let world = World::new(Clock::new(hand.clone()), Rng::seeded(1), 1.0);
    for (at, name) in names.iter().enumerate() {
        world.change(&cluster(), |sim| {
            let machine = SimMachine {
                boot: Boot::new(Timestamp::UNIX_EPOCH, Delays::default(), true),
                provider_id: format!("in-memory://{name}"),
                version: "v1.34.0".to_owned(),
                host: None,
                memory: Some("8Gi".to_owned()),
                control_plane: true,
                addresses: Vec::new(),
                member_id: at as u64 + 1,
                tenants: Vec::new(),
                faults: String::new(),
                boot_data: BootData::default(),
            };
            sim.put_machine(name, machine);
        });
    }
    (world, hand)
}

#[tokio::test]
async fn a_control_plane_leaves_nodes_pods_members_and_a_map() {
    let (world, _) = world(&["a", "b", "c"]);
    let nodes = world.nodes(&cluster()).await.expect("nodes");
    assert_eq!(nodes.len(), 3);
    let node = &nodes[0];
    assert_eq!(node.spec.as_ref().and_then(|s| s.provider_id.as_deref()), Some("in-memory://a"));
    let info = node.status.as_ref().and_then(|s| s.node_info.as_ref()).expect("info");
    assert_eq!(info.kubelet_version, "v1.34.0");
    assert_eq!(world.pods(&cluster(), &PodScope::KubeSystem).await.expect("pods").len(), 12);
    assert_eq!(world.pods(&cluster(), &PodScope::OnNode("a".to_owned())).await.expect("pods").len(), 4);
    let etcd = world.etcd(&cluster()).await.expect("etcd");
    assert_eq!((etcd.members.len(), etcd.leader), (3, Some(1)));
    assert!(world.kubeadm_config(&cluster()).await.expect("an answer").is_some());
}

#[tokio::test]
async fn a_host_that_becomes_another_shows_in_its_node() {
    let (world, _) = world(&["a"]);
    let shown = || async {
        let node = world.node(&cluster(), "a").await.expect("an answer").expect("the node");
        let status = node.status.clone().expect("a status");
        let memory = status.capacity.and_then(|capacity| capacity.get("memory").map(|m| m.0.clone()));
        (status.node_info.expect("info").kubelet_version, memory.unwrap_or_default())
    };
    assert_eq!(shown().await, ("v1.34.0".to_owned(), "8Gi".to_owned()));
    // What the Machine asks for is not what the host is.
    world.change(&cluster(), |sim| sim.set_machine_facts("a", None, "v1.35.0".to_owned()));
    assert_eq!(shown().await.0, "v1.34.0");
    let mut changes = world.changes();
    let host = Host { kubelet_version: "v1.35.0".to_owned(), memory: Some("16Gi".to_owned()) };
    world.change(&cluster(), |sim| sim.set_host("a", host.clone()));
    assert_eq!(shown().await, ("v1.35.0".to_owned(), "16Gi".to_owned()));
    assert!(matches!(changes.try_recv(), Ok(Announcement::Node { .. })));
    let is = world.read(&cluster(), |sim, _| sim.machine("a").map(super::sim_cluster::SimMachine::host));
    assert_eq!(is, Some(Some(host)));
}

#[tokio::test]
async fn patches_stay_and_changes_are_announced() {
    let (world, _) = world(&["a"]);
    let mut changes = world.changes();
    let patch = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"unschedulable": true}});
    let node = world.patch_node(&cluster(), "a", &patch).await.expect("patched");
    assert_eq!(node.spec.and_then(|s| s.unschedulable), Some(true));
    let Announcement::Node { cluster: of, node } = changes.try_recv().expect("announced") else {
        panic!("of a node");
    };
    assert_eq!((of, node.name.as_str(), node.is_control_plane), (cluster(), "a", true));
    world.patch_node(&cluster(), "a", &patch).await.expect("patched");
    assert!(changes.try_recv().is_err(), "the same again is no change");
    let missing = world.patch_node(&cluster(), "z", &patch).await;
    assert_eq!(missing, Err(WorkloadError::NotFound("Node z".to_owned())));
}

#[tokio::test]
async fn losing_the_api_server_counts_failures_and_coming_back_clears_them() {
    let (world, hand) = world(&["a"]);
    hand.pass(25);
    let connection = world.connection(&cluster());
    assert!(connection.connected && connection.last_probe_success.is_some_and(|t| t.timestamp() == 20));
    world.set_fault(&cluster(), Fault::Unreachable, true);
    assert!(matches!(world.nodes(&cluster()).await, Err(WorkloadError::Unreachable(_))));
    hand.pass(30);
    assert_eq!(world.connection(&cluster()).consecutive_failures, 3);
    hand.pass(20);
    assert_eq!(world.nodes(&cluster()).await, Err(WorkloadError::NotConnected));
    assert_eq!(world.connection(&cluster()).last_probe_success.map(|t| t.timestamp()), Some(25));
    world.set_fault(&cluster(), Fault::Unreachable, false);
    assert!(world.connection(&cluster()).connected);
    assert!(world.nodes(&cluster()).await.is_ok());
}

#[tokio::test]
async fn before_the_first_connect_nothing_is_established() {
    let (world, hand) = world(&[]);
    assert_eq!(world.nodes(&cluster()).await, Err(WorkloadError::NotConnected));
    world.change(&cluster(), |_| ());
    assert!(world.connection(&cluster()).not_established_yet());
    hand.pass(121);
    assert!(!world.connection(&cluster()).not_established_yet(), "five attempts failed");
}

#[tokio::test]
async fn node_faults_are_seen_and_undone() {
    let (world, _) = world(&["a"]);
    let ready = |node: &k8s_openapi::api::core::v1::Node| {
        let conditions = node.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
        conditions.into_iter().find(|c| c.type_ == "Ready").map(|c| c.status)
    };
    for (fault, expected) in
        [(Fault::NodeNotReady("a".to_owned()), "False"), (Fault::NodeSilent("a".to_owned()), "Unknown")]
    {
        world.set_fault(&cluster(), fault.clone(), true);
        let node = world.node(&cluster(), "a").await.expect("an answer").expect("a node");
        assert_eq!(ready(&node).as_deref(), Some(expected));
        world.set_fault(&cluster(), fault, false);
        let node = world.node(&cluster(), "a").await.expect("an answer").expect("a node");
        assert_eq!(ready(&node).as_deref(), Some("True"));
    }
    world.set_fault(&cluster(), Fault::EtcdNoSpace("a".to_owned()), true);
    assert_eq!(world.etcd(&cluster()).await.expect("etcd").members[0].alarms, ["NOSPACE"]);
}

#[tokio::test(start_paused = true)]
async fn the_clockwork_announces_the_end_of_grace_periods() {
    #[derive(Clone)]
    struct Paused(tokio::time::Instant);
    impl TimeSource for Paused {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH + chrono::TimeDelta::from_std(self.0.elapsed()).unwrap_or_default()
        }
    }
    let clock = Clock::new(Paused(tokio::time::Instant::now()));
    let world = Arc::new(World::new(clock.clone(), Rng::seeded(1), 1.0));
    tokio::spawn(Arc::clone(&world).clockwork());
    world.change(&cluster(), |_| ());
    let mut changes = world.changes();
    let mut heard = Vec::new();
    while let Ok(Ok(_)) = tokio::time::timeout(Duration::from_secs(1000), changes.recv()).await {
        heard.push(clock.now().timestamp());
    }
    assert_eq!(heard, [120, 370], "the fifth failed attempt, and the long grace after it");
}

#[tokio::test]
async fn an_api_that_is_away_takes_no_known_node_and_adds_none() {
    let (world, hand) = world(&["a"]);
    let known = async |world: &World, id: &str| {
        let nodes = world.nodes_with(&cluster(), id).await;
        nodes.map(|nodes| nodes.iter().filter_map(|node| node.metadata.name.clone()).collect::<Vec<_>>())
    };
    world.set_fault(&cluster(), Fault::Unreachable, true);
    hand.pass(1);
    assert_eq!(known(&world, "in-memory://a").await, Ok(vec!["a".to_owned()]));
    world.change(&cluster(), |sim| sim.remove_node("a"));
    assert_eq!(known(&world, "in-memory://a").await, Ok(vec!["a".to_owned()]), "nobody could hear of it");
    assert_eq!(known(&world, "in-memory://new").await, Err(WorkloadError::NotConnected));
    hand.pass(60);
    assert_eq!(known(&world, "in-memory://a").await, Err(WorkloadError::NotConnected), "five failed probes");
    world.set_fault(&cluster(), Fault::Unreachable, false);
    assert_eq!(known(&world, "in-memory://a").await, Ok(Vec::new()));
}

/// A cluster with one worker on whose node these pods run, as the annotation says.
fn busy(pods: serde_json::Value) -> (World, Hand) {
    let (world, hand) = world(&["a"]);
    world.change(&cluster(), |sim| {
        let machine = SimMachine {
            boot: Boot::new(Timestamp::UNIX_EPOCH, Delays::default(), false),
            provider_id: "in-memory://w".to_owned(),
            version: "v1.34.0".to_owned(),
            host: None,
            memory: None,
            control_plane: false,
            addresses: Vec::new(),
            member_id: 9,
            tenants: super::tenants::TenantSpec::parse(&pods.to_string()).expect("pods"),
            faults: String::new(),
            boot_data: BootData::default(),
        };
        sim.put_machine("w", machine);
    });
    (world, hand)
}

async fn left(world: &World) -> Vec<String> {
    let pods = world.pods(&cluster(), &PodScope::OnNode("w".to_owned())).await.expect("pods");
    pods.iter().map(|pod| ObjectKey::of(pod).to_string()).collect()
}

#[tokio::test]
async fn an_evicted_pod_goes_when_its_budget_and_its_time_allow() {
    let (world, hand) =
        busy(json!([{"name": "p", "namespace": "x", "budgetSeconds": 20, "terminationSeconds": 30}]));
    let (of, key) = (cluster(), ObjectKey::new("x", "p-w"));
    let evict = || world.evict(&of, &key, None);
    let held = evict().await.expect("an answer");
    assert!(
        matches!(&held, Eviction::Refused(words) if words.contains("disruption budget p needs 1")),
        "{held:?}"
    );
    hand.pass(20);
    assert_eq!(evict().await, Ok(Eviction::Started));
    let pods = world.pods(&cluster(), &PodScope::OnNode("w".to_owned())).await.expect("pods");
    assert!(pods[0].metadata.deletion_timestamp.is_some());
    hand.pass(29);
    assert_eq!(left(&world).await, ["x/p-w"]);
    hand.pass(1);
    assert_eq!(left(&world).await, [""; 0]);
    assert_eq!(evict().await, Ok(Eviction::Gone));
}

#[tokio::test]
async fn a_deleted_pod_goes_at_once_whatever_its_budget_says() {
    let (world, hand) =
        busy(json!([{"name": "p", "namespace": "x", "budgetSeconds": 3600, "terminationSeconds": 30}]));
    let key = ObjectKey::new("x", "p-w");
    let now = hand.now();
    world.change(&cluster(), |sim| sim.deleted(ShownKind::Pod, &key, now));
    hand.pass(1);
    assert_eq!(left(&world).await, [""; 0]);
}

#[tokio::test]
async fn a_job_ends_after_the_cordon_and_a_silent_node_ends_nothing() {
    let (world, hand) =
        busy(json!([{"name": "job", "completionSeconds": 10}, {"name": "web", "terminationSeconds": 5}]));
    hand.pass(100);
    assert_eq!(left(&world).await.len(), 2, "nobody has cordoned the node");
    let cordon = json!({"spec": {"unschedulable": true}});
    world.patch_node(&cluster(), "w", &cordon).await.expect("patched");
    hand.pass(10);
    assert_eq!(left(&world).await, ["default/web-w"]);
    world.set_fault(&cluster(), Fault::NodeSilent("w".to_owned()), true);
    let key = ObjectKey::new("default", "web-w");
    assert_eq!(world.evict(&cluster(), &key, Some(1)).await, Ok(Eviction::Started));
    hand.pass(600);
    assert_eq!(left(&world).await, ["default/web-w"], "no kubelet is there to stop it");
}

#[tokio::test]
async fn claims_of_one_name_in_two_namespaces_have_a_volume_each() {
    let (world, hand) = busy(json!([
        {"namespace": "x", "name": "db", "claim": "data"},
        {"namespace": "x-y", "name": "db", "claim": "data"},
        {"namespace": "x", "name": "other", "claim": "y-data"},
    ]));
    let volumes = world.persistent_volumes(&cluster()).await.expect("volumes");
    let namespace = |volume: &PersistentVolume| volume.spec.as_ref()?.claim_ref.as_ref()?.namespace.clone();
    assert_eq!(volumes.iter().filter_map(namespace).collect::<Vec<_>>(), ["x-y", "x", "x"]);
    world.evict(&cluster(), &ObjectKey::new("x", "db-w"), None).await.expect("evicted");
    assert_eq!(left(&world).await, ["x/other-w", "x-y/db-w"]);
    hand.pass(1);
    let attachments = world.volume_attachments(&cluster()).await.expect("attachments");
    let attached = attachments.iter().filter_map(|a| a.spec.source.persistent_volume_name.as_deref());
    assert_eq!(attached.collect::<Vec<_>>(), ["pv-x-y.data-w", "pv-x.y-data-w"]);
}

#[tokio::test]
async fn a_volume_is_detached_some_time_after_its_pod() {
    let (world, hand) = busy(json!([{"name": "db", "claim": "data", "detachSeconds": 40}]));
    let attached = || async {
        let node = world.node(&cluster(), "w").await.expect("an answer").expect("the node");
        let listed = node.status.as_ref().and_then(|s| s.volumes_attached.clone()).unwrap_or_default();
        let attachments = world.volume_attachments(&cluster()).await.expect("attachments");
        assert_eq!(listed.len(), attachments.len());
        attachments.len()
    };
    assert_eq!(attached().await, 1);
    world.evict(&cluster(), &ObjectKey::new("default", "db-w"), None).await.expect("evicted");
    assert_eq!(left(&world).await, [""; 0]);
    hand.pass(39);
    assert_eq!(attached().await, 1);
    hand.pass(1);
    assert_eq!(attached().await, 0);
    let volumes = world.persistent_volumes(&cluster()).await.expect("volumes");
    let claim = volumes[0].spec.as_ref().and_then(|s| s.claim_ref.as_ref()).and_then(|c| c.name.as_deref());
    assert_eq!(claim, Some("data-w"), "it stays bound");
}
