//! What must hold before a Machine is added or removed. Must not add or remove any.
//! Source: KCP-PF; `preflight.go` (`preflightChecks`), v1.14.2.

use super::{Blocked, Flow, Observed, Pending, Why, setup};
use crate::etcd::{Change, Projection};
use crate::plan::Write;
use crate::plan::evidence::{Evidence, Subject};
use crate::status::control_plane::OwnedMachine;
use crate::status::control_plane::machine::ETCD_MEMBER;
use crate::status::control_plane::scaling::PreflightFindings;
use capi_types::condition;
use capi_types::key::ObjectRef;
use capi_types::names::annotation;

/// What is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent<'a> {
    Add,
    /// The Machine that goes: its own health does not count.
    Remove(&'a str),
    /// One Machine is updated where it stands: all count.
    Update,
}

/// A preflight's outcome: flags for the conditions, blockers for people.
#[derive(Clone, Debug, Default)]
pub struct Preflight {
    pub findings: PreflightFindings,
    pub blockers: Vec<Blocked>,
}

impl Preflight {
    fn stop(findings: PreflightFindings, blocked: Blocked) -> Self {
        Self { findings, blockers: vec![blocked] }
    }
}

/// Runs the checks and, when one fails, ends the pass with its blockers.
pub fn require(p: &mut Pending, intent: Intent<'_>) -> Flow {
    let result = check(&p.observed, &p.conditions, intent);
    // Findings of a passed check are kept, too: conditions
    // must not show what an earlier check found.
    p.findings = result.findings;
    if result.blockers.is_empty() {
        return Flow::Continue(());
    }
    if let Some(event) = unhealthy_event(&p.observed, &result.blockers) {
        p.plan.step(event, Why::Unwell);
    }
    for blocked in result.blockers {
        p.plan.block(blocked);
    }
    p.plan.recheck_within(setup::preflight_retry(p.findings.machine_deleting));
    Flow::Break(())
}

/// What an operator looks for when a control plane stands still; none while it waits for something else than health.
fn unhealthy_event(observed: &Observed, blockers: &[Blocked]) -> Option<Write> {
    let is_unhealthy =
        |b: &Blocked| matches!(b, Blocked::MachineUnhealthy { .. } | Blocked::AddWouldBreak { .. });
    let mut failures: Vec<String> = Vec::new();
    for blocked in blockers.iter().filter(|blocked| is_unhealthy(blocked)) {
        let text = blocked.to_string();
        if !failures.contains(&text) {
            failures.push(text);
        }
    }
    let failures = match failures.as_slice() {
        [] => return None,
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let message =
        format!("Waiting for control plane to pass preflight checks to continue reconciliation: {failures}");
    let about = ObjectRef::of(&observed.control_plane);
    Some(Write::Event { about, warning: true, reason: "ControlPlaneUnhealthy", message })
}

/// The checks in upstream's order. The first three exclude all others. `fresh` holds the control
/// plane's conditions set in this pass.
pub fn check(
    observed: &Observed,
    fresh: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
    intent: Intent<'_>,
) -> Preflight {
    // Without Machines the control plane is not initialized yet: nothing can be harmed.
    if observed.machines.is_empty() {
        return Preflight::default();
    }
    if let Some(version) = pending_topology_version(observed) {
        let findings =
            PreflightFindings { topology_version: Some(version.clone()), ..PreflightFindings::default() };
        return Preflight::stop(findings, Blocked::TopologyVersion { version });
    }
    // Certificates were judged earlier in this pass; the stored condition is of the last one.
    let certificates = condition::find(fresh, "CertificatesAvailable")
        .or_else(|| condition::find(observed.conditions(), "CertificatesAvailable"));
    // Only a Machine that joins is made with them.
    if intent == Intent::Add && certificates.is_none_or(|c| c.status != "True") {
        let findings = PreflightFindings { certificates_missing: true, ..PreflightFindings::default() };
        return Preflight::stop(findings, Blocked::CertificatesMissing);
    }
    // After the certificates, as upstream.
    if let Some(machine) = observed.machines.iter().find(|m| m.is_deleting()) {
        let findings = PreflightFindings { machine_deleting: true, ..PreflightFindings::default() };
        return Preflight::stop(findings, Blocked::MachineDeleting { machine: machine.name().to_owned() });
    }
    let strict = machines_healthy(observed, intent);
    if !strict.blockers.is_empty() && intent == Intent::Add && remediation_in_progress(observed) {
        return relaxed(observed);
    }
    strict
}

/// The topology's version, while it has not reached the control plane yet.
pub fn pending_topology_version(observed: &Observed) -> Option<String> {
    let wanted = &observed.cluster.spec.topology.as_ref()?.version;
    let current = &observed.control_plane.spec.version;
    let annotations = observed.cluster.metadata.annotations.as_ref();
    let step = annotations.and_then(|a| a.get("topology.internal.cluster.x-k8s.io/upgrade-step"));
    if wanted == current || step == Some(current) {
        return None;
    }
    Some(step.unwrap_or(wanted).clone())
}

pub fn remediation_in_progress(observed: &Observed) -> bool {
    let annotations = observed.control_plane.metadata.annotations.as_ref();
    annotations.is_some_and(|a| a.contains_key(annotation::REMEDIATION_IN_PROGRESS))
}

/// Every Machine that stays has a Node and healthy components and etcd.
fn machines_healthy(observed: &Observed, intent: Intent<'_>) -> Preflight {
    let managed = observed.etcd_is_managed();
    let mut types = observed.component_conditions().to_vec();
    if managed {
        types.push(ETCD_MEMBER);
    }
    let mut result = Preflight::default();
    for machine in observed.machines.iter().filter(|m| intent != Intent::Remove(m.name())) {
        if machine.node_name().is_none() {
            result.findings.components_unhealthy = true;
            // Without a Node neither pods nor a member can be looked at.
            result.findings.etcd_unhealthy |= managed;
            let detail = format!(
                "Machine {} does not have a corresponding Node yet (Machine.status.nodeRef not set)",
                machine.name()
            );
            let at = Evidence::field(Subject::Machine(machine.name().to_owned()), "status.nodeRef");
            result.blockers.push(Blocked::MachineUnhealthy { detail, at });
            continue;
        }
        for type_ in &types {
            let Some(detail) = complaint(machine, type_) else { continue };
            // The pod of etcd counts as a component, its member as etcd, as upstream.
            if *type_ == ETCD_MEMBER {
                result.findings.etcd_unhealthy = true;
            } else {
                result.findings.components_unhealthy = true;
            }
            let at = Evidence::condition(Subject::Machine(machine.name().to_owned()), type_);
            result.blockers.push(Blocked::MachineUnhealthy { detail, at });
        }
    }
    result
}

fn complaint(machine: &OwnedMachine, type_: &str) -> Option<String> {
    let name = machine.name();
    match machine.condition(type_) {
        None => Some(format!("Machine {name} does not have {type_} condition")),
        Some(c) if c.status == "True" => None,
        Some(c) if c.status == "False" => {
            Some(format!("Machine {name} reports {type_} condition is false ({})", c.message))
        }
        Some(c) => Some(format!("Machine {name} reports {type_} condition is unknown ({})", c.message)),
    }
}

/// While a remediation is in progress its replacement may join although others are unhealthy, as long
/// as the result works.
fn relaxed(observed: &Observed) -> Preflight {
    let mut result = Preflight::default();
    if !components_survive(observed, Change::Add) {
        result.findings.components_unhealthy = true;
        result.blockers.push(Blocked::AddWouldBreak {
            detail: "cannot add a new control plane Machine when there are no control plane Machines with all Kubernetes control plane components in healthy state. Please check Kubernetes control plane component status",
        });
    }
    if observed.etcd_is_managed() {
        let members = observed.membership().members().unwrap_or_default();
        if members.is_empty() {
            // Upstream's condition does not say so.
            result.blockers.push(Blocked::AddWouldBreak {
                detail: "cannot check etcd cluster health before scale up, etcd member list is empty",
            });
        } else if !quorum_survives(observed, Change::Add) {
            result.findings.etcd_unhealthy = true;
            result.blockers.push(Blocked::AddWouldBreak {
                detail: "adding a new control plane Machine can lead to etcd quorum loss. Please check the etcd status",
            });
        }
    }
    result
}

/// KCP-Q1: etcd keeps quorum after the change. `Remove` takes the member's name, which is the Node's.
/// An unknown member list does not survive anything.
pub fn quorum_survives(observed: &Observed, change: Change<'_>) -> bool {
    let Some(members) = observed.membership().members() else { return false };
    let healthy = |name: &str| {
        let host = observed.machines.iter().find(|m| m.node_name() == Some(name));
        host.map(|m| m.is_true(ETCD_MEMBER))
    };
    Projection::after(members, change, healthy).is_safe()
}

/// KCP-Q2: after the change at least one Machine has all components healthy. `Remove` takes the
/// Machine's name. A Machine to be added counts only when it is the first.
pub fn components_survive(observed: &Observed, change: Change<'_>) -> bool {
    if change == Change::Add && observed.machines.is_empty() {
        return true;
    }
    observed
        .machines
        .iter()
        .filter(|m| change != Change::Remove(m.name()))
        .any(|m| observed.component_conditions().iter().all(|t| m.is_true(t)))
}
