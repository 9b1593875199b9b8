//! How far a migration is, from what a cluster shows: eight stages, each with its state and the evidence for it. Owns
//! the order and what holds a stage up; must not know where the facts come from, nor what was done before.

use super::manager_kind::ManagerKind;
use super::process::Process;
use super::release::Release;
use super::rules::{Finding, FindingSeverity};
use super::validate::{ClusterFacts, validate};
use capstan_base::time::Timestamp;

/// A Lease is settled after this time without a transition.
pub const SETTLED_S: i64 = 600;

/// Steps from controllers in kube-controller-manager to the same controllers in cloud-controller-manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MigrationStage {
    /// The processes are as a migration needs them.
    Preflight,
    /// Rights on the migration Lease are given.
    Grant,
    /// Every old kube-controller-manager takes part.
    Enable,
    /// New processes come, node by node, beside old ones.
    Introduce,
    /// The last old process that holds the migrated controllers ends.
    Handover,
    /// The new holder keeps its Lease for [`SETTLED_S`].
    Settle,
    /// The new processes run without migration.
    Disable,
    /// What only the migration needed goes.
    Clean,
}

impl MigrationStage {
    /// In their order.
    pub const ALL: [Self; 8] = [
        Self::Preflight,
        Self::Grant,
        Self::Enable,
        Self::Introduce,
        Self::Handover,
        Self::Settle,
        Self::Disable,
        Self::Clean,
    ];

    /// Name and content of the stage, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Preflight => "Preflight: processes, flags, names, Leases",
            Self::Grant => "Grant: rights on the migration Lease",
            Self::Enable => "Enable: leader migration on every kube-controller-manager of the old release",
            Self::Introduce => {
                "Introduce: node by node the new kube-controller-manager and cloud-controller-manager"
            }
            Self::Handover => "Handover: the last old kube-controller-manager goes",
            Self::Settle => "Settle: no transition for ten minutes",
            Self::Disable => "Disable: cloud-controller-manager without the enable flag",
            Self::Clean => "Clean: Lease, rights and files",
        }
    }

    /// How to go back from here.
    pub fn rollback(self) -> &'static str {
        match self {
            Self::Preflight => "nothing was changed",
            Self::Grant => "delete the Role and its binding",
            Self::Enable => "remove the enable flag, node by node, one lease duration apart",
            Self::Introduce => {
                "take the node back to the old release, with the enable flag, then remove its cloud-controller-manager"
            }
            Self::Handover => {
                "start kube-controller-managers of the old release with the enable flag on every node, so that one of them gets the main Lease, then stop the cloud-controller-managers"
            }
            Self::Settle => "as from the handover",
            Self::Disable => {
                "add the enable flag to the cloud-controller-managers again, then as from the handover"
            }
            Self::Clean => "apply the rights again, then as from the stage before",
        }
    }
}

/// Where a stage is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageState {
    /// The cluster shows everything that it was for.
    Done,
    /// Begun: what is missing.
    InProgress(String),
    /// The next thing to do.
    Todo(String),
    /// It must not be begun or gone on with: why.
    Blocked(String),
    /// A stage before it is not done.
    Later,
}

impl StageState {
    /// For a column.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::InProgress(_) => "in progress",
            Self::Todo(_) => "to do",
            Self::Blocked(_) => "blocked",
            Self::Later => "later",
        }
    }

    /// What is missing, or why not.
    pub fn reason(&self) -> &str {
        match self {
            Self::Done | Self::Later => "",
            Self::InProgress(why) | Self::Todo(why) | Self::Blocked(why) => why,
        }
    }
}

/// An object, and what of it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Kind and name, for people.
    pub object: String,
    /// The field and its value, or a sentence.
    pub value: String,
}

/// One stage, with what the cluster shows about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageReport {
    /// Its place in the order of a migration.
    pub stage: MigrationStage,
    /// Never taken from what was done before, only from what is seen.
    pub state: StageState,
    /// What was seen, for and against.
    pub proofs: Vec<Proof>,
    /// The process that is to be changed next.
    pub next: Option<String>,
    /// The next process is not to be restarted before this is over.
    pub wait: Option<NodeWait>,
}

/// The rest between the restarts of two processes of one kind: what the one before may have held until it ended has to run
/// out first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeWait {
    /// The process that was restarted last.
    pub after: String,
    /// Never longer than the lease duration: clocks of nodes differ.
    pub left_s: i64,
}

/// Everything that the stages are judged by.
#[derive(Clone, Debug, Default)]
pub struct Situation {
    /// Of both programs, in the order of their nodes.
    pub processes: Vec<Process>,
    /// Leases and rights.
    pub facts: ClusterFacts,
    /// Namespace and name of the migration Lease.
    pub lock: (String, String),
    /// Since when its holder has it, in seconds, by the holder's clock.
    pub held_for_s: Option<i64>,
    /// By our clock.
    pub now: Timestamp,
    /// The cloud provider that kubeadm's configuration gives to kube-controller-manager, and where it stands.
    pub declared_provider: Option<(String, &'static str)>,
}

/// What the whole looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Walkthrough {
    /// No process has cloud controllers to give away, and none did.
    NothingToMigrate {
        /// Of the kube-controller-managers.
        oldest: Release,
    },
    /// All eight, in their order.
    Stages(Vec<StageReport>),
}

/// The host in the identity of one of the two programs, `HOST_UUID`: its node, or the name of its pod.
pub fn host_of(identity: &str) -> &str {
    // A name of a host may have `_` of its own, a UUID has none.
    identity.rsplit_once('_').map_or(identity, |(host, _)| host)
}

impl Situation {
    fn of(&self, kind: ManagerKind) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(move |process| process.manager == kind)
    }

    /// Those that have cloud controllers in them.
    pub fn sources(&self) -> impl Iterator<Item = &Process> {
        self.of(ManagerKind::KubeControllerManager).filter(|process| process.has_cloud_provider())
    }

    /// The cloud-controller-managers.
    pub fn clouds(&self) -> impl Iterator<Item = &Process> {
        self.of(ManagerKind::CloudControllerManager)
    }

    fn holder(&self, namespace: &str, name: &str) -> Option<&str> {
        let lease = self.facts.leases.iter().find(|l| l.namespace == namespace && l.name == name)?;
        // The last holder stays written in a Lease that is not renewed.
        (lease.is_renewed && !lease.holder.is_empty()).then_some(lease.holder.as_str())
    }

    pub(super) fn migration_holder(&self) -> Option<&str> {
        self.holder(&self.lock.0, &self.lock.1)
    }

    pub(super) fn main_holder(&self, kind: ManagerKind) -> Option<&str> {
        // Main Leases that differ within one kind are a finding of their own: one process stands
        // for all.
        let process = self.of(kind).next()?;
        self.holder(&process.flags.resource_namespace, &process.flags.resource_name)
    }

    /// Those that do not hold the Lease first: the holder keeps the controllers until the others are through.
    pub(super) fn holder_last<'a>(
        &self,
        mut processes: Vec<&'a Process>,
        lease_of: ManagerKind,
    ) -> Vec<&'a Process> {
        let host = self.main_holder(lease_of).map(host_of);
        // The sort is stable, so the others keep their order; a process without host network has
        // its pod's name in the identity.
        processes.sort_by_key(|process| {
            host.is_some_and(|host| process.node.as_deref() == Some(host) || process.name == host)
        });
        processes
    }

    /// The processes that a stage has still to go through, in their order.
    fn left(&self, stage: MigrationStage) -> Vec<&Process> {
        let kube = ManagerKind::KubeControllerManager;
        match stage {
            MigrationStage::Enable => {
                self.holder_last(self.sources().filter(|process| !process.migrates()).collect(), kube)
            }
            MigrationStage::Introduce | MigrationStage::Handover => {
                self.holder_last(self.sources().collect(), kube)
            }
            MigrationStage::Disable => self.holder_last(
                self.clouds().filter(|process| process.migrates()).collect(),
                ManagerKind::CloudControllerManager,
            ),
            _ => Vec::new(),
        }
    }

    pub(super) fn has_lease(&self) -> bool {
        self.facts.leases.iter().any(|lease| (&lease.namespace, &lease.name) == (&self.lock.0, &self.lock.1))
    }

    /// Is the migration lock held by whoever holds the main lock of this kind?
    pub(super) fn is_held_by(&self, kind: ManagerKind) -> bool {
        self.migration_holder().is_some() && self.migration_holder() == self.main_holder(kind)
    }

    /// Stage 6 has begun: what the stages before it look at changes hands again on the way.
    fn is_being_disabled(&self) -> bool {
        self.sources().next().is_none() && self.clouds().any(|process| !process.migrates())
    }

    /// Judges every stage.
    pub fn judge(&self) -> Walkthrough {
        let is_on = |process: &Process| process.migrates() || process.is_in_shell;
        // Behind the handover no process has a provider any more: the Lease and the flags show that
        // a migration is under way.
        let has_begun =
            self.has_lease() || self.processes.iter().any(is_on) || self.lost_provider().is_some();
        if self.sources().next().is_none() && !has_begun {
            let oldest = self.of(ManagerKind::KubeControllerManager).map(|process| process.release).min();
            return Walkthrough::NothingToMigrate { oldest: oldest.unwrap_or(Release(0)) };
        }
        let mut findings = validate(&self.processes, &self.facts);
        findings.extend(self.lost_provider());
        let mut reports = Vec::new();
        let mut is_reached = true;
        for stage in MigrationStage::ALL {
            let (state, proofs) = self.stage(stage, &findings);
            let state = if is_reached { state } else { StageState::Later };
            // A later stage counts only behind finished ones: each makes the next one safe.
            is_reached &= state == StageState::Done;
            let is_open = matches!(state, StageState::InProgress(_) | StageState::Todo(_));
            let wait = self.wait(stage).filter(|_| is_open);
            let next = self.left(stage).first().filter(|_| is_open).map(|process| process.name.clone());
            reports.push(StageReport { stage, state, proofs, next, wait });
        }
        Walkthrough::Stages(reports)
    }

    /// kubeadm's configuration names a provider, and no process of either kind has it.
    fn lost_provider(&self) -> Option<Finding> {
        let (provider, place) = self.declared_provider.as_ref()?;
        // An external provider is what stage 3 writes, not a loss.
        let is_in_tree = !matches!(provider.as_str(), "" | "external");
        let lost: Vec<String> =
            self.processes.iter().filter(|p| p.names_no_provider()).map(|p| p.name.clone()).collect();
        let is_lost = is_in_tree && !lost.is_empty() && self.sources().chain(self.clouds()).next().is_none();
        let problem = format!(
            "--cloud-provider is missing: {place} says {provider}, and no cloud-controller-manager runs"
        );
        is_lost.then(|| Finding::new("F10", lost, problem))
    }

    /// In the stages that go from node to node.
    fn wait(&self, stage: MigrationStage) -> Option<NodeWait> {
        let touched: Vec<&Process> = match stage {
            MigrationStage::Enable => self.sources().filter(|process| process.migrates()).collect(),
            MigrationStage::Introduce | MigrationStage::Handover => self.clouds().collect(),
            MigrationStage::Disable => self.clouds().filter(|process| !process.migrates()).collect(),
            _ => Vec::new(),
        };
        self.rest_after(touched)
    }

    /// One lease duration after the last restart of these. Clocks of nodes differ: it is never longer than that.
    pub(super) fn rest_after(&self, touched: Vec<&Process>) -> Option<NodeWait> {
        let last = touched.into_iter().filter(|process| process.started_at.is_some());
        let last = last.max_by_key(|process| process.started_at)?;
        let duration_s = i64::try_from(last.flags.times.lease_duration.as_secs()).unwrap_or(i64::MAX);
        // A start in our future comes from a node whose clock is ahead.
        let passed_s = (self.now - last.started_at?).num_seconds().max(0);
        let left_s = duration_s - passed_s;
        (left_s > 0).then(|| NodeWait { after: last.name.clone(), left_s })
    }

    fn stage(&self, stage: MigrationStage, findings: &[Finding]) -> (StageState, Vec<Proof>) {
        match stage {
            MigrationStage::Preflight => self.preflight(findings),
            MigrationStage::Grant => self.grant(),
            MigrationStage::Enable => self.enable(),
            MigrationStage::Introduce => self.introduce(),
            MigrationStage::Handover => self.handover(),
            MigrationStage::Settle => self.settle(),
            MigrationStage::Disable => self.disable(),
            MigrationStage::Clean => self.clean(),
        }
    }

    /// Unsafe orders show here: a set of processes that can run a controller twice, or nowhere.
    fn preflight(&self, findings: &[Finding]) -> (StageState, Vec<Proof>) {
        let proofs = self.processes.iter().map(|process| Proof {
            object: process.name.clone(),
            value: format!(
                "{} {}{}",
                process.manager.short(),
                process.release,
                if process.migrates() { ", leader migration on" } else { "" }
            ),
        });
        let proofs = proofs.collect();
        // Rights are a stage of their own.
        let worst = findings
            .iter()
            .find(|f| f.severity == FindingSeverity::Error && f.code != "F9" && f.code != "no-actor");
        // What runs there is not known.
        let worst = worst.or_else(|| findings.iter().find(|finding| finding.code == "shell"));
        match worst {
            Some(finding) => {
                let why = format!("{} {}: {}", finding.code, finding.subjects.join(", "), finding.problem);
                (StageState::Blocked(format!("{why}; {}", finding.remedy())), proofs)
            }
            None => (StageState::Done, proofs),
        }
    }

    pub(super) fn grant(&self) -> (StageState, Vec<Proof>) {
        let proof = |fact: &super::validate::RightFact| Proof {
            object: fact.question.subject.user(),
            value: match fact.allowed {
                Some(true) => format!("may {}", fact.question.verb),
                Some(false) => format!("may not {}", fact.question.verb),
                None => format!("not known whether it may {}", fact.question.verb),
            },
        };
        let proofs: Vec<Proof> = self.facts.rights.iter().map(proof).collect();
        let is_there = self.has_lease();
        // A Lease that is there needs no `create`: it may be made beforehand.
        let needed = || self.facts.rights.iter().filter(|fact| fact.question.verb != "create" || !is_there);
        let state = if needed().any(|fact| fact.allowed == Some(false)) {
            StageState::Todo("a Role and its binding are missing".to_owned())
        } else if self.facts.rights.is_empty() || needed().any(|fact| fact.allowed.is_none()) {
            StageState::Blocked(
                "who may write the Lease is not known: the server did not answer access reviews".to_owned(),
            )
        } else {
            StageState::Done
        };
        (state, proofs)
    }

    fn enable(&self) -> (StageState, Vec<Proof>) {
        let kind = ManagerKind::KubeControllerManager;
        let mut proofs = self.lock_proofs(kind);
        let missing: Vec<&str> =
            self.left(MigrationStage::Enable).into_iter().map(|process| process.name.as_str()).collect();
        let all = self.sources().count();
        proofs.push(Proof {
            object: kind.name().to_owned(),
            value: format!("{} of {all} have the flag", all - missing.len()),
        });
        let state = match missing.first() {
            // With no source left the handover is over: nothing is to be enabled any more.
            None if all == 0 || self.migration_holder().is_some() => StageState::Done,
            None => StageState::InProgress("nobody renews the migration Lease yet".to_owned()),
            // A process without the flag runs all its controllers under its main lock, beside a
            // cloud's that holds the migration lock.
            Some(_) if self.clouds().next().is_some() => StageState::Blocked(format!(
                "cloud-controller-manager runs already, and {} ignores the migration lock: stop it first",
                missing.join(", ")
            )),
            Some(first) if missing.len() < all => {
                StageState::InProgress(format!("next: {first}, one lease duration after the one before"))
            }
            Some(first) => StageState::Todo(format!("begin with {first}")),
        };
        (state, proofs)
    }

    fn introduce(&self) -> (StageState, Vec<Proof>) {
        let (old, clouds) = (self.sources().count(), self.clouds().count());
        let value = format!("{old} of the old release, {clouds} cloud-controller-managers");
        let proofs = vec![Proof { object: "control plane".to_owned(), value }];
        let unflagged = self.clouds().find(|process| !process.migrates());
        let left = self.left(MigrationStage::Introduce);
        let next = left.first().map(|process| process.name.as_str()).unwrap_or_default();
        let state = match unflagged {
            // It runs them under its main lock, and an old one under the migration lock.
            Some(cloud) if old > 0 => {
                StageState::Blocked(format!("{} runs without the enable flag", cloud.name))
            }
            // The last old one keeps the controllers until stage 4, which is its end.
            _ if old <= 1 && clouds > 0 || old == 0 => StageState::Done,
            _ if clouds == 0 => StageState::Todo(format!(
                "start cloud-controller-manager with the flag, then take the node of {next} to the new release"
            )),
            _ => StageState::InProgress(format!(
                "next: the node of {next}; {old} nodes have the old release, the holder's comes last"
            )),
        };
        (state, proofs)
    }

    fn handover(&self) -> (StageState, Vec<Proof>) {
        let proofs = self.lock_proofs(ManagerKind::CloudControllerManager);
        let old: Vec<&str> =
            self.left(MigrationStage::Handover).into_iter().map(|process| process.name.as_str()).collect();
        let is_over = self.is_being_disabled();
        let state = match old.first() {
            Some(last) => StageState::Todo(format!("take the node of {last} to the new release")),
            // Cloud processes that lost the flag let go of the migration Lease, which must not undo
            // this stage.
            None if self.is_held_by(ManagerKind::CloudControllerManager) || is_over => StageState::Done,
            None if self.clouds().next().is_none() => StageState::Blocked(self.nobody()),
            None => StageState::InProgress("no cloud-controller-manager holds both Leases yet".to_owned()),
        };
        (state, proofs)
    }

    /// Why no process of either kind runs the controllers.
    fn nobody(&self) -> String {
        let lost: Vec<&str> = self
            .processes
            .iter()
            .filter(|p| p.names_no_provider())
            .map(|process| process.name.as_str())
            .collect();
        let lost = if lost.is_empty() {
            String::new()
        } else {
            format!(", and --cloud-provider is missing in {}", lost.join(", "))
        };
        format!("no cloud-controller-manager runs{lost}: nobody runs the controllers")
    }

    fn settle(&self) -> (StageState, Vec<Proof>) {
        let held = self
            .held_for_s
            .map_or("not held".to_owned(), |s| format!("held for {s} s by its holder's clock"));
        let proofs = vec![Proof { object: self.lock_name(), value: held }];
        let is_over = self.is_being_disabled();
        let state = match self.held_for_s {
            // A restart without the flag ends the term that was counted.
            _ if is_over => StageState::Done,
            Some(held) if held >= SETTLED_S => StageState::Done,
            Some(held) => StageState::InProgress(format!("{} s to wait", SETTLED_S - held)),
            None => StageState::InProgress("the migration Lease is not held".to_owned()),
        };
        (state, proofs)
    }

    fn disable(&self) -> (StageState, Vec<Proof>) {
        let with_flag: Vec<&str> =
            self.left(MigrationStage::Disable).into_iter().map(|process| process.name.as_str()).collect();
        let proofs = self.lock_proofs(ManagerKind::CloudControllerManager);
        let state = match with_flag.first() {
            None if self.migration_holder().is_none() => StageState::Done,
            // A process whose pod was not seen may still take part.
            None => StageState::InProgress("somebody renews the migration Lease".to_owned()),
            Some(first) => StageState::Todo(format!("{} have the flag; next: {first}", with_flag.len())),
        };
        (state, proofs)
    }

    fn clean(&self) -> (StageState, Vec<Proof>) {
        let value = if self.has_lease() { "there" } else { "gone" };
        let proofs = vec![Proof { object: self.lock_name(), value: value.to_owned() }];
        let state = if self.has_lease() {
            StageState::Todo(
                "delete the Lease, the Role with its binding, and the files on the hosts".to_owned(),
            )
        } else {
            StageState::Done
        };
        (state, proofs)
    }

    fn lock_name(&self) -> String {
        format!("Lease {}/{}", self.lock.0, self.lock.1)
    }

    fn lock_proofs(&self, kind: ManagerKind) -> Vec<Proof> {
        let shown =
            |holder: Option<&str>| holder.map_or("not held".to_owned(), |holder| format!("held by {holder}"));
        vec![
            Proof { object: self.lock_name(), value: shown(self.migration_holder()) },
            Proof { object: format!("main Lease of {kind}"), value: shown(self.main_holder(kind)) },
        ]
    }
}
