//! Why a cluster is not well: the chain from it down to the part that explains it, one hop each.
//! Must not know how the chain is drawn.

use super::Fleet;
use super::judge::{Basis, Judgement, judge};
use super::row::{Condition, Counters, Kind, Row, RowId};
use crate::api::condition_types::{Role, condition_type};
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

impl Fleet {
    /// From `id` down to the leaf that explains its verdict. Empty when it is well. The last hop is
    /// the cause; a chain of one hop means that the object itself is.
    #[must_use]
    pub fn cause(&self, id: RowId) -> Vec<Hop> {
        let target = self.verdict(id);
        if target == Verdict::Ok {
            return Vec::new();
        }
        let mut chain = Vec::new();
        let mut next = Some(id);
        while let Some(id) = next {
            let Some(row) = self.row(id) else { break };
            let judgement = judge(row, self.now_s());
            chain.push(hop(id, row, target, judgement));
            let explains_itself = judgement.verdict == target && is_root_cause(row, judgement.why);
            next = if explains_itself { None } else { self.worst_child(id, target) };
        }
        chain
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

    /// The first child, in the order of the tree, that is as bad as `target`.
    fn worst_child(&self, id: RowId, target: Verdict) -> Option<RowId> {
        let row = self.row(id)?;
        let mut below: Box<dyn Iterator<Item = RowId> + '_> = match row.kind {
            Kind::Cluster => Box::new(
                [
                    Kind::ControlPlane,
                    Kind::MachineDeployment,
                    Kind::MachinePool,
                    Kind::MachineSet,
                    Kind::Machine,
                ]
                .into_iter()
                .flat_map(move |kind| self.members(id, kind).iter().copied()),
            ),
            _ => Box::new(self.index.children(id)),
        };
        below.find(|child| self.verdict(*child) == target)
    }
}

/// The judgement rests on something that no object below explains better.
fn is_root_cause(row: &Row, why: Basis) -> bool {
    match why {
        Basis::Paused => true,
        Basis::Condition(at) => {
            condition_type(&row.conditions[at].type_).is_some_and(|type_| type_.role == Role::Root)
        }
        _ => false,
    }
}

fn hop(id: RowId, row: &Row, verdict: Verdict, judgement: Judgement) -> Hop {
    let condition = if let Basis::Condition(at) = judgement.why { Some(&row.conditions[at]) } else { None };
    Hop { id, verdict, condition: condition.map(|c| c.type_.as_ref().into()), words: words(row, judgement) }
}

/// The evidence for a judgement in a few words; empty for "nothing".
pub(super) fn words(row: &Row, judgement: Judgement) -> String {
    match judgement.why {
        Basis::Nothing => String::new(),
        Basis::Condition(at) => of_condition(&row.conditions[at]),
        Basis::NotReported => "no status reported yet".to_owned(),
        Basis::Deleting => "deleting".to_owned(),
        Basis::Paused => "paused with changes pending".to_owned(),
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
