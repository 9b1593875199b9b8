//! The words of a control plane's plan: what is done and why. Data only; must not know what is written for
//! it.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use crate::plan::keys::KeyCall;
use crate::plan::{Rule, StepAction, WorkloadCall, Write};
use capi_types::bootstrap::KubeadmConfig;
use capi_types::machine::Machine;

/// What a step does. Machines are given by name; `lower` knows the objects.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    RemoveFinalizer,
    /// Becomes the controller of a Machine that has none.
    Adopt {
        machine: String,
    },
    /// Makes the Cluster an owner of the infrastructure template.
    OwnTemplate,
    /// Certificates and kubeconfig.
    Keys(KeyCall),
    /// Etcd members, and what kubeadm keeps inside the cluster.
    Workload(WorkloadCall),
    /// Hands the Machine to its controller, with what it should become.
    UpdateInPlace(Box<Sync>),
    /// Brings labels, annotations, readiness gates, deletion timeouts and taints of the Machine and
    /// the labels and annotations of the objects behind it in line.
    Sync(Box<Sync>),
    CreateMachine(Box<NewMachine>),
    /// With background propagation; finalizers do the rest.
    DeleteMachine {
        machine: String,
    },
    /// Drops the control plane's own hook, so that the infrastructure may go.
    ReleaseMachine {
        machine: String,
    },
    /// Sets a condition on a Machine: `OwnerRemediated`.
    MarkMachine {
        machine: String,
        condition: Box<Condition>,
    },
    /// Takes a condition off a Machine.
    UnmarkMachine {
        machine: String,
        condition: &'static str,
    },
    /// Sets or removes an annotation of the control plane itself.
    Annotate {
        key: &'static str,
        value: Option<String>,
    },
}

/// A Machine to be made, with the two objects behind it. All three have the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMachine {
    pub machine: Machine,
    pub bootstrap: KubeadmConfig,
    pub infrastructure: Value,
    /// Joins a control plane that exists; otherwise it is the first.
    pub joins: bool,
}

impl NewMachine {
    pub fn name(&self) -> &str {
        self.machine.metadata.name.as_deref().unwrap_or_default()
    }
}

/// What brings a Machine and the objects behind it in line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sync {
    pub name: String,
    pub writes: Vec<Write>,
}

impl Act {
    /// As the step of a plan has it.
    pub fn action(&self) -> StepAction {
        let other = |what: &str| StepAction::Other { what: what.to_owned() };
        match self {
            Self::RemoveFinalizer => other("remove the finalizer"),
            Self::Adopt { machine } => StepAction::Adopt { machine: machine.clone() },
            Self::OwnTemplate => other("make the Cluster an owner of the infrastructure template"),
            Self::Keys(call) => StepAction::keys(call),
            Self::Workload(call) => StepAction::call(call),
            Self::UpdateInPlace(sync) => StepAction::UpdateInPlace { machine: sync.name.clone() },
            Self::Sync(sync) => StepAction::Sync { machine: sync.name.clone() },
            Self::CreateMachine(new) => StepAction::CreateControlPlaneMachine {
                name: new.name().to_owned(),
                joins: new.joins,
                failure_domain: new.machine.spec.failure_domain.clone(),
            },
            Self::DeleteMachine { machine } => {
                StepAction::Delete { kind: "Machine".to_owned(), name: machine.clone() }
            }
            Self::ReleaseMachine { machine } => StepAction::Release { machine: machine.clone() },
            Self::MarkMachine { machine, condition } => StepAction::SetCondition {
                machine: machine.clone(),
                condition: condition.type_.clone(),
                status: condition.status.clone(),
                reason: condition.reason.clone(),
            },
            Self::UnmarkMachine { machine, condition } => {
                StepAction::ClearCondition { machine: machine.clone(), condition: (*condition).to_owned() }
            }
            Self::Annotate { key, value: Some(_) } => {
                other(&format!("annotate the control plane with {key}"))
            }
            Self::Annotate { key, value: None } => other(&format!("drop annotation {key}")),
        }
    }
}

/// Why a step is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    DeletionCompleted,
    NoController,
    NotAdoptable,
    NotOwned,
    NotYetInitialized,
    NoKubeconfig,
    CertificatesNotOurs,
    KubeconfigNotOurs,
    KubeconfigExpires,
    OutOfSync {
        what: Vec<&'static str>,
    },
    FirstMachine {
        desired: usize,
    },
    TooFew {
        current: usize,
        desired: usize,
    },
    TooMany {
        current: usize,
        desired: usize,
    },
    Surge {
        outdated: usize,
        max_surge: usize,
    },
    Outdated {
        differences: Vec<String>,
    },
    /// It is outdated, and updates in place are on; with what speaks against one.
    NotInPlace {
        differences: Vec<String>,
        reason: String,
    },
    UpdateBegun,
    OwnerDeleting,
    Leads {
        machine: String,
    },
    NoMachineForMember,
    MachineLeaves {
        machine: String,
    },
    LastMachine,
    NoMemberKnown,
    RolloutPending {
        version: String,
    },
    ProxyFollowsVersion {
        version: String,
    },
    DnsFollowsSpec,
    BindingMissing,
    ExpiryUnknown,
    Unhealthy {
        machine: String,
    },
    RemediationOutcome {
        message: String,
    },
    HealthyAgain,
    RemediationStale,
    ReplacementMade,
    Unwell,
}

impl Rule for Why {
    fn name(&self) -> &'static str {
        match self {
            Self::DeletionCompleted => "deletion-completed",
            Self::NoController => "no-controller",
            Self::NotAdoptable => "not-adoptable",
            Self::NotOwned => "template-not-owned",
            Self::NotYetInitialized => "not-yet-initialized",
            Self::NoKubeconfig => "no-kubeconfig",
            Self::CertificatesNotOurs => "certificates-not-ours",
            Self::KubeconfigNotOurs => "kubeconfig-not-ours",
            Self::KubeconfigExpires => "kubeconfig-expires",
            Self::OutOfSync { .. } => "out-of-sync",
            Self::FirstMachine { .. } => "first-machine",
            Self::TooFew { .. } => "too-few-machines",
            Self::TooMany { .. } => "too-many-machines",
            Self::Surge { .. } => "surge",
            Self::Outdated { .. } => "outdated",
            Self::NotInPlace { .. } => "not-in-place",
            Self::UpdateBegun => "update-begun",
            Self::OwnerDeleting => "owner-deleting",
            Self::Leads { .. } => "leads-etcd",
            Self::NoMachineForMember => "stray-member",
            Self::MachineLeaves { .. } => "machine-leaves",
            Self::LastMachine => "last-machine",
            Self::NoMemberKnown => "no-member-known",
            Self::RolloutPending { .. } => "rollout-pending",
            Self::ProxyFollowsVersion { .. } => "kube-proxy-follows-version",
            Self::DnsFollowsSpec => "core-dns-follows-spec",
            Self::BindingMissing => "cluster-role-binding-missing",
            Self::ExpiryUnknown => "certificate-expiry-unknown",
            Self::Unhealthy { .. } => "unhealthy",
            Self::RemediationOutcome { .. } => "remediation-outcome",
            Self::HealthyAgain => "healthy-again",
            Self::RemediationStale => "remediation-stale",
            Self::ReplacementMade => "replacement-made",
            Self::Unwell => "control-plane-unhealthy",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeletionCompleted => f.write_str("no Machine is left"),
            Self::NoController => f.write_str("it belongs to the cluster and has no controller"),
            Self::NotAdoptable => f.write_str("its Kubernetes version is too far away"),
            Self::NotOwned => f.write_str("a template moves and goes with its Cluster"),
            Self::NotYetInitialized => f.write_str("they are missing and the cluster is not initialized"),
            Self::NoKubeconfig => f.write_str("there is none"),
            Self::CertificatesNotOurs => f.write_str("nobody or another object controls them"),
            Self::KubeconfigNotOurs => f.write_str("another object controls it"),
            Self::KubeconfigExpires => f.write_str("its client certificate has less than half a year left"),
            Self::OutOfSync { what } => write!(f, "{} differ from the template", what.join(", ")),
            Self::FirstMachine { desired } => write!(f, "there is no Machine yet, {desired} wanted"),
            Self::TooFew { current, desired } => write!(f, "{current} of {desired} Machines exist"),
            Self::TooMany { current, desired } => write!(f, "{current} Machines exist, {desired} wanted"),
            Self::Surge { outdated, max_surge } => {
                write!(f, "{outdated} not up-to-date, maxSurge is {max_surge}")
            }
            Self::Outdated { differences } if differences.is_empty() => f.write_str("it is in line to go"),
            Self::Outdated { differences } => f.write_str(&differences.join("; ")),
            Self::NotInPlace { differences, reason } => {
                write!(f, "{}; not in place: {reason}", differences.join("; "))
            }
            Self::UpdateBegun => f.write_str("its update in place was begun and not handed over"),
            Self::OwnerDeleting => f.write_str("the control plane is being deleted"),
            Self::Leads { machine } => write!(f, "Machine {machine} hosts the leader and goes next"),
            Self::NoMachineForMember => f.write_str("it has no Machine"),
            Self::MachineLeaves { machine } => write!(f, "Machine {machine} is drained and leaves"),
            Self::LastMachine => f.write_str("it is the last Machine: there is no quorum to keep"),
            Self::NoMemberKnown => f.write_str("no etcd member is known to be its own"),
            Self::RolloutPending { version } => write!(f, "Machines join with {version} and these settings"),
            Self::ProxyFollowsVersion { version } => write!(f, "it follows version {version}"),
            Self::DnsFollowsSpec => f.write_str("it follows clusterConfiguration.dns"),
            Self::BindingMissing => f.write_str("what kubeadm of the new version relies on is missing"),
            Self::ExpiryUnknown => f.write_str("it is not noted when the API server's certificate ends"),
            Self::Unhealthy { machine } => write!(f, "Machine {machine} failed its health check"),
            Self::RemediationOutcome { message } => f.write_str(message),
            Self::HealthyAgain => f.write_str("its health check succeeds again"),
            Self::RemediationStale => f.write_str("a Machine was made since that remediation began"),
            Self::ReplacementMade => f.write_str("the replacement exists"),
            Self::Unwell => f.write_str("Machines of the control plane are not well"),
        }
    }
}
