//! The documents of a new cluster: what `kubeadm init` puts into its ConfigMaps, and what a kubelet shows of its
//! configuration. Must not know a host.
//!
//! Source: kubeadm `config/initconfiguration.go`, `componentconfigs/{kubelet,kubeproxy}.go`, v1.35; of the defaults those
//! that people look at.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use capstan_base::time::{Timestamp, to_k8s};
use k8s_machinery::merge;
use kubeadm_change::network::Cidr;
use kubeadm_change::render::Release;
use kubeadm_change::yaml;

/// What `kubeadm init` is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitFacts {
    pub name: String,
    /// KubeadmHost and port.
    pub endpoint: String,
    pub pod_subnet: String,
    pub service_subnet: String,
    pub dns_domain: String,
}

/// The ConfigMaps of a new cluster of this version, by name. `own`: what Cluster API was told of it.
pub fn config_maps(
    facts: &InitFacts,
    own: Option<&Value>,
    version: &str,
    at: Timestamp,
) -> BTreeMap<String, ConfigMap> {
    let texts = [
        ("kubeadm-config", "ClusterConfiguration", cluster(facts, own, version)),
        ("kubelet-config", "kubelet", kubelet(facts)),
        ("kube-proxy", "config.conf", proxy(facts)),
    ];
    texts.map(|(name, key, document)| (name.to_owned(), config_map(name, key, &document, at))).into()
}

fn config_map(name: &str, key: &str, document: &Value, at: Timestamp) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("kube-system".to_owned()),
            creation_timestamp: Some(to_k8s(at)),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(key.to_owned(), yaml::write(document))])),
        ..ConfigMap::default()
    }
}

fn cluster(facts: &InitFacts, own: Option<&Value>, version: &str) -> Value {
    // kubeadm writes the newest version that it knows: v1beta4 from 1.31 on.
    let is_new = Release::of(version).is_none_or(|release| release.minor >= 31);
    let mut document = json!({
        "apiVersion": if is_new { "kubeadm.k8s.io/v1beta4" } else { "kubeadm.k8s.io/v1beta3" },
        "kind": "ClusterConfiguration",
        "apiServer": {},
        "certificatesDir": "/etc/kubernetes/pki",
        "clusterName": facts.name,
        "controlPlaneEndpoint": facts.endpoint,
        "controllerManager": {},
        "dns": {},
        "etcd": { "local": { "dataDir": "/var/lib/etcd" } },
        "imageRepository": "registry.k8s.io",
        "kubernetesVersion": version,
        "networking": {
            "dnsDomain": facts.dns_domain,
            "podSubnet": facts.pod_subnet,
            "serviceSubnet": facts.service_subnet,
        },
        "scheduler": {},
    });
    if is_new {
        let more = json!({
            "caCertificateValidityPeriod": "87600h0m0s",
            "certificateValidityPeriod": "8760h0m0s",
            "encryptionAlgorithm": "RSA-2048",
            "proxy": {},
        });
        merge::apply(&mut document, &more);
    }
    if let Some(own) = own {
        // The rest of what was told (endpoint, networks) is in the facts, from the Cluster itself.
        let parts = ["apiServer", "controllerManager", "scheduler", "featureGates", "imageRepository"];
        for part in parts.into_iter().filter(|part| !own[*part].is_null()) {
            document[part] = own[part].clone();
            if !is_new {
                arguments_as_map(&mut document[part]);
            }
        }
    }
    document
}

/// v1beta3 has arguments as a map, and no environment variables.
fn arguments_as_map(component: &mut Value) {
    let Some(fields) = component.as_object_mut() else { return };
    fields.remove("extraEnvs");
    if let Some(Value::Array(arguments)) = fields.get("extraArgs") {
        let pair =
            |argument: &Value| Some((argument["name"].as_str()?.to_owned(), argument["value"].clone()));
        let map: serde_json::Map<String, Value> = arguments.iter().filter_map(pair).collect();
        fields.insert("extraArgs".to_owned(), map.into());
    }
}

fn kubelet(facts: &InitFacts) -> Value {
    // kubeadm's rule: the tenth address of the first range is the DNS service's.
    let tenth = Cidr::parse_pair(&facts.service_subnet).and_then(|ranges| ranges.first()?.nth(10));
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            // Go leaves out no duration of zero, so kubeadm writes it down.
            "webhook": { "cacheTTL": "0s", "enabled": true },
            "x509": { "clientCAFile": "/etc/kubernetes/pki/ca.crt" },
        },
        "authorization": { "mode": "Webhook" },
        "cgroupDriver": "systemd",
        "clusterDNS": [tenth.map(|address| address.to_string()).unwrap_or_default()],
        "clusterDomain": facts.dns_domain,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": 10248,
        "rotateCertificates": true,
        "staticPodPath": "/etc/kubernetes/manifests",
    })
}

fn proxy(facts: &InitFacts) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": "0.0.0.0",
        "clientConnection": { "kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf" },
        "clusterCIDR": facts.pod_subnet,
        "mode": "",
    })
}

/// The first document of a text; nothing when it cannot be read.
pub(super) fn parsed(text: &str) -> Value {
    let documents = yaml::read(text).unwrap_or_default();
    documents.first().map(|document| document.value()).unwrap_or_default()
}

/// What a kubelet shows of its configuration: defaults filled in, without apiVersion and kind.
pub(super) fn configz(configuration: &Value) -> Value {
    let mut shown = json!({
        "cgroupsPerQOS": true,
        "containerLogMaxFiles": 5,
        "containerLogMaxSize": "10Mi",
        "cpuManagerPolicy": "none",
        "evictionHard": { "imagefs.available": "15%", "memory.available": "100Mi", "nodefs.available": "10%" },
        "fileCheckFrequency": "20s",
        "imageGCHighThresholdPercent": 85,
        "imageGCLowThresholdPercent": 80,
        "maxOpenFiles": 1_000_000,
        "maxPods": 110,
        "memoryManagerPolicy": "None",
        "nodeStatusUpdateFrequency": "10s",
        "podPidsLimit": -1,
        "port": 10250,
        "readOnlyPort": 0,
        "serializeImagePulls": true,
        "shutdownGracePeriod": "0s",
        "streamingConnectionIdleTimeout": "4h0m0s",
        "syncFrequency": "1m0s",
        "topologyManagerPolicy": "none",
    });
    let mut own = configuration.clone();
    if let Some(fields) = own.as_object_mut() {
        // A kubelet shows its internal type, which has neither.
        fields.retain(|name, _| name != "apiVersion" && name != "kind");
        merge::apply(&mut shown, &own);
    }
    json!({ "kubeletconfig": shown })
}
