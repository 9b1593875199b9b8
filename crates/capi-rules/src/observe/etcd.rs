//! What an etcd is judged by besides the answers of its members: the Machines that should host them, and the members
//! that a simulated cluster has. Must not judge either.

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::Node;

use crate::etcd::facts::{Asked, Class, Facts, Host, Listed, MemberStatus, Trouble};
use crate::status::machines::{Reach, is_control_plane};
use capi_types::dev::DevMachine;
use capi_types::key::annotation;
use capi_types::machine::Machine;
use capi_types::names::annotation::{SIMULATED_LEADER_FROM, SIMULATED_MEMBER_ID, SIMULATED_MEMBER_REMOVED};
use capstan_base::time::{Timestamp, from_k8s};

/// A Node has its object before its member has joined.
/// Source: cluster-api `controlplane/kubeadm/pkg/workload_cluster_conditions.go`
/// (`compareMachinesAndMembers`), v1.14.2.
const JOINING_MINUTES: i64 = 2;

/// The control plane Machines among `machines`. Without the Nodes no member counts as joining.
pub fn hosts(machines: &[Machine], nodes: &[Node], now: Timestamp) -> Vec<Host> {
    let is_joining = |name: &str| {
        let node = nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
        let created = node.and_then(|node| node.metadata.creation_timestamp.as_ref());
        created.is_some_and(|at| now - from_k8s(at) < TimeDelta::minutes(JOINING_MINUTES))
    };
    let host = |machine: &Machine| {
        let node = node_of(machine).map(str::to_owned);
        Host {
            machine: machine.metadata.name.clone().unwrap_or_default(),
            is_deleting: machine.metadata.deletion_timestamp.is_some(),
            is_joining: node.as_deref().is_some_and(is_joining),
            node,
        }
    };
    machines.iter().filter(|machine| is_control_plane(machine)).map(host).collect()
}

fn node_of(machine: &Machine) -> Option<&str> {
    Some(machine.status.as_ref()?.node_ref.as_ref()?.name.as_str())
}

/// The members that the simulated infrastructure noted on its DevMachines. It states neither alarms nor sizes, and
/// its leader is the one that was made leader last. A member whose Node is unreachable gives no answer, as one that has
/// to be asked through its kubelet.
pub fn simulated_members(dev_machines: &[DevMachine], machines: &[Machine]) -> Facts {
    let noted: Vec<Noted> = dev_machines.iter().filter_map(|dev| noted(dev, machines)).collect();
    // Removed members count here: when the last leader is gone, no older one leads.
    let newest = noted.iter().filter(|member| member.leader_term > 0).max_by_key(|member| member.leader_term);
    let leader = newest.filter(|member| !member.is_removed).map(|member| member.listed.id);
    let present = || noted.iter().filter(|member| !member.is_removed);
    let there: Vec<Listed> = present().map(|member| member.listed.clone()).collect();
    let status = |member: &Listed| MemberStatus {
        cluster_id: 0,
        member_id: member.id,
        version: String::new(),
        leader,
        is_learner: false,
        raft: None,
        database: None,
        errors: Vec::new(),
        took_ms: None,
        list: Ok(there.clone()),
    };
    let asked = |Noted { listed, reach, .. }: &Noted| Asked {
        from: listed.name.clone(),
        node: Some(listed.name.clone()),
        outcome: match reach {
            Reach::Unreachable => Err(Trouble {
                class: Class::NodeUnreachable,
                text: format!("nothing is heard of Node {}", listed.name),
            }),
            Reach::Reachable | Reach::NotKnown => Ok(status(listed)),
        },
    };
    Facts { answers: present().map(asked).collect(), alarms: None, hosts: None }
}

struct Noted {
    listed: Listed,
    leader_term: u64,
    is_removed: bool,
    reach: Reach,
}

fn noted(dev: &DevMachine, machines: &[Machine]) -> Option<Noted> {
    let number = |name: &str| annotation(dev, name)?.parse::<u64>().ok();
    let id = number(SIMULATED_MEMBER_ID)?;
    let own = dev.metadata.name.as_deref().unwrap_or_default();
    // By reference: the Machine of a pool or a moved object may have another name than its host.
    let is_own = |machine: &&Machine| {
        let reference = &machine.spec.infrastructure_ref;
        reference.kind == "DevMachine" && reference.name == own
    };
    let machine = machines.iter().find(is_own);
    let node = machine.and_then(node_of).unwrap_or(own);
    Some(Noted {
        listed: Listed { id, name: node.to_owned(), ..Listed::default() },
        leader_term: number(SIMULATED_LEADER_FROM).unwrap_or(0),
        is_removed: annotation(dev, SIMULATED_MEMBER_REMOVED).is_some(),
        reach: machine.map_or(Reach::NotKnown, Reach::of_machine),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::etcd::report::{EtcdState, Report};
    use capstan_base::time::parse_rfc3339;

    fn typed<K: serde::de::DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).expect("an object")
    }

    fn machine(name: &str, node: Option<&str>) -> Machine {
        let labels = json!({"cluster.x-k8s.io/control-plane": ""});
        let mut machine = json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"clusterName": "c", "bootstrap": {},
                     "infrastructureRef": {"apiGroup": "x.io", "kind": "DevMachine", "name": format!("{name}-dev")}},
        });
        if let Some(node) = node {
            machine["status"] = json!({"nodeRef": {"name": node}});
        }
        typed(machine)
    }

    fn dev(name: &str, annotations: &[(&str, &str)]) -> DevMachine {
        let annotations: std::collections::BTreeMap<_, _> = annotations.iter().copied().collect();
        typed(json!({"metadata": {"name": name, "annotations": annotations}, "spec": {"backend": {}}}))
    }

    #[test]
    fn a_member_may_be_joining_for_two_minutes() {
        let now = parse_rfc3339("2026-11-23T12:00:00Z").expect("a moment");
        let node = |name: &str, created: &str| {
            typed::<Node>(json!({"metadata": {"name": name, "creationTimestamp": created}}))
        };
        let nodes = [node("a", "2026-11-23T11:58:01Z"), node("b", "2026-11-23T11:58:00Z")];
        let machines = [
            machine("m1", Some("a")),
            machine("m2", Some("b")),
            machine("m3", None),
            machine("m4", Some("x")),
        ];
        let found: Vec<_> =
            hosts(&machines, &nodes, now).into_iter().map(|h| (h.machine, h.node, h.is_joining)).collect();
        let host = |machine: &str, node: Option<&str>, joining| {
            (machine.to_owned(), node.map(str::to_owned), joining)
        };
        assert_eq!(
            found,
            [
                host("m1", Some("a"), true),
                host("m2", Some("b"), false),
                host("m3", None, false),
                host("m4", Some("x"), false)
            ]
        );
    }

    #[test]
    fn simulated_members_have_the_leader_that_was_made_last() {
        let machines = [machine("m1", Some("a")), machine("m2", Some("b"))];
        let of = |first: &[(&str, &str)], second: &[(&str, &str)]| {
            let facts = simulated_members(&[dev("m1-dev", first), dev("m2-dev", second)], &machines);
            let report = Report::of(&facts, None);
            let names: Vec<String> = report.members.iter().map(|row| row.name.clone()).collect();
            (names, report.leader, report.state)
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (id, from) = (SIMULATED_MEMBER_ID, SIMULATED_LEADER_FROM);
        assert_eq!(
            of(&[(id, "7"), (from, "1")], &[(id, "8"), (from, "2")]),
            (names(&["b", "a"]), Some("b".to_owned()), EtcdState::Degraded)
        );
        // The leader was removed, and simulated members do not elect another one.
        assert_eq!(
            of(&[(id, "7"), (from, "1")], &[(id, "8"), (from, "2"), (SIMULATED_MEMBER_REMOVED, "")]),
            (names(&["a"]), None, EtcdState::Critical)
        );
        assert_eq!(of(&[], &[(id, "x")]), (names(&[]), None, EtcdState::Unknown));
    }

    /// It was counted as healthy: the list was believed against the Node.
    #[test]
    fn a_simulated_member_on_a_silent_node_does_not_answer() {
        let id = SIMULATED_MEMBER_ID;
        let devs = ["1", "2", "3"].map(|n| dev(&format!("m{n}-dev"), &[(id, n), (SIMULATED_LEADER_FROM, n)]));
        let with = |status: &str, reason: &str| {
            let machines = ["1", "2", "3"].map(|n| {
                let mut machine = machine(&format!("m{n}"), Some(&format!("node-{n}")));
                let condition = json!([{"type": "NodeReady", "status": status, "reason": reason, "message": "",
                    "lastTransitionTime": "2026-11-23T11:58:00Z"}]);
                if n != "3" {
                    machine.status.get_or_insert_default().conditions = typed(condition);
                }
                machine
            });
            let report = Report::of(&simulated_members(&devs, &machines), None);
            let answers =
                report.members.iter().map(|row| (row.name.clone(), row.answer())).collect::<Vec<_>>();
            (report.state, report.healthy, answers)
        };
        let row = |name: &str, answer: &str| (name.to_owned(), answer.to_owned());
        let silent =
            [row("node-3", "-"), row("node-1", "node unreachable"), row("node-2", "node unreachable")];
        assert_eq!(with("Unknown", "NodeReadyUnknown"), (EtcdState::Critical, 1, silent.to_vec()));
        // A Node that reports, as one that boots.
        let booting = [row("node-3", "-"), row("node-1", "-"), row("node-2", "-")];
        assert_eq!(with("False", "NodeNotReady"), (EtcdState::Healthy, 3, booting.to_vec()));
    }
}
