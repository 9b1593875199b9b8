//! Turns what the client reports into one sentence for an operator: what was tried, on what, what
//! to check. Owns the classification; must not know what was being read or written.

use kube::Error;
use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_rustls::rustls::{self, AlertDescription, CertificateError};

use super::causes::{chain_of, found};
use super::dial::ProxyError;
use super::login::LoginError;
use capstan_base::time::{Timestamp, rfc3339};

/// Why a request did not work, as far as the causes can be distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing answers at the address.
    Unreachable,
    /// The name does not resolve.
    UnknownHost,
    /// The proxy on the way does not answer, or does not connect.
    Proxy,
    /// No answer in time.
    TimedOut,
    /// The server's certificate is not signed by the expected authority.
    WrongAuthority,
    /// The server's certificate is for another name, or its time has passed.
    BadCertificate,
    /// The server's certificate is not valid yet, by the clock of this machine.
    Clock,
    /// The server does not take the certificate that we show.
    ClientCertificate,
    /// 401: the token or certificate is missing, wrong or expired.
    Unauthenticated,
    /// 403.
    Forbidden,
    /// An exec credential plugin did not run or failed.
    CredentialPlugin,
    /// The kind is not served (404 on a collection).
    NotServed,
    /// Refused by `--read-only` before it left the process.
    ReadOnly,
    /// 429 or 5xx.
    ServerTrouble,
    /// Something answered that is not a Kubernetes API server.
    NotKubernetes,
    Other,
}

/// Sorts an error into a cause, by type first and by the texts of its sources where types are erased.
pub fn classify(error: &Error) -> Cause {
    match error {
        Error::Api(status) => match status.code {
            401 => Cause::Unauthenticated,
            403 => Cause::Forbidden,
            404 => Cause::NotServed,
            429 | 500..=599 => Cause::ServerTrouble,
            _ => Cause::Other,
        },
        Error::Auth(_) => Cause::CredentialPlugin,
        Error::SerdeError(_) => Cause::NotKubernetes,
        Error::Service(source) if source.downcast_ref::<super::read_only::Refused>().is_some() => {
            Cause::ReadOnly
        }
        other => by_type(other).unwrap_or_else(|| classify_text(&chain(other))),
    }
}

fn by_type(error: &Error) -> Option<Cause> {
    if found::<ProxyError>(error).is_some() {
        return Some(Cause::Proxy);
    }
    match found::<LoginError>(error) {
        Some(LoginError::CertificateOver { .. } | LoginError::CertificateNotYet { .. }) => {
            Some(Cause::ClientCertificate)
        }
        Some(_) => Some(Cause::CredentialPlugin),
        None => found::<rustls::Error>(error).and_then(of_tls),
    }
}

/// Errors of a certificate are ours about the server's; alerts are the server's about ours.
fn of_tls(error: &rustls::Error) -> Option<Cause> {
    match error {
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => Some(Cause::Clock),
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => Some(Cause::WrongAuthority),
        rustls::Error::InvalidCertificate(_) => Some(Cause::BadCertificate),
        rustls::Error::AlertReceived(alert) if complaint(*alert).is_some() => Some(Cause::ClientCertificate),
        _ => None,
    }
}

/// What an alert says about a client's certificate.
fn complaint(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::CertificateExpired => "it says that its time is over",
        AlertDescription::CertificateRevoked => "it says that it was revoked",
        AlertDescription::UnknownCA => "it does not know its authority",
        AlertDescription::CertificateRequired => "it wants one",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::DecryptError => "it cannot be used there",
        AlertDescription::AccessDenied => "it gives no access",
        _ => return None,
    })
}

fn classify_text(text: &str) -> Cause {
    // The first row that matches counts: rustls puts names and dates
    // into "invalid peer certificate", which alone means the authority.
    let table: [(&[&str], Cause); 7] = [
        (&["UnknownIssuer", "unknown issuer", "BadSignature"], Cause::WrongAuthority),
        (
            &[
                "NotValidForName",
                "certificate not valid for name",
                "CertificateExpired",
                "Expired",
                "NotValidYet",
            ],
            Cause::BadCertificate,
        ),
        (&["invalid peer certificate", "CertificateUnknown", "UnknownCA"], Cause::WrongAuthority),
        (&["dns error", "failed to lookup address", "Name or service not known"], Cause::UnknownHost),
        (&["deadline has elapsed", "timed out", "TimedOut", "no whole answer within"], Cause::TimedOut),
        (
            &[
                "Connection refused",
                "No route to host",
                "Network is unreachable",
                "Connection reset",
                "connection closed before message completed",
                "client error (SendRequest)",
                "os error",
            ],
            Cause::Unreachable,
        ),
        (&["InvalidMessage", "corrupt message", "InvalidContentType", "invalid HTTP"], Cause::NotKubernetes),
    ];
    table
        .into_iter()
        .find(|(needles, _)| needles.iter().any(|needle| text.contains(needle)))
        .map_or(Cause::Other, |(_, cause)| cause)
}

/// The server's own sentence, where it gave one; else the error and all its sources, outermost first, without repeating a
/// text that already contains the next.
pub fn chain(error: &Error) -> String {
    if let Error::Api(status) = error {
        // Its own text repeats the whole answer, as Rust prints it.
        let code = || format!("{} {}", status.code, status.reason);
        return if status.message.is_empty() { code() } else { status.message.clone() };
    }
    chain_of(error)
}

/// One sentence for an operator about a request to `server`.
pub fn explain(error: &Error, server: &str) -> String {
    match classify(error) {
        Cause::Unreachable => {
            format!(
                "no API server answers at {server}: check that it runs and that this machine can reach it"
            )
        }
        Cause::UnknownHost => {
            format!(
                "the host name in {server} does not resolve: check the server address in the kubeconfig, DNS or VPN"
            )
        }
        Cause::Proxy => {
            let why = found::<ProxyError>(error).map_or_else(|| chain(error), ToString::to_string);
            format!("{server} is not reached: {why}")
        }
        Cause::TimedOut => {
            format!("{server} did not answer in time: check the network, proxies and firewalls between")
        }
        Cause::WrongAuthority => format!(
            "the certificate of {server} is not signed by the authority the kubeconfig expects: \
             check certificate-authority-data, or whether this is the right cluster"
        ),
        Cause::BadCertificate | Cause::Clock => of_server_certificate(error, server),
        Cause::ClientCertificate => of_client_certificate(error, server),
        Cause::Unauthenticated => format!(
            "{server} does not accept these credentials (401): the token or certificate is wrong or has expired; log in again"
        ),
        Cause::Forbidden => format!("{server} does not allow this (403): {}", api_message(error)),
        Cause::CredentialPlugin => match found::<LoginError>(error) {
            Some(login) => format!("no credentials for {server}: {login}"),
            None => format!("the credential plugin for {server} failed: {}", plugin_message(error)),
        },
        Cause::NotServed => format!("{server} does not have it (404): {}", api_message(error)),
        Cause::ReadOnly => "refused: this process was started with --read-only".to_owned(),
        Cause::ServerTrouble => format!("{server} is in trouble: {}; it is tried again", api_message(error)),
        Cause::NotKubernetes => {
            format!(
                "what answers at {server} does not speak the Kubernetes API: check address, port and http/https"
            )
        }
        Cause::Other => match error {
            Error::Api(_) => format!("{server} refused: {}", api_message(error)),
            _ => format!("talking to {server} failed: {}", chain(error)),
        },
    }
}

fn of_server_certificate(error: &Error, server: &str) -> String {
    let moment = |time: &UnixTime| {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        Timestamp::from_timestamp(seconds, 0).map(rfc3339).unwrap_or_default()
    };
    let Some(rustls::Error::InvalidCertificate(problem)) = found::<rustls::Error>(error) else {
        return format!(
            "the certificate of {server} is for another name or outside its dates: \
             check tls-server-name in the kubeconfig and the clocks"
        );
    };
    match problem {
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "the certificate of {server} is not valid before {}, and the clock here says {}: check the clock of this machine",
            moment(not_before),
            moment(time)
        ),
        CertificateError::ExpiredContext { time, not_after } => format!(
            "the certificate of {server} ended at {}, and the clock here says {}: renew the certificate of the server, \
             or check the clock of this machine",
            moment(not_after),
            moment(time)
        ),
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "the certificate of {server} is for {} and not for {}: check server and tls-server-name in the kubeconfig",
            if presented.is_empty() {
                "no name".to_owned()
            } else {
                presented.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ")
            },
            expected.to_str()
        ),
        other => format!(
            "the certificate of {server} cannot be used ({other}): check what the server shows, and certificate-authority-data"
        ),
    }
}

/// A name of a certificate without the kind that the library writes around it, as in `DnsName("NAME")`.
fn plain(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"')
}

fn of_client_certificate(error: &Error, server: &str) -> String {
    if let Some(login) = found::<LoginError>(error) {
        return format!("{server} does not accept these credentials (401): {login}");
    }
    let alert = match found::<rustls::Error>(error) {
        Some(rustls::Error::AlertReceived(alert)) => complaint(*alert),
        _ => None,
    };
    format!(
        "{server} does not accept the client certificate of the kubeconfig ({}): log in again, or renew the certificate",
        alert.unwrap_or("it refuses it")
    )
}

fn api_message(error: &Error) -> String {
    match error {
        Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        Error::Api(status) => format!("{} {}", status.code, status.reason),
        other => chain(other),
    }
}

/// What the plugin printed, first line; never its standard output, which may hold a token.
fn plugin_message(error: &Error) -> String {
    if let Error::Auth(kube::client::AuthError::AuthExecRun { out, .. }) = error {
        let text = String::from_utf8_lossy(&out.stderr);
        let line = text.lines().find(|l| !l.trim().is_empty()).unwrap_or("it printed nothing");
        return format!("{} ({})", line.trim(), out.status);
    }
    chain(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(code: u16, message: &str) -> Error {
        Error::Api(Box::new(kube::core::Status::failure(message, "X").with_code(code)))
    }

    fn service(text: &str) -> Error {
        Error::Service(std::io::Error::other(text.to_owned()).into())
    }

    #[test]
    fn an_answer_is_the_servers_sentence_wherever_it_is_wrapped() {
        use crate::client::WriteError;
        use crate::engine::ReconcileError;
        let refused = || WriteError::Refused {
            verb: "patch",
            what: "Machine default/m".to_owned(),
            source: api(409, "the object has been modified"),
        };
        for (said, expected) in [
            (chain(&api(409, "the object has been modified")), "the object has been modified"),
            (chain(&api(409, "")), "409 X"),
            (refused().to_string(), "patch Machine default/m: the object has been modified"),
            (
                ReconcileError::from(refused()).to_string(),
                "patch Machine default/m: the object has been modified",
            ),
            (ReconcileError::from(api(403, "no")).to_string(), "reading failed: no"),
        ] {
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn causes_are_told_apart() {
        for (error, cause) in [
            (api(401, "Unauthorized"), Cause::Unauthenticated),
            (api(403, "no"), Cause::Forbidden),
            (api(503, "busy"), Cause::ServerTrouble),
            (service("tcp connect error: Connection refused (os error 111)"), Cause::Unreachable),
            (service("invalid peer certificate: UnknownIssuer"), Cause::WrongAuthority),
            (
                service("invalid peer certificate: certificate not valid for name \"x\""),
                Cause::BadCertificate,
            ),
            (service("dns error: failed to lookup address information"), Cause::UnknownHost),
            (service("deadline has elapsed"), Cause::TimedOut),
            (service("no whole answer within 30 s"), Cause::TimedOut),
            (service("client error (SendRequest)"), Cause::Unreachable),
            (Error::Service(super::super::read_only::Refused::new("POST", "/x").into()), Cause::ReadOnly),
        ] {
            assert_eq!(classify(&error), cause, "{error}");
        }
    }

    #[test]
    fn sentences_name_the_server_and_what_to_check() {
        let text = explain(&api(401, "Unauthorized"), "https://one:6443");
        assert!(text.contains("https://one:6443") && text.contains("log in again"), "{text}");
    }
}
