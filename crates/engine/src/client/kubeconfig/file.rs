//! One kubeconfig file, as kubectl decodes it: the first document, nulls and empty texts are what is not set, byte fields are
//! base64, names are given once, and paths are relative to the file. Must not know other files, nor which context is chosen.
//!
//! Source: client-go `tools/clientcmd/loader.go` (`LoadFromFile`, `Load`, `ResolveLocalPaths`),
//! `tools/clientcmd/api/v1/conversion.go`, v0.32.

use std::path::Path;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use kube::config::Kubeconfig;
use serde_json::{Map, Value};

/// Lists of entries with a name, and what each entry wraps.
const LISTS: [(&str, &str); 3] = [("clusters", "cluster"), ("users", "user"), ("contexts", "context")];
/// Text that stands for bytes.
const BYTES: [&str; 3] = ["certificate-authority-data", "client-certificate-data", "client-key-data"];
/// What is true or false; an empty text is neither.
const SWITCHES: [&str; 2] = ["insecure-skip-tls-verify", "disable-compression"];
/// The extension that is handed to a credential plugin. The others have any form and mean nothing here.
const PLUGIN_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// What a file holds.
///
/// # Errors
/// What kubectl would refuse of it, in a few words.
pub(super) fn decode(text: &str) -> Result<Kubeconfig, String> {
    // As Go's decoder, which takes the last of keys that are given twice.
    let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| error.to_string())?;
    let mut document = documents.into_iter().next().unwrap_or_default();
    if document.is_null() {
        return Ok(Kubeconfig::default());
    }
    // Go leaves a null as the zero value, where the typed reading would fail.
    without_nulls(&mut document);
    let Value::Object(fields) = &mut document else { return Err("it is not a map".to_owned()) };
    is_config(fields)?;
    // Checked as kubectl decodes them, and dropped: nothing here reads them.
    if fields.remove("preferences").is_some_and(|preferences| !preferences.is_object()) {
        return Err("preferences is not a map".to_owned());
    }
    if fields.remove("extensions").is_some_and(|extensions| !extensions.is_array()) {
        return Err("extensions is not a list".to_owned());
    }
    for (list, wrapped) in LISTS {
        let Some(entries) = fields.get_mut(list) else { continue };
        let Value::Array(entries) = entries else { return Err(format!("{list} is not a list")) };
        for entry in entries {
            named(entry, list, wrapped)?;
        }
    }
    let config: Kubeconfig = serde_json::from_value(document).map_err(|error| error.to_string())?;
    unique("clusters", config.clusters.iter().map(|named| &named.name))?;
    unique("users", config.auth_infos.iter().map(|named| &named.name))?;
    unique("contexts", config.contexts.iter().map(|named| &named.name))?;
    Ok(config)
}

fn is_config(fields: &mut Map<String, Value>) -> Result<(), String> {
    for (field, only) in [("apiVersion", "v1"), ("kind", "Config")] {
        match fields.remove(field) {
            None => {}
            Some(Value::String(value)) if value.is_empty() || value == only => {}
            Some(other) => return Err(format!("its {field} is {other}, not {only}")),
        }
    }
    Ok(())
}

/// A null is a field that is not set; in a list it is an entry without fields.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(entries) => entries.iter_mut().for_each(|entry| {
            if entry.is_null() {
                *entry = Value::Object(Map::new());
            }
            without_nulls(entry);
        }),
        _ => {}
    }
}

/// An entry of one of the lists, with what the type asks for and kubectl does not.
fn named(entry: &mut Value, list: &str, wrapped: &str) -> Result<(), String> {
    let Value::Object(entry) = entry else { return Err(format!("an entry of {list} is not a map")) };
    entry.entry("name").or_insert_with(|| "".into());
    let inner = entry.entry(wrapped).or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(inner) = inner else { return Err(format!("{wrapped} is not a map")) };
    // kubectl reads an empty text as not set, but refuses it for what is true or false.
    inner.retain(|field, value| value.as_str() != Some("") || SWITCHES.contains(&field.as_str()));
    if wrapped == "context" {
        inner.entry("cluster").or_insert_with(|| "".into());
    }
    if let Some(Value::Array(extensions)) = inner.get_mut("extensions") {
        extensions.retain(|extension| {
            extension["name"] == PLUGIN_EXTENSION && extension.get("extension").is_some()
        });
    }
    if let Some(Value::Object(provider)) = inner.get_mut("auth-provider") {
        provider.entry("name").or_insert_with(|| "".into());
    }
    for field in BYTES {
        // Bytes may be a list of numbers, of which only the empty one is met.
        if inner.get(field).and_then(Value::as_array).is_some_and(Vec::is_empty) {
            inner.remove(field);
        }
        if let Some(Value::String(text)) = inner.get_mut(field) {
            *text = bytes(text).ok_or_else(|| format!("{field} is not base64"))?;
        }
    }
    Ok(())
}

/// Base64 as Go reads it, in the form that every reader takes.
fn bytes(text: &str) -> Option<String> {
    // Go ignores line breaks and stray bits at the end;
    // the library that reads this text next does not.
    let lenient = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    let lenient = GeneralPurpose::new(&base64::alphabet::STANDARD, lenient);
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    Some(base64::engine::general_purpose::STANDARD.encode(lenient.decode(text).ok()?))
}

fn unique<'a>(list: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("the name {name:?} is given twice in {list}"));
        }
    }
    Ok(())
}

/// Makes paths in it absolute that are relative to its folder.
pub(super) fn resolve(config: &mut Kubeconfig, folder: &Path) {
    let absolute = |path: &mut Option<String>| {
        if let Some(relative) =
            path.as_deref().filter(|path| !path.is_empty() && Path::new(path).is_relative())
        {
            *path = Some(folder.join(relative).display().to_string());
        }
    };
    for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        absolute(&mut cluster.certificate_authority);
    }
    for user in config.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        absolute(&mut user.client_certificate);
        absolute(&mut user.client_key);
        absolute(&mut user.token_file);
        if let Some(exec) = &mut user.exec
            // A bare name is looked for in PATH, not in the file's folder.
            && exec.command.as_ref().is_some_and(|command| command.contains(std::path::MAIN_SEPARATOR))
        {
            absolute(&mut exec.command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_decoded_and_what_is_refused() {
        for (text, expected) in [
            ("", Ok(0)),
            ("# nothing\n", Ok(0)),
            ("users: null\nclusters:\nclusters: []", Ok(0)),
            ("{apiVersion: v1, kind: Config, users: [{name: a}]}", Ok(1)),
            ("{users: [{name: a, user: {auth-provider: {config: null}}}, null]}", Ok(2)),
            ("users: [{name: a, user: {exec: {env: null, args: null}}}]\n---\n{users: [{name: b}]}", Ok(1)),
            ("{users: [{user: {client-key-data: \"YWJj\\nZGVm\\n\"}}]}", Ok(1)),
            ("{kind: List}", Err("its kind is \"List\", not Config")),
            ("{apiVersion: v2}", Err("its apiVersion is \"v2\", not v1")),
            ("[]", Err("it is not a map")),
            ("{preferences: []}", Err("preferences is not a map")),
            ("{extensions: {}}", Err("extensions is not a list")),
            ("{users: [{user: {client-key-data: []}}]}", Ok(1)),
            ("{users: {}}", Err("users is not a list")),
            ("{users: [x]}", Err("an entry of users is not a map")),
            ("{users: [{name: a, user: x}]}", Err("user is not a map")),
            ("{users: [{name: a}, {name: a}]}", Err("the name \"a\" is given twice in users")),
            ("{contexts: [{}, {}]}", Err("the name \"\" is given twice in contexts")),
            ("{users: [{user: {client-key-data: \"a b\"}}]}", Err("client-key-data is not base64")),
        ] {
            let found = decode(text).map(|config| config.auth_infos.len());
            assert_eq!(found.as_ref().map_err(String::as_str), expected.as_ref().map_err(|e| *e), "{text}");
        }
        assert!(decode("{users: [{user: {token: 12}}]}").is_err(), "a number is not a text");
    }
}
