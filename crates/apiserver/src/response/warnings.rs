//! `Warning` headers: which texts are sent, and how they are written. Must not know what they mean.
//!
//! Source: apiserver `pkg/endpoints/filters/warning.go`, apimachinery `pkg/util/net/http.go`, v0.35.

use http::{HeaderMap, HeaderValue, header};

/// All texts of an answer together; beyond it each is cut to [`CHARS_EACH_MAX`].
const CHARS_MAX: usize = 4 * 1024;
const CHARS_EACH_MAX: usize = 256;

/// Adds one header per text that is not there yet. When the texts are long each is cut, and what
/// still does not fit is left out.
pub fn add(headers: &mut HeaderMap, texts: &[String]) {
    let total: usize = texts.iter().map(|text| text.chars().count()).sum();
    let each = if total > CHARS_MAX { CHARS_EACH_MAX } else { CHARS_MAX };
    let mut left = CHARS_MAX;
    for text in texts {
        let text: String = text.chars().filter(|c| !c.is_control()).take(each).collect();
        let Some(rest) = left.checked_sub(text.chars().count()) else { return };
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) else { continue };
        if !headers.get_all(header::WARNING).iter().any(|there| *there == value) {
            headers.append(header::WARNING, value);
            left = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(texts: &[String]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        add(&mut headers, texts);
        let all = headers.get_all(header::WARNING).iter();
        all.map(|value| String::from_utf8(value.as_bytes().to_vec()).expect("text")).collect()
    }

    #[test]
    fn texts_are_quoted_and_said_once() {
        let texts = ["unknown field \"a\\b\"", "unknown field \"a\\b\"", "Größe\r\nx: y"].map(str::to_owned);
        assert_eq!(written(&texts), ["299 - \"unknown field \\\"a\\\\b\\\"\"", "299 - \"Größex: y\""]);
    }

    #[test]
    fn there_is_an_end_to_warnings() {
        let long: Vec<String> = (0..40).map(|n| format!("{n:02}{}", "x".repeat(500))).collect();
        let written = written(&long);
        assert_eq!(written.len(), CHARS_MAX / CHARS_EACH_MAX);
        assert!(written.iter().all(|text| text.len() == CHARS_EACH_MAX + "299 - \"\"".len()));
        assert_eq!(super::tests::written(&long[..1]), [format!("299 - \"{}\"", long[0])]);
    }
}
