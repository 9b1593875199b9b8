//! Keys that seal values: their names, and which of several is used. Must not know what is sealed, nor where keys are kept.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::cipher::{CipherError, KEY_BYTES, randomize};

pub(super) const ID_BYTES: usize = 8;

/// Names a key, and shows nothing of it: the beginning of its checksum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; ID_BYTES]);

impl KeyId {
    pub(super) fn of_bytes(bytes: [u8; ID_BYTES]) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }

    /// As a number that is never 0, which stands for no key.
    pub(crate) fn number(self) -> u64 {
        u64::from_be_bytes(self.0).max(1)
    }

    /// `None` for 0.
    pub(crate) fn of_number(number: u64) -> Option<Self> {
        (number > 0).then(|| Self(number.to_be_bytes()))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for KeyId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hexadecimal = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number =
            u64::from_str_radix(text, 16).ok().filter(|_| is_hexadecimal && text.len() == 2 * ID_BYTES);
        number.map(|number| Self(number.to_be_bytes())).ok_or("expected the 16 digits of a key's name")
    }
}

/// Several names, for sentences.
pub fn named(ids: &[KeyId]) -> String {
    ids.iter().map(KeyId::to_string).collect::<Vec<_>>().join(", ")
}

/// 256 bits that seal and open. Wiped when it is dropped; boxed, so that moving it leaves no copy behind.
pub(super) struct SealingKey {
    bytes: Box<Zeroizing<[u8; KEY_BYTES]>>,
    id: KeyId,
}

impl SealingKey {
    pub(super) fn random() -> Result<Self, CipherError> {
        let mut bytes = Box::new(Zeroizing::new([0; KEY_BYTES]));
        randomize(&mut bytes[..])?;
        Ok(Self::boxed(bytes))
    }

    /// `None`: it has another length.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let mut kept = Box::new(Zeroizing::new([0; KEY_BYTES]));
        if bytes.len() != kept.len() {
            return None;
        }
        kept.copy_from_slice(bytes);
        Some(Self::boxed(kept))
    }

    fn boxed(bytes: Box<Zeroizing<[u8; KEY_BYTES]>>) -> Self {
        // The words in front keep the checksum apart from any that somebody makes of the bare key.
        let digest = Sha256::new().chain_update("capstan key id").chain_update(&bytes[..]).finalize();
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&digest[..ID_BYTES]);
        Self { bytes, id: KeyId(id) }
    }

    pub(super) fn id(&self) -> KeyId {
        self.id
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }
}

/// The keys of one file: the first seals, all open.
pub struct Keyring {
    first: SealingKey,
    older: Vec<SealingKey>,
}

impl Keyring {
    /// One new key.
    ///
    /// # Errors
    /// The operating system gives no random numbers.
    pub fn generate() -> Result<Self, CipherError> {
        Ok(Self { first: SealingKey::random()?, older: Vec::new() })
    }

    /// `None`: there is not one.
    pub(super) fn of(keys: Vec<SealingKey>) -> Option<Self> {
        let mut keys = keys.into_iter();
        Some(Self { first: keys.next()?, older: keys.collect() })
    }

    pub(super) fn first(&self) -> &SealingKey {
        &self.first
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &SealingKey> {
        std::iter::once(&self.first).chain(&self.older)
    }

    pub(super) fn key(&self, id: KeyId) -> Option<&SealingKey> {
        self.keys().find(|key| key.id() == id)
    }

    /// Names of all keys, the first in front.
    pub fn ids(&self) -> Vec<KeyId> {
        self.keys().map(SealingKey::id).collect()
    }

    /// The name of the key that seals.
    pub fn newest(&self) -> KeyId {
        self.first.id()
    }

    /// Puts a new key in front.
    ///
    /// # Errors
    /// The operating system gives no random numbers; nothing is changed.
    pub fn rotate(&mut self) -> Result<(), CipherError> {
        let older = std::mem::replace(&mut self.first, SealingKey::random()?);
        self.older.insert(0, older);
        Ok(())
    }

    /// Drops all keys but the first. Returns the names of these.
    pub fn prune(&mut self) -> Vec<KeyId> {
        self.older.drain(..).map(|key| key.id()).collect()
    }
}

impl fmt::Debug for Keyring {
    /// Names only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({})", named(&self.ids()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_follows_from_the_key_and_shows_none_of_it() {
        let key = SealingKey::of(&[7; KEY_BYTES]).unwrap();
        assert_eq!(key.id(), SealingKey::of(&[7; KEY_BYTES]).unwrap().id());
        assert_ne!(key.id(), SealingKey::of(&[8; KEY_BYTES]).unwrap().id());
        assert_eq!(key.id().to_string().parse(), Ok(key.id()));
        assert_eq!(KeyId::of_number(key.id().number()), Some(key.id()));
        assert_eq!(KeyId::of_number(0), None);
        let shown = format!("{:?}", Keyring::of(vec![key]).unwrap());
        assert!(shown.len() == "Keyring()".len() + 16 && !shown.contains("0707"), "{shown}");
        assert!(SealingKey::of(&[7; 31]).is_none() && Keyring::of(Vec::new()).is_none());
        for text in
            ["", "0011", "00112233445566778", "001122334455667G", "+123456789abcdef", "ABCDEF0123456789"]
        {
            assert!(text.parse::<KeyId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_new_key_goes_in_front_and_only_the_first_stays() {
        let mut ring = Keyring::generate().unwrap();
        let one = ring.newest();
        ring.rotate().unwrap();
        let two = ring.newest();
        assert!(ring.ids() == [two, one] && one != two && ring.key(one).is_some());
        assert_eq!(ring.prune(), [one]);
        assert!(ring.ids() == [two] && ring.key(one).is_none());
    }
}
