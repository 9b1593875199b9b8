//! Fleet + keys → screen text. The texts in `golden/screens` are read as documentation of what a
//! person sees; `UPDATE_GOLDEN=1` writes them anew.

mod changing;
mod keys_pressed;
mod lists;
mod plans;
mod since;
mod telling;
mod typing;
mod wallboard;

use capstan_dashboard::actions::Order;
use capstan_dashboard::fleet::watch::ObjectNews;
use capstan_dashboard::fleet::{Delta, FeedState};
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::keymap::Keymap;
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::overlay::Overlay;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::screen::Screen;
use capstan_dashboard::tui::script::{draw, press, save, text};
use capstan_dashboard::tui::subject::Subject;
use capstan_dashboard::tui::theme::Scope;
use capstan_dashboard::tui::update::update;
use proptest::prelude::*;
use ratatui::layout::Rect;

use crate::fleet_fixture::{self as fixture, now};
use crate::golden;
use changing::touched;

/// How a screen is looked at.
#[derive(Clone, Copy)]
struct Eyes {
    width: u16,
    height: u16,
    tier: Tier,
    ascii: bool,
    theme: &'static str,
    keymap: &'static str,
    read_only: bool,
}

const PLAIN: Eyes = Eyes {
    width: 80,
    height: 24,
    tier: Tier::Ansi16,
    ascii: false,
    theme: "default",
    keymap: "default",
    read_only: false,
};
const WIDE: Eyes = Eyes { width: 120, height: 40, ..PLAIN };
const SMALL: Eyes = Eyes { width: 40, height: 8, ..PLAIN };
const LARGE: Eyes = Eyes { width: 200, height: 50, ..PLAIN };

fn model(eyes: Eyes, deltas: Vec<Delta>) -> Model {
    let look = Look::load(eyes.theme, eyes.keymap, eyes.tier, eyes.ascii, None, command::check)
        .expect("shipped files load");
    let session = Session {
        title: "demo".to_owned(),
        scope: "all namespaces".to_owned(),
        read_only: eyes.read_only,
        ..Session::default()
    };
    let mut model = Model::new(session, look, Rect::new(0, 0, eyes.width, eyes.height), now());
    update(&mut model, Msg::Fleet(deltas));
    model
}

fn sample(eyes: Eyes) -> Model {
    model(eyes, fixture::sample())
}

/// What keys ask for, but for rights: they have tests of their own.
fn keys(model: &mut Model, keys: &str) -> Vec<Effect> {
    but_rights(press(model, keys).unwrap_or_else(|e| panic!("{keys}: {e}")))
}

fn told(model: &mut Model, msg: Msg) -> Vec<Effect> {
    but_rights(update(model, msg))
}

fn but_rights(mut effects: Vec<Effect>) -> Vec<Effect> {
    effects.retain(|effect| !matches!(effect, Effect::Read { subject: Subject::Rights { .. }, .. }));
    effects
}

/// The object that is followed.
fn followed(effects: &[Effect]) -> Subject {
    let subject = effects.iter().find_map(|effect| match effect {
        Effect::Read { subject: subject @ Subject::Object(_), .. } => Some(subject.clone()),
        _ => None,
    });
    subject.expect("it is followed")
}

#[test]
fn every_screen_looks_as_recorded() {
    for (name, eyes, typed) in [
        ("fleet-80x24", PLAIN, ""),
        ("fleet-120x40", WIDE, ""),
        ("fleet-ascii", Eyes { ascii: true, ..PLAIN }, "down"),
        ("fleet-read-only-60x16", Eyes { read_only: true, width: 60, height: 16, ..PLAIN }, ""),
        ("fleet-filter", PLAIN, "/ \"us\""),
        ("fleet-faults-by-name", PLAIN, "F S"),
        ("tree-healthy-80x24", PLAIN, "\":tree prod-eu-1\" enter"),
        ("tree-broken-120x40", WIDE, "enter"),
        ("tree-creating-ascii", Eyes { ascii: true, ..PLAIN }, "\":tree lab-3\" enter"),
        ("fleet-why", PLAIN, "down down down"),
        ("tree-rolling-80x24", PLAIN, "\":tree prod-us-2\" enter"),
        ("tree-objects", PLAIN, "\":tree lab-3\" enter o"),
        ("tree-folded", PLAIN, "\":tree prod-eu-1\" enter -"),
        ("details-machine-80x24", PLAIN, "w"),
        ("details-cluster-120x40", WIDE, "d"),
        ("help-80x24", PLAIN, "?"),
        ("help-200x50", LARGE, "?"),
        ("help-read-only-120x40", Eyes { read_only: true, ..WIDE }, "enter down ?"),
        ("fleet-40x8", SMALL, ""),
        ("tree-40x8", SMALL, "enter down"),
        ("refused-40x8", SMALL, "s"),
        ("help-40x24", Eyes { height: 24, ..SMALL }, "?"),
        ("command-line", PLAIN, ": \"ro\""),
        ("command-line-mistake", PLAIN, ": \"scal 3\" enter"),
        ("command-line-other-word", PLAIN, ": \"upgradeAfter\" enter"),
        ("vim-chord", Eyes { keymap: "vim", ..PLAIN }, "g"),
        ("too-small", Eyes { width: 30, height: 5, ..PLAIN }, ""),
        ("fleet-200x50", LARGE, ""),
        ("fleet-wide-80x24", PLAIN, "ctrl-w"),
        ("fleet-wide-200x50", LARGE, "ctrl-w"),
        ("tree-200x50", LARGE, "\":tree prod-us-2\" enter"),
        ("tree-wide-80x24", PLAIN, "\":tree prod-us-2\" enter ctrl-w"),
        ("tree-wide-200x50", LARGE, "ctrl-w \":tree prod-us-2\" enter"),
        ("fleet-by-counter", PLAIN, "\":sort cp-available\" enter I"),
    ] {
        let mut model = sample(eyes);
        keys(&mut model, typed);
        golden::screen(name, &text(&mut model));
    }
}

#[test]
fn older_conditions_are_read_and_marked() {
    for (name, eyes, typed) in [
        ("fleet-older-80x24", PLAIN, ""),
        ("fleet-older-wide-120x40", WIDE, "ctrl-w"),
        ("tree-older-80x24", PLAIN, "\":tree only-v1beta1\" enter"),
        ("tree-older-ascii", Eyes { ascii: true, tier: Tier::None, ..WIDE }, "\":tree only-v1beta1\" enter"),
        ("details-older-machine-80x24", PLAIN, "\":tree only-v1beta1\" enter end d"),
        ("details-upgraded-80x24", PLAIN, "\":tree upgraded\" enter d"),
    ] {
        let mut model = model(eyes, fixture::older());
        keys(&mut model, typed);
        golden::screen(name, &text(&mut model));
    }
}

#[test]
fn wide_columns_come_and_go() {
    let mut model = sample(LARGE);
    let before = text(&mut model);
    keys(&mut model, "ctrl-w");
    assert!(text(&mut model).contains("PAUSED") && !before.contains("PAUSED"));
    keys(&mut model, "\":wide\" enter");
    assert_eq!(text(&mut model), before);
}

#[test]
fn the_first_frame_needs_no_data() {
    let look = Look::load("default", "default", Tier::Ansi16, false, None, command::check)
        .expect("shipped files load");
    let mut model = Model::new(Session::default(), look, Rect::new(0, 0, 80, 24), now());
    golden::screen("first-frame", &text(&mut model));
}

#[test]
fn what_could_not_be_read_is_told() {
    let lost =
        || FeedState::Lost { error: "https://10.0.0.1:6443 cannot be reached: connection refused".into() };
    let refused = || FeedState::NoAccess { error: "not allowed: list clusters.cluster.x-k8s.io".into() };
    let mut model = sample(PLAIN);
    update(
        &mut model,
        Msg::Fleet(vec![fixture::feed("Cluster", lost(), 4), fixture::feed("Machine", lost(), 3)]),
    );
    golden::screen("connection-lost", &text(&mut model));
    let mut model = sample(PLAIN);
    let error =
        "https://10.0.0.1:6443 did not answer in time: check the network, proxies and firewalls between";
    let hung = || FeedState::Silent { error: error.into() };
    let feeds = ["Cluster", "Machine", "MachineSet"].map(|kind| fixture::feed(kind, hung(), 1));
    update(&mut model, Msg::Fleet(feeds.to_vec()));
    golden::screen("no-answer", &text(&mut model));
    let mut model = sample(PLAIN);
    update(&mut model, Msg::Fleet(fixture::replaced()));
    golden::screen("history-replaced", &text(&mut model));
    keys(&mut model, "down");
    assert!(!text(&mut model).contains("history"), "it is said once");
    let mut model = sample(PLAIN);
    let old = "this server offers Cluster API only as v1beta1; capstan reads v1beta2. Shown is what v1beta1 can say.";
    update(&mut model, Msg::Fleet(vec![fixture::feed("MachineSet", refused(), 4), fixture::notice(old)]));
    golden::screen("no-access-to-one-kind", &text(&mut model));
    keys(&mut model, "!");
    golden::screen("notices", &text(&mut model));
    let mut model = self::model(PLAIN, vec![fixture::feed("Cluster", refused(), 0)]);
    golden::screen("no-access-at-all", &text(&mut model));
}

#[test]
fn hostile_text_reaches_no_cell() {
    for typed in ["", "enter", "d", "d \":filter\" enter", "2", "t", "R"] {
        let mut model = model(WIDE, fixture::hostile());
        keys(&mut model, typed);
        let buffer = draw(&mut model);
        for cell in buffer.content() {
            assert!(
                !cell.symbol().chars().any(capstan_base::text::is_hostile),
                "{typed}: {:?}",
                cell.symbol()
            );
        }
    }
    let mut model = model(PLAIN, fixture::hostile());
    keys(&mut model, "d");
    golden::screen("details-hostile", &text(&mut model));
}

#[test]
fn without_colour_glyphs_and_words_are_left() {
    let mut plain = sample(Eyes { tier: Tier::None, ..PLAIN });
    let buffer = draw(&mut plain);
    for cell in buffer.content() {
        assert!(
            matches!((cell.fg, cell.bg), (ratatui::style::Color::Reset, ratatui::style::Color::Reset)),
            "{cell:?}"
        );
    }
    let mut coloured = sample(PLAIN);
    assert_eq!(text(&mut plain), text(&mut coloured), "colour changes no text");
}

#[test]
fn ascii_means_ascii() {
    for typed in ["", "enter", "enter o", "w", "?", ": \"scale\"", "d tab"] {
        let mut model = sample(Eyes { ascii: true, ..WIDE });
        keys(&mut model, typed);
        let screen = text(&mut model);
        assert!(screen.is_ascii(), "{typed}:\n{screen}");
    }
}

/// Only more clusters at fault ring, and only where that was asked for.
#[test]
fn the_bell_rings_when_a_cluster_comes_to_be_at_fault() {
    let is_bell = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Bell));
    for (typed, rings) in
        [("", false), ("\":bell on\" enter", true), ("\":bell on\" enter \":bell off\" enter", false)]
    {
        let mut model = sample(PLAIN);
        keys(&mut model, typed);
        assert!(!is_bell(&told(&mut model, Msg::Fleet(fixture::sample()))), "nothing changed");
        let mut effects = told(&mut model, Msg::Fleet(fixture::node_lost("prod-eu-1")));
        model.now += chrono::Duration::minutes(2);
        effects.extend(told(&mut model, Msg::Tick));
        assert_eq!(is_bell(&effects), rings, "{typed}");
        let said = "prod-eu-1 is degraded now";
        assert_eq!(text(&mut model).contains(said), rings, "{}", text(&mut model));
        assert!(!is_bell(&told(&mut model, Msg::Tick)), "once");
    }
}

#[test]
fn a_filter_takes_terms_and_says_what_it_cannot_understand() {
    let mut model = sample(PLAIN);
    keys(&mut model, "/");
    assert!(text(&mut model).contains("Available=False>10m"), "what may be typed: {}", text(&mut model));
    for (typed, seen, not_seen) in [
        ("Available=F>10m", "edge-7", "lab-3"),
        ("Available=F<10m", "lab-3", "edge-7"),
        ("!~edge|lab verdict:ok", "prod-eu-1", "prod-us-2"),
        ("~prod(", "`~prod(` is not a regular expression: unclosed group", "edge-7"),
    ] {
        keys(&mut model, &format!("esc / \"{typed}\" enter"));
        let screen = text(&mut model);
        assert!(screen.contains(seen) && !screen.contains(not_seen), "{typed}: {screen}");
    }
    keys(&mut model, "esc \":tree edge-7\" enter / \"NodeHealthy=True md\" enter");
    let screen = text(&mut model);
    assert!(screen.contains("NodeHealthy=True md") && !screen.contains("nothing matches"), "{screen}");
    keys(&mut model, "/ \" age>9x\"");
    assert!(text(&mut model).contains("`age>9x`: a time is written like"), "{}", text(&mut model));
}

/// The fleet's own row named a Machine that no search found.
#[test]
fn any_object_is_found_by_some_letters() {
    let mut model = sample(WIDE);
    keys(&mut model, "ctrl-p \"x8f4\"");
    let screen = text(&mut model);
    assert!(
        screen.contains("find ma/prod/edge-7-md-0-qq2lk-x8f4z") && screen.contains("degraded"),
        "{screen}"
    );
    keys(&mut model, "enter");
    assert!(text(&mut model).contains("Machine edge-7-md-0-qq2lk-x8f4z"), "{}", text(&mut model));
    keys(&mut model, "ctrl-p \"edge7cp\" tab enter");
    assert!(text(&mut model).contains("KubeadmControlPlane edge-7-cp"), "{}", text(&mut model));
    keys(&mut model, "ctrl-p \"zzzzzz\" enter");
    assert!(text(&mut model).contains("nothing here is called `zzzzzz`"), "{}", text(&mut model));
}

#[test]
fn one_condition_is_shown_across_all_machines() {
    let mut model = sample(WIDE);
    keys(&mut model, "\":condition nodehealthy\" enter");
    golden::screen("condition-fleet-120x40", &text(&mut model));
    keys(&mut model, "0 \":tree prod-eu-1\" enter \":condition NodeHealthy\" enter");
    assert!(text(&mut model).contains("NodeHealthy of machines 6 of 16: 6 True"), "{}", text(&mut model));
    keys(&mut model, "\":condition NodeHealthi\" enter");
    assert!(text(&mut model).contains("did you mean `NodeHealthy`?"), "{}", text(&mut model));
}

#[test]
fn the_screen_is_written_into_a_new_private_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a folder");
    let mut model = sample(PLAIN);
    let effects = keys(&mut model, "\":screenshot a.txt\" enter");
    assert!(
        matches!(effects.as_slice(), [Effect::Screenshot(path)] if path.ends_with("a.txt")),
        "{effects:?}"
    );
    let [plain, picture] = ["a.txt", "b.svg"].map(|name| dir.path().join(name));
    save(&mut model, &plain).expect("it is new");
    assert_eq!(std::fs::read_to_string(&plain).expect("there"), text(&mut model));
    assert_eq!(std::fs::metadata(&plain).expect("there").permissions().mode() & 0o777, 0o600);
    assert!(save(&mut model, &plain).is_err(), "what is there stays");
    save(&mut model, &picture).expect("it is new");
    assert!(std::fs::read_to_string(&picture).expect("there").starts_with("<svg "));
}

#[test]
fn a_text_is_searched() {
    let mut model = sample(PLAIN);
    let effects = keys(&mut model, "d 2");
    let subject = followed(&effects);
    let lines: serde_json::Map<_, _> = (10..99).map(|n| (format!("line{n}"), n.into())).collect();
    let object =
        serde_json::json!({ "kind": "Cluster", "spec": lines, "status": { "Line20": "again line20" } });
    let reading = Reading::Object(ObjectNews::Object(Box::new(object)));
    update(&mut model, Msg::Done(EffectOutcome::Read { subject, reading }));
    keys(&mut model, "/ \"line2\"");
    golden::screen("details-search-80x24", &text(&mut model));
    keys(&mut model, "enter n");
    assert!(text(&mut model).contains("find line2 2 of 11"), "{}", text(&mut model));
    keys(&mut model, "N N");
    let screen = text(&mut model);
    assert!(
        screen.contains("find line2 11 of 11") && screen.contains("status:"),
        "round to the end: {screen}"
    );
    keys(&mut model, "esc");
    assert!(!text(&mut model).contains("find") && model.screens.len() == 2, "only the search is over");
    keys(&mut model, "/ \"Line2\" enter");
    assert!(text(&mut model).contains("find Line2 1 of 1"), "a capital matches itself");
    keys(&mut model, "/ \"zz\"");
    assert!(text(&mut model).contains("find Line2zz not found"));
    keys(&mut model, "esc esc n");
    assert!(text(&mut model).contains("nothing is looked for; / begins"));
}

/// At 80 columns the way out was cut off behind hints that could not work.
#[test]
fn a_context_is_marked_before_its_title() {
    let mut model = sample(PLAIN);
    model.session.mark = Some(("prod eu".to_owned(), Scope::Production));
    assert!(text(&mut model).starts_with(" capstan   prod eu  demo "), "{}", text(&mut model));
    // Where there is little room the title is cut before it.
    let mut model = sample(SMALL);
    model.session.title = "kubernetes-admin@a-cluster-in-europe".to_owned();
    model.session.mark = Some(("prod eu".to_owned(), Scope::Production));
    assert!(text(&mut model).contains(" prod eu "), "{}", text(&mut model));
}

#[test]
fn the_way_out_is_always_hinted() {
    for (opened, deeper) in
        [("", false), ("enter", true), ("enter down", true), ("d", true), ("enter / \"md\" enter", true)]
    {
        for width in 40..=130 {
            let mut model = sample(Eyes { width, ..PLAIN });
            keys(&mut model, opened);
            let screen = text(&mut model);
            let last = screen.lines().last().unwrap_or_default();
            let way_out = if deeper { "? help  esc back  q leave" } else { "? help  q quit" };
            assert!(last.ends_with(way_out), "{width} {opened}: {last}");
        }
    }
}

#[test]
fn hints_and_help_name_what_works_here() {
    let last = |model: &mut Model| text(model).lines().last().unwrap_or_default().to_owned();
    let wide = Eyes { width: 160, ..PLAIN };
    let mut model = sample(wide);
    assert!(
        !last(&mut model).contains("scale") && last(&mut model).contains("p pause"),
        "{}",
        last(&mut model)
    );
    keys(&mut model, "\":tree prod-eu-1\" enter down");
    assert!(last(&mut model).contains("s scale  r restart"), "{}", last(&mut model));
    let mut model = sample(Eyes { read_only: true, ..wide });
    keys(&mut model, "\":tree prod-eu-1\" enter down");
    assert!(!last(&mut model).contains("scale") && !last(&mut model).contains("pause"));
    keys(&mut model, "? / \"scale\" enter");
    let screen = text(&mut model);
    assert!(screen.contains("(read-only: nothing can be") && !screen.contains("Move"), "{screen}");
}

/// A pause and a deletion were offered for what is being deleted already.
#[test]
fn nothing_is_hinted_that_has_no_effect_on_what_is_being_deleted() {
    let mut model = model(WIDE, fixture::troubled(11).deltas());
    keys(&mut model, "\":machines\" enter / \"^legacy-dc-md-0-7vj9c\" enter");
    let of_verdict = |model: &mut Model, glyph: char| {
        keys(model, "home");
        for _ in 0..4 {
            let screen = text(model);
            let is_it = |line: &str| line.starts_with('\u{258c}') && line.contains(glyph);
            if screen.lines().any(is_it) {
                return screen.lines().last().expect("hints").to_owned();
            }
            keys(model, "down");
        }
        panic!("no row with {glyph}: {}", text(model))
    };
    let well = of_verdict(&mut model, '\u{2713}');
    assert!(well.contains("delete"), "{well}");
    let going = of_verdict(&mut model, '\u{2717}');
    assert!(!going.contains("delete") && !going.contains("pause"), "{going}");
}

/// One thing had two ages: in the list and in the pane, and in the tree that of the object above the fault.
#[test]
fn a_verdict_has_one_age_wherever_it_stands() {
    let mut model = model(WIDE, fixture::every_state().deltas());
    let selected =
        |screen: &str| screen.lines().find(|l| l.starts_with('\u{258c}')).expect("a row").to_owned();
    // Of the pane: `degraded 1h ∙ Cluster`.
    let in_pane = |screen: &str| {
        let line = screen.lines().find(|l| l.contains(" \u{2219} Cluster")).expect("a pane");
        line.split_whitespace().nth(1).expect("an age or a separator").to_owned()
    };
    let mut seen = 0;
    for at in 0..model.fleet.clusters().len() {
        keys(&mut model, &format!("home {}", "down ".repeat(at)));
        let list = text(&mut model);
        let age = in_pane(&list);
        let has_it = |line: &str| line.split_whitespace().any(|word| word == age);
        if age == "\u{2219}" {
            continue;
        }
        seen += 1;
        assert!(has_it(&selected(&list)), "{age}:\n{list}");
        keys(&mut model, "enter home");
        let tree = text(&mut model);
        assert!(has_it(&selected(&tree)) && in_pane(&tree) == age, "{age}:\n{tree}");
        keys(&mut model, "esc");
    }
    assert!(seen > 8, "{seen} of them have an age");
}

/// `Deleting ∙ deleting`: the phase and the tag are the same word.
#[test]
fn the_foot_says_a_thing_once() {
    for eyes in [PLAIN, WIDE] {
        let mut model = model(eyes, fixture::every_state().deltas());
        keys(&mut model, "\":machines\" enter");
        let mut going = 0;
        for _ in 0..40 {
            let screen = text(&mut model).to_lowercase();
            assert!(!screen.contains("deleting \u{2219} deleting"), "{screen}");
            going += usize::from(screen.contains("deleting"));
            keys(&mut model, "down");
        }
        assert!(going > 0, "no Machine goes");
    }
}

/// Labels are padded, and the lines below them went on under the blanks.
#[test]
fn without_colour_blanks_behind_words_are_not_underlined() {
    use ratatui::style::Modifier;
    for typed in ["", "enter", "w", "2", "?", ": \"ro\""] {
        let mut model = sample(Eyes { tier: Tier::None, ..WIDE });
        keys(&mut model, typed);
        let buffer = draw(&mut model);
        let mut words = 0;
        for row in buffer.content.chunks(usize::from(WIDE.width)) {
            for run in row.chunk_by(|a, b| a.modifier == b.modifier) {
                if run[0].modifier.contains(Modifier::UNDERLINED) {
                    words += 1;
                    let text: String = run.iter().map(ratatui::buffer::Cell::symbol).collect();
                    assert_eq!(text.trim_end(), text, "{typed}");
                }
            }
        }
        let has_headings = ["", "enter", "w"].contains(&typed);
        assert!(words > 0 || !has_headings, "{typed}: nothing is underlined");
    }
}

#[test]
fn clusters_are_counted_by_what_they_have_in_common() {
    let mut model = sample(WIDE);
    keys(&mut model, "\":groups namespace\" enter");
    golden::screen("groups-namespace-120x40", &text(&mut model));
    keys(&mut model, "enter \":groups version\" enter");
    assert!(text(&mut model).contains("clusters by version"));
    keys(&mut model, "enter \":groups colour\" enter");
    assert!(
        text(&mut model)
            .contains("no Cluster has a label `colour`, nor is it one of namespace, class, version")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_keys_break_anything(
        typed in proptest::collection::vec(
            prop_oneof![
                Just("up"), Just("down"), Just("enter"), Just("esc"), Just("tab"), Just("left"), Just("right"),
                Just("space"), Just("pagedown"), Just("end"), Just("home"), Just("+"), Just("-"), Just("o"), Just("w"),
                Just("d"), Just("y"), Just("?"), Just(":"), Just("/"), Just("a"), Just("q"), Just("backspace"), Just("u"),
                Just("F"), Just("S"), Just("ctrl-w"), Just("p"), Just("r"), Just("n"), Just("N"), Just("s"), Just("1"), Just("2"), Just("R"), Just("t"), Just("m"), Just("M"), Just("6"),
            ],
            0..40,
        ),
        width in 0u16..130,
        height in 0u16..50,
    ) {
        let mut model = sample(PLAIN);
        for key in typed {
            keys(&mut model, key);
            draw(&mut model);
        }
        update(&mut model, Msg::Resize { width, height });
        draw(&mut model);
    }
}

/// Figures, printed when asked for: `CAPSTAN_FIGURES=1 tests/run figures -- --nocapture`.
#[test]
fn figures_of_large_fleets() {
    if std::env::var_os("CAPSTAN_FIGURES").is_none() {
        println!("skipped: set CAPSTAN_FIGURES=1 to measure");
        return;
    }
    let median = |mut run: Box<dyn FnMut() + '_>| {
        let mut times: Vec<_> = (0..15)
            .map(|_| {
                let start = std::time::Instant::now();
                run();
                start.elapsed()
            })
            .collect();
        times.sort();
        times[times.len() / 2]
    };
    let eyes = Eyes { width: 200, height: 50, ..PLAIN };
    for (name, clusters, machines, typed) in [
        ("fleet of 5,000 clusters", 5_000, 0, ""),
        ("fleet of 100 clusters, 100,000 Machines", 100, 1_000, ""),
        ("tree of 100,000 Machines, closed", 1, 100_000, "enter"),
        ("tree of 100,000 Machines, all open", 1, 100_000, "enter +"),
    ] {
        let mut model = model(eyes, fixture::large(clusters, machines));
        keys(&mut model, typed);
        let frame = median(Box::new(|| drop(draw(&mut model))));
        let key = median(Box::new(|| {
            keys(&mut model, "down");
            draw(&mut model);
        }));
        let page = median(Box::new(|| {
            keys(&mut model, "pagedown");
            draw(&mut model);
        }));
        let one = fixture::large(1, 1);
        let mut at = 0;
        let change = median(Box::new(|| {
            at += 1;
            update(&mut model, Msg::Fleet(vec![touched(&one, at)]));
            draw(&mut model);
        }));
        println!("{name}: frame {frame:?}, key {key:?}, page {page:?}, change {change:?}");
    }
}
