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

/// The head of `docs/features.md` has the counts of its rows, and every row has one of the three marks.
#[test]
fn the_counts_of_features_are_those_of_its_rows() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/features.md");
    let text = std::fs::read_to_string(path).expect("docs/features.md");
    let marks: Vec<&str> = text
        .lines()
        .filter(|line| {
            line.starts_with("| ") && !line.starts_with("| Feature |") && !line.starts_with("| --- |")
        })
        .filter_map(|line| line.split(" | ").nth(1))
        .collect();
    let count = |mark: &str| marks.iter().filter(|found| **found == mark).count();
    let (yes, partly, no) = (count("yes"), count("partly"), count("no"));
    assert_eq!(yes + partly + no, marks.len(), "a mark is yes, partly or no: {marks:?}");
    let head = format!("{} features, of which {yes} yes, {partly} partly, {no} no", marks.len());
    assert!(text.contains(&head), "the head should have: {head}");
}
