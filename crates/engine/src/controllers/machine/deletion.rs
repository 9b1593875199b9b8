//! A Machine on its way out: plans, performs and reads in turns until the deletion has to wait. Must
//! not decide anything itself.
//! Source: `reconcileDelete`, `machine_controller.go`, v1.14.2.

use super::Machines;
use crate::controllers::apply::{self, Failure};
use crate::controllers::log_blockers;
use crate::controllers::reconcile::{Ended, outcome};
use crate::engine::{Outcome, ReconcileError};
use capi_rules::plan::{Shown, machine as planned};
use capi_rules::status::machine::Observed;
use capi_rules::status::machine::deletion::{Wanted, course};
use capi_types::key::ObjectRef;

/// Reading what runs on the Node, evicting it, reading what is attached, going on.
const TURNS_MAX: usize = 6;

impl Machines {
    /// Goes on with the deletion as far as one run can. What it learned and did stands in `observed`.
    pub(super) async fn leave(&self, observed: &mut Observed) -> Ended {
        let mut left = Ended { next: Outcome::Done, failure: None, release: None };
        for _ in 0..TURNS_MAX {
            let before = course(observed, self.context.clock.now());
            // Each plan sees what the reads before it brought; only the last one's wishes count.
            left = self.turn(observed).await;
            if left.failure.is_some() || left.release.is_some() {
                break;
            }
            let after = course(observed, self.context.clock.now());
            match after.wants(observed) {
                Some(Wanted::Tenants) => observed.tenants = self.tenants(observed).await,
                Some(Wanted::Storage) => observed.storage = self.storage(observed).await,
                // The drain has just ended: what comes after it begins in the same run.
                None if after.ends_drain_of(&before) => {}
                None => break,
            }
        }
        left
    }

    /// One plan, performed.
    async fn turn(&self, observed: &mut Observed) -> Ended {
        let mut plan = planned::leave(observed, self.context.clock.now());
        let release = plan.take_release();
        let about = ObjectRef::of(&observed.machine);
        log_blockers(&about, &plan.blockers);
        let stage = course(observed, self.context.clock.now()).stage;
        let applied = apply::apply(&self.context, &about, &plan.steps).await;
        if let Some(latest) = applied.latest(&about) {
            observed.machine = latest;
        }
        observed.evictions.extend(applied.evictions);
        let failure = match applied.failure {
            Some(failure) => Some(self.note(&about, observed, failure).await),
            None => planned::error(&stage).map(ReconcileError::failed),
        };
        Ended { next: outcome(&plan), failure, release }
    }

    /// Remembers what failed and complains about it.
    async fn note(&self, about: &ObjectRef, observed: &mut Observed, failure: Failure) -> ReconcileError {
        observed.failed = match failure.shown {
            Some(Shown::MachineDeletion(failed)) => Some(failed),
            Some(Shown::ClusterDeletion) | None => None,
        };
        if let Some(failed) = observed.failed {
            let complaint = planned::complaint(observed, failed, &failure.error.to_string());
            // Events that cannot be stored are logged there.
            apply::apply(&self.context, about, &complaint).await;
        }
        failure.error
    }
}
