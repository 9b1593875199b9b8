//! The real dashboard in a pseudo-terminal, with keys that cannot be misread and a way to know that they were
//! handled. Must not know what is attacked.

use std::path::Path;

use portable_pty::CommandBuilder;

use crate::standalone::BINARY;
use crate::terminal::Pty;

/// Escape in a form that no other key can begin with.
pub const ESCAPE: &str = "\x1b[27u";
/// More dialogs than keys can have opened since the last time.
const DIALOGS_MAX: usize = 20;
/// What the help says wherever it is opened.
const HELP: &str = "help: keymap";

pub struct Dashboard {
    pub pty: Pty,
}

impl Dashboard {
    /// With its own home folder. The screen is large enough for whole lines.
    pub fn open(kubeconfig: &Path, home: &Path, extra: &[&str]) -> Self {
        let mut command = CommandBuilder::new(BINARY);
        command.arg("--kubeconfig");
        command.arg(kubeconfig);
        command.args(extra);
        for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
            command.env(variable, home);
        }
        command.env("TERM", "xterm-256color");
        Self { pty: Pty::open_sized(command, 50, 200) }
    }

    pub fn press(&mut self, keys: &str) {
        self.pty.press(keys);
    }

    /// Types a command line.
    pub fn command(&mut self, line: &str) {
        self.press(&format!(":{line}\r"));
    }

    /// Leaves every dialog, and waits until all keys so far were handled.
    /// Dialogs that a late answer opens are closed too; what lies open below may not stay.
    pub fn settle(&mut self) {
        self.press(&ESCAPE.repeat(DIALOGS_MAX));
        self.press("?");
        self.pty.shows(HELP);
        self.press(&ESCAPE.repeat(DIALOGS_MAX));
        self.pty.until("the help to close", |pty| !pty.text().contains(HELP));
    }

    /// Opens the help and closes it again: a key is answered.
    pub fn answers(&mut self) {
        self.press("?");
        self.pty.shows(HELP);
        self.press(ESCAPE);
        self.pty.until("the help to close", |pty| !pty.text().contains(HELP));
    }

    /// The first line of the screen.
    pub fn header(&self) -> String {
        self.pty.text().lines().next().unwrap_or_default().to_owned()
    }

    /// Leaves it; everything that was written to the terminal.
    pub fn quit(mut self) -> Vec<u8> {
        self.settle();
        self.command("quit");
        self.pty.end();
        self.pty.raw().to_vec()
    }
}
