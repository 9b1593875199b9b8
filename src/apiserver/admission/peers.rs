//! Other objects that a rule looks at: which ones it asks for, and what was found. Owns the question
//! and the answer; must not know where objects are kept.

use serde_json::Value;

use super::value::text;

/// Objects to look up before a rule can be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub group: String,
    pub kind: String,
    /// Empty: all namespaces.
    pub namespace: String,
    /// Empty: every object.
    pub name: String,
}

impl Need {
    pub(super) fn of(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
        Self { group, kind, namespace, name }
    }
}

/// What was found for one need.
#[derive(Clone, Debug)]
pub enum Found {
    /// No such kind is served, so nothing can be said about its objects.
    NotServed,
    /// In key order; at most one when a name was asked for.
    Objects(Vec<Value>),
}

/// The answers to the needs of one request.
#[derive(Clone, Debug, Default)]
pub struct Known(Vec<(Need, Found)>);

/// One object that a rule looks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sought<'a> {
    NotServed,
    Missing,
    Here(&'a Value),
}

impl Known {
    pub fn add(&mut self, need: Need, found: Found) {
        self.0.push((need, found));
    }

    /// The object of this name. One that was never asked for is missing.
    pub(super) fn one(&self, kind: &str, namespace: &str, name: &str) -> Sought<'_> {
        let needs = |need: &Need| need.kind == kind && need.namespace == namespace && need.name == name;
        match self.0.iter().find(|(need, _)| needs(need)) {
            Some((_, Found::NotServed)) => Sought::NotServed,
            Some((_, Found::Objects(objects))) => objects.first().map_or(Sought::Missing, Sought::Here),
            None => Sought::Missing,
        }
    }

    /// Every object of a kind that was asked for without a name.
    pub(super) fn all(&self, kind: &str) -> &[Value] {
        match self.0.iter().find(|(need, _)| need.kind == kind && need.name.is_empty()) {
            Some((_, Found::Objects(objects))) => objects,
            _ => &[],
        }
    }
}

/// `namespace/name` of an object.
pub(super) fn full_name(object: &Value) -> String {
    format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}
