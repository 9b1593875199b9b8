//! A leader migration played: simulated kube-controller-managers and cloud-controller-managers compete for real Leases of
//! the embedded server while nodes go from one release to the next, one by one. What the walkthrough says on the way is
//! kept as a golden text, with who ran the controllers in every second. Every failure of the catalogue that can be
//! played has the effect that the validator names. Paused time.

use std::time::Duration;

use capstan::cli::args::{Cli, Command};
use capstan::cli::rehearse::rehearse;
use capstan_base::time::{Timestamp, parse_rfc3339};
use capstan_commands::leader_migration::args::LeaderMigrationCommand;
use capstan_worlds::standalone::rehearsal::{
    Cast, FAILURES, FailureEffect, Played, WAYS_BACK, failure, way_back, whole_way,
};
use clap::Parser as _;
use leader_migration::release::Release;
use leader_migration::stages::MigrationStage;

use crate::golden;

/// A lease duration and two retries, with a second for each look.
const TAKEOVER_MAX: Duration = Duration::from_secs(15 + 2 * 2 + 2);

fn start() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

fn cast(old: u64, new: u64, seed: u64) -> Cast {
    let nodes = ["cp-1", "cp-2", "cp-3"].map(str::to_owned).to_vec();
    Cast { nodes, old: Release(old), new: Release(new), start: start(), seed }
}

/// Never two at once, and never without one for longer than so many takeovers take.
fn is_sound(played: &Played, takeovers: u32) {
    assert!(!played.has_overlap, "{}", played.log);
    assert!(played.longest_gap <= TAKEOVER_MAX * takeovers, "{:?}\n{}", played.longest_gap, played.log);
}

/// The stages that the walkthrough named, each once.
fn stages(played: &Played) -> Vec<char> {
    let mut named: Vec<char> =
        played.log.lines().filter_map(|line| line.split_once("  stage ")?.1.chars().next()).collect();
    named.dedup();
    named
}

#[tokio::test(start_paused = true)]
async fn from_the_first_stage_to_the_last_nobody_acts_twice() {
    let played = whole_way(cast(26, 27, 7)).await.expect("played");
    is_sound(&played, 1);
    assert_eq!(stages(&played), ['1', '2', '3', '4', '5', '6', '7'], "{}", played.log);
    assert!(played.log.ends_with("nothing to migrate\n"), "{}", played.log);
    golden::golden("leader_migration", &played.log);
}

/// Also where processes of two releases name the controllers differently, and read files of two versions.
#[tokio::test(start_paused = true)]
async fn across_the_releases_that_renamed_things() {
    for (seed, (old, new)) in (1..).zip([(21, 22), (23, 24), (27, 28), (29, 30), (30, 31)]) {
        let played = whole_way(cast(old, new, seed)).await.expect("played");
        is_sound(&played, 2);
        assert!(played.log.ends_with("nothing to migrate\n"), "1.{old} to 1.{new}\n{}", played.log);
    }
}

#[tokio::test(start_paused = true)]
async fn every_stage_has_a_way_back_without_two_actors() {
    for from in WAYS_BACK {
        let played = way_back(cast(26, 27, 3), from).await.expect("played");
        // Whoever gets the main Lease sees the migration Lease of a dead process for the first time, and waits once more.
        is_sound(&played, 2);
        let last = played.log.lines().last().unwrap_or_default();
        assert!(
            last.contains("stage 2 to do: begin with kube-controller-manager-cp-"),
            "{from:?}\n{}",
            played.log
        );
        assert!(!played.log.contains("blocked"), "{from:?}\n{}", played.log);
    }
    let refused = way_back(cast(26, 27, 3), MigrationStage::Clean).await.expect_err("nothing to go back to");
    assert_eq!(refused.to_string(), "stage 7: expected one of 2, 3, 4, 5, 6");
}

/// The validator names each failure, and the processes then do what it says.
#[tokio::test(start_paused = true)]
async fn every_failure_has_the_effect_that_is_foretold() {
    for expected in FAILURES {
        let code = expected.code;
        let (seen, played) = failure(cast(26, 27, 5), code).await.expect("played");
        assert_eq!(seen, expected.effect, "{code}\n{}", played.log);
        assert!(played.codes.contains(&code), "{code} is not among {:?}\n{}", played.codes, played.log);
        let is_foretold = match seen {
            FailureEffect::Twice => played.codes.contains(&"two-actors"),
            // A process that ends runs nothing, and one that never could has nothing to lose.
            FailureEffect::Nowhere => code == "F16" || played.codes.contains(&"no-actor"),
            FailureEffect::Exits => !played.codes.contains(&"two-actors"),
            FailureEffect::Sound => {
                !played.codes.contains(&"two-actors") && !played.codes.contains(&"no-actor")
            }
        };
        assert!(is_foretold, "{code}: {seen:?} is not foretold by {:?}", played.codes);
    }
    assert_eq!(FAILURES.len(), 22);
}

async fn rehearsed(line: &str) -> (String, bool) {
    let words = ["capstan", "leader-migration", "rehearse"].into_iter().chain(line.split_whitespace());
    let Some(Command::LeaderMigration(LeaderMigrationCommand::Rehearse(args))) =
        (match Cli::try_parse_from(words) {
            Ok(cli) => cli.command,
            Err(error) => return (error.to_string(), false),
        })
    else {
        panic!("{line}")
    };
    match rehearse(&args, start()).await {
        Ok(printed) => (printed.document, printed.is_fine),
        Err(error) => (error.to_string(), false),
    }
}

#[tokio::test]
async fn the_command_plays_and_says_what_came_of_it() {
    let (document, is_fine) = rehearsed("--nodes 1 --back-from 2").await;
    assert!(is_fine && document.contains("no controller ran twice at any moment"), "{document}");
    let (document, _) = rehearsed("--failure f5").await;
    assert!(document.contains("all three: kube-controller-manager-cp-1 and cloud-controller-manager-cp-2"));
    assert!(document.contains("error F5  a process without the enable flag"), "{document}");
    for (line, why) in [
        ("--nodes 0", "0 is not in 1.."),
        ("--failure F99", "expected one of F1 to F22"),
        ("--back-from 1", "1 is not in 2..=6"),
        ("--back-from 9", "9 is not in 2..=6"),
        ("--kcm-version 1.20", "1.20 has no leader migration"),
    ] {
        let (said, _) = rehearsed(line).await;
        assert!(said.contains(why), "{line}: {said}");
    }
}
