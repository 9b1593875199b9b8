//! The way from screens to the locks of a server or of a workload cluster. Must not know how they are watched.

use futures::stream::BoxStream;

use capi_types::key::ObjectKey;
use leader_migration::look::{LockLook, MigrationScope};

/// Whose locks are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockPlace {
    /// Of the server itself.
    Server,
    /// Of the workload cluster of this Cluster.
    Workload(ObjectKey),
}

/// Watches the locks of a server and of its workload clusters.
pub trait LockReader: Send + Sync + 'static {
    /// Looks, one after every change, until dropped. An error ends it: why nothing can be seen, in a sentence.
    fn follow(&self, place: LockPlace, scope: MigrationScope)
    -> BoxStream<'static, Result<LockLook, String>>;
}
