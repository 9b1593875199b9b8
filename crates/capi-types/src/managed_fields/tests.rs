//! Rule tables: when an apply is due, what a live copy keeps, what is handed over.

use serde_json::{Value, json};

use super::Standing::{Due, Settled};
use super::*;
use crate::machine::Machine;
use crate::names::manager::{MACHINE_SET as OURS, MACHINE_SET_METADATA, PATCHES};

fn entry(manager: &str, operation: &str, set: Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": "g/v1", "fieldsType": "FieldsV1",
           "time": "2026-11-20T10:00:00Z", "fieldsV1": set})
}

fn object(spec: Value, entries: Value) -> Value {
    json!({"apiVersion": "g/v1", "kind": "K", "spec": spec,
           "metadata": {"name": "k", "namespace": "ns", "uid": "u", "resourceVersion": "7", "managedFields": entries}})
}

fn intent(spec: Value) -> Value {
    json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "k", "namespace": "ns", "uid": "u"}, "spec": spec})
}

/// `set` is what we own below `spec`.
fn of_spec(live: Value, wanted: Value, set: Value) -> Standing {
    let entries = json!([entry(OURS, "Apply", json!({"f:spec": set}))]);
    standing(&object(live, entries), &intent(wanted), OURS)
}

type Case = (&'static str, Value, Value, Value, Standing);

fn check(cases: impl IntoIterator<Item = Case>) {
    for (case, live, wanted, set, expected) in cases {
        assert_eq!(of_spec(live, wanted, set), expected, "{case}");
    }
}

#[rustfmt::skip]
#[test]
fn an_apply_is_due_when_owned_fields_or_values_differ() {
    check([
        ("equal", json!({"a": 1}), json!({"a": 1}), json!({"f:a": {}}), Settled),
        ("another value", json!({"a": 2}), json!({"a": 1}), json!({"f:a": {}}), Due),
        ("a new field", json!({"a": 1}), json!({"a": 1, "b": 1}), json!({"f:a": {}}), Due),
        ("a new field that another has set", json!({"a": 1, "b": 1}), json!({"a": 1, "b": 1}), json!({"f:a": {}}), Due),
        ("a field that left", json!({"a": 1, "b": 1}), json!({"a": 1}), json!({"f:a": {}, "f:b": {}}), Due),
        ("others' fields", json!({"a": 1, "b": 1}), json!({"a": 1}), json!({"f:a": {}}), Settled),
        ("marked parents", json!({"m": {"a": 1}}), json!({"m": {"a": 1}}), json!({".": {}, "f:m": {".": {}, "f:a": {}}}), Settled),
        ("a granular map", json!({"m": {"a": "x", "z": "y"}}), json!({"m": {"a": "x"}}), json!({"f:m": {"f:a": {}}}), Settled),
        ("a key less", json!({"m": {"a": "x", "z": "y"}}), json!({"m": {"a": "x"}}), json!({"f:m": {"f:a": {}, "f:z": {}}}), Due),
        ("the last key", json!({"m": {"a": "x"}}), json!({}), json!({"f:m": {"f:a": {}}}), Due),
        ("an empty map", json!({"m": {"z": "y"}}), json!({"m": {}}), json!({"f:m": {}}), Settled),
        ("an atomic map", json!({"s": {"m": {"a": "x"}}}), json!({"s": {"m": {"a": "x"}}}), json!({"f:s": {}}), Settled),
        ("a list where a map is owned", json!({"a": [1]}), json!({"a": [1]}), json!({"f:a": {"f:b": {}}}), Due),
    ]);
}

#[rustfmt::skip]
#[test]
fn lists_count_by_item_or_as_a_whole() {
    let gates = |names: &[&str]| json!({"g": names.iter().map(|n| json!({"type": n})).collect::<Vec<_>>()});
    let owned_gates = |names: &[&str]| {
        let items = names.iter().map(|n| (format!("k:{{\"type\":\"{n}\"}}"), json!({".": {}, "f:type": {}})));
        json!({"f:g": Value::Object(items.collect())})
    };
    let taint = |fields: Value| json!({"t": [fields]});
    let owned_taint = json!({"f:t": {"k:{\"effect\":\"NoSchedule\",\"key\":\"a\"}": {".": {}, "f:effect": {}, "f:key": {}, "f:value": {}}}});
    let defaulted = json!({"f:t": {"k:{\"effect\":\"NoSchedule\",\"key\":\"a\"}": {".": {}, "f:key": {}}}});
    let whole = json!({"key": "a", "effect": "NoSchedule", "value": "v"});
    let nested = |value: u8| json!({"a": {"b": [{"type": "x", "d": {"e": value}}]}});
    let owned_nested = json!({"f:a": {"f:b": {"k:{\"type\":\"x\"}": {".": {}, "f:type": {}, "f:d": {"f:e": {}}}}}});
    check([
        ("atomic", json!({"l": [1, 2]}), json!({"l": [1, 2]}), json!({"f:l": {}}), Settled),
        ("atomic, longer", json!({"l": [1, 2, 3]}), json!({"l": [1, 2]}), json!({"f:l": {}}), Due),
        ("atomic, turned", json!({"l": [2, 1]}), json!({"l": [1, 2]}), json!({"f:l": {}}), Due),
        ("a default inside an atomic item", json!({"l": [{"a": 1, "d": 0}]}), json!({"l": [{"a": 1}]}), json!({"f:l": {}}), Settled),
        ("empty, with others' items", json!({"l": [1]}), json!({"l": []}), json!({"f:l": {}}), Settled),
        ("a set", json!({"s": ["x", "theirs"]}), json!({"s": ["x"]}), json!({"f:s": {"v:\"x\"": {}}}), Settled),
        ("a member less", json!({"s": ["x", "y"]}), json!({"s": ["x"]}), json!({"f:s": {"v:\"x\"": {}, "v:\"y\"": {}}}), Due),
        ("a member that somebody took out", json!({"s": []}), json!({"s": ["x"]}), json!({"f:s": {"v:\"x\"": {}}}), Due),
        ("keyed", gates(&["A", "B"]), gates(&["A", "B"]), owned_gates(&["A", "B"]), Settled),
        ("keyed, in another order", gates(&["B", "A"]), gates(&["A", "B"]), owned_gates(&["A", "B"]), Settled),
        ("others' items", gates(&["A", "Z"]), gates(&["A"]), owned_gates(&["A"]), Settled),
        ("an item less", gates(&["A", "B"]), gates(&["A"]), owned_gates(&["A", "B"]), Due),
        ("an item more", gates(&["A"]), gates(&["A", "B"]), owned_gates(&["A"]), Due),
        ("two keys", taint(whole.clone()), taint(whole.clone()), owned_taint.clone(), Settled),
        ("two keys, a value less", taint(whole.clone()), taint(json!({"key": "a", "effect": "NoSchedule"})), owned_taint, Due),
        ("a key with a default", taint(whole), taint(json!({"key": "a"})), defaulted, Settled),
        ("nested", nested(1), nested(1), owned_nested.clone(), Settled),
        ("nested, another value", nested(2), nested(1), owned_nested, Due),
    ]);
}

#[rustfmt::skip]
#[test]
fn a_set_that_cannot_be_read_owns_nothing() {
    let one = || json!({"a": 1});
    let list = || json!({"g": [{"type": "A"}]});
    check([
        ("a path of no known form", one(), one(), json!({"x:a": {}}), Due),
        ("a leaf that is not a map", one(), one(), json!({"f:a": 1}), Due),
        ("an index", list(), list(), json!({"f:g": {"i:0": {}}}), Due),
        ("keys that are not JSON", list(), list(), json!({"f:g": {"k:{": {}}}), Due),
        ("keys that are not an object", list(), list(), json!({"f:g": {"k:1": {}}}), Due),
        ("a path cut within a character", list(), list(), json!({"f:g": {"é": {}}}), Due),
        ("not a map", one(), one(), json!([1]), Due),
    ]);
}

#[rustfmt::skip]
#[test]
fn whose_entry_counts() {
    let owned = || json!({"f:spec": {"f:a": {}}});
    let by = |entries: Value| standing(&object(json!({"a": 1}), entries), &intent(json!({"a": 1})), OURS);
    let with = |field: &str, value: Value| {
        let mut entry = entry(OURS, "Apply", owned());
        entry[field] = value;
        json!([entry])
    };
    for (case, entries, expected) in [
        ("ours", json!([entry(OURS, "Apply", owned())]), Standing::Settled),
        ("as text, in a live copy", with("fieldsV1", json!("{\"f:spec\":{\"f:a\":{}}}")), Standing::Settled),
        ("text that is not JSON", with("fieldsV1", json!("{")), Standing::Due),
        ("no set", with("fieldsV1", Value::Null), Standing::Due),
        ("a set that is a list", with("fieldsV1", json!([1])), Standing::Due),
        ("of another version", with("apiVersion", json!("g/v0")), Standing::Due),
        (
            "twice, in two versions",
            json!([entry(OURS, "Apply", owned()), with("apiVersion", json!("g/v0"))[0]]),
            Standing::Due,
        ),
        ("of a subresource", with("subresource", json!("status")), Standing::Unowned),
        ("by update", json!([entry(OURS, "Update", owned())]), Standing::Unowned),
        ("somebody else's", json!([entry("kubectl", "Apply", owned())]), Standing::Unowned),
        ("none", json!([]), Standing::Unowned),
        ("entries that are not objects", json!([1, null, "x"]), Standing::Unowned),
        (
            "everybody's",
            json!([entry(OURS, "Apply", owned()), entry("before-first-apply", "Update", json!({}))]),
            Standing::Unowned,
        ),
        ("not read", Value::Null, Standing::Settled),
    ] {
        assert_eq!(by(entries), expected, "{case}");
    }
}

#[test]
fn metadata_counts_without_what_has_no_owners() {
    let labels = |labels: Value| json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "k", "uid": "u", "labels": labels}});
    let mut live = object(
        json!({}),
        json!([entry(OURS, "Apply", json!({"f:metadata": {"f:name": {}, "f:labels": {"f:a": {}}}}))]),
    );
    live["metadata"]["labels"] = json!({"a": "1", "theirs": "2"});
    assert_eq!(standing(&live, &labels(json!({"a": "1"})), OURS), Standing::Settled);
    assert_eq!(standing(&live, &labels(json!({"a": "1", "theirs": "2"})), OURS), Standing::Due);
    let seed = object(json!({}), json!([entry(OURS, "Apply", json!({"f:metadata": {"f:name": {}}}))]));
    assert_eq!(standing(&seed, &labels(json!({"a": "1"})), OURS), Standing::Due);
    assert_eq!(standing(&Value::Null, &labels(json!({"a": "1"})), OURS), Standing::Due);
    assert_eq!(standing(&live, &Value::Null, OURS), Standing::Due);
}

#[test]
fn a_change_shows_values_and_what_goes() {
    let set = json!({"f:metadata": {"f:labels": {"f:a": {}, "f:gone": {}}}, "f:spec": {"f:t": {"k:{\"key\":\"x\"}": {".": {}, "f:key": {}}}}});
    let mut live = object(json!({"t": [{"key": "x"}], "n": 1}), json!([entry(OURS, "Apply", set)]));
    live["metadata"]["labels"] = json!({"a": "1", "gone": "1", "theirs": "1"});
    let mut wanted = intent(json!({"n": 2}));
    wanted["metadata"]["labels"] = json!({"a": "2"});
    let expected = json!({"metadata": {"labels": {"a": "2", "gone": null}}, "spec": {"n": 2, "t": null}});
    assert_eq!(change(&live, &wanted, OURS), Some(expected));
    assert_eq!(
        change(
            &live,
            &json!({"metadata": {"labels": {"a": "1", "gone": "1"}}, "spec": {"t": [{"key": "x"}]}}),
            OURS
        ),
        None
    );
    live["metadata"]["managedFields"] = Value::Null;
    let unknown = json!({"metadata": {"finalizers": ["f"]}, "spec": {"n": 1}});
    live["metadata"]["finalizers"] = json!(["theirs", "f"]);
    assert_eq!(change(&live, &unknown, OURS), None, "lists of metadata have several writers");
}

#[test]
fn a_live_copy_keeps_what_is_read_as_text() {
    let set = json!({"f:spec": {"f:clusterName": {}}});
    let mut machine =
        Machine::new("m", crate::machine::MachineSpec { cluster_name: "c".into(), ..Default::default() });
    let entries = json!([
        entry(OURS, "Apply", set.clone()),
        entry(PATCHES, "Update", set.clone()),
        entry("before-first-apply", "Update", set.clone())
    ]);
    machine.metadata.managed_fields = serde_json::from_value(entries).expect("entries");
    keep(&mut machine.metadata);
    let kept = serde_json::to_value(&machine).expect("JSON")["metadata"]["managedFields"].clone();
    assert_eq!(
        kept[0],
        json!({"manager": OURS, "operation": "Apply", "apiVersion": "g/v1", "fieldsV1": set.to_string()})
    );
    assert_eq!(
        kept[1],
        json!({"manager": "before-first-apply", "operation": "Update", "apiVersion": "g/v1"})
    );
    assert_eq!(kept.as_array().map(Vec::len), Some(2));
    machine.metadata.managed_fields = None;
    keep(&mut machine.metadata);
    assert_eq!(machine.metadata.managed_fields, Some(Vec::new()), "read, and there were none");

    let mut metadata = json!({"name": "m", "managedFields": [entry(OURS, "Apply", set.clone()), entry(MACHINE_SET_METADATA, "Apply", set.clone()), 7]});
    keep_values(metadata.as_object_mut().expect("an object"));
    let kept = json!([{"manager": MACHINE_SET_METADATA, "operation": "Apply", "apiVersion": "g/v1", "fieldsV1": set.to_string()}]);
    assert_eq!(metadata["managedFields"], kept);
}

fn seed(set: Value, manager: &str) -> Value {
    json!({"manager": manager, "operation": "Apply", "apiVersion": "g/v1", "fieldsType": "FieldsV1", "fieldsV1": set})
}

#[rustfmt::skip]
#[test]
fn a_handover_takes_fields_from_those_who_wrote_before() {
    let set = || json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}, "f:annotations": {"f:b": {}}, "f:ownerReferences": {}}, "f:spec": {}});
    let status = || json!({"manager": PATCHES, "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}});
    let user = || entry("kubectl-label", "Update", json!({"f:metadata": {"f:labels": {"f:mine": {}}}}));
    let live = object(json!({}), json!([user(), entry(PATCHES, "Update", set()), status()]));
    let wanted = json!({"metadata": {"labels": {"a": "1"}}});
    let whole = Handover::new(OURS, HandoverScope::Whole, &wanted);
    let metadata = Handover::new(MACHINE_SET_METADATA, HandoverScope::Metadata, &wanted);
    let named = json!({"f:metadata": {"f:name": {}}});
    let labels = json!({"f:metadata": {"f:labels": {"f:a": {}}}});

    let others = json!({"f:metadata": {"f:annotations": {"f:b": {}}}});
    let expected = json!([user(), entry(PATCHES, "Update", others), status(), seed(named.clone(), OURS)]);
    assert_eq!(whole.of(&live), Some(expected));
    let rest = || json!({"f:metadata": {"f:annotations": {"f:b": {}}, "f:ownerReferences": {}}, "f:spec": {}});
    let expected = json!([user(), entry(PATCHES, "Update", rest()), status(), seed(labels.clone(), MACHINE_SET_METADATA)]);
    assert_eq!(metadata.of(&live), Some(expected));
    let made = object(json!({}), json!([entry(OURS, "Apply", set())]));
    assert_eq!(metadata.of(&made), Some(json!([entry(OURS, "Apply", rest()), seed(labels.clone(), MACHINE_SET_METADATA)])));

    assert_eq!(whole.of(&object(json!({}), json!([user()]))), None, "the first apply says it all");
    let settled = object(json!({}), json!([seed(labels.clone(), MACHINE_SET_METADATA), user()]));
    assert_eq!(metadata.of(&settled), None);
    let bare = object(json!({}), json!([entry(PATCHES, "Update", labels.clone())]));
    assert_eq!(metadata.of(&bare), Some(json!([seed(labels, MACHINE_SET_METADATA)])), "an entry that is left empty goes");
    assert_eq!(whole.of(&bare), Some(json!([seed(named, OURS)])));
}

#[test]
fn what_has_no_recorded_owner_gets_one_when_the_rest_is_handed_over() {
    let wanted = json!({"metadata": {"labels": {"a": "1"}}});
    let named = json!({"f:metadata": {"f:name": {}}});
    let others = json!({"f:metadata": {"f:labels": {"f:mine": {}}}});
    let kept = json!({"manager": PATCHES, "operation": "Update", "apiVersion": "g/v1", "fieldsType": "FieldsV1",
                      "fieldsV1": others});
    let everything = entry("before-first-apply", "Update", json!({"f:spec": {}}));
    for entries in [Value::Null, json!([]), json!([everything])] {
        let mut live = object(json!({}), entries);
        live["metadata"]["labels"] = json!({"a": "1", "mine": "2"});
        let after = Handover::new(OURS, HandoverScope::Whole, &wanted).of(&live);
        assert_eq!(after, Some(json!([kept, seed(named.clone(), OURS)])));
    }
    let odd = json!([1, {"fieldsV1": 3, "manager": PATCHES, "operation": "Update"}, null]);
    let after = Handover::new(OURS, HandoverScope::Metadata, &wanted).of(&object(json!({}), odd.clone()));
    let after = after.expect("a list");
    assert_eq!(
        after.as_array().map(|all| all[..3].to_vec()),
        odd.as_array().cloned(),
        "what cannot be read stays"
    );
}
