//! What is done and written, in words, for lists of steps and for the log. Owns the words, and nothing reads them back; must not
//! decide anything.

use std::fmt;

use super::keys::KeyCall;
use super::{Step, StepAction, WorkloadCall, Write, bootstrap};
use capi_types::key::ObjectRef;
use capstan_base::text::counted;

impl fmt::Display for StepAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { kind, name } => write!(f, "create {kind} {name}"),
            Self::CreateControlPlaneMachine { name, joins, failure_domain } => {
                let how = if *joins { "joins" } else { "initializes" };
                write!(f, "create Machine {name} ({how}")?;
                match failure_domain {
                    Some(domain) => write!(f, ", failure domain {domain})"),
                    None => f.write_str(")"),
                }
            }
            Self::Delete { kind, name } => write!(f, "delete {kind} {name}"),
            Self::Scale { kind, name, from: Some(from), to } => {
                write!(f, "scale {kind} {name} {from} → {to}")
            }
            Self::Scale { kind, name, from: None, to } => write!(f, "scale {kind} {name} to {to}"),
            Self::UpdateInPlace { machine } => write!(f, "update Machine {machine} in place"),
            Self::UpdateOrReplace { machine } => {
                write!(f, "update Machine {machine} in place, or replace it")
            }
            Self::Adopt { machine } => write!(f, "adopt Machine {machine}"),
            Self::Release { machine } => write!(f, "let Machine {machine} go"),
            Self::Sync { machine } => write!(f, "keep Machine {machine} in step"),
            Self::SetCondition { machine, condition, status, reason } => {
                write!(f, "mark Machine {machine} {condition}={status}/{reason}")
            }
            Self::ClearCondition { machine, condition } => {
                write!(f, "clear {condition} of Machine {machine}")
            }
            Self::MarkUnhealthy { namespace, machine } => {
                write!(f, "mark Machine {namespace}/{machine} as unhealthy")
            }
            Self::RequestRemediation { kind, namespace, name } => {
                write!(f, "create {kind} {namespace}/{name}")
            }
            Self::Update { kind, name, fields } => write!(f, "update {kind} {name} ({})", fields.join(", ")),
            Self::UpdateStatus { kind, name } => write!(f, "update the status of {kind} {name}"),
            Self::UpdateConditions { kind, name, conditions } => {
                write!(f, "update {} of {kind} {name}", conditions.join(", "))
            }
            Self::TakeOverFields { kind, name } => write!(f, "take over the fields of {kind} {name}"),
            Self::Evict { node, pods } => write!(f, "evict {} from Node {node}", counted(*pods, "pod")),
            Self::PatchNode { node } => write!(f, "patch Node {node}"),
            Self::RemoveEtcdMember { name, id } if name.is_empty() => {
                write!(f, "remove etcd member {id} (no name yet)")
            }
            Self::RemoveEtcdMember { name, .. } => write!(f, "remove etcd member {name}"),
            Self::MoveEtcdLeader { from, to } => {
                let to = to.as_deref().unwrap_or("no member");
                write!(f, "move etcd leadership from {from} to {to}")
            }
            Self::Other { what } => f.write_str(what),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            Some(action) => action.fmt(f)?,
            None => {
                for (index, write) in self.writes.iter().enumerate() {
                    write!(f, "{}{write}", if index > 0 { ", " } else { "" })?;
                }
            }
        }
        write!(f, ": {}", self.reason)
    }
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
            // Only the public half: the other is a secret.
            Self::StoreToken { token, .. } => write!(f, "store join token {}", bootstrap::token_id(token)),
            Self::SetClusterConfiguration(_) => f.write_str("update ConfigMap kube-system/kubeadm-config"),
            Self::SetKubeProxyImage { image } => write!(f, "set the image of kube-proxy to {image}"),
            Self::SetCoreDnsImage { image } => write!(f, "set the image of CoreDNS to {image}"),
            Self::BindClusterRole(binding) => {
                let name = binding.metadata.name.as_deref().unwrap_or_default();
                write!(f, "create ClusterRoleBinding {name}")
            }
            Self::PatchNode { .. }
            | Self::Evict { .. }
            | Self::DeleteNode { .. }
            | Self::RemoveEtcdMember(_)
            | Self::MoveEtcdLeader { .. } => StepAction::call(self).fmt(f),
        }
    }
}

impl fmt::Display for KeyCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateCertificates { purposes, .. } => {
                let names: Vec<&str> = purposes.iter().map(|purpose| purpose.name()).collect();
                write!(f, "create certificates {}", names.join(", "))
            }
            Self::AdoptCertificates { purposes } => {
                let names: Vec<&str> = purposes.iter().map(|purpose| purpose.name()).collect();
                write!(f, "adopt certificates {}", names.join(", "))
            }
            Self::CreateKubeconfig { server, .. } => write!(f, "create the kubeconfig secret for {server}"),
            Self::AdoptKubeconfig => f.write_str("adopt the kubeconfig secret"),
            Self::RenewKubeconfig { .. } => f.write_str("renew the kubeconfig's client certificate"),
        }
    }
}
