//! Entries in key order whose places can be counted: how many lie before a key, how many follow.
//! Must not know revisions, history or who reads.
//!
//! Sorted runs of bounded length in one list. Finding a key is two binary searches; counting adds up
//! the lengths of the runs, which is one step per few hundred entries.

use super::Entry;

/// A run is split in two above this length.
const RUN_MAX: usize = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct Ordered {
    /// None is empty.
    runs: Vec<Vec<Entry>>,
}

/// Between two entries. Valid until the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    run: usize,
    at: usize,
}

impl Ordered {
    /// The first place whose key is not `before`, which must be true of no key behind one of which
    /// it is false.
    pub(super) fn seek(&self, before: impl Fn(&str) -> bool) -> Cursor {
        let runs = self.runs.partition_point(|run| run.first().is_some_and(|entry| before(&entry.key)));
        let Some(run) = runs.checked_sub(1) else { return Cursor { run: 0, at: 0 } };
        let at = self.runs[run].partition_point(|entry| before(&entry.key));
        if at == self.runs[run].len() { Cursor { run: run + 1, at: 0 } } else { Cursor { run, at } }
    }

    /// How many entries lie before `place`.
    pub(super) fn rank(&self, place: Cursor) -> usize {
        self.runs[..place.run].iter().map(Vec::len).sum::<usize>() + place.at
    }

    /// The entries behind `place`, in key order.
    pub(super) fn behind(&self, place: Cursor) -> impl Iterator<Item = &Entry> {
        let (first, rest) = match self.runs.get(place.run..).and_then(<[_]>::split_first) {
            Some((first, rest)) => (&first[place.at..], rest),
            None => (&[][..], &[][..]),
        };
        first.iter().chain(rest.iter().flatten())
    }

    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        let place = self.seek(|k| k < key);
        self.runs.get(place.run)?.get(place.at).filter(|entry| &*entry.key == key)
    }

    /// Puts `entry` in its place, over the one of the same key.
    pub(super) fn insert(&mut self, entry: Entry) {
        let place = self.seek(|k| k < &*entry.key);
        if let Some(there) = self.runs.get_mut(place.run).and_then(|run| run.get_mut(place.at))
            && there.key == entry.key
        {
            *there = entry;
            return;
        }
        // Between two runs it belongs at the end of the first, so that ascending keys fill runs.
        let (index, at) = match place.at {
            0 if place.run > 0 => (place.run - 1, self.runs[place.run - 1].len()),
            at => (place.run, at),
        };
        match self.runs.get_mut(index) {
            Some(run) => {
                run.insert(at, entry);
                if run.len() > RUN_MAX {
                    // Ascending keys leave full runs behind, others half full ones.
                    let keep = if at + 1 == run.len() { RUN_MAX } else { RUN_MAX / 2 };
                    let upper = run.split_off(keep);
                    self.runs.insert(index + 1, upper);
                }
            }
            None => self.runs.push(vec![entry]),
        }
    }

    pub(super) fn remove(&mut self, key: &str) {
        let place = self.seek(|k| k < key);
        let Some(run) = self.runs.get_mut(place.run) else { return };
        if run.get(place.at).is_none_or(|entry| &*entry.key != key) {
            return;
        }
        run.remove(place.at);
        if run.is_empty() {
            self.runs.remove(place.run);
        } else if run.len() < RUN_MAX / 4 {
            self.join(place.run);
        }
    }

    /// Joins a short run with its neighbour when both fit in one.
    fn join(&mut self, index: usize) {
        let first = if index + 1 < self.runs.len() { index } else { index.saturating_sub(1) };
        // Half of the maximum, so that the next insertions do not split the run again.
        if first + 1 < self.runs.len() && self.runs[first].len() + self.runs[first + 1].len() <= RUN_MAX / 2 {
            let upper = self.runs.remove(first + 1);
            self.runs[first].extend(upper);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.runs.iter().flatten()
    }
}

impl FromIterator<Entry> for Ordered {
    fn from_iter<T: IntoIterator<Item = Entry>>(entries: T) -> Self {
        let mut ordered = Self::default();
        entries.into_iter().for_each(|entry| ordered.insert(entry));
        ordered
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Blob;
    use capstan_base::rng::Rng;

    fn entry(key: &str, modified: u64) -> Entry {
        Entry { key: key.into(), created: 1, modified, value: Blob::pack(b"") }
    }

    #[test]
    fn it_agrees_with_a_map_and_counts() {
        let rng = Rng::seeded(7);
        let (mut ordered, mut model) = (Ordered::default(), BTreeMap::new());
        for step in 0..20_000_u64 {
            let key = format!("/{:04}", rng.below(3_000));
            // Mostly growing at first, mostly shrinking later.
            if rng.below(20_000) > step {
                ordered.insert(entry(&key, step));
                model.insert(key, step);
            } else {
                ordered.remove(&key);
                model.remove(&key);
            }
            if step % 500 != 0 {
                continue;
            }
            let found: Vec<_> = ordered.iter().map(|e| (e.key.to_string(), e.modified)).collect();
            assert_eq!(found, model.clone().into_iter().collect::<Vec<_>>());
            for probe in ["", "/0000", "/1500", "/15005", "/2999", "/3"] {
                let place = ordered.seek(|k| k < probe);
                assert_eq!(ordered.rank(place), model.range(..probe.to_owned()).count(), "{probe}");
                let next = ordered.behind(place).next().map(|e| e.key.to_string());
                assert_eq!(next.as_ref(), model.range(probe.to_owned()..).next().map(|(k, _)| k));
                assert_eq!(ordered.get(probe).map(|e| e.modified), model.get(probe).copied());
            }
        }
        assert!(ordered.runs.iter().all(|run| !run.is_empty() && run.len() <= RUN_MAX));
    }

    #[test]
    fn ascending_keys_fill_their_runs() {
        let ordered: Ordered = (0..5_120).map(|n| entry(&format!("/{n:05}"), 1)).collect();
        assert_eq!(ordered.runs.len(), 10);
    }
}
