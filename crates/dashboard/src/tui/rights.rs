//! What this user may do, as far as the server said so. Owns which question is next: about all namespaces first, about one
//! only where that is refused, each once. Must not ask.

use rustc_hash::FxHashMap;

use crate::actions::{ACTIONS, Grant, Right};
use crate::fleet::{Row, SourceId};

/// Beyond so many nothing more is asked, and the preview has the answer.
const KNOWN_MAX: usize = 512;

#[derive(Default)]
pub struct Rights {
    known: FxHashMap<(SourceId, Right), Grant>,
}

impl Rights {
    /// What to ask so that it is known which actions on `row` are allowed.
    pub fn unknown(&self, row: &Row) -> Vec<Right> {
        let takers =
            ACTIONS.iter().filter(|info| info.check_kind(&row.gvk.kind, row.is_control_plane()).is_ok());
        let mut verbs: Vec<&'static str> = takers.map(|info| info.access_verb).collect();
        verbs.sort_unstable();
        verbs.dedup();
        verbs.into_iter().filter_map(|verb| self.next(row, verb)).collect()
    }

    fn next(&self, row: &Row, verb: &'static str) -> Option<Right> {
        let is_unasked = |right: &Right| !self.known.contains_key(&(row.source, right.clone()));
        let everywhere = right(row, verb, "");
        let here = right(row, verb, &row.namespace);
        if self.known.len() >= KNOWN_MAX {
            None
        } else if is_unasked(&everywhere) {
            Some(everywhere)
        } else if matches!(self.answer(row.source, &everywhere), Some(Grant::Refused(_))) {
            Some(here).filter(is_unasked)
        } else {
            None
        }
    }

    fn answer(&self, source: SourceId, right: &Right) -> Option<&Grant> {
        self.known.get(&(source, right.clone()))
    }

    pub fn take(&mut self, source: SourceId, answers: Vec<(Right, Grant)>) {
        self.known.extend(answers.into_iter().map(|(right, answer)| ((source, right), answer)));
    }

    /// What was refused or could not be asked is asked again: a right may have been given meanwhile.
    pub fn forget_refusals(&mut self) {
        self.known.retain(|_, answer| *answer == Grant::Allowed);
    }

    /// Why the server would refuse `verb` on `row`, as half a sentence; `None` when it would not, or when that is not
    /// known.
    pub fn refusal(&self, row: &Row, verb: &'static str) -> Option<String> {
        let here = right(row, verb, &row.namespace);
        let Some(Grant::Refused(reason)) = self.answer(row.source, &here) else { return None };
        let mut words = format!("not allowed: {verb} {} in {}", here.resource, here.namespace);
        if !reason.is_empty() {
            words.push_str(": ");
            words.push_str(reason);
        }
        Some(words)
    }
}

fn right(row: &Row, verb: &'static str, namespace: &str) -> Right {
    let (group, resource) = (row.gvk.group.clone(), row.gvk.plural.clone());
    Right { verb, group, resource, namespace: namespace.to_owned() }
}
