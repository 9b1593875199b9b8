//! The wallboard: what is on it at every size, that keys do nothing there, and how few bytes an hour of it costs.

use capstan_dashboard::tui::screen::wallboard::Wallboard;
use capstan_dashboard::tui::terminal::encode;
use capstan_dashboard::tui::view::view;
use chrono::Duration;
use ratatui::buffer::Buffer;

use super::*;

/// So much has happened since the shift began at 11:00 that two clusters turned.
fn board(eyes: Eyes) -> Model {
    let mut model = sample(Eyes { read_only: true, ..eyes });
    model.wallboard = Some(Wallboard { shift: now() - Duration::hours(1) });
    told(&mut model, Msg::Fleet(fixture::node_lost("prod-eu-1")));
    model.now += Duration::minutes(2);
    told(&mut model, Msg::Tick);
    model
}

#[test]
fn a_wallboard_looks_as_recorded() {
    for (name, eyes, seconds) in [
        ("wallboard-80x24", PLAIN, 0),
        ("wallboard-rollouts-120x40", WIDE, 20),
        ("wallboard-ascii-40x8", Eyes { ascii: true, tier: Tier::None, ..SMALL }, 0),
        ("wallboard-200x50", LARGE, 0),
    ] {
        let mut model = board(eyes);
        model.now += Duration::seconds(seconds);
        golden::screen(name, &text(&mut model));
    }
}

#[test]
fn a_wallboard_of_a_fleet_that_is_well_says_so() {
    let mut model = model(PLAIN, fixture::renewed("prod-eu-1"));
    model.wallboard = Some(Wallboard { shift: now() });
    let shown = text(&mut model);
    assert!(shown.contains("12:00 UTC") && shown.contains("nothing changed"), "{shown}");
}

#[test]
fn keys_do_nothing_on_a_wallboard_but_leave_it() {
    let mut model = board(PLAIN);
    let before = text(&mut model);
    for typed in ["enter", "d", "j", ":", "ctrl-d", "s", "T"] {
        assert!(keys(&mut model, typed).is_empty(), "{typed}");
        assert_eq!(text(&mut model), before, "{typed}");
    }
    assert!(matches!(keys(&mut model, "q")[..], [Effect::Quit]));
}

/// Everything that is sent in an hour, drawn as the loop draws it: when something on the picture reads differently.
fn bytes_of_an_hour(model: &mut Model) -> (usize, usize) {
    let area = model.area;
    let (mut shown, mut bytes, mut frames) = (Buffer::empty(area), Vec::new(), 0);
    let end = model.now + Duration::hours(1);
    let mut is_first = true;
    while model.now < end {
        model.refresh();
        let mut next = Buffer::empty(area);
        let drawn = view(model, area, &mut next);
        model.was_drawn();
        let mut frame = Vec::new();
        encode(&mut frame, &shown, &next, Some(&drawn.links), is_first, None, drawn.cursor);
        if !is_first && !frame.is_empty() {
            bytes.extend(frame);
            frames += 1;
        }
        (shown, is_first) = (next, false);
        let wait = [drawn.next_change_s, model.wakes_in_s()].into_iter().flatten().min().unwrap_or(3_600);
        model.now += Duration::seconds(wait.max(1));
        told(model, Msg::Tick);
    }
    (bytes.len(), frames)
}

/// A page takes its turn every 20 seconds, and the clock shows another minute; a wallboard with one page sends the clock alone.
#[test]
fn an_hour_of_a_wallboard_costs_few_bytes() {
    let mut still = model(PLAIN, fixture::renewed("prod-eu-1"));
    still.wallboard = Some(Wallboard { shift: now() });
    let (bytes, frames) = bytes_of_an_hour(&mut still);
    println!("one page: {bytes} bytes in {frames} frames");
    assert!(frames <= 70 && bytes < 6_000, "{bytes} bytes in {frames} frames");
    let mut turning = board(PLAIN);
    let (bytes, frames) = bytes_of_an_hour(&mut turning);
    println!("two pages: {bytes} bytes in {frames} frames");
    assert!(frames <= 250 && bytes < 120_000, "{bytes} bytes in {frames} frames");
}
