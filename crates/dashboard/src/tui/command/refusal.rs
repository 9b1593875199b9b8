//! Why a command does nothing here and now: the screen, the selected object, or what may be changed from here. Asked
//! before a command runs, for hints and for help, so that all three agree. Must not ask a server.

use super::{Command, Run, ScreenKind, act, parse};
use crate::tui::model::Model;
use crate::tui::screen::Screen;

/// The command that a line of a keymap leads to: of `prompt scale` it is `scale`.
pub fn behind(line: &str) -> Option<&'static Command> {
    let call = parse(line).ok()?;
    let begun = if call.command.name == "prompt" { named(call.argument) } else { None };
    Some(begun.unwrap_or(call.command))
}

/// The command of exactly this name.
pub fn named(name: &str) -> Option<&'static Command> {
    super::TABLE.iter().find(|command| command.name == name)
}

/// Why it would do nothing, as half a sentence; `None` when nothing speaks against it.
pub fn refusal(model: &Model, command: &Command) -> Option<String> {
    let is_here = match command.on {
        ScreenKind::Any => true,
        ScreenKind::Replay => model.replay.is_some(),
        on => kinds(model.screen()).contains(&on),
    };
    match command.run {
        _ if !is_here => Some(command.on.words().to_owned()),
        Run::Screen(_) => None,
        Run::Order(_) => act::refused_as_read_only(model),
        Run::Action(info) => act::refusal(model, info),
    }
}

/// Which kinds of screen an open one is.
fn kinds(screen: &Screen) -> &'static [ScreenKind] {
    match screen {
        Screen::Fleet(_) => &[ScreenKind::Fleet, ScreenKind::List],
        Screen::Tree(_) => &[ScreenKind::Tree, ScreenKind::List, ScreenKind::Folds],
        Screen::Details(s) if s.has_folds() => &[ScreenKind::Details, ScreenKind::Pages, ScreenKind::Folds],
        Screen::Details(_) => &[ScreenKind::Details, ScreenKind::Pages],
        Screen::Change(_) => &[ScreenKind::Change, ScreenKind::Folds, ScreenKind::Pages],
        Screen::Simulation(_) => &[ScreenKind::Simulation],
        Screen::Objects(_) => &[ScreenKind::Fleet],
        Screen::Rollout(_)
        | Screen::Rollouts(_)
        | Screen::Since(_)
        | Screen::Etcd(_)
        | Screen::Locks(_)
        | Screen::Migration(_)
        | Screen::Logs(_) => &[],
    }
}

/// The same, what has no effect on an object that goes, and what the server said of this user's rights: for what is hinted and what is grey. A key still opens the
/// preview, which asks about the one object: a right may be given for single names.
pub fn discouraged(model: &Model, command: &Command) -> Option<String> {
    refusal(model, command).or_else(|| {
        let Run::Action(info) = command.run else { return None };
        let row = model.fleet.row(model.selected_row()?)?;
        if row.is_deleting() {
            return Some("it is being deleted".to_owned());
        }
        model.known.rights.refusal(row, info.access_verb)
    })
}
