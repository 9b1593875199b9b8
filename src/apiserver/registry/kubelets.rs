//! What an API server does not answer itself but asks of the nodes of its cluster. Owns the question; who answers
//! stands outside.

use async_trait::async_trait;

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
}
