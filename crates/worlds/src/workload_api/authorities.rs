//! The certificate authorities of a cluster, as its Secrets in the management cluster hold them. Must not know what is signed.

use k8s_openapi::api::core::v1::Secret;

use capi_types::key::ObjectKey;
use capstan_apiserver::serve::tls::Authority;
use capstan_base::time::{Clock, Timestamp};
use capstan_engine::client::{Client, explain, get};

/// Those of one cluster.
#[derive(Clone)]
pub(super) struct Authorities {
    pub management: Client,
    pub cluster: ObjectKey,
    pub clock: Clock,
}

impl Authorities {
    /// What Secret `CLUSTER-PURPOSE` holds; the purpose is `ca` or `etcd`.
    ///
    /// # Errors
    /// It is not there or holds something else, in a sentence.
    pub async fn named(&self, purpose: &str) -> Result<Authority, String> {
        let key = ObjectKey::new(&self.cluster.namespace, format!("{}-{purpose}", self.cluster.name));
        // Read for each certificate and never kept: the Secret may be renewed, or come later.
        let found: Option<Secret> =
            get(&self.management, &key).await.map_err(|e| explain(&e, "the management cluster"))?;
        let data =
            found.and_then(|secret| secret.data).ok_or_else(|| format!("Secret {key} is not there"))?;
        let text = |name: &str| data.get(name).and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
        let pair = text("tls.crt").zip(text("tls.key"));
        let (certificate, private_key) =
            pair.ok_or_else(|| format!("Secret {key} lacks tls.crt or tls.key"))?;
        Ok(Authority::of(certificate, private_key, self.now()))
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
