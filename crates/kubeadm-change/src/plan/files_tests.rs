//! Lines that issue certificates and kubeconfigs anew: what is in use stays until the new one was looked at, and files have the
//! plan's id.

use std::process::Command;

use serde_json::json;

use super::tests::{cluster, planned, planned_with};
use super::*;

const NAMES: [&str; 3] = [
    "apiServer.certSANs=[new.example]",
    "etcd.local.serverCertSANs=[s.example]",
    "etcd.local.peerCertSANs=[p.example]",
];

/// A cluster of 1.34, in which the kubelets' kubeconfigs can still be changed.
fn older() -> Inputs {
    let mut inputs = cluster(1, 0);
    let document = inputs.documents.iter_mut().find(|d| d.kind == DocumentKind::Cluster).expect("there");
    document.value["kubernetesVersion"] = json!("v1.34.2");
    inputs
}

fn lines(plan: &ChangePlan, id: StepId) -> Vec<&str> {
    let step = plan.steps.iter().find(|step| step.id == id).expect("a step");
    step.commands.iter().map(CommandLine::as_str).collect()
}

#[test]
fn what_is_in_use_stays_until_the_new_one_was_looked_at() {
    let certificates = planned(&cluster(2, 0), &NAMES);
    let kubeconfig =
        planned(&older(), &["ClusterConfiguration.featureGates.ControlPlaneKubeletLocalMode=true"]);
    for (plan, id) in [(&certificates, StepId::C1), (&certificates, StepId::C2), (&kubeconfig, StepId::F1)] {
        let lines = lines(plan, id);
        let first = |begin: &str| lines.iter().position(|line| line.starts_with(begin));
        let last = |begin: &str| lines.iter().rposition(|line| line.starts_with(begin));
        assert!(lines[0].starts_with("test -s /etc/kubernetes/pki/"), "the key first: {lines:#?}");
        let moved = first("mv -f ").expect("a move");
        assert!(last("kubeadm init phase ") < Some(moved) && last("test -s ") < Some(moved), "{lines:#?}");
        assert!(last("openssl verify ") < Some(moved), "{lines:#?}");
        for line in lines.iter().filter(|line| line.starts_with("rm ")) {
            assert!(line.contains(&format!("capstan-{}", plan.id)), "{line}");
        }
        let (restart, end) = (lines.last().expect("a line"), lines.len() - 1);
        assert!(
            restart.starts_with("crictl stop ") || restart.starts_with("systemctl restart "),
            "{restart}"
        );
        assert!(last("mv -f ") < Some(end), "{lines:#?}");
    }
    let script = certificates.steps.iter().find(|step| step.id == StepId::C1).expect("a step").script();
    let joined = script.lines().filter(|line| line.ends_with(" &&")).count();
    assert_eq!(joined + 1, script.lines().count(), "a line that fails stops the rest: {script}");
}

#[test]
fn a_line_that_fails_stops_the_rest() {
    let plan = planned(&cluster(1, 0), &NAMES[..1]);
    let step = plan.steps.iter().find(|step| step.id == StepId::C1).expect("a step");
    let said = |lines: &[&'static str]| {
        let commands = lines.iter().map(|line| CommandLine::of(line, [])).collect();
        let script = PlannedStep { commands, ..step.clone() }.script();
        let output = Command::new("sh").arg("-c").arg(&script).output().expect("a shell");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(said(&["true", "false || true", "true || false", "echo on"]), "on\n");
    assert_eq!(said(&["false", "test ! -e /etc || echo kept", "echo on"]), "", "also before an alternative");
    assert_eq!(
        said(&["true", "false || { echo no key; false; }", "true || echo kept", "echo on"]),
        "no key\n"
    );
}

#[test]
fn new_certificates_are_looked_at_for_the_names_that_are_new() {
    let plan = planned(
        &cluster(1, 0),
        &[&NAMES[..], &["apiServer.certSANs=[\"*.apps.example\", 192.0.2.7]"]].concat(),
    );
    let verified = |id| -> Vec<String> {
        let lines = lines(&plan, id);
        let lines = lines.iter().filter_map(|line| line.split_once(" -verify_").map(|(_, rest)| rest));
        lines.map(|rest| rest.replace(plan.id.as_str(), "PLAN")).collect()
    };
    let new = "/etc/kubernetes/pki/capstan-PLAN";
    assert_eq!(
        verified(StepId::C1),
        [
            format!("ip 10.0.0.1 {new}/apiserver.crt"),
            format!("hostname any.apps.example {new}/apiserver.crt"),
            format!("ip 192.0.2.7 {new}/apiserver.crt"),
            format!("hostname new.example {new}/apiserver.crt"),
        ]
    );
    assert_eq!(
        verified(StepId::C2),
        [
            format!("ip 10.0.0.1 {new}/etcd/server.crt"),
            format!("hostname s.example {new}/etcd/server.crt"),
            format!("ip 10.0.0.1 {new}/etcd/peer.crt"),
            format!("hostname p.example {new}/etcd/peer.crt"),
        ]
    );
    let authority = lines(&plan, StepId::C2);
    assert!(
        authority[0].starts_with("test -s /etc/kubernetes/pki/etcd/ca.key "),
        "etcd's own: {authority:#?}"
    );
}

#[test]
fn every_file_that_a_command_names_is_of_this_plan() {
    let sets = [
        &NAMES[..],
        &["imageRepository=r.example", "etcd.local.extraArgs[snapshot-count]=5000", "maxPods=60"],
    ];
    let plan = planned(&cluster(2, 1), &sets.concat());
    for step in &plan.steps {
        let config = step.commands.iter().filter_map(|line| line.as_str().split_once(" --config "));
        let paths: Vec<&str> = config.map(|(_, rest)| rest.split(' ').next().unwrap_or_default()).collect();
        let files: Vec<&str> = step.files.iter().map(|file| file.path.as_str()).collect();
        assert!(paths.iter().all(|path| files.contains(path)), "{:?}: {paths:?} of {files:?}", step.id);
        assert!(!files.is_empty() || paths.is_empty(), "{:?}", step.id);
        let named = step.commands.iter().flat_map(|line| line.as_str().split([' ', '\''])).filter(|word| {
            word.contains("/capstan")
                || word.starts_with("FILES/")
                || word.starts_with("/etc/kubernetes/tmp/")
        });
        for word in named.chain(files) {
            assert!(word.contains(plan.id.as_str()), "{:?}: {word}", step.id);
        }
    }
}

#[test]
fn nothing_is_signed_where_the_key_is_not() {
    let mut inputs = cluster(2, 0);
    for object in inputs
        .objects
        .iter_mut()
        .filter(|o| o["metadata"]["labels"]["component"] == "kube-controller-manager")
    {
        let command = object["spec"]["containers"][0]["command"].as_array_mut().expect("a list");
        let signing =
            |word: &Value| word.as_str().is_some_and(|w| w.starts_with("--cluster-signing-key-file="));
        command.retain(|word| !signing(word));
        command.push(json!("--cluster-signing-key-file="));
    }
    let plan = planned(&inputs, &["apiServer.certSANs=[x.example]"]);
    assert_eq!((plan.state, plan.steps.len()), (PlanState::Blocked, 0));
    let finding = &plan.changes[0].finding;
    let instead = finding.alternative.as_deref().unwrap_or_default();
    assert!(finding.message.contains("authority") && instead.contains("generate-csr"), "{finding:?}");
    let options = PlanOptions { force: true, acknowledged: true, ..PlanOptions::default() };
    let forced = planned_with(&inputs, &["apiServer.certSANs=[x.example]"], &options);
    assert_eq!(forced.state, PlanState::Ready, "who has signed it by hand may store the name");
    let first = lines(&forced, StepId::C1)[0];
    assert!(first.contains("/etc/kubernetes/pki/ca.key is not on this host"), "{first}");
    assert!(
        !planned(&inputs, &["apiServer.extraArgs[event-ttl]=2h"]).steps.is_empty(),
        "nothing is signed for it"
    );
}
