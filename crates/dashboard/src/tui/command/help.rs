//! The table of commands as help shows it: those that have a key, and why one of them does nothing now. Must not know
//! how it is drawn.

use super::{Command, Scope, TABLE, discouraged};
use crate::tui::keymap::{Keymap, Mode};
use crate::tui::model::Model;
use crate::tui::overlay::help::{CommandHelp, HelpGroup, KEYS_WIDTH};
use crate::tui::screen::Screen;

/// Groups of commands for the open screen and what is selected there. Dialogs show their own keys.
pub fn groups(model: &Model) -> Vec<HelpGroup> {
    let mode = model.screen_mode();
    let entry = |command: &Command| {
        let keys = keys_of(&model.look.keymap, mode, command.name);
        (!keys.is_empty()).then(|| CommandHelp {
            keys,
            usage: command.usage(),
            help: command.help,
            refusal: discouraged(model, command),
        })
    };
    let group = |scope: Scope| HelpGroup {
        title: scope.title(),
        entries: TABLE.iter().filter(|command| command.scope == scope).filter_map(entry).collect(),
    };
    Scope::ALL.into_iter().filter(|scope| *scope != Scope::Dialog).map(group).collect()
}

/// Are there columns of the open screen that count replicas under a letter each?
pub fn has_letters(model: &Model) -> bool {
    match model.screen() {
        Screen::Tree(_) => true,
        Screen::Fleet(list) => model.preferences.wide || !list.opens_trees(),
        Screen::Details(_)
        | Screen::Rollout(_)
        | Screen::Rollouts(_)
        | Screen::Since(_)
        | Screen::Objects(_)
        | Screen::Etcd(_)
        | Screen::Locks(_)
        | Screen::Migration(_)
        | Screen::Logs(_)
        | Screen::Change(_)
        | Screen::Simulation(_) => false,
    }
}

/// The keys of a command, bare or with its line begun in the prompt.
fn keys_of(keymap: &Keymap, mode: Mode, name: &str) -> String {
    let mut keys = keymap.keys_for(mode, name);
    keys.extend(keymap.keys_for(mode, &format!("prompt {name}")));
    let mut text = String::new();
    for key in keys {
        let more = if text.is_empty() { key } else { format!("{text}, {key}") };
        // As many as fit: each is another way to the same.
        if more.len() < KEYS_WIDTH {
            text = more;
        }
    }
    text
}
