//! Pods on Nodes: what an eviction comes to, and when a Node is empty. Must not
//! know which pods a drain cares about; `status::drain` does.
//!
//! A pod that leaves comes back on another Node, if there is one to run on; from then on its budget has room again. Of a
//! cluster whose pods were not read, each Node has one pod that leaves in the usual time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use capi_rules::status::drain::{Evicted, Tenants};
use capi_types::key::{ObjectKey, controller_of};
use capi_types::machine_drain_rule::MachineDrainRule;
use capstan_base::time::{Timestamp, to_k8s};
use capstan_physics::eviction::{self, Budgets};

/// Where the pod of a Node is whose pods were not read.
const UNREAD: &str = "default";

/// Pods by Node, and budgets.
#[derive(Clone, Debug, Default)]
pub(super) struct Tenancy {
    /// `None`: they were not read.
    pods: Option<BTreeMap<String, Vec<Pod>>>,
    budgets: Budgets,
    /// Of a Node whose pods were not read, none are waited for.
    pub is_empty: bool,
    /// Nodes whose pods were not read and do not leave.
    pub held: BTreeSet<String>,
    /// Nodes whose pod was not read and has left.
    emptied: BTreeSet<String>,
    /// Nodes whose pod was not read and is leaving, since when.
    leaving: BTreeMap<String, Timestamp>,
}

/// What an eviction came to.
pub(super) struct EvictionResult {
    pub evicted: Evicted,
    /// How long the pod takes to end; `None`: the usual time.
    pub grace_s: Option<i64>,
}

impl Tenancy {
    /// Pods and budgets as they were read.
    pub(super) fn of_pods(pods: Vec<Pod>, budgets: Vec<PodDisruptionBudget>) -> Self {
        let mut by_node: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
        for pod in pods {
            if let Some(node) = pod.spec.as_ref().and_then(|s| s.node_name.clone()) {
                by_node.entry(node).or_default().push(pod);
            }
        }
        Self { pods: Some(by_node), budgets: Budgets::new(budgets), ..Self::default() }
    }

    /// What a drain of the Node looks at.
    pub(super) fn of(&self, node: &str, rules: &[Arc<MachineDrainRule>]) -> Tenants {
        let pods = match &self.pods {
            Some(pods) => pods.get(node).cloned().unwrap_or_default(),
            // Known to be empty; a Node that is held has a pod even so, which is what holds it.
            None if self.is_empty && !self.held.contains(node) => Vec::new(),
            None if self.emptied.contains(node) => Vec::new(),
            None => vec![self.unread(node)],
        };
        let named = |pod: &Pod| {
            let name = pod.metadata.namespace.clone().unwrap_or_default();
            (name.clone(), BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name)]))
        };
        let namespaces = pods.iter().map(named).collect();
        let daemon_set = |pod: &Pod| {
            let owner = controller_of(pod).filter(|owner| owner.kind == "DaemonSet")?;
            Some(ObjectKey::new(ObjectKey::of(pod).namespace, &owner.name))
        };
        let daemon_sets = pods.iter().filter_map(daemon_set).collect();
        Tenants { pods, rules: Ok(rules.to_vec()), namespaces: Ok(namespaces), daemon_sets }
    }

    fn unread(&self, node: &str) -> Pod {
        let metadata = ObjectMeta {
            name: Some(node.to_owned()),
            namespace: Some(UNREAD.to_owned()),
            deletion_timestamp: self.leaving.get(node).map(|at| to_k8s(*at)),
            ..ObjectMeta::default()
        };
        Pod { metadata, ..Pod::default() }
    }

    /// Asks for the eviction of a pod from a Node.
    pub(super) fn evict(&mut self, node: &str, key: &ObjectKey, now: Timestamp) -> EvictionResult {
        let Some(pods) = &mut self.pods else {
            // In the words of a budget, as the drain reads refusals.
            if self.held.contains(node) {
                let evicted = Evicted::Refused(eviction::no_room(node, 1, 1));
                return EvictionResult { evicted, grace_s: None };
            }
            // A second eviction must not move the deletion time of a pod that goes already.
            self.leaving.entry(node.to_owned()).or_insert(now);
            return EvictionResult { evicted: Evicted::Started, grace_s: None };
        };
        let Some(pod) =
            pods.get_mut(node).and_then(|pods| pods.iter_mut().find(|p| ObjectKey::of(*p) == *key))
        else {
            return EvictionResult { evicted: Evicted::Gone, grace_s: None };
        };
        if let Err(hold) = self.budgets.evict(pod) {
            return EvictionResult { evicted: Evicted::Refused(hold.answer()), grace_s: None };
        }
        pod.metadata.deletion_timestamp = Some(to_k8s(now));
        EvictionResult { evicted: Evicted::Started, grace_s: Some(eviction::grace_s(pod)) }
    }

    /// A pod that was evicted has left its Node. `elsewhere`: another Node takes its place.
    pub(super) fn leave(&mut self, node: &str, key: &ObjectKey, elsewhere: Option<&str>) {
        let Some(pods) = &mut self.pods else {
            self.leaving.remove(node);
            self.emptied.insert(node.to_owned());
            return;
        };
        let Some(here) = pods.get_mut(node) else { return };
        let Some(at) = here.iter().position(|pod| ObjectKey::of(pod) == *key) else { return };
        let mut pod = here.remove(at);
        // Without another Node the pod does not run again, and its budget gets no room back.
        let Some(elsewhere) = elsewhere else { return };
        // The same pod stands for its successor: a controller would make it anew.
        pod.metadata.deletion_timestamp = None;
        if let Some(spec) = &mut pod.spec {
            spec.node_name = Some(elsewhere.to_owned());
        }
        self.budgets.runs_again(&pod);
        pods.entry(elsewhere.to_owned()).or_default().push(pod);
    }

    /// The Node is gone, and what ran there comes to an end.
    pub(super) fn forget(&mut self, node: &str) {
        self.emptied.remove(node);
        self.leaving.remove(node);
        if let Some(pods) = &mut self.pods {
            pods.remove(node);
        }
    }

    /// What would refuse the eviction of a pod on the Node, in words.
    pub(super) fn holding(&self, node: &str) -> Vec<String> {
        let here = self.pods.iter().flat_map(|pods| pods.get(node)).flatten();
        let held = |pod: &Pod| Some(self.budgets.hold(pod)?.sentence(&ObjectKey::of(pod)));
        here.filter_map(held).collect()
    }
}
