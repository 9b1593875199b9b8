//! Columns: which fit, how wide, where; headings and cells. Rows are drawn one by one by whoever
//! knows them, so only those on screen are ever built.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use crate::tui::paint::{Paint, put};
use crate::tui::theme::Scope;

/// Cells between columns.
const GAP: u16 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A column that may be shown.
#[derive(Clone, Debug)]
pub struct Column<C> {
    pub id: C,
    pub title: String,
    pub align: Align,
    /// Not shown with less.
    pub min: u16,
    /// As much as its widest cell needs.
    pub natural: u16,
    /// Only shown as a whole, when all others have what they need.
    pub late: bool,
    /// Columns with a low rank are given room first.
    pub rank: usize,
    /// Takes whatever is left over.
    pub grows: bool,
}

/// A column that is shown.
#[derive(Clone, Debug)]
pub struct Placed<C> {
    pub id: C,
    pub title: String,
    pub align: Align,
    pub x: u16,
    pub width: u16,
}

/// Chooses the columns that fit into `width` by rank and gives each its natural width as far as
/// there is room; then late ones, as long as they fit whole. The one that grows gets what is left over.
pub fn place<C: Copy>(columns: &[Column<C>], x: u16, width: u16) -> Vec<Placed<C>> {
    let widths = widths(columns, width);
    let mut next = x;
    let mut placed = Vec::new();
    for (column, width) in columns.iter().zip(widths) {
        if let Some(width) = width {
            placed.push(Placed {
                id: column.id,
                title: column.title.clone(),
                align: column.align,
                x: next,
                width,
            });
            next += width + GAP;
        }
    }
    placed
}

/// The width of each column; `None` for those without room.
fn widths<C>(columns: &[Column<C>], width: u16) -> Vec<Option<u16>> {
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|at| (columns[*at].grows, columns[*at].rank));
    let mut widths: Vec<Option<u16>> = vec![None; columns.len()];
    let mut left = width;
    for (late, growing) in [(false, Some(false)), (false, Some(true)), (true, None)] {
        let of_this_kind = || {
            let mine =
                |at: &usize| columns[*at].late == late && growing.is_none_or(|g| columns[*at].grows == g);
            order.iter().copied().filter(mine)
        };
        // Two rounds: all of a kind get their least before one of them gets more.
        for at in of_this_kind() {
            let column = &columns[at];
            let gap = if left == width { 0 } else { GAP };
            let whole = late && !column.grows;
            let least = if whole { column.natural } else { column.min.min(column.natural.max(1)) };
            if least + gap <= left {
                widths[at] = Some(least);
                left -= least + gap;
            }
        }
        for at in of_this_kind() {
            if let Some(w) = &mut widths[at] {
                let more = columns[at].natural.saturating_sub(*w).min(left);
                *w += more;
                left -= more;
            }
        }
    }
    let growing = columns.iter().zip(&mut widths).find_map(|(c, w)| w.as_mut().filter(|_| c.grows));
    if let Some(w) = growing {
        *w += left;
    }
    widths
}

/// Draws the headings; the one that `sorted` names stands out and carries the direction.
pub fn headings<C: Copy + PartialEq>(
    placed: &[Placed<C>],
    sorted: Option<(C, bool)>,
    y: u16,
    paint: &Paint<'_>,
    buffer: &mut Buffer,
) {
    for column in placed {
        let by_this = sorted.filter(|(id, _)| *id == column.id);
        let scope = if by_this.is_some() { Scope::ColumnSorted } else { Scope::Column };
        let mark = match by_this {
            Some((_, true)) => paint.glyphs().descending,
            Some((_, false)) => paint.glyphs().ascending,
            None => "",
        };
        let title = capstan_base::text::truncate(&column.title, usize::from(column.width), "");
        let line = Line::from(paint.span(scope, format!("{title}{mark}")));
        // A mark behind a title that fills its column stands in the gap.
        let with_mark =
            Placed { width: column.width.max(u16::try_from(line.width()).unwrap_or(0)), ..column.clone() };
        cell(&with_mark, y, &line, buffer);
    }
}

/// Draws one cell, cut to its column.
pub fn cell<C>(column: &Placed<C>, y: u16, line: &Line<'_>, buffer: &mut Buffer) {
    let used = u16::try_from(line.width()).unwrap_or(u16::MAX);
    let x = match column.align {
        Align::Right => column.x + column.width.saturating_sub(used),
        Align::Left => column.x,
    };
    put(buffer, x, y, line, column.width);
}

/// Marks the selected line: the cursor's glyph and the selection's style over the whole width.
pub fn select(area: Rect, y: u16, paint: &Paint<'_>, buffer: &mut Buffer) {
    if y < area.bottom() {
        let line = Rect { y, height: 1, ..area };
        // What is dim elsewhere is read here.
        let style = paint.style(Scope::Selection).remove_modifier(Modifier::DIM);
        if style.add_modifier.contains(Modifier::REVERSED) {
            // Reversed cells of different colours would make a patchwork.
            buffer.set_style(line, Style::reset());
        }
        buffer.set_style(line, style);
        buffer.set_stringn(area.x, y, paint.glyphs().cursor, usize::from(area.width), style);
    }
}

/// Marks what was looked for: these cells of a line.
pub fn mark(line: Rect, cells: &Range<usize>, paint: &Paint<'_>, buffer: &mut Buffer) {
    let cell = |at: usize| u16::try_from(at).unwrap_or(u16::MAX).min(line.width);
    let (from, to) = (cell(cells.start), cell(cells.end));
    buffer.set_style(Rect { x: line.x + from, width: to - from, ..line }, paint.style(Scope::Match));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(id: char, min: u16, natural: u16, rank: usize, grows: bool) -> Column<char> {
        Column { id, title: id.to_string(), align: Align::Left, min, natural, late: false, rank, grows }
    }

    fn picture(width: u16) -> String {
        let columns = [
            column('n', 8, 20, 0, false),
            column('s', 13, 13, 1, false),
            column('v', 8, 8, 2, false),
            column('w', 12, 30, 3, true),
        ];
        place(&columns, 0, width).iter().map(|p| format!("{}{}", p.id, p.width)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn columns_give_way_by_rank() {
        assert_eq!(picture(120), "n20 s13 v8 w73");
        assert_eq!(picture(60), "n20 s13 v8 w13");
        assert_eq!(picture(47), "n20 s13 v8");
        assert_eq!(picture(30), "n15 s13");
        assert_eq!(picture(9), "n9");
        assert_eq!(picture(3), "");
    }

    #[test]
    fn late_columns_come_whole_or_not_at_all() {
        let late = |id, natural| Column { late: true, ..column(id, 1, natural, 9, false) };
        let columns =
            [column('n', 8, 20, 0, false), late('p', 10), late('q', 5), column('w', 12, 30, 3, true)];
        let picture = |width| {
            let placed = place(&columns, 0, width);
            placed.iter().map(|p| format!("{}{}", p.id, p.width)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(picture(120), "n20 p10 q5 w79");
        assert_eq!(picture(66), "n20 p10 w32");
        assert_eq!(picture(60), "n20 q5 w31");
        assert_eq!(picture(52), "n20 w30");
        assert_eq!(picture(30), "n20 q5");
    }

    #[test]
    fn columns_never_overlap_nor_leave_the_screen() {
        let columns =
            [column('n', 8, 20, 0, false), column('s', 13, 13, 1, false), column('w', 12, 30, 3, true)];
        for width in 0..200 {
            let placed = place(&columns, 3, width);
            let mut next = 3;
            for p in &placed {
                assert!(p.x >= next && p.x + p.width <= 3 + width, "{width}: {placed:?}");
                next = p.x + p.width;
            }
        }
    }
}
