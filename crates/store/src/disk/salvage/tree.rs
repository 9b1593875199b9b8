//! Walking a tree of which pages may be damaged. A pointer means the page that has its checksum, so
//! what is reached is what was written, also through a damaged branch. Must not know what keys and
//! values mean: which of a damaged leaf are as they were written, is asked.

use std::collections::BTreeSet;

use super::node::{MENDING_BYTES, Node, Pair, Shape, mend};
use super::pages::{Extent, Pages, Pointer};
use super::pairs::{Proof, is_consistent, pairs_of_damaged};
use super::span::Span;

/// No tree of the addressable size is deeper.
const DEPTH_MAX: usize = 40;

/// What a walk comes upon.
pub(super) enum Seen<'a> {
    /// As it was written.
    Pair(&'a [u8], &'a [u8]),
    /// A key of the tree whose value is not as it was written, or the other way round.
    Broken(&'a [u8], &'a [u8]),
    /// Nothing is known of keys in here beyond what was reported.
    Lost(Span),
}

/// A table's tree, as the directory has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) root: Pointer,
    pub(super) shape: Shape,
    /// Entries.
    pub(super) length: u64,
}

/// Reads trees of one file.
pub(super) struct Walker<'p> {
    pub(super) pages: &'p Pages,
    mending_bytes: u64,
    /// Pages whose bit could not be found, so that it is not looked for again.
    beyond_mending: BTreeSet<Pointer>,
}

impl<'p> Walker<'p> {
    pub(super) fn new(pages: &'p Pages) -> Self {
        Self { pages, mending_bytes: MENDING_BYTES, beyond_mending: BTreeSet::new() }
    }

    /// The bytes of a page, with an altered bit turned back, or as they are: damaged.
    pub(super) fn read(&mut self, pointer: Pointer, shape: Shape) -> Result<Vec<u8>, Vec<u8>> {
        let Some(place) = pointer.place() else { return Err(Vec::new()) };
        let mut bytes = self.pages.read(place);
        if Node::new(&bytes, shape).checksum() == Some(pointer.checksum) {
            return Ok(bytes);
        }
        // Slipped pages come before mending: a few hashes against up to eight for each byte.
        if let Some(slipped) = self.slipped(pointer, place, shape) {
            return Ok(slipped);
        }
        if self.beyond_mending.contains(&pointer) {
            return Err(bytes);
        }
        if mend(&mut bytes, shape, pointer.checksum, &mut self.mending_bytes) {
            return Ok(bytes);
        }
        self.beyond_mending.insert(pointer);
        Err(bytes)
    }

    /// The page behind its place, where bytes that slipped into the file moved it.
    fn slipped(&self, pointer: Pointer, place: Extent, shape: Shape) -> Option<Vec<u8>> {
        let there = self.pages.slips().map(|slip| Extent { offset: place.offset + slip, ..place });
        let mut pages = there.filter(|place| self.is_inside(*place)).map(|place| self.pages.read(place));
        pages.find(|bytes| Node::new(bytes, shape).checksum() == Some(pointer.checksum))
    }

    /// True when the page is the one that the pointer means, at its place or behind it.
    pub(super) fn is_there(&mut self, pointer: Pointer, shape: Shape) -> bool {
        let Some(place) = pointer.place().filter(|place| self.is_inside(*place)) else { return false };
        let is_its = |bytes: Vec<u8>| Node::new(&bytes, shape).checksum() == Some(pointer.checksum);
        // Pages of zeros are damage that happens, and look like pointers to the first page.
        pointer.checksum != 0
            && (is_its(self.pages.read(place)) || self.slipped(pointer, place, shape).is_some())
    }

    fn is_inside(&self, place: Extent) -> bool {
        place.offset + place.bytes <= self.pages.len()
    }

    /// Everything in `span`.
    pub(super) fn walk(&mut self, tree: Tree, span: &Span, proof: Proof, see: &mut dyn FnMut(Seen<'_>)) {
        let mut walk = Walk { walker: self, shape: tree.shape, proof, see };
        walk.descend(tree.root, span, 0);
    }
}

struct Walk<'w, 'p> {
    walker: &'w mut Walker<'p>,
    shape: Shape,
    proof: Proof,
    see: &'w mut dyn FnMut(Seen<'_>),
}

/// First and last key that was seen in a subtree.
type Reach = Option<(Vec<u8>, Vec<u8>)>;

impl Walk<'_, '_> {
    fn descend(&mut self, pointer: Pointer, span: &Span, depth: usize) -> Reach {
        if depth > DEPTH_MAX {
            (self.see)(Seen::Lost(span.clone()));
            return None;
        }
        match self.walker.read(pointer, self.shape) {
            Ok(bytes) => {
                let node = Node::new(&bytes, self.shape);
                if node.is_branch() { self.branch(node, span, depth) } else { self.leaf(node, span) }
            }
            Err(bytes) => self.damaged(&bytes, span, depth),
        }
    }

    fn branch(&mut self, node: Node<'_>, span: &Span, depth: usize) -> Reach {
        let mut reach = None;
        for n in 0..=node.count {
            // Only text is in the order of its bytes; numbers are not, and are read from end to end.
            let is_ordered = self.shape.key_bytes.is_none();
            let above = n.checked_sub(1).and_then(|n| node.separator(n)).filter(|_| is_ordered);
            let upto = node.separator(n).filter(|_| is_ordered && n < node.count);
            let Some(part) = span.and(above, upto) else { continue };
            match node.child(n) {
                Some(child) => join(&mut reach, self.descend(child, &part, depth + 1)),
                None => (self.see)(Seen::Lost(part)),
            }
        }
        reach
    }

    fn leaf(&mut self, node: Node<'_>, span: &Span) -> Reach {
        let mut reach = None;
        for pair in (0..node.count).map(|n| node.pair(n)) {
            match pair.map(|pair| (node.key(&pair), node.value(&pair))) {
                Some((key, value)) if span.contains(key) => {
                    join(&mut reach, Some((key.to_vec(), key.to_vec())));
                    (self.see)(Seen::Pair(key, value));
                }
                Some(_) => {}
                None => (self.see)(Seen::Lost(span.clone())),
            }
        }
        reach
    }

    /// A page that is not what its pointer says. It was a branch if one of its own pointers holds.
    fn damaged(&mut self, bytes: &[u8], span: &Span, depth: usize) -> Reach {
        let node = Node::new(bytes, self.shape);
        // The byte that says leaf or branch may be the altered one, so a leaf is tried as
        // both.
        let mut reach = if node.is_branch() { None } else { self.damaged_leaf(node, span) };
        if reach.is_none() {
            reach = self.damaged_branch(node, span, depth);
        }
        if reach.is_none() {
            (self.see)(Seen::Lost(span.clone()));
        }
        reach
    }

    /// Reports the pairs that hold by themselves. Nothing of a leaf in which all do: that is another
    /// page in this place.
    fn damaged_leaf(&mut self, node: Node<'_>, span: &Span) -> Reach {
        if is_consistent(node, self.proof) {
            return None;
        }
        let mut reach = None;
        let found = pairs_of_damaged(node, self.proof);
        for (Pair { key, value }, is_intact) in found {
            let (key, value) = (&node.bytes[key], &node.bytes[value]);
            if span.contains(key) && is_intact {
                join(&mut reach, Some((key.to_vec(), key.to_vec())));
                (self.see)(Seen::Pair(key, value));
            } else if span.contains(key) {
                (self.see)(Seen::Broken(key, value));
            }
        }
        // A pair that does not hold may have an altered key, so any key of the span may be missing.
        if reach.is_some() {
            (self.see)(Seen::Lost(span.clone()));
        }
        reach
    }

    /// Follows the pointers that hold. What lies between two of them is lost.
    fn damaged_branch(&mut self, node: Node<'_>, span: &Span, depth: usize) -> Reach {
        let (node, held) = self.held_children(node)?;
        let mut reach = None;
        let mut gap_above = span.above.clone();
        let mut is_gap = false;
        for child in (0..=node.count).map(|n| held.contains(&n).then(|| node.child(n)).flatten()) {
            // Separators of a damaged branch prove nothing, so each child is read for the whole
            // span.
            let part = child.and_then(|child| self.descend(child, span, depth + 1));
            let Some((first, last)) = part else {
                is_gap = true;
                continue;
            };
            if is_gap && let Some(gap) = span.and(gap_above.as_deref(), Some(&first)) {
                (self.see)(Seen::Lost(gap));
            }
            (is_gap, gap_above) = (false, Some(last.clone()));
            join(&mut reach, Some((first, last)));
        }
        if is_gap && let Some(gap) = span.and(gap_above.as_deref(), None) {
            (self.see)(Seen::Lost(gap));
        }
        reach
    }

    /// The node with the count under which children are there, and which those are.
    fn held_children<'b>(&mut self, node: Node<'b>) -> Option<(Node<'b>, BTreeSet<usize>)> {
        let counts = (1..=node.count_max()).map(|count| Node { count, ..node });
        let possible = counts.filter(|node| node.is_possible(true));
        for node in std::iter::once(node).chain(possible) {
            let count = node.count;
            let held: BTreeSet<usize> = (0..=count)
                .filter(|n| node.child(*n).is_some_and(|child| self.walker.is_there(child, self.shape)))
                .collect();
            if !held.is_empty() {
                return Some((node, held));
            }
        }
        None
    }
}

fn join(reach: &mut Reach, more: Reach) {
    let Some((first, last)) = more else { return };
    match reach {
        None => *reach = Some((first, last)),
        Some((least, greatest)) => {
            if first < *least {
                *least = first;
            }
            if last > *greatest {
                *greatest = last;
            }
        }
    }
}
