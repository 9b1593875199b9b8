//! Etcd members that must go: those without a Machine, and those of Machines on their way out, which
//! the control plane's own pre-terminate hook holds until the member is gone. Must not delete Machines.
//! Source: KCP-7, KCP-8; `kubeadmcontrolplane_controller.go` (`reconcileEtcdMembers` v1.14.2,
//! `reconcilePreTerminateHook` v1.14.2).

use std::time::Duration;

use chrono::TimeDelta;

use super::preflight::{components_survive, quorum_survives};
use super::{Act, Blocked, Flow, Pending, SLOW_RETRY, Why, Workload, leader};
use crate::etcd::{Change, Member};
use crate::plan::{WorkloadCall, version};
use crate::status::control_plane::OwnedMachine;
use capi_types::names::annotation;
use capstan_base::time::from_k8s;

/// After the kubelet registered the Node of a Machine, its etcd member may still have no name for so long: kubeadm adds
/// the member first, then the Node comes, then etcd starts.
/// Source: `etcdMemberStartupGracePeriod`, v1.14.2.
const STARTUP_GRACE: TimeDelta = TimeDelta::seconds(20);

/// One stray member per pass, by name; only when no Machine can claim it now or soon, and quorum survives.
pub fn remove_strays(p: &mut Pending) -> Flow {
    let Workload::Reached(_) = &p.observed.workload else { return Flow::Continue(()) };
    // A healthy list has no stray member, so nothing need be compared.
    let healthy = p.inspection.iter().flat_map(|i| &i.control_plane);
    let healthy = healthy.into_iter().any(|c| c.type_ == "EtcdClusterHealthy" && c.status == "True");
    if !p.observed.etcd_is_managed() || p.observed.machines.is_empty() || healthy {
        return Flow::Continue(());
    }
    let claimed = |member: &Member| {
        !member.name.is_empty()
            && p.observed.machines.iter().any(|m| m.node_name() == Some(member.name.as_str()))
    };
    // Unknown when the Nodes are: then the members were not asked.
    let members = p.inspection.as_ref().and_then(|i| i.members.as_deref()).unwrap_or_default();
    let Some(stray) = members.iter().filter(|m| !claimed(m)).min_by_key(|m| &m.name).cloned() else {
        return Flow::Continue(());
    };
    let member = if stray.name.is_empty() { stray.id.to_string() } else { stray.name.clone() };
    // The member joins before the Node registers: it may be that Machine's.
    if p.observed.machines.iter().any(|m| m.node_name().is_none()) {
        p.plan.block(Blocked::StrayMemberMayBelongToProvisioning { member });
        return Flow::Continue(());
    }
    // One without a name comes first in the order of names.
    if stray.name.is_empty()
        && let Some((node, left)) = youngest_node(p)
    {
        p.plan.block(Blocked::StrayMemberMayBeStarting { member, node });
        p.plan.recheck_within(left);
        return Flow::Continue(());
    }
    // A member without a name never started: to remove it can only help the quorum.
    if !stray.name.is_empty() && !quorum_survives(&p.observed, Change::Remove(&stray.name)) {
        return p.fail(Blocked::StrayMemberKeepsQuorum { member });
    }
    p.step(Act::Workload(WorkloadCall::RemoveEtcdMember(stray)), Why::NoMachineForMember);
    // The next stray, if there is one, is judged by the list without this member.
    p.plan.recheck_within(Duration::from_secs(1));
    Flow::Break(())
}

/// The last Node that was registered within the grace period for a Machine that stays, and what is left of that period.
fn youngest_node(p: &Pending) -> Option<(String, Duration)> {
    let Workload::Reached(facts) = &p.observed.workload else { return None };
    let nodes = facts.nodes.as_deref().unwrap_or_default();
    let staying = p.observed.machines.iter().filter(|machine| !machine.is_deleting());
    // A Machine on its way out starts no member any more.
    let young = staying.filter_map(|machine| {
        let name = machine.node_name()?;
        let node = nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name))?;
        let registered = node.metadata.creation_timestamp.as_ref().map(from_k8s)?;
        let left = STARTUP_GRACE - (p.now - registered);
        (left > TimeDelta::zero()).then(|| (name.to_owned(), left.to_std().unwrap_or_default()))
    });
    young.max_by_key(|(_, left)| *left)
}

/// While a Machine is being deleted nothing after this rule runs.
pub fn release_deleted(p: &mut Pending) -> Flow {
    let deleting: Vec<&OwnedMachine> = p.observed.machines.iter().filter(|m| m.is_deleting()).collect();
    if let Some(released) = deleting.iter().find(|m| m.annotation(annotation::KCP_CLEANUP_HOOK).is_none()) {
        let machine = released.name().to_owned();
        // Members leave one at a time: two together could take the quorum along.
        return p.wait(Blocked::MachineDeleting { machine }, Some(SLOW_RETRY));
    }
    // The oldest deletion first, so that no pass switches between two Machines.
    let Some(machine) = deleting.into_iter().min_by_key(|m| (m.deleted_at(), m.name())).cloned() else {
        return Flow::Continue(());
    };
    let name = machine.name().to_owned();
    if others_hold(p, &machine) {
        return p.wait(Blocked::OtherHooks { machine: name }, Some(SLOW_RETRY));
    }
    // Only then are drain and detaching over: until then
    // its kubelet may need the API server beside it.
    let drained = machine
        .condition("Deleting")
        .is_some_and(|c| c.status == "True" && c.reason == "WaitingForPreTerminateHook");
    if !drained {
        return p.wait(Blocked::Draining { machine: name }, Some(SLOW_RETRY));
    }
    if p.observed.machines.len() <= 1 {
        return release(p, &machine, Why::LastMachine);
    }
    // Components count with an external etcd, too, so they are judged before it is told apart.
    if !components_survive(&p.observed, Change::Remove(&name)) {
        return p.wait(Blocked::WouldBreakComponents { machine: name }, Some(SLOW_RETRY));
    }
    if !p.observed.etcd_is_managed() {
        let why = Why::MachineLeaves { machine: name };
        return release(p, &machine, why);
    }
    remove_member_of(p, &machine)
}

/// From 1.31 on hooks of others go first, because the member's kubelet needs the local API server.
fn others_hold(p: &Pending, machine: &OwnedMachine) -> bool {
    let annotations = machine.machine.metadata.annotations.iter().flat_map(|a| a.keys());
    version::at_least(&p.observed.control_plane.spec.version, 1, 31)
        && annotations
            .filter(|key| key.starts_with(annotation::PRE_TERMINATE_HOOK_PREFIX))
            .any(|key| key != annotation::KCP_CLEANUP_HOOK)
}

fn remove_member_of(p: &mut Pending, machine: &OwnedMachine) -> Flow {
    let name = machine.name().to_owned();
    let nodes = match &p.observed.workload {
        Workload::Reached(facts) => facts.nodes.clone(),
        // In forecasts no Node is known, and the Machine's own reference has to do.
        _ => Ok(Vec::new()),
    };
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(detail) => return p.fail(Blocked::NodesUnknown { detail }),
    };
    let members = p.observed.membership().members().unwrap_or_default().to_vec();
    if members.is_empty() {
        return p.fail(Blocked::MembersUnknown);
    }
    // A Machine that went before its reference was set may have a member under its Node's name.
    let by_provider_id = || {
        let same = |n: &&k8s_openapi::api::core::v1::Node| {
            let id = n.spec.as_ref().and_then(|s| s.provider_id.as_deref());
            id.is_some() && id == machine.provider_id()
        };
        nodes.iter().find(same).and_then(|n| n.metadata.name.clone())
    };
    let Some(node) = machine.node_name().map(str::to_owned).or_else(by_provider_id) else {
        return release(p, machine, Why::NoMemberKnown);
    };
    if !quorum_survives(&p.observed, Change::Remove(&node)) {
        return p.wait(Blocked::WouldLoseQuorum { machine: name }, Some(SLOW_RETRY));
    }
    match leader::forward(&p.observed, machine) {
        Err(blocked) => return p.fail(blocked),
        Ok(None) => {}
        Ok(Some(transfer)) => p.step(transfer, Why::Leads { machine: name.clone() }),
    }
    // The member is gone already after a pass that ended between removal and release.
    if let Some(member) = members.into_iter().find(|m| m.name == node) {
        let why = Why::MachineLeaves { machine: name.clone() };
        p.step(Act::Workload(WorkloadCall::RemoveEtcdMember(member)), why);
    }
    release(p, machine, Why::MachineLeaves { machine: name })
}

fn release(p: &mut Pending, machine: &OwnedMachine, why: Why) -> Flow {
    p.step(Act::ReleaseMachine { machine: machine.name().to_owned() }, why);
    p.plan.recheck_within(SLOW_RETRY);
    Flow::Break(())
}
