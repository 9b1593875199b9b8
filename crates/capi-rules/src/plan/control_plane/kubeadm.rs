//! What kubeadm keeps inside the cluster and the control plane keeps in step: the cluster
//! configuration that joining Machines read, and kube-proxy. Must not know Machines.
//! Source: KCP-12 steps 1 and 2, KCP-18; `controlplane/kubeadm/pkg/workload_cluster.go`, v1.14.2.
//!
//! Not here: CoreDNS, and reading certificate expiry.

use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::{Act, Blocked, Flow, Observed, Pending, Why, Workload};
use crate::plan::{WorkloadCall, version};
use capstan_base::go_duration::GoDuration;

const SKIP_KUBE_PROXY: &str = "controlplane.cluster.x-k8s.io/skip-kube-proxy";
/// Sections of the control plane's own configuration that are copied as they are.
const COPIED: [&str; 5] = ["imageRepository", "featureGates", "apiServer", "controllerManager", "scheduler"];

/// Brings `ClusterConfiguration` in ConfigMap `kube-system/kubeadm-config` in line with the spec.
pub fn cluster_configuration(p: &mut Pending) -> Flow {
    let facts = match &p.observed.workload {
        Workload::Reached(facts) => facts,
        Workload::Down(_) => return no_connection(p),
        Workload::NotAsked | Workload::Assumed(_) => return Flow::Continue(()),
    };
    let current = match &facts.kubeadm_config {
        Ok(Some(current)) => current,
        // Not there (any more): the next Machine that joins reports it.
        Ok(None) => return Flow::Continue(()),
        Err(error) => {
            let detail = format!("failed to read ConfigMap kube-system/kubeadm-config: {error}");
            return p.fail(Blocked::NotInspected { detail });
        }
    };
    let wanted = updated(current, &p.observed);
    let differs = wanted != *current;
    for name in facts.bindings_missing.clone() {
        p.step(Act::Workload(WorkloadCall::BindClusterRole(binding(name))), Why::BindingMissing);
    }
    if differs {
        let version = p.observed.control_plane.spec.version.clone();
        let update = WorkloadCall::SetClusterConfiguration(wanted);
        p.step(Act::Workload(update), Why::RolloutPending { version });
    }
    Flow::Continue(())
}

/// Source: KCP-12 step 1; `workload_cluster_rbac.go`, v1.14.2.
fn binding(name: &str) -> ClusterRoleBinding {
    let (kind, subject, role) = match name {
        "kubeadm:cluster-admins" => ("Group", name, "cluster-admin"),
        _ => ("User", "kube-apiserver-kubelet-client", "system:kubelet-api-admin"),
    };
    let api_group = "rbac.authorization.k8s.io".to_owned();
    ClusterRoleBinding {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        role_ref: RoleRef {
            api_group: api_group.clone(),
            kind: "ClusterRole".to_owned(),
            name: role.to_owned(),
        },
        subjects: Some(vec![Subject {
            api_group: Some(api_group),
            kind: kind.to_owned(),
            name: subject.to_owned(),
            namespace: None,
        }]),
    }
}

fn no_connection(p: &mut Pending) -> Flow {
    let detail = "there is no connection to the workload cluster".to_owned();
    p.fail(Blocked::NotInspected { detail })
}

fn updated(current: &Value, observed: &Observed) -> Value {
    let spec = &observed.control_plane.spec;
    let mut wanted = current.as_object().cloned().unwrap_or_default();
    wanted.insert("kubernetesVersion".to_owned(), json!(spec.version));
    let own = spec.kubeadm_config_spec.as_ref().and_then(|s| s.cluster_configuration.as_ref());
    let Some(Value::Object(own)) = own.and_then(|c| serde_json::to_value(c).ok()) else {
        return Value::Object(wanted);
    };
    // By what is stored: kubeadm could not read a section in another form than its apiVersion says.
    let new_form = match wanted.get("apiVersion").and_then(Value::as_str) {
        Some(api_version) => api_version.ends_with("/v1beta4"),
        None => version::at_least(&spec.version, 1, 31),
    };
    for section in COPIED {
        replace(&mut wanted, section, own.get(section).map(|v| in_form(v, new_form)));
    }
    // An unset section stays as kubeadm wrote it, with its defaults filled in.
    if let Some(etcd) = own.get("etcd") {
        wanted.insert("etcd".to_owned(), in_form(etcd, new_form));
    }
    // v1beta3 does not have these fields.
    if new_form {
        replace(&mut wanted, "encryptionAlgorithm", own.get("encryptionAlgorithm").cloned());
        let days = own.get("certificateValidityPeriodDays").and_then(Value::as_i64);
        let validity = days.map(|days| json!(GoDuration::from_days(days).to_string()));
        replace(&mut wanted, "certificateValidityPeriod", validity);
    }
    Value::Object(wanted)
}

fn replace(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(key.to_owned(), value),
        None => map.remove(key),
    };
}

/// v1beta4 has arguments as a list and knows environment variables; v1beta3 has a map and does not.
fn in_form(value: &Value, new_form: bool) -> Value {
    if new_form {
        return value.clone();
    }
    let Value::Object(map) = value else { return value.clone() };
    let mut old = Map::new();
    for (key, value) in map.iter().filter(|(key, _)| *key != "extraEnvs") {
        let value = match value {
            Value::Array(arguments) if key == "extraArgs" => {
                // Of repeated names the last one stays; a map has no place for more.
                let pair = |a: &Value| Some((a.get("name")?.as_str()?.to_owned(), a.get("value")?.clone()));
                Value::Object(arguments.iter().filter_map(pair).collect())
            }
            other => in_form(other, false),
        };
        old.insert(key.clone(), value);
    }
    Value::Object(old)
}

/// kube-proxy follows the version once no Machine is outdated or missing.
pub fn kube_proxy(p: &mut Pending) -> Flow {
    let facts = match &p.observed.workload {
        Workload::Reached(facts) => facts,
        Workload::Down(_) => return no_connection(p),
        Workload::NotAsked | Workload::Assumed(_) => return Flow::Continue(()),
    };
    let skipped = p.observed.control_plane.metadata.annotations.as_ref();
    let skipped = skipped.is_some_and(|a| a.contains_key(SKIP_KUBE_PROXY));
    let Some(current) = facts.kube_proxy_image.as_deref().filter(|_| !skipped) else {
        return Flow::Continue(());
    };
    let spec = &p.observed.control_plane.spec;
    let own = spec.kubeadm_config_spec.as_ref().and_then(|s| s.cluster_configuration.as_ref());
    let repository = own.and_then(|c| c.image_repository.as_deref());
    let image = proxy_image(current, repository, &spec.version);
    if image != current {
        let version = spec.version.clone();
        let update = WorkloadCall::SetKubeProxyImage { image };
        p.step(Act::Workload(update), Why::ProxyFollowsVersion { version });
    }
    Flow::Continue(())
}

/// The same image with another tag and, when one is configured, another repository.
fn proxy_image(current: &str, repository: Option<&str>, version: &str) -> String {
    let (path, name) = current.rsplit_once('/').unwrap_or(("", current));
    // A digest would pin the old image whatever the tag says.
    let name = name.split(['@', ':']).next().unwrap_or(name);
    // A tag cannot hold a plus sign.
    let tag = version.replace('+', "_");
    match repository.unwrap_or(path) {
        "" => format!("{name}:{tag}"),
        path => format!("{path}/{name}:{tag}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::control_plane::fixtures;

    #[test]
    fn the_proxy_keeps_its_name() {
        for (current, repository, expected) in [
            ("registry.k8s.io/kube-proxy:v1.33.0", None, "registry.k8s.io/kube-proxy:v1.34.1_a"),
            ("host:5000/x/kube-proxy:v1", None, "host:5000/x/kube-proxy:v1.34.1_a"),
            ("r/kube-proxy@sha256:0", Some("mine"), "mine/kube-proxy:v1.34.1_a"),
            ("kube-proxy", None, "kube-proxy:v1.34.1_a"),
        ] {
            assert_eq!(proxy_image(current, repository, "v1.34.1+a"), expected);
        }
    }

    #[test]
    fn the_cluster_configuration_takes_the_spec_and_keeps_the_rest() {
        let mut observed = fixtures::three();
        observed.control_plane.spec.kubeadm_config_spec =
            Some(fixtures::of(json!({ "clusterConfiguration": {
            "imageRepository": "mine",
            "apiServer": { "extraArgs": [{ "name": "v", "value": "4" }] },
            "certificateValidityPeriodDays": 100,
        } })));
        let current = json!({ "apiVersion": "kubeadm.k8s.io/v1beta4", "clusterName": "prod", "featureGates": { "X": true } });
        assert_eq!(
            updated(&current, &observed),
            json!({
                "apiVersion": "kubeadm.k8s.io/v1beta4", "clusterName": "prod", "kubernetesVersion": "v1.34.1",
                "imageRepository": "mine",
                "apiServer": { "extraArgs": [{ "name": "v", "value": "4" }] },
                "certificateValidityPeriod": "2400h0m0s",
            })
        );
        let old = json!({ "apiVersion": "kubeadm.k8s.io/v1beta3" });
        assert_eq!(updated(&old, &observed)["apiServer"], json!({ "extraArgs": { "v": "4" } }));
    }
}
