//! The key pairs of a cluster: the four authorities that a kubeadm control plane is born with.
//! Owns their generation and the shape of their secrets. Must not decide when they are needed;
//! that is `plan::control_plane`.
//! Source: cluster-api `util/secret/certificates.go`, v1.14.2.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyUsagePurpose, SerialNumber};

use capi_rules::plan::keys::KeySettings;
use capi_rules::status::control_plane::certificates::Purpose;
use capi_types::names::{SECRET_TYPE, label};
use capstan_base::key_pair::{self, KeyError};
use capstan_base::time::Timestamp;

/// Validity of an authority when `clusterConfiguration.caCertificateValidityPeriodDays` is unset.
const CA_VALIDITY_DAYS: i64 = 3650;
/// Clocks of machines differ: certificates begin this long before they are made.
const BACKDATE_MINUTES: i64 = 5;

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot generate {what}: {source}; check the system's source of randomness")]
    Generate { what: &'static str, source: rcgen::Error },
    #[error("{what}: {source}")]
    Key { what: &'static str, source: KeyError },
    #[error(
        "secret {secret} does not hold a usable {key}: {detail}; restore it from a backup, or delete the secret before the control plane is initialized"
    )]
    Unusable { secret: String, key: &'static str, detail: String },
}

/// A certificate (or, for service accounts, a public key) and its private key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct PemPair {
    pub certificate: String,
    pub key: String,
}

impl std::fmt::Debug for PemPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PemPair(key not shown)")
    }
}

/// New material for `purpose`.
pub fn generate(
    purpose: Purpose,
    settings: &KeySettings,
    now: Timestamp,
) -> Result<PemPair, CertificateError> {
    let failed = |source| CertificateError::Generate { what: purpose.name(), source };
    let key = key_pair::generate(&settings.algorithm)
        .map_err(|source| CertificateError::Key { what: purpose.name(), source })?;
    let certificate = if purpose == Purpose::ServiceAccount {
        // Its public key stands where others have a certificate: kubeadm reads it as `sa.pub`.
        key.pair.public_key_pem()
    } else {
        let days = settings.ca_validity_days.unwrap_or(CA_VALIDITY_DAYS);
        authority(days, now).self_signed(&key.pair).map_err(failed)?.pem()
    };
    Ok(PemPair { certificate, key: key.pem })
}

fn authority(validity_days: i64, now: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    // Upstream's number for its authorities.
    params.serial_number = Some(SerialNumber::from(vec![0]));
    // The library's default has a common name of its own.
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "kubernetes");
    // As upstream: it signs leaves alone, never another authority.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::KeyCertSign,
    ];
    set_validity(
        &mut params,
        now - TimeDelta::minutes(BACKDATE_MINUTES),
        now + TimeDelta::days(validity_days),
    );
    params
}

/// Both ends of a certificate's life. Moments before 1970 become 1970.
pub fn set_validity(params: &mut CertificateParams, not_before: Timestamp, not_after: Timestamp) {
    let at = |moment: Timestamp| {
        let seconds = u64::try_from(moment.timestamp()).unwrap_or(0);
        rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds)
    };
    params.not_before = at(not_before);
    params.not_after = at(not_after);
}

/// The secret that carries `pair` for `cluster`.
pub fn secret(
    namespace: &str,
    cluster: &str,
    purpose: Purpose,
    pair: &PemPair,
    owner: OwnerReference,
) -> Secret {
    let data = BTreeMap::from([
        ("tls.crt".to_owned(), ByteString(pair.certificate.clone().into_bytes())),
        ("tls.key".to_owned(), ByteString(pair.key.clone().into_bytes())),
    ]);
    cluster_secret(namespace, cluster, purpose.secret_name(cluster), data, owner)
}

/// A secret of Cluster API's own type, labelled for its cluster and controlled by `owner`.
pub fn cluster_secret(
    namespace: &str,
    cluster: &str,
    name: String,
    data: BTreeMap<String, ByteString>,
    owner: OwnerReference,
) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(label::CLUSTER_NAME.to_owned(), cluster.to_owned())])),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

/// The pair inside a certificate secret.
pub fn pair_of(secret: &Secret) -> Result<PemPair, CertificateError> {
    Ok(PemPair { certificate: text_of(secret, "tls.crt")?, key: text_of(secret, "tls.key")? })
}

/// One text entry of a secret.
pub fn text_of(secret: &Secret, key: &'static str) -> Result<String, CertificateError> {
    let name = || secret.metadata.name.clone().unwrap_or_default();
    let bytes = secret.data.as_ref().and_then(|data| data.get(key)).ok_or_else(|| {
        CertificateError::Unusable { secret: name(), key, detail: "the key is missing".into() }
    })?;
    String::from_utf8(bytes.0.clone()).map_err(|e| CertificateError::Unusable {
        secret: name(),
        key,
        detail: e.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_base::time::parse_rfc3339;

    fn now() -> Timestamp {
        parse_rfc3339("2026-11-20T10:00:00Z").unwrap()
    }

    #[test]
    fn an_authority_has_upstreams_parameters() {
        let pair = generate(Purpose::Ca, &KeySettings::default(), now()).unwrap();
        let (_, pem) = x509_parser::pem::parse_x509_pem(pair.certificate.as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        assert_eq!(certificate.subject().to_string(), "CN=kubernetes");
        assert_eq!(certificate.issuer().to_string(), "CN=kubernetes");
        let constraints = certificate.basic_constraints().unwrap().unwrap().value;
        assert!(constraints.ca);
        assert_eq!(constraints.path_len_constraint, Some(0));
        let validity = certificate.validity();
        assert_eq!(validity.not_before.timestamp(), now().timestamp() - 300);
        assert_eq!(validity.not_after.timestamp(), now().timestamp() + 3650 * 86_400);
        let usage = certificate.key_usage().unwrap().unwrap().value;
        assert!(usage.digital_signature() && usage.key_encipherment() && usage.key_cert_sign());
        assert!(pair.key.starts_with("-----BEGIN PRIVATE KEY-----"));
    }

    #[test]
    fn service_accounts_get_a_public_key() {
        let pair = generate(Purpose::ServiceAccount, &KeySettings::default(), now()).unwrap();
        assert!(pair.certificate.starts_with("-----BEGIN PUBLIC KEY-----"));
    }

    #[test]
    fn settings_are_honoured() {
        let settings = KeySettings { algorithm: "ECDSA-P384".into(), ca_validity_days: Some(30) };
        let pair = generate(Purpose::Etcd, &settings, now()).unwrap();
        let (_, pem) = x509_parser::pem::parse_x509_pem(pair.certificate.as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        assert_eq!(certificate.validity().not_after.timestamp(), now().timestamp() + 30 * 86_400);
        assert_eq!(key_pair::read(&pair.key).unwrap().algorithm(), &rcgen::PKCS_ECDSA_P384_SHA384);
    }

    #[test]
    fn secrets_round_trip() {
        let pair = generate(Purpose::FrontProxy, &KeySettings::default(), now()).unwrap();
        let secret = secret("default", "prod", Purpose::FrontProxy, &pair, OwnerReference::default());
        assert_eq!(secret.metadata.name.as_deref(), Some("prod-proxy"));
        assert_eq!(secret.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
        assert_eq!(pair_of(&secret).unwrap(), pair);
        let error = pair_of(&Secret::default()).unwrap_err().to_string();
        assert!(error.contains("tls.crt"), "{error}");
    }
}
