//! The kubeconfig of a workload cluster, for a program of the person's. Must not know which program.

use capi_types::key::ObjectKey;
use capstan_engine::client::Connection;
use capstan_engine::client::connect::harmless;
use capstan_engine::workload::kubeconfig_of;

/// What the Secret of the Cluster has.
///
/// # Errors
/// A Secret that is missing or cannot be read, or whose kubeconfig would run a program or read a file here, in a sentence.
pub async fn workload_kubeconfig(connection: &Connection, cluster: &ObjectKey) -> Result<String, String> {
    let text = kubeconfig_of(&connection.client, cluster).await?;
    harmless(&text, &format!("of Cluster {cluster}")).map_err(|error| error.to_string())
}
