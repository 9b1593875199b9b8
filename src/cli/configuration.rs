//! What the clusters of one server store of their kubeadm configuration, for the dashboard: reached through their
//! kubeconfig Secrets. Must not know what the documents mean.

use async_trait::async_trait;

use crate::actions::ConfigurationReader;
use crate::api::key::ObjectKey;
use crate::change::document::Inputs;
use crate::client::Connection;
use crate::reconfigure::read::read;
use crate::workload::connect_to;

/// Reads clusters of one server.
pub struct ClusterConfigurations {
    pub connection: Connection,
}

#[async_trait]
impl ConfigurationReader for ClusterConfigurations {
    async fn read(&self, cluster: &ObjectKey) -> Result<Inputs, String> {
        let client = connect_to(&self.connection.client, cluster, true).await?;
        let reading = read(&client, &format!("Cluster {cluster}")).await;
        reading.map(|reading| reading.inputs).map_err(|error| error.to_string())
    }
}
