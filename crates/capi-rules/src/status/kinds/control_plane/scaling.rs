//! How many Machines there are against how many there should be, and what stands in the way, as
//! conditions of the control plane. Must not decide whether to scale.
//! Source: KCP `status.go` (`setScalingUpCondition` and neighbours), v1.14.2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Observed, Template};
use crate::status::conditions::setter::{CHECK_LOGS, condition as say};
use crate::status::conditions::wording::{BLOCKED_BECAUSE, DOES_NOT_EXIST};
use crate::status::machines;
use capi_types::condition::Status;
use capi_types::machine::Machine;
use capstan_base::time::Timestamp;

/// What the last preflight of this pass found in the way. All false: it passed, or did not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreflightFindings {
    /// The Cluster's topology is still at, or on its way to, this other version.
    pub topology_version: Option<String>,
    /// Nothing can join without them.
    pub certificates_missing: bool,
    /// One after the other: another one has to go first.
    pub machine_deleting: bool,
    /// Machines whose static pods do not run as they should.
    pub components_unhealthy: bool,
    /// Machines whose member does not vote as it should.
    pub etcd_unhealthy: bool,
}

impl PreflightFindings {
    /// Lines below `is blocked because:`.
    pub fn lines(&self) -> Vec<String> {
        let topology = self
            .topology_version
            .iter()
            .map(|version| format!("* waiting for a version upgrade to {version} to be propagated"));
        let others = [
            (self.machine_deleting, "* waiting for a control plane Machine to complete deletion"),
            (self.certificates_missing, "* cluster certificates are missing or unknown"),
            (self.components_unhealthy, "* waiting for control plane components to become healthy"),
            (self.etcd_unhealthy, "* waiting for etcd cluster to become healthy"),
        ];
        topology.chain(others.into_iter().filter(|(found, _)| *found).map(|(_, l)| l.to_owned())).collect()
    }
}

/// Whether Machines are lacking, and what keeps them from being made.
pub fn scaling_up(observed: &Observed, findings: &PreflightFindings) -> Condition {
    const TYPE: &str = "ScalingUp";
    let Some(desired) = desired(observed) else { return waiting_for_replicas(TYPE) };
    let current = observed.machines.len();
    let kind = &observed.control_plane.spec.machine_template.spec.infrastructure_ref.kind;
    // Nobody looks for the template of a control plane that goes.
    let missing = observed.template == Template::Missing && !observed.is_deleting();
    let missing = missing.then(|| format!("{kind} {DOES_NOT_EXIST}"));
    // A warning ahead: a missing template does no harm until a Machine has to be made.
    if current >= desired {
        let message =
            missing.map_or_else(String::new, |m| format!("Scaling up would be blocked because {m}"));
        return say(TYPE, Status::False, "NotScalingUp", message);
    }
    let mut details = findings.lines();
    details.extend(missing.map(|m| format!("* {m}")));
    say(
        TYPE,
        Status::True,
        TYPE,
        with_details(format!("Scaling up from {current} to {desired} replicas"), &details),
    )
}

/// Whether there are too many Machines, and what keeps one from going.
pub fn scaling_down(observed: &Observed, findings: &PreflightFindings, now: Timestamp) -> Condition {
    const TYPE: &str = "ScalingDown";
    let Some(desired) = desired(observed) else { return waiting_for_replicas(TYPE) };
    let current = observed.machines.len();
    if current <= desired {
        return say(TYPE, Status::False, "NotScalingDown", "");
    }
    let mut details = findings.lines();
    let stale = machines::stale(all(observed), now);
    if !stale.is_empty() {
        details.push(format!("* {stale}"));
    }
    let message = format!("Scaling down from {current} to {desired} replicas");
    say(TYPE, Status::True, TYPE, with_details(message, &details))
}

fn with_details(message: String, details: &[String]) -> String {
    if details.is_empty() { message } else { format!("{message} {BLOCKED_BECAUSE}:\n{}", details.join("\n")) }
}

fn waiting_for_replicas(type_: &str) -> Condition {
    say(type_, Status::Unknown, "WaitingForReplicasSet", "Waiting for spec.replicas set")
}

/// As the conditions count: unset is not one, but unknown.
fn desired(observed: &Observed) -> Option<usize> {
    let replicas = observed.control_plane.spec.replicas?;
    // A control plane that goes wants no Machine, whatever its spec says.
    Some(if observed.is_deleting() { 0 } else { usize::try_from(replicas).unwrap_or(0) })
}

/// What a deletion is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Nothing is left but the finalizer.
    Completed,
    /// Everything that is not one of its Machines: control plane Machines of others, too.
    Workers,
    /// Its own.
    Machines,
}

/// How far the deletion of the control plane is; `None` while it is not being deleted.
pub fn deletion(observed: &Observed) -> Option<Deletion> {
    if !observed.is_deleting() {
        return None;
    }
    let others = [&observed.worker_machines, &observed.machine_pools, &observed.foreign];
    // Machines of its own before all others: without them nothing is left to wait for.
    Some(if observed.machines.is_empty() {
        Deletion::Completed
    } else if others.iter().all(|names| names.is_empty()) && observed.orphans.is_empty() {
        Deletion::Machines
    } else {
        Deletion::Workers
    })
}

/// `Deleting`. `failed`: this pass could not delete what is in the way.
pub fn deleting(observed: &Observed, failed: bool, now: Timestamp) -> Condition {
    const TYPE: &str = "Deleting";
    let (reason, message) = match deletion(observed) {
        None => return say(TYPE, Status::False, "NotDeleting", ""),
        // The failure first, as upstream: what is waited for is not under way.
        Some(Deletion::Workers | Deletion::Machines) if failed => ("InternalError", CHECK_LOGS.to_owned()),
        Some(Deletion::Completed) => ("DeletionCompleted", "Deletion completed".to_owned()),
        Some(Deletion::Workers) => ("WaitingForWorkersDeletion", workers_message(observed)),
        Some(Deletion::Machines) => {
            let count = observed.machines.len();
            let noun = if count == 1 { "Machine" } else { "Machines" };
            let stale = machines::stale(all(observed), now);
            let stale = if stale.is_empty() { stale } else { format!(" and {stale}") };
            ("WaitingForMachineDeletion", format!("Deleting {count} {noun}{stale}"))
        }
    };
    say(TYPE, Status::True, reason, message)
}

/// Control plane Machines of others block, and are not named.
fn workers_message(observed: &Observed) -> String {
    use crate::status::conditions::wording::join_limited;
    let mut lines = Vec::new();
    for (kind, names) in [("MachinePools", &observed.machine_pools), ("Machines", &observed.worker_machines)]
    {
        if !names.is_empty() {
            let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
            names.sort_unstable();
            lines.push(format!("* {kind}: {}", join_limited(&names, 5)));
        }
    }
    let head = "KubeadmControlPlane deletion blocked because following objects still exist:";
    format!("{head}\n{}", lines.join("\n"))
}

/// The Machines themselves.
pub fn all(observed: &Observed) -> Vec<&Machine> {
    observed.machines.iter().map(|m| &m.machine).collect()
}
