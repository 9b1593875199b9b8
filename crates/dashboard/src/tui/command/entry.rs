//! How an entry of the table of commands is written down. Must not know which commands there are.

use super::{Argument, Command, Outcome, Run, Scope, ScreenKind};
use crate::tui::model::Model;

/// What a command does to the model, given the argument.
pub type ModelChange = fn(&mut Model, &str) -> Outcome;

/// A command that changes the model, on every screen.
pub const fn command(name: &'static str, scope: Scope, change: ModelChange, help: &'static str) -> Command {
    let (argument, on) = (Argument::None, ScreenKind::Any);
    Command { name, aliases: &[], help, argument, scope, on, run: Run::Screen(change) }
}

/// On these screens alone.
pub const fn only(on: ScreenKind, command: Command) -> Command {
    Command { on, ..command }
}

/// By other names as well.
pub const fn also(command: Command, aliases: &'static [&'static str]) -> Command {
    Command { aliases, ..command }
}

/// With what follows its name.
pub const fn takes(command: Command, argument: Argument) -> Command {
    Command { argument, ..command }
}
