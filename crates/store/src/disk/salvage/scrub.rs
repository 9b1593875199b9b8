//! Compares the checksums of a data file that a server has open, a few pages at a time, so that decay
//! is noticed while everything is still in memory. Reads the disk, not what the kernel remembers of
//! it. Must not know what the pages hold, and never stands in the writer's way.
//!
//! A round takes the pointers to all pages of one commit and compares page by page. The writer may
//! use a page again as soon as a later commit does not need it, so a page that differs is damaged
//! only if the commit of that moment points to it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::directory::{OPEN_SHAPE, definition, slots};
use super::node::{Node, Shape};
use super::pages::{Extent, Pages, Pointer};

/// A round takes about this many bites, unless there are few pages: four hours, with one every ten seconds.
const BITES: usize = 4 * 360;
/// Fewest pages of one bite.
const BITE_PAGES_MIN: usize = 16;
/// How often the head is read again when commits come in between.
const TRIES: usize = 50;
/// No tree of the addressable size is deeper.
const DEPTH_MAX: usize = 40;

/// A page of the newest commit that is not as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::disk) struct Rotten {
    pub(in crate::disk) offset: u64,
    pub(in crate::disk) bytes: u64,
}

/// A page of a tree and how to read it.
type Reference = (Pointer, Shape);

/// Rounds over one file.
pub(in crate::disk) struct Scrub {
    path: PathBuf,
    /// What is left of this round.
    left: Vec<Reference>,
    bite_pages: usize,
}

impl Scrub {
    pub(in crate::disk) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), left: Vec::new(), bite_pages: BITE_PAGES_MIN }
    }

    /// Compares the next few pages.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(in crate::disk) fn bite(&mut self) -> io::Result<Option<Rotten>> {
        // The file is opened for each bite: the writer may have put another one in its place.
        let pages = Pages::open_uncached(&self.path)?;
        if self.left.is_empty() {
            match Current::read(&pages) {
                Current::Pages(all) => self.left = all.into_iter().collect(),
                Current::Rotten(page) => return Ok(Some(page)),
                Current::Moving => return Ok(None),
            }
            self.bite_pages = (self.left.len() / BITES).max(BITE_PAGES_MIN);
        }
        for _ in 0..self.bite_pages {
            let Some(reference) = self.left.pop() else { break };
            if is_as_written(&pages, reference) {
                continue;
            }
            // Damaged, or no longer part of the newest commit.
            match Current::holding(&pages, reference) {
                Current::Pages(all) => self.left.retain(|reference| all.contains(reference)),
                Current::Rotten(page) => return Ok(Some(page)),
                // Nothing is known of what is left, so the next bite begins a new round.
                Current::Moving => self.left.clear(),
            }
        }
        Ok(None)
    }
}

fn is_as_written(pages: &Pages, (pointer, shape): Reference) -> bool {
    let bytes = pointer.place().map(|place| pages.read(place)).unwrap_or_default();
    Node::new(&bytes, shape).checksum() == Some(pointer.checksum)
}

/// The pages of the newest commit.
enum Current {
    Pages(BTreeSet<Reference>),
    Rotten(Rotten),
    /// Commits came too fast for an answer.
    Moving,
}

impl Current {
    /// All of them. Leaves are not read.
    fn read(pages: &Pages) -> Self {
        Self::when_still(pages, |_| None)
    }

    /// The same, and that page is compared again if it is one of them.
    fn holding(pages: &Pages, suspect: Reference) -> Self {
        Self::when_still(pages, |all| {
            let is_damaged = all.contains(&suspect) && !is_as_written(pages, suspect);
            suspect.0.place().filter(|_| is_damaged)
        })
    }

    /// A difference counts when no commit came in between.
    fn when_still(pages: &Pages, compare: impl Fn(&BTreeSet<Reference>) -> Option<Extent>) -> Self {
        for _ in 0..TRIES {
            let head = slots(pages).into_iter().find(|slot| slot.is_primary && slot.is_whole);
            // The head is being written at this moment.
            let Some(slot) = head else { continue };
            let mut walk = Pointers { pages, all: BTreeSet::new(), rotten: None };
            for root in [slot.tables, slot.system].into_iter().flatten() {
                walk.tables(root, 0);
            }
            let rotten = walk.rotten.or_else(|| compare(&walk.all));
            // Checksums do not agree by chance, so only a difference needs the second look at the
            // head.
            let Some(Extent { offset, bytes }) = rotten else { return Self::Pages(walk.all) };
            if slots(pages).into_iter().find(|slot| slot.is_primary && slot.is_whole) == head {
                return Self::Rotten(Rotten { offset, bytes });
            }
        }
        Self::Moving
    }
}

struct Pointers<'p> {
    pages: &'p Pages,
    all: BTreeSet<Reference>,
    /// The first page that is not what its pointer says.
    rotten: Option<Extent>,
}

impl Pointers<'_> {
    fn read(&mut self, pointer: Pointer, shape: Shape) -> Option<Vec<u8>> {
        self.all.insert((pointer, shape));
        let place = pointer.place()?;
        let bytes = self.pages.read(place);
        if Node::new(&bytes, shape).checksum() == Some(pointer.checksum) {
            return Some(bytes);
        }
        self.rotten.get_or_insert(place);
        None
    }

    /// A tree of table definitions, and all those tables.
    fn tables(&mut self, pointer: Pointer, depth: usize) {
        let Some(bytes) = self.read(pointer, OPEN_SHAPE).filter(|_| depth < DEPTH_MAX) else { return };
        let node = Node::new(&bytes, OPEN_SHAPE);
        if node.is_branch() {
            (0..=node.count).filter_map(|n| node.child(n)).for_each(|child| self.tables(child, depth + 1));
            return;
        }
        for tree in (0..node.count).filter_map(|n| definition(node.value(&node.pair(n)?))) {
            // All leaves lie equally deep, so they are known by height and need not be read here.
            let height = self.height(tree.root, tree.shape);
            self.table(tree.root, tree.shape, height);
        }
    }

    /// Branches above the leaves: the same everywhere in a tree.
    fn height(&mut self, root: Pointer, shape: Shape) -> usize {
        let mut pointer = root;
        for height in 0..DEPTH_MAX {
            let bytes = self.read(pointer, shape).unwrap_or_default();
            let node = Node::new(&bytes, shape);
            match node.child(0).filter(|_| node.is_branch()) {
                Some(child) => pointer = child,
                None => return height,
            }
        }
        0
    }

    fn table(&mut self, pointer: Pointer, shape: Shape, height: usize) {
        let Some(height) = height.checked_sub(1) else {
            self.all.insert((pointer, shape));
            return;
        };
        let bytes = self.read(pointer, shape).unwrap_or_default();
        let node = Node::new(&bytes, shape);
        if node.is_branch() {
            (0..=node.count).filter_map(|n| node.child(n)).for_each(|child| self.table(child, shape, height));
        }
    }
}
