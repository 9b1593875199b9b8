//! Documents that are generated from tables say what the tables say.

use std::path::{Path, PathBuf};

use capstan::cli::exit_code;
use capstan_dashboard::tui::reference;

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
fn what_is_generated_is_up_to_date() {
    check("commands.md", &reference::commands());
    check("keys.md", &reference::keys().expect("shipped keymaps load"));
    check("scopes.md", &reference::scopes().expect("shipped themes load"));
    check("exit-codes.md", &exit_code::reference());
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

fn rust_files(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            text.push_str(&rust_files(&entry));
        } else if entry.extension().is_some_and(|end| end == "rs") {
            text.push_str(&std::fs::read_to_string(&entry).expect("text"));
        }
    }
    text
}

/// A rule whose test was renamed or went away is found.
#[test]
fn the_tests_of_the_control_loops_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(root.join("docs/control-loops.md")).expect("docs/control-loops.md");
    let code = ["src", "crates", "tests"].map(|folder| rust_files(&root.join(folder))).concat();
    let columns =
        table.lines().filter(|line| line.starts_with("| ")).filter_map(|line| line.split(" | ").nth(1));
    let named: Vec<&str> = columns.flat_map(|tests| tests.split('`').skip(1).step_by(2)).collect();
    assert!(named.len() > 40, "{}", named.len());
    for name in named {
        let function = name.rsplit("::").next().unwrap_or(name);
        assert!(
            code.contains(&format!("fn {function}(")),
            "docs/control-loops.md names {name}: there is no such test"
        );
    }
}
