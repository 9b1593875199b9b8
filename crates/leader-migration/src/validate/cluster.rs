//! What a cluster shows against the processes: rights that are missing, Leases that say otherwise.

use super::ClusterFacts;
use crate::manager_kind::ManagerKind;
use crate::process::Process;
use crate::rights::Grantee;
use crate::rights::RightQuestion;
use crate::rules::Finding;

/// A Lease as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseFact {
    /// Of the Lease.
    pub namespace: String,
    /// Of the Lease.
    pub name: String,
    /// Empty: nobody.
    pub holder: String,
    /// It changed while it was looked at.
    pub is_renewed: bool,
    /// `spec.strategy` is set: a server elects for it.
    pub is_coordinated: bool,
    /// Another Lease of this name was there before.
    pub was_made_anew: bool,
}

impl LeaseFact {
    fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The answer to one question about rights. `allowed`: `None` when it could not be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RightFact {
    /// What was asked.
    pub question: RightQuestion,
    /// `None`: it could not be asked.
    pub allowed: Option<bool>,
}

/// `create` is not needed where the Lease is there.
fn is_needed(fact: &RightFact, facts: &ClusterFacts) -> bool {
    let (namespace, verb) = (&fact.question.namespace, fact.question.verb);
    let is_there = facts.rights.iter().any(|other| {
        !other.question.lease.is_empty()
            && facts.leases.iter().any(|l| l.namespace == *namespace && l.name == other.question.lease)
    });
    verb != "create" || !is_there
}

/// Is the process kept from its migration lock: by a missing right, or a server that elects for it?
pub(super) fn is_kept_out(process: &Process, facts: &ClusterFacts) -> bool {
    let Some(lock) = process.migration_lock() else { return false };
    // The server elects for such a Lease from candidates, and no process makes candidates for a migration lock.
    let coordinated = facts.leases.iter().any(|lease| lease.is_coordinated && lease.key() == lock);
    let missing = facts.rights.iter().filter(|fact| fact.allowed == Some(false) && is_needed(fact, facts));
    coordinated || missing.into_iter().any(|fact| is_of(process, &fact.question.subject))
}

/// Only the static pod's user is known to be kube-controller-manager's; all others are the cloud's.
fn is_of(process: &Process, subject: &Grantee) -> bool {
    let is_user = *subject == Grantee::kube_controller_manager();
    is_user == (process.manager == ManagerKind::KubeControllerManager)
}

pub(super) fn findings(processes: &[Process], facts: &ClusterFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    // A right that could not be asked for is named too: the process may try for ever.
    for fact in facts.rights.iter().filter(|fact| fact.allowed != Some(true) && is_needed(fact, facts)) {
        found.push(right(fact));
    }
    let locks: Vec<String> = processes.iter().filter_map(Process::migration_lock).collect();
    for lease in facts.leases.iter().filter(|lease| locks.contains(&lease.key())) {
        let subject = || vec![format!("Lease {}", lease.key())];
        if lease.is_coordinated {
            found.push(Finding::new("F14", subject(), "spec.strategy is set".to_owned()));
        }
        if lease.was_made_anew {
            found.push(Finding::new("F21", subject(), "its uid changed".to_owned()));
        }
    }
    let renewed: Vec<String> = facts
        .leases
        .iter()
        .filter(|l| l.is_renewed && locks.contains(&l.key()))
        .map(LeaseFact::key)
        .collect();
    // Two migration locks that live show what files cannot: two holders at once.
    if renewed.len() > 1 {
        let problem = format!("Leases {} are all renewed", renewed.join(", "));
        found.push(Finding::new("F1", renewed, problem));
    }
    found
}

fn right(fact: &RightFact) -> Finding {
    let RightQuestion { subject, verb, namespace, lease } = &fact.question;
    let what = if lease.is_empty() { "Leases".to_owned() } else { format!("Lease {lease}") };
    let answer = match fact.allowed {
        Some(_) => "may not",
        None => "is not known whether it may",
    };
    let problem = format!("{answer} {verb} {what} in {namespace}");
    Finding::new("F9", vec![subject.user()], problem)
}
