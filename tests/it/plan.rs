//! `capstan plan`: what is said to come is what then comes; how much is asked of a server; the examples in
//! docs/plan.md; odd dumps.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use capi_forecast::forecast::{Forecast, ObjectPlan, State, StepAction, forecast};
use capi_forecast::simulate::{Scenario, simulate};
use capi_rules::observe::dump::Dump;
use capi_rules::observe::dump::document::Document;
use capi_rules::observe::dump::text::parse;
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capstan::cli::args::{Cli, Command};
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp, parse_rfc3339};
use capstan_commands::output::Style;
use capstan_commands::plan::PlanArgs;
use capstan_commands::plan::{from_files, from_server};
use capstan_dashboard::actions::{Action, Executor, Outlook, PlanChange, Request};
use capstan_dashboard::operations::guard::Guard;
use capstan_dashboard::operations::journal::Journal;
use capstan_engine::client::read::list_values;
use capstan_engine::client::{Connection, in_process};
use capstan_store::MemoryStore;
use capstan_worlds::samples::Sample;
use capstan_worlds::standalone::load;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use clap::Parser as _;
use kube::client::Body;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::simulation::{Sim, labels, manifest, settled};

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

fn args(line: &str) -> PlanArgs {
    let words = ["capstan", "plan"].into_iter().chain(line.split_whitespace());
    match Cli::try_parse_from(words).expect(line).command {
        Some(Command::Plan(args)) => args,
        _ => panic!("{line}"),
    }
}

async fn planned(connection: &Connection, line: &str, at: Timestamp) -> String {
    let answer = from_server(connection, &args(line), "default", at, Style::default()).await;
    answer.expect("a plan").document
}

fn dump(values: impl IntoIterator<Item = Value>) -> Dump {
    Dump::new(values.into_iter().map(Document::from).collect())
}

fn of_text(text: &str) -> Forecast {
    forecast(&dump(parse(text).expect("YAML").into_iter().map(|(_, value)| value)), now())
}

fn plan_of<'a>(forecast: &'a Forecast, id: &str) -> &'a ObjectPlan {
    forecast.objects.iter().find(|object| object.id() == id).expect(id)
}

/// Everything that plans look at, as a server has it.
async fn objects(sim: &Sim) -> Vec<Value> {
    const KINDS: [(&str, &str); 11] = [
        ("cluster.x-k8s.io", "Cluster"),
        ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane"),
        ("cluster.x-k8s.io", "MachineDeployment"),
        ("cluster.x-k8s.io", "MachineSet"),
        ("cluster.x-k8s.io", "Machine"),
        ("bootstrap.cluster.x-k8s.io", "KubeadmConfig"),
        ("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate"),
        ("infrastructure.cluster.x-k8s.io", "DevCluster"),
        ("infrastructure.cluster.x-k8s.io", "DevMachine"),
        ("infrastructure.cluster.x-k8s.io", "DevMachineTemplate"),
        ("cluster.x-k8s.io", "MachinePool"),
    ];
    let mut all = Vec::new();
    for (group, kind) in KINDS {
        let gvk = Gvk {
            group: group.to_owned(),
            version: "v1beta2".to_owned(),
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
            namespaced: true,
        };
        for mut value in list_values(&sim.connection.client, &gvk, "default", "").await.expect("a list") {
            value["apiVersion"] = gvk.api_version().into();
            value["kind"] = kind.into();
            all.push(value);
        }
    }
    all
}

async fn control_plane_machines(sim: &Sim) -> Vec<String> {
    let machines: Vec<Machine> = sim.list().await;
    let mine = machines.iter().filter(|m| labels(*m).any(|l| l == "cluster.x-k8s.io/control-plane"));
    mine.filter_map(|m| m.metadata.name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_rollout_goes_as_it_was_planned() {
    let sim = Sim::start(11).await;
    sim.create(manifest(3, 1)).await;
    sim.until("3 + 1 machines up", 300, async |s| settled(s, 3, 1, "v1.34.1").await).await;
    let mut values = objects(&sim).await;
    let settled_plan = forecast(&dump(values.clone()), now());
    assert!(
        settled_plan.objects.iter().all(|object| object.state == State::Settled),
        "a settled fleet has no plan: {settled_plan:#?}"
    );

    let plane = values.iter_mut().find(|v| v["kind"] == "KubeadmControlPlane").expect("a control plane");
    plane["spec"]["version"] = "v1.35.0".into();
    let forecast = forecast(&dump(values), now());
    let plan = plan_of(&forecast, "KubeadmControlPlane/harbor-cp");
    assert_eq!(plan.state, State::Acting);
    let steps: Vec<&StepAction> = plan.next.iter().chain(&plan.then).map(|step| &step.does).collect();
    let said: Vec<&str> = steps.iter().filter_map(|action| action.deleted_machine()).collect();
    let made = steps.iter().filter_map(|action| action.created_machine());
    let made = made.filter(|name| name.starts_with("harbor-cp-new")).count();
    assert_eq!((said.len(), made), (3, 3), "{steps:?}");

    let mut here = control_plane_machines(&sim).await;
    let first = here.clone();
    let mut went: Vec<String> = Vec::new();
    sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"version": "v1.35.0"}})).await;
    for _ in 0..1_500 {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let current = control_plane_machines(&sim).await;
        went.extend(here.iter().filter(|name| !current.contains(name)).cloned());
        here = current;
        if went.len() == 3 {
            break;
        }
    }
    assert!(went.iter().all(|name| first.contains(name)), "{went:?}");
    assert_eq!(went, said);
}

/// A server that counts what is listed of it.
async fn counting(machines: usize) -> (Connection, Arc<AtomicUsize>) {
    let options = StackOptions { engine: false, ..StackOptions::new(Clock::fixed(now()), Rng::seeded(7)) };
    let stack = Stack::start(Arc::new(MemoryStore::new()), options).await.expect("a server");
    let server = stack.server().clone();
    let sample = Sample::parse(&format!("synthetic:clusters=1,machines={machines}")).expect("a sample");
    load::import(&server, sample, now()).await.expect("imported");
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = lists.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let path = request.uri().path();
        let is_list = path.starts_with("/apis/") && path.split('/').count() > 4;
        let continues = request.uri().query().is_some_and(|query| query.contains("continue="));
        counted.fetch_add(usize::from(is_list && !continues), Ordering::Relaxed);
        server.clone().oneshot(request)
    });
    (in_process(service, "test", "default", false), lists)
}

#[tokio::test]
async fn lists_are_few_however_many_machines_there_are() {
    let mut counts = Vec::new();
    for machines in [20, 700] {
        let (connection, lists) = counting(machines).await;
        let answer = from_server(&connection, &args("-o json"), "", now(), Style::default()).await;
        let document: Value = serde_json::from_str(&answer.expect("a plan").document).expect("JSON");
        let planned = document["objects"].as_array().expect("objects").len();
        assert!(planned > machines, "{planned} objects of {machines} Machines");
        counts.push(lists.load(Ordering::Relaxed));
    }
    assert!(counts.iter().all(|count| *count <= 13), "{counts:?}");
    assert_eq!(counts[0], counts[1]);
}

async fn previewed(sim: &Sim, target: ObjectRef, action: Action) -> PlanChange {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = Journal::at(folder.path().join("journal.jsonl"));
    let executor =
        Executor::new(sim.connection.clone(), &Guard::new(journal, Clock::fixed(now()), "ada".to_owned()));
    match executor.preview(&Request::new(target, action)).await.expect("a preview").outlook {
        Outlook::Known(change) => change,
        other => panic!("{other:?}"),
    }
}

fn target<K: kube::Resource<DynamicType = ()>>(name: &str) -> ObjectRef {
    ObjectRef { gvk: Gvk::of::<K>(), key: ObjectKey::new("default", name), uid: String::new() }
}

#[tokio::test(start_paused = true)]
async fn a_preview_has_the_plan_before_and_after() {
    let sim = Sim::start(11).await;
    sim.create(manifest(3, 1)).await;
    sim.until("3 + 1 machines up", 300, async |s| settled(s, 3, 1, "v1.34.1").await).await;

    let scale =
        previewed(&sim, target::<MachineDeployment>("harbor-md-0"), Action::Scale { replicas: 3 }).await;
    assert_eq!(scale.before, "nothing to do");
    assert_eq!(scale.after.len(), 2, "{scale:?}");
    let [own, set] = [&scale.after[0], &scale.after[1]];
    assert!(own.starts_with("scale MachineSet harbor-md-0-") && own.ends_with(" 1 → 3"), "{own}");
    assert!(set.ends_with(": create 2 Machines"), "{set}");

    let version = Action::SetVersion { version: "v1.35.0".to_owned() };
    let upgrade = previewed(&sim, target::<KubeadmControlPlane>("harbor-cp"), version.clone()).await;
    assert_eq!(upgrade.before, "nothing to do");
    assert!(
        upgrade.after[0].starts_with("create 1 Machine, wait for it, delete Machine harbor-cp-")
            && upgrade.after[0].contains("; the same 2 more times, for harbor-cp-"),
        "{upgrade:?}"
    );
    assert!(upgrade.assumptions.iter().any(|a| a.starts_with("who leads etcd is not known")), "{upgrade:?}");

    let early = previewed(&sim, target::<MachineDeployment>("harbor-md-0"), version).await;
    let held = early.after.iter().find(|line| line.contains("blocked because")).expect("held");
    assert!(held.contains("KubeadmVersionSkew") || held.contains("KubernetesVersionSkew"), "{early:?}");

    let pause = previewed(&sim, target::<Cluster>("harbor"), Action::Pause).await;
    assert_eq!(pause.after, ["paused: Cluster harbor is paused"]);
}

#[tokio::test(start_paused = true)]
async fn a_preview_of_a_deletion_shows_who_replaces_the_machine() {
    let sim = Sim::start(11).await;
    sim.create(manifest(3, 1)).await;
    sim.until("3 + 1 machines up", 300, async |s| settled(s, 3, 1, "v1.34.1").await).await;
    let machines: Vec<Machine> = sim.list().await;
    let worker = machines.iter().filter_map(|m| m.metadata.name.as_deref()).find(|n| n.contains("md-0"));
    let worker = worker.expect("a worker");
    let deletion = previewed(&sim, target::<Machine>(worker), Action::Delete).await;
    assert_eq!(deletion.after[0], "waits: its Node is drained first, as far as Pods let it", "{deletion:?}");
    let [_, set] = deletion.after.as_slice() else { panic!("{deletion:?}") };
    assert!(set.starts_with("once it is gone, MachineSet") && set.ends_with(": create 1 Machine"), "{set}");
}

#[tokio::test(start_paused = true)]
async fn a_preview_of_a_remediation_shows_what_its_owner_does() {
    let sim = Sim::start(12).await;
    let mut objects = manifest(3, 1);
    let worker_check = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"clusterName": "harbor", "selector": {"matchLabels": {"cluster.x-k8s.io/cluster-name": "harbor"}},
            "checks": {"nodeStartupTimeoutSeconds": 600}}});
    objects.push(worker_check);
    sim.create(objects).await;
    sim.until("3 + 1 machines up", 300, async |s| settled(s, 3, 1, "v1.34.1").await).await;
    let machines: Vec<Machine> = sim.list().await;
    for machine in machines.iter().filter_map(|m| m.metadata.name.as_deref()) {
        let preview = previewed(&sim, target::<Machine>(machine), Action::Remediate).await;
        let owner =
            if machine.contains("md-0") { "MachineSet harbor-md-0" } else { "KubeadmControlPlane harbor-cp" };
        let found = preview.after.iter().find(|line| {
            line.starts_with(&format!("once its health check has marked it, {owner}"))
                && line.contains(&format!("delete Machine {machine}"))
        });
        assert!(found.is_some(), "{machine}: {preview:?}");
    }
}

/// The examples of docs/plan.md by name, as the program prints them now.
async fn examples() -> Vec<(&'static str, String)> {
    let mut sim = Sim::start(5).await;
    sim.machines_max = (4, 6);
    sim.create(manifest(3, 2)).await;
    sim.until("3 + 2 machines up", 300, async |s| settled(s, 3, 2, "v1.34.1").await).await;
    sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"version": "v1.35.0"}})).await;
    sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"replicas": 4}})).await;
    sim.until("a new Machine", 60, async |s| control_plane_machines(s).await.len() == 4).await;
    let at = capstan_base::time::parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
        + chrono::TimeDelta::seconds(i64::try_from(sim.elapsed_s()).expect("small"));
    let rolling = planned(&sim.connection, "kcp/harbor-cp", at).await;
    let blocked = planned(&sim.connection, "md/harbor-md-0", at).await;
    let document = planned(&sim.connection, "md/harbor-md-0 -o json", at).await;
    sim.patch::<Cluster>("harbor", json!({"spec": {"paused": true}})).await;
    let paused = planned(&sim.connection, "", at).await;
    vec![("rolling", rolling), ("blocked", blocked), ("json", document), ("paused", paused)]
}

#[tokio::test(start_paused = true)]
async fn the_examples_are_what_the_program_prints() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/plan.md");
    let kept = std::fs::read_to_string(&path).expect("docs/plan.md");
    let mut text = kept.clone();
    for (name, printed) in examples().await {
        let mark = format!("<!-- example: {name} -->\n```\n");
        let from =
            text.find(&mark).unwrap_or_else(|| panic!("docs/plan.md has no example {name}")) + mark.len();
        let to = from + text[from..].find("```\n").expect("an end");
        text.replace_range(from..to, &printed);
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).expect("docs can be written");
    } else {
        assert!(kept == text, "docs/plan.md is out of date (UPDATE_GOLDEN=1 writes it anew); now:\n{text}");
    }
}

const ORPHANS: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: lost, namespace: a}
spec: {clusterName: gone, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: x.io, kind: XMachine, name: m}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {name: lost, namespace: a}
spec:
  clusterName: gone
  replicas: 2
  selector: {matchLabels: {a: b}}
  template: {spec: {clusterName: gone, bootstrap: {}, infrastructureRef: {apiGroup: x.io, kind: XMachineTemplate, name: t}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: lost, namespace: a}
spec:
  version: v1.34.1
  machineTemplate: {spec: {infrastructureRef: {apiGroup: x.io, kind: XMachineTemplate, name: t}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: OddControlPlane
metadata: {name: odd, namespace: a}
---
apiVersion: example.io/v1
kind: Surprise
metadata: {name: x}
";

#[test]
fn objects_without_their_cluster_say_so_and_hold_up_nothing() {
    let found = of_text(&format!("{ORPHANS}---\n{HELD}"));
    for id in ["Machine/lost", "MachineSet/lost", "KubeadmControlPlane/lost"] {
        let plan = plan_of(&found, id);
        assert_eq!((plan.state, plan.blockers.len(), plan.next.len()), (State::Unknown, 1, 0), "{id}");
    }
    assert_eq!(plan_of(&found, "Machine/lost").blockers[0].sentence, "Cluster gone is not among the objects");
    assert_eq!(
        plan_of(&found, "KubeadmControlPlane/lost").blockers[0].sentence,
        "it does not say which Cluster it belongs to"
    );
    assert_eq!(found.remarks, ["1 OddControlPlane object is not planned: there are no rules for the kind"]);
    assert_eq!(plan_of(&found, "MachineSet/short").state, State::Acting, "the others are planned");
}

/// A set that wants one Machine more, in a dump without templates and control plane.
const HELD: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c, namespace: b, uid: c, finalizers: [cluster.cluster.x-k8s.io]}
spec:
  controlPlaneEndpoint: {host: h, port: 6443}
  controlPlaneRef: {apiGroup: x.io, kind: XPlane, name: p}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {name: short, namespace: b, uid: s}
spec:
  clusterName: c
  replicas: 1
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: x.io, kind: XMachineTemplate, name: t}}}
";

#[test]
fn what_was_left_out_is_assumed_and_said() {
    let found = of_text(HELD);
    let plan = plan_of(&found, "MachineSet/short");
    let actions: Vec<String> = plan.next.iter().map(|step| step.does.to_string()).collect();
    assert_eq!(actions, ["create Machine short-new1"]);
    assert_eq!(plan.next[0].rule, "too-few-machines");
    assert_eq!(
        plan.assumptions,
        [
            "the control plane was not read: it lets new Machines join",
            "names of new Machines are drawn when they are made: new1 stands for the first of them",
            "XMachineTemplate t was not read: it is there",
        ]
    );
}

/// "Settled" was said of a Cluster that nobody here makes anything of.
#[test]
fn a_topology_is_said_not_to_be_computed() {
    let text = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: classy, namespace: default}\n\
                spec: {topology: {classRef: {name: vsphere}, version: v1.35.2}}\n";
    let found = of_text(text);
    let plan = plan_of(&found, "Cluster/classy");
    let said =
        "its topology is not computed here: Cluster API's topology controller makes what its class asks for";
    assert_eq!((plan.state, plan.brief()), (State::Waiting, format!("waits: {said}")));
    let remark =
        "the topology of 1 Cluster is not computed here: what belongs to it is taken as it is".to_owned();
    assert!(found.remarks.contains(&remark), "{:?}", found.remarks);
    let values = parse(text).expect("YAML").into_iter().map(|(_, value)| value);
    let simulation = simulate(&dump(values), None, &Scenario::default(), now());
    assert!(simulation.remarks.contains(&remark), "{:?}", simulation.remarks);
}

/// Its provider kinds were left out, and nothing but `initialization` says that they were ready.
#[test]
fn a_machine_in_deletion_is_not_blocked_by_what_was_left_out() {
    let reference = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "m"});
    let found = forecast(
        &dump([
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c", "namespace": "n"}, "spec": {}}),
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": "m", "namespace": "n", "finalizers": ["machine.cluster.x-k8s.io"],
                    "deletionTimestamp": "2026-11-20T05:00:00Z",
                    "annotations": {"pre-terminate.delete.hook.machine.cluster.x-k8s.io/k0s-etcd-leave": ""}},
                "spec": {"clusterName": "c", "providerID": "x:///m", "infrastructureRef": reference("i.io", "AWSMachine"),
                    "bootstrap": {"configRef": reference("b.io", "K0sControllerConfig"), "dataSecretName": "s"}},
                "status": {"initialization": {"infrastructureProvisioned": true, "bootstrapDataSecretCreated": true},
                    "conditions": [{"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook",
                        "message": "Waiting for pre-terminate hooks to succeed (hooks: k0s-etcd-leave)",
                        "lastTransitionTime": "2026-11-20T05:00:00Z"}]}}),
        ]),
        now(),
    );
    let plan = plan_of(&found, "Machine/m");
    let held: Vec<&str> = plan.blockers.iter().map(|held| held.sentence.as_str()).collect();
    assert!(held.iter().all(|sentence| !sentence.contains("among the objects")), "{held:?}");
    for kind in ["AWSMachine", "K0sControllerConfig"] {
        let said = format!("{kind} m was not read: it is as the Machine says");
        assert!(plan.assumptions.contains(&said), "{:?}", plan.assumptions);
    }
}

#[test]
fn what_was_only_half_read_is_not_planned_as_if_it_were_gone() {
    let text =
        HELD.replace("replicas: 1\n", "replicas: 2\n").replace("uid: s}", "uid: s}\nstatus: {replicas: 2}");
    let found = of_text(&text);
    let plan = plan_of(&found, "MachineSet/short");
    assert_eq!((plan.state, plan.next.len()), (State::Unknown, 0));
    assert_eq!(plan.brief(), "not planned: its status reports 2 replicas, and Machine objects were not read");

    let machine = ORPHANS.split("---").next().expect("a Machine");
    let found = of_text(&format!("{text}---{machine}"));
    let plan = plan_of(&found, "MachineSet/short");
    assert_eq!(plan.next.len(), 2, "{plan:?}");
    let said = "its status reports 2 replicas, 0 Machine objects are here: the others are gone";
    assert!(plan.assumptions.iter().any(|assumption| assumption == said), "{plan:?}");
}

#[test]
fn a_control_plane_that_was_only_just_applied_waits_for_its_cluster() {
    let cluster =
        HELD.replace("kind: XPlane", "kind: KubeadmControlPlane").replace("name: p}", "name: lost}");
    let plane = ORPHANS.split("---").nth(2).expect("a control plane").replace("namespace: a", "namespace: b");
    let found = of_text(&format!("{cluster}---{plane}"));
    let plan = plan_of(&found, "KubeadmControlPlane/lost");
    assert_eq!((plan.state, plan.cluster.as_str()), (State::Waiting, "c"));
    assert_eq!(plan.brief(), "waits: Cluster c has not made itself its owner yet");
}

#[test]
fn owners_and_annotations_alone_are_no_acting() {
    let found = of_text(&HELD.replace("replicas: 1", "replicas: 0").replace("finalizers", "x"));
    let plan = plan_of(&found, "Cluster/c");
    assert_eq!(plan.next.iter().map(|step| step.is_bookkeeping).collect::<Vec<_>>(), [true]);
    assert_eq!(plan.next[0].does.to_string(), "update Cluster c (metadata.finalizers)");
    assert_eq!((plan.state, plan.brief().as_str()), (State::Settled, "nothing to do"));
}

#[test]
fn hostile_text_of_a_cluster_does_not_reach_the_screen() {
    let hostile = "kind: \"X\\e[2J\\u202eMachineTemplate\"";
    let text = HELD.replace("kind: XMachineTemplate", hostile);
    let other = format!("apiVersion: x.io/v1\n{hostile}\nmetadata: {{name: other, namespace: b}}\n");
    let clean = of_text(&format!("{text}---\n{other}")).sanitized();
    let blocker = &plan_of(&clean, "MachineSet/short").blockers[0];
    let is_hostile = |c: char| c.is_control() || c == '\u{202e}';
    assert!(blocker.sentence.contains("MachineTemplate does not exist"), "{blocker:?}");
    assert!(!blocker.sentence.contains(is_hostile) && !blocker.evidence[0].value.contains(is_hostile));
}

#[test]
fn a_template_that_is_really_gone_blocks() {
    let other = "apiVersion: x.io/v1\nkind: XMachineTemplate\nmetadata: {name: other, namespace: b}\n";
    let found = of_text(&format!("{HELD}---\n{other}"));
    let plan = plan_of(&found, "MachineSet/short");
    assert_eq!((plan.state, plan.blockers[0].rule.as_str()), (State::Blocked, "templates-missing"));
    assert_eq!(plan.blockers[0].evidence[0].field.as_deref(), Some("spec.template.spec.infrastructureRef"));
}

#[test]
fn a_pause_is_said_of_every_object_and_nothing_is_planned() {
    let found = of_text(
        &HELD.replace("spec:\n  controlPlaneEndpoint", "spec:\n  paused: true\n  controlPlaneEndpoint"),
    );
    for object in &found.objects {
        assert_eq!((object.state, object.next.len()), (State::Paused, 0), "{}", object.id());
        assert_eq!(object.blockers[0].evidence[0].value, "true");
    }
}

#[test]
fn a_file_without_plans_and_an_unknown_name_are_errors_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.yaml");
    let run = |text: &str, line: &str| {
        std::fs::write(&path, text).expect("written");
        let args = args(&format!("{line} -f {}", path.display()));
        from_files(&args, None, now(), Style::default()).map_err(|error| format!("{error:#}"))
    };
    let nothing = run("kind: Pod\nmetadata: {name: p}\n", "").expect_err("nothing");
    assert!(nothing.starts_with("there is nothing to plan"), "{nothing}");
    let unknown = run(HELD, "ms/other").expect_err("unknown");
    assert!(unknown.starts_with("there is no MachineSet other"), "{unknown}");
    let kind = run(HELD, "kubeadmconfig/x").expect_err("no plan");
    assert!(kind.starts_with("KubeadmConfig has no plan"), "{kind}");
    let one = run(HELD, "ms/short").expect("planned").document;
    assert!(one.contains("MachineSet b/short") && !one.contains("Cluster b/c"), "{one}");
}
