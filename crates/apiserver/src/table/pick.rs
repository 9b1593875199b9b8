//! Reads only the wanted parts of an object from its JSON text; everything else is scanned over.
//! Must not know what the parts are for.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// No object is nested deeper, so that what is below so many fields is taken whole and never met.
const LEVELS_MAX: usize = 100;

/// The wanted parts, as a tree of field names. A leaf takes the whole value.
/// Not deeper than [`LEVELS_MAX`], for it is read, and let go, by recursion.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted(BTreeMap<String, Wanted>);

impl Wanted {
    /// Adds the value under these fields. Nothing when there are none: that would be everything.
    pub(super) fn add<'a>(&mut self, fields: impl IntoIterator<Item = &'a str>) {
        let mut fields = fields.into_iter().take(LEVELS_MAX).peekable();
        if fields.peek().is_none() {
            return;
        }
        let mut at = self;
        let mut created = true;
        for field in fields {
            let known = at.0.contains_key(field);
            // A leaf that was wanted whole stays whole.
            if !created && at.0.is_empty() {
                return;
            }
            created = !known;
            at = at.0.entry(field.to_owned()).or_default();
        }
        // The whole value is wanted from here on, and with it the parts that were.
        at.0.clear();
    }
}

/// The wanted parts of an object, and its metadata as text.
pub(super) struct Picked<'a> {
    pub(super) parts: Value,
    pub(super) metadata: &'a RawValue,
}

/// # Errors
/// When the text is no JSON object with metadata.
pub(super) fn pick<'a>(text: &'a [u8], wanted: &Wanted) -> Result<Picked<'a>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    reader.deserialize_map(Object(wanted))
}

struct Object<'w>(&'w Wanted);

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Picked<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut parts = Map::new();
        let mut metadata: Option<&'de RawValue> = None;
        while let Some(key) = entries.next_key::<std::borrow::Cow<'de, str>>()? {
            if key == "metadata" {
                // The text is kept, as most rows send the metadata as it is; cells parse it once
                // more below.
                metadata = Some(entries.next_value()?);
            } else if let Some(wanted) = self.0.0.get(key.as_ref()) {
                parts.insert(key.into_owned(), entries.next_value_seed(Part(wanted))?);
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        let metadata = metadata.ok_or_else(|| serde::de::Error::missing_field("metadata"))?;
        if let Some(wanted) = self.0.0.get("metadata") {
            let mut reader = serde_json::Deserializer::from_str(metadata.get());
            let part = Part(wanted).deserialize(&mut reader).map_err(serde::de::Error::custom)?;
            parts.insert("metadata".to_owned(), part);
        }
        Ok(Picked { parts: Value::Object(parts), metadata })
    }
}

struct Part<'w>(&'w Wanted);

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.0.0.is_empty() {
            serde::Deserialize::deserialize(deserializer)
        } else {
            deserializer.deserialize_any(self)
        }
    }
}

/// A map is picked from; anything else where a map was expected is of no use to anybody.
impl<'de> Visitor<'de> for Part<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut parts = Map::new();
        while let Some(key) = entries.next_key::<std::borrow::Cow<'de, str>>()? {
            match self.0.0.get(key.as_ref()) {
                Some(wanted) => {
                    parts.insert(key.into_owned(), entries.next_value_seed(Part(wanted))?);
                }
                None => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Value::Object(parts))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Null)
    }
}
