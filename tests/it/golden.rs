//! Golden files: what a run or a screen looked like when it was last reviewed. Owns the folder and how a record is
//! written anew.

use std::path::Path;

/// The text is as recorded in `tests/golden/NAME.txt`; with `UPDATE_GOLDEN=1` it is recorded.
pub fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).expect("a writable checkout");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "tests/golden/{name}.txt differs (UPDATE_GOLDEN=1 writes it anew); now:\n{text}");
}

/// The screen is as recorded in `tests/golden/screens/NAME.txt`.
pub fn screen(name: &str, actual: &str) {
    golden(&format!("screens/{name}"), actual);
}
