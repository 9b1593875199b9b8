//! The status of a control plane: every condition and counter, computed last in a pass. Owns their
//! order. Must not decide anything; what the plan found is an argument.
//! Source: KCP `status.go` (`updateStatus`), v1.14.2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::available::available;
use super::scaling::{self, PreflightFindings};
use super::{Inspection, Observed, Workload};
use crate::status::conditions::setter::{Draft, condition as say};
use crate::status::machines;
use crate::status::remediation::RemediationData;
use crate::status::versions;
use capi_types::condition::Status;
use capi_types::control_plane::{KubeadmControlPlaneStatus, LastRemediation};
use capi_types::names::{annotation, label};
use capstan_base::time::{Timestamp, to_k8s};

/// What a pass did before its status is written.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// `None`: the pass ended before it could inspect.
    pub inspection: Option<Inspection>,
    /// Conditions that the pass set on its way, such as `CertificatesAvailable` and the two gates.
    pub conditions: Vec<Condition>,
    /// Shown by the scaling and rolling conditions.
    pub findings: PreflightFindings,
    /// A Machine that a deletion waits for could not be deleted.
    pub deletion_failed: bool,
    /// The pass ended without an error: `observedGeneration` may move.
    pub completed: bool,
}

impl Pass {
    /// A step of the pass failed.
    pub fn fail(&mut self, observed: &Observed) {
        self.completed = false;
        self.deletion_failed = observed.is_deleting();
    }
}

/// The new status, from the stored one and what this pass found. `observed` is the one after
/// [`super::inspect()`]. Pure; never fails.
pub fn status(observed: &Observed, pass: &Pass, now: Timestamp) -> KubeadmControlPlaneStatus {
    let mut new = observed.control_plane.status.clone().unwrap_or_default();
    let machines = machines::members(scaling::all(observed));
    let cluster = observed.cluster.metadata.name.as_deref().unwrap_or_default();
    new.selector = Some(format!("{}={cluster},{}", label::CLUSTER_NAME, label::CONTROL_PLANE));
    set_versions(&mut new, observed);
    let initialized = initialized(observed);
    let remediation = last_remediation(observed);
    // Upstream returns these failures as errors, which leave the generation unobserved.
    let completed = pass.completed && initialized.is_ok() && remediation.is_ok();
    let initialized = initialized.unwrap_or(false);
    if initialized {
        new.initialization.get_or_insert_default().control_plane_initialized = Some(true);
    }
    new.replicas = i32::try_from(machines.len()).ok();
    new.ready_replicas = Some(machines::count_true(machines.iter().map(|m| m.ready)));
    new.available_replicas = Some(machines::count_true(machines.iter().map(|m| m.available)));
    new.up_to_date_replicas = Some(machines::count_true(machines.iter().map(|m| m.up_to_date)));
    // Kept when nothing is found: the annotation goes with the replacement, and the record stays.
    new.last_remediation = remediation.ok().flatten().or(new.last_remediation);
    new.conditions = conditions(observed, pass, initialized, now);
    let generation = observed.control_plane.metadata.generation;
    if completed {
        new.observed_generation = generation.or(new.observed_generation);
    }
    new
}

fn conditions(observed: &Observed, pass: &Pass, initialized: bool, now: Timestamp) -> Vec<Condition> {
    let machines = machines::members(scaling::all(observed));
    let mut draft = Draft::new(observed.conditions(), observed.control_plane.metadata.generation, now);
    for c in &pass.conditions {
        draft.set(c.clone());
    }
    for c in pass.inspection.iter().flat_map(|i| &i.control_plane) {
        draft.set(c.clone());
    }
    draft.set(if initialized {
        say("Initialized", Status::True, "Initialized", "")
    } else {
        say("Initialized", Status::False, "NotInitialized", "")
    });
    draft.set(machines::rolling_out(&machines));
    draft.set(scaling::scaling_up(observed, &pass.findings));
    draft.set(scaling::scaling_down(observed, &pass.findings, now));
    draft.set(machines::ready("MachinesReady", &machines));
    draft.set(machines::up_to_date("MachinesUpToDate", &machines, now));
    draft.set(machines::remediating(&machines, "KubeadmControlPlane"));
    draft.set(scaling::deleting(observed, pass.deletion_failed, now));
    // Last: it reads conditions that were set above,
    // Initialized and CertificatesAvailable among them.
    draft.set(available_now(observed, pass, initialized, draft.list(), now));
    draft.finish()
}

/// `Available` judges the flag as this pass has just set it.
fn available_now(
    observed: &Observed,
    pass: &Pass,
    initialized: bool,
    conditions: &[Condition],
    now: Timestamp,
) -> Condition {
    if observed.is_initialized() || !initialized {
        return available(observed, pass.inspection.as_ref(), conditions, now);
    }
    let mut observed = observed.clone();
    let status = observed.control_plane.status.get_or_insert_default();
    status.initialization.get_or_insert_default().control_plane_initialized = Some(true);
    available(&observed, pass.inspection.as_ref(), conditions, now)
}

/// Something that upstream ends with an error: the generation does not count as observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failed;

/// It was before, or the workload cluster has a kubeadm configuration: the first Machine is up. Not
/// used while the only Machine is on its way out or to be replaced. No connection is not a failure.
fn initialized(observed: &Observed) -> Result<bool, Failed> {
    if observed.is_initialized() {
        return Ok(true);
    }
    // Otherwise the rest of a first Machine that failed would make the control plane initialized.
    if let [only] = observed.machines.as_slice()
        && (only.is_deleting() || only.awaits_remediation())
    {
        return Ok(false);
    }
    match &observed.workload {
        Workload::Reached(facts) => facts.kubeadm_config.as_ref().map(Option::is_some).map_err(|_| Failed),
        Workload::Down(connection) if connection.error.is_some() => Err(Failed),
        Workload::Down(_) | Workload::NotAsked | Workload::Assumed(_) => Ok(false),
    }
}

fn set_versions(status: &mut KubeadmControlPlaneStatus, observed: &Observed) {
    // The kubelet first: in an update in place the spec is ahead of the host.
    let seen = observed.machines.iter().map(|m| (m.kubelet_version().unwrap_or(m.version()), 1));
    status.versions = versions::count(seen);
    if let Some(first) = status.versions.first() {
        status.version = Some(first.version.clone());
    }
}

/// From the control plane's own mark, else from its newest replacement. `None` keeps what is stored; so
/// does a mark that cannot be read.
fn last_remediation(observed: &Observed) -> Result<Option<LastRemediation>, Failed> {
    let parse = |text: &str| RemediationData::parse(text).ok_or(Failed);
    let own = observed.control_plane.metadata.annotations.as_ref();
    let own = own.and_then(|a| a.get(annotation::REMEDIATION_IN_PROGRESS));
    let newest = match own {
        Some(text) => Some(parse(text)?),
        None => {
            let marks = observed.machines.iter().filter_map(|m| m.annotation(annotation::REMEDIATION_FOR));
            let marks: Vec<RemediationData> = marks.map(parse).collect::<Result<_, _>>()?;
            marks.into_iter().max_by_key(|data| data.timestamp)
        }
    };
    Ok(newest.map(|data| LastRemediation {
        machine: data.machine,
        retry_count: data.retry_count,
        time: to_k8s(data.timestamp),
    }))
}
