//! The writes that steps are made of. Data only; must not know how they are sent.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference};
use kube::Resource;
use serde::Serialize;
use serde_json::{Value, json};

use super::bootstrap;
use super::keys::KeyCall;
use crate::etcd::Member;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::managed_fields::Handover;
use capstan_base::text::counted;
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

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { object, .. } => write!(f, "create {object}"),
            Self::Apply { object, .. } => write!(f, "apply {object}"),
            Self::Handover { object, .. } => write!(f, "take over fields of {object}"),
            Self::Patch { object, .. } => write!(f, "patch {object}"),
            Self::PatchStatus { object, .. } => write!(f, "patch the status of {object}"),
            Self::MachineCondition { machine, type_, condition: Some(condition) } => {
                write!(f, "set {type_}={}/{} of {machine}", condition.status, condition.reason)
            }
            Self::MachineCondition { machine, type_, condition: None } => {
                write!(f, "clear {type_} of {machine}")
            }
            Self::MachineConditions { read, conditions, .. } => {
                let states = conditions.iter().map(|c| format!("{}={}/{}", c.type_, c.status, c.reason));
                let states: Vec<String> = states.collect();
                write!(f, "set {} of {}", states.join(", "), ObjectRef::of(read.as_ref()))
            }
            Self::Delete { object } => write!(f, "delete {object}"),
            Self::Event { about, reason, .. } => write!(f, "report {reason} on {about}"),
            Self::Workload { cluster, call } => write!(f, "{call} in Cluster {cluster}"),
            Self::NoteExpiry { node, config, .. } => {
                write!(f, "note on {config} when the certificate of the API server on Node {node} ends")
            }
            Self::Keys { cluster, call, .. } => write!(f, "{call} of Cluster {cluster}"),
        }
    }
}

impl fmt::Display for WorkloadCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evict { node, pods, .. } => {
                write!(f, "evict {} from Node {node}", counted(pods.len(), "pod"))
            }
            Self::DeleteNode { node, .. } => write!(f, "delete Node {node}"),
            // Only the public half: the other is a secret.
            Self::StoreToken { token, .. } => write!(f, "store join token {}", bootstrap::token_id(token)),
            Self::PatchNode { node, .. } => write!(f, "patch Node {node}"),
            Self::RemoveEtcdMember(member) if member.name.is_empty() => {
                write!(f, "remove etcd member {} (no name yet)", member.id)
            }
            Self::RemoveEtcdMember(member) => write!(f, "remove etcd member {}", member.name),
            Self::MoveEtcdLeader { from, candidates } => {
                let to = candidates.first().map_or("no member", |member| member.name.as_str());
                write!(f, "move etcd leadership from {from} to {to}")
            }
            Self::SetClusterConfiguration(_) => f.write_str("update ConfigMap kube-system/kubeadm-config"),
            Self::SetKubeProxyImage { image } => write!(f, "set the image of kube-proxy to {image}"),
            Self::SetCoreDnsImage { image } => write!(f, "set the image of CoreDNS to {image}"),
            Self::BindClusterRole(binding) => {
                let name = binding.metadata.name.as_deref().unwrap_or_default();
                write!(f, "create ClusterRoleBinding {name}")
            }
        }
    }
}
