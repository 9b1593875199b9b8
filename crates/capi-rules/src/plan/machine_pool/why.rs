//! Why a MachinePool gets a write, or has to wait.

use std::fmt;

use crate::plan::evidence::Evidence;
use crate::plan::{Rule, Wait};
use capstan_base::text::counted;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Belongs,
    Adopt { kind: String },
    DataSecret { name: String },
    ProviderIds { count: usize },
    Host { kind: String, name: String },
    NodesFound { count: usize },
    NodeMetadata,
    NodeRetired,
    UpToDate,
    RemovePart { kind: String },
    Completed,
    NotConnected,
    WaitingForDataSecret { kind: String },
    NoDataSecretName { kind: String },
    WaitingForProviderIds { kind: String },
    WaitingForNodes,
}

impl Rule for Why {
    fn name(&self) -> &'static str {
        match self {
            Self::Belongs => "belongs-to-cluster",
            Self::Adopt { .. } => "adopt-provider-object",
            Self::DataSecret { .. } => "copy-data-secret-name",
            Self::ProviderIds { .. } => "copy-provider-ids",
            Self::Host { .. } => "machine-of-host",
            Self::NodesFound { .. } => "nodes-found",
            Self::NodeMetadata => "node-metadata",
            Self::NodeRetired => "node-retired",
            Self::UpToDate => "mark-up-to-date",
            Self::RemovePart { .. } => "delete-provider-object",
            Self::Completed => "deletion-completed",
            Self::NotConnected => "not-connected",
            Self::WaitingForDataSecret { .. } => "waiting-for-data-secret",
            Self::NoDataSecretName { .. } => "no-data-secret-name",
            Self::WaitingForProviderIds { .. } => "waiting-for-provider-ids",
            Self::WaitingForNodes => "waiting-for-nodes",
        }
    }

    fn wait(&self) -> Wait {
        match self {
            Self::WaitingForDataSecret { .. } | Self::WaitingForProviderIds { .. } => Wait::UnderWay,
            Self::WaitingForNodes | Self::NotConnected => Wait::Node,
            _ => Wait::Stuck,
        }
    }

    fn evidence(&self) -> Vec<Evidence> {
        Vec::new()
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Belongs => f.write_str("the MachinePool belongs to its Cluster"),
            Self::Adopt { kind } => write!(f, "the {kind} belongs to this MachinePool"),
            Self::DataSecret { name } => write!(f, "the bootstrap data is in Secret {name}"),
            Self::ProviderIds { count } => {
                write!(f, "the infrastructure lists {}", counted(*count, "provider ID"))
            }
            Self::Host { kind, name } => write!(f, "{kind} {name} is one of the pool's machines"),
            Self::NodesFound { count } => {
                let verb = if *count == 1 { "has a provider ID" } else { "have provider IDs" };
                write!(f, "{} {verb} of the pool", counted(*count, "Node"))
            }
            Self::NodeMetadata => f.write_str("the Node belongs to the MachinePool"),
            Self::NodeRetired => f.write_str("its provider ID is no longer one of the pool's"),
            Self::UpToDate => f.write_str("Machines of a pool are up to date until they are deleted"),
            Self::RemovePart { kind } => write!(f, "the {kind} goes with the MachinePool"),
            Self::Completed => f.write_str("nothing of the MachinePool is left"),
            Self::NotConnected => f.write_str("the workload cluster is not connected"),
            Self::WaitingForDataSecret { kind } => write!(f, "the {kind} has no bootstrap data yet"),
            Self::NoDataSecretName { kind } => {
                write!(f, "the {kind} says that its data exists, and not where")
            }
            Self::WaitingForProviderIds { kind } => write!(f, "the {kind} lists no provider ID yet"),
            Self::WaitingForNodes => f.write_str("not every replica has a Node that is ready"),
        }
    }
}
