//! Label selectors: their grammar, upstream's complaints about it, and matching over a light view (a function
//! from key to value). Must not know how objects are kept.
//!
//! Source: apimachinery `pkg/labels/selector.go`, v0.35.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::failure::Failure;
use k8s_machinery::validation::naming;

/// A parsed `labelSelector`. The empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<LabelRequirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelRequirement {
    key: String,
    test: LabelTest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelTest {
    In(BTreeSet<String>),
    /// Also true of an object that has no such label.
    NotIn(BTreeSet<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

impl LabelSelector {
    /// From the text of the query parameter.
    ///
    /// # Errors
    /// 400 with upstream's sentence.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let mut parser = LabelParser { tokens: scan(text), at: 0 };
        parser.selector().map(Self).map_err(Failure::bad_request)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Does an object with these labels match? `label` looks one up.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| requirement.test.holds(label(&requirement.key)))
    }
}

impl LabelTest {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|v| values.contains(v)),
            Self::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            // As upstream, a value that is not a number is neither above nor below.
            Self::Above(bound) => number().is_some_and(|n| n > *bound),
            Self::Below(bound) => number().is_some_and(|n| n < *bound),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// A key, a value, or the words `in` and `notin`, which only an operator position reads as such.
    Word(String),
    Symbol(&'static str),
    Wrong(String),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(text) | Self::Wrong(text) => text,
            Self::Symbol(text) => text,
            Self::End => "",
        }
    }
}

/// Longest first, so that `==` is not read as two `=`.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn scan(text: &str) -> Vec<Token> {
    let is_symbol = |c: char| "=!(),><".contains(c);
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let length = if is_symbol(first) {
            // Each of these characters is a symbol by itself, so one is found.
            let symbol = SYMBOLS.iter().find(|s| rest.starts_with(**s)).copied().unwrap_or("=");
            tokens.push(Token::Symbol(symbol));
            symbol.len()
        } else {
            let end = rest.find(|c| is_symbol(c) || is_space(c)).unwrap_or(rest.len());
            let word = &rest[..end];
            // Upstream's scanner stops at a NUL byte as at the end of the text.
            tokens.push(if word.contains('\0') {
                Token::Wrong(word.to_owned())
            } else {
                Token::Word(word.to_owned())
            });
            end
        };
        rest = rest[length..].trim_start_matches(is_space);
    }
    tokens.push(Token::End);
    tokens
}

struct LabelParser {
    tokens: Vec<Token>,
    at: usize,
}

impl LabelParser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
                Token::Word(_) | Token::Symbol("!") => {}
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
            let requirement = self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?;
            requirements.push(requirement);
            match self.take() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => match self.peek() {
                    Token::Word(_) | Token::Symbol("!") => {}
                    other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
                },
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let absent = *self.peek() == Token::Symbol("!");
        if absent {
            self.take();
        }
        let key = match self.take() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        complain("<nil>", &key, &naming::qualified_name(&key))?;
        let ends = matches!(self.peek(), Token::End | Token::Symbol(","));
        let test = match (absent, ends) {
            (true, _) => LabelTest::Absent,
            (false, true) => LabelTest::Exists,
            (false, false) => self.comparison(&key)?,
        };
        Ok(LabelRequirement { key, test })
    }

    fn comparison(&mut self, key: &str) -> Result<LabelTest, String> {
        let operator = self.take();
        match operator.text() {
            "in" => Ok(LabelTest::In(self.values(key)?.into_iter().collect())),
            "notin" => Ok(LabelTest::NotIn(self.values(key)?.into_iter().collect())),
            "=" | "==" => Ok(LabelTest::In(BTreeSet::from([self.value(key)?]))),
            "!=" => Ok(LabelTest::NotIn(BTreeSet::from([self.value(key)?]))),
            ">" | "gt" => Ok(LabelTest::Above(integer(&self.value(key)?)?)),
            "<" | "lt" => Ok(LabelTest::Below(integer(&self.value(key)?)?)),
            other => Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn value(&mut self, key: &str) -> Result<String, String> {
        // `a=` asks for the empty value, as upstream.
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        match self.take() {
            Token::Word(value) => {
                complain(&format!("values[0][{key}]"), &value, &naming::label_value(&value))?;
                Ok(value)
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// `(a, b)`; commas with nothing between them stand for the empty value.
    fn values(&mut self, key: &str) -> Result<Vec<String>, String> {
        match self.take() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            let value = match self.peek() {
                Token::Word(word) => word.clone(),
                Token::Symbol("," | ")") => String::new(),
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
            };
            if matches!(self.peek(), Token::Word(_)) {
                self.take();
            }
            complain(&format!("values[{}][{key}]", values.len()), &value, &naming::label_value(&value))?;
            values.push(value);
            match self.take() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
    }
}

fn complain(path: &str, value: &str, complaints: &[String]) -> Result<(), String> {
    if complaints.is_empty() {
        return Ok(());
    }
    Err(format!("{path}: Invalid value: {}: {}", Value::from(value), complaints.join("; ")))
}

fn integer(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| {
        format!(
            "values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
            Value::from(text)
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn label_selectors_match() {
        let labels = json!({"a": "1", "b": "x", "e": "", "p.io/q": "z"});
        for (selector, expected) in [
            ("", true),
            ("a=1", true),
            ("a==1,b=x", true),
            (" a = 1 , b != y ", true),
            ("a!=1", false),
            ("c!=1", true),
            ("b in (x,y)", true),
            ("b in (y)", false),
            ("b notin (y)", true),
            ("c notin (x)", true),
            ("b notin (x)", false),
            ("a", true),
            ("c", false),
            ("!c", true),
            ("! a", false),
            ("e=", true),
            ("e", true),
            ("e in ()", true),
            ("a>0", true),
            ("a<1", false),
            ("a gt 0", true),
            ("b>0", false),
            ("p.io/q=z", true),
            ("in=x", false),
            ("b in (in, x)", true),
        ] {
            let parsed = LabelSelector::parse(selector).expect(selector);
            let found = parsed.matches(|key| labels.get(key).and_then(Value::as_str));
            assert_eq!(found, expected, "{selector}");
        }
    }

    #[test]
    fn label_selectors_complain_as_upstream_does() {
        for (selector, complaint) in [
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a,", "found '', expected: identifier after ','"),
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("a in x", "unable to parse requirement: found 'x' expected: '('"),
            ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value \
                 must be an integer",
            ),
        ] {
            let failure = LabelSelector::parse(selector).expect_err(selector);
            assert_eq!((failure.code(), failure.message.as_str()), (400, complaint), "{selector}");
        }
        let failure = LabelSelector::parse("-a=b").expect_err("a bad key");
        assert!(
            failure
                .message
                .starts_with("unable to parse requirement: <nil>: Invalid value: \"-a\": name part")
        );
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in "[a-c =!(),<>\\\\äé\u{0}.]{0,24}") {
            let _ = LabelSelector::parse(&text).map(|s| s.matches(|_| Some("a")));
        }

        #[test]
        fn a_single_requirement_means_what_it_says(key in "[a-c]", value in "[a-c]{0,2}", actual in "[a-c]{0,2}") {
            let equal = LabelSelector::parse(&format!("{key}={value}")).expect("valid");
            let different = LabelSelector::parse(&format!("{key}!={value}")).expect("valid");
            prop_assert_eq!(equal.matches(|_| Some(actual.as_str())), actual == value);
            prop_assert_eq!(different.matches(|_| Some(actual.as_str())), actual != value);
        }
    }
}
