//! How the screens follow a recording: to another moment, on while it plays, and an object in full as it was. Must not know how
//! the recording is read.

use super::model::Model;
use super::replay::{Replay, Seek};
use super::screen::Screen;
use crate::fleet::Changes;

/// How a moment of a recording is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Whatever lies between was not seen: nothing on the screen comes from it.
    AtOnce,
    /// Each change is seen as it was.
    Played,
}

impl Model {
    /// Shows a recording from now on, where it stands.
    pub fn begin_replay(&mut self, replay: Replay) {
        let at_ms = replay.at_ms();
        self.replay = Some(replay);
        self.stand_at(at_ms, Pace::AtOnce);
    }

    /// To another moment of the recording.
    pub fn seek(&mut self, seek: Seek) {
        if let Some(goal) = self.replay.as_ref().map(|replay| replay.goal(seek)) {
            self.stand_at(goal, Pace::AtOnce);
        }
    }

    /// What really passed is played.
    pub fn play(&mut self) {
        let Some(replay) = &mut self.replay else { return };
        let Some(to_ms) = replay.played_to() else { return };
        if to_ms >= replay.span_ms().1 {
            replay.stop();
        }
        self.stand_at(to_ms, Pace::Played);
    }

    fn stand_at(&mut self, to_ms: i64, pace: Pace) {
        let Some(mut replay) = self.replay.take() else { return };
        let (first, last) = replay.span_ms();
        let to_ms = to_ms.clamp(first, last);
        let mut jumps = pace == Pace::AtOnce;
        if to_ms < replay.at_ms() {
            // The past cannot be taken back: it is lived through again.
            replay.rewind();
            (self.fleet, jumps) = (self.fleet.anew(), true);
        }
        for (at, deltas) in replay.forward(to_ms) {
            self.fleet.advance(at);
            let changes = self.fleet.apply(deltas);
            if !jumps {
                self.note(&changes);
            }
        }
        self.now = replay.stand_at(to_ms);
        let changes = self.fleet.advance(self.now);
        self.note(&if jumps { Changes::of_everything(&self.fleet) } else { changes });
        self.needs_frame = true;
        self.replay = Some(replay);
    }

    /// Brings the details that are open to the moment that the recording stands at.
    pub fn read_recorded(&mut self) {
        let Some(replay) = &self.replay else { return };
        let at_ms = replay.at_ms();
        if let Some(Screen::Details(details)) = self.screens.last_mut() {
            details.show_recorded(replay.tape(), at_ms);
        }
    }
}
