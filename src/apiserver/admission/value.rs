//! Reading and filling objects as JSON, and the checks several kinds share.

use serde_json::{Map, Value, json};

use crate::api::names::label;
use crate::apiserver::failure::Cause;
use crate::apiserver::naming;

/// The text at a JSON pointer; empty when missing.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
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

pub(super) fn check_version(object: &Value, pointer: &str, causes: &mut Vec<Cause>) {
    let version = text(object, pointer);
    if version.is_empty() {
        return;
    }
    let field = dotted(pointer);
    match version.strip_prefix('v') {
        None => causes.push(Cause::invalid(field, &json!(version), "must start with v")),
        Some(rest) if semver::Version::parse(rest).is_err() => {
            causes.push(Cause::invalid(field, &json!(version), "must be a valid semantic version"));
        }
        Some(_) => {}
    }
}

/// `/spec/version` as `spec.version`.
pub(super) fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

pub(super) fn immutable(old: Option<&Value>, new: &Value, pointer: &str, causes: &mut Vec<Cause>) {
    let Some(old) = old else { return };
    if old.pointer(pointer) != new.pointer(pointer) {
        causes.push(Cause::forbidden(dotted(pointer), "field is immutable"));
    }
}

/// Names that become label values must be spelled like them.
pub(super) fn check_name(object: &Value, causes: &mut Vec<Cause>) {
    let name = text(object, "/metadata/name");
    if let Some(complaint) = naming::label_value(name).first() {
        let detail = format!("must be a valid label value: {complaint}");
        causes.push(Cause::invalid("metadata.name", &json!(name), &detail));
    }
}

/// `3` or `25%`.
pub(super) fn check_int_or_percent(object: &Value, pointer: &str, causes: &mut Vec<Cause>) {
    let Some(Value::String(value)) = object.pointer(pointer) else { return };
    let percent = value.strip_suffix('%').and_then(|digits| digits.parse::<u32>().ok());
    if percent.is_none() {
        let detail = "must be either an int or a percentage: invalid value for IntOrString: \
                      invalid type: string is not a percentage";
        causes.push(Cause::invalid(dotted(pointer), &json!(value), detail));
    }
}

/// Names are generated from templates; the random part keeps them apart.
pub(super) fn check_naming(object: &Value, pointer: &str, causes: &mut Vec<Cause>) {
    let template = text(object, pointer);
    if template.is_empty() {
        return;
    }
    let compact: String = template.chars().filter(|c| !c.is_whitespace()).collect();
    if !compact.contains("{{.random}}") {
        let detail = "invalid template, {{ .random }} is missing";
        causes.push(Cause::invalid(dotted(pointer), &json!(template), detail));
    }
}

/// Taints that Cluster API or Kubernetes itself sets and removes.
pub(super) fn check_taints(object: &Value, pointer: &str, worker: bool, causes: &mut Vec<Cause>) {
    const RESERVED: [&str; 2] =
        ["node.cluster.x-k8s.io/uninitialized", "node.cluster.x-k8s.io/outdated-revision"];
    let taints = object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (index, taint) in taints.iter().enumerate() {
        let key = text(taint, "/key");
        let reserved = RESERVED.contains(&key)
            || key.starts_with("node.cloudprovider.kubernetes.io/")
            || (key.starts_with("node.kubernetes.io/") && key != "node.kubernetes.io/out-of-service");
        let complaint = match key {
            _ if reserved => "taint key is not allowed",
            "node-role.kubernetes.io/master" => {
                "taint is deprecated since 1.24 and should not be used anymore"
            }
            "node-role.kubernetes.io/control-plane" if worker => "taint is not allowed for worker Machines",
            _ => continue,
        };
        causes.push(Cause::invalid(format!("{}[{index}].key", dotted(pointer)), &json!(key), complaint));
    }
}

/// Replicas when they are not given: what the autoscaler's bounds allow, or one.
pub(super) fn default_replicas(old: Option<&Value>, new: &mut Value) {
    if new.pointer("/spec/replicas").is_some_and(|replicas| !replicas.is_null()) {
        return;
    }
    let bound = |which: &str| {
        let key = format!("cluster.x-k8s.io/cluster-api-autoscaler-node-group-{which}-size");
        new["metadata"]["annotations"][key].as_str().and_then(|text| text.parse::<i64>().ok())
    };
    let replicas = match (bound("min"), bound("max")) {
        (Some(min), Some(max)) => {
            let before = old.and_then(|old| old["spec"]["replicas"].as_i64());
            before.map_or(min, |before| if before < min { min } else { before.min(max) })
        }
        _ => 1,
    };
    set(new, &["spec"], "replicas", json!(replicas));
}
