//! Plans as golden files, refusals, what follows, drift and order.

use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::document::read_inputs;
use crate::render::{HostFacts, StaticPod, node};
use crate::report;
use crate::request::{PatchKind, RequestPart, apply};

const CLUSTER: &str = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.36.1\nclusterName: prod\ncontrolPlaneEndpoint: cp.example:6443\nnetworking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12, dnsDomain: cluster.local}\napiServer: {certSANs: [cp.example]}\ncontrollerManager: {extraArgs: [{name: node-cidr-mask-size, value: \"25\"}]}\n";
const COMPONENTS: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\nmaxPods: 110\nstaticPodPath: /etc/kubernetes/manifests\n---\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclusterCIDR: 10.244.0.0/16\nmode: iptables\n";

fn mirror(host: &HostFacts, component: &str, pod: &StaticPod) -> Value {
    let volumes: Vec<Value> = pod
        .volumes
        .iter()
        .map(|v| json!({"name": v.name, "hostPath": {"path": v.host_path, "type": v.type_}}))
        .collect();
    json!({
        "kind": "Pod",
        "metadata": {
            "namespace": "kube-system", "name": format!("{component}-{}", host.name), "labels": {"component": component},
            "annotations": {
                "kubernetes.io/config.mirror": "x",
                "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint": format!("{}:6443", host.address),
            },
        },
        "spec": {"nodeName": host.name, "volumes": volumes, "containers": [{
            "command": pod.command, "image": pod.image, "env": pod.env, "volumeMounts": pod.volume_mounts,
        }]},
    })
}

/// A cluster as kubeadm leaves it: three documents, control plane nodes with their mirror pods, workers.
pub(crate) fn cluster(control_planes: usize, workers: usize) -> Inputs {
    let text = format!("{CLUSTER}---\n{COMPONENTS}");
    let mut inputs = read_inputs(&[("stored".to_owned(), text)]).expect("documents");
    inputs.versions.insert("kubeadm-config".to_owned(), "41".to_owned());
    let configuration = inputs.document(DocumentKind::Cluster).expect("there").value.clone();
    let settings = ClusterSettings::new(&configuration, None).expect("a version");
    for index in 0..control_planes {
        let host = HostFacts::new(&format!("cp-{index}"), &format!("10.0.0.{}", index + 1));
        inputs.objects.push(json!({"kind": "Node", "metadata": {"name": host.name}}));
        let artefacts = node(&settings, &host).expect("an address");
        let pods: Vec<Value> =
            artefacts.static_pods.iter().map(|(name, pod)| mirror(&host, name, pod)).collect();
        inputs.objects.extend(pods);
    }
    inputs
        .objects
        .extend((0..workers).map(|n| json!({"kind": "Node", "metadata": {"name": format!("w-{n:03}")}})));
    inputs
}

pub(super) fn wanted(inputs: &Inputs, sets: &[&str]) -> WantedDocuments {
    let parts: Vec<RequestPart> = sets.iter().map(|set| RequestPart::Set((*set).to_owned())).collect();
    apply(inputs, &parts, PatchKind::Strategic).expect("a request")
}

pub(super) fn planned_with(inputs: &Inputs, sets: &[&str], options: &PlanOptions) -> ChangePlan {
    let mut target = wanted(inputs, sets);
    plan(inputs, &mut target, options).expect("a plan")
}

pub(crate) fn planned(inputs: &Inputs, sets: &[&str]) -> ChangePlan {
    planned_with(inputs, sets, &PlanOptions { files: "FILES".to_owned(), ..PlanOptions::default() })
}

pub(super) fn steps(plan: &ChangePlan) -> Vec<String> {
    plan.steps
        .iter()
        .map(|step| format!("{} {}", step.id.name(), step.nodes.join(",")).trim().to_owned())
        .collect()
}

fn golden(name: &str, inputs: &Inputs, sets: &[&str]) -> ChangePlan {
    let plan = planned(inputs, sets);
    let text = report::as_text(&plan, &ClusterFacts::read(inputs));
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join(format!("tests/golden/change/{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).expect("the golden folder can be written");
    } else {
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            expected == text,
            "tests/golden/change/{name}.txt differs (UPDATE_GOLDEN=1 writes it anew); now:\n{text}"
        );
    }
    plan
}

/// A cluster of another minor version: no pods of it, since theirs would be of 1.36.
fn cluster_of(minor: u64) -> Inputs {
    let mut inputs = cluster(1, 1);
    inputs.objects.retain(|object| object["kind"] == "Node");
    let document = inputs.documents.iter_mut().find(|document| document.kind == DocumentKind::Cluster);
    document.expect("there").value["kubernetesVersion"] = json!(format!("v1.{minor}.1"));
    inputs
}

#[test]
fn what_the_release_ignores_is_stored_and_restarts_nothing() {
    let (ignored, read) = ("mergeDefaultEvictionSettings=true", "maxPods=50");
    for (minor, sets, reached) in [
        (32, &[ignored][..], &[][..]),
        (33, &[ignored], &["mergeDefaultEvictionSettings: (none) → true"]),
        (32, &[ignored, read], &["maxPods: 110 → 50"]),
    ] {
        let plan = planned(&cluster_of(minor), sets);
        assert!(plan.to_acknowledge.iter().any(|name| name == "mergeDefaultEvictionSettings"));
        let lines: Vec<&String> = plan.reach.iter().flat_map(|reach| &reach.differences).collect();
        assert_eq!(lines, reached, "1.{minor} {sets:?}");
    }
    let plan = planned(&cluster_of(32), &[ignored]);
    assert_eq!(plan.steps_of(StepId::K1).count(), 0);
    let finding = &plan.changes[0].finding;
    assert_eq!(
        (finding.verdict, finding.message.as_str()),
        (
            Judgement::Advise,
            "It is stored and has no effect: kubelet 1.32 ignores the field. It is read from 1.33 on: upgrade first if it is needed."
        )
    );
}

#[test]
fn five_plans() {
    let inputs = cluster(3, 4);
    let flag = golden("api_server_flag", &inputs, &["apiServer.extraArgs[event-ttl]=2h"]);
    assert_eq!((flag.state, flag.drift.len()), (PlanState::Ready, 0));
    assert_eq!(steps(&flag), ["B0 cp-0,cp-1,cp-2", "B1 cp-0", "G1", "M1 cp-0", "M1 cp-1", "M1 cp-2", "X"]);
    let name = golden("certificate_name", &inputs, &["apiServer.certSANs=[new.example]"]);
    assert_eq!(steps(&name), ["B0 cp-0,cp-1,cp-2", "B1 cp-0", "G1", "C1 cp-0", "C1 cp-1", "C1 cp-2", "X"]);
    golden(
        "audit_policy",
        &cluster(1, 0),
        &[
            "apiServer.extraArgs[audit-policy-file]=/etc/kubernetes/audit/policy.yaml",
            "apiServer.extraArgs[audit-log-path]=-",
            "apiServer.extraVolumes[audit]={hostPath: /etc/kubernetes/audit, mountPath: /etc/kubernetes/audit, readOnly: true, pathType: Directory}",
        ],
    );
    let kubelet = golden("kubelet_max_pods", &inputs, &["maxPods=60"]);
    assert_eq!(
        steps(&kubelet),
        [
            "B0 cp-0,cp-1,cp-2",
            "B1 cp-0",
            "G2",
            "K1 cp-0",
            "K1 cp-1",
            "K1 cp-2",
            "K1 w-000",
            "K1 w-001",
            "K1 w-002",
            "K1 w-003",
            "X"
        ]
    );
    assert_eq!(kubelet.components().keys().collect::<Vec<_>>(), [&Component::Kubelet], "no static pod");
    let dual = golden(
        "dual_stack",
        &inputs,
        &[
            "networking.podSubnet=10.244.0.0/16,fd00:10:244::/48",
            "networking.serviceSubnet=10.96.0.0/12,fd00:10:96::/112",
        ],
    );
    let derived: Vec<String> = dual
        .changes
        .iter()
        .filter(|j| j.change.derived_from.is_some())
        .map(|j| j.change.path.to_string())
        .collect();
    assert_eq!(
        derived,
        [
            "controllerManager.extraArgs[node-cidr-mask-size]",
            "controllerManager.extraArgs[node-cidr-mask-size-ipv4]",
            "clusterCIDR"
        ]
    );
}

#[test]
fn three_refusals() {
    let inputs = cluster(3, 4);
    let endpoint = golden("refused_endpoint", &inputs, &["controlPlaneEndpoint=other.example:6443"]);
    assert_eq!((endpoint.state, endpoint.steps.len()), (PlanState::Blocked, 0));
    let all = golden(
        "refused_all_reasons",
        &inputs,
        &[
            "networking.dnsDomain=corp.local",
            "etcd.local.dataDir=/data",
            "apiServer.extraArgs[authorization-mode]=RBAC",
            "maxPods=60",
        ],
    );
    let blocks = all.changes.iter().filter(|judged| judged.finding.verdict == Judgement::Block).count();
    assert_eq!(blocks, 3, "all reasons at once");
    golden("refused_flag", &inputs, &["apiServer.extraArgs[client-ca-file]=/etc/other.crt"]);
}

#[test]
fn force_passes_only_what_a_rule_allows() {
    let inputs = cluster(1, 0);
    let options = PlanOptions {
        force: true,
        acknowledged: Acknowledged::Everything,
        files: "FILES".to_owned(),
        ..PlanOptions::default()
    };
    let state = |set: &str| planned_with(&inputs, &[set], &options).state;
    assert_eq!(state("apiServer.extraArgs[client-ca-file]=/etc/other.crt"), PlanState::Ready);
    for never in [
        "etcd.local.dataDir=/data",
        "apiServer.extraArgs[etcd-prefix]=/x",
        "networking.podSubnet=10.1.0.0/16",
    ] {
        assert_eq!(state(never), PlanState::Blocked, "{never}");
    }
}

#[test]
fn nothing_and_wrong_documents_are_states_of_their_own() {
    let inputs = cluster(1, 0);
    assert_eq!(planned(&inputs, &["maxPods=110"]).state, PlanState::Nothing);
    assert_eq!(steps(&planned(&inputs, &["maxPods=110"])), Vec::<String>::new());
    let wrong = planned(&inputs, &["apiServer.certSANs=[a_b]"]);
    assert_eq!(wrong.state, PlanState::Invalid);
    assert!(wrong.findings[0].message.contains("`a_b`"), "{:?}", wrong.findings);
}

#[test]
fn only_what_differs_when_rendered_is_reached() {
    let mut inputs = cluster(1, 0);
    let masked = planned(&inputs, &["imageRepository=r.example"]);
    assert!(masked.components().contains_key(&Component::Etcd));
    let document = inputs.documents.iter_mut().find(|d| d.kind == DocumentKind::Cluster).expect("there");
    document.value["etcd"] = json!({"local": {"imageRepository": "own.example"}});
    let masked = planned(&inputs, &["imageRepository=r.example"]);
    assert!(!masked.components().contains_key(&Component::Etcd), "etcd has a repository of its own");
}

#[test]
fn drift_is_found_and_its_likely_source_named() {
    let mut inputs = cluster(2, 0);
    let pod =
        inputs.objects.iter_mut().find(|o| o["metadata"]["name"] == "kube-apiserver-cp-1").expect("a pod");
    pod["spec"]["containers"][0]["command"]
        .as_array_mut()
        .expect("a list")
        .push(json!("--goaway-chance=0.01"));
    let etcd = inputs.objects.iter_mut().find(|o| o["metadata"]["name"] == "etcd-cp-0").expect("a pod");
    etcd["spec"]["containers"][0]["image"] = json!("mirror.example/etcd:3.6.7-0");
    let plan = planned(&inputs, &["maxPods=60"]);
    let found: Vec<(&str, &str, &str)> = plan
        .drift
        .iter()
        .map(|d| (d.node.as_str(), d.component.as_str(), d.differences[0].as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("cp-0", "etcd", "image registry.k8s.io/etcd:3.6.7-0 → mirror.example/etcd:3.6.7-0"),
            ("cp-1", "kube-apiserver", "+ --goaway-chance=0.01"),
        ]
    );
}

/// A cluster that another patch release of kubeadm made: its etcd and CoreDNS are older than those of the table.
fn of_another_patch_release() -> Inputs {
    let mut inputs = cluster(2, 0);
    for object in &mut inputs.objects {
        let image = object.pointer_mut("/spec/containers/0/image");
        if let Some(image) = image.filter(|image| **image == "registry.k8s.io/etcd:3.6.8-0") {
            *image = json!("registry.k8s.io/etcd:3.6.6-0");
        }
    }
    let containers = json!([{"name": "coredns", "image": "registry.k8s.io/coredns/coredns:v1.13.1"}]);
    inputs.objects.push(json!({
        "kind": "Deployment", "metadata": {"name": "coredns", "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": containers}}},
    }));
    inputs
}

#[test]
fn images_for_which_nothing_is_stored_keep_the_tag_that_runs() {
    let inputs = of_another_patch_release();
    let moved = planned(&inputs, &["ClusterConfiguration.imageRepository=r.example"]);
    assert_eq!(moved.drift, [], "nobody changed these images");
    let lines = |component: Component| {
        let reach = moved.reach.iter().find(|reach| reach.component == component);
        reach.map(|reach| reach.differences.clone()).unwrap_or_default()
    };
    assert_eq!(lines(Component::Etcd), ["image registry.k8s.io/etcd:3.6.6-0 → r.example/etcd:3.6.6-0"]);
    let d1 = moved.steps.iter().find(|step| step.id == StepId::D1).expect("a step");
    assert!(d1.commands[0].as_str().ends_with(" coredns=r.example/coredns:v1.13.1"), "{:?}", d1.commands);
    // kubeadm writes etcd's manifest from the node's file.
    let mut target = wanted(&inputs, &["ClusterConfiguration.imageRepository=r.example"]);
    plan(&inputs, &mut target, &PlanOptions::default()).expect("a plan");
    let host = &ClusterFacts::read(&inputs).control_plane[0].host;
    let file = NodeFile::of(crate::node_file::NodeFileKind::Cluster, "0a", "cp-0");
    let cluster = target.document(DocumentKind::Cluster).expect("there");
    assert!(file.text("0a", host, cluster).expect("a text").contains("imageTag: 3.6.6-0"));
    let named = planned(&inputs, &["etcd.local.imageTag=3.6.7-0"]);
    assert_eq!(named.drift, [], "the request goes from what runs");
}

#[test]
fn a_member_that_joined_stays_one_whatever_kubeadm_is_given() {
    let inputs = cluster(1, 0);
    let mut target = wanted(&inputs, &["etcd.local.extraArgs[snapshot-count]=5000"]);
    plan(&inputs, &mut target, &PlanOptions::default()).expect("a plan");
    let cluster = target.document(DocumentKind::Cluster).expect("there");
    let mut host = ClusterFacts::read(&inputs).control_plane[0].host.clone();
    let file = NodeFile::of(crate::node_file::NodeFileKind::Cluster, "0a", "cp-0");
    let text = |host: &HostFacts| file.text("0a", host, cluster).expect("a text");
    assert!(!text(&host).contains("initial-cluster"), "kubeadm names the first member alone");
    host.joined_members =
        vec!["cp-0=https://10.0.0.1:2380".to_owned(), "cp-1=https://10.0.0.2:2380".to_owned()];
    let joined = text(&host);
    for line in [
        "- name: initial-cluster\n      value: cp-0=https://10.0.0.1:2380,cp-1=https://10.0.0.2:2380",
        "- name: initial-cluster-state\n      value: existing",
        "- name: snapshot-count\n      value: \"5000\"",
    ] {
        assert!(joined.contains(line), "{line}\n{joined}");
    }
}

#[test]
fn what_no_configuration_says_is_drift_that_has_to_be_acknowledged() {
    let mut inputs = cluster(1, 0);
    let pod =
        inputs.objects.iter_mut().find(|o| o["metadata"]["name"] == "kube-apiserver-cp-0").expect("a pod");
    let containers = pod["spec"]["containers"].as_array_mut().expect("a list");
    containers[0]["name"] = json!("kube-apiserver");
    containers[0]["resources"] = json!({"limits": {"memory": "4Gi"}, "requests": {"cpu": "250m"}});
    containers.insert(0, json!({"name": "kms-plugin", "image": "kms:1"}));
    let plan = planned(&inputs, &["apiServer.extraArgs[audit-log-maxage]=30"]);
    assert_eq!(plan.state, PlanState::NeedsAcknowledgement);
    assert_eq!(plan.drift[0].differences, ["+ container kms-plugin kms:1", "+ limit of memory 4Gi"]);
    assert!(plan.drift[0].likely.starts_with("a patches folder or a hand edit"));
}

#[test]
fn etcd_comes_before_the_control_plane_and_kubelets_last() {
    let plan = planned(
        &cluster(2, 1),
        &[
            "etcd.local.extraArgs[snapshot-count]=5000",
            "etcd.local.peerCertSANs=[p.example]",
            "apiServer.extraArgs[v]=2",
            "cpuManagerPolicy=static",
            "mode=ipvs",
        ],
    );
    assert_eq!(
        steps(&plan),
        [
            "B0 cp-0,cp-1",
            "B1 cp-0",
            "G1",
            "G2",
            "G3",
            // With the certificates.
            "E1 cp-0",
            "E1 cp-1",
            "M1 cp-0",
            "M1 cp-1",
            "P1",
            "P2 cp-0",
            "P2 cp-1",
            "P2 w-000",
            "K2 cp-0",
            "K2 cp-1",
            "K2 w-000",
            "X",
        ]
    );
    assert_eq!(plan.state, PlanState::NeedsAcknowledgement);
}

#[test]
fn who_leads_comes_last() {
    let mut inputs = cluster(3, 0);
    inputs.objects.push(json!({
        "kind": "Lease", "metadata": {"namespace": "kube-system", "name": "kube-controller-manager"},
        "spec": {"holderIdentity": "cp-1_5e1c"},
    }));
    let sets = ["etcd.local.extraArgs[snapshot-count]=5000", "apiServer.extraArgs[v]=2"];
    let options = PlanOptions { etcd_leader: Some("cp-0".to_owned()), ..PlanOptions::default() };
    let plan = planned_with(&inputs, &sets, &options);
    assert_eq!(steps(&plan)[3..9], ["E1 cp-1", "E1 cp-2", "E1 cp-0", "M1 cp-0", "M1 cp-2", "M1 cp-1"]);
    assert_eq!(plan.notes, Vec::<String>::new());
    let unknown = planned(&inputs, &sets);
    assert!(unknown.notes[0].starts_with("which etcd member leads is not known"), "{:?}", unknown.notes);
}

#[test]
fn drift_that_is_taken_back_has_to_be_acknowledged() {
    let mut inputs = cluster(1, 0);
    let pod =
        inputs.objects.iter_mut().find(|o| o["metadata"]["name"] == "kube-scheduler-cp-0").expect("a pod");
    pod["spec"]["containers"][0]["command"].as_array_mut().expect("a list").push(json!("--v=4"));
    assert_eq!(planned(&inputs, &["apiServer.extraArgs[v]=2"]).state, PlanState::NeedsAcknowledgement);
    assert!(!planned(&inputs, &["maxPods=60"]).takes_back(), "no manifest is written");
    assert_eq!(planned(&inputs, &["scheduler.extraArgs[v]=4"]).drift, [], "it is as it is going to be");
}

#[test]
fn files_of_a_change_are_looked_at_where_the_host_has_them() {
    let inputs = cluster(1, 0);
    let sets = [
        "apiServer.extraArgs[audit-policy-file]=/audit/policy.yaml",
        "apiServer.extraVolumes[audit]={hostPath: \"/etc/it's\", mountPath: /audit, pathType: Directory}",
    ];
    let plan = planned(&inputs, &sets);
    let step = plan.steps.iter().find(|step| step.id == StepId::H1).expect("a step");
    let commands: Vec<&str> = step.commands.iter().map(CommandLine::as_str).collect();
    assert_eq!(commands, [r"sha256sum -- '/etc/it'\''s/policy.yaml'", r"test -e '/etc/it'\''s'"]);
    let order: Vec<StepId> = plan.steps.iter().map(|step| step.id).collect();
    let expected = [StepId::H1, StepId::B0, StepId::B1, StepId::G1, StepId::M1, StepId::X];
    assert_eq!(order, expected, "a node that joins finds no document of which its hosts lack something");
    assert_eq!(plan.preparation().map(|(at, _)| at).collect::<Vec<_>>(), [0]);
}

#[test]
fn workers_restart_in_batches_of_a_tenth() {
    let plan = planned(&cluster(3, 497), &["containerLogMaxFiles=7"]);
    let batches: Vec<usize> =
        plan.steps.iter().filter(|s| s.id == StepId::K1).map(|s| s.nodes.len()).collect();
    assert_eq!(batches, [&[1, 1, 1][..], &[50; 9], &[47]].concat());
}

#[test]
fn a_plan_is_known_by_what_it_was_made_from() {
    let inputs = cluster(1, 0);
    let id = planned(&inputs, &["maxPods=60"]).id;
    assert_eq!(planned(&inputs, &["maxPods=60"]).id, id);
    assert_ne!(planned(&inputs, &["maxPods=61"]).id, id);
    let mut later = cluster(1, 0);
    later.versions.insert("kubeadm-config".to_owned(), "42".to_owned());
    assert_ne!(planned(&later, &["maxPods=60"]).id, id);
}

#[test]
fn reports_hide_secrets_in_every_form() {
    let inputs = cluster(1, 0);
    let plan = planned(&inputs, &["apiServer.extraEnvs[API_TOKEN].value=hunter2"]);
    let facts = ClusterFacts::read(&inputs);
    for text in [
        report::as_text(&plan, &facts),
        report::as_markdown(&plan, &facts),
        report::as_json(&plan).to_string(),
    ] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert!(report::as_markdown(&plan, &facts).contains("- [ ] "));
}

#[test]
fn certificates_that_are_served_otherwise_are_issued_anew_where_what_is_stored_is_rolled_out() {
    let inputs = cluster(2, 0);
    let differences = vec!["+ name lb.example".to_owned()];
    let served_otherwise =
        vec![CertificateDrift { node: "cp-1".to_owned(), component: API_SERVER, differences }];
    let certificates = ServedOtherwise::of(&served_otherwise);
    let as_stored = Some(AsStored { certificates, ..AsStored::default() });
    let options = PlanOptions { as_stored, served_otherwise, ..PlanOptions::default() };
    let plan = planned_with(&inputs, &[], &options);
    assert_eq!(plan.to_acknowledge, ["apiserver.crt/cp-1"], "somebody may need a name that goes");
    assert_eq!(plan.drift[0].differences, ["- name lb.example"], "from what is stored to what runs");
    let order = ["B0 cp-0,cp-1", "B1 cp-0", "C1 cp-0", "M1 cp-0", "C1 cp-1", "M1 cp-1", "X"];
    assert_eq!(steps(&plan), order);
    let reach = |component: Component| plan.reach.iter().find(|reach| reach.component == component);
    let certificates = reach(Component::Certificates).expect("certificates");
    assert_eq!(
        (&certificates.nodes[..], &certificates.differences[0][..]),
        (&["cp-1".to_owned()][..], "+ name lb.example")
    );
    // Whoever goes on has the record alone.
    let gone_on = planned_with(&inputs, &[], &PlanOptions { as_stored, ..PlanOptions::default() });
    assert_eq!(steps(&gone_on), order);
}

#[test]
fn a_line_about_a_difference_is_read_from_the_other_side() {
    for (line, reversed) in [
        ("+ --v=4", "- --v=4"),
        ("- name a", "+ name a"),
        ("image a:1 → b:2", "image b:2 → a:1"),
        ("request of cpu 100m → 111m", "request of cpu 111m → 100m"),
        ("environment: 1 difference", "environment: 1 difference"),
    ] {
        assert_eq!(artefacts::reversed(line), reversed);
        assert_eq!(artefacts::reversed(reversed), line);
    }
}
