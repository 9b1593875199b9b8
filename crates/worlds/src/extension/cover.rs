//! Which differences of two objects are carried out in place, and the patch that says so. Pure; must not know hosts.

use std::str::FromStr;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use capi_types::hook::Patch;
use k8s_machinery::merge::merge_diff;

/// Which of the three objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covered {
    Machine,
    Infrastructure,
    Bootstrap,
}

/// A field, with everything below it, of a Machine or of an object behind it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Cover {
    pub part: Covered,
    /// Names on the way, `spec` first.
    path: Vec<String>,
}

impl TryFrom<String> for Cover {
    type Error = String;

    /// `machine:/spec/version`.
    fn try_from(text: String) -> Result<Self, String> {
        let (part, path) = text.split_once(':').unwrap_or((text.as_str(), ""));
        let part = match part {
            "machine" => Covered::Machine,
            "infrastructure" => Covered::Infrastructure,
            "bootstrap" => Covered::Bootstrap,
            _ => {
                return Err(format!(
                    "`{text}`: expected machine:, infrastructure: or bootstrap: before a path"
                ));
            }
        };
        // Only below spec: a patch may change nothing else. `/specific` is another field.
        let names = path.strip_prefix("/spec").filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let Some(names) = names else {
            return Err(format!("`{text}`: expected a path such as /spec/version"));
        };
        let names = names.split('/').filter(|name| !name.is_empty()).map(str::to_owned);
        Ok(Self { part, path: std::iter::once("spec".to_owned()).chain(names).collect() })
    }
}

impl FromStr for Cover {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::try_from(text.to_owned())
    }
}

impl Cover {
    /// What a simulated host can become without being replaced: another kubelet, another VM, other files.
    pub fn simulated() -> Vec<Self> {
        let names = |path: &[&str]| path.iter().map(|name| (*name).to_owned()).collect();
        vec![
            Self { part: Covered::Machine, path: names(&["spec", "version"]) },
            Self { part: Covered::Infrastructure, path: names(&["spec", "backend", "inMemory"]) },
            Self { part: Covered::Bootstrap, path: names(&["spec"]) },
        ]
    }
}

/// The patch of the differences between two objects that are covered. In templates, paths begin below `spec.template`.
pub fn patch(
    covers: &[Cover],
    part: Covered,
    (current, desired): (&Value, &Value),
    in_template: bool,
    as_json: bool,
) -> Patch {
    let Some(difference) = merge_diff(current, desired) else { return Patch::default() };
    let mut kept = Value::Null;
    for cover in covers.iter().filter(|cover| cover.part == part) {
        let template = if in_template { vec!["spec", "template"] } else { Vec::new() };
        let path: Vec<&str> = template.into_iter().chain(cover.path.iter().map(String::as_str)).collect();
        // Cut out of the difference, so that fields around it stay out of the patch.
        if let Some(found) = below(&difference, desired, &path) {
            put(&mut kept, &path, found);
        }
    }
    match kept {
        Value::Null => Patch::default(),
        kept if as_json => Patch::json(json!(operations(current, &kept)).to_string().as_bytes()),
        kept => Patch::merge(kept.to_string().as_bytes()),
    }
}

/// The part of the difference at a path. Where the difference is the removal of all that is around it, null.
fn below(difference: &Value, desired: &Value, path: &[&str]) -> Option<Value> {
    let mut at = difference;
    for name in path {
        match at {
            Value::Object(fields) => at = fields.get(*name)?,
            // Something else stands there now: only who covers it may say so.
            _ => return (at.is_null() && desired.pointer(&pointer(path)).is_none()).then_some(Value::Null),
        }
    }
    Some(at.clone())
}

fn pointer(path: &[&str]) -> String {
    path.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect()
}

fn put(at: &mut Value, path: &[&str], value: Value) {
    let Some((name, rest)) = path.split_first() else {
        *at = value;
        return;
    };
    // A null that an earlier cover put there gives way to what is below it.
    if !at.is_object() {
        *at = Value::Object(Map::new());
    }
    put(&mut at[*name], rest, value);
}

/// A merge patch as operations of RFC 6902.
fn operations(current: &Value, patch: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    operate(Some(current), patch, &mut Vec::new(), &mut operations);
    operations
}

fn operate<'a>(
    current: Option<&Value>,
    patch: &'a Value,
    path: &mut Vec<&'a str>,
    operations: &mut Vec<Value>,
) {
    if let (Some(Value::Object(fields)), Value::Object(changes)) = (current, patch) {
        // As deep as both sides have objects, so that neighbours are left alone.
        for (name, change) in changes {
            path.push(name);
            operate(fields.get(name), change, path, operations);
            path.pop();
        }
        return;
    }
    let path = pointer(path);
    match (current, patch) {
        // Removing what is not there is an error in RFC 6902.
        (None, Value::Null) => {}
        (Some(_), Value::Null) => operations.push(json!({"op": "remove", "path": path})),
        (Some(_), value) => operations.push(json!({"op": "replace", "path": path, "value": value})),
        (None, value) => operations.push(json!({"op": "add", "path": path, "value": without_nulls(value)})),
    }
}

/// What a merge patch makes of nothing.
fn without_nulls(value: &Value) -> Value {
    let mut made = Value::Null;
    k8s_machinery::merge::apply(&mut made, value);
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(texts: &[&str]) -> Vec<Cover> {
        texts.iter().map(|text| Cover::try_from((*text).to_owned()).expect("a path")).collect()
    }

    /// What is left of the difference, with either format.
    fn after(texts: &[&str], current: &Value, desired: &Value, in_template: bool) -> Value {
        let within: &[&str] = if in_template { &["spec", "template", "spec"] } else { &["spec"] };
        let [merged, operated] = [false, true].map(|as_json| {
            let mut object = current.clone();
            let patch = patch(&covers(texts), Covered::Machine, (current, desired), in_template, as_json);
            patch.apply(&mut object, within).expect("applies");
            object
        });
        assert_eq!(merged, operated);
        merged
    }

    #[test]
    fn a_patch_has_what_is_covered_and_nothing_else() {
        let current =
            json!({"metadata": {"name": "m"}, "spec": {"version": "v1", "a": {"b": 1, "c": 2}, "l": [1]}});
        let desired = json!({"metadata": {"name": "n"}, "spec": {"version": "v2", "a": {"c": 3}, "l": [1, 2], "new": {"x": 1}}});
        let table: &[(&[&str], Value)] = &[
            (&[], current["spec"].clone()),
            (&["infrastructure:/spec"], current["spec"].clone()),
            (&["machine:/spec/version"], json!({"version": "v2", "a": {"b": 1, "c": 2}, "l": [1]})),
            (&["machine:/spec/a/b"], json!({"version": "v1", "a": {"c": 2}, "l": [1]})),
            (
                &["machine:/spec/new/x", "machine:/spec/l"],
                json!({"version": "v1", "a": {"b": 1, "c": 2}, "l": [1, 2], "new": {"x": 1}}),
            ),
            (&["machine:/spec"], desired["spec"].clone()),
        ];
        for (texts, expected) in table {
            assert_eq!(after(texts, &current, &desired, false)["spec"], *expected, "{texts:?}");
            let template =
                |object: &Value| json!({"spec": {"replicas": 1, "template": {"spec": object["spec"]}}});
            let after = after(texts, &template(&current), &template(&desired), true);
            assert_eq!(after["spec"]["template"]["spec"], *expected, "{texts:?}");
        }
    }

    #[test]
    fn without_a_covered_difference_there_is_no_patch() {
        let object = json!({"spec": {"version": "v1"}});
        assert!(patch(&Cover::simulated(), Covered::Machine, (&object, &object), false, false).is_unset());
        let other = json!({"spec": {"version": "v1", "x": 1}});
        assert!(patch(&Cover::simulated(), Covered::Machine, (&object, &other), false, true).is_unset());
    }
}
