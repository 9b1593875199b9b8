//! Matches that name every variant, so that whoever adds one is led by the compiler to each place that has to know it.

use super::tidy_sources::{report, sources};

/// Enums that are matched without a wildcard: the files below which they are, how their variants begin there, and what a new
/// variant would otherwise miss.
const WHOLE: &[(&str, &str, &str)] = &[
    ("tui/", "Screen::", "a new screen"),
    ("tui/screen/mod.rs", "Self::", "a new screen"),
    ("tui/screen/abilities.rs", "Self::", "a new screen"),
    ("tui/screen/", "Id::", "a new column"),
    ("tui/subject.rs", "Self::", "a new reading"),
];

/// The arms of every match, found by indentation (rustfmt guarantees it).
fn matches(code: &str) -> Vec<Vec<&str>> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let opens = line.ends_with('{')
            && line.split_whitespace().any(|word| word.trim_start_matches('(') == "match");
        if opens {
            let inside = lines[at + 1..]
                .iter()
                .take_while(|below| below.trim().is_empty() || indent(below) > indent(line));
            found.push(
                inside.filter(|below| indent(below) == indent(line) + 4).map(|arm| arm.trim()).collect(),
            );
        }
    }
    found
}

#[test]
fn every_match_over_screens_columns_and_readings_names_all_of_them() {
    let (mut problems, mut used) = (Vec::new(), Vec::new());
    for source in sources() {
        for row in WHOLE.iter().filter(|(below, ..)| source.name.starts_with(below)) {
            let (_, variant, missed) = row;
            let of_enum = |arm: &&str| arm.trim_start_matches(['|', ' ', '(']).starts_with(variant);
            for arms in matches(&source.code).iter().filter(|arms| arms.iter().any(of_enum)) {
                used.push(row);
                if arms.iter().any(|arm| *arm == "_" || arm.starts_with("_ ")) {
                    problems.push(format!(
                        "{}: a match over `{variant}` ends in `_`: {missed} is forgotten there",
                        source.path
                    ));
                }
            }
        }
    }
    let unused = WHOLE.iter().filter(|row| !used.contains(row));
    problems.extend(unused.map(|(below, variant, _)| format!("no match over `{variant}` is below {below}")));
    report("name every variant, or give the enum an ability that does", &problems);
}

#[test]
fn several_screens_at_once_are_an_ability() {
    let mut problems = Vec::new();
    for source in sources().iter().filter(|source| source.name.starts_with("tui/")) {
        for part in source.code.split("matches!(").skip(1) {
            let call = part.split(';').next().unwrap_or_default();
            let call = call.split('{').next().unwrap_or_default();
            if call.contains("Screen::") && call.contains("| Screen::") {
                problems.push(format!("{}: matches!({}", source.path, call.trim()));
            }
        }
    }
    report("screen/abilities.rs says for every screen what it can do", &problems);
}

#[test]
fn the_arms_of_a_match_are_found() {
    let code = "fn f() {\n    match screen {\n        Screen::A(a) => {\n            match a {\n                \
                Some(_) => 1,\n                _ => 2,\n            }\n        }\n        (Screen::B, _) => 3,\n    }\n}\n";
    assert_eq!(
        matches(code),
        [vec!["Screen::A(a) => {", "}", "(Screen::B, _) => 3,"], vec!["Some(_) => 1,", "_ => 2,"]]
    );
}
