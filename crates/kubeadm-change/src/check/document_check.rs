//! Findings about the values of one document. Owns reading a value by its path, and adding a finding at its place.

use serde_json::Value;

use super::super::document::Document;
use super::super::path::{FieldPath, PathStep};
use super::super::yaml::{Located, YamlShape};
use super::{DocumentFinding, FindingSeverity, finding};

pub(super) struct DocumentCheck<'d> {
    pub(super) document: &'d Document,
    pub(super) found: &'d mut Vec<DocumentFinding>,
}

impl DocumentCheck<'_> {
    /// What stands at a path; `null` for nothing.
    pub(super) fn value(&self, path: &[&str]) -> &Value {
        path.iter().fold(&self.document.value, |value, name| &value[*name])
    }

    /// A text that is not empty.
    pub(super) fn text(&self, path: &[&str]) -> Option<&str> {
        self.value(path).as_str().filter(|text| !text.is_empty())
    }

    /// The texts of a list.
    pub(super) fn texts(&self, path: &[&str]) -> Vec<String> {
        let items = self.value(path).as_array().into_iter().flatten();
        items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
    }

    pub(super) fn add(&mut self, severity: FindingSeverity, path: &str, message: String) {
        let path = FieldPath::parse(path).unwrap_or_default();
        let at = place(&self.document.located, &path).clone();
        self.found.push(finding(self.document, severity, &path, &at, message));
    }

    /// The value at a path is not what is expected.
    pub(super) fn error(&mut self, path: &[&str], expected: &str) {
        let value = self.text(path).unwrap_or_default().to_owned();
        let path = path.join(".");
        self.add(FindingSeverity::Error, &path, format!("{path} is `{value}`; expected {expected}"));
    }

    /// The same without the value, for what is secret or is not there.
    pub(super) fn refuse(&mut self, path: &str, message: &str) {
        self.add(FindingSeverity::Error, path, format!("{path} {message}"));
    }
}

/// What stands at `path`, or the nearest place above it.
pub(super) fn place<'l>(root: &'l Located, path: &FieldPath) -> &'l Located {
    let mut at = root;
    for step in &path.0 {
        let next = match (step, &at.shape) {
            (PathStep::Field(name), _) => at.get(name),
            (PathStep::Index(index), YamlShape::List(items)) => items.get(*index),
            (PathStep::Index(index), YamlShape::Map(entries)) => {
                entries.get(*index).map(|entry| &entry.value)
            }
            _ => None,
        };
        match next {
            Some(next) => at = next,
            None => return at,
        }
    }
    at
}
