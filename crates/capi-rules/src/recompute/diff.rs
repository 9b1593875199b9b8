//! What differs between two statuses, as data: conditions by type, other keyed lists by key, the rest
//! field by field. Must not know how it is shown, nor why it differs.

use serde_json::{Map, Value};

/// One difference; `None` and null stand for what is absent.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// A condition that is stored or computed otherwise.
    Condition {
        /// Of the condition.
        type_: String,
        /// `None`: it is not stored.
        stored: Option<Content>,
        /// `None`: the rules do not set it.
        computed: Option<Content>,
    },
    /// Any other field.
    Field {
        /// Dotted, below `status`.
        path: String,
        /// Null when it is not stored.
        stored: Value,
        /// Null when the rules do not set it.
        computed: Value,
    },
    /// The same conditions in another order.
    Order,
}

/// A condition without its time and its generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word in CamelCase.
    pub reason: String,
    /// For a person.
    pub message: String,
    /// Which version of the object it was judged by.
    pub observed_generation: Option<i64>,
    /// RFC 3339.
    pub last_transition_time: String,
}

impl Content {
    fn of(condition: &Value) -> Self {
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Self {
            status: text("status"),
            reason: text("reason"),
            message: text("message"),
            observed_generation: condition["observedGeneration"].as_i64(),
            last_transition_time: text("lastTransitionTime"),
        }
    }
}

/// Everything that differs: conditions in their computed order, those that are only stored after them,
/// then fields by path.
pub fn differences(stored: &Value, computed: &Value) -> Vec<Difference> {
    let mut found = conditions(list(&stored["conditions"]), list(&computed["conditions"]));
    let without = |status: &Value| {
        let mut fields = status.as_object().cloned().unwrap_or_default();
        fields.remove("conditions");
        Value::Object(fields)
    };
    compare("", &without(stored), &without(computed), &mut found);
    found
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn type_of(condition: &Value) -> &str {
    condition["type"].as_str().unwrap_or_default()
}

fn conditions(stored: &[Value], computed: &[Value]) -> Vec<Difference> {
    let find = |list: &[Value], type_: &str| list.iter().find(|c| type_of(c) == type_).map(Content::of);
    let types =
        computed.iter().chain(stored.iter().filter(|c| find(computed, type_of(c)).is_none())).map(type_of);
    let mut found = Vec::new();
    for type_ in types {
        let (stored, computed) = (find(stored, type_), find(computed, type_));
        if stored != computed {
            found.push(Difference::Condition { type_: type_.to_owned(), stored, computed });
        }
    }
    // Only types that both lists have: a missing one is a difference of its own.
    let shared = |list: &[Value], other: &[Value]| -> Vec<String> {
        list.iter().map(type_of).filter(|t| find(other, t).is_some()).map(str::to_owned).collect()
    };
    if shared(stored, computed) != shared(computed, stored) {
        found.push(Difference::Order);
    }
    found
}

fn compare(path: &str, stored: &Value, computed: &Value, found: &mut Vec<Difference>) {
    match (stored, computed) {
        _ if stored == computed => {}
        (Value::Object(old), Value::Object(new)) => fields(path, old, new, found),
        (Value::Array(old), Value::Array(new)) => match key_of(old, new) {
            Some(key) => by_key(path, old, new, key, found),
            None => found.push(field(path, stored, computed)),
        },
        _ => found.push(field(path, stored, computed)),
    }
}

fn field(path: &str, stored: &Value, computed: &Value) -> Difference {
    Difference::Field { path: path.to_owned(), stored: stored.clone(), computed: computed.clone() }
}

fn fields(path: &str, old: &Map<String, Value>, new: &Map<String, Value>, found: &mut Vec<Difference>) {
    let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
    // `dedup` compares neighbours only.
    keys.sort();
    keys.dedup();
    for key in keys {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        compare(&path, old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null), found);
    }
}

/// The field that names the items of both lists.
fn key_of(old: &[Value], new: &[Value]) -> Option<&'static str> {
    let named = |key: &&str| old.iter().chain(new).all(|item| item[*key].is_string());
    // Every item must have the key, or items without it would fall together.
    ["type", "version", "name"].into_iter().find(named)
}

fn by_key(path: &str, old: &[Value], new: &[Value], key: &str, found: &mut Vec<Difference>) {
    let name = |item: &Value| item[key].as_str().unwrap_or_default().to_owned();
    let mut names: Vec<String> = new.iter().chain(old).map(name).collect();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let before = found.len();
    for wanted in names {
        let side =
            |list: &[Value]| list.iter().find(|item| name(item) == wanted).cloned().unwrap_or(Value::Null);
        compare(&format!("{path}[{wanted}]"), &side(old), &side(new), found);
    }
    // The same items in another order, or one of them twice.
    if found.len() == before {
        found.push(field(path, &Value::from(old), &Value::from(new)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content(status: &str, message: &str) -> Option<Content> {
        Some(Content { status: status.to_owned(), message: message.to_owned(), ..Content::default() })
    }

    #[test]
    fn conditions_and_lists_with_keys_are_compared_by_key() {
        let stored = json!({"phase": "Running", "replicas": 3, "versions": [{"version": "v1", "replicas": 1}], "conditions": [
            {"type": "A", "status": "True", "message": "x"}, {"type": "B", "status": "True"}, {"type": "C", "status": "True"}]});
        let computed = json!({"phase": "Running", "readyReplicas": 3, "versions": [{"version": "v1", "replicas": 2}], "conditions": [
            {"type": "C", "status": "True"}, {"type": "A", "status": "False", "message": "x"}, {"type": "D", "status": "True"}]});
        let condition = |type_: &str, stored, computed| Difference::Condition {
            type_: type_.to_owned(),
            stored,
            computed,
        };
        assert_eq!(
            differences(&stored, &computed),
            [
                condition("A", content("True", "x"), content("False", "x")),
                condition("D", None, content("True", "")),
                condition("B", content("True", ""), None),
                Difference::Order,
                field("readyReplicas", &Value::Null, &json!(3)),
                field("replicas", &json!(3), &Value::Null),
                field("versions[v1].replicas", &json!(1), &json!(2)),
            ]
        );
        assert_eq!(differences(&stored, &stored), []);
    }

    #[test]
    fn nothing_that_differs_goes_unseen() {
        for (stored, computed) in [
            (
                json!({"versions": [{"version": "a"}, {"version": "b"}]}),
                json!({"versions": [{"version": "b"}, {"version": "a"}]}),
            ),
            (json!({"x": [{"name": "a"}, {"name": "a"}]}), json!({"x": [{"name": "a"}]})),
            (json!({"x": [1, 2]}), json!({"x": [2, 1]})),
            (json!({"x": {}}), json!({})),
            (json!(null), json!({"phase": "Pending"})),
            (
                json!({"conditions": [{"type": "A", "observedGeneration": 1}]}),
                json!({"conditions": [{"type": "A", "observedGeneration": 2}]}),
            ),
            (
                json!({"conditions": [{"type": "A", "lastTransitionTime": "x"}]}),
                json!({"conditions": [{"type": "A", "lastTransitionTime": "y"}]}),
            ),
        ] {
            assert_eq!(differences(&stored, &computed).len(), 1, "{stored} {computed}");
        }
    }
}
