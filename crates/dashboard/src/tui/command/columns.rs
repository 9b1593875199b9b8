//! The command that chooses columns, and what it may be completed to. Must not know how columns are laid out.

use super::Outcome;
use crate::tui::model::{Model, Tone};
use crate::tui::screen::Screen;
use crate::tui::screen::chosen_columns::ChosenColumns;
use crate::tui::screen::objects::ObjectsScreen;

pub fn choose(model: &mut Model, typed: &str) -> Outcome {
    let parsed = ChosenColumns::parse(typed);
    let columns = parsed.map_err(|error| format!("at letter {}: {}", error.at + 1, error.why))?;
    if model.screen().as_fleet().is_some() && columns.own().next().is_some() {
        return open_list(model, &columns);
    }
    if let Screen::Fleet(list) = model.screen_mut() {
        list.choose_columns(&columns)?;
    } else if let Screen::Objects(list) = model.screen_mut() {
        list.choose_columns(&columns)?;
    }
    if columns.wanted.is_empty() {
        model.say(Tone::Info, "the usual columns");
    }
    Ok(Vec::new())
}

/// Fields are in the objects themselves, which the fleet does not keep: the same kind as the server has it.
fn open_list(model: &mut Model, columns: &ChosenColumns) -> Outcome {
    let listed = || model.screen().as_list().map(|list| list.listed()).unwrap_or_default().into_iter().next();
    let id = model.selected_row().or_else(listed).ok_or("the list is empty: its kind is not known")?;
    let row = model.fleet.row(id).ok_or("the object is gone")?;
    let mut screen = ObjectsScreen::of(row.source, &format!("{}.{}", row.gvk.plural, row.gvk.group));
    screen.choose_columns(columns)?;
    model.open(Screen::Objects(Box::new(screen)));
    model.refresh();
    Ok(Vec::new())
}

/// Lines with one more column of the open list behind what is typed.
pub fn candidates(model: &Model, typed: &str) -> Vec<String> {
    let names = if let Screen::Fleet(list) = model.screen() {
        list.column_names()
    } else if let Screen::Objects(list) = model.screen() {
        list.sorts()
    } else {
        Vec::new()
    };
    let head = &typed[..typed.rfind([',', '+']).map_or(0, |at| at + 1)];
    names.into_iter().map(|name| format!("{head}{name}")).collect()
}
