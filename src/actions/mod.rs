//! What a person may do to the fleet: preflight, preview, perform, journal.
//! Owns the actions, their risk and their guards. Must not know the terminal: the dashboard and the
//! one-shot commands call the same [`Desk`].

pub mod desk;
pub mod diff;
pub mod edit;
pub mod journal;
pub mod outlook;
pub mod preflight;

pub use desk::Desk;
pub use outlook::{Outlook, PlanChange, Planner};

use std::fmt;

use crate::api::key::ObjectRef;
use crate::time::{self, Timestamp};
use diff::DiffLine;
use edit::Edit;

/// Something a person asks for. Which kinds take which action: [`Action::applies_to`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Desired number of Machines, 0 or more.
    Scale {
        replicas: i32,
    },
    /// `spec.rollout.after` becomes now: every Machine created before is replaced.
    Restart,
    /// The same at a stated moment.
    RolloutAfter {
        at: Timestamp,
    },
    /// Kubernetes version with its `v`, for example `v1.36.2`.
    SetVersion {
        version: String,
    },
    Pause,
    Resume,
    Delete,
}

impl Action {
    /// As in the journal and on the command line.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Scale { .. } => "scale",
            Self::Restart => "rollout-restart",
            Self::RolloutAfter { .. } => "rollout-after",
            Self::SetVersion { .. } => "set-version",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Delete => "delete",
        }
    }

    /// The verb that the access review asks about.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        if *self == Self::Delete { "delete" } else { "patch" }
    }

    /// Whether objects of `kind` take this action at all.
    #[must_use]
    pub fn applies_to(&self, kind: &str) -> bool {
        match self {
            Self::Scale { .. } => {
                matches!(kind, "KubeadmControlPlane" | "MachineDeployment" | "MachineSet" | "MachinePool")
            }
            Self::Restart | Self::RolloutAfter { .. } => {
                matches!(kind, "KubeadmControlPlane" | "MachineDeployment")
            }
            Self::SetVersion { .. } => {
                matches!(kind, "Cluster" | "KubeadmControlPlane" | "MachineDeployment" | "MachinePool")
            }
            Self::Pause | Self::Resume => matches!(
                kind,
                "Cluster"
                    | "KubeadmControlPlane"
                    | "MachineDeployment"
                    | "MachineSet"
                    | "Machine"
                    | "MachinePool"
            ),
            Self::Delete => kind == "Machine",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale { replicas } => write!(f, "scale to {replicas}"),
            Self::Restart => f.write_str("restart the rollout"),
            Self::RolloutAfter { at } => write!(f, "roll out after {}", time::rfc3339(*at)),
            Self::SetVersion { version } => write!(f, "set version {version}"),
            Self::Pause => f.write_str("pause"),
            Self::Resume => f.write_str("resume"),
            Self::Delete => f.write_str("delete"),
        }
    }
}

/// One action on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub target: ObjectRef,
    pub action: Action,
}

/// How much an action can break, which decides how it is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Confirmed by one key.
    Low,
    /// Confirmed by `y`.
    Medium,
    /// Confirmed by typing the object's name.
    High,
}

/// How serious one result of preflight is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Note,
    Warning,
    /// The action is refused.
    Blocker,
}

/// One result of preflight: the rule by name, and a sentence with its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    pub rule: &'static str,
    pub text: String,
}

/// Everything a person must see before saying yes.
#[derive(Clone, Debug)]
pub struct Preview {
    pub request: Request,
    /// One sentence: what will happen.
    pub summary: String,
    pub risk: Risk,
    pub findings: Vec<Finding>,
    /// Live object against the server's dry-run answer. Empty for a deletion.
    pub diff: Vec<DiffLine>,
    /// What happens next without the action and after it.
    pub outlook: Outlook,
    /// What will be sent, guarded by the uid and resourceVersion that were read.
    pub(crate) edit: Edit,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    /// What must not have changed until the write: see `desk`.
    pub(crate) shown: serde_json::Value,
}

impl Preview {
    /// False when preflight found a blocker.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.findings.iter().all(|f| f.severity != Severity::Blocker)
    }
}

/// What came of a performed action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// One sentence for a toast or the command's output.
    pub text: String,
    pub resource_version: String,
}

/// Why an action did not happen. Every message says what was tried, on what, and what to check.
#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    #[error("{kind} does not take `{action}`; it works on {takers}")]
    NotApplicable { kind: String, action: &'static str, takers: &'static str },
    #[error("{0}")]
    Refused(String),
    #[error(
        "not allowed: {verb} {target}: {reason}; ask for that right, or check which user the kubeconfig names"
    )]
    Forbidden { verb: &'static str, target: String, reason: String },
    #[error("this capstan is read-only (--read-only); nothing was sent")]
    ReadOnly,
    #[error("{target} changed while you were looking; look at the new state and ask again")]
    Stale { target: String },
    #[error("{target} is gone; it was deleted or replaced in the meantime")]
    Gone { target: String },
    #[error("cannot {action} {target}: {reason}")]
    Server { action: &'static str, target: String, reason: String },
    #[error(
        "the journal {path} cannot be written ({reason}); nothing was sent, as every action must leave a line there"
    )]
    Journal { path: String, reason: String },
}
