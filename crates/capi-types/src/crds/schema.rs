//! From Rust types to the structural schemas an API server accepts: everything inlined, no null
//! types, explicit list types. Knows nothing of Cluster API kinds but the few Kubernetes types they
//! embed, whose rules the Rust declarations cannot carry.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::super::reference::CONDITION_TYPE;

/// What a condition's reason looks like.
const REASON: &str = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
/// What a quantity looks like: a number with a decimal, binary or exponent suffix.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
const PRESERVE_UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const LIST_TYPE: &str = "x-kubernetes-list-type";

/// Makes structural schemas. Types that several kinds share are prepared once.
pub(super) struct Schemas {
    generator: SchemaGenerator,
    prepared: BTreeMap<String, Value>,
}

impl Default for Schemas {
    fn default() -> Self {
        Self { generator: SchemaSettings::draft2020_12().into_generator(), prepared: BTreeMap::new() }
    }
}

impl Schemas {
    /// The structural schema of a type.
    pub(super) fn of<T: JsonSchema>(&mut self) -> Value {
        let schema = self.generator.subschema_for::<T>();
        self.inline(schema.to_value())
    }

    /// Resolves references and rewrites one schema and everything below it.
    fn inline(&mut self, schema: Value) -> Value {
        let Value::Object(mut schema) = schema else {
            // `true` accepts anything.
            return json!({ PRESERVE_UNKNOWN: true });
        };
        // A structural schema has no references: what stands beside one is laid over it.
        if let Some(base) = self.take_base(&mut schema) {
            return overlay(base, Value::Object(schema));
        }
        // Before what is below: a type of its own decides which keys matter.
        drop_null(&mut schema);
        for key in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get_mut(key) {
                *inner = self.inline(inner.take());
            }
        }
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            for property in properties.values_mut() {
                *property = self.inline(property.take());
            }
        }
        name_list_type(&mut schema);
        // The one place where a structural schema may have alternatives.
        if schema.contains_key(INT_OR_STRING) {
            schema.insert("anyOf".to_owned(), json!([{ "type": "integer" }, { "type": "string" }]));
        }
        // An empty schema would have the server prune everything there.
        if schema.is_empty() {
            schema.insert(PRESERVE_UNKNOWN.to_owned(), Value::Bool(true));
        }
        Value::Object(schema)
    }

    /// The schema that `schema` refers to, directly or as the one alternative to null.
    fn take_base(&mut self, schema: &mut Map<String, Value>) -> Option<Value> {
        if let Some(reference) = schema.remove("$ref") {
            return Some(self.definition(reference.as_str()?.rsplit('/').next()?));
        }
        let Some(Value::Array(alternatives)) = schema.remove("anyOf") else { return None };
        // Only options have alternatives here; any other would lose all but the first.
        let other = alternatives.into_iter().find(|alternative| alternative["type"] != "null")?;
        Some(self.inline(other))
    }

    fn definition(&mut self, name: &str) -> Value {
        if let Some(prepared) = self.prepared.get(name) {
            return prepared.clone();
        }
        let schema = self.generator.definitions().get(name).cloned().unwrap_or(Value::Bool(true));
        let mut schema = self.inline(schema);
        // Kubernetes' own texts are long, and the same in each kind that embeds the type.
        if let Some(short) = name.strip_prefix("io.k8s.").and_then(|name| name.rsplit('.').next()) {
            drop_descriptions(&mut schema);
            schema = overlay(schema, kubernetes_rules(short));
        }
        self.prepared.insert(name.to_owned(), schema.clone());
        schema
    }
}

/// What upstream's schemas demand of the Kubernetes types that our kinds embed, beyond their fields.
fn kubernetes_rules(type_: &str) -> Value {
    const MAP_TYPE: &str = "x-kubernetes-map-type";
    match type_ {
        "Condition" => json!({ "properties": {
            "message": { "maxLength": 32768 },
            "observedGeneration": { "minimum": 0 },
            "reason": { "minLength": 1, "maxLength": 1024, "pattern": REASON },
            "status": { "enum": ["True", "False", "Unknown"] },
            "type": { "maxLength": 316, "pattern": CONDITION_TYPE },
        } }),
        "ConfigMapKeySelector" | "SecretKeySelector" => json!({
            MAP_TYPE: "atomic", "required": ["key"], "properties": { "name": { "default": "" } },
        }),
        "LocalObjectReference" => json!({
            MAP_TYPE: "atomic", "required": null, "properties": { "name": { "default": "" } },
        }),
        "FileKeySelector" => {
            json!({ MAP_TYPE: "atomic", "properties": { "optional": { "default": false } } })
        }
        "LabelSelector" | "ObjectFieldSelector" | "ObjectReference" | "ResourceFieldSelector" => {
            json!({ MAP_TYPE: "atomic" })
        }
        "Quantity" => json!({ "pattern": QUANTITY }),
        _ => json!({}),
    }
}

/// Lays `over` on `base`: objects merge, null removes, anything else wins.
fn overlay(mut base: Value, over: Value) -> Value {
    let (Value::Object(fields), Value::Object(over)) = (&mut base, over) else { return base };
    for (key, value) in over {
        // As in `drop_null`: an empty default says no more than that the field is optional.
        if key == "default" && is_empty(&value) {
            continue;
        }
        let value = match fields.remove(&key) {
            // Into the old one, so that a rule for one field leaves its neighbours.
            Some(old @ Value::Object(_)) => overlay(old, value),
            _ => value,
        };
        if !value.is_null() {
            fields.insert(key, value);
        }
    }
    base
}

/// Kubernetes has no null type; an optional field is one that is not required. Empty defaults only
/// repeat that.
fn drop_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get("type") {
        let type_ = types.iter().find(|type_| *type_ != "null").cloned();
        schema.extend(type_.map(|type_| ("type".to_owned(), type_)));
    }
    if schema.get("default").is_some_and(is_empty) {
        schema.remove("default");
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// A list with keys is a map; every other list is replaced as a whole.
fn name_list_type(schema: &mut Map<String, Value>) {
    if schema.get("type").is_some_and(|type_| type_ == "array") {
        // Stated even where it is the server's default, as upstream's definitions state it.
        let keyed = schema.contains_key("x-kubernetes-list-map-keys");
        schema.insert(LIST_TYPE.to_owned(), json!(if keyed { "map" } else { "atomic" }));
    }
}

fn drop_descriptions(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    schema.remove("description");
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key) {
            drop_descriptions(inner);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(drop_descriptions);
    }
}
