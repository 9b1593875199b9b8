//! One object as a record of the data file, and one row of its log. Owns both forms and the checksum
//! of a record; must not know pages or tables.
//!
//! A record is: created, modified (8 bytes each, big-endian), [`SUMMED`], checksum (8 bytes,
//! little-endian), packed value. The checksum covers the key too. Pages have checksums of their own;
//! this one says which records of a damaged page are as they were written. Format 1 had neither the
//! mark nor the checksum: its packed value follows at once.

use xxhash_rust::xxh3::Xxh3;

use crate::{Blob, Change, Entry, Key};

/// Stands where format 1 has the tag of the packed value, and differs from every tag by more than one bit.
const SUMMED: u8 = 0xc5;

/// An entry as it was read.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) entry: Entry,
    /// Its checksum was compared. Format 1 had none.
    pub(super) is_summed: bool,
}

pub(super) fn encode_entry(entry: &Entry) -> Vec<u8> {
    let packed = entry.value.packed();
    let mut bytes = Vec::with_capacity(25 + packed.len());
    bytes.extend_from_slice(&entry.created.to_be_bytes());
    bytes.extend_from_slice(&entry.modified.to_be_bytes());
    let sum = checksum(entry.key.as_bytes(), &bytes, packed);
    bytes.push(SUMMED);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(packed);
    bytes
}

/// `None` when the bytes are not what was written for `key`, as far as the format can tell.
pub(super) fn decode_record(key: &Key, bytes: &[u8]) -> Option<Record> {
    let (revisions, rest) = bytes.split_first_chunk::<16>()?;
    let (packed, is_summed) = match rest.strip_prefix(&[SUMMED]) {
        None => (rest, false),
        Some(rest) => {
            let (sum, packed) = rest.split_first_chunk::<8>()?;
            if u64::from_le_bytes(*sum) != checksum(key.as_bytes(), revisions, packed) {
                return None;
            }
            (packed, true)
        }
    };
    let (created, modified) = revisions.split_first_chunk::<8>()?;
    let entry = Entry {
        key: key.clone(),
        created: u64::from_be_bytes(*created),
        modified: u64::from_be_bytes(modified.try_into().ok()?),
        value: Blob::from_packed(packed),
    };
    Some(Record { entry, is_summed })
}

pub(super) fn decode_entry(key: &Key, bytes: &[u8]) -> Option<Entry> {
    decode_record(key, bytes).map(|record| record.entry)
}

/// True when the bytes have a checksum and it is theirs.
pub(super) fn is_intact(key: &[u8], bytes: &[u8]) -> bool {
    let Some((revisions, rest)) = bytes.split_first_chunk::<16>() else { return false };
    let Some((sum, packed)) = rest.strip_prefix(&[SUMMED]).and_then(<[u8]>::split_first_chunk::<8>) else {
        return false;
    };
    u64::from_le_bytes(*sum) == checksum(key, revisions, packed)
}

/// True when a record may begin with these bytes.
pub(super) fn may_begin(bytes: &[u8]) -> bool {
    // No store reaches revisions above 2^48.
    let is_revision = |at: usize| bytes.get(at..at + 2) == Some(&[0, 0]);
    bytes.get(16) == Some(&SUMMED) && is_revision(0) && is_revision(8)
}

fn checksum(key: &[u8], revisions: &[u8], packed: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(revisions);
    // The length keeps bytes from moving between key and value under the same checksum.
    sum.update(&(key.len() as u64).to_le_bytes());
    sum.update(key);
    sum.update(packed);
    sum.digest()
}

/// The changes of one revision: each key, and what it held before.
pub(super) fn encode_row<'a>(changes: impl IntoIterator<Item = &'a std::sync::Arc<Change>>) -> Vec<u8> {
    let mut row = Vec::new();
    for change in changes {
        put_bytes(&mut row, change.key.as_bytes());
        let before = change.previous.as_ref().map(encode_entry).unwrap_or_default();
        put_bytes(&mut row, &before);
    }
    row
}

pub(super) fn decode_row(mut row: &[u8]) -> Option<Vec<(Key, Option<Entry>)>> {
    let mut group = Vec::new();
    while !row.is_empty() {
        let key: Key = std::str::from_utf8(take_bytes(&mut row)?).ok()?.into();
        let before = take_bytes(&mut row)?;
        // A record is never empty, so no bytes stand for a key that was not there.
        let previous = if before.is_empty() { None } else { Some(decode_entry(&key, before)?) };
        group.push((key, previous));
    }
    Some(group)
}

fn put_bytes(row: &mut Vec<u8>, bytes: &[u8]) {
    // Values come from requests of a few MiB, so the bound is never met.
    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    row.extend_from_slice(&size.to_be_bytes());
    row.extend_from_slice(bytes);
}

fn take_bytes<'a>(row: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (size, rest) = row.split_first_chunk::<4>()?;
    let (bytes, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*size)).ok()?)?;
    *row = rest;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry { key: "/a/key".into(), created: 3, modified: 7, value: Blob::pack(b"a value") }
    }

    #[test]
    fn every_altered_bit_of_a_record_or_its_key_is_noticed() {
        let (key, bytes) = (entry().key, encode_entry(&entry()));
        let read = decode_record(&key, &bytes).unwrap();
        assert_eq!((read.entry, read.is_summed), (entry(), true));
        assert!(decode_record(&"/a/kex".into(), &bytes).is_none());
        for bit in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            let read = decode_record(&key, &altered).filter(|read| read.is_summed);
            assert!(read.is_none() && !is_intact(key.as_bytes(), &altered), "bit {bit}");
        }
        for size in 0..bytes.len() {
            assert!(!is_intact(key.as_bytes(), &bytes[..size]), "cut at {size}");
        }
    }

    #[test]
    fn a_record_of_format_1_is_read_and_known_to_have_no_checksum() {
        let mut bytes = encode_entry(&entry());
        bytes.drain(16..25);
        let read = decode_record(&entry().key, &bytes).unwrap();
        assert_eq!((read.entry, read.is_summed), (entry(), false));
        assert!(!is_intact(entry().key.as_bytes(), &bytes));
    }
}
