//! The JSONPath of printer columns and of kubectl: parse once, evaluate often. Must not know columns.
//!
//! Source: client-go `util/jsonpath/{parser,jsonpath}.go`, v0.36. Missing keys give no result.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

/// Filters one in the other; each is a level of recursion.
const FILTERS_MAX: usize = 16;

/// A parsed path such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(i64),
    /// Start, end, stride; as in Go slices, negative counts from the end.
    Slice(Option<i64>, Option<i64>, i64),
    All,
    Descend,
    Union(Vec<Step>),
    Filter(Operand, Option<(Comparison, Operand)>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operand {
    /// Relative to the item (`@.type`).
    Path(Vec<Step>),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Different,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// In the order in which they are looked for: `<` is the beginning of `<=`.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::Different),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// What is wrong with a path, at which byte of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPathError {
    pub at: usize,
    pub why: &'static str,
}

impl fmt::Display for JsonPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.why, self.at)
    }
}

impl std::error::Error for JsonPathError {}

impl JsonPath {
    /// With or without braces around it.
    ///
    /// # Errors
    /// What is wrong, at which byte.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        Self::parse_from(text, false)
    }

    /// As kubectl takes the path of a column, which may leave out the first dot as well.
    /// Source: kubectl `pkg/cmd/get/customcolumn.go` `RelaxedJSONPathExpression`, v0.36.
    ///
    /// # Errors
    /// What is wrong, at which byte.
    pub fn parse_relaxed(text: &str) -> Result<Self, JsonPathError> {
        Self::parse_from(text, true)
    }

    fn parse_from(text: &str, is_relaxed: bool) -> Result<Self, JsonPathError> {
        let trimmed = text.trim();
        let inner = trimmed.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(trimmed);
        // A brace before it is an only byte.
        let begin = text.len() - text.trim_start().len() + usize::from(inner.len() < trimmed.len());
        let path = inner.strip_prefix('$').unwrap_or(inner);
        let begin = begin + inner.len() - path.len();
        let mut parser = Parser { text: path, at: 0, filters: 0 };
        let mut steps = Vec::new();
        let parsed = if path.starts_with(['.', '[']) {
            parser.steps(&mut steps)
        } else if is_relaxed {
            parser.field(&mut steps).and_then(|()| parser.steps(&mut steps))
        } else {
            parser.wrong("must start with a dot")
        };
        parsed.map_err(|error| JsonPathError { at: begin + error.at, ..error })?;
        Ok(Self(steps))
    }

    /// All results. None as well when a filter cannot be applied.
    ///
    /// # Errors
    /// [`TooMany`] values would have to be looked at.
    pub fn all<'a>(&self, root: &'a Value, visits: &mut Visits) -> Result<Vec<&'a Value>, TooMany> {
        match results(&self.0, root, visits) {
            Ok(found) => Ok(found),
            Err(Stop::Unfit) => Ok(Vec::new()),
            Err(Stop::TooMany) => Err(TooMany),
        }
    }

    /// The first result. None as well when a filter cannot be applied: to what is not a list, or to values that
    /// cannot be compared.
    ///
    /// # Errors
    /// [`TooMany`] values would have to be looked at.
    pub fn first<'a>(&self, root: &'a Value, visits: &mut Visits) -> Result<Option<&'a Value>, TooMany> {
        // Upstream takes the first result, too, however many a path has.
        self.all(root, visits).map(|found| found.into_iter().next())
    }

    /// The plain fields at the start of the path: no other part of an object matters to it.
    pub fn leading_fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map_while(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            _ => None,
        })
    }
}

/// Values that paths may still look at. `..a..a` meets the same values again and again.
#[derive(Debug, PartialEq, Eq)]
pub struct Visits(pub usize);

/// A path was given up: it looks at too many values.
#[derive(Debug, PartialEq, Eq)]
pub struct TooMany;

impl Visits {
    fn take(&mut self, count: usize) -> Result<(), Stop> {
        let left = self.0.checked_sub(count);
        self.0 = left.unwrap_or(0);
        left.map(|_| ()).ok_or(Stop::TooMany)
    }
}

/// Why there are no results.
enum Stop {
    /// A filter cannot be applied, which spoils all of the path.
    Unfit,
    TooMany,
}

type Found<'a> = Result<Vec<&'a Value>, Stop>;

fn results<'a>(steps: &[Step], root: &'a Value, visits: &mut Visits) -> Found<'a> {
    steps.iter().try_fold(vec![root], |found, step| step.apply_all(found, visits))
}

impl Step {
    fn apply_all<'a>(&self, found: Vec<&'a Value>, visits: &mut Visits) -> Found<'a> {
        let mut next = Vec::new();
        for at in found {
            next.extend(self.apply(at, visits)?);
        }
        Ok(next)
    }

    fn apply<'a>(&self, at: &'a Value, visits: &mut Visits) -> Found<'a> {
        visits.take(1)?;
        Ok(match self {
            Self::Field(name) => at.get(name).into_iter().collect(),
            Self::Index(index) => at
                .as_array()
                .and_then(|items| items.get(position(*index, items.len())?))
                .into_iter()
                .collect(),
            Self::Slice(start, end, stride) => slice(at, *start, *end, *stride),
            Self::All => children(at),
            Self::Descend => {
                let mut all = vec![at];
                let mut next = 0;
                while let Some(value) = all.get(next).copied() {
                    let below = children(value);
                    visits.take(below.len())?;
                    all.extend(below);
                    next += 1;
                }
                all
            }
            Self::Union(steps) => {
                let mut all = Vec::new();
                for step in steps {
                    all.extend(step.apply(at, visits)?);
                }
                all
            }
            Self::Filter(left, test) => {
                let mut kept = Vec::new();
                // Upstream ends the whole path with an error here, and leaves the cell empty.
                for item in at.as_array().ok_or(Stop::Unfit)? {
                    if passes(item, left, test.as_ref(), visits)? {
                        kept.push(item);
                    }
                }
                kept
            }
        })
    }
}

/// Unfit: the two values cannot be compared. An item without the field is passed over.
fn passes(
    item: &Value,
    left: &Operand,
    test: Option<&(Comparison, Operand)>,
    visits: &mut Visits,
) -> Result<bool, Stop> {
    let found = left.values(item, visits);
    let Some((comparison, right)) = test else {
        return match found {
            Err(Stop::TooMany) => Err(Stop::TooMany),
            found => Ok(found.is_ok_and(|found| !found.is_empty())),
        };
    };
    match (found?.as_slice(), right.values(item, visits)?.as_slice()) {
        ([], _) | (_, []) => Ok(false),
        ([left], [right]) => comparison.holds(left, right).ok_or(Stop::Unfit),
        // Upstream compares one value with one value, and fails when there are more.
        _ => Err(Stop::Unfit),
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn position(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index.checked_add(length)? } else { index }).ok()
}

fn slice(at: &Value, start: Option<i64>, end: Option<i64>, stride: i64) -> Vec<&Value> {
    let Some(items) = at.as_array() else { return Vec::new() };
    let bound = |index: i64| position(index, items.len()).unwrap_or(0).min(items.len());
    let (start, end) = (bound(start.unwrap_or(0)), end.map_or(items.len(), bound));
    let stride = usize::try_from(stride).unwrap_or(1).max(1);
    items.get(start..end).unwrap_or_default().iter().step_by(stride).collect()
}

impl Operand {
    fn values<'a>(&'a self, item: &'a Value, visits: &mut Visits) -> Found<'a> {
        match self {
            Self::Path(steps) => results(steps, item, visits),
            Self::Literal(value) => Ok(vec![value]),
        }
    }
}

impl Comparison {
    /// `None` for values of different kinds, and for those that have no order.
    /// Source: client-go `third_party/forked/golang/template/funcs.go`, v0.36.
    fn holds(self, left: &Value, right: &Value) -> Option<bool> {
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() => {
                // As floats, large integers that differ would be equal.
                match (a.as_i64(), b.as_i64()) {
                    (Some(a), Some(b)) => Some(a.cmp(&b)),
                    _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
                }
            }
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) if matches!(self, Self::Equal | Self::Different) => {
                Some(a.cmp(b))
            }
            _ => return None,
        };
        Some(match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::Different => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        })
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// That are open, one in the other.
    filters: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn wrong<T>(&self, why: &'static str) -> Result<T, JsonPathError> {
        Err(JsonPathError { at: self.at, why })
    }

    fn steps(&mut self, steps: &mut Vec<Step>) -> Result<(), JsonPathError> {
        while !self.rest().is_empty() {
            self.step(steps)?;
        }
        Ok(())
    }

    fn step(&mut self, steps: &mut Vec<Step>) -> Result<(), JsonPathError> {
        if self.skip("..") {
            steps.push(Step::Descend);
            if self.rest().starts_with('[') {
                return Ok(());
            }
        } else if self.skip("[") {
            steps.push(self.bracket()?);
            return Ok(());
        } else if !self.skip(".") {
            return self.wrong("unexpected text");
        }
        if self.rest().starts_with('[') || self.rest().is_empty() {
            return Ok(());
        }
        if self.skip("*") {
            steps.push(Step::All);
            return Ok(());
        }
        self.field(steps)
    }

    fn field(&mut self, steps: &mut Vec<Step>) -> Result<(), JsonPathError> {
        let name = self.name();
        if name.is_empty() {
            return self.wrong("a field name is missing");
        }
        steps.push(Step::Field(name));
        Ok(())
    }

    /// Up to the next step; a backslash takes the next character as it is.
    fn name(&mut self) -> String {
        let mut name = String::new();
        let mut escaped = false;
        for c in self.rest().chars() {
            match c {
                _ if escaped => {
                    name.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                c if c.is_whitespace() || ".[]()=!<>".contains(c) => break,
                c => name.push(c),
            }
            self.at += c.len_utf8();
        }
        name
    }

    /// After `[`.
    fn bracket(&mut self) -> Result<Step, JsonPathError> {
        if self.skip("?(") {
            if self.filters == FILTERS_MAX {
                return self.wrong("a filter in too many others");
            }
            self.filters += 1;
            let filter = self.filter();
            self.filters -= 1;
            return filter;
        }
        let mut union = Vec::new();
        loop {
            self.spaces();
            let step = match self.rest().chars().next() {
                Some('*') => {
                    self.at += 1;
                    Step::All
                }
                Some(quote @ ('\'' | '"')) => Step::Field(self.quoted(quote)?),
                _ => self.indices()?,
            };
            union.push(step);
            self.spaces();
            if self.skip(",") {
                continue;
            }
            if !self.skip("]") {
                return self.wrong("a closing ] is missing");
            }
            let only = if union.len() == 1 { union.pop() } else { None };
            return Ok(only.unwrap_or(Step::Union(union)));
        }
    }

    /// `3`, `-1`, `1:2`, `:2`, `::2`
    fn indices(&mut self) -> Result<Step, JsonPathError> {
        let mut parts = vec![self.integer()?];
        while parts.len() < 3 && self.skip(":") {
            parts.push(self.integer()?);
        }
        match parts.as_slice() {
            [Some(index)] => Ok(Step::Index(*index)),
            [None] => self.wrong("an index, a quoted name or * is missing"),
            [start, end] => Ok(Step::Slice(*start, *end, 1)),
            [start, end, stride, ..] => Ok(Step::Slice(*start, *end, stride.unwrap_or(1))),
            [] => self.wrong("an index is missing"),
        }
    }

    fn integer(&mut self) -> Result<Option<i64>, JsonPathError> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
        if end == 0 {
            return Ok(None);
        }
        let Ok(number) = rest[..end].parse() else { return self.wrong("not an index") };
        self.at += end;
        Ok(Some(number))
    }

    fn quoted(&mut self, quote: char) -> Result<String, JsonPathError> {
        self.at += quote.len_utf8();
        let mut text = String::new();
        let mut escaped = false;
        for c in self.rest().chars() {
            self.at += c.len_utf8();
            match c {
                _ if escaped => {
                    text.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                c if c == quote => return Ok(text),
                c => text.push(c),
            }
        }
        self.wrong("a closing quote is missing")
    }

    /// After `[?(`.
    fn filter(&mut self) -> Result<Step, JsonPathError> {
        let left = self.operand()?;
        self.spaces();
        let comparison = COMPARISONS.iter().find(|(token, _)| self.rest().starts_with(token)).copied();
        let test = match comparison {
            None => None,
            Some((token, comparison)) => {
                self.at += token.len();
                Some((comparison, self.operand()?))
            }
        };
        self.spaces();
        if !self.skip(")]") {
            return self.wrong("a closing )] is missing");
        }
        Ok(Step::Filter(left, test))
    }

    fn operand(&mut self) -> Result<Operand, JsonPathError> {
        self.spaces();
        match self.rest().chars().next() {
            Some('@') => {
                self.at += 1;
                let mut steps = Vec::new();
                while self.rest().starts_with(['.', '[']) {
                    self.step(&mut steps)?;
                }
                Ok(Operand::Path(steps))
            }
            Some(quote @ ('\'' | '"')) => Ok(Operand::Literal(Value::from(self.quoted(quote)?))),
            _ => {
                let rest = self.rest();
                let end =
                    rest.find(|c: char| c == ')' || c == '=' || c.is_whitespace()).unwrap_or(rest.len());
                match serde_json::from_str(&rest[..end]) {
                    Ok(literal) => {
                        self.at += end;
                        Ok(Operand::Literal(literal))
                    }
                    Err(_) => self.wrong("a path from @, a quoted text, a number or a boolean is missing"),
                }
            }
        }
    }

    fn spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_their_value() {
        let object = json!({
            "metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "c"}},
            "spec": {"replicas": 3, "list": [{"a": 1}, {"a": 2}, {"a": 3}]},
            "status": {"conditions": [
                {"type": "A", "status": "False", "n": 1}, {"type": "Ready", "status": "True", "n": 2},
            ]},
        });
        for (path, expected) in [
            (".spec.replicas", Some(json!(3))),
            ("{.spec.replicas}", Some(json!(3))),
            ("$.spec.replicas", Some(json!(3))),
            (".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']", Some(json!("c"))),
            (".metadata.labels.cluster\\.x-k8s\\.io/cluster-name", Some(json!("c"))),
            (".status.conditions[?(@.type==\"Ready\")].status", Some(json!("True"))),
            (".status.conditions[?(@.type == 'Nope')].status", None),
            (".status.conditions[?(@.n > 1)].type", Some(json!("Ready"))),
            (".status.conditions[?(@.n!=1)].type", Some(json!("Ready"))),
            (".status.conditions[?(@.type)].type", Some(json!("A"))),
            (".spec.list[1].a", Some(json!(2))),
            (".spec.list[-1].a", Some(json!(3))),
            (".spec.list[1:].a", Some(json!(2))),
            (".spec.list[*].a", Some(json!(1))),
            (".spec.list[5].a", None),
            (".spec['replicas','x']", Some(json!(3))),
            ("..replicas", Some(json!(3))),
            (".nope.nope", None),
            // What cannot be compared, or is not a list, spoils the whole path.
            (".status.conditions[?(@.n==1.0)].type", None),
            (".status.conditions[?(@.type==1)].type", None),
            (".status[?(@.type==\"Ready\")].status", None),
            (".metadata.labels[?(@.a)]", None),
        ] {
            let parsed = JsonPath::parse(path).expect(path);
            assert_eq!(parsed.first(&object, &mut Visits(1_000)), Ok(expected.as_ref()), "{path}");
        }
    }

    #[test]
    fn bad_paths_are_refused() {
        for path in
            ["", "spec", ".spec.", ".spec[", ".spec[?(@.a=='x']", ".a[?(b)]", ".a['x]", ".a[x]", ".a b"]
        {
            // A trailing dot is harmless, upstream takes it too.
            assert_eq!(JsonPath::parse(path).is_err(), path != ".spec.", "{path}");
        }
    }

    #[test]
    fn an_error_is_at_its_byte_of_what_was_typed() {
        for (path, at, why) in [
            ("", 0, "must start with a dot"),
            (" spec", 1, "must start with a dot"),
            (".spec[x]", 6, "an index, a quoted name or * is missing"),
            ("{.spec[x]}", 7, "an index, a quoted name or * is missing"),
            (" {$.spec[0}", 10, "a closing ] is missing"),
            (".a b", 2, "unexpected text"),
        ] {
            assert_eq!(JsonPath::parse(path), Err(JsonPathError { at, why }), "{path}");
        }
    }

    #[test]
    fn the_path_of_a_column_may_leave_out_its_dot_and_finds_all_values() {
        let object = json!({"spec": {"a": [{"k": "x"}, {"k": "y"}, {}]}});
        for path in ["spec.a[*].k", "{spec.a[*].k}", ".spec.a[*].k", "{.spec.a[*].k}", "$.spec.a[*].k"] {
            let found = JsonPath::parse_relaxed(path).expect(path);
            assert_eq!(found.all(&object, &mut Visits(100)), Ok(vec![&json!("x"), &json!("y")]), "{path}");
        }
        for (path, at) in [("", 0), ("{}", 1), ("]", 0), ("{spec[}", 6)] {
            assert_eq!(JsonPath::parse_relaxed(path).map_err(|error| error.at), Err(at), "{path}");
        }
    }

    #[test]
    fn a_path_that_meets_everything_again_and_again_is_given_up() {
        let nested = (0..60).fold(json!(1), |below, _| json!({"a": below}));
        let path = |times: usize| JsonPath::parse(&"..a".repeat(times)).expect("a path");
        let spent = |times: usize| {
            let mut visits = Visits(100_000);
            let found = path(times).first(&nested, &mut visits).map(|found| found.is_some());
            (found, 100_000 - visits.0)
        };
        assert_eq!((spent(1).0, spent(2).0), (Ok(true), Ok(true)));
        assert!(spent(1).1 < 200 && spent(2).1 < 5_000, "{} {}", spent(1).1, spent(2).1);
        assert_eq!(spent(50), (Err(TooMany), 100_000));
    }

    #[test]
    fn filters_in_filters_came_to_the_end_of_the_stack() {
        let nested =
            |levels: usize| JsonPath::parse(&format!("{}.b{}", ".a[?(@".repeat(levels), ")]".repeat(levels)));
        assert!(nested(FILTERS_MAX).is_ok());
        assert!(nested(FILTERS_MAX + 1).is_err() && nested(200_000).is_err());
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in "[.$\\[\\]{}a-b0-9*?(@)=<>'\"\\\\:,ä -]{0,24}") {
            for path in [JsonPath::parse(&text), JsonPath::parse_relaxed(&text)] {
                let path = match path {
                    Ok(path) => path,
                    Err(error) => {
                        prop_assert!(error.at <= text.len() && text.is_char_boundary(error.at), "{error}");
                        continue;
                    }
                };
                let _ = path.first(&json!({"a": [1, {"b": 2}], "b": {"a": 1}}), &mut Visits(10_000));
            }
        }
    }
}
