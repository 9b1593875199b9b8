//! The file that keeps keys, and the passphrase that may protect it. Owns the text of the file; must not know what the keys seal,
//! nor where a passphrase comes from.
//!
//! A line that names the form, a line of advice, with a passphrase how a key is made from it, a line for each key (its name
//! and its bits, in clear or enciphered with the key of the passphrase), and a line with their number. The first key seals, all
//! of them open.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use argon2::{Algorithm, Argon2, Params};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use zeroize::Zeroizing;

use super::cipher::{CipherError, KEY_BYTES, decipher, encipher, randomize};
use super::key::{KeyId, Keyring, SealingKey};
use capstan_base::private_file::{self, FileError};

const FORM: &str = "capstan encryption keys, version ";
const VERSION: &str = "1";
const ADVICE: &str = "# The first key seals, all of them open. What they sealed cannot be read without this file: keep a copy elsewhere.";
const SALT_BYTES: usize = 16;
/// More is not written, and a file with more would only cost time.
const KEYS_MAX: usize = 100;

/// Why a key file cannot be used, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(
        "there is no key file {path}; check the path, or make one with: capstan encryption-key new {path}"
    )]
    Missing { path: String },
    #[error("{path} is there already; choose another name, or move it away")]
    Occupied { path: String },
    #[error("{path} is not a key file of capstan: its first line is not \"{FORM}{VERSION}\"")]
    Foreign { path: String },
    #[error("another version of capstan wrote the key file {path}; use that version")]
    Version { path: String },
    #[error("the key file {path} was altered or cut off: line {line}: {reason}. Use a copy of it")]
    Line { path: String, line: usize, reason: &'static str },
    #[error(
        "the passphrase does not open the key file {path}: it is another one, or the file was altered. Nothing was \
         changed"
    )]
    Passphrase { path: String },
    #[error(
        "the key file {path} is protected by a passphrase; name a file that holds it with --passphrase-file"
    )]
    Protected { path: String },
    #[error("the passphrase of the key file {path} needs {kib} KiB of memory, and there is not so much")]
    Memory { path: String, kib: u32 },
    #[error(
        "the key file {path} would hold {keys} keys, and at most {KEYS_MAX} are read; drop older ones first with: \
         capstan encryption-key prune {path} --data-dir DIR. Nothing was changed"
    )]
    TooMany { path: String, keys: usize },
    #[error("the key file {path} cannot be made: {source}")]
    Cipher { path: String, source: CipherError },
}

/// What somebody typed. Wiped when it is dropped, and never shown.
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// `None`: it is empty.
    pub fn of(text: Zeroizing<String>) -> Option<Self> {
        (!text.is_empty()).then_some(Self(text))
    }

    /// Whether both are the same.
    pub fn is(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }
}

/// How much work it is to try one passphrase, by argon2id.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Work {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    salt: [u8; SALT_BYTES],
}

impl Work {
    /// Source: RFC 9106, section 4, the second recommended option.
    fn recommended() -> Result<Self, CipherError> {
        let mut salt = [0; SALT_BYTES];
        randomize(&mut salt)?;
        Ok(Self { memory_kib: 64 << 10, passes: 3, lanes: 4, salt })
    }

    /// The key that a passphrase stands for. `None`: there is no memory for it.
    fn key_of(&self, passphrase: &Passphrase) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
        let params = Params::new(self.memory_kib, self.passes, self.lanes, Some(KEY_BYTES)).ok()?;
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        let argon2 = Argon2::new(Algorithm::Argon2id, argon2::Version::V0x13, params);
        argon2.hash_password_into(passphrase.0.as_bytes(), &self.salt, &mut key[..]).ok()?;
        Some(key)
    }

    fn line(&self) -> String {
        let Self { memory_kib, passes, lanes, salt } = self;
        let salt = BASE64.encode(salt);
        format!("passphrase argon2id memory={memory_kib} passes={passes} lanes={lanes} salt={salt}")
    }

    /// `None`: it was altered, or asks for more work than capstan ever would.
    fn parse(words: &[&str]) -> Option<Self> {
        let ["passphrase", "argon2id", memory, passes, lanes, salt] = words else { return None };
        let work = Self {
            memory_kib: number(memory, "memory=", 8..=1 << 20)?,
            passes: number(passes, "passes=", 1..=16)?,
            lanes: number(lanes, "lanes=", 1..=16)?,
            salt: BASE64.decode(salt.strip_prefix("salt=")?).ok()?.try_into().ok()?,
        };
        (work.memory_kib >= 8 * work.lanes).then_some(work)
    }
}

fn end_line(keys: usize) -> String {
    format!("end {keys}")
}

fn number(word: &str, name: &str, within: std::ops::RangeInclusive<u32>) -> Option<u32> {
    u32::from_str(word.strip_prefix(name)?).ok().filter(|number| within.contains(number))
}

/// One key as it stands in the file.
struct Kept {
    id: KeyId,
    is_enciphered: bool,
    bits: Zeroizing<Vec<u8>>,
    /// Its number in the file.
    line: usize,
}

/// A file as it was read. Its keys may still be closed.
pub struct KeyFile {
    path: PathBuf,
    work: Option<Work>,
    keys: Vec<Kept>,
}

impl KeyFile {
    /// # Errors
    /// [`KeyFileError`], also when others can read it.
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let text = private_file::read_secret(path)?.map(Zeroizing::new);
        let text = text.ok_or_else(|| KeyFileError::Missing { path: path.display().to_string() })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, KeyFileError> {
        let name = || path.display().to_string();
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        match first.strip_prefix(FORM) {
            None => return Err(KeyFileError::Foreign { path: name() }),
            Some(VERSION) => {}
            Some(_) => return Err(KeyFileError::Version { path: name() }),
        }
        let mut file = Self { path: path.to_owned(), work: None, keys: Vec::new() };
        let mut is_ended = false;
        for (index, line) in lines.enumerate() {
            let wrong = |reason| KeyFileError::Line { path: name(), line: index + 2, reason };
            if is_ended {
                return Err(wrong("it stands behind the end"));
            }
            is_ended = line == file.end();
            if !is_ended && !line.is_empty() && !line.starts_with('#') {
                file.take(line, index + 2).map_err(wrong)?;
            }
        }
        let ends = text.lines().count();
        let wrong = |reason| KeyFileError::Line { path: name(), line: ends, reason };
        // A key in clear in a protected file may be somebody else's, put there to be sealed with.
        if file.keys.iter().any(|key| key.is_enciphered != file.work.is_some()) {
            return Err(wrong("the lines of keys and of the passphrase do not fit"));
        }
        let is_whole = is_ended && text.ends_with('\n') && !file.keys.is_empty();
        if is_whole { Ok(file) } else { Err(wrong("its end is missing")) }
    }

    /// The last line, so that a file that lost keys is known.
    fn end(&self) -> String {
        end_line(self.keys.len())
    }

    fn take(&mut self, text: &str, line: usize) -> Result<(), &'static str> {
        let words: Vec<&str> = text.split(' ').collect();
        if words.first() == Some(&"passphrase") {
            let work = Work::parse(&words).ok_or("how the passphrase is used cannot be understood")?;
            return if self.work.replace(work).is_some() { Err("it comes twice") } else { Ok(()) };
        }
        let ["key", id, form @ ("plain" | "enciphered"), bits] = words[..] else {
            return Err("it cannot be understood");
        };
        let id: KeyId = id.parse()?;
        let bits = BASE64.decode(bits).map(Zeroizing::new).map_err(|_| "its key cannot be understood")?;
        if self.keys.iter().any(|key| key.id == id) {
            return Err("it comes twice");
        }
        if self.keys.len() == KEYS_MAX {
            return Err("there are too many keys");
        }
        self.keys.push(Kept { id, is_enciphered: form == "enciphered", bits, line });
        Ok(())
    }

    /// Whether it takes a passphrase to open it.
    pub fn is_protected(&self) -> bool {
        self.work.is_some()
    }

    /// The keys. A passphrase that is not needed is not looked at.
    ///
    /// # Errors
    /// [`KeyFileError`]: the passphrase is missing or another one, or the file was altered.
    pub fn open(&self, passphrase: Option<&Passphrase>) -> Result<Keyring, KeyFileError> {
        let path = || self.path.display().to_string();
        let wrapping = match (&self.work, passphrase) {
            (None, _) => None,
            (Some(_), None) => return Err(KeyFileError::Protected { path: path() }),
            (Some(work), Some(passphrase)) => {
                let lacking = || KeyFileError::Memory { path: path(), kib: work.memory_kib };
                Some((work.key_of(passphrase).ok_or_else(lacking)?, work.line()))
            }
        };
        let mut keys = Vec::new();
        for kept in &self.keys {
            let key = match &wrapping {
                None => SealingKey::of(&kept.bits),
                Some((wrapping, line)) => {
                    let bits = decipher(wrapping, &context(kept.id, line), &kept.bits);
                    let bits = bits.ok_or_else(|| KeyFileError::Passphrase { path: path() })?;
                    SealingKey::of(&bits)
                }
            };
            // Its name is made from its bits, so it is known when one of both was altered.
            let key = key.filter(|key| key.id() == kept.id);
            let reason = "a key and its name do not fit";
            keys.push(key.ok_or_else(|| KeyFileError::Line { path: path(), line: kept.line, reason })?);
        }
        Keyring::of(keys).ok_or_else(|| KeyFileError::Foreign { path: path() })
    }
}

/// What a key in the file is bound to: its name, and how the passphrase is used.
fn context(id: KeyId, work: &str) -> Vec<u8> {
    format!("capstan key {id} {work}").into_bytes()
}

/// Makes a key file where there is none.
///
/// # Errors
/// [`KeyFileError`].
pub fn create_key_file(
    path: &Path,
    ring: &Keyring,
    passphrase: Option<&Passphrase>,
) -> Result<(), KeyFileError> {
    if path.symlink_metadata().is_ok() {
        return Err(KeyFileError::Occupied { path: path.display().to_string() });
    }
    replace_key_file(path, ring, passphrase)
}

/// Puts these keys in the place of a key file, whole or not at all.
///
/// # Errors
/// [`KeyFileError`]; the old file is there then.
pub fn replace_key_file(
    path: &Path,
    ring: &Keyring,
    passphrase: Option<&Passphrase>,
) -> Result<(), KeyFileError> {
    let keys = ring.ids().len();
    if keys > KEYS_MAX {
        return Err(KeyFileError::TooMany { path: path.display().to_string(), keys });
    }
    let cannot = |source| KeyFileError::Cipher { path: path.display().to_string(), source };
    let text = match passphrase {
        None => text_of(path, ring, None)?,
        Some(passphrase) => text_of(path, ring, Some((&Work::recommended().map_err(cannot)?, passphrase)))?,
    };
    private_file::write(path, &text)?;
    Ok(())
}

fn text_of(
    path: &Path,
    ring: &Keyring,
    protection: Option<(&Work, &Passphrase)>,
) -> Result<Zeroizing<String>, KeyFileError> {
    let name = || path.display().to_string();
    let mut text = Zeroizing::new(String::with_capacity(4096));
    let _ = writeln!(text, "{FORM}{VERSION}\n{ADVICE}");
    let mut wrapping = None;
    if let Some((work, passphrase)) = protection {
        let lacking = || KeyFileError::Memory { path: name(), kib: work.memory_kib };
        let _ = writeln!(text, "{}", work.line());
        wrapping = Some((work.key_of(passphrase).ok_or_else(lacking)?, work.line()));
    }
    for key in ring.keys() {
        let (form, bits) = match &wrapping {
            None => ("plain", Zeroizing::new(BASE64.encode(key.bytes()))),
            Some((wrapping, line)) => {
                let enciphered = encipher(wrapping, &context(key.id(), line), key.bytes());
                let enciphered =
                    enciphered.map_err(|source| KeyFileError::Cipher { path: name(), source })?;
                ("enciphered", Zeroizing::new(BASE64.encode(enciphered)))
            }
        };
        let _ = writeln!(text, "key {} {form} {}", key.id(), *bits);
    }
    let _ = writeln!(text, "{}", end_line(ring.keys().count()));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::of(Zeroizing::new(text.to_owned())).unwrap()
    }

    /// Cheap, so that many can be tried.
    fn work() -> Work {
        Work { memory_kib: 64, passes: 1, lanes: 2, salt: [3; SALT_BYTES] }
    }

    fn ring() -> Keyring {
        let mut ring = Keyring::generate().unwrap();
        ring.rotate().unwrap();
        ring
    }

    fn opened(text: &str, passphrase: Option<&Passphrase>) -> Result<Keyring, KeyFileError> {
        KeyFile::parse(Path::new("keys"), text)?.open(passphrase)
    }

    fn same(one: &Keyring, other: &Keyring) -> bool {
        one.keys().map(SealingKey::bytes).eq(other.keys().map(SealingKey::bytes)) && one.ids() == other.ids()
    }

    #[test]
    fn keys_come_back_with_and_without_a_passphrase() {
        let (ring, right) = (ring(), passphrase("correct horse"));
        let plain = text_of(Path::new("keys"), &ring, None).unwrap();
        assert!(same(&opened(&plain, None).unwrap(), &ring));
        assert!(same(&opened(&plain, Some(&right)).unwrap(), &ring));
        let closed = text_of(Path::new("keys"), &ring, Some((&work(), &right))).unwrap();
        assert!(same(&opened(&closed, Some(&right)).unwrap(), &ring));
        for key in ring.keys() {
            assert!(
                plain.contains(&BASE64.encode(key.bytes())) && !closed.contains(&BASE64.encode(key.bytes()))
            );
        }
        let refused = opened(&closed, Some(&passphrase("correct  horse"))).unwrap_err().to_string();
        assert!(
            refused.starts_with("the passphrase does not open the key file keys: it is another one"),
            "{refused}"
        );
        let refused = opened(&closed, None).unwrap_err().to_string();
        assert!(
            refused.contains("is protected by a passphrase") && refused.contains("--passphrase-file"),
            "{refused}"
        );
        assert!(Passphrase::of(Zeroizing::new(String::new())).is_none());
    }

    /// Whatever byte is altered, no other key comes out of it: the same keys, or a refusal.
    #[test]
    fn an_altered_file_gives_no_other_keys() {
        let (ring, right) = (ring(), passphrase("p"));
        for protection in [None, Some((&work(), &right))] {
            let text = text_of(Path::new("keys"), &ring, protection).unwrap();
            for at in 0..text.len() {
                let mut altered = text.as_bytes().to_vec();
                altered[at] ^= 1;
                let Ok(altered) = String::from_utf8(altered) else { continue };
                if let Ok(other) = opened(&altered, Some(&right)) {
                    assert!(same(&other, &ring), "byte {at}: {altered}");
                }
            }
            for end in 0..text.len() {
                assert!(opened(&text[..end], Some(&right)).is_err(), "cut at {end}");
            }
        }
    }

    #[test]
    fn what_is_not_a_key_file_is_refused_with_its_line() {
        let key = |n: u8| {
            let key = SealingKey::of(&[n; KEY_BYTES]).unwrap();
            format!("key {} plain {}\n", key.id(), BASE64.encode(key.bytes()))
        };
        let head = format!("{FORM}{VERSION}\n");
        let many: String = (0..=u8::try_from(KEYS_MAX).unwrap()).map(key).collect();
        let work = work().line();
        for (text, words) in [
            (
                String::new(),
                "is not a key file of capstan: its first line is not \"capstan encryption keys, version 1\"",
            ),
            ("-----BEGIN PRIVATE KEY-----\n".to_owned(), "is not a key file of capstan"),
            (format!("{FORM}2\n{}", key(1)), "another version of capstan wrote the key file"),
            (head.clone(), "line 1: its end is missing"),
            (format!("{head}\n# note\n"), "line 3: its end is missing"),
            (format!("{head}{}", key(1)), "line 2: its end is missing"),
            (format!("{head}end 0\n"), "line 2: its end is missing"),
            (format!("{head}{}end 1\n{}", key(1), key(2)), "line 4: it stands behind the end"),
            (format!("{head}{}end 2\n", key(1)), "line 3: it cannot be understood"),
            (format!("{head}{}{}", key(1), key(1)), "line 3: it comes twice"),
            (format!("{head}{many}"), "line 102: there are too many keys"),
            (format!("{head}key 00 plain AAAA\n"), "line 2: expected the 16 digits"),
            (format!("{head}key 0011223344556677 plain ????\n"), "line 2: its key cannot be understood"),
            (
                format!("{head}key 0011223344556677 plain AAAA\nend 1\n"),
                "line 2: a key and its name do not fit",
            ),
            (format!("{head}lock x\n"), "line 2: it cannot be understood"),
            (
                format!("{head}{work}\n{}end 1\n", key(1)),
                "the lines of keys and of the passphrase do not fit",
            ),
            (format!("{head}{work}\n{work}\n"), "line 3: it comes twice"),
            (
                format!("{head}{}\n", work.replace("memory=64", "memory=4194304")),
                "line 2: how the passphrase is used",
            ),
            (format!("{head}{}\n", work.replace("lanes=2", "lanes=9")), "line 2: how the passphrase is used"),
        ] {
            let refused = opened(&text, None).unwrap_err().to_string();
            assert!(refused.contains(words), "{text}: {refused}");
        }
    }

    #[test]
    fn a_file_is_private_is_made_once_and_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (path, ring) = (folder.path().join("keys"), ring());
        let missing = KeyFile::read(&path).err().unwrap().to_string();
        assert!(missing.contains("capstan encryption-key new "), "{missing}");
        create_key_file(&path, &ring, None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert!(same(&KeyFile::read(&path).unwrap().open(None).unwrap(), &ring));
        let occupied = create_key_file(&path, &ring, None).unwrap_err().to_string();
        assert!(occupied.contains("is there already"), "{occupied}");
        let right = passphrase("p");
        replace_key_file(&path, &ring, Some(&right)).unwrap();
        let file = KeyFile::read(&path).unwrap();
        assert!(file.is_protected() && same(&file.open(Some(&right)).unwrap(), &ring));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = KeyFile::read(&path).err().unwrap().to_string();
        assert!(refused.contains("others can read") && refused.contains("chmod 0600 "), "{refused}");
    }

    /// What is written is read again, up to the last key that fits.
    #[test]
    fn more_keys_than_are_read_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut ring) = (folder.path().join("keys"), Keyring::generate().unwrap());
        while ring.ids().len() < KEYS_MAX {
            ring.rotate().unwrap();
        }
        create_key_file(&path, &ring, None).unwrap();
        assert!(same(&KeyFile::read(&path).unwrap().open(None).unwrap(), &ring));
        let before = fs::read(&path).unwrap();
        ring.rotate().unwrap();
        let refused = replace_key_file(&path, &ring, None).unwrap_err().to_string();
        assert!(
            refused.contains("would hold 101 keys") && refused.contains("encryption-key prune"),
            "{refused}"
        );
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}
