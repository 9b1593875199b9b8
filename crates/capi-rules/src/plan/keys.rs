//! What is to be done about the keys and credentials of a cluster. Data only: no key passes through a plan.

use crate::status::control_plane::certificates::Purpose;
use capi_types::cluster::{Cluster, Endpoint};
use capi_types::kubeadm::ClusterConfiguration;

/// A change of Secrets that hold keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyCall {
    /// New pairs. A Secret that was made in the meantime stays.
    CreateCertificates {
        /// In the order in which they are made.
        purposes: Vec<Purpose>,
        /// Kind and life of the keys.
        settings: KeySettings,
    },
    /// The owner becomes the controller of these pairs, whoever controlled them.
    AdoptCertificates {
        /// In the order in which they are taken.
        purposes: Vec<Purpose>,
    },
    /// `server` is a URL; `algorithm` as in [`KeySettings`].
    CreateKubeconfig {
        /// Of the workload cluster's API.
        server: String,
        /// Of the client's key.
        algorithm: String,
    },
    /// The owner becomes its controller.
    AdoptKubeconfig,
    /// A new client certificate; the stored server stays.
    RenewKubeconfig {
        /// Of the client's key, as in [`KeySettings`].
        algorithm: String,
    },
}

/// What `clusterConfiguration` sets about keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySettings {
    /// `RSA-2048`, `RSA-3072`, `RSA-4096`, `ECDSA-P256` or `ECDSA-P384`; empty when none is asked for.
    pub algorithm: String,
    /// Of the authorities; `None`: ten years.
    pub ca_validity_days: Option<i64>,
}

impl KeySettings {
    /// What a configuration sets, if there is one.
    pub fn of(configuration: Option<&ClusterConfiguration>) -> Self {
        Self {
            algorithm: configuration.and_then(|c| c.encryption_algorithm.clone()).unwrap_or_default(),
            ca_validity_days: configuration
                .and_then(|c| c.ca_certificate_validity_period_days)
                .map(i64::from),
        }
    }
}

/// Where clients of the workload cluster connect, such as `https://10.0.0.1:6443`; `None` until host and port are set.
pub fn server_url(cluster: &Cluster) -> Option<String> {
    let Endpoint { host, port } = cluster.spec.control_plane_endpoint.as_ref()?;
    let host = host.as_deref().filter(|host| !host.is_empty())?;
    let port = port.filter(|port| *port > 0)?;
    // IPv6 addresses need brackets.
    let brackets = if host.contains(':') && !host.starts_with('[') { ("[", "]") } else { ("", "") };
    Some(format!("https://{}{host}{}:{port}", brackets.0, brackets.1))
}
