//! Who is there: the machine groups of one cluster, their machines and what state each is in. Counts
//! and names only; must not know how an object looks.

use chrono::TimeDelta;

use capstan_base::rng::Rng;
use capstan_base::time::Timestamp;

/// The state of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    /// Running what the owner no longer wants.
    Outdated,
    /// The host is not there yet.
    Provisioning,
    /// The node reports trouble.
    NodeDown,
    /// The etcd member raises an alarm.
    EtcdAlarm,
}

impl State {
    pub(super) fn ready(self) -> bool {
        matches!(self, Self::Running | Self::Outdated)
    }

    pub(super) fn up_to_date(self) -> bool {
        self != Self::Outdated
    }
}

/// What a group of machines goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Situation {
    Healthy,
    Rolling,
    Failing,
    Starting,
}

#[derive(Debug)]
pub(super) struct Member {
    pub name: String,
    pub state: State,
    pub created: Timestamp,
}

/// Machines of one template.
#[derive(Debug)]
pub(super) struct Set {
    pub name: String,
    /// Value of the template hash label; empty for control planes.
    pub hash: String,
    pub version: &'static str,
    pub members: Vec<Member>,
}

/// A control plane or a machine deployment.
#[derive(Debug)]
pub(super) struct Group {
    pub name: String,
    pub control_plane: bool,
    pub version: &'static str,
    pub desired: usize,
    /// The current one last.
    pub sets: Vec<Set>,
}

/// One cluster; the first group is its control plane.
#[derive(Debug)]
pub(super) struct ClusterCensus {
    pub name: String,
    pub namespace: String,
    pub number: usize,
    pub created: Timestamp,
    pub now: Timestamp,
    pub groups: Vec<Group>,
}

/// Replica counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub desired: usize,
    pub replicas: usize,
    pub ready: usize,
    pub up_to_date: usize,
    /// Versions with the number of their machines, oldest first.
    pub versions: Vec<(&'static str, usize)>,
}

/// Oldest first; each cluster runs one of these, but for the first.
const VERSIONS: &[&str] = &["v1.33.8", "v1.34.3", "v1.35.1", "v1.36.0"];
const WORKERS_PER_GROUP: usize = 40;

impl ClusterCensus {
    /// `share` machines, at least one: three of them control plane when there are more than three.
    pub(super) fn draw(number: usize, namespace: String, share: usize, now: Timestamp, rng: &Rng) -> Self {
        // Not the oldest one: what rolls has machines of the version before.
        let newest = 1 + index(rng, VERSIONS.len() - 1);
        let mut cluster = Self {
            name: format!("fleet-{number:04}"),
            namespace,
            number,
            created: now - TimeDelta::days(20) - TimeDelta::minutes(minutes(rng, 500_000)),
            now,
            groups: Vec::new(),
        };
        let desired = if share > 3 { 3 } else { 1 };
        let situation = control_plane_situation(rng, desired);
        cluster.groups.push(cluster.control_plane_group(desired, situation, newest, rng));
        // Workers follow their control plane: while it rolls they still have the version before.
        let workers_version = if situation == Situation::Rolling { newest - 1 } else { newest };
        let workers = share - desired;
        let groups = workers.div_ceil(WORKERS_PER_GROUP);
        for group in 0..groups {
            let size = workers / groups + usize::from(group < workers % groups);
            let situation = worker_situation(rng, size);
            cluster.groups.push(cluster.worker_group(group, size, situation, workers_version, rng));
        }
        cluster
    }

    fn control_plane_group(&self, desired: usize, situation: Situation, version: usize, rng: &Rng) -> Group {
        let name = format!("{}-control-plane", self.name);
        let states = match situation {
            Situation::Rolling => vec![State::Outdated, State::Outdated, State::Running, State::Running],
            Situation::Failing => vec![State::Running, State::Running, State::EtcdAlarm],
            Situation::Healthy | Situation::Starting => vec![State::Running; desired],
        };
        let members = self.members(&name, &states, rng);
        let set = Set { name: name.clone(), hash: String::new(), version: VERSIONS[version], members };
        Group { name, control_plane: true, version: VERSIONS[version], desired, sets: vec![set] }
    }

    fn worker_group(
        &self,
        number: usize,
        desired: usize,
        situation: Situation,
        version: usize,
        rng: &Rng,
    ) -> Group {
        let name = format!("{}-md-{number}", self.name);
        let mut group =
            Group { name, control_plane: false, version: VERSIONS[version], desired, sets: Vec::new() };
        let mut current = vec![State::Running; desired];
        match situation {
            Situation::Healthy => {}
            Situation::Failing => current[0] = State::NodeDown,
            Situation::Starting => current[desired.div_ceil(2)..].fill(State::Provisioning),
            Situation::Rolling => {
                let old = 1 + index(rng, desired - 1);
                // Below a control plane that is upgraded, the version may be the oldest: then
                // something else of the template changed.
                let before = previous(VERSIONS[version]);
                let set = self.set(&group.name, before, &vec![State::Outdated; old], rng);
                group.sets.push(set);
                current.truncate(desired - old);
                current.push(State::Provisioning);
            }
        }
        let set = self.set(&group.name, VERSIONS[version], &current, rng);
        group.sets.push(set);
        group
    }

    fn set(&self, group: &str, version: &'static str, states: &[State], rng: &Rng) -> Set {
        let suffix = rng.suffix(5);
        let name = format!("{group}-{suffix}");
        let hash = format!("{}-{suffix}", 1_000_000_000 + rng.below(3_000_000_000));
        let members = self.members(&name, states, rng);
        Set { name, hash, version, members }
    }

    fn members(&self, owner: &str, states: &[State], rng: &Rng) -> Vec<Member> {
        let member = |&state: &State| Member {
            name: format!("{owner}-{}", rng.suffix(5)),
            state,
            created: match state {
                State::Provisioning => self.now - TimeDelta::seconds(minutes(rng, 120)),
                _ => self.created + TimeDelta::minutes(5 + minutes(rng, 20_000)),
            },
        };
        states.iter().map(member).collect()
    }
}

impl Group {
    /// Index of the set and of the machine in it, for every machine.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let sizes: Vec<usize> = self.sets.iter().map(|set| set.members.len()).collect();
        sizes.into_iter().enumerate().flat_map(|(set, size)| (0..size).map(move |member| (set, member)))
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.sets.iter().flat_map(|set| &set.members)
    }

    pub(super) fn counters(&self) -> Counters {
        let mut counters = Counters { desired: self.desired, ..Counters::default() };
        for set in &self.sets {
            for member in &set.members {
                counters.count(set.version_of(member), member.state);
            }
        }
        counters
    }
}

impl Set {
    /// Control planes keep old and new machines in one set.
    pub(super) fn version_of(&self, member: &Member) -> &'static str {
        if self.hash.is_empty() && member.state == State::Outdated {
            previous(self.version)
        } else {
            self.version
        }
    }

    pub(super) fn counters(&self) -> Counters {
        let mut counters = Counters { desired: self.members.len(), ..Counters::default() };
        for member in &self.members {
            counters.count(self.version_of(member), member.state);
        }
        counters
    }
}

impl Counters {
    fn count(&mut self, version: &'static str, state: State) {
        self.replicas += 1;
        self.ready += usize::from(state.ready());
        self.up_to_date += usize::from(state.up_to_date());
        self.add_version(version, 1);
    }

    /// The sum of both.
    pub(super) fn plus(mut self, other: &Self) -> Self {
        self.desired += other.desired;
        self.replicas += other.replicas;
        self.ready += other.ready;
        self.up_to_date += other.up_to_date;
        for &(version, count) in &other.versions {
            self.add_version(version, count);
        }
        self
    }

    fn add_version(&mut self, version: &'static str, count: usize) {
        // All versions have one form, so that the order of their texts is that of the versions.
        match self.versions.binary_search_by_key(&version, |&(version, _)| version) {
            Ok(at) => self.versions[at].1 += count,
            Err(at) => self.versions.insert(at, (version, count)),
        }
    }
}

/// The version before, or the same for the oldest.
pub(super) fn previous(version: &'static str) -> &'static str {
    let at = VERSIONS.iter().position(|known| *known == version).unwrap_or_default();
    VERSIONS[at.saturating_sub(1)]
}

fn control_plane_situation(rng: &Rng, desired: usize) -> Situation {
    match rng.below(100) {
        0..2 if desired == 3 => Situation::Rolling,
        2..4 if desired == 3 => Situation::Failing,
        _ => Situation::Healthy,
    }
}

fn worker_situation(rng: &Rng, size: usize) -> Situation {
    match rng.below(200) {
        0..4 if size > 1 => Situation::Rolling,
        4..7 => Situation::Failing,
        7..10 if size > 1 => Situation::Starting,
        _ => Situation::Healthy,
    }
}

fn index(rng: &Rng, bound: usize) -> usize {
    usize::try_from(rng.below(u64::try_from(bound).unwrap_or_default())).unwrap_or_default()
}

fn minutes(rng: &Rng, bound: u64) -> i64 {
    i64::try_from(rng.below(bound)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(share: usize, seed: u64) -> ClusterCensus {
        let rng = Rng::seeded(seed);
        ClusterCensus::draw(0, "ns".to_owned(), share, Timestamp::UNIX_EPOCH, &rng)
    }

    #[test]
    fn workers_of_every_version_may_be_in_every_situation() {
        let (cluster, rng) = (census(3, 0), Rng::seeded(1));
        let situations = [Situation::Healthy, Situation::Rolling, Situation::Failing, Situation::Starting];
        for situation in situations {
            for (version, name) in VERSIONS.iter().enumerate() {
                for size in [2, WORKERS_PER_GROUP] {
                    let group = cluster.worker_group(0, size, situation, version, &rng);
                    let versions: Vec<&str> = group.sets.iter().map(|set| set.version).collect();
                    let expected = match situation {
                        Situation::Rolling => vec![VERSIONS[version.saturating_sub(1)], *name],
                        _ => vec![*name],
                    };
                    assert_eq!(versions, expected, "{situation:?} {name} {size}");
                }
            }
        }
    }

    #[test]
    fn every_seed_gives_a_cluster_of_the_size_that_is_asked_for() {
        for seed in 0..20_000 {
            // Small clusters: what is drawn for each of them is the same.
            let desired: usize = census(5, seed).groups.iter().map(|group| group.desired).sum();
            assert_eq!(desired, 5, "seed {seed}");
        }
    }
}
