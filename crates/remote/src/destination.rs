//! Where ssh goes to. Owns what a name, an address, a user and a port look like, so that none of them can be an option of ssh or
//! a line for a shell. Must not know how ssh is called.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::Serialize;

/// The longest name of a host (RFC 1035), and more than any user has.
const NAME_BYTES_MAX: usize = 253;

/// Text that is not a destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    #[error(
        "`{0}` is not the name or the address of a host: expected letters, digits, `.`, `-` and `_`, or an IP address (IPv6 with a port in brackets)"
    )]
    Host(String),
    #[error("`{0}` is not a user: expected letters, digits, `.`, `-` and `_`, the first not `-`")]
    User(String),
    #[error("`{0}` is not a port: expected 1 to 65535")]
    Port(String),
}

/// `[USER@]HOST[:PORT]`, as ssh takes it: a name of the ssh configuration, a host name or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Destination {
    /// Without brackets.
    pub host: String,
    pub user: Option<String>,
    pub port: Option<u16>,
}

impl Destination {
    /// A host by its name or address alone.
    ///
    /// # Errors
    /// It is neither.
    pub fn host(text: &str) -> Result<Self, DestinationError> {
        Ok(Self { host: host_of(text)?, user: None, port: None })
    }
}

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.strip_prefix("ssh://").unwrap_or(text);
        let (user, place) = match text.rsplit_once('@') {
            Some((user, place)) => (Some(user_of(user)?), place),
            None => (None, text),
        };
        let (host, port) = parted(place);
        let port = port.map(port_of).transpose()?;
        Ok(Self { host: host_of(host)?, user, port })
    }
}

impl fmt::Display for Destination {
    /// As `-J` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.port {
            Some(port) if self.host.contains(':') => write!(f, "[{}]:{port}", self.host),
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

/// Host and port. An IPv6 address has a port only behind brackets.
fn parted(place: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            // Not a host, and refused as one.
            None => (place, None),
        };
    }
    match place.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (place, None),
    }
}

fn is_word(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.starts_with('-') && text.chars().all(is_plain)
}

/// An address may have a zone: `fe80::1%eth0`.
fn is_address(text: &str) -> bool {
    let (address, zone) = text.split_once('%').map_or((text, None), |(address, zone)| (address, Some(zone)));
    address.parse::<IpAddr>().is_ok() && zone.is_none_or(is_word)
}

fn host_of(text: &str) -> Result<String, DestinationError> {
    if is_word(text) || is_address(text) {
        Ok(text.to_owned())
    } else {
        Err(DestinationError::Host(text.to_owned()))
    }
}

/// A user as Unix and ssh's own check of `ssh_config` allow it.
///
/// # Errors
/// It could be an option, or more than a word.
pub fn user_of(text: &str) -> Result<String, DestinationError> {
    if is_word(text) { Ok(text.to_owned()) } else { Err(DestinationError::User(text.to_owned())) }
}

fn port_of(text: &str) -> Result<u16, DestinationError> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = is_number.then(|| text.parse::<u16>().ok()).flatten().filter(|port| *port > 0);
    port.ok_or_else(|| DestinationError::Port(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(Option<String>, String, Option<u16>), DestinationError> {
        text.parse::<Destination>().map(|found| (found.user, found.host, found.port))
    }

    #[test]
    fn users_hosts_and_ports_are_told_apart() {
        let some = |text: &str| Some(text.to_owned());
        for (text, expected) in [
            ("h1", (None, "h1".to_owned(), None)),
            ("root@h1", (some("root"), "h1".to_owned(), None)),
            ("10.0.0.1:2222", (None, "10.0.0.1".to_owned(), Some(2222))),
            ("ssh://admin@edge-1.example:22", (some("admin"), "edge-1.example".to_owned(), Some(22))),
            ("fd00::1", (None, "fd00::1".to_owned(), None)),
            ("root@[fd00::1]:2222", (some("root"), "fd00::1".to_owned(), Some(2222))),
            ("fe80::1%eth0", (None, "fe80::1%eth0".to_owned(), None)),
        ] {
            assert_eq!(parsed(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_ssh_or_a_shell_would_read_otherwise_is_refused() {
        for text in [
            "",
            "-oProxyCommand=id",
            "root@-oProxyCommand=id",
            "-l@h1",
            "h1;id",
            "h1 id",
            "$(id)",
            "a`id`",
            "h1\nid",
            "[::1",
            "[::1]x",
            "h1:0",
            "h1:65536",
            "h1:+22",
            "h1:",
            "@h1",
            "h1%eth0",
            "fe80::1%-x",
            "a,b",
            "host/../x",
        ] {
            let error = parsed(text).expect_err(text).to_string();
            assert!(error.contains("expected"), "{text}: {error}");
        }
        assert!(parsed(&"a".repeat(254)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn nothing_that_is_taken_can_be_an_option_or_a_command(text in "[-@:\\[\\]a-z0-9.%;$ ]{0,24}|\\PC{0,40}") {
            if let Ok(found) = text.parse::<Destination>() {
                for word in [Some(found.host.clone()), found.user.clone()].into_iter().flatten() {
                    proptest::prop_assert!(!word.starts_with('-') && !word.is_empty(), "{}", text);
                    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
                    proptest::prop_assert!(word.chars().all(is_plain), "{}", text);
                }
                // What is shown reads back as the same.
                proptest::prop_assert_eq!(found.to_string().parse::<Destination>(), Ok(found));
            }
        }
    }
}
