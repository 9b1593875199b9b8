//! What a begun command line may become.

use super::{Argument, Command, Kind, TABLE, columns, condition, discouraged, find, groups, lists};
use crate::fleet::{Listed, Names};
use crate::tui::model::Model;
use crate::tui::overlay::Overlay;
use crate::tui::overlay::prompt::Completion;
use crate::tui::screen::Screen;
use crate::tui::{keymap, theme};

/// Candidates for names from the fleet at most.
const NAMES_MAX: usize = 50;

/// Brings the completions of an open command line up to what is typed.
pub fn complete_prompt(model: &mut Model) {
    judge_draft(model);
    let Some(Overlay::Prompt(prompt)) = model.overlays.last() else {
        model.known.names = None;
        return;
    };
    let Some(line) = prompt.wants_completions() else { return };
    // The picture of all names lasts as long as somebody looks, and costs nothing otherwise.
    let is_looking = line.trim_start().starts_with(find::LINE);
    model.known.names = model
        .known
        .names
        .take()
        .filter(|_| is_looking)
        .or_else(|| is_looking.then(|| Names::of(&model.fleet)));
    let completions = complete(model, line);
    if let Some(Overlay::Prompt(prompt)) = model.overlays.last_mut() {
        prompt.set_completions(completions);
    }
}

/// A change that is being typed is judged behind the line.
fn judge_draft(model: &mut Model) {
    let draft = match model.overlays.last() {
        Some(Overlay::Prompt(prompt)) => {
            let line = prompt.wants_completions().unwrap_or_default();
            line.trim_start().strip_prefix("set ").map(str::to_owned)
        }
        _ => None,
    };
    if let Screen::Change(change) = model.screen_mut() {
        change.set_draft(draft.as_deref());
    }
}

/// Completions of `line`: of its argument once the command is there, else of the command.
pub fn complete(model: &Model, line: &str) -> Vec<Completion> {
    let line = line.trim_start();
    let with_argument = TABLE.iter().filter(|c| c.argument != Argument::None).find_map(|command| {
        let mut names = std::iter::once(&command.name).chain(command.aliases);
        let (name, typed) =
            names.find_map(|name| Some((*name, line.strip_prefix(name)?.strip_prefix(' ')?)))?;
        Some(arguments(model, command, name, typed.trim_start()))
    });
    with_argument.unwrap_or_else(|| commands(model, line))
}

fn commands(model: &Model, line: &str) -> Vec<Completion> {
    let starts = |name: &&str| name.starts_with(line);
    let matching = |c: &&Command| starts(&c.name) || (!line.is_empty() && c.aliases.iter().any(&starts));
    TABLE
        .iter()
        .filter(|c| c.scope != super::Scope::Dialog && c.scope != super::Scope::Motion)
        .filter(matching)
        .map(|c| {
            let refusal = discouraged(model, c);
            let (is_refused, note) = (refusal.is_some(), refusal.unwrap_or_else(|| note(c)));
            Completion { line: c.name.to_owned(), note, is_refused }
        })
        .collect()
}

fn note(command: &Command) -> String {
    match command.argument {
        Argument::None => command.help.to_owned(),
        Argument::Optional(kind) => format!("[{}]  {}", kind.name(), command.help),
        Argument::Required(kind) => format!("{}  {}", kind.name(), command.help),
    }
}

/// `name`: as the command was called.
fn arguments(model: &Model, command: &Command, name: &str, typed: &str) -> Vec<Completion> {
    let (Argument::Optional(kind) | Argument::Required(kind)) = command.argument else { return Vec::new() };
    if kind == Kind::Object && !typed.is_empty() {
        return find::completions(model, typed);
    }
    let all = if kind == Kind::Columns { columns::candidates(model, typed) } else { candidates(model, kind) };
    let found: Vec<Completion> = all
        .into_iter()
        .filter(|candidate| candidate.starts_with(typed))
        .take(NAMES_MAX)
        .map(|candidate| Completion {
            line: format!("{name} {candidate}"),
            note: String::new(),
            is_refused: false,
        })
        .collect();
    // Without a candidate the usage still says what is wanted.
    if found.is_empty() {
        return vec![Completion { line: command.usage(), note: command.help.to_owned(), is_refused: false }];
    }
    found
}

fn candidates(model: &Model, kind: Kind) -> Vec<String> {
    let config = model.look.config_dir.as_deref();
    match kind {
        Kind::Cluster => {
            let rows = model.fleet.clusters().iter().filter_map(|id| model.fleet.row(*id));
            rows.map(|row| row.name.to_string()).collect()
        }
        Kind::Condition => condition::known_types(model).into_iter().collect(),
        Kind::Grouping => groups::keys(model).into_iter().collect(),
        Kind::Attribute => {
            if let Screen::Change(change) = model.screen() {
                change.paths()
            } else {
                Vec::new()
            }
        }
        Kind::Column => {
            let sorts = model.screen().as_fleet().map(|list| list.sorts(true)).unwrap_or_default();
            sorts.into_iter().map(|(word, _)| word).collect()
        }
        Kind::Namespace => {
            let all = std::iter::once(lists::ALL_NAMESPACES);
            all.chain(lists::namespaces(model)).map(str::to_owned).collect()
        }
        Kind::Listed => Listed::ALL.iter().map(|listed| listed.command().to_owned()).collect(),
        Kind::Theme => theme::library(config).names(),
        Kind::Keymap => keymap::library(config).names(),
        Kind::Context => model.contexts.clone(),
        Kind::Plugin => model.look.plugins.names().map(str::to_owned).collect(),
        Kind::WhatIf => {
            let words = crate::actions::tried::SHORT_WORDS.into_iter().chain(["failing"]);
            words.map(|word| format!("{word}=")).collect()
        }
        Kind::OnOff => vec!["on".to_owned(), "off".to_owned()],
        Kind::Filter => lists::namespaces(model).into_iter().map(str::to_owned).collect(),
        Kind::Text
        | Kind::Columns
        | Kind::AnyKind
        | Kind::TimeAndReason
        | Kind::PastTime
        | Kind::PastSpan
        | Kind::File
        | Kind::Object
        | Kind::Pod
        | Kind::OfAction(_)
        | Kind::CommandLine => Vec::new(),
    }
}
