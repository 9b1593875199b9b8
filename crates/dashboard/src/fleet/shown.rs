//! What is shown of an object's judgement: a worse verdict after it held, a better one after it lasted. Pure;
//! must not know why a judgement is what it is.

use super::judge::{Judgement, Rank};
use crate::fleet::Verdict;

/// Seconds that a better verdict has to last before it is shown; the key is the verdict shown until then.
const AFTER_FAULT_S: u32 = 15;
const AFTER_UNKNOWN_S: u32 = 10;
const AFTER_PROGRESS_S: u32 = 5;

/// So many turns between calm and not calm within the window are flapping, which ends after a quiet time.
const TURNS: usize = 3;
const WINDOW_S: u32 = 15 * 60;
const QUIET_S: u32 = 10 * 60;

/// So many kinds of evidence of one object are watched for flapping; the one that turned first leaves.
const FLAPS_MAX: usize = 4;

/// What is as bad explains a verdict in place of an older explanation when it was shown for so long.
const SETTLED_S: u32 = 15;

/// A kind of evidence as a number: equal for equal condition types.
pub(super) type EvidenceKey = u32;

/// When one kind of evidence turned between calm and not calm, the last times.
#[derive(Clone, Debug)]
struct Flap {
    of: EvidenceKey,
    turns_s: [u32; TURNS],
}

impl Flap {
    fn is_on(&self, now_s: u32) -> bool {
        let [first, .., last] = self.turns_s;
        first != 0 && last - first <= WINDOW_S && now_s < last.saturating_add(QUIET_S)
    }
}

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
    /// What the judgement rests on, and how much that explains of what is shown.
    evidence: EvidenceKey,
    rank: Rank,
    /// What is shown rests on what was not read.
    is_unread: bool,
    /// Until when the explanation is a new one; 0: it is not.
    fresh_until_s: u32,
    /// Nothing for almost all objects.
    flaps: Option<Box<Flaps>>,
}

/// What turned between calm and not calm, the last one last.
#[derive(Clone, Debug, Default)]
struct Flaps(Vec<Flap>);

impl Shown {
    pub(super) fn verdict(&self) -> Verdict {
        self.shown.unwrap_or(Verdict::Ok)
    }

    /// Since when it is judged as it is, seconds since the epoch; 0: not known.
    pub(super) fn judged_s(&self) -> u32 {
        self.judged_s
    }

    /// It was never judged.
    pub(super) fn is_new(&self) -> bool {
        self.shown.is_none()
    }

    /// Takes a judgement in. Returns the moment at which what is shown changes if the judgement stays; 0: none.
    /// Without `is_live`, and where it was not read until now, nothing was seen before, and the evidence's own account of its
    /// age is believed.
    pub(super) fn take(
        &mut self,
        judgement: &Judgement,
        evidence: EvidenceKey,
        now_s: u32,
        is_live: bool,
    ) -> u32 {
        let before = (self.shown, self.rank, self.evidence);
        let due_s = match self.shown.filter(|_| is_live && !self.is_unread) {
            Some(shown) => self.next(judgement, evidence, shown, now_s),
            None => self.first(judgement, now_s),
        };
        self.evidence = evidence;
        let is_shown = self.shown == Some(self.judged);
        if is_shown {
            self.is_unread = judgement.is_unread();
        }
        // What is not shown yet explains nothing of what is.
        self.rank = if is_shown { judgement.rank } else { Rank::Queued };
        if before != (self.shown, self.rank, self.evidence) {
            self.fresh_until_s = if is_live { now_s.saturating_add(SETTLED_S) } else { 0 };
        }
        let settles_s = if self.is_new_fault(now_s) { self.fresh_until_s } else { 0 };
        [due_s, settles_s].into_iter().filter(|at_s| *at_s != 0).min().unwrap_or(0)
    }

    /// What it explains has been explained by something else until a moment ago.
    pub(super) fn is_fresh(&self, now_s: u32) -> bool {
        now_s < self.fresh_until_s
    }

    /// The same of a fault: time alone may put it before the others.
    pub(super) fn is_new_fault(&self, now_s: u32) -> bool {
        self.verdict() > Verdict::Progressing && self.is_fresh(now_s)
    }

    fn next(&mut self, judgement: &Judgement, evidence: EvidenceKey, shown: Verdict, now_s: u32) -> u32 {
        let verdict = judgement.verdict;
        if verdict != self.judged {
            self.count_turn(verdict, evidence, now_s);
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
        // It came and went: the worst is shown until it stayed away.
        let wait_s = match is_worse {
            true if self.flaps_by(evidence, now_s) => 0,
            true => judgement.delay_s,
            false if self.is_flapping(now_s) => QUIET_S,
            false => lasting_s(shown),
        };
        self.show_at(self.judged_s.saturating_add(wait_s), now_s)
    }

    /// One kind of its evidence turned more than twice in a quarter of an hour, and has not been quiet since.
    pub(super) fn is_flapping(&self, now_s: u32) -> bool {
        self.flaps().any(|flap| flap.is_on(now_s))
    }

    fn flaps_by(&self, evidence: EvidenceKey, now_s: u32) -> bool {
        self.flaps().any(|flap| flap.of == evidence && flap.is_on(now_s))
    }

    fn flaps(&self) -> impl Iterator<Item = &Flap> {
        self.flaps.iter().flat_map(|flaps| &flaps.0)
    }

    /// Counts a turn for the evidence on its side that is not calm.
    fn count_turn(&mut self, verdict: Verdict, evidence: EvidenceKey, now_s: u32) {
        let is_calm = |verdict: Verdict| verdict <= Verdict::Progressing;
        if is_calm(verdict) == is_calm(self.judged) {
            return;
        }
        // What turned is the fault, whether it comes or goes.
        let of = if is_calm(verdict) { self.evidence } else { evidence };
        let Flaps(flaps) = self.flaps.get_or_insert_default().as_mut();
        let known = flaps.iter().position(|flap| flap.of == of).map(|at| flaps.remove(at));
        let mut flap = known.unwrap_or(Flap { of, turns_s: [0; TURNS] });
        flap.turns_s.rotate_left(1);
        flap.turns_s[TURNS - 1] = now_s;
        flaps.push(flap);
        if flaps.len() > FLAPS_MAX {
            flaps.remove(0);
        }
    }

    fn first(&mut self, judgement: &Judgement, now_s: u32) -> u32 {
        (self.judged, self.judged_s) = (judgement.verdict, judgement.since_s);
        // Without a date there is nothing to wait for.
        if judgement.verdict <= Verdict::Progressing || judgement.since_s == 0 || now_s == 0 {
            self.shown = Some(judgement.verdict);
            return 0;
        }
        // It may be a fault already, so that it is not called well until the delay is over.
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
        Judgement { verdict, why, rank: Rank::Broken, since_s, delay_s, ..Judgement::WELL }
    }

    /// Plays judgements (second, verdict, delay) and returns what is shown from which second on.
    fn play(judgements: &[(u32, Verdict, u32)], end_s: u32) -> Vec<(u32, Verdict)> {
        let mut shown = Shown::default();
        let mut turns: Vec<(u32, Verdict)> = Vec::new();
        for now_s in 1000..=1000 + end_s {
            let (_, verdict, delay_s) =
                *judgements.iter().rev().find(|(at, ..)| 1000 + at <= now_s).expect("a judgement");
            shown.take(&judgement(verdict, now_s, delay_s), 1, now_s, true);
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
            assert_eq!(shown.take(&judgement(Verdict::Degraded, since_s, 15), 1, 1000, false), due_s);
            assert_eq!(shown.verdict(), expected);
            assert!(!shown.is_fresh(1000), "it may have been so for long");
        }
    }

    /// Clusters were unknown for ten seconds after their control planes had been listed.
    #[test]
    fn what_was_not_read_is_shown_as_soon_as_it_is_read() {
        let mut shown = Shown::default();
        let unread = Judgement { why: Basis::ControlPlaneNotRead, ..judgement(Verdict::Unknown, 100, 10) };
        shown.take(&unread, 1, 1000, true);
        assert_eq!(shown.verdict(), Verdict::Unknown);
        let mut faulty = shown.clone();
        faulty.take(&judgement(Verdict::Degraded, 900, 15), 2, 1001, true);
        assert_eq!(faulty.verdict(), Verdict::Degraded, "it is old");
        shown.take(&judgement(Verdict::Ok, 0, 0), 0, 1001, true);
        assert_eq!(shown.verdict(), Verdict::Ok);
        shown.take(&judgement(Verdict::Unknown, 100, 0), 1, 1002, true);
        shown.take(&judgement(Verdict::Ok, 0, 0), 0, 1003, true);
        assert_eq!(
            shown.verdict(),
            Verdict::Unknown,
            "what is said to be unknown has to be well for a while"
        );
    }

    #[test]
    fn conditions_flap_each_for_itself() {
        use Verdict::{Degraded, Ok};
        let mut shown = Shown::default();
        let mut take = |at_s: u32, verdict, of| {
            shown.take(&judgement(verdict, 0, 0), of, at_s, true);
            shown.is_flapping(at_s)
        };
        for (at_s, verdict, of) in
            [(1, Ok, 0), (10, Degraded, 1), (40, Ok, 0), (70, Degraded, 2), (100, Ok, 0)]
        {
            assert!(!take(at_s, verdict, of), "{at_s} s: two conditions, each of which broke once");
        }
        assert!(take(130, Degraded, 2), "the same again");
        assert!(!take(130 + QUIET_S, Degraded, 2), "quiet for ten minutes");
    }

    #[test]
    fn another_explanation_is_fresh_until_it_was_shown_for_a_while() {
        let mut shown = Shown::default();
        let of = |rank| Judgement { rank, ..judgement(Verdict::Degraded, 0, 0) };
        shown.take(&judgement(Verdict::Ok, 0, 0), 0, 1000, true);
        assert_eq!(shown.take(&of(Rank::Broken), 1, 1100, true), 1115);
        assert!(shown.is_new_fault(1114) && !shown.is_new_fault(1115));
        assert_eq!(shown.take(&of(Rank::Broken), 1, 1120, true), 0, "nothing new");
        assert_eq!(shown.take(&of(Rank::Overdue), 1, 1130, true), 1145);
    }
}
