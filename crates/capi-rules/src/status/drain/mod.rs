//! Where the drain of a Node stands: which pods go now, which are going, which come later. Owns the
//! classification; must not know how pods are read or evicted.
//! Source: cluster-api `core/reconcilers/machine/drain/*.go`, v1.14.2.

mod message;
mod rules;
#[cfg(test)]
mod tests;
pub mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

use capi_types::cluster::Cluster;
use capi_types::key::{ObjectKey, controller_of};
use capi_types::machine::Machine;
use capi_types::machine_drain_rule::MachineDrainRule;
use capstan_base::time::{Timestamp, from_k8s};

pub use message::{head, refusals};

/// Pods with this label define how they leave their Node.
const DRAIN_LABEL: &str = "cluster.x-k8s.io/drain";
/// On pods that the kubelet made from its own files.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Pods that were deleted longer ago than so many whole seconds are not waited for when the Node is
/// unreachable.
const UNREACHABLE_GRACE_S: i64 = 1;

/// What came of asking for the eviction of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// It is being deleted.
    Started,
    /// There was no such pod any more.
    Gone,
    /// It was refused, in the server's words.
    Refused(String),
}

/// The evictions asked for in one round.
pub type Evictions = BTreeMap<ObjectKey, Evicted>;

/// What runs on a Node, and the rules by which it leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenants {
    /// All that are on the Node.
    pub pods: Vec<Pod>,
    /// All of the Machine's namespace; an error when they could not be read.
    pub rules: Result<Vec<Arc<MachineDrainRule>>, String>,
    /// The workload cluster's namespaces with their labels; an error when they could not be read.
    pub namespaces: Result<BTreeMap<String, BTreeMap<String, String>>, String>,
    /// Those that exist. One that could not be read counts as missing, as upstream has it.
    pub daemon_sets: BTreeSet<ObjectKey>,
}

/// What a drain is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Grounds<'a> {
    /// Its labels decide which rules count.
    pub cluster: &'a Cluster,
    /// Its labels decide which rules count.
    pub machine: &'a Machine,
    /// One that is unreachable gives its pods less time.
    pub node: &'a Node,
    /// What has to leave.
    pub tenants: &'a Tenants,
}

/// The pods of a Node that a drain cares about, each list ordered by `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// To be evicted in this round.
    pub evict: Vec<ObjectKey>,
    /// On their way out: those that were already, then those evicted in this round.
    pub terminating: Vec<ObjectKey>,
    /// Evictions of this round that were refused, by the server's words.
    pub refused: BTreeMap<String, Vec<ObjectKey>>,
    /// Waited for without eviction.
    pub completing: Vec<ObjectKey>,
    /// To be evicted when those of lower order are gone.
    pub evict_later: Vec<ObjectKey>,
    /// Waited for without eviction when those of lower order are gone.
    pub complete_later: Vec<ObjectKey>,
}

/// What a drain does with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Skip,
    Evict { order: i32 },
    WaitForCompletion,
}

impl Fate {
    /// Pods of a higher order come later; `None` for those that are not waited for.
    fn order(self) -> Option<i32> {
        match self {
            Self::Skip => None,
            Self::Evict { order } => Some(order),
            Self::WaitForCompletion => Some(0),
        }
    }
}

/// `Ready` is `Unknown`: its kubelet does not report, so its pods will not terminate.
pub fn is_unreachable(node: &Node) -> bool {
    let mut conditions = node.status.iter().filter_map(|s| s.conditions.as_ref()).flatten();
    conditions.find(|c| c.type_ == "Ready").is_some_and(|c| c.status == "Unknown")
}

/// Sorts the pods on a Node. `evictions` is what happened in this round, if it already ran.
///
/// # Errors
/// Why it is not known how the pods leave.
pub fn classify(grounds: Grounds<'_>, evictions: &Evictions, now: Timestamp) -> Result<Drain, String> {
    let pods = fates(grounds, now)?;
    // Pods on their way out count for their order: the next begins when they are gone.
    let first = pods.iter().filter_map(|(_, _, fate)| fate.order()).min();
    let mut drain = Drain::default();
    let mut evicted_now = Vec::new();
    for (key, pod, fate) in pods {
        let due = fate.order() == first;
        match (fate, evictions.get(&key)) {
            (Fate::Skip, _) => {}
            (Fate::WaitForCompletion, _) if due => drain.completing.push(key),
            (Fate::WaitForCompletion, _) => drain.complete_later.push(key),
            // Before the order: a pod that goes already is not announced for later.
            (Fate::Evict { .. }, _) if pod.metadata.deletion_timestamp.is_some() => {
                drain.terminating.push(key);
            }
            (Fate::Evict { .. }, _) if !due => drain.evict_later.push(key),
            (Fate::Evict { .. }, Some(Evicted::Gone)) => {}
            (Fate::Evict { .. }, Some(Evicted::Started)) => evicted_now.push(key),
            (Fate::Evict { .. }, Some(Evicted::Refused(words))) => {
                drain.refused.entry(words.clone()).or_default().push(key);
            }
            (Fate::Evict { .. }, None) => drain.evict.push(key),
        }
    }
    // Behind those found terminating, as upstream appends them.
    drain.terminating.extend(evicted_now);
    Ok(drain)
}

impl Drain {
    /// No pod is left that the drain waits for.
    pub fn is_complete(&self) -> bool {
        *self == Self::default()
    }

    /// Pods that have not left yet.
    pub fn left(&self) -> usize {
        let refused: usize = self.refused.values().map(Vec::len).sum();
        let lists =
            [&self.evict, &self.terminating, &self.completing, &self.evict_later, &self.complete_later];
        refused + lists.into_iter().map(Vec::len).sum::<usize>()
    }
}

/// Every pod with what becomes of it, ordered by `namespace/name`. Rules and namespaces matter only
/// when there are pods.
fn fates(grounds: Grounds<'_>, now: Timestamp) -> Result<Vec<(ObjectKey, &Pod, Fate)>, String> {
    let Tenants { pods, rules, namespaces, daemon_sets } = grounds.tenants;
    // A drain that is over must not fail on rules that cannot be read.
    if pods.is_empty() {
        return Ok(Vec::new());
    }
    let unread = |what: &str, error: &String| format!("{what} could not be read: {error}");
    let rules = rules.as_ref().map_err(|error| unread("MachineDrainRules", error))?;
    let rules = rules::applicable(rules, grounds.machine, grounds.cluster)?;
    let namespaces = namespaces.as_ref().map_err(|error| unread("Namespaces", error))?;
    let unreachable = is_unreachable(grounds.node);
    let mut judged = Vec::new();
    for pod in pods {
        let key = ObjectKey::of(pod);
        let fate = match own_fate(pod, daemon_sets, unreachable.then_some(now)) {
            Some(fate) => fate,
            None => match namespaces.get(&key.namespace) {
                // Rules may select by its labels, and a guess could evict what has to stay.
                None => return Err(format!("the Namespace of Pod {key} does not exist")),
                Some(labels) => rules::fate(&rules, pod, labels)?,
            },
        };
        judged.push((key, pod, fate));
    }
    judged.sort_by_cached_key(|(key, _, _)| format!("{}/{}", key.namespace, key.name));
    Ok(judged)
}

/// What follows from the pod alone; `None` when the rules decide. `unreachable_at` is the present when
/// the Node does not report.
fn own_fate(pod: &Pod, daemon_sets: &BTreeSet<ObjectKey>, unreachable_at: Option<Timestamp>) -> Option<Fate> {
    let deleted = pod.metadata.deletion_timestamp.as_ref().map(from_k8s);
    let is_stuck = |(now, at): (Timestamp, Timestamp)| (now - at).num_seconds() > UNREACHABLE_GRACE_S;
    // The kubelet that confirms the end of such a pod does not run, so waiting would not end.
    if unreachable_at.zip(deleted).is_some_and(is_stuck) {
        return Some(Fate::Skip);
    }
    let finished =
        matches!(pod.status.as_ref().and_then(|s| s.phase.as_deref()), Some("Succeeded" | "Failed"));
    // A finished pod of a DaemonSet is evicted, and so is a pod whose DaemonSet is gone.
    let set = controller_of(pod).filter(|owner| owner.kind == "DaemonSet" && !finished);
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    if set.is_some_and(|owner| daemon_sets.contains(&ObjectKey::new(namespace, &owner.name))) {
        return Some(Fate::Skip);
    }
    // The kubelet makes it again from its file, so an eviction would change nothing.
    if pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR)) {
        return Some(Fate::Skip);
    }
    let label = pod.metadata.labels.as_ref()?.get(DRAIN_LABEL)?;
    if label.eq_ignore_ascii_case("skip") {
        return Some(Fate::Skip);
    }
    // As in a rule, or with a dash, as labels are usually written.
    label.replacen('-', "", 1).eq_ignore_ascii_case("waitcompleted").then_some(Fate::WaitForCompletion)
}
