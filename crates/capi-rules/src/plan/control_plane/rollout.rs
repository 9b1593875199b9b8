//! Outdated Machines are replaced one by one: surge first (maxSurge 1) or remove first (maxSurge 0); where updates in
//! place are on, one that would be removed is updated instead, if extensions can.
//! Must not judge what is outdated; that is `status::control_plane::up_to_date`.
//! Source: KCP-12; `update.go` (`updateControlPlane`), v1.14.2.

use std::ops::ControlFlow;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Flow, Pending, Why, in_place, kubeadm, scale, select};
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
    // Before any update in place: with a surge of 1 the
    // first new Machine always comes first, as upstream.
    if current < desired + max_surge {
        return scale::add(p, Why::Surge { outdated: outdated.len(), max_surge });
    }
    let names: Vec<&str> = outdated.iter().map(|(name, _)| name.as_str()).collect();
    // The choice may fall on a Machine that is up to date, when a person marked it to go.
    let Some(machine) = select::machine_to_go(&p.observed, &names) else { return Flow::Break(()) };
    let found = outdated.iter().find(|(name, _)| *name == machine.name());
    let list = found.map(|(_, list)| list.as_slice()).unwrap_or_default();
    // With enough new Machines the outdated one is surplus, and goes instead of being updated.
    let tries = p.observed.in_place.is_on()
        && found.is_some()
        && in_place::is_eligible(machine, list)
        && current - outdated.len() < desired;
    let name = machine.name().to_owned();
    let differences: Vec<String> = list.iter().map(ToString::to_string).collect();
    if !tries {
        return scale::remove(p, &name, Why::Outdated { differences });
    }
    match in_place::attempt(p, &name, Why::Outdated { differences: differences.clone() }) {
        ControlFlow::Break(()) => Flow::Break(()),
        ControlFlow::Continue(reason) => scale::remove(p, &name, Why::NotInPlace { differences, reason }),
    }
}

/// 0 or 1; 1 when unset.
fn max_surge(p: &Pending) -> usize {
    let rollout = p.observed.control_plane.spec.rollout.as_ref();
    let strategy = rollout.and_then(|r| r.strategy.as_ref()).and_then(|s| s.rolling_update.as_ref());
    match strategy.and_then(|r| r.max_surge.as_ref()) {
        Some(IntOrString::Int(surge)) => usize::try_from(*surge).unwrap_or(0),
        // Only 0 and 1 pass validation; a text that is neither counts as unset.
        Some(IntOrString::String(text)) => text.parse().unwrap_or(1),
        None => 1,
    }
}
