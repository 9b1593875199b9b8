//! How long the Machines of a rollout took, and when the rest will have followed. Pure arithmetic over moments in
//! seconds; must not know rows.

use super::machine::{MachinePhase, RollingMachine};
use crate::fleet::usual::Limits;

/// How long new Machines took from their creation until they were ready, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpTimes {
    pub count: usize,
    pub median_s: u32,
    pub low_s: u32,
    pub high_s: u32,
}

/// When a rollout will be through, seconds since the epoch, if everything goes on as until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub low_s: u32,
    pub high_s: u32,
    /// From Machines of this rollout; else from what other Machines took.
    pub is_measured: bool,
}

/// New Machines of this rollout that are ready, by the moments of their own conditions. `None` without any.
pub(super) fn up_times(machines: &[RollingMachine], began_s: u32) -> Option<UpTimes> {
    let mut all: Vec<u32> = since(machines, began_s)
        .filter(|m| m.phase == MachinePhase::Ok)
        .filter_map(RollingMachine::up_s)
        .collect();
    all.sort_unstable();
    let (low_s, high_s) = (*all.first()?, *all.last()?);
    Some(UpTimes { count: all.len(), median_s: all[all.len() / 2], low_s, high_s })
}

/// New Machines that were made since.
fn since(machines: &[RollingMachine], began_s: u32) -> impl Iterator<Item = &RollingMachine> {
    // The condition may be written after the first Machine is made, and moments have whole seconds.
    machines.iter().filter(move |m| !m.is_old && m.created_s >= began_s.saturating_sub(2))
}

/// What is known when the end is estimated.
pub(super) struct Estimate<'a> {
    pub machines: &'a [RollingMachine],
    pub want: u32,
    pub began_s: u32,
    /// When it can begin at the earliest, as a range: now, or when what it waits for is through.
    pub start: (u32, u32),
    pub up: Option<UpTimes>,
    /// What other Machines of the kind took from creation to ready.
    pub usual: Option<Limits>,
}

impl Estimate<'_> {
    /// `None` when nothing is known that an estimate could be made from.
    ///
    /// The time between two creations is the whole cycle: a new Machine comes up, an old one goes. The last cycle is as
    /// long as the others.
    pub(super) fn arrival(&self) -> Option<Arrival> {
        let mut created: Vec<u32> = since(self.machines, self.began_s).map(|m| m.created_s).collect();
        created.sort_unstable();
        let made = u32::try_from(created.len()).unwrap_or(u32::MAX);
        let cycles_left = f64::from(self.want.saturating_sub(made)) + 1.0;
        let known = |low: f64, high: f64, from: (u32, u32), is_measured: bool| {
            let at =
                |from: u32, cycle: f64| from.saturating_add(whole(cycles_left * cycle)).max(self.start.0);
            Arrival { low_s: at(from.0, low), high_s: at(from.1, high).max(at(from.0, low)), is_measured }
        };
        match (created.first(), created.last()) {
            (Some(first), Some(last)) if made >= 2 => {
                let (mean, spread) = cycle_of(&created, f64::from(last - first), self.up);
                Some(known(mean * (1.0 - spread), mean * (1.0 + spread), (*last, *last), true))
            }
            (_, last) => {
                let from = last.map_or(self.start, |last| (*last, *last));
                let (low, high, is_measured) = match (self.up, self.usual) {
                    (Some(up), _) => (up.median_s, up.median_s, true),
                    (None, Some(usual)) => (usual.low_s, usual.high_s, false),
                    (None, None) => return None,
                };
                // What an old Machine takes to go is not known yet.
                Some(known(f64::from(low), 2.0 * f64::from(high), from, is_measured))
            }
        }
    }
}

/// The mean of the time between two creations, and how far it may be off, as a part of it.
fn cycle_of(created: &[u32], whole_s: f64, up: Option<UpTimes>) -> (f64, f64) {
    let count = f64::from(u32::try_from(created.len() - 1).unwrap_or(u32::MAX));
    let mean = whole_s / count;
    let squares: f64 = created.windows(2).map(|w| (f64::from(w[1] - w[0]) - mean).powi(2)).sum();
    let off = if mean > 0.0 { (squares / count).sqrt() / mean / count.sqrt() } else { 0.0 };
    // The fewer cycles there are, the less their agreement proves.
    let floor = match created.len() {
        0..=2 => 0.3,
        3 => 0.2,
        _ => 0.1,
    };
    // Made all at once: what is left is that they come up.
    let up_s = up.map_or(0.0, |up| f64::from(up.median_s));
    if mean < 1.0 { (up_s.max(1.0), 0.3) } else { (mean, off.clamp(floor, 0.5)) }
}

/// Whole seconds of what is never large.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the range just before"
)]
fn whole(seconds: f64) -> u32 {
    seconds.round().clamp(0.0, 1e9) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Verdict;
    use crate::fleet::row::RowId;

    fn new(created_s: u32, ready_s: u32) -> RollingMachine {
        let phase = if ready_s == 0 { MachinePhase::Settling } else { MachinePhase::Ok };
        let (id, since_s) = (RowId(0), 0);
        let (was_paused, verdict) = (false, Verdict::Ok);
        RollingMachine { id, is_old: false, phase, since_s, created_s, ready_s, was_paused, verdict }
    }

    fn arrival(machines: &[RollingMachine], want: u32, usual: Option<Limits>) -> Option<(u32, u32, bool)> {
        let up = up_times(machines, 1000);
        let estimate = Estimate { machines, want, began_s: 1000, start: (1200, 1300), up, usual };
        estimate.arrival().map(|a| (a.low_s, a.high_s, a.is_measured))
    }

    #[test]
    fn the_end_follows_from_the_cycles_seen() {
        let usual = Some(Limits { low_s: 40, high_s: 60, slow_s: 100, stuck_s: 200 });
        for (machines, want, usual, expected) in [
            (vec![], 3, None, None),
            // Nothing was made yet: four cycles of what is usual, or twice that, from the earliest start.
            (vec![], 3, usual, Some((1200 + 4 * 40, 1300 + 4 * 120, false))),
            (vec![new(1100, 0)], 3, usual, Some((1220, 1100 + 3 * 120, false))),
            (vec![new(1100, 1150)], 3, usual, Some((1250, 1100 + 3 * 100, true))),
            // One every 100 seconds; the last was made at 1200, and its own cycle is left.
            (vec![new(1000, 1050), new(1100, 1150), new(1200, 0)], 3, usual, Some((1280, 1320, true))),
            (vec![new(1000, 1050), new(1100, 0)], 4, None, Some((1310, 1490, true))),
            // All at once.
            (vec![new(1190, 1230), new(1190, 0)], 2, None, Some((1218, 1242, true))),
        ] {
            assert_eq!(arrival(&machines, want, usual), expected, "{machines:?}");
        }
    }

    #[test]
    fn times_have_a_median_and_a_range() {
        let all = [new(1000, 1052), new(1100, 1158), new(1200, 1271), new(900, 1000), new(1300, 0)];
        let expected = UpTimes { count: 3, median_s: 58, low_s: 52, high_s: 71 };
        assert_eq!(up_times(&all, 1000), Some(expected), "what was made before does not count");
        let paused = |was_paused| RollingMachine { was_paused, ..new(1400, 3000) };
        let times = |one| up_times(&[all[0].clone(), all[1].clone(), all[2].clone(), one], 1000);
        assert_eq!(times(paused(true)), Some(expected), "105 s of a pause were taken for a slow Machine");
        assert_eq!(times(paused(false)).map(|up| up.high_s), Some(1600));
    }
}
