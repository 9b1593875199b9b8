//! Every simulated cluster, and when each changes next by the passing of time alone. Owns that both agree; must not
//! know what happens inside a cluster, nor who is told of it.

use std::collections::{BTreeMap, BTreeSet};

use super::sim_cluster::SimCluster;
use capi_types::key::ObjectKey;
use capstan_base::time::Timestamp;

#[derive(Default)]
pub(super) struct Clusters {
    all: BTreeMap<ObjectKey, Held>,
    /// Soonest first: looking through all of them after each change of one would cost the square of their number.
    moments: BTreeSet<(Timestamp, ObjectKey)>,
}

struct Held {
    sim: SimCluster,
    moment: Option<Timestamp>,
}

impl Clusters {
    /// Changes a cluster that is there.
    pub(super) fn edit<T>(
        &mut self,
        cluster: &ObjectKey,
        now: Timestamp,
        edit: impl FnOnce(&mut SimCluster) -> T,
    ) -> Option<T> {
        let held = self.all.get_mut(cluster)?;
        let answer = edit(&mut held.sim);
        self.note_moment(cluster, now);
        Some(answer)
    }

    /// Changes a cluster, which is made when it is new.
    pub(super) fn edit_or_make<T>(
        &mut self,
        cluster: &ObjectKey,
        now: Timestamp,
        make: impl FnOnce() -> SimCluster,
        edit: impl FnOnce(&mut SimCluster) -> T,
    ) -> T {
        let held = self.all.entry(cluster.clone()).or_insert_with(|| Held { sim: make(), moment: None });
        let answer = edit(&mut held.sim);
        self.note_moment(cluster, now);
        answer
    }

    pub(super) fn remove(&mut self, cluster: &ObjectKey) -> bool {
        let Some(held) = self.all.remove(cluster) else { return false };
        // A moment that stayed would announce a cluster of the same name that is made later.
        if let Some(moment) = held.moment {
            self.moments.remove(&(moment, cluster.clone()));
        }
        true
    }

    /// Removes every cluster, and gives their keys.
    pub(super) fn take_all(&mut self) -> Vec<ObjectKey> {
        std::mem::take(self).all.into_keys().collect()
    }

    /// The clusters of a namespace, by name.
    pub(super) fn in_namespace<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a SimCluster)> {
        // Keys are ordered by namespace first, and no name comes before the empty one.
        let from_here = self.all.range(ObjectKey::new(namespace, "")..);
        let here = from_here.take_while(move |(key, _)| key.namespace == namespace);
        here.map(|(key, held)| (key, &held.sim))
    }

    /// When the first of them changes by itself.
    pub(super) fn next_moment(&self) -> Option<Timestamp> {
        self.moments.first().map(|(moment, _)| *moment)
    }

    /// Those whose moment has come, soonest first. Their next ones lie after `now`.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<ObjectKey> {
        let mut due = Vec::new();
        while let Some((moment, cluster)) = self.moments.pop_first() {
            if moment > now {
                self.moments.insert((moment, cluster));
                break;
            }
            if let Some(held) = self.all.get_mut(&cluster) {
                // Cleared, since `note_moment` keeps a moment that has come.
                held.moment = None;
            }
            due.push(cluster);
        }
        // After the loop: noted within it, a moment could be popped again.
        due.iter().for_each(|cluster| self.note_moment(cluster, now));
        due
    }

    fn note_moment(&mut self, cluster: &ObjectKey, now: Timestamp) {
        let Some(held) = self.all.get_mut(cluster) else { return };
        // One that has come is still to be told of, whoever looked at the cluster meanwhile.
        if held.moment.is_some_and(|moment| moment <= now) {
            return;
        }
        let next = held.sim.next_moment(now);
        let former = std::mem::replace(&mut held.moment, next);
        // Most edits move no moment: the set stays untouched.
        if former == next {
            return;
        }
        if let Some(former) = former {
            self.moments.remove(&(former, cluster.clone()));
        }
        if let Some(next) = next {
            self.moments.insert((next, cluster.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::provider::boot_data::BootData;
    use crate::provider::sim_cluster::SimMachine;
    use capi_types::dev::Host;
    use capstan_physics::boot::{Boot, Delays};

    fn after(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    fn control_plane() -> SimMachine {
        SimMachine {
            boot: Boot::new(Timestamp::UNIX_EPOCH, Delays::default(), true),
            provider_id: "in-memory://m".to_owned(),
            version: "v1.34.0".to_owned(),
            host: None::<Host>,
            memory: None,
            control_plane: true,
            addresses: Vec::new(),
            member_id: 1,
            tenants: Vec::new(),
            faults: String::new(),
            boot_data: BootData::default(),
        }
    }

    /// A cluster that was never reached is judged anew 70 s (five attempts, less 50 s) and 320 s after it was made.
    #[test]
    fn moments_follow_their_clusters() {
        let mut clusters = Clusters::default();
        let make = |clusters: &mut Clusters, name: &str, at: Timestamp| {
            clusters.edit_or_make(&key(name), at, || SimCluster::new(at, 1.0), |_| ());
        };
        make(&mut clusters, "a", after(0));
        make(&mut clusters, "b", after(5));
        make(&mut clusters, "c", after(9));
        let first = clusters.next_moment().expect("a moment");
        assert!(first > after(0) && clusters.take_due(after(1)).is_empty());
        clusters.edit(&key("a"), first, |sim| sim.advance(first));
        assert_eq!(clusters.take_due(first), [key("a")], "and no other, although somebody looked first");
        assert_eq!(clusters.next_moment(), Some(first + TimeDelta::seconds(5)), "of b");
        assert!(clusters.remove(&key("b")) && !clusters.remove(&key("b")));
        assert_eq!(clusters.next_moment(), Some(first + TimeDelta::seconds(9)), "of c");
        // One that serves waits for nothing.
        for name in ["a", "c"] {
            clusters.edit(&key(name), first, |sim| {
                sim.put_machine("m", control_plane());
                sim.advance(first);
            });
        }
        assert_eq!((clusters.next_moment(), clusters.moments.len()), (None, 0));
        assert_eq!(clusters.in_namespace("ns").count(), 2);
    }
}
