//! What happens next to a MachineDeployment, and why, from YAML alone: its template asks for another Kubernetes version
//! than its MachineSet has.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::error::Error;

use capi_rules::observe::dump::Dump;
use capi_rules::observe::dump::document::{Document, Origin};
use capi_rules::observe::dump::text::{flatten, parse};
use capi_rules::observe::{Member, Templates, machine_sets_of};
use capi_rules::plan::machine_deployment::{Observed, plan};
use capi_rules::status::in_place::InPlace;
use capstan_base::time::parse_rfc3339;

const OBJECTS: &str = "\
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: { name: md-0, namespace: default, uid: d, labels: { cluster.x-k8s.io/cluster-name: harbor } }
spec:
  clusterName: harbor
  replicas: 3
  rollout: { strategy: { type: RollingUpdate, rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } } }
  selector: { matchLabels: { pool: md-0 } }
  template:
    metadata: { labels: { pool: md-0, cluster.x-k8s.io/cluster-name: harbor } }
    spec:
      clusterName: harbor
      version: v1.36.1
      bootstrap: { configRef: { apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: small } }
      infrastructureRef: { apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: small }
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata:
  name: md-0-old
  namespace: default
  uid: s
  labels: { pool: md-0, cluster.x-k8s.io/cluster-name: harbor }
  annotations: { machinedeployment.clusters.x-k8s.io/revision: '1' }
  ownerReferences:
  - { apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, name: md-0, uid: d, controller: true }
spec:
  clusterName: harbor
  replicas: 3
  selector: { matchLabels: { pool: md-0 } }
  template:
    metadata: { labels: { pool: md-0, cluster.x-k8s.io/cluster-name: harbor } }
    spec:
      clusterName: harbor
      version: v1.35.4
      bootstrap: { configRef: { apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: small } }
      infrastructureRef: { apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: small }
status: { replicas: 3, readyReplicas: 3, availableReplicas: 3 }
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: { name: small, namespace: default }
spec: { template: { spec: {} } }
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevMachineTemplate
metadata: { name: small, namespace: default }
spec: { template: { spec: { backend: { inMemory: {} } } } }
";

fn next(text: &str) -> Result<String, Box<dyn Error>> {
    let mut documents: Vec<Document> = Vec::new();
    for (line, value) in parse(text)? {
        let origin = Origin { file: "objects.yaml".to_owned(), line, item: None };
        flatten(value, &origin, None, &mut documents);
    }
    let dump = Dump::new(documents);
    let now = parse_rfc3339("2026-11-28T12:00:00Z").ok_or("a moment")?;

    let mut lines = dump.remarks.clone();
    for deployment in dump.machine_deployments.values() {
        let observed = Observed {
            deployment: deployment.as_ref().clone(),
            sets: machine_sets_of(&dump, deployment).into_iter().map(Member::into_object).collect(),
            missing_templates: Templates::of_deployment(&dump, deployment).missing,
            suffix: "abcde".to_owned(),
            machines: Vec::new(),
            in_place: InPlace::Off,
        };
        let plan = plan(&observed, now);
        for step in &plan.steps {
            lines.push(format!("{}: {}", step.reason.rule, step.reason));
            lines.extend(step.writes.iter().map(|write| format!("  {write}")));
        }
        lines.extend(plan.blockers.iter().map(|blocker| format!("not yet: {blocker}")));
    }
    Ok(lines.join("\n") + "\n")
}

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", next(OBJECTS)?);
    Ok(())
}

#[cfg(test)]
#[test]
fn it_prints_what_the_readme_shows() {
    let printed = next(OBJECTS).expect("a plan");
    assert!(include_str!("../README.md").contains(&printed), "README.md does not show:\n{printed}");
}
