//! Two pictures → the bytes that turn one into the other, inside one synchronized-output bracket.

use std::io::Write;

use ratatui::backend::{Backend as _, CrosstermBackend};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Position;
use ratatui::style::Color;

use crate::tui::links::Links;

/// Begin and end of DEC private mode 2026: the terminal shows the frame whole. Terminals that do
/// not know it ignore it.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";
const HIDE_CURSOR: &[u8] = b"\x1b[?25l";
const SHOW_CURSOR: &[u8] = b"\x1b[?25h";
const CLEAR: &[u8] = b"\x1b[0m\x1b[2J";

/// Ends a link (OSC 8): an address that is empty.
pub const END_LINK: &[u8] = b"\x1b]8;;\x1b\\";

/// Appends what makes `next` out of `shown`; nothing at all when they are equal. `links`: where cells of `next` lead to, on a terminal
/// that has links.
pub fn encode(
    bytes: &mut Vec<u8>,
    shown: &Buffer,
    next: &Buffer,
    links: Option<&Links>,
    clear: bool,
    cursor_before: Option<Position>,
    cursor: Option<Position>,
) {
    let changes: Vec<(u16, u16, &Cell)> = shown.diff_iter(next).collect();
    let drawn = !changes.is_empty();
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
    for run in changes.chunk_by(|(_, _, a), (_, _, b)| a.underline_color == b.underline_color) {
        draw_run(bytes, run, links);
    }
    if let Some(Position { x, y }) = cursor {
        // Terminals count lines and columns from 1.
        let _ = write!(bytes, "\x1b[{};{}H", y + 1, x + 1);
        bytes.extend_from_slice(SHOW_CURSOR);
    }
    bytes.extend_from_slice(END);
}

/// Cells that lead to the same place, or nowhere.
fn draw_run(bytes: &mut Vec<u8>, run: &[(u16, u16, &Cell)], links: Option<&Links>) {
    let Some((_, _, first)) = run.first() else { return };
    if first.underline_color == Color::Reset {
        draw(bytes, run.iter().copied());
        return;
    }
    let link = links.and_then(|links| links.of(first));
    if let Some((number, address)) = link {
        // By the same id the terminal takes the lines of an address that was wrapped for one link.
        let _ = write!(bytes, "\x1b]8;id={number:06x};{address}\x1b\\");
    }
    // The number of a link is not a colour to draw.
    let plain = |cell: &Cell| {
        let mut cell = cell.clone();
        cell.underline_color = Color::Reset;
        cell
    };
    let cells: Vec<(u16, u16, Cell)> = run.iter().map(|(x, y, cell)| (*x, *y, plain(cell))).collect();
    draw(bytes, cells.iter().map(|(x, y, cell)| (*x, *y, cell)));
    if link.is_some() {
        bytes.extend_from_slice(END_LINK);
    }
}

fn draw<'a>(bytes: &mut Vec<u8>, cells: impl Iterator<Item = (u16, u16, &'a Cell)>) {
    let mut drawn = Vec::new();
    // Writing to memory cannot fail.
    let _ = CrosstermBackend::new(&mut drawn).draw(cells);
    with_short_colours(bytes, &drawn);
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
    use ratatui::style::Style;

    use super::*;
    use crate::tui::links::Linker;

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
        encode(&mut out, &picture(shown), &picture(next), None, clear, before, now);
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
        encode(&mut out, &shown, &next, None, false, None, None);
        let out = String::from_utf8(out).expect("text");
        assert!(out.contains("[31;48;5;200m"), "{out:?}");
        assert!(out.contains("38;5;1m") && !out.contains("\x1b[38;5"), "text is text: {out:?}");
    }

    #[test]
    fn cells_of_a_link_lead_to_it_and_the_others_do_not() {
        let linker = Linker::default();
        let (plain, link) = (Style::default(), linker.style(Style::default(), "https://a.example/b"));
        let mut next = picture("go: here .");
        next.set_string(4, 0, "here", link);
        let out = |links: Option<&Links>, shown: &Buffer, next: &Buffer| {
            let mut out = Vec::new();
            encode(&mut out, shown, next, links, false, None, None);
            String::from_utf8(out).expect("text")
        };
        let (links, empty) = (linker.links(), picture(""));
        let sent = out(Some(&links), &empty, &next);
        let begin = sent.find("\x1b]8;id=").expect("a link");
        let (before, rest) = sent.split_at(begin);
        let (inside, after) = rest.split_once("\x1b]8;;\x1b\\").expect("its end");
        assert!(before.contains("go:") && inside.contains("here") && after.contains('.'), "{sent:?}");
        assert!(inside.contains(";https://a.example/b\x1b\\"), "{sent:?}");
        assert_eq!(sent.matches("\x1b]8;").count(), 2, "one link: {sent:?}");
        // The number of the address is not a colour.
        assert!(!sent.contains("\x1b[58;"), "{sent:?}");
        let without = out(None, &empty, &next);
        assert!(
            without.contains("here") && !without.contains("]8;") && !without.contains("[58;"),
            "{without:?}"
        );
        // The same letters that lead nowhere any more are written again.
        let mut later = next.clone();
        later.set_string(4, 0, "here", plain.underline_color(Color::Reset));
        let sent = out(Some(&Links::default()), &next, &later);
        assert!(sent.contains("here") && !sent.contains("]8;"), "{sent:?}");
    }
}
