//! From the JSON of an OpenAPI v3 schema to the compact tree. Complaints about the schema itself come
//! from `structural`, `keywords` and `rules`; here only defaults are judged. Must not know any object.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/{convert.go,defaulting/validation.go}`, v0.36.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::pattern::Pattern;
use super::{Cause, Checks, ListType, Node, Type, format, keywords, structural, validate};

/// What the compiled patterns of one schema may take together. Patterns of a few hundred bytes are some kilobytes; a few that count
/// to a thousand are megabytes.
const PATTERNS_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Compiles the schema of a custom resource, for a definition that is written. Defaults are only judged in schemas that
/// are structural, and rules only in schemas without any other fault.
///
/// # Errors
/// One cause per violation, under `at`.
pub fn structural(schema: &Value, at: &str) -> Result<Node, Vec<Cause>> {
    let (root, causes) = with_rules(schema, at)?;
    if causes.is_empty() { Ok(root) } else { Err(causes) }
}

/// The same for a definition that is stored: one wrong rule, which another server or an earlier version took, does not
/// make its objects unreadable. As upstream, values that it is about are refused.
///
/// # Errors
/// As above, but for rules.
pub fn stored(schema: &Value, at: &str) -> Result<Node, Vec<Cause>> {
    Ok(with_rules(schema, at)?.0)
}

/// Causes beside the schema are those of its rules, and of the memory of its patterns.
fn with_rules(schema: &Value, at: &str) -> Result<(Node, Vec<Cause>), Vec<Cause>> {
    let mut causes = structural::check(schema, at);
    let fine = causes.is_empty();
    let mut compiler = Compiler { strict: true, ..Compiler::default() };
    let mut root = Node::default();
    if fine {
        root = compiler.node(schema, 0);
        root.embedded = true;
        root.finish();
        default_fits(&root, at, false, &mut causes);
    }
    // Keywords are judged even when the structure is wrong, so that one answer names all faults.
    causes.extend(keywords::check(schema, at));
    if !causes.is_empty() {
        return Err(causes);
    }
    if compiler.is_over {
        let most = PATTERNS_BYTES_MAX >> 20;
        causes.push(Cause::forbidden(at, &format!("patterns take more than {most} MiB of memory")));
    }
    super::rules::install(&mut root, schema, at, &mut causes);
    Ok((root, causes))
}

/// Compiles a schema we generated ourselves; `$ref`s are looked up in `definitions`. Only what
/// decoding needs is kept: types, fields, date formats.
pub fn trusted(schema: &Value, definitions: &Map<String, Value>) -> Node {
    let mut compiler = Compiler { definitions: definitions.clone(), ..Compiler::default() };
    let mut root = compiler.node(schema, 0);
    root.finish();
    root
}

#[derive(Default)]
struct Compiler {
    strict: bool,
    definitions: Map<String, Value>,
    /// Schemas repeat few patterns often.
    patterns: BTreeMap<String, Option<Pattern>>,
    /// What the patterns take that are kept.
    patterns_bytes: usize,
    /// Not all could be kept.
    is_over: bool,
}

impl Compiler {
    fn node(&mut self, schema: &Value, depth: usize) -> Node {
        // A definition's schema must not have references, which `keywords` reports.
        if let Some(target) = schema.get("$ref").and_then(Value::as_str).filter(|_| !self.strict) {
            return self.referenced(target, depth);
        }
        let mut node = self.shape(schema);
        self.children(&mut node, schema, depth);
        if self.strict {
            node.checks = self.checks(schema).map(Box::new);
        } else if schema.get("format").and_then(Value::as_str) == Some("date-time") {
            let format = format::Format::named("date-time");
            node.checks = Some(Box::new(Checks { format, ..Checks::default() }));
        }
        node
    }

    /// A definition that contains itself ends in "anything": only JSON schemas inside a
    /// CustomResourceDefinition do.
    fn referenced(&mut self, target: &str, depth: usize) -> Node {
        const DEPTH_OF_DEFINITIONS_MAX: usize = 12;
        let name = target.rsplit('/').next().unwrap_or_default();
        match self.definitions.get(name).cloned() {
            Some(definition) if depth < DEPTH_OF_DEFINITIONS_MAX && !name.ends_with("JSONSchemaProps") => {
                self.node(&definition, depth + 1)
            }
            _ => Node { preserve_unknown: true, ..Node::default() },
        }
    }

    fn shape(&self, schema: &Value) -> Node {
        let flag = |key: &str| structural::flag(schema, key);
        let type_ = type_of(schema);
        let declares_fields =
            schema.get("properties").is_some() || schema.get("additionalProperties").is_some();
        // In our own schemas an empty schema means "any JSON".
        let anything = !self.strict && matches!(type_, Type::Any | Type::Object) && !declares_fields;
        Node {
            type_,
            nullable: flag("nullable"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields") || anything,
            embedded: flag("x-kubernetes-embedded-resource"),
            atomic: structural::word(schema, "x-kubernetes-map-type") == "atomic",
            list: list_type(schema),
            default: schema.get("default").filter(|default| self.strict && !default.is_null()).cloned(),
            ..Node::default()
        }
    }

    fn children(&mut self, node: &mut Node, schema: &Value, depth: usize) {
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            node.properties.insert(name.clone(), self.node(property, depth + 1));
        }
        match schema.get("additionalProperties") {
            Some(Value::Bool(true)) => node.preserve_unknown = true,
            Some(additional @ Value::Object(_)) => {
                node.additional = Some(Box::new(self.node(additional, depth + 1)));
            }
            _ => {}
        }
        if let Some(items @ Value::Object(_)) = schema.get("items") {
            node.items = Some(Box::new(self.node(items, depth + 1)));
        }
    }

    fn checks(&mut self, schema: &Value) -> Option<Checks> {
        let number =
            |key: &str| schema.get(key).and_then(Value::as_i64).map(|n| u64::try_from(n).unwrap_or(0));
        let bound = |key: &str, exclusive: &str| {
            let excluded = structural::flag(schema, exclusive);
            schema.get(key).and_then(Value::as_f64).map(|bound| (bound, excluded))
        };
        let int_or_string = structural::flag(schema, "x-kubernetes-int-or-string");
        let type_ = structural::word(schema, "type");
        let checks = Checks {
            required: strings(schema.get("required")),
            enumeration: schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            pattern: self.pattern(schema),
            format: schema
                .get("format")
                .and_then(Value::as_str)
                .filter(|format| format::is_known(type_, format))
                .and_then(format::Format::named),
            length_min: number("minLength"),
            length_max: number("maxLength"),
            items_min: number("minItems"),
            items_max: number("maxItems"),
            properties_min: number("minProperties"),
            properties_max: number("maxProperties"),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: schema.get("multipleOf").and_then(Value::as_f64),
            all_of: self.junctor(schema, "allOf", int_or_string),
            any_of: self.junctor(schema, "anyOf", int_or_string),
            // Int-or-string is never spelled by `oneOf`.
            one_of: self.junctor(schema, "oneOf", false),
            not: schema.get("not").filter(|not| not.is_object()).map(|not| self.branch(not)),
        };
        checks.is_needed().then_some(checks)
    }

    /// Branches of `allOf` and the like restrict values but declare no fields. The one that spells
    /// out int-or-string adds nothing.
    fn junctor(&mut self, schema: &Value, key: &str, int_or_string: bool) -> Vec<Node> {
        let branches = schema.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let spells_types = |branch: &Value| {
            branch.as_object().is_some_and(|b| b.keys().all(|k| k == "type" || k == "anyOf"))
        };
        if int_or_string && branches.iter().all(spells_types) {
            return Vec::new();
        }
        branches.iter().map(|branch| self.branch(branch)).collect()
    }

    fn branch(&mut self, schema: &Value) -> Node {
        let mut node = Node { type_: type_of(schema), ..Node::default() };
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            node.properties.insert(name.clone(), self.branch(property));
        }
        node.items = schema.get("items").map(|items| Box::new(self.branch(items)));
        node.additional = schema
            .get("additionalProperties")
            .filter(|additional| additional.is_object())
            .map(|additional| Box::new(self.branch(additional)));
        node.checks = self.checks(schema).map(Box::new);
        node
    }

    /// One that cannot be compiled was complained about before.
    fn pattern(&mut self, schema: &Value) -> Option<Pattern> {
        let text = schema.get("pattern").and_then(Value::as_str)?;
        if let Some(known) = self.patterns.get(text) {
            return known.clone();
        }
        let compiled = Pattern::new(text).ok().map(|pattern| self.kept(pattern));
        self.patterns.insert(text.to_owned(), compiled.clone());
        compiled
    }
}

impl Compiler {
    /// The pattern, unless those before it have taken the memory of all.
    fn kept(&mut self, pattern: Pattern) -> Pattern {
        let bytes = self.patterns_bytes + pattern.memory();
        if bytes > PATTERNS_BYTES_MAX {
            self.is_over = true;
            return pattern.not_kept();
        }
        self.patterns_bytes = bytes;
        pattern
    }
}

fn type_of(schema: &Value) -> Type {
    if structural::flag(schema, "x-kubernetes-int-or-string") {
        return Type::IntOrString;
    }
    match structural::word(schema, "type") {
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => Type::Any,
    }
}

fn list_type(schema: &Value) -> ListType {
    match structural::word(schema, "x-kubernetes-list-type") {
        "set" => ListType::Set,
        "map" => ListType::Map(strings(schema.get("x-kubernetes-list-map-keys"))),
        _ => ListType::Atomic,
    }
}

/// A default must be a value that the schema would accept as it is, with nothing to prune.
fn default_fits(node: &Node, at: &str, in_metadata: bool, causes: &mut Vec<Cause>) {
    // Defaults below metadata are never filled in, so they are not judged either.
    if let Some(default) = node.default.as_ref().filter(|_| !in_metadata) {
        let field = format!("{at}.default");
        let mut pruned = default.clone();
        node.prune(&mut pruned);
        if pruned != *default {
            causes.push(Cause::invalid(field.clone(), default, "must not have unknown fields"));
        }
        let found = validate::value(node, default);
        causes.extend(found.into_iter().map(|cause| match cause.field.as_str() {
            "" | "<nil>" => Cause { field: field.clone(), ..cause },
            below => Cause { field: format!("{field}.{below}"), ..cause },
        }));
    }
    // As upstream, defaults below `additionalProperties` are not judged.
    if let Some(items) = &node.items {
        default_fits(items, &format!("{at}.items"), in_metadata, causes);
    }
    for (name, child) in &node.properties {
        let in_metadata = in_metadata || (node.embedded && name == "metadata");
        default_fits(child, &format!("{at}.properties[{name}]"), in_metadata, causes);
    }
}

impl Node {
    /// Notes what is declared anywhere below, so that whole subtrees can be skipped later.
    pub(super) fn finish(&mut self) {
        let children = self.properties.values_mut();
        let children = children.chain(self.items.as_deref_mut()).chain(self.additional.as_deref_mut());
        let (mut defaults, mut rules, mut lists) =
            (self.default.is_some(), self.rules.is_some(), self.embedded || self.list != ListType::Atomic);
        for child in children {
            child.finish();
            defaults |= child.has_defaults;
            rules |= child.has_rules;
            lists |= child.has_keyed_lists;
        }
        (self.has_defaults, self.has_rules, self.has_keyed_lists) = (defaults, rules, lists);
        self.default_bytes = self.default.as_ref().map_or(0, |default| default.to_string().len());
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
