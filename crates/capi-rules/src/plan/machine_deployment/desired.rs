//! MachineSets as the deployment wants them stored, replicas aside. Pure.
//! Source: cluster-api `core/reconcilers/machinedeployment/machinedeployment_sync.go`
//! (`computeDesiredMachineSet`), v1.14.2 (MD-D1).
//! Intended differences: of the finalizers only the own one is applied (upstream repeats those that it read); the
//! selector and the template get the label of the Cluster, as a MachineSet gives itself: both would write it in turn
//! on a server without upstream's defaulting.

use std::collections::BTreeMap;

use crate::plan::naming::with_suffix;
use crate::plan::ownership::owner;
use crate::status::machine_deployment::{is_on_delete, max_surge};
use capi_types::key::annotation;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::{MachineSet, MachineTemplate};
use capi_types::names::{self, annotation as keys, label};
use capi_types::reference::TemplateMeta;
use capstan_base::time::{Timestamp, from_k8s};

/// Annotations of the deployment that are about itself.
const OWN_ANNOTATIONS: [&str; 6] = [
    keys::LAST_APPLIED,
    keys::REVISION,
    keys::REVISION_HISTORY,
    keys::DESIRED_REPLICAS,
    keys::MAX_REPLICAS,
    "cluster.x-k8s.io/conversion-data",
];

pub(super) fn created(set: Option<&MachineSet>) -> Option<Timestamp> {
    set?.metadata.creation_timestamp.as_ref().map(from_k8s)
}

/// A MachineSet that does not exist yet, without replicas.
pub(super) fn new_set(
    deployment: &MachineDeployment,
    suffix: &str,
    old: &[std::sync::Arc<MachineSet>],
) -> MachineSet {
    let mut set = MachineSet::default();
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    set.metadata.name = Some(with_suffix(name, suffix));
    set.spec.template.spec = deployment.spec.template.spec.clone();
    // The suffix keeps labels apart where two templates hash alike, or a template comes back.
    let hash = format!("{}-{suffix}", template_hash(&deployment.spec.template));
    fill(&mut set, deployment, &hash);
    mark_current(&mut set, old);
    set
}

/// What belongs to the deployment of the MachineSet that carries the template now.
pub(super) fn current_set(
    deployment: &MachineDeployment,
    live: &MachineSet,
    old: &[std::sync::Arc<MachineSet>],
) -> MachineSet {
    let mut set = kept(deployment, live);
    mark_current(&mut set, old);
    set
}

/// The same of a MachineSet on its way out; it makes no Machines under `OnDelete`.
pub(super) fn old_set(deployment: &MachineDeployment, live: &MachineSet) -> MachineSet {
    let mut set = kept(deployment, live);
    // Under `OnDelete` a Machine deleted by hand would come back with the old template.
    let create = if is_on_delete(deployment) { "true" } else { "false" };
    annotate(&mut set, keys::DISABLE_MACHINE_CREATE, create.to_owned());
    set
}

fn kept(deployment: &MachineDeployment, live: &MachineSet) -> MachineSet {
    let mut set = MachineSet::default();
    set.metadata.name.clone_from(&live.metadata.name);
    // The live template stays: an apply is forced, and
    // would turn an old MachineSet into the new one.
    set.spec.template.spec = live.spec.template.spec.clone();
    // An apply takes away what it leaves out, and the history of revisions would be lost.
    for key in [keys::REVISION, keys::REVISION_HISTORY] {
        if let Some(value) = annotation(live, key) {
            annotate(&mut set, key, value.to_owned());
        }
    }
    let hash = capi_types::key::label(live, label::MACHINE_TEMPLATE_HASH).unwrap_or_default().to_owned();
    fill(&mut set, deployment, &hash);
    set
}

/// Everything that follows the deployment without a rollout.
fn fill(set: &mut MachineSet, deployment: &MachineDeployment, hash: &str) {
    let template = deployment.spec.template.metadata.clone().unwrap_or_default();
    let hash_label = (label::MACHINE_TEMPLATE_HASH.to_owned(), hash.to_owned());
    let cluster_label = (label::CLUSTER_NAME.to_owned(), deployment.spec.cluster_name.clone());
    let mut template_labels = template.labels.clone();
    template_labels.extend([hash_label.clone(), cluster_label.clone()]);

    set.metadata.namespace.clone_from(&deployment.metadata.namespace);
    set.metadata.finalizers = Some(vec![names::finalizer::MACHINE_SET.to_owned()]);
    set.metadata.owner_references = Some(vec![owner(deployment, true)]);
    let labels = set.metadata.labels.get_or_insert_default();
    labels.extend(template_labels.clone());
    let name = deployment.metadata.name.clone().unwrap_or_default();
    labels.insert(label::DEPLOYMENT_NAME.to_owned(), name);
    set.metadata.annotations.get_or_insert_default().extend(passed_on(deployment));

    let replicas = deployment.spec.replicas.unwrap_or(1);
    annotate(set, keys::DESIRED_REPLICAS, replicas.to_string());
    annotate(set, keys::MAX_REPLICAS, (replicas + max_surge(deployment)).to_string());

    let spec = &mut set.spec;
    spec.cluster_name.clone_from(&deployment.spec.cluster_name);
    spec.deletion.clone_from(&deployment.spec.deletion);
    spec.machine_naming.clone_from(&deployment.spec.machine_naming);
    spec.selector = deployment.spec.selector.clone();
    // Without the hash the selector would match the Machines of the other MachineSets too.
    spec.selector.match_labels.get_or_insert_default().extend([hash_label, cluster_label]);
    spec.template.metadata =
        Some(TemplateMeta { annotations: template.annotations, labels: template_labels });
    let wanted = &deployment.spec.template.spec;
    let machine = &mut spec.template.spec;
    machine.cluster_name.clone_from(&deployment.spec.cluster_name);
    machine.min_ready_seconds = wanted.min_ready_seconds;
    machine.readiness_gates.clone_from(&wanted.readiness_gates);
    machine.deletion.clone_from(&wanted.deletion);
    machine.taints.clone_from(&wanted.taints);
}

fn passed_on(deployment: &MachineDeployment) -> BTreeMap<String, String> {
    let all = deployment.metadata.annotations.clone().unwrap_or_default();
    all.into_iter().filter(|(key, _)| !OWN_ANNOTATIONS.contains(&key.as_str())).collect()
}

pub(super) fn annotate(set: &mut MachineSet, key: &str, value: String) {
    set.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value);
}

/// One more than the highest old revision, never lower than its own; the one it had is remembered.
fn mark_current(set: &mut MachineSet, old: &[std::sync::Arc<MachineSet>]) {
    let own = revision(set);
    let next = old.iter().map(|s| revision(s)).max().unwrap_or(0) + 1;
    annotate(set, keys::DISABLE_MACHINE_CREATE, "false".to_owned());
    // A revision that is the highest already stays: each pass would raise it once more.
    if next <= own {
        return;
    }
    if own > 0 {
        let mut history = annotation(set, keys::REVISION_HISTORY).unwrap_or_default().to_owned();
        if !history.is_empty() {
            history.push(',');
        }
        history.push_str(&own.to_string());
        annotate(set, keys::REVISION_HISTORY, history);
    }
    annotate(set, keys::REVISION, next.to_string());
}

/// 0 when it has none, or one that is not a number.
fn revision(set: &MachineSet) -> i64 {
    annotation(set, keys::REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// 32-bit FNV-1a of the template without labels and annotations. Only part of a label, never a decision.
fn template_hash(template: &MachineTemplate) -> u32 {
    let text = serde_json::to_string(&template.spec).unwrap_or_default();
    text.bytes().fold(0x811c_9dc5, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193))
}
