//! A sealed value as it is kept: how it begins, which key opens it, and what it is bound to. Must not know where it is kept.
//!
//! [`MAGIC`], [`VERSION`], the key's name (8 bytes), the nonce (24), then the enciphered value with its tag (16). The head and
//! the name of the value are authenticated with it: a value that was moved to another name does not open. It is not packed
//! before: its length would depend on what is in it, and its weight would not be known.

use bytes::Bytes;

use super::cipher::{CIPHER_OVERHEAD, CipherError, decipher, encipher};
use super::key::{ID_BYTES, KeyId, Keyring};
use crate::Blob;

/// No object begins so: JSON does not, and what the API server keeps has a brace in the place of the `s`.
const MAGIC: &[u8] = b"capstan:sealed:";
/// The only one so far.
const VERSION: &[u8] = b"1:";
const HEAD_BYTES: usize = MAGIC.len() + VERSION.len() + ID_BYTES;
/// How much longer a value is once it is sealed.
pub(crate) const SEALED_OVERHEAD: usize = HEAD_BYTES + CIPHER_OVERHEAD;

/// Why a sealed value cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    #[error("another version of capstan sealed it")]
    Version,
    #[error("it is cut off")]
    Cut,
    #[error("it is sealed with key {0}, which is not in the key file")]
    UnknownKey(KeyId),
    #[error("it was altered, or moved here from another name")]
    Altered,
    /// In clear, and not an object.
    #[error("it is neither sealed nor an object")]
    Foreign,
}

/// True of whatever a version of capstan sealed, whether it opens or not.
pub fn is_sealed(value: &[u8]) -> bool {
    value.starts_with(MAGIC)
}

/// The same of a value as it is kept.
pub(super) fn is_sealed_blob(value: &Blob) -> bool {
    value.begins_with(MAGIC)
}

/// The key that is needed to open a sealed value.
pub(super) fn key_of(value: &[u8]) -> Result<KeyId, NotOpened> {
    let rest = value.strip_prefix(MAGIC).ok_or(NotOpened::Foreign)?;
    // A value that ends within the version is cut off, not of another version.
    if rest.len() < VERSION.len() {
        return Err(NotOpened::Cut);
    }
    let rest = rest.strip_prefix(VERSION).ok_or(NotOpened::Version)?;
    let (id, text) = rest.split_first_chunk::<ID_BYTES>().ok_or(NotOpened::Cut)?;
    if text.len() < CIPHER_OVERHEAD { Err(NotOpened::Cut) } else { Ok(KeyId::of_bytes(*id)) }
}

/// `None`: it is not sealed, or not by this version.
pub(crate) fn key_of_value(value: &[u8]) -> Option<KeyId> {
    key_of(value).ok()
}

impl Keyring {
    /// Seals the value of `name` with the first key.
    ///
    /// # Errors
    /// The operating system gives no random numbers.
    pub fn seal(&self, name: &str, value: &[u8]) -> Result<Bytes, CipherError> {
        let key = self.first();
        let head = [MAGIC, VERSION, key.id().bytes()].concat();
        let sealed = encipher(key.bytes(), &context(&head, name), value)?;
        Ok([head, sealed].concat().into())
    }

    /// Opens what was sealed for `name`.
    ///
    /// # Errors
    /// [`NotOpened`].
    pub fn open(&self, name: &str, sealed: &[u8]) -> Result<Bytes, NotOpened> {
        let id = key_of(sealed)?;
        let key = self.key(id).ok_or(NotOpened::UnknownKey(id))?;
        let (head, text) = sealed.split_at_checked(HEAD_BYTES).ok_or(NotOpened::Cut)?;
        let value = decipher(key.bytes(), &context(head, name), text).ok_or(NotOpened::Altered)?;
        Ok(Bytes::copy_from_slice(&value))
    }
}

/// The head has always the same length, so no byte can move between it and the name.
fn context(head: &[u8], name: &str) -> Vec<u8> {
    [head, name.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAME: &str = "/registry/secrets/default/a";

    #[test]
    fn a_value_opens_with_any_key_of_the_file_and_under_its_name() {
        let mut ring = Keyring::generate().unwrap();
        let sealed = ring.seal(NAME, b"a value").unwrap();
        assert!(is_sealed(&sealed) && sealed.len() == b"a value".len() + SEALED_OVERHEAD);
        assert_eq!(key_of(&sealed), Ok(ring.newest()));
        assert_eq!(ring.open(NAME, &sealed).unwrap(), "a value");
        ring.rotate().unwrap();
        assert_eq!(ring.open(NAME, &sealed).unwrap(), "a value");
        let (dropped, other) = (ring.prune()[0], ring.seal(NAME, b"a value").unwrap());
        assert_eq!(ring.open(NAME, &sealed), Err(NotOpened::UnknownKey(dropped)));
        assert_eq!(key_of(&other), Ok(ring.newest()));
    }

    #[test]
    fn what_was_altered_moved_cut_or_made_by_others_does_not_open() {
        let ring = Keyring::generate().unwrap();
        let (one, two) =
            (ring.seal(NAME, b"one").unwrap(), ring.seal("/registry/secrets/default/b", b"two").unwrap());
        // Each bit of each byte: head, version, name of the key, nonce, text, tag.
        for bit in 0..one.len() * 8 {
            let mut altered = one.to_vec();
            altered[bit / 8] ^= 1 << (bit % 8);
            let refused = ring.open(NAME, &altered).unwrap_err();
            let at = bit / 8;
            let because = match refused {
                NotOpened::Foreign => at < MAGIC.len(),
                NotOpened::Version => (MAGIC.len()..MAGIC.len() + VERSION.len()).contains(&at),
                NotOpened::UnknownKey(_) => (HEAD_BYTES - ID_BYTES..HEAD_BYTES).contains(&at),
                NotOpened::Altered => at >= HEAD_BYTES,
                NotOpened::Cut => false,
            };
            assert!(because, "bit {bit}: {refused}");
        }
        for end in MAGIC.len()..one.len() {
            let refused = ring.open(NAME, &one[..end]).unwrap_err();
            assert!(matches!(refused, NotOpened::Cut | NotOpened::Altered), "cut at {end}: {refused}");
        }
        for (name, value, why) in [
            (NAME, &two[..], NotOpened::Altered),
            ("/registry/secrets/default/", &one, NotOpened::Altered),
            ("/registry/secrets/default/aa", &one, NotOpened::Altered),
            (NAME, b"capstan:sealed:2:01234567", NotOpened::Version),
            (NAME, b"{\"kind\":\"Secret\"}", NotOpened::Foreign),
            (NAME, b"", NotOpened::Foreign),
        ] {
            assert_eq!(ring.open(name, value), Err(why), "{name}");
        }
        let longer = [&one[..], b"x"].concat();
        assert_eq!(ring.open(NAME, &longer), Err(NotOpened::Altered));
    }

    /// That two Secrets are equal cannot be seen in the file.
    #[test]
    fn equal_values_are_sealed_to_different_bytes() {
        let ring = Keyring::generate().unwrap();
        let sealed = |value: &[u8]| ring.seal(NAME, value).unwrap()[HEAD_BYTES..].to_vec();
        assert_ne!(sealed(b"x"), sealed(b"x"));
    }

    proptest! {
        #[test]
        fn sealed_and_opened_is_the_same(name in "[ -~]{0,80}", value in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            let ring = Keyring::generate().unwrap();
            let sealed = ring.seal(&name, &value).unwrap();
            prop_assert_eq!(sealed.len(), value.len() + SEALED_OVERHEAD);
            prop_assert_eq!(ring.open(&name, &sealed).unwrap(), value);
            prop_assert!(Keyring::generate().unwrap().open(&name, &sealed).is_err());
        }

        #[test]
        fn bytes_of_anybody_do_not_open_and_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let ring = Keyring::generate().unwrap();
            prop_assert!(ring.open(NAME, &bytes).is_err());
            prop_assert!(ring.open(NAME, &[MAGIC, VERSION, ring.newest().bytes(), &bytes].concat()).is_err());
        }
    }
}
