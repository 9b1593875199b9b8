//! What a LeaderMigrationConfiguration says, whatever version it was written in, and the configuration that is
//! built into each release. Must not know YAML.
//!
//! Source: `k8s.io/controller-manager` `config/types.go`, `pkg/leadermigration/config/default.go`.

use super::controller_names::{self, Function};
use super::release::Release;

/// `kind` of the file.
pub const KIND: &str = "LeaderMigrationConfiguration";
/// Group of its `apiVersion`.
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
    /// Read from release 1.21 on.
    V1Alpha1,
    /// Read from release 1.22 on.
    V1Beta1,
    /// Read from release 1.24 on.
    V1,
}

impl ConfigVersion {
    /// Oldest first.
    pub const ALL: [Self; 3] = [Self::V1Alpha1, Self::V1Beta1, Self::V1];

    /// The version alone, without the group.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1Beta1 => "v1beta1",
            Self::V1 => "v1",
        }
    }

    /// With the group, as the file has it.
    pub fn api_version(self) -> String {
        format!("{GROUP}/{}", self.name())
    }

    /// `None`: no release reads this `apiVersion`.
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
    /// Of the controller, as written. It counts only in releases that call the controller so: see [`controller_names`].
    pub name: String,
    /// As written; upstream takes any text, and one that names no process means that nobody runs it.
    pub component: String,
}

/// The content of a file, in the words of the newest version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Name of the Lease; its namespace is that of the main one.
    pub leader_name: String,
    /// `leases`, or what an older version has in its required field.
    pub resource_lock: String,
    /// A controller without an entry stays under the main lock.
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
