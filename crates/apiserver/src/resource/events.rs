//! One stored event, two views: core `v1` and `events.k8s.io/v1`. Owns the renaming, and what an event must say;
//! must not know how events are kept or aggregated.
//!
//! Source: kubernetes `pkg/apis/events/v1/conversion.go`, `pkg/apis/core/validation/events.go`, v1.35.

use serde_json::Value;

use crate::object;
use k8s_machinery::validation::cause::Cause;
use k8s_machinery::validation::naming;

/// Longest reason, action and name of a reporting instance, in bytes.
const WORD_BYTES_MAX: usize = 128;
/// Longest message of an event with an `eventTime`, in bytes.
const NOTE_BYTES_MAX: usize = 1024;

/// Core name, events.k8s.io name.
const NAMES: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];
/// The same, for names in which one view is longer.
const REPORTING: [(&str, &str); 1] = [("reportingComponent", "reportingController")];

/// From the `events.k8s.io/v1` view to the stored core view.
pub fn to_core(event: &mut Value) {
    rename(event, |core, new| (new, core));
    event["apiVersion"] = "v1".into();
}

/// From the stored core view to the `events.k8s.io/v1` view.
pub fn from_core(event: &mut Value) {
    rename(event, |core, new| (core, new));
    event["apiVersion"] = "events.k8s.io/v1".into();
}

fn rename(event: &mut Value, direction: impl Fn(&'static str, &'static str) -> (&'static str, &'static str)) {
    let Some(fields) = event.as_object_mut() else { return };
    for (core, new) in NAMES.iter().chain(&REPORTING) {
        let (from, to) = direction(core, new);
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

/// What is wrong with an event in the core view. One without an `eventTime` is of the older kind, of which little is
/// asked; `is_strict`: it came through `events.k8s.io`, which takes only the newer kind.
pub fn validate(event: &Value, old: Option<&Value>, is_strict: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    if is_set(&event["eventTime"]) {
        newer(event, is_strict, &mut causes);
    } else {
        older(event, &mut causes);
    }
    match old {
        _ if !is_strict => {}
        Some(old) => unchanged(event, old, &mut causes),
        None => strict(event, &mut causes),
    }
    causes
}

/// It lives beside the object it is about.
fn older(event: &Value, causes: &mut Vec<Cause>) {
    let (about, namespace) = (namespace_of(event), object::text(event, "namespace"));
    // An event about a cluster-scoped object lives in `default`.
    if about != namespace && !(about.is_empty() && namespace == "default") {
        causes.push(elsewhere(about));
    }
}

fn newer(event: &Value, is_strict: bool, causes: &mut Vec<Cause>) {
    let namespace = object::text(event, "namespace");
    // An event about a cluster-scoped object lives in one of these two.
    if namespace_of(event).is_empty() && !matches!(namespace, "default" | "kube-system") {
        causes.push(elsewhere(""));
    }
    let field = if is_strict { "reportingController" } else { "reportingComponent" };
    let controller = text(event, "reportingComponent");
    if controller.is_empty() {
        causes.push(Cause::required(field, ""));
    }
    let complaints = naming::qualified_name(controller);
    causes.extend(complaints.iter().map(|complaint| Cause::invalid(field, &controller.into(), complaint)));
    for field in ["reportingInstance", "action", "reason"] {
        if text(event, field).is_empty() {
            causes.push(Cause::required(field, ""));
        }
        at_most(event, field, WORD_BYTES_MAX, causes);
    }
    at_most(event, "message", NOTE_BYTES_MAX, causes);
}

fn strict(event: &Value, causes: &mut Vec<Cause>) {
    series(event, causes);
    if !is_set(&event["eventTime"]) {
        causes.push(Cause::required("eventTime", ""));
    }
    let type_ = text(event, "type");
    if !matches!(type_, "Normal" | "Warning") {
        // Upstream shows no value here; the words have it.
        causes.push(Cause::invalid("type", &"".into(), &format!("has invalid value: {type_}")));
    }
    let source = &event["source"];
    for (field, is_set) in [
        ("firstTimestamp", is_set(&event["firstTimestamp"])),
        ("lastTimestamp", is_set(&event["lastTimestamp"])),
        ("count", event["count"].as_i64().is_some_and(|count| count != 0)),
        ("source", !text(source, "component").is_empty() || !text(source, "host").is_empty()),
    ] {
        if is_set {
            causes.push(Cause::invalid(field, &"".into(), "needs to be unset"));
        }
    }
}

/// Only the series of an event goes on.
fn unchanged(event: &Value, old: &Value, causes: &mut Vec<Cause>) {
    if event["series"] != old["series"] {
        series(event, causes);
    }
    for field in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ] {
        if event[field] != old[field] {
            let name = if field == "reportingComponent" { "reportingController" } else { field };
            causes.push(Cause::invalid(name, &event[field], "field is immutable"));
        }
    }
}

fn series(event: &Value, causes: &mut Vec<Cause>) {
    let series = &event["series"];
    if !series.is_object() {
        return;
    }
    if series["count"].as_i64().unwrap_or(0) < 2 {
        causes.push(Cause::invalid("series.count", &"".into(), "should be at least 2"));
    }
    if !is_set(&series["lastObservedTime"]) {
        causes.push(Cause::required("series.lastObservedTime", ""));
    }
}

fn at_most(event: &Value, field: &str, bytes_max: usize, causes: &mut Vec<Cause>) {
    if text(event, field).len() > bytes_max {
        let detail = format!("can have at most {bytes_max} characters");
        causes.push(Cause::invalid(field, &"".into(), &detail));
    }
}

fn elsewhere(about: &str) -> Cause {
    Cause::invalid("involvedObject.namespace", &about.into(), "does not match event.namespace")
}

fn namespace_of(event: &Value) -> &str {
    text(&event["involvedObject"], "namespace")
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn is_set(time: &Value) -> bool {
    time.as_str().is_some_and(|time| !time.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_views_tell_the_same() {
        let core = json!({"apiVersion": "v1", "involvedObject": {"kind": "Machine"}, "message": "m", "count": 2,
            "reportingComponent": "c", "reason": "R"});
        let mut event = core.clone();
        from_core(&mut event);
        assert_eq!(event["regarding"]["kind"], "Machine");
        assert_eq!(event["reportingController"], "c");
        assert!(event.get("involvedObject").is_none());
        to_core(&mut event);
        assert_eq!(event, core);
    }

    fn complaints(event: &Value, old: Option<&Value>, is_strict: bool) -> Vec<String> {
        validate(event, old, is_strict).iter().map(ToString::to_string).collect()
    }

    fn newer() -> Value {
        json!({"apiVersion": "v1", "metadata": {"name": "e", "namespace": "ns"}, "reason": "R", "action": "A",
            "type": "Normal", "message": "m", "eventTime": "2026-11-20T10:00:00.000000Z",
            "reportingComponent": "capstan", "reportingInstance": "i",
            "involvedObject": {"kind": "Machine", "name": "m", "namespace": "ns"}})
    }

    #[test]
    fn events_that_a_kube_apiserver_refuses_were_taken() {
        let mut half = newer();
        for field in ["action", "reportingInstance", "reportingComponent"] {
            half.as_object_mut().expect("an object").remove(field);
        }
        let expected = [
            "reportingComponent: Required value",
            "reportingComponent: Invalid value: \"\": name part must be non-empty",
        ];
        assert_eq!(complaints(&half, None, false)[..2], expected);
        let found = complaints(&half, None, false);
        assert_eq!(found[found.len() - 2..], ["reportingInstance: Required value", "action: Required value"]);
        assert_eq!(complaints(&newer(), None, false), Vec::<String>::new());
        assert_eq!(complaints(&newer(), None, true), Vec::<String>::new());
        let mut long = newer();
        long["message"] = "x".repeat(1025).into();
        assert_eq!(
            complaints(&long, None, false),
            ["message: Invalid value: \"\": can have at most 1024 characters"]
        );
        long.as_object_mut().expect("an object").remove("eventTime");
        assert_eq!(complaints(&long, None, false), Vec::<String>::new(), "the older kind has no such limit");
        assert_eq!(complaints(&long, None, true), ["eventTime: Required value"]);
    }

    #[test]
    fn an_event_lives_beside_what_it_is_about() {
        let wrong = |about: &str| {
            vec![format!(
                "involvedObject.namespace: Invalid value: \"{about}\": does not match event.namespace"
            )]
        };
        for (namespace, about, has_time, is_fine) in [
            ("ns", "ns", false, true),
            ("ns", "other", false, false),
            ("ns", "", false, false),
            ("default", "", false, true),
            ("ns", "other", true, true),
            ("ns", "", true, false),
            ("kube-system", "", true, true),
        ] {
            let mut event = newer();
            event["metadata"]["namespace"] = namespace.into();
            event["involvedObject"]["namespace"] = about.into();
            if !has_time {
                event["eventTime"] = Value::Null;
            }
            let expected = if is_fine { Vec::new() } else { wrong(about) };
            assert_eq!(complaints(&event, None, false), expected, "{namespace:?} {about:?} {has_time}");
        }
    }

    #[test]
    fn through_the_newer_group_only_the_series_goes_on() {
        let mut event = newer();
        event["series"] = json!({"count": 2, "lastObservedTime": "2026-11-20T10:00:01.000000Z"});
        assert_eq!(complaints(&event, Some(&newer()), true), Vec::<String>::new());
        event["series"]["count"] = json!(1);
        event["message"] = "other".into();
        let expected = [
            "series.count: Invalid value: \"\": should be at least 2",
            "message: Invalid value: \"other\": field is immutable",
        ];
        assert_eq!(complaints(&event, Some(&newer()), true), expected);
        assert_eq!(complaints(&event, Some(&newer()), false), Vec::<String>::new());
        let mut old_kind = newer();
        old_kind["count"] = json!(1);
        old_kind["source"] = json!({"component": "c"});
        old_kind["type"] = "Odd".into();
        let expected = [
            "type: Invalid value: \"\": has invalid value: Odd",
            "count: Invalid value: \"\": needs to be unset",
            "source: Invalid value: \"\": needs to be unset",
        ];
        assert_eq!(complaints(&old_kind, None, true), expected);
    }
}
