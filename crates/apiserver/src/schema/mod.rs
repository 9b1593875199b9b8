//! Structural schemas, compiled once into a compact tree: what a kind's objects may hold.
//! Owns pruning, defaulting and validation; must not know requests, stores or admission.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema` (`structural.go`, `pruning`, `defaulting`,
//! `listtype`, `objectmeta`) and kube-openapi `pkg/validation`, v0.35.

pub mod compile;
pub mod crd;
pub mod decode;
mod embedded;
mod field_path;
pub mod format;
mod keywords;
mod lists;
mod merging;
pub mod native;
mod pattern;
mod prune;
mod rules;
mod structural;
mod validate;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::failure::Failure;
use k8s_machinery::validation::cause::{Cause, cut};

/// The schema of one kind in one version.
#[derive(Debug)]
pub struct Schema {
    pub(crate) kind: String,
    pub(crate) version: String,
    pub(crate) root: Node,
    /// Built-in kinds are decoded into types upstream: a wrong type is a malformed request (400),
    /// not an invalid object (422), and nothing else is checked by schema.
    native: bool,
}

/// One value's schema.
#[derive(Debug, Default)]
pub struct Node {
    pub type_: Type,
    pub nullable: bool,
    /// Unknown fields stay, except below properties that are declared.
    pub preserve_unknown: bool,
    /// A whole object with `apiVersion`, `kind` and `metadata`; also true of the root.
    pub embedded: bool,
    /// The map is owned and replaced as a whole by server-side apply.
    pub atomic: bool,
    pub properties: BTreeMap<String, Node>,
    /// Of values under keys that are not declared.
    pub additional: Option<Box<Node>>,
    pub items: Option<Box<Node>>,
    pub list: ListType,
    pub default: Option<Value>,
    checks: Option<Box<Checks>>,
    rules: Option<Box<rules::Rules>>,
    /// Of the default, as text.
    default_bytes: usize,
    /// A default is declared here or below: lets defaulting skip whole subtrees.
    has_defaults: bool,
    /// A rule is declared here or below.
    has_rules: bool,
    /// A list with keys, a set or a whole object is declared here or below.
    has_keyed_lists: bool,
}

/// What the defaults of one object may be together. A body may have 3 MiB.
const DEFAULTS_BYTES_MAX: usize = 8 << 20;

/// The JSON types a schema can ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

/// How items of a list are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    /// By the values of these fields.
    Map(Vec<String>),
}

/// What a value must satisfy beyond its type. Kept apart: most nodes have none.
#[derive(Debug, Default)]
struct Checks {
    required: Vec<String>,
    enumeration: Vec<Value>,
    pattern: Option<pattern::Pattern>,
    format: Option<&'static format::Format>,
    length_min: Option<u64>,
    length_max: Option<u64>,
    items_min: Option<u64>,
    items_max: Option<u64>,
    properties_min: Option<u64>,
    properties_max: Option<u64>,
    /// Bound, and whether the bound itself is excluded.
    minimum: Option<(f64, bool)>,
    maximum: Option<(f64, bool)>,
    multiple_of: Option<f64>,
    all_of: Vec<Node>,
    any_of: Vec<Node>,
    one_of: Vec<Node>,
    not: Option<Node>,
}

impl Type {
    /// As schemas and messages write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
        }
    }

    fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::String => value.is_string(),
            Self::Integer => is_integer(value),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::IntOrString => value.is_string() || is_integer(value),
        }
    }
}

/// `1.0` counts: upstream accepts a float without a fraction where an integer is wanted.
fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0 && f.abs() < 9.3e18)
}

/// The word of Go's JSON decoder for a type, where it differs from the schema's.
fn go_word(type_word: &str) -> &str {
    match type_word {
        "integer" => "number",
        "boolean" => "bool",
        other => other,
    }
}

/// The schema word for the type of a value that was found.
fn type_word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

impl Schema {
    /// From the `openAPIV3Schema` of a CustomResourceDefinition's version. `at` is the path of that
    /// schema in the definition, for complaints.
    ///
    /// # Errors
    /// Every way in which the schema is not structural.
    pub fn custom(kind: &str, version: &str, schema: &Value, at: &str) -> Result<Self, Vec<Cause>> {
        Ok(Self::of(kind, version, compile::structural(schema, at)?))
    }

    /// The same from a definition that is stored, whose rules were judged by whoever stored it.
    ///
    /// # Errors
    /// Every way in which the schema is not structural; wrong rules refuse values instead.
    pub fn stored(kind: &str, version: &str, schema: &Value, at: &str) -> Result<Self, Vec<Cause>> {
        Ok(Self::of(kind, version, compile::stored(schema, at)?))
    }

    fn of(kind: &str, version: &str, root: Node) -> Self {
        Self { kind: kind.to_owned(), version: version.to_owned(), root, native: false }
    }

    /// Makes an object that was read from a request or from storage fit the schema: unknown fields go,
    /// nulls go, defaults come. Answers with the paths that were dropped.
    ///
    /// # Errors
    /// 400 when metadata, or anything in a built-in kind, has a wrong type; 413 when its defaults would make it too large.
    pub fn decode(&self, object: &mut Value) -> Result<Vec<String>, Failure> {
        let unknown = self.root.prune(object);
        // Nulls go first, so that defaults can take their place.
        self.root.drop_nulls(object);
        // Of a custom object only the metadata is a Go type upstream: the rest is validated later
        // (422).
        let checked = if self.native { &self.root } else { native::metadata() };
        let at = if self.native { "" } else { "metadata" };
        let part = if self.native { Some(&*object) } else { object.get("metadata") };
        if let Some((path, wanted, found)) =
            part.and_then(|part| validate::first_type_error(checked, part, at))
        {
            return Err(Failure::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {kind}: json: cannot unmarshal {} into Go \
                 struct field {kind}.{path} of type {}",
                self.version,
                go_word(&found),
                go_word(&wanted),
                kind = self.kind,
            )));
        }
        let mut left = Some(DEFAULTS_BYTES_MAX);
        self.root.apply_defaults(object, &mut left);
        left.map(|_| unknown).ok_or_else(|| {
            Failure::request_too_large(format!("its defaults have more than {DEFAULTS_BYTES_MAX} bytes"))
        })
    }

    /// What is wrong with a decoded object. With `old`, complaints about parts that did not change
    /// are dropped, so that a stricter schema never blocks an unrelated edit of an old object.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        if self.native { Vec::new() } else { validate::object(&self.root, object, old) }
    }

    /// The same for a write of the status alone: only its part of the schema is applied, but keyed
    /// lists and rules of the whole object.
    pub fn validate_status(&self, object: &Value, old: &Value) -> Vec<Cause> {
        if self.native { Vec::new() } else { validate::status(&self.root, object, old) }
    }
}

impl Node {
    /// Visits what stands directly below `value` and has a schema of its own.
    fn children(&self, path: Path<'_>, value: &Value, visit: &mut dyn FnMut(&Node, Path<'_>, &Value)) {
        match value {
            Value::Object(map) => {
                for (key, child) in map {
                    if let Some(below) = self.properties.get(key) {
                        visit(below, path.key(key), child);
                    } else if let Some(below) = &self.additional {
                        visit(below, path.entry(key), child);
                    }
                }
            }
            Value::Array(items) => {
                let Some(below) = &self.items else { return };
                for (index, item) in items.iter().enumerate() {
                    visit(below, path.index(index), item);
                }
            }
            _ => {}
        }
    }
}

/// Where in an object we are, as a chain on the stack: paths are only spelled out for complaints.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    /// The key of a map, which is data: printed in brackets.
    Entry(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    fn key<'a>(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    fn entry<'a>(&'a self, key: &'a str) -> Path<'a> {
        Path::Entry(self, key)
    }

    fn index(&self, index: usize) -> Path<'_> {
        Path::Index(self, index)
    }

    /// Upstream prints a path without steps as `<nil>`.
    fn or_nil(&self) -> String {
        match self {
            Path::Root => "<nil>".to_owned(),
            path => path.to_string(),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(Path::Root, key) => f.write_str(cut(key)),
            Path::Key(parent, key) => write!(f, "{parent}.{}", cut(key)),
            Path::Entry(parent, key) => write!(f, "{parent}[{}]", cut(key)),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
