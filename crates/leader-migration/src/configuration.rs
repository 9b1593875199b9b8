//! What a LeaderMigrationConfiguration says, whatever version it was written in, and the configuration that is
//! built into each release. Must not know YAML.
//!
//! Source: `k8s.io/controller-manager` `config/types.go`, `pkg/leadermigration/config/default.go`.

use super::controller_names::{self, Function};
use super::release::Release;

pub const KIND: &str = "LeaderMigrationConfiguration";
pub const GROUP: &str = "controllermanager.config.k8s.io";
/// The lock's name in the built-in configuration.
pub const DEFAULT_LEADER_NAME: &str = "cloud-provider-extraction-migration";
/// The one lock that works; `endpoints` passes upstream's validation and cannot be built.
pub const LEASES: &str = "leases";
/// In `component`: either process.
pub const ANY: &str = "*";

/// A version of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigVersion {
    V1Alpha1,
    V1Beta1,
    V1,
}

impl ConfigVersion {
    pub const ALL: [Self; 3] = [Self::V1Alpha1, Self::V1Beta1, Self::V1];

    pub fn name(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1Beta1 => "v1beta1",
            Self::V1 => "v1",
        }
    }

    pub fn api_version(self) -> String {
        format!("{GROUP}/{}", self.name())
    }

    pub fn from_api_version(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.api_version() == text)
    }

    /// The first release that reads it; later ones read it too.
    pub fn since(self) -> Release {
        Release(match self {
            Self::V1Alpha1 => 21,
            Self::V1Beta1 => 22,
            Self::V1 => 24,
        })
    }

    /// The newest version that `oldest` reads. `None` before leader migration existed.
    pub fn for_readers(oldest: Release) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|version| version.since() <= oldest)
    }

    /// `resourceLock` was a required field before v1.
    pub fn has_resource_lock(self) -> bool {
        self != Self::V1
    }
}

/// One entry: who runs this controller under the migration lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerLeader {
    pub name: String,
    /// As written; upstream takes any text, and one that names no process means that nobody runs it.
    pub component: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Name of the Lease; its namespace is that of the main one.
    pub leader_name: String,
    pub resource_lock: String,
    pub controller_leaders: Vec<ControllerLeader>,
}

impl Configuration {
    /// What a process of `release` uses when it has the enable flag and no file.
    pub fn built_in(release: Release) -> Self {
        let functions = [Function::Routes, Function::LoadBalancers, Function::NodeLifecycle];
        let entry = |function| ControllerLeader {
            name: controller_names::in_built_in_file(function, release).to_owned(),
            component: ANY.to_owned(),
        };
        Self {
            leader_name: DEFAULT_LEADER_NAME.to_owned(),
            resource_lock: LEASES.to_owned(),
            controller_leaders: functions.into_iter().map(entry).collect(),
        }
    }

    /// The component of a controller; of several entries the last one counts, as upstream.
    pub fn component_of(&self, controller: &str) -> Option<&str> {
        let entry = self.controller_leaders.iter().rev().find(|entry| entry.name == controller);
        entry.map(|entry| entry.component.as_str())
    }
}
