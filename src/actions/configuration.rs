//! The way from a screen to what a cluster stores of its kubeadm configuration and what runs of it. Must not know how
//! they are read.

use async_trait::async_trait;

use crate::api::key::ObjectKey;
use crate::change::document::Inputs;

/// Reads the configuration documents of a workload cluster, its Nodes and its static pods.
#[async_trait]
pub trait ConfigurationReader: Send + Sync + 'static {
    /// # Errors
    /// Why it cannot be read, in a sentence: no connection, a missing right, not made by kubeadm.
    async fn read(&self, cluster: &ObjectKey) -> Result<Inputs, String>;
}
