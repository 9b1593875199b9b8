//! What follows in a Cluster if everything comes up and goes as it should, and at once: a run without durations, cut where
//! enough of a long rollout is seen. Owns what is kept of it; must not decide anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::answers::InPlaceAnswers;
use super::begin::world_of;
use super::chronicle::{Chronicle, Detail, Event, EventObject, Occurrence};
use super::course::Course;
use super::next_step::NextStep;
use super::scenario::Scenario;
use super::timing::Tempo;
use super::timings::Timings;
use super::way::Until;
use capi_rules::observe::dump::Dump;
use capi_types::key::ObjectKey;
use capstan_base::time::Timestamp;

/// Runs of controllers beyond the first of each: a tenth of a second.
const RUNS_MAX: u64 = 2_500;

/// How far one looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foresight {
    /// Some thousand runs of controllers: of a small Cluster all, of a long rollout the beginning.
    Near,
    /// To the end.
    Whole,
}

/// The steps that change pools, in order, and how low each pool goes.
#[derive(Clone, Debug, Default)]
pub struct Following {
    events: Vec<Event>,
    /// By `KIND/NAME`.
    lowest: BTreeMap<String, usize>,
}

impl Following {
    /// What the controller of one object does.
    pub fn of(&self, kind: &str, name: &str) -> Vec<NextStep> {
        let is_its = |event: &&Event| event.who.kind == kind && event.who.name == name;
        self.events.iter().filter(is_its).filter_map(step).collect()
    }

    /// What first becomes of each of these Machines that is deleted or updated in place, in order.
    pub fn changes(&self, is_asked_about: impl Fn(&str) -> bool) -> Vec<(String, NextStep)> {
        let mut changed: Vec<(String, NextStep)> = Vec::new();
        for step in self.events.iter().filter_map(step) {
            let Some(machine) = step.changed_machine().filter(|machine| is_asked_about(machine)) else {
                continue;
            };
            if changed.iter().all(|(known, _)| known != machine) {
                changed.push((machine.to_owned(), step));
            }
        }
        changed
    }

    /// The fewest Machines of an owner that are available at once; 0 without any.
    pub fn lowest(&self, kind: &str, name: &str) -> usize {
        let owner = EventObject { kind: kind.to_owned(), name: name.to_owned() };
        self.lowest.get(&owner.to_string()).copied().unwrap_or(0)
    }
}

fn step(event: &Event) -> Option<NextStep> {
    let Occurrence::Action(does) = &event.does else { return None };
    let (rule, reason) = (event.rule.clone(), event.why.clone());
    does.is_of_pool().then(|| NextStep { does: does.clone(), count: 1, rule, reason, is_bookkeeping: false })
}

/// Nothing when the Cluster is not in the dump. `in_place`: what extensions said to updates in place.
pub fn following(
    dump: &Dump,
    cluster: &ObjectKey,
    in_place: Option<Arc<InPlaceAnswers>>,
    foresight: Foresight,
    now: Timestamp,
) -> Following {
    let Some(mut begun) = world_of(dump, cluster, now) else { return Following::default() };
    // What is late comes all the same: that is the assumption.
    begun.hosts.values_mut().for_each(|host| host.is_stuck = false);
    begun.world.workload.tenancy.held.clear();
    let until = match foresight {
        Foresight::Near => Until::Runs(RUNS_MAX),
        Foresight::Whole => Until::Settled,
    };
    let scenario = Scenario { until, in_place, ..Scenario::default() };
    let chronicle = Chronicle::new(Detail::Sequence, begun.world.now);
    let mut course = Course::new(begun, scenario.way(Tempo::Usual), Timings::none(), chronicle);
    // How it ends does not matter here: the steps up to there are what is asked for.
    course.go();
    let lowest =
        course.world.census.tops().map(|(owner, top)| (owner.to_owned(), top.available_min)).collect();
    Following { events: course.chronicle.events, lowest }
}
