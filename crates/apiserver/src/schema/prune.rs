//! Making an object fit its schema: dropping what is not declared, dropping nulls, filling defaults.
//! Must not judge values; that is `validate`.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/{pruning,defaulting}/algorithm.go`, v0.35.

use serde_json::Value;

use super::decode::FINDINGS_MAX;
use super::{Node, Path, native};

/// Fields every whole object has, declared or not.
const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Node {
    /// Drops fields the schema does not declare; answers with their paths.
    pub fn prune(&self, value: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        self.prune_at(value, Path::Root, self.preserve_unknown, &mut unknown);
        unknown
    }

    fn prune_at(&self, value: &mut Value, path: Path<'_>, preserve: bool, unknown: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                map.retain(|key, child| {
                    let at = path.key(key);
                    if self.embedded && OBJECT_FIELDS.contains(&key.as_str()) {
                        // Metadata has upstream's own schema, whatever the definition says of it.
                        if key == "metadata" {
                            native::metadata().prune_at(child, at, false, unknown);
                        }
                        return true;
                    }
                    match self.properties.get(key).or(self.additional.as_deref()) {
                        Some(node) => node.prune_at(child, at, node.preserve_unknown, unknown),
                        None if preserve => {}
                        None => {
                            if unknown.len() < FINDINGS_MAX {
                                unknown.push(at.to_string());
                            }
                            return false;
                        }
                    }
                    true
                });
            }
            Value::Array(items) => {
                let Some(node) = &self.items else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    node.prune_at(item, path.index(index), node.preserve_unknown, unknown);
                }
            }
            _ => {}
        }
    }

    /// Drops nulls that may not be there. One with a default waits for it; see `apply_defaults`.
    pub fn drop_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(map) => map.retain(|key, child| {
                if self.embedded && key == "metadata" {
                    native::metadata().drop_nulls(child);
                    return !child.is_null();
                }
                match self.properties.get(key).or(self.additional.as_deref()) {
                    Some(node) if child.is_null() => {
                        node.nullable || node.default.is_some() || node.preserve_unknown
                    }
                    Some(node) => {
                        node.drop_nulls(child);
                        true
                    }
                    None => true,
                }
            }),
            Value::Array(items) => {
                if let Some(node) = &self.items {
                    items.iter_mut().for_each(|item| node.drop_nulls(item));
                }
            }
            _ => {}
        }
    }

    /// Fills what is missing, in every object that is there. Parents are not created, unless they
    /// have a default themselves. `left`: so many bytes may still come; `None` once there was no room for one, and nothing
    /// comes then: each item of a list may get the same large default.
    pub fn apply_defaults(&self, value: &mut Value, left: &mut Option<usize>) {
        if !self.has_defaults {
            return;
        }
        match value {
            Value::Object(map) => {
                for (name, node) in self.properties.iter().filter(|(_, node)| node.has_defaults) {
                    // Upstream decodes metadata into a Go type, which has no defaults from a
                    // schema.
                    if self.embedded && name == "metadata" {
                        continue;
                    }
                    let missing = match map.get(name) {
                        None => true,
                        Some(Value::Null) => !node.nullable,
                        Some(_) => false,
                    };
                    if missing && let Some(default) = node.default_within(left) {
                        map.insert(name.clone(), default);
                    }
                    if let Some(child) = map.get_mut(name) {
                        node.apply_defaults(child, left);
                    }
                }
                if let Some(node) = self.additional.as_deref().filter(|node| node.has_defaults) {
                    let undeclared = map.iter_mut().filter(|(key, _)| !self.properties.contains_key(*key));
                    undeclared.for_each(|(_, child)| node.fill(child, left));
                }
            }
            Value::Array(items) => {
                if let Some(node) = &self.items {
                    items.iter_mut().for_each(|item| node.fill(item, left));
                }
            }
            _ => {}
        }
    }

    /// A map value or list item: a null becomes the default, anything else is descended into.
    fn fill(&self, value: &mut Value, left: &mut Option<usize>) {
        if value.is_null()
            && !self.nullable
            && let Some(default) = self.default_within(left)
        {
            *value = default;
        }
        self.apply_defaults(value, left);
    }

    /// The default, while there is room for it.
    fn default_within(&self, left: &mut Option<usize>) -> Option<Value> {
        let default = self.default.as_ref()?;
        *left = left.and_then(|left| left.checked_sub(self.default_bytes));
        left.is_some().then(|| default.clone())
    }
}
