//! The way out of a Machine, one stage at a time. Which stage it is at is `status::machine::deletion`'s
//! judgement.
//! Source: `reconcileDelete`, `machine_controller.go`, v1.14.2.

use std::time::Duration;

use serde_json::json;

use super::cluster_key;
use super::why::Why;
use crate::plan::{Plan, Step, WorkloadCall, Write, drain, external, ownership};
use crate::status::machine::deletion::{
    Course, Stage, course, leaving_node, node_deletion_allowed, node_deletion_expired, progress,
};
use crate::status::machine::{Failed, Observed};
use capi_types::key::ObjectRef;
use capi_types::names::finalizer;
use capstan_base::time::{Timestamp, to_k8s};

/// Between two looks at attached volumes.
const DETACH_RETRY: Duration = Duration::from_secs(20);

/// What the deletion of a Machine needs next; nothing for one that is not being deleted.
///
/// A stage that wants something read ([`Course::wants`]) gets a plan too: it comes before the reading.
pub fn leave(o: &Observed, now: Timestamp) -> Plan {
    let course = course(o, now);
    let mut plan = Plan::default();
    // Only what was read counts as progress; the stage may change with what is read next.
    if course.wants(o).is_none() {
        report_progress(o, &course, &mut plan);
    }
    match &course.stage {
        Stage::NotDeleting => {}
        Stage::CannotTell(error) => plan.block(Why::CannotTell { error: error.clone() }),
        Stage::PreDrainHooks(hooks) => {
            plan.block(Why::WaitingForHooks { stage: "pre-drain", hooks: hooks.clone() });
        }
        Stage::Drain(None) => begin_drain(o, now, &mut plan),
        Stage::Drain(Some(drain)) => {
            if let Some(node) = leaving_node(o).found() {
                plan.extend(drain::plan(&cluster_key(o), node, drain));
            }
        }
        Stage::DrainFailed(error) => {
            report_trouble(o, Failed::Cordon, error, &mut plan);
            plan.block(Why::CannotDrain { error: error.clone() });
        }
        Stage::VolumeDetach(held) => {
            let volumes = held.as_ref().map_or(0, |held| held.count());
            plan.block(Why::WaitingForVolumes { volumes });
            // Held, not only rechecked: attached volumes
            // change often, and each look lists them all.
            plan.hold_for(DETACH_RETRY);
        }
        Stage::VolumesUnknown(error) => {
            let node = o.node_name().unwrap_or_default();
            let text =
                format!("error waiting for node volumes detaching, Machine's node \"{node}\": {error}");
            report(o, true, "FailedWaitForVolumeDetach", text, &mut plan);
            plan.block(Why::VolumesUnknown { error: error.clone() });
        }
        Stage::PreTerminateHooks(hooks) => {
            plan.block(Why::WaitingForHooks { stage: "pre-terminate", hooks: hooks.clone() });
        }
        Stage::Infrastructure => {
            external::remove(&o.infrastructure, |kind| Why::DeleteInfrastructure { kind }, &mut plan);
        }
        Stage::Bootstrap => external::remove(&o.bootstrap, |kind| Why::DeleteBootstrap { kind }, &mut plan),
        Stage::Node => {
            delete_node(o, now, &mut plan);
            complete(o, &mut plan);
        }
        Stage::Completed => complete(o, &mut plan),
    }
    plan
}

/// The events about a write of a deletion that failed.
pub fn complaint(o: &Observed, failed: Failed, error: &str) -> Vec<Step> {
    let mut plan = Plan::default();
    report_trouble(o, failed, error, &mut plan);
    plan.steps
}

/// What keeps the stage from being reported; upstream's run ends with it as its error.
pub fn error(stage: &Stage) -> Option<&str> {
    match stage {
        Stage::CannotTell(error) | Stage::DrainFailed(error) | Stage::VolumesUnknown(error) => Some(error),
        _ => None,
    }
}

/// The start is stored first: timeouts count from it even when this process ends here.
fn begin_drain(o: &Observed, now: Timestamp, plan: &mut Plan) {
    if progress(o).node_drain_start_time.is_none() {
        let body = json!({"status": {"deletion": {"nodeDrainStartTime": to_k8s(now)}}});
        plan.step(Write::PatchStatus { object: ObjectRef::of(&o.machine), body }, Why::RecordDrainStart);
    }
    if let Some(node) = leaving_node(o).found() {
        plan.extend(drain::begin(&cluster_key(o), node));
    }
}

/// Success is reported when the next wait begins, and once more when the host goes.
fn report_progress(o: &Observed, course: &Course, plan: &mut Plan) {
    let node = o.node_name().unwrap_or_default();
    if course.is_drained() && progress(o).wait_for_node_volume_detach_start_time.is_none() {
        let text = format!("success draining Machine's node \"{node}\"");
        report(o, false, "SuccessfulDrainNode", text, plan);
    }
    if course.is_detached() {
        let text = format!("success waiting for node volumes detaching Machine's node \"{node}\"");
        report(o, false, "NodeVolumesDetached", text, plan);
    }
}

fn report_trouble(o: &Observed, failed: Failed, error: &str, plan: &mut Plan) {
    let node = o.node_name().unwrap_or_default();
    let (reason, text) = match failed {
        Failed::Cordon => ("FailedDrainNode", format!("error draining Machine's node \"{node}\": {error}")),
        Failed::DeleteNode => ("FailedDeleteNode", format!("error deleting Machine's Node: {error}")),
        // Upstream has no event for these; the failed pass and its condition show them.
        Failed::RecordDrainStart | Failed::DeleteInfrastructure | Failed::DeleteBootstrap => return,
    };
    report(o, true, reason, text, plan);
}

fn report(o: &Observed, warning: bool, reason: &'static str, message: String, plan: &mut Plan) {
    let about = ObjectRef::of(&o.machine);
    plan.step(Write::Event { about, warning, reason, message }, Why::Report);
}

fn delete_node(o: &Observed, now: Timestamp, plan: &mut Plan) {
    if let (Ok(true), Some(node)) = (node_deletion_allowed(o), o.node_name()) {
        // Once the time is over a failure is ignored: an
        // unreachable cluster must not keep the Machine.
        let call = WorkloadCall::DeleteNode { node: node.to_owned(), must: !node_deletion_expired(o, now) };
        plan.step(Write::Workload { cluster: cluster_key(o), call }, Why::DeleteNode);
    }
}

fn complete(o: &Observed, plan: &mut Plan) {
    if ownership::has_finalizer(&o.machine, finalizer::MACHINE) {
        plan.step(ownership::remove_finalizer(&o.machine, finalizer::MACHINE), Why::Completed);
        plan.is_last = true;
    }
}
