//! One object per kind that every rule accepts, with everything filled in that defaulting would.

use serde_json::{Value, json};

/// # Panics
/// On a kind without rules.
pub fn good(kind: &str) -> Value {
    let (group, version) = (super::group_of(kind), super::version_of(kind));
    let mut object = json!({
        "apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": {"name": "it", "namespace": "ns"},
    });
    object["spec"] = match kind {
        "Cluster" => cluster(),
        "ClusterClass" => class(),
        "MachineDeployment" | "MachineSet" | "MachinePool" => owner(kind),
        "Machine" => json!({"clusterName": "c", "version": "v1.35.0", "bootstrap": {"dataSecretName": "s"}}),
        "MachineHealthCheck" => json!({
            "clusterName": "c", "selector": {"matchLabels": {"a": "b"}},
            "checks": {"nodeStartupTimeoutSeconds": 600},
        }),
        "MachineDrainRule" => json!({"drain": {"behavior": "Drain", "order": 1}}),
        "KubeadmControlPlane" => json!({
            "replicas": 3, "version": "v1.34.0",
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            "kubeadmConfigSpec": {"clusterConfiguration": {
                "certificatesDir": "/a", "etcd": {"local": {"dataDir": "/d"}}, "dns": {"imageTag": "v1.11.1"},
            }},
            "machineTemplate": {"spec": {"infrastructureRef": {"apiGroup": "g", "kind": "k", "name": "n"}}},
        }),
        "KubeadmControlPlaneTemplate" => json!({"template": {"spec": {
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            "kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"local": {"dataDir": "/d"}}}},
        }}}),
        "KubeadmConfig" => json!({"format": "cloud-config"}),
        "KubeadmConfigTemplate" => json!({"template": {"spec": {"format": "cloud-config"}}}),
        "ClusterResourceSet" => {
            json!({"strategy": "ApplyOnce", "clusterSelector": {"matchLabels": {"a": "b"}}})
        }
        "ClusterResourceSetBinding" => json!({"clusterName": "c"}),
        "ExtensionConfig" => json!({
            "namespaceSelector": {}, "clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}},
        }),
        "IPAddress" => json!({
            "address": "10.0.0.1", "prefix": 24, "gateway": "10.0.0.254", "claimRef": {"name": "claim"},
            "poolRef": {"apiGroup": "g", "kind": "k", "name": "pool"},
        }),
        "IPAddressClaim" => json!({"poolRef": {"apiGroup": "g", "kind": "k", "name": "pool"}}),
        "DevCluster" => json!({
            "backend": {"docker": {"failureDomains": [{"name": "a", "controlPlane": false}]}},
            "controlPlaneEndpoint": {"port": 6443},
        }),
        "DockerCluster" => json!({
            "failureDomains": [{"name": "a", "controlPlane": false}], "controlPlaneEndpoint": {"port": 6443},
        }),
        "DevClusterTemplate" => json!({"template": {"spec": {"backend": {"inMemory": {}}}}}),
        "DockerClusterTemplate" => json!({"template": {"spec": {"controlPlaneEndpoint": {"port": 6443}}}}),
        "DevMachine" => json!({"backend": {"docker": {"customImage": "i"}}}),
        "DockerMachine" => json!({"customImage": "i"}),
        "DevMachineTemplate" => json!({"template": {"spec": {"backend": {"docker": {"customImage": "i"}}}}}),
        "DockerMachineTemplate" => json!({"template": {"spec": {"customImage": "i"}}}),
        "HostPool" => json!({"connection": {"user": "root", "port": 22}}),
        "Host" => json!({"address": "h1"}),
        "HostMachine" => json!({"hostName": "h1"}),
        "HostMachineTemplate" => json!({"template": {"spec": {"hostName": "h1"}}}),
        "HostCluster" => json!({"endpoint": {"mode": "SingleHost", "hostName": "h1"}}),
        "HostClusterTemplate" => {
            json!({"template": {"spec": {"endpoint": {"mode": "SingleHost", "hostName": "h1"}}}})
        }
        other => unreachable!("{other}"),
    };
    object
}

fn cluster() -> Value {
    json!({
        "clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/8"]}},
        "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "it"},
        "infrastructureRef": {"apiGroup": "g", "kind": "DevCluster", "name": "i"},
        "topology": {
            "classRef": {"name": "it"}, "version": "v1.34.0",
            "workers": {"machineDeployments": [{"class": "w", "name": "md"}], "machinePools": []},
        },
    })
}

fn class() -> Value {
    let template = |group: &str, kind: &str| {
        json!({"templateRef": {
            "apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": format!("{kind}Template"), "name": "t",
        }})
    };
    let machine = template("infrastructure", "DevMachine");
    let worker = |name: &str| json!({"class": name, "bootstrap": template("bootstrap", "KubeadmConfig"), "infrastructure": machine});
    let mut control_plane = template("controlplane", "KubeadmControlPlane");
    control_plane["machineInfrastructure"] = machine.clone();
    json!({
        "infrastructure": template("infrastructure", "DevCluster"), "controlPlane": control_plane,
        "workers": {"machineDeployments": [worker("w")], "machinePools": [worker("p")]},
    })
}

fn owner(kind: &str) -> Value {
    let mut spec = json!({
        "clusterName": "c", "replicas": 1,
        "template": {"spec": {
            "clusterName": "c", "version": "v1.35.0",
            "bootstrap": {"configRef": {"apiGroup": "g", "kind": "k", "name": "n"}},
        }},
    });
    if kind != "MachinePool" {
        spec["selector"] = json!({"matchLabels": {"a": "b"}});
        spec["template"]["metadata"] = json!({"labels": {"a": "b"}});
    }
    spec
}
