//! A Cluster through several changes, one after another: each at its moment, or when the one before is through. Owns the
//! order and what each stage came to; the changes are somebody else's.

use serde::Serialize;
use serde_json::Value;

use super::begin::{Beginning, world_of};
use super::change::ActorKind;
use super::chronicle::{Chronicle, Detail};
use super::course::{Course, Ending};
use super::outcome::{Duration, End, Forecast, Held, Pool};
use super::scenario::Scenario;
use super::timing::Tempo;
use capi_rules::observe::dump::Dump;
use capi_types::key::ObjectKey;
use capstan_base::time::{Timestamp, rfc3339};

/// When a stage begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this moment, or when the stage before is through if that is later.
    At(Timestamp),
    /// When the stage before is through.
    Then,
}

/// One change of a Cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStage {
    pub name: String,
    pub begin: Begin,
    /// Merge patches. None: what is due by then.
    pub patches: Vec<(ActorKind, String, Value)>,
}

/// What a stage comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageForecast {
    pub name: String,
    /// RFC 3339, as it usually goes.
    pub begins: String,
    /// From there to its last change; the ends are those of runs in which every step is short or long.
    pub duration: Duration,
    pub ending: End,
    /// Pools whose counters change.
    pub pools: Vec<Pool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_margin_min: Option<i64>,
    pub held: Vec<Held>,
    #[serde(skip)]
    pub begins_at: Timestamp,
}

impl StageForecast {
    /// The moment it is through at the latest, as far as the range says.
    pub fn ends_by(&self) -> Timestamp {
        self.begins_at + chrono::TimeDelta::seconds(self.duration.long_s)
    }

    /// Nothing after it can begin.
    pub fn is_stopped(&self) -> bool {
        self.ending != End::Settled
    }
}

/// Every stage of one Cluster, up to the first that does not end well; `None` when the Cluster is not there.
pub fn staged(
    dump: &Dump,
    key: &ObjectKey,
    scenario: &Scenario,
    stages: &[PlannedStage],
    now: Timestamp,
) -> Option<Vec<StageForecast>> {
    let begun = world_of(dump, key, now)?;
    let runs = [Tempo::Usual, Tempo::Short, Tempo::Long].map(|tempo| run(&begun, scenario, stages, tempo));
    let [mut usual, short, long] = runs;
    for (at, stage) in usual.iter_mut().enumerate() {
        let took = |run: &[StageForecast]| run.get(at).map_or(stage.duration.usual_s, |s| s.duration.usual_s);
        let usual_s = stage.duration.usual_s;
        // Shorter steps may lead another way, and that one
        // may take longer: the range still holds the usual.
        let (short_s, long_s) = (took(&short).min(usual_s), took(&long).max(usual_s));
        stage.duration = Duration { short_s, usual_s, long_s };
    }
    Some(usual)
}

/// At one tempo: durations have no range.
fn run(begun: &Beginning, scenario: &Scenario, stages: &[PlannedStage], tempo: Tempo) -> Vec<StageForecast> {
    let now = begun.world.now;
    let chronicle = Chronicle::new(Detail::Counters, now);
    let mut course = Course::new(begun.clone(), scenario.way(tempo), scenario.timings.clone(), chronicle);
    // What is under way is through first.
    course.go();
    let mut all = Vec::new();
    for stage in stages {
        let began = match stage.begin {
            Begin::At(at) => at.max(course.chronicle.acted_at),
            Begin::Then => course.chronicle.acted_at,
        };
        course.resume(began, &stage.patches);
        let ending = course.go();
        let told = forecast_of(&course, &ending, &stage.name, began);
        let is_stopped = told.is_stopped();
        all.push(told);
        if is_stopped {
            break;
        }
    }
    all
}

fn forecast_of(course: &Course, ending: &Ending, name: &str, began: Timestamp) -> StageForecast {
    let whole = Forecast::at_rest(course, ending, began);
    let pools = whole.pools.iter().filter(|pool| whole.changes(pool)).cloned().collect();
    StageForecast {
        name: name.to_owned(),
        begins: rfc3339(began),
        duration: whole.duration,
        ending: whole.ending,
        pools,
        etcd_margin_min: whole.etcd_margin_min,
        held: whole.held,
        begins_at: began,
    }
}
