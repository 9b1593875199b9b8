//! Until when a version of Kubernetes or of Cluster API is looked after upstream, by its minor. Owns the table, which a person
//! keeps by hand; must not know which versions a fleet has, nor how loud an end is.
//!
//! Sources: kubernetes.io/releases, a page for each minor, and its list of those that ended, as of September 2026; cluster-api
//! `docs/book/src/reference/versions.md` and `docs/release/releases/release-1.15.md`, as of August 2026.

use std::fmt;

use semver::Version;

use capstan_base::time::{Timestamp, parse_rfc3339};
use k8s_machinery::version::parse;

/// When the table was last compared with those pages.
pub const TABLE_OF: &str = "September 2026";

/// An end that comes within so many days is said.
const NEAR_DAYS: i64 = 60;

/// What has releases with an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Project {
    /// Of a cluster.
    Kubernetes,
    /// Of a management cluster.
    ClusterApi,
}

/// Minors of 1 with the day on which their support ends, oldest first.
const KUBERNETES: [(u64, &str); 18] = [
    (20, "2022-02-28"),
    (21, "2022-06-28"),
    (22, "2022-12-08"),
    (23, "2023-02-28"),
    (24, "2023-07-28"),
    (25, "2023-10-28"),
    (26, "2024-02-28"),
    (27, "2024-07-16"),
    (28, "2024-10-22"),
    (29, "2025-02-28"),
    (30, "2025-07-15"),
    (31, "2025-11-11"),
    (32, "2026-02-28"),
    (33, "2026-06-28"),
    (34, "2026-10-27"),
    (35, "2027-02-28"),
    (36, "2027-06-28"),
    (37, "2027-10-28"),
];

/// A minor ends when the third one after it is released, so that those of the last two have no day yet; the day of 1.12 is that
/// for which 1.15 is planned.
const CLUSTER_API: [(u64, &str); 13] = [
    (0, "2022-12-01"),
    (1, "2023-03-28"),
    (2, "2023-07-25"),
    (3, "2023-12-05"),
    (4, "2024-04-16"),
    (5, "2024-08-12"),
    (6, "2024-12-10"),
    (7, "2025-04-22"),
    (8, "2025-08-12"),
    (9, "2025-12-18"),
    (10, "2026-04-21"),
    (11, "2026-08-18"),
    (12, "2026-12-08"),
];

/// The end of a minor's support that has come or is near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupportEnd {
    /// Whose.
    pub project: Project,
    /// Of version 1.
    pub minor: u64,
    /// As published: year, month, day.
    pub day: &'static str,
    /// It has come.
    pub has_ended: bool,
}

impl SupportEnd {
    /// The end of this version's support; `None` while it is far, and of versions that the table does not have.
    pub fn of(project: Project, version: &str, now: Timestamp) -> Option<Self> {
        let Version { major: 1, minor, .. } = parse(version)? else { return None };
        let table: &[(u64, &str)] = match project {
            Project::Kubernetes => &KUBERNETES,
            Project::ClusterApi => &CLUSTER_API,
        };
        let (_, day) = table.iter().find(|(known, _)| *known == minor)?;
        // The day itself is still one of support.
        let end = parse_rfc3339(&format!("{day}T23:59:59Z"))?;
        let is_near = (end - now).num_days() < NEAR_DAYS;
        is_near.then_some(Self { project, minor, day, has_ended: end < now })
    }
}

impl Project {
    /// As its makers write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "Kubernetes",
            Self::ClusterApi => "Cluster API",
        }
    }
}

/// Such as `Kubernetes 1.34 ended 2026-10-27`, for a place that says what ended.
impl fmt::Display for SupportEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.has_ended { "ended" } else { "ends" };
        write!(f, "{} 1.{} {word} {}", self.project.name(), self.minor, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(project: Project, version: &str, now: &str) -> Option<String> {
        let now = parse_rfc3339(now).expect("a moment");
        SupportEnd::of(project, version, now).map(|end| end.to_string())
    }

    #[test]
    fn an_end_is_said_from_two_months_before_it_on() {
        let of = |now: &str| said(Project::Kubernetes, "v1.35.1", now);
        assert_eq!(of("2026-12-30T10:00:00Z"), None);
        let ends = Some("Kubernetes 1.35 ends 2027-02-28".to_owned());
        assert_eq!(of("2026-12-31T10:00:00Z"), ends);
        assert_eq!(of("2027-02-28T10:00:00Z"), ends);
        let ended = Some("Kubernetes 1.35 ended 2027-02-28".to_owned());
        assert_eq!(of("2027-03-01T00:00:00Z"), ended);
        assert_eq!(of("2040-01-01T00:00:00Z"), ended);
    }

    #[test]
    fn each_project_has_its_own_table_and_what_is_not_in_it_is_not_known() {
        let now = "2026-11-20T10:00:00Z";
        let ends = Some("Cluster API 1.12 ends 2026-12-08".to_owned());
        assert_eq!(said(Project::ClusterApi, "v1.12.3", now), ends);
        assert_eq!(said(Project::ClusterApi, "v1.14.2", now), None);
        let ended = Some("Kubernetes 1.31 ended 2025-11-11".to_owned());
        assert_eq!(said(Project::Kubernetes, "v1.31.4+rke2r1", now), ended);
        for version in ["", "v2.31.0", "v1.99.0", "v1.5.0", "stable"] {
            assert_eq!(said(Project::Kubernetes, version, now), None, "{version}");
        }
    }

    #[test]
    fn the_tables_are_in_order_and_have_days() {
        for table in [&KUBERNETES[..], &CLUSTER_API[..]] {
            assert!(table.windows(2).all(|two| two[0].0 + 1 == two[1].0 && two[0].1 < two[1].1));
            assert!(table.iter().all(|(_, day)| parse_rfc3339(&format!("{day}T00:00:00Z")).is_some()));
        }
    }
}
