//! Single values that kubelet and kube-proxy refuse. Owns `components.toml` and how a value is compared with it.

use std::sync::LazyLock;

use serde_json::Value;

use super::super::document::DocumentKind;
use capstan_base::go_duration::GoDuration;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    kind: String,
    fields: Vec<String>,
    #[serde(default)]
    least: Option<String>,
    #[serde(default)]
    above: Option<String>,
    #[serde(default)]
    most: Option<String>,
    /// 0 stands for the default.
    #[serde(default)]
    zero: bool,
    #[serde(default)]
    words: Option<Vec<String>>,
    /// The minor release of Kubernetes from which on it counts.
    #[serde(default)]
    since: Option<u64>,
}

#[derive(serde::Deserialize)]
struct Table {
    limit: Vec<Limit>,
}

// The table is part of the program, and a test reads it: nothing is lost by the default.
static LIMITS: LazyLock<Vec<Limit>> = LazyLock::new(|| parse().unwrap_or_default());

fn parse() -> Result<Vec<Limit>, toml::de::Error> {
    toml::from_str::<Table>(include_str!("components.toml")).map(|table| table.limit)
}

/// Whole numbers of 64 bits; all others have 32.
const LONG: [&str; 2] = ["podPidsLimit", "maxOpenFiles"];

/// Whole numbers of the head of a document that do not fit into their field.
fn too_large(document: &Value) -> impl Iterator<Item = (String, String)> {
    let fields = document.as_object().into_iter().flatten();
    fields.filter_map(|(name, value)| {
        // Go's decoder refuses a number that its field cannot hold.
        let is_large = value.as_i64().is_some_and(|number| i32::try_from(number).is_err());
        (is_large && !LONG.contains(&name.as_str()))
            .then(|| (name.clone(), format!("is {value}; expected a number of 32 bits")))
    })
}

/// Each field whose value is refused, with what is wanted.
pub(super) fn refused(kind: DocumentKind, document: &Value, minor: Option<u64>) -> Vec<(String, String)> {
    let counts = |limit: &&Limit| {
        // A cluster whose release is not known is held to the limits of the newest.
        limit.kind == kind.name() && limit.since.is_none_or(|since| minor.is_none_or(|minor| minor >= since))
    };
    let limits = LIMITS.iter().filter(counts);
    let fields = limits.flat_map(|limit| limit.fields.iter().map(move |field| (limit, field)));
    let refused = |(limit, field): (&Limit, &String)| {
        let value = field.split('.').try_fold(document, |value, name| value.get(name))?;
        Some((field.clone(), limit.problem(value)?))
    };
    too_large(document).chain(fields.filter_map(refused)).collect()
}

impl Limit {
    fn problem(&self, value: &Value) -> Option<String> {
        if let Some(words) = &self.words {
            // To Go an empty text is a field that is not set.
            let text = value.as_str().filter(|text| !text.is_empty())?;
            let is_known = words.iter().any(|word| word == text);
            return (!is_known).then(|| format!("is `{text}`; expected one of {}", words.join(", ")));
        }
        // Where the table says so, zero stands for the default.
        let number = amount(value).filter(|number| !(self.zero && *number == 0.0))?;
        let bound = |limit: &Option<String>| limit.as_deref().and_then(|text| amount(&Value::from(text)));
        let (least, above, most) = (bound(&self.least), bound(&self.above), bound(&self.most));
        let is_fine = least.is_none_or(|least| number >= least)
            && above.is_none_or(|above| number > above)
            && most.is_none_or(|most| number <= most);
        (!is_fine).then(|| format!("is {}; expected {}", shown(value), self.range()))
    }

    fn range(&self) -> String {
        let word =
            |before: &str, limit: &Option<String>| limit.as_ref().map(|limit| format!("{before} {limit}"));
        let words =
            [word("at least", &self.least), word("more than", &self.above), word("at most", &self.most)];
        words.into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }
}

/// A number, or a duration in nanoseconds.
pub(super) fn amount(value: &Value) -> Option<f64> {
    #[allow(clippy::cast_precision_loss)] // limits are small
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => {
            // The bounds of the table are texts, numbers too.
            text.parse().ok().or_else(|| GoDuration::parse(text).map(|duration| duration.ns() as f64))
        }
        _ => None,
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| format!("`{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::FieldPath;
    use crate::schema::Schema;

    #[test]
    fn every_limit_is_for_a_field() {
        for limit in parse().expect("the table") {
            for field in &limit.fields {
                let path = FieldPath::parse(field).expect("a path");
                assert!(Schema::embedded().type_at(&limit.kind, &path).is_ok(), "{} {field}", limit.kind);
                assert!(limit.words.is_some() || limit.range() != "", "{field} has no limit");
            }
        }
    }
}
