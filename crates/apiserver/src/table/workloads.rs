//! Columns of pods and of what controls them.
//!
//! Source: kubernetes `pkg/printers/internalversion/printers.go`, v1.35; of `printPod` the states of containers that
//! are not running, not init containers.

use serde_json::{Value, json};

use super::row::{AGE, ColumnRow, text};

pub(super) fn pod() -> Vec<ColumnRow> {
    const STATUS: &[&str] =
        &["metadata.deletionTimestamp", "status.phase", "status.reason", "status.containerStatuses"];
    const CONTAINERS: &[&str] = &["spec.containers", "status.containerStatuses"];
    vec![
        ("Ready", "string", 0, CONTAINERS, |o, _| {
            let ready = statuses(o).iter().filter(|status| status["ready"] == json!(true)).count();
            json!(format!("{ready}/{}", o["spec"]["containers"].as_array().map_or(0, Vec::len)))
        }),
        ("Status", "string", 0, STATUS, |o, _| json!(pod_status(o))),
        ("Restarts", "string", 0, CONTAINERS, |o, _| {
            let restarts: u64 = statuses(o).iter().filter_map(|s| s["restartCount"].as_u64()).sum();
            json!(restarts.to_string())
        }),
        AGE,
        ("IP", "string", 1, &["status.podIP"], |o, _| some(text(o, "/status/podIP"))),
        ("Node", "string", 1, &["spec.nodeName"], |o, _| some(text(o, "/spec/nodeName"))),
    ]
}

pub(super) fn daemon_set() -> Vec<ColumnRow> {
    vec![
        ("Desired", "integer", 0, &["status"], |o, _| number(o, "/status/desiredNumberScheduled")),
        ("Current", "integer", 0, &["status"], |o, _| number(o, "/status/currentNumberScheduled")),
        ("Ready", "integer", 0, &["status"], |o, _| number(o, "/status/numberReady")),
        ("Up-to-date", "integer", 0, &["status"], |o, _| number(o, "/status/updatedNumberScheduled")),
        ("Available", "integer", 0, &["status"], |o, _| number(o, "/status/numberAvailable")),
        AGE,
    ]
}

pub(super) fn deployment() -> Vec<ColumnRow> {
    vec![
        ("Ready", "string", 0, &["spec.replicas", "status"], |o, _| {
            let ready = number(o, "/status/readyReplicas");
            json!(format!("{ready}/{}", number(o, "/spec/replicas")))
        }),
        ("Up-to-date", "integer", 0, &["status"], |o, _| number(o, "/status/updatedReplicas")),
        ("Available", "integer", 0, &["status"], |o, _| number(o, "/status/availableReplicas")),
        AGE,
    ]
}

fn statuses(pod: &Value) -> &[Value] {
    pod["status"]["containerStatuses"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn pod_status(pod: &Value) -> String {
    let waiting = statuses(pod).iter().find_map(|status| {
        let state = &status["state"];
        state["waiting"]["reason"].as_str().or_else(|| state["terminated"]["reason"].as_str())
    });
    let phase = [text(pod, "/status/reason"), text(pod, "/status/phase")].into_iter().find(|s| !s.is_empty());
    match (text(pod, "/metadata/deletionTimestamp"), waiting) {
        ("", Some(reason)) => reason,
        ("", None) => phase.unwrap_or("Unknown"),
        _ => "Terminating",
    }
    .to_owned()
}

fn number(object: &Value, pointer: &str) -> Value {
    json!(object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0))
}

fn some(text: &str) -> Value {
    json!(if text.is_empty() { "<none>" } else { text })
}
