//! HostMachine: claims a Host for a Machine, makes a node of it once, and gives it back clean. Owns the order of these; which Host is
//! claimed says `plan::choice`, what comes next for a run `capstan_hosts::run`.

mod bootstrap;
mod claim;
mod reason;
mod release;
mod report;

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;

use capi_rules::status::conditions::setter;
use capi_rules::status::machine::cluster_provisioned;
use capi_types::cluster::Cluster;
use capi_types::condition::{Condition, Conditioned, is_true};
use capi_types::host::condition::{AVAILABLE, REACHABLE};
use capi_types::host::{HOST_MACHINE_FINALIZER, Host, HostPool};
use capi_types::host_cluster::{EndpointMode, HostCluster};
use capi_types::host_machine::HostMachine;
use capi_types::key::{ObjectKey, annotation as annotation_of, refers_to};
use capi_types::machine::Machine;
use capi_types::names::{CORE_GROUP, annotation, label};
use capstan_base::time::Clock;
use capstan_engine::client::{Cache, Writer, get};
use capstan_engine::engine::{Controller, Engine, Outcome, ReconcileError, Trigger};
use capstan_engine::workload::{Announcement, Workload};
use capstan_hosts::owner::{HostOwner, OwnerError};

use crate::access::Machines;
use crate::reach::{SshReach, reach_of};
use crate::{AT_ONCE, HostSettings, MANAGER, TRY_EVERY};
use report::{MachineReport, Waiting};

pub use bootstrap::plan_of;

pub const NAME: &str = "host-machine";
/// Runs on machines are watched beside each other.
const BESIDE: usize = 32;

pub struct HostMachines {
    host_machines: Cache<HostMachine>,
    hosts: Cache<Host>,
    pools: Cache<HostPool>,
    host_clusters: Cache<HostCluster>,
    machines: Cache<Machine>,
    clusters: Cache<Cluster>,
    shells: Arc<dyn Machines>,
    workload: Arc<dyn Workload>,
    installation: String,
    is_read_only: bool,
    writer: Writer,
    clock: Clock,
}

/// One HostMachine with the objects that it hangs on.
struct Scope {
    key: ObjectKey,
    own: Arc<HostMachine>,
    machine: Arc<Machine>,
    cluster: Arc<Cluster>,
    cluster_key: ObjectKey,
}

impl Scope {
    fn uid(&self) -> &str {
        self.own.use_uid()
    }

    fn is_control_plane(&self) -> bool {
        self.machine.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label::CONTROL_PLANE))
    }

    fn paused(&self) -> Condition {
        let is_annotated = annotation_of(self.own.as_ref(), annotation::PAUSED).is_some();
        setter::paused("HostMachine", self.cluster.spec.paused == Some(true), is_annotated)
    }

    fn is_paused(&self) -> bool {
        self.paused().status == "True"
    }
}

impl HostMachines {
    pub fn new(
        engine: &mut Engine,
        shells: Arc<dyn Machines>,
        workload: Arc<dyn Workload>,
        settings: &HostSettings,
    ) -> Self {
        Self {
            host_machines: engine.cache(),
            hosts: engine.cache(),
            pools: engine.cache(),
            host_clusters: engine.cache(),
            machines: engine.cache(),
            clusters: engine.cache(),
            shells,
            workload,
            installation: settings.installation.clone(),
            is_read_only: settings.read_only,
            writer: engine.writer().managed_by(MANAGER),
            clock: engine.clock().clone(),
        }
    }

    /// `None` until the Machine controller has set the owner.
    fn scope(&self, key: &ObjectKey, own: &Arc<HostMachine>) -> Option<Scope> {
        let owners = own.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| refers_to(owner, CORE_GROUP, "Machine"))?;
        let machine = self.machines.get(&ObjectKey::new(&key.namespace, &owner.name))?;
        let cluster_key = ObjectKey::new(&key.namespace, &machine.spec.cluster_name);
        let cluster = self.clusters.get(&cluster_key)?;
        Some(Scope { key: key.clone(), own: Arc::clone(own), machine, cluster, cluster_key })
    }

    /// The Host that a HostMachine has. The claim names the use, which a move to another server leaves as it is; the name keeps
    /// another HostMachine out that was made with the same provider ID.
    fn host_of(&self, own: &HostMachine, namespace: &str) -> Option<Arc<Host>> {
        let is_its = |host: &Host| {
            host.spec.consumer_ref.as_ref().is_some_and(|consumer| {
                consumer.uid == own.use_uid() && Some(&consumer.name) == own.metadata.name.as_ref()
            })
        };
        self.hosts.select(namespace, is_its).into_iter().next()
    }

    fn reach(&self, host: &Host) -> Result<SshReach, Waiting> {
        if host.status.as_ref().is_none_or(|status| status.facts.is_none()) {
            // Whether it needs sudo, and its hostname, are lost with its status, as by a move to another server.
            let why = "no look at the machine has succeeded yet";
            return Err(Waiting::moment("HostNotLookedAt", why, TRY_EVERY));
        }
        let namespace = host.metadata.namespace.clone().unwrap_or_default();
        let pool = host.spec.pool.as_ref().and_then(|pool| self.pools.get(&ObjectKey::new(namespace, pool)));
        reach_of(host, pool.as_deref()).map_err(|error| Waiting::person("NotValid", error.to_string()))
    }

    /// What the owner file says of this use of the Host.
    fn owner(&self, own: &HostMachine, host: &Host, cluster: &str) -> Result<HostOwner, OwnerError> {
        let generation =
            own.status.as_ref().and_then(|status| status.host_ref.as_ref()).map_or(1, |it| it.generation);
        let (host, machine) = own
            .claimed_uids()
            .unwrap_or_else(|| (host.metadata.uid.as_deref().unwrap_or_default(), own.use_uid()));
        let generation = u64::try_from(generation).unwrap_or(1).max(1);
        HostOwner::new(&self.installation, host, machine, cluster, generation)
    }

    /// The Host at the endpoint of the HostCluster, where one Host is the endpoint.
    fn endpoint_host(&self, scope: &Scope) -> Option<String> {
        let reference =
            scope.cluster.spec.infrastructure_ref.as_ref().filter(|it| it.kind == "HostCluster")?;
        let cluster = self.host_clusters.get(&ObjectKey::new(&scope.key.namespace, &reference.name))?;
        let endpoint = cluster.spec.endpoint.as_ref().filter(|it| it.mode() == EndpointMode::SingleHost)?;
        endpoint.host_name.clone()
    }

    async fn data(&self, scope: &Scope) -> Result<Option<String>, ReconcileError> {
        let Some(name) = &scope.machine.spec.bootstrap.data_secret_name else { return Ok(None) };
        let key = ObjectKey::new(&scope.key.namespace, name);
        let secret: Option<Secret> = get(self.writer.client(), &key).await?;
        let value = secret.and_then(|mut secret| secret.data.as_mut()?.remove("value"));
        Ok(value.and_then(|bytes| String::from_utf8(bytes.0).ok()))
    }

    /// Claim, node, report: what is there already is not done again.
    async fn live(&self, scope: &Scope) -> Result<Outcome, ReconcileError> {
        let mut report = MachineReport::of(&scope.own, self.clock.now());
        report.set(&scope.paused());
        if report.hold_finalizer(HOST_MACHINE_FINALIZER) {
            // It is stored before anything is claimed: what goes without it would leave its Host claimed for good.
            return self.finish(report, Outcome::RequeueAfter(AT_ONCE)).await;
        }
        if scope.is_paused() {
            return self.finish(report, Outcome::Done).await;
        }
        if report.is_provisioned() {
            let host = self.host_of(&scope.own, &scope.key.namespace);
            let outcome = self.kept(scope, host.as_deref(), &mut report).await;
            return self.finish(report, outcome).await;
        }
        let outcome = match self.grow(scope, &mut report).await? {
            Ok(outcome) => outcome,
            Err(waiting) => report.wait(waiting),
        };
        self.finish(report, outcome).await
    }

    async fn grow(
        &self,
        scope: &Scope,
        report: &mut MachineReport,
    ) -> Result<Result<Outcome, Waiting>, ReconcileError> {
        if !cluster_provisioned(&scope.cluster) {
            return Ok(Err(Waiting::trigger(
                "WaitingForClusterInfrastructure",
                "the Cluster's infrastructure is not ready",
            )));
        }
        let Some(data) = self.data(scope).await? else { return Ok(Err(waiting_for_data(scope))) };
        let claimed = match self.claimed(scope, report).await? {
            Ok(claimed) => claimed,
            Err(waiting) => return Ok(Err(waiting)),
        };
        self.bootstrapped(scope, &claimed, &data, report).await
    }

    async fn finish(&self, report: MachineReport, outcome: Outcome) -> Result<Outcome, ReconcileError> {
        report.write(&self.writer).await?;
        Ok(outcome)
    }
}

#[async_trait]
impl Controller for HostMachines {
    fn name(&self) -> &'static str {
        NAME
    }

    fn triggers(&self) -> Vec<Trigger> {
        let (by_cluster, by_host, by_node) =
            (self.host_machines.clone(), self.host_machines.clone(), self.host_machines.clone());
        let of_cluster = |all: &Cache<HostMachine>, cluster: &ObjectKey| -> Vec<ObjectKey> {
            all.of_cluster(cluster).iter().map(|own| ObjectKey::of(own.as_ref())).collect()
        };
        vec![
            Trigger::own(&self.host_machines),
            Trigger::on(&self.machines, |old: Option<&Machine>, new| {
                new.or(old).and_then(infrastructure_key).into_iter().collect()
            }),
            Trigger::on(&self.clusters, move |old: Option<&Cluster>, new| {
                let gates = |cluster: &Cluster| (cluster.spec.paused, cluster_provisioned(cluster));
                let wakes = old.map(gates) != new.map(gates);
                new.filter(|_| wakes)
                    .map(|it| of_cluster(&by_cluster, &ObjectKey::of(it)))
                    .unwrap_or_default()
            }),
            // A Host that became available is for those that wait for one; otherwise it is its user's.
            Trigger::on(&self.hosts, move |old: Option<&Host>, new| woken_by_host(&by_host, old, new)),
            Trigger::announced(self.workload.changes(), Announcement::Missed, move |announcement| {
                match announcement {
                    Announcement::Cluster(key) => {
                        by_node.of_cluster(key).iter().map(|own| ObjectKey::of(own.as_ref())).collect()
                    }
                    Announcement::Node { .. } => Vec::new(),
                    Announcement::Missed => {
                        by_node.list().iter().map(|own| ObjectKey::of(own.as_ref())).collect()
                    }
                }
            }),
        ]
    }

    fn concurrency(&self) -> usize {
        BESIDE
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(own) = self.host_machines.get(key) else { return Ok(Outcome::Done) };
        let scope = self.scope(key, &own);
        if own.metadata.deletion_timestamp.is_some() {
            // `clusterctl move` deletes what it has paused: the machine lives on for its new manager.
            let is_paused = scope.as_ref().is_some_and(Scope::is_paused);
            return if is_paused { Ok(Outcome::Done) } else { self.release(key, &own).await };
        }
        match scope {
            Some(scope) => self.live(&scope).await,
            None => Ok(Outcome::Done),
        }
    }
}

/// A change of the Machine starts another run; no trigger watches Secrets, so one that comes after its name is looked for.
fn waiting_for_data(scope: &Scope) -> Waiting {
    const REASON: &str = "WaitingForBootstrapData";
    match &scope.machine.spec.bootstrap.data_secret_name {
        None => Waiting::trigger(REASON, "the bootstrap data is not there yet"),
        Some(name) => Waiting::moment(REASON, format!("Secret {name} has no bootstrap data yet"), TRY_EVERY),
    }
}

fn infrastructure_key(machine: &Machine) -> Option<ObjectKey> {
    let reference = &machine.spec.infrastructure_ref;
    (reference.kind == "HostMachine")
        .then(|| ObjectKey::new(machine.metadata.namespace.clone().unwrap_or_default(), &reference.name))
}

fn woken_by_host(all: &Cache<HostMachine>, old: Option<&Host>, new: Option<&Host>) -> Vec<ObjectKey> {
    let facts = |host: &Host| {
        (
            is_true(host.conditions(), AVAILABLE),
            is_true(host.conditions(), REACHABLE),
            host.spec.clone(),
            host.metadata.annotations.clone(),
        )
    };
    if old.map(facts) == new.map(facts) {
        return Vec::new();
    }
    let Some(host) = new.or(old) else { return Vec::new() };
    let consumers = [old, new].into_iter().flatten().filter_map(|host| host.spec.consumer_ref.as_ref());
    let uids: Vec<&str> = consumers.map(|consumer| consumer.uid.as_str()).collect();
    let namespace = host.metadata.namespace.clone().unwrap_or_default();
    let waits = |own: &HostMachine| {
        let is_its = uids.contains(&own.use_uid());
        is_its || own.status.as_ref().is_none_or(|status| status.host_ref.is_none())
    };
    all.select(&namespace, waits).iter().map(|own| ObjectKey::of(own.as_ref())).collect()
}
