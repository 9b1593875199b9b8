//! The way from screens, previews and commands to the etcd of a Cluster of the management cluster. Owns the question; must not know
//! how members are asked, nor judge them.

#[cfg(feature = "etcd")]
mod cluster;

use async_trait::async_trait;

use capi_rules::etcd::facts::Facts;
use capi_types::key::ObjectKey;
#[cfg(feature = "etcd")]
pub use cluster::ClusterEtcd;

/// Asks the members of a cluster's etcd.
#[async_trait]
pub trait EtcdReader: Send + Sync + 'static {
    /// One look. Members that do not answer are part of it.
    ///
    /// # Errors
    /// Why no member could be asked, in a sentence.
    async fn look(&self, cluster: &ObjectKey) -> Result<Facts, String>;
}
