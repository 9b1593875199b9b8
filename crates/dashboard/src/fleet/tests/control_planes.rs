//! Control planes of any group: what a Cluster names is read and judged, and what was not read is unknown.

use super::*;
use crate::fleet::watch::Recording;

const GROUP: &str = "infrastructure.cluster.x-k8s.io";

fn condition(type_: &str, status: &str, severity: &str, reason: &str) -> Value {
    let mut condition = json!({"type": type_, "status": status, "lastTransitionTime": LONG_AGO});
    for (field, text) in [("severity", severity), ("reason", reason)] {
        if !text.is_empty() {
            condition[field] = json!(text);
        }
    }
    condition
}

/// A Cluster that is well by its own account and names `CloudControlPlane p`, and that object with these conditions.
fn named(conditions: &Value) -> [Value; 2] {
    let reference = json!({"apiGroup": GROUP, "kind": "CloudControlPlane", "name": "p"});
    let plane = object("CloudControlPlane", "p")
        .set("/apiVersion", json!(format!("{GROUP}/v1beta1")))
        .set("/metadata/labels/cluster.x-k8s.io~1cluster-name", json!("a"))
        .set("/spec", json!({"version": "1.33.2", "clusterName": "what-the-cloud-calls-it"}))
        .set("/status", json!({"initialized": true, "ready": false, "conditions": conditions}));
    [cluster("a").set("/spec/controlPlaneRef", reference).0, plane.0]
}

fn recorded(objects: impl IntoIterator<Item = Value>) -> Fleet {
    let mut fleet = Fleet::new();
    fleet.advance(now());
    fleet.apply(Recording::new(objects).deltas(SourceId(0), "dump", now()));
    fleet
}

fn seen(fleet: &Fleet) -> (Verdict, String) {
    let id = fleet.clusters()[0];
    (fleet.verdict(id), fleet.what_is_wrong(id))
}

#[test]
fn what_a_cluster_names_is_judged_by_its_own_conditions() {
    let failed = condition("Ready", "False", "Error", "QuotaExceeded");
    let ready = |severity: &str, reason: &str| condition("Ready", "True", severity, reason);
    let lately = |type_: &str, reason: &str| {
        let mut condition = condition(type_, "False", "Info", reason);
        condition["lastTransitionTime"] = json!("2026-11-20T09:58:00Z");
        condition
    };
    for (conditions, verdict, words) in [
        (json!([failed]), Verdict::Degraded, "quota exceeded (p)"),
        // Neither severity nor reason, as of Rancher's kinds.
        (json!([condition("Ready", "False", "", "")]), Verdict::Degraded, "Ready is False (p)"),
        (json!([condition("Ready", "False", "", "Broken")]), Verdict::Degraded, "broken (p)"),
        (json!([condition("Ready", "Unknown", "", "Lost")]), Verdict::Degraded, "lost (p)"),
        (json!([ready("", "Ready")]), Verdict::Ok, ""),
        // EKS says by these that something is done.
        (json!([ready("", ""), condition("Creating", "False", "Info", "created")]), Verdict::Ok, ""),
        (json!([lately("Creating", "waiting")]), Verdict::Progressing, "waiting (p)"),
        // Progress has an end, of whatever kind its conditions are.
        (json!([condition("Creating", "False", "Info", "waiting")]), Verdict::Degraded, "waiting (p)"),
        // The summary repeats its part, which says why.
        (
            json!([failed, condition("Instances", "False", "Error", "NoRoom")]),
            Verdict::Degraded,
            "no room (p)",
        ),
        (
            json!([ready("", ""), condition("Synced", "False", "Error", "Refused")]),
            Verdict::Degraded,
            "refused (p)",
        ),
        // Without a summary nothing is known.
        (json!([condition("Synced", "True", "", "Synced")]), Verdict::Unknown, "no status reported yet (p)"),
        (json!([]), Verdict::Unknown, "no status reported yet (p)"),
    ] {
        let fleet = recorded(named(&conditions));
        assert_eq!(seen(&fleet), (verdict, words.to_owned()), "{conditions}");
        let plane = fleet.members(fleet.clusters()[0], Kind::ControlPlane);
        let plane = plane.first().and_then(|id| fleet.row(*id)).expect("a control plane");
        assert_eq!(plane.version.as_ref(), "1.33.2");
    }
}

#[test]
fn a_reference_with_a_version_names_a_kind_as_well() {
    let [cluster, plane] = named(&json!([condition("Ready", "False", "Error", "QuotaExceeded")]));
    let mut older = cluster;
    older["spec"]["controlPlaneRef"] =
        json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": "CloudControlPlane", "name": "p"});
    assert_eq!(seen(&recorded([older, plane])).0, Verdict::Degraded);
}

#[test]
fn what_was_not_read_is_unknown_and_never_better_than_what_is_known() {
    let [cluster, plane] = named(&json!([condition("Ready", "True", "", "Ready")]));
    let unread = (Verdict::Unknown, "CloudControlPlane p was not read".to_owned());
    assert_eq!(seen(&recorded([cluster.clone()])), unread);
    let mut other = plane;
    other["metadata"]["name"] = json!("another");
    assert_eq!(seen(&recorded([cluster.clone(), other])), unread, "another one is not it");

    let tree = recorded([cluster.clone()]);
    let nodes = tree.tree(tree.clusters()[0], &TreeOptions::default()).nodes;
    let named = nodes.iter().find(|node| matches!(node.item, Item::Reference { .. })).expect("the reference");
    assert_eq!(named.verdict, Verdict::Unknown, "its Cluster repeats that it is available");

    let mut lost = cluster.clone();
    for condition in lost["status"]["conditions"].as_array_mut().expect("conditions") {
        if condition["type"] == "InfrastructureReady" {
            condition["status"] = json!("False");
        }
    }
    assert_eq!(seen(&recorded([lost])).0, Verdict::Degraded);

    let mut leaving = cluster.clone();
    leaving["metadata"]["deletionTimestamp"] = json!(NOW);
    assert_eq!(seen(&recorded([leaving])).0, Verdict::Progressing, "its control plane goes before it");

    let mut young = cluster;
    young["metadata"]["creationTimestamp"] = json!(NOW);
    assert_eq!(seen(&recorded([young])).0, Verdict::Progressing, "manifests are applied one by one");
}

/// A provider that chooses the version says it in its status alone.
#[test]
fn a_control_plane_without_a_wish_shows_what_it_runs() {
    let [cluster, mut plane] = named(&json!([condition("Ready", "True", "", "Ready")]));
    plane["spec"] = json!({});
    plane["status"]["version"] = json!("v1.33.4");
    let fleet = recorded([cluster, plane]);
    let versions = fleet.versions(fleet.clusters()[0]);
    assert_eq!(versions.iter().map(|v| v.version.as_ref()).collect::<Vec<_>>(), ["v1.33.4"]);
}
