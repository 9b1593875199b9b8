//! What a person takes out of an object: a path as kubectl reads it, such as `.spec.taints[*].key`. Owns where in the typed text an error is,
//! and how much is found. Must not know objects.

use serde_json::Value;

use k8s_machinery::json_path::{JsonPath, Visits};

/// Values that one path finds at most.
const FOUND_MAX: usize = 64;
/// Values that one path looks at in one object.
const VISITS_MAX: usize = 100_000;

/// A path that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    /// As it was typed.
    text: String,
    path: JsonPath,
}

/// What cannot be understood, and where it is, in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    pub at: usize,
    pub length: usize,
    pub why: String,
}

impl FieldPath {
    /// Braces around it and the first point may be left out, as for kubectl.
    ///
    /// # Errors
    /// The part that cannot be understood, and what was expected.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.trim().is_empty() {
            let why = "a path such as .spec.version is expected".to_owned();
            return Err(PathError { at: 0, length: text.chars().count().max(1), why });
        }
        let path = JsonPath::parse_relaxed(text).map_err(|error| PathError {
            at: text.get(..error.at).map_or(0, |before| before.chars().count()),
            length: 1,
            why: error.why.to_owned(),
        })?;
        Ok(Self { text: text.to_owned(), path })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The values that it finds, in their order; none where it would have to look at too many.
    pub fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        let found = self.path.all(object, &mut Visits(VISITS_MAX)).unwrap_or_default();
        found.into_iter().filter(|value| !value.is_null()).take(FOUND_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_found_and_nothing_is_not_a_value() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "x", "plain": "y"}, "name": "n"},
            "spec": {"taints": [{"key": "k1", "value": 1}, {"key": "k2", "value": 2}], "none": null},
        });
        for (path, expected) in [
            ("metadata.name", vec![json!("n")]),
            (".metadata.labels.a\\.b/c", vec![json!("x")]),
            (".metadata.labels['a.b/c']", vec![json!("x")]),
            (".metadata.labels.*", vec![json!("x"), json!("y")]),
            (".spec.taints[-7].key", vec![]),
            (".spec.none", vec![]),
            (".spec.taints[?(@.value==2)].key", vec![json!("k2")]),
            // Texts and numbers are not compared, as kubectl does not.
            (".spec.taints[?(@.value==\"2\")].key", vec![]),
            (".nothing.at[0].all", vec![]),
        ] {
            let parsed = FieldPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error:?}"));
            assert_eq!(parsed.find(&object).into_iter().cloned().collect::<Vec<_>>(), expected, "{path}");
        }
        let many = json!({"a": vec![1; 1_000]});
        assert_eq!(FieldPath::parse(".a[*]").expect("a path").find(&many).len(), FOUND_MAX);
    }

    #[test]
    fn what_cannot_be_understood_is_shown_where_it_stands() {
        for (path, at, length, why) in [
            ("", 0, 1, "a path such as .spec.version is expected"),
            ("   ", 0, 3, "a path such as .spec.version is expected"),
            (".spec[", 6, 1, "an index, a quoted name or * is missing"),
            (".spec[0", 7, 1, "a closing ] is missing"),
            (".c[?(@.type=Ready)]", 11, 1, "a closing )] is missing"),
            (".spec name", 5, 1, "unexpected text"),
            ("spec.\u{e9}\u{fc}[x", 8, 1, "an index, a quoted name or * is missing"),
        ] {
            let error = FieldPath::parse(path).expect_err(path);
            assert_eq!((error.at, error.length, error.why.as_str()), (at, length, why), "{path}");
        }
    }

    #[test]
    fn any_text_is_a_path_or_an_error_within_it() {
        for text in [
            "{",
            "}",
            "{}",
            "[",
            "\\",
            ".\\",
            "[?",
            "[?(@",
            "[?(@.a==\"b\"",
            "\u{e9}[\u{fc}]",
            "[-]",
            "..",
            "$",
        ] {
            if let Err(error) = FieldPath::parse(text) {
                assert!(error.at <= text.chars().count(), "{text}: {error:?}");
            }
        }
    }
}
