//! A cluster of an old release whose cloud provider is still in kube-controller-manager, with an API that is served: its
//! controllers can be moved to a cloud-controller-manager under leader migration, node by node.

use serde_json::{Value, json};

use super::manifest::{BRISK, ClusterManifest, normal};
use capi_types::dev::SERVED_ANNOTATION;

/// The last minor release whose files and flags know the controllers by their old names.
const VERSION: &str = "v1.27.16";
/// A provider that kube-controller-manager 1.27 has in it.
const PROVIDER: &str = "gce";

fn manifest() -> ClusterManifest {
    ClusterManifest {
        name: "lagoon",
        version: VERSION,
        control_plane_replicas: 3,
        pace: BRISK,
        pools: vec![normal("workers", 1)],
    }
}

pub(super) fn objects() -> Vec<Value> {
    let mut objects = manifest().objects();
    for object in &mut objects {
        match object["kind"].as_str() {
            Some("DevCluster") => object["metadata"]["annotations"] = json!({ SERVED_ANNOTATION: "" }),
            Some("KubeadmControlPlane") => object["spec"]["kubeadmConfigSpec"] = with_provider(),
            Some("KubeadmConfigTemplate") => {
                object["spec"]["template"]["spec"]["joinConfiguration"] = registration();
            }
            _ => {}
        }
    }
    objects
}

fn with_provider() -> Value {
    json!({
        "clusterConfiguration": { "controllerManager": { "extraArgs": [argument()] } },
        "initConfiguration": registration(),
        "joinConfiguration": registration(),
    })
}

fn registration() -> Value {
    json!({ "nodeRegistration": { "kubeletExtraArgs": [argument()] } })
}

fn argument() -> Value {
    json!({ "name": "cloud-provider", "value": PROVIDER })
}
