//! A command line → a command with its argument.

use super::{Argument, Command, TABLE};
use crate::other_words;
use capstan_base::text::{did_you_mean, nearest};

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

/// As [`parse`], for a line that a person typed: a word that neither is nor resembles a command is taken for a kind of the server.
///
/// # Errors
/// As [`parse`].
pub fn parse_typed(line: &str) -> Result<Call<'_>, String> {
    parse(line).or_else(|why| {
        let bare = line.trim().trim_start_matches(':').trim();
        let word = bare.split_whitespace().next().unwrap_or_default();
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
        let may_be_kind = word.len() > 1 && word.bytes().all(letters) && other_words::answer(bare).is_none();
        // The first letter is seldom mistyped, and many kinds end as a command does: `awsmachines`.
        let is_near = nearest(word, names()).is_some_and(|near| near.get(..1) == word.get(..1));
        match super::named("get").filter(|_| may_be_kind && !is_near) {
            Some(command) => Ok(Call { command, argument: bare }),
            None => Err(why),
        }
    })
}

fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|c| std::iter::once(&c.name).chain(c.aliases)).copied()
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
    let hint = two.map(|two| did_you_mean(&two, names())).filter(|h| !h.is_empty());
    format!("there is no command `{first}`{}", hint.unwrap_or_else(|| did_you_mean(first, names())))
}
