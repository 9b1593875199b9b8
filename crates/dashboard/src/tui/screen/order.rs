//! The order of a list that changes under the eyes of a person: made again only after a change by which it is made, and
//! kept as it is while somebody is at the keys; a row that improves keeps its place for a moment more. Owns when; must not know how rows are compared, nor how they are drawn.

use std::ops::Deref;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::fleet::Verdict;
use crate::fleet::{By, Candidate, Changes, Fleet, Listed, Query, RowId, Texts};

/// A row that improves keeps its place for so long, seconds.
const IMPROVED_S: u32 = 10;

/// The objects of a list, in their order.
#[derive(Default)]
pub struct Order {
    of: Listed,
    ids: Vec<RowId>,
    /// How many rows there are without a filter.
    total: usize,
    /// By which verdict each row that is not well has its place. Those that are well cannot improve.
    places: FxHashMap<RowId, Standing>,
    /// What the filter looks at.
    texts: Texts,
    /// The places are those of a fleet of which everything was listed once.
    is_live: bool,
    /// Whether and why it has to be made again.
    due: Due,
    /// How often it was made.
    sorts: usize,
}

#[derive(Clone, Copy)]
struct Standing {
    verdict: Verdict,
    /// The row is better meanwhile and keeps its place until then, seconds since the epoch; 0: it is not.
    kept_until_s: u32,
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
    pub fn of(of: Listed) -> Self {
        Self { of, ..Self::default() }
    }

    /// How many rows there are without a filter.
    pub fn total(&self) -> usize {
        self.total
    }

    /// A person asked for another order, or for other rows.
    pub fn ask(&mut self, query: &Query) {
        self.due = Due::Asked;
        if query.text.trim().is_empty() {
            self.texts.clear();
        }
    }

    pub fn note(&mut self, changes: &Changes, query: &Query) {
        self.texts.note(changes);
        let is_of_clusters = self.of == Listed::Clusters;
        let by_column = matches!(query.sort.by, By::Column(_) | By::Since);
        let by_verdict = matches!(query.sort.by, By::Verdict | By::Since);
        let has_other_rows = changes.overview || changes.is_replaced || (!is_of_clusters && changes.members);
        let has_other_cells = if is_of_clusters { changes.cluster_rows } else { changes.rows > 0 };
        // Words are looked for in the reason as well, which comes from what is below.
        let has_other_text = has_other_cells || !changes.lines.is_empty();
        let due = match (has_other_rows, changes.verdicts, has_other_cells) {
            (true, ..) => Due::Rows,
            (_, true, _) if query.is_choosy() => Due::Rows,
            _ if has_other_text && query.is_choosy() => Due::Rows,
            (_, true, _) if by_verdict => Due::Places,
            (_, _, true) if by_column => Due::Places,
            _ => Due::Nothing,
        };
        self.due = self.due.max(due);
    }

    /// It will change as soon as nobody is at the keys.
    pub fn is_waiting(&self, now_s: u32) -> bool {
        self.is_due() || self.kept_until_s().is_some_and(|until_s| until_s <= now_s)
    }

    /// It has to be made again.
    pub fn is_due(&self) -> bool {
        self.due != Due::Nothing
    }

    /// When the next row that improved takes its place, seconds since the epoch.
    pub fn kept_until_s(&self) -> Option<u32> {
        self.places.values().map(|place| place.kept_until_s).filter(|until_s| *until_s != 0).min()
    }

    /// Makes it again where that is due. While `is_held`, rows keep their places: those that went leave, those that
    /// came stand at the end. Answers whether it changed.
    pub fn refresh(&mut self, fleet: &Fleet, query: &Query, is_held: bool) -> bool {
        if self.due == Due::Nothing && self.is_waiting(fleet.now_s()) {
            self.due = Due::Places;
        }
        let is_held = is_held && self.due < Due::Asked;
        if self.due == Due::Nothing || (is_held && self.due == Due::Places) {
            return false;
        }
        // Who asks for another order wants to see it: no row keeps a place of the one before.
        // While the first lists are read, a row only seems to improve.
        if self.due == Due::Asked || !self.is_live {
            self.places.clear();
        }
        self.is_live = fleet.is_live();
        let mut candidates = fleet.candidates(self.of, query, &mut self.texts);
        self.total = candidates.total;
        let places = candidates.all.iter_mut().filter_map(|c| Some((c.id, self.place(c, fleet.now_s())?)));
        self.places = places.collect();
        let ids = candidates.select(query);
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

    /// Where a row belongs, which one that just improved counts for as it was; `None` where the well ones are.
    fn place(&self, candidate: &mut Candidate<'_>, now_s: u32) -> Option<Standing> {
        let verdict = candidate.verdict;
        let as_it_is =
            if verdict == Verdict::Ok { None } else { Some(Standing { verdict, kept_until_s: 0 }) };
        let Some(was) = self.places.get(&candidate.id).filter(|was| was.verdict > verdict) else {
            return as_it_is;
        };
        let kept_until_s =
            if was.kept_until_s == 0 { now_s.saturating_add(IMPROVED_S) } else { was.kept_until_s };
        if now_s >= kept_until_s {
            return as_it_is;
        }
        candidate.verdict = was.verdict;
        Some(Standing { verdict: was.verdict, kept_until_s })
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
    use crate::fleet::decode::{Decoder, Slim};
    use crate::fleet::{Delta, FeedKey, FeedState, Row, Sort, SourceId};
    use capi_types::key::Gvk;

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
            list.fleet.advance(capstan_base::time::parse_rfc3339("2026-02-01T00:00:00Z").expect("a moment"));
            list.apply(names.iter().map(|name| cluster(name, true)).collect());
            list.order.refresh(&list.fleet, &list.query, false);
            list
        }

        /// Everything was listed.
        fn live(names: &[&str]) -> Self {
            let mut list = Self::of(names);
            let feed =
                FeedKey { source: SourceId(0), group: "cluster.x-k8s.io".into(), kind: "Cluster".into() };
            let at = capstan_base::time::parse_rfc3339("2026-02-01T00:00:00Z").expect("a moment");
            list.apply(vec![Delta::Feed { feed, state: FeedState::Live, at }]);
            list.order.refresh(&list.fleet, &list.query, false);
            list
        }

        fn apply(&mut self, deltas: Vec<Delta>) {
            let changes = self.fleet.apply(deltas);
            self.order.note(&changes, &self.query);
        }

        fn is_waiting(&self) -> bool {
            self.order.is_waiting(self.fleet.now_s())
        }

        fn pass(&mut self, seconds: i64) {
            let now = i64::from(self.fleet.now_s()) + seconds;
            let changes =
                self.fleet.advance(capstan_base::time::Timestamp::from_timestamp(now, 0).expect("a moment"));
            self.order.note(&changes, &self.query);
        }

        fn names(&mut self, is_held: bool) -> Vec<String> {
            self.order.refresh(&self.fleet, &self.query, is_held);
            self.order.iter().map(|id| self.fleet.row(*id).expect("there").name.to_string()).collect()
        }
    }

    #[test]
    fn changes_that_turn_no_verdict_cost_no_sort() {
        let mut list = List::live(&["a", "b", "c"]);
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
        let mut list = List::live(&["a", "b", "c"]);
        list.apply(vec![cluster("c", false)]);
        assert_eq!(list.names(true), ["a", "b", "c"], "worse, and where it was");
        assert!(list.is_waiting());
        let uid = list.fleet.row(list.order[0]).expect("there").uid;
        list.apply(vec![cluster("aa", true), Delta::Remove { source: SourceId(0), uid }]);
        assert_eq!(list.names(true), ["b", "c", "aa"], "what went leaves, what came is last");
        assert_eq!(list.names(false), ["c", "aa", "b"]);
        assert!(!list.is_waiting());
    }

    #[test]
    fn a_row_that_improves_keeps_its_place_for_ten_seconds() {
        let mut list = List::live(&["a", "b", "c"]);
        list.apply(vec![cluster("c", false)]);
        assert_eq!(list.names(false), ["c", "a", "b"]);
        list.apply(vec![cluster("c", true)]);
        list.pass(15);
        let id = list.order[0];
        assert_eq!(list.fleet.verdict(id), Verdict::Ok, "it is well again");
        assert_eq!(list.names(false), ["c", "a", "b"]);
        assert!(!list.is_waiting());
        list.pass(9);
        assert_eq!(list.names(false), ["c", "a", "b"]);
        list.pass(1);
        assert!(list.is_waiting(), "it goes without another change");
        assert_eq!(list.names(false), ["a", "b", "c"]);
        assert_eq!(list.order.kept_until_s(), None);
    }

    /// After a start clusters stood between worse ones for ten seconds, because they had been worse by half of the lists.
    #[test]
    fn nothing_improves_while_the_first_lists_are_read() {
        let mut list = List::of(&["a", "b", "c"]);
        list.apply(vec![cluster("c", false)]);
        assert_eq!(list.names(false), ["c", "a", "b"]);
        list.apply(vec![cluster("c", true)]);
        assert_eq!(list.names(false), ["a", "b", "c"], "it only seemed to be worse");
    }

    #[test]
    fn shelved_rows_stand_below_all_others() {
        let mut list = List::live(&["a", "b", "c"]);
        list.apply(vec![cluster("a", false)]);
        assert_eq!(list.names(false), ["a", "b", "c"]);
        let id = list.order[0];
        list.fleet.shelve(id, 3600, "known").expect("it is broken");
        list.order.ask(&list.query);
        assert_eq!(list.names(true), ["b", "c", "a"]);
    }

    #[test]
    fn what_a_person_asks_for_is_done_at_once() {
        let mut list = List::live(&["a", "b"]);
        list.query.sort.reverse = true;
        list.query.sort.by = By::Name;
        list.order.ask(&list.query);
        assert_eq!(list.names(true), ["b", "a"]);
    }
}
