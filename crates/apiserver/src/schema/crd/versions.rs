//! `spec.versions` of a CustomResourceDefinition: names, the storage flag, schemas, columns, scale paths
//! and selectable fields.
//!
//! What is equal in all versions is reported where upstream keeps it internally: at the top of the spec
//! (`spec.validation`, `spec.subresources`, `spec.additionalPrinterColumns`, `spec.selectableFields`).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Cause, text};
use crate::object::printable::not_printable;
use crate::schema::{Schema, field_path, format};
use k8s_machinery::validation::naming;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const SELECTABLE_MAX: usize = 8;
/// Upstream says characters, and counts bytes: Go's `len` of a text.
const WARNING_BYTES_MAX: usize = 256;

pub(super) fn check(definition: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, version) in versions.iter().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
            causes.push(Cause::required(field, ""));
        }
    }
    for (index, version) in versions.iter().enumerate() {
        let at = format!("spec.versions[{index}]");
        name(version, &at, causes);
        deprecation(version, &at, causes);
    }
    unique_and_stored(versions, causes);
    let parts: [(&str, &str, Part); 4] = [
        ("schema", "validation", &|version, at, causes| schema(definition, old, version, at, causes)),
        ("subresources", "subresources", &|version, at, causes| scale(version, at, causes)),
        ("additionalPrinterColumns", "additionalPrinterColumns", &columns),
        ("selectableFields", "selectableFields", &selectable),
    ];
    for (field, hoisted, part) in parts {
        if versions.windows(2).all(|pair| pair[0][field] == pair[1][field]) {
            if let Some(first) = versions.first() {
                part(first, &format!("spec.{hoisted}"), causes);
            }
        } else {
            for (index, version) in versions.iter().enumerate() {
                part(version, &format!("spec.versions[{index}].{field}"), causes);
            }
        }
    }
}

/// Judges one part of a version; the path is the part's.
type Part<'a> = &'a dyn Fn(&Value, &str, &mut Vec<Cause>);

fn name(version: &Value, at: &str, causes: &mut Vec<Cause>) {
    let name = text(version, "/name");
    let complaints = naming::dns_1035_label(name);
    if !complaints.is_empty() {
        causes.push(Cause::invalid(format!("{at}.name"), &json!(name), &complaints.join(",")));
    }
}

fn unique_and_stored(versions: &[Value], causes: &mut Vec<Cause>) {
    // Whole versions, as upstream shows, would be hundreds of kilobytes.
    let names = || Value::Array(versions.iter().map(|version| version["name"].clone()).collect());
    let mut seen = BTreeSet::new();
    if !versions.iter().all(|version| seen.insert(text(version, "/name"))) {
        causes.push(Cause::invalid("spec.versions", &names(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| version["storage"] == json!(true)).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &names(), detail));
    }
}

/// Source: apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go` (`validateDeprecationWarning`), v0.36.
fn deprecation(version: &Value, at: &str, causes: &mut Vec<Cause>) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let field = format!("{at}.deprecationWarning");
    let mut complain = |detail: &str| causes.push(Cause::invalid(field.clone(), &json!(warning), detail));
    if version["deprecated"] != true {
        complain("can only be set for deprecated versions");
        return;
    }
    if warning.len() > WARNING_BYTES_MAX {
        complain("must be <= 256 characters long");
    }
    if warning.is_empty() {
        complain("must not be an empty string");
    }
    if let Some((index, _)) = not_printable(warning).next() {
        let only = "must only contain printable UTF-8 characters";
        complain(&format!("{only}; non-printable character found at index {index}"));
    }
}

/// A schema that is as it was is not judged again.
fn schema(definition: &Value, old: Option<&Value>, version: &Value, at: &str, causes: &mut Vec<Cause>) {
    let Some(schema @ Value::Object(_)) = version.pointer("/schema/openAPIV3Schema") else { return };
    let name = text(version, "/name");
    let before = old.and_then(|old| old["spec"]["versions"].as_array());
    let before = before.into_iter().flatten().find(|version| version["name"] == name);
    if before.is_some_and(|before| before["schema"] == version["schema"]) {
        return;
    }
    let at = format!("{at}.openAPIV3Schema");
    if version.pointer("/subresources/status").is_some() {
        root_with_status(schema, &at, causes);
    }
    if let Err(found) = Schema::custom(text(definition, "/spec/names/kind"), name, schema, &at) {
        causes.extend(found);
    }
}

/// With a status subresource the schema of `status` must say everything that holds for it.
fn root_with_status(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    const ALLOWED: [&str; 23] = [
        "description",
        "type",
        "format",
        "title",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "multipleOf",
        "required",
        "items",
        "properties",
        "externalDocs",
        "example",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
        "$schema",
    ];
    const WORDS: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
         MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example \
         XPreserveUnknownFields XValidations";
    let type_ = &schema["type"];
    if type_.as_str().is_some_and(|type_| type_ != "object") {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                      enabled";
        causes.push(Cause::invalid(format!("{at}.type"), type_, detail));
    } else if schema.as_object().into_iter().flatten().any(|(key, _)| !ALLOWED.contains(&key.as_str())) {
        let detail = format!(
            "only [{WORDS}] fields are allowed at the root of the schema if the status subresource is enabled"
        );
        causes.push(Cause::omitted(at, &detail));
    }
}

fn columns(version: &Value, at: &str, causes: &mut Vec<Cause>) {
    let columns = version["additionalPrinterColumns"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, column) in columns.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if text(column, "/name").is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        }
        let type_ = text(column, "/type");
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        if type_.is_empty() {
            causes.push(Cause::required(format!("{at}.type"), &types));
        } else if !COLUMN_TYPES.contains(&type_) {
            causes.push(Cause::invalid(format!("{at}.type"), &json!(type_), &types));
        }
        let format = text(column, "/format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            causes.push(Cause::invalid(format!("{at}.format"), &json!(format), &detail));
        }
        // Spelt as upstream's internal field.
        let path = text(column, "/jsonPath");
        if path.is_empty() {
            causes.push(Cause::required(format!("{at}.JSONPath"), ""));
        } else if !path.starts_with('.') {
            causes.push(simple_path(format!("{at}.JSONPath"), path));
        }
    }
}

fn simple_path(field: String, path: &str) -> Cause {
    Cause::invalid(field, &json!(path), "must be a simple json path starting with .")
}

fn scale(version: &Value, at: &str, causes: &mut Vec<Cause>) {
    let scale = &version["subresources"]["scale"];
    if scale.is_null() {
        return;
    }
    for (key, roots, where_, required) in [
        ("specReplicasPath", &[".spec."][..], ".spec", true),
        ("statusReplicasPath", &[".status."][..], ".status", true),
        ("labelSelectorPath", &[".spec.", ".status."][..], "either .spec or .status", false),
    ] {
        let path = text(scale, &format!("/{key}"));
        let field = format!("{at}.scale.{key}");
        if path.is_empty() {
            if required {
                causes.push(Cause::required(field, ""));
            }
        } else if !path.starts_with('.') {
            causes.push(simple_path(field, path));
        } else if !roots.iter().any(|root| path.starts_with(root)) {
            let detail = format!("should be a json path under {where_}");
            causes.push(Cause::invalid(field, &json!(path), &detail));
        }
    }
}

fn selectable(version: &Value, at: &str, causes: &mut Vec<Cause>) {
    let fields = version["selectableFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut seen = BTreeSet::new();
    for (index, selectable) in fields.iter().enumerate() {
        let (field, path) = (format!("{at}[{index}].jsonPath"), &selectable["jsonPath"]);
        let text = path.as_str().unwrap_or_default();
        if text.is_empty() {
            causes.push(Cause::required(field, ""));
            continue;
        }
        let found = match field_path::resolve(text, schema, false) {
            Ok(found) => found,
            Err(problem) => {
                causes.push(Cause::invalid(field, path, &format!("is an invalid path: {problem}")));
                continue;
            }
        };
        if found.path.split('.').next() == Some("metadata") {
            causes.push(Cause::invalid(field.clone(), path, "must not point to fields in metadata"));
        }
        if !matches!(found.schema["type"].as_str(), Some("string" | "boolean" | "integer")) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            causes.push(Cause::invalid(field.clone(), path, detail));
        }
        if !seen.insert(found.path) {
            causes.push(Cause::duplicate(field, path));
        }
    }
    if seen.len() > SELECTABLE_MAX {
        causes.push(Cause::too_many(at, seen.len(), SELECTABLE_MAX as u64));
    }
}

/// Formats in the schemas that are not checked, each once.
pub(super) fn unknown_formats(definition: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let versions = definition["spec"]["versions"].as_array();
    for version in versions.into_iter().flatten() {
        collect_formats(&version["schema"]["openAPIV3Schema"], &mut found);
    }
    found
}

fn collect_formats(schema: &Value, found: &mut BTreeSet<String>) {
    let Some(map) = schema.as_object() else { return };
    if let Some(format) = map.get("format").and_then(Value::as_str)
        && !format.is_empty()
        && !format::is_known(map.get("type").and_then(Value::as_str).unwrap_or_default(), format)
    {
        found.insert(format.to_owned());
    }
    let below = map.get("properties").and_then(Value::as_object);
    below.into_iter().flatten().for_each(|(_, child)| collect_formats(child, found));
    for key in ["items", "additionalProperties", "not"] {
        map.get(key).into_iter().for_each(|child| collect_formats(child, found));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let branches = map.get(key).and_then(Value::as_array);
        branches.into_iter().flatten().for_each(|child| collect_formats(child, found));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_of_a_deprecation_warning_is_named() {
        let long = "x".repeat(WARNING_BYTES_MAX + 1);
        let long_and_odd = format!("{long}\n");
        for (deprecated, warning, expected) in [
            (false, "\n", &["can only be set for deprecated versions"][..]),
            (true, "use v2", &[]),
            (true, "", &["must not be an empty string"]),
            (true, &long, &["must be <= 256 characters long"]),
            (
                true,
                "é\u{a0}",
                &["must only contain printable UTF-8 characters; non-printable character found at index 2"],
            ),
            (
                true,
                &long_and_odd,
                &[
                    "must be <= 256 characters long",
                    "must only contain printable UTF-8 characters; non-printable character found at index 257",
                ],
            ),
        ] {
            let (version, mut causes) =
                (json!({"deprecated": deprecated, "deprecationWarning": warning}), vec![]);
            deprecation(&version, "v", &mut causes);
            let found: Vec<String> = causes.iter().map(Cause::to_string).collect();
            let value = json!(warning);
            let expected: Vec<String> = expected
                .iter()
                .map(|e| format!("v.deprecationWarning: Invalid value: {value}: {e}"))
                .collect();
            assert_eq!(found, expected);
        }
    }
}
