//! The shared sample objects, when they are there.

use std::path::{Path, PathBuf};

use super::*;

pub(super) fn sample(file: &str) -> Option<Vec<Value>> {
    let root = std::env::var_os("CAPSTAN_SHARED").map_or_else(
        || Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("../shared"),
        PathBuf::from,
    );
    let path = root.join("samples").join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: {} is not there", path.display());
        return None;
    };
    Some(serde_saphyr::from_multiple(&text).expect("valid YAML"))
}

/// Verdict of each cluster of a sample file, and its cause in a few words.
fn verdicts(file: &str) -> Option<Vec<(String, Verdict, String)>> {
    verdicts_at(file, NOW)
}

fn verdicts_at(file: &str, moment: &str) -> Option<Vec<(String, Verdict, String)>> {
    let mut fleet = Fleet::new();
    fleet.advance(parse_rfc3339(moment).expect("a moment"));
    fleet.apply(sample(file)?.iter().map(|o| Delta::Upsert(row_of(o))).collect());
    println!("{}", picture(&fleet, &TreeOptions::default()));
    let clusters = fleet.clusters().iter();
    Some(
        clusters
            .map(|id| {
                (
                    fleet.row(*id).expect("there").name.to_string(),
                    fleet.verdict(*id),
                    fleet.what_is_wrong(*id),
                )
            })
            .collect(),
    )
}

#[test]
fn healthy() {
    let Some(all) = verdicts("01-healthy-ha.yaml") else { return };
    assert_eq!(all, [("prod-eu".to_owned(), Verdict::Ok, String::new())]);
}

#[test]
fn rollout() {
    // The moment it was taken, 20 s after its youngest Machine was made.
    let Some(all) = verdicts_at("02-md-rollout.yaml", "2026-11-20T09:59:00Z") else { return };
    assert_eq!(all[0].1, Verdict::Progressing);
    let Some(all) = verdicts("02-md-rollout.yaml") else { return };
    assert_eq!(all[0].1, Verdict::Degraded, "its siblings took a quarter of that");
}

#[test]
fn broken() {
    let Some(all) = verdicts("03-broken.yaml") else { return };
    assert_eq!(all[0].1, Verdict::Blocked);
    assert_eq!(all[1].1, Verdict::Degraded, "without contact for three quarters of an hour");
}

#[test]
fn in_place() {
    let Some(all) = verdicts("04-classy-in-place.yaml") else { return };
    assert_eq!(all[0].1, Verdict::Progressing);
}
