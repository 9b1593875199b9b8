//! The data file as pages: where one lies and what is in it. Reads only, and reads whatever is there:
//! a sector that the disk does not give is zeros. Must not know what a page means.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{Advice, fadvise};

/// The head, and the smallest page.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Pages lie in regions of this size, behind the head.
const REGION_BYTES: u64 = 4 << 30;
/// A page is `PAGE_BYTES << order` long. Larger ones than these 64 MiB are not written by this store.
const ORDER_MAX: u32 = 14;

/// Whole pages that slipped into the file and are looked behind.
const SLIPPED_PAGES_MAX: u64 = 16;

/// Number and checksum of a page, as a page above it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pointer {
    pub(super) page: u64,
    pub(super) checksum: u128,
}

impl Pointer {
    /// Where the page lies; `None` when there cannot be such a page.
    pub(super) fn place(self) -> Option<Extent> {
        // redb's page number: 5 bits of order, 20 of region, 20 of index, of which large pages use
        // fewer.
        let order = u32::try_from(self.page >> 59).ok()?;
        let index = self.page & (0x000f_ffff >> order);
        let region = (self.page >> 20) & 0x000f_ffff;
        let bytes = PAGE_BYTES << order;
        let offset = PAGE_BYTES + region * REGION_BYTES + index * bytes;
        (order <= ORDER_MAX).then_some(Extent { offset, bytes })
    }
}

/// A stretch of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Extent {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

pub(super) struct Pages {
    file: File,
    len: u64,
    is_uncached: bool,
}

impl Pages {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len, is_uncached: false })
    }

    /// The same, read from the disk each time, of a file that a writer may make longer meanwhile. What
    /// was written and is not there yet is read as it was written.
    pub(super) fn open_uncached(path: &Path) -> io::Result<Self> {
        Ok(Self { is_uncached: true, ..Self::open(path)? })
    }

    /// How far pages may lie behind their places, if bytes slipped in before them: the length of a whole file is a
    /// multiple of a page's.
    pub(super) fn slips(&self) -> impl Iterator<Item = u64> + use<> {
        let odd = self.len % PAGE_BYTES;
        (0..=SLIPPED_PAGES_MAX).map(move |pages| odd + pages * PAGE_BYTES).filter(|slip| *slip > 0)
    }

    /// Of the file.
    pub(super) fn len(&self) -> u64 {
        if !self.is_uncached {
            return self.len;
        }
        // A commit that came after the file was opened may have put pages behind the end of that time.
        self.file.metadata().map_or(self.len, |now| now.len())
    }

    /// What the file has of a place: less at its end, nothing behind it.
    pub(super) fn read(&self, place: Extent) -> Vec<u8> {
        let there = self.len().saturating_sub(place.offset).min(place.bytes);
        let mut bytes = vec![0; usize::try_from(there).unwrap_or(0)];
        if self.is_uncached {
            // Where that cannot be asked for, the kernel's copy is compared.
            let _ = fadvise(&self.file, place.offset, NonZeroU64::new(there), Advice::DontNeed);
        }
        if self.file.read_exact_at(&mut bytes, place.offset).is_err() {
            // A disk fails by sectors, and the other sectors of the page may be whole.
            for (part, offset) in bytes.chunks_mut(512).zip((place.offset..).step_by(512)) {
                if self.file.read_exact_at(part, offset).is_err() {
                    part.fill(0);
                }
            }
        }
        bytes
    }
}
