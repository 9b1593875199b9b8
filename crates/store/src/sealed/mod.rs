//! Encryption at rest: values under given prefixes are kept sealed, in whatever store. Owns the cipher, the form of a sealed
//! value, the file of keys, and the store that seals and opens; must not know what the values are.

mod cipher;
mod key;
mod key_file;
mod renewal;
mod sealing;
mod store;
#[cfg(test)]
mod tests;
mod value;

pub use cipher::CipherError;
pub use key::{KeyId, Keyring, named};
pub use key_file::{KeyFile, KeyFileError, Passphrase, create_key_file, replace_key_file};
pub use renewal::{RenewError, survey};
pub(crate) use sealing::ValueState;
pub use sealing::{Census, Coverage, KeyError, Sealing};
pub use store::Sealed;
pub(crate) use value::key_of_value;
pub use value::{NotOpened, is_sealed};
