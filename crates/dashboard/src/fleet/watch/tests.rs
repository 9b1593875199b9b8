//! Watching against a scripted server: refusals, losses, lists that changed meanwhile. Time is paused;
//! an hour costs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::*;
use crate::fleet::tests::{cluster, control_plane, machine, small_cluster};
use crate::fleet::{Fleet, Kind, TreeOptions, Verdict};
use capstan_base::time::Timestamp;
use capstan_engine::client::in_process;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A server that does as it is told. Collections are named by plural.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    version: &'static str,
    objects: BTreeMap<String, Vec<Value>>,
    forbidden: BTreeSet<String>,
    /// Watches that start from an old version are told so.
    compacted: bool,
    down: bool,
    /// Takes requests and answers none.
    hung: bool,
    /// Of the history, as lists state it; 7 when not set.
    revision: u64,
    /// Uid of the namespace `kube-system`; empty: no such namespace.
    cluster_uid: &'static str,
    requests: Vec<String>,
    /// What was listed: the kind, and how many of it in one answer.
    pages: Vec<(String, usize)>,
    watches: Vec<(String, UnboundedSender<Result<Frame<Bytes>, Infallible>>)>,
}

const KINDS: [(&str, &str, &str); 10] = [
    ("cluster.x-k8s.io", "Cluster", "clusters"),
    ("cluster.x-k8s.io", "MachineDeployment", "machinedeployments"),
    ("cluster.x-k8s.io", "MachineSet", "machinesets"),
    ("cluster.x-k8s.io", "Machine", "machines"),
    ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "kubeadmcontrolplanes"),
    ("controlplane.cluster.x-k8s.io", "OtherControlPlane", "othercontrolplanes"),
    ("infrastructure.cluster.x-k8s.io", "CloudControlPlane", "cloudcontrolplanes"),
    ("", "Secret", "secrets"),
    ("", "Event", "events"),
    ("", "Pod", "pods"),
];

fn answer(code: StatusCode, body: &Value) -> Answer {
    let bytes = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    let mut answer = Response::new(bytes);
    *answer.status_mut() = code;
    answer
}

fn refusal(code: StatusCode, reason: &str) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("{reason} says the script"), "reason": reason, "code": code.as_u16()});
    answer(code, &status)
}

impl Script {
    fn with(objects: &[Value]) -> Self {
        let script = Self::default();
        script.0.lock().version = "v1beta2";
        for object in objects {
            script.put(object.clone());
        }
        script
    }

    fn plural(object: &Value) -> String {
        let (_, _, plural) = KINDS.iter().find(|(_, kind, _)| object["kind"] == *kind).expect("a known kind");
        (*plural).to_owned()
    }

    fn put(&self, object: Value) {
        self.0.lock().objects.entry(Self::plural(&object)).or_default().push(object);
    }

    /// Sends one event to every watch of the object's kind.
    fn tell(&self, type_: &str, object: &Value) {
        let plural = Self::plural(object);
        let mut state = self.0.lock();
        let line = Bytes::from(format!("{}\n", json!({"type": type_, "object": object})));
        state
            .watches
            .retain(|(p, w)| *p != plural || w.unbounded_send(Ok(Frame::data(line.clone()))).is_ok());
    }

    fn hang_up(&self) {
        self.0.lock().watches.clear();
    }

    /// All but questions whether it still answers.
    fn requests(&self) -> usize {
        self.0.lock().requests.iter().filter(|path| *path != "/livez").count()
    }

    fn probes(&self) -> usize {
        self.0.lock().requests.iter().filter(|path| *path == "/livez").count()
    }

    fn respond(&self, request: &Request<Body>) -> Result<Answer, std::io::Error> {
        let mut state = self.0.lock();
        if state.down {
            return Err(std::io::Error::other("tcp connect error: Connection refused (os error 111)"));
        }
        let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or("").to_owned());
        state.requests.push(path.clone());
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        Ok(match parts.as_slice() {
            ["api", "v1", "namespaces", "kube-system"] if !state.cluster_uid.is_empty() => {
                let metadata = json!({"name": "kube-system", "uid": state.cluster_uid});
                answer(
                    StatusCode::OK,
                    &json!({"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}),
                )
            }
            ["apis"] => answer(StatusCode::OK, &groups(state.version)),
            ["apis", group, version] => answer(StatusCode::OK, &resources(group, version)),
            ["api", "v1"] => answer(StatusCode::OK, &resources("", "v1")),
            [.., plural] if state.forbidden.contains(*plural) => refusal(StatusCode::FORBIDDEN, "Forbidden"),
            [.., plural] if query.contains("watch=true") => {
                let (sender, receiver) = unbounded();
                if state.compacted {
                    let gone = json!({"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "metadata": {},
                        "status": "Failure", "message": "too old", "reason": "Expired", "code": 410}});
                    let _ = sender.unbounded_send(Ok(Frame::data(Bytes::from(format!("{gone}\n")))));
                    state.compacted = false;
                }
                state.watches.push(((*plural).to_owned(), sender));
                // As a connection does it: one event after the other, however many have come.
                let frames = receiver.then(|frame| async {
                    tokio::task::yield_now().await;
                    frame
                });
                Response::new(StreamBody::new(frames.boxed()).boxed_unsync())
            }
            [.., plural] => {
                let empty = Vec::new();
                let all = state.objects.get(*plural).unwrap_or(&empty);
                let named = query.split('&').find_map(|q| q.strip_prefix("fieldSelector=metadata.name%3D"));
                let items: Vec<&Value> =
                    all.iter().filter(|o| named.is_none_or(|name| o["metadata"]["name"] == name)).collect();
                let revision = if state.revision == 0 { 7 } else { state.revision }.to_string();
                let (page, rest) = page(&items, &query);
                let metadata = json!({"resourceVersion": revision, "continue": rest});
                let list = json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": page});
                let (list, listed) = (answer(StatusCode::OK, &list), page.len());
                state.pages.push(((*plural).to_owned(), listed));
                list
            }
            [] => refusal(StatusCode::NOT_FOUND, "NotFound"),
        })
    }

    fn spawn(&self) -> (mpsc::Receiver<Vec<Delta>>, Source) {
        spawn(&self.connection(), SourceId(0), Scope::default(), clock(), Rng::seeded(1))
    }

    fn connection(&self) -> Connection {
        let script = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let script = script.clone();
            async move {
                while script.0.lock().hung {
                    sleep(Duration::from_millis(100)).await;
                }
                script.respond(&request)
            }
        });
        in_process(service, "scripted", "default", true)
    }
}

/// The items that a query asks for, and the token of the next page: where it begins.
fn page<'a, 'v>(items: &'a [&'v Value], query: &str) -> (&'a [&'v Value], String) {
    let number = |name: &str| query.split('&').find_map(|q| q.strip_prefix(name)?.parse::<usize>().ok());
    let from = number("continue=").unwrap_or(0);
    let to = items.len().min(from + number("limit=").unwrap_or(items.len()));
    (&items[from..to], if to == items.len() { String::new() } else { to.to_string() })
}

fn groups(version: &str) -> Value {
    let group = |name: &str| {
        let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    };
    json!({"kind": "APIGroupList", "apiVersion": "v1",
        "groups": [group("cluster.x-k8s.io"), group("controlplane.cluster.x-k8s.io"),
                   group("infrastructure.cluster.x-k8s.io")]})
}

fn resources(group: &str, version: &str) -> Value {
    let resources: Vec<Value> = KINDS
        .iter()
        .filter(|(g, _, _)| *g == group)
        .map(|(_, kind, plural)| {
            json!({"name": plural, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["list", "watch"]})
        })
        .collect();
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
}

fn clock() -> Clock {
    Clock::fixed(crate::fleet::tests::now())
}

/// Takes everything in that comes within a second of (paused) time.
async fn settle(fleet: &mut Fleet, batches: &mut mpsc::Receiver<Vec<Delta>>) {
    while let Ok(Some(batch)) = timeout(Duration::from_secs(1), batches.recv()).await {
        fleet.apply(batch);
    }
}

fn state<'a>(fleet: &'a Fleet, kind: &str) -> &'a FeedState {
    &fleet.feed(SourceId(0), kind).expect("a feed").state
}

fn last_good(fleet: &Fleet) -> Option<Timestamp> {
    fleet.feed(SourceId(0), "Machine").expect("a feed").last_good
}

#[tokio::test(start_paused = true)]
async fn the_picture_is_complete_and_then_it_is_quiet() {
    let objects = small_cluster("a");
    let script = Script::with(&objects);
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    let expected = crate::fleet::tests::fleet_of(&objects);
    let picture = |f: &Fleet| crate::fleet::tests::picture(f, &TreeOptions::default());
    assert_eq!(picture(&fleet), picture(&expected));
    for kind in ["Cluster", "MachineDeployment", "MachineSet", "Machine", "KubeadmControlPlane"] {
        assert_eq!(state(&fleet, kind), &FeedState::Live, "{kind}");
    }
    assert!(matches!(state(&fleet, "MachinePool"), FeedState::NotServed { .. }));
    let before = script.requests();
    sleep(Duration::from_secs(240)).await;
    assert_eq!(script.requests(), before, "nothing is polled");
    assert!((13..=16).contains(&script.probes()), "{} probes: one per 15 s of silence", script.probes());
    assert!(batches.try_recv().is_err(), "and nothing is drawn for them");
}

#[tokio::test(start_paused = true)]
async fn pages_grow_while_a_long_list_is_read() {
    let names = (0..3_000).map(|i| machine("a", ("MachineSet", "a-md-1"), &format!("a-md-1-x{i}")));
    let objects: Vec<Value> = small_cluster("a").into_iter().chain(names.map(|m| m.0)).collect();
    let script = Script::with(&objects);
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    assert_eq!(fleet.members(fleet.clusters()[0], Kind::Machine).len(), 3_005);
    let pages: Vec<usize> =
        script.0.lock().pages.iter().filter(|(kind, _)| kind == "machines").map(|(_, n)| *n).collect();
    assert_eq!(pages, [500, 2_000, 505]);
}

#[tokio::test(start_paused = true)]
async fn changes_that_follow_each_other_are_taken_together() {
    let script = Script::with(&small_cluster("a"));
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    let new = |i: u64| {
        let name = format!("a-md-1-{i}");
        machine("a", ("MachineSet", "a-md-1"), &name).set("/metadata/resourceVersion", json!(i.to_string())).0
    };
    for i in 10..60 {
        script.tell("ADDED", &new(i));
        sleep(Duration::from_millis(10)).await;
    }
    let mut taken = 0;
    while let Ok(Some(batch)) = timeout(Duration::from_secs(1), batches.recv()).await {
        taken += 1;
        fleet.apply(batch);
    }
    assert_eq!(fleet.members(fleet.clusters()[0], Kind::Machine).len(), 55);
    assert!((5..=7).contains(&taken), "{taken} batches in half a second");
}

#[tokio::test(start_paused = true)]
async fn many_changes_at_once_are_not_held_back() {
    let script = Script::with(&small_cluster("a"));
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    for i in 10..2_010_u64 {
        let name = format!("a-md-1-{i}");
        let new = machine("a", ("MachineSet", "a-md-1"), &name);
        script.tell("ADDED", &new.set("/metadata/resourceVersion", json!(i.to_string())).0);
    }
    let until = tokio::time::Instant::now() + Duration::from_millis(500);
    while let Ok(Some(batch)) = tokio::time::timeout_at(until, batches.recv()).await {
        fleet.apply(batch);
    }
    assert_eq!(fleet.members(fleet.clusters()[0], Kind::Machine).len(), 2_005);
}

#[tokio::test(start_paused = true)]
async fn changes_come_by_watch() {
    let script = Script::with(&small_cluster("a"));
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    let new = machine("a", ("MachineSet", "a-md-1"), "a-md-1-9");
    let new = new.set("/metadata/resourceVersion", json!("98")).0;
    script.tell("ADDED", &new);
    script.tell("BOOKMARK", &json!({"kind": "Machine", "apiVersion": "cluster.x-k8s.io/v1beta2", "metadata": {"resourceVersion": "99"}}));
    settle(&mut fleet, &mut batches).await;
    let cluster = fleet.clusters()[0];
    assert_eq!(fleet.members(cluster, Kind::Machine).len(), 6);
    let mut gone = new.clone();
    gone["metadata"]["resourceVersion"] = json!("100");
    script.tell("DELETED", &gone);
    settle(&mut fleet, &mut batches).await;
    assert_eq!(fleet.members(cluster, Kind::Machine).len(), 5);
}

#[tokio::test(start_paused = true)]
async fn control_planes_of_other_providers_are_found_by_reference() {
    let other = control_plane("a", 3).set("/kind", json!("OtherControlPlane")).0;
    let group = "controlplane.cluster.x-k8s.io";
    let reference = json!({"apiGroup": group, "kind": "OtherControlPlane", "name": "a-cp"});
    let script = Script::with(&[cluster("a").set("/spec/controlPlaneRef", reference).0, other]);
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    assert_eq!(fleet.members(fleet.clusters()[0], Kind::ControlPlane).len(), 1);
}

/// A control plane of another group was never listed, and its Cluster was well.
#[tokio::test(start_paused = true)]
async fn control_planes_are_watched_whatever_their_group() {
    const GROUP: &str = "infrastructure.cluster.x-k8s.io";
    let named = |cluster: &str, group: &str, kind: &str| {
        let reference = json!({"apiGroup": group, "kind": kind, "name": format!("{cluster}-cp")});
        crate::fleet::tests::cluster(cluster).set("/spec/controlPlaneRef", reference).0
    };
    let plane = crate::fleet::tests::object("CloudControlPlane", "a-cp").of("a");
    let plane = plane.set("/apiVersion", json!(format!("{GROUP}/v1beta2")));
    let script = Script::with(&[
        named("a", GROUP, "CloudControlPlane"),
        named("b", GROUP, "MissingControlPlane"),
        named("c", "", "Secret"),
        plane.condition("Ready", "True", "Ready", "").0,
    ]);
    script.0.lock().forbidden.insert("cloudcontrolplanes".to_owned());
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    let seen = |fleet: &Fleet| -> Vec<_> {
        fleet.clusters().iter().map(|id| (fleet.verdict(*id), fleet.what_is_wrong(*id))).collect()
    };
    let unread = |kind: &str, of: &str| (Verdict::Unknown, format!("{kind} {of}-cp was not read"));
    let others = [unread("MissingControlPlane", "b"), unread("Secret", "c")];
    let mut expected = vec![unread("CloudControlPlane", "a")];
    expected.extend(others.clone());
    assert_eq!(seen(&fleet), expected, "refused, not served, and not asked for");
    assert!(matches!(state(&fleet, "CloudControlPlane"), FeedState::NoAccess { .. }));
    assert!(!script.0.lock().requests.iter().any(|path| path.ends_with("/secrets")));

    script.0.lock().forbidden.clear();
    sleep(ASK_AGAIN).await;
    settle(&mut fleet, &mut batches).await;
    fleet.advance(crate::fleet::tests::now() + Duration::from_secs(60));
    expected[0] = (Verdict::Ok, String::new());
    assert_eq!(seen(&fleet), expected);
    assert_eq!(fleet.members(fleet.clusters()[0], Kind::ControlPlane).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_kind_is_no_access_and_asked_for_slowly() {
    let script = Script::with(&small_cluster("a"));
    script.0.lock().forbidden.insert("machines".to_owned());
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    assert!(matches!(state(&fleet, "Machine"), FeedState::NoAccess { .. }));
    assert_eq!(state(&fleet, "Cluster"), &FeedState::Live);
    let tries = |s: &Script| s.0.lock().requests.iter().filter(|p| p.ends_with("/machines")).count();
    assert_eq!(tries(&script), 1);
    script.0.lock().forbidden.clear();
    sleep(ASK_AGAIN).await;
    settle(&mut fleet, &mut batches).await;
    assert_eq!(state(&fleet, "Machine"), &FeedState::Live);
    assert_eq!(fleet.members(fleet.clusters()[0], Kind::Machine).len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_lost_server_leaves_the_last_picture_and_comes_back_by_itself() {
    let script = Script::with(&small_cluster("a"));
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    script.0.lock().down = true;
    script.hang_up();
    settle(&mut fleet, &mut batches).await;
    let FeedState::Lost { error } = state(&fleet, "Machine") else {
        panic!("{:?}", state(&fleet, "Machine"))
    };
    assert!(error.contains("no API server answers"), "{error}");
    assert!(last_good(&fleet).is_some());
    assert_eq!(fleet.len(), 9);
    script.0.lock().down = false;
    sleep(Duration::from_secs(60)).await;
    settle(&mut fleet, &mut batches).await;
    assert_eq!(state(&fleet, "Machine"), &FeedState::Live, "without a single event");
    assert_eq!(last_good(&fleet), None);
}

#[tokio::test(start_paused = true)]
async fn what_went_while_nobody_looked_has_vanished() {
    let script = Script::with(&small_cluster("a"));
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    {
        let mut state = script.0.lock();
        state.objects.remove("machines");
        state.compacted = true;
        state.watches.retain(|(plural, _)| plural != "machines");
    }
    sleep(Duration::from_secs(5)).await;
    settle(&mut fleet, &mut batches).await;
    assert_eq!(fleet.members(fleet.clusters()[0], Kind::Machine).len(), 0);
    assert_eq!(state(&fleet, "Machine"), &FeedState::Live);
}

#[tokio::test(start_paused = true)]
async fn an_old_server_is_read_and_said() {
    let script = Script::with(&small_cluster("a"));
    script.0.lock().version = "v1beta1";
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    let (_, info) = fleet.sources().next().expect("a source");
    assert!(info.notice.as_deref().is_some_and(|n| n.contains("only as v1beta1")), "{info:?}");
    assert_eq!(info.name.as_ref(), "scripted");
    assert_eq!(fleet.clusters().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_object_is_followed_and_its_events_are() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": "czNjcmV0"},
        "metadata": {"name": "s", "namespace": "default", "uid": "1", "resourceVersion": "7", "managedFields": []}});
    let event = json!({"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "Odd", "message": "x\u{1b}[2J",
        "count": 3, "metadata": {"name": "e", "namespace": "default", "uid": "2", "resourceVersion": "1"},
        "involvedObject": {"kind": "Secret", "name": "s"}, "lastTimestamp": "2026-11-20T09:00:00Z"});
    let script = Script::with(&[secret.clone(), event]);
    let target = Target {
        source: SourceId(0),
        group: String::new(),
        kind: "Secret".into(),
        namespace: "default".into(),
        name: "s".into(),
    };
    let mut news = follow_one(&script.connection(), target.clone(), Rng::seeded(1));
    let mut seen = Vec::new();
    while let Ok(Some(subject)) = timeout(Duration::from_secs(1), news.recv()).await {
        seen.push(subject);
    }
    let is_of_events = |request: &String| request.contains("/events");
    assert!(!script.0.lock().requests.iter().any(is_of_events), "nobody looks at them");
    let (_batches, source) = script.spawn();
    let mut events = source.follow_events(target);
    while let Ok(Some(subject)) = timeout(Duration::from_secs(1), events.recv()).await {
        seen.push(subject);
    }
    let object = seen
        .iter()
        .find_map(|s| if let ObjectNews::Object(o) = s { Some(o) } else { None })
        .expect("the object");
    assert_eq!(object["data"]["k"], "(hidden)");
    assert!(object["metadata"].get("managedFields").is_none());
    let events =
        seen.iter().find_map(|s| if let ObjectNews::Events(e) = s { Some(e) } else { None }).expect("events");
    assert_eq!((events[0].count, events[0].warning), (3, true));
    assert!(!events[0].message.contains('\u{1b}'));
    script.tell("DELETED", &secret);
    assert_eq!(timeout(Duration::from_secs(1), news.recv()).await, Ok(Some(ObjectNews::Gone)));
}

/// The object does not change, so that nothing else says that the server answers again.
#[tokio::test(start_paused = true)]
async fn a_quiet_watch_that_stands_again_takes_its_trouble_back() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default", "uid": "1", "resourceVersion": "7"}});
    let script = Script::with(std::slice::from_ref(&secret));
    let target = Target {
        source: SourceId(0),
        group: String::new(),
        kind: "Secret".into(),
        namespace: "default".into(),
        name: "s".into(),
    };
    let mut news = follow_one(&script.connection(), target, Rng::seeded(1));
    let mut told =
        async || timeout(Duration::from_secs(120), news.recv()).await.expect("news").expect("open");
    assert!(matches!(told().await, ObjectNews::Object(_)));
    script.0.lock().down = true;
    script.hang_up();
    assert!(matches!(told().await, ObjectNews::Failed(_)));
    script.0.lock().down = false;
    loop {
        match told().await {
            ObjectNews::Failed(_) => {}
            now => return assert_eq!(now, ObjectNews::Unchanged),
        }
    }
}

fn silent(fleet: &Fleet) -> usize {
    fleet.feeds().filter(|(_, feed)| matches!(feed.state, FeedState::Silent { .. })).count()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_not_live_and_is_again_when_it_answers() {
    let script = Script::with(&small_cluster("a"));
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    script.0.lock().hung = true;
    sleep(Duration::from_secs(21)).await;
    settle(&mut fleet, &mut batches).await;
    assert_eq!(silent(&fleet), 5, "{:?}", fleet.feeds().collect::<Vec<_>>());
    let age = crate::fleet::tests::now() - last_good(&fleet).expect("a moment");
    assert!((15..=21).contains(&age.num_seconds()), "as old as the last word: {age}");
    assert_eq!(fleet.len(), 9, "the picture stays");

    // Hours later a few connections wait, no more.
    let before = script.requests() + script.probes();
    sleep(Duration::from_secs(7_200)).await;
    settle(&mut fleet, &mut batches).await;
    assert_eq!((silent(&fleet), script.requests() + script.probes()), (5, before));

    script.0.lock().hung = false;
    sleep(Duration::from_secs(10)).await;
    settle(&mut fleet, &mut batches).await;
    for kind in ["Cluster", "Machine", "KubeadmControlPlane"] {
        assert_eq!(state(&fleet, kind), &FeedState::Live, "{kind}");
    }
    assert_eq!(last_good(&fleet), None);
}

/// Takes everything in; how often a history was said to be another one.
async fn replacements(fleet: &mut Fleet, batches: &mut mpsc::Receiver<Vec<Delta>>) -> usize {
    let mut said = 0;
    while let Ok(Some(batch)) = timeout(Duration::from_secs(60), batches.recv()).await {
        said += usize::from(fleet.apply(batch).is_replaced);
    }
    said
}

#[tokio::test(start_paused = true)]
async fn an_emptied_server_leaves_no_phantoms_and_is_said_once() {
    let script = Script::with(&small_cluster("a"));
    script.0.lock().revision = 900;
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    assert_eq!(fleet.len(), 9);
    {
        let mut state = script.0.lock();
        state.objects.clear();
        state.revision = 3;
    }
    script.hang_up();
    assert_eq!(replacements(&mut fleet, &mut batches).await, 1);
    assert_eq!(fleet.len(), 0, "kinds whose list is empty included");
    assert_eq!(state(&fleet, "Cluster"), &FeedState::Live);
    script.hang_up();
    assert_eq!(replacements(&mut fleet, &mut batches).await, 0, "the same history, another connection");
}

#[tokio::test(start_paused = true)]
async fn a_lower_version_on_a_watch_is_another_history() {
    let script = Script::with(&small_cluster("a"));
    script.0.lock().revision = 900;
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    {
        let mut state = script.0.lock();
        state.objects.remove("machines");
        state.revision = 12;
    }
    let bookmark = json!({"kind": "Cluster", "apiVersion": "cluster.x-k8s.io/v1beta2", "metadata": {"resourceVersion": "12"}});
    script.tell("BOOKMARK", &bookmark);
    assert_eq!(replacements(&mut fleet, &mut batches).await, 1);
    assert_eq!(fleet.members(fleet.clusters()[0], Kind::Machine).len(), 0, "the other kinds are read again");
}

#[tokio::test(start_paused = true)]
async fn another_cluster_with_higher_versions_is_known_by_its_uid() {
    let script = Script::with(&small_cluster("a"));
    script.0.lock().cluster_uid = "first";
    let (mut batches, _source) = script.spawn();
    let mut fleet = Fleet::new();
    settle(&mut fleet, &mut batches).await;
    {
        let mut state = script.0.lock();
        state.objects.clear();
        state.forbidden.insert("machines".to_owned());
        (state.cluster_uid, state.revision) = ("second", 50_000);
    }
    script.put(cluster("b").0);
    script.hang_up();
    assert_eq!(replacements(&mut fleet, &mut batches).await, 1);
    assert_eq!(fleet.len(), 1, "rows of a kind that may not be read any more are gone as well");
    assert_eq!(fleet.row(fleet.clusters()[0]).expect("a row").name.as_ref(), "b");
    assert!(matches!(state(&fleet, "Machine"), FeedState::NoAccess { .. }));
}
