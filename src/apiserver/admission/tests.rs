//! Admission as rules: kind, predecessor, object, what becomes of it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn admitted(group: &str, kind: &str, old: Option<&Value>, mut new: Value) -> Value {
    mutate(group, kind, old, &mut new);
    new
}

fn complaints(group: &str, kind: &str, old: Option<&Value>, new: &Value) -> Vec<String> {
    match check(group, kind, old, new) {
        Ok(()) => Vec::new(),
        Err(failure) => failure.details.causes.iter().map(Cause::to_string).collect(),
    }
}

const MIN: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
const MAX: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";

#[test]
fn a_machine_deployment_gets_its_defaults() {
    let new = json!({"metadata": {"name": "md"}, "spec": {"clusterName": "c", "template": {"spec": {"version": "1.35.0"}}}});
    assert_eq!(
        admitted(CORE_GROUP, "MachineDeployment", None, new),
        json!({
            "metadata": {"name": "md", "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
            "spec": {
                "clusterName": "c", "replicas": 1, "deletion": {"order": "Random"},
                "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}},
                "selector": {"matchLabels": {
                    "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/deployment-name": "md",
                }},
                "template": {
                    "metadata": {"labels": {
                        "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/deployment-name": "md",
                    }},
                    "spec": {"version": "v1.35.0"},
                },
            },
        })
    );
    let on_delete = json!({"spec": {"rollout": {"strategy": {"type": "OnDelete"}}}});
    let on_delete = admitted(CORE_GROUP, "MachineDeployment", None, on_delete);
    assert_eq!(on_delete["spec"]["rollout"]["strategy"], json!({"type": "OnDelete"}));
}

#[test]
fn replicas_follow_the_autoscaler_when_unset() {
    let bounds = json!({"annotations": {MIN: "2", MAX: "5"}});
    for (metadata, before, replicas, expected) in [
        (json!({}), None, json!(0), 0),
        (json!({}), None, Value::Null, 1),
        (json!({}), Some(7), Value::Null, 1),
        (json!({"annotations": {MIN: "2"}}), Some(3), Value::Null, 1),
        (bounds.clone(), None, Value::Null, 2),
        (bounds.clone(), Some(1), Value::Null, 2),
        (bounds.clone(), Some(3), Value::Null, 3),
        (bounds.clone(), Some(9), Value::Null, 5),
        (bounds, Some(9), json!(8), 8),
    ] {
        let old = before.map(|replicas| json!({"spec": {"replicas": replicas}}));
        let new = json!({"metadata": metadata, "spec": {"replicas": replicas}});
        for kind in ["MachineDeployment", "MachineSet", "MachinePool"] {
            let admitted = admitted(CORE_GROUP, kind, old.as_ref(), new.clone());
            assert_eq!(admitted["spec"]["replicas"], expected, "{kind} {new} after {old:?}");
        }
    }
}

#[test]
fn other_kinds_get_their_defaults() {
    for (group, kind, new, pointer, expected) in [
        (CORE_GROUP, "Machine", json!({"spec": {"version": "1.35.0"}}), "/spec/version", json!("v1.35.0")),
        (CORE_GROUP, "Machine", json!({"spec": {}}), "/spec/deletion/nodeDeletionTimeoutSeconds", json!(10)),
        (
            CORE_GROUP,
            "Machine",
            json!({"spec": {"deletion": {"nodeDeletionTimeoutSeconds": 0}}}),
            "/spec/deletion/nodeDeletionTimeoutSeconds",
            json!(0),
        ),
        (
            CORE_GROUP,
            "MachineSet",
            json!({"metadata": {"name": "s"}, "spec": {}}),
            "/spec/selector/matchLabels",
            json!({"cluster.x-k8s.io/set-name": "s"}),
        ),
        (CORE_GROUP, "MachineHealthCheck", json!({}), "/spec/checks/nodeStartupTimeoutSeconds", json!(600)),
        (
            CORE_GROUP,
            "Cluster",
            json!({"spec": {"topology": {"version": "1.35.0"}}}),
            "/spec/topology/version",
            json!("v1.35.0"),
        ),
        (
            CONTROL_PLANE_GROUP,
            "KubeadmControlPlane",
            json!({"spec": {"version": "1.35.0"}}),
            "/spec/version",
            json!("v1.35.0"),
        ),
        (CONTROL_PLANE_GROUP, "KubeadmControlPlane", json!({}), "/spec/replicas", json!(1)),
        (
            CONTROL_PLANE_GROUP,
            "KubeadmControlPlane",
            json!({"spec": {"rollout": {"after": "x"}}}),
            "/spec/rollout",
            json!({"after": "x", "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}),
        ),
        (INFRASTRUCTURE_GROUP, "DevMachine", json!({}), "/spec/backend", json!({"docker": {}})),
        (
            INFRASTRUCTURE_GROUP,
            "DevMachineTemplate",
            json!({"spec": {"template": {"spec": {"backend": {"inMemory": {}}}}}}),
            "/spec/template/spec/backend",
            json!({"inMemory": {}}),
        ),
    ] {
        let admitted = admitted(group, kind, None, new);
        assert_eq!(admitted.pointer(pointer), Some(&expected), "{kind} {pointer}");
        assert_eq!(self::admitted(group, kind, None, admitted.clone()), admitted, "{kind}: twice is once");
    }
}

fn control_plane() -> Value {
    let plane = json!({
        "metadata": {"name": "kcp"},
        "spec": {
            "replicas": 3, "version": "v1.34.0",
            "kubeadmConfigSpec": {"clusterConfiguration": {"certificatesDir": "/a", "etcd": {"local": {}}}},
            "machineTemplate": {"spec": {"infrastructureRef": {"apiGroup": "g", "kind": "k", "name": "n"}}},
        },
    });
    admitted(CONTROL_PLANE_GROUP, "KubeadmControlPlane", None, plane)
}

#[test]
fn a_control_plane_is_checked() {
    let good = control_plane();
    let config = "/spec/kubeadmConfigSpec/clusterConfiguration";
    for (pointer, value, complaint) in [
        ("/spec/replicas", json!(3), ""),
        (
            "/spec/replicas",
            json!(4),
            "spec.replicas: Forbidden: cannot be an even number when etcd is stacked",
        ),
        ("/spec/replicas", json!(0), "spec.replicas: Forbidden: cannot be less than or equal to 0"),
        (
            "/spec/version",
            json!("v1"),
            "spec.version: Invalid value: \"v1\": must be a valid semantic version",
        ),
        ("/spec/version", json!("v1.35.1"), ""),
        (
            "/spec/version",
            json!("v1.36.0"),
            "spec.version: Forbidden: cannot update Kubernetes version from 1.34.0 to 1.36.0",
        ),
        ("/spec/version", json!("v1.33.0"), ""),
        ("/spec/rollout/strategy/rollingUpdate/maxSurge", json!(0), ""),
        (
            "/spec/rollout/strategy/rollingUpdate/maxSurge",
            json!(2),
            "spec.rollout.strategy.rollingUpdate.maxSurge: Required value: value must be 1 or 0",
        ),
        ("/spec/rollout", json!({"after": "x", "strategy": good["spec"]["rollout"]["strategy"]}), ""),
        (
            "/spec/kubeadmConfigSpec/clusterConfiguration/certificatesDir",
            json!("/b"),
            "spec.kubeadmConfigSpec.clusterConfiguration.certificatesDir: Forbidden: cannot be modified",
        ),
        (
            "/spec/kubeadmConfigSpec/clusterConfiguration/etcd",
            json!({"external": {"endpoints": ["x"]}}),
            "spec.kubeadmConfigSpec.clusterConfiguration.etcd: Forbidden: cannot change between external and local etcd",
        ),
        (&format!("{config}/etcd/local"), json!({"imageTag": "1"}), ""),
        ("/metadata", json!({"name": "kcp", "labels": {"a": "b"}}), ""),
        (
            "/spec/machineTemplate/spec/infrastructureRef/name",
            json!(""),
            "spec.machineTemplate.spec.infrastructureRef.name: Invalid value: \"\": cannot be empty",
        ),
    ] {
        let mut new = good.clone();
        *new.pointer_mut(pointer).expect(pointer) = value.clone();
        let found = complaints(CONTROL_PLANE_GROUP, "KubeadmControlPlane", Some(&good), &new);
        let expected: Vec<String> =
            [complaint].into_iter().filter(|c| !c.is_empty()).map(str::to_owned).collect();
        assert_eq!(found, expected, "{pointer} {value}");
    }
    for (replicas, refused) in [(1, false), (3, false), (2, true), (0, true)] {
        let found = check_scale(CONTROL_PLANE_GROUP, "KubeadmControlPlane", &good, replicas);
        assert_eq!(found.is_err(), refused, "{replicas}");
    }
    assert_eq!(check_scale(CORE_GROUP, "MachineDeployment", &json!({}), 2), Ok(()));
}

#[test]
fn workers_and_others_are_checked() {
    let deployment = admitted(
        CORE_GROUP,
        "MachineDeployment",
        None,
        json!({
            "metadata": {"name": "md"},
            "spec": {"clusterName": "c", "template": {"spec": {
                "clusterName": "c", "bootstrap": {"configRef": {"name": "n"}}, "version": "v1.35.0",
            }}},
        }),
    );
    assert_eq!(complaints(CORE_GROUP, "MachineDeployment", None, &deployment), Vec::<String>::new());
    let template = json!({"kind": "DevMachineTemplate", "metadata": {"name": "t"}, "spec": {"template": {"spec": {"a": 1}}}});
    for (group, kind, old, new, pointer, value, field) in [
        (
            CORE_GROUP,
            "MachineDeployment",
            true,
            &deployment,
            "/spec/clusterName",
            json!("d"),
            "spec.clusterName",
        ),
        (
            CORE_GROUP,
            "MachineDeployment",
            false,
            &deployment,
            "/spec/clusterName",
            json!("d"),
            "spec.template.spec.clusterName",
        ),
        (
            CORE_GROUP,
            "MachineDeployment",
            false,
            &deployment,
            "/spec/template/spec/bootstrap",
            json!({}),
            "spec.template.spec.bootstrap",
        ),
        (
            CORE_GROUP,
            "MachineDeployment",
            false,
            &deployment,
            "/spec/template/metadata/labels",
            json!({}),
            "spec.template.metadata.labels",
        ),
        (
            CORE_GROUP,
            "MachineDeployment",
            false,
            &deployment,
            "/spec/rollout/strategy/rollingUpdate/maxSurge",
            json!(0),
            "spec.rollout.strategy.rollingUpdate",
        ),
        (
            CORE_GROUP,
            "MachineDeployment",
            false,
            &deployment,
            "/spec/rollout/strategy/rollingUpdate/maxSurge",
            json!("many"),
            "spec.rollout.strategy.rollingUpdate.maxSurge",
        ),
        (
            INFRASTRUCTURE_GROUP,
            "DevMachineTemplate",
            true,
            &template,
            "/spec/template/spec/a",
            json!(2),
            "spec.template.spec",
        ),
        (CORE_GROUP, "Cluster", false, &template, "/spec", json!({}), "spec"),
    ] {
        let mut changed = new.clone();
        *changed.pointer_mut(pointer).expect(pointer) = value;
        let failure = check(group, kind, old.then_some(new), &changed).expect_err(pointer);
        assert_eq!(failure.code(), 422);
        assert!(
            failure.details.causes.iter().any(|cause| cause.field == field),
            "{kind} {pointer}: {failure}"
        );
        changed["metadata"]["deletionTimestamp"] = json!("2026-11-20T10:00:00Z");
        assert_eq!(check(group, kind, old.then_some(new), &changed), Ok(()), "terminating objects pass");
    }
}

#[test]
fn reserved_taints_are_refused() {
    let taints = [
        "node.cluster.x-k8s.io/uninitialized",
        "node.kubernetes.io/x",
        "node.kubernetes.io/out-of-service",
        "node-role.kubernetes.io/control-plane",
        "mine",
    ];
    let taints: Vec<Value> = taints.iter().map(|key| json!({"key": key})).collect();
    let machine =
        json!({"metadata": {"name": "m"}, "spec": {"bootstrap": {"dataSecretName": "s"}, "taints": taints}});
    let found: Vec<String> = match check(CORE_GROUP, "Machine", None, &machine) {
        Err(failure) => failure.details.causes.into_iter().map(|cause| cause.field).collect(),
        Ok(()) => Vec::new(),
    };
    assert_eq!(found, ["spec.taints[0].key", "spec.taints[1].key", "spec.taints[3].key"]);
}

proptest! {
    #[test]
    fn objects_of_any_shape_are_survived(
        field in prop::sample::select(vec!["replicas", "selector", "template", "rollout", "version", "topology",
            "kubeadmConfigSpec", "backend", "taints", "deletion", "clusterNetwork", "bootstrap"]),
        value in prop::sample::select(vec![json!(null), json!([]), json!("x"), json!(1), json!({"spec": []}),
            json!([{"key": 1}]), json!({"strategy": "x"}), json!({"clusterConfiguration": []}), json!({"matchLabels": 1})]),
        spec in any::<bool>(),
    ) {
        let mut object = json!({"metadata": {"name": "n"}, "spec": {}});
        if spec { object["spec"][field] = value } else { object["spec"] = value }
        for (group, kind, ..) in KINDS {
            let mut new = object.clone();
            mutate(group, kind, Some(&object), &mut new);
            let _ = check(group, kind, Some(&object), &new);
        }
    }
}
