//! Files out of a tar archive, packed with gzip or not: the form in which support bundles travel. Owns that form and its
//! limits; must not know what the files mean.
//!
//! Source: POSIX.1-2001 `pax` (ustar and pax headers); GNU tar's long names.

use std::io::Read;
use std::path::Path;

use anyhow::bail;

const BLOCK: usize = 512;
/// More is not unpacked, kept or not.
const UNPACKED_MAX_BYTES: u64 = 4 << 30;
/// More is not kept: a small archive must not fill the memory.
const KEPT_MAX_BYTES: usize = 512 << 20;

/// Does the name of a file end as archives do?
pub fn is_archive(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_lowercase();
    [".tar.gz", ".tgz", ".tar"].iter().any(|end| name.ends_with(end))
}

/// Names and texts of the files in an archive for which `is_wanted` holds, in its order.
///
/// # Errors
/// It cannot be read, is cut off or is not an archive.
pub fn texts(path: &Path, is_wanted: impl Fn(&str) -> bool) -> anyhow::Result<Vec<(String, String)>> {
    let file = std::fs::File::open(path)?;
    let is_packed = !path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tar"));
    if is_packed {
        // A gzip file may have several members, as parallel packers write them; a plain decoder
        // ends behind the first.
        entries(flate2::read::MultiGzDecoder::new(file).take(UNPACKED_MAX_BYTES), is_wanted)
    } else {
        entries(file.take(UNPACKED_MAX_BYTES), is_wanted)
    }
}

fn entries(mut from: impl Read, is_wanted: impl Fn(&str) -> bool) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut room = KEPT_MAX_BYTES;
    let mut long_name: Option<String> = None;
    while let Some(header) = header(&mut from)? {
        // By ustar's layout the size stands at 124, and the kind of the entry at 156.
        let length = usize::try_from(number(&header[124..136])?)?;
        match header[156] {
            // A name for the next entry: of GNU's form, of pax's.
            b'L' => long_name = Some(text_of(&body(&mut from, length, &mut room)?)),
            b'x' => long_name = pax_path(&body(&mut from, length, &mut room)?).or(long_name),
            // Archives from before POSIX have a zero for a regular file.
            b'0' | 0 => {
                let name = long_name.take().unwrap_or_else(|| name(&header));
                if is_wanted(&name) {
                    let text = String::from_utf8(body(&mut from, length, &mut room)?);
                    let Ok(text) = text else { bail!("{name} in it is not a text") };
                    found.push((name, text));
                } else {
                    skip(&mut from, length.next_multiple_of(BLOCK))?;
                }
            }
            _ => {
                // The long name belongs to this entry, which is not a file.
                long_name = None;
                skip(&mut from, length.next_multiple_of(BLOCK))?;
            }
        }
    }
    Ok(found)
}

/// `None` at the end, which is an empty block or nothing.
fn header(from: &mut impl Read) -> anyhow::Result<Option<[u8; BLOCK]>> {
    let mut block = [0; BLOCK];
    let mut filled = 0;
    while filled < BLOCK {
        match from.read(&mut block[filled..])? {
            0 if filled == 0 => return Ok(None),
            0 => bail!("it is cut off"),
            read => filled += read,
        }
    }
    if block.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let own = number(&block[148..156])?;
    let sum = block
        .iter()
        .enumerate()
        // The sum was made with blanks in its own field.
        .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) });
    if own != sum.sum::<u64>() {
        bail!("it is not a tar archive");
    }
    Ok(Some(block))
}

/// Octal digits, ended by a blank or a zero.
fn number(field: &[u8]) -> anyhow::Result<u64> {
    let text = text_of(field);
    let Ok(number) = u64::from_str_radix(text.trim(), 8) else { bail!("it is not a tar archive") };
    Ok(number)
}

/// Up to the first zero.
fn text_of(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn name(header: &[u8; BLOCK]) -> String {
    let (name, prefix) = (text_of(&header[..100]), text_of(&header[345..500]));
    // Archives from before POSIX have no word here; GNU's own have a blank behind it, and times where POSIX has the
    // prefix.
    let has_prefix = header[257..263] == *b"ustar\0" && !prefix.is_empty();
    if has_prefix { format!("{prefix}/{name}") } else { name }
}

/// Lines of `LENGTH KEY=VALUE`.
fn pax_path(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let values = text.lines().filter_map(|line| line.split_once(' ')?.1.split_once('='));
    // Of a key that stands twice the last one counts.
    values.filter(|(key, _)| *key == "path").map(|(_, value)| value.to_owned()).next_back()
}

/// A file's bytes, for which there is room; what fills its last block is dropped.
fn body(from: &mut impl Read, length: usize, room: &mut usize) -> anyhow::Result<Vec<u8>> {
    // Before anything is read: the length is the archive's own claim.
    let Some(left) = room.checked_sub(length) else {
        bail!("it holds more than {} MiB of objects", KEPT_MAX_BYTES >> 20)
    };
    *room = left;
    let mut bytes = Vec::new();
    from.by_ref().take(length as u64).read_to_end(&mut bytes)?;
    // `take` ends without an error where the file ends.
    if bytes.len() < length {
        bail!("it is cut off");
    }
    skip(from, length.next_multiple_of(BLOCK) - length)?;
    Ok(bytes)
}

fn skip(from: &mut impl Read, length: usize) -> anyhow::Result<()> {
    let skipped = std::io::copy(&mut from.by_ref().take(length as u64), &mut std::io::sink())?;
    if skipped < length as u64 {
        bail!("it is cut off");
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Of files with these names and contents.
    pub(in super::super) fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let entries = files.iter().map(|(name, body)| entry(name, b'0', body));
        entries.chain([vec![0; 2 * BLOCK]]).collect::<Vec<_>>().concat()
    }

    /// An entry as tar writes it, with `kind` as its type.
    fn entry(name: &str, kind: u8, body: &[u8]) -> Vec<u8> {
        let mut header = [0_u8; BLOCK];
        header[..name.len().min(100)].copy_from_slice(&name.as_bytes()[..name.len().min(100)]);
        header[124..135].copy_from_slice(format!("{:011o}", body.len()).as_bytes());
        header[156] = kind;
        header[257..262].copy_from_slice(b"ustar");
        let mut bytes = summed(header.to_vec());
        bytes.extend_from_slice(body);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }

    /// With the sum that its header has now.
    fn summed(mut entry: Vec<u8>) -> Vec<u8> {
        entry[148..156].fill(b' ');
        let sum: u64 = entry[..BLOCK].iter().map(|byte| u64::from(*byte)).sum();
        entry[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        entry
    }

    #[test]
    fn a_name_has_the_prefix_of_posix_and_nothing_of_other_forms() {
        for (magic, behind, expected) in [
            (b"ustar\x0000", "", "a.yaml"),
            (b"ustar\x0000", "bundle/folder", "bundle/folder/a.yaml"),
            // Times of access and change.
            (b"ustar  \0", "14743560000\x0014743560001", "a.yaml"),
            (b"\0\0\0\0\0\0\0\0", "whatever", "a.yaml"),
        ] {
            let mut bytes = entry("a.yaml", b'0', b"a: 1");
            bytes[257..265].copy_from_slice(magic);
            bytes[345..345 + behind.len()].copy_from_slice(behind.as_bytes());
            let found = entries(summed(bytes).as_slice(), |_| true).expect("an archive");
            assert_eq!(found, [(expected.to_owned(), "a: 1".to_owned())]);
        }
    }

    #[test]
    fn files_of_every_form_are_found_and_damage_is_named() {
        let long = format!("{}/a.yaml", "folder".repeat(30));
        let pax = format!("{} path={long}\n", 10 + long.len());
        let archive = [
            entry("bundle/", b'5', b""),
            entry("bundle/a.yaml", b'0', b"a: 1"),
            entry("bundle/log.txt", b'0', &[b'x'; 700]),
            entry("././@LongLink", b'L', long.as_bytes()),
            entry(&long[..100], b'0', b"b: 2"),
            entry("pax", b'x', pax.as_bytes()),
            entry("short", 0, b"c: 3"),
            vec![0; 2 * BLOCK],
        ]
        .concat();
        let wanted = |name: &str| name.ends_with(".yaml");
        let found = entries(archive.as_slice(), wanted).expect("an archive");
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(found, [("bundle/a.yaml", "a: 1"), (long.as_str(), "b: 2"), (long.as_str(), "c: 3")]);
        let mut huge = entry("a.yaml", b'0', b"");
        huge[124..135].copy_from_slice(format!("{:011o}", KEPT_MAX_BYTES + 1).as_bytes());
        let huge = summed(huge);
        for (bytes, reason) in [
            (&archive[..700], "it is cut off"),
            (&archive[..1100], "it is cut off"),
            (&[b'x'; 600][..], "it is not a tar archive"),
            (&huge[..], "it holds more than 512 MiB of objects"),
        ] {
            assert_eq!(entries(bytes, wanted).expect_err("damaged").to_string(), reason);
        }
        assert!(entries(&archive[..0], wanted).expect("empty").is_empty());
    }
}
