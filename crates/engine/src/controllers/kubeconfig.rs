//! The kubeconfig secret of a cluster: admin credentials signed by the cluster's authority. Owns
//! its text, the client certificate in it and when that must be renewed. Must not decide whether a
//! secret is needed; that is `plan::control_plane`.
//! Source: cluster-api `util/kubeconfig/kubeconfig.go`, v1.14.2.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use chrono::TimeDelta;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyUsagePurpose};

use super::certificates::{CertificateError, PemPair, cluster_secret, set_validity};
use capstan_base::key_pair;
use capstan_base::time::Timestamp;

/// Life of the client certificate.
const CLIENT_VALIDITY_DAYS: i64 = 365;

pub fn secret_name(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// A new kubeconfig secret: user `CLUSTER-admin`, context `CLUSTER-admin@CLUSTER`.
/// `text` is the kubeconfig.
pub fn secret(namespace: &str, cluster: &str, text: String, owner: OwnerReference) -> Secret {
    let data = BTreeMap::from([("value".to_owned(), ByteString(text.into_bytes()))]);
    cluster_secret(namespace, cluster, secret_name(cluster), data, owner)
}

/// The kubeconfig itself, with a new client certificate whose key is of `algorithm`. `server` is a URL such as
/// `https://10.0.0.1:6443`.
pub fn text(
    cluster: &str,
    server: &str,
    authority: &PemPair,
    algorithm: &str,
    now: Timestamp,
) -> Result<String, CertificateError> {
    let client = client_certificate(authority, algorithm, now)?;
    Ok(render(cluster, server, &authority.certificate, &client))
}

/// A client certificate for `kubernetes-admin` in `system:masters`, valid for a year, beginning
/// with its authority.
pub fn client_certificate(
    authority: &PemPair,
    algorithm: &str,
    now: Timestamp,
) -> Result<PemPair, CertificateError> {
    let what = "the kubeconfig's client certificate";
    let unusable = |key: &'static str, detail: String| CertificateError::Unusable {
        secret: "of the cluster CA".into(),
        key,
        detail,
    };
    let signing_key = key_pair::read(&authority.key).map_err(|e| unusable("tls.key", e.to_string()))?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, signing_key)
        .map_err(|e| unusable("tls.crt", e.to_string()))?;
    let not_before = validity(&authority.certificate).map_or(now, |(from, _)| from);
    let mut params = CertificateParams::default();
    // The library's default has a common name of its own.
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params.distinguished_name.push(DnType::CommonName, "kubernetes-admin");
    params.key_usages = vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    set_validity(&mut params, not_before, now + TimeDelta::days(CLIENT_VALIDITY_DAYS));
    let key = key_pair::generate(algorithm).map_err(|source| CertificateError::Key { what, source })?;
    let certificate =
        params.signed_by(&key.pair, &issuer).map_err(|source| CertificateError::Generate { what, source })?;
    Ok(PemPair { certificate: certificate.pem(), key: key.pem })
}

fn render(cluster: &str, server: &str, authority: &str, client: &PemPair) -> String {
    let (ca, certificate, key) =
        (BASE64.encode(authority), BASE64.encode(&client.certificate), BASE64.encode(&client.key));
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: {cluster}\n  cluster:\n    certificate-authority-data: {ca}\n    server: {server}\n\
         contexts:\n- name: {cluster}-admin@{cluster}\n  context:\n    cluster: {cluster}\n    user: {cluster}-admin\n\
         current-context: {cluster}-admin@{cluster}\npreferences: {{}}\n\
         users:\n- name: {cluster}-admin\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n"
    )
}

/// First and last moment of a PEM certificate; `None` when it does not parse.
pub fn validity(certificate: &str) -> Option<(Timestamp, Timestamp)> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(certificate.as_bytes()).ok()?;
    let certificate = pem.parse_x509().ok()?;
    let validity = certificate.validity();
    let at = |seconds| Timestamp::from_timestamp(seconds, 0);
    Some((at(validity.not_before.timestamp())?, at(validity.not_after.timestamp())?))
}

/// What a stored kubeconfig holds: its server, and when its client certificate ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub server: String,
    pub expires: Option<Timestamp>,
}

/// Reads a kubeconfig text; `None` when it is not one.
pub fn read(text: &str) -> Option<Stored> {
    let config = kube_config(text)?;
    let server = config.pointer("/clusters/0/cluster/server")?.as_str()?.to_owned();
    let expires = config
        .pointer("/users/0/user/client-certificate-data")
        .and_then(|data| BASE64.decode(data.as_str()?).ok())
        .and_then(|pem| String::from_utf8(pem).ok())
        .and_then(|pem| validity(&pem))
        .map(|(_, until)| until);
    Some(Stored { server, expires })
}

fn kube_config(text: &str) -> Option<serde_json::Value> {
    serde_saphyr::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::certificates;
    use capi_rules::plan::keys::KeySettings;
    use capi_rules::status::control_plane::certificates::Purpose;
    use capstan_base::time::{Clock, parse_rfc3339};

    #[test]
    fn the_secret_holds_admin_credentials_signed_by_the_authority() {
        let now = parse_rfc3339("2026-11-20T10:00:00Z").unwrap();
        let authority = certificates::generate(Purpose::Ca, &KeySettings::default(), now).unwrap();
        let text = text("prod", "https://10.0.0.9:6443", &authority, "", now).unwrap();
        let secret = secret("default", "prod", text, OwnerReference::default());
        assert_eq!(secret.metadata.name.as_deref(), Some("prod-kubeconfig"));
        let text = certificates::text_of(&secret, "value").unwrap();
        let stored = read(&text).unwrap();
        assert_eq!(stored.server, "https://10.0.0.9:6443");
        assert_eq!(stored.expires, Some(now + TimeDelta::days(365)));
        assert!(text.contains("current-context: prod-admin@prod"));
    }

    #[test]
    fn the_client_certificate_names_the_admin() {
        let now = parse_rfc3339("2026-11-20T10:00:00Z").unwrap();
        let authority = certificates::generate(Purpose::Ca, &KeySettings::default(), now).unwrap();
        let client = client_certificate(&authority, "", now).unwrap();
        let (_, pem) = x509_parser::pem::parse_x509_pem(client.certificate.as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        assert_eq!(certificate.subject().to_string(), "O=system:masters, CN=kubernetes-admin");
        assert_eq!(certificate.issuer().to_string(), "CN=kubernetes");
        assert_eq!(validity(&client.certificate).unwrap().0, now - TimeDelta::minutes(5));
    }

    /// As upstream makes them: authority and client with RSA keys in PKCS#1.
    #[tokio::test]
    async fn a_kubeconfig_with_rsa_keys_is_read_by_clients() {
        let now = Clock::system().now();
        let settings = KeySettings { algorithm: "RSA-2048".into(), ca_validity_days: None };
        let authority = certificates::generate(Purpose::Ca, &settings, now).unwrap();
        assert!(authority.key.starts_with("-----BEGIN RSA PRIVATE KEY-----"));
        let text = text("prod", "https://10.0.0.9:6443", &authority, "RSA-2048", now).unwrap();
        let kubeconfig = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        let options = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        assert!(kube::Client::try_from(config).is_ok());

        let client = client_certificate(&authority, "RSA-2048", now).unwrap();
        let (_, root) = x509_parser::pem::parse_x509_pem(authority.certificate.as_bytes()).unwrap();
        let (_, leaf) = x509_parser::pem::parse_x509_pem(client.certificate.as_bytes()).unwrap();
        let root = root.parse_x509().unwrap();
        assert_eq!(leaf.parse_x509().unwrap().verify_signature(Some(root.public_key())), Ok(()));
    }

    #[test]
    fn a_broken_authority_is_reported_by_key() {
        let broken = PemPair { certificate: "x".into(), key: "y".into() };
        let error = client_certificate(&broken, "", Timestamp::default()).unwrap_err().to_string();
        assert!(error.contains("tls.key"), "{error}");
        assert_eq!(read("not: a kubeconfig"), None);
    }
}
