//! Patches in answers: which, and what they make of an object. Owns their reading and application, with bounds on what a
//! hostile one may cost; must not know what the change means.
//! Source: cluster-api `internal/util/patch/patch.go` (`ApplyPatchToObject`), v1.14.2.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::PatchOperation;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::message::nullable;

/// More operations, or more bytes that `copy` adds, are refused. Upstream has no such bounds.
const OPERATIONS_MAX: usize = 10_000;
const COPIED_BYTES_MAX: usize = 4 << 20;

/// The two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
}

impl PatchType {
    /// As [`Patch::patch_type`] has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "JSONPatch",
            Self::Merge => "JSONMergePatch",
        }
    }
}

/// A patch as it came: type and document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Patch {
    /// `JSONPatch`, `JSONMergePatch`, or what else was sent.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub patch_type: String,
    /// The document; base64 in the JSON.
    #[serde(serialize_with = "encode", deserialize_with = "decode", skip_serializing_if = "Vec::is_empty")]
    pub patch: Vec<u8>,
}

/// Why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// A document came without a type.
    #[error("failed to apply patch: patchType is not set")]
    NoType,
    /// Neither of the two types.
    #[error("failed to apply patch: unknown patchType {0}")]
    UnknownType(String),
    /// The document is not one of its format.
    #[error("failed to apply patch: error decoding {format}: {why}")]
    Decode {
        /// Name of the format and its RFC.
        format: &'static str,
        /// What the reader says.
        why: String,
    },
    /// The document does not fit the object.
    #[error("failed to apply patch: error applying {format}: {why}")]
    Apply {
        /// Name of the format and its RFC.
        format: &'static str,
        /// Which operation does not fit the object.
        why: String,
    },
    /// Over the bounds on operations and copied bytes.
    #[error("failed to apply patch: {0}")]
    TooMuch(String),
}

const RFC_6902: &str = "json patch (RFC6902)";
const RFC_7386: &str = "json merge patch (RFC7386)";

impl Patch {
    /// RFC 6902: a list of operations.
    pub fn json(document: &[u8]) -> Self {
        Self { patch_type: PatchType::Json.as_str().to_owned(), patch: document.to_vec() }
    }

    /// RFC 7386: what is to be merged.
    pub fn merge(document: &[u8]) -> Self {
        Self { patch_type: PatchType::Merge.as_str().to_owned(), patch: document.to_vec() }
    }

    /// Neither type nor document: the answer does not touch this object.
    pub fn is_unset(&self) -> bool {
        self.patch_type.is_empty() && self.patch.is_empty()
    }

    /// Changes the part of `object` at `within` as the patch says, and nothing else. An unset patch, and any patch of an
    /// object that is not there, changes nothing. When the patched object lacks that part, it stays as it was.
    ///
    /// # Errors
    /// [`PatchError`]; `object` is unchanged then.
    pub fn apply(&self, object: &mut Value, within: &[&str]) -> Result<(), PatchError> {
        if self.is_unset() || object.is_null() {
            return Ok(());
        }
        let patched = match self.patch_type.as_str() {
            "" => return Err(PatchError::NoType),
            "JSONPatch" => operate(&self.patch, object)?,
            "JSONMergePatch" => merge(&self.patch, object)?,
            other => return Err(PatchError::UnknownType(other.to_owned())),
        };
        // Applied to all of the object, as paths begin there; taken is only the allowed part.
        let part = patched.and_then(|patched| {
            within.iter().try_fold(patched, |mut at, key| at.as_object_mut().and_then(|at| at.remove(*key)))
        });
        if let Some(part) = part {
            set(object, within, part);
        }
        Ok(())
    }
}

/// The object after the operations; nothing when there are none.
fn operate(document: &[u8], object: &Value) -> Result<Option<Value>, PatchError> {
    let decode = |why: serde_json::Error| PatchError::Decode { format: RFC_6902, why: why.to_string() };
    // Null is a list without operations to Go.
    let operations: Option<Vec<PatchOperation>> = serde_json::from_slice(document).map_err(decode)?;
    let operations = operations.unwrap_or_default();
    // Counted before the first is applied, as each may walk the whole object.
    if operations.len() > OPERATIONS_MAX {
        let why = format!("{} operations, at most {OPERATIONS_MAX} are applied", operations.len());
        return Err(PatchError::TooMuch(why));
    }
    let mut copied_bytes = 0;
    let mut patched = object.clone();
    for operation in &operations {
        // Before each operation: copies of copies double, so that few of them are enough.
        copied_bytes += copied(operation, &patched);
        if copied_bytes > COPIED_BYTES_MAX {
            let why = format!("its copies add more than {COPIED_BYTES_MAX} bytes");
            return Err(PatchError::TooMuch(why));
        }
        // Without undoing: on an error this copy is thrown away as a whole.
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(operation))
            .map_err(|why| PatchError::Apply { format: RFC_6902, why: why.to_string() })?;
    }
    Ok((!operations.is_empty()).then_some(patched))
}

/// The bytes that an operation takes from elsewhere in the object.
fn copied(operation: &PatchOperation, object: &Value) -> usize {
    match operation {
        PatchOperation::Copy(copy) => copy.from.resolve(object).map_or(0, |value| value.to_string().len()),
        _ => 0,
    }
}

/// The object under the merge patch; nothing when that is empty.
fn merge(document: &[u8], object: &Value) -> Result<Option<Value>, PatchError> {
    if document.is_empty() || document == b"{}" {
        return Ok(None);
    }
    let error = |why: String| PatchError::Apply { format: RFC_7386, why };
    let patch: Value = serde_json::from_slice(document).map_err(|why| error(why.to_string()))?;
    // RFC 7386 would replace the whole object by it.
    if !patch.is_object() {
        return Err(error("a JSON object is expected".to_owned()));
    }
    let mut patched = object.clone();
    json_patch::merge(&mut patched, &patch);
    Ok(Some(patched))
}

/// Puts `part` at the place, with the objects on the way there.
fn set(mut at: &mut Value, within: &[&str], part: Value) {
    for key in within {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[*key];
    }
    *at = part;
}

fn encode<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text: Option<String> = Option::deserialize(deserializer)?;
    // Go's decoder passes over line breaks.
    let text: String = text.unwrap_or_default().chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_changes_its_part_or_says_why_not() {
        let object = || json!({"metadata": {"name": "a"}, "spec": {"a": 1, "b": {"c": 2}}});
        let typed =
            |type_: &str, document: &[u8]| Patch { patch_type: type_.to_owned(), patch: document.to_vec() };
        let table: Vec<(Patch, Result<Value, &str>)> = vec![
            (Patch::default(), Ok(object()["spec"].clone())),
            (Patch::json(b"[]"), Ok(object()["spec"].clone())),
            (Patch::json(b"null"), Ok(object()["spec"].clone())),
            (
                Patch::json(br#"[{"op":"replace","path":"/spec/a","value":3}]"#),
                Ok(json!({"a": 3, "b": {"c": 2}})),
            ),
            (Patch::json(br#"[{"op":"remove","path":"/spec/b"}]"#), Ok(json!({"a": 1}))),
            (Patch::json(br#"[{"op":"remove","path":"/spec"}]"#), Ok(object()["spec"].clone())),
            (Patch::json(br#"[{"op":"test","path":"/spec/a","value":9}]"#), Err("error applying json patch")),
            (Patch::json(br#"[{"op":"remove","path":"/spec/z"}]"#), Err("error applying json patch")),
            (Patch::json(br#"[{"op":"fly","path":"/spec/z"}]"#), Err("error decoding json patch")),
            (Patch::json(b""), Err("error decoding json patch")),
            (Patch::json(b"{}"), Err("error decoding json patch")),
            (Patch::merge(b""), Ok(object()["spec"].clone())),
            (Patch::merge(b"{}"), Ok(object()["spec"].clone())),
            (Patch::merge(br#"{"spec":{"a":null,"b":{"d":4}}}"#), Ok(json!({"b": {"c": 2, "d": 4}}))),
            (Patch::merge(br#"{"metadata":{"name":"b"}}"#), Ok(object()["spec"].clone())),
            (Patch::merge(b"7"), Err("a JSON object is expected")),
            (Patch::merge(b"{"), Err("error applying json merge patch")),
            (typed("", b"{}"), Err("patchType is not set")),
            (typed("StrategicMergePatch", b"{}"), Err("unknown patchType StrategicMergePatch")),
        ];
        for (patch, expected) in table {
            let mut patched = object();
            match (patch.apply(&mut patched, &["spec"]), expected) {
                (Ok(()), Ok(spec)) => {
                    assert_eq!(patched, json!({"metadata": {"name": "a"}, "spec": spec}), "{patch:?}");
                }
                (Err(error), Err(words)) => {
                    assert!(error.to_string().contains(words), "{error} for {patch:?}");
                    assert_eq!(patched, object());
                }
                (outcome, expected) => panic!("{outcome:?} instead of {expected:?} for {patch:?}"),
            }
        }
    }

    #[test]
    fn a_patch_cannot_cost_more_than_its_bounds() {
        let mut object = json!({"spec": {"a": "x".repeat(1000)}});
        let bomb: Vec<Value> =
            (0..40).map(|at| json!({"op": "copy", "from": "/spec", "path": format!("/spec/{at}")})).collect();
        let error = Patch::json(json!(bomb).to_string().as_bytes()).apply(&mut object, &["spec"]);
        assert!(matches!(error, Err(PatchError::TooMuch(_))), "{error:?}");
        let many: Vec<Value> = vec![json!({"op": "remove", "path": "/a"}); OPERATIONS_MAX + 1];
        let error = Patch::json(json!(many).to_string().as_bytes()).apply(&mut object, &["spec"]);
        assert!(matches!(error, Err(PatchError::TooMuch(_))), "{error:?}");
    }
}
