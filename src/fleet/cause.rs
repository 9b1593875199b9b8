//! Why a cluster is not well: the chain from it down to the part that explains it, one hop each.
//! Must not know how the chain is drawn.

use super::Fleet;
use super::judge::{Basis, Judgement, Rank};
use super::row::{Condition, Counters, Kind, Row, RowId};
use crate::api::condition_types::condition_type;
use crate::status::verdict::Verdict;

/// One step of a cause chain: an object and the evidence on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    pub id: RowId,
    /// Of the object with what is under it.
    pub verdict: Verdict,
    /// Type of the condition that is the evidence, if it is a condition.
    pub condition: Option<Box<str>>,
    /// The evidence in a few words, one line.
    pub words: String,
}

/// So many parts are looked at for the best explanation.
const CANDIDATES_MAX: usize = 64;

impl Fleet {
    /// From `id` down to the leaf that explains its verdict. Empty when it is well. The last hop is
    /// the cause; a chain of one hop means that the object itself is.
    #[must_use]
    pub fn cause(&self, id: RowId) -> Vec<Hop> {
        let target = self.verdict(id);
        if target == Verdict::Ok {
            return Vec::new();
        }
        let leaf = self.best_explanation(id, target);
        let mut chain: Vec<RowId> = vec![leaf];
        while let Some(last) = chain.last().copied().filter(|last| *last != id) {
            let above = self.owner_of(last).filter(|above| !chain.contains(above));
            chain.push(above.unwrap_or(id));
        }
        chain.reverse();
        chain.into_iter().filter_map(|id| self.hop(id, target)).collect()
    }

    /// The cause of a cluster's verdict in a few words, with the name of the object it is on unless
    /// that is the cluster itself. Empty when it is well.
    #[must_use]
    pub fn what_is_wrong(&self, id: RowId) -> String {
        let mut chain = self.cause(id);
        let Some(leaf) = chain.pop() else { return String::new() };
        match self.row(leaf.id) {
            Some(row) if leaf.id != id => format!("{}: {}", row.name, leaf.words),
            _ => leaf.words,
        }
    }

    /// Of the object and everything below it that is as bad as `target`: who has to act before what is broken,
    /// what is broken before what is late, that before what acts; what repeats another or waits its turn last.
    /// Of equal ones the earliest, then the first in the order of the tree.
    fn best_explanation(&self, id: RowId, target: Verdict) -> RowId {
        let candidates = std::iter::once(id).chain(self.below(id)).filter(|c| self.own_verdict(*c) == target);
        let weight = |id: RowId| {
            let judgement = self.judgement(id)?;
            let rank = if judgement.verdict == target { judgement.rank } else { Rank::Queued };
            let kind = self.row(id)?.kind;
            // A part explains more than what it is part of.
            Some((std::cmp::Reverse(rank), std::cmp::Reverse(kind), judgement.since_s))
        };
        candidates
            .take(CANDIDATES_MAX)
            .filter_map(|id| Some((weight(id)?, id)))
            .min_by_key(|(weight, _)| *weight)
            .map_or(id, |(_, id)| id)
    }

    /// Everything below an object, in the order of the tree.
    fn below(&self, id: RowId) -> Box<dyn Iterator<Item = RowId> + '_> {
        let kinds =
            [Kind::ControlPlane, Kind::MachineDeployment, Kind::MachinePool, Kind::MachineSet, Kind::Machine];
        match self.row(id).map(|row| row.kind) {
            Some(Kind::Cluster) => {
                Box::new(kinds.into_iter().flat_map(move |kind| self.members(id, kind).iter().copied()))
            }
            _ => Box::new(self.index.children(id).flat_map(|child| {
                let below: Box<dyn Iterator<Item = RowId> + '_> =
                    Box::new(std::iter::once(child).chain(self.below(child)));
                below
            })),
        }
    }

    fn hop(&self, id: RowId, verdict: Verdict) -> Option<Hop> {
        let (row, judgement) = (self.row(id)?, self.judgement(id)?);
        let condition = if let Basis::Condition(at) = judgement.why { row.conditions.get(at) } else { None };
        let words = if judgement.why == Basis::Nothing && self.own_verdict(id) != Verdict::Ok {
            "well again, not for long yet".to_owned()
        } else {
            words(row, judgement, self.now_s())
        };
        Some(Hop { id, verdict, condition: condition.map(|c| c.type_.as_ref().into()), words })
    }
}

/// The evidence for a judgement in a few words; empty for "nothing".
pub(super) fn words(row: &Row, judgement: Judgement, now_s: u32) -> String {
    let evidence = evidence(row, judgement);
    match judgement.slow {
        Some(slow) => {
            let taken_s = now_s.saturating_sub(slow.since_s);
            format!("{evidence}, {taken_s} s, usual {}-{} s", slow.low_s, slow.high_s)
        }
        None => evidence,
    }
}

fn evidence(row: &Row, judgement: Judgement) -> String {
    match judgement.why {
        Basis::Nothing => String::new(),
        Basis::Condition(at) => of_condition(&row.conditions[at]),
        Basis::NotReported => "no status reported yet".to_owned(),
        Basis::Deleting => "deleting".to_owned(),
        Basis::Behind => {
            format!("status is behind spec (generation {} of {})", row.observed_generation, row.generation)
        }
        Basis::Counters => row.counters().map_or_else(String::new, of_counters),
        Basis::Phase => row.phase.to_string(),
    }
}

fn of_condition(c: &Condition) -> String {
    let message = first_words(&c.message);
    let speaks_for_itself = condition_type(&c.type_).is_some_and(|type_| type_.message_names_type);
    if speaks_for_itself && !message.is_empty() {
        message.to_owned()
    } else {
        format!("{}: {}", c.type_, if message.is_empty() { &c.reason } else { message })
    }
}

/// The first line of a message that is not only a heading, without its bullet.
fn first_words(message: &str) -> &str {
    let lines =
        || message.lines().map(|l| l.trim_start_matches([' ', '*']).trim_end()).filter(|l| !l.is_empty());
    lines().find(|l| !l.ends_with(':')).or_else(|| lines().next()).unwrap_or_default()
}

fn of_counters(c: Counters) -> String {
    let desired = c.desired.unwrap_or_default();
    let differs =
        |n: Option<u32>, word: &str| n.filter(|n| *n != desired).map(|n| format!("{n}/{desired} {word}"));
    differs(c.current, "replicas")
        .or_else(|| differs(c.up_to_date, "up to date"))
        .or_else(|| differs(c.ready, "ready"))
        .or_else(|| differs(c.available, "available"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_says_something() {
        for (message, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("* Machine a:\n  * EtcdMemberHealthy: no member", "EtcdMemberHealthy: no member"),
            ("* Machine a:", "Machine a:"),
        ] {
            assert_eq!(first_words(message), expected);
        }
    }
}
