//! What a machine answered: values by name. Must not know which names there are.

use std::collections::BTreeMap;

/// Values by name, in the order of the answer.
#[derive(Debug, Default)]
pub(super) struct Answered(BTreeMap<String, Vec<String>>);

impl Answered {
    pub fn add(&mut self, name: &str, value: String) {
        self.0.entry(name.to_owned()).or_default().push(value);
    }

    pub fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    pub fn one(&self, name: &str) -> Option<&str> {
        self.all(name).first().map(String::as_str).filter(|value| !value.is_empty())
    }

    pub fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.one(name)?.parse().ok()
    }
}
