//! One process's share where several engines work on one server: which of its controllers run under its primary lock,
//! which under a migration lock, and who competes for these locks when. Must not know what controllers do.
//!
//! A controller that no lock names runs under the primary lock of each process. [`Sharing::check`] allows that for none of
//! those it is given; who registers one that makes something in its own process' memory does not name it there.
//!
//! As upstream's leader migration, with any number of migration locks: a process competes for them only while it holds
//! its primary lock. Different from upstream, it does not compete for a lock that would give it nothing to run, and the
//! loss of a lock does not end the process: the runs that have started cannot write any more.

use std::collections::{BTreeMap, BTreeSet};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::lease::{Elector, Leadership, LeaseNotes, LeaseOptions};
use crate::client::Writer;
use capi_types::names::lease;
use capstan_base::time::Clock;
use k8s_machinery::lease as words_of_leases;
use k8s_machinery::validation::naming::dns_subdomain;
use leader_migration::configuration::{ANY, Configuration};
use leader_migration::placement::{Placement, place};

/// Which share a process has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// What the files call this process.
    pub component: String,
    /// One for each migration lock; the same for all processes.
    pub locks: Vec<Configuration>,
}

/// Where one controller runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    Primary,
    /// Under this one of the locks.
    Lock(usize),
    /// In another process.
    Elsewhere,
}

impl Sharing {
    pub fn of(&self, controller: &str) -> Share {
        let placed = self.locks.iter().map(|lock| place(controller, &self.component, lock));
        // `check` lets no two locks list one controller,
        // so the first lock that does is the only one.
        let listed = (0..).zip(placed).find(|(_, placement)| *placement != Placement::Main);
        match listed {
            None => Share::Primary,
            Some((lock, Placement::Migration)) => Share::Lock(lock),
            Some(_) => Share::Elsewhere,
        }
    }

    /// May processes work by these locks, each under a primary lock of its own? `controllers` are all there are,
    /// `together` those that need one process because they share what is in its memory.
    ///
    /// # Errors
    /// The first thing that would let a controller run twice, or never.
    pub fn check(
        &self,
        primary: &LeaseOptions,
        controllers: &[&str],
        together: &[&str],
    ) -> Result<(), String> {
        let mut names = BTreeSet::from([primary.name.as_str()]);
        let mut listed = BTreeSet::new();
        for lock in &self.locks {
            let name = lock.leader_name.as_str();
            if let Some(complaint) = dns_subdomain(name).first() {
                return Err(format!("leaderName {name:?} cannot be the name of a Lease: {complaint}"));
            }
            if is_of_others(name) {
                return Err(format!(
                    "leaderName {name} is a Lease of Kubernetes or of upstream's managers: use another name"
                ));
            }
            if !names.insert(name) {
                return Err(format!(
                    "leaderName {name} is there twice, or is the primary Lease: each lock needs its own"
                ));
            }
            for entry in &lock.controller_leaders {
                if !controllers.contains(&entry.name.as_str()) {
                    let known = controllers.join(", ");
                    return Err(format!(
                        "{name}: {} is not a controller: expected one of {known}",
                        entry.name
                    ));
                }
                if !listed.insert(entry.name.as_str()) {
                    return Err(format!("{name}: {} is listed twice: it would have two locks", entry.name));
                }
            }
        }
        let lock_of =
            |controller: &str| self.locks.iter().position(|lock| lock.component_of(controller).is_some());
        if let Some(apart) = together.iter().find(|controller| lock_of(controller) != lock_of(together[0])) {
            return Err(format!(
                "{apart} and {} are under two locks: with simulated machines they need one process",
                together[0]
            ));
        }
        match controllers.iter().find(|controller| !listed.contains(*controller)) {
            None => Ok(()),
            Some(missing) => Err(format!(
                "{missing} is under no lock: every process would run it under its own primary lock"
            )),
        }
    }

    /// The controllers that this process would run under a lock.
    fn runs_under(&self, lock: &Configuration) -> Vec<String> {
        let entries = lock.controller_leaders.iter();
        let ours = entries.filter(|entry| entry.component == ANY || entry.component == self.component);
        ours.map(|entry| entry.name.clone()).collect()
    }
}

/// Leases that no engine takes by a file: Kubernetes' own, and those of upstream's managers, which `--take-over` takes.
fn is_of_others(name: &str) -> bool {
    let kubernetes = ["kube-controller-manager", "cloud-controller-manager", "kube-scheduler"];
    kubernetes.contains(&name) || lease::UPSTREAM.iter().any(|(_, other)| *other == name)
}

/// The migration locks of one engine.
pub(super) struct Locks {
    sharing: Sharing,
    /// By the number of the lock.
    electors: Vec<(Elector, Leadership)>,
    leaderships: BTreeMap<usize, Leadership>,
}

impl Locks {
    /// `writer` must carry no permit; every right needs `primary` too.
    pub(super) fn new(
        sharing: Sharing,
        options: &LeaseOptions,
        writer: &Writer,
        clock: &Clock,
        primary: &Leadership,
    ) -> Self {
        let mut locks = Self { electors: Vec::new(), leaderships: BTreeMap::new(), sharing };
        for (number, lock) in (0..).zip(&locks.sharing.locks) {
            let controllers = locks.sharing.runs_under(lock);
            // A process that runs none of them would only keep out those that do.
            if controllers.is_empty() {
                continue;
            }
            let options = LeaseOptions {
                name: lock.leader_name.clone(),
                annotations: BTreeMap::from([(
                    words_of_leases::CONTROLLERS.to_owned(),
                    controllers.join(","),
                )]),
                notes: LeaseNotes::default(),
                ..options.clone()
            };
            let (elector, own) = Elector::new(options, writer.clone(), clock.clone());
            locks.leaderships.insert(number, own.and(primary));
            locks.electors.push((elector, primary.clone()));
        }
        locks
    }

    /// The right that a controller's runs need. `None`: it runs in another process.
    pub(super) fn right_of(&self, controller: &str, primary: &Leadership) -> Option<Leadership> {
        match self.sharing.of(controller) {
            Share::Primary => Some(primary.clone()),
            Share::Lock(number) => self.leaderships.get(&number).cloned(),
            Share::Elsewhere => None,
        }
    }

    /// Competes for each lock in a task of its own until cancelled, then gives them back.
    pub(super) fn run(&mut self, stop: &CancellationToken) -> JoinSet<()> {
        let electors = std::mem::take(&mut self.electors).into_iter();
        electors.map(|(elector, primary)| elector.run_below(primary, stop.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leader_migration::configuration::ControllerLeader;

    fn lock(name: &str, entries: &[(&str, &str)]) -> Configuration {
        let leader = |(name, component): &(&str, &str)| ControllerLeader {
            name: (*name).to_owned(),
            component: (*component).to_owned(),
        };
        Configuration {
            leader_name: name.to_owned(),
            resource_lock: "leases".to_owned(),
            controller_leaders: entries.iter().map(leader).collect(),
        }
    }

    fn shared(locks: Vec<Configuration>) -> Sharing {
        Sharing { component: "east".to_owned(), locks }
    }

    #[test]
    fn where_a_controller_runs() {
        let sharing = shared(vec![lock("a", &[("machine", "*")]), lock("b", &[("cluster", "west")])]);
        assert_eq!(sharing.of("machine"), Share::Lock(0));
        assert_eq!(sharing.of("cluster"), Share::Elsewhere);
        assert_eq!(sharing.of("machine-set"), Share::Primary);
    }

    #[test]
    fn what_would_run_twice_or_never_is_refused() {
        let primary = LeaseOptions::new("default", "capstan-engine-east", "x");
        for (locks, message) in [
            (vec![lock("a", &[("machine", "*"), ("cluster", "*")])], ""),
            (vec![lock("a", &[("machine", "*")])], "cluster and machine are under two locks"),
            (vec![lock("a", &[])], "machine is under no lock"),
            (
                vec![lock("a", &[("machine", "*")]), lock("b", &[("cluster", "*")])],
                "cluster and machine are under two",
            ),
            (
                vec![lock("a", &[("machine", "*")]), lock("b", &[("machine", "*")])],
                "b: machine is listed twice",
            ),
            (
                vec![lock("a", &[("machines", "*")])],
                "a: machines is not a controller: expected one of machine, cluster",
            ),
            (vec![lock("a", &[]), lock("a", &[])], "leaderName a is there twice"),
            (
                vec![lock("capstan-engine-east", &[])],
                "leaderName capstan-engine-east is there twice, or is the primary",
            ),
            (
                vec![lock("kube-controller-manager", &[])],
                "leaderName kube-controller-manager is a Lease of Kubernetes",
            ),
            (
                vec![lock("controller-leader-election-capi", &[])],
                "leaderName controller-leader-election-capi is a Lease",
            ),
            (vec![lock("A", &[])], "leaderName \"A\" cannot be the name of a Lease"),
        ] {
            let answer = shared(locks).check(&primary, &["machine", "cluster"], &["machine", "cluster"]);
            let answer = answer.err().unwrap_or_default();
            assert!(
                answer.starts_with(message) && answer.is_empty() == message.is_empty(),
                "{message}: {answer}"
            );
        }
    }
}
