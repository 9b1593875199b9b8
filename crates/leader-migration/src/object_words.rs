//! Objects in lines for people and shells: their names, and YAML. Owns which texts may stand there; must not know edits.

use std::fmt::Write as _;

use serde_json::Value;

/// Characters that mean nothing to a shell or to sed.
pub(super) fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    !text.is_empty() && text.chars().all(is_plain)
}

pub(super) const STRANGE_NAME: &str = "its name is not one that the API takes";

pub(super) fn has_plain_name(object: &Value) -> bool {
    let name = |value: &Value| value.as_str().unwrap_or_default().split('.').all(is_plain);
    let metadata = &object["metadata"];
    name(&metadata["name"]) && (metadata["namespace"].is_null() || name(&metadata["namespace"]))
}

pub(super) fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// `NAMESPACE/NAME`.
pub(super) fn key(object: &Value) -> String {
    let metadata = &object["metadata"];
    let name = text(&metadata["name"]).unwrap_or_default();
    text(&metadata["namespace"]).map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

/// As kubectl is told.
pub(super) fn addressed(object: &Value) -> String {
    let metadata = &object["metadata"];
    let mut words = text(&metadata["name"]).unwrap_or_default().to_owned();
    if let Some(namespace) = text(&metadata["namespace"]) {
        let _ = write!(words, " -n {namespace}");
    }
    words
}

/// Every text that a reader could take for something else is quoted, and none is folded.
pub(super) fn yaml(value: &Value) -> String {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 1_000_000 };
    serde_saphyr::to_string_with_options(value, options)
        .unwrap_or_else(|error| format!("# not printable as YAML: {error}\n"))
}
