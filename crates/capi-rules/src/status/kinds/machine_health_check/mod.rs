//! What is true of a MachineHealthCheck: which of its Machines are healthy, whether the unhealthy ones may
//! be remediated, and what is written to the Machines. Must not know who remediates.
//! Source: cluster-api `core/reconcilers/machinehealthcheck/machinehealthcheck_{controller,targets}.go`, v1.14.2.

mod classify;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

pub use self::classify::{TargetHealth, classify};
use crate::status::amount::{Round, literal, scaled};
use crate::status::conditions::setter::{CHECK_LOGS, Draft, condition, not_paused};
use crate::status::machines;
use capi_types::cluster::Cluster;
use capi_types::condition::Status;
use capi_types::condition::{Conditioned as _, find};
use capi_types::key::{annotation as annotation_of, cluster_label};
use capi_types::machine::Machine;
use capi_types::machine_health_check::{MachineHealthCheck, MachineHealthCheckStatus};
use capi_types::names::annotation;
use capstan_base::time::Timestamp;
use k8s_machinery::selector;

/// Condition types that the controller owns on the check itself.
pub const OWNED: [&str; 2] = ["Paused", ALLOWED];
const ALLOWED: &str = "RemediationAllowed";
/// Condition types that it writes on the Machines it looks after.
pub const OWNED_ON_MACHINES: [&str; 1] = ["HealthCheckSucceeded"];

/// Everything a MachineHealthCheck is judged by.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// As it was read.
    pub check: MachineHealthCheck,
    /// Nothing is unhealthy before it is initialized.
    pub cluster: Cluster,
    /// Machines for which [`is_target`] holds.
    pub targets: Vec<Target>,
    /// There is a connection to the workload cluster. Without one, nothing can be said once the control
    /// plane is initialized.
    pub connected: bool,
    /// What `spec.remediation.templateRef` leads to; `None` when there is no such reference.
    pub external: Option<ExternalRemediation>,
}

/// A Machine with its Node.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// One that is on its way out is a target, too.
    pub machine: Arc<Machine>,
    /// What its `status.nodeRef` leads to.
    pub node: TargetNode,
}

/// The Node named by `status.nodeRef`; read only once the control plane is initialized.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TargetNode {
    /// There is no reference, or it was not followed.
    #[default]
    None,
    /// There is no reference yet, but a Node with the Machine's provider ID.
    Unrecorded,
    /// The reference leads nowhere.
    Gone,
    /// It is there, whatever state it is in.
    Found(Arc<Node>),
}

/// Remediation by an external controller, through a request made from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalRemediation {
    /// Of the template: `Kind`, and `namespace/name`.
    pub kind: String,
    /// `NAMESPACE/NAME`.
    pub template: String,
    /// Without it nothing can be asked for.
    pub template_exists: bool,
    /// Names of requests that exist; a request has its Machine's name.
    pub requests: BTreeSet<String>,
    /// Making a request did not work in this pass.
    pub creation_fails: bool,
}

/// What is to be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// `observedGeneration` is the caller's to set.
    pub status: MachineHealthCheckStatus,
    /// In the order of names.
    pub marks: Vec<Mark>,
    /// When time alone can change the health of a Machine.
    pub recheck: Option<TimeDelta>,
    /// Why the pass ended early: no Machine is marked.
    pub failure: Option<PassFailure>,
    /// Nothing failed, so that the generation counts as observed.
    pub complete: bool,
}

/// Why a pass ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassFailure {
    /// The Nodes of the Cluster cannot be read.
    NotConnected,
    /// What limits remediation cannot be read, in a sentence.
    BadLimit(String),
}

impl fmt::Display for PassFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected => f.write_str("there is no connection to the workload cluster"),
            Self::BadLimit(why) => f.write_str(why),
        }
    }
}

/// Does what is known of Nodes, or is missing among them, lead to a Machine's replacement that was not asked for yet? Then
/// they must be known as they are now.
pub fn blames_nodes(o: &Observed, now: Timestamp) -> bool {
    o.connected && o.targets.iter().any(|t| wants_owner(&t.machine) && classify::blames_node(o, t, now))
}

impl Outcome {
    /// May its unhealthy Machines be remediated? The message of the condition when not.
    ///
    /// # Errors
    /// Why not.
    pub fn remediation_allowed(&self) -> Result<(), &str> {
        let refused = find(&self.status.conditions, ALLOWED).filter(|c| c.status == "False");
        refused.map_or(Ok(()), |c| Err(c.message.as_str()))
    }
}

/// Conditions for one Machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Name of the Machine.
    pub machine: String,
    /// To be set; others stay.
    pub conditions: Vec<Condition>,
    /// Upstream computes some marks and then returns before it writes them; so it is here.
    pub persisted: bool,
}

/// Does `check` watch `machine`? Machines that are paused or excepted are not targets.
pub fn is_target(check: &MachineHealthCheck, machine: &Machine) -> bool {
    let excepted = [annotation::PAUSED, annotation::SKIP_REMEDIATION];
    check.metadata.namespace == machine.metadata.namespace
        && cluster_label(machine) == Some(check.spec.cluster_name.as_str())
        && selector::matches(&check.spec.selector, machine.metadata.labels.as_ref())
        && excepted.iter().all(|name| annotation_of(machine, name).is_none())
}

/// The judgement over a check that is not paused.
pub fn judge(o: &Observed, now: Timestamp) -> Outcome {
    let mut status = o.check.status.clone().unwrap_or_default();
    let mut draft = Draft::new(std::mem::take(&mut status.conditions), o.check.metadata.generation, now);
    draft.set(not_paused());
    let initialized = find(o.cluster.conditions(), "ControlPlaneInitialized");
    // Without Nodes every Machine would look as if its Node were gone.
    if initialized.is_some_and(|c| c.status == "True") && !o.connected {
        status.conditions = draft.finish();
        let failure = Some(PassFailure::NotConnected);
        return Outcome { status, failure, ..Outcome::default() };
    }
    let mut judged: Vec<Judged<'_>> = o
        .targets
        .iter()
        .map(|target| Judged { machine: &target.machine, health: classify(o, target, now) })
        .collect();
    // With a template the pass stops at the first request: the order decides which Machine that is.
    judged.sort_by_key(|j| machines::name(j.machine));
    let count = |wanted: fn(&TargetHealth) -> bool| judged.iter().filter(|j| wanted(&j.health)).count();
    let healthy = count(|v| *v == TargetHealth::Healthy);
    let unhealthy = count(|v| matches!(v, TargetHealth::Unhealthy { .. }));
    status.expected_machines = Some(int(judged.len()));
    status.current_healthy = Some(int(healthy));
    status.targets = judged.iter().map(|j| machines::name(j.machine).to_owned()).collect();

    let allowance = allowance(&o.check, judged.len(), healthy, unhealthy);
    if let Ok(allowance) = &allowance {
        status.remediations_allowed = Some(if allowance.allowed() { allowance.left } else { 0 });
        draft.set(allowance.condition());
    }
    status.conditions = draft.finish();
    match allowance {
        Err(why) => Outcome { status, failure: Some(PassFailure::BadLimit(why)), ..Outcome::default() },
        Ok(allowance) => {
            let marks = marks(o, &judged, allowance.allowed());
            let recheck = judged.iter().filter_map(|j| j.health.recheck()).min();
            Outcome { status, complete: !marks.iter().any(Mark::has_failed), marks, recheck, failure: None }
        }
    }
}

impl Mark {
    /// The Machine failed its check.
    pub fn is_unhealthy(&self) -> bool {
        find(&self.conditions, "HealthCheckSucceeded").is_some_and(|c| c.status == "False")
    }

    /// A request for remediation is due with it.
    pub fn makes_request(&self) -> bool {
        self.persisted && find(&self.conditions, "ExternallyRemediated").is_some()
    }

    /// A request for remediation was due, and could not be made.
    fn has_failed(&self) -> bool {
        let failures = ["RemediationTemplateNotFound", "RemediationRequestCreationFailed"];
        let request = find(&self.conditions, "ExternallyRemediated");
        request.is_some_and(|c| failures.contains(&c.reason.as_str()))
    }
}

struct Judged<'a> {
    machine: &'a Machine,
    health: TargetHealth,
}

/// How many may be unhealthy, and the message when there are more.
struct Allowance {
    /// May be negative, or more than there are targets.
    left: i32,
    /// Below a range that demands some unhealthy Machines.
    too_few: bool,
    refusal: String,
}

impl Allowance {
    fn allowed(&self) -> bool {
        self.left >= 0 && !self.too_few
    }

    fn condition(&self) -> Condition {
        if self.allowed() {
            condition(ALLOWED, Status::True, ALLOWED, "")
        } else {
            condition(ALLOWED, Status::False, "TooManyUnhealthy", self.refusal.clone())
        }
    }
}

/// Everything that is not known to be healthy counts against the limit; the message names only what is
/// confirmed.
fn allowance(
    check: &MachineHealthCheck,
    targets: usize,
    healthy: usize,
    confirmed: usize,
) -> Result<Allowance, String> {
    const SENTENCE: &str = "Remediation is not allowed, the number of not started or unhealthy machines";
    let unhealthy = int(targets) - int(healthy);
    let trigger = check.spec.remediation.as_ref().and_then(|r| r.trigger_if.as_ref());
    if let Some(range) = trigger.and_then(|t| t.unhealthy_in_range.as_ref()) {
        let (from, to) = parse_range(range)?;
        let numbers = format!("(total: {targets}, unhealthy: {confirmed}, unhealthyRange: {range})");
        return Ok(Allowance {
            left: to.saturating_sub(unhealthy),
            too_few: unhealthy < from,
            refusal: format!("{SENTENCE} does not fall within the range {numbers}"),
        });
    }
    let all = IntOrString::String("100%".to_owned());
    let limit = trigger.and_then(|t| t.unhealthy_less_than_or_equal_to.as_ref()).unwrap_or(&all);
    let max = scaled(limit, int(targets), Round::Down).ok_or_else(|| {
        format!("unhealthyLessThanOrEqualTo {:?} is no number or percentage", literal(limit))
    })?;
    let numbers = format!("(total: {targets}, unhealthy: {confirmed}, maxUnhealthy: {})", literal(limit));
    Ok(Allowance {
        left: max.saturating_sub(unhealthy),
        too_few: false,
        refusal: format!("{SENTENCE} exceeds maxUnhealthy {numbers}"),
    })
}

/// `[a-b]`, both included.
fn parse_range(text: &str) -> Result<(i32, i32), String> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let ends = inner.and_then(|inner| inner.split_once('-'));
    let parsed = ends.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    match parsed {
        Some((from, to)) if from <= to => Ok((from, to)),
        _ => Err(format!("unhealthyInRange {text:?} is no range like [1-3]")),
    }
}

fn int(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn marks(o: &Observed, judged: &[Judged<'_>], allowed: bool) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut stopped = false;
    for j in judged {
        let Some(result) = j.health.condition() else { continue };
        let healthy = j.health == TargetHealth::Healthy;
        let mark = match (&o.external, allowed) {
            (_, false) => Some(marked(j, vec![result], true)),
            (None, true) if healthy => Some(marked(j, vec![result], true)),
            (None, true) => {
                let request = wants_owner(j.machine).then(|| {
                    condition(
                        "OwnerRemediated",
                        Status::False,
                        "WaitingForRemediation",
                        "Waiting for remediation",
                    )
                });
                Some(marked(j, [Some(result), request].into_iter().flatten().collect(), true))
            }
            // A healthy Machine is only written when there is a request to take back.
            (Some(external), true) if healthy => {
                let persisted = external.requests.contains(machines::name(j.machine));
                Some(marked(j, vec![result], persisted))
            }
            (Some(_), true) if stopped => None,
            (Some(external), true) => {
                let mark = requested(external, j, result);
                // Upstream returns from its loop here, and the
                // Machines after it are not written in this pass.
                stopped = !mark.persisted;
                Some(mark)
            }
        };
        marks.extend(mark);
    }
    marks
}

fn marked(j: &Judged<'_>, conditions: Vec<Condition>, persisted: bool) -> Mark {
    Mark { machine: machines::name(j.machine).to_owned(), conditions, persisted }
}

/// An owner that is at work already is left alone, and so is a Machine on its way out.
fn wants_owner(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_none()
        && find(machine.conditions(), "OwnerRemediated").is_none_or(|c| c.status == "True")
}

fn requested(external: &ExternalRemediation, j: &Judged<'_>, result: Condition) -> Mark {
    let say =
        |reason: &str, message: String| condition("ExternallyRemediated", Status::False, reason, message);
    if external.requests.contains(machines::name(j.machine)) {
        return marked(j, vec![result], false);
    }
    if !external.template_exists {
        let message =
            format!("Error retrieving remediation template {} {}", external.kind, external.template);
        return marked(j, vec![result, say("RemediationTemplateNotFound", message)], false);
    }
    if external.creation_fails {
        let failed = say("RemediationRequestCreationFailed", CHECK_LOGS.to_owned());
        return marked(j, vec![result, failed], false);
    }
    marked(j, vec![result, say("WaitingForRemediation", String::new())], true)
}
