//! Which keys are worth a word on the last line: what works on this screen, on the selected row, with these rights.
//! Owns the choice and its order; must not know how it is drawn. Why something does not work is in
//! [`command::discouraged`].

use super::command;
use super::model::Model;
use super::screen::{Screen, foot, header};
use crate::fleet::Verdict;

/// A key and what it does, in a word.
pub struct Hint {
    pub keys: String,
    pub word: &'static str,
}

/// Lines that are about what is selected, besides actions.
const ABOUT_SELECTED: [&str; 8] =
    ["tree", "details", "toggle", "rollout", "owner", "objects", "plan", "edit"];

/// What is worth knowing here, the most useful first; and what is never left out: help and the way back.
pub fn hints(model: &Model) -> (Vec<Hint>, Vec<Hint>) {
    let is_any_selected = model.selected().is_some() || matches!(model.screen(), Screen::Objects(_));
    let works = |line: &str| {
        (is_any_selected || !ABOUT_SELECTED.contains(&line))
            && command::behind(line).is_some_and(|c| command::discouraged(model, c).is_none())
    };
    let of = |(line, word): (&str, &'static str)| {
        let keys = model.look.keymap.keys_for(model.mode(), line).into_iter().next()?;
        works(line).then_some(Hint { keys, word })
    };
    let always = [("help", "help"), ("back", "back"), ("leave", leave_word(model))];
    let shown = always.into_iter().filter(|(line, _)| *line != "back" || can_go_back(model));
    (here(model).into_iter().filter_map(of).collect(), shown.filter_map(of).collect())
}

fn can_go_back(model: &Model) -> bool {
    model.screens.len() > 1 || !model.screen().filter().is_empty()
}

fn leave_word(model: &Model) -> &'static str {
    if model.screens.len() > 1 { "leave" } else { "quit" }
}

type Lines = Vec<(&'static str, &'static str)>;

fn here(model: &Model) -> Lines {
    if let Some(all) = about_no_object(model.screen()) {
        return all;
    }
    let mut all = of_screen(model);
    let row = model.selected_row();
    if row.is_some_and(|id| model.fleet.verdict(id) != Verdict::Ok) {
        all.push(("why", "why"));
    }
    let cluster = row.and_then(|id| model.fleet.cluster_of(id)).filter(|id| model.fleet.may_roll(*id));
    if cluster.is_some() && model.screen().as_list().is_some() {
        all.push(("rollout", "rollout"));
    }
    if model.screen().searched().is_some() {
        all.push(("filter", if model.screen().is_text() { "search" } else { "filter" }));
    }
    let is_paused = row.and_then(|id| model.fleet.row(id)).is_some_and(|row| row.paused);
    all.extend([
        ("prompt scale", "scale"),
        ("rollout restart", "restart"),
        ("prompt set-version", "version"),
    ]);
    all.push(if is_paused { ("resume", "resume") } else { ("pause", "pause") });
    all.push(("delete", "delete"));
    all.push(("edit", "edit"));
    all.extend(match model.screen() {
        Screen::Fleet(list) if list.opens_trees() => [("details", "details"), ("faults", "faults")],
        Screen::Fleet(_) => [("tree", "tree"), ("faults", "faults")],
        Screen::Tree(_) => [("objects", "objects"), ("plan", "plan")],
        Screen::Details(_) => [("owner", "owner"), ("copy", "copy")],
        Screen::Since(_) => [("details", "details"), ("plan", "plan")],
        Screen::Rollout(_)
        | Screen::Rollouts(_)
        | Screen::Objects(_)
        | Screen::Etcd(_)
        | Screen::Locks(_)
        | Screen::Migration(_)
        | Screen::Logs(_)
        | Screen::Change(_)
        | Screen::Simulation(_) => [("plan", "plan"), ("tree", "tree")],
    });
    all.push(("prompt", "command"));
    all
}

/// All lines of screens that are about no object of the fleet, or that have orders of their own.
fn about_no_object(screen: &Screen) -> Option<Lines> {
    match screen {
        Screen::Objects(_) => Some(vec![
            ("details", "details"),
            ("filter", "filter"),
            ("sort-next", "sort"),
            ("copy", "copy"),
            ("prompt", "command"),
        ]),
        Screen::Locks(_) => {
            Some(vec![("page-down", "page"), ("leader-migration", "migration"), ("prompt", "command")])
        }
        Screen::Migration(_) => Some(vec![
            ("page-down", "page"),
            ("copy", "copy edits"),
            ("leases", "locks"),
            ("prompt", "command"),
        ]),
        Screen::Logs(_) => Some(vec![
            ("bottom", "newest"),
            ("page-up", "back"),
            ("filter", "filter"),
            ("wide", "whole lines"),
            ("prompt", "command"),
        ]),
        Screen::Change(_) => Some(vec![
            ("next-tab", "next page"),
            ("prompt set", "set"),
            ("prompt unset", "unset"),
            ("apply", "carry out"),
            ("copy", "copy"),
            ("toggle", "fold"),
            ("prompt", "command"),
        ]),
        Screen::Fleet(_)
        | Screen::Tree(_)
        | Screen::Details(_)
        | Screen::Rollout(_)
        | Screen::Rollouts(_)
        | Screen::Since(_)
        | Screen::Etcd(_)
        | Screen::Simulation(_) => None,
    }
}

/// The first lines of the other screens.
fn of_screen(model: &Model) -> Lines {
    match model.screen() {
        Screen::Fleet(list) => {
            let opens = if list.opens_trees() { ("tree", "tree") } else { ("details", "details") };
            let notices = (!foot::warnings(&model.fleet).is_empty()).then_some(("notices", "notices"));
            let news = header::news(model.screen(), &model.fleet).map(|_| ("since", "what changed"));
            notices.into_iter().chain([opens]).chain(news).collect()
        }
        Screen::Tree(_) => vec![("details", "details"), ("toggle", "fold")],
        Screen::Rollout(_) | Screen::Etcd(_) => vec![("details", "details")],
        Screen::Rollouts(_) => vec![("rollout", "rollout")],
        Screen::Since(_) => vec![("tree", "tree"), ("timeline", "timeline")],
        Screen::Simulation(_) => vec![("prompt what-if", "what if"), ("other-forecast", "other")],
        Screen::Details(details) if model.screen().filter().is_empty() => {
            let first = if details.is_yaml() { ("toggle", "fold") } else { ("follow", "related") };
            vec![("next-tab", "next tab"), first]
        }
        Screen::Details(_) => vec![("find-next", "next"), ("find-previous", "previous")],
        Screen::Objects(_)
        | Screen::Locks(_)
        | Screen::Migration(_)
        | Screen::Logs(_)
        | Screen::Change(_) => Vec::new(),
    }
}
