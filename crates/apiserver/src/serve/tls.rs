//! The server's own certificate authority, certificates and bearer tokens: made once, kept beside the
//! store with mode 0600. Owns their files; must not know what is served.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
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

use super::frontend;
use crate::request::auth::{Identity, Tokens};
use capstan_base::private_file::{self, FileError};
use capstan_base::time::Timestamp;

const CA_DAYS: i64 = 3650;
/// Apple's systems refuse a server certificate of a longer life.
const SERVER_DAYS: i64 = 825;
const CLIENT_DAYS: i64 = 365;
/// Where [`kept_in`] keeps the administrator's and the reader's token.
pub(super) const TOKEN_FILES: [&str; 2] = ["admin.token", "read-only.token"];
/// Clocks of machines differ.
const BACKDATE_MINUTES: i64 = 5;

/// Why a server has no identity, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A key or a certificate is not made.
    #[error("cannot make {what}: {source}; check the system's source of randomness")]
    Generate {
        /// With its article: `a server certificate`.
        what: &'static str,
        /// Of the library that makes it.
        source: rcgen::Error,
    },
    /// A file that is not only its owner's, or that cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file that does not hold what it should.
    #[error(
        "{path} is not usable: {reason}; restore it from a copy, or delete it to have a new one made (clients then need a new kubeconfig)"
    )]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong with its content.
        reason: String,
    },
    /// Files of two different authorities lie beside each other.
    #[error(
        "{key} is not the key of {certificate}: no client could connect; restore the pair from a copy, or delete \
         both to have new ones made (clients then need a new kubeconfig)"
    )]
    Mismatch {
        /// The file of the key.
        key: String,
        /// The file of the certificate.
        certificate: String,
    },
    /// A reader's token that would make its holder the administrator.
    #[error(
        "{admin} and {read_only} hold the same token, so who may only read could also write; delete one of them to \
         have a new one made"
    )]
    SameTokens {
        /// The file of the administrator's token.
        admin: String,
        /// The file of the reader's token.
        read_only: String,
    },
    /// The TLS library refuses a certificate or a key.
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
        // It signs servers and clients, and no further authority.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate_pem = params.self_signed(&key).map_err(failed)?.pem();
        Ok(Self { certificate_pem, key_pem: key.serialize_pem(), now })
    }

    /// One that was made elsewhere: certificate and key in PEM.
    pub fn of(certificate_pem: String, key_pem: String, now: Timestamp) -> Self {
        Self { certificate_pem, key_pem, now }
    }

    /// What clients trust, PEM.
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
        self.server_config_for(address, &[])
    }

    /// The same with more names; those that are neither an address nor a name are left out.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn server_config_for(
        &self,
        address: SocketAddr,
        names: &[String],
    ) -> Result<Arc<ServerConfig>, IdentityError> {
        let failed = |source| IdentityError::Generate { what: "a server certificate", source };
        let mut all = alternative_names(address).map_err(failed)?;
        all.extend(names.iter().filter_map(|name| alternative_name(name)));
        self.serving("capstan-apiserver", all)
    }

    /// A TLS configuration with a fresh certificate for exactly these names.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn server_config_of(
        &self,
        common_name: &str,
        names: &[String],
    ) -> Result<Arc<ServerConfig>, IdentityError> {
        self.serving(common_name, names.iter().filter_map(|name| alternative_name(name)).collect())
    }

    fn serving(&self, common_name: &str, names: Vec<SanType>) -> Result<Arc<ServerConfig>, IdentityError> {
        let failed = |source| IdentityError::Generate { what: "a server certificate", source };
        let issuer = self.issuer().map_err(failed)?;
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = params(common_name, self.now, SERVER_DAYS);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names = names;
        let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
        // Clients trust the authority itself, so the chain ends with the certificate it signed.
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(default_provider());
        let damaged = |reason: String| IdentityError::Damaged { path: "ca.crt".to_owned(), reason };
        let mut roots = RootCertStore::empty();
        let trusted = CertificateDer::from_pem_slice(self.certificate_pem.as_bytes())
            .map_err(|e| damaged(e.to_string()))?;
        roots.add(trusted)?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            // A client may come with a token instead.
            .allow_unauthenticated()
            .build()
            .map_err(|error| damaged(error.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)?;
        // HTTP/2 is preferred: all watches of a client share one connection there.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// What a client presents as its identity, PEM.
#[derive(Clone)]
pub struct ClientCertificate {
    /// One certificate, signed by the authority.
    pub certificate_pem: String,
    /// Its private key, PKCS #8.
    pub key_pem: String,
}

/// Whom a verified certificate names: the user is its common name, the groups are its organisations.
/// `None` without a common name.
///
/// Source: apiserver `pkg/authentication/request/x509/x509.go`, `CommonNameUserConversion`, v0.35.
pub(crate) fn identity_of(certificate: &[u8]) -> Option<Identity> {
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

/// `None`: it is neither an address nor a name.
fn alternative_name(name: &str) -> Option<SanType> {
    match name.parse::<IpAddr>() {
        Ok(address) => Some(SanType::IpAddress(address)),
        Err(_) => name.try_into().map(SanType::DnsName).ok(),
    }
}

fn alternative_names(address: SocketAddr) -> Result<Vec<SanType>, rcgen::Error> {
    let mut names = vec![
        SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ];
    for name in frontend::NAMES {
        names.push(SanType::DnsName(name.try_into()?));
    }
    // No client connects to the unspecified address, so it is not in the certificate.
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
    Ok((authority_in(folder, now)?, tokens_in(folder)?))
}

/// The key is written first, so a key without its certificate was left by a process that was killed.
fn authority_in(folder: &Path, now: Timestamp) -> Result<Authority, IdentityError> {
    let paths = [folder.join("ca.key"), folder.join("ca.crt")];
    let [key_path, certificate_path] = &paths;
    let damaged =
        |path: &Path, reason: String| IdentityError::Damaged { path: path.display().to_string(), reason };
    let certificate_pem = private_file::read(certificate_path)?;
    let key_pem = private_file::read_secret(key_path)?;
    match (certificate_pem, key_pem) {
        (Some(certificate_pem), Some(key_pem)) => {
            let key = KeyPair::from_pem(&key_pem).map_err(|e| damaged(key_path, e.to_string()))?;
            let certified = public_key_of(&certificate_pem).map_err(|why| damaged(certificate_path, why))?;
            if certified != key.public_key_raw() {
                let [key, certificate] = paths.map(|path| path.display().to_string());
                return Err(IdentityError::Mismatch { key, certificate });
            }
            Ok(Authority { certificate_pem, key_pem, now })
        }
        (Some(_), None) => Err(damaged(certificate_path, "its key, ca.key, is not there".to_owned())),
        (None, _) => {
            let made = Authority::generate(now)?;
            private_file::write(key_path, &made.key_pem)?;
            private_file::write(certificate_path, &made.certificate_pem)?;
            Ok(made)
        }
    }
}

/// The key that a certificate (PEM) vouches for, or what is wrong with it.
fn public_key_of(certificate_pem: &str) -> Result<Vec<u8>, String> {
    let der =
        CertificateDer::from_pem_slice(certificate_pem.as_bytes()).map_err(|error| error.to_string())?;
    let (_, parsed) = x509_parser::parse_x509_certificate(&der).map_err(|error| error.to_string())?;
    Ok(parsed.public_key().subject_public_key.data.to_vec())
}

/// The tokens kept in `folder`; made and written when they are not there.
///
/// # Errors
/// [`IdentityError`].
pub fn tokens_in(folder: &Path) -> Result<Tokens, IdentityError> {
    let paths = TOKEN_FILES.map(|name| folder.join(name));
    let [admin, read_only] = [kept_token(&paths[0])?, kept_token(&paths[1])?];
    if admin == read_only {
        let [admin, read_only] = paths.map(|path| path.display().to_string());
        return Err(IdentityError::SameTokens { admin, read_only });
    }
    Ok(Tokens { admin, read_only })
}

fn kept_token(path: &Path) -> Result<String, IdentityError> {
    if let Some(text) = private_file::read_secret(path)? {
        let token = text.trim().to_owned();
        // An emptied or cut file must not leave a token that is easy to guess.
        if token.len() < 32 {
            let reason = "a token has at least 32 characters".to_owned();
            return Err(IdentityError::Damaged { path: path.display().to_string(), reason });
        }
        return Ok(token);
    }
    let token = Tokens::random().admin;
    private_file::write(path, &token)?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn an_identity_is_kept_private_and_survives() {
        let folder = tempfile::tempdir().expect("a folder");
        let now = capstan_base::time::parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment");
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
        private_file::write(&folder.path().join("admin.token"), "short").expect("a file");
        let error = kept_in(folder.path(), Timestamp::default()).err().expect("refused").to_string();
        assert!(error.contains("admin.token") && error.contains("delete it"), "{error}");
    }

    /// A key that did not fit its certificate: the server started, and every client failed.
    #[test]
    fn a_key_that_does_not_fit_its_certificate_is_refused() {
        let [one, two] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        for folder in [&one, &two] {
            kept_in(folder.path(), Timestamp::default()).expect("made");
        }
        fs::copy(two.path().join("ca.key"), one.path().join("ca.key")).expect("copied");
        let error = kept_in(one.path(), Timestamp::default()).err().expect("refused").to_string();
        assert!(error.contains("ca.key is not the key of ") && error.contains("delete both"), "{error}");
        fs::remove_file(two.path().join("ca.key")).expect("removed");
        let error = kept_in(two.path(), Timestamp::default()).err().expect("refused").to_string();
        assert!(error.contains("ca.crt is not usable: its key, ca.key, is not there"), "{error}");
        let certificate = fs::read_to_string(one.path().join("ca.crt")).expect("the certificate");
        assert!(certificate.starts_with("-----BEGIN"), "nothing was replaced");
    }

    #[test]
    fn a_key_whose_certificate_was_never_written_is_made_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        kept_in(folder.path(), Timestamp::default()).expect("made");
        fs::remove_file(folder.path().join("ca.crt")).expect("removed");
        let (authority, _) = kept_in(folder.path(), Timestamp::default()).expect("made");
        authority.server_config("127.0.0.1:0".parse().expect("an address")).expect("a pair");
    }

    #[test]
    fn secrets_that_others_can_read_and_equal_tokens_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        kept_in(folder.path(), Timestamp::default()).expect("made");
        let refusal = || kept_in(folder.path(), Timestamp::default()).err().expect("refused").to_string();
        let chmod = |name: &str, mode| {
            fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(mode)).expect("a mode");
        };
        for name in ["ca.key", "admin.token", "read-only.token"] {
            chmod(name, 0o666);
            let said = refusal();
            assert!(said.contains(&format!("{name} (mode 0666); close it with: chmod 0600 ")), "{said}");
            chmod(name, 0o600);
        }
        fs::copy(folder.path().join("admin.token"), folder.path().join("read-only.token")).expect("copied");
        assert!(refusal().contains("read-only.token hold the same token"), "{}", refusal());
    }
}
