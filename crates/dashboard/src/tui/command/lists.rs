//! Lists over the fleet: which one is open, and in which order. Must not know how they are drawn.

use super::Outcome;
use crate::fleet::{By, Listed, Sort};
use crate::tui::model::Model;
use crate::tui::screen::Screen;
use crate::tui::screen::fleet::{FleetScreen, sorts};
use capstan_base::text::did_you_mean;

const NOTHING: Outcome = Ok(Vec::new());

/// All objects of a kind, narrowed to what is written: words as behind `/`, or a namespace.
pub fn open(model: &mut Model, listed: Listed, words: &str) -> Outcome {
    let filter = filter_of(model, words);
    if listed == Listed::Clusters {
        model.screens.truncate(1);
    } else if model.screen().as_fleet().is_none_or(|open| open.listed() != listed) {
        model.open(Screen::Fleet(FleetScreen::of(listed)));
    }
    if !filter.is_empty() {
        model.screen_mut().set_filter(&filter);
    }
    NOTHING
}

/// As in k9s, a word that is a namespace means that one, and a slash may stand before others.
fn filter_of(model: &Model, words: &str) -> String {
    let is_namespace = |id| model.fleet.row(id).is_some_and(|row| row.namespace.as_ref() == words);
    match words.strip_prefix('/') {
        Some(words) => words.trim().to_owned(),
        None if model.fleet.clusters().iter().copied().any(is_namespace) => format!("ns:^{words}$"),
        None => words.to_owned(),
    }
}

pub fn sort(model: &mut Model, column: &str) -> Outcome {
    let word = column.to_lowercase();
    let Some(list) = model.screen().as_fleet() else { return NOTHING };
    let known: Vec<(String, By)> = sorts(list.listed(), true).collect();
    let Some((_, by)) = known.iter().find(|(known, _)| *known == word) else {
        let words: Vec<&str> = known.iter().map(|(word, _)| word.as_str()).collect();
        let hint = did_you_mean(&word, words.iter().copied());
        return Err(format!("there is no column `{column}`{hint}; known: {}", words.join(", ")));
    };
    order(model, |sort| sort.by = *by)
}

/// By the next column, or in the next order of a tree.
pub fn sort_next(model: &mut Model) -> Outcome {
    if let Screen::Tree(tree) = model.screen_mut() {
        tree.sort_next();
        return NOTHING;
    }
    let Some(list) = model.screen().as_fleet() else { return NOTHING };
    let all: Vec<By> = sorts(list.listed(), model.preferences.wide).map(|(_, by)| by).collect();
    order(model, |sort| {
        // A wide column is not among them any more once the list is not wide: the first one
        // follows.
        let next = all.iter().position(|by| *by == sort.by).map_or(0, |at| at + 1);
        sort.by = all[next % all.len()];
    })
}

pub fn sort_reverse(model: &mut Model) -> Outcome {
    order(model, |sort| sort.reverse = !sort.reverse)
}

fn order(model: &mut Model, change: impl FnOnce(&mut Sort)) -> Outcome {
    let Screen::Fleet(list) = model.screen_mut() else { return NOTHING };
    let mut sort = list.sort();
    change(&mut sort);
    list.set_sort(sort);
    NOTHING
}
