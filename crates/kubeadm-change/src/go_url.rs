//! URLs as Go reads them, which takes much that other readers refuse. Owns the scheme of a URL and whether Go can read it; must not
//! know a field.
//!
//! Source: Go 1.26 `net/url` (`Parse`, `parseAuthority`, `parseHost`, `unescape`).

use std::net::Ipv6Addr;

/// The scheme in lower case, empty where there is none; `None` when Go does not read the text as a URL.
pub(super) fn scheme_of(text: &str) -> Option<String> {
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    // The fragment is only unescaped: Go looks for control characters before it alone.
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) || !is_unescapable(fragment) {
        return None;
    }
    let (scheme, rest) = split_scheme(text)?;
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        let first = rest.split('/').next().unwrap_or_default();
        // Behind a scheme it is opaque, and nothing is looked at.
        // Without one, a colon in the first segment would look like a scheme (RFC 3986, 3.3).
        let is_path = !first.contains(':') && is_unescapable(rest);
        return (!scheme.is_empty() || is_path).then_some(scheme);
    }
    // Three slashes without a scheme begin a path for Go, not an empty host.
    let path = match rest.strip_prefix("//").filter(|_| !scheme.is_empty() || !rest.starts_with("///")) {
        Some(after) => {
            let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            if !is_authority(&scheme, authority) {
                return None;
            }
            path
        }
        None => rest,
    };
    is_unescapable(path).then_some(scheme)
}

/// What stands before the first colon, if it can be a scheme.
fn split_scheme(text: &str) -> Option<(String, &str)> {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    match text.find(|c| !is_of_scheme(c)).filter(|end| text[*end..].starts_with(':')) {
        // Go calls a colon in the first place a missing scheme, which is an error.
        Some(0) => None,
        Some(end) if text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Some((text[..end].to_ascii_lowercase(), &text[end + 1..]))
        }
        // Go reads a text that begins with a digit, `+`, `-` or `.` as one without a scheme.
        _ => Some((String::new(), text)),
    }
}

fn is_authority(scheme: &str, authority: &str) -> bool {
    // At the last one: Go takes `@` in the name of a user.
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let is_of_user = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    user.chars().all(is_of_user) && is_unescapable(user) && is_host(scheme, host)
}

fn is_host(scheme: &str, host: &str) -> bool {
    match host.rfind('[') {
        Some(0) => host.rfind(']').is_some_and(|end| {
            // A zone behind `%` is not a part of the address (RFC 6874).
            let address = host[1..end].split('%').next().unwrap_or_default();
            is_port(&host[end + 1..]) && address.parse::<Ipv6Addr>().is_ok()
        }),
        Some(_) => false,
        None => {
            let is_strict = matches!(scheme, "http" | "https");
            // Go refuses a second colon for http and https alone; others take what stands behind
            // the last one as the port.
            let colon = if is_strict { host.find(':') } else { host.rfind(':') };
            colon.is_none_or(|colon| is_port(&host[colon..])) && is_host_text(host)
        }
    }
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}

/// Bytes of ASCII cannot be escaped in a host, but `%` itself.
fn is_host_text(host: &str) -> bool {
    let is_plain =
        |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    let mut escapes = host.split('%').skip(1);
    let is_fine =
        |escape: &str| escape.starts_with("25") || escape.starts_with(|c: char| "89abcdefABCDEF".contains(c));
    host.chars().all(is_plain) && is_unescapable(host) && escapes.all(is_fine)
}

/// Two digits of base 16 follow each `%`.
fn is_unescapable(text: &str) -> bool {
    let is_escape =
        |after: &str| after.len() >= 2 && after.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    text.split('%').skip(1).all(is_escape)
}

#[cfg(test)]
mod tests {
    use super::scheme_of;

    #[test]
    fn schemes_as_go_reads_them() {
        for (text, scheme) in [
            ("https://a:1/b?c#d", Some("https")),
            ("HTTPS://a", Some("https")),
            ("unix:///run/containerd/containerd.sock", Some("unix")),
            ("unix:/run/x", Some("unix")),
            ("unix://tcp://10.0.0.1", Some("unix")),
            ("a.example:2379", Some("a.example")),
            ("/a/b", Some("")),
            ("", Some("")),
            ("a b", Some("")),
            ("https://[fd00::1]:2379", Some("https")),
            ("https://[fe80::1%25eth0]:1", Some("https")),
            ("10.0.0.1:2379", None),
            ("https://fd00::1:2379", None),
            ("https://[10.0.0.1]:1", None),
            ("https://a b", None),
            ("https://a:x", None),
            ("https://a/%zz", None),
            ("https://%41", None),
            (":a", None),
            ("%zz", None),
            ("https://a\n", None),
            ("https://u ser@a", None),
        ] {
            assert_eq!(scheme_of(text).as_deref(), scheme, "{text}");
        }
    }
}
