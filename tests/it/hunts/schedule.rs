//! One run as data: how large the cluster is, what people change, what breaks and when. Drawn from a seed, and made smaller
//! while it still fails.

use std::fmt;

use capstan_base::rng::Rng;

use super::weather::Weather;

/// Something that happens at a moment.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Workers wanted.
    Scale(i32),
    /// The control plane to another version.
    UpgradeControlPlane,
    /// The workers to another version.
    UpgradeWorkers,
    /// `maxSurge` and `maxUnavailable` of the workers.
    Limits(i32, i32),
    /// A worker is deleted by a person.
    DeleteWorker,
    /// A worker's kubelet is silent from now on.
    WorkerFails,
    /// The kubelet of a control plane Machine that does not lead etcd, and its alarm.
    MemberFails,
    /// The workload cluster is out of reach for so many seconds.
    Unreachable(u64),
    /// The engine dies, and another begins after so many seconds.
    Restart(u64),
    /// It dies with the answer to so many more creations, and another begins.
    DieAtWrite(u32),
    /// The clock of engine, server and hosts jumps by so many seconds.
    ClockJump(i64),
}

/// When it happens, seconds after the cluster came up.
pub type Timed = (u64, Event);

#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub seed: u64,
    pub control_plane: u32,
    pub workers: u32,
    pub weather: Weather,
    pub events: Vec<Timed>,
}

impl Schedule {
    pub fn drawn(seed: u64) -> Self {
        let rng = Rng::seeded(seed).stream("schedule");
        let control_plane = if rng.below(2) == 0 { 1 } else { 3 };
        let workers = u32::try_from(1 + rng.below(4)).expect("few");
        let mut events: Vec<Timed> =
            (0..2 + rng.below(5)).map(|_| (rng.below(240), event(&rng, control_plane))).collect();
        // More than one dead member of three is no fault that anybody survives.
        let mut members = 0;
        events.retain(|(_, event)| {
            members += usize::from(*event == Event::MemberFails);
            *event != Event::MemberFails || members <= 1
        });
        events.sort_by_key(|(at_s, _)| *at_s);
        let often = |rng: &Rng| if rng.below(2) == 0 { 0 } else { 15 + rng.below(60) };
        let weather = Weather {
            refused: often(&rng),
            conflicts: often(&rng),
            lost: often(&rng),
            slow: often(&rng),
            watches: if rng.below(2) == 0 { 0 } else { 2 + rng.below(4) },
        };
        Self { seed, control_plane, workers, weather, events }
    }

    /// The same with less, each of which is worth a try.
    pub fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for at in 0..self.events.len() {
            let mut fewer = self.clone();
            fewer.events.remove(at);
            all.push(fewer);
        }
        let calmer: [fn(&mut Weather); 5] =
            [|w| w.refused = 0, |w| w.conflicts = 0, |w| w.lost = 0, |w| w.slow = 0, |w| w.watches = 0];
        for calm in calmer {
            let mut fewer = self.clone();
            calm(&mut fewer.weather);
            all.extend((fewer != *self).then_some(fewer));
        }
        all
    }

    /// Workers that may be there at once, and that must be available, over the whole run.
    pub fn worker_bounds(&self) -> (usize, usize) {
        let replicas = |event: &Event| if let Event::Scale(n) = event { Some(*n) } else { None };
        let first = i32::try_from(self.workers).unwrap_or(0);
        let wanted: Vec<i32> =
            std::iter::once(first).chain(self.events.iter().filter_map(|(_, e)| replicas(e))).collect();
        let limits = |pick: fn(i32, i32) -> i32| {
            let set = self.events.iter().filter_map(move |(_, event)| match event {
                Event::Limits(surge, unavailable) => Some(pick(*surge, *unavailable)),
                _ => None,
            });
            set.max().unwrap_or(0)
        };
        let failing = self.count(|event| matches!(event, Event::WorkerFails | Event::DeleteWorker));
        let failing = i32::try_from(failing).unwrap_or(0);
        let most = wanted.iter().max().unwrap_or(&0) + limits(|surge, _| surge).max(1);
        let fewest = wanted.iter().min().unwrap_or(&0) - limits(|_, unavailable| unavailable) - failing;
        (usize::try_from(most).unwrap_or(0), usize::try_from(fewest).unwrap_or(0))
    }

    pub fn count(&self, is_meant: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|(_, event)| is_meant(event)).count()
    }
}

fn event(rng: &Rng, control_plane: u32) -> Event {
    let number = |below: u64| i32::try_from(rng.below(below)).expect("few");
    match rng.below(12) {
        0 | 1 => Event::Scale(1 + number(5)),
        2 => Event::UpgradeControlPlane,
        3 | 4 => Event::UpgradeWorkers,
        5 => [Event::Limits(1, 0), Event::Limits(0, 1), Event::Limits(2, 1)]
            [usize::try_from(rng.below(3)).unwrap_or(0)]
        .clone(),
        6 => Event::DeleteWorker,
        7 => Event::WorkerFails,
        8 if control_plane == 3 => Event::MemberFails,
        8 => Event::Unreachable(10 + rng.below(60)),
        9 => Event::Restart(1 + rng.below(20)),
        10 => Event::DieAtWrite(1 + u32::try_from(rng.below(4)).expect("few")),
        _ => Event::ClockJump(i64::from(number(300)) - 60),
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (planes, workers) = (self.control_plane, self.workers);
        writeln!(f, "seed {}: {planes} + {workers} Machines, {:?}", self.seed, self.weather)?;
        self.events.iter().try_for_each(|(at_s, event)| writeln!(f, "  {at_s:>4} s  {event:?}"))
    }
}
