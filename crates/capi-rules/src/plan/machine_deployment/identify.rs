//! Which MachineSet carries the deployment's template, and which are old. Pure.
//! Source: cluster-api `mdutil.FindNewAndOldMachineSets`, v1.14.2 (MD-3).

use std::cmp::Reverse;
use std::sync::Arc;

use super::desired::created;
use crate::status::machine_template::differences;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capstan_base::time::{Timestamp, from_k8s, rfc3339};

/// The split, and why a MachineSet must be created when there is no current one.
#[derive(Clone, Debug)]
pub(super) struct Identified {
    pub(super) current: Option<Arc<MachineSet>>,
    /// Most replicas first, then older, then by name; with whether its Machines may be updated in place.
    pub(super) old: Vec<(Arc<MachineSet>, bool)>,
    pub(super) create_reason: Option<String>,
}

pub(super) fn identify(
    deployment: &MachineDeployment,
    sets: &[Arc<MachineSet>],
    now: Timestamp,
) -> Identified {
    // The first that matches becomes current: the one with most replicas needs the fewest moves.
    let mut sorted = sets.to_vec();
    sorted
        .sort_by_key(|s| (Reverse(s.spec.replicas.unwrap_or(0)), created(Some(s)), s.metadata.name.clone()));
    // Reached: only MachineSets made since then may be current.
    let not_before = deployment
        .spec
        .rollout
        .as_ref()
        .and_then(|r| r.after.as_ref())
        .map(from_k8s)
        .filter(|after| *after <= now);
    let mut outdated = Vec::new();
    let mut current = None;
    let mut old = Vec::new();
    for set in sorted {
        let found = differences(&set.spec.template.spec, &deployment.spec.template.spec);
        let recent = not_before.is_none_or(|after| created(Some(&set)).is_none_or(|at| at >= after));
        if found.is_empty() && recent && current.is_none() {
            current = Some(set);
            continue;
        }
        // A restart by `rollout.after` replaces Machines;
        // an update in place would change nothing of them.
        let eligible = !found.is_empty() && recent;
        if !found.is_empty() {
            let texts: Vec<&str> = found.iter().map(|d| d.log.as_str()).collect();
            let name = set.metadata.name.clone().unwrap_or_default();
            outdated.push(format!("MachineSet {name} needs rollout: {}", texts.join(", ")));
        }
        old.push((set, eligible));
    }
    let create_reason =
        current.is_none().then(|| create_reason(sets.is_empty(), &outdated, &old, not_before));
    Identified { current, old, create_reason }
}

fn create_reason(
    none: bool,
    outdated: &[String],
    old: &[(Arc<MachineSet>, bool)],
    not_before: Option<Timestamp>,
) -> String {
    match not_before {
        _ if none => "no MachineSets exist for the MachineDeployment".to_owned(),
        // One of the old ones has the template, so that only its age speaks against it.
        Some(after) if outdated.len() < old.len() => format!(
            "spec.rollout.after on MachineDeployment set to {}, no MachineSet has been created afterwards",
            rfc3339(after)
        ),
        _ => format!(
            "couldn't find MachineSet matching MachineDeployment spec template: {}",
            outdated.join("; ")
        ),
    }
}
