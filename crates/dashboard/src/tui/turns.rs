//! Which clusters turned since it was looked last: for the bell, and for a command of the person's own. Must not know how either
//! is run.

use rustc_hash::FxHashMap;

use crate::fleet::Verdict;
use crate::fleet::{Fleet, Uid};

/// The verdicts that are known. None at first: what is so when everything is listed is not news.
#[derive(Default)]
pub struct Turns {
    known: Option<FxHashMap<Uid, Verdict>>,
}

/// A cluster that has another verdict than when it was looked last. Text is sanitised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub namespace: String,
    pub name: String,
    pub before: Verdict,
    pub after: Verdict,
    /// The first cause in a few words; empty when it is well.
    pub why: String,
}

impl Turns {
    /// From what is known now on.
    pub fn since_now(fleet: &Fleet) -> Self {
        let mut turns = Self::default();
        turns.look(fleet);
        turns
    }

    /// The clusters that turned since it was looked last. One that is seen for the first time did not.
    pub fn look(&mut self, fleet: &Fleet) -> Vec<Turn> {
        let now = fleet.clusters().iter().filter_map(|id| Some((*id, fleet.row(*id)?, fleet.verdict(*id))));
        let now: Vec<_> = now.collect();
        let verdicts = now.iter().map(|(_, row, verdict)| (row.uid, *verdict)).collect();
        let Some(before) = self.known.replace(verdicts) else { return Vec::new() };
        let turned = now.into_iter().filter_map(|(id, row, after)| {
            let before = before.get(&row.uid).copied().filter(|before| *before != after)?;
            let (namespace, name) = (row.namespace.to_string(), row.name.to_string());
            Some(Turn { namespace, name, before, after, why: fleet.what_is_wrong(id) })
        });
        turned.collect()
    }
}

impl Turn {
    /// Did it come to be at fault? Whose state is not known is not.
    pub fn is_alarm(&self) -> bool {
        self.after.is_at_fault() && !self.before.is_at_fault()
    }

    /// What a command is told, as its environment: no text of a cluster becomes part of a command line.
    pub fn environment(&self) -> [(&'static str, &str); 5] {
        [
            ("CAPSTAN_NAMESPACE", &self.namespace),
            ("CAPSTAN_CLUSTER", &self.name),
            ("CAPSTAN_VERDICT_BEFORE", self.before.word()),
            ("CAPSTAN_VERDICT", self.after.word()),
            ("CAPSTAN_WHY", &self.why),
        ]
    }
}

/// What the bell says of clusters that turned; `None`: none of them came to be at fault.
pub fn alarm(turns: &[Turn]) -> Option<String> {
    let mut alarms = turns.iter().filter(|turn| turn.is_alarm());
    let first = alarms.next()?;
    let said = format!("{} is {} now", first.name, first.after.word());
    Some(match alarms.count() {
        0 => said,
        1 => format!("{said}, and 1 more is at fault"),
        more => format!("{said}, and {more} more are at fault"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(before: Verdict, after: Verdict) -> Turn {
        let (namespace, name) = ("prod".to_owned(), format!("{before}-{after}"));
        Turn { namespace, name, before, after, why: String::new() }
    }

    #[test]
    fn the_bell_names_the_first_that_came_to_be_at_fault() {
        use Verdict::{Blocked, Degraded, Ok, Progressing, Unknown};
        for (turns, said) in [
            (vec![], None),
            (vec![(Ok, Progressing), (Degraded, Ok), (Ok, Unknown), (Degraded, Blocked)], None),
            (vec![(Ok, Progressing), (Ok, Degraded)], Some("ok-degraded is degraded now")),
            (
                vec![(Ok, Blocked), (Progressing, Degraded)],
                Some("ok-blocked is blocked now, and 1 more is at fault"),
            ),
            (
                vec![(Unknown, Blocked), (Ok, Degraded), (Ok, Blocked)],
                Some("unknown-blocked is blocked now, and 2 more are at fault"),
            ),
        ] {
            let turns: Vec<Turn> = turns.into_iter().map(|(before, after)| turn(before, after)).collect();
            assert_eq!(alarm(&turns).as_deref(), said, "{turns:?}");
        }
    }
}
