//! The order of a list that changes under the eyes of a person: made again only after a change by which it is made, and
//! kept as it is while somebody is at the keys. Owns when; must not know how rows are compared, nor how they are drawn.

use std::ops::Deref;

use rustc_hash::FxHashSet;

use crate::fleet::{By, Changes, Fleet, Kind, Query, RowId};
use crate::status::verdict::Verdict;

/// The clusters of a list, in their order.
#[derive(Default)]
pub struct Order {
    ids: Vec<RowId>,
    /// Whether and why it has to be made again.
    due: Due,
    /// How often it was made.
    sorts: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Nothing,
    /// What the rows are ordered by changed.
    Places,
    /// Rows came or went.
    Rows,
    /// A person asked for another order or another choice.
    #[default]
    Asked,
}

impl Deref for Order {
    type Target = [RowId];

    fn deref(&self) -> &[RowId] {
        &self.ids
    }
}

impl Order {
    /// A person asked for another order, or for other rows.
    pub fn ask(&mut self) {
        self.due = Due::Asked;
    }

    /// The fleet changed.
    pub fn note(&mut self, changes: &Changes, query: &Query) {
        let is_chosen = !query.text.trim().is_empty() || query.at_least.0 != Verdict::Ok;
        let by_column = matches!(query.sort.by, By::Column(_));
        let by_verdict = query.sort.by == By::Verdict;
        let due = match (changes.overview || changes.is_replaced, changes.verdicts, changes.cluster_rows) {
            (true, ..) => Due::Rows,
            (_, true, _) | (_, _, true) if is_chosen => Due::Rows,
            (_, true, _) if by_verdict => Due::Places,
            (_, _, true) if by_column => Due::Places,
            _ => Due::Nothing,
        };
        self.due = self.due.max(due);
    }

    /// It will change as soon as nobody is at the keys.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.due != Due::Nothing
    }

    /// Makes it again where that is due. While `is_held`, rows keep their places: those that went leave, those that
    /// came stand at the end. Answers whether it changed.
    pub fn refresh(&mut self, fleet: &Fleet, query: &Query, is_held: bool) -> bool {
        let is_held = is_held && self.due < Due::Asked;
        if self.due == Due::Nothing || (is_held && self.due == Due::Places) {
            return false;
        }
        let ids = fleet.select(Kind::Cluster, None, query);
        self.sorts += 1;
        if is_held {
            self.replace(ids);
            // The places are still to be made.
            self.due = Due::Places;
        } else {
            self.ids = ids;
            self.due = Due::Nothing;
        }
        true
    }

    fn replace(&mut self, ids: Vec<RowId>) {
        let wanted: FxHashSet<RowId> = ids.iter().copied().collect();
        self.ids.retain(|id| wanted.contains(id));
        let known: FxHashSet<RowId> = self.ids.iter().copied().collect();
        self.ids.extend(ids.into_iter().filter(|id| !known.contains(id)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::api::key::Gvk;
    use crate::fleet::decode::{Decoder, Slim};
    use crate::fleet::{Delta, Row, Sort, SourceId};

    fn row(kind: &str, name: &str, cluster: &str, spec: Value, conditions: Value) -> Arc<Row> {
        let gvk = Gvk {
            group: "cluster.x-k8s.io".to_owned(),
            version: "v1beta2".to_owned(),
            plural: String::new(),
            kind: kind.to_owned(),
            namespaced: true,
        };
        let object = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("{kind}/{name}"), "creationTimestamp":
                         "2026-01-01T00:00:00Z", "labels": {"cluster.x-k8s.io/cluster-name": cluster}},
            "spec": spec, "status": {"initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
                                     "conditions": conditions},
        });
        let slim: Slim = serde_json::from_value(object).expect("any object decodes");
        Arc::new(Decoder::for_kind(SourceId(0), gvk, Arc::default()).row(&slim))
    }

    fn cluster(name: &str, reachable: bool) -> Delta {
        let (status, reason) = if reachable { ("True", "ProbeSucceeded") } else { ("False", "ProbeFailed") };
        let probe = json!([{"type": "RemoteConnectionProbe", "status": status, "reason": reason,
                            "lastTransitionTime": "2026-01-02T00:00:00Z"}]);
        Delta::Upsert(row("Cluster", name, name, json!({}), probe))
    }

    fn machine(name: &str, cluster: &str, message: &str) -> Delta {
        let ready = json!([{"type": "Ready", "status": "True", "reason": "Ready", "message": message}]);
        Delta::Upsert(row("Machine", name, cluster, json!({}), ready))
    }

    struct List {
        fleet: Fleet,
        order: Order,
        query: Query,
    }

    impl List {
        fn of(names: &[&str]) -> Self {
            let sort = Sort { by: By::Verdict, reverse: false };
            let query = Query { sort, ..Query::default() };
            let mut list = Self { fleet: Fleet::new(), order: Order::default(), query };
            list.fleet.advance(crate::time::parse_rfc3339("2026-02-01T00:00:00Z").expect("a moment"));
            list.apply(names.iter().map(|name| cluster(name, true)).collect());
            list.order.refresh(&list.fleet, &list.query, false);
            list
        }

        fn apply(&mut self, deltas: Vec<Delta>) {
            let changes = self.fleet.apply(deltas);
            self.order.note(&changes, &self.query);
        }

        fn names(&mut self, is_held: bool) -> Vec<String> {
            self.order.refresh(&self.fleet, &self.query, is_held);
            self.order.iter().map(|id| self.fleet.row(*id).expect("there").name.to_string()).collect()
        }
    }

    #[test]
    fn changes_that_turn_no_verdict_cost_no_sort() {
        let mut list = List::of(&["a", "b", "c"]);
        list.apply(vec![machine("m", "b", "")]);
        let sorts = list.order.sorts;
        for at in 0..100 {
            list.apply(vec![machine("m", "b", &format!("{at}"))]);
            assert_eq!(list.names(false), ["a", "b", "c"]);
        }
        assert_eq!(list.order.sorts, sorts, "no sort for a hundred changes");
        list.apply(vec![cluster("b", false)]);
        assert_eq!(list.names(false), ["b", "a", "c"]);
        assert_eq!(list.order.sorts, sorts + 1);
    }

    #[test]
    fn rows_keep_their_places_while_somebody_is_at_the_keys() {
        let mut list = List::of(&["a", "b", "c"]);
        list.apply(vec![cluster("c", false)]);
        assert_eq!(list.names(true), ["a", "b", "c"], "worse, and where it was");
        assert!(list.order.is_waiting());
        let uid = list.fleet.row(list.order[0]).expect("there").uid;
        list.apply(vec![cluster("aa", true), Delta::Remove { source: SourceId(0), uid }]);
        assert_eq!(list.names(true), ["b", "c", "aa"], "what went leaves, what came is last");
        assert_eq!(list.names(false), ["c", "aa", "b"]);
        assert!(!list.order.is_waiting());
    }

    #[test]
    fn what_a_person_asks_for_is_done_at_once() {
        let mut list = List::of(&["a", "b"]);
        list.query.sort.reverse = true;
        list.query.sort.by = By::Name;
        list.order.ask();
        assert_eq!(list.names(true), ["b", "a"]);
    }
}
