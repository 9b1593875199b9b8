//! The control plane itself is being deleted: workers first, then all Machines at once. Must not wait
//! for etcd; there is no quorum to keep any more.
//! Source: KCP-16; `kubeadmcontrolplane_controller.go` (`reconcileDelete`), v1.14.2.

use super::{Act, Blocked, Flow, Pending, SLOW_RETRY, Why};
use crate::status::control_plane::inspect;
use crate::status::control_plane::scaling::{Deletion, deletion};
use capi_types::names::{annotation, finalizer};

pub fn control_plane(p: &mut Pending) -> Flow {
    let Some(stage) = deletion(&p.observed) else { return Flow::Continue(()) };
    if stage == Deletion::Completed {
        let held = p.observed.control_plane.metadata.finalizers.iter().flatten();
        // Without the finalizer the object is let go already, and a patch would find nothing.
        if held.into_iter().any(|f| f == finalizer::KUBEADM_CONTROL_PLANE) {
            p.step(Act::RemoveFinalizer, Why::DeletionCompleted);
            p.plan.is_last = true;
        }
        return Flow::Break(());
    }
    // A failed inspection does not stop a deletion.
    let inspection = inspect(&p.observed, p.now);
    p.observed.take_in(&inspection);
    p.inspection = Some(inspection);
    if stage == Deletion::Workers {
        let o = &p.observed;
        // Any Machine of the cluster counts: its drain needs the API server that goes here.
        let machines = o.worker_machines.len() + o.foreign.len() + o.orphans.len();
        let pools = o.machine_pools.len();
        return p.wait(Blocked::WaitingForWorkers { machines, pools }, Some(SLOW_RETRY));
    }
    machines(p);
    let machines = p.observed.machines.iter().filter(|m| m.is_deleting());
    let machines: Vec<String> = machines.map(|m| m.name().to_owned()).collect();
    if !machines.is_empty() {
        return p.wait(Blocked::WaitingForDeletion { machines }, Some(SLOW_RETRY));
    }
    // The deletions were sent just now: the next change
    // or this look finds the Machines on their way.
    p.plan.recheck_within(SLOW_RETRY);
    Flow::Break(())
}

/// The hook goes before the deletion, so that no Machine waits for a quorum that is not needed.
fn machines(p: &mut Pending) {
    for machine in p.observed.machines.clone() {
        let name = machine.name().to_owned();
        if machine.annotation(annotation::KCP_CLEANUP_HOOK).is_some() {
            p.step(Act::ReleaseMachine { machine: name.clone() }, Why::OwnerDeleting);
        }
        if !machine.is_deleting() {
            p.step(Act::DeleteMachine { machine: name }, Why::OwnerDeleting);
        }
    }
}
