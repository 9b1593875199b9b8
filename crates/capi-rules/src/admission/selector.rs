//! Label selectors inside objects (`matchLabels`, `matchExpressions`), with the API machinery's words
//! when they cannot be used. Must not know a kind.
//!
//! Source: apimachinery `pkg/apis/meta/v1/helpers.go` (`LabelSelectorAsSelector`) and
//! `pkg/labels/selector.go` (`NewRequirement`), v0.35.

use std::fmt;

use serde_json::Value;

use super::value::items;
use k8s_machinery::validation::naming;

/// A selector as rules use it. The one without requirements matches everything.
#[derive(Debug)]
pub(super) struct Selector(Vec<Requirement>);

#[derive(Debug)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug)]
enum Test {
    Equals(String),
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// # Errors
    /// The first thing wrong with it.
    pub fn of(selector: &Value) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key, Test::Equals(value))?);
        }
        for expression in items(&selector["matchExpressions"]) {
            let values: Vec<String> = items(&expression["values"])
                .iter()
                .map(|value| value.as_str().unwrap_or_default().to_owned())
                .collect();
            let operator = expression["operator"].as_str().unwrap_or_default();
            let test = match operator {
                "In" => Test::In(values),
                "NotIn" => Test::NotIn(values),
                "Exists" | "DoesNotExist" if !values.is_empty() => {
                    let shown = Value::from(values);
                    return Err(format!(
                        "values: Invalid value: {shown}: values set must be empty for exists and does not exist"
                    ));
                }
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::DoesNotExist,
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            requirements.push(Requirement::new(expression["key"].as_str().unwrap_or_default(), test)?);
        }
        // The API machinery writes a selector with its keys in order, and so does the refusal.
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self(requirements))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Does an object with these labels match?
    pub fn matches(&self, labels: &Value) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key).and_then(Value::as_str);
            let is_one_of = |values: &[String]| value.is_some_and(|v| values.iter().any(|other| other == v));
            match &requirement.test {
                Test::Equals(wanted) => value == Some(wanted),
                Test::In(values) => is_one_of(values),
                // A label that is missing is in no list: so the API machinery has it.
                Test::NotIn(values) => !is_one_of(values),
                Test::Exists => value.is_some(),
                Test::DoesNotExist => value.is_none(),
            }
        })
    }
}

impl Requirement {
    fn new(key: &str, test: Test) -> Result<Self, String> {
        let mut wrong = Vec::new();
        let mut complain = |path: String, value: &str, complaints: Vec<String>| {
            if !complaints.is_empty() {
                wrong.push(format!(
                    "{path}: Invalid value: {}: {}",
                    Value::from(value),
                    complaints.join("; ")
                ));
            }
        };
        complain("key".to_owned(), key, naming::qualified_name(key));
        let values: &[String] = match &test {
            Test::Equals(value) => std::slice::from_ref(value),
            Test::In(values) | Test::NotIn(values) => values,
            Test::Exists | Test::DoesNotExist => &[],
        };
        for (index, value) in values.iter().enumerate() {
            complain(format!("values[{index}][{key}]"), value, naming::label_value(value));
        }
        if values.is_empty() && matches!(test, Test::In(_) | Test::NotIn(_)) {
            wrong.push(
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
                    .to_owned(),
            );
        }
        match wrong.as_slice() {
            [] => Ok(Self { key: key.to_owned(), test }),
            // An aggregate of errors has brackets only around more than one.
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Requirement { key, test }) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            // There the values are a set, which is written in order.
            let sorted = |values: &[String]| {
                let mut values = values.to_vec();
                values.sort();
                values.join(",")
            };
            match test {
                Test::Equals(value) => write!(f, "{comma}{key}={value}")?,
                Test::In(values) => write!(f, "{comma}{key} in ({})", sorted(values))?,
                Test::NotIn(values) => write!(f, "{comma}{key} notin ({})", sorted(values))?,
                Test::Exists => write!(f, "{comma}{key}")?,
                Test::DoesNotExist => write!(f, "{comma}!{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_match_and_print() {
        let selector = json!({
            "matchLabels": {"b": "1"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["y", "x"]},
                {"key": "c", "operator": "NotIn", "values": ["z"]},
                {"key": "d", "operator": "Exists"}, {"key": "e", "operator": "DoesNotExist"},
            ],
        });
        let selector = Selector::of(&selector).expect("a selector");
        assert_eq!(selector.to_string(), "a in (x,y),b=1,c notin (z),d,!e");
        for (labels, expected) in [
            (json!({"a": "x", "b": "1", "d": ""}), true),
            (json!({"a": "x", "b": "1", "c": "q", "d": ""}), true),
            (json!({"a": "x", "b": "1", "c": "z", "d": ""}), false),
            (json!({"a": "w", "b": "1", "d": ""}), false),
            (json!({"b": "1", "d": ""}), false),
            (json!({"a": "x", "b": "1", "d": "", "e": ""}), false),
            (json!({}), false),
        ] {
            assert_eq!(selector.matches(&labels), expected, "{labels}");
        }
        assert!(Selector::of(&json!({})).expect("everything").matches(&json!(null)));
    }

    #[test]
    fn unusable_selectors_say_why() {
        for (selector, why) in [
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Like"}]}),
                "\"Like\" is not a valid label selector operator",
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
                "values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist",
            ),
        ] {
            assert_eq!(Selector::of(&selector).map(|s| s.to_string()), Err(why.to_owned()));
        }
        let why = Selector::of(&json!({"matchLabels": {"-a": "-b"}})).expect_err("two mistakes");
        assert!(why.starts_with("[key: Invalid value: \"-a\": name part must consist"), "{why}");
        assert!(why.contains(", values[0][-a]: Invalid value: \"-b\": a valid label must"), "{why}");
    }
}
