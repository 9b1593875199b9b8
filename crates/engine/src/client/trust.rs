//! Whether a server is the one that the kubeconfig means. Owns how its certificate is judged; must not know the way to it.
//!
//! Source: Go 1.26 `crypto/x509/verify.go` (`Verify`): a certificate that stands itself among the roots is trusted, whoever signed
//! it, when its name, its dates and its purpose are right. The library of TLS wants it signed by one of them.

use std::sync::Arc;

use kube::Config;
use kube::client::ConfigExt as _;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// How TLS is spoken to the server of `config`.
///
/// # Errors
/// A certificate or a key that cannot be read.
pub fn client_config(config: &Config) -> Result<ClientConfig, kube::Error> {
    let mut tls = config.rustls_client_config()?;
    // The authority of a pod is read again by kube itself.
    let is_reread = config.root_cert_file.is_some();
    if let Some(roots) = config.root_cert.as_ref().filter(|_| !is_reread && !config.accept_invalid_certs) {
        let verifier = Verifier::of(roots).map_err(|error| kube::Error::Service(error.into()))?;
        tls.dangerous().set_certificate_verifier(Arc::new(verifier));
    }
    Ok(tls)
}

/// Verifies against the certificates of a kubeconfig.
#[derive(Debug)]
struct Verifier {
    roots: Vec<Vec<u8>>,
    signed: Arc<WebPkiServerVerifier>,
}

impl Verifier {
    fn of(roots: &[Vec<u8>]) -> Result<Self, String> {
        let mut store = RootCertStore::empty();
        // As Go, which passes over certificates of a bundle that it cannot read.
        store.add_parsable_certificates(roots.iter().map(|der| CertificateDer::from(der.as_slice())));
        let signed =
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::new(default_provider()))
                .build()
                .map_err(|error| format!("the certificate authority cannot be used: {error}"))?;
        Ok(Self { roots: roots.to_vec(), signed })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.roots.iter().any(|root| root[..] == end_entity[..]) {
            return self.signed.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
        }
        is_for_servers_now(end_entity, now)?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

fn is_for_servers_now(certificate: &[u8], now: UnixTime) -> Result<(), Error> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let at = |time: x509_parser::time::ASN1Time| {
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(
            u64::try_from(time.timestamp()).unwrap_or(0),
        ))
    };
    let (not_before, not_after) = (at(parsed.validity().not_before), at(parsed.validity().not_after));
    if now < not_before {
        return Err(CertificateError::NotValidYetContext { time: now, not_before }.into());
    }
    if now > not_after {
        return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
    }
    let purposes = parsed.extended_key_usage().map_err(|_| CertificateError::BadEncoding)?;
    let is_for_servers = purposes.is_none_or(|purposes| purposes.value.server_auth || purposes.value.any);
    if is_for_servers { Ok(()) } else { Err(CertificateError::InvalidPurpose.into()) }
}
