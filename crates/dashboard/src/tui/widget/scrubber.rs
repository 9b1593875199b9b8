//! One line that says where a recording stands: how it plays, the moment, all of it as a bar with the places at which clusters
//! turned, and what is left.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::tui::paint::{Paint, put, put_ends};
use crate::tui::theme::Scope;
use capstan_base::time::{Timestamp, human_duration};

/// Cells that a bar has at least, and at most.
const BAR_MIN: usize = 8;
const BAR_MAX: usize = 80;

/// Where a recording stands; moments are milliseconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub struct Scrubber<'a> {
    pub at_ms: i64,
    pub first_ms: i64,
    pub last_ms: i64,
    /// When clusters turned, and whether for the worse.
    pub turns: &'a [(i64, bool)],
    /// How much faster than it happened; `None`: it stands still.
    pub plays: Option<i64>,
}

/// Draws it, and at the right end the keys with their words, as far as there is room beside a bar.
pub fn view(
    scrubber: Scrubber<'_>,
    keys: &[(String, &str)],
    paint: &Paint<'_>,
    area: Rect,
    buffer: &mut Buffer,
) {
    let room = usize::from(area.width);
    let left = standing(scrubber, paint);
    let rest = human_duration((scrubber.last_ms - scrubber.at_ms) / 1_000);
    let mut right = vec![paint.span(Scope::Muted, format!(" -{rest}  "))];
    for (key, word) in keys {
        let hint =
            [paint.span(Scope::Key, format!(" {key} ")), paint.span(Scope::KeyText, format!("{word} "))];
        let used = left.width() + width(&right) + width(&hint) + BAR_MIN + 1;
        if used <= room {
            right.extend(hint);
        }
    }
    let used = left.width() + width(&right);
    let cells = room.saturating_sub(used + 1).clamp(BAR_MIN.min(room), BAR_MAX);
    let x = area.x + u16::try_from(left.width()).unwrap_or(0);
    put_ends(buffer, area, &left, &Line::default());
    let mut line = bar(scrubber, cells, paint);
    line.extend(right);
    put(buffer, x, area.y, &Line::from(line), area.right().saturating_sub(x));
}

fn width(spans: &[Span<'_>]) -> usize {
    spans.iter().map(Span::width).sum()
}

fn standing(scrubber: Scrubber<'_>, paint: &Paint<'_>) -> Line<'static> {
    let at = Timestamp::from_timestamp_millis(scrubber.at_ms).unwrap_or_default();
    let (word, scope) = match scrubber.plays {
        Some(speed) => (format!(" {speed}x "), Scope::Progressing),
        None => (" paused ".to_owned(), Scope::Match),
    };
    let time = at.format("%m-%d %H:%M:%S ").to_string();
    Line::from(vec![paint.span(scope, word), paint.span(Scope::Strong, time)])
}

/// A cell for each part of the recording: what was, what is to come, and where clusters turned.
fn bar(scrubber: Scrubber<'_>, cells: usize, paint: &Paint<'_>) -> Vec<Span<'static>> {
    let Scrubber { at_ms, first_ms, last_ms, turns, .. } = scrubber;
    let length = u128::try_from((last_ms - first_ms).max(1)).unwrap_or(1);
    let cell_of = |ms: i64| {
        let passed = u128::try_from((ms - first_ms).max(0)).unwrap_or(0);
        usize::try_from(passed * cells as u128 / length).unwrap_or(cells).min(cells.saturating_sub(1))
    };
    let mut marks: Vec<Option<bool>> = vec![None; cells];
    for (ms, is_worse) in turns {
        let mark = &mut marks[cell_of(*ms)];
        *mark = Some(mark.unwrap_or(false) || *is_worse);
    }
    let glyphs = paint.glyphs();
    let is_past = |cell: usize| cell < cell_of(at_ms) || at_ms >= last_ms;
    let spans = marks.iter().enumerate().map(|(cell, mark)| match mark {
        _ if cell == cell_of(at_ms) => paint.span(Scope::Strong, glyphs.cursor),
        Some(true) => paint.span(Scope::Degraded, glyphs.degraded),
        Some(false) => paint.span(Scope::Ok, glyphs.active),
        None if is_past(cell) => paint.span(Scope::Progressing, glyphs.bar_done),
        None => paint.span(Scope::Muted, glyphs.bar_left),
    });
    spans.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::{Theme, Tier};

    fn drawn(at_ms: i64, plays: Option<i64>, width: u16) -> String {
        let theme = Theme::load("default", None, Tier::None, true).expect("shipped");
        let paint = Paint::new(&theme, Timestamp::default());
        let area = Rect::new(0, 0, width, 1);
        let mut buffer = Buffer::empty(area);
        let turns = [(250_000, true), (260_000, false), (750_000, false)];
        let scrubber = Scrubber { at_ms, first_ms: 0, last_ms: 1_000_000, turns: &turns, plays };
        let keys = [("z".to_owned(), "play"), (". ,".to_owned(), "step")];
        view(scrubber, &keys, &paint, area, &mut buffer);
        buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned()
    }

    #[test]
    fn it_says_where_it_stands_at_every_width() {
        for (at_ms, plays, width, expected) in [
            (0, None, 80, " paused 01-01 00:00:00 >......x*..............*....... -16m   z play  . , step"),
            (
                500_000,
                Some(60),
                80,
                " 60x 01-01 00:08:20 ########x#######>.......*....... -8m20s   z play  . , step",
            ),
            (1_000_000, None, 40, " paused 01-01 00:16:40 ##x####*#> -0s"),
        ] {
            assert_eq!(drawn(at_ms, plays, width), expected);
        }
    }
}
