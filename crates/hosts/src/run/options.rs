//! How bootstrap data is carried out, and which step of it is kubeadm's. Must not know the other steps.

use serde::Serialize;

/// No command of bootstrap data takes longer; kubeadm itself gives up after some minutes.
pub(super) const STEP_LIMIT_S: u64 = 1_800;

/// How bootstrap data is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Put on the Node by its kubelet.
    pub provider_id: Option<String>,
    /// As cloud-init does it: a command that fails does not end the run.
    pub continue_on_error: bool,
    /// For each command; 0: as long as it takes.
    pub step_limit_s: u64,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { provider_id: None, continue_on_error: false, step_limit_s: STEP_LIMIT_S }
    }
}

/// What kubeadm is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum KubeadmVerb {
    Init,
    Join,
}

/// The step after which a machine is a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeadmStep {
    pub number: u32,
    pub verb: KubeadmVerb,
}
