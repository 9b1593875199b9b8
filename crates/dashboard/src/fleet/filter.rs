//! What a person types to narrow a list: words, and terms about fields, labels, conditions and ages. Owns that language.
//! Pure; must not know where rows are kept, nor how words are compared.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use super::row::{Condition, Row, RowId, moment};
use crate::fleet::Verdict;
use capi_types::condition::Status;
use capstan_base::time::{Timestamp, parse_duration};

/// One row that may be shown.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub id: RowId,
    pub row: Arc<Row>,
    /// With everything under it, by what was seen last: rows do not move because a connection is lost.
    pub verdict: Verdict,
    /// Only where rows are ordered or chosen by it.
    pub(super) since: Option<Timestamp>,
    /// A person put it aside: below all others where the worst is first.
    pub is_shelved: bool,
}

/// A compiled expression takes as much memory at most, bytes.
const EXPRESSION_MAX: usize = 1 << 20;

/// Terms that all have to hold, and the words that are left.
#[derive(Debug, Default)]
pub(super) struct Filter {
    terms: Vec<(Wanted, Term)>,
    /// For whoever compares words.
    pub(super) words: String,
}

/// Whether a term has to hold or must not.
type Wanted = bool;

#[derive(Debug)]
enum Term {
    /// A field has this text in it; small letters.
    Field(Field, String),
    Label(Requirement),
    Condition(ConditionTerm),
    /// How long ago it was made, or came to be as it is.
    Made(Age),
    Since(Age),
    Expression(Regex),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    Kind,
    Cluster,
    Version,
    Phase,
    Node,
    Zone,
    Class,
    Verdict,
}

const FIELDS: [(&str, Field); 11] = [
    ("name:", Field::Name),
    ("ns:", Field::Namespace),
    ("namespace:", Field::Namespace),
    ("kind:", Field::Kind),
    ("cluster:", Field::Cluster),
    ("version:", Field::Version),
    ("phase:", Field::Phase),
    ("node:", Field::Node),
    ("zone:", Field::Zone),
    ("class:", Field::Class),
    ("verdict:", Field::Verdict),
];

/// One requirement of a label selector.
#[derive(Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    /// `None`: the label is there, whatever its value.
    value: Option<String>,
    is_wanted: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct ConditionTerm {
    type_: String,
    /// `None`: whatever it is.
    status: Option<Status>,
    age: Option<Age>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Age {
    is_longer: bool,
    seconds: i64,
}

impl Age {
    fn holds(self, since: Option<Timestamp>, now: Timestamp) -> bool {
        since.is_some_and(|since| ((now - since).num_seconds() > self.seconds) == self.is_longer)
    }
}

impl Filter {
    /// # Errors
    /// Which term cannot be understood, and what was expected.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for typed in text.split_whitespace() {
            let (is_wanted, bare) = typed.strip_prefix('!').map_or((true, typed), |bare| (false, bare));
            let terms = terms_of(bare)?;
            match terms {
                Some(terms) => filter.terms.extend(terms.into_iter().map(|term| (is_wanted, term))),
                None => {
                    filter.words.push_str(typed);
                    filter.words.push(' ');
                }
            }
        }
        Ok(filter)
    }

    /// It looks at since when an object is as it is.
    pub(super) fn needs_since(&self) -> bool {
        self.terms.iter().any(|(_, term)| matches!(term, Term::Since(_)))
    }

    /// `text`: what words are looked for in.
    pub(super) fn holds(&self, candidate: &Candidate, text: impl Fn() -> String, now_s: u32) -> bool {
        let now = moment(now_s).unwrap_or_default();
        self.terms.iter().all(|(is_wanted, term)| term.holds(candidate, &text, now) == *is_wanted)
    }
}

impl Term {
    fn holds(&self, candidate: &Candidate, text: impl Fn() -> String, now: Timestamp) -> bool {
        let row = candidate.row.as_ref();
        match self {
            Self::Field(field, part) => field.of(candidate).to_lowercase().contains(part.as_str()),
            Self::Label(requirement) => requirement.holds(row),
            Self::Condition(term) => row.conditions.iter().any(|c| term.holds(c, now)),
            Self::Made(age) => age.holds(row.created(), now),
            Self::Since(age) => age.holds(candidate.since, now),
            Self::Expression(expression) => expression.is_match(&text()),
        }
    }
}

impl Field {
    fn of(self, candidate: &Candidate) -> &str {
        let row = candidate.row.as_ref();
        let machine = row.machine();
        match self {
            Self::Name => &row.name,
            Self::Namespace => &row.namespace,
            Self::Kind => &row.gvk.kind,
            Self::Cluster => &row.cluster,
            Self::Version => &row.version,
            Self::Phase => &row.phase,
            Self::Node => machine.and_then(|m| m.node.as_deref()).unwrap_or_default(),
            Self::Zone => machine.and_then(|m| m.failure_domain.as_deref()).unwrap_or_default(),
            Self::Class => row.cluster_facts().map_or("", |facts| &facts.class),
            Self::Verdict => candidate.verdict.word(),
        }
    }
}

impl Requirement {
    fn holds(&self, row: &Row) -> bool {
        let found = row.labels.get(&self.key);
        let is_met = match &self.value {
            Some(value) => found == Some(value),
            None => found.is_some(),
        };
        is_met == self.is_wanted
    }
}

impl ConditionTerm {
    fn holds(&self, condition: &Condition, now: Timestamp) -> bool {
        condition.type_.as_ref() == self.type_
            && self.status.is_none_or(|status| status == condition.status)
            && self.age.is_none_or(|age| age.holds(condition.since(), now))
    }
}

/// What a piece of text without spaces asks for; `None`: it is a word. What is not finished yet asks for nothing.
fn terms_of(bare: &str) -> Result<Option<Vec<Term>>, String> {
    if let Some(expression) = bare.strip_prefix('~') {
        return Ok(Some(expression_of(expression)?.into_iter().map(Term::Expression).collect()));
    }
    if let Some(selector) = bare.strip_prefix("l:").or_else(|| bare.strip_prefix("label:")) {
        let all = selector.split(',').filter(|part| !part.is_empty()).map(requirement_of);
        return Ok(Some(all.map(Term::Label).collect()));
    }
    if let Some((field, part)) =
        FIELDS.iter().find_map(|(name, field)| Some((*field, bare.strip_prefix(name)?)))
    {
        return Ok(Some(vec![Term::Field(field, part.to_lowercase())]));
    }
    for (name, term) in [("age", Term::Made as fn(Age) -> Term), ("since", Term::Since)] {
        if let Some(compared) = bare.strip_prefix(name).filter(|rest| rest.starts_with(['<', '>'])) {
            return Ok(Some(age_of(compared, bare)?.into_iter().map(term).collect()));
        }
    }
    let condition = bare.split_once('=').filter(|(type_, _)| is_condition_type(type_));
    condition.map(|(type_, rest)| Ok(vec![Term::Condition(condition_of(type_, rest, bare)?)])).transpose()
}

fn expression_of(text: &str) -> Result<Option<Regex>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let built = RegexBuilder::new(text).case_insensitive(true).size_limit(EXPRESSION_MAX).build();
    built.map(Some).map_err(|error| {
        let why = error.to_string();
        // The lines before the last one draw the expression and a mark below it.
        let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        format!("`~{text}` is not a regular expression: {why}")
    })
}

fn requirement_of(part: &str) -> Requirement {
    let (bare, is_wanted) = part.strip_prefix('!').map_or((part, true), |bare| (bare, false));
    // `!=` first, since it has an `=` in it; `==` is `=`, as in kubectl.
    let (key, value, is_equal) = match (bare.split_once("!="), bare.split_once('=')) {
        (Some((key, value)), _) => (key, Some(value), false),
        (_, Some((key, value))) => (key, Some(value.trim_start_matches('=')), true),
        _ => (bare, None, true),
    };
    Requirement { key: key.to_owned(), value: value.map(str::to_owned), is_wanted: is_wanted == is_equal }
}

/// `>2h` and `<10m`; `typed`: what it is part of.
fn age_of(compared: &str, typed: &str) -> Result<Option<Age>, String> {
    let (is_longer, time) = (compared.starts_with('>'), compared.trim_start_matches(['<', '>']));
    if time.is_empty() || time.bytes().all(|byte| byte.is_ascii_digit()) {
        // The unit is still to come.
        return Ok(None);
    }
    let time = parse_duration(time).and_then(|time| i64::try_from(time.as_secs()).ok());
    let seconds = time.ok_or_else(|| format!("`{typed}`: a time is written like 90s, 10m, 2h or 7d"))?;
    Ok(Some(Age { is_longer, seconds }))
}

/// Condition types begin with a capital; so does nothing that is looked for as a word with `=` in it.
fn is_condition_type(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
}

fn condition_of(type_: &str, rest: &str, typed: &str) -> Result<ConditionTerm, String> {
    let (status, age) = match rest.find(['<', '>']) {
        Some(at) => (&rest[..at], age_of(&rest[at..], typed)?),
        None => (rest, None),
    };
    // A beginning is enough: the word may be half typed.
    let is_meant = |known: &&Status| known.as_str().to_lowercase().starts_with(&status.to_lowercase());
    let status = match status {
        "" => None,
        _ => Some(
            *[Status::True, Status::False, Status::Unknown]
                .iter()
                .find(is_meant)
                .ok_or_else(|| format!("`{typed}`: a condition is True, False or Unknown"))?,
        ),
    };
    Ok(ConditionTerm { type_: type_.to_owned(), status, age })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(text: &str) -> String {
        match Filter::parse(text) {
            Ok(filter) => format!("{:?} {:?}", filter.terms, filter.words.trim_end()),
            Err(why) => why,
        }
    }

    #[test]
    fn what_is_no_term_is_a_word() {
        for words in ["", "a b", "!a ^b c$ 'd", "a=b", "age", "since", "no:field", "a!b"] {
            assert_eq!(described(words), format!("[] {words:?}"));
        }
    }

    #[test]
    fn terms_are_understood_and_unfinished_ones_ask_for_nothing() {
        for (text, expected) in [
            ("version:V1.3 x", r#"[(true, Field(Version, "v1.3"))] "x""#),
            ("!ns:prod", r#"[(false, Field(Namespace, "prod"))] """#),
            ("age>2h", "[(true, Made(Age { is_longer: true, seconds: 7200 }))] \"\""),
            ("!since<1m30s", "[(false, Since(Age { is_longer: false, seconds: 90 }))] \"\""),
            ("age> since<2 ~ l:", "[] \"\""),
            (
                "Ready=f>10m",
                "[(true, Condition(ConditionTerm { type_: \"Ready\", status: Some(False), age: Some(Age { is_longer: true, seconds: 600 }) }))] \"\"",
            ),
            (
                "Ready=",
                "[(true, Condition(ConditionTerm { type_: \"Ready\", status: None, age: None }))] \"\"",
            ),
        ] {
            assert_eq!(described(text), expected, "{text}");
        }
    }

    #[test]
    fn labels_are_selected_as_kubectl_does() {
        for (text, key, value, is_wanted) in [
            ("a/b=c", "a/b", Some("c"), true),
            ("a==c", "a", Some("c"), true),
            ("a!=c", "a", Some("c"), false),
            ("a", "a", None, true),
            ("!a", "a", None, false),
            ("a=", "a", Some(""), true),
        ] {
            let value = value.map(str::to_owned);
            assert_eq!(requirement_of(text), Requirement { key: key.to_owned(), value, is_wanted }, "{text}");
        }
        let filter = Filter::parse("l:a=b,!c").expect("a selector");
        assert_eq!(filter.terms.len(), 2);
    }

    #[test]
    fn what_cannot_be_understood_is_said() {
        for (text, expected) in [
            ("~(", "`~(` is not a regular expression: unclosed group"),
            ("age>2x", "`age>2x`: a time is written like 90s, 10m, 2h or 7d"),
            ("Ready=maybe", "`Ready=maybe`: a condition is True, False or Unknown"),
        ] {
            assert_eq!(described(text), expected, "{text}");
        }
        assert!(
            described(&format!("~{}", "(a{9}){999}{9}")).contains("is not a regular expression"),
            "too large"
        );
    }
}
