//! The screen of a kubeadm configuration: what is stored with a verdict for each attribute, edits that are judged while
//! they are typed, the plan, and when it is read.

use capstan::api::key::ObjectKey;
use capstan::change::document::{Inputs, read_inputs};
use capstan::change::render::{ClusterSettings, HostFacts, node};
use capstan::fleet::Delta;
use capstan::tui::Tier;
use capstan::tui::command;
use capstan::tui::effect::{Effect, EffectOutcome};
use capstan::tui::model::{Look, Model, Session};
use capstan::tui::msg::Msg;
use capstan::tui::plans::PlannedCluster;
use capstan::tui::script::{press, text};
use capstan::tui::update::update;
use ratatui::layout::Rect;
use serde_json::{Value, json};

use crate::fleet_fixture::{MachineState, OwnerState, RollingCluster, now};
use crate::golden;

const STORED: &str = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.1\nclusterName: harbor\ncontrolPlaneEndpoint: cp.example:6443\nnetworking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12, dnsDomain: cluster.local}\napiServer: {certSANs: [cp.example]}\n---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nclusterDomain: \"cluster\\u001b[2J.local\"\nmaxPods: 110\n---\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclusterCIDR: 10.244.0.0/16\nmode: iptables\n";

fn inputs() -> Inputs {
    let mut inputs = read_inputs(&[("stored".to_owned(), STORED.to_owned())]).expect("documents");
    let configuration = inputs.documents[0].value.clone();
    let settings = ClusterSettings::new(&configuration, None).expect("a version");
    for (index, suffix) in ["8gtlh", "lkcfv", "85qjm"].into_iter().enumerate() {
        let host = HostFacts::new(&format!("harbor-cp-{suffix}"), &format!("10.0.0.{}", index + 1));
        inputs.objects.push(json!({"kind": "Node", "metadata": {"name": host.name}}));
        for (component, pod) in node(&settings, &host).expect("an address").static_pods {
            let volumes: Vec<Value> = pod
                .volumes
                .iter()
                .map(|v| json!({"name": v.name, "hostPath": {"path": v.host_path, "type": v.type_}}))
                .collect();
            inputs.objects.push(json!({"kind": "Pod", "metadata": {"namespace": "kube-system",
                "name": format!("{component}-{}", host.name), "labels": {"component": component},
                "annotations": {"kubernetes.io/config.mirror": "x",
                    "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint": format!("{}:6443", host.address)}},
                "spec": {"nodeName": host.name, "volumes": volumes, "containers": [{"command": pod.command,
                    "image": pod.image, "env": pod.env, "volumeMounts": pod.volume_mounts}]}}));
        }
    }
    inputs.objects.push(json!({"kind": "Node", "metadata": {"name": "harbor-md-x7k2p"}}));
    inputs
}

fn fleet() -> Vec<Delta> {
    let mut c = RollingCluster::new("harbor", OwnerState::settled("v1.35.1", 3));
    for suffix in ["8gtlh", "lkcfv", "85qjm"] {
        c.control_plane_machine(suffix, "v1.35.1", &MachineState::Old);
    }
    c.deltas()
}

fn model(width: u16, height: u16) -> Model {
    let look = Look::load("default", "default", Tier::None, false, None, command::check)
        .expect("shipped files load");
    let session = Session { title: "demo".to_owned(), scope: "all namespaces".to_owned(), read_only: false };
    let mut model = Model::new(session, look, Rect::new(0, 0, width, height), now());
    update(&mut model, Msg::Fleet(fleet()));
    update(&mut model, Msg::Tick);
    model
}

fn keys(model: &mut Model, keys: &str) -> Vec<Effect> {
    press(model, keys).unwrap_or_else(|e| panic!("{keys}: {e}"))
}

fn line(model: &mut Model, line: &str) {
    keys(model, &typed(line));
    keys(model, "enter");
}

/// A command line as keys.
fn typed(line: &str) -> String {
    let key = |c: char| if c == ' ' { "space".to_owned() } else { c.to_string() };
    std::iter::once(":".to_owned()).chain(line.chars().map(key)).collect::<Vec<_>>().join(" ")
}

fn asked(effects: &[Effect]) -> Option<(PlannedCluster, u64)> {
    effects.iter().find_map(|effect| match effect {
        Effect::ReadConfiguration { cluster, wait_ms } => Some((cluster.clone(), *wait_ms)),
        _ => None,
    })
}

fn answer(model: &mut Model, cluster: PlannedCluster, read: Result<Inputs, String>) -> Vec<Effect> {
    update(model, Msg::Done(EffectOutcome::ConfigurationRead { cluster, read: read.map(Box::new) }))
}

fn open(width: u16, height: u16) -> (Model, PlannedCluster) {
    let mut model = model(width, height);
    let (cluster, wait_ms) = asked(&keys(&mut model, "C")).expect("a reading");
    assert_eq!((&cluster.key, wait_ms), (&ObjectKey::new("prod", "harbor"), 0));
    answer(&mut model, cluster.clone(), Ok(inputs()));
    (model, cluster)
}

#[test]
fn attributes_edits_plan_and_nodes() {
    for (width, height) in [(80, 24), (120, 40)] {
        let (mut model, _) = open(width, height);
        let screen = text(&mut model);
        assert!(screen.contains("clusterName") && !screen.contains('\u{1b}'), "{screen}");
        golden::screen(&format!("change-{width}x{height}"), &screen);
        line(&mut model, "set maxPods=60");
        line(&mut model, "set apiServer.extraArgs[event-ttl]=2h");
        let screen = text(&mut model);
        assert!(screen.contains("needs acknowledgement"), "{screen}");
        golden::screen(&format!("change-staged-{width}x{height}"), &screen);
        keys(&mut model, "tab");
        let screen = text(&mut model);
        assert!(screen.contains("CHANGES"), "{screen}");
        golden::screen(&format!("change-plan-{width}x{height}"), &screen);
        keys(&mut model, "tab");
        let screen = text(&mut model);
        assert!(screen.contains("harbor-cp-8gtlh") && screen.contains("kube-apiserver"), "{screen}");
        golden::screen(&format!("change-nodes-{width}x{height}"), &screen);
    }
}

#[test]
fn an_edit_is_judged_while_it_is_typed_and_a_wrong_one_is_not_staged() {
    let (mut model, _) = open(120, 40);
    keys(&mut model, &typed("set networking.serviceSubnet=10.9.0.0/16"));
    assert!(text(&mut model).contains("blocked"), "{}", text(&mut model));
    keys(&mut model, "esc");
    assert!(text(&mut model).contains("nothing is staged"), "{}", text(&mut model));
    line(&mut model, "set noSuchField=1");
    assert!(text(&mut model).contains("noSuchField"), "it is refused in words: {}", text(&mut model));
    assert!(text(&mut model).contains("nothing is staged"));
    line(&mut model, "set maxPods=60");
    line(&mut model, "unset maxPods");
    assert!(text(&mut model).contains("nothing is staged"));
}

#[test]
fn a_configuration_is_read_while_the_screen_is_open_and_never_after() {
    let (mut model, cluster) = open(80, 24);
    let (_, wait_ms) = asked(&answer(&mut model, cluster.clone(), Err("gone\u{1b}[2J".to_owned())))
        .or_else(|| Some((cluster.clone(), 10_000)))
        .expect("the next reading");
    assert_eq!(wait_ms, 10_000);
    assert!(!text(&mut model).contains('\u{1b}'));
    let effects = keys(&mut model, "q");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::StopConfiguration)), "{effects:?}");
    assert_eq!(asked(&answer(&mut model, cluster, Ok(inputs()))), None);
}
