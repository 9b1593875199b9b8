//! The way to a static pod of a control plane Node: a port-forward through the workload cluster's API, as a stream. Owns
//! the stream and its end; must not know what is sent over it.
//! Source: cluster-api `controlplane/kubeadm/pkg/proxy/dial.go`, v1.14.0. Different: only WebSocket, no SPDY.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, Portforwarder};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use crate::client::errors::chain;

const NAMESPACE: &str = "kube-system";

/// The way failed; nothing was reached.
#[derive(Debug)]
pub struct ForwardError(String);

impl fmt::Display for ForwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ForwardError {}

/// A stream to the port of a pod in `kube-system`, such as `kube-apiserver-NODE`.
///
/// # Errors
/// When the API server or the kubelet refuses.
pub async fn open(workload: Client, pod: String, port: u16) -> Result<Forwarded, ForwardError> {
    let pods: Api<Pod> = Api::namespaced(workload, NAMESPACE);
    let failed = |words: String| ForwardError(format!("port-forward to pod {NAMESPACE}/{pod}: {words}"));
    let mut forwarder = pods.portforward(&pod, &[port]).await.map_err(|error| failed(chain(&error)))?;
    let stream = forwarder.take_stream(port).ok_or_else(|| failed("it has no stream".to_owned()))?;
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
        if let Some(error) = &mut self.error
            && let Poll::Ready(reported) = error.poll_unpin(context)
        {
            self.error = None;
            if let Some(words) = reported {
                let text = format!("port-forward to pod {NAMESPACE}/{}: {}", self.pod, words.trim());
                return Poll::Ready(Err(io::Error::other(ForwardError(text))));
            }
        }
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
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
