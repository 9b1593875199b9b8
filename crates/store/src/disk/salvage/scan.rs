//! Every page of the file on its own, whether something points to it or not. What it finds was
//! written once; whether it is still current is not known here.

use super::directory::{LOG_SHAPE, OPEN_SHAPE, is_directory};
use super::node::{LEAF, Node, Shape};
use super::pages::{Extent, PAGE_BYTES, Pages};
use super::pairs::{Proof, is_consistent, pairs_that_hold};
use crate::disk::record::{decode_record, decode_row, is_intact, may_begin};

/// Longest page that is read because its own offsets say so.
const LEAF_BYTES_MAX: usize = 16 << 20;

pub(super) const RECORDS: Proof = Proof { is_intact, may_begin };
const UNSUMMED: Proof = Proof { is_intact: is_plausible, may_begin: |_| false };
pub(super) const ROWS: Proof = Proof { is_intact: is_row, may_begin: |_| false };

/// Something that a page holds.
pub(super) enum Scanned<'a> {
    /// A page of table definitions.
    Directory(&'a [u8]),
    /// Key and record.
    Record(&'a [u8], &'a [u8]),
    /// Revision and changes.
    Row(u64, &'a [u8]),
}

pub(super) fn scan(pages: &Pages, see: &mut dyn FnMut(Scanned<'_>)) {
    // Where bytes slipped in, the pages behind them lie beside their places.
    let odd = pages.len() % PAGE_BYTES;
    for start in [Some(PAGE_BYTES), (odd > 0).then_some(PAGE_BYTES + odd)].into_iter().flatten() {
        let mut offset = start;
        while offset < pages.len() {
            let used = page(pages, offset, see);
            // Values inside of a long page are not pages, whatever they look like.
            offset += (used as u64).next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        }
    }
}

/// Reports what is in the page, and how many bytes are certainly its own.
fn page(pages: &Pages, offset: u64, see: &mut dyn FnMut(Scanned<'_>)) -> usize {
    let first = pages.read(Extent { offset, bytes: PAGE_BYTES });
    // A branch has pointers only, and those lead to pages that are scanned anyway.
    if first.first() != Some(&LEAF) {
        return 0;
    }
    let node = Node::new(&first, OPEN_SHAPE);
    if is_directory(node) {
        see(Scanned::Directory(&first));
        return first.len();
    }
    records(&leaf(pages, offset, OPEN_SHAPE), see)
        .or_else(|| rows(&leaf(pages, offset, LOG_SHAPE), see))
        .unwrap_or(0)
}

/// As much as the page's own offsets say, if they can be true.
fn leaf(pages: &Pages, offset: u64, shape: Shape) -> Vec<u8> {
    let read = |bytes: usize| pages.read(Extent { offset, bytes: (bytes as u64).max(PAGE_BYTES) });
    let mut bytes = read(0);
    // Twice: a long table of offsets is read whole before the end of the page can be looked up in
    // it.
    for _ in 0..2 {
        let node = Node::new(&bytes, shape);
        let needed = node.keys_start().max(node.end().unwrap_or(0));
        if needed > bytes.len() && needed <= LEAF_BYTES_MAX {
            bytes = read(needed);
        }
    }
    bytes
}

/// `None` when no record is in it.
fn records(bytes: &[u8], see: &mut dyn FnMut(Scanned<'_>)) -> Option<usize> {
    let node = Node::new(bytes, OPEN_SHAPE);
    if is_consistent(node, RECORDS) || is_consistent(node, UNSUMMED) {
        for pair in (0..node.count).filter_map(|n| node.pair(n)) {
            see(Scanned::Record(node.key(&pair), node.value(&pair)));
        }
        return node.end();
    }
    // Without a checksum a single pair proves nothing, so here only records that have one count.
    let holding = pairs_that_hold(node, RECORDS);
    for pair in &holding {
        see(Scanned::Record(node.key(pair), node.value(pair)));
    }
    // A page that does not hold as a whole does not know its own length either.
    (!holding.is_empty()).then_some(0)
}

/// A record of format 1, which has no checksum, as far as can be told.
fn is_plausible(key: &[u8], bytes: &[u8]) -> bool {
    let key = std::str::from_utf8(key).ok().map(Into::into);
    let record = key.and_then(|key| decode_record(&key, bytes));
    record.is_some_and(|record| record.entry.value.unpack().is_ok())
}

fn rows(bytes: &[u8], see: &mut dyn FnMut(Scanned<'_>)) -> Option<usize> {
    let node = Node::new(bytes, LOG_SHAPE);
    let pairs = pairs_that_hold(node, ROWS);
    for pair in &pairs {
        if let Ok(revision) = node.key(pair).try_into() {
            see(Scanned::Row(u64::from_le_bytes(revision), node.value(pair)));
        }
    }
    if pairs.len() == node.count { node.end() } else { None }
}

/// True of a row of the log that can be read.
fn is_row(revision: &[u8], row: &[u8]) -> bool {
    revision.len() == 8 && decode_row(row).is_some_and(|changes| !changes.is_empty())
}
