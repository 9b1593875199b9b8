//! What the condition types of Cluster API's kinds mean: one table, in the order in which an object lists
//! them, and which of them add up to another. Every reader of conditions (the status rules, the verdicts,
//! the screens, the samples' tests) asks here. Must not know when a condition holds: that is `status`.
//! Source: cluster-api `api/core/v1beta2/*_types.go`, `util/conditions/sort.go`, v1.14.2.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

/// Which value of a condition is the healthy one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polarity {
    /// `True` is healthy.
    Positive,
    /// `False` is healthy.
    Negative,
}

/// What a condition says about its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// What other conditions of the object, or of the objects below it, add up to.
    Summary,
    /// One thing that the object needs.
    Part,
    /// One thing that the object needs and that the objects below it cannot explain.
    Root,
    /// `True` while the object is on its way to what is wanted.
    Move,
    /// Where the object is in its own life: paused, deleting.
    Life,
}

/// What is known of a condition type, whoever writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionType {
    /// As it stands in a status.
    pub name: &'static str,
    /// Whether `True` is the healthy value.
    pub polarity: Polarity,
    /// What `True` or `False` of it means for a cause: a summary explains nothing, a root explains its object.
    pub role: Role,
    /// Its message names what it is about, so that it reads well without the type in front.
    pub message_names_type: bool,
}

const fn positive(name: &'static str, role: Role) -> ConditionType {
    ConditionType { name, polarity: Polarity::Positive, role, message_names_type: false }
}

const fn negative(name: &'static str, role: Role) -> ConditionType {
    ConditionType { name, polarity: Polarity::Negative, role, message_names_type: false }
}

const fn named(type_: ConditionType) -> ConditionType {
    ConditionType { message_names_type: true, ..type_ }
}

/// Every type, in the order of a stored list. Types that are not here come before the last two, by name.
pub const CONDITION_TYPES: [ConditionType; 37] = [
    named(positive("Available", Role::Summary)),
    named(positive("Ready", Role::Summary)),
    positive("UpToDate", Role::Part),
    positive("RemoteConnectionProbe", Role::Root),
    positive("BootstrapConfigReady", Role::Part),
    positive("InfrastructureReady", Role::Part),
    positive("ControlPlaneInitialized", Role::Part),
    positive("ControlPlaneAvailable", Role::Summary),
    positive("WorkersAvailable", Role::Summary),
    positive("CertificatesAvailable", Role::Part),
    positive("Initialized", Role::Part),
    positive("EtcdClusterHealthy", Role::Summary),
    positive("ControlPlaneComponentsHealthy", Role::Summary),
    positive("NodeHealthy", Role::Part),
    positive("NodeReady", Role::Part),
    positive("NodeKubeadmLabelsAndTaintsSet", Role::Part),
    positive("EtcdPodHealthy", Role::Part),
    positive("EtcdMemberHealthy", Role::Part),
    positive("APIServerPodHealthy", Role::Part),
    positive("ControllerManagerPodHealthy", Role::Part),
    positive("SchedulerPodHealthy", Role::Part),
    positive("HealthCheckSucceeded", Role::Part),
    positive("OwnerRemediated", Role::Part),
    positive("TopologyReconciled", Role::Root),
    negative("Updating", Role::Move),
    named(negative("RollingOut", Role::Move)),
    negative("Remediating", Role::Move),
    named(negative("ScalingDown", Role::Move)),
    named(negative("ScalingUp", Role::Move)),
    positive("MachinesReady", Role::Summary),
    positive("ControlPlaneMachinesReady", Role::Summary),
    positive("WorkerMachinesReady", Role::Summary),
    positive("MachinesUpToDate", Role::Summary),
    positive("ControlPlaneMachinesUpToDate", Role::Summary),
    positive("WorkerMachinesUpToDate", Role::Summary),
    negative("Paused", Role::Life),
    negative("Deleting", Role::Life),
];

/// The place of types that are not in the table: behind the others, before `Paused` and `Deleting`.
const UNKNOWN_PLACE: usize = CONDITION_TYPES.len() - 2;

/// What a Machine's `Ready` adds up besides `Deleting`, `Updating` and the Machine's readiness gates, in the
/// order in which it names them. Source: `setReadyCondition` in `machine_controller_status.go`.
pub const MACHINE_READY_PARTS: [&str; 4] =
    ["BootstrapConfigReady", "InfrastructureReady", "NodeHealthy", "HealthCheckSucceeded"];

/// The readiness gates of a control plane Machine; the last two only where kubeadm runs etcd.
/// Source: `controlplane/kubeadm/internal/desiredstate`, `MandatoryMachineReadinessGates`.
pub const CONTROL_PLANE_GATES: [&str; 6] = [
    "NodeKubeadmLabelsAndTaintsSet",
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
    "EtcdPodHealthy",
    "EtcdMemberHealthy",
];

fn place(name: &str) -> Option<usize> {
    /// A list is put in order with every change; a search through all types would cost most of that.
    static PLACES: LazyLock<FxHashMap<&str, usize>> =
        LazyLock::new(|| CONDITION_TYPES.iter().enumerate().map(|(at, type_)| (type_.name, at)).collect());
    PLACES.get(name).copied()
}

/// The row of a type; `None` for a type that Cluster API does not define.
pub fn condition_type(name: &str) -> Option<&'static ConditionType> {
    CONDITION_TYPES.get(place(name)?)
}

/// The polarity of a type; one that is not in the table is positive, as upstream.
pub fn polarity(name: &str) -> Polarity {
    condition_type(name).map_or(Polarity::Positive, |type_| type_.polarity)
}

/// Where a type stands in a stored list. Types that are not in the table share a rank.
/// Source: `defaultSortLessFunc` in `util/conditions/sort.go`.
pub fn rank(name: &str) -> usize {
    match place(name) {
        // A place further, which makes room for all unknown types before the last two.
        Some(at) if at >= UNKNOWN_PLACE => at + 1,
        Some(at) => at,
        None => UNKNOWN_PLACE,
    }
}

/// The types with a role, in the order of a stored list.
pub fn with_role(role: Role) -> impl Iterator<Item = &'static str> {
    CONDITION_TYPES.iter().filter(move |type_| type_.role == role).map(|type_| type_.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_listed_once() {
        for (at, type_) in CONDITION_TYPES.iter().enumerate() {
            assert_eq!(place(type_.name), Some(at), "{}", type_.name);
        }
    }

    #[test]
    fn parts_and_gates_are_types_of_the_table() {
        for name in MACHINE_READY_PARTS.iter().chain(&CONTROL_PLANE_GATES) {
            assert_eq!(condition_type(name).map(|type_| type_.role), Some(Role::Part), "{name}");
        }
    }

    #[test]
    fn what_is_not_in_the_table_is_positive_and_stands_before_the_last_two() {
        assert_eq!(polarity("ExampleGate"), Polarity::Positive);
        assert_eq!(polarity("OwnerRemediated"), Polarity::Positive);
        assert!(rank("WorkerMachinesUpToDate") < rank("ExampleGate"));
        assert!(rank("ExampleGate") < rank("Paused") && rank("Paused") < rank("Deleting"));
    }

    #[test]
    fn what_moves_or_ends_is_negative_and_nothing_else() {
        for type_ in CONDITION_TYPES {
            let expected = matches!(type_.role, Role::Move | Role::Life);
            assert_eq!(type_.polarity == Polarity::Negative, expected, "{}", type_.name);
        }
    }
}
