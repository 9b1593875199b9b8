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
        let key = first("test -s /etc/kubernetes/pki/");
        let is_back = |line: &str| line.starts_with("test ! -e /etc/kubernetes/tmp/");
        assert!(key == Some(0) || key == Some(1) && is_back(lines[0]), "the key first: {lines:#?}");
        let moved = first("mv -f ").expect("a move");
        assert!(last("kubeadm init phase ") < Some(moved) && last("test -s ") < Some(moved), "{lines:#?}");
        assert!(last("openssl verify ") < Some(moved), "{lines:#?}");
        for line in lines.iter().filter(|line| line.starts_with("rm ")) {
            assert!(line.contains(&format!("capstan-{}", plan.id)), "{line}");
        }
        let (restart, end) = (lines.last().expect("a line"), lines.len() - 1);
        assert!(
            restart.starts_with("mv -f /etc/kubernetes/manifests/")
                || restart.starts_with("systemctl restart "),
            "{restart}"
        );
        assert!(last("mv -f /etc/kubernetes/pki/") < Some(end), "{lines:#?}");
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
        authority[1].starts_with("test -s /etc/kubernetes/pki/etcd/ca.key "),
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
        // All plans, of which those of long ago are removed.
        let named = named.filter(|word| *word != "/etc/kubernetes/tmp/capstan-*");
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
    let options =
        PlanOptions { force: true, acknowledged: Acknowledged::Everything, ..PlanOptions::default() };
    let forced = planned_with(&inputs, &["apiServer.certSANs=[x.example]"], &options);
    assert_eq!(forced.state, PlanState::Ready, "who has signed it by hand may store the name");
    let lines_of_step = lines(&forced, StepId::C1);
    let signs = lines_of_step.iter().position(|line| line.starts_with("kubeadm ")).expect("a signature");
    let says = |line: &&str| line.contains("/etc/kubernetes/pki/ca.key is not on this host");
    assert!(lines_of_step[..signs].iter().any(says), "{lines_of_step:#?}");
    assert!(
        !planned(&inputs, &["apiServer.extraArgs[event-ttl]=2h"]).steps.is_empty(),
        "nothing is signed for it"
    );
}

/// Runs a line in a shell, with `crictl` as a script says it, and folders of this test in place of those of the host.
fn run(line: &str, folder: &std::path::Path, program: (&str, &str)) -> std::process::Output {
    let programs = folder.join("bin");
    std::fs::create_dir_all(&programs).expect("a folder");
    let file = programs.join(program.0);
    std::fs::write(&file, format!("#!/bin/sh\ncd {}\n{}\n", folder.display(), program.1)).expect("a script");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it may run");
    let line = line.replace("/etc/kubernetes/", &format!("{}/", folder.display()));
    let path = format!("{}:/usr/bin:/bin", programs.display());
    Command::new("sh").arg("-c").arg(line).env("PATH", path).output().expect("a shell")
}

#[test]
fn a_restart_moves_the_manifest_away_until_the_container_is_gone() {
    let plan = planned(&cluster(1, 0), &NAMES[..1]);
    let lines = lines(&plan, StepId::C1);
    let (back, restart) = (lines[0], *lines.last().expect("a line"));
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join(format!("tmp/capstan-{}", plan.id));
    let manifests = folder.path().join("manifests");
    let manifest = manifests.join("kube-apiserver.yaml");
    std::fs::create_dir_all(&kept).expect("a folder");
    std::fs::create_dir_all(&manifests).expect("a folder");
    std::fs::write(&manifest, "pod").expect("a manifest");
    // The container runs while its manifest is there, and once more after that.
    let crictl =
        "[ -e manifests/kube-apiserver.yaml ] && touch was-there; [ -e seen ] || { touch seen; echo 0a; }";
    let output = run(restart, folder.path(), ("crictl", crictl));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read_to_string(&manifest).expect("it is back"), "pod");
    let was = |name: &str| folder.path().join(name).exists();
    assert!(was("seen") && !was("was-there"), "it is away while the container is looked at");

    std::fs::rename(&manifest, kept.join("kube-apiserver-restarts.yaml")).expect("an interrupted restart");
    assert!(run(back, folder.path(), ("crictl", "")).status.success());
    assert_eq!(std::fs::read_to_string(&manifest).expect("it is back"), "pod");
    std::fs::write(kept.join("kube-apiserver-restarts.yaml"), "old").expect("a copy that was left");
    assert!(run(back, folder.path(), ("crictl", "")).status.success());
    assert_eq!(std::fs::read_to_string(&manifest).expect("what is there stays"), "pod");
}

#[test]
fn a_kubelet_that_does_not_come_up_has_the_last_word() {
    let plan = planned(&cluster(1, 0), &["maxPods=60"]);
    let line = *lines(&plan, StepId::K1).last().expect("a line");
    let folder = tempfile::tempdir().expect("a folder");
    assert!(run(line, folder.path(), ("curl", "exit 0")).status.success());
    std::fs::write(folder.path().join("bin/journalctl"), "#!/bin/sh\necho maxPods is wrong\n")
        .expect("a script");
    let journal = folder.path().join("bin/journalctl");
    std::fs::set_permissions(&journal, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("it may run");
    let output = run(&line.replace("timeout 30", "timeout 1"), folder.path(), ("curl", "exit 7"));
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(1), b"maxPods is wrong\n".as_slice()));
    let silent = planned(&cluster(1, 0), &["healthzPort=0"]);
    assert_eq!(lines(&silent, StepId::K1).last(), Some(&"systemctl restart kubelet"));
}

#[test]
fn one_restart_is_enough_for_a_certificate_and_a_manifest() {
    for (name, flag, ids) in [
        (NAMES[0], "apiServer.extraArgs[event-ttl]=2h", [StepId::C1, StepId::M1]),
        (NAMES[1], "etcd.local.extraArgs[snapshot-count]=20000", [StepId::C2, StepId::E1]),
    ] {
        let [certificates, manifest] = ids;
        let plan = planned(&cluster(3, 0), &[name, flag]);
        let steps: Vec<&PlannedStep> = plan.steps.iter().filter(|step| step.does(certificates)).collect();
        assert_eq!(steps.len(), 3, "one for each node");
        for step in steps {
            assert_eq!((step.id, step.joined), (manifest, Some(certificates)));
            let at = |begin: &str| step.commands.iter().position(|line| line.as_str().starts_with(begin));
            let last = step.commands.len() - 1;
            let moved = step.commands.iter().rposition(|line| line.as_str().starts_with("mv -f "));
            assert!(
                at("test -s /etc/kubernetes/pki/") == Some(0) && moved < Some(last),
                "{:#?}",
                step.commands
            );
            assert!(!step.script().contains("mv -f /etc/kubernetes/manifests/"), "{}", step.script());
            assert!(step.commands[last].as_str().starts_with("kubeadm "), "the manifest comes last");
            assert!(step.check.contains("TLS handshake") && step.undo.contains("kept files"), "{step:#?}");
            assert!(step.files.iter().any(|file| file.path.ends_with("-pki.yaml")), "{:?}", step.files);
        }
        assert_eq!(plan.steps_of(certificates).count(), 3);
    }
    let other = planned(&cluster(2, 0), &[NAMES[0], "scheduler.extraArgs[v]=4"]);
    let ids: Vec<StepId> =
        other.steps.iter().map(|step| step.id).filter(|id| id.restarts_control_plane()).collect();
    assert_eq!(ids, [StepId::C1, StepId::M1, StepId::C1, StepId::M1], "the manifest of another component");
}
