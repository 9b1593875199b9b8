//! What is current, from everything that was found: the newest commit that still has a key's page,
//! and what the log and pages without a place say of the time behind it. Must not know pages.

use std::collections::{BTreeMap, BTreeSet};

use super::span::{Span, holds};
use crate::disk::record::{Record, decode_record, decode_row};
use crate::ordered::Ordered;
use crate::{Entry, Key, KeyId, Revision};

/// One commit, as far as it can be read.
#[derive(Debug)]
pub(super) struct Commit {
    /// `None`: not known, because its directory is gone.
    pub(super) revision: Option<Revision>,
    /// Its log has every change above this revision; `None`: it is not whole.
    pub(super) log_since: Option<Revision>,
    /// How many objects it has.
    pub(super) length: Option<u64>,
    /// The keys about which it holds nothing.
    pub(super) lost: Vec<Span>,
}

impl Commit {
    /// One of which it is only known that there was one.
    pub(super) fn unread() -> Self {
        Self { revision: None, log_since: None, length: None, lost: vec![Span::default()] }
    }
}

/// What is known of one key on a page that the newest commit lost.
#[derive(Debug, Default)]
struct Clue {
    /// In the newest commit that has it, and that commit's revision.
    seen: Option<(Entry, Revision)>,
    /// The newest found on a page without a place.
    stray: Option<Record>,
    /// The newest commit has it, broken: the revision of its last change.
    broken: Option<Revision>,
    changed: Option<Revision>,
}

/// What becomes of one key.
enum KeyState {
    Current(Entry),
    /// There is no evidence that it is current, and none that it is not.
    Perhaps(Entry),
    /// It has no checksum, and its page does not hold: its bytes may be altered.
    Unproved(Entry),
    /// It was there, and what it held is not.
    Lost,
    /// It changed, and to what is not known: it may have been deleted.
    LostOrDeleted,
    Deleted,
}

#[derive(Default)]
pub(super) struct Evidence {
    /// The newest first.
    pub(super) commits: Vec<Commit>,
    /// Of the newest commit.
    objects: Ordered,
    clues: BTreeMap<Key, Clue>,
    /// That the log has.
    revisions: BTreeSet<Revision>,
    /// Greatest seen anywhere.
    newest: Revision,
    pub(super) is_newest_commit_lost: bool,
}

/// What was brought back.
#[derive(Default)]
pub(in crate::disk) struct Salvage {
    pub(in crate::disk) objects: Ordered,
    /// Of `objects`: those that may be an older version, or may have been deleted.
    pub(in crate::disk) uncertain: Vec<Key>,
    /// Keys whose values are gone.
    pub(in crate::disk) lost: Vec<Key>,
    /// Keys that changed shortly before the end, to what is not known.
    pub(in crate::disk) lost_or_deleted: Vec<Key>,
    /// Objects that were counted and of which not even the key is known. `None`: the count cannot be read either.
    pub(in crate::disk) unknown: Option<u64>,
    /// The newest commit itself is gone; the one before it was taken.
    pub(in crate::disk) is_newest_commit_lost: bool,
    /// Greatest that was seen.
    pub(in crate::disk) revision: Revision,
    /// The key with which the file says that it is sealed.
    pub(in crate::disk) sealed_with: Option<KeyId>,
}

impl Evidence {
    /// Changes behind this one were not committed.
    fn last(&self) -> Revision {
        self.commits.first().and_then(|commit| commit.revision).unwrap_or(Revision::MAX)
    }

    fn clue(&mut self, key: &[u8]) -> Option<&mut Clue> {
        let key = std::str::from_utf8(key).ok()?;
        Some(self.clues.entry(key.into()).or_default())
    }

    /// A pair in the tree of the commit that is being walked; `at` is its revision. The newest
    /// commit comes first.
    pub(super) fn see(&mut self, key: &[u8], value: &[u8], at: Revision, is_newest: bool) {
        let Some(Record { entry, .. }) = decode(key, value) else {
            return self.see_broken(key, value, is_newest, |_| false);
        };
        self.newest = self.newest.max(entry.modified);
        if is_newest {
            self.objects.insert(entry);
        } else if let Some(clue) = self.clue(key)
            && clue.seen.is_none()
        {
            // Commits are walked from the newest on, so the first sight of a key is its newest.
            clue.seen = Some((entry, at));
        }
    }

    /// A pair whose page is damaged and that does not hold. Without a checksum it is the one that
    /// was written if it is a whole object.
    pub(super) fn see_broken(
        &mut self,
        key: &[u8],
        value: &[u8],
        is_newest: bool,
        is_whole: impl FnOnce(&bytes::Bytes) -> bool,
    ) {
        let Some(name) = std::str::from_utf8(key).ok().filter(|name| !name.contains(char::is_control)) else {
            return;
        };
        // In an older commit the intact copies count. Broken bytes there prove nothing about now.
        if !is_newest || name.is_empty() {
            return;
        }
        let modified = value.get(8..16).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
        let unsummed = decode(key, value).filter(|record| !record.is_summed);
        let whole = unsummed.filter(|record| record.entry.value.unpack().is_ok_and(|value| is_whole(&value)));
        let Some(clue) = self.clue(key) else { return };
        // With 0 the pair, which is taken itself, supersedes nothing in `state`.
        clue.broken = Some(if whole.is_some() { 0 } else { modified });
        clue.stray = whole;
    }

    /// A record on a page without a place.
    pub(super) fn see_stray(&mut self, key: &[u8], value: &[u8], is_whole: fn(&bytes::Bytes) -> bool) {
        let last = self.last();
        let Some(record) = decode(key, value) else { return };
        let (entry, is_summed) = (&record.entry, record.is_summed);
        let is_written = is_summed || entry.value.unpack().is_ok_and(|value| is_whole(&value));
        // A later revision stands on pages of a commit that did not get through.
        if !is_written || entry.modified > last || !self.is_lost(key) {
            return;
        }
        // Without a checksum the revision may be rubbish, and the new store would begin above it.
        if is_summed {
            self.newest = self.newest.max(entry.modified);
        }
        if let Some(clue) = self.clue(key)
            && clue.stray.as_ref().is_none_or(|stray| stray.entry.modified < entry.modified)
        {
            clue.stray = Some(record);
        }
    }

    /// A row of the log, wherever it was found.
    pub(super) fn see_row(&mut self, revision: Revision, row: &[u8]) {
        // Pages are copied when they change, so one row may lie on several.
        if revision > self.last() || !self.revisions.insert(revision) {
            return;
        }
        for (key, _) in decode_row(row).into_iter().flatten() {
            if self.is_lost(key.as_bytes())
                && let Some(clue) = self.clue(key.as_bytes())
            {
                clue.changed = clue.changed.max(Some(revision));
            }
        }
    }

    /// True when the newest commit has lost the key's page.
    fn is_lost(&self, key: &[u8]) -> bool {
        self.commits.first().is_some_and(|commit| holds(&commit.lost, key))
    }

    /// True when every change between `since` and the newest commit is known.
    fn is_followed(&self, since: Revision) -> bool {
        let Some(newest) = self.commits.first() else { return false };
        // The newest commit may be unread and so without a revision. The next one's counts then.
        let Some(last) = self.commits.iter().find_map(|commit| commit.revision) else { return false };
        since >= last
            || newest.log_since.is_some_and(|start| start <= since)
            // The row of each revision in between was found, on whatever page: a transaction takes
            // one.
            || self.revisions.range(since + 1..=last).count() as u64 == last - since
    }

    fn state(&self, key: &Key, clue: &Clue) -> KeyState {
        let covering = self.commits.iter().find(|commit| !holds(&commit.lost, key.as_bytes()));
        let absent_at = covering.and_then(|commit| commit.revision);
        // A commit that has the key's page and not the key proves that the key was gone by then.
        let (seen, at) = match (&clue.seen, absent_at) {
            (Some((entry, at)), absent) if absent.is_none_or(|absent| absent <= *at) => (Some(entry), *at),
            (_, absent) => (None, absent.unwrap_or(0)),
        };
        let stray = clue.stray.as_ref().filter(|stray| stray.entry.modified > at);
        let gone = match (clue.broken, clue.changed) {
            (Some(_), _) => KeyState::Lost,
            (None, Some(changed)) if changed > at => KeyState::LostOrDeleted,
            _ => KeyState::Deleted,
        };
        let Some(entry) = stray.map(|stray| &stray.entry).or(seen) else { return gone };
        let since = if stray.is_some() { entry.modified } else { at.max(entry.modified) };
        let is_superseded = clue.changed.is_some_and(|changed| changed > entry.modified)
            // The revision of broken bytes counts only where there can be such a revision.
            || clue.broken.is_some_and(|at| at > entry.modified && at <= self.last());
        if is_superseded {
            gone
        } else if stray.is_some_and(|stray| !stray.is_summed) {
            KeyState::Unproved(entry.clone())
        // Broken bytes of the same revision are a damaged copy of this very record.
        } else if clue.broken == Some(entry.modified) || self.is_followed(since) {
            KeyState::Current(entry.clone())
        } else {
            KeyState::Perhaps(entry.clone())
        }
    }

    pub(super) fn judge(mut self) -> Salvage {
        let mut salvage = Salvage { revision: self.newest, ..Salvage::default() };
        let newest = self.commits.iter().filter_map(|commit| commit.revision).max();
        salvage.revision = salvage.revision.max(newest.unwrap_or(0));
        salvage.is_newest_commit_lost = self.is_newest_commit_lost;
        salvage.objects = std::mem::take(&mut self.objects);
        let mut perhaps = Vec::new();
        for (key, clue) in &self.clues {
            if let Some(there) = salvage.objects.get(key) {
                // On a damaged page of the newest commit, and an older page at that.
                if clue.changed.is_none_or(|changed| changed <= there.modified) {
                    continue;
                }
                salvage.objects.remove(key);
            }
            match self.state(key, clue) {
                KeyState::Current(entry) => salvage.objects.insert(entry),
                KeyState::Perhaps(entry) => perhaps.push(entry),
                KeyState::Unproved(entry) => {
                    salvage.uncertain.push(entry.key.clone());
                    salvage.objects.insert(entry);
                }
                KeyState::Lost => salvage.lost.push(key.clone()),
                KeyState::LostOrDeleted => salvage.lost_or_deleted.push(key.clone()),
                KeyState::Deleted => {}
            }
        }
        let length = self.commits.first().and_then(|commit| commit.length);
        salvage.settle(length, perhaps);
        salvage
    }
}

impl Salvage {
    /// The number of objects, if known, says how many of the doubtful ones there can be.
    fn settle(&mut self, length: Option<u64>, perhaps: Vec<Entry>) {
        let known = (self.objects.iter().count() + self.lost.len()) as u64;
        let missing = length.map(|length| length.saturating_sub(known));
        let doubtful = perhaps.len() as u64;
        // All that the commit counted are there, so the doubtful ones were deleted.
        if missing == Some(0) {
            self.lost_or_deleted.clear();
            self.unknown = missing;
            return;
        }
        for entry in perhaps {
            // As many are missing as are doubtful, so each of those is one of the missing.
            if missing != Some(doubtful) {
                self.uncertain.push(entry.key.clone());
            }
            self.objects.insert(entry);
        }
        let unnamed = missing.map(|missing| missing.saturating_sub(doubtful));
        if unnamed == Some(0) {
            self.lost_or_deleted.clear();
        }
        self.unknown = unnamed.map(|unnamed| unnamed.saturating_sub(self.lost_or_deleted.len() as u64));
        self.uncertain.sort();
    }
}

fn decode(key: &[u8], value: &[u8]) -> Option<Record> {
    decode_record(&std::str::from_utf8(key).ok()?.into(), value)
}
