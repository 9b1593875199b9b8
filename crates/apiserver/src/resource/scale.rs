//! The scale subresource: `autoscaling/v1` Scale as a view of a custom resource. Must not know stores.
//!
//! Source: apiextensions-apiserver `pkg/registry/customresource/etcd.go` (`scaleFromCustomResource`), v0.35.

use serde_json::{Map, Value, json};

use super::{Resource, ScalePaths};
use crate::failure::Failure;
use crate::object;
use k8s_machinery::validation::cause::Cause;

const API_VERSION: &str = "autoscaling/v1";
/// What a patch finds where an object has no replicas field; upstream uses the same value.
const UNSET: i64 = i32::MIN as i64;

/// The Scale of an object. What the object leaves open is 0.
pub fn view(paths: &ScalePaths, object: &Value) -> Value {
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut status = json!({ "replicas": number(&paths.status_replicas) });
    let selector = paths.selector.as_deref().and_then(|path| object.pointer(path)).and_then(Value::as_str);
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale", "apiVersion": API_VERSION, "metadata": metadata,
        "spec": { "replicas": number(&paths.spec_replicas) }, "status": status,
    })
}

/// The Scale that a patch changes.
pub fn patched_view(paths: &ScalePaths, object: &Value) -> Value {
    let mut view = view(paths, object);
    // A patch that leaves replicas alone must be told from one that sets 0.
    if object.pointer(&paths.spec_replicas).is_none() {
        view["spec"]["replicas"] = UNSET.into();
    }
    view
}

/// Only an object with a replicas field has a Scale.
///
/// # Errors
/// 500, as upstream.
pub fn check_replicas(paths: &ScalePaths, object: &Value) -> Result<(), Failure> {
    if object.pointer(&paths.spec_replicas).is_some() {
        return Ok(());
    }
    let path = dotted(&paths.spec_replicas);
    Err(Failure::internal(format!("the spec replicas field \"{path}\" does not exist")))
}

fn dotted(pointer: &str) -> String {
    pointer.replace('/', ".")
}

/// The object with the replicas that `scale` wants. A resource version in it is a precondition.
///
/// # Errors
/// 400 for what is not a Scale, 409 for a stale resource version. Too few or too many replicas are found by [`check`].
pub fn apply(
    resource: &Resource,
    paths: &ScalePaths,
    object: &Value,
    scale: &Value,
) -> Result<Value, Failure> {
    if scale["kind"] != "Scale" || scale["apiVersion"] != API_VERSION {
        let given = format!("{} {}", scale["apiVersion"], scale["kind"]);
        return Err(Failure::bad_request(format!("{given} cannot be handled as a Scale of {API_VERSION}")));
    }
    let name = object::name(object);
    let replicas = match &scale["spec"]["replicas"] {
        // Go decodes an absent number as 0.
        Value::Null => 0,
        value => value.as_i64().filter(|count| i32::try_from(*count).is_ok()).ok_or_else(|| {
            Failure::bad_request(format!("Scale: spec.replicas: {value} is not a 32-bit integer"))
        })?,
    };
    if replicas == UNSET {
        let path = dotted(&paths.spec_replicas);
        return Err(Failure::bad_request(format!("the spec replicas field \"{path}\" cannot be empty")));
    }
    let version = object::text(scale, "resourceVersion");
    if !version.is_empty() && version != object::text(object, "resourceVersion") {
        return Err(Failure::stale(&resource.group, &resource.plural, name));
    }
    let mut object = object.clone();
    set(&mut object, &paths.spec_replicas, replicas.into());
    Ok(object)
}

/// What is wrong with the numbers and the selector that a Scale would show.
/// Source: apiextensions-apiserver `pkg/registry/customresource/validator.go`, v0.36.
pub fn check(paths: &ScalePaths, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for pointer in [&paths.spec_replicas, &paths.status_replicas] {
        let Some(value) = object.pointer(pointer) else { continue };
        let detail = match value.as_i64() {
            None => accessor(pointer, value, "int64"),
            Some(n) if n < 0 => "should be a non-negative integer".to_owned(),
            Some(n) if n > i64::from(i32::MAX) => format!("should be less than or equal to {}", i32::MAX),
            Some(_) => continue,
        };
        // Upstream shows the zero that stands for a number of another type.
        let shown = if value.is_i64() { value.clone() } else { 0.into() };
        causes.push(Cause::invalid(dotted(pointer), &shown, &detail));
    }
    if let Some((pointer, value)) = paths.selector.as_deref().and_then(|p| Some((p, object.pointer(p)?)))
        && !value.is_string()
    {
        causes.push(Cause::invalid(dotted(pointer), &"".into(), &accessor(pointer, value, "string")));
    }
    causes
}

/// Go's message for a field of another type.
fn accessor(pointer: &str, value: &Value, wanted: &str) -> String {
    let (path, found) = (
        pointer.replace('/', "."),
        match value {
            Value::Null => "<nil>",
            Value::Bool(_) => "bool",
            Value::Number(n) if n.is_f64() => "float64",
            Value::Number(_) => "int64",
            Value::String(_) => "string",
            Value::Array(_) => "[]interface {}",
            Value::Object(_) => "map[string]interface {}",
        },
    );
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("{path} accessor error: {shown} is of the type {found}, expected {wanted}")
}

/// Sets the value at a JSON pointer, making the objects on the way.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for step in pointer.trim_start_matches('/').split('/') {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[step];
    }
    *at = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_found_and_set() {
        let paths = ScalePaths {
            spec_replicas: "/spec/replicas".into(),
            status_replicas: "/status/replicas".into(),
            selector: Some("/status/selector".into()),
        };
        let object = json!({"metadata": {"name": "a", "resourceVersion": "5"},
            "status": {"replicas": 2, "selector": "x=y"}});
        let scale = view(&paths, &object);
        assert_eq!((&scale["spec"]["replicas"], &scale["status"]["selector"]), (&json!(0), &json!("x=y")));
        let mut changed = json!({});
        set(&mut changed, &paths.spec_replicas, 3.into());
        assert_eq!(changed, json!({"spec": {"replicas": 3}}));
    }
}
