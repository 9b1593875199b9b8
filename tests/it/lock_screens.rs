//! The lock view and the walkthrough of a leader migration as screens: what they show of a cluster in the middle of one,
//! whose locks are watched, and that nothing is watched once they are left.

use std::time::Duration;

use capi_types::key::ObjectKey;
use capstan_dashboard::fleet::Delta;
use capstan_dashboard::operations::LockPlace;
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::subject::{LockSubject, Subject, SubjectKind};
use capstan_dashboard::tui::update::update;
use k8s_openapi::api::coordination::v1::Lease;
use leader_migration::flag_places::FlagPlaces;
use leader_migration::inventory::{Inventory, assume_file};
use leader_migration::lock_watch::LockWatch;
use leader_migration::look::{LockLook, MigrationScope};
use leader_migration::rights::questions;
use leader_migration::validate::RightFact;
use ratatui::layout::Rect;
use serde_json::{Value, json};

use crate::fleet_fixture::{MachineState, OwnerState, RollingCluster, now};
use crate::golden;

fn fleet() -> Vec<Delta> {
    let mut c = RollingCluster::new("harbor", OwnerState::settled("v1.35.1", 3));
    c.control_plane_machine("8gtlh", "v1.35.1", &MachineState::Old);
    c.deltas()
}

fn model(width: u16, height: u16) -> Model {
    let look = Look::load("default", "default", Tier::None, false, None, command::check)
        .expect("shipped files load");
    let session = Session {
        title: "demo".to_owned(),
        scope: "all namespaces".to_owned(),
        read_only: false,
        ..Session::default()
    };
    let mut model = Model::new(session, look, Rect::new(0, 0, width, height), now());
    update(&mut model, Msg::Fleet(fleet()));
    update(&mut model, Msg::Tick);
    model
}

fn keys(model: &mut Model, keys: &str) -> Vec<Effect> {
    press(model, keys).unwrap_or_else(|e| panic!("{keys}: {e}"))
}

/// What is to be watched from now on: `Some(None)` is nothing any more.
fn watched(effects: &[Effect]) -> Option<Option<LockSubject>> {
    effects.iter().find_map(|effect| match effect {
        Effect::Read { subject: Subject::Locks(subject), .. } => Some(Some(subject.clone())),
        Effect::StopReading(SubjectKind::Locks) => Some(None),
        _ => None,
    })
}

fn answer(model: &mut Model, of: &LockSubject, look: Result<LockLook, String>) -> Vec<Effect> {
    let (subject, reading) = (Subject::Locks(of.clone()), Reading::Locks(look.map(Box::new)));
    update(model, Msg::Done(EffectOutcome::Read { subject, reading }))
}

/// So many seconds before the moment at which tests look.
fn ago(seconds: i64) -> String {
    (now() - chrono::TimeDelta::seconds(seconds)).format("%Y-%m-%dT%H:%M:%S.000000Z").to_string()
}

fn lease(name: &str, holder: &str, renewed_s: i64, transitions: i32) -> Lease {
    serde_json::from_value(json!({
        "metadata": {"namespace": "kube-system", "name": name, "uid": name},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": transitions,
            "acquireTime": ago(700), "renewTime": ago(renewed_s)},
    }))
    .expect("a Lease")
}

const FLAGS: [&str; 2] =
    ["--enable-leader-migration", "--leader-migration-config=/etc/kubernetes/leader-migration.yaml"];

fn pod(program: &str, tag: &str, node: &str, started_s: i64, args: &[&str]) -> Value {
    let command: Vec<&str> = [program].into_iter().chain(args.iter().copied()).collect();
    json!({
        "kind": "Pod", "metadata": {"name": format!("{program}-{node}"), "namespace": "kube-system"},
        "spec": {"nodeName": node, "containers": [{"name": "m", "image": format!("registry.k8s.io/{program}:{tag}"),
            "command": command, "volumeMounts": [{"mountPath": "/etc/kubernetes/leader-migration.yaml"}]}]},
        "status": {"startTime": ago(started_s)},
    })
}

fn old(node: &str, has_flag: bool) -> Value {
    let flags: &[&str] = if has_flag { &FLAGS } else { &[] };
    let args = [&["--cloud-provider=aws"], flags].concat();
    pod("kube-controller-manager", "v1.26.9", node, 900, &args)
}

fn new(node: &str, started_s: i64) -> Vec<Value> {
    vec![
        pod("kube-controller-manager", "v1.27.4", node, started_s, &["--cloud-provider=external"]),
        pod("cloud-controller-manager", "v1.27.1", node, started_s, &FLAGS),
    ]
}

const CP_1: &str = "cp-1_6f1c2d3e-0a1b-4c5d-8e9f-0a1b2c3d4e5f";
const CP_3: &str = "cp-3_0b1c2d3e-4f50-4162-8374-95a6b7c8d9e0";

/// A look at a cluster after its Leases have been watched for a while.
fn look(pods: &[Value], first: &[Lease], then: &[Lease]) -> LockLook {
    let mut watch = LockWatch::default();
    let before = now() - chrono::TimeDelta::seconds(95);
    watch.look(first, Duration::ZERO, before);
    watch.look(then, Duration::from_secs(94), now() - chrono::TimeDelta::seconds(1));
    let mut inventory = Inventory::default();
    inventory.objects("the cluster", pods);
    let (mut processes, errors) = inventory.processes();
    assert_eq!(errors, []);
    let scope = MigrationScope::default();
    let assumed = processes.iter_mut().filter_map(|p| assume_file(p, &scope.leader_name, &scope.functions));
    let mut remarks: Vec<String> = assumed.collect();
    remarks.truncate(1);
    let asked = questions(&scope.subjects, &scope.namespace, &scope.leader_name).into_iter();
    LockLook {
        at: now(),
        leases: watch.leases(Duration::from_secs(95)),
        changes: watch.changes(),
        processes,
        rights: asked.map(|question| RightFact { question, allowed: Some(true) }).collect(),
        places: FlagPlaces::of(pods),
        remarks,
        trouble: None,
    }
}

/// In the middle of the third stage: a node is new, two are old; the old manager's main lock moved a minute ago.
fn introducing() -> LockLook {
    let pods = [vec![old("cp-1", true), old("cp-2", true)], new("cp-3", 7)].concat();
    let migration = "cloud-provider-extraction-migration";
    let first = [
        lease("kube-controller-manager", "cp-2_aaaaaaaaaaaa", 101, 3),
        lease("cloud-controller-manager", CP_3, 101, 0),
        lease(migration, "cp-2_aaaaaaaaaaaa", 101, 0),
        lease("kube-scheduler", "cp-1_bbbbbbbbbbbb", 101, 1),
        lease("plndr-svcs-lock", "cp-1", 4000, 8),
    ];
    let then = [
        lease("kube-controller-manager", CP_1, 1, 4),
        lease("cloud-controller-manager", CP_3, 2, 0),
        lease(migration, CP_1, 2, 1),
        lease("kube-scheduler", "cp-1_bbbbbbbbbbbb", 9, 1),
        lease("plndr-svcs-lock", "cp-1", 4000, 8),
    ];
    look(&pods, &first, &then)
}

#[test]
fn locks_controllers_oddities_and_hands() {
    for (width, height) in [(80, 24), (120, 40)] {
        let mut model = model(width, height);
        let subject = watched(&keys(&mut model, "L")).expect("news").expect("a subject");
        assert_eq!(subject.place, LockPlace::Server);
        assert!(text(&mut model).contains("the Leases are being read"));
        answer(&mut model, &subject, Ok(introducing()));
        let screen = text(&mut model);
        assert!(screen.contains("5 locks in kube-system: 4 held, 1 stale"), "{screen}");
        golden::screen(&format!("leases-{width}x{height}"), &screen);
        keys(&mut model, "G");
        let screen = text(&mut model);
        assert!(screen.contains("CHANGED HANDS"), "{screen}");
        golden::screen(&format!("leases-end-{width}x{height}"), &screen);
    }
}

#[test]
fn a_lock_that_is_not_renewed_any_more_turns_stale_by_itself() {
    let mut model = model(120, 40);
    let subject = watched(&keys(&mut model, "L")).expect("news").expect("a subject");
    answer(&mut model, &subject, Ok(introducing()));
    model.now += chrono::TimeDelta::seconds(20);
    update(&mut model, Msg::Tick);
    let screen = text(&mut model);
    assert!(screen.contains("5 locks in kube-system: 5 stale"), "{screen}");
    // What was seen stays when the watch breaks, and says how it is.
    answer(&mut model, &subject, Err("connection refused \u{1b}[2J".to_owned()));
    let screen = text(&mut model);
    assert!(screen.contains("not current: connection refused") && !screen.contains('\u{1b}'), "{screen}");
}

#[test]
fn the_stages_with_evidence_edits_and_the_way_back() {
    for (width, height) in [(80, 24), (120, 40)] {
        let mut model = model(width, height);
        let subject = watched(&keys(&mut model, "K")).expect("news").expect("a subject");
        answer(&mut model, &subject, Ok(introducing()));
        let screen = text(&mut model);
        assert!(screen.contains("stage 3 in progress, 3 done") && screen.contains("wait 8 s"), "{screen}");
        golden::screen(&format!("leader-migration-{width}x{height}"), &screen);
        keys(&mut model, "pagedown");
        golden::screen(&format!("leader-migration-edits-{width}x{height}"), &text(&mut model));
        // An un-flagged old process beside a cloud-controller-manager: nothing is to be done but to put that right.
        let pods = [vec![old("cp-1", true), old("cp-2", false)], new("cp-3", 700)].concat();
        answer(
            &mut model,
            &subject,
            Ok(LockLook { processes: look(&pods, &[], &[]).processes, ..introducing() }),
        );
        let screen = text(&mut model);
        assert!(screen.contains("stage 0 blocked") && !screen.contains("taken back by"), "{screen}");
        golden::screen(&format!("leader-migration-refused-{width}x{height}"), &screen);
    }
}

#[test]
fn edits_go_to_the_clipboard_and_stages_can_be_chosen() {
    let mut model = model(120, 40);
    let subject = watched(&keys(&mut model, "K")).expect("news").expect("a subject");
    answer(&mut model, &subject, Ok(introducing()));
    let copied = |effects: Vec<Effect>| {
        effects.into_iter().find_map(|effect| if let Effect::Copy(text) = effect { Some(text) } else { None })
    };
    let text_of = copied(keys(&mut model, "c")).expect("edits");
    assert!(
        text_of.contains("--enable-leader-migration=true") && text_of.contains("leaderName:"),
        "{text_of}"
    );
    keys(&mut model, "g");
    assert_eq!(copied(keys(&mut model, "c")), None, "the first stage has nothing to change");
    assert!(text(&mut model).contains("this stage has no edits to copy"));
    assert!(text(&mut model).contains("KCM 1.26, leader migration on"));
}

#[test]
fn nothing_to_migrate_and_nobody_to_judge() {
    let mut model = model(80, 24);
    let subject = watched(&keys(&mut model, "K")).expect("news").expect("a subject");
    answer(&mut model, &subject, Ok(look(&[], &[], &[])));
    assert!(text(&mut model).contains("no pod of kube-controller-manager"), "{}", text(&mut model));
    let late = pod("kube-controller-manager", "v1.33.1", "cp-1", 900, &[]);
    answer(&mut model, &subject, Ok(look(&[late], &[], &[])));
    assert!(text(&mut model).contains("nothing to migrate"), "{}", text(&mut model));
}

#[test]
fn locks_are_watched_where_one_is_and_only_while_they_are_shown() {
    let mut model = model(120, 40);
    assert_eq!(watched(&keys(&mut model, "down")), None, "nothing is watched unasked");
    let server = watched(&keys(&mut model, "L")).expect("news");
    assert_eq!(server.as_ref().map(|subject| &subject.place), Some(&LockPlace::Server));
    assert_eq!(watched(&keys(&mut model, "K")), None, "the same place goes on");
    answer(&mut model, server.as_ref().expect("a subject"), Ok(introducing()));
    assert!(text(&mut model).contains("stage 3"));
    assert_eq!(watched(&keys(&mut model, "esc esc")), Some(None), "nothing is shown any more");
    // In a cluster's tree its own locks are meant.
    keys(&mut model, "enter");
    let cluster = watched(&keys(&mut model, "L")).expect("news").expect("a subject");
    assert_eq!(cluster.place, LockPlace::Workload(ObjectKey::new("prod", "harbor")));
    assert!(text(&mut model).contains("locks of harbor"));
    answer(&mut model, &cluster, Err("Secret prod/harbor-kubeconfig holds no kubeconfig".to_owned()));
    assert!(text(&mut model).contains("cannot be seen: Secret prod/harbor-kubeconfig"));
    // A late look at another place is not for this screen.
    answer(&mut model, server.as_ref().expect("a subject"), Ok(introducing()));
    assert!(text(&mut model).contains("cannot be seen"));
}

/// What feeds these screens: a look after every renewal, by one watch, and none once nobody listens.
#[tokio::test(start_paused = true)]
async fn looks_follow_the_leases_of_a_server_by_watch() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use capstan_base::rng::Rng;
    use capstan_base::time::Clock;
    use capstan_engine::client::Writer;
    use capstan_engine::client::in_process;
    use capstan_engine::engine::lease::{Elector, LeaseOptions};
    use capstan_engine::locks::follow;
    use capstan_store::MemoryStore;
    use capstan_worlds::standalone::stack::{Stack, StackOptions};
    use futures::StreamExt as _;
    use leader_migration::lock_view::LockState;
    use tokio_util::sync::CancellationToken;
    use tower::ServiceExt as _;

    let clock = Clock::new(super::simulation::Paused(tokio::time::Instant::now()));
    let options = StackOptions { engine: false, ..StackOptions::new(clock.clone(), Rng::seeded(1)) };
    let stack = Stack::start(Arc::new(MemoryStore::new()), options).await.expect("a server");
    let asked = Arc::new(AtomicUsize::new(0));
    let (server, counter) = (stack.server().clone(), Arc::clone(&asked));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        if request.uri().path().ends_with("/leases") {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        server.clone().oneshot(request)
    });
    let watching = in_process(service, "watching", "default", false).client;
    let writing = stack.connection("test", false).client;
    let lease =
        LeaseOptions::new("kube-system", "cloud-provider-extraction-migration", "cp-1_0123456789abcdef");
    let (elector, _leadership) = Elector::new(lease, Writer::new(writing, "test"), clock.clone());
    let stop = CancellationToken::new();
    let task = tokio::spawn(elector.run(stop.clone()));

    let mut looks = follow(watching, MigrationScope::default(), clock, &Rng::seeded(2));
    let mut states = Vec::new();
    while states.len() < 20 {
        let look = looks.next().await.expect("a look");
        if let [lease] = look.leases.as_slice() {
            assert_eq!(lease.holder, "cp-1_0123456789abcdef");
            states.push(lease.state());
        }
    }
    assert!(states.contains(&LockState::Held), "{states:?}");
    let before = asked.load(Ordering::Relaxed);
    stop.cancel();
    task.await.expect("it ends");
    let freed = loop {
        let look = looks.next().await.expect("a look");
        if look.leases.iter().any(|lease| lease.state() == LockState::Free) {
            break look;
        }
    };
    assert_eq!((freed.changes[0].from.as_str(), freed.changes[0].to.as_str()), ("cp-1_0123456789abcdef", ""));
    assert_eq!(asked.load(Ordering::Relaxed), before, "twenty looks and one request");
    assert!(before <= 3, "{before} requests for Leases");
}
