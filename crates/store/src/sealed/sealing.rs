//! Which values of a store are sealed, with which keys, and what one of them turns out to be. Must not know where they are kept.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::cipher::CipherError;
use super::key::{KeyId, Keyring, named};
use super::value::{NotOpened, is_sealed, is_sealed_blob, key_of};
use crate::{Blob, Key};

/// Which values are sealed.
#[derive(Clone, Copy)]
pub struct Coverage {
    /// Those of keys that begin so.
    pub prefixes: &'static [&'static str],
    /// Asked of a value in clear: was it stored so before there was a key? What is neither that nor sealed is nobody's.
    pub is_value: fn(&Bytes) -> bool,
}

impl fmt::Debug for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Coverage({})", self.prefixes.join(", "))
    }
}

/// A store is encrypted, and the key that is needed is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error(
        "{place} is encrypted with key {needed}, and no key file was named. Nothing was changed; name the file that \
         holds this key with --encryption-key FILE"
    )]
    Missing { place: String, needed: String },
    #[error(
        "{place} is encrypted with key {needed}, and the key file holds {held}. Nothing was changed; name the key \
         file that was used before, or a copy of it, with --encryption-key FILE"
    )]
    Wrong { place: String, needed: String, held: String },
}

/// What a value turned out to be.
pub(crate) enum ValueState {
    /// Sealed with the first key.
    Newest(Bytes),
    Older(Bytes),
    Clear(Bytes),
    Closed(NotOpened),
}

/// How many values of a store are what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Sealed with the first key of the file.
    pub newest: usize,
    /// Sealed with another key of the file.
    pub older: usize,
    pub clear: usize,
    /// Those that cannot be read, and why.
    pub closed: Vec<(Key, NotOpened)>,
}

impl Census {
    pub(crate) fn count(&mut self, key: &Key, state: &ValueState) {
        match state {
            ValueState::Newest(_) => self.newest += 1,
            ValueState::Older(_) => self.older += 1,
            ValueState::Clear(_) => self.clear += 1,
            ValueState::Closed(why) => self.closed.push((key.clone(), *why)),
        }
    }

    /// Values that a key opened.
    pub fn opened(&self) -> usize {
        self.newest + self.older
    }

    /// The keys that are needed and not there, with the number of their values.
    pub fn needed(&self) -> BTreeMap<KeyId, usize> {
        let mut needed = BTreeMap::new();
        for (_, why) in &self.closed {
            if let NotOpened::UnknownKey(id) = why {
                *needed.entry(*id).or_default() += 1;
            }
        }
        needed
    }
}

/// What seals and opens the values of a store. Without keys nothing is sealed, and what is sealed stays closed.
#[derive(Clone, Debug)]
pub struct Sealing {
    coverage: Coverage,
    ring: Option<Arc<Keyring>>,
}

impl Sealing {
    pub fn new(coverage: Coverage, ring: Option<Keyring>) -> Self {
        Self { coverage, ring: ring.map(Arc::new) }
    }

    /// Seals nothing.
    pub fn none() -> Self {
        Self::new(Coverage { prefixes: &[], is_value: |_| true }, None)
    }

    pub fn ring(&self) -> Option<&Keyring> {
        self.ring.as_deref()
    }

    /// The name of the key that seals.
    pub fn newest(&self) -> Option<KeyId> {
        self.ring().map(Keyring::newest)
    }

    pub(crate) fn covers(&self, key: &str) -> bool {
        self.coverage.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }

    /// The prefixes whose values are sealed.
    pub(crate) fn prefixes(&self) -> &'static [&'static str] {
        self.coverage.prefixes
    }

    /// Whether some key under a prefix may be covered.
    pub(super) fn touches(&self, prefix: &str) -> bool {
        self.coverage.prefixes.iter().any(|own| own.starts_with(prefix) || prefix.starts_with(own))
    }

    /// The value as it is kept.
    pub(crate) fn seal(&self, key: &str, value: Bytes) -> Result<Bytes, CipherError> {
        match &self.ring {
            Some(ring) if self.covers(key) => ring.seal(key, &value),
            _ => Ok(value),
        }
    }

    /// Whether the value is shown as it is kept, so that nothing has to be opened.
    pub(super) fn leaves(&self, key: &str, value: &Blob) -> bool {
        !self.covers(key) || self.ring.is_none() && !is_sealed_blob(value)
    }

    /// What the value of a covered key is.
    pub(crate) fn state(&self, key: &str, value: &Blob) -> ValueState {
        let Ok(bytes) = value.unpack() else { return ValueState::Closed(NotOpened::Altered) };
        if !is_sealed(&bytes) {
            // Without keys nothing is expected to be sealed, so nothing is judged.
            let is_value = self.ring.is_none() || (self.coverage.is_value)(&bytes);
            return if is_value { ValueState::Clear(bytes) } else { ValueState::Closed(NotOpened::Foreign) };
        }
        let opened = match &self.ring {
            Some(ring) => ring.open(key, &bytes).map(|value| (value, key_of(&bytes) == Ok(ring.newest()))),
            None => key_of(&bytes).and_then(|id| Err(NotOpened::UnknownKey(id))),
        };
        match opened {
            Ok((value, true)) => ValueState::Newest(value),
            Ok((value, false)) => ValueState::Older(value),
            Err(why) => ValueState::Closed(why),
        }
    }

    /// Refuses a place that was encrypted with keys of which none is here.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn check(&self, place: &str, needed: &[KeyId]) -> Result<(), KeyError> {
        if needed.is_empty()
            || needed.iter().any(|id| self.ring().is_some_and(|ring| ring.key(*id).is_some()))
        {
            return Ok(());
        }
        let (place, needed) = (place.to_owned(), named(needed));
        Err(match self.ring() {
            None => KeyError::Missing { place, needed },
            Some(ring) => KeyError::Wrong { place, needed, held: named(&ring.ids()) },
        })
    }

    /// Refuses values of which none can be opened with these keys.
    ///
    /// # Errors
    /// [`KeyError`].
    pub(super) fn check_census(&self, place: &str, census: &Census) -> Result<(), KeyError> {
        if census.opened() > 0 {
            return Ok(());
        }
        self.check(place, &census.needed().into_keys().collect::<Vec<_>>())
    }
}
