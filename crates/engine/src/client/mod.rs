//! The only way to an API server: connecting, watching, writing, and access reviews.
//! Owns `kube::Client` set-up; must not know what the objects mean.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub mod access;
pub mod catalog;
mod causes;
pub mod clusters;
pub mod connect;
mod contents;
mod context_settings;
pub mod deadline;
mod dial;
pub mod errors;
mod index;
mod json_lines;
mod kubeconfig;
mod live;
pub mod login;
pub mod logs;
pub mod proxy;
pub mod pulse;
pub mod read;
pub mod read_only;
mod received;
mod retry;
mod short_watch;
pub mod snapshot;
mod socks;
mod strict;
mod transport;
mod trust;
pub mod watch;
pub mod write;

pub use connect::{
    ConnectError, ConnectOptions, Connection, Impersonated, connect, connect_within, in_process,
};
pub use context_settings::{ContextSetting, ContextSettings, Rank};
pub use errors::explain;
pub use index::Index;
pub use kube::{Client, Error};
pub use login::{PluginNews, PluginTerminal};
pub use watch::{Cache, Change};
pub use write::{Mode, Precondition, WriteError, Writer};

/// Any typed kind with a fixed group, version and plural: what can be cached and written.
pub trait Object:
    kube::Resource<DynamicType = ()>
    + Clone
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// Any kind that can be watched, even one whose name is only known at run time.
pub trait Live: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static {}

impl<K> Live for K where K: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static
{}

/// What is kept of a CustomResourceDefinition: its metadata.
pub type Definition = kube::core::PartialObjectMeta<CustomResourceDefinition>;

/// Reads one object past every cache. `None` when it does not exist.
///
/// # Errors
/// Every error of the server or the connection, except 404.
pub async fn get<K: Object>(client: &Client, key: &capi_types::key::ObjectKey) -> Result<Option<K>, Error> {
    let request = kube::core::Request::new(path_of::<K>(&key.namespace))
        .get(&key.name, &kube::core::params::GetParams::default())
        .map_err(Error::BuildRequest)?;
    match client.request(request).await {
        Ok(object) => Ok(Some(object)),
        Err(Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The collection's path: of one namespace, or of all when `namespace` is empty.
fn path_of<K: Object>(namespace: &str) -> String {
    K::url_path(&(), (!namespace.is_empty()).then_some(namespace))
}
