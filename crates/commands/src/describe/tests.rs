//! The tree against the expectations that come with the shared samples, and small built trees.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::*;
use capstan_base::time::parse_rfc3339;

fn shared() -> Option<PathBuf> {
    let root = std::env::var_os("CAPSTAN_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    if root.is_dir() {
        return Some(root);
    }
    println!("skipped: {} is not there", root.display());
    None
}

fn objects(values: Vec<Value>) -> Vec<(Gvk, Value)> {
    values
        .into_iter()
        .map(|value| {
            let api_version = value["apiVersion"].as_str().unwrap_or_default();
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let kind = value["kind"].as_str().unwrap_or_default().to_owned();
            let gvk = Gvk {
                group: group.to_owned(),
                version: version.to_owned(),
                plural: kind.to_lowercase(),
                kind,
                namespaced: true,
            };
            (gvk, value)
        })
        .collect()
}

fn snapshot_of(values: Vec<Value>, name: &str) -> Snapshot {
    let now = parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment");
    snapshot(&objects(values), name, now, Vec::new()).expect("the cluster is there")
}

/// The tree of a cluster in a sample file, as printed.
fn printed(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(shared()?.join("samples").join(file)).expect("readable");
    let values: Vec<Value> = serde_saphyr::from_multiple(&text).expect("valid YAML");
    Some(draw::table(&layout::tree(&snapshot_of(values, name), Options::default()), false))
}

/// The example in the reference that begins with the line `Cluster default/<name>` and has `marker`.
fn reference(marker: &str) -> Option<String> {
    let text = std::fs::read_to_string(shared()?.join("reference/clusterctl-describe.md")).expect("readable");
    let blocks = text.split("```text\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    blocks.map(str::to_owned).find(|block| block.contains(marker))
}

#[test]
fn the_healthy_sample_prints_as_expected() {
    let Some(seen) = printed("01-healthy-ha.yaml", "prod-eu") else { return };
    let expected = reference("prod-eu-control-plane-9k2wd").expect("the example");
    assert_eq!(seen.trim_end(), expected, "\n{seen}");
}

/// The reference shows the broken cluster with conditions of its control plane; every other line must be
/// there as printed, but for the width of the name column.
#[test]
fn the_broken_sample_prints_as_expected() {
    let Some(seen) = printed("03-broken.yaml", "edge-a") else { return };
    let expected = reference("edge-a-control-plane-p4g6z").expect("the example");
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let seen_lines: Vec<String> = seen.lines().map(squeeze).collect();
    let mut conditions = 0;
    for line in expected.lines() {
        let is_condition = line.starts_with("│ │  ");
        let is_blanked = line.contains("KubeadmControlPlane default/edge-a");
        if is_condition || is_blanked {
            conditions += usize::from(is_condition);
            continue;
        }
        assert!(seen_lines.contains(&squeeze(line)), "missing: {line}\n{seen}");
    }
    assert!(conditions > 3);
}

fn object(kind: &str, name: &str, rest: &Value) -> Value {
    let mut value = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("{kind}/{name}"), "creationTimestamp": "2026-11-20T09:00:00Z",
            "labels": {"cluster.x-k8s.io/cluster-name": "a"},
        },
        "spec": {"clusterName": "a"}, "status": {},
    });
    for (pointer, wanted) in rest.as_object().into_iter().flatten() {
        let mut at = &mut value;
        for key in pointer.split('.') {
            at = &mut at[key];
        }
        *at = wanted.clone();
    }
    value
}

#[test]
fn what_older_conditions_say_is_marked() {
    let older = json!([{"type": "Ready", "status": "False", "severity": "Error", "reason": "Broken"}]);
    let newer = json!([{"type": "Ready", "status": "True", "reason": "Ready"}]);
    let v1beta1 = "cluster.x-k8s.io/v1beta1";
    let owner = json!([{"apiVersion": v1beta1, "kind": "MachineSet", "name": "s", "uid": "MachineSet/s", "controller": true}]);
    let machine = |name: &str, version: &str, place: &str, all: &Value| {
        let api_version = format!("cluster.x-k8s.io/{version}");
        object(
            "Machine",
            name,
            &json!({"apiVersion": api_version, "metadata.ownerReferences": owner, "spec.version": "v1.34.1", place: {"conditions": all}}),
        )
    };
    let values = vec![
        object(
            "Cluster",
            "a",
            &json!({"apiVersion": v1beta1, "status": {"conditions": older, "v1beta2": {"conditions": newer}}}),
        ),
        object("MachineSet", "s", &json!({})),
        machine("old", "v1beta1", "status", &older),
        machine("left", "v1beta2", "status.deprecated.v1beta1", &older),
        machine("new", "v1beta2", "status", &newer),
    ];
    let snapshot = snapshot_of(values, "a");
    let seen =
        draw::table(&layout::tree(&snapshot, Options { grouping: false, ..Options::default() }), false);
    let firsts: Vec<&str> =
        seen.lines().map(|line| line.split("  ").find(|w| !w.is_empty()).unwrap_or_default()).collect();
    assert_eq!(firsts[1], "Cluster ns/a");
    for (name, marked) in [("left", true), ("new", false), ("old", true)] {
        let title = format!("Machine ns/{name}, v1.34.1{}", if marked { " *" } else { "" });
        assert!(firsts.iter().any(|first| first.ends_with(&title)), "{title}\n{seen}");
    }
    // Older conditions know nothing of availability and of being up to date.
    for (name, cells) in [("old", "1 0 False"), ("left", "1 0 False"), ("new", "1 0 1 0 True")] {
        let line = seen.lines().find(|line| line.contains(&format!("ns/{name},"))).expect("its line");
        let (_, rest) = line.split_once("v1.34.1").expect("a version");
        let words: Vec<&str> = rest.split_whitespace().filter(|word| *word != "*").collect();
        assert!(words.join(" ").starts_with(cells), "{name}: {line}");
    }
    assert_eq!(seen.lines().last(), Some("* by deprecated v1beta1 conditions"));
    let grouped = draw::table(&layout::tree(&snapshot, Options::default()), false);
    assert!(grouped.contains("2 Machines... *"), "{grouped}");
    let json = as_json(&snapshot);
    let machines = &json["tree"]["children"][0]["children"][0]["children"];
    let marks: Vec<(&str, bool)> = machines
        .as_array()
        .into_iter()
        .flatten()
        .map(|m| (m["name"].as_str().unwrap_or_default(), m["deprecatedConditions"] == true))
        .collect();
    assert_eq!(marks, [("left", true), ("new", false), ("old", true)], "{json:#}");
}

#[test]
fn nothing_is_hidden() {
    let values = vec![
        object("Cluster", "a", &json!({})),
        object(
            "MachineDeployment",
            "empty",
            &json!({"spec.replicas": 0, "spec.template.spec.version": "v1.36.2"}),
        ),
        object("MachineSet", "alone", &json!({"spec.replicas": 1, "status.replicas": 1})),
        object("MachinePool", "pool", &json!({"spec.replicas": 2, "status.replicas": 2})),
        object(
            "Machine",
            "orphan",
            &json!({"spec.version": "v1.36.2", "metadata.deletionTimestamp": "2026-11-20T09:59:00Z"}),
        ),
    ];
    let seen = draw::table(&layout::tree(&snapshot_of(values, "a"), Options::default()), false);
    let expected = "\
NAME                                                REPLICAS  AVAILABLE  READY  UP TO DATE  STATUS  REASON  SINCE  MESSAGE
Cluster ns/a
└─Workers
  ├─MachineDeployment ns/empty, v1.36.2             0/0
  ├─MachinePool ns/pool,                            2/2
  ├─MachineSet ns/alone,                            1/1
  └─Other
    └─!! DELETED !! Machine ns/orphan, v1.36.2      1         0          0      0
";
    assert_eq!(
        seen.lines().map(|l| l.split_whitespace().collect::<Vec<_>>()).collect::<Vec<_>>(),
        expected.lines().map(|l| l.split_whitespace().collect::<Vec<_>>()).collect::<Vec<_>>(),
        "\n{seen}"
    );
}

#[test]
fn scripts_get_verdict_cause_and_tree() {
    let failing = json!([{"type": "NodeHealthy", "status": "False", "reason": "NodeNotHealthy", "message": "* Node.Ready: down"}]);
    let values = vec![
        object("Cluster", "a", &json!({})),
        object("Machine", "m", &json!({"status.conditions": failing, "status.nodeRef": {"name": "n"}})),
    ];
    let value = as_json(&snapshot_of(values, "a"));
    assert_eq!(value["verdict"], "degraded");
    assert_eq!(value["cause"][1]["name"], "m");
    assert_eq!(value["summary"], "down (m) +1 more", "the Cluster has no status");
    let cause = &value["causes"][0];
    assert_eq!(
        (&cause["kind"], &cause["name"], &cause["count"]),
        (&json!("Machine"), &json!("m"), &json!(1))
    );
    assert!(cause["check"].as_str().is_some_and(|words| words.contains("kubelet")), "{cause}");
    assert_eq!(value["tree"]["children"][0]["children"][0]["children"][0]["name"], "m");
}

#[test]
fn scripts_get_the_conditions_of_what_is_referred_to() {
    let group = "infrastructure.cluster.x-k8s.io";
    let reference = |name: &str| json!({"apiGroup": group, "kind": "CloudThing", "name": name});
    let thing = |name: &str, status: &str| {
        let conditions = json!([{"type": "Ready", "status": status, "reason": "R"}]);
        object(
            "CloudThing",
            name,
            &json!({"apiVersion": format!("{group}/v1"), "status.conditions": conditions}),
        )
    };
    let values = vec![
        object("Cluster", "a", &json!({"spec.infrastructureRef": reference("of-cluster")})),
        object("Machine", "m", &json!({"spec.infrastructureRef": reference("of-machine")})),
        thing("of-cluster", "True"),
        thing("of-machine", "False"),
    ];
    let value = as_json(&snapshot_of(values, "a"));
    let mut found = Vec::new();
    let mut rest = vec![&value["tree"]];
    while let Some(node) = rest.pop() {
        rest.extend(node["children"].as_array().into_iter().flatten());
        if node["kind"] == "CloudThing" {
            found.push((node["name"].as_str(), node["conditions"][0]["status"].as_str()));
        }
    }
    found.sort_unstable();
    let expected = [("of-cluster", "True"), ("of-machine", "False")].map(|(a, b)| (Some(a), Some(b)));
    assert_eq!(found, expected, "{value:#}");
}

/// A control plane of another group was left out, its Machines stood under Workers, and the exit code was that of a cluster
/// that is well.
#[test]
fn a_control_plane_of_another_group_is_shown_with_its_machines() {
    let group = "infrastructure.cluster.x-k8s.io";
    let reference = json!({"apiGroup": group, "kind": "CloudControlPlane", "name": "p"});
    let well = json!([{"type": "Available", "status": "True", "reason": "Available"}]);
    let failed =
        json!([{"type": "Ready", "status": "False", "severity": "Error", "reason": "Quota", "message": "m"}]);
    let cluster =
        object("Cluster", "a", &json!({"spec.controlPlaneRef": reference, "status.conditions": well}));
    let mut plane = object("CloudControlPlane", "p", &json!({"status.conditions": failed}));
    plane["apiVersion"] = json!(format!("{group}/v1beta1"));
    let mut machine = object("Machine", "m", &json!({}));
    machine["metadata"]["labels"]["cluster.x-k8s.io/control-plane"] = json!("");
    let shown = |values: Vec<Value>| {
        let snapshot = snapshot_of(values, "a");
        let tree = draw::table(&layout::tree(&snapshot, Options::default()), false);
        let names: Vec<String> =
            tree.lines().skip(1).map(|line| line.split("  ").next().unwrap_or_default().to_owned()).collect();
        (snapshot.fleet.verdict(snapshot.cluster), names)
    };
    let (verdict, lines) = shown(vec![cluster.clone(), plane, machine.clone()]);
    assert_eq!(verdict, Verdict::Degraded);
    assert_eq!(lines[1..3], ["└─CloudControlPlane ns/p *", ""], "{lines:#?}");
    let (verdict, lines) = shown(vec![cluster, machine]);
    assert_eq!(verdict, Verdict::Unknown, "{lines:#?}");
    assert!(lines.iter().any(|line| line == "└─ControlPlane"), "{lines:#?}");
}
