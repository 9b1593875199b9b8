//! The merge of lists as upstream writes it, item against item: what the quick one is compared with
//! over lists made by chance, and long ones that must not take the square of their length.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{List, Merger, in_order, merge};

/// Tests only: items compared one by one.
mod slow {
    use serde_json::Value;

    use super::super::{List, Merger, PATCH, without_directives_value};

    fn same(a: &Value, b: &Value, strategy: List) -> bool {
        match strategy {
            List::Keyed(key) => a.get(key).is_some() && a.get(key) == b.get(key),
            List::Set | List::Replace => a == b,
        }
    }

    pub(super) fn keyed(merger: &Merger<'_>, key: &str, mut old: Vec<Value>, new: &[Value]) -> Vec<Value> {
        let (deletes, changes): (Vec<_>, Vec<_>) = new.iter().cloned().partition(|i| i.get(PATCH).is_some());
        for delete in deletes {
            old.retain(|candidate| candidate.get(key) != delete.get(key));
        }
        for change in changes {
            let found = old.iter_mut().find(|candidate| candidate.get(key) == change.get(key));
            match (found, change) {
                (Some(slot), Value::Object(change)) => {
                    let Value::Object(before) = slot.take() else { unreachable!("it has a key") };
                    *slot = Value::Object(merger.object("", before, change).expect("a merge"));
                }
                (_, change) => old.push(without_directives_value(change)),
            }
        }
        old
    }

    pub(super) fn set(old: Vec<Value>, new: Vec<Value>) -> Vec<Value> {
        let mut merged: Vec<Value> = Vec::new();
        for item in old.into_iter().chain(new) {
            if !merged.contains(&item) {
                merged.push(item);
            }
        }
        merged
    }

    pub(super) fn in_order(
        merged: Vec<Value>,
        order: &[Value],
        before: &[Value],
        strategy: List,
    ) -> Vec<Value> {
        let place = |list: &[Value], item: &Value| list.iter().position(|other| same(other, item, strategy));
        let (mut named, server_only): (Vec<Value>, Vec<Value>) =
            merged.into_iter().partition(|item| place(order, item).is_some());
        named.sort_by_key(|item| place(order, item));
        let mut out = Vec::new();
        let mut rest = server_only.into_iter().peekable();
        for item in named {
            if let Some(mine) = place(before, &item) {
                let is_before = |other: &Value| place(before, other).is_some_and(|theirs| theirs < mine);
                while let Some(other) = rest.next_if(is_before) {
                    out.push(other);
                }
            }
            out.push(item);
        }
        out.extend(rest);
        out
    }
}

const KEYED: List = List::Keyed("k");

fn scalars() -> impl Strategy<Value = Vec<Value>> {
    let scalar =
        prop_oneof![(0_i64..6).prop_map(Value::from), "[a-c]".prop_map(Value::from), Just(json!(1.0))];
    prop::collection::vec(scalar, 0..10)
}

/// Items of a keyed list. Keys may repeat or be null, and may be missing where that is not an error.
fn items(patch: bool) -> impl Strategy<Value = Vec<Value>> {
    let key = prop_oneof![6 => (0_i64..5).prop_map(Value::from), 1 => Just(Value::Null)];
    let item = (key, 0_i64..3, 0..8_u8).prop_map(move |(key, value, how)| match how {
        0 if patch => json!({"k": key, "$patch": "delete"}),
        1 if patch => json!({"k": key, "v": null}),
        0 => json!({"v": value}),
        2 => json!({"k": key, "w": value}),
        _ => json!({"k": key, "v": value}),
    });
    prop::collection::vec(item, 0..10)
}

proptest! {
    #[test]
    fn keyed_lists_merge_as_one_by_one(old in items(false), new in items(true)) {
        let merger = Merger { kind: "" };
        let expected = slow::keyed(&merger, "k", old.clone(), &new);
        prop_assert_eq!(merger.keyed("", "k", old, new).expect("a merge"), expected);
    }

    #[test]
    fn sets_merge_as_one_by_one(old in scalars(), new in scalars(), gone in scalars()) {
        let object = |list: &[Value]| json!({"metadata": {"finalizers": list}});
        let mut patch = object(&new);
        let mut expected = slow::set(old.clone(), new);
        prop_assert_eq!(&merge("", object(&old), patch.clone()).expect("a merge"), &object(&expected));
        patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = gone.clone().into();
        // Directives come first: what is deleted and brought again is there, at its end.
        let kept: Vec<Value> = old.iter().filter(|item| !gone.contains(item)).cloned().collect();
        expected = slow::set(kept, patch["metadata"]["finalizers"].as_array().cloned().unwrap_or_default());
        prop_assert_eq!(&merge("", object(&old), patch).expect("a merge"), &object(&expected));
    }

    #[test]
    fn orders_are_as_one_by_one(merged in items(false), order in items(false), before in items(false)) {
        for strategy in [KEYED, List::Set] {
            let expected = slow::in_order(merged.clone(), &order, &before, strategy);
            prop_assert_eq!(in_order(merged.clone(), &order, &before, strategy), expected);
        }
    }
}

/// 9 s in a release build before, and the minutes of a debug build would be noticed here.
#[test]
fn a_long_ordered_list_took_the_square_of_its_length() {
    const LENGTH: usize = 20_000;
    let owner = |n: usize| json!({"uid": format!("u{n}"), "name": "n"});
    let uids: Vec<Value> = (0..LENGTH).rev().map(|n| json!({"uid": format!("u{n}")})).collect();
    let target = json!({"metadata": {"ownerReferences": (0..LENGTH).map(owner).collect::<Vec<_>>()}});
    let patch = json!({"metadata": {
        "$setElementOrder/ownerReferences": uids,
        "ownerReferences": (0..LENGTH).step_by(2).map(|n| json!({"uid": format!("u{n}"), "name": "m"}))
            .collect::<Vec<_>>(),
    }});
    let merged = merge("ConfigMap", target, patch).expect("a merge");
    let owners = merged["metadata"]["ownerReferences"].as_array().expect("a list");
    assert_eq!(owners.len(), LENGTH);
    assert_eq!((&owners[0], &owners[1]), (&owner(LENGTH - 1), &json!({"uid": "u19998", "name": "m"})));
}
