//! The flags of each component and release. Owns the table and what is said of a flag that is not in it, or of a value that is not of
//! its type.
//!
//! Source: pflag `flag.go` (`failf`), component-base `cli/flag` (`WordSepNormalizeFunc`: `_` is read as `-`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::super::render::ETCD;
use super::value::FlagType;
use super::{NotAccepted, Releases, gates, limits, span, version};
use capstan_base::text::nearest;

const TABLE: &str = include_str!("flags.txt");

struct KnownFlag {
    type_: FlagType,
    adds_up: bool,
    releases: Releases,
}

type Program = BTreeMap<&'static str, KnownFlag>;

static PROGRAMS: LazyLock<BTreeMap<&'static str, Program>> = LazyLock::new(|| {
    let mut programs: BTreeMap<&str, Program> = BTreeMap::new();
    for (program, name, flag) in TABLE.lines().filter_map(row) {
        programs.entry(program).or_default().insert(name, flag);
    }
    programs
});

/// `COMPONENT NAME TYPE RELEASES [DEPRECATED]`.
fn row(line: &'static str) -> Option<(&'static str, &'static str, KnownFlag)> {
    let mut words = line.split(' ').take_while(|word| !word.starts_with('#'));
    let (program, name, form) = (words.next()?, words.next()?, words.next()?);
    let releases = Releases::parse(words.next()?)?;
    Some((
        program,
        name,
        KnownFlag { type_: type_of(program, name, form), adds_up: adds_up(program, form), releases },
    ))
}

/// The word of the table, or more than it says.
fn type_of(program: &str, name: &str, word: &str) -> FlagType {
    match (program, name, word) {
        (_, "watch-cache-sizes", _) => FlagType::Sizes,
        // etcd's lists are cut at commas and nothing more.
        (ETCD, _, "stringSlice") => FlagType::Text,
        _ => FlagType::named(word),
    }
}

/// Source: pflag `{string_slice,string_array,int32_slice,string_to_string}.go` and component-base `cli/flag` (`Set`: the
/// first value replaces the default, each later one is added), etcd 3.6.8 `pkg/flags/strings.go` (`Set` replaces).
fn adds_up(program: &str, word: &str) -> bool {
    match word {
        "mapStringBool" => true,
        "stringSlice" | "stringArray" | "int32Slice" | "stringToString" | "mapStringString"
        | "namedCertKey" => program != ETCD,
        _ => false,
    }
}

/// Do the values of a flag that stands several times add up? Otherwise the last one counts.
pub(super) fn is_list(component: &str, name: &str) -> bool {
    let known = PROGRAMS.get(component).and_then(|program| program.get(name));
    known.is_some_and(|flag| flag.adds_up)
}

/// Why the component of this release does not start with the flag. `None`: it does, or that is not known. Values of a release
/// before those of the table are judged as its first one does, as flags seldom change their type; which flags it had is not known.
pub(super) fn refused(component: &str, minor: u64, name: &str, value: &str) -> Option<NotAccepted> {
    let program = PROGRAMS.get(component)?;
    let known = span(program.values().map(|flag| &flag.releases));
    let (is_older, judged) = (minor < *known.start(), minor.clamp(*known.start(), *known.end()));
    // Kubernetes components read `_` in names of flags as `-`; etcd does not.
    let read = if component == ETCD { name.to_owned() } else { name.replace('_', "-") };
    let Some(flag) = program.get(read.as_str()) else {
        return (!is_older).then(|| unknown(component, judged, &read, program));
    };
    if !flag.releases.has(judged) {
        return Some(of_another_release(component, minor, &read, &flag.releases));
    }
    let said = |problem: String| NotAccepted {
        problem: format!("{component} does not start with --{read}={value}: {problem}."),
        instead: "Give a value that the component takes.".to_owned(),
    };
    // The table of gates is that of Kubernetes; etcd has its own.
    if read == "feature-gates" && component != ETCD {
        return gates::refused_list(minor, value).map(said);
    }
    flag.type_
        .problem(value)
        .or_else(|| limits::problem(component, judged, &read, flag.type_, value))
        .map(said)
}

fn unknown(component: &str, minor: u64, name: &str, program: &Program) -> NotAccepted {
    let there = program.iter().filter(|(_, flag)| flag.releases.has(minor)).map(|(name, _)| *name);
    let instead = match nearest(name, there) {
        Some(meant) => format!("Did you mean {meant}?"),
        None => "Leave it out; --force passes it to a component of another make.".to_owned(),
    };
    let version = version(component, minor);
    NotAccepted {
        problem: format!(
            "{component} {version} does not have a flag --{name}: it ends when it starts, and its old pod is gone by then."
        ),
        instead,
    }
}

fn of_another_release(component: &str, minor: u64, name: &str, releases: &Releases) -> NotAccepted {
    let (of, version) = (|minor| version(component, minor), version(component, minor));
    let when = if minor < releases.first() {
        format!("it begins with {}", of(releases.first()))
    } else {
        // A flag may be gone in one release and back in a later one: the last release before this
        // one counts.
        format!("the last release with it was {}", of(releases.last().min(minor.saturating_sub(1))))
    };
    NotAccepted {
        problem: format!(
            "{component} {version} does not have the flag --{name} ({when}): it ends when it starts."
        ),
        instead: "Leave it out.".to_owned(),
    }
}

/// Every component with the names of its flags, for tests of the rules.
#[cfg(test)]
pub(super) fn names(component: &str) -> Vec<&'static str> {
    PROGRAMS[component].keys().copied().collect()
}

/// Is a line of the table, that is not of its head, in its form?
#[cfg(test)]
pub(super) fn is_whole() -> bool {
    TABLE.lines().filter(|line| !line.starts_with('#')).all(|line| row(line).is_some())
}
