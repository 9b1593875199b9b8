//! What is going on with an object, in a few words: what is wrong, else what it is in a rollout or who else sets it. Must not
//! know where on the screen it stands.

use super::parts::{is_mark, mark_words};
use super::tree_line::{of_check, set_elsewhere};
use crate::fleet::{Fleet, Item, Kind, RowId, Tag};
use crate::tui::paint::Paint;
use capi_types::condition::Status;
use capstan_base::text;

/// Of an object with everything under it.
pub fn reason(fleet: &Fleet, id: RowId, paint: &Paint<'_>) -> String {
    let Some(line) = fleet.line(Item::Row(id)) else { return String::new() };
    let wrong = text::flat(&fleet.what_is_wrong(id));
    // What is wrong explains the others; a pause stands beside it.
    let tags = line.tags.iter().filter(|tag| wrong.is_empty() || **tag == Tag::Paused);
    let quiet = fleet.mark(id).map(|mark| mark_words(mark, paint));
    // A pause that no controller has seen yet has no beginning.
    let paused = fleet.row(id).and_then(|row| row.condition("Paused")).filter(|c| c.status == Status::True);
    let word = |tag: &Tag| match paused.and_then(|condition| condition.since()) {
        Some(since) if *tag == Tag::Paused => format!("paused {}", paint.age_in_list(since)),
        _ => tag.word().to_owned(),
    };
    let tags = tags.filter(|tag| !is_mark(**tag)).map(word);
    let notes = if wrong.is_empty() { notes(fleet, id) } else { vec![wrong.clone()] };
    let words = quiet.into_iter().chain(tags).chain(notes);
    words.collect::<Vec<_>>().join(&format!(" {} ", paint.glyphs().separator))
}

/// What is worth a word of an object that is well. The list of clusters leaves it out.
fn notes(fleet: &Fleet, id: RowId) -> Vec<String> {
    let Some(row) = fleet.row(id).filter(|row| row.kind != Kind::Cluster) else { return Vec::new() };
    set_elsewhere(row).into_iter().chain(of_check(row)).collect()
}
