//! The names of all objects in one piece of text, to find one by some letters: a picture of one moment, made when somebody
//! begins to look and read through at each letter. Must not know how what is found is shown.

use std::cmp::Reverse;

use frizbee::{Config, Matcher, Matching};

use super::Fleet;
use super::row::{Kind, RowId};

/// Of a kind so many names are compared in full. Where more have the letters, those count that have them side by side,
/// or else come first: nobody reads so many, and the next letter tells them apart.
const COMPARED_MAX: usize = 2_000;
/// Longer words are cut: nobody types them.
const WORDS_CHARS_MAX: usize = 128;
/// Signs that begin a word which is not to be found letter by letter.
const SIGNS: [char; 4] = ['!', '^', '\'', '~'];

/// `namespace/name`, and the Node of a Machine that is called otherwise; small letters.
#[derive(Default)]
pub struct Names {
    text: String,
    /// In the order of kinds, then of the fleet.
    entries: Vec<Entry>,
    /// Which entries a kind has: up to here, from where the one before ends.
    ends: [usize; Names::KINDS.len()],
}

struct Entry {
    id: RowId,
    /// Where its text ends.
    end: u32,
}

impl Names {
    /// What can be found.
    pub const KINDS: [Kind; 6] = [
        Kind::Cluster,
        Kind::ControlPlane,
        Kind::MachineDeployment,
        Kind::MachineSet,
        Kind::MachinePool,
        Kind::Machine,
    ];

    pub fn of(fleet: &Fleet) -> Self {
        let mut names = Self::default();
        for (at, kind) in Self::KINDS.into_iter().enumerate() {
            for cluster in fleet.clusters() {
                let itself = std::slice::from_ref(cluster);
                let ids = if kind == Kind::Cluster { itself } else { fleet.members(*cluster, kind) };
                ids.iter().for_each(|id| names.push(fleet, *id));
            }
            names.ends[at] = names.entries.len();
        }
        names
    }

    fn push(&mut self, fleet: &Fleet, id: RowId) {
        let Some(row) = fleet.row(id) else { return };
        let node = row.machine().and_then(|machine| machine.node.as_deref());
        let node = node.filter(|node| **node != *row.name);
        let parts = [row.namespace.as_ref(), "/", &row.name, if node.is_some() { " " } else { "" }];
        for part in parts.into_iter().chain(node) {
            if part.is_ascii() {
                self.text.extend(part.chars().map(|c| c.to_ascii_lowercase()));
            } else {
                self.text.push_str(&part.to_lowercase());
            }
        }
        self.entries.push(Entry { id, end: u32::try_from(self.text.len()).unwrap_or(u32::MAX) });
    }

    /// Objects whose names have the letters of each word in their order, best first; of a kind `most` at most.
    pub fn find(&self, words: &str, most: usize) -> Vec<RowId> {
        let words: String = words.chars().take(WORDS_CHARS_MAX).collect::<String>().to_lowercase();
        let mut matcher = Matcher::from_query(&words, &Config::default().matching(Matching::Fuzzy));
        // A word with a sign is for the matcher alone.
        let plain = |word: &&str| !word.starts_with(SIGNS) && !word.ends_with('$');
        let letters: Vec<&str> = words.split_whitespace().filter(plain).collect();
        let mut start = 0;
        let mut found = Vec::new();
        for end in self.ends {
            let mut scored: Vec<(Reverse<u16>, usize)> = Vec::new();
            for at in self.to_compare(start..end, &letters) {
                scored.extend(matcher.match_one(self.text_of(at), 0).map(|hit| (Reverse(hit.score), at)));
            }
            if scored.len() > most {
                // Only the best are put in order.
                scored.select_nth_unstable(most);
                scored.truncate(most);
            }
            scored.sort_unstable();
            found.extend(scored.into_iter().map(|(_, at)| self.entries[at].id));
            start = end;
        }
        found
    }

    fn to_compare(&self, range: std::ops::Range<usize>, words: &[&str]) -> Vec<usize> {
        let has_letters = |at: &usize| words.iter().all(|word| has_letters(self.text_of(*at), word));
        let mut likely: Vec<usize> = range.filter(has_letters).collect();
        if likely.len() > COMPARED_MAX && !words.is_empty() {
            let side_by_side = |at: &usize| words.iter().all(|word| self.text_of(*at).contains(*word));
            let closer: Vec<usize> = likely.iter().copied().filter(side_by_side).take(COMPARED_MAX).collect();
            if !closer.is_empty() {
                return closer;
            }
            likely.truncate(COMPARED_MAX);
        }
        likely
    }

    fn text_of(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.entries[at - 1].end as usize };
        self.text.get(start..self.entries[at].end as usize).unwrap_or_default()
    }
}

/// Do the letters of the word stand in this order in the text? By bytes, which is as good: what is told apart by more is
/// compared in full.
fn has_letters(text: &str, word: &str) -> bool {
    let mut rest = text.bytes();
    word.bytes().all(|letter| rest.any(|byte| byte == letter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::tests::{fleet_of, small_cluster};

    fn found(names: &Names, fleet: &Fleet, words: &str, most: usize) -> Vec<String> {
        let ids = names.find(words, most);
        ids.iter().filter_map(|id| fleet.row(*id)).map(|row| row.name.to_string()).collect()
    }

    #[test]
    fn objects_are_found_by_letters_of_name_and_node_best_first() {
        let objects: Vec<_> = ["alpha", "beta"].into_iter().flat_map(small_cluster).collect();
        let fleet = fleet_of(&objects);
        let names = Names::of(&fleet);
        for (words, expected) in [
            ("BCP2", &["beta-cp-2"][..]),
            ("alpha cp-1", &["alpha-cp-1"]),
            ("cp-0-node", &["alpha-cp-0", "beta-cp-0"]),
            ("cp !beta", &["alpha-cp", "alpha-cp-0", "alpha-cp-1", "alpha-cp-2"]),
            ("nothing", &[]),
        ] {
            assert_eq!(found(&names, &fleet, words, 12), expected, "{words}");
        }
        assert_eq!(found(&names, &fleet, "a", 1).len(), 5, "one of each kind that is there");
        let all = found(&names, &fleet, "default", 12);
        assert_eq!((all.first().map(String::as_str), all.len()), (Some("alpha"), objects.len()));
    }

    #[test]
    fn where_too_many_have_the_letters_those_side_by_side_count() {
        let text =
            |at: usize| if at == COMPARED_MAX + 5 { "x/a-bc".to_owned() } else { format!("x/a-b-{at}-c") };
        let mut names = Names::default();
        for at in 0..COMPARED_MAX + 10 {
            names.text.push_str(&text(at));
            names.entries.push(Entry { id: RowId(at as u32), end: names.text.len() as u32 });
        }
        names.ends = [names.entries.len(); Names::KINDS.len()];
        assert_eq!(names.find("bc", 3), [RowId(COMPARED_MAX as u32 + 5)]);
        assert_eq!(names.find("abc", 3).len(), 3, "some of those that come first");
    }
}
