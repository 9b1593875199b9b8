//! The types of flags, and whether a text is one of their values. Owns how Go's flag packages read texts; must not know a flag.
//!
//! Source: pflag `*.go` (`Set`), `strconv` (base 0), component-base `cli/flag`, klog `VModule`, etcd `pkg/flags` and
//! `client/pkg/types` (`NewURLs`).

use super::super::network::parse_ip;
use super::super::units::{go_bool, quantity_milli};
use capstan_base::go_duration::GoDuration;

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlagType {
    Bool,
    /// Whole numbers of so many bits.
    Signed(u32),
    Unsigned(u32),
    Float,
    Duration,
    Address,
    Quantity,
    /// Words with commas, in which quotes have to be closed.
    Words,
    Numbers,
    /// `KEY=VALUE` with commas.
    Pairs,
    /// The same, where a key may stand alone.
    Switches,
    /// `CERTIFICATE,KEY[:NAMES]`.
    CertificateAndKey,
    Ports,
    /// `PATTERN=N` with commas.
    Patterns,
    Urls,
    /// `RESOURCE#SIZE` with commas.
    Sizes,
    /// Whatever stands there is taken by the parser.
    Text,
}

impl FlagType {
    /// By the word of the table.
    pub(super) fn named(word: &str) -> Self {
        match word {
            "bool" => Self::Bool,
            "int" | "int64" => Self::Signed(64),
            "int32" => Self::Signed(32),
            // component-base reads 31 bits without a sign, as klog has a level of 32 with one.
            "Level" => Self::Unsigned(31),
            "uint" | "uint64" => Self::Unsigned(64),
            "uint32" => Self::Unsigned(32),
            "float32" | "float64" => Self::Float,
            "duration" => Self::Duration,
            "ip" => Self::Address,
            "quantity" => Self::Quantity,
            "stringSlice" => Self::Words,
            "int32Slice" => Self::Numbers,
            "stringToString" => Self::Pairs,
            "mapStringString" => Self::Switches,
            "namedCertKey" => Self::CertificateAndKey,
            "portRange" => Self::Ports,
            "pattern=N,..." => Self::Patterns,
            "urls" => Self::Urls,
            _ => Self::Text,
        }
    }

    /// What is wrong with a text, in words that follow a colon.
    pub(super) fn problem(self, text: &str) -> Option<String> {
        (!self.takes(text)).then(|| format!("it wants {}", self.expectation()))
    }

    fn takes(self, text: &str) -> bool {
        match self {
            Self::Bool => go_bool(text).is_some(),
            Self::Signed(bits) => whole_number(text).is_some_and(|number| fits_signed(number, bits)),
            Self::Unsigned(bits) => {
                // Go's reader of unsigned numbers takes no sign, `+` neither.
                whole_number(text).is_some_and(|number| !text.starts_with(['-', '+']) && number >> bits == 0)
            }
            Self::Float => text.parse::<f64>().is_ok(),
            Self::Duration => GoDuration::parse(text).is_some(),
            // pflag takes an empty address as none.
            Self::Address => text.is_empty() || parse_ip(text.trim()).is_some(),
            Self::Quantity => quantity_milli(text).is_some(),
            Self::Words => text.is_empty() || is_csv(text),
            Self::Numbers => {
                text.split(',').all(|part| whole_number(part).is_some_and(|number| fits_signed(number, 32)))
            }
            Self::Pairs => is_csv(text) && text.split(',').all(|pair| pair.contains('=')),
            Self::Switches => true,
            Self::CertificateAndKey => is_certificate_and_key(text),
            Self::Ports => text.is_empty() || is_port_range(text),
            Self::Patterns => text.split(',').filter(|part| !part.is_empty()).all(is_pattern),
            Self::Urls => is_urls(text),
            Self::Sizes => text.split(',').filter(|part| !part.is_empty()).all(is_size),
            Self::Text => true,
        }
    }

    fn expectation(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Signed(_) | Self::Unsigned(_) => "a whole number within its bounds",
            Self::Float => "a number",
            Self::Duration => "a duration such as 30s or 1h30m",
            Self::Address => "an IP address",
            Self::Quantity => "a quantity such as 512Ki",
            Self::Words => "words with commas between them, and quotes that are closed",
            Self::Numbers => "whole numbers with commas between them",
            Self::Pairs | Self::Switches => "KEY=VALUE, with commas between several",
            Self::CertificateAndKey => "CERTIFICATE,KEY or CERTIFICATE,KEY:NAMES",
            Self::Ports => "a range of ports such as 30000-32767",
            Self::Patterns => "PATTERN=NUMBER, with commas between several",
            Self::Urls => "URLs such as https://10.0.0.1:2379, with commas between them",
            Self::Sizes => "RESOURCE#SIZE, with commas between several",
            Self::Text => "a text",
        }
    }
}

/// A whole number as Go reads it with base 0: `10`, `0x1f`, `0b1`, `0o17`, `017`, `1_000`.
pub(super) fn whole_number(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    // By `get`: in a text that is not ASCII the second byte may be the middle of a character.
    let (base, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    // Go takes `_` between digits and behind the sign of a base (`0x_1f`), nowhere else.
    let is_split_wrong =
        digits.starts_with('_') && base == 10 || digits.ends_with('_') || digits.contains("__");
    let plain = digits.replace('_', "");
    if is_split_wrong || plain.starts_with(['+', '-']) {
        return None;
    }
    i128::from_str_radix(&plain, base).ok().map(|number| sign * number)
}

fn fits_signed(number: i128, bits: u32) -> bool {
    let limit = 1_i128 << (bits - 1);
    (-limit..limit).contains(&number)
}

/// One line of comma separated values: a quote stands at the beginning of an item and at its end, or doubled within.
fn is_csv(text: &str) -> bool {
    let mut rest = text;
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let Some(end) = closing(quoted) else { return false };
            rest = &quoted[end + 1..];
            if !rest.is_empty() && !rest.starts_with(',') {
                return false;
            }
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            if rest[..end].contains('"') {
                return false;
            }
            rest = &rest[end..];
        }
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => return true,
        }
    }
}

/// Where the quote is that ends an item; two of them are one within it.
fn closing(quoted: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + quoted[from..].find('"')?;
        if !quoted[at + 1..].starts_with('"') {
            return Some(at);
        }
        from = at + 2;
    }
}

fn is_certificate_and_key(text: &str) -> bool {
    let files = text.split_once(':').map_or(text, |(files, _)| files);
    let files: Vec<&str> = files.split(',').collect();
    files.len() == 2 && files.iter().all(|file| !file.trim().is_empty())
}

/// Source: apimachinery `util/net/port_range.go` (`Set`).
fn is_port_range(text: &str) -> bool {
    let port = |text: &str| text.trim().parse::<u32>().ok().filter(|port| *port <= 65_535);
    let text = text.trim();
    if let Some((first, last)) = text.split_once('-') {
        return port(first).zip(port(last)).is_some_and(|(first, last)| first <= last);
    }
    // `30000+100` is the range that begins there and has so many ports more.
    if let Some((first, more)) = text.split_once('+') {
        return port(first).zip(port(more)).is_some_and(|(first, more)| first + more <= 65_535);
    }
    port(text).is_some()
}

fn is_pattern(part: &str) -> bool {
    let pair = part.split_once('=').filter(|(pattern, _)| !pattern.is_empty());
    pair.is_some_and(|(_, level)| level.parse::<i32>().is_ok_and(|level| level >= 0))
}

fn is_size(part: &str) -> bool {
    let pair = part.split_once('#').filter(|(resource, _)| !resource.is_empty());
    pair.is_some_and(|(_, size)| size.trim().parse::<u32>().is_ok())
}

fn is_urls(text: &str) -> bool {
    // etcd takes two texts in place of URLs: none at all, and `*` for any origin in `--cors`.
    text.is_empty() || text == "*" || text.split(',').all(|url| is_url(url.trim()))
}

fn is_url(url: &str) -> bool {
    let Some((scheme, place)) = url.split_once("://") else { return false };
    match scheme {
        // A socket is a file, and needs no port.
        "unix" | "unixs" => true,
        "http" | "https" => {
            // etcd refuses a URL without a port.
            let bare = place.rsplit_once(':').filter(|(host, port)| !host.is_empty() && !port.is_empty());
            bare.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_go_reads_them() {
        let table: [(&str, &[&str], &[&str]); 15] = [
            ("bool", &["true", "T", "0", "False"], &["", "yes", "tru"]),
            (
                "int",
                &["0", "-1", "0x1f", "017", "1_000", "+3"],
                &["", "thirty", "1.5", "1e3", "08", "0x", "1__0", "9223372036854775808"],
            ),
            ("int32", &["2147483647", "-2147483648"], &["2147483648", "abc"]),
            ("uint", &["0", "18446744073709551615"], &["-1", "18446744073709551616", ""]),
            ("Level", &["0", "10"], &["-1", "x"]),
            ("float32", &["1", "-0.5", "1e3", "inf"], &["", "abc", "1,5"]),
            ("duration", &["1h", "1h30m", "0", "-5s", "1.5s"], &["", "forever", "1", "1d"]),
            ("ip", &["", "10.0.0.1", "fd00::1", " ::1"], &["10.0.0", "host"]),
            ("quantity", &["0", "512Ki"], &["x", ""]),
            ("stringSlice", &["", "a", "a,b", "\"a,b\",c"], &["\"a", "\"a\"b", "a\"b"]),
            ("int32Slice", &["1", "1,2"], &["", "1,x"]),
            ("stringToString", &["a=b", "a=b,c=d"], &["", "a"]),
            ("namedCertKey", &["/a,/b", "/a,/b:x,y"], &["", "/a", "/a,/b,/c"]),
            ("portRange", &["", "30000-32767", "1+2", "80"], &["2-1", "a-b", "1-70000", "70000"]),
            (
                "urls",
                &["https://10.0.0.1:1", "http://a:1,http://b:2", "unix://x", ""],
                &["x", "https://10.0.0.1", "ftp://a:1"],
            ),
        ];
        for (word, good, bad) in table {
            let form = FlagType::named(word);
            for text in good {
                assert_eq!(form.problem(text), None, "{word} {text}");
            }
            for text in bad {
                assert!(form.problem(text).is_some(), "{word} {text}");
            }
        }
        assert_eq!(FlagType::named("pattern=N,...").problem("a=1,b*=2"), None);
        assert!(FlagType::named("pattern=N,...").problem("a").is_some());
    }
}
