//! Every status and reason that upstream's controllers give is expected by some rule table for this
//! kind and this condition type. The tables run here once more, in a process of their own, and report
//! what they asserted: a reason counts only where a table has seen it. The list is checked, in both
//! directions, against the status reference when `../shared` is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::status::tests::witness::{ASKED, MARK};
use capstan_testing::reported::{Row, Seen, listed, rows};

/// Words of the reference that look like reasons in these sections, and that no status here has.
const OUT_OF_SCOPE: &[(&str, &str, &str)] = &[
    ("5.7", "Deleting", "the first value of a run; a step of the same run replaces it"),
    ("15.2", "ReadyUnknown", "a part of a DevMachine is up or not, never unknown"),
    ("5.11", "InternalError", "for a Machine without Ready, which the line before has just set"),
    (
        "11.15",
        "InternalError",
        "when the Machine to be replaced cannot be deleted: the engine tries again and writes nothing",
    ),
];

/// Runs the tables of the pure layers once more and collects what they report.
fn seen() -> Seen {
    let this = std::env::current_exe().expect("the test program");
    let tables = ["status::", "plan::", "recompute::", "--skip", "status::tests::reasons", "--nocapture"];
    let run = Command::new(this).args(tables).env(ASKED, "1").output().expect("it runs");
    let told = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "a rule table fails:\n{told}");
    let report = |line: &str| {
        let mut parts = line.split_once(MARK)?.1.splitn(3, '/').map(str::to_owned);
        Some((parts.next()?, parts.next()?, parts.next()?))
    };
    told.lines().filter_map(report).collect()
}

#[test]
fn every_reason_of_every_condition_is_expected_by_a_table() {
    let (listed, seen) = (listed(), seen());
    let words = |all: &Seen| {
        all.iter()
            .filter_map(|(_, _, told)| told.split_once('/'))
            .map(|(_, r)| r.to_owned())
            .collect::<BTreeSet<_>>()
            .len()
    };
    println!(
        "reasons: {} of {} (kind, type, status, reason) in rule tables, {} different words",
        listed.intersection(&seen).count(),
        listed.len(),
        words(&listed)
    );
    let open: Vec<_> = listed.difference(&seen).collect();
    assert!(open.is_empty(), "add a row to a table in crates/capi-rules/src/status for each of {open:#?}");
    let unknown: Vec<_> = seen.difference(&listed).collect();
    assert!(unknown.is_empty(), "tables expect what upstream never says, or the list lacks it: {unknown:#?}");
}

/// Section number to its text without code blocks.
fn sections(reference: &str) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let mut current = String::new();
    for line in reference.lines() {
        if let Some(head) = line.strip_prefix("##") {
            let head = head.trim_start_matches('#').trim();
            current = head.split(' ').next().unwrap_or_default().trim_end_matches('.').to_owned();
        }
        all.entry(current.clone()).or_default().extend([line, "\n"]);
    }
    all
}

/// What stands between backquotes and is one word in camel case.
fn quoted_words(text: &str) -> BTreeSet<&str> {
    let quoted = text.split('`').skip(1).step_by(2).flat_map(|q| q.split(['/', '=']));
    let is_word = |w: &&str| {
        w.len() > 2
            && w.starts_with(|c: char| c.is_ascii_uppercase())
            && w.chars().all(|c| c.is_ascii_alphanumeric())
    };
    quoted.filter(is_word).collect()
}

fn reference() -> Option<String> {
    let root = std::env::var_os("CAPSTAN_SHARED").map_or_else(
        || Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("../shared"),
        PathBuf::from,
    );
    let path = root.join("reference/capi-status.md");
    let text = std::fs::read_to_string(&path);
    if text.is_err() {
        println!("skipped: {} is not there", path.display());
    }
    text.ok()
}

#[test]
fn the_list_is_that_of_the_reference() {
    let Some(text) = reference() else { return };
    let sections = sections(&text);
    let mut known: BTreeSet<String> =
        listed().into_iter().filter_map(|(_, _, told)| Some(told.split_once('/')?.1.to_owned())).collect();
    known.extend(quoted_words(&sections["1.3"]).into_iter().map(str::to_owned));
    // Every reason in the list stands in its section, or in the shared list.
    let shared = quoted_words(&sections["1.3"]);
    let rows = rows();
    for Row { of, section, types, told } in &rows {
        let own = quoted_words(&sections[section]);
        for (_, reason) in told {
            let reason = reason.as_str();
            assert!(own.contains(reason) || shared.contains(reason), "§{section} {of} {types:?}: {reason}");
        }
    }
    let told: BTreeSet<&str> =
        rows.iter().map(|row| row.section.as_str()).chain(SILENT.split_whitespace()).collect();
    let of_kinds = |s: &&String| {
        s.split('.').next().and_then(|n| n.parse().ok()).is_some_and(|n: u32| (5..=15).contains(&n))
    };
    let new: Vec<&String> = sections.keys().filter(of_kinds).filter(|s| !told.contains(s.as_str())).collect();
    assert_eq!(new, Vec::<&String>::new(), "sections that nobody looked at");
    // Every word of a section that is a reason anywhere is in the list for that section.
    let mut by_section: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for Row { section, types, told, .. } in &rows {
        let reasons = told.iter().map(|(_, reason)| reason.as_str());
        by_section.entry(section).or_default().extend(reasons.chain(types.iter().map(String::as_str)));
    }
    for (section, listed) in by_section {
        let spare = |word: &&str| {
            OUT_OF_SCOPE.iter().any(|(s, w, _)| *s == section && w == word)
                || MENTIONED
                    .iter()
                    .any(|(s, words)| *s == section && words.split_whitespace().any(|w| w == *word))
        };
        let words = quoted_words(&sections[section]);
        let missing: Vec<&str> =
            words.into_iter().filter(|w| known.contains(*w) && !listed.contains(w) && !spare(w)).collect();
        assert_eq!(missing, Vec::<&str>::new(), "§{section}");
    }
}

/// Words that a section mentions although its conditions never have them as a reason: types and reasons
/// of other conditions that they are made from or change.
const MENTIONED: &[(&str, &str)] = &[
    ("5.6.1", "Ready"),
    (
        "5.10",
        "BootstrapConfigReady Deleting DrainingNode HealthCheckSucceeded InfrastructureReady NodeDeleted NodeDoesNotExist \
      NodeHealthy NodeReady ObjectDeleted ObjectDoesNotExist Updating",
    ),
    ("5.11", "Ready"),
    ("6.2", "InfrastructureReady"),
    ("6.4", "HealthCheckSucceeded"),
    ("7.6", "Deleting DrainingNode"),
    ("7.9", "HealthCheckSucceeded"),
    ("7.11", "Remediating"),
    ("8.4", "UpToDate"),
    (
        "10.14",
        "ClusterClassNotReconciled Deleting InfrastructureReady ObjectDeleted ObjectDoesNotExist ReconcileFailed",
    ),
    ("11.4", "Initialized"),
    ("11.6", "Initialized UpToDate"),
    ("11.14", "Initialized"),
    ("11.15", "WaitingForRemediation"),
    ("12.2", "Available Ready"),
    ("13", "Paused ReconcileFailed"),
];

/// Sections 5 to 15 without a condition of their own, or of kinds and backends that are not judged here.
const SILENT: &str = "5 5.1 5.2 5.3 5.7.1 5.7.2 5.7.3 6 6.1 7 7.1 7.2 7.5 8 8.1 8.2 9 10 10.1 10.2 10.3 10.4 11 11.1 11.2 11.16 \
                      12 12.1 12.3 15 15.1 15.3";
