//! A line for the shell of a host. Owns quoting: nothing but fixed text and quoted words makes a line. Must not know which
//! lines there are.

use std::fmt;

use serde::Serialize;

/// What stands for a word in a template.
const BLANK: &str = "{}";

/// One line for a POSIX shell. Its template is fixed text of this program; everything else in it came through quoting, so
/// that no text of a cluster, a record, or a document can become a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct CommandLine(String);

impl CommandLine {
    /// Each `{}` of the template becomes one word, quoted for a POSIX shell.
    pub fn of<const WORDS: usize>(template: &'static str, words: [&str; WORDS]) -> Self {
        debug_assert_eq!(template.matches(BLANK).count(), WORDS, "{template}");
        let mut parts = template.split(BLANK);
        let mut line = parts.next().unwrap_or_default().to_owned();
        for (part, word) in parts.zip(words) {
            line.push_str(&quoted(word));
            line.push_str(part);
        }
        Self(line)
    }

    /// The same behind fixed text.
    pub fn behind(self, text: &'static str) -> Self {
        Self(format!("{text}{}", self.0))
    }

    /// The same, and fixed text for when it fails.
    pub fn or(self, text: &'static str) -> Self {
        Self(format!("{} || {text}", self.0))
    }

    /// The same with more words.
    pub fn with(self, words: &Self) -> Self {
        Self(format!("{} {}", self.0, words.0))
    }

    /// The same, only where `test` fails.
    pub fn unless(self, test: &Self) -> Self {
        Self(format!("{} || {}", test.0, self.0))
    }

    /// The same, which prints words when it fails.
    pub fn or_echo(self, words: &str) -> Self {
        Self(format!("{} || echo {}", self.0, quoted(words)))
    }

    /// Lines of which each is run, whatever became of those before.
    pub fn one_after_the_other(lines: &[Self]) -> Self {
        let lines: Vec<&str> = lines.iter().map(Self::as_str).collect();
        Self(lines.join("; "))
    }

    /// The line as it is typed, its words quoted.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A word that a shell reads as it stands: in quotes, unless nothing in it means anything to a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | ':' | '@');
    // An empty word without quotes would vanish, and the next one take its place.
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        // Within single quotes a shell knows no escape: they end, one escaped quote follows, and
        // they begin anew.
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn words_stay_what_they_are() {
        for (word, expected) in [
            ("/etc/kubernetes/pki", "/etc/kubernetes/pki"),
            ("r.example:5000/coredns:v1@sha256:0a", "r.example:5000/coredns:v1@sha256:0a"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("~", "'~'"),
        ] {
            assert_eq!(CommandLine::of("echo {}", [word]).as_str(), format!("echo {expected}"));
        }
    }

    #[test]
    fn a_shell_reads_each_word_as_it_was_given() {
        for word in [
            "; exit 3;",
            "$(exit 3)",
            "`exit 3`",
            "a\nexit 3",
            "'",
            "'; exit 3; '",
            "\\",
            "*",
            "{}",
            "${HOME}",
        ] {
            let line = CommandLine::of("printf %s {} && printf %s {}", [word, "end"]);
            let output = Command::new("sh").arg("-c").arg(line.as_str()).output().expect("a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{word}end"), "{line}");
        }
    }

    #[test]
    fn a_line_may_be_a_word_of_another_line() {
        let inner = CommandLine::of("test -e {}", ["it's"]);
        let outer = CommandLine::of("sh -c {}", [inner.as_str()]);
        assert_eq!(outer.to_string(), r"sh -c 'test -e '\''it'\''\'\'''\''s'\'''");
    }
}
