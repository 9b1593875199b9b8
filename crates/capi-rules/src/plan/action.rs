//! What is done, as data: one enum for the steps of plans, for forecasts, and for what a simulation went through. Owns which
//! things are done, and to what. Must not know why, nor how a write is sent; the words are in `words`.

use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::keys::KeyCall;
use super::{Step, WorkloadCall, Write};
use capi_types::key::ObjectRef;

/// One thing that is done. Names are without the namespace, which is that of the planned object, unless a field has it.
/// `Display` is the text of it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verb", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[allow(missing_docs)] // a field is named as in Kubernetes: `kind` and `name` of the object, and what it is given
pub enum StepAction {
    Create {
        kind: String,
        name: String,
    },
    /// A Machine of a control plane, with what is made for it.
    CreateControlPlaneMachine {
        name: String,
        /// It joins a control plane that exists; otherwise it is the first.
        joins: bool,
        failure_domain: Option<String>,
    },
    Delete {
        kind: String,
        name: String,
    },
    Scale {
        kind: String,
        name: String,
        /// `None`: not known.
        from: Option<i64>,
        to: i64,
    },
    /// A Machine is handed to its controller, to be updated where it stands.
    UpdateInPlace {
        machine: String,
    },
    /// Whether extensions can update the Machine is not known.
    UpdateOrReplace {
        machine: String,
    },
    Adopt {
        machine: String,
    },
    /// The control plane's own hook is dropped, so that the infrastructure may go.
    Release {
        machine: String,
    },
    /// A Machine and the objects behind it get the metadata of their template.
    Sync {
        machine: String,
    },
    SetCondition {
        machine: String,
        condition: String,
        status: String,
        reason: String,
    },
    ClearCondition {
        machine: String,
        condition: String,
    },
    MarkUnhealthy {
        namespace: String,
        machine: String,
    },
    /// Asks a remediator outside of Cluster API to repair the Machine of the same name.
    RequestRemediation {
        kind: String,
        namespace: String,
        name: String,
    },
    Update {
        kind: String,
        name: String,
        /// Two levels deep, dotted.
        fields: Vec<String>,
    },
    UpdateStatus {
        kind: String,
        name: String,
    },
    UpdateConditions {
        kind: String,
        name: String,
        conditions: Vec<String>,
    },
    /// Server-side apply becomes the owner of fields that have their values already.
    TakeOverFields {
        kind: String,
        name: String,
    },
    Evict {
        node: String,
        pods: usize,
    },
    PatchNode {
        node: String,
    },
    RemoveEtcdMember {
        /// Empty while it has none.
        name: String,
        /// Decimal.
        id: String,
    },
    MoveEtcdLeader {
        from: String,
        /// `None`: no member is there to lead.
        to: Option<String>,
    },
    /// What neither Machines, replicas, Nodes nor members of etcd change by, such as a Secret.
    Other {
        what: String,
    },
}

impl StepAction {
    /// What a write does; `None` for what needs no line of its own.
    /// `replicas`: how many a MachineSet has now, by name.
    pub fn of(write: &Write, replicas: &dyn Fn(&str) -> Option<i32>) -> Option<Self> {
        Some(match write {
            // A handover goes with the apply after it, or with the creation before it.
            Write::Event { .. } | Write::Handover { .. } => return None,
            Write::Create { object, .. } => Self::create(object),
            Write::Delete { object } => Self::delete(object),
            Write::Patch { object, body } | Write::Apply { object, body, .. } => {
                Self::patch(object, body, replicas)
            }
            Write::PatchStatus { object, .. } => {
                let (kind, name) = named(object);
                Self::UpdateStatus { kind, name }
            }
            Write::MachineCondition { machine, type_, .. } => {
                let (kind, name) = named(machine);
                Self::UpdateConditions { kind, name, conditions: vec![type_.clone()] }
            }
            Write::MachineConditions { read, conditions, .. } => {
                let (kind, name) = named(&ObjectRef::of(read.as_ref()));
                let conditions = conditions.iter().map(|c| c.type_.clone()).collect();
                Self::UpdateConditions { kind, name, conditions }
            }
            Write::Workload { call, .. } => Self::call(call),
            Write::Keys { call, .. } => Self::keys(call),
            Write::NoteExpiry { .. } => Self::Other { what: write.to_string() },
        })
    }

    fn create(object: &ObjectRef) -> Self {
        let (kind, name) = named(object);
        Self::Create { kind, name }
    }

    fn delete(object: &ObjectRef) -> Self {
        let (kind, name) = named(object);
        Self::Delete { kind, name }
    }

    fn patch(object: &ObjectRef, body: &Value, replicas: &dyn Fn(&str) -> Option<i32>) -> Self {
        let (kind, name) = named(object);
        match body["spec"]["replicas"].as_i64() {
            Some(to) => Self::Scale { from: replicas(&name).map(i64::from), kind, name, to },
            None => match fields(body) {
                none if none.is_empty() => Self::TakeOverFields { kind, name },
                fields => Self::Update { kind, name, fields },
            },
        }
    }

    /// What a call into a workload cluster does.
    pub fn call(call: &WorkloadCall) -> Self {
        match call {
            WorkloadCall::PatchNode { node, .. } => Self::PatchNode { node: node.clone() },
            WorkloadCall::Evict { node, pods, .. } => Self::Evict { node: node.clone(), pods: pods.len() },
            WorkloadCall::DeleteNode { node, .. } => {
                Self::Delete { kind: "Node".to_owned(), name: node.clone() }
            }
            WorkloadCall::RemoveEtcdMember(member) => {
                Self::RemoveEtcdMember { name: member.name.clone(), id: member.id.to_string() }
            }
            WorkloadCall::MoveEtcdLeader { from, candidates } => {
                let to = candidates.first().map(|member| member.name.clone());
                Self::MoveEtcdLeader { from: from.clone(), to }
            }
            WorkloadCall::StoreToken { .. }
            | WorkloadCall::SetClusterConfiguration(_)
            | WorkloadCall::SetKubeProxyImage { .. }
            | WorkloadCall::SetCoreDnsImage { .. }
            | WorkloadCall::BindClusterRole(_) => Self::Other { what: call.to_string() },
        }
    }

    /// What a change of keys does.
    pub fn keys(call: &KeyCall) -> Self {
        Self::Other { what: call.to_string() }
    }

    /// The name of the Machine that is made.
    pub fn created_machine(&self) -> Option<&str> {
        match self {
            Self::CreateControlPlaneMachine { name, .. } => Some(name),
            Self::Create { kind, name } if kind == MACHINE => Some(name),
            _ => None,
        }
    }

    /// The name of the Machine that is deleted.
    pub fn deleted_machine(&self) -> Option<&str> {
        match self {
            Self::Delete { kind, name } if kind == MACHINE => Some(name),
            _ => None,
        }
    }

    /// The name of the Machine that it is about.
    pub fn machine(&self) -> Option<&str> {
        match self {
            Self::UpdateInPlace { machine }
            | Self::UpdateOrReplace { machine }
            | Self::Adopt { machine }
            | Self::Release { machine }
            | Self::Sync { machine }
            | Self::SetCondition { machine, .. }
            | Self::ClearCondition { machine, .. }
            | Self::MarkUnhealthy { machine, .. } => Some(machine),
            _ => self.created_machine().or_else(|| self.deleted_machine()),
        }
    }

    /// Does an object come into being?
    pub fn creates(&self) -> bool {
        matches!(
            self,
            Self::Create { .. } | Self::CreateControlPlaneMachine { .. } | Self::RequestRemediation { .. }
        )
    }

    /// Does a Machine, or an owner of Machines, come, go or change by it?
    pub fn is_of_pool(&self) -> bool {
        match self {
            Self::Create { kind, .. } | Self::Delete { kind, .. } => POOLS.contains(&kind.as_str()),
            Self::CreateControlPlaneMachine { .. }
            | Self::Scale { .. }
            | Self::UpdateInPlace { .. }
            | Self::UpdateOrReplace { .. } => true,
            _ => false,
        }
    }

    /// Does a Machine or what owns Machines come, go or change by it, or a member of etcd: what a rollout is followed by?
    pub fn is_of_rollout(&self) -> bool {
        match self {
            Self::Create { .. }
            | Self::Delete { .. }
            | Self::CreateControlPlaneMachine { .. }
            | Self::Scale { .. }
            | Self::UpdateInPlace { .. }
            | Self::UpdateOrReplace { .. } => self.is_of_pool(),
            Self::Release { .. }
            | Self::SetCondition { .. }
            | Self::MarkUnhealthy { .. }
            | Self::RemoveEtcdMember { .. }
            | Self::MoveEtcdLeader { .. } => true,
            // No wildcard here: the compiler names an action that is not placed yet.
            Self::Adopt { .. }
            | Self::Sync { .. }
            | Self::ClearCondition { .. }
            | Self::RequestRemediation { .. }
            | Self::Update { .. }
            | Self::UpdateStatus { .. }
            | Self::UpdateConditions { .. }
            | Self::TakeOverFields { .. }
            | Self::Evict { .. }
            | Self::PatchNode { .. }
            | Self::Other { .. } => false,
        }
    }

    /// The same with another name for the Machine that is made or deleted, so that several are told in one line.
    pub fn with_machine(&self, name: &str) -> Self {
        let mut other = self.clone();
        match &mut other {
            Self::Create { kind, name: own } | Self::Delete { kind, name: own } if kind == MACHINE => {
                name.clone_into(own);
            }
            Self::CreateControlPlaneMachine { name: own, .. } => name.clone_into(own),
            _ => {}
        }
        other
    }

    /// Every text in it, for a reader that sanitises what comes from a cluster.
    pub fn texts_mut(&mut self) -> Vec<&mut String> {
        match self {
            Self::Create { kind, name }
            | Self::Delete { kind, name }
            | Self::Scale { kind, name, .. }
            | Self::UpdateStatus { kind, name }
            | Self::TakeOverFields { kind, name } => vec![kind, name],
            Self::CreateControlPlaneMachine { name, failure_domain, .. } => {
                std::iter::once(name).chain(failure_domain).collect()
            }
            Self::UpdateInPlace { machine }
            | Self::UpdateOrReplace { machine }
            | Self::Adopt { machine }
            | Self::Release { machine }
            | Self::Sync { machine } => vec![machine],
            Self::SetCondition { machine, condition, status, reason } => {
                vec![machine, condition, status, reason]
            }
            Self::ClearCondition { machine, condition } => vec![machine, condition],
            Self::MarkUnhealthy { namespace, machine } => vec![namespace, machine],
            Self::RequestRemediation { kind, namespace, name } => vec![kind, namespace, name],
            Self::Update { kind, name, fields } => [kind, name].into_iter().chain(fields).collect(),
            Self::UpdateConditions { kind, name, conditions } => {
                [kind, name].into_iter().chain(conditions).collect()
            }
            Self::Evict { node, .. } | Self::PatchNode { node } => vec![node],
            Self::RemoveEtcdMember { name, id } => vec![name, id],
            Self::MoveEtcdLeader { from, to } => std::iter::once(from).chain(to).collect(),
            Self::Other { what } => vec![what],
        }
    }
}

impl Step {
    /// What it does: one thing where its planner named it, else what each of its writes does.
    /// `replicas`: how many a MachineSet has now, by name.
    pub fn actions(&self, replicas: &dyn Fn(&str) -> Option<i32>) -> Vec<StepAction> {
        match &self.action {
            Some(action) => vec![action.clone()],
            None => self.writes.iter().filter_map(|write| StepAction::of(write, replicas)).collect(),
        }
    }
}

const MACHINE: &str = "Machine";

/// Machines, and the kinds that stand for several of them or look after them.
const POOLS: [&str; 5] = [MACHINE, "MachineSet", "MachineDeployment", "MachinePool", "MachineHealthCheck"];

fn named(object: &ObjectRef) -> (String, String) {
    (object.gvk.kind.clone(), object.key.name.clone())
}

/// The fields that a patch touches, two levels deep; the version that it expects is not one of them.
fn fields(body: &Value) -> Vec<String> {
    let mut names = Vec::new();
    for (top, below) in body.as_object().into_iter().flatten() {
        match below.as_object() {
            Some(below) => {
                let touched = below.keys().filter(|key| *key != "resourceVersion");
                names.extend(touched.map(|key| format!("{top}.{key}")));
            }
            None => names.push(top.clone()),
        }
    }
    names
}
