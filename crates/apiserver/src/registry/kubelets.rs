//! What an API server does not answer itself but asks of the nodes of its cluster. Owns the question; who answers
//! stands outside.

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

/// The bytes of a connection to a port.
pub trait PortStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> PortStream for T {}

/// A port of a pod: the connection to it, or why nothing answers there.
pub type PodConnection = Result<Box<dyn PortStream>, String>;

/// The nodes behind an API server.
#[async_trait]
pub trait Kubelets: Send + Sync + 'static {
    /// What the kubelet of `node` answers at `path` (`configz`, `healthz`), as JSON or text.
    ///
    /// # Errors
    /// A sentence: there is no such node or path, or it does not answer.
    async fn get(&self, node: &str, path: &str) -> Result<String, String>;

    /// Asks a pod to go, as `POST .../pods/NAME/eviction` does.
    ///
    /// # Errors
    /// A disruption budget holds it, in the words for the client (429).
    async fn evict(&self, namespace: &str, name: &str, grace_period_s: Option<u32>) -> Result<(), String>;

    /// Connects to a port of a pod, for `.../pods/NAME/portforward`.
    async fn connect(&self, namespace: &str, name: &str, port: u16) -> PodConnection;
}
