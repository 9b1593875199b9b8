//! Patterns of paths in the rule base: `apiServer.extraArgs[audit-*].**`. Owns matching and how specific a match is.

use serde::{Deserialize, Deserializer};

use super::super::path::{FieldPath, PathStep};

/// A pattern: per step a name, a name with one `*` in it, `*`, or `**` at the end for everything below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    steps: Vec<PatternStep>,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PatternStep {
    is_item: bool,
    text: String,
}

/// How specific a match is, step by step: larger is more specific.
type Score = Vec<(u8, usize)>;

impl Pattern {
    /// # Errors
    /// The text is not a path.
    pub fn parse(text: &str) -> Result<Self, String> {
        let path = FieldPath::parse(text).map_err(|error| error.to_string())?;
        let steps = path.0.into_iter().map(|step| match step {
            PathStep::Field(text) => PatternStep { is_item: false, text },
            PathStep::Item(text) => PatternStep { is_item: true, text },
            PathStep::Index(index) => PatternStep { is_item: true, text: index.to_string() },
        });
        Ok(Self { steps: steps.collect(), text: text.to_owned() })
    }

    /// How specific the pattern is for `path`, or nothing when it does not match.
    pub fn score(&self, path: &FieldPath) -> Option<Score> {
        let mut score = Vec::new();
        let mut path = path.0.iter();
        for pattern in &self.steps {
            // Before the path is read on: `a.**` matches `a` itself, too.
            if pattern.text == "**" {
                score.push((0, 0));
                return Some(score);
            }
            let (is_item, text) = match path.next()? {
                PathStep::Field(text) => (false, text.clone()),
                PathStep::Item(text) => (true, text.clone()),
                PathStep::Index(index) => (true, index.to_string()),
            };
            if is_item != pattern.is_item {
                return None;
            }
            score.push(step_score(&pattern.text, &text)?);
        }
        path.next().is_none().then_some(score)
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

fn step_score(pattern: &str, text: &str) -> Option<(u8, usize)> {
    match pattern.split_once('*') {
        // A whole name before a part of one, before any, before all below: scores compare step by step.
        None => (pattern == text).then_some((3, 0)),
        Some(("", "")) => Some((1, 0)),
        Some((head, tail)) => {
            let fits =
                text.len() >= head.len() + tail.len() && text.starts_with(head) && text.ends_with(tail);
            fits.then_some((2, head.len() + tail.len()))
        }
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}
