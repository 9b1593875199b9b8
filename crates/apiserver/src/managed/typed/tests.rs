//! Rule tables in the spirit of structured-merge-diff's `typed/*_test.go`: values as JSON, sets as the
//! paths they hold.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::managed::path_set::PathSet;
use crate::managed::topology::Shape;
use crate::schema::Schema;

/// Everything that merges in its own way.
pub(in crate::managed) fn schema() -> Schema {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": text, "value": number, "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": text}}});
    let port = json!({"type": "object", "required": ["port"], "properties": {
        "port": number, "protocol": {"type": "string", "default": "TCP"}, "name": text}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "text": text, "number": number, "flag": {"type": "boolean"},
        "either": {"x-kubernetes-int-or-string": true},
        "inner": {"type": "object", "properties": {"a": text, "b": text}},
        "unit": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text, "b": text}},
        "map": {"type": "object", "additionalProperties": text},
        "maps": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": text, "b": text}}},
        "plain": {"type": "array", "items": text},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": item},
        "ports": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"], "items": port},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}});
    Schema::custom("Thing", "v1", &schema, "").unwrap_or_else(|causes| panic!("{causes:?}"))
}

fn spec(value: Value) -> Value {
    json!({ "spec": value })
}

#[test]
fn what_a_value_consists_of() {
    let schema = schema();
    for (value, paths) in [
        (
            json!({"text": "a", "number": 1, "flag": true, "either": "x"}),
            vec!["either", "flag", "number", "text"],
        ),
        (json!({"text": null, "inner": {}, "map": {}, "set": []}), vec!["inner", "map", "text"]),
        (json!({"inner": {"a": "x"}, "unit": {"a": "x"}}), vec!["inner.a", "unit"]),
        (json!({"map": {"k": "x"}, "maps": {"k": {"a": "x"}}}), vec!["map.k", "maps.k", "maps.k.a"]),
        (json!({"plain": ["a", "b"], "set": ["b", "a"]}), vec!["plain", "set[=\"a\"]", "set[=\"b\"]"]),
        (
            json!({"list": [{"name": "n", "value": 1, "tags": ["t"]}]}),
            vec![
                "list[name=\"n\"]",
                "list[name=\"n\"].name",
                "list[name=\"n\"].tags[=\"t\"]",
                "list[name=\"n\"].value",
            ],
        ),
        (
            json!({"ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]}),
            vec![
                "ports[port=80,protocol=\"TCP\"]",
                "ports[port=80,protocol=\"TCP\"].port",
                "ports[port=80,protocol=\"UDP\"]",
                "ports[port=80,protocol=\"UDP\"].port",
                "ports[port=80,protocol=\"UDP\"].protocol",
            ],
        ),
        // What cannot be told apart is one opaque thing.
        (
            json!({"set": ["a", "a", "b"], "list": [{"name": "n"}, {"name": "n", "value": 1}]}),
            vec!["list[name=\"n\"]", "set[=\"a\"]", "set[=\"b\"]"],
        ),
        (json!({"any": {"m": {"x": 1}, "l": [{"y": 1}]}}), vec!["any.l", "any.m", "any.m.x"]),
    ] {
        let shape = Shape::Schema(&schema.root);
        let expected: Vec<String> = paths.iter().map(|path| format!(".spec.{path}")).collect();
        assert_eq!(to_set(shape, &spec(value.clone())).texts(99), expected, "{value}");
    }
}

#[test]
fn metadata_has_its_own_rules() {
    let schema = schema();
    let object = json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {
        "name": "n", "labels": {"a": "1"}, "annotations": {"b/c": "2"}, "finalizers": ["f.io/x"],
        "ownerReferences": [{"uid": "u", "name": "o", "kind": "K", "apiVersion": "v1", "controller": true}]}});
    assert_eq!(
        to_set(Shape::Schema(&schema.root), &object).texts(99),
        [
            ".apiVersion",
            ".kind",
            ".metadata.annotations.b/c",
            ".metadata.finalizers[=\"f.io/x\"]",
            ".metadata.labels.a",
            ".metadata.name",
            ".metadata.ownerReferences[uid=\"u\"]",
        ]
    );
}

#[test]
fn how_values_differ() {
    let schema = schema();
    let none: Vec<&str> = Vec::new();
    for (old, new, removed, modified, added) in [
        (json!({"text": "a"}), json!({"text": "a"}), none.clone(), none.clone(), none.clone()),
        (json!({"text": "a"}), json!({"text": "b"}), none.clone(), vec!["text"], none.clone()),
        (
            json!({"number": 1, "any": {"l": [1]}}),
            json!({"number": 1.0, "any": {"l": [1.0]}}),
            none.clone(),
            none.clone(),
            none.clone(),
        ),
        (json!({"text": "a"}), json!({"number": 1}), vec!["text"], none.clone(), vec!["number"]),
        // Containers that come or go are in the sets themselves.
        (json!({}), json!({"inner": {"a": "x"}}), none.clone(), none.clone(), vec!["inner", "inner.a"]),
        (json!({"inner": {"a": "x"}}), json!({}), vec!["inner", "inner.a"], none.clone(), none.clone()),
        (json!({"inner": {"a": "x"}}), json!({"inner": {}}), vec!["inner.a"], none.clone(), none.clone()),
        (json!({}), json!({"inner": {}}), none.clone(), none.clone(), vec!["inner"]),
        (json!({"inner": null}), json!({"inner": {}}), none.clone(), vec!["inner"], none.clone()),
        (
            json!({"unit": {"a": "x"}}),
            json!({"unit": {"a": "x", "b": "y"}}),
            none.clone(),
            vec!["unit"],
            none.clone(),
        ),
        (json!({"plain": ["a"]}), json!({"plain": ["a", "b"]}), none.clone(), vec!["plain"], none.clone()),
        (json!({"set": ["a", "b"]}), json!({"set": ["b", "a"]}), none.clone(), none.clone(), none.clone()),
        (
            json!({"set": ["a", "b"]}),
            json!({"set": ["b", "c"]}),
            vec!["set[=\"a\"]"],
            none.clone(),
            vec!["set[=\"c\"]"],
        ),
        (
            json!({"list": [{"name": "n", "value": 1}]}),
            json!({"list": [{"name": "m"}, {"name": "n", "value": 2}]}),
            none.clone(),
            vec!["list[name=\"n\"].value"],
            vec!["list[name=\"m\"]", "list[name=\"m\"].name"],
        ),
        // Duplicates: opaque before, after, and both.
        (
            json!({"set": ["a"]}),
            json!({"set": ["a", "a"]}),
            vec!["set[=\"a\"]"],
            none.clone(),
            vec!["set[=\"a\"]"],
        ),
        (
            json!({"list": [{"name": "n"}, {"name": "n", "value": 1}]}),
            json!({"list": [{"name": "n"}]}),
            vec!["list[name=\"n\"]"],
            none.clone(),
            vec!["list[name=\"n\"]", "list[name=\"n\"].name"],
        ),
        (
            json!({"list": [{"name": "n"}, {"name": "n"}]}),
            json!({"list": [{"name": "n"}, {"name": "n", "value": 1}]}),
            none.clone(),
            vec!["list[name=\"n\"]"],
            none.clone(),
        ),
        // Of unknown type: a scalar that became a map.
        (
            json!({"any": {"x": 1}}),
            json!({"any": {"x": {"y": 1}}}),
            none.clone(),
            vec!["any.x"],
            vec!["any.x.y"],
        ),
    ] {
        let compared = compare(Shape::Schema(&schema.root), &spec(old.clone()), &spec(new.clone())).unwrap();
        let paths = |names: Vec<&str>| names.iter().map(|name| format!(".spec.{name}")).collect::<Vec<_>>();
        assert_eq!(
            (compared.removed.texts(99), compared.modified.texts(99), compared.added.texts(99)),
            (paths(removed), paths(modified), paths(added)),
            "{old} -> {new}"
        );
    }
}

#[test]
fn one_value_over_another() {
    let schema = schema();
    let list = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Value>();
    for (under, over, merged) in [
        (json!({"text": "a", "number": 1}), json!({"text": "b"}), json!({"text": "b", "number": 1})),
        (json!({"inner": {"a": "1"}}), json!({"inner": {"b": "2"}}), json!({"inner": {"a": "1", "b": "2"}})),
        (json!({"unit": {"a": "1"}}), json!({"unit": {"b": "2"}}), json!({"unit": {"b": "2"}})),
        (json!({"plain": ["a"]}), json!({"plain": []}), json!({"plain": []})),
        (
            json!({"text": "a", "map": {"k": "v"}}),
            json!({"text": null, "map": null}),
            json!({"text": null, "map": {"k": "v"}}),
        ),
        (json!({"inner": {}}), json!({"inner": null}), json!({"inner": null})),
        (
            json!({"list": [{"name": "a", "value": 1}]}),
            json!({"list": [{"name": "a", "tags": ["t"]}]}),
            json!({"list": [{"name": "a", "value": 1, "tags": ["t"]}]}),
        ),
        // Order: what both have follows the new, the rest stays near where it was.
        (json!({"set": ["a", "b", "c"]}), json!({"set": ["c", "a"]}), json!({"set": ["b", "c", "a"]})),
        (json!({"set": ["a", "b"]}), json!({"set": ["c"]}), json!({"set": ["a", "b", "c"]})),
        (json!({"set": ["a", "b"]}), json!({"set": ["x", "a", "y"]}), json!({"set": ["x", "a", "b", "y"]})),
        (
            json!({"list": list(&["a", "b", "c", "d"])}),
            json!({"list": list(&["d", "x", "a"])}),
            json!({"list": list(&["b", "c", "d", "x", "a"])}),
        ),
        // Items that occur twice are not merged with.
        (
            json!({"list": [{"name": "a", "value": 1}, {"name": "a", "value": 2}, {"name": "b"}]}),
            json!({"list": [{"name": "a", "tags": ["t"]}]}),
            json!({"list": [{"name": "a", "tags": ["t"]}, {"name": "b"}]}),
        ),
        (json!({"any": {"x": 1}}), json!({"any": {"x": {"y": 1}}}), json!({"any": {"x": {"y": 1}}})),
    ] {
        let shape = Shape::Schema(&schema.root);
        assert_eq!(
            merge(shape, &spec(under.clone()), &spec(over.clone())).unwrap(),
            spec(merged),
            "{over} over {under}"
        );
    }
}

#[test]
fn what_is_taken_out() {
    let schema = schema();
    let shape = Shape::Schema(&schema.root);
    for (value, paths, left) in [
        (json!({"text": "a", "number": 1}), json!({"text": "a"}), json!({"number": 1})),
        (json!({"inner": {"a": "1", "b": "2"}}), json!({"inner": {"a": "1"}}), json!({"inner": {"b": "2"}})),
        (
            json!({"inner": {"a": "1"}, "number": 1}),
            json!({"inner": {"a": "1"}}),
            json!({"inner": null, "number": 1}),
        ),
        (json!({"set": ["a", "b"]}), json!({"set": ["a"]}), json!({"set": ["b"]})),
        (json!({"set": ["a"], "number": 1}), json!({"set": ["a"]}), json!({"set": null, "number": 1})),
        (
            json!({"list": [{"name": "a"}, {"name": "b"}]}),
            json!({"list": [{"name": "a"}]}),
            json!({"list": [{"name": "b"}]}),
        ),
        (json!({"plain": ["a"], "number": 1}), json!({"plain": ["x"]}), json!({"number": 1})),
    ] {
        assert_eq!(remove(shape, &spec(value.clone()), &to_set(shape, &spec(paths))), spec(left), "{value}");
    }
}

#[test]
fn s119_what_became_one_unit_is_owned_as_one() {
    let schema = schema();
    let shape = Shape::Schema(&schema.root);
    let old = PathSet::of_fields(&[
        &["spec", "unit", "a"],
        &["spec", "unit", "b"],
        &["spec", "plain", "x"],
        &["spec", "inner", "a"],
        &["spec", "map", "k"],
    ]);
    assert_eq!(
        reconcile(shape, &old).texts(99),
        [".spec.inner.a", ".spec.map.k", ".spec.plain", ".spec.unit"]
    );
}

#[test]
fn s122_what_does_not_fit() {
    let schema = schema();
    for (value, problem) in [
        (json!({"text": "a", "any": {"x": [1]}, "either": 1, "inner": null}), ""),
        (json!({"zork": 1}), ".spec.zork: field not declared in schema"),
        (json!({"inner": {"c": "x"}}), ".spec.inner.c: field not declared in schema"),
        (json!({"unit": {"c": "x"}}), ".spec.unit.c: field not declared in schema"),
        (json!({"text": 1}), ".spec.text: expected string, got &value.valueUnstructured{Value:1}"),
        (json!({"number": "x"}), ".spec.number: expected numeric (int or float), got string"),
        (json!({"flag": 1}), ".spec.flag: expected boolean, got &{1}"),
        (json!({"inner": []}), ".spec.inner: expected map, got &{[]}"),
        (json!({"plain": {}}), ".spec.plain: expected list, got &{{}}"),
        (json!({"plain": [1]}), ".spec.plain[0]: expected string, got &value.valueUnstructured{Value:1}"),
        (json!({"set": ["a", "a"]}), ".spec.set: duplicate entries for key [=\"a\"]"),
        (
            json!({"list": [{"name": "a"}, {"name": "a"}]}),
            ".spec.list: duplicate entries for key [name=\"a\"]",
        ),
        (
            json!({"list": [{"value": 1}]}),
            ".spec.list: element 0: associative list with keys has an element that omits all key fields \
             [\"name\"] (and doesn't have default values for any key fields)",
        ),
    ] {
        let problems = check(Shape::Schema(&schema.root), &spec(value.clone()));
        assert_eq!(problems.join("; "), problem, "{value}");
    }
}

/// Any JSON, often with the names that the schema knows.
pub(in crate::managed) fn values() -> impl Strategy<Value = Value> {
    const NAMES: [&str; 19] = [
        "spec",
        "metadata",
        "text",
        "number",
        "inner",
        "unit",
        "map",
        "plain",
        "set",
        "list",
        "ports",
        "any",
        "name",
        "value",
        "port",
        "labels",
        "finalizers",
        "a",
        "b",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        "[ab]{0,1}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(&NAMES[..]), inner, 0..4)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_panics_and_equal_means_equal(a in values(), b in values()) {
        let schema = schema();
        for shape in [Shape::Schema(&schema.root), Shape::Deduced] {
            let (a, b) = (spec(a.clone()), spec(b.clone()));
            let _ = check(shape, &a);
            let set = to_set(shape, &a);
            let _ = remove(shape, &b, &set);
            let _ = reconcile(shape, &set);
            let _ = with_named(&set, Some(shape));
            if let Ok(compared) = compare(shape, &a, &a) {
                prop_assert_eq!(compared, Comparison::default());
            }
            let _ = compare(shape, &a, &b);
            if let Ok(merged) = merge(shape, &a, &b)
                && check(shape, &a).is_empty()
                && check(shape, &b).is_empty()
            {
                // Once more changes nothing.
                prop_assert_eq!(merge(shape, &merged, &b), Ok(merged.clone()));
            }
        }
    }
}
