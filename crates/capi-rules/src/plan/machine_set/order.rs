//! Which Machine of a MachineSet goes first. Pure.
//! Source: cluster-api `core/reconcilers/machineset/machineset_delete_policy.go`, v1.14.2 (MS-8).

use std::sync::Arc;

use crate::status::machines::is_updating_in_place;
use capi_types::condition::{Conditioned as _, is_false};
use capi_types::key::annotation;
use capi_types::machine::Machine;
use capi_types::names;
use capstan_base::time::{Timestamp, from_k8s};

const DELETING: f64 = 100.0;
const MARKED: f64 = 80.0;
const UPDATING: f64 = 75.0;
const UNHEALTHY: f64 = 50.0;
const COULD_DELETE: f64 = 20.0;
/// Ten days: the age at which 63 % of the way from 0 to 50 is gone.
const AGE_SCALE_S: f64 = 864_000.0;

/// Machines in the order in which they go: highest priority first, then by name.
/// `order` is `Random` (also when absent), `Newest` or `Oldest`.
pub(super) fn deletion_order(
    machines: &[Arc<Machine>],
    order: Option<&str>,
    now: Timestamp,
) -> Vec<Arc<Machine>> {
    let mut ranked: Vec<(f64, Arc<Machine>)> =
        machines.iter().map(|m| (priority(m, order.unwrap_or("Random"), now), m.clone())).collect();
    ranked.sort_by(|(a, m), (b, n)| b.total_cmp(a).then_with(|| m.metadata.name.cmp(&n.metadata.name)));
    ranked.into_iter().map(|(_, machine)| machine).collect()
}

fn priority(machine: &Machine, order: &str, now: Timestamp) -> f64 {
    if machine.metadata.deletion_timestamp.is_some() {
        // First, so that it is one of those that go: no healthy Machine is deleted in its place.
        return DELETING;
    }
    if annotation(machine, names::annotation::DELETE_MACHINE).is_some() {
        return MARKED;
    }
    if is_updating_in_place(machine) {
        return UPDATING;
    }
    if is_unhealthy(machine) {
        return UNHEALTHY;
    }
    match order {
        "Oldest" => by_age(machine, now),
        // A Machine of this second ties with an unhealthy one, and the name decides, as upstream.
        "Newest" => UNHEALTHY - by_age(machine, now),
        // `Random` upstream is one priority for all as well, which amounts to the order of names.
        _ => COULD_DELETE,
    }
}

fn is_unhealthy(machine: &Machine) -> bool {
    let has_node = machine.status.as_ref().is_some_and(|s| s.node_ref.is_some());
    !has_node
        || ["NodeHealthy", "HealthCheckSucceeded"].iter().any(|type_| is_false(machine.conditions(), type_))
}

/// From 0 for a new Machine towards 50 for an old one.
fn by_age(machine: &Machine, now: Timestamp) -> f64 {
    let created = machine.metadata.creation_timestamp.as_ref().map(from_k8s);
    let age_s = created.map_or(0, |at| (now - at).num_seconds());
    if age_s <= 0 { 0.0 } else { UNHEALTHY * (1.0 - (-(age_s as f64) / AGE_SCALE_S).exp()) }
}
