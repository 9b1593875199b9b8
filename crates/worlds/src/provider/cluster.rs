//! DevCluster: gives a simulated cluster its endpoint. Owns the object's fields; what runs behind the
//! endpoint is the world's business.
//! Source: `internal/controllers/backends/inmemory/devcluster_backend.go`, v1.14.2. Difference:
//! nothing listens on the port, unless an annotation asks for it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::conditions::{DevCondition, paused, ready, set};
use super::endpoint::ReservedEndpoint;
use super::finalizers::{hold, release};
use super::host::InitFacts;
use super::world::World;
use capi_types::cluster::{Cluster, Endpoint, NetworkRanges};
use capi_types::dev::{DevCluster, InfrastructureInitialization, SERVED_ANNOTATION};
use capi_types::key::{ObjectKey, annotation as annotation_of, refers_to};
use capi_types::names::{CORE_GROUP, annotation, condition, finalizer};
use capstan_base::time::Clock;
use capstan_engine::client::{Cache, Index, Mode, Precondition, Writer};
use capstan_engine::engine::{Controller, Engine, Outcome, ReconcileError, Trigger};

const LISTENER: &str = "inmemorycluster.infrastructure.cluster.x-k8s.io/listener";
const HOST: &str = "127.0.0.1";
/// Upstream's range of ports for workload cluster listeners.
const PORTS: std::ops::Range<i32> = 20_000..30_000;
/// The message on objects of the backend that is not simulated.
pub(super) const ONLY_IN_MEMORY: &str =
    "this engine simulates machines: only spec.backend.inMemory is supported, not spec.backend.docker";

pub struct DevClusters {
    dev_clusters: Cache<DevCluster>,
    clusters: Cache<Cluster>,
    world: Arc<World>,
    writer: Writer,
    clock: Clock,
    by_port: Index<DevCluster>,
    given: Mutex<Given>,
    /// Ports that were found free for clusters whose API is to be served.
    reserved: Mutex<BTreeMap<i32, TcpListener>>,
}

/// Ports given out by this process, which the cache may not show yet.
#[derive(Default)]
struct Given {
    ports: BTreeMap<ObjectKey, i32>,
    all: BTreeSet<i32>,
    /// So many of the range were looked at.
    looked_at: usize,
}

impl DevClusters {
    pub fn new(engine: &mut Engine, world: Arc<World>) -> Self {
        let dev_clusters = engine.cache();
        Self {
            // By port, so that a search asks each port once
            // and not every DevCluster for every port.
            by_port: Index::new(&dev_clusters, |dev| {
                port_of(dev).map(|port| port.to_string()).into_iter().collect()
            }),
            dev_clusters,
            clusters: engine.cache(),
            world,
            writer: engine.writer().managed_by("capstan-provider"),
            clock: engine.clock().clone(),
            given: Mutex::default(),
            reserved: Mutex::default(),
        }
    }

    /// A port that no other DevCluster has, and that `fits`. The search goes on behind the last one: from the start it
    /// would cost the square of their number.
    fn free_port(&self, key: &ObjectKey, fits: impl Fn(i32) -> bool) -> Option<i32> {
        let mut given = self.given.lock();
        // The write of the first port may have failed, or may not show yet: the same port again.
        if let Some(port) = given.ports.get(key) {
            return Some(*port);
        }
        let first = given.looked_at;
        let port_at = |at: usize| i32::try_from(at % PORTS.len()).ok().map(|offset| PORTS.start + offset);
        let is_free = |port: i32| {
            // Both are asked: the cache is behind by the writes
            // of now, and `given` knows no ports of before.
            !given.all.contains(&port) && self.by_port.get(&port.to_string()).is_empty() && fits(port)
        };
        // `fits` may reserve the port, so `is_free` asks it last and stops at the first that fits.
        let found = |at: usize| Some((at, port_at(at).filter(|port| is_free(*port))?));
        let (at, port) = (first..first + PORTS.len()).find_map(found)?;
        given.looked_at = at + 1;
        given.ports.insert(key.clone(), port);
        given.all.insert(port);
        Some(port)
    }

    fn give_back(&self, key: &ObjectKey) {
        let mut given = self.given.lock();
        if let Some(port) = given.ports.remove(key) {
            given.all.remove(&port);
        }
    }

    /// What the object should be.
    fn desired(
        &self,
        key: &ObjectKey,
        dev: &DevCluster,
        cluster: &Cluster,
    ) -> Result<DevCluster, ReconcileError> {
        let (mut after, now, generation) = (dev.clone(), self.clock.now(), dev.metadata.generation);
        hold(&mut after.metadata, finalizer::DEV_CLUSTER, finalizer::FORMER_DEV_CLUSTER);
        let pause = pause(dev, cluster);
        let status = after.status.get_or_insert_default();
        set(&mut status.conditions, &pause, generation, now);
        // Finalizer and Paused are written even so, as upstream does.
        if pause.holds {
            return Ok(after);
        }
        // No endpoint and not provisioned: the Cluster waits, and the condition says for what.
        if dev.spec.backend.in_memory.is_none() {
            let part = DevCondition::new(condition::LOAD_BALANCER_AVAILABLE, false, "NotAvailable")
                .with_message(ONLY_IN_MEMORY);
            set(&mut status.conditions, &part, generation, now);
            set(&mut status.conditions, &ready(&[part]), generation, now);
            return Ok(after);
        }
        status.initialization = Some(InfrastructureInitialization { provisioned: Some(true) });
        let annotations = after.metadata.annotations.get_or_insert_default();
        annotations.insert(LISTENER.to_owned(), key.to_string());
        let endpoint = after.spec.control_plane_endpoint.get_or_insert_default();
        // A port that the object has, given here or by a person, is never changed: clients know it.
        if endpoint.port.is_none_or(|port| port == 0) {
            // One that is served must be free on this machine; it is reserved when the object has it.
            let served = is_served(dev);
            let port = self.free_port(key, |port| !served || self.reserve(port)).ok_or_else(|| {
                ReconcileError::failed(format!(
                    "no free port in {}-{} for a simulated cluster",
                    PORTS.start, PORTS.end
                ))
            })?;
            *endpoint = Endpoint { host: Some(HOST.to_owned()), port: Some(port) };
        }
        Ok(after)
    }

    /// Keeps a port of this machine, if it is free.
    fn reserve(&self, port: i32) -> bool {
        let listener = listen(port);
        // The listener is kept, since a port that was
        // only tried could be taken before it is served.
        listener.map(|listener| self.reserved.lock().insert(port, listener)).is_ok()
    }

    /// Hands the endpoint of a cluster whose API is to be served to the world, once.
    fn serve(&self, key: &ObjectKey, dev: &DevCluster, cluster: &Cluster) -> Result<(), ReconcileError> {
        let endpoint = dev.spec.control_plane_endpoint.as_ref();
        let port = endpoint.and_then(|endpoint| endpoint.port).filter(|port| *port != 0);
        // Once: a second listener on the same port could only fail.
        let (true, false, Some(port)) = (is_served(dev), self.world.is_served(key), port) else {
            return Ok(());
        };
        let failed = |why: std::io::Error| {
            let cure = "another process may have the port; end it, or delete the Cluster and make it anew";
            ReconcileError::failed(format!("the API of {key} cannot be served on port {port}: {why}; {cure}"))
        };
        let reserved = self.reserved.lock().remove(&port);
        // None is reserved where the object had its port before this process began.
        let listener = reserved.map_or_else(|| listen(port), Ok).map_err(failed)?;
        let facts = kubeadm_facts(cluster, &format!("{HOST}:{port}"));
        self.world.serve(key, ReservedEndpoint::new(listener, facts));
        Ok(())
    }

    async fn delete(&self, key: &ObjectKey, dev: &DevCluster) -> Result<Outcome, ReconcileError> {
        let name = owner_name(dev).unwrap_or_else(|| key.name.clone());
        // The world goes by the Cluster's name; without an owner the two are taken to be alike.
        self.world.remove_cluster(&ObjectKey::new(&key.namespace, name));
        // Before the write: should it fail, the object
        // in the cache still keeps its port from others.
        self.give_back(key);
        let mut after = dev.clone();
        release(&mut after.metadata, [finalizer::DEV_CLUSTER, finalizer::FORMER_DEV_CLUSTER]);
        self.writer.patch(dev, &after, &Precondition::unchanged(dev), Mode::Real).await?;
        Ok(Outcome::Done)
    }
}

fn port_of(dev: &DevCluster) -> Option<i32> {
    dev.spec.control_plane_endpoint.as_ref()?.port
}

/// What kubeadm is told of a Cluster; where that says nothing, kubeadm's defaults and usual ranges.
fn kubeadm_facts(cluster: &Cluster, endpoint: &str) -> InitFacts {
    let network = cluster.spec.cluster_network.as_ref();
    let ranges = |ranges: Option<&NetworkRanges>, otherwise: &str| {
        let blocks = ranges.map(|ranges| ranges.cidr_blocks.join(",")).filter(|blocks| !blocks.is_empty());
        blocks.unwrap_or_else(|| otherwise.to_owned())
    };
    InitFacts {
        name: cluster.metadata.name.clone().unwrap_or_default(),
        endpoint: endpoint.to_owned(),
        pod_subnet: ranges(network.and_then(|n| n.pods.as_ref()), "10.244.0.0/16"),
        service_subnet: ranges(network.and_then(|n| n.services.as_ref()), "10.96.0.0/12"),
        dns_domain: network
            .and_then(|n| n.service_domain.clone())
            .unwrap_or_else(|| "cluster.local".to_owned()),
    }
}

fn is_served(dev: &DevCluster) -> bool {
    annotation_of(dev, SERVED_ANNOTATION).is_some()
}

/// Listens on a loopback port; connections wait until it is served.
fn listen(port: i32) -> std::io::Result<TcpListener> {
    let port = u16::try_from(port).map_err(std::io::Error::other)?;
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

fn pause(dev: &DevCluster, cluster: &Cluster) -> DevCondition {
    let annotated = annotation_of(dev, annotation::PAUSED).is_some();
    paused("DevCluster", cluster.spec.paused == Some(true), annotated)
}

fn owner_name(dev: &DevCluster) -> Option<String> {
    let owners = dev.metadata.owner_references.as_ref()?;
    owners.iter().find(|owner| refers_to(owner, CORE_GROUP, "Cluster")).map(|owner| owner.name.clone())
}

#[async_trait]
impl Controller for DevClusters {
    fn name(&self) -> &'static str {
        super::NAMES[0]
    }

    /// Ports that were found free while this process led before may be given out by another one since.
    fn prepare(&self) {
        *self.given.lock() = Given::default();
        self.reserved.lock().clear();
    }

    fn triggers(&self) -> Vec<Trigger> {
        let by_cluster = |cluster: &Cluster| {
            let reference = cluster.spec.infrastructure_ref.as_ref().filter(|r| r.kind == "DevCluster")?;
            Some(ObjectKey::new(cluster.metadata.namespace.clone()?, &reference.name))
        };
        vec![
            Trigger::own(&self.dev_clusters),
            Trigger::on(&self.clusters, move |old, new| {
                let paused = |c: Option<&Cluster>| c.map(|c| c.spec.paused == Some(true));
                // Nothing else of the Cluster matters here, and its status is written often.
                let wakes = paused(old) != paused(new);
                new.or(old).filter(|_| wakes).and_then(by_cluster).into_iter().collect()
            }),
        ]
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(dev) = self.dev_clusters.get(key) else { return Ok(Outcome::Done) };
        let cluster_key = owner_name(&dev).map(|name| ObjectKey::new(&key.namespace, name));
        let cluster = cluster_key.as_ref().and_then(|key| self.clusters.get(key));
        if dev.metadata.deletion_timestamp.is_some() {
            // `clusterctl move` deletes what it has paused: the cluster lives on for its new manager.
            let held = cluster.is_some_and(|cluster| pause(&dev, &cluster).holds);
            return if held { Ok(Outcome::Done) } else { self.delete(key, &dev).await };
        }
        // The Cluster controller sets the owner; its write wakes us.
        let (Some(cluster_key), Some(cluster)) = (cluster_key, cluster) else { return Ok(Outcome::Done) };
        let after = self.desired(key, &dev, &cluster)?;
        if after.status.as_ref().and_then(|s| s.initialization.as_ref()).is_some() {
            // An edit of nothing makes the cluster, so that its connection counts from here on.
            self.world.change(&cluster_key, |_| ());
            self.serve(&cluster_key, &after, &cluster)?;
        }
        self.writer.patch(dev.as_ref(), &after, &Precondition::unchanged(dev.as_ref()), Mode::Real).await?;
        Ok(Outcome::Done)
    }
}
