//! Rule tables in the spirit of structured-merge-diff's `merge/*_test.go`: who did what in turn, then
//! the object and its owners.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::apply::{ApplyError, apply};
use super::entries::{Entries, Operation, same_but_time};
use super::typed::tests::{schema, values};
use super::update::update;
use super::{Author, PathSet, Rules, Shape};
use crate::schema::Schema;

/// An object and the text of its managed fields, as they come out of each step.
struct Timeline {
    schema: Schema,
    reset: PathSet,
    object: Option<Value>,
    managed: String,
    clock: u32,
}

fn serves(version: &str) -> bool {
    version != "gone/v1"
}

impl Timeline {
    fn new() -> Self {
        Self { schema: schema(), reset: PathSet::default(), object: None, managed: String::new(), clock: 0 }
    }

    fn rules(&self) -> Rules<'_> {
        Rules {
            shape: Shape::Schema(&self.schema.root),
            reset: &self.reset,
            serves: &serves,
            reconcile: false,
        }
    }

    fn now(&mut self) -> String {
        self.clock += 1;
        format!("2026-01-01T00:00:{:02}Z", self.clock)
    }

    /// Answers with whether the object changed, or with conflicts as `manager path`. A null wants
    /// nothing at all.
    fn try_apply(&mut self, manager: &str, spec: Value, force: bool) -> Result<bool, Vec<String>> {
        let now = self.now();
        let author = Author { manager, api_version: "g/v1", subresource: "", now: Some(&now) };
        let config = if spec.is_null() { json!({}) } else { json!({ "spec": spec }) };
        let entries = Entries::parse(&self.managed).unwrap();
        match apply(author, self.rules(), self.object.as_ref(), &config, entries, force) {
            Ok(applied) => {
                let managed = String::from_utf8(applied.entries.write()).unwrap();
                let changed = applied.object.is_some();
                if let Some(object) = applied.object {
                    self.object = Some(object);
                }
                self.managed = managed;
                Ok(changed)
            }
            Err(ApplyError::Conflicts(found)) => {
                Err(found.iter().map(|c| format!("{} {}", c.manager, c.path)).collect())
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn applies(mut self, manager: &str, spec: Value) -> Self {
        self.try_apply(manager, spec, false).unwrap();
        self
    }

    fn forces(mut self, manager: &str, spec: Value) -> Self {
        self.try_apply(manager, spec, true).unwrap();
        self
    }

    fn updates(mut self, manager: &str, spec: Value) -> Self {
        let now = self.now();
        let author = Author { manager, api_version: "g/v1", subresource: "", now: Some(&now) };
        let new = json!({ "spec": spec });
        let entries = Entries::parse(&self.managed).unwrap();
        let entries = update(author, self.rules(), self.object.as_ref(), &new, entries).unwrap();
        self.managed = String::from_utf8(entries.write()).unwrap();
        self.object = Some(new);
        self
    }

    /// `manager/Operation: paths below .spec`, one line per entry, without times.
    fn owners(&self) -> Vec<String> {
        let entries = Entries::parse(&self.managed).unwrap().check().unwrap();
        let mut lines: Vec<String> = entries
            .0
            .iter()
            .map(|entry| {
                let paths = entry.set().unwrap().texts(99).join(" ").replace(".spec", "");
                format!("{}/{:?}: {paths}", entry.who.manager, entry.who.operation)
            })
            .collect();
        lines.sort();
        lines
    }

    fn spec(&self) -> &Value {
        &self.object.as_ref().unwrap()["spec"]
    }

    #[track_caller]
    fn ends(&self, spec: Value, owners: &[&str]) {
        assert_eq!(self.spec(), &spec);
        assert_eq!(self.owners(), owners);
    }
}

#[test]
fn s111_an_apply_owns_leaves_and_an_update_parents_too() {
    let spec = json!({"inner": {"a": "x"}, "text": "t"});
    Timeline::new().applies("me", spec.clone()).ends(spec.clone(), &["me/Apply: .inner.a .text"]);
    Timeline::new().updates("me", spec.clone()).ends(spec, &["me/Update:  .inner .inner.a .text"]);
}

#[test]
fn s114_a_conflict_names_manager_and_path() {
    let mut timeline = Timeline::new()
        .applies("one", json!({"text": "a", "number": 1}))
        .updates("two", json!({"text": "a", "number": 2}));
    let found = timeline.try_apply("three", json!({"text": "b", "number": 3}), false).unwrap_err();
    assert_eq!(found, ["\"one\" .spec.text", "\"two\" using g/v1 .spec.number"]);
    timeline
        .forces("three", json!({"text": "b", "number": 3}))
        .ends(json!({"text": "b", "number": 3}), &["three/Apply: .number .text"]);
}

#[test]
fn s115_equal_values_are_shared() {
    let mut timeline = Timeline::new().applies("one", json!({"text": "a"}));
    assert_eq!(timeline.try_apply("two", json!({"text": "a"}), false), Ok(false));
    timeline.ends(json!({"text": "a"}), &["one/Apply: .text", "two/Apply: .text"]);
    let entries = Entries::parse(&timeline.managed).unwrap();
    let times: Vec<bool> = entries.0.iter().map(|entry| entry.time.is_some()).collect();
    assert_eq!(times, [false, true], "who changed nothing has no time, and comes first");
}

#[test]
fn s116_what_is_no_longer_wanted_goes_unless_others_want_it() {
    let both = json!({"text": "a", "map": {"x": "1", "y": "2"}});
    Timeline::new()
        .applies("one", both.clone())
        .applies("two", json!({"map": {"y": "2"}}))
        .applies("one", json!({"text": "a"}))
        .ends(json!({"text": "a", "map": {"y": "2"}}), &["one/Apply: .text", "two/Apply: .map.y"]);
    // The last owner takes the value along, and the emptied map with it.
    Timeline::new()
        .applies("one", both)
        .applies("one", json!({"text": "a"}))
        .ends(json!({"text": "a"}), &["one/Apply: .text"]);
}

#[test]
fn s116_a_list_item_stays_with_who_owns_a_part_of_it() {
    let item = |extra: Value| {
        let mut item = json!({"name": "n"});
        item.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({ "list": [item] })
    };
    Timeline::new()
        .applies("one", item(json!({"value": 1})))
        .applies("two", item(json!({"tags": ["t"]})))
        .applies("one", json!({"text": "a"}))
        .ends(
            json!({"text": "a", "list": [{"name": "n", "tags": ["t"]}]}),
            &[
                "one/Apply: .text",
                "two/Apply: .list[name=\"n\"] .list[name=\"n\"].name .list[name=\"n\"].tags[=\"t\"]",
            ],
        );
    // Alone, the item goes whole: also what nobody owns of it.
    let mut timeline = Timeline::new()
        .applies("one", item(json!({"value": 1})))
        .applies("two", json!({"list": [{"name": "m"}]}));
    timeline.object =
        Some(json!({"spec": {"list": [{"name": "n", "value": 1, "tags": ["defaulted"]}, {"name": "m"}]}}));
    timeline.applies("one", json!({"text": "a"})).ends(
        json!({"text": "a", "list": [{"name": "m"}]}),
        &["one/Apply: .text", "two/Apply: .list[name=\"m\"] .list[name=\"m\"].name"],
    );
}

#[test]
fn s117_who_changes_a_field_takes_it() {
    Timeline::new()
        .applies("one", json!({"text": "a", "number": 1}))
        .updates("two", json!({"text": "b", "number": 1}))
        .ends(json!({"text": "b", "number": 1}), &["one/Apply: .number", "two/Update: .text"]);
    // What is removed has no owner; who owns nothing has no entry.
    Timeline::new()
        .applies("one", json!({"text": "a"}))
        .applies("two", json!({"number": 1}))
        .updates("three", json!({"number": 1}))
        .ends(json!({"number": 1}), &["two/Apply: .number"]);
}

#[test]
fn s119_units_are_owned_and_fought_over_as_units() {
    let mut timeline = Timeline::new().applies("one", json!({"plain": ["a"], "unit": {"a": "x"}}));
    let found =
        timeline.try_apply("two", json!({"plain": ["a", "b"], "unit": {"b": "y"}}), false).unwrap_err();
    assert_eq!(found, ["\"one\" .spec.plain", "\"one\" .spec.unit"]);
    timeline
        .forces("two", json!({"plain": ["b"], "unit": {"b": "y"}}))
        .ends(json!({"plain": ["b"], "unit": {"b": "y"}}), &["two/Apply: .plain .unit"]);
}

#[test]
fn sets_and_keyed_lists_are_shared_item_by_item() {
    Timeline::new()
        .applies("one", json!({"set": ["a", "b"], "ports": [{"port": 80}]}))
        .applies("two", json!({"set": ["c"], "ports": [{"port": 80, "protocol": "UDP"}]}))
        .applies("one", json!({"set": ["b"], "ports": [{"port": 80, "name": "web"}]}))
        .ends(
            json!({"set": ["b", "c"], "ports": [{"port": 80, "name": "web"}, {"port": 80, "protocol": "UDP"}]}),
            &[
                "one/Apply: .ports[port=80,protocol=\"TCP\"] .ports[port=80,protocol=\"TCP\"].name \
                 .ports[port=80,protocol=\"TCP\"].port .set[=\"b\"]",
                "two/Apply: .ports[port=80,protocol=\"UDP\"] .ports[port=80,protocol=\"UDP\"].port \
                 .ports[port=80,protocol=\"UDP\"].protocol .set[=\"c\"]",
            ],
        );
}

#[test]
fn s125_tracking_starts_with_the_first_apply() {
    let mut timeline = Timeline::new();
    timeline.object = Some(json!({"spec": {"text": "a", "number": 1}}));
    let timeline = timeline.updates("one", json!({"text": "b", "number": 1}));
    assert_eq!(timeline.managed, "");
    timeline.applies("two", json!({"text": "b"})).ends(
        json!({"text": "b", "number": 1}),
        &["before-first-apply/Update:  .number .text", "two/Apply: .text"],
    );
}

#[test]
fn what_an_endpoint_does_not_write_is_nobodys() {
    let mut timeline = Timeline::new();
    timeline.reset = PathSet::of_fields(&[&["spec", "inner"]]);
    let timeline = timeline.applies("one", json!({"text": "a", "inner": {"a": "x"}}));
    assert_eq!(timeline.owners(), ["one/Apply: .text"]);
    let timeline = timeline.updates("two", json!({"text": "a", "inner": {"a": "y"}}));
    assert_eq!(timeline.owners(), ["one/Apply: .text"]);
}

#[test]
fn entries_of_versions_that_are_gone_are_forgotten() {
    let mut timeline = Timeline::new().applies("one", json!({"text": "a"}));
    timeline.managed = timeline.managed.replace("g/v1", "gone/v1");
    timeline
        .applies("two", json!({"number": 1}))
        .ends(json!({"text": "a", "number": 1}), &["two/Apply: .number"]);
}

#[test]
fn s129_kubectl_takes_over_what_it_had_applied_client_side() {
    let applied = json!({"apiVersion": "g/v1", "spec": {"text": "a", "number": 1}}).to_string();
    let mut timeline =
        Timeline::new().updates("kubectl-client-side-apply", json!({"text": "a", "number": 1}));
    let object = timeline.object.as_mut().unwrap();
    object["metadata"] =
        json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied}});
    // Somebody else changed the number meanwhile.
    let object = timeline.object.clone();
    let mut timeline = timeline;
    timeline.object = object;
    assert_eq!(timeline.try_apply("kubectl", json!({"text": "b"}), false), Ok(true));
    let mut other = Timeline::new().updates("somebody", json!({"text": "a", "number": 2}));
    other.object.as_mut().unwrap()["metadata"] =
        json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied}});
    let found = other.try_apply("kubectl", json!({"text": "b", "number": 3}), false).unwrap_err();
    assert_eq!(found, ["\"somebody\" using g/v1 .spec.number"], "the text may be taken, the number may not");
    assert_eq!(other.try_apply("helm", json!({"text": "b"}), false).map_err(|c| c.len()), Err(1));
}

/// Random configurations that fit.
fn configs() -> impl Strategy<Value = Value> {
    let map = prop::collection::btree_map("[a-c]", "[xy]", 0..3);
    let set = prop::collection::btree_set("[a-d]", 0..4);
    let list = prop::collection::btree_map("[a-c]", prop::option::of(0i64..2), 0..3);
    (prop::option::of("[xy]"), prop::option::of(map), prop::option::of(set), prop::option::of(list)).prop_map(
        |(text, map, set, list)| {
            let mut spec = serde_json::Map::new();
            spec.extend(text.map(|text| ("text".to_owned(), json!(text))));
            spec.extend(map.map(|map| ("map".to_owned(), json!(map))));
            spec.extend(set.map(|set| ("set".to_owned(), json!(set))));
            let item = |(name, value): (String, Option<i64>)| match value {
                Some(value) => json!({"name": name, "value": value}),
                None => json!({ "name": name }),
            };
            spec.extend(list.map(|list| ("list".to_owned(), list.into_iter().map(item).collect::<Value>())));
            Value::Object(spec)
        },
    )
}

proptest! {
    #[test]
    fn s112_applying_again_changes_nothing(one in configs(), two in configs()) {
        let mut timeline = Timeline::new().applies("one", one).forces("two", two.clone());
        let (object, managed) = (timeline.object.clone(), timeline.managed.clone());
        prop_assert_eq!(timeline.try_apply("two", two, false), Ok(false));
        prop_assert_eq!(timeline.object, object);
        prop_assert_eq!(timeline.managed, managed);
    }

    #[test]
    fn s115_the_order_of_co_owners_does_not_matter(config in configs()) {
        let first = Timeline::new().applies("one", config.clone()).applies("two", config.clone());
        let second = Timeline::new().applies("two", config.clone()).applies("one", config);
        prop_assert_eq!(&first.object, &second.object);
        prop_assert!(same_but_time(&first.managed, &second.managed));
    }

    #[test]
    fn s116_dropping_everything_leaves_what_others_want(one in configs(), two in configs()) {
        let mut timeline = Timeline::new().applies("one", one).forces("two", two.clone()).applies("one", Value::Null);
        prop_assert!(!timeline.owners().iter().any(|line| line.starts_with("one/")), "{:?}", timeline.owners());
        timeline.try_apply("two", two.clone(), false).unwrap();
        for (name, value) in two.as_object().unwrap() {
            prop_assert_eq!(&timeline.spec()[name], value, "{}", name);
        }
    }

    #[test]
    fn random_objects_never_panic(live in values(), config in values(), force in any::<bool>()) {
        let schema = schema();
        let reset = PathSet::default();
        for shape in [Shape::Schema(&schema.root), Shape::Deduced] {
            let rules = Rules { shape, reset: &reset, serves: &serves, reconcile: true };
            let author = Author { manager: "kubectl", api_version: "g/v1", subresource: "", now: None };
            let _ = apply(author, rules, Some(&live), &config, Entries::default(), force);
            let _ = update(author, rules, None, &config, Entries::default());
            if let Ok(entries) = update(author, rules, None, &live, Entries::default()) {
                prop_assert!(entries.0.iter().all(|entry| entry.who.operation == Operation::Update));
                let _ = update(author, rules, Some(&live), &config, entries);
            }
        }
    }
}
