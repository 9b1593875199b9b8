//! Rules of Cluster, alone and against its class and what it runs.

use serde_json::{Value, json};

use super::{
    Admission as _, Known, Row, Webhooks, annotation, change, checked, complaints, create, good, patched,
    request, update,
};

const CL: &str = "Cluster";

pub fn rows() -> Vec<Row> {
    let class = || [good("ClusterClass")];
    let mut rows: Vec<Row> = alone();
    rows.extend(topology().into_iter().chain(against_class()).map(|row| row.with(class())));
    rows.extend(class_changes());
    rows.extend(version_changes());
    rows
}

fn alone() -> Vec<Row> {
    let unmanaged = json!({"spec": {"topology": null}});
    vec![
        create(
            "CL-1",
            CL,
            json!({"metadata": {"name": "-"}, "spec": {"topology": null}}),
            "metadata.name: Invalid value: \"-\": must be a valid label value a valid label must be an empty string or \
             consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
             (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        create(
            "CL-2",
            CL,
            json!({"spec": {"topology": null, "controlPlaneRef": null, "infrastructureRef": null}}),
            "spec: Forbidden: one of spec.controlPlaneRef, spec.infrastructureRef or spec.topology must be set",
        ),
        change(
            "CL-3",
            CL,
            unmanaged.clone(),
            json!({"spec": {"topology": null, "infrastructureRef": null}}),
            "spec.infrastructureRef: Forbidden: cannot be removed",
        ),
        change(
            "CL-4",
            CL,
            unmanaged,
            json!({"spec": {"topology": null, "controlPlaneRef": null}}),
            "spec.controlPlaneRef: Forbidden: cannot be removed",
        ),
        update(
            "CL-5",
            CL,
            json!({"spec": {"topology": null}}),
            "spec.topology: Forbidden: cannot be removed from an existing Cluster",
        ),
        create(
            "CL-6",
            CL,
            json!({"spec": {"topology": null, "clusterNetwork": {"services": {"cidrBlocks": ["10.0.0.0/8", "10.0.0.0/33"]}}}}),
            "spec.clusterNetwork.services.cidrBlocks[1]: Invalid value: \"10.0.0.0/33\": invalid CIDR address: 10.0.0.0/33",
        ),
    ]
}

fn topology() -> Vec<Row> {
    let spec = |topology: Value| json!({"spec": {"topology": topology}});
    let concurrency =
        |value: &str| json!({"metadata": {"annotations": {annotation::TOPOLOGY_UPGRADE_CONCURRENCY: value}}});
    vec![
        create(
            "CL-7",
            CL,
            spec(json!({"classRef": null})),
            "spec.topology.class: Required value: classRef.name cannot be empty",
        ),
        create(
            "CL-8",
            CL,
            spec(json!({"version": "1.34.0"})),
            "spec.topology.version: Invalid value: \"1.34.0\": must start with v",
        ),
        create(
            "CL-9",
            CL,
            spec(json!({"version": "v1.34"})),
            "spec.topology.version: Invalid value: \"v1.34\": version must be a valid semantic version",
        ),
        create(
            "ME-3",
            CL,
            spec(json!({"controlPlane": {"metadata": {"annotations": {"/a": "x"}}}})),
            "spec.topology.controlPlane.metadata.annotations: Invalid value: \"/a\": prefix part must be non-empty",
        ),
        create(
            "MD-10",
            CL,
            spec(
                json!({"workers": {"machineDeployments": [{"class": "w", "name": "md", "rollout": {"strategy": {
                    "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0},
                }}}]}}),
            ),
            "spec.topology.workers.machineDeployments[md].rollout.strategy.rollingUpdate: Invalid value: \"0\": \
             maxUnavailable and maxSurge cannot both be 0",
        ),
        create(
            "TA-1",
            CL,
            spec(json!({"workers": {"machinePools": [
                {"class": "p", "name": "mp", "taints": [{"key": "node.cluster.x-k8s.io/uninitialized"}]},
            ]}})),
            "spec.topology.workers.machinePools[mp].taints[0].key: Invalid value: \
             \"node.cluster.x-k8s.io/uninitialized\": taint key is not allowed",
        ),
        create(
            "CL-10",
            CL,
            concurrency("few"),
            "metadata.annotations.topology.cluster.x-k8s.io/upgrade-concurrency: Invalid value: \"few\": could not parse \
             the value of the annotation: strconv.Atoi: parsing \"few\": invalid syntax",
        ),
        create(
            "CL-11",
            CL,
            concurrency("0"),
            "metadata.annotations.topology.cluster.x-k8s.io/upgrade-concurrency: Invalid value: \"0\": value cannot be \
             less than 1",
        ),
    ]
}

fn against_class() -> Vec<Row> {
    let workers = |list: &str, members: Value| json!({"spec": {"topology": {"workers": {list: members}}}});
    let deployment = |health: Value| {
        workers("machineDeployments", json!([{"class": "w", "name": "md", "healthCheck": health}]))
    };
    vec![
        create(
            "CL-13",
            CL,
            workers("machineDeployments", json!([{"class": "x", "name": "md"}])),
            "spec.topology.workers.machineDeployments[0].class: Invalid value: \"x\": MachineDeploymentClass with name \
             \"x\" does not exist in ClusterClass \"it\"",
        ),
        create(
            "CL-13",
            CL,
            workers("machinePools", json!([{"class": "w", "name": "mp"}])),
            "spec.topology.workers.machinePools[0].class: Invalid value: \"w\": MachinePoolClass with name \"w\" does not \
             exist in ClusterClass \"it\"",
        ),
        create(
            "CL-14",
            CL,
            workers("machineDeployments", json!([{"class": "w"}])),
            "spec.topology.workers.machineDeployments[0].name: Required value: name must not be empty",
        ),
        create(
            "CL-15",
            CL,
            workers("machinePools", json!([{"class": "p", "name": "a"}, {"class": "p", "name": "a"}])),
            "spec.topology.workers.machinePools[1].name: Invalid value: \"a\": name must be unique. MachinePool with name \
             \"a\" is defined more than once",
        ),
        create(
            "CL-17",
            CL,
            json!({"spec": {"topology": {"controlPlane": {"healthCheck": {"enabled": true}}}}}),
            "spec.topology.controlPlane.healthCheck.enable: Forbidden: cannot be set to true as healthCheck definition is \
             not available in the Cluster topology or the ClusterClass",
        ),
        create(
            "CL-17",
            CL,
            deployment(json!({"enabled": true})),
            "spec.topology.workers.machineDeployments[md].healthCheck.enable: Forbidden: cannot be set to true as \
             healthCheck definition is not available in the Cluster topology or the ClusterClass",
        ),
        create(
            "MHC-5",
            CL,
            deployment(json!({"checks": {"nodeStartupTimeoutSeconds": 1}})),
            "spec.topology.workers.machineDeployments[md].healthCheck.checks.nodeStartupTimeoutSeconds: Invalid value: 1: \
             must be at least 30s",
        ),
        create(
            "MD-11",
            CL,
            deployment(json!({"remediation": {"maxInFlight": "x"}})),
            "spec.topology.workers.machineDeployments[md].healthCheck.remediation.maxInFlight: Invalid value: \"x\": must \
             be either an int or a percentage: invalid value for IntOrString: invalid type: string is not a percentage",
        ),
        create(
            "CL-18",
            CL,
            workers(
                "machineDeployments",
                json!([{"class": "w", "name": "md", "replicas": 2,
                    "metadata": {"annotations": {annotation::AUTOSCALER_MIN_SIZE: "1"}}}]),
            ),
            "spec.topology.workers.machineDeployments[md].replicas: Invalid value: 2: cannot be set for cluster \"it\" in \
             namespace \"ns\" if the same MachineDeploymentTopology has autoscaler annotations",
        ),
        change(
            "CL-20",
            CL,
            json!({"spec": {"topology": null}}),
            json!({}),
            "spec.topology.class: Forbidden: classRef cannot be set on an existing Cluster",
        ),
    ]
}

fn class_changes() -> Vec<Row> {
    let class = |patch: Value| patched("ClusterClass", &patch);
    let other = json!({"metadata": {"name": "other"}});
    let use_other = json!({"spec": {"topology": {"classRef": {"name": "other"}}}});
    let mut scaled = good("ClusterClass");
    scaled["spec"]["workers"]["machineDeployments"][0]["metadata"] =
        json!({"annotations": {annotation::AUTOSCALER_MAX_SIZE: "1"}});
    let bare = json!({"spec": {"controlPlane": {"machineInfrastructure": null}}});
    vec![
        create(
            "CL-12",
            CL,
            json!({}),
            "spec.topology.version: Invalid value: \"v1.34.0\": version must match one of the versions defined in the \
             ClusterClass",
        )
        .with([class(json!({"spec": {"kubernetesVersions": ["v1.33.0"]}}))]),
        create(
            "CL-16",
            CL,
            json!({"spec": {"topology": {"controlPlane": {"healthCheck": {"checks": {"nodeStartupTimeoutSeconds": 60}}}}}}),
            "spec.topology.controlPlane.healthCheck: Forbidden: can be only set if \
             spec.controlPlane.machineInfrastructure is set in ClusterClass",
        )
        .with([class(bare)]),
        create(
            "CL-18",
            CL,
            json!({"spec": {"topology": {"workers": {"machineDeployments": [{"class": "w", "name": "md", "replicas": 2}]}}}}),
            "spec.topology.workers.machineDeployments[md].replicas: Invalid value: 2: cannot be set for cluster \"it\" in \
             namespace \"ns\" if the source class \"w\" of this MachineDeploymentTopology has autoscaler annotations",
        )
        .with([scaled]),
        update("CL-19", CL, json!({}), "spec.topology.class: Internal error: ClusterClass ns/it not found"),
        update(
            "CL-21",
            CL,
            use_other.clone(),
            "spec.topology.class: Forbidden: valid ClusterClass with name \"ns/it\" could not be retrieved, change from \
             class \"ns/it\" to class \"ns/other\" cannot be validated. Error: clusterclasses.cluster.x-k8s.io \"it\" not \
             found",
        )
        .with([class(other)]),
        update(
            "CC-18",
            CL,
            use_other,
            "spec.infrastructure.templateRef.kind: Forbidden: kind cannot be changed from \"DevClusterTemplate\" to \
             \"OtherTemplate\" to prevent incompatible changes in the Clusters",
        )
        .with([
            good("ClusterClass"),
            class(json!({
                "metadata": {"name": "other"}, "spec": {"infrastructure": {"templateRef": {"kind": "OtherTemplate"}}},
            })),
        ]),
    ]
}

/// The control plane and a deployment of the good Cluster, with a Machine of that, all at v1.34.0.
fn running() -> Vec<Value> {
    let owned = |mut object: Value, labels: Value| {
        object["metadata"]["labels"] = labels;
        object
    };
    let mut plane = good("KubeadmControlPlane");
    plane["status"] = json!({"version": "v1.34.0"});
    let topology = json!({"cluster.x-k8s.io/cluster-name": "it", "topology.cluster.x-k8s.io/owned": ""});
    let version = json!({"spec": {"template": {"spec": {"version": "v1.34.0"}}}});
    let machine = patched("Machine", &json!({"spec": {"version": "v1.34.0"}}));
    vec![
        good("ClusterClass"),
        plane,
        owned(patched("MachineDeployment", &version), topology.clone()),
        owned(patched("MachinePool", &version), topology),
        owned(machine, json!({"a": "b"})),
    ]
}

fn version_changes() -> Vec<Row> {
    let to = |version: &str| json!({"spec": {"topology": {"version": version}}});
    let with = |kind: &str, patch: Value| {
        let mut peers = running();
        let peer = peers.iter_mut().find(|peer| peer["kind"] == kind).expect(kind);
        json_patch::merge(peer, &patch);
        peers
    };
    let hook = json!({
        "metadata": {"annotations": {"runtime.cluster.x-k8s.io/pending-hooks": "X,AfterClusterUpgrade"}},
        "spec": {"topology": {"version": "v1.35.0"}},
    });
    let busy = |id, peers, says| update(id, CL, to("v1.35.0"), says).with(peers);
    let plane = "KubeadmControlPlane";
    vec![
        change(
            "CL-22",
            CL,
            to("old"),
            json!({}),
            "spec.topology.version: Invalid value: \"old\": old version must be a valid semantic version",
        )
        .with(running()),
        update(
            "CL-23",
            CL,
            to("v1.33.9"),
            "spec.topology.version: Invalid value: \"v1.33.9\": version cannot be decreased from \"1.34.0\" to \"1.33.9\"",
        )
        .with(running()),
        update(
            "CL-24",
            CL,
            to("v1.36.0"),
            "spec.topology.version: Invalid value: \"v1.36.0\": version cannot be increased from \"1.34.0\" to \"1.36.0\"",
        )
        .with(running()),
        update(
            "CL-25",
            CL,
            hook,
            "spec.topology.version: Invalid value: \"v1.35.0\": version cannot be changed when the \
             \"AfterClusterUpgrade\" hook is still blocking",
        )
        .with(running()),
        busy(
            "CL-26",
            with(plane, json!({"spec": {"version": "v1.33.0"}})),
            "spec.topology.version: Invalid value: \"v1.35.0\": version cannot be changed: \
             Cluster.spec.topology.version 1.34.0 was not propagated to control plane yet (control plane version 1.33.0)",
        ),
        busy(
            "CL-27",
            with(plane, json!({"status": null})),
            "spec.topology.version: Invalid value: \"v1.35.0\": version cannot be changed: control plane is currently \
             provisioning",
        ),
        busy(
            "CL-28",
            with(plane, json!({"status": {"versions": [{"version": "v1.34.0"}, {"version": "v1.33.0"}]}})),
            "spec.topology.version: Invalid value: \"v1.35.0\": version cannot be changed: control plane is still \
             completing a previous upgrade",
        ),
        busy(
            "CL-29",
            with("Machine", json!({"status": {"nodeInfo": {"kubeletVersion": "v1.33.0"}}})),
            "spec.topology.version: Invalid value: \"v1.35.0\": version cannot be changed: there are still \
             MachineDeployments completing a previous upgrade: [it]",
        ),
        busy(
            "CL-30",
            with("MachinePool", json!({"spec": {"template": {"spec": {"version": "v1.33.0"}}}})),
            "spec.topology.version: Invalid value: \"v1.35.0\": version cannot be changed: there are still MachinePools \
             completing a previous upgrade: [it]",
        ),
        busy(
            "CL-31",
            vec![good("ClusterClass")],
            "spec.topology.version: Invalid value: \"v1.35.0\": version cannot be changed: failed to check if control \
             plane is upgrading: failed to get control plane object",
        ),
    ]
}

#[test]
fn a_version_may_change_when_everything_is_there() {
    let old = good(CL);
    for (patch, peers, warned) in [
        (json!({"spec": {"topology": {"version": "v1.35.2"}}}), running(), false),
        (json!({"spec": {"topology": {"version": "v1.34.0"}}}), running(), false),
        (
            json!({
                "metadata": {"annotations": {annotation::UNSAFE_VERSION: ""}},
                "spec": {"topology": {"version": "v1.20.0"}},
            }),
            running(),
            true,
        ),
    ] {
        let new = patched(CL, &patch);
        let warnings = checked(&request(CL, Some(&old)), &new, &peers).expect("allowed");
        let skipped = "Skipping version validation for Cluster because annotation \
                       \"unsafe.topology.cluster.x-k8s.io/disable-update-version-check\" is set.";
        assert_eq!(warnings.iter().any(|warning| warning == skipped), warned, "{patch}: {warnings:?}");
    }
    let old = patched(CL, &json!({"spec": {"topology": null}}));
    let new = patched(CL, &json!({"metadata": {"annotations": {annotation::UNSAFE_CLASS_NAME: ""}}}));
    assert_eq!(complaints(&request(CL, Some(&old)), &new, &running()), Vec::<String>::new());
}

#[test]
fn classes_that_are_not_there_or_not_ready_are_warned_about() {
    let cluster = good(CL);
    let warned = |class: Option<Value>| {
        let peers: Vec<Value> = class.into_iter().collect();
        checked(&request(CL, None), &cluster, &peers).expect("allowed")
    };
    let warning = |why: &str, advice: &str| {
        vec![format!(
            "Cluster refers to ClusterClass ns/it, but this ClusterClass {why}. Cluster topology has not been fully \
             validated. {advice}"
        )]
    };
    let missing = warning("does not exist", "The ClusterClass must be created to reconcile the Cluster");
    assert_eq!(warned(None), missing);
    let unready =
        warning("hasn't been successfully reconciled", "Please take a look at the ClusterClass status");
    assert_eq!(warned(Some(good("ClusterClass"))), unready);
    let mut class = good("ClusterClass");
    class["metadata"]["generation"] = json!(2);
    class["status"] =
        json!({"observedGeneration": 2, "conditions": [{"type": "VariablesReady", "status": "True"}]});
    assert_eq!(warned(Some(class.clone())), Vec::<String>::new());
    class["status"]["observedGeneration"] = json!(1);
    assert_eq!(warned(Some(class)), unready);
    // Where no classes are served, an update is not held up.
    let request = request(CL, Some(&cluster));
    let mut known = Known::default();
    for need in Webhooks.needs(&request, &cluster) {
        known.add(need, super::Found::NotServed);
    }
    let warnings = Webhooks.check(&request, &cluster, &known).expect("allowed");
    assert!(
        warnings.len() == 1 && warnings[0].contains("nothing here computes spec.topology"),
        "{warnings:?}"
    );
}
