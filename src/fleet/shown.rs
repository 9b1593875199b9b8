//! What is shown of an object's judgement: a worse verdict after it held, a better one after it lasted. Pure;
//! must not know why a judgement is what it is.

use super::judge::Judgement;
use crate::status::verdict::Verdict;

/// Seconds that a better verdict has to last before it is shown; the key is the verdict shown until then.
const AFTER_FAULT_S: u32 = 15;
const AFTER_UNKNOWN_S: u32 = 10;
const AFTER_PROGRESS_S: u32 = 5;

/// The memory of one object, a few bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    /// What is shown; `None` before the first judgement.
    shown: Option<Verdict>,
    judged: Verdict,
    /// Since when it is judged so.
    judged_s: u32,
}

impl Shown {
    pub(super) fn verdict(&self) -> Verdict {
        self.shown.unwrap_or(Verdict::Ok)
    }

    /// It was never judged.
    pub(super) fn is_new(&self) -> bool {
        self.shown.is_none()
    }

    /// Takes a judgement in. Returns the moment at which what is shown changes if the judgement stays; 0: none.
    /// Without `is_live` nothing was seen before, and the evidence's own account of its age is believed.
    pub(super) fn take(&mut self, judgement: &Judgement, now_s: u32, is_live: bool) -> u32 {
        let verdict = judgement.verdict;
        let Some(shown) = self.shown.filter(|_| is_live) else {
            return self.first(judgement, now_s);
        };
        if verdict != self.judged {
            (self.judged, self.judged_s) = (verdict, now_s);
        }
        if verdict == shown {
            return 0;
        }
        let wait_s = if verdict > shown { judgement.delay_s } else { lasting_s(shown) };
        self.show_at(self.judged_s.saturating_add(wait_s), now_s)
    }

    fn first(&mut self, judgement: &Judgement, now_s: u32) -> u32 {
        (self.judged, self.judged_s) = (judgement.verdict, judgement.since_s);
        if judgement.verdict <= Verdict::Progressing || judgement.since_s == 0 || now_s == 0 {
            self.shown = Some(judgement.verdict);
            return 0;
        }
        self.shown = Some(Verdict::Progressing);
        self.show_at(judgement.since_s.saturating_add(judgement.delay_s), now_s)
    }

    fn show_at(&mut self, at_s: u32, now_s: u32) -> u32 {
        if now_s < at_s {
            return at_s;
        }
        self.shown = Some(self.judged);
        0
    }
}

fn lasting_s(shown: Verdict) -> u32 {
    match shown {
        Verdict::Degraded | Verdict::Blocked => AFTER_FAULT_S,
        Verdict::Unknown => AFTER_UNKNOWN_S,
        Verdict::Progressing | Verdict::Ok => AFTER_PROGRESS_S,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::judge::{Basis, Rank};

    fn judgement(verdict: Verdict, since_s: u32, delay_s: u32) -> Judgement {
        let why = Basis::Nothing;
        Judgement { verdict, why, rank: Rank::Broken, since_s, delay_s, due_s: 0, slow: None }
    }

    /// Plays judgements (second, verdict, delay) and returns what is shown from which second on.
    fn play(judgements: &[(u32, Verdict, u32)], end_s: u32) -> Vec<(u32, Verdict)> {
        let mut shown = Shown::default();
        let mut turns: Vec<(u32, Verdict)> = Vec::new();
        for now_s in 1000..=1000 + end_s {
            let (_, verdict, delay_s) =
                *judgements.iter().rev().find(|(at, ..)| 1000 + at <= now_s).expect("a judgement");
            shown.take(&judgement(verdict, now_s, delay_s), now_s, true);
            if turns.last().is_none_or(|(_, last)| *last != shown.verdict()) {
                turns.push((now_s - 1000, shown.verdict()));
            }
        }
        turns
    }

    #[test]
    fn worse_is_shown_after_it_held_and_better_after_it_lasted() {
        use Verdict::{Degraded, Ok, Progressing, Unknown};
        for (judgements, expected) in [
            (&[(0, Ok, 0), (10, Degraded, 15)][..], &[(0, Ok), (25, Degraded)][..]),
            (&[(0, Ok, 0), (10, Degraded, 15), (20, Ok, 0)], &[(0, Ok)]),
            (&[(0, Ok, 0), (10, Degraded, 0), (20, Ok, 0)], &[(0, Ok), (10, Degraded), (35, Ok)]),
            (&[(0, Ok, 0), (10, Degraded, 0), (20, Ok, 0), (30, Degraded, 0)], &[(0, Ok), (10, Degraded)]),
            (&[(0, Ok, 0), (10, Progressing, 2), (20, Ok, 0)], &[(0, Ok), (12, Progressing), (25, Ok)]),
            (&[(0, Ok, 0), (10, Unknown, 0), (20, Ok, 0)], &[(0, Ok), (10, Unknown), (30, Ok)]),
        ] {
            assert_eq!(play(judgements, 60), expected, "{judgements:?}");
        }
    }

    #[test]
    fn a_new_dashboard_shows_old_faults_at_once_and_young_ones_when_they_held() {
        for (since_s, expected, due_s) in [(900, Verdict::Degraded, 0), (990, Verdict::Progressing, 1005)] {
            let mut shown = Shown::default();
            assert_eq!(shown.take(&judgement(Verdict::Degraded, since_s, 15), 1000, false), due_s);
            assert_eq!(shown.verdict(), expected);
        }
    }
}
