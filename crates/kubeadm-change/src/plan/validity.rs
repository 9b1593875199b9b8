//! Are the documents that are asked for sound? Owns the comparison with what was wrong before.

use serde_json::Value;

use super::super::check::{self, DocumentFinding, FindingSeverity};
use super::super::convert;
use super::super::document::{DocumentKind, read_inputs};
use super::super::request::{WantedDocument, WantedDocuments};
use super::super::yaml;

/// What is wrong with the target and was not wrong with what it is made from, or keeps kubeadm from working at all.
pub(super) fn check(target: &WantedDocuments, minor: Option<u64>) -> Vec<DocumentFinding> {
    let mut found = Vec::new();
    for wanted in &target.documents {
        let before: Vec<(String, String)> = findings(wanted, &wanted.old, minor)
            .into_iter()
            .map(|finding| (finding.path, finding.message))
            .collect();
        let after = findings(wanted, &wanted.new, minor).into_iter();
        // kubeadm refuses the whole document, whoever wrote that into it: no command of the plan would work.
        let stops_kubeadm = |f: &DocumentFinding| {
            f.severity == FindingSeverity::Error && wanted.kind == DocumentKind::Cluster
        };
        found.extend(
            after.filter(|f| stops_kubeadm(f) || !before.contains(&(f.path.clone(), f.message.clone()))),
        );
    }
    found
}

fn findings(wanted: &WantedDocument, value: &Value, minor: Option<u64>) -> Vec<DocumentFinding> {
    let place = format!("{}, as asked for", wanted.kind.name());
    // Written and read again, since checks look at a document as it stands in its stored version.
    let written = match convert::to_stored(wanted.kind, &wanted.version, value) {
        Ok(value) => yaml::write(&value),
        Err(error) => {
            return vec![DocumentFinding {
                severity: FindingSeverity::Error,
                kind: wanted.kind.name(),
                path: String::new(),
                place,
                message: error.to_string(),
            }];
        }
    };
    let read = read_inputs(&[(place, written)]).map(|read| read.documents).unwrap_or_default();
    read.iter().flat_map(|document| check::check(document, minor)).collect()
}
