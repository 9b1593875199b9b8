//! How far a leader migration is, from manifests alone: two control plane nodes of which one takes part already.

#![allow(clippy::print_stdout, reason = "a program for people")]

use leader_migration::inventory::Inventory;
use leader_migration::look::MigrationScope;
use leader_migration::process::Process;
use leader_migration::rights::questions;
use leader_migration::stages::{Situation, Walkthrough};
use leader_migration::validate::{ClusterFacts, RightFact, validate};
use serde_json::{Value, json};

const FILE: &str = "\
apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: cloud-provider-extraction-migration
controllerLeaders:
  - { name: route, component: kube-controller-manager }
  - { name: service, component: kube-controller-manager }
  - { name: cloud-node-lifecycle, component: kube-controller-manager }
";

fn manifest(node: &str, flags: &[&str]) -> Value {
    let command: Vec<&str> =
        ["kube-controller-manager", "--cloud-provider=gce"].iter().chain(flags).copied().collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("kube-controller-manager-{node}"), "namespace": "kube-system" },
        "spec": { "nodeName": node, "containers": [{
            "name": "kube-controller-manager",
            "image": "registry.k8s.io/kube-controller-manager:v1.27.4",
            "command": command,
            "volumeMounts": [{ "name": "migration", "mountPath": "/etc/kubernetes/leader-migration.yaml" }],
        }] },
    })
}

fn processes(file: &str) -> Vec<Process> {
    let mut inventory = Inventory::default();
    inventory.file("leader-migration.yaml", file);
    let on = ["--enable-leader-migration", "--leader-migration-config=/etc/kubernetes/leader-migration.yaml"];
    inventory.objects("manifests", &[manifest("cp-0", &on), manifest("cp-1", &[])]);
    // What cannot be described, such as an image without a release in its tag, is the second list.
    inventory.processes().0
}

/// What a cluster shows: here only that both programs may write the migration Lease.
fn facts() -> ClusterFacts {
    let scope = MigrationScope::default();
    let asked = questions(&scope.subjects, &scope.namespace, &scope.leader_name).into_iter();
    let rights = asked.map(|question| RightFact { question, allowed: Some(true) }).collect();
    ClusterFacts { rights, ..ClusterFacts::default() }
}

fn report() -> String {
    let scope = MigrationScope::default();
    let lock = (scope.namespace, scope.leader_name);
    let situation = Situation { processes: processes(FILE), facts: facts(), lock, ..Situation::default() };
    let mut lines = Vec::new();
    if let Walkthrough::Stages(stages) = situation.judge() {
        for report in stages {
            let state = format!("{} {}", report.state.word(), report.state.reason());
            lines.push(format!("{:?}: {}", report.stage, state.trim_end()));
        }
    }
    lines.push("\nWith a name that only later releases know:".to_owned());
    for finding in validate(&processes(&FILE.replace("route", "node-route-controller")), &facts()) {
        lines.push(format!("{} {}: {}", finding.code, finding.severity.word(), finding.problem));
        lines.push(format!("  effect: {}", finding.effect()));
        lines.push(format!("  remedy: {}", finding.remedy()));
    }
    lines.join("\n") + "\n"
}

fn main() {
    print!("{}", report());
}

#[cfg(test)]
#[test]
fn it_prints_what_the_readme_shows() {
    let printed = report();
    assert!(include_str!("../README.md").contains(&printed), "README.md does not show:\n{printed}");
}
