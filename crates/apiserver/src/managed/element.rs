//! One step of a path through an object. Owns the order of steps and their two spellings: the keys of
//! `FieldsV1` and the text of conflicts. Must not know schemas.
//!
//! Source: structured-merge-diff v6 `fieldpath/{element,serialize-pe}.go`, `value/value.go`.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

use k8s_machinery::validation::cause::cut;

/// A step. Variants are declared in their canonical order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A key of a map.
    Field(Box<str>),
    /// The item of a list whose key fields, sorted by name, have these values.
    Keys(Vec<(Box<str>, Scalar)>),
    /// The item of a set.
    Value(Scalar),
    /// The item of a list by position. Read, never made.
    Index(i64),
}

/// A value that can tell items of a list apart. Numbers are equal when they count the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scalar {
    Number(Numeric),
    Text(Box<str>),
    Bool(bool),
    Null,
}

#[derive(Clone, Debug)]
pub struct Numeric(Number);

impl Ord for Numeric {
    fn cmp(&self, other: &Self) -> Ordering {
        // Integers are compared as such: as floats, large ones would be equal.
        match (self.0.as_i64(), other.0.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => {
                let float = |number: &Number| number.as_f64().unwrap_or_default();
                float(&self.0).total_cmp(&float(&other.0))
            }
        }
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl Scalar {
    /// `None` for lists and maps.
    pub fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Number(number) => Self::Number(Numeric(number.clone())),
            Value::String(text) => Self::Text(text.as_str().into()),
            Value::Array(_) | Value::Object(_) => return None,
        })
    }
}

/// As JSON, which is also how Go's `%q` and `%v` print what is met in practice.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(Numeric(number)) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{}", Quoted(text)),
            Self::Bool(flag) => write!(f, "{flag}"),
            Self::Null => f.write_str("null"),
        }
    }
}

/// A text as a JSON string.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self.0).map_err(|_| fmt::Error)?)
    }
}

impl Element {
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// From a key of `FieldsV1`; `Ok(None)` for a type of step that a later version may know.
    ///
    /// # Errors
    /// What is wrong with a key that is not `T:CONTENT` with content fit for its type.
    pub fn parse(key: &str) -> Result<Option<Self>, String> {
        let broken = || format!("the path element {key:?} cannot be read");
        let (kind, content) = key.split_at_checked(2).ok_or_else(broken)?;
        Ok(Some(match kind {
            "f:" => Self::field(content),
            "i:" => Self::Index(content.parse().map_err(|_| broken())?),
            "v:" => {
                let value = serde_json::from_str(content).map_err(|_| broken())?;
                Self::Value(Scalar::of(&value).ok_or_else(broken)?)
            }
            "k:" => {
                let Ok(Value::Object(fields)) = serde_json::from_str(content) else { return Err(broken()) };
                // serde_json keeps maps sorted by key, as the variant demands.
                let keys =
                    fields.iter().map(|(name, value)| Some((name.as_str().into(), Scalar::of(value)?)));
                Self::Keys(keys.collect::<Option<_>>().ok_or_else(broken)?)
            }
            _ if kind.ends_with(':') => return Ok(None),
            _ => return Err(broken()),
        }))
    }

    /// The key of `FieldsV1`, before it is quoted.
    pub fn key(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Keys(keys) => {
                let fields: Vec<String> =
                    keys.iter().map(|(name, value)| format!("{}:{value}", Quoted(name))).collect();
                format!("k:{{{}}}", fields.join(","))
            }
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

/// As paths in conflicts: `.spec`, `[type="Ready"]`, `[="a"]`, `[3]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{}", cut(name)),
            Self::Keys(keys) => {
                let texts: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", texts.join(","))
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings() {
        for (key, text) in [
            ("f:spec", ".spec"),
            ("f:a.b/c:d", ".a.b/c:d"),
            ("f:", "."),
            ("k:{\"port\":80,\"protocol\":\"TCP\"}", "[port=80,protocol=\"TCP\"]"),
            ("v:\"a.b/c\"", "[=\"a.b/c\"]"),
            ("v:1.5", "[=1.5]"),
            ("v:true", "[=true]"),
            ("v:null", "[=null]"),
            ("i:3", "[3]"),
        ] {
            let element = Element::parse(key).unwrap().unwrap();
            assert_eq!((element.key().as_str(), element.to_string().as_str()), (key, text));
        }
        assert_eq!(Element::parse("x:later"), Ok(None));
        for broken in ["", "f", "spec", "k:[]", "k:{\"a\":[]}", "v:", "v:{}", "v:1 2", "i:x", "é"] {
            assert!(Element::parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn steps_have_one_order() {
        let keys = [
            "f:a",
            "f:b",
            "k:{\"a\":1}",
            "k:{\"a\":1,\"b\":0}",
            "k:{\"a\":2}",
            "k:{\"b\":1}",
            "v:1",
            "v:1.5",
            "v:2",
            "v:10",
            "v:\"1\"",
            "v:\"a\"",
            "v:false",
            "v:true",
            "v:null",
            "i:1",
            "i:2",
        ];
        let elements: Vec<Element> = keys.iter().map(|key| Element::parse(key).unwrap().unwrap()).collect();
        assert!(elements.is_sorted(), "{elements:?}");
        assert_eq!(Element::parse("v:1"), Element::parse("v:1.0"));
    }
}
