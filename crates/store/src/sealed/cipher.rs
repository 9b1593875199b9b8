//! The one cipher of this crate, XChaCha20-Poly1305, and the random bytes it needs. Owns both; must not know what is enciphered.
//!
//! Keys, salts and nonces come from the operating system and never from `Rng`, whose draws repeat with its seed: two values
//! under one key and one nonce would give both away.

use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

pub(super) const KEY_BYTES: usize = 32;
pub(super) const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
/// How much longer a text is once it is enciphered.
pub(super) const CIPHER_OVERHEAD: usize = NONCE_BYTES + TAG_BYTES;

/// Why something cannot be enciphered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CipherError {
    #[error("the operating system gives no random numbers: {0}")]
    Random(String),
    #[error("it is too long for the cipher")]
    Long,
}

/// Fills `bytes` from the operating system.
pub(super) fn randomize(bytes: &mut [u8]) -> Result<(), CipherError> {
    getrandom::fill(bytes).map_err(|error| CipherError::Random(error.to_string()))
}

/// A nonce of its own, then the text enciphered. `context` has to be the same to decipher it.
pub(super) fn encipher(key: &[u8; KEY_BYTES], context: &[u8], text: &[u8]) -> Result<Vec<u8>, CipherError> {
    // 24 random bytes: no counter has to be kept, and none repeats in any number of writes that a disk takes.
    let mut nonce = [0; NONCE_BYTES];
    randomize(&mut nonce)?;
    let payload = Payload { msg: text, aad: context };
    let text = cipher(key).encrypt(&XNonce::from(nonce), payload).map_err(|_| CipherError::Long)?;
    Ok([&nonce[..], &text].concat())
}

/// `None`: the key or the context is another one, or a bit was altered. Which of these, the cipher does not show.
pub(super) fn decipher(key: &[u8; KEY_BYTES], context: &[u8], bytes: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, text) = bytes.split_first_chunk::<NONCE_BYTES>()?;
    let payload = Payload { msg: text, aad: context };
    cipher(key).decrypt(&XNonce::from(*nonce), payload).ok().map(Zeroizing::new)
}

fn cipher(key: &[u8; KEY_BYTES]) -> XChaCha20Poly1305 {
    // It wipes its copy of the key when it is dropped.
    XChaCha20Poly1305::new(key.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source: draft-irtf-cfrg-xchacha-03, A.3.1.
    #[test]
    fn it_is_the_cipher_of_the_draft() {
        let key: [u8; KEY_BYTES] = std::array::from_fn(|n| 0x80 + u8::try_from(n).unwrap());
        let nonce: [u8; NONCE_BYTES] = std::array::from_fn(|n| 0x40 + u8::try_from(n).unwrap());
        let context = [0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7];
        let text =
            b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
                     sunscreen would be it.";
        let payload = Payload { msg: &text[..], aad: &context };
        let made = cipher(&key).encrypt(&XNonce::from(nonce), payload).unwrap();
        assert_eq!(made[..8], [0xbd, 0x6d, 0x17, 0x9d, 0x3e, 0x83, 0xd4, 0x3b]);
        assert_eq!(made[text.len()..][..4], [0xc0, 0x87, 0x59, 0x24]);
        assert_eq!(&decipher(&key, &context, &[&nonce[..], &made].concat()).unwrap()[..], text);
    }

    #[test]
    fn no_nonce_comes_twice() {
        let key = [7; KEY_BYTES];
        let nonces: std::collections::BTreeSet<Vec<u8>> =
            (0..1_000).map(|_| encipher(&key, b"", b"x").unwrap()[..NONCE_BYTES].to_vec()).collect();
        assert_eq!(nonces.len(), 1_000);
    }

    #[test]
    fn another_key_or_context_opens_nothing() {
        let made = encipher(&[1; KEY_BYTES], b"a", b"text").unwrap();
        assert_eq!(made.len(), b"text".len() + CIPHER_OVERHEAD);
        assert!(decipher(&[2; KEY_BYTES], b"a", &made).is_none());
        assert!(decipher(&[1; KEY_BYTES], b"b", &made).is_none());
        assert!((0..made.len()).all(|end| decipher(&[1; KEY_BYTES], b"a", &made[..end]).is_none()));
    }
}
