//! Rows that the stories of `tests` do not meet: every reason a Machine's conditions can have.

use super::*;
use crate::status::conditions::setter::CHECK_LOGS;
use crate::status::drain::Evicted;
use crate::status::tests::witness;
use capi_types::key::ObjectKey;

#[track_caller]
fn check(change: impl FnOnce(&mut Observed), type_: &str, expected: (&str, &str, &str)) {
    let mut o = running();
    change(&mut o);
    witness::expect("Machine", &status(&o, now()).conditions, type_, expected);
}

fn goes(o: &mut Observed) {
    o.machine.metadata.deletion_timestamp = Some(to_k8s(now()));
    (o.tenants, o.storage) = (tenants(Vec::new()), no_storage());
}

fn created(o: &mut Observed, bootstrap: bool, infrastructure: bool) {
    let flag = |value: bool| value.then_some(true);
    let flags = MachineInitialization {
        bootstrap_data_secret_created: flag(bootstrap),
        infrastructure_provisioned: flag(infrastructure),
    };
    o.machine.status.get_or_insert_default().initialization = Some(flags);
}

fn not_found(kind: &str) -> External {
    External::NotFound { kind: kind.to_owned() }
}

fn unreadable(kind: &str) -> External {
    External::Unreadable { kind: kind.to_owned(), error: "refused".to_owned() }
}

#[test]
fn bootstrap_config_ready() {
    const TYPE: &str = "BootstrapConfigReady";
    let unknown = ("Unknown", "InternalError", CHECK_LOGS);
    let missing = ("False", "ObjectDoesNotExist", "KubeadmConfig does not exist");
    check(|o| o.machine.spec.bootstrap.config_ref = None, TYPE, ("True", "DataSecretProvided", ""));
    check(|o| o.bootstrap = unreadable("KubeadmConfig"), TYPE, unknown);
    check(
        |o| {
            o.bootstrap = external(
                "KubeadmConfig",
                json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "m"}),
                json!({}),
            );
        },
        TYPE,
        ("True", "Ready", ""),
    );
    check(
        |o| {
            o.machine.spec.bootstrap.data_secret_name = None;
            o.bootstrap = external("KubeadmConfig", json!({}), json!({}));
        },
        TYPE,
        ("False", "NotReady", "KubeadmConfig status.initialization.dataSecretCreated is false"),
    );
    check(
        |o| {
            o.bootstrap =
                external("KubeadmConfig", json!({"conditions": [{"type": "", "status": "True"}]}), json!({}));
        },
        TYPE,
        (
            "Unknown",
            "InvalidConditionReported",
            "failed to convert status.conditions from KubeadmConfig to []metav1.Condition: type must be set for all \
             conditions",
        ),
    );
    let mute = json!({"conditions": [{"type": "Ready", "status": "False", "message": "m"}]});
    check(
        |o| o.bootstrap = external("KubeadmConfig", mute, json!({})),
        TYPE,
        ("False", "NoReasonReported", "m"),
    );
    for (deleting, existed, expected) in [
        (false, false, missing),
        (false, true, missing),
        (true, false, missing),
        (true, true, ("False", "ObjectDeleted", "KubeadmConfig has been deleted")),
    ] {
        check(
            |o| {
                o.machine.spec.bootstrap.data_secret_name = None;
                created(o, existed, true);
                if deleting {
                    goes(o);
                }
                o.bootstrap = not_found("KubeadmConfig");
            },
            TYPE,
            expected,
        );
    }
}

#[test]
fn infrastructure_ready() {
    const TYPE: &str = "InfrastructureReady";
    check(|o| o.infrastructure = unreadable("DevMachine"), TYPE, ("Unknown", "InternalError", CHECK_LOGS));
    check(|_| {}, TYPE, ("True", "Ready", ""));
    let says =
        |status: Value| move |o: &mut Observed| o.infrastructure = external("DevMachine", status, json!({}));
    let waiting = "DevMachine status.initialization.provisioned is false";
    check(says(json!({})), TYPE, ("False", "NotReady", waiting));
    let mute = json!({"conditions": [{"type": "Ready", "status": "False", "message": "m"}]});
    check(says(mute), TYPE, ("False", "NoReasonReported", "m"));
    let broken = "failed to convert status.conditions from DevMachine to []metav1.Condition: type must be set for all \
                  conditions";
    let odd = json!({"conditions": [{"type": "", "status": "True"}]});
    check(says(odd), TYPE, ("Unknown", "InvalidConditionReported", broken));
    let missing = ("False", "ObjectDoesNotExist", "DevMachine does not exist");
    for (deleting, existed, expected) in [
        (false, false, missing),
        (true, false, missing),
        (true, true, ("False", "ObjectDeleted", "DevMachine has been deleted")),
        (
            false,
            true,
            ("False", "ObjectDeleted", "DevMachine has been deleted while the Machine still exists"),
        ),
    ] {
        check(
            |o| {
                created(o, true, existed);
                if deleting {
                    goes(o);
                }
                o.infrastructure = not_found("DevMachine");
            },
            TYPE,
            expected,
        );
    }
}

#[test]
fn node_ready() {
    const TYPE: &str = "NodeReady";
    let with = |conditions: &'static [(&'static str, &'static str, &'static str)]| {
        move |o: &mut Observed| o.node = NodeReading::Found(Arc::new(node(conditions)))
    };
    check(with(&[("Ready", "True", "words")]), TYPE, ("True", "NodeReady", ""));
    check(with(&[("Ready", "False", "words")]), TYPE, ("False", "NodeNotReady", "* Node.Ready: words"));
    check(with(&[("Ready", "False", "")]), TYPE, ("False", "NodeNotReady", ""));
    check(
        with(&[("Ready", "Unknown", "words")]),
        TYPE,
        ("Unknown", "NodeReadyUnknown", "* Node.Ready: words"),
    );
    check(with(&[]), TYPE, ("Unknown", "NodeReadyUnknown", "* Node.Ready: Condition not yet reported"));
    check(
        with(&[("Ready", "True", ""), ("Ready", "False", "the last one counts")]),
        TYPE,
        ("False", "NodeNotReady", "* Node.Ready: the last one counts"),
    );
    check(|_| {}, "NodeHealthy", ("True", "NodeHealthy", ""));
    check(
        with(&[
            ("Ready", "False", "cni"),
            ("MemoryPressure", "False", ""),
            ("DiskPressure", "False", ""),
            ("PIDPressure", "False", ""),
        ]),
        "NodeHealthy",
        ("False", "NodeNotHealthy", "* Node.Ready: cni"),
    );
    check(
        with(&[("Ready", "True", ""), ("MemoryPressure", "False", ""), ("DiskPressure", "False", "")]),
        "NodeHealthy",
        ("Unknown", "NodeHealthyUnknown", "* Node.PIDPressure: Condition not yet reported"),
    );
}

#[test]
fn without_a_node_both_conditions_say_the_same() {
    for type_ in ["NodeReady", "NodeHealthy"] {
        without_a_node(type_);
    }
}

fn without_a_node(type_: &str) {
    check(
        |o| o.node = NodeReading::Failed("two".to_owned()),
        type_,
        ("Unknown", "InternalError", CHECK_LOGS),
    );
    let waiting = "Waiting for Cluster status.initialization.infrastructureProvisioned to be true";
    check(|o| Arc::make_mut(&mut o.cluster).status = None, type_, ("Unknown", "InspectionFailed", waiting));
    check(
        |o| {
            o.node = NodeReading::NotConnected;
            o.probe.last_success = Some(now() - TimeDelta::seconds(30));
        },
        type_,
        ("Unknown", "ConnectionDown", "Last successful probe at 2026-01-01T11:59:30Z"),
    );
    let named = |o: &mut Observed| {
        o.machine.status.get_or_insert_default().node_ref = Some(NodeRef { name: "n".to_owned() });
        o.node = NodeReading::NotFound;
    };
    check(named, type_, ("False", "NodeDeleted", "Node n has been deleted while the Machine still exists"));
    check(
        |o| {
            named(o);
            goes(o);
        },
        type_,
        ("False", "NodeDeleted", "Node n has been deleted"),
    );
    check(
        |o| {
            goes(o);
            o.node = NodeReading::NotFound;
        },
        type_,
        ("Unknown", "NodeDoesNotExist", "Node does not exist"),
    );
    // It is there, but only the deletion looks for it.
    check(
        |o| {
            goes(o);
            o.machine.spec.provider_id = None;
            (o.named_node, o.node) = (std::mem::take(&mut o.node), NodeReading::NotAsked);
        },
        type_,
        ("False", "NodeDeleted", "Node m has been deleted"),
    );
}

#[test]
fn updating_and_what_follows_from_it() {
    let progress = annotation::UPDATE_IN_PROGRESS;
    let with = |update: Option<Update>| {
        move |o: &mut Observed| {
            annotate(o, progress);
            o.update = update;
        }
    };
    let running = "In-place update in progress";
    for (update, reason, message) in [
        (None, "InPlaceUpdating", running),
        (Some(Update::Running(String::new())), "InPlaceUpdating", running),
        (
            Some(Update::Running("step 1".to_owned())),
            "InPlaceUpdating",
            "In-place update in progress: step 1",
        ),
        (
            Some(Update::InfrastructureMissing),
            "InPlaceUpdateFailed",
            "In-place update not possible: InfraMachine not found",
        ),
        (
            Some(Update::Failed),
            "InPlaceUpdateFailed",
            "UpdateMachine hook failed: please check controller logs for errors",
        ),
    ] {
        check(with(update), "Updating", ("True", reason, message));
    }
    check(with(None), "Ready", ("False", "NotReady", "* Updating: In-place update in progress"));
    let mut o = super::running();
    let hooks = &mut o.machine.metadata.annotations.get_or_insert_default();
    hooks.insert(annotation::PENDING_HOOKS.to_owned(), "Other, UpdateMachine".to_owned());
    let status = status(&o, now());
    assert_eq!(said(&status, "Updating").1, "InPlaceUpdating");
    assert_eq!(status.phase.as_deref(), Some("Updating"));
}

#[test]
fn up_to_date_of_a_worker_that_is_updated_in_place() {
    let owner = json!({"metadata": {"name": "md", "creationTimestamp": "2026-01-01T10:00:00Z"},
        "spec": {"clusterName": "c", "selector": {}, "template": {"spec": {"clusterName": "c", "version": "v1.34.1",
            "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "t"}}}}});
    let with = |after: Option<&str>| {
        let mut deployment = owner.clone();
        deployment["spec"]["rollout"] = json!({ "after": after });
        (object(owner.clone()), object(deployment))
    };
    check(
        |o| {
            o.deployment = Some(with(None));
            annotate(o, annotation::UPDATE_IN_PROGRESS);
            o.update = Some(Update::Running("one\ntwo".to_owned()));
        },
        "UpToDate",
        ("False", "Updating", "* In-place update in progress: one\ntwo"),
    );
    let expired = ("False", "NotUpToDate", "* MachineDeployment spec.rolloutAfter expired");
    for (after, expected) in [
        ("2026-01-01T11:59:59Z", expired),
        ("2026-01-01T12:00:00Z", ("True", "UpToDate", "")),
        ("2026-01-01T10:00:00Z", ("True", "UpToDate", "")),
    ] {
        check(|o| o.deployment = Some(with(Some(after))), "UpToDate", expected);
    }
}

fn recorded(o: &mut Observed) {
    o.machine.status.get_or_insert_default().node_ref = Some(NodeRef { name: "m".to_owned() });
}

/// One pod on its way out, and then this.
fn change_tenants(o: &mut Observed, change: fn(&mut Tenants)) {
    o.evictions = Evictions::from([(ObjectKey::new("d", "p"), Evicted::Started)]);
    o.tenants = tenants(vec![object(json!({"metadata": {"namespace": "d", "name": "p"}}))]);
    if let TenantsReading::Known(tenants) = &mut o.tenants {
        change(tenants);
    }
}

#[test]
fn deleting_at_every_step() {
    const TYPE: &str = "Deleting";
    check(|_| {}, TYPE, ("False", "NotDeleting", ""));
    let step = |change: fn(&mut Observed), reason: &str, message: &str| {
        check(
            |o| {
                goes(o);
                change(o);
            },
            TYPE,
            ("True", reason, message),
        );
    };
    step(|o| o.control_plane = unreadable("X"), "InternalError", CHECK_LOGS);
    step(
        |o| {
            annotate(o, "pre-drain.delete.hook.machine.cluster.x-k8s.io/b");
            annotate(o, "pre-drain.delete.hook.machine.cluster.x-k8s.io/a");
        },
        "WaitingForPreDrainHook",
        "Waiting for pre-drain hooks to succeed (hooks: pre-drain.delete.hook.machine.cluster.x-k8s.io/a,\
         pre-drain.delete.hook.machine.cluster.x-k8s.io/b)",
    );
    step(|o| o.failed = Some(Failed::RecordDrainStart), "InternalError", CHECK_LOGS);
    step(
        |o| o.tenants = TenantsReading::NotAsked,
        "DrainingNode",
        "Drain not completed yet (started at 2026-01-01T12:00:00Z):",
    );
    let cannot_drain: [fn(&mut Observed); 7] = [
        |o| o.tenants = TenantsReading::Failed("refused".to_owned()),
        |o| o.failed = Some(Failed::Cordon),
        |o| {
            recorded(o);
            o.node = NodeReading::NotConnected;
        },
        |o| {
            recorded(o);
            o.node = NodeReading::Failed("two".to_owned());
        },
        |o| o.named_node = NodeReading::NotConnected,
        |o| change_tenants(o, |t| t.rules = Err("refused".to_owned())),
        |o| change_tenants(o, |t| t.namespaces = Ok(BTreeMap::new())),
    ];
    for change in cannot_drain {
        step(change, "DrainingNode", "Error draining Node, please check controller logs for errors");
    }
    step(
        |o| change_tenants(o, |_| ()),
        "DrainingNode",
        "Drain not completed yet (started at 2026-01-01T12:00:00Z):\n\
         * Pod d/p: deletionTimestamp set, but still not removed from the Node",
    );
    step(
        |o| {
            change_tenants(o, |_| ());
            annotate(o, annotation::EXCLUDE_NODE_DRAINING);
        },
        "WaitingForInfrastructureDeletion",
        "Waiting for DevMachine to be deleted",
    );
    step(
        |o| o.storage = StorageReading::NotAsked,
        "WaitingForVolumeDetach",
        "Waiting for Node volumes to be detached (started at 2026-01-01T12:00:00Z)",
    );
    step(
        |o| {
            let storage = Storage { attachments: Err("refused".to_owned()), volumes: Ok(Vec::new()) };
            o.storage = StorageReading::Known(Box::new(storage));
        },
        "WaitingForVolumeDetach",
        "Error waiting for volumes to be detached from Node, please check controller logs for errors",
    );
    step(
        |o| {
            let mut node = node(&[("Ready", "True", "")]);
            let attached = json!([{"name": "v2", "devicePath": ""}, {"name": "v1", "devicePath": ""}]);
            node.status.get_or_insert_default().volumes_attached = Some(object(attached));
            o.node = NodeReading::Found(Arc::new(node));
        },
        "WaitingForVolumeDetach",
        "Waiting for Node volumes to be detached (started at 2026-01-01T12:00:00Z)\n\
         * Node with .status.volumesAttached entries not matching a PersistentVolume: v1, v2",
    );
    step(
        |o| {
            o.named_node = NodeReading::NotConnected;
            annotate(o, annotation::EXCLUDE_NODE_DRAINING);
        },
        "WaitingForVolumeDetach",
        "Error waiting for volumes to be detached from Node, please check controller logs for errors",
    );
    step(
        |o| annotate(o, "pre-terminate.delete.hook.machine.cluster.x-k8s.io/a"),
        "WaitingForPreTerminateHook",
        "Waiting for pre-terminate hooks to succeed (hooks: pre-terminate.delete.hook.machine.cluster.x-k8s.io/a)",
    );
    step(|_| {}, "WaitingForInfrastructureDeletion", "Waiting for DevMachine to be deleted");
    step(
        |o| o.infrastructure = unreadable("DevMachine"),
        "WaitingForInfrastructureDeletion",
        "Waiting for DevMachine to be deleted",
    );
    step(
        |o| o.failed = Some(Failed::DeleteInfrastructure),
        "InternalError",
        "Failed to delete DevMachine, please check controller logs for errors",
    );
    step(
        |o| o.infrastructure = not_found("DevMachine"),
        "WaitingForBootstrapDeletion",
        "Waiting for KubeadmConfig to be deleted",
    );
    step(
        |o| {
            o.infrastructure = not_found("DevMachine");
            o.failed = Some(Failed::DeleteBootstrap);
        },
        "InternalError",
        "Failed to delete KubeadmConfig, please check controller logs for errors",
    );
    let resists: [fn(&mut Observed); 2] = [node_cannot_be_deleted, |o| {
        node_cannot_be_deleted(o);
        (o.failed, o.named_node) = (None, NodeReading::NotConnected);
    }];
    for change in resists {
        step(change, "DeletingNode", "Error deleting Node, please check controller logs for errors");
    }
    step(
        |o| {
            node_cannot_be_deleted(o);
            o.machine.metadata.deletion_timestamp = Some(to_k8s(now() - TimeDelta::seconds(10)));
            o.machine.spec.deletion = Some(object(json!({"nodeDeletionTimeoutSeconds": 10})));
        },
        "DeletionCompleted",
        "Deletion completed",
    );
}

fn node_cannot_be_deleted(o: &mut Observed) {
    o.infrastructure = not_found("DevMachine");
    o.bootstrap = not_found("KubeadmConfig");
    o.failed = Some(Failed::DeleteNode);
}

#[test]
fn gates_take_part_with_their_polarity() {
    let gates = json!([{"conditionType": "Fine"}, {"conditionType": "Broken", "polarity": "Negative"}]);
    let with = |fine: &'static str, broken: &'static str| {
        let gates = gates.clone();
        move |o: &mut Observed| {
            o.machine.spec.readiness_gates = object(gates);
            let said = |type_: &str, status: &str| -> Condition {
                object(
                    json!({"type": type_, "status": status, "reason": "Why", "message": "", "lastTransitionTime": "2026-01-01T11:00:00Z"}),
                )
            };
            *o.machine.conditions_mut() = vec![said("Broken", broken)];
            if !fine.is_empty() {
                o.machine.conditions_mut().push(said("Fine", fine));
            }
        }
    };
    check(with("True", "False"), "Ready", ("True", "Ready", ""));
    check(with("True", "True"), "Ready", ("False", "NotReady", "* Broken: Why"));
    check(with("", "False"), "Ready", ("Unknown", "ReadyUnknown", "* Fine: Condition not yet reported"));
    check(
        with("", "True"),
        "Ready",
        ("False", "NotReady", "* Fine: Condition not yet reported\n* Broken: Why"),
    );
    check(with("Perhaps", "False"), "Ready", ("Unknown", "ReadyUnknown", "* Fine: Why"));
    check(
        |o| o.machine.spec.readiness_gates = object(json!([{"conditionType": "Ready"}])),
        "Ready",
        ("Unknown", "InternalError", CHECK_LOGS),
    );
}

#[test]
fn an_info_condition_with_a_message_shows_in_a_ready_machine() {
    check(
        |o| {
            let ready = json!({"type": "Ready", "status": "True", "reason": "Up", "message": "on host 7"});
            o.infrastructure = external(
                "DevMachine",
                json!({"initialization": {"provisioned": true}, "conditions": [ready]}),
                json!({"providerID": "in-memory://m"}),
            );
        },
        "Ready",
        ("True", "Ready", "* InfrastructureReady: on host 7"),
    );
}

#[test]
fn a_failed_health_check_makes_a_machine_not_ready() {
    let checked = |status: &'static str| {
        move |o: &mut Observed| {
            *o.machine.conditions_mut() = vec![object(
                json!({"type": "HealthCheckSucceeded", "status": status,
                "reason": "UnhealthyNode", "message": "Health check failed:\n  * away", "lastTransitionTime": "2026-01-01T11:00:00Z"}),
            )];
        }
    };
    check(
        checked("False"),
        "Ready",
        ("False", "NotReady", "* HealthCheckSucceeded:\n  * Health check failed:\n      * away"),
    );
}

#[test]
fn available_and_the_rest_of_a_machine_at_rest() {
    check(|_| {}, "Available", ("True", "Available", ""));
    check(|o| annotate(o, annotation::UPDATE_IN_PROGRESS), "Available", ("False", "NotReady", ""));
    check(
        |o| o.machine.spec.min_ready_seconds = Some(30),
        "Available",
        ("False", "WaitingForMinReadySeconds", ""),
    );
    check(|_| {}, "Updating", ("False", "NotUpdating", ""));
    check(|_| {}, "Paused", ("False", "NotPaused", ""));
}
