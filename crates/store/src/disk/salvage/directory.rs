//! Where the trees of the store begin, as of one commit: the content of the topmost page.
//! Knows redb's head and its table definitions, and the names of the store's tables.

use super::node::{Node, Shape};
use super::pages::{Extent, PAGE_BYTES, Pages, Pointer};
use super::pairs::Proof;
use super::span::Span;
use super::tree::{Seen, Tree, Walker};
use crate::disk::file::{LOG_NAME, META_NAME, OBJECTS_NAME, SEALED_WITH};
use crate::{KeyId, Revision};
use xxhash_rust::xxh3::xxh3_128;

/// Keys and values of any length.
pub(super) const OPEN_SHAPE: Shape = Shape { key_bytes: None, value_bytes: None };
const OBJECTS_SHAPE: Shape = OPEN_SHAPE;
pub(super) const LOG_SHAPE: Shape = Shape { key_bytes: Some(8), value_bytes: None };
const META_SHAPE: Shape = Shape { key_bytes: None, value_bytes: Some(8) };

/// Keys and values that are numbers carry no evidence that they are intact.
const NO_PROOF: Proof = Proof { is_intact: |_, _| false, may_begin: |_| false };

/// Bytes of the head that are in use, and where its two commit slots are.
const HEAD_BYTES: u64 = 320;
const SLOTS: [usize; 2] = [64, 192];
const SLOT_BYTES: usize = 128;
/// In front of a slot's own checksum.
const SLOT_SUMMED_BYTES: usize = SLOT_BYTES - 16;

/// The trees of one commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Directory {
    pub(super) objects: Option<Tree>,
    pub(super) log: Option<Tree>,
    pub(super) revision: Option<Revision>,
    /// Changes above this one are in the log.
    pub(super) compacted: Option<Revision>,
    /// The key with which the values are sealed.
    pub(super) sealed_with: Option<KeyId>,
}

/// What the file's header holds of one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) commit: u64,
    pub(super) tables: Option<Pointer>,
    pub(super) system: Option<Pointer>,
    /// The slot's own checksum holds.
    pub(super) is_whole: bool,
    pub(super) is_primary: bool,
}

/// The commit slots, the newer one first. One that is whole goes before one that is not.
pub(super) fn slots(pages: &Pages) -> Vec<Slot> {
    let head = pages.read(Extent { offset: 0, bytes: HEAD_BYTES });
    let mut slots: Vec<Slot> = SLOTS.iter().filter_map(|at| slot(&head, *at)).collect();
    slots.sort_by_key(|slot| std::cmp::Reverse((slot.is_whole, slot.commit)));
    slots
}

fn slot(head: &[u8], at: usize) -> Option<Slot> {
    let bytes = head.get(at..at + SLOT_BYTES)?;
    let (summed, sum) = bytes.split_at(SLOT_SUMMED_BYTES);
    // Bit 0 of redb's "god byte" names the primary slot.
    let is_second = head.get(9)? & 1 == 1;
    Some(Slot {
        commit: number(bytes, 104)?,
        tables: pointer(bytes, 1, 8),
        system: pointer(bytes, 2, 40),
        is_whole: xxh3_128(summed).to_le_bytes() == sum,
        is_primary: (at != SLOTS[0]) == is_second,
    })
}

/// A pointer behind a byte that says whether there is one.
fn pointer(bytes: &[u8], flag: usize, at: usize) -> Option<Pointer> {
    let is_there = *bytes.get(flag)? != 0;
    let checksum = bytes.get(at + 8..at + 24)?.try_into().ok()?;
    let pointer = Pointer { page: number(bytes, at)?, checksum: u128::from_le_bytes(checksum) };
    is_there.then_some(pointer)
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A table's definition: kind, length, root, fixed lengths of keys and values; its types follow.
pub(super) fn definition(bytes: &[u8]) -> Option<Tree> {
    let width = |at: usize| -> Option<Option<usize>> {
        let width = u32::from_le_bytes(bytes.get(at + 1..at + 5)?.try_into().ok()?);
        Some((*bytes.get(at)? != 0).then_some(usize::try_from(width).ok()?))
    };
    let shape = Shape { key_bytes: width(42)?, value_bytes: width(47)? };
    Some(Tree { root: pointer(bytes, 9, 10)?, shape, length: number(bytes, 1)? })
}

impl Directory {
    /// From a page with table definitions. From a page that is not known to be as it was written,
    /// only trees whose roots are there.
    pub(super) fn of_page(walker: &mut Walker<'_>, page: &[u8], is_whole: bool) -> Option<Self> {
        let mut directory = Self::default();
        let mut meta = None;
        let node = Node::new(page, OPEN_SHAPE);
        // The count on a damaged page may be any number.
        for pair in (0..node.count.min(node.count_max())).filter_map(|n| node.pair(n)) {
            let (name, Some(tree)) = (node.key(&pair), definition(node.value(&pair))) else { continue };
            let (place, shape) = match std::str::from_utf8(name) {
                Ok(OBJECTS_NAME) => (&mut directory.objects, OBJECTS_SHAPE),
                Ok(LOG_NAME) => (&mut directory.log, LOG_SHAPE),
                Ok(META_NAME) => (&mut meta, META_SHAPE),
                _ => continue,
            };
            if is_whole || walker.is_there(tree.root, shape) {
                // The shape is the one that this store gives its tables; the definition's own may
                // be altered.
                *place = Some(Tree { shape, ..tree });
            }
        }
        if let Some(meta) = meta {
            walker.walk(meta, &Span::default(), NO_PROOF, &mut |seen| {
                let Seen::Pair(name, value) = seen else { return };
                match std::str::from_utf8(name) {
                    Ok("revision") => directory.revision = number(value, 0),
                    Ok("compacted") => directory.compacted = number(value, 0),
                    Ok(SEALED_WITH) => directory.sealed_with = number(value, 0).and_then(KeyId::of_number),
                    _ => {}
                }
            });
        }
        directory.objects.is_some().then_some(directory)
    }

    /// The directory that a commit slot names.
    pub(super) fn of_slot(walker: &mut Walker<'_>, slot: Slot) -> Option<Self> {
        let pointer = slot.tables?;
        match walker.read(pointer, OPEN_SHAPE) {
            Ok(page) => Self::of_page(walker, &page, true),
            // The slot holds, so this is where the page was, and what is left of it is worth
            // reading.
            Err(page) if slot.is_whole => Self::of_page(walker, &page, false),
            // The slot may be altered itself, so its pointer may lead anywhere.
            Err(_) => None,
        }
    }
}

/// True when a leaf has the names of the store's tables, so that it may be a directory.
pub(super) fn is_directory(node: Node<'_>) -> bool {
    let names = [OBJECTS_NAME, LOG_NAME, META_NAME].map(str::as_bytes);
    let keys = (0..node.count).map(|n| node.pair(n).map(|pair| node.key(&pair)));
    node.is_leaf()
        && node.count <= names.len()
        && node.bytes.len() as u64 <= PAGE_BYTES
        && keys.into_iter().all(|key| key.is_some_and(|key| names.contains(&key)))
}
