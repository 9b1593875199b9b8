//! What Cluster API's webhooks do on create and update, in code: defaults its controllers rely on, and
//! the checks that need nothing but the object and its predecessor. Owns those rules per kind; must
//! not know stores, requests or schemas.
//!
//! Source: cluster-api `core/webhooks/admission`, `controlplane/kubeadm/webhooks/admission`,
//! `test/infrastructure/docker/webhooks`, v1.14.0. Left out, with their ground: Cluster topology
//! variables (need the ClusterClass), CoreDNS migration paths, Ignition rules.

mod bootstrap;
mod cluster;
mod control_plane;
mod infrastructure;
mod value;
mod workers;

#[cfg(test)]
mod tests;

use serde_json::Value;

use super::failure::{Cause, Failure};
use crate::api::names::{BOOTSTRAP_GROUP, CONTROL_PLANE_GROUP, CORE_GROUP, INFRASTRUCTURE_GROUP};

/// Defaults and checks of one kind. `old` is `None` on create.
type Mutate = fn(old: Option<&Value>, new: &mut Value);
type Check = fn(old: Option<&Value>, new: &Value, causes: &mut Vec<Cause>);

/// Group, kind, and what its webhooks do.
const KINDS: [(&str, &str, Mutate, Check); 18] = [
    (CORE_GROUP, "Cluster", cluster::default, cluster::check),
    (CORE_GROUP, "MachineDeployment", workers::default_deployment, workers::check_deployment),
    (CORE_GROUP, "MachineSet", workers::default_set, workers::check_set),
    (CORE_GROUP, "Machine", workers::default_machine, workers::check_machine),
    (CORE_GROUP, "MachinePool", workers::default_pool, workers::check_pool),
    (CORE_GROUP, "MachineHealthCheck", workers::default_health_check, workers::check_health_check),
    (CONTROL_PLANE_GROUP, "KubeadmControlPlane", control_plane::default, control_plane::check),
    (CONTROL_PLANE_GROUP, "KubeadmControlPlaneTemplate", nothing, infrastructure::check_template),
    (BOOTSTRAP_GROUP, "KubeadmConfig", nothing, bootstrap::check_config),
    (BOOTSTRAP_GROUP, "KubeadmConfigTemplate", nothing, bootstrap::check_template),
    (INFRASTRUCTURE_GROUP, "DevCluster", infrastructure::default_backend, unchecked),
    (
        INFRASTRUCTURE_GROUP,
        "DevClusterTemplate",
        infrastructure::default_template,
        infrastructure::check_template,
    ),
    (INFRASTRUCTURE_GROUP, "DevMachine", infrastructure::default_backend, infrastructure::check_machine),
    (
        INFRASTRUCTURE_GROUP,
        "DevMachineTemplate",
        infrastructure::default_template,
        infrastructure::check_template,
    ),
    (INFRASTRUCTURE_GROUP, "DevMachinePool", nothing, unchecked),
    (INFRASTRUCTURE_GROUP, "DockerClusterTemplate", nothing, infrastructure::check_template),
    (INFRASTRUCTURE_GROUP, "DockerMachineTemplate", nothing, infrastructure::check_template),
    (INFRASTRUCTURE_GROUP, "DockerMachine", nothing, infrastructure::check_machine),
];

fn nothing(_: Option<&Value>, _: &mut Value) {}

fn unchecked(_: Option<&Value>, _: &Value, _: &mut Vec<Cause>) {}

/// Fills in what the kind's mutating webhook would: after decoding, before validation. Only the main
/// endpoint is admitted; writes of `status` are not.
pub fn mutate(group: &str, kind: &str, old: Option<&Value>, new: &mut Value) {
    if let Some((.., mutate, _)) = KINDS.iter().find(|(g, k, ..)| *g == group && *k == kind) {
        mutate(old, new);
    }
}

/// Refuses what the kind's validating webhook would: after schema validation.
///
/// # Errors
/// 422 with one cause per finding.
pub fn check(group: &str, kind: &str, old: Option<&Value>, new: &Value) -> Result<(), Failure> {
    let Some((.., check)) = KINDS.iter().find(|(g, k, ..)| *g == group && *k == kind) else { return Ok(()) };
    // Upstream lets updates of terminating objects through, so that finalizers can always be removed.
    if !new["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    let mut causes = Vec::new();
    check(old, new, &mut causes);
    if causes.is_empty() {
        return Ok(());
    }
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    Err(Failure::invalid(group, kind, name, causes))
}

/// Refuses a change through the scale subresource.
///
/// # Errors
/// 403, as a denied request, with upstream's sentence.
pub fn check_scale(group: &str, kind: &str, object: &Value, replicas: i64) -> Result<(), Failure> {
    if (group, kind) != (CONTROL_PLANE_GROUP, "KubeadmControlPlane") {
        return Ok(());
    }
    control_plane::check_scale(object, replicas).map_err(|why| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        Failure::forbidden(group, "kubeadmcontrolplanes", name, why)
    })
}
