//! Who ran which controller from when to when. Owns the record; must not know why somebody began or stopped.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use leader_migration::controller_names::Function;

/// A controller that ran in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spell {
    pub function: Function,
    pub process: String,
    pub from: Instant,
    /// `None`: it still runs.
    pub to: Option<Instant>,
}

impl Spell {
    fn ends(&self) -> (bool, Option<Instant>) {
        // One that runs ends after all others.
        (self.to.is_none(), self.to)
    }

    fn overlaps(&self, other: &Self) -> bool {
        // Strictly: a hand-over at one instant is not an overlap.
        let begins_before_end = |a: &Self, b: &Self| b.to.is_none_or(|end| a.from < end);
        begins_before_end(self, other) && begins_before_end(other, self)
    }
}

/// All that ran. Clones write into the same record.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Vec<Spell>>>);

impl Ledger {
    /// Runs from now until the guard is dropped.
    pub fn begin(&self, function: Function, process: &str) -> RunningSpell {
        let mut spells = self.0.lock();
        spells.push(Spell { function, process: process.to_owned(), from: Instant::now(), to: None });
        RunningSpell { ledger: self.clone(), at: spells.len() - 1 }
    }

    pub fn spells(&self) -> Vec<Spell> {
        self.0.lock().clone()
    }

    /// Who runs it now.
    pub fn running(&self, function: Function) -> Vec<String> {
        let spells = self.0.lock();
        let now = spells.iter().filter(|spell| spell.function == function && spell.to.is_none());
        now.map(|spell| spell.process.clone()).collect()
    }

    /// Two processes that ran one controller at once.
    pub fn overlaps(&self) -> Vec<(Spell, Spell)> {
        let spells = self.0.lock();
        let mut found = Vec::new();
        for (at, spell) in spells.iter().enumerate() {
            // Only later ones, so that each pair is found once.
            let later = spells[at + 1..].iter().filter(|other| other.function == spell.function);
            found.extend(
                later.filter(|other| spell.overlaps(other)).map(|other| (spell.clone(), other.clone())),
            );
        }
        found
    }

    /// The longest time in which nobody ran a controller that ran before and after.
    pub fn longest_gap(&self, function: Function) -> Duration {
        let mut spells: Vec<Spell> =
            self.spells().into_iter().filter(|spell| spell.function == function).collect();
        spells.sort_by_key(|spell| spell.from);
        let mut covered: Option<&Spell> = None;
        let mut longest = Duration::ZERO;
        for spell in &spells {
            // While another process still runs it a beginning does not end a gap.
            if let Some(end) = covered.and_then(|before| before.to) {
                longest = longest.max(spell.from.saturating_duration_since(end));
            }
            // The latest end counts: a short spell within a long one leaves no gap.
            if covered.is_none_or(|before| spell.ends() >= before.ends()) {
                covered = Some(spell);
            }
        }
        longest
    }
}

/// A controller that runs; dropping it is the end of its process, or of its part in it.
pub struct RunningSpell {
    ledger: Ledger,
    at: usize,
}

impl Drop for RunningSpell {
    fn drop(&mut self) {
        self.ledger.0.lock()[self.at].to = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn seconds(n: u64) {
        tokio::time::sleep(Duration::from_secs(n)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn overlaps_and_gaps_are_seen() {
        let ledger = Ledger::default();
        let first = ledger.begin(Function::Routes, "a");
        let other = ledger.begin(Function::LoadBalancers, "b");
        seconds(10).await;
        drop(first);
        seconds(7).await;
        let second = ledger.begin(Function::Routes, "b");
        assert_eq!(ledger.overlaps(), []);
        assert_eq!(ledger.longest_gap(Function::Routes), Duration::from_secs(7));
        assert_eq!(ledger.running(Function::Routes), ["b"]);
        seconds(1).await;
        let third = ledger.begin(Function::Routes, "c");
        seconds(1).await;
        drop((second, third, other));
        let overlaps = ledger.overlaps();
        assert_eq!(overlaps.len(), 1);
        assert_eq!((overlaps[0].0.process.as_str(), overlaps[0].1.process.as_str()), ("b", "c"));
    }
}
