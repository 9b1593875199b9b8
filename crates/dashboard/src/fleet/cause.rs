//! Why a cluster is not well: what explains its verdict, worst first, objects with the same trouble counted
//! together; and the chain of objects from the cluster down to one of them. Must not know how they are drawn.

use std::cmp::Reverse;
use std::sync::Arc;

use super::Fleet;
use super::evidence::{short_words, type_and_reason, words};
use super::explanation::Explanation;
use super::judge::{Basis, Judgement, Rank};
use super::marks::Mark;
use super::plain_words::{first_words, spelled_out};
use super::rollout::rest_of_name;
use super::row::{ConditionText, Kind, Row, RowId, moment};
use crate::fleet::Verdict;
use capi_rules::status::conditions::wording::plural;
use capstan_base::time::Timestamp;

/// So many slow objects at once, and more than half of those with the same trouble, have something in common.
const COMMON_MIN: usize = 3;

/// One step of a cause chain: an object and the evidence on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    pub id: RowId,
    /// Of the object with what is under it.
    pub verdict: Verdict,
    /// Type of the condition that is the evidence, if it is a condition.
    pub condition: Option<Box<str>>,
    /// The evidence as the object says it; one line.
    pub words: String,
    /// The same in plain words.
    pub plain: String,
    /// Since when the evidence holds, where the object says so.
    pub since: Option<Timestamp>,
}

impl Hop {
    /// What the object itself says, where the plain words leave out more of it than names of condition types.
    pub fn own_words(&self) -> Option<&str> {
        (!self.words.ends_with(&self.plain)).then_some(self.words.as_str())
    }
}

/// One explanation of a verdict: every object that has the same trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub verdict: Verdict,
    /// The object that stands for the others: that with the earliest evidence.
    pub leaf: RowId,
    /// How many objects have this trouble, the leaf included.
    pub count: usize,
    /// What is wrong in plain words, then who has it: `VM is starting (16 Machines)`, or the name of the leaf where it is
    /// alone; one line.
    pub words: String,
    /// The earliest evidence, where an object says so.
    pub since: Option<Timestamp>,
}

impl Fleet {
    /// Everything that explains the verdict of `id`, worst first. Empty when it is well. A fault is explained by
    /// faults, progress by what acts; what repeats another object or waits its turn counts only where nothing
    /// else does.
    pub fn causes(&self, id: RowId) -> Vec<Cause> {
        self.groups(id).iter().map(|group| self.cause_of(id, group)).collect()
    }

    /// From `id` down to the leaf that explains its verdict best. Empty when it is well. The last hop is
    /// the cause; a chain of one hop means that the object itself is.
    pub fn cause(&self, id: RowId) -> Vec<Hop> {
        self.groups(id).first().map(|group| self.chain(id, group.leaf)).unwrap_or_default()
    }

    /// Since when the first cause holds; `None` where no object says so, and for what is well.
    pub(super) fn cause_since(&self, id: RowId) -> Option<Timestamp> {
        moment(self.groups(id).first()?.since_s)
    }

    /// From `id` down to `leaf`, one hop for each owner between them.
    pub fn chain(&self, id: RowId, leaf: RowId) -> Vec<Hop> {
        let mut chain: Vec<RowId> = vec![leaf];
        while let Some(last) = chain.last().copied().filter(|last| *last != id) {
            // Owner references may run in circles.
            let above = self.owner_of(last).filter(|above| !chain.contains(above));
            // What has no owner here hangs directly below the object that is asked about.
            chain.push(above.unwrap_or(id));
        }
        chain.reverse();
        chain.into_iter().filter_map(|id| self.hop(id)).collect()
    }

    /// The first cause of a cluster's verdict in a few words, and how many more there are. Empty when it is well.
    /// Without contact: the same of what was seen last.
    pub fn what_is_wrong(&self, id: RowId) -> String {
        let groups = self.groups(id);
        let words = groups.first().map(|first| self.cause_of(id, first).words).unwrap_or_default();
        let words = if groups.len() > 1 { format!("{words} +{} more", groups.len() - 1) } else { words };
        match (self.index.is_lost(id), self.index.last_verdict(id)) {
            (false, _) => words,
            (true, Verdict::Ok) => "was ok".to_owned(),
            (true, last) => format!("was {last}: {words}"),
        }
    }

    /// What the evidence on the object means in plain words, what is usual, and what to do about it.
    pub fn explanation(&self, id: RowId) -> Option<&Explanation> {
        let (row, judgement) = (self.row(id)?, self.judgement(id)?);
        let (type_, reason) = match type_and_reason(row, judgement.why) {
            // Whatever the check found: what it says of a replacement is not so then.
            ("HealthCheckSucceeded", _) if judgement.verdict == Verdict::Blocked => ("Status", "NotReplaced"),
            other => other,
        };
        let message = match judgement.why {
            Basis::Condition(at) => row.conditions.get(at).map_or("", |c| first_words(&c.message)),
            _ => "",
        };
        self.explanations().find_in(message).or_else(|| self.explanations().find(type_, reason))
    }

    /// It does what it should and has not taken longer than such objects do: nobody needs to look at anything.
    pub fn goes_as_usual(&self, id: RowId) -> bool {
        self.judgement(id).is_some_and(|own| own.verdict == Verdict::Progressing && own.slow.is_none())
    }

    /// Kind and condition type of what explains the verdict best, whatever people marked; empty when it is well.
    pub fn first_cause(&self, id: RowId) -> String {
        let groups = self.groups(id);
        let first = groups.iter().min_by_key(|group| group.weight());
        first.map(|first| format!("{} {}", first.kind.1, first.type_)).unwrap_or_default()
    }

    /// The mark that ends first, where each object that explains the verdict has one; acknowledgements before shelves.
    pub(super) fn mark_of_causes(&self, id: RowId) -> Option<&Mark> {
        let groups = self.groups(id);
        let marks: Option<Vec<&Mark>> = groups.iter().map(|group| group.mark).collect();
        marks?.into_iter().min_by_key(|mark| ends(mark))
    }

    /// What is as bad as the verdict, and other faults beside a fault: who has to act before what is broken,
    /// what is broken before what is late, that before what acts. What is as bad and new stands behind what is not,
    /// for a moment. Of equal ones a part before what it is part of,
    /// then the earliest, then the greatest number, then the first in the order of the tree. What people want quiet stands
    /// behind all others.
    fn groups(&self, id: RowId) -> Vec<Group<'_>> {
        let target = self.index.last_verdict(id);
        if target == Verdict::Ok {
            return Vec::new();
        }
        // From Unknown on everything is a fault, and every fault is named beside the worst one.
        let least = target.min(Verdict::Unknown);
        let mut groups: Vec<Group<'_>> = Vec::new();
        for candidate in std::iter::once(id).chain(self.below(id)) {
            if self.index.last_own_verdict(candidate) < least {
                continue;
            }
            let Some(group) = self.group_of(candidate) else { continue };
            match groups.iter_mut().find(|known| known.is_same(&group)) {
                Some(known) => known.take(group),
                None => groups.push(group),
            }
        }
        groups.sort_by_key(|group| (group.mark.is_some(), group.weight()));
        let explaining = groups.iter().any(|group| group.rank > Rank::Echo);
        // What repeats others, or waits its turn, explains nothing beside them.
        groups.retain(|group| group.rank > Rank::Echo || !explaining);
        if !explaining {
            // Where nothing explains, the first one stands for all.
            groups.truncate(1);
        }
        groups
    }

    fn group_of(&self, id: RowId) -> Option<Group<'_>> {
        let (row, judgement, verdict) = (self.row(id)?, self.judgement(id)?, self.index.last_own_verdict(id));
        let (type_, reason) = type_and_reason(row, judgement.why);
        let text = match judgement.why {
            Basis::Condition(at) => row.conditions.get(at).map(|c| &c.text),
            _ => None,
        };
        // What is shown still, or not yet, is explained by anything else first.
        let rank = if judgement.verdict == verdict { judgement.rank } else { Rank::Queued };
        let since_s = match judgement.why {
            Basis::Nothing => self.index.judged_so_s(id),
            _ => evidence_since_s(row, judgement),
        };
        let kind = (row.kind, row.gvk.kind.as_str());
        let slow = usize::from(judgement.slow.is_some());
        Some(Group {
            verdict,
            is_fresh: self.index.is_fresh(id),
            rank,
            kind,
            type_,
            reason,
            text,
            is_one_text: true,
            leaf: id,
            count: 1,
            slow,
            since_s,
            mark: self.own_mark(id),
        })
    }

    fn cause_of(&self, id: RowId, group: &Group<'_>) -> Cause {
        let said = if group.is_one_text { self.short_words_of(group.leaf) } else { self.common_words(group) };
        let name = || self.row(group.leaf).map(|row| self.name_below(id, &row.name));
        let mut who = match group.count {
            1 if group.leaf == id => None,
            1 => name().map(str::to_owned),
            count => Some(format!("{count} {}", plural(group.kind.1))),
        };
        if group.slow >= COMMON_MIN && 2 * group.slow > group.count {
            let slow = format!(", {} of them longer than usual: quota, image or network?", group.slow);
            who.get_or_insert_default().push_str(&slow);
        }
        let words = who.map_or_else(|| said.clone(), |who| format!("{said} ({who})"));
        let (verdict, leaf, count) = (group.verdict, group.leaf, group.count);
        Cause { verdict, leaf, count, words, since: moment(group.since_s) }
    }

    /// What several objects have in common whose messages differ.
    fn common_words(&self, group: &Group<'_>) -> String {
        let explained = self.explanations().find(group.type_, group.reason);
        match explained {
            Some(words) => words.short().unwrap_or_else(|| words.means.trim_end_matches('.')).to_owned(),
            None => spelled_out(group.reason),
        }
    }

    /// The name of a part without that of what it is part of, which stands beside it.
    fn name_below<'a>(&self, id: RowId, name: &'a str) -> &'a str {
        self.row(id).and_then(|row| rest_of_name(name, &row.name)).unwrap_or(name)
    }

    /// Everything below an object, in the order of the tree.
    fn below(&self, id: RowId) -> Box<dyn Iterator<Item = RowId> + '_> {
        let kinds =
            [Kind::ControlPlane, Kind::MachineDeployment, Kind::MachinePool, Kind::MachineSet, Kind::Machine];
        match self.row(id).map(|row| row.kind) {
            Some(Kind::Cluster) => {
                // By membership, not by owners: a member whose owner was not read counts as well.
                let members = kinds.into_iter().flat_map(move |kind| self.members(id, kind).iter().copied());
                let others = self.members(id, Kind::Other).iter().copied();
                let checks =
                    others.filter(|id| self.row(*id).is_some_and(|row| row.health_check().is_some()));
                Box::new(members.chain(checks))
            }
            _ => Box::new(self.index.children(id).flat_map(|child| {
                let below: Box<dyn Iterator<Item = RowId> + '_> =
                    Box::new(std::iter::once(child).chain(self.below(child)));
                below
            })),
        }
    }

    fn hop(&self, id: RowId) -> Option<Hop> {
        let (row, judgement) = (self.row(id)?, self.judgement(id)?);
        let condition = if let Basis::Condition(at) = judgement.why { row.conditions.get(at) } else { None };
        Some(Hop {
            id,
            verdict: self.verdict(id),
            condition: condition.map(|c| c.type_.as_ref().into()),
            words: self.words_of(id),
            plain: self.short_words_of(id),
            since: moment(evidence_since_s(row, judgement)),
        })
    }

    /// The evidence on one object as the object says it.
    fn words_of(&self, id: RowId) -> String {
        self.evidence_of(id, |row, judgement| words(row, judgement, self.now_s()))
    }

    /// The same in plain words.
    fn short_words_of(&self, id: RowId) -> String {
        self.evidence_of(id, |row, judgement| short_words(row, judgement, self.now_s(), self.explanations()))
    }

    fn evidence_of(&self, id: RowId, words: impl Fn(&Row, Judgement) -> String) -> String {
        let Some((row, judgement)) = self.row(id).zip(self.judgement(id)) else { return String::new() };
        let shown = self.index.last_own_verdict(id);
        match judgement.why {
            // What comes up was not well before.
            Basis::Nothing if shown == Verdict::Progressing => "done, not for long yet".to_owned(),
            // It takes far longer than elsewhere until that counts.
            Basis::Nothing if shown != Verdict::Ok && self.index.is_flapping(id) => {
                "well again, flapping: it has to stay so for ten minutes".to_owned()
            }
            Basis::Nothing if shown != Verdict::Ok => "well again, not for long yet".to_owned(),
            // What is shown until the better verdict has lasted has no evidence any more.
            _ if judgement.verdict < shown => {
                format!("not {shown} any more, not for long yet: {}", words(row, judgement))
            }
            _ => words(row, judgement),
        }
    }
}

/// Objects with the same trouble.
struct Group<'a> {
    verdict: Verdict,
    /// All of them are new.
    is_fresh: bool,
    rank: Rank,
    kind: (Kind, &'a str),
    type_: &'a str,
    reason: &'a str,
    text: Option<&'a Arc<ConditionText>>,
    /// All of them have the same message.
    is_one_text: bool,
    leaf: RowId,
    count: usize,
    /// How many of them take longer than usual.
    slow: usize,
    /// The earliest evidence, seconds since the epoch; 0: not known.
    since_s: u32,
    /// All of them are marked; this one ends first.
    mark: Option<&'a Mark>,
}

impl Group<'_> {
    fn is_same(&self, other: &Self) -> bool {
        (self.verdict, self.kind, self.type_, self.reason)
            == (other.verdict, other.kind, other.type_, other.reason)
    }

    fn take(&mut self, other: Self) {
        self.count += other.count;
        self.slow += other.slow;
        self.is_fresh &= other.is_fresh;
        // One object without a mark is enough: the group is not quiet then.
        self.mark = self.mark.zip(other.mark).map(|(a, b)| if ends(b) < ends(a) { b } else { a });
        self.is_one_text &= self.text == other.text;
        let is_better =
            (Reverse(other.rank), earliest(other.since_s)) < (Reverse(self.rank), earliest(self.since_s));
        if is_better {
            (self.leaf, self.text) = (other.leaf, other.text);
        }
        self.rank = self.rank.max(other.rank);
        self.since_s = earliest(self.since_s).min(earliest(other.since_s));
        if self.since_s == u32::MAX {
            self.since_s = 0;
        }
    }

    fn weight(&self) -> impl Ord + use<> {
        let worst = (Reverse(self.verdict), self.is_fresh, Reverse(self.rank), Reverse(self.kind.0));
        (worst, earliest(self.since_s), Reverse(self.count))
    }
}

/// What is only seen is less quiet than what is shelved.
fn ends(mark: &Mark) -> (bool, u32) {
    (mark.is_shelf(), mark.until_s)
}

/// A moment that is not known comes last.
fn earliest(since_s: u32) -> u32 {
    if since_s == 0 { u32::MAX } else { since_s }
}

/// Since when the evidence holds: what is overdue counts from its beginning, not from its limit.
pub(super) fn evidence_since_s(row: &Row, judgement: Judgement) -> u32 {
    match judgement.why {
        Basis::Condition(at) => row.conditions.get(at).map_or(0, |c| c.since_s),
        Basis::Deleting => row.deleting_since_s,
        Basis::NotReported => row.created_s,
        _ => judgement.since_s,
    }
}
