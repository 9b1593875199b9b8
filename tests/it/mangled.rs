//! Objects that bypassed validation: fields taken away, of another type, empty, huge, negative, twice. Each planner blocks with
//! a reason or plans without them, and ends.

use std::collections::BTreeMap;

use capi_forecast::forecast::{ObjectPlan, State, forecast};
use capi_rules::observe::dump::Dump;
use capstan_base::rng::Rng;
use capstan_base::time::parse_rfc3339;
use serde_json::{Value, json};

use crate::at_rest::{healthy, settled};

/// What makes it the same object.
const LEFT_ALONE: [&str; 5] =
    ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace", "/metadata/uid"];

/// The healthy cluster of appendix A, whose control plane and workers are asked for another version.
fn world() -> Vec<Value> {
    let mut objects = settled(healthy());
    for object in &mut objects {
        match object["kind"].as_str() {
            Some("KubeadmControlPlane") => object["spec"]["version"] = json!("v1.34.2"),
            Some("MachineDeployment") => object["spec"]["template"]["spec"]["version"] = json!("v1.34.2"),
            _ => {}
        }
    }
    objects
}

fn index(rng: &Rng, length: usize) -> usize {
    usize::try_from(rng.below(length as u64)).expect("in memory")
}

/// Changes one place of an object. Answers with the place and what is there now.
fn mangle(object: &mut Value, rng: &Rng) -> String {
    let mut places = Vec::new();
    list_places(object, "", &mut places);
    let place = places.swap_remove(index(rng, places.len()));
    let (parent, name) = place.rsplit_once('/').expect("a pointer");
    let other = odd_value(rng);
    match object.pointer_mut(parent).expect("a place of it") {
        Value::Object(fields) if other.is_null() => {
            drop(fields.remove(&name.replace("~1", "/").replace("~0", "~")));
        }
        Value::Object(fields) => {
            drop(fields.insert(name.replace("~1", "/").replace("~0", "~"), other.clone()));
        }
        Value::Array(items) => {
            let at: usize = name.parse().expect("an index");
            if other.is_null() {
                items.push(items[at].clone());
            } else {
                items[at] = other.clone();
            }
        }
        _ => unreachable!("only containers have places"),
    }
    let text: String = other.to_string().chars().take(40).collect();
    format!("{} {}: {place} = {text}", object["kind"], object["metadata"]["name"])
}

fn list_places(value: &Value, at: &str, places: &mut Vec<String>) {
    let mut visit = |name: &str, child: &Value| {
        let place = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        if !LEFT_ALONE.contains(&place.as_str()) {
            list_places(child, &place, places);
            places.push(place);
        }
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, child)| visit(name, child)),
        Value::Array(items) => items.iter().enumerate().for_each(|(n, child)| visit(&n.to_string(), child)),
        _ => {}
    }
}

fn odd_value(rng: &Rng) -> Value {
    let odd = [
        Value::Null,
        json!(""),
        json!("latest"),
        json!("v1.x"),
        json!("v999.0.0"),
        json!("2999-01-01T00:00:00Z"),
        json!("1000-01-01T00:00:00Z"),
        json!("not there"),
        json!("a/b \u{7} {{ .x }}"),
        json!("x".repeat(5000)),
        json!(0),
        json!(-1),
        json!(i32::MIN),
        json!(i32::MAX),
        json!(1_000_000_000_000_i64),
        json!(true),
        json!([]),
        json!({}),
    ];
    odd[index(rng, odd.len())].clone()
}

/// Nothing is held without a word, and no plan is without an end.
fn assert_sound(plan: &ObjectPlan, done: &[String]) {
    let held = matches!(plan.state, State::Blocked | State::Waiting | State::Unknown);
    let about = format!("{done:?}: {} is {:?}", plan.id(), plan.state);
    assert!(!held || !plan.blockers.is_empty(), "{about} without a reason");
    assert!(
        plan.blockers.iter().all(|blocker| !blocker.sentence.trim().is_empty()),
        "{about}: an empty reason"
    );
    assert!(plan.next.len() < 1000 && plan.then.len() < 1000, "{about} with {} steps", plan.next.len());
}

/// `CAPSTAN_MANGLED_DUMPS=N` asks for more.
#[test]
fn every_mangled_object_has_a_plan_or_a_reason() {
    let count = std::env::var("CAPSTAN_MANGLED_DUMPS").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    let (whole, now) = (world(), parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment"));
    let mut rules = BTreeMap::<String, usize>::new();
    for seed in 0..count {
        let (rng, mut world) = (Rng::seeded(seed), whole.clone());
        let done: Vec<String> = (0..=rng.below(4))
            .map(|_| {
                let at = index(&rng, world.len());
                mangle(&mut world[at], &rng)
            })
            .collect();
        let dump = Dump::new(world.into_iter().map(Into::into).collect());
        let plans = forecast(&dump, now);
        for plan in &plans.objects {
            assert_sound(plan, &done);
            plan.blockers.iter().for_each(|blocker| *rules.entry(blocker.rule.clone()).or_default() += 1);
        }
    }
    assert!(rules.len() >= 5, "too few rules were met: {rules:?}");
}
