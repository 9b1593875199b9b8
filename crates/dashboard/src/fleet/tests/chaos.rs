//! What must hold whatever comes: order of arrival, misshapen objects, hostile text.

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;

fn two_clusters() -> Vec<Value> {
    let mut all = small_cluster("a");
    all.extend(small_cluster("b"));
    all[14]["status"]["conditions"][1]["status"] = json!("False");
    all
}

/// All paths of a JSON value, as pointers.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(entries) => {
            for (key, inner) in entries {
                pointers(inner, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (i, inner) in items.iter().enumerate() {
                pointers(inner, &format!("{at}/{i}"), found);
            }
        }
        _ => {}
    }
}

fn strange() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        Just(json!(-1)),
        Just(json!(1.5)),
        Just(json!(u64::MAX)),
        Just(json!([])),
        Just(json!({})),
        Just(json!([null, 1, "x", {}])),
        Just(json!({"type": 1, "kind": [], "conditions": {}})),
        any::<String>().prop_map(Value::String),
        Just(json!("\u{1b}[2J\u{202e}evil\u{9b}")),
    ]
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(64) })]

    #[test]
    fn the_order_of_arrival_does_not_matter(order in Just((0..two_clusters().len()).collect::<Vec<_>>()).prop_shuffle()) {
        let objects = two_clusters();
        let shuffled: Vec<Value> = order.iter().map(|i| objects[*i].clone()).collect();
        let options = TreeOptions { references: true, ..TreeOptions::default() };
        prop_assert_eq!(picture(&fleet_of(&shuffled), &options), picture(&fleet_of(&objects), &options));
    }

    #[test]
    fn coming_and_going_leaves_no_trace(
        order in Just((0..two_clusters().len()).collect::<Vec<_>>()).prop_shuffle(), gone in 0_usize..18,
    ) {
        let objects = two_clusters();
        let mut fleet = fleet_of(&objects);
        let removed = &order[..gone.min(order.len())];
        for i in removed {
            fleet.apply(vec![Delta::Remove { source: SourceId(0), uid: row_of(&objects[*i]).uid }]);
        }
        let rest: Vec<Value> = (0..objects.len()).filter(|i| !removed.contains(i)).map(|i| objects[i].clone()).collect();
        let options = TreeOptions::default();
        prop_assert_eq!(picture(&fleet, &options), picture(&fleet_of(&rest), &options));
        fleet.apply(objects.iter().map(|o| Delta::Upsert(row_of(o))).collect());
        prop_assert_eq!(picture(&fleet, &options), picture(&fleet_of(&objects), &options));
    }

    #[test]
    fn misshapen_objects_are_shown_not_feared(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), strange()), 1..6),
    ) {
        let mut objects = small_cluster("a");
        for (which, place, value) in edits {
            let object = which.get_mut(&mut objects);
            let mut found = Vec::new();
            pointers(object, "", &mut found);
            // The object itself and its kind come from the watch, not from the document.
            found.retain(|p| !p.is_empty() && p != "/kind" && p != "/apiVersion");
            if let Some(at) = object.pointer_mut(&found[place.index(found.len())]) {
                *at = value;
            }
        }
        let fleet = fleet_of(&objects);
        let text = picture(&fleet, &TreeOptions { references: true, ..TreeOptions::default() });
        prop_assert!(!text.chars().any(|c| c != '\n' && capstan_base::text::is_hostile(c)), "{}", text);
        for (id, _) in fleet.rows() {
            let details = fleet.details(id);
            prop_assert!(details.is_some());
            let _ = fleet.timeline(id);
        }
    }
}

#[test]
fn owners_that_own_each_other_do_not_hang() {
    let fleet = fleet_of(&[
        cluster("a").0,
        deployment("a", "x", 1).owned_by("MachineSet", "y").0,
        set("a", "x", "y", 1).0,
        set("a", "z", "z", 1).owned_by("MachineSet", "z").0,
    ]);
    let text = picture(&fleet, &TreeOptions::default());
    assert_eq!(text.matches("MachineSet").count(), 2, "{text}");
}

#[test]
fn rows_are_small() {
    // With its counts the next larger block of the allocator has 320 bytes.
    assert!(size_of::<Row>() <= 256 - 16, "{}", size_of::<Row>());
    assert!(size_of::<index::Slot>() <= 64, "{}", size_of::<index::Slot>());
    assert!(size_of::<Node>() <= 28, "{}", size_of::<Node>());
    assert_eq!(size_of::<Condition>(), 16);
}

#[test]
fn what_cannot_be_decoded_is_a_row_that_says_so() {
    for (part, odd, verdict, words) in [
        ("status", json!("fine"), Verdict::Unknown, "cannot be decoded: its status is not an object"),
        ("status", json!([]), Verdict::Unknown, "cannot be decoded: its status is not an object"),
        ("spec", json!(7), Verdict::Unknown, "cannot be decoded: its spec is not an object"),
        ("spec", Value::Null, Verdict::Ok, ""),
    ] {
        let mut objects = small_cluster("a");
        let at = objects.iter().position(|o| o["kind"] == "MachineDeployment").expect("a MachineDeployment");
        objects[at][part] = odd.clone();
        let fleet = fleet_of(&objects);
        let (id, _) = fleet.rows().find(|(_, row)| row.kind == Kind::MachineDeployment).expect("its row");
        assert_eq!(fleet.own_verdict(id), verdict, "{part}: {odd}");
        assert!(fleet.what_is_wrong(id).contains(words), "{}", fleet.what_is_wrong(id));
    }
}
