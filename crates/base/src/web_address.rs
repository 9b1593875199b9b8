//! Addresses of the web in text from outside: which parts of a text may become a link. Owns what a link may be made of. Must not know
//! where the text came from, nor how a link is shown.

use std::ops::Range;

use crate::text::is_hostile;

/// What terminals take: longer ones are refused by some of them.
const BYTES_MAX: usize = 2_048;
/// Links in one text; what follows stays text.
const LINKS_MAX: usize = 32;

const SCHEMES: [&str; 2] = ["https://", "http://"];

/// Whether the whole of `text` is an address that may become a link: http or https, printable ASCII without quotes and brackets, a host,
/// and no name of a user before it, which could look like the host.
pub fn is_web_address(text: &str) -> bool {
    let Some(rest) = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme)) else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_host = host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[') && !host.contains('@');
    is_host && text.len() <= BYTES_MAX && text.chars().all(is_allowed)
}

/// The addresses in a text. A word with a character that must not reach a terminal, or with what stands for one, has none.
pub fn web_addresses(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        found.extend(in_word(word).map(|range| start + range.start..start + range.end));
        start += word.len();
        if found.len() == LINKS_MAX {
            break;
        }
    }
    found
}

/// What the RFC of addresses allows, without what ends one in a sentence: quotes and angle brackets.
fn is_allowed(c: char) -> bool {
    c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '<' | '>' | '`' | '{' | '}' | '|' | '\\' | '^')
}

fn in_word(word: &str) -> Option<Range<usize>> {
    let word = word.trim_end();
    if word.contains(|c: char| is_hostile(c) || c == '\u{fffd}') {
        return None;
    }
    let start = SCHEMES.iter().filter_map(|scheme| word.find(scheme)).min()?;
    // Behind a letter or a digit it is the end of another word.
    if word[..start].ends_with(|c: char| c.is_alphanumeric()) {
        return None;
    }
    let length = word[start..].find(|c| !is_allowed(c)).unwrap_or(word.len() - start);
    // A name in another script would lose its end, and lead to another host.
    if word[start + length..].starts_with(|c: char| !c.is_ascii()) {
        return None;
    }
    let address = without_stop(&word[start..start + length]);
    is_web_address(address).then(|| start..start + address.len())
}

/// Without the marks of the sentence around it. A closing bracket belongs to it where it was opened in it.
fn without_stop(address: &str) -> &str {
    let mut address = address;
    loop {
        let shorter = address.trim_end_matches(['.', ',', ';', ':', '!', '?']);
        let is_closed = |open: char, close: char| {
            shorter.ends_with(close) && shorter.matches(open).count() < shorter.matches(close).count()
        };
        let has_foreign_end = is_closed('(', ')') || is_closed('[', ']');
        let shorter = if has_foreign_end { &shorter[..shorter.len() - 1] } else { shorter };
        if shorter.len() == address.len() {
            return address;
        }
        address = shorter;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        web_addresses(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn addresses_end_where_the_sentence_around_them_goes_on() {
        for (text, expected) in [
            ("see https://runbooks.example/etcd.", &["https://runbooks.example/etcd"][..]),
            (
                "(http://a.example/b_(c)), \"https://d.example\"",
                &["http://a.example/b_(c)", "https://d.example"],
            ),
            ("Post \"https://10.0.0.1:6443/x?timeout=10s\": EOF", &["https://10.0.0.1:6443/x?timeout=10s"]),
            ("url=https://a.example/#x;", &["https://a.example/#x"]),
            ("https://[::1]:9443/healthz]", &["https://[::1]:9443/healthz"]),
            ("no address, ftp://a.example, https:// alone", &[]),
            ("xhttps://a.example", &[]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn what_could_steer_or_mislead_is_no_link() {
        for text in [
            // What a control character became, and one that is still there.
            "\u{fffd}]8;;https://a.example/\u{fffd}\\link",
            "https://a.example/\u{1b}[2J",
            "https://a.example/\u{202e}gpj",
            "https://bank.example@evil.example/login",
            "javascript://https:alert",
            "https://b\u{fc}cher.example/",
        ] {
            assert_eq!(found(text), Vec::<&str>::new(), "{text:?}");
        }
        let long = format!("https://a.example/{}", "x".repeat(BYTES_MAX));
        assert_eq!(found(&long), Vec::<&str>::new());
        assert_eq!(found(&"https://a.example ".repeat(100)).len(), LINKS_MAX);
    }
}
