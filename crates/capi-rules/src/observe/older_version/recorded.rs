//! The ClusterConfiguration that releases before 1.11 compare of a control plane Machine: the one that an annotation of the Machine
//! keeps, where later ones compare its KubeadmConfig. Must not compare it.
//!
//! Source: cluster-api `controlplane/kubeadm/internal/filters.go` (`matchClusterConfiguration`), v1.10.5.

use serde_json::json;

use super::kubeadm;
use crate::status::control_plane::up_to_date::kubeadm::desired_join;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::kubeadm::ClusterConfiguration;
use capi_types::machine::Machine;
use capi_types::names::annotation::CLUSTER_CONFIGURATION;

/// What `machine` was made with, in the form of v1beta2. A Machine without a record matches its control plane, and an
/// unreadable record is an empty one.
pub fn made_with(machine: &Machine, plane: &KubeadmControlPlane) -> Option<ClusterConfiguration> {
    let annotations = machine.metadata.annotations.as_ref();
    let configuration = match annotations.and_then(|all| all.get(CLUSTER_CONFIGURATION)) {
        Some(record) => serde_json::from_str(record).unwrap_or_default(),
        None => {
            let spec = plane.spec.kubeadm_config_spec.as_ref();
            serde_json::to_value(spec?.cluster_configuration.as_ref()?).unwrap_or_default()
        }
    };
    let is_there = configuration.is_object();
    let mut spec = json!({"clusterConfiguration": if is_there { configuration } else { json!({}) }});
    kubeadm::convert(&mut spec);
    // The record is what people wrote: the gate that releases set by themselves is in none.
    let made = desired_join(&spec, &plane.spec.version)["clusterConfiguration"].take();
    serde_json::from_value(made).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;
    use crate::status::control_plane::up_to_date::kubeadm::differences;
    use capi_types::bootstrap::KubeadmConfigSpec;

    fn plane(configuration: Value) -> KubeadmControlPlane {
        let mut plane = KubeadmControlPlane::default();
        plane.spec.version = "v1.31.0".to_owned();
        let spec: KubeadmConfigSpec =
            serde_json::from_value(json!({"clusterConfiguration": configuration})).expect("a configuration");
        plane.spec.kubeadm_config_spec = Some(spec);
        plane
    }

    /// Paths in which a Machine with this record differs.
    fn differing(record: Option<&str>, configuration: Value) -> Vec<String> {
        let plane = plane(configuration);
        let mut machine = Machine::default();
        let record = record.map(|it| (CLUSTER_CONFIGURATION.to_owned(), it.to_owned()));
        machine.metadata.annotations = Some(BTreeMap::from_iter(record));
        let live = json!({"clusterConfiguration": made_with(&machine, &plane), "joinConfiguration": {"controlPlane": {}}});
        let wanted = serde_json::to_value(&plane.spec.kubeadm_config_spec).expect("JSON");
        differences(&live, &wanted, &plane.spec.version).into_iter().map(|found| found.path).collect()
    }

    #[test]
    fn a_machine_is_what_its_record_says() {
        let flags = json!({"apiServer": {"extraArgs": [{"name": "v", "value": "2"}]}});
        let none: [&str; 0] = [];
        for (record, configuration, expected) in [
            (Some("null"), json!({}), &none[..]),
            (Some("{}"), json!({}), &none),
            (None, json!({}), &none),
            (None, flags.clone(), &none),
            (
                Some(r#"{"apiServer":{"extraArgs":{"v":"2"}},"networking":{},"dns":{"imageTag":"1"}}"#),
                flags.clone(),
                &none,
            ),
            (
                Some(r#"{"featureGates":{"ControlPlaneKubeletLocalMode":false}}"#),
                json!({"featureGates": {"ControlPlaneKubeletLocalMode": false}}),
                &none,
            ),
            (
                Some(r#"{"apiServer":{"extraArgs":{"v":"1"}}}"#),
                flags.clone(),
                &["clusterConfiguration.apiServer.extraArgs"],
            ),
            (Some("{}"), flags.clone(), &["clusterConfiguration.apiServer.extraArgs"]),
            (Some("no JSON"), flags, &["clusterConfiguration.apiServer.extraArgs"]),
        ] {
            assert_eq!(differing(record, configuration.clone()), expected, "{record:?} for {configuration}");
        }
    }
}
