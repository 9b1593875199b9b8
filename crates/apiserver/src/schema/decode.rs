//! Request bodies to JSON, with what a strict client wants to hear about: duplicate and unknown
//! fields. Must not know kinds.
//!
//! Source: apiserver `pkg/endpoints/handlers/{create,patch}.go`, sigs.k8s.io/json, v0.35.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::failure::Failure;
use k8s_machinery::validation::cause::{Cause, cut};

/// Findings beyond these are not noted, as in sigs.k8s.io/json.
pub(super) const FINDINGS_MAX: usize = 100;

/// What decoding noticed but survived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Paths that the schema does not declare; they were dropped.
    pub unknown: Vec<String>,
    /// Paths that occurred more than once; the last one was taken.
    pub duplicate: Vec<String>,
}

impl Findings {
    pub fn is_empty(&self) -> bool {
        self.unknown.is_empty() && self.duplicate.is_empty()
    }

    /// One text per finding: warnings under `fieldValidation=Warn`.
    pub fn warnings(&self) -> Vec<String> {
        let unknown = self.unknown.iter().map(|path| format!("unknown field \"{path}\""));
        let duplicate = self.duplicate.iter().map(|path| format!("duplicate field \"{path}\""));
        unknown.chain(duplicate).collect()
    }

    /// The refusal of a whole object under `fieldValidation=Strict`: 400.
    pub fn refuse(&self, kind: &str, version: &str) -> Failure {
        Failure::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {}",
            self.warnings().join(", ")
        ))
    }

    /// The refusal of a patch: 422, showing the patched object.
    pub fn refuse_patch(&self, group: &str, kind: &str, name: &str, patched: &Value) -> Failure {
        let detail = format!("strict decoding error: {}", self.warnings().join(", "));
        let shown = Value::from(patched.to_string());
        Failure::invalid(group, kind, name, vec![Cause::invalid("patch", &shown, &detail)])
    }
}

/// Reads JSON, noting duplicate keys. Integers beyond 64 bits signed become floats, as upstream.
///
/// # Errors
/// 400 when it is not JSON, or nested deeper than 128.
pub fn json(body: &[u8]) -> Result<(Value, Vec<String>), Failure> {
    let mut duplicates = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = Reader { duplicates: &mut duplicates }
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| {
            Failure::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        })?;
    Ok((value, duplicates))
}

/// Reads one value. Paths of duplicates are built on the way out, so that clean input costs nothing.
struct Reader<'a> {
    duplicates: &'a mut Vec<String>,
}

impl Reader<'_> {
    /// Reads a child with `read` and puts `step` in front of the paths it noted.
    fn below<T, E>(
        &mut self,
        step: impl Fn() -> String,
        read: impl FnOnce(Reader<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let known = self.duplicates.len();
        let value = read(Reader { duplicates: self.duplicates })?;
        for path in &mut self.duplicates[known..] {
            let dot = if path.starts_with('[') { "" } else { "." };
            *path = format!("{}{dot}{path}", step());
        }
        Ok(value)
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        // Upstream keeps such numbers as floats.
        let float = || Value::from(number as f64);
        Ok(i64::try_from(number).map_or_else(|_| float(), Value::from))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let index = list.len();
            let item = self.below(|| format!("[{index}]"), |reader| items.next_element_seed(reader))?;
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = self.below(|| cut(&key).to_owned(), |reader| entries.next_value_seed(reader))?;
            // With few findings at most, searching them for each duplicate stays cheap.
            let noted = self.duplicates.len() >= FINDINGS_MAX;
            if !noted && map.contains_key(&key) && !self.duplicates.iter().any(|known| known == cut(&key)) {
                self.duplicates.push(cut(&key).to_owned());
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicates_are_noted_with_their_path() {
        for (body, duplicates) in [
            (r#"{"a":1,"b":{"c":[1]}}"#, vec![]),
            (r#"{"a":1,"a":2,"a":3}"#, vec!["a"]),
            (r#"{"s":{"l":[{},{"x":1,"x":2}]}}"#, vec!["s.l[1].x"]),
            (r#"{"l":[[{"x":1,"x":2}]]}"#, vec!["l[0][0].x"]),
        ] {
            let (value, found) = json(body.as_bytes()).expect(body);
            assert_eq!(found, duplicates, "{body}");
            assert_eq!(value, serde_json::from_str::<Value>(body).expect(body), "{body}");
        }
        for body in ["", "{", "{} {}", "nope", &"[".repeat(500)] {
            assert_eq!(json(body.as_bytes()).map_err(|f| f.code()), Err(400), "{body}");
        }
    }

    #[test]
    fn a_body_of_duplicates_took_the_square_of_its_length() {
        let entry = |n: usize| format!("\"k{n}\":1,\"k{n}\":1");
        let body = format!("{{{}}}", (0..50_000).map(entry).collect::<Vec<_>>().join(","));
        let (value, found) = json(body.as_bytes()).expect("JSON");
        assert_eq!((value.as_object().map(Map::len), found.len()), (Some(50_000), FINDINGS_MAX));
    }

    #[test]
    fn numbers_keep_their_kind() {
        let (value, _) = json(b"[1, 1.0, 9223372036854775807, 9223372036854775808, -1]").expect("fine");
        assert_eq!(value, json!([1, 1.0, i64::MAX, 9_223_372_036_854_775_808.0, -1]));
    }

    #[test]
    fn strict_clients_hear_everything() {
        let findings = Findings { unknown: vec!["spec.foo".into()], duplicate: vec!["spec.a".into()] };
        assert_eq!(
            findings.refuse("Machine", "v1beta2").message,
            "Machine in version \"v1beta2\" cannot be handled as a Machine: strict decoding error: unknown field \
             \"spec.foo\", duplicate field \"spec.a\""
        );
        let failure = findings.refuse_patch("g", "Machine", "m", &json!({"spec": {}}));
        assert_eq!((failure.code(), failure.details.causes[0].field.as_str()), (422, "patch"));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(body in "[\\[\\]{}\":,a-b0-9.eE+ -]{0,40}") {
            let ours = json(body.as_bytes()).map(|(value, _)| value);
            prop_assert_eq!(ours.is_ok(), serde_json::from_str::<Value>(&body).is_ok());
        }
    }
}
