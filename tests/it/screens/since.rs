//! What changed since somebody looked last: over the list of clusters, on a screen of its own, and with what was kept.

use capstan_dashboard::fleet::Kept;
use chrono::Duration;

use super::*;

/// What a run of eight hours ago kept, at the end of which everything but prod-eu-1 was as it is now.
fn kept() -> Vec<Kept> {
    let mut before = run(PLAIN, Vec::new());
    keys(&mut before, "down q");
    before.keep_last();
    let mut all = before.fleet.unsaved_history();
    for kept in &mut all {
        let at_s = match kept {
            Kept::Happened(past) => &mut past.entry.at_s,
            Kept::Turned(turn) => &mut turn.at_s,
            Kept::Run(mark) => &mut mark.at_s,
        };
        *at_s -= 8 * 3_600;
    }
    all
}

fn run(eyes: Eyes, kept: Vec<Kept>) -> Model {
    let look = Look::load(eyes.theme, eyes.keymap, eyes.tier, eyes.ascii, None, command::check)
        .expect("shipped files load");
    let session =
        Session { title: "demo".to_owned(), scope: "all namespaces".to_owned(), ..Session::default() };
    let area = Rect::new(0, 0, eyes.width, eyes.height);
    let mut model = Model::new(session, look, area, now());
    model.fleet.keep_history(kept);
    update(&mut model, Msg::Fleet(fixture::sample()));
    model
}

/// This morning: the kubelet of a Machine of prod-eu-1 stopped reporting overnight.
fn morning(eyes: Eyes) -> Model {
    let mut model = run(eyes, kept());
    update(&mut model, Msg::Fleet(fixture::node_lost("prod-eu-1")));
    model.now += Duration::minutes(2);
    update(&mut model, Msg::Tick);
    model
}

#[test]
fn what_turned_since_somebody_looked_looks_as_recorded() {
    for (name, eyes, typed) in [
        ("since-fleet-80x24", PLAIN, ""),
        ("since-fleet-40x8", SMALL, ""),
        ("since-80x24", PLAIN, "T"),
        ("since-120x40", WIDE, "\":since 4d\" enter"),
        ("since-ascii-40x8", Eyes { ascii: true, ..SMALL }, "T"),
    ] {
        let mut model = morning(eyes);
        keys(&mut model, typed);
        golden::screen(name, &text(&mut model));
    }
}

#[test]
fn news_are_none_any_more_once_they_were_looked_at() {
    let mut model = morning(PLAIN);
    assert!(text(&mut model).contains("turned since 04:00"), "{}", text(&mut model));
    keys(&mut model, "T");
    let shown = text(&mut model);
    assert!(shown.contains("prod-eu-1") && shown.contains("ok"), "{shown}");
    keys(&mut model, "enter");
    assert!(matches!(model.screen(), Screen::Tree(_)));
    keys(&mut model, "esc esc");
    assert!(!text(&mut model).contains("turned since"), "{}", text(&mut model));
    // Whoever was away for more than an hour is told what turned meanwhile.
    model.now += Duration::hours(2);
    update(&mut model, Msg::Fleet(fixture::sample()));
    model.now += Duration::minutes(2);
    update(&mut model, Msg::Tick);
    keys(&mut model, "down");
    assert!(text(&mut model).contains("turned since 12:02"), "{}", text(&mut model));
}

#[test]
fn without_a_history_a_time_is_asked_for() {
    let mut model = sample(PLAIN);
    keys(&mut model, "T");
    assert!(text(&mut model).contains("it is not known when you looked last"));
    keys(&mut model, "\":since tomorrow\" enter");
    assert!(text(&mut model).contains("`tomorrow` is not a time"), "{}", text(&mut model));
    keys(&mut model, "\":since 5m\" enter");
    let shown = text(&mut model);
    assert!(shown.contains("changed since 11:55"), "{shown}");
    keys(&mut model, "/ \"nowhere\" enter");
    assert!(text(&mut model).contains("nothing that changed matches"), "{}", text(&mut model));
}

#[test]
fn the_hours_before_are_a_sparkline_over_the_list() {
    for (name, eyes) in [
        ("since-sparkline-120x40", WIDE),
        (
            "since-sparkline-ascii-110x20",
            Eyes { ascii: true, width: 110, height: 20, tier: Tier::None, ..PLAIN },
        ),
    ] {
        let mut model = morning(eyes);
        golden::screen(name, &text(&mut model));
    }
    let mut narrow = morning(PLAIN);
    assert!(!text(&mut narrow).contains("faults 6h"), "no room");
    let mut fresh = sample(WIDE);
    assert!(!text(&mut fresh).contains("faults 6h"), "nothing is known of the hours before");
}

#[test]
fn an_object_is_compared_with_how_it_was() {
    let mut model = morning(PLAIN);
    keys(&mut model, "\":tree prod-eu-1\" enter \":changes 9h\" enter");
    let subject = Subject::Object(match model.screen() {
        Screen::Details(details) => details.target.clone(),
        _ => panic!("details"),
    });
    let object = serde_json::json!({"spec": {"paused": false}, "status": {"phase": "Provisioned"}});
    let read = |object: &serde_json::Value| {
        let reading = Reading::Object(ObjectNews::Object(Box::new(object.clone())));
        Msg::Done(EffectOutcome::Read { subject: subject.clone(), reading })
    };
    told(&mut model, read(&object));
    model.now += Duration::seconds(9);
    let mut other = object;
    other["spec"]["paused"] = true.into();
    told(&mut model, read(&other));
    golden::screen("changes-between-80x24", &text(&mut model));
    keys(&mut model, "\":changes 1h 2h\" enter");
    assert!(text(&mut model).contains("the earlier one first"), "{}", text(&mut model));
    keys(&mut model, "\":changes\" enter");
    assert!(text(&mut model).contains("FIELDS THAT CHANGED SINCE"), "{}", text(&mut model));
}
