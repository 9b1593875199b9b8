//! Which proxy the way to a server goes through, if any, as kubectl decides it: `proxy-url` of the kubeconfig, else the
//! environment with its exceptions. Owns these rules; must not know how a proxy is spoken to.
//!
//! Source: golang.org/x/net `http/httpproxy/proxy.go` (`FromEnvironment`, `init`, `useProxy`, `parseProxy`), v0.49.0.
//! Different: names of hosts that are not ASCII are compared as they are written.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use ipnet::IpNet;
use percent_encoding::percent_decode_str;

/// How a proxy is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http,
    /// HTTP in TLS.
    Https,
    /// Names are resolved by the proxy, as Go has it for `socks5` and `socks5h`.
    Socks5,
}

impl Protocol {
    fn of(scheme: &str) -> Option<Self> {
        match scheme.to_ascii_lowercase().as_str() {
            "http" => Some(Self::Http),
            "https" => Some(Self::Https),
            "socks5" | "socks5h" => Some(Self::Socks5),
            _ => None,
        }
    }

    fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Socks5 => "socks5",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Socks5 => 1080,
        }
    }
}

/// Who the proxy is told that we are.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: String,
}

/// A proxy, and what names it.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub protocol: Protocol,
    /// Without brackets.
    pub host: String,
    pub port: u16,
    pub login: Option<Login>,
    named_by: &'static str,
}

/// Never with a password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.protocol.scheme(), self.authority())
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} of {}", self.named_by)
    }
}

/// The kubeconfig's field.
const PROXY_URL: &str = "proxy-url of the kubeconfig";

impl Proxy {
    /// What to look at when it does not work.
    pub fn advice(&self) -> String {
        match self.named_by {
            PROXY_URL => format!("check {PROXY_URL}"),
            variable => {
                format!("check ${variable}, or name the server in $NO_PROXY if it is reached without a proxy")
            }
        }
    }

    /// `HOST:PORT`.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    fn parse(text: &str, named_by: &'static str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{named_by} {what}");
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("has no http:// or the like"))?;
        let protocol =
            Protocol::of(scheme).ok_or_else(|| wrong("is neither an http, https nor socks5 address"))?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // The last one: a password may hold an `@` itself.
        let (login, address) = match authority.rsplit_once('@') {
            Some((login, address)) => (Some(Login::parse(login)), address),
            None => (None, authority),
        };
        let (host, port) = host_and_port(address, protocol).ok_or_else(|| wrong("names no host and port"))?;
        Ok(Self { protocol, host, port, login, named_by })
    }
}

impl Login {
    fn parse(text: &str) -> Self {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        Self { user: decoded(user), password: decoded(password) }
    }
}

fn host_and_port(address: &str, protocol: Protocol) -> Option<(String, u16)> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (host, if after.is_empty() { "" } else { after.strip_prefix(':')? })
        }
        None => address.rsplit_once(':').unwrap_or((address, "")),
    };
    let port = if port.is_empty() { protocol.port() } else { port.parse().ok()? };
    // What cannot stand in an address cannot be connected to.
    let is_host = !host.is_empty() && !host.contains(char::is_whitespace);
    is_host.then(|| (host.to_owned(), port))
}

/// What the environment says about proxies.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    https: Option<(&'static str, String)>,
    http: Option<(&'static str, String)>,
    exceptions: Vec<Exception>,
}

impl Environment {
    pub fn of_process() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    /// By a look at single variables: names in capitals come first, and an empty variable counts as none.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&'static str; 2]| {
            let value = |name: &&'static str| Some((*name, variable(name).filter(|text| !text.is_empty())?));
            names.iter().find_map(value)
        };
        let excepted = first(["NO_PROXY", "no_proxy"]).map(|(_, text)| text).unwrap_or_default();
        Self {
            https: first(["HTTPS_PROXY", "https_proxy"]),
            http: first(["HTTP_PROXY", "http_proxy"]),
            exceptions: excepted.split(',').filter_map(Exception::parse).collect(),
        }
    }

    /// # Errors
    /// The variable names something that is not a proxy we can speak to.
    fn proxy(&self, server: &Uri) -> Result<Option<Proxy>, String> {
        let named = if server.scheme_str() == Some("https") { &self.https } else { &self.http };
        let Some((name, text)) = named else { return Ok(None) };
        if !self.is_wanted(server) {
            return Ok(None);
        }
        // `HOST:PORT` alone is a proxy that speaks HTTP.
        let has_scheme = text.split_once("://").is_some_and(|(_, rest)| !rest.is_empty());
        let text = if has_scheme { text.clone() } else { format!("http://{text}") };
        Proxy::parse(&text, name).map(Some)
    }

    fn is_wanted(&self, server: &Uri) -> bool {
        let host = server.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        // As in Go, an IPv4 address in the form of IPv6 is the same address.
        let address: Option<IpAddr> = host.parse().ok().map(|address: IpAddr| address.to_canonical());
        // Go takes no proxy to this machine, whatever the exceptions are.
        if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
            return false;
        }
        let default = if server.scheme_str() == Some("https") { 443 } else { 80 };
        let target = Target {
            host: host.to_ascii_lowercase(),
            address,
            port: server.port_u16().unwrap_or(default).to_string(),
        };
        !self.exceptions.iter().any(|exception| exception.covers(&target))
    }
}

/// What exceptions are compared with.
struct Target {
    host: String,
    address: Option<IpAddr>,
    port: String,
}

/// One entry of `NO_PROXY`. A port that is empty stands for every port.
#[derive(Clone, Debug)]
enum Exception {
    Everything,
    Range(IpNet),
    Address(IpAddr, String),
    Domain {
        /// With a dot in front.
        below: String,
        /// The domain itself, too.
        with_itself: bool,
        port: String,
    },
}

impl Exception {
    fn parse(entry: &str) -> Option<Self> {
        let entry = entry.trim().to_lowercase();
        if entry == "*" {
            return Some(Self::Everything);
        }
        if let Ok(range) = entry.parse() {
            return Some(Self::Range(range));
        }
        let (host, port) = split_port(&entry).unwrap_or((&entry, ""));
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical(), port.to_owned()));
        }
        // As in Go: `*.NAME` means the same as `.NAME`.
        let host = if host.starts_with("*.") { host.get(1..)? } else { host };
        // As in Go: without a dot at its beginning a name stands for itself, too.
        let with_itself = !host.starts_with('.');
        let below = if with_itself { format!(".{host}") } else { host.to_owned() };
        (!host.is_empty()).then(|| Self::Domain { below, with_itself, port: port.to_owned() })
    }

    fn covers(&self, target: &Target) -> bool {
        let port_fits = |port: &str| port.is_empty() || port == target.port;
        match self {
            Self::Everything => true,
            Self::Range(range) => target.address.is_some_and(|address| range.contains(&address)),
            Self::Address(excepted, port) => target.address == Some(*excepted) && port_fits(port),
            Self::Domain { below, with_itself, port } => {
                let is_itself = *with_itself && below.strip_prefix('.') == Some(&target.host);
                // The end of an address is no domain.
                let is_name = target.address.is_none();
                is_name && (is_itself || target.host.ends_with(below)) && port_fits(port)
            }
        }
    }
}

/// `HOST:PORT` and `[ADDRESS]:PORT`; nothing for anything else, such as an address of IPv6 alone.
fn split_port(entry: &str) -> Option<(&str, &str)> {
    let (host, port) = match entry.strip_prefix('[') {
        Some(rest) => rest.split_once("]:")?,
        None => entry.split_once(':')?,
    };
    let is_plain = |text: &str| !text.contains(['[', ']']);
    let has_one_port = !port.contains(':') && (entry.starts_with('[') || !host.contains(':'));
    (has_one_port && is_plain(host) && is_plain(port)).then_some((host, port))
}

/// The proxy on the way to `server`: the one of the kubeconfig, which has no exceptions, else the one of the environment.
///
/// # Errors
/// What names a proxy that cannot be one.
pub fn choose(
    proxy_url: Option<&str>,
    server: &Uri,
    environment: &Environment,
) -> Result<Option<Proxy>, String> {
    match proxy_url.filter(|text| !text.is_empty()) {
        Some(text) => Proxy::parse(text, PROXY_URL).map(Some),
        None => environment.proxy(server),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubeconfig_comes_before_the_environment_and_its_exceptions() {
        let variables = |name: &str| match name {
            "HTTPS_PROXY" => Some("outer:3128".to_owned()),
            "NO_PROXY" => Some("*".to_owned()),
            _ => None,
        };
        let environment = Environment::read(variables);
        let server: Uri = "https://127.0.0.1:6443".parse().expect("an address");
        let chosen = |proxy_url| choose(proxy_url, &server, &environment);
        assert_eq!(chosen(None), Ok(None));
        let inner = chosen(Some("socks5://inner")).expect("a proxy").expect("one");
        assert_eq!(inner.to_string(), "socks5://inner:1080");
        assert!(chosen(Some("ftp://inner")).is_err());
    }

    #[test]
    fn a_proxy_is_read_with_its_login_and_shown_without() {
        for (text, shown, login) in [
            ("http://proxy", "http://proxy:80", None),
            ("HTTPS://proxy/path", "https://proxy:443", None),
            ("http://proxy:", "http://proxy:80", None),
            ("http://ann:p%40ss@proxy:3128/", "http://proxy:3128", Some(("ann", "p@ss"))),
            ("socks5h://ann@[fd00::1]:1081", "socks5://[fd00::1]:1081", Some(("ann", ""))),
            ("http://a@b:c@proxy:1", "http://proxy:1", Some(("a@b", "c"))),
        ] {
            let proxy = Proxy::parse(text, PROXY_URL).expect(text);
            assert_eq!(proxy.to_string(), shown, "{text}");
            assert!(!format!("{proxy:?}").contains("ann"), "{proxy:?}");
            let seen = proxy.login.as_ref().map(|login| (login.user.as_str(), login.password.as_str()));
            assert_eq!(seen, login, "{text}");
        }
        for text in
            ["proxy:3128", "ftp://proxy", "http://", "http://proxy:port", "http://[fd00::1", "http://a b"]
        {
            assert!(Proxy::parse(text, PROXY_URL).is_err(), "{text}");
        }
    }
}
