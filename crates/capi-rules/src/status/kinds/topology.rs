//! `TopologyReconciled` of a Cluster that is made from a class: what holds the generated objects back.
//! Must not know how they are generated; the plan of an upgrade is an input.
//! Source: cluster-api `core/reconcilers/topology/cluster/status.go`, v1.14.2.
//!
//! Intended difference: hooks are named in the given order; upstream's order is random.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::status::conditions::new_condition::NewCondition;
use crate::status::conditions::setter::{condition, paused};
use crate::status::conditions::wording::{HOOKS_BLOCK, join_limited};
use capi_types::cluster::Cluster;
use capi_types::condition::Status;
use capi_types::key::annotation as annotation_of;
use capi_types::names::annotation;

/// Everything the condition depends on.
#[derive(Clone, Debug, Default)]
pub struct ObservedTopology {
    /// As it was read.
    pub cluster: Cluster,
    /// The error with which this run ended.
    pub failure: Option<String>,
    /// The class has a generation that its controller has not seen yet.
    pub class_is_behind: bool,
    /// Runtime extensions that hold up what is due now, each with its message (may be empty).
    pub blocking_hooks: Vec<(String, String)>,
    /// Of the topology.
    pub control_plane: ControlPlane,
    /// Of the topology.
    pub machine_deployments: Workers,
    /// Of the topology.
    pub machine_pools: Workers,
    /// The hook after an upgrade is still to be called.
    pub after_upgrade_is_pending: bool,
}

/// How far the control plane's upgrade is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlPlane {
    /// As a message has it.
    pub kind: String,
    /// `spec.version` of the control plane object.
    pub version: String,
    /// It has not got the new version yet.
    pub pending: bool,
    /// It gets it in this run.
    pub starting: bool,
    /// It is replacing Machines.
    pub upgrading: bool,
    /// Versions still to go through.
    pub plan: Vec<String>,
}

/// How far the workers of one kind are, by object name (by topology name for those to be made).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workers {
    /// They replace Machines.
    pub upgrading: BTreeSet<String>,
    /// Held back by annotation.
    pub deferred: BTreeSet<String>,
    /// They wait for the control plane or for their turn.
    pub pending: BTreeSet<String>,
    /// They are in the topology, and not made yet.
    pub pending_creation: BTreeSet<String>,
    /// Versions still to go through.
    pub plan: Vec<String>,
}

impl Workers {
    fn is_quiet(&self) -> bool {
        [&self.upgrading, &self.deferred, &self.pending, &self.pending_creation].iter().all(|s| s.is_empty())
    }

    /// Each name once: what upgrades is not deferred, what is deferred is not pending.
    fn without_repeats(&self) -> Self {
        let deferred: BTreeSet<String> = self.deferred.difference(&self.upgrading).cloned().collect();
        let pending = self.pending.iter().filter(|n| !self.upgrading.contains(*n) && !deferred.contains(*n));
        Self { pending: pending.cloned().collect(), deferred, ..self.clone() }
    }
}

/// Reason of `TopologyReconciled` where no controller computes topologies.
pub const NO_CONTROLLER: &str = "NoTopologyController";

/// `TopologyReconciled` of a Cluster that waits for a controller that does not run: upstream never needs to say that.
pub fn not_computed() -> NewCondition<'static> {
    let message = "Nothing here computes spec.topology: no control plane and no workers are made of it. Set \
                   spec.controlPlaneRef and spec.infrastructureRef, or move the Cluster to where Cluster API's topology \
                   controller runs";
    NewCondition::new("TopologyReconciled", Status::False, NO_CONTROLLER, message)
}

/// The `TopologyReconciled` condition; the first case that applies.
pub fn reconciled(o: &ObservedTopology) -> Condition {
    const TYPE: &str = "TopologyReconciled";
    let no = |reason: &str, message: String| condition(TYPE, Status::False, reason, message);
    let pause = paused(
        "Cluster",
        o.cluster.spec.paused == Some(true),
        annotation_of(&o.cluster, annotation::PAUSED).is_some(),
    );
    // Upstream's order of cases: the first that applies hides all others.
    if pause.status == "True" {
        return no("Paused", pause.message);
    }
    if let Some(error) = &o.failure {
        return no("ReconcileFailed", error.clone());
    }
    if o.cluster.metadata.deletion_timestamp.is_some() {
        let blocked = match o.blocking_hooks.as_slice() {
            [] => String::new(),
            _ => format!(". {HOOKS_BLOCK} delete: {}", hooks(o)),
        };
        return no("Deleting", format!("Cluster is deleting{blocked}"));
    }
    if o.class_is_behind {
        return no("ClusterClassNotReconciled", CLASS_IS_BEHIND.to_owned());
    }
    let spec = &o.cluster.spec;
    // Nothing is made yet, so there is nothing that could be upgrading.
    if spec.infrastructure_ref.is_none() && spec.control_plane_ref.is_none() {
        if o.blocking_hooks.is_empty() {
            return condition(TYPE, Status::True, "ReconcileSucceeded", "");
        }
        return no("ClusterCreating", format!("{HOOKS_BLOCK} Cluster topology creation: {}", hooks(o)));
    }
    if is_upgrading(o) {
        return no(upgrade_reason(o), upgrade_message(o));
    }
    condition(TYPE, Status::True, "ReconcileSucceeded", "")
}

const CLASS_IS_BEHIND: &str = "ClusterClass not reconciled. If this condition persists please check ClusterClass status. \
     A ClusterClass is reconciled if.status.observedGeneration == .metadata.generation is true. If this is not the case \
     either ClusterClass reconciliation failed or the ClusterClass is paused";

fn hooks(o: &ObservedTopology) -> String {
    let words = |(name, message): &(String, String)| {
        if message.is_empty() { name.clone() } else { format!("{name}: {message}") }
    };
    o.blocking_hooks.iter().map(words).collect::<Vec<_>>().join("; ")
}

fn is_upgrading(o: &ObservedTopology) -> bool {
    let control_plane = &o.control_plane;
    control_plane.pending
        || control_plane.starting
        || control_plane.upgrading
        || !o.machine_deployments.is_quiet()
        || !o.machine_pools.is_quiet()
        || o.after_upgrade_is_pending
}

/// Only what people deferred is left: the reason shows that.
fn upgrade_reason(o: &ObservedTopology) -> &'static str {
    let busy = !o.blocking_hooks.is_empty() || o.control_plane.starting || o.control_plane.upgrading;
    let only_deferred = |workers: &Workers| {
        let workers = workers.without_repeats();
        !busy && !workers.deferred.is_empty() && workers.upgrading.is_empty() && workers.pending.is_empty()
    };
    if only_deferred(&o.machine_deployments) {
        "MachineDeploymentsUpgradeDeferred"
    } else if only_deferred(&o.machine_pools) {
        "MachinePoolsUpgradeDeferred"
    } else {
        "ClusterUpgrading"
    }
}

fn upgrade_message(o: &ObservedTopology) -> String {
    let wanted = o.cluster.spec.topology.as_ref().map_or("", |t| t.version.as_str());
    let mut lines = vec![format!("Cluster is upgrading to {wanted}")];
    if !o.blocking_hooks.is_empty() {
        lines.push(format!("{HOOKS_BLOCK} upgrade: {}", hooks(o)));
    }
    let ControlPlane { kind, version, plan, .. } = &o.control_plane;
    if o.control_plane.starting || o.control_plane.upgrading {
        lines.push(format!("{kind} upgrading to version {version}{}", still_pending(plan, version)));
    } else if !plan.is_empty() {
        lines.push(format!("{kind} pending upgrade to version {}", plan.join(", ")));
    }
    let pools_annotation = "topology.cluster.x-k8s.io/defer-upgrade";
    // Upstream's two texts name the annotation differently.
    lines.extend(workers_lines("MachineDeployment", &o.machine_deployments, version, "defer-upgrade"));
    lines.extend(workers_lines("MachinePool", &o.machine_pools, version, pools_annotation));
    lines.join("\n  * ")
}

fn workers_lines(kind: &str, workers: &Workers, version: &str, defer: &str) -> Vec<String> {
    let Workers { upgrading, deferred, pending, pending_creation, plan } = workers.without_repeats();
    let mut lines = Vec::new();
    if !upgrading.is_empty() {
        let names = names(kind, &upgrading);
        lines.push(format!("{names} upgrading to version {version}{}", still_pending(&plan, version)));
    }
    // Without a plan there is no version that could be named.
    if !pending.is_empty() && !plan.is_empty() {
        lines.push(format!("{} pending upgrade to version {}", names(kind, &pending), plan.join(", ")));
    }
    if !deferred.is_empty() {
        let names = names(kind, &deferred);
        lines.push(format!(
            "{names} upgrade to version {version} deferred using {defer} or hold-upgrade-sequence annotations"
        ));
    }
    if !pending_creation.is_empty() {
        let names = names(kind, &pending_creation);
        lines.push(format!("{names} creation deferred while control plane upgrade is in progress"));
    }
    lines
}

fn still_pending(plan: &[String], current: &str) -> String {
    // The version that is under way is named already.
    let rest: Vec<&str> = plan.iter().map(String::as_str).filter(|v| *v != current).collect();
    if rest.is_empty() { String::new() } else { format!(" ({} pending)", rest.join(", ")) }
}

fn names(kind: &str, all: &BTreeSet<String>) -> String {
    let plural = if all.len() == 1 { "" } else { "s" };
    let all: Vec<&String> = all.iter().collect();
    format!("{kind}{plural} {}", join_limited(&all, 3))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn classy() -> ObservedTopology {
        let reference = json!({"apiGroup": "g", "kind": "K", "name": "n"});
        ObservedTopology {
            cluster: serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": {
                "infrastructureRef": reference, "controlPlaneRef": reference,
                "topology": {"classRef": {"name": "k"}, "version": "v1.36.0"}}}))
            .expect("a cluster"),
            control_plane: ControlPlane {
                kind: "KubeadmControlPlane".to_owned(),
                version: "v1.35.0".to_owned(),
                ..ControlPlane::default()
            },
            ..ObservedTopology::default()
        }
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    fn check(change: impl FnOnce(&mut ObservedTopology), reason: &str, message: &str) {
        let mut o = classy();
        change(&mut o);
        let got = reconciled(&o);
        let status = if reason == "ReconcileSucceeded" { "True" } else { "False" };
        crate::status::tests::witness::expect_one(
            "Cluster",
            &got,
            "TopologyReconciled",
            (status, reason, message),
        );
    }

    fn generated_nothing(o: &mut ObservedTopology) {
        o.cluster.spec.infrastructure_ref = None;
        o.cluster.spec.control_plane_ref = None;
    }

    fn hook(name: &str, message: &str) -> (String, String) {
        (name.to_owned(), message.to_owned())
    }

    #[test]
    fn the_first_case_that_applies_is_told() {
        check(|_| {}, "ReconcileSucceeded", "");
        check(
            |o| {
                o.cluster.spec.paused = Some(true);
                o.cluster.metadata.annotations =
                    Some([(annotation::PAUSED.to_owned(), String::new())].into());
                o.failure = Some("boom".to_owned());
            },
            "Paused",
            "Cluster spec.paused is set to true, Cluster has the cluster.x-k8s.io/paused annotation",
        );
        check(|o| o.failure = Some("boom".to_owned()), "ReconcileFailed", "boom");
        let deleting = |o: &mut ObservedTopology| {
            o.cluster.metadata.deletion_timestamp =
                Some(capstan_base::time::to_k8s(capstan_base::time::Timestamp::default()));
        };
        check(deleting, "Deleting", "Cluster is deleting");
        check(
            |o| {
                deleting(o);
                o.blocking_hooks = vec![hook("BeforeClusterDelete", "not yet")];
            },
            "Deleting",
            "Cluster is deleting. Following hooks are blocking delete: BeforeClusterDelete: not yet",
        );
        check(|o| o.class_is_behind = true, "ClusterClassNotReconciled", CLASS_IS_BEHIND);
        check(generated_nothing, "ReconcileSucceeded", "");
        check(
            |o| {
                generated_nothing(o);
                o.blocking_hooks = vec![hook("BeforeClusterCreate", ""), hook("Other", "busy")];
            },
            "ClusterCreating",
            "Following hooks are blocking Cluster topology creation: BeforeClusterCreate; Other: busy",
        );
        check(|o| o.after_upgrade_is_pending = true, "ClusterUpgrading", "Cluster is upgrading to v1.36.0");
    }

    #[test]
    fn an_upgrade_names_who_is_how_far() {
        check(
            |o| {
                o.control_plane.pending = true;
                o.control_plane.plan = vec!["v1.35.0".to_owned(), "v1.36.0".to_owned()];
                o.blocking_hooks = vec![hook("BeforeClusterUpgrade", "wait")];
            },
            "ClusterUpgrading",
            "Cluster is upgrading to v1.36.0\n  * Following hooks are blocking upgrade: BeforeClusterUpgrade: wait\n  \
             * KubeadmControlPlane pending upgrade to version v1.35.0, v1.36.0",
        );
        check(
            |o| {
                o.control_plane.upgrading = true;
                o.control_plane.plan = vec!["v1.35.0".to_owned(), "v1.36.0".to_owned()];
                o.machine_deployments.pending = set(&["a", "b", "c", "d"]);
                o.machine_deployments.plan = vec!["v1.35.0".to_owned(), "v1.36.0".to_owned()];
                o.machine_deployments.pending_creation = set(&["new"]);
            },
            "ClusterUpgrading",
            "Cluster is upgrading to v1.36.0\n  * KubeadmControlPlane upgrading to version v1.35.0 (v1.36.0 pending)\n  \
             * MachineDeployments a, b, c, ... (1 more) pending upgrade to version v1.35.0, v1.36.0\n  \
             * MachineDeployment new creation deferred while control plane upgrade is in progress",
        );
        check(
            |o| {
                o.machine_deployments.upgrading = set(&["a"]);
                o.machine_deployments.deferred = set(&["a", "b"]);
                o.machine_deployments.pending = set(&["a", "b", "c"]);
                o.machine_deployments.plan = vec!["v1.36.0".to_owned()];
                o.machine_pools.deferred = set(&["p"]);
            },
            // Upstream looks at the pools alone.
            "MachinePoolsUpgradeDeferred",
            "Cluster is upgrading to v1.36.0\n  * MachineDeployment a upgrading to version v1.35.0 (v1.36.0 pending)\n  \
             * MachineDeployment c pending upgrade to version v1.36.0\n  \
             * MachineDeployment b upgrade to version v1.35.0 deferred using defer-upgrade or hold-upgrade-sequence annotations\n  \
             * MachinePool p upgrade to version v1.35.0 deferred using topology.cluster.x-k8s.io/defer-upgrade or \
             hold-upgrade-sequence annotations",
        );
    }

    #[test]
    fn only_deferred_workers_give_the_reason() {
        let message = "Cluster is upgrading to v1.36.0\n  * MachineDeployment a upgrade to version v1.35.0 deferred using \
                       defer-upgrade or hold-upgrade-sequence annotations";
        let defer = |o: &mut ObservedTopology| o.machine_deployments.deferred = set(&["a"]);
        check(defer, "MachineDeploymentsUpgradeDeferred", message);
        check(
            |o| {
                defer(o);
                o.machine_deployments.pending = set(&["a"]);
            },
            "MachineDeploymentsUpgradeDeferred",
            message,
        );
        check(
            |o| {
                defer(o);
                o.control_plane.starting = true;
            },
            "ClusterUpgrading",
            "Cluster is upgrading to v1.36.0\n  * KubeadmControlPlane upgrading to version v1.35.0\n  \
             * MachineDeployment a upgrade to version v1.35.0 deferred using defer-upgrade or hold-upgrade-sequence annotations",
        );
        check(
            |o| o.machine_pools.deferred = set(&["p"]),
            "MachinePoolsUpgradeDeferred",
            "Cluster is upgrading to v1.36.0\n  * MachinePool p upgrade to version v1.35.0 deferred using \
             topology.cluster.x-k8s.io/defer-upgrade or hold-upgrade-sequence annotations",
        );
    }
}
