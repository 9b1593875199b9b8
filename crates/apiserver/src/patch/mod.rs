//! The three patches that describe a change: JSON patch, merge patch, strategic merge patch.
//! Owns reading and applying them to an object as JSON; must not know stores or validation.
//! Server-side apply describes wanted fields instead: here it is only recognised and read.
//!
//! Source: apiserver `pkg/endpoints/handlers/patch.go`, v0.35.

pub mod strategic;

use json_patch::PatchOperation;
use json_patch::jsonptr::Pointer;
use serde_json::Value;

use crate::failure::Failure;
use crate::request::content;

/// RFC 6902.
pub const JSON_PATCH: &str = "application/json-patch+json";
/// RFC 7396.
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// Kubernetes' own: lists merge by key. Only for built-in kinds.
pub const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
/// Server-side apply.
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// More operations than this are refused.
const OPERATIONS_MAX: usize = 10_000;
/// What the `copy` operations of a patch may copy together, as upstream's limit: each could double the object.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Values that the operations of a patch may shift in lists or look through together: 10,000 insertions at
/// the start of a list that they fill fit in.
const STEPS_MAX: usize = 64_000_000;

/// A patch that was read but not applied yet; it may be applied again after a lost race.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// RFC 6902: operations in order.
    Json(Vec<PatchOperation>),
    /// RFC 7396: null takes away.
    Merge(Value),
    /// Kubernetes' own: lists merge by keys.
    Strategic(Value),
}

/// What a client wants of an object, for server-side apply.
#[derive(Clone, Debug)]
pub struct Wish {
    pub object: Value,
    /// Keys that occurred twice in the text.
    pub duplicates: Vec<String>,
}

impl Patch {
    /// From a request body. `strategic`: whether the resource has merge keys (built-in kinds do,
    /// custom resources do not). Parameters of the content type are ignored.
    ///
    /// # Errors
    /// 415 with the accepted types; 400 when the body is not such a patch; 413 for too many operations.
    pub fn parse(content_type: &str, body: &[u8], strategic: bool) -> Result<Self, Failure> {
        match media_type(content_type) {
            JSON_PATCH => json_operations(body).map(Self::Json),
            MERGE_PATCH => object(body).map(Self::Merge),
            STRATEGIC_PATCH if strategic => object(body).map(Self::Strategic),
            _ => Err(Failure::unsupported_media_type(accepted(strategic))),
        }
    }

    /// The managed fields are part of what is changed: JSON patches name places, and a merge patch may
    /// bring a list.
    pub fn touches_managed_fields(&self) -> bool {
        match self {
            // Searched as text: a hit inside of a value only costs that the managed fields are
            // parsed.
            Self::Json(operations) => serde_json::to_string(operations).is_ok_and(|text| {
                text.contains("/metadata/managedFields")
                    || text.contains("\"/metadata\"")
                    // An empty path is the whole object.
                    || text.contains("\"\"")
            }),
            Self::Merge(patch) | Self::Strategic(patch) => patch["metadata"].get("managedFields").is_some(),
        }
    }

    /// The patched object. `kind` chooses the merge keys of a strategic patch.
    ///
    /// # Errors
    /// 422 when a JSON patch does not fit the object; 400 for wrong directives of a strategic patch.
    pub fn apply(&self, kind: &str, object: Value) -> Result<Value, Failure> {
        match self {
            Self::Json(operations) => apply_operations(object, operations),
            Self::Merge(patch) => {
                let mut object = object;
                json_patch::merge(&mut object, patch);
                Ok(object)
            }
            Self::Strategic(patch) => strategic::merge(kind, object, patch.clone()),
        }
    }
}

/// Is this server-side apply?
pub fn is_apply(content_type: &str) -> bool {
    media_type(content_type) == APPLY_PATCH
}

fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Reads the body of a server-side apply: YAML, of which JSON is the usual form.
///
/// # Errors
/// 400 when it is neither, or no object.
pub fn wish(body: &[u8]) -> Result<Wish, Failure> {
    let (object, duplicates) = content::yaml(body)?;
    content::check_depth(&object)?;
    match object {
        Value::Object(_) => Ok(Wish { object, duplicates }),
        _ => Err(Failure::bad_request("error decoding yaml: an object is expected")),
    }
}

fn accepted(strategic: bool) -> &'static [&'static str] {
    const ALL: [&str; 4] = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH, STRATEGIC_PATCH];
    if strategic { &ALL } else { ALL.split_at(3).0 }
}

fn json_operations(body: &[u8]) -> Result<Vec<PatchOperation>, Failure> {
    let operations: Vec<Value> = serde_json::from_slice(body).map_err(undecodable)?;
    if operations.len() > OPERATIONS_MAX {
        let mut failure = Failure::too_large(OPERATIONS_MAX);
        failure.message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        );
        return Err(failure);
    }
    serde_json::from_value(Value::Array(operations)).map_err(|_| Failure::unpatchable())
}

fn object(body: &[u8]) -> Result<Value, Failure> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(map)) => Ok(Value::Object(map)),
        Ok(_) => Err(Failure::bad_request("error decoding patch: a JSON object is expected")),
        Err(error) => Err(undecodable(error)),
    }
}

fn undecodable(error: serde_json::Error) -> Failure {
    Failure::bad_request(format!("error decoding patch: {error}"))
}

/// One operation at a time, so that what all of them cost and copy is bounded.
fn apply_operations(mut object: Value, operations: &[PatchOperation]) -> Result<Value, Failure> {
    let mut spent = Spent::default();
    for operation in operations {
        spent.on(&object, operation)?;
        // No copy to go back to is kept: after an error the object is dropped anyway.
        json_patch::patch_unsafe(&mut object, std::slice::from_ref(operation))
            .map_err(|_| Failure::unpatchable())?;
    }
    if object.is_object() { Ok(object) } else { Err(Failure::unpatchable()) }
}

/// What the operations of a patch have cost so far.
#[derive(Debug, Default, PartialEq, Eq)]
struct Spent {
    /// Values shifted or looked through.
    steps: usize,
    copied_bytes: usize,
}

impl Spent {
    /// Counts an operation before it is done.
    ///
    /// # Errors
    /// 422 for a result that is nested too deeply, 413 when the patch costs too much.
    fn on(&mut self, object: &Value, operation: &PatchOperation) -> Result<(), Failure> {
        match operation {
            PatchOperation::Add(add) => {
                self.put(&add.path, &add.value)?;
                self.steps += shifted(object, &add.path);
            }
            PatchOperation::Replace(replace) => self.put(&replace.path, &replace.value)?,
            PatchOperation::Remove(remove) => self.steps += shifted(object, &remove.path),
            PatchOperation::Copy(copy) => {
                let source = copy.from.resolve(object).unwrap_or(&Value::Null);
                self.put(&copy.path, source)?;
                self.copied_bytes += size(source);
                self.steps += shifted(object, &copy.path);
            }
            PatchOperation::Move(moved) => {
                self.put(&moved.path, moved.from.resolve(object).unwrap_or(&Value::Null))?;
                self.steps += shifted(object, &moved.from) + shifted(object, &moved.path);
            }
            PatchOperation::Test(_) => {}
        }
        if self.copied_bytes > COPIED_BYTES_MAX {
            return Err(Failure::too_large(COPIED_BYTES_MAX));
        }
        if self.steps > STEPS_MAX {
            return Err(Failure::request_too_large(format!(
                "the operations of the patch shift more than {STEPS_MAX} values"
            )));
        }
        Ok(())
    }

    /// A value is put where a path leads: the result is not deeper than both together.
    fn put(&mut self, path: &Pointer, value: &Value) -> Result<(), Failure> {
        let (depth, values) = content::extent(value);
        self.steps += values;
        if path.count() + depth > content::DEPTH_MAX { Err(Failure::unpatchable()) } else { Ok(()) }
    }
}

/// Items of a list that move when one is put or taken at `path`.
fn shifted(object: &Value, path: &Pointer) -> usize {
    let Some((parent, last)) = path.split_back() else { return 0 };
    let Ok(Value::Array(items)) = parent.resolve(object) else { return 0 };
    // `-` is not a number: appending shifts nothing.
    last.decoded().parse().map_or(0, |at| items.len().saturating_sub(at))
}

/// Rough size in bytes of the JSON text.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(map) => map.iter().map(|(key, item)| key.len() + size(item) + 4).sum::<usize>() + 2,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn applied(content_type: &str, patch: &Value, object: Value) -> Result<Value, Failure> {
        Patch::parse(content_type, patch.to_string().as_bytes(), true)?.apply("ConfigMap", object)
    }

    #[test]
    fn merge_patch_deletes_with_null_and_replaces_lists() {
        let object = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
        let patch = json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [3], "x": null});
        assert_eq!(
            applied("application/merge-patch+json; charset=utf-8", &patch, object),
            Ok(json!({"a": {"c": 2, "d": {"f": 1}}, "l": [3]}))
        );
    }

    #[test]
    fn json_patch_does_its_six_operations() {
        let object = json!({"a": 1, "l": [1, 2]});
        let patch = json!([
            {"op": "test", "path": "/a", "value": 1},
            {"op": "replace", "path": "/a", "value": 2},
            {"op": "add", "path": "/l/-", "value": 3},
            {"op": "copy", "from": "/a", "path": "/b"},
            {"op": "move", "from": "/b", "path": "/c"},
            {"op": "remove", "path": "/l/0"},
        ]);
        assert_eq!(applied(JSON_PATCH, &patch, object), Ok(json!({"a": 2, "c": 2, "l": [2, 3]})));
    }

    #[test]
    fn a_patch_cannot_dig_without_end() {
        let object = json!({"a": {"a": {"a": {}}}});
        let deeper = |levels: usize| json!({"op": "copy", "from": "/a", "path": "/a".repeat(levels)});
        // Each copy doubles the depth: 4 levels become thousands in a dozen operations.
        let operations: Vec<Value> = (2..14).map(|n| deeper(3 * (n - 1) + 1)).collect();
        assert_eq!(applied(JSON_PATCH, &json!(operations), object.clone()).map_err(|f| f.code()), Err(422));
        let added = json!([{"op": "add", "path": "/a/a/a/b", "value": {"c": {}}}]);
        assert!(applied(JSON_PATCH, &added, object).is_ok());
    }

    #[test]
    fn patches_that_cannot_be_used() {
        for (content_type, body, code) in [
            (JSON_PATCH, "[{\"op\":\"test\",\"path\":\"/a\",\"value\":9}]", 422),
            (JSON_PATCH, "[{\"op\":\"remove\",\"path\":\"/nope\"}]", 422),
            (JSON_PATCH, "[{\"op\":\"zap\",\"path\":\"/a\"}]", 422),
            (JSON_PATCH, "[{\"op\":\"replace\",\"path\":\"\",\"value\":1}]", 422),
            (JSON_PATCH, "{}", 400),
            (JSON_PATCH, "[", 400),
            (MERGE_PATCH, "[]", 400),
            (MERGE_PATCH, "{", 400),
            ("application/json", "{}", 415),
        ] {
            let failure = Patch::parse(content_type, body.as_bytes(), true)
                .and_then(|patch| patch.apply("ConfigMap", json!({"a": 1})))
                .expect_err(body);
            assert_eq!(failure.code(), code, "{content_type} {body}");
        }
        let failure =
            Patch::parse(STRATEGIC_PATCH, b"{}", false).expect_err("custom resources have no merge keys");
        assert_eq!(failure.code(), 415);
        assert!(!failure.message.contains("strategic"), "{failure}");
        let many = Value::Array(vec![json!({"op": "remove", "path": "/a"}); 10_001]).to_string();
        assert_eq!(Patch::parse(JSON_PATCH, many.as_bytes(), true).map_err(|f| f.code()), Err(413));
    }

    #[test]
    fn a_patch_cannot_grow_an_object_without_bound() {
        let mut operations = vec![json!({"op": "add", "path": "/a", "value": ["0123456789"]})];
        operations.extend(std::iter::repeat_n(json!({"op": "copy", "from": "/a", "path": "/a/-"}), 60));
        let failure = applied(JSON_PATCH, &Value::Array(operations), json!({})).expect_err("too large");
        assert_eq!(failure.code(), 413);
    }

    #[test]
    fn a_patch_cannot_work_without_bound() {
        let front = |n: usize| vec![json!({"op": "add", "path": "/l/0", "value": 1}); n];
        let patch =
            |operations: Vec<Value>, l: Value| applied(JSON_PATCH, &json!(operations), json!({"l": l}));
        let filled = patch(front(OPERATIONS_MAX), json!([])).expect("as many as fit");
        assert_eq!(filled["l"].as_array().map(Vec::len), Some(OPERATIONS_MAX));
        let code = |result: Result<Value, Failure>| result.map_err(|failure| failure.code());
        assert_eq!(code(patch(front(1_000), json!(vec![0; 100_000]))), Err(413));
        let end = vec![json!({"op": "add", "path": "/l/-", "value": 1}); 1_000];
        assert!(patch(end, json!(vec![0; 100_000])).is_ok());
        // There and back: the list itself is looked through each time.
        let there = json!({"op": "move", "from": "/l", "path": "/m"});
        let back = json!({"op": "move", "from": "/m", "path": "/l"});
        let moves: Vec<Value> = [there, back].into_iter().cycle().take(1_000).collect();
        assert_eq!(code(patch(moves, json!(vec![0; 100_000]))), Err(413));
        let copies = vec![json!({"op": "copy", "from": "/l", "path": "/m"}); 100];
        assert_eq!(code(patch(copies, json!(vec![0; 100_000]))), Err(413));
    }

    #[test]
    fn what_an_operation_costs() {
        let object = json!({"l": [0, 1, 2, 3], "m": {"a": [1]}});
        for (operation, steps, copied_bytes) in [
            (json!({"op": "add", "path": "/l/1", "value": [5, 6]}), 3 + 3, 0),
            (json!({"op": "add", "path": "/l/-", "value": 5}), 1, 0),
            (json!({"op": "remove", "path": "/l/3"}), 1, 0),
            (json!({"op": "move", "from": "/m", "path": "/l/0"}), 3 + 4, 0),
            (json!({"op": "copy", "from": "/m", "path": "/n"}), 3, 15),
            (json!({"op": "test", "path": "/l", "value": [1]}), 0, 0),
        ] {
            let mut spent = Spent::default();
            let parsed = serde_json::from_value(operation.clone()).expect("an operation");
            assert_eq!(spent.on(&object, &parsed), Ok(()), "{operation}");
            assert_eq!(spent, Spent { steps, copied_bytes }, "{operation}");
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(body in "[\\[\\]{}\":,a-b0-9/$ -]{0,40}") {
            for content_type in [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH] {
                let _ = Patch::parse(content_type, body.as_bytes(), true)
                    .and_then(|patch| patch.apply("Node", json!({"a": {"b": [1]}})));
            }
        }
    }
}
