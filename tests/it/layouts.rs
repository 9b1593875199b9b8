//! How screens use their room: sizes, columns, the pane, and what a tree shows of many Machines.

use std::path::PathBuf;

use capstan_dashboard::fleet::watch::ObjectNews;
use capstan_dashboard::fleet::{Delta, Item, Verdict};
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::subject::Subject;
use capstan_dashboard::tui::update::update;
use capstan_dashboard::tui::view::view;
use proptest::prelude::*;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;

use crate::fleet_fixture::{self as fixture, now};
use crate::golden;

fn model(width: u16, height: u16, deltas: Vec<Delta>) -> Model {
    let look = Look::load("default", "default", Tier::Ansi16, false, None, command::check)
        .expect("shipped files load");
    let mut model = Model::new(Session::default(), look, Rect::new(0, 0, width, height), now());
    update(&mut model, Msg::Fleet(deltas));
    model
}

fn keys(model: &mut Model, keys: &str) {
    press(model, keys).unwrap_or_else(|e| panic!("{keys}: {e}"));
}

/// Draws into a buffer that is larger than the screen: nothing may be drawn beyond it.
fn draw_inside(model: &mut Model, typed: &str) {
    model.refresh();
    let (width, height) = (model.area.width, model.area.height);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width + 20, height + 20));
    view(model, model.area, &mut buffer);
    for y in 0..height + 20 {
        for x in 0..width + 20 {
            let is_outside = x >= width || y >= height;
            if is_outside && buffer.cell((x, y)) != Some(&Cell::EMPTY) {
                panic!("{typed:?} at {width}x{height}: drawn at {x}, {y}: {:?}", buffer.cell((x, y)));
            }
        }
    }
}

const SCREENS: [&str; 10] =
    ["", "ctrl-w", "enter", "enter o + ctrl-w", "enter + end", "w", "d tab", "?", ": \"s\"", "/ \"x\""];

#[test]
fn no_size_breaks_any_screen_and_none_is_left() {
    for typed in SCREENS {
        let mut model = model(80, 24, fixture::sample());
        keys(&mut model, typed);
        for width in (0..=60).chain([80, 81, 120, 139, 140, 200]) {
            for height in (0..=20).chain([24, 30, 50]) {
                update(&mut model, Msg::Resize { width, height });
                draw_inside(&mut model, typed);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_small_size_has_what_belongs_there(
        width in 1u16..=60,
        height in 1u16..=20,
        clusters in 0u32..12,
        typed in proptest::collection::vec(
            prop_oneof![Just("down"), Just("up"), Just("end"), Just("enter"), Just("esc"), Just("space"), Just("n"),
                Just("ctrl-w"), Just("+"), Just("-"), Just("d"), Just("?"), Just("S")], 0..12),
    ) {
        let mut deltas = fixture::large(clusters, 2);
        deltas.extend(fixture::sample());
        let mut model = model(width, height, deltas);
        for key in &typed {
            keys(&mut model, key);
            draw_inside(&mut model, key);
        }
        draw_inside(&mut model, "");
        let screen = text(&mut model);
        prop_assert!(screen.lines().all(|line| line.chars().count() <= usize::from(width)));
    }
}

/// Where the cell of a column begins that is headed so.
fn column(screen: &str, title: &str) -> Option<(usize, usize)> {
    let at = |line: &str| line.find(title).map(|byte| line[..byte].chars().count());
    screen.lines().enumerate().take(8).find_map(|(row, line)| Some((row, at(line)?)))
}

/// The rows of a list that are not well have a reason. Answers how many there were.
fn reasons(screen: &str, name: &str) -> usize {
    let is_list = column(screen, "NAME").is_some() || column(screen, "OBJECT").is_some();
    let width = screen.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let lines: Vec<Vec<char>> = screen.lines().map(|line| line.chars().collect()).collect();
    if !is_list || width < 60 || screen.contains('\u{256d}') {
        return 0;
    }
    let is_at_fault = |line: &[char]| matches!(line.get(1), Some('\u{2717}' | '\u{2298}' | '\u{21bb}'));
    let Some((heading, why)) = column(screen, "WHY") else {
        // The conditions are the reasons; kinds that are not watched have no verdict.
        let needs_none = screen.contains("conditions of ") || !lines.iter().any(|line| is_at_fault(line));
        assert!(needs_none, "{name} has no reasons:\n{screen}");
        return 0;
    };
    let mut count = 0;
    for line in lines.iter().skip(heading + 1).take_while(|line| line.first() != Some(&'\u{2500}')) {
        // What is open has its reason below, but for the cluster.
        let is_open = line.get(4..).is_some_and(|line| line.contains(&'\u{25be}'));
        if is_at_fault(line) && !is_open {
            assert!(line.get(why).is_some_and(|c| *c != ' '), "{name}:\n{screen}");
            count += 1;
        }
    }
    count
}

#[test]
fn every_golden_screen_of_sixty_columns_shows_its_reasons() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/screens");
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("a folder").flatten() {
        let screen = std::fs::read_to_string(file.path()).expect("a screen");
        count += reasons(&screen, &file.file_name().to_string_lossy());
    }
    assert!(count > 50, "{count}");
}

#[test]
fn the_reason_is_there_at_any_width_from_sixty_on() {
    let opened = ["", "ctrl-w", "enter", "enter ctrl-w", "\":tree prod-us-2\" enter"];
    for typed in opened {
        let mut model = model(80, 24, fixture::sample());
        keys(&mut model, typed);
        for width in 60..=210 {
            for height in [16, 24, 50] {
                update(&mut model, Msg::Resize { width, height });
                let screen = text(&mut model);
                assert!(
                    reasons(&screen, &format!("{typed} {width}x{height}")) >= 2,
                    "{typed} {width}:\n{screen}"
                );
            }
        }
    }
}

/// Columns came and went with the data: a restart took the names of Nodes away and brought another column. They may get
/// wider for a longer name or a greater number, and stay so.
/// The decisive word was on the first screen for none of nine such clusters among fifty.
#[test]
fn what_is_wrong_is_on_the_first_screen_of_fifty_clusters() {
    let mut model = model(80, 24, fixture::troubled(50).deltas());
    let screen = text(&mut model);
    for trouble in &fixture::TROUBLES {
        // A name that would leave the reason less than its room is cut in its middle.
        let begins = &trouble.name[..trouble.name.len().min(12)];
        let (first, rest) = screen.split_once(begins).unwrap_or_else(|| panic!("{begins}:\n{screen}"));
        let is_at_fault = |line: &str| line.contains(['\u{2717}', '\u{2298}']);
        assert!(first.lines().last().is_some_and(is_at_fault), "{begins}:\n{screen}");
        // Its own line, and those that go on below it without a name.
        let goes_on = |line: &&str| line.starts_with("      ");
        let own: Vec<&str> = rest.lines().take(1).chain(rest.lines().skip(1).take_while(goes_on)).collect();
        let words = own.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        assert!(
            words.contains(trouble.decisive),
            "{}: `{}` in `{words}`\n{screen}",
            trouble.name,
            trouble.decisive
        );
    }
    for line in screen.lines().filter(|line| line.contains('\u{22ef}')) {
        assert!(line.trim_end().chars().count() >= 79, "cut beside blank cells: {line}\n{screen}");
    }
}

#[test]
fn columns_stay_where_they_are_or_make_room_once() {
    for (width, typed) in [(80, ""), (120, ""), (200, "ctrl-w"), (80, "enter"), (200, "enter ctrl-w")] {
        let mut model = model(width, 24, fixture::sample());
        keys(&mut model, typed);
        let mut headings = |deltas| {
            update(&mut model, Msg::Fleet(deltas));
            text(&mut model).lines().nth(3).unwrap_or_default().to_owned()
        };
        let before = headings(fixture::sample());
        assert!(before.contains("WHY"), "{before}");
        assert_eq!(before, headings(fixture::node_lost("prod-eu-1")), "other words move nothing");
        let larger = headings(fixture::large(3, 40));
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&before), words(&larger), "the same columns");
        assert_eq!(larger, headings(fixture::sample()), "nothing moves back");
    }
}

/// One of 33 workers was bad, and stood on the second page of a list of those that were well.
#[test]
fn the_odd_one_out_is_seen_among_many() {
    for (name, width, height) in
        [("tree-odd-80x24", 80, 24), ("tree-odd-120x40", 120, 40), ("tree-odd-200x50", 200, 50)]
    {
        let mut model = model(width, height, fixture::odd_one_out());
        keys(&mut model, "enter");
        let screen = text(&mut model);
        assert!(screen.contains("29 machines") && screen.contains("3 machines"), "{screen}");
        assert!(screen.contains("ma/tjmw5"), "{screen}");
        golden::screen(name, &screen);
    }
}

#[test]
fn what_is_well_is_closed_until_it_is_opened_and_that_is_remembered() {
    let mut model = model(80, 24, fixture::sample());
    keys(&mut model, "\":tree prod-eu-1\" enter");
    let closed = text(&mut model);
    assert!(closed.contains("kcp/cp") && !closed.contains("4x7tq"), "{closed}");
    keys(&mut model, "down right right space");
    let opened = text(&mut model);
    assert!(opened.contains("3 machines"), "{opened}");
    keys(&mut model, "esc \":tree edge-7\" enter esc \":tree prod-eu-1\" enter");
    assert_eq!(text(&mut model).matches("3 machines").count(), 1, "{}", text(&mut model));
}

#[test]
fn enter_on_a_heading_opens_what_stands_below_it() {
    let mut model = model(80, 24, fixture::odd_one_out());
    keys(&mut model, "enter end");
    assert!(matches!(model.selected(), Some(Item::Group { .. })), "{}", text(&mut model));
    keys(&mut model, "enter");
    assert!(text(&mut model).contains("m0000"), "{}", text(&mut model));
    assert_eq!(model.screens.len(), 2);
}

/// A Machine that gets well goes behind the line of those that are: the cursor goes there too.
#[test]
fn the_cursor_goes_where_its_object_is_closed_away() {
    let mut model = model(80, 24, fixture::odd_one_out());
    keys(&mut model, "enter + end");
    let chosen = model.selected();
    assert!(matches!(chosen, Some(Item::Row(_))));
    keys(&mut model, "-");
    model.refresh();
    assert!(model.selected() != chosen && model.selected().is_some());
}

#[test]
fn faults_are_gone_to_one_after_another() {
    let mut model = model(80, 24, fixture::odd_one_out());
    keys(&mut model, "n enter - n");
    let here = model.selected_row().and_then(|id| model.fleet.row(id)).map(|row| row.name.to_string());
    assert_eq!(here.as_deref(), Some("fleet-0031-md-0-7vj9c-tjmw5"));
    keys(&mut model, "N");
    assert_eq!(model.selected_row().map(|id| model.fleet.own_verdict(id)), Some(Verdict::Degraded));
    let mut model = self::model(80, 24, fixture::large(2, 2));
    keys(&mut model, "n");
    assert!(text(&mut model).contains("nothing here is at fault"));
}

#[test]
fn a_pane_follows_the_cursor_where_there_is_room() {
    let mut model = model(200, 50, fixture::sample());
    let screen = text(&mut model);
    assert!(screen.contains("WHY ") && screen.contains("DO ") && screen.contains("LAST "), "{screen}");
    assert!(screen.contains("degraded 1h"), "{screen}");
    keys(&mut model, "down");
    assert!(text(&mut model).contains("progressing 1m"), "{}", text(&mut model));
    keys(&mut model, "\":tree edge-7\" enter");
    update(&mut model, Msg::Resize { width: 80, height: 24 });
    let screen = text(&mut model);
    assert!(screen.contains("CHECK "), "the lower third: {screen}");
    update(&mut model, Msg::Resize { width: 80, height: 16 });
    assert!(!text(&mut model).contains("CHECK "), "{}", text(&mut model));
}

#[test]
fn details_stand_side_by_side_where_there_is_room() {
    for (name, width, height) in [("details-side-by-side-200x50", 200, 50), ("details-below-80x24", 80, 24)] {
        let mut model = model(width, height, fixture::sample());
        let effects = press(&mut model, "w").expect("keys");
        let subject = effects.iter().find_map(|effect| match effect {
            Effect::Read { subject: subject @ Subject::Object(_), .. } => Some(subject.clone()),
            _ => None,
        });
        let object = serde_json::json!({
            "kind": "Machine",
            "spec": {"version": "v1.34.3", "failureDomain": "zone-a", "providerID": "cloud:///zone-a/i-12",
                     "bootstrap": {"configRef": {"name": "edge-7-md-0-qq2lk-x8f4z"}}},
            "status": {"phase": "Running", "nodeInfo": {"kubeletVersion": "v1.34.3"}, "failureDomain": "zone-a",
                       "initialization": {"bootstrapDataSecretCreated": true}},
        });
        let reading = Reading::Object(ObjectNews::Object(Box::new(object)));
        let subject = subject.expect("it is followed");
        update(&mut model, Msg::Done(EffectOutcome::Read { subject, reading }));
        let screen = text(&mut model);
        let line = screen.lines().find(|line| line.contains("CONDITIONS")).unwrap_or_default();
        assert_eq!(line.contains("SPEC") && line.contains("RELATED"), width >= 140, "{screen}");
        golden::screen(name, &screen);
    }
}

/// `F` and `S` refused to work in a tree.
#[test]
fn a_tree_shows_faults_alone_and_in_other_orders() {
    let mut model = model(120, 40, fixture::sample());
    keys(&mut model, "\":tree edge-7\" enter");
    let all = text(&mut model);
    keys(&mut model, "F");
    let faults = text(&mut model);
    assert!(
        faults.contains("x8f4z") && faults.contains("qq2lk") && faults.contains("faults only"),
        "{faults}"
    );
    assert!(!faults.contains("5kx2w") && !faults.contains("kcp/"), "{faults}");
    keys(&mut model, "F");
    assert_eq!(text(&mut model), all);
    keys(&mut model, "\":tree prod-eu-1\" enter F");
    assert!(text(&mut model).contains("nothing here is at fault"), "{}", text(&mut model));
    keys(&mut model, "\":tree edge-7\" enter");
    for word in ["by since", "by name"] {
        keys(&mut model, "S");
        assert!(text(&mut model).contains(word), "{}", text(&mut model));
    }
    keys(&mut model, "S");
    assert_eq!(text(&mut model), all);
}

/// Clusters by when they became as they are.
#[test]
fn clusters_are_ordered_by_since() {
    let mut model = model(120, 40, fixture::sample());
    keys(&mut model, "\":sort since\" enter");
    let screen = text(&mut model);
    let at = |name: &str| screen.find(name).unwrap_or_else(|| panic!("{name}: {screen}"));
    assert!(
        at("lab-3") < at("prod-us-2") && at("prod-us-2") < at("edge-7") && at("edge-7") < at("prod-eu-1"),
        "{screen}"
    );
    keys(&mut model, "I");
    let screen = text(&mut model);
    let at = |name: &str| screen.find(name).unwrap_or_else(|| panic!("{name}: {screen}"));
    assert!(at("prod-eu-1") < at("lab-3"), "{screen}");
}
