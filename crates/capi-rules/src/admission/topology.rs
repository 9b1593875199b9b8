//! A Cluster's topology against its class and against what the Cluster runs: is the class there, does
//! it know these workers, may the version change now. Must not know where those objects come from.
//!
//! Source: cluster-api `core/webhooks/admission/cluster.go` (`validateTopology`),
//! `internal/topology/check`, `internal/contract/controlplane.go`, v1.14.2.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use semver::Version;
use serde_json::{Value, json};

use super::class_use::class_key;
use super::finding::Findings;
use super::parts::{check_health_limits, check_max_in_flight, has_health_check};
use super::value::{annotation, at, is_defined, items_at, text};
use super::{Request, Review, class};
use capi_types::names::{CORE_GROUP, annotation as key, label};
use k8s_machinery::admission::{Need, Sought};
use k8s_machinery::version;

pub(super) const CLASS: &str = "ClusterClass";

const VERSION_FIELD: &str = "spec.topology.version";
const CLASS_FIELD: &str = "spec.topology.class";

/// The classes, and before a change of the version everything that runs.
pub(super) fn needs(request: &Request<'_>, cluster: &Value) -> Vec<Need> {
    let core = |kind, namespace: &str, name: &str| Need::of(CORE_GROUP, kind, namespace, name);
    let (namespace, name) = class_key(cluster);
    if name.is_empty() {
        return Vec::new();
    }
    let mut needs = vec![core(CLASS, namespace, name)];
    let Some(old) = request.old else { return needs };
    let before = class_key(old);
    // The old class is compared with the new one only when the Cluster changes it.
    if before != (namespace, name) && !before.1.is_empty() {
        needs.push(core(CLASS, before.0, before.1));
    }
    if at(old, "/spec/topology/version") != at(cluster, "/spec/topology/version") {
        let own = text(old, "/metadata/namespace");
        let plane = at(old, "/spec/controlPlaneRef");
        let [group, kind, name] = ["/apiGroup", "/kind", "/name"].map(|field| text(plane, field));
        needs.push(Need::of(group, kind, own, name));
        needs.extend(["MachineDeployment", "MachinePool", "Machine"].map(|kind| core(kind, own, "")));
    }
    needs
}

pub(super) fn check(review: &Review<'_>, out: &mut Findings) {
    let cluster = review.new;
    let (namespace, name) = class_key(cluster);
    let sought = review.known.one(CLASS, namespace, name);
    let class = look_at_class(sought, namespace, name, out);
    if let Some(class) = class {
        check_against_class(cluster, class, out);
    }
    // Also without a class: the Cluster alone may give both bounds and replicas.
    class::check_autoscaled_replicas(cluster, class, out);
    let Some(old) = review.old else { return };
    let Some(class) = class else {
        // A server that knows no classes cannot hold this against anybody.
        if !matches!(sought, Sought::NotServed) {
            out.internal(CLASS_FIELD, &format!("ClusterClass {namespace}/{name} not found"));
        }
        return;
    };
    if class_key(old).1.is_empty() {
        if annotation(cluster, key::UNSAFE_CLASS_NAME).is_none() {
            out.forbidden(CLASS_FIELD, "classRef cannot be set on an existing Cluster");
        }
        return;
    }
    check_version_change(review, old, class, out);
    check_class_change(review, old, class, out);
}

/// The class, with a warning when it is not what it should be.
fn look_at_class<'a>(
    sought: Sought<'a>,
    namespace: &str,
    name: &str,
    out: &mut Findings,
) -> Option<&'a Value> {
    let (class, why, advice) = match sought {
        Sought::Here(class) if is_reconciled(class) => return Some(class),
        Sought::Here(class) => (
            Some(class),
            "hasn't been successfully reconciled",
            "Please take a look at the ClusterClass status",
        ),
        Sought::Missing => {
            (None, "does not exist", "The ClusterClass must be created to reconcile the Cluster")
        }
        Sought::NotServed => {
            out.warnings.push(not_computed(namespace, name));
            return None;
        }
    };
    out.warnings.push(format!(
        "Cluster refers to ClusterClass {namespace}/{name}, but this ClusterClass {why}. Cluster topology has \
         not been fully validated. {advice}"
    ));
    class
}

/// A server without ClusterClasses has no controller of topologies either.
fn not_computed(namespace: &str, name: &str) -> String {
    format!(
        "Cluster refers to ClusterClass {namespace}/{name}, but this server has no ClusterClasses: nothing here computes \
         spec.topology, and no control plane and no workers are made of it. Set spec.controlPlaneRef and \
         spec.infrastructureRef, or apply it where Cluster API's topology controller runs"
    )
}

fn is_reconciled(class: &Value) -> bool {
    let ready = items_at(class, "/status/conditions")
        .iter()
        .find(|condition| condition["type"] == "VariablesReady")
        .is_some_and(|condition| condition["status"] != "False");
    let generation = |pointer| at(class, pointer).as_i64().unwrap_or(0);
    ready && generation("/metadata/generation") == generation("/status/observedGeneration")
}

fn check_against_class(cluster: &Value, class: &Value, out: &mut Findings) {
    let version = at(cluster, "/spec/topology/version");
    let versions = items_at(class, "/spec/kubernetesVersions");
    if !versions.is_empty() && !versions.contains(version) {
        let detail = "version must match one of the versions defined in the ClusterClass";
        out.invalid(VERSION_FIELD, version, detail);
    }
    check_workers(cluster, class, "machineDeployments", "MachineDeployment", out);
    check_workers(cluster, class, "machinePools", "MachinePool", out);
    check_health_checks(cluster, class, out);
}

/// Groups of workers have names, and classes that exist.
fn check_workers(cluster: &Value, class: &Value, list: &str, kind: &str, out: &mut Findings) {
    let known = class::names(class, list);
    let mut names = BTreeSet::new();
    for (index, member) in items_at(cluster, &format!("/spec/topology/workers/{list}")).iter().enumerate() {
        let field = format!("spec.topology.workers.{list}[{index}]");
        let (wanted, name) = (text(member, "/class"), text(member, "/name"));
        if !known.contains(wanted) {
            let whose = text(class, "/metadata/name");
            let detail =
                format!("{kind}Class with name \"{wanted}\" does not exist in ClusterClass \"{whose}\"");
            out.invalid(format!("{field}.class"), &json!(wanted), &detail);
        }
        if name.is_empty() {
            out.required(format!("{field}.name"), "name must not be empty");
        } else if !names.insert(name) {
            let detail =
                format!("name must be unique. {kind} with name \"{name}\" is defined more than once");
            out.invalid(format!("{field}.name"), &json!(name), &detail);
        }
    }
}

fn check_health_checks(cluster: &Value, class: &Value, out: &mut Findings) {
    let health = at(cluster, "/spec/topology/controlPlane/healthCheck");
    let field = "spec.topology.controlPlane.healthCheck";
    if has_health_check(health) {
        if !is_defined(at(class, "/spec/controlPlane/machineInfrastructure/templateRef")) {
            let detail = "can be only set if spec.controlPlane.machineInfrastructure is set in ClusterClass";
            out.forbidden(field, detail);
        }
        check_health_limits(health, field, out);
    }
    check_enabled(health, Some(at(class, "/spec/controlPlane/healthCheck")), field, out);
    for member in items_at(cluster, "/spec/topology/workers/machineDeployments") {
        let name = text(member, "/name");
        let field = format!("spec.topology.workers.machineDeployments[{name}].healthCheck");
        let health = &member["healthCheck"];
        if has_health_check(health) {
            check_health_limits(health, &field, out);
            check_max_in_flight(&health["remediation"], &format!("{field}.remediation"), out);
        }
        let class = class::member(class, "machineDeployments", text(member, "/class"));
        check_enabled(health, class.map(|class| &class["healthCheck"]), &field, out);
    }
}

/// A health check that is switched on has to be defined somewhere.
fn check_enabled(health: &Value, in_class: Option<&Value>, field: &str, out: &mut Findings) {
    // A class that does not exist is refused by its name, and is not a reason here.
    let defined = has_health_check(health) || in_class.is_none_or(has_health_check);
    if health["enabled"] == true && !defined {
        let detail = "cannot be set to true as healthCheck definition is not available in the Cluster topology \
                      or the ClusterClass";
        // The field was `enable` in v1beta1, and stayed so in the refusal.
        out.forbidden(format!("{field}.enable"), detail);
    }
}

fn check_version_change(review: &Review<'_>, old: &Value, class: &Value, out: &mut Findings) {
    let shown = at(review.new, "/spec/topology/version");
    let before = at(old, "/spec/topology/version");
    let mut parse = |value: &Value, detail: &str| {
        let parsed = version::tolerant(value.as_str().unwrap_or_default());
        parsed.map_err(|_| out.invalid(VERSION_FIELD, value, detail)).ok()
    };
    let to = parse(shown, "version must be a valid semantic version");
    let from = parse(before, "old version must be a valid semantic version");
    // After parsing: a text that is not a version is refused even so.
    if annotation(review.new, key::UNSAFE_VERSION).is_some() {
        out.warnings.push(format!(
            "Skipping version validation for Cluster because annotation {:?} is set.",
            key::UNSAFE_VERSION
        ));
        return;
    }
    let (Some(from), Some(to)) = (from, to) else { return };
    if from == to {
        return;
    }
    // With a plan the topology itself goes step by step, so a larger jump may be asked for.
    let planned = !items_at(class, "/spec/kubernetesVersions").is_empty()
        || is_defined(at(class, "/spec/upgrade/external/generateUpgradePlanExtension"));
    let pending = annotation(review.new, key::PENDING_HOOKS).unwrap_or_default();
    let refusal = if version::compare_release(&to, &from) == Ordering::Less {
        Some(format!("version cannot be decreased from \"{from}\" to \"{to}\""))
    } else if !planned && version::skips_minor(&from, &to) {
        Some(format!("version cannot be increased from \"{from}\" to \"{to}\""))
    } else if pending.split(',').any(|hook| hook == "AfterClusterUpgrade") {
        Some("version cannot be changed when the \"AfterClusterUpgrade\" hook is still blocking".to_owned())
    } else {
        // Last, for it looks through all Machines of the namespace.
        let busy = busy(review, old, &from);
        match busy.as_slice() {
            [] => None,
            [one] => Some(format!("version cannot be changed: {one}")),
            many => Some(format!("version cannot be changed: [{}]", many.join(", "))),
        }
    };
    if let Some(detail) = refusal {
        out.invalid(VERSION_FIELD, shown, &detail);
    }
}

/// What is not at `version` yet, in sentences.
fn busy(review: &Review<'_>, cluster: &Value, version: &Version) -> Vec<String> {
    let mut reasons = Vec::new();
    reasons.extend(busy_control_plane(review, cluster, version).err());
    for kind in ["MachineDeployment", "MachinePool"] {
        match busy_workers(review, cluster, version, kind) {
            Ok(names) if names.is_empty() => {}
            Ok(names) => reasons.push(format!(
                "there are still {kind}s completing a previous upgrade: [{}]",
                names.join(", ")
            )),
            Err(why) => reasons.push(why),
        }
    }
    reasons
}

fn busy_control_plane(review: &Review<'_>, cluster: &Value, version: &Version) -> Result<(), String> {
    const CHECK: &str = "failed to check if control plane is upgrading";
    let [kind, name] = ["kind", "name"].map(|field| text(cluster, &format!("/spec/controlPlaneRef/{field}")));
    let namespace = text(cluster, "/metadata/namespace");
    let Sought::Here(plane) = review.known.one(kind, namespace, name) else {
        return Err(format!("{CHECK}: failed to get control plane object"));
    };
    let wanted = text(plane, "/spec/version");
    if wanted.is_empty() {
        return Err(format!("{CHECK}: failed to get control plane version"));
    }
    let wanted = version::tolerant(wanted)
        .map_err(|why| format!("{CHECK}: failed to parse control plane version {wanted}: {why}"))?;
    if wanted != *version {
        return Err(format!(
            "Cluster.spec.topology.version {version} was not propagated to control plane yet (control plane \
             version {wanted})"
        ));
    }
    let entries = items_at(plane, "/status/versions").iter().map(|entry| text(entry, "/version"));
    let mut reached: Vec<&str> = entries.filter(|version| !version.is_empty()).collect();
    if reached.is_empty() {
        reached.extend([text(plane, "/status/version")].into_iter().filter(|version| !version.is_empty()));
    }
    if reached.is_empty() {
        return Err("control plane is currently provisioning".to_owned());
    }
    for reached in reached {
        let reached = version::tolerant(reached)
            .map_err(|why| format!("{CHECK}: failed to parse control plane status version: {why}"))?;
        // Other build metadata of the same number has no known order, and counts as not reached.
        if matches!(version::compare(&wanted, &reached), Some(Ordering::Greater) | None) {
            return Err("control plane is still completing a previous upgrade".to_owned());
        }
    }
    Ok(())
}

/// Names of the groups that are not at `version`, or whose Machines are not. Nodes of MachinePools are
/// out of sight.
fn busy_workers(
    review: &Review<'_>,
    cluster: &Value,
    version: &Version,
    kind: &str,
) -> Result<Vec<String>, String> {
    let cluster = text(cluster, "/metadata/name");
    let mut busy = Vec::new();
    for group in review.known.all(kind) {
        let labels = at(group, "/metadata/labels");
        // People may have others in the cluster, which do not follow the topology's version.
        if labels[label::CLUSTER_NAME] != cluster || labels.get(label::TOPOLOGY_OWNED).is_none() {
            continue;
        }
        let (name, wanted) = (text(group, "/metadata/name"), text(group, "/spec/template/spec/version"));
        let check = format!("failed to check if {kind} {name} is upgrading");
        let parsed = version::tolerant(wanted)
            .map_err(|why| format!("{check}: failed to parse version {wanted}: {why}"))?;
        let own_selector = at(group, "/spec/selector/matchLabels");
        let is_own = |machine: &&Value| {
            let labels = at(machine, "/metadata/labels");
            own_selector.as_object().into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
        };
        let mut behind = parsed != *version;
        for machine in review.known.all("Machine").iter().filter(is_own) {
            // Machines of a pool show nothing that its infrastructure does not decide.
            if kind != "MachineDeployment" || behind {
                break;
            }
            let machine_version = text(machine, "/spec/version");
            if machine_version.is_empty() {
                let machine = text(machine, "/metadata/name");
                return Err(format!("{check}: Machine {machine} has no version"));
            }
            let kubelet = text(machine, "/status/nodeInfo/kubeletVersion");
            // In an update in place the spec is ahead of the kubelet.
            behind = machine_version != wanted || (!kubelet.is_empty() && kubelet != wanted);
        }
        if behind {
            busy.push(name.to_owned());
        }
    }
    Ok(busy)
}

/// Another class must lead to the same kinds of objects.
fn check_class_change(review: &Review<'_>, old: &Value, class: &Value, out: &mut Findings) {
    let (before, after) = (class_key(old), class_key(review.new));
    if before == after {
        return;
    }
    let (from, to) = (format!("{}/{}", before.0, before.1), format!("{}/{}", after.0, after.1));
    match review.known.one(CLASS, before.0, before.1) {
        Sought::Here(previous) => class::check_compatible(previous, class, out),
        Sought::Missing | Sought::NotServed => {
            let detail = format!(
                "valid ClusterClass with name \"{from}\" could not be retrieved, change from class \"{from}\" to \
                 class \"{to}\" cannot be validated. Error: clusterclasses.cluster.x-k8s.io \"{}\" not found",
                before.1
            );
            out.forbidden(CLASS_FIELD, &detail);
        }
    }
}
