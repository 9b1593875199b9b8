//! Dumps made here, computed.

use serde_json::json;

use super::compute::all;
use super::dump::{Document, Kind};
use super::*;
use crate::time::parse_rfc3339;

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

fn dump(text: &str) -> Dump {
    let values = read::parse(text).expect("YAML");
    Dump::new(values.into_iter().map(|value| Document { value, workload: None }).collect())
}

fn computed(text: &str) -> Vec<Computed> {
    all(&dump(text), now())
}

fn told<'a>(all: &'a [Computed], kind: Kind, type_: &str) -> (&'a str, &'a str, &'a str) {
    let one = all.iter().find(|c| c.kind == kind).expect("computed");
    let list = one.after["status"]["conditions"].as_array().expect("conditions");
    let c = list.iter().find(|c| c["type"] == type_).expect("the condition");
    let text = |field: &str| c[field].as_str().unwrap_or_default();
    (text("status"), text("reason"), text("message"))
}

const CLUSTER: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c, namespace: ns, generation: 3}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AnyCluster, name: c}
  controlPlaneEndpoint: {host: h, port: 6443}
status:
  initialization: {infrastructureProvisioned: true}
  conditions:
  - {type: ControlPlaneInitialized, status: 'True', reason: Initialized, message: '', lastTransitionTime: '2026-11-20T09:00:00Z'}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: AnyCluster
metadata: {name: c, namespace: ns}
status: {ready: true, failureDomains: {b: {controlPlane: true}, a: {}}}
";

const MACHINE: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m, namespace: ns, labels: {cluster.x-k8s.io/cluster-name: c}}
spec:
  clusterName: c
  providerID: any://m
  bootstrap: {dataSecretName: s}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AnyMachine, name: m}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: AnyMachine
metadata: {name: m, namespace: ns}
spec: {providerID: 'any://m'}
status: {ready: true}
";

const NODE: &str = "
apiVersion: v1
kind: Node
metadata:
  name: node-1
  annotations: {cluster.x-k8s.io/cluster-name: c, cluster.x-k8s.io/cluster-namespace: ns}
spec: {providerID: 'any://m'}
status:
  conditions:
  - {type: Ready, status: 'False', message: kubelet stopped}
  - {type: MemoryPressure, status: 'False'}
  - {type: DiskPressure, status: 'False'}
  - {type: PIDPressure, status: 'False'}
";

#[test]
fn providers_on_the_older_contract_and_their_nodes_are_read() {
    let all = computed(&format!("{CLUSTER}---{MACHINE}---{NODE}"));
    assert_eq!(told(&all, Kind::Cluster, "InfrastructureReady"), ("True", "Ready", ""));
    assert_eq!(told(&all, Kind::Cluster, "RemoteConnectionProbe"), ("True", "ProbeSucceeded", ""));
    let domains = &all[0].after["status"]["failureDomains"];
    assert_eq!(*domains, json!([{"name": "a", "controlPlane": false}, {"name": "b", "controlPlane": true}]));
    assert_eq!(
        told(&all, Kind::Machine, "NodeHealthy"),
        ("False", "NodeNotHealthy", "* Node.Ready: kubelet stopped")
    );
    assert_eq!(all[1].after["status"]["nodeRef"]["name"], "node-1");
    assert!(all.iter().all(|c| c.remark().is_none()));
}

#[test]
fn a_definition_decides_which_contract_counts() {
    let definition = |contract: &str| {
        format!(
            "{CLUSTER}---\nkind: CustomResourceDefinition\nmetadata: {{name: anyclusters.infrastructure.cluster.x-k8s.io, \
             labels: {{cluster.x-k8s.io/{contract}: v1beta1}}}}\n\
             spec: {{group: infrastructure.cluster.x-k8s.io, names: {{kind: AnyCluster}}}}\n"
        )
    };
    // Its own flag is sticky, so that the fall-back is true either way; the failure domains tell.
    let of = |text: &str| computed(text)[0].after["status"]["failureDomains"].clone();
    assert!(of(&definition("v1beta1")).is_array());
    assert!(of(&definition("v1beta2")).is_null(), "status.initialization.provisioned is not there");
    let all = computed(&definition("v1alpha3"));
    assert_eq!(told(&all, Kind::Cluster, "InfrastructureReady").1, "InternalError");
}

#[test]
fn what_is_not_in_the_dump_does_not_exist_unless_its_whole_kind_was_left_out() {
    let all =
        computed(&format!("{CLUSTER}---{MACHINE}").replace("kind: AnyMachine\n", "kind: OtherMachine\n"));
    assert_eq!(told(&all, Kind::Machine, "InfrastructureReady").1, "InternalError");
    let renamed =
        MACHINE.replace("kind: AnyMachine\nmetadata: {name: m,", "kind: AnyMachine\nmetadata: {name: other,");
    let all = computed(&format!("{CLUSTER}---{renamed}"));
    assert_eq!(
        told(&all, Kind::Machine, "InfrastructureReady"),
        ("False", "ObjectDoesNotExist", "AnyMachine does not exist")
    );
}

#[test]
fn paused_objects_keep_what_they_have() {
    let paused = CLUSTER.replace("spec:\n  infra", "spec:\n  paused: true\n  infra");
    let all = computed(&format!("{paused}---{MACHINE}"));
    assert_eq!(told(&all, Kind::Machine, "Paused"), ("True", "Paused", "Cluster spec.paused is set to true"));
    let machine = &all[1].after["status"];
    assert_eq!(machine.as_object().map(serde_json::Map::len), Some(1), "nothing but the condition");
    assert_eq!(machine["conditions"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_cannot_be_judged_keeps_its_status_and_says_why() {
    let all = computed(MACHINE);
    assert_eq!(
        all[0].remark().as_deref(),
        Some("Machine ns/m keeps its status: its Cluster is not among the objects")
    );
    assert!(!all[0].differs());
    let odd = dump(
        "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: old}\n---\n\
         apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: bad}\nspec: 3\n---\nkind: Odd\n---\n\
         kind: Secret\nmetadata: {name: s}\n---\nkind: Secret\nmetadata: {name: s}\n",
    );
    assert_eq!(
        odd.remarks[0],
        "Cluster default/old is left out: it is in version v1beta1; only v1beta2 is computed"
    );
    assert!(odd.remarks[1].starts_with("Machine default/bad is left out: "), "{}", odd.remarks[1]);
    assert_eq!(
        odd.remarks[2..],
        [
            "a document is no object: it has no kind or no name".to_owned(),
            "Secret default/s is there more than once: the last one counts".to_owned(),
        ]
    );
}

#[test]
fn a_status_that_is_right_does_not_differ() {
    let text = format!("{CLUSTER}---{MACHINE}---{NODE}");
    // Levels settle one after the other; then nothing changes any more.
    let mut values = read::parse(&text).expect("YAML");
    for _ in 0..4 {
        let before = values.clone();
        let found = Dump::new(values.iter().map(|v| Document { value: v.clone(), workload: None }).collect());
        for c in all(&found, now()) {
            let slot = values.iter_mut().find(|v| v["kind"] == c.kind.name()).expect("there");
            *slot = c.after;
        }
        if values == before {
            return;
        }
    }
    panic!("it did not settle");
}
