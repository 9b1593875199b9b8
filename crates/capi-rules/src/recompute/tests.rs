//! Dumps made here, computed.

use serde_json::{Value, json};

use super::compute::Computed;
use super::{all, kept};
use crate::observe::dump::document::{Document, Origin};
use crate::observe::dump::text::parse;
use crate::observe::dump::{Dump, Kind};
use crate::status::tests::witness;
use capstan_base::time::{Timestamp, parse_rfc3339};

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

fn dump(text: &str) -> Dump {
    let values = parse(text).expect("YAML");
    Dump::new(values.into_iter().map(|(_, value)| value.into()).collect())
}

pub(super) fn computed(text: &str) -> Vec<Computed> {
    all(&dump(text), now())
}

fn told<'a>(all: &'a [Computed], kind: Kind, type_: &str) -> (&'a str, &'a str, &'a str) {
    let one = all.iter().find(|c| c.kind == kind).expect("computed");
    let list = one.after["status"]["conditions"].as_array().expect("conditions");
    let c = list.iter().find(|c| c["type"] == type_).expect("the condition");
    let text = |field: &str| c[field].as_str().unwrap_or_default();
    (text("status"), text("reason"), text("message"))
}

pub(super) const CLUSTER: &str = "
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

pub(super) const MACHINE: &str = "
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

pub(super) const NODE: &str = "
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
        Some("Machine ns/m is not judged: its Cluster is not among the objects")
    );
    assert!(!all[0].differs());
    let odd = dump(
        "apiVersion: cluster.x-k8s.io/v1alpha4\nkind: Cluster\nmetadata: {name: old}\n---\n\
         apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: bad}\nspec: 3\n---\nkind: Odd\n---\n\
         kind: Secret\nmetadata: {name: s}\n---\nkind: Secret\nmetadata: {name: s}\n",
    );
    assert_eq!(
        odd.remarks[0],
        ":0: Cluster default/old is left out: it is in version v1alpha4; only v1beta2 and v1beta1 are computed"
    );
    assert!(odd.remarks[1].starts_with(":0: Machine default/bad is left out: "), "{}", odd.remarks[1]);
    assert_eq!(
        odd.remarks[2..],
        [
            ":0: this object has no metadata.name: left out".to_owned(),
            ":0: Secret default/s is also at :0: this one counts".to_owned(),
        ]
    );
}

#[test]
fn a_status_that_is_right_does_not_differ() {
    let text = format!("{CLUSTER}---{MACHINE}---{NODE}");
    // Levels settle one after the other; then nothing changes any more.
    let mut values: Vec<Value> = parse(&text).expect("YAML").into_iter().map(|(_, v)| v).collect();
    for _ in 0..4 {
        let before = values.clone();
        let found = Dump::new(values.iter().map(|v| v.clone().into()).collect());
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

/// One object of every kind, each with what it is judged by; `META` stands for more metadata.
const EVERYTHING: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: k, namespace: ns META}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: cp, namespace: ns, labels: {cluster.x-k8s.io/cluster-name: c} META}
spec: {replicas: 1, version: v1.34.1, machineTemplate: {spec: {infrastructureRef: {apiGroup: i, kind: T, name: t}}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: md, namespace: ns META}
spec:
  clusterName: c
  replicas: 0
  selector: {matchLabels: {a: b}}
  template: {spec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: i, kind: T, name: t}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {name: ms, namespace: ns META}
spec:
  clusterName: c
  replicas: 0
  selector: {matchLabels: {a: b}}
  template: {spec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: i, kind: T, name: t}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: mp, namespace: ns META}
spec:
  clusterName: c
  template: {spec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: i, kind: P, name: p}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: mhc, namespace: ns META}
spec: {clusterName: c, selector: {matchLabels: {x: z}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfig
metadata: {name: kc, namespace: ns, ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: m, uid: u}] META}
spec: {}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevCluster
metadata: {name: dc, namespace: ns, ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: c, uid: u}] META}
spec: {backend: {inMemory: {}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevMachine
metadata: {name: dm, namespace: ns, labels: {cluster.x-k8s.io/cluster-name: c},
  ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: m, uid: u, controller: true}] META}
spec: {backend: {inMemory: {}}}
";

fn everything(meta: &str) -> Vec<Computed> {
    let rest = format!("{CLUSTER}---{MACHINE}---{NODE}").replace("generation: 3}", "generation: 3 META}");
    let rest = rest.replace("cluster.x-k8s.io/cluster-name: c}}", "cluster.x-k8s.io/cluster-name: c} META}");
    let all = computed(&format!("{EVERYTHING}---{rest}").replace(" META", meta));
    let kinds: Vec<Kind> = all.iter().map(|c| c.kind).collect();
    assert_eq!(kinds, Kind::ALL, "one of each, in their order");
    assert_eq!(all.iter().filter_map(Computed::remark).collect::<Vec<_>>(), Vec::<String>::new());
    all
}

fn conditions(one: &Computed) -> Vec<capi_types::condition::Condition> {
    serde_json::from_value(one.after["status"]["conditions"].clone()).expect("conditions")
}

#[test]
fn every_kind_is_judged_and_says_whether_it_is_paused() {
    for one in everything("") {
        witness::expect(one.kind.name(), &conditions(&one), "Paused", ("False", "NotPaused", ""));
    }
    for one in everything(", annotations: {cluster.x-k8s.io/paused: ''}") {
        let message = format!("{} has the cluster.x-k8s.io/paused annotation", one.kind.name());
        witness::expect(one.kind.name(), &conditions(&one), "Paused", ("True", "Paused", &message));
        assert_eq!(one.kept, Vec::new(), "{}: a pause keeps everything", one.kind.name());
    }
}

fn remarks(all: &[Computed]) -> Vec<String> {
    kept::sentences(all.iter().flat_map(|c| c.kept.iter().map(|kept| (c.kind, &c.key, kept))))
}

#[test]
fn a_class_is_judged_by_the_definitions_of_its_templates() {
    const CLASS: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: k, namespace: ns, generation: 2}
spec:
  infrastructure: {templateRef: {apiVersion: g/v1beta1, kind: T, name: t}}
  controlPlane: {templateRef: {apiVersion: g/v1beta1, kind: T, name: t}}
  variables: [{name: b, required: true, schema: {openAPIV3Schema: {type: string}}}, {name: a, schema: {}}]
status: {conditions: [{type: RefVersionsUpToDate, status: 'True', reason: Old, message: '', lastTransitionTime: '2026-11-20T09:00:00Z'}]}
";
    let definition = |contract: &str| {
        format!(
            "{CLASS}---\nkind: CustomResourceDefinition\nmetadata: {{name: ts.g, labels: {{cluster.x-k8s.io/{contract}}}}}\nspec: {{group: g, names: {{kind: T}}}}\n"
        )
    };
    let all = computed(CLASS);
    assert_eq!(told(&all, Kind::ClusterClass, "RefVersionsUpToDate").1, "Old");
    assert_eq!(told(&all, Kind::ClusterClass, "VariablesReady"), ("True", "VariablesReady", ""));
    assert_eq!(
        all[0].after["status"]["variables"],
        json!([{"name": "a", "definitionsConflict": false, "definitions": [{"from": "inline", "schema": {}}]},
            {"name": "b", "definitionsConflict": false, "definitions": [{"from": "inline", "required": true, "schema": {"openAPIV3Schema": {"type": "string"}}}]}])
    );
    let why = "CustomResourceDefinitions of its templates are not in the dump";
    assert_eq!(remarks(&all), [format!("as stored: RefVersionsUpToDate of ClusterClass ns/k ({why})")]);
    let current = computed(&definition("v1beta2: v1beta1"));
    assert_eq!(told(&current, Kind::ClusterClass, "RefVersionsUpToDate").1, "RefVersionsUpToDate");
    assert_eq!(current[0].after["status"]["observedGeneration"], 2);
    let old = computed(&definition("v1beta2: v1beta1_v1beta2"));
    let text = "The following templateRefs are not using the latest apiVersion:\n* T t: current: v1beta1, latest: v1beta2";
    assert_eq!(
        told(&old, Kind::ClusterClass, "RefVersionsUpToDate"),
        ("False", "RefVersionsNotUpToDate", text)
    );
    let without = computed(&definition("v1alpha3: v1"));
    assert_eq!(told(&without, Kind::ClusterClass, "RefVersionsUpToDate").1, "InternalError");
    assert!(without[0].after["status"]["observedGeneration"].is_null(), "the run failed");
    let missing = format!(
        "{}---\napiVersion: g/v1beta1\nkind: T\nmetadata: {{name: other, namespace: ns}}\n",
        definition("v1beta2: v1beta1")
    );
    assert_eq!(told(&computed(&missing), Kind::ClusterClass, "RefVersionsUpToDate").1, "InternalError");
    let asks = CLASS.replace(
        "  variables:",
        "  patches: [{name: p, external: {discoverVariablesExtension: e}}]\n  variables:",
    );
    let all = computed(&asks);
    assert!(all[0].after["status"]["variables"].is_null());
    assert_eq!(remarks(&all).len(), 2, "{:?}", remarks(&all));
}

/// What its owner stored of a provider whose whole kind was left out is what it says.
#[test]
fn kinds_that_were_left_out_say_what_is_stored_of_them() {
    let stored = "
status:
  initialization: {infrastructureProvisioned: true}
  phase: Provisioned
  conditions:
  - {type: InfrastructureReady, status: 'False', reason: Broken, message: '* Disk: full', lastTransitionTime: '2026-11-20T09:00:00Z'}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: AnyMachine
";
    let with = MACHINE
        .replace("---\napiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: AnyMachine\n", stored);
    let (kept, _) = with.split_once("---").expect("two objects");
    let all = computed(&format!("{CLUSTER}---{kept}"));
    assert_eq!(told(&all, Kind::Machine, "InfrastructureReady"), ("False", "Broken", "* Disk: full"));
    assert_eq!(
        told(&all, Kind::Machine, "Ready").2,
        "* InfrastructureReady:\n  * Disk: full\n* NodeHealthy: Remote connection not established yet"
    );
    let why = "as stored: InfrastructureReady of Machine ns/m (AnyMachine objects are not in the dump)";
    assert!(remarks(&all).iter().any(|remark| remark == why), "{:?}", remarks(&all));
    // With one of its kind there it does not exist.
    let other = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: AnyMachine\nmetadata: {name: other, namespace: ns}\n";
    let all = computed(&format!("{CLUSTER}---{kept}---\n{other}"));
    assert_eq!(told(&all, Kind::Machine, "InfrastructureReady").1, "ObjectDeleted");
    // Nothing is stored of it: nothing is known.
    let all = computed(&format!("{CLUSTER}---{}", kept.split("status:").next().expect("a spec")));
    assert_eq!(told(&all, Kind::Machine, "InfrastructureReady").1, "InternalError");
}

const PLANE: &str = "
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: cp, namespace: ns, uid: kcp, labels: {cluster.x-k8s.io/cluster-name: c}}
spec: {replicas: 1, version: v1.34.1, machineTemplate: {spec: {infrastructureRef: {apiGroup: i, kind: T, name: t}}}}
status:
  initialization: {controlPlaneInitialized: true}
  conditions: [{type: Initialized, status: 'True', reason: Initialized, message: '', lastTransitionTime: '2026-11-20T09:00:00Z'}]
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata:
  {name: m, namespace: ns, labels: {cluster.x-k8s.io/cluster-name: c, cluster.x-k8s.io/control-plane: ''},
  ownerReferences: [{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, name: cp, uid: kcp, controller: true}]}
spec:
  {clusterName: c, version: v1.34.1, providerID: 'any://m', bootstrap: {dataSecretName: s},
  infrastructureRef: {apiGroup: i, kind: AnyMachine, name: m}}
status:
  nodeRef: {name: node-1}
  conditions:
  - {type: SchedulerPodHealthy, status: 'False', reason: Failed, message: CrashLoopBackOff, lastTransitionTime: '2026-11-20T09:00:00Z'}
  - {type: EtcdMemberHealthy, status: 'False', reason: NotHealthy, message: 'Etcd reports alarms: NOSPACE', lastTransitionTime: '2026-11-20T09:00:00Z'}
";

#[test]
fn what_etcd_and_missing_pods_would_say_is_not_guessed() {
    let scheduler = ("False", "Failed", "CrashLoopBackOff");
    let alarm = ("False", "NotHealthy", "Etcd reports alarms: NOSPACE");
    let nodes = computed(&format!("{CLUSTER}---{PLANE}---{NODE}"));
    assert_eq!(told(&nodes, Kind::Machine, "SchedulerPodHealthy"), scheduler);
    assert_eq!(told(&nodes, Kind::Machine, "EtcdMemberHealthy"), alarm);
    let why = "as stored: NodeKubeadmLabelsAndTaintsSet and 4 pod conditions of Machine ns/m (kube-system Pods of Cluster ns/c are not in the dump)";
    assert!(remarks(&nodes).iter().any(|remark| remark == why), "{:#?}", remarks(&nodes));
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: kube-apiserver-node-1, namespace: kube-system}\nspec: {nodeName: node-1, containers: []}\n";
    let pods = computed(&format!("{CLUSTER}---{PLANE}---{NODE}---\n{pod}"));
    assert_eq!(told(&pods, Kind::Machine, "SchedulerPodHealthy").1, "DoesNotExist");
    assert_eq!(told(&pods, Kind::Machine, "EtcdMemberHealthy"), alarm);
    let etcd = told(&pods, Kind::KubeadmControlPlane, "EtcdClusterHealthy");
    assert_eq!(
        etcd,
        ("False", "NotHealthy", "* Machine m:\n  * EtcdMemberHealthy: Etcd reports alarms: NOSPACE")
    );
    let unknown = PLANE.replace(
        "status: 'False', reason: NotHealthy, message: 'Etcd reports alarms: NOSPACE'",
        "status: Unknown, reason: InspectionFailed, message: 'Failed to connect to etcd: refused'",
    );
    let blind = computed(&format!("{CLUSTER}---{unknown}---{NODE}---\n{pod}"));
    assert_eq!(told(&blind, Kind::KubeadmControlPlane, "Available").2, "Failed to get etcd members");
}

#[test]
fn kinds_of_other_groups_are_other_kinds() {
    let other = "apiVersion: postgresql.cnpg.io/v1\nkind: Cluster\nmetadata: {name: c, namespace: ns}\nspec: {instances: 3}\n";
    let found = dump(&format!("{CLUSTER}---\n{other}"));
    assert_eq!(found.remarks, Vec::<String>::new());
    let all = all(&found, now());
    assert_eq!(all.len(), 1);
    assert!(all[0].before["spec"]["instances"].is_null());
}

#[test]
fn places_are_named() {
    let documents = parse(&format!(
        "{NODE}---{NODE}---\nkind: Secret\nmetadata: {{name: s}}\n---\nkind: Secret\nmetadata: {{name: s}}\n---\n3\n"
    ));
    let documents = documents.expect("YAML").into_iter().map(|(line, value)| Document {
        origin: Origin { file: "f.yaml".to_owned(), line, item: None },
        ..Document::from(value)
    });
    assert_eq!(
        Dump::new(documents.collect()).remarks,
        [
            "f.yaml:30: Secret default/s is also at f.yaml:27: this one counts",
            "f.yaml:33: an object was expected, with apiVersion, kind and metadata.name: left out",
            "f.yaml:14: Node node-1 was there before: this one counts",
        ]
    );
}

#[test]
fn a_remediation_template_and_its_requests_are_looked_up() {
    let check = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: mhc, namespace: ns}
spec:
  clusterName: c
  selector: {matchLabels: {cluster.x-k8s.io/cluster-name: c}}
  remediation: {templateRef: {apiVersion: fix.io/v1, kind: FixTemplate, name: t}}
";
    let marked = MACHINE.replace(
        "cluster.x-k8s.io/cluster-name: c}}",
        "cluster.x-k8s.io/cluster-name: c}, annotations: {cluster.x-k8s.io/remediate-machine: ''}}",
    );
    let with = |more: &str| {
        let all = computed(&format!("{CLUSTER}---{marked}---{NODE}---{check}{more}"));
        let machine = all.iter().find(|c| c.kind == Kind::Machine).map(conditions).expect("computed");
        machine.into_iter().find(|c| c.type_ == "ExternallyRemediated").map(|c| c.reason)
    };
    assert_eq!(
        with("").as_deref(),
        Some("WaitingForRemediation"),
        "a kind that was left out counts as there"
    );
    let request = "---\napiVersion: fix.io/v1\nkind: Fix\nmetadata: {name: m, namespace: ns}\n";
    assert_eq!(with(request), None, "it was asked for before");
    let other = "---\napiVersion: fix.io/v1\nkind: FixTemplate\nmetadata: {name: other, namespace: ns}\n";
    assert_eq!(with(other), None, "without a template nothing is written");
}
