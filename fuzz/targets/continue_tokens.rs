//! `cargo +nightly fuzz run continue_tokens`
#![no_main]

#[path = "../entry.rs"]
#[allow(dead_code)]
mod entry;

libfuzzer_sys::fuzz_target!(|text: &str| entry::continue_tokens(text));
