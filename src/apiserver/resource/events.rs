//! One stored event, two views: core `v1` and `events.k8s.io/v1`. Owns the renaming; must not know
//! how events are kept or aggregated.
//!
//! Source: kubernetes `pkg/apis/events/v1/conversion.go`, v1.35.

use serde_json::Value;

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
}
