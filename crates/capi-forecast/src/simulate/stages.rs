//! A Cluster through several changes, one after another: each at its moment, or when the one before is through. Owns the
//! order and what each stage came to; the changes are somebody else's.

use serde::Serialize;
use serde_json::Value;

use super::begin::{Beginning, world_of};
use super::change::ActorKind;
use super::chronicle::{Chronicle, Detail};
use super::course::{Course, Ending};
use super::likely;
use super::outcome::{Duration, End, Forecast, Held, Pool};
use super::scenario::Scenario;
use super::timing::Tempo;
use super::{cores, in_threads};
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
    /// From there to its last change; the ends are those of the range after runs by chance.
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
    let (mut usual, controller_runs) = run(&begun, scenario, stages, Tempo::Usual);
    let tempos = likely::tempos(controller_runs);
    let by_chance = in_threads(&tempos, cores(), |tempo| run(&begun, scenario, stages, tempo.clone()).0);
    for (at, stage) in usual.iter_mut().enumerate() {
        let same = by_chance.iter().filter_map(|run| run.get(at));
        let alike = same.filter(|other| other.ending.is_like(&stage.ending));
        let took: Vec<i64> = alike.map(|other| other.duration.usual_s).collect();
        stage.duration = likely::range(stage.duration.usual_s, &took);
    }
    Some(usual)
}

/// At one tempo, so that durations have no range, with how many runs of controllers that took.
fn run(
    begun: &Beginning,
    scenario: &Scenario,
    stages: &[PlannedStage],
    tempo: Tempo,
) -> (Vec<StageForecast>, u64) {
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
    (all, course.runs)
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
