//! What a MachineHealthCheck does next: writes what it found on its Machines, asks their owners or an outside
//! remediator to replace the unhealthy ones, and takes requests back. Must not judge health (`status` does) nor replace
//! a Machine.
//! Source: cluster-api `core/reconcilers/machinehealthcheck/machinehealthcheck_controller.go` (`reconcile`,
//! `patchHealthyTargets`, `patchUnhealthyTargets`), v1.14.2 (MHC-1, MHC-3, MHC-4).

#[cfg(test)]
mod tests;
mod why;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::opening::followed_check;
use super::ownership::owner;
use super::template::{Clone, clone_of};
use super::{Plan, Step, StepAction, Write};
use crate::status::conditions::setter::Draft;
use crate::status::contract::definition;
use crate::status::machine_health_check::{self as judged, ExternalRemediation, Mark, Outcome, Target};
use capi_types::condition::{Conditioned as _, find};
use capi_types::key::{Gvk, ObjectKey, ObjectRef, group_of};
use capi_types::machine::Machine;
use capi_types::machine_health_check::MachineHealthCheck;
use capstan_base::time::Timestamp;
use why::Why;

/// How soon a check is tried again that could not be made. Upstream's back-off grows from its interval of 15 seconds.
const RETRY: Duration = Duration::from_secs(30);

/// What the plan looks at.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// What the check and its status are judged by.
    pub judged: judged::Observed,
    /// Only with `spec.remediation.templateRef`.
    pub outside: Remediator,
}

/// What remediates outside; empty when the owners of the Machines do.
#[derive(Clone, Debug, Default)]
pub struct Remediator {
    /// What requests are made from; `None` when it does not exist or was not read.
    pub template: Option<Value>,
    /// By name, which is that of the Machine.
    pub requests: BTreeMap<String, RemediationRequest>,
}

/// An object of an external remediation template, made for one Machine.
#[derive(Clone, Debug)]
pub struct RemediationRequest {
    /// Where to delete it.
    pub object: ObjectRef,
    /// It is on its way out.
    pub is_leaving: bool,
}

impl Observed {
    /// With what the template reference of the check leads to.
    pub fn new(mut judged: judged::Observed, outside: Remediator) -> Self {
        let reference = judged.check.spec.remediation.as_ref().and_then(|r| r.template_ref.as_ref());
        judged.external = reference.map(|reference| ExternalRemediation {
            kind: reference.kind.clone(),
            template: format!("{}/{}", namespace(&judged.check), reference.name),
            template_exists: outside.template.is_some(),
            requests: outside.requests.keys().cloned().collect(),
            // Judged before anything is sent; a creation that fails is reported by the step itself.
            creation_fails: false,
        });
        Self { judged, outside }
    }
}

/// The template of a check and the kind of its requests; `None` when the owners of the Machines remediate.
pub fn remediation_kinds(check: &MachineHealthCheck) -> Option<(ObjectRef, Gvk)> {
    let reference = check.spec.remediation.as_ref()?.template_ref.as_ref()?;
    let (group, version) = (group_of(&reference.api_version), version_of(&reference.api_version));
    let request = reference.kind.strip_suffix("Template").unwrap_or(&reference.kind);
    let key = ObjectKey::new(namespace(check), &reference.name);
    let gvk = definition::gvk(group, version, &reference.kind);
    Some((ObjectRef { gvk, key, uid: String::new() }, definition::gvk(group, version, request)))
}

fn version_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or(api_version, |(_, version)| version)
}

fn namespace(check: &MachineHealthCheck) -> &str {
    check.metadata.namespace.as_deref().unwrap_or_default()
}

/// The judgement that the status is made from, and what follows from it.
pub fn plan(o: &Observed, now: Timestamp) -> (Outcome, Plan) {
    let outcome = judged::judge(&o.judged, now);
    let mut plan = Plan::default();
    let (check, cluster) = (&o.judged.check, &o.judged.cluster);
    if let Some(patch) = Write::difference(check, &followed_check(check, cluster)) {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        // The list of owners is replaced as a whole.
        plan.step(patch.if_unchanged(&check.metadata), Why::OfCluster { cluster: name });
    }
    if let Some(error) = &outcome.failure {
        plan.block(Why::Unjudged { error: error.to_string() });
        plan.recheck_within(RETRY);
        return (outcome, plan);
    }
    let pass = Pass { o, now };
    match outcome.remediation_allowed() {
        Ok(()) => pass.remediate(&outcome, &mut plan),
        Err(message) => pass.restrict(&outcome, message, &mut plan),
    }
    // Upstream forgets the time while remediation is not allowed.
    if let Some(left) = outcome.recheck.and_then(|left| left.to_std().ok()) {
        plan.recheck_within(left);
    }
    (outcome, plan)
}

/// What holds a check by its own account, for readers that cannot ask for Nodes.
pub fn as_reported(check: &MachineHealthCheck) -> Plan {
    let mut plan = Plan::default();
    let allowed = find(check.conditions(), "RemediationAllowed");
    if let Some(refused) = allowed.filter(|condition| condition.status == "False") {
        plan.block(Why::TooMany { message: refused.message.clone() });
    }
    plan
}

struct Pass<'a> {
    o: &'a Observed,
    now: Timestamp,
}

impl Pass<'_> {
    /// Unhealthy Machines come first, as upstream has it.
    fn remediate(&self, outcome: &Outcome, plan: &mut Plan) {
        for mark in outcome.marks.iter().filter(|mark| mark.is_unhealthy()) {
            // Marks are made from these targets, so one is always found.
            let Some(target) = self.target(mark) else { continue };
            if mark.persisted {
                plan.steps.extend(self.unhealthy(target, mark));
            } else {
                self.not_requested(mark, plan);
            }
        }
        for mark in outcome.marks.iter().filter(|mark| !mark.is_unhealthy() && mark.persisted) {
            plan.steps.extend(self.healthy(mark));
        }
    }

    /// What was found is written, and nothing is asked for.
    fn restrict(&self, outcome: &Outcome, message: &str, plan: &mut Plan) {
        if outcome.marks.iter().any(Mark::is_unhealthy) {
            let about = ObjectRef::of(&self.o.judged.check);
            let (reason, message) = ("RemediationRestricted", message.to_owned());
            plan.step(Write::Event { about, warning: true, reason, message }, Why::Restricted);
        }
        for mark in &outcome.marks {
            let why = if mark.is_unhealthy() { Why::unhealthy(mark) } else { Why::Healthy };
            let write = self.target(mark).and_then(|target| self.conditions(target, mark));
            plan.steps.extend(write.map(|write| Step::new(write, why)));
        }
        plan.block(Why::TooMany { message: message.to_owned() });
    }

    fn target(&self, mark: &Mark) -> Option<&Target> {
        let named = |target: &&Target| target.machine.metadata.name.as_deref() == Some(mark.machine.as_str());
        self.o.judged.targets.iter().find(named)
    }

    /// The event comes in every pass, also when the marks are there.
    fn unhealthy(&self, target: &Target, mark: &Mark) -> Option<Step> {
        let machine = &target.machine;
        let request = mark.makes_request().then(|| self.request(machine)).flatten();
        let makes_request = request.is_some();
        let conditions = self.conditions(target, mark);
        let ObjectKey { namespace, name } = ObjectKey::of(machine.as_ref());
        let action = match &request {
            Some(Write::Create { object, .. }) => {
                let (kind, ObjectKey { namespace, name }) = (object.gvk.kind.clone(), object.key.clone());
                Some(StepAction::RequestRemediation { kind, namespace, name })
            }
            _ => conditions.as_ref().map(|_| StepAction::MarkUnhealthy { namespace, machine: name }),
        };
        // The request first: a Machine whose request failed must not say that it waits for one.
        let mut writes: Vec<Write> = request.into_iter().chain(conditions).collect();
        writes.push(self.event(machine));
        let mut step = Step::of(writes, Why::unhealthy(mark))?;
        step.action = action;
        // Without its request the others wait too, as upstream has it.
        step.on_failure.is_independent = !makes_request;
        Some(step)
    }

    fn event(&self, machine: &Machine) -> Write {
        let (about, check) = (ObjectRef::of(machine), ObjectRef::of(&self.o.judged.check).key);
        let message = format!("Machine {} has been marked as unhealthy by {check}", about.key);
        Write::Event { about, warning: false, reason: "MachineMarkedUnhealthy", message }
    }

    /// A request has its Machine's name, so that there is never a second one.
    fn request(&self, machine: &Machine) -> Option<Write> {
        let (reference, gvk) = remediation_kinds(&self.o.judged.check)?;
        let unread = || {
            json!({"apiVersion": reference.gvk.api_version(), "kind": reference.gvk.kind,
            "metadata": {"name": reference.key.name}})
        };
        let template = self.o.outside.template.clone().unwrap_or_else(unread);
        let object = ObjectRef { gvk, key: ObjectRef::of(machine).key, uid: String::new() };
        let content = clone_of(
            &template,
            &Clone {
                key: object.key.clone(),
                cluster_name: &machine.spec.cluster_name,
                labels: BTreeMap::new(),
                annotations: BTreeMap::new(),
                owner: owner(machine, false),
            },
        );
        Some(Write::Create { object, content, manager: None })
    }

    /// Its request is there already, or cannot be made.
    fn not_requested(&self, mark: &Mark, plan: &mut Plan) {
        match find(&mark.conditions, "ExternallyRemediated") {
            Some(failed) => {
                plan.block(Why::NoTemplate { message: failed.message.clone() });
                plan.recheck_within(RETRY);
            }
            None => {
                let kind =
                    remediation_kinds(&self.o.judged.check).map(|(_, gvk)| gvk.kind).unwrap_or_default();
                plan.block(Why::Requested { machine: mark.machine.clone(), kind });
            }
        }
    }

    fn healthy(&self, mark: &Mark) -> Vec<Step> {
        let request = self.o.outside.requests.get(&mark.machine).filter(|request| !request.is_leaving);
        let delete = request.map(|request| Write::Delete { object: request.object.clone() });
        let conditions = self.target(mark).and_then(|target| self.conditions(target, mark));
        // The request goes first: with it a remediator could still act on a Machine that is well.
        let delete = delete.map(|write| Step::new(write, Why::Recovered { machine: mark.machine.clone() }));
        delete.into_iter().chain(conditions.map(|write| Step::new(write, Why::Healthy))).collect()
    }

    /// `None` when the Machine has them. Whoever remediates may turn `OwnerRemediated` and `ExternallyRemediated` at
    /// the same time, and wins.
    fn conditions(&self, target: &Target, mark: &Mark) -> Option<Write> {
        let machine = &target.machine;
        let mut draft = Draft::new(machine.conditions(), machine.metadata.generation, self.now);
        mark.conditions.iter().for_each(|condition| draft.set(condition.clone()));
        let is_new = draft.finish() != machine.conditions();
        is_new.then(|| Write::MachineConditions {
            read: machine.clone(),
            conditions: mark.conditions.clone(),
            owned: &judged::OWNED_ON_MACHINES,
        })
    }
}
