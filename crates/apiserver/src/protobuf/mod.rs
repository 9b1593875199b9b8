//! Kubernetes protobuf request bodies to JSON, for the built-in kinds that clients send that way.
//! Owns the envelope and the wire format; must not know what a kind means.
//!
//! Source: apimachinery `pkg/runtime/serializer/protobuf/protobuf.go`, v0.35.

mod definition;
mod kinds;
mod metadata;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value};

use self::kinds::{DELETE_OPTIONS, ENVELOPE, KINDS};
use crate::failure::Failure;

pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Starts every body.
const MAGIC: &[u8] = b"k8s\0";
/// Messages nested deeper than this are refused: each level is one or two of the JSON that it becomes,
/// and definitions have schemas of some thirty levels.
const DEPTH_MAX: usize = 64;

/// One field of a message. Senders write every plain field, zero or not: a zero is left out, unless
/// the field is one of those whose presence means something.
struct Field(u32, &'static str, Kind);

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Texts,
    Integer,
    Bool,
    /// Present even when zero, empty or false.
    OptionalText,
    OptionalInteger,
    OptionalBool,
    Time,
    MicroTime,
    OptionalDouble,
    /// JSON in bytes (`FieldsV1`).
    Raw,
    Raws,
    /// Base64 in JSON.
    Bytes,
    TextMap,
    BytesMap,
    QuantityMap,
    Message(Fields),
    /// A message whose presence has a meaning, even when it is empty.
    Present(Fields),
    Messages(Fields),
    MessageMap(Fields),
    /// A message that is only one of its fields in JSON.
    Either(Fields),
    EitherMap(Fields),
}

type Fields = &'static [Field];

/// The object in a protobuf body, as JSON with `apiVersion` and `kind`.
///
/// # Errors
/// 400 for a malformed body; 415 for a kind that is only understood as JSON.
pub fn decode(body: &[u8]) -> Result<Value, Failure> {
    let Some(envelope) = body.strip_prefix(MAGIC) else {
        return Err(malformed("the body does not start with the Kubernetes protobuf prefix"));
    };
    let head = message(envelope, ENVELOPE, 0)?;
    let type_ = |key: &str| head["typeMeta"][key].as_str().unwrap_or_default();
    let (api_version, kind) = (type_("apiVersion"), type_("kind"));
    let known = KINDS.iter().find(|(v, k, _)| *v == api_version && *k == kind).map(|(_, _, fields)| *fields);
    // Deletions carry their options under the group of what is deleted.
    let known = known.or((kind == "DeleteOptions").then_some(DELETE_OPTIONS));
    let Some(fields) = known else {
        return Err(Failure::unsupported_media_type(&["application/json", "application/yaml"]));
    };
    let mut object = message(raw(envelope)?, fields, 0)?;
    object["apiVersion"] = Value::from(api_version);
    object["kind"] = Value::from(kind);
    Ok(object)
}

fn malformed(why: &str) -> Failure {
    Failure::bad_request(format!("cannot decode protobuf body: {why}"))
}

/// The bytes of the object in an envelope.
fn raw(envelope: &[u8]) -> Result<&[u8], Failure> {
    let mut reader = Reader(envelope);
    let mut found: &[u8] = &[];
    while let Some((number, content)) = reader.field()? {
        // As everywhere in protobuf, the last of several counts.
        if let (2, Content::Bytes(bytes)) = (number, content) {
            found = bytes;
        }
    }
    Ok(found)
}

/// What a field holds on the wire.
#[derive(Clone, Copy)]
enum Content<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Double(f64),
    /// Four bytes: none of our fields, but they must be skipped.
    Fixed,
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next field, or `None` at the end.
    fn field(&mut self) -> Result<Option<(u32, Content<'a>)>, Failure> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| malformed("field number out of range"))?;
        let content = match tag & 7 {
            0 => Content::Number(self.varint()?),
            1 => {
                let bytes = self.bytes(8)?.try_into().map_err(|_| malformed("a number is too short"))?;
                Content::Double(f64::from_le_bytes(bytes))
            }
            2 => {
                let length = self.varint()?;
                Content::Bytes(self.bytes(length)?)
            }
            5 => self.bytes(4).map(|_| Content::Fixed)?,
            _ => return Err(malformed("unknown wire type")),
        };
        Ok(Some((number, content)))
    }

    fn varint(&mut self) -> Result<u64, Failure> {
        let mut number = 0;
        // 64 bits at seven a byte: a number has ten bytes at most.
        for shift in (0..64).step_by(7) {
            let (first, rest) =
                self.0.split_first().ok_or_else(|| malformed("it ends in the middle of a number"))?;
            self.0 = rest;
            number |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(malformed("a number is too long"))
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], Failure> {
        let split = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
        let (bytes, rest) = split.ok_or_else(|| malformed("it ends in the middle of a field"))?;
        self.0 = rest;
        Ok(bytes)
    }
}

fn message(bytes: &[u8], fields: Fields, depth: usize) -> Result<Value, Failure> {
    if depth > DEPTH_MAX {
        return Err(malformed("it is nested too deeply"));
    }
    let mut out = Map::new();
    let mut reader = Reader(bytes);
    while let Some((number, content)) = reader.field()? {
        // A newer client may send fields that are not known here.
        let Some(Field(_, name, kind)) = fields.iter().find(|field| field.0 == number) else { continue };
        match (kind, content) {
            (Kind::Texts, Content::Bytes(bytes)) => append(&mut out, name, text(bytes)?),
            (Kind::Messages(fields), Content::Bytes(bytes)) => {
                append(&mut out, name, message(bytes, fields, depth + 1)?);
            }
            (Kind::Raws, Content::Bytes(bytes)) => {
                append(&mut out, name, raw_json(bytes)?.unwrap_or(Value::Null));
            }
            (
                Kind::TextMap | Kind::BytesMap | Kind::QuantityMap | Kind::MessageMap(_) | Kind::EitherMap(_),
                Content::Bytes(bytes),
            ) => {
                let (key, value) = entry(bytes, *kind, depth)?;
                let map = out.entry((*name).to_owned()).or_insert_with(|| Value::Object(Map::new()));
                map[&key] = value;
            }
            _ => {
                if let Some(value) = single(*kind, content, depth)? {
                    out.insert((*name).to_owned(), value);
                }
            }
        }
    }
    Ok(Value::Object(out))
}

fn append(out: &mut Map<String, Value>, name: &str, item: Value) {
    if let Value::Array(items) = out.entry(name.to_owned()).or_insert_with(|| Value::Array(Vec::new())) {
        items.push(item);
    }
}

/// The value of a field that occurs once; `None` when it is left out because it is zero.
fn single(kind: Kind, content: Content<'_>, depth: usize) -> Result<Option<Value>, Failure> {
    Ok(match (kind, content) {
        (Kind::Text, Content::Bytes(bytes)) => Some(text(bytes)?).filter(|_| !bytes.is_empty()),
        (Kind::OptionalText, Content::Bytes(bytes)) => Some(text(bytes)?),
        (Kind::Integer, Content::Number(number)) => (number != 0).then(|| integer(number)),
        (Kind::OptionalInteger, Content::Number(number)) => Some(integer(number)),
        (Kind::Bool, Content::Number(number)) => (number != 0).then_some(Value::Bool(true)),
        (Kind::OptionalBool, Content::Number(number)) => Some(Value::Bool(number != 0)),
        (Kind::Time, Content::Bytes(bytes)) => time(bytes, SecondsFormat::Secs)?,
        (Kind::MicroTime, Content::Bytes(bytes)) => time(bytes, SecondsFormat::Micros)?,
        (Kind::OptionalDouble, Content::Double(number)) => Some(double(number)?),
        (Kind::Raw, Content::Bytes(bytes)) => raw_json(bytes)?,
        (Kind::Bytes, Content::Bytes(bytes)) => (!bytes.is_empty()).then(|| BASE64.encode(bytes).into()),
        (Kind::Present(fields), Content::Bytes(bytes)) => Some(message(bytes, fields, depth + 1)?),
        (Kind::Either(fields), Content::Bytes(bytes)) => either(bytes, fields, depth)?,
        (Kind::Message(fields), Content::Bytes(bytes)) => {
            let value = message(bytes, fields, depth + 1)?;
            // Senders write a message that is not a pointer in Go even when it is empty.
            (value != Value::Object(Map::new())).then_some(value)
        }
        _ => return Err(malformed("a field has the wrong wire type")),
    })
}

/// The field that counts: the last of those that are there.
fn either(bytes: &[u8], fields: Fields, depth: usize) -> Result<Option<Value>, Failure> {
    let mut all = message(bytes, fields, depth + 1)?;
    Ok(fields.iter().rev().find_map(|field| all.get_mut(field.1).map(Value::take)))
}

/// Whole numbers are integers in JSON.
fn double(number: f64) -> Result<Value, Failure> {
    // A double holds every integer up to 2^53, and 9e15 lies just below that.
    // Checked: it is whole and small enough.
    let whole = (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64);
    whole
        .map(Value::from)
        .or_else(|| serde_json::Number::from_f64(number).map(Value::Number))
        .ok_or_else(|| malformed("a number is not finite"))
}

fn text(bytes: &[u8]) -> Result<Value, Failure> {
    std::str::from_utf8(bytes).map(Value::from).map_err(|_| malformed("a text is not UTF-8"))
}

/// Negative numbers are sent as their two's complement.
fn integer(number: u64) -> Value {
    Value::from(number as i64)
}

/// Seconds and nanoseconds since 1970; an empty message means unset.
fn time(bytes: &[u8], precision: SecondsFormat) -> Result<Option<Value>, Failure> {
    const PARTS: Fields = &[Field(1, "s", Kind::Integer), Field(2, "n", Kind::Integer)];
    if bytes.is_empty() {
        return Ok(None);
    }
    // Nothing is below the two numbers, so the deepest level will do.
    let parts = message(bytes, PARTS, DEPTH_MAX)?;
    let part = |key: &str| parts[key].as_i64().unwrap_or(0);
    let nanos = u32::try_from(part("n")).map_err(|_| malformed("a time is out of range"))?;
    let at: DateTime<Utc> =
        DateTime::from_timestamp(part("s"), nanos).ok_or_else(|| malformed("a time is out of range"))?;
    Ok(Some(Value::from(at.to_rfc3339_opts(precision, true))))
}

/// A message whose first field holds JSON text.
fn raw_json(bytes: &[u8]) -> Result<Option<Value>, Failure> {
    let mut reader = Reader(bytes);
    while let Some((number, content)) = reader.field()? {
        if let (1, Content::Bytes(json)) = (number, content) {
            return serde_json::from_slice(json).map(Some).map_err(|_| malformed("a field holds no JSON"));
        }
    }
    Ok(None)
}

fn entry(bytes: &[u8], kind: Kind, depth: usize) -> Result<(String, Value), Failure> {
    let mut reader = Reader(bytes);
    let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
    while let Some((number, content)) = reader.field()? {
        match (number, content) {
            (1, Content::Bytes(bytes)) => key = bytes,
            (2, Content::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    let key = std::str::from_utf8(key).map_err(|_| malformed("a key is not UTF-8"))?;
    let value = match kind {
        Kind::BytesMap => Value::from(BASE64.encode(value)),
        Kind::MessageMap(fields) => message(value, fields, depth + 1)?,
        Kind::EitherMap(fields) => either(value, fields, depth)?.unwrap_or(Value::Null),
        Kind::QuantityMap => {
            message(value, &[Field(1, "string", Kind::OptionalText)], DEPTH_MAX)?["string"].take()
        }
        _ => text(value)?,
    };
    Ok((key.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn varint(mut number: u64, out: &mut Vec<u8>) {
        while number >= 0x80 {
            out.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }

    fn number(field: u64, value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        varint(field << 3, &mut out);
        varint(value, &mut out);
        out
    }

    fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        varint(field << 3 | 2, &mut out);
        varint(content.len() as u64, &mut out);
        out.extend_from_slice(content);
        out
    }

    fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
        let type_ = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), bytes(1, &type_), bytes(2, object), bytes(3, b""), bytes(4, b"")].concat()
    }

    fn double(field: u64, value: f64) -> Vec<u8> {
        let mut out = Vec::new();
        varint(field << 3 | 1, &mut out);
        out.extend_from_slice(&value.to_le_bytes());
        out
    }

    /// As Go's encoder writes it: zero values included.
    fn definition_version() -> Vec<u8> {
        let property =
            |name: &str, schema: &[u8]| bytes(29, &[bytes(1, name.as_bytes()), bytes(2, schema)].concat());
        let raw = |field, json: &[u8]| bytes(field, &bytes(1, json));
        let number_schema = [
            bytes(5, b"integer"),
            raw(8, b"1"),
            double(9, 1.5),
            number(10, 0),
            double(11, 0.0),
            raw(20, b"1"),
            raw(20, b"2"),
        ];
        let schema = [
            bytes(4, b""),
            bytes(5, b"object"),
            property("n", &number_schema.concat()),
            property("l", &bytes(24, &bytes(1, &bytes(5, b"string")))),
            property("m", &bytes(30, &number(1, 1))),
            property("o", &bytes(30, &[number(1, 1), bytes(2, &number(37, 1))].concat())),
            property("any", &number(38, 1)),
        ];
        [
            bytes(1, b"v1"),
            number(2, 1),
            number(3, 0),
            bytes(4, &bytes(1, &schema.concat())),
            bytes(5, &bytes(1, b"")),
            number(7, 0),
        ]
        .concat()
    }

    #[test]
    fn objects_become_json() {
        let entry = |key: &str, value: &[u8]| [bytes(1, key.as_bytes()), bytes(2, value)].concat();
        let meta =
            bytes(1, &[bytes(1, b"n"), bytes(2, b""), bytes(3, b"ns"), number(7, 0), bytes(8, b"")].concat());
        let time = [number(1, 1_763_632_800), number(2, 5_000)].concat();
        for (api_version, kind, object, expected) in [
            (
                "v1",
                "Secret",
                [meta.clone(), bytes(2, &entry("a", b"hi")), bytes(3, b"Opaque"), number(5, 0)].concat(),
                json!({"metadata": {"name": "n", "namespace": "ns"}, "data": {"a": "aGk="}, "type": "Opaque", "immutable": false}),
            ),
            (
                "v1",
                "Namespace",
                [meta, bytes(2, b""), bytes(3, &bytes(1, b""))].concat(),
                json!({"metadata": {"name": "n", "namespace": "ns"}}),
            ),
            (
                "coordination.k8s.io/v1",
                "Lease",
                bytes(2, &[bytes(1, b""), number(2, 15), bytes(4, &time)].concat()),
                json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 15, "renewTime": "2025-11-20T10:00:00.000005Z"}}),
            ),
            (
                "meta.k8s.io/v1",
                "DeleteOptions",
                [number(1, 0), bytes(4, b"Background")].concat(),
                json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"}),
            ),
            (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                bytes(2, &[bytes(1, b"g.io"), bytes(7, &definition_version())].concat()),
                json!({"spec": {"group": "g.io", "versions": [{
                    "name": "v1", "served": true, "storage": false,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "n": {"type": "integer", "minimum": 0, "maximum": 1.5, "enum": [1, 2], "default": 1},
                        "l": {"items": {"type": "string"}}, "m": {"additionalProperties": true},
                        "o": {"additionalProperties": {"nullable": true}},
                        "any": {"x-kubernetes-preserve-unknown-fields": true},
                    }}},
                    "subresources": {"status": {}},
                }]}}),
            ),
            (
                "v1",
                "Node",
                bytes(3, &bytes(1, &entry("cpu", &bytes(1, b"2")))),
                json!({"status": {"capacity": {"cpu": "2"}}}),
            ),
        ] {
            let mut expected = expected;
            expected["apiVersion"] = json!(api_version);
            expected["kind"] = json!(kind);
            assert_eq!(decode(&body(api_version, kind, &object)), Ok(expected));
        }
    }

    #[test]
    fn what_cannot_be_read() {
        for (body, code) in [
            (b"".to_vec(), 400),
            (b"{}".to_vec(), 400),
            (body("v1", "Pod", b""), 415),
            (body("v1", "Secret", &[0x0a, 0xff]), 400),
            (body("v1", "Secret", &number(1, 1)), 400),
            (body("v1", "Secret", &bytes(3, &[0xff])), 400),
            (body("v1", "Secret", &[0xff; 12]), 400),
        ] {
            assert_eq!(decode(&body).map_err(|failure| failure.code()), Err(code), "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(object in prop::collection::vec(any::<u8>(), 0..64), kind in 0..KINDS.len()) {
            let (api_version, kind, _) = KINDS[kind];
            let _ = decode(&body(api_version, kind, &object));
            let _ = decode(&[MAGIC, &object].concat());
        }
    }
}
