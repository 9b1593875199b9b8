//! The endpoint of a simulated cluster: while no API server of it is up, whoever connects is hung up on. Must not know
//! why it is up or not.

use std::net::TcpListener as Reserved;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;

use super::gate::Front;
use capstan_apiserver::ApiServer;
use capstan_apiserver::serve::tls::Authority;
use capstan_apiserver::serve::{self, ListenError};

/// Serves until it is dropped.
///
/// # Errors
/// The listener or the authority cannot be used.
pub async fn keep(
    reserved: Reserved,
    server: ApiServer,
    authority: &Authority,
    mut front: watch::Receiver<Front>,
) -> Result<(), ListenError> {
    let address = reserved.local_addr();
    let failed = |source| match &address {
        Ok(address) => ListenError::Bind { address: *address, source },
        Err(_) => ListenError::Bind { address: ([127, 0, 0, 1], 0).into(), source },
    };
    reserved.set_nonblocking(true).map_err(failed)?;
    // Kept while the cluster is down, so that no other process takes the port.
    let listener = Arc::new(TcpListener::from_std(reserved).map_err(failed)?);
    loop {
        let shown = front.borrow_and_update().clone();
        if shown.up {
            // Served until the front changes: names may, and the certificate with them.
            let _listening = serve::serve(server.clone(), Arc::clone(&listener), authority, &shown.names)?;
            if front.changed().await.is_err() {
                return Ok(());
            }
            continue;
        }
        tokio::select! {
            changed = front.changed() => if changed.is_err() { return Ok(()) },
            // Accepted and dropped: without that, connections
            // would wait in the queue in place of failing.
            _ = listener.accept() => {}
        }
    }
}
