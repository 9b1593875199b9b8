//! The endpoint of a simulated cluster whose API is to be served: its port is reserved before anybody serves it. Must not
//! know who does.

use std::net::TcpListener;

use super::host::InitFacts;

/// Where the API of a cluster will be.
#[derive(Debug)]
pub struct ReservedEndpoint {
    /// What kubeadm is told when it makes the cluster.
    pub facts: InitFacts,
    listener: Option<TcpListener>,
}

impl ReservedEndpoint {
    pub fn new(listener: TcpListener, facts: InitFacts) -> Self {
        Self { facts, listener: Some(listener) }
    }

    /// The listener, for the one who serves it.
    pub fn take_listener(&mut self) -> Option<TcpListener> {
        self.listener.take()
    }
}
