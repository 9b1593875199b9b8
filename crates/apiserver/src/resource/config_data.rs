//! What Secrets and ConfigMaps may hold: keys, sizes, what a type of Secret needs, and content that may
//! not change any more. Must not know stores, routes or answers.
//!
//! Source: kubernetes `pkg/apis/core/validation/validation.go` (`ValidateSecret`, `ValidateConfigMap` and
//! their updates), `pkg/registry/core/secret/strategy.go`, v1.35.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use crate::failure::Failure;
use k8s_machinery::validation::cause::Cause;

/// Largest content of one object, in bytes.
const DATA_BYTES_MAX: usize = 1 << 20;
const KEY_BYTES_MAX: usize = 253;
const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
     or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// A type of Secret and the keys it needs.
const NEEDS: [(&str, Needs); 5] = [
    ("kubernetes.io/dockercfg", Needs::Json(".dockercfg")),
    ("kubernetes.io/dockerconfigjson", Needs::Json(".dockerconfigjson")),
    ("kubernetes.io/basic-auth", Needs::Either(["username", "password"])),
    ("kubernetes.io/ssh-auth", Needs::Filled("ssh-privatekey")),
    ("kubernetes.io/tls", Needs::Both(["tls.crt", "tls.key"])),
];
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
const TOKEN_OWNER: &str = "kubernetes.io/service-account.name";

#[derive(Clone, Copy)]
enum Needs {
    /// This key, with a JSON object in it.
    Json(&'static str),
    Either([&'static str; 2]),
    Both([&'static str; 2]),
    /// This key, not empty.
    Filled(&'static str),
}

/// Bytes are written as base64.
///
/// # Errors
/// 400 for text that is none.
pub fn check_bytes(kind: &str, object: &Value) -> Result<(), Failure> {
    let field = if kind == "Secret" { "data" } else { "binaryData" };
    let values = object[field].as_object().into_iter().flatten().map(|(_, value)| value);
    for text in values.filter_map(Value::as_str) {
        BASE64.decode(text).map_err(|error| {
            let why = format!("illegal base64 data: {error}");
            Failure::bad_request(format!("{kind} in version \"v1\" cannot be handled as a {kind}: {why}"))
        })?;
    }
    Ok(())
}

/// `stringData` is only for writing; it ends up in `data`.
pub fn prepare_secret(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    if let Some(Value::Object(texts)) = fields.remove("stringData") {
        let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
        for (key, text) in texts {
            // The clear text wins over what `data` has under the same key, as upstream.
            data[key] = BASE64.encode(text.as_str().unwrap_or_default()).into();
        }
    }
    if fields.get("type").and_then(Value::as_str).unwrap_or_default().is_empty() {
        fields.insert("type".to_owned(), "Opaque".into());
    }
}

/// What is wrong with a Secret.
pub fn validate_secret(secret: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let bytes: usize = entries(secret, "data").map(|(_, value)| decoded_bytes(value)).sum();
    check_keys(secret, "data", &mut causes);
    if bytes > DATA_BYTES_MAX {
        causes.push(Cause::too_long("data", DATA_BYTES_MAX as u64));
    }
    check_needs(secret, &mut causes);
    if old.is_some_and(|old| old["type"] != secret["type"]) {
        causes.push(Cause::invalid("type", &secret["type"], "field is immutable"));
    }
    check_frozen(secret, old, &["data"], &mut causes);
    causes
}

/// What is wrong with a `ConfigMap`.
pub fn validate_config_map(map: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    check_keys(map, "data", &mut causes);
    check_keys(map, "binaryData", &mut causes);
    for (field, other) in [("data", "binaryData"), ("binaryData", "data")] {
        for (key, _) in entries(map, field).filter(|(key, _)| map[other].get(*key).is_some()) {
            let detail = format!("duplicate of key present in {other}");
            causes.push(Cause::invalid(format!("{field}[{key}]"), &key.into(), &detail));
        }
    }
    let texts: usize = entries(map, "data").map(|(_, value)| value.as_str().map_or(0, str::len)).sum();
    let bytes: usize = entries(map, "binaryData").map(|(_, value)| decoded_bytes(value)).sum();
    if texts + bytes > DATA_BYTES_MAX {
        // The object as a whole.
        causes.push(Cause::too_long("", DATA_BYTES_MAX as u64));
    }
    check_frozen(map, old, &["data", "binaryData"], &mut causes);
    causes
}

fn entries<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    object[field].as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

fn decoded_bytes(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    // Exact, as text that is not base64 was refused before.
    text.trim_end_matches('=').len() * 3 / 4
}

fn check_keys(object: &Value, field: &str, causes: &mut Vec<Cause>) {
    for (key, _) in entries(object, field) {
        let legal = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let mut complain =
            |detail: &str| causes.push(Cause::invalid(format!("{field}[{key}]"), &key.into(), detail));
        if key.len() > KEY_BYTES_MAX {
            complain(&format!("must be no more than {KEY_BYTES_MAX} bytes"));
        }
        if key.is_empty() || !key.chars().all(legal) {
            complain(KEY);
        }
        match key {
            "." => complain("must not be '.'"),
            ".." => complain("must not be '..'"),
            // Beside the keys a kubelet has entries of its own in a volume, such as `..data`.
            _ if key.starts_with("..") => complain("must not start with '..'"),
            _ => {}
        }
    }
}

fn check_needs(secret: &Value, causes: &mut Vec<Cause>) {
    let type_ = secret["type"].as_str().unwrap_or_default();
    let has = |key: &str| secret["data"].get(key).is_some();
    let mut require = |key: &str| causes.push(Cause::required(format!("data[{key}]"), ""));
    match NEEDS.iter().find(|(name, _)| *name == type_).map(|(_, needs)| *needs) {
        Some(Needs::Json(key)) if !has(key) => require(key),
        Some(Needs::Json(key)) => {
            let bytes = BASE64.decode(secret["data"][key].as_str().unwrap_or_default()).unwrap_or_default();
            if let Err(error) = serde_json::from_slice::<Map<String, Value>>(&bytes) {
                // The answer may be logged, so it must not repeat what is in the Secret.
                let hidden = "<secret contents redacted>".into();
                causes.push(Cause::invalid(format!("data[{key}]"), &hidden, &error.to_string()));
            }
        }
        Some(Needs::Either(keys)) if !keys.iter().any(|key| has(key)) => keys.into_iter().for_each(require),
        Some(Needs::Both(keys)) => keys.into_iter().filter(|key| !has(key)).for_each(require),
        Some(Needs::Filled(key)) if secret["data"][key].as_str().unwrap_or_default().is_empty() => {
            require(key);
        }
        _ => {}
    }
    let owner = secret["metadata"]["annotations"][TOKEN_OWNER].as_str().unwrap_or_default();
    if type_ == TOKEN_TYPE && owner.is_empty() {
        causes.push(Cause::required(format!("metadata.annotations[{TOKEN_OWNER}]"), ""));
    }
}

/// Once `immutable` is set, it and the content stay.
fn check_frozen(object: &Value, old: Option<&Value>, content: &[&str], causes: &mut Vec<Cause>) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else { return };
    for field in ["immutable"].iter().chain(content) {
        if old[*field] != object[*field] {
            causes.push(Cause::forbidden(*field, "field is immutable when `immutable` is set"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(causes: &[Cause]) -> Vec<String> {
        causes.iter().map(Cause::to_string).collect()
    }

    #[test]
    fn types_of_secrets_need_their_keys() {
        for (type_, data, expected) in [
            ("Opaque", json!({}), vec![]),
            ("example.io/own", json!({}), vec![]),
            ("kubernetes.io/tls", json!({"tls.crt": ""}), vec!["data[tls.key]: Required value"]),
            (
                "kubernetes.io/basic-auth",
                json!({}),
                vec!["data[username]: Required value", "data[password]: Required value"],
            ),
            ("kubernetes.io/basic-auth", json!({"password": ""}), vec![]),
            (
                "kubernetes.io/ssh-auth",
                json!({"ssh-privatekey": ""}),
                vec!["data[ssh-privatekey]: Required value"],
            ),
            ("kubernetes.io/dockercfg", json!({".dockercfg": BASE64.encode("{}")}), vec![]),
            ("kubernetes.io/dockerconfigjson", json!({}), vec!["data[.dockerconfigjson]: Required value"]),
            (
                TOKEN_TYPE,
                json!({}),
                vec!["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            ),
        ] {
            let causes = validate_secret(&json!({"type": type_, "data": data}), None);
            assert_eq!(texts(&causes), expected, "{type_}");
        }
        let secret =
            json!({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": BASE64.encode("secret!")}});
        let found = texts(&validate_secret(&secret, None)).concat();
        assert!(
            found.starts_with("data[.dockercfg]: Invalid value: \"<secret contents redacted>\""),
            "{found}"
        );
    }

    #[test]
    fn content_is_counted_in_bytes() {
        let bytes = |count: usize| BASE64.encode("x".repeat(count));
        for (count, fits) in [(DATA_BYTES_MAX, true), (DATA_BYTES_MAX + 1, false)] {
            let secret = json!({"type": "Opaque", "data": {"a": bytes(count)}});
            assert_eq!(validate_secret(&secret, None).is_empty(), fits, "secret {count}");
            let map = json!({"data": {"a": "x".repeat(count - 10)}, "binaryData": {"b": bytes(10)}});
            assert_eq!(validate_config_map(&map, None).is_empty(), fits, "map {count}");
        }
    }

    #[test]
    fn a_key_is_in_one_place_only() {
        let map = json!({"data": {"a": "", "..b": ""}, "binaryData": {"a": ""}});
        assert_eq!(
            texts(&validate_config_map(&map, None)),
            [
                "data[..b]: Invalid value: \"..b\": must not start with '..'",
                "data[a]: Invalid value: \"a\": duplicate of key present in binaryData",
                "binaryData[a]: Invalid value: \"a\": duplicate of key present in data",
            ]
        );
    }
}
