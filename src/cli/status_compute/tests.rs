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

/// A deleting worker whose drain is told by its stored condition, and what runs on its Node.
fn draining(reason: &str, message: &str, pods: &str) -> String {
    let going = MACHINE
        .replace("labels:", "deletionTimestamp: '2026-11-20T09:50:00Z', labels:")
        .replace("kind: AnyMachine\nmetadata: {name: m,", "kind: AnyMachine\nmetadata: {name: m, uid: u,");
    let status = format!(
        "\nstatus:\n  nodeRef: {{name: node-1}}\n  deletion: {{nodeDrainStartTime: '2026-11-20T09:51:00Z'}}\n  conditions:\n  - \
         {{type: Deleting, status: 'True', reason: {reason}, message: {message:?}, lastTransitionTime: \
         '2026-11-20T09:50:00Z'}}\n---\n"
    );
    let (machine, host) = going.split_once("\n---\n").expect("two documents");
    let machine = format!("{machine}{status}{host}");
    let leader = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: cp, namespace: ns, labels: \
                  {cluster.x-k8s.io/cluster-name: c, cluster.x-k8s.io/control-plane: ''}}\nspec: {clusterName: c, \
                  bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: \
                  AnyMachine, name: cp}}\n";
    format!("{CLUSTER}---{machine}---\n{leader}---{NODE}{pods}")
}

fn deleting_of(text: &str) -> (String, String) {
    let all = computed(text);
    let machine = all.iter().find(|c| c.kind == Kind::Machine && c.key.name == "m").expect("the Machine");
    let list = machine.after["status"]["conditions"].as_array().expect("conditions");
    let c = list.iter().find(|c| c["type"] == "Deleting").expect("Deleting");
    let text = |field: &str| c[field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

#[test]
fn a_drain_is_judged_by_pods_rules_and_the_refusals_that_were_told() {
    const HEAD: &str = "Drain not completed yet (started at 2026-11-20T09:51:00Z):";
    let pod = |name: &str, more: &str| {
        format!(
            "---\nkind: Pod\nmetadata: {{name: {name}, namespace: web, {more}}}\nspec: {{nodeName: node-1, containers: []}}\n"
        )
    };
    let rule = "---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDrainRule\nmetadata: {name: last, namespace: ns}\nspec: \
                {drain: {behavior: Drain, order: 9}, pods: [{selector: {matchLabels: {tier: db}}}]}\n";
    let pods = [
        pod("a", ""),
        pod("going", "deletionTimestamp: '2026-11-20T09:55:00Z'"),
        pod("db", "labels: {tier: db}"),
        pod("job", "labels: {cluster.x-k8s.io/drain: wait-completed}"),
    ]
    .concat();
    let budget = "cannot evict pod as it would violate the pod's disruption budget.";
    let told = format!("{HEAD}\n* Pod web/a: {budget}");
    let expected = format!(
        "{HEAD}\n* Pod web/going: deletionTimestamp set, but still not removed from the Node\n* Pod web/a: {budget}\n\
         * Pod web/job: waiting for completion\n\
         After above Pods have been removed from the Node, the following Pods will be evicted: web/db"
    );
    let of =
        |message: &str, more: &str| deleting_of(&draining("DrainingNode", message, &format!("{pods}{more}")));
    assert_eq!(of(&told, rule), ("DrainingNode".to_owned(), expected));
    let silent = format!("{HEAD}\n* Pod web/b: {budget}");
    assert_eq!(
        of(&silent, rule),
        ("DrainingNode".to_owned(), silent.clone()),
        "nobody knows what became of web/a"
    );
    let broken = rule.replace("behavior: Drain", "behavior: 5");
    assert_eq!(
        of(&told, &broken),
        (
            "DrainingNode".to_owned(),
            "Error draining Node, please check controller logs for errors".to_owned()
        )
    );
}

#[test]
fn volumes_are_judged_when_they_are_there() {
    let told = "Waiting for Node volumes to be detached (started at 2026-11-20T09:52:00Z)\n* PersistentVolumeClaims: web/x";
    let of = |more: &str| deleting_of(&draining("WaitingForVolumeDetach", told, more));
    let attachment = "---\nkind: VolumeAttachment\nmetadata: {name: a}\nspec: {attacher: d, nodeName: node-1, source: \
                      {persistentVolumeName: v}}\nstatus: {attached: true}\n";
    assert_eq!(of(attachment).1, told, "volumes were left out");
    let volume = "---\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {claimRef: {kind: PersistentVolumeClaim, namespace: \
                  web, name: data}}\n";
    assert_eq!(
        of(&format!("{attachment}{volume}")),
        (
            "WaitingForVolumeDetach".to_owned(),
            "Waiting for Node volumes to be detached (started at 2026-11-20T10:00:00Z)\n* PersistentVolumeClaims: web/data"
                .to_owned()
        )
    );
    assert_eq!(of("").0, "WaitingForInfrastructureDeletion", "nothing is attached");
}
