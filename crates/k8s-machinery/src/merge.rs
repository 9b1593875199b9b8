//! JSON merge patches (RFC 7386): the difference of two values. Writers decode an object, change the
//! typed copy, and send the difference between before and after, so that fields our types do not know
//! are never touched. Knows nothing of kinds.

use serde_json::{Map, Value};

/// The patch that turns `before` into `after`, or nothing when they are equal.
///
/// Shape: `null` removes a key; a list is replaced as a whole. Limit of the format: a `null` inside
/// `after` cannot be distinguished from a removal, so it removes.
pub fn merge_diff(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => diff_objects(before, after),
        _ if before == after => None,
        _ => Some(after.clone()),
    }
}

fn diff_objects(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<Value> {
    let mut patch = Map::new();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, new) in after {
        let change = match before.get(key) {
            Some(old) => merge_diff(old, new),
            None => Some(new.clone()),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Applies a merge patch in place.
pub fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    // RFC 7386: a patch with fields makes an object of whatever was there.
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, change) in patch {
        if change.is_null() {
            target.remove(key);
        } else {
            // Also below a key that is absent, a `null` removes and is never stored.
            apply(target.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn equal_values_need_no_patch() {
        assert_eq!(merge_diff(&json!({"a": {"b": [1, 2]}}), &json!({"a": {"b": [1, 2]}})), None);
    }

    #[test]
    fn the_rules_of_the_format() {
        for (before, after, patch) in [
            (json!({"a": 1}), json!({"a": 2}), json!({"a": 2})),
            (json!({"a": 1}), json!({"a": 1, "b": {"c": 1}}), json!({"b": {"c": 1}})),
            (json!({"a": 1, "b": 2}), json!({"a": 1}), json!({"b": null})),
            (json!({"a": [1, 2]}), json!({"a": [1, 2, 3]}), json!({"a": [1, 2, 3]})),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1}}), json!({"a": {"c": null}})),
            (json!({"a": {"b": 1}}), json!({"a": "text"}), json!({"a": "text"})),
            (json!({"a": "text"}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
        ] {
            assert_eq!(merge_diff(&before, &after), Some(patch), "{before} to {after}");
        }
    }

    #[test]
    fn a_field_that_the_types_do_not_know_survives() {
        let served = json!({"spec": {"replicas": 1, "novelty": {"x": true}}});
        let patch = merge_diff(&json!({"spec": {"replicas": 1}}), &json!({"spec": {"replicas": 3}}));
        let mut written = served;
        apply(&mut written, &patch.unwrap());
        assert_eq!(written, json!({"spec": {"replicas": 3, "novelty": {"x": true}}}));
    }

    fn without_null() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), any::<i32>().prop_map(Value::from)];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn applying_the_difference_gives_after(before in without_null(), after in without_null()) {
            let mut value = before.clone();
            if let Some(patch) = merge_diff(&before, &after) {
                apply(&mut value, &patch);
            }
            prop_assert_eq!(value, after);
        }
    }
}
