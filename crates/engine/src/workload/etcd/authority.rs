//! A client certificate for etcd, signed by the cluster's own etcd authority. It is made when it is needed, lives
//! for an hour, and stays in memory. Owns how such a certificate looks; must not know where the authority is kept.
//! Source: cluster-api `controlplane/kubeadm/pkg/cluster.go` (`generateClientCert`), v1.14.2. Different: upstream's
//! lives for ten years.

use chrono::TimeDelta;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose};

use super::Tls;
use capstan_base::key_pair;
use capstan_base::time::Timestamp;

const COMMON_NAME: &str = "cluster-api.x-k8s.io";
const LIFE_MINUTES: i64 = 60;
/// Clocks differ.
const BACKDATE_MINUTES: i64 = 5;

/// Why there is no client certificate.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CredentialError {
    #[error("the key of the etcd authority cannot be used: {0}")]
    Key(String),
    #[error("the certificate of the etcd authority cannot be used: {0}")]
    Certificate(String),
}

/// What is needed to talk to members whose certificates `authority` signed. Both are PEM; the key has any form that
/// [`key_pair::read`] takes.
///
/// # Errors
/// A key or certificate that cannot be used.
pub fn client_certificate(authority: &str, key: &str, now: Timestamp) -> Result<Tls, CredentialError> {
    let unusable = |error: rcgen::Error| CredentialError::Certificate(error.to_string());
    let issuer = Issuer::from_ca_cert_pem(authority, signing_key(key)?).map_err(unusable)?;
    let mut params = CertificateParams::default();
    // The library's default has a common name of its own.
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, COMMON_NAME);
    params.key_usages = vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let at = |moment: Timestamp| {
        let seconds = u64::try_from(moment.timestamp()).unwrap_or(0);
        rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds)
    };
    params.not_before = at(now - TimeDelta::minutes(BACKDATE_MINUTES));
    params.not_after = at(now + TimeDelta::minutes(LIFE_MINUTES));
    let own = KeyPair::generate().map_err(unusable)?;
    let certificate = params.signed_by(&own, &issuer).map_err(unusable)?;
    let identity = (certificate.pem().into_bytes(), own.serialize_pem().into_bytes());
    Ok(Tls { authority: authority.as_bytes().to_vec(), identity: Some(identity) })
}

fn signing_key(pem: &str) -> Result<KeyPair, CredentialError> {
    key_pair::read(pem).map_err(|error| CredentialError::Key(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(key: &KeyPair) -> String {
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.self_signed(key).expect("a certificate").pem()
    }

    fn now() -> Timestamp {
        capstan_base::time::parse_rfc3339("2026-11-23T12:00:00Z").expect("a moment")
    }

    #[test]
    fn the_certificate_is_for_clients_and_lives_for_an_hour() {
        let key = KeyPair::generate().expect("a key");
        let tls = client_certificate(&authority(&key), &key.serialize_pem(), now()).expect("signed");
        let (certificate, _) = tls.identity.expect("an identity");
        let (_, pem) = x509_parser::pem::parse_x509_pem(&certificate).expect("PEM");
        let certificate = pem.parse_x509().expect("a certificate");
        let life = certificate.validity();
        let minutes = (life.not_after.timestamp() - life.not_before.timestamp()) / 60;
        assert_eq!(minutes, LIFE_MINUTES + BACKDATE_MINUTES);
        let usage = certificate.extended_key_usage().expect("readable").expect("stated").value;
        assert!(usage.client_auth && !usage.server_auth && !usage.any, "{usage:?}");
        assert!(certificate.subject().to_string().contains(COMMON_NAME));
        assert!(!certificate.is_ca());
    }

    #[test]
    fn keys_of_every_form_sign() {
        for (text, algorithm) in [
            (include_str!("testdata/rsa-pkcs1.pem"), &rcgen::PKCS_RSA_SHA256),
            (include_str!("testdata/p256-sec1.pem"), &rcgen::PKCS_ECDSA_P256_SHA256),
            (include_str!("testdata/p384-sec1.pem"), &rcgen::PKCS_ECDSA_P384_SHA384),
        ] {
            let key = signing_key(text).expect("a key");
            assert_eq!(key.algorithm(), algorithm);
            client_certificate(&authority(&key), text, now()).expect("signed");
        }
    }

    #[test]
    fn what_is_not_a_key_is_an_error() {
        let key = KeyPair::generate().expect("a key");
        let certificate = authority(&key);
        for bad in ["", "x", "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"] {
            let error = client_certificate(&certificate, bad, now()).err();
            assert!(matches!(error, Some(CredentialError::Key(_))), "{bad:?}: {error:?}");
        }
        let error = client_certificate("x", &key.serialize_pem(), now()).err();
        assert!(matches!(error, Some(CredentialError::Certificate(_))), "{error:?}");
    }
}
