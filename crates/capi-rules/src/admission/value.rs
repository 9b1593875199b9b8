//! Reading and filling objects as JSON, whatever shape they have. Must not know a kind.

use serde_json::{Map, Value, json};

use capi_types::names::label;

/// The text at a JSON pointer; empty when missing.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The value at a JSON pointer; null when missing.
pub(super) fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

/// `namespace/name` of an object.
pub(super) fn full_name(object: &Value) -> String {
    format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

/// The items of a list; none when it is something else.
pub(super) fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The items at a JSON pointer.
pub(super) fn items_at<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    items(at(object, pointer))
}

/// The value of an annotation, also an empty one.
pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(key).and_then(Value::as_str)
}

/// Is anything set in here? As upstream's `IsDefined` of a struct: empty objects and empty
/// texts are as good as missing.
pub(super) fn is_defined(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => map.values().any(is_defined),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => true,
    }
}

/// The map at these fields, created when missing. `None` when something else is in the way: the schema
/// will refuse the object.
pub(super) fn map<'a>(object: &'a mut Value, fields: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let mut at = object.as_object_mut()?;
    for field in fields {
        at = at.entry((*field).to_owned()).or_insert_with(|| json!({})).as_object_mut()?;
    }
    Some(at)
}

/// Sets a field that is missing or empty text.
pub(super) fn fill(object: &mut Value, fields: &[&str], key: &str, value: Value) {
    if let Some(map) = map(object, fields) {
        let missing = map.get(key).is_none_or(|old| old.is_null() || *old == json!(""));
        if missing {
            map.insert(key.to_owned(), value);
        }
    }
}

pub(super) fn set(object: &mut Value, fields: &[&str], key: &str, value: Value) {
    if let Some(map) = map(object, fields) {
        map.insert(key.to_owned(), value);
    }
}

/// Every object of a cluster carries its name.
pub(super) fn label_cluster(object: &mut Value) {
    let cluster = text(object, "/spec/clusterName").to_owned();
    if !cluster.is_empty() {
        set(object, &["metadata", "labels"], label::CLUSTER_NAME, json!(cluster));
    }
}

/// `1.35.0` becomes `v1.35.0`.
pub(super) fn prefix_version(object: &mut Value, pointer: &str) {
    if let Some(Value::String(version)) = object.pointer_mut(pointer)
        && !version.is_empty()
        && !version.starts_with('v')
    {
        version.insert(0, 'v');
    }
}
