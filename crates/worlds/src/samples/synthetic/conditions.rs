//! The conditions of synthetic objects: a table of the healthy ones per kind, laid over with what a
//! state changes, and the sentences that report it upwards. Source of the order and the sentences:
//! cluster-api v1.14.2 as observed; nothing here is computed the way a controller computes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::census::State;

/// Type, status and reason of a condition that reports nothing.
pub(super) type Settled = (&'static str, &'static str, &'static str);

const T: &str = "True";
const F: &str = "False";

const BOOTSTRAP_READY: Settled = ("BootstrapConfigReady", T, "Ready");
const NOT_ROLLING: Settled = ("RollingOut", F, "NotRollingOut");
const NOT_REMEDIATING: Settled = ("Remediating", F, "NotRemediating");
const NOT_SCALING_DOWN: Settled = ("ScalingDown", F, "NotScalingDown");
const NOT_SCALING_UP: Settled = ("ScalingUp", F, "NotScalingUp");
const MACHINES_READY: Settled = ("MachinesReady", T, "Ready");
const MACHINES_UP_TO_DATE: Settled = ("MachinesUpToDate", T, "UpToDate");
const NOT_PAUSED: Settled = ("Paused", F, "NotPaused");
const NOT_DELETING: Settled = ("Deleting", F, "NotDeleting");

pub(super) const CLUSTER: &[Settled] = &[
    ("Available", T, "Available"),
    ("RemoteConnectionProbe", T, "ProbeSucceeded"),
    ("InfrastructureReady", T, "Ready"),
    ("ControlPlaneInitialized", T, "Initialized"),
    ("ControlPlaneAvailable", T, "Available"),
    ("WorkersAvailable", T, "Available"),
    NOT_ROLLING,
    NOT_REMEDIATING,
    NOT_SCALING_DOWN,
    NOT_SCALING_UP,
    ("ControlPlaneMachinesReady", T, "Ready"),
    ("WorkerMachinesReady", T, "Ready"),
    ("ControlPlaneMachinesUpToDate", T, "UpToDate"),
    ("WorkerMachinesUpToDate", T, "UpToDate"),
    NOT_PAUSED,
    NOT_DELETING,
];

pub(super) const CONTROL_PLANE: &[Settled] = &[
    ("Available", T, "Available"),
    ("CertificatesAvailable", T, "Available"),
    ("Initialized", T, "Initialized"),
    ("EtcdClusterHealthy", T, "Healthy"),
    ("ControlPlaneComponentsHealthy", T, "Healthy"),
    NOT_ROLLING,
    NOT_REMEDIATING,
    NOT_SCALING_DOWN,
    NOT_SCALING_UP,
    MACHINES_READY,
    MACHINES_UP_TO_DATE,
    NOT_PAUSED,
    NOT_DELETING,
];

pub(super) const MACHINE_DEPLOYMENT: &[Settled] = &[
    ("Available", T, "Available"),
    NOT_ROLLING,
    NOT_REMEDIATING,
    NOT_SCALING_DOWN,
    NOT_SCALING_UP,
    MACHINES_READY,
    MACHINES_UP_TO_DATE,
    NOT_PAUSED,
    NOT_DELETING,
];

pub(super) const MACHINE_SET: &[Settled] = &[
    NOT_REMEDIATING,
    NOT_SCALING_DOWN,
    NOT_SCALING_UP,
    MACHINES_READY,
    MACHINES_UP_TO_DATE,
    NOT_PAUSED,
    NOT_DELETING,
];

pub(super) const WORKER: &[Settled] = &[
    ("Available", T, "Available"),
    ("Ready", T, "Ready"),
    ("UpToDate", T, "UpToDate"),
    ("BootstrapConfigReady", T, "DataSecretProvided"),
    ("InfrastructureReady", T, "Ready"),
    ("NodeHealthy", T, "NodeHealthy"),
    ("NodeReady", T, "NodeReady"),
    ("Updating", F, "NotUpdating"),
    NOT_PAUSED,
    NOT_DELETING,
];

pub(super) const CONTROL_PLANE_MACHINE: &[Settled] = &[
    ("Available", T, "Available"),
    ("Ready", T, "Ready"),
    ("UpToDate", T, "UpToDate"),
    BOOTSTRAP_READY,
    ("InfrastructureReady", T, "Ready"),
    ("NodeHealthy", T, "NodeHealthy"),
    ("NodeReady", T, "NodeReady"),
    ("NodeKubeadmLabelsAndTaintsSet", T, "Set"),
    ("EtcdPodHealthy", T, "Running"),
    ("EtcdMemberHealthy", T, "Healthy"),
    ("APIServerPodHealthy", T, "Running"),
    ("ControllerManagerPodHealthy", T, "Running"),
    ("SchedulerPodHealthy", T, "Running"),
    ("Updating", F, "NotUpdating"),
    NOT_PAUSED,
    NOT_DELETING,
];

pub(super) const DEV_CLUSTER: &[Settled] = &[("Ready", T, "Ready"), NOT_PAUSED];

pub(super) const DEV_WORKER: &[Settled] = &[
    ("Ready", T, "Ready"),
    ("NodeProvisioned", T, "Provisioned"),
    ("VMProvisioned", T, "Provisioned"),
    NOT_PAUSED,
];

pub(super) const DEV_CONTROL_PLANE_MACHINE: &[Settled] = &[
    ("Ready", T, "Ready"),
    ("APIServerProvisioned", T, "Provisioned"),
    ("EtcdProvisioned", T, "Provisioned"),
    ("NodeProvisioned", T, "Provisioned"),
    ("VMProvisioned", T, "Provisioned"),
    NOT_PAUSED,
];

pub(super) const KUBEADM_CONFIG: &[Settled] = &[
    ("Ready", T, "Ready"),
    ("CertificatesAvailable", T, "Available"),
    ("DataSecretAvailable", T, "Available"),
    NOT_PAUSED,
];

/// A condition that reports something.
#[derive(Clone, Debug)]
pub(super) struct Deviation {
    type_: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

/// Not what it should be, for conditions whose good state is `True`.
pub(super) fn failed(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Deviation {
    Deviation { type_, status: F, reason, message: message.into() }
}

/// Going on, for conditions whose quiet state is `False`. The reason is the type.
pub(super) fn ongoing(type_: &'static str, message: impl Into<String>) -> Deviation {
    Deviation { type_, status: T, reason: type_, message: message.into() }
}

fn unknown(type_: &'static str, reason: &'static str, message: &str) -> Deviation {
    Deviation { type_, status: "Unknown", reason, message: message.to_owned() }
}

/// When conditions became what they are: the quiet ones, and the loud ones.
#[derive(Clone, Copy)]
pub(super) struct Since<'a> {
    pub quiet: &'a str,
    pub loud: &'a str,
}

/// The table with the loud conditions in their places.
pub(super) fn list(table: &[Settled], loud: &[Deviation], since: Since<'_>, generation: u64) -> Vec<Value> {
    let condition = |&(type_, status, reason): &Settled| match loud.iter().find(|loud| loud.type_ == type_) {
        Some(loud) => entry((type_, loud.status, loud.reason), &loud.message, since.loud, generation),
        None => entry((type_, status, reason), "", since.quiet, generation),
    };
    table.iter().map(condition).collect()
}

fn entry((type_, status, reason): Settled, message: &str, since: &str, generation: u64) -> Value {
    json!({
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": generation,
    })
}

const VM_WAITING: &str =
    "* VMProvisioned: WaitingForStartupTimeout\n* NodeProvisioned: WaitingForVMProvisioned";
const NO_PROVIDER_ID: &str = "Waiting for DevMachine to report spec.providerID";
const NODE_TROUBLE: &str = "* Node.Ready: container runtime is down";
const ETCD_ALARM: &str = "Etcd reports alarms: NOSPACE";

/// Why a machine in this state is not ready; empty when it is.
pub(super) fn trouble(state: State) -> String {
    match state {
        State::Running | State::Outdated => String::new(),
        State::Provisioning => {
            format!("* InfrastructureReady:{}\n* NodeHealthy: {NO_PROVIDER_ID}", nested(VM_WAITING))
        }
        State::NodeDown => format!("* NodeHealthy:{}", nested(NODE_TROUBLE)),
        State::EtcdAlarm => format!("* EtcdMemberHealthy: {ETCD_ALARM}"),
    }
}

/// What an outdated machine says.
pub(super) fn outdated(has: &str, wants: &str) -> String {
    format!("* Version {has}, {wants} required")
}

/// The loud conditions of a machine; `version` is what it has and what its owner wants.
pub(super) fn machine(state: State, version: (&str, &str)) -> Vec<Deviation> {
    let mut loud = match state {
        State::Running => Vec::new(),
        State::Outdated => vec![failed("UpToDate", "NotUpToDate", outdated(version.0, version.1))],
        State::Provisioning => vec![
            failed("InfrastructureReady", "NotReady", VM_WAITING),
            unknown("NodeHealthy", "InspectionFailed", NO_PROVIDER_ID),
            unknown("NodeReady", "InspectionFailed", NO_PROVIDER_ID),
        ],
        State::NodeDown => vec![
            failed("NodeHealthy", "NodeNotHealthy", NODE_TROUBLE),
            failed("NodeReady", "NodeNotReady", NODE_TROUBLE),
        ],
        State::EtcdAlarm => vec![failed("EtcdMemberHealthy", "NotHealthy", ETCD_ALARM)],
    };
    if !state.ready() {
        loud.push(failed("Available", "NotReady", ""));
        loud.push(failed("Ready", "NotReady", trouble(state)));
    }
    loud
}

/// The loud conditions of an infrastructure machine.
pub(super) fn infrastructure_machine(state: State) -> Vec<Deviation> {
    if state != State::Provisioning {
        return Vec::new();
    }
    vec![
        failed("Ready", "NotReady", VM_WAITING),
        failed("NodeProvisioned", "WaitingForVMProvisioned", ""),
        failed("VMProvisioned", "WaitingForStartupTimeout", ""),
    ]
}

/// One object's report upwards: kind, name, message.
pub(super) type Report = (&'static str, String, String);

/// How a report of many objects reads: same messages together, at most three.
pub(super) fn aggregate(reports: &[Report]) -> String {
    let mut grouped: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for (kind, name, message) in reports {
        grouped.entry(kind).or_default().entry(message).or_default().push(name);
    }
    let (mut lines, mut left) = (Vec::new(), 3_usize);
    for (kind, messages) in grouped {
        let mut messages: Vec<_> = messages.into_iter().collect();
        // The sort is stable: equally frequent messages stay in the order of their texts.
        messages.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
        let rest = messages.split_off(messages.len().min(left));
        left -= messages.len();
        lines.extend(
            messages
                .into_iter()
                .map(|(message, names)| format!("* {}:{}", title(kind, names), nested(message))),
        );
        match rest.iter().map(|(_, names)| names.len()).sum::<usize>() {
            0 => {}
            1 => lines.push(format!("And 1 {kind} with other issues")),
            count => lines.push(format!("And {count} {kind}s with other issues")),
        }
    }
    lines.join("\n")
}

fn title(kind: &str, mut names: Vec<&str>) -> String {
    names.sort_unstable();
    let mut title = if names.len() == 1 { format!("{kind} ") } else { format!("{kind}s ") };
    title.push_str(&names[..names.len().min(3)].join(", "));
    if names.len() > 3 {
        let _ = write!(title, ", ... ({} more)", names.len() - 3);
    }
    title
}

/// A message below a title: on the same line, or indented on lines of its own.
pub(super) fn nested(message: &str) -> String {
    let bulleted = |line: &str| line.trim_start().starts_with("* ");
    if !message.contains('\n') && !bulleted(message) {
        return format!(" {message}");
    }
    let all = message.lines().all(bulleted);
    let indent = |line: &str| match (all, bulleted(line)) {
        (true, _) => format!("\n  {line}"),
        (false, true) => format!("\n    {line}"),
        (false, false) => format!("\n  * {line}"),
    };
    message.lines().map(indent).collect()
}
