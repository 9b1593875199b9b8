//! What unit tests of several crates need: golden files, and the list of what upstream's controllers report. No crate
//! depends on it but for its tests.

pub mod golden;
pub mod reported;
