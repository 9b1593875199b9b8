//! The way from a screen to what a cluster stores of its kubeadm configuration and what runs of it, and to a change of it: what is
//! shown before, and what the API does of it. Owns the values that go both ways; must not know how a cluster is reached.

use async_trait::async_trait;
use serde_json::Value;

use super::diff::DiffLine;
use super::{Confirmation, Finding};
use capi_types::key::ObjectKey;
use kubeadm_change::document::Inputs;
use kubeadm_change::gate::NextMove;
use kubeadm_change::plan::ChangePlan;
use kubeadm_change::progress::ProgressItem;
use kubeadm_change::record::ChangeRecord;

/// A reading of one cluster.
#[derive(Clone, Debug, Default)]
pub struct ConfigurationReading {
    pub inputs: Inputs,
    /// The change that was carried out last, or is being carried out.
    pub record: Option<ChangeRecord>,
    /// How far that is, while it is not over.
    pub underway: Option<Underway>,
    /// What could not be read, in sentences.
    pub gaps: Vec<String>,
}

/// A change that was begun and is not over.
#[derive(Clone, Debug)]
pub struct Underway {
    pub plan: ChangePlan,
    pub items: Vec<ProgressItem>,
    /// What comes next when people do what is done on nodes.
    pub next: NextMove,
}

/// What somebody wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOrder {
    /// These edits, each `PATH=VALUE`.
    Begin(Vec<String>),
    /// What the API does of the change that was begun, from where it is.
    GoOn,
    /// Take the last change back.
    TakeBack,
}

impl ChangeOrder {
    /// In a word or two.
    pub fn words(&self) -> &'static str {
        match self {
            Self::Begin(_) => "carry out",
            Self::GoOn => "go on with",
            Self::TakeBack => "take back",
        }
    }
}

/// What a person sees before the confirmation of an order.
#[derive(Clone, Debug)]
pub struct ChangePreview {
    pub order: ChangeOrder,
    /// The plan that was shown. Another one is not carried out.
    pub plan_id: String,
    pub summary: String,
    pub findings: Vec<Finding>,
    /// What the API does now, and what is left for people afterwards.
    pub steps: Vec<String>,
    pub diff: Vec<DiffLine>,
    pub confirmation: Confirmation,
    /// `None`: no object of the management cluster is patched.
    pub patched: Option<PatchedObject>,
}

/// The object that a change of a managed cluster patches, as it is and as the server would make it.
#[derive(Clone, Debug)]
pub struct PatchedObject {
    pub before: Value,
    pub after: Value,
}

impl ChangePreview {
    /// False when there is a blocker among the findings.
    pub fn is_allowed(&self) -> bool {
        !self.findings.iter().any(Finding::is_blocker)
    }
}

/// Reads and changes the configuration of workload clusters.
#[async_trait]
pub trait ConfigurationReader: Send + Sync + 'static {
    /// # Errors
    /// Why it cannot be read, in a sentence: no connection, a missing right, not made by kubeadm.
    async fn read(&self, cluster: &ObjectKey) -> Result<ConfigurationReading, String>;

    /// What an order would do, from the cluster as it is now. Writes nothing.
    ///
    /// # Errors
    /// It cannot be read, or there is nothing to do, in a sentence.
    async fn preview(&self, cluster: &ObjectKey, order: &ChangeOrder) -> Result<ChangePreview, String>;

    /// Does of an order what the API does, if the cluster is still as it was shown; answers what is left.
    ///
    /// # Errors
    /// What stopped it, in a sentence. What was done stays.
    async fn carry_out(&self, cluster: &ObjectKey, preview: &ChangePreview) -> Result<String, String>;
}
