//! How far a change is, from what runs: partly done, stale, down, not to be seen; and what comes next.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::gate::{Doing, NextMove, next};
use crate::plan::tests::cluster;
use crate::plan::{Acknowledged, AsStored, PlanOptions, ServedOtherwise, plan};
use crate::request::{PatchKind, RequestPart, apply};
use crate::running::PodState;

struct Case {
    inputs: Inputs,
    target: WantedDocuments,
    plan: ChangePlan,
    running: Running,
}

impl Case {
    /// A change of which nothing is done; all Nodes and pods are Ready.
    fn of(control_planes: usize, workers: usize, sets: &[&str]) -> Self {
        let inputs = cluster(control_planes, workers);
        let parts: Vec<RequestPart> = sets.iter().map(|set| RequestPart::Set((*set).to_owned())).collect();
        let mut target = apply(&inputs, &parts, PatchKind::Strategic).expect("a request");
        let options = PlanOptions {
            acknowledged: Acknowledged::Everything,
            takes_back: true,
            ..PlanOptions::default()
        };
        let plan = plan(&inputs, &mut target, &options).expect("a plan");
        let mut running = Running::of(&inputs.objects);
        for node in running.nodes.values_mut() {
            node.ready = true;
            node.api_server = Sighting::Known(());
            node.pods = BTreeMap::from(
                [ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER]
                    .map(|pod| (pod, PodState { ready: true, trouble: None })),
            );
        }
        Self { inputs, target, plan, running }
    }

    fn items(&self) -> Vec<ProgressItem> {
        let Self { inputs, target, plan, running } = self;
        progress(&Situation { plan, target, inputs, running }).expect("items")
    }

    fn state(&self, step: StepId, node: &str) -> (ItemState, String) {
        let items = self.items();
        let of_node = items.iter().filter(|item| item.step == step && item.node == node);
        let (state, item) = state_of(of_node);
        (state, item.map(|item| item.evidence.clone()).unwrap_or_default())
    }

    /// The documents are written.
    fn store(&mut self) {
        for wanted in &self.target.documents {
            let stored = self.inputs.documents.iter_mut().find(|document| document.kind == wanted.kind);
            stored.expect("there").value.clone_from(&wanted.new);
        }
    }

    /// A node's pods run as they are wanted.
    fn carry_out(&mut self, node: &str) {
        let cluster = self.target.document(DocumentKind::Cluster).expect("there");
        let settings = ClusterSettings::new(&cluster.new, None).expect("a version");
        let live = self.running.control_plane.iter_mut().find(|live| live.host.name == node).expect("a node");
        live.static_pods = render::node(&settings, &live.host).expect("an address").static_pods;
    }

    /// With the steps at these places carried out.
    fn after(&self, performed: &[usize], mut doing: Doing) -> Doing {
        performed.iter().for_each(|at| doing.note(&self.plan.steps[*at]));
        doing
    }

    fn next(&self, performed: &[usize]) -> NextMove {
        let doing = self.after(performed, Doing { by_people: true, ..Doing::default() });
        next(&self.plan, &self.items(), &self.running, &doing)
    }

    /// The same where another change is taken back; `rewrites`: one that was half done.
    fn next_of_rollback(&self, performed: &[usize], rewrites: bool) -> NextMove {
        let doing = self.after(performed, Doing { mends: true, rewrites, ..Doing::default() });
        next(&self.plan, &self.items(), &self.running, &doing)
    }

    fn node(&mut self, name: &str) -> &mut RunningNode {
        self.running.nodes.get_mut(name).expect("a node")
    }

    fn step(&self, id: StepId, node: &str) -> usize {
        let is = |step: &crate::plan::PlannedStep| {
            step.id == id && (step.nodes.is_empty() || step.nodes.iter().any(|n| n == node))
        };
        self.plan.steps.iter().position(is).expect("a step")
    }
}

const FLAG: &[&str] = &["apiServer.extraArgs[event-ttl]=2h"];

#[test]
fn a_change_is_followed_from_beginning_to_end() {
    let mut case = Case::of(2, 0, FLAG);
    assert_eq!(case.state(StepId::G1, "").0, ItemState::Pending);
    assert_eq!(case.next(&[]), NextMove::Do(case.step(StepId::G1, "")));
    case.store();
    assert_eq!(case.state(StepId::G1, "").0, ItemState::Done);
    let first = case.step(StepId::M1, "cp-0");
    assert_eq!(case.next(&[]), NextMove::Do(first));
    assert_eq!(
        case.next(&[first]),
        NextMove::Wait("kube-apiserver on cp-0: it runs without + --event-ttl=2h".to_owned()),
        "the mirror pod is still the old one"
    );
    case.carry_out("cp-0");
    assert_eq!(case.state(StepId::M1, "cp-0").0, ItemState::Done);
    assert_eq!(case.state(StepId::M1, "cp-1").0, ItemState::Pending, "half of it is done");
    assert_eq!(
        case.next(&[]),
        NextMove::Do(case.step(StepId::M1, "cp-1")),
        "after an interruption it goes on here"
    );
    case.carry_out("cp-1");
    assert_eq!(case.state(StepId::X, "").0, ItemState::Done);
    assert_eq!(case.next(&[]), NextMove::Finished);
}

/// Steps were remembered by their places, and a node was taken for another one when the leaders had moved.
#[test]
fn what_was_carried_out_is_known_by_its_node_when_the_order_turns() {
    let mut case = Case::of(2, 0, FLAG);
    case.store();
    let [first, second] = ["cp-0", "cp-1"].map(|node| case.step(StepId::M1, node));
    let doing = case.after(&[first], Doing { by_people: true, ..Doing::default() });
    case.plan.steps.swap(first, second);
    let next_of = |case: &Case| next(&case.plan, &case.items(), &case.running, &doing);
    let waits = NextMove::Wait("kube-apiserver on cp-0: it runs without + --event-ttl=2h".to_owned());
    assert_eq!(next_of(&case), waits, "one at a time");
    case.carry_out("cp-0");
    assert_eq!(next_of(&case), NextMove::Do(case.step(StepId::M1, "cp-1")));
}

#[test]
fn one_at_a_time_behind_ready_neighbours() {
    let mut case = Case::of(2, 0, FLAG);
    case.store();
    case.running.nodes.get_mut("cp-1").expect("a node").pods.insert(API_SERVER, PodState::default());
    let why = "kube-apiserver on cp-1 is not Ready: one at a time".to_owned();
    assert_eq!(case.next(&[]), NextMove::Wait(why));
    case.running
        .nodes
        .get_mut("cp-1")
        .expect("a node")
        .pods
        .insert(API_SERVER, PodState { ready: true, trouble: None });
    case.running.is_endpoint_ready = Some(false);
    assert!(matches!(case.next(&[]), NextMove::Wait(_)));
}

#[test]
fn what_failed_or_is_not_seen_stops_what_is_new_and_holds_up_what_was_done() {
    let mut case = Case::of(1, 0, FLAG);
    case.store();
    let step = case.step(StepId::M1, "cp-0");
    case.running.nodes.get_mut("cp-0").expect("a node").ready = false;
    let why = "the Node is not Ready: what its mirror pods say may be old".to_owned();
    assert_eq!(case.state(StepId::M1, "cp-0"), (ItemState::Unknown, why));
    assert!(matches!(case.next(&[]), NextMove::Wait(_)) && matches!(case.next(&[step]), NextMove::Wait(_)));
    let node = case.running.nodes.get_mut("cp-0").expect("a node");
    node.ready = true;
    node.pods.insert(API_SERVER, PodState { ready: false, trouble: Some("CrashLoopBackOff".to_owned()) });
    case.carry_out("cp-0");
    assert_eq!(case.state(StepId::M1, "cp-0"), (ItemState::Failed, "CrashLoopBackOff".to_owned()));
    assert!(matches!(case.next(&[]), NextMove::Stop(_)) && matches!(case.next(&[step]), NextMove::Wait(_)));
}

#[test]
fn what_crashes_without_the_wanted_arguments_is_mended() {
    let mut case = Case::of(2, 0, &["scheduler.extraArgs[kube-api-qps]=60"]);
    case.store();
    case.node("cp-0")
        .pods
        .insert(SCHEDULER, PodState { ready: false, trouble: Some("CrashLoopBackOff".to_owned()) });
    let words = "it does not run (CrashLoopBackOff), and lacks + --kube-api-qps=60".to_owned();
    assert_eq!(case.state(StepId::M1, "cp-0"), (ItemState::Pending, words));
    let first = case.step(StepId::M1, "cp-0");
    assert_eq!(case.next(&[]), NextMove::Do(first));
    assert!(matches!(case.next(&[first]), NextMove::Wait(_)), "once");
}

#[test]
fn evidence_of_the_past_does_not_count() {
    let mut case = Case::of(3, 0, FLAG);
    case.store();
    ["cp-0", "cp-1", "cp-2"].iter().for_each(|node| case.carry_out(node));
    assert_eq!(case.next(&[]), NextMove::Finished);
    // Its mirror pods are right, its Node is Ready, and nothing answers there.
    case.node("cp-2").api_server = Sighting::Unknown("connection refused".to_owned());
    let (state, words) = case.state(StepId::M1, "cp-2");
    assert_eq!(state, ItemState::Unknown);
    assert!(words.starts_with("its own API server does not answer"), "{words}");
    assert_ne!(case.state(StepId::X, "").0, ItemState::Done);
    assert!(matches!(case.next(&[]), NextMove::Wait(_)), "nobody may say that it is complete");
    case.node("cp-2").api_server = Sighting::NotAsked;
    assert_eq!(case.state(StepId::M1, "cp-2").0, ItemState::Unknown);
}

#[test]
fn a_kubelet_has_to_report_after_the_step() {
    let mut case = Case::of(1, 0, FLAG);
    case.store();
    case.carry_out("cp-0");
    case.node("cp-0").heartbeat = Some("2026-01-01T00:00:00.000001Z".to_owned());
    let at = |time: &str| BTreeMap::from([("cp-0".to_owned(), time.to_owned())]);
    case.running.before.heartbeats = at("2026-01-01T00:00:00.000001Z");
    assert_eq!(case.state(StepId::M1, "cp-0").0, ItemState::Unknown, "it is the one from before");
    case.running.before.heartbeats = at("2025-12-31T23:59:50.000001Z");
    assert_eq!(case.state(StepId::M1, "cp-0").0, ItemState::Done);
    // Who may not ask the API server itself sees it by a new heartbeat.
    case.node("cp-0").api_server = Sighting::Hidden("403".to_owned());
    assert_eq!(case.state(StepId::M1, "cp-0").0, ItemState::Done);
    case.running.before.heartbeats.clear();
    assert_eq!(case.state(StepId::M1, "cp-0").0, ItemState::Unknown);
}

#[test]
fn a_rollback_mends_the_broken_node_first() {
    let mut case = Case::of(3, 0, FLAG);
    case.store();
    let (kept, broken) = (case.step(StepId::B1, "cp-0"), case.step(StepId::M1, "cp-2"));
    case.node("cp-2").api_server = Sighting::Unknown("connection refused".to_owned());
    assert!(
        matches!(case.next(&[]), NextMove::Wait(why) if why.contains("cp-2 is not Ready")),
        "a change waits for it"
    );
    assert_eq!(case.next_of_rollback(&[kept], false), NextMove::Do(broken));
    case.node("cp-2").ready = false;
    assert_eq!(case.next_of_rollback(&[kept], false), NextMove::Do(broken));
    assert!(matches!(case.next_of_rollback(&[kept, broken], false), NextMove::Wait(_)), "once");
}

#[test]
fn what_was_half_done_is_written_once_more() {
    let mut case = Case::of(2, 0, FLAG);
    case.store();
    case.carry_out("cp-0");
    case.carry_out("cp-1");
    let (first, second) = (case.step(StepId::M1, "cp-0"), case.step(StepId::M1, "cp-1"));
    assert_eq!(
        case.next_of_rollback(&[], false),
        NextMove::Do(case.step(StepId::B1, "cp-0")),
        "the snapshot"
    );
    let kept = case.step(StepId::B1, "cp-0");
    assert_eq!(case.next_of_rollback(&[kept], false), NextMove::Finished);
    assert_eq!(case.next_of_rollback(&[kept], true), NextMove::Do(first), "the file may be another one");
    assert_eq!(case.next_of_rollback(&[kept, first], true), NextMove::Do(second));
    assert_eq!(case.next_of_rollback(&[kept, first, second], true), NextMove::Finished);
}

#[test]
fn it_is_not_complete_while_a_neighbour_of_what_restarted_is_down() {
    let mut case = Case::of(1, 0, FLAG);
    case.store();
    case.carry_out("cp-0");
    case.node("cp-0")
        .pods
        .insert(SCHEDULER, PodState { ready: false, trouble: Some("CrashLoopBackOff".to_owned()) });
    let words = "kube-scheduler on cp-0: CrashLoopBackOff".to_owned();
    assert_eq!(case.state(StepId::X, ""), (ItemState::InProgress, words));
    assert!(matches!(case.next(&[]), NextMove::Wait(_)));
    case.running.before.troubles = case.running.troubles();
    assert_eq!(case.state(StepId::X, "").0, ItemState::Done, "it was so before");
}

#[test]
fn somebody_elses_document_is_a_failure() {
    let mut case = Case::of(1, 0, FLAG);
    let document = case.inputs.documents.iter_mut().find(|d| d.kind == DocumentKind::Cluster).expect("there");
    document.value["clusterName"] = json!("other");
    assert_eq!(case.state(StepId::G1, "").0, ItemState::Failed);
    assert!(matches!(case.next(&[]), NextMove::Stop(why) if why.contains("somebody changed it")));
}

#[test]
fn names_of_certificates_are_those_that_are_served() {
    let mut case = Case::of(1, 0, &["apiServer.certSANs=[cp.example,new.example]"]);
    assert_eq!(case.state(StepId::C1, "cp-0").0, ItemState::Manual, "nobody looked");
    let mut serve = |seen: Sighting<BTreeSet<String>>| {
        case.running.nodes.get_mut("cp-0").expect("a node").served.insert("apiserver", seen);
        case.state(StepId::C1, "cp-0")
    };
    let names = |names: &[&str]| Sighting::Known(names.iter().map(|name| (*name).to_owned()).collect());
    let (state, words) = serve(names(&["cp.example"]));
    assert_eq!(
        (state, words.as_str()),
        (ItemState::Pending, "the certificate that is served does not name new.example")
    );
    assert_eq!(serve(names(&["cp.example", "new.example"])).0, ItemState::Done);
    assert_eq!(serve(Sighting::Unknown("refused".to_owned())).0, ItemState::InProgress, "it restarts");
    assert_eq!(serve(Sighting::Hidden("403".to_owned())).0, ItemState::Manual);
}

#[test]
fn a_certificate_is_issued_as_stored_when_it_is_served_with_just_the_names_that_are_stored() {
    let mut case = Case::of(1, 0, &[]);
    let certificates = ServedOtherwise { api_server: true, etcd: false };
    let as_stored = Some(AsStored { certificates, ..AsStored::default() });
    let options = PlanOptions { as_stored, acknowledged: Acknowledged::Everything, ..PlanOptions::default() };
    case.plan = plan(&case.inputs, &mut case.target, &options).expect("a plan");
    let settings = ClusterSettings::new(&case.target.documents[0].new, None).expect("a version");
    let host = case.running.control_plane[0].host.clone();
    let stored = render::certificate_names(&settings, &host).expect("names")["apiserver"].clone();
    let mut serve = |names: Vec<String>| {
        case.node("cp-0").served.insert("apiserver", Sighting::Known(names.into_iter().collect()));
        case.state(StepId::C1, "cp-0")
    };
    assert_eq!(serve(stored.clone()).0, ItemState::Done);
    let (state, words) = serve(stored[1..].to_vec());
    let missing = format!("the certificate that is served differs from what is stored: + name {}", stored[0]);
    assert_eq!((state, words), (ItemState::Pending, missing));
    let more = stored.into_iter().chain(["old.example".to_owned()]).collect();
    assert_eq!(serve(more).0, ItemState::Pending);
}

#[test]
fn a_joined_step_is_done_when_both_of_it_are() {
    let mut case = Case::of(1, 0, &["apiServer.certSANs=[new.example]", "apiServer.extraArgs[event-ttl]=2h"]);
    let served = |names: &[&str]| Sighting::Known(names.iter().map(|name| (*name).to_owned()).collect());
    case.node("cp-0").served.insert("apiserver", served(&["cp-0"]));
    assert_eq!(case.state(StepId::M1, "cp-0").0, ItemState::Pending);
    case.carry_out("cp-0");
    let (state, words) = case.state(StepId::M1, "cp-0");
    assert!(state == ItemState::Pending && words.contains("does not name new.example"), "{words}");
    case.node("cp-0").served.insert("apiserver", served(&["cp-0", "new.example"]));
    assert_eq!(case.state(StepId::M1, "cp-0").0, ItemState::Done);
    assert!(!case.items().iter().any(|item| item.step == StepId::C1), "it has no step of its own");
}

#[test]
fn a_certificate_for_peers_alone_is_not_seen() {
    let names = |names: &[&str]| Sighting::Known(names.iter().map(|name| (*name).to_owned()).collect());
    let peers = "etcd.local.peerCertSANs=[peer.example]";
    let mut case = Case::of(1, 0, &[peers]);
    case.node("cp-0").served.insert("etcd-server", names(&["cp-0"]));
    assert_eq!(case.state(StepId::C2, "cp-0").0, ItemState::Manual);
    let step = case.step(StepId::C2, "cp-0");
    case.store();
    let of_machine = |performed: &[usize]| {
        next(&case.plan, &case.items(), &case.running, &case.after(performed, Doing::default()))
    };
    let [before, with] = [(0..step).collect::<Vec<_>>(), (0..=step).collect()];
    assert_eq!((of_machine(&before), of_machine(&with)), (NextMove::Do(step), NextMove::Finished));

    let mut both = Case::of(1, 0, &[peers, "etcd.local.serverCertSANs=[server.example]"]);
    both.node("cp-0").served.insert("etcd-server", names(&["cp-0"]));
    assert_eq!(both.state(StepId::C2, "cp-0").0, ItemState::Pending);
    both.node("cp-0").served.insert("etcd-server", names(&["cp-0", "server.example"]));
    assert_eq!(both.state(StepId::C2, "cp-0").0, ItemState::Done, "one step issues both");
}

#[test]
fn kubelets_are_asked_for_what_they_have_in_effect() {
    let mut case = Case::of(1, 1, &["maxPods=60", "syncFrequency=90s"]);
    let mut has = |seen: Sighting<Value>| {
        case.running.nodes.get_mut("w-000").expect("a node").kubelet = seen;
        case.state(StepId::K1, "w-000")
    };
    let live = |pods: u32, frequency: &str| {
        Sighting::Known(json!({"maxPods": pods, "syncFrequency": frequency, "port": 10250}))
    };
    assert_eq!(has(live(110, "1m0s")).0, ItemState::Pending);
    assert_eq!(
        has(live(60, "1m0s")),
        (ItemState::Pending, "/configz still has the old syncFrequency".to_owned())
    );
    assert_eq!(has(live(60, "1m30s")).0, ItemState::Done, "by what it means");
    assert_eq!(has(Sighting::Hidden("403".to_owned())).0, ItemState::Manual);
}

#[test]
fn what_an_older_kubelet_ignores_is_not_waited_for() {
    let mut case = Case::of(1, 1, &["maxPods=60", "mergeDefaultEvictionSettings=true"]);
    let mut state = |minor: u64, live: Value| {
        let node = case.running.nodes.get_mut("w-000").expect("a node");
        node.kubelet_minor = Some(minor);
        node.kubelet = Sighting::Known(live);
        case.state(StepId::K1, "w-000").0
    };
    assert_eq!(state(33, json!({"maxPods": 60})), ItemState::Pending);
    assert_eq!(state(32, json!({"maxPods": 60})), ItemState::Done);
    assert_eq!(state(32, json!({"maxPods": 110})), ItemState::Pending);
}

/// A way back: kubeadm stores a duration that nobody set as `0s`, and the kubelet then has its own default. The zero of a
/// number that is a pointer in Go is a value, which the kubelet has to show.
#[test]
fn a_kubelet_is_done_with_its_own_default_where_zero_stands_for_it() {
    for (edit, field, default, zero) in [
        ("syncFrequency=0s", "syncFrequency", json!("1m0s"), json!("0s")),
        ("eventRecordQPS=0", "eventRecordQPS", json!(50), json!(0)),
    ] {
        let mut case = Case::of(1, 1, &[edit]);
        let mut has = |value: &Value| {
            let seen = Sighting::Known(json!({field: value, "port": 10250}));
            case.running.nodes.get_mut("w-000").expect("a node").kubelet = seen;
            case.state(StepId::K1, "w-000").0
        };
        let of_default = if zero == json!(0) { ItemState::Pending } else { ItemState::Done };
        assert_eq!(has(&default), of_default, "{edit}");
        assert_eq!(has(&zero), ItemState::Done, "{edit}");
    }
}

#[test]
fn add_ons_are_done_when_their_pods_are() {
    let mut case = Case::of(1, 0, &["mode=nftables"]);
    case.store();
    case.running.proxy_written_at = "2026-01-02T00:00:00Z".to_owned();
    let mut is = |restarted_at: &str, updated: u64| {
        case.running.kube_proxy = Some(AddonState {
            image: "registry.k8s.io/kube-proxy:v1.36.1".to_owned(),
            restarted_at: restarted_at.to_owned(),
            wanted: 3,
            updated,
            available: updated,
            is_observed: true,
        });
        case.state(StepId::P1, "").0
    };
    assert_eq!(is("2026-01-01T00:00:00Z", 3), ItemState::Pending);
    assert_eq!(is("2026-01-02T00:00:00Z", 2), ItemState::InProgress);
    assert_eq!(is("2026-01-02T00:00:00Z", 3), ItemState::Done);
    // `kubectl rollout restart` writes the time of the machine that it runs on.
    assert_eq!(is("2026-01-02T01:00:00+02:00", 3), ItemState::Pending);
    assert_eq!(is("2026-01-01T23:00:00-02:00", 3), ItemState::Done);
}
