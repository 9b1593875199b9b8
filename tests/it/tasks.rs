//! What people do most, as `docs/tasks.md` says it is done: each row's keys are pressed, counted, and lead to what it says.

use std::path::PathBuf;

use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::keymap::parse_chord;
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::update::update;
use ratatui::layout::Rect;

use crate::fleet_fixture::{self as fixture, now};

/// A row of the table.
struct Task {
    name: String,
    keys: String,
    count: usize,
    shows: String,
}

fn tasks() -> Vec<Task> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/tasks.md");
    let document = std::fs::read_to_string(path).expect("docs/tasks.md");
    let rows = document.lines().filter(|line| line.starts_with("| ")).skip(2);
    let task = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, keys, count, shows, ..] = cells.as_slice() else {
            panic!("a row has too few cells: {row}")
        };
        Task {
            name: (*name).to_owned(),
            keys: keys.trim_matches('`').to_owned(),
            count: count.parse().unwrap_or_else(|_| panic!("{row}: a count of keys")),
            shows: shows.trim_matches('`').to_owned(),
        }
    };
    rows.map(task).collect()
}

/// How many keys a script presses.
fn counted(keys: &str) -> usize {
    let parts = keys.split('"').enumerate();
    let count = |(at, part): (usize, &str)| match at % 2 {
        0 if part.trim().is_empty() => 0,
        0 => parse_chord(part).expect("keys").len(),
        _ => part.chars().count(),
    };
    parts.map(count).sum()
}

fn fleet() -> Model {
    let look =
        Look::load("default", "default", Tier::Ansi16, false, None, command::check).expect("shipped files");
    let session =
        Session { title: "demo".to_owned(), scope: "all namespaces".to_owned(), ..Session::default() };
    let mut model = Model::new(session, look, Rect::new(0, 0, 80, 24), now());
    update(&mut model, Msg::Fleet(fixture::sample()));
    model
}

#[test]
fn the_keys_of_each_task_lead_to_what_it_says() {
    let tasks = tasks();
    assert!(tasks.len() >= 10, "the ten tasks");
    for Task { name, keys, count, shows } in tasks {
        let mut model = fleet();
        press(&mut model, &keys).unwrap_or_else(|error| panic!("{name}: {error}"));
        let screen = text(&mut model);
        assert!(screen.contains(&shows), "{name}: {keys} should show {shows:?}:\n{screen}");
        assert_eq!(counted(&keys), count, "{name}: keys of {keys}");
    }
}
