//! One Cluster through many runs in which things go wrong by chance: orders, durations, Machines that fail, Machines that
//! never come up, controllers that are stopped in the middle of their writes. Owns what goes wrong and what must hold all
//! the same; shares no rule with the planners.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::agenda::Order;
use super::begin::{Beginning, world_of};
use super::chronicle::{Chronicle, Detail};
use super::course::{Course, Ending};
use super::outcome::Forecast;
use super::scenario::Scenario;
use super::timing::Tempo;
use super::way::{Faults, Way};
use super::world::{World, name_of};
use capi_rules::observe::dump::Dump;
use capi_rules::plan::Wait;
use capi_rules::status::machine_deployment::{max_surge, max_unavailable};
use capi_types::condition::{Conditioned as _, is_true};
use capi_types::key::{ObjectKey, controller_of};
use capi_types::machine::Machine;
use capstan_base::rng::Rng;
use capstan_base::time::Timestamp;

/// One run of a controller in so many is stopped in the middle of its writes.
const CUT_ONE_IN: u64 = 12;
/// Seeds that are named for one thing.
const SEEDS_MAX: usize = 5;

/// What many runs came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hunt {
    pub namespace: String,
    pub cluster: String,
    pub seeds: u64,
    /// Runs that ended with nothing left to do.
    pub settled: u64,
    /// Runs that wait for a person, by what they wait for.
    pub waiting: Vec<RunFinding>,
    /// What must hold and did not.
    pub broken: Vec<RunFinding>,
}

/// Something that was seen in several runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunFinding {
    pub sentence: String,
    pub runs: u64,
    /// The first of them.
    pub seeds: Vec<u64>,
}

/// Runs the seeds `1..=seeds`, with as many failing Machines in each as `failing` says.
pub fn hunt(
    dump: &Dump,
    key: &ObjectKey,
    scenario: &Scenario,
    (seeds, failing): (u64, usize),
    now: Timestamp,
) -> Option<Hunt> {
    let begun = world_of(dump, key, now)?;
    let now = begun.world.now;
    // From the state as it was found: what is broken already is not blamed on a run.
    let bounds = Bounds::of(&begun.world);
    let mut hunt =
        Hunt { namespace: key.namespace.clone(), cluster: key.name.clone(), seeds, ..Hunt::default() };
    let (mut waiting, mut broken) = (Seen::default(), Seen::default());
    for seed in 1..=seeds {
        let (course, ending) = live(&begun, scenario, (failing, seed), Detail::Counters, now);
        match ending {
            Ending::Settled => hunt.settled += 1,
            Ending::Stuck => waiting.note(seed, reason(&course)),
            Ending::Circle { .. } | Ending::TooLong => {
                broken.note(seed, "it does not come to an end".to_owned());
            }
            Ending::Reached => {}
        }
        for sentence in bounds.broken(&course, &ending, failing) {
            broken.note(seed, sentence);
        }
    }
    (hunt.waiting, hunt.broken) = (waiting.findings(), broken.findings());
    Some(hunt)
}

/// The run of one seed, as it is told.
pub fn replay(
    dump: &Dump,
    key: &ObjectKey,
    scenario: &Scenario,
    (seed, failing): (u64, usize),
    now: Timestamp,
) -> Option<Forecast> {
    let begun = world_of(dump, key, now)?;
    let now = begun.world.now;
    let (course, ending) = live(&begun, scenario, (failing, seed), scenario.detail, now);
    Some(Forecast::of(course, &ending, now, begun.assumptions))
}

/// One run, the same whenever the seed is the same.
fn live(
    begun: &Beginning,
    scenario: &Scenario,
    (failing, seed): (usize, u64),
    detail: Detail,
    now: Timestamp,
) -> (Course, Ending) {
    let rng = Rng::seeded(seed);
    let way = Way {
        // A stream for each question: one draw more in one of them leaves the others as they were.
        order: Order::Random(rng.stream("order")),
        actors: scenario.actors,
        tempo: Tempo::Drawn(rng.stream("tempo")),
        until: scenario.until,
        horizon: scenario.horizon,
        faults: faults(&begun.world, failing, &rng.stream("faults")),
        in_place: scenario.in_place.clone(),
    };
    let chronicle = Chronicle::new(detail, now);
    let mut course = Course::new(begun.clone(), way, scenario.timings.clone(), chronicle);
    let ending = course.go();
    (course, ending)
}

/// Each failure hits a Machine that is there, or one that is made.
fn faults(world: &World, failing: usize, rng: &Rng) -> Faults {
    let mut faults = Faults { cut_one_in: Some((CUT_ONE_IN, rng.stream("cuts"))), ..Faults::default() };
    let names: Vec<&str> = world.all::<Machine>().map(|machine| name_of(machine.as_ref())).collect();
    for _ in 0..failing {
        let drawn = usize::try_from(rng.below(names.len() as u64)).unwrap_or(0);
        match names.get(drawn).filter(|_| rng.below(2) == 0) {
            Some(name) => faults.failing.push((*name).to_owned()),
            None => faults.stillborn.push(usize::try_from(rng.below(4)).unwrap_or(0) + 1),
        }
    }
    faults
}

/// Why nothing moves any more: what nothing will end, before what is waited for.
fn reason(course: &Course) -> String {
    let blockers = || course.blockers.values().flatten();
    let stuck = blockers().find(|blocker| blocker.wait == Wait::Stuck);
    let held = stuck.or_else(|| blockers().next());
    let Some(blocker) = held else { return "a Machine is not available, and nothing replaces it".to_owned() };
    // They differ from run to run.
    let names = course.world.all::<Machine>().map(|machine| name_of(machine.as_ref())).collect();
    format!("{}: {}", blocker.reason.rule, without_names(&blocker.reason.sentence, &names))
}

/// A sentence with `…` for each of the names. Only whole ones: a name may begin another one.
fn without_names(sentence: &str, names: &BTreeSet<&str>) -> String {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let (mut found, mut rest) = (String::new(), sentence);
    while let Some(start) = rest.find(is_of_name) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !is_of_name(c)).unwrap_or(from.len());
        let (run, after) = from.split_at(end);
        // No name ends with the full stop of a sentence.
        let name = run.trim_end_matches('.');
        found.push_str(before);
        found.push_str(if names.contains(name) { "…" } else { name });
        found.push_str(&run[name.len()..]);
        rest = after;
    }
    found.push_str(rest);
    found
}

/// What must hold in every run.
struct Bounds {
    /// By `Kind/name`: the fewest available Machines, the most Machines.
    pools: BTreeMap<String, (usize, usize)>,
    /// Members of etcd that may fail at the beginning.
    margin: Option<i64>,
}

impl Bounds {
    fn of(world: &World) -> Self {
        let number = |n: i32| usize::try_from(n).unwrap_or(0);
        let here: BTreeMap<&str, (usize, usize)> =
            world.census.tops().map(|(id, top)| (id, (top.counts.available, top.counts.machines))).collect();
        let mut pools = BTreeMap::new();
        for deployment in world.machine_deployments.values() {
            let id = format!("MachineDeployment/{}", name_of(deployment.as_ref()));
            let wanted = number(deployment.spec.replicas.unwrap_or(1));
            let (available, machines) = here.get(id.as_str()).copied().unwrap_or_default();
            let fewest = wanted.saturating_sub(number(max_unavailable(deployment))).min(available);
            pools.insert(id, (fewest, (wanted + number(max_surge(deployment))).max(machines)));
        }
        Self { pools, margin: world.workload.etcd.margin() }
    }

    /// Sentences about what did not hold.
    fn broken(&self, course: &Course, ending: &Ending, failing: usize) -> Vec<String> {
        let mut found = Vec::new();
        for (id, top) in course.world.census.tops() {
            let Some((fewest, most)) = self.pools.get(id).copied() else { continue };
            // Failures that are made to happen may cost one Machine each.
            let fewest = fewest.saturating_sub(failing);
            if top.available_min < fewest {
                found.push(format!(
                    "{id} had {} available Machines, and {fewest} at least must be",
                    top.available_min
                ));
            }
            // A Machine that is on its way out counts until it is gone.
            if top.machines_max > most + failing {
                found.push(format!("{id} had {} Machines, and {most} at most are allowed", top.machines_max));
            }
        }
        let failed = i64::try_from(failing).unwrap_or(i64::MAX);
        if let (Some(at_first), Some(lowest)) = (self.margin, course.chronicle.margin_min)
            && lowest < 0
            // Otherwise the failures themselves take the quorum, and no rule is to blame.
            && at_first >= failed
        {
            found.push(format!("etcd lost its quorum, although it can do without {failing} of its members"));
        }
        found.extend(leaks(&course.world));
        if *ending == Ending::Stuck
            && course.blockers.values().all(Vec::is_empty)
            && !is_missing(&course.world)
        {
            found.push("nothing moves, and nothing shows why".to_owned());
        }
        found
    }
}

/// A Machine that is not available shows by its own conditions what is missing.
pub(super) fn is_missing(world: &World) -> bool {
    world.all::<Machine>().any(|machine| !is_true(machine.conditions(), "Available"))
}

/// Machines that nobody controls, and Nodes without a Machine. No fault is a Node that nobody could delete because the
/// workload cluster was out of reach when its Machine went, nor one of a Cluster that is being deleted: it goes with its host.
pub(super) fn leaks(world: &World) -> Vec<String> {
    let mut found = Vec::new();
    let orphans = world.all::<Machine>().filter(|machine| controller_of(machine.as_ref()).is_none()).count();
    if orphans > 0 {
        found.push(format!("{orphans} Machines have no controller at the end"));
    }
    let is_leaving = world.cluster().is_none_or(|c| c.metadata.deletion_timestamp.is_some());
    if is_leaving || !world.workload.is_reachable() {
        return found;
    }
    let has_machine = |node: &str| {
        world.all::<Machine>().any(|machine| {
            let named = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
            named.is_some_and(|named| named.name == node) || name_of(machine.as_ref()) == node
        })
    };
    let was_in_reach = |node: &String| !world.workload.abandoned.contains(node);
    let lost = world.workload.nodes.keys().filter(|node| was_in_reach(node) && !has_machine(node)).count();
    if lost > 0 {
        found.push(format!("{lost} Nodes have no Machine at the end"));
    }
    found
}

/// Sentences with the runs in which they were true.
#[derive(Default)]
struct Seen(BTreeMap<String, (u64, Vec<u64>)>);

impl Seen {
    fn note(&mut self, seed: u64, sentence: String) {
        let (runs, seeds) = self.0.entry(sentence).or_default();
        *runs += 1;
        if seeds.len() < SEEDS_MAX {
            seeds.push(seed);
        }
    }

    /// The most frequent first.
    fn findings(self) -> Vec<RunFinding> {
        let finding = |(sentence, (runs, seeds)): (String, (u64, Vec<u64>))| RunFinding {
            sentence: capstan_base::text::sanitize_line(&sentence),
            runs,
            seeds,
        };
        let mut all: Vec<RunFinding> = self.0.into_iter().map(finding).collect();
        // The sort is stable: findings of one number stay in the order of their sentences.
        all.sort_by_key(|finding| std::cmp::Reverse(finding.runs));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_are_left_out_of_a_sentence() {
        let names = BTreeSet::from(["m-1", "m-10", "m-1.b", "md"]);
        for (sentence, expected) in [
            ("", ""),
            ("m-1", "…"),
            ("Machine m-10 waits for m-1.", "Machine … waits for …."),
            ("m-1, m-1.b and m-1x: (m-10)", "…, … and m-1x: (…)"),
            // Of a pool that is called as a Machine begins.
            ("MachineSet md-0 of md waits…", "MachineSet md-0 of … waits…"),
            ("ns/m-1 has m-1's Node", "ns/… has …'s Node"),
        ] {
            assert_eq!(without_names(sentence, &names), expected);
        }
    }
}
