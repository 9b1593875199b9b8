//! Where `capstan change` reads: files, the cluster of the kubeconfig, or a workload cluster of a management cluster. Owns which
//! of them, and the connection that is written through; must not know what is done with it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::args::SourceArgs;
use super::{all, file};
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::names::label::CLUSTER_NAME;
use capstan_engine::client::read::{get_value, list_values};
use capstan_engine::client::write::gvk_of;
use capstan_engine::client::{Client, ConnectOptions, Connection, connect, explain, get};
use capstan_engine::reconfigure::read::{ClusterReading, read};
use capstan_engine::workload::connect_to;
use kubeadm_change::document::read_inputs;
use kubeadm_change::network::parse_ip;
use kubeadm_change::record::{ChangeRecord, RECORD};
use kubeadm_change::running::Running;

/// How a server is found.
pub enum Reach {
    /// By the options of the command line.
    Options(ConnectOptions),
    /// It is there already.
    Connected(Connection),
}

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
    /// The Cluster of a management cluster that it was reached by.
    pub fleet: Option<FleetCluster>,
    /// The KubeadmControlPlane that looks after it.
    pub managed: Option<ManagedCluster>,
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

/// Reads what the arguments name.
///
/// # Errors
/// It cannot be reached, or holds nothing of kubeadm, in a sentence.
pub async fn find(source: &SourceArgs, reach: &Reach) -> anyhow::Result<SourceReading> {
    if let Some(folder) = &source.from_dir {
        return Ok(SourceReading { reading: files(folder)?, live: None });
    }
    let connection = match reach {
        Reach::Options(options) => connect(options).await?,
        Reach::Connected(connection) => connection.clone(),
    };
    let live = match &source.cluster {
        None => LiveCluster {
            client: connection.client,
            server: connection.server,
            read_only: connection.read_only,
            fleet: None,
            managed: None,
        },
        Some(typed) => of_fleet(connection, typed).await?,
    };
    reading_of(live).await
}

/// Reads the workload cluster of a Cluster.
///
/// # Errors
/// As [`find`].
pub async fn find_in_fleet(management: Connection, typed: &str) -> anyhow::Result<SourceReading> {
    reading_of(of_fleet(management, typed).await?).await
}

async fn reading_of(live: LiveCluster) -> anyhow::Result<SourceReading> {
    let mut reading = read(&live.client, &live.server).await?;
    if let Some(managed) = &live.managed {
        reading.inputs.objects.push(managed.object.clone());
    }
    Ok(SourceReading { reading, live: Some(live) })
}

async fn of_fleet(management: Connection, typed: &str) -> anyhow::Result<LiveCluster> {
    let (namespace, name) = typed.split_once('/').unwrap_or((management.namespace.as_str(), typed));
    let key = ObjectKey::new(namespace, name);
    let read_only = management.read_only;
    let cluster: Option<Cluster> = get(&management.client, &key)
        .await
        .map_err(|error| anyhow::anyhow!(explain(&error, &management.server)))?;
    let cluster = cluster
        .with_context(|| format!("--cluster {typed}: there is no Cluster {key} at {}", management.server))?;
    let client = connect_to(&management.client, &key, read_only).await.map_err(anyhow::Error::msg)?;
    let fleet = Some(FleetCluster { management: management.clone(), key: key.clone() });
    let reference =
        cluster.spec.control_plane_ref.filter(|reference| reference.kind == "KubeadmControlPlane");
    let managed = match reference {
        None => None,
        Some(reference) => {
            let control_plane = ObjectRef {
                gvk: gvk_of::<KubeadmControlPlane>(),
                key: ObjectKey::new(&key.namespace, reference.name),
                uid: String::new(),
            };
            let object = get_value(&management.client, &control_plane).await;
            let object = object.map_err(|error| anyhow::anyhow!(explain(&error, &management.server)))?;
            let object =
                object.with_context(|| format!("Cluster {key} names {control_plane}, which is not there"))?;
            Some(ManagedCluster { management, control_plane, object })
        }
    };
    Ok(LiveCluster { client, server: format!("Cluster {key}"), read_only, fleet, managed })
}

/// The hosts of the Machines of a cluster of a fleet, by the names of their Nodes; `None` for a cluster of a kubeconfig.
///
/// # Errors
/// The Machines cannot be listed, in a sentence.
pub(super) async fn machine_hosts(
    live: &LiveCluster,
) -> anyhow::Result<Option<BTreeMap<String, Option<String>>>> {
    let Some(FleetCluster { management, key }) = &live.fleet else { return Ok(None) };
    let selector = format!("{CLUSTER_NAME}={}", key.name);
    let found = list_values(&management.client, &gvk_of::<Machine>(), &key.namespace, &selector).await;
    let found = found.map_err(|error| anyhow::anyhow!(explain(&error, &management.server)))?;
    let of_cluster = found.iter().filter(|machine| machine["spec"]["clusterName"] == key.name.as_str());
    let host = |machine: &Value| {
        let status = &machine["status"];
        let addresses = status["addresses"].as_array().into_iter().flatten();
        let mut internal = addresses.filter(|address| address["type"] == "InternalIP");
        let address = internal.find_map(|address| {
            address["address"].as_str().filter(|address| parse_ip(address).is_some()).map(str::to_owned)
        });
        Some((status["nodeRef"]["name"].as_str()?.to_owned(), address))
    };
    Ok(Some(of_cluster.filter_map(host).collect()))
}

fn files(folder: &Path) -> anyhow::Result<ClusterReading> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| {
        matches!(path.extension().and_then(|e| e.to_str()), Some("yaml" | "yml" | "json" | "conf"))
    });
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        files.push((path.display().to_string(), file(&path)?));
    }
    let inputs = read_inputs(&files).map_err(|errors| all(&errors))?;
    if inputs.documents.is_empty() {
        bail!(
            "{} holds no configuration document; expected ClusterConfiguration, KubeletConfiguration or \
             KubeProxyConfiguration in files that end with .yaml, .yml, .json or .conf",
            folder.display()
        );
    }
    let is_record = |object: &&Value| object["kind"] == "ConfigMap" && object["metadata"]["name"] == RECORD;
    let record = inputs.objects.iter().find(is_record).map(ChangeRecord::read).transpose()?;
    let running = Running::of(&inputs.objects);
    Ok(ClusterReading { inputs, running, record, ..ClusterReading::default() })
}
