//! The etcd of a Cluster of the management cluster, by whatever way leads to it: what its simulated infrastructure
//! noted, port-forwards to its control plane Nodes, or the addresses of an external one. Owns what is read for
//! that, which is read anew each time; must not judge it.

use std::time::Duration;

use async_trait::async_trait;

use super::EtcdReader;
use crate::operations::served::{ServedObjects, typed};
use capi_rules::etcd::facts::Facts;
use capi_rules::observe::{hosts, simulated_members};
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::dev::{DevCluster, DevMachine};
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capi_types::names::label;
use capstan_base::time::Clock;
use capstan_engine::client::{Connection, Object};
use capstan_engine::workload::connect_to;
use capstan_engine::workload::etcd::{Access, StackedEtcd, Tls, access, control_plane_nodes, look};

/// How long all of it may take: members have deadlines of their own.
const LOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the etcd of clusters of one server.
pub struct ClusterEtcd {
    pub connection: Connection,
    pub clock: Clock,
}

#[async_trait]
impl EtcdReader for ClusterEtcd {
    async fn look(&self, cluster: &ObjectKey) -> Result<Facts, String> {
        let late = |_| Err(format!("there was no answer within {} s", LOOK_TIMEOUT.as_secs()));
        tokio::time::timeout(LOOK_TIMEOUT, self.look_at(cluster)).await.unwrap_or_else(late)
    }
}

impl ClusterEtcd {
    async fn look_at(&self, cluster: &ObjectKey) -> Result<Facts, String> {
        let served = ServedObjects::new(&self.connection);
        let object: Cluster =
            served.get(cluster).await?.ok_or_else(|| format!("there is no Cluster {cluster}"))?;
        let machines: Vec<Machine> = of_control_plane(&served, cluster).await?;
        // A simulated etcd has no members that could be asked: its state is noted on the
        // DevMachines.
        if is_simulated(&served, cluster, &object).await? {
            let dev_machines: Vec<DevMachine> = of_control_plane(&served, cluster).await?;
            let facts = simulated_members(&dev_machines, &machines);
            return Ok(Facts { hosts: Some(hosts(&machines, &[], self.clock.now())), ..facts });
        }
        let control_plane = object.spec.control_plane_ref.as_ref();
        let Some(reference) = control_plane.filter(|reference| reference.kind == "KubeadmControlPlane")
        else {
            return Err(format!("the etcd of Cluster {cluster} is not known: it has no KubeadmControlPlane"));
        };
        let key = ObjectKey::new(&cluster.namespace, &reference.name);
        match access(&self.connection.client, cluster, self.clock.now()).await? {
            Access::Stacked(tls) => self.stacked(cluster, tls, &machines).await,
            Access::External(tls) => {
                let endpoints = served.get::<KubeadmControlPlane>(&key).await?.map(|kcp| endpoints(&kcp));
                Ok(look(&endpoints.unwrap_or_default(), Some(&tls)).await)
            }
        }
    }

    async fn stacked(&self, cluster: &ObjectKey, tls: Tls, machines: &[Machine]) -> Result<Facts, String> {
        let workload = connect_to(&self.connection.client, cluster, self.connection.read_only).await?;
        let nodes = control_plane_nodes(&workload).await?;
        let names = nodes.iter().filter_map(|node| node.metadata.name.clone()).collect();
        let facts = StackedEtcd { workload, tls, nodes: names }.look().await;
        Ok(Facts { hosts: Some(hosts(machines, &nodes, self.clock.now())), ..facts })
    }
}

/// Its infrastructure is a DevCluster with the in-memory backend, or one that is gone.
async fn is_simulated(
    served: &ServedObjects<'_>,
    key: &ObjectKey,
    cluster: &Cluster,
) -> Result<bool, String> {
    let reference = cluster.spec.infrastructure_ref.as_ref().filter(|r| r.kind == "DevCluster");
    let Some(reference) = reference else { return Ok(false) };
    let dev: Option<DevCluster> = served.get(&ObjectKey::new(&key.namespace, &reference.name)).await?;
    Ok(dev.is_none_or(|dev| dev.spec.backend.in_memory.is_some()))
}

/// The objects of a kind that belong to the cluster and to its control plane.
async fn of_control_plane<K: Object>(
    served: &ServedObjects<'_>,
    cluster: &ObjectKey,
) -> Result<Vec<K>, String> {
    let selector = format!("{}={},{}", label::CLUSTER_NAME, cluster.name, label::CONTROL_PLANE);
    // An object that is left out would make the control plane look smaller than it is.
    served.values::<K>(&cluster.namespace, &selector).await?.into_iter().map(typed).collect()
}

fn endpoints(control_plane: &KubeadmControlPlane) -> Vec<String> {
    let kubeadm = control_plane.spec.kubeadm_config_spec.as_ref();
    let configuration = kubeadm.and_then(|kubeadm| kubeadm.cluster_configuration.as_ref());
    let external = configuration.and_then(|c| c.etcd.as_ref()).and_then(|etcd| etcd.external.as_ref());
    external.map(|external| external.endpoints.clone()).unwrap_or_default()
}
