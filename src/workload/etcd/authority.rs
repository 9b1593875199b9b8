//! A client certificate for etcd, signed by the cluster's own etcd authority. It is made when it is needed, lives
//! for an hour, and stays in memory. Owns how such a certificate looks and which forms of keys are read; must not
//! know where the authority is kept.
//! Source: cluster-api `controlplane/kubeadm/pkg/cluster.go` (`generateClientCert`), v1.14.0. Different: upstream's
//! lives for ten years.

use chrono::TimeDelta;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::Tls;
use crate::time::Timestamp;

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

/// What is needed to talk to members whose certificates `authority` signed. Both are PEM; keys may be
/// PKCS#8, PKCS#1 (RSA, as kubeadm writes them) or SEC1 (ECDSA P-256 and P-384).
///
/// # Errors
/// A key or certificate that cannot be used.
pub fn client_certificate(authority: &str, key: &str, now: Timestamp) -> Result<Tls, CredentialError> {
    let unusable = |error: rcgen::Error| CredentialError::Certificate(error.to_string());
    let issuer = Issuer::from_ca_cert_pem(authority, signing_key(key)?).map_err(unusable)?;
    let mut params = CertificateParams::default();
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

/// The library reads PKCS#8 only: the older forms are put into it.
fn signing_key(pem: &str) -> Result<KeyPair, CredentialError> {
    let unusable = |error: &dyn std::fmt::Display| CredentialError::Key(error.to_string());
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|e| unusable(&e))?;
    let forms = match &key {
        PrivateKeyDer::Pkcs1(rsa) => vec![pkcs8(&RSA, rsa.secret_pkcs1_der())],
        PrivateKeyDer::Sec1(ecdsa) => {
            [&P256[..], &P384[..]].map(|algorithm| pkcs8(algorithm, ecdsa.secret_sec1_der())).to_vec()
        }
        other => vec![other.secret_der().to_vec()],
    };
    let mut read = forms.into_iter().map(|der| KeyPair::try_from(&PrivatePkcs8KeyDer::from(der)));
    let first = read.next().ok_or_else(|| unusable(&"it is empty"))?;
    first.or_else(|error| read.next().unwrap_or(Err(error))).map_err(|e| unusable(&e))
}

/// Algorithm identifiers in DER: rsaEncryption, and ecPublicKey with prime256v1 or secp384r1.
/// Source: RFC 8017 appendix A.1, RFC 5480 section 2.1.1.
const RSA: [u8; 15] =
    [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
const P256: [u8; 21] = [
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07,
];
const P384: [u8; 18] = [
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00,
    0x22,
];

/// `PrivateKeyInfo` of RFC 5208 around a key of an older form.
fn pkcs8(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let version = [0x02, 0x01, 0x00];
    let content = [&version[..], algorithm, &element(0x04, key)].concat();
    element(0x30, &content)
}

/// A DER element: tag, length, content.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let bytes = content.len().to_be_bytes();
    let length: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut out = vec![tag];
    match length.as_slice() {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        long => {
            out.push(0x80 | u8::try_from(long.len()).unwrap_or(0));
            out.extend(long);
        }
    }
    out.extend(content);
    out
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
        crate::time::parse_rfc3339("2026-11-23T12:00:00Z").expect("a moment")
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
    fn what_is_no_key_is_an_error() {
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
