//! From the JSON of an OpenAPI v3 schema to the compact tree, with complaints about what is not
//! structural. Must not know any object.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/{convert,validation}.go`, v0.35.
//! Intended difference: the deepest rules of structural schemas (every field named under a junctor
//! is declared outside of it) are not checked; such schemas only prune more than their author meant.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use super::rules::Rules;
use super::{Cause, Checks, ListType, Node, Type, format};

/// Keywords that structural schemas must not use.
const FORBIDDEN: [&str; 6] =
    ["$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id"];

/// A schema nested deeper than this is refused, so that walking it cannot exhaust the stack.
const DEPTH_MAX: usize = 100;

/// Compiles the schema of a custom resource.
///
/// # Errors
/// One cause per violation, under `at`.
pub fn structural(schema: &Value, at: &str) -> Result<Node, Vec<Cause>> {
    let mut compiler = Compiler { strict: true, ..Compiler::default() };
    let mut root = compiler.node(schema, at, "at the root", 0);
    if root.type_ != Type::Object && compiler.causes.is_empty() {
        let found = schema.get("type").cloned().unwrap_or_default();
        compiler.causes.push(Cause::invalid(format!("{at}.type"), &found, "must be object at the root"));
    }
    if root.nullable {
        compiler.causes.push(Cause::forbidden(format!("{at}.nullable"), "must be false at the root"));
    }
    root.embedded = true;
    if compiler.causes.is_empty() { Ok(root) } else { Err(compiler.causes) }
}

/// Compiles a schema we generated ourselves; `$ref`s are looked up in `definitions`. Only what
/// decoding needs is kept: types, fields, date formats.
#[must_use]
pub fn trusted(schema: &Value, definitions: &Map<String, Value>) -> Node {
    let mut compiler = Compiler { definitions: definitions.clone(), ..Compiler::default() };
    compiler.node(schema, "", "", 0)
}

#[derive(Default)]
struct Compiler {
    strict: bool,
    definitions: Map<String, Value>,
    causes: Vec<Cause>,
    /// Schemas repeat few patterns often.
    patterns: BTreeMap<String, Regex>,
}

impl Compiler {
    /// `role` says what must have a type, in upstream's words.
    fn node(&mut self, schema: &Value, at: &str, role: &str, depth: usize) -> Node {
        if depth > DEPTH_MAX {
            self.causes.push(Cause::forbidden(at, "schema is nested too deeply"));
            return Node::default();
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str).filter(|_| !self.strict) {
            return self.referenced(target, depth);
        }
        let mut node = self.shape(schema, at, role);
        self.children(&mut node, schema, at, depth);
        if self.strict {
            self.forbidden(schema, at);
            self.list_map_keys(&node, at);
            node.checks = self.checks(schema, at, depth).map(Box::new);
            node.rules = Rules::compile(schema, at, &mut self.causes).map(Box::new);
            self.default_fits(&node, at);
        } else if schema.get("format").and_then(Value::as_str) == Some("date-time") {
            node.checks =
                Some(Box::new(Checks { format: Some(format::Format::DateTime), ..Checks::default() }));
        }
        let children =
            || node.properties.values().chain(node.items.as_deref()).chain(node.additional.as_deref());
        node.has_defaults = node.default.is_some() || children().any(|child| child.has_defaults);
        node.has_rules = node.rules.is_some() || children().any(|child| child.has_rules);
        node
    }

    /// A definition that contains itself ends in "anything": only JSON schemas inside a
    /// CustomResourceDefinition do.
    fn referenced(&mut self, target: &str, depth: usize) -> Node {
        const DEPTH_OF_DEFINITIONS_MAX: usize = 12;
        let name = target.rsplit('/').next().unwrap_or_default();
        match self.definitions.get(name).cloned() {
            Some(definition) if depth < DEPTH_OF_DEFINITIONS_MAX && !name.ends_with("JSONSchemaProps") => {
                self.node(&definition, "", "", depth + 1)
            }
            _ => Node { preserve_unknown: true, ..Node::default() },
        }
    }

    fn shape(&mut self, schema: &Value, at: &str, role: &str) -> Node {
        let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
        let type_ = self.type_of(schema, at, role);
        let declares_fields =
            schema.get("properties").is_some() || schema.get("additionalProperties").is_some();
        // Our own schemas say "any JSON" by saying nothing.
        let anything = !self.strict && matches!(type_, Type::Any | Type::Object) && !declares_fields;
        Node {
            type_,
            nullable: flag("nullable"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields") || anything,
            embedded: flag("x-kubernetes-embedded-resource"),
            atomic: schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
            list: self.list_type(schema, at),
            default: schema.get("default").filter(|_| self.strict).cloned(),
            ..Node::default()
        }
    }

    fn type_of(&mut self, schema: &Value, at: &str, role: &str) -> Type {
        let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
        if flag("x-kubernetes-int-or-string") {
            return Type::IntOrString;
        }
        let field = format!("{at}.type");
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => Type::Object,
            Some("array") => Type::Array,
            Some("string") => Type::String,
            Some("integer") => Type::Integer,
            Some("number") => Type::Number,
            Some("boolean") => Type::Boolean,
            Some(other) => {
                let known = ["array", "boolean", "integer", "number", "object", "string"];
                self.causes.push(Cause::not_supported(field, &Value::from(other), &known));
                Type::Any
            }
            None => {
                if self.strict && !flag("x-kubernetes-preserve-unknown-fields") && !role.is_empty() {
                    self.causes.push(Cause::required(field, &format!("must not be empty {role}")));
                }
                Type::Any
            }
        }
    }

    fn list_type(&mut self, schema: &Value, at: &str) -> ListType {
        match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
            None | Some("atomic") => ListType::Atomic,
            Some("set") => ListType::Set,
            Some("map") => {
                let keys: Vec<String> = schema
                    .get("x-kubernetes-list-map-keys")
                    .and_then(Value::as_array)
                    .map(|keys| keys.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                    .unwrap_or_default();
                if keys.is_empty() {
                    let field = format!("{at}.x-kubernetes-list-map-keys");
                    let detail = "must not be empty if x-kubernetes-list-type is map";
                    self.causes.push(Cause::required(field, detail));
                }
                ListType::Map(keys)
            }
            Some(other) => {
                let field = format!("{at}.x-kubernetes-list-type");
                self.causes.push(Cause::not_supported(field, &Value::from(other), &["atomic", "set", "map"]));
                ListType::Atomic
            }
        }
    }

    fn children(&mut self, node: &mut Node, schema: &Value, at: &str, depth: usize) {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (name, property) in properties {
                let path = format!("{at}.properties[{name}]");
                let child = self.node(property, &path, "for specified object fields", depth + 1);
                node.properties.insert(name.clone(), child);
            }
        }
        match schema.get("additionalProperties") {
            Some(Value::Bool(true)) => node.preserve_unknown = true,
            Some(additional @ Value::Object(_)) => {
                let path = format!("{at}.additionalProperties");
                let role = "for specified object fields";
                node.additional = Some(Box::new(self.node(additional, &path, role, depth + 1)));
            }
            _ => {}
        }
        match schema.get("items") {
            Some(items @ Value::Object(_)) => {
                let path = format!("{at}.items");
                node.items = Some(Box::new(self.node(items, &path, "for specified array items", depth + 1)));
            }
            Some(Value::Array(_)) => {
                let detail = "items must be a schema object and not an array";
                self.causes.push(Cause::forbidden(format!("{at}.items"), detail));
            }
            _ if self.strict && node.type_ == Type::Array => {
                self.causes.push(Cause::required(format!("{at}.items"), "must be specified"));
            }
            _ => {}
        }
    }

    fn forbidden(&mut self, schema: &Value, at: &str) {
        for key in FORBIDDEN.into_iter().filter(|key| schema.get(key).is_some()) {
            self.causes.push(Cause::forbidden(format!("{at}.{key}"), &format!("{key} is not supported")));
        }
        if schema.get("uniqueItems").and_then(Value::as_bool) == Some(true) {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.causes.push(Cause::forbidden(format!("{at}.uniqueItems"), detail));
        }
        let has_properties =
            schema.get("properties").and_then(Value::as_object).is_some_and(|p| !p.is_empty());
        if has_properties && schema.get("additionalProperties").is_some_and(|a| *a != Value::Bool(false)) {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.causes.push(Cause::forbidden(format!("{at}.additionalProperties"), detail));
        }
    }

    fn list_map_keys(&mut self, node: &Node, at: &str) {
        let (ListType::Map(keys), Some(items)) = (&node.list, &node.items) else { return };
        for key in keys {
            if !items.properties.contains_key(key) {
                let detail = "entries must all be names of item properties";
                let field = format!("{at}.x-kubernetes-list-map-keys");
                self.causes.push(Cause::invalid(field, &Value::from(key.as_str()), detail));
            }
        }
    }

    fn checks(&mut self, schema: &Value, at: &str, depth: usize) -> Option<Checks> {
        let number = |key: &str| schema.get(key).and_then(Value::as_u64);
        let bound = |key: &str, exclusive: &str| {
            let excluded = schema.get(exclusive).and_then(Value::as_bool).unwrap_or(false);
            schema.get(key).and_then(Value::as_f64).map(|bound| (bound, excluded))
        };
        let int_or_string = schema.get("x-kubernetes-int-or-string").is_some();
        let checks = Checks {
            required: strings(schema.get("required")),
            enumeration: schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            pattern: self.pattern(schema, at),
            format: schema.get("format").and_then(Value::as_str).and_then(format::Format::named),
            length_min: number("minLength"),
            length_max: number("maxLength"),
            items_min: number("minItems"),
            items_max: number("maxItems"),
            properties_min: number("minProperties"),
            properties_max: number("maxProperties"),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: schema.get("multipleOf").and_then(Value::as_f64).filter(|m| *m != 0.0),
            all_of: self.junctor(schema, "allOf", at, depth, int_or_string),
            any_of: self.junctor(schema, "anyOf", at, depth, int_or_string),
            one_of: self.junctor(schema, "oneOf", at, depth, false),
            not: schema.get("not").map(|not| self.branch(not, &format!("{at}.not"), depth + 1)),
        };
        checks.is_needed().then_some(checks)
    }

    /// Branches of `allOf` and the like restrict values but declare no fields. The one that spells
    /// out int-or-string says nothing new.
    fn junctor(
        &mut self,
        schema: &Value,
        key: &str,
        at: &str,
        depth: usize,
        int_or_string: bool,
    ) -> Vec<Node> {
        let branches = schema.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let spells_types = |branch: &Value| {
            branch.as_object().is_some_and(|b| b.keys().all(|k| k == "type" || k == "anyOf"))
        };
        if int_or_string && branches.iter().all(spells_types) {
            return Vec::new();
        }
        let path = |i: usize| format!("{at}.{key}[{i}]");
        branches.iter().enumerate().map(|(i, branch)| self.branch(branch, &path(i), depth + 1)).collect()
    }

    fn branch(&mut self, schema: &Value, at: &str, depth: usize) -> Node {
        if depth > DEPTH_MAX {
            self.causes.push(Cause::forbidden(at, "schema is nested too deeply"));
            return Node::default();
        }
        let mut node = Node { type_: self.type_of(schema, at, ""), ..Node::default() };
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (name, property) in properties {
                let path = format!("{at}.properties[{name}]");
                node.properties.insert(name.clone(), self.branch(property, &path, depth + 1));
            }
        }
        node.items =
            schema.get("items").map(|items| Box::new(self.branch(items, &format!("{at}.items"), depth + 1)));
        node.additional = schema
            .get("additionalProperties")
            .filter(|a| a.is_object())
            .map(|a| Box::new(self.branch(a, &format!("{at}.additionalProperties"), depth + 1)));
        node.checks = self.checks(schema, at, depth).map(Box::new);
        node
    }

    fn pattern(&mut self, schema: &Value, at: &str) -> Option<Regex> {
        let text = schema.get("pattern").and_then(Value::as_str)?;
        if let Some(known) = self.patterns.get(text) {
            return Some(known.clone());
        }
        match Regex::new(text) {
            Ok(regex) => {
                self.patterns.insert(text.to_owned(), regex.clone());
                Some(regex)
            }
            Err(error) => {
                let field = format!("{at}.pattern");
                let detail = format!("must be a valid regular expression, but isn't: {error}");
                self.causes.push(Cause::invalid(field, &Value::from(text), &detail));
                None
            }
        }
    }

    fn default_fits(&mut self, node: &Node, at: &str) {
        let Some(default) = &node.default else { return };
        let field = format!("{at}.default");
        let mut pruned = default.clone();
        if !node.prune(&mut pruned).is_empty() {
            self.causes.push(Cause::invalid(
                field,
                default,
                "must be pruned: it has fields that are not declared",
            ));
            return;
        }
        node.apply_defaults(&mut pruned);
        for cause in super::validate::value(node, &pruned) {
            self.causes.push(Cause { field: format!("{field}.{}", cause.field), ..cause });
        }
    }
}

impl Checks {
    fn is_needed(&self) -> bool {
        let bounds = [
            self.length_min,
            self.length_max,
            self.items_min,
            self.items_max,
            self.properties_min,
            self.properties_max,
        ];
        bounds.iter().any(Option::is_some)
            || !self.required.is_empty()
            || !self.enumeration.is_empty()
            || self.pattern.is_some()
            || self.format.is_some()
            || self.minimum.is_some()
            || self.maximum.is_some()
            || self.multiple_of.is_some()
            || self.not.is_some()
            || [&self.all_of, &self.any_of, &self.one_of].iter().any(|branches| !branches.is_empty())
    }
}

fn strings(list: Option<&Value>) -> Vec<String> {
    list.and_then(Value::as_array)
        .map(|items| items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        .unwrap_or_default()
}
