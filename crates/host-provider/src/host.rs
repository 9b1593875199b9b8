//! Host: looks at a machine now and then, and says what is true of it. Owns when it is looked at and what of the answer is kept; what
//! it means says `plan::host`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use capi_rules::status::conditions::setter::Draft;
use capi_types::condition::is_true;
use capi_types::host::condition::PRIVILEGED;
use capi_types::host::{
    HOST_FINALIZER, Host, HostFactsStatus, HostIdentity, HostKeyStatus, HostOwnerStatus, HostPool, HostStatus,
};
use capi_types::key::ObjectKey;
use capi_types::machine::MachineAddress;
use capstan_base::time::{Clock, Timestamp};
use capstan_engine::client::{Cache, Mode, Precondition, Writer};
use capstan_engine::engine::{Controller, Engine, Outcome, ReconcileError, Trigger};
use capstan_hosts::facts::{HostFacts, Privilege};

use crate::access::{Machines, Silence};
use crate::plan::host::{self as judged, Look, ObservedHost, SeenHost};
use crate::plan::twins;
use crate::reach::{SshReach, reach_of};
use crate::{HostSettings, MANAGER, TRY_EVERY, wiping};

pub const NAME: &str = "host";
/// A Host that nobody has is looked at so often; half as often while somebody has it.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// So many machines are asked beside each other: each is a process of ssh.
const BESIDE: usize = 32;

/// The last look at a Host, and which way it took.
struct Kept {
    reach: SshReach,
    at: Timestamp,
    look: Look,
}

pub struct Hosts {
    hosts: Cache<Host>,
    pools: Cache<HostPool>,
    machines: Arc<dyn Machines>,
    wiping: wiping::Wiping,
    kept: Mutex<BTreeMap<ObjectKey, Kept>>,
    installation: String,
    writer: Writer,
    clock: Clock,
}

impl Hosts {
    pub fn new(engine: &mut Engine, machines: Arc<dyn Machines>, settings: &HostSettings) -> Self {
        let writer = engine.writer().managed_by(MANAGER);
        Self {
            hosts: engine.cache(),
            pools: engine.cache(),
            wiping: wiping::Wiping::new(Arc::clone(&machines), writer.clone(), settings),
            machines,
            kept: Mutex::default(),
            installation: settings.installation.clone(),
            writer,
            clock: engine.clock().clone(),
        }
    }

    fn pool_of(&self, key: &ObjectKey, host: &Host) -> Option<Arc<HostPool>> {
        self.pools.get(&ObjectKey::new(&key.namespace, host.spec.pool.as_ref()?))
    }

    /// Until the next look; zero when it is due.
    fn rest(&self, key: &ObjectKey, host: &Host, reach: &SshReach) -> Duration {
        let kept = self.kept.lock();
        let Some(kept) = kept.get(key).filter(|kept| is_same_way(&kept.reach, reach)) else {
            return Duration::ZERO;
        };
        let every = match (&kept.look.answer, &host.spec.consumer_ref) {
            (Err(_), _) => TRY_EVERY,
            (Ok(_), None) => LOOK_EVERY,
            (Ok(_), Some(_)) => LOOK_EVERY * 2,
        };
        // What the claim says decides what is asked for.
        let was_free = kept.look.answer.as_ref().is_ok_and(|seen| seen.proof.is_some());
        if host.spec.consumer_ref.is_none() && kept.look.answer.is_ok() && !was_free && is_privileged(kept) {
            return Duration::ZERO;
        }
        every.saturating_sub((self.clock.now() - kept.at).to_std().unwrap_or_default())
    }

    async fn look(&self, key: &ObjectKey, host: &Host, reach: SshReach) {
        let answer = self.seen(host, &reach).await;
        let now = self.clock.now();
        let mut kept = self.kept.lock();
        let before = kept.get(key).and_then(|kept| kept.look.silent_since);
        let silent_since = answer.is_err().then(|| before.unwrap_or(now));
        kept.insert(key.clone(), Kept { reach, at: now, look: Look { answer, silent_since } });
    }

    async fn seen(&self, host: &Host, reach: &SshReach) -> Result<SeenHost, Silence> {
        let facts = self.machines.facts(reach).await?;
        let reach = SshReach { sudo: facts.privilege == Privilege::Sudo, ..reach.clone() };
        if facts.privilege == Privilege::None {
            let owner = Err(Silence::because("root is needed to look at the owner file"));
            return Ok(SeenHost { facts, owner, proof: None });
        }
        let owner = self.machines.owner(&reach).await;
        let proof = match &host.spec.consumer_ref {
            None => Some(self.machines.prove(&reach).await),
            Some(_) => None,
        };
        Ok(SeenHost { facts, owner, proof })
    }

    /// What the status should be, from the last look.
    fn judged(&self, key: &ObjectKey, host: &Host, pool: Option<&HostPool>) -> HostStatus {
        let all = self.hosts.list();
        let all: Vec<&Host> = all.iter().map(Arc::as_ref).collect();
        let kept = self.kept.lock();
        let look = kept.get(key).map(|kept| &kept.look);
        let mut after = host.clone();
        let status = after.status.get_or_insert_default();
        if let Some(look) = look {
            fill(status, look);
        }
        let observed = ObservedHost {
            host,
            ignored: ignored(host, pool),
            look,
            twins: twins::of(&after, &all),
            installation: &self.installation,
            now: self.clock.now(),
        };
        finished(&observed, after)
    }

    /// A person may have taken the claim away.
    async fn let_go(&self, host: &Host) -> Result<(), ReconcileError> {
        let mut after = host.clone();
        after.metadata.finalizers.get_or_insert_default().retain(|held| held != HOST_FINALIZER);
        self.writer.patch(host, &after, &Precondition::unchanged(host), Mode::Real).await?;
        Ok(())
    }

    async fn report(&self, host: &Host, status: HostStatus) -> Result<(), ReconcileError> {
        let after = Host { status: Some(status), ..host.clone() };
        // Of this very Host; the run in its status is written by others, who change nothing else.
        let same = Precondition { uid: host.metadata.uid.clone(), resource_version: None };
        self.writer.patch(host, &after, &same, Mode::Real).await?;
        Ok(())
    }
}

fn is_privileged(kept: &Kept) -> bool {
    kept.look.answer.as_ref().is_ok_and(|seen| seen.facts.privilege != Privilege::None)
}

/// Whether sudo is needed is an answer, not a part of the way.
fn is_same_way(one: &SshReach, other: &SshReach) -> bool {
    one.to == other.to && one.jump == other.jump && one.host_keys == other.host_keys
}

fn ignored<'a>(host: &'a Host, pool: Option<&'a HostPool>) -> BTreeSet<&'a str> {
    let of_pool = pool.into_iter().flat_map(|pool| &pool.spec.ignored_rules);
    host.spec.ignored_rules.iter().chain(of_pool).map(String::as_str).collect()
}

fn finished(observed: &ObservedHost<'_>, after: Host) -> HostStatus {
    let conditions = judged::conditions(observed);
    let mut status = after.status.unwrap_or_default();
    let generation = observed.host.metadata.generation;
    let mut draft = Draft::new(std::mem::take(&mut status.conditions), generation, observed.now);
    for condition in &conditions {
        draft.set(condition);
    }
    status.conditions = draft.finish();
    let judged = Host { status: Some(status.clone()), ..observed.host.clone() };
    status.state = Some(judged::state(&judged, &status.conditions).to_owned());
    status
}

/// What of a look stands in the status. Facts stay when a machine is silent.
fn fill(status: &mut HostStatus, look: &Look) {
    match &look.answer {
        Ok(seen) => {
            status.identity = Some(identity(&seen.facts));
            status.facts = Some(facts(&seen.facts));
            status.addresses = addresses(&seen.facts);
            status.offered_host_keys = Vec::new();
            status.owner = seen.owner.as_ref().ok().and_then(judged::owner_of).map(|owner| HostOwnerStatus {
                installation: Some(owner.installation.clone()),
                cluster: Some(owner.cluster.clone()),
                host_machine: Some(owner.machine.clone()),
                generation: i64::try_from(owner.generation).ok(),
            });
            let proof = seen.proof.as_ref().and_then(|proof| proof.as_ref().ok());
            status.leftovers =
                proof.map(|proof| proof.left.iter().map(ToString::to_string).collect()).unwrap_or_default();
            status.leftovers.truncate(64);
        }
        Err(silence) => {
            let shown = |key: &capstan_remote::host_key::HostKey| HostKeyStatus {
                type_: key.kind.clone(),
                fingerprint: key.fingerprint.clone(),
            };
            status.offered_host_keys = silence.offered.iter().map(shown).collect();
        }
    }
}

fn identity(facts: &HostFacts) -> HostIdentity {
    HostIdentity {
        machine_id: facts.machine_id.clone(),
        product_uuid: facts.product_uuid.clone(),
        boot_id: facts.boot_id.clone(),
        hostname: facts.hostname.clone(),
        host_keys: facts.host_keys.iter().take(16).cloned().collect(),
    }
}

fn facts(facts: &HostFacts) -> HostFactsStatus {
    const KIB_IN_MIB: u64 = 1024;
    const KIB_IN_GIB: u64 = 1024 * 1024;
    let version = |version: Option<&String>| version.map(|it| format!("v{it}"));
    HostFactsStatus {
        os: facts.os.clone(),
        kernel: facts.kernel.clone(),
        arch: facts.arch.clone(),
        cpus: facts.cpus.map(i64::from),
        memory_mib: facts.memory_kib.and_then(|kib| i64::try_from(kib / KIB_IN_MIB).ok()),
        disk_gib: facts.disk_kib.and_then(|kib| i64::try_from(kib / KIB_IN_GIB).ok()),
        cgroup: facts.cgroup.map(i64::from),
        swap: Some(!facts.swaps.is_empty()),
        runtime: facts.runtime.as_ref().map(ToString::to_string),
        kubeadm: version(facts.kubeadm.as_ref().map(ToString::to_string).as_ref()),
        kubelet: version(facts.kubelet.as_ref().map(ToString::to_string).as_ref()),
        privilege: match facts.privilege {
            Privilege::Root => Some("Root".to_owned()),
            Privilege::Sudo => Some("Sudo".to_owned()),
            Privilege::None => None,
        },
        runtime_socket: facts.sockets.first().map(|socket| format!("unix://{socket}")),
    }
}

fn addresses(facts: &HostFacts) -> Vec<MachineAddress> {
    let of =
        |type_: &str, address: &str| MachineAddress { type_: type_.to_owned(), address: address.to_owned() };
    let without_prefix = |text: &String| text.split('/').next().unwrap_or_default().to_owned();
    let all = facts.addresses.iter().map(without_prefix).filter(|it| it.parse::<std::net::IpAddr>().is_ok());
    let named = facts.hostname.iter().map(|name| of("Hostname", name));
    all.map(|address| of("InternalIP", &address)).chain(named).take(64).collect()
}

#[async_trait]
impl Controller for Hosts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn triggers(&self) -> Vec<Trigger> {
        let (by_pool, by_twin) = (self.hosts.clone(), self.hosts.clone());
        vec![
            Trigger::own(&self.hosts),
            Trigger::on(&self.pools, move |old: Option<&HostPool>, new| {
                let Some(pool) = new.or(old).map(ObjectKey::of) else { return Vec::new() };
                let is_of = |host: &Host| host.spec.pool.as_deref() == Some(pool.name.as_str());
                by_pool
                    .select(&pool.namespace, is_of)
                    .iter()
                    .map(|host| ObjectKey::of(host.as_ref()))
                    .collect()
            }),
            // When an identity changes or goes, Hosts that share the old or the new one are judged again.
            Trigger::on(&self.hosts, move |old: Option<&Host>, new| {
                let identity =
                    |host: Option<&Host>| host.and_then(|host| host.status.as_ref()?.identity.clone());
                let (before, after) = (identity(old), identity(new));
                if before == after {
                    return Vec::new();
                }
                let all = by_twin.list();
                let all: Vec<&Host> = all.iter().map(Arc::as_ref).collect();
                let shared = [before, after].into_iter().flatten().flat_map(|it| twins::sharing(&it, &all));
                shared.map(ObjectKey::of).collect()
            }),
        ]
    }

    fn concurrency(&self) -> usize {
        BESIDE
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(host) = self.hosts.get(key) else {
            self.kept.lock().remove(key);
            return Ok(Outcome::Done);
        };
        if host.metadata.deletion_timestamp.is_some() && host.spec.consumer_ref.is_none() {
            return self.let_go(&host).await.map(|()| Outcome::Done);
        }
        let pool = self.pool_of(key, &host);
        let reach = match reach_of(&host, pool.as_deref()) {
            Ok(reach) => reach,
            Err(error) => {
                let status = judged::not_valid(&host, &error.to_string(), self.clock.now());
                return self.report(&host, status).await.map(|()| Outcome::Done);
            }
        };
        if self.rest(key, &host, &reach).is_zero() {
            // What its object says may have changed since the last look; another one takes its time.
            let status = self.judged(key, &host, pool.as_deref());
            self.report(&host, status).await?;
            self.look(key, &host, reach.clone()).await;
        }
        let status = self.judged(key, &host, pool.as_deref());
        let is_ready = is_true(&status.conditions, PRIVILEGED);
        self.report(&host, status).await?;
        if is_ready && let Some(outcome) = self.wiping.go_on(&host, &reach).await? {
            return Ok(outcome);
        }
        Ok(Outcome::RequeueAfter(self.rest(key, &host, &reach).max(Duration::from_secs(1))))
    }
}
