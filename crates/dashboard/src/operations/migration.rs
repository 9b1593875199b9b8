//! One step of a leader migration that a program makes. Owns which objects it writes; how they are written is `object_writes`'s, and
//! which step comes next is `leader_migration`'s.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::Value;

use super::object_writes::Write;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan_engine::client::write::gvk_of;
use leader_migration::edits::EditAct;

/// It is not a kind that such steps change.
#[derive(Debug, thiserror::Error)]
#[error("{0} is of a kind that no step of a leader migration changes; nothing was written")]
pub struct UnknownKind(String);

/// The objects of `act`, and what becomes of each. None where people make the step.
///
/// # Errors
/// [`UnknownKind`].
pub fn writes(act: &EditAct) -> Result<Vec<(ObjectRef, Write)>, UnknownKind> {
    writes_of(act).into_iter().map(|(object, write)| Ok((target(object)?, write))).collect()
}

fn writes_of(act: &EditAct) -> Vec<(&Value, Write)> {
    match act {
        EditAct::ByHand | EditAct::Configuration(_) => Vec::new(),
        EditAct::Apply(objects) => objects.iter().map(|o| (o, Write::Apply(o.clone()))).collect(),
        EditAct::Patch { object, patch, inverse } => {
            vec![(object, Write::Patch { patch: patch.clone(), inverse: inverse.clone() })]
        }
        EditAct::Delete(objects) => objects.iter().map(|object| (object, Write::Delete)).collect(),
    }
}

/// Only kinds that an edit is about.
fn target(object: &Value) -> Result<ObjectRef, UnknownKind> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]);
    let mut gvk: Gvk = match kind.as_str() {
        "ConfigMap" => gvk_of::<ConfigMap>(),
        "DaemonSet" => gvk_of::<DaemonSet>(),
        "Deployment" => gvk_of::<Deployment>(),
        "KubeadmControlPlane" => gvk_of::<KubeadmControlPlane>(),
        "Lease" => gvk_of::<Lease>(),
        "Role" => gvk_of::<Role>(),
        "RoleBinding" => gvk_of::<RoleBinding>(),
        "StatefulSet" => gvk_of::<StatefulSet>(),
        _ => return Err(UnknownKind(kind)),
    };
    // A patch is of the version that was read.
    if let Some(version) = object["apiVersion"].as_str().and_then(|version| version.rsplit('/').next()) {
        version.clone_into(&mut gvk.version);
    }
    let metadata = &object["metadata"];
    let key = ObjectKey::new(text(&metadata["namespace"]), text(&metadata["name"]));
    Ok(ObjectRef { gvk, key, uid: String::new() })
}
