//! CEL rules (`x-kubernetes-validations`) of one schema node, compiled once.
//! Owns the border to the CEL engine; must not know schemas beyond the JSON of its node.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/cel/validation.go`, v0.35.
//! Intended difference: no cost budget; the engine has no cost model.

use std::fmt;

use kube::core::cel::{CompiledSchema, ErrorKind, Validator, compile_schema};
use serde_json::{Value, json};

use super::{Cause, Node, Path};
use crate::apiserver::failure::CauseReason;

const RULES: &str = "x-kubernetes-validations";

/// The rules of one node. Those of nodes below it are compiled there.
pub(super) struct Rules {
    compiled: CompiledSchema,
    /// How upstream prints the value of a failed rule on a composite.
    type_word: &'static str,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rules", self.compiled.validations.len())
    }
}

/// Compiles the rules of `node` and everything below it; complaints go to `causes`.
pub(super) fn install(node: &mut Node, schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    node.rules = Rules::compile(schema, at, causes).map(Box::new);
    for (name, child) in &mut node.properties {
        install(child, &schema["properties"][name], &format!("{at}.properties[{name}]"), causes);
    }
    for (key, child) in [("items", &mut node.items), ("additionalProperties", &mut node.additional)] {
        if let Some(child) = child {
            install(child, &schema[key], &format!("{at}.{key}"), causes);
        }
    }
    let children = node.properties.values().chain(node.items.as_deref()).chain(node.additional.as_deref());
    node.has_rules = node.rules.is_some() || children.into_iter().any(|child| child.has_rules);
}

impl Rules {
    /// Complaints about rules that cannot be compiled go to `causes`.
    fn compile(schema: &Value, at: &str, causes: &mut Vec<Cause>) -> Option<Self> {
        let rules = schema.get(RULES)?.as_array().filter(|rules| !rules.is_empty())?;
        let mut own = schema.clone();
        own.as_object_mut().into_iter().flat_map(|map| map.iter_mut()).for_each(|(key, child)| {
            if key != RULES {
                strip_rules(child);
            }
        });
        let compiled = compile_schema(&own);
        for (index, result) in compiled.validations.iter().enumerate() {
            if let Err(error) = result {
                let rule = rules.get(index).and_then(|rule| rule.get("rule")).cloned().unwrap_or_default();
                let detail = format!("compilation failed: {error}");
                causes.push(Cause::invalid(format!("{at}.{RULES}[{index}].rule"), &rule, &detail));
            }
        }
        let type_word =
            if schema.get("type").and_then(Value::as_str) == Some("array") { "array" } else { "object" };
        Some(Self { compiled, type_word })
    }

    fn check(&self, engine: &Validator, path: &Path<'_>, value: &Value, old: Option<&Value>) -> Vec<Cause> {
        let Err(errors) = engine.validate_compiled(&self.compiled, value, old) else { return Vec::new() };
        let shown = if value.is_object() || value.is_array() { json!(self.type_word) } else { value.clone() };
        errors
            .into_vec()
            .into_iter()
            .map(|error| {
                let field = match (path, error.field_path.as_str()) {
                    (path, "") => path.or_nil(),
                    (Path::Root, below) => below.to_owned(),
                    (path, below) => format!("{path}.{below}"),
                };
                let reason = reason(error.reason.as_deref());
                let detail = match error.kind {
                    ErrorKind::ValidationFailure => error.message,
                    _ => format!("{} (rule: {})", error.message, error.rule),
                };
                Cause { reason, ..Cause::invalid(field, &shown, &detail) }
            })
            .collect()
    }
}

fn reason(word: Option<&str>) -> CauseReason {
    match word {
        Some("FieldValueRequired") => CauseReason::FieldValueRequired,
        Some("FieldValueForbidden") => CauseReason::FieldValueForbidden,
        Some("FieldValueDuplicate") => CauseReason::FieldValueDuplicate,
        _ => CauseReason::FieldValueInvalid,
    }
}

fn strip_rules(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove(RULES);
            map.values_mut().for_each(strip_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_rules),
        _ => {}
    }
}

/// Evaluates all rules below `node`. Rules on parts that did not change are skipped, unless they
/// compare with the old value.
pub(super) fn check(node: &Node, value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if node.has_rules {
        // Not shared: the engine's context cannot cross threads. Cheap next to a write that has rules.
        let engine = Validator::new();
        walk(&engine, node, Path::Root, value, old, &mut causes);
    }
    causes
}

fn walk(
    engine: &Validator,
    node: &Node,
    path: Path<'_>,
    value: &Value,
    old: Option<&Value>,
    out: &mut Vec<Cause>,
) {
    if !node.has_rules || old == Some(value) {
        return;
    }
    if let Some(rules) = &node.rules {
        out.extend(rules.check(engine, &path, value, old));
    }
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                if let Some(below) = node.properties.get(key).or(node.additional.as_deref()) {
                    walk(engine, below, path.key(key), child, old.and_then(|o| o.get(key)), out);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                walk(engine, below, path.index(index), item, node.old_item(item, old), out);
            }
        }
        _ => {}
    }
}
