//! What an object should be beside what it is: a row for each part of its spec and its status that people look for. Must not
//! know what is scrolled, nor which kind it is: what an object does not have is left out.

use ratatui::text::Line;
use serde_json::Value;

use crate::tui::paint::Paint;
use crate::tui::theme::Scope;

/// A word, where the spec has it, and where the status has it: the first place with a value.
type Row = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Sources: the v1beta2 types of Cluster API v1.14.2.
const ROWS: &[Row] = &[
    (
        "version",
        &["/spec/version", "/spec/topology/version", "/spec/template/spec/version"],
        &["/status/version", "/status/nodeInfo/kubeletVersion"],
    ),
    ("replicas", &["/spec/replicas"], &["/status/replicas"]),
    ("ready", &[], &["/status/readyReplicas"]),
    ("available", &[], &["/status/availableReplicas"]),
    ("up to date", &[], &["/status/upToDateReplicas"]),
    ("phase", &[], &["/status/phase"]),
    ("node", &[], &["/status/nodeRef/name"]),
    ("failure domain", &["/spec/failureDomain"], &["/status/failureDomain"]),
    ("provider id", &["/spec/providerID"], &[]),
    (
        "bootstrap",
        &["/spec/bootstrap/configRef/name"],
        &["/status/initialization/bootstrapDataSecretCreated"],
    ),
    (
        "infrastructure",
        &["/spec/infrastructureRef/name"],
        &["/status/initialization/infrastructureProvisioned"],
    ),
    ("control plane", &["/spec/controlPlaneRef/name"], &["/status/initialization/controlPlaneInitialized"]),
    ("class", &["/spec/topology/classRef/name"], &[]),
    ("endpoint", &["/spec/controlPlaneEndpoint/host"], &[]),
    (
        "max surge",
        &["/spec/rollout/strategy/rollingUpdate/maxSurge", "/spec/strategy/rollingUpdate/maxSurge"],
        &[],
    ),
    ("max unavailable", &["/spec/rollout/strategy/rollingUpdate/maxUnavailable"], &[]),
    ("rollout after", &["/spec/rollout/after", "/spec/rolloutAfter"], &[]),
    ("drain timeout s", &["/spec/deletion/nodeDrainTimeoutSeconds"], &[]),
    ("delete timeout s", &["/spec/deletion/nodeDeletionTimeoutSeconds"], &[]),
    ("paused", &["/spec/paused"], &[]),
    ("certificates end", &[], &["/status/certificatesExpiryDate"]),
    ("generation", &["/metadata/generation"], &["/status/observedGeneration"]),
];

/// Cells for the word, with a gap.
const WORD_WIDTH: usize = 17;

/// The rows under a heading; nothing of an object that has none of them. Its text is sanitised.
pub fn spec_beside_status(object: &Value, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let room = (width.saturating_sub(WORD_WIDTH + 2) / 2).max(1);
    let mut lines = Vec::new();
    for (word, spec, status) in ROWS {
        let (wanted, found) = (value(object, spec), value(object, status));
        if wanted.is_empty() && found.is_empty() {
            continue;
        }
        let scope = if wanted == found || wanted.is_empty() { Scope::Muted } else { Scope::Text };
        let spec = paint.cut_name(&wanted, room);
        lines.push(Line::from(vec![
            paint.span(Scope::Muted, format!("{word:<WORD_WIDTH$}")),
            paint.span(Scope::Text, format!("{spec:<room$}  ")),
            paint.span(scope, paint.cut_name(&found, room)),
        ]));
    }
    if !lines.is_empty() {
        let heading = format!("{:<WORD_WIDTH$}{:<room$}  STATUS", "", "SPEC");
        lines.insert(0, Line::from(paint.span(Scope::Column, heading)));
    }
    lines
}

fn value(object: &Value, places: &[&str]) -> String {
    match places.iter().find_map(|place| object.pointer(place)) {
        Some(Value::String(text)) => capstan_base::text::flat(text),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Bool(flag)) => if *flag { "yes" } else { "no" }.to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tui::theme::{Theme, Tier};
    use capstan_base::time::Timestamp;

    fn picture(object: &Value) -> Vec<String> {
        let theme = Theme::load("default", None, Tier::None, true).expect("shipped");
        let paint = Paint::new(&theme, Timestamp::default());
        let lines = spec_beside_status(object, &paint, 50);
        lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect()
    }

    #[test]
    fn what_is_wanted_stands_beside_what_is() {
        let object = json!({
            "metadata": {"generation": 3},
            "spec": {"replicas": 3, "template": {"spec": {"version": "v1.35.1"}}, "paused": true},
            "status": {"replicas": 2, "observedGeneration": 3, "phase": {"odd": 1}},
        });
        let expected = [
            "                 SPEC             STATUS",
            "version          v1.35.1",
            "replicas         3                2",
            "paused           yes",
            "generation       3                3",
        ];
        assert_eq!(picture(&object), expected);
        assert!(picture(&json!("odd")).is_empty() && picture(&json!({"spec": []})).is_empty());
    }
}
