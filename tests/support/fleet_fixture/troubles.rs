//! Clusters in the troubles that people meet most, one each, with the words by which one of them is recognised. Each is as the controllers
//! report it.

use serde_json::{Value, json};

use super::{Builder, Condition, MACHINE_WELL, WELL, ago, but};

/// One cluster in trouble.
pub struct Trouble {
    /// Of the Cluster.
    pub name: &'static str,
    /// What a row has to say of it, in plain words.
    pub decisive: &'static str,
    make: fn(&mut Place<'_>),
}

/// All of them. The names are of usual length, and differ in it.
pub const TROUBLES: [Trouble; 11] = [
    Trouble { name: "payments-eu", decisive: "still starting", make: server_never_starts },
    Trouble { name: "lab-9", decisive: "no bootstrap data", make: no_bootstrap_data },
    Trouble { name: "shop-us", decisive: "has been deleted", make: server_is_gone },
    Trouble { name: "edge-17", decisive: "Node has been deleted", make: node_is_deleted },
    Trouble { name: "search-eu", decisive: "container runtime is down", make: runtime_is_down },
    Trouble { name: "search-us", decisive: "none is replaced", make: check_may_not_act },
    Trouble { name: "orders-ap", decisive: "disruption budget", make: budget_holds },
    Trouble { name: "legacy-dc", decisive: "is being deleted", make: finalizer_stays },
    Trouble {
        name: "prod-eu-central-1-payments",
        decisive: "newer than its control plane",
        make: workers_above,
    },
    Trouble { name: "media", decisive: "DevMachineTemplate does not", make: template_is_missing },
    Trouble { name: "ledger", decisive: "kubelet has stopped reporting", make: kubelets_are_silent },
];

/// Clusters that are well, and among them those in trouble; `many` of all.
pub fn troubled(many: usize) -> Builder {
    let mut b = Builder::default();
    for at in 0..many.saturating_sub(TROUBLES.len()) {
        super::sample::well(&mut b, &format!("team-{}-fleet-{at:04}", at % 7), 2);
    }
    for trouble in &TROUBLES {
        (trouble.make)(&mut Place::of(trouble.name, &mut b));
    }
    b
}

/// The same with a cluster that rolls out and one that comes up.
pub fn every_state() -> Builder {
    let mut b = troubled(TROUBLES.len() + 3);
    super::sample::rolling(&mut b);
    super::sample::creating(&mut b);
    b
}

/// Where a cluster's objects are made: three control plane Machines, and a pool of two.
struct Place<'b> {
    b: &'b mut Builder,
    name: &'static str,
    /// Of the Cluster, once it is made.
    uid: String,
}

/// The conditions of a Machine that came to be unwell so many minutes ago.
fn unwell<'a>(minutes: i64, changed: &[Condition<'a>], message: &'a str) -> Vec<Condition<'a>> {
    let summary =
        [("Available", "False", "NotReady", "", minutes), ("Ready", "False", "NotReady", message, minutes)];
    but(&but(MACHINE_WELL, &summary), changed)
}

impl<'b> Place<'b> {
    fn of(name: &'static str, b: &'b mut Builder) -> Self {
        Self { b, name, uid: String::new() }
    }

    /// Everything but one worker, whose set and deployment say what they lack.
    fn but_one_worker(&mut self, minutes: i64, message: &str) -> (String, String) {
        let lack = format!("* Machine {}-md-0-7vj9c-x8f4z:\n  {message}", self.name);
        let available = [("Available", "False", "NotAvailable", lack.as_str(), minutes)];
        self.planes(&but(WELL, &available), MACHINE_WELL);
        self.pool(
            "v1.35.1",
            [2, 2, 1, 1, 2],
            &but(
                WELL,
                &[(
                    "Available",
                    "False",
                    "NotAvailable",
                    "1 available replicas, at least 2 required",
                    minutes,
                )],
            ),
        )
    }

    fn planes(&mut self, cluster: &[Condition<'_>], machines: &[Condition<'_>]) {
        let (name, cp) = (self.name, format!("{}-cp", self.name));
        let uid = self.b.cluster(name, 20_000, "Provisioned", [3; 5], [2, 2, 1, 1, 2], cluster);
        let kcp =
            self.b.set("KubeadmControlPlane", &cp, ("Cluster", name, &uid), name, "v1.35.1", [3; 5], WELL);
        self.uid = uid;
        for suffix in ["4x7tq", "9kdpl", "w2mzn"] {
            let owner = ("KubeadmControlPlane", cp.as_str(), kcp.as_str());
            let all = if suffix == "4x7tq" { MACHINE_WELL } else { machines };
            self.b.machine(&format!("{cp}-{suffix}"), owner, name, "v1.35.1", 19_000, "Running", all);
        }
    }

    /// A deployment with a set and one Machine that is well. Answers the set, by name and uid.
    fn pool(&mut self, version: &str, counts: [u32; 5], all: &[Condition<'_>]) -> (String, String) {
        let (name, md) = (self.name, format!("{}-md-0", self.name));
        let cluster = self.uid.clone();
        let uid =
            self.b.set("MachineDeployment", &md, ("Cluster", name, &cluster), name, version, counts, all);
        let ms = format!("{md}-7vj9c");
        let set = self.b.set("MachineSet", &ms, ("MachineDeployment", &md, &uid), name, version, counts, all);
        let owner = ("MachineSet", ms.as_str(), set.as_str());
        self.b.machine(&format!("{ms}-5kx2w"), owner, name, version, 19_000, "Running", MACHINE_WELL);
        (ms, set)
    }

    fn worker(&mut self, set: &(String, String), minutes: i64, phase: &str, all: &[Condition<'_>]) {
        let owner = ("MachineSet", set.0.as_str(), set.1.as_str());
        self.b.machine(&format!("{}-x8f4z", set.0), owner, self.name, "v1.35.1", minutes, phase, all);
    }

    /// The Machine that was added last is being deleted.
    fn going(&mut self, minutes: i64) {
        let object = self.b.objects.last_mut().expect("an object");
        object["metadata"]["deletionTimestamp"] = ago(minutes).into();
        object["metadata"]["finalizers"] = json!(["machine.cluster.x-k8s.io"]);
        object["status"]["deletion"] = json!({"nodeDrainStartTime": ago(minutes - 2)});
    }

    /// The object that was added last, changed.
    fn last(&mut self, pointer: &str, value: Value) {
        let object = self.b.objects.last_mut().expect("an object");
        *object.pointer_mut(pointer).expect("a field") = value;
    }
}

fn server_never_starts(at: &mut Place<'_>) {
    let message = "* VMProvisioned: WaitingForStartupTimeout\n* NodeProvisioned: WaitingForVMProvisioned";
    let set = at.but_one_worker(40, "* InfrastructureReady: VMProvisioned: WaitingForStartupTimeout");
    let missing = [
        ("InfrastructureReady", "False", "NotReady", message, 40),
        ("NodeReady", "Unknown", "InspectionFailed", "Waiting for DevMachine to report spec.providerID", 40),
        (
            "NodeHealthy",
            "Unknown",
            "InspectionFailed",
            "Waiting for DevMachine to report spec.providerID",
            40,
        ),
    ];
    at.worker(
        &set,
        40,
        "Provisioning",
        &unwell(40, &missing, "* InfrastructureReady: VMProvisioned: WaitingForStartupTimeout"),
    );
}

fn no_bootstrap_data(at: &mut Place<'_>) {
    let message = "KubeadmConfig status.initialization.dataSecretCreated is false";
    let set = at.but_one_worker(
        40,
        "* BootstrapConfigReady: KubeadmConfig status.initialization.dataSecretCreated is false",
    );
    let missing = [
        ("BootstrapConfigReady", "False", "NotReady", message, 40),
        ("InfrastructureReady", "False", "NotReady", "* VMProvisioned: WaitingForBootstrapData", 40),
        ("NodeReady", "Unknown", "InspectionFailed", "", 40),
        ("NodeHealthy", "Unknown", "InspectionFailed", "", 40),
    ];
    at.worker(&set, 40, "Pending", &unwell(40, &missing, message));
}

fn server_is_gone(at: &mut Place<'_>) {
    let set = at.but_one_worker(
        12,
        "* InfrastructureReady: DevMachine has been deleted while the Machine still exists",
    );
    let missing = [(
        "InfrastructureReady",
        "False",
        "Deleted",
        "DevMachine has been deleted while the Machine still exists",
        12,
    )];
    at.worker(
        &set,
        19_000,
        "Running",
        &unwell(
            12,
            &missing,
            "* InfrastructureReady: DevMachine has been deleted while the Machine still exists",
        ),
    );
}

fn node_is_deleted(at: &mut Place<'_>) {
    let set = at.but_one_worker(
        12,
        "* NodeHealthy: Node edge-17-md-0-7vj9c-x8f4z has been deleted while the Machine still exists",
    );
    let message = "Node edge-17-md-0-7vj9c-x8f4z has been deleted while the Machine still exists";
    let missing = [
        ("NodeReady", "False", "NodeDeleted", message, 12),
        ("NodeHealthy", "False", "NodeDeleted", message, 12),
    ];
    at.worker(&set, 19_000, "Running", &unwell(12, &missing, message));
}

const RUNTIME: &str = "* Node.Ready: container runtime is down";

fn runtime_is_down(at: &mut Place<'_>) {
    let set = at.but_one_worker(22, "* NodeHealthy:\n    * Node.Ready: container runtime is down");
    let missing = [
        ("NodeReady", "False", "NodeNotReady", "container runtime is down", 22),
        ("NodeHealthy", "False", "NodeNotHealthy", RUNTIME, 22),
    ];
    at.worker(
        &set,
        19_000,
        "Running",
        &unwell(22, &missing, "* NodeHealthy: Node.Ready: container runtime is down"),
    );
}

fn check_may_not_act(at: &mut Place<'_>) {
    let set = at.but_one_worker(22, "* NodeHealthy: Node.Ready: container runtime is down");
    let checked = "Health check failed: Condition Ready on Node is reporting status False for more than 300s";
    let missing = [
        ("NodeReady", "False", "NodeNotReady", "container runtime is down", 22),
        ("NodeHealthy", "False", "NodeNotHealthy", RUNTIME, 22),
        ("HealthCheckSucceeded", "False", "UnhealthyNode", checked, 17),
    ];
    at.worker(&set, 19_000, "Running", &unwell(22, &missing, "* HealthCheckSucceeded: Health check failed"));
    at.last("/metadata/labels", json!({"cluster.x-k8s.io/cluster-name": at.name, "pool": "a"}));
    let denied = "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy (total: 1, unhealthy: 1, maxUnhealthy: 0)";
    let rest = json!({
        "metadata": {"labels": {"cluster.x-k8s.io/cluster-name": at.name}},
        "spec": {"clusterName": at.name, "selector": {"matchLabels": {"pool": "a"}},
            "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": 0}}},
        "status": {"expectedMachines": 1, "currentHealthy": 0, "conditions": [
            {"type": "RemediationAllowed", "status": "False", "reason": "TooManyUnhealthy", "message": denied,
             "lastTransitionTime": ago(17)}]},
    });
    at.b.add("MachineHealthCheck", &format!("{}-workers", at.name), None, 20_000, rest);
}

const BUDGET: &str = "Drain not completed yet (started at 2026-11-20T11:40:00Z):\n\
                      * Pod web/shop-7f9c4: cannot evict pod as it would violate the pod's disruption budget. The disruption budget shop needs 1 healthy pods and has 1 currently";

fn budget_holds(at: &mut Place<'_>) {
    let set = at.but_one_worker(22, "* Deleting: Machine deletion in progress, stage: DrainingNode");
    at.worker(
        &set,
        19_000,
        "Deleting",
        &unwell(
            22,
            &[("Deleting", "True", "DrainingNode", BUDGET, 20)],
            "* Deleting: Machine deletion in progress, stage: DrainingNode",
        ),
    );
    at.going(22);
}

fn finalizer_stays(at: &mut Place<'_>) {
    let message = "* DevMachine legacy-dc-md-0-7vj9c-x8f4z is being deleted";
    let set = at.but_one_worker(32, "* Deleting: Machine deletion in progress since more than 15m, stage: WaitingForInfrastructureDeletion");
    at.worker(
        &set,
        19_000,
        "Deleting",
        &unwell(32, &[("Deleting", "True", "WaitingForInfrastructureDeletion", message, 32)], message),
    );
    at.going(32);
}

fn workers_above(at: &mut Place<'_>) {
    let message = "Scaling up from 1 to 2 replicas is blocked because:\n\
                   * MachineSet version (1.36.0) and ControlPlane version (1.35.1) do not conform to the Kubernetes version skew policy as MachineSet version is higher than ControlPlane version (\"KubernetesVersionSkew\" preflight check failed)";
    at.planes(WELL, MACHINE_WELL);
    let held = but(WELL, &[("ScalingUp", "True", "ScalingUp", message, 22)]);
    at.pool("v1.36.0", [2, 1, 1, 1, 1], &held);
}

fn template_is_missing(at: &mut Place<'_>) {
    let message = "Scaling up from 1 to 2 replicas is blocked because:\n* DevMachineTemplate does not exist";
    at.planes(WELL, MACHINE_WELL);
    at.pool("v1.35.1", [2, 1, 1, 1, 1], &but(WELL, &[("ScalingUp", "True", "ScalingUp", message, 22)]));
}

fn kubelets_are_silent(at: &mut Place<'_>) {
    let silent = [
        ("NodeReady", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", 12),
        (
            "NodeHealthy",
            "Unknown",
            "NodeHealthUnknown",
            "* Node.Ready: Kubelet stopped posting node status.",
            12,
        ),
    ];
    let lost = "* Machines ledger-cp-9kdpl, ledger-cp-w2mzn:\n  * NodeHealthy: Node.Ready: Kubelet stopped posting node status.";
    at.planes(
        &but(WELL, &[("Available", "False", "NotAvailable", lost, 12)]),
        &unwell(12, &silent, "* NodeHealthy: Node.Ready: Kubelet stopped posting node status."),
    );
    at.pool("v1.35.1", [1; 5], WELL);
}
