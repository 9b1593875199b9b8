//! Forecasts beside what upstream's managers then did: each change of a recorded life is run ahead from the objects of its moment, and
//! its end compared with the range. Recordings hold Cluster API's own kinds alone, as somebody sees them who may read no others.

use std::collections::BTreeMap;

use capi_forecast::simulate::{Score, score};
use capi_rules::observe::dump::Dump;
use capi_types::key::ObjectKey;
use capstan::cli::args::{Cli, Command};
use capstan_base::time::{Timestamp, parse_rfc3339, rfc3339};
use capstan_commands::output::Style;
use capstan_commands::simulate::from_files;
use clap::Parser as _;
use serde_json::{Value, json};

use super::lives_of_upstream::{expected, lines_of, merged_into, whole_objects};

/// What people change in these lives.
const CHANGED: [&str; 3] = ["Cluster/", "MachineDeployment/", "KubeadmControlPlane/"];

/// Objects at a moment, by `KIND/NAME`.
type Objects = BTreeMap<String, Value>;

/// A change by a person, and what stood just before the next one or at the end.
struct Change {
    began: Timestamp,
    before: Objects,
    looked_at: Timestamp,
    after: Objects,
}

/// Changes within so many seconds are one: the forecast is made after the last of them.
const TOGETHER_S: i64 = 5;

fn changes(life: &str) -> Vec<Change> {
    let (head, lines) = lines_of(life);
    let from = parse_rfc3339(head["from"].as_str().expect("a time")).expect("a time");
    let at = |seconds: &Value| {
        from + chrono::TimeDelta::milliseconds((seconds.as_f64().expect("seconds") * 1000.0) as i64)
    };
    let (mut objects, mut found) = (Objects::new(), Vec::<Change>::new());
    for line in &lines {
        let (now, name) = (at(&line[0]), line[1].as_str().expect("a name"));
        let is_there = objects.contains_key(name);
        let is_change =
            is_there && CHANGED.iter().any(|kind| name.starts_with(kind)) && line[2]["spec"].is_object();
        if is_change && let Some(last) = found.last_mut() {
            (last.looked_at, last.after) = (now, objects.clone());
        }
        merged_into(&mut objects, name, &line[2]);
        if is_change {
            let before = objects.clone();
            match found.last_mut() {
                Some(last) if (now - last.began).num_seconds() <= TOGETHER_S => {
                    (last.began, last.before) = (now, before);
                }
                _ => found.push(Change { began: now, before, looked_at: now, after: Objects::new() }),
            }
        }
    }
    if let Some(last) = found.last_mut() {
        (last.looked_at, last.after) = (at(&head["ends_s"]), objects);
    }
    found
}

/// Of the one Cluster: the state of the end, and the range in seconds.
fn forecast(objects: &Objects, now: Timestamp) -> (String, i64, i64) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": whole_objects(objects)});
    std::fs::write(file.path(), list.to_string()).expect("written");
    let (path, now_text) = (file.path().display().to_string(), rfc3339(now));
    let words = ["capstan", "simulate", "-f", &path, "--now", &now_text, "-o", "json"];
    let Some(Command::Simulate(args)) = Cli::try_parse_from(words).expect("arguments").command else {
        panic!("another command")
    };
    let answer = from_files(&args, None, now, Style::default()).expect("a forecast");
    let found: Value = serde_json::from_str(&answer.document).expect("JSON");
    let cluster = &found["clusters"][0];
    let seconds = |part: &str| cluster["duration"][part].as_i64().unwrap_or(-1);
    let state = cluster["ending"]["state"].as_str().unwrap_or_default().to_owned();
    (state, seconds("shortS"), seconds("longS"))
}

/// How long it then took, where it came to its end.
fn took_s(change: &Change) -> Option<i64> {
    let dump = Dump::new(whole_objects(&change.after).into_iter().map(Into::into).collect());
    let cluster = change.after.iter().find(|(name, _)| name.starts_with("Cluster/"))?.1;
    let text = |field: &str| cluster["metadata"][field].as_str().unwrap_or_default();
    let key = ObjectKey::new(text("namespace"), text("name"));
    match score(&dump, &key, change.began, change.looked_at)? {
        Score::Done { took_s } => Some(took_s),
        Score::Nothing | Score::UnderWay { .. } => None,
    }
}

#[test]
fn changes_of_recorded_lives_end_as_they_were_forecast() {
    let (mut right, mut all) = (0, 0);
    for (life, _) in expected().into_iter().filter(|(_, life)| life.within_s.is_none()) {
        for change in changes(&life) {
            let Some(took_s) = took_s(&change) else { continue };
            let (state, short_s, long_s) = forecast(&change.before, change.began);
            assert_eq!(state, "settled", "{life} came to its end after {took_s} s");
            let is_right = (short_s - 1..=long_s + 1).contains(&took_s);
            let word = if is_right { "" } else { "  <- not within" };
            println!("{life:<24} {short_s:>4} to {long_s:>4} s, took {took_s:>4} s{word}");
            all += 1;
            right += i32::from(is_right);
        }
    }
    println!("{right} of {all} changes ended within their range");
    assert!(all >= 10 && 10 * right >= 8 * all, "{right} of {all}");
}
