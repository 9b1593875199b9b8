//! Who a server is told that we are, as the user of a kubeconfig says it: where the credentials are from, and how long they
//! are good. Must not know the requests that they go with.
//!
//! Source: client-go `tools/clientcmd/client_config.go` (`getUserIdentificationPartialConfig`), `transport/round_trippers.go`
//! (`HTTPWrappersForConfig`), `transport/transport.go` (`TLSConfigFor`), v0.36.3.

mod plugin;
mod terminal;
mod token_file;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::HeaderValue;
use kube::config::AuthInfo;
use secrecy::ExposeSecret as _;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

pub use plugin::PluginError;
pub use terminal::{PluginNews, PluginTerminal};
pub use token_file::{TokenError, TokenFile};

use capstan_base::time::{Clock, Timestamp, rfc3339};

/// So long before their end credentials are made anew, where they are good for longer.
const MARGIN: Duration = Duration::from_secs(10);
/// A plugin that prints what has ended is not run for every request.
const KEPT_MIN: Duration = Duration::from_secs(5);

/// Why nothing can be sent: sentences for an operator.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoginError {
    #[error(transparent)]
    Plugin(#[from] PluginError),
    #[error("the credential plugin {program} is running: it may want you to log in")]
    Waits { program: String },
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(
        "a token or a password has a line break or another character that no header may have; look at the user of the \
         kubeconfig, or at what its credential plugin prints"
    )]
    NotAHeader,
    #[error("{field} {file} cannot be read: {reason}")]
    Unreadable { field: &'static str, file: String, reason: String },
    #[error("the credentials cannot be used: {0}")]
    Unusable(String),
    #[error("the client certificate of the kubeconfig ended at {}: log in again", rfc3339(*at))]
    CertificateOver { at: Timestamp },
    #[error("the client certificate of the kubeconfig is not valid before {}, and the clock here says {}: check the clock", rfc3339(*at), rfc3339(*now))]
    CertificateNotYet { at: Timestamp, now: Timestamp },
}

/// What goes with each request.
#[derive(Clone, Debug)]
pub enum Header {
    None,
    Fixed(HeaderValue),
    File(Arc<TokenFile>),
}

/// What is shown in the handshake, PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsIdentity {
    pub certificates: String,
    pub key: String,
}

/// Credentials as they are now.
#[derive(Clone)]
pub struct Login {
    pub header: Header,
    pub identity: Option<TlsIdentity>,
    /// When they have to be made anew; never without an end.
    pub renew_at: Option<Timestamp>,
}

impl Login {
    /// Runs a plugin where there is one, to its end.
    ///
    /// # Errors
    /// [`LoginError`].
    pub async fn of(user: &AuthInfo, terminal: &PluginTerminal, clock: &Clock) -> Result<Self, LoginError> {
        let identity = identity(user)?;
        let header = match user.auth_provider {
            // kube's own layer has them.
            Some(_) => Header::None,
            None => written(user)?,
        };
        // Credentials that are written down count more than a plugin, as in client-go.
        let runs = matches!(header, Header::None) && user.auth_provider.is_none();
        let Some(exec) = user.exec.as_ref().filter(|_| runs) else {
            return Ok(Self { header, identity, renew_at: None });
        };
        let printed = plugin::run(exec, terminal).await?;
        let header = printed.token.map(|token| bearer(&token)).transpose()?;
        let of_plugin = printed.certificate.map(|(certificates, key)| TlsIdentity { certificates, key });
        Ok(Self {
            header: header.map_or(Header::None, Header::Fixed),
            identity: identity.or(of_plugin),
            renew_at: printed.expires_at.map(|at| renew_at(at, clock.now())),
        })
    }

    /// The same words to the same server.
    pub fn is_like(&self, other: &Self) -> bool {
        let same_header = match (&self.header, &other.header) {
            (Header::None, Header::None) => true,
            (Header::Fixed(one), Header::Fixed(two)) => one == two,
            (Header::File(one), Header::File(two)) => one.path() == two.path(),
            _ => false,
        };
        same_header && self.identity == other.identity
    }
}

impl TlsIdentity {
    /// Whether a server has to refuse it.
    ///
    /// # Errors
    /// Its time is over, or has not begun.
    pub fn check_dates(&self, now: Timestamp) -> Result<(), LoginError> {
        let Some((begin, end)) = self.dates() else { return Ok(()) };
        if now > end {
            return Err(LoginError::CertificateOver { at: end });
        }
        if now < begin {
            return Err(LoginError::CertificateNotYet { at: begin, now });
        }
        Ok(())
    }

    fn dates(&self) -> Option<(Timestamp, Timestamp)> {
        let der = CertificateDer::from_pem_slice(self.certificates.as_bytes()).ok()?;
        let (_, parsed) = X509Certificate::from_der(&der).ok()?;
        let moment = |time: x509_parser::time::ASN1Time| Timestamp::from_timestamp(time.timestamp(), 0);
        Some((moment(parsed.validity().not_before)?, moment(parsed.validity().not_after)?))
    }
}

fn renew_at(expires_at: Timestamp, now: Timestamp) -> Timestamp {
    let early = expires_at - MARGIN;
    let due = if early > now { early } else { expires_at };
    due.max(now + KEPT_MIN)
}

/// What the kubeconfig itself has: a password, a file with a token, a token.
fn written(user: &AuthInfo) -> Result<Header, LoginError> {
    if let (Some(name), Some(password)) = (&user.username, &user.password) {
        let pair = BASE64.encode(format!("{name}:{}", password.expose_secret()));
        return sensitive(format!("Basic {pair}")).map(Header::Fixed);
    }
    if let Some(path) = &user.token_file {
        match (TokenFile::open(path.into()), &user.token) {
            // What is in the file counts more than a token beside it.
            (Ok(file), _) => return Ok(Header::File(Arc::new(file))),
            (Err(error), None) => return Err(error.into()),
            // As client-go: the token stands in for a file that cannot be read.
            (Err(_), Some(_)) => {}
        }
    }
    match &user.token {
        Some(token) => bearer(token.expose_secret()).map(Header::Fixed),
        None => Ok(Header::None),
    }
}

fn bearer(token: &str) -> Result<HeaderValue, LoginError> {
    sensitive(format!("Bearer {token}"))
}

fn sensitive(text: String) -> Result<HeaderValue, LoginError> {
    let mut value = HeaderValue::try_from(text).map_err(|_| LoginError::NotAHeader)?;
    value.set_sensitive(true);
    Ok(value)
}

fn identity(user: &AuthInfo) -> Result<Option<TlsIdentity>, LoginError> {
    let data = user.client_certificate_data.as_deref();
    let certificates = pem("client-certificate", data, user.client_certificate.as_deref())?;
    let data = user.client_key_data.as_ref().map(|data| data.expose_secret());
    let key = pem("client-key", data, user.client_key.as_deref())?;
    Ok(certificates.zip(key).map(|(certificates, key)| TlsIdentity { certificates, key }))
}

fn pem(field: &'static str, data: Option<&str>, file: Option<&str>) -> Result<Option<String>, LoginError> {
    let unusable = |reason: String| LoginError::Unusable(format!("{field}-data {reason}"));
    match (data, file) {
        (Some(data), _) => {
            let bytes = BASE64.decode(data).map_err(|error| unusable(format!("is not base64: {error}")))?;
            String::from_utf8(bytes).map(Some).map_err(|_| unusable("is not PEM".to_owned()))
        }
        (None, Some(file)) => std::fs::read_to_string(file).map(Some).map_err(|error| {
            LoginError::Unreadable { field, file: file.to_owned(), reason: error.to_string() }
        }),
        (None, None) => Ok(None),
    }
}

/// What the transport is set up with: the identity, in whose name it asks, and what only kube's own layer knows.
pub fn for_transport(user: &AuthInfo, identity: Option<&TlsIdentity>) -> AuthInfo {
    AuthInfo {
        client_certificate_data: identity.map(|identity| BASE64.encode(&identity.certificates)),
        client_key_data: identity.map(|identity| BASE64.encode(&identity.key).into()),
        auth_provider: user.auth_provider.clone(),
        impersonate: user.impersonate.clone(),
        impersonate_groups: user.impersonate_groups.clone(),
        impersonate_uid: user.impersonate_uid.clone(),
        impersonate_user_extra: user.impersonate_user_extra.clone(),
        ..AuthInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Timestamp {
        capstan_base::time::parse_rfc3339(text).expect("a moment")
    }

    #[test]
    fn credentials_are_made_anew_shortly_before_their_end() {
        let now = moment("2026-11-29T10:00:00Z");
        for (expires, expected) in [
            ("2026-11-29T11:00:00Z", "2026-11-29T10:59:50Z"),
            ("2026-11-29T10:00:25Z", "2026-11-29T10:00:15Z"),
            ("2026-11-29T10:00:08Z", "2026-11-29T10:00:08Z"),
            ("2026-11-29T10:00:01Z", "2026-11-29T10:00:05Z"),
            ("2026-11-28T10:00:00Z", "2026-11-29T10:00:05Z"),
        ] {
            assert_eq!(renew_at(moment(expires), now), moment(expected), "{expires}");
        }
    }
}
