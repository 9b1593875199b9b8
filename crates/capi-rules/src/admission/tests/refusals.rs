//! The sentences of refusals, what may be scaled and deleted, and what switches rules off.

use super::*;

/// Rules that are not about writing an object.
pub const IDS: [&str; 5] = ["SC-1", "SC-2", "CC-24", "DE-1", "DE-2"];

#[test]
fn refusals_are_those_of_webhooks() {
    let mut plane = good("KubeadmControlPlane");
    plane["spec"]["replicas"] = json!(2);
    let refusal = checked(&request("KubeadmControlPlane", None), &plane, &[]).expect_err("even");
    assert_eq!(
        refusal,
        Refusal {
            webhook: "validation.kubeadmcontrolplane.controlplane.cluster.x-k8s.io".to_owned(),
            why: RefusalReason::Invalid {
                group: "cluster.x-k8s.io",
                kind: "KubeadmControlPlane".to_owned(),
                name: "it".to_owned(),
                causes: vec![Cause::forbidden(
                    "spec.replicas",
                    "cannot be an even number when etcd is stacked"
                )],
            },
        }
    );
    let old = good("IPAddressClaim");
    let mut claim = old.clone();
    claim["spec"] = json!({});
    let refusal = checked(&request("IPAddressClaim", Some(&old)), &claim, &[]).expect_err("fixed");
    let why = "spec: Forbidden: IPAddressClaim spec is immutable. Diff: - poolRef: \
               {\"apiGroup\":\"g\",\"kind\":\"k\",\"name\":\"pool\"}";
    assert_eq!(refusal, denied("validation.ipaddressclaim.ipam.cluster.x-k8s.io", why));
}

fn denied(webhook: &str, why: &str) -> Refusal {
    Refusal { webhook: webhook.to_owned(), why: RefusalReason::Denied(why.to_owned()) }
}

/// DE-1, DE-2.
#[test]
fn what_cannot_be_defaulted_is_refused() {
    let (min, max) = (annotation::AUTOSCALER_MIN_SIZE, annotation::AUTOSCALER_MAX_SIZE);
    for (size, why) in [("x", "invalid syntax"), ("9999999999", "value out of range")] {
        let mut set = json!({"metadata": {"annotations": {min: size, max: "5"}}, "spec": {}});
        let refusal = Webhooks.mutate(&request("MachineSet", None), &mut set).expect_err("no number");
        let why = format!(
            "failed to caculate MachineSet replicas value: could not parse the value of the \"{min}\" annotation: \
             strconv.ParseInt: parsing \"{size}\": {why}"
        );
        assert_eq!(refusal, denied("default.machineset.cluster.x-k8s.io", &why));
    }
    let mut cluster = json!({"metadata": {"name": "c"}, "spec": {"topology": {"version": "v1"}}});
    let refusal = Webhooks.mutate(&request("Cluster", None), &mut cluster).expect_err("no class");
    assert_eq!(
        refusal,
        Refusal {
            webhook: "default.cluster.cluster.x-k8s.io".to_owned(),
            why: RefusalReason::Invalid {
                group: "cluster.x-k8s.io",
                kind: "Cluster".to_owned(),
                name: "c".to_owned(),
                causes: vec![Cause::required("spec.topology.classRef.name", "cannot be empty")],
            },
        }
    );
}

/// SC-1, SC-2.
#[test]
fn control_planes_are_scaled_to_odd_numbers_unless_etcd_is_elsewhere() {
    let stacked = good("KubeadmControlPlane");
    let external = patched(
        "KubeadmControlPlane",
        &json!({"spec": {"kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {
            "local": null, "external": {"endpoints": ["x"]},
        }}}}}),
    );
    let none = "replicas should be greater than zero";
    let even = "replicas cannot be an even number when etcd is stacked";
    for (plane, replicas, why) in [
        (&stacked, 1, None),
        (&stacked, 5, None),
        (&stacked, 0, Some(none)),
        (&stacked, 2, Some(even)),
        (&external, 2, None),
        (&external, 0, Some(none)),
    ] {
        let found = Webhooks.check_scale(CONTROL_PLANE_GROUP, "KubeadmControlPlane", plane, replicas);
        let webhook = "validation-scale.kubeadmcontrolplane.controlplane.cluster.x-k8s.io";
        assert_eq!(found.err(), why.map(|why| denied(webhook, why)), "{replicas}");
    }
    assert_eq!(Webhooks.check_scale(CORE_GROUP, "MachineDeployment", &json!({}), 2), Ok(()));
}

/// CC-24.
#[test]
fn a_class_stays_while_clusters_use_it() {
    let class = good("ClusterClass");
    let cluster = |namespace: &str, name: &str| {
        patched(
            "Cluster",
            &json!({
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"topology": {"classRef": {"namespace": "ns"}}},
            }),
        )
    };
    let refused = |clusters: &[Value]| {
        let known = known(Webhooks.needs_for_delete(CORE_GROUP, "ClusterClass"), clusters);
        Webhooks.check_delete(CORE_GROUP, "ClusterClass", &class, &known).err()
    };
    let used_by = |clusters: &str| Refusal {
        webhook: "validation.clusterclass.cluster.x-k8s.io".to_owned(),
        why: RefusalReason::Forbidden {
            group: CORE_GROUP.to_owned(),
            kind: "ClusterClass".to_owned(),
            name: "it".to_owned(),
            why: format!("ClusterClass cannot be deleted because it is used by Cluster(s): {clusters}"),
        },
    };
    assert_eq!(refused(&[]), None);
    let elsewhere = patched("Cluster", &json!({"metadata": {"namespace": "other"}}));
    assert_eq!(refused(&[elsewhere]), None);
    assert_eq!(refused(&[cluster("a", "b")]), Some(used_by("a/b")));
    let many: Vec<Value> = ["a", "b", "c", "d", "e"].map(|name| cluster("n", name)).into();
    assert_eq!(refused(&many), Some(used_by("n/a, n/b, n/c, ... (2 more)")));
    assert_eq!(Webhooks.check_delete(CORE_GROUP, "Cluster", &cluster("a", "b"), &Known::default()), Ok(()));
}

#[test]
fn objects_being_deleted_pass() {
    let old = good("MachineDeployment");
    let mut new = patched("MachineDeployment", &json!({"spec": {"clusterName": "d"}}));
    assert!(!complaints(&request("MachineDeployment", Some(&old)), &new, &[]).is_empty());
    new["metadata"]["deletionTimestamp"] = json!("2026-11-20T10:00:00Z");
    assert_eq!(complaints(&request("MachineDeployment", Some(&old)), &new, &[]), Vec::<String>::new());
}

#[test]
fn annotations_switch_rules_off() {
    let skip = json!({"metadata": {"annotations": {annotation::SKIP_COREDNS: ""}}});
    let down =
        json!({"spec": {"kubeadmConfigSpec": {"clusterConfiguration": {"dns": {"imageTag": "v1.9.3"}}}}});
    let old = good("KubeadmControlPlane");
    let mut new = patched("KubeadmControlPlane", &down);
    assert_eq!(complaints(&request("KubeadmControlPlane", Some(&old)), &new, &[]).len(), 1);
    json_patch::merge(&mut new, &skip);
    assert_eq!(complaints(&request("KubeadmControlPlane", Some(&old)), &new, &[]), Vec::<String>::new());

    for kind in ["DevMachineTemplate", "DockerMachineTemplate"] {
        let old = good(kind);
        let changed = json!({
            "metadata": {"annotations": {annotation::TOPOLOGY_DRY_RUN: ""}},
            "spec": {"template": {"spec": {"customImage": "j"}}},
        });
        let new = patched(kind, &changed);
        for (dry_run, refused) in [(true, 0), (false, 1)] {
            let request = Request { dry_run, ..request(kind, Some(&old)) };
            assert_eq!(complaints(&request, &new, &[]).len(), refused, "{kind} {dry_run}");
        }
    }
}

#[test]
fn machines_of_pools_and_control_planes_are_other_machines() {
    for pool in [
        json!({"metadata": {"labels": {"cluster.x-k8s.io/pool-name": "p"}}, "spec": {"bootstrap": null}}),
        json!({"metadata": {"ownerReferences": [{"kind": "MachinePool"}]}, "spec": {"bootstrap": null}}),
        json!({
            "metadata": {"labels": {"cluster.x-k8s.io/control-plane": ""}},
            "spec": {"taints": [{"key": "node-role.kubernetes.io/control-plane"}]},
        }),
        json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service"}]}}),
    ] {
        let machine = patched("Machine", &pool);
        assert_eq!(complaints(&request("Machine", None), &machine, &[]), Vec::<String>::new(), "{pool}");
    }
}

#[test]
fn control_planes_may_change_most_things() {
    let old = good("KubeadmControlPlane");
    for patch in [
        json!({"spec": {"version": "v1.35.1"}}),
        json!({"spec": {"version": "v1.33.0"}}),
        json!({"spec": {"rollout": {"after": "2026-11-20T10:00:00Z"}}}),
        json!({"spec": {"remediation": {"maxRetry": 1}}}),
        json!({"spec": {"machineNaming": {"template": "a-{{ .random }}"}}}),
        json!({"spec": {"kubeadmConfigSpec": {"files": [{"path": "/a"}], "verbosity": 1, "format": "cloud-config"}}}),
        json!({"spec": {"kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"local": {"imageTag": "1"}}}}}}),
        json!({"spec": {"kubeadmConfigSpec": {"clusterConfiguration": {"dns": {"imageTag": "v1.12.0_b"}}}}}),
        json!({"spec": {"kubeadmConfigSpec": {"joinConfiguration": {"nodeRegistration": {"name": "x"}}}}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
    ] {
        let new = patched("KubeadmControlPlane", &patch);
        assert_eq!(
            complaints(&request("KubeadmControlPlane", Some(&old)), &new, &[]),
            Vec::<String>::new(),
            "{patch}"
        );
    }
}

#[test]
fn a_template_from_before_lost_defaults_may_be_applied_without_them() {
    let old = patched(
        "KubeadmControlPlaneTemplate",
        &json!({"spec": {"template": {"spec": {"kubeadmConfigSpec": {
            "format": "cloud-config", "joinConfiguration": {"nodeRegistration": {"imagePullPolicy": "IfNotPresent"}},
        }}}}}),
    );
    let new =
        patched("KubeadmControlPlaneTemplate", &json!({"spec": {"template": {"spec": {"rollout": null}}}}));
    let request = request("KubeadmControlPlaneTemplate", Some(&old));
    assert_eq!(complaints(&request, &new, &[]), Vec::<String>::new());
}
