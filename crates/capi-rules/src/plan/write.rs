//! The writes that steps are made of. Data only; must not know how they are sent. The words are in `words`.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference};
use kube::Resource;
use serde::Serialize;
use serde_json::{Value, json};

use super::keys::KeyCall;
use crate::etcd::Member;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::managed_fields::Handover;
use capstan_base::time::Timestamp;
use k8s_machinery::merge::merge_diff;

/// One write of a step. Data only; `controllers::apply` performs it.
#[allow(missing_docs, reason = "the comment of a variant names its parts")]
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Creates the object of this reference from its full content. With a manager by server-side apply, as
    /// upstream; without one, one that exists already is a failure.
    Create { object: ObjectRef, content: Value, manager: Option<&'static str> },
    /// Server-side apply of the whole intent, with force; see [`super::field_owners`]. Guarded by the uid.
    Apply {
        object: ObjectRef,
        intent: Value,
        manager: &'static str,
        /// The merge patch that it amounts to; empty when only owners change.
        body: Value,
        /// The resourceVersion of what `intent` was compared with.
        read: Option<String>,
    },
    /// Has the fields owned anew, before the first apply of a manager.
    Handover { object: ObjectRef, handover: Handover },
    /// JSON merge patch of metadata and spec. Guarded by the uid of the reference, when it has one.
    Patch { object: ObjectRef, body: Value },
    /// JSON merge patch of the status subresource.
    PatchStatus { object: ObjectRef, body: Value },
    /// One condition of a Machine whose other conditions are written by others; `None` takes it away.
    MachineCondition { machine: ObjectRef, type_: String, condition: Option<Box<Condition>> },
    /// Conditions of a Machine, laid over what others wrote since it was read: only of `owned` types they are overruled.
    MachineConditions { read: Arc<Machine>, conditions: Vec<Condition>, owned: &'static [&'static str] },
    /// Deletes in the background. One that is gone already is fine.
    Delete { object: ObjectRef },
    /// A Kubernetes event about the object.
    Event { about: ObjectRef, warning: bool, reason: &'static str, message: String },
    /// A call into the workload cluster of the Cluster with this key.
    Workload { cluster: ObjectKey, call: WorkloadCall },
    /// Asks the API server on a Node of the Cluster with this key when its certificate ends, and notes it on `config`.
    NoteExpiry { cluster: ObjectKey, node: String, port: u16, config: ObjectRef },
    /// Keys and credentials of the Cluster with this key, in Secrets that `owner` controls.
    Keys { cluster: ObjectKey, owner: OwnerReference, call: KeyCall },
}

impl Write {
    /// Makes `after` of `before`; `None` when they are the same.
    pub fn difference<K: Resource<DynamicType = ()> + Serialize>(before: &K, after: &K) -> Option<Self> {
        let body = merge_diff(&to_value(before), &to_value(after))?;
        Some(Self::Patch { object: ObjectRef::of(before), body })
    }

    /// The same patch, refused when the object with this metadata changed since it was read: lists such as owners
    /// and finalizers are replaced as a whole, and without the version the entry of another writer could be lost.
    pub fn if_unchanged(mut self, read: &ObjectMeta) -> Self {
        if let (Self::Patch { body, .. }, Some(version)) = (&mut self, &read.resource_version) {
            body["metadata"]["resourceVersion"] = json!(version);
        }
        self
    }

    /// Does it change nothing but the metadata of an object?
    pub fn is_of_metadata(&self) -> bool {
        let (Self::Patch { body, .. } | Self::Apply { body, .. }) = self else {
            return matches!(self, Self::Handover { .. } | Self::NoteExpiry { .. });
        };
        body.as_object().is_some_and(|body| body.keys().all(|key| key == "metadata"))
    }
}

/// Typed objects always serialise: their maps have text keys.
fn to_value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// A change inside a workload cluster.
#[allow(missing_docs, reason = "the comment of a variant names its parts")]
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadCall {
    /// Merge patch of a Node; a resource version in `body` guards it.
    PatchNode { node: String, body: Value },
    /// Evicts the pods in order, for at most ten seconds. Whatever comes of it is an outcome, not a
    /// failure. Without a grace period the pods have their own.
    Evict { node: String, pods: Vec<ObjectKey>, grace_period_s: Option<u32> },
    /// `must`: a failure stops the plan; else it is reported and passed over.
    DeleteNode { node: String, must: bool },
    /// Creates a join token, or gives it a new end.
    StoreToken { token: String, expires: Timestamp },
    /// Asks the other members to let it go.
    RemoveEtcdMember(Member),
    /// Candidates in order; the first that accepts leads.
    MoveEtcdLeader { from: String, candidates: Vec<Member> },
    /// The new `ClusterConfiguration` of ConfigMap `kube-system/kubeadm-config`.
    SetClusterConfiguration(Value),
    /// Of the DaemonSet.
    SetKubeProxyImage { image: String },
    /// Of the Deployment.
    SetCoreDnsImage { image: String },
    /// Creates a ClusterRoleBinding; one that exists already is fine.
    BindClusterRole(ClusterRoleBinding),
}
