//! Texts that tests keep in `tests/golden`, to be read as documentation.

use std::path::Path;

/// Compares with `tests/golden/NAME.txt`; `UPDATE_GOLDEN=1` rewrites it.
///
/// # Panics
/// When the text differs, or cannot be written.
#[allow(clippy::unwrap_used, reason = "a test is to fail")]
pub fn golden(name: &str, text: &str) {
    // Of this crate, at compile time: the tests of all crates share one directory, wherever they
    // run.
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/golden")
        .join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    // A file that is not there counts as empty, so that the message says how to make it.
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{} differs; UPDATE_GOLDEN=1 accepts the new text", path.display());
}
