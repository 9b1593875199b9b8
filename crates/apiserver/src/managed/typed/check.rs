//! Does a value fit its shape? Source: structured-merge-diff v6 `typed/{validate,helpers}.go`.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::managed::element::Element;
use crate::managed::topology::{Collection, Form, Kind, ListForm, MapForm, Shape};
use k8s_machinery::validation::cause::cut;

/// Nothing more is looked for once so much does not fit.
const PROBLEMS_MAX: usize = 1_000;

/// Where a value is; its text is made only for an error.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, &'a Element),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(parent, name) => write!(f, "{parent}.{}", cut(name)),
            Path::Item(parent, step) => write!(f, "{parent}{step}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Everything that does not fit, each with its path: wrong types, undeclared fields, duplicate items.
pub fn check(shape: Shape<'_>, value: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    walk(shape, value, Path::Root, &mut problems);
    problems
}

fn walk(shape: Shape<'_>, value: &Value, path: Path<'_>, problems: &mut Vec<String>) {
    // Null fits every shape, as upstream: it stands for no value.
    if value.is_null() || problems.len() >= PROBLEMS_MAX {
        return;
    }
    match shape.form(Some(value)) {
        Form::Scalar(kind) => problems.extend(kind.complaint(value).map(|why| at(path, &why))),
        Form::Map(map) => fields(map, value, path, problems),
        Form::Atomic(Collection::Map) => fields(MapForm::of(shape), value, path, problems),
        Form::List(list) => items(list, value, path, problems),
        Form::Atomic(Collection::List) => {
            let Some(items) = value.as_array() else {
                return problems.push(at(path, &expected("list", value)));
            };
            for (index, item) in items.iter().enumerate() {
                walk(shape.item(), item, Path::Index(&path, index), problems);
            }
        }
    }
}

fn at(path: Path<'_>, problem: &str) -> String {
    if matches!(path, Path::Root) { problem.to_owned() } else { format!("{path}: {problem}") }
}

fn expected(what: &str, found: &Value) -> String {
    format!("expected {what}, got &{{{found}}}")
}

fn fields(map: MapForm<'_>, value: &Value, path: Path<'_>, problems: &mut Vec<String>) {
    let Some(object) = value.as_object() else { return problems.push(at(path, &expected("map", value))) };
    for (name, value) in object {
        let path = Path::Field(&path, name);
        let Some(shape) = map.field(name) else {
            // Upstream goes no further in a map once it has a field that the schema does not know.
            problems.push(at(path, "field not declared in schema"));
            return;
        };
        walk(shape, value, path, problems);
    }
}

fn items(list: ListForm<'_>, value: &Value, path: Path<'_>, problems: &mut Vec<String>) {
    let Some(items) = value.as_array() else { return problems.push(at(path, &expected("list", value))) };
    let mut seen: BTreeSet<Element> = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let step = match list.step(item) {
            Ok(step) => step,
            Err(why) => return problems.push(at(path, &format!("element {index}: {why}"))),
        };
        if seen.contains(&step) {
            problems.push(at(path, &format!("duplicate entries for key {step}")));
        }
        walk(list.item(), item, Path::Item(&path, &step), problems);
        // The path above borrows the step, so it becomes known only now.
        seen.insert(step);
    }
}

impl Kind {
    fn complaint(self, value: &Value) -> Option<String> {
        let fits = match self {
            Self::Numeric => value.is_number(),
            Self::Text => value.is_string(),
            Self::Boolean => value.is_boolean(),
            Self::Untyped => !value.is_array() && !value.is_object(),
        };
        (!fits).then(|| match self {
            Self::Numeric => format!("expected numeric (int or float), got {}", go_type(value)),
            Self::Text => format!("expected string, got &value.valueUnstructured{{Value:{value}}}"),
            Self::Boolean => expected("boolean", value),
            Self::Untyped => expected("any scalar", value),
        })
    }
}

/// As Go prints the type of decoded JSON.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
