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
        // Writing to memory cannot fail.
        let _ = CrosstermBackend::new(&mut *bytes).draw(changes);
    }
    if let Some(Position { x, y }) = cursor {
        // Terminals count lines and columns from 1.
        let _ = write!(bytes, "\x1b[{};{}H", y + 1, x + 1);
        bytes.extend_from_slice(SHOW_CURSOR);
    }
    bytes.extend_from_slice(END);
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

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
}
