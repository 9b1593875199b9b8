//! What a dump says of a Machine on its way out, computed.

use super::Computed;
use super::tests::{CLUSTER, MACHINE, NODE, computed};
use crate::observe::dump::Kind;

/// A deleting worker whose drain its stored condition describes, and what runs on its Node.
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
    condition(
        all.iter().find(|c| c.kind == Kind::Machine && c.key.name == "m").expect("the Machine"),
        "Deleting",
    )
}

fn condition(computed: &Computed, type_: &str) -> (String, String) {
    let list = computed.after["status"]["conditions"].as_array().expect("conditions");
    let c = list.iter().find(|c| c["type"] == type_).expect("the condition");
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
    let message = format!("{HEAD}\n* Pod web/a: {budget}");
    let expected = format!(
        "{HEAD}\n* Pod web/going: deletionTimestamp set, but still not removed from the Node\n* Pod web/a: {budget}\n\
     * Pod web/job: waiting for completion\n\
     After above Pods have been removed from the Node, the following Pods will be evicted: web/db"
    );
    let of =
        |message: &str, more: &str| deleting_of(&draining("DrainingNode", message, &format!("{pods}{more}")));
    assert_eq!(of(&message, rule), ("DrainingNode".to_owned(), expected));
    let silent = format!("{HEAD}\n* Pod web/b: {budget}");
    assert_eq!(
        of(&silent, rule),
        ("DrainingNode".to_owned(), silent.clone()),
        "what became of web/a is not known"
    );
    let broken = rule.replace("behavior: Drain", "behavior: 5");
    assert_eq!(
        of(&message, &broken),
        (
            "DrainingNode".to_owned(),
            "Error draining Node, please check controller logs for errors".to_owned()
        )
    );
}

const VOLUME: &str = "---\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {claimRef: {kind: PersistentVolumeClaim, \
                      namespace: web, name: data}}\n";
const ATTACHMENT: &str = "---\napiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {name: a}\nspec: {attacher: d, \
                          nodeName: node-1, source: {persistentVolumeName: v}}\nstatus: {attached: true}\n";

#[test]
fn volumes_are_judged_when_they_are_there() {
    const WAITS: &str = "WaitingForVolumeDetach";
    const HEAD: &str = "Waiting for Node volumes to be detached (started at 2026-11-20T10:00:00Z)";
    let message = format!("{HEAD}\n* PersistentVolumeClaims: web/x");
    let of = |reason: &str, more: &str| deleting_of(&draining(reason, &message, more));
    assert_eq!(of(WAITS, ATTACHMENT), (WAITS.to_owned(), message.clone()), "volumes were left out");
    let unknown =
        "* VolumeAttachment with .spec.source.persistentVolumeName not matching a PersistentVolume: v";
    let hooked = of("WaitingForPreDrainHook", ATTACHMENT);
    assert_eq!(hooked, (WAITS.to_owned(), format!("{HEAD}\n{unknown}")), "they were not observed");
    let known = of(WAITS, &format!("{ATTACHMENT}{VOLUME}"));
    assert_eq!(known, (WAITS.to_owned(), format!("{HEAD}\n* PersistentVolumeClaims: web/data")));
    assert_eq!(of(WAITS, "").0, "WaitingForInfrastructureDeletion", "nothing is attached");
}

#[test]
fn a_node_that_was_left_out_is_not_one_that_is_out_of_reach() {
    let lost = |text: &str| {
        let probe = "- {type: RemoteConnectionProbe, status: 'False', reason: ProbeFailed, message: Remote connection \
                     probe failed, lastTransitionTime: '2026-11-20T09:00:00Z'}";
        text.replacen("conditions:\n", &format!("conditions:\n  {probe}\n"), 1)
    };
    let error = |what: &str| format!("Error {what}, please check controller logs for errors");
    let gone = |text: &str| {
        text.replace("kind: AnyMachine\nmetadata: {name: m,", "kind: AnyMachine\nmetadata: {name: other,")
    };
    let alone = |reason: &str| draining(reason, "as stored", "").replace(NODE, "");
    let skipping = |reason: &str| {
        let skip = "labels: {cluster.x-k8s.io/cluster-name: c}, annotations: {machine.cluster.x-k8s.io/exclude-node-draining: ''}";
        alone(reason).replacen("labels: {cluster.x-k8s.io/cluster-name: c}", skip, 1)
    };
    for (text, reason, message) in [
        (alone("DrainingNode"), "DrainingNode", "as stored".to_owned()),
        (lost(&alone("DrainingNode")), "DrainingNode", error("draining Node")),
        (alone("WaitingForPreDrainHook"), "DrainingNode", error("draining Node")),
        (skipping("WaitingForVolumeDetach"), "WaitingForVolumeDetach", "as stored".to_owned()),
        (
            lost(&skipping("WaitingForVolumeDetach")),
            "WaitingForVolumeDetach",
            error("waiting for volumes to be detached from Node"),
        ),
        (gone(&alone("DeletingNode")), "DeletingNode", "as stored".to_owned()),
        (gone(&lost(&alone("DeletingNode"))), "DeletingNode", error("deleting Node")),
    ] {
        assert_eq!(deleting_of(&text), (reason.to_owned(), message), "{text}");
    }
}

#[test]
fn a_deletion_finds_the_node_by_the_infrastructure() {
    let text = draining("WaitingForPreDrainHook", "", "")
        .replace("  providerID: any://m\n", "")
        .replace("  nodeRef: {name: node-1}\n", "")
        // Not provisioned: its ID is not taken over.
        .replace(
            "status: {ready: true}\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine",
            "status: {}\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine",
        );
    let all = computed(&text);
    let machine = all.iter().find(|c| c.kind == Kind::Machine && c.key.name == "m").expect("the Machine");
    assert_eq!(machine.after["status"]["nodeRef"]["name"], "node-1");
    let ready = condition(machine, "NodeReady");
    assert_eq!(ready, ("NodeDeleted".to_owned(), "Node node-1 has been deleted".to_owned()));
}
