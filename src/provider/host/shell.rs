//! A line for a POSIX shell, as far as runbooks use one: words with quotes, `&&`, `||`, `;`, and `$(...)` as a part of a
//! word. Must not know any command.

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
}

/// The commands of a line.
///
/// # Errors
/// A quote or a parenthesis that is not closed, or something that is not understood, in words.
pub(super) fn parse(line: &str) -> Result<Vec<Simple>, String> {
    let mut reader = Reader { chars: line.chars().collect(), at: 0 };
    let mut found = vec![Simple { joint: Joint::Then, words: Vec::new() }];
    while let Some(token) = reader.token()? {
        match token {
            Token::Word(word) => {
                if let Some(last) = found.last_mut() {
                    last.words.push(word);
                }
            }
            Token::Joint(joint) => found.push(Simple { joint, words: Vec::new() }),
        }
    }
    found.retain(|simple| !simple.words.is_empty());
    Ok(found)
}

enum Token {
    Word(String),
    Joint(Joint),
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
        let joint = match (self.peek(0), self.peek(1)) {
            (None, _) => return Ok(None),
            (Some('&'), Some('&')) => Some((Joint::And, 2)),
            (Some('|'), Some('|')) => Some((Joint::Or, 2)),
            (Some(';' | '\n'), _) => Some((Joint::Then, 1)),
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
        let joints: Vec<Joint> = parse("a && b || c ; d").expect("a line").iter().map(|s| s.joint).collect();
        assert_eq!(joints, [Joint::Then, Joint::And, Joint::Or, Joint::Then]);
        assert_eq!(words("sudo -n sh -c 'a '\\''b'\\'''"), [["sudo", "-n", "sh", "-c", "a 'b'"]]);
        for wrong in ["a 'b", "a $(b", "a > b", "a | b"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
