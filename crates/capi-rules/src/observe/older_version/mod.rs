//! Objects of Cluster API's v1beta1 as v1beta2 has them: where each field went, and what became of its form. Owns the tables of
//! those moves per kind; must not judge an object, nor check it: what does not have the form of its version stays as it is.
//!
//! Source: cluster-api `api/core/v1beta1/conversion.go`, `api/bootstrap/kubeadm/v1beta1/conversion.go`,
//! `api/controlplane/kubeadm/v1beta1/conversion.go`, and `webhooks/conversion` of each, v1.14.2.
//!
//! Intended difference: of what an object in v1beta1 keeps of its newer form in an annotation only the fields are taken back that
//! v1beta1 has no place for; that a flag was set to false on purpose is not. Releases before 1.9 write the older conditions alone:
//! those that mean the same as a newer one are read as that one (`take_over`), because their controllers decide by them.

mod conditions;
mod kinds;
mod kubeadm;
mod moves;
mod recorded;
#[cfg(test)]
mod tests;

pub use conditions::take_over;
pub use recorded::made_with;

use serde_json::Value;

use capi_types::key::group_of;
use capi_types::names::{BOOTSTRAP_GROUP, CONTROL_PLANE_GROUP, CORE_GROUP, OLDER_VERSION, VERSION};

/// What a server that stores the newer form hands along with the older one.
const NEWER_FORM: &str = "cluster.x-k8s.io/conversion-data";

/// Is the object in v1beta1 because its server has nothing newer? Releases since 1.11 keep in it what v1beta1 has no place for.
pub fn is_of_older_release(object: &Value) -> bool {
    conversion_of(object).is_some() && object["metadata"]["annotations"][NEWER_FORM].is_null()
}

/// Is it an object of v1beta1, of a kind that is converted?
pub fn is_older(object: &Value) -> bool {
    conversion_of(object).is_some()
}

fn conversion_of(object: &Value) -> Option<fn(&mut Value)> {
    let api_version = object["apiVersion"].as_str()?;
    let (group, version) = (group_of(api_version), api_version.rsplit('/').next().unwrap_or_default());
    if version != OLDER_VERSION {
        return None;
    }
    Some(match (group, object["kind"].as_str()?) {
        (CORE_GROUP, "Cluster") => kinds::cluster,
        (CORE_GROUP, "MachineDeployment") => kinds::machine_deployment,
        (CORE_GROUP, "MachineSet") => kinds::machine_set,
        (CORE_GROUP, "MachinePool") => kinds::machine_pool,
        (CORE_GROUP, "Machine") => kinds::machine,
        (CORE_GROUP, "MachineHealthCheck") => kinds::machine_health_check,
        (CONTROL_PLANE_GROUP, "KubeadmControlPlane") => kinds::control_plane,
        (CONTROL_PLANE_GROUP, "KubeadmControlPlaneTemplate") => kinds::control_plane_template,
        (BOOTSTRAP_GROUP, "KubeadmConfig") => kinds::config,
        (BOOTSTRAP_GROUP, "KubeadmConfigTemplate") => kinds::config_template,
        _ => return None,
    })
}

/// Puts an object of v1beta1 into the form of v1beta2. False when it is in another version, or of a kind that is not converted.
pub fn convert(object: &mut Value) -> bool {
    let Some(convert) = conversion_of(object) else { return false };
    let group = object["apiVersion"].as_str().map(group_of).unwrap_or_default().to_owned();
    let restored = newer_form(object);
    convert(object);
    if let Some(restored) = restored {
        restore(object, &restored);
    }
    object["apiVersion"] = format!("{group}/{VERSION}").into();
    true
}

/// Taken out of the annotations, as servers do when they convert.
fn newer_form(object: &mut Value) -> Option<Value> {
    let annotations = object.pointer_mut("/metadata/annotations")?.as_object_mut()?;
    let text = annotations.remove(NEWER_FORM)?;
    serde_json::from_str(text.as_str()?).ok()
}

/// What v1beta1 has no place for.
const RESTORED: [&str; 6] = [
    "/spec/minReadySeconds",
    "/status/failureDomain",
    "/spec/kubeadmConfigSpec/initConfiguration/timeouts",
    "/spec/kubeadmConfigSpec/joinConfiguration/timeouts",
    "/spec/initConfiguration/timeouts",
    "/spec/joinConfiguration/timeouts",
];

fn restore(object: &mut Value, from: &Value) {
    for path in RESTORED {
        let Some(value) = from.pointer(path) else { continue };
        let (parent, field) = path.rsplit_once('/').unwrap_or_default();
        // What the older form says by itself is newer than what it kept.
        if let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.entry(field).or_insert_with(|| value.clone());
        }
    }
}
