//! The only per-kind rules: what is filled in before a write, and what is checked beyond the schema.
//! Must not know stores, routes or answers.
//!
//! Source: kubernetes `pkg/registry/core/{namespace,secret,configmap,event,node}/strategy.go`,
//! apiextensions-apiserver `pkg/registry/customresource/strategy.go`, v1.35.

use std::fmt;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::failure::{Cause, CauseReason};
use super::resource::Resource;
use super::schema::{Schema, crd};
use super::{crds, events, naming, object, scale};

/// Finalizer of a namespace's spec: its content is still being removed.
pub const NAMESPACE_FINALIZER: &str = "kubernetes";
/// Largest Secret or ConfigMap content, in bytes.
const DATA_BYTES_MAX: usize = 1 << 20;

/// Which rules a resource follows.
#[derive(Debug)]
pub enum Strategy {
    Namespace,
    Node,
    Secret,
    ConfigMap,
    Event,
    Lease,
    Definition,
    Review(Review),
    Custom(Custom),
}

/// Questions that are answered and not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    Access,
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

/// What a CustomResourceDefinition says about one version beyond names.
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
    #[must_use]
    pub fn counts_generations(&self) -> bool {
        matches!(self.strategy, Strategy::Custom(_) | Strategy::Definition)
    }

    /// May an update come without a resource version?
    #[must_use]
    pub fn allows_unconditional_update(&self) -> bool {
        !matches!(self.strategy, Strategy::Custom(_) | Strategy::Definition | Strategy::Lease)
    }

    /// Does an update of a missing object create it?
    #[must_use]
    pub fn allows_create_on_update(&self) -> bool {
        matches!(self.strategy, Strategy::Lease | Strategy::Event)
    }

    /// Spelling of names.
    #[must_use]
    pub fn name_rule(&self) -> fn(&str) -> Vec<String> {
        match self.strategy {
            Strategy::Namespace => naming::dns_label,
            _ => naming::dns_subdomain,
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
        if let (true, true, Some(fields)) = (self.is_custom(), self.has_status, object.as_object_mut()) {
            fields.remove("status");
        }
        match self.strategy {
            Strategy::Namespace => prepare_namespace(object),
            Strategy::Secret => prepare_secret(object),
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
                copy_field(object, old, "spec");
                label_namespace(object);
            }
            Strategy::Secret => prepare_secret(object),
            Strategy::Definition => crds::prepare_update(object, old),
            _ => {}
        }
    }

    /// What is wrong with the object beyond its schema.
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        match self.strategy {
            Strategy::Secret => {
                let mut causes = validate_data(object, old);
                if old.is_some_and(|old| old["type"] != object["type"]) {
                    causes.push(Cause::invalid("type", &object["type"], "field is immutable"));
                }
                causes
            }
            Strategy::ConfigMap => validate_data(object, old),
            Strategy::Event => validate_event(object),
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
    #[must_use]
    pub fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        match self.strategy {
            Strategy::Definition => crds::warnings(object, old),
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

/// `stringData` is only for writing; it ends up in `data`.
fn prepare_secret(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    if let Some(Value::Object(texts)) = fields.remove("stringData") {
        let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
        for (key, text) in texts {
            data[key] = BASE64.encode(text.as_str().unwrap_or_default()).into();
        }
    }
    if fields.get("type").and_then(Value::as_str).unwrap_or_default().is_empty() {
        fields.insert("type".to_owned(), "Opaque".into());
    }
}

fn validate_data(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut bytes = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in object[field].as_object().into_iter().flatten() {
            bytes += value.as_str().map_or(0, str::len);
            let legal = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            if key.is_empty() || key.len() > 253 || !key.chars().all(legal) {
                let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
                              'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
                              '[-._a-zA-Z0-9]+')";
                causes.push(Cause::invalid(format!("{field}[{key}]"), &key.as_str().into(), detail));
            }
        }
    }
    if bytes > DATA_BYTES_MAX {
        causes.push(Cause::too_long("data", DATA_BYTES_MAX as u64));
    }
    if let Some(old) = old.filter(|old| old["immutable"] == true) {
        for field in ["immutable", "data", "binaryData"] {
            if old[field] != object[field] {
                causes.push(Cause::forbidden(field, "field is immutable when `immutable` is set"));
            }
        }
    }
    causes
}

/// An event lives beside the object it is about.
fn validate_event(object: &Value) -> Vec<Cause> {
    let about = object["involvedObject"]["namespace"].as_str().unwrap_or_default();
    let namespace = object::text(object, "namespace");
    if about.is_empty() || about == namespace {
        return Vec::new();
    }
    let message = format!("Invalid value: \"{about}\": does not match event.namespace");
    vec![Cause::new(CauseReason::FieldValueInvalid, "involvedObject.namespace", message)]
}
