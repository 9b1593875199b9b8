//! The tables of the dashboard as Markdown: commands, keys, scopes. `docs/` holds what these
//! functions say, and a test compares.

use std::fmt::Write as _;

use super::command::{Scope as Group, TABLE};
use super::keymap::{EMBEDDED, Keymap, Mode};
use super::theme::{self, Scope, Theme, Tier};
use crate::actions::ACTIONS;
use capstan_base::toml_file::FileError;

const GENERATED: &str = "Generated from the tables in `crates/dashboard/src/tui`; `UPDATE_GOLDEN=1 tests/run documents` writes it anew.";

/// `docs/commands.md`.
pub fn commands() -> String {
    let mut out = format!(
        "# Commands\n\n{GENERATED}\n\nTyped after `:`, bound to keys in keymap files. Those marked with * open a \
         preview; nothing is sent\nbefore it is confirmed, and with `--read-only` they do nothing.\n"
    );
    for group in Group::ALL {
        let _ =
            write!(out, "\n## {}\n\n| Command | Also | What it does |\n| --- | --- | --- |\n", group.title());
        for command in TABLE.iter().filter(|c| c.scope == group) {
            let mark = if command.writes() { " *" } else { "" };
            let also: Vec<String> = command.aliases.iter().map(|a| format!("`{a}`")).collect();
            let usage = command.usage().replace('|', "\\|");
            let _ = writeln!(out, "| `{usage}`{mark} | {} | {} |", also.join(" "), command.help);
        }
    }
    out.push_str(&on_the_command_line());
    out
}

/// The actions as commands of the shell.
fn on_the_command_line() -> String {
    let mut out = "\n## The same actions on the command line\n\nFrom the table in `crates/dashboard/src/actions/action.rs`. The object \
                   stands in front of the argument, as KIND/NAME or KIND NAME. An\naction that can break little is \
                   confirmed by enter or `y`, others by `y`, and what can break a control plane or empty a\ndeployment by \
                   the name of the object; `--yes` confirms it beforehand, `--dry-run` only shows the preview. The \
                   option means\nthe same as the argument.\n\nWhat would change nothing (a pause of what is paused, the \
                   replicas that are there) is refused with \"nothing to change\";\neverything that is not done ends with \
                   exit code 1. An object is written in the version that the server offers; what that\nversion has no \
                   field for is refused, and after each write the value is looked for.\n\n| Command | Option | Kinds that take it |\n| --- | --- | --- |\n"
        .to_owned();
    for info in ACTIONS {
        let argument = info.argument.name().map_or(String::new(), |name| format!(" {name}"));
        let option = info.argument.option().map_or(String::new(), |option| format!("`--{option}{argument}`"));
        let takers = info.takers();
        let _ = writeln!(out, "| `capstan {} KIND/NAME{argument}` | {option} | {takers} |", info.name);
    }
    out
}

/// `docs/keys.md`.
///
/// # Errors
/// A built-in keymap that does not load.
pub fn keys() -> Result<String, FileError> {
    let mut out = format!(
        "# Keys\n\n{GENERATED}\n\nA keymap is a TOML file: mode, then keys, then a command line. Modes are {}; every \
         mode falls\nback to `global`. Keys one after another (`g g`) are a chord. `inherits` names the keymap to start \
         from,\nand an empty command line takes a binding away. Put files into `keymaps/` of the configuration\n\
         directory and choose one with `--keymap NAME` or `:keymap NAME`. In the command and filter line,\nkeys edit \
         text: tab completes, up and down recall, escape leaves. A preview is confirmed by enter twice, by\n`yes` and enter, or by \
         the object's name and enter, as its risk is; no letter alone is a yes, and nothing is\nconfirmed before the end of the \
         preview was on the screen.\n",
        Mode::ALL.map(|m| format!("`{}`", m.name())).join(", ")
    );
    for (name, _) in EMBEDDED {
        let keymap = Keymap::load(name, None, super::command::check)?;
        let _ = write!(
            out,
            "\n## {name}\n\n{}.\n\n| Mode | Keys | Command |\n| --- | --- | --- |\n",
            keymap.description
        );
        for (mode, keys, line) in keymap.all().filter(|(_, _, line)| !line.is_empty()) {
            let _ = writeln!(out, "| {} | `{}` | `{line}` |", mode.name(), keys.replace('|', "\\|"));
        }
    }
    Ok(out)
}

/// `docs/scopes.md`.
///
/// # Errors
/// A built-in theme that does not load.
pub fn scopes() -> Result<String, FileError> {
    let mut out = format!(
        "# Themes and their scopes\n\n{GENERATED}\n\nA theme is a TOML file: an optional `[palette]` of names, and \
         `[scopes]`. A scope without a style of its\nown takes that of its parent (`verdict.ok` → `verdict` → `text`). A \
         style is a colour, or\n`{{ fg, bg, fg16, bg16, add, mono }}`: `fg16` and `bg16` are used on terminals with 16 \
         colours, `add` lists\nattributes (bold, dim, italic, underlined, reversed, crossed-out), `mono` those used \
         instead when there is\nno colour (`NO_COLOR`, `--color never`). A colour is a palette name, `#rrggbb`, 0-255, \
         one of the 16 names,\nor `default`. Richer colours come down to what the terminal has. `inherits` names the \
         theme to start\nfrom. Put files into `themes/` of the configuration directory and choose one with `--theme \
         NAME` or\n`:theme NAME`.\n\n| Theme | |\n| --- | --- |\n"
    );
    for (name, _) in theme::EMBEDDED {
        let theme = Theme::load(name, None, Tier::Ansi16, false)?;
        let _ = writeln!(out, "| `{name}` | {} |", theme.description);
    }
    out.push_str("\n| Scope | What it is |\n| --- | --- |\n");
    for scope in Scope::ALL {
        let _ = writeln!(out, "| `{}` | {} |", scope.name(), scope.help());
    }
    Ok(out)
}
