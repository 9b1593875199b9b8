//! The exact difference between an object as it is and as the server says it will be, as lines of
//! YAML. Leaves out what every write changes and no person decides (managedFields, resourceVersion,
//! generation) and the status, which no action writes. Must not know which action made the difference.

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use capstan_base::text;

/// One line of a unified diff, sanitised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    pub sign: Sign,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    Same,
    Removed,
    Added,
    /// Lines were left out here.
    Gap,
}

impl Sign {
    pub fn glyph(self) -> char {
        match self {
            Self::Same => ' ',
            Self::Removed => '-',
            Self::Added => '+',
            Self::Gap => '@',
        }
    }
}

/// Lines of context around each change.
const CONTEXT_LINES: usize = 3;

/// The changed lines with their surroundings; empty when nothing a person cares about changes.
pub fn diff(before: &Value, after: &Value) -> Vec<DiffLine> {
    let (before, after) = (yaml(before), yaml(after));
    let diff = TextDiff::from_lines(&before, &after);
    let mut lines = Vec::new();
    for (index, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
        if index > 0 {
            lines.push(DiffLine { sign: Sign::Gap, text: "…".to_owned() });
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => Sign::Same,
                ChangeTag::Delete => Sign::Removed,
                ChangeTag::Insert => Sign::Added,
            };
            lines.push(DiffLine { sign, text: text::sanitize_line(change.value().trim_end_matches('\n')) });
        }
    }
    lines
}

/// YAML of what a person decides about an object.
fn yaml(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for noise in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(noise);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            // kubectl's copy of the object would show every change a second time, in one long line.
            annotations.remove(capi_types::names::annotation::LAST_APPLIED);
        }
    }
    serde_saphyr::to_string(&object).unwrap_or_else(|error| format!("# not printable as YAML: {error}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn signs(lines: &[DiffLine]) -> String {
        lines.iter().map(|l| l.sign.glyph()).collect()
    }

    #[test]
    fn one_changed_field_is_one_pair_of_lines() {
        let before = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"replicas": 3}});
        let after = json!({"metadata": {"name": "a", "resourceVersion": "2"}, "spec": {"replicas": 5}});
        let lines = diff(&before, &after);
        assert_eq!(signs(&lines).matches('-').count(), 1, "{lines:?}");
        assert!(lines.contains(&DiffLine { sign: Sign::Added, text: "  replicas: 5".into() }), "{lines:?}");
    }

    #[test]
    fn noise_is_no_difference_and_hostile_text_is_tamed() {
        let before = json!({"metadata": {"name": "a", "generation": 1}});
        let after = json!({"metadata": {"name": "a", "generation": 2}});
        assert_eq!(diff(&before, &after), []);
        let lines = diff(&json!({"a": 1}), &json!({"a": "\u{202e}\u{1b}[31m"}));
        assert!(!lines.iter().any(|l| l.text.chars().any(text::is_hostile)), "{lines:?}");
    }
}
