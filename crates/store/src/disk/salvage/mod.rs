//! Brings back what a damaged data file still holds, without the database: it reads the file's pages
//! itself and believes checksums, not structure. Never writes, never panics, always ends.
//!
//! The newest commit is walked first; a page that is not what its pointer says loses a stretch of
//! keys. Keys in there are looked for in older commits, whose pages stay until they are used again,
//! and on every page of the file. What was found is current unless the log says that the key changed
//! later. Must not know what an object is: for records without a checksum it is asked.

use std::cmp::Reverse;
use std::io;
use std::path::Path;

use bytes::Bytes;

mod directory;
mod evidence;
mod node;
mod pages;
mod pairs;
mod scan;
mod scrub;
mod span;
#[cfg(test)]
mod tests;
mod tree;

use crate::KeyId;
use directory::{Directory, slots};
pub(super) use evidence::Salvage;
use evidence::{Commit, Evidence};
use pages::Pages;
use scan::{RECORDS, ROWS, Scanned, scan};
pub(super) use scrub::Scrub;
use span::Span;
use tree::{Seen, Walker};

/// Older commits that are looked into.
const COMMITS_MAX: usize = 64;

/// Reads what can be read of the file. `is_whole` says whether a value is an object.
pub(super) fn salvage(path: &Path, is_whole: fn(&Bytes) -> bool) -> io::Result<Salvage> {
    let pages = Pages::open(path)?;
    let mut walker = Walker::new(&pages);
    let mut survey = Survey { evidence: Evidence::default(), is_whole };
    let mut head = Head::read(&mut walker);
    // Where the head is altered, a commit may be newer than those it names.
    if !head.is_whole {
        head.commits.extend(commits_on_pages(&mut walker));
        head.commits.sort_by_key(newest_first);
    }
    let sealed_with = sealed_with(&mut walker, &head.commits);
    if head.is_newest_lost || head.commits.is_empty() {
        // An unread commit has lost every key, so older commits and stray pages are looked through.
        survey.evidence.commits.push(Commit::unread());
        survey.evidence.is_newest_commit_lost = true;
    } else {
        survey.walk(&mut walker, &head.commits.remove(0));
    }
    // When the newest commit is whole, older pages could only bring back what was deleted.
    if !survey.is_complete() {
        head.commits.extend(commits_on_pages(&mut walker));
        head.commits.sort_by_key(newest_first);
        // The pages of the commits that the head names are found by the scan, too.
        head.commits.dedup();
        for commit in head.commits.iter().take(COMMITS_MAX) {
            survey.walk(&mut walker, commit);
        }
        survey.scan(&pages);
    }
    Ok(Salvage { sealed_with, ..survey.evidence.judge() })
}

fn newest_first(directory: &Directory) -> Reverse<Option<u64>> {
    Reverse(directory.revision)
}

/// The key with which the file says that it is sealed. All commits of a file say the same: another key makes another file.
fn sealed_with(walker: &mut Walker<'_>, commits: &[Directory]) -> Option<KeyId> {
    let named = |commits: &[Directory]| commits.iter().find_map(|commit| commit.sealed_with);
    // Where a revision was read, the key stood beside it.
    let is_read = commits.iter().any(|commit| commit.revision.is_some());
    if is_read { named(commits) } else { named(&commits_on_pages(walker)) }
}

/// The commits that the head names.
struct Head {
    commits: Vec<Directory>,
    is_newest_lost: bool,
    /// Nothing in it is altered, so that there is no newer commit than those.
    is_whole: bool,
}

impl Head {
    fn read(walker: &mut Walker<'_>) -> Self {
        let slots = slots(walker.pages);
        let mut head = Self { commits: Vec::new(), is_newest_lost: false, is_whole: slots.len() == 2 };
        for (n, slot) in slots.iter().enumerate() {
            let found = Directory::of_slot(walker, *slot);
            let is_lost = slot.tables.is_some() && found.is_none();
            head.is_newest_lost |= n == 0 && slot.is_whole && is_lost;
            head.is_whole &= slot.is_whole && !is_lost;
            head.commits.extend(found);
        }
        head
    }
}

/// The commits whose directories lie anywhere in the file.
fn commits_on_pages(walker: &mut Walker<'_>) -> Vec<Directory> {
    let mut found = Vec::new();
    scan(walker.pages, &mut |scanned| {
        if let Scanned::Directory(page) = scanned {
            found.push(page.to_vec());
        }
    });
    let directories = found.iter().filter_map(|page| Directory::of_page(walker, page, false));
    directories.filter(|directory| directory.revision.is_some()).collect()
}

struct Survey {
    evidence: Evidence,
    is_whole: fn(&Bytes) -> bool,
}

impl Survey {
    fn is_complete(&self) -> bool {
        self.evidence.commits.first().is_some_and(|newest| newest.lost.is_empty())
    }

    /// Takes in, from one commit, the keys that the commits read before it do not have.
    fn walk(&mut self, walker: &mut Walker<'_>, directory: &Directory) {
        let is_newest = self.evidence.commits.is_empty();
        let spans = self.evidence.commits.last().map_or(vec![Span::default()], |newer| newer.lost.clone());
        let at = directory.revision.unwrap_or(0);
        let mut lost = Vec::new();
        for span in &spans {
            // `Directory` takes none that has no such tree.
            let Some(tree) = directory.objects else { continue };
            walker.walk(tree, span, RECORDS, &mut |seen| match seen {
                Seen::Pair(key, value) => self.evidence.see(key, value, at, is_newest),
                Seen::Broken(key, value) => self.evidence.see_broken(key, value, is_newest, self.is_whole),
                Seen::Lost(span) => lost.push(span),
            });
        }
        let has_losses = !lost.is_empty();
        self.evidence.commits.push(Commit {
            revision: directory.revision,
            log_since: None,
            length: directory.objects.map(|tree| tree.length),
            lost,
        });
        // The log says what became of lost keys only; a whole commit needs none of it.
        if has_losses {
            self.walk_log(walker, directory);
        }
    }

    fn walk_log(&mut self, walker: &mut Walker<'_>, directory: &Directory) {
        let mut is_log_whole = true;
        let Some(log) = directory.log else { return };
        walker.walk(log, &Span::default(), ROWS, &mut |seen| match seen {
            Seen::Pair(revision, row) => match revision.try_into() {
                Ok(revision) => self.evidence.see_row(u64::from_le_bytes(revision), row),
                Err(_) => is_log_whole = false,
            },
            Seen::Broken(..) | Seen::Lost(_) => is_log_whole = false,
        });
        if let Some(commit) = self.evidence.commits.last_mut() {
            commit.log_since = directory.compacted.filter(|_| is_log_whole);
        }
    }

    fn scan(&mut self, pages: &Pages) {
        scan(pages, &mut |found| match found {
            Scanned::Directory(_) => {}
            Scanned::Record(key, value) => self.evidence.see_stray(key, value, self.is_whole),
            Scanned::Row(revision, row) => self.evidence.see_row(revision, row),
        });
    }
}
