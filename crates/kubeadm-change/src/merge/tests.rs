//! Vectors of the merge, and what holds for every patch.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::ListMerge;

/// A structure with a map, a list that is replaced and a list with keys.
fn test_schema() -> Schema {
    Schema::parse(
        "[Base]\nsel = \"{string}\"\nargs = \"[string]\"\nitems = \"[Item by name]\"\nnew = \"any\"\nnames = \"[string set]\"\nflags = \"[Flag group name]\"\n[Item]\nname = \"string\"\nv = \"int\"\n[Flag]\nname = \"string\"\nvalue = \"string\"\n",
    )
    .expect("a schema")
}

fn base() -> Value {
    json!({"sel": {"x": "1", "y": "2"}, "args": ["a", "b"], "items": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]})
}

fn merged(patch: &Value) -> Result<Value, String> {
    merge(&test_schema(), "Base", &base(), patch).map(|m| m.value).map_err(|e| e.to_string())
}

/// The base with some fields changed; null takes one away.
fn with(changes: Value) -> Value {
    let mut value = base();
    k8s_machinery::merge::apply(&mut value, &changes);
    value
}

#[test]
fn vectors() {
    let (a, b) = (json!({"name": "a", "v": 1}), json!({"name": "b", "v": 2}));
    let table = [
        (json!({"sel": {"x": null, "q": null}}), with(json!({"sel": {"x": null}}))),
        (json!({"sel": {"$patch": "delete"}}), with(json!({"sel": {"x": null, "y": null}}))),
        (json!({"sel": {"$patch": "delete", "z": "1"}}), with(json!({"sel": {"x": null, "y": null}}))),
        (json!({"gone": {"$patch": "delete"}}), base()),
        (
            json!({"sel": {"$patch": "replace", "z": "3"}}),
            with(json!({"sel": {"x": null, "y": null, "z": "3"}})),
        ),
        (
            json!({"sel": {"$patch": "replace", "z": "3", "q": null}}),
            with(json!({"sel": {"x": null, "y": null, "z": "3"}})),
        ),
        (json!({"sel": {"$retainKeys": ["x"]}}), with(json!({"sel": {"y": null}}))),
        (json!({"sel": {"$retainKeys": ["x", "z"], "z": "3"}}), with(json!({"sel": {"y": null, "z": "3"}}))),
        (json!({"args": ["c"]}), with(json!({"args": ["c"]}))),
        (json!({"args": []}), with(json!({"args": []}))),
        (json!({"args": null}), with(json!({"args": null}))),
        (json!({"$deleteFromPrimitiveList/args": ["a"]}), with(json!({"args": ["b"]}))),
        (json!({"items": [{"name": "b", "$patch": "delete"}]}), with(json!({"items": [a]}))),
        (json!({"items": [{"$patch": "replace"}, {"name": "c"}]}), with(json!({"items": [{"name": "c"}]}))),
        (
            json!({"items": [{"name": "z"}, {"name": "b", "v": 8}]}),
            with(json!({"items": [{"name": "z"}, a, {"name": "b", "v": 8}]})),
        ),
        (
            json!({"$setElementOrder/items": [{"name": "b"}, {"name": "a"}], "items": [{"name": "a", "v": 5}]}),
            with(json!({"items": [b, {"name": "a", "v": 5}]})),
        ),
        (json!({"$setElementOrder/items": [{"name": "b"}, {"name": "a"}]}), with(json!({"items": [b, a]}))),
        (json!({"new": {"n": {"$patch": "replace", "k": 1}}}), with(json!({"new": {"n": {"k": 1}}}))),
        (json!({"new": {"n": {"k": null, "l": 1}}}), with(json!({"new": {"n": {"l": 1}}}))),
        (json!({}), base()),
    ];
    for (patch, expected) in table {
        assert_eq!(merged(&patch), Ok(expected), "{patch}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let table = [
        (
            json!({"sel": {"$retainKeys": ["x"], "z": "3"}}),
            "patch: sel: `z` is set and not listed in `$retainKeys`",
        ),
        (json!({"sel": {"$retainKeys": "x"}}), "patch: sel: `$retainKeys` is not a list of names"),
        (
            json!({"sel": {"$patch": "merge"}}),
            "patch: sel: `$patch: \"merge\"` is unknown; expected replace or delete",
        ),
        (
            json!({"sel": {"$patch": "replace", "z": {"$patch": "delete"}}}),
            "patch: sel.z: a directive cannot stand below `$patch: replace`",
        ),
        (json!({"items": [{"v": 9}]}), "patch: items: an item has no `name`, which is the key of the list"),
        (json!({"items": ["a"]}), "patch: items: an item is not a map"),
        (
            json!({"items": [{"name": "a", "$patch": "x"}]}),
            "patch: items: `$patch: x` is unknown; expected replace or delete",
        ),
        (
            json!({"args": [{"$patch": "replace"}, "c"]}),
            "patch: args: a directive cannot stand in this list: it is replaced as a whole",
        ),
        (
            json!({"$setElementOrder/items": [{"name": "b"}], "items": [{"name": "a"}]}),
            "patch: items: the patch's items are not in the order of `$setElementOrder`",
        ),
        (json!({"sel": "str"}), "patch: sel: expected a map"),
        (json!({"args": "a"}), "patch: args: expected a list"),
        (json!({"sel": {"x": ["a"]}}), "patch: sel.x: expected a string"),
        (json!("x"), "patch: expected a map"),
    ];
    for (patch, expected) in table {
        assert_eq!(merged(&patch), Err(expected.to_owned()), "{patch}");
    }
}

#[test]
fn sets_are_united_and_groups_replaced_together() {
    let live = json!({
        "names": ["A.example", "10.0.0.1"],
        "flags": [{"name": "a", "value": "1"}, {"name": "i", "value": "1"}, {"name": "i", "value": "2"}, {"name": "z", "value": "9"}],
    });
    let apply = |patch: Value| merge(&test_schema(), "Base", &live, &patch).expect("fine").value;
    assert_eq!(
        apply(json!({"names": ["b.example", "a.EXAMPLE", "010.0.0.1"]}))["names"],
        json!(["b.example", "A.example", "10.0.0.1"])
    );
    let flags = |patch: Value| {
        let value = apply(json!({"flags": patch}))["flags"].clone();
        let texts: Vec<String> = value
            .as_array()
            .into_iter()
            .flatten()
            .map(|f| {
                format!(
                    "{}={}",
                    f["name"].as_str().unwrap_or_default(),
                    f["value"].as_str().unwrap_or_default()
                )
            })
            .collect();
        texts.join(" ")
    };
    assert_eq!(flags(json!([{"name": "i", "value": "3"}])), "a=1 i=3 z=9");
    assert_eq!(
        flags(json!([{"name": "i", "value": "3"}, {"name": "n", "value": "0"}, {"name": "i", "value": "1"}])),
        "a=1 i=3 i=1 z=9 n=0"
    );
    assert_eq!(flags(json!([{"name": "i", "$patch": "delete"}])), "a=1 z=9");
    assert_eq!(flags(json!([{"$patch": "replace"}, {"name": "b", "value": "1"}])), "b=1");
}

#[test]
fn the_real_schema_merges_flags_volumes_names_and_taints() {
    let merges = |kind: &str, path: &str| {
        let path = FieldPath::parse(path).expect("a path");
        match Schema::embedded().type_at(kind, &path) {
            Ok(Type::List(_, merge)) => merge,
            other => panic!("{other:?}"),
        }
    };
    let keyed = |keys: &[&str]| ListMerge::Keyed(keys.iter().map(|k| (*k).to_owned()).collect());
    assert_eq!(merges("ClusterConfiguration", "apiServer.extraArgs"), ListMerge::Grouped("name".to_owned()));
    assert_eq!(merges("ClusterConfiguration", "etcd.local.extraEnvs"), keyed(&["name"]));
    assert_eq!(merges("ClusterConfiguration", "apiServer.certSANs"), ListMerge::Set);
    assert_eq!(merges("ClusterConfiguration", "etcd.external.endpoints"), ListMerge::Atomic);
    assert_eq!(merges("InitConfiguration", "nodeRegistration.taints"), keyed(&["key", "effect"]));
    assert_eq!(merges("KubeletConfiguration", "reservedMemory"), keyed(&["numaNode"]));
    assert_eq!(merges("KubeletConfiguration", "shutdownGracePeriodByPodPriority"), keyed(&["priority"]));
    assert_eq!(merges("KubeletConfiguration", "clusterDNS"), ListMerge::Atomic);
    assert_eq!(merges("KubeProxyConfiguration", "nodePortAddresses"), ListMerge::Atomic);
}

fn any_patch() -> impl Strategy<Value = Value> {
    let text = prop_oneof![Just(Value::Null), "[a-c]".prop_map(Value::from)];
    let sel = proptest::collection::btree_map("[w-z]", text, 0..4).prop_map(|m| json!(m));
    let items = proptest::collection::btree_map("[a-d]", 0..9_i64, 0..4)
        .prop_map(|m| Value::Array(m.into_iter().map(|(name, v)| json!({"name": name, "v": v})).collect()));
    let names = proptest::collection::vec("[a-d]", 0..4).prop_map(|v| json!(v));
    let flags = proptest::collection::vec(("[a-c]", "[0-3]"), 0..4)
        .prop_map(|v| Value::Array(v.into_iter().map(|(n, v)| json!({"name": n, "value": v})).collect()));
    (sel, items, names.clone(), names, flags).prop_map(|(sel, items, args, names, flags)| {
        json!({"sel": sel, "items": items, "args": args, "names": names, "flags": flags})
    })
}

proptest! {
    #[test]
    fn a_patch_twice_is_the_patch_once(first in any_patch(), patch in any_patch()) {
        let start = merge(&test_schema(), "Base", &base(), &first).expect("fine").value;
        let kept = patch.clone();
        let once = merge(&test_schema(), "Base", &start, &patch).expect("fine").value;
        let twice = merge(&test_schema(), "Base", &once, &patch).expect("fine").value;
        prop_assert_eq!(&patch, &kept);
        for list in ["items", "names", "flags", "args", "sel"] {
            prop_assert_eq!(&once[list], &twice[list]);
        }
        prop_assert_eq!(merge(&test_schema(), "Base", &once, &json!({})).expect("fine").value, once);
    }

    #[test]
    fn the_last_patch_wins_on_scalars_and_keyed_items(first in any_patch(), last in any_patch()) {
        let start = merge(&test_schema(), "Base", &base(), &first).expect("fine").value;
        let result = merge(&test_schema(), "Base", &start, &last).expect("fine").value;
        for (key, value) in last["sel"].as_object().expect("a map") {
            prop_assert_eq!(result["sel"].get(key), Some(value).filter(|v| !v.is_null()));
        }
        let items = result["items"].as_array().expect("a list");
        for item in last["items"].as_array().expect("a list") {
            prop_assert!(items.contains(item));
        }
        prop_assert_eq!(&result["args"], &last["args"]);
    }
}
