//! The ClusterConfiguration that a KubeadmControlPlane has, in kubeadm's form and back. Owns which fields are its own; must not
//! know a request.
//!
//! Source: cluster-api `api/bootstrap/kubeadm/v1beta2/kubeadm_types.go`, `controlplane/kubeadm/internal/update.go`
//! (`updateWorkloadClusterConfig` and the functions it names), v1.14.2.

use serde_json::{Map, Value, json};

use super::convert::to_internal;
use super::difference::text_of;
use super::document::{DocumentKind, Inputs};
use super::kind::V1BETA3;
use capstan_base::go_duration::{DAY_NS, GoDuration};

const KIND: &str = "KubeadmControlPlane";
/// The most days that its schema allows.
const DAYS_MAX: i64 = 1095;

/// A rollout writes them from the object, also when it has none.
const WRITTEN: [&str; 6] =
    ["featureGates", "apiServer", "controllerManager", "scheduler", "etcd", "encryptionAlgorithm"];
/// Of `apiServer`.
pub const TIMEOUT: &str = "timeoutForControlPlane";
/// In days in the object.
pub const VALIDITY: &str = "certificateValidityPeriod";
/// v1beta1 got no field for them while it was the only version.
const ONLY_NEWER: [&str; 2] = ["encryptionAlgorithm", VALIDITY];
/// Written only when the object has them.
const WRITTEN_IF_SET: [&str; 2] = ["imageRepository", "dns"];

/// The object that stands beside the documents, whatever its form.
pub fn object(inputs: &Inputs) -> Option<&Value> {
    inputs.objects.iter().find(|object| object["kind"] == KIND)
}

/// The object, if it is in a form that is read and patched here.
pub fn readable(inputs: &Inputs) -> Option<&Value> {
    object(inputs).filter(|object| !version(object).contains("alpha"))
}

/// In which version of Cluster API's API the object is.
pub fn version(object: &Value) -> &str {
    object["apiVersion"].as_str().and_then(|it| it.rsplit('/').next()).unwrap_or_default()
}

/// Is it in v1beta1, which has flags as maps, the time for the API server among its fields, and none of `ONLY_NEWER`?
pub fn is_older(object: &Value) -> bool {
    version(object) == "v1beta1"
}

/// Does an object of v1beta1 lack the field?
pub fn is_only_newer(field: &str) -> bool {
    ONLY_NEWER.contains(&field)
}

/// The ClusterConfiguration as the object has it.
pub fn as_it_stands(object: &Value) -> &Value {
    &object["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]
}

/// The stored configuration as the next rollout of the object would leave it.
pub fn configuration(object: &Value, stored: &Value) -> Value {
    let is_older = is_older(object);
    let mut own = as_it_stands(object).clone();
    if is_older {
        // kubeadm's v1beta3 has flags in the same form.
        own = to_internal(DocumentKind::Cluster, V1BETA3, own);
    }
    let mut written = stored.as_object().cloned().unwrap_or_default();
    for field in WRITTEN.into_iter().filter(|field| !(is_older && is_only_newer(field))) {
        written.insert(field.to_owned(), own[field].clone());
    }
    for field in WRITTEN_IF_SET.into_iter().filter(|field| !own[*field].is_null()) {
        written.insert(field.to_owned(), own[field].clone());
    }
    if !is_older {
        let days = own["certificateValidityPeriodDays"].as_i64();
        let validity = days.map(|days| GoDuration::from_days(days).to_string());
        written.insert(VALIDITY.to_owned(), validity.into());
    }
    // A rollout takes away what the object does not have, whoever stored it.
    written.retain(|_, value| !value.is_null());
    carry_timeout(&mut written, is_older.then_some(&own), stored);
    Value::Object(written)
}

/// Only kubeadm's v1beta3 stores the time for the API server there. An object of v1beta2 has it elsewhere, and what is stored
/// stays; one of v1beta1 (`older`) writes its own.
fn carry_timeout(written: &mut Map<String, Value>, older: Option<&Value>, stored: &Value) {
    let stored = &stored["apiServer"][TIMEOUT];
    let timeout =
        if stored.is_null() { &Value::Null } else { older.map_or(stored, |own| &own["apiServer"][TIMEOUT]) };
    if timeout.is_null() {
        if let Some(server) = written.get_mut("apiServer").and_then(Value::as_object_mut) {
            server.remove(TIMEOUT);
        }
    } else if let Value::Object(server) = written.entry("apiServer").or_insert_with(|| json!({})) {
        server.insert(TIMEOUT.to_owned(), timeout.clone());
    }
}

/// A duration in the whole days of the object; `None` when it is not a number of days that its schema allows.
pub fn days(duration: &Value) -> Option<i64> {
    let ns = GoDuration::parse(&text_of(duration))?.ns();
    let days = ns / DAY_NS;
    (ns % DAY_NS == 0 && (1..=DAYS_MAX).contains(&days)).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_writes_what_the_object_has() {
        let own = json!({
            "apiServer": {"extraArgs": [{"name": "oidc-issuer-url", "value": "https://id"}]},
            "certificateValidityPeriodDays": 100,
        });
        let object = json!({"spec": {"kubeadmConfigSpec": {"clusterConfiguration": own}}});
        let stored = json!({
            "kubernetesVersion": "v1.36.1", "imageRepository": "r.example", "scheduler": {"extraArgs": []},
            "apiServer": {"certSANs": ["a"], "timeoutForControlPlane": "4m0s"}, "proxy": {"disabled": true},
        });
        assert_eq!(
            configuration(&object, &stored),
            json!({
                "kubernetesVersion": "v1.36.1", "imageRepository": "r.example", "proxy": {"disabled": true},
                "apiServer": {
                    "extraArgs": [{"name": "oidc-issuer-url", "value": "https://id"}], "timeoutForControlPlane": "4m0s",
                },
                "certificateValidityPeriod": "2400h0m0s",
            })
        );
    }

    /// Source: cluster-api `controlplane/kubeadm/internal/workload_cluster.go` (`UpdateAPIServerInKubeadmConfigMap`), v1.10.5.
    #[test]
    fn a_rollout_of_an_older_object_writes_its_flags_and_its_time_and_leaves_what_it_has_no_field_for() {
        let object = |own: Value| {
            json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1",
                "spec": {"kubeadmConfigSpec": {"clusterConfiguration": own}}})
        };
        let of_v1beta3 =
            json!({"apiServer": {"timeoutForControlPlane": "4m0s"}, "encryptionAlgorithm": "ECDSA-P256"});
        let flags = json!([{"name": "a", "value": "1"}, {"name": "v", "value": "2"}]);
        for (own, stored, expected) in [
            (
                json!({"apiServer": {"extraArgs": {"v": "2", "a": "1"}, "timeoutForControlPlane": "5m"}}),
                of_v1beta3.clone(),
                json!({"apiServer": {"extraArgs": flags, "timeoutForControlPlane": "5m"}, "encryptionAlgorithm": "ECDSA-P256"}),
            ),
            (
                json!({"apiServer": {}}),
                of_v1beta3.clone(),
                json!({"apiServer": {}, "encryptionAlgorithm": "ECDSA-P256"}),
            ),
            (json!({}), of_v1beta3, json!({"encryptionAlgorithm": "ECDSA-P256"})),
            (json!({"apiServer": {"timeoutForControlPlane": "5m"}}), json!({}), json!({"apiServer": {}})),
        ] {
            assert_eq!(configuration(&object(own.clone()), &stored), expected, "{own}");
        }
    }

    #[test]
    fn only_whole_days_can_be_said() {
        assert_eq!(days(&json!("48h")), Some(2));
        assert_eq!(days(&json!("26280h0m0s")), Some(1095));
        for wrong in ["36h", "1h", "0s", "-24h", "26304h", "two days"] {
            assert_eq!(days(&json!(wrong)), None, "{wrong}");
        }
    }
}
