//! The way from screens and previews to the etcd of a cluster. Must not know how members are asked.

use async_trait::async_trait;

use capi_rules::etcd::facts::Facts;
use capi_types::key::ObjectKey;

/// Asks the members of a cluster's etcd.
#[async_trait]
pub trait EtcdReader: Send + Sync + 'static {
    /// One look. Members that do not answer are part of it.
    ///
    /// # Errors
    /// Why no member could be asked, in a sentence.
    async fn look(&self, cluster: &ObjectKey) -> Result<Facts, String>;
}
