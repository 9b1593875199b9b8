//! One object as the store keeps it and as the wire shows it. Owns the record format, and reading
//! and writing `metadata` of an object as JSON; must not know kinds.
//!
//! Objects are JSON text written by this file, so that an answer needs no parsing: `metadata`
//! follows `apiVersion` and `kind`, and the resource version, which is the store's, is spliced in
//! at a place the record remembers. So are the managed fields, which are kept behind the object:
//! hardly anybody who reads one wants to read them.

pub mod field_selector;
pub mod label_selector;
pub mod metadata;
pub mod printable;

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::failure::Failure;
use capstan_store::{Entry, Revision};

/// Bytes before the JSON: schema tag and the places in the text, both little-endian. The places are
/// the offset of `"metadata"` in the low bits and, if managed fields follow the object, its length in
/// the others.
const HEADER_BYTES: usize = 8;
const OFFSET_BITS: u32 = 10;
/// Longest object that can be followed by managed fields.
const OBJECT_BYTES_MAX: usize = (1 << (u32::BITS - OFFSET_BITS)) - 1;
const OPEN: &str = "\"metadata\":{";

/// A stored object, unpacked but not parsed.
#[derive(Clone, Debug)]
pub struct Record {
    /// The JSON, without a resource version and managed fields.
    json: Bytes,
    /// The list of managed fields as JSON text; empty when there are no entries.
    pub managed: Bytes,
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

/// The bytes to store for `object` with its managed fields, which are JSON text or empty. The resource
/// version is left out: it is the store's.
///
/// # Errors
/// 500 when `object` is not an object with metadata, which callers have checked before.
pub fn encode(object: &Value, managed: &[u8], schema_tag: u32) -> Result<Bytes, Failure> {
    let (Some(fields), Some(metadata)) = (object.as_object(), object["metadata"].as_object()) else {
        return Err(Failure::internal("an object without metadata reached the store"));
    };
    let mut out = BytesMut::with_capacity(1024 + managed.len());
    out.put_u32_le(schema_tag);
    // The places are known at the end, and written here then.
    out.put_u32_le(0);
    out.put_u8(b'{');
    for key in ["apiVersion", "kind"] {
        if let Some(value) = fields.get(key) {
            put_field(&mut out, key, value)?;
        }
    }
    let metadata_at = out.len() - HEADER_BYTES;
    out.extend_from_slice(OPEN.as_bytes());
    for (key, value) in
        metadata.iter().filter(|(key, _)| !["resourceVersion", "managedFields"].contains(&key.as_str()))
    {
        put_field(&mut out, key, value)?;
    }
    close(&mut out);
    // The comma comes even when no field follows: `close` makes it the brace.
    out.put_u8(b',');
    for (key, value) in
        fields.iter().filter(|(key, _)| !["apiVersion", "kind", "metadata"].contains(&key.as_str()))
    {
        put_field(&mut out, key, value)?;
    }
    close(&mut out);
    let object_len = out.len() - HEADER_BYTES;
    let places = if let Some(places) = places(metadata_at, object_len, managed) {
        out.extend_from_slice(managed);
        places
    } else {
        // An object without managed fields is better than no object.
        u32::try_from(metadata_at).map_err(Failure::internal)?
    };
    out[4..HEADER_BYTES].copy_from_slice(&places.to_le_bytes());
    Ok(out.freeze())
}

/// Stored bytes as plain JSON, for a store that others read too.
pub fn to_plain(stored: &Bytes) -> Bytes {
    // `store::Plain` may not fail, so what cannot be read is written as it is.
    let Some(record) = Record::decode(stored, 0) else { return stored.clone() };
    let mut plain = Vec::with_capacity(record.bytes_max());
    record.write_json(&mut plain, false);
    plain.into()
}

/// Plain JSON as stored bytes. Which schema it fits is not known, so custom objects are decoded again
/// whenever they are shown. `None`: it is not an object.
pub fn from_plain(plain: &[u8]) -> Option<Bytes> {
    // Other programs may end the text with a line break.
    let plain = std::str::from_utf8(plain).ok()?.trim_ascii_end();
    let stored = match from_our_order(plain) {
        // The order alone proves nothing about the rest of the text.
        Some(stored) if serde_json::from_str::<IgnoredAny>(plain).is_ok() => stored,
        _ => {
            let object: Value = serde_json::from_str(plain).ok()?;
            let typed = object["apiVersion"].is_string() && object["kind"].is_string();
            typed.then(|| encode(&object, managed_text(&object).as_bytes(), 0).ok())??
        }
    };
    // Lists and garbage collection read the metadata of every object, so that has to be readable.
    Record::decode(&stored, 0)?.metadata().ok().map(|_| stored)
}

/// The managed fields of a whole object as JSON text; empty for none.
pub fn managed_text(object: &Value) -> String {
    object
        .pointer("/metadata/managedFields")
        .filter(|list| list.is_array())
        .map(Value::to_string)
        .unwrap_or_default()
}

/// Text in the order that `write_json` writes, without a resource version.
fn from_our_order(text: &str) -> Option<Bytes> {
    const MANAGED: &str = "\"managedFields\":";
    let mut rest = text.strip_prefix('{')?;
    for key in ["\"apiVersion\":\"", "\"kind\":\""] {
        let (word, behind) = rest.strip_prefix(key)?.split_once("\",")?;
        rest = (!word.contains(['"', '\\'])).then_some(behind)?;
    }
    let (head, metadata) = (text.len() - rest.len(), rest.strip_prefix(OPEN)?);
    let (managed, metadata) = match metadata.strip_prefix(MANAGED) {
        None => ("", metadata),
        Some(list) => {
            let mut lists = serde_json::Deserializer::from_str(list).into_iter::<&RawValue>();
            let managed = lists.next()?.ok()?.get();
            let behind = list.strip_prefix(managed)?;
            (managed, behind.strip_prefix(',').unwrap_or(behind))
        }
    };
    // Both words may be keys further inside; parsing the whole text gets that right.
    if metadata.contains("\"resourceVersion\"") || metadata.contains(MANAGED) {
        return None;
    }
    let object_len = head + OPEN.len() + metadata.len();
    let mut out = BytesMut::with_capacity(HEADER_BYTES + text.len());
    out.put_u32_le(0);
    out.put_u32_le(places(head, object_len, managed.as_bytes())?);
    for part in [&text[..head], OPEN, metadata, managed] {
        out.extend_from_slice(part.as_bytes());
    }
    Some(out.freeze())
}

/// The second word of the header; `None` when the object is too long to be followed by managed fields.
fn places(metadata_at: usize, object_len: usize, managed: &[u8]) -> Option<u32> {
    let followed = if managed.is_empty() { 0 } else { object_len };
    u32::try_from(metadata_at | followed << OFFSET_BITS).ok().filter(|_| followed <= OBJECT_BYTES_MAX)
}

/// From stored bytes to plain JSON, and back; see `store::Plain`.
pub type PlainForm = (fn(&Bytes) -> Bytes, fn(&[u8]) -> Option<Bytes>);

/// How objects are written into a store that others read too.
pub fn plain_form() -> PlainForm {
    (to_plain, from_plain)
}

/// True when stored bytes are an object that can be read, and so are its managed fields.
pub fn is_whole(stored: &Bytes) -> bool {
    Record::decode(stored, 0).is_some_and(|record| {
        record.value().is_ok_and(|object| object["metadata"].is_object()) && record.managed_fields().is_ok()
    })
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
        let bytes = entry.value.unpack().map_err(Failure::internal)?;
        Self::decode(&bytes, entry.modified).ok_or_else(|| damaged(entry))
    }

    /// What `encode` wrote; `None` when it did not write it.
    pub fn decode(bytes: &Bytes, revision: Revision) -> Option<Self> {
        let (tag, rest) = bytes.split_first_chunk::<4>()?;
        let (places, text) = rest.split_first_chunk::<4>()?;
        let places = usize::try_from(u32::from_le_bytes(*places)).ok()?;
        let metadata_at = places & ((1 << OFFSET_BITS) - 1);
        let object_len = if places >> OFFSET_BITS == 0 { text.len() } else { places >> OFFSET_BITS };
        let object = text.get(..object_len)?;
        if !object.get(metadata_at..).is_some_and(|tail| tail.starts_with(OPEN.as_bytes())) {
            return None;
        }
        Some(Self {
            json: bytes.slice(HEADER_BYTES..HEADER_BYTES + object_len),
            managed: bytes.slice(HEADER_BYTES + object_len..),
            metadata_at,
            schema_tag: u32::from_le_bytes(*tag),
            revision,
        })
    }

    /// Appends the object as clients see it; without `apiVersion` and `kind` when `bare`.
    pub fn write_json(&self, out: &mut Vec<u8>, bare: bool) {
        let splice = self.metadata_at + OPEN.len();
        if bare {
            out.push(b'{');
        }
        out.extend_from_slice(&self.json[if bare { self.metadata_at } else { 0 }..splice]);
        let start = out.len();
        // Nothing that was only tried has a revision.
        if self.revision > 0 {
            out.extend_from_slice(format!("\"resourceVersion\":\"{}\",", self.revision).as_bytes());
        }
        if !self.managed.is_empty() {
            out.extend_from_slice(b"\"managedFields\":");
            out.extend_from_slice(&self.managed);
            out.push(b',');
        }
        // The metadata has no other field, so no comma may stand before its brace.
        if out.len() > start && self.json.get(splice) == Some(&b'}') {
            out.pop();
        }
        out.extend_from_slice(&self.json[splice..]);
    }

    /// Upper estimate of what `write_json` appends.
    pub fn bytes_max(&self) -> usize {
        // Both keys and a resource version take less than these 64 bytes.
        self.json.len() + self.managed.len() + 64
    }

    /// Parsed, with its resource version and without managed fields; see `managed_fields`.
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
        // One byte back: `OPEN` ends with the brace that the metadata begins with.
        let text = &self.json[self.metadata_at + OPEN.len() - 1..];
        Metadata::deserialize(&mut serde_json::Deserializer::from_slice(text)).map_err(Failure::internal)
    }

    /// The managed fields as they are shown.
    ///
    /// # Errors
    /// 500 when the stored text is not JSON.
    pub fn managed_fields(&self) -> Result<Option<Value>, Failure> {
        if self.managed.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&self.managed).map(Some).map_err(Failure::internal)
    }

    /// True when both would be stored as the same bytes, managed fields apart.
    pub fn same_object(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

fn damaged(entry: &Entry) -> Failure {
    Failure::internal(format!("the stored object {} is damaged; it can be deleted by its name", entry.key))
}

/// A text field of `metadata`; empty when it is not there.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

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
pub fn strings(object: &Value, field: &str) -> Vec<String> {
    let list = object["metadata"][field].as_array();
    list.into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// True once a deletion was asked for.
pub fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// The fields outside of `metadata`, `apiVersion` and `kind` are equal; `status` too unless `except_status`.
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
    use capstan_store::Blob;

    fn record(object: &Value) -> Record {
        owned_record(object, b"")
    }

    fn owned_record(object: &Value, managed: &[u8]) -> Record {
        let value = Blob::pack(&encode(object, managed, 7).unwrap());
        Record::read(&Entry { key: "/k".into(), created: 1, modified: 42, value }).unwrap()
    }

    /// Repair asks this of every object: one with managed fields was taken for damaged, so nothing
    /// that a client had written was saved.
    #[test]
    fn an_object_with_managed_fields_is_whole_and_a_cut_one_is_not() {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        for managed in [&b""[..], br#"[{"manager":"m"}]"#] {
            let stored = encode(&object, managed, 7).unwrap();
            assert!(is_whole(&stored));
            assert!(
                (0..stored.len())
                    .all(|end| !is_whole(&stored.slice(..end)) || end == stored.len() - managed.len())
            );
        }
        assert!(!is_whole(&Bytes::from_static(b"12345678[]")));
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
        let plain = to_plain(&encode(&object, b"", 7).unwrap());
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
            let value = Blob::pack(&from_plain(text.as_bytes()).unwrap());
            let record = Record::read(&Entry { key: "/k".into(), created: 1, modified: 42, value }).unwrap();
            let mut expected = object.clone();
            expected["metadata"]["resourceVersion"] = "42".into();
            assert_eq!(record.value().unwrap(), expected, "{text}");
            assert_eq!(record.schema_tag, 0);
        }
    }

    #[test]
    fn what_is_not_an_object_is_told_from_what_is() {
        let whole = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#;
        assert!(from_plain(whole.as_bytes()).is_some());
        // A kube-apiserver's protobuf, text that was cut off, other JSON, metadata of other types.
        for garbage in [
            &b"k8s\0\x0a\x02v1"[..],
            b"",
            b"junk",
            b"[1]",
            &whole.as_bytes()[..whole.len() - 3],
            br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":v}}"#,
            br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":5}}"#,
            br#"{"metadata":{"name":"a"}}"#,
            b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"\xff\"}}",
        ] {
            assert!(from_plain(garbage).is_none(), "{}", String::from_utf8_lossy(garbage));
            let entry = Entry { key: "/k".into(), created: 1, modified: 42, value: Blob::pack(garbage) };
            let failure = Record::read(&entry).and_then(|record| record.metadata()).unwrap_err();
            assert_eq!(failure.code(), 500);
        }
    }

    #[test]
    fn managed_fields_are_kept_apart_and_shown_together() {
        for metadata in [json!({}), json!({"name": "a", "managedFields": "what a client sent"})] {
            let object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}, "metadata": metadata});
            let record = owned_record(&object, br#"[{"manager":"m"}]"#);
            let mut expected = object.clone();
            unset(&mut expected, "managedFields");
            set(&mut expected, "resourceVersion", "42".into());
            assert_eq!(record.value().unwrap(), expected);
            assert!(record.same_object(&owned_record(&object, b"")));
            set(&mut expected, "managedFields", json!([{"manager": "m"}]));
            assert_eq!(record.managed_fields().unwrap(), Some(json!([{"manager": "m"}])));
            let mut wire = Vec::new();
            record.write_json(&mut wire, false);
            assert_eq!(serde_json::from_slice::<Value>(&wire).unwrap(), expected);
            assert!(wire.len() <= record.bytes_max());
            // The way through a store that others read too.
            let plain = to_plain(&encode(&object, &record.managed, 7).unwrap());
            for plain in [plain.clone(), serde_json::from_slice::<Value>(&plain).unwrap().to_string().into()]
            {
                let back = Record::decode(&from_plain(&plain).unwrap(), 42).unwrap();
                assert_eq!(
                    (back.value().unwrap(), &back.managed),
                    (record.value().unwrap(), &record.managed)
                );
            }
        }
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
