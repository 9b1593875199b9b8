//! How deep the tree of a CEL expression would be, told from its tokens. The crate's parser bounds what stands in
//! brackets and not what stands in a row, and everything behind it recurses over the tree: the parser itself, the check, the
//! evaluation and the end of the tree. So this is asked before anything else is. Knows no names.
//!
//! Source: cel-go `parser/{options,parser}.go`. Intended difference: upstream counts each rule of its grammar on its own, this
//! counts the tree, so what is bounded there at 250 is bounded here as well, and mixtures a little sooner.

use super::tokens::{Binds, Token, tokens};

/// Longest expression, in characters.
const CHARACTERS_MAX: usize = 100_000;
const DEPTH_MAX: usize = 250;
/// Characters shown of what is not a token.
const SHOWN_MAX: usize = 40;

/// The text to parse: `source` without pairs of equal signs before an operand. They mean nothing, and the crate's parser takes
/// two of them for one, and twice as long for each pair inside of another.
///
/// # Errors
/// What a compiler says of an expression that is too long or too deep, or has something in it that is not a token.
pub(super) fn bounded(source: &str) -> Result<String, String> {
    let size = source.chars().count();
    if size > CHARACTERS_MAX {
        let what = format!("expression code point size exceeds limit: size: {size}, limit {CHARACTERS_MAX}");
        return Err(refusal(&what));
    }
    let tokens = tokens(source).map_err(|at| not_a_token(source, at))?;
    let mut reader = Reader::default();
    tokens.into_iter().for_each(|(at, token)| reader.take(at, token));
    if reader.depth() > DEPTH_MAX {
        return Err(refusal(&format!("expression recursion limit exceeded: {DEPTH_MAX}")));
    }
    let mut text = source.to_owned();
    for at in reader.idle {
        // A blank keeps the place of everything behind it, which complaints name.
        text.replace_range(at..=at, " ");
    }
    Ok(text)
}

/// Of the whole expression.
fn refusal(what: &str) -> String {
    format!("ERROR: <input>:-1:0: {what}")
}

fn not_a_token(source: &str, at: usize) -> String {
    let before = source.get(..at).unwrap_or_default();
    let line = before.matches('\n').count();
    let column = before.chars().rev().take_while(|c| *c != '\n').count();
    let shown = source.lines().nth(line).unwrap_or_default();
    let rest: String = shown.chars().skip(column).take(SHOWN_MAX).collect();
    format!(
        "ERROR: <input>:{}:{}: Syntax error: token recognition error at: '{rest}'\n | {shown}\n | {}^",
        line + 1,
        column + 1,
        ".".repeat(column)
    )
}

/// Operators of one kind in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    operators: usize,
    /// Of the operands so far.
    deepest: usize,
}

/// What stands between two brackets, or the whole.
#[derive(Debug, Default)]
struct Level {
    /// Steps of the operand that is being read, each over what stands in its brackets.
    operand: usize,
    /// A sign stands before it.
    is_signed: bool,
    rows: [Row; 6],
    /// The deepest of the parts that commas part.
    deepest: usize,
}

impl Level {
    /// Ends the operand and the rows that bind tighter than `binds`. Answers with their depth.
    fn end(&mut self, binds: usize) -> usize {
        let mut depth = std::mem::take(&mut self.operand) + usize::from(std::mem::take(&mut self.is_signed));
        for (place, row) in self.rows.iter_mut().enumerate().take(binds) {
            let Row { operators, deepest } = std::mem::take(row);
            // The parser makes balanced trees of `&&` and `||` in a row.
            let is_balanced = place == Binds::And as usize || place == Binds::Or as usize;
            let own = if is_balanced {
                operators.checked_ilog2().map_or(0, |log| log as usize + 1)
            } else {
                operators
            };
            depth = depth.max(deepest) + own;
        }
        depth
    }

    fn operator(&mut self, binds: Binds) {
        let place = binds as usize;
        let depth = self.end(place);
        let row = &mut self.rows[place];
        *row = Row { operators: row.operators + 1, deepest: row.deepest.max(depth) };
    }

    fn end_part(&mut self) {
        self.deepest = self.end(self.rows.len()).max(self.deepest);
    }
}

/// Goes over the tokens once, without recursion.
#[derive(Debug, Default)]
struct Reader {
    level: Level,
    /// Of the brackets around it, innermost last, and whether the brackets in it are a call's.
    outer: Vec<(Level, bool)>,
    before: Option<Token>,
    /// Equal signs in a row before an operand.
    signs: Vec<usize>,
    /// Signs that mean nothing.
    idle: Vec<usize>,
}

impl Reader {
    fn take(&mut self, at: usize, token: Token) {
        let is_behind = matches!(self.before, Some(Token::Operand | Token::Close));
        let is_sign =
            matches!(token, Token::Not | Token::Minus) && !is_behind && self.before != Some(Token::Dot);
        if !is_sign || self.before != Some(token) {
            self.end_signs();
        }
        match token {
            Token::Operand => {}
            _ if is_sign => self.signs.push(at),
            Token::Not => self.level.is_signed = true,
            Token::Minus => self.level.operator(Binds::Sum),
            Token::Question if is_behind => self.level.operator(Binds::Choice),
            Token::Question => {}
            Token::Operator(binds) => self.level.operator(binds),
            Token::Dot => self.level.operand += 1,
            Token::Comma => self.level.end_part(),
            Token::Parenthesis | Token::Bracket => {
                let is_call = token == Token::Parenthesis && self.before == Some(Token::Operand);
                self.outer.push((std::mem::take(&mut self.level), is_call));
            }
            Token::Close => self.close(),
        }
        self.before = Some(token);
    }

    fn end_signs(&mut self) {
        let signs = std::mem::take(&mut self.signs);
        self.level.is_signed |= signs.len() % 2 == 1;
        let in_pairs = signs.len() - signs.len() % 2;
        self.idle.extend(signs.into_iter().take(in_pairs));
    }

    /// One bracket too many is the parser's to refuse.
    fn close(&mut self) {
        let Some((outer, is_call)) = self.outer.pop() else { return };
        let mut inner = std::mem::replace(&mut self.level, outer);
        inner.end_part();
        // The dot before a call is its step.
        let before = self.level.operand;
        self.level.operand = (inner.deepest + 1).max(if is_call { before } else { before + 1 });
    }

    /// The depth of the whole, brackets that are still open included.
    fn depth(&mut self) -> usize {
        self.end_signs();
        // The parser refuses brackets that stay open only once it has recursed into them.
        while !self.outer.is_empty() {
            self.close();
        }
        self.level.end_part();
        self.level.deepest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(source: &str) -> usize {
        let mut reader = Reader::default();
        tokens(source).expect("tokens").into_iter().for_each(|(at, token)| reader.take(at, token));
        reader.depth()
    }

    #[test]
    fn the_depth_of_a_tree_is_told_from_its_tokens() {
        for (source, expected) in [
            ("", 0),
            ("a", 0),
            ("a.b.c", 2),
            ("a.?b[?0].c", 3),
            ("a + b * c - d", 3),
            ("a * b + c * d + e * f", 3),
            ("a - -1", 2),
            ("!a", 1),
            ("!f(x)", 2),
            ("a || b || c || d || e", 3),
            ("a && b ? c : d", 3),
            ("f(a + b, c.d.e)", 3),
            ("[a, [b, [c]]]", 3),
            ("{'a': b, 'c': d + e}.f", 4),
            ("a.f().g(b.c).h()", 3),
            ("((((", 4),
            ("))))", 0),
            ("a in b", 1),
            ("inner.x", 1),
            (r#""a + b.c" + 'it''s' // + c"#, 1),
            (r#"r"\" + b'\x41\'' + """a"b + c""" + r'''\ + '''"#, 3),
            ("1.5e-3 + .5 + 0x1e + 7u", 3),
            ("a.`b-c/d`", 1),
        ] {
            assert_eq!(depth(source), expected, "{source}");
        }
    }

    #[test]
    fn pairs_of_signs_mean_nothing() {
        for (source, expected) in [
            ("!!a", "  a"),
            ("!!!a && ! !b", "  !a &&    b"),
            ("a - - -b", "a -    b"),
            ("a--b", "a--b"),
            ("'!!' + x", "'!!' + x"),
            ("!!(!!(!!(a)))", "  (  (  (a)))"),
            // The parser is to refuse these.
            ("a !! + b", "a !! + b"),
            ("a.!!b", "a.!!b"),
        ] {
            assert_eq!(bounded(source).as_deref(), Ok(expected), "{source}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused_at_its_place() {
        for (source, at) in [
            ("a + @", "1:5"),
            ("a\n = b", "2:2"),
            ("a & b", "1:3"),
            ("'abc", "1:1"),
            ("'a\nb'", "1:1"),
            (r#"x + "\q" + y"#, "1:5"),
            (r#""""a\q""""#, "1:1"),
            (r#"'\x4'"#, "1:1"),
            (r"'\400'", "1:1"),
            ("`a", "1:1"),
            ("``", "1:1"),
        ] {
            let said = bounded(source).expect_err(source);
            let start = format!("ERROR: <input>:{at}: Syntax error: token recognition error at: ");
            assert!(said.starts_with(&start), "{said}");
        }
    }

    #[test]
    fn size_and_depth_are_bounded() {
        let sum = |terms: usize| vec!["a"; terms].join(" + ");
        assert!(bounded(&sum(DEPTH_MAX + 1)).is_ok());
        let too_deep = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250";
        assert_eq!(bounded(&sum(DEPTH_MAX + 2)).unwrap_err(), too_deep);
        let text = |length: usize| format!("'{}'", "\u{e9}".repeat(length - 2));
        assert!(bounded(&text(CHARACTERS_MAX)).is_ok());
        let too_long =
            "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000";
        assert_eq!(bounded(&text(CHARACTERS_MAX + 1)).unwrap_err(), too_long);
    }
}
