//! `status.versions`: counts Kubernetes versions and puts them in order as upstream does. Must not know
//! which kind the counts are for.
//! Source: cluster-api `internal/util/version/version.go`, v1.14.2.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use semver::Version;

use capi_types::machine_set::VersionCount;
use k8s_machinery::version::{compare, parse};

/// Counts per exact version text, lowest first. `seen` lists one version per replica (or a version
/// with a count) in first-seen order, which decides between versions that cannot be compared.
/// Empty versions are left out.
pub fn count<'a>(seen: impl IntoIterator<Item = (&'a str, i32)>) -> Vec<VersionCount> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut counts: Vec<(Option<Version>, VersionCount)> = Vec::new();
    for (version, replicas) in seen.into_iter().filter(|(version, _)| !version.is_empty()) {
        let at = *places.entry(version).or_insert_with(|| {
            let entry = VersionCount { version: version.to_owned(), replicas: None };
            counts.push((parse(version), entry));
            counts.len() - 1
        });
        let total = counts[at].1.replicas.unwrap_or(0).saturating_add(replicas);
        counts[at].1.replicas = Some(total);
    }
    insertion_sort(&mut counts);
    let counted = counts.into_iter().map(|(_, entry)| entry);
    // The schema allows no count of 0, so it is left out.
    counted.map(|e| VersionCount { replicas: e.replicas.filter(|n| *n > 0), ..e }).collect()
}

/// By insertion: "cannot be compared" makes the order no total one, at which the library's sort may
/// panic. Versions of one cluster are few.
fn insertion_sort(counts: &mut [(Option<Version>, VersionCount)]) {
    for end in 1..counts.len() {
        let mut at = end;
        while at > 0 && display_order(&counts[at], &counts[at - 1]) == Ordering::Less {
            counts.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// Parsed versions before texts; equal precedence falls back to the text.
fn display_order(a: &(Option<Version>, VersionCount), b: &(Option<Version>, VersionCount)) -> Ordering {
    match (&a.0, &b.0) {
        (Some(x), Some(y)) => match compare(x, y) {
            Some(Ordering::Equal) => a.1.version.cmp(&b.1.version),
            Some(decided) => decided,
            None => Ordering::Equal,
        },
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.1.version.cmp(&b.1.version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(seen: &[(&str, i32)]) -> Vec<(String, Option<i32>)> {
        count(seen.iter().copied()).into_iter().map(|v| (v.version, v.replicas)).collect()
    }

    #[test]
    fn counting_merges_and_sorts() {
        let seen = [("v1.34.1", 1), ("", 1), ("v1.33.9", 1), ("v1.34.1", 1), ("odd", 1)];
        assert_eq!(
            counted(&seen),
            [("v1.33.9".to_owned(), Some(1)), ("v1.34.1".to_owned(), Some(2)), ("odd".to_owned(), Some(1))]
        );
        assert_eq!(
            counted(&[("v1.30.0", 1), ("1.30.0", 0)]),
            [("1.30.0".to_owned(), None), ("v1.30.0".to_owned(), Some(1))]
        );
        assert_eq!(counted(&[("v1.0.0", i32::MAX), ("v1.0.0", i32::MAX)])[0].1, Some(i32::MAX));
    }

    /// `+a`, `+b` and `+c` have no order among them, and numbers come before each: no total order.
    #[test]
    fn versions_without_an_order_stay_as_they_were_seen() {
        let builds: Vec<String> =
            (0..40).map(|n| format!("v1.34.1+{}", ["b", "a", "7", "c"][n % 4])).collect();
        let seen: Vec<(&str, i32)> = builds.iter().map(|b| (b.as_str(), 1)).collect();
        let order: Vec<String> = counted(&seen).into_iter().map(|(version, _)| version).collect();
        assert_eq!(order, ["v1.34.1+7", "v1.34.1+b", "v1.34.1+a", "v1.34.1+c"]);
    }
}
