//! The planners of MachineDeployments and MachineSets in turns, with Machines that are up at once: who decides what, in which
//! round, without any time. As upstream's planner sequence tests step (`machinedeployment_rollout_*_test.go`, v1.14.2).

use std::collections::BTreeSet;

use chrono::TimeDelta;

use super::agenda::Order;
use super::change::ActorKind;
use super::course::{Course, Ending};
use super::passes::Actor;
use super::settled::is_settled;
use super::way::Until;
use super::world::name_of;
use capi_types::machine::Machine;

/// Upstream's limit of a random order.
const ROUNDS_MAX: usize = 150;

impl Course {
    /// Rounds until everything is as it should be, or until one in which nobody does anything. A round is a second of
    /// virtual time.
    pub(super) fn go_in_rounds(&mut self) -> Ending {
        let mut acted = 0;
        for _ in 0..ROUNDS_MAX {
            let turns = self.world.census.turns();
            // A second apart, so that objects of different rounds differ in age.
            self.world.now += TimeDelta::seconds(1);
            // Before the turns: MachineSets made in this round have theirs at its end.
            let known: BTreeSet<String> = self.sets().collect();
            let mut did = false;
            for turn in self.turns() {
                let actors = match turn {
                    Some(actor) => vec![actor],
                    None => {
                        self.sets().filter(|set| !known.contains(set)).map(|set| set_actor(&set)).collect()
                    }
                };
                for actor in actors {
                    let told = self.take_turn(&actor);
                    did |= told;
                    acted += usize::from(told);
                    if let Until::Steps(wanted) = self.way.until
                        && acted >= wanted
                    {
                        self.sample();
                        return Ending::Reached;
                    }
                }
            }
            self.sample();
            if is_settled(&self.world) && self.is_reported() {
                return Ending::Settled;
            }
            if !did && self.world.census.turns() == turns {
                return self.rest();
            }
        }
        Ending::TooLong
    }

    /// Names of the MachineSets, from the oldest on.
    fn sets(&self) -> impl Iterator<Item = String> {
        let mut sets: Vec<_> = self.world.machine_sets.iter().collect();
        sets.sort_by_key(|(key, set)| (set.metadata.creation_timestamp.clone(), key.name.clone()));
        sets.into_iter().map(|(key, _)| key.name.clone()).collect::<Vec<_>>().into_iter()
    }

    /// MachineDeployments, then MachineSets from the oldest on, and then those that are made in this round (`None`); by
    /// chance, any order of them.
    fn turns(&self) -> Vec<Option<Actor>> {
        let deployments = self.world.machine_deployments.keys().map(|key| &key.name);
        let mut all: Vec<Option<Actor>> =
            deployments.map(|name| Some(Actor::new(ActorKind::MachineDeployment, name))).collect();
        all.extend(self.sets().map(|set| Some(set_actor(&set))));
        all.push(None);
        if let Order::Random(rng) = &self.way.order {
            for at in (1..all.len()).rev() {
                all.swap(at, usize::try_from(rng.below(at as u64 + 1)).unwrap_or(0));
            }
        }
        all
    }

    /// One turn, with what becomes of the Machines in it. Did it do something that people see?
    fn take_turn(&mut self, actor: &Actor) -> bool {
        let mut told = self.run(actor);
        self.settle_machines();
        if actor.kind == ActorKind::MachineSet {
            // So that its status counts the Machines as they are now, as upstream's does.
            told |= self.run(actor);
            self.settle_machines();
        }
        told
    }

    /// Do the MachineDeployments report what they are to have?
    fn is_reported(&self) -> bool {
        self.world.machine_deployments.values().all(|deployment| {
            let wanted = deployment.spec.replicas.unwrap_or(1);
            let status = deployment.status.as_ref();
            status.and_then(|s| s.replicas) == Some(wanted)
                && status.and_then(|s| s.available_replicas) == Some(wanted)
        })
    }

    /// Machines come up, and those that are deleted go, at this very moment.
    fn settle_machines(&mut self) {
        loop {
            while let Some(actor) = self.agenda.next(&Order::Fixed) {
                // The others have their turns.
                if matches!(actor.kind, ActorKind::Machine | ActorKind::Cluster) {
                    self.run(&actor);
                }
            }
            match self.agenda.next_moment() {
                // Only what is due at this very moment: nothing takes time here.
                Some(at) if at <= self.world.now => self.pass_to(at),
                _ => return,
            }
            self.wake_leaving();
        }
    }

    /// A Machine in deletion may wait for what has just come to its end, such as a pod that left its Node.
    fn wake_leaving(&mut self) {
        let leaving = self.world.all::<Machine>().filter(|m| m.metadata.deletion_timestamp.is_some());
        let leaving: Vec<Actor> =
            leaving.map(|m| Actor::new(ActorKind::Machine, name_of(m.as_ref()))).collect();
        for actor in leaving {
            self.agenda.wake(actor, self.world.now);
        }
    }
}

fn set_actor(name: &str) -> Actor {
    Actor::new(ActorKind::MachineSet, name)
}
