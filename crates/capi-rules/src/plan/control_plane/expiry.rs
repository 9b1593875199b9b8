//! The ends of the certificates of API servers: those that are not noted yet are asked for once, when nothing else is to
//! be done. `rollout.before.certificatesExpiryDays` counts by them.
//! Source: `kubeadmcontrolplane_controller.go` (`reconcileCertificateExpiries`), `workload_cluster.go`
//! (`calculateAPIServerPort`), v1.14.2. Different: an API server whose pod is not healthy is not asked, where upstream's pass
//! ends with an error.

use super::{Observed, Why};
use crate::plan::{Step, Write};
use crate::status::control_plane::OwnedMachine;
use capi_types::bootstrap::KubeadmConfig;
use capi_types::condition::is_true;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::kubeadm::ApiEndpoint;
use capi_types::names::annotation;

const PORT: u16 = 6443;

/// One step for each Machine whose configuration does not say when its certificate ends.
pub(super) fn unknown(observed: &Observed) -> Vec<Step> {
    if !observed.was_initialized() {
        return Vec::new();
    }
    let cluster = ObjectKey::of(&observed.cluster);
    let step = |machine: &OwnedMachine| {
        let config = machine.bootstrap.as_ref().filter(|config| !is_noted(config))?;
        let node = machine.node_name().filter(|_| !machine.is_deleting() && serves(machine))?.to_owned();
        let (cluster, port, config) = (cluster.clone(), port(config), ObjectRef::of(config));
        Some(Step::new(Write::NoteExpiry { cluster, node, port, config }, Why::ExpiryUnknown))
    };
    observed.machines.iter().filter_map(step).collect()
}

fn serves(machine: &OwnedMachine) -> bool {
    machine.machine.status.as_ref().is_some_and(|s| is_true(&s.conditions, "APIServerPodHealthy"))
}

fn is_noted(config: &KubeadmConfig) -> bool {
    let annotations = config.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(annotation::CERTIFICATES_EXPIRY))
}

/// Where the Machine's API server listens.
fn port(config: &KubeadmConfig) -> u16 {
    let (init, join) = (config.spec.init_configuration.as_ref(), config.spec.join_configuration.as_ref());
    let joined = join.and_then(|join| join.control_plane.as_ref());
    let endpoints = [
        init.and_then(|i| i.local_api_endpoint.as_ref()),
        joined.and_then(|c| c.local_api_endpoint.as_ref()),
    ];
    let set = |endpoint: &ApiEndpoint| endpoint.bind_port.filter(|port| *port != 0);
    let port = endpoints.into_iter().flatten().find_map(set);
    port.and_then(|port| u16::try_from(port).ok()).unwrap_or(PORT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::status::control_plane::fixtures;

    #[test]
    fn each_end_is_asked_for_once_when_nothing_else_is_to_be_done() {
        let mut observed = fixtures::three();
        let names = |observed: &Observed| {
            let asked = unknown(observed).into_iter().map(|step| step.writes[0].to_string());
            asked.collect::<Vec<_>>()
        };
        for machine in &mut observed.machines {
            machine.bootstrap =
                Some(fixtures::of(json!({"metadata": {"name": machine.name(), "namespace": "ns"},
                "spec": {"joinConfiguration": {"controlPlane": {"localAPIEndpoint": {"bindPort": 7443}}}}})));
        }
        assert_eq!(names(&observed).len(), 3);
        let node = observed.machines[0].node_name().unwrap_or_default().to_owned();
        let asked = unknown(&observed)[0].writes[0].clone();
        assert!(matches!(&asked, Write::NoteExpiry { node: of, port: 7443, .. } if *of == node), "{asked}");

        let config = observed.machines[0].bootstrap.as_mut().expect("a configuration");
        let noted = (annotation::CERTIFICATES_EXPIRY.to_owned(), "2027-01-01T00:00:00Z".to_owned());
        config.metadata.annotations = Some([noted].into());
        observed.machines[1].machine.status.get_or_insert_default().node_ref = None;
        assert_eq!(names(&observed).len(), 1, "one is noted, and one has no Node");
        let ill = &mut observed.machines[2].machine.status.as_mut().expect("a status").conditions;
        let pod = ill.iter_mut().find(|c| c.type_ == "APIServerPodHealthy").expect("its condition");
        pod.status = "False".to_owned();
        assert_eq!(names(&observed), Vec::<String>::new(), "and one does not serve");
    }

    #[test]
    fn the_port_is_that_of_the_configuration() {
        for (spec, expected) in [
            (json!({}), 6443),
            (json!({"initConfiguration": {"localAPIEndpoint": {"bindPort": 1}}}), 1),
            (
                json!({"initConfiguration": {"localAPIEndpoint": {"advertiseAddress": "10.0.0.1"}},
                    "joinConfiguration": {"controlPlane": {"localAPIEndpoint": {"bindPort": 2}}}}),
                2,
            ),
            (json!({"joinConfiguration": {"controlPlane": {}}}), 6443),
        ] {
            assert_eq!(port(&fixtures::of(json!({"metadata": {"name": "m"}, "spec": spec}))), expected);
        }
    }
}
