//! Template objects belong to their Cluster. Owns that write; must not know what is cloned from them.
//! Source: cluster-api `core/reconcilers/{machinedeployment,machineset}` (`reconcileExternalTemplateReference`),
//! v1.14.0.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::Context;
use crate::api::cluster::Cluster;
use crate::client::write::Part;
use crate::client::{Mode, Precondition, WriteError};
use crate::observe::Templates;
use crate::plan::ownership::{owner, with_owner};
use crate::status::contract::reference_to;

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
    let target = reference_to(template);
    let version = template["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    let guard = Precondition { uid: Some(target.uid.clone()), resource_version: version };
    let body = json!({"metadata": {"ownerReferences": with_owner(owners, wanted)}});
    context.writer.patch_value(&target, Part::Main, &body, &guard, Mode::Real).await?;
    Ok(())
}
