//! What is printed below a word that the command line does not know: which command it stands for, when it is one of another
//! tool, a kind, or a command of the dashboard. Must not know what words of upstream's documents mean, which `other_words` does.

use std::ffi::OsString;

use capi_types::crds;
use capstan_dashboard::other_words;
use capstan_dashboard::tui::command::TABLE;
use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue};

use super::args::Cli;

/// The error with a sentence in place of a word that is only spelled alike. The first of `words` is the program.
pub fn with_answer(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let typed = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg].into_iter();
    let typed = typed.filter_map(|kind| error.get(kind)).find_map(|value| match value {
        ContextValue::String(typed) => Some(typed.clone()),
        _ => None,
    });
    let answer = typed.and_then(|typed| {
        let (before, after) = with_neighbours(&typed, words);
        let known = other_words::answer(&before).or_else(|| other_words::answer(&after)).map(str::to_owned);
        known.or_else(|| of_kind(&typed)).or_else(|| below_another(&typed)).or_else(|| of_dashboard(&typed))
    });
    if let Some(said) = answer {
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![said.into()]));
    }
    error
}

/// `rollout undo` for `undo`, and `primary lock` for `primary`, where the program was called so.
fn with_neighbours(typed: &str, words: &[OsString]) -> (String, String) {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let is_typed =
        |word: &str| word.strip_prefix(typed).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
    let at = words.iter().position(|word| is_typed(word)).unwrap_or(0);
    // The program's own name is not a word of the command.
    let before = at.checked_sub(1).filter(|before| *before > 0).and_then(|before| words.get(before));
    let after = words.get(at + 1).filter(|_| at > 0);
    (
        before.map_or_else(|| typed.to_owned(), |before| format!("{before} {typed}")),
        after.map_or_else(|| typed.to_owned(), |after| format!("{typed} {after}")),
    )
}

/// Of a kind of Cluster API, by any of its names on a server.
fn of_kind(typed: &str) -> Option<String> {
    let is_it = |name: &str| name.eq_ignore_ascii_case(typed);
    let mut names = crds::all().into_iter().map(|definition| definition.spec.names);
    let found = names.find(|names| {
        let is_short = names.short_names.iter().flatten().any(|name| is_it(name));
        is_short || is_it(&names.kind) || is_it(&names.plural)
    })?;
    let name = found.plural;
    Some(format!("a kind: `capstan get {name}` lists its objects, `:{name}` does so in the dashboard"))
}

/// Of a command that has another word before it.
fn below_another(typed: &str) -> Option<String> {
    let root = Cli::command();
    let is_it = |command: &&clap::Command| command.get_subcommands().any(|below| below.get_name() == typed);
    let found = root.get_subcommands().filter(is_it);
    let lines: Vec<String> = found.map(|above| format!("`capstan {} {typed}`", above.get_name())).collect();
    (!lines.is_empty()).then(|| format!("there is {}", lines.join(" and ")))
}

fn of_dashboard(typed: &str) -> Option<String> {
    let found = TABLE.iter().find(|command| command.name == typed || command.aliases.contains(&typed));
    found.map(|command| format!("a command of the dashboard: `:{}` there", command.name))
}
