//! One object as a record of the data file, and one row of its log. Owns both forms and the checksum
//! of a record; must not know pages or tables.
//!
//! A record is: created, modified (8 bytes each, big-endian), [`SUMMED`], checksum (8 bytes,
//! little-endian), packed value. The checksum covers the key too. Pages have checksums of their own;
//! this one says which records of a damaged page are as they were written. Format 1 had neither the
//! mark nor the checksum: its packed value follows at once.

use xxhash_rust::xxh3::Xxh3;

use crate::store::{Blob, Change, Entry, Key};

/// Stands where format 1 has the tag of the packed value, and differs from every tag by more than one bit.
const SUMMED: u8 = 0xc5;

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
pub(super) fn decode_entry(key: &Key, bytes: &[u8]) -> Option<Entry> {
    let (revisions, rest) = bytes.split_first_chunk::<16>()?;
    let packed = match rest.strip_prefix(&[SUMMED]) {
        None => rest,
        Some(rest) => {
            let (sum, packed) = rest.split_first_chunk::<8>()?;
            if u64::from_le_bytes(*sum) != checksum(key.as_bytes(), revisions, packed) {
                return None;
            }
            packed
        }
    };
    let (created, modified) = revisions.split_first_chunk::<8>()?;
    Some(Entry {
        key: key.clone(),
        created: u64::from_be_bytes(*created),
        modified: u64::from_be_bytes(modified.try_into().ok()?),
        value: Blob::from_packed(packed),
    })
}

fn checksum(key: &[u8], revisions: &[u8], packed: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(revisions);
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
        let previous = if before.is_empty() { None } else { Some(decode_entry(&key, before)?) };
        group.push((key, previous));
    }
    Some(group)
}

fn put_bytes(row: &mut Vec<u8>, bytes: &[u8]) {
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
        assert_eq!(decode_entry(&key, &bytes), Some(entry()));
        assert!(decode_entry(&"/a/kex".into(), &bytes).is_none());
        for bit in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            let read = decode_entry(&key, &altered).and_then(|entry| entry.value.unpack().ok());
            assert!(read.is_none(), "bit {bit}");
        }
    }

    #[test]
    fn a_record_of_format_1_has_no_checksum_and_is_read() {
        let mut bytes = encode_entry(&entry());
        bytes.drain(16..25);
        assert_eq!(decode_entry(&entry().key, &bytes), Some(entry()));
    }
}
