//! What the deletion of a Machine is judged by, from a dump: pods, MachineDrainRules, storage. Must not
//! judge it.
//!
//! Evictions are not in a dump: of the pods that are due, the refusals in the stored message are
//! believed, and when it does not name them all, the stored condition is repeated. So it is when Nodes,
//! Pods or PersistentVolumes were left out and it speaks of them. Namespaces and DaemonSets that pods
//! name exist.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::de::DeserializeOwned;

use super::document::key_of;
use super::dump::Dump;
use super::observe::{last_seen, namespace};
use super::workload::Workload;
use crate::api::condition::{Conditioned as _, find};
use crate::api::key::{ObjectKey, controller_of};
use crate::api::machine_drain_rule::MachineDrainRule;
use crate::api::names::CORE_GROUP;
use crate::status::drain::volumes::Storage;
use crate::status::drain::{Tenants, refusals};
use crate::status::machine::deletion::{Stage, borrowed_id, drain_applies, leaving_node, stage};
use crate::status::machine::{NodeReading, Observed, StorageReading, TenantsReading};
use crate::time::Timestamp;

impl Dump {
    /// Adds what the deletion of a Machine asks for.
    pub fn observe_deletion(&self, observed: &mut Observed, now: Timestamp) {
        if !observed.is_deleting() {
            return;
        }
        if let Some(workload) = self.workload(&ObjectKey::of(observed.cluster.as_ref())) {
            self.observe_node(observed, workload, now);
        }
        observed.told_deletion = told(observed).filter(|told| self.is_believed(observed, told, now)).cloned();
    }

    fn observe_node(&self, observed: &mut Observed, workload: &Workload, now: Timestamp) {
        observed.named_node = named_node(observed, workload);
        let Some(node) = observed.node_name() else { return };
        // Without Pods nobody can say whether the drain is over.
        let drains = told(observed).is_some_and(|c| is_of(c, &["Deleting", "DrainingNode"]));
        if !(drains && workload.pods.is_empty() && drain_applies(observed, now)) {
            observed.tenants = self.tenants(namespace(observed.cluster.as_ref()), workload, node);
        }
        observed.evictions = told(observed).map(|c| refusals(&c.message)).unwrap_or_default();
        observed.storage = self.storage();
    }

    /// The stored condition knows more of the present stage than the dump does.
    fn is_believed(&self, observed: &Observed, told: &Condition, now: Timestamp) -> bool {
        // Out of reach, though nobody says that the connection is down.
        let left_out =
            *leaving_node(observed) == NodeReading::NotConnected && last_seen(&observed.cluster).is_none();
        let reasons: &[&str] = match stage(observed, now) {
            Stage::DrainFailed(_) | Stage::VolumesUnknown(_) if left_out => {
                &["Deleting", "DrainingNode", "WaitingForVolumeDetach"]
            }
            Stage::Drain(None) => &["Deleting", "DrainingNode"],
            Stage::Drain(Some(drain)) if !drain.evict.is_empty() => &["DrainingNode"],
            Stage::VolumeDetach(_) if !self.has_kind("", "PersistentVolume") => &["WaitingForVolumeDetach"],
            Stage::Node if left_out => &["DeletingNode"],
            _ => &[],
        };
        is_of(told, reasons)
    }

    fn tenants(&self, namespace: &str, workload: &Workload, node: &str) -> TenantsReading {
        let pods = workload.pods_on(node);
        let named = |name: &String| {
            let labels = [("kubernetes.io/metadata.name".to_owned(), name.clone())];
            (name.clone(), BTreeMap::from(labels))
        };
        let namespaces = pods.iter().filter_map(|pod| pod.metadata.namespace.as_ref()).map(named).collect();
        let daemon_sets = pods
            .iter()
            .filter_map(|pod| {
                let owner = controller_of(pod).filter(|owner| owner.kind == "DaemonSet")?;
                Some(ObjectKey::new(ObjectKey::of(pod).namespace, &owner.name))
            })
            .collect();
        let rules = self.decoded::<MachineDrainRule>(CORE_GROUP, "MachineDrainRule", Some(namespace));
        let rules = rules.map(|rules| rules.into_iter().map(Arc::new).collect());
        TenantsReading::Known(Box::new(Tenants { pods, rules, namespaces: Ok(namespaces), daemon_sets }))
    }

    fn storage(&self) -> StorageReading {
        let volumes = self.decoded("", "PersistentVolume", None);
        let attachments = self.decoded("storage.k8s.io", "VolumeAttachment", None);
        StorageReading::Known(Box::new(Storage { attachments, volumes }))
    }

    /// All objects of a kind, or those of one namespace.
    fn decoded<K: DeserializeOwned>(
        &self,
        group: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> Result<Vec<K>, String> {
        let here = self.all(group, kind).filter(|(key, _)| namespace.is_none_or(|ns| key.namespace == ns));
        here.map(|(_, value)| {
            serde_json::from_value(value.clone())
                .map_err(|error| format!("{kind} {}: {error}", key_of(value)))
        })
        .collect()
    }
}

/// The stored condition of a deletion that has begun.
fn told(observed: &Observed) -> Option<&Condition> {
    find(observed.machine.conditions(), "Deleting").filter(|c| c.status == "True")
}

fn named_node(observed: &Observed, workload: &Workload) -> NodeReading {
    let of = |node: Option<&Node>| node.map(|node| NodeReading::Found(Box::new(node.clone())));
    if let Some(id) = borrowed_id(observed) {
        let mut found = workload.nodes_with(id);
        return of(found.next().filter(|_| found.next().is_none())).unwrap_or_default();
    }
    let found = observed.node.found().and_then(|node| node.metadata.name.as_deref());
    match observed.node_name().filter(|name| found != Some(*name)) {
        Some(name) => of(workload.nodes.get(name)).unwrap_or(NodeReading::NotFound),
        None => NodeReading::NotAsked,
    }
}

fn is_of(condition: &Condition, reasons: &[&str]) -> bool {
    reasons.contains(&condition.reason.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::compute::Computed;
    use super::super::dump::Kind;
    use super::super::tests::{CLUSTER, MACHINE, NODE, computed};

    /// A deleting worker whose drain is told by its stored condition, and what runs on its Node.
    fn draining(reason: &str, message: &str, pods: &str) -> String {
        let going = MACHINE.replace("labels:", "deletionTimestamp: '2026-11-20T09:50:00Z', labels:").replace(
            "kind: AnyMachine\nmetadata: {name: m,",
            "kind: AnyMachine\nmetadata: {name: m, uid: u,",
        );
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
        let told = format!("{HEAD}\n* Pod web/a: {budget}");
        let expected = format!(
            "{HEAD}\n* Pod web/going: deletionTimestamp set, but still not removed from the Node\n* Pod web/a: {budget}\n\
         * Pod web/job: waiting for completion\n\
         After above Pods have been removed from the Node, the following Pods will be evicted: web/db"
        );
        let of = |message: &str, more: &str| {
            deleting_of(&draining("DrainingNode", message, &format!("{pods}{more}")))
        };
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

    const VOLUME: &str = "---\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {claimRef: {kind: PersistentVolumeClaim, \
                          namespace: web, name: data}}\n";
    const ATTACHMENT: &str = "---\napiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {name: a}\nspec: {attacher: d, \
                              nodeName: node-1, source: {persistentVolumeName: v}}\nstatus: {attached: true}\n";

    #[test]
    fn volumes_are_judged_when_they_are_there() {
        const WAITS: &str = "WaitingForVolumeDetach";
        const HEAD: &str = "Waiting for Node volumes to be detached (started at 2026-11-20T10:00:00Z)";
        let told = format!("{HEAD}\n* PersistentVolumeClaims: web/x");
        let of = |reason: &str, more: &str| deleting_of(&draining(reason, &told, more));
        assert_eq!(of(WAITS, ATTACHMENT), (WAITS.to_owned(), told.clone()), "volumes were left out");
        let unknown =
            "* VolumeAttachment with .spec.source.persistentVolumeName not matching a PersistentVolume: v";
        let hooked = of("WaitingForPreDrainHook", ATTACHMENT);
        assert_eq!(hooked, (WAITS.to_owned(), format!("{HEAD}\n{unknown}")), "nothing was told of them");
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
        let alone = |reason: &str| draining(reason, "as told", "").replace(NODE, "");
        let skipping = |reason: &str| {
            let skip = "labels: {cluster.x-k8s.io/cluster-name: c}, annotations: {machine.cluster.x-k8s.io/exclude-node-draining: ''}";
            alone(reason).replacen("labels: {cluster.x-k8s.io/cluster-name: c}", skip, 1)
        };
        for (text, reason, message) in [
            (alone("DrainingNode"), "DrainingNode", "as told".to_owned()),
            (lost(&alone("DrainingNode")), "DrainingNode", error("draining Node")),
            (alone("WaitingForPreDrainHook"), "DrainingNode", error("draining Node")),
            (skipping("WaitingForVolumeDetach"), "WaitingForVolumeDetach", "as told".to_owned()),
            (
                lost(&skipping("WaitingForVolumeDetach")),
                "WaitingForVolumeDetach",
                error("waiting for volumes to be detached from Node"),
            ),
            (gone(&alone("DeletingNode")), "DeletingNode", "as told".to_owned()),
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
}
