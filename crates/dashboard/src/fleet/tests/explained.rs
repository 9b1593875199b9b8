//! The table of explanations against what the controllers report and what the rules show as a fault.

use std::collections::BTreeSet;

use super::*;
use crate::fleet::evidence::type_and_reason;
use crate::fleet::explanation::{ANY, MESSAGE};
use capi_types::condition_types::condition_type;
use capstan_testing::reported::reported;

/// Evidence that is not a condition, as `evidence` names it.
const STATUS: [&str; 10] = [
    "NotReported",
    "ControlPlaneNotRead",
    "Misshapen",
    "Behind",
    "CountersDiffer",
    "Phase",
    "Failed",
    "CertificatesEnd",
    "Pending",
    "NotReplaced",
];

/// A row of a screen with 80 columns has room for so many letters.
const SHORT_MAX: usize = 40;
/// What only this engine reports: upstream's always has a controller of topologies, or refuses them.
const OWN: [(&str, &str); 1] = [("TopologyReconciled", "NoTopologyController")];

#[test]
fn every_entry_is_complete_and_can_be_reached() {
    let reported = reported();
    let is_reported = |type_: &str, reason: &str| {
        let is = |pattern: &str, text: &str| pattern == ANY || pattern == text;
        reported.iter().any(|[_, t, _, r]| is(type_, t) && is(reason, r))
    };
    for (type_, reason, words) in Explanations::built_in().iter() {
        let is_known = type_ == ANY || condition_type(type_).is_some();
        // Where a deletion stands before its first step; upstream writes it for a moment only.
        let is_first_step = (type_, reason) == ("Deleting", "Deleting");
        let is_ours = OWN.contains(&(type_, reason));
        let is_reachable = is_known && (is_reported(type_, reason) || is_first_step || is_ours);
        let is_own = type_ == MESSAGE || (type_ == "Status" && STATUS.contains(&reason));
        assert!(is_reachable || is_own, "{type_} {reason}");
        let short = words.short().unwrap_or_default();
        let is_short = (1..=SHORT_MAX).contains(&short.len()) && !short.ends_with(['.', '?']);
        // A message that is short by itself names what it is about.
        let says_it_itself = type_ == MESSAGE && short.is_empty();
        assert!(is_short || says_it_itself, "{type_} {reason}: a few words, not `{short}`");
        for words in [&words.means, &words.usual, &words.check] {
            assert!(words.ends_with(['.', '?']), "{type_} {reason}: a sentence, not `{words}`");
        }
    }
}

#[test]
fn every_reason_that_the_rules_show_is_explained() {
    let kinds = ["Cluster", "KubeadmControlPlane", "MachineDeployment", "MachineSet", "Machine"];
    let mut seen = 0;
    let mut missing = BTreeSet::new();
    for [kind, type_, status, reason] in reported() {
        if !kinds.contains(&kind.as_str()) {
            continue;
        }
        for row in lives_of(&kind, &type_, &status, &reason) {
            let judgement = judge(&row, &Context { now_s: seconds(now()), ..Context::default() });
            let (shown, why) = type_and_reason(&row, judgement.why);
            if judgement.verdict == Verdict::Ok || (shown, why) != (type_.as_str(), reason.as_str()) {
                continue;
            }
            seen += 1;
            if Explanations::built_in().find(&type_, &reason).is_none() {
                missing.insert(format!("{kind} {type_} {reason}"));
            }
        }
    }
    assert!(seen > 150, "{seen} conditions are shown as evidence");
    assert_eq!(missing, BTreeSet::new(), "add them to explanations/default.toml");
}

/// An object with this condition that was well for long, one that comes up, and one that is being deleted.
fn lives_of(kind: &str, type_: &str, status: &str, reason: &str) -> [Arc<Row>; 3] {
    let built = || match kind {
        "Cluster" => cluster("a"),
        "KubeadmControlPlane" => control_plane("a", 3),
        "MachineDeployment" => deployment("a", "a-md", 2),
        "MachineSet" => set("a", "a-md", "a-md-1", 2),
        _ => machine("a", ("MachineSet", "a-md-1"), "a-md-1-0"),
    };
    let with = |built: Builder| built.condition(type_, status, reason, "").0;
    let old = with(built());
    let young = with(
        built()
            .condition("Available", "False", "NotAvailable", "")
            .set("/metadata/creationTimestamp", json!(NOW)),
    );
    let leaving = with(built().set("/metadata/deletionTimestamp", json!(LONG_AGO)));
    [row_of(&old), row_of(&young), row_of(&leaving)]
}
