//! The Machines of a cluster since its rollout began, as a chart: ready ones as full cells, others as light ones. Owns how much time a
//! cell is; must not know where it stands.

use ratatui::text::Line;

use super::words::{duration, minute_of_day};
use crate::fleet::{Fleet, MachinesThen, Rollout, RowId};
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;
use crate::tui::widget::columns_chart::{self, Column, MARGIN};

/// Lines of the chart itself.
const HEIGHT: usize = 3;
const CELLS_MAX: usize = 60;
/// Cells and lines from which on it has room, with some lines of the log.
const WIDTH_MIN: usize = 96;
const LINES_MIN: usize = HEIGHT + 8;
/// A rollout that began so short a while ago has no past to be shown, seconds.
const PAST_MIN_S: u32 = 60;
/// What a cell may stand for, seconds: the columns stay where they are while time passes, until they are as many as have room.
const CELL_S: [u32; 9] = [5, 15, 30, 60, 120, 300, 900, 3_600, 14_400];

/// The chart below a blank line; nothing where nothing rolls, where there is no past yet, or no room beside the log.
pub(super) fn lines(
    fleet: &Fleet,
    rollout: &Rollout,
    paint: &Paint<'_>,
    (width, height): (usize, usize),
) -> Vec<Line<'static>> {
    let began_s = rollout.began_s().filter(|_| rollout.is_under_way());
    match began_s.filter(|_| width >= WIDTH_MIN && height >= LINES_MIN) {
        Some(began_s) => chart(fleet, rollout.cluster, began_s, paint, width),
        None => Vec::new(),
    }
}

fn chart(fleet: &Fleet, cluster: RowId, began_s: u32, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let now_s = fleet.now_s();
    let cells = width.saturating_sub(MARGIN).min(CELLS_MAX);
    let passed_s = now_s.saturating_sub(began_s);
    let has_room =
        |cell_s: &&u32| usize::try_from(passed_s.div_ceil(**cell_s)).is_ok_and(|needed| needed < cells);
    let Some(cell_s) = CELL_S.iter().find(has_room).filter(|_| passed_s >= PAST_MIN_S) else {
        return Vec::new();
    };
    // Each column is as it was at its end; the last one as it is now.
    let moments = (0..=passed_s / cell_s).map(|cell| (began_s + (cell + 1) * cell_s).min(now_s));
    let then = fleet.machines_at(cluster, &moments.collect::<Vec<u32>>());
    let most = then.iter().map(|then| then.there).max().unwrap_or(0);
    let fewest = then.iter().map(|then| then.ready).min().unwrap_or(0);
    let MachinesThen { ready, there } = then.last().copied().unwrap_or_default();
    let label = format!("{ready} of {there} Machines ready; fewest {fewest}, most there {most}");
    let axis = format!("   since {} UTC, a cell is {}", minute_of_day(began_s, paint.now), duration(*cell_s));
    let column = |then: &MachinesThen| Column { well: then.ready, all: then.there };
    let columns: Vec<Column> = then.iter().map(column).collect();
    // One Machine more or less is what matters: what was ready all the time has no lines.
    let least = fewest.saturating_sub(1).min(most.saturating_sub(HEIGHT));
    let head = Line::from(vec![paint.span(Scope::Text, label), paint.span(Scope::Muted, axis)]);
    let lines = columns_chart::lines(&columns, (least, most), HEIGHT, paint);
    [Line::default(), head].into_iter().chain(lines).collect()
}
