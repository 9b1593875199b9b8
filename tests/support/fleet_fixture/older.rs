//! Clusters as older servers have them.

use capstan_dashboard::fleet::Delta;
use serde_json::{Value, json};

use super::{Builder, WELL, ago, conditions, counts};

/// Clusters as older servers have them: one with both kinds of conditions, one with only the older, and one that was
/// upgraded but whose controllers have not said anything new yet.
pub fn older() -> Vec<Delta> {
    let mut b = Builder::default();
    both(&mut b);
    only_older(&mut b);
    let deprecated = json!({"conditions": older_conditions(&[("Ready", "True", "", ""), ("InfrastructureReady", "True", "", "")])});
    b.add(
        "Cluster",
        "upgraded",
        None,
        9_000,
        json!({
        "spec": {"topology": {"classRef": {"name": "small"}, "version": "v1.35.1"}},
        "status": {"phase": "Provisioned", "deprecated": {"v1beta1": deprecated},
                   "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true}}}),
    );
    b.deltas()
}

/// Type, status, severity, reason.
fn older_conditions(all: &[(&str, &str, &str, &str)]) -> Value {
    let one = |(type_, status, severity, reason): &(&str, &str, &str, &str)| {
        let mut condition = json!({"type": type_, "status": status, "lastTransitionTime": ago(40)});
        for (key, text) in [("severity", severity), ("reason", reason)] {
            if !text.is_empty() {
                condition[key] = json!(text);
            }
        }
        condition
    };
    all.iter().map(one).collect()
}

/// Served as v1beta1 by a server that knows v1beta2.
fn both(b: &mut Builder) {
    let version = json!("cluster.x-k8s.io/v1beta1");
    b.add("Cluster", "served-as-v1beta1", None, 9_000, json!({
        "apiVersion": version,
        "status": {"phase": "Provisioned", "infrastructureReady": true, "controlPlaneReady": true,
            "conditions": older_conditions(&[("Ready", "False", "Error", "Broken"), ("ControlPlaneInitialized", "True", "", "")]),
            "v1beta2": {"conditions": conditions(WELL), "controlPlane": counts([1; 5]), "workers": counts([2; 5])}}}));
}

/// What a server before v1beta2 says.
fn only_older(b: &mut Builder) {
    let version = json!("cluster.x-k8s.io/v1beta1");
    let name = "only-v1beta1";
    let uid = b.add("Cluster", name, None, 9_000, json!({
        "apiVersion": version,
        "spec": {"topology": {"class": "small", "version": "v1.31.2"}},
        "status": {"phase": "Provisioned", "infrastructureReady": true, "controlPlaneReady": true,
            "conditions": older_conditions(&[("Ready", "False", "Warning", "ScalingUp"), ("ControlPlaneInitialized", "True", "", ""),
                ("InfrastructureReady", "True", "", "")])}}));
    let labels = json!({"cluster.x-k8s.io/cluster-name": name});
    let plane = b.add("KubeadmControlPlane", "only-v1beta1-cp", Some(("Cluster", name, &uid)), 9_000, json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "metadata": {"labels": labels},
        "spec": {"replicas": 3, "version": "v1.31.2"},
        "status": {"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "initialized": true,
            "conditions": older_conditions(&[("Ready", "False", "Warning", "ScalingUp"), ("Resized", "False", "Warning", "ScalingUp")])}}));
    let machine_labels = json!({"cluster.x-k8s.io/cluster-name": name, "cluster.x-k8s.io/control-plane": ""});
    for (suffix, phase, all) in [
        ("8xk2p", "Running", older_conditions(&[("Ready", "True", "", ""), ("NodeHealthy", "True", "", "")])),
        (
            "zd4lm",
            "Failed",
            older_conditions(&[
                ("Ready", "False", "Error", "InstanceTerminated"),
                ("InfrastructureReady", "False", "Error", "InstanceTerminated"),
                ("NodeHealthy", "Unknown", "", "NodeInspectionFailed"),
                ("BootstrapReady", "True", "", ""),
            ]),
        ),
    ] {
        b.add("Machine", &format!("only-v1beta1-cp-{suffix}"), Some(("KubeadmControlPlane", "only-v1beta1-cp", &plane)), 8_000, json!({
            "apiVersion": version, "metadata": {"labels": machine_labels},
            "spec": {"clusterName": name, "version": "v1.31.2", "failureDomain": "zone-b", "providerID": format!("cloud:///zone-b/i-{suffix}")},
            "status": {"phase": phase, "nodeRef": {"name": format!("ip-10-0-0-{suffix}")}, "conditions": all,
                "addresses": [{"type": "InternalIP", "address": "10.0.0.4"}], "nodeInfo": {"osImage": "Debian GNU/Linux 13"}}}));
    }
}
