//! What happens to a Cluster next: adoption of its two provider objects, the endpoint, the kubeconfig where no control
//! plane object makes it, and the way out in order. Owns the rules; must not know how steps are performed.
//! Source: cluster-api `core/reconcilers/cluster/cluster_controller{,_phases}.go`, v1.14.2.
//!
//! Intended difference: the BeforeClusterDelete hook is not asked (runtime extensions are not called).

use std::fmt;
use std::time::Duration;

use serde_json::json;

use super::evidence::Evidence;
use super::keys::{self, KeyCall};
use super::{OnFailure, Plan, Rule, Shown, Step, Wait, Write, external, ownership};
use crate::status::cluster::deletion::{Stage, stage};
use crate::status::cluster::{Kubeconfig, Observed, has_endpoint, initialization};
use crate::status::contract::{External, Provided};
use capi_types::cluster::Cluster;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::names::finalizer;

/// Between two looks at descendants that are being deleted.
const DESCENDANTS_RETRY: Duration = Duration::from_secs(5);
/// Between two looks at an authority that is not there yet.
const AUTHORITY_RETRY: Duration = Duration::from_secs(30);
/// Between two looks at a connection that has begun to fail.
const PROBE_RETRY: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    Finalizer,
    Adopt { kind: String },
    Endpoint { host: String, kind: String },
    Reached { what: &'static str },
    Phase { phase: String },
    DeleteDescendant,
    DeleteControlPlane { kind: String },
    DeleteInfrastructure { kind: String },
    Completed,
    DescendantsUnknown,
    NoKubeconfig,
    AuthorityMissing,
    KubeconfigUnreadable { error: String },
    WaitingForHook,
    WaitingForTopology,
    WaitingForControlPlane { kind: String },
    WaitingForWorkersDeletion { lines: Vec<String> },
}

impl Rule for Why {
    fn name(&self) -> &'static str {
        match self {
            Self::Finalizer => "add-finalizer",
            Self::Adopt { .. } => "adopt-provider-object",
            Self::Endpoint { .. } => "copy-endpoint",
            Self::Reached { .. } => "report-milestone",
            Self::Phase { .. } => "report-phase",
            Self::DeleteDescendant => "delete-descendant",
            Self::DeleteControlPlane { .. } => "delete-control-plane",
            Self::DeleteInfrastructure { .. } => "delete-infrastructure",
            Self::Completed => "deletion-completed",
            Self::DescendantsUnknown => "descendants-unknown",
            Self::NoKubeconfig => "make-kubeconfig",
            Self::AuthorityMissing => "authority-missing",
            Self::KubeconfigUnreadable { .. } => "kubeconfig-unreadable",
            Self::WaitingForHook => "waiting-for-hook",
            Self::WaitingForTopology => "waiting-for-topology",
            Self::WaitingForControlPlane { .. } => "waiting-for-control-plane",
            Self::WaitingForWorkersDeletion { .. } => "waiting-for-workers-deletion",
        }
    }

    fn wait(&self) -> Wait {
        match self {
            Self::WaitingForHook
            | Self::WaitingForTopology
            | Self::WaitingForControlPlane { .. }
            | Self::WaitingForWorkersDeletion { .. } => Wait::UnderWay,
            _ => Wait::Stuck,
        }
    }

    fn evidence(&self) -> Vec<Evidence> {
        match self {
            Self::DescendantsUnknown | Self::WaitingForHook | Self::WaitingForWorkersDeletion { .. } => {
                Evidence::own("Deleting")
            }
            Self::WaitingForTopology => Evidence::own("TopologyReconciled"),
            Self::WaitingForControlPlane { .. } => Evidence::own("ControlPlaneInitialized"),
            _ => Vec::new(),
        }
    }

    fn on_failure(&self) -> OnFailure {
        let deletes = matches!(
            self,
            Self::DeleteDescendant | Self::DeleteControlPlane { .. } | Self::DeleteInfrastructure { .. }
        );
        OnFailure {
            // A child that cannot be deleted holds up neither the others nor anything else.
            is_independent: *self == Self::DeleteDescendant,
            shown: deletes.then_some(Shown::ClusterDeletion),
            ..OnFailure::default()
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finalizer => f.write_str("the Cluster must not vanish before what it is made of"),
            Self::Adopt { kind } => write!(f, "the {kind} belongs to this Cluster"),
            Self::Endpoint { host, kind } => write!(f, "the {kind} reports the endpoint {host}"),
            Self::Reached { what } => f.write_str(what),
            Self::Phase { phase } => write!(f, "the Cluster is {phase}"),
            Self::DeleteDescendant => f.write_str("it belongs to a Cluster that is being deleted"),
            Self::DeleteControlPlane { kind } => write!(f, "the {kind} goes when no worker is left"),
            Self::DeleteInfrastructure { kind } => write!(f, "the {kind} goes when no machine is left"),
            Self::Completed => f.write_str("nothing of the Cluster is left"),
            Self::DescendantsUnknown => f.write_str("what belongs to the Cluster could not be listed"),
            Self::NoKubeconfig => {
                f.write_str("the Cluster has no control plane object that makes its kubeconfig")
            }
            Self::AuthorityMissing => {
                f.write_str("there is no authority yet that could sign the Cluster's kubeconfig")
            }
            Self::KubeconfigUnreadable { error } => {
                write!(f, "the kubeconfig secret cannot be read: {error}")
            }
            Self::WaitingForHook => f.write_str("a BeforeClusterDelete extension has not agreed yet"),
            Self::WaitingForTopology => f.write_str(
                "Cluster API's topology controller has not generated the topology yet, and capstan's engine has none",
            ),
            Self::WaitingForControlPlane { kind } => write!(f, "the {kind} is not initialized yet"),
            Self::WaitingForWorkersDeletion { lines } => {
                let what: Vec<&str> = lines.iter().map(|l| l.trim_start_matches("* ")).collect();
                write!(f, "still being deleted: {}", what.join("; "))
            }
        }
    }
}

/// The plan for a Cluster that is not paused. Every rule speaks even when an earlier one waits; only
/// the finalizer comes alone.
pub fn plan(o: &Observed) -> Plan {
    let mut plan = Plan::default();
    if !o.is_deleting() && !ownership::has_finalizer(&o.cluster, finalizer::CLUSTER) {
        plan.step(ownership::add_finalizer(&o.cluster, finalizer::CLUSTER), Why::Finalizer);
        return plan;
    }
    // A topology gets both references in one write; one alone is a Cluster half made.
    if !o.looks() {
        plan.block(Why::WaitingForTopology);
        return plan;
    }
    let offered = infrastructure(o, &mut plan);
    control_plane(o, offered, &mut plan);
    if o.is_deleting() {
        delete(o, &mut plan);
    } else {
        kubeconfig(o, &mut plan);
    }
    if o.probe.failing {
        plan.recheck_within(PROBE_RETRY);
    }
    plan
}

/// Does it offer an endpoint?
fn infrastructure(o: &Observed, plan: &mut Plan) -> bool {
    let done = initialization(&o.cluster).infrastructure_provisioned == Some(true);
    let name = o.cluster.spec.infrastructure_ref.as_ref().map_or("", |r| r.name.as_str());
    let Some(found) = adopted(o, &o.infrastructure, name, done, plan) else { return false };
    // Provisioned once is provisioned: upstream never takes it back.
    if (found.provisioned() || done) && !found.provisioned_is_malformed() {
        return endpoint(o, found, plan);
    }
    if !done && !o.is_deleting() {
        plan.block(external::Why::WaitingForInfrastructure { kind: found.kind.clone() });
    }
    false
}

/// `offered`: the infrastructure has an endpoint; else that of an initialized control plane is taken.
fn control_plane(o: &Observed, offered: bool, plan: &mut Plan) {
    let done = initialization(&o.cluster).control_plane_initialized == Some(true);
    let name = o.cluster.spec.control_plane_ref.as_ref().map_or("", |r| r.name.as_str());
    let Some(found) = adopted(o, &o.control_plane, name, done, plan) else { return };
    let initialized = found.control_plane_initialized();
    if !offered && (initialized || done) && !found.initialized_is_malformed() {
        endpoint(o, found, plan);
    }
    if !done && !o.is_deleting() && !initialized {
        plan.block(Why::WaitingForControlPlane { kind: found.kind.clone() });
    }
}

/// The object, owned by the Cluster (controlled by it, if it is made from a class); `None` when there is
/// none to work with, with a blocker where there should be one.
fn adopted<'a>(
    o: &Observed,
    external: &'a External,
    name: &str,
    needed: bool,
    plan: &mut Plan,
) -> Option<&'a Provided> {
    let found =
        external::found(external, name, needed, o.is_deleting(), plan).filter(|f| !f.is_deleting())?;
    let cluster = o.cluster.metadata.name.as_deref().unwrap_or_default();
    let why = Why::Adopt { kind: found.kind.clone() };
    // Controlled only with a topology, whose controller
    // made it; others may have another controller.
    external::adopt(found, ownership::owner(&o.cluster, o.has_topology()), cluster, |_| false, why, plan);
    Some(found)
}

/// Copies the endpoint of `from` to a Cluster without one. Is there one to copy?
fn endpoint(o: &Observed, from: &Provided, plan: &mut Plan) -> bool {
    let Some((host, port)) = from.endpoint() else { return false };
    // An endpoint never changes: kubeconfigs and certificates are made for it.
    if !has_endpoint(&o.cluster) {
        let body = json!({"spec": {"controlPlaneEndpoint": {"host": host, "port": port}}});
        let why = Why::Endpoint { host, kind: from.kind.clone() };
        plan.step(Write::Patch { object: ObjectRef::of(&o.cluster), body }, why);
    }
    true
}

/// Made once, and never renewed, as upstream.
fn kubeconfig(o: &Observed, plan: &mut Plan) {
    let Some(server) = keys::server_url(&o.cluster) else { return };
    match &o.kubeconfig {
        Kubeconfig::NotAsked | Kubeconfig::Found => {}
        Kubeconfig::Unreadable(error) => plan.block(Why::KubeconfigUnreadable { error: error.clone() }),
        Kubeconfig::Missing { has_authority: false } => {
            plan.block(Why::AuthorityMissing);
            plan.recheck_within(AUTHORITY_RETRY);
        }
        Kubeconfig::Missing { has_authority: true } => {
            // No kubeadm configuration is known here that could name an algorithm.
            let call = KeyCall::CreateKubeconfig { server, algorithm: String::new() };
            let (cluster, owner) = (ObjectKey::of(&o.cluster), ownership::owner(&o.cluster, false));
            plan.step(Write::Keys { cluster, owner, call }, Why::NoKubeconfig);
        }
    }
}

/// Milestones and phases as events: what the status of `after` reached and that of `before` had not.
/// Asked when `after` is stored, so that nothing is reported twice.
pub fn milestones(before: &Cluster, after: &Cluster) -> Vec<Step> {
    let (old, new) = (initialization(before), initialization(after));
    let name = after.metadata.name.as_deref().unwrap_or_default();
    let mut plan = Plan::default();
    let mut event = |reason: &'static str, message: String, why: Why| {
        plan.step(Write::Event { about: ObjectRef::of(after), warning: false, reason, message }, why);
    };
    let reached = |old: Option<bool>, new: Option<bool>| old != Some(true) && new == Some(true);
    // Without infrastructure of its own nothing became ready.
    let provided = after.spec.infrastructure_ref.is_some();
    if provided && reached(old.infrastructure_provisioned, new.infrastructure_provisioned) {
        let why = Why::Reached { what: "the infrastructure is provisioned" };
        event("InfrastructureReady", format!("Cluster {name} InfrastructureProvisioned is now True"), why);
    }
    if reached(old.control_plane_initialized, new.control_plane_initialized) {
        let why = Why::Reached { what: "the control plane is initialized" };
        event("ControlPlaneInitialized", format!("Cluster {name} ControlPlaneInitialized is now True"), why);
    }
    let phase = |cluster: &Cluster| cluster.status.as_ref().and_then(|s| s.phase.clone());
    if let Some(phase) = phase(after).filter(|new| phase(before).as_ref() != Some(new)) {
        let reason = match phase.as_str() {
            "Provisioning" => "Provisioning",
            "Provisioned" => "Provisioned",
            "Deleting" => "Deleting",
            _ => "Pending",
        };
        event(reason, format!("Cluster {name} is {phase}"), Why::Phase { phase });
    }
    plan.steps
}

fn delete(o: &Observed, plan: &mut Plan) {
    match stage(o) {
        Stage::NotDeleting => {}
        Stage::BeforeDeleteHook => plan.block(Why::WaitingForHook),
        Stage::CannotTell => plan.block(Why::DescendantsUnknown),
        Stage::Workers(lines) => {
            descendants(o, plan);
            plan.block(Why::WaitingForWorkersDeletion { lines });
            plan.recheck_within(DESCENDANTS_RETRY);
        }
        Stage::ControlPlane(_) => {
            external::remove(&o.control_plane, |kind| Why::DeleteControlPlane { kind }, plan);
        }
        Stage::Infrastructure(_) => {
            external::remove(&o.infrastructure, |kind| Why::DeleteInfrastructure { kind }, plan);
        }
        Stage::Completed => {
            if ownership::has_finalizer(&o.cluster, finalizer::CLUSTER) {
                let name = o.cluster.metadata.name.as_deref().unwrap_or_default();
                let message = format!("Cluster {name} has been deleted");
                let about = ObjectRef::of(&o.cluster);
                plan.step(Write::Event { about, warning: false, reason: "Deleted", message }, Why::Completed);
                plan.step(ownership::remove_finalizer(&o.cluster, finalizer::CLUSTER), Why::Completed);
                plan.is_last = true;
            }
        }
    }
}

/// Deletes what the Cluster itself owns; the rest goes with its owners. Control plane Machines come
/// last, and only when no control plane object takes them down.
fn descendants(o: &Observed, plan: &mut Plan) {
    let d = &o.descendants;
    let mut doomed = Vec::new();
    doomed.extend(d.machine_pools.iter().filter_map(|k| deletable(o, k.as_ref())));
    doomed.extend(d.machine_deployments.iter().filter_map(|k| deletable(o, k.as_ref())));
    doomed.extend(d.machine_sets.iter().filter_map(|k| deletable(o, k.as_ref())));
    doomed.extend(d.all_worker_machines().into_iter().filter_map(|k| deletable(o, k)));
    if o.control_plane == External::NotSet {
        doomed.extend(d.control_plane_machines().into_iter().filter_map(|k| deletable(o, k)));
    }
    for object in doomed {
        plan.step(Write::Delete { object }, Why::DeleteDescendant);
    }
}

fn deletable<K: kube::Resource<DynamicType = ()>>(o: &Observed, object: &K) -> Option<ObjectRef> {
    (object.meta().deletion_timestamp.is_none() && o.owns(object)).then(|| ObjectRef::of(object))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;
    use crate::status::cluster::Descendants;
    use capstan_base::time::Timestamp;

    fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("an object")
    }

    fn provider(kind: &str, spec: Value, status: Value) -> External {
        External::Found(Provided::new(json!({
            "apiVersion": "x.cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": "c", "namespace": "ns", "uid": kind, "labels": {"cluster.x-k8s.io/cluster-name": "c"},
                "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "c"}]},
            "spec": spec, "status": status,
        })))
    }

    fn fresh() -> Observed {
        Observed {
            cluster: object(json!({
                "metadata": {"name": "c", "namespace": "ns", "uid": "c", "finalizers": ["cluster.cluster.x-k8s.io"]},
                "spec": {"infrastructureRef": {"apiGroup": "i", "kind": "DevCluster", "name": "c"},
                         "controlPlaneRef": {"apiGroup": "p", "kind": "KubeadmControlPlane", "name": "c"}},
                "status": {"phase": "Provisioning"}})),
            infrastructure: provider("DevCluster", json!({}), json!({})),
            control_plane: provider("KubeadmControlPlane", json!({}), json!({})),
            ..Observed::default()
        }
    }

    fn check(o: &Observed, steps: &[&str], blockers: &[&str]) {
        let plan = plan(o);
        let did: Vec<_> = plan.steps.iter().map(|s| s.reason.rule).collect();
        let held: Vec<_> = plan.blockers.iter().map(|b| b.reason.rule).collect();
        assert_eq!((did.as_slice(), held.as_slice()), (steps, blockers));
    }

    #[test]
    fn provider_objects_are_adopted_and_their_endpoint_copied() {
        let mut o = fresh();
        check(&o, &[], &["waiting-for-infrastructure", "waiting-for-control-plane"]);
        let endpoint = json!({"controlPlaneEndpoint": {"host": "h", "port": 6443}});
        let mut infrastructure = json!({
            "apiVersion": "x.cluster.x-k8s.io/v1beta2", "kind": "DevCluster", "metadata": {"name": "c"}, "spec": endpoint,
            "status": {"initialization": {"provisioned": true}}});
        o.infrastructure = External::Found(Provided::new(infrastructure.clone()));
        check(&o, &["adopt-provider-object", "copy-endpoint"], &["waiting-for-control-plane"]);
        infrastructure["status"] = json!({});
        o.infrastructure = External::Found(Provided::new(infrastructure));
        check(&o, &["adopt-provider-object"], &["waiting-for-infrastructure", "waiting-for-control-plane"]);
        o.infrastructure = External::NotFound { kind: "DevCluster".to_owned() };
        check(&o, &[], &["missing-provider-object", "waiting-for-control-plane"]);
    }

    #[test]
    fn the_endpoint_of_a_control_plane_counts_once_it_is_initialized() {
        let spec = || json!({"controlPlaneEndpoint": {"host": "h", "port": 6443}});
        let initialized = |flag: Value| json!({"initialization": {"controlPlaneInitialized": flag}});
        let mut o = fresh();
        o.infrastructure = External::NotSet;
        for (status, steps, blockers) in [
            (json!({}), vec![], vec!["waiting-for-control-plane"]),
            (initialized(json!("yes")), vec![], vec!["waiting-for-control-plane"]),
            (initialized(json!(true)), vec!["copy-endpoint"], vec![]),
        ] {
            o.control_plane = provider("XPlane", spec(), status);
            check(&o, &steps, &blockers);
        }
        let provisioned = json!({"initialization": {"provisioned": true}});
        o.infrastructure = provider("DevCluster", spec(), provisioned.clone());
        check(&o, &["copy-endpoint"], &[]);
        o.infrastructure = provider("DevCluster", json!({}), provisioned);
        check(&o, &["copy-endpoint"], &[]);
    }

    #[test]
    fn a_topology_controls_what_it_made_and_is_waited_for_until_it_made_both() {
        let mut o = fresh();
        o.cluster.spec.topology = Some(object(json!({"classRef": {"name": "k"}, "version": "v1.34.1"})));
        let adopts = ["adopt-provider-object", "adopt-provider-object"];
        check(&o, &adopts, &["waiting-for-infrastructure", "waiting-for-control-plane"]);
        let Write::Patch { body, .. } = &plan(&o).steps[0].writes[0] else { unreachable!("a patch") };
        assert_eq!(body["metadata"]["ownerReferences"][0]["controller"], true);
        o.cluster.spec.control_plane_ref = None;
        o.control_plane = External::NotSet;
        check(&o, &[], &["waiting-for-topology"]);
    }

    #[test]
    fn deletion_goes_workers_control_plane_infrastructure() {
        let mut o = fresh();
        o.cluster.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(Timestamp::default()));
        let owner =
            json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "c"}]);
        let template = json!({"spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}});
        let spec = json!({"clusterName": "c", "selector": {}, "template": template});
        o.descendants = Descendants {
            machine_deployments: vec![object(
                json!({"metadata": {"name": "md", "ownerReferences": owner}, "spec": spec}),
            )],
            machine_sets: vec![object(json!({"metadata": {"name": "md-1"}, "spec": spec}))],
            ..Descendants::default()
        };
        check(&o, &["delete-descendant"], &["waiting-for-workers-deletion"]);
        o.descendants = Descendants::default();
        check(&o, &["delete-control-plane"], &["waiting-for-deletion"]);
        o.control_plane = External::NotFound { kind: "KubeadmControlPlane".to_owned() };
        check(&o, &["delete-infrastructure"], &["waiting-for-deletion"]);
        o.infrastructure = External::NotFound { kind: "DevCluster".to_owned() };
        check(&o, &["deletion-completed", "deletion-completed"], &[]);
    }

    #[test]
    fn a_cluster_without_a_control_plane_object_makes_its_own_kubeconfig() {
        let mut o = fresh();
        o.cluster.spec.control_plane_ref = None;
        o.cluster.spec.control_plane_endpoint = Some(object(json!({"host": "fd00::1", "port": 6443})));
        o.control_plane = External::NotSet;
        o.infrastructure =
            provider("DevCluster", json!({}), json!({"initialization": {"provisioned": true}}));
        assert!(o.makes_kubeconfig());
        for (kubeconfig, steps, blockers) in [
            (Kubeconfig::Found, vec![], vec![]),
            (Kubeconfig::Missing { has_authority: true }, vec!["make-kubeconfig"], vec![]),
            (Kubeconfig::Missing { has_authority: false }, vec![], vec!["authority-missing"]),
            (Kubeconfig::Unreadable("refused".to_owned()), vec![], vec!["kubeconfig-unreadable"]),
        ] {
            o.kubeconfig = kubeconfig;
            check(&o, &steps, &blockers);
        }
        o.kubeconfig = Kubeconfig::Missing { has_authority: true };
        let Write::Keys { owner, call, .. } = &plan(&o).steps[0].writes[0] else { unreachable!("keys") };
        assert_eq!((owner.kind.as_str(), owner.controller), ("Cluster", None));
        let server = "https://[fd00::1]:6443".to_owned();
        assert_eq!(*call, KeyCall::CreateKubeconfig { server, algorithm: String::new() });
        o.cluster.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(Timestamp::default()));
        assert!(!o.makes_kubeconfig());
        assert!(!fresh().makes_kubeconfig(), "the control plane object makes it");
    }

    #[test]
    fn the_event_about_the_infrastructure_named_another_condition() {
        let before = fresh().cluster;
        let mut after = before.clone();
        after.status = Some(object(json!({"phase": "Provisioning",
            "initialization": {"infrastructureProvisioned": true}})));
        let told: Vec<String> = milestones(&before, &after)
            .iter()
            .flat_map(|step| &step.writes)
            .filter_map(|write| match write {
                Write::Event { reason, message, .. } => Some(format!("{reason}: {message}")),
                _ => None,
            })
            .collect();
        assert_eq!(told, ["InfrastructureReady: Cluster c InfrastructureProvisioned is now True"]);
    }

    #[test]
    fn a_missing_provider_object_is_looked_for_or_missed() {
        let mut o = fresh();
        o.infrastructure = External::NotFound { kind: "DevCluster".to_owned() };
        assert_eq!(plan(&o).recheck, Some(Duration::from_secs(30)));
        o.cluster.status = Some(object(json!({"initialization": {
            "infrastructureProvisioned": true, "controlPlaneInitialized": true}})));
        o.control_plane = External::NotFound { kind: "KubeadmControlPlane".to_owned() };
        check(&o, &[], &["vanished-provider-object", "vanished-provider-object"]);
        o.cluster.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(Timestamp::default()));
        check(&o, &["deletion-completed", "deletion-completed"], &[]);
    }

    #[test]
    fn milestones_and_phases_are_reported_once() {
        let before = fresh().cluster;
        let mut after = before.clone();
        after.status = Some(object(json!({"phase": "Provisioned", "initialization": {
            "infrastructureProvisioned": true, "controlPlaneInitialized": true}})));
        let reasons = |before: &Cluster, after: &Cluster| -> Vec<&str> {
            let steps = milestones(before, after);
            let reason = |step: &Step| match &step.writes[0] {
                Write::Event { reason, .. } => Some(*reason),
                _ => None,
            };
            steps.iter().filter_map(reason).collect()
        };
        assert_eq!(
            reasons(&before, &after),
            ["InfrastructureReady", "ControlPlaneInitialized", "Provisioned"]
        );
        assert_eq!(reasons(&after, &after), [""; 0]);
        after.spec.infrastructure_ref = None;
        assert_eq!(
            reasons(&before, &after),
            ["ControlPlaneInitialized", "Provisioned"],
            "it has none to report"
        );
    }

    #[test]
    fn control_plane_machines_go_last_and_only_without_a_control_plane() {
        let mut o = fresh();
        o.cluster.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(Timestamp::default()));
        let machine = |name: &str, label: &str| {
            Arc::new(object(json!({
                "metadata": {"name": name, "labels": {label: ""}, "ownerReferences": [
                    {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "c"}]},
                "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}},
            })))
        };
        let machines = vec![machine("a", "cluster.x-k8s.io/control-plane"), machine("b", "x")];
        let deleted = |o: &Observed| -> Vec<String> {
            plan(o).steps.iter().map(|step| step.writes[0].to_string()).collect()
        };
        o.descendants = Descendants { machines, ..Descendants::default() };
        assert_eq!(deleted(&o), ["delete Machine b"], "the control plane takes its own");
        o.control_plane = External::NotSet;
        o.cluster.spec.control_plane_ref = None;
        assert_eq!(deleted(&o), ["delete Machine b", "delete Machine a"]);
    }
}
