//! The stages in which a machine comes up, and a timetable of them that is fixed at power-on. Owns their order and what runs
//! from each stage on; must not know how long a stage takes, nor what others read of it.

use std::time::Duration;

use chrono::TimeDelta;

use capstan_base::time::Timestamp;

/// What comes up, in order; the last two begin together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BootStage {
    /// The data that a host boots with is there.
    Bootstrap,
    Host,
    Node,
    Etcd,
    ApiServer,
}

impl BootStage {
    const ALL: [Self; 5] = [Self::Bootstrap, Self::Host, Self::Node, Self::Etcd, Self::ApiServer];

    /// Workers have no etcd and no API server.
    pub fn of(is_control_plane: bool) -> &'static [Self] {
        if is_control_plane { &Self::ALL } else { &Self::ALL[..3] }
    }

    /// The stages after power-on.
    pub fn of_host(is_control_plane: bool) -> &'static [Self] {
        if is_control_plane { &Self::ALL[1..] } else { &Self::ALL[1..3] }
    }

    /// What must be up before this begins.
    pub fn after(self) -> Option<Self> {
        match self {
            Self::Bootstrap => None,
            Self::Host => Some(Self::Bootstrap),
            Self::Node => Some(Self::Host),
            Self::Etcd | Self::ApiServer => Some(Self::Node),
        }
    }

    /// The static pods that run from its end on.
    pub fn components(self) -> &'static [&'static str] {
        match self {
            Self::Bootstrap | Self::Host | Self::Node => &[],
            Self::Etcd => &["etcd"],
            Self::ApiServer => &["kube-apiserver", "kube-scheduler", "kube-controller-manager"],
        }
    }
}

/// How long each stage of one machine takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays([Duration; BootStage::ALL.len()]);

impl Delays {
    pub fn new(delay: impl Fn(BootStage) -> Duration) -> Self {
        Self(BootStage::ALL.map(delay))
    }

    pub fn of(&self, stage: BootStage) -> Duration {
        self.0[stage as usize]
    }
}

/// How far one machine is. `None` in `since`: not up yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    delays: Delays,
    since: [Option<Timestamp>; BootStage::ALL.len()],
    /// This stage does not end while it is set.
    pub hold: Option<BootStage>,
    is_control_plane: bool,
}

impl Boot {
    /// At power-on the bootstrap data is there.
    pub fn new(powered_on: Timestamp, delays: Delays, is_control_plane: bool) -> Self {
        let mut boot = Self { delays, since: [None; BootStage::ALL.len()], hold: None, is_control_plane };
        // Power-on is the end of the first stage, from which all other times count.
        boot.restore(BootStage::Bootstrap, powered_on);
        boot
    }

    /// Since when a stage is over.
    pub fn since(&self, stage: BootStage) -> Option<Timestamp> {
        self.since[stage as usize]
    }

    /// A stage was over before anybody looked.
    pub fn restore(&mut self, stage: BootStage, at: Timestamp) {
        self.since[stage as usize] = Some(at);
    }

    /// All stages are over.
    pub fn complete(&self) -> bool {
        BootStage::of(self.is_control_plane).iter().all(|stage| self.since(*stage).is_some())
    }

    /// When an unfinished stage will be over. `None`: it is over, held, or what it waits for is.
    fn due(&self, stage: BootStage) -> Option<Timestamp> {
        if self.since(stage).is_some() || self.hold == Some(stage) {
            return None;
        }
        // Nothing begins before the stage it needs is over, however late that is.
        let start = self.since(stage.after()?)?;
        Some(start + TimeDelta::from_std(self.delays.of(stage)).unwrap_or(TimeDelta::zero()))
    }

    /// The next stage that is over at `now`; call until `None`. Its end counts from when it was due, so that a late look
    /// changes nothing.
    pub fn advance(&mut self, now: Timestamp) -> Option<BootStage> {
        let (due, stage) = self.next_due()?;
        if due > now {
            return None;
        }
        // At the time it was due, not now: the next stage begins there too.
        self.restore(stage, due);
        Some(stage)
    }

    /// When to look again.
    pub fn next_due(&self) -> Option<(Timestamp, BootStage)> {
        let stages = BootStage::of_host(self.is_control_plane).iter();
        // Of two that are due at once the earlier in the order, so that runs are alike.
        stages.filter_map(|stage| Some((self.due(*stage)?, *stage))).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_follow_each_other_and_a_hold_stops_them() {
        let at = |s: i64| Timestamp::from_timestamp(s, 0).expect("a moment");
        let delays = Delays([0, 10, 2, 3, 1].map(Duration::from_secs));
        let mut boot = Boot::new(at(0), delays, true);
        assert_eq!(boot.advance(at(9)), None);
        assert_eq!(boot.next_due(), Some((at(10), BootStage::Host)));
        assert_eq!(boot.advance(at(20)), Some(BootStage::Host));
        boot.hold = Some(BootStage::Node);
        assert_eq!((boot.advance(at(20)), boot.next_due()), (None, None));
        boot.hold = None;
        assert_eq!(boot.advance(at(20)), Some(BootStage::Node));
        assert_eq!(boot.advance(at(20)), Some(BootStage::ApiServer));
        assert_eq!(boot.advance(at(20)), Some(BootStage::Etcd));
        assert_eq!(boot.since(BootStage::Etcd), Some(at(15)));
        assert!(boot.complete());
    }

    #[test]
    fn a_stage_comes_after_those_that_it_waits_for() {
        for is_control_plane in [false, true] {
            let stages = BootStage::of(is_control_plane);
            assert_eq!(
                stages.split_first(),
                Some((&BootStage::Bootstrap, BootStage::of_host(is_control_plane)))
            );
            for (at, stage) in stages.iter().enumerate() {
                assert!(stage.after().is_none_or(|before| stages[..at].contains(&before)), "{stage:?}");
            }
        }
    }
}
