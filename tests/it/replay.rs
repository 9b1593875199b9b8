//! A recording that is played: every screen as it was at each moment, forth and back, up to where the file is cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use capstan_base::time::{Clock, TimeSource, Timestamp, parse_rfc3339, rfc3339};
use capstan_dashboard::fleet::watch::{Tape, TapeLine};
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::replay::{Replay, Seek};
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::update::update;
use capstan_dashboard::tui::{Tier, command};
use chrono::TimeDelta;
use proptest::prelude::*;
use ratatui::layout::Rect;
use serde_json::{Value, json};

use super::golden;

const BEGAN: &str = "2026-11-20T10:00:00Z";
const KINDS: [&str; 7] = [
    "Cluster",
    "MachineDeployment",
    "MachineSet",
    "Machine",
    "MachinePool",
    "MachineHealthCheck",
    "KubeadmControlPlane",
];

fn at(second: i64) -> Timestamp {
    parse_rfc3339(BEGAN).expect("a moment") + TimeDelta::seconds(second)
}

fn object(kind: &str, name: &str, since: i64, ready: &str, replicas: u32) -> Value {
    let reason = if ready == "True" { "Ready" } else { "NodeNotHealthy" };
    let condition = |type_: &str| {
        json!({"type": type_, "status": ready, "reason": reason,
        "message": if ready == "True" { "" } else { "* Node.Ready: container runtime is down" },
        "lastTransitionTime": rfc3339(at(since))})
    };
    let conditions: Vec<Value> = ["Available", "Ready", "NodeHealthy"].map(condition).into();
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {"name": name, "namespace": "prod", "uid": format!("uid-{name}"), "generation": 1,
            "creationTimestamp": "2026-11-19T09:00:00Z", "labels": {"cluster.x-k8s.io/cluster-name": "edge"}},
        "spec": {"clusterName": "edge", "replicas": replicas},
        "status": {"observedGeneration": 1, "conditions": conditions,
            "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true}},
    })
}

fn line(value: &Value) -> String {
    let line: TapeLine = serde_json::from_value(value.clone()).expect("a line");
    line.text()
}

fn put(second: i64, object: &Value) -> String {
    line(&json!({"put": {"at": at(second).timestamp_millis(), "object": object}}))
}

fn feeds(second: i64, state: &str) -> String {
    let feed = |kind: &str| {
        let group =
            if kind.ends_with("ControlPlane") { "controlplane.cluster.x-k8s.io" } else { "cluster.x-k8s.io" };
        line(
            &json!({"feed": {"at": at(second).timestamp_millis(), "group": group, "kind": kind, "state": state}}),
        )
    };
    KINDS.map(feed).concat()
}

/// Twenty minutes: a Machine loses its runtime after five and has it again after fifteen; another one comes after ten and goes after
/// twelve.
fn recording() -> String {
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "prod"}, "type": "Warning",
        "involvedObject": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "namespace": "prod", "name": "edge-md-0-a"},
        "reason": "RuntimeDown", "message": "the runtime does not answer", "lastTimestamp": rfc3339(at(301))});
    let gone = json!({"gone": {"at": at(720).timestamp_millis(), "uid": "uid-edge-md-0-b"}});
    [
        line(&json!({"recording": {"version": 1, "source": "prod-eu", "at": at(0).timestamp_millis()}})),
        feeds(0, "connecting"),
        put(1, &object("Cluster", "edge", -3_600, "True", 0)),
        put(1, &object("Machine", "edge-md-0-a", -3_600, "True", 0)),
        feeds(2, "live"),
        put(300, &object("Machine", "edge-md-0-a", 300, "False", 0)),
        put(301, &event),
        put(600, &object("Machine", "edge-md-0-b", 600, "True", 0)),
        line(&gone),
        put(900, &object("Machine", "edge-md-0-a", 900, "True", 0)),
        line(&json!({"end": {"at": at(1_200).timestamp_millis(), "why": "stopped"}})),
        put(1_200, &object("Cluster", "edge", -3_600, "True", 1)),
    ]
    .concat()
}

/// What really passes.
#[derive(Clone, Default)]
struct Passing(Arc<AtomicI64>);

impl TimeSource for Passing {
    fn now(&self) -> Timestamp {
        Timestamp::from_timestamp_millis(self.0.load(Ordering::Relaxed)).unwrap_or_default()
    }
}

fn model(tape: Tape, passing: &Passing, (width, height): (u16, u16), ascii: bool) -> Model {
    let look =
        Look::load("default", "default", Tier::Ansi16, ascii, None, command::check).expect("shipped files");
    let session = Session {
        title: tape.source.clone(),
        scope: "replay".to_owned(),
        read_only: true,
        ..Session::default()
    };
    let replay = Replay::new(Arc::new(tape), Clock::new(passing.clone()));
    let mut model = Model::new(session, look, Rect::new(0, 0, width, height), replay.clock().now());
    model.begin_replay(replay);
    model
}

fn read(text: &str) -> Tape {
    Tape::read(text.as_bytes(), "FILE").expect("a recording")
}

fn open() -> (Model, Passing) {
    let passing = Passing::default();
    (model(read(&recording()), &passing, (80, 24), false), passing)
}

fn keys(model: &mut Model, keys: &str) -> String {
    press(model, keys).expect("keys");
    text(model)
}

#[test]
fn a_replay_looks_as_recorded() {
    for (name, size, ascii, typed) in [
        ("replay-fleet-80x24", (80, 24), false, ""),
        ("replay-turned-120x40", (120, 40), false, "}"),
        ("replay-changes-80x24", (80, 24), false, "} w 6"),
        ("replay-ascii-40x8", (40, 8), true, "}"),
    ] {
        let mut model = model(read(&recording()), &Passing::default(), size, ascii);
        golden::screen(name, &keys(&mut model, typed));
    }
}

#[test]
fn keys_go_through_the_recording_and_nothing_can_be_changed() {
    let (mut model, passing) = open();
    let first = text(&mut model);
    assert!(first.contains("paused 11-20 10:00:03") && first.contains("recorded"), "{first}");
    assert!(keys(&mut model, ".").contains("10:05:00"), "the next change");
    assert!(keys(&mut model, ",").contains("10:00:02"), "the change before");
    assert!(keys(&mut model, "}").contains("✗ edge"), "where it turned");
    assert!(keys(&mut model, "\":at 10m\" enter").contains("10:10:00"), "before the end");
    assert!(keys(&mut model, ">").contains("10:11:00"), "a twentieth");
    assert!(keys(&mut model, "p").contains("read-only"));
    assert!(keys(&mut model, "\":at noon\" enter").contains("`noon` is not a time"));
    // Ten times as fast, as it is at first.
    press(&mut model, "x").expect("keys");
    passing.0.fetch_add(6_000, Ordering::Relaxed);
    update(&mut model, Msg::Tick);
    let shown = text(&mut model);
    assert!(shown.contains("10x 11-20 10:12:00") && model.wakes_in_s() == Some(1), "{shown}");
    press(&mut model, "=").expect("keys");
    passing.0.fetch_add(3_600_000, Ordering::Relaxed);
    update(&mut model, Msg::Tick);
    assert!(text(&mut model).contains("paused 11-20 10:20:00") && model.wakes_in_s().is_none(), "the end");
}

#[test]
fn details_show_the_object_its_events_and_its_changes_as_they_were() {
    let (mut model, _) = open();
    assert!(!keys(&mut model, "\":machines\" enter d").contains("container runtime is down"));
    assert!(keys(&mut model, "2").contains("kind: Machine"), "the YAML");
    assert!(keys(&mut model, ". 1").contains("container runtime is down"));
    assert!(!keys(&mut model, "3").contains("RuntimeDown"), "a second later");
    assert!(keys(&mut model, ". 3").contains("RuntimeDown"));
    let changes = keys(&mut model, "6");
    assert!(changes.contains("False (was True)"), "{changes}");
    assert!(!keys(&mut model, ", ,").contains("False (was True)"), "not yet");
}

#[test]
fn a_recording_that_is_cut_or_damaged_opens_up_to_there() {
    let whole = recording();
    let cut = read(&whole[..whole.len() - 9]);
    let said = cut.trouble.clone().expect("it is said");
    assert_eq!(said, "FILE:24: the line is cut; what stands before it is shown");
    assert_eq!(cut.len() + 1, read(&whole).len());
    let damaged = whole.replacen("{\"gone\"", "{\"eaten\"", 1);
    let tape = read(&damaged);
    assert!(
        tape.trouble.as_ref().is_some_and(|why| why.starts_with("FILE:21: unknown variant `eaten`")),
        "{:?}",
        tape.trouble
    );
    let mut model = model(tape, &Passing::default(), (80, 24), false);
    assert!(keys(&mut model, "\":at 0s\" enter").contains("10:10:00"), "the last whole line");
    for (text, part) in [
        ("", "the recording is empty"),
        ("kind: List\n", "it is no recording of capstan"),
        (
            "{\"recording\":{\"version\":7,\"source\":\"\",\"at\":1}}\n",
            "it is of version 7; this capstan reads version 1",
        ),
        ("{\"gone\":{\"at\":1,\"uid\":\"x\"}}\n", "it does not begin with what was recorded"),
    ] {
        let why = Tape::read(text.as_bytes(), "FILE").err().expect("no recording");
        assert!(why.starts_with("FILE: ") && why.contains(part), "{why}");
    }
}

proptest! {
    /// Wherever one comes from, a moment looks the same.
    #[test]
    fn a_moment_looks_the_same_from_every_side(goals in prop::collection::vec(0i64..1_200, 1..8), screen in 0usize..4) {
        let typed = ["", "enter", "\":machines\" enter", "T"][screen];
        let (mut wandering, _) = open();
        press(&mut wandering, typed).expect("keys");
        for goal in &goals {
            wandering.seek(Seek::To(at(*goal).timestamp_millis()));
            text(&mut wandering);
        }
        let (mut straight, _) = open();
        press(&mut straight, typed).expect("keys");
        straight.seek(Seek::To(at(0).timestamp_millis()));
        straight.seek(Seek::To(at(goals[goals.len() - 1]).timestamp_millis()));
        prop_assert_eq!(text(&mut wandering), text(&mut straight));
    }
}
