//! What opens the etcd of a workload cluster, from the Secrets of the management cluster. Owns their names and what
//! they mean; must not keep any of it.
//! Source: cluster-api `controlplane/kubeadm/pkg/cluster.go` (`GetWorkloadCluster`), `util/secret/consts.go`, v1.14.2.

use k8s_openapi::api::core::v1::Secret;
use kube::Client;

use super::authority::client_certificate;
use super::client::Tls;
use crate::client::errors::chain;
use crate::client::get;
use capi_types::key::ObjectKey;
use capstan_base::time::Timestamp;

/// How an etcd is run.
#[derive(Clone)]
pub enum Access {
    /// On the control plane Nodes: the authority's key is there, and a client certificate was signed with it.
    Stacked(Tls),
    /// By somebody else, who gave a client certificate.
    External(Tls),
}

/// Reads `CLUSTER-etcd`, and `CLUSTER-apiserver-etcd-client` where that has no key.
///
/// # Errors
/// A Secret that is missing, cannot be read or holds something else, in a sentence.
pub async fn access(management: &Client, cluster: &ObjectKey, now: Timestamp) -> Result<Access, String> {
    let authority = pair(management, cluster, "etcd").await?;
    let certificate = authority.certificate.ok_or_else(|| format!("{} has no tls.crt", authority.origin))?;
    if let Some(key) = authority.key {
        let signed = client_certificate(&certificate, &key, now);
        return signed.map(Access::Stacked).map_err(|error| format!("{}: {error}", authority.origin));
    }
    let client = pair(management, cluster, "apiserver-etcd-client").await?;
    match (client.certificate, client.key) {
        (Some(own), Some(key)) => Ok(Access::External(Tls {
            authority: certificate.into_bytes(),
            identity: Some((own.into_bytes(), key.into_bytes())),
        })),
        _ => Err(format!("{} has no tls.crt and tls.key", client.origin)),
    }
}

struct Pair {
    origin: String,
    certificate: Option<String>,
    key: Option<String>,
}

async fn pair(management: &Client, cluster: &ObjectKey, purpose: &str) -> Result<Pair, String> {
    let key = ObjectKey::new(&cluster.namespace, format!("{}-{purpose}", cluster.name));
    let origin = format!("Secret {key}");
    let secret: Option<Secret> =
        get(management, &key).await.map_err(|error| format!("{origin} cannot be read: {}", chain(&error)))?;
    let mut data = secret.ok_or_else(|| format!("{origin} does not exist"))?.data.unwrap_or_default();
    let mut text = |name: &str| data.remove(name).and_then(|bytes| String::from_utf8(bytes.0).ok());
    Ok(Pair { origin, certificate: text("tls.crt"), key: text("tls.key") })
}
