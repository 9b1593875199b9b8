//! A command line → a command with its argument; "did you mean" for everything that has names.

use super::{Argument, Command, TABLE};

/// A command line that was understood.
pub struct Call<'a> {
    pub command: &'static Command,
    /// Empty without one.
    pub argument: &'a str,
}

/// The longest name (or alias) that `line` begins with, and the rest as its argument. A leading
/// colon is forgiven.
///
/// # Errors
/// An unknown name, a missing argument, or one too many; as a sentence.
pub fn parse(line: &str) -> Result<Call<'_>, String> {
    let line = line.trim().trim_start_matches(':').trim_start();
    if line.is_empty() {
        return Err("an empty command".to_owned());
    }
    let found = TABLE
        .iter()
        .flat_map(|c| std::iter::once(&c.name).chain(c.aliases).map(move |name| (*name, c)))
        .filter_map(|(name, command)| rest_after(line, name).map(|argument| (name, command, argument)))
        .max_by_key(|(name, ..)| name.len());
    let Some((_, command, argument)) = found else { return Err(unknown(line)) };
    match command.argument {
        Argument::None if !argument.is_empty() => {
            Err(format!("`{}` takes no argument, but `{argument}` follows", command.name))
        }
        Argument::Required(_) if argument.is_empty() => {
            Err(format!("`{}` needs {}", command.name, command.usage()))
        }
        _ => Ok(Call { command, argument }),
    }
}

/// Whether a keymap may hold this line: a command that exists, with an argument if it needs one.
///
/// # Errors
/// As [`parse`].
pub fn check(line: &str) -> Result<(), String> {
    parse(line).map(|_| ())
}

/// The argument when `line` begins with the words of `name`, however many spaces are between them.
fn rest_after<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = line;
    for word in name.split(' ') {
        rest = rest.trim_start().strip_prefix(word)?;
        if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
            return None;
        }
    }
    Some(rest.trim())
}

fn unknown(line: &str) -> String {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    let two = words.next().map(|second| format!("{first} {second}"));
    let names = || TABLE.iter().flat_map(|c| std::iter::once(&c.name).chain(c.aliases)).copied();
    let hint = two.map(|two| did_you_mean(&two, names())).filter(|h| !h.is_empty());
    format!("there is no command `{first}`{}", hint.unwrap_or_else(|| did_you_mean(first, names())))
}

/// `; did you mean `x`?` for the nearest known name, or nothing when none is near.
#[must_use]
pub fn did_you_mean<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> String {
    let allowed = (typed.chars().count() / 3).clamp(1, 3);
    known
        .map(|name| (distance(typed, name), name))
        .filter(|(d, name)| *d <= allowed || (typed.len() >= 3 && name.starts_with(typed)))
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| format!("; did you mean `{name}`?"))
        .unwrap_or_default()
}

/// Edits between two words: insert, delete, replace, swap neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}
