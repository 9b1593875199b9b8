//! What is to be done about the keys and credentials of a cluster. Data only: no key passes through a plan.

use std::fmt;

use crate::status::control_plane::certificates::Purpose;

/// A change of Secrets that hold keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyCall {
    /// New pairs. A Secret that was made in the meantime stays.
    CreateCertificates { purposes: Vec<Purpose>, settings: KeySettings },
    /// `server` is a URL; `algorithm` as in [`KeySettings`].
    CreateKubeconfig { server: String, algorithm: String },
    /// The owner becomes its controller.
    AdoptKubeconfig,
    /// A new client certificate; the stored server stays.
    RenewKubeconfig { algorithm: String },
}

/// What `clusterConfiguration` sets about keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySettings {
    /// `RSA-2048`, `RSA-3072`, `RSA-4096`, `ECDSA-P256` or `ECDSA-P384`; empty when none is asked for.
    pub algorithm: String,
    pub ca_validity_days: Option<i64>,
}

impl fmt::Display for KeyCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateCertificates { purposes, .. } => {
                let names: Vec<&str> = purposes.iter().map(|purpose| purpose.name()).collect();
                write!(f, "create certificates {}", names.join(", "))
            }
            Self::CreateKubeconfig { server, .. } => write!(f, "create the kubeconfig secret for {server}"),
            Self::AdoptKubeconfig => f.write_str("adopt the kubeconfig secret"),
            Self::RenewKubeconfig { .. } => f.write_str("renew the kubeconfig's client certificate"),
        }
    }
}
