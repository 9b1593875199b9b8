//! How a Secret stands in a backup that was made with a key: kind, namespace and name can be read, everything else is sealed and
//! bound to them. Owns that line; must not know the file.

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use capstan_store::Keyring;

/// The field with the whole object.
const SEALED: &str = "sealed";

pub fn is_secret(object: &Value) -> bool {
    object["kind"] == "Secret" && object["apiVersion"] == "v1"
}

/// What the line is bound to. No kind, namespace or name has a slash, so no two objects have the same.
fn place(object: &Value) -> String {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("backup/{}/{}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// # Errors
/// The operating system gives no random numbers.
pub fn seal(object: &Value, ring: &Keyring) -> anyhow::Result<Value> {
    let place = place(object);
    let sealed = ring.seal(&place, object.to_string().as_bytes());
    let sealed = sealed.with_context(|| format!("{place} cannot be sealed"))?;
    let mut metadata = json!({"name": object["metadata"]["name"]});
    if let Some(namespace) = object.pointer("/metadata/namespace") {
        metadata["namespace"] = namespace.clone();
    }
    Ok(json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata, SEALED: BASE64.encode(sealed),
    }))
}

/// The object of a line. `is_encrypted` says that the backup was made with a key, so that a Secret in clear is not from it.
///
/// # Errors
/// It does not open.
pub fn open(line: Value, ring: Option<&Keyring>, is_encrypted: bool) -> anyhow::Result<Value> {
    if !is_secret(&line) {
        return Ok(line);
    }
    let place = place(&line);
    let Some(sealed) = line.get(SEALED).and_then(Value::as_str) else {
        ensure!(
            !is_encrypted,
            "{place} is in clear in an encrypted backup: it was altered after it was made"
        );
        return Ok(line);
    };
    let ring = ring.with_context(|| format!("{place} is sealed, and no key file was named"))?;
    let sealed = BASE64.decode(sealed).with_context(|| format!("{place} was altered"))?;
    let text = ring.open(&place, &sealed).with_context(|| format!("{place} does not open"))?;
    serde_json::from_slice(&text).with_context(|| format!("{place} is not an object"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(namespace: &str, name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name, "uid": "u"},
               "data": {"key": "cGxhbnRlZA=="}})
    }

    #[test]
    fn a_line_shows_whose_it_is_and_opens_only_there() {
        let ring = Keyring::generate().unwrap();
        let sealed = seal(&secret("a", "b"), &ring).unwrap();
        assert_eq!(
            (&sealed["kind"], &sealed["metadata"]),
            (&json!("Secret"), &json!({"namespace": "a", "name": "b"}))
        );
        assert!(!sealed.to_string().contains("cGxhbnRlZA=="));
        assert_eq!(open(sealed.clone(), Some(&ring), true).unwrap(), secret("a", "b"));
        assert_eq!(open(secret("a", "b"), None, false).unwrap(), secret("a", "b"));
        assert!(open(secret("a", "b"), Some(&ring), true).is_err(), "put there by somebody");
        let mut moved = sealed.clone();
        moved["metadata"]["namespace"] = "c".into();
        let mut altered = sealed.clone();
        altered[SEALED] = "AAAA".into();
        let other = Keyring::generate().unwrap();
        for (line, ring) in
            [(moved, Some(&ring)), (altered, Some(&ring)), (sealed.clone(), None), (sealed, Some(&other))]
        {
            assert!(open(line, ring, true).is_err());
        }
    }
}
