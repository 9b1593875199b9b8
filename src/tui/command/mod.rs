//! Commands: the one registry behind keys, command line, help and `docs/commands.md`. Owns names,
//! parsing and completion. What a command does is a function in the table that changes the model.

mod act;
mod complete;
mod navigate;
mod parse;
mod table;

pub use complete::{complete, complete_prompt};
pub use parse::{Call, check, parse};
pub use table::TABLE;

use super::effect::Effect;
use super::model::Model;

/// What a command asks the shell to do, or why it did nothing.
pub type Outcome = Result<Vec<Effect>, String>;

/// One named thing a person can do.
pub struct Command {
    /// As typed; two words at most.
    pub name: &'static str,
    /// Other names, as in k9s and kubectl.
    pub aliases: &'static [&'static str],
    /// One line.
    pub help: &'static str,
    pub argument: Argument,
    pub scope: Scope,
    pub risk: Risk,
    pub run: fn(&mut Model, &str) -> Outcome,
}

/// What follows the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    None,
    Optional(Kind),
    Required(Kind),
}

/// What an argument is, for help and completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cluster,
    Column,
    Text,
    Replicas,
    Moment,
    Version,
    Theme,
    Keymap,
    CommandLine,
    OnOff,
}

impl Kind {
    /// As shown in help.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cluster => "CLUSTER",
            Self::Column => "COLUMN",
            Self::Text => "TEXT",
            Self::Replicas => "N",
            Self::Moment => "WHEN",
            Self::Version => "VERSION",
            Self::Theme => "THEME",
            Self::Keymap => "KEYMAP",
            Self::CommandLine => "COMMAND",
            Self::OnOff => "on|off",
        }
    }
}

/// Where a command makes sense, which is also how help groups it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Moving about; works in dialogs too.
    Motion,
    /// Which screen is open.
    Go,
    /// What the open screen shows.
    View,
    /// On the selected object.
    Object,
    /// The program itself.
    Program,
    /// Answers to a dialog.
    Dialog,
}

impl Scope {
    pub const ALL: [Self; 6] =
        [Self::Go, Self::Motion, Self::View, Self::Object, Self::Program, Self::Dialog];

    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Motion => "Move",
            Self::Go => "Go",
            Self::View => "View",
            Self::Object => "Act on the selected object",
            Self::Program => "Program",
            Self::Dialog => "In a dialog",
        }
    }
}

/// What a command may change outside this screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Risk {
    /// Nothing.
    Nothing,
    /// It opens a preview; what is confirmed there is sent. Refused when read-only.
    Writes,
}

impl Command {
    /// `scale N`, `filter [TEXT]`.
    #[must_use]
    pub fn usage(&self) -> String {
        match self.argument {
            Argument::None => self.name.to_owned(),
            Argument::Optional(kind) => format!("{} [{}]", self.name, kind.name()),
            Argument::Required(kind) => format!("{} {}", self.name, kind.name()),
        }
    }
}

#[cfg(test)]
mod tests;
