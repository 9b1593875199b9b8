//! Which values an encrypted store keeps sealed, and the words about how many they are. Must not know stores or keys.

use std::fmt::Display;

use bytes::Bytes;

use capstan_base::text::counted;
use capstan_store::{Census, Coverage, KeyId, is_sealed};

/// Where Secrets are.
pub const PREFIXES: &[&str] = &["/registry/secrets/"];
/// What is sealed of a store.
pub const SECRETS: Coverage = Coverage { prefixes: PREFIXES, is_value: capstan_apiserver::is_whole };

/// True when stored bytes are an object, in clear or sealed. What is sealed needs no key for that.
pub fn is_whole(stored: &Bytes) -> bool {
    is_sealed(stored) || capstan_apiserver::is_whole(stored)
}

/// `2 Secrets are`.
pub fn counted_secrets(count: usize) -> String {
    format!("{} {}", counted(count, "Secret"), if count == 1 { "is" } else { "are" })
}

/// One line about what a store held when it was opened with a key, if anything was done, and one if something is wrong.
pub fn log_opened(census: &Census, newest: KeyId, place: &impl Display) {
    let renewed = census.clear + census.older;
    if renewed > 0 {
        tracing::info!(
            "{place}: {} encrypted with key {newest} from now on ({} in clear before, {} with an older key)",
            counted_secrets(renewed),
            census.clear,
            census.older
        );
    }
    if let Some((key, why)) = census.closed.first() {
        tracing::warn!(
            "{place}: {} not readable and left out of lists, such as {key}: {why}; each can be deleted by its name",
            counted_secrets(census.closed.len())
        );
    }
}
