//! Two counters over time as columns of cells: what is well as full cells, the rest as light ones. Must not know what is counted.

use ratatui::text::{Line, Span};

use crate::tui::paint::Paint;
use crate::tui::theme::Scope;

/// In front of each line: the number at its height.
pub const MARGIN: usize = 5;

/// One column: how many are well, of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Column {
    pub well: usize,
    pub all: usize,
}

/// Lines of this height, from the least to the most.
pub fn lines(
    columns: &[Column],
    (least, most): (usize, usize),
    height: usize,
    paint: &Paint<'_>,
) -> Vec<Line<'static>> {
    let most = most.max(least + 1);
    let line = |row: usize| {
        // A cell stands for what reaches above its lower edge.
        let below = (most - least) * (height - 1 - row);
        let reaches = |count: usize| count.saturating_sub(least) * height > below;
        let number = if row == 0 { most } else { least };
        let lead = if row == 0 || row + 1 == height { format!("{number:>3}  ") } else { " ".repeat(MARGIN) };
        let mut spans = vec![paint.span(Scope::Muted, lead)];
        for run in columns.chunk_by(|a, b| kind(*a, reaches) == kind(*b, reaches)) {
            spans.push(cells(kind(run[0], reaches), run.len(), paint));
        }
        Line::from(spans)
    };
    (0..height).map(line).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Well,
    Other,
    Empty,
}

fn kind(column: Column, reaches: impl Fn(usize) -> bool) -> Cell {
    match (reaches(column.well), reaches(column.all)) {
        (true, _) => Cell::Well,
        (false, true) => Cell::Other,
        (false, false) => Cell::Empty,
    }
}

fn cells(cell: Cell, count: usize, paint: &Paint<'_>) -> Span<'static> {
    match cell {
        Cell::Well => paint.span(Scope::Ok, paint.glyphs().bar_done.repeat(count)),
        Cell::Other => paint.span(Scope::Progressing, paint.glyphs().bar_left.repeat(count)),
        Cell::Empty => Span::raw(" ".repeat(count)),
    }
}
