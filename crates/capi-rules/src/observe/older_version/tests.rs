//! Each kind in both forms, and what is left alone.

use serde_json::{Value, json};

use super::convert;

fn object(api_version: &str, kind: &str, spec: Value, status: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "namespace": "n"}, "spec": spec, "status": status})
}

#[track_caller]
fn check(group: &str, kind: &str, older: [Value; 2], newer: [Value; 2]) {
    let [spec, status] = older;
    let mut converted = object(&format!("{group}/v1beta1"), kind, spec, status);
    assert!(convert(&mut converted), "{kind}");
    let [spec, status] = newer;
    let expected = object(&format!("{group}/v1beta2"), kind, spec, status);
    assert_eq!(
        serde_json::to_string_pretty(&converted).expect("JSON"),
        serde_json::to_string_pretty(&expected).expect("JSON")
    );
}

const CORE: &str = "cluster.x-k8s.io";

fn older_reference(group: &str, kind: &str) -> Value {
    json!({"apiVersion": format!("{group}/v1beta1"), "kind": kind, "name": "x", "namespace": "n"})
}

fn newer_reference(group: &str, kind: &str) -> Value {
    json!({"apiGroup": group, "kind": kind, "name": "x"})
}

const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";

fn older_machine() -> Value {
    json!({"clusterName": "c", "version": "v1.31.0", "nodeDrainTimeout": "5m30.9s", "nodeDeletionTimeout": "0s",
        "infrastructureRef": older_reference(INFRASTRUCTURE, "M"),
        "bootstrap": {"configRef": older_reference(BOOTSTRAP, "KubeadmConfig")}})
}

fn newer_machine() -> Value {
    json!({"clusterName": "c", "version": "v1.31.0",
        "deletion": {"nodeDrainTimeoutSeconds": 330, "nodeDeletionTimeoutSeconds": 0},
        "infrastructureRef": newer_reference(INFRASTRUCTURE, "M"),
        "bootstrap": {"configRef": newer_reference(BOOTSTRAP, "KubeadmConfig")}})
}

#[test]
fn a_machine_has_whole_seconds_references_by_group_and_conditions_of_both_kinds() {
    let old = json!([{"type": "Ready", "status": "True"}]);
    let new = json!([{"type": "Available", "status": "True", "reason": "Available", "message": ""}]);
    check(
        CORE,
        "Machine",
        [
            older_machine(),
            json!({"phase": "Running", "bootstrapReady": true, "infrastructureReady": false, "conditions": old,
                "nodeRef": {"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "u"}, "failureReason": "Broken",
                "v1beta2": {"conditions": new}}),
        ],
        [
            newer_machine(),
            json!({"phase": "Running", "initialization": {"bootstrapDataSecretCreated": true}, "conditions": new,
                "nodeRef": {"name": "x"},
                "deprecated": {"v1beta1": {"conditions": old, "failureReason": "Broken"}}}),
        ],
    );
}

#[test]
fn a_deployment_has_its_strategy_elsewhere_and_old_counters_apart() {
    check(
        CORE,
        "MachineDeployment",
        [
            json!({"clusterName": "c", "replicas": 3, "minReadySeconds": 10, "revisionHistoryLimit": 1, "progressDeadlineSeconds": 600,
                "strategy": {"type": "RollingUpdate", "remediation": {"maxInFlight": "20%"},
                    "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "10%", "deletePolicy": "Oldest"}},
                "rolloutAfter": "2026-11-20T10:00:00Z", "machineNamingStrategy": {"template": "t"},
                "template": {"spec": older_machine()}}),
            json!({"replicas": 3, "readyReplicas": 3, "updatedReplicas": 2, "unavailableReplicas": 1,
                "v1beta2": {"readyReplicas": 2, "availableReplicas": 2, "upToDateReplicas": 1}}),
        ],
        [
            json!({"clusterName": "c", "replicas": 3, "deletion": {"order": "Oldest"}, "remediation": {"maxInFlight": "20%"},
                "rollout": {"after": "2026-11-20T10:00:00Z", "strategy": {"type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "10%"}}},
                "machineNaming": {"template": "t"},
                "template": {"spec": {
                    "clusterName": "c", "version": "v1.31.0", "minReadySeconds": 10,
                    "deletion": {"nodeDrainTimeoutSeconds": 330, "nodeDeletionTimeoutSeconds": 0},
                    "infrastructureRef": newer_reference(INFRASTRUCTURE, "M"),
                    "bootstrap": {"configRef": newer_reference(BOOTSTRAP, "KubeadmConfig")}}}}),
            json!({"replicas": 3, "readyReplicas": 2, "availableReplicas": 2, "upToDateReplicas": 1,
                "deprecated": {"v1beta1": {"readyReplicas": 3, "updatedReplicas": 2, "unavailableReplicas": 1}}}),
        ],
    );
    check(
        CORE,
        "MachineSet",
        [
            json!({"minReadySeconds": 0, "deletePolicy": "", "template": {"spec": {"bootstrap": {"configRef": {}}}}}),
            json!({}),
        ],
        [json!({"template": {"spec": {"bootstrap": {}}}}), json!({})],
    );
}

#[test]
fn a_cluster_has_flags_domains_and_topology_in_their_new_places() {
    check(
        CORE,
        "Cluster",
        [
            json!({"controlPlaneRef": older_reference("controlplane.cluster.x-k8s.io", "KubeadmControlPlane"),
                "infrastructureRef": older_reference(INFRASTRUCTURE, "C"),
                "topology": {"class": "k", "classNamespace": "m", "version": "v1.31.0",
                    "controlPlane": {"replicas": 3, "nodeDrainTimeout": "1m",
                        "machineHealthCheck": {"enable": true, "maxUnhealthy": "40%", "nodeStartupTimeout": "10m",
                            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "300s"}]}},
                    "workers": {"machineDeployments": [{"class": "w", "name": "md",
                        "strategy": {"rollingUpdate": {"maxSurge": 0}, "remediation": {"maxInFlight": 1}}}]},
                    "variables": [{"name": "v", "definitionFrom": "inline", "value": 1}]}}),
            json!({"infrastructureReady": true, "controlPlaneReady": true,
                "failureDomains": {"b": {"controlPlane": true}, "a": {"controlPlane": false, "attributes": {"z": "1"}}},
                "v1beta2": {"controlPlane": {"replicas": 3}, "workers": {"replicas": 2}}}),
        ],
        [
            json!({"controlPlaneRef": newer_reference("controlplane.cluster.x-k8s.io", "KubeadmControlPlane"),
                "infrastructureRef": newer_reference(INFRASTRUCTURE, "C"),
                "topology": {"classRef": {"name": "k", "namespace": "m"}, "version": "v1.31.0",
                    "controlPlane": {"replicas": 3, "deletion": {"nodeDrainTimeoutSeconds": 60},
                        "healthCheck": {"enabled": true, "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "40%"}},
                            "checks": {"nodeStartupTimeoutSeconds": 600, "unhealthyNodeConditions": [
                                {"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}]}}},
                    "workers": {"machineDeployments": [{"class": "w", "name": "md",
                        "rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0}}},
                        "healthCheck": {"remediation": {"maxInFlight": 1}}}]},
                    "variables": [{"name": "v", "value": 1}]}}),
            json!({"initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
                "failureDomains": [{"name": "a", "controlPlane": false, "attributes": {"z": "1"}}, {"name": "b", "controlPlane": true}],
                "controlPlane": {"replicas": 3}, "workers": {"replicas": 2}}),
        ],
    );
}

#[test]
fn a_health_check_says_what_it_looks_at_and_what_triggers_it() {
    check(
        CORE,
        "MachineHealthCheck",
        [
            json!({"clusterName": "c", "maxUnhealthy": "40%", "unhealthyRange": "[0-2]", "nodeStartupTimeout": "20m",
                "remediationTemplate": {"apiVersion": "r.io/v1", "kind": "R", "name": "r", "namespace": "n"},
                "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "5m0s"}]}),
            json!({"expectedMachines": 3}),
        ],
        [
            json!({"clusterName": "c",
                "checks": {"nodeStartupTimeoutSeconds": 1200,
                    "unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 300}]},
                "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "40%", "unhealthyInRange": "[0-2]"},
                    "templateRef": {"apiVersion": "r.io/v1", "kind": "R", "name": "r"}}}),
            json!({"expectedMachines": 3}),
        ],
    );
}

fn older_kubeadm() -> Value {
    json!({"useExperimentalRetryJoin": true, "format": "cloud-config",
        "clusterConfiguration": {"apiVersion": "kubeadm.k8s.io/v1beta3", "networking": {}, "kubernetesVersion": "v1.31.0",
            "apiServer": {"timeoutForControlPlane": "4m", "extraArgs": {"v": "2", "audit-log-path": "/a"}},
            "etcd": {"local": {"extraArgs": {"quota-backend-bytes": "1"}}}},
        "initConfiguration": {"bootstrapTokens": [{"ttl": "24h", "token": "t"}]},
        "joinConfiguration": {"discovery": {"timeout": "5m", "bootstrapToken": {"token": "t"}},
            "nodeRegistration": {"kubeletExtraArgs": {"node-labels": "a=b"}, "taints": []}}})
}

fn newer_kubeadm() -> Value {
    json!({"format": "cloud-config",
        "clusterConfiguration": {
            "apiServer": {"extraArgs": [{"name": "audit-log-path", "value": "/a"}, {"name": "v", "value": "2"}]},
            "etcd": {"local": {"extraArgs": [{"name": "quota-backend-bytes", "value": "1"}]}}},
        "initConfiguration": {"bootstrapTokens": [{"ttlSeconds": 86_400, "token": "t"}],
            "timeouts": {"controlPlaneComponentHealthCheckSeconds": 240}},
        "joinConfiguration": {"discovery": {"bootstrapToken": {"token": "t"}},
            "timeouts": {"controlPlaneComponentHealthCheckSeconds": 240, "tlsBootstrapSeconds": 300},
            "nodeRegistration": {"kubeletExtraArgs": [{"name": "node-labels", "value": "a=b"}], "taints": []}}})
}

#[test]
fn kubeadm_configurations_have_flags_in_lists_and_times_together() {
    check(
        BOOTSTRAP,
        "KubeadmConfig",
        [older_kubeadm(), json!({"ready": true, "dataSecretName": "s"})],
        [newer_kubeadm(), json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "s"})],
    );
    check(
        BOOTSTRAP,
        "KubeadmConfigTemplate",
        [json!({"template": {"spec": older_kubeadm()}}), Value::Null],
        [json!({"template": {"spec": newer_kubeadm()}}), Value::Null],
    );
}

#[test]
fn a_control_plane_has_rollout_remediation_and_machines_in_their_new_places() {
    let spec = json!({"replicas": 3, "version": "v1.31.0", "kubeadmConfigSpec": older_kubeadm(),
        "rolloutBefore": {"certificatesExpiryDays": 21}, "rolloutAfter": "2026-11-20T10:00:00Z",
        "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "remediationStrategy": {"maxRetry": 3, "retryPeriod": "0s", "minHealthyPeriod": "1h"},
        "machineTemplate": {"infrastructureRef": older_reference(INFRASTRUCTURE, "T"), "nodeDrainTimeout": "10s",
            "metadata": {"labels": {"a": "b"}}}});
    let newer = json!({"replicas": 3, "version": "v1.31.0", "kubeadmConfigSpec": newer_kubeadm(),
        "rollout": {"before": {"certificatesExpiryDays": 21}, "after": "2026-11-20T10:00:00Z",
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
        "remediation": {"maxRetry": 3, "minHealthyPeriodSeconds": 3600},
        "machineTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "infrastructureRef": newer_reference(INFRASTRUCTURE, "T"), "deletion": {"nodeDrainTimeoutSeconds": 10}}}});
    check(
        "controlplane.cluster.x-k8s.io",
        "KubeadmControlPlane",
        [
            spec,
            json!({"ready": true, "initialized": true, "updatedReplicas": 3,
                "lastRemediation": {"machine": "m", "retryCount": 1, "timestamp": "2026-11-20T10:00:00Z"}}),
        ],
        [
            newer,
            json!({"initialization": {"controlPlaneInitialized": true},
                "deprecated": {"v1beta1": {"updatedReplicas": 3}},
                "lastRemediation": {"machine": "m", "retryCount": 1, "time": "2026-11-20T10:00:00Z"}}),
        ],
    );
}

#[test]
fn what_the_newer_form_has_alone_comes_back_from_its_annotation() {
    let mut machine = object("cluster.x-k8s.io/v1beta1", "Machine", json!({"clusterName": "c"}), json!({}));
    let newer =
        json!({"spec": {"minReadySeconds": 30, "clusterName": "other"}, "status": {"failureDomain": "a"}});
    machine["metadata"]["annotations"] =
        json!({"cluster.x-k8s.io/conversion-data": newer.to_string(), "mine": "x"});
    assert!(convert(&mut machine));
    assert_eq!(machine["metadata"]["annotations"], json!({"mine": "x"}));
    assert_eq!(machine["spec"], json!({"clusterName": "c", "minReadySeconds": 30}));
    assert_eq!(machine["status"]["failureDomain"], "a");
}

#[test]
fn other_versions_kinds_and_shapes_are_left_alone() {
    for (api_version, kind) in [
        ("cluster.x-k8s.io/v1beta2", "Machine"),
        ("cluster.x-k8s.io/v1alpha4", "Machine"),
        ("infrastructure.cluster.x-k8s.io/v1beta1", "DockerMachine"),
        ("example.io/v1beta1", "Cluster"),
    ] {
        let before = object(api_version, kind, older_machine(), json!({"phase": "x"}));
        let mut after = before.clone();
        assert!(!convert(&mut after) && after == before, "{api_version} {kind}");
    }
    for odd in [json!("odd"), json!({"template": []}), json!([1]), Value::Null] {
        for kind in ["Cluster", "MachineDeployment", "MachineHealthCheck", "Machine"] {
            let mut object = object("cluster.x-k8s.io/v1beta1", kind, odd.clone(), odd.clone());
            assert!(convert(&mut object), "{kind} {odd}");
        }
    }
}
