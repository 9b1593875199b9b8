//! The tokens of a CEL expression, as far as the depth of its tree depends on them. Owns the grammar of the parser's
//! lexer, to the letter: a text that ended elsewhere than it does for the parser would hide operators from whoever
//! counts them here. Knows no trees.
//!
//! Source: cel-go `parser/gen/CEL.g4`, of which the crate's parser is made.

/// From the tightest to the loosest; `Choice` is `?` and `:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binds {
    Product,
    Sum,
    Relation,
    And,
    Or,
    Choice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name, a number or a text.
    Operand,
    Operator(Binds),
    /// Before an operand, or between two.
    Minus,
    Not,
    /// Between two operands, or a mark of an optional part.
    Question,
    Dot,
    Comma,
    Parenthesis,
    /// Of a list, an index, a map or a message.
    Bracket,
    Close,
}

/// Every token with the byte at which it begins.
///
/// # Errors
/// The byte at which no token begins.
pub(super) fn tokens(source: &str) -> Result<Vec<(usize, Token)>, usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let (token, length) = token(rest).ok_or(at)?;
        found.extend(token.map(|token| (at, token)));
        at += length;
    }
    Ok(found)
}

/// What `rest` begins with, and its length; `None` inside for space and comments.
fn token(rest: &str) -> Option<(Option<Token>, usize)> {
    let bytes = rest.as_bytes();
    // Numbers and texts come first: `.5` and `b'x'` begin like other tokens.
    if let Some(length) = number(bytes).or_else(|| text(rest)) {
        return Some((Some(Token::Operand), length));
    }
    let second = bytes.get(1).copied().unwrap_or_default();
    let one = |token| Some((Some(token), 1));
    let two = |binds| Some((Some(Token::Operator(binds)), 2));
    match (*bytes.first()?, second) {
        (b' ' | b'\t' | b'\r' | b'\n' | b'\x0c', _) => Some((None, 1)),
        (b'/', b'/') => Some((None, rest.find('\n').unwrap_or(rest.len()))),
        (b'=' | b'!' | b'<' | b'>', b'=') => two(Binds::Relation),
        (b'&', b'&') => two(Binds::And),
        (b'|', b'|') => two(Binds::Or),
        (b'<' | b'>', _) => one(Token::Operator(Binds::Relation)),
        (b'*' | b'/' | b'%', _) => one(Token::Operator(Binds::Product)),
        (b'+', _) => one(Token::Operator(Binds::Sum)),
        (b':', _) => one(Token::Operator(Binds::Choice)),
        (b'-', _) => one(Token::Minus),
        (b'!', _) => one(Token::Not),
        (b'?', _) => one(Token::Question),
        (b'.', _) => one(Token::Dot),
        (b',', _) => one(Token::Comma),
        (b'(', _) => one(Token::Parenthesis),
        (b'[' | b'{', _) => one(Token::Bracket),
        (b')' | b']' | b'}', _) => one(Token::Close),
        (b'`', _) => Some((Some(Token::Operand), quoted_name(bytes)?)),
        (b'a'..=b'z' | b'A'..=b'Z' | b'_', _) => {
            let length = run(bytes, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
            // The grammar has it as a relation, though it is spelled like a name.
            let is_in = rest.get(..length) == Some("in");
            Some((Some(if is_in { Token::Operator(Binds::Relation) } else { Token::Operand }), length))
        }
        _ => None,
    }
}

/// How many bytes from the start on are `wanted`.
fn run(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| wanted(**byte)).count()
}

fn quoted_name(bytes: &[u8]) -> Option<usize> {
    let inner = bytes.get(1..)?;
    let length = run(inner, |byte| byte.is_ascii_alphanumeric() || b"_.-/ ".contains(&byte));
    (length > 0 && inner.get(length) == Some(&b'`')).then_some(length + 2)
}

fn number(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| run(bytes.get(from..).unwrap_or_default(), |byte| byte.is_ascii_digit());
    let whole = digits(0);
    let unsigned = |end: usize| end + usize::from(matches!(bytes.get(end), Some(b'u' | b'U')));
    // The grammar knows no `0X`, and takes `0x` without digits for a zero and a name.
    if bytes.starts_with(b"0x") {
        let hex = run(&bytes[2..], |byte| byte.is_ascii_hexdigit());
        if hex > 0 {
            return Some(unsigned(2 + hex));
        }
    }
    // A dot without a digit behind it is a token of its own.
    let fraction = if bytes.get(whole) == Some(&b'.') { digits(whole + 1) } else { 0 };
    let end = if fraction > 0 { whole + 1 + fraction } else { whole };
    if end == 0 {
        return None;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            return Some(end + 1 + sign + exponent);
        }
    }
    Some(if fraction > 0 { end } else { unsigned(end) })
}

/// A text or bytes, with its prefix; `None`: it is something else, or does not end.
fn text(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let of_bytes = usize::from(matches!(bytes.first(), Some(b'b' | b'B')));
    let raw = usize::from(matches!(bytes.get(of_bytes), Some(b'r' | b'R')));
    let start = of_bytes + raw;
    let quote = *bytes.get(start).filter(|byte| matches!(byte, b'"' | b'\''))?;
    let triple = [quote; 3];
    let is_long = bytes.get(start..)?.starts_with(&triple);
    let end: &[u8] = if is_long { &triple } else { &triple[..1] };
    let mut at = start + end.len();
    loop {
        let rest = bytes.get(at..)?;
        match *rest.first()? {
            _ if rest.starts_with(end) => return Some(at + end.len()),
            b'\n' | b'\r' if !is_long => return None,
            b'\\' if raw == 0 => at += escape(rest)?,
            _ => at += 1,
        }
    }
}

/// Length of an escape sequence, its backslash included.
fn escape(bytes: &[u8]) -> Option<usize> {
    let hex = |count: usize| {
        let digits = bytes.get(2..2 + count)?;
        digits.iter().all(u8::is_ascii_hexdigit).then_some(2 + count)
    };
    match bytes.get(1)? {
        b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`' => Some(2),
        b'x' | b'X' => hex(2),
        b'u' => hex(4),
        b'U' => hex(8),
        b'0'..=b'3' => bytes.get(2..4)?.iter().all(|digit| matches!(digit, b'0'..=b'7')).then_some(4),
        _ => None,
    }
}
