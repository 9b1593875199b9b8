//! What of a change the journal must not keep: values of fields that hold passwords, tokens, keys, contents of files and commands. Owns
//! the list of these fields; must not know who writes the journal.

use serde_json::Value;

/// In place of a value.
const NOT_KEPT: &str = "(not kept)";

/// Ends of the names of fields whose strings may be secret, in lower case.
const SECRET_ENDS: [&str; 9] = [
    "passwd",
    "password",
    "token",
    "secret",
    "content",
    "certificatekey",
    "privatekey",
    "commands",
    "inline",
];

/// The patch without the values of such fields, and whether it is whole. Of a Secret all data are such fields.
pub fn without_secrets(kind: &str, patch: &Value) -> (Value, bool) {
    let mut kept = patch.clone();
    if kind == "Secret" {
        let data = ["data", "stringData"].into_iter();
        data.for_each(|field| kept.get_mut(field).into_iter().for_each(blacken));
    }
    clean(&mut kept);
    let is_whole = kept == *patch;
    (kept, is_whole)
}

fn clean(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| {
            let name = name.to_ascii_lowercase();
            let is_secret = SECRET_ENDS.iter().any(|end| name.ends_with(end));
            // Below an object of such a name stands usually where the secret is, which is none.
            if is_secret && !value.is_object() { blacken(value) } else { clean(value) }
        }),
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn blacken(value: &mut Value) {
    match value {
        Value::Null => {}
        Value::Array(items) => items.iter_mut().for_each(blacken),
        Value::Object(fields) => fields.values_mut().for_each(blacken),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => *value = NOT_KEPT.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_may_be_secret_is_not_kept_and_the_rest_is() {
        for (kind, patch, expected) in [
            ("Machine", json!({"spec": {"paused": true}, "metadata": {"labels": {"a": null}}}), None),
            (
                "KubeadmConfig",
                json!({"spec": {"files": [{"path": "/a", "content": "k"}], "users": [{"name": "a", "passwd": "x"}]}}),
                Some(
                    json!({"spec": {"files": [{"path": "/a", "content": NOT_KEPT}], "users": [{"name": "a", "passwd": NOT_KEPT}]}}),
                ),
            ),
            (
                "KubeadmConfig",
                json!({"spec": {"preKubeadmCommands": ["a", "b"], "files": [{"contentFrom": {"secret": {"name": "s"}}}]}}),
                Some(
                    json!({"spec": {"preKubeadmCommands": [NOT_KEPT, NOT_KEPT], "files": [{"contentFrom": {"secret": {"name": "s"}}}]}}),
                ),
            ),
            (
                "Secret",
                json!({"data": {"a": "eA==", "b": null}}),
                Some(json!({"data": {"a": NOT_KEPT, "b": null}})),
            ),
        ] {
            let kept = without_secrets(kind, &patch);
            assert_eq!(kept, (expected.clone().unwrap_or(patch), expected.is_none()));
        }
    }
}
