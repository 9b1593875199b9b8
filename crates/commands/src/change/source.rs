//! Where `capstan change` reads: files, the cluster of the kubeconfig, or a workload cluster of a management cluster. Owns which
//! of them the arguments name.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;

use super::args::{ClusterName, SourceArgs};
use super::{all, file};
use capi_types::key::ObjectKey;
use capstan_dashboard::operations::change::source::{
    LiveCluster, SourceError, SourceReading, of_fleet, reading_of,
};
use capstan_engine::client::{ConnectOptions, Connection, connect};
use capstan_engine::reconfigure::read::ClusterReading;
use kubeadm_change::document::read_inputs;
use kubeadm_change::record::{ChangeRecord, RECORD};
use kubeadm_change::running::Running;

/// How a server is found.
pub enum Reach {
    /// By the options of the command line.
    Options(ConnectOptions),
    /// It is there already.
    Connected(Connection),
}

impl Reach {
    pub(super) fn is_read_only(&self) -> bool {
        match self {
            Self::Options(options) => options.forbid_writes(),
            Self::Connected(connection) => connection.read_only,
        }
    }
}

/// Reads what the arguments name.
///
/// # Errors
/// It cannot be reached, or holds nothing of kubeadm, in a sentence.
pub async fn find(source: &SourceArgs, reach: &Reach) -> anyhow::Result<SourceReading> {
    if let Some(folder) = &source.from_dir {
        return Ok(SourceReading { reading: files(folder)?, live: None });
    }
    Ok(reading_of(of_server(source, reach).await?).await?)
}

/// The cluster that the arguments name at a server, before anything of it is read.
///
/// # Errors
/// It cannot be reached, or is not there, in a sentence.
pub(super) async fn of_server(source: &SourceArgs, reach: &Reach) -> anyhow::Result<LiveCluster> {
    let connection = match reach {
        Reach::Options(options) => connect(options).await?,
        Reach::Connected(connection) => connection.clone(),
    };
    live(connection, source.cluster.as_ref()).await
}

/// The cluster of the connection, or the workload cluster of one of its Clusters.
///
/// # Errors
/// It cannot be reached, or is not there, in a sentence.
pub async fn live(connection: Connection, cluster: Option<&ClusterName>) -> anyhow::Result<LiveCluster> {
    let Some(typed) = cluster else { return Ok(LiveCluster::of_connection(connection)) };
    let namespace = typed.namespace.as_ref().unwrap_or(&connection.namespace);
    let key = ObjectKey::new(namespace, &typed.name);
    of_fleet(connection, &key).await.map_err(|error| match error {
        SourceError::NoCluster { .. } => anyhow!("--cluster {typed}: {error}"),
        other => other.into(),
    })
}

fn files(folder: &Path) -> anyhow::Result<ClusterReading> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| {
        // `config.conf` is the key of kube-proxy's ConfigMap.
        matches!(path.extension().and_then(|e| e.to_str()), Some("yaml" | "yml" | "json" | "conf"))
    });
    // The order of a folder is that of its file system: errors and documents shall not depend on it.
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
