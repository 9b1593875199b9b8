//! In which fields do two documents differ? Owns the comparison of JSON values by path; must not know a kind.

use std::fmt;

use serde_json::{Map, Value};

/// One field that is not as wanted.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct FieldDifference {
    /// Dotted, from the root of the compared document.
    pub path: String,
    /// `None`: it is not there.
    pub current: Option<Value>,
    /// `None`: it should not be there.
    pub desired: Option<Value>,
    /// The values may hold credentials and were left out.
    pub hidden: bool,
}

impl fmt::Display for FieldDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.hidden {
            return write!(f, "{}: changed (values not shown)", self.path);
        }
        let shown = |v: &Option<Value>| v.as_ref().map_or_else(|| "unset".to_owned(), Value::to_string);
        write!(f, "{}: {} → {}", self.path, shown(&self.current), shown(&self.desired))
    }
}

/// Where `current` differs from `desired`, down to single fields; lists are compared as a whole. Values below a path
/// that begins with one of `hidden` are left out.
pub fn differences(current: &Value, desired: &Value, hidden: &[&str]) -> Vec<FieldDifference> {
    let mut found = Vec::new();
    walk("", Some(current), Some(desired), hidden, &mut found);
    found
}

fn walk(
    path: &str,
    current: Option<&Value>,
    desired: Option<&Value>,
    hidden: &[&str],
    found: &mut Vec<FieldDifference>,
) {
    let nothing = Map::new();
    let objects = match (current, desired) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => Some((a, b)),
        // Down to the field that is set, not up to the section that is absent.
        (Some(Value::Object(a)), None | Some(Value::Null)) if !a.is_empty() => Some((a, &nothing)),
        (None | Some(Value::Null), Some(Value::Object(b))) if !b.is_empty() => Some((&nothing, b)),
        _ => None,
    };
    match (objects, current, desired) {
        (Some((a, b)), ..) => {
            let mut fields: Vec<&String> = a.keys().chain(b.keys()).collect();
            fields.sort_unstable();
            fields.dedup();
            for field in fields {
                let child = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
                walk(&child, a.get(field), b.get(field), hidden, found);
            }
        }
        (None, a, b) if a == b => {}
        (None, a, b) => {
            // By the beginning of the path: everything below
            // a hidden field is as secret as the field.
            let hidden = hidden.iter().any(|prefix| path.starts_with(prefix));
            let shown = |value: Option<&Value>| value.filter(|_| !hidden).cloned();
            found.push(FieldDifference {
                path: path.to_owned(),
                current: shown(a),
                desired: shown(b),
                hidden,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(current: Value, desired: Value, expected: &[&str]) {
        let found: Vec<String> =
            differences(&current, &desired, &["secret"]).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_field_that_differs_is_named_once() {
        check(json!({"a": 1}), json!({"a": 1}), &[]);
        check(json!({"a": 1}), json!({}), &["a: 1 → unset"]);
        check(
            json!({"a": {"b": [1]}}),
            json!({"a": {"b": [1, 2], "c": {"d": true}}}),
            &["a.b: [1] → [1,2]", "a.c.d: unset → true"],
        );
        check(json!({"a": {}}), json!({}), &["a: {} → unset"]);
        check(json!({"a": null}), json!({"a": {"b": 1}}), &["a.b: unset → 1"]);
        check(json!({"a": "text"}), json!({"a": {"b": 1}}), &[r#"a: "text" → {"b":1}"#]);
    }

    #[test]
    fn values_that_may_be_secret_are_left_out() {
        check(json!({"secret": {"key": "x"}}), json!({}), &["secret.key: changed (values not shown)"]);
    }
}
