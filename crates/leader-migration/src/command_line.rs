//! The words of a controller manager's command line, as pflag reads them: which flag stands where, and with which value.
//! Owns the syntax; must not know what a flag means.
//!
//! Source: `github.com/spf13/pflag` `flag.go` (`parseArgs`, `parseLongArg`, `parseShortArg`); both programs refuse words
//! that are not flags (`cmd/kube-controller-manager/app`, `k8s.io/cloud-provider` `app`: `Args` of the command).

use std::ops::Range;

use super::known_flags::takes_value;
use super::manager_kind::ManagerKind;

/// A flag where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenFlag {
    /// With `-` for `_`, which mean the same.
    pub name: String,
    /// `None`: it needs one, and nothing follows.
    pub value: Option<String>,
    /// Its words: one, or two with the value behind a blank.
    pub words: Range<usize>,
}

/// What the words are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// In the order of the words; a flag given twice is here twice.
    pub given: Vec<GivenFlag>,
    /// Words that are neither a flag nor the value of one.
    pub strays: Vec<String>,
}

impl CommandLine {
    /// The program's own name may stand before the flags.
    pub fn read(manager: ManagerKind, words: &[String]) -> Self {
        let mut line = Self::default();
        let mut at = usize::from(words.first().is_some_and(|word| !word.starts_with('-')));
        while let Some(word) = words.get(at) {
            // pflag reads no flag behind it.
            if word == "--" {
                line.strays.extend_from_slice(&words[at + 1..]);
                break;
            }
            match flag_of(word) {
                Some((name, joined)) => {
                    let next = words.get(at + 1);
                    let (value, taken) = value_of(manager, &name, joined, next);
                    line.given.push(GivenFlag { name, value, words: at..at + 1 + taken });
                    at += taken;
                }
                None => line.strays.push(word.clone()),
            }
            at += 1;
        }
        line
    }
}

/// Name, and the value behind `=`. Of one letter there are `-h` and `-v`, whose value may follow at once.
fn flag_of(word: &str) -> Option<(String, Option<&str>)> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let is_name = !name.is_empty() && !name.starts_with('-');
        // Both programs read `_` in names of flags as `-`.
        return is_name.then(|| (name.replace('_', "-"), value));
    }
    match word.strip_prefix('-')? {
        "h" => Some(("help".to_owned(), None)),
        letters => {
            let value = letters.strip_prefix('v')?;
            let value = value.strip_prefix('=').unwrap_or(value);
            Some(("v".to_owned(), Some(value).filter(|value| !value.is_empty())))
        }
    }
}

/// The value, and how many further words it takes. What a flag takes that is not known is told by what follows.
fn value_of(
    manager: ManagerKind,
    name: &str,
    joined: Option<&str>,
    next: Option<&String>,
) -> (Option<String>, usize) {
    if let Some(value) = joined {
        return (Some(value.to_owned()), 0);
    }
    let takes = takes_value(manager, name).unwrap_or_else(|| next.is_some_and(|next| !next.starts_with('-')));
    match next.filter(|_| takes) {
        Some(next) => (Some(next.clone()), 1),
        // A flag without a value is true; one that wants a value and has none ends the program.
        None => ((!takes).then(|| "true".to_owned()), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> CommandLine {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        CommandLine::read(ManagerKind::KubeControllerManager, &words)
    }

    fn shown(text: &str) -> String {
        let line = read(text);
        let flag = |flag: &GivenFlag| {
            format!(
                "{}={}@{}-{}",
                flag.name,
                flag.value.as_deref().unwrap_or("?"),
                flag.words.start,
                flag.words.end
            )
        };
        let flags: Vec<String> = line.given.iter().map(flag).collect();
        format!("{} | {}", flags.join(" "), line.strays.join(" "))
    }

    #[test]
    fn words_as_pflag_reads_them() {
        for (text, expected) in [
            ("kube-controller-manager --leader-elect --v 4", "leader-elect=true@1-2 v=4@2-4 | "),
            ("--cloud_provider gce -v=2 -v3", "cloud-provider=gce@0-2 v=2@2-3 v=3@3-4 | "),
            // The value is whatever follows.
            ("--cloud-provider --leader-elect", "cloud-provider=--leader-elect@0-2 | "),
            ("--leader-elect false --cloud-provider", "leader-elect=true@0-1 cloud-provider=?@2-3 | false"),
            ("--nobody-knows x --nobody-knows --v=1", "nobody-knows=x@0-2 nobody-knows=true@2-3 v=1@3-4 | "),
            ("--v=1 -- --v=2", "v=1@0-1 | --v=2"),
            ("--=x -q", " | --=x -q"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
