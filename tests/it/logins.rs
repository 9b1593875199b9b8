//! What a program says that logs somebody in, over the open screen.

use std::time::Duration;

use capstan_dashboard::tui::command::check;
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::update::update;
use capstan_dashboard::tui::{LoginNews, Tier};
use ratatui::layout::Rect;

use crate::fleet_fixture::now;

fn model() -> Model {
    let look = Look::load("default", "default", Tier::None, false, None, check).expect("shipped files load");
    Model::new(Session::default(), look, Rect::new(0, 0, 100, 24), now())
}

fn note(model: &mut Model, news: LoginNews) {
    update(model, Msg::Login(news));
}

fn runs(model: &mut Model) {
    let limit = Duration::from_secs(300);
    note(model, LoginNews::Runs { program: "kubelogin".to_owned(), limit });
}

#[test]
fn it_is_shown_as_long_as_it_runs_and_can_be_hidden() {
    let mut model = model();
    runs(&mut model);
    assert!(text(&mut model).contains("kubelogin is asked for credentials, at most for 300 s"));
    for line in ["open https://login.example", "enter ABCD-EFGH"] {
        note(&mut model, LoginNews::Says(line.to_owned()));
    }
    let shown = text(&mut model);
    for words in ["kubelogin says", "open https://login.example", "enter ABCD-EFGH", "stopped after 300 s"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    press(&mut model, "esc").expect("keys");
    assert!(!text(&mut model).contains("ABCD"));
    note(&mut model, LoginNews::Says("still waiting".to_owned()));
    let shown = text(&mut model);
    assert!(shown.contains("still waiting") && shown.contains("ABCD"), "{shown}");
    note(&mut model, LoginNews::Ended);
    assert!(!text(&mut model).contains("ABCD"));
    assert!(model.overlays.is_empty());
}

#[test]
fn whoever_types_goes_on_typing() {
    let mut model = model();
    press(&mut model, "\":the\"").expect("keys");
    runs(&mut model);
    note(&mut model, LoginNews::Says("enter ABCD-EFGH".to_owned()));
    press(&mut model, "\"me\"").expect("keys");
    assert!(text(&mut model).contains(":theme"), "{}", text(&mut model));
    press(&mut model, "esc").expect("keys");
    assert!(text(&mut model).contains("ABCD-EFGH"));
}
