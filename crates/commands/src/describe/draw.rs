//! A tree as a table of text: glyphs, column widths, wrapped messages, colour of the status. Must not
//! know what the lines mean.
//! Source: cluster-api `internal/util/tree/tree.go`, v1.14.2.

use crate::output::colour::{BOLD, GREEN, GREY, RED, RESET, YELLOW};
use capi_types::condition::Status;
use capstan_base::text::{width, wrap_at_words};

use super::layout::{Cells, Entry};

const HEADS: [&str; 9] =
    ["NAME", "REPLICAS", "AVAILABLE", "READY", "UP TO DATE", "STATUS", "REASON", "SINCE", "MESSAGE"];
/// Space between columns.
const GAP: usize = 2;
/// Length of a message line; it is broken before the word that would make it longer.
const MESSAGE_CELLS: usize = 100;
const STATUS: usize = 5;

const DELETED: &str = "!! DELETED !! ";
/// Marks what is known only from conditions of the older kind; a note below the table explains it.
const LEGACY: &str = " *";
const LEGACY_NOTE: &str = "* by deprecated v1beta1 conditions";

/// One printed line: nine cells, and the colour of the status.
#[derive(Default)]
struct Line {
    cells: [String; 9],
    status: Option<Status>,
    deleted: bool,
}

/// The whole table, header first, and a note when something in it is marked. Blanks at line ends are left out.
pub(super) fn table(root: &Entry, color: bool) -> String {
    let mut lines = vec![Line { cells: HEADS.map(str::to_owned), ..Line::default() }];
    entry_lines(root, &Indent::default(), &mut lines);
    let widths: [usize; 9] =
        std::array::from_fn(|at| lines.iter().map(|l| width(&l.cells[at])).max().unwrap_or(0));
    let mut text = String::new();
    for line in &lines {
        let start = text.len();
        for (at, cell) in line.cells.iter().enumerate() {
            text.push_str(&painted(line, at, cell, color));
            let blanks = widths[at] - width(cell) + GAP;
            text.extend(std::iter::repeat_n(' ', if at + 1 == HEADS.len() { 0 } else { blanks }));
        }
        text.truncate(start + text[start..].trim_end_matches(' ').len());
        text.push('\n');
    }
    if has_legacy(root) {
        text.push_str(LEGACY_NOTE);
        text.push('\n');
    }
    text
}

fn has_legacy(entry: &Entry) -> bool {
    entry.legacy || entry.children.iter().any(has_legacy)
}

fn painted(line: &Line, at: usize, cell: &str, color: bool) -> String {
    if !color || cell.is_empty() {
        return cell.to_owned();
    }
    match (at, line.status) {
        (0, _) if line.deleted => cell.replacen(DELETED, &format!("{RED}{DELETED}{RESET}"), 1),
        (0, _) if cell.trim_end_matches(LEGACY).ends_with("...") => format!("{BOLD}{cell}{RESET}"),
        (STATUS, Some(Status::True)) => format!("{GREEN}{cell}{RESET}"),
        (STATUS, Some(Status::False)) => format!("{RED}{cell}{RESET}"),
        (STATUS, Some(Status::Unknown)) => format!("{YELLOW}{cell}{RESET}"),
        (8, _) if cell.starts_with("See ") => format!("{GREY}{cell}{RESET}"),
        _ => cell.to_owned(),
    }
}

/// Where an entry stands: the glyphs before its own lines, and before what is below it.
#[derive(Default)]
struct Indent {
    first: String,
    rest: String,
    /// Nothing follows in the whole tree.
    last: bool,
    root: bool,
}

fn entry_lines(entry: &Entry, indent: &Indent, lines: &mut Vec<Line>) {
    let Cells { replicas, available, ready, up_to_date, status, reason, since, message } = &entry.cells;
    let mut messages = wrapped(message).into_iter();
    let deleted = if entry.deleted { DELETED } else { "" };
    let legacy = if entry.legacy { LEGACY } else { "" };
    lines.push(Line {
        cells: [
            format!("{}{deleted}{}{legacy}", indent.first, entry.title),
            replicas.clone(),
            available.clone(),
            ready.clone(),
            up_to_date.clone(),
            status.map_or_else(String::new, |s| s.as_str().to_owned()),
            reason.clone(),
            since.clone(),
            messages.next().unwrap_or_default(),
        ],
        status: *status,
        deleted: entry.deleted,
    });
    let below = if entry.children.is_empty() { "" } else { "│ " };
    for message in messages {
        let mut line = Line::default();
        if !indent.last || !entry.children.is_empty() {
            line.cells[0] = format!("{}{below}", indent.rest);
        }
        line.cells[8] = message;
        lines.push(line);
    }
    let count = entry.children.len();
    let is_root = indent.first.is_empty() && !indent.root;
    for (at, child) in entry.children.iter().enumerate() {
        let last = at + 1 == count;
        let (glyph, rest) = if last { ("└─", "  ") } else { ("├─", "│ ") };
        let indent = Indent {
            first: format!("{}{glyph}", indent.rest),
            rest: format!("{}{rest}", indent.rest),
            last: last && (is_root || indent.last) && child.children.is_empty(),
            root: true,
        };
        entry_lines(child, &indent, lines);
    }
}

/// Lines of a message.
fn wrapped(message: &str) -> Vec<String> {
    if message.is_empty() { Vec::new() } else { wrap_at_words(message, MESSAGE_CELLS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_wrapped_at_words_with_hanging_bullets() {
        let long = format!("  * {} end", "word ".repeat(20).trim_end());
        let lines = wrapped(&long);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].len() <= MESSAGE_CELLS && lines[0].starts_with("  * word"));
        assert!(lines[1].starts_with("    word"), "{lines:?}");
        assert_eq!(wrapped("a\n b"), ["a", " b"]);
        assert!(wrapped("").is_empty());
    }

    #[test]
    fn colour_changes_no_width() {
        let entry = Entry {
            title: "Cluster a".to_owned(),
            cells: Cells { status: Some(Status::False), reason: "R".to_owned(), ..Cells::default() },
            ..Entry::default()
        };
        let plain = table(&entry, false);
        let colored = table(&entry, true);
        assert!(colored.contains(RED));
        assert_eq!(colored.replace(RED, "").replace(RESET, ""), plain);
    }
}
