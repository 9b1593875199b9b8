//! One Machine of a control plane with the objects behind it, and the questions one asks of it.
//! Must not know the control plane.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use capi_types::bootstrap::KubeadmConfig;
use capi_types::condition;
use capi_types::condition_types::CONTROL_PLANE_GATES;
use capi_types::machine::{Machine, MachineStatus};
use capstan_base::time::{Timestamp, from_k8s};

/// The pods of a control plane Machine as condition types. The last one only with managed etcd.
pub const COMPONENTS: [&str; 4] =
    [CONTROL_PLANE_GATES[1], CONTROL_PLANE_GATES[2], CONTROL_PLANE_GATES[3], CONTROL_PLANE_GATES[4]];
/// The gate about the Machine's etcd member.
pub const ETCD_MEMBER: &str = CONTROL_PLANE_GATES[5];
/// What kubeadm sets on the Node.
pub const LABELS_AND_TAINTS: &str = CONTROL_PLANE_GATES[0];

/// A Machine, its bootstrap configuration and its infrastructure machine.
#[derive(Clone, Debug)]
pub struct OwnedMachine {
    /// As it is now, this pass' own writes included.
    pub machine: Machine,
    /// `None`: it does not exist.
    pub bootstrap: Option<KubeadmConfig>,
    /// The whole object; `None`: it does not exist.
    pub infrastructure: Option<Value>,
}

impl OwnedMachine {
    /// Empty for one that has none yet.
    pub fn name(&self) -> &str {
        self.machine.metadata.name.as_deref().unwrap_or_default()
    }

    /// As stored, or as just inspected.
    pub fn conditions(&self) -> &[Condition] {
        self.machine.status.as_ref().map_or(&[], |s| &s.conditions)
    }

    /// Replaces the conditions in memory; rules after an inspection read the new ones.
    pub fn set_conditions(&mut self, conditions: Vec<Condition>) {
        self.machine.status.get_or_insert_with(MachineStatus::default).conditions = conditions;
    }

    /// Does it have the condition, and is that true?
    pub fn is_true(&self, type_: &str) -> bool {
        condition::is_true(self.conditions(), type_)
    }

    /// Does it have the condition, and is that false?
    pub fn is_false(&self, type_: &str) -> bool {
        condition::is_false(self.conditions(), type_)
    }

    /// The condition of this type, if it has one.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        condition::find(self.conditions(), type_)
    }

    /// Is it on its way out?
    pub fn is_deleting(&self) -> bool {
        self.machine.metadata.deletion_timestamp.is_some()
    }

    /// When its deletion was asked for.
    pub fn deleted_at(&self) -> Option<Timestamp> {
        self.machine.metadata.deletion_timestamp.as_ref().map(from_k8s)
    }

    /// The epoch when the server left it open.
    pub fn created_at(&self) -> Timestamp {
        self.machine.metadata.creation_timestamp.as_ref().map(from_k8s).unwrap_or_default()
    }

    /// `None` before it has a Node.
    pub fn node_name(&self) -> Option<&str> {
        let node = self.machine.status.as_ref()?.node_ref.as_ref()?;
        (!node.name.is_empty()).then_some(node.name.as_str())
    }

    /// `None` before its infrastructure has one.
    pub fn provider_id(&self) -> Option<&str> {
        self.machine.spec.provider_id.as_deref().filter(|id| !id.is_empty())
    }

    /// Empty when its spec names none.
    pub fn version(&self) -> &str {
        self.machine.spec.version.as_deref().unwrap_or_default()
    }

    /// As its Node reports it; `None` before there is one.
    pub fn kubelet_version(&self) -> Option<&str> {
        let info = self.machine.status.as_ref()?.node_info.as_ref()?;
        (!info.kubelet_version.is_empty()).then_some(info.kubelet_version.as_str())
    }

    /// Where it runs, or else where it should run.
    pub fn failure_domain(&self) -> Option<&str> {
        self.machine.spec.failure_domain.as_deref().filter(|d| !d.is_empty())
    }

    /// The value of an annotation, if it is there.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.machine.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Without a Node and not on its way out.
    pub fn is_provisioning(&self) -> bool {
        self.node_name().is_none() && !self.is_deleting()
    }

    /// An in-place update runs, or is being prepared.
    pub fn is_updating_in_place(&self) -> bool {
        crate::status::machines::is_updating_in_place(&self.machine)
    }

    /// A health check asked for its replacement by its owner.
    pub fn awaits_remediation(&self) -> bool {
        self.is_false("HealthCheckSucceeded") && self.is_false("OwnerRemediated")
    }
}
