//! One cluster in every moment of a rollout.

use capstan_base::time::rfc3339;
use capstan_dashboard::fleet::Delta;
use serde_json::{Value, json};

use super::{Builder, Condition, MACHINE_WELL, WELL, ago, but, merge, now};

/// One cluster as it is in the middle of a rollout, or before or after it: a control plane of three and two deployments.
pub struct RollingCluster {
    b: Builder,
    name: &'static str,
    plane: String,
    cluster: String,
}

/// What an owner says of itself.
pub struct OwnerState<'a> {
    pub version: &'a str,
    pub replicas: u32,
    pub conditions: Vec<Condition<'a>>,
    /// Merged into its `spec`.
    pub spec: Value,
}

impl<'a> OwnerState<'a> {
    /// Nothing to replace.
    pub fn settled(version: &'a str, replicas: u32) -> Self {
        Self { version, replicas, conditions: WELL.to_vec(), spec: json!({}) }
    }

    /// It says that it rolls, for so many minutes.
    pub fn rolling(version: &'a str, replicas: u32, minutes: i64) -> Self {
        let rolling = [("RollingOut", "True", "RollingOut", "Rolling out not up-to-date replicas", minutes)];
        Self { conditions: but(WELL, &rolling), ..Self::settled(version, replicas) }
    }
}

impl RollingCluster {
    pub fn new(name: &'static str, plane: OwnerState<'_>) -> Self {
        Self::of_cluster(name, plane, json!({}))
    }

    /// `rest` is merged into the Cluster.
    pub fn of_cluster(name: &'static str, plane: OwnerState<'_>, rest: Value) -> Self {
        let mut b = Builder::default();
        let n = plane.replicas;
        let conditions = but(
            WELL,
            &[
                ("ControlPlaneInitialized", "True", "Initialized", "", 90_000),
                ("InfrastructureReady", "True", "Ready", "", 90_000),
            ],
        );
        let cluster = b.cluster(name, 90_000, "Provisioned", [n; 5], [4; 5], &conditions);
        merge(b.objects.last_mut().expect("the Cluster"), rest);
        let mut all = Self { b, name, plane: String::new(), cluster };
        all.plane = all.owner("KubeadmControlPlane", "cp", ("Cluster", name, all.cluster.clone()), plane);
        all
    }

    /// A MachinePool whose Machines are its provider's alone.
    pub fn pool(&mut self, suffix: &str, state: OwnerState<'_>) {
        self.owner("MachinePool", suffix, ("Cluster", self.name, self.cluster.clone()), state);
    }

    fn owner(
        &mut self,
        kind: &str,
        suffix: &str,
        owner: (&str, &str, String),
        state: OwnerState<'_>,
    ) -> String {
        let counts = [state.replicas; 5];
        let (name, owner) = (format!("{}-{suffix}", self.name), (owner.0, owner.1, owner.2.as_str()));
        let uid = self.b.set(kind, &name, owner, self.name, state.version, counts, &state.conditions);
        let object = self.b.objects.last_mut().expect("the owner");
        object["metadata"]["creationTimestamp"] = json!(ago(80_000));
        merge(&mut object["spec"], state.spec);
        uid
    }

    /// A deployment with one MachineSet per version, the new one last; `blocked` is what the new one waits for.
    pub fn deployment(
        &mut self,
        suffix: &str,
        state: OwnerState<'_>,
        sets: &[&str],
        blocked: &str,
    ) -> Vec<(String, String)> {
        let version = state.version.to_owned();
        let cluster = ("Cluster", self.name, self.cluster.clone());
        let uid = self.owner("MachineDeployment", suffix, cluster, state);
        let deployment = format!("{}-{suffix}", self.name);
        let mut made = Vec::new();
        for (at, set) in sets.iter().enumerate() {
            let mut of_set = OwnerState::settled(&version, 2);
            if at + 1 == sets.len() && !blocked.is_empty() {
                let message = format!("Scaling up from 0 to 2 replicas is blocked because:\n* {blocked}");
                of_set.conditions =
                    but(WELL, &[("ScalingUp", "True", "ScalingUp", Box::leak(message.into_boxed_str()), 4)]);
            }
            let name = format!("{suffix}-{set}");
            let owner = ("MachineDeployment", deployment.as_str(), uid.clone());
            made.push((format!("{}-{name}", self.name), self.owner("MachineSet", &name, owner, of_set)));
        }
        made
    }

    /// A Machine of the control plane.
    pub fn control_plane_machine(&mut self, suffix: &str, version: &str, state: &MachineState<'_>) {
        let owner = ("KubeadmControlPlane", format!("{}-cp", self.name), self.plane.clone());
        self.machine(&format!("cp-{suffix}"), (owner.0, &owner.1, &owner.2), version, state);
    }

    /// A Machine of a MachineSet that [`Self::deployment`] made.
    pub fn worker(&mut self, set: &(String, String), suffix: &str, version: &str, state: &MachineState<'_>) {
        let name = format!("{}-{suffix}", set.0.trim_start_matches(self.name).trim_start_matches('-'));
        self.machine(&name, ("MachineSet", &set.0, &set.1), version, state);
    }

    fn machine(&mut self, name: &str, owner: (&str, &str, &str), version: &str, state: &MachineState<'_>) {
        let (name, phase) = (format!("{}-{name}", self.name), state.phase());
        self.b.machine(&name, owner, self.name, version, 0, phase, &state.conditions());
        let object = self.b.objects.last_mut().expect("the Machine");
        let seconds_ago = |seconds: i64| rfc3339(now() - chrono::Duration::seconds(seconds));
        object["metadata"]["creationTimestamp"] = json!(seconds_ago(state.made()));
        if let MachineState::Deleting { asked_s, .. } = state {
            object["metadata"]["deletionTimestamp"] = json!(seconds_ago(*asked_s));
        }
        for c in object["status"]["conditions"].as_array_mut().expect("a list") {
            let made_s = state.made();
            let seconds = match (state, c["type"].as_str()) {
                (MachineState::Deleting { asked_s, .. }, Some("Deleting")) => *asked_s,
                (_, Some("UpToDate")) if !matches!(state, MachineState::New { .. }) => continue,
                (_, Some("BootstrapConfigReady")) => made_s - 4,
                (MachineState::Starting { .. }, _) => made_s - 2,
                (_, Some("InfrastructureReady")) => made_s - 26,
                (
                    MachineState::New { up_s, .. },
                    Some("Ready" | "Available" | "NodeHealthy" | "NodeReady"),
                ) => made_s - up_s,
                (_, Some("Ready" | "Available" | "NodeHealthy" | "NodeReady")) => made_s - 60,
                _ => made_s - 2,
            };
            c["lastTransitionTime"] = json!(seconds_ago(seconds));
        }
    }

    pub fn deltas(self) -> Vec<Delta> {
        self.b.deltas()
    }
}

/// How a Machine is; times in seconds before now.
pub enum MachineState<'a> {
    Old,
    /// Made so long ago, and up so many seconds later.
    New {
        made_s: i64,
        up_s: i64,
    },
    Starting {
        made_s: i64,
    },
    Deleting {
        asked_s: i64,
        reason: &'a str,
        message: &'a str,
    },
}

impl<'a> MachineState<'a> {
    fn made(&self) -> i64 {
        match self {
            Self::Old | Self::Deleting { .. } => 3_000_000,
            Self::New { made_s, .. } | Self::Starting { made_s } => *made_s,
        }
    }

    fn phase(&self) -> &'static str {
        match self {
            Self::Old | Self::New { .. } => "Running",
            Self::Starting { .. } => "Provisioning",
            Self::Deleting { .. } => "Deleting",
        }
    }

    fn conditions(&self) -> Vec<Condition<'a>> {
        const NOT_UP_TO_DATE: Condition<'static> =
            ("UpToDate", "False", "NotUpToDate", "* Version v1.34.3, v1.35.1 required", 7);
        match self {
            Self::New { .. } => MACHINE_WELL.to_vec(),
            Self::Old => but(MACHINE_WELL, &[NOT_UP_TO_DATE]),
            Self::Deleting { reason, message, .. } => {
                but(MACHINE_WELL, &[NOT_UP_TO_DATE, ("Deleting", "True", reason, message, 1)])
            }
            Self::Starting { .. } => but(
                MACHINE_WELL,
                &[
                    ("Available", "False", "NotReady", "", 1),
                    ("Ready", "False", "NotReady", "* InfrastructureReady: VM is being provisioned", 1),
                    ("InfrastructureReady", "False", "NotReady", "VM is being provisioned", 1),
                    ("NodeReady", "Unknown", "NodeInspectionPending", "", 1),
                    ("NodeHealthy", "Unknown", "NodeInspectionPending", "", 1),
                ],
            ),
        }
    }
}

/// A deployment that waits because the control plane is upgraded first.
pub const CONTROL_PLANE_UPGRADING: &str =
    "KubeadmControlPlane prod/rolling-cp is upgrading (\"ControlPlaneIsStable\" preflight check failed)";

/// A control plane in the middle of its rollout, workers that wait for it, and workers whose rollout is scheduled.
pub fn rolling_cluster() -> Vec<Delta> {
    let mut c = RollingCluster::new("rolling", OwnerState::rolling("v1.35.1", 3, 4));
    c.control_plane_machine("8gtlh", "v1.34.3", &MachineState::Old);
    c.control_plane_machine("lkcfv", "v1.34.3", &MachineState::Old);
    c.control_plane_machine("85qjm", "v1.35.1", &MachineState::New { made_s: 120, up_s: 58 });
    c.control_plane_machine("lnwmv", "v1.35.1", &MachineState::Starting { made_s: 15 });
    let sets = c.deployment(
        "md-0",
        OwnerState::rolling("v1.35.1", 2, 4),
        &["h4tbp", "hkmbd"],
        CONTROL_PLANE_UPGRADING,
    );
    for suffix in ["l9smf", "psqxz"] {
        c.worker(&sets[0], suffix, "v1.34.3", &MachineState::Old);
    }
    let after = rfc3339(now() + chrono::Duration::minutes(475));
    let web = OwnerState { spec: json!({"rollout": {"after": after}}), ..OwnerState::settled("v1.34.3", 2) };
    let sets = c.deployment("web", web, &["7vj9c"], "");
    for suffix in ["5tbhc", "lq2sx"] {
        c.worker(&sets[0], suffix, "v1.34.3", &MachineState::New { made_s: 900_000, up_s: 60 });
    }
    c.deltas()
}
