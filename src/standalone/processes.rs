//! The controller managers of simulated clusters whose API is served: each cluster's processes run as its pods say. Must
//! not know what such a process does.

use std::collections::BTreeMap;

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::api::key::ObjectKey;
use crate::client::Connection;
use crate::controller_managers::follow;
use crate::rng::Rng;
use crate::time::Clock;

/// Runs them for as long as each API is there.
pub async fn run(mut open: watch::Receiver<BTreeMap<ObjectKey, Connection>>, clock: Clock, rng: Rng) {
    let mut running: BTreeMap<ObjectKey, AbortOnDropHandle<()>> = BTreeMap::new();
    loop {
        let there = open.borrow_and_update().clone();
        running.retain(|cluster, _| there.contains_key(cluster));
        for (cluster, connection) in there {
            let (clock, rng) = (clock.clone(), rng.stream(&cluster.to_string()));
            running.entry(cluster).or_insert_with(|| {
                AbortOnDropHandle::new(tokio::spawn(follow(connection.client, clock, rng)))
            });
        }
        if open.changed().await.is_err() {
            return;
        }
    }
}
