//! The screen of a kubeadm configuration: what is stored with a verdict for each attribute, edits that are judged while
//! they are typed, the plan, how far a change is, what is asked before it is carried out, and when it is read.

use std::collections::BTreeMap;

use capi_types::key::ObjectKey;
use capstan_dashboard::actions::{Order, Outlook, Proposal};
use capstan_dashboard::operations::{
    ChangeOrder, ChangePreview, ConfigurationReading, Confirmation, Finding, Severity, Underway,
};
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::Model;
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::script::text;
use capstan_dashboard::tui::subject::{PlannedCluster, Subject, SubjectKind};
use capstan_dashboard::tui::update::update;
use kubeadm_change::change_id::ChangeId;
use kubeadm_change::document::{Inputs, read_inputs};
use kubeadm_change::gate::{Doing, next};
use kubeadm_change::plan::{Acknowledged, PlanOptions, plan};
use kubeadm_change::progress::{Situation, progress};
use kubeadm_change::record::{ChangeRecord, RecordState};
use kubeadm_change::render::{ClusterSettings, HostFacts, node};
use kubeadm_change::request::{PatchKind, RequestPart, apply};
use kubeadm_change::running::{Running, Sighting};
use serde_json::{Value, json};

use crate::golden;
use crate::harbor_screen::{begin, keys, line, model, read_only};

const STORED: &str = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.1\nclusterName: harbor\ncontrolPlaneEndpoint: cp.example:6443\nnetworking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12, dnsDomain: cluster.local}\napiServer: {certSANs: [cp.example]}\n---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nclusterDomain: \"cluster\\u001b[2J.local\"\nmaxPods: 110\n---\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclusterCIDR: 10.244.0.0/16\nmode: iptables\n";

fn inputs() -> Inputs {
    let mut inputs = read_inputs(&[("stored".to_owned(), STORED.to_owned())]).expect("documents");
    let configuration = inputs.documents[0].value.clone();
    inputs.objects = objects(&configuration, &configuration);
    inputs
}

const READY: &str = r#"[{"type": "Ready", "status": "True"}]"#;

/// Nodes, and the static pods that kubeadm wrote: by `first` on the first of them.
fn objects(others: &Value, first: &Value) -> Vec<Value> {
    let ready: Value = serde_json::from_str(READY).expect("conditions");
    let node_of =
        |name: &str| json!({"kind": "Node", "metadata": {"name": name}, "status": {"conditions": ready}});
    let mut objects = Vec::new();
    for (index, suffix) in ["8gtlh", "lkcfv", "85qjm"].into_iter().enumerate() {
        let host = HostFacts::new(&format!("harbor-cp-{suffix}"), &format!("10.0.0.{}", index + 1));
        let configuration = if index == 0 { first } else { others };
        let settings = ClusterSettings::new(configuration, None).expect("a version");
        objects.push(node_of(&host.name));
        for (component, pod) in node(&settings, &host).expect("an address").static_pods {
            let volumes: Vec<Value> = pod
                .volumes
                .iter()
                .map(|v| json!({"name": v.name, "hostPath": {"path": v.host_path, "type": v.type_}}))
                .collect();
            objects.push(json!({"kind": "Pod", "status": {"conditions": ready}, "metadata": {"namespace": "kube-system",
                "name": format!("{component}-{}", host.name), "labels": {"component": component},
                "annotations": {"kubernetes.io/config.mirror": "x",
                    "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint": format!("{}:6443", host.address)}},
                "spec": {"nodeName": host.name, "volumes": volumes, "containers": [{"command": pod.command,
                    "image": pod.image, "env": pod.env, "volumeMounts": pod.volume_mounts}]}}));
        }
    }
    objects.push(node_of("harbor-md-x7k2p"));
    objects
}

fn asked(effects: &[Effect]) -> Option<(PlannedCluster, u64)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Read { subject: Subject::Configuration(cluster), wait_ms, .. } => {
            Some((cluster.clone(), *wait_ms))
        }
        _ => None,
    })
}

fn answer(
    model: &mut Model,
    cluster: PlannedCluster,
    read: Result<ConfigurationReading, String>,
) -> Vec<Effect> {
    let (subject, reading) = (Subject::Configuration(cluster), Reading::Configuration(read.map(Box::new)));
    update(model, Msg::Done(EffectOutcome::Read { subject, reading }))
}

fn settled() -> ConfigurationReading {
    ConfigurationReading { inputs: inputs(), ..ConfigurationReading::default() }
}

fn opened(mut model: Model) -> (Model, PlannedCluster) {
    let (cluster, wait_ms) = asked(&keys(&mut model, "C")).expect("a reading");
    assert_eq!((&cluster.key, wait_ms), (&ObjectKey::new("prod", "harbor"), 0));
    answer(&mut model, cluster.clone(), Ok(settled()));
    (model, cluster)
}

fn open(width: u16, height: u16) -> (Model, PlannedCluster) {
    opened(model(width, height))
}

const EDITS: [&str; 2] = ["maxPods=60", "apiServer.extraArgs[event-ttl]=2h"];

/// A change of [`EDITS`] whose ConfigMaps are written, and whose first node is done.
fn underway() -> ConfigurationReading {
    let stored = inputs();
    let edits: Vec<RequestPart> = EDITS.iter().map(|edit| RequestPart::Set((*edit).to_owned())).collect();
    let mut target = apply(&stored, &edits, PatchKind::Strategic).expect("a request");
    let options = PlanOptions {
        acknowledged: Acknowledged::Everything,
        id: ChangeId::try_from("0a1b2c3d4e5f".to_owned()).ok(),
        ..PlanOptions::default()
    };
    let mut inputs = stored.clone();
    for document in &mut inputs.documents {
        let wanted = target.document(document.kind).expect("all are wanted");
        document.value = wanted.new.clone();
    }
    inputs.objects = objects(&stored.documents[0].value, &inputs.documents[0].value);
    let plan = plan(&inputs, &mut target, &options).expect("a plan");
    let mut running = Running::of(&inputs.objects);
    running.nodes.values_mut().for_each(|node| node.api_server = Sighting::Known(()));
    let situation = Situation { plan: &plan, target: &target, inputs: &inputs, running: &running };
    let items = progress(&situation).expect("progress");
    let next = next(&plan, &items, &running, &Doing { by_people: true, ..Doing::default() });
    let record = ChangeRecord {
        id: plan.id.clone(),
        state: RecordState::Open,
        by: "ann".to_owned(),
        begun: "2026-11-20T11:58:00Z".to_owned(),
        completed: None,
        takes_back: None,
        as_stored: None,
        patches: None,
        changes: Vec::new(),
        evidence: Vec::new(),
        history: Vec::new(),
        before: BTreeMap::new(),
        after: BTreeMap::new(),
        resource_version: String::new(),
    };
    let underway = Some(Underway { plan, items, next });
    ConfigurationReading { inputs, record: Some(record), underway, gaps: Vec::new() }
}

fn pages(model: &mut Model, name: &str, size: &str, from: &[&str]) {
    for page in from {
        let screen = text(model);
        assert!(!screen.contains('\u{1b}'), "{screen}");
        golden::screen(&format!("change-{name}{page}-{size}"), &screen);
        keys(model, "tab");
    }
}

#[test]
fn attributes_edits_difference_plan_and_nodes() {
    for (width, height) in [(80, 24), (120, 40)] {
        let size = format!("{width}x{height}");
        let (mut model, _) = open(width, height);
        golden::screen(&format!("change-{size}"), &text(&mut model));
        for edit in EDITS {
            line(&mut model, &format!("set {edit}"));
        }
        assert!(text(&mut model).contains("2 edits staged: needs acknowledgement"));
        pages(&mut model, "staged", &size, &["", "-diff", "-plan", "-nodes"]);
    }
}

#[test]
fn a_change_that_was_begun_is_shown_as_the_cluster_shows_it() {
    for (width, height) in [(80, 24), (120, 40)] {
        let (mut model, cluster) = open(width, height);
        let effects = answer(&mut model, cluster, Ok(underway()));
        assert_eq!(asked(&effects).map(|(_, wait_ms)| wait_ms), Some(2_000), "it is followed closely");
        let screen = text(&mut model);
        assert!(screen.contains("your turn on harbor-cp-"), "{screen}");
        keys(&mut model, "tab tab");
        pages(&mut model, "underway", &format!("{width}x{height}"), &["-plan", "-nodes"]);
        line(&mut model, "set maxPods=70");
        keys(&mut model, "a");
        assert!(text(&mut model).contains("change 0a1b2c3d4e5f is not over"), "{}", text(&mut model));
    }
}

#[test]
fn lines_of_the_tree_are_closed_and_opened() {
    let (mut model, _) = open(80, 24);
    assert!(text(&mut model).contains("podSubnet"));
    keys(&mut model, "h");
    let closed = text(&mut model);
    assert!(!closed.contains("podSubnet") && closed.contains("maxPods"), "{closed}");
    line(&mut model, "set networking.podSubnet=10.9.0.0/16");
    assert!(text(&mut model).contains("1 change below"), "{}", text(&mut model));
    keys(&mut model, "l");
    assert!(text(&mut model).contains("10.244.0.0/16 -> 10.9.0.0/16"), "{}", text(&mut model));
}

#[test]
fn an_edit_is_judged_while_it_is_typed_and_a_wrong_one_is_not_staged() {
    let (mut model, _) = open(120, 40);
    begin(&mut model, "set networking.serviceSubnet=10.9.0.0/16");
    assert!(text(&mut model).contains("blocked"), "{}", text(&mut model));
    keys(&mut model, "esc");
    assert!(text(&mut model).contains("nothing is staged"), "{}", text(&mut model));
    line(&mut model, "set noSuchField=1");
    assert!(text(&mut model).contains("noSuchField"), "it is refused in words: {}", text(&mut model));
    assert!(text(&mut model).contains("nothing is staged"));
    line(&mut model, "set maxPods=60");
    line(&mut model, "unset maxPods");
    assert!(text(&mut model).contains("nothing is staged"));
    keys(&mut model, "G s");
    assert!(text(&mut model).contains("set mode="), "it begins with what is under the cursor");
}

fn previewed(effects: &[Effect]) -> Option<(u64, ObjectKey, ChangeOrder)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Preview { ticket, order: Order::Change { cluster, order }, .. } => {
            Some((*ticket, cluster.clone(), order.clone()))
        }
        _ => None,
    })
}

fn carried_out(effects: &[Effect]) -> Option<Box<ChangePreview>> {
    effects.iter().find_map(|effect| match effect {
        Effect::Perform { proposal: Proposal::Change { preview, .. }, .. } => Some(preview.clone()),
        _ => None,
    })
}

fn proposed(cluster: ObjectKey, preview: ChangePreview) -> Result<Proposal, String> {
    Ok(Proposal::Change { cluster, preview: Box::new(preview), outlook: Outlook::NotPlanned })
}

fn preview(order: ChangeOrder, severity: Severity) -> ChangePreview {
    let finding = |severity, rule, text: &str| Finding { severity, rule, text: text.to_owned() };
    ChangePreview {
        order,
        plan_id: "0a1b2c3d4e5f".to_owned(),
        summary: "Changes 2 fields of the stored configuration, and begins what follows.".to_owned(),
        findings: vec![
            finding(severity, "advise", "maxPods: pods beyond the new number are not started again\u{1b}[2J"),
            finding(Severity::Note, "disruption", "3 restarts of kube-apiserver, one at a time"),
        ],
        steps: vec!["the API: write ConfigMap kubelet-config".to_owned(), "you: 7 steps on nodes".to_owned()],
        diff: Vec::new(),
        confirmation: Confirmation::Name,
        patched: None,
    }
}

#[test]
fn nothing_is_carried_out_that_was_not_read_and_confirmed() {
    for (width, height) in [(80, 24), (120, 40)] {
        let (mut model, cluster) = open(width, height);
        assert!(previewed(&keys(&mut model, "a")).is_none(), "nothing is staged");
        assert!(text(&mut model).contains("nothing is staged"));
        line(&mut model, "set maxPods=60");
        let (ticket, of, order) = previewed(&keys(&mut model, "a")).expect("a preview");
        assert_eq!((&of, &order), (&cluster.key, &ChangeOrder::Begin(vec!["maxPods=60".to_owned()])));
        assert!(carried_out(&keys(&mut model, "h a r b o r enter")).is_none(), "nothing is known yet");
        let result = proposed(of, preview(order.clone(), Severity::Warning));
        update(&mut model, Msg::Done(EffectOutcome::Previewed { ticket, result }));
        assert!(carried_out(&keys(&mut model, "h a r b o r enter")).is_none(), "it was not drawn");
        text(&mut model);
        model.was_drawn();
        golden::screen(&format!("change-confirm-{width}x{height}"), &text(&mut model));
        for letter in ["y", "a", "enter", "enter", "j"] {
            assert!(carried_out(&keys(&mut model, letter)).is_none(), "{letter}");
        }
        keys(&mut model, "backspace backspace backspace");
        let sent = carried_out(&keys(&mut model, "h a r b o r enter")).expect("it is sent");
        assert_eq!(sent.order, order);
        assert!(carried_out(&keys(&mut model, "enter")).is_none(), "it is sent once");
        let result = Ok("change 0a1b2c3d4e5f was written; now for you".to_owned());
        let done = EffectOutcome::Performed { ticket, result };
        let effects = update(&mut model, Msg::Done(done));
        assert_eq!(asked(&effects), Some((cluster, 0)), "it is looked at again at once");
        let screen = text(&mut model);
        assert!(screen.contains("nothing is staged") && screen.contains("now for you"), "{screen}");
    }
}

#[test]
fn a_blocked_change_cannot_be_confirmed_and_read_only_refuses() {
    let (mut model, _) = open(80, 24);
    line(&mut model, "set maxPods=60");
    let (ticket, of, order) = previewed(&keys(&mut model, "a")).expect("a preview");
    let result = proposed(of, preview(order, Severity::Blocker));
    update(&mut model, Msg::Done(EffectOutcome::Previewed { ticket, result }));
    text(&mut model);
    model.was_drawn();
    assert!(carried_out(&keys(&mut model, "h a r b o r enter")).is_none());
    assert!(text(&mut model).contains("cannot be done now"));

    let (mut model, _) = opened(read_only(80, 24));
    line(&mut model, "set maxPods=60");
    for command in ["apply", "rollback"] {
        assert!(previewed(&line(&mut model, command)).is_none());
        assert!(text(&mut model).contains("read-only"), "{}", text(&mut model));
        keys(&mut model, "esc");
    }
}

#[test]
fn what_was_begun_goes_on_and_the_last_change_is_taken_back() {
    let (mut model, cluster) = open(80, 24);
    line(&mut model, "rollback");
    assert!(text(&mut model).contains("nothing to take back"), "{}", text(&mut model));
    keys(&mut model, "esc");
    answer(&mut model, cluster.clone(), Ok(underway()));
    let order = |effects: &[Effect]| previewed(effects).map(|(_, _, order)| order);
    assert_eq!(order(&line(&mut model, "apply")), Some(ChangeOrder::GoOn));
    keys(&mut model, "esc");
    assert_eq!(order(&line(&mut model, "rollback")), Some(ChangeOrder::TakeBack));
    keys(&mut model, "esc");
    let mut over = underway();
    over.underway = None;
    let record = over.record.as_mut().expect("a record");
    (record.state, record.completed) = (RecordState::Complete, Some("2026-11-20T11:59:00Z".to_owned()));
    answer(&mut model, cluster, Ok(over));
    assert!(text(&mut model).contains("change 0a1b2c3d4e5f of ann is complete"), "{}", text(&mut model));
}

#[test]
fn a_command_of_the_plan_is_copied_as_it_is_typed() {
    let (mut model, cluster) = open(80, 24);
    answer(&mut model, cluster, Ok(underway()));
    keys(&mut model, "tab tab");
    let copied = (0..80).find_map(|_| {
        let effects = keys(&mut model, "j c");
        effects.into_iter().find_map(|effect| match effect {
            Effect::Copy(text) if text.starts_with("flock ") => Some(text),
            _ => None,
        })
    });
    let copied = copied.expect("a command");
    assert!(copied.contains(" kubeadm upgrade node phase control-plane"), "{copied}");
}

#[test]
fn a_configuration_is_read_while_the_screen_is_open_and_never_after() {
    let (mut model, cluster) = open(80, 24);
    let (_, wait_ms) = asked(&answer(&mut model, cluster.clone(), Err("gone\u{1b}[2J".to_owned())))
        .expect("the next reading");
    assert_eq!(wait_ms, 10_000);
    assert!(!text(&mut model).contains('\u{1b}'));
    let effects = keys(&mut model, "q");
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::StopReading(SubjectKind::Configuration))),
        "{effects:?}"
    );
    assert_eq!(asked(&answer(&mut model, cluster, Ok(settled()))), None);
}
