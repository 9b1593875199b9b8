//! The lines of a simulation above and below its charts: both forecasts in words, and the steps around the slider. Must not
//! know where they stand.

use ratatui::text::Line;

use super::SimulationScreen;
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;
use capi_forecast::simulate::{End, Event, Forecast, seconds};
use capstan_base::text::{truncate, wrap};

/// Lows and holds of each forecast.
const LINES_MAX: usize = 3;
/// In front of each line.
const LABEL: usize = 9;

/// What is tried, and how it ends with it and without.
pub(super) fn head(screen: &SimulationScreen, paint: &Paint<'_>, cells: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(why) = &screen.trouble {
        lines.push(Line::from(paint.span(Scope::Blocked, format!("not run ahead: {why}"))));
    }
    let tried = if screen.words.is_empty() {
        ":what-if surge=2 tries a change; nothing is written".to_owned()
    } else {
        screen.words.join(", ")
    };
    labelled("what if", &tried, Scope::Match, paint, cells, &mut lines);
    let Some(ahead) = &screen.ahead else { return lines };
    match &ahead.tried {
        Some(Ok(forecast)) => {
            forecast_lines(mark("tried", !screen.shows_plain), forecast, paint, cells, &mut lines);
            forecast_lines(mark("as it is", screen.shows_plain), &ahead.plain, paint, cells, &mut lines);
        }
        Some(Err(why)) => {
            labelled("refused", why, Scope::Blocked, paint, cells, &mut lines);
            forecast_lines("as it is", &ahead.plain, paint, cells, &mut lines);
        }
        None => forecast_lines("as it is", &ahead.plain, paint, cells, &mut lines),
    }
    let rests = screen.shown().map_or(&[][..], |shown| shown.assumptions.as_slice());
    if let Some(first) = ahead.grounds.iter().chain(rests).next() {
        labelled("rests on", first, Scope::Muted, paint, cells, &mut lines);
    }
    lines.push(Line::default());
    lines
}

/// The chart below is of this one.
fn mark(label: &'static str, is_shown: bool) -> &'static str {
    match (label, is_shown) {
        ("tried", true) => "tried >",
        ("as it is", true) => "as is >",
        _ => label,
    }
}

fn forecast_lines(
    label: &str,
    forecast: &Forecast,
    paint: &Paint<'_>,
    cells: usize,
    out: &mut Vec<Line<'static>>,
) {
    let scope = match forecast.ending {
        End::Settled | End::Reached => Scope::Strong,
        End::Stuck => Scope::Blocked,
        End::Circle { .. } | End::TooLong => Scope::Degraded,
    };
    labelled(label, &forecast.ending_in_words(), scope, paint, cells, out);
    let held = forecast
        .held
        .iter()
        .map(|held| (Scope::Blocked, format!("held: {}: {}", held.object, held.sentence)));
    let lows = forecast.lows_in_words().into_iter().map(|low| (Scope::Text, low));
    let etcd = forecast.etcd_in_words().filter(|_| forecast.duration.usual_s > 0);
    let etcd = etcd.into_iter().map(|etcd| (Scope::Text, etcd));
    for (scope, words) in held.take(1).chain(lows.take(LINES_MAX)).chain(etcd) {
        labelled("", &words, scope, paint, cells, out);
    }
}

fn labelled(
    label: &str,
    words: &str,
    scope: Scope,
    paint: &Paint<'_>,
    cells: usize,
    out: &mut Vec<Line<'static>>,
) {
    for (at, part) in wrap(words, cells.saturating_sub(LABEL).max(10)).into_iter().take(2).enumerate() {
        let lead = if at == 0 { label } else { "" };
        out.push(Line::from(vec![
            paint.span(Scope::Column, format!("{lead:<LABEL$}")),
            paint.span(scope, part),
        ]));
    }
}

/// The steps around the chosen one, which stands in the middle where there are as many before as after.
pub(super) fn steps(
    forecast: &Forecast,
    step: usize,
    paint: &Paint<'_>,
    (cells, room): (usize, usize),
) -> Vec<Line<'static>> {
    let first = step.saturating_sub(room / 2).min(forecast.events.len().saturating_sub(room));
    let shown = forecast.events.iter().enumerate().skip(first).take(room);
    shown.map(|(at, event)| step_line(event, at == step, paint, cells)).collect()
}

fn step_line(event: &Event, is_chosen: bool, paint: &Paint<'_>, cells: usize) -> Line<'static> {
    let cursor = if is_chosen { paint.glyphs().cursor } else { " " };
    let what = format!("{:>8}  {}: {}", seconds(event.at_s), event.who.name, event.does);
    let left = cells.saturating_sub(capstan_base::text::width(&what) + 4);
    let why = if left > 12 { truncate(&event.why, left, paint.glyphs().ellipsis) } else { String::new() };
    let scope = if is_chosen { Scope::Strong } else { Scope::Text };
    Line::from(vec![
        paint.span(Scope::Key, cursor.to_owned()),
        paint.span(scope, what),
        paint.span(Scope::Muted, format!("  {why}")),
    ])
}
