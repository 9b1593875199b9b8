//! The way from screens to the locks of a server and of its workload clusters. Owns which client leads to each; must not judge what
//! is seen.

use futures::stream::{self, BoxStream, StreamExt as _};

use capi_types::key::ObjectKey;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_engine::client::Connection;
use capstan_engine::locks::follow;
use capstan_engine::workload::connect_to;
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

/// Watches the locks of one server and of its workload clusters.
pub struct ServerLocks {
    pub connection: Connection,
    pub clock: Clock,
    pub rng: Rng,
}

impl LockReader for ServerLocks {
    fn follow(
        &self,
        place: LockPlace,
        scope: MigrationScope,
    ) -> BoxStream<'static, Result<LockLook, String>> {
        let (connection, clock, rng) = (self.connection.clone(), self.clock.clone(), self.rng.clone());
        // The connection is made when the stream is polled, because this call must not wait.
        let looks = async move {
            let client = match place {
                LockPlace::Server => Ok(connection.client),
                LockPlace::Workload(cluster) => {
                    connect_to(&connection.client, &cluster, connection.read_only).await
                }
            };
            match client {
                Ok(client) => follow(client, scope, clock, &rng).map(Ok).boxed(),
                Err(why) => stream::once(async { Err(why) }).boxed(),
            }
        };
        stream::once(looks).flatten().boxed()
    }
}
