//! The only per-kind rules: what is filled in before a write, and what is checked beyond the schema.
//! Must not know stores, routes or answers.
//!
//! Source: kubernetes `pkg/registry/core/{namespace,event,node}/strategy.go`,
//! apiextensions-apiserver `pkg/registry/customresource/strategy.go`, v1.35.

use std::fmt;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::Resource;
use super::{config_data, crds, events, scale};
use crate::failure::Failure;
use crate::object::{self, metadata};
use crate::schema::{Schema, crd};
use k8s_machinery::validation::cause::Cause;
use k8s_machinery::validation::naming;

/// Finalizer of a namespace's spec: its content is still being removed.
pub const NAMESPACE_FINALIZER: &str = "kubernetes";

/// Which rules a resource follows.
#[derive(Debug)]
pub enum Strategy {
    Namespace,
    Node,
    Secret,
    ConfigMap,
    Event,
    Lease,
    Pod,
    /// What keeps pods running: DaemonSets and Deployments.
    App,
    /// Roles and their bindings.
    Rbac,
    /// Nothing is demanded beyond the schema.
    Plain,
    Definition,
    Review(Review),
    Custom(Custom),
}

/// Questions that are answered and not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// What the caller may do.
    Access,
    /// What somebody else may do.
    OfSubject,
    Rules,
    Identity,
}

/// A schema that is compiled when the first object asks for it: most of a provider's kinds are
/// never touched in a session.
pub struct LazySchema(
    LazyLock<Result<Schema, Vec<Cause>>, Box<dyn FnOnce() -> Result<Schema, Vec<Cause>> + Send>>,
);

impl LazySchema {
    pub fn new(compile: impl FnOnce() -> Result<Schema, Vec<Cause>> + Send + 'static) -> Self {
        Self(LazyLock::new(Box::new(compile)))
    }

    /// # Errors
    /// Why the schema is not structural.
    pub fn get(&self) -> Result<&Schema, &Vec<Cause>> {
        self.0.as_ref()
    }
}

impl fmt::Debug for LazySchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LazySchema")
    }
}

/// What a CustomResourceDefinition defines for one version beyond names.
#[derive(Debug)]
pub struct Custom {
    /// Changes when the schema does: objects stored under another tag are fitted again when read.
    pub schema_tag: u32,
    /// Changes when anything about the version or its names does.
    pub version_tag: u32,
    pub schema: LazySchema,
    pub selectable_fields: Vec<String>,
    /// Name of the definition.
    pub definition: String,
}

impl Resource {
    /// Does `metadata.generation` count its changes?
    pub fn counts_generations(&self) -> bool {
        matches!(self.strategy, Strategy::Custom(_) | Strategy::Definition | Strategy::App)
    }

    /// May an update come without a resource version?
    pub fn allows_unconditional_update(&self) -> bool {
        // Upstream's strategies say so in `AllowUnconditionalUpdate`.
        !matches!(self.strategy, Strategy::Custom(_) | Strategy::Definition | Strategy::Lease)
    }

    /// Does an update of a missing object create it?
    pub fn allows_create_on_update(&self) -> bool {
        // Upstream's strategies say so in `AllowCreateOnUpdate`.
        matches!(self.strategy, Strategy::Lease | Strategy::Event)
    }

    /// Spelling of names.
    pub fn name_rule(&self) -> fn(&str) -> Vec<String> {
        match self.strategy {
            Strategy::Namespace => naming::dns_label,
            Strategy::Rbac => naming::path_segment,
            _ => naming::dns_subdomain,
        }
    }

    /// Refuses what upstream cannot decode, beyond the schema.
    ///
    /// # Errors
    /// 400.
    pub fn check_decoded(&self, object: &Value) -> Result<(), Failure> {
        match self.strategy {
            Strategy::Secret | Strategy::ConfigMap => config_data::check_bytes(&self.kind, object),
            _ => Ok(()),
        }
    }

    /// What a Go client does not write, because there is nothing in it, is not kept.
    pub fn drop_empty(&self, object: &mut Value) {
        metadata::drop_empty(object);
        if let (Strategy::Secret | Strategy::ConfigMap, Some(fields)) =
            (&self.strategy, object.as_object_mut())
        {
            fields.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
        }
    }

    /// From what the client speaks to what is kept.
    pub fn to_stored(&self, object: &mut Value) {
        if matches!(self.strategy, Strategy::Event) && !self.group.is_empty() {
            events::to_core(object);
        }
        if self.version != self.storage_version {
            object["apiVersion"] = format!("{}/{}", self.group, self.storage_version).into();
        }
    }

    /// From what is kept to what the client speaks.
    pub fn read_stored(&self, object: &mut Value) {
        if matches!(self.strategy, Strategy::Event) && !self.group.is_empty() {
            events::from_core(object);
        }
        if self.version != self.storage_version {
            object["apiVersion"] = self.api_version().into();
        }
    }

    /// Fills in what the kind wants on create.
    pub fn prepare_create(&self, object: &mut Value) {
        // A custom status is written through its subresource alone; a Node is created with its
        // status.
        if let (true, true, Some(fields)) = (self.is_custom(), self.has_status, object.as_object_mut()) {
            fields.remove("status");
        }
        match self.strategy {
            Strategy::Namespace => prepare_namespace(object),
            Strategy::Secret => config_data::prepare_secret(object),
            Strategy::Definition => crds::prepare(object),
            _ => {}
        }
        if self.counts_generations() {
            object::set(object, "generation", 1.into());
        }
    }

    /// Fills in what an update of the main resource may leave out, and takes back what it may not touch.
    pub fn prepare_update(&self, object: &mut Value, old: &Value) {
        if self.has_status {
            copy_field(object, old, "status");
        }
        match self.strategy {
            Strategy::Namespace => {
                // Finalizers of a namespace change through `finalize` alone.
                copy_field(object, old, "spec");
                // Upstream's defaulting puts the label back whenever a client leaves it out.
                label_namespace(object);
            }
            Strategy::Secret => config_data::prepare_secret(object),
            Strategy::Definition => crds::prepare_update(object, old),
            _ => {}
        }
    }

    /// What is wrong with the object beyond its schema.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        match self.strategy {
            Strategy::Secret => config_data::validate_secret(object, old),
            Strategy::ConfigMap => config_data::validate_config_map(object, old),
            Strategy::Lease => validate_lease(&object["spec"]),
            Strategy::Event => events::validate(object, old, !self.group.is_empty()),
            Strategy::Definition => crd::check(object, old),
            Strategy::Custom(_) => {
                self.scale.as_ref().map(|paths| scale::check(paths, object)).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }
}

impl Resource {
    /// What a writer should know although the object is accepted.
    pub fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        match self.strategy {
            Strategy::Definition => crds::warnings(object, old),
            Strategy::Custom(_) => metadata::finalizer_warnings(object, old),
            _ => Vec::new(),
        }
    }
}

/// Makes `field` of `object` what it is in `old`.
pub fn copy_field(object: &mut Value, old: &Value, field: &str) {
    let Some(fields) = object.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

fn prepare_namespace(object: &mut Value) {
    let mut finalizers = object["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|name| name == NAMESPACE_FINALIZER) {
        finalizers.push(NAMESPACE_FINALIZER.into());
    }
    object["spec"] = json!({ "finalizers": finalizers });
    object["status"] = json!({ "phase": "Active" });
    label_namespace(object);
}

fn label_namespace(object: &mut Value) {
    let name = object::name(object).to_owned();
    let mut labels = object["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    object::set(object, "labels", Value::Object(labels));
}

/// Source: kubernetes `pkg/apis/coordination/validation/validation.go`, v1.35.
fn validate_lease(spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (field, least, detail) in [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ] {
        if spec[field].as_i64().is_some_and(|number| number < least) {
            causes.push(Cause::invalid(format!("spec.{field}"), &spec[field], detail));
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_without_a_duration_were_taken() {
        let complaints =
            |spec: Value| -> Vec<String> { validate_lease(&spec).iter().map(ToString::to_string).collect() };
        assert_eq!(
            complaints(json!({"leaseDurationSeconds": 1, "leaseTransitions": 0})),
            Vec::<String>::new()
        );
        assert_eq!(complaints(json!({})), Vec::<String>::new());
        assert_eq!(
            complaints(json!({"leaseDurationSeconds": 0, "leaseTransitions": -1})),
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ]
        );
    }
}
