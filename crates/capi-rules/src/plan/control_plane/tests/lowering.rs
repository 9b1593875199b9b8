//! What is written for each act, in order, and what its failure means.

use serde_json::{Value, json};

use super::super::{Act, Observed, Why, desired, lower};
use crate::plan::keys::KeyCall;
use crate::plan::{Step, WorkloadCall, Write};
use crate::status::conditions::setter::condition;
use crate::status::control_plane::fixtures;
use capi_types::key::ObjectKey;
use capi_types::names::annotation;
use capstan_base::time::to_k8s;

fn lowered(observed: &Observed, act: &Act) -> Step {
    lower::step(observed, act, Why::OwnerDeleting)
}

fn writes(observed: &Observed, act: &Act) -> Vec<String> {
    lowered(observed, act).writes.iter().map(ToString::to_string).collect()
}

/// The only write, a patch.
fn body(observed: &Observed, act: &Act) -> Value {
    match lowered(observed, act).writes.as_slice() {
        [Write::Patch { body, .. }] => body.clone(),
        other => unreachable!("a patch, not {other:?}"),
    }
}

fn new_machine(observed: &Observed, joins: bool) -> Act {
    Act::CreateMachine(Box::new(desired::new_machine(observed, None, joins).expect("a name")))
}

fn of_one(machine: &str) -> [Act; 2] {
    [Act::DeleteMachine { machine: machine.to_owned() }, Act::ReleaseMachine { machine: machine.to_owned() }]
}

#[test]
fn every_act_has_its_writes() {
    let mut o = fixtures::three();
    o.name_suffix = "aaaaa-----".to_owned();
    let cluster = o.cluster.metadata.name.clone().unwrap_or_default();
    let [delete, release] = of_one("m1");
    let mark = condition("OwnerRemediated", capi_types::condition::Status::False, "Why", "");
    let (mark, unmark) = (
        Act::MarkMachine { machine: "m1".to_owned(), condition: Box::new(mark) },
        Act::UnmarkMachine { machine: "m1".to_owned(), condition: "OwnerRemediated" },
    );
    let server = "https://h:6443".to_owned();
    for (act, expected) in [
        (delete, "delete Machine default/m1".to_owned()),
        (release, "patch Machine default/m1".to_owned()),
        (mark, "set OwnerRemediated=False/Why of Machine default/m1".to_owned()),
        (unmark, "clear OwnerRemediated of Machine default/m1".to_owned()),
        (
            Act::Annotate { key: "k", value: None },
            "patch KubeadmControlPlane default/prod-control-plane".to_owned(),
        ),
        (Act::RemoveFinalizer, "patch KubeadmControlPlane default/prod-control-plane".to_owned()),
        (
            Act::Keys(KeyCall::CreateKubeconfig { server: server.clone(), algorithm: String::new() }),
            format!("create the kubeconfig secret for {server} of Cluster default/{cluster}"),
        ),
        (
            Act::Workload(WorkloadCall::RemoveEtcdMember(fixtures::member(1, "node-m1"))),
            format!("remove etcd member node-m1 in Cluster default/{cluster}"),
        ),
    ] {
        assert_eq!(writes(&o, &act), [expected], "{act:?}");
    }
    let created = writes(&o, &new_machine(&o, true));
    let kinds: Vec<&str> = created.iter().filter_map(|write| write.split(' ').nth(1)).collect();
    assert_eq!(
        kinds,
        ["DevMachine", "over", "KubeadmConfig", "over", "Machine"],
        "what it refers to comes first"
    );
    assert!(created.iter().all(|write| write.ends_with("-aaaaa")));
}

#[test]
fn patches_name_only_what_changes() {
    let mut o = fixtures::three();
    let [_, release] = of_one("m1");
    let hook = json!({"metadata": {"annotations": {annotation::KCP_CLEANUP_HOOK: null}}});
    assert_eq!(body(&o, &release), hook);
    let note = Act::Annotate { key: "k", value: Some("v".to_owned()) };
    assert_eq!(body(&o, &note), json!({"metadata": {"annotations": {"k": "v"}}}));
    o.control_plane.metadata.resource_version = Some("7".to_owned());
    let released = body(&o, &Act::RemoveFinalizer);
    assert!(released["metadata"].get("resourceVersion").is_none(), "its last status is written just before");
    let mut orphan = o.machines.remove(0);
    orphan.machine.metadata.resource_version = Some("9".to_owned());
    orphan.machine.metadata.owner_references = None;
    o.orphans = vec![orphan];
    let adopted = &body(&o, &Act::Adopt { machine: "m1".to_owned() })["metadata"];
    assert!(adopted.get("resourceVersion").is_none(), "its status changes all the time");
    assert_eq!(adopted["ownerReferences"][0]["controller"], true);
    assert_eq!(adopted["ownerReferences"][0]["kind"], "KubeadmControlPlane");
}

#[test]
fn with_a_machine_go_the_secrets_that_its_configuration_made() {
    let mut o = fixtures::three();
    let mut orphan = o.machines.remove(0);
    orphan.machine.metadata.owner_references = None;
    let config = orphan.machine.spec.bootstrap.config_ref.clone().expect("a configuration").name;
    let data = orphan.machine.spec.bootstrap.data_secret_name.get_or_insert("data".to_owned()).clone();
    o.orphans = vec![orphan];
    let secret = |name: &str, kind: &str, owner: &str| {
        let api_version = "bootstrap.cluster.x-k8s.io/v1beta2";
        let owner =
            json!({"apiVersion": api_version, "kind": kind, "name": owner, "uid": "c", "controller": true});
        serde_json::from_value(json!({"name": name, "namespace": "default", "ownerReferences": [owner]}))
            .unwrap()
    };
    o.secrets = vec![
        secret("prod-ca", "KubeadmConfig", &config),
        secret("prod-sa", "KubeadmConfig", "of-another"),
        secret("prod-x", "Other", &config),
        secret(&data, "KubeadmConfig", &config),
    ];
    let act = Act::Adopt { machine: "m1".to_owned() };
    assert_eq!(writes(&o, &act), ["patch Secret default/prod-ca", "patch Machine default/m1"]);
    let Some(Write::Patch { body, .. }) = lowered(&o, &act).writes.into_iter().next() else {
        panic!("a patch")
    };
    let owners = &body["metadata"]["ownerReferences"];
    assert_eq!(
        (owners.as_array().map(Vec::len), &owners[0]["kind"]),
        (Some(1), &json!("KubeadmControlPlane"))
    );
}

#[test]
fn nothing_is_written_for_what_is_not_there_any_more() {
    let o = fixtures::three();
    for act in of_one("gone") {
        assert_eq!(writes(&o, &act), [""; 0], "{act:?}");
    }
    assert_eq!(writes(&o, &Act::Adopt { machine: "m1".to_owned() }), [""; 0], "it has a controller");
}

#[test]
fn failures_are_reported_undone_or_passed_over() {
    let mut o = fixtures::three();
    let [delete, release] = of_one("m1");
    let (first, joining) = (new_machine(&o, false), new_machine(&o, true));
    for (act, event, is_undone) in [
        (&first, Some("FailedInitialization"), true),
        (&joining, Some("FailedScaleUp"), true),
        (&delete, Some("FailedScaleDown"), false),
        (&release, None, false),
    ] {
        let on_failure = lowered(&o, act).on_failure;
        let reason = on_failure.event.map(|complaint| complaint.reason);
        assert_eq!(
            (reason, on_failure.is_undone, on_failure.is_independent),
            (event, is_undone, false),
            "{act:?}"
        );
    }
    o.control_plane.metadata.deletion_timestamp = Some(to_k8s(fixtures::now()));
    let on_failure = lowered(&o, &delete).on_failure;
    let complaint = on_failure.event.expect("an event");
    assert_eq!(complaint.reason, "FailedDelete");
    assert_eq!(
        complaint.tried,
        format!(
            "Failed to delete control plane Machines for cluster {} control plane",
            ObjectKey::of(&o.cluster)
        )
    );
    assert!(on_failure.is_independent, "a deletion goes on with the other Machines");
}
