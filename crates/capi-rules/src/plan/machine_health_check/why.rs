//! Why a MachineHealthCheck writes, or holds back.

use std::fmt;

use crate::plan::evidence::{Evidence, Subject};
use crate::plan::{OnFailure, Rule, Wait};
use crate::status::machine_health_check::Mark;
use capi_types::condition::find;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    OfCluster { cluster: String },
    Healthy,
    Recovered { machine: String },
    Unhealthy { findings: String },
    Restricted,
    TooMany { message: String },
    Requested { machine: String, kind: String },
    NoTemplate { message: String },
    Unjudged { error: String },
}

impl Why {
    /// In the words of the mark, in one line.
    pub(super) fn unhealthy(mark: &Mark) -> Self {
        let message =
            find(&mark.conditions, "HealthCheckSucceeded").map(|c| c.message.as_str()).unwrap_or_default();
        let lines =
            message.lines().map(|line| line.trim_start_matches([' ', '*'])).filter(|line| !line.is_empty());
        let words: Vec<&str> = lines.collect();
        let findings = match words.split_first() {
            Some((first, [])) => (*first).to_owned(),
            Some((first, rest)) => format!("{first} {}", rest.join("; ")),
            None => String::new(),
        };
        Self::Unhealthy { findings }
    }
}

impl Rule for Why {
    fn name(&self) -> &'static str {
        match self {
            Self::OfCluster { .. } => "follow-cluster",
            Self::Healthy => "machine-healthy",
            Self::Recovered { .. } => "machine-recovered",
            Self::Unhealthy { .. } => "machine-unhealthy",
            Self::Restricted => "report-restriction",
            Self::TooMany { .. } => "too-many-unhealthy",
            Self::Requested { .. } => "remediated-outside",
            Self::NoTemplate { .. } => "remediation-template-missing",
            Self::Unjudged { .. } => "health-unknown",
        }
    }

    fn evidence(&self) -> Vec<Evidence> {
        match self {
            Self::TooMany { .. } => Evidence::own("RemediationAllowed"),
            Self::NoTemplate { .. } => Evidence::own_field("spec.remediation.templateRef"),
            Self::Requested { machine, .. } => {
                let machine = Subject::Machine(machine.clone());
                vec![Evidence::condition(machine, "ExternallyRemediated")]
            }
            Self::Unjudged { .. } => vec![Evidence::condition(Subject::Cluster, "RemoteConnectionProbe")],
            _ => Vec::new(),
        }
    }

    fn wait(&self) -> Wait {
        match self {
            Self::Requested { .. } => Wait::UnderWay,
            _ => Wait::Stuck,
        }
    }

    /// One Machine that cannot be written holds up no other.
    fn on_failure(&self) -> OnFailure {
        let is_independent = matches!(self, Self::Healthy | Self::Recovered { .. } | Self::Unhealthy { .. });
        OnFailure { is_independent, ..OnFailure::default() }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfCluster { cluster } => write!(f, "it belongs to Cluster {cluster}"),
            Self::Healthy => f.write_str("the Machine passes its health check"),
            Self::Recovered { machine } => write!(f, "Machine {machine} passes its health check again"),
            Self::Unhealthy { findings } => f.write_str(findings),
            Self::Restricted => f.write_str("unhealthy Machines are not remediated now"),
            Self::TooMany { message } | Self::NoTemplate { message } => f.write_str(message),
            Self::Requested { machine, kind } => {
                write!(f, "{kind} {machine} asks for the remediation of Machine {machine}")
            }
            Self::Unjudged { error } => write!(f, "the Machines cannot be checked: {error}"),
        }
    }
}
