//! What is shown of an object's judgement: a worse verdict after it held, a better one after it lasted. Pure;
//! must not know why a judgement is what it is.

use super::judge::Judgement;
use crate::status::verdict::Verdict;

/// Seconds that a better verdict has to last before it is shown; the key is the verdict shown until then.
const AFTER_FAULT_S: u32 = 15;
const AFTER_UNKNOWN_S: u32 = 10;
const AFTER_PROGRESS_S: u32 = 5;

/// So many turns between calm and not calm within the window are flapping, which ends after a quiet time.
const TURNS: usize = 3;
const WINDOW_S: u32 = 15 * 60;
const QUIET_S: u32 = 10 * 60;

/// The memory of one object, a few bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    /// What is shown; `None` before the first judgement.
    shown: Option<Verdict>,
    judged: Verdict,
    /// Since when it is judged so.
    judged_s: u32,
    /// How long it has to last.
    delay_s: u32,
    /// When it turned between calm and not calm, the last times; nothing for almost all objects.
    turns_s: Option<Box<[u32; TURNS]>>,
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
            self.count_turn(verdict, now_s);
            (self.judged, self.judged_s) = (verdict, now_s);
        } else if judgement.delay_s < self.delay_s {
            // Another reason, which has not lasted yet.
            self.judged_s = now_s;
        }
        self.delay_s = judgement.delay_s;
        if verdict == shown {
            return 0;
        }
        let is_worse = verdict > shown;
        let wait_s = match (is_worse, self.is_flapping(now_s)) {
            // It came and went: the worst is shown until it stayed away.
            (true, true) => 0,
            (false, true) => QUIET_S,
            (true, false) => judgement.delay_s,
            (false, false) => lasting_s(shown),
        };
        self.show_at(self.judged_s.saturating_add(wait_s), now_s)
    }

    /// It turned more than twice in a quarter of an hour, and has not been quiet since.
    pub(super) fn is_flapping(&self, now_s: u32) -> bool {
        let Some([first, .., last]) = self.turns_s.as_deref() else { return false };
        *first != 0 && last - first <= WINDOW_S && now_s < last.saturating_add(QUIET_S)
    }

    fn count_turn(&mut self, verdict: Verdict, now_s: u32) {
        let is_calm = |verdict: Verdict| verdict <= Verdict::Progressing;
        if is_calm(verdict) != is_calm(self.judged) {
            let turns = self.turns_s.get_or_insert_default();
            turns.rotate_left(1);
            turns[TURNS - 1] = now_s;
        }
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
            // Too short for its delay each time, and yet it keeps coming back.
            (
                &[(0, Ok, 0), (10, Degraded, 15), (20, Ok, 0), (30, Degraded, 15), (40, Ok, 0)],
                &[(0, Ok), (30, Degraded), (640, Ok)],
            ),
        ] {
            assert_eq!(play(judgements, 700), expected, "{judgements:?}");
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
