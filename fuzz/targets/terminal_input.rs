//! `cargo +nightly fuzz run terminal_input`
#![no_main]

#[path = "../entry.rs"]
#[allow(dead_code)]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::terminal_input(data));
