//! The columns of lists, per kind: words, order, places of the values, and whether only the wide list has them. The one
//! definition of them: the printer columns of our CustomResourceDefinitions, and through these the server's tables and
//! `capstan get`, are made from it, and so are the lists and details of the dashboard. Must not know how a value is read,
//! printed or laid out.
//!
//! Source: `additionalPrinterColumns` of the v1.14.2 definitions, version v1beta2. Only the descriptions differ.

use Path::{Address, Condition, Json, OwnedBy};
use Type::{Boolean, Date, Integer, Text};

/// One column of a kind. Before them all stands the object's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading, in upstream's spelling. Two columns of a kind may share it: a condition, and a counter.
    pub name: &'static str,
    /// How the value is read and shown.
    pub type_: Type,
    /// Where the value stands in the object.
    pub path: Path,
    /// Only shown by `-o wide`.
    pub wide: bool,
}

/// What a column holds; anything else at its place is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A string.
    Text,
    /// A whole number.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// A moment, shown as its age.
    Date,
}

impl Type {
    /// As a definition spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Text => "string",
            Integer => "integer",
            Boolean => "boolean",
            Date => "date",
        }
    }
}

/// Where a column's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// A field, as kubectl writes a path: `.spec.replicas`.
    Json(&'static str),
    /// The status of a condition.
    Condition(&'static str),
    /// The addresses of a type.
    Address(&'static str),
    /// The names of the owners of a kind.
    OwnedBy(&'static str),
}

impl Path {
    /// As a definition's `jsonPath`.
    pub fn render(self) -> String {
        match self {
            Json(path) => path.to_owned(),
            Condition(type_) => format!(r#".status.conditions[?(@.type=="{type_}")].status"#),
            Address(type_) => format!(r#".status.addresses[?(@.type=="{type_}")].address"#),
            OwnedBy(kind) => format!(r#".metadata.ownerReferences[?(@.kind=="{kind}")].name"#),
        }
    }
}

const fn text(name: &'static str, path: Path) -> Column {
    Column { name, type_: Text, path, wide: false }
}

const fn number(name: &'static str, path: &'static str) -> Column {
    Column { type_: Integer, ..text(name, Json(path)) }
}

const fn wide(name: &'static str, path: Path) -> Column {
    Column { wide: true, ..text(name, path) }
}

const fn wide_number(name: &'static str, path: &'static str) -> Column {
    Column { wide: true, ..number(name, path) }
}

/// Place of the label with the Cluster's name, as JSONPath has to have it.
pub const CLUSTER_LABEL_PATH: &str = r".metadata.labels['cluster\.x-k8s\.io/cluster-name']";

const AGE: Column = Column { type_: Date, ..text("Age", Json(".metadata.creationTimestamp")) };
const PAUSED: Column = wide("Paused", Condition("Paused"));
const PHASE: Column = text("Phase", Json(".status.phase"));
const AVAILABLE: Column = text("Available", Condition("Available"));
const CLUSTER_NAME: Column = text("Cluster", Json(".spec.clusterName"));
const CLUSTER_LABEL: Column = text("Cluster", Json(CLUSTER_LABEL_PATH));
const CLASS_OWNER: Column = text("ClusterClass", OwnedBy("ClusterClass"));
const CLUSTER_OWNER: Column = text("Cluster", OwnedBy("Cluster"));
const DESIRED: Column = number("Desired", ".spec.replicas");
const CURRENT: Column = number("Current", ".status.replicas");
const READY_REPLICAS: Column = number("Ready", ".status.readyReplicas");
const AVAILABLE_REPLICAS: Column = number("Available", ".status.availableReplicas");
const UP_TO_DATE_REPLICAS: Column = number("Up-to-date", ".status.upToDateReplicas");
const INITIALIZED: Column =
    Column { type_: Boolean, ..text("Initialized", Json(".status.initialization.controlPlaneInitialized")) };
const TEMPLATE_VERSION: Column = text("Version", Json(".spec.template.spec.version"));

const CLUSTER: &[Column] = &[
    text("ClusterClass", Json(".spec.topology.classRef.name")),
    AVAILABLE,
    number("CP Desired", ".status.controlPlane.desiredReplicas"),
    wide_number("CP Current", ".status.controlPlane.replicas"),
    wide_number("CP Ready", ".status.controlPlane.readyReplicas"),
    number("CP Available", ".status.controlPlane.availableReplicas"),
    number("CP Up-to-date", ".status.controlPlane.upToDateReplicas"),
    number("W Desired", ".status.workers.desiredReplicas"),
    wide_number("W Current", ".status.workers.replicas"),
    wide_number("W Ready", ".status.workers.readyReplicas"),
    number("W Available", ".status.workers.availableReplicas"),
    number("W Up-to-date", ".status.workers.upToDateReplicas"),
    PAUSED,
    PHASE,
    AGE,
    text("Version", Json(".spec.topology.version")),
];

const MACHINE: &[Column] = &[
    CLUSTER_NAME,
    text("Node Name", Json(".status.nodeRef.name")),
    wide("Provider ID", Json(".spec.providerID")),
    text("Failure domain", Json(".status.failureDomain")),
    text("Ready", Condition("Ready")),
    AVAILABLE,
    text("Up-to-date", Condition("UpToDate")),
    wide("Internal-IP", Address("InternalIP")),
    wide("External-IP", Address("ExternalIP")),
    wide("OS-Image", Json(".status.nodeInfo.osImage")),
    PAUSED,
    PHASE,
    AGE,
    text("Version", Json(".spec.version")),
];

const MACHINE_SET: &[Column] = &[
    CLUSTER_NAME,
    DESIRED,
    CURRENT,
    READY_REPLICAS,
    AVAILABLE_REPLICAS,
    UP_TO_DATE_REPLICAS,
    PAUSED,
    AGE,
    TEMPLATE_VERSION,
];

const MACHINE_DEPLOYMENT: &[Column] = &[
    CLUSTER_NAME,
    AVAILABLE,
    DESIRED,
    CURRENT,
    READY_REPLICAS,
    AVAILABLE_REPLICAS,
    UP_TO_DATE_REPLICAS,
    PAUSED,
    PHASE,
    AGE,
    TEMPLATE_VERSION,
];

const MACHINE_POOL: &[Column] = &[
    CLUSTER_NAME,
    DESIRED,
    CURRENT,
    READY_REPLICAS,
    AVAILABLE_REPLICAS,
    UP_TO_DATE_REPLICAS,
    PAUSED,
    PHASE,
    AGE,
    TEMPLATE_VERSION,
];

const MACHINE_HEALTH_CHECK: &[Column] = &[
    CLUSTER_NAME,
    number("Replicas", ".status.expectedMachines"),
    number("Healthy", ".status.currentHealthy"),
    PAUSED,
    AGE,
];

const MACHINE_DRAIN_RULE: &[Column] =
    &[text("Behavior", Json(".spec.drain.behavior")), text("Order", Json(".spec.drain.order")), AGE];

const EXTENSION_CONFIG: &[Column] = &[PAUSED, text("Discovered", Condition("Discovered")), AGE];

const KUBEADM_CONTROL_PLANE: &[Column] = &[
    CLUSTER_LABEL,
    AVAILABLE,
    DESIRED,
    CURRENT,
    READY_REPLICAS,
    AVAILABLE_REPLICAS,
    UP_TO_DATE_REPLICAS,
    PAUSED,
    INITIALIZED,
    AGE,
    text("Version", Json(".spec.version")),
];

const KUBEADM_CONFIG: &[Column] = &[
    CLUSTER_LABEL,
    PAUSED,
    text("Data secret created", Json(".status.initialization.dataSecretCreated")),
    AGE,
];

const DEV_MACHINE: &[Column] = &[
    CLUSTER_LABEL,
    wide("Provider ID", Json(".spec.providerID")),
    text("Failure domain", Json(".status.failureDomain")),
    wide("IP", Address("InternalIP")),
    PAUSED,
    text("Provisioned", Json(".status.initialization.provisioned")),
    AGE,
];

const HOST: &[Column] = &[
    text("Pool", Json(".spec.pool")),
    text("Address", Json(".spec.address")),
    text("State", Json(".status.state")),
    text("Claimed by", Json(".spec.consumerRef.name")),
    wide("Cluster", Json(".spec.consumerRef.clusterName")),
    number("CPUs", ".status.facts.cpus"),
    number("MiB", ".status.facts.memoryMiB"),
    text("Kubelet", Json(".status.facts.kubelet")),
    wide("OS", Json(".status.facts.os")),
    AGE,
    wide("Why", Json(r#".status.conditions[?(@.type=="Available")].message"#)),
];

const HOST_POOL: &[Column] = &[
    number("Hosts", ".status.hosts"),
    number("Available", ".status.available"),
    number("Claimed", ".status.claimed"),
    number("Unclean", ".status.unclean"),
    AGE,
];

const HOST_MACHINE: &[Column] = &[
    CLUSTER_LABEL,
    text("Host", Json(".status.hostRef.name")),
    wide("Provider ID", Json(".spec.providerID")),
    text("Failure domain", Json(".status.failureDomain")),
    wide("IP", Address("InternalIP")),
    text("Ready", Condition("Ready")),
    PAUSED,
    text("Provisioned", Json(".status.initialization.provisioned")),
    AGE,
];

const HOST_CLUSTER: &[Column] = &[
    CLUSTER_LABEL,
    text("Endpoint", Json(".spec.controlPlaneEndpoint.host")),
    text("Ready", Condition("Ready")),
    AGE,
];

/// The columns of a kind; age alone for a kind without any of its own.
pub fn of(kind: &str) -> &'static [Column] {
    match kind {
        "Cluster" => CLUSTER,
        "Machine" => MACHINE,
        "MachineSet" => MACHINE_SET,
        "MachineDeployment" => MACHINE_DEPLOYMENT,
        "MachinePool" => MACHINE_POOL,
        "MachineHealthCheck" => MACHINE_HEALTH_CHECK,
        "MachineDrainRule" => MACHINE_DRAIN_RULE,
        "ExtensionConfig" => EXTENSION_CONFIG,
        "KubeadmControlPlane" => KUBEADM_CONTROL_PLANE,
        "KubeadmControlPlaneTemplate" => &[CLASS_OWNER, AGE],
        "KubeadmConfig" => KUBEADM_CONFIG,
        "KubeadmConfigTemplate" => &[CLASS_OWNER, CLUSTER_OWNER, AGE],
        "DevCluster" => &[CLUSTER_LABEL, AGE],
        "DevMachine" => DEV_MACHINE,
        "Host" => HOST,
        "HostPool" => HOST_POOL,
        "HostMachine" => HOST_MACHINE,
        "HostCluster" => HOST_CLUSTER,
        _ => &[AGE],
    }
}
