//! Which history a server has: one line of revisions, of one cluster. Owns noticing that it is another
//! one than before (a store that was emptied, restored or swapped), so that everything is read again.
//! Must not know what was read.
//!
//! Resource versions only grow, so one that is lower than what was seen belongs to another history;
//! and the namespace `kube-system` lives as long as its cluster, so another uid is another cluster.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::watch;

/// Whose uid stands for the cluster.
const CLUSTER_NAMESPACE: &str = "kube-system";

/// How often the history was found to be another one.
pub(super) type Epoch = u64;

/// Shared by everything that reads one server.
pub(super) struct History {
    epoch: watch::Sender<Epoch>,
    /// Uid of the cluster; `None` before it was read, or when it may not be.
    cluster: Mutex<Option<String>>,
}

impl Default for History {
    fn default() -> Self {
        Self { epoch: watch::Sender::new(0), cluster: Mutex::default() }
    }
}

impl History {
    pub(super) fn epoch(&self) -> Epoch {
        *self.epoch.borrow()
    }

    /// To be woken when it is another one.
    pub(super) fn subscribe(&self) -> watch::Receiver<Epoch> {
        self.epoch.subscribe()
    }

    /// Somebody who had begun in epoch `known` found another history. Whoever finds it first counts.
    pub(super) fn replaced(&self, known: Epoch) {
        let is_first = self.epoch.send_if_modified(|epoch| {
            let is_first = *epoch == known;
            *epoch += u64::from(is_first);
            is_first
        });
        if is_first {
            tracing::warn!("the server's history was replaced: everything is read again");
        }
    }

    /// Asks which cluster it is: once at first, and again after a connection was lost. One small request;
    /// without the right to it only revisions decide.
    pub(super) async fn verify(&self, client: &Client) {
        // Read before the request: a change that others find meanwhile must not count twice.
        let known = self.epoch();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let Ok(namespace) = namespaces.get_metadata(CLUSTER_NAMESPACE).await else { return };
        let Some(uid) = namespace.metadata.uid else { return };
        let before = self.cluster.lock().replace(uid.clone());
        if before.is_some_and(|before| before != uid) {
            self.replaced(known);
        }
    }
}
