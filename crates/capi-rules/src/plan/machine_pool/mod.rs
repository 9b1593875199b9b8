//! What happens to a MachinePool next: its two provider objects, a Machine for each machine that the infrastructure shows,
//! its Nodes, and the way out. Owns the order of rules; must not know how the infrastructure counts.
//! Source: cluster-api `core/reconcilers/machinepool/machinepool_controller{,_phases,_noderef}.go`, v1.14.2.

mod machines;
#[cfg(test)]
mod tests;
mod why;

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use serde_json::json;

use super::{Plan, WorkloadCall, Write, external, ownership};
use crate::status::contract::Provided;
use crate::status::machine_pool::{
    Observed, has_all_nodes, id_of, is_deleting, names_data_secret, provider_ids, status,
};
use capi_types::key::{ObjectKey, ObjectRef, cluster_label};
use capi_types::machine_pool::MachinePoolStatus;
use capi_types::names::{finalizer, label};
use capstan_base::time::{Timestamp, from_k8s};
use why::Why;

/// Between two looks at Nodes that are not there yet.
const NODES_RETRY: Duration = Duration::from_secs(30);
const UNINITIALIZED: &str = "node.cluster.x-k8s.io/uninitialized";

/// The plan for a MachinePool that is not paused and has its finalizer. Every rule speaks even when an earlier one
/// waits, as upstream runs all its phases.
pub fn plan(o: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    owner_and_label(o, &mut plan);
    // Before the phases: provider objects on their way out are not adopted again.
    if is_deleting(o) {
        leave(o, now, &mut plan);
        return plan;
    }
    bootstrap(o, &mut plan);
    if let Some(infrastructure) = infrastructure(o, &mut plan) {
        match &o.nodes {
            Some(nodes) => {
                machines::of_hosts(o, infrastructure, nodes, &mut plan);
                nodes_of_pool(o, infrastructure, nodes, now, &mut plan);
            }
            None => plan.block(Why::NotConnected),
        }
    }
    machines::up_to_date(o, &mut plan);
    plan
}

fn owner_and_label(o: &Observed, plan: &mut Plan) {
    let (pool, cluster) = (&o.pool, &o.pool.spec.cluster_name);
    let before = pool.metadata.owner_references.clone().unwrap_or_default();
    let owners = ownership::with_owner(before.clone(), ownership::owner(o.cluster.as_ref(), false));
    let mut metadata = json!({});
    if owners != before {
        metadata["ownerReferences"] = json!(owners);
    }
    if cluster_label(pool) != Some(cluster) {
        metadata["labels"] = json!({ label::CLUSTER_NAME: cluster });
    }
    if metadata.as_object().is_some_and(|changes| !changes.is_empty()) {
        let patch = Write::Patch { object: ObjectRef::of(pool), body: json!({ "metadata": metadata }) };
        // The list of owners is replaced as a whole: another writer's would be lost.
        plan.step(patch.if_unchanged(&pool.metadata), Why::Belongs);
    }
}

fn bootstrap(o: &Observed, plan: &mut Plan) {
    let named = &o.pool.spec.template.spec.bootstrap;
    let name = named.config_ref.as_ref().map_or("", |r| r.name.as_str());
    let Some(config) = external::found(&o.bootstrap, name, false, false, plan) else { return };
    adopt(o, config, plan);
    if config.is_deleting() {
        return;
    }
    let kind = config.kind.clone();
    if !config.data_secret_created() {
        return plan.block(Why::WaitingForDataSecret { kind });
    }
    let offered = config.text(&["status", "dataSecretName"]).filter(|_| names_data_secret(config));
    let Some(offered) = offered else { return plan.block(Why::NoDataSecretName { kind }) };
    if named.data_secret_name.as_deref() != Some(offered) {
        let body = json!({"spec": {"template": {"spec": {"bootstrap": {"dataSecretName": offered}}}}});
        let write = Write::Patch { object: ObjectRef::of(&o.pool), body };
        plan.step(write, Why::DataSecret { name: offered.to_owned() });
    }
}

/// The object, unless it is on its way out.
fn infrastructure<'a>(o: &'a Observed, plan: &mut Plan) -> Option<&'a Provided> {
    let flags = o.pool.status.as_ref().and_then(|s| s.initialization.as_ref());
    let provisioned = flags.and_then(|i| i.infrastructure_provisioned) == Some(true);
    let name = &o.pool.spec.template.spec.infrastructure_ref.name;
    let found = external::found(&o.infrastructure, name, provisioned, false, plan)?;
    adopt(o, found, plan);
    if found.is_deleting() {
        return None;
    }
    // Upstream still reads the old contract's field here, for pools only.
    if !found.flag(&["status", "ready"]) {
        plan.block(external::Why::WaitingForInfrastructure { kind: found.kind.clone() });
    }
    Some(found)
}

fn adopt(o: &Observed, object: &Provided, plan: &mut Plan) {
    let why = Why::Adopt { kind: object.kind.clone() };
    let owner = ownership::owner(&o.pool, true);
    external::adopt(object, owner, &o.pool.spec.cluster_name, |_| false, why, plan);
}

/// Provider IDs as the infrastructure lists them, Nodes that have them, and the end of Nodes that had.
fn nodes_of_pool(o: &Observed, infrastructure: &Provided, nodes: &[Node], now: Timestamp, plan: &mut Plan) {
    let ids = provider_ids(o).unwrap_or_default();
    if ids != o.pool.spec.provider_id_list {
        let body = json!({"spec": {"providerIDList": if ids.is_empty() { json!(null) } else { json!(ids) }}});
        let write = Write::Patch { object: ObjectRef::of(&o.pool), body };
        plan.step(write, Why::ProviderIds { count: ids.len() });
    }
    // An empty list may mean "not reported yet": no Node is retired by it unless none is wanted.
    if ids.is_empty() && o.pool.spec.replicas != Some(0) {
        return plan.block(Why::WaitingForProviderIds { kind: infrastructure.kind.clone() });
    }
    retire(o, &ids, nodes, plan);
    // By the status that this pass will store: the event names what is new in it.
    let after = status(o, now);
    let before = o.pool.status.as_ref().map(|s| s.node_refs.as_slice()).unwrap_or_default();
    if after.node_refs != before {
        let about = ObjectRef::of(&o.pool);
        let (reason, message) = ("SuccessfulSetNodeRefs", as_go_prints(&after.node_refs));
        let count = after.node_refs.len();
        plan.step(Write::Event { about, warning: false, reason, message }, Why::NodesFound { count });
    }
    claim(o, &after, nodes, plan);
    if !has_all_nodes(&after) {
        plan.block(Why::WaitingForNodes);
        plan.recheck_within(NODES_RETRY);
    }
}

/// Deletes Nodes that the pool refers to and whose provider ID is not one of `ids`.
fn retire(o: &Observed, ids: &[String], nodes: &[Node], plan: &mut Plan) {
    for reference in o.pool.status.iter().flat_map(|status| &status.node_refs) {
        let node = nodes.iter().find(|node| node.metadata.name == reference.name);
        let Some((node, name)) = node.and_then(|node| Some((node, node.metadata.name.clone()?))) else {
            continue;
        };
        // A Node without an ID may be one that registers just now.
        if id_of(node).is_some_and(|id| !ids.contains(id)) {
            let call = WorkloadCall::DeleteNode { node: name, must: true };
            plan.step(Write::Workload { cluster: cluster_key(o), call }, Why::NodeRetired);
        }
    }
}

/// Nodes say whose they are, and are free to be used.
fn claim(o: &Observed, after: &MachinePoolStatus, nodes: &[Node], plan: &mut Plan) {
    let key = ObjectKey::of(&o.pool);
    let wanted = BTreeMap::from([
        ("cluster.x-k8s.io/cluster-name", o.pool.spec.cluster_name.as_str()),
        ("cluster.x-k8s.io/cluster-namespace", key.namespace.as_str()),
        ("cluster.x-k8s.io/owner-kind", "MachinePool"),
        ("cluster.x-k8s.io/owner-name", key.name.as_str()),
    ]);
    for reference in &after.node_refs {
        let Some(node) = nodes.iter().find(|node| node.metadata.name == reference.name) else { continue };
        let annotations = node.metadata.annotations.clone().unwrap_or_default();
        let has = |(key, value): (&&str, &&str)| annotations.get(*key).is_some_and(|found| found == value);
        let mut taints = node.spec.as_ref().and_then(|s| s.taints.clone()).unwrap_or_default();
        let count = taints.len();
        taints.retain(|taint| taint.key != UNINITIALIZED || taint.effect != "NoSchedule");
        if wanted.iter().all(has) && taints.len() == count {
            continue;
        }
        let mut body = json!({"metadata": {"annotations": wanted}});
        if taints.len() != count {
            body["spec"] = json!({ "taints": taints });
            // Only with taints: they are a list that the patch replaces as a whole.
            body["metadata"]["resourceVersion"] = json!(node.metadata.resource_version);
        }
        let call = WorkloadCall::PatchNode { node: reference.name.clone().unwrap_or_default(), body };
        plan.step(Write::Workload { cluster: cluster_key(o), call }, Why::NodeMetadata);
    }
}

/// First the provider objects, then the Nodes, then the pool itself.
fn leave(o: &Observed, now: Timestamp, plan: &mut Plan) {
    let before = plan.blockers.len();
    for part in [&o.bootstrap, &o.infrastructure] {
        external::remove(part, |kind| Why::RemovePart { kind }, plan);
    }
    // Nodes go only when their hosts are gone, or kubelets would register them again.
    if plan.blockers.len() > before {
        return;
    }
    let has_nodes = o.pool.status.as_ref().is_some_and(|status| !status.node_refs.is_empty());
    if has_nodes && !gave_up_nodes(o, now) {
        match &o.nodes {
            Some(nodes) => retire(o, &o.pool.spec.provider_id_list, nodes, plan),
            None => {
                plan.block(Why::NotConnected);
                return plan.recheck_within(NODES_RETRY);
            }
        }
    }
    if ownership::has_finalizer(&o.pool, finalizer::MACHINE_POOL) {
        plan.step(ownership::remove_finalizer(&o.pool, finalizer::MACHINE_POOL), Why::Completed);
        plan.is_last = true;
    }
}

/// Is the time over that the deletion of Nodes may take? Without one it never is.
fn gave_up_nodes(o: &Observed, now: Timestamp) -> bool {
    let deletion = o.pool.spec.template.spec.deletion.as_ref();
    let seconds = deletion.and_then(|d| d.node_deletion_timeout_seconds).filter(|seconds| *seconds != 0);
    let since = o.pool.metadata.deletion_timestamp.as_ref().map(from_k8s);
    let end = since.zip(seconds).map(|(since, seconds)| since + TimeDelta::seconds(i64::from(seconds)));
    end.is_some_and(|end| end < now)
}

fn cluster_key(o: &Observed) -> ObjectKey {
    ObjectKey::of(o.cluster.as_ref())
}

/// The message of upstream's event is what Go prints of the list.
fn as_go_prints(references: &[ObjectReference]) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let one = |r: &ObjectReference| {
        format!(
            "{{Kind:{} Namespace: Name:{} UID:{} APIVersion:{} ResourceVersion: FieldPath:}}",
            text(&r.kind),
            text(&r.name),
            text(&r.uid),
            text(&r.api_version)
        )
    };
    format!("[{}]", references.iter().map(one).collect::<Vec<_>>().join(" "))
}
