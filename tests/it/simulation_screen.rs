//! The screen of a cluster run ahead of time: what it asks for, two forecasts side by side, the slider, and what cannot be
//! tried.

use capi_forecast::simulate::{Scenario, forecast, learn};
use capi_rules::observe::dump::Dump;
use capi_types::key::ObjectKey;
use capstan_dashboard::actions::{Ahead, Tried};
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::subject::{PlannedCluster, Subject};
use capstan_dashboard::tui::update::update;
use ratatui::layout::Rect;

use crate::fleet_fixture::{MachineState, OwnerState, RollingCluster, now};
use crate::golden;
use crate::simulation::manifest;

fn model(width: u16, height: u16) -> Model {
    let mut c = RollingCluster::new("harbor", OwnerState::settled("v1.35.1", 3));
    for suffix in ["8gtlh", "lkcfv", "85qjm"] {
        c.control_plane_machine(suffix, "v1.35.1", &MachineState::Old);
    }
    c.deployment("md-0", OwnerState::settled("v1.35.1", 0), &[], "");
    let look = Look::load("default", "default", Tier::None, false, None, command::check)
        .expect("shipped files load");
    let session = Session {
        title: "demo".to_owned(),
        scope: "all namespaces".to_owned(),
        read_only: false,
        ..Session::default()
    };
    let mut model = Model::new(session, look, Rect::new(0, 0, width, height), now());
    update(&mut model, Msg::Fleet(c.deltas()));
    update(&mut model, Msg::Tick);
    model
}

fn keys(model: &mut Model, keys: &str) -> Vec<Effect> {
    press(model, keys).unwrap_or_else(|e| panic!("{keys}: {e}"))
}

/// What is asked for to be run ahead.
fn asked(effects: &[Effect]) -> Option<(PlannedCluster, Tried)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Read { subject: Subject::Simulation { cluster, tried }, .. } => {
            Some((cluster.clone(), tried.clone()))
        }
        _ => None,
    })
}

/// A cluster that comes up, as it is and with fewer workers.
fn ahead(is_tried: bool) -> Ahead {
    let run = |workers: u32| {
        let dump = Dump::new(manifest(3, workers).into_iter().map(Into::into).collect());
        let key = ObjectKey::new("default", "harbor");
        let scenario = Scenario { timings: learn(&dump).timings, ..Scenario::default() };
        forecast(&dump, &key, &scenario, now()).expect("the cluster")
    };
    let grounds = vec!["durations of a DevMachine are what is usual for its provider".to_owned()];
    Ahead { plain: run(3), tried: is_tried.then(|| Ok(run(1))), grounds }
}

fn answer(model: &mut Model, (cluster, tried): (PlannedCluster, Tried), ahead: Result<Ahead, String>) {
    let (subject, reading) =
        (Subject::Simulation { cluster, tried }, Reading::Simulation(ahead.map(Box::new)));
    update(model, Msg::Done(EffectOutcome::Read { subject, reading }));
}

#[test]
fn a_cluster_is_run_ahead_and_a_change_stands_beside_it() {
    for (width, height) in [(80, 24), (120, 40)] {
        let mut model = model(width, height);
        let first = asked(&keys(&mut model, "W")).expect("it is run ahead");
        assert_eq!(first.1, Tried::default());
        assert!(text(&mut model).contains("the cluster is being run ahead of time"));
        answer(&mut model, first, Ok(ahead(false)));
        let screen = text(&mut model);
        assert!(screen.contains("done in about ") && screen.contains("step 1 of "), "{screen}");
        golden::screen(&format!("simulation-{width}x{height}"), &screen);
        keys(&mut model, "right right down");
        assert!(text(&mut model).contains("step 4 of "), "{}", text(&mut model));

        let second = asked(&keys(&mut model, "i \"md-0:replicas=1\" enter")).expect("it is run again");
        assert_eq!(second.1.changes[0].object.key, ObjectKey::new("prod", "harbor-md-0"));
        answer(&mut model, second, Ok(ahead(true)));
        let screen = text(&mut model);
        assert!(screen.contains("md-0:replicas=1") && screen.contains("tried >"), "{screen}");
        golden::screen(&format!("simulation-tried-{width}x{height}"), &screen);
        keys(&mut model, "tab");
        assert!(text(&mut model).contains("as is >"), "{}", text(&mut model));
        let third = asked(&keys(&mut model, ": \"what-if\" enter")).expect("it is run again");
        assert_eq!(third.1, Tried::default(), "all of it is taken back");
    }
}

#[test]
fn what_cannot_be_tried_says_why_and_a_late_answer_changes_nothing() {
    let mut model = model(120, 40);
    let first = asked(&keys(&mut model, "W")).expect("it is run ahead");
    for (typed, expected) in [
        ("surge", "`surge` tries nothing; such as surge=2"),
        ("other:surge=2", "there is no pool `other` in this cluster"),
        ("md-0:hue=2", "a MachineDeployment has no `hue`; there are surge, unavailable, replicas, version"),
        ("cp:unavailable=1", "a KubeadmControlPlane has no `unavailable`"),
        ("failing=nobody", "there is no Machine `nobody` in this cluster"),
    ] {
        assert_eq!(asked(&keys(&mut model, &format!("i \"{typed}\" enter"))), None, "{typed}");
        let screen = text(&mut model);
        assert!(screen.contains(expected), "{typed}: {screen}");
    }
    let late = first.clone();
    answer(&mut model, first, Err("the server is away\u{1b}[2J".to_owned()));
    let screen = text(&mut model);
    assert!(screen.contains("not run ahead: the server is away"), "{screen}");
    let second = asked(&keys(&mut model, "i \"failing=8gtlh\" enter")).expect("it is run again");
    assert_eq!(second.1.failing, ["harbor-cp-8gtlh"]);
    answer(&mut model, late, Ok(ahead(false)));
    assert!(!text(&mut model).contains("done in about"), "it was asked before the change");
}

#[test]
fn nothing_is_asked_unasked() {
    let mut model = model(120, 40);
    assert_eq!(asked(&keys(&mut model, "down up enter")), None);
}
