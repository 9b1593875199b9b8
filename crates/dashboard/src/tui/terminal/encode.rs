//! Two pictures → the bytes that turn one into the other, inside one synchronized-output bracket.

use std::io::Write;

use ratatui::backend::{Backend as _, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::Position;

/// Begin and end of DEC private mode 2026: the terminal shows the frame whole. Terminals that do
/// not know it ignore it.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";
const HIDE_CURSOR: &[u8] = b"\x1b[?25l";
const SHOW_CURSOR: &[u8] = b"\x1b[?25h";
const CLEAR: &[u8] = b"\x1b[0m\x1b[2J";

/// Appends what makes `next` out of `shown`; nothing at all when they are equal.
pub fn encode(
    bytes: &mut Vec<u8>,
    shown: &Buffer,
    next: &Buffer,
    clear: bool,
    cursor_before: Option<Position>,
    cursor: Option<Position>,
) {
    let mut changes = shown.diff_iter(next).peekable();
    let drawn = changes.peek().is_some();
    if !drawn && !clear && cursor == cursor_before {
        return;
    }
    bytes.extend_from_slice(BEGIN);
    // A cursor that is seen would jump over the cells while they are drawn.
    if cursor_before.is_some() {
        bytes.extend_from_slice(HIDE_CURSOR);
    }
    if clear {
        // Attributes first: many terminals clear in the background colour that is set.
        bytes.extend_from_slice(CLEAR);
    }
    if drawn {
        let mut cells = Vec::new();
        // Writing to memory cannot fail.
        let _ = CrosstermBackend::new(&mut cells).draw(changes);
        with_short_colours(bytes, &cells);
    }
    if let Some(Position { x, y }) = cursor {
        // Terminals count lines and columns from 1.
        let _ = write!(bytes, "\x1b[{};{}H", y + 1, x + 1);
        bytes.extend_from_slice(SHOW_CURSOR);
    }
    bytes.extend_from_slice(END);
}

/// Appends `cells` with the 16 named colours in the form that every terminal with colours knows: crossterm writes them as
/// places of the palette of 256, which consoles and old terminals have not, and which take more bytes.
fn with_short_colours(bytes: &mut Vec<u8>, cells: &[u8]) {
    let mut rest = cells;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"\x1b[") {
        let (before, sequence) = rest.split_at(at + 2);
        bytes.extend_from_slice(before);
        let end = sequence.iter().position(|b| !b.is_ascii_digit() && *b != b';').unwrap_or(sequence.len());
        let (parameters, after) = sequence.split_at(end);
        match std::str::from_utf8(parameters) {
            Ok(parameters) if after.first() == Some(&b'm') => {
                bytes.extend_from_slice(short_colours(parameters).as_bytes());
            }
            _ => bytes.extend_from_slice(parameters),
        }
        rest = after;
    }
    bytes.extend_from_slice(rest);
}

/// `38;5;1;49` as `31;49`: of what sets attributes, the colours that have a number of their own.
fn short_colours(parameters: &str) -> String {
    let all: Vec<&str> = parameters.split(';').collect();
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while at < all.len() {
        let named = match &all[at..] {
            [ground @ ("38" | "48"), "5", place, ..] => {
                place.parse::<u8>().ok().map(|place| (*ground, place))
            }
            _ => None,
        };
        // The other forms of `38` and `48` have numbers behind them that mean nothing by themselves.
        let length = match &all[at..] {
            ["38" | "48", "2", ..] => 5,
            ["38" | "48", "5", ..] => 3,
            _ => 1,
        };
        match named {
            Some((ground, place @ 0..16)) => {
                let base = match (ground, place) {
                    ("38", 0..8) => 30,
                    ("38", _) => 90 - 8,
                    (_, 0..8) => 40,
                    _ => 100 - 8,
                };
                out.push((base + u16::from(place)).to_string());
            }
            _ => out.extend(all[at..].iter().take(length).map(|part| (*part).to_owned())),
        }
        at += length;
    }
    out.join(";")
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::{Color, Style};

    use super::*;

    fn picture(text: &str) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 10, 2));
        buffer.set_string(0, 0, text, Style::default());
        buffer
    }

    fn bytes(
        shown: &str,
        next: &str,
        clear: bool,
        before: Option<Position>,
        now: Option<Position>,
    ) -> String {
        let mut out = Vec::new();
        encode(&mut out, &picture(shown), &picture(next), clear, before, now);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn nothing_changed_is_no_bytes() {
        assert_eq!(bytes("same", "same", false, None, None), "");
        let at = Some(Position::new(3, 1));
        assert_eq!(bytes("same", "same", false, at, at), "");
    }

    #[test]
    fn a_change_is_one_bracket_around_the_changed_cells() {
        let out = bytes("same", "sane", false, None, None);
        assert!(out.starts_with("\x1b[?2026h") && out.ends_with("\x1b[?2026l"), "{out:?}");
        assert_eq!(out.matches("2026h").count(), 1);
        assert!(out.contains("\x1b[1;3Hn"), "{out:?}");
        assert!(!out.contains('s') && !out.contains("[2J"), "{out:?}");
    }

    #[test]
    fn clear_and_cursor_are_inside_the_bracket() {
        let out = bytes("", "x", true, Some(Position::new(0, 0)), Some(Position::new(3, 1)));
        let (hide, clear) = (out.find("?25l").expect("hidden"), out.find("[2J").expect("cleared"));
        let (show, end) =
            (out.find("\x1b[2;4H\x1b[?25h").expect("shown"), out.find("2026l").expect("closed"));
        assert!(hide < clear && clear < show && show < end, "{out:?}");
    }

    /// On a console and on terminals from before the palette of 256, the long form did nothing.
    #[test]
    fn named_colours_are_written_as_every_terminal_knows_them() {
        for (crossterm, expected) in [
            ("38;5;1", "31"),
            ("38;5;9", "91"),
            ("48;5;0", "40"),
            ("48;5;15", "107"),
            ("38;5;7;48;5;12", "37;104"),
            ("38;5;2;49", "32;49"),
            ("0", "0"),
            ("1;4", "1;4"),
            ("", ""),
            ("38;5;16", "38;5;16"),
            ("38;5;255;1", "38;5;255;1"),
            ("38;2;38;5;1;48;5;3", "38;2;38;5;1;43"),
            ("38;5", "38;5"),
        ] {
            assert_eq!(short_colours(crossterm), expected, "{crossterm}");
        }
        let (shown, mut next) = (picture(""), picture(""));
        next.set_string(0, 0, "38;5;1m", Style::default().fg(Color::Red).bg(Color::Indexed(200)));
        let mut out = Vec::new();
        encode(&mut out, &shown, &next, false, None, None);
        let out = String::from_utf8(out).expect("text");
        assert!(out.contains("[31;48;5;200m"), "{out:?}");
        assert!(out.contains("38;5;1m") && !out.contains("\x1b[38;5"), "text is text: {out:?}");
    }
}
