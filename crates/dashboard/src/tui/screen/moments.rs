//! What changed in an object while it was looked at, field by field: the differences between each moment at which it was
//! read and the next, newest first, or those between two moments. Owns how many are kept. Must not know how the object is
//! read.

use std::collections::VecDeque;

use ratatui::text::{Line, Span};
use serde_json::{Map, Value};

use super::rollout::time_of_day;
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;
use capi_rules::status::fields::{FieldDifference, differences};
use capstan_base::time::Timestamp;

/// Moments kept, newest.
const MOMENTS_MAX: usize = 200;
/// Fields shown of one moment.
const FIELDS_MAX: usize = 40;
/// What a list of objects is keyed by, so that one of them that changes is one change.
const KEYS: [&str; 3] = ["type", "name", "uid"];
/// Differs between any two moments, and says nothing.
const COUNTED: &str = "metadata.resourceVersion";

/// An object as it is, and how it came to be so.
#[derive(Default)]
pub struct Moments {
    /// As it was read last, with lists by their keys.
    last: Option<Value>,
    since: Option<Timestamp>,
    changes: VecDeque<Change>,
    /// The differences between these are shown, not each moment's.
    span: Option<Between>,
}

/// Two moments, seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    pub from_s: u32,
    /// `None`: now.
    pub until_s: Option<u32>,
}

struct Change {
    at_s: u32,
    /// As the object was before it.
    before: Value,
    fields: Vec<FieldDifference>,
}

impl Moments {
    /// The object was read.
    pub fn take(&mut self, object: &Value, now: Timestamp) {
        let object = by_key(object);
        let Some(last) = self.last.replace(object) else {
            self.since = Some(now);
            return;
        };
        let Some(object) = &self.last else { return };
        let mut fields = differences(&last, object, &[]);
        fields.retain(|field| field.path != COUNTED);
        if fields.is_empty() {
            return;
        }
        if self.changes.len() == MOMENTS_MAX {
            // The latest stand first.
            self.changes.pop_back();
        }
        self.changes.push_front(Change { at_s: seconds(now), before: last, fields });
    }

    /// Forgets what was read; what is compared stays.
    pub fn begin_again(&mut self) {
        *self = Self { span: self.span, ..Self::default() };
    }

    /// Shows the differences between two moments from now on, or each change again.
    pub fn compare(&mut self, span: Option<Between>) {
        self.span = span;
    }

    /// The span that is compared, where a part of it is from before the object was read here: that part.
    pub fn unread(&self) -> Option<(u32, u32)> {
        let (span, read_s) = (self.span?, seconds(self.since?));
        let until_s = span.until_s.unwrap_or(u32::MAX).min(read_s);
        (span.from_s < until_s).then_some((span.from_s, until_s))
    }

    /// As the object was at a moment, or when it was read first.
    fn at(&self, at_s: u32) -> Option<&Value> {
        let next = self.changes.iter().rev().find(|change| change.at_s > at_s);
        next.map(|change| &change.before).or(self.last.as_ref())
    }

    fn between(&self, span: Between, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
        let time = |at_s: u32| time_of_day(at_s, paint.now);
        let until = span.until_s.map_or_else(|| "NOW".to_owned(), time);
        let heading = format!("FIELDS THAT DIFFER BETWEEN {} AND {until}, TIMES ARE UTC", time(span.from_s));
        let mut lines = vec![Line::from(paint.span(Scope::Column, heading))];
        let (from, until) = (self.at(span.from_s), self.at(span.until_s.unwrap_or(u32::MAX)));
        let mut fields = match (from, until) {
            (Some(from), Some(until)) => differences(from, until, &[]),
            _ => Vec::new(),
        };
        fields.retain(|field| field.path != COUNTED);
        if fields.is_empty() {
            lines.push(Line::from(paint.span(Scope::Muted, "none, as far as it was read here")));
        }
        lines.extend(fields.iter().map(|field| Line::from(field_spans(field, paint, width))));
        lines
    }

    /// As lines, newest first.
    pub fn lines(&self, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
        let muted = |text: String| Line::from(paint.span(Scope::Muted, text));
        let Some(since) = self.since else { return vec![muted("reading the object".to_owned())] };
        if let Some(span) = self.span {
            return self.between(span, paint, width);
        }
        let since = time_of_day(seconds(since), paint.now);
        let heading = format!("FIELDS THAT CHANGED SINCE {since}, TIMES ARE UTC");
        let mut lines = vec![Line::from(paint.span(Scope::Column, heading))];
        if self.changes.is_empty() {
            lines.push(muted("none so far; this list grows while the details are open".to_owned()));
        }
        lines.extend(self.changes.iter().flat_map(|change| change.lines(paint, width)));
        lines
    }
}

fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.timestamp()).unwrap_or(0)
}

impl Change {
    /// The moment stands before its first field.
    fn lines(&self, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
        let at = crate::fleet::moment(self.at_s).map(|at| paint.age_in_list(at)).unwrap_or_default();
        let head = format!("{:<12}{at:>4}  ", time_of_day(self.at_s, paint.now));
        let indent = " ".repeat(capstan_base::text::width(&head));
        let room = width.saturating_sub(indent.len());
        let shown = self.fields.iter().take(FIELDS_MAX).enumerate();
        let mut lines: Vec<Line<'static>> = shown
            .map(|(at, field)| {
                let mut spans =
                    vec![paint.span(Scope::Muted, if at == 0 { head.clone() } else { indent.clone() })];
                spans.extend(field_spans(field, paint, room));
                Line::from(spans)
            })
            .collect();
        let more = self.fields.len().saturating_sub(FIELDS_MAX);
        if more > 0 {
            lines.push(Line::from(paint.span(Scope::Muted, format!("{indent}and {more} more"))));
        }
        lines
    }
}

/// `status.replicas  3 (was 2)`; what does not fit is cut.
fn field_spans(field: &FieldDifference, paint: &Paint<'_>, room: usize) -> Vec<Span<'static>> {
    // Items of lists were made fields by their keys, so that a dot stands before the bracket.
    let path = paint.cut_name(&field.path.replace(".[", "["), room / 2);
    let left = room.saturating_sub(capstan_base::text::width(&path) + 9);
    let (before, after) = (value(field.current.as_ref()), value(field.desired.as_ref()));
    let after_room = (left / 2).max(left.saturating_sub(capstan_base::text::width(&before)));
    let after = paint.cut(&after, after_room);
    let before = paint.cut(&before, left.saturating_sub(capstan_base::text::width(&after)));
    vec![
        paint.span(Scope::Strong, format!("{path}  ")),
        paint.span(Scope::Text, after),
        paint.span(Scope::Muted, format!(" (was {before})")),
    ]
}

fn value(value: Option<&Value>) -> String {
    match value {
        None => "unset".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "\"\"".to_owned(),
        Some(Value::String(text)) => capstan_base::text::sanitize_line(text),
        Some(other) => capstan_base::text::sanitize_line(&other.to_string()),
    }
}

/// The object with its lists of objects as objects, by what names each of them: `conditions[Ready]`.
fn by_key(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), by_key(value))).collect())
        }
        Value::Array(items) => keyed(items).unwrap_or_else(|| value.clone()),
        _ => value.clone(),
    }
}

/// `None`: not all of them have a name of their own.
fn keyed(items: &[Value]) -> Option<Value> {
    let key = KEYS.into_iter().find(|key| items.iter().all(|item| item[*key].is_string()))?;
    let named: Map<String, Value> =
        items.iter().filter_map(|item| Some((format!("[{}]", item[key].as_str()?), by_key(item)))).collect();
    (named.len() == items.len() && !items.is_empty()).then_some(Value::Object(named))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tui::theme::{Theme, Tier};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_timestamp(1_795_168_800 + second, 0).expect("a moment")
    }

    fn machine(version: &str, replicas: u32, ready: &str) -> Value {
        json!({
            "metadata": { "name": "m", "resourceVersion": version },
            "status": { "replicas": replicas, "addresses": ["10.0.0.1"], "conditions": [
                { "type": "Available", "status": "True" }, { "type": "Ready", "status": ready },
            ] },
        })
    }

    fn shown(moments: &Moments, now: Timestamp) -> Vec<String> {
        let theme = Theme::load("default", None, Tier::None, false).expect("a theme");
        let lines = moments.lines(&Paint::new(&theme, now), 100);
        lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect()
    }

    #[test]
    fn every_moment_names_the_fields_that_changed_newest_first() {
        let mut moments = Moments::default();
        moments.take(&machine("1", 2, "True"), at(0));
        moments.take(&machine("2", 2, "True"), at(1));
        assert!(shown(&moments, at(1))[1].starts_with("none so far"), "a version alone says nothing");
        moments.take(&machine("3", 3, "True"), at(5));
        moments.take(&machine("4", 4, "Unknown"), at(9));
        let lines = shown(&moments, at(9));
        assert!(lines[0].starts_with("FIELDS THAT CHANGED SINCE 10:00:00"), "{lines:?}");
        let fields: Vec<&str> = lines[1..].iter().map(|line| line[18..].trim()).collect();
        let expected = [
            "status.conditions[Ready].status  Unknown (was True)",
            "status.replicas  4 (was 3)",
            "status.replicas  3 (was 2)",
        ];
        assert_eq!(fields, expected);
        assert!(lines[1].starts_with("10:00:09") && lines[2].starts_with("   "), "{lines:?}");
    }

    #[test]
    fn two_moments_are_compared_as_a_whole() {
        let mut moments = Moments::default();
        for (second, replicas, ready) in
            [(0, 1, "True"), (10, 2, "False"), (20, 3, "Unknown"), (30, 3, "True")]
        {
            moments.take(&machine("1", replicas, ready), at(second));
        }
        let at_s = |second: i64| seconds(at(second));
        for (from, until, expected) in [
            (5, None, vec!["status.replicas  3 (was 1)"]),
            (
                15,
                Some(25),
                vec!["status.conditions[Ready].status  Unknown (was False)", "status.replicas  3 (was 2)"],
            ),
            (35, None, vec!["none, as far as it was read here"]),
        ] {
            moments.compare(Some(Between { from_s: at_s(from), until_s: until.map(at_s) }));
            let lines = shown(&moments, at(40));
            assert!(lines[0].starts_with("FIELDS THAT DIFFER BETWEEN 10:00:"), "{lines:?}");
            assert_eq!(lines[1..], expected);
            assert_eq!(moments.unread(), None);
        }
        moments.compare(Some(Between { from_s: at_s(-60), until_s: None }));
        assert_eq!(moments.unread(), Some((at_s(-60), at_s(0))), "before it was read");
        moments.compare(None);
        assert!(shown(&moments, at(40))[0].starts_with("FIELDS THAT CHANGED SINCE"));
    }

    #[test]
    fn only_so_many_moments_are_kept() {
        let mut moments = Moments::default();
        for turn in 0..=MOMENTS_MAX as u32 + 5 {
            moments.take(&machine("1", turn, "True"), at(i64::from(turn)));
        }
        assert_eq!(moments.changes.len(), MOMENTS_MAX);
        let newest = format!("status.replicas  {} (was {})", MOMENTS_MAX + 5, MOMENTS_MAX + 4);
        assert!(shown(&moments, at(400))[1].ends_with(&newest));
    }
}
