//! One page of a tree: a leaf with keys and values, or a branch with pointers and the keys between
//! them. Every offset in it may be wrong. Must not know which tables there are.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_128;

use super::pages::Pointer;

pub(super) const LEAF: u8 = 1;
pub(super) const BRANCH: u8 = 2;

/// Bytes of a pointer in a branch: its checksum and its page.
const POINTER_BYTES: usize = 16 + 8;

/// How long the keys and values of a table are, where that is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    pub(super) key_bytes: Option<usize>,
    pub(super) value_bytes: Option<usize>,
}

/// Where a key and its value lie in a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

/// A page read as a tree's node, with the number of entries it says it has, or another one.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) shape: Shape,
    pub(super) count: usize,
}

impl<'a> Node<'a> {
    pub(super) fn new(bytes: &'a [u8], shape: Shape) -> Self {
        let count = bytes.get(2..4).and_then(|two| two.try_into().ok()).map_or(0, u16::from_le_bytes);
        Self { bytes, shape, count: usize::from(count) }
    }

    pub(super) fn is_branch(&self) -> bool {
        self.bytes.first() == Some(&BRANCH)
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.bytes.first() == Some(&LEAF)
    }

    /// Of what is in use of the page. `None` when it cannot be a node.
    pub(super) fn checksum(&self) -> Option<u128> {
        self.bytes.get(..self.end()?).map(xxh3_128)
    }

    /// Where the part in use ends.
    pub(super) fn end(&self) -> Option<usize> {
        let last = self.count.checked_sub(1)?;
        if self.is_branch() { self.separator_end(last) } else { self.value_end(last) }
    }

    fn number(&self, at: usize) -> Option<usize> {
        let four = self.bytes.get(at..at.checked_add(4)?)?;
        usize::try_from(u32::from_le_bytes(four.try_into().ok()?)).ok()
    }

    // A leaf: type, count, ends of keys, ends of values, keys, values.

    pub(super) fn keys_start(&self) -> usize {
        let tables =
            usize::from(self.shape.key_bytes.is_none()) + usize::from(self.shape.value_bytes.is_none());
        4 + 4 * tables * self.count
    }

    pub(super) fn key_end(&self, n: usize) -> Option<usize> {
        match self.shape.key_bytes {
            Some(width) => Some(self.keys_start() + width * (n + 1)),
            None => self.number(4 + 4 * n),
        }
    }

    pub(super) fn value_end(&self, n: usize) -> Option<usize> {
        match self.shape.value_bytes {
            Some(width) => Some(self.values_start()? + width * (n + 1)),
            None => {
                let table = if self.shape.key_bytes.is_none() { 4 * self.count } else { 0 };
                self.number(4 + table + 4 * n)
            }
        }
    }

    pub(super) fn values_start(&self) -> Option<usize> {
        self.key_end(self.count.checked_sub(1)?)
    }

    /// The pair at a place, if its offsets lie in the page.
    pub(super) fn pair(&self, n: usize) -> Option<Pair> {
        let key_start = n.checked_sub(1).map_or(Some(self.keys_start()), |before| self.key_end(before))?;
        let value_start = n.checked_sub(1).map_or(self.values_start(), |before| self.value_end(before))?;
        let pair = Pair { key: key_start..self.key_end(n)?, value: value_start..self.value_end(n)? };
        let is_inside = |part: &Range<usize>| part.start <= part.end && part.end <= self.bytes.len();
        (n < self.count && is_inside(&pair.key) && is_inside(&pair.value)).then_some(pair)
    }

    pub(super) fn key(&self, pair: &Pair) -> &'a [u8] {
        self.bytes.get(pair.key.clone()).unwrap_or_default()
    }

    pub(super) fn value(&self, pair: &Pair) -> &'a [u8] {
        self.bytes.get(pair.value.clone()).unwrap_or_default()
    }

    // A branch: type, count, checksums, pages, ends of keys, keys. One pointer more than keys.

    pub(super) fn child(&self, n: usize) -> Option<Pointer> {
        let (checksum, page) = (8 + 16 * n, 8 + 16 * (self.count + 1) + 8 * n);
        Some(Pointer {
            page: u64::from_le_bytes(self.bytes.get(page..page + 8)?.try_into().ok()?),
            checksum: u128::from_le_bytes(self.bytes.get(checksum..checksum + 16)?.try_into().ok()?),
        })
    }

    /// The greatest key that child `n` may have; the last one has no bound.
    pub(super) fn separator(&self, n: usize) -> Option<&'a [u8]> {
        let start = n.checked_sub(1).map_or(Some(self.separators_start()), |n| self.separator_end(n))?;
        self.bytes.get(start..self.separator_end(n)?)
    }

    fn separators_start(&self) -> usize {
        let table = if self.shape.key_bytes.is_none() { 4 * self.count } else { 0 };
        8 + POINTER_BYTES * (self.count + 1) + table
    }

    fn separator_end(&self, n: usize) -> Option<usize> {
        match self.shape.key_bytes {
            Some(width) => Some(self.separators_start() + width * (n + 1)),
            None => self.number(8 + POINTER_BYTES * (self.count + 1) + 4 * n),
        }
    }

    /// True when the offsets of the last entry can be: most wrong counts are found out by that.
    pub(super) fn is_possible(&self, as_branch: bool) -> bool {
        let Some(last) = self.count.checked_sub(1) else { return false };
        let (start, end) = if as_branch {
            (Some(self.separators_start()), self.separator_end(last))
        } else {
            (self.values_start().filter(|start| *start >= self.keys_start()), self.value_end(last))
        };
        start.zip(end).is_some_and(|(start, end)| start <= end && end <= self.bytes.len())
    }

    /// Most entries that a page of this size can have.
    pub(super) fn count_max(&self) -> usize {
        // An entry takes 8 bytes at least: two offsets, or a number and an offset.
        (self.bytes.len() / 8).min(usize::from(u16::MAX))
    }
}

/// How much may be hashed in search of an altered bit: some seconds' worth.
pub(super) const MENDING_BYTES: u64 = 16 << 30;
/// Larger pages take too long: the work grows with the square.
const MENDED_BYTES_MAX: usize = 16 << 10;

/// Looks for the one bit by which a page differs from its checksum, and turns it back. `budget` is
/// what may still be hashed. True when it was found.
pub(super) fn mend(bytes: &mut [u8], shape: Shape, checksum: u128, budget: &mut u64) -> bool {
    // The byte of the kind may be the altered one.
    let is_near = |kind: u8| bytes.first().is_some_and(|first| (first ^ kind).count_ones() <= 1);
    // Each bit of the page costs a hash of the whole page.
    let work = (bytes.len() as u64).pow(2) * 8;
    if bytes.len() > MENDED_BYTES_MAX || work > *budget || !(is_near(LEAF) || is_near(BRANCH)) {
        return false;
    }
    *budget -= work;
    for bit in 0..bytes.len() * 8 {
        let mask = 1 << (bit % 8);
        bytes[bit / 8] ^= mask;
        if Node::new(bytes, shape).checksum() == Some(checksum) {
            return true;
        }
        bytes[bit / 8] ^= mask;
    }
    false
}
