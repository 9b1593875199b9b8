//! The locks of one server and of its workload clusters, for the screen. Owns which client leads to each; must not
//! judge what is seen.

use futures::stream::{self, BoxStream, StreamExt as _};

use crate::actions::{LockPlace, LockReader};
use crate::client::Connection;
use crate::leader_migration::look::{LockLook, MigrationScope};
use crate::locks::follow;
use crate::rng::Rng;
use crate::time::Clock;
use crate::workload::connect_to;

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
