//! The figure for wrong verdicts: 500 single changes whose truth is known, judged.

use super::tests::{cluster, planned};
use super::*;

const TABLE: &str = include_str!("verdicts.txt");

#[test]
fn nothing_dangerous_is_waved_through_and_nothing_harmless_is_blocked() {
    let inputs = cluster(3, 4);
    let (mut waved, mut blocked, mut harmless, mut all) = (Vec::new(), Vec::new(), 0, 0);
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let (truth, sets) = line.split_once('\t').expect("a truth");
        let plan = planned(&inputs, &sets.split(" ;; ").collect::<Vec<_>>());
        let is_blocked = matches!(plan.state, PlanState::Blocked | PlanState::Invalid);
        all += 1;
        harmless += usize::from(truth == "harmless");
        match (truth, is_blocked) {
            ("harmless", true) => blocked.push(format!("{line}: {:?}", plan.changes)),
            ("dangerous" | "refused", false) => waved.push(format!("{line}: {:?}", plan.state)),
            _ => {}
        }
    }
    assert_eq!(all, 500);
    assert!(waved.is_empty(), "{} of {}:\n{}", waved.len(), all - harmless, waved.join("\n"));
    assert!(blocked.is_empty(), "{} of {harmless}:\n{}", blocked.len(), blocked.join("\n"));
}
