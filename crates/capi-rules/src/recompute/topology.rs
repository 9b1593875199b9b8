//! From a dump to what `TopologyReconciled` is judged by. Must not judge it.
//!
//! Extensions that hold something up, and errors of a run, are not in a dump: a stored condition that
//! names them is left as it is.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use super::class::class_of;
use crate::observe::dump::Dump;
use crate::observe::{Objects as _, Source as _, namespace};
use crate::status::conditions::wording::HOOKS_BLOCK;
use crate::status::contract::Provided;
use crate::status::topology::{ControlPlane, ObservedTopology, Workers, reconciled};
use capi_types::cluster::{Cluster, ReplicaCounts};
use capi_types::condition::{Conditioned as _, find};
use capi_types::key::{ObjectKey, annotation, cluster_label, label as label_of};
use capi_types::machine_deployment::MachineDeployment;
use capi_types::names;
use capi_types::names::label;
use k8s_machinery::version::{compare, parse};

const DEFER: &str = "topology.cluster.x-k8s.io/defer-upgrade";
const HOLD: &str = "topology.cluster.x-k8s.io/hold-upgrade-sequence";

/// Why the condition of a Cluster with a topology cannot be known, when that is so.
pub fn topology_is_kept(dump: &Dump, key: &ObjectKey, cluster: &Cluster) -> Option<String> {
    let Some(class) = class_of(dump, key, cluster) else {
        return Some("the ClusterClass is not in the dump".to_owned());
    };
    let cannot_tell = |c: &Condition| c.message.contains(HOOKS_BLOCK) || c.reason == "ReconcileFailed";
    let stored = find(cluster.conditions(), "TopologyReconciled");
    // With a class that cannot be used a run ends before it calls any hook.
    let kept = class_failure(class).is_none() && stored.is_some_and(cannot_tell);
    kept.then(|| "what hooks and a topology's own run answer is not in a dump".to_owned())
}

/// The condition as it should be; `None` when it cannot be known, or there is no topology.
pub fn topology_reconciled(dump: &Dump, key: &ObjectKey, cluster: &Cluster) -> Option<Condition> {
    let topology = cluster.spec.topology.as_ref()?;
    if topology_is_kept(dump, key, cluster).is_some() {
        return None;
    }
    let failure = class_failure(class_of(dump, key, cluster)?);
    let status = cluster.status.clone().unwrap_or_default();
    let control_plane = dump.control_plane_of_cluster(cluster);
    // The only trace that hooks leave in an object.
    let pending_hooks = annotation(cluster, names::annotation::PENDING_HOOKS).unwrap_or_default();
    let mut observed = ObservedTopology {
        cluster: cluster.clone(),
        failure,
        after_upgrade_is_pending: pending_hooks.split(',').any(|hook| hook.trim() == "AfterClusterUpgrade"),
        ..ObservedTopology::default()
    };
    if let Some(found) = control_plane.found() {
        observed.control_plane = upgrade(found, &topology.version, plan(status.control_plane.as_ref()));
        observed.machine_deployments = workers(dump, key, &observed.control_plane.version);
        observed.machine_deployments.plan = plan(status.workers.as_ref());
    }
    Some(reconciled(&observed))
}

fn workers(dump: &Dump, cluster: &ObjectKey, version: &str) -> Workers {
    let generated = dump.machine_deployments.select(&cluster.namespace, |md: &MachineDeployment| {
        cluster_label(md) == Some(cluster.name.as_str())
            && md.metadata.labels.as_ref().is_some_and(|l| l.contains_key(label::TOPOLOGY_OWNED))
    });
    let mut workers = Workers::default();
    for deployment in generated {
        let name = deployment.metadata.name.clone().unwrap_or_default();
        if is_upgrading(dump, &deployment) {
            workers.upgrading.insert(name);
        } else if deployment.spec.template.spec.version.as_deref() != Some(version) {
            let held = [DEFER, HOLD].iter().any(|key| annotation(deployment.as_ref(), key).is_some());
            let list = if held { &mut workers.deferred } else { &mut workers.pending };
            list.insert(name);
        }
    }
    workers
}

/// Some Machine of the group does not have its version yet.
fn is_upgrading(dump: &Dump, deployment: &MachineDeployment) -> bool {
    let (namespace, name) = (namespace(deployment), deployment.metadata.name.as_deref());
    let mine = dump.machines.select(namespace, |m| label_of(m, label::DEPLOYMENT_NAME) == name);
    let versions: BTreeSet<_> = mine.iter().map(|m| m.spec.version.as_deref()).collect();
    versions.iter().any(|version| *version != deployment.spec.template.spec.version.as_deref())
}

/// Why nothing can be made from a class.
fn class_failure(class: &Value) -> Option<String> {
    const PREFIX: &str = "ClusterClass is not successfully reconciled:";
    let conditions = class["status"]["conditions"].as_array();
    let variables = conditions.and_then(|list| list.iter().find(|c| c["type"] == "VariablesReady"));
    if variables.is_none_or(|c| c["status"] == "False") {
        return Some(format!("{PREFIX} status of VariablesReady condition on ClusterClass must be \"True\""));
    }
    let (generation, observed) = (&class["metadata"]["generation"], &class["status"]["observedGeneration"]);
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    (number(generation) != number(observed)).then(|| {
        format!(
            "{PREFIX} ClusterClass.status.observedGeneration must be {}, but is {}",
            number(generation),
            number(observed)
        )
    })
}

fn plan(counts: Option<&ReplicaCounts>) -> Vec<String> {
    counts.into_iter().flat_map(|c| &c.upgrade_plan).map(|v| v.version.clone()).collect()
}

fn upgrade(control_plane: &Provided, wanted: &str, plan: Vec<String>) -> ControlPlane {
    let version = control_plane.text(&["spec", "version"]).unwrap_or_default().to_owned();
    let desired = parse(&version);
    let reported = control_plane.reported_versions();
    let older = |text: &String| match (parse(text), &desired) {
        // Other build metadata of the same number counts as older, as upstream has it.
        (Some(reported), Some(desired)) => compare(&reported, desired).is_none_or(std::cmp::Ordering::is_lt),
        _ => false,
    };
    ControlPlane {
        kind: control_plane.kind.clone(),
        pending: version != wanted,
        // A start is a decision of the topology's own pass, and stands in no object.
        starting: false,
        upgrading: reported.iter().any(older),
        plan,
        version,
    }
}
