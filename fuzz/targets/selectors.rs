//! `cargo +nightly fuzz run selectors`
#![no_main]

#[path = "../entry.rs"]
#[allow(dead_code)]
mod entry;

libfuzzer_sys::fuzz_target!(|text: &str| entry::selectors(text));
