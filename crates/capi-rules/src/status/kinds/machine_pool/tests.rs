//! Tables for a MachinePool: phases, flags, Nodes, counters.

use serde_json::{Value, json};

use super::*;

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

fn found(kind: &str, status: Value) -> External {
    External::Found(Provided::new(json!({"kind": kind, "metadata": {"name": "p"}, "status": status})))
}

fn infrastructure(ids: Value, status: Value) -> External {
    External::Found(Provided::new(json!({"kind": "AnyMachinePool", "metadata": {"name": "p"},
        "spec": {"providerIDList": ids}, "status": status})))
}

fn pool(spec: Value, status: Value) -> MachinePool {
    let mut all = json!({"metadata": {"name": "p", "namespace": "ns", "generation": 2},
        "spec": {"clusterName": "c", "replicas": 2, "providerIDList": ["x://1", "x://2"], "template": {"spec": {
            "clusterName": "c", "bootstrap": {"configRef": {"apiGroup": "b", "kind": "KubeadmConfig", "name": "p"}},
            "infrastructureRef": {"apiGroup": "i", "kind": "AnyMachinePool", "name": "p"}}}}, "status": status});
    k8s_machinery::merge::apply(&mut all["spec"], &spec);
    object(all)
}

fn node(name: &str, id: &str, ready: &str) -> Node {
    object(json!({"metadata": {"name": name, "uid": name}, "spec": {"providerID": id}, "status": {
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "1969-12-31T23:59:00Z"}],
        "nodeInfo": {"architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": "v1.34.1", "machineID": "", "operatingSystem": "",
            "osImage": "", "systemUUID": ""}}}))
}

fn running() -> Observed {
    Observed {
        pool: pool(json!({}), json!({})),
        bootstrap: found(
            "KubeadmConfig",
            json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "s"}),
        ),
        infrastructure: infrastructure(json!(["x://1", "x://2"]), json!({"ready": true, "replicas": 2})),
        machines: Vec::new(),
        nodes: Some(vec![
            node("n1", "x://1", "True"),
            node("n2", "x://2", "True"),
            node("other", "x://3", "True"),
        ]),
        ..Observed::default()
    }
}

fn phase_of(o: &Observed) -> String {
    status(o, Timestamp::default()).phase.unwrap_or_default()
}

#[test]
fn a_running_pool_believes_its_infrastructure() {
    let status = status(&running(), Timestamp::default());
    assert_eq!(
        [status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas],
        [Some(2); 4]
    );
    assert_eq!((status.versions[0].version.as_str(), status.versions[0].replicas), ("v1.34.1", Some(2)));
    let names: Vec<_> = status.node_refs.iter().filter_map(|r| r.name.as_deref()).collect();
    assert_eq!(names, ["n1", "n2"]);
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let types: Vec<_> = status.conditions.iter().map(|c| (c.type_.as_str(), c.reason.as_str())).collect();
    assert_eq!(types, [("Paused", "NotPaused")]);
}

#[test]
fn machines_of_the_pool_are_counted_where_there_are_any() {
    let mut o = running();
    o.infrastructure =
        found("AnyMachinePool", json!({"ready": true, "infrastructureMachineKind": "AnyMachine"}));
    let machine = |name: &str, ready: &str| -> Machine {
        let said = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        object(
            json!({"metadata": {"name": name}, "spec": {"clusterName": "c", "version": "v1.35.0", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "i", "kind": "AnyMachine", "name": name}},
            "status": {"conditions": [said("Ready", ready), said("Available", "False"), said("UpToDate", "True")]}}),
        )
    };
    o.machines = vec![machine("a", "True"), machine("b", "False"), machine("c", "False")];
    o.machines[2].metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(Timestamp::default()));
    let status = status(&o, Timestamp::default());
    assert_eq!(
        [status.ready_replicas, status.available_replicas, status.up_to_date_replicas],
        [Some(1), Some(0), Some(2)]
    );
    assert_eq!((status.versions[0].version.as_str(), status.versions[0].replicas), ("v1.35.0", Some(3)));
}

#[test]
fn phases() {
    let with = |change: fn(&mut Observed)| {
        let mut o = running();
        change(&mut o);
        phase_of(&o)
    };
    assert_eq!(with(|_| {}), "Running");
    for (expected, change) in [
        (
            "Pending",
            (|o| *o = Observed { pool: pool(json!({}), json!({})), ..Observed::default() })
                as fn(&mut Observed),
        ),
        ("Provisioning", |o| {
            o.infrastructure = found("AnyMachinePool", json!({"ready": false}));
            o.nodes = None;
        }),
        // Without replicas there is nothing to look for.
        ("Provisioning", |o| o.infrastructure = found("AnyMachinePool", json!({"ready": false}))),
        ("Provisioned", |o| {
            o.pool = pool(json!({}), json!({"replicas": 2}));
            o.infrastructure = found("AnyMachinePool", json!({"ready": false}));
        }),
        ("ScalingUp", |o| o.pool.spec.replicas = Some(3)),
        ("ScalingDown", |o| o.pool.spec.replicas = Some(1)),
        ("Provisioned", |o| o.pool.spec.replicas = None),
        ("Scaling", |o| {
            o.pool.spec.replicas = Some(3);
            o.pool.metadata.annotations = Some([(REPLICAS_MANAGED_BY.to_owned(), "x".to_owned())].into());
        }),
        ("ScalingUp", |o| {
            o.pool.spec.replicas = Some(3);
            o.pool.metadata.annotations = Some([(REPLICAS_MANAGED_BY.to_owned(), "false".to_owned())].into());
        }),
        ("ScalingUp", |o| {
            if let Some(nodes) = &mut o.nodes {
                nodes[0] = node("n1", "x://1", "False");
            }
        }),
        ("Deleting", |o| {
            o.pool.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(Timestamp::default()));
        }),
    ] {
        assert_eq!(with(change), expected);
    }
}

#[test]
fn flags_turn_back_and_counters_of_what_was_not_read_stay() {
    let stored = json!({"readyReplicas": 7, "replicas": 7,
        "initialization": {"infrastructureProvisioned": true, "bootstrapDataSecretCreated": true}});
    let mut o = running();
    o.pool = pool(json!({}), stored);
    o.bootstrap = found("KubeadmConfig", json!({}));
    o.infrastructure = found("AnyMachinePool", json!({"initialization": {"provisioned": true}}));
    let after = status(&o, Timestamp::default());
    let flags = after.initialization.expect("flags");
    assert_eq!(
        (flags.infrastructure_provisioned, flags.bootstrap_data_secret_created),
        (Some(false), Some(false)),
        "a pool's infrastructure must say status.ready"
    );
    assert_eq!(after.replicas, Some(7), "not read before it is provisioned");
    o.infrastructure = External::NotFound { kind: "AnyMachinePool".to_owned() };
    let after = status(&o, Timestamp::default());
    assert_eq!(after.ready_replicas, Some(7));
    assert_eq!(after.initialization.and_then(|i| i.infrastructure_provisioned), Some(true));
    o.bootstrap = External::NotSet;
    o.pool = pool(
        json!({"template": {"spec": {"bootstrap": {"configRef": null, "dataSecretName": "s"}}}}),
        json!({}),
    );
    let after = status(&o, Timestamp::default());
    assert_eq!(after.initialization.and_then(|i| i.bootstrap_data_secret_created), Some(true));
}

/// Names of the referred Nodes, and the older counters: ready, available, unavailable.
fn seen(o: &Observed) -> (Vec<String>, [Option<i32>; 3]) {
    let status = status(o, Timestamp::default());
    let legacy = status.deprecated.unwrap_or_default().v1beta1.unwrap_or_default();
    let names = status.node_refs.into_iter().filter_map(|r| r.name).collect();
    (names, [legacy.ready_replicas, legacy.available_replicas, legacy.unavailable_replicas])
}

#[test]
fn nodes_follow_the_list_of_the_infrastructure() {
    let settled = || {
        let names = ["n1", "n2"].map(|n| json!({"name": n, "uid": n, "kind": "Node", "apiVersion": "v1"}));
        json!({"replicas": 2, "nodeRefs": names, "deprecated": {"v1beta1": {"readyReplicas": 2}}})
    };
    let ready = |ids: Value, replicas: i32| infrastructure(ids, json!({"ready": true, "replicas": replicas}));
    let counts = |ready, available, unavailable| [ready, available, unavailable].map(Some);
    for (why, ids, replicas, stored, names, counters) in [
        ("its Nodes", json!(["x://1", "x://2"]), 2, json!({}), &["n1", "n2"][..], counts(2, 2, 0)),
        ("another list", json!(["x://3"]), 3, json!({}), &["other"], counts(1, 1, 2)),
        ("no list though replicas", json!([]), 2, json!({}), &["n1", "n2"], counts(2, 2, 0)),
        ("no such Nodes", json!(["x://9"]), 1, settled(), &["n1", "n2"], counts(0, 0, 1)),
        ("settled", json!(["x://1", "x://2"]), 2, settled(), &["n1", "n2"], [Some(2), None, None]),
    ] {
        let mut o = running();
        o.pool = pool(json!({}), stored);
        o.infrastructure = ready(ids, replicas);
        let (found, legacy) = seen(&o);
        assert_eq!(found, names, "{why}");
        assert_eq!(legacy, counters, "{why}");
    }
}

#[test]
fn a_node_is_available_when_it_was_ready_for_longer() {
    for (wait_s, available) in [(0, 2), (59, 2), (60, 0)] {
        let mut o = running();
        o.pool.spec.template.spec.min_ready_seconds = Some(wait_s);
        assert_eq!(seen(&o).1[..2], [Some(2), Some(available)], "{wait_s}");
    }
}

#[test]
fn what_is_not_read_is_not_changed() {
    let stored = json!({"replicas": 5, "readyReplicas": 5, "versions": [{"version": "v1.0.0"}],
        "initialization": {"infrastructureProvisioned": false}});
    let mut o = running();
    o.pool = pool(json!({}), stored);
    o.nodes = None;
    let after = status(&o, Timestamp::default());
    assert_eq!(after.initialization.and_then(|i| i.infrastructure_provisioned), Some(true));
    assert_eq!((after.replicas, after.ready_replicas, after.versions.len()), (Some(5), Some(5), 0));
    o.nodes = running().nodes;
    o.pool.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(Timestamp::default()));
    let after = status(&o, Timestamp::default());
    assert_eq!(after.initialization.and_then(|i| i.infrastructure_provisioned), Some(false));
    assert_eq!((after.replicas, after.versions.len(), after.node_refs.len()), (Some(5), 1, 0));
}

#[test]
fn a_pass_is_complete_when_nothing_it_needed_was_missing() {
    let gone = || External::NotFound { kind: "Any".to_owned() };
    let after = |change: &dyn Fn(&mut Observed)| {
        let mut o = running();
        change(&mut o);
        is_complete(&o)
    };
    let delete = |o: &mut Observed| {
        o.pool = pool(json!({}), json!({"nodeRefs": [{"name": "n1"}]}));
        o.pool.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(Timestamp::default()));
    };
    assert!(after(&|_| {}));
    assert!(!after(&|o| o.nodes = None));
    assert!(!after(&|o| o.bootstrap = gone()));
    assert!(!after(&|o| o.infrastructure = gone()));
    let nameless = json!({"initialization": {"dataSecretCreated": true}});
    assert!(!after(&|o| o.bootstrap = found("KubeadmConfig", nameless.clone())));
    assert!(after(&|o| o.bootstrap = found("KubeadmConfig", json!({}))));
    assert!(!after(&|o| o.bootstrap = External::NotSet), "nor does the pool name a secret");
    assert!(after(&|o| {
        delete(o);
        o.nodes = None;
    }));
    assert!(!after(&|o| {
        delete(o);
        o.nodes = None;
        (o.bootstrap, o.infrastructure) = (gone(), gone());
    }));
}

#[test]
fn a_machine_of_a_pool_is_up_to_date_until_it_goes() {
    let mut machine = Machine::default();
    let expect = |machine: &Machine, expected: (&str, &str, &str)| {
        let condition = machine_up_to_date(machine);
        crate::status::tests::witness::expect_one("Machine by MachinePool", &condition, "UpToDate", expected);
    };
    expect(&machine, ("True", "UpToDate", ""));
    machine.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(Timestamp::default()));
    expect(&machine, ("False", "NotUpToDate", "Machine is being deleted"));
}
