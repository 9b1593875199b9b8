//! What real kubeadm, kubelet and API server of a release wrote, read for the first time: nothing wrong is said of it.

use super::check::{DocumentFinding, FindingSeverity, check, check_flags, stated_minor};
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
    let mut found = findings(&inputs);
    found.retain(|finding| finding.severity == FindingSeverity::Error);
    assert_eq!(found, []);
}

fn findings(inputs: &Inputs) -> Vec<DocumentFinding> {
    let minor = stated_minor(&inputs.documents);
    let of_each = inputs.documents.iter();
    of_each.flat_map(|document| [check(document, minor), check_flags(document, minor)]).flatten().collect()
}

/// What is said of all documents of a text, with its severity.
fn said(text: &str) -> Vec<(FindingSeverity, String)> {
    let inputs = read_inputs(&[("f".to_owned(), text.to_owned())]).expect("documents");
    findings(&inputs).into_iter().map(|finding| (finding.severity, finding.message)).collect()
}

/// `kubeadm config print init-defaults` of 1.28.15 with both components, whose empty fields are written out.
#[test]
fn nothing_is_wrong_with_what_an_older_kubeadm_writes() {
    assert_eq!(said(include_str!("first_contact/1.28.15/init-defaults.yaml")), []);
}

/// Documents with the fields that Kubespray's template of v1beta4 fills in: external etcd, certificates in another folder, flags as
/// Ansible writes booleans, and two flags that kube-apiserver registers beside its options before 1.34.
#[test]
fn nothing_is_wrong_with_what_kubespray_writes() {
    let text = include_str!("first_contact/kubespray/kubeadm-config.yaml");
    for version in ["v1.31.9", "v1.32.5", "v1.33.1", "v1.34.4", "v1.35.4"] {
        let said = said(&text.replace("v1.32.5", version));
        let [(severity, words)] = said.as_slice() else { panic!("{version}: {said:?}") };
        assert_eq!(*severity, FindingSeverity::Warning, "{version}");
        assert!(
            words.contains("`usr-share-ca-certificates`, which kubeadm uses itself"),
            "{version}: {words}"
        );
    }
    let [first, ..] = &said(&text.replace("v1.32.5", "v1.36.3"))[..] else { panic!("nothing is said") };
    assert!(first.1.contains("ControlPlaneKubeletLocalMode is gone"), "{first:?}");
}

/// The same of KubeKey's template of v1beta4, hardened: two address families, a patches folder, a kubelet with all its reserves.
#[test]
fn nothing_is_wrong_with_what_kubekey_writes() {
    let text = include_str!("first_contact/kubekey/kubeadm-config.yaml");
    for version in ["v1.31.9", "v1.33.1", "v1.34.4", "v1.36.3", "v1.37.2"] {
        assert_eq!(said(&text.replace("v1.33.1", version)), [], "{version}");
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
