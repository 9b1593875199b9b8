//! The flags that each release of the two programs has, by name. Owns the table and what a name that is not in it means;
//! must not know values.
//!
//! kube-controller-manager is the same in every build of upstream. A cloud-controller-manager has the flags of its library
//! and those of its provider, which nobody else can know: only a name that is near one of those that a migration
//! depends on is a slip for certain. The table is `known_flags.txt`; its head says where it is from.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use super::manager_kind::ManagerKind;
use super::release::Release;
use capstan_base::text::nearest;

/// Switches leader migration on; without the file, with the built-in configuration.
pub const ENABLE: &str = "enable-leader-migration";
/// The path of the file.
pub const CONFIG: &str = "leader-migration-config";

const TABLE: &str = include_str!("known_flags.txt");

/// Names that were never in a release, each with what it became: the proposal's word for the file.
const PROPOSED: [(&str, &str); 1] = [("cloud-migration-config", CONFIG)];

struct KnownFlag {
    takes_value: bool,
    /// Minor releases of kube-controller-manager that have it.
    kube: Option<RangeInclusive<u64>>,
    /// The same of the cloud-controller-manager's library.
    cloud: Option<RangeInclusive<u64>>,
}

impl KnownFlag {
    fn releases(&self, manager: ManagerKind) -> Option<&RangeInclusive<u64>> {
        match manager {
            ManagerKind::KubeControllerManager => self.kube.as_ref(),
            ManagerKind::CloudControllerManager => self.cloud.as_ref(),
        }
    }
}

static FLAGS: LazyLock<BTreeMap<&'static str, KnownFlag>> =
    LazyLock::new(|| TABLE.lines().filter_map(row).collect());

/// The first and the last release of the table.
static COVERED: LazyLock<RangeInclusive<u64>> = LazyLock::new(|| {
    let kube = || FLAGS.values().filter_map(|flag| flag.kube.as_ref());
    kube().map(|r| *r.start()).min().unwrap_or(0)..=kube().map(|r| *r.end()).max().unwrap_or(0)
});

/// `NAME bool|value KCM CCM`, where a program is `FIRST-LAST` or `-`.
fn row(line: &'static str) -> Option<(&'static str, KnownFlag)> {
    let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
    let (name, form) = (words.next()?, words.next()?);
    let mut releases = || -> Option<RangeInclusive<u64>> {
        let (first, last) = words.next()?.split_once('-')?;
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    let (kube, cloud) = (releases(), releases());
    Some((name, KnownFlag { takes_value: form == "value", kube, cloud }))
}

/// Does a value follow the flag, or stand only behind `=`? `None`: the flag is not known.
pub fn takes_value(manager: ManagerKind, name: &str) -> Option<bool> {
    let flag = FLAGS.get(name)?;
    flag.releases(manager).map(|_| flag.takes_value)
}

/// A flag that a program does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagFault {
    /// False: a provider, or a release after those of the table, may have it.
    pub is_certain: bool,
    /// A sentence: which releases have it, or which name is near.
    pub problem: String,
}

/// What is wrong with a flag of this name. `None`: the program has it.
pub fn fault(manager: ManagerKind, release: Release, name: &str) -> Option<FlagFault> {
    match FLAGS.get(name).and_then(|flag| flag.releases(manager)) {
        Some(releases) => another_release(manager, release, name, releases),
        None => Some(not_known(manager, release, name)),
    }
}

/// Which release a cloud-controller-manager's library is of follows from nothing certain, and its provider may have kept
/// a flag.
fn another_release(
    manager: ManagerKind,
    release: Release,
    name: &str,
    releases: &RangeInclusive<u64>,
) -> Option<FlagFault> {
    let Release(minor) = release;
    let is_there = releases.contains(&minor)
        || minor < *COVERED.start()
        // A release that the table does not cover yet has the flags of the last one.
        || minor > *COVERED.end() && releases.end() == COVERED.end();
    if is_there || manager == ManagerKind::CloudControllerManager {
        return None;
    }
    let when = if minor < *releases.start() {
        format!("it began with {}", Release(*releases.start()))
    } else {
        format!("the last release with it was {}", Release(*releases.end()))
    };
    Some(FlagFault { is_certain: true, problem: format!("unknown flag --{name} in {release}: {when}") })
}

fn not_known(manager: ManagerKind, release: Release, name: &str) -> FlagFault {
    let proposed = PROPOSED.iter().find(|(word, _)| *word == name).map(|(_, flag)| *flag);
    let known = FLAGS.iter().filter(|(_, flag)| flag.releases(manager).is_some()).map(|(name, _)| *name);
    let meant = proposed.or_else(|| nearest(name, known));
    let is_covered = manager == ManagerKind::KubeControllerManager && COVERED.contains(&release.0);
    let meant_instead = meant.map(|flag| format!("; did you mean --{flag}?")).unwrap_or_default();
    FlagFault {
        // A provider's build may have any other name: a slip is certain only near a flag that
        // decides who runs what.
        is_certain: is_covered || meant.is_some_and(decides_a_migration),
        problem: format!("unknown flag --{name}{meant_instead}"),
    }
}

/// Does who runs which controller depend on this flag?
fn decides_a_migration(name: &str) -> bool {
    [ENABLE, CONFIG, "controllers", "cloud-provider"].contains(&name) || name.starts_with("leader-elect")
}

#[cfg(test)]
mod tests {
    use super::*;

    use ManagerKind::{CloudControllerManager as Ccm, KubeControllerManager as Kcm};

    #[test]
    fn every_row_of_the_table_is_read() {
        let rows: Vec<&str> =
            TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        assert_eq!(FLAGS.len(), rows.len(), "a name stands twice, or a row cannot be read");
        for line in rows {
            let (name, flag) = row(line).expect(line);
            let programs = [&flag.kube, &flag.cloud];
            let written = line.split_whitespace().skip(2).filter(|word| *word != "-").count();
            assert_eq!(programs.iter().filter(|r| r.is_some()).count(), written, "{line}");
            assert!(programs.into_iter().flatten().all(|r| r.start() <= r.end()), "{line}");
            assert_eq!(name, name.to_lowercase().replace('_', "-"), "{line}");
        }
        assert_eq!(*COVERED.start(), 21, "the first release with leader migration");
    }

    #[test]
    fn a_flag_that_a_program_does_not_have_is_named() {
        for (manager, release, name, expected) in [
            (Kcm, 27, "enable-leader-migration", None),
            (Kcm, 27, "concurrent-gc-syncs", None),
            (Kcm, 24, "logtostderr", None),
            (
                Kcm,
                26,
                "logtostderr",
                Some((true, "unknown flag --logtostderr in 1.26: the last release with it was 1.25")),
            ),
            (
                Kcm,
                27,
                "concurrent-job-syncs",
                Some((true, "unknown flag --concurrent-job-syncs in 1.27: it began with 1.28")),
            ),
            (
                Kcm,
                27,
                "enable-leader-migrations",
                Some((
                    true,
                    "unknown flag --enable-leader-migrations; did you mean --enable-leader-migration?",
                )),
            ),
            (
                Kcm,
                27,
                "cloud-migration-config",
                Some((
                    true,
                    "unknown flag --cloud-migration-config; did you mean --leader-migration-config?",
                )),
            ),
            (Kcm, 27, "nobody-has-this", Some((true, "unknown flag --nobody-has-this"))),
            // Before the table and after it.
            (Kcm, 18, "concurrent-job-syncs", None),
            (Kcm, 99, "concurrent-job-syncs", None),
            (
                Kcm,
                99,
                "logtostderr",
                Some((true, "unknown flag --logtostderr in 1.99: the last release with it was 1.25")),
            ),
            (Kcm, 99, "nobody-has-this", Some((false, "unknown flag --nobody-has-this"))),
            (Ccm, 27, "leader-migration-config", None),
            (Ccm, 27, "node-status-update-frequency", None),
            (Ccm, 27, "concurrent-gc-syncs", Some((false, "unknown flag --concurrent-gc-syncs"))),
            (Ccm, 27, "enable-multi-project", Some((false, "unknown flag --enable-multi-project"))),
            // A provider may well have it.
            (Ccm, 27, "cluster-id", Some((false, "unknown flag --cluster-id; did you mean --cluster-cidr?"))),
            (
                Ccm,
                27,
                "leader-migration-confg",
                Some((
                    true,
                    "unknown flag --leader-migration-confg; did you mean --leader-migration-config?",
                )),
            ),
        ] {
            let found = fault(manager, Release(release), name);
            let found = found.as_ref().map(|fault| (fault.is_certain, fault.problem.as_str()));
            assert_eq!(found, expected, "{manager} 1.{release} --{name}");
        }
    }
}
