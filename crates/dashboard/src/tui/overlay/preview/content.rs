//! What a preview is about and what it shows, of an action on an object and of a change of a kubeadm configuration alike.
//! Must not know keys, nor how it is drawn.

use crate::actions::{Outlook, Preview, Request};
use crate::fleet::SourceId;
use crate::operations::diff::DiffLine;
use crate::operations::{ChangeOrder, ChangePreview, Confirmation, Finding};
use crate::tui::subject::PlannedCluster;

/// What is about to be done.
pub enum PreviewSubject {
    /// An action on an object.
    Action(SourceId, Request),
    /// A change of the kubeadm configuration of a cluster.
    Change(PlannedCluster, ChangeOrder),
}

impl PreviewSubject {
    pub fn title(&self) -> String {
        match self {
            Self::Action(_, request) => format!("{} {}", request.action, request.target),
            Self::Change(cluster, order) => format!("{} a change of Cluster {}", order.words(), cluster.key),
        }
    }

    /// The name that has to be typed where much can break.
    pub fn name(&self) -> &str {
        match self {
            Self::Action(_, request) => &request.target.key.name,
            Self::Change(cluster, _) => &cluster.key.name,
        }
    }
}

/// What a person must see before.
pub enum PreviewContent {
    Action(Box<Preview>),
    Change(Box<ChangePreview>),
}

impl PreviewContent {
    pub fn is_allowed(&self) -> bool {
        match self {
            Self::Action(preview) => preview.is_allowed(),
            Self::Change(preview) => preview.is_allowed(),
        }
    }

    pub fn confirmation(&self) -> Confirmation {
        match self {
            Self::Action(preview) => preview.risk.confirmation(),
            Self::Change(preview) => preview.confirmation,
        }
    }

    pub fn summary(&self) -> &str {
        match self {
            Self::Action(preview) => &preview.summary,
            Self::Change(preview) => &preview.summary,
        }
    }

    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Action(preview) => &preview.findings,
            Self::Change(preview) => &preview.findings,
        }
    }

    pub fn diff(&self) -> &[DiffLine] {
        match self {
            Self::Action(preview) => &preview.diff,
            Self::Change(preview) => &preview.diff,
        }
    }

    pub fn outlook(&self) -> Option<&Outlook> {
        if let Self::Action(preview) = self { Some(&preview.outlook) } else { None }
    }

    /// What is done, line by line, where that is several things.
    pub fn steps(&self) -> &[String] {
        if let Self::Change(preview) = self { &preview.steps } else { &[] }
    }
}
