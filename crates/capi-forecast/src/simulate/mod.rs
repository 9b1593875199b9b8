//! A Cluster run ahead of time: the status functions and planners of every controller over its objects in virtual time,
//! with a model of how long the steps of a Machine take. Owns the world, its time and its end; must not know a client, a
//! runtime or a clock, and must not decide anything itself.
//!
//! Each Cluster is a world of its own, since nothing that is planned looks beyond its Cluster. What is not simulated:
//! topologies, MachinePools, volumes, remediation from outside, and control planes of other kinds stay as they are;
//! bootstrap data is there in its usual time, without the KubeadmConfig's controller.

mod agenda;
mod announced;
mod answers;
mod begin;
mod census;
mod change;
mod chronicle;
mod course;
mod drain;
mod externals;
mod following;
mod hosts;
mod hunt;
mod learn;
mod likely;
mod next_step;
mod outcome;
mod passes;
mod perform;
mod rounds;
mod scenario;
mod score;
mod settled;
mod stages;
mod timing;
mod timings;
mod under_way;
mod updates;
mod upgrade;
mod way;
mod words;
mod workload;
mod world;

#[cfg(test)]
mod tests;

pub use agenda::Order;
pub use announced::{Announced, AnnouncedCause, announced};
pub use answers::{InPlaceAnswer, InPlaceAnswers, Whom};
pub use census::Counts;
pub use change::ActorKind;
pub use chronicle::{Detail, Event, EventObject, HostEvent, Occurrence, Sample};
pub use course::Ending;
pub use following::{Following, Foresight, following};
pub use hunt::{Hunt, RunFinding, hunt, replay};
pub use learn::{Learnt, Remembered, learn, learn_with};
pub use next_step::{NextStep, next_steps};
pub use outcome::{API_VERSION, Duration, End, Forecast, Held, Pool, Simulation};
pub use scenario::{HORIZON, Scenario};
pub use score::{Score, score};
pub use stages::{Begin, PlannedStage, StageForecast, staged};
pub use timing::{Chance, Samples, Span, Tempo, Timing};
pub use timings::Timings;
pub use under_way::agreed_move;
pub use upgrade::{ClusterUpgrade, Upgrade, UpgradePlan, Wave, Window, control_planes_of, upgrade};
pub use way::{Actors, Faults, Until, Way};
pub use words::seconds;

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub use begin::too_large;
use capi_rules::observe::dump::Dump;
use capi_types::key::ObjectKey;
use capstan_base::time::Timestamp;

use chronicle::Chronicle;
use course::Course;

/// The run of one seed of [`hunt`], of every Cluster of a dump or only of `wanted`.
pub fn replayed(
    dump: &Dump,
    wanted: Option<&ObjectKey>,
    scenario: &Scenario,
    (seed, failing): (u64, usize),
    now: Timestamp,
) -> Simulation {
    let (clusters, remarks) = begin::clusters_of(dump);
    let mine = clusters.iter().filter(|key| wanted.is_none_or(|wanted| wanted == *key));
    let told = mine.filter_map(|key| replay(dump, key, scenario, (seed, failing), now)).collect();
    Simulation::new(now, told, remarks)
}

/// Every Cluster of a dump, or only `wanted`, run ahead of time from `now`.
pub fn simulate(dump: &Dump, wanted: Option<&ObjectKey>, scenario: &Scenario, now: Timestamp) -> Simulation {
    let (clusters, mut remarks) = begin::clusters_of(dump);
    remarks.extend(dump.remarks.iter().cloned());
    remarks.extend(dump.not_computed());
    let mine: Vec<&ObjectKey> =
        clusters.iter().filter(|key| wanted.is_none_or(|wanted| wanted == *key)).collect();
    let cores = cores();
    // With Clusters enough for all cores, more threads for each would only get in their way.
    let is_apart = mine.len() >= cores;
    let forecasts = in_threads(&mine, cores, |key| forecast_apart(dump, key, scenario, now, is_apart));
    Simulation::new(now, forecasts.into_iter().flatten().collect(), remarks)
}

/// How many threads have work at the same time.
fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// `work` of each item, in their order, by as many threads as there are cores.
fn in_threads<T: Sync, O: Send>(items: &[T], cores: usize, work: impl Fn(&T) -> O + Sync) -> Vec<O> {
    let (next, work) = (AtomicUsize::new(0), &work);
    let done_next = || {
        // The counter only hands out numbers: results are passed on by joining the threads.
        let at = next.fetch_add(1, Ordering::Relaxed);
        Some((at, work(items.get(at)?)))
    };
    let run = || std::iter::from_fn(done_next).collect::<Vec<_>>();
    let mut done: Vec<(usize, O)> = thread::scope(|scope| {
        let others: Vec<_> = (1..cores.min(items.len())).map(|_| scope.spawn(run)).collect();
        run().into_iter().chain(others.into_iter().flat_map(joined)).collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// One Cluster: as it usually goes, and in which range of time, after runs by chance. Those run side by side, and only where something
/// takes time.
pub fn forecast(dump: &Dump, key: &ObjectKey, scenario: &Scenario, now: Timestamp) -> Option<Forecast> {
    forecast_apart(dump, key, scenario, now, false)
}

/// `is_apart`: other threads are busy with other Clusters, so that this one has none to spare.
fn forecast_apart(
    dump: &Dump,
    key: &ObjectKey,
    scenario: &Scenario,
    now: Timestamp,
    is_apart: bool,
) -> Option<Forecast> {
    let begun = begin::world_of(dump, key, now)?;
    let now = begun.world.now;
    let go = |tempo: Tempo, detail: Detail| {
        let chronicle = Chronicle::new(detail, now);
        let mut course = Course::new(begun.clone(), scenario.way(tempo), scenario.timings.clone(), chronicle);
        let ending = course.go();
        Forecast::of(course, &ending, now, begun.assumptions.clone())
    };
    let mut usual = go(Tempo::Usual, scenario.detail);
    if usual.duration.usual_s > 0 && usual.rounds.is_none() {
        let tempos = likely::tempos(usual.runs);
        let runs = in_threads(&tempos, if is_apart { 1 } else { cores() }, |tempo| {
            go(tempo.clone(), Detail::Counters)
        });
        // A run that ends in another way takes its time for something else.
        let alike = runs.iter().filter(|run| run.ending.is_like(&usual.ending));
        let took: Vec<i64> = alike.map(|run| run.duration.usual_s).collect();
        usual.duration = likely::range(usual.duration.usual_s, &took);
    }
    Some(usual)
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    // A panic goes on in the caller, as if the work had been done there.
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
