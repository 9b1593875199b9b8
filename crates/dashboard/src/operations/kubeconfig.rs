//! The kubeconfig of a workload cluster, for a program of the person's. Must not know which program.

use capi_types::key::ObjectKey;
use capstan_engine::client::Connection;
use capstan_engine::workload::kubeconfig_of;

/// As the Secret of the Cluster has it.
///
/// # Errors
/// A Secret that is missing or cannot be read, in a sentence.
pub async fn workload_kubeconfig(connection: &Connection, cluster: &ObjectKey) -> Result<String, String> {
    kubeconfig_of(&connection.client, cluster).await
}
