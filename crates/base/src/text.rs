//! Text from outside made safe to print, and cut to a width. Owns sanitising, display width and
//! truncation, how counts are written, and which known word a mistyped one is nearest to. Must not know where the text came from or where it goes.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Longest message kept whole, in characters; condition messages are at most 32,768 upstream.
pub const MESSAGE_CHARS_MAX: usize = 32_768;

/// Marks kept on one character: no language stacks more, and hundreds of them cover the lines around.
const MARKS_MAX: usize = 8;

/// What stands for a character that must not reach a terminal.
const PLACEHOLDER: char = '\u{fffd}';

/// True for characters that steer a terminal or reorder what is shown: C0 and C1 controls, DEL,
/// bidirectional controls, tag characters, invisible joiners used to spoof names.
pub fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{061c}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Without the combining marks that go beyond [`MARKS_MAX`] on one character.
fn bounded_marks(chars: impl Iterator<Item = char>) -> impl Iterator<Item = char> {
    let mut marks = 0;
    chars.filter(move |c| {
        // Hostile characters have no width either; each of them is replaced later.
        let is_mark = !c.is_ascii() && !is_hostile(*c) && c.width() == Some(0);
        marks = if is_mark { marks + 1 } else { 0 };
        marks <= MARKS_MAX
    })
}

/// One line: every hostile character becomes a visible placeholder, newlines and tabs a space.
pub fn sanitize_line(text: &str) -> String {
    bounded_marks(text.chars().take(MESSAGE_CHARS_MAX))
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if is_hostile(c) => PLACEHOLDER,
            c => c,
        })
        .collect()
}

/// Text of any shape on one line: one blank wherever there is any, none at its ends.
pub fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Several lines: newlines stay, tabs become two spaces, every other hostile character a placeholder.
pub fn sanitize_block(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in bounded_marks(text.chars().take(MESSAGE_CHARS_MAX)) {
        match c {
            '\n' => out.push('\n'),
            '\t' => out.push_str("  "),
            // A carriage return would let later text cover the line.
            '\r' => {}
            c if is_hostile(c) => out.push(PLACEHOLDER),
            c => out.push(c),
        }
    }
    out
}

/// Cells that `text` takes; ambiguous widths count as one.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` in at most `cells` cells, ending in `ellipsis` when something was cut.
pub fn truncate(text: &str, cells: usize, ellipsis: &str) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let room = cells.saturating_sub(width(ellipsis));
    let mut out = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        let w = width(grapheme);
        if used + w > room {
            break;
        }
        used += w;
        out.push_str(grapheme);
    }
    if width(ellipsis) <= cells {
        out.push_str(ellipsis);
    }
    out
}

/// `text` broken into lines of at most `cells` cells at spaces, or inside a word that is longer.
/// Existing newlines stay. Continuation lines of an indented or bulleted line keep its indent.
pub fn wrap(text: &str, cells: usize) -> Vec<String> {
    text.split('\n').flat_map(|line| wrap_line(line, cells.max(1), LongWord::Broken)).collect()
}

/// The same with words that stay whole, so that a path or an address can be copied; such a line is longer.
pub fn wrap_at_words(text: &str, cells: usize) -> Vec<String> {
    text.split('\n').flat_map(|line| wrap_line(line, cells.max(1), LongWord::Whole)).collect()
}

/// What becomes of a word that does not fit into a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LongWord {
    Broken,
    Whole,
}

fn wrap_line(line: &str, cells: usize, long_word: LongWord) -> Vec<String> {
    if width(line) <= cells {
        return vec![line.to_owned()];
    }
    let body = line.trim_start_matches(' ');
    let mut indent = line.len() - body.len();
    if body.starts_with("* ") || body.starts_with("- ") {
        indent += 2;
    }
    // An indent of half the width or more would leave no room for words.
    let indent = if indent * 2 < cells { indent } else { 0 };
    let mut lines = Vec::new();
    let mut current = " ".repeat(line.len() - body.len());
    let mut fresh = true;
    for word in body.split(' ') {
        let gap = usize::from(!fresh);
        if width(&current) + gap + width(word) <= cells {
            current.push_str(if fresh { "" } else { " " });
            current.push_str(word);
            fresh = false;
            continue;
        }
        if !fresh {
            lines.push(std::mem::replace(&mut current, " ".repeat(indent)));
        }
        for grapheme in word.graphemes(true) {
            // A line holds one grapheme at least, however narrow it is.
            let is_full = width(&current) + width(grapheme) > cells && width(&current) > indent;
            if is_full && long_word == LongWord::Broken {
                lines.push(std::mem::replace(&mut current, " ".repeat(indent)));
            }
            current.push_str(grapheme);
        }
        fresh = false;
    }
    lines.push(current);
    lines
}

/// So many of something that takes an `s`: `1 Machine`, `2 Machines`, `0 pods`.
pub fn counted(count: impl TryInto<u64> + std::fmt::Display, noun: &str) -> String {
    let words = format!("{count} {noun}");
    if count.try_into().is_ok_and(|count| count == 1) { words } else { words + "s" }
}

/// `; did you mean `x`?` for the nearest known name, or nothing when none is near.
pub fn did_you_mean<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(typed, known).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// The known name that was most likely meant: few edits away, or begun like this. `None` when none is near.
pub fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (typed.chars().count() / 3).clamp(1, 3);
    let near = known.map(|name| (distance(typed, name), name));
    let near = near.filter(|(d, name)| *d <= allowed || (typed.len() >= 3 && name.starts_with(typed)));
    near.min_by_key(|(d, _)| *d).map(|(_, name)| name)
}

/// Edits between two words: insert, delete, replace, swap neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_codes_and_reordering_never_survive() {
        let hostile = "a\x1b[31mred\u{202e}gnp\u{9b}2J\x07\u{200b}\u{e0041}z";
        for text in [sanitize_line(hostile), sanitize_block(hostile)] {
            assert!(!text.chars().any(is_hostile), "{text:?}");
            assert!(text.starts_with('a') && text.ends_with('z'));
        }
        assert_eq!(sanitize_line("a\r\nb\tc"), "a  b c");
        assert_eq!(sanitize_block("a\r\nb\tc"), "a\nb  c");
    }

    #[test]
    fn marks_do_not_pile_up_on_one_character() {
        let zalgo = format!("a{}b\u{301}c", "\u{35f}".repeat(500));
        for text in [sanitize_line(&zalgo), sanitize_block(&zalgo)] {
            assert_eq!(text, format!("a{}b\u{301}c", "\u{35f}".repeat(MARKS_MAX)));
        }
        // Languages with marks, and emoji, stay as they are; an invisible joiner becomes visible.
        for text in ["Việt Nam", "हिन्दी", "ภาษาไทย", "👍🏽", "❤\u{fe0f}", "한국어"]
        {
            assert_eq!(sanitize_line(text), text);
        }
        assert_eq!(sanitize_line("👩\u{200d}💻"), "👩\u{fffd}💻");
    }

    #[test]
    fn one_is_not_many() {
        let said = [0, 1, 2].map(|count: usize| counted(count, "pod"));
        assert_eq!(said, ["0 pods", "1 pod", "2 pods"]);
        assert_eq!(counted(-1_i64, "day"), "-1 days");
    }

    #[test]
    fn truncation_counts_cells_not_bytes() {
        assert_eq!(truncate("machine", 7, "…"), "machine");
        assert_eq!(truncate("machine-1", 7, "…"), "machin…");
        assert_eq!(truncate("漢字漢字", 5, "…"), "漢字…");
        assert_eq!(truncate("abc", 0, "…"), "");
    }

    #[test]
    fn wrapping_keeps_the_indent_of_a_bullet() {
        assert_eq!(wrap("* one two three", 9), ["* one two", "  three"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("a\n\nb", 5), ["a", "", "b"]);
        assert_eq!(wrap_at_words("* one /a/long/path two", 9), ["* one", "  /a/long/path", "  two"]);
    }
}
