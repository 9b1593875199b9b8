//! Are the keywords of a schema used as an API server allows? Complaints only, on the schema as JSON.
//! Structure is `structural`'s, rules in CEL are compiled by `rules`.
//!
//! Source: apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go`
//! (`ValidateCustomResourceDefinitionOpenAPISchema`, `specStandardValidatorV3`), v0.36.

use serde_json::{Value, json};

use super::structural::{children, flag, is_set, word};
use super::{Cause, field_path};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const LIST: &str = "x-kubernetes-list-type";
const KEYS: &str = "x-kubernetes-list-map-keys";
const MAP: &str = "x-kubernetes-map-type";
const RULES: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What holds for a node because of where it stands.
#[derive(Clone, Default)]
struct Position {
    /// Inside of `apiVersion`, `kind` or `metadata` of a whole object.
    in_metadata: bool,
    /// Why there must be no default.
    no_default: Option<String>,
}

/// Every keyword that is used wrongly, under the path `at`.
pub(super) fn check(schema: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    node(schema, at, &Position::default(), true, &mut causes);
    causes
}

fn node(schema: &Value, at: &str, position: &Position, root: bool, causes: &mut Vec<Cause>) {
    let Some(map) = schema.as_object() else { return };
    standard(schema, at, position, causes);
    lists(schema, at, causes);
    rules(schema, at, causes);
    for (step, child) in children(map) {
        let mut below = position.clone();
        if step == "additionalProperties" && position.in_metadata {
            below.no_default = Some("inside additionalProperties applying to object metadata".to_owned());
        }
        let name = step.strip_prefix("properties[").and_then(|name| name.strip_suffix(']'));
        if let Some(name) = name.filter(|name| ["metadata", "kind", "apiVersion"].contains(name))
            && (root || flag(schema, "x-kubernetes-embedded-resource"))
        {
            below.in_metadata = true;
            if root {
                below.no_default = Some(format!("in top-level {name}"));
            }
        }
        node(child, &format!("{at}.{step}"), &below, false, causes);
    }
}

fn standard(schema: &Value, at: &str, position: &Position, causes: &mut Vec<Cause>) {
    let Some(map) = schema.as_object() else { return };
    let mut forbid = |key: &str, detail: &str| causes.push(Cause::forbidden(format!("{at}.{key}"), detail));
    if let (Some(why), true) = (&position.no_default, map.get("default").is_some_and(|d| !d.is_null())) {
        forbid("default", &format!("must not be set {why}"));
    }
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if is_set(map, key) {
            forbid(key, &format!("{key} is not supported"));
        }
    }
    let type_ = word(schema, "type");
    if type_ == "null" {
        forbid("type", "type cannot be set to null, use nullable as an alternative");
    }
    if map.get("items").is_some_and(Value::is_array) {
        forbid("items", "items must be a schema object and not an array");
    }
    if position.in_metadata && flag(schema, "x-kubernetes-embedded-resource") {
        forbid("x-kubernetes-embedded-resource", "must not be used inside of resource meta");
    }
    if flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        forbid("uniqueItems", detail);
    }
    let declares = map.get("properties").and_then(Value::as_object).is_some_and(|p| !p.is_empty());
    // Upstream lets `additionalProperties: true` stand beside properties.
    if declares && map.get("additionalProperties").is_some_and(|a| *a != Value::Bool(true) && !a.is_null()) {
        forbid("additionalProperties", "additionalProperties and properties are mutual exclusive");
    }
    if !type_.is_empty() && !TYPES.contains(&type_) {
        causes.push(Cause::not_supported(format!("{at}.type"), &json!(type_), &TYPES));
    }
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if map.get(preserve) == Some(&Value::Bool(false)) {
        let detail = "must be true or undefined";
        causes.push(Cause::invalid(format!("{at}.{preserve}"), &json!(false), detail));
    }
}

/// `key` is only for schemas of the type `wanted`.
fn only_for(schema: &Value, at: &str, key: &str, wanted: &str, causes: &mut Vec<Cause>) -> bool {
    let type_ = word(schema, "type");
    if schema.get(key).is_none() || type_ == wanted {
        return true;
    }
    let (field, detail) = (format!("{at}.type"), format!("must be {wanted} if {key} is specified"));
    causes.push(if type_.is_empty() {
        Cause::required(field, &detail)
    } else {
        Cause::invalid(field, &json!(type_), &detail)
    });
    false
}

fn lists(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    only_for(schema, at, MAP, "object", causes);
    let (map_type, list_type) = (word(schema, MAP), word(schema, LIST));
    if !matches!(map_type, "" | "atomic" | "granular") {
        let known = ["atomic", "granular"];
        causes.push(Cause::not_supported(format!("{at}.{MAP}"), &json!(map_type), &known));
    }
    if only_for(schema, at, LIST, "array", causes) && list_type == "set" {
        set_items(&schema["items"], at, causes);
    }
    if !matches!(list_type, "" | "atomic" | "set" | "map") {
        let known = ["atomic", "set", "map"];
        causes.push(Cause::not_supported(format!("{at}.{LIST}"), &json!(list_type), &known));
    }
    let has_keys = schema.as_object().is_some_and(|map| is_set(map, KEYS));
    if has_keys && list_type != "map" {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        let field = format!("{at}.{LIST}");
        causes.push(if list_type.is_empty() {
            Cause::required(field, detail)
        } else {
            Cause::invalid(field, &json!(list_type), detail)
        });
    }
    if list_type == "map" {
        map_items(schema, at, has_keys, causes);
    }
    if matches!(list_type, "set" | "map") && flag(&schema["items"], "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        causes.push(Cause::forbidden(format!("{at}.items.nullable"), &detail));
    }
}

fn set_items(items: &Value, at: &str, causes: &mut Vec<Cause>) {
    // A set tells its items apart by their whole value, so no part of one may be owned alone.
    let key = match word(items, "type") {
        "array" if !matches!(word(items, LIST), "" | "atomic") => LIST,
        "object" if word(items, MAP) != "atomic" => MAP,
        _ => return,
    };
    // Upstream shows the list type in both cases.
    let shown = items.get(LIST).cloned().unwrap_or_default();
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    causes.push(Cause::invalid(format!("{at}.items.{key}"), &shown, detail));
}

fn map_items(schema: &Value, at: &str, has_keys: bool, causes: &mut Vec<Cause>) {
    if !has_keys {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        causes.push(Cause::required(format!("{at}.{KEYS}"), detail));
    }
    let Some(items) = schema.get("items").filter(|items| items.is_object()) else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        return causes.push(Cause::required(format!("{at}.items"), detail));
    };
    if word(items, "type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        return causes.push(Cause::invalid(format!("{at}.items.type"), &json!(word(items, "type")), detail));
    }
    let keys: Vec<&str> = schema[KEYS].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (index, key) in keys.iter().enumerate() {
        let field = format!("{at}.items.properties[{key}]");
        let mut wrong =
            |detail: &str| causes.push(Cause::invalid(format!("{at}.{KEYS}"), &schema[KEYS], detail));
        if keys[..index].contains(key) {
            wrong("must not contain duplicate entries");
        }
        let Some(property) = items.get("properties").and_then(|properties| properties.get(key)) else {
            wrong("entries must all be names of item properties");
            continue;
        };
        if matches!(word(property, "type"), "array" | "object") {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            // Upstream shows the type of the item here, not that of the property.
            causes.push(Cause::invalid(format!("{field}.type"), &items["type"], detail));
        }
        let required = items["required"].as_array().is_some_and(|names| names.contains(&json!(key)));
        if !required && property.get("default").is_none_or(Value::is_null) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            causes.push(Cause::required(format!("{field}.default"), detail));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(Cause::forbidden(format!("{field}.nullable"), detail));
        }
    }
}

fn rules(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    let rules = schema.get(RULES).and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let at = format!("{at}.{RULES}[{index}]");
        let (expression, message) = (word(rule, "rule").trim(), word(rule, "message"));
        let broken = |text: &str| text.contains(['\n', '\r']);
        // Of a rule and its message the first fault is named, as upstream's `switch` stops there.
        if expression.is_empty() {
            causes.push(Cause::required(format!("{at}.rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            causes.push(Cause::invalid(format!("{at}.message"), &json!(message), detail));
        } else if broken(message.trim()) {
            causes.push(Cause::invalid(
                format!("{at}.message"),
                &json!(message),
                "must not contain line breaks",
            ));
        } else if broken(expression) && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            causes.push(Cause::required(format!("{at}.message"), detail));
        }
        let expression = word(rule, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            causes.push(Cause::required(format!("{at}.messageExpression"), detail));
        }
        if let Some(reason) = rule.get("reason").and_then(Value::as_str).filter(|r| !REASONS.contains(r)) {
            causes.push(Cause::not_supported(format!("{at}.reason"), &json!(reason), &REASONS));
        }
        rule_path(schema, word(rule, "fieldPath"), &format!("{at}.fieldPath"), causes);
    }
}

fn rule_path(schema: &Value, path: &str, field: &str, causes: &mut Vec<Cause>) {
    if path.is_empty() {
        return;
    }
    let mut wrong = |detail: &str| causes.push(Cause::invalid(field, &json!(path), detail));
    if path.trim().is_empty() {
        wrong("must be non-empty if specified");
    }
    if path.contains(['\n', '\r']) {
        wrong("must not contain line breaks");
    }
    if field_path::resolve(path, schema, true).is_err() {
        wrong("must be a valid path");
    }
}
