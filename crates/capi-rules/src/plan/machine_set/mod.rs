//! What a MachineSet does next: make Machines, delete Machines, keep them in step with its template.
//! Must not know a client, nor how a Machine comes up.
//! Source: cluster-api `core/reconcilers/machineset`, v1.14.2 (MS-1 to MS-9).

mod desired;
mod in_place;
mod in_step;
mod order;
pub mod preflight;
pub mod remediate;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::evidence::{Evidence, Subject};
use super::{OnFailure, Plan, Rule, Step, Write, field_owners, ownership};
use crate::status::contract::External;
use crate::status::machine_set as judged;
use crate::status::remediation::Limits;
use capi_types::key::{ObjectKey, ObjectRef, annotation};
use capi_types::machine::Machine;
use capi_types::machine_set::{MachineSet, MachineSetStatus};
use capi_types::names::{self, manager};
use capstan_base::text::counted;
use capstan_base::time::Timestamp;
pub use in_step::{InStep, intent_mark};
use preflight::Preflight;

/// When a failed preflight is tried again.
const PREFLIGHT_RECHECK: Duration = Duration::from_secs(15);
/// When Machines that are not ready are looked at again, should no event come.
const NOT_READY_RECHECK: Duration = Duration::from_secs(15);
/// Machines made in one pass at most.
const MADE_AT_ONCE_MAX: usize = 100;

/// Everything the plan depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// As it was read.
    pub set: MachineSet,
    /// Those it controls, deleting ones included.
    pub machines: Vec<Arc<Machine>>,
    /// Infrastructure and bootstrap configuration of each Machine, in the same order.
    pub clones: Vec<[External; 2]>,
    /// The whole template objects. `None`: missing, or (bootstrap) not referred to.
    pub infrastructure_template: Option<Arc<Value>>,
    /// `None`: missing, or not referred to.
    pub bootstrap_template: Option<Arc<Value>>,
    /// Kinds of templates that it refers to and that do not exist.
    pub missing_templates: Vec<String>,
    /// One of the templates is there and cannot be read.
    pub has_unreadable_template: bool,
    /// A missing template ends the pass; see [`needs_templates`](crate::status::machine_set::needs_templates).
    pub needs_templates: bool,
    /// What the checks before a new Machine look at.
    pub preflight: Preflight,
    /// How many unhealthy Machines may be replaced at once.
    pub remediation: Limits,
    /// Five characters each; at least as many as Machines may be made in one pass.
    pub suffixes: Vec<String>,
    /// Updates in place are on: Machines that are to be updated are handed to their controller.
    pub updates_in_place: bool,
    /// The MachineSet that takes its surplus, where one is named and exists.
    pub target: Option<Arc<MachineSet>>,
}

/// Why a step is due, or what holds it back.
#[allow(missing_docs, reason = "`Display` says each in a sentence")]
#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    /// Machines there are, and wanted.
    TooFew(usize, i32),
    TooMany(usize, i32),
    Propagation,
    Unhealthy,
    HealthyAgain,
    /// What keeps an unhealthy Machine from being replaced.
    RemediationHeld(String),
    Deleting,
    Completed,
    CreationDisabled,
    Preflight(String),
    TemplatesMissing(Vec<String>),
    Naming(String),
    /// To the MachineSet of this name.
    Move(String),
    CannotMove(String),
    UpdateInPlace,
    CannotBegin {
        machine: String,
        what: String,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew(current, desired) => {
                write!(f, "{}, {desired} wanted", counted(*current, "Machine"))
            }
            Self::TooMany(current, desired) => {
                write!(f, "{}, only {desired} wanted", counted(*current, "Machine"))
            }
            Self::Propagation => f.write_str("labels, annotations and in-place fields follow the MachineSet"),
            Self::Unhealthy => f.write_str("a health check found the Machine unhealthy"),
            Self::HealthyAgain => f.write_str("the Machine passes its health check again"),
            Self::Deleting => f.write_str("the MachineSet is being deleted"),
            Self::Completed => f.write_str("no Machine is left"),
            Self::CreationDisabled => {
                write!(f, "{} is set: Machines are not made here", names::annotation::DISABLE_MACHINE_CREATE)
            }
            Self::Preflight(sentence)
            | Self::RemediationHeld(sentence)
            | Self::Naming(sentence)
            | Self::CannotMove(sentence) => f.write_str(sentence),
            Self::Move(target) => write!(f, "it moves to MachineSet {target}, to be updated in place"),
            Self::UpdateInPlace => f.write_str("it is updated in place to the template of the MachineSet"),
            Self::CannotBegin { machine, what } => write!(
                f,
                "failed to complete triggering in-place update for Machine {machine}: {what} does not exist"
            ),
            Self::TemplatesMissing(kinds) => write!(f, "{} does not exist", kinds.join(" and ")),
        }
    }
}

impl Rule for Why {
    fn name(&self) -> &'static str {
        match self {
            Self::TooFew(..) => "too-few-machines",
            Self::TooMany(..) => "too-many-machines",
            Self::Propagation => "propagation",
            Self::Unhealthy => "unhealthy",
            Self::HealthyAgain => "healthy-again",
            Self::RemediationHeld(_) => "remediation-held",
            Self::Deleting => "deleting",
            Self::Completed => "deletion-completed",
            Self::CreationDisabled => "creation-disabled",
            Self::Preflight(_) => "preflight",
            Self::TemplatesMissing(_) => "templates-missing",
            Self::Naming(_) => "naming",
            Self::Move(_) => "move",
            Self::CannotMove(_) => "cannot-move",
            Self::UpdateInPlace => "update-in-place",
            Self::CannotBegin { .. } => "update-cannot-begin",
        }
    }

    fn evidence(&self) -> Vec<Evidence> {
        match self {
            Self::Preflight(_) => {
                let of = || Subject::ControlPlane;
                vec![Evidence::condition(of(), "RollingOut"), Evidence::field(of(), "spec.version")]
            }
            Self::CreationDisabled | Self::CannotMove(_) => Evidence::own_field("metadata.annotations"),
            Self::TemplatesMissing(_) => Evidence::own_field("spec.template.spec.infrastructureRef"),
            Self::Naming(_) => Evidence::own_field("spec.machineNaming.template"),
            Self::TooFew(..)
            | Self::TooMany(..)
            | Self::Propagation
            | Self::Unhealthy
            | Self::HealthyAgain
            | Self::RemediationHeld(_)
            | Self::Deleting
            | Self::Completed
            | Self::Move(_)
            | Self::UpdateInPlace => Vec::new(),
            Self::CannotBegin { machine, .. } => {
                vec![Evidence::condition(Subject::Machine(machine.clone()), "Updating")]
            }
        }
    }

    fn on_failure(&self) -> OnFailure {
        // Each Machine by itself.
        OnFailure {
            is_independent: matches!(self, Self::Move(_) | Self::UpdateInPlace),
            ..OnFailure::default()
        }
    }
}

/// The next writes. Order: unhealthy Machines are remediated, existing ones kept in step, updates in place begun, then
/// their number is corrected, by moving Machines where another MachineSet takes them; a Machine that was remediated
/// still counts in this pass.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    planned(observed, Some(&InStep::default()), now)
}

/// The same plan, without comparing the Machines again that are known to be in step.
pub fn plan_sparing(observed: &Observed, known: &InStep, now: Timestamp) -> Plan {
    planned(observed, Some(known), now)
}

/// The same for Machines that are known to be in step: for readers that run ahead of time, and saw to it before.
pub fn plan_followed(observed: &Observed, now: Timestamp) -> Plan {
    planned(observed, None, now)
}

/// Without `known` no Machine is compared.
fn planned(observed: &Observed, known: Option<&InStep>, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if observed.set.metadata.deletion_timestamp.is_some() {
        leave(observed, &mut plan);
        return plan;
    }
    // Before the count: what a remediation deletes still
    // counts, so its replacement waits for the next pass.
    remediate::unhealthy(observed, &mut plan);
    if let Some(known) = known {
        keep_in_step(observed, known, &mut plan);
    }
    let begun = in_place::begin(observed, &mut plan);
    let current = observed.machines.len();
    let desired = observed.set.spec.replicas.unwrap_or(1);
    // Only an object that bypassed validation has a negative number; it counts as none.
    let wanted = usize::try_from(desired).unwrap_or(0);
    if current < wanted {
        make(observed, wanted - current, &Why::TooFew(current, desired), &mut plan);
        return plan;
    }
    // Upstream's difference may be below zero here; then nothing is deleted or made either.
    let surplus = (current - wanted).saturating_sub(in_place::not_counted(observed, &begun));
    if surplus == 0 {
        return plan;
    }
    match annotation(&observed.set, names::annotation::MOVE_MACHINES_TO).filter(|target| !target.is_empty()) {
        Some(target) => in_place::hand_over(observed, target, surplus, now, &mut plan),
        None => take(observed, surplus, &Why::TooMany(current, desired), now, &mut plan),
    }
    plan
}

/// Every Machine goes, and when none is left, the MachineSet.
fn leave(observed: &Observed, plan: &mut Plan) {
    for machine in observed.machines.iter().filter(|m| m.metadata.deletion_timestamp.is_none()) {
        // Without an event: upstream reports deletions only of a MachineSet that stays.
        plan.step(Write::Delete { object: ObjectRef::of(machine.as_ref()) }, Why::Deleting);
    }
    if observed.machines.is_empty() {
        let release = ownership::remove_finalizer(&observed.set, names::finalizer::MACHINE_SET);
        plan.step(release, Why::Completed);
        plan.is_last = true;
    }
}

/// How many random parts of names a pass may need, so that one pass stays short.
pub fn names_wanted(set: &MachineSet, current: usize) -> usize {
    missing(set, current).min(MADE_AT_ONCE_MAX)
}

/// Does a pass over these facts go through, so that the generation counts as observed?
pub fn is_complete(observed: &Observed) -> bool {
    let misses_template = observed.needs_templates && !observed.missing_templates.is_empty();
    let makes = makes_machines(&observed.set, observed.machines.len());
    // Upstream ends with an error when a check could not be made, and leaves observedGeneration.
    let is_unchecked = makes && preflight::check(&observed.preflight).is_err();
    !observed.has_unreadable_template && !misses_template && !is_unchecked
}

/// When Machines that are not ready or available yet are looked at again, should no event come.
/// Source: the deferred requeue of MS-1.
pub fn recheck(set: &MachineSet, status: &MachineSetStatus) -> Option<Duration> {
    let min_ready_s = set.spec.template.spec.min_ready_seconds.and_then(|s| u64::try_from(s).ok());
    let min_ready_s = min_ready_s.unwrap_or(0);
    if set.metadata.deletion_timestamp.is_some() {
        None
    } else if status.ready_replicas != status.replicas {
        Some(NOT_READY_RECHECK)
    } else if min_ready_s > 0 && status.available_replicas != status.replicas {
        // Only time is missing: no event comes when the last minReadySeconds are over.
        Some(Duration::from_secs(min_ready_s))
    } else {
        None
    }
}

/// What the status looks at after a pass.
pub fn judged(observed: Observed) -> judged::Observed {
    let preflight = preflight_messages(&observed);
    let (machines, missing_templates) = (Some(observed.machines), observed.missing_templates);
    judged::Observed { set: observed.set, machines, missing_templates, preflight }
}

/// Machines are wanted, and nothing keeps the set itself from making them.
pub fn makes_machines(set: &MachineSet, current: usize) -> bool {
    set.metadata.deletion_timestamp.is_none() && missing(set, current) > 0 && !is_creation_disabled(set)
}

/// The sentences that keep Machines from being made in this pass, for the `ScalingUp` condition.
fn preflight_messages(observed: &Observed) -> Vec<String> {
    if makes_machines(&observed.set, observed.machines.len()) {
        preflight::failures(&observed.preflight)
    } else {
        Vec::new()
    }
}

/// How many Machines are wanted beyond those there are.
fn missing(set: &MachineSet, current: usize) -> usize {
    usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or(0).saturating_sub(current)
}

fn is_creation_disabled(set: &MachineSet) -> bool {
    annotation(set, names::annotation::DISABLE_MACHINE_CREATE) == Some("true")
}

/// MS-3: Machines, and the labels and annotations of the objects behind them.
fn keep_in_step(observed: &Observed, known: &InStep, plan: &mut Plan) {
    let set = &observed.set;
    let (labels, annotations) = (desired::machine_labels(set), desired::machine_annotations(set));
    let intent = intent_mark(set);
    for (index, machine) in observed.machines.iter().enumerate() {
        if known.holds(observed, index, intent) {
            continue;
        }
        if machine.metadata.deletion_timestamp.is_some() {
            let patch = Write::difference(machine.as_ref(), &desired::leaving(machine, set));
            plan.steps.extend(patch.map(|patch| Step::new(patch, Why::Propagation)));
            continue;
        }
        let writes = field_owners::keep(machine.as_ref(), &desired::kept(machine, set), manager::MACHINE_SET);
        plan.steps.extend(Step::of(writes, Why::Propagation));
        for clone in observed.clones.get(index).into_iter().flatten().filter_map(External::found) {
            let metadata = manager::MACHINE_SET_METADATA;
            let writes = field_owners::keep_metadata(clone.content(), &labels, &annotations, metadata);
            plan.steps.extend(Step::of(writes, Why::Propagation));
        }
    }
}

fn make(observed: &Observed, count: usize, because: &Why, plan: &mut Plan) {
    if is_creation_disabled(&observed.set) {
        plan.block(Why::CreationDisabled);
        return;
    }
    let failures = preflight::failures(&observed.preflight);
    if !failures.is_empty() {
        failures.into_iter().for_each(|sentence| plan.block(Why::Preflight(sentence)));
        plan.recheck_within(PREFLIGHT_RECHECK);
        return;
    }
    // After the preflight: both may hold at once, and upstream reports the preflight first.
    let (Some(template), true) = (&observed.infrastructure_template, observed.missing_templates.is_empty())
    else {
        plan.block(Why::TemplatesMissing(observed.missing_templates.clone()));
        return;
    };
    for suffix in observed.suffixes.iter().take(count) {
        // The rest is not made either: upstream ends the round with its first failure.
        if let Err(blocker) = make_one(observed, template, suffix, because, plan) {
            plan.block(blocker);
            return;
        }
    }
}

fn make_one(
    observed: &Observed,
    template: &Value,
    suffix: &str,
    because: &Why,
    plan: &mut Plan,
) -> Result<(), Why> {
    let made = desired::new_machine(observed, template, suffix).map_err(|e| Why::Naming(e.to_string()))?;
    let set = &observed.set;
    let (labels, annotations) = (desired::machine_labels(set), desired::machine_annotations(set));
    let (all, metadata) = (manager::MACHINE_SET, manager::MACHINE_SET_METADATA);
    // The Machine comes last: its controller reports
    // objects that it refers to and that do not exist.
    for clone in made.bootstrap.into_iter().chain([made.infrastructure]) {
        let writes = field_owners::create_clone(clone, all, metadata, &labels, &annotations);
        plan.steps.extend(Step::of(writes.into(), because.clone()));
    }
    let message = format!("Created Machine {:?}", ObjectKey::of(&made.machine).name);
    plan.step(field_owners::create(&made.machine, all), because.clone());
    event(observed, "SuccessfulCreate", message, because.clone(), plan);
    Ok(())
}

/// Deletes the first `count` in deletion order; those already on their way count.
fn take(observed: &Observed, count: usize, because: &Why, now: Timestamp, plan: &mut Plan) {
    let chosen = in_order(&observed.set, &observed.machines, now);
    for machine in chosen.iter().take(count).filter(|m| m.metadata.deletion_timestamp.is_none()) {
        delete(observed, machine, because.clone(), plan);
    }
}

/// Its Machines in the order in which they go, or are handed over.
pub fn in_order(set: &MachineSet, machines: &[Arc<Machine>], now: Timestamp) -> Vec<Arc<Machine>> {
    let policy = set.spec.deletion.as_ref().and_then(|d| d.order.as_deref());
    order::deletion_order(machines, policy, now)
}

fn delete(observed: &Observed, machine: &Machine, because: Why, plan: &mut Plan) {
    let object = ObjectRef::of(machine);
    let message = format!("Deleted Machine {:?}", object.key.name);
    plan.step(Write::Delete { object }, because.clone());
    event(observed, "SuccessfulDelete", message, because, plan);
}

fn event(observed: &Observed, reason: &'static str, message: String, because: Why, plan: &mut Plan) {
    plan.step(Write::Event { about: ObjectRef::of(&observed.set), warning: false, reason, message }, because);
}
