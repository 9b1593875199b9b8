//! Lives recorded once and played again through models of their own: whole, for the table of what a person is shown
//! (false alarms, changes of verdict), and with something broken at every step, for how soon that is shown and whether the
//! cause that is named is what broke. `docs/verdicts.md` has the figures.

use std::sync::Arc;

use capi_types::cluster::Cluster;
use capi_types::condition::Status;
use capi_types::machine::Machine;
use capstan_base::time::Timestamp;
use capstan_dashboard::fleet::{
    Condition, ConditionText, Delta, Fleet, Kind, Row, RowId, Severity, Uid, Verdict,
};

use super::lives::{Recorder, Recording};
use super::simulation::{manifest, worker_names};

/// A fault is shown so soon after the end of what it is allowed, seconds.
const DELAY_MAX_S: i64 = 20;
/// Five times what is assumed for a Machine of the control plane, which is the longest limit of these lives.
const STUCK_S: i64 = 450;
/// Nothing that stands still is calm for longer.
const SILENCE_S: i64 = 1_800;
/// One of so many moments at which something came in is a step.
const STEPS: usize = 5;

/// What breaks, from one moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is written any more.
    Silence,
    /// A Machine that is coming up does not get further.
    Stuck,
    /// The Node of a Machine that was up is not ready.
    NodeDown,
    /// The infrastructure of such a Machine is gone.
    HostGone,
    /// The Nodes of all workers that were up are not ready.
    PoolDown,
    /// A Machine that is being deleted never goes.
    NeverGone,
}

const FAULTS: [Fault; 6] =
    [Fault::Silence, Fault::Stuck, Fault::NodeDown, Fault::HostGone, Fault::PoolDown, Fault::NeverGone];

impl Fault {
    /// Which objects of the model it takes now; none where it cannot happen.
    fn targets(self, fleet: &Fleet) -> Vec<Arc<Row>> {
        let is_up = |row: &Row| {
            !row.is_deleting() && row.condition("Available").is_some_and(|c| c.status == Status::True)
        };
        let comes_up = |row: &Row| {
            let is_new = |c: &Condition| c.status == Status::False && c.since_s <= row.created_s + 10;
            !row.is_deleting() && row.condition("Available").is_some_and(is_new)
        };
        let mut machines: Vec<Arc<Row>> =
            fleet.rows().map(|(_, row)| row.clone()).filter(|row| row.kind == Kind::Machine).collect();
        machines.sort_by(|a, b| a.name.cmp(&b.name));
        match self {
            Self::Silence => machines.clear(),
            Self::Stuck => machines.retain(|row| comes_up(row)),
            Self::NodeDown | Self::HostGone => machines.retain(|row| is_up(row)),
            Self::PoolDown => {
                machines.retain(|row| is_up(row) && !row.machine().is_some_and(|m| m.control_plane));
            }
            Self::NeverGone => machines.retain(|row| row.is_deleting()),
        }
        if self != Self::PoolDown {
            machines.truncate(1);
        }
        machines
    }

    /// How an object looks from then on.
    fn broken(self, row: &Arc<Row>, now: Timestamp) -> Arc<Row> {
        match self {
            Self::NodeDown | Self::PoolDown => with_condition(row, "NodeHealthy", "NodeNotHealthy", now),
            Self::HostGone => with_condition(row, "InfrastructureReady", "ObjectDeleted", now),
            Self::Silence | Self::Stuck | Self::NeverGone => row.clone(),
        }
    }

    /// How long it is allowed, seconds.
    fn allowed_s(self) -> i64 {
        match self {
            Self::NodeDown | Self::PoolDown => 15,
            Self::HostGone => 5,
            Self::Stuck => STUCK_S,
            Self::NeverGone => 15 * 60,
            Self::Silence => SILENCE_S,
        }
    }
}

fn with_condition(row: &Row, type_: &str, reason: &str, now: Timestamp) -> Arc<Row> {
    let text = ConditionText {
        type_: type_.into(),
        status: Status::False,
        severity: Severity::None,
        reason: reason.into(),
        message: "broken".into(),
    };
    let since_s = u32::try_from(now.timestamp()).expect("in range");
    let broken = Condition { text: Arc::new(text), since_s };
    let others = row.conditions.iter().filter(|c| c.type_.as_ref() != type_).cloned();
    Arc::new(Row { conditions: others.chain([broken]).collect(), ..row.clone() })
}

/// What a model shows of a recording, second by second.
pub struct Replay {
    fleet: Fleet,
    pub turns: Vec<(Timestamp, Verdict)>,
    /// What was said with each of them.
    said: Vec<String>,
}

impl Replay {
    /// Plays batches until `ends`; from `broken_at` on the fault holds.
    pub fn of(
        recording: &Recording,
        fault: Option<(Fault, Timestamp)>,
        ends: Timestamp,
    ) -> (Self, Vec<Arc<Row>>) {
        let mut replay = Self { fleet: Fleet::new(), turns: Vec::new(), said: Vec::new() };
        let mut targets: Vec<Arc<Row>> = Vec::new();
        let mut batches = recording.batches.iter().peekable();
        let Some(mut now) = recording.batches.first().map(|(at, _)| *at) else { return (replay, targets) };
        while now <= ends {
            let holds = fault.filter(|(_, at)| now >= *at);
            while let Some((_, batch)) = batches.next_if(|(at, _)| *at <= now) {
                let is_silent = holds.is_some_and(|(fault, _)| fault == Fault::Silence);
                let passes = |delta: &Delta| {
                    !is_silent && !uid_of(delta).is_some_and(|uid| targets.iter().any(|row| row.uid == uid))
                };
                replay.fleet.apply(batch.iter().filter(|delta| passes(delta)).cloned().collect());
            }
            replay.fleet.advance(now);
            if let Some((fault, at)) = fault
                && at == now
            {
                targets = fault.targets(&replay.fleet);
                if targets.is_empty() && fault != Fault::Silence {
                    return (replay, targets);
                }
                let broken = targets.iter().map(|row| Delta::Upsert(fault.broken(row, now))).collect();
                replay.fleet.apply(broken);
            }
            replay.note(now, recording.begins);
            now += chrono::TimeDelta::seconds(1);
        }
        (replay, targets)
    }

    fn cluster(&self) -> Option<RowId> {
        self.fleet.clusters().first().copied()
    }

    fn note(&mut self, now: Timestamp, begins: Timestamp) {
        let Some(cluster) = self.cluster().filter(|_| now > begins) else { return };
        let verdict = self.fleet.verdict(cluster);
        if self.turns.last().is_none_or(|(_, last)| *last != verdict) {
            self.turns.push((now, verdict));
            self.said.push(self.fleet.what_is_wrong(cluster));
        }
    }

    /// Every change of verdict: when, and what was said.
    pub fn story(&self) -> String {
        let line =
            |((at, verdict), said): (&(Timestamp, Verdict), &String)| format!("{at} {verdict}: {said}\n");
        self.turns.iter().zip(&self.said).map(line).collect()
    }

    /// What was said with the last change.
    pub fn says(&self) -> &str {
        self.said.last().map_or("", String::as_str)
    }

    pub fn word(&self) -> String {
        let letter = |verdict: &Verdict| match verdict {
            Verdict::Ok => 'O',
            Verdict::Progressing => 'P',
            Verdict::Unknown => 'U',
            Verdict::Degraded => 'D',
            Verdict::Blocked => 'B',
        };
        self.turns.iter().map(|(_, verdict)| letter(verdict)).collect()
    }

    /// How often and for how many seconds it was not calm.
    pub fn alarms(&self, ends: Timestamp) -> (usize, i64) {
        let ends_of = self.turns.iter().skip(1).map(|(at, _)| *at).chain([ends]);
        let loud = self.turns.iter().zip(ends_of).filter(|((_, verdict), _)| *verdict > Verdict::Progressing);
        loud.fold((0, 0), |(count, sum_s), ((at, _), end)| (count + 1, sum_s + (end - *at).num_seconds()))
    }

    /// When it was not calm from then on, to the end.
    pub fn red_since(&self) -> Option<Timestamp> {
        let (at, verdict) = self.turns.last()?;
        let calm = self.turns.iter().rposition(|(_, verdict)| *verdict <= Verdict::Progressing);
        let first = calm.map_or(Some(*at), |calm| self.turns.get(calm + 1).map(|(at, _)| *at));
        first.filter(|_| *verdict > Verdict::Progressing)
    }
}

/// The same with kinds in the opposite order wherever several changed at one moment.
pub fn shuffled(recording: &Recording) -> Recording {
    let kind = |batch: &[Delta]| match batch.first() {
        Some(Delta::Upsert(row)) => row.gvk.kind.clone(),
        _ => String::new(),
    };
    let only_changes = |batch: &[Delta]| batch.iter().all(|delta| matches!(delta, Delta::Upsert(_)));
    let mut batches = recording.batches.clone();
    let is_one_moment = |a: &(Timestamp, Vec<Delta>), b: &(Timestamp, Vec<Delta>)| {
        a.0 == b.0 && only_changes(&a.1) && only_changes(&b.1)
    };
    for moment in batches.chunk_by_mut(is_one_moment) {
        moment.sort_by_key(|(_, batch)| std::cmp::Reverse(kind(batch)));
    }
    Recording { batches, ..recording.clone() }
}

fn uid_of(delta: &Delta) -> Option<Uid> {
    match delta {
        Delta::Upsert(row) => Some(row.uid),
        Delta::Remove { uid, .. } => Some(*uid),
        _ => None,
    }
}

/// Lives in which nothing breaks, with the word that they show.
async fn healthy_lives() -> Vec<(&'static str, &'static str, Recording)> {
    let mut lives = Vec::new();
    let mut life = Recorder::start(41).await;
    life.sim.create(manifest(3, 2)).await;
    life.settle(3, 2, "v1.34.1").await;
    lives.push(("creation, 3 and 2", "PO", life.recording()));

    let mut life = Recorder::well(42, 1, 2).await;
    life.scale(None, Some(4)).await;
    life.run(10).await;
    life.settle(1, 4, "v1.34.1").await;
    lives.push(("workers 2 to 4", "OPO", life.recording()));

    let mut life = Recorder::well(43, 3, 2).await;
    life.upgrade_control_plane().await;
    life.run(3).await;
    life.upgrade_workers().await;
    life.settle(3, 2, "v1.35.0").await;
    lives.push(("upgrade, 3 and 2", "OPO", life.recording()));

    let mut life = Recorder::well(44, 1, 2).await;
    life.pause(true).await;
    life.run(90).await;
    life.pause(false).await;
    life.run(30).await;
    lives.push(("pause and resume", "O", life.recording()));

    let mut life = Recorder::well(45, 1, 2).await;
    let name = worker_names(&life.sim).await.pop().expect("a worker");
    life.sim.delete::<Machine>(&name).await;
    life.run(10).await;
    life.settle(1, 2, "v1.34.1").await;
    lives.push(("a worker is deleted", "OPO", life.recording()));

    life.begin().await;
    life.sim.delete::<Cluster>("harbor").await;
    life.run(120).await;
    lives.push(("the Cluster is deleted", "OP", life.recording()));
    lives
}

/// One line for each kind of fault over all steps of all lives.
#[derive(Default)]
struct Line {
    played: usize,
    missed: Vec<String>,
    early: Vec<String>,
    wrong: Vec<String>,
    /// From the fault until it is shown, seconds.
    red_after_s: Vec<i64>,
}

/// Breaks a life at some of its moments.
fn break_life(name: &str, recording: &Recording, fault: Fault, line: &mut Line) {
    let mut moments: Vec<Timestamp> =
        recording.batches.iter().map(|(at, _)| *at).filter(|at| *at > recording.begins).collect();
    moments.dedup();
    for at in moments.into_iter().step_by(STEPS) {
        // What waits for others has no clock before they are through, which is at the end of the life.
        let base = if fault == Fault::Stuck { recording.ends.max(at) } else { at };
        let ends = base + chrono::TimeDelta::seconds(fault.allowed_s() + DELAY_MAX_S + 10);
        let (replay, targets) = Replay::of(recording, Some((fault, at)), ends);
        let is_possible = !targets.is_empty() || fault == Fault::Silence;
        let Some(cluster) = replay.cluster().filter(|_| is_possible) else { continue };
        if fault == Fault::Silence && replay.fleet.verdict(cluster) == Verdict::Ok {
            // It was through: nothing is missing.
            continue;
        }
        line.played += 1;
        let step = format!("{name} at {} s: {}", (at - recording.begins).num_seconds(), replay.word());
        let Some(red) = replay.red_since() else {
            line.missed.push(step);
            continue;
        };
        line.red_after_s.push((red - at).num_seconds());
        if fault != Fault::Silence && fault != Fault::Stuck && red < at {
            line.early.push(step.clone());
        }
        let leaf = replay.fleet.cause(cluster).last().and_then(|hop| replay.fleet.row(hop.id).cloned());
        let is_it = |leaf: &Arc<Row>| targets.iter().any(|row| row.uid == leaf.uid);
        if !targets.is_empty() && !leaf.as_ref().is_some_and(is_it) {
            line.wrong.push(format!("{step}: {}", replay.fleet.what_is_wrong(cluster)));
        }
    }
}

fn middle(mut all: Vec<i64>) -> i64 {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn the_metrics_of_recorded_lives() {
    let lives = healthy_lives().await;
    println!("life                      shown  changes  false alarms  seconds");
    for (name, word, recording) in &lives {
        let (replay, _) = Replay::of(recording, None, recording.ends);
        let (alarms, alarm_s) = replay.alarms(recording.ends);
        let changes = replay.turns.len().saturating_sub(1);
        println!("{name:24}  {:5}  {changes:7}  {alarms:12}  {alarm_s:7}", replay.word());
        assert_eq!((replay.word().as_str(), alarms), (*word, 0), "{name}");
        assert!(changes <= 2, "{name}");
        let (other, _) = Replay::of(&shuffled(recording), None, recording.ends);
        assert_eq!(other.word(), *word, "{name}: the order of one moment's events");
    }
    println!("fault       steps  missed  wrong cause  allowed s  red after s: middle  most");
    for fault in FAULTS {
        let mut line = Line::default();
        for (name, _, recording) in &lives {
            break_life(name, recording, fault, &mut line);
        }
        let Line { played, missed, early, wrong, red_after_s } = line;
        let most_s = red_after_s.iter().max().copied().unwrap_or(0);
        let (missing, wrongly, half_s) = (missed.len(), wrong.len(), middle(red_after_s));
        let (kind, allowed_s) = (format!("{fault:?}"), fault.allowed_s());
        println!("{kind:10}  {played:5}  {missing:6}  {wrongly:11}  {allowed_s:9}  {half_s:19}  {most_s:4}");
        assert!(played > 0, "{fault:?} happens in no life");
        assert!(missed.is_empty(), "{fault:?} missed:\n{}", missed.join("\n"));
        assert!(early.is_empty(), "{fault:?} shown before:\n{}", early.join("\n"));
        assert!(wrong.is_empty(), "{fault:?} named otherwise:\n{}", wrong.join("\n"));
        let late_s = most_s - allowed_s;
        assert!(fault == Fault::Stuck || late_s <= DELAY_MAX_S, "{fault:?}: {late_s} s late");
    }
}

#[tokio::test(start_paused = true)]
async fn two_faults_at_once_are_both_named() {
    let mut life = Recorder::well(46, 1, 2).await;
    life.run(30).await;
    let recording = life.recording();
    let (mut replay, _) = Replay::of(&recording, None, recording.ends);
    let up = Fault::PoolDown.targets(&replay.fleet);
    let [one, two] = &up[..] else { panic!("two workers, not {}", up.len()) };
    let broken = [Fault::NodeDown.broken(one, recording.ends), Fault::HostGone.broken(two, recording.ends)];
    replay.fleet.apply(broken.into_iter().map(Delta::Upsert).collect());
    replay.fleet.advance(recording.ends + chrono::TimeDelta::seconds(60));
    let cluster = replay.cluster().expect("a Cluster");
    let leaves: Vec<Option<Uid>> = replay
        .fleet
        .causes(cluster)
        .iter()
        .map(|cause| replay.fleet.row(cause.leaf).map(|row| row.uid))
        .collect();
    for row in [one, two] {
        assert!(leaves.contains(&Some(row.uid)), "{}: {leaves:?}", row.name);
    }
}
