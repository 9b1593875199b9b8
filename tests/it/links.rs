//! From one object to those that it is related to, by key.

use capstan_dashboard::fleet::Target;
use capstan_dashboard::fleet::watch::{EventLine, ObjectNews};
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::screen::Screen;
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::subject::Subject;
use capstan_dashboard::tui::update::update;
use ratatui::layout::Rect;
use serde_json::{Value, json};

use crate::fleet_fixture::{self as fixture, now};

fn model(width: u16) -> Model {
    let look = Look::load("default", "default", Tier::None, false, None, command::check)
        .expect("shipped files load");
    let session = Session {
        title: "t".to_owned(),
        scope: "all namespaces".to_owned(),
        read_only: true,
        ..Session::default()
    };
    let mut model = Model::new(session, look, Rect::new(0, 0, width, 24), now());
    update(&mut model, Msg::Fleet(fixture::sample()));
    model
}

/// Presses keys, and answers what is followed with `object`.
fn keys(model: &mut Model, typed: &str, object: &Value) {
    let effects = press(model, typed).unwrap_or_else(|e| panic!("{typed}: {e}"));
    for effect in effects {
        if let Effect::Read { subject: subject @ Subject::Object(_), .. } = effect {
            let reading = Reading::Object(ObjectNews::Object(Box::new(object.clone())));
            update(model, Msg::Done(EffectOutcome::Read { subject, reading }));
        }
    }
}

/// The object whose details are open.
fn target(model: &Model) -> Target {
    let Screen::Details(details) = model.screen() else { panic!("details are open") };
    details.target.clone()
}

fn crumb(model: &mut Model) -> String {
    let target = target(model);
    format!("{} {}/{}", target.kind, target.namespace, target.name)
}

#[test]
fn related_objects_are_chosen_and_opened() {
    let none = json!({});
    for width in [80, 200] {
        let mut model = model(width);
        keys(&mut model, "\":tree prod-us-2\" enter d", &none);
        assert_eq!(crumb(&mut model), "Cluster prod/prod-us-2");
        keys(&mut model, "enter", &none);
        assert_eq!(crumb(&mut model), "Cluster prod/prod-us-2", "the first enter chooses");
        let screen = text(&mut model);
        let marked: Vec<&str> = screen.lines().filter(|line| line.contains('▌')).collect();
        assert!(marked.len() == 1 && marked[0].contains("control plane"), "{screen}");
        keys(&mut model, "enter", &none);
        assert_eq!(crumb(&mut model), "KubeadmControlPlane prod/prod-us-2-cp");
        keys(&mut model, "esc", &none);
        keys(&mut model, "] enter", &none);
        assert_eq!(crumb(&mut model), "DevCluster prod/prod-us-2");
        // What is not in the fleet leads back to what refers to it.
        keys(&mut model, "enter enter", &none);
        assert_eq!(crumb(&mut model), "Cluster prod/prod-us-2");
    }
}

#[test]
fn references_in_a_spec_and_owners_are_followed() {
    let template =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t-1"});
    let object = json!({
        "metadata": {"name": "prod-us-2", "ownerReferences": [
            {"apiVersion": "example.org/v1", "kind": "Fleet", "name": "all", "uid": "u"}]},
        "spec": {"topology": {"classRef": {"name": "small"}}, "deep": [{"template": {"ref": template}}],
                 "notOne": {"kind": "x", "name": 3}}});
    let mut model = model(200);
    keys(&mut model, "\":tree prod-us-2\" enter d", &object);
    let screen = text(&mut model);
    for part in ["Fleet all", "DevMachineTemplate t-1", "ClusterClass small"] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    let mut seen = Vec::new();
    for _ in 0..6 {
        keys(&mut model, "] enter", &object);
        seen.push(crumb(&mut model));
        keys(&mut model, "esc", &object);
    }
    assert!(seen.contains(&"DevMachineTemplate prod/t-1".to_owned()), "{seen:?}");
    assert!(seen.contains(&"Fleet prod/all".to_owned()), "{seen:?}");
}

/// Events of a Machine far below are read where one looks first: at its Cluster.
#[test]
fn events_of_what_is_below_are_shown_with_whose_they_are() {
    let mut model = model(120);
    keys(&mut model, "\":tree edge-7\" enter 3", &json!({}));
    let subject = Subject::Events(target(&model));
    let event = |kind: &str, name: &str, reason: &str| EventLine {
        kind: kind.to_owned(),
        name: name.to_owned(),
        last_seen: Some(now()),
        count: 1,
        warning: true,
        reason: reason.to_owned(),
        from: "kubelet".to_owned(),
        message: String::new(),
    };
    let machine = "edge-7-md-0-qq2lk-x8f4z";
    let events = vec![
        event("Cluster", "edge-7", "Own"),
        event("DevMachine", machine, "Below"),
        event("Machine", "prod-eu-1-cp-0", "Elsewhere"),
    ];
    let news = EffectOutcome::Read { subject, reading: Reading::Object(ObjectNews::Events(events)) };
    update(&mut model, Msg::Done(news));
    let screen = text(&mut model);
    assert!(
        screen.contains("Own  kubelet") && screen.contains(&format!("Below  DevMachine {machine}")),
        "{screen}"
    );
    assert!(!screen.contains("Elsewhere"), "{screen}");
}

/// A circle of related objects does not fill the memory.
#[test]
fn a_long_way_is_forgotten_at_its_beginning() {
    let mut model = model(80);
    keys(&mut model, "\":tree prod-us-2\" enter d", &json!({}));
    for _ in 0..200 {
        keys(&mut model, "] enter", &json!({}));
    }
    assert!(model.screens.len() <= 32);
    for _ in 0..40 {
        keys(&mut model, "esc", &json!({}));
    }
    assert_eq!(model.screens.len(), 1);
}
