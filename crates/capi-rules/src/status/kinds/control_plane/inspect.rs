//! The inspection of a workload cluster turned into conditions: of every Machine, and the two of the
//! control plane that sum them up. Must not know how facts are gathered.
//! Source: KCP `reconcileControlPlaneAndMachinesConditions`, `setConditionsToUnknown`;
//! `controlplane/kubeadm/pkg/workload_cluster_conditions.go`, v1.14.2.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::available::MEMBERS_DO_NOT_MATCH;
use super::components::{Aggregation, Reporter};
use super::machine::{ETCD_MEMBER, LABELS_AND_TAINTS, OwnedMachine};
use super::{Connection, Observed, Reached, Template, Workload, pods};
use crate::etcd::{Member, Membership};
use crate::status::conditions::setter::{CHECK_LOGS, Draft, condition as say};
use crate::status::conditions::wording::{LEARNER, NO_MEMBER, NOT_READ};
use crate::status::control_plane::up_to_date::{self, Difference, Progress};
use capi_types::condition;
use capi_types::condition::Status;
use capstan_base::time::{Timestamp, from_k8s, rfc3339};

const ETCD: &str = "EtcdClusterHealthy";
const COMPONENTS: &str = "ControlPlaneComponentsHealthy";
/// So many failed probes before a connection that never was counts as down.
const FAILURES_MAX: u32 = 5;
/// A joining Node is there before its member.
const MEMBER_GRACE_MINUTES: i64 = 2;

/// What an inspection found.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// The new condition list of every Machine, by name.
    pub machines: BTreeMap<String, Vec<Condition>>,
    /// New conditions of the control plane; a type that keeps its stored value is absent.
    pub control_plane: Vec<Condition>,
    /// Etcd members as this inspection saw them; `None` when it did not get that far.
    pub members: Option<Vec<Member>>,
    /// Members and Machines belong together, as far as is known.
    pub members_match: bool,
    /// Why nothing may be changed on the strength of this inspection.
    pub failure: Option<String>,
}

impl Observed {
    /// Takes the Machines' new conditions in, as later rules must see them.
    pub fn take_in(&mut self, inspection: &Inspection) {
        for machine in &mut self.machines {
            if let Some(list) = inspection.machines.get(machine.name()) {
                machine.set_conditions(list.clone());
            }
        }
    }
}

/// Conditions of Machines and control plane from what was observed. Pure; never fails: what could not
/// be looked at becomes `Unknown`, and with `failure` nothing may be changed.
pub fn inspect(observed: &Observed, now: Timestamp) -> Inspection {
    let mut pass = Pass::new(observed, now);
    // Before all returns: this needs nothing of the workload cluster.
    pass.up_to_date();
    // Both: the pass that finds it initialized has read nothing of the cluster yet.
    if !observed.is_initialized() || !observed.was_initialized() {
        pass.all_unknown("InspectionFailed", "Waiting for Cluster control plane to be initialized", true);
        return pass.finish(None);
    }
    match &observed.workload {
        Workload::Reached(facts) => {
            pass.static_pods(facts);
            pass.etcd(facts);
            pass.finish(None)
        }
        Workload::Down(connection) => {
            let failure = pass.disconnected(connection);
            pass.finish(Some(failure))
        }
        Workload::Assumed(membership) => {
            pass.assumed(membership);
            pass.finish(None)
        }
        Workload::NotAsked => pass.finish(Some("the workload cluster was not asked".to_owned())),
    }
}

/// The conditions being written in one inspection.
struct Pass<'a> {
    observed: &'a Observed,
    now: Timestamp,
    drafts: BTreeMap<&'a str, Draft>,
    control_plane: Vec<Condition>,
    members: Option<Vec<Member>>,
    members_match: bool,
}

impl<'a> Pass<'a> {
    fn new(observed: &'a Observed, now: Timestamp) -> Self {
        let draft = |m: &OwnedMachine| Draft::new(m.conditions(), m.machine.metadata.generation, now);
        let drafts = observed.machines.iter().map(|m| (m.name(), draft(m))).collect();
        Self { observed, now, drafts, control_plane: Vec::new(), members: None, members_match: false }
    }

    fn finish(self, failure: Option<String>) -> Inspection {
        Inspection {
            machines: self.drafts.into_iter().map(|(name, d)| (name.to_owned(), d.finish())).collect(),
            control_plane: self.control_plane,
            members: self.members,
            members_match: self.members_match,
            failure,
        }
    }

    fn set(&mut self, machine: &OwnedMachine, condition: Condition) {
        if let Some(draft) = self.drafts.get_mut(machine.name()) {
            draft.set(condition);
        }
    }

    fn up_to_date(&mut self) {
        let observed = self.observed;
        for m in &observed.machines {
            let mut differences = up_to_date::control_plane_machine(&observed.control_plane, m, self.now);
            // Without its template, the infrastructure of a control plane that goes counts as it should be.
            if observed.is_deleting() && observed.template == Template::Missing {
                differences.retain(|d| !matches!(d, Difference::Infrastructure { .. }));
            }
            let progress = Progress {
                conditions: m.conditions(),
                updating_in_place: m.is_updating_in_place(),
                version: m.version(),
                kubelet_version: m.kubelet_version(),
            };
            self.set(m, up_to_date::up_to_date_condition(&differences, progress));
        }
    }

    /// Everything unknown for one reason. Without `overwrite`, what the control plane already reports
    /// stays, and so do the Machines' parts of it.
    fn all_unknown(&mut self, reason: &str, message: &str, overwrite: bool) {
        let observed = self.observed;
        let stored = |type_: &str| condition::find(observed.conditions(), type_).is_some();
        if overwrite || !stored(ETCD) {
            self.control_plane.push(say(ETCD, Status::Unknown, reason, message));
            for m in observed.machines.iter().filter(|_| observed.etcd_is_managed()) {
                self.set(m, say(ETCD_MEMBER, Status::Unknown, reason, message));
            }
        }
        if overwrite || !stored(COMPONENTS) {
            self.control_plane.push(say(COMPONENTS, Status::Unknown, reason, message));
            let labels = std::iter::once(LABELS_AND_TAINTS);
            let types: Vec<&str> = labels.chain(observed.component_conditions().iter().copied()).collect();
            for m in &observed.machines {
                for type_ in &types {
                    self.set(m, say(type_, Status::Unknown, reason, message));
                }
            }
        }
    }

    /// No connection: young losses keep what is known, old ones make it unknown. Returns the failure.
    fn disconnected(&mut self, connection: &Connection) -> String {
        // Before that a cluster that just comes up would be reported as lost.
        if connection.last_success.is_none() && connection.consecutive_failures < FAILURES_MAX {
            self.all_unknown("ConnectionDown", "Remote connection not established yet", false);
            return "the connection to the workload cluster is not established yet".to_owned();
        }
        let last = connection.last_success.map(rfc3339);
        let message = last.map_or_else(String::new, |at| format!("Last successful probe at {at}"));
        let initialized = condition::find(self.observed.conditions(), "Initialized");
        let since = initialized.map(|c| from_k8s(&c.last_transition_time));
        // The later of both: probes may have failed before there was an API server at all.
        let since = connection.last_success.max(since).unwrap_or_default();
        if self.now - since > connection.graces.conditions {
            self.all_unknown("ConnectionDown", &message, true);
            return "the connection to the workload cluster is down for longer than conditions are kept"
                .to_owned();
        }
        match &connection.error {
            None => {
                // Young losses keep stored conditions, or each
                // short outage would stop rollouts and alarms.
                self.all_unknown("ConnectionDown", &message, false);
                "the connection to the workload cluster is down".to_owned()
            }
            Some(error) => {
                self.all_unknown("InspectionFailed", CHECK_LOGS, true);
                format!("no client for the workload cluster: {error}")
            }
        }
    }

    /// Stored conditions of the Machines are taken as they are, and summed up anew.
    fn assumed(&mut self, membership: &Membership) {
        let observed = self.observed;
        let components = self.aggregate(observed.component_conditions(), COMPONENTS, "control plane", &[]);
        self.control_plane.push(components);
        self.members = membership.members().map(<[Member]>::to_vec);
        self.members_match = true;
        if observed.etcd_is_managed() {
            self.control_plane.push(self.aggregate(&[ETCD_MEMBER], ETCD, "etcd member", &[]));
            let members = membership.members().unwrap_or_default();
            let hosts = |m: &OwnedMachine| {
                m.node_name().is_none_or(|node| members.iter().any(|member| member.name == node))
            };
            // The age of a Node is how long a Machine has been without its member; without Nodes the stored condition stays.
            self.members_match = observed.machines.iter().filter(|m| !m.is_deleting()).all(hosts)
                || !condition::find(observed.conditions(), "Available")
                    .is_some_and(|told| told.message == MEMBERS_DO_NOT_MATCH);
        }
    }

    fn static_pods(&mut self, facts: &Reached) {
        let observed = self.observed;
        let types = observed.component_conditions();
        let nodes = match &facts.nodes {
            Ok(nodes) => nodes,
            Err(error) => {
                let hosting = format!("Failed to get the Node hosting the Pod: {error}");
                for m in &observed.machines {
                    for mut c in pods::unknown(types, &hosting) {
                        if c.type_ == LABELS_AND_TAINTS {
                            c.message = "Failed to get the Node".to_owned();
                        }
                        self.set(m, c);
                    }
                }
                let message = format!("Failed to get Nodes hosting control plane components: {error}");
                self.control_plane.push(say(COMPONENTS, Status::Unknown, "InspectionFailed", message));
                return;
            }
        };
        for m in &observed.machines {
            let node = m.node_name().and_then(|name| find_node(nodes, name));
            for c in pods::conditions(m, node, &facts.pods, observed.etcd_is_managed()) {
                self.set(m, c);
            }
        }
        let errors = nodes_without_machine(observed, nodes);
        let condition = self.aggregate(types, COMPONENTS, "control plane", &errors);
        self.control_plane.push(condition);
    }

    fn etcd(&mut self, facts: &Reached) {
        let observed = self.observed;
        if !observed.etcd_is_managed() {
            self.members_match = true;
            return;
        }
        if facts.nodes.is_err() {
            for m in &observed.machines {
                let message = format!("{NOT_READ} get the Node hosting the etcd member");
                self.set(m, say(ETCD_MEMBER, Status::Unknown, "InspectionFailed", message));
            }
            let message = "Failed to get Nodes hosting the etcd cluster";
            self.control_plane.push(say(ETCD, Status::Unknown, "InspectionFailed", message));
            return;
        }
        let etcd = observed.membership();
        for m in &observed.machines {
            for c in member_condition(m, etcd) {
                self.set(m, c);
            }
        }
        let mut errors = Vec::new();
        // After the conditions of members: the comparison overrides what was said of a missing one.
        if let Some(members) = etcd.members() {
            for m in &observed.machines {
                if let Some(node) = m.node_name().filter(|node| members.iter().all(|x| x.name != *node)) {
                    self.set(m, not_healthy(format!("{NO_MEMBER} for Node {node}")));
                }
            }
            errors = members_without_machine(observed, members)
                .map(|x| format!("Etcd member {} does not have a corresponding Machine", label(x)))
                .collect();
        }
        self.members = etcd.members().map(<[Member]>::to_vec);
        self.members_match = members_match(observed, facts, etcd, self.now);
        let condition = self.aggregate(&[ETCD_MEMBER], ETCD, "etcd member", &errors);
        self.control_plane.push(condition);
    }

    fn aggregate(&self, sources: &[&str], target: &str, note: &str, errors: &[String]) -> Condition {
        let reporters: Vec<Reporter<'_>> = self
            .observed
            .machines
            .iter()
            .map(|m| Reporter {
                name: m.name(),
                conditions: self.drafts.get(m.name()).map_or(&[], |d| d.list()),
                has_provider_id: m.provider_id().is_some(),
            })
            .collect();
        Aggregation { sources, target, note, errors }.of(&reporters)
    }
}

/// The writes to a Machine's `EtcdMemberHealthy`, in order. Upstream writes twice for a deleting
/// Machine without a Node, which gives it a fresh transition time in every pass; so do we.
fn member_condition(machine: &OwnedMachine, membership: &Membership) -> Vec<Condition> {
    let unknown = |message: String| vec![say(ETCD_MEMBER, Status::Unknown, "InspectionFailed", message)];
    let deleting = say(ETCD_MEMBER, Status::False, "Deleting", "Machine is deleting");
    let Some(node) = machine.node_name() else {
        let mut writes = unknown(pods::waiting_for_node(machine));
        if machine.is_deleting() {
            writes.push(deleting);
        }
        return writes;
    };
    if machine.is_deleting() {
        return vec![deleting];
    }
    match membership {
        Membership::NotAsked | Membership::NoLeader | Membership::Assumed(_) => Vec::new(),
        Membership::NoClient(cause) => unknown(format!("{NOT_READ} connect to etcd: {cause}")),
        Membership::ListFailed(cause) => unknown(format!("{NOT_READ} get etcd members: {cause}")),
        Membership::AlarmsFailed(cause) => unknown(format!("{NOT_READ} get etcd alarms: {cause}")),
        // Without a member to ask, upstream takes the answer as empty.
        Membership::NoNodes => {
            let name = machine.name();
            vec![not_healthy(format!(
                "Etcd reports the cluster is composed by [], but the etcd member hosted on Machine {name} \
                 ({node}) is not included"
            ))]
        }
        Membership::Known(members) => vec![known_member(members.list.iter().find(|x| x.name == node))],
    }
}

fn not_healthy(message: String) -> Condition {
    say(ETCD_MEMBER, Status::False, "NotHealthy", message)
}

fn known_member(member: Option<&Member>) -> Condition {
    match member {
        // Overwritten by the comparison of members and Machines.
        None => not_healthy(String::new()),
        Some(m) if m.learner => not_healthy(format!("{LEARNER} to be promoted")),
        Some(m) if !m.alarms.is_empty() => {
            not_healthy(format!("Etcd reports alarms: {}", m.alarms.join(", ")))
        }
        Some(_) => say(ETCD_MEMBER, Status::True, "Healthy", ""),
    }
}

fn label(member: &Member) -> String {
    if member.name.is_empty() {
        return format!("{} (Name not yet assigned)", member.id);
    }
    member.name.clone()
}

fn members_without_machine<'a>(
    observed: &'a Observed,
    members: &'a [Member],
) -> impl Iterator<Item = &'a Member> {
    members.iter().filter(|x| observed.machines.iter().all(|m| m.node_name() != Some(x.name.as_str())))
}

/// Do members and Machines belong together? Something on its way in or out is not a mismatch.
fn members_match(observed: &Observed, facts: &Reached, etcd: &Membership, now: Timestamp) -> bool {
    let nodes = facts.nodes.as_deref().unwrap_or_default();
    let Some(members) = etcd.members() else {
        return observed.machines.iter().all(|m| m.node_name().is_none());
    };
    // By the Node's age: its member comes up after it.
    let settled = |name: &str| {
        let created = find_node(nodes, name).and_then(|n| n.metadata.creation_timestamp.as_ref());
        created.is_some_and(|at| now - from_k8s(at) > TimeDelta::minutes(MEMBER_GRACE_MINUTES))
    };
    let lacks_member = observed
        .machines
        .iter()
        .filter(|m| !m.is_deleting())
        .filter_map(OwnedMachine::node_name)
        .any(|node| members.iter().all(|x| x.name != node) && settled(node));
    // A member may be that of a Machine whose Node is not known yet.
    let all_have_nodes = observed.machines.iter().all(|m| m.node_name().is_some());
    !lacks_member && !(all_have_nodes && members_without_machine(observed, members).next().is_some())
}

fn nodes_without_machine(observed: &Observed, nodes: &[Node]) -> Vec<String> {
    // The Node may be that of a Machine whose reference is not set yet.
    if observed.machines.iter().any(OwnedMachine::is_provisioning) {
        return Vec::new();
    }
    nodes
        .iter()
        .filter(|n| pods::is_control_plane(n))
        .filter_map(|n| n.metadata.name.as_deref())
        .filter(|name| observed.machines.iter().all(|m| m.node_name() != Some(name)))
        .map(|name| format!("Control plane Node {name} does not have a corresponding Machine"))
        .collect()
}

fn find_node<'a>(nodes: &'a [Node], name: &str) -> Option<&'a Node> {
    nodes.iter().find(|n| n.metadata.name.as_deref() == Some(name))
}
