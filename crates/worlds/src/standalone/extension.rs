//! The reference extension beside a server, registered with it. Owns the order in which that is done; what the extension
//! does says `extension`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::extension::{
    Behaviour, DevHosts, Extension, Identity, ServeError, Serving, extension_config, serve,
};
use capi_types::extension_config::ExtensionConfig;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan_base::time::Clock;
use capstan_engine::client::{Connection, Mode, Precondition, WriteError, Writer};

/// The name of its ExtensionConfig, and the field manager of that.
const NAME: &str = "capstan";

/// Why the extension could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ExtensionError {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("the extension is served, and cannot be registered: {0}")]
    Register(#[from] WriteError),
}

/// Serves the extension on a free loopback port, with a certificate for this run, and registers it.
///
/// # Errors
/// [`ExtensionError`].
pub async fn start(
    connection: &Connection,
    clock: Clock,
    time_scale: f64,
    behaviour: Behaviour,
) -> Result<Serving, ExtensionError> {
    let identity = Identity::generate(&[Ipv4Addr::LOCALHOST.to_string()])?;
    let hosts = DevHosts::new(connection.client.clone(), clock, time_scale);
    let extension = Arc::new(Extension::new(behaviour, Arc::new(hosts)));
    // Served before it is registered: discovery asks at once.
    let serving = serve(extension, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &identity).await?;
    let url = format!("https://{}", serving.address());
    register(connection, NAME, &extension_config(NAME, &url, identity.certificate_pem())).await?;
    Ok(serving)
}

/// Creates the ExtensionConfig, or changes the one that is there.
///
/// # Errors
/// The server refuses.
pub async fn register(
    connection: &Connection,
    name: &str,
    config: &serde_json::Value,
) -> Result<(), WriteError> {
    let writer = Writer::new(connection.client.clone(), NAME);
    let (gvk, key) = (Gvk::of::<ExtensionConfig>(), ObjectKey::new("", name));
    let target = ObjectRef { gvk, key, uid: String::new() };
    writer.apply_value(&target, config, NAME, &Precondition::default(), Mode::Real).await.map(|_| ())
}
