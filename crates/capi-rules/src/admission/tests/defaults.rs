//! What defaulting fills in, and where it refuses.

use super::*;

fn admitted(kind: &str, old: Option<&Value>, mut new: Value) -> Value {
    Webhooks.mutate(&request(kind, old), &mut new).expect("defaults");
    new
}

#[test]
fn a_machine_deployment_gets_its_defaults() {
    let new = json!({"metadata": {"name": "md"}, "spec": {"clusterName": "c", "template": {"spec": {"version": "1.35.0"}}}});
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/deployment-name": "md"});
    assert_eq!(
        admitted("MachineDeployment", None, new),
        json!({
            "metadata": {"name": "md", "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
            "spec": {
                "clusterName": "c", "replicas": 1,
                "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}},
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"version": "v1.35.0"}},
            },
        })
    );
    let on_delete = json!({"spec": {"rollout": {"strategy": {"type": "OnDelete"}}}});
    let on_delete = admitted("MachineDeployment", None, on_delete);
    assert_eq!(on_delete["spec"]["rollout"]["strategy"], json!({"type": "OnDelete"}));
}

#[test]
fn replicas_follow_the_autoscaler_when_unset() {
    let (min, max) = (annotation::AUTOSCALER_MIN_SIZE, annotation::AUTOSCALER_MAX_SIZE);
    let bounds = json!({"annotations": {min: "2", max: "5"}});
    for (metadata, before, replicas, expected) in [
        (json!({}), None, json!(0), 0),
        (json!({}), None, Value::Null, 1),
        (json!({}), Some(7), Value::Null, 1),
        (json!({"annotations": {min: "2"}}), Some(3), Value::Null, 1),
        (bounds.clone(), None, Value::Null, 2),
        (bounds.clone(), Some(1), Value::Null, 2),
        (bounds.clone(), Some(3), Value::Null, 3),
        (bounds.clone(), Some(9), Value::Null, 5),
        (bounds, Some(9), json!(8), 8),
    ] {
        let old = before.map(|replicas| json!({"spec": {"replicas": replicas}}));
        let new = json!({"metadata": metadata, "spec": {"replicas": replicas}});
        for kind in ["MachineDeployment", "MachineSet", "MachinePool"] {
            let admitted = admitted(kind, old.as_ref(), new.clone());
            assert_eq!(admitted["spec"]["replicas"], expected, "{kind} {new} after {old:?}");
        }
    }
}

#[test]
fn other_kinds_get_their_defaults() {
    for (kind, spec, pointer, expected) in [
        ("Machine", json!({"version": "1.35.0"}), "/version", json!("v1.35.0")),
        ("Machine", json!({}), "/deletion/nodeDeletionTimeoutSeconds", json!(10)),
        (
            "Machine",
            json!({"deletion": {"nodeDeletionTimeoutSeconds": 0}}),
            "/deletion/nodeDeletionTimeoutSeconds",
            json!(0),
        ),
        ("MachineSet", json!({}), "/selector/matchLabels", json!({"cluster.x-k8s.io/set-name": "it"})),
        (
            "MachineSet",
            json!({"template": {"spec": {"version": "1"}}}),
            "/template/spec/version",
            json!("v1"),
        ),
        ("MachinePool", json!({}), "/template/spec/deletion/nodeDeletionTimeoutSeconds", json!(10)),
        ("MachineHealthCheck", json!({}), "/checks/nodeStartupTimeoutSeconds", json!(600)),
        (
            "Cluster",
            json!({"topology": {"classRef": {"name": "c"}, "version": "1.35.0"}}),
            "/topology/version",
            json!("v1.35.0"),
        ),
        ("KubeadmControlPlane", json!({"version": "1.35.0"}), "/version", json!("v1.35.0")),
        ("KubeadmControlPlane", json!({}), "/replicas", json!(1)),
        (
            "KubeadmControlPlane",
            json!({"rollout": {"after": "x", "strategy": {"type": "OnDelete"}}}),
            "/rollout",
            json!({"after": "x", "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}),
        ),
        ("ClusterResourceSet", json!({}), "/strategy", json!("ApplyOnce")),
        ("ExtensionConfig", json!({}), "/namespaceSelector", json!({})),
        (
            "ExtensionConfig",
            json!({"clientConfig": {"service": {"name": "s"}}}),
            "/clientConfig/service/port",
            json!(443),
        ),
        ("ExtensionConfig", json!({"clientConfig": {"url": "u"}}), "/clientConfig", json!({"url": "u"})),
        ("DevMachine", json!({}), "/backend", json!({"docker": {}})),
        (
            "DevCluster",
            json!({}),
            "",
            json!({"backend": {"docker": {}}, "controlPlaneEndpoint": {"port": 6443}}),
        ),
        ("DevCluster", json!({"backend": {"inMemory": {}}}), "", json!({"backend": {"inMemory": {}}})),
        (
            "DockerCluster",
            json!({"failureDomains": [{"name": "a"}]}),
            "",
            json!({"failureDomains": [{"name": "a", "controlPlane": false}], "controlPlaneEndpoint": {"port": 6443}}),
        ),
        ("DockerClusterTemplate", json!({}), "/template/spec/controlPlaneEndpoint", json!({"port": 6443})),
        ("DevClusterTemplate", json!({}), "/template/spec/backend", json!({"docker": {}})),
        ("DevMachineTemplate", json!({}), "/template/spec/backend", json!({"docker": {}})),
        (
            "DevMachineTemplate",
            json!({"template": {"spec": {"backend": {"inMemory": {}}}}}),
            "/template/spec/backend",
            json!({"inMemory": {}}),
        ),
        ("KubeadmConfigTemplate", json!({"template": {"spec": {}}}), "/template/spec", json!({})),
    ] {
        let new = json!({"metadata": {"name": "it"}, "spec": spec});
        let admitted = admitted(kind, None, new);
        assert_eq!(admitted["spec"].pointer(pointer), Some(&expected), "{kind} {pointer}");
    }
    for kind in ["MachineSet", "MachinePool", "Machine", "MachineHealthCheck"] {
        let admitted = admitted(kind, None, json!({"spec": {"clusterName": "c"}}));
        assert_eq!(admitted["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "c", "{kind}");
    }
}

#[test]
fn history_is_filled_in_only_when_a_topology_controller_compares() {
    let template = json!({
        "metadata": {"annotations": {"topology.cluster.x-k8s.io/dry-run": ""}},
        "spec": {"template": {"spec": {"joinConfiguration": {"discovery": {"file": {"kubeConfig": {"user": {
            "exec": {"command": "c"},
        }}}}}}}},
    });
    let compared = |dry_run: bool, mut template: Value| {
        let request = Request { dry_run, ..request("KubeadmConfigTemplate", None) };
        Webhooks.mutate(&request, &mut template).expect("defaults");
        template["spec"]["template"]["spec"].clone()
    };
    let filled = compared(true, template.clone());
    assert_eq!(filled["format"], "cloud-config");
    assert_eq!(filled["initConfiguration"]["nodeRegistration"]["imagePullPolicy"], "IfNotPresent");
    let user = &filled["joinConfiguration"]["discovery"]["file"]["kubeConfig"]["user"];
    assert_eq!(user["exec"]["apiVersion"], "client.authentication.k8s.io/v1");
    assert_eq!(compared(false, template.clone()), template["spec"]["template"]["spec"]);
    let plain = json!({"spec": {"template": {"spec": {}}}});
    assert_eq!(compared(true, plain), json!({}));
}

#[test]
fn objects_of_other_versions_are_left_alone() {
    let mut old = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "spec": {"version": "1.35.0"}});
    let before = old.clone();
    assert_eq!(Webhooks.mutate(&request("Machine", None), &mut old), Ok(()));
    assert_eq!(old, before);
    assert_eq!(Webhooks.check(&request("Machine", None), &old, &Known::default()), Ok(Vec::new()));
}
