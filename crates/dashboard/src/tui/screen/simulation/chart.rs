//! Counters over time as columns of cells, one chart per pool whose counters change, and the slider below them. Must not
//! know where it stands on the screen.

use ratatui::text::{Line, Span};

use crate::tui::paint::Paint;
use crate::tui::theme::Scope;
use crate::tui::widget::columns_chart::{self, Column, MARGIN};
use capi_forecast::simulate::{Counts, Forecast, Pool, seconds};

/// Charts at most, and lines of each.
const CHARTS_MAX: usize = 3;
const HEIGHT_MAX: usize = 4;
/// Lines that stay for the steps.
const STEPS_MIN: usize = 4;

/// As many charts as have room, and the slider at the moment of `step`.
pub(super) fn lines(
    forecast: &Forecast,
    step: usize,
    paint: &Paint<'_>,
    (width, room): (usize, usize),
) -> Vec<Line<'static>> {
    let cells = width.saturating_sub(MARGIN);
    let pools: Vec<&Pool> = forecast.pools.iter().filter(|pool| forecast.changes(pool)).collect();
    let Some(at_s) = forecast.events.get(step).map(|event| event.at_s).filter(|_| cells > 10) else {
        return Vec::new();
    };
    let left = room.saturating_sub(STEPS_MIN + 2);
    let count = pools.len().min(CHARTS_MAX).min(left / 2);
    let height = (left / count.max(1)).saturating_sub(1).min(HEIGHT_MAX);
    let scale = Scale { whole_s: whole_s(forecast), cells };
    let mut all = Vec::new();
    for pool in pools.iter().take(count).filter(|_| height > 0) {
        all.push(label(forecast, pool, at_s, paint));
        all.extend(chart(forecast, pool, height, &scale, paint));
    }
    if pools.len() > count && count > 0 {
        let words = match pools.len() - count {
            1 => "and 1 more pool changes".to_owned(),
            more => format!("and {more} more pools change"),
        };
        all.push(Line::from(paint.span(Scope::Muted, words)));
    }
    all.push(slider(at_s, step, forecast.events.len(), &scale, paint));
    all
}

/// How seconds become cells.
struct Scale {
    whole_s: i64,
    cells: usize,
}

impl Scale {
    fn second_at(&self, cell: usize) -> i64 {
        let (cell, cells) = (i64::try_from(cell).unwrap_or(0), i64::try_from(self.cells).unwrap_or(1));
        // The first cell is the beginning and the last one the end, with one step less between
        // them.
        self.whole_s * cell / (cells - 1).max(1)
    }

    fn cell_at(&self, at_s: i64) -> usize {
        let cells = i64::try_from(self.cells).unwrap_or(1);
        let cell = at_s.clamp(0, self.whole_s) * (cells - 1) / self.whole_s.max(1);
        usize::try_from(cell).unwrap_or(0)
    }
}

fn whole_s(forecast: &Forecast) -> i64 {
    let last = forecast.samples.iter().map(|sample| sample.at_s).max().unwrap_or(0);
    forecast.duration.usual_s.max(last).max(1)
}

/// The counters of a pool at a moment.
fn counts_at(forecast: &Forecast, pool: &Pool, at_s: i64) -> Counts {
    let mine = forecast.samples.iter().filter(|sample| sample.owner == pool.owner);
    mine.take_while(|sample| sample.at_s <= at_s).last().map(|sample| sample.counts).unwrap_or_default()
}

fn label(forecast: &Forecast, pool: &Pool, at_s: i64, paint: &Paint<'_>) -> Line<'static> {
    let counts = counts_at(forecast, pool, at_s);
    let name = pool.owner.split_once('/').map_or(pool.owner.as_str(), |(_, name)| name);
    let standing = format!(
        "   {} available of {}, {} up to date; lowest {}, most {}",
        counts.available, counts.machines, counts.up_to_date, pool.available_min, pool.machines_max
    );
    Line::from(vec![paint.span(Scope::Strong, name.to_owned()), paint.span(Scope::Muted, standing)])
}

/// Available Machines as full cells, others as light ones.
fn chart(
    forecast: &Forecast,
    pool: &Pool,
    height: usize,
    scale: &Scale,
    paint: &Paint<'_>,
) -> Vec<Line<'static>> {
    let column = |cell: usize| {
        let Counts { available, machines, .. } = counts_at(forecast, pool, scale.second_at(cell));
        Column { well: available, all: machines }
    };
    let columns: Vec<Column> = (0..scale.cells).map(column).collect();
    columns_chart::lines(&columns, (0, pool.machines_max), height, paint)
}

/// Where the chosen step is in time.
fn slider(at_s: i64, step: usize, steps: usize, scale: &Scale, paint: &Paint<'_>) -> Line<'static> {
    let before = scale.cell_at(at_s);
    let after = scale.cells.saturating_sub(before + 1);
    let words = format!(" {} of {}, step {} of {steps}", seconds(at_s), seconds(scale.whole_s), step + 1);
    let rule = |count: usize| paint.span(Scope::Muted, paint.glyphs().rule.repeat(count));
    let room = capstan_base::text::width(&words);
    let mark = paint.span(Scope::Strong, paint.glyphs().cursor.to_owned());
    // The words stand where the slider is not.
    let mut spans = vec![Span::raw(" ".repeat(MARGIN))];
    if after > room {
        spans.extend([rule(before), mark, rule(after - room), paint.span(Scope::Text, words)]);
    } else {
        let words = format!("{} ", words.trim_start());
        spans.push(paint.span(Scope::Text, words));
        spans.extend([rule(before.saturating_sub(room)), mark, rule(after)]);
    }
    Line::from(spans)
}
