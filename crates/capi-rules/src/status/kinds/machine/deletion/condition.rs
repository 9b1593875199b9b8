//! The `Deleting` condition of a Machine, and the start times that its timeouts count from. Owns the
//! wording; the stages are decided in the module above.
//! Source: `reconcileDelete`, `machine_controller.go`, v1.14.2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Course, Failed, Observed, Stage, node_resists, progress};
use crate::status::conditions::new_condition::NewCondition;
use crate::status::conditions::setter::{CHECK_LOGS, not_deleting};
use crate::status::drain::{self, volumes};
use capi_types::condition::Status;
use capi_types::machine::{DeletionProgress, MachineStatus};
use capstan_base::time::{Timestamp, from_k8s, rfc3339, to_k8s};

/// The condition at `stage`, reading failed writes from `o`.
pub(in super::super) fn condition(o: &Observed, stage: &Stage, now: Timestamp) -> NewCondition<'static> {
    // A stage that begins in this run has no start yet: `record_starts` notes the same `now`.
    let started = |at: Option<Time>| rfc3339(at.as_ref().map_or(now, from_k8s));
    let drain_start = || started(progress(o).node_drain_start_time);
    let detach_start = || started(progress(o).wait_for_node_volume_detach_start_time);
    let infrastructure = &o.machine.spec.infrastructure_ref.kind;
    let bootstrap = o.machine.spec.bootstrap.config_ref.as_ref().map_or("", |r| r.kind.as_str());
    let (reason, message) = match stage {
        Stage::NotDeleting => return not_deleting(),
        Stage::CannotTell(_) => ("InternalError", CHECK_LOGS.to_owned()),
        Stage::PreDrainHooks(hooks) => ("WaitingForPreDrainHook", waiting_for_hooks("pre-drain", hooks)),
        Stage::Drain(None) => ("DrainingNode", drain::head(&drain_start())),
        Stage::Drain(Some(drain)) => ("DrainingNode", drain.message(&drain_start())),
        Stage::DrainFailed(_) => ("DrainingNode", look_into_logs("Error draining Node")),
        Stage::VolumeDetach(None) => ("WaitingForVolumeDetach", volumes::head(&detach_start())),
        Stage::VolumeDetach(Some(held)) => ("WaitingForVolumeDetach", held.message(&detach_start())),
        Stage::VolumesUnknown(_) => {
            ("WaitingForVolumeDetach", look_into_logs("Error waiting for volumes to be detached from Node"))
        }
        Stage::PreTerminateHooks(hooks) => {
            ("WaitingForPreTerminateHook", waiting_for_hooks("pre-terminate", hooks))
        }
        Stage::Infrastructure if o.failed == Some(Failed::DeleteInfrastructure) => {
            ("InternalError", look_into_logs(&format!("Failed to delete {infrastructure}")))
        }
        Stage::Infrastructure => {
            ("WaitingForInfrastructureDeletion", format!("Waiting for {infrastructure} to be deleted"))
        }
        Stage::Bootstrap if o.failed == Some(Failed::DeleteBootstrap) => {
            ("InternalError", look_into_logs(&format!("Failed to delete {bootstrap}")))
        }
        Stage::Bootstrap => ("WaitingForBootstrapDeletion", format!("Waiting for {bootstrap} to be deleted")),
        Stage::Node if node_resists(o, now) => ("DeletingNode", look_into_logs("Error deleting Node")),
        Stage::Node | Stage::Completed => ("DeletionCompleted", "Deletion completed".to_owned()),
    };
    NewCondition::new("Deleting", Status::True, reason, message)
}

fn waiting_for_hooks(stage: &str, hooks: &[String]) -> String {
    format!("Waiting for {stage} hooks to succeed (hooks: {})", hooks.join(","))
}

fn look_into_logs(what: &str) -> String {
    format!("{what}, please check controller logs for errors")
}

/// Notes when the stages on the way began; timeouts count from there.
pub(in super::super) fn record_starts(status: &mut MachineStatus, course: &Course, now: Timestamp) {
    let before = status.deletion.clone().unwrap_or_default();
    // Set once: a stage that comes again must not start its timeout anew.
    let start =
        |stored: &Option<Time>, reached: bool| stored.clone().or_else(|| reached.then(|| to_k8s(now)));
    let (drain_hooks, end_hooks) = (
        matches!(course.stage, Stage::PreDrainHooks(_)),
        matches!(course.stage, Stage::PreTerminateHooks(_)),
    );
    let after = DeletionProgress {
        node_drain_start_time: start(&before.node_drain_start_time, course.drains),
        wait_for_node_volume_detach_start_time: start(
            &before.wait_for_node_volume_detach_start_time,
            course.detaches,
        ),
        wait_for_pre_drain_hook_start_time: start(&before.wait_for_pre_drain_hook_start_time, drain_hooks),
        wait_for_pre_terminate_hook_start_time: start(
            &before.wait_for_pre_terminate_hook_start_time,
            end_hooks,
        ),
    };
    if after != before {
        status.deletion = Some(after);
    }
}
