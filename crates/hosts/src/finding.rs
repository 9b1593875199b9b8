//! What is asked about a machine, and one answer to it. Owns the words of grades; the rules stand in `rules`.

use semver::Version;
use serde::Serialize;

use super::facts::HostFacts;

/// What a machine is to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeRole {
    ControlPlane,
    Worker,
}

impl NodeRole {
    pub fn words(self) -> &'static str {
        match self {
            Self::ControlPlane => "a control plane",
            Self::Worker => "a worker",
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purpose {
    pub role: NodeRole,
    /// Of Kubernetes; `None`: whichever kubeadm is there.
    pub version: Option<Version>,
}

impl Purpose {
    /// The version that a node would have.
    pub(super) fn version_for<'a>(&'a self, facts: &'a HostFacts) -> Option<&'a Version> {
        self.version.as_ref().or(facts.kubeadm.as_ref())
    }
}

/// What a rule found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fitness {
    /// kubeadm or the kubelet would refuse it, or something of another cluster is there.
    Unfit,
    /// The fact that decides could not be read.
    Unknown,
    /// It works if somebody knows what he does.
    Warned,
    Passed,
}

/// One answer of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostFinding {
    pub rule: &'static str,
    pub outcome: Fitness,
    /// What was seen.
    pub evidence: String,
    /// What to do; empty where nothing is to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
    /// What kubeadm calls the same in `--ignore-preflight-errors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeadm_check: Option<String>,
}

impl HostFinding {
    pub(super) fn new(outcome: Fitness, evidence: impl Into<String>) -> Self {
        Self { rule: "", outcome, evidence: evidence.into(), remedy: String::new(), kubeadm_check: None }
    }

    pub(super) fn passed(evidence: impl Into<String>) -> Self {
        Self::new(Fitness::Passed, evidence)
    }

    pub(super) fn unfit(evidence: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..Self::new(Fitness::Unfit, evidence) }
    }

    pub(super) fn warned(evidence: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..Self::new(Fitness::Warned, evidence) }
    }

    pub(super) fn unknown(what: &str, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..Self::new(Fitness::Unknown, format!("{what} cannot be read")) }
    }

    pub(super) fn of_kubeadm(self, check: impl Into<String>) -> Self {
        Self { kubeadm_check: Some(check.into()), ..self }
    }
}
