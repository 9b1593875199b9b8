//! The two golden appendices of the status reference: a healthy cluster at rest, and the first control
//! plane Machine while it is being provisioned. Made from specs alone; every status is computed, level
//! after level, until nothing changes.

use serde_json::{Value, json};

use crate::at_rest::{GATES, PLANE, cluster, control_plane, healthy, machine, settled};

/// Every condition of an object, one per line, with its message where there is one.
fn told(objects: &[Value], kind: &str, name: &str) -> Vec<String> {
    let object = objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name).unwrap();
    let text = |c: &Value, field: &str| c[field].as_str().unwrap_or_default().to_owned();
    let line = |c: &Value| match text(c, "message") {
        empty if empty.is_empty() => {
            format!("{}={}/{}", text(c, "type"), text(c, "status"), text(c, "reason"))
        }
        message => format!("{}={}/{} {message}", text(c, "type"), text(c, "status"), text(c, "reason")),
    };
    object["status"]["conditions"].as_array().unwrap().iter().map(line).collect()
}

fn phase<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a str {
    let object = objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name).unwrap();
    object["status"]["phase"].as_str().unwrap_or_default()
}

#[test]
fn appendix_a_a_healthy_cluster_at_rest() {
    let all = settled(healthy());
    let check = |kind: &str, name: &str, expected: &str| {
        let expected: Vec<&str> = expected.split_whitespace().collect();
        assert_eq!(told(&all, kind, name), expected, "{kind} {name}");
    };
    check(
        "Cluster",
        "c",
        "Available=True/Available RemoteConnectionProbe=True/ProbeSucceeded InfrastructureReady=True/Ready
         ControlPlaneInitialized=True/Initialized ControlPlaneAvailable=True/Available WorkersAvailable=True/Available
         RollingOut=False/NotRollingOut Remediating=False/NotRemediating ScalingDown=False/NotScalingDown
         ScalingUp=False/NotScalingUp ControlPlaneMachinesReady=True/Ready WorkerMachinesReady=True/Ready
         ControlPlaneMachinesUpToDate=True/UpToDate WorkerMachinesUpToDate=True/UpToDate Paused=False/NotPaused
         Deleting=False/NotDeleting",
    );
    check(
        "KubeadmControlPlane",
        "cp",
        "Available=True/Available CertificatesAvailable=True/Available Initialized=True/Initialized
         EtcdClusterHealthy=True/Healthy ControlPlaneComponentsHealthy=True/Healthy RollingOut=False/NotRollingOut
         Remediating=False/NotRemediating ScalingDown=False/NotScalingDown ScalingUp=False/NotScalingUp
         MachinesReady=True/Ready MachinesUpToDate=True/UpToDate Paused=False/NotPaused Deleting=False/NotDeleting",
    );
    let set = "Remediating=False/NotRemediating ScalingDown=False/NotScalingDown ScalingUp=False/NotScalingUp
         MachinesReady=True/Ready MachinesUpToDate=True/UpToDate Paused=False/NotPaused Deleting=False/NotDeleting";
    check(
        "MachineDeployment",
        "md",
        &format!("Available=True/Available RollingOut=False/NotRollingOut {set}"),
    );
    check("MachineSet", "ms", set);
    let machine = |of_kcp: &str, check: &str| {
        format!(
            "Available=True/Available Ready=True/Ready UpToDate=True/UpToDate BootstrapConfigReady=True/Ready
             InfrastructureReady=True/Ready NodeHealthy=True/NodeHealthy NodeReady=True/NodeReady {of_kcp} {check}
             Updating=False/NotUpdating Paused=False/NotPaused Deleting=False/NotDeleting"
        )
    };
    check("Machine", "w-0", &machine("", "HealthCheckSucceeded=True/HealthCheckSucceeded"));
    let of_kcp = "NodeKubeadmLabelsAndTaintsSet=True/Set EtcdPodHealthy=True/Running EtcdMemberHealthy=True/Healthy
         APIServerPodHealthy=True/Running ControllerManagerPodHealthy=True/Running SchedulerPodHealthy=True/Running";
    check("Machine", "cp-0", &machine(of_kcp, ""));
    check("MachineHealthCheck", "mhc", "RemediationAllowed=True/RemediationAllowed Paused=False/NotPaused");
    let config = "Ready=True/Ready CertificatesAvailable=True/Available DataSecretAvailable=True/Available Paused=False/NotPaused";
    check("KubeadmConfig", "w-0", config);
    check("DevCluster", "c", "Paused=False/NotPaused");
    check(
        "DevMachine",
        "cp-0",
        "Ready=True/Ready APIServerProvisioned=True/Provisioned EtcdProvisioned=True/Provisioned
         NodeProvisioned=True/Provisioned VMProvisioned=True/Provisioned Paused=False/NotPaused",
    );
    assert_eq!(phase(&all, "Cluster", "c"), "Provisioned");
    assert_eq!(phase(&all, "MachineDeployment", "md"), "Running");
    assert_eq!(phase(&all, "Machine", "cp-0"), "Running");
}

#[test]
fn appendix_a_without_workers() {
    let gone = ["MachineHealthCheck", "MachineDeployment", "MachineSet"];
    let mut objects = healthy();
    objects.retain(|o| !gone.contains(&o["kind"].as_str().unwrap()) && o["metadata"]["name"] != "w-0");
    let all = settled(objects);
    let told = told(&all, "Cluster", "c");
    for line in [
        "WorkersAvailable=True/NoWorkers",
        "WorkerMachinesReady=True/NoReplicas",
        "WorkerMachinesUpToDate=True/NoReplicas",
    ] {
        assert!(told.iter().any(|t| t == line), "{line}: {told:?}");
    }
    assert_eq!(told[0], "Available=True/Available");
}

#[test]
fn appendix_b_the_first_control_plane_machine() {
    let mut objects: Vec<Value> = cluster().into();
    objects.extend(control_plane(3, json!({})));
    let labels = json!({"cluster.x-k8s.io/control-plane": ""});
    objects.extend(machine("cp-0", (PLANE, "KubeadmControlPlane", "cp"), &labels, &GATES, false));
    let all = settled(objects);
    let waiting = "Waiting for Cluster control plane to be initialized";
    let data = "Waiting for Cluster control plane to be initialized";
    let nested = "  * VMProvisioned: WaitingForBootstrapData\n  * NodeProvisioned: WaitingForVMProvisioned\n  \
                  * EtcdProvisioned: WaitingForVMProvisioned\n  * APIServerProvisioned: WaitingForVMProvisioned";
    let flat = nested.replace("\n  ", "\n").trim_start().to_owned();
    let unknown = |type_: &str| format!("{type_}=Unknown/InspectionFailed {waiting}");
    let expected = [
        "Available=False/NotReady".to_owned(),
        format!(
            "Ready=False/NotReady * BootstrapConfigReady:\n  * DataSecretAvailable: {data}\n  \
             * CertificatesAvailable: Condition not yet reported\n* InfrastructureReady:\n{nested}\n* NodeHealthy: {waiting}\n\
             * NodeKubeadmLabelsAndTaintsSet: {waiting}\n* Control plane components: {waiting}\n* EtcdMemberHealthy: {waiting}"
        ),
        "UpToDate=True/UpToDate".to_owned(),
        format!(
            "BootstrapConfigReady=False/NotReady * DataSecretAvailable: {data}\n* CertificatesAvailable: Condition not yet reported"
        ),
        format!("InfrastructureReady=False/NotReady {flat}"),
        unknown("NodeHealthy"),
        unknown("NodeReady"),
        unknown("NodeKubeadmLabelsAndTaintsSet"),
        unknown("EtcdPodHealthy"),
        unknown("EtcdMemberHealthy"),
        unknown("APIServerPodHealthy"),
        unknown("ControllerManagerPodHealthy"),
        unknown("SchedulerPodHealthy"),
        "Updating=False/NotUpdating".to_owned(),
        "Paused=False/NotPaused".to_owned(),
        "Deleting=False/NotDeleting".to_owned(),
    ];
    assert_eq!(told(&all, "Machine", "cp-0"), expected);
    let control_plane = told(&all, "KubeadmControlPlane", "cp");
    for line in [
        "Available=False/NotAvailable Control plane not yet initialized".to_owned(),
        "Initialized=False/NotInitialized".to_owned(),
        unknown("EtcdClusterHealthy"),
        unknown("ControlPlaneComponentsHealthy"),
        "ScalingUp=True/ScalingUp Scaling up from 1 to 3 replicas is blocked because:\n\
         * waiting for control plane components to become healthy\n* waiting for etcd cluster to become healthy"
            .to_owned(),
    ] {
        assert!(control_plane.contains(&line), "{line}: {control_plane:#?}");
    }
    let cluster = told(&all, "Cluster", "c");
    for line in [
        "ControlPlaneInitialized=False/NotInitialized Control plane not yet initialized",
        "ControlPlaneAvailable=False/NotAvailable Control plane not yet initialized",
        "RemoteConnectionProbe=False/ProbeFailed Remote connection not established yet",
        "Available=False/NotAvailable * RemoteConnectionProbe: Remote connection not established yet\n\
         * ControlPlaneAvailable: Control plane not yet initialized",
    ] {
        assert!(cluster.iter().any(|c| c == line), "{line}: {cluster:#?}");
    }
}
