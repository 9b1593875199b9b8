//! Files in Cluster API's v1beta1, as many published templates are: planned, simulated and computed as v1beta2, and said to be.

use capstan::cli::args::{Cli, Command};
use capstan_base::time::{Timestamp, parse_rfc3339};
use capstan_commands::output::Style;
use capstan_commands::{plan, simulate, status_compute};
use clap::Parser as _;

/// Of no provider: shapes that templates of several have.
const TEMPLATE: &str = r#"
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: alpha, namespace: default}
spec:
  clusterNetwork: {pods: {cidrBlocks: [10.45.0.0/16]}}
  controlPlaneRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlane, name: alpha-cp}
  infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DockerCluster, name: alpha}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DockerCluster
metadata: {name: alpha, namespace: default}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlane
metadata: {name: alpha-cp, namespace: default}
spec:
  replicas: 1
  version: v1.31.0
  machineTemplate:
    nodeDrainTimeout: 5m
    infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DockerMachineTemplate, name: alpha-cp}
  kubeadmConfigSpec:
    clusterConfiguration:
      apiServer: {timeoutForControlPlane: 4m, extraArgs: {audit-log-maxage: "10"}}
    joinConfiguration: {nodeRegistration: {kubeletExtraArgs: {eviction-hard: nodefs.available<0%}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DockerMachineTemplate
metadata: {name: alpha-cp, namespace: default}
spec: {template: {spec: {}}}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineDeployment
metadata: {name: alpha-md-0, namespace: default}
spec:
  clusterName: alpha
  replicas: 2
  minReadySeconds: 5
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, deletePolicy: Oldest}}
  selector: {matchLabels: {pool: a}}
  template:
    metadata: {labels: {pool: a}}
    spec:
      clusterName: alpha
      version: v1.31.0
      nodeDrainTimeout: 30s
      bootstrap: {configRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta1, kind: KubeadmConfigTemplate, name: alpha-md-0}}
      infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DockerMachineTemplate, name: alpha-cp}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta1
kind: KubeadmConfigTemplate
metadata: {name: alpha-md-0, namespace: default}
spec: {template: {spec: {joinConfiguration: {nodeRegistration: {kubeletExtraArgs: {v: "2"}}}}}}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata: {name: alpha, namespace: default}
spec:
  clusterName: alpha
  maxUnhealthy: 40%
  selector: {matchLabels: {pool: a}}
  unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}]
"#;

const READ: &str = "5 objects of v1beta1 read as v1beta2, by Cluster API's own conversion";

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

fn command(line: &str) -> Command {
    let words = std::iter::once("capstan").chain(line.split(' '));
    Cli::try_parse_from(words).expect("arguments").command.expect("a command")
}

fn file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("template.yaml");
    std::fs::write(&path, TEMPLATE).expect("written");
    let path = path.display().to_string();
    (folder, path)
}

fn assert_read(remarks: &[String]) {
    assert!(remarks.iter().any(|remark| remark == READ), "{remarks:?}");
    assert!(!remarks.iter().any(|remark| remark.contains("left out")), "{remarks:?}");
}

/// Six of twelve published templates were refused, object by object.
#[test]
fn templates_of_the_older_version_are_planned() {
    let (_folder, path) = file();
    let Command::Plan(args) = command(&format!("plan -f {path}")) else { panic!("plan") };
    let answer = plan::from_files(&args, None, now(), Style::default()).expect("a plan");
    assert_read(&answer.remarks);
    for object in ["Cluster", "KubeadmControlPlane", "MachineDeployment"] {
        assert!(answer.document.contains(object), "{object}: {}", answer.document);
    }
}

#[test]
fn templates_of_the_older_version_come_up_in_a_simulation() {
    let (_folder, path) = file();
    let Command::Simulate(args) = command(&format!("simulate -f {path}")) else { panic!("simulate") };
    let answer = simulate::from_files(&args, None, now(), Style::default()).expect("a simulation");
    assert_read(&answer.remarks);
    assert!(answer.document.contains("alpha-md-0"), "{}", answer.document);
}

#[test]
fn templates_of_the_older_version_have_a_status_and_are_printed_as_the_newer_one() {
    let (_folder, path) = file();
    let Command::Status(args) = command(&format!("status compute -f {path}")) else { panic!("status") };
    let capstan::cli::args::StatusCommand::Compute(args) = args;
    let answer = status_compute::run(&args, now(), Style::default()).expect("statuses");
    assert_read(&answer.remarks);
    assert!(!answer.document.contains("apiVersion: cluster.x-k8s.io/v1beta1"), "{}", answer.document);
    for field in
        ["nodeDrainTimeoutSeconds: 30", "order: Oldest", "minReadySeconds: 5", "name: audit-log-maxage"]
    {
        assert!(answer.document.contains(field), "{field}: {}", answer.document);
    }
}
