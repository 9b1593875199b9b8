//! What a KubeadmControlPlane does next: the rules in their order. Each line of `rules` is one rule
//! with a file of its own; the first that wants to wait ends the pass, as upstream's reconcile does.
//! Must not read, write, or know a clock.
//! Source: cluster-api `controlplane/kubeadm/reconcilers/kubeadmcontrolplane/kubeadmcontrolplane_controller.go`
//! (`reconcile`), v1.14.2.

pub mod blocked;
mod core_dns;
mod delete;
mod desired;
mod expiry;
pub mod in_place;
mod kubeadm;
mod leader;
mod lower;
mod members;
mod preflight;
mod remediate;
mod rollout;
mod scale;
mod select;
mod setup;
mod step;
mod sync;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

pub use self::blocked::Blocked;
use self::step::{Act, NewMachine, Sync, Why};
use crate::plan::{Plan, Step};
use crate::status::conditions::setter;
use crate::status::control_plane::scaling::PreflightFindings;
use crate::status::control_plane::up_to_date;
use crate::status::control_plane::{Inspection, Pass, inspect};
pub use crate::status::control_plane::{Kubeconfig, Observed, Template, Workload};
use capstan_base::time::Timestamp;

/// After a preflight that failed.
const PREFLIGHT_RETRY: Duration = Duration::from_secs(15);
/// While a Machine is being deleted, or something must appear.
const SLOW_RETRY: Duration = Duration::from_secs(30);
/// While not initialized, or while components are unhealthy.
const UNSETTLED_RETRY: Duration = Duration::from_secs(20);

/// A plan, and everything the pass learnt on its way to it.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What is done next, and what holds back more.
    pub plan: Plan,
    /// The facts with the conditions this pass computed.
    pub observed: Observed,
    /// For the status that ends the pass.
    pub pass: Pass,
    /// Nothing but the `Paused` condition may be written.
    pub paused: bool,
    /// What is found out and noted after the status is written, if every step succeeds: nothing of the pass hangs on it.
    pub notes: Vec<Step>,
    /// The plan depends on what extensions say about this Machine, and they were not asked.
    pub asks: Option<String>,
}

/// What `observed` calls for at `now`. See [`decide`].
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    decide(observed.clone(), now).plan
}

/// The plan together with inspection and preflight results, which the status needs.
pub fn decide(observed: Observed, now: Timestamp) -> Decision {
    let mut pass = Pending::new(observed.in_scope(), now);
    // Certificates are looked at only when nothing else
    // is due: each answer needs a connection of its own.
    let reached_end = rules(&mut pass).is_continue();
    let mut decision = pass.finish();
    if reached_end {
        decision.notes = expiry::unknown(&decision.observed);
    }
    decision
}

/// A rule's verdict: go on to the next rule, or end the pass here.
type Flow = ControlFlow<()>;

/// The order of rules (KCP-1). Identity before anything, keys before Machines, inspection before any
/// change, deletions before remediation before rollout before scaling.
fn rules(p: &mut Pending) -> Flow {
    setup::paused(p)?;
    setup::ownership(p)?;
    delete::control_plane(p)?;
    setup::template(p)?;
    setup::infrastructure(p)?;
    setup::certificates(p)?;
    setup::endpoint(p)?;
    setup::kubeconfig(p)?;
    sync::machines(p)?;
    inspection(p)?;
    members::remove_strays(p)?;
    members::release_deleted(p)?;
    in_place::finish(p)?;
    remediate::unhealthy(p)?;
    updating_in_place(p)?;
    rollout::outdated(p)?;
    scale::to_desired(p)?;
    kubeadm::kube_proxy(p)?;
    core_dns::follow_spec(p)
}

/// A pass under way: facts, and the plan as it grows.
struct Pending {
    observed: Observed,
    now: Timestamp,
    plan: Plan,
    conditions: Vec<Condition>,
    inspection: Option<Inspection>,
    findings: PreflightFindings,
    /// Upstream would have returned an error.
    failed: bool,
    paused: bool,
    asks: Option<String>,
}

impl Pending {
    fn new(observed: Observed, now: Timestamp) -> Self {
        Self {
            observed,
            now,
            plan: Plan::default(),
            conditions: Vec::new(),
            inspection: None,
            findings: PreflightFindings::default(),
            failed: false,
            paused: false,
            asks: None,
        }
    }

    fn step(&mut self, act: Act, why: Why) {
        self.plan.steps.push(lower::step(&self.observed, &act, why));
    }

    /// Waits: looks again after `retry`, or on the next change.
    fn wait(&mut self, blocked: Blocked, retry: Option<Duration>) -> Flow {
        self.plan.block(blocked);
        if let Some(retry) = retry {
            self.plan.recheck_within(retry);
        }
        Flow::Break(())
    }

    /// Where upstream returns an error: the status does not count as observed.
    fn fail(&mut self, blocked: Blocked) -> Flow {
        self.failed = true;
        self.wait(blocked, Some(PREFLIGHT_RETRY))
    }

    fn finish(mut self) -> Decision {
        // A failed pass has its own retry, and one of a deletion waits for Machines that go.
        if !self.paused && !self.failed && !self.observed.is_deleting() {
            self.settle();
        }
        let pass = Pass {
            inspection: self.inspection,
            conditions: self.conditions,
            findings: self.findings,
            deletion_failed: false,
            completed: !self.failed,
        };
        Decision {
            plan: self.plan,
            observed: self.observed,
            pass,
            paused: self.paused,
            notes: Vec::new(),
            asks: self.asks,
        }
    }

    /// When to look again although nothing changed: soon while unsettled, and at the moment at which
    /// time alone makes a Machine outdated.
    fn settle(&mut self) {
        let components = self.inspection.iter().flat_map(|i| &i.control_plane);
        let unhealthy =
            components.into_iter().any(|c| c.type_ == "ControlPlaneComponentsHealthy" && c.status == "False");
        // Upstream looks again only where no rule asked for it already.
        if self.plan.recheck.is_none() && (unhealthy || !self.observed.was_initialized()) {
            self.plan.recheck_within(UNSETTLED_RETRY);
        }
        let o = &self.observed;
        let due = o.machines.iter().filter_map(|m| up_to_date::next_due(&o.control_plane, m, self.now)).min();
        if let Some(wait) = due.and_then(|at| (at - self.now).to_std().ok()) {
            // One second more: a moment has passed only after it.
            self.plan.recheck_within(wait + Duration::from_secs(1));
        }
    }
}

/// Computes all conditions. While the workload cluster cannot be inspected, nothing is changed.
fn inspection(p: &mut Pending) -> Flow {
    let inspection = inspect(&p.observed, p.now);
    // Rules and status read the conditions of this pass, not those stored by the last one.
    p.observed.take_in(&inspection);
    let failure = inspection.failure.clone();
    p.inspection = Some(inspection);
    match failure {
        Some(detail) => p.fail(Blocked::NotInspected { detail }),
        None => Flow::Continue(()),
    }
}

/// After remediation on purpose: an unhealthy Machine is replaced even while it updates.
fn updating_in_place(p: &mut Pending) -> Flow {
    let updating = p.observed.machines.iter().filter(|m| m.is_updating_in_place());
    let machines: Vec<String> = updating.map(|m| m.name().to_owned()).collect();
    if machines.is_empty() {
        return Flow::Continue(());
    }
    p.wait(Blocked::UpdatingInPlace { machines }, None)
}

/// The `Paused` condition for these facts.
fn paused_condition(observed: &Observed) -> Condition {
    let annotated = observed
        .control_plane
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|a| a.contains_key(capi_types::names::annotation::PAUSED));
    let cluster_paused = observed.cluster.spec.paused == Some(true);
    setter::paused("KubeadmControlPlane", cluster_paused, annotated)
}
