//! Who is to run now, and what happens later. Owns the two lists and the order in which those run who are due at the same
//! moment; must not know what a run does.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::passes::Actor;
use capi_types::key::ObjectKey;
use capi_types::reference::ContractRef;
use capstan_base::rng::Rng;
use capstan_base::time::Timestamp;

/// In which order those run who are due at the same moment.
#[derive(Clone, Debug)]
pub enum Order {
    /// By kind, parts before the whole, then by name.
    Fixed,
    /// By chance.
    Random(Rng),
}

/// What happens at a moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Timer {
    /// A controller looks at its object again.
    Look(Actor),
    /// A stage of the host of this Machine is over.
    HostState(String),
    /// A host is taken down.
    Removed(ContractRef),
    /// The host of this Machine is what the Machine asks for.
    Updated(String),
    /// A pod has left its Node.
    PodGone { node: String, pod: ObjectKey },
    /// The infrastructure of the Cluster is there.
    ClusterProvided,
    /// This Machine's Node stops to report.
    NodeFails(String),
}

/// Both lists of one world.
#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    due: BTreeSet<Actor>,
    /// Those of them that run before the others in a fixed order.
    first: BTreeSet<Actor>,
    timers: BTreeMap<(Timestamp, u64), Timer>,
    /// The next look of each controller; a look at another moment does not count any more.
    looks: FxHashMap<Actor, Timestamp>,
    /// No run before this moment.
    held: FxHashMap<Actor, Timestamp>,
    /// Timers that are not looks.
    events: usize,
    set: u64,
}

impl Agenda {
    /// `actor` runs at this moment, or when it may.
    pub(super) fn wake(&mut self, actor: Actor, now: Timestamp) {
        match self.held.get(&actor).copied().filter(|until| *until > now) {
            Some(until) => self.look(actor, until),
            None => {
                self.due.insert(actor);
            }
        }
    }

    /// `actor` runs before everybody else who is due.
    pub(super) fn wake_first(&mut self, actor: Actor) {
        self.first.insert(actor.clone());
        self.due.insert(actor);
    }

    /// The next to run.
    pub(super) fn next(&mut self, order: &Order) -> Option<Actor> {
        match order {
            Order::Fixed => {
                // An actor that ran meanwhile is due no more, and its place at the front is void.
                let first = self.first.pop_first().filter(|actor| self.due.remove(actor));
                first.or_else(|| self.due.pop_first())
            }
            Order::Random(rng) => {
                // Without an actor that is due the draw is 0, and `nth` finds none.
                let at = usize::try_from(rng.below(self.due.len() as u64)).unwrap_or(0);
                let actor = self.due.iter().nth(at).cloned()?;
                self.due.take(&actor)
            }
        }
    }

    /// `actor` runs at `at` at the latest.
    pub(super) fn look(&mut self, actor: Actor, at: Timestamp) {
        if self.looks.get(&actor).is_some_and(|old| *old <= at) {
            return;
        }
        self.looks.insert(actor.clone(), at);
        self.put(at, Timer::Look(actor));
    }

    /// The run of `actor` has begun: its next look is what this run says.
    pub(super) fn begun(&mut self, actor: &Actor) {
        self.looks.remove(actor);
    }

    /// `actor` does not run before `until`, but then.
    pub(super) fn hold(&mut self, actor: &Actor, until: Timestamp) {
        self.held.insert(actor.clone(), until);
        self.look(actor.clone(), until);
    }

    pub(super) fn at(&mut self, at: Timestamp, timer: Timer) {
        self.events += 1;
        self.put(at, timer);
    }

    fn put(&mut self, at: Timestamp, timer: Timer) {
        self.set += 1;
        // Numbered, so that what was set for the same
        // moment happens in the order in which it was set.
        self.timers.insert((at, self.set), timer);
    }

    /// The next moment at which something happens, looks included.
    pub(super) fn next_moment(&mut self) -> Option<Timestamp> {
        while let Some(entry) = self.timers.first_entry() {
            let ((at, _), timer) = (*entry.key(), entry.get());
            match timer {
                // Looks that were moved stay in the list until
                // their old moment; only the last one counts.
                Timer::Look(actor) if self.looks.get(actor) != Some(&at) => {
                    entry.remove();
                }
                _ => return Some(at),
            }
        }
        None
    }

    /// What happens at `now`.
    pub(super) fn take(&mut self, now: Timestamp) -> Vec<Timer> {
        let mut taken = Vec::new();
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let ((at, _), timer) = entry.remove_entry();
            match &timer {
                Timer::Look(actor) if self.looks.get(actor) == Some(&at) => {
                    self.looks.remove(actor);
                    taken.push(timer);
                }
                // Another look of the same actor has taken its place.
                Timer::Look(_) => {}
                _ => {
                    self.events -= 1;
                    taken.push(timer);
                }
            }
        }
        taken
    }

    /// Something other than a look is still to come.
    pub(super) fn has_events(&self) -> bool {
        self.events > 0
    }

    /// Those who will look again, in no particular order.
    pub(super) fn looking(&self) -> impl Iterator<Item = (&Actor, Timestamp)> {
        self.looks.iter().map(|(actor, at)| (actor, *at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::change::ActorKind;
    use capstan_base::time::parse_rfc3339;

    fn at(second: u32) -> Timestamp {
        parse_rfc3339(&format!("2026-11-20T10:00:{second:02}Z")).expect("a moment")
    }

    fn set(name: &str) -> Actor {
        Actor::new(ActorKind::MachineSet, name)
    }

    #[test]
    fn parts_run_before_the_whole_and_each_once() {
        let mut agenda = Agenda::default();
        for actor in [
            set("b"),
            Actor::new(ActorKind::Cluster, "a"),
            set("a"),
            Actor::new(ActorKind::Machine, "z"),
            set("b"),
        ] {
            agenda.wake(actor, at(0));
        }
        let mut names = Vec::new();
        while let Some(actor) = agenda.next(&Order::Fixed) {
            names.push(format!("{} {}", actor.kind.name(), actor.name));
        }
        assert_eq!(names, ["Machine z", "MachineSet a", "MachineSet b", "Cluster a"]);
    }

    #[test]
    fn only_the_soonest_look_counts_and_a_hold_outlasts_changes() {
        let mut agenda = Agenda::default();
        agenda.look(set("a"), at(20));
        agenda.look(set("a"), at(10));
        agenda.look(set("a"), at(30));
        assert_eq!(agenda.next_moment(), Some(at(10)));
        assert_eq!(agenda.take(at(10)), [Timer::Look(set("a"))]);
        assert_eq!(agenda.next_moment(), None, "the others were for the same run");
        agenda.hold(&set("b"), at(40));
        agenda.wake(set("b"), at(15));
        assert_eq!(agenda.next(&Order::Fixed), None);
        assert_eq!(agenda.next_moment(), Some(at(40)));
        assert!(!agenda.has_events());
    }
}
