//! What a column of a built-in kind is made of. Must not know any kind.

use serde_json::Value;

use super::go;
use capstan_base::time::Timestamp;

/// How one cell of a built-in kind is made.
pub(super) type Render = fn(&Value, Timestamp) -> Value;

/// Name, type, priority, fields it reads, and how it is made.
pub(super) type ColumnRow = (&'static str, &'static str, i64, &'static [&'static str], Render);

pub(super) const AGE: ColumnRow = ("Age", "string", 0, &["metadata.creationTimestamp"], |o, now| {
    go::since(text(o, "/metadata/creationTimestamp"), now)
});

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
