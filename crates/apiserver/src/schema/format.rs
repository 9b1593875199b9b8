//! String and number formats of schemas. Unknown formats are ignored, as upstream does; `is_known`
//! lets a definition's author hear of them.
//!
//! Source: kube-openapi `pkg/validation/strfmt/{default,time,duration,kubernetes-extensions}.go`,
//! govalidator's patterns, apiextensions-apiserver `pkg/apiserver/validation/formats.go`, v0.36.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use capstan_base::go_duration::GoDuration;
use k8s_machinery::validation::address::is_cidr;
use k8s_machinery::validation::naming;

/// One format: its name as schemas write it, and what a text must look like.
#[derive(Debug)]
pub struct Format {
    pub word: &'static str,
    text: fn(&str) -> bool,
}

macro_rules! formats {
    ($($word:literal => $text:expr),+ $(,)?) => { &[$(Format { word: $word, text: $text }),+] };
}

const ALL: &[Format] = formats! {
    "int32" => |_| true,
    "int64" => |_| true,
    "float" => |_| true,
    "double" => |_| true,
    "bsonobjectid" => |text| text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
    "uri" => is_request_uri,
    "email" => is_email,
    "hostname" => is_hostname,
    "ipv4" => |text| text.parse::<Ipv4Addr>().is_ok(),
    "ipv6" => |text| text.parse::<Ipv6Addr>().is_ok(),
    "cidr" => is_cidr,
    "mac" => is_mac,
    "uuid" => |text| is_uuid(text, None),
    "uuid3" => |text| is_uuid(text, Some('3')),
    "uuid4" => |text| is_uuid(text, Some('4')),
    "uuid5" => |text| is_uuid(text, Some('5')),
    "isbn" => |text| is_isbn10(text) || is_isbn13(text),
    "isbn10" => is_isbn10,
    "isbn13" => is_isbn13,
    "creditcard" => is_credit_card,
    "ssn" => |text| fits(&SSN, text),
    "hexcolor" => |text| fits(&HEX_COLOR, text),
    "rgbcolor" => |text| fits(&RGB_COLOR, text),
    "byte" => |text| fits(&BASE64, text),
    "password" => |_| true,
    "date" => is_date,
    "duration" => |text| duration(text).is_some(),
    "datetime" => is_date_time,
    "date-time" => is_date_time,
    "k8s-short-name" => |text| naming::dns_label(text).is_empty(),
    "k8s-long-name" => |text| naming::dns_subdomain(text).is_empty(),
};

macro_rules! patterns {
    ($($name:ident = $pattern:literal;)+) => {
        $(static $name: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($pattern).ok());)+
    };
}

/// A pattern that does not compile would accept nothing; the tests below know better.
fn fits(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

patterns! {
    SSN = r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$";
    HEX_COLOR = r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR = r"^rgb\(\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*\)$";
    BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
    CARD = r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$";
    HOSTNAME = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    TIME = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    WORDS = r"([0-9]+)\s*([A-Za-zµ]+)";
}

impl Format {
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|format| format.word == name)
    }

    /// Formats of numbers do not apply to text.
    pub fn accepts_text(&self, text: &str) -> bool {
        (self.text)(text)
    }

    /// Formats of text do not apply to numbers.
    pub fn accepts_number(&self, value: &Value) -> bool {
        let Some(number) = value.as_f64() else { return true };
        match self.word {
            "int32" => (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number),
            // Floats are coarse near the bound, so the limit lies a little below it.
            "int64" => value.is_i64() || number.abs() < 9.223_372_036_854_775e18,
            "float" => number.abs() <= f64::from(f32::MAX),
            _ => true,
        }
    }
}

/// Does a format mean anything for values of this type?
pub fn is_known(type_: &str, format: &str) -> bool {
    match type_ {
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        "" | "string" => {
            Format::named(format).is_some() && !matches!(format, "int32" | "int64" | "float" | "double")
        }
        _ => false,
    }
}

fn is_request_uri(text: &str) -> bool {
    // As Go's `ParseRequestURI`: an absolute URI, or an absolute path.
    text.parse::<http::Uri>().is_ok_and(|uri| uri.scheme().is_some() || text.starts_with('/'))
}

fn is_email(text: &str) -> bool {
    let address = match (text.find('<'), text.strip_suffix('>')) {
        // The `<` stands before the `>` that is cut off, so one past it is still in the text.
        (Some(start), Some(inner)) => &inner[start + 1..],
        _ => text,
    };
    let fine = |part: &str| {
        !part.is_empty()
            && part.split('.').all(|word| !word.is_empty())
            && !part.contains([' ', '@', '<', '>', ','])
    };
    address.rsplit_once('@').is_some_and(|(user, host)| fine(user) && fine(host))
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|part| part.len() <= 63) && fits(&HOSTNAME, text)
}

fn is_mac(text: &str) -> bool {
    let hex =
        |length: usize| move |part: &str| part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit());
    let split = |separator: char, length: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.into_iter().all(hex(length))
    };
    split(':', 2, [6, 8, 20]) || split('-', 2, [6, 8, 20]) || split('.', 4, [3, 4, 10])
}

/// Dashes may be left out. `version` is the first digit of the third group; versions 4 and 5 also fix
/// the variant.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    let mut groups = Vec::new();
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(length) else { return false };
        if !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        groups.push(group);
        rest = after;
    }
    let variant = || groups[3].starts_with(['8', '9', 'a', 'b', 'A', 'B']);
    rest.is_empty() && version.is_none_or(|digit| groups[2].starts_with(digit) && (digit == '3' || variant()))
}

fn digits(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, ' ' | '-')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = digits(text);
    let values: Option<Vec<u32>> = text
        .char_indices()
        // `X` is ten, which only the check digit can be.
        .map(|(at, c)| if at == 9 && c == 'X' { Some(10) } else { c.to_digit(10) })
        .collect();
    values
        .is_some_and(|v| v.len() == 10 && (1..).zip(&v).map(|(weight, d)| weight * d).sum::<u32>() % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let values: Option<Vec<u32>> = digits(text).chars().map(|c| c.to_digit(10)).collect();
    let weighed = |v: &[u32]| [1, 3].into_iter().cycle().zip(v).map(|(weight, d)| weight * d).sum::<u32>();
    values.is_some_and(|v| v.len() == 13 && weighed(&v) % 10 == 0)
}

fn is_credit_card(text: &str) -> bool {
    // As govalidator, whatever stands between the digits is passed over.
    let number: String = text.chars().filter(char::is_ascii_digit).collect();
    let luhn: u32 = number
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(|(at, d)| if at % 2 == 0 { d } else { d * 2 - if d > 4 { 9 } else { 0 } })
        .sum();
    fits(&CARD, &number) && luhn.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    // chrono takes years of other lengths, too.
    text.len() == 10 && chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok()
}

fn is_date_time(text: &str) -> bool {
    // Upstream lowers the text first, so `t` and `z` may be small.
    let lower = text.to_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    let Some(parts) = TIME.as_ref().and_then(|pattern| pattern.captures(time)) else { return false };
    // Two digits each, so that texts compare as numbers do.
    is_date(date) && &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59"
}

/// Units in words: those that are written out, and how the longer ones begin.
const UNITS: [(&[&str], &str, GoDuration); 8] = [
    (&["ns"], "nano", GoDuration::from_ns(1)),
    (&["us", "µs"], "micro", GoDuration::from_ns(1_000)),
    (&["ms"], "milli", GoDuration::from_ns(1_000_000)),
    (&["s"], "sec", GoDuration::from_seconds(1)),
    (&["m"], "min", GoDuration::from_seconds(60)),
    (&["h", "hr"], "hour", GoDuration::from_seconds(3_600)),
    (&["d"], "day", GoDuration::from_days(1)),
    (&["w", "wk"], "week", GoDuration::from_days(7)),
];

/// As Go reads it (`1h30m`, `-1.5s`), or numbers with units in words, anywhere in the text.
pub fn duration(text: &str) -> Option<GoDuration> {
    GoDuration::parse(text).or_else(|| {
        let mut sum = None;
        for found in WORDS.as_ref()?.captures_iter(text) {
            let count: i64 = found[1].parse().ok()?;
            let word = found[2].to_lowercase();
            let unit =
                UNITS.iter().find(|(exact, start, _)| exact.contains(&&*word) || word.starts_with(start));
            if let Some((_, _, unit)) = unit {
                // What is too long wraps round, as upstream.
                sum = Some(i64::wrapping_add(sum.unwrap_or(0), count.wrapping_mul(unit.ns())));
            }
        }
        sum.map(GoDuration::from_ns)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_in_words() {
        for (text, expected) in [
            ("1h30m", Some("1h30m0s")),
            ("-1.5s", Some("-1.5s")),
            ("3 days", Some("72h0m0s")),
            ("1 Week and 2 HOURS", Some("170h0m0s")),
            ("22 ns", Some("22ns")),
            ("1 lightyear", None),
            ("99999999999999999999 s", None),
            ("soon", None),
        ] {
            assert_eq!(duration(text).map(|found| found.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn texts() {
        const UUID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
        for (format, good, bad) in [
            (
                "date-time",
                vec!["2026-11-20T10:00:00Z", "2026-11-20t10:00:00.5+01:00"],
                vec![
                    "2026-11-20",
                    "x",
                    "",
                    "2026-11-20T24:00:00Z",
                    "2026-11-20T10:00:60Z",
                    "2026-11-20T10:00:00",
                ],
            ),
            ("datetime", vec!["2026-11-20T10:00:00Z"], vec!["2026-11-20"]),
            ("date", vec!["2026-11-20"], vec!["2026-13-20", "2026-1-1"]),
            (
                "duration",
                vec!["1h30m", "10s", "1.5h", "0", "-2m", "3 days", "22 ns"],
                vec!["", "1", "h", "1x", "-"],
            ),
            ("byte", vec!["YQ==", "YWE=", "YWFh"], vec!["", "Y", "a b", "YQ"]),
            ("ipv4", vec!["10.0.0.1"], vec!["10.0.0", "::1"]),
            ("ipv6", vec!["::1"], vec!["10.0.0.1"]),
            ("cidr", vec!["10.0.0.0/8", "::/0"], vec!["10.0.0.0", "10.0.0.0/33"]),
            ("uuid", vec![UUID, "6BA7B8109DAD11D180B400C04FD430C8"], vec!["x", "6ba7b810"]),
            ("uuid3", vec!["6ba7b810-9dad-31d1-00b4-00c04fd430c8"], vec![UUID]),
            (
                "uuid4",
                vec!["6ba7b810-9dad-41d1-80b4-00c04fd430c8"],
                vec![UUID, "6ba7b810-9dad-41d1-00b4-00c04fd430c8"],
            ),
            ("uuid5", vec!["6ba7b810-9dad-51d1-b0b4-00c04fd430c8"], vec![UUID]),
            ("mac", vec!["00:11:22:33:44:55", "0011.2233.4455"], vec!["00:11", "00:11-22:33:44:55"]),
            ("hostname", vec!["a.b-c.de", "localhost"], vec!["a..b", "a b", "-a.de"]),
            ("uri", vec!["https://a.b/c", "/c"], vec!["a b", "c"]),
            ("email", vec!["a@b.c", "A B <a@b>"], vec!["a", "@b", "a@"]),
            ("isbn", vec!["0321751043", "978-0321751041"], vec!["0321751044", "1"]),
            ("isbn10", vec!["080442957X"], vec!["978-0321751041"]),
            ("isbn13", vec!["9780321751041"], vec!["9780321751042"]),
            ("creditcard", vec!["4111-1111-1111-1111"], vec!["4111111111111112", "1"]),
            ("ssn", vec!["111-11-1111", "111111111"], vec!["1111-11-111"]),
            ("hexcolor", vec!["#FFFFFF", "fff"], vec!["#ff"]),
            ("rgbcolor", vec!["rgb(255, 0,9)"], vec!["rgb(256,0,0)"]),
            ("bsonobjectid", vec!["507f1f77bcf86cd799439011"], vec!["507f"]),
            ("k8s-short-name", vec!["a-1"], vec!["A", "a.b"]),
            ("k8s-long-name", vec!["a.b"], vec!["a_b"]),
            ("password", vec!["anything"], vec![]),
        ] {
            let format = Format::named(format).expect(format);
            for text in good {
                assert!(format.accepts_text(text), "{} {text:?}", format.word);
            }
            for text in bad {
                assert!(!format.accepts_text(text), "{} {text:?}", format.word);
            }
        }
        assert!(Format::named("zap").is_none());
    }

    #[test]
    fn numbers() {
        let accepts =
            |format: &str, value: Value| Format::named(format).expect(format).accepts_number(&value);
        assert!(accepts("int32", json!(2_147_483_647)));
        assert!(!accepts("int32", json!(2_147_483_648_i64)));
        assert!(accepts("int64", json!(i64::MIN)));
        assert!(!accepts("int64", json!(1e19)));
        assert!(!accepts("float", json!(1e39)));
        assert!(accepts("double", json!(1e39)));
    }

    #[test]
    fn formats_belong_to_types() {
        for (type_, format, known) in [
            ("string", "date-time", true),
            ("string", "int32", false),
            ("integer", "int64", true),
            ("integer", "double", false),
            ("number", "float", true),
            ("object", "date", false),
            ("string", "zap", false),
        ] {
            assert_eq!(is_known(type_, format), known, "{type_} {format}");
        }
    }
}
