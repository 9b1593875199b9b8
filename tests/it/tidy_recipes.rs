//! The recipes of docs/adding.md name files that are there. Must not know what a recipe is for.

use std::path::{Path, PathBuf};

use super::tidy_sources::{crates, report, root};

const PAGE: &str = "docs/adding.md";

/// What stands between backquotes and looks like a path.
fn paths(page: &str) -> Vec<&str> {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "_/.-*…".contains(c);
    let quoted = page.split('`').skip(1).step_by(2);
    quoted.filter(|word| word.contains('/') && word.chars().all(is_of_path)).collect()
}

/// The part before a placeholder such as `KIND`, to the last slash.
fn without_placeholder(path: &str) -> &str {
    let is_placeholder = |part: &&str| {
        part.contains('*') || part.starts_with(|c: char| c.is_ascii_uppercase()) || part.ends_with('…')
    };
    let fixed: usize =
        path.split('/').take_while(|part| !is_placeholder(part)).map(|part| part.len() + 1).sum();
    path[..fixed.min(path.len())].trim_end_matches('/')
}

/// Where a path that begins with a room, or at the repository's root, may be.
fn places(path: &str) -> Vec<PathBuf> {
    let mut places = vec![root().join(path)];
    for (folder, room) in crates() {
        let source = folder.join("src");
        match room.and_then(|room| path.strip_prefix(room)) {
            Some(rest) => places.push(source.join(rest.trim_start_matches('/'))),
            None => places.push(source.join(path)),
        }
    }
    places
}

#[test]
fn recipes_name_files_that_are_there() {
    let page = std::fs::read_to_string(root().join(PAGE)).expect(PAGE);
    let found = paths(&page);
    assert!(found.len() > 80, "{found:?}");
    let is_there = |place: &PathBuf| place.exists() || Path::new(&format!("{}.rs", place.display())).exists();
    let missing = found.into_iter().filter(|path| !places(without_placeholder(path)).iter().any(is_there));
    let problems: Vec<String> = missing.map(|path| format!("{PAGE}: {path}")).collect();
    report("a recipe names a file that is not there: mend the recipe", &problems);
}

#[test]
fn placeholders_stand_for_any_name() {
    for (path, fixed) in [
        ("plan/KIND/tests", "plan"),
        ("status/kinds/KIND…", "status/kinds"),
        ("tests/it/NAME_screen.rs", "tests/it"),
        ("keymaps/*.toml", "keymaps"),
        ("cli/args.rs", "cli/args.rs"),
    ] {
        assert_eq!(without_placeholder(path), fixed);
    }
}
