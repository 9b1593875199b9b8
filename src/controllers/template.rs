//! Template objects belong to their Cluster. Owns that write; must not know what is cloned from them.
//! Source: cluster-api `core/reconcilers/{machinedeployment,machineset}` (`reconcileExternalTemplateReference`),
//! v1.14.0.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::Context;
use crate::api::cluster::Cluster;
use crate::api::key::{Gvk, ObjectKey, ObjectRef};
use crate::client::write::Part;
use crate::client::{Mode, Precondition, WriteError};
use crate::observe::Templates;
use crate::plan::ownership::{owner, with_owner};

/// Makes the Cluster an owner of each, as `clusterctl move` needs it.
///
/// # Errors
/// When the server refuses.
pub async fn own_all(context: &Context, cluster: &Cluster, templates: &Templates) -> Result<(), WriteError> {
    for template in templates.bootstrap.iter().chain(&templates.infrastructure) {
        own(context, cluster, template).await?;
    }
    Ok(())
}

/// Makes the Cluster an owner of one template, unless it is.
///
/// # Errors
/// When the server refuses.
pub async fn own(context: &Context, cluster: &Cluster, template: &Value) -> Result<(), WriteError> {
    let owners: Vec<OwnerReference> =
        serde_json::from_value(template["metadata"]["ownerReferences"].clone()).unwrap_or_default();
    let wanted = owner(cluster, false);
    if owners.iter().any(|o| o.uid == wanted.uid) {
        return Ok(());
    }
    let Some(target) = reference_to(template) else { return Ok(()) };
    let version = template["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    let guard = Precondition { uid: Some(target.uid.clone()), resource_version: version };
    let body = json!({"metadata": {"ownerReferences": with_owner(owners, wanted)}});
    context.writer.patch_value(&target, Part::Main, &body, &guard, Mode::Real).await?;
    Ok(())
}

/// The full reference of a read object. Provider kinds are named by the contract: the plural is the
/// kind in lower case with an `s`.
#[must_use]
pub fn reference_to(object: &Value) -> Option<ObjectRef> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (group, version) = text("/apiVersion")?.split_once('/')?;
    let kind = text("/kind")?;
    let gvk = Gvk {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        namespaced: true,
    };
    let key = ObjectKey::new(text("/metadata/namespace")?, text("/metadata/name")?);
    Some(ObjectRef { gvk, key, uid: text("/metadata/uid")?.to_owned() })
}
