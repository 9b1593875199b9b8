//! The objects that an action's rules look at: the object itself, its Cluster, the Machines and MachineHealthChecks of that
//! Cluster, and the control plane of a Machine. Owns how they are found among what was read; must not judge them.

use serde_json::Value;

use crate::operations::HeldBudget;
use capi_rules::etcd::report::Report;
use capi_types::key::group_of;
use capi_types::names::{CONTROL_PLANE_GROUP, label};
use capstan_engine::client::clusters::{Lists, cluster_named_by};

/// An object and those around it. `None` means that it could not be read or does not exist.
#[derive(Clone, Debug, Default)]
pub struct Related {
    /// The live object.
    pub object: Value,
    /// The Cluster that it belongs to.
    pub cluster: Option<Value>,
    /// Every Machine of that Cluster.
    pub machines: Option<Vec<Value>>,
    /// The KubeadmControlPlane that controls a Machine.
    pub control_plane: Option<Value>,
    /// Every MachineHealthCheck of that Cluster.
    pub health_checks: Option<Vec<Value>>,
    /// The etcd, or why it could not be asked. `None`: the action does not concern it.
    pub etcd: Option<Result<Report, String>>,
    /// The disruption budgets that let no pod go, or why they could not be read. `None`: no Node is drained, or nothing reads them.
    pub budgets: Option<Result<Vec<HeldBudget>, String>>,
}

impl Related {
    /// Nothing but the object was read.
    pub fn alone(object: Value) -> Self {
        let cluster = (object["kind"] == "Cluster").then(|| object.clone());
        Self { object, cluster, ..Self::default() }
    }

    /// What stands around `object` in the lists of its Cluster.
    pub fn among(object: Value, lists: &Lists) -> Self {
        let beside = |kind, name: Option<&str>| found(lists, &object, kind, name?).cloned();
        let cluster = beside("Cluster", cluster_named_by(&object));
        let control_plane = beside("KubeadmControlPlane", control_plane_name(&object));
        let all = |kind| of_kind(lists, kind).map(<[Value]>::to_vec);
        let (machines, health_checks) = (all("Machine"), all("MachineHealthCheck"));
        let alone = Self::alone(object);
        // A Cluster is its own: the copy that the write is guarded by counts, not the one of the
        // lists.
        Self { cluster: alone.cluster.or(cluster), machines, control_plane, health_checks, ..alone }
    }

    /// Its Cluster is marked as one that nobody changes in passing.
    pub fn is_protected(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| {
            let mark = &cluster["metadata"]["labels"][label::PROTECTED];
            mark.as_str().is_some_and(|value| value != "false")
        })
    }

    pub fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    pub fn group(&self) -> &str {
        group_of(self.object["apiVersion"].as_str().unwrap_or_default())
    }

    /// Is the object itself a control plane, of whatever kind?
    pub(super) fn is_control_plane(&self) -> bool {
        is_control_plane_of(self.cluster.as_ref(), &self.object)
    }

    pub(super) fn control_plane_machines(&self) -> Option<Vec<&Value>> {
        let machines = self.machines.as_ref()?;
        Some(machines.iter().filter(|m| !m["metadata"]["labels"][label::CONTROL_PLANE].is_null()).collect())
    }

    /// The Machines that a rollout of the object replaces.
    pub(super) fn own_machines(&self) -> Option<Vec<&Value>> {
        if self.is_control_plane() {
            return self.control_plane_machines();
        }
        let (machines, name) = (self.machines.as_ref()?, &self.object["metadata"]["name"]);
        Some(machines.iter().filter(|m| m["metadata"]["labels"][label::DEPLOYMENT_NAME] == *name).collect())
    }

    pub(super) fn is_control_plane_machine(&self) -> bool {
        self.kind() == "Machine" && !self.object["metadata"]["labels"][label::CONTROL_PLANE].is_null()
    }

    /// Kind and name of what controls the object.
    pub(super) fn owner(&self) -> Option<(&str, &str)> {
        controller_of(&self.object)
    }
}

/// Is `object` a control plane? Of another group it is one where its `cluster` names it.
pub(super) fn is_control_plane_of(cluster: Option<&Value>, object: &Value) -> bool {
    let group = |api_version: &Value| group_of(api_version.as_str().unwrap_or_default()).to_owned();
    let (kind, own_group) = (object["kind"].as_str().unwrap_or_default(), group(&object["apiVersion"]));
    // The group has the templates of control planes, too.
    let is_of_group = own_group == CONTROL_PLANE_GROUP && !kind.ends_with("Template");
    is_of_group
        || kind == "KubeadmControlPlane"
        || cluster.is_some_and(|cluster| {
            let named = &cluster["spec"]["controlPlaneRef"];
            // References of v1beta2 have a group, those of v1beta1 an apiVersion.
            let named_group = named["apiGroup"].as_str().map(str::to_owned);
            named["kind"] == kind
                && named["name"] == object["metadata"]["name"]
                && named_group.unwrap_or_else(|| group(&named["apiVersion"])) == own_group
        })
}

fn of_kind<'a>(lists: &'a Lists, kind: &str) -> Option<&'a [Value]> {
    lists.kinds.iter().find(|(gvk, _)| gvk.kind == kind).map(|(_, objects)| objects.as_slice())
}

/// The object of a kind with this name, beside `object`.
fn found<'a>(lists: &'a Lists, object: &Value, kind: &str, name: &str) -> Option<&'a Value> {
    let is_it = |other: &&Value| {
        other["metadata"]["name"] == name && other["metadata"]["namespace"] == object["metadata"]["namespace"]
    };
    of_kind(lists, kind)?.iter().find(is_it)
}

/// The KubeadmControlPlane that controls a Machine.
fn control_plane_name(object: &Value) -> Option<&str> {
    controller_of(object).filter(|(kind, _)| *kind == "KubeadmControlPlane").map(|(_, name)| name)
}

fn controller_of(object: &Value) -> Option<(&str, &str)> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    Some((owner["kind"].as_str().unwrap_or_default(), owner["name"].as_str().unwrap_or_default()))
}

/// Objects of v1beta1 have the newer conditions in a place of their own, if at all.
pub(super) fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let status = &object["status"];
    let places = [&status["v1beta2"]["conditions"], &status["conditions"]];
    let all = places.into_iter().filter_map(Value::as_array);
    all.into_iter().find_map(|conditions| conditions.iter().find(|c| c["type"] == type_))
}
