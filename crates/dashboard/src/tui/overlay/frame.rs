//! The box of a dialog: border, title, hints in the lower border, and scrolled lines inside.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Clear, Widget as _};

use crate::tui::cursor::Scroll;
use crate::tui::layout::dialog;
use crate::tui::paint::{Paint, put};
use crate::tui::theme::Scope;

/// Widest dialog: text is still easy to read.
pub const WIDTH_MAX: u16 = 84;

/// From this height on a dialog leaves a line above and below itself.
const AIRY_HEIGHT_MIN: u16 = 14;

/// Cells for text inside a dialog of at most `width_max` cells on this screen.
pub fn text_width(area: Rect, width_max: u16) -> usize {
    usize::from(outer_width(area, width_max).saturating_sub(4)).max(1)
}

/// Lines for text inside the highest dialog on this screen.
pub fn text_height(area: Rect) -> usize {
    let around = if area.height < AIRY_HEIGHT_MIN { 2 } else { 4 };
    usize::from(area.height.saturating_sub(around)).max(1)
}

fn outer_width(area: Rect, width_max: u16) -> u16 {
    area.width.saturating_sub(2).clamp(1, width_max)
}

/// Draws the box as high as `lines` need and as wide as it may be, and answers the inside.
pub fn open(
    title: &str,
    hints: &Line<'_>,
    lines: usize,
    width_max: u16,
    paint: &Paint<'_>,
    area: Rect,
    buffer: &mut Buffer,
) -> Rect {
    let height = u16::try_from(lines.min(text_height(area))).unwrap_or(u16::MAX).saturating_add(2);
    let outer = dialog(area, outer_width(area, width_max), height).intersection(area);
    Clear.render(outer, buffer);
    buffer.set_style(outer, paint.style(Scope::Overlay));
    let block = Block::new()
        .borders(Borders::ALL)
        .border_set(paint.glyphs().border)
        .border_style(paint.style(Scope::OverlayBorder))
        .title(Line::from(paint.span(Scope::OverlayTitle, format!(" {title} "))));
    let inner = block.inner(outer);
    block.render(outer, buffer);
    if outer.height > 1 && outer.width > 4 {
        let room = outer.width - 4;
        let used = u16::try_from(hints.width()).unwrap_or(u16::MAX);
        if used <= room {
            put(buffer, outer.right() - 2 - used, outer.bottom() - 1, hints, room);
        }
    }
    Rect { x: inner.x + u16::from(inner.width > 2), width: inner.width.saturating_sub(2), ..inner }
}

/// Says how many lines stand below what is shown, on a line of its own.
pub fn more_below(count: usize, scope: Scope, line: Rect, paint: &Paint<'_>, buffer: &mut Buffer) {
    if count > 0 && line.height > 0 {
        let noun = if count == 1 { "line" } else { "lines" };
        let words = format!("{} {count} more {noun} below", paint.glyphs().ellipsis);
        put(buffer, line.x, line.y, &Line::from(paint.span(scope, words)), line.width);
    }
}

/// Draws the lines that fit, from the scroll position on.
pub fn scrolled(lines: &[Line<'_>], scroll: Scroll, inside: Rect, buffer: &mut Buffer) {
    let first = scroll.clamped(lines.len(), usize::from(inside.height));
    for (y, line) in (inside.y..inside.bottom()).zip(lines.iter().skip(first)) {
        put(buffer, inside.x, y, line, inside.width);
    }
}
