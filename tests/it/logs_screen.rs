//! The screen of logs: what is read when it opens and that it stops, what is shown of it, and the way from an object to the lines that
//! name it.

use std::convert::Infallible;
use std::sync::Arc;

use capi_types::key::{Gvk, ObjectKey};
use capi_types::names::{CORE_GROUP, INFRASTRUCTURE_GROUP};
use capstan_dashboard::fleet::decode::{Decoder, Slim};
use capstan_dashboard::fleet::{Delta, SourceId};
use capstan_dashboard::operations::{LogLine, LogNews, LogPlace, LogReader, ServerLogs};
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::subject::{LogSubject, Subject, SubjectKind};
use capstan_dashboard::tui::update::update;
use capstan_engine::client::in_process;
use futures::StreamExt as _;
use kube::client::Body;
use ratatui::layout::Rect;
use serde_json::{Value, json};

use crate::fleet_fixture::{self as fixture, now};

fn model() -> Model {
    let look = Look::load("default", "default", Tier::None, false, None, command::check)
        .expect("shipped files load");
    let session = Session {
        title: "t".to_owned(),
        scope: "all namespaces".to_owned(),
        read_only: true,
        ..Session::default()
    };
    let mut model = Model::new(session, look, Rect::new(0, 0, 100, 24), now());
    update(&mut model, Msg::Fleet(fixture::sample()));
    text(&mut model);
    model
}

/// The logs that are read from now on, and whether the reading of logs was stopped.
fn reading(effects: &[Effect]) -> (Option<LogSubject>, bool) {
    let subject = effects.iter().find_map(|effect| match effect {
        Effect::Read { subject: Subject::Logs(subject), .. } => Some(subject.clone()),
        _ => None,
    });
    (subject, effects.iter().any(|effect| matches!(effect, Effect::StopReading(SubjectKind::Logs))))
}

fn lines(model: &mut Model, subject: &LogSubject, news: Vec<LogNews>) {
    let (subject, reading) = (Subject::Logs(subject.clone()), Reading::Logs(Ok(news)));
    update(model, Msg::Done(EffectOutcome::Read { subject, reading }));
}

fn line(second: usize, source: &str, text: &str) -> LogNews {
    let at = format!("2026-11-20T10:{:02}:{:02}.000000000Z", second / 60, second % 60);
    LogNews::Line(LogLine { at, source: source.into(), text: text.to_owned() })
}

#[test]
fn logs_are_read_while_their_screen_is_open() {
    let mut model = model();
    assert_eq!(reading(&press(&mut model, "\":tree prod-eu-1\" enter").expect("keys")), (None, false));
    let (subject, _) = reading(&press(&mut model, "O").expect("keys"));
    let place = LogPlace::Controllers(ObjectKey::new("prod", "prod-eu-1"));
    let subject = subject.expect("it is read, also where nothing may be changed");
    assert_eq!(subject, LogSubject { source: SourceId(0), place });
    assert!(text(&mut model).contains("asking which Pods there are"));
    lines(&mut model, &subject, vec![LogNews::Followed(vec!["core-1".to_owned(), "kubeadm-1".to_owned()])]);
    let many = (0..100).map(|at| line(at, "core-1", &format!("line {at}"))).chain([line(
        50,
        "kubeadm-1",
        "between",
    )]);
    lines(&mut model, &subject, many.collect());
    let picture = text(&mut model);
    assert!(picture.contains("following 2 Pods, lines that name prod/prod-eu-1"), "{picture}");
    assert!(picture.contains("10:01:39 core-1") && picture.contains("line 99"), "{picture}");
    // Going back stops it, more lines do not move what is read, and the end goes on.
    press(&mut model, "pageup").expect("keys");
    let before = text(&mut model);
    lines(&mut model, &subject, vec![line(100, "core-1", "line 100")]);
    let body = |picture: &str| picture.lines().skip(3).take(15).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(body(&text(&mut model)), body(&before));
    press(&mut model, "G").expect("keys");
    assert!(text(&mut model).contains("line 100"), "{}", text(&mut model));
    press(&mut model, "/ \"between\" enter").expect("keys");
    let picture = text(&mut model);
    assert!(picture.contains("kubeadm-1") && !picture.contains("line 100"), "{picture}");
    assert_eq!(
        model.selected_row().and_then(|id| model.fleet.row(id)).map(|row| row.name.to_string()).as_deref(),
        Some("prod-eu-1")
    );
    press(&mut model, "esc").expect("keys");
    assert_eq!(reading(&press(&mut model, "esc").expect("keys")), (None, true), "nothing is read at rest");
}

#[test]
fn a_pod_of_a_workload_cluster_is_named() {
    let mut model = model();
    press(&mut model, "\":tree prod-eu-1\" enter").expect("keys");
    let cluster = ObjectKey::new("prod", "prod-eu-1");
    for (typed, namespace, name) in [("etcd-1", "kube-system", "etcd-1"), ("web/shop-2", "web", "shop-2")] {
        let (subject, _) = reading(&press(&mut model, &format!("\":logs {typed}\" enter")).expect("keys"));
        let place = LogPlace::Workload { cluster: cluster.clone(), pod: ObjectKey::new(namespace, name) };
        assert_eq!(subject.map(|subject| subject.place), Some(place));
        press(&mut model, "esc").expect("keys");
    }
    press(&mut model, "\":logs ../x\" enter").expect("keys");
    assert!(text(&mut model).contains("is not a Pod: write NAMESPACE/POD"), "{}", text(&mut model));
}

/// Only what names the object leaves the reader, and nothing that steers a terminal.
#[tokio::test(start_paused = true)]
async fn controllers_are_found_by_their_label_and_lines_by_the_names_in_them() {
    let service = tower::service_fn(|request: http::Request<Body>| {
        let body = match request.uri().path() {
            "/api/v1/pods" => {
                assert!(
                    request.uri().query().is_some_and(|query| query.contains("cluster.x-k8s.io%2Fprovider"))
                );
                let pod = json!({
                    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "capi-1", "namespace": "capi-system"},
                    "spec": {"containers": [{"name": "manager"}]}, "status": {"phase": "Running"},
                });
                json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [pod]}).to_string()
            }
            "/api/v1/namespaces/capi-system/pods/capi-1/log" => {
                let log = [
                    "2026-11-20T10:00:00.000000001Z \u{1b}[31m\"Drained\" Machine=\"prod/edge-7\"",
                    "2026-11-20T10:00:00.000000002Z \"Drained\" Machine=\"prod/edge-7-x\"",
                ];
                log.join("\n")
            }
            other => panic!("{other}"),
        };
        async move { Ok::<_, Infallible>(http::Response::new(Body::from(body.into_bytes()))) }
    });
    let logs: Arc<dyn LogReader> =
        Arc::new(ServerLogs { connection: in_process(service, "test", "default", true), hosts: None });
    let mut news = logs.follow(LogPlace::Controllers(ObjectKey::new("prod", "edge-7")));
    let mut found = Vec::new();
    while found.is_empty() {
        for one in news.next().await.expect("news").expect("readable") {
            if let LogNews::Line(line) = one {
                found.push(line);
            }
        }
    }
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].text.ends_with("Machine=\"prod/edge-7\"") && !found[0].text.contains('\u{1b}'),
        "{found:?}"
    );
}

fn row(group: &str, kind: &str, name: &str, spec: Value) -> Delta {
    let (group, kind, version) = (group.to_owned(), kind.to_owned(), "v1beta2".to_owned());
    let plural = format!("{}s", kind.to_lowercase());
    let metadata = json!({"namespace": "prod", "name": name, "uid": name});
    let slim: Slim = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("an object");
    let gvk = Gvk { group, version, kind, plural, namespaced: true };
    Delta::Upsert(Arc::new(Decoder::for_kind(SourceId(0), gvk, Arc::default()).row(&slim)))
}

/// From the Machine, and from the Host below it.
#[test]
fn the_run_on_a_host_is_read_for_the_host_and_for_its_machine() {
    let mut model = model();
    press(&mut model, "\":tree prod-eu-1\" enter").expect("keys");
    press(&mut model, "\":host-log\" enter").expect("keys");
    let picture = text(&mut model);
    assert!(picture.contains("select one, or a Machine that has one"), "{picture}");
    let reference = json!({"apiGroup": INFRASTRUCTURE_GROUP, "kind": "HostMachine", "name": "rack-1"});
    let machine = row(
        CORE_GROUP,
        "Machine",
        "rack-1",
        json!({"clusterName": "prod-eu-1", "infrastructureRef": reference}),
    );
    let consumer = json!({"kind": "HostMachine", "name": "rack-1", "clusterName": "prod-eu-1"});
    let host =
        row(INFRASTRUCTURE_GROUP, "Host", "h7", json!({"address": "10.0.0.7", "consumerRef": consumer}));
    update(&mut model, Msg::Fleet(vec![machine, host]));
    text(&mut model);
    let place = LogPlace::HostRun(ObjectKey::new("prod", "h7"));
    for keys in ["/ \"rack-1\" enter G", "esc o G"] {
        press(&mut model, keys).expect("keys");
        let (subject, _) = reading(&press(&mut model, "\":host-log\" enter").expect("keys"));
        let subject = subject.unwrap_or_else(|| panic!("{keys}: {}", text(&mut model)));
        assert_eq!(subject.place, place, "{keys}");
        lines(&mut model, &subject, vec![LogNews::Followed(vec!["the run on h7".to_owned()])]);
        lines(
            &mut model,
            &subject,
            vec![LogNews::Line(LogLine {
                at: String::new(),
                source: "".into(),
                text: "[init] Using Kubernetes version: v1.36.3".to_owned(),
            })],
        );
        let picture = text(&mut model);
        assert!(picture.contains("following the run on h7"), "{picture}");
        assert!(picture.contains("\n  [init] Using Kubernetes version"), "{picture}");
        press(&mut model, "esc").expect("keys");
    }
}
