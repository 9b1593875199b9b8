//! Is a machine fit? Owns the order of findings and what becomes of them together; the rules stand in `rules`.

use super::facts::HostFacts;
use super::finding::{Fitness, HostFinding, Purpose};
use super::rules::RULES;

/// All findings, the gravest first.
pub fn check(facts: &HostFacts, purpose: &Purpose) -> Vec<HostFinding> {
    let found = RULES.iter().flat_map(|(rule, judge)| {
        judge(facts, purpose).into_iter().map(|finding| HostFinding { rule, ..finding })
    });
    let mut found: Vec<HostFinding> = found.collect();
    found.sort_by_key(|finding| finding.outcome);
    found
}

/// What findings say together: the gravest of them.
pub fn overall(findings: &[HostFinding]) -> Fitness {
    findings.iter().map(|finding| finding.outcome).min().unwrap_or(Fitness::Unknown)
}
