//! A table as lines of a text that is scrolled: which columns fit is decided as in lists.

use ratatui::text::{Line, Span};

use crate::tui::paint::Paint;
use crate::tui::theme::Scope;
use crate::tui::widget::table::{Align, Column, Placed, place};
use capstan_base::text::width;

pub struct TextCell {
    pub scope: Scope,
    pub text: String,
}

impl TextCell {
    pub fn plain(text: impl Into<String>) -> Self {
        Self { scope: Scope::Text, text: text.into() }
    }
}

/// A column: title, rank for narrow screens, whether numbers stand at its right end.
pub type Heading = (&'static str, usize, Align);

/// Headings and rows, each row with a cell per heading. The first column grows least: it is never left out.
pub fn table(
    headings: &[Heading],
    rows: &[Vec<TextCell>],
    paint: &Paint<'_>,
    cells: usize,
) -> Vec<Line<'static>> {
    let columns: Vec<Column<usize>> =
        headings.iter().enumerate().map(|(at, heading)| column(at, *heading, rows)).collect();
    let placed = place(&columns, 0, u16::try_from(cells).unwrap_or(u16::MAX));
    let head = |at: usize| TextCell { scope: Scope::Column, text: headings[at].0.to_owned() };
    let mut lines = vec![line(&placed, head, paint)];
    for row in rows {
        lines.push(line(&placed, |at| TextCell { scope: row[at].scope, text: row[at].text.clone() }, paint));
    }
    lines
}

fn column(at: usize, (title, rank, align): Heading, rows: &[Vec<TextCell>]) -> Column<usize> {
    let widest = rows.iter().filter_map(|row| Some(width(&row.get(at)?.text))).max().unwrap_or(0);
    let natural = u16::try_from(widest.max(width(title))).unwrap_or(u16::MAX);
    Column {
        id: at,
        title: title.to_owned(),
        align,
        min: if at == 0 { natural.min(16) } else { natural },
        natural,
        late: at > 0 && rank > 4,
        rank,
        grows: false,
    }
}

fn line(placed: &[Placed<usize>], cell: impl Fn(usize) -> TextCell, paint: &Paint<'_>) -> Line<'static> {
    let (mut spans, mut x) = (Vec::new(), 0);
    for column in placed {
        let TextCell { scope, text } = cell(column.id);
        let cells = usize::from(column.width);
        let text = if column.id == 0 { paint.cut_name(&text, cells) } else { paint.cut(&text, cells) };
        let used = width(&text);
        let pad = if column.align == Align::Right { cells.saturating_sub(used) } else { 0 };
        let start = usize::from(column.x) + pad;
        spans.push(Span::raw(" ".repeat(start.saturating_sub(x))));
        x = start + used;
        spans.push(paint.span(scope, text));
    }
    Line::from(spans)
}
