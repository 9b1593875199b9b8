//! Writes that name the Leases they rest on: refused once such a Lease has another uid or more transitions. Owns the
//! comparison, which is a part of the write's own transaction: a process that was stopped between the two would
//! otherwise write behind its successor. Must not know headers.

use super::{RACES_MAX, Registry, Subject};
use crate::failure::Failure;
use crate::object::Record;
use crate::request::fence::HeldLease;
use capstan_store::{Outcome, Revision, Txn};
use k8s_machinery::lease::Fence;

impl Registry {
    /// Compares fences with what is stored now, for a write of `subject`.
    ///
    /// # Errors
    /// 409 when a Lease has been taken by somebody since.
    pub async fn hold(&self, subject: Subject<'_>, fences: Vec<Fence>) -> Result<Vec<HeldLease>, Failure> {
        let catalog = self.catalog.load_full();
        let Some(leases) = catalog.find("coordination.k8s.io", "v1", "leases") else { return Ok(Vec::new()) };
        let mut held = Vec::with_capacity(fences.len());
        for fence in fences {
            let lease = Subject { resource: leases, namespace: &fence.namespace, name: &fence.name };
            let key = lease.key();
            let revision = self.compare(subject, lease, &fence).await?;
            held.push(HeldLease { fence, key, revision });
        }
        Ok(held)
    }

    /// The last write of the Lease; 0 when it is gone: then it was not taken by anybody.
    async fn compare(
        &self,
        subject: Subject<'_>,
        lease: Subject<'_>,
        fence: &Fence,
    ) -> Result<Revision, Failure> {
        let Some(entry) = self.store.get(&lease.key()).await? else { return Ok(0) };
        let object = Record::read(&entry)?.value()?;
        // A Lease that was deleted and made anew counts its transitions from the start, so its uid
        // counts, too.
        let is_same = object["metadata"]["uid"] == fence.uid.as_str()
            && object["spec"]["leaseTransitions"].as_i64().unwrap_or(0) == i64::from(fence.transitions);
        if is_same {
            return Ok(entry.modified);
        }
        let Subject { resource, name, .. } = subject;
        let why = format!("Lease {}/{} has been taken by another process since", fence.namespace, fence.name);
        Err(Failure::conflict(&resource.group, &resource.plural, name, &why))
    }

    /// Commits `txn` if no Lease that it rests on has been taken by then. One that was only renewed is compared again.
    ///
    /// # Errors
    /// Of the store, and of [`Registry::hold`].
    pub(super) async fn commit_held(
        &self,
        subject: Subject<'_>,
        txn: Txn,
        held: &[HeldLease],
    ) -> Result<Outcome, Failure> {
        let mut held = held.to_vec();
        for _ in 0..RACES_MAX {
            let guards = held.iter().map(|lease| (lease.key.clone(), lease.revision));
            let expect = txn.expect.iter().cloned().chain(guards).collect();
            match self.store.txn(Txn { expect, writes: txn.writes.clone() }).await? {
                // The conflict is about a Lease, which its holder renews every few seconds.
                Outcome::Conflict { key, .. } if txn.expect.iter().all(|(own, _)| *own != key) => {
                    let fences = held.into_iter().map(|lease| lease.fence).collect();
                    held = self.hold(subject, fences).await?;
                }
                outcome => return Ok(outcome),
            }
        }
        Err(Failure::too_many_requests("the Lease that the write rests on changes too fast; try again", 1))
    }
}
