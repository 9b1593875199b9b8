//! Documents that are generated from tables say what the tables say.

use std::path::PathBuf;

use capstan::tui::reference;

fn check(name: &str, expected: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, expected).expect("docs can be written");
        return;
    }
    let actual = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        actual == expected,
        "docs/{name} is out of date: UPDATE_GOLDEN=1 tests/run documents writes it anew"
    );
}

#[test]
fn commands_keys_and_scopes_are_up_to_date() {
    check("commands.md", &reference::commands());
    check("keys.md", &reference::keys().expect("shipped keymaps load"));
    check("scopes.md", &reference::scopes().expect("shipped themes load"));
}
