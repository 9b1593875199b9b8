//! Are the documents that are asked for sound? Owns the comparison with what was wrong before.

use super::super::check::{self, DocumentFinding, FindingSeverity};
use super::super::convert;
use super::super::document::{Inputs, read_inputs};
use super::super::request::WantedDocuments;
use super::super::yaml;

/// What is wrong with the target and was not wrong with what is stored.
pub(super) fn check(inputs: &Inputs, target: &WantedDocuments, minor: Option<u64>) -> Vec<DocumentFinding> {
    let before: Vec<(String, String)> = inputs
        .documents
        .iter()
        .flat_map(|document| check::check(document, minor))
        .map(|finding| (finding.path, finding.message))
        .collect();
    let mut found = Vec::new();
    for wanted in &target.documents {
        let place = format!("{}, as asked for", wanted.kind.name());
        let written = match convert::to_stored(wanted.kind, &wanted.version, &wanted.new) {
            Ok(value) => yaml::write(&value),
            Err(error) => {
                found.push(DocumentFinding {
                    severity: FindingSeverity::Error,
                    kind: wanted.kind.name(),
                    path: String::new(),
                    place,
                    message: error.to_string(),
                });
                continue;
            }
        };
        if let Ok(read) = read_inputs(&[(place, written)]) {
            found.extend(read.documents.iter().flat_map(|document| check::check(document, minor)));
        }
    }
    found.retain(|finding| !before.contains(&(finding.path.clone(), finding.message.clone())));
    found
}
