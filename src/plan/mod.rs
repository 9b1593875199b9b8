//! What should happen next, why, and why not yet: pure functions from `Observed` and `now` to a plan.
//! Owns decisions; must not know a client, a runtime, a clock, or chance.

pub mod bootstrap;
pub mod cluster;
pub mod control_plane;
pub mod deployment;
pub mod drain;
pub mod evidence;
pub mod machine;
pub mod machine_set;
pub mod naming;
pub mod ownership;
pub mod provider;
pub mod sweep;
pub mod template;
pub mod version;

use std::fmt;
use std::time::Duration;

use kube::Resource;
use serde::Serialize;
use serde_json::Value;

use crate::api::key::{ObjectKey, ObjectRef};
use crate::api::merge::merge_diff;
use crate::time::Timestamp;
use evidence::Evidence;

/// The next writes for one object, what holds it back, and when to look again if nothing changes.
///
/// Planners do not fail, they block: what could not be read is a blocker with its reason. Steps run in
/// order and stop at the first failure. `S` is [`Step`] unless a kind needs steps of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<S = Step> {
    pub steps: Vec<S>,
    pub blockers: Vec<Blocker>,
    /// The soonest moment at which time alone could change the plan.
    pub recheck: Option<Duration>,
    /// So long not even a change is looked at: the next look is due after it.
    pub hold: Option<Duration>,
}

impl<S> Default for Plan<S> {
    fn default() -> Self {
        Self { steps: Vec::new(), blockers: Vec::new(), recheck: None, hold: None }
    }
}

impl<S> Plan<S> {
    /// Nothing to do, and nothing in the way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.steps.is_empty() && self.blockers.is_empty()
    }

    pub fn block(&mut self, rule: impl Rule) {
        self.blockers.push(Blocker { evidence: rule.evidence(), reason: rule.into() });
    }

    /// Looks again after `delay` at the latest.
    pub fn recheck_within(&mut self, delay: Duration) {
        self.recheck = Some(self.recheck.map_or(delay, |old| old.min(delay)));
    }

    /// Looks again after `delay`, not earlier.
    pub fn hold_for(&mut self, delay: Duration) {
        self.hold = Some(self.hold.map_or(delay, |old| old.max(delay)));
    }

    /// Another rule's part of the plan, after what is there.
    pub fn extend(&mut self, other: Self) {
        self.steps.extend(other.steps);
        self.blockers.extend(other.blockers);
        if let Some(delay) = other.recheck {
            self.recheck_within(delay);
        }
        if let Some(delay) = other.hold {
            self.hold_for(delay);
        }
    }
}

impl Plan<Step> {
    pub fn step(&mut self, write: Write, reason: impl Into<Reason>) {
        self.steps.push(Step { write, reason: reason.into() });
    }
}

/// Why: the name of the rule that spoke, and one sentence.
///
/// Rules are closed enums per kind that implement [`Rule`]; this is their erased form, so that plans of
/// different kinds can stand in one list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    pub rule: &'static str,
    pub sentence: String,
}

/// A typed reason: `Display` is the sentence.
pub trait Rule: fmt::Display {
    /// A stable name in kebab case, such as `waiting-for-infrastructure`.
    fn name(&self) -> &'static str;

    /// Where the reason can be seen, for one that holds something back.
    fn evidence(&self) -> Vec<Evidence> {
        Vec::new()
    }
}

impl<R: Rule> From<R> for Reason {
    fn from(rule: R) -> Self {
        Self { rule: rule.name(), sentence: rule.to_string() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// One reason for waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    pub reason: Reason,
    pub evidence: Vec<Evidence>,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

/// One write and why it is due.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub write: Write,
    pub reason: Reason,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.write, self.reason)
    }
}

/// What a step does. Data only; `controllers::apply` performs it.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Creates the object of this reference from its full content. One that exists already is a failure.
    Create { object: ObjectRef, content: Value },
    /// JSON merge patch of metadata and spec. Guarded by the uid of the reference, when it has one.
    Patch { object: ObjectRef, body: Value },
    /// JSON merge patch of the status subresource.
    PatchStatus { object: ObjectRef, body: Value },
    /// Deletes in the background. One that is gone already is fine.
    Delete { object: ObjectRef },
    /// A Kubernetes event about the object.
    Event { about: ObjectRef, warning: bool, reason: &'static str, message: String },
    /// A call into the workload cluster of the Cluster with this key.
    Workload { cluster: ObjectKey, call: WorkloadCall },
}

impl Write {
    /// Creates a typed object.
    #[must_use]
    pub fn create<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Self {
        Self::Create { object: ObjectRef::of(object), content: to_value(object) }
    }

    /// Makes `after` of `before`; `None` when they are the same.
    #[must_use]
    pub fn difference<K: Resource<DynamicType = ()> + Serialize>(before: &K, after: &K) -> Option<Self> {
        let body = merge_diff(&to_value(before), &to_value(after))?;
        Some(Self::Patch { object: ObjectRef::of(before), body })
    }
}

/// Typed objects always serialise: their maps have text keys.
fn to_value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// A change inside a workload cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadCall {
    /// Merge patch of a Node; a resource version in `body` guards it.
    PatchNode { node: String, body: Value },
    /// Evicts the pods in order, for at most ten seconds. Whatever comes of it is an outcome, not a
    /// failure. Without a grace period the pods have their own.
    Evict { node: String, pods: Vec<ObjectKey>, grace_period_s: Option<u32> },
    /// `must`: a failure stops the plan; else it is reported and passed over.
    DeleteNode { node: String, must: bool },
    /// Creates a join token, or gives it a new end.
    StoreToken { token: String, expires: Timestamp },
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { object, .. } => write!(f, "create {object}"),
            Self::Patch { object, .. } => write!(f, "patch {object}"),
            Self::PatchStatus { object, .. } => write!(f, "patch the status of {object}"),
            Self::Delete { object } => write!(f, "delete {object}"),
            Self::Event { about, reason, .. } => write!(f, "report {reason} on {about}"),
            Self::Workload { cluster, call } => write!(f, "{call} in Cluster {cluster}"),
        }
    }
}

impl fmt::Display for WorkloadCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evict { node, pods, .. } => write!(f, "evict {} pods from Node {node}", pods.len()),
            Self::DeleteNode { node, .. } => write!(f, "delete Node {node}"),
            // Only the public half: the other is a secret.
            Self::StoreToken { token, .. } => write!(f, "store join token {}", bootstrap::token_id(token)),
            Self::PatchNode { node, .. } => write!(f, "patch Node {node}"),
        }
    }
}
