//! A running cluster whose kubeadm configuration is read and changed: that of a connection, or the workload cluster of a Cluster of a
//! fleet. Owns how it is reached, and the connection that is written through; must not know what is done with it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::operations::served::ServedObjects;
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::names::label::CLUSTER_NAME;
use capstan_engine::client::deadline::within;
use capstan_engine::client::{Client, Connection, ContextSetting};
use capstan_engine::reconfigure::read::{ClusterReading, ReadError, read};
use capstan_engine::workload::{REQUEST_TIMEOUT, connect_to};
use kubeadm_change::network::parse_ip;

/// What was found.
#[derive(Clone)]
pub struct SourceReading {
    pub reading: ClusterReading,
    /// The cluster that can be written to; `None` for files.
    pub live: Option<LiveCluster>,
}

/// A cluster that answers.
#[derive(Clone)]
pub struct LiveCluster {
    pub client: Client,
    /// For messages and the journal.
    pub server: String,
    pub read_only: bool,
    /// What a person set for the context that it was reached by.
    pub setting: ContextSetting,
    /// The Cluster of a management cluster that it was reached by.
    pub fleet: Option<FleetCluster>,
    /// The KubeadmControlPlane that looks after it.
    pub managed: Option<ManagedCluster>,
}

impl LiveCluster {
    /// The cluster of the connection itself.
    pub fn of_connection(connection: Connection) -> Self {
        let Connection { client, server, read_only, setting, .. } = connection;
        // A host whose power is pulled closes no connection.
        Self {
            client: within(client, REQUEST_TIMEOUT),
            server,
            read_only,
            setting,
            fleet: None,
            managed: None,
        }
    }
}

/// A Cluster, where it is kept.
#[derive(Clone)]
pub struct FleetCluster {
    pub management: Connection,
    pub key: ObjectKey,
}

/// A cluster that a management cluster looks after.
#[derive(Clone)]
pub struct ManagedCluster {
    pub management: Connection,
    pub control_plane: ObjectRef,
    pub object: Value,
}

/// Why a cluster cannot be read, in a sentence.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("{0}")]
    Unreachable(String),
    #[error("there is no Cluster {cluster} at {server}")]
    NoCluster { cluster: ObjectKey, server: String },
    #[error("Cluster {cluster} names {control_plane}, which is not there")]
    NoControlPlane { cluster: ObjectKey, control_plane: ObjectRef },
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Reads what a cluster stores, and what runs of it.
///
/// # Errors
/// [`SourceError`]: it cannot be reached, or holds nothing of kubeadm.
pub async fn reading_of(live: LiveCluster) -> Result<SourceReading, SourceError> {
    let mut reading = read(&live.client, &live.server).await?;
    if let Some(managed) = &live.managed {
        reading.inputs.objects.push(managed.object.clone());
    }
    Ok(SourceReading { reading, live: Some(live) })
}

/// The workload cluster of a Cluster, and what looks after it.
///
/// # Errors
/// [`SourceError`].
pub async fn of_fleet(management: Connection, key: &ObjectKey) -> Result<LiveCluster, SourceError> {
    let (read_only, setting) = (management.read_only, management.setting.clone());
    let served = ServedObjects::new(&management);
    let cluster: Option<Cluster> = served.get(key).await.map_err(SourceError::Unreachable)?;
    let missing = || SourceError::NoCluster { cluster: key.clone(), server: management.server.clone() };
    let cluster = cluster.ok_or_else(missing)?;
    let client = connect_to(&management.client, key, read_only).await.map_err(SourceError::Unreachable)?;
    let reference =
        cluster.spec.control_plane_ref.filter(|reference| reference.kind == "KubeadmControlPlane");
    let managed = match reference {
        None => None,
        Some(reference) => {
            let own = ObjectKey::new(&key.namespace, reference.name);
            // As the server has it: the patch is made in the same version.
            let read = served.value::<KubeadmControlPlane>(&own).await;
            let (control_plane, object) = read.map_err(SourceError::Unreachable)?;
            let missing =
                || SourceError::NoControlPlane { cluster: key.clone(), control_plane: control_plane.clone() };
            let object = object.ok_or_else(missing)?;
            Some(ManagedCluster { management: management.clone(), control_plane, object })
        }
    };
    let fleet = Some(FleetCluster { management, key: key.clone() });
    Ok(LiveCluster { client, server: format!("Cluster {key}"), read_only, setting, fleet, managed })
}

/// The hosts of the Machines of a cluster of a fleet, by the names of their Nodes; `None` for a cluster of a kubeconfig.
///
/// # Errors
/// [`SourceError`]: the Machines cannot be listed.
pub async fn machine_hosts(
    live: &LiveCluster,
) -> Result<Option<BTreeMap<String, Option<String>>>, SourceError> {
    let Some(FleetCluster { management, key }) = &live.fleet else { return Ok(None) };
    let selector = format!("{CLUSTER_NAME}={}", key.name);
    let found = ServedObjects::new(management).values::<Machine>(&key.namespace, &selector).await;
    let found = found.map_err(SourceError::Unreachable)?;
    // The label picks them, but only spec.clusterName, which cannot change, says whose they are.
    let of_cluster = found.iter().filter(|machine| machine["spec"]["clusterName"] == key.name.as_str());
    let host = |machine: &Value| {
        let status = &machine["status"];
        let addresses = status["addresses"].as_array().into_iter().flatten();
        let mut internal = addresses.filter(|address| address["type"] == "InternalIP");
        let address = internal.find_map(|address| {
            // An address becomes an argument of ssh: nothing else may.
            address["address"].as_str().filter(|address| parse_ip(address).is_some()).map(str::to_owned)
        });
        Some((status["nodeRef"]["name"].as_str()?.to_owned(), address))
    };
    Ok(Some(of_cluster.filter_map(host).collect()))
}
