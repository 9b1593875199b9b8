//! When each part of a simulated machine comes up: a timetable fixed at power-on. Owns durations and
//! their jitter; must not know what coming up means.
//! Source: in-memory backend of DevMachine, v1.14.0. Difference: upstream draws the jitter again in
//! every reconcile; here it is drawn once per machine and phase, so that a run can be repeated.

use std::time::Duration;

use chrono::TimeDelta;

use capi_types::dev::{InMemoryComponent, InMemoryMachine};
use capstan_base::go_duration::GoDuration;
use capstan_base::rng::Rng;
use capstan_base::time::Timestamp;

/// The parts of a machine, in the order in which they come up; the last two start together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Vm,
    Node,
    Etcd,
    ApiServer,
}

impl Phase {
    pub const ALL: [Self; 4] = [Self::Vm, Self::Node, Self::Etcd, Self::ApiServer];

    /// As in the hold annotation and in condition types (`VMProvisioned`).
    pub fn name(self) -> &'static str {
        match self {
            Self::Vm => "VM",
            Self::Node => "Node",
            Self::Etcd => "Etcd",
            Self::ApiServer => "APIServer",
        }
    }

    /// What must be up before this starts.
    fn after(self) -> Option<Self> {
        match self {
            Self::Vm => None,
            Self::Node => Some(Self::Vm),
            Self::Etcd | Self::ApiServer => Some(Self::Node),
        }
    }

    /// Workers have no etcd and no API server.
    pub fn of(control_plane: bool) -> &'static [Self] {
        if control_plane { &Self::ALL } else { &Self::ALL[..2] }
    }
}

/// How long each phase takes on one machine, jitter included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays([Duration; 4]);

impl Delays {
    /// `startupDuration × (1 + u × startupJitter) / time_scale`, with `u` from the machine's own stream.
    pub fn draw(spec: &InMemoryMachine, uid: &str, rng: &Rng, time_scale: f64) -> Self {
        Self(Phase::ALL.map(|phase| {
            let (base, jitter) = settings(component(spec, phase));
            let u = rng.stream(&format!("{uid}/{}", phase.name())).unit();
            let seconds = base.as_secs_f64() * (1.0 + u * jitter) / time_scale;
            Duration::try_from_secs_f64(seconds).unwrap_or(base)
        }))
    }

    fn of(&self, phase: Phase) -> Duration {
        self.0[phase as usize]
    }
}

fn component(spec: &InMemoryMachine, phase: Phase) -> Option<&InMemoryComponent> {
    match phase {
        Phase::Vm => spec.vm.as_ref(),
        Phase::Node => spec.node.as_ref(),
        Phase::Etcd => spec.etcd.as_ref(),
        Phase::ApiServer => spec.api_server.as_ref(),
    }
}

/// Startup duration and jitter; nothing stated means at once and none.
fn settings(component: Option<&InMemoryComponent>) -> (Duration, f64) {
    let Some(provisioning) = component.and_then(|c| c.provisioning.as_ref()) else {
        return (Duration::ZERO, 0.0);
    };
    let jitter = provisioning.startup_jitter.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    let duration = GoDuration::parse(&provisioning.startup_duration).and_then(GoDuration::to_std);
    (duration.unwrap_or_default(), f64::max(jitter, 0.0))
}

/// How far one machine is. `None` in `since`: not up yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    pub powered_on: Timestamp,
    delays: Delays,
    since: [Option<Timestamp>; 4],
    /// This phase does not end while it is set.
    pub hold: Option<Phase>,
    control_plane: bool,
}

impl Boot {
    pub fn new(powered_on: Timestamp, delays: Delays, control_plane: bool) -> Self {
        Self { powered_on, delays, since: [None; 4], hold: None, control_plane }
    }

    /// Since when a phase is over.
    pub fn since(&self, phase: Phase) -> Option<Timestamp> {
        self.since[phase as usize]
    }

    /// A phase that was over before this process started.
    pub fn restore(&mut self, phase: Phase, at: Timestamp) {
        self.since[phase as usize] = Some(at);
    }

    /// All phases are over.
    pub fn complete(&self) -> bool {
        Phase::of(self.control_plane).iter().all(|phase| self.since(*phase).is_some())
    }

    /// When an unfinished phase will be over. `None`: it is over, held, or what it waits for is.
    fn due(&self, phase: Phase) -> Option<Timestamp> {
        if self.since(phase).is_some() || self.hold == Some(phase) {
            return None;
        }
        let start = match phase.after() {
            None => self.powered_on,
            Some(before) => self.since(before)?,
        };
        Some(start + TimeDelta::from_std(self.delays.of(phase)).unwrap_or(TimeDelta::zero()))
    }

    /// The next phase that is over at `now`; call until `None`. Its end counts from when it was due, so
    /// that a late look changes nothing.
    pub fn advance(&mut self, now: Timestamp) -> Option<Phase> {
        let (due, phase) = self.next_due()?;
        if due > now {
            return None;
        }
        self.since[phase as usize] = Some(due);
        Some(phase)
    }

    /// When to look again.
    pub fn next_due(&self) -> Option<(Timestamp, Phase)> {
        Phase::of(self.control_plane).iter().filter_map(|phase| Some((self.due(*phase)?, *phase))).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::dev::Provisioning;

    fn part(duration: &str, jitter: Option<&str>) -> Option<InMemoryComponent> {
        let startup_jitter = jitter.map(str::to_owned);
        Some(InMemoryComponent {
            provisioning: Some(Provisioning { startup_duration: duration.to_owned(), startup_jitter }),
        })
    }

    #[test]
    fn delays_repeat_per_uid_and_stay_in_range() {
        let spec =
            InMemoryMachine { vm: part("10s", Some("0.2")), node: part("2s", None), ..Default::default() };
        let rng = Rng::seeded(3);
        let one = Delays::draw(&spec, "u1", &rng, 1.0);
        assert_eq!(one, Delays::draw(&spec, "u1", &rng, 1.0));
        assert_ne!(one, Delays::draw(&spec, "u2", &rng, 1.0));
        assert!((10.0..12.0).contains(&one.of(Phase::Vm).as_secs_f64()));
        assert_eq!(one.of(Phase::Node), Duration::from_secs(2));
        assert_eq!(one.of(Phase::Etcd), Duration::ZERO);
        assert_eq!(Delays::draw(&spec, "u1", &rng, 4.0).of(Phase::Node), Duration::from_millis(500));
    }

    #[test]
    fn phases_follow_each_other_and_a_hold_stops_them() {
        let at = |s: i64| Timestamp::from_timestamp(s, 0).expect("a moment");
        let mut boot = Boot::new(at(0), Delays([10, 2, 3, 1].map(Duration::from_secs)), true);
        assert_eq!(boot.advance(at(9)), None);
        assert_eq!(boot.next_due(), Some((at(10), Phase::Vm)));
        assert_eq!(boot.advance(at(20)), Some(Phase::Vm));
        boot.hold = Some(Phase::Node);
        assert_eq!((boot.advance(at(20)), boot.next_due()), (None, None));
        boot.hold = None;
        assert_eq!(boot.advance(at(20)), Some(Phase::Node));
        assert_eq!(boot.advance(at(20)), Some(Phase::ApiServer));
        assert_eq!(boot.advance(at(20)), Some(Phase::Etcd));
        assert_eq!(boot.since(Phase::Etcd), Some(at(15)));
        assert!(boot.complete());
    }
}
