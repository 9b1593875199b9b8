//! What real kubeadm, kubelet and API server of a release wrote, read for the first time: nothing wrong is said of it.

use super::check::{FindingSeverity, check, check_flags, stated_minor};
use super::document::{DocumentKind, Inputs, read_inputs};
use super::facts::ClusterFacts;
use super::plan::{PlanOptions, PlanState, find_drift, plan};
use super::render::ClusterSettings;
use super::request::{PatchKind, RequestPart, apply};

/// A cluster of one node, made by kubeadm; the kube-proxy configuration is what kubeadm prints for it.
fn cluster() -> Inputs {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let files = [
        file("kubeadm-config.yaml", include_str!("first_contact/1.36.3/kubeadm-config.yaml")),
        file("kubelet-config.yaml", include_str!("first_contact/1.36.3/kubelet-config.yaml")),
        file("kube-proxy.yaml", include_str!("first_contact/1.36.3/kube-proxy.yaml")),
        file("objects.json", include_str!("first_contact/1.36.3/objects.json")),
    ];
    read_inputs(&files).expect("documents")
}

#[test]
fn nothing_is_wrong_with_what_kubeadm_writes() {
    let inputs = cluster();
    assert_eq!(inputs.documents.len(), 3);
    let minor = stated_minor(&inputs.documents);
    for document in &inputs.documents {
        let mut found = check(document, minor);
        found.extend(check_flags(document, minor));
        found.retain(|finding| finding.severity == FindingSeverity::Error);
        assert_eq!(found, [], "{}", document.kind.name());
    }
}

#[test]
fn what_runs_is_what_is_stored() {
    let inputs = cluster();
    let facts = ClusterFacts::read(&inputs);
    assert_eq!(facts.control_planes(), Some(1));
    let stored = &inputs.document(DocumentKind::Cluster).expect("there").value;
    let settings = ClusterSettings::new(stored, None).expect("a version");
    assert_eq!(find_drift(&settings, &settings, &facts).expect("rendered"), []);
}

#[test]
fn a_sound_change_is_ready_and_reaches_no_add_on_that_is_not_there() {
    let planned = |set: &str| {
        let inputs = cluster();
        let parts = [RequestPart::Set(set.to_owned())];
        let mut target = apply(&inputs, &parts, PatchKind::Strategic).expect("a request");
        plan(&inputs, &mut target, &PlanOptions::default()).expect("a plan")
    };
    assert_eq!(planned("apiServer.extraArgs[audit-log-maxage]=30").state, PlanState::Ready);
    assert_eq!(planned("containerLogMaxFiles=6").state, PlanState::Ready);
    let moved = planned("ClusterConfiguration.imageRepository=reg.example.com/k8s");
    let names: Vec<&str> = moved.steps.iter().map(|step| step.id.name()).collect();
    assert!(!names.contains(&"P1") && !names.contains(&"D1"), "neither add-on exists: {names:?}");
}
