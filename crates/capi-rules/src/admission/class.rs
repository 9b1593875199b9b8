//! ClusterClass: templates, classes of workers, what may change, and that it stays while it is used.
//! Its patches are in `class_patches`; its variables are not checked, there is no variables engine.
//!
//! Source: cluster-api `core/webhooks/admission/clusterclass.go`, `internal/topology/check/
//! compatibility.go`, v1.14.2.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::finding::Findings;
use super::naming_template::check_topology_naming;
use super::parts::{
    check_health_limits, check_max_in_flight, check_metadata, check_rollout_strategy, check_taints,
    has_health_check,
};
use super::value::{at, full_name, is_defined, items_at, text};
use super::{Request, Review, class_patches, class_use};
use capi_types::names::annotation as key;
use k8s_machinery::admission::Need;
use k8s_machinery::version;

/// Lists of worker classes, with the word for one member.
const WORKERS: [(&str, &str); 2] =
    [("machineDeployments", "MachineDeployment"), ("machinePools", "MachinePool")];
/// Clusters named in a refusal.
const CLUSTERS_SHOWN: usize = 3;

/// An update is checked against every Cluster that uses the class.
pub(super) fn needs(request: &Request<'_>, _: &Value) -> Vec<Need> {
    if request.old.is_some() { class_use::clusters() } else { Vec::new() }
}

/// Names of the classes in a list of workers.
pub(super) fn names<'a>(class: &'a Value, list: &str) -> BTreeSet<&'a str> {
    workers(class, list).iter().map(|member| text(member, "/class")).collect()
}

pub(super) fn member<'a>(class: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    workers(class, list).iter().find(|member| text(member, "/class") == name)
}

fn workers<'a>(class: &'a Value, list: &str) -> &'a [Value] {
    items_at(class, &format!("/spec/workers/{list}"))
}

pub(super) fn check(review: &Review<'_>, out: &mut Findings) {
    let class = review.new;
    check_templates(class, out);
    check_unique(class, out);
    for member in workers(class, "machineDeployments") {
        let field = format!("{}.rollout.strategy", keyed("machineDeployments", member));
        check_rollout_strategy(at(member, "/rollout/strategy"), &field, out);
    }
    check_health_checks(class, out);
    check_naming(class, out);
    check_class_taints(class, out);
    class_patches::check(class, out);
    check_all_metadata(class, out);
    check_versions(class, out);
    if let Some(old) = review.old {
        check_compatible(old, class, out);
        let clusters: Vec<&Value> =
            review.known.all("Cluster").iter().filter(|cluster| class_use::uses(cluster, class)).collect();
        check_use(old, class, &clusters, out);
    }
}

/// `spec.workers.machineDeployments[class]`.
fn keyed(list: &str, member: &Value) -> String {
    format!("spec.workers.{list}[{}]", text(member, "/class"))
}

fn check_templates(class: &Value, out: &mut Findings) {
    let template = |pointer: &str| at(class, &format!("/spec/{pointer}/templateRef"));
    check_template(template("infrastructure"), "spec.infrastructure", out);
    check_template(template("controlPlane"), "spec.controlPlane", out);
    let machines = template("controlPlane/machineInfrastructure");
    if is_defined(machines) {
        check_template(machines, "spec.controlPlane.machineInfrastructure", out);
    }
    for (list, _) in WORKERS {
        for (index, member) in workers(class, list).iter().enumerate() {
            for part in ["bootstrap", "infrastructure"] {
                // `template` was part of the path in v1beta1, and stayed in the refusals.
                let field = format!("spec.workers.{list}[{index}].template.{part}");
                check_template(&member[part]["templateRef"], &field, out);
            }
        }
    }
}

fn check_template(reference: &Value, field: &str, out: &mut Findings) {
    if text(reference, "/name").is_empty() {
        out.required(format!("{field}.ref.name"), "template name must be defined");
    }
    let kind = text(reference, "/kind");
    if !kind.ends_with("Template") || kind == "Template" {
        let detail = "template kind must be of form \"<name>Template\"";
        out.invalid(format!("{field}.ref.kind"), &json!(kind), detail);
    }
    let version = text(reference, "/apiVersion");
    let field = format!("{field}.ref.apiVersion");
    if version.is_empty() || version == "/" {
        out.required(field, "template apiVersion must be defined");
    } else if version.matches('/').count() > 1 {
        let detail = format!(
            "template apiVersion must be a valid Kubernetes apiVersion: unexpected GroupVersion string: {version}"
        );
        out.invalid(field, &json!(version), &detail);
    }
}

fn check_unique(class: &Value, out: &mut Findings) {
    for (list, word) in WORKERS {
        let mut seen = BTreeSet::new();
        for (index, member) in workers(class, list).iter().enumerate() {
            let name = text(member, "/class");
            if !seen.insert(name) {
                let detail = format!(
                    "{word} class must be unique. {word} with class \"{name}\" is defined more than once"
                );
                out.invalid(format!("spec.workers.{list}[{index}].class"), &json!(name), &detail);
            }
        }
    }
}

fn check_health_checks(class: &Value, out: &mut Findings) {
    let health = at(class, "/spec/controlPlane/healthCheck");
    if has_health_check(health) {
        let field = "spec.controlPlane.healthCheck";
        check_health_limits(health, field, out);
        if !is_defined(at(class, "/spec/controlPlane/machineInfrastructure/templateRef")) {
            out.forbidden(field, "can be only set if spec.controlPlane.machineInfrastructure is set");
        }
    }
    for member in workers(class, "machineDeployments") {
        let health = &member["healthCheck"];
        if has_health_check(health) {
            let field = format!("{}.healthCheck", keyed("machineDeployments", member));
            check_health_limits(health, &field, out);
            check_max_in_flight(&health["remediation"], &format!("{field}.remediation"), out);
        }
    }
}

fn check_naming(class: &Value, out: &mut Findings) {
    for (part, what) in [("infrastructure", "InfraCluster"), ("controlPlane", "ControlPlane")] {
        let template = at(class, &format!("/spec/{part}/naming/template"));
        check_topology_naming(template, &format!("spec.{part}.naming.template"), what, None, out);
    }
    for (list, what) in WORKERS {
        let variable = if what == "MachinePool" {
            ".machinePool.topologyName"
        } else {
            ".machineDeployment.topologyName"
        };
        for member in workers(class, list) {
            let field = format!("{}.naming.template", keyed(list, member));
            check_topology_naming(at(member, "/naming/template"), &field, what, Some(variable), out);
        }
    }
}

fn check_class_taints(class: &Value, out: &mut Findings) {
    check_taints(at(class, "/spec/controlPlane/taints"), "spec.controlPlane.taints", out);
    for (list, _) in WORKERS {
        for member in workers(class, list) {
            check_taints(&member["taints"], &format!("{}.taints", keyed(list, member)), out);
        }
    }
}

fn check_all_metadata(class: &Value, out: &mut Findings) {
    check_metadata(at(class, "/spec/controlPlane/metadata"), "spec.controlPlane.metadata", out);
    for (list, _) in WORKERS {
        for member in workers(class, list) {
            // `template` stayed from v1beta1 here, too.
            check_metadata(&member["metadata"], &format!("{}.template.metadata", keyed(list, member)), out);
        }
    }
}

/// The versions a Cluster may have: rising, without gaps.
fn check_versions(class: &Value, out: &mut Findings) {
    let mut previous: Option<semver::Version> = None;
    for (index, shown) in items_at(class, "/spec/kubernetesVersions").iter().enumerate() {
        // The singular is upstream's.
        let field = format!("spec.kubernetesVersion[{index}]");
        let Ok(version) = version::tolerant(shown.as_str().unwrap_or_default()) else {
            out.invalid(field, shown, "version must be a valid semantic version");
            continue;
        };
        if let Some(before) = &previous {
            if matches!(version::compare(&version, before), Some(Ordering::Less | Ordering::Equal)) {
                out.invalid(field.clone(), shown, &format!("version must be greater than v{before}"));
            }
            // A gap would leave Clusters without a next step, as no minor can be skipped.
            let (low, high) = (before.minor, before.minor + 1);
            if version.minor != low && version.minor != high {
                let detail =
                    format!("expecting a version with minor {low} or {high}, found version {version}");
                out.invalid(field, shown, &detail);
            }
        }
        previous = Some(version);
    }
}

/// Templates may be exchanged for others of the same kind only.
pub(super) fn check_compatible(old: &Value, new: &Value, out: &mut Findings) {
    for part in ["infrastructure", "controlPlane", "controlPlane/machineInfrastructure"] {
        let template = |class| at(class, &format!("/spec/{part}/templateRef"));
        let field = format!("spec.{}.templateRef", part.replace('/', "."));
        check_same_kind(template(old), template(new), &field, out);
    }
    for (list, _) in WORKERS {
        for (index, class) in workers(new, list).iter().enumerate() {
            // A class that is new has no Clusters that could be broken.
            let Some(before) = member(old, list, text(class, "/class")) else { continue };
            let template = |class| at(class, "/infrastructure/templateRef");
            let field = format!("spec.workers.{list}[{index}].infrastructure.templateRef");
            check_same_kind(template(before), template(class), &field, out);
        }
    }
}

fn check_same_kind(old: &Value, new: &Value, field: &str, out: &mut Findings) {
    let end = "to prevent incompatible changes in the Clusters";
    let group = |reference| text(reference, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    let (from, to) = (group(old), group(new));
    if from != to {
        let detail = format!("group of apiVersion cannot be changed from \"{from}\" to \"{to}\" {end}");
        out.forbidden(format!("{field}.apiVersion"), &detail);
    }
    let (from, to) = (text(old, "/kind"), text(new, "/kind"));
    if from != to {
        let detail = format!("kind cannot be changed from \"{from}\" to \"{to}\" {end}");
        out.forbidden(format!("{field}.kind"), &detail);
    }
}

/// What Clusters use must stay in the class.
fn check_use(old: &Value, new: &Value, clusters: &[&Value], out: &mut Findings) {
    let versions = items_at(new, "/spec/kubernetesVersions");
    for cluster in clusters {
        let version = at(cluster, "/spec/topology/version");
        if !versions.is_empty() && !versions.contains(version) {
            let (version, name) = (version.as_str().unwrap_or_default(), text(cluster, "/metadata/name"));
            let detail = format!(
                "Kubernetes Version {version} is used by Cluster \"{name}\" but not set in ClusterClass"
            );
            out.forbidden("spec.kubernetesVersions", &detail);
        }
    }
    for (list, word) in WORKERS {
        let (before, after) = (names(old, list), names(new, list));
        for cluster in clusters {
            for group in items_at(cluster, &format!("/spec/topology/workers/{list}")) {
                let class = text(group, "/class");
                if before.contains(class) && !after.contains(class) {
                    let name = text(cluster, "/metadata/name");
                    let detail = format!(
                        "{word}Class \"{class}\" cannot be deleted because it is used by Cluster \"{name}\""
                    );
                    out.forbidden(format!("spec.workers.{list}"), &detail);
                }
            }
        }
    }
    check_health_check_use(old, new, clusters, out);
    // A class that gets bounds for the autoscaler may clash with replicas that Clusters give.
    clusters.iter().for_each(|cluster| check_autoscaled_replicas(cluster, Some(new), out));
}

/// A health check that Clusters switched on without bringing their own must stay.
fn check_health_check_use(old: &Value, new: &Value, clusters: &[&Value], out: &mut Findings) {
    // A Cluster with checks of its own needs none from the class.
    let relies = |health: &Value| health["enabled"] == true && !has_health_check(health);
    let mut refuse = |field: String, users: Vec<&str>| {
        if !users.is_empty() {
            let users = users.join(",");
            let detail =
                format!("healthCheck cannot be deleted because it is used by Cluster(s) \"{users}\"");
            out.forbidden(field, &detail);
        }
    };
    let dropped = |old: &Value, new: &Value| has_health_check(old) && !has_health_check(new);
    let of_plane = |class| at(class, "/spec/controlPlane/healthCheck");
    let user_names = |relies: &dyn Fn(&Value) -> bool| {
        clusters
            .iter()
            .filter(|cluster| relies(cluster))
            .map(|cluster| text(cluster, "/metadata/name"))
            .collect()
    };
    if dropped(of_plane(old), of_plane(new)) {
        let users = user_names(&|cluster| relies(at(cluster, "/spec/topology/controlPlane/healthCheck")));
        refuse("spec.controlPlane.healthCheck".to_owned(), users);
    }
    for class in workers(new, "machineDeployments") {
        let name = text(class, "/class");
        let Some(before) = member(old, "machineDeployments", name) else { continue };
        if dropped(&before["healthCheck"], &class["healthCheck"]) {
            let users = user_names(&|cluster| {
                items_at(cluster, "/spec/topology/workers/machineDeployments")
                    .iter()
                    .any(|group| text(group, "/class") == name && relies(&group["healthCheck"]))
            });
            refuse(format!("{}.healthCheck", keyed("machineDeployments", class)), users);
        }
    }
}

/// Replicas are either given or left to the autoscaler, by the Cluster or by its class.
pub(super) fn check_autoscaled_replicas(cluster: &Value, class: Option<&Value>, out: &mut Findings) {
    let bounded = |object: &Value| {
        let annotations = at(object, "/metadata/annotations");
        [key::AUTOSCALER_MIN_SIZE, key::AUTOSCALER_MAX_SIZE].iter().any(|key| annotations.get(key).is_some())
    };
    let (name, namespace) = (text(cluster, "/metadata/name"), text(cluster, "/metadata/namespace"));
    let intro = format!("cannot be set for cluster \"{name}\" in namespace \"{namespace}\" if the");
    for group in items_at(cluster, "/spec/topology/workers/machineDeployments") {
        let replicas = &group["replicas"];
        if replicas.is_null() {
            continue;
        }
        let field = format!("spec.topology.workers.machineDeployments[{}].replicas", text(group, "/name"));
        if bounded(group) {
            let detail = format!("{intro} same MachineDeploymentTopology has autoscaler annotations");
            out.invalid(field.clone(), replicas, &detail);
        }
        let wanted = text(group, "/class");
        if class.and_then(|class| member(class, "machineDeployments", wanted)).is_some_and(bounded) {
            let detail = format!(
                "{intro} source class \"{wanted}\" of this MachineDeploymentTopology has autoscaler annotations"
            );
            out.invalid(field, replicas, &detail);
        }
    }
}

/// Why the class cannot be deleted; `clusters` are all there are.
pub(super) fn deletion_refusal(class: &Value, clusters: &[Value]) -> Option<String> {
    let users: Vec<String> =
        clusters.iter().filter(|cluster| class_use::uses(cluster, class)).map(full_name).collect();
    if users.is_empty() {
        return None;
    }
    let more = users.len().saturating_sub(CLUSTERS_SHOWN);
    let mut shown: Vec<String> = users.into_iter().take(CLUSTERS_SHOWN).collect();
    if more > 0 {
        shown.push(format!("... ({more} more)"));
    }
    Some(format!("ClusterClass cannot be deleted because it is used by Cluster(s): {}", shown.join(", ")))
}
