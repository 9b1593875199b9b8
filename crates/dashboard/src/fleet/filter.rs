//! What a person types to narrow a list: words, and terms about fields, labels, conditions and ages. Owns that language.
//! Pure; must not know where rows are kept, nor how lists are ordered.

use std::fmt;

use regex::{Regex, RegexBuilder};

use super::cell::Reader;
use super::row::{Condition, Kind, Row, RowId};
use super::texts::Text;
use super::{Cell, Fleet, moment};
use crate::fleet::Verdict;
use capi_types::columns::Column;
use capi_types::condition::Status;
use capstan_base::text::nearest;
use capstan_base::time::{Timestamp, parse_duration};

/// A compiled expression takes as much memory at most, bytes.
const EXPRESSION_MAX: usize = 1 << 20;

/// Why a filter cannot be understood, and which part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// Where the part begins in what was typed, in characters, and how long it is.
    pub at: usize,
    pub length: usize,
    /// A sentence: what cannot be understood, and what was expected.
    pub why: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// One row that may be shown.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub id: RowId,
    pub row: &'a Row,
    /// With everything under it, by what was seen last: rows do not move because a connection is lost.
    pub verdict: Verdict,
    /// Only where rows are ordered or chosen by it.
    pub(super) since: Option<Timestamp>,
    /// A person put it aside: below all others where the worst is first.
    pub(super) is_shelved: bool,
}

/// Terms and words that all have to hold.
#[derive(Debug, Default)]
pub(super) struct Filter {
    terms: Vec<(Wanted, Term)>,
    words: Vec<(Wanted, Word)>,
}

/// Whether a term has to hold or must not.
type Wanted = bool;

/// What is looked for in the text of an object.
#[derive(Debug)]
enum Word {
    /// Small letters.
    Anywhere(Box<memchr::memmem::Finder<'static>>),
    /// In the name alone, at its beginning, its end, or both.
    Name(Part),
    Expression(Regex),
}

#[derive(Debug)]
enum Term {
    /// A field has this text in it.
    Field(Field, Part),
    Label(Requirement),
    Condition(ConditionTerm),
    /// How long ago it was made, or came to be as it is.
    Made(Age),
    Since(Age),
}

/// Text in small letters, perhaps held to the beginning or the end of what it is looked for in.
#[derive(Debug, Default, PartialEq, Eq)]
struct Part {
    text: String,
    at_start: bool,
    at_end: bool,
}

impl Part {
    fn parse(typed: &str) -> Self {
        let typed = typed.to_lowercase();
        let (rest, at_start) = typed.strip_prefix('^').map_or((typed.as_str(), false), |rest| (rest, true));
        let (rest, at_end) = rest.strip_suffix('$').map_or((rest, false), |rest| (rest, true));
        Self { text: rest.to_owned(), at_start, at_end }
    }

    fn is_in(&self, text: &str) -> bool {
        match (self.at_start, self.at_end) {
            (false, false) => text.contains(&self.text),
            (true, false) => text.starts_with(&self.text),
            (false, true) => text.ends_with(&self.text),
            (true, true) => text == self.text,
        }
    }
}

/// What a term can be about: what stands in a column.
#[derive(Clone, Copy, Debug)]
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
    Why,
    /// One of upstream's columns, of each kind that has it.
    Column([Option<Reader>; Kind::ALL.len()]),
}

const FIELDS: [(&str, Field); 12] = [
    ("name", Field::Name),
    ("ns", Field::Namespace),
    ("namespace", Field::Namespace),
    ("kind", Field::Kind),
    ("cluster", Field::Cluster),
    ("version", Field::Version),
    ("phase", Field::Phase),
    ("node", Field::Node),
    ("zone", Field::Zone),
    ("class", Field::Class),
    ("verdict", Field::Verdict),
    ("why", Field::Why),
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
    pub(super) fn parse(text: &str) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        for typed in text.split_whitespace() {
            filter.add(typed).map_err(|why| {
                // `typed` is a part of `text`, so that the distance of their beginnings is its place.
                let before = typed.as_ptr() as usize - text.as_ptr() as usize;
                let at = text.get(..before).map_or(0, |before| before.chars().count());
                FilterError { at, length: typed.chars().count(), why }
            })?;
        }
        Ok(filter)
    }

    fn add(&mut self, typed: &str) -> Result<(), String> {
        let (is_wanted, bare) = typed.strip_prefix('!').map_or((true, typed), |bare| (false, bare));
        if let Some(terms) = terms_of(bare)? {
            self.terms.extend(terms.into_iter().map(|term| (is_wanted, term)));
        } else {
            self.words.extend(word_of(bare)?.map(|word| (is_wanted, word)));
        }
        Ok(())
    }

    /// It looks at since when an object is as it is.
    pub(super) fn needs_since(&self) -> bool {
        self.terms.iter().any(|(_, term)| matches!(term, Term::Since(_)))
    }

    /// It looks at the text of objects.
    pub(super) fn has_words(&self) -> bool {
        !self.words.is_empty()
    }

    pub(super) fn holds(&self, fleet: &Fleet, candidate: &Candidate<'_>, now: Timestamp) -> bool {
        self.terms.iter().all(|(is_wanted, term)| term.holds(fleet, candidate, now) == *is_wanted)
    }

    /// Are all words in the text of an object, and none that must not be?
    pub(super) fn matches(&self, text: Text<'_>) -> bool {
        self.words.iter().all(|(is_wanted, word)| word.is_in(text) == *is_wanted)
    }
}

impl Word {
    fn is_in(&self, text: Text<'_>) -> bool {
        match self {
            Self::Anywhere(finder) => finder.find(text.all.as_bytes()).is_some(),
            Self::Name(part) => part.is_in(text.name) || part.is_in(text.full_name),
            Self::Expression(expression) => expression.is_match(text.all),
        }
    }
}

impl Term {
    fn holds(&self, fleet: &Fleet, candidate: &Candidate<'_>, now: Timestamp) -> bool {
        let row = candidate.row;
        match self {
            Self::Field(field, part) => field.has(fleet, candidate, part),
            Self::Label(requirement) => requirement.holds(row),
            Self::Condition(term) => row.conditions.iter().any(|c| term.holds(c, now)),
            Self::Made(age) => age.holds(row.created(), now),
            Self::Since(age) => age.holds(candidate.since, now),
        }
    }
}

impl Field {
    /// By the word in front of the colon: one of ours, or the heading of one of upstream's columns.
    fn named(word: &str) -> Option<Self> {
        let ours = FIELDS.iter().find(|(name, _)| *name == word).map(|(_, field)| *field);
        ours.or_else(|| {
            let of = |kind: Kind| kind.columns().iter().find(|c| column_word(c) == word).and_then(Reader::of);
            let readers = Kind::ALL.map(of);
            readers.iter().any(Option::is_some).then_some(Self::Column(readers))
        })
    }

    fn has(self, fleet: &Fleet, candidate: &Candidate<'_>, part: &Part) -> bool {
        let row = candidate.row;
        let machine = row.machine();
        let text: &str = match self {
            Self::Name => &row.name,
            Self::Namespace => &row.namespace,
            Self::Kind => row.gvk.kind.as_str(),
            Self::Cluster => &row.cluster,
            Self::Version => {
                return fleet.shown_versions(candidate.id).any(|v| part.is_in(&v.to_lowercase()));
            }
            Self::Phase => &row.phase,
            Self::Node => machine.and_then(|m| m.node.as_deref()).unwrap_or_default(),
            Self::Zone => machine.and_then(|m| m.failure_domain.as_deref()).unwrap_or_default(),
            Self::Class => row.cluster_facts().map_or("", |facts| &facts.class),
            Self::Verdict => candidate.verdict.word(),
            Self::Why => return part.is_in(&fleet.why_words(candidate.id).to_lowercase()),
            Self::Column(readers) => {
                let cell = readers[row.kind as usize].map_or(Cell::Nothing, |reader| reader.read(row));
                return part.is_in(&cell.print(moment(fleet.now_s()).unwrap_or_default()).to_lowercase());
            }
        };
        part.is_in(&text.to_lowercase())
    }
}

/// A column's heading as one word.
pub fn column_word(column: &Column) -> String {
    column.name.to_lowercase().replace(' ', "-")
}

/// The words that may stand in front of a colon.
fn field_words() -> Vec<String> {
    let ours = FIELDS.iter().map(|(name, _)| (*name).to_owned());
    let columns = Kind::ALL.into_iter().flat_map(|kind| kind.columns()).map(column_word);
    ours.chain(["l", "label"].map(str::to_owned)).chain(columns).collect()
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
    if bare.starts_with(WORD_SIGNS) {
        return Ok(None);
    }
    if let Some(selector) = bare.strip_prefix("l:").or_else(|| bare.strip_prefix("label:")) {
        let all = selector.split(',').filter(|part| !part.is_empty()).map(requirement_of);
        return Ok(Some(all.map(Term::Label).collect()));
    }
    if let Some((name, part)) = bare.split_once(':') {
        if let Some(field) = Field::named(name) {
            return Ok(Some(vec![Term::Field(field, Part::parse(part))]));
        }
        if let Some(meant) = nearest_field(name) {
            return Err(format!("there is no field `{name}:`; did you mean `{meant}:`?"));
        }
    }
    for (name, term) in [("age", Term::Made as fn(Age) -> Term), ("since", Term::Since)] {
        if let Some(compared) = bare.strip_prefix(name).filter(|rest| rest.starts_with(['<', '>'])) {
            return Ok(Some(age_of(compared, bare)?.into_iter().map(term).collect()));
        }
    }
    let condition = bare.split_once('=').filter(|(type_, _)| is_condition_type(type_));
    condition.map(|(type_, rest)| Ok(vec![Term::Condition(condition_of(type_, rest, bare)?)])).transpose()
}

/// These begin a word.
const WORD_SIGNS: [char; 3] = ['~', '^', '\''];

/// A word, an expression, or text that is held to an end of the name; `None`: it is not finished yet.
fn word_of(bare: &str) -> Result<Option<Word>, String> {
    if let Some(expression) = bare.strip_prefix('~') {
        return Ok(expression_of(expression)?.map(Word::Expression));
    }
    // As in fzf, what follows is not a sign.
    let literal = bare.strip_prefix('\'');
    let part = match literal {
        Some(text) => Part { text: text.to_lowercase(), ..Part::default() },
        None => Part::parse(bare),
    };
    Ok(match part {
        Part { text, .. } if text.is_empty() => None,
        Part { text, at_start: false, at_end: false } => {
            Some(Word::Anywhere(Box::new(memchr::memmem::Finder::new(text.as_bytes()).into_owned())))
        }
        part => Some(Word::Name(part)),
    })
}

/// The field that was meant; a message has colons as well, so only what is nearly one counts.
fn nearest_field(name: &str) -> Option<String> {
    let words = field_words();
    let is_word = name.len() > 2 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    nearest(name, words.iter().map(String::as_str)).filter(|_| is_word).map(str::to_owned)
}

fn expression_of(text: &str) -> Result<Option<Regex>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    // Name and name with namespace stand on lines of their own, so that anchors are about them.
    let mut builder = RegexBuilder::new(text);
    let built = builder.case_insensitive(true).multi_line(true).size_limit(EXPRESSION_MAX).build();
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
        let word = |(is_wanted, word): &(bool, Word)| {
            let sign = if *is_wanted { "" } else { "!" };
            match word {
                Word::Anywhere(finder) => format!("{sign}{}", String::from_utf8_lossy(finder.needle())),
                Word::Name(part) => format!("{sign}{part:?}"),
                Word::Expression(expression) => format!("{sign}~{expression}"),
            }
        };
        match Filter::parse(text) {
            Ok(filter) => {
                format!("{:?} {}", filter.terms, filter.words.iter().map(word).collect::<Vec<_>>().join(" "))
            }
            Err(error) => error.why,
        }
    }

    #[test]
    fn what_is_no_term_is_a_word() {
        for (typed, words) in [
            ("", ""),
            ("a B", "a b"),
            ("!a c$", r#"!a Part { text: "c", at_start: false, at_end: true }"#),
            ("'d 'x$", "d x$"),
            ("a=b age since a!b", "a=b age since a!b"),
            ("10.0.0.1:6443 MachineSet: no:such", "10.0.0.1:6443 machineset: no:such"),
            ("~a. !~b", "~a. !~b"),
            ("! ^ $ ~", ""),
        ] {
            assert_eq!(described(typed), format!("[] {words}"));
        }
    }

    #[test]
    fn terms_are_understood_and_unfinished_ones_ask_for_nothing() {
        let part = |text: &str| format!("Part {{ text: {text:?}, at_start: false, at_end: false }}");
        for (text, expected) in [
            ("version:V1.3 x", format!("[(true, Field(Version, {}))] x", part("v1.3"))),
            ("!ns:prod", format!("[(false, Field(Namespace, {}))] ", part("prod"))),
            ("age>2h", "[(true, Made(Age { is_longer: true, seconds: 7200 }))] ".to_owned()),
            ("!since<1m30s", "[(false, Since(Age { is_longer: false, seconds: 90 }))] ".to_owned()),
            ("age> since<2 ~ l:", "[] ".to_owned()),
            (
                "Ready=f>10m",
                "[(true, Condition(ConditionTerm { type_: \"Ready\", status: Some(False), age: Some(Age { is_longer: true, seconds: 600 }) }))] ".to_owned(),
            ),
            (
                "Ready=",
                "[(true, Condition(ConditionTerm { type_: \"Ready\", status: None, age: None }))] ".to_owned(),
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
            ("versoin:1.35", "there is no field `versoin:`; did you mean `version:`?"),
        ] {
            assert_eq!(described(text), expected, "{text}");
        }
        assert!(
            described(&format!("~{}", "(a{9}){999}{9}")).contains("is not a regular expression"),
            "too large"
        );
    }
}
