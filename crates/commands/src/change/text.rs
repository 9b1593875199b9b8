//! The words of `capstan change` on a terminal or in a file. Owns layout; must not know rules.

use std::fmt::Write as _;

use similar::TextDiff;

use super::StoredTexts;
use kubeadm_change::check::{DocumentFinding, FindingSeverity};
use kubeadm_change::difference::FieldChange;
use kubeadm_change::document::Inputs;
use kubeadm_change::manifest_texts::ManifestTexts;

/// Findings, worst first, then what was read.
pub(super) fn findings(inputs: &Inputs, findings: &[DocumentFinding]) -> String {
    let mut text = String::new();
    let mut sorted: Vec<&DocumentFinding> = findings.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in sorted {
        let word = if finding.severity == FindingSeverity::Error { "error  " } else { "warning" };
        let _ = writeln!(text, "{word} {} {}: {}", finding.kind, finding.place, finding.message);
    }
    let errors = findings.iter().filter(|finding| finding.severity == FindingSeverity::Error).count();
    let read: Vec<String> =
        inputs.documents.iter().map(|d| format!("{} {}", d.kind.name(), d.version)).collect();
    let _ = writeln!(text, "{}: {errors} errors, {} warnings", read.join(", "), findings.len() - errors);
    text
}

/// The fields that differ, and the documents line by line.
pub(super) fn diff(changes: &[FieldChange], stored: &[StoredTexts]) -> String {
    if changes.is_empty() {
        return "nothing differs\n".to_owned();
    }
    let mut text = fields(changes);
    for StoredTexts { kind, before, after } in stored.iter().filter(|s| s.before != s.after) {
        let diff = TextDiff::from_lines(before.as_str(), after.as_str());
        let mut lines = diff.unified_diff();
        let _ = write!(
            text,
            "\n{}",
            lines.context_radius(2).header(&format!("{kind}, stored"), &format!("{kind}, asked for"))
        );
    }
    text
}

/// Manifests line by line, those that differ.
pub(super) fn manifests(manifests: &[ManifestTexts]) -> String {
    let mut text = String::new();
    for ManifestTexts { node, component, before, after } in manifests {
        let place = format!("{node}/etc/kubernetes/manifests/{component}.yaml");
        let diff = TextDiff::from_lines(before.as_str(), after.as_str());
        let mut lines = diff.unified_diff();
        let _ = write!(text, "{}", lines.header(&format!("a/{place}"), &format!("b/{place}")));
    }
    if text.is_empty() { "no manifest differs\n".to_owned() } else { text }
}

/// One line per field, under the name of its document.
pub(super) fn fields(changes: &[FieldChange]) -> String {
    let mut text = String::new();
    let mut kind = None;
    for change in changes {
        if kind != Some(change.kind) {
            let _ = writeln!(text, "{}", change.kind.name());
            kind = Some(change.kind);
        }
        let _ = writeln!(text, "  {}: {} → {}", change.path, change.old_text(), change.new_text());
    }
    text
}
