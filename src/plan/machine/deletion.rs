//! The way out of a Machine, one stage at a time. Which stage it is at is `status::machine::deletion`'s
//! judgement.
//! Source: `reconcileDelete`, `machine_controller.go`, v1.14.0.

use std::time::Duration;

use super::cluster_key;
use super::why::Why;
use crate::api::key::ObjectRef;
use crate::api::names::finalizer;
use crate::plan::{Plan, WorkloadCall, Write, drain, ownership};
use crate::status::contract::External;
use crate::status::machine::Observed;
use crate::status::machine::deletion::{
    Stage, drain_applies, node_deletion_allowed, node_deletion_expired, stage,
};
use crate::time::Timestamp;

/// Between two looks at a Node that holds the deletion up.
const NODE_RETRY: Duration = Duration::from_secs(20);

pub(super) fn plan(o: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    match stage(o, now) {
        Stage::NotDeleting => {}
        Stage::CannotTell(error) => {
            plan.block(Why::CannotTell { error });
            plan.recheck_within(NODE_RETRY);
        }
        Stage::PreDrainHooks(hooks) => plan.block(Why::WaitingForHooks { stage: "pre-drain", hooks }),
        Stage::Drain(drain) => {
            if let Some(node) = o.node.found() {
                plan.extend(drain::plan(&cluster_key(o), node, drain.as_ref()));
            }
        }
        Stage::DrainFailed => {
            let node = o.node_name().unwrap_or_default();
            report(
                o,
                true,
                "FailedDrainNode",
                format!("error draining Machine's node \"{node}\""),
                &mut plan,
            );
            plan.block(Why::NodeUnreadable);
            plan.recheck_within(NODE_RETRY);
        }
        Stage::VolumeDetach(volumes) => {
            plan.block(Why::WaitingForVolumes { volumes: volumes.len() });
            plan.recheck_within(NODE_RETRY);
        }
        Stage::PreTerminateHooks(hooks) => plan.block(Why::WaitingForHooks { stage: "pre-terminate", hooks }),
        Stage::Infrastructure => {
            drained(o, now, &mut plan);
            remove(&o.infrastructure, |kind| Why::DeleteInfrastructure { kind }, &mut plan);
        }
        Stage::Bootstrap => remove(&o.bootstrap, |kind| Why::DeleteBootstrap { kind }, &mut plan),
        Stage::Node => {
            delete_node(o, now, &mut plan);
            complete(o, &mut plan);
        }
        Stage::Completed => complete(o, &mut plan),
    }
    plan
}

/// Reported in the pass that goes on to delete the host.
fn drained(o: &Observed, now: Timestamp, plan: &mut Plan) {
    if let (Ok(true), Some(node), true) = (node_deletion_allowed(o), o.node_name(), drain_applies(o, now)) {
        let message = format!("success draining Machine's node \"{node}\"");
        report(o, false, "SuccessfulDrainNode", message, plan);
    }
}

fn report(o: &Observed, warning: bool, reason: &'static str, message: String, plan: &mut Plan) {
    let about = ObjectRef::of(&o.machine);
    plan.step(Write::Event { about, warning, reason, message }, Why::DrainReport);
}

fn remove(external: &External, why: impl Fn(String) -> Why, plan: &mut Plan) {
    match external {
        External::Found(object) => {
            if !object.is_deleting() {
                plan.step(Write::Delete { object: object.reference() }, why(object.kind.clone()));
            }
            plan.block(Why::WaitingForDeletion { kind: object.kind.clone() });
        }
        External::Unreadable { error, .. } => plan.block(Why::Unreadable { error: error.clone() }),
        External::NotFound { .. } | External::NotSet => {}
    }
}

fn delete_node(o: &Observed, now: Timestamp, plan: &mut Plan) {
    if let (Ok(true), Some(node)) = (node_deletion_allowed(o), o.node_name()) {
        let call = WorkloadCall::DeleteNode { node: node.to_owned(), must: !node_deletion_expired(o, now) };
        plan.step(Write::Workload { cluster: cluster_key(o), call }, Why::DeleteNode);
    }
}

fn complete(o: &Observed, plan: &mut Plan) {
    if ownership::has_finalizer(&o.machine, finalizer::MACHINE) {
        plan.step(ownership::remove_finalizer(&o.machine, finalizer::MACHINE), Why::Completed);
    }
}
