//! What is wrong with a set of controller manager processes: each by itself, all together, and against what a cluster
//! shows. Owns the order of findings; must not know where descriptions and facts come from.

mod cluster;
mod single;
mod together;

pub use cluster::{LeaseFact, RightFact};

use super::actors::Behaviour;
use super::process::Process;
use super::rules::{Finding, FindingSeverity};

/// What was seen in a cluster; empty without one.
#[derive(Clone, Debug, Default)]
pub struct ClusterFacts {
    /// Main Leases and migration Leases, in any order.
    pub leases: Vec<LeaseFact>,
    /// Answers of access reviews.
    pub rights: Vec<RightFact>,
}

/// The findings, worst first; equal ones once, with all their subjects.
pub fn validate(processes: &[Process], facts: &ClusterFacts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = processes.iter().flat_map(single::findings).collect();
    // What a process does whose flags are not seen is not known.
    let seen: Vec<Process> = processes.iter().filter(|process| !process.is_in_shell).cloned().collect();
    findings.extend(together::findings(&seen));
    findings.extend(cluster::findings(&seen, facts));
    let behaviours = behaviours(&seen, facts);
    findings.extend(together::actors(&seen, &behaviours));
    let mut merged: Vec<Finding> = Vec::new();
    for finding in findings {
        match merged.iter_mut().find(|m| m.code == finding.code && m.problem == finding.problem) {
            Some(same) => same.subjects.extend(finding.subjects),
            None => merged.push(finding),
        }
    }
    for finding in &mut merged {
        finding.subjects.dedup();
    }
    // Stable: within one severity the order of the rules stays.
    merged.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    merged
}

/// Is there anything that must be put right?
pub fn has_errors(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity == FindingSeverity::Error)
}

/// Does the process end at its start?
pub fn exits_at_start(process: &Process) -> bool {
    single::ends(process)
}

/// What the processes do, those that end at their start left out: one entry per process that runs.
pub fn behaviours(processes: &[Process], facts: &ClusterFacts) -> Vec<(usize, Behaviour)> {
    let runs = (0..).zip(processes).filter(|(_, process)| !single::ends(process));
    let competes = |process: &Process| {
        // One that is its own main lock is held by the process itself, which then waits for itself.
        let waits_for_itself = process.migration_lock().is_some_and(|lock| lock == process.main_lock());
        process.signals_readiness()
            && !process.is_coordinated()
            && !waits_for_itself
            && !cluster::is_kept_out(process, facts)
    };
    runs.map(|(index, process)| (index, Behaviour::of(process, competes(process)))).collect()
}
