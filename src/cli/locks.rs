//! The locks of one server and of its workload clusters, for the screen. Owns which client leads to each; must not
//! judge what is seen.

use futures::stream::{self, BoxStream, StreamExt as _};

use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_dashboard::actions::{LockPlace, LockReader};
use capstan_engine::client::Connection;
use capstan_engine::locks::follow;
use capstan_engine::workload::connect_to;
use leader_migration::look::{LockLook, MigrationScope};

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
