//! DevMachinePool: keeps as many DevMachines as its MachinePool wants, of the version that it wants. Owns which of them come
//! and go; must not know how one of them lives.
//! Source: `internal/controllers/backends/docker/dockermachinepool_backend.go`, v1.14.2. Difference: upstream has pools of
//! containers only; here each machine is a DevMachine with the in-memory backend.

use std::sync::Arc;

use async_trait::async_trait;

use super::cluster::ONLY_IN_MEMORY;
use super::conditions::{DevCondition, ready, set};
use capi_types::cluster::Cluster;
use capi_types::dev::{DevMachine, DevMachineBackend, DevMachineSpec, InMemoryMachine};
use capi_types::dev_pool::{DevMachinePool, VERSION_ANNOTATION};
use capi_types::key::{ObjectKey, annotation as annotation_of, label as label_of, refers_to};
use capi_types::machine::Machine;
use capi_types::machine_pool::MachinePool;
use capi_types::names::{CORE_GROUP, INFRASTRUCTURE_GROUP, annotation, condition, finalizer, label};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_engine::client::{Cache, Mode, Precondition, Writer};
use capstan_engine::engine::{Controller, Engine, Outcome, ReconcileError, Trigger, controller};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

const HOST_KIND: &str = "DevMachine";
const POOL_KIND: &str = "DevMachinePool";
/// A label holds so many characters; longer names are no label, and such a pool stays empty.
const LABEL_MAX: usize = 63;

pub struct DevMachinePools {
    dev_pools: Cache<DevMachinePool>,
    dev_machines: Cache<DevMachine>,
    pools: Cache<MachinePool>,
    machines: Cache<Machine>,
    clusters: Cache<Cluster>,
    writer: Writer,
    clock: Clock,
    rng: Rng,
}

/// One DevMachinePool with what it hangs on.
struct Scope {
    key: ObjectKey,
    dev: Arc<DevMachinePool>,
    pool: Arc<MachinePool>,
    /// Ordered by name.
    hosts: Vec<Arc<DevMachine>>,
}

impl DevMachinePools {
    pub fn new(engine: &mut Engine) -> Self {
        Self {
            dev_pools: engine.cache(),
            dev_machines: engine.cache(),
            pools: engine.cache(),
            machines: engine.cache(),
            clusters: engine.cache(),
            writer: engine.writer().managed_by("capstan-provider"),
            clock: engine.clock().clone(),
            rng: engine.rng().stream("dev-machine-pool"),
        }
    }

    /// `None` until the MachinePool controller has set the owner.
    fn pool_of(&self, key: &ObjectKey, dev: &DevMachinePool) -> Option<Arc<MachinePool>> {
        let owners = dev.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| refers_to(owner, CORE_GROUP, "MachinePool"))?;
        self.pools.get(&ObjectKey::new(&key.namespace, &owner.name))
    }

    fn scope(&self, key: &ObjectKey, dev: &Arc<DevMachinePool>, pool: Arc<MachinePool>) -> Scope {
        let name = pool.metadata.name.clone().unwrap_or_default();
        let cluster = ObjectKey::new(&key.namespace, &pool.spec.cluster_name);
        let mut hosts = self.dev_machines.of_cluster(&cluster);
        hosts.retain(|host| label_of(host.as_ref(), label::POOL_NAME) == Some(name.as_str()));
        Scope { key: key.clone(), dev: Arc::clone(dev), pool, hosts }
    }

    fn is_paused(&self, scope: &Scope) -> bool {
        let cluster = ObjectKey::new(&scope.key.namespace, &scope.pool.spec.cluster_name);
        let cluster = self.clusters.get(&cluster);
        cluster.is_some_and(|cluster| cluster.spec.paused == Some(true))
            || annotation_of(scope.dev.as_ref(), annotation::PAUSED).is_some()
    }

    /// The Machine that stands for a host, once the MachinePool controller has made it.
    fn machine_of(&self, host: &DevMachine) -> Option<Arc<Machine>> {
        let owners = host.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| refers_to(owner, CORE_GROUP, "Machine"))?;
        let namespace = host.metadata.namespace.clone().unwrap_or_default();
        self.machines.get(&ObjectKey::new(namespace, &owner.name))
    }

    /// Through its Machine, so that its Node is drained; a host without one is left to come up.
    async fn remove(&self, host: &DevMachine) -> Result<(), ReconcileError> {
        let Some(machine) = self.machine_of(host) else { return Ok(()) };
        // A second deletion would change nothing: the Machine drains already.
        if machine.metadata.deletion_timestamp.is_none() {
            // Another Machine may have the name by now.
            let same = Precondition { uid: machine.metadata.uid.clone(), resource_version: None };
            self.writer.delete::<Machine>(&ObjectKey::of(machine.as_ref()), &same, Mode::Real).await?;
        }
        Ok(())
    }

    async fn grow(&self, scope: &Scope, spec: &InMemoryMachine) -> Result<(), ReconcileError> {
        // Outdated ones do not count, so that their successors are there before they go.
        let matching = scope.hosts.iter().filter(|host| is_current(scope, host)).count();
        for _ in matching..wanted(&scope.pool) {
            let name = format!("worker-{}", self.rng.suffix(6));
            // Random names: two that are made in one pass
            // must not collide, nor one with its predecessor.
            self.writer.create(&host(scope, &name, spec), Mode::Real).await?;
        }
        Ok(())
    }

    /// Only while more are ready than wanted: outdated ones first, then those that a person or a scaler marked.
    async fn shrink(&self, scope: &Scope) -> Result<(), ReconcileError> {
        let staying = scope.hosts.iter().filter(|host| host.metadata.deletion_timestamp.is_none());
        let leaves = |host: &DevMachine| {
            self.machine_of(host).is_some_and(|machine| machine.metadata.deletion_timestamp.is_some())
        };
        let mut ready: Vec<&Arc<DevMachine>> =
            // A host that still boots is not a replacement yet; those that leave are not counted any more.
            staying.filter(|host| is_provisioned(host) && !leaves(host)).collect();
        let over = ready.len().saturating_sub(wanted(&scope.pool));
        let is_marked = |host: &DevMachine| {
            let machine = self.machine_of(host);
            machine
                .is_some_and(|machine| annotation_of(machine.as_ref(), annotation::DELETE_MACHINE).is_some())
        };
        // `false` sorts first: outdated ones, and among equals the marked ones.
        ready.sort_by_key(|host| (is_current(scope, host), !is_marked(host)));
        for host in ready.into_iter().take(over) {
            self.remove(host).await?;
        }
        Ok(())
    }

    async fn patch(&self, before: &DevMachinePool, after: &DevMachinePool) -> Result<(), ReconcileError> {
        self.writer.patch(before, after, &Precondition::unchanged(before), Mode::Real).await?;
        Ok(())
    }

    /// Machines first; the object when none of its hosts is left.
    async fn delete(&self, scope: &Scope) -> Result<(), ReconcileError> {
        for host in &scope.hosts {
            if self.machine_of(host).is_some() {
                self.remove(host).await?;
            } else if host.metadata.deletion_timestamp.is_none() {
                // The MachinePool goes as well, so that nobody makes a Machine for it any more.
                let same = Precondition { uid: host.metadata.uid.clone(), resource_version: None };
                self.writer.delete::<DevMachine>(&ObjectKey::of(host.as_ref()), &same, Mode::Real).await?;
            }
        }
        if scope.hosts.is_empty() { self.release(&scope.dev).await } else { Ok(()) }
    }

    async fn release(&self, dev: &DevMachinePool) -> Result<(), ReconcileError> {
        let mut after = dev.clone();
        let finalizers = after.metadata.finalizers.get_or_insert_default();
        finalizers.retain(|held| held != finalizer::DEV_MACHINE_POOL);
        self.patch(dev, &after).await
    }

    /// What the object should be, with the hosts that are there.
    fn desired(&self, scope: &Scope) -> DevMachinePool {
        let (mut after, now) = ((*scope.dev).clone(), self.clock.now());
        let generation = scope.dev.metadata.generation;
        let finalizers = after.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|held| held == finalizer::DEV_MACHINE_POOL) {
            finalizers.push(finalizer::DEV_MACHINE_POOL.to_owned());
        }
        let mut ids: Vec<String> =
            scope.hosts.iter().filter_map(|host| host.spec.provider_id.clone()).collect();
        // A fixed order, since the cache has none and each difference would be a write.
        ids.sort();
        let (wanted, count) = (wanted(&scope.pool), scope.hosts.len());
        let is_complete = ids.len() == wanted && count == wanted;
        let cluster = &scope.pool.spec.cluster_name;
        after.spec.provider_id.get_or_insert_with(|| format!("dev:////{cluster}-dmp-{}", scope.key.name));
        after.spec.provider_id_list = ids;
        let status = after.status.get_or_insert_default();
        status.infrastructure_machine_kind = Some(HOST_KIND.to_owned());
        status.replicas = i32::try_from(count).ok();
        // Once it was complete, it stays ready.
        status.ready = Some(status.ready == Some(true) || is_complete);
        let part = match (in_memory(&scope.dev), status.ready) {
            (None, _) => {
                DevCondition::new(condition::REPLICAS_READY, false, "NotReady").with_message(ONLY_IN_MEMORY)
            }
            (_, Some(true)) => DevCondition::new(condition::REPLICAS_READY, true, "Ready"),
            _ => DevCondition::new(condition::REPLICAS_READY, false, "NotReady")
                .with_message(format!("{count} of {wanted} replicas exist")),
        };
        set(&mut status.conditions, &part, generation, now);
        set(&mut status.conditions, &ready(&[part]), generation, now);
        after
    }
}

fn in_memory(dev: &DevMachinePool) -> Option<&InMemoryMachine> {
    dev.spec.backend.as_ref()?.in_memory.as_ref()
}

fn wanted(pool: &MachinePool) -> usize {
    usize::try_from(pool.spec.replicas.unwrap_or(1)).unwrap_or(0)
}

fn version(pool: &MachinePool) -> &str {
    pool.spec.template.spec.version.as_deref().unwrap_or_default()
}

/// Made for the version that the MachinePool wants now.
fn is_current(scope: &Scope, host: &DevMachine) -> bool {
    annotation_of(host, VERSION_ANNOTATION).unwrap_or_default() == version(&scope.pool)
}

fn is_provisioned(host: &DevMachine) -> bool {
    let initialization = host.status.as_ref().and_then(|s| s.initialization.as_ref());
    initialization.and_then(|i| i.provisioned) == Some(true)
}

/// A new host. Its Machine does not exist yet, so the pool owns it until then, and beside it afterwards.
fn host(scope: &Scope, name: &str, spec: &InMemoryMachine) -> DevMachine {
    let pool = scope.pool.metadata.name.clone().unwrap_or_default();
    let backend = DevMachineBackend { docker: None, in_memory: Some(spec.clone()) };
    let mut host = DevMachine::new(name, DevMachineSpec { backend, provider_id: None });
    host.metadata.namespace = Some(scope.key.namespace.clone());
    host.metadata.labels = Some(
        [
            (label::CLUSTER_NAME.to_owned(), scope.pool.spec.cluster_name.clone()),
            (label::POOL_NAME.to_owned(), pool),
        ]
        .into(),
    );
    host.metadata.annotations =
        Some([(VERSION_ANNOTATION.to_owned(), version(&scope.pool).to_owned())].into());
    host.metadata.owner_references = Some(vec![OwnerReference {
        api_version: format!("{INFRASTRUCTURE_GROUP}/v1beta2"),
        kind: POOL_KIND.to_owned(),
        name: scope.key.name.clone(),
        uid: scope.dev.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    }]);
    host
}

#[async_trait]
impl Controller for DevMachinePools {
    fn name(&self) -> &'static str {
        "dev-machine-pool"
    }

    fn triggers(&self) -> Vec<Trigger> {
        let (dev_pools, pools) = (self.dev_pools.clone(), self.pools.clone());
        vec![
            Trigger::own(&self.dev_pools),
            Trigger::on(&self.pools, |old: Option<&MachinePool>, new| {
                new.or(old).and_then(infrastructure_key).into_iter().collect()
            }),
            Trigger::on(&self.dev_machines, |old: Option<&DevMachine>, new| {
                let of = |host: &DevMachine| controller::owners(host, INFRASTRUCTURE_GROUP, POOL_KIND);
                [old, new].into_iter().flatten().flat_map(of).collect()
            }),
            // A Machine may be marked, or be gone.
            Trigger::on(&self.machines, move |old: Option<&Machine>, new| {
                let Some(machine) = new.or(old) else { return Vec::new() };
                let Some(pool) = label_of(machine, label::POOL_NAME) else { return Vec::new() };
                let namespace = machine.metadata.namespace.clone().unwrap_or_default();
                let pool = pools.get(&ObjectKey::new(namespace, pool));
                pool.as_deref().and_then(infrastructure_key).into_iter().collect()
            }),
            Trigger::on(&self.clusters, move |old: Option<&Cluster>, new| {
                let paused = |c: Option<&Cluster>| c.map(|c| c.spec.paused == Some(true));
                let wakes = paused(old) != paused(new);
                let of = |cluster: &Cluster| {
                    let pools = dev_pools.of_cluster(&ObjectKey::of(cluster));
                    pools.iter().map(|pool| ObjectKey::of(pool.as_ref())).collect()
                };
                new.or(old).filter(|_| wakes).map(of).unwrap_or_default()
            }),
        ]
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(dev) = self.dev_pools.get(key) else { return Ok(Outcome::Done) };
        let Some(pool) = self.pool_of(key, &dev) else {
            if dev.metadata.deletion_timestamp.is_some() {
                self.release(&dev).await?;
            }
            return Ok(Outcome::Done);
        };
        let scope = self.scope(key, &dev, pool);
        if self.is_paused(&scope)
            || scope.pool.metadata.name.as_ref().is_none_or(|name| name.len() > LABEL_MAX)
        {
            return Ok(Outcome::Done);
        }
        if dev.metadata.deletion_timestamp.is_some() {
            return self.delete(&scope).await.map(|()| Outcome::Done);
        }
        // Before there are hosts, since the finalizer has to outlive them.
        self.patch(&dev, &self.desired(&scope)).await?;
        // As for Machines: no host starts before its bootstrap data is there.
        let has_data = scope.pool.spec.template.spec.bootstrap.data_secret_name.is_some();
        if let (true, Some(spec)) = (has_data, in_memory(&dev)) {
            // Successors first: a host leaves only while more are ready than wanted.
            self.grow(&scope, spec).await?;
            self.shrink(&scope).await?;
        }
        Ok(Outcome::Done)
    }
}

fn infrastructure_key(pool: &MachinePool) -> Option<ObjectKey> {
    let reference = &pool.spec.template.spec.infrastructure_ref;
    (reference.kind == POOL_KIND)
        .then(|| ObjectKey::new(pool.metadata.namespace.clone().unwrap_or_default(), &reference.name))
}
