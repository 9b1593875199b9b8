//! One world through virtual time: who is due runs, what takes time happens, until nothing is left to do. Owns the loop
//! and its end; decisions are the planners', durations those of [`Timing`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::agenda::{Agenda, Timer};
use super::begin::{Beginning, since};
use super::change::{ActorKind, ObjectChange};
use super::chronicle::Chronicle;
use super::hosts::{HostState, Hosts, is_infrastructure_of, may_go_on, reference_of};
use super::passes::{Actor, run};
use super::perform::Effect;
use super::settled::is_settled;
use super::timing::{Span, Timing};
use super::timings::Timings;
use super::under_way;
use super::updates::Updates;
use super::way::{Actors, Until, Way};
use super::world::{World, name_of};
use capi_rules::plan::Blocker;
use capi_types::condition::{Conditioned as _, is_true};
use capi_types::key::controller_of;
use capi_types::machine::Machine;
use capi_types::machine_set::MachineSet;
use capstan_base::time::Timestamp;
use capstan_physics::boot::BootStage;

/// A look that changes nothing so many times in a row is not waited for again.
const FRUITLESS_MAX: u32 = 3;
/// A moment for which nobody looks again meanwhile, where looks were in vain.
const FAR: TimeDelta = TimeDelta::days(1);
/// The same counters so many times, with Machines made in between, are a circle.
const CIRCLES: u32 = 6;

/// More runs than any rollout needs.
const RUNS_MAX: u64 = 20_000;
const RUNS_PER_MACHINE_MAX: u64 = 500;

#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// Nothing is left to do.
    Settled,
    /// Nothing moves any more, and something is left to do.
    Stuck,
    /// The steps that were asked for are done.
    Reached,
    /// The same happens again and again: counters as they were, `made` Machines later.
    Circle { since: Timestamp, made: u64 },
    /// More runs than any rollout needs.
    TooLong,
}

/// A world under way.
pub(super) struct Course {
    pub world: World,
    pub chronicle: Chronicle,
    pub blockers: BTreeMap<Actor, Vec<Blocker>>,
    pub runs: u64,
    hosts: Hosts,
    pub(super) agenda: Agenda,
    pub(super) way: Way,
    timing: Timings,
    /// Looks in a row that changed nothing.
    fruitless: FxHashMap<Actor, u32>,
    /// When something last changed.
    changed_at: Timestamp,
    /// Machines that wait for their Cluster.
    waiting: Vec<String>,
    seen: BTreeMap<Vec<usize>, (u32, u64, Timestamp)>,
    made: usize,
    /// Changes so far, those of statuses included.
    turns: u64,
    /// How many there were when a MachineSet began its last run, and when it wanted to look again.
    looked: FxHashMap<Actor, (u64, Duration)>,
}

impl Course {
    pub(super) fn new(begun: Beginning, way: Way, timing: Timings, chronicle: Chronicle) -> Self {
        let mut world = begun.world;
        let now = world.now;
        // Read before anything runs: marks of updates under way go as they end.
        let agreed = under_way::agreed(&world);
        world.updates = Updates::new(way.in_place.clone(), agreed);
        let mut course = Self {
            world,
            chronicle,
            blockers: BTreeMap::new(),
            runs: 0,
            hosts: begun.hosts,
            agenda: Agenda::default(),
            way,
            timing,
            fruitless: FxHashMap::default(),
            changed_at: now,
            waiting: Vec::new(),
            seen: BTreeMap::new(),
            made: 0,
            turns: 0,
            looked: FxHashMap::default(),
        };
        course.prepare();
        course
    }

    /// Everybody runs at first, and what is under way goes on.
    fn prepare(&mut self) {
        let now = self.world.now;
        for actor in self.everybody() {
            // What the plans of pools say of the objects as they are is done before anything has changed.
            match actor.kind {
                ActorKind::MachineDeployment | ActorKind::KubeadmControlPlane => {
                    self.agenda.wake_first(actor);
                }
                _ => self.agenda.wake(actor, now),
            }
        }
        for name in self.hosts.keys().cloned().collect::<Vec<_>>() {
            let next = self.hosts[&name].next;
            let begun = self.world.get::<Machine>(&name).map_or(now, |machine| since(&machine, next));
            self.expect_host(&name, begun);
        }
        for name in self.way.faults.failing.clone() {
            self.agenda.at(now, Timer::NodeFails(name));
        }
        self.expect_removals();
        self.expect_cluster();
        self.expect_pods();
        self.sample();
    }

    /// Something else is wanted from a moment on; everybody looks at it then.
    pub(super) fn resume(&mut self, at: Timestamp, patches: &[(ActorKind, String, Value)]) {
        self.world.now = self.world.now.max(at);
        let now = self.world.now;
        for (kind, name, body) in patches {
            self.world.want(*kind, name, body);
        }
        // Everybody is woken below, so no change has to be routed.
        let _ = self.world.take_changes();
        self.world.census.begin();
        self.chronicle.begin_stage(now);
        self.changed_at = now;
        self.fruitless.clear();
        // Counters that come again after another wish are not a circle.
        self.seen.clear();
        for actor in self.everybody() {
            self.agenda.wake(actor, now);
        }
        self.sample();
    }

    pub(super) fn sample(&mut self) {
        self.world.census.settle();
        self.chronicle.sample(&self.world);
    }

    fn everybody(&self) -> Vec<Actor> {
        let world = &self.world;
        let named = |kind, key: &capi_types::key::ObjectKey| Actor::new(kind, &key.name);
        let mut all: Vec<Actor> = world.clusters.keys().map(|k| named(ActorKind::Cluster, k)).collect();
        all.extend(world.control_planes.keys().map(|k| named(ActorKind::KubeadmControlPlane, k)));
        all.extend(world.machine_deployments.keys().map(|k| named(ActorKind::MachineDeployment, k)));
        all.extend(world.machine_sets.keys().map(|k| named(ActorKind::MachineSet, k)));
        all.extend(world.machines.keys().map(|k| named(ActorKind::Machine, k)));
        all.extend(world.checks.keys().map(|k| named(ActorKind::MachineHealthCheck, k)));
        all
    }

    /// Hosts that are being taken down already.
    fn expect_removals(&mut self) {
        for machine in self.world.machines.values().cloned().collect::<Vec<_>>() {
            let reference = &machine.spec.infrastructure_ref;
            let found = self.world.externals.get(&reference.api_group, &reference.kind, &reference.name);
            if found.is_some_and(|host| host.is_deleting()) {
                let at = self.world.now + self.span(&machine, |t| t.removal).at(&self.way.tempo);
                self.agenda.at(at, Timer::Removed(reference.clone()));
            }
        }
    }

    /// Where a drain takes no time, there is nothing to drain.
    fn expect_pods(&mut self) {
        let machines: Vec<_> = self.world.machines.values().cloned().collect();
        let takes_time =
            |machine: &Arc<Machine>| self.span(machine, |t| t.drain).at(&self.way.tempo) > TimeDelta::zero();
        self.world.workload.tenancy.is_empty = !machines.is_empty() && !machines.iter().any(takes_time);
    }

    fn expect_cluster(&mut self) {
        let Some(cluster) = self.world.cluster() else { return };
        let Some(reference) = &cluster.spec.infrastructure_ref else { return };
        let found = self.world.externals.get(&reference.api_group, &reference.kind, &reference.name);
        if found.is_some_and(|found| !found.provisioned()) {
            let usual = Timing::usual(reference.kind.strip_suffix("Cluster").unwrap_or(&reference.kind));
            let at = self.world.now + usual.cluster.at(&self.way.tempo);
            self.agenda.at(at, Timer::ClusterProvided);
        }
    }

    /// Goes through time until an end.
    pub(super) fn go(&mut self) -> Ending {
        if self.way.actors == Actors::Planner {
            return self.go_in_rounds();
        }
        let mut acted = 0;
        let runs_max = match self.way.until {
            // The first run of each controller shows nothing
            // of what follows, and is not one of these.
            Until::Runs(more) => self.everybody().len() as u64 + more,
            Until::Settled | Until::Steps(_) => {
                RUNS_MAX + RUNS_PER_MACHINE_MAX * self.world.machines.len() as u64
            }
        };
        loop {
            while let Some(actor) = self.agenda.next(&self.way.order) {
                acted += usize::from(self.run(&actor));
                if let Until::Steps(wanted) = self.way.until
                    && acted >= wanted
                {
                    self.sample();
                    return Ending::Reached;
                }
                if self.runs > runs_max {
                    return Ending::TooLong;
                }
            }
            self.sample();
            if let Some(ending) = self.circle() {
                return ending;
            }
            match self.next_moment() {
                Some(at) => self.pass_to(at),
                None => return self.rest(),
            }
        }
    }

    /// One run of a controller. Did it do something that people see?
    pub(super) fn run(&mut self, actor: &Actor) -> bool {
        self.runs += 1;
        // Before the run, which says anew when it is to look again.
        self.agenda.begun(actor);
        self.looked.remove(actor);
        let begun = self.turns;
        let cut = self.cut();
        let (replicas, turns) = (self.replicas(actor), self.world.census.turns());
        let acts = run(&mut self.world, actor, cut);
        let now = self.world.now;
        let after = |delay: Duration| later(now, delay);
        if let Some(delay) = acts.next {
            self.agenda.look(actor.clone(), after(delay));
            // Of what MachineSets look at, time alone changes nothing: Machines turn by themselves.
            if actor.kind == ActorKind::MachineSet && !acts.is_cut {
                self.looked.insert(actor.clone(), (begun, delay));
            }
        }
        match acts.hold {
            // In rounds nothing takes time: who waits looks at every change.
            Some(delay) if self.way.actors == Actors::Planner => {
                self.agenda.look(actor.clone(), after(delay));
            }
            Some(delay) => self.agenda.hold(actor, after(delay)),
            None => {}
        }
        let told = self.chronicle.record(&self.world, actor, &acts.steps, &replicas);
        let changes = self.world.take_changes();
        // Conditions that count how long something waits are not progress.
        if changes.iter().any(|change| change.is_intent) || self.world.census.turns() != turns {
            self.fruitless.clear();
            self.changed_at = now;
        } else if !acts.is_cut {
            *self.fruitless.entry(actor.clone()).or_default() += 1;
        }
        self.blockers.insert(actor.clone(), acts.blockers);
        for effect in acts.effects {
            self.follow(effect);
        }
        self.route(changes, Some(actor.kind));
        told
    }

    /// What the MachineSets of a MachineDeployment have before it scales them, by name.
    fn replicas(&self, actor: &Actor) -> BTreeMap<String, i32> {
        if actor.kind != ActorKind::MachineDeployment {
            return BTreeMap::new();
        }
        let is_its =
            |set: &&Arc<MachineSet>| controller_of(set.as_ref()).is_none_or(|o| o.name == *actor.name);
        let sets = self.world.machine_sets.values().filter(is_its);
        sets.filter_map(|set| Some((name_of(set.as_ref()).to_owned(), set.spec.replicas?))).collect()
    }

    /// After how many writes the next run ends, when it does.
    fn cut(&self) -> Option<usize> {
        let (one_in, rng) = self.way.faults.cut_one_in.as_ref()?;
        (rng.below(*one_in) == 0).then(|| usize::try_from(rng.below(4)).unwrap_or(0))
    }

    fn follow(&mut self, effect: Effect) {
        match effect {
            Effect::Made { machine } => {
                self.made += 1;
                let is_stuck = self.way.faults.stillborn.contains(&self.made);
                let host = HostState { next: Some(BootStage::Bootstrap), is_stuck };
                self.hosts.insert(machine.clone(), host);
                self.expect_host(&machine, self.world.now);
            }
            Effect::Removal { object } => {
                let reference = reference_of(&object);
                let machine = self.world.get::<Machine>(&object.key.name);
                let of_cluster = self.world.cluster().is_some_and(|c| is_infrastructure_of(&c, &reference));
                let span = match machine.filter(|_| !of_cluster) {
                    Some(machine) => self.span(&machine, |t| t.removal),
                    None => Timing::usual(&reference.kind).removal,
                };
                let at = self.world.now + span.at(&self.way.tempo);
                self.agenda.at(at, Timer::Removed(reference));
            }
            Effect::UpdateBegins { machine } => {
                let Some(found) = self.world.get::<Machine>(&machine) else { return };
                let at = self.world.now + self.span(&found, |t| t.update).at(&self.way.tempo);
                self.agenda.at(at, Timer::Updated(machine));
            }
            Effect::PodLeaves { node, pod, grace_s } => {
                let usual = self.drain_of(&node).at(&self.way.tempo);
                // The kubelet kills a pod when its grace period is over.
                let longest = grace_s.map_or(usual, |s| usual.min(TimeDelta::seconds(s)));
                let at = self.world.now + longest;
                self.agenda.at(at, Timer::PodGone { node, pod });
            }
        }
    }

    fn drain_of(&self, node: &str) -> Span {
        let machine = self.world.get::<Machine>(node).or_else(|| {
            let is_its = |m: &&Arc<Machine>| {
                m.status.as_ref().and_then(|s| s.node_ref.as_ref()).is_some_and(|r| r.name == node)
            };
            self.world.all::<Machine>().find(is_its).cloned()
        });
        machine.map_or(Timing::usual("").drain, |machine| self.span(&machine, |t| t.drain))
    }

    fn span(&self, machine: &Machine, step: impl Fn(Timing) -> Span) -> Span {
        step(self.timing.of(machine, &pool_of(&self.world, machine)))
    }

    /// The end of the present stage of a host, which began at `begun`.
    fn expect_host(&mut self, name: &str, begun: Timestamp) {
        let Some(host) = self.hosts.get(name).copied() else { return };
        let Some(machine) = self.world.get::<Machine>(name) else { return };
        let is_leaving = machine.metadata.deletion_timestamp.is_some();
        let Some(next) = host.next.filter(|next| !is_leaving && (!host.is_stuck || *next < BootStage::Host))
        else {
            return;
        };
        if !may_go_on(&self.world, &machine, next) {
            self.waiting.push(name.to_owned());
            return;
        }
        let span = self.span(&machine, |t| t.of(next));
        // Times of a dump may lie ahead of the clock that reads it.
        let passed = (self.world.now - begun).max(TimeDelta::zero());
        let left = (span.at(&self.way.tempo) - passed).max(TimeDelta::zero());
        self.agenda.at(self.world.now + left, Timer::HostState(name.to_owned()));
    }

    pub(super) fn pass_to(&mut self, at: Timestamp) {
        self.world.now = self.world.now.max(at);
        for timer in self.agenda.take(at) {
            self.happen(timer);
        }
        let changes = self.world.take_changes();
        self.route(changes, None);
    }

    fn happen(&mut self, timer: Timer) {
        if !matches!(timer, Timer::Look(_)) {
            self.turns += 1;
            self.fruitless.clear();
            self.changed_at = self.world.now;
        }
        match timer {
            Timer::Look(actor) => self.look(actor),
            Timer::HostState(name) => self.end_stage(&name),
            Timer::Removed(reference) => {
                self.chronicle.removed(&self.world, &reference);
                self.world.end_host(&reference);
            }
            Timer::PodGone { node, pod } => self.lose_pod(&node, &pod),
            Timer::Updated(name) => {
                self.chronicle.updated(&self.world, &name);
                self.world.update_host(&name);
            }
            Timer::ClusterProvided => self.world.provide_cluster(),
            Timer::NodeFails(name) => {
                self.chronicle.failed(&self.world, &name);
                self.world.fail_node(&name);
            }
        }
    }

    /// A MachineSet that would see what it saw last looks later.
    fn look(&mut self, actor: Actor) {
        let now = self.world.now;
        match self.looked.get(&actor) {
            // A run would do what the last one did; without
            // this a large fleet is looked through each second.
            Some((turns, delay)) if *turns == self.turns => {
                *self.fruitless.entry(actor.clone()).or_default() += 1;
                self.agenda.look(actor, later(now, *delay));
            }
            _ => self.agenda.wake(actor, now),
        }
    }

    fn end_stage(&mut self, name: &str) {
        let Some(machine) = self.world.get::<Machine>(name) else { return };
        let Some(host) = self.hosts.get(name).copied() else { return };
        let Some(stage) = host.next.filter(|_| machine.metadata.deletion_timestamp.is_none()) else { return };
        let next = self.world.advance_host(&machine, stage);
        self.chronicle.advanced(&self.world, &machine, stage);
        self.hosts.insert(name.to_owned(), HostState { next, ..host });
        self.expect_host(name, self.world.now);
    }

    fn lose_pod(&mut self, node: &str, pod: &capi_types::key::ObjectKey) {
        let can_run = |n: &&Arc<k8s_openapi::api::core::v1::Node>| {
            n.spec.as_ref().and_then(|s| s.unschedulable) != Some(true)
        };
        let mut others = self.world.workload.nodes.values().filter(can_run).map(|n| name_of(n.as_ref()));
        let elsewhere = others.find(|name| *name != node).map(str::to_owned);
        self.world.workload.tenancy.leave(node, pod, elsewhere.as_deref());
    }

    /// Who looks at what changed. `by`: whose run it was.
    fn route(&mut self, changes: Vec<ObjectChange>, by: Option<ActorKind>) {
        let now = self.world.now;
        self.turns += changes.len() as u64;
        for change in changes {
            self.look_at(&change, by, now);
        }
    }

    fn look_at(&mut self, change: &ObjectChange, by: Option<ActorKind>, now: Timestamp) {
        // What its own run reported of it is not news.
        let is_news = change.is_intent || by != Some(change.kind);
        if is_news && !change.is_gone {
            self.agenda.wake(Actor::new(change.kind, &change.name), now);
        }
        let is_deleting = self.world.cluster().is_some_and(|c| c.metadata.deletion_timestamp.is_some());
        if let Some((kind, name)) = &change.owner {
            let owner = match kind.as_str() {
                "MachineSet" => Some(ActorKind::MachineSet),
                "KubeadmControlPlane" => Some(ActorKind::KubeadmControlPlane),
                "MachineDeployment" => Some(ActorKind::MachineDeployment),
                _ => None,
            };
            if let Some(kind) = owner {
                self.agenda.wake(Actor::new(kind, name), now);
            }
        }
        match change.kind {
            ActorKind::Machine => {
                for key in self.world.checks.keys() {
                    self.agenda.wake(Actor::new(ActorKind::MachineHealthCheck, &key.name), now);
                }
                if change.is_gone {
                    self.hosts.remove(&change.name);
                }
                // A control plane in deletion waits for workers, which it does not own.
                if change.is_gone && is_deleting {
                    self.wake_all(|kind| kind == ActorKind::KubeadmControlPlane, now);
                }
            }
            ActorKind::MachineDeployment if change.is_spec => self.wake_machines_of(&change.name, now),
            ActorKind::Cluster => self.cluster_turned(change.is_spec, now),
            _ => {}
        }
        let is_whole = matches!(change.kind, ActorKind::KubeadmControlPlane | ActorKind::MachineDeployment);
        if (is_whole && !self.is_initialized()) || is_deleting {
            let name = self.world.key.name.clone();
            self.agenda.wake(Actor::new(ActorKind::Cluster, &name), now);
        }
    }

    fn is_initialized(&self) -> bool {
        self.world.cluster().is_some_and(|c| is_true(c.conditions(), "ControlPlaneInitialized"))
    }

    /// A Cluster's milestones let others go on.
    fn cluster_turned(&mut self, is_spec: bool, now: Timestamp) {
        // Taken first: one that still waits puts itself back.
        for name in std::mem::take(&mut self.waiting) {
            self.expect_host(&name, now);
        }
        if is_spec || !self.is_initialized() || self.changed_at == now && self.world.workload.nodes.len() <= 1
        {
            self.wake_all(|kind| kind != ActorKind::Cluster, now);
        }
    }

    fn wake_all(&mut self, wanted: impl Fn(ActorKind) -> bool, now: Timestamp) {
        for actor in self.everybody().into_iter().filter(|actor| wanted(actor.kind)) {
            self.agenda.wake(actor, now);
        }
    }

    /// They are compared with their MachineDeployment.
    fn wake_machines_of(&mut self, deployment: &str, now: Timestamp) {
        let is_its = |set: &MachineSet| {
            controller_of(set).is_some_and(|o| o.kind == "MachineDeployment" && o.name == deployment)
        };
        let sets: Vec<String> = self
            .world
            .all::<MachineSet>()
            .filter(|set| is_its(set))
            .map(|set| name_of(set.as_ref()).to_owned())
            .collect();
        for set in sets {
            for machine in self.world.controlled("MachineSet", &set) {
                self.agenda.wake(Actor::new(ActorKind::Machine, name_of(machine.as_ref())), now);
            }
        }
    }

    /// The next moment at which something may change; `None` at the end.
    fn next_moment(&mut self) -> Option<Timestamp> {
        let at = self.agenda.next_moment()?;
        // Something that is sure to happen is worth waiting
        // for; a look is only while looks bear fruit.
        if self.agenda.has_events() {
            return Some(at);
        }
        let end = self.changed_at + TimeDelta::from_std(self.way.horizon).unwrap_or(TimeDelta::days(36_500));
        let counts = |actor: &Actor| self.fruitless.get(actor).is_none_or(|times| *times < FRUITLESS_MAX);
        let worth = self.agenda.looking().filter(|(actor, at)| *at <= end && counts(actor));
        let first = worth.map(|(_, at)| at).min()?;
        // What was looked at in vain is not looked at every few seconds until a schedule that is years away.
        Some(if first - self.world.now > FAR { first } else { at })
    }

    /// Nothing moves: is everything as it should be?
    pub(super) fn rest(&self) -> Ending {
        if is_settled(&self.world) { Ending::Settled } else { Ending::Stuck }
    }

    /// Counters that come again and again while Machines are made.
    fn circle(&mut self) -> Option<Ending> {
        let mut state: Vec<usize> = Vec::new();
        for (_, counts) in self.world.census.owners() {
            state.extend([counts.machines, counts.available, counts.up_to_date, counts.in_deletion]);
        }
        for set in self.world.machine_sets.values() {
            state.push(usize::try_from(set.spec.replicas.unwrap_or(0)).unwrap_or(0));
        }
        let (made, now) = (self.made as u64, self.world.now);
        // Counted only where Machines were made in between:
        // a pause that waits has equal counters, too.
        let (times, made_then, since) = self.seen.entry(state).or_insert((0, made, now));
        if *times == 0 || made > *made_then {
            *times += 1;
            *made_then = made;
            if *times >= CIRCLES {
                return Some(Ending::Circle { since: *since, made });
            }
        }
        None
    }
}

/// A look at this very moment would see what the run before saw.
fn later(now: Timestamp, delay: Duration) -> Timestamp {
    let delay = delay.max(Duration::from_secs(1));
    now + TimeDelta::from_std(delay).unwrap_or(TimeDelta::days(36_500))
}

/// The MachineDeployment, control plane or MachineSet that a Machine belongs to, by name.
pub(super) fn pool_of(world: &World, machine: &Machine) -> String {
    let Some(owner) = controller_of(machine) else { return String::new() };
    if owner.kind != "MachineSet" {
        return owner.name.clone();
    }
    let set = world.get::<MachineSet>(&owner.name);
    let deployment = set.as_deref().and_then(controller_of).filter(|o| o.kind == "MachineDeployment");
    deployment.map_or_else(|| owner.name.clone(), |owner| owner.name.clone())
}
