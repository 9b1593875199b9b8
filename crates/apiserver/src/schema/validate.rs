//! Judging a value by its schema, in upstream's words. Changes nothing.
//!
//! Source: kube-openapi `pkg/validation/{validate,errors}`, apiextensions-apiserver
//! `pkg/apiserver/validation/{validation,ratcheting}.go` and `schema/listtype/validation.go`, v0.35.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{Cause, Checks, ListType, Node, Path, Type, embedded, lists, rules, type_word};
use k8s_machinery::validation::cause::CauseReason;

/// Nothing more is looked for once so much is wrong.
const CAUSES_MAX: usize = 1_000;

/// A whole object: schema first, then embedded objects and keyed lists, then rules, which only run when
/// the rest is satisfied enough.
pub(super) fn object(root: &Node, value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    node(root, Path::Root, value, old, &mut causes);
    if root.has_keyed_lists {
        causes.extend(embedded::check(root, value));
        causes.extend(lists::check(root, value, old));
    }
    with_rules(root, value, old, causes)
}

/// A write of the status alone. Paths in messages start below `status`, as upstream's do.
pub(super) fn status(root: &Node, value: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let (Some(schema), Some(status)) = (root.properties.get("status"), value.get("status")) {
        node(schema, Path::Root, status, old.get("status"), &mut causes);
    }
    for cause in &mut causes {
        cause.field = match cause.field.as_str() {
            "<nil>" => "status".to_owned(),
            below => format!("status.{below}"),
        };
    }
    if root.has_keyed_lists {
        causes.extend(lists::check(root, value, Some(old)));
    }
    with_rules(root, value, Some(old), causes)
}

fn with_rules(root: &Node, value: &Value, old: Option<&Value>, mut causes: Vec<Cause>) -> Vec<Cause> {
    // A rule relies on types, required fields and sizes, and would fail in other words without
    // them.
    if root.has_rules && causes.iter().any(blocks_rules) {
        causes.push(Cause::invalid(
            "<nil>",
            &Value::Null,
            "some validation rules were not checked because the object was invalid; correct the existing errors to \
             complete validation",
        ));
    } else if root.has_rules {
        causes.extend(rules::check(root, value, old));
    }
    causes
}

/// A value without history, such as a default.
pub(super) fn value(schema: &Node, value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    node(schema, Path::Root, value, None, &mut causes);
    causes
}

/// Path, type wanted and type found of the first value with a wrong type or a malformed date.
pub(super) fn first_type_error(schema: &Node, value: &Value, at: &str) -> Option<(String, String, String)> {
    let mut found = None;
    type_errors(schema, Path::Root, value, &mut |path, wanted, got| {
        let path = match (at, path.to_string()) {
            ("", path) => path,
            (at, path) if path.is_empty() => at.to_owned(),
            (at, path) => format!("{at}.{path}"),
        };
        found.get_or_insert((path, wanted.to_owned(), got.to_owned()));
    });
    found
}

fn type_errors(schema: &Node, path: Path<'_>, value: &Value, report: &mut dyn FnMut(Path<'_>, &str, &str)) {
    if value.is_null() {
        return;
    }
    if !schema.type_.accepts(value) {
        return report(path, schema.type_.word(), type_word(value));
    }
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                if let Some(below) = schema.properties.get(key).or(schema.additional.as_deref()) {
                    type_errors(below, path.key(key), child, report);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = &schema.items else { return };
            items.iter().enumerate().for_each(|(i, item)| type_errors(below, path.index(i), item, report));
        }
        Value::String(text) => {
            let format = schema.checks.as_ref().and_then(|checks| checks.format.as_ref());
            if format.is_some_and(|format| !format.accepts_text(text)) {
                report(path, "Time", "malformed string");
            }
        }
        _ => {}
    }
}

fn blocks_rules(cause: &Cause) -> bool {
    matches!(
        cause.reason,
        CauseReason::FieldValueRequired
            | CauseReason::FieldValueNotSupported
            | CauseReason::FieldValueTooLong
            | CauseReason::FieldValueTooMany
            | CauseReason::FieldValueTypeInvalid
    )
}

fn node(schema: &Node, path: Path<'_>, value: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    // As upstream's ratcheting, what did not change is not judged again: a schema may have become
    // stricter.
    if out.len() >= CAUSES_MAX || old == Some(value) {
        return;
    }
    if value.is_null() && (schema.nullable || schema.type_ == Type::Any) {
        // Nothing but the enumeration applies to a null.
        if let Some(checks) = &schema.checks {
            checks.one_of_the_values(path, value, out);
        }
        return;
    }
    if !schema.type_.accepts(value) {
        return out.push(wrong_type(path, schema.type_.word(), value));
    }
    if let Some(checks) = &schema.checks {
        checks.apply(schema, path, value, out);
    }
    match value {
        Value::Object(map) => fields(schema, path, map, old, out),
        Value::Array(items) => {
            let Some(below) = &schema.items else { return };
            let old_items = schema.old_items(old);
            for (index, item) in items.iter().enumerate() {
                node(below, path.index(index), item, old_items.of(item), out);
            }
        }
        _ => {}
    }
}

fn fields(
    schema: &Node,
    path: Path<'_>,
    map: &Map<String, Value>,
    old: Option<&Value>,
    out: &mut Vec<Cause>,
) {
    for (key, child) in map {
        // Metadata has rules of its own; the schema may not say much about it.
        if schema.embedded && key == "metadata" {
            continue;
        }
        if let Some(below) = schema.properties.get(key).or(schema.additional.as_deref()) {
            node(below, path.key(key), child, old.and_then(|old| old.get(key)), out);
        }
    }
}

/// The items of an old list by their keys: none, but for keyed lists.
pub(super) struct OldItems<'a> {
    keys: &'a [String],
    items: HashMap<Vec<Option<&'a Value>>, &'a Value>,
}

impl Node {
    pub(super) fn old_items<'a>(&'a self, old: Option<&'a Value>) -> OldItems<'a> {
        let (ListType::Map(keys), Some(Value::Array(old))) = (&self.list, old) else {
            return OldItems { keys: &[], items: HashMap::new() };
        };
        let mut items = HashMap::with_capacity(old.len());
        for item in old {
            // Of items with one key the first is the old one.
            items.entry(keys_of(keys, item)).or_insert(item);
        }
        OldItems { keys, items }
    }
}

impl<'a> OldItems<'a> {
    /// The one that corresponds to `item`.
    pub(super) fn of(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() { None } else { self.items.get(&keys_of(self.keys, item)).copied() }
    }
}

fn keys_of<'a>(keys: &[String], item: &'a Value) -> Vec<Option<&'a Value>> {
    keys.iter().map(|key| item.get(key)).collect()
}

fn wrong_type(path: Path<'_>, wanted: &str, value: &Value) -> Cause {
    let found = type_word(value);
    let detail = format!("{path} in body must be of type {wanted}: \"{found}\"");
    Cause::type_invalid(path.or_nil(), &Value::from(found), &detail)
}

impl Checks {
    fn apply(&self, schema: &Node, path: Path<'_>, value: &Value, out: &mut Vec<Cause>) {
        match value {
            Value::String(text) => self.string(path, text, out),
            Value::Number(_) => self.number(path, value, out),
            Value::Array(items) => self.array(path, items.len(), out),
            Value::Object(map) => self.object(path, map, out),
            _ => {}
        }
        self.one_of_the_values(path, value, out);
        self.junctors(path, value, out);
        debug_assert!(schema.type_.accepts(value), "types are checked first");
    }

    fn one_of_the_values(&self, path: Path<'_>, value: &Value, out: &mut Vec<Cause>) {
        // 1 and 1.0 are one value here.
        let same = |known: &Value| known == value || (known.is_number() && known.as_f64() == value.as_f64());
        if self.enumeration.is_empty() || self.enumeration.iter().any(same) {
            return;
        }
        let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
        let supported: Vec<String> = self.enumeration.iter().map(text).collect();
        out.push(Cause::not_supported(path.or_nil(), value, &supported));
    }

    fn string(&self, path: Path<'_>, text: &str, out: &mut Vec<Cause>) {
        let value = || Value::from(text);
        // Upstream counts characters here, although its message speaks of bytes.
        let length = || text.chars().count() as u64;
        if let Some(max) = self.length_max.filter(|max| length() > *max) {
            out.push(Cause::too_long(path.or_nil(), max));
        }
        if let Some(min) = self.length_min.filter(|min| length() < *min) {
            out.push(invalid(path, &value(), &format!("should be at least {min} chars long")));
        }
        if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            out.push(invalid(path, &value(), &format!("should match '{pattern}'")));
        }
        if let Some(format) = self.format.as_ref().filter(|format| !format.accepts_text(text)) {
            let detail = format!("{path} in body must be of type {}: {}", format.word, value());
            out.push(Cause::type_invalid(path.or_nil(), &value(), &detail));
        }
    }

    fn number(&self, path: Path<'_>, value: &Value, out: &mut Vec<Cause>) {
        let number = value.as_f64().unwrap_or(f64::NAN);
        if let Some(format) = self.format.as_ref().filter(|format| !format.accepts_number(value)) {
            let type_ = if format.word.starts_with("int") { "integer" } else { "number" };
            let detail =
                format!("Checked value must be of type {type_} with format {} in {path}", format.word);
            out.push(of_the_whole(&detail));
        }
        if let Some((min, excluded)) =
            self.minimum.filter(|(min, out)| number < *min || (*out && number <= *min))
        {
            let or_equal = if excluded { "" } else { " or equal to" };
            out.push(invalid(path, value, &format!("should be greater than{or_equal} {min}")));
        }
        if let Some((max, excluded)) =
            self.maximum.filter(|(max, out)| number > *max || (*out && number >= *max))
        {
            let or_equal = if excluded { "" } else { " or equal to" };
            out.push(invalid(path, value, &format!("should be less than{or_equal} {max}")));
        }
        // As upstream: a whole number is held against the whole part of the factor.
        let factor = self.multiple_of.map(|factor| if value.is_f64() { factor } else { factor.trunc() });
        match factor {
            Some(factor) if factor <= 0.0 => {
                let detail = format!("factor MultipleOf declared for {path} must be positive: {factor}");
                out.push(Cause::invalid(path.or_nil(), value, &detail));
            }
            Some(factor) if !is_multiple(value, number, factor) => {
                out.push(invalid(path, value, &format!("should be a multiple of {factor}")));
            }
            _ => {}
        }
    }

    fn array(&self, path: Path<'_>, length: usize, out: &mut Vec<Cause>) {
        if let Some(max) = self.items_max.filter(|max| length as u64 > *max) {
            out.push(Cause::too_many(path.or_nil(), length, max));
        }
        if let Some(min) = self.items_min.filter(|min| (length as u64) < *min) {
            out.push(invalid(path, &json!(length), &format!("should have at least {min} items")));
        }
    }

    fn object(&self, path: Path<'_>, map: &Map<String, Value>, out: &mut Vec<Cause>) {
        for key in self.required.iter().filter(|key| !map.contains_key(*key)) {
            out.push(Cause::required(path.key(key).to_string(), ""));
        }
        let count = map.len();
        if let Some(max) = self.properties_max.filter(|max| count as u64 > *max) {
            out.push(Cause::too_many(path.or_nil(), count, max));
        }
        if let Some(min) = self.properties_min.filter(|min| (count as u64) < *min) {
            out.push(invalid(path, &json!(count), &format!("should have at least {min} properties")));
        }
    }

    fn junctors(&self, path: Path<'_>, value: &Value, out: &mut Vec<Cause>) {
        let problems = |branch: &Node| {
            let mut causes = Vec::new();
            // Without the old value: which part of a branch is unchanged does not say which branch
            // holds.
            node(branch, path, value, None, &mut causes);
            causes
        };
        let complain = |what: &str| of_the_whole(&format!("\"{path}\" {what}"));
        // The branch with the fewest problems is most likely the one that was meant.
        let least = |found: Vec<Vec<Cause>>| found.into_iter().min_by_key(Vec::len).unwrap_or_default();
        if !self.any_of.is_empty() {
            let found: Vec<_> = self.any_of.iter().map(problems).collect();
            if !found.iter().any(Vec::is_empty) {
                out.push(complain("must validate at least one schema (anyOf)"));
                out.append(&mut least(found));
            }
        }
        if !self.one_of.is_empty() {
            let found: Vec<_> = self.one_of.iter().map(problems).collect();
            match found.iter().filter(|causes| causes.is_empty()).count() {
                1 => {}
                0 => {
                    out.push(complain("must validate one and only one schema (oneOf). Found none valid"));
                    out.append(&mut least(found));
                }
                n => out.push(complain(&format!(
                    "must validate one and only one schema (oneOf). Found {n} valid alternatives"
                ))),
            }
        }
        let found: Vec<_> = self.all_of.iter().map(problems).collect();
        if found.iter().any(|causes| !causes.is_empty()) {
            let none = if found.iter().any(Vec::is_empty) { "" } else { ". None validated" };
            out.extend(found.into_iter().flatten());
            out.push(complain(&format!("must validate all the schemas (allOf){none}")));
        }
        if self.not.as_ref().is_some_and(|not| problems(not).is_empty()) {
            out.push(complain("must not validate the schema (not)"));
        }
    }
}

/// A complaint that upstream cannot place: it names the path in its words only.
fn of_the_whole(detail: &str) -> Cause {
    Cause::invalid("<nil>", &json!(""), detail)
}

fn invalid(path: Path<'_>, value: &Value, what: &str) -> Cause {
    Cause::invalid(path.or_nil(), value, &format!("{path} in body {what}"))
}

/// Source: kube-openapi of Kubernetes 1.36 `pkg/validation/validate/values.go` (`MultipleOf`, `MultipleOfInt`).
fn is_multiple(value: &Value, number: f64, factor: f64) -> bool {
    match value.as_i64() {
        // `number` has cut off the factor's fraction and refused what is not above zero.
        Some(whole) => whole % (factor as i64) == 0,
        // Divided by a part of one, 0.3 would not be a multiple of 0.1.
        None if factor < 1.0 => is_nearly_whole(1.0 / factor * number),
        None => is_nearly_whole(number / factor),
    }
}

/// Source: go-openapi swag 0.23.0 `convert.go` (`IsFloat64AJSONInteger`), which allows what lies a little above a whole number, and
/// nothing below it or below zero.
fn is_nearly_whole(number: f64) -> bool {
    const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;
    const ERROR_MAX: f64 = 1e-9;
    let below = number.trunc();
    number.abs() <= WHOLE_MAX
        && (number.fract() == 0.0 || below > 0.0 && (number - below) / (number + below) < ERROR_MAX)
}
