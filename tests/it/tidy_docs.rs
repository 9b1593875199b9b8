//! A doc line says what the item below it does not: a unit, a source, a case, a reason. One whose every word stands in the
//! item's own line is refused; an item whose name says it all needs none.

use std::collections::BTreeSet;

use crate::tidy_sources::{report, sources};

/// Words that say nothing by themselves.
const SMALL: [&str; 25] = [
    "a", "an", "and", "are", "as", "at", "by", "each", "for", "from", "in", "is", "it", "its", "of", "on",
    "one", "or", "that", "the", "their", "this", "those", "to", "with",
];
/// Below these a doc line is the help of the command line, where no code is read.
const HELP: [&str; 2] = ["#[arg(", "#[command("];
const ENDINGS: [&str; 4] = ["es", "s", "ed", "ing"];
/// Of a word without its ending.
const STEM_MIN: usize = 3;

/// `MachineSets` is `machin` and `set`: lower case, without endings.
fn words(text: &str) -> BTreeSet<String> {
    let mut spaced = String::new();
    let mut was_lower = false;
    for c in text.chars() {
        if c.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        spaced.push(c);
    }
    let found = spaced.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    found
        .map(str::to_lowercase)
        .filter(|word| !SMALL.contains(&word.as_str()))
        .map(|word| stem(&word))
        .collect()
}

fn stem(word: &str) -> String {
    let long = |stem: &&str| stem.len() >= STEM_MIN;
    if let Some(stem) = word.strip_suffix("ies").filter(long) {
        return format!("{stem}y");
    }
    let shorter = ENDINGS.iter().find_map(|ending| word.strip_suffix(ending).filter(long));
    shorter.unwrap_or(word).trim_end_matches('e').to_owned()
}

/// Numbers and texts of doc comments of one line that say no more than the line of their item.
fn restated(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let doc = |at: usize| lines.get(at).and_then(|line| line.strip_prefix("///"));
    let mut found = Vec::new();
    for at in 0..lines.len() {
        let is_alone = doc(at + 1).is_none() && at.checked_sub(1).and_then(doc).is_none();
        let Some(said) = doc(at).filter(|_| is_alone) else { continue };
        let below = &lines[at + 1..];
        let attributes = below.iter().take_while(|line| line.starts_with("#[")).count();
        let is_help = below[..attributes].iter().any(|line| HELP.iter().any(|help| line.starts_with(help)));
        let item = below.get(attributes).copied().unwrap_or_default();
        let words_said = words(said);
        if !is_help && !words_said.is_empty() && words_said.is_subset(&words(item)) {
            found.push((at + 1, said.trim().to_owned()));
        }
    }
    found
}

#[test]
fn no_doc_line_says_only_what_its_item_says() {
    let problems = sources().into_iter().flat_map(|source| {
        let found = restated(&source.text).into_iter();
        found.map(move |(line, said)| format!("{}:{line}: {said}", source.path)).collect::<Vec<_>>()
    });
    report("say a unit, a source, a case or a reason, or nothing", &problems.collect::<Vec<_>>());
}

#[test]
fn restating_is_told_from_saying() {
    for (text, is_restated) in [
        ("/// The policy of a cluster.\npub fn cluster_policy() {}", true),
        ("/// Machines by name.\n#[derive(Debug)]\npub struct MachinesByName {", true),
        ("    /// One row.\n    rows: Vec<Row>,", true),
        ("/// In seconds.\npub delay: u64,", false),
        ("/// The delay, in seconds.\npub delay: u64,", false),
        ("/// A namespace.\n#[arg(long)]\npub namespace: String,", false),
        ("/// Names,\n/// in order.\nnames: Vec<String>,", false),
        ("// Names.\nlet names = 1;", false),
    ] {
        assert_eq!(!restated(text).is_empty(), is_restated, "{text}");
    }
}
