//! Ratchets on names, each of which is what the repository has now and only goes down; and no circles of files.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy_sources::{Source, report, sources};

/// Modules that may define a public type of one name, where the name is not listed below.
const OWNERS_MAX: usize = 3;

/// Names that more modules define, with how many. A name of one role in each of many modules (`Observed`, a
/// planner's `Why`) is read with its module before it.
const OWNERS: &[(&str, usize)] = &[
    ("Answer", 5),
    ("Entry", 6),
    ("Failure", 4),
    ("Kind", 5),
    ("Member", 6),
    ("Node", 4),
    ("Observed", 12),
    ("Outcome", 6),
    ("Part", 5),
    ("Scope", 4),
    ("Shape", 4),
    ("Source", 5),
    ("Stage", 4),
    ("Why", 6),
    ("Written", 4),
];

/// Words that can be neither guessed nor searched, or that stood for several things. What to take instead: the
/// field's term.
const FORBIDDEN_TYPES: &[&str] = &[
    "Because", "Bench", "Deed", "Desk", "Door", "Ear", "Entrance", "Hall", "Health", "Loud", "Place",
    "Quiet", "Story", "Told",
];

/// A function is named after what it gives or does.
const FORBIDDEN_FUNCTIONS: &[&str] = &["hear", "heard", "said", "says", "tell", "tells", "told"];

/// The types that a file defines, with whether they are public.
fn types(code: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for line in code.lines().map(str::trim_start) {
        let is_public = line.starts_with("pub");
        let item = match line.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or("", |(_, item)| item),
            Some(rest) => rest.trim_start(),
            None => line,
        };
        let name = ["struct ", "enum ", "trait ", "type "].iter().find_map(|word| item.strip_prefix(word));
        let name: String =
            name.unwrap_or_default().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if !name.is_empty() {
            found.push((name, is_public));
        }
    }
    found
}

#[test]
fn public_type_names_have_few_owners() {
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources() {
        for (name, is_public) in types(&source.code) {
            if is_public {
                owners.entry(name).or_default().insert(source.name.clone());
            }
        }
    }
    let listed: BTreeMap<&str, usize> = OWNERS.iter().copied().collect();
    let mut problems = Vec::new();
    for (name, files) in &owners {
        let max = listed.get(name.as_str()).copied().unwrap_or(OWNERS_MAX);
        if files.len() > max {
            problems.push(format!("`{name}` is defined by {} files (at most {max}): {files:?}", files.len()));
        }
    }
    for (name, max) in OWNERS {
        let count = owners.get(*name).map_or(0, BTreeSet::len);
        if count < *max {
            problems.push(format!("`{name}` has {count} owners: lower its limit of {max} in OWNERS"));
        }
    }
    report("one word, one idea: name the type after what it is here", &problems);
}

#[test]
fn names_are_the_terms_of_the_field() {
    let mut problems = Vec::new();
    for source in sources() {
        for (name, _) in types(&source.code) {
            if FORBIDDEN_TYPES.contains(&name.as_str()) && !is_excused(&source, &name) {
                problems.push(format!("{} defines a type `{name}`", source.path));
            }
        }
        for word in FORBIDDEN_FUNCTIONS {
            let head = format!("fn {word}");
            let is_defined = source
                .code
                .match_indices(&head)
                .any(|(at, _)| source.code[at + head.len()..].starts_with(['(', '<']));
            if is_defined {
                problems.push(format!("{} defines a function `{word}`", source.path));
            }
        }
    }
    report("names that can be neither guessed nor searched: use the field's term", &problems);
}

/// The health of an etcd member is etcd's own word.
fn is_excused(source: &Source, name: &str) -> bool {
    name == "Health" && source.name == "store/etcd/members.rs"
}

/// A file's path as a module: `a/b.rs` and `a/b/mod.rs` are `a::b`.
fn module_of(name: &str) -> String {
    name.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::")
}

/// Every path that `code` names, in its `use` lines with groups taken apart and elsewhere.
fn used(code: &str) -> Vec<String> {
    let mut found = inline(code);
    for part in code.split("use ").skip(1) {
        if let Some((tree, _)) = part.split_once(';') {
            let tree: String = tree.chars().filter(|c| !c.is_whitespace()).collect();
            expand("", &tree, &mut found);
        }
    }
    found
}

/// Paths of this crate wherever they stand, such as `super::navigate::open(…)`.
fn inline(code: &str) -> Vec<String> {
    let starts = ["crate::", "super::"].into_iter().flat_map(|start| code.match_indices(start));
    let is_inside = |at: usize| {
        code[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    };
    let path = |at: usize| code[at..].chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':'));
    starts
        .filter(|(at, _)| !is_inside(*at))
        .map(|(at, _)| path(at).collect::<String>().trim_end_matches(':').to_owned())
        .collect()
}

fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let Some((head, group)) = tree.split_once('{') else {
        found.push(format!("{prefix}{tree}"));
        return;
    };
    let prefix = format!("{prefix}{head}");
    let group = group.strip_suffix('}').unwrap_or(group);
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                if start < at {
                    expand(&prefix, &group[start..at], found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The module of this crate that `path` leads to, as seen from `module`: the longest that is a file.
fn target(path: &str, module: &str, files: &BTreeSet<String>) -> Option<String> {
    let mut base: Vec<&str> = module.split("::").collect();
    let mut steps: Vec<&str> = path.split("::").collect();
    match steps[0] {
        "crate" => base.clear(),
        "super" => {
            while steps.first() == Some(&"super") {
                base.pop();
                steps.remove(0);
            }
            steps.insert(0, "");
        }
        "self" => {}
        _ => return None,
    }
    base.extend(steps.into_iter().skip(1));
    while !base.is_empty() && !files.contains(&base.join("::")) {
        base.pop();
    }
    (!base.is_empty()).then(|| base.join("::"))
}

/// Where a walk from `from` may come to.
fn reached<'a>(from: &'a str, arrows: &'a BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for next in arrows.get(at).into_iter().flatten() {
            if seen.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    seen
}

/// A `mod.rs` names its parts and hands on their names, so that arrows to and from it are not counted.
#[test]
fn there_are_no_circles_of_files() {
    let sources = sources();
    let files: BTreeSet<String> = sources.iter().map(|source| module_of(&source.name)).collect();
    let is_folder =
        |module: &str| sources.iter().any(|s| s.name == format!("{}/mod.rs", module.replace("::", "/")));
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in
        sources.iter().filter(|source| !source.name.ends_with("mod.rs") && !source.name.ends_with("lib.rs"))
    {
        let module = module_of(&source.name);
        let to = used(&source.code)
            .iter()
            .filter_map(|path| target(path, &module, &files))
            .collect::<BTreeSet<_>>();
        let to = to.into_iter().filter(|to| *to != module && !is_folder(to)).collect();
        arrows.insert(module, to);
    }
    let mut circles: BTreeMap<&str, usize> = BTreeMap::new();
    let mut counted: BTreeSet<&str> = BTreeSet::new();
    for module in arrows.keys() {
        let there = reached(module, &arrows);
        if there.contains(module.as_str()) && !counted.contains(module.as_str()) {
            let circle: Vec<&str> =
                there.into_iter().filter(|other| reached(other, &arrows).contains(module.as_str())).collect();
            circles.insert(module, circle.len());
            counted.extend(circle);
        }
    }
    assert_eq!(circles, BTreeMap::new(), "circles of files: move what both need into a file below them");
}
