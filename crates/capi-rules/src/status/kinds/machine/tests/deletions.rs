//! Whatever can be read of a Machine on its way out: nothing panics, and judging twice changes nothing.

use proptest::prelude::*;

use super::*;
use crate::status::drain::Evicted;
use capi_types::key::ObjectKey;

fn some_node() -> impl Strategy<Value = NodeReading> {
    let found = |ready: &str, volumes: bool| {
        let mut found = node(&[("Ready", ready, "")]);
        if volumes {
            let list = json!([{"name": "v", "devicePath": ""}]);
            found.status.get_or_insert_default().volumes_attached = Some(object(list));
        }
        NodeReading::Found(Arc::new(found))
    };
    prop_oneof![
        Just(NodeReading::NotAsked),
        Just(NodeReading::NotFound),
        Just(NodeReading::NotConnected),
        Just(NodeReading::Failed("two".to_owned())),
        Just(found("True", true)),
        Just(found("True", false)),
        Just(found("Unknown", true)),
    ]
}

fn some_tenants() -> impl Strategy<Value = TenantsReading> {
    let known = |pods: Value| tenants(object(pods));
    prop_oneof![
        Just(TenantsReading::NotAsked),
        Just(TenantsReading::Failed("refused".to_owned())),
        Just(known(json!([]))),
        Just(known(json!([{"metadata": {"namespace": "d", "name": "p"}}]))),
    ]
}

fn some_storage() -> impl Strategy<Value = StorageReading> {
    let refused = Storage { attachments: Err("refused".to_owned()), volumes: Err("refused".to_owned()) };
    prop_oneof![
        Just(StorageReading::NotAsked),
        Just(no_storage()),
        Just(StorageReading::Known(Box::new(refused)))
    ]
}

fn some_external(kind: &'static str) -> impl Strategy<Value = External> {
    prop_oneof![
        Just(external(kind, json!({}), json!({}))),
        Just(External::NotFound { kind: kind.to_owned() }),
        Just(External::Unreadable { kind: kind.to_owned(), error: "refused".to_owned() }),
        Just(External::NotSet),
    ]
}

fn some_failure() -> impl Strategy<Value = Option<Failed>> {
    prop_oneof![
        4 => Just(None),
        1 => Just(Some(Failed::RecordDrainStart)),
        1 => Just(Some(Failed::Cordon)),
        1 => Just(Some(Failed::DeleteInfrastructure)),
        1 => Just(Some(Failed::DeleteNode)),
    ]
}

proptest! {
    #[test]
    fn judging_a_deletion_twice_changes_nothing(
        nodes in (some_node(), some_node()),
        tenants in some_tenants(),
        storage in some_storage(),
        providers in (some_external("DevMachine"), some_external("KubeadmConfig"), some_external("XControlPlane")),
        failed in some_failure(),
        evicted in any::<Option<bool>>(),
        hooks in (any::<bool>(), any::<bool>()),
        limit_s in prop::option::of(-1..3_i32),
        later_s in 0..4_i64,
    ) {
        let mut o = deleting();
        (o.node, o.named_node, o.tenants, o.storage, o.failed) = (nodes.0, nodes.1, tenants, storage, failed);
        (o.infrastructure, o.bootstrap, o.control_plane) = providers;
        o.machine.status.get_or_insert_default().node_ref = Some(NodeRef { name: "m".to_owned() });
        let outcome = |gone: bool| if gone { Evicted::Gone } else { Evicted::Refused("no".to_owned()) };
        o.evictions = evicted.map(|gone| (ObjectKey::new("d", "p"), outcome(gone))).into_iter().collect();
        for (set, prefix) in [(hooks.0, "pre-drain"), (hooks.1, "pre-terminate")] {
            if set {
                let key = format!("{prefix}.delete.hook.machine.cluster.x-k8s.io/x");
                o.machine.metadata.annotations.get_or_insert_default().insert(key, String::new());
            }
        }
        o.machine.spec.deletion = Some(object(json!({"nodeDrainTimeoutSeconds": limit_s,
            "nodeVolumeDetachTimeoutSeconds": limit_s, "nodeDeletionTimeoutSeconds": limit_s})));
        let first = status(&o, now());
        prop_assert_eq!(said(&first, "Deleting").0, "True");
        o.machine.status = Some(first.clone());
        let again = status(&o, now());
        let waits = said(&again, "Deleting").1 == "WaitingForPreTerminateHook";
        prop_assert!(waits || again == first, "{:?} {:?}", said(&first, "Deleting"), said(&again, "Deleting"));
        let later = status(&o, now() + TimeDelta::seconds(later_s));
        prop_assert_eq!(said(&later, "Deleting").0, "True");
    }
}
