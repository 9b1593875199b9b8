//! Commands: the one registry behind keys, command line, help and `docs/commands.md`. Owns names,
//! parsing and completion. Commands of the screen are functions that change the model; those that act on an object
//! are the rows of [`crate::actions::ACTIONS`].

mod act;
mod choose;
mod cluster;
mod columns;
mod complete;
mod condition;
mod configuration;
mod entry;
mod find;
mod groups;
mod help;
mod lists;
mod logs;
mod navigate;
mod outside;
mod parse;
mod past;
mod quiet;
mod refusal;
mod table;

pub use complete::{complete, complete_prompt};
pub use parse::{Call, check, parse, parse_typed};
pub use refusal::{behind, discouraged, named, refusal};
pub use table::TABLE;

use super::effect::Effect;
use super::model::Model;
use crate::actions::ActionInfo;

/// The effects of a command, or why it did nothing.
pub type Outcome = Result<Vec<Effect>, String>;

#[derive(Clone, Copy)]
pub struct Command {
    /// As typed; two words at most.
    pub name: &'static str,
    /// Other names, as in k9s and kubectl.
    pub aliases: &'static [&'static str],
    /// One line.
    pub help: &'static str,
    pub argument: Argument,
    pub scope: Scope,
    pub on: ScreenKind,
    pub run: Run,
}

/// What a command does.
#[derive(Clone, Copy)]
pub enum Run {
    /// Changes the model, given the argument; writes nothing.
    Screen(fn(&mut Model, &str) -> Outcome),
    /// Opens the preview of what the open screen would have done; what is confirmed there is written.
    Order(fn(&mut Model, &str) -> Outcome),
    /// Opens the preview of this action on the selected object; what is confirmed there is written.
    Action(&'static ActionInfo),
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
    /// Columns of a list, and paths to fields.
    Columns,
    Text,
    /// A namespace, or what may stand behind `/`.
    Filter,
    /// One that has clusters, or the word for all.
    Namespace,
    /// A list over the fleet, by its command.
    Listed,
    /// A kind of the server by any of its names, then a namespace or what may stand behind `/`.
    AnyKind,
    /// How long, and why.
    TimeAndReason,
    /// A moment before now.
    PastTime,
    /// One or two of them.
    PastSpan,
    /// The argument of an action, by its name in help.
    OfAction(&'static str),
    Theme,
    Keymap,
    Context,
    File,
    Condition,
    Grouping,
    /// A field of the kubeadm configuration.
    Attribute,
    Object,
    /// Of a workload cluster.
    Pod,
    Plugin,
    CommandLine,
    OnOff,
    /// Something to try.
    WhatIf,
}

impl Kind {
    /// As shown in help.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cluster => "CLUSTER",
            Self::Column => "COLUMN",
            Self::Columns => "[+]NAME,NAME=.PATH",
            Self::Text => "TEXT",
            Self::Filter => "NAMESPACE|FILTER",
            Self::Namespace => "NAMESPACE",
            Self::Listed => "KIND",
            Self::AnyKind => "KIND [NAMESPACE|/WORDS]",
            Self::TimeAndReason => "TIME REASON",
            Self::PastTime => "TIME",
            Self::PastSpan => "TIME [TIME]",
            Self::OfAction(name) => name,
            Self::Theme => "THEME",
            Self::Keymap => "KEYMAP",
            Self::Context => "CONTEXT",
            Self::File => "FILE",
            Self::Object => "NAME",
            Self::Pod => "NAMESPACE/POD",
            Self::Plugin => "PLUGIN",
            Self::Condition => "TYPE [KIND]",
            Self::Grouping => "FIELD|LABEL",
            Self::Attribute => "PATH=VALUE",
            Self::CommandLine => "COMMAND",
            Self::OnOff => "on|off",
            Self::WhatIf => "[POOL:]WORD=VALUE",
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

/// On which screens a command does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenKind {
    Any,
    /// Lists over the fleet: of clusters, and of objects below them.
    Fleet,
    Tree,
    /// Lists over the fleet and trees.
    List,
    Details,
    Change,
    /// Trees, what is shown as one, and texts with parts to close.
    Folds,
    /// Screens with several pages.
    Pages,
    Simulation,
    /// Any screen, while a recording is shown.
    Replay,
}

impl ScreenKind {
    /// Where it is and how to get there.
    pub fn words(self) -> &'static str {
        match self {
            Self::Any => "everywhere",
            Self::Fleet => "only in lists over the fleet; :clusters goes to one",
            Self::Tree => "only in a tree; :tree opens one",
            Self::List => "only in lists; :clusters opens one",
            Self::Details => "only in details; :details opens them",
            Self::Folds => "only in trees, YAML and long messages; :yaml opens one",
            Self::Change => "only in a configuration; :change opens one",
            Self::Pages => "only in details and configurations; :details opens them",
            Self::Simulation => "only in a simulation; :simulate opens one",
            Self::Replay => "only in a recording; capstan dashboard --replay FILE shows one",
        }
    }
}

impl Command {
    /// Does what the command is for.
    ///
    /// # Errors
    /// Why nothing was done, in a sentence.
    pub fn run(&self, model: &mut Model, argument: &str) -> Outcome {
        match self.run {
            Run::Screen(change) | Run::Order(change) => change(model, argument),
            Run::Action(info) => act::preview(model, info, argument),
        }
    }

    /// It may write, after a preview. Refused when read-only.
    pub fn writes(&self) -> bool {
        match self.run {
            Run::Screen(_) => false,
            Run::Action(_) | Run::Order(_) => true,
        }
    }

    /// `scale N`, `filter [TEXT]`.
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
