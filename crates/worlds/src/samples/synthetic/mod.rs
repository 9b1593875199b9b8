//! A large fleet that stands still: every object complete with status, about nineteen in twenty of its
//! machine groups healthy, the rest rolling, failing or starting, counters and conditions in step.
//! Objects stream; what is held at a time is one object and the names of one cluster's machines.
//! Must not know who stores them, and shares no rule with `status`: its sentences are its own tables.

mod census;
mod conditions;
mod machines;
mod objects;

use std::sync::Arc;

use serde_json::{Value, json};

use super::SampleError;
use capstan_base::rng::Rng;
use capstan_base::time::Timestamp;

use census::ClusterCensus;

/// What `synthetic:clusters=C,machines=M` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synthetic {
    pub clusters: usize,
    /// Of all clusters together, control planes included.
    pub machines: usize,
    pub seed: u64,
}

const MACHINES_MAX: usize = 1_000_000;
/// Clusters are spread over this many namespaces at most.
const NAMESPACES_MAX: usize = 10;

impl Synthetic {
    /// Reads `clusters=C,machines=M` and, if given, `seed=N`.
    pub fn parse(text: &str) -> Result<Self, SampleError> {
        let problem = |problem: String| SampleError::Synthetic { text: text.to_owned(), problem };
        let (mut clusters, mut machines, mut seed) = (None, None, 0_u64);
        for part in text.split(',') {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| problem(format!("`{part}` is not of the form key=number")))?;
            let number: u64 =
                value.parse().map_err(|_| problem(format!("`{value}` is not a whole number")))?;
            match key {
                "clusters" => clusters = usize::try_from(number).ok(),
                "machines" => machines = usize::try_from(number).ok(),
                "seed" => seed = number,
                _ => return Err(problem(format!("`{key}` is not one of clusters, machines, seed"))),
            }
        }
        let (Some(clusters), Some(machines)) = (clusters, machines) else {
            return Err(problem("both clusters and machines are needed".to_owned()));
        };
        if clusters == 0 || machines < clusters || machines > MACHINES_MAX {
            return Err(problem(format!(
                "at least one cluster, at least one machine for each, and at most {MACHINES_MAX} machines"
            )));
        }
        Ok(Self { clusters, machines, seed })
    }

    /// Every object, namespaces first, then cluster by cluster, owners before what they own. The same
    /// specification and `now` give the same objects. Object metadata has uids and creation times;
    /// resource versions are left to the store.
    pub fn objects(self, now: Timestamp) -> impl Iterator<Item = Value> + Send {
        let namespaces = (0..self.namespaces()).map(namespace);
        let clusters = (0..self.clusters).flat_map(move |index| cluster_objects(self.census(index, now)));
        namespaces.chain(clusters)
    }

    fn namespaces(self) -> usize {
        self.clusters.min(NAMESPACES_MAX)
    }

    fn census(self, index: usize, now: Timestamp) -> ClusterCensus {
        let share = self.machines / self.clusters + usize::from(index < self.machines % self.clusters);
        // A stream for each cluster: how much one draws does not change the next.
        let rng = Rng::seeded(self.seed).stream(&format!("cluster/{index}"));
        ClusterCensus::draw(index, namespace_name(index % self.namespaces()), share, now, &rng)
    }
}

fn namespace_name(index: usize) -> String {
    format!("team-{index}")
}

fn namespace(index: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": namespace_name(index) },
        "status": { "phase": "Active" },
    })
}

fn cluster_objects(census: ClusterCensus) -> impl Iterator<Item = Value> + Send {
    let census = Arc::new(census);
    let head = objects::cluster_level(&census);
    let groups = (0..census.groups.len()).flat_map(move |group| group_objects(&census, group));
    head.into_iter().chain(groups)
}

fn group_objects(census: &Arc<ClusterCensus>, group: usize) -> impl Iterator<Item = Value> + Send + use<> {
    let census = Arc::clone(census);
    let head = objects::group_level(&census, &census.groups[group]);
    let members = census.groups[group].places();
    head.into_iter().chain(members.flat_map(move |(set, member)| {
        let group = &census.groups[group];
        machines::machine_level(&census, group, &group.sets[set], &group.sets[set].members[member])
    }))
}

#[cfg(test)]
mod tests;
