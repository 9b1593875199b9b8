//! The attributes that a cluster stores, and those that a plan changes, as a tree: document, path, value, verdict. Must not know how
//! it is drawn.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::tui::widget::tree::Shape;
use capstan_base::text::sanitize_line;
use kubeadm_change::difference::{FieldChange, fields, is_secret};
use kubeadm_change::document::{DocumentKind, Inputs};
use kubeadm_change::path::{FieldPath, PathStep};
use kubeadm_change::plan::ChangePlan;
use kubeadm_change::rules::{Judgement, rule_for};

/// A line of the tree.
pub(super) struct Row {
    /// The document and the steps so far: tells lines apart.
    pub key: String,
    pub label: String,
    pub shape: Shape,
    /// Of a line that is a value.
    pub attribute: Option<Attribute>,
    /// Values below it that are wanted otherwise.
    pub changes: usize,
}

pub(super) struct Attribute {
    path: FieldPath,
    /// Its path as it is typed.
    pub path_text: String,
    pub value: String,
    /// What is wanted instead.
    pub new: Option<String>,
    /// Of the change that is wanted, else of any change. `None`: no rule knows it.
    pub verdict: Option<Judgement>,
    pub message: String,
    pub touches: String,
}

/// Every attribute that is stored or wanted, document by document; what is below a line of `closed` is left out.
pub(super) fn rows(inputs: &Inputs, plan: Option<&ChangePlan>, closed: &BTreeSet<String>) -> Vec<Row> {
    let mut rows = Vec::new();
    for kind in [DocumentKind::Cluster, DocumentKind::Kubelet, DocumentKind::Proxy] {
        let Some(document) = inputs.document(kind) else { continue };
        let mut attributes = stored(kind, &document.value);
        attributes.extend(wanted(kind, plan));
        attributes.sort_by(|a, b| a.path.cmp(&b.path).then(b.new.is_some().cmp(&a.new.is_some())));
        // What is wanted stands in the place of what is stored.
        attributes.dedup_by(|a, b| a.path == b.path);
        add_document(kind, attributes, &mut rows);
    }
    settle(&mut rows, closed);
    rows
}

/// The lines of a document: one for each step of a path, where it is not that of the line before.
fn add_document(kind: DocumentKind, attributes: Vec<Attribute>, rows: &mut Vec<Row>) {
    let row = |key: String, label: String, depth: usize, attribute| Row {
        key,
        label,
        shape: Shape { depth: u16::try_from(depth).unwrap_or(u16::MAX), has_children: false, open: true },
        attribute,
        changes: 0,
    };
    rows.push(row(kind.name().to_owned(), kind.name().to_owned(), 0, None));
    let mut before: Vec<PathStep> = Vec::new();
    for attribute in attributes {
        let steps = attribute.path.0.clone();
        let Some((last, parents)) = steps.split_last() else { continue };
        // Attributes are in the order of their paths, so that shared parents stand together.
        let common = before.iter().zip(parents).take_while(|(a, b)| a == b).count();
        for depth in common..parents.len() {
            let key = format!("{} {}", kind.name(), FieldPath(parents[..=depth].to_vec()));
            rows.push(row(key, label(&parents[depth]), depth + 1, None));
        }
        let key = format!("{} {}", kind.name(), attribute.path);
        rows.push(row(key, label(last), steps.len(), Some(attribute)));
        before = steps;
    }
}

fn label(step: &PathStep) -> String {
    sanitize_line(&FieldPath(vec![step.clone()]).to_string())
}

/// Notes what has lines below it, counts what changes there, and leaves out what is below a closed line.
fn settle(rows: &mut Vec<Row>, closed: &BTreeSet<String>) {
    let depths: Vec<u16> = rows.iter().map(|row| row.shape.depth).collect();
    let below = |at: usize| depths[at + 1..].iter().take_while(|depth| **depth > depths[at]).count();
    let changed: Vec<bool> =
        rows.iter().map(|row| row.attribute.as_ref().is_some_and(|a| a.new.is_some())).collect();
    let mut hidden = 0;
    let mut kept = Vec::with_capacity(rows.len());
    for (at, mut row) in rows.drain(..).enumerate() {
        let below = below(at);
        row.shape.has_children = below > 0;
        row.shape.open = below > 0 && !closed.contains(&row.key);
        row.changes = changed[at + 1..=at + below].iter().filter(|is| **is).count();
        if hidden > 0 {
            hidden -= 1;
            continue;
        }
        if below > 0 && !row.shape.open {
            hidden = below;
        }
        kept.push(row);
    }
    *rows = kept;
}

fn stored(kind: DocumentKind, value: &Value) -> Vec<Attribute> {
    fields(kind, value).iter().map(|change| of_rule(kind, change)).collect()
}

fn of_rule(kind: DocumentKind, change: &FieldChange) -> Attribute {
    let rule = rule_for(kind, &change.path);
    let touches: Vec<&str> = rule.iter().flat_map(|rule| &rule.touches).map(|c| c.name()).collect();
    let value = if is_secret(&change.path) { "(hidden)".to_owned() } else { change.new_text() };
    Attribute {
        path: change.path.clone(),
        path_text: sanitize_line(&change.path.to_string()),
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
                path: judged.change.path.clone(),
                path_text: sanitize_line(&judged.change.path.to_string()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use kubeadm_change::document::read_inputs;

    fn shown(closed: &[&str]) -> Vec<String> {
        let text = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.1\nclusterName: kubernetes\ndns: {}\napiServer: {certSANs: [a], extraArgs: [{name: v, value: \"2\"}, {name: w, value: \"3\"}]}\n";
        let inputs = read_inputs(&[("f".to_owned(), text.to_owned())]).expect("a document");
        let closed = closed.iter().map(|key| (*key).to_owned()).collect();
        let rows = rows(&inputs, None, &closed);
        rows.iter().map(|row| format!("{}{}", " ".repeat(row.shape.depth.into()), row.label)).collect()
    }

    #[test]
    fn paths_are_branches_also_of_values_that_are_the_default() {
        let all = [
            "ClusterConfiguration",
            " apiServer",
            "  certSANs",
            "  extraArgs",
            "   [v]",
            "   [w]",
            " clusterName",
            " kubernetesVersion",
        ];
        assert_eq!(shown(&[]), all);
    }

    #[test]
    fn what_is_below_a_closed_line_is_left_out() {
        let closed = ["ClusterConfiguration apiServer.extraArgs", "ClusterConfiguration apiServer.certSANs"];
        let left = [
            "ClusterConfiguration",
            " apiServer",
            "  certSANs",
            "  extraArgs",
            " clusterName",
            " kubernetesVersion",
        ];
        assert_eq!(shown(&closed), left);
    }
}
