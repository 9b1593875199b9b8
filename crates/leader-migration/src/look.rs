//! Everything that one sees of a cluster's locks at one moment: what the lock view and the walkthrough are drawn from.
//! Plain data; must not know how it is read.

use super::configuration::DEFAULT_LEADER_NAME;
use super::controller_names::Function;
use super::edits::Settings;
use super::flag_places::FlagPlaces;
use super::lock_view::{HolderChange, LockView, Surroundings, WatchedLease, view};
use super::manager_kind::ManagerKind;
use super::process::Process;
use super::release::Release;
use super::rights::Grantee;
use super::stages::{Situation, host_of};
use super::validate::{ClusterFacts, LeaseFact, RightFact};
use capstan_base::time::Timestamp;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct MigrationScope {
    /// Of the migration Lease.
    pub leader_name: String,
    /// Of the Leases and of the controller managers' pods.
    pub namespace: String,
    /// The controllers that move.
    pub functions: Vec<Function>,
    /// Who needs rights on the migration Lease.
    pub subjects: [Grantee; 2],
}

impl Default for MigrationScope {
    /// What upstream's documentation and the built-in files use.
    fn default() -> Self {
        let account = Grantee::ServiceAccount {
            namespace: "kube-system".to_owned(),
            name: ManagerKind::CloudControllerManager.name().to_owned(),
        };
        Self {
            leader_name: DEFAULT_LEADER_NAME.to_owned(),
            namespace: "kube-system".to_owned(),
            functions: vec![Function::Routes, Function::LoadBalancers, Function::NodeLifecycle],
            subjects: [Grantee::kube_controller_manager(), account],
        }
    }
}

/// One look. Its text is sanitised but for that of `places`.
#[derive(Clone, Debug, Default)]
pub struct LockLook {
    /// By our clock.
    pub at: Timestamp,
    /// Every Lease of the namespace.
    pub leases: Vec<WatchedLease>,
    /// Oldest first.
    pub changes: Vec<HolderChange>,
    /// The controller managers that are known.
    pub processes: Vec<Process>,
    /// Answers of access reviews about the migration Lease.
    pub rights: Vec<RightFact>,
    /// Where their flags are kept. Its text is as it was read.
    pub places: FlagPlaces,
    /// What had to be assumed, or could not be read, in sentences.
    pub remarks: Vec<String>,
    /// Why what is shown may be old.
    pub trouble: Option<String>,
}

impl LockLook {
    /// The Leases as they stand now, when nothing has come since.
    pub fn leases_at(&self, now: Timestamp) -> Vec<WatchedLease> {
        // A wall clock that was set back gives a negative span: then the look counts as of now.
        let since_s = u64::try_from((now - self.at).num_seconds()).unwrap_or(0);
        self.leases.iter().cloned().map(|lease| lease.later(since_s)).collect()
    }

    /// The Leases judged together with what processes say and with changes that were seen.
    pub fn view(&self, leader_name: &str, now: Timestamp) -> LockView {
        let around = Surroundings {
            leader_name,
            now_us: now.timestamp_micros(),
            processes: &self.processes,
            changes: &self.changes,
        };
        view(self.leases_at(now), around)
    }

    /// What the stages of a migration are judged by at `now`.
    pub fn situation(&self, scope: &MigrationScope, now: Timestamp) -> Situation {
        let leases = self.leases_at(now);
        let is_ours =
            |lease: &&WatchedLease| lease.name == scope.leader_name && lease.namespace == scope.namespace;
        // A Lease that nobody renews still has the acquire time of its last holder.
        let ours = leases.iter().find(is_ours).filter(|lease| lease.is_renewed());
        let held_for_s =
            ours.and_then(|lease| Some((now.timestamp_micros() - lease.acquired_us?) / 1_000_000));
        let fact = |lease: WatchedLease| LeaseFact {
            is_renewed: lease.is_renewed(),
            is_coordinated: lease.strategy.is_some(),
            was_made_anew: lease.was_made_anew,
            namespace: lease.namespace,
            name: lease.name,
            holder: lease.holder,
        };
        Situation {
            processes: self.processes.clone(),
            facts: ClusterFacts {
                leases: leases.into_iter().map(fact).collect(),
                rights: self.rights.clone(),
            },
            lock: (scope.namespace.clone(), scope.leader_name.clone()),
            held_for_s,
            now,
            declared_provider: self.places.declared_provider(),
        }
    }

    /// What the edits of the stages depend on. `cloud`: the release that somebody named for the cloud's processes.
    pub fn settings(&self, scope: &MigrationScope, cloud: Option<Release>) -> Settings {
        let release = |kind: ManagerKind| {
            let of_kind = self.processes.iter().filter(|process| process.manager == kind);
            // The oldest reader decides in which version a file is written.
            of_kind.map(|process| process.release).min()
        };
        let is_source = |process: &&Process| {
            process.manager == ManagerKind::KubeControllerManager && process.has_cloud_provider()
        };
        let mut sources = self.processes.iter().filter(is_source);
        let old = release(ManagerKind::KubeControllerManager).unwrap_or(Release(0));
        // Upstream's order: release N gives the controllers away, N+1 takes them.
        let cloud = release(ManagerKind::CloudControllerManager).or(cloud).unwrap_or(Release(old.0 + 1));
        Settings {
            namespace: scope.namespace.clone(),
            leader_name: scope.leader_name.clone(),
            functions: scope.functions.clone(),
            subjects: scope.subjects.to_vec(),
            releases: (old, cloud),
            places: self.places.clone(),
            holder: self.holder_of(ManagerKind::KubeControllerManager),
            provider: sources.next().map(|process| process.flags.cloud_provider.clone()).unwrap_or_default(),
        }
    }

    /// The host that holds the main Lease of this kind; empty when nobody does, or it is not known.
    fn holder_of(&self, kind: ManagerKind) -> String {
        let process = self.processes.iter().find(|process| process.manager == kind);
        let held =
            process.and_then(|process| self.leases.iter().find(|lease| lease.key() == process.main_lock()));
        held.map(|lease| host_of(&lease.holder).to_owned()).unwrap_or_default()
    }
}
