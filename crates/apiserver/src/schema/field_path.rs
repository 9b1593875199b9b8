//! Simple paths into a schema, as rules and selectable fields use them: `.spec.name`, `.labels['a.b']`.
//! Knows only JSON schemas.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/cel/validation.go` (`ValidFieldPath`), v0.36.

use serde_json::Value;

/// A path that leads somewhere.
#[derive(Debug, PartialEq)]
pub(super) struct Found<'a> {
    /// As complaints print it: `spec.labels[a.b]`.
    pub(super) path: String,
    pub(super) schema: &'a Value,
}

/// Follows `path` into `schema`. `brackets` allows `['name']`.
///
/// # Errors
/// Why it leads nowhere, in upstream's words.
pub(super) fn resolve<'a>(path: &str, schema: &'a Value, brackets: bool) -> Result<Found<'a>, String> {
    let mut found = Found { path: String::new(), schema };
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            if end == 0 && after.is_empty() {
                return Err("unexpected end of JSON path".to_owned());
            }
            found.step(&after[..end])?;
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            if !brackets {
                return Err("array notation is not allowed".to_owned());
            }
            let (name, after) = quoted(after)?;
            found.step(&name)?;
            rest = after;
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        }
    }
    Ok(found)
}

impl Found<'_> {
    fn step(&mut self, name: &str) -> Result<(), String> {
        let nowhere = || "does not refer to a valid field".to_owned();
        if let Some(properties) = self.schema.get("properties").and_then(Value::as_object) {
            self.schema = properties.get(name).ok_or_else(nowhere)?;
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(name);
        } else {
            let additional = self.schema.get("additionalProperties").filter(|a| a.is_object());
            self.schema = additional.ok_or_else(nowhere)?;
            self.path.push_str(&format!("[{name}]"));
        }
        Ok(())
    }
}

/// After `[`: a name in single quotes and `]`.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let wrong = || format!("expected single quoted string but got {text}");
    let inner = text.strip_prefix('\'').ok_or_else(wrong)?;
    let mut name = String::new();
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => {
                let rest = inner[at + 1..].strip_prefix(']');
                return rest.map(|rest| (name, rest)).ok_or_else(|| "expected ]".to_owned());
            }
            '\\' => match chars.next() {
                Some((_, c @ ('\'' | '\\'))) => name.push(c),
                Some((_, c)) => return Err(format!("invalid string literal: invalid escape char \\{c}")),
                None => return Err(wrong()),
            },
            c => name.push(c),
        }
    }
    Err(wrong())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_declared_fields_only() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"a.b": {"type": "string"}, "name": {"type": "string"}}},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        }});
        for (path, expected) in [
            (".spec.name", Ok("spec.name")),
            (".spec['a.b']", Ok("spec.a.b")),
            (".map.x", Ok("map[x]")),
            (".map['x']", Ok("map[x]")),
            (".spec.nope", Err("does not refer to a valid field")),
            (".spec.name.more", Err("does not refer to a valid field")),
            ("spec", Err("expected [ or . but got: spec")),
            (".", Err("unexpected end of JSON path")),
            (".spec[0]", Err("expected single quoted string but got 0]")),
            (".spec['x", Err("expected single quoted string but got 'x")),
        ] {
            let found = resolve(path, &schema, true);
            assert_eq!(found.map(|f| f.path), expected.map(str::to_owned).map_err(str::to_owned), "{path}");
        }
        assert_eq!(resolve(".map['x']", &schema, false).unwrap_err(), "array notation is not allowed");
    }
}
