//! The way back of a migration as steps, from wherever a cluster is: who gets the flag, the old release or nothing again, in which
//! order. Owns the order and what is left of each step; must not know edits, nor what was done before.

use super::manager_kind::ManagerKind;
use super::process::Process;
use super::stages::{MigrationStage, NodeWait, Situation, StageState};

/// Steps back to the controllers in kube-controller-manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackStep {
    /// Those that come back may write the migration Lease.
    Grant,
    /// Every cloud-controller-manager takes part again.
    Flag,
    /// Old processes come, node by node, beside the new ones.
    Restore,
    /// The cloud-controller-managers go, their holder last.
    Leave,
    /// The old processes run without migration.
    Unflag,
    /// What only the migration needed goes.
    Clean,
}

impl BackStep {
    /// In their order.
    pub const ALL: [Self; 6] =
        [Self::Grant, Self::Flag, Self::Restore, Self::Leave, Self::Unflag, Self::Clean];

    /// Name and content of the step, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Grant => "Grant: rights on the migration Lease",
            Self::Flag => "Flag: leader migration on every cloud-controller-manager",
            Self::Restore => {
                "Restore: node by node kube-controller-manager with its cloud provider and leader migration"
            }
            Self::Leave => "Leave: cloud-controller-manager goes",
            Self::Unflag => "Unflag: kube-controller-manager without leader migration",
            Self::Clean => "Clean: Lease, rights and files",
        }
    }

    /// The stage whose beginning is reached by the step.
    pub fn reaches(self) -> MigrationStage {
        match self {
            Self::Grant | Self::Flag | Self::Restore | Self::Leave => MigrationStage::Introduce,
            Self::Unflag => MigrationStage::Enable,
            Self::Clean => MigrationStage::Preflight,
        }
    }
}

/// One step, with what is left of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackReport {
    /// Which one.
    pub step: BackStep,
    /// Only from what is seen.
    pub state: StageState,
    /// The process that is to be changed next.
    pub next: Option<String>,
    /// The next process is not to be restarted before this is over.
    pub wait: Option<NodeWait>,
}

impl Situation {
    /// The steps back to the beginning of a stage.
    pub fn back_to(&self, stage: MigrationStage) -> Vec<BackReport> {
        let mut is_reached = true;
        // Steps behind the wanted stage are left out, and those before it have to be gone through.
        let wanted = BackStep::ALL.into_iter().filter(|step| step.reaches() >= stage);
        let report = |step: BackStep| {
            let state = if is_reached { self.back(step, stage) } else { StageState::Later };
            is_reached &= state == StageState::Done;
            let is_open = matches!(state, StageState::InProgress(_) | StageState::Todo(_));
            let next = self.left_of(step).first().filter(|_| is_open).map(|process| process.name.clone());
            // No process waits behind the last one.
            let wait = self.rest_after(self.through(step)).filter(|_| is_open && next.is_some());
            BackReport { step, state, next, wait }
        };
        wanted.map(report).collect()
    }

    fn kubes(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| process.manager == ManagerKind::KubeControllerManager)
    }

    /// Processes that a step has still to go through, in their order.
    fn left_of(&self, step: BackStep) -> Vec<&Process> {
        let (kube, cloud) = (ManagerKind::KubeControllerManager, ManagerKind::CloudControllerManager);
        let clouds = || self.clouds();
        match step {
            BackStep::Grant | BackStep::Clean => Vec::new(),
            BackStep::Flag => {
                self.holder_last(clouds().filter(|process| !process.migrates()).collect(), cloud)
            }
            BackStep::Restore => {
                let has_clouds = clouds().next().is_some();
                let is_back =
                    // Beside a cloud's process only one with the flag keeps off; later steps take
                    // the flag away again.
                    |process: &Process| process.has_cloud_provider() && (process.migrates() || !has_clouds);
                self.holder_last(self.kubes().filter(|process| !is_back(process)).collect(), kube)
            }
            BackStep::Leave => self.holder_last(clouds().collect(), cloud),
            BackStep::Unflag => self.holder_last(self.kubes().filter(|p| p.migrates()).collect(), kube),
        }
    }

    /// Processes that were restarted for a step.
    fn through(&self, step: BackStep) -> Vec<&Process> {
        match step {
            BackStep::Grant | BackStep::Leave | BackStep::Clean => Vec::new(),
            BackStep::Flag => self.clouds().filter(|process| process.migrates()).collect(),
            BackStep::Restore => self.sources().collect(),
            BackStep::Unflag => self.kubes().filter(|process| !process.migrates()).collect(),
        }
    }

    fn back(&self, step: BackStep, stage: MigrationStage) -> StageState {
        let left = self.left_of(step);
        match (step, left.first().map(|process| process.name.as_str())) {
            (BackStep::Grant, _) => self.back_grant(),
            (BackStep::Flag, Some(next)) => {
                StageState::Todo(format!("give {next} the enable flag again; {} are without it", left.len()))
            }
            (BackStep::Restore, Some(next)) => StageState::Todo(format!(
                "next: the node of {next}, back to the old release with --cloud-provider and the enable flag; {} are left, the \
                 holder's comes last",
                left.len()
            )),
            // Only who holds the main Lease can take the migration Lease when the cloud's processes
            // go.
            (BackStep::Restore, None) if self.clouds().next().is_some() && self.is_without_holder() => {
                StageState::InProgress("no kube-controller-manager holds its main Lease yet".to_owned())
            }
            (BackStep::Leave, Some(next)) => {
                StageState::Todo(format!("remove {next}; {} are left, the holder goes last", left.len()))
            }
            // Without the flag they run the controllers whoever has the migration lock.
            (BackStep::Leave, None) if step.reaches() == stage && self.is_waited_for() => {
                StageState::InProgress("no kube-controller-manager holds both Leases yet".to_owned())
            }
            (BackStep::Unflag, Some(next)) => {
                StageState::Todo(format!("take the enable flag from {next}; {} have it", left.len()))
            }
            (BackStep::Clean, _) => self.back_clean(),
            (BackStep::Flag | BackStep::Restore | BackStep::Leave | BackStep::Unflag, None) => {
                StageState::Done
            }
        }
    }

    /// Only processes that are still to come need rights.
    fn back_grant(&self) -> StageState {
        let is_needed = self.clouds().next().is_some();
        if is_needed { self.grant().0 } else { StageState::Done }
    }

    fn is_without_holder(&self) -> bool {
        self.main_holder(ManagerKind::KubeControllerManager).is_none()
    }

    /// The processes that came back take part, and none has both locks.
    fn is_waited_for(&self) -> bool {
        self.kubes().any(Process::migrates) && !self.is_held_by(ManagerKind::KubeControllerManager)
    }

    fn back_clean(&self) -> StageState {
        match (self.migration_holder(), self.has_lease()) {
            (Some(holder), _) => StageState::InProgress(format!("{holder} renews the migration Lease")),
            (None, true) => StageState::Todo(
                "delete the Lease, the Role with its binding, and the files on the hosts".to_owned(),
            ),
            (None, false) => StageState::Done,
        }
    }
}
