//! A line for a POSIX shell, as far as runbooks use one: words with quotes, `&&`, `||`, `;`, groups in braces, `>&2`, and `$(...)`
//! as a part of a word. Must not know any command.

/// What stands between two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    And,
    Or,
    Then,
}

/// A command, and what joins it to the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Simple {
    pub joint: Joint,
    pub words: Vec<String>,
    /// What stands between braces in its place.
    pub group: Vec<Self>,
    /// What it prints goes to standard error.
    pub is_error: bool,
}

impl Simple {
    fn after(joint: Joint) -> Self {
        Self { joint, words: Vec::new(), group: Vec::new(), is_error: false }
    }

    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.group.is_empty()
    }
}

/// Groups in groups.
const DEPTH_MAX: usize = 8;

/// The commands of a line.
///
/// # Errors
/// A quote or a parenthesis that is not closed, or something that is not understood, in words.
pub(super) fn parse(line: &str) -> Result<Vec<Simple>, String> {
    let mut reader = Reader { chars: line.chars().collect(), at: 0 };
    list(&mut reader, 0)
}

/// Commands up to the end of the line, or of the group.
fn list(reader: &mut Reader, depth: usize) -> Result<Vec<Simple>, String> {
    if depth > DEPTH_MAX {
        return Err("groups stand too deep in each other".to_owned());
    }
    let mut found = Vec::new();
    let mut last = Simple::after(Joint::Then);
    loop {
        match reader.token()? {
            None if depth > 0 => return Err("`{` without `}`".to_owned()),
            None => break,
            // Only as the first word of a command, as in a shell; elsewhere braces are text.
            Some(Token::Word(word)) if last.is_empty() && word == "}" && depth > 0 => break,
            Some(Token::Word(word)) if last.is_empty() && word == "{" => {
                last.group = list(reader, depth + 1)?;
            }
            Some(Token::Word(word)) => last.words.push(word),
            Some(Token::ToError) => last.is_error = true,
            // The end of a line after `&&`.
            Some(Token::Joint(Joint::Then)) if last.is_empty() => {}
            Some(Token::Joint(joint)) => found.push(std::mem::replace(&mut last, Simple::after(joint))),
        }
    }
    // The last command has no joint behind it.
    found.push(last);
    found.retain(|simple| !simple.is_empty());
    Ok(found)
}

enum Token {
    Word(String),
    Joint(Joint),
    ToError,
}

struct Reader {
    chars: Vec<char>,
    at: usize,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn token(&mut self) -> Result<Option<Token>, String> {
        while self.peek(0).is_some_and(|c| c == ' ' || c == '\t') {
            self.at += 1;
        }
        if (self.peek(0), self.peek(1), self.peek(2)) == (Some('>'), Some('&'), Some('2')) {
            self.at += 3;
            return Ok(Some(Token::ToError));
        }
        let joint = match (self.peek(0), self.peek(1)) {
            (None, _) => return Ok(None),
            (Some('&'), Some('&')) => Some((Joint::And, 2)),
            (Some('|'), Some('|')) => Some((Joint::Or, 2)),
            (Some(';' | '\n'), _) => Some((Joint::Then, 1)),
            // Refused in place of being taken as text, which
            // would run something else than was meant.
            (Some(c @ ('&' | '|' | '>' | '<' | '`')), _) => {
                return Err(format!("`{c}` is not understood here"));
            }
            _ => None,
        };
        if let Some((joint, length)) = joint {
            self.at += length;
            return Ok(Some(Token::Joint(joint)));
        }
        self.word().map(|word| Some(Token::Word(word)))
    }

    fn word(&mut self) -> Result<String, String> {
        let mut word = String::new();
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' => break,
                '\'' => self.quoted('\'', &mut word)?,
                '"' => self.quoted('"', &mut word)?,
                // Nothing is run for it: the command that gets the word knows what was asked.
                '$' if self.peek(1) == Some('(') => self.substitution(&mut word)?,
                '\\' => {
                    word.extend(self.peek(1));
                    self.at += 2;
                }
                c => {
                    word.push(c);
                    self.at += 1;
                }
            }
        }
        Ok(word)
    }

    fn quoted(&mut self, quote: char, word: &mut String) -> Result<(), String> {
        self.at += 1;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            if c == quote {
                return Ok(());
            }
            // Within single quotes a backslash is itself; within double ones it escapes only these.
            let escaped = quote == '"' && c == '\\' && matches!(self.peek(0), Some('"' | '\\' | '$'));
            if escaped {
                word.extend(self.peek(0));
                self.at += 1;
            } else {
                word.push(c);
            }
        }
        Err("unterminated quoted string".to_owned())
    }

    /// Kept as it stands, from `$(` to `)`.
    fn substitution(&mut self, word: &mut String) -> Result<(), String> {
        while let Some(c) = self.peek(0) {
            word.push(c);
            self.at += 1;
            if c == ')' {
                return Ok(());
            }
        }
        Err("`$(` without `)`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<String>> {
        parse(line).expect("a line").into_iter().map(|simple| simple.words).collect()
    }

    #[test]
    fn lines_of_a_runbook_are_taken_apart() {
        assert_eq!(
            words("mkdir -p /a && cp '/x y' \"/z\" || crictl stop $(crictl ps -q --name '^etcd$'); true"),
            [
                vec!["mkdir", "-p", "/a"],
                vec!["cp", "/x y", "/z"],
                vec!["crictl", "stop", "$(crictl ps -q --name '^etcd$')"],
                vec!["true"],
            ]
        );
        let group = parse("test -s /k || { echo 'no key' >&2; false; } && next").expect("a line");
        let inner: Vec<(Vec<String>, bool)> =
            group[1].group.iter().map(|simple| (simple.words.clone(), simple.is_error)).collect();
        assert_eq!(
            inner,
            [(vec!["echo".to_owned(), "no key".to_owned()], true), (vec!["false".to_owned()], false)]
        );
        assert_eq!((group[2].joint, group[2].words.as_slice()), (Joint::And, ["next".to_owned()].as_slice()));
        assert_eq!(words("echo } {"), [["echo", "}", "{"]]);
        let lines = parse("a &&\nb\nc").expect("lines");
        assert_eq!(lines.iter().map(|s| s.joint).collect::<Vec<_>>(), [Joint::Then, Joint::And, Joint::Then]);
        let joints: Vec<Joint> = parse("a && b || c ; d").expect("a line").iter().map(|s| s.joint).collect();
        assert_eq!(joints, [Joint::Then, Joint::And, Joint::Or, Joint::Then]);
        assert_eq!(words("sudo -n sh -c 'a '\\''b'\\'''"), [["sudo", "-n", "sh", "-c", "a 'b'"]]);
        for wrong in ["a 'b", "a $(b", "a > b", "a | b", "{ a", &"{ ".repeat(50_000)] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
