//! HostCluster: says where the API server of a cluster on Hosts is. Owns endpoint and failure domains; must not know machines.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use capi_rules::status::conditions::setter::{Draft, condition, paused};
use capi_types::cluster::{Cluster, Endpoint, FailureDomain};
use capi_types::condition::{Condition, Status};
use capi_types::dev::InfrastructureInitialization;
use capi_types::host::Host;
use capi_types::host_cluster::{ENDPOINT_READY, EndpointMode, HostCluster};
use capi_types::key::{ObjectKey, annotation as annotation_of, refers_to};
use capi_types::names::condition::READY;
use capi_types::names::{CORE_GROUP, annotation};
use capstan_base::time::Clock;
use capstan_engine::client::{Cache, Mode, Precondition, Writer};
use capstan_engine::engine::{Controller, Engine, Outcome, ReconcileError, Trigger};

use crate::MANAGER;

pub const NAME: &str = "host-cluster";
/// Of an API server that kubeadm makes.
const API_SERVER_PORT: i32 = 6443;
/// As many as the schema takes.
const DOMAINS_MAX: usize = 100;

pub struct HostClusters {
    host_clusters: Cache<HostCluster>,
    hosts: Cache<Host>,
    clusters: Cache<Cluster>,
    writer: Writer,
    clock: Clock,
}

impl HostClusters {
    pub fn new(engine: &mut Engine) -> Self {
        Self {
            host_clusters: engine.cache(),
            hosts: engine.cache(),
            clusters: engine.cache(),
            writer: engine.writer().managed_by(MANAGER),
            clock: engine.clock().clone(),
        }
    }

    fn paused(&self, key: &ObjectKey, own: &HostCluster) -> Condition {
        let owners = own.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| refers_to(owner, CORE_GROUP, "Cluster"));
        let cluster = owner.and_then(|owner| self.clusters.get(&ObjectKey::new(&key.namespace, &owner.name)));
        let is_cluster_paused = cluster.is_some_and(|cluster| cluster.spec.paused == Some(true));
        paused("HostCluster", is_cluster_paused, annotation_of(own, annotation::PAUSED).is_some())
    }

    fn desired(&self, key: &ObjectKey, own: &HostCluster) -> HostCluster {
        let mut after = own.clone();
        let mut status = after.status.take().unwrap_or_default();
        let mut draft =
            Draft::new(std::mem::take(&mut status.conditions), own.metadata.generation, self.clock.now());
        let paused = self.paused(key, own);
        draft.set(&paused);
        if paused.status != "True" {
            let hosts = self.hosts.in_namespace(&key.namespace);
            let hosts: Vec<&Host> = hosts.iter().map(Arc::as_ref).collect();
            let (endpoint, ready) = endpoint(own, &hosts);
            if after.spec.control_plane_endpoint.as_ref().is_none_or(|it| it.host.is_none()) {
                after.spec.control_plane_endpoint = endpoint;
            }
            if ready.status == "True" {
                status.initialization = Some(InfrastructureInitialization { provisioned: Some(true) });
            }
            status.failure_domains = failure_domains(&hosts);
            draft.set(&Condition { type_: READY.to_owned(), ..ready.clone() });
            draft.set(&ready);
        }
        status.conditions = draft.finish();
        after.status = Some(status);
        after
    }
}

/// The endpoint, where it is made here, and whether there is one.
fn endpoint(own: &HostCluster, hosts: &[&Host]) -> (Option<Endpoint>, Condition) {
    let given = own.spec.control_plane_endpoint.clone().filter(|it| it.host.is_some());
    let none = capi_types::host_cluster::HostEndpoint::default();
    let asked = own.spec.endpoint.as_ref().unwrap_or(&none);
    let no = |reason: &str, message: String| condition(ENDPOINT_READY, Status::False, reason, message);
    let yes = || condition(ENDPOINT_READY, Status::True, "Ready", "");
    match (asked.mode(), given) {
        (EndpointMode::Vip, _) => {
            let message = "an address that the control plane holds by itself is not there yet; use External or SingleHost";
            (None, no("NotThereYet", message.to_owned()))
        }
        (_, Some(given)) => (Some(given), yes()),
        (EndpointMode::External, None) => {
            let message =
                "spec.controlPlaneEndpoint is not set: name the load balancer's host and port".to_owned();
            (None, no("WaitingForEndpoint", message))
        }
        (EndpointMode::SingleHost, None) => {
            let name = asked.host_name.as_deref().unwrap_or_default();
            let found = hosts.iter().find(|host| host.metadata.name.as_deref() == Some(name));
            let Some(host) = found else {
                return (None, no("WaitingForHost", format!("there is no Host {name}")));
            };
            let Some(address) = address(host) else {
                return (
                    None,
                    no("WaitingForHost", format!("the addresses of Host {name} are not known yet")),
                );
            };
            (Some(Endpoint { host: Some(address), port: Some(API_SERVER_PORT) }), yes())
        }
    }
}

/// Its own, where it is given as an IP address, or the first that the machine has.
fn address(host: &Host) -> Option<String> {
    let status = host.status.as_ref()?;
    if host.spec.address.parse::<std::net::IpAddr>().is_ok() {
        // Not before the machine behind it was looked at.
        return (!status.addresses.is_empty()).then(|| host.spec.address.clone());
    }
    status.addresses.iter().find(|it| it.type_ == "InternalIP").map(|it| it.address.clone())
}

fn failure_domains(hosts: &[&Host]) -> Vec<FailureDomain> {
    let names: BTreeSet<&String> =
        hosts.iter().filter_map(|host| host.spec.failure_domain.as_ref()).collect();
    let of = |name: &String| FailureDomain {
        name: name.clone(),
        control_plane: Some(true),
        ..FailureDomain::default()
    };
    names.into_iter().take(DOMAINS_MAX).map(of).collect()
}

#[async_trait]
impl Controller for HostClusters {
    fn name(&self) -> &'static str {
        NAME
    }

    fn triggers(&self) -> Vec<Trigger> {
        let all = self.host_clusters.clone();
        vec![
            Trigger::own(&self.host_clusters),
            Trigger::on(&self.clusters, |old: Option<&Cluster>, new| {
                let Some(cluster) = new.or(old) else { return Vec::new() };
                let reference =
                    cluster.spec.infrastructure_ref.as_ref().filter(|it| it.kind == "HostCluster");
                let namespace = cluster.metadata.namespace.clone().unwrap_or_default();
                reference.map(|it| ObjectKey::new(namespace, &it.name)).into_iter().collect()
            }),
            Trigger::on(&self.hosts, move |old: Option<&Host>, new| {
                let facts = |host: &Host| (host.spec.failure_domain.clone(), address(host));
                if old.map(facts) == new.map(facts) {
                    return Vec::new();
                }
                let namespace =
                    new.or(old).and_then(|host| host.metadata.namespace.clone()).unwrap_or_default();
                all.in_namespace(&namespace).iter().map(|own| ObjectKey::of(own.as_ref())).collect()
            }),
        ]
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(own) = self.host_clusters.get(key) else { return Ok(Outcome::Done) };
        if own.metadata.deletion_timestamp.is_none() {
            let after = self.desired(key, &own);
            self.writer
                .patch(own.as_ref(), &after, &Precondition::unchanged(own.as_ref()), Mode::Real)
                .await?;
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::host::{HostSpec, HostStatus};
    use capi_types::host_cluster::{HostClusterSpec, HostEndpoint};
    use capi_types::machine::MachineAddress;

    fn host(name: &str, address: &str, has: &[&str]) -> Host {
        let spec = HostSpec {
            address: address.to_owned(),
            failure_domain: Some(format!("rack-{name}")),
            ..HostSpec::default()
        };
        let mut host = Host::new(name, spec);
        let of = |address: &&str| MachineAddress {
            type_: "InternalIP".to_owned(),
            address: (*address).to_owned(),
        };
        host.status = Some(HostStatus { addresses: has.iter().map(of).collect(), ..HostStatus::default() });
        host
    }

    fn asked(mode: &str, name: Option<&str>, given: Option<&str>) -> HostCluster {
        let endpoint = HostEndpoint { mode: mode.to_owned(), host_name: name.map(str::to_owned) };
        let given = given.map(|host| Endpoint { host: Some(host.to_owned()), port: Some(443) });
        HostCluster::new("c", HostClusterSpec { control_plane_endpoint: given, endpoint: Some(endpoint) })
    }

    #[test]
    fn an_endpoint_is_given_or_that_of_one_host() {
        let hosts = [
            host("a", "10.0.0.1", &["10.0.0.1"]),
            host("b", "edge", &["10.0.0.2"]),
            host("c", "10.0.0.3", &[]),
        ];
        let all: Vec<&Host> = hosts.iter().collect();
        for (own, expected, reason) in [
            (asked("External", None, Some("lb")), Some("lb"), "Ready"),
            (asked("External", None, None), None, "WaitingForEndpoint"),
            (asked("SingleHost", Some("a"), None), Some("10.0.0.1"), "Ready"),
            (asked("SingleHost", Some("b"), None), Some("10.0.0.2"), "Ready"),
            (asked("SingleHost", Some("c"), None), None, "WaitingForHost"),
            (asked("SingleHost", Some("d"), None), None, "WaitingForHost"),
            (asked("VIP", None, None), None, "NotThereYet"),
        ] {
            let (found, ready) = endpoint(&own, &all);
            assert_eq!(found.and_then(|it| it.host).as_deref(), expected, "{own:?}");
            assert_eq!((ready.reason.as_str(), ready.status == "True"), (reason, expected.is_some()));
        }
        let names: Vec<String> = failure_domains(&all).into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["rack-a", "rack-b", "rack-c"]);
    }
}
