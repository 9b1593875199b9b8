//! The other servers that the dashboard may be pointed at while it runs. Must not know how a server is found.

use std::fmt;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use super::model::Session;
use super::runner::SourceHandle;
use crate::fleet::{Delta, SourceId};

/// The contexts of a kubeconfig.
pub trait Contexts: Send + Sync {
    /// Their names, as completion offers them.
    fn names(&self) -> Vec<String>;

    /// Begins to watch the server of one of them, under the number `source`, which was not given before.
    fn open(&self, name: String, source: SourceId) -> BoxFuture<'static, Result<Opened, String>>;
}

/// A server that is being watched, in place of the one before.
pub struct Opened {
    pub session: Session,
    pub source: SourceId,
    pub deltas: mpsc::Receiver<Vec<Delta>>,
    pub handle: SourceHandle,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("session", &self.session).field("source", &self.source).finish()
    }
}
