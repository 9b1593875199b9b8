//! Regular expressions as Go understands them, run by Rust's engine. Knows no schemas.
//!
//! Both are RE2 in spirit; they differ where this file translates: `\d`, `\w`, `\s` and `\b` are ASCII
//! in Go, and `[`, `&&`, `--`, `~~` mean nothing special inside of its brackets.

use std::fmt;

use regex_automata::meta::{self, Regex};
use regex_automata::nfa::thompson::WhichCaptures;

/// How large one compiled pattern may be; the crate regex has the same limit.
const PATTERN_BYTES_MAX: usize = 10 * 1024 * 1024;
/// What matching keeps for the next time, for each pattern and each thread that uses it at once.
const KEPT_BYTES_MAX: usize = 128 * 1024;

/// A compiled pattern that prints as its author wrote it.
#[derive(Clone)]
pub(super) struct Pattern {
    /// `None`: it is compiled whenever it is used, since it would take too much memory.
    regex: Option<Regex>,
    text: Box<str>,
}

impl Pattern {
    /// # Errors
    /// What is wrong with the expression.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        Ok(Self { regex: Some(compiled(text)?), text: text.into() })
    }

    /// The bytes that it takes while it is kept.
    pub(super) fn memory(&self) -> usize {
        self.text.len() + self.regex.as_ref().map_or(0, Regex::memory_usage)
    }

    /// The same pattern without its compiled form.
    pub(super) fn not_kept(self) -> Self {
        Self { regex: None, ..self }
    }

    pub(super) fn is_match(&self, value: &str) -> bool {
        match &self.regex {
            Some(regex) => regex.is_match(value),
            None => compiled(&self.text).is_ok_and(|regex| regex.is_match(value)),
        }
    }
}

/// # Errors
/// What is wrong with the expression.
fn compiled(text: &str) -> Result<Regex, String> {
    let config = meta::Config::new()
        .which_captures(WhichCaptures::None)
        .nfa_size_limit(Some(PATTERN_BYTES_MAX))
        .hybrid_cache_capacity(KEPT_BYTES_MAX);
    meta::Regex::builder().configure(config).build(&translate(text)).map_err(|error| {
        let Some(syntax) = error.syntax_error() else {
            return format!("it takes more than {} MiB of memory", PATTERN_BYTES_MAX >> 20);
        };
        // The last line is the reason; those before it draw arrows.
        let said = syntax.to_string();
        said.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

/// From Go's syntax to Rust's.
fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut chars = text.chars().peekable();
    // Inside of brackets; how many characters of them were read.
    let mut class: Option<usize> = None;
    while let Some(c) = chars.next() {
        let first = class == Some(0);
        // A `]` that comes first, also behind `^`, is a character and does not end the class.
        class = class.map(|read| read + usize::from(!(first && c == '^')));
        match (c, class) {
            ('\\', _) => escape(chars.next(), class.is_some(), &mut out),
            ('[', None) => {
                out.push('[');
                class = Some(0);
            }
            // A named class: `[:alpha:]`.
            ('[', Some(_)) if chars.peek() == Some(&':') => {
                out.push('[');
                for c in chars.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            ('[', Some(_)) => out.push_str("\\["),
            (']', Some(read)) if read > 1 => {
                out.push(']');
                class = None;
            }
            (']', Some(_)) => out.push_str("\\]"),
            ('&' | '~', Some(_)) => {
                out.push('\\');
                out.push(c);
            }
            // A range that ends in a dash.
            ('-', Some(_)) if chars.next_if_eq(&'-').is_some() => out.push_str("-\\-"),
            _ => out.push(c),
        }
    }
    out
}

/// What follows a backslash.
fn escape(c: Option<char>, in_class: bool, out: &mut String) {
    let (plain, set) = match c {
        Some('d') => ("[0-9]", "0-9"),
        Some('D') => ("[^0-9]", "[^0-9]"),
        Some('w') => ("[0-9A-Za-z_]", "0-9A-Za-z_"),
        Some('W') => ("[^0-9A-Za-z_]", "[^0-9A-Za-z_]"),
        // Go's `\s` has no vertical tab.
        Some('s') => (r"[\t\n\f\r ]", r"\t\n\f\r "),
        Some('S') => (r"[^\t\n\f\r ]", r"[^\t\n\f\r ]"),
        Some('b') if !in_class => (r"(?-u:\b)", ""),
        Some('B') if !in_class => (r"(?-u:\B)", ""),
        Some(c) => {
            out.push('\\');
            return out.push(c);
        }
        None => return out.push('\\'),
    };
    out.push_str(if in_class { set } else { plain });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, good, bad) in [
            (r"^\d+$", "12", "٣"),
            (r"^[\w.]+$", "a_1.", "ä"),
            (r"^[^\s]$", "\u{a0}", " "),
            (r"^[[a]+$", "[a", "b"),
            (r"^[]a]+$", "]a", "b"),
            (r"^[^]a]+$", "b", "]"),
            (r"^[a&&b]+$", "&ab", "c"),
            (r"^[+--]+$", "+,-", "."),
            (r"^[[:alpha:]]+$", "ab", "1"),
            (r"\bx\b", "äx", "ax"),
            (r"^[a-z\-]+$", "a-b", "A"),
        ] {
            let compiled = Pattern::new(pattern).expect(pattern);
            assert!(compiled.is_match(good), "{pattern} {good}");
            assert!(!compiled.is_match(bad), "{pattern} {bad}");
            assert_eq!(compiled.to_string(), pattern);
        }
        assert_eq!(Pattern::new("(").map(|_| ()), Err("unclosed group".to_owned()));
    }

    #[test]
    fn what_is_not_kept_means_the_same_and_takes_nothing() {
        let kept = Pattern::new("^[a-z]{1,63}$").expect("a pattern");
        assert!(kept.memory() > 1_000, "{}", kept.memory());
        let other = kept.not_kept();
        assert!(other.memory() < 20 && other.is_match("abc") && !other.is_match("A"), "{}", other.memory());
        let large = Pattern::new(r"^(\pL{1,1000}){1,100}$").map(|_| ());
        assert_eq!(large, Err("it takes more than 10 MiB of memory".to_owned()));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in r"[\[\]\\^a-c&~:dwsDWSbB(){}|*+?0-9-]{0,16}") {
            if let Ok(pattern) = Pattern::new(&text) {
                let _ = pattern.is_match("ab-1");
            }
        }
    }
}
