//! A change of a running kubeadm cluster, planned from files: what it means, what it reaches, and the steps.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::error::Error;

use kubeadm_change::change_id::ChangeId;
use kubeadm_change::document::{InputError, read_inputs};
use kubeadm_change::facts::ClusterFacts;
use kubeadm_change::plan::{PlanOptions, plan};
use kubeadm_change::report::as_text;
use kubeadm_change::request::{PatchKind, RequestPart, apply};

/// What `kubectl get configmap -n kube-system kubeadm-config -o yaml` and `kubectl get nodes -o yaml` would say.
const STORED: &str = r#"
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.1
networking: {podSubnet: 10.244.0.0/16}
apiServer:
  extraArgs:
  - {name: profiling, value: "false"}
---
apiVersion: v1
kind: Node
metadata: {name: cp-0, labels: {node-role.kubernetes.io/control-plane: ""}}
status: {addresses: [{type: InternalIP, address: 192.168.1.10}]}
---
apiVersion: v1
kind: Node
metadata: {name: worker-0}
"#;

fn report() -> Result<String, Box<dyn Error>> {
    let inputs = read_inputs(&[("cluster.yaml".to_owned(), STORED.to_owned())]).map_err(sentence)?;
    let request = [RequestPart::Set("apiServer.extraArgs[max-requests-inflight].value=800".to_owned())];
    let mut target = apply(&inputs, &request, PatchKind::default()).map_err(sentence)?;
    // Without an id the plan has one of its own, made of the stored versions, the request and the rules.
    let id = Some(ChangeId::try_from("0123456789ab".to_owned())?);
    let options = PlanOptions { id, files: "files".to_owned(), ..PlanOptions::default() };
    let plan = plan(&inputs, &mut target, &options)?;
    Ok(as_text(&plan, &ClusterFacts::read(&inputs)))
}

fn sentence(errors: Vec<InputError>) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", report()?);
    Ok(())
}

#[cfg(test)]
#[test]
fn it_prints_what_the_readme_shows() {
    let printed = report().expect("a plan");
    assert!(include_str!("../README.md").contains(&printed), "README.md does not show:\n{printed}");
}
