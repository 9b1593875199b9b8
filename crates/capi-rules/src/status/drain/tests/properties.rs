//! Whatever the pods and rules: their order never matters, nothing is lost, nothing panics.

use proptest::prelude::*;

use super::*;

fn some_pod() -> impl Strategy<Value = Pod> {
    let label = prop_oneof![Just("skip"), Just("wait-completed"), Just("odd-"), Just("")];
    (0..40_u8, "[a-c]", label, 0..4_u8, any::<bool>()).prop_map(|(n, namespace, label, tier, deleted)| {
        let mut metadata = json!({"labels": {"tier": tier.to_string()}});
        if !label.is_empty() {
            metadata["labels"]["cluster.x-k8s.io/drain"] = json!(label);
        }
        if deleted {
            metadata["deletionTimestamp"] = json!(format!("2026-01-01T11:59:{:02}Z", n + 20));
        }
        pod(&format!("{namespace}/p{n}"), metadata, "Running")
    })
}

fn some_rule() -> impl Strategy<Value = Arc<MachineDrainRule>> {
    let behavior =
        prop_oneof![4 => Just("Drain"), 1 => Just("Skip"), 1 => Just("WaitCompleted"), 1 => Just("?")];
    let operator = prop_oneof![9 => Just("In"), 1 => Just("Near")];
    ("[a-f]", behavior, any::<Option<i32>>(), 0..4_u8, operator).prop_map(|(name, behavior, order, tier, operator)| {
        let selector =
            json!({"matchExpressions": [{"key": "tier", "operator": operator, "values": [tier.to_string()]}]});
        rule(&name, json!({"drain": {"behavior": behavior, "order": order}, "pods": [{"selector": selector}]}))
    })
}

/// One of a key each, as in a cluster.
fn distinct<T>(items: Vec<T>, key: impl Fn(&T) -> ObjectKey) -> Vec<T> {
    let mut seen = BTreeSet::new();
    items.into_iter().filter(|item| seen.insert(key(item))).collect()
}

fn evictions(pods: &[Pod], outcomes: &[u8]) -> Evictions {
    let outcome = |(pod, outcome): (&Pod, &u8)| {
        let outcome = match outcome % 4 {
            0 => return None,
            1 => Evicted::Started,
            2 => Evicted::Gone,
            _ => Evicted::Refused(format!("error {}", outcome / 16)),
        };
        Some((ObjectKey::of(pod), outcome))
    };
    pods.iter().zip(outcomes).filter_map(outcome).collect()
}

proptest! {
    #[test]
    fn order_never_matters(
        pods in prop::collection::vec(some_pod(), 0..20),
        rules in prop::collection::vec(some_rule(), 0..5),
        outcomes in prop::collection::vec(any::<u8>(), 20),
        unreachable in any::<bool>(),
    ) {
        let pods = distinct(pods, ObjectKey::of);
        let rules = distinct(rules, |rule| ObjectKey::of(rule.as_ref()));
        let mut case = Case::of(pods.clone()).with_rules(rules.clone());
        case.evictions = evictions(&pods, &outcomes);
        if unreachable {
            case.node = object(json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
        }
        let straight = case.drain();
        case.tenants.pods.reverse();
        case.tenants.rules = Ok(rules.into_iter().rev().collect());
        let reversed = case.drain();
        // Which of several mistakes is reported may differ.
        prop_assert_eq!(straight.is_err(), reversed.is_err());
        if let (Ok(straight), Ok(reversed)) = (straight, reversed) {
            prop_assert_eq!(straight.message("T"), reversed.message("T"));
            prop_assert_eq!(straight.left() == 0, straight.is_complete());
            prop_assert!(straight.left() <= pods.len());
            prop_assert_eq!(straight, reversed);
        }
    }

    #[test]
    fn a_message_is_read_without_trouble(text in "(\\* Pods? [a-z/, :]{0,20}\n?|.*\n?){0,5}") {
        prop_assert!(refusals(&text).len() <= text.len());
    }
}
