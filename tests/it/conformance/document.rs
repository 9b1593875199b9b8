//! docs/conformance.md against the sources: every statement once, every named test there, counts right.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const STATEMENTS: u32 = 165;
const STATES: [&str; 3] = ["yes", "partly", "no"];

/// One line of a table: `| 42 | M | what | yes | tests |`.
struct Row {
    number: u32,
    level: String,
    statement: String,
    /// `yes`, or `partly: why`, or `no: why`.
    state: String,
    tests: String,
}

impl Row {
    fn read(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.trim().strip_prefix('|')?.strip_suffix('|')?.split(" | ").collect();
        let number = cells.first()?.trim().parse().ok()?;
        let cell = |at: usize| {
            cells.get(at).map_or_else(|| panic!("row {number}: cell {at}"), |c| (*c).trim().to_owned())
        };
        assert!(cells.len() == 5, "row {number} has {} cells, not 5", cells.len());
        Some(Self { number, level: cell(1), statement: cell(2), state: cell(3), tests: cell(4) })
    }

    fn write(&self) -> String {
        let Self { number, level, statement, state, tests } = self;
        let space = if tests.is_empty() { "" } else { " " };
        format!("| {number} | {level} | {statement} | {state} | {tests}{space}|")
    }

    fn verdict(&self) -> &str {
        self.state.split(':').next().unwrap_or_default()
    }

    fn problem(&self) -> Option<String> {
        let why = self.state.split_once(':').map(|(_, why)| why.trim());
        let wrong = match self.verdict() {
            _ if !matches!(self.level.as_str(), "M" | "S" | "C") => "the level is M, S or C",
            _ if self.statement.is_empty() => "there is no statement",
            "yes" if why.is_some() => "yes needs no reason",
            "yes" if self.tests.is_empty() => "yes needs a test",
            "yes" => return None,
            "no" | "partly" if why.is_none_or(str::is_empty) => "no and partly need a reason: `no: why`",
            "no" | "partly" => return None,
            _ => "the state is yes, `partly: why` or `no: why`",
        };
        Some(format!("row {}: {wrong}", self.number))
    }
}

/// `s042_s043_what` names statements 42 and 43.
fn numbers(function: &str) -> BTreeSet<u32> {
    let number = |part: &str| {
        let digits = part.strip_prefix('s')?;
        (digits.len() == 3).then(|| digits.parse().ok()).flatten()
    };
    function.split('_').filter_map(number).collect()
}

/// Tests by statement: `file::function`, in order.
fn tests_by_statement() -> BTreeMap<u32, BTreeSet<String>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "crates", "tests"] {
        rust_files(&root.join(folder), &mut files);
    }
    let mut found: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for path in files.iter().filter(|path| !path.ends_with("document.rs")) {
        let text = std::fs::read_to_string(path).expect("a source file");
        for line in text.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
            let Some((before, rest)) = line.split_once("fn ") else { continue };
            if before.split_whitespace().any(|word| !matches!(word, "async" | "pub")) {
                continue;
            }
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            for number in numbers(&name) {
                found.entry(number).or_default().insert(format!("`{}::{name}`", place(path)));
            }
        }
    }
    found
}

/// A file's module: its stem, or its folder's name.
fn place(path: &Path) -> String {
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match stem(path).as_str() {
        "mod" | "tests" => path.parent().map(stem).unwrap_or_default(),
        name => name.to_owned(),
    }
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()) {
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The line of the table of counts for one level.
fn counts(level: &str, title: &str, rows: &[Row]) -> String {
    let of_level: Vec<&Row> = rows.iter().filter(|row| row.level == level).collect();
    let mut line = format!("| {title} |");
    for state in STATES {
        let _ = write!(line, " {} |", of_level.iter().filter(|row| row.verdict() == state).count());
    }
    let _ = write!(line, " {} |", of_level.len());
    line
}

#[test]
fn the_document_says_what_the_tests_say() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/conformance.md");
    let actual = std::fs::read_to_string(&path).expect("docs/conformance.md");
    let tests = tests_by_statement();
    let mut rows: Vec<Row> = actual.lines().filter_map(Row::read).collect();
    for row in &mut rows {
        let named = tests.get(&row.number).into_iter().flatten().map(String::as_str);
        row.tests = named.collect::<Vec<_>>().join(", ");
    }
    let all: Vec<u32> = rows.iter().map(|row| row.number).collect();
    assert_eq!(all, (1..=STATEMENTS).collect::<Vec<_>>(), "every statement once, in order");
    let stray: Vec<_> = tests.iter().filter(|(n, _)| !(1..=STATEMENTS).contains(*n)).collect();
    assert!(stray.is_empty(), "no such statement: {stray:?}");
    let mut fresh = rows.iter();
    let mut expected = String::new();
    for line in actual.lines() {
        let line = match line.split('|').nth(1).map(str::trim) {
            Some(title @ "must (M)") => counts("M", title, &rows),
            Some(title @ "should (S)") => counts("S", title, &rows),
            Some(title @ "could (C)") => counts("C", title, &rows),
            _ if Row::read(line).is_some() => fresh.next().map(Row::write).unwrap_or_default(),
            _ => line.to_owned(),
        };
        expected.push_str(&line);
        expected.push('\n');
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &expected).expect("docs can be written");
    } else {
        assert!(
            actual == expected,
            "docs/conformance.md does not name the tests there are: UPDATE_GOLDEN=1 tests/run \
             the_document_says rewrites its tests and counts"
        );
    }
    let problems: Vec<String> = rows.iter().filter_map(Row::problem).collect();
    assert!(problems.is_empty(), "docs/conformance.md:\n  {}", problems.join("\n  "));
}

#[test]
fn names_carry_their_statements() {
    assert_eq!(numbers("s042_s043_what_s1_it_says"), [42, 43].into());
    assert_eq!(numbers("plain_s12a"), BTreeSet::new());
}
