//! What capstan is built from, by what cargo says: licences and sources as `deny.toml` allows them, and versions of Rust no
//! newer than ours. Advisories need a database, so they are not judged here.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::tidy_sources::{report, root};

/// What cargo prints; the lock file stays as it is. `None`, said so, when a manifest that it needs is neither here nor can be
/// fetched: it also reads crates that are locked and not built.
fn cargo(args: &[&str]) -> Option<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output =
        Command::new(cargo).args(args).arg("--locked").current_dir(root()).output().expect("cargo runs");
    if !output.status.success() {
        println!("skipped: cargo {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// Every crate that is built for some target of the workspace: name and version, its licence, and where it is from if not
/// from the registry.
fn built() -> Option<BTreeSet<(String, String)>> {
    let edges = ["tree", "--workspace", "--all-features", "--edges", "normal,build,dev", "--prefix", "none"];
    let text = cargo(&[&edges[..], &["--format", "{p}|{l}"]].concat())?;
    let lines = text.lines().filter_map(|line| line.trim_end_matches(" (*)").split_once('|'));
    Some(lines.map(|(package, licence)| (package.replace(" (proc-macro)", ""), licence.to_owned())).collect())
}

fn deny() -> toml::Table {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    text.parse().expect("TOML")
}

fn allowed() -> BTreeSet<String> {
    let list = deny()["licenses"]["allow"].as_array().expect("a list").clone();
    list.iter().map(|licence| licence.as_str().expect("a name").to_owned()).collect()
}

/// The licences that an SPDX expression needs of `allowed`; `None`: it cannot be fulfilled. Of several ways the first that can
/// be. The older `/` means OR.
fn needed(expression: &str, allowed: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let either = |operator: &str| split(expression, operator);
    if let parts @ [_, _, ..] = &either(" OR ")[..] {
        return parts.iter().find_map(|part| needed(part, allowed));
    }
    if let parts @ [_, _, ..] = &either(" AND ")[..] {
        return parts.iter().map(|part| needed(part, allowed)).try_fold(BTreeSet::new(), |mut all, part| {
            all.extend(part?);
            Some(all)
        });
    }
    match expression.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => needed(inner, allowed),
        None => allowed.get(expression.trim()).map(|licence| BTreeSet::from([licence.clone()])),
    }
}

/// The parts between `operator` that no parenthesis holds.
fn split<'a>(expression: &'a str, operator: &str) -> Vec<&'a str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, _) in expression.match_indices(operator) {
        let before = &expression[start..at];
        if before.matches('(').count() == before.matches(')').count() {
            parts.push(before);
            start = at + operator.len();
        }
    }
    parts.push(&expression[start..]);
    parts
}

#[test]
fn licences_are_those_that_deny_toml_allows() {
    let Some(built) = built() else { return };
    let allowed = allowed();
    let (mut problems, mut used) = (Vec::new(), BTreeSet::new());
    for (package, licence) in built {
        match needed(&licence.replace('/', " OR "), &allowed) {
            Some(licences) => used.extend(licences),
            None => problems.push(format!("{package}: {licence:?}")),
        }
    }
    problems.extend(
        allowed.difference(&used).map(|licence| format!("{licence} is allowed, and nothing needs it")),
    );
    report("licences (deny.toml)", &problems);
}

#[test]
fn expressions_of_licences_are_read_as_spdx_means_them() {
    let allowed: BTreeSet<String> =
        ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
    for (expression, is_fulfilled) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("(GPL-3.0 AND MIT) OR GPL-2.0", false),
        ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
        ("Apache-2.0", false),
        ("", false),
    ] {
        assert_eq!(needed(expression, &allowed).is_some(), is_fulfilled, "{expression:?}");
    }
}

#[test]
fn sources_are_the_registry_and_this_repository() {
    let Some(built) = built() else { return };
    let home = root().display().to_string();
    let foreign = |package: &str| {
        let source = package.split_once(" (").map(|(_, source)| source.trim_end_matches(')'));
        source.is_some_and(|source| !source.starts_with(&home))
    };
    let problems: Vec<String> =
        built.into_iter().map(|(package, _)| package).filter(|package| foreign(package)).collect();
    report("sources (deny.toml allows no other registry and no repository)", &problems);
    assert_eq!(deny()["sources"]["allow-git"].as_array().map(Vec::len), Some(0));
}

/// What is built with `rust-version` must build every crate. That our own code uses nothing newer of the standard library is
/// a lint of clippy (`incompatible_msrv`), which reads the same line.
#[test]
fn no_dependency_needs_a_newer_rust_than_we_name() {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let metadata = cargo(&["metadata", "--format-version", "1", "--filter-platform", &platform]);
    let (Some(built), Some(metadata)) = (built(), metadata) else { return };
    let metadata: Value = serde_json::from_str(&metadata).expect("JSON");
    let version = |text: &str| -> Vec<u64> { text.split('.').filter_map(|part| part.parse().ok()).collect() };
    let built: BTreeSet<String> =
        built.iter().map(|(package, _)| package.split(" (").next().unwrap_or_default().to_owned()).collect();
    let packages = metadata["packages"].as_array().expect("packages").iter();
    let name = |package: &Value| {
        let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
        format!("{} v{}", text("name"), text("version"))
    };
    let ours = env!("CARGO_PKG_RUST_VERSION");
    let problems: Vec<String> = packages
        .filter(|package| built.contains(&name(package)))
        .filter_map(|package| Some((name(package), package["rust_version"].as_str()?)))
        .filter(|(_, needs)| version(needs) > version(ours))
        .map(|(name, needs)| format!("{name} needs Rust {needs}; rust-version says {ours}"))
        .collect();
    report("rust-version (Cargo.toml)", &problems);
}
