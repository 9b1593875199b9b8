//! Values of YAML by key, each refused by the path of its key. Must not know which keys there are.

use serde_json::{Map, Value};

use super::refusal::{DataRefusal, shown};

/// A map and where it stands.
pub(super) struct Section<'v> {
    pub path: String,
    map: &'v Map<String, Value>,
}

impl<'v> Section<'v> {
    /// # Errors
    /// It is no map, or has a key that is not one of `keys`.
    pub fn of(path: String, value: &'v Value, keys: &[&str]) -> Result<Self, DataRefusal> {
        let map = value.as_object().ok_or_else(|| DataRefusal::value(path.clone(), "a map"))?;
        let section = Self { path, map };
        match map.keys().find(|key| !keys.contains(&key.as_str())) {
            Some(key) => Err(DataRefusal::unknown(section.at(key))),
            None => Ok(section),
        }
    }

    pub fn at(&self, key: &str) -> String {
        if self.path.is_empty() { shown(key) } else { format!("{}.{}", self.path, shown(key)) }
    }

    /// What is there and not null.
    pub fn get(&self, key: &str) -> Option<&'v Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// # Errors
    /// It is no text.
    pub fn text(&self, key: &str) -> Result<Option<&'v str>, DataRefusal> {
        let text =
            |value: &'v Value| value.as_str().ok_or_else(|| DataRefusal::value(self.at(key), "a text"));
        self.get(key).map(text).transpose()
    }

    /// # Errors
    /// It is neither true nor false.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, DataRefusal> {
        let flag =
            |value: &Value| value.as_bool().ok_or_else(|| DataRefusal::value(self.at(key), "true or false"));
        self.get(key).map(flag).transpose()
    }

    /// The entries of a list with their paths; none where the key is not there.
    ///
    /// # Errors
    /// It is no list.
    pub fn list(&self, key: &str) -> Result<Vec<(String, &'v Value)>, DataRefusal> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let list = value.as_array().ok_or_else(|| DataRefusal::value(self.at(key), "a list"))?;
        let path = self.at(key);
        Ok(list.iter().enumerate().map(|(at, value)| (format!("{path}[{at}]"), value)).collect())
    }

    /// Words, each one text of a list or all of them one text with `separator` between them.
    ///
    /// # Errors
    /// It is neither.
    pub fn words(&self, key: &str, separator: Option<char>) -> Result<Vec<String>, DataRefusal> {
        match (self.get(key), separator) {
            (Some(Value::String(text)), Some(separator)) => Ok(text
                .split(separator)
                .map(|word| word.trim().to_owned())
                .filter(|word| !word.is_empty())
                .collect()),
            (Some(Value::String(text)), None) => Ok(vec![text.clone()]),
            _ => self.list(key)?.into_iter().map(|(path, value)| scalar(path, value)).collect(),
        }
    }
}

/// A text, a number or a truth value as a word.
pub(super) fn scalar(path: String, value: &Value) -> Result<String, DataRefusal> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        _ => Err(DataRefusal::value(path, "a text")),
    }
}
