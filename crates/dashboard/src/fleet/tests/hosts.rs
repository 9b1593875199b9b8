//! Machines that are reached over ssh: where they stand, and that they do not speak for what is above them.

use super::*;

/// The Host that the first worker of the cluster `a` has.
fn host(consumer: &str) -> Builder {
    object("Host", "rack1-7")
        .set("/apiVersion", json!("infrastructure.cluster.x-k8s.io/v1beta1"))
        .set("/spec/address", json!("10.0.0.7"))
        .set("/spec/consumerRef", json!({"kind": "HostMachine", "name": consumer, "clusterName": "a"}))
        .set("/status/state", json!("InUse"))
        .condition("Reachable", "True", "Reachable", "")
        .condition("HostKeyVerified", "True", "Pinned", "")
        .condition("Clean", "Unknown", "InUse", "")
        .condition("Available", "False", "Claimed", "a HostMachine has it")
}

fn fleet_on_hosts(host: Builder) -> Fleet {
    let mut objects = small_cluster("a");
    for object in &mut objects {
        if object["kind"] == "Machine" {
            object["spec"]["infrastructureRef"]["kind"] = json!("HostMachine");
        }
    }
    objects.push(host.0);
    fleet_of(&objects)
}

/// Name of the Machine above, verdict of the Host.
fn shown(fleet: &Fleet, options: &TreeOptions) -> Option<(String, Verdict)> {
    let tree = fleet.tree(fleet.clusters()[0], options);
    let at =
        tree.nodes.iter().position(|node| fleet.line(node.item).is_some_and(|line| line.kind == "Host"))?;
    let above = fleet.line(tree.nodes[tree.nodes[at].parent as usize].item)?;
    Some((above.name.to_owned(), tree.nodes[at].verdict))
}

#[test]
fn a_host_stands_below_the_machine_that_has_it() {
    let with_references = TreeOptions { references: true, ..TreeOptions::default() };
    let fleet = fleet_on_hosts(host("a-md-1-0"));
    assert_eq!(shown(&fleet, &with_references), Some(("a-md-1-0".to_owned(), Verdict::Ok)));
    assert_eq!(shown(&fleet, &TreeOptions::default()), None, "what is well and not asked for takes no line");
    let elsewhere = fleet_on_hosts(host("a-md-1-9"));
    assert_eq!(shown(&elsewhere, &with_references), None);
}

#[test]
fn a_host_that_is_not_well_is_shown_and_leaves_its_cluster_as_it_is() {
    for (type_, status, reason, verdict) in [
        ("Reachable", "False", "Unreachable", Verdict::Degraded),
        ("HostKeyVerified", "False", "ChangedHostKey", Verdict::Degraded),
        ("Privileged", "False", "NotPrivileged", Verdict::Degraded),
        ("Suitable", "False", "Unfit", Verdict::Degraded),
        ("Clean", "False", "Leftovers", Verdict::Ok),
    ] {
        let fleet = fleet_on_hosts(host("a-md-1-0").condition(type_, status, reason, "no route to host"));
        let expected = (verdict != Verdict::Ok).then(|| ("a-md-1-0".to_owned(), verdict));
        assert_eq!(shown(&fleet, &TreeOptions::default()), expected, "{type_}");
        assert_eq!(fleet.verdict(fleet.clusters()[0]), Verdict::Ok, "{type_}");
    }
}

#[test]
fn a_host_that_is_given_back_leaves_the_tree() {
    let unwell = |consumer: &str| host(consumer).condition("Reachable", "False", "Unreachable", "");
    let mut fleet = fleet_on_hosts(unwell("a-md-1-0"));
    assert!(shown(&fleet, &TreeOptions::default()).is_some());
    let free = unwell("").set("/spec/consumerRef", Value::Null).set("/status/state", json!("Unreachable"));
    fleet.apply(vec![Delta::Upsert(row_of(&free.0))]);
    assert_eq!(shown(&fleet, &TreeOptions::default()), None);
}

#[test]
fn a_host_that_is_not_well_does_not_stand_behind_the_line_of_machines_that_are_alike() {
    let worst_first = TreeOptions { order: SiblingOrder::Worst, ..TreeOptions::default() };
    let unwell = fleet_on_hosts(host("a-cp-1").condition("Reachable", "False", "Unreachable", ""));
    for (fleet, is_alone) in [(fleet_on_hosts(host("a-cp-1")), false), (unwell, true)] {
        let tree = fleet.tree(fleet.clusters()[0], &worst_first);
        let name = |at: usize| fleet.line(tree.nodes[at].item).map(|line| line.name.to_owned());
        let at =
            (0..tree.nodes.len()).find(|at| name(*at).as_deref() == Some("a-cp-1")).expect("the Machine");
        let above = tree.nodes[tree.nodes[at].parent as usize].item;
        assert_eq!(matches!(above, Item::Row(_)), is_alone, "{above:?}");
    }
}
