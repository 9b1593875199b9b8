//! Columns of the built-in kinds, as kubectl users know them.
//!
//! Source: kubernetes `pkg/printers/internalversion/printers.go`, v1.35.

use serde_json::{Value, json};

use super::row::{AGE, ColumnRow, text};
use super::{Column, Source, go, workloads};

const NONE: &str = "<none>";
const UNKNOWN: &str = "<unknown>";

/// Columns after the name. `None`: a kind without a printer of its own.
pub(super) fn columns(group: &str, kind: &str) -> Option<Vec<Column>> {
    let rows: Vec<ColumnRow> = match (group, kind) {
        ("", "Namespace") => {
            vec![("Status", "string", 0, &["status.phase"], |o, _| o["status"]["phase"].clone()), AGE]
        }
        ("", "ConfigMap") => vec![
            ("Data", "string", 0, &["data", "binaryData"], |o, _| {
                json!(count(&o["data"]) + count(&o["binaryData"]))
            }),
            AGE,
        ],
        ("", "Secret") => vec![
            ("Type", "string", 0, &["type"], |o, _| o["type"].clone()),
            ("Data", "string", 0, &["data"], |o, _| json!(count(&o["data"]))),
            AGE,
        ],
        ("coordination.k8s.io", "Lease") => vec![
            ("Holder", "string", 0, &["spec.holderIdentity"], |o, _| json!(text(o, "/spec/holderIdentity"))),
            AGE,
        ],
        ("", "Node") => node().to_vec(),
        ("", "Pod") => workloads::pod(),
        ("apps", "DaemonSet") => workloads::daemon_set(),
        ("apps", "Deployment") => workloads::deployment(),
        ("" | "events.k8s.io", "Event") => event().to_vec(),
        ("autoscaling", "Scale") => vec![
            ("Desired", "integer", 0, &["spec.replicas"], |o, _| {
                json!(o["spec"]["replicas"].as_i64().unwrap_or(0))
            }),
            ("Available", "integer", 0, &["status.replicas"], |o, _| {
                json!(o["status"]["replicas"].as_i64().unwrap_or(0))
            }),
            AGE,
        ],
        _ => return None,
    };
    Some(rows.into_iter().map(column).collect())
}

/// Events have no leading name.
pub(super) fn hides_name(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("" | "events.k8s.io", "Event"))
}

fn column((name, type_, priority, fields, render): ColumnRow) -> Column {
    Column {
        name: name.to_owned(),
        type_: type_.to_owned(),
        format: String::new(),
        description: name.to_owned(),
        priority,
        source: Source::Native(fields, render),
    }
}

fn node() -> [ColumnRow; 9] {
    [
        ("Status", "string", 0, &["status.conditions", "spec.unschedulable"], |o, _| json!(node_status(o))),
        ("Roles", "string", 0, &["metadata.labels"], |o, _| json!(node_roles(o))),
        AGE,
        ("Version", "string", 0, &["status.nodeInfo"], |o, _| {
            json!(text(o, "/status/nodeInfo/kubeletVersion"))
        }),
        ("Internal-IP", "string", 1, &["status.addresses"], |o, _| node_address(o, "InternalIP")),
        ("External-IP", "string", 1, &["status.addresses"], |o, _| node_address(o, "ExternalIP")),
        ("OS-Image", "string", 1, &["status.nodeInfo"], |o, _| {
            or(text(o, "/status/nodeInfo/osImage"), UNKNOWN)
        }),
        ("Kernel-Version", "string", 1, &["status.nodeInfo"], |o, _| {
            or(text(o, "/status/nodeInfo/kernelVersion"), UNKNOWN)
        }),
        ("Container-Runtime", "string", 1, &["status.nodeInfo"], |o, _| {
            or(text(o, "/status/nodeInfo/containerRuntimeVersion"), UNKNOWN)
        }),
    ]
}

fn event() -> [ColumnRow; 10] {
    const SEEN: &[&str] = &[
        "firstTimestamp",
        "lastTimestamp",
        "deprecatedFirstTimestamp",
        "deprecatedLastTimestamp",
        "eventTime",
        "series",
    ];
    const OBJECT: &[&str] = &["involvedObject", "regarding"];
    [
        ("Last Seen", "string", 0, SEEN, |o, now| go::since(last_seen(o), now)),
        ("Type", "string", 0, &["type"], |o, _| json!(text(o, "/type"))),
        ("Reason", "string", 0, &["reason"], |o, _| json!(text(o, "/reason"))),
        ("Object", "string", 0, OBJECT, |o, _| json!(event_object(o))),
        ("Subobject", "string", 1, OBJECT, |o, _| {
            json!(either(o, "/involvedObject/fieldPath", "/regarding/fieldPath"))
        }),
        (
            "Source",
            "string",
            1,
            &["source", "deprecatedSource", "reportingComponent", "reportingController", "reportingInstance"],
            |o, _| json!(event_source(o)),
        ),
        ("Message", "string", 0, &["message", "note"], |o, _| json!(either(o, "/message", "/note").trim())),
        ("First Seen", "string", 1, SEEN, |o, now| go::since(first_seen(o), now)),
        ("Count", "string", 1, &["count", "deprecatedCount", "series"], |o, _| json!(event_count(o))),
        ("Name", "string", 1, &["metadata.name"], |o, _| json!(text(o, "/metadata/name"))),
    ]
}

fn either<'a>(object: &'a Value, first: &str, second: &str) -> &'a str {
    match text(object, first) {
        "" => text(object, second),
        found => found,
    }
}

fn or(text: &str, otherwise: &str) -> Value {
    json!(if text.is_empty() { otherwise } else { text })
}

fn count(map: &Value) -> usize {
    map.as_object().map_or(0, serde_json::Map::len)
}

fn node_status(node: &Value) -> String {
    let conditions = node["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    let status = match ready.map(|condition| &condition["status"]) {
        None => "Unknown",
        Some(status) if status == "True" => "Ready",
        Some(_) => "NotReady",
    };
    let cordoned = node["spec"]["unschedulable"] == json!(true);
    if cordoned { format!("{status},SchedulingDisabled") } else { status.to_owned() }
}

fn node_roles(node: &Value) -> String {
    let Some(labels) = node["metadata"]["labels"].as_object() else { return NONE.to_owned() };
    let mut roles: Vec<&str> = labels
        .iter()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            // Clusters of old have their roles under this label, and kubectl shows them still.
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { NONE.to_owned() } else { roles.join(",") }
}

fn node_address(node: &Value, type_: &str) -> Value {
    let addresses = node["status"]["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = addresses.iter().find(|address| address["type"] == type_);
    or(found.and_then(|address| address["address"].as_str()).unwrap_or_default(), NONE)
}

fn first_seen(event: &Value) -> &str {
    match either(event, "/firstTimestamp", "/deprecatedFirstTimestamp") {
        "" => text(event, "/eventTime"),
        found => found,
    }
}

fn last_seen(event: &Value) -> &str {
    match (
        text(event, "/series/lastObservedTime"),
        either(event, "/lastTimestamp", "/deprecatedLastTimestamp"),
    ) {
        // Events of the new API count in their series, and leave the last time of old empty.
        ("", "") => first_seen(event),
        ("", last) => last,
        (observed, _) => observed,
    }
}

fn event_count(event: &Value) -> i64 {
    let counts = [&event["series"]["count"], &event["count"], &event["deprecatedCount"]];
    // An event of the new API that did not repeat has no count.
    counts.into_iter().filter_map(Value::as_i64).find(|count| *count > 0).unwrap_or(1)
}

fn event_object(event: &Value) -> String {
    let kind = either(event, "/involvedObject/kind", "/regarding/kind").to_lowercase();
    match either(event, "/involvedObject/name", "/regarding/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn event_source(event: &Value) -> String {
    let component = either(event, "/source/component", "/deprecatedSource/component");
    let component = if component.is_empty() {
        either(event, "/reportingComponent", "/reportingController")
    } else {
        component
    };
    let host = either(event, "/source/host", "/deprecatedSource/host");
    let host = if host.is_empty() { text(event, "/reportingInstance") } else { host };
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}
