//! The observed values of a dump, with what controllers do before they judge: adoption, a label, preflight. Must not
//! judge them.

use crate::observe::dump::Dump;
use crate::observe::{self, Member, Templates, namespace};
use crate::plan::control_plane::{Decision, decide};
use crate::plan::machine_set::{self as planned, preflight::Preflight};
use crate::plan::opening::followed_set;
use crate::status::conditions::wording::PREFLIGHT_FAILED;
use crate::status::{cluster, machine_deployment, machine_set};
use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned as _, find};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::ObjectKey;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capstan_base::time::Timestamp;

use super::class::class_gates;

/// Everything a Cluster is judged by.
pub(super) fn cluster(dump: &Dump, key: &ObjectKey, cluster: &Cluster, now: Timestamp) -> cluster::Observed {
    let probe = dump.probe(key, cluster, now);
    let class_gates = class_gates(dump, key, cluster);
    cluster::Observed { class_gates, ..observe::cluster(dump, cluster, probe) }
}

/// The pass over a control plane as its controller would make it; `None` without its Cluster.
pub(super) fn control_plane_pass(
    dump: &Dump,
    key: &ObjectKey,
    object: &KubeadmControlPlane,
    now: Timestamp,
) -> Option<Decision> {
    let mut decision = decide(dump.control_plane(key, object)?, now);
    if dump.secrets(&key.namespace).is_empty() {
        // Secrets were left out with good reason, so the stored condition is the better knowledge.
        decision.pass.conditions.retain(|c| c.type_ != "CertificatesAvailable");
    }
    Some(decision)
}

/// Everything a MachineSet is judged by, and whether the pass reaches its end; `None` without its Cluster.
pub(super) fn machine_set(dump: &Dump, set: &MachineSet) -> Option<(machine_set::Observed, bool)> {
    let cluster = dump.clusters.get(&ObjectKey::new(namespace(set), &set.spec.cluster_name))?;
    // Its controller adds the label before it selects.
    let set = followed_set(set, cluster);
    let machines: Vec<_> =
        observe::machines_of_set(dump, &set).into_iter().map(Member::into_object).collect();
    let makes = planned::makes_machines(&set, machines.len());
    let templates = Templates::of(dump, namespace(&set), &set.spec.template.spec);
    let mut observed = observe::machine_set(dump, &set, cluster, machines, &templates, Vec::new());
    let is_left_out = dump.left_out(cluster.spec.control_plane_ref.as_ref());
    if is_left_out {
        // Without the control plane object nothing can be checked, and a failure would be invented.
        observed.preflight = Preflight::default();
    }
    let complete = planned::is_complete(&observed);
    let mut judged = planned::judged(observed);
    if is_left_out && makes {
        judged.preflight = reported_preflight(&set);
    }
    Some((judged, complete))
}

/// The checks that failed when the set was last looked at, from its stored condition.
fn reported_preflight(set: &MachineSet) -> Vec<String> {
    let stored = find(set.conditions(), "ScalingUp").map(|c| c.message.as_str()).unwrap_or_default();
    let lines = stored.lines().filter_map(|line| line.strip_prefix("* "));
    lines.filter(|line| line.ends_with(PREFLIGHT_FAILED)).map(str::to_owned).collect()
}

/// Everything a MachineDeployment is judged by.
pub(super) fn machine_deployment(
    dump: &Dump,
    deployment: &MachineDeployment,
) -> machine_deployment::Observed {
    let sets = observe::machine_sets_of(dump, deployment).into_iter().map(Member::into_object).collect();
    let templates = Templates::of_deployment(dump, deployment);
    observe::machine_deployment(dump, deployment, sets, &templates)
}
