//! Marks on rows: commands that act on an object then act on all that are marked. Owns what may be marked; must not know what
//! an action does.

use super::Outcome;
use crate::tui::cursor::Motion;
use crate::tui::model::{Model, Tone};

const NO_LIST: &str = "only objects of a list can be marked";

/// Marks the selected row, or takes its mark away, and goes to the next.
pub fn mark(model: &mut Model) -> Outcome {
    let row = model.selected_row().and_then(|id| model.fleet.row(id)).cloned().ok_or(NO_LIST)?;
    model.screen_mut().chosen_mut().ok_or(NO_LIST)?.toggle(&row);
    model.move_screen(Motion::Down);
    Ok(Vec::new())
}

/// Marks every object that the list shows, or takes all their marks away.
pub fn mark_all(model: &mut Model) -> Outcome {
    let listed = model.screen().as_list().ok_or(NO_LIST)?.listed();
    let rows: Vec<_> = listed.into_iter().filter_map(|id| model.fleet.row(id)).cloned().collect();
    model.screen_mut().chosen_mut().ok_or(NO_LIST)?.toggle_all(rows.iter().map(AsRef::as_ref));
    let marked = model.chosen().len();
    model.say(
        Tone::Info,
        if marked == 0 { "nothing is marked".to_owned() } else { format!("{marked} marked") },
    );
    Ok(Vec::new())
}
