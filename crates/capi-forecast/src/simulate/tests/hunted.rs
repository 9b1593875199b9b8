//! Worlds by chance: sizes, changes in the middle of others, Machines that fail or never come up, controllers that are cut. What
//! must hold is judged by counters alone. A seed that fails prints its command and the smallest scenario that still does.
//!
//! `CAPSTAN_WORLD_SEEDS=N` runs more seeds than the suite has time for, from `CAPSTAN_WORLD_FROM=S` on; `CAPSTAN_WORLD_SEED=S`
//! runs one. `tests/simulate` sets them.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::json;

use super::*;
use crate::simulate::change::ActorKind;
use crate::simulate::hunt::{is_missing, leaks};
use capi_types::control_plane::KubeadmControlPlane;
use capstan_base::rng::Rng;

/// So many seeds in the suite.
const SEEDS: u64 = 120;
const POOL: &str = "MachineDeployment/md";

/// Something that people change, after so many steps of what was wanted before.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Scale(usize),
    Limits(usize, usize),
    UpgradePlane,
    UpgradeWorkers,
    ScalePlane(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Drawn {
    seed: u64,
    planes: u32,
    workers: usize,
    pub changes: Vec<(usize, Change)>,
    /// A Machine that is there, by its place among all of them.
    failing: Option<u64>,
    /// One that is made, by its number.
    stillborn: Option<usize>,
    cut_one_in: Option<u64>,
    is_random: bool,
}

pub(super) fn drawn(seed: u64) -> Drawn {
    let rng = Rng::seeded(seed).stream("scenario");
    let number = |below: u64| usize::try_from(rng.below(below)).expect("few");
    let change = || match rng.below(8) {
        0..=2 => Change::Scale(1 + number(6)),
        3 => [Change::Limits(1, 0), Change::Limits(0, 1), Change::Limits(2, 1)][number(3)].clone(),
        4 => Change::UpgradePlane,
        5 => Change::ScalePlane([1, 3, 5][number(3)]),
        _ => Change::UpgradeWorkers,
    };
    Drawn {
        seed,
        planes: [1, 3][number(2)],
        workers: 1 + number(4),
        changes: (0..1 + rng.below(4)).map(|_| (1 + number(12), change())).collect(),
        failing: (rng.below(3) == 0).then(|| rng.below(8)),
        stillborn: (rng.below(4) == 0).then(|| 1 + number(4)),
        cut_one_in: (rng.below(2) == 0).then(|| 4 + rng.below(12)),
        is_random: rng.below(4) != 0,
    }
}

impl Drawn {
    fn smaller(&self) -> Vec<Self> {
        let mut all: Vec<Self> = (0..self.changes.len())
            .map(|at| {
                let mut fewer = self.clone();
                fewer.changes.remove(at);
                fewer
            })
            .collect();
        all.extend([
            Self { failing: None, ..self.clone() },
            Self { stillborn: None, ..self.clone() },
            Self { cut_one_in: None, ..self.clone() },
            Self { is_random: false, ..self.clone() },
        ]);
        all.retain(|smaller| smaller != self);
        all
    }

    fn way(&self, world: &World) -> Way {
        let rng = Rng::seeded(self.seed);
        let names: Vec<String> =
            world.all::<Machine>().map(|m| m.metadata.name.clone().unwrap_or_default()).collect();
        let failing = self.failing.map(|at| usize::try_from(at).unwrap_or(0) % names.len());
        let faults = Faults {
            failing: failing.map(|at| names[at].clone()).into_iter().collect(),
            stillborn: self.stillborn.into_iter().collect(),
            cut_one_in: self.cut_one_in.map(|one_in| (one_in, rng.stream("cuts"))),
        };
        let (order, tempo) = if self.is_random {
            (Order::Random(rng.stream("order")), Tempo::Drawn(rng.stream("tempo")))
        } else {
            (Order::Fixed, Tempo::Usual)
        };
        Way { order, tempo, faults, ..way() }
    }

    /// Machines that do not come back by themselves.
    fn faults(&self) -> usize {
        usize::from(self.failing.is_some()) + usize::from(self.stillborn.is_some())
    }

    /// Workers at most, and available at least, over the whole run.
    fn bounds(&self) -> (usize, usize) {
        let (mut most, mut fewest, mut surge, mut unavailable) = (self.workers, self.workers, 1, 0);
        for (_, change) in &self.changes {
            match change {
                Change::Scale(replicas) => (most, fewest) = (most.max(*replicas), fewest.min(*replicas)),
                Change::Limits(more, fewer) => {
                    (surge, unavailable) = (surge.max(*more), unavailable.max(*fewer));
                }
                Change::UpgradePlane | Change::UpgradeWorkers | Change::ScalePlane(_) => {}
            }
        }
        (most + surge, fewest.saturating_sub(unavailable + self.faults()))
    }
}

pub(super) fn patch(change: &Change) -> (ActorKind, String, Value) {
    let rolling = |surge: usize, unavailable: usize| {
        let limits = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        json!({"rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": limits}}})
    };
    let (kind, spec) = match change {
        Change::Scale(replicas) => (ActorKind::MachineDeployment, json!({"replicas": replicas})),
        Change::Limits(surge, unavailable) => (ActorKind::MachineDeployment, rolling(*surge, *unavailable)),
        Change::UpgradeWorkers => {
            (ActorKind::MachineDeployment, json!({"template": {"spec": {"version": "v1.34.3"}}}))
        }
        Change::UpgradePlane => (ActorKind::KubeadmControlPlane, json!({"version": "v1.34.3"})),
        Change::ScalePlane(replicas) => (ActorKind::KubeadmControlPlane, json!({"replicas": replicas})),
    };
    let name = if kind == ActorKind::KubeadmControlPlane { "cp" } else { "md" };
    (kind, name.to_owned(), json!({"spec": spec}))
}

/// Grown clusters by size, since growing one costs more than a run.
#[derive(Default)]
pub(super) struct Nursery(BTreeMap<(u32, usize), World>);

impl Nursery {
    pub(super) fn world(&mut self, drawn: &Drawn) -> World {
        let size = (drawn.planes, drawn.workers);
        let workers = u32::try_from(drawn.workers).expect("few");
        self.0.entry(size).or_insert_with(|| grown(drawn.planes, workers)).clone()
    }
}

/// One run. `Err`: what did not hold.
fn run(drawn: &Drawn, world: World) -> Result<Ending, String> {
    let done = catch_unwind(AssertUnwindSafe(|| live(drawn, world)));
    done.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("a panic: {}", text.unwrap_or_default()))
    })
}

fn live(drawn: &Drawn, world: World) -> Result<Ending, String> {
    let margin = world.workload.etcd.margin();
    let way = drawn.way(&world);
    let mut course = course(again(world), way);
    for (after, change) in &drawn.changes {
        course.way.until = Until::Steps(*after);
        course.go();
        look(drawn, &course, margin)?;
        let now = course.world.now;
        course.resume(now, &[patch(change)]);
    }
    course.way.until = Until::Settled;
    let ending = course.go();
    look(drawn, &course, margin)?;
    match &ending {
        Ending::Settled => {}
        Ending::Stuck if course.blockers.values().any(|all| !all.is_empty()) => {}
        Ending::Stuck if is_missing(&course.world) => {}
        other => return Err(format!("it ends as {other:?}, and nothing shows why\n{}", report(&course))),
    }
    match leaks(&course.world).pop() {
        Some(leak) => Err(format!("{leak}\n{}", report(&course))),
        None => Ok(ending),
    }
}

/// What must hold of the counters since the last change.
fn look(drawn: &Drawn, course: &Course, margin: Option<i64>) -> Result<(), String> {
    let (most, fewest) = drawn.bounds();
    let samples = course.chronicle.samples.iter().filter(|sample| sample.owner == POOL);
    for sample in samples {
        let there = sample.counts.machines - sample.counts.in_deletion;
        if there > most || sample.counts.available < fewest {
            let found = format!("{there} workers, {} available", sample.counts.available);
            let bounds = format!("{most} at most are allowed, {fewest} available at least");
            return Err(format!("{found} after {} s: {bounds}\n{}", sample.at_s, report(course)));
        }
    }
    let can_lose_one = margin.is_some_and(|margin| margin >= 1);
    let scales = |(_, change): &(usize, Change)| matches!(change, Change::ScalePlane(n) if *n < 3);
    let is_small = drawn.changes.iter().any(scales);
    if course.chronicle.margin_min.is_some_and(|lowest| lowest < 0)
        && (drawn.faults() == 0 || (can_lose_one && drawn.faults() == 1 && !is_small))
    {
        return Err(format!("etcd lost its quorum\n{}", report(course)));
    }
    Ok(())
}

/// The smallest scenario found that still fails, and how.
fn shrunk(first: Drawn, said: String, nursery: &mut Nursery) -> (Drawn, String) {
    let (mut least, mut said) = (first, said);
    while let Some((smaller, why)) = least.smaller().into_iter().find_map(|smaller| {
        let world = nursery.world(&smaller);
        run(&smaller, world).err().map(|why| (smaller, why))
    }) {
        (least, said) = (smaller, why);
    }
    (least, said)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn no_chance_breaks_what_must_hold() {
    let one = number("CAPSTAN_WORLD_SEED");
    let first = one.or_else(|| number("CAPSTAN_WORLD_FROM")).unwrap_or(1);
    let seeds = one.map_or_else(|| number("CAPSTAN_WORLD_SEEDS").unwrap_or(SEEDS), |_| 1);
    let (mut settled, mut waiting) = (0_u64, 0_u64);
    let mut nursery = Nursery::default();
    let began = std::time::Instant::now();
    for seed in first..first + seeds {
        let drawn = drawn(seed);
        let world = nursery.world(&drawn);
        match run(&drawn, world) {
            Ok(Ending::Settled) => settled += 1,
            Ok(_) => waiting += 1,
            Err(said) => {
                let (least, said) = shrunk(drawn, said, &mut nursery);
                panic!("{said}\n{least:#?}\nagain: tests/simulate world --seed {seed}");
            }
        }
    }
    let took_s = began.elapsed().as_secs_f64();
    println!(
        "worlds: {seeds} seeds from {first} in {took_s:.1} s: {settled} settled, {waiting} wait and say why"
    );
    assert!(settled > waiting || seeds < 20, "{settled} settled, {waiting} wait");
}

/// The same seed gives the same run.
#[test]
fn a_seed_shows_itself_again() {
    let mut nursery = Nursery::default();
    for seed in [3, 7, 11] {
        let drawn = drawn(seed);
        let mut once = || {
            let world = nursery.world(&drawn);
            let mut course = course(again(world.clone()), drawn.way(&world));
            course.world.want(ActorKind::KubeadmControlPlane, "cp", &json!({"spec": {"version": "v1.35.0"}}));
            let ending = course.go();
            (format!("{ending:?}"), sequence(&course), course.world.get::<KubeadmControlPlane>("cp"))
        };
        assert_eq!(once(), once(), "seed {seed}");
    }
}
