//! Dialogs over the open screen, as a stack of values; the last one gets keys first. This file
//! routes.

pub mod frame;
pub mod help;
pub mod launch;
pub mod many;
pub mod notice;
pub mod preview;
pub mod prompt;
pub mod reading;
pub mod refusal;

use crossterm::event::KeyEvent;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::cursor::Motion;
use super::effect::Effect;
use super::keymap::Keymap;
use super::paint::Paint;
use crate::fleet::SourceId;

pub enum Overlay {
    /// The command or filter line.
    Prompt(prompt::Prompt),
    /// No such line here.
    Refusal(refusal::Refusal),
    Help(help::Help),
    Preview(Box<preview::PreviewBox>),
    Many(Box<many::ManyBox>),
    Notice(notice::Notice),
    /// What a program says that logs somebody in.
    Login(notice::Notice),
    /// A program that is about to be run.
    Launch(Box<launch::LaunchBox>),
    /// An object is read for the editor, or the change of its text was refused.
    Draft {
        ticket: u64,
        source: SourceId,
        notice: notice::Notice,
        is_refused: bool,
    },
}

/// What a dialog makes of a key that it takes itself.
#[derive(Debug)]
pub enum Answer {
    Handled,
    Close,
    /// Close, and run this command line.
    Run(String),
    /// The filter is now this.
    Filter(String),
    /// The same, and it is done.
    CloseWithFilter(String),
    /// Move on the screen below.
    Move(Motion),
    Effects(Vec<Effect>),
}

impl Overlay {
    /// `None`: the key is not typed into the dialog, and its binding decides.
    pub fn on_key(&mut self, event: KeyEvent, history: &[String]) -> Option<Answer> {
        match self {
            Self::Prompt(prompt) => Some(prompt.on_key(event, history)),
            Self::Refusal(refusal) => Some(refusal.on_key(event)),
            Self::Preview(preview) => preview.on_key(event),
            Self::Many(many) => many.on_key(event),
            Self::Help(_) | Self::Notice(_) | Self::Login(_) | Self::Launch(_) | Self::Draft { .. } => None,
        }
    }

    /// `None`: there is no field to paste into.
    pub fn on_paste(&mut self, text: &str) -> Option<Answer> {
        match self {
            Self::Prompt(prompt) => Some(prompt.on_paste(text)),
            Self::Refusal(_) => Some(Answer::Handled),
            Self::Preview(preview) => preview.on_paste(text),
            Self::Many(many) => many.on_paste(text),
            Self::Help(_) | Self::Notice(_) | Self::Login(_) | Self::Launch(_) | Self::Draft { .. } => None,
        }
    }

    pub fn step(&mut self, motion: Motion, area: Rect) {
        match self {
            Self::Prompt(_) | Self::Refusal(_) => {}
            Self::Help(help) => help.step(motion, area),
            Self::Preview(preview) => preview.step(motion, area),
            Self::Many(many) => many.step(motion, area),
            Self::Notice(notice) | Self::Login(notice) | Self::Draft { notice, .. } => {
                notice.step(motion, area);
            }
            Self::Launch(launch) => launch.notice.step(motion, area),
        }
    }

    /// Draws it; answers where the cursor belongs, if there is a field.
    pub fn view(
        &self,
        keymap: &Keymap,
        paint: &Paint<'_>,
        area: Rect,
        buffer: &mut Buffer,
    ) -> Option<Position> {
        match self {
            Self::Prompt(prompt) => prompt.view(paint, area, buffer),
            Self::Refusal(refusal) => {
                refusal.view(paint, area, buffer);
                None
            }
            Self::Help(help) => {
                help.view(keymap, paint, area, buffer);
                None
            }
            Self::Preview(preview) => preview.view(paint, area, buffer),
            Self::Many(many) => many.view(paint, area, buffer),
            Self::Notice(notice) | Self::Login(notice) | Self::Draft { notice, .. } => {
                notice.view(paint, area, buffer);
                None
            }
            Self::Launch(launch) => {
                launch.notice.view(paint, area, buffer);
                None
            }
        }
    }
}
