//! Labels or annotations to set and to take away, as people type them: `KEY=VALUE` and `KEY-`. Owns this form and the patch; whether a
//! key or a value is allowed is the server's to say.

use std::fmt;

use serde_json::{Map, Value, json};

use capi_types::host::annotation::PREFIX;

/// A word, for people.
pub const WORDS: &str = "KEY=VALUE";

/// What is set, and without a value taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataChange(Vec<(String, Option<String>)>);

impl MetadataChange {
    /// Reads words with blanks between them; double quotes hold a word with blanks together.
    ///
    /// # Errors
    /// Which word is not understood.
    pub fn parse(line: &str) -> Result<Self, String> {
        let mut entries: Vec<(String, Option<String>)> = Vec::new();
        for word in words(line)? {
            let (key, value) = match (word.split_once('='), word.strip_suffix('-')) {
                (Some((key, value)), _) => (key.to_owned(), Some(value.to_owned())),
                (None, Some(key)) => (key.to_owned(), None),
                (None, None) => return Err(not_understood(&word)),
            };
            if key.is_empty() {
                return Err(not_understood(&word));
            }
            if entries.iter().any(|(other, _)| *other == key) {
                return Err(format!("`{key}` is there twice"));
            }
            entries.push((key, value));
        }
        Ok(Self(entries))
    }

    /// The merge patch that sets them in this map of the metadata.
    pub fn patch(&self, map: &str) -> Value {
        let entries: Map<String, Value> =
            self.0.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        json!({"metadata": {map: entries}})
    }

    /// One of them has a machine reset, taken from its owner, or let go.
    pub fn is_about_hosts(&self) -> bool {
        self.0.iter().any(|(key, _)| key.starts_with(PREFIX))
    }

    /// Controllers of Cluster API act on one of them.
    pub fn is_read_by_controllers(&self) -> bool {
        self.0
            .iter()
            .any(|(key, _)| key.split('/').next().is_some_and(|domain| domain.ends_with("cluster.x-k8s.io")))
    }
}

impl fmt::Display for MetadataChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (key, value)) in self.0.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { " " })?;
            match value {
                Some(value) => write!(f, "{key}={value}")?,
                None => write!(f, "{key}-")?,
            }
        }
        Ok(())
    }
}

/// A word as [`MetadataChange::parse`] reads it back whole.
pub fn quoted(word: &str) -> String {
    if word.contains(|c: char| c.is_whitespace() || c == '"' || c == '\\') {
        format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        word.to_owned()
    }
}

fn not_understood(word: &str) -> String {
    format!("`{word}` is neither KEY=VALUE nor KEY-; double quotes hold a value with blanks together")
}

fn words(line: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut is_quoted = false;
    let mut letters = line.chars();
    while let Some(c) = letters.next() {
        match c {
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            '\\' if is_quoted => word.get_or_insert_default().extend(letters.next()),
            c if c.is_whitespace() && !is_quoted => found.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    found.extend(word);
    if is_quoted { Err("a double quote is missing at the end".to_owned()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_or_answered_with_what_to_write() {
        for (line, expected) in [
            ("a=b", Ok(json!({"a": "b"}))),
            ("a=b c- example.com/d=", Ok(json!({"a": "b", "c": null, "example.com/d": ""}))),
            ("note=\"two words\" b=x=y", Ok(json!({"note": "two words", "b": "x=y"}))),
            (r#""note=say \"no\"""#, Ok(json!({"note": "say \"no\""}))),
            ("a-=b-", Ok(json!({"a-": "b-"}))),
            ("a", Err(not_understood("a"))),
            ("=b", Err(not_understood("=b"))),
            ("-", Err(not_understood("-"))),
            ("a=b a-", Err("`a` is there twice".to_owned())),
            ("a=\"b", Err("a double quote is missing at the end".to_owned())),
        ] {
            let found = MetadataChange::parse(line)
                .map(|change| change.patch("labels")["metadata"]["labels"].clone());
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn a_word_of_a_shell_comes_back_whole() {
        for word in ["a=b", "a=two words", "a=\"\\", "a=\t"] {
            assert_eq!(words(&quoted(word)), Ok(vec![word.to_owned()]));
        }
    }

    #[test]
    fn what_controllers_read_is_told_apart() {
        for (line, expected) in [
            ("tier=gold", false),
            ("example.com/cluster.x-k8s.io=a", false),
            ("cluster.x-k8s.io/paused=true", true),
            ("controlplane.cluster.x-k8s.io/skip-coredns-", true),
        ] {
            let change = MetadataChange::parse(line).expect(line);
            assert_eq!(change.is_read_by_controllers(), expected, "{line}");
        }
    }
}
