//! What a process makes of its flags and its file before it does anything: which Leases it will compete for, which
//! controllers it starts under which, or why it exits. Must not know the API.

use std::collections::BTreeMap;
use std::time::Duration;

use capstan_engine::engine::lease::LeaseOptions;
use leader_migration::configuration::Configuration;
use leader_migration::controller_names::Function;
use leader_migration::flags::{ElectionTimes, FlagError, Flags};
use leader_migration::known_flags::fault;
use leader_migration::manager_kind::ManagerKind;
use leader_migration::reading::read;
use leader_migration::release::Release;

/// The last release whose kube-controller-manager has cloud providers in it.
const LAST_WITH_PROVIDERS: u64 = 30;
/// The last one that begins to compete for the migration lock only after its token controller has started.
const LAST_WITH_TOKEN_SIGNAL: u64 = 33;
/// The files built into releases: the names before 1.28, and since.
const BUILT_IN_OLD: [&str; 3] = ["route", "service", "cloud-node-lifecycle"];
const BUILT_IN_NEW: [&str; 3] = ["route-controller", "service-controller", "cloud-node-lifecycle-controller"];
const FIRST_RENAMED: u64 = 28;

/// Why a process exits at its start, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    #[error("invalid argument: {0}")]
    Flag(#[from] FlagError),
    #[error("{0}")]
    NoSuchFlag(String),
    #[error("lease duration, renew deadline and retry period exclude each other")]
    Times,
    #[error("invalid lock type {0:?}")]
    LockType(String),
    #[error("open {0}: no such file or directory")]
    NoFile(String),
    #[error("error reading leader migration configuration {path}: {why}")]
    File { path: String, why: String },
    #[error("unknown cloud provider {0:?}")]
    CloudProvider(String),
}

/// A process that has read its flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub manager: ManagerKind,
    /// False: everything runs at once, and no Lease is looked at.
    pub elects: bool,
    pub namespace: String,
    pub main_lease: String,
    /// `None`: leader migration is off.
    pub migration_lease: Option<String>,
    /// Under the main lock.
    pub main: Vec<Function>,
    /// Under the migration lock.
    pub migrated: Vec<Function>,
    /// False: it never begins to compete for the migration lock.
    pub signals: bool,
    pub times: ElectionTimes,
}

impl Program {
    /// `files`: what is mounted, by path.
    ///
    /// # Errors
    /// Why the process exits.
    pub fn start(
        manager: ManagerKind,
        release: Release,
        args: &[String],
        files: &BTreeMap<String, String>,
    ) -> Result<Self, StartError> {
        // The order of upstream's checks: the first problem is the one that the process ends with.
        let flags = Flags::parse(manager, args)?;
        check_names(manager, release, &flags)?;
        if flags.leader_elect {
            check_election(&flags)?;
        }
        let has_provider = !matches!(flags.cloud_provider.as_str(), "" | "external");
        if manager == ManagerKind::KubeControllerManager && release.0 > LAST_WITH_PROVIDERS && has_provider {
            return Err(StartError::CloudProvider(flags.cloud_provider));
        }
        let migration = flags.leader_elect && flags.enable_migration;
        let configuration = migration.then(|| configuration(&flags, release, files)).transpose()?;
        let mut program = Self {
            manager,
            elects: flags.leader_elect,
            namespace: flags.resource_namespace.clone(),
            main_lease: flags.resource_name.clone(),
            migration_lease: configuration.as_ref().map(|c| c.leader_name.clone()),
            main: Vec::new(),
            migrated: Vec::new(),
            signals: signals(manager, release, &flags),
            times: flags.times,
        };
        // Without a file everything is under the main lock.
        for function in controllers(manager, release, &flags) {
            match configuration.as_ref().and_then(|c| owner(c, function.name_in(release))) {
                // Not in the file: the main lock is enough for it.
                None => program.main.push(function),
                Some(owner) if owner == "*" || owner == manager.name() => program.migrated.push(function),
                // Another component's.
                Some(_) => {}
            }
        }
        Ok(program)
    }

    /// How it competes for one of its Leases.
    pub fn election(&self, lease: &str, identity: &str) -> LeaseOptions {
        LeaseOptions {
            duration: self.times.lease_duration,
            renew_deadline: self.times.renew_deadline,
            retry: self.times.retry_period,
            // Upstream's process exits over a lost lock at once: nothing is given time to end.
            stop_grace: Duration::ZERO,
            ..LeaseOptions::new(&self.namespace, lease, identity)
        }
    }
}

/// The library ends the program over a name that it does not know. What only a provider can have is believed.
fn check_names(manager: ManagerKind, release: Release, flags: &Flags) -> Result<(), StartError> {
    let unknown = flags.given.iter().filter_map(|name| fault(manager, release, name));
    let unknown = unknown.filter(|fault| fault.is_certain).map(|fault| fault.problem);
    let first = unknown.chain(flags.defects.iter().cloned()).next();
    first.map_or(Ok(()), |why| Err(StartError::NoSuchFlag(why)))
}

fn check_election(flags: &Flags) -> Result<(), StartError> {
    let ElectionTimes { lease_duration, renew_deadline, retry_period } = flags.times;
    let are_possible = lease_duration > renew_deadline
        // client-go's jitter factor, by which the real process checks it.
        && renew_deadline > retry_period.mul_f64(1.2)
        && !retry_period.is_zero()
        && lease_duration >= Duration::from_secs(1);
    if !are_possible {
        return Err(StartError::Times);
    }
    if flags.resource_lock == "leases" {
        Ok(())
    } else {
        Err(StartError::LockType(flags.resource_lock.clone()))
    }
}

fn configuration(
    flags: &Flags,
    release: Release,
    files: &BTreeMap<String, String>,
) -> Result<Configuration, StartError> {
    let path = &flags.migration_config;
    if path.is_empty() {
        // The default of a release: it knows its controllers by the names of its time.
        let names = if release.0 < FIRST_RENAMED { BUILT_IN_OLD } else { BUILT_IN_NEW };
        let entries = names.map(|name| format!("  - {{name: {name}, component: '*'}}\n")).concat();
        let text = format!(
            "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n\
             leaderName: cloud-provider-extraction-migration\ncontrollerLeaders:\n{entries}"
        );
        // Whether the release reads v1 does not matter here: a built-in configuration is not a file.
        return read(&text).configuration.ok_or_else(|| StartError::NoFile(path.clone()));
    }
    let text = files.get(path).ok_or_else(|| StartError::NoFile(path.clone()))?;
    let reading = read(text);
    if reading.ends(release) {
        let why = reading.defects.first().map_or("no such version", |defect| defect.problem.as_str());
        return Err(StartError::File { path: path.clone(), why: why.to_owned() });
    }
    reading.configuration.ok_or_else(|| StartError::NoFile(path.clone()))
}

/// The component of the last entry with this very name.
fn owner<'a>(configuration: &'a Configuration, name: &str) -> Option<&'a str> {
    let entries = configuration.controller_leaders.iter().rev();
    entries.into_iter().find(|entry| entry.name == name).map(|entry| entry.component.as_str())
}

/// The controllers that the program has, and that its flags do not switch off.
fn controllers(manager: ManagerKind, release: Release, flags: &Flags) -> Vec<Function> {
    let has_provider = !matches!(flags.cloud_provider.as_str(), "" | "external");
    let has = |function: Function| match (manager, function) {
        // In both managers, whatever the provider.
        (_, Function::NodeIpam) => flags.allocate_node_cidrs,
        (ManagerKind::CloudControllerManager, _) => true,
        // kube-controller-manager never had it.
        (ManagerKind::KubeControllerManager, Function::NodeInitialization) => false,
        (ManagerKind::KubeControllerManager, _) => has_provider && release.0 <= LAST_WITH_PROVIDERS,
    };
    let is_on = |function: Function| flags.enables([function.name_in(release), function.alias()]);
    Function::ALL.into_iter().filter(|function| has(*function) && is_on(*function)).collect()
}

fn signals(manager: ManagerKind, release: Release, flags: &Flags) -> bool {
    if manager == ManagerKind::CloudControllerManager {
        return true;
    }
    let has_token = release.0 > LAST_WITH_TOKEN_SIGNAL
        || flags.enables(["serviceaccount-token-controller", "serviceaccount-token"]);
    // A lock without candidates never gets a holder.
    has_token && !flags.gate("CoordinatedLeaderElection")
}
