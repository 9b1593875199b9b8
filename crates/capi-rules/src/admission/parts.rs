//! Parts that several kinds have in common, and their rules: versions, taints, metadata of templates,
//! rollout strategies, health checks, what must not change. Must not know which kind is looked at.
//!
//! Source: cluster-api `core/webhooks/admission`, `internal/util/taints/validation.go`,
//! `api/core/v1beta2/common_types.go` (`ObjectMeta.Validate`), v1.14.2.

use serde_json::{Value, json};

use super::finding::Findings;
use super::value::{is_defined, items, text};
use k8s_machinery::validation::{labels, naming};
use k8s_machinery::version;

/// Shorter startup timeouts are refused; 0 switches the check off.
const NODE_STARTUP_TIMEOUT_S_MIN: i64 = 30;

/// A Kubernetes version. Empty is fine.
pub(super) fn check_version(version: &str, field: &str, out: &mut Findings) {
    if version.is_empty() {
        return;
    }
    if !version.starts_with('v') {
        out.invalid(field, &json!(version), "must start with v");
    }
    // Both complaints come where both apply, as upstream adds them up.
    if !version::is_strict(version) {
        out.invalid(field, &json!(version), "must be a valid semantic version");
    }
}

/// A field that is set once. `pointer` is a JSON pointer below the object.
pub(super) fn check_fixed(old: Option<&Value>, new: &Value, pointer: &str, out: &mut Findings) {
    // On creation there is nothing that could be changed.
    let Some(old) = old else { return };
    if old.pointer(pointer) != new.pointer(pointer) {
        out.forbidden(dotted(pointer), "field is immutable");
    }
}

/// `/spec/version` as `spec.version`.
pub(super) fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// Labels and annotations of a template.
pub(super) fn check_metadata(template: &Value, field: &str, out: &mut Findings) {
    labels::validate_labels(&template["labels"], &format!("{field}.labels"), &mut out.causes);
    labels::validate_annotations(&template["annotations"], &format!("{field}.annotations"), &mut out.causes);
}

/// `3` or `25%`.
pub(super) fn check_int_or_percent(value: &Value, field: &str, out: &mut Findings) {
    let Some(text) = value.as_str() else { return };
    let why = match text.strip_suffix('%') {
        None => "invalid type: string is not a percentage".to_owned(),
        Some(digits) if digits.parse::<i64>().is_ok() => return,
        Some(digits) => {
            format!("invalid value {text:?}: strconv.Atoi: parsing {digits:?}: invalid syntax")
        }
    };
    let detail = format!("must be either an int or a percentage: invalid value for IntOrString: {why}");
    out.invalid(field, value, &detail);
}

/// `rollout.strategy` of Machines in a deployment; `field` is its path.
pub(super) fn check_rollout_strategy(strategy: &Value, field: &str, out: &mut Findings) {
    let rolling = &strategy["rollingUpdate"];
    for name in ["maxUnavailable", "maxSurge"] {
        check_int_or_percent(&rolling[name], &format!("{field}.rollingUpdate.{name}"), out);
    }
    // Numbers only: `0%` passes upstream too, and rollouts then count it as 1.
    if rolling["maxUnavailable"] == 0 && rolling["maxSurge"] == 0 {
        let detail = "maxUnavailable and maxSurge cannot both be 0";
        out.invalid(format!("{field}.rollingUpdate"), &json!("0"), detail);
    }
}

pub(super) fn check_max_in_flight(remediation: &Value, field: &str, out: &mut Findings) {
    check_int_or_percent(&remediation["maxInFlight"], &format!("{field}.maxInFlight"), out);
}

/// What a health check and its classes share; `field` is the path of the object with `checks` in it.
pub(super) fn check_health_limits(health: &Value, field: &str, out: &mut Findings) {
    let timeout = &health["checks"]["nodeStartupTimeoutSeconds"];
    // A kubelet needs a moment: a shorter timeout would replace Machines that are coming up.
    if timeout.as_i64().is_some_and(|s| s != 0 && s < NODE_STARTUP_TIMEOUT_S_MIN) {
        out.invalid(format!("{field}.checks.nodeStartupTimeoutSeconds"), timeout, "must be at least 30s");
    }
    let limit = &health["remediation"]["triggerIf"]["unhealthyLessThanOrEqualTo"];
    let field = format!("{field}.remediation.triggerIf.unhealthyLessThanOrEqualTo");
    check_int_or_percent(limit, &field, out);
}

/// A health check inside a topology or a class counts when it sets any field but whether it is on.
pub(super) fn has_health_check(health: &Value) -> bool {
    is_defined(&health["checks"]) || is_defined(&health["remediation"])
}

/// Taints that Cluster API, Kubernetes or its cloud providers set and remove themselves.
pub(super) fn check_taints(taints: &Value, field: &str, out: &mut Findings) {
    for (index, taint) in items(taints).iter().enumerate() {
        let key = text(taint, "/key");
        let complaint = match key {
            "node.cluster.x-k8s.io/uninitialized" | "node.cluster.x-k8s.io/outdated-revision" => {
                Some("taint key is not allowed")
            }
            // Set by people, and so the exception to the prefix below.
            "node.kubernetes.io/out-of-service" => None,
            "node-role.kubernetes.io/master" => {
                Some("taint is deprecated since 1.24 and should not be used anymore")
            }
            _ if key.starts_with("node.kubernetes.io/") => Some(
                "taint key must not have the prefix node.kubernetes.io/, except for \
                 node.kubernetes.io/out-of-service",
            ),
            _ if key.starts_with("node.cloudprovider.kubernetes.io/") => {
                Some("taint key must not have the prefix node.cloudprovider.kubernetes.io/")
            }
            _ => None,
        };
        let field = format!("{field}[{index}].key");
        // A taint may be refused and misspelled at once; both are said.
        let spelling = naming::qualified_name(key);
        for detail in complaint.into_iter().chain(spelling.iter().map(String::as_str)) {
            out.invalid(field.clone(), &json!(key), detail);
        }
    }
}

/// Workers must not look like control planes.
pub(super) fn check_worker_taints(taints: &Value, field: &str, out: &mut Findings) {
    for (index, taint) in items(taints).iter().enumerate() {
        if text(taint, "/key") == "node-role.kubernetes.io/control-plane" {
            let field = format!("{field}[{index}].key");
            out.invalid(field, &taint["key"], "taint is not allowed for worker Machines");
        }
    }
}

/// Names that become label values must be spelled like them. `intro` begins the complaint.
pub(super) fn check_name(object: &Value, intro: &str, out: &mut Findings) {
    let name = text(object, "/metadata/name");
    for complaint in naming::label_value(name) {
        out.invalid("metadata.name", &json!(name), &format!("{intro} {complaint}"));
    }
}

/// The fields that differ, one line each, as the end of a refusal. Go's own comparison text is left
/// out: it is not meant to be reproduced.
pub(super) fn differences(old: &Value, new: &Value) -> String {
    // As deep as both are objects; lists are compared as wholes, for items have no names.
    fn walk(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
        if old == new {
            return;
        }
        if let (Value::Object(a), Value::Object(b)) = (old, new) {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let side = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                walk(&path, &side(a), &side(b), lines);
            }
            return;
        }
        if !old.is_null() {
            lines.push(format!("- {path}: {old}"));
        }
        if !new.is_null() {
            lines.push(format!("+ {path}: {new}"));
        }
    }
    let mut lines = Vec::new();
    walk("", old, new, &mut lines);
    lines.join("\n")
}
