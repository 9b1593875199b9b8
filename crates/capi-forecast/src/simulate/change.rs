//! What changed in a world, as actors need it: whose object it is and which part of it changed. Must not know who looks
//! at it then.

use serde::Serialize;

/// The kinds whose controllers act in a world, in their fixed order: parts come before the whole, so that an owner sees
/// everything that its members did at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ActorKind {
    Machine,
    MachineSet,
    KubeadmControlPlane,
    MachineDeployment,
    MachineHealthCheck,
    Cluster,
}

impl ActorKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Machine => "Machine",
            Self::MachineSet => "MachineSet",
            Self::KubeadmControlPlane => "KubeadmControlPlane",
            Self::MachineDeployment => "MachineDeployment",
            Self::MachineHealthCheck => "MachineHealthCheck",
            Self::Cluster => "Cluster",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectChange {
    pub kind: ActorKind,
    pub name: String,
    /// ActorKind and name of its controller, before or after.
    pub owner: Option<(String, String)>,
    /// Its metadata or spec: the controller of the object itself looks at it.
    pub is_intent: bool,
    pub is_spec: bool,
    pub is_gone: bool,
}

impl ObjectChange {
    /// Something that an object's controller looks at changed, though the object did not.
    pub(super) fn beside(kind: ActorKind, name: &str) -> Self {
        Self { kind, name: name.to_owned(), owner: None, is_intent: true, is_spec: false, is_gone: false }
    }
}
