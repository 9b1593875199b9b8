//! One object as the store keeps it and as the wire shows it. Owns the record format, and reading
//! and writing `metadata` of an object as JSON; must not know kinds.
//!
//! Objects are JSON text written by this file, so that an answer needs no parsing: `metadata`
//! follows `apiVersion` and `kind`, and the resource version, which is the store's, is spliced in
//! at a place the record remembers.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::failure::Failure;
use crate::store::{Entry, Revision};

/// Bytes before the JSON: schema tag and the offset of `"metadata"`, both little-endian.
const HEADER_BYTES: usize = 8;
const OPEN: &str = "\"metadata\":{";

/// A stored object, unpacked but not parsed.
#[derive(Clone, Debug)]
pub struct Record {
    /// The JSON, without a resource version.
    json: Bytes,
    /// Where `"metadata"` starts in it.
    metadata_at: usize,
    /// Which schema it was pruned and defaulted by.
    pub schema_tag: u32,
    /// Shown as its resource version. A deletion shows the last state at its own.
    pub revision: Revision,
}

/// What selectors and garbage collection need of `metadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub labels: std::collections::BTreeMap<String, String>,
    pub finalizers: Vec<String>,
    pub owner_references: Vec<Owner>,
    pub deletion_timestamp: Option<String>,
}

/// One owner reference.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub block_owner_deletion: bool,
}

/// The bytes to store for `object`. The resource version is left out: it is the store's.
///
/// # Errors
/// 500 when `object` is no object with metadata, which callers have checked before.
pub fn encode(object: &Value, schema_tag: u32) -> Result<Bytes, Failure> {
    let (Some(fields), Some(metadata)) = (object.as_object(), object["metadata"].as_object()) else {
        return Err(Failure::internal("an object without metadata reached the store"));
    };
    let mut out = BytesMut::with_capacity(1024);
    out.put_u32_le(schema_tag);
    out.put_u32_le(0);
    out.put_u8(b'{');
    for key in ["apiVersion", "kind"] {
        if let Some(value) = fields.get(key) {
            put_field(&mut out, key, value)?;
        }
    }
    let metadata_at = u32::try_from(out.len() - HEADER_BYTES).map_err(Failure::internal)?;
    out[4..8].copy_from_slice(&metadata_at.to_le_bytes());
    out.extend_from_slice(OPEN.as_bytes());
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
        put_field(&mut out, key, value)?;
    }
    close(&mut out);
    out.put_u8(b',');
    for (key, value) in
        fields.iter().filter(|(key, _)| !["apiVersion", "kind", "metadata"].contains(&key.as_str()))
    {
        put_field(&mut out, key, value)?;
    }
    close(&mut out);
    Ok(out.freeze())
}

/// Stored bytes as plain JSON, for a store that others read too.
#[must_use]
pub fn to_plain(stored: &Bytes) -> Bytes {
    stored.slice(HEADER_BYTES.min(stored.len())..)
}

/// Plain JSON as stored bytes. Which schema it fits is not known, so custom objects are decoded again
/// whenever they are shown. What is no object stays as it is, and reading it says so.
#[must_use]
pub fn from_plain(plain: &[u8]) -> Bytes {
    let plain = plain.trim_ascii_end();
    if let Some(metadata_at) = metadata_offset(plain) {
        let mut out = BytesMut::with_capacity(HEADER_BYTES + plain.len());
        out.put_u32_le(0);
        out.put_u32_le(metadata_at);
        out.extend_from_slice(plain);
        return out.freeze();
    }
    let object = serde_json::from_slice::<Value>(plain).ok();
    let encoded = object.and_then(|object| encode(&object, 0).ok());
    encoded.unwrap_or_else(|| Bytes::copy_from_slice(plain))
}

/// Where `"metadata"` starts, if the text has the order that `encode` writes and no resource version.
fn metadata_offset(plain: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(plain).ok()?;
    let mut rest = text.strip_prefix('{')?;
    for key in ["\"apiVersion\":\"", "\"kind\":\""] {
        let (word, behind) = rest.strip_prefix(key)?.split_once("\",")?;
        rest = (!word.contains(['"', '\\'])).then_some(behind)?;
    }
    let fits = rest.starts_with(OPEN) && !rest.contains("\"resourceVersion\"");
    u32::try_from(text.len() - rest.len()).ok().filter(|_| fits)
}

/// True when stored bytes are an object that can be read.
#[must_use]
pub fn is_whole(stored: &Bytes) -> bool {
    let object = stored.get(HEADER_BYTES..).and_then(|json| serde_json::from_slice::<Value>(json).ok());
    object.is_some_and(|object| object["metadata"].is_object())
}

fn put_field(out: &mut BytesMut, key: &str, value: &Value) -> Result<(), Failure> {
    let mut writer = out.writer();
    serde_json::to_writer(&mut writer, key).map_err(Failure::internal)?;
    writer.get_mut().put_u8(b':');
    serde_json::to_writer(&mut writer, value).map_err(Failure::internal)?;
    writer.get_mut().put_u8(b',');
    Ok(())
}

/// Ends an object: the comma after its last field becomes its brace.
fn close(out: &mut BytesMut) {
    match out.last_mut() {
        Some(last) if *last == b',' => *last = b'}',
        _ => out.put_u8(b'}'),
    }
}

impl Record {
    /// # Errors
    /// 500 when the entry was not written by this file.
    pub fn read(entry: &Entry) -> Result<Self, Failure> {
        let damaged = || Failure::internal(format!("the stored object {} is damaged", entry.key));
        let bytes = entry.value.unpack().map_err(Failure::internal)?;
        let (tag, rest) = bytes.split_first_chunk::<4>().ok_or_else(damaged)?;
        let (offset, json) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
        let metadata_at = usize::try_from(u32::from_le_bytes(*offset)).map_err(|_| damaged())?;
        if !json.get(metadata_at..).is_some_and(|tail| tail.starts_with(OPEN.as_bytes())) {
            return Err(damaged());
        }
        Ok(Self {
            json: bytes.slice(HEADER_BYTES..),
            metadata_at,
            schema_tag: u32::from_le_bytes(*tag),
            revision: entry.modified,
        })
    }

    /// Appends the object as clients see it; without `apiVersion` and `kind` when `bare`.
    pub fn write_json(&self, out: &mut Vec<u8>, bare: bool) {
        let splice = self.metadata_at + OPEN.len();
        if bare {
            out.push(b'{');
        }
        out.extend_from_slice(&self.json[if bare { self.metadata_at } else { 0 }..splice]);
        out.extend_from_slice(b"\"resourceVersion\":\"");
        out.extend_from_slice(self.revision.to_string().as_bytes());
        let follows = if self.json.get(splice) == Some(&b'}') { "\"" } else { "\"," };
        out.extend_from_slice(follows.as_bytes());
        out.extend_from_slice(&self.json[splice..]);
    }

    /// Upper estimate of what `write_json` appends.
    #[must_use]
    pub fn len(&self) -> usize {
        self.json.len() + 48
    }

    /// Parsed, with its resource version.
    ///
    /// # Errors
    /// 500 when the stored text is not JSON.
    pub fn value(&self) -> Result<Value, Failure> {
        let mut object: Value = serde_json::from_slice(&self.json).map_err(Failure::internal)?;
        set(&mut object, "resourceVersion", self.revision.to_string().into());
        Ok(object)
    }

    /// Only the metadata is scanned.
    ///
    /// # Errors
    /// 500 when the stored text is not JSON.
    pub fn metadata(&self) -> Result<Metadata, Failure> {
        let text = &self.json[self.metadata_at + OPEN.len() - 1..];
        Metadata::deserialize(&mut serde_json::Deserializer::from_slice(text)).map_err(Failure::internal)
    }

    /// True when both would be stored as the same bytes.
    #[must_use]
    pub fn same_as(&self, encoded: &Bytes) -> bool {
        encoded.get(HEADER_BYTES..) == Some(&self.json[..])
    }
}

/// A text field of `metadata`; empty when it is not there.
#[must_use]
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

#[must_use]
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// Sets a field of `metadata`.
pub fn set(object: &mut Value, field: &str, value: Value) {
    if let Some(metadata) = metadata_mut(object) {
        metadata.insert(field.to_owned(), value);
    }
}

/// Removes a field of `metadata`.
pub fn unset(object: &mut Value, field: &str) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove(field);
    }
}

fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let fields = object.as_object_mut()?;
    fields.entry("metadata").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

/// Strings of a list in `metadata`.
#[must_use]
pub fn strings(object: &Value, field: &str) -> Vec<String> {
    let list = object["metadata"][field].as_array();
    list.into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// True once a deletion was asked for.
#[must_use]
pub fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// The fields outside of `metadata`, `apiVersion` and `kind` are equal; `status` too unless `except_status`.
#[must_use]
pub fn same_content(a: &Value, b: &Value, except_status: bool) -> bool {
    let content = |object: &Value| -> Vec<(String, Value)> {
        let skip = |key: &str| {
            matches!(key, "metadata" | "apiVersion" | "kind") || (except_status && key == "status")
        };
        let fields = object.as_object().into_iter().flatten();
        fields.filter(|(key, _)| !skip(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    content(a) == content(b)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::Blob;

    fn record(object: &Value) -> Record {
        let value = Blob::pack(&encode(object, 7).unwrap());
        Record::read(&Entry { key: "/k".into(), created: 1, modified: 42, value }).unwrap()
    }

    #[test]
    fn an_object_comes_back_with_its_revision() {
        for object in [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"metadata": "{"}, "metadata": {"name": "a", "zone": 1}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "9"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
        ] {
            let record = record(&object);
            let mut expected = object.clone();
            expected["metadata"]["resourceVersion"] = "42".into();
            assert_eq!(record.value().unwrap(), expected);
            let mut wire = Vec::new();
            record.write_json(&mut wire, false);
            assert_eq!(serde_json::from_slice::<Value>(&wire).unwrap(), expected);
            let mut bare = Vec::new();
            record.write_json(&mut bare, true);
            let fields = expected.as_object_mut().unwrap();
            fields.remove("kind");
            fields.remove("apiVersion");
            assert_eq!(serde_json::from_slice::<Value>(&bare).unwrap(), expected);
            assert_eq!(record.schema_tag, 7);
        }
    }

    #[test]
    fn plain_json_of_ours_and_of_others_is_read() {
        let object =
            json!({"apiVersion": "g.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"x": 1}});
        let plain = to_plain(&encode(&object, 7).unwrap());
        assert_eq!(
            plain,
            r#"{"apiVersion":"g.io/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"x":1}}"#
        );
        for text in [
            String::from_utf8(plain.to_vec()).unwrap(),
            // As a kube-apiserver writes it: a newline at the end, fields in the order of the alphabet.
            r#"{"apiVersion":"g.io/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"x":1}}
            "#.to_owned(),
            r#"{"a": 0, "spec":{"x":1}, "metadata":{"resourceVersion":"9","name":"a"}, "kind":"Thing", "apiVersion":"g.io/v1"}"#
                .replace(r#""a": 0, "#, ""),
        ] {
            let value = Blob::pack(&from_plain(text.as_bytes()));
            let record = Record::read(&Entry { key: "/k".into(), created: 1, modified: 42, value }).unwrap();
            let mut expected = object.clone();
            expected["metadata"]["resourceVersion"] = "42".into();
            assert_eq!(record.value().unwrap(), expected, "{text}");
            assert_eq!(record.schema_tag, 0);
        }
        // A built-in object of a kube-apiserver: protobuf.
        let value = Blob::pack(&from_plain(b"k8s\0\x0a\x02v1"));
        let failure = Record::read(&Entry { key: "/k".into(), created: 1, modified: 42, value }).unwrap_err();
        assert!(failure.message.contains("/k is damaged"), "{}", failure.message);
    }

    #[test]
    fn metadata_is_read_alone() {
        let record = record(&json!({"metadata": {
            "name": "a", "labels": {"x": "y"}, "finalizers": ["f"],
            "ownerReferences": [{"uid": "u", "blockOwnerDeletion": true}]}, "spec": {"big": true}}));
        let metadata = record.metadata().unwrap();
        assert_eq!((metadata.name.as_str(), metadata.labels["x"].as_str()), ("a", "y"));
        assert!(metadata.owner_references[0].block_owner_deletion);
    }

    #[test]
    fn damage_is_reported() {
        for bytes in [&b""[..], b"\0\0\0\0\xff\0\0\0{}", b"\0\0\0\0\0\0\0\0{}"] {
            let entry = Entry { key: "/k".into(), created: 1, modified: 1, value: Blob::pack(bytes) };
            assert_eq!(Record::read(&entry).unwrap_err().code(), 500);
        }
    }
}
