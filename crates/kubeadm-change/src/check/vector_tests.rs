//! What kubelet and kube-proxy themselves said to configurations made by chance, beside what is said here.

use super::*;
use crate::accepted::{GateOwner, gate_refused};
use crate::document::read_inputs;

const FILES: [(u64, &str); 2] =
    [(33, include_str!("vectors/1.33.13.txt")), (36, include_str!("vectors/1.36.3.txt"))];

fn is_refused(minor: u64, document: &str) -> bool {
    let value: Value = serde_json::from_str(document).expect("a document");
    let version = if value["kind"] == "KubeletConfiguration" {
        "kubelet.config.k8s.io/v1beta1"
    } else {
        "kubeproxy.config.k8s.io/v1alpha1"
    };
    let text = document.replacen('{', &format!("{{\"apiVersion\": \"{version}\", "), 1);
    let inputs = read_inputs(&[("vector".to_owned(), text)]).expect("a document");
    let found = inputs.documents.iter().flat_map(|document| check(document, Some(minor)));
    let gates = value["featureGates"].as_object().into_iter().flatten();
    // A plan blocks these by the change of the gate.
    let mut refused =
        gates.filter_map(|(name, on)| gate_refused(GateOwner::Kubernetes, minor, name, on == true));
    found.into_iter().any(|finding| finding.severity == FindingSeverity::Error) || refused.next().is_some()
}

#[test]
fn what_a_component_refuses_is_an_error_and_nothing_else_is() {
    let (mut missed, mut wrong, mut all) = (Vec::new(), Vec::new(), 0);
    for (minor, text) in FILES {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (document, verdict) = line.split_once('\t').expect("a verdict");
            all += 1;
            match (is_refused(minor, document), verdict) {
                (false, "refused") => missed.push(format!("{minor} {document}")),
                (true, "ok") => wrong.push(format!("{minor} {document}")),
                _ => {}
            }
        }
    }
    let (missed, wrong) = (missed.join("\n"), wrong.join("\n"));
    assert!(missed.is_empty() && wrong.is_empty(), "of {all}\nmissed:\n{missed}\nrefused:\n{wrong}");
}

const KUBEADM: [&str; 2] =
    [include_str!("vectors/kubeadm-1.33.13.txt"), include_str!("vectors/kubeadm-1.36.3.txt")];

/// What is an error here although kubeadm takes it: it leads to a manifest that no component starts with.
fn is_worse_than_kubeadm_says(document: &Value) -> bool {
    let text = document.to_string();
    text.contains(r#""--v""#) || text.contains(r#""hostPath":"a""#) || text.contains(r#""imageTag":"a b""#)
}

#[test]
fn what_kubeadm_refuses_is_an_error_and_nothing_else_is() {
    let (mut missed, mut wrong, mut all) = (Vec::new(), Vec::new(), 0);
    for line in KUBEADM.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with('#')) {
        let (document, verdict) = line.split_once('\t').expect("a verdict");
        let value: Value = serde_json::from_str(document).expect("a document");
        let head = "{\"apiVersion\": \"kubeadm.k8s.io/v1beta4\", \"kind\": \"ClusterConfiguration\", ";
        let inputs =
            read_inputs(&[("vector".to_owned(), document.replacen('{', head, 1))]).expect("a document");
        let minor = stated_minor(&inputs.documents);
        let found = inputs.documents.iter().flat_map(|document| check(document, minor));
        let is_error = found.into_iter().any(|finding| finding.severity == FindingSeverity::Error);
        all += 1;
        match (is_error, verdict) {
            (false, "refused") => missed.push(line),
            (true, "ok") if !is_worse_than_kubeadm_says(&value) => wrong.push(line),
            _ => {}
        }
    }
    let (missed, wrong) = (missed.join("\n"), wrong.join("\n"));
    assert!(missed.is_empty() && wrong.is_empty(), "of {all}\nmissed:\n{missed}\nrefused:\n{wrong}");
}

const OPERATIONS: &str = include_str!("vectors/operations-1.36.3.txt");

/// `kubeadm config validate` does not look at these: the command that is given the document refuses it.
fn is_refused_by_the_command(finding: &DocumentFinding) -> bool {
    finding.path.ends_with("ignorePreflightErrors")
}

#[test]
fn what_kubeadm_refuses_of_a_run_is_an_error_and_nothing_else_is() {
    let (mut missed, mut wrong, mut all) = (Vec::new(), Vec::new(), 0);
    for line in OPERATIONS.lines().filter(|line| !line.starts_with('#')) {
        let (document, verdict) = line.split_once('\t').expect("a verdict");
        let head = "{\"apiVersion\": \"kubeadm.k8s.io/v1beta4\", ";
        let inputs =
            read_inputs(&[("vector".to_owned(), document.replacen('{', head, 1))]).expect("a document");
        let mut found: Vec<DocumentFinding> =
            inputs.documents.iter().flat_map(|document| check(document, Some(36))).collect();
        found.retain(|finding| {
            finding.severity == FindingSeverity::Error && !is_refused_by_the_command(finding)
        });
        all += 1;
        match (found.is_empty(), verdict) {
            (true, "refused") => missed.push(line.to_owned()),
            (false, "ok") => wrong.push(format!("{line} {}", found[0].message)),
            _ => {}
        }
    }
    let (missed, wrong) = (missed.join("\n"), wrong.join("\n"));
    assert!(missed.is_empty() && wrong.is_empty(), "of {all}\nmissed:\n{missed}\nrefused:\n{wrong}");
}
