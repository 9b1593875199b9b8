//! Provider objects as the plans of their owners treat them: awaited, adopted, deleted. Must not know which owner
//! it is, nor what is copied from them.
//! Source: cluster-api `core/reconcilers/{cluster,machine}` (`reconcileExternal`, `reconcileDeleteExternal`),
//! v1.14.2.

use std::fmt;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::evidence::Evidence;
use super::{Plan, Rule, Wait, Write, ownership};
use crate::status::contract::{External, Provided};

/// How soon an object that should exist is looked for again.
const MISSING_RETRY: Duration = Duration::from_secs(30);

/// What a provider object makes its owner wait for.
#[allow(missing_docs, reason = "`Display` says each in a sentence")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    Missing { kind: String, name: String },
    Vanished { kind: String, name: String },
    Unreadable { error: String },
    ControlledByOther { kind: String, owner: String },
    WaitingForInfrastructure { kind: String },
    WaitingForDeletion { kind: String },
}

impl Rule for Why {
    fn name(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "missing-provider-object",
            Self::Vanished { .. } => "vanished-provider-object",
            Self::Unreadable { .. } => "unreadable-provider-object",
            Self::ControlledByOther { .. } => "controlled-by-another",
            Self::WaitingForInfrastructure { .. } => "waiting-for-infrastructure",
            Self::WaitingForDeletion { .. } => "waiting-for-deletion",
        }
    }

    fn wait(&self) -> Wait {
        match self {
            Self::WaitingForInfrastructure { .. } | Self::WaitingForDeletion { .. } => Wait::UnderWay,
            _ => Wait::Stuck,
        }
    }

    fn evidence(&self) -> Vec<Evidence> {
        match self {
            Self::WaitingForInfrastructure { .. } => Evidence::own("InfrastructureReady"),
            Self::WaitingForDeletion { .. } => Evidence::own("Deleting"),
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { kind, name } => write!(f, "{kind} {name} does not exist yet"),
            Self::Vanished { kind, name } => write!(f, "{kind} {name} was complete once and is gone"),
            Self::Unreadable { error } => f.write_str(error),
            Self::ControlledByOther { kind, owner } => write!(f, "the {kind} is controlled by {owner}"),
            Self::WaitingForInfrastructure { kind } => write!(f, "the {kind} is not provisioned yet"),
            Self::WaitingForDeletion { kind } => write!(f, "the {kind} is being deleted"),
        }
    }
}

/// The object, or a blocker that says why there is none; an owner that is `leaving` misses nothing.
/// `needed`: it was complete once.
pub fn found<'a>(
    external: &'a External,
    name: &str,
    needed: bool,
    leaving: bool,
    plan: &mut Plan,
) -> Option<&'a Provided> {
    match external {
        External::Found(object) => return Some(object),
        External::NotSet => {}
        External::Unreadable { error, .. } => plan.block(Why::Unreadable { error: error.clone() }),
        // Deleted by the owner's own way out, or never made: either way nothing is missing.
        External::NotFound { .. } if leaving => {}
        External::NotFound { kind } if needed => {
            plan.block(Why::Vanished { kind: kind.clone(), name: name.to_owned() });
        }
        External::NotFound { kind } => {
            plan.block(Why::Missing { kind: kind.clone(), name: name.to_owned() });
            plan.recheck_within(MISSING_RETRY);
        }
    }
    None
}

/// Makes `new` its controller, in place of the owners for which `dropped` holds.
pub fn adopt(
    object: &Provided,
    new: OwnerReference,
    cluster: &str,
    dropped: impl Fn(&OwnerReference) -> bool,
    why: impl Rule,
    plan: &mut Plan,
) {
    match ownership::adopt(object, new, cluster, dropped) {
        Ok(None) => {}
        Ok(Some(write)) => plan.step(write, why),
        Err(other) => {
            let owner = format!("{} {}", other.kind, other.name);
            plan.block(Why::ControlledByOther { kind: object.kind.clone(), owner });
        }
    }
}

/// Deletes it and waits until it is gone.
pub fn remove<R: Rule>(external: &External, why: impl Fn(String) -> R, plan: &mut Plan) {
    match external {
        External::Found(object) => {
            // A second deletion changes nothing and costs a request in every pass.
            if !object.is_deleting() {
                plan.step(Write::Delete { object: object.reference() }, why(object.kind.clone()));
            }
            plan.block(Why::WaitingForDeletion { kind: object.kind.clone() });
        }
        External::Unreadable { error, .. } => plan.block(Why::Unreadable { error: error.clone() }),
        External::NotFound { .. } | External::NotSet => {}
    }
}
