//! How Go prints values: what cells of custom columns show. Knows no columns.
//!
//! Source: Go's `fmt` (`%v`), `encoding/json` and `time`; client-go `third_party/forked/golang/template/exec.go`
//! (`PrintableValue`); apimachinery `api/meta/table/table.go` (`ConvertToHumanReadableDateType`), v0.36. Every case of
//! the tests below was printed by upstream's `tableconvertor` first.

use serde_json::{Number, Value};

use capstan_base::time::{self, Timestamp};

/// Longest age a Go duration can hold; whatever is older has this one.
const AGE_MAX_S: i64 = i64::MAX / 1_000_000_000;

/// A value as text: scalars plainly, composites as JSON.
pub(super) fn print(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(n) => number_text(n, Style::Plain),
        Value::Bool(flag) => flag.to_string(),
        Value::Array(_) | Value::Object(_) => {
            let mut out = String::new();
            json(value, &mut out);
            out
        }
    }
}

/// What a column of numbers holds, a float, as JSON: whole ones lose their fraction.
pub(super) fn number(n: &Number) -> Value {
    #[allow(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
    match n.as_f64() {
        Some(f) if f.fract() == 0.0 && f.abs() < 9e18 => Value::from(f as i64),
        Some(f) => Value::from(f),
        None => Value::Null,
    }
}

/// What a column of integers holds: the fraction is cut off, and what is out of range becomes the
/// smallest integer, as in a Go program on amd64.
pub(super) fn integer(n: &Number) -> Value {
    #[allow(clippy::cast_possible_truncation, reason = "checked to be in range")]
    let cut = |f: f64| if f.abs() < 2f64.powi(63) { f as i64 } else { i64::MIN };
    n.as_i64().or_else(|| n.as_f64().map(cut)).into()
}

/// The age of an RFC 3339 text: `<unknown>` for none and for Go's zero time, `<invalid>` for what is not a moment and for
/// the future.
pub(super) fn since(text: &str, now: Timestamp) -> Value {
    const UNKNOWN: &str = "<unknown>";
    // Of the letters Go takes only the large ones, and it knows no leap seconds.
    let taken = !text.contains(['t', 'z', ' ']) && text.get(17..19) != Some("60");
    match (text, time::parse_rfc3339(text).filter(|_| taken)) {
        ("" | "0001-01-01T00:00:00Z", _) => UNKNOWN.into(),
        (_, Some(then)) => time::human_duration((now - then).num_seconds().min(AGE_MAX_S)).into(),
        (_, None) => "<invalid>".into(),
    }
}

/// How floats are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `%v`
    Plain,
    Json,
}

impl Style {
    /// Sizes that are written without an exponent.
    fn without_exponent(self) -> std::ops::Range<f64> {
        match self {
            Self::Plain => 1e-4..1e6,
            Self::Json => 1e-6..1e21,
        }
    }
}

fn number_text(n: &Number, style: Style) -> String {
    let Some(f) = n.as_f64().filter(|_| n.is_f64()) else { return n.to_string() };
    // Rust's plain form has no exponent at any size.
    if f == 0.0 || style.without_exponent().contains(&f.abs()) {
        return f.to_string();
    }
    let text = format!("{f:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    // Go's JSON writes `e-7`, where `%v` has `e-07`.
    let width = if style == Style::Json && sign == '-' { 1 } else { 2 };
    format!("{digits}e{sign}{exponent:0>width$}")
}

/// Keys in order, and the characters that HTML minds escaped.
fn json(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, field)) in fields.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                json(&Value::from(key.as_str()), out);
                out.push(':');
                json(field, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                json(item, out);
            }
            out.push(']');
        }
        Value::Number(n) => out.push_str(&number_text(n, Style::Json)),
        other => {
            let text = other.to_string();
            for c in text.chars() {
                match c {
                    '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                        out.push_str(&format!("\\u{:04x}", u32::from(c)));
                    }
                    c => out.push(c),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_print_as_go_prints_them() {
        for (value, expected) in [
            (json!(null), "<no value>"),
            (json!("a<b"), "a<b"),
            (json!(3), "3"),
            (json!(3.0), "3"),
            (json!(3.5), "3.5"),
            (json!(1e21), "1e+21"),
            (json!(999_999.5), "999999.5"),
            (json!(1_000_000.5), "1.0000005e+06"),
            (json!([1_000_000.5]), "[1000000.5]"),
            (json!(0.00001), "1e-05"),
            (json!(true), "true"),
            (json!([1.0, "a<b", {"b": null, "a": []}]), "[1,\"a\\u003cb\",{\"a\":[],\"b\":null}]"),
            (json!([1e21, 0.0000001, 0.00001]), "[1e+21,1e-7,0.00001]"),
        ] {
            assert_eq!(print(&value), expected, "{value}");
        }
        assert_eq!(number(&Number::from_f64(3.0).expect("finite")), json!(3));
        assert_eq!(number(&Number::from_f64(3.5).expect("finite")), json!(3.5));
        assert_eq!(number(&Number::from(i64::MAX)), json!(2f64.powi(63)));
        assert_eq!(number(&Number::from(9_007_199_254_740_993_u64)), json!(9_007_199_254_740_992_u64));
        assert_eq!(integer(&Number::from_f64(-3.7).expect("finite")), json!(-3));
        assert_eq!(integer(&Number::from_f64(1e20).expect("finite")), json!(i64::MIN));
    }
    #[test]
    fn ages_are_those_go_prints() {
        let now = time::parse_rfc3339("2026-11-20T10:00:00.9Z").expect("a moment");
        for (text, expected) in [
            ("", "<unknown>"),
            ("0001-01-01T00:00:00Z", "<unknown>"),
            ("2026-11-20T10:00:00Z", "0s"),
            ("2026-11-20T09:58:01Z", "119s"),
            ("2026-11-20T11:58:01+02:00", "119s"),
            ("2026-11-20T10:00:02Z", "0s"),
            ("2026-11-20T10:00:03Z", "<invalid>"),
            ("2999-01-01T00:00:00Z", "<invalid>"),
            ("1600-01-01T00:00:00Z", "292y"),
            ("2026-11-20t10:00:00Z", "<invalid>"),
            ("2026-11-20T10:00:00z", "<invalid>"),
            ("2026-11-20 10:00:00Z", "<invalid>"),
            ("2026-11-20T09:00:60Z", "<invalid>"),
            ("2026-11-20T24:00:00Z", "<invalid>"),
            ("2026-11-20", "<invalid>"),
            ("soon", "<invalid>"),
        ] {
            assert_eq!(since(text, now), expected, "{text}");
        }
    }
}
