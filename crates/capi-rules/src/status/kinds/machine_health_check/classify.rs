//! Is one Machine healthy, unhealthy, or about to become unhealthy? Must not know what follows.
//! Source: `needsRemediation`, `healthCheckTargets` in `machinehealthcheck_targets.go`, v1.14.2.

use chrono::TimeDelta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Observed, Target, TargetNode};
use crate::status::conditions::setter::condition;
use crate::status::machines::is_control_plane;
use capi_types::condition::{Conditioned as _, Status, find};
use capi_types::key::annotation as annotation_of;
use capi_types::names::annotation;
use capstan_base::go_duration::GoDuration;
use capstan_base::time::{Timestamp, from_k8s};

/// How long a Machine may take to get a Node, when the check leaves it open.
const NODE_STARTUP_S: i32 = 600;

/// What a check makes of one Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetHealth {
    /// Every check passes.
    Healthy,
    /// It is to be replaced.
    Unhealthy {
        /// One word in CamelCase, for its condition.
        reason: &'static str,
        /// Which check failed, with its values.
        message: String,
    },
    /// Something lasts, but not long enough yet; the Machine's condition stays.
    Pending {
        /// When it will have lasted long enough.
        next_check: TimeDelta,
    },
    /// It has no Node, or is on its way out: no condition is written.
    Untouched,
}

impl TargetHealth {
    /// `HealthCheckSucceeded`; `None` leaves the stored one.
    pub fn condition(&self) -> Option<Condition> {
        const TYPE: &str = "HealthCheckSucceeded";
        match self {
            Self::Healthy => Some(condition(TYPE, Status::True, TYPE, "")),
            Self::Unhealthy { reason, message } => {
                Some(condition(TYPE, Status::False, reason, message.clone()))
            }
            Self::Pending { .. } | Self::Untouched => None,
        }
    }

    pub(super) fn recheck(&self) -> Option<TimeDelta> {
        match self {
            Self::Pending { next_check } => Some(*next_check),
            _ => None,
        }
    }
}

/// What was found so far.
#[derive(Default)]
struct Findings {
    machine: Vec<String>,
    node: Vec<(&'static str, String)>,
    next_check: Option<TimeDelta>,
}

impl Findings {
    /// One second after the timeout, for only a timeout that has passed counts.
    fn later(&mut self, left: TimeDelta) {
        let left = left + TimeDelta::seconds(1);
        self.next_check = Some(self.next_check.map_or(left, |known| known.min(left)));
    }
}

/// Judges one target.
pub fn classify(o: &Observed, target: &Target, now: Timestamp) -> TargetHealth {
    if annotation_of(target.machine.as_ref(), annotation::REMEDIATE_MACHINE).is_some() {
        let message = format!(
            "Health check failed: marked for remediation via {} annotation",
            annotation::REMEDIATE_MACHINE
        );
        return TargetHealth::Unhealthy { reason: "HasRemediateAnnotation", message };
    }
    let mut findings = Findings::default();
    if is_evaluated(o, target) {
        machine_checks(o, target, now, &mut findings);
        node_checks(o, target, now, &mut findings);
    }
    if let Some(unhealthy) = unhealthy(&findings) {
        return unhealthy;
    }
    // Neither healthy nor unhealthy: the stored condition stays until the timeout decides.
    if let Some(next_check) = findings.next_check {
        return TargetHealth::Pending { next_check };
    }
    let deleting = target.machine.metadata.deletion_timestamp.is_some();
    // Healthy needs a Node: a Machine that only starts must not let others be remediated.
    if !deleting && matches!(target.node, TargetNode::Found(_)) {
        TargetHealth::Healthy
    } else {
        TargetHealth::Untouched
    }
}

/// Is something wrong with its Node, or with its having none?
pub(super) fn blames_node(o: &Observed, target: &Target, now: Timestamp) -> bool {
    let mut findings = Findings::default();
    if is_evaluated(o, target) {
        node_checks(o, target, now, &mut findings);
    }
    !findings.node.is_empty()
}

fn is_evaluated(o: &Observed, target: &Target) -> bool {
    let holds = |type_: &str| find(o.cluster.conditions(), type_).is_some_and(|c| c.status == "True");
    (holds("ControlPlaneInitialized") || is_control_plane(&target.machine)) && holds("InfrastructureReady")
}

fn unhealthy(findings: &Findings) -> Option<TargetHealth> {
    let reason = match (findings.machine.is_empty(), findings.node.first()) {
        (true, None) => return None,
        (false, _) => "UnhealthyMachine",
        (true, Some((reason, _))) => reason,
    };
    let of_node = findings.node.iter().map(|(_, message)| message);
    let lines: Vec<String> = findings.machine.iter().chain(of_node).map(|m| format!("  * {m}")).collect();
    Some(TargetHealth::Unhealthy { reason, message: format!("Health check failed:\n{}", lines.join("\n")) })
}

fn machine_checks(o: &Observed, target: &Target, now: Timestamp, findings: &mut Findings) {
    let checks = o.check.spec.checks.iter().flat_map(|c| &c.unhealthy_machine_conditions);
    for check in checks {
        let Some(found) = find(target.machine.conditions(), &check.type_) else { continue };
        let state = Lasting {
            on: "Machine",
            type_: &check.type_,
            status: &found.status,
            reason: &found.reason,
            since: from_k8s(&found.last_transition_time),
        };
        match state.judged(&check.status, check.timeout_seconds, now) {
            Lasts::TooLong(message) => findings.machine.push(message),
            Lasts::StillFor(left) => findings.later(left),
            Lasts::Not => {}
        }
    }
}

fn node_checks(o: &Observed, target: &Target, now: Timestamp, findings: &mut Findings) {
    let node = match &target.node {
        TargetNode::Gone => {
            let name = target.machine.status.as_ref().and_then(|s| s.node_ref.as_ref());
            let name = name.map_or("", |r| r.name.as_str());
            findings.node.push(("NodeDeleted", format!("Node {name} has been deleted")));
            return;
        }
        TargetNode::None => return startup(o, target, now, findings),
        // It did start up; the reference follows.
        TargetNode::Unrecorded => return,
        TargetNode::Found(node) => node,
    };
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    for check in o.check.spec.checks.iter().flat_map(|c| &c.unhealthy_node_conditions) {
        let Some(found) = conditions.and_then(|list| list.iter().find(|c| c.type_ == check.type_)) else {
            continue;
        };
        let state = Lasting {
            on: "Node",
            type_: &check.type_,
            status: &found.status,
            reason: found.reason.as_deref().unwrap_or_default(),
            // A condition without a time counts as lasting
            // for ever, as the zero time does upstream.
            since: found.last_transition_time.as_ref().map(from_k8s).unwrap_or_default(),
        };
        match state.judged(&check.status, check.timeout_seconds, now) {
            Lasts::TooLong(message) => findings.node.push(("UnhealthyNode", message)),
            Lasts::StillFor(left) => findings.later(left),
            Lasts::Not => {}
        }
    }
}

/// A Machine without Node has until some time after everything it waits for was there.
fn startup(o: &Observed, target: &Target, now: Timestamp, findings: &mut Findings) {
    let seconds = o.check.spec.checks.as_ref().and_then(|c| c.node_startup_timeout_seconds);
    let timeout = TimeDelta::seconds(i64::from(seconds.unwrap_or(NODE_STARTUP_S)));
    // 0 turns the check off.
    if timeout.is_zero() {
        return;
    }
    let since = |conditions: &[Condition], type_: &str| {
        find(conditions, type_).filter(|c| c.status == "True").map(|c| from_k8s(&c.last_transition_time))
    };
    let base = [
        target.machine.metadata.creation_timestamp.as_ref().map(from_k8s),
        since(o.cluster.conditions(), "ControlPlaneInitialized"),
        since(o.cluster.conditions(), "InfrastructureReady"),
        since(target.machine.conditions(), "InfrastructureReady"),
    ];
    let base = base.into_iter().flatten().max().unwrap_or_default();
    let waited = now - base;
    if waited > timeout {
        let message = format!("Node failed to report startup in {}", GoDuration::from(timeout));
        findings.node.push(("NodeStartupTimeout", message));
    } else {
        findings.later(timeout - waited);
    }
}

/// A condition as it is now.
struct Lasting<'a> {
    on: &'a str,
    type_: &'a str,
    status: &'a str,
    reason: &'a str,
    since: Timestamp,
}

enum Lasts {
    TooLong(String),
    StillFor(TimeDelta),
    Not,
}

impl Lasting<'_> {
    fn judged(&self, bad_status: &str, timeout_s: i32, now: Timestamp) -> Lasts {
        if self.status != bad_status {
            return Lasts::Not;
        }
        let timeout = TimeDelta::seconds(i64::from(timeout_s));
        let lasted = now - self.since;
        if lasted <= timeout {
            return Lasts::StillFor(timeout - lasted);
        }
        let Self { on, type_, status, reason, .. } = self;
        Lasts::TooLong(format!(
            "Condition {type_} on {on} is reporting status {status} with reason {reason} for more than {}",
            GoDuration::from(timeout)
        ))
    }
}
