//! What somebody wants done, whether it is an action on an object or a change of a kubeadm configuration, and what they see of it
//! before they confirm it. Owns what both have in common; must not know how it is drawn.

use std::fmt;

use super::outlook::AfterAction;
use super::{Executor, Outlook, Preview, Request};
use crate::operations::diff::DiffLine;
use crate::operations::{ChangeOrder, ChangePreview, Confirmation, Finding, PatchedObject};
use capi_types::key::ObjectKey;

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    Action(Request),
    /// Of the configuration of this Cluster.
    Change {
        cluster: ObjectKey,
        order: ChangeOrder,
    },
}

/// What a person sees of it.
#[derive(Clone, Debug)]
pub enum Proposal {
    Action(Box<Preview>),
    Change {
        cluster: ObjectKey,
        preview: Box<ChangePreview>,
        /// Of the object that is patched.
        outlook: Outlook,
    },
}

impl Order {
    /// The name that has to be typed where much can break.
    pub fn name(&self) -> &str {
        match self {
            Self::Action(request) => &request.target.key.name,
            Self::Change { cluster, .. } => &cluster.name,
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(request) => write!(f, "{} {}", request.action, request.target),
            Self::Change { cluster, order } => {
                write!(f, "{} a change of Cluster {cluster}", order.words())
            }
        }
    }
}

impl Proposal {
    /// False when there is a blocker among the findings.
    pub fn is_allowed(&self) -> bool {
        match self {
            Self::Action(preview) => preview.is_allowed(),
            Self::Change { preview, .. } => preview.is_allowed(),
        }
    }

    pub fn confirmation(&self) -> Confirmation {
        match self {
            Self::Action(preview) => preview.risk.confirmation(),
            Self::Change { preview, .. } => preview.confirmation,
        }
    }

    pub fn summary(&self) -> &str {
        match self {
            Self::Action(preview) => &preview.summary,
            Self::Change { preview, .. } => &preview.summary,
        }
    }

    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Action(preview) => &preview.findings,
            Self::Change { preview, .. } => &preview.findings,
        }
    }

    pub fn diff(&self) -> &[DiffLine] {
        match self {
            Self::Action(preview) => &preview.diff,
            Self::Change { preview, .. } => &preview.diff,
        }
    }

    /// The plans before and after.
    pub fn outlook(&self) -> &Outlook {
        match self {
            Self::Action(preview) => &preview.outlook,
            Self::Change { outlook, .. } => outlook,
        }
    }

    /// What is done, line by line, where that is several things.
    pub fn steps(&self) -> &[String] {
        if let Self::Change { preview, .. } = self { &preview.steps } else { &[] }
    }
}

impl Executor {
    /// What a person sees of an order before the confirmation. Writes nothing.
    ///
    /// # Errors
    /// Why it cannot be done, in a sentence.
    pub async fn propose(&self, order: &Order) -> Result<Proposal, String> {
        match order {
            Order::Action(request) => {
                let preview = self.preview(request).await.map_err(|error| error.to_string())?;
                Ok(Proposal::Action(Box::new(preview)))
            }
            Order::Change { cluster, order } => {
                let preview = Box::new(self.configuration()?.preview(cluster, order).await?);
                let outlook = self.outlook_of(cluster, preview.patched.as_ref()).await;
                Ok(Proposal::Change { cluster: cluster.clone(), preview, outlook })
            }
        }
    }

    /// What happens next to an object that a change patches.
    async fn outlook_of(&self, cluster: &ObjectKey, patched: Option<&PatchedObject>) -> Outlook {
        let Some(PatchedObject { before, after }) = patched else { return Outlook::NotPlanned };
        let change = AfterAction { after: after.clone(), made: Vec::new(), asks_extensions: false };
        self.planner().outlook(self.planner().lists(cluster).await, before, change).await
    }

    /// Does what was proposed, if it is still as it was shown; answers what was done.
    ///
    /// # Errors
    /// Why it was not done, in a sentence.
    pub async fn carry_out(&self, proposal: &Proposal) -> Result<String, String> {
        match proposal {
            Proposal::Action(preview) => {
                self.perform(preview).await.map(|report| report.text).map_err(|error| error.to_string())
            }
            Proposal::Change { cluster, preview, .. } => {
                self.configuration()?.carry_out(cluster, preview).await
            }
        }
    }
}
