//! Template objects as worker controllers need them: read by reference, and owned by their Cluster.
//! Owns the look-up; must not know what is cloned from them.
//! Source: cluster-api `core/reconcilers/{machinedeployment,machineset}` (`reconcileExternalTemplateReference`),
//! v1.14.0.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::{Caches, Context};
use crate::api::cluster::Cluster;
use crate::api::key::{Gvk, ObjectKey, ObjectRef};
use crate::api::machine::MachineSpec;
use crate::api::reference::ContractRef;
use crate::client::write::Part;
use crate::client::{Mode, Precondition, WriteError};
use crate::plan::ownership::{owner, with_owner};
use crate::status::contract::External;

/// The two templates that a Machine spec refers to.
#[derive(Clone, Debug, Default)]
pub struct Templates {
    pub infrastructure: Option<Value>,
    pub bootstrap: Option<Value>,
    /// Kinds that are referred to and do not exist, bootstrap first.
    pub missing: Vec<String>,
    /// Why one of them could not be read.
    pub unreadable: Option<String>,
}

impl Templates {
    /// Reads both. References whose kind does not end in `Template` are not looked at.
    #[must_use]
    pub fn of(caches: &Caches, namespace: &str, spec: &MachineSpec) -> Self {
        let mut templates = Self::default();
        templates.bootstrap = templates.read(caches, namespace, spec.bootstrap.config_ref.as_ref());
        templates.infrastructure = templates.read(caches, namespace, Some(&spec.infrastructure_ref));
        templates
    }

    fn read(&mut self, caches: &Caches, namespace: &str, reference: Option<&ContractRef>) -> Option<Value> {
        let reference = reference.filter(|r| r.kind.ends_with("Template"))?;
        match caches.external(namespace, Some(reference)) {
            External::Found(provided) => return Some(provided.into_content()),
            External::NotFound { kind } => self.missing.push(kind),
            External::Unreadable { error, .. } => self.unreadable = Some(error),
            External::NotSet => {}
        }
        None
    }

    /// Makes the Cluster an owner of each, as `clusterctl move` needs it.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn own(&self, context: &Context, cluster: &Cluster) -> Result<(), WriteError> {
        for template in self.bootstrap.iter().chain(&self.infrastructure) {
            own(context, cluster, template).await?;
        }
        Ok(())
    }
}

/// The kind that is cloned from the template that `reference` names, when this engine provides it.
#[must_use]
pub fn clone_kind(caches: &Caches, reference: Option<&ContractRef>) -> Option<Gvk> {
    let reference = reference?;
    let kind = reference.kind.strip_suffix("Template")?;
    let clone = ContractRef { kind: kind.to_owned(), ..reference.clone() };
    caches.reference("", &clone).map(|r| r.gvk)
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
