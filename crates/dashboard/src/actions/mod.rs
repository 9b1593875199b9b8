//! What a person may do to the fleet. Owns the actions, their preview and the order of asking, checking, writing
//! and journaling. Must not know the terminal: the dashboard and the one-shot commands use the same table of
//! actions and the same [`Executor`].

pub mod action;
mod aside;
pub mod authors;
mod budgets;
mod confirmed;
mod control_plane;
mod draft;
pub mod edit;
pub mod executor;
mod fields;
pub mod in_place;
pub mod metadata_change;
mod order;
mod outdated;
pub mod outlook;
mod owners;
mod patch_file;
pub mod preflight;
mod proposed;
mod quorum;
pub mod related;
mod remediation;
pub mod rights;
pub mod risk;
mod rules;
mod sent;
mod topology;
pub mod tried;

pub use action::{ACTIONS, Action, ActionInfo};
pub use aside::aside;
pub use authors::{Author, authors};
pub use draft::{Draft, ObjectChange};
pub use executor::Executor;
pub use metadata_change::MetadataChange;
pub use order::{Order, Proposal};
pub use outlook::{Ahead, ClusterPlans, Outlook, PlanChange, Planner};
pub use patch_file::PatchFile;
pub use rights::{Grant, Right};
pub use risk::Risk;
pub use tried::Tried;

use crate::operations::diff::DiffLine;
use crate::operations::guard::Refusal;
use crate::operations::{Finding, Severity};
use capi_types::key::ObjectRef;
use edit::Edit;

/// One action on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub target: ObjectRef,
    pub action: Action,
    /// The registered extensions are asked which Machines they can update in place. "Update in place" always asks.
    pub asks_extensions: bool,
}

impl Request {
    /// Without questions to extensions.
    pub fn new(target: ObjectRef, action: Action) -> Self {
        Self { target, action, asks_extensions: false }
    }
}

fn finding(severity: Severity, rule: &'static str, text: impl Into<String>) -> Option<Finding> {
    Some(Finding { severity, rule, text: text.into() })
}

/// What a person sees before the confirmation.
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
    /// The patch that takes it back, for the journal.
    pub(crate) back: Option<serde_json::Value>,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    /// What must not have changed until the write: see `sent::shown`.
    pub(crate) shown: serde_json::Value,
    /// Where the Cluster's topology has what is changed, if one owns the object.
    pub(crate) topology: Option<topology::TopologyPlace>,
}

impl Preview {
    /// False when there is a blocker among the findings.
    pub fn is_allowed(&self) -> bool {
        !self.findings.iter().any(Finding::is_blocker)
    }
}

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
    NotApplicable { kind: String, action: &'static str, takers: String },
    #[error(transparent)]
    Refusal(#[from] Refusal),
    #[error("{0}")]
    Refused(String),
    #[error(
        "not allowed: {verb} {target}: {reason}; ask for that right, or check which user the kubeconfig names"
    )]
    Forbidden { verb: &'static str, target: String, reason: String },
    #[error("{target} changed after the preview; look at its new state and try again")]
    Stale { target: String },
    #[error("{target} does not exist any more; it was deleted or replaced in the meantime")]
    Gone { target: String },
    #[error("there is no {target}: check the name, -n and the context")]
    NotFound { target: String },
    #[error(
        "cannot {action} {target}: the server would not store {field}: {version} has no such field there, or something \
         that the server asks takes it away; check which Cluster API runs there"
    )]
    NotStored { action: &'static str, target: String, field: String, version: String },
    #[error(
        "{action} of {target} was accepted, but {field} is not as asked afterwards: something sets it back; look who \
         writes it, such as a topology, an autoscaler or what applies it from Git"
    )]
    NotKept { action: &'static str, target: String, field: String },
    #[error("cannot {action} {target}: {reason}")]
    Server { action: &'static str, target: String, reason: String },
}
