//! The planners of MachineDeployments and MachineSets in turns, with Machines that are up at once: who decides what, in which
//! round, without any time. As upstream's planner sequence tests step (`machinedeployment_rollout_*_test.go`, v1.14.0).

use chrono::TimeDelta;

use super::agenda::Order;
use super::change::ActorKind;
use super::course::{Course, Ending, Until};
use super::passes::Actor;

/// Upstream's limit of a random order.
const ROUNDS_MAX: usize = 150;

impl Course {
    /// Rounds until one in which nobody does anything. A round is a second of virtual time.
    pub(super) fn go_in_rounds(&mut self) -> Ending {
        let mut acted = 0;
        for _ in 0..ROUNDS_MAX {
            let turns = self.world.census.turns();
            self.world.now += TimeDelta::seconds(1);
            let mut did = false;
            for actor in self.turn() {
                let told = self.run(&actor);
                did |= told;
                acted += usize::from(told);
                self.settle_machines();
                if let Until::Steps(wanted) = self.way.until
                    && acted >= wanted
                {
                    self.sample();
                    return Ending::Reached;
                }
            }
            self.sample();
            if !did && self.world.census.turns() == turns {
                return self.rest();
            }
        }
        Ending::TooLong
    }

    /// MachineDeployments, then MachineSets from the oldest on; by chance, any order of them.
    fn turn(&self) -> Vec<Actor> {
        let deployments = self.world.machine_deployments.keys().map(|key| &key.name);
        let mut all: Vec<Actor> =
            deployments.map(|name| Actor::new(ActorKind::MachineDeployment, name)).collect();
        let mut sets: Vec<_> = self.world.machine_sets.iter().collect();
        sets.sort_by_key(|(key, set)| (set.metadata.creation_timestamp.clone(), key.name.clone()));
        all.extend(sets.into_iter().map(|(key, _)| Actor::new(ActorKind::MachineSet, &key.name)));
        if let Order::Random(rng) = &self.way.order {
            for at in (1..all.len()).rev() {
                all.swap(at, usize::try_from(rng.below(at as u64 + 1)).unwrap_or(0));
            }
        }
        all
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
                Some(at) if at <= self.world.now => self.pass_to(at),
                _ => return,
            }
        }
    }
}
