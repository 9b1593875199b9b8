//! Synthetic fleets: counts that add up, the same fleet for the same seed, objects that the types know.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use capi_types::condition::{Conditioned as _, is_true};
use capi_types::condition_types::{condition_type, rank};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capstan_base::time::parse_rfc3339;

fn fleet(clusters: usize, machines: usize) -> Vec<Value> {
    let now = parse_rfc3339("2026-11-20T10:00:00Z").unwrap();
    Synthetic { clusters, machines, seed: 7 }.objects(now).collect()
}

fn typed<K: serde::de::DeserializeOwned>(objects: &[Value], kind: &str) -> Vec<K> {
    let of_kind = objects.iter().filter(|object| object["kind"] == kind);
    of_kind.map(|object| serde_json::from_value(object.clone()).unwrap()).collect()
}

#[test]
fn specifications_are_read_or_explained() {
    assert_eq!(
        Synthetic::parse("clusters=2,machines=10,seed=3"),
        Ok(Synthetic { clusters: 2, machines: 10, seed: 3 })
    );
    for (text, word) in [
        ("", "key=number"),
        ("clusters=2", "both"),
        ("clusters=2,machines=x", "whole number"),
        ("clusters=2,machines=1", "at least"),
        ("clusters=0,machines=1", "at least"),
        ("clusters=1,nodes=1", "`nodes`"),
        ("clusters=1,machines=99999999", "at most"),
    ] {
        let error = Synthetic::parse(text).unwrap_err().to_string();
        assert!(error.contains(word) && !error.contains('\n'), "{text}: {error}");
    }
}

#[test]
fn the_same_seed_gives_the_same_fleet() {
    assert_eq!(fleet(3, 100), fleet(3, 100));
}

#[test]
fn there_are_roughly_as_many_machines_as_asked_for() {
    for (clusters, machines) in [(1, 1), (5, 17), (40, 4_000)] {
        let count = fleet(clusters, machines).iter().filter(|object| object["kind"] == "Machine").count();
        // A rollout has one machine more than wanted.
        assert!(count >= machines && count <= machines + machines / 50, "{clusters}, {machines}: {count}");
    }
}

#[test]
fn names_are_unique_and_owners_exist() {
    let objects = fleet(20, 2_000);
    let uids: BTreeSet<_> = objects.iter().filter_map(|object| object["metadata"]["uid"].as_str()).collect();
    let namespaces = objects.iter().filter(|object| object["kind"] == "Namespace").count();
    assert_eq!(uids.len() + namespaces, objects.len());
    for object in &objects {
        for owner in object["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
            assert!(uids.contains(owner["uid"].as_str().unwrap()), "{}", object["metadata"]["name"]);
        }
    }
}

#[test]
fn counters_of_deployments_match_their_machines() {
    let objects = fleet(40, 8_000);
    let mut machines: BTreeMap<String, Vec<Machine>> = BTreeMap::new();
    for machine in typed::<Machine>(&objects, "Machine") {
        let labels = machine.metadata.labels.clone().unwrap_or_default();
        if let Some(deployment) = labels.get(capi_types::names::label::DEPLOYMENT_NAME) {
            machines.entry(deployment.clone()).or_default().push(machine);
        }
    }
    let (mut healthy, mut total) = (0, 0);
    for deployment in typed::<MachineDeployment>(&objects, "MachineDeployment") {
        let name = deployment.metadata.name.clone().unwrap_or_default();
        let status = deployment.status.clone().unwrap_or_default();
        let of = |type_: &str| {
            let count = machines[&name].iter().filter(|machine| is_true(machine.conditions(), type_)).count();
            i32::try_from(count).ok()
        };
        assert_eq!(status.replicas, i32::try_from(machines[&name].len()).ok(), "{name}");
        assert_eq!(status.ready_replicas, of("Ready"), "{name}");
        assert_eq!(status.available_replicas, of("Available"), "{name}");
        assert_eq!(status.up_to_date_replicas, of("UpToDate"), "{name}");
        let available = status.available_replicas >= deployment.spec.replicas;
        assert_eq!(is_true(deployment.conditions(), "Available"), available, "{name}");
        total += 1;
        healthy += usize::from(is_true(deployment.conditions(), "MachinesReady"));
    }
    assert!(healthy * 100 > total * 90 && healthy < total, "{healthy} of {total}");
}

/// Their conditions are written by hand, and must be what `api` says of condition types.
#[test]
fn conditions_of_core_kinds_are_known_types_in_upstreams_order() {
    for object in fleet(4, 80) {
        let types: Vec<&str> = object["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|condition| condition["type"].as_str())
            .collect();
        assert!(types.is_sorted_by_key(|type_| rank(type_)), "{}: {types:?}", object["kind"]);
        if object["apiVersion"] == "cluster.x-k8s.io/v1beta2" {
            let unknown: Vec<_> = types.iter().filter(|type_| condition_type(type_).is_none()).collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", object["kind"]);
        }
    }
}
