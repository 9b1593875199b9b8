//! The way to a static pod of a control plane Node: a port-forward through the workload cluster's API, as a stream. Owns
//! the stream and its end; must not know what is sent over it.
//! Source: cluster-api `controlplane/kubeadm/pkg/proxy/dial.go`, v1.14.2. Different: only WebSocket, no SPDY.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, Portforwarder};
use kube::client::UpgradeConnectionError;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use crate::client::errors::chain;

const NAMESPACE: &str = "kube-system";

/// The way failed; nothing was reached.
#[derive(Debug)]
pub struct ForwardError {
    words: String,
    /// The API server says no: asking again does not help.
    pub is_refused: bool,
}

impl fmt::Display for ForwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// A right is missing, or the server has no port-forward.
fn is_refusal(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 401 | 403 | 404 | 405),
        kube::Error::UpgradeConnection(UpgradeConnectionError::ProtocolSwitch(status)) => {
            matches!(status.as_u16(), 401 | 403 | 404 | 405)
        }
        _ => false,
    }
}

impl std::error::Error for ForwardError {}

/// A stream to the port of a pod in `kube-system`, such as `kube-apiserver-NODE`.
///
/// # Errors
/// When the API server or the kubelet refuses.
pub async fn open(workload: Client, pod: String, port: u16) -> Result<Forwarded, ForwardError> {
    let pods: Api<Pod> = Api::namespaced(workload, NAMESPACE);
    let failed = |words: String, is_refused| {
        let words = format!("port-forward to pod {NAMESPACE}/{pod}: {words}");
        ForwardError { words, is_refused }
    };
    let opened = pods.portforward(&pod, &[port]).await;
    let mut forwarder = opened.map_err(|error| failed(chain(&error), is_refusal(&error)))?;
    let stream = forwarder.take_stream(port).ok_or_else(|| failed("it has no stream".to_owned(), false))?;
    let error = forwarder.take_error(port).map(FutureExt::boxed);
    Ok(Forwarded { stream, error, pod, forwarder })
}

/// The bytes of one port-forward. It ends when this is dropped.
pub struct Forwarded {
    stream: DuplexStream,
    /// What the Node's kubelet reports when it cannot reach the port.
    error: Option<BoxFuture<'static, Option<String>>>,
    pod: String,
    forwarder: Portforwarder,
}

impl Forwarded {
    /// What the kubelet has reported, such as a port that nothing listens on. The stream itself would just end, which a
    /// reader takes for an empty answer.
    fn reported(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(error) = &mut self.error else { return Ok(()) };
        let Poll::Ready(reported) = error.poll_unpin(context) else { return Ok(()) };
        // A future that has ended must not be polled again.
        self.error = None;
        let Some(words) = reported else { return Ok(()) };
        let words = format!("port-forward to pod {NAMESPACE}/{}: {}", self.pod, words.trim());
        Err(io::Error::other(ForwardError { words, is_refused: false }))
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        self.forwarder.abort();
    }
}

impl AsyncRead for Forwarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.reported(context)?;
        let filled = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let has_ended = buffer.filled().len() == filled;
        if has_ended {
            // The report and the end may have come after the first look, from another thread.
            self.reported(context)?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Forwarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
