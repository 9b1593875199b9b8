//! What differs between two statuses, field by field; conditions and other keyed lists are compared by
//! key. Owns the layout; must not know why.

use std::fmt::Write as _;

use serde_json::Value;

use super::compute::Computed;

/// One object's differences under its name; nothing when there are none.
#[must_use]
pub fn text(computed: &Computed) -> String {
    let mut lines = Vec::new();
    compare("status", &computed.before["status"], &computed.after["status"], &mut lines);
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("{} {}\n", computed.kind.name(), computed.key);
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn compare(path: &str, before: &Value, after: &Value, lines: &mut Vec<String>) {
    if before == after {
        return;
    }
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let side =
                    |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or(Value::Null);
                compare(&format!("{path}.{key}"), &side(old), &side(new), lines);
            }
        }
        (Value::Array(old), Value::Array(new)) if key_of(old, new).is_some() => {
            by_key(path, old, new, key_of(old, new).unwrap_or_default(), lines);
        }
        _ => lines.push(format!("{path}: {} → {}", shown(before), shown(after))),
    }
}

/// The field that names the items of both lists.
fn key_of(old: &[Value], new: &[Value]) -> Option<&'static str> {
    let named = |key: &str| {
        let texts: Vec<&str> = old.iter().chain(new).filter_map(|item| item[key].as_str()).collect();
        texts.len() == old.len() + new.len()
    };
    ["type", "version", "name"].into_iter().find(|key| named(key))
}

fn by_key(path: &str, old: &[Value], new: &[Value], key: &str, lines: &mut Vec<String>) {
    let name = |item: &Value| item[key].as_str().unwrap_or_default().to_owned();
    let find = |list: &[Value], wanted: &str| list.iter().find(|item| name(item) == wanted).cloned();
    let mut names: Vec<String> = new.iter().map(name).collect();
    names.extend(old.iter().map(name).filter(|n| find(new, n).is_none()));
    let order = |list: &[Value]| {
        list.iter().map(name).filter(|n| find(old, n).is_some() && find(new, n).is_some()).collect::<Vec<_>>()
    };
    if order(old) != order(new) {
        lines.push(format!("{path}: the order differs"));
    }
    for name in names {
        let side = |list: &[Value]| find(list, &name).unwrap_or(Value::Null);
        compare(&format!("{path}[{name}]"), &side(old), &side(new), lines);
    }
}

/// A value on one line.
fn shown(value: &Value) -> String {
    if value.is_null() { "absent".to_owned() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_with_keys_are_compared_by_key() {
        let before = json!({"phase": "Running", "replicas": 3, "conditions": [
            {"type": "A", "status": "True", "message": "x"}, {"type": "B", "status": "True"}, {"type": "C", "status": "True"}]});
        let after = json!({"phase": "Running", "readyReplicas": 3, "conditions": [
            {"type": "C", "status": "True"}, {"type": "A", "status": "False", "message": "x"}, {"type": "D", "status": "True"}]});
        let mut lines = Vec::new();
        compare("status", &before, &after, &mut lines);
        assert_eq!(
            lines,
            [
                "status.conditions: the order differs",
                "status.conditions[A].status: \"True\" → \"False\"",
                "status.conditions[D]: absent → {\"status\":\"True\",\"type\":\"D\"}",
                "status.conditions[B]: {\"status\":\"True\",\"type\":\"B\"} → absent",
                "status.readyReplicas: absent → 3",
                "status.replicas: 3 → absent",
            ]
        );
    }
}
