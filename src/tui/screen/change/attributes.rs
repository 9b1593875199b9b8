//! The attributes that a cluster stores, and those that a plan changes, as lines: path, value, verdict. Must not know
//! how they are drawn.

use serde_json::{Value, json};

use crate::change::difference::{FieldChange, differences, is_secret};
use crate::change::document::{DocumentKind, Inputs};
use crate::change::plan::ChangePlan;
use crate::change::rules::{Judgement, rule_for};
use crate::text::sanitize_line;

/// A line of the configuration.
pub(super) enum Row {
    Heading(String),
    Attribute(Attribute),
}

/// One attribute.
pub(super) struct Attribute {
    pub path: String,
    pub value: String,
    /// What is wanted instead.
    pub new: Option<String>,
    /// Of the change that is wanted, else of any change. `None`: no rule knows it.
    pub verdict: Option<Judgement>,
    pub message: String,
    pub touches: String,
}

/// Every attribute that is stored or wanted, document by document.
pub(super) fn rows(inputs: &Inputs, plan: Option<&ChangePlan>) -> Vec<Row> {
    let mut rows = Vec::new();
    for kind in [DocumentKind::Cluster, DocumentKind::Kubelet, DocumentKind::Proxy] {
        let Some(document) = inputs.document(kind) else { continue };
        rows.push(Row::Heading(kind.name().to_owned()));
        let mut attributes = stored(kind, &document.value);
        attributes.extend(wanted(kind, plan));
        attributes.sort_by(|a, b| a.path.cmp(&b.path).then(b.new.is_some().cmp(&a.new.is_some())));
        // What is wanted stands in the place of what is stored.
        attributes.dedup_by(|a, b| a.path == b.path);
        rows.extend(attributes.into_iter().map(Row::Attribute));
    }
    rows
}

fn stored(kind: DocumentKind, value: &Value) -> Vec<Attribute> {
    differences(kind, &json!({}), value).iter().map(|change| of_rule(kind, change)).collect()
}

fn of_rule(kind: DocumentKind, change: &FieldChange) -> Attribute {
    let rule = rule_for(kind, &change.path);
    let touches: Vec<&str> = rule.iter().flat_map(|rule| &rule.touches).map(|c| c.name()).collect();
    let value = if is_secret(&change.path) { "(hidden)".to_owned() } else { change.new_text() };
    Attribute {
        path: sanitize_line(&change.path.to_string()),
        value: sanitize_line(&value),
        new: None,
        verdict: rule.map(|rule| rule.verdict),
        message: rule.map_or_else(|| "no rule knows this field".to_owned(), |rule| rule.message.clone()),
        touches: reaches(&touches),
    }
}

fn wanted(kind: DocumentKind, plan: Option<&ChangePlan>) -> Vec<Attribute> {
    let judged = plan.into_iter().flat_map(|plan| &plan.changes).filter(|j| j.change.kind == kind);
    judged
        .map(|judged| {
            let finding = &judged.finding;
            let touches: Vec<&str> = finding.touches.iter().map(|c| c.name()).collect();
            let instead = finding.alternative.as_ref().map(|other| format!(" Instead: {other}"));
            let because = judged.change.derived_from.as_ref().map(|of| format!(" Follows from {of}."));
            Attribute {
                path: sanitize_line(&judged.change.path.to_string()),
                value: sanitize_line(&judged.change.old_text()),
                new: Some(sanitize_line(&judged.change.new_text())),
                verdict: Some(finding.verdict),
                message: [Some(finding.message.clone()), instead, because].into_iter().flatten().collect(),
                touches: reaches(&touches),
            }
        })
        .collect()
}

fn reaches(touches: &[&str]) -> String {
    if touches.is_empty() {
        "reaches nothing that runs".to_owned()
    } else {
        format!("reaches {}", touches.join(", "))
    }
}
