//! How Go prints values: what cells of custom columns show. Knows no columns.
//!
//! Source: Go's `fmt` (`%v`) and `encoding/json`; client-go `third_party/forked/golang/template/exec.go`
//! (`PrintableValue`).

use serde_json::{Number, Value};

/// A value as text: scalars plainly, composites as JSON.
pub(super) fn print(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(n) => number_text(n, 21),
        Value::Bool(flag) => flag.to_string(),
        Value::Array(_) | Value::Object(_) => {
            let mut out = String::new();
            json(value, &mut out);
            out
        }
    }
}

/// A number as JSON: whole floats lose their fraction.
pub(super) fn number(n: &Number) -> Value {
    #[allow(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
    match n.as_f64() {
        Some(f) if n.is_f64() && f.fract() == 0.0 && f.abs() < 9e15 => Value::from(f as i64),
        _ => Value::Number(n.clone()),
    }
}

/// With an exponent from 1e`exponent_from` on and below 1e-4.
fn number_text(n: &Number, exponent_from: i32) -> String {
    let Some(f) = n.as_f64().filter(|_| n.is_f64()) else { return n.to_string() };
    let size = f.abs();
    if f == 0.0 || (1e-4..10f64.powi(exponent_from)).contains(&size) {
        return f.to_string();
    }
    let text = format!("{f:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
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
        Value::Number(n) => out.push_str(&number_text(n, 21)),
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
            (json!(0.00001), "1e-05"),
            (json!(true), "true"),
            (json!([1.0, "a<b", {"b": null, "a": []}]), "[1,\"a\\u003cb\",{\"a\":[],\"b\":null}]"),
        ] {
            assert_eq!(print(&value), expected, "{value}");
        }
        assert_eq!(number(&Number::from_f64(3.0).expect("finite")), json!(3));
        assert_eq!(number(&Number::from_f64(3.5).expect("finite")), json!(3.5));
    }
}
