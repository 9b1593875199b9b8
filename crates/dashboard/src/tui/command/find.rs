//! Any object of the fleet by some letters of its name, or by its Node. Owns which ones are meant and how they are written in
//! the command line; must not know how they are drawn.

use super::Outcome;
use crate::fleet::{Item, Names, Row, RowId};
use crate::tui::model::Model;
use crate::tui::overlay::prompt::Completion;
use crate::tui::screen::Screen;
use crate::tui::screen::details::{DetailsScreen, Tab};
use crate::tui::screen::tree_line::short_kind;

/// How a line begins that looks for an object.
pub const LINE: &str = "find ";
/// Of each kind so many at most.
const OF_KIND_MAX: usize = 12;
/// With fewer letters nearly everything matches.
const LETTERS_MIN: usize = 2;

/// Opens the details of the object that is written, or of the first that matches.
pub fn find(model: &mut Model, words: &str) -> Outcome {
    let name = words.rsplit('/').next().unwrap_or_default();
    let is_meant = |row: &Row| row.name.as_ref() == name && written(row) == words;
    // A completion names one object, which need not be the best match for its letters.
    let exact = model.fleet.rows().find(|(_, row)| is_meant(row)).map(|(id, _)| id);
    let id = exact.or_else(|| found(model, words).into_iter().next());
    let id = id.ok_or_else(|| format!("nothing here is called `{words}`"))?;
    let screen = DetailsScreen::of(&model.fleet, Item::Row(id), Tab::Overview).ok_or("it is gone")?;
    model.open(Screen::Details(Box::new(screen)));
    Ok(Vec::new())
}

/// What may be meant by `words`, with how it is.
pub fn completions(model: &Model, words: &str) -> Vec<Completion> {
    if words.chars().count() < LETTERS_MIN {
        return Vec::new();
    }
    let of = |id: RowId| {
        let row = model.fleet.row(id)?;
        let wrong = model.fleet.what_is_wrong(id);
        let note = format!("{}  {}", model.fleet.verdict(id).word(), wrong.replace('\n', " "));
        Some(Completion { line: format!("find {}", written(row)), note, is_refused: false })
    };
    found(model, words).into_iter().filter_map(of).collect()
}

/// `KIND/NAMESPACE/NAME`.
fn written(row: &Row) -> String {
    format!("{}/{}/{}", short_kind(&row.gvk.kind), row.namespace, row.name)
}

/// By the letters of namespace, name and Node in their order.
fn found(model: &Model, words: &str) -> Vec<RowId> {
    // A kind in front was completed from here.
    let words = words.split_once('/').map_or(words, |(_, rest)| rest);
    match &model.known.names {
        Some(names) => names.find(words, OF_KIND_MAX),
        None => Names::of(&model.fleet).find(words, OF_KIND_MAX),
    }
}
