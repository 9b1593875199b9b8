//! The certificate that one API server of a workload cluster serves. Owns which of the served ones is kubeadm's; must not know
//! what its end is good for.
//! Source: cluster-api `controlplane/kubeadm/pkg/workload_cluster.go` (`GetAPIServerCertificateExpiry`), v1.14.2.

use kube::Client;
use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::WorkloadError;
use super::static_pods::served_certificates;
use capstan_base::time::Timestamp;

/// What kubeadm calls the certificate that it makes; a person may have put others before it.
const COMMON_NAME: &str = "kube-apiserver";

/// When the certificate ends that the API server on `node` serves at `port`.
///
/// # Errors
/// When nothing answers, or no certificate is kubeadm's.
pub async fn certificate_expiry(workload: Client, node: &str, port: u16) -> Result<Timestamp, WorkloadError> {
    let served = served_certificates(workload, &format!("kube-apiserver-{node}"), port).await;
    // Without a way to the pod its certificate is not known; that is not the cluster's own refusal.
    let silent = |error| match error {
        WorkloadError::Refused(words) => WorkloadError::Unreachable(words),
        other => other,
    };
    end_of(&served.map_err(silent)?)
}

fn end_of(served: &[CertificateDer<'_>]) -> Result<Timestamp, WorkloadError> {
    served.iter().filter_map(|der| end_of_kubeadms(der)).next_back().ok_or_else(|| {
        WorkloadError::Refused(format!("no certificate that the API server serves has cn={COMMON_NAME:?}"))
    })
}

/// `None` for certificates of others.
fn end_of_kubeadms(der: &[u8]) -> Option<Timestamp> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let is_kubeadms = names.any(|name| name.as_str() == Ok(COMMON_NAME));
    let end = Timestamp::from_timestamp(certificate.validity().not_after.timestamp(), 0);
    end.filter(|_| is_kubeadms)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

    use super::super::static_pods::certificates_of;
    use super::*;

    /// What is seen of a server whose certificate has this common name and ends with 2031.
    async fn seen(common_name: &str) -> Result<Timestamp, WorkloadError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.not_after = date_time_ymd(2032, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").der().clone();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a server");
        let (ours, theirs) = tokio::io::duplex(16 * 1024);
        let serve = tokio::spawn(TlsAcceptor::from(Arc::new(config)).accept(theirs));
        let end = certificates_of(ours).await.and_then(|served| end_of(&served));
        drop(serve.await);
        end
    }

    #[tokio::test]
    async fn the_end_of_kubeadms_certificate_is_read_without_trust() {
        let end = Timestamp::from_timestamp(date_time_ymd(2032, 1, 1).unix_timestamp(), 0);
        assert_eq!(seen("kube-apiserver").await.ok(), end);
        let refused = seen("somebody-else").await.expect_err("not kubeadm's").to_string();
        assert!(refused.contains("cn=\"kube-apiserver\""), "{refused}");
        let (ours, theirs) = tokio::io::duplex(16);
        drop(theirs);
        assert!(matches!(certificates_of(ours).await, Err(WorkloadError::Unreachable(_))));
    }
}
