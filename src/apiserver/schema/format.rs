//! String and number formats of schemas. Unknown formats are ignored, as upstream does.
//!
//! Source: kube-openapi `pkg/validation/strfmt/{default,time,duration}.go`, v0.35.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use serde_json::Value;

/// A format we check. The rest of upstream's list (credit cards, ISBN, colours) is not used by
/// Kubernetes-shaped kinds and accepted unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Int32,
    Int64,
    DateTime,
    Date,
    Duration,
    Byte,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
}

const NAMES: [(&str, Format); 15] = [
    ("int32", Format::Int32),
    ("int64", Format::Int64),
    ("date-time", Format::DateTime),
    ("datetime", Format::DateTime),
    ("date", Format::Date),
    ("duration", Format::Duration),
    ("byte", Format::Byte),
    ("uri", Format::Uri),
    ("email", Format::Email),
    ("hostname", Format::Hostname),
    ("ipv4", Format::Ipv4),
    ("ipv6", Format::Ipv6),
    ("cidr", Format::Cidr),
    ("mac", Format::Mac),
    ("uuid", Format::Uuid),
];

impl Format {
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    #[must_use]
    pub fn word(self) -> &'static str {
        NAMES.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    /// Formats of numbers say nothing about text.
    #[must_use]
    pub fn accepts_text(self, text: &str) -> bool {
        match self {
            Self::Int32 | Self::Int64 => true,
            Self::DateTime => crate::time::parse_rfc3339(text).is_some(),
            Self::Date => chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok(),
            Self::Duration => is_duration(text),
            Self::Byte => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
            Self::Uri => {
                text.parse::<http::Uri>().is_ok_and(|uri| uri.scheme().is_some() || text.starts_with('/'))
            }
            Self::Email => text
                .split_once('@')
                .is_some_and(|(user, host)| !user.is_empty() && host.contains(char::is_alphanumeric)),
            Self::Hostname => {
                let word = |part: &str| {
                    !part.is_empty()
                        && part.len() <= 63
                        && part.chars().all(|c| c.is_alphanumeric() || c == '-')
                };
                text.len() <= 255 && text.trim_end_matches('.').split('.').all(word)
            }
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Cidr => is_cidr(text),
            Self::Mac => {
                let pair = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
                let parts: Vec<&str> = text.split([':', '-']).collect();
                matches!(parts.len(), 6 | 8 | 20) && parts.into_iter().all(pair)
            }
            Self::Uuid => uuid::Uuid::try_parse(text).is_ok(),
        }
    }

    /// Formats of text say nothing about numbers.
    #[must_use]
    pub fn accepts_number(self, value: &Value) -> bool {
        match self {
            Self::Int32 => {
                value.as_f64().is_some_and(|n| (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&n))
            }
            Self::Int64 => {
                value.is_i64() || value.as_f64().is_some_and(|n| n.abs() < 9.223_372_036_854_775e18)
            }
            _ => true,
        }
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let (Ok(address), Ok(bits)) = (address.parse::<IpAddr>(), bits.parse::<u8>()) else { return false };
    bits <= if address.is_ipv4() { 32 } else { 128 }
}

/// Go's `time.ParseDuration` (`1h30m`, `-1.5s`), or a number with a unit in words, as upstream allows.
fn is_duration(text: &str) -> bool {
    let mut rest = text.trim_start_matches(['+', '-']);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if digits == 0 || rest[..digits].parse::<f64>().is_err() {
            return false;
        }
        rest = rest[digits..].trim_start();
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.' || c == ' ').unwrap_or(rest.len());
        let known = ["ns", "us", "µs", "μs", "ms", "s", "m", "h", "d", "day", "days", "w", "week", "weeks"];
        let words = ["second", "seconds", "minute", "minutes", "hour", "hours"];
        if !known.contains(&&rest[..unit]) && !words.contains(&&rest[..unit]) {
            return false;
        }
        rest = rest[unit..].trim_start();
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts() {
        for (format, good, bad) in [
            (
                "date-time",
                vec!["2026-11-20T10:00:00Z", "2026-11-20T10:00:00.5+01:00"],
                vec!["2026-11-20", "x", ""],
            ),
            ("date", vec!["2026-11-20"], vec!["2026-13-20"]),
            ("duration", vec!["1h30m", "10s", "1.5h", "0", "-2m", "3 days"], vec!["", "1", "h", "1x", "-"]),
            ("byte", vec!["", "YQ=="], vec!["Y", "a b"]),
            ("ipv4", vec!["10.0.0.1"], vec!["10.0.0", "::1"]),
            ("ipv6", vec!["::1"], vec!["10.0.0.1"]),
            ("cidr", vec!["10.0.0.0/8", "::/0"], vec!["10.0.0.0", "10.0.0.0/33"]),
            ("uuid", vec!["6ba7b810-9dad-11d1-80b4-00c04fd430c8"], vec!["x"]),
            ("mac", vec!["00:11:22:33:44:55"], vec!["00:11"]),
            ("hostname", vec!["a.b-c"], vec!["a..b", "a b"]),
            ("uri", vec!["https://a.b/c"], vec!["a b"]),
            ("email", vec!["a@b.c"], vec!["a"]),
        ] {
            let format = Format::named(format).expect(format);
            for text in good {
                assert!(format.accepts_text(text), "{format:?} {text:?}");
            }
            for text in bad {
                assert!(!format.accepts_text(text), "{format:?} {text:?}");
            }
        }
        assert_eq!(Format::named("zap"), None);
    }

    #[test]
    fn numbers() {
        assert!(Format::Int32.accepts_number(&json!(2_147_483_647)));
        assert!(!Format::Int32.accepts_number(&json!(2_147_483_648_i64)));
        assert!(Format::Int64.accepts_number(&json!(i64::MIN)));
        assert!(!Format::Int64.accepts_number(&json!(1e19)));
    }
}
