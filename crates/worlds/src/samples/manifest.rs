//! What an operator applies for one plain cluster: Cluster, infrastructure, control plane, machine
//! deployments and their templates, without status. Must not know what the clusters are for.

use serde_json::{Value, json};

use capi_types::dev::{HOLD_ANNOTATION, PODS_ANNOTATION};
use capi_types::names::{
    BOOTSTRAP_GROUP, CONTROL_PLANE_GROUP, CORE_GROUP, INFRASTRUCTURE_GROUP, VERSION, label,
};

/// All samples live here.
pub(super) const NAMESPACE: &str = "default";

/// How long the parts of a machine take to come up, in seconds, before jitter.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub vm_s: u32,
    pub node_s: u32,
    /// Etcd and the API server, each.
    pub component_s: u32,
    /// Up to this share is added by chance.
    pub jitter: &'static str,
}

pub(super) const OLD_VERSION: &str = "v1.34.3";
pub(super) const NEW_VERSION: &str = "v1.35.1";

/// Up within seconds, so that a fresh demo has something to show.
pub(super) const BRISK: Pace = Pace { vm_s: 2, node_s: 1, component_s: 1, jitter: "0.3" };
/// A little slower: each step of a rollout can be watched.
pub(super) const STEADY: Pace = Pace { vm_s: 6, node_s: 2, component_s: 2, jitter: "0.3" };

pub(super) struct ClusterManifest {
    pub name: &'static str,
    pub version: &'static str,
    pub control_plane_replicas: u32,
    pub pace: Pace,
    pub pools: Vec<Pool>,
}

/// A pool whose machines come up as they should.
pub(super) fn normal(name: &'static str, replicas: u32) -> Pool {
    Pool { name, replicas, infrastructure: Infrastructure::Normal, pods: None }
}

/// One MachineDeployment and its templates.
pub(super) struct Pool {
    /// Suffix of the names.
    pub name: &'static str,
    pub replicas: u32,
    pub infrastructure: Infrastructure,
    /// What runs on its nodes; see the annotation.
    pub pods: Option<&'static str>,
}

/// What the machines of a pool are made from.
pub(super) enum Infrastructure {
    Normal,
    /// The machine deployment names a template that does not exist.
    MissingTemplate,
    /// Machines stop before this part; see the annotation.
    HeldAt(&'static str),
}

impl ClusterManifest {
    /// In the order in which they can be created.
    pub(super) fn objects(&self) -> Vec<Value> {
        let control_plane = self.control_plane_name();
        let mut objects = vec![
            self.cluster(),
            self.infrastructure_cluster(),
            self.machine_template(&control_plane, json!({})),
            self.control_plane(&control_plane),
        ];
        objects.extend(self.pools.iter().flat_map(|pool| self.pool_objects(pool)));
        objects
    }

    /// A MachineDeployment of this cluster and its templates.
    pub(super) fn pool_objects(&self, pool: &Pool) -> Vec<Value> {
        let name = self.pool_name(pool);
        let annotations = match (&pool.infrastructure, pool.pods) {
            (Infrastructure::HeldAt(part), _) => json!({ HOLD_ANNOTATION: part }),
            (_, Some(pods)) => json!({ PODS_ANNOTATION: pods }),
            (_, None) => json!({}),
        };
        let has_template = !matches!(pool.infrastructure, Infrastructure::MissingTemplate);
        let template = has_template.then(|| self.machine_template(&name, annotations));
        let rest = [self.bootstrap_template(&name), self.machine_deployment(&name, pool.replicas)];
        template.into_iter().chain(rest).collect()
    }

    pub(super) fn control_plane_name(&self) -> String {
        format!("{}-control-plane", self.name)
    }

    pub(super) fn pool_name(&self, pool: &Pool) -> String {
        format!("{}-{}", self.name, pool.name)
    }

    pub(super) fn cluster(&self) -> Value {
        let mut cluster = object(CORE_GROUP, "Cluster", self.name, self.name);
        cluster["spec"] = json!({
            "clusterNetwork": {
                "pods": { "cidrBlocks": ["10.244.0.0/16"] },
                "services": { "cidrBlocks": ["10.96.0.0/16"] },
                "serviceDomain": "cluster.local",
            },
            "controlPlaneRef": reference(CONTROL_PLANE_GROUP, "KubeadmControlPlane", &self.control_plane_name()),
            "infrastructureRef": reference(INFRASTRUCTURE_GROUP, "DevCluster", self.name),
        });
        cluster
    }

    pub(super) fn infrastructure_cluster(&self) -> Value {
        let mut cluster = object(INFRASTRUCTURE_GROUP, "DevCluster", self.name, self.name);
        cluster["spec"] = json!({ "backend": { "inMemory": {} } });
        cluster
    }

    fn control_plane(&self, name: &str) -> Value {
        let registration = json!({ "nodeRegistration": node_registration() });
        let mut control_plane = object(CONTROL_PLANE_GROUP, "KubeadmControlPlane", name, self.name);
        control_plane["spec"] = json!({
            "replicas": self.control_plane_replicas,
            "version": self.version,
            "machineTemplate": { "spec": {
                "infrastructureRef": reference(INFRASTRUCTURE_GROUP, "DevMachineTemplate", name),
            } },
            "kubeadmConfigSpec": { "initConfiguration": registration, "joinConfiguration": registration },
        });
        control_plane
    }

    fn machine_deployment(&self, name: &str, replicas: u32) -> Value {
        let labels = json!({ label::CLUSTER_NAME: self.name, label::DEPLOYMENT_NAME: name });
        let mut deployment = object(CORE_GROUP, "MachineDeployment", name, self.name);
        deployment["spec"] = json!({
            "clusterName": self.name,
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "clusterName": self.name,
                    "version": self.version,
                    "bootstrap": { "configRef": reference(BOOTSTRAP_GROUP, "KubeadmConfigTemplate", name) },
                    "infrastructureRef": reference(INFRASTRUCTURE_GROUP, "DevMachineTemplate", name),
                },
            },
        });
        deployment
    }

    fn bootstrap_template(&self, name: &str) -> Value {
        let join = json!({ "nodeRegistration": node_registration() });
        let mut template = object(BOOTSTRAP_GROUP, "KubeadmConfigTemplate", name, self.name);
        template["spec"] = json!({ "template": { "spec": { "joinConfiguration": join } } });
        template
    }

    fn machine_template(&self, name: &str, annotations: Value) -> Value {
        let pace = self.pace;
        let part = |seconds: u32| json!({ "provisioning": { "startupDuration": format!("{seconds}s"), "startupJitter": pace.jitter } });
        let mut template = object(INFRASTRUCTURE_GROUP, "DevMachineTemplate", name, self.name);
        template["spec"] = json!({ "template": { "spec": { "backend": { "inMemory": {
            "vm": part(pace.vm_s),
            "node": part(pace.node_s),
            "etcd": part(pace.component_s),
            "apiServer": part(pace.component_s),
        } } } } });
        if annotations != json!({}) {
            template["spec"]["template"]["metadata"] = json!({ "annotations": annotations });
        }
        template
    }
}

pub(super) fn node_registration() -> Value {
    json!({ "kubeletExtraArgs": [{ "name": "cloud-provider", "value": "external" }] })
}

pub(super) fn object(group: &str, kind: &str, name: &str, cluster: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/{VERSION}"),
        "kind": kind,
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": { label::CLUSTER_NAME: cluster } },
    })
}

pub(super) fn reference(group: &str, kind: &str, name: &str) -> Value {
    json!({ "apiGroup": group, "kind": kind, "name": name })
}

/// A rule for the pods of a tier.
pub(super) fn drain_rule(name: &str, tier: &str, drain: &Value) -> Value {
    let mut rule = object(CORE_GROUP, "MachineDrainRule", name, "");
    rule["metadata"]["labels"] = json!({});
    rule["spec"] = json!({ "drain": drain, "pods": [{ "selector": { "matchLabels": { "tier": tier } } }] });
    rule
}
