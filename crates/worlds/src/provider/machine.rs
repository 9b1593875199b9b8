//! DevMachine: powers simulated machines on and off and reports how far they are. Owns the object's
//! fields and the order of prerequisites; when something comes up is the world's business.
//! Source: `internal/controllers/backends/inmemory/devmachine_backend.go`, v1.14.2.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::boot;
use super::boot_data::BootData;
use super::cluster::ONLY_IN_MEMORY;
use super::conditions::{DevCondition, paused, ready, set};
use super::finalizers::{hold, release};
use super::sim_cluster::SimMachine;
use super::tenants::TenantSpec;
use super::world::World;
use capi_types::bootstrap::KubeadmConfig;
use capi_types::cluster::Cluster;
use capi_types::condition::{self as conditions, find};
use capi_types::dev::{
    DevMachine, FAULTS_ANNOTATION, HOLD_ANNOTATION, HOST_ANNOTATION, Host, InMemoryMachine,
    InfrastructureInitialization, MEMORY_ANNOTATION, PODS_ANNOTATION,
};
use capi_types::dev_pool::VERSION_ANNOTATION;
use capi_types::key::{ObjectKey, annotation as annotation_of, cluster_label, refers_to};
use capi_types::machine::{Machine, MachineAddress};
use capi_types::names::{CORE_GROUP, annotation, condition, finalizer, label};
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp, from_k8s};
use capstan_engine::client::{Cache, Mode, Precondition, Writer};
use capstan_engine::engine::{Controller, Engine, Outcome, ReconcileError, Trigger};
use capstan_engine::workload::Announcement;
use capstan_physics::boot::{Boot, BootStage, Delays};
use capstan_physics::etcd::Member;

/// On the Machine, which keeps it when it moves to another management cluster: all phases are over, so the delays are
/// not waited for again.
const BOOTSTRAPPED: &str = "machine.inmemory.infrastructure.cluster.x-k8s.io/bootstrapped";
pub struct DevMachines {
    dev_machines: Cache<DevMachine>,
    machines: Cache<Machine>,
    clusters: Cache<Cluster>,
    configs: Cache<KubeadmConfig>,
    world: Arc<World>,
    writer: Writer,
    clock: Clock,
}

/// One DevMachine with the objects it hangs on.
struct Scope {
    key: ObjectKey,
    dev: Arc<DevMachine>,
    machine: Arc<Machine>,
    cluster: Arc<Cluster>,
    cluster_key: ObjectKey,
}

impl Scope {
    fn pause(&self) -> DevCondition {
        let annotated = annotation_of(self.dev.as_ref(), annotation::PAUSED).is_some();
        paused("DevMachine", self.cluster.spec.paused == Some(true), annotated)
    }

    /// A Machine of a pool has none of its own before its Node is there.
    fn version(&self) -> String {
        let of_pool = annotation_of(self.dev.as_ref(), VERSION_ANNOTATION).map(str::to_owned);
        of_pool.or_else(|| self.machine.spec.version.clone()).unwrap_or_default()
    }
}

/// The state of one machine in the world.
struct Seen {
    boot: Boot,
    member: Option<Member>,
    addresses: Vec<(&'static str, String)>,
    host: Host,
}

impl DevMachines {
    pub fn new(engine: &mut Engine, world: Arc<World>) -> Self {
        Self {
            dev_machines: engine.cache(),
            machines: engine.cache(),
            clusters: engine.cache(),
            configs: engine.cache(),
            world,
            writer: engine.writer().managed_by("capstan-provider"),
            clock: engine.clock().clone(),
        }
    }

    /// `None` until the Machine controller has set the owner.
    fn scope(&self, key: &ObjectKey, dev: &Arc<DevMachine>) -> Option<Scope> {
        let owner =
            dev.metadata.owner_references.iter().flatten().find(|o| refers_to(o, CORE_GROUP, "Machine"))?;
        let machine = self.machines.get(&ObjectKey::new(&key.namespace, &owner.name))?;
        let cluster_key = ObjectKey::new(&key.namespace, &machine.spec.cluster_name);
        let cluster = self.clusters.get(&cluster_key)?;
        Some(Scope { key: key.clone(), dev: Arc::clone(dev), machine, cluster, cluster_key })
    }

    /// Puts the machine into the world, or brings its facts up to date, and looks at it.
    fn power_on(&self, scope: &Scope, spec: &InMemoryMachine) -> Option<Seen> {
        let (hold, version) = (held_at(&scope.dev), scope.version());
        let name = scope.key.name.as_str();
        // Read first: a change is announced, and would wake this very controller again.
        let up_to_date = self.world.read(&scope.cluster_key, |sim, _| {
            sim.machine(name).map(|machine| machine.boot.hold == hold && machine.version == version)
        });
        match up_to_date.flatten() {
            // Not only new ones: after a restart `prepare`
            // leaves out those whose owner was not cached.
            None => self.restore(scope, spec),
            Some(true) => {}
            Some(false) => {
                self.world.change(&scope.cluster_key, |sim| sim.set_machine_facts(name, hold, version));
            }
        }
        self.update_host(scope);
        self.update_faults(scope);
        self.look(scope)
    }

    /// Makes of the host what its object notes.
    fn update_host(&self, scope: &Scope) {
        let (name, Some(noted)) = (scope.key.name.as_str(), noted_host(&scope.dev)) else { return };
        let is = self.world.read(&scope.cluster_key, |sim, _| sim.machine(name).and_then(|m| m.host.clone()));
        // Before its node is up a machine has no host to change; a later look finds the difference.
        if is.flatten().is_some_and(|is| is != noted) {
            self.world.change(&scope.cluster_key, |sim| sim.set_host(name, noted));
        }
    }

    /// Has the host do wrong what its object says.
    fn update_faults(&self, scope: &Scope) {
        let (name, wanted) = (scope.key.name.as_str(), faults_of(&scope.dev));
        let is = self.world.read(&scope.cluster_key, |sim, _| sim.machine(name).map(|m| m.faults.clone()));
        if is.flatten().is_some_and(|is| is != wanted) {
            let now = self.clock.now();
            self.world.change(&scope.cluster_key, |sim| sim.set_host_faults(name, &wanted, now));
        }
    }

    fn look(&self, scope: &Scope) -> Option<Seen> {
        let look = self.world.read(&scope.cluster_key, |sim, _| {
            let machine = sim.machine(&scope.key.name)?;
            let member = sim.etcd.member(&scope.key.name).cloned();
            let (boot, addresses) = (machine.boot.clone(), machine.addresses.clone());
            Some(Seen { boot, member, addresses, host: machine.host() })
        });
        look.flatten()
    }

    fn sim_machine(&self, scope: &Scope, spec: &InMemoryMachine) -> SimMachine {
        let uid = scope.dev.metadata.uid.clone().unwrap_or_default();
        let control_plane = is_control_plane(&scope.machine);
        let delays = match is_bootstrapped(&scope.machine) {
            // Up once already, here or under another
            // management cluster: nothing is waited for again.
            true => Delays::default(),
            false => boot::delays(spec, &uid, self.world.rng(), self.world.time_scale()),
        };
        let mut boot = Boot::new(self.clock.now(), delays, control_plane);
        // Set before the first look, or a stage without delay would already be past it.
        boot.hold = held_at(&scope.dev);
        SimMachine {
            boot,
            provider_id: provider_id(&scope.key.name),
            version: scope.version(),
            host: noted_host(&scope.dev),
            memory: annotation_of(scope.dev.as_ref(), MEMORY_ANNOTATION).map(str::to_owned),
            control_plane,
            addresses: addresses(&scope.key.name, &uid),
            // From the uid alone, so that it is the same in every process.
            tenants: tenants(&scope.dev),
            boot_data: self.boot_data(scope),
            faults: String::new(),
            // From the uid for the same reason; etcd does not give the ID 0 to a member.
            member_id: Rng::seeded(0).stream(&uid).below(u64::MAX - 1) + 1,
        }
    }

    /// What the Machine's KubeadmConfig says.
    fn boot_data(&self, scope: &Scope) -> BootData {
        let reference = scope.machine.spec.bootstrap.config_ref.as_ref();
        let named = reference.filter(|reference| reference.kind == "KubeadmConfig");
        let key = named.map(|reference| ObjectKey::new(&scope.key.namespace, &reference.name));
        let config = key.and_then(|key| self.configs.get(&key));
        config.map(|config| BootData::of(&config.spec)).unwrap_or_default()
    }

    /// What the object should be, and when to look again.
    fn desired(&self, scope: &Scope) -> (DevMachine, Outcome) {
        let (mut after, now, generation) =
            ((*scope.dev).clone(), self.clock.now(), scope.dev.metadata.generation);
        hold(&mut after.metadata, finalizer::DEV_MACHINE, finalizer::FORMER_DEV_MACHINE);
        let pause = scope.pause();
        set(&mut after.status.get_or_insert_default().conditions, &pause, generation, now);
        if pause.holds {
            return (after, Outcome::Done);
        }
        let (conditions, outcome) = match &scope.dev.spec.backend.in_memory {
            None => (
                vec![
                    DevCondition::new("ContainerProvisioned", false, "NotProvisioned")
                        .with_message(ONLY_IN_MEMORY),
                ],
                Outcome::Done,
            ),
            Some(spec) => self.in_memory(scope, spec, &mut after),
        };
        let status = after.status.get_or_insert_default();
        for condition in &conditions {
            set(&mut status.conditions, condition, generation, now);
        }
        set(&mut status.conditions, &ready(&conditions), generation, now);
        (after, outcome)
    }

    fn in_memory(
        &self,
        scope: &Scope,
        spec: &InMemoryMachine,
        after: &mut DevMachine,
    ) -> (Vec<DevCondition>, Outcome) {
        let stages = BootStage::of_host(is_control_plane(&scope.machine));
        // No look again: what is missing is in objects whose changes trigger.
        if let Some(missing) = missing_prerequisite(scope) {
            return (stages.iter().map(|stage| condition(*stage, None, missing)).collect(), Outcome::Done);
        }
        let Some(seen) = self.power_on(scope, spec) else { return (Vec::new(), Outcome::Done) };
        fill(after, scope, &seen);
        let conditions =
            stages.iter().map(|stage| condition(*stage, Some(&seen.boot), WAITING_FOR_TIMEOUT)).collect();
        // The world's clockwork leaves boots out, so the next look is asked for here.
        let wait = seen.boot.next_due().map(|(due, _)| (due - self.clock.now()).to_std().unwrap_or_default());
        (conditions, wait.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    async fn delete(&self, key: &ObjectKey, dev: &DevMachine) -> Result<Outcome, ReconcileError> {
        match cluster_label(dev) {
            // The label outlives the owners: the Machine may be gone by now.
            Some(cluster) => {
                self.world.remove_machine(&ObjectKey::new(&key.namespace, cluster), &key.name);
            }
            // Without the label nothing says which cluster: all of the namespace are searched.
            None => self.world.forget_machine(key),
        }
        let mut after = dev.clone();
        release(&mut after.metadata, [finalizer::DEV_MACHINE, finalizer::FORMER_DEV_MACHINE]);
        self.writer.patch(dev, &after, &Precondition::unchanged(dev), Mode::Real).await?;
        Ok(Outcome::Done)
    }

    /// Notes on the Machine that its host is up.
    async fn mark(&self, scope: &Scope) -> Result<(), ReconcileError> {
        let complete = self.look(scope).is_some_and(|seen| seen.boot.complete());
        if !complete || is_bootstrapped(&scope.machine) || scope.pause().holds {
            return Ok(());
        }
        let mut after = (*scope.machine).clone();
        after.metadata.annotations.get_or_insert_default().insert(BOOTSTRAPPED.to_owned(), String::new());
        // Of this very Machine, at any version: the mark touches nothing that others write.
        let same = Precondition { uid: scope.machine.metadata.uid.clone(), resource_version: None };
        match self.writer.patch(scope.machine.as_ref(), &after, &same, Mode::Real).await {
            // A Machine that went meanwhile needs no mark.
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Puts the machine into the world as its object's status remembers it; a new one has nothing to
    /// remember.
    fn restore(&self, scope: &Scope, spec: &InMemoryMachine) {
        let up = stages_up(&scope.dev);
        let machine = self.sim_machine(scope, spec);
        // Before the machine: coming up would join as a
        // new member, and a removed one would be back.
        let member = remembered_member(&scope.dev, machine.member_id);
        self.world.change(&scope.cluster_key, |sim| {
            if let Some(member) = member {
                sim.etcd.restore(&scope.key.name, member);
            }
            sim.restore_machine(&scope.key.name, machine, &up);
        });
    }
}

const WAITING_FOR_TIMEOUT: &str = "WaitingForStartupTimeout";

/// The first thing that keeps the machine from being powered on, as the reason of `VMProvisioned`.
/// A machine that is on stays on.
fn missing_prerequisite(scope: &Scope) -> Option<&'static str> {
    let status = scope.cluster.status.as_ref();
    let infrastructure =
        status.and_then(|s| s.initialization.as_ref()).and_then(|i| i.infrastructure_provisioned);
    // The order of upstream's checks, which decides which reason is shown.
    if infrastructure != Some(true) {
        return Some("WaitingForClusterInfrastructureReady");
    }
    if scope.machine.spec.bootstrap.data_secret_name.is_some() {
        return None;
    }
    let initialized =
        status.is_some_and(|s| conditions::is_true(&s.conditions, condition::CONTROL_PLANE_INITIALIZED));
    if !is_control_plane(&scope.machine) && !initialized {
        return Some("WaitingForControlPlaneInitialized");
    }
    Some("WaitingForBootstrapData")
}

/// The condition of one stage. `reason` is for the stage that is being waited for.
fn condition(stage: BootStage, boot: Option<&Boot>, reason: &'static str) -> DevCondition {
    let type_ = match stage {
        BootStage::Bootstrap | BootStage::Host => condition::VM_PROVISIONED,
        BootStage::Node => condition::NODE_PROVISIONED,
        BootStage::Etcd => condition::ETCD_PROVISIONED,
        BootStage::ApiServer => condition::API_SERVER_PROVISIONED,
    };
    let up = |stage: BootStage| boot.is_some_and(|b| b.since(stage).is_some());
    // Of a host that is up, nothing before it is asked.
    if up(stage) {
        return DevCondition::new(type_, true, "Provisioned");
    }
    let reason = match stage {
        BootStage::Bootstrap | BootStage::Host => reason,
        // A later stage names the one that it waits for, not its own timeout.
        _ if !up(BootStage::Host) => "WaitingForVMProvisioned",
        BootStage::Etcd | BootStage::ApiServer if !up(BootStage::Node) => "WaitingForNodeProvisioned",
        _ => WAITING_FOR_TIMEOUT,
    };
    DevCondition::new(type_, false, reason)
}

/// The status of the object of a machine that is on.
fn fill(after: &mut DevMachine, scope: &Scope, seen: &Seen) {
    let mut notes = notes(seen);
    notes.extend(host_note(&scope.dev, seen));
    if !notes.is_empty() {
        after.metadata.annotations.get_or_insert_default().extend(notes);
    }
    // Without a provider ID the Machine does not count as provisioned.
    if seen.boot.since(BootStage::Host).is_none() {
        return;
    }
    after.spec.provider_id = Some(provider_id(&scope.key.name));
    let status = after.status.get_or_insert_default();
    status.initialization = Some(InfrastructureInitialization { provisioned: Some(true) });
    status.failure_domain.clone_from(&scope.machine.spec.failure_domain);
    status.addresses = seen
        .addresses
        .iter()
        .map(|(type_, address)| MachineAddress { type_: (*type_).to_owned(), address: address.clone() })
        .collect();
}

/// What the object must remember for the next process.
fn notes(seen: &Seen) -> Vec<(String, String)> {
    let mut notes = Vec::new();
    if let Some(member) = &seen.member {
        notes.push((annotation::SIMULATED_MEMBER_ID.to_owned(), member.id.to_string()));
        // 0 says that the member never led.
        if member.leader_term > 0 {
            notes.push((annotation::SIMULATED_LEADER_FROM.to_owned(), member.leader_term.to_string()));
        }
        if member.is_removed {
            notes.push((annotation::SIMULATED_MEMBER_REMOVED.to_owned(), String::new()));
        }
    }
    notes
}

/// From the beginning of an update in place on, the objects say what the host should become.
fn host_note(dev: &DevMachine, seen: &Seen) -> Option<(String, String)> {
    let begins = annotation_of(dev, annotation::UPDATE_IN_PROGRESS).is_some()
        && annotation_of(dev, HOST_ANNOTATION).is_none()
        && seen.boot.since(BootStage::Node).is_some();
    let host = begins.then(|| serde_json::to_string(&seen.host).ok())??;
    Some((HOST_ANNOTATION.to_owned(), host))
}

fn noted_host(dev: &DevMachine) -> Option<Host> {
    let text = annotation_of(dev, HOST_ANNOTATION)?;
    let noted = serde_json::from_str(text);
    noted
        .inspect_err(|error| {
            let key = ObjectKey::of(dev);
            tracing::warn!("annotation {HOST_ANNOTATION} of DevMachine {key} is not used: {error}");
        })
        .ok()
}

fn is_bootstrapped(machine: &Machine) -> bool {
    annotation_of(machine, BOOTSTRAPPED).is_some()
}

fn is_control_plane(machine: &Machine) -> bool {
    machine.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label::CONTROL_PLANE))
}

fn provider_id(name: &str) -> String {
    format!("in-memory://{name}")
}

fn held_at(dev: &DevMachine) -> Option<BootStage> {
    let wanted = annotation_of(dev, HOLD_ANNOTATION)?;
    // An unknown word holds nothing.
    BootStage::of_host(true).iter().copied().find(|stage| boot::name(*stage) == wanted)
}

fn faults_of(dev: &DevMachine) -> String {
    annotation_of(dev, FAULTS_ANNOTATION).unwrap_or_default().to_owned()
}

fn tenants(dev: &DevMachine) -> Vec<TenantSpec> {
    let Some(text) = annotation_of(dev, PODS_ANNOTATION) else { return Vec::new() };
    TenantSpec::parse(text).unwrap_or_else(|error| {
        let key = ObjectKey::of(dev);
        tracing::warn!("annotation {PODS_ANNOTATION} of DevMachine {key} is not used: {error}");
        Vec::new()
    })
}

/// A private address made from the uid, and the name. Difference: upstream's backend reports none.
fn addresses(name: &str, uid: &str) -> Vec<(&'static str, String)> {
    let host = Rng::seeded(1).stream(uid).below(1 << 24);
    // The first byte is 0, in place of which 10 stands.
    let [_, a, b, c] = u32::try_from(host).unwrap_or(1).to_be_bytes();
    vec![("InternalIP", format!("10.{a}.{b}.{c}")), ("Hostname", name.to_owned())]
}

/// The stages whose conditions are True, with the time they turned.
fn stages_up(dev: &DevMachine) -> Vec<(BootStage, Timestamp)> {
    let Some(status) = &dev.status else { return Vec::new() };
    let since = |stage: BootStage| {
        let known = find(&status.conditions, condition(stage, None, "").type_)?;
        (known.status == "True").then(|| (stage, from_k8s(&known.last_transition_time)))
    };
    BootStage::of_host(true).iter().copied().filter_map(since).collect()
}

fn remembered_member(dev: &DevMachine, id: u64) -> Option<Member> {
    // Only its presence matters: the number is made from the uid again.
    annotation_of(dev, annotation::SIMULATED_MEMBER_ID)?;
    Some(Member {
        leader_term: annotation_of(dev, annotation::SIMULATED_LEADER_FROM)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0),
        is_removed: annotation_of(dev, annotation::SIMULATED_MEMBER_REMOVED).is_some(),
        ..Member::new(id)
    })
}

#[async_trait]
impl Controller for DevMachines {
    fn name(&self) -> &'static str {
        super::NAMES[1]
    }

    /// Rebuilds the world from the objects' statuses: machines that were up are up, also those that another process
    /// simulated until now. An etcd elects while nobody looks: which member led may be noted nowhere.
    fn prepare(&self) {
        self.world.begin_anew();
        let mut clusters = BTreeSet::new();
        for dev in self.dev_machines.list() {
            // New ones boot at their own reconcile; one that is going need not come up for that.
            let gone_or_new = dev.metadata.deletion_timestamp.is_some() || stages_up(&dev).is_empty();
            if !gone_or_new
                && let Some(spec) = &dev.spec.backend.in_memory
                && let Some(scope) = self.scope(&ObjectKey::of(dev.as_ref()), &dev)
            {
                self.restore(&scope, spec);
                clusters.insert(scope.cluster_key);
            }
        }
        // After every member is back, or the first would win alone.
        for cluster in clusters {
            self.world.change(&cluster, |sim| sim.etcd.elect());
        }
    }

    fn triggers(&self) -> Vec<Trigger> {
        let of_cluster = |dev_machines: &Cache<DevMachine>, cluster: &ObjectKey| -> Vec<ObjectKey> {
            dev_machines.of_cluster(cluster).iter().map(|dev| ObjectKey::of(dev.as_ref())).collect()
        };
        let (by_cluster, by_world) = (self.dev_machines.clone(), self.dev_machines.clone());
        vec![
            Trigger::own(&self.dev_machines),
            Trigger::on(&self.machines, |old: Option<&Machine>, new| {
                new.or(old).and_then(infrastructure_key).into_iter().collect()
            }),
            Trigger::on(&self.clusters, move |old, new| {
                // A Cluster's status changes often, and each change would wake all of its machines.
                let wakes = old.map(gates) != new.map(gates);
                new.filter(|_| wakes).map(|c| of_cluster(&by_cluster, &ObjectKey::of(c))).unwrap_or_default()
            }),
            // Only control planes have something to note that others may change: member and leader.
            Trigger::announced(self.world.subscribe(), Announcement::Missed, move |announcement| {
                let mut members = match announcement {
                    Announcement::Cluster(key) => by_world.of_cluster(key),
                    // A Node is nothing that the object reports.
                    Announcement::Node { .. } => Vec::new(),
                    Announcement::Missed => by_world.list(),
                };
                members.retain(|dev| {
                    dev.metadata.labels.iter().flatten().any(|(l, _)| l == label::CONTROL_PLANE)
                });
                members.iter().map(|dev| ObjectKey::of(dev.as_ref())).collect()
            }),
        ]
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(dev) = self.dev_machines.get(key) else {
            self.world.forget_machine(key);
            return Ok(Outcome::Done);
        };
        let scope = self.scope(key, &dev);
        if dev.metadata.deletion_timestamp.is_some() {
            // `clusterctl move` deletes what it has paused: the machine lives on for its new manager.
            let held = scope.is_some_and(|scope| scope.pause().holds);
            return if held { Ok(Outcome::Done) } else { self.delete(key, &dev).await };
        }
        let Some(scope) = scope else { return Ok(Outcome::Done) };
        let (after, outcome) = self.desired(&scope);
        self.writer.patch(dev.as_ref(), &after, &Precondition::unchanged(dev.as_ref()), Mode::Real).await?;
        // After the status: the mark says that all of it was reported.
        self.mark(&scope).await?;
        Ok(outcome)
    }
}

fn infrastructure_key(machine: &Machine) -> Option<ObjectKey> {
    let reference = &machine.spec.infrastructure_ref;
    (reference.kind == "DevMachine")
        .then(|| ObjectKey::new(machine.metadata.namespace.clone().unwrap_or_default(), &reference.name))
}

/// What about a Cluster lets machines go on: pause, infrastructure, control plane.
fn gates(cluster: &Cluster) -> (bool, bool, bool) {
    let status = cluster.status.as_ref();
    (
        cluster.spec.paused == Some(true),
        status.and_then(|s| s.initialization.as_ref()).and_then(|i| i.infrastructure_provisioned)
            == Some(true),
        status.is_some_and(|s| conditions::is_true(&s.conditions, condition::CONTROL_PLANE_INITIALIZED)),
    )
}
