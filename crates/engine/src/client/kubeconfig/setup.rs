//! What the client of a chosen context is set up with. kube's own loader is not used: it takes `HTTPS_PROXY` for the proxy of
//! every server. Must not know how the client is built.

use std::path::PathBuf;

use http::Uri;
use kube::Config;
use kube::config::{Cluster, ExecAuthCluster};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use super::Chosen;

impl Chosen {
    /// # Errors
    /// An address or an authority that cannot be used, in a few words.
    pub fn setup(&self) -> Result<Config, String> {
        let clusters = &self.config.clusters;
        let cluster = clusters.first().and_then(|named| named.cluster.clone()).unwrap_or_default();
        let server = cluster.server.as_deref().unwrap_or_default();
        let server: Uri =
            server.parse().map_err(|error| format!("server {server:?} is not an address: {error}"))?;
        // The form that plugins are told of has the authority read.
        let told = ExecAuthCluster::try_from(&cluster).map_err(|error| error.to_string())?;
        let mut config = Config::new(server);
        config.root_cert = told.certificate_authority_data.as_deref().map(certificates).transpose()?;
        config.accept_invalid_certs = cluster.insecure_skip_tls_verify == Some(true);
        config.disable_compression = cluster.disable_compression == Some(true);
        config.tls_server_name.clone_from(&cluster.tls_server_name);
        let users = &self.config.auth_infos;
        config.auth_info = users.first().and_then(|named| named.auth_info.clone()).unwrap_or_default();
        if let Some(exec) = config.auth_info.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
            exec.cluster = Some(told);
        }
        let context = self.config.contexts.first().and_then(|named| named.context.as_ref());
        if let Some(namespace) = context.and_then(|context| context.namespace.clone()) {
            config.default_namespace = namespace;
        }
        Ok(config)
    }

    /// Files that the context names and that are read once: others may be written in their place.
    pub fn files(&self) -> Vec<PathBuf> {
        let clusters = self.config.clusters.iter().filter_map(|named| named.cluster.as_ref());
        let users = self.config.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
        let of_clusters = clusters.filter_map(|cluster| cluster.certificate_authority.as_ref());
        let of_users = users.flat_map(|user| [&user.client_certificate, &user.client_key]).flatten();
        of_clusters.chain(of_users).map(PathBuf::from).collect()
    }

    pub fn proxy_url(&self) -> Option<&str> {
        let cluster: Option<&Cluster> = self.config.clusters.first().and_then(|named| named.cluster.as_ref());
        cluster.and_then(|cluster| cluster.proxy_url.as_deref())
    }
}

/// The certificates of an authority; what else stands between them is passed over, as kubectl does.
fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let found: Vec<Vec<u8>> = CertificateDer::pem_slice_iter(pem).flatten().map(|der| der.to_vec()).collect();
    if found.is_empty() {
        return Err("the certificate authority has no certificate in PEM".to_owned());
    }
    Ok(found)
}
