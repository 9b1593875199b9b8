//! A forecast as people and scripts read it: how a Cluster gets to its end, how long that takes, how low it goes on the way,
//! and what holds it. Owns that form; must not run anything.

use serde::{Deserialize, Serialize};

use super::chronicle::{Event, Sample};
use super::course::{Course, Ending};
use super::way::Actors;
use super::world::World;
use capi_rules::plan::Wait;
use capstan_base::text::sanitize_line;
use capstan_base::time::{Timestamp, rfc3339};

/// The name of the JSON shape; a change that breaks readers changes it.
pub const API_VERSION: &str = "capstan/v1alpha1";

/// Several Clusters run ahead of time from one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Simulation {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// RFC 3339.
    pub at: String,
    /// By namespace and name.
    pub clusters: Vec<Forecast>,
    /// What was left out or could not be read, in sentences.
    pub remarks: Vec<String>,
}

/// One Cluster run ahead of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    pub namespace: String,
    pub cluster: String,
    pub ending: End,
    pub duration: Duration,
    /// MachineDeployments, control planes, and MachineSets that stand alone.
    pub pools: Vec<Pool>,
    /// Members of etcd that may fail beyond those that did, at the worst moment; none without etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_margin_min: Option<i64>,
    /// What still waits at the end, and for what.
    pub held: Vec<Held>,
    /// Runs of controllers.
    pub runs: u64,
    /// Rounds, where the planners took turns and moments count rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<i64>,
    pub events: Vec<Event>,
    pub samples: Vec<Sample>,
    /// What was not read and what it was taken for, in sentences.
    pub assumptions: Vec<String>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum End {
    Settled,
    Stuck,
    /// The steps that were asked for are done.
    Reached,
    /// The same counters came again and again.
    #[serde(rename_all = "camelCase")]
    Circle {
        since_s: i64,
        machines_made: u64,
    },
    TooLong,
}

impl End {
    /// The same end, whatever its numbers.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// How long it takes to the last change, in seconds: as it usually goes, and the ends between which eight of ten lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Duration {
    pub short_s: i64,
    pub usual_s: i64,
    pub long_s: i64,
}

/// What becomes of one pool on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// `ActorKind/name`.
    pub owner: String,
    pub machines: usize,
    pub available: usize,
    pub available_min: usize,
    pub machines_max: usize,
}

/// Something that waits at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// `ActorKind/name`.
    pub object: String,
    pub rule: String,
    pub sentence: String,
}

impl Forecast {
    /// What one run came to. The duration is that of this run alone.
    pub(super) fn of(course: Course, ending: &Ending, began: Timestamp, assumptions: Vec<String>) -> Self {
        let mut forecast = Self::at_rest(&course, ending, began);
        forecast.assumptions = assumptions;
        // Moved, since they are most of a course; it ends here.
        forecast.events = course.chronicle.events;
        forecast.sanitize();
        forecast
    }

    /// What a course came to that goes on later; its events stay where they are.
    pub(super) fn at_rest(course: &Course, ending: &Ending, began: Timestamp) -> Self {
        let seconds = |at: Timestamp| (at - began).num_seconds();
        // To the last change and not to the end: a run
        // waits on for a while to see that nothing follows.
        let took_s = seconds(course.chronicle.acted_at).max(0);
        let ending = match ending {
            Ending::Settled => End::Settled,
            Ending::Stuck => End::Stuck,
            Ending::Reached => End::Reached,
            Ending::Circle { since, made } => End::Circle { since_s: seconds(*since), machines_made: *made },
            Ending::TooLong => End::TooLong,
        };
        // Blockers that a settled Cluster still has are waits that end in nothing.
        let held = if ending == End::Settled { Vec::new() } else { held(course) };
        let mut forecast = Self {
            namespace: course.world.key.namespace.clone(),
            cluster: course.world.key.name.clone(),
            ending,
            duration: Duration { short_s: took_s, usual_s: took_s, long_s: took_s },
            pools: pools(&course.world),
            etcd_margin_min: course.chronicle.margin_min,
            held,
            runs: course.runs,
            // Without durations the clock counts rounds.
            rounds: (course.way.actors == Actors::Planner).then_some(took_s),
            events: Vec::new(),
            samples: course.chronicle.samples.clone(),
            assumptions: Vec::new(),
        };
        forecast.sanitize();
        forecast
    }

    /// Names and sentences come from a cluster.
    fn sanitize(&mut self) {
        let line = |text: &mut String| *text = sanitize_line(text);
        self.events.iter_mut().flat_map(Event::texts_mut).for_each(line);
        self.held.iter_mut().for_each(|h| [&mut h.object, &mut h.sentence].into_iter().for_each(line));
        self.pools.iter_mut().for_each(|pool| line(&mut pool.owner));
        self.assumptions.iter_mut().for_each(line);
        self.samples.iter_mut().for_each(|sample| line(&mut sample.owner));
        [&mut self.namespace, &mut self.cluster].into_iter().for_each(line);
    }
}

impl Simulation {
    pub(super) fn new(at: Timestamp, clusters: Vec<Forecast>, remarks: Vec<String>) -> Self {
        let remarks = remarks.iter().map(|remark| sanitize_line(remark)).collect();
        Self { api_version: API_VERSION, kind: "Simulation", at: rfc3339(at), clusters, remarks }
    }
}

fn pools(world: &World) -> Vec<Pool> {
    let pool = |(owner, top): (&str, &super::census::Top)| Pool {
        owner: owner.to_owned(),
        machines: top.counts.machines,
        available: top.counts.available,
        available_min: top.available_min,
        machines_max: top.machines_max,
    };
    world.census.tops().map(pool).collect()
}

/// What holds, before what only waits for it; each sentence of an object once.
fn held(course: &Course) -> Vec<Held> {
    let mut found: Vec<(bool, Held)> = Vec::new();
    for (actor, blockers) in &course.blockers {
        for blocker in blockers {
            let held = Held {
                object: format!("{}/{}", actor.kind.name(), actor.name),
                rule: blocker.reason.rule.to_owned(),
                sentence: blocker.reason.sentence.clone(),
            };
            // Several runs of one controller say the same.
            if !found.iter().any(|(_, known)| *known == held) {
                found.push((blocker.wait == Wait::UnderWay, held));
            }
        }
    }
    for name in course.world.workload.nodes.keys() {
        for sentence in course.world.workload.tenancy.holding(name) {
            let object = format!("Node/{name}");
            // Pods that a budget holds do not leave by waiting, so that these count as holds.
            found.push((false, Held { object, rule: "disruption-budget".to_owned(), sentence }));
        }
    }
    // A stable sort, so that each half keeps the order of its objects.
    found.sort_by_key(|(is_under_way, _)| *is_under_way);
    found.into_iter().map(|(_, held)| held).collect()
}
