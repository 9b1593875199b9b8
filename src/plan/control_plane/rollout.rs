//! Outdated Machines are replaced one by one: surge first (maxSurge 1) or remove first (maxSurge 0).
//! Must not judge what is outdated; that is `status::control_plane::up_to_date`.
//! Source: KCP-12; `update.go` (`updateControlPlane`), v1.14.0.
//!
//! Not here: updates in place through an extension (upstream's gate `InPlaceUpdates`, off by default).

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Flow, Pending, Why, kubeadm, scale, select};
use crate::status::control_plane::up_to_date::{self, Difference};

pub fn outdated(p: &mut Pending) -> Flow {
    let mut outdated: Vec<(String, Vec<Difference>)> = Vec::new();
    for machine in p.observed.machines.iter().filter(|m| !m.is_deleting()) {
        let differences = up_to_date::control_plane_machine(&p.observed.control_plane, machine, p.now);
        if !differences.is_empty() {
            outdated.push((machine.name().to_owned(), differences));
        }
    }
    if outdated.is_empty() {
        return Flow::Continue(());
    }
    // In every pass of a rollout and before its preflight: a Machine that joins reads this map.
    kubeadm::cluster_configuration(p)?;
    let (current, desired) = (p.observed.machines.len(), p.observed.desired());
    let max_surge = max_surge(p);
    if current < desired + max_surge {
        return scale::add(p, Why::Surge { outdated: outdated.len(), max_surge });
    }
    let names: Vec<&str> = outdated.iter().map(|(name, _)| name.as_str()).collect();
    let Some(machine) = select::machine_to_go(&p.observed, &names) else { return Flow::Break(()) };
    let name = machine.name().to_owned();
    let why = outdated.iter().find(|(outdated, _)| *outdated == name);
    let differences = why.map(|(_, list)| list.iter().map(ToString::to_string).collect());
    scale::remove(p, &name, Why::Outdated { differences: differences.unwrap_or_default() })
}

/// 0 or 1; 1 when unset.
fn max_surge(p: &Pending) -> usize {
    let rollout = p.observed.control_plane.spec.rollout.as_ref();
    let strategy = rollout.and_then(|r| r.strategy.as_ref()).and_then(|s| s.rolling_update.as_ref());
    match strategy.and_then(|r| r.max_surge.as_ref()) {
        Some(IntOrString::Int(surge)) => usize::try_from(*surge).unwrap_or(0),
        Some(IntOrString::String(text)) => text.parse().unwrap_or(1),
        None => 1,
    }
}
