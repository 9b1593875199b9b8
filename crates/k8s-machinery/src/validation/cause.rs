//! What is wrong with a field: the findings that validation collects. Owns their reasons and words; must not
//! know what becomes of them.
//!
//! Source: apimachinery `pkg/util/validation/field/errors.go`, v0.35.

use std::fmt;

use serde_json::{Value, json};

/// Longer names are cut where they are part of a message.
const NAME_BYTES_MAX: usize = 512;

/// The start of a name that a client chose, for paths in messages: a key of a megabyte must not be repeated
/// with each of a thousand fields below it.
pub fn cut(name: &str) -> &str {
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    (0..=NAME_BYTES_MAX).rev().find_map(|end| name.get(..end)).unwrap_or_default()
}

/// What is wrong with one field, as `causes[].reason` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CauseReason {
    FieldValueRequired,
    FieldValueInvalid,
    FieldValueNotSupported,
    FieldValueDuplicate,
    FieldValueForbidden,
    FieldValueTooLong,
    FieldValueTooMany,
    FieldValueTypeInvalid,
    FieldValueNotFound,
    FieldManagerConflict,
    NamespaceTerminating,
    ResourceVersionTooLarge,
    InternalError,
}

/// One finding about one field. `field` is a path such as `spec.versions[0].name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub reason: CauseReason,
    pub message: String,
    pub field: String,
}

impl Cause {
    pub fn new(reason: CauseReason, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), field: field.into() }
    }

    /// `Required value: detail`, or `Required value` when there is nothing to add.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::new(CauseReason::FieldValueRequired, field, with_detail("Required value", detail))
    }

    /// `Invalid value: <json>: detail`. Objects and arrays are printed as JSON, as upstream does.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = with_detail(&format!("Invalid value: {value}"), detail);
        Self::new(CauseReason::FieldValueInvalid, field, message)
    }

    /// `Invalid value: detail`, for values that are not worth showing.
    pub fn omitted(field: impl Into<String>, detail: &str) -> Self {
        Self::new(CauseReason::FieldValueInvalid, field, with_detail("Invalid value", detail))
    }

    /// A value of the wrong JSON type: same words as `invalid`, its own reason.
    pub fn type_invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self { reason: CauseReason::FieldValueTypeInvalid, ..Self::invalid(field, value, detail) }
    }

    /// `Unsupported value: "x": supported values: "a", "b"`. The list is printed as given.
    pub fn not_supported<S: fmt::Display>(field: impl Into<String>, value: &Value, supported: &[S]) -> Self {
        let names: Vec<String> = supported.iter().map(|s| format!("\"{s}\"")).collect();
        let message = if names.is_empty() {
            format!("Unsupported value: {value}")
        } else {
            format!("Unsupported value: {value}: supported values: {}", names.join(", "))
        };
        Self::new(CauseReason::FieldValueNotSupported, field, message)
    }

    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(CauseReason::FieldValueDuplicate, field, format!("Duplicate value: {value}"))
    }

    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new(CauseReason::FieldValueForbidden, field, with_detail("Forbidden", detail))
    }

    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self::new(CauseReason::FieldValueNotFound, field, format!("Not found: {value}"))
    }

    /// Something could not be checked.
    pub fn internal(field: impl Into<String>, why: &str) -> Self {
        Self::new(CauseReason::InternalError, field, with_detail("Internal error", why))
    }

    /// `bytes_max` is the limit, although for schemas upstream counts characters.
    pub fn too_long(field: impl Into<String>, bytes_max: u64) -> Self {
        let plural = if bytes_max == 1 { "" } else { "s" };
        let message = format!("Too long: may not be more than {bytes_max} byte{plural}");
        Self::new(CauseReason::FieldValueTooLong, field, message)
    }

    pub fn too_many(field: impl Into<String>, actual: usize, items_max: u64) -> Self {
        let plural = if items_max == 1 { "" } else { "s" };
        let message = format!("Too many: {actual}: must have at most {items_max} item{plural}");
        Self::new(CauseReason::FieldValueTooMany, field, message)
    }

    pub fn json(&self) -> Value {
        let mut out = json!({ "reason": format!("{:?}", self.reason), "message": self.message });
        if !self.field.is_empty() {
            out["field"] = Value::from(self.field.as_str());
        }
        out
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

fn with_detail(head: &str, detail: &str) -> String {
    if detail.is_empty() { head.to_owned() } else { format!("{head}: {detail}") }
}
