//! Is a schema structural, and does it use only keywords an API server supports? Complaints only;
//! nothing is compiled here. Works on the schema as JSON.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/{validation,complete}.go` and
//! `pkg/apis/apiextensions/validation/validation.go` (`ValidateCustomResourceDefinitionOpenAPISchema`), v0.36.

use serde_json::{Map, Value, json};

use super::{Cause, pattern};

/// Keywords that structural schemas must not use, and how to tell an empty one.
const UNSUPPORTED: [&str; 7] =
    ["$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties", "$schema"];
/// Only the structure outside of `allOf` and the like may use these.
const OUTSIDE_ONLY: [(&str, &str); 11] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (PRESERVE, "must be false to be structural"),
    (EMBEDDED, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
];
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
/// A schema nested deeper than this is refused, so that walking it cannot exhaust the stack.
const DEPTH_MAX: usize = 100;

/// Where a node stands decides how a missing type is put.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Items,
    Field,
}

/// Every violation of the structural rules, under the path `at`.
pub(super) fn check(schema: &Value, at: &str) -> Vec<Cause> {
    if depth(schema) > DEPTH_MAX {
        return vec![Cause::forbidden(at, "schema is nested too deeply")];
    }
    let mut checker = Checker::default();
    if flag(schema, "nullable") {
        checker.forbid(format!("{at}.nullable"), "nullable cannot be true at the root");
    }
    if !is_convertible(schema) {
        // The keywords are the message.
        return checker.causes;
    }
    let mut structure = Checker::default();
    structure.invariants(schema, Level::Root, at);
    structure.junctor_fields(schema, schema, at, at);
    // Upstream sorts these by their text, as its maps have no order.
    structure.causes.sort_by_key(Cause::to_string);
    checker.causes.append(&mut structure.causes);
    checker.causes
}

fn depth(schema: &Value) -> usize {
    match schema {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// No keyword that the structural form cannot express, here or below.
fn is_convertible(schema: &Value) -> bool {
    let Some(map) = schema.as_object() else { return true };
    UNSUPPORTED.iter().all(|key| !is_set(map, key))
        && !map.get("items").is_some_and(Value::is_array)
        && children(map).all(|(_, child)| is_convertible(child))
}

pub(super) fn is_set(map: &Map<String, Value>, key: &str) -> bool {
    match map.get(key) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        // An empty schema for all other keys allows anything, which is more than none.
        Some(Value::Object(fields)) => !fields.is_empty() || key == "additionalProperties",
        Some(Value::Array(items)) => !items.is_empty(),
        Some(_) => true,
    }
}

pub(super) fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or(false)
}

pub(super) fn word<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Schemas directly below, with the step that leads there.
pub(super) fn children(map: &Map<String, Value>) -> impl Iterator<Item = (String, &Value)> {
    let properties = map.get("properties").and_then(Value::as_object).into_iter().flatten();
    let properties = properties.map(|(name, child)| (format!("properties[{name}]"), child));
    let single = ["items", "additionalProperties", "not"].into_iter().filter_map(|key| {
        // `items` may be a list and the others may be a flag: those are not schemas.
        map.get(key).filter(|child| child.is_object()).map(|child| (key.to_owned(), child))
    });
    let branches = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| {
        let list = map.get(key).and_then(Value::as_array).into_iter().flatten();
        list.enumerate().map(move |(index, child)| (format!("{key}[{index}]"), child))
    });
    properties.chain(single).chain(branches)
}

/// The branches of `allOf`, `anyOf`, `oneOf` and `not`, with their step.
fn junctors(schema: &Value) -> impl Iterator<Item = (String, &Value)> {
    let map = schema.as_object();
    map.into_iter()
        .flat_map(children)
        .filter(|(step, _)| ["not", "allOf[", "anyOf[", "oneOf["].iter().any(|start| step.starts_with(start)))
}

fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties").and_then(|properties| properties.get(name))
}

#[derive(Default)]
struct Checker {
    causes: Vec<Cause>,
}

impl Checker {
    fn forbid(&mut self, field: String, detail: &str) {
        self.causes.push(Cause::forbidden(field, detail));
    }

    fn invariants(&mut self, s: &Value, level: Level, at: &str) {
        if !s.is_object() {
            return;
        }
        let type_ = word(s, "type");
        match s.get("items") {
            Some(items) if items.is_object() => self.invariants(items, Level::Items, &format!("{at}.items")),
            _ if type_ == "array" => {
                self.causes.push(Cause::required(format!("{at}.items"), "must be specified"));
            }
            _ => {}
        }
        for (name, child) in s.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.invariants(child, Level::Field, &format!("{at}.properties[{name}]"));
        }
        self.additional(s, level, at);
        for key in [PRESERVE, EMBEDDED] {
            if flag(s, INT_OR_STRING) && flag(s, key) {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                self.causes.push(Cause::invalid(format!("{at}.{key}"), &json!(true), detail));
            }
        }
        self.values(s, at, !spells_int_or_string(s), !first_spells_int_or_string(s));
        self.type_of(s, level, at);
        self.object_fields(s, level, at);
    }

    fn additional(&mut self, s: &Value, level: Level, at: &str) {
        let Some(additional) = s.get("additionalProperties").filter(|a| !a.is_null()) else { return };
        let field = format!("{at}.additionalProperties");
        if level == Level::Root {
            self.forbid(field.clone(), "must not be used at the root");
        }
        if flag(s, EMBEDDED) {
            self.forbid(field.clone(), "must not be used if x-kubernetes-embedded-resource is set");
        }
        self.invariants(additional, Level::Field, &field);
    }

    fn type_of(&mut self, s: &Value, level: Level, at: &str) {
        let (type_, field) = (word(s, "type"), format!("{at}.type"));
        if flag(s, EMBEDDED) && type_ != "object" {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            self.causes.push(if type_.is_empty() {
                Cause::required(field.clone(), detail)
            } else {
                Cause::invalid(field.clone(), &json!(type_), detail)
            });
        } else if type_.is_empty() && !flag(s, INT_OR_STRING) && !flag(s, PRESERVE) {
            let role = match level {
                Level::Root => "at the root",
                Level::Items => "for specified array items",
                Level::Field => "for specified object fields",
            };
            self.causes.push(Cause::required(field.clone(), &format!("must not be empty {role}")));
        }
        if level == Level::Root && !type_.is_empty() && type_ != "object" {
            self.causes.push(Cause::invalid(field, &json!(type_), "must be object at the root"));
        }
    }

    /// `apiVersion`, `kind` and `metadata` of whole objects.
    fn object_fields(&mut self, s: &Value, level: Level, at: &str) {
        let whole = level == Level::Root || flag(s, EMBEDDED);
        for name in ["kind", "apiVersion"] {
            if let Some(found) = property(s, name).filter(|_| whole)
                && word(found, "type") != "string"
            {
                let field = format!("{at}.properties[{name}].type");
                self.causes.push(Cause::invalid(field, &json!(word(found, "type")), "must be string"));
            }
        }
        if let Some(metadata) = property(s, "metadata") {
            let field = format!("{at}.properties[metadata]");
            if whole && word(metadata, "type") != "object" {
                let field = format!("{field}.type");
                self.causes.push(Cause::invalid(field, &json!(word(metadata, "type")), "must be object"));
            }
            if level == Level::Root && !restricts_names_only(metadata) {
                let detail = "must not specify anything other than name and generateName, but metadata is implicitly \
                              specified";
                self.forbid(field, detail);
            }
        }
        let empty = s.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty);
        if flag(s, EMBEDDED) && !flag(s, PRESERVE) && empty {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                          x-kubernetes-preserve-unknown-fields";
            self.causes.push(Cause::required(format!("{at}.properties"), detail));
        }
    }

    /// What stands under junctors, and the pattern. The two ways to spell out int-or-string are
    /// left alone.
    fn values(&mut self, s: &Value, at: &str, any_of: bool, first_all_of: bool) {
        for (step, branch) in junctors(s) {
            if step.starts_with("anyOf") && !any_of {
                continue;
            }
            let spelled = step == "allOf[0]" && !first_all_of;
            self.nested(branch, &format!("{at}.{step}"), !spelled);
        }
        if let Some(text) = s.get("pattern").and_then(Value::as_str)
            && let Err(problem) = pattern::Pattern::new(text)
        {
            let detail = format!("must be a valid regular expression, but isn't: {problem}");
            self.causes.push(Cause::invalid(format!("{at}.pattern"), &json!(text), &detail));
        }
    }

    fn nested(&mut self, v: &Value, at: &str, any_of: bool) {
        let Some(map) = v.as_object() else { return };
        self.values(v, at, any_of, true);
        if let Some(items) = map.get("items").filter(|items| items.is_object()) {
            self.nested(items, &format!("{at}.items"), true);
        }
        for (name, child) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.nested(child, &format!("{at}.properties[{name}]"), true);
        }
        for (key, detail) in OUTSIDE_ONLY {
            if is_set(map, key) {
                self.forbid(format!("{at}.{key}"), detail);
            }
        }
        if is_set(map, "x-kubernetes-map-type") {
            self.forbid(format!("{at}.x-kubernetes-map-type"), "must be undefined to be structural");
        }
        if is_set(map, "x-kubernetes-validations") {
            self.forbid(format!("{at}.x-kubernetes-validations"), "must be empty to be structural");
        }
        if property(v, "metadata").is_some() {
            self.forbid(format!("{at}.properties[metadata]"), "must not be specified in a nested context");
        }
    }

    /// Every field that a junctor names must be declared outside of it. `s` is the structure that
    /// belongs to `v`.
    fn junctor_fields(&mut self, v: &Value, s: &Value, s_at: &str, v_at: &str) {
        for (step, branch) in junctors(v) {
            self.declared(branch, s, s_at, &format!("{v_at}.{step}"));
        }
    }

    fn declared(&mut self, v: &Value, s: &Value, s_at: &str, v_at: &str) {
        self.junctor_fields(v, s, s_at, v_at);
        if let Some(items) = v.get("items").filter(|items| items.is_object()) {
            let (s_at, v_at) = (format!("{s_at}.items"), format!("{v_at}.items"));
            match s.get("items") {
                Some(declared) => self.declared(items, declared, &s_at, &v_at),
                None => self.undeclared(s_at, &v_at),
            }
        }
        for (name, child) in v.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let step = format!("properties[{name}]");
            let (s_at, v_at) = (format!("{s_at}.{step}"), format!("{v_at}.{step}"));
            match property(s, name) {
                Some(declared) => self.declared(child, declared, &s_at, &v_at),
                None => self.undeclared(s_at, &v_at),
            }
        }
    }

    fn undeclared(&mut self, field: String, at: &str) {
        self.causes.push(Cause::required(field, &format!("because it is defined in {at}")));
    }
}

fn restricts_names_only(metadata: &Value) -> bool {
    metadata.as_object().into_iter().flatten().all(|(key, value)| match key.as_str() {
        "type" | "default" => true,
        "properties" => {
            value.as_object().is_none_or(|p| p.keys().all(|k| k == "name" || k == "generateName"))
        }
        _ => !is_set(metadata.as_object().unwrap_or(&Map::new()), key),
    })
}

fn spells_int_or_string(s: &Value) -> bool {
    s.get("anyOf").is_some_and(|branches| *branches == json!([{"type": "integer"}, {"type": "string"}]))
}

fn first_spells_int_or_string(s: &Value) -> bool {
    s.get("allOf").and_then(|branches| branches.get(0)).is_some_and(spells_int_or_string)
}
