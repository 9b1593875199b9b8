//! Etcd members without a Machine, and Machines on their way out: what goes when.

use std::time::Duration;

use chrono::TimeDelta;
use proptest::prelude::*;
use serde_json::json;

use super::super::{Observed, Workload, plan};
use super::rules::{break_pods, check, condition};
use crate::etcd::Membership;
use crate::plan::{WorkloadCall, Write};
use crate::status::control_plane::certificates::{Certificates, Purpose};
use crate::status::control_plane::fixtures::{self, of};
use capi_types::names::annotation;

#[test]
fn stray_members_go_one_at_a_time_when_quorum_allows() {
    let stray = |machines: usize, names: &[&str]| {
        let mut o = fixtures::three();
        o.machines.truncate(machines);
        o.control_plane.spec.replicas = Some(i32::try_from(machines).unwrap());
        if let Workload::Reached(facts) = &mut o.workload
            && let Membership::Known(members) = &mut facts.etcd
        {
            members.list.truncate(machines);
            for (name, id) in names.iter().zip(10..) {
                members.list.push(fixtures::member(id, name));
            }
        }
        o
    };
    check(&stray(3, &["b", "a"]), &["remove etcd member a"], &[]);
    check(&stray(3, &[""]), &["remove etcd member 10 (no name yet)"], &[]);
    let mut o = stray(3, &["a"]);
    o.control_plane.spec.replicas = Some(5);
    if let Workload::Reached(facts) = &mut o.workload {
        facts.nodes = Err("refused".into());
    }
    let blockers = plan(&o, fixtures::now()).blockers;
    assert!(blockers.iter().all(|b| b.reason.rule == "machine-unhealthy"), "members were not asked");
    let mut o = stray(3, &["a"]);
    break_pods(&mut o, "m1");
    check(&o, &["remove etcd member a"], &[]);
    if let Workload::Reached(facts) = &mut o.workload
        && let Membership::Known(members) = &mut facts.etcd
    {
        members.list[0].alarms.push("NOSPACE".into());
        members.list[1].alarms.push("NOSPACE".into());
    }
    check(&o, &[], &["stray-member-quorum"]);
}

/// Three Machines, a member without a name, and the Node of `joined` registered `age_s` before now.
fn joining(joined: usize, age_s: i64, leaves: bool) -> Observed {
    let mut o = fixtures::three();
    if leaves {
        let machine = &mut o.machines[joined].machine;
        machine.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(fixtures::now()));
    }
    if let Workload::Reached(facts) = &mut o.workload {
        let registered = fixtures::now() - TimeDelta::seconds(age_s);
        let nodes = facts.nodes.as_mut().unwrap();
        nodes[joined].metadata.creation_timestamp = Some(capstan_base::time::to_k8s(registered));
        if let Membership::Known(members) = &mut facts.etcd {
            members.list.push(fixtures::member(10, ""));
        }
    }
    o
}

fn removes_a_member(o: &Observed) -> bool {
    let removes =
        |write: &Write| matches!(write, Write::Workload { call: WorkloadCall::RemoveEtcdMember(_), .. });
    plan(o, fixtures::now()).steps.iter().flat_map(|step| &step.writes).any(removes)
}

proptest! {
    /// kubeadm adds the member, the kubelet registers the Node, and only then etcd gives its name.
    #[test]
    fn a_member_without_a_name_stays_until_its_node_is_20_s_old(
        joined in 0_usize..3, age_s in -60_i64..60, leaves in any::<bool>(),
        named in proptest::option::of("[a-z]{1,8}"),
    ) {
        let mut o = joining(joined, age_s, leaves);
        if let (Some(name), Workload::Reached(facts)) = (&named, &mut o.workload)
            && let Membership::Known(members) = &mut facts.etcd
        {
            members.list.push(fixtures::member(11, name));
        }
        let may_start = age_s < 20 && !leaves;
        prop_assert_eq!(removes_a_member(&o), !may_start);
        let plan = plan(&o, fixtures::now());
        let waits = plan.blockers.iter().any(|b| b.reason.rule == "stray-member-starting");
        prop_assert_eq!(waits, may_start);
        if may_start {
            let again = plan.recheck.expect("it looks again");
            let later = fixtures::now() + TimeDelta::from_std(again).unwrap();
            let created = fixtures::now() - TimeDelta::seconds(age_s);
            prop_assert!(later <= created + TimeDelta::seconds(20), "{again:?}");
        }
    }
}

#[test]
fn a_member_without_a_name_goes_when_the_grace_of_every_node_is_over() {
    let mut o = joining(1, 19, false);
    let stays = plan(&o, fixtures::now());
    assert_eq!(stays.recheck, Some(Duration::from_secs(1)), "{:?}", stays.blockers);
    assert!(!removes_a_member(&o));
    let later = fixtures::now() + TimeDelta::seconds(1);
    let titles: Vec<_> =
        plan(&o, later).steps.iter().filter_map(|s| s.action.as_ref().map(ToString::to_string)).collect();
    assert_eq!(titles, ["remove etcd member 10 (no name yet)"]);
    // A member with a name never waits for a Node.
    if let Workload::Reached(facts) = &mut o.workload
        && let Membership::Known(members) = &mut facts.etcd
    {
        members.list[3].name = "a".to_owned();
    }
    check(&o, &["remove etcd member a"], &[]);
}

#[test]
fn a_member_that_may_belong_to_a_machine_without_a_node_stays() {
    let mut o = fixtures::three();
    o.machines[2].machine.status.as_mut().unwrap().node_ref = None;
    check(&o, &[], &["stray-member-provisioning"]);
}

#[test]
fn a_machine_that_leaves_without_a_member_is_let_go() {
    let leaving = |machines: usize| {
        let mut o = fixtures::three();
        o.machines.truncate(machines);
        let m = &mut o.machines[machines - 1];
        m.machine.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(fixtures::now()));
        condition(m, "Deleting", "True", "WaitingForPreTerminateHook");
        o
    };
    let mut last = leaving(1);
    last.workload = Workload::Reached(Box::new(fixtures::reached(&last.machines)));
    check(&last, &["let Machine m1 go"], &[]);

    let mut external = leaving(3);
    external.control_plane.spec.kubeadm_config_spec = Some(of(json!({ "clusterConfiguration": { "etcd": {
        "external": { "endpoints": ["https://e"], "caFile": "c", "certFile": "c", "keyFile": "k" } } } })));
    external.certificates = Certificates::Found(Purpose::needed(true).to_vec());
    let plan = plan(&external, fixtures::now());
    let acts: Vec<_> = plan.steps.iter().filter_map(|s| s.action.as_ref().map(ToString::to_string)).collect();
    assert_eq!(acts.last().map(String::as_str), Some("let Machine m3 go"), "{:?}", plan.blockers);

    let mut unknown = leaving(3);
    if let Workload::Reached(facts) = &mut unknown.workload {
        facts.etcd = Membership::NoLeader;
    }
    check(&unknown, &[], &["etcd-members-unknown"]);

    // Its Node is found neither by name nor by provider ID.
    let mut unnamed = leaving(3);
    let m = &mut unnamed.machines[2].machine;
    m.status.as_mut().unwrap().node_ref = None;
    m.spec.provider_id = None;
    if let Workload::Reached(facts) = &mut unnamed.workload
        && let Membership::Known(members) = &mut facts.etcd
    {
        members.list.truncate(2);
    }
    check(&unnamed, &["let Machine m3 go"], &[]);
}

#[test]
fn a_deleting_machine_stops_everything_after_its_hook() {
    let deleting = |reason: &str| {
        let mut o = fixtures::three();
        o.control_plane.spec.replicas = Some(5);
        let m = &mut o.machines[1];
        m.machine.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(fixtures::now()));
        condition(m, "Deleting", "True", reason);
        o
    };
    check(&deleting("DrainingNode"), &[], &["machine-draining"]);
    check(&deleting("WaitingForPreTerminateHook"), &["remove etcd member node-m2", "let Machine m2 go"], &[]);
    let mut o = deleting("WaitingForPreTerminateHook");
    let annotations = o.machines[1].machine.metadata.annotations.as_mut().unwrap();
    annotations.insert(format!("{}/other", annotation::PRE_TERMINATE_HOOK_PREFIX), String::new());
    check(&o, &[], &["other-pre-terminate-hooks"]);
    let annotations = o.machines[1].machine.metadata.annotations.as_mut().unwrap();
    annotations.remove(annotation::KCP_CLEANUP_HOOK);
    check(&o, &[], &["machine-deleting"]);

    let mut o = deleting("WaitingForPreTerminateHook");
    break_pods(&mut o, "m1");
    break_pods(&mut o, "m3");
    check(&o, &[], &["components-would-break"]);
    let mut o = deleting("WaitingForPreTerminateHook");
    for m in &mut o.machines {
        m.machine.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(fixtures::now()));
        condition(m, "Deleting", "True", "WaitingForPreTerminateHook");
    }
    assert_eq!(o.membership(), &Membership::NoNodes, "nobody stays who could be asked");
    check(&o, &[], &["components-would-break"]);
    let mut o = deleting("WaitingForPreTerminateHook");
    if let Workload::Reached(facts) = &mut o.workload
        && let Membership::Known(members) = &mut facts.etcd
    {
        members.list[0].alarms.push("NOSPACE".into());
    }
    check(&o, &[], &["quorum-would-break"]);
    let mut o = deleting("WaitingForPreTerminateHook");
    if let Workload::Reached(facts) = &mut o.workload
        && let Membership::Known(members) = &mut facts.etcd
    {
        members.leader = Some(2);
    }
    check(
        &o,
        &["move etcd leadership from node-m2 to node-m3", "remove etcd member node-m2", "let Machine m2 go"],
        &[],
    );
}
