//! The Nodes of one workload cluster, kept by watch, found by name and by provider ID. Must not know who asks.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;

use crate::client::{Cache, Index};
use capi_types::names::label::NODE_ROLE_CONTROL_PLANE;
use k8s_machinery::lease::Fence;

/// Terms that are remembered at most; what is forgotten costs a list.
const TERMS_MAX: usize = 32;

/// What identifies a Node to the controllers that look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    pub name: String,
    pub provider_id: Option<String>,
    /// It has, or just had, the label of control plane Nodes.
    pub is_control_plane: bool,
}

impl NodeIdentity {
    pub fn of(node: &Node) -> Self {
        let labels = node.metadata.labels.as_ref();
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            provider_id: provider_id(node).map(str::to_owned),
            is_control_plane: labels.is_some_and(|labels| labels.contains_key(NODE_ROLE_CONTROL_PLANE)),
        }
    }
}

/// Cheap to clone; all clones read the same Nodes.
#[derive(Clone)]
pub struct Nodes {
    pub cache: Cache<Node>,
    by_provider_id: Index<Node>,
    /// The holdings of Leases under which a list was begun by a process that led.
    terms: Arc<Mutex<Vec<Vec<Fence>>>>,
}

impl Nodes {
    /// Empty until the watch fills them, whose first list is read in `term`; `None` while this process does not lead.
    pub fn listed_in(term: Option<Vec<Fence>>) -> Self {
        let cache = Cache::new();
        let by_provider_id =
            Index::new(&cache, |node| provider_id(node).map(str::to_owned).into_iter().collect());
        Self { cache, by_provider_id, terms: Arc::new(Mutex::new(term.into_iter().collect())) }
    }

    /// Has them listed anew, unless that was done in this term. A process that waited for its turn may have followed a watch
    /// that ended without a word, and would take for gone what joined meanwhile.
    pub fn renew_in(&self, term: Vec<Fence>) {
        let mut terms = self.terms.lock();
        if terms.contains(&term) {
            return;
        }
        if terms.len() == TERMS_MAX {
            terms.remove(0);
        }
        terms.push(term);
        self.cache.renew();
    }

    /// Those with a provider ID, by name. More than one is a mistake in the cluster.
    pub fn with_provider_id(&self, id: &str) -> Vec<Arc<Node>> {
        self.by_provider_id.get(id)
    }
}

/// `spec.providerID`.
pub fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use capi_types::key::ObjectKey;

    fn node(name: &str, id: Option<&str>) -> Node {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"providerID": id}}))
            .expect("a Node")
    }

    #[test]
    fn each_term_has_them_listed_once() {
        let term = |transitions| {
            vec![Fence { namespace: "n".into(), name: "l".into(), uid: "u".into(), transitions }]
        };
        for (first, lists) in [(None, [1, 1, 2, 2]), (Some(term(1)), [0, 0, 1, 1])] {
            let nodes = Nodes::listed_in(first);
            for (transitions, lists) in [1, 1, 2, 1].into_iter().zip(lists) {
                nodes.renew_in(term(transitions));
                assert_eq!(nodes.cache.progress().renewals.0, lists, "{transitions}");
            }
        }
        let alone = Nodes::listed_in(Some(Vec::new()));
        alone.renew_in(Vec::new());
        assert!(alone.cache.progress().renewals.0 == 0, "who needs no Lease leads from the start");
    }

    #[test]
    fn nodes_are_found_by_the_provider_id_they_have_now() {
        let nodes = Nodes::listed_in(None);
        let found = |id: &str| -> Vec<String> {
            nodes.with_provider_id(id).iter().filter_map(|node| node.metadata.name.clone()).collect()
        };
        nodes.cache.upsert(node("b", Some("x")));
        nodes.cache.upsert(node("a", None));
        assert_eq!((found("x"), found("y")), (vec!["b".to_owned()], vec![]));
        nodes.cache.upsert(node("a", Some("x")));
        assert_eq!(found("x"), ["a", "b"]);
        nodes.cache.upsert(node("b", Some("y")));
        assert_eq!((found("x"), found("y")), (vec!["a".to_owned()], vec!["b".to_owned()]));
        nodes.cache.remove(&ObjectKey::new("", "a"));
        assert_eq!(found("x"), Vec::<String>::new());
    }
}
