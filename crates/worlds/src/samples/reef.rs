//! A cluster that kubeadm made and nobody manages: control plane Machines that stand alone, workers of a
//! MachineDeployment, and an API that is served, so that a change of its configuration is carried out node by node.

use serde_json::{Value, json};

use super::manifest::{BRISK, ClusterManifest, NEW_VERSION, node_registration, normal, object, reference};
use capi_types::dev::SERVED_ANNOTATION;
use capi_types::names::{BOOTSTRAP_GROUP, CORE_GROUP, INFRASTRUCTURE_GROUP, label};

const NAME: &str = "reef";
const CONTROL_PLANES: usize = 3;

pub(super) fn objects() -> Vec<Value> {
    let manifest = ClusterManifest {
        name: NAME,
        version: NEW_VERSION,
        control_plane_replicas: 0,
        pace: BRISK,
        pools: vec![normal("workers", 2)],
    };
    let mut cluster = manifest.cluster();
    if let Some(spec) = cluster["spec"].as_object_mut() {
        spec.remove("controlPlaneRef");
    }
    let mut infrastructure = manifest.infrastructure_cluster();
    infrastructure["metadata"]["annotations"] = json!({ SERVED_ANNOTATION: "" });
    let machines = (0..CONTROL_PLANES).flat_map(|index| control_plane(&format!("{NAME}-{index}")));
    let pools = manifest.pools.iter().flat_map(|pool| manifest.pool_objects(pool));
    [cluster, infrastructure].into_iter().chain(machines).chain(pools).collect()
}

/// One Machine with its host and its configuration.
fn control_plane(name: &str) -> Vec<Value> {
    let registration = json!({ "nodeRegistration": node_registration() });
    let part = |seconds: u32| json!({ "provisioning": { "startupDuration": format!("{seconds}s"), "startupJitter": BRISK.jitter } });
    let specs = [
        (
            BOOTSTRAP_GROUP,
            "KubeadmConfig",
            json!({ "initConfiguration": registration, "joinConfiguration": registration }),
        ),
        (
            INFRASTRUCTURE_GROUP,
            "DevMachine",
            json!({ "backend": { "inMemory": {
            "vm": part(BRISK.vm_s),
            "node": part(BRISK.node_s),
            "etcd": part(BRISK.component_s),
            "apiServer": part(BRISK.component_s),
        } } }),
        ),
        (
            CORE_GROUP,
            "Machine",
            json!({
                "clusterName": NAME,
                "version": NEW_VERSION,
                "bootstrap": { "configRef": reference(BOOTSTRAP_GROUP, "KubeadmConfig", name) },
                "infrastructureRef": reference(INFRASTRUCTURE_GROUP, "DevMachine", name),
            }),
        ),
    ];
    specs
        .into_iter()
        .map(|(group, kind, spec)| {
            let mut made = object(group, kind, name, NAME);
            made["metadata"]["labels"][label::CONTROL_PLANE] = json!("");
            made["spec"] = spec;
            made
        })
        .collect()
}
