//! The dashboard over files: what somebody else's fleet looked like, without a server.

use portable_pty::CommandBuilder;
use serde_json::{Value, json};

use crate::standalone::BINARY;
use crate::terminal::Pty;

fn object(kind: &str, name: &str, spec: Value, conditions: &[(&str, &str, &str, &str)]) -> Value {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(type_, status, reason, message)| {
            json!({"type": type_, "status": status, "reason": reason, "message": message,
                   "lastTransitionTime": "2026-11-20T11:00:00Z"})
        })
        .collect();
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {"name": name, "namespace": "prod", "uid": format!("uid-{kind}-{name}"), "generation": 1,
                     "creationTimestamp": "2026-11-20T09:00:00Z", "labels": {"cluster.x-k8s.io/cluster-name": "edge"}},
        "spec": spec, "status": {"observedGeneration": 1, "conditions": conditions,
            "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true}},
    })
}

fn bundle() -> Value {
    let down = ("NodeHealthy", "False", "NodeNotHealthy", "* Node.Ready: container runtime is down");
    json!({"apiVersion": "v1", "kind": "List", "items": [
        object("Cluster", "edge", json!({}), &[("Available", "False", "NotAvailable", "* WorkersAvailable: 0 of 1")]),
        object("Machine", "edge-md-0-x", json!({"clusterName": "edge", "version": "v1.35.1"}), &[down]),
        {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "prod"}, "type": "Warning",
         "involvedObject": {"kind": "Machine", "namespace": "prod", "name": "edge-md-0-x"},
         "reason": "RuntimeDown", "message": "the runtime does not answer", "lastTimestamp": "2026-11-20T12:00:00Z"},
    ]})
}

#[test]
fn a_bundle_is_looked_through_and_nothing_can_be_changed() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("bundle.json");
    std::fs::write(&file, bundle().to_string()).expect("a file");
    let mut command = CommandBuilder::new(BINARY);
    command.args(["dashboard", "-f", file.to_str().expect("a path")]);
    command.env("HOME", dir.path());
    command.env("TERM", "xterm-256color");
    let mut screen = Pty::open(command);
    // Ages are those of the moment at which it was written.
    screen.shows("after 2026-11-20T12:00:00Z");
    screen.shows("recorded");
    screen.shows("edge");
    screen.press("w");
    screen.shows("container runtime is down");
    screen.shows("1h");
    screen.press("2");
    screen.shows("kind: Machine");
    screen.press("3");
    screen.shows("RuntimeDown");
    screen.press("p");
    screen.shows("read-only");
    screen.press("\u{3}");
    screen.end();
}

/// What stands still looks young by the last moment in the files, and as old as it is by the moment that is given.
#[test]
fn the_moment_of_a_bundle_can_be_given() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = dir.path().join("bundle/namespaces/prod");
    std::fs::create_dir_all(&below).expect("folders");
    std::fs::write(below.join("objects.json"), bundle().to_string()).expect("a file");
    let mut command = CommandBuilder::new(BINARY);
    let folder = dir.path().join("bundle");
    command.args(["dashboard", "-f", folder.to_str().expect("a path"), "--now", "2026-11-22T12:00:00Z"]);
    command.env("HOME", dir.path());
    command.env("TERM", "xterm-256color");
    let mut screen = Pty::open(command);
    screen.shows("as of 2026-11-22T12:00:00Z");
    screen.shows("edge");
    screen.press("w");
    screen.shows("2d");
    screen.press("\u{3}");
    screen.end();
}

#[test]
fn what_cannot_be_shown_is_said_before_the_screen_is_taken() {
    for (file, part) in
        [("-", "standard input is where the keys come from"), ("/nowhere/x.yaml", "/nowhere/x.yaml")]
    {
        let output =
            std::process::Command::new(BINARY).args(["dashboard", "-f", file]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{said}");
    }
}
