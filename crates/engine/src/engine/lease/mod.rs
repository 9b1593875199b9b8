//! Leader election on a Lease: writes only while leading. Owns the record and the right to write;
//! must not know what is written.
//! Source: client-go `tools/leaderelection`.
//!
//! A record is ours only when this process sent it; the name in it is not enough: two processes that share
//! an identity (equal host names, process ids and seeds) are still two.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub mod election;
mod elector;
pub mod record;
pub mod right;

#[cfg(test)]
mod tests;

pub use elector::Elector;
pub use right::{FencingToken, Leadership, Term};

use capi_types::key::ObjectKey;
use capstan_base::rng::Rng;
use parking_lot::Mutex;

/// What stays between the end of a holder's right and the moment at which another may begin, beside the grace.
const MARGIN: Duration = Duration::from_secs(1);

/// Which lease, and who asks for it.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    pub namespace: String,
    pub name: String,
    /// Unique per process; see [`identity_of`].
    pub identity: String,
    /// Others may take over when the record did not change for this long.
    pub duration: Duration,
    /// The holder stops writing when it could not renew for this long.
    pub renew_deadline: Duration,
    /// Between attempts.
    pub retry: Duration,
    /// Requests that left before the right ended have arrived by then.
    pub stop_grace: Duration,
    /// Take it once from whoever holds it, and lead only when that holder must have stopped. A lease that is lost
    /// later is waited for like any other.
    pub seize: bool,
    /// Put on the Lease, beside what is there.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// The same of what changes while it is held.
    pub notes: LeaseNotes,
}

/// Annotations that are written with the next renewal. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct LeaseNotes(Arc<Mutex<BTreeMap<String, String>>>);

impl LeaseNotes {
    /// Empty text takes the place of what a holder before this one wrote.
    pub fn set(&self, annotation: &str, text: &str) {
        self.0.lock().insert(annotation.to_owned(), text.to_owned());
    }

    fn all(&self) -> BTreeMap<String, String> {
        self.0.lock().clone()
    }
}

impl LeaseOptions {
    /// client-go's usual times: 15 s, 10 s, 2 s.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            stop_grace: Duration::from_secs(4),
            seize: false,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            notes: LeaseNotes::default(),
        }
    }

    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }

    /// Are these times safe together?
    ///
    /// # Errors
    /// The condition that does not hold.
    pub fn check(&self) -> Result<(), String> {
        let s = |duration: Duration| duration.as_secs_f64();
        let needed = self.renew_deadline + self.stop_grace + MARGIN;
        if self.duration < needed {
            return Err(format!(
                "the lease duration is {} s: expected at least {} s, which is renew deadline {} s, stop grace {} s \
                 and {} s",
                s(self.duration),
                s(needed),
                s(self.renew_deadline),
                s(self.stop_grace),
                s(MARGIN)
            ));
        }
        // client-go's condition, with its factor for jitter:
        // at least one retry fits into the deadline.
        if self.renew_deadline <= self.retry.mul_f64(1.2) || self.retry.is_zero() {
            return Err(format!(
                "the renew deadline is {} s: expected more than 1.2 times the retry period, which is {} s",
                s(self.renew_deadline),
                s(self.retry)
            ));
        }
        Ok(())
    }
}

/// An identity for one process on `host`: the host's name for people, and 64 random bits, since
/// containers share host names and process ids. `rng` must not be seeded by the user: processes that
/// are started with one seed would get one identity.
pub fn identity_of(host: &str, rng: &Rng) -> String {
    let random = rng.below(u64::MAX);
    format!("{}_{random:016x}", host.trim())
}
