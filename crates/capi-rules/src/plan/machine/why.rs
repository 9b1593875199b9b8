//! Why a Machine gets a write, or has to wait.

use std::fmt;

use crate::plan::evidence::{Evidence, Subject};
use crate::plan::{OnFailure, Rule, Shown, Wait};
use crate::status::machine::Failed;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Finalizer,
    ClusterLabel,
    StandAlone,
    Adopt { kind: String },
    DataSecretName { name: String },
    ProviderId { id: String },
    FailureDomain { name: String },
    NodeFound { name: String },
    NodeMetadata,
    DeleteInfrastructure { kind: String },
    DeleteBootstrap { kind: String },
    DeleteNode,
    RecordDrainStart,
    Report,
    Completed,
    WaitingForDataSecret { kind: String },
    NoDataSecretName { kind: String },
    WaitingForProviderId { kind: String },
    WaitingForControlPlane,
    WaitingForNode { id: String },
    NodeVanished { name: String },
    CannotTell { error: String },
    WaitingForHooks { stage: &'static str, hooks: Vec<String> },
    CannotDrain { error: String },
    WaitingForVolumes { volumes: usize },
    VolumesUnknown { error: String },
    Updated,
    UpdateOrphaned,
    WaitingForMarks,
    Updating { words: String },
    UpdateFailed { error: String },
}

impl Rule for Why {
    fn name(&self) -> &'static str {
        match self {
            Self::Finalizer => "add-finalizer",
            Self::ClusterLabel => "label-with-cluster",
            Self::StandAlone => "own-stand-alone-machine",
            Self::Adopt { .. } => "adopt-provider-object",
            Self::DataSecretName { .. } => "copy-data-secret-name",
            Self::ProviderId { .. } => "copy-provider-id",
            Self::FailureDomain { .. } => "copy-failure-domain",
            Self::NodeFound { .. } => "node-found",
            Self::NodeMetadata => "sync-node-metadata",
            Self::DeleteInfrastructure { .. } => "delete-infrastructure",
            Self::DeleteBootstrap { .. } => "delete-bootstrap",
            Self::DeleteNode => "delete-node",
            Self::RecordDrainStart => "record-drain-start",
            Self::Report => "report-progress",
            Self::Completed => "deletion-completed",
            Self::WaitingForDataSecret { .. } => "waiting-for-data-secret",
            Self::NoDataSecretName { .. } => "no-data-secret-name",
            Self::WaitingForProviderId { .. } => "waiting-for-provider-id",
            Self::WaitingForControlPlane => "waiting-for-control-plane",
            Self::WaitingForNode { .. } => "waiting-for-node",
            Self::NodeVanished { .. } => "node-vanished",
            Self::CannotTell { .. } => "cannot-tell-whether-node-goes",
            Self::WaitingForHooks { .. } => "waiting-for-hooks",
            Self::CannotDrain { .. } => "cannot-drain",
            Self::WaitingForVolumes { .. } => "waiting-for-volumes",
            Self::VolumesUnknown { .. } => "volumes-unknown",
            Self::Updated => "updated-in-place",
            Self::UpdateOrphaned => "update-orphaned",
            Self::WaitingForMarks => "waiting-for-owner",
            Self::Updating { .. } => "updating-in-place",
            Self::UpdateFailed { .. } => "update-failed",
        }
    }

    fn wait(&self) -> Wait {
        match self {
            Self::WaitingForDataSecret { .. }
            | Self::WaitingForProviderId { .. }
            | Self::WaitingForControlPlane
            | Self::WaitingForNode { .. }
            | Self::WaitingForHooks { .. }
            | Self::WaitingForVolumes { .. }
            | Self::WaitingForMarks
            | Self::Updating { .. } => Wait::UnderWay,
            Self::CannotTell { .. } | Self::CannotDrain { .. } | Self::VolumesUnknown { .. } => Wait::Node,
            _ => Wait::Stuck,
        }
    }

    fn evidence(&self) -> Vec<Evidence> {
        match self {
            Self::WaitingForDataSecret { .. } | Self::NoDataSecretName { .. } => {
                Evidence::own("BootstrapConfigReady")
            }
            Self::WaitingForProviderId { .. } => Evidence::own("InfrastructureReady"),
            Self::WaitingForControlPlane => {
                vec![Evidence::condition(Subject::Cluster, "ControlPlaneInitialized")]
            }
            Self::WaitingForNode { .. } | Self::NodeVanished { .. } => Evidence::own("NodeReady"),
            Self::CannotTell { .. }
            | Self::WaitingForHooks { .. }
            | Self::CannotDrain { .. }
            | Self::WaitingForVolumes { .. }
            | Self::VolumesUnknown { .. } => Evidence::own("Deleting"),
            Self::WaitingForMarks | Self::Updating { .. } | Self::UpdateFailed { .. } => {
                Evidence::own("Updating")
            }
            _ => Vec::new(),
        }
    }

    fn on_failure(&self) -> OnFailure {
        let failed = match self {
            Self::DeleteInfrastructure { .. } => Failed::DeleteInfrastructure,
            Self::DeleteBootstrap { .. } => Failed::DeleteBootstrap,
            Self::DeleteNode => Failed::DeleteNode,
            Self::RecordDrainStart => Failed::RecordDrainStart,
            _ => return OnFailure::default(),
        };
        OnFailure { shown: Some(Shown::MachineDeletion(failed)), ..OnFailure::default() }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finalizer => f.write_str("the Machine must not vanish before its host does"),
            Self::ClusterLabel => f.write_str("the Machine is found by the label of its Cluster"),
            Self::StandAlone => f.write_str("a stand-alone Machine belongs to its Cluster"),
            Self::Adopt { kind } => write!(f, "the {kind} belongs to this Machine"),
            Self::DataSecretName { name } => write!(f, "bootstrap data is in Secret {name}"),
            Self::ProviderId { id } => write!(f, "the host exists as {id}"),
            Self::FailureDomain { name } => write!(f, "the host was placed in failure domain {name}"),
            Self::NodeFound { name } => write!(f, "Node {name} has joined"),
            Self::NodeMetadata => f.write_str("the Node names its Machine"),
            Self::DeleteInfrastructure { kind } => write!(f, "the {kind} goes with its Machine"),
            Self::DeleteBootstrap { kind } => write!(f, "the {kind} goes after the host"),
            Self::RecordDrainStart => f.write_str("the timeout of the drain counts from its start"),
            Self::Report => f.write_str("people want to know how the deletion goes"),
            Self::DeleteNode => f.write_str("the host is gone, so its Node goes"),
            Self::Completed => f.write_str("nothing of the Machine is left"),
            Self::WaitingForDataSecret { kind } => {
                write!(f, "the {kind} has not made its bootstrap data yet")
            }
            Self::NoDataSecretName { kind } => write!(f, "the {kind} says its data is made but not where"),
            Self::WaitingForProviderId { kind } => {
                write!(f, "the {kind} is provisioned but has no provider ID yet")
            }
            Self::WaitingForControlPlane => f.write_str("the Cluster's control plane is not initialized yet"),
            Self::WaitingForNode { id } => write!(f, "no Node with provider ID {id} has joined yet"),
            Self::NodeVanished { name } => write!(f, "Node {name} is gone while its Machine still exists"),
            Self::CannotTell { error } => write!(f, "whether the Node goes too is not known: {error}"),
            Self::WaitingForHooks { stage, hooks } => {
                write!(f, "{stage} hooks hold the deletion: {}", hooks.join(", "))
            }
            Self::CannotDrain { error } => write!(f, "the Node cannot be drained: {error}"),
            Self::WaitingForVolumes { volumes: 1 } => f.write_str("1 volume is still attached to the Node"),
            Self::WaitingForVolumes { volumes } => {
                write!(f, "{volumes} volumes are still attached to the Node")
            }
            Self::VolumesUnknown { error } => {
                write!(f, "what is attached to the Node is not known: {error}")
            }
            Self::Updated => f.write_str("the extension has updated it in place"),
            Self::UpdateOrphaned => f.write_str("its update in place was called off"),
            Self::WaitingForMarks => {
                f.write_str("its owner has not prepared the Machine and its objects for the update yet")
            }
            Self::Updating { words } if words.is_empty() => f.write_str("an extension updates it in place"),
            Self::Updating { words } => write!(f, "an extension updates it in place: {words}"),
            Self::UpdateFailed { error } => write!(f, "in-place update failed: {error}"),
        }
    }
}
