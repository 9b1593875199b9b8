//! Commands about the past: what changed since a moment, and the way through a recording. Must not know how it is drawn.

use super::entry::{also, command, only, takes};
use super::navigate;
use super::{Argument, Command, Kind, Outcome, Scope, ScreenKind};
use crate::tui::model::Model;
use crate::tui::replay::{Replay, Seek};
use crate::tui::screen::Screen;
use crate::tui::screen::details::Tab;
use crate::tui::screen::moments::Between;
use crate::tui::screen::since::SinceScreen;
use capstan_base::time::{Timestamp, parse_past};

const NOTHING: Outcome = Ok(Vec::new());

/// In the order of help.
pub const COMMANDS: &[Command] = &[
    also(
        takes(
            command(
                "since",
                Scope::Go,
                since,
                "What changed since you looked last, or since TIME, by cluster.",
            ),
            Argument::Optional(Kind::PastTime),
        ),
        &["news"],
    ),
    replay("play", |m, _| player(m, Replay::toggle), "In a recording: play it, or stop."),
    replay(
        "faster",
        |m, _| player(m, Replay::change_speed),
        "In a recording: 1, 10, 60, 600 or 3600 times as fast.",
    ),
    replay("next-change", |m, _| seek(m, Seek::Step(true)), "In a recording: to the next change."),
    replay("previous-change", |m, _| seek(m, Seek::Step(false)), "In a recording: to the change before."),
    replay("forward", |m, _| seek(m, Seek::Jump(true)), "In a recording: forward by a twentieth of it."),
    replay("backward", |m, _| seek(m, Seek::Jump(false)), "In a recording: back by a twentieth of it."),
    replay("next-turn", |m, _| seek(m, Seek::Turn(true)), "In a recording: to where a cluster turns next."),
    replay("previous-turn", |m, _| seek(m, Seek::Turn(false)), "In a recording: to where one turned before."),
    takes(
        replay("at", at, "In a recording: to a TIME, or so long before its end."),
        Argument::Required(Kind::PastTime),
    ),
];

const fn replay(name: &'static str, change: fn(&mut Model, &str) -> Outcome, help: &'static str) -> Command {
    only(ScreenKind::Replay, command(name, Scope::View, change, help))
}

/// What changed since that moment; without one, since somebody looked last.
fn since(model: &mut Model, typed: &str) -> Outcome {
    let since_s = if typed.is_empty() {
        model.fleet.looked_s().ok_or("it is not known when you looked last; `since 2h` names a time")?
    } else {
        seconds(moment(typed, model.now)?)
    };
    model.open(Screen::Since(Box::new(SinceScreen::of(since_s))));
    if typed.is_empty() {
        // What is on the screen now is no news any more.
        model.fleet.looked_last(seconds(model.now));
    }
    NOTHING
}

/// Which fields of the selected object change; with a time, what differs between then and now or a second time.
pub fn changes(model: &mut Model, typed: &str) -> Outcome {
    let mut times = typed.split_whitespace().map(|word| moment(word, model.now).map(seconds));
    let from_s = times.next().transpose()?;
    let until_s = times.next().transpose()?;
    if times.next().is_some() || until_s.is_some_and(|until_s| from_s > Some(until_s)) {
        return Err("expected one time, or two with the earlier one first".to_owned());
    }
    navigate::details(model, Tab::Changes)?;
    if let Screen::Details(details) = model.screen_mut() {
        details.compare(from_s.map(|from_s| Between { from_s, until_s }));
    }
    NOTHING
}

fn player(model: &mut Model, change: fn(&mut Replay)) -> Outcome {
    if let Some(replay) = &mut model.replay {
        change(replay);
    }
    NOTHING
}

fn seek(model: &mut Model, seek: Seek) -> Outcome {
    model.seek(seek);
    NOTHING
}

/// To a moment of the recording; what is typed is meant as at its end.
fn at(model: &mut Model, typed: &str) -> Outcome {
    let end_ms = model.replay.as_ref().map_or(0, |replay| replay.span_ms().1);
    let end = Timestamp::from_timestamp_millis(end_ms).unwrap_or_default();
    seek(model, Seek::To(moment(typed, end)?.timestamp_millis()))
}

/// A moment in the past as a person types it.
fn moment(typed: &str, now: Timestamp) -> Result<Timestamp, String> {
    parse_past(typed, now).ok_or_else(|| {
        format!("`{typed}` is not a time; expected 2h, 09:00 (UTC) or a moment such as 2026-11-20T10:00:00Z")
    })
}

fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.timestamp()).unwrap_or(0)
}
