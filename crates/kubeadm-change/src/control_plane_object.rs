//! The ClusterConfiguration that a KubeadmControlPlane has, in kubeadm's form and back. Owns which fields are its own; must not
//! know a request.
//!
//! Source: cluster-api `api/bootstrap/kubeadm/v1beta2/kubeadm_types.go`, `controlplane/kubeadm/internal/update.go`
//! (`updateWorkloadClusterConfig` and the functions it names), v1.14.2.

use serde_json::{Value, json};

use super::difference::text_of;
use super::document::Inputs;
use capstan_base::go_duration::{DAY_NS, GoDuration};

const KIND: &str = "KubeadmControlPlane";
/// The most days that its schema allows.
const DAYS_MAX: i64 = 1095;

/// A rollout writes them from the object, also when it has none.
const WRITTEN: [&str; 6] =
    ["featureGates", "apiServer", "controllerManager", "scheduler", "etcd", "encryptionAlgorithm"];
/// Written only when the object has them.
const WRITTEN_IF_SET: [&str; 2] = ["imageRepository", "dns"];

/// The object that stands beside the documents, whatever its form.
pub fn object(inputs: &Inputs) -> Option<&Value> {
    inputs.objects.iter().find(|object| object["kind"] == KIND)
}

/// The object, if it is in the form that is read and patched here: v1beta1 has flags as a map.
pub fn readable(inputs: &Inputs) -> Option<&Value> {
    object(inputs).filter(|object| !object["apiVersion"].as_str().unwrap_or_default().ends_with("/v1beta1"))
}

/// The stored configuration as the next rollout of the object would leave it.
pub fn configuration(object: &Value, stored: &Value) -> Value {
    let own = &object["spec"]["kubeadmConfigSpec"]["clusterConfiguration"];
    let mut written = stored.as_object().cloned().unwrap_or_default();
    for field in WRITTEN {
        written.insert(field.to_owned(), own[field].clone());
    }
    for field in WRITTEN_IF_SET.into_iter().filter(|field| !own[*field].is_null()) {
        written.insert(field.to_owned(), own[field].clone());
    }
    let days = own["certificateValidityPeriodDays"].as_i64();
    let validity = days.map(|days| GoDuration::from_days(days).to_string());
    written.insert("certificateValidityPeriod".to_owned(), validity.into());
    // A rollout takes away what the object does not have, whoever stored it.
    written.retain(|_, value| !value.is_null());
    // Of v1beta3: it is carried beside the object's own fields.
    let timeout = &stored["apiServer"]["timeoutForControlPlane"];
    if !timeout.is_null()
        && let Value::Object(server) = written.entry("apiServer").or_insert_with(|| json!({}))
    {
        server.insert("timeoutForControlPlane".to_owned(), timeout.clone());
    }
    Value::Object(written)
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

    #[test]
    fn only_whole_days_can_be_said() {
        assert_eq!(days(&json!("48h")), Some(2));
        assert_eq!(days(&json!("26280h0m0s")), Some(1095));
        for wrong in ["36h", "1h", "0s", "-24h", "26304h", "two days"] {
            assert_eq!(days(&json!(wrong)), None, "{wrong}");
        }
    }
}
