//! How far a person has read what a dialog asks about: its end was on the screen, and for as long as the context's settings want. Owns
//! when that is so; must not know what is asked.

use capstan_base::time::Timestamp;

use crate::tui::paint::Paint;

/// What has been read of a dialog.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// From its end on the screen to the first moment at which it can be confirmed.
    wait_s: u32,
    /// The first picture that had its end.
    end_seen_at: Option<Timestamp>,
    is_done: bool,
}

/// Whether a dialog can be confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadState {
    /// Its end was not on the screen yet.
    Below,
    /// In so many seconds.
    Waits(u32),
    Read,
}

impl Reading {
    pub fn new(wait_s: u32) -> Self {
        Self { wait_s, ..Self::default() }
    }

    pub fn wait_s(&self) -> u32 {
        self.wait_s
    }

    /// What a picture at `now` shows. What is seen to its end with it can be confirmed as soon as it was drawn.
    pub fn state(&self, shows_end: bool, now: Timestamp) -> ReadState {
        if self.is_done {
            return ReadState::Read;
        }
        let Some(seen_at) = self.end_seen_at.or(shows_end.then_some(now)) else { return ReadState::Below };
        let passed_s = u32::try_from((now - seen_at).num_seconds()).unwrap_or(0);
        match self.wait_s.saturating_sub(passed_s) {
            0 => ReadState::Read,
            left_s => ReadState::Waits(left_s),
        }
    }

    /// A picture of it was drawn at `now`.
    pub fn was_drawn(&mut self, shows_end: bool, now: Timestamp) {
        self.is_done = self.state(shows_end, now) == ReadState::Read;
        if shows_end {
            self.end_seen_at = self.end_seen_at.or(Some(now));
        }
    }

    /// Nothing is confirmed that could not be read.
    pub fn is_done(&self) -> bool {
        self.is_done
    }
}

impl ReadState {
    /// What a person has to do before the question; `None`: it is asked now. A wait is counted down.
    pub fn words(self, paint: Option<&Paint<'_>>) -> Option<String> {
        match self {
            Self::Read => None,
            Self::Below => Some("Scroll to the end first (down).".to_owned()),
            Self::Waits(left_s) => {
                if let Some(paint) = paint {
                    paint.changes_in(1);
                }
                Some(format!("Can be confirmed in {left_s} s: this context wants it read first."))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::default() + TimeDelta::seconds(seconds)
    }

    #[test]
    fn without_a_wait_the_picture_with_the_end_is_enough() {
        let mut reading = Reading::new(0);
        assert_eq!(reading.state(false, at(0)), ReadState::Below);
        reading.was_drawn(false, at(0));
        assert!(!reading.is_done());
        assert_eq!(reading.state(true, at(1)), ReadState::Read);
        reading.was_drawn(true, at(1));
        assert!(reading.is_done());
        assert_eq!(reading.state(false, at(2)), ReadState::Read, "scrolled up again");
    }

    #[test]
    fn a_wait_begins_with_the_end_and_goes_on_while_one_scrolls() {
        let mut reading = Reading::new(10);
        reading.was_drawn(false, at(0));
        reading.was_drawn(true, at(100));
        assert_eq!(reading.state(false, at(103)), ReadState::Waits(7));
        reading.was_drawn(false, at(109));
        assert!(!reading.is_done());
        assert_eq!(reading.state(false, at(110)), ReadState::Read);
        reading.was_drawn(false, at(110));
        assert!(reading.is_done());
    }

    #[test]
    fn a_clock_that_goes_back_shortens_no_wait() {
        let mut reading = Reading::new(10);
        reading.was_drawn(true, at(100));
        assert_eq!(reading.state(true, at(40)), ReadState::Waits(10));
    }
}
