//! The order in which a reader hands objects over never changes a status: not with equal transition
//! times, equal messages or equal counts either, where upstream's output depends on chance.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::status::{cluster, machine_deployment, machine_health_check, machine_set};
use capi_types::machine::Machine;
use capi_types::machine_set::MachineSet;
use capstan_base::time::{Timestamp, parse_rfc3339};

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

/// One object as chance made it: a digit for each thing that may differ.
type Rolls = [u8; 10];

fn pick<'a>(roll: u8, from: &[&'a str]) -> &'a str {
    from[usize::from(roll) % from.len()]
}

/// Few values each, so that ties are common. Absent with one roll of four.
fn condition(type_: &str, roll: u8) -> Option<Value> {
    let status = pick(roll, &["True", "False", "Unknown", ""]);
    let message = pick(roll / 4, &["", "a", "b", "* a\n* b"]);
    let since = pick(roll / 16, &["2026-11-20T09:00:00Z", "2026-11-20T09:30:00Z"]);
    (!status.is_empty())
        .then(|| json!({"type": type_, "status": status, "reason": "R", "message": message, "lastTransitionTime": since}))
}

fn conditions(types: &[&str], rolls: &[u8]) -> Vec<Value> {
    types.iter().zip(rolls).filter_map(|(type_, roll)| condition(type_, *roll)).collect()
}

fn machine(at: usize, rolls: Rolls) -> Machine {
    let types = ["Ready", "UpToDate", "Available", "HealthCheckSucceeded", "OwnerRemediated", "Deleting"];
    let name = format!("m{at}");
    let mut labels = json!({"cluster.x-k8s.io/cluster-name": "c"});
    if rolls[6].is_multiple_of(3) {
        labels["cluster.x-k8s.io/control-plane"] = "".into();
    }
    let leaving = rolls[7].is_multiple_of(4).then_some("2026-11-20T09:00:00Z");
    object(
        json!({"metadata": {"name": name, "namespace": "ns", "labels": labels, "deletionTimestamp": leaving,
            "creationTimestamp": pick(rolls[8], &["2026-11-20T08:00:00Z", "2026-11-20T08:30:00Z"])},
        "spec": {"clusterName": "c", "version": pick(rolls[9], &["v1.34.1", "1.34.1", "v1.35.0+a", "v1.35.0+1", "odd"]), "bootstrap": {},
            "infrastructureRef": {"apiGroup": "i", "kind": "K", "name": name}},
        "status": {"conditions": conditions(&types, &rolls)}}),
    )
}

fn set(at: usize, rolls: Rolls) -> MachineSet {
    let count = |roll: u8| i32::from(roll % 4);
    let owner =
        json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "u"}]);
    object(
        json!({"metadata": {"name": format!("s{at}"), "namespace": "ns", "ownerReferences": owner}, "spec": {"clusterName": "c", "replicas": count(rolls[0]),
            "selector": {}, "template": {"spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}}},
        "status": {"replicas": count(rolls[1]), "readyReplicas": count(rolls[2]),
            "versions": [{"version": pick(rolls[3], &["v1.34.1", "1.34.1", "odd", "even"]), "replicas": 1}],
            "conditions": conditions(&["ScalingUp", "ScalingDown"], &rolls[4..])}}),
    )
}

/// Objects made by chance, in two orders.
fn shuffled<T: Clone + std::fmt::Debug + 'static>(
    make: fn(usize, Rolls) -> T,
) -> impl Strategy<Value = (Vec<T>, Vec<T>)> {
    prop::collection::vec(any::<Rolls>(), 0..9).prop_flat_map(move |rolls| {
        let all: Vec<T> = rolls.into_iter().enumerate().map(|(at, rolls)| make(at, rolls)).collect();
        (Just(all.clone()), Just(all).prop_shuffle())
    })
}

fn arcs<T>(all: Vec<T>) -> Vec<Arc<T>> {
    all.into_iter().map(Arc::new).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn of_machines_in_a_set((one, other) in shuffled(machine)) {
        let status = |machines| {
            let observed = machine_set::Observed {
                set: set(0, [2; 10]),
                machines: Some(arcs(machines)),
                missing_templates: Vec::new(),
                preflight: Vec::new(),
            };
            machine_set::status(&observed, now())
        };
        prop_assert_eq!(status(one), status(other));
    }

    #[test]
    fn of_machines_and_sets_in_a_deployment((one, other) in shuffled(machine), (sets, same_sets) in shuffled(set)) {
        let status = |machines, sets| {
            let observed = machine_deployment::Observed {
                deployment: object(json!({"metadata": {"name": "md"}, "spec": {"clusterName": "c", "replicas": 3, "selector": {},
                    "template": {"spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}}}})),
                sets: Some(arcs(sets)),
                machines: arcs(machines),
                missing_templates: Vec::new(),
            };
            machine_deployment::status(&observed, now())
        };
        prop_assert_eq!(status(one, sets), status(other, same_sets));
    }

    #[test]
    fn of_all_that_belongs_to_a_cluster((one, other) in shuffled(machine), (sets, same_sets) in shuffled(set)) {
        let status = |machines: Vec<Machine>, sets: Vec<MachineSet>| {
            let observed = cluster::Observed {
                cluster: object(json!({"metadata": {"name": "c", "namespace": "ns"}, "spec": {}})),
                descendants: cluster::Descendants {
                    machines: arcs(machines),
                    machine_sets: arcs(sets),
                    ..cluster::Descendants::default()
                },
                ..cluster::Observed::default()
            };
            cluster::status(&observed, now())
        };
        prop_assert_eq!(status(one, sets), status(other, same_sets));
    }

    #[test]
    fn of_targets_of_a_health_check((one, other) in shuffled(machine)) {
        let outcome = |machines: Vec<Machine>| {
            let target = |machine| machine_health_check::Target { machine: Arc::new(machine), node: machine_health_check::TargetNode::None };
            let observed = machine_health_check::Observed {
                check: object(json!({"metadata": {"name": "mhc"}, "spec": {"clusterName": "c", "selector": {}}})),
                cluster: object(json!({"metadata": {"name": "c"}, "spec": {}})),
                targets: machines.into_iter().map(target).collect(),
                connected: true,
                external: None,
            };
            machine_health_check::judge(&observed, now()).status
        };
        prop_assert_eq!(outcome(one), outcome(other));
    }
}
