//! How commands become those of root on a host. Owns the words with which sudo asks and is answered; must not know what is run.
//! Source: sudo 1.8 to 1.9, `sudo(8)`: `-S` reads the password from standard input, `-p` is what it asks with.

use std::fmt;

use capstan_base::command_line::CommandLine;
use capstan_base::text::sanitize_line;

use super::program::Opening;

/// What sudo asks with. No password is written before this was read.
const PROMPT: &str = "capstan-asks-for-the-password-of-sudo:";
/// What the shell says behind sudo, before anything else is sent.
const READY: &str = "capstan-has-a-shell-of-root\n";

/// A password that no output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    pub fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// How the user of a connection becomes root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sudo {
    /// He is root, or the line needs no root.
    #[default]
    No,
    /// `sudo -n`, which never asks.
    Passwordless,
    /// `sudo -S`, with one try.
    Password(Password),
}

impl Sudo {
    /// The line as the user's shell gets it.
    pub(super) fn around(&self, line: &CommandLine) -> CommandLine {
        match self {
            Self::No => line.clone(),
            Self::Passwordless => CommandLine::of("sudo -n sh -c {}", [line.as_str()]),
            Self::Password(_) => {
                // The trailing newline is what ends the line of `printf`, so that nothing is mixed into it.
                let inner = CommandLine::of("printf %s {} >&2; exec sh -c {}", [READY, line.as_str()]);
                CommandLine::of("sudo -S -p {} sh -c {}", [PROMPT, inner.as_str()])
            }
        }
    }

    /// What is said before the input of the line.
    pub(super) fn opening(&self) -> Option<Opening<'_>> {
        match self {
            Self::Password(password) => Some(Opening {
                question: PROMPT.as_bytes(),
                answer: password.0.as_bytes(),
                ready: READY.as_bytes(),
            }),
            Self::No | Self::Passwordless => None,
        }
    }
}

/// What sudo said when it gave no shell: its last line.
pub(super) fn refusal_of(stderr: &str) -> String {
    let mut lines = stderr.lines().rev().map(|line| line.replace(PROMPT, ""));
    let last = lines.find(|line| !line.trim().is_empty());
    sanitize_line(last.unwrap_or_else(|| "it said nothing".to_owned()).trim())
}
