//! How bootstrap data is carried out, and which step of it is kubeadm's. Must not know the other steps.

use serde::Serialize;

/// No command of bootstrap data takes longer; kubeadm itself gives up after some minutes.
pub(super) const STEP_LIMIT_S: u64 = 1_800;

/// How bootstrap data is carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Put on the Node by its kubelet.
    pub provider_id: Option<String>,
}

/// What kubeadm is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum KubeadmVerb {
    Init,
    Join,
}

impl KubeadmVerb {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Join => "join",
        }
    }
}

/// The step after which a machine is a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeadmStep {
    pub number: u32,
    pub verb: KubeadmVerb,
}
