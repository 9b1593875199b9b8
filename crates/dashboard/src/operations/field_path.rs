//! What a person takes out of an object: a path in the form of JSONPath that kubectl reads, such as `.spec.taints[*].key`. Owns how it is written and
//! what it finds. Must not know objects.
//!
//! Source: the JSONPath of kubectl (`k8s.io/client-go/util/jsonpath`), of which this is the part that takes values out: names, `['a.b']`, numbers, `*`,
//! and items that have a value: `[?(@.type=="Ready")]`.

use serde_json::Value;

/// Values that one path finds at most.
const FOUND_MAX: usize = 64;

/// A path that was understood.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldPath {
    /// As it was typed.
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Name(String),
    /// From the end where it is negative.
    Item(i64),
    All,
    /// Items with this text at this path.
    With(Vec<Step>, String),
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
        let chars: Vec<char> = text.chars().collect();
        let is_braced = chars.first() == Some(&'{') && chars.last() == Some(&'}') && chars.len() > 1;
        let (start, end) = if is_braced { (1, chars.len() - 1) } else { (0, chars.len()) };
        let mut reader = Reader { chars: &chars[..end], at: start };
        // kubectl's `$` is the object itself.
        reader.skip('$');
        let is_bare = reader.peek().is_some_and(|c| c != '.' && c != '[');
        let mut steps = Vec::new();
        if is_bare {
            steps.push(reader.name()?);
        }
        steps.extend(reader.steps()?);
        match reader.peek() {
            Some(c) => Err(reader.error(1, &format!("`{c}`: a point or `[` is expected"))),
            None if steps.is_empty() => Err(PathError {
                at: 0,
                length: chars.len().max(1),
                why: "a path such as .spec.version is expected".to_owned(),
            }),
            None => Ok(Self { text: text.to_owned(), steps }),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The values that it finds, in their order.
    pub fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        found(&self.steps, object)
    }
}

fn found<'a>(steps: &[Step], object: &'a Value) -> Vec<&'a Value> {
    let mut values = vec![object];
    for step in steps {
        let next = values.into_iter().flat_map(|value| step.of(value));
        values = next.filter(|value| !value.is_null()).take(FOUND_MAX).collect();
    }
    values
}

impl Step {
    fn of<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Name(name), Value::Object(fields)) => fields.get(name).into_iter().collect(),
            (Self::Item(at), Value::Array(items)) => {
                let from_end = usize::try_from(at.unsigned_abs()).ok();
                let place =
                    if *at < 0 { from_end.and_then(|n| items.len().checked_sub(n)) } else { from_end };
                place.and_then(|place| items.get(place)).into_iter().collect()
            }
            (Self::All, Value::Array(items)) => items.iter().collect(),
            (Self::All, Value::Object(fields)) => fields.values().collect(),
            (Self::With(path, wanted), Value::Array(items)) => {
                let is_it = |value: &Value| {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    text == *wanted
                };
                items.iter().filter(|item| found(path, item).into_iter().any(is_it)).collect()
            }
            _ => Vec::new(),
        }
    }
}

struct Reader<'a> {
    chars: &'a [char],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn skip(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn error(&self, length: usize, why: &str) -> PathError {
        PathError { at: self.at, length, why: why.to_owned() }
    }

    fn steps(&mut self) -> Result<Vec<Step>, PathError> {
        let mut steps = Vec::new();
        loop {
            if self.skip('[') {
                steps.push(self.bracket()?);
            } else if self.skip('.') {
                // `.items.[0]` is written as well.
                if self.peek() != Some('[') {
                    steps.push(self.name()?);
                }
            } else {
                return Ok(steps);
            }
        }
    }

    /// A point in a name has a backslash before it.
    fn name(&mut self) -> Result<Step, PathError> {
        let mut name = String::new();
        while let Some(c) = self.peek() {
            let next = self.chars.get(self.at + 1).copied();
            match (c, next) {
                ('\\', Some(escaped)) => {
                    name.push(escaped);
                    self.at += 1;
                }
                _ if c.is_alphanumeric() || matches!(c, '-' | '_' | '/') => name.push(c),
                ('*', _) if name.is_empty() => {
                    self.at += 1;
                    return Ok(Step::All);
                }
                _ => break,
            }
            self.at += 1;
        }
        if name.is_empty() {
            Err(self.error(1, "the name of a field is expected"))
        } else {
            Ok(Step::Name(name))
        }
    }

    fn bracket(&mut self) -> Result<Step, PathError> {
        let step = match self.peek() {
            Some('*') => {
                self.at += 1;
                Step::All
            }
            Some('\'' | '"') => Step::Name(self.quoted()?),
            Some('?') => self.condition()?,
            Some(c) if c == '-' || c.is_ascii_digit() => {
                let begin = self.at;
                self.at += 1;
                while self.peek().is_some_and(|c| c.is_ascii_digit()) {
                    self.at += 1;
                }
                let digits: String = self.chars[begin..self.at].iter().collect();
                let why = format!("`{digits}` is not the number of an item");
                let number =
                    digits.parse().map_err(|_| PathError { at: begin, length: digits.len(), why })?;
                Step::Item(number)
            }
            _ => return Err(self.error(1, "a number, *, 'a name' or ?(@.field==\"text\") is expected")),
        };
        if self.skip(']') { Ok(step) } else { Err(self.error(1, "`]` is expected")) }
    }

    fn quoted(&mut self) -> Result<String, PathError> {
        let Some(quote) = self.peek().filter(|c| matches!(c, '\'' | '"')) else {
            return Err(self.error(1, "a text in quotes is expected"));
        };
        let begin = self.at;
        self.at += 1;
        let Some(length) = self.chars[self.at..].iter().position(|c| *c == quote) else {
            let length = self.chars.len() - begin;
            return Err(PathError { at: begin, length, why: "the quote is not closed".to_owned() });
        };
        let text = self.chars[self.at..self.at + length].iter().collect();
        self.at += length + 1;
        Ok(text)
    }

    /// `?(@.type=="Ready")`.
    fn condition(&mut self) -> Result<Step, PathError> {
        for wanted in "?(@".chars() {
            if !self.skip(wanted) {
                return Err(self.error(1, "?(@.field==\"text\") is expected"));
            }
        }
        let path = self.steps()?;
        self.blanks();
        if !(self.skip('=') && self.skip('=')) {
            return Err(self.error(1, "`==` is expected: values are compared with a text only"));
        }
        self.blanks();
        let wanted = self.quoted()?;
        self.blanks();
        if self.skip(')') { Ok(Step::With(path, wanted)) } else { Err(self.error(1, "`)` is expected")) }
    }

    fn blanks(&mut self) {
        while self.skip(' ') {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_found_as_kubectl_finds_them() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "x", "plain": "y"}, "name": "n"},
            "spec": {"taints": [{"key": "k1", "value": 1}, {"key": "k2", "value": 2}], "none": null},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Up", "status": "False"}]},
        });
        for (path, expected) in [
            (".metadata.name", vec![json!("n")]),
            ("metadata.name", vec![json!("n")]),
            ("{.metadata.name}", vec![json!("n")]),
            ("$.metadata.name", vec![json!("n")]),
            (".metadata.labels.a\\.b/c", vec![json!("x")]),
            (".metadata.labels['a.b/c']", vec![json!("x")]),
            (".metadata.labels.*", vec![json!("x"), json!("y")]),
            (".spec.taints[*].key", vec![json!("k1"), json!("k2")]),
            (".spec.taints[0].value", vec![json!(1)]),
            (".spec.taints[-1].key", vec![json!("k2")]),
            (".spec.taints[7].key", vec![]),
            (".spec.taints[-7].key", vec![]),
            (".spec.none", vec![]),
            (".spec.taints[?(@.value==\"2\")].key", vec![json!("k2")]),
            (".status.conditions[?(@.type == 'Ready')].status", vec![json!("True")]),
            (".nothing.at[0].all", vec![]),
        ] {
            let parsed = FieldPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error:?}"));
            assert_eq!(parsed.find(&object).into_iter().cloned().collect::<Vec<_>>(), expected, "{path}");
        }
    }

    #[test]
    fn what_cannot_be_understood_is_shown_where_it_stands() {
        for (path, at, length, why) in [
            ("", 0, 1, "a path such as .spec.version is expected"),
            (".spec..name", 6, 1, "the name of a field is expected"),
            (".spec[", 6, 1, "a number, *, 'a name' or ?(@.field==\"text\") is expected"),
            (".spec[0", 7, 1, "`]` is expected"),
            (".spec['a]", 6, 3, "the quote is not closed"),
            (".c[?(@.type=Ready)]", 12, 1, "`==` is expected: values are compared with a text only"),
            (".c[?(@.type==Ready)]", 13, 1, "a text in quotes is expected"),
            (".spec name", 5, 1, "` `: a point or `[` is expected"),
            (".spec[99999999999999999999]", 6, 20, "`99999999999999999999` is not the number of an item"),
        ] {
            let error = FieldPath::parse(path).expect_err(path);
            assert_eq!((error.at, error.length, error.why.as_str()), (at, length, why), "{path}");
        }
    }

    #[test]
    fn any_text_is_a_path_or_an_error_within_it() {
        for text in
            ["{", "}", "{}", "[", "\\", ".\\", "[?", "[?(@", "[?(@.a==\"b\"", "é[ü]", "[-]", "..", "$"]
        {
            if let Err(error) = FieldPath::parse(text) {
                assert!(error.at <= text.chars().count(), "{text}: {error:?}");
            }
        }
    }
}
