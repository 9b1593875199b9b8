//! Is the control plane available: enough etcd members for quorum, one Machine with everything
//! healthy, certificates, no deletion. Must not decide what follows.
//! Source: KCP `status.go` (`setAvailableCondition`), v1.14.2.

use chrono::TimeDelta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::machine::{COMPONENTS, ETCD_MEMBER, OwnedMachine};
use super::{Inspection, Observed};
use crate::etcd::{Member, quorum};
use crate::status::conditions::setter::condition as say;
use capi_types::condition;
use capi_types::condition::Status;
use capstan_base::time::{Timestamp, from_k8s};

const TYPE: &str = "Available";
/// Failures younger than this do not show: a leader change is over by then.
const FLAP: TimeDelta = TimeDelta::seconds(10);
/// Etcd may take this long after initialization to list its members.
const FIRST_LIST: TimeDelta = TimeDelta::minutes(2);

/// Something that is healthy, known not to be, or too fresh to judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ComponentHealth {
    Healthy,
    NotHealthy,
    NotReportedYet,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    healthy: usize,
    not_healthy: usize,
    not_reported_yet: usize,
}

impl Tally {
    fn add(&mut self, health: ComponentHealth) {
        match health {
            ComponentHealth::Healthy => self.healthy += 1,
            ComponentHealth::NotHealthy => self.not_healthy += 1,
            ComponentHealth::NotReportedYet => self.not_reported_yet += 1,
        }
    }

    /// Not known to be bad.
    fn presumed_healthy(&self) -> usize {
        self.healthy + self.not_reported_yet
    }
}

pub(super) const MEMBERS_DO_NOT_MATCH: &str =
    "The list of etcd members does not match the list of Machines and Nodes";

#[derive(Clone, Copy, Debug, Default)]
struct Etcd {
    tally: Tally,
    members: usize,
    voters: usize,
    learners: usize,
}

/// The `Available` condition. `conditions` are the control plane's own as this pass leaves them
/// (`Initialized`, `CertificatesAvailable`); `observed` holds the Machines' new conditions;
/// `inspection` is `None` when this pass did not inspect.
pub fn available(
    observed: &Observed,
    inspection: Option<&Inspection>,
    conditions: &[Condition],
    now: Timestamp,
) -> Condition {
    let not = |message: String| say(TYPE, Status::False, "NotAvailable", message);
    if !observed.is_initialized() {
        return not("Control plane not yet initialized".to_owned());
    }
    let members = inspection.and_then(|i| i.members.as_deref());
    let managed = observed.etcd_is_managed();
    if managed && members.is_none() {
        let initialized = condition::find(conditions, "Initialized").filter(|c| c.status == "True");
        let young = initialized.is_some_and(|c| now - from_k8s(&c.last_transition_time) < FIRST_LIST);
        if young {
            return not("Waiting for etcd to report the list of members".to_owned());
        }
        return say(TYPE, Status::Unknown, "InspectionFailed", "Failed to get etcd members");
    }
    // Members and Machines that do not match would be counted against each other wrongly.
    if managed && !inspection.is_some_and(|i| i.members_match) {
        return not(MEMBERS_DO_NOT_MATCH.to_owned());
    }
    let components = count_components(observed, managed, now);
    let etcd = count_members(observed, members.unwrap_or_default(), now);
    let certificates = condition::is_true(conditions, "CertificatesAvailable");
    // Fresh failures count as unhealthy here; only the message about partial problems spares them.
    let quorate = !managed || etcd.tally.healthy >= quorum(etcd.voters);
    if !observed.is_deleting() && quorate && components.healthy > 0 && certificates {
        return say(TYPE, Status::True, TYPE, partial_problems(observed, managed, components, etcd));
    }
    let mut lines = Vec::new();
    if observed.is_deleting() {
        lines.push("* Control plane metadata.deletionTimestamp is set".to_owned());
    }
    if !certificates {
        lines.push("* Control plane certificates are not available".to_owned());
    }
    if !quorate {
        lines.push(etcd_line(etcd, etcd.tally.healthy));
    }
    if components.healthy == 0 {
        lines.push(
            "* There are no Machines with healthy control plane components, at least 1 required".to_owned(),
        );
    }
    not(lines.join("\n"))
}

fn partial_problems(observed: &Observed, managed: bool, components: Tally, etcd: Etcd) -> String {
    let mut lines = Vec::new();
    if managed && etcd.tally.not_healthy > 0 {
        lines.push(etcd_line(etcd, etcd.tally.presumed_healthy()));
    }
    if components.not_healthy > 0 {
        let total = observed.machines.len();
        lines.push(match components.presumed_healthy() {
            1 => format!("* 1 of {total} Machines has healthy control plane components, at least 1 required"),
            n => format!(
                "* {n} of {total} Machines have healthy control plane components, at least 1 required"
            ),
        });
    }
    lines.join("\n")
}

fn etcd_line(etcd: Etcd, healthy: usize) -> String {
    let learners = match etcd.learners {
        0 => String::new(),
        n => format!(" {n} learner etcd member,"),
    };
    let needed =
        format!("{learners} at least {} healthy member required for etcd quorum", quorum(etcd.voters));
    match healthy {
        0 => format!("* There are no healthy etcd member,{needed}"),
        1 => format!("* 1 of {} etcd members is healthy,{needed}", etcd.members),
        n => format!("* {n} of {} etcd members are healthy,{needed}", etcd.members),
    }
}

fn count_components(observed: &Observed, managed: bool, now: Timestamp) -> Tally {
    let mut types = COMPONENTS[..3].to_vec();
    if managed {
        types.extend([ETCD_MEMBER, COMPONENTS[3]]);
    }
    let mut tally = Tally::default();
    // A Machine without an ID has no host yet, and so nothing that could be unhealthy.
    for machine in observed.machines.iter().filter(|m| m.provider_id().is_some()) {
        tally.add(judge(machine, &types, now));
    }
    tally
}

fn judge(machine: &OwnedMachine, types: &[&str], now: Timestamp) -> ComponentHealth {
    if types.iter().all(|t| machine.is_true(t)) {
        return ComponentHealth::Healthy;
    }
    let not_true = types.iter().filter_map(|t| machine.condition(t)).filter(|c| c.status != "True");
    match not_true.map(|c| from_k8s(&c.last_transition_time)).min() {
        // The oldest failure decides: the others may be its consequences.
        Some(since) if now - since > FLAP => ComponentHealth::NotHealthy,
        _ => ComponentHealth::NotReportedYet,
    }
}

fn count_members(observed: &Observed, members: &[Member], now: Timestamp) -> Etcd {
    let mut etcd = Etcd { members: members.len(), ..Etcd::default() };
    let mut provisioning = observed.machines.iter().filter(|m| m.node_name().is_none());
    // A member without a Machine belongs to the only Machine on its way, if there is just one.
    let mut unclaimed = match (provisioning.next(), provisioning.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    };
    for member in members {
        // A member without a name has not started, so it votes for nothing yet.
        if member.learner || member.name.is_empty() {
            etcd.learners += 1;
        } else {
            etcd.voters += 1;
        }
        if member.name.is_empty() {
            // Upstream counts it as healthy until it has a name that a Machine could answer for.
            etcd.tally.add(ComponentHealth::Healthy);
            continue;
        }
        let host = observed.machines.iter().find(|m| m.node_name() == Some(member.name.as_str()));
        let health = host
            .or_else(|| unclaimed.take())
            .map_or(ComponentHealth::NotHealthy, |m| judge(m, &[ETCD_MEMBER], now));
        etcd.tally.add(health);
    }
    etcd
}
