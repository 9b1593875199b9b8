//! What changes about Leases while one looks at them: since when each record is the same, who held it before, whether
//! it was made anew. Owns the memory between two looks; must not know how Leases are read, nor what is odd about them.
//!
//! Elapsed time is the looker's own, on a clock that nobody sets: times in the records are what holders claim.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;

use super::lock_view::{HolderChange, WatchedLease};
use capstan_base::text::sanitize_line;
use capstan_base::time::{Timestamp, from_k8s_micro};
use k8s_machinery::lease;

/// Changes of holders that are kept, the last ones.
const CHANGES_MAX: usize = 200;

/// What is kept of one Lease from look to look.
#[derive(Clone, Debug)]
struct Kept {
    first_seen: Duration,
    changed: Option<Duration>,
    first_uid: String,
    uid: String,
    is_there: bool,
    lease: WatchedLease,
}

/// All Leases that were looked at.
#[derive(Clone, Debug, Default)]
pub struct LockWatch {
    kept: BTreeMap<(String, String), Kept>,
    changes: VecDeque<HolderChange>,
}

impl LockWatch {
    /// Takes in the Leases that are there. `elapsed`: since the first look; `now`: what our wall clock shows.
    pub fn look<'a>(
        &mut self,
        leases: impl IntoIterator<Item = &'a Lease>,
        elapsed: Duration,
        now: Timestamp,
    ) {
        // What is gone stays in memory: when it comes back, its other uid shows that it was made anew.
        self.kept.values_mut().for_each(|kept| kept.is_there = false);
        for lease in leases {
            self.look_at(lease, elapsed, now);
        }
    }

    fn look_at(&mut self, lease: &Lease, elapsed: Duration, now: Timestamp) {
        let seen = record_of(lease);
        let uid = lease.metadata.uid.clone().unwrap_or_default();
        let key = (seen.namespace.clone(), seen.name.clone());
        let Some(kept) = self.kept.get_mut(&key) else {
            // At the first look nothing was seen to change: what the record says of its renewal is
            // its holder's clock.
            let (first_uid, changed) = (uid.clone(), None);
            self.kept.insert(
                key,
                Kept { first_seen: elapsed, changed, first_uid, uid, is_there: true, lease: seen },
            );
            return;
        };
        kept.is_there = true;
        // Any change of the record counts as a sign of life, as in client-go; the uid shows one
        // that was deleted and made anew.
        let is_same = kept.uid == uid && kept.lease == seen;
        if is_same {
            return;
        }
        kept.changed = Some(elapsed);
        let before = std::mem::replace(&mut kept.lease, seen);
        kept.uid = uid;
        if before.holder != kept.lease.holder {
            let change = HolderChange {
                at: now,
                lease: format!("{}/{}", key.0, key.1),
                from: before.holder,
                to: kept.lease.holder.clone(),
                transitions: kept.lease.transitions,
            };
            if self.changes.len() == CHANGES_MAX {
                self.changes.pop_front();
            }
            self.changes.push_back(change);
        }
    }

    /// Those that are there, as they stand at `elapsed`.
    pub fn leases(&self, elapsed: Duration) -> Vec<WatchedLease> {
        let there = self.kept.values().filter(|kept| kept.is_there);
        let at = |kept: &Kept| WatchedLease {
            watched_s: elapsed.saturating_sub(kept.first_seen).as_secs(),
            changed_s: kept.changed.map(|changed| elapsed.saturating_sub(changed).as_secs()),
            was_made_anew: kept.uid != kept.first_uid,
            ..kept.lease.clone()
        };
        there.map(at).collect()
    }

    /// Oldest first.
    pub fn changes(&self) -> Vec<HolderChange> {
        self.changes.iter().cloned().collect()
    }
}

/// What the Lease itself says. Text of a cluster is sanitised here.
fn record_of(lease: &Lease) -> WatchedLease {
    let text = |text: Option<&String>| text.map(|text| sanitize_line(text)).unwrap_or_default();
    let (meta, spec) = (&lease.metadata, lease.spec.clone().unwrap_or_default());
    let label = meta.labels.as_ref().and_then(|labels| labels.get(lease::COMPONENT));
    let note = |key: &str| text(meta.annotations.as_ref().and_then(|notes| notes.get(key)));
    WatchedLease {
        namespace: text(meta.namespace.as_ref()),
        name: text(meta.name.as_ref()),
        holder: text(spec.holder_identity.as_ref()),
        duration_s: u32::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0),
        transitions: spec.lease_transitions.unwrap_or(0),
        acquired_us: spec.acquire_time.as_ref().map(|at| from_k8s_micro(at).timestamp_micros()),
        renewed_us: spec.renew_time.as_ref().map(|at| from_k8s_micro(at).timestamp_micros()),
        strategy: spec.strategy.as_ref().map(|strategy| sanitize_line(strategy)),
        preferred_holder: spec.preferred_holder.as_ref().map(|holder| sanitize_line(holder)),
        engine: label.map(|label| sanitize_line(label)),
        controllers: note(lease::CONTROLLERS),
        feature_gates: note(lease::FEATURE_GATES),
        in_place_handlers: note(lease::IN_PLACE_HANDLERS),
        held_up_by: note(lease::HELD_UP_BY),
        ..WatchedLease::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock_view::LockState;
    use serde_json::json;

    fn lease(uid: &str, holder: &str, renewed: &str, transitions: i32) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"namespace": "kube-system", "name": "move", "uid": uid},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": transitions,
                "renewTime": format!("2026-11-20T10:00:{renewed}.000000Z")},
        }))
        .expect("a Lease")
    }

    fn looked(looks: &[(u64, Vec<Lease>)]) -> (LockWatch, Vec<WatchedLease>) {
        let mut watch = LockWatch::default();
        let mut last = 0;
        for (elapsed_s, leases) in looks {
            last = *elapsed_s;
            watch.look(leases, Duration::from_secs(last), Timestamp::default());
        }
        let leases = watch.leases(Duration::from_secs(last));
        (watch, leases)
    }

    #[test]
    fn a_record_that_stays_the_same_turns_from_unknown_to_stale() {
        let same = || vec![lease("u", "a_1", "01", 0)];
        let state = |looks: &[(u64, Vec<Lease>)]| looked(looks).1[0].state();
        assert_eq!(state(&[(0, same())]), LockState::Unknown);
        assert_eq!(state(&[(0, same()), (16, same())]), LockState::Stale);
        assert_eq!(state(&[(0, same()), (3, vec![lease("u", "a_1", "03", 0)])]), LockState::Held);
        let (watch, leases) = looked(&[(0, same()), (3, vec![lease("u", "a_1", "03", 0)])]);
        assert_eq!((leases[0].watched_s, leases[0].changed_s, watch.changes()), (3, Some(0), vec![]));
    }

    #[test]
    fn hands_that_change_and_a_lease_that_is_made_anew_are_noted() {
        let (watch, leases) = looked(&[
            (0, vec![lease("u", "a_1", "01", 0)]),
            (2, vec![lease("u", "\u{1b}[2Jb_2", "03", 1)]),
            (4, Vec::new()),
            (6, vec![lease("v", "a_1", "07", 0)]),
        ]);
        let hands: Vec<_> = watch.changes().into_iter().map(|c| (c.from, c.to, c.transitions)).collect();
        assert_eq!(hands.len(), 2);
        assert_eq!((hands[0].0.as_str(), hands[0].2, hands[1].1.as_str()), ("a_1", 1, "a_1"));
        assert!(!hands[0].1.contains('\u{1b}'));
        assert!(leases[0].was_made_anew);
        let (_, gone) = looked(&[(0, vec![lease("u", "a_1", "01", 0)]), (2, Vec::new())]);
        assert_eq!(gone, []);
    }

    #[test]
    fn only_the_last_changes_are_kept() {
        let looks: Vec<_> =
            (0..250).map(|n| (n, vec![lease("u", &format!("h_{n}"), "01", n as i32)])).collect();
        let (watch, _) = looked(&looks);
        assert_eq!(watch.changes().len(), CHANGES_MAX);
        assert_eq!(watch.changes()[CHANGES_MAX - 1].to, "h_249");
    }
}
