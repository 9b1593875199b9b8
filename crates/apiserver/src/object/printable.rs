//! Characters that Go does not print: everything but letters, marks, numbers, punctuation, symbols and the blank of
//! ASCII. Knows no fields.
//!
//! Source: Go `unicode/graphic.go` (`IsPrint`).

use std::sync::LazyLock;

use regex::Regex;

static NOT_PRINTABLE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[^ \p{L}\p{M}\p{N}\p{P}\p{S}]").ok());

/// The characters of a text that are not printable, each with the byte at which it begins.
pub fn not_printable(text: &str) -> impl Iterator<Item = (usize, char)> {
    let found = NOT_PRINTABLE.iter().flat_map(move |pattern| pattern.find_iter(text));
    found.filter_map(|found| Some((found.start(), found.as_str().chars().next()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_prints() {
        for text in ["", "use g/v2 instead.", "é, e\u{301}, 世界, Ⅷ, «x», €, \u{1f600}, \u{fffd}"] {
            assert_eq!(not_printable(text).next(), None, "{text}");
        }
        for (text, expected) in [
            ("a\nb\t", &[(1, '\n'), (3, '\t')][..]),
            // A blank that is not ASCII's, a soft hyphen, a line separator, marks of direction.
            ("é\u{a0}", &[(2, '\u{a0}')]),
            ("a\u{ad}", &[(1, '\u{ad}')]),
            ("\u{2028}\u{202e}", &[(0, '\u{2028}'), (3, '\u{202e}')]),
            // For private use, and not assigned.
            ("\u{e000}\u{e0080}", &[(0, '\u{e000}'), (3, '\u{e0080}')]),
        ] {
            assert_eq!(not_printable(text).collect::<Vec<_>>(), expected, "{text:?}");
        }
    }
}
