//! Addresses and address ranges as kubeadm reads them. Owns parsing, canonical forms and the addresses that
//! kubeadm takes out of a range; must not know any field.
//!
//! Source: kubeadm `constants.go` (`GetDNSIP`, `GetAPIServerVirtualIP`), `validation.go`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address range: the network address and its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The network address: bits behind the prefix are zero.
    pub address: IpAddr,
    /// Length of the prefix in bits.
    pub prefix: u8,
}

/// An address as a value: texts of one address are equal. Leading zeros in IPv4 are read as decimal, as Go's older parser did,
/// and an address of IPv4 in one of IPv6 is the former.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    read_ip(text).map(|address| address.to_canonical())
}

fn read_ip(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    // The parser above refuses leading zeros; that of `u8` takes them as decimal.
    let parts: Vec<u8> = text.split('.').map(digits).collect::<Option<_>>()?;
    let parts: [u8; 4] = parts.try_into().ok()?;
    Some(IpAddr::V4(Ipv4Addr::from(parts)))
}

impl Cidr {
    /// Reads `10.96.0.0/12`; bits behind the prefix are cut off.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let (address, prefix) = (read_ip(address)?, digits(prefix)?);
        let bits = if address.is_ipv4() { 32 } else { 128 };
        (prefix <= bits).then(|| Self { address: masked(address, prefix), prefix })
    }

    /// One range, or two of different families, behind a comma.
    pub fn parse_pair(text: &str) -> Option<Vec<Self>> {
        // A blank is refused by the check of the document, with words of its own.
        let found: Vec<Self> = text.split(',').map(|part| Self::parse(part.trim())).collect::<Option<_>>()?;
        let fine = match found.as_slice() {
            [_] => true,
            // Two ranges of one family are not a dual stack, and kubeadm refuses them.
            [a, b] => a.address.is_ipv4() != b.address.is_ipv4(),
            _ => false,
        };
        fine.then_some(found)
    }

    /// How many bits are free behind the prefix.
    pub fn host_bits(&self) -> u8 {
        (if self.address.is_ipv4() { 32 } else { 128 }) - self.prefix
    }

    /// The address `n` after the network address, if it is within.
    pub fn nth(&self, n: u128) -> Option<IpAddr> {
        // A shift by 128 overflows, and the whole of IPv6 has every address.
        if self.host_bits() < 128 && n >= 1_u128 << self.host_bits() {
            return None;
        }
        Some(match self.address {
            IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from(u32::from(a).checked_add(u32::try_from(n).ok()?)?)),
            IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from(u128::from(a).checked_add(n)?)),
        })
    }

    /// Is it an address of this family and range?
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.prefix) == self.address
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(a) => {
            // A shift by all bits overflows: prefix 0 has an empty mask.
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(a) & mask))
        }
        IpAddr::V6(a) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(a) & mask))
        }
    }
}

/// `host:port` with the brackets that an IPv6 address needs.
pub fn join_host_port(host: &str, port: &str) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The host of `host`, `host:port` or `[v6]:port`. A colon without a port behind it is one without a port; brackets stand only
/// before a colon.
/// Source: kubeadm `util/endpoint.go` (`ParseHostPort`), v1.34 to v1.37.
pub fn host_of(endpoint: &str) -> Option<&str> {
    // What cannot be split is a host as a whole, such as an IPv6 address without brackets.
    let (host, port) = split_host_port(endpoint).unwrap_or((endpoint, ""));
    let is_named = parse_ip(host).is_some() || is_dns_name(host);
    (is_named && (port.is_empty() || is_port(port))).then_some(host)
}

/// Source: Go `net.SplitHostPort`.
fn split_host_port(text: &str) -> Option<(&str, &str)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        let port = after.strip_prefix(':')?;
        return (!host.contains('[') && !port.contains([':', '[', ']'])).then_some((host, port));
    }
    let (host, port) = text.rsplit_once(':')?;
    (!host.contains(':') && !text.contains(['[', ']'])).then_some((host, port))
}

/// As kubeadm completes an endpoint: one without a port gets this one.
pub fn with_port(endpoint: &str, port: &str) -> Option<String> {
    let host = host_of(endpoint)?;
    // The last colon of an IPv6 address without brackets has no port behind it: what stands before
    // it has to be the whole host.
    let is_whole = endpoint
        .rsplit_once(':')
        .is_some_and(|(before, given)| before.trim_matches(['[', ']']) == host && !given.is_empty());
    Some(if is_whole { endpoint.to_owned() } else { join_host_port(host, port) })
}

/// A port from 1 to 65535.
/// Source: Kubernetes `utils/net/parse.go` and `port.go` (`ParsePort`).
pub(crate) fn is_port(text: &str) -> bool {
    digits::<u16>(text).is_some_and(|port| port > 0)
}

/// A number of digits alone: a sign is not one for Go's parsers of addresses and ports, and is one for Rust's.
fn digits<N: FromStr>(text: &str) -> Option<N> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A lower-case DNS subdomain (RFC 1123). Kubernetes bounds the whole name and not its labels.
/// Source: apimachinery `pkg/util/validation/validation.go` (`IsDNS1123Subdomain`).
pub fn is_dns_name(name: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// May this stand in a list of certificate names: an address, a DNS name, or one with `*.` before it?
pub fn is_certificate_name(name: &str) -> bool {
    parse_ip(name).is_some() || is_dns_name(name.strip_prefix("*.").unwrap_or(name))
}

/// The form in which two certificate names are compared: addresses canonical, names in lower case.
pub fn canonical_name(name: &str) -> String {
    parse_ip(name).map_or_else(|| name.to_ascii_lowercase(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_their_addresses() {
        let services = Cidr::parse("10.96.0.0/12").expect("a range");
        assert_eq!(services.nth(1).map(|a| a.to_string()).as_deref(), Some("10.96.0.1"));
        assert_eq!(services.nth(10).map(|a| a.to_string()).as_deref(), Some("10.96.0.10"));
        assert_eq!(Cidr::parse("10.0.0.0/31").expect("a range").nth(10), None);
        assert_eq!(
            Cidr::parse("fd00::/108").expect("a range").nth(1).map(|a| a.to_string()).as_deref(),
            Some("fd00::1")
        );
        assert_eq!(Cidr::parse("10.1.2.3/8").expect("a range").to_string(), "10.0.0.0/8");
        assert_eq!(Cidr::parse("0.0.0.0/0").expect("a range").host_bits(), 32);
        assert!(services.contains("10.100.1.1".parse().expect("an address")));
        assert!(!services.contains("10.112.0.0".parse().expect("an address")));
        assert!(!services.contains("::1".parse().expect("an address")));
        for wrong in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/+8", "x/8", "10.0.0/8", "fd00::/129"] {
            assert_eq!(Cidr::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Cidr::parse_pair("10.0.0.0/8,fd00::/64").map(|p| p.len()), Some(2));
        for wrong in ["10.0.0.0/8,11.0.0.0/8", "10.0.0.0/8,fd00::/64,fd01::/64", "", "10.0.0.0/8,"] {
            assert_eq!(Cidr::parse_pair(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn hosts_of_endpoints() {
        for (endpoint, host) in [
            ("cp.example:6443", Some("cp.example")),
            ("cp.example", Some("cp.example")),
            ("10.0.0.1:6443", Some("10.0.0.1")),
            ("[fd00::1]:6443", Some("fd00::1")),
            ("fd00::1", Some("fd00::1")),
            ("cp.example:", Some("cp.example")),
            ("[fd00::1]:", Some("fd00::1")),
            ("cp.example::", None),
            ("cp.example:0", None),
            ("cp.example:x", None),
            ("cp.example:+1", None),
            ("cp.example:06443", Some("cp.example")),
            ("[fd00::1]", None),
            ("[cp.example]:443", Some("cp.example")),
            ("[cp.example]]:443", None),
            ("10.+0.0.1:6443", None),
            ("Cp_Example", None),
            ("", None),
        ] {
            assert_eq!(host_of(endpoint), host, "{endpoint}");
        }
        for (endpoint, whole) in [
            ("cp.example", Some("cp.example:6443")),
            ("cp.example:8443", Some("cp.example:8443")),
            ("fd00::1", Some("[fd00::1]:6443")),
            ("[fd00::1]:8443", Some("[fd00::1]:8443")),
            ("cp.example:", Some("cp.example:6443")),
            ("Cp_Example", None),
        ] {
            assert_eq!(with_port(endpoint, "6443").as_deref(), whole, "{endpoint}");
        }
        assert_eq!(join_host_port("fd00::1", "2379"), "[fd00::1]:2379");
    }

    #[test]
    fn names_in_certificates() {
        for fine in ["a.example", "*.a.example", "10.0.0.1", "fd00::1", "010.0.0.1"] {
            assert!(is_certificate_name(fine), "{fine}");
        }
        for wrong in ["", "a_b", "A.example", "a..b", "*", "-a"] {
            assert!(!is_certificate_name(wrong), "{wrong}");
        }
        assert_eq!(canonical_name("FD00:0::1"), "fd00::1");
        assert_eq!(canonical_name("A.Example"), "a.example");
    }
}
