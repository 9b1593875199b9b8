//! What can happen to the program: the only input of `update`.

use std::time::Duration;

use crossterm::event::{KeyEvent, MouseEvent};

use super::effect::EffectOutcome;
use crate::fleet::Delta;

#[derive(Debug)]
pub enum Msg {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Paste(String),
    Resize {
        width: u16,
        height: u16,
    },
    Fleet(Vec<Delta>),
    Done(EffectOutcome),
    Login(LoginNews),
    /// A shown age may have changed; the new time is in the model already.
    Tick,
    Signal(Signal),
}

/// Of a program that logs a person in, while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginNews {
    /// It is stopped after that time.
    Runs {
        program: String,
        limit: Duration,
    },
    /// A line for the person.
    Says(String),
    Ended,
}

/// Signals that the program answers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2 from outside; in raw mode ctrl-c is a key.
    Terminate(i32),
    /// SIGHUP, or the terminal is gone.
    Hangup,
    /// SIGTSTP.
    Suspend,
    /// SIGCONT: somebody else may have drawn meanwhile.
    Continue,
    /// SIGWINCH.
    Resize,
}
