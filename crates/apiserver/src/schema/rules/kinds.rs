//! CEL's view of schema nodes: which type a value has in a rule, how large it can get, under which name
//! a field is known. Knows no expressions.
//!
//! Source: apiserver `pkg/cel/{common/schemas.go,limits.go,escaping.go}`, v0.36.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use super::cost::REQUEST_BYTES_MAX;
use crate::schema::{Node, Type};

/// The type of an expression.
#[derive(Clone, Debug)]
pub(super) enum Kind<'n> {
    /// Anything; checked when the rule runs.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    /// The type of a value.
    Type,
    List(Box<Kind<'n>>),
    Map(Box<Kind<'n>>, Box<Kind<'n>>),
    /// An object with declared fields; the flag marks whole objects.
    Object(&'n Node, bool),
    /// `metadata` of a whole object: name and generateName only.
    Metadata,
    Optional(Box<Kind<'n>>),
    /// A value of a library: `quantity`, `url`, `ip`, `cidr`, `semver`, `format`.
    Library(&'static str),
}

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("google.protobuf.Timestamp"),
            Self::Duration => f.write_str("google.protobuf.Duration"),
            Self::Type => f.write_str("type"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Object(..) | Self::Metadata => f.write_str("object"),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Library(name) => f.write_str(name),
        }
    }
}

impl Kind<'_> {
    /// Values of a fixed size.
    pub(super) fn is_scalar(&self) -> bool {
        !matches!(self, Self::Dyn | Self::String | Self::Bytes | Self::List(_) | Self::Map(..))
    }

    /// May a value of one be compared with the other?
    pub(super) fn compares_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) | (Self::Null, _) | (_, Self::Null) => true,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.compares_with(b),
            (Self::Map(ak, av), Self::Map(bk, bv)) => ak.compares_with(bk) && av.compares_with(bv),
            // Upstream names the type of an object by its place, so two nodes are two types.
            (Self::Object(a, _), Self::Object(b, _)) => std::ptr::eq(*a, *b),
            (Self::Library(a), Self::Library(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

/// The type of a node's values. `None`: hidden from rules.
pub(super) fn of_node(node: &Node) -> Option<Kind<'_>> {
    of(node, node.embedded)
}

fn of(node: &Node, whole: bool) -> Option<Kind<'_>> {
    Some(match node.type_ {
        Type::IntOrString => Kind::Dyn,
        Type::Any => return None,
        Type::Boolean => Kind::Bool,
        Type::Integer => Kind::Int,
        Type::Number => Kind::Double,
        Type::String => match format(node) {
            "byte" => Kind::Bytes,
            "date" | "date-time" => Kind::Timestamp,
            "duration" => Kind::Duration,
            _ => Kind::String,
        },
        Type::Array => Kind::List(Box::new(of_node(node.items.as_deref()?)?)),
        Type::Object => match node.additional.as_deref().filter(|_| !whole) {
            Some(values) => Kind::Map(Box::new(Kind::String), Box::new(of_node(values)?)),
            None => Kind::Object(node, whole),
        },
    })
}

pub(super) fn format(node: &Node) -> &'static str {
    node.checks.as_ref().and_then(|checks| checks.format).map_or("", |format| format.word)
}

/// The type and node of a field, by the name rules use.
pub(super) fn field<'n>(node: &'n Node, whole: bool, name: &str) -> Option<(Kind<'n>, Option<&'n Node>)> {
    if whole {
        match name {
            "apiVersion" | "kind" => return Some((Kind::String, None)),
            "metadata" => return Some((Kind::Metadata, None)),
            _ => {}
        }
    }
    // Few names are escaped at all: look the plain one up first.
    let found = node.properties.get_key_value(name).filter(|(key, _)| escape(key).as_deref() == Some(name));
    let found = found
        .or_else(|| node.properties.iter().find(|(key, _)| escape(key).as_deref() == Some(name)))
        .map(|(_, child)| child)?;
    Some((of_node(found)?, Some(found)))
}

/// Most elements or bytes that a value of this node can have.
pub(super) fn size_max(node: &Node) -> u64 {
    let checks = node.checks.as_deref();
    let length_max = checks.and_then(|checks| checks.length_max);
    // The quotes or brackets of the JSON text take two bytes.
    let unbounded = REQUEST_BYTES_MAX - 2;
    match node.type_ {
        // A character can take four bytes.
        Type::IntOrString => length_max.map_or(unbounded, |max| max.saturating_mul(4)),
        Type::String => match (format(node), length_max) {
            ("byte", Some(max)) => max,
            ("duration" | "date-time", _) => 32,
            ("date", _) => 12,
            (_, Some(max)) => max.saturating_mul(4),
            _ => {
                let values = checks.map(|checks| checks.enumeration.as_slice()).unwrap_or_default();
                let longest = values.iter().filter_map(Value::as_str).map(str::len).max();
                longest.map_or(unbounded, |longest| longest as u64)
            }
        },
        Type::Array => checks.and_then(|checks| checks.items_max).unwrap_or_else(|| {
            let item = node.items.as_deref().map_or(1, serialized_min);
            unbounded / (item + 1)
        }),
        Type::Object => match node.additional.as_deref() {
            Some(values) => checks
                .and_then(|checks| checks.properties_max)
                .unwrap_or_else(|| unbounded / (serialized_min(values) + 6)),
            None => 0,
        },
        _ => 0,
    }
}

/// Fewest bytes that a value of this node takes in JSON.
pub(super) fn serialized_min(node: &Node) -> u64 {
    match node.type_ {
        Type::Any | Type::IntOrString | Type::Integer | Type::Number => 1,
        Type::Boolean => 4,
        Type::Array => 2,
        Type::String => match format(node) {
            "duration" => 3,
            "date" => 12,
            "date-time" => 21,
            _ => 2,
        },
        Type::Object => {
            let required = node.checks.as_ref().map(|checks| checks.required.as_slice()).unwrap_or_default();
            let fields = required.iter().filter_map(|name| Some((name, node.properties.get(name)?)));
            // A required field with a default may be missing in the request.
            let fields = fields.filter(|(_, child)| child.default.is_none());
            // Quotes, colon and comma of each field are the four bytes.
            2 + fields.map(|(name, child)| name.len() as u64 + serialized_min(child) + 4).sum::<u64>()
        }
    }
}

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name of a field in rules. `None`: it cannot be named there.
pub(super) fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')) {
        return None;
    }
    if !name.contains("__") && !name.contains(['-', '.', '/']) {
        return Some(Cow::Borrowed(name));
    }
    // Underscores come first, as the other escapes bring new ones.
    let escaped = name.replace("__", "__underscores__");
    Some(Cow::Owned(escaped.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_upstream_does() {
        for (name, escaped) in [
            ("name", Some("name")),
            ("a_b", Some("a_b")),
            ("namespace", Some("__namespace__")),
            ("a__b", Some("a__underscores__b")),
            ("a.b/c-d", Some("a__dot__b__slash__c__dash__d")),
            ("1a", None),
            ("ä", None),
            ("", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }
}
