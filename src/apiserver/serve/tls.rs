//! The server's own certificate authority, certificates and bearer tokens: made once, kept beside the
//! store with mode 0600. Owns their files; must not know what is served.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use chrono::TimeDelta;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use x509_parser::x509::AttributeTypeAndValue;

use super::door;
use crate::apiserver::request::auth::{Identity, Tokens};
use crate::time::Timestamp;

const CA_DAYS: i64 = 3650;
const SERVER_DAYS: i64 = 825;
const CLIENT_DAYS: i64 = 365;
/// Where [`kept_in`] keeps the administrator's and the reader's token.
pub(super) const TOKEN_FILES: [&str; 2] = ["admin.token", "read-only.token"];
/// Clocks of machines differ.
const BACKDATE_MINUTES: i64 = 5;

/// Why a server has no identity, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("cannot make {what}: {source}; check the system's source of randomness")]
    Generate { what: &'static str, source: rcgen::Error },
    #[error("cannot {what} {path}: {source}; check that the data directory belongs to you")]
    Io { what: &'static str, path: String, source: std::io::Error },
    #[error(
        "{path} is not usable: {reason}; restore it from a copy, or delete it to have a new one made (clients then need a new kubeconfig)"
    )]
    Damaged { path: String, reason: String },
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
}

/// A certificate authority that signs this server's certificates.
#[derive(Clone)]
pub struct Authority {
    certificate_pem: String,
    key_pem: String,
    /// Server certificates begin a little before this.
    now: Timestamp,
}

impl Authority {
    /// A new one, valid for ten years from `now`.
    ///
    /// # Errors
    /// [`IdentityError::Generate`].
    pub fn generate(now: Timestamp) -> Result<Self, IdentityError> {
        let failed = |source| IdentityError::Generate { what: "a certificate authority", source };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = params("capstan", now, CA_DAYS);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate_pem = params.self_signed(&key).map_err(failed)?.pem();
        Ok(Self { certificate_pem, key_pem: key.serialize_pem(), now })
    }

    /// What clients trust, PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    fn issuer(&self) -> Result<Issuer<'_, KeyPair>, rcgen::Error> {
        Issuer::from_ca_cert_pem(&self.certificate_pem, KeyPair::from_pem(&self.key_pem)?)
    }

    /// A certificate that makes its holder `user` in `group`, valid for a year. Without a group it
    /// gives a name and no rights. (The server reads several groups; this writes at most one.)
    ///
    /// # Errors
    /// [`IdentityError::Generate`].
    pub fn client_certificate(
        &self,
        user: &str,
        group: Option<&str>,
    ) -> Result<ClientCertificate, IdentityError> {
        let failed = |source| IdentityError::Generate { what: "a client certificate", source };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = params(user, self.now, CLIENT_DAYS);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer().map_err(failed)?).map_err(failed)?;
        Ok(ClientCertificate { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }

    /// A TLS configuration with a fresh certificate for `address` and the loopback names. Clients may
    /// show a certificate of this authority; one of another authority ends the handshake.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn server_config(&self, address: SocketAddr) -> Result<Arc<ServerConfig>, IdentityError> {
        let failed = |source| IdentityError::Generate { what: "a server certificate", source };
        let issuer = self.issuer().map_err(failed)?;
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = params("capstan-apiserver", self.now, SERVER_DAYS);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names = alternative_names(address).map_err(failed)?;
        let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(default_provider());
        let damaged = |reason: String| IdentityError::Damaged { path: "ca.crt".to_owned(), reason };
        let mut roots = RootCertStore::empty();
        let trusted = CertificateDer::from_pem_slice(self.certificate_pem.as_bytes())
            .map_err(|e| damaged(e.to_string()))?;
        roots.add(trusted)?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|error| damaged(error.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// What a client shows to be somebody, PEM.
#[derive(Clone)]
pub struct ClientCertificate {
    pub certificate_pem: String,
    pub key_pem: String,
}

/// Whom a verified certificate names: the user is its common name, the groups are its organisations.
/// `None` without a common name.
///
/// Source: apiserver `pkg/authentication/request/x509/x509.go`, `CommonNameUserConversion`, v0.35.
#[must_use]
pub fn identity_of(certificate: &[u8]) -> Option<Identity> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let text = |part: &AttributeTypeAndValue<'_>| part.as_str().ok().map(str::to_owned);
    let subject = parsed.subject();
    let user = subject.iter_common_name().find_map(text).filter(|name| !name.is_empty())?;
    Some(Identity::of(user, subject.iter_organization().filter_map(text).collect()))
}

fn params(name: &str, now: Timestamp, days: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let at = |moment: Timestamp| {
        let seconds = u64::try_from(moment.timestamp()).unwrap_or(0);
        rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds)
    };
    params.not_before = at(now - TimeDelta::minutes(BACKDATE_MINUTES));
    params.not_after = at(now + TimeDelta::days(days));
    params
}

fn alternative_names(address: SocketAddr) -> Result<Vec<SanType>, rcgen::Error> {
    let mut names = vec![
        SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ];
    for name in door::NAMES {
        names.push(SanType::DnsName(name.try_into()?));
    }
    if !address.ip().is_loopback() && !address.ip().is_unspecified() {
        names.push(SanType::IpAddress(address.ip()));
    }
    Ok(names)
}

/// The authority and tokens kept in `folder`; made and written when they are not there yet.
///
/// # Errors
/// [`IdentityError`].
pub fn kept_in(folder: &Path, now: Timestamp) -> Result<(Authority, Tokens), IdentityError> {
    let certificate_pem = kept(&folder.join("ca.crt"))?;
    let key_pem = kept(&folder.join("ca.key"))?;
    let authority = match (certificate_pem, key_pem) {
        (Some(certificate_pem), Some(key_pem)) => {
            KeyPair::from_pem(&key_pem).map_err(|source| IdentityError::Damaged {
                path: folder.join("ca.key").display().to_string(),
                reason: source.to_string(),
            })?;
            Authority { certificate_pem, key_pem, now }
        }
        _ => {
            let made = Authority::generate(now)?;
            write_private(&folder.join("ca.key"), &made.key_pem)?;
            write_private(&folder.join("ca.crt"), &made.certificate_pem)?;
            made
        }
    };
    Ok((authority, tokens_in(folder)?))
}

/// The tokens kept in `folder`; made and written when they are not there.
///
/// # Errors
/// [`IdentityError`].
pub fn tokens_in(folder: &Path) -> Result<Tokens, IdentityError> {
    let [admin, read_only] = TOKEN_FILES.map(|name| kept_token(&folder.join(name)));
    Ok(Tokens { admin: admin?, read_only: read_only? })
}

fn kept_token(path: &Path) -> Result<String, IdentityError> {
    if let Some(text) = kept(path)? {
        let token = text.trim().to_owned();
        if token.len() < 32 {
            let reason = "a token has at least 32 characters".to_owned();
            return Err(IdentityError::Damaged { path: path.display().to_string(), reason });
        }
        return Ok(token);
    }
    let token = Tokens::random().admin;
    write_private(path, &token)?;
    Ok(token)
}

fn kept(path: &Path) -> Result<Option<String>, IdentityError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(IdentityError::Io { what: "read", path: path.display().to_string(), source }),
    }
}

/// Writes a file that only its owner can read, whole or not at all: a reader never sees half of it.
///
/// # Errors
/// [`IdentityError::Io`].
pub fn write_private(path: &Path, text: &str) -> Result<(), IdentityError> {
    let io = |what| move |source| IdentityError::Io { what, path: path.display().to_string(), source };
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.new", std::process::id()));
    let fresh = path.with_file_name(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)
        .map_err(io("create"))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io("write"))?;
    fs::rename(&fresh, path).map_err(io("replace"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn an_identity_is_kept_private_and_survives() {
        let folder = tempfile::tempdir().expect("a folder");
        let now = crate::time::parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment");
        let (first, tokens) = kept_in(folder.path(), now).expect("made");
        let (second, again) = kept_in(folder.path(), now).expect("kept");
        assert_eq!(first.certificate_pem, second.certificate_pem);
        assert_eq!((&tokens.admin, &tokens.read_only), (&again.admin, &again.read_only));
        assert_ne!(tokens.admin, tokens.read_only);
        for name in ["ca.key", "admin.token", "read-only.token"] {
            let mode = fs::metadata(folder.path().join(name)).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        second.server_config("127.0.0.1:0".parse().expect("an address")).expect("a configuration");
    }

    #[test]
    fn certificates_name_users_and_groups() {
        let mut params = params("alice", Timestamp::default(), 1);
        params.distinguished_name.push(DnType::OrganizationName, "one");
        // The same attribute again, by its number.
        params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 10]), "two");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let identity = identity_of(certificate.der()).expect("somebody");
        assert_eq!(
            (identity.user.as_ref(), identity.groups()),
            ("alice", vec!["one", "two", "system:authenticated"])
        );
        assert!(identity_of(b"no certificate").is_none());
    }

    #[test]
    fn a_damaged_file_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("admin.token"), "short").expect("a file");
        let error = kept_in(folder.path(), Timestamp::default()).err().expect("refused").to_string();
        assert!(error.contains("admin.token") && error.contains("delete it"), "{error}");
    }
}
