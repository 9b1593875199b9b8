//! How rules about objects are asked: what a write is, which other objects a rule has to know, and what a refusal
//! says. The API server asks through [`Admission`] and knows no rule; the rules of Cluster API are in
//! `capi_rules::admission`. Must not know stores, schemas or a kind.

use std::fmt;

use serde_json::Value;

use super::validation::cause::Cause;

/// A write of an object through its main endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub group: &'a str,
    pub kind: &'a str,
    /// The stored object; `None` on create.
    pub old: Option<&'a Value>,
    pub dry_run: bool,
}

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
    pub fn of(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
        Self { group, kind, namespace, name }
    }
}

/// What was found for one need.
#[derive(Clone, Debug)]
pub enum Found {
    /// No such kind is served, so its objects are not known.
    NotServed,
    /// In key order; at most one when a name was asked for.
    Objects(Vec<Value>),
}

/// The answers to the needs of one request.
#[derive(Clone, Debug, Default)]
pub struct Known(Vec<(Need, Found)>);

/// One object that a rule looks for.
#[derive(Clone, Copy, Debug)]
pub enum Sought<'a> {
    NotServed,
    Missing,
    Here(&'a Value),
}

impl Known {
    pub fn add(&mut self, need: Need, found: Found) {
        self.0.push((need, found));
    }

    /// The object of this name. One that was never asked for is missing.
    pub fn one(&self, kind: &str, namespace: &str, name: &str) -> Sought<'_> {
        let needs = |need: &Need| need.kind == kind && need.namespace == namespace && need.name == name;
        match self.0.iter().find(|(need, _)| needs(need)) {
            Some((_, Found::NotServed)) => Sought::NotServed,
            Some((_, Found::Objects(objects))) => objects.first().map_or(Sought::Missing, Sought::Here),
            None => Sought::Missing,
        }
    }

    /// Every object of a kind that was asked for without a name.
    pub fn all(&self, kind: &str) -> &[Value] {
        match self.0.iter().find(|(need, _)| need.kind == kind && need.name.is_empty()) {
            Some((_, Found::Objects(objects))) => objects,
            _ => &[],
        }
    }
}

/// Why a write is refused, and by which of upstream's webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// As upstream names it: `validation.machine.cluster.x-k8s.io`.
    pub webhook: String,
    pub why: RefusalReason,
}

/// The three ways in which webhooks refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The object is not valid: 422 with these causes.
    Invalid { group: &'static str, kind: String, name: String, causes: Vec<Cause> },
    /// 403 with one sentence, without the object's name.
    Denied(String),
    /// 403 about the object: the kind stands where others have a resource, as upstream.
    Forbidden { group: String, kind: String, name: String, why: String },
}

impl Refusal {
    /// What is wrong, one text for each finding.
    pub fn findings(&self) -> Vec<String> {
        match &self.why {
            RefusalReason::Invalid { causes, .. } => causes.iter().map(Cause::to_string).collect(),
            RefusalReason::Denied(why) | RefusalReason::Forbidden { why, .. } => vec![why.clone()],
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.findings().join("; "))
    }
}

/// Rules about objects beyond their schema: defaults, and what is refused. A kind without rules is admitted, so
/// each method is that by default.
pub trait Admission: Send + Sync + 'static {
    /// Fills in what the kind's defaulting webhook would: after decoding, before validation.
    ///
    /// # Errors
    /// What the webhook denies.
    fn mutate(&self, _: &Request<'_>, _new: &mut Value) -> Result<(), Refusal> {
        Ok(())
    }

    /// The objects that [`Admission::check`] has to know for this write.
    fn needs(&self, _: &Request<'_>, _new: &Value) -> Vec<Need> {
        Vec::new()
    }

    /// Refuses what the kind's validating webhook would: after schema validation. Answers with warnings.
    ///
    /// # Errors
    /// One cause per finding, or a sentence.
    fn check(&self, _: &Request<'_>, _new: &Value, _: &Known) -> Result<Vec<String>, Refusal> {
        Ok(Vec::new())
    }

    /// The objects that [`Admission::check_delete`] has to know. The object is read only for kinds that have some.
    fn needs_for_delete(&self, _group: &str, _kind: &str) -> Vec<Need> {
        Vec::new()
    }

    /// Refuses the deletion of what is in use.
    ///
    /// # Errors
    /// The users' names.
    fn check_delete(&self, _group: &str, _kind: &str, _object: &Value, _: &Known) -> Result<(), Refusal> {
        Ok(())
    }

    /// Refuses a change through the scale subresource, which no other rule is asked about.
    ///
    /// # Errors
    /// Upstream's sentence.
    fn check_scale(&self, _group: &str, _kind: &str, _object: &Value, _replicas: i64) -> Result<(), Refusal> {
        Ok(())
    }
}

/// No rules at all: everything that its schema allows is admitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdmitAll;

impl Admission for AdmitAll {}
