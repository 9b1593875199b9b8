//! The way back from every stage, and what is printed for its steps.

use super::back::BackReport;
use super::stages::{MigrationStage, StageState};
use super::walkthrough_tests::{KCM_LEADS, Seen, situation};

const KUBE: (&str, &str) = ("kube-controller-manager", "1_a");
const CLOUD: (&str, &str) = ("cloud-controller-manager", "2_b");

/// The first step that is not done, with its state; the process that is next.
fn back(seen: &Seen, stage: MigrationStage) -> String {
    let reports = situation(seen).back_to(stage);
    let open = reports.iter().find(|report| report.state != StageState::Done);
    open.map_or("back".to_owned(), |BackReport { step, state, next, .. }| {
        let next = next.as_ref().map_or_else(String::new, |next| format!(" [{next}]"));
        format!("{step:?} {}: {}{next}", state.word(), state.reason())
    })
}

#[test]
fn from_the_last_stage_to_the_first() {
    use MigrationStage::{Enable, Introduce, Preflight};
    let cleaned = Seen {
        processes: &[("1", "new"), ("1", "cloud"), ("2", "new"), ("2", "cloud")],
        holders: &[KUBE, CLOUD],
        granted: false,
        held_for_s: None,
    };
    assert_eq!(back(&cleaned, Preflight), "Grant to do: a Role and its binding are missing");
    let granted = Seen { granted: true, ..cleaned };
    assert_eq!(
        back(&granted, Preflight),
        "Flag to do: give CCM-1 the enable flag again; 2 are without it [CCM-1]",
        "the holder of the Lease comes last"
    );
    let flagged = Seen {
        processes: &[("1", "new"), ("1", "cloud+flag"), ("2", "new"), ("2", "cloud+flag")],
        holders: &[KUBE, CLOUD, ("move", "2_b")],
        ..granted
    };
    assert_eq!(
        back(&flagged, Preflight),
        "Restore to do: next: the node of KCM-2, back to the old release with --cloud-provider and the enable flag; 2 are left, \
         the holder's comes last [KCM-2]"
    );
    let half = Seen {
        processes: &[("1", "new"), ("1", "cloud+flag"), ("2", "old+flag"), ("2", "cloud+flag")],
        ..flagged
    };
    assert!(back(&half, Preflight).ends_with("1 are left, the holder's comes last [KCM-1]"));
    let unflagged = Seen { processes: &[("1", "old"), ("2", "old+flag"), ("2", "cloud+flag")], ..flagged };
    assert!(back(&unflagged, Preflight).ends_with("[KCM-1]"), "two would run the controllers");
    let restored = Seen {
        processes: &[("1", "old+flag"), ("1", "cloud+flag"), ("2", "old+flag"), ("2", "cloud+flag")],
        holders: &[CLOUD, ("move", "2_b")],
        ..half
    };
    assert_eq!(
        back(&restored, Preflight),
        "Restore in progress: no kube-controller-manager holds its main Lease yet"
    );
    let led = Seen { holders: &[KUBE, CLOUD, ("move", "2_b")], ..restored };
    assert_eq!(back(&led, Preflight), "Leave to do: remove CCM-1; 2 are left, the holder goes last [CCM-1]");
    let gone = Seen { processes: &[("1", "old+flag"), ("2", "old+flag")], ..led };
    assert_eq!(back(&gone, Introduce), "Leave in progress: no kube-controller-manager holds both Leases yet");
    let taken = Seen { holders: &[KUBE, ("move", "1_a")], ..gone };
    assert_eq!(back(&taken, Introduce), "back");
    assert_eq!(back(&taken, Preflight), "Unflag to do: take the enable flag from KCM-2; 2 have it [KCM-2]");
    let plain = Seen { processes: &[("1", "old"), ("2", "old")], ..taken };
    assert_eq!(back(&plain, Enable), "back");
    assert_eq!(back(&plain, Preflight), "Clean in progress: 1_a renews the migration Lease");
    let free = Seen { holders: &[KUBE, ("move", "")], ..plain };
    assert!(back(&free, Preflight).starts_with("Clean to do: delete the Lease"));
    let clean = Seen { holders: &[KUBE], granted: false, ..free };
    assert_eq!(back(&clean, Preflight), "back");
}

/// Where stage 2 alone was begun nobody has to come back.
#[test]
fn from_the_second_stage_only_the_flags_go() {
    let seen = Seen {
        processes: &[("1", "old+flag"), ("2", "old")],
        holders: &[KCM_LEADS],
        granted: true,
        held_for_s: None,
    };
    assert_eq!(
        back(&seen, MigrationStage::Preflight),
        "Unflag to do: take the enable flag from KCM-1; 1 have it [KCM-1]"
    );
}
