//! Certificates of a control plane Machine that end: without them its components answer nobody. Must not know who renews them.

use super::{Basis, Judgement, Rank, Rules};
use crate::fleet::Verdict;
use crate::fleet::row::Row;

const DAY_S: u32 = 24 * 3600;
/// From here on it is said beside the name.
const SAID_S: u32 = 30 * DAY_S;
/// From here on it is a fault, unless the Machine is replaced before.
const SOON_S: u32 = 7 * DAY_S;

/// Do the certificates of a Machine end within a month, or have they ended?
pub fn are_ending(row: &Row, now_s: u32) -> bool {
    let end_s = row.machine().map_or(0, |machine| machine.certificates_end_s);
    end_s != 0 && now_s != 0 && end_s <= now_s.saturating_add(SAID_S)
}

impl Rules<'_> {
    pub(super) fn certificates(&mut self) {
        let end_s = self.row.machine().map_or(0, |machine| machine.certificates_end_s);
        let soon_s = end_s.saturating_sub(SOON_S);
        let why = Basis::Certificates;
        if self.has_passed(end_s, 0) {
            let (verdict, rank) = (Verdict::Blocked, Rank::Hold);
            self.claim(Judgement { verdict, why, rank, since_s: end_s, ..Judgement::WELL });
        } else if !self.context.renews_certificates && self.has_passed(soon_s, 0) {
            let (verdict, rank) = (Verdict::Degraded, Rank::Broken);
            self.claim(Judgement { verdict, why, rank, since_s: soon_s, ..Judgement::WELL });
        }
    }
}
