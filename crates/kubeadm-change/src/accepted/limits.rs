//! Values that have their type and are refused all the same. Owns `limits.toml` and how a value is compared with it.

use std::sync::LazyLock;

use super::super::render::ETCD;
use super::super::units::quantity_milli;
use super::value::{FlagType, whole_number};
use capstan_base::go_duration::GoDuration;

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limit {
    /// Components; `kube` is each of the three of Kubernetes.
    of: Vec<String>,
    flags: Vec<String>,
    least: Option<String>,
    above: Option<String>,
    most: Option<String>,
    /// 0 is taken too, and stands for the default.
    zero: bool,
    words: Option<Vec<String>>,
    each: Option<Vec<String>>,
    not: Option<Vec<String>>,
    /// The minor release of Kubernetes from which on it counts.
    since: Option<u64>,
}

#[derive(serde::Deserialize)]
struct Table {
    limit: Vec<Limit>,
}

// The table is part of the program, and a test reads it: nothing is lost by the default.
static LIMITS: LazyLock<Vec<Limit>> = LazyLock::new(|| parse().unwrap_or_default());

fn parse() -> Result<Vec<Limit>, toml::de::Error> {
    toml::from_str::<Table>(include_str!("limits.toml")).map(|table| table.limit)
}

/// What is wrong with a value, in words that follow a colon.
pub(super) fn problem(
    component: &str,
    minor: u64,
    name: &str,
    type_: FlagType,
    value: &str,
) -> Option<String> {
    let is_of = |limit: &&Limit| {
        // `kube` in the table stands for the three programs of Kubernetes.
        let of = |of: &String| of == component || of == "kube" && component != ETCD;
        limit.of.iter().any(of)
            && limit.flags.iter().any(|flag| flag == name)
            && limit.since.is_none_or(|since| minor >= since)
    };
    LIMITS.iter().filter(is_of).find_map(|limit| limit.problem(type_, value))
}

impl Limit {
    fn problem(&self, type_: FlagType, value: &str) -> Option<String> {
        if let Some(words) = self.words.as_ref().filter(|words| !words.iter().any(|word| word == value)) {
            return Some(format!("it wants one of {}", shown(words)));
        }
        if self.not.as_ref().is_some_and(|not| not.iter().any(|word| word == value)) {
            return Some("it must not be empty".to_owned());
        }
        if let Some(each) = &self.each {
            let mut items = value.split(',').filter(|item| !item.is_empty());
            let unknown = items.find(|item| !each.iter().any(|word| is_word(word, item)))?;
            return Some(format!("`{unknown}` is not one of {}", shown(each)));
        }
        let number = amount(type_, value)?;
        let below = |limit: &Option<String>| limit.as_deref().and_then(|text| amount(type_, text));
        if self.zero && number == 0.0 {
            return None;
        }
        if below(&self.least).is_some_and(|least| number < least) {
            return Some(format!("it wants {} or more", self.least.as_deref().unwrap_or_default()));
        }
        if below(&self.above).is_some_and(|above| number <= above) {
            return Some(format!("it wants more than {}", self.above.as_deref().unwrap_or_default()));
        }
        let most = below(&self.most).is_some_and(|most| number > most);
        most.then(|| format!("it wants {} or less", self.most.as_deref().unwrap_or_default()))
    }
}

fn is_word(word: &str, item: &str) -> bool {
    // A `*` in the table is for words with a value behind them, such as `max-age=31536000`.
    word.strip_suffix('*').map_or(word == item, |head| item.starts_with(head))
}

fn shown(words: &[String]) -> String {
    words.iter().filter(|word| !word.is_empty()).map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// A value as a number: durations in nanoseconds.
pub(super) fn amount(type_: FlagType, text: &str) -> Option<f64> {
    #[allow(clippy::cast_precision_loss)] // limits are small
    match type_ {
        FlagType::Duration => GoDuration::parse(text).map(|duration| duration.ns() as f64),
        FlagType::Signed(_) | FlagType::Unsigned(_) => whole_number(text).map(|number| number as f64),
        FlagType::Quantity => quantity_milli(text),
        _ => text.parse().ok(),
    }
}

#[cfg(test)]
pub(super) fn flags() -> Vec<(String, String)> {
    let limits = parse().expect("the table");
    let of = limits.iter().flat_map(|limit| limit.of.iter().map(move |of| (of, limit)));
    of.flat_map(|(of, limit)| limit.flags.iter().map(move |flag| (of.clone(), flag.clone()))).collect()
}
