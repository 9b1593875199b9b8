//! An unhealthy Machine is deleted so that scaling replaces it, if the rest can bear it. Must not
//! judge health; a MachineHealthCheck does.
//! Source: KCP-15; `remediation.go` (`reconcileUnhealthyMachines`), v1.14.2.

use std::time::Duration;

use chrono::TimeDelta;

use super::preflight::{self, components_survive, quorum_survives};
use super::{Act, Blocked, Flow, Pending, Why, Workload, leader};
use crate::etcd::Change;
use crate::status::conditions::setter::{Draft, condition};
use crate::status::control_plane::OwnedMachine;
use crate::status::control_plane::machine::{COMPONENTS, ETCD_MEMBER, LABELS_AND_TAINTS};
use crate::status::remediation::RemediationData;
use capi_types::condition::Status;
use capi_types::names::annotation;
use capstan_base::go_duration::GoDuration;

/// `remediation.minHealthyPeriodSeconds` when unset.
const MIN_HEALTHY_PERIOD_S: i64 = 3600;

/// Why a remediation must not happen now, in upstream's words.
struct Held {
    reason: &'static str,
    message: String,
    /// When time alone ends it.
    ends_in: Option<TimeDelta>,
}

impl Held {
    fn deferred(message: impl Into<String>) -> Self {
        Self { reason: "RemediationDeferred", message: message.into(), ends_in: None }
    }

    fn refused(message: impl Into<String>) -> Self {
        Self { reason: "CannotBeRemediated", message: message.into(), ends_in: None }
    }

    fn ending_in(self, left: TimeDelta) -> Self {
        Self { ends_in: Some(left), ..self }
    }
}

/// At most one Machine per pass. A remediation that is held lets the pass go on.
pub fn unhealthy(p: &mut Pending) -> Flow {
    forget_recovered(p);
    // Before the choice: a mark whose replacement exists would hold back the next remediation.
    drop_stale_mark(p)?;
    let Some(machine) = next(p).cloned() else { return Flow::Continue(()) };
    // The replacement first: scaling, which follows in this pass, makes it.
    if machine.is_deleting() || preflight::remediation_in_progress(&p.observed) {
        return Flow::Continue(());
    }
    let name = machine.name().to_owned();
    let retry_count = match retry_count(p, &machine).and_then(|n| permitted(p, &machine).map(|()| n)) {
        Ok(count) => count,
        Err(held) => return hold(p, &name, held),
    };
    if p.observed.is_initialized() {
        match leader::forward(&p.observed, &machine) {
            Err(blocked) => {
                // `hold` only notes and goes on; the failure below ends the pass.
                let _ = hold(p, &name, Held::refused(blocked.to_string()));
                return p.fail(blocked);
            }
            Ok(None) => {}
            Ok(Some(transfer)) => p.step(transfer, Why::Leads { machine: name.clone() }),
        }
    }
    // The deletion before the notes: a refused deletion must not leave a mark of one in progress.
    p.step(Act::DeleteMachine { machine: name.clone() }, Why::Unhealthy { machine: name.clone() });
    mark(p, &name, "MachineDeleting", "Machine is deleting");
    let note = RemediationData { machine: name.clone(), timestamp: p.now, retry_count };
    let key = annotation::REMEDIATION_IN_PROGRESS;
    let annotations = p.observed.control_plane.metadata.annotations.get_or_insert_default();
    annotations.insert(key.to_owned(), note.to_json());
    p.step(Act::Annotate { key, value: Some(note.to_json()) }, Why::Unhealthy { machine: name });
    // Upstream asks for the next pass at once; the queue keeps two runs a second apart.
    p.plan.recheck_within(Duration::from_secs(1));
    Flow::Break(())
}

/// A Machine that passes its health check again is no longer to be remediated, and this pass knows it.
fn forget_recovered(p: &mut Pending) {
    let recovered = |m: &&OwnedMachine| {
        !m.is_deleting() && m.is_true("HealthCheckSucceeded") && m.is_false("OwnerRemediated")
    };
    let names: Vec<String> =
        p.observed.machines.iter().filter(recovered).map(|m| m.name().to_owned()).collect();
    for machine in names {
        if let Some(owned) = p.observed.machines.iter_mut().find(|m| m.name() == machine) {
            let rest = owned.conditions().iter().filter(|c| c.type_ != "OwnerRemediated").cloned().collect();
            owned.set_conditions(rest);
        }
        p.step(Act::UnmarkMachine { machine, condition: "OwnerRemediated" }, Why::HealthyAgain);
    }
}

/// The mark is old when a Machine was made after it. One that cannot be read ends the pass.
fn drop_stale_mark(p: &mut Pending) -> Flow {
    let key = annotation::REMEDIATION_IN_PROGRESS;
    let annotations = p.observed.control_plane.metadata.annotations.as_mut();
    let Some((annotations, text)) = annotations.and_then(|a| a.get(key).cloned().map(|text| (a, text)))
    else {
        return Flow::Continue(());
    };
    let Some(mark) = RemediationData::parse(&text) else {
        // A mark that is ignored could let a second remediation start while the first is under way.
        return p.fail(Blocked::RemediationMarkMalformed { key });
    };
    if p.observed.machines.iter().any(|m| m.created_at() > mark.timestamp) {
        annotations.remove(key);
        p.step(Act::Annotate { key, value: None }, Why::RemediationStale);
    }
    Flow::Continue(())
}

/// The Machine to remediate first: asked for by a person, without Node, then by what is broken.
fn next(p: &Pending) -> Option<&OwnedMachine> {
    let managed = p.observed.etcd_is_managed();
    let mut order: Vec<&str> = if managed { vec![ETCD_MEMBER, COMPONENTS[3]] } else { Vec::new() };
    order.extend(&COMPONENTS[..3]);
    order.push(LABELS_AND_TAINTS);
    p.observed.machines.iter().filter(|m| m.awaits_remediation()).min_by_key(|m| {
        // Lists compare from the first entry on, so the order above is the order of urgency.
        let broken: Vec<bool> = order.iter().map(|t| m.is_true(t)).collect();
        // `false` sorts first: it stands for Machines that a person asked for.
        let asked = m.annotation(annotation::REMEDIATE_MACHINE).is_none();
        (asked, m.node_name().is_some(), broken, m.created_at(), m.name())
    })
}

/// How often this problem was tried before; or why it must not be tried (again) now.
fn retry_count(p: &Pending, machine: &OwnedMachine) -> Result<i32, Held> {
    if let Some(version) = preflight::pending_topology_version(&p.observed) {
        return Err(Held::deferred(format!(
            "KubeadmControlPlane can't remediate while waiting for a version upgrade to {version} to be propagated from Cluster.spec.topology"
        )));
    }
    let Some(last) = machine.annotation(annotation::REMEDIATION_FOR).and_then(RemediationData::parse) else {
        return Ok(0);
    };
    let settings = p.observed.control_plane.spec.remediation.clone().unwrap_or_default();
    let healthy_period = settings.min_healthy_period_seconds.map_or(MIN_HEALTHY_PERIOD_S, i64::from);
    let (elapsed, healthy_period) = (p.now - last.timestamp, TimeDelta::seconds(healthy_period));
    // After so long a healthy time this is a new problem, not another try at the old one.
    if elapsed > healthy_period {
        return Ok(0);
    }
    let retry_period = TimeDelta::seconds(settings.retry_period_seconds.map_or(0, i64::from));
    if elapsed < retry_period {
        return Err(Held::deferred(format!(
            "KubeadmControlPlane can't remediate this machine because the operation already failed in the latest {} (RetryPeriodSeconds)",
            GoDuration::from(retry_period)
        ))
        .ending_in(retry_period - elapsed));
    }
    match settings.max_retry {
        Some(max) if last.retry_count >= max => Err(Held::refused(format!(
            "KubeadmControlPlane can't remediate this machine because the operation already failed {max} times (MaxRetry)"
        ))
        // The count starts again once the healthy period is over, and the limit is lifted with it.
        .ending_in(healthy_period - elapsed)),
        _ => Ok(last.retry_count + 1),
    }
}

/// Before initialization there is nothing to lose; afterwards the rest must go on working.
/// Upstream's member list check is not limited to managed etcd, so an external one is never remediated.
fn permitted(p: &Pending, machine: &OwnedMachine) -> Result<(), Held> {
    let observed = &p.observed;
    if !observed.is_initialized() {
        return Ok(());
    }
    if observed.machines.len() <= 1 {
        return Err(Held::refused(
            "KubeadmControlPlane can't remediate if current replicas are less or equal to 1",
        ));
    }
    // A Machine that comes up may be about to add a
    // member; an unhealthy one is what remediation is for.
    let healthy_provisioning = |m: &&OwnedMachine| m.is_provisioning() && !m.awaits_remediation();
    if observed.machines.iter().any(|m| healthy_provisioning(&m)) {
        return Err(Held::deferred(
            "KubeadmControlPlane waiting for control plane Machine provisioning to complete before triggering remediation",
        ));
    }
    if observed.machines.iter().any(OwnedMachine::is_deleting) {
        return Err(Held::deferred(
            "KubeadmControlPlane waiting for control plane Machine deletion to complete before triggering remediation",
        ));
    }
    let nodes_known = !matches!(&observed.workload, Workload::Reached(facts) if facts.nodes.is_err());
    if !nodes_known || observed.membership().members().unwrap_or_default().is_empty() {
        return Err(Held::deferred("Failed to check etcd cluster health before remediation"));
    }
    // Without a Node there is no member to lose, but the rest must have its quorum all the same.
    let quorum = machine.node_name().map_or(Change::None, Change::Remove);
    if components_survive(observed, Change::Remove(machine.name())) && quorum_survives(observed, quorum) {
        return Ok(());
    }
    Err(Held::refused(
        "KubeadmControlPlane can't remediate this Machine because this could result in loosing Kubernetes control plane components or in etcd quorum loss",
    ))
}

fn hold(p: &mut Pending, machine: &str, held: Held) -> Flow {
    mark(p, machine, held.reason, &held.message);
    p.plan.block(Blocked::RemediationHeld { message: held.message });
    // One second more: only a period that has passed counts. Upstream looks again with its ten-minute resync.
    if let Some(left) = held.ends_in.and_then(|left| (left + TimeDelta::seconds(1)).to_std().ok()) {
        p.plan.recheck_within(left);
    }
    Flow::Continue(())
}

/// Sets `OwnerRemediated`, also in memory, so that the status of this pass has it.
fn mark(p: &mut Pending, machine: &str, reason: &str, message: &str) {
    let new = condition("OwnerRemediated", Status::False, reason, message);
    let now = p.now;
    let Some(owned) = p.observed.machines.iter_mut().find(|m| m.name() == machine) else { return };
    let stored = owned.condition("OwnerRemediated");
    if stored.is_some_and(|c| c.status == new.status && c.reason == new.reason && c.message == new.message) {
        return;
    }
    let mut draft = Draft::new(owned.conditions(), owned.machine.metadata.generation, now);
    draft.set(new.clone());
    owned.set_conditions(draft.finish());
    let why = Why::RemediationOutcome { message: message.to_owned() };
    p.step(Act::MarkMachine { machine: machine.to_owned(), condition: Box::new(new) }, why);
}
