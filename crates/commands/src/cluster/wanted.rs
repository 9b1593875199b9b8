//! The objects of a cluster on Hosts. Owns their shape; must not know a server.

use serde_json::{Value, json};

use super::args::{ClusterCreateArgs, EndpointArg};
use capi_types::bootstrap::KubeadmConfigTemplate;
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::host::label;
use capi_types::host_cluster::HostCluster;
use capi_types::host_machine::HostMachineTemplate;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::machine_deployment::MachineDeployment;
use capstan_hosts::finding::NodeRole;
use k8s_machinery::merge::apply;

/// What the command line and the Hosts say about the cluster.
pub struct ClusterWanted<'a> {
    pub args: &'a ClusterCreateArgs,
    pub namespace: &'a str,
    pub version: &'a str,
    /// `unix:///run/containerd/containerd.sock`.
    pub cri_socket: &'a str,
    /// Fields of a KubeadmConfigSpec, from a file.
    pub kubeadm: Option<Value>,
}

/// By which a cluster finds its Hosts.
pub fn labels(cluster: &str, role: NodeRole) -> Value {
    let role = match role {
        NodeRole::ControlPlane => "control-plane",
        NodeRole::Worker => "worker",
    };
    json!({ (label::CLUSTER): cluster, (label::ROLE): role })
}

impl ClusterWanted<'_> {
    /// Each with how it is named: what others refer to comes first.
    pub fn objects(&self) -> Vec<(ObjectRef, Value)> {
        let mut objects = vec![
            self.made::<HostCluster>(self.name(), self.host_cluster()),
            self.made::<HostMachineTemplate>(&self.control_plane(), self.machines(NodeRole::ControlPlane)),
            self.made::<KubeadmControlPlane>(&self.control_plane(), self.kubeadm_control_plane()),
            self.made::<Cluster>(self.name(), self.cluster()),
        ];
        if !self.args.workers.is_empty() {
            let workers = self.workers();
            let template = json!({"template": {"spec": self.worker_settings()}});
            objects.push(self.made::<HostMachineTemplate>(&workers, self.machines(NodeRole::Worker)));
            objects.push(self.made::<KubeadmConfigTemplate>(&workers, template));
            objects.push(self.made::<MachineDeployment>(&workers, self.machine_deployment()));
        }
        objects
    }

    fn name(&self) -> &str {
        &self.args.name
    }

    fn control_plane(&self) -> String {
        format!("{}-control-plane", self.args.name)
    }

    fn workers(&self) -> String {
        format!("{}-workers", self.args.name)
    }

    fn made<K: kube::Resource<DynamicType = ()>>(&self, name: &str, spec: Value) -> (ObjectRef, Value) {
        let gvk = Gvk::of::<K>();
        let object = json!({
            "apiVersion": gvk.api_version(), "kind": gvk.kind,
            "metadata": {"name": name, "namespace": self.namespace}, "spec": spec,
        });
        (ObjectRef { gvk, key: ObjectKey::new(self.namespace, name), uid: String::new() }, object)
    }

    fn reference<K: kube::Resource<DynamicType = ()>>(name: &str) -> Value {
        let gvk = Gvk::of::<K>();
        json!({"apiGroup": gvk.group, "kind": gvk.kind, "name": name})
    }

    fn host_cluster(&self) -> Value {
        match (&self.args.endpoint, self.args.control_plane.first()) {
            (Some(EndpointArg { host, port }), _) => json!({
                "endpoint": {"mode": "External"}, "controlPlaneEndpoint": {"host": host, "port": port},
            }),
            (None, first) => json!({"endpoint": {"mode": "SingleHost", "hostName": first}}),
        }
    }

    fn machines(&self, role: NodeRole) -> Value {
        json!({"template": {"spec": {"hostLabels": labels(self.name(), role)}}})
    }

    fn registration(&self) -> Value {
        json!({"nodeRegistration": {"criSocket": self.cri_socket}})
    }

    fn kubeadm_control_plane(&self) -> Value {
        let mut settings =
            json!({"initConfiguration": self.registration(), "joinConfiguration": self.registration()});
        if let Some(more) = &self.kubeadm {
            apply(&mut settings, more);
        }
        json!({
            "replicas": self.args.control_plane.len(), "version": self.version,
            "machineTemplate": {"spec": {
                "infrastructureRef": Self::reference::<HostMachineTemplate>(&self.control_plane()),
            }},
            "kubeadmConfigSpec": settings,
        })
    }

    /// Without what only a control plane has.
    fn worker_settings(&self) -> Value {
        let mut settings = json!({"joinConfiguration": self.registration()});
        let mut more = self.kubeadm.clone().unwrap_or_else(|| json!({}));
        if let Some(fields) = more.as_object_mut() {
            fields.remove("clusterConfiguration");
            fields.remove("initConfiguration");
        }
        apply(&mut settings, &more);
        settings
    }

    fn cluster(&self) -> Value {
        let mut network = json!({"pods": {"cidrBlocks": self.args.pod_cidr}});
        if !self.args.service_cidr.is_empty() {
            network["services"] = json!({"cidrBlocks": self.args.service_cidr});
        }
        json!({
            "clusterNetwork": network,
            "infrastructureRef": Self::reference::<HostCluster>(self.name()),
            "controlPlaneRef": Self::reference::<KubeadmControlPlane>(&self.control_plane()),
        })
    }

    fn machine_deployment(&self) -> Value {
        let workers = self.workers();
        json!({
            "clusterName": self.name(), "replicas": self.args.workers.len(),
            "template": {"spec": {
                "clusterName": self.name(), "version": self.version,
                "bootstrap": {"configRef": Self::reference::<KubeadmConfigTemplate>(&workers)},
                "infrastructureRef": Self::reference::<HostMachineTemplate>(&workers),
            }},
        })
    }
}
