//! A command line → a command with its argument.

use super::{Argument, Command, TABLE};
use crate::other_words;
use capstan_base::text::did_you_mean;

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
            // `rollout` is a screen, and the first word of actions.
            let longer =
                |name: &&str| name.strip_prefix(command.name).is_some_and(|rest| rest.starts_with(' '));
            let hint = match other_words::answer(line) {
                Some(said) => format!(": {said}"),
                None => did_you_mean(line, TABLE.iter().map(|c| c.name).filter(longer)),
            };
            Err(format!("`{}` takes no argument, but `{argument}` follows{hint}", command.name))
        }
        Argument::Required(_) if argument.is_empty() => {
            Err(format!("`{}` needs an argument: {}", command.name, command.usage()))
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
    if let Some(said) = other_words::answer(line) {
        return format!("there is no command `{}`: {said}", line.trim());
    }
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    let two = words.next().map(|second| format!("{first} {second}"));
    let names = || TABLE.iter().flat_map(|c| std::iter::once(&c.name).chain(c.aliases)).copied();
    let hint = two.map(|two| did_you_mean(&two, names())).filter(|h| !h.is_empty());
    format!("there is no command `{first}`{}", hint.unwrap_or_else(|| did_you_mean(first, names())))
}
