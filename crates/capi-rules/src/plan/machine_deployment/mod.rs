//! What a MachineDeployment does next: which MachineSet is current, how many replicas each gets, which
//! ones go. Must not know a client, nor how MachineSets make Machines.
//! Source: cluster-api `core/reconcilers/machinedeployment`, v1.14.2; algorithms MD-3 to MD-14.

mod desired;
mod identify;
pub mod in_place;
mod on_delete;
mod paused;
mod rolling;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::evidence::Evidence;
use super::{Plan, Rule, Step, Write, field_owners, ownership};
use crate::status::in_place::InPlace;
use crate::status::machine_deployment::{is_on_delete, is_rolling_update, max_surge, max_unavailable};
use capi_types::key::{ObjectKey, ObjectRef, annotation};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capi_types::names::{self, manager};
use capstan_base::time::Timestamp;
use identify::{Identified, identify};

/// After a question to an extension that was not answered.
const NO_ANSWER_RETRY: Duration = Duration::from_secs(15);

/// Everything the plan depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// As it was read.
    pub deployment: MachineDeployment,
    /// Those it controls, deleting ones included.
    pub sets: Vec<Arc<MachineSet>>,
    /// Kinds of templates that it refers to and that do not exist.
    pub missing_templates: Vec<String>,
    /// Five characters for a new MachineSet's name.
    pub suffix: String,
    /// All that its selector matches; looked at only where updates in place are on.
    pub machines: Vec<Arc<Machine>>,
    /// Answers by the name of the old MachineSet, about the current one.
    pub in_place: InPlace,
}

/// Why a step is due, or what holds it back.
#[allow(missing_docs, reason = "`Display` says each in a sentence")]
#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    /// With the difference that made it necessary.
    NewSet(String),
    /// The notes of the rules that set its replicas, or that its labels follow the deployment.
    Replicas(String),
    Propagation,
    RolledOut,
    Deleting,
    Completed,
    Revision,
    TemplatesMissing(Vec<String>),
    UnknownStrategy(String),
    /// Whether this old MachineSet's Machines can be updated in place is not known.
    NotAsked(String),
    NoAnswer {
        set: String,
        detail: String,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewSet(why) => f.write_str(why),
            Self::Replicas(notes) => f.write_str(notes),
            Self::Propagation => {
                f.write_str("labels, annotations and in-place fields follow the MachineDeployment")
            }
            Self::RolledOut => f.write_str("the rollout is complete and the MachineSet is empty"),
            Self::Deleting => f.write_str("the MachineDeployment is being deleted"),
            Self::Completed => f.write_str("no MachineSet is left"),
            Self::Revision => f.write_str("the revision of the current MachineSet is recorded"),
            Self::TemplatesMissing(kinds) => {
                write!(f, "cannot create a MachineSet when templates do not exist: {}", kinds.join(", "))
            }
            Self::UnknownStrategy(name) => write!(f, "unexpected deployment strategy type: {name}"),
            Self::NotAsked(set) => {
                write!(f, "whether the Machines of MachineSet {set} can be updated in place was not asked")
            }
            Self::NoAnswer { set, detail } => {
                write!(f, "failed to determine if MachineSet {set} can be updated in-place: {detail}")
            }
        }
    }
}

impl Rule for Why {
    fn name(&self) -> &'static str {
        match self {
            Self::NewSet(_) => "new-machine-set",
            Self::Replicas(_) => "replicas",
            Self::Propagation => "propagation",
            Self::RolledOut => "rolled-out",
            Self::Deleting => "deleting",
            Self::Completed => "deletion-completed",
            Self::Revision => "revision",
            Self::TemplatesMissing(_) => "templates-missing",
            Self::UnknownStrategy(_) => "unknown-strategy",
            Self::NotAsked(_) => "extensions-not-asked",
            Self::NoAnswer { .. } => "extensions-do-not-answer",
        }
    }

    fn evidence(&self) -> Vec<Evidence> {
        match self {
            Self::TemplatesMissing(_) => Evidence::own_field("spec.template.spec.infrastructureRef"),
            Self::UnknownStrategy(_) => Evidence::own_field("spec.rollout.strategy.type"),
            _ => Vec::new(),
        }
    }
}

/// The next writes. Order: the current MachineSet first, then old ones oldest first, then clean-up.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    if observed.deployment.metadata.deletion_timestamp.is_some() {
        return delete(observed);
    }
    let mut plan = Plan::default();
    let identified = identify(&observed.deployment, &observed.sets, now);
    let paused = observed.deployment.spec.paused == Some(true);
    let Some(mut rollout) = Rollout::begin(observed, &identified, paused, &mut plan) else { return plan };
    if paused {
        paused::scale(&mut rollout);
    } else if is_rolling_update(&observed.deployment) {
        if let Err(blocker) = rolling::scale(&mut rollout, observed) {
            // As upstream, which ends the pass with an error.
            plan.block(blocker);
            plan.recheck_within(NO_ANSWER_RETRY);
            return plan;
        }
    } else if is_on_delete(&observed.deployment) {
        on_delete::scale(&mut rollout);
    } else {
        let strategy = observed.deployment.spec.rollout.as_ref().and_then(|r| r.strategy.as_ref());
        plan.block(Why::UnknownStrategy(strategy.map(|s| s.type_.clone()).unwrap_or_default()));
        return plan;
    }
    rollout.write(observed, &mut plan);
    if !paused {
        clean_up(observed, &rollout, &mut plan);
    }
    recheck_at_rollout_after(observed, now, &mut plan);
    plan
}

/// One MachineSet while the rules set its replicas.
#[derive(Clone, Debug)]
struct Share {
    /// `None`: it is to be created.
    live: Option<Arc<MachineSet>>,
    /// As it will be stored, but for the replicas.
    desired: MachineSet,
    spec: i32,
    status: i32,
    available: i32,
    up_to_date: i32,
    /// Of an old one: its Machines may be updated in place, as far as the spec has a say.
    eligible: bool,
    /// What a rule wants `spec.replicas` to be.
    intent: Option<i32>,
    notes: Vec<String>,
}

impl Share {
    fn of(live: Option<Arc<MachineSet>>, desired: MachineSet) -> Self {
        let status = live.as_ref().and_then(|s| s.status.as_ref());
        Self {
            spec: live.as_ref().and_then(|s| s.spec.replicas).unwrap_or(0),
            status: status.and_then(|s| s.replicas).unwrap_or(0),
            available: status.and_then(|s| s.available_replicas).unwrap_or(0),
            up_to_date: status.and_then(|s| s.up_to_date_replicas).unwrap_or(0),
            eligible: false,
            intent: None,
            notes: Vec::new(),
            live,
            desired,
        }
    }

    /// What it will have when the plan is carried out.
    fn replicas(&self) -> i32 {
        self.intent.unwrap_or(self.spec)
    }

    fn name(&self) -> &str {
        self.desired.metadata.name.as_deref().unwrap_or_default()
    }

    fn want(&mut self, replicas: i32, note: String) {
        // Upstream bounds at zero, too: several rules subtract without looking.
        self.intent = Some(replicas.max(0));
        self.note(note);
    }

    /// A MachineSet whose template the deployment has again gets a new revision.
    fn note_return(&mut self) {
        let Some(live) = &self.live else { return };
        let (before, after) = (annotation(live.as_ref(), names::annotation::REVISION), &self.desired);
        if before != annotation(after, names::annotation::REVISION) {
            self.note("this is now the current MachineSet".to_owned());
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// The current MachineSet, the old ones, and how far the numbers may go.
#[derive(Clone, Debug)]
struct Rollout {
    replicas: i32,
    max_surge: i32,
    max_unavailable: i32,
    /// `None` only while paused without one.
    current: Option<Share>,
    create_reason: Option<String>,
    old: Vec<Share>,
}

impl Rollout {
    /// `None` when a MachineSet is needed and cannot be made; the plan then says why.
    fn begin(observed: &Observed, identified: &Identified, paused: bool, plan: &mut Plan) -> Option<Self> {
        let deployment = &observed.deployment;
        let old_sets: Vec<Arc<MachineSet>> = identified.old.iter().map(|(set, _)| set.clone()).collect();
        let share = |(set, eligible): &(Arc<MachineSet>, bool)| Share {
            eligible: *eligible,
            ..Share::of(Some(set.clone()), desired::old_set(deployment, set))
        };
        let old: Vec<Share> = identified.old.iter().map(share).collect();
        let current = match &identified.current {
            Some(set) => {
                let after = desired::current_set(deployment, set, &old_sets);
                let mut share = Share::of(Some(set.clone()), after);
                share.note_return();
                Some(share)
            }
            // Upstream makes no MachineSet while paused; the existing ones still follow.
            None if paused => None,
            None if !observed.missing_templates.is_empty() => {
                plan.block(Why::TemplatesMissing(observed.missing_templates.clone()));
                return None;
            }
            None => Some(Share::of(None, desired::new_set(deployment, &observed.suffix, &old_sets))),
        };
        Some(Self {
            replicas: deployment.spec.replicas.unwrap_or(1),
            max_surge: max_surge(deployment),
            max_unavailable: max_unavailable(deployment),
            current,
            create_reason: identified.create_reason.clone(),
            old,
        })
    }

    /// The current MachineSet and the old ones.
    fn all(&self) -> impl Iterator<Item = &Share> {
        self.current.iter().chain(&self.old)
    }

    fn sort_old_by_age(&mut self) {
        self.old.sort_by_key(|share| (desired::created(share.live.as_deref()), share.name().to_owned()));
    }

    fn write(&self, observed: &Observed, plan: &mut Plan) {
        for share in self.all() {
            write_share(observed, share, self.create_reason.as_deref(), plan);
        }
        // Paused without a current MachineSet the annotation
        // becomes empty, which is a quirk of upstream.
        let revision =
            self.current.as_ref().and_then(|s| annotation(&s.desired, names::annotation::REVISION));
        let revision = revision.unwrap_or_default();
        if annotation(&observed.deployment, names::annotation::REVISION) != Some(revision) {
            let body = json!({"metadata": {"annotations": {names::annotation::REVISION: revision}}});
            plan.step(Write::Patch { object: ObjectRef::of(&observed.deployment), body }, Why::Revision);
        }
    }
}

fn write_share(observed: &Observed, share: &Share, create_reason: Option<&str>, plan: &mut Plan) {
    let mut after = share.desired.clone();
    after.spec.replicas = Some(share.replicas());
    let about = ObjectRef::of(&observed.deployment);
    let event = |reason, message| Write::Event { about: about.clone(), warning: false, reason, message };
    let key = ObjectKey::of(&after);
    let Some(live) = &share.live else {
        let why = Why::NewSet(create_reason.unwrap_or("no MachineSet matches the template").to_owned());
        let step = Step::new(field_owners::create(&after, manager::MACHINE_DEPLOYMENT), why.clone());
        let tried = format!("Failed to create MachineSet {key}");
        plan.steps.push(step.or_complain(about.clone(), "FailedCreate", tried));
        let message = format!("Created MachineSet {key} with {} replicas", share.replicas());
        plan.step(event("SuccessfulCreate", message), why);
        return;
    };
    // Machines go with their MachineSet whatever its number;
    // upstream ignores the conflict of such an apply.
    if live.metadata.deletion_timestamp.is_some() {
        return;
    }
    let from = live.spec.replicas.unwrap_or(0);
    let is_scaled = share.replicas() != from;
    let is_paused = observed.deployment.spec.paused == Some(true);
    if is_paused {
        // The patch below changes the number; the apply must not do so before it.
        after.spec.replicas = live.spec.replicas;
    }
    let writes = field_owners::keep(live.as_ref(), &after, manager::MACHINE_DEPLOYMENT);
    let follows_only = !is_scaled || is_paused;
    let because = Why::Replicas(share.notes.join(", "));
    let why = if follows_only { Why::Propagation } else { because.clone() };
    let failed_update = |step: Step| {
        step.or_complain(about.clone(), "FailedUpdate", format!("Failed to update MachineSet {key}"))
    };
    plan.steps.extend(Step::of(writes, why).map(failed_update));
    let to = share.replicas();
    if is_scaled && is_paused {
        // As upstream, which scales by a patch while paused.
        let object = ObjectRef::of(live.as_ref());
        let step =
            Step::new(Write::Patch { object, body: json!({ "spec": { "replicas": to } }) }, because.clone());
        let tried = format!("Failed to scale MachineSet {key}");
        plan.steps.push(step.or_complain(about.clone(), "FailedScale", tried));
        plan.step(event("SuccessfulScale", format!("Scaled MachineSet {key}: {from} -> {to}")), because);
    } else if is_scaled {
        let direction = if to < from { "down" } else { "up" };
        let message = format!("Scaled {direction} MachineSet {}: {from} -> {to}", share.name());
        plan.step(event("SuccessfulScale", message), because);
    }
}

/// MD-14: empty old MachineSets go once the rollout is complete.
fn clean_up(observed: &Observed, rollout: &Rollout, plan: &mut Plan) {
    let deployment = &observed.deployment;
    let Some(status) = &deployment.status else { return };
    let full = Some(rollout.replicas);
    // Numbers of an older generation do not count; upstream, too, cleans up a pass later for that.
    let complete = status.replicas == full
        && status.up_to_date_replicas == full
        && status.available_replicas == full
        && status.observed_generation >= deployment.metadata.generation;
    if !complete {
        return;
    }
    for share in &rollout.old {
        let Some(live) = &share.live else { continue };
        let observed_generation = live.status.as_ref().and_then(|s| s.observed_generation);
        // The generation must be observed: a MachineSet
        // scaled up a moment ago still reports no Machine.
        let empty = share.spec == 0 && share.replicas() == 0 && share.status == 0;
        if empty
            && live.metadata.deletion_timestamp.is_none()
            && observed_generation >= live.metadata.generation
        {
            let about = ObjectRef::of(deployment);
            let step = Step::new(Write::Delete { object: ObjectRef::of(live.as_ref()) }, Why::RolledOut);
            let tried = format!("Failed to delete MachineSet {:?}", share.name());
            plan.steps.push(step.or_complain(about.clone(), "FailedDelete", tried));
            let message = format!("Deleted MachineSet {:?}", share.name());
            plan.step(
                Write::Event { about, warning: false, reason: "SuccessfulDelete", message },
                Why::RolledOut,
            );
        }
    }
}

/// MD-12: every MachineSet goes, and when none is left, the MachineDeployment.
fn delete(observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    for set in observed.sets.iter().filter(|s| s.metadata.deletion_timestamp.is_none()) {
        plan.step(Write::Delete { object: ObjectRef::of(set.as_ref()) }, Why::Deleting);
    }
    if observed.sets.is_empty() {
        let deployment = &observed.deployment;
        let release = ownership::remove_finalizer(deployment, names::finalizer::MACHINE_DEPLOYMENT);
        plan.step(release, Why::Completed);
        plan.is_last = true;
    }
    plan
}

/// Intended difference: upstream asks for no timed run, so a scheduled rollout begins there with the
/// next unrelated event. Here it begins when its moment comes.
fn recheck_at_rollout_after(observed: &Observed, now: Timestamp, plan: &mut Plan) {
    let after = observed.deployment.spec.rollout.as_ref().and_then(|r| r.after.as_ref());
    if let Some(delay) = after.and_then(|after| (capstan_base::time::from_k8s(after) - now).to_std().ok()) {
        plan.recheck_within(delay);
    }
}
