//! YAML as kubeadm reads it, with places. kubeadm's parser follows YAML 1.1 (`yes` is true, `0644` is 420), most
//! others follow 1.2; every scalar without quotes is therefore resolved here from its own text. Owns both
//! readings and the quoting on the way out; must not know any field.
//!
//! Source: sigs.k8s.io/yaml (a fork of go-yaml v2), `resolve.go`.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// A value with its place in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// 1-based.
    pub line: usize,
    /// 1-based, in characters.
    pub column: usize,
    /// The text of a scalar without quotes.
    pub plain: Option<String>,
    /// What stands there.
    pub shape: YamlShape,
}

/// A value of YAML, its parts with their places.
#[derive(Clone, Debug, PartialEq)]
pub enum YamlShape {
    /// Text, number, truth or null, resolved as kubeadm resolves it.
    Scalar(Value),
    /// In its order.
    List(Vec<Located>),
    /// In its order; a key may stand twice.
    Map(Vec<MapEntry>),
}

/// One entry of a map; a key may stand several times.
#[derive(Clone, Debug, PartialEq)]
pub struct MapEntry {
    /// Usually a text.
    pub key: Located,
    /// With the place where it begins.
    pub value: Located,
}

/// Why a text is not YAML, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: YAML or JSON was expected here: {why}")]
pub struct NotYaml {
    /// 1-based.
    pub line: usize,
    /// 1-based, in characters.
    pub column: usize,
    why: String,
}

/// The documents of a stream; empty ones are left out.
///
/// # Errors
/// The first place that is not YAML.
pub fn read(text: &str) -> Result<Vec<Located>, NotYaml> {
    let options = serde_saphyr::options! {
        budget: None,
        // kubeadm takes the last of equal keys: they are a finding of a check, not an error of reading.
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::PassThrough,
        // Aliases of aliases make gigabytes of a few lines.
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
    };
    // A byte order mark, which some editors write, would become a part of the first key.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let found: Vec<Spanned<Raw>> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| not_yaml(&error))?;
    let located = found.into_iter().map(|raw| locate(text, raw));
    Ok(located.filter(|l| !matches!(l.shape, YamlShape::Scalar(Value::Null))).collect())
}

fn number(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn not_yaml(error: &serde_saphyr::Error) -> NotYaml {
    let (line, column) = error.location().map_or((1, 1), |at| (number(at.line()), number(at.column())));
    // One line of it: the place is said apart, and a snippet would repeat the text.
    let why = error.without_snippet().to_string();
    let why = why.lines().next().unwrap_or_default();
    let why = why.rsplit_once(" at line ").map_or(why, |(why, _)| why).to_owned();
    NotYaml { line, column, why }
}

/// What the parser gives, before scalars are resolved again.
enum Raw {
    Scalar(Value),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<Raw>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a scalar, a list or a map")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut found = Vec::new();
        while let Some(item) = items.next_element()? {
            found.push(item);
        }
        Ok(Raw::List(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut found = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            found.push(entry);
        }
        Ok(Raw::Map(found))
    }
}

fn locate(text: &str, raw: Spanned<Raw>) -> Located {
    // Of an alias, people see the place where it is used; its text is where it is defined.
    let (line, column) = (number(raw.referenced.line()), number(raw.referenced.column()));
    let (plain, shape) = match raw.value {
        Raw::Scalar(value) => match plain_text(text, raw.defined.span()) {
            Some(plain) if !matches!(value, Value::Null) || !plain.is_empty() => {
                (Some(plain), YamlShape::Scalar(resolve(plain)))
            }
            plain => (plain, YamlShape::Scalar(value)),
        },
        Raw::List(items) => {
            (None, YamlShape::List(items.into_iter().map(|item| locate(text, item)).collect()))
        }
        Raw::Map(entries) => {
            let entry = |(key, value)| MapEntry { key: locate(text, key), value: locate(text, value) };
            (None, YamlShape::Map(entries.into_iter().map(entry).collect()))
        }
    };
    Located { line, column, plain: plain.map(str::to_owned), shape }
}

/// The text of a scalar that has neither quotes nor a tag, and is not a block of lines.
fn plain_text(text: &str, span: serde_saphyr::Span) -> Option<&str> {
    let index = |n: u64| usize::try_from(n).ok();
    let from = index(span.byte_offset()?)?;
    let source = text.get(from..from + index(span.byte_len()?)?)?.trim_end_matches([' ', '\t', '\r', '\n']);
    let is_marked = source.starts_with(['"', '\'', '|', '>', '!', '*', '&']) || source.contains('\n');
    (!is_marked && !is_block(&text[..from])).then_some(source)
}

/// Does the line before, with nothing but blanks behind it, end with the sign of a block of lines?
fn is_block(before: &str) -> bool {
    let Some((lines, blanks)) = before.rsplit_once('\n') else { return false };
    let line = lines.rsplit_once('\n').map_or(lines, |(_, line)| line);
    let line = line.split(" #").next().unwrap_or_default().trim_end();
    let sign = line.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'));
    blanks.trim().is_empty() && sign.ends_with(['|', '>'])
}

/// What kubeadm makes of a scalar without quotes.
pub fn resolve(plain: &str) -> Value {
    match plain {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return true.into();
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return false.into();
        }
        _ => {}
    }
    // The first character alone says whether go-yaml tries to read a number.
    if !plain.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return plain.into();
    }
    // go-yaml takes every `_` out before it reads a number, wherever it stands.
    let digits = plain.replace('_', "");
    integer(&digits).or_else(|| float(&digits)).unwrap_or_else(|| plain.into())
}

/// Go's `ParseInt(…, 0, 64)`: a prefix names the base, a leading zero alone means 8.
fn integer(text: &str) -> Option<Value> {
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    // `from_str_radix` takes a sign of its own, and `+-1` is not a number.
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    // i128 holds all numbers of i64 and u64 with their signs.
    let value = i128::from_str_radix(digits, base).ok()?;
    let value = if negative { -value } else { value };
    i64::try_from(value).map(Value::from).or_else(|_| u64::try_from(value).map(Value::from)).ok()
}

fn float(text: &str) -> Option<Value> {
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    // Rust's parser would read `inf` and `nan` as well.
    let allowed = body.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    if !allowed || !body.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    Number::from_f64(value).map(Value::Number)
}

impl Located {
    /// The value as kubeadm reads it. Keys become strings, the last of several equal keys counts.
    pub fn value(&self) -> Value {
        match &self.shape {
            YamlShape::Scalar(value) => value.clone(),
            YamlShape::List(items) => Value::Array(items.iter().map(Self::value).collect()),
            YamlShape::Map(entries) => {
                let mut map = Map::new();
                for entry in entries {
                    map.insert(entry.key.key_text(), entry.value.value());
                }
                Value::Object(map)
            }
        }
    }

    /// A key as JSON has it: kubeadm turns `y:` into `"true":`.
    pub fn key_text(&self) -> String {
        match &self.shape {
            YamlShape::Scalar(Value::String(text)) => text.clone(),
            YamlShape::Scalar(value) => value.to_string(),
            _ => String::new(),
        }
    }

    /// What stands at a key of a map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let YamlShape::Map(entries) = &self.shape else { return None };
        entries.iter().rev().find(|entry| entry.key.key_text() == key).map(|entry| &entry.value)
    }

    /// `None` for anything but a string, also for a number that is written without quotes.
    pub fn text(&self) -> Option<&str> {
        match &self.shape {
            YamlShape::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }
}

/// A document as text. Every string that either dialect would read as something else is quoted.
pub fn write(value: &Value) -> String {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 1_000_000 };
    serde_saphyr::to_string_with_options(value, options)
        .unwrap_or_else(|error| format!("# not printable as YAML: {error}\n"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn one(text: &str) -> Located {
        read(text).expect("YAML").remove(0)
    }

    #[test]
    fn scalars_without_quotes_are_read_as_kubeadm_reads_them() {
        for (plain, expected) in [
            ("yes", json!(true)),
            ("on", json!(true)),
            ("N", json!(false)),
            ("off", json!(false)),
            ("0644", json!(420)),
            ("-010", json!(-8)),
            ("0o17", json!(15)),
            ("0x1F", json!(31)),
            ("1_000", json!(1000)),
            ("08", json!(8.0)),
            ("1e3", json!(1000.0)),
            ("3.5", json!(3.5)),
            ("~", json!(null)),
            ("NULL", json!(null)),
            ("1.31.0", json!("1.31.0")),
            ("10.0.0.0/8", json!("10.0.0.0/8")),
            ("0755x", json!("0755x")),
            ("12:30", json!("12:30")),
            ("-", json!("-")),
            (".", json!(".")),
            ("truey", json!("truey")),
        ] {
            assert_eq!(resolve(plain), expected, "{plain}");
        }
    }

    #[test]
    fn quotes_keep_a_string_and_places_are_known() {
        let document = one(
            "# head\na: yes\nb: 'yes'\nc:\n- |\n  on\n- |- # kept\n  on\n- \"0644\"\n- &x off\n- *x\ny: 1\n",
        );
        assert_eq!(
            document.value(),
            json!({"a": true, "b": "yes", "c": ["on\n", "on", "0644", false, false], "true": 1})
        );
        let a = document.get("a").expect("there");
        assert_eq!((a.line, a.column, a.plain.as_deref()), (2, 4, Some("yes")));
        assert_eq!(document.get("b").expect("there").plain, None);
    }

    #[test]
    fn the_last_of_equal_keys_counts() {
        assert_eq!(one("a: 1\nb: 2\na: 3\n").value(), json!({"a": 3, "b": 2}));
    }

    #[test]
    fn a_text_that_is_not_yaml_is_answered_with_its_place() {
        let error = read("a: 1\n---\nb: [\n").expect_err("not YAML");
        assert_eq!(error.line, 3, "{error}");
        assert!(error.to_string().contains("YAML or JSON was expected here"), "{error}");
        assert_eq!(read("{\"a\": \"b\"}").expect("JSON is YAML")[0].value(), json!({"a": "b"}));
        assert_eq!(read("---\n---\n# nothing\n").expect("empty"), []);
    }

    #[test]
    fn what_is_written_reads_the_same_in_both_dialects() {
        for text in [
            "yes",
            "No",
            "on",
            "y",
            "0644",
            "1e3",
            "null",
            "~",
            "010",
            "a: b",
            "- a",
            "",
            " x",
            "1_0",
            "0x1F",
            "=",
            "2001-01-01",
            "é: ü",
            "#x",
            "x #y",
            "'q'",
            "a\nb",
            "12:30:45",
        ] {
            let written = write(&json!({ "k": text, text: [text] }));
            let read_1_1 = one(&written).value();
            assert_eq!(read_1_1, json!({ "k": text, text: [text] }), "{written}");
            let read_1_2: Value = serde_saphyr::from_str(&written).expect("YAML");
            assert_eq!(read_1_2["k"], json!(text), "{written}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_written_reads_back(keys in proptest::collection::vec("[a-zA-Z0-9._~:#' -]{1,8}", 1..5), values in proptest::collection::vec("\\PC{0,12}", 5)) {
            let map: Map<String, Value> = keys.into_iter().zip(values.into_iter().map(Value::from)).collect();
            let value = Value::Object(map);
            prop_assert_eq!(one(&write(&value)).value(), value);
        }
    }
}
