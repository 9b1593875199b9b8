//! Clusters whose control plane is looked after by a KubeadmControlPlane: the patch is made from what the object has.

use serde_json::{Value, json};

use super::PlanState;
use super::tests::{cluster, planned, steps};
use crate::document::{DocumentKind, Inputs};
use k8s_machinery::merge;

/// A cluster of three nodes whose object has this clusterConfiguration.
fn managed(configuration: Value) -> Inputs {
    let mut inputs = cluster(3, 1);
    inputs.objects.push(json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "metadata": {"name": "cp"},
        "spec": {"replicas": 3, "kubeadmConfigSpec": {"clusterConfiguration": configuration}},
    }));
    inputs
}

/// The object's clusterConfiguration after its patch.
fn patched(configuration: &Value, sets: &[&str]) -> Value {
    let plan = planned(&managed(configuration.clone()), sets);
    let patch = plan.control_plane_patch.expect("a patch");
    let mut object = json!({"spec": {"kubeadmConfigSpec": {"clusterConfiguration": configuration}}});
    merge::apply(&mut object, &patch);
    object["spec"]["kubeadmConfigSpec"]["clusterConfiguration"].take()
}

/// What only the object has, in every list.
fn own() -> Value {
    let component = |flag: &str| {
        json!({
            "extraArgs": [{"name": flag, "value": "own"}, {"name": "v", "value": "4"}],
            "extraVolumes": [{"name": "own", "hostPath": "/own", "mountPath": "/own"}],
            "extraEnvs": [{"name": "OWN", "value": "1"}],
        })
    };
    let mut api_server = component("oidc-issuer-url");
    api_server["certSANs"] = json!(["own.example"]);
    json!({
        "apiServer": api_server,
        "controllerManager": component("kube-api-qps"),
        "scheduler": component("kube-api-burst"),
        "etcd": {"local": {
            "extraArgs": [{"name": "snapshot-count", "value": "5000"}], "extraEnvs": [{"name": "OWN", "value": "1"}],
            "serverCertSANs": ["own.example"], "peerCertSANs": ["own.example"],
        }},
        "featureGates": {"NodeLocalCRISocket": true},
        "certificateValidityPeriodDays": 100,
    })
}

#[test]
fn what_only_the_object_has_stays() {
    let own = own();
    let requests = [
        ("/apiServer/extraArgs", "apiServer.extraArgs[audit-log-maxage]=30"),
        ("/apiServer/extraVolumes", "apiServer.extraVolumes[new]={hostPath: /n, mountPath: /n}"),
        ("/apiServer/extraEnvs", "apiServer.extraEnvs[NEW].value=1"),
        ("/apiServer/certSANs", "apiServer.certSANs=[new.example]"),
        ("/controllerManager/extraArgs", "controllerManager.extraArgs[concurrent-gc-syncs]=25"),
        (
            "/controllerManager/extraVolumes",
            "controllerManager.extraVolumes[new]={hostPath: /n, mountPath: /n}",
        ),
        ("/controllerManager/extraEnvs", "controllerManager.extraEnvs[NEW].value=1"),
        ("/scheduler/extraArgs", "scheduler.extraArgs[profiling]=false"),
        ("/scheduler/extraVolumes", "scheduler.extraVolumes[new]={hostPath: /n, mountPath: /n}"),
        ("/scheduler/extraEnvs", "scheduler.extraEnvs[NEW].value=1"),
        ("/etcd/local/extraArgs", "etcd.local.extraArgs[log-level]=debug"),
        ("/etcd/local/extraEnvs", "etcd.local.extraEnvs[NEW].value=1"),
        ("/etcd/local/serverCertSANs", "etcd.local.serverCertSANs=[new.example]"),
        ("/etcd/local/peerCertSANs", "etcd.local.peerCertSANs=[new.example]"),
    ];
    for (list, request) in requests {
        let mut after = patched(&own, &[request]);
        let changed = after.pointer_mut(list).expect(list).as_array_mut().expect(list);
        let before = own.pointer(list).expect(list).as_array().expect(list);
        assert_eq!(changed.len(), before.len() + 1, "{request}");
        assert!(before.iter().all(|item| changed.contains(item)), "{request}: {changed:?}");
        changed.clone_from(before);
        assert_eq!(after, own, "{request}: nothing else");
    }
    let all: Vec<&str> = requests.iter().map(|(_, request)| *request).collect();
    let after = patched(&own, &all);
    for (list, request) in requests {
        let before = own.pointer(list).and_then(Value::as_array).expect(list).len();
        assert_eq!(
            after.pointer(list).and_then(Value::as_array).map(Vec::len),
            Some(before + 1),
            "{request}"
        );
    }
}

#[test]
fn what_is_taken_away_goes_from_the_object() {
    let own = own();
    let mut after = patched(
        &own,
        &[
            "apiServer.extraArgs[oidc-issuer-url]=null",
            "ClusterConfiguration.featureGates.NodeLocalCRISocket=null",
        ],
    );
    assert_eq!(after["apiServer"]["extraArgs"], json!([{"name": "v", "value": "4"}]));
    assert!(after["featureGates"].is_null(), "{after}");
    after["apiServer"]["extraArgs"] = own["apiServer"]["extraArgs"].clone();
    after["featureGates"] = own["featureGates"].clone();
    assert_eq!(after, own);
    // Its schema refuses what is empty.
    let last = json!({"scheduler": {"extraArgs": [{"name": "v", "value": "4"}]}});
    let plan = planned(&managed(last), &["scheduler.extraArgs[v]=null"]);
    let patch = plan.control_plane_patch.expect("a patch");
    assert_eq!(patch["spec"]["kubeadmConfigSpec"]["clusterConfiguration"], json!({"scheduler": null}));
}

#[test]
fn a_request_is_compared_with_the_object() {
    let inputs = managed(json!({"apiServer": {"extraArgs": [{"name": "event-ttl", "value": "2h"}]}}));
    assert_eq!(
        planned(&inputs, &["apiServer.extraArgs[event-ttl]=2h"]).state,
        PlanState::Nothing,
        "it has it"
    );
    let plan = planned(&inputs, &["apiServer.extraArgs[event-ttl]=3h"]);
    assert_eq!(plan.changes[0].change.old, json!("2h"));
    // It was stored by hand, and the object does not have it.
    let plan = planned(&inputs, &["apiServer.certSANs=[cp.example]"]);
    assert_eq!(plan.state, PlanState::Ready);
    let notes: Vec<_> =
        plan.notes.iter().filter(|note| note.starts_with("the next rollout overwrites")).collect();
    assert_eq!(notes.len(), 3, "{:?}", plan.notes);
    assert!(
        notes[0].contains("apiServer.certSANs: cp.example is stored, the KubeadmControlPlane has (none)"),
        "{notes:?}"
    );
}

#[test]
fn a_validity_is_exact_or_refused() {
    assert_eq!(patched(&own(), &["certificateValidityPeriod=4800h"])["certificateValidityPeriodDays"], 200);
    for refused in ["36h", "1h", "30000h"] {
        let plan = planned(&managed(own()), &[&format!("certificateValidityPeriod={refused}")]);
        assert_eq!(plan.state, PlanState::Blocked, "{refused}");
        assert!(plan.changes[0].finding.message.starts_with("KubeadmControlPlane counts in whole days"));
    }
}

#[test]
fn machines_are_replaced_only_by_a_rollout() {
    let inputs = managed(own());
    let disruption = |set: &str| planned(&inputs, &[set]).disruption;
    assert_eq!(
        disruption("apiServer.extraArgs[event-ttl]=2h"),
        ["3 Machines are replaced, one after the other"]
    );
    assert_eq!(disruption("mode=nftables"), ["kube-proxy restarts on every node; connections go on"]);
    assert_eq!(
        disruption("mode=ipvs"),
        [
            "kube-proxy restarts on every node; connections go on",
            "4 nodes have to be drained and restarted by you, one at a time",
        ]
    );
    assert_eq!(
        disruption("dns.imageTag=v1.14.0"),
        ["CoreDNS restarts with the other image; no Machine is replaced"]
    );
    let step = &planned(&inputs, &["dns.imageTag=v1.14.0"]).steps[1];
    assert!(step.title.ends_with("it changes CoreDNS in place"), "{}", step.title);
    assert!(
        steps(&planned(&inputs, &["mode=nftables"])).contains(&"P1".to_owned()),
        "it stays the cluster's own"
    );
}

#[test]
fn without_the_object_no_list_is_made() {
    let mut inputs = cluster(3, 1);
    let node = inputs.objects.iter_mut().find(|object| object["kind"] == "Node").expect("a Node");
    node["metadata"]["annotations"] = json!({"cluster.x-k8s.io/owner-kind": "KubeadmControlPlane"});
    let plan = planned(&inputs, &["apiServer.extraArgs[event-ttl]=2h"]);
    assert_eq!((plan.state, &plan.control_plane_patch), (PlanState::Blocked, &None));
    assert!(plan.changes[0].finding.message.contains("it was not read"), "{:?}", plan.changes[0].finding);
    let mut inputs = managed(json!({"apiServer": {"extraArgs": {"v": "4"}}}));
    let object = inputs.objects.last_mut().expect("the object");
    object["apiVersion"] = json!("controlplane.cluster.x-k8s.io/v1alpha4");
    let plan = planned(&inputs, &["apiServer.extraArgs[event-ttl]=2h"]);
    assert_eq!((plan.state, &plan.control_plane_patch), (PlanState::Blocked, &None));
    assert!(
        plan.changes[0].finding.message.contains("is in version v1alpha4"),
        "{:?}",
        plan.changes[0].finding
    );
}

/// The same with an object of v1beta1.
fn older(configuration: Value) -> Inputs {
    let mut inputs = managed(configuration);
    let object = inputs.objects.last_mut().expect("the object");
    object["apiVersion"] = json!("controlplane.cluster.x-k8s.io/v1beta1");
    inputs
}

/// What only an object of v1beta1 has.
fn own_of_older() -> Value {
    json!({
        "apiServer": {"extraArgs": {"oidc-issuer-url": "own", "v": "4"}, "certSANs": ["own.example"],
            "timeoutForControlPlane": "5m0s"},
        "scheduler": {"extraArgs": {"v": "4"}},
        "etcd": {"local": {"extraArgs": {"snapshot-count": "5000"}, "dataDir": "/var/lib/etcd"}},
        "kubernetesVersion": "v1.36.1",
    })
}

/// It was refused: lists of v1beta2 do not go into the maps of v1beta1.
#[test]
fn an_object_of_the_older_version_is_patched_in_its_own_form() {
    for (requests, expected) in [
        (
            &["apiServer.extraArgs[audit-log-maxage]=30"][..],
            json!({"apiServer": {"extraArgs": {"audit-log-maxage": "30", "oidc-issuer-url": "own", "v": "4"}}}),
        ),
        (
            &["apiServer.extraArgs[oidc-issuer-url]=null", "apiServer.certSANs=[new.example]"],
            json!({"apiServer": {"extraArgs": {"oidc-issuer-url": null, "v": "4"},
                "certSANs": ["new.example", "own.example"]}}),
        ),
        (&["scheduler.extraArgs[v]=null"], json!({"scheduler": null})),
        (
            &["etcd.local.extraArgs[log-level]=debug", "dns.imageTag=v1.14.0"],
            json!({"etcd": {"local": {"extraArgs": {"log-level": "debug", "snapshot-count": "5000"}}},
                "dns": {"imageTag": "v1.14.0"}}),
        ),
        (
            &["controllerManager.extraVolumes[new]={hostPath: /n, mountPath: /n}"],
            json!({"controllerManager": {"extraVolumes": [{"name": "new", "hostPath": "/n", "mountPath": "/n"}]}}),
        ),
    ] {
        let plan = planned(&older(own_of_older()), requests);
        let patch = plan.control_plane_patch.expect("a patch");
        assert_eq!(patch["spec"]["kubeadmConfigSpec"]["clusterConfiguration"], expected, "{requests:?}");
        let commands: Vec<String> =
            plan.steps.iter().flat_map(|step| &step.commands).map(ToString::to_string).collect();
        let named =
            "kubectl patch kubeadmcontrolplanes.v1beta1.controlplane.cluster.x-k8s.io NAME --type merge";
        assert!(commands.iter().any(|line| line.starts_with(named)), "{commands:?}");
    }
    let inputs = older(own_of_older());
    assert_eq!(planned(&inputs, &["apiServer.extraArgs[oidc-issuer-url]=own"]).state, PlanState::Nothing);
}

#[test]
fn the_time_for_the_api_server_of_an_older_object_stays() {
    let inputs = older(json!({"apiServer": {"extraArgs": {"v": "4"}, "timeoutForControlPlane": "5m0s"}}));
    let plan = planned(&inputs, &["apiServer.extraArgs[v]=null"]);
    let patch = plan.control_plane_patch.expect("a patch");
    assert_eq!(
        patch["spec"]["kubeadmConfigSpec"]["clusterConfiguration"],
        json!({"apiServer": {"extraArgs": null}})
    );
}

#[test]
fn what_the_older_version_cannot_say_is_refused() {
    for (set, expected) in [
        ("encryptionAlgorithm=ECDSA-P256", "A KubeadmControlPlane in version v1beta1 has no field for it."),
        ("certificateValidityPeriod=4800h", "A KubeadmControlPlane in version v1beta1 has no field for it."),
        (
            "proxy.disabled=true",
            "KubeadmControlPlane has no field for it: the next rollout would write the document without it.",
        ),
        (
            "apiServer.extraArgs=[{name: v, value: '1'}, {name: v, value: '2'}]",
            "The flag stands twice, and a KubeadmControlPlane in version v1beta1 has one value per flag.",
        ),
    ] {
        let plan = planned(&older(own_of_older()), &[set]);
        let said: Vec<&str> = plan.changes.iter().map(|judged| judged.finding.message.as_str()).collect();
        assert_eq!(plan.state, PlanState::Blocked, "{set}: {said:?}");
        assert!(said.contains(&expected), "{set}: {said:?}");
    }
}

#[test]
fn what_it_has_no_field_for_is_refused() {
    let inputs = managed(own());
    for (set, expected) in [
        (
            "caCertificateValidityPeriod=1000h",
            "The webhook of KubeadmControlPlane does not allow a change of this field.",
        ),
        (
            "proxy.disabled=true",
            "KubeadmControlPlane has no field for it: the next rollout would write the document without it.",
        ),
        (
            "maxPods=60",
            "Machines are made from templates: a change in the workload cluster reaches no new one, and KubeadmControlPlane has no field for it.",
        ),
    ] {
        let plan = planned(&inputs, &[set]);
        assert_eq!(
            (plan.state, plan.changes[0].finding.message.as_str()),
            (PlanState::Blocked, expected),
            "{set}"
        );
    }
    let mut owned = managed(own());
    owned.objects.last_mut().expect("the object")["metadata"]["labels"] =
        json!({"topology.cluster.x-k8s.io/owned": ""});
    let plan = planned(&owned, &["apiServer.extraArgs[event-ttl]=2h"]);
    assert_eq!(plan.state, PlanState::Blocked);
    assert!(plan.changes[0].finding.message.starts_with("The KubeadmControlPlane belongs to a topology"));
    // A flag that a component of another make may take is forced through; its owner is not.
    let forceable = planned(&cluster(3, 1), &["apiServer.extraArgs[no-such-flag]=1"]);
    assert!(forceable.changes[0].finding.forceable);
    let plan = planned(&owned, &["apiServer.extraArgs[no-such-flag]=1"]);
    let finding = &plan.changes[0].finding;
    assert!(
        !finding.forceable && finding.message.starts_with("The KubeadmControlPlane belongs"),
        "{finding:?}"
    );
}

#[test]
fn configurations_of_another_shape_do_not_end_the_program() {
    for odd in [json!("text"), json!([]), json!({"apiServer": "text", "etcd": [1]}), Value::Null] {
        let plan = planned(&managed(odd.clone()), &["maxPods=60"]);
        assert_eq!(plan.state, PlanState::Blocked, "{odd}");
        assert!(plan.changes.iter().all(|judged| judged.change.kind == DocumentKind::Kubelet), "{odd}");
    }
}
