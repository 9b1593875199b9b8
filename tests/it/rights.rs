//! What a user may do as hints, help and the command line show it, and how few questions that takes.

use capstan_dashboard::actions::{Grant, Right};
use capstan_dashboard::fleet::SourceId;
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::subject::Subject;
use capstan_dashboard::tui::update::update;
use ratatui::layout::Rect;

use crate::fleet_fixture::{self as fixture, now};

struct Screen {
    model: Model,
    /// Every right that was asked about, as `VERB RESOURCE NAMESPACE`.
    asked: Vec<String>,
    /// What the server refuses, the same way.
    refused: &'static [&'static str],
}

fn words(right: &Right) -> String {
    format!("{} {} {}", right.verb, right.resource, right.namespace).trim_end().to_owned()
}

impl Screen {
    fn open(read_only: bool, refused: &'static [&'static str]) -> Self {
        let look = Look::load("default", "default", Tier::None, false, None, command::check)
            .expect("shipped files load");
        let session = Session {
            title: "t".to_owned(),
            scope: "all namespaces".to_owned(),
            read_only,
            ..Session::default()
        };
        let model = Model::new(session, look, Rect::new(0, 0, 200, 50), now());
        let mut screen = Self { model, asked: Vec::new(), refused };
        let effects = update(&mut screen.model, Msg::Fleet(fixture::sample()));
        screen.answer(effects);
        screen.press("");
        screen
    }

    fn press(&mut self, keys: &str) {
        let effects = press(&mut self.model, keys).expect("keys");
        self.answer(effects);
        // The cursor settles when the picture is drawn.
        text(&mut self.model);
        let effects = update(&mut self.model, Msg::Tick);
        self.answer(effects);
    }

    /// As a server would, until nothing more is asked.
    fn answer(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let Effect::Read { subject, .. } = effect else { continue };
            let Subject::Rights { source, rights } = subject.clone() else { continue };
            assert_eq!(source, SourceId(0));
            let answer = |right: Right| {
                let is_refused = self.refused.contains(&words(&right).as_str());
                let answer = if is_refused { Grant::Refused("no rule".to_owned()) } else { Grant::Allowed };
                (right, answer)
            };
            self.asked.extend(rights.iter().map(words));
            let reading = Reading::Rights(rights.into_iter().map(answer).collect());
            let more = update(&mut self.model, Msg::Done(EffectOutcome::Read { subject, reading }));
            self.answer(more);
        }
    }

    fn last(&mut self) -> String {
        text(&mut self.model).lines().last().unwrap_or_default().to_owned()
    }
}

const REFUSED: &[&str] =
    &["patch machinedeployments", "patch machinedeployments prod", "delete machines", "patch machines"];

#[test]
fn each_right_is_asked_about_once_and_for_a_namespace_only_where_it_is_refused_for_all() {
    let mut screen = Screen::open(false, REFUSED);
    assert_eq!(screen.asked, ["patch clusters"]);
    screen.press("\":tree prod-us-2\" enter");
    screen.press("+");
    for _ in 0..20 {
        screen.press("down");
    }
    let mut asked = screen.asked.clone();
    asked.sort();
    let mut expected = vec![
        "delete machines",
        "delete machines prod",
        "patch clusters",
        "patch kubeadmcontrolplanes",
        "patch machinedeployments",
        "patch machinedeployments prod",
        "patch machines",
        "patch machines prod",
        "patch machinesets",
    ];
    assert_eq!(asked, expected);
    for _ in 0..50 {
        screen.press("up");
        screen.press("down");
    }
    assert_eq!(screen.asked.len(), expected.len(), "nothing more at rest or while one moves");
    // Another screen asks again about what was refused, and about nothing else.
    screen.press("esc");
    screen.press("\":tree prod-us-2\" enter");
    for _ in 0..30 {
        screen.press("down");
    }
    expected.retain(|right| REFUSED.contains(right) || right.ends_with("prod"));
    let mut again = screen.asked.split_off(asked.len());
    again.sort();
    again.retain(|right| !expected.contains(&right.as_str()));
    assert_eq!(again, Vec::<String>::new());
}

#[test]
fn what_is_not_allowed_is_not_hinted_and_grey_in_help_and_command_line() {
    let mut screen = Screen::open(false, REFUSED);
    screen.press("\":tree prod-us-2\" enter");
    screen.press("/ \"md-0\" enter");
    let on = |screen: &Screen| {
        let id = screen.model.selected_row()?;
        Some(screen.model.fleet.row(id)?.gvk.kind.clone())
    };
    for _ in 0..20 {
        if on(&screen).as_deref() == Some("MachineDeployment") {
            break;
        }
        screen.press("down");
    }
    assert_eq!(on(&screen).as_deref(), Some("MachineDeployment"));
    let last = screen.last();
    assert!(!last.contains("scale") && !last.contains("restart") && !last.contains("pause"), "{last}");
    screen.press("?");
    let help = text(&mut screen.model);
    assert!(help.contains("not allowed: patch machinedeployments in prod: no"), "{help}");
    screen.press("esc");
    screen.press(": \"sca\"");
    let line = text(&mut screen.model);
    assert!(line.contains("scale") && line.contains("not allowed: patch machinedeployments"), "{line}");
    screen.press("esc");
    // The key still leads to the preview, which asks about this one object.
    let effects = press(&mut screen.model, "p").expect("keys");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Preview { .. })), "{effects:?}");
}

#[test]
fn nothing_is_asked_where_nothing_can_be_changed() {
    let mut screen = Screen::open(true, REFUSED);
    screen.press("enter");
    screen.press("down");
    assert_eq!(screen.asked, Vec::<String>::new());
}
