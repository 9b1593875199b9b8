//! What Cluster API and its extensions say to each other: the catalogue of hooks, requests, answers and patches of those
//! about updates in place, and how a controller asks ([`Extensions`]). Owns the JSON of
//! `hooks.runtime.cluster.x-k8s.io/v1alpha1`; must not know HTTP, nor what a change means.
//! Source: cluster-api `api/runtime/hooks/v1alpha1`, `api/runtime/catalog`, v1.14.2.

mod call;
mod discovery;
mod message;
mod patch;

use std::fmt;

pub use call::{Extensions, HookError, NoExtensions, aggregate};
pub use discovery::{DiscoveredHandler, DiscoveryRequest, DiscoveryResponse};
pub use message::{
    CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSetRequest,
    CanUpdateMachineSetResponse, FAILURE, HookRequest, HookResponse, MachineObjects, MachineSetObjects,
    SUCCESS, UpdateMachineRequest, UpdateMachineResponse, subject,
};
pub use patch::{Patch, PatchError, PatchType};

/// Of the requests and answers.
pub const GROUP: &str = "hooks.runtime.cluster.x-k8s.io";
/// Of the requests and answers.
pub const VERSION: &str = "v1alpha1";
/// Group and version as the documents have them.
pub const API_VERSION: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";

/// Every hook that upstream knows. capstan calls the first and the last three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// Asks an extension which handlers it has.
    Discovery,
    /// Before anything of a Cluster is made. Of a topology.
    BeforeClusterCreate,
    /// Once the first control plane Machine serves. Of a topology.
    AfterControlPlaneInitialized,
    /// Before the control plane gets a new version. Of a topology.
    BeforeClusterUpgrade,
    /// Before each step of the control plane's version. Of a topology.
    BeforeControlPlaneUpgrade,
    /// After each step of the control plane's version. Of a topology.
    AfterControlPlaneUpgrade,
    /// Before the workers get a new version. Of a topology.
    BeforeWorkersUpgrade,
    /// Once the workers have a new version. Of a topology.
    AfterWorkersUpgrade,
    /// Once everything has the new version. Of a topology.
    AfterClusterUpgrade,
    /// Before anything of a Cluster is deleted. Of a topology.
    BeforeClusterDelete,
    /// Asks for the versions between two versions. Of a topology.
    GenerateUpgradePlan,
    /// Asks for patches of a topology's templates.
    GeneratePatches,
    /// Asks whether what the patches made is valid.
    ValidateTopology,
    /// Asks which variables the patches know.
    DiscoverVariables,
    /// Asks whether a change of a Machine can be made in place.
    CanUpdateMachine,
    /// Asks whether a change of a MachineSet's Machines can be made in place.
    CanUpdateMachineSet,
    /// Makes the change of a Machine, or says how far it is.
    UpdateMachine,
}

impl Hook {
    /// In the order in which they are listed above.
    pub const ALL: [Self; 17] = [
        Self::Discovery,
        Self::BeforeClusterCreate,
        Self::AfterControlPlaneInitialized,
        Self::BeforeClusterUpgrade,
        Self::BeforeControlPlaneUpgrade,
        Self::AfterControlPlaneUpgrade,
        Self::BeforeWorkersUpgrade,
        Self::AfterWorkersUpgrade,
        Self::AfterClusterUpgrade,
        Self::BeforeClusterDelete,
        Self::GenerateUpgradePlan,
        Self::GeneratePatches,
        Self::ValidateTopology,
        Self::DiscoverVariables,
        Self::CanUpdateMachine,
        Self::CanUpdateMachineSet,
        Self::UpdateMachine,
    ];

    /// As requests, `pending-hooks` and discovery spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Discovery => "Discovery",
            Self::BeforeClusterCreate => "BeforeClusterCreate",
            Self::AfterControlPlaneInitialized => "AfterControlPlaneInitialized",
            Self::BeforeClusterUpgrade => "BeforeClusterUpgrade",
            Self::BeforeControlPlaneUpgrade => "BeforeControlPlaneUpgrade",
            Self::AfterControlPlaneUpgrade => "AfterControlPlaneUpgrade",
            Self::BeforeWorkersUpgrade => "BeforeWorkersUpgrade",
            Self::AfterWorkersUpgrade => "AfterWorkersUpgrade",
            Self::AfterClusterUpgrade => "AfterClusterUpgrade",
            Self::BeforeClusterDelete => "BeforeClusterDelete",
            Self::GenerateUpgradePlan => "GenerateUpgradePlan",
            Self::GeneratePatches => "GeneratePatches",
            Self::ValidateTopology => "ValidateTopology",
            Self::DiscoverVariables => "DiscoverVariables",
            Self::CanUpdateMachine => "CanUpdateMachine",
            Self::CanUpdateMachineSet => "CanUpdateMachineSet",
            Self::UpdateMachine => "UpdateMachine",
        }
    }

    /// The hook of this API version and name; case matters.
    pub fn find(api_version: &str, name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| api_version == API_VERSION && hook.as_str() == name)
    }

    /// The path under the extension's prefix at which `handler` is called; discovery has no handler.
    /// Source: `GVHToPath`.
    pub fn path(self, handler: Option<&str>) -> String {
        let hook = self.as_str().to_lowercase();
        let handler = handler.map(|handler| format!("/{}", handler.to_lowercase())).unwrap_or_default();
        format!("/{API_VERSION}/{hook}{handler}")
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_have_upstreams_names_and_paths() {
        for hook in Hook::ALL {
            assert_eq!(Hook::find(API_VERSION, hook.as_str()), Some(hook));
        }
        assert_eq!(Hook::find("hooks.runtime.cluster.x-k8s.io/v1", "UpdateMachine"), None);
        assert_eq!(Hook::find(API_VERSION, "updatemachine"), None);
        assert_eq!(API_VERSION, format!("{GROUP}/{VERSION}"));
        assert_eq!(Hook::Discovery.path(None), "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery");
        assert_eq!(
            Hook::CanUpdateMachine.path(Some("Can-Update-Machine")),
            "/hooks.runtime.cluster.x-k8s.io/v1alpha1/canupdatemachine/can-update-machine"
        );
    }
}
