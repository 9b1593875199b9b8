//! Repository rules as tests: module docs, function and file length, words that do not belong, public items. Every failure
//! names the file, the rule and what to do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::tidy_sources::{report, root, sources};

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc", "manager", "handler2"];

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;

/// Longer files, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Items that are public and that only tests name, each with its reason.
const FOR_TESTS: &[(&str, &str)] = &[
    ("wait_until_idle", "the engine under paused time"),
    ("set_fault", "what simulated machines do wrong on demand"),
];

#[test]
fn every_file_says_what_it_owns() {
    let problems: Vec<String> =
        sources().iter().filter(|s| !s.text.starts_with("//!")).map(|s| s.path.clone()).collect();
    report("a file begins with //!: what it owns and what it must not know", &problems);
}

#[test]
fn every_file_is_reached_by_a_mod_line() {
    let sources = sources();
    let mut problems = Vec::new();
    for source in &sources {
        let path = Path::new(&source.path);
        let (folder, stem) =
            (path.parent().unwrap_or(path), path.file_stem().unwrap_or_default().to_string_lossy());
        if matches!(&*stem, "lib" | "main") {
            continue;
        }
        let (folder, module) = match &*stem {
            "mod" => (
                folder.parent().unwrap_or(folder),
                folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            ),
            stem => (folder, stem.to_owned()),
        };
        let parents = ["mod.rs", "lib.rs"].map(|name| folder.join(name));
        let declared = sources
            .iter()
            .filter(|s| parents.iter().any(|parent| Path::new(&s.path) == parent))
            .any(|s| s.text.contains(&format!("mod {module};")));
        if !declared {
            problems.push(format!("{} is not declared in {}", source.path, folder.display()));
        }
        if EMPTY_NAMES.contains(&module.as_str()) {
            problems.push(format!("{}: `{module}` says nothing; name what is inside", source.path));
        }
    }
    report("every file belongs to a module with a telling name", &problems);
}

#[test]
fn functions_and_files_stay_short() {
    let mut problems = Vec::new();
    for source in sources() {
        let lines = source.code.lines().count();
        if lines > FILE_LINES_MAX && !LONG_FILES.iter().any(|(name, _)| *name == source.name) {
            problems.push(format!("{} has {lines} lines of code (at most {FILE_LINES_MAX})", source.path));
        }
        for (name, length) in function_lengths(&source.code) {
            if length > FUNCTION_LINES_MAX {
                problems.push(format!(
                    "{}: fn {name} has {length} lines (at most {FUNCTION_LINES_MAX})",
                    source.path
                ));
            }
        }
    }
    report("length: name the parts and split them out", &problems);
}

/// Functions by name with their number of lines, found by indentation (rustfmt guarantees it).
fn function_lengths(code: &str) -> Vec<(String, usize)> {
    let mut open: Vec<(String, usize, usize)> = Vec::new();
    let mut done = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let body = line.trim_start();
        let is_fn = body.split_whitespace().take(6).any(|w| w == "fn")
            && !body.starts_with('*')
            && !body.contains('"');
        if is_fn && let Some(at) = body.find("fn ") {
            let name = body[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if !body.ends_with(';') && !body.ends_with('}') {
                open.push((name, indent, number));
            }
        } else if body.starts_with('}') && open.last().is_some_and(|(_, i, _)| *i == indent) {
            let (name, _, start) = open.pop().expect("checked above");
            done.push((name, number - start + 1));
        } else if body.ends_with(';')
            && open.last().is_some_and(|(_, i, start)| *i == indent && *start < number)
        {
            open.pop();
        }
    }
    done
}

/// The description that stands in for protoc is of the version that is built; see build/README.md.
#[test]
fn the_etcd_descriptor_is_of_the_version_that_is_locked() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect(name);
    let lock = read("Cargo.lock");
    let locked = lock.split("name = \"etcd-client\"\nversion = \"").nth(1).expect("etcd-client is locked");
    let version = locked.split('"').next().unwrap_or_default();
    let name = format!("etcd-client-{version}.descriptor");
    assert!(root().join("build").join(&name).is_file(), "build/{name} is missing; see build/README.md");
    assert!(read("build/protoc").contains(&name), "build/protoc does not name {name}");
    assert!(
        read("Cargo.toml").contains(&format!("version = \"={version}\"")),
        "Cargo.toml pins another version"
    );
}

#[test]
fn nothing_names_this_machine() {
    // Assembled, so that this file does not contain what it looks for.
    let machine_paths = [["/wo", "rk/"].concat(), ["/ro", "ot/"].concat(), ["/ho", "me/"].concat()];
    let mut files = Vec::new();
    for folder in [
        "src",
        "crates",
        "tests",
        "docs",
        "themes",
        "keymaps",
        "consoles",
        "explanations",
        "benches",
        "build",
        ".cargo",
        ".ci",
    ] {
        text_files(&root().join(folder), &mut files);
    }
    files.extend(
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "Cargo.toml", "deny.toml"]
            .map(|f| root().join(f)),
    );
    let mut problems = Vec::new();
    for path in files {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for word in &machine_paths {
            if text.contains(word.as_str()) {
                problems.push(format!("{} contains {word}", path.display()));
            }
        }
    }
    report("no paths of a machine in the repository", &problems);
}

fn text_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|e| e.path()) {
        if path.is_dir() { text_files(&path, found) } else { found.push(path) }
    }
}

/// The names of public items: what stands behind `pub fn`, `pub struct` and so on.
fn public_items(code: &str) -> Vec<String> {
    const KINDS: [&str; 7] = ["fn", "struct", "enum", "trait", "const", "static", "type"];
    let mut found = Vec::new();
    for line in code.lines().map(str::trim_start).filter(|line| line.starts_with("pub")) {
        let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| !w.is_empty());
        // `const fn`, `async fn`: the last of these words stands before the name.
        let mut name = None;
        while let Some(word) = words.next() {
            if KINDS.contains(&word) {
                name = words.next();
                if name.is_some_and(|name| KINDS.contains(&name)) {
                    name = words.next();
                }
                break;
            }
        }
        found.extend(name.map(str::to_owned));
    }
    found
}

#[test]
fn public_items_are_named_by_more_than_tests() {
    let sources = sources();
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for source in &sources {
        for word in source.code.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            *named.entry(word).or_default() += 1;
        }
    }
    let mut problems = Vec::new();
    for source in &sources {
        for name in public_items(&source.code) {
            // The derive macro makes a kind out of its spec.
            let is_derived = source.module() == "api" && name.ends_with("Spec");
            let is_excused = FOR_TESTS.iter().any(|(excused, _)| *excused == name);
            if named.get(name.as_str()) == Some(&1) && !is_derived && !is_excused {
                problems.push(format!(
                    "{}: nothing but tests names `{name}`: connect it or delete it",
                    source.path
                ));
            }
        }
    }
    for (name, reason) in FOR_TESTS {
        if named.get(name).is_none_or(|times| *times > 1) {
            problems.push(format!("FOR_TESTS: `{name}` ({reason}) needs no excuse any more"));
        }
    }
    report("public items", &problems);
}

#[test]
fn exit_codes_are_made_in_one_place() {
    let mut problems = Vec::new();
    for source in sources().iter().filter(|source| source.name != "cli/exit_code.rs") {
        for word in ["process::exit(", "ExitCode::from("] {
            if source.code.contains(word) {
                problems.push(format!("{} has {word}", source.path));
            }
        }
    }
    report("the table of cli/exit_code.rs says how a command ends", &problems);
}
