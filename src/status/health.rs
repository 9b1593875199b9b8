//! The one severity scale of screens, counters and exit codes. Owns the words and their order; must
//! not know how they are drawn.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::condition_ops::polarity;
use super::merge::{Priority, priority};

/// How an object or a cluster is doing. Ordered from best to worst, so that the worst of many is
/// their maximum; *unknown* is worse than any known progress and better than a known fault.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Nothing to do and nothing wrong.
    Ok,
    /// On its way: creating, scaling, rolling out, deleting.
    Progressing,
    /// Could not be read, or was not reported.
    #[default]
    Unknown,
    /// Works, or half works, with something wrong.
    Degraded,
    /// Will not get further without somebody doing something.
    Blocked,
}

impl Health {
    pub const ALL: [Self; 5] = [Self::Ok, Self::Progressing, Self::Unknown, Self::Degraded, Self::Blocked];

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Progressing => "progressing",
            Self::Unknown => "unknown",
            Self::Degraded => "degraded",
            Self::Blocked => "blocked",
        }
    }

    /// The worst of many; `Ok` when there are none.
    #[must_use]
    pub fn worst(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().max().unwrap_or(Self::Ok)
    }

    /// What one condition says by its polarity: a negative type that is true (`Deleting`, `ScalingUp`)
    /// is progress, a positive type that is false is a fault.
    #[must_use]
    pub fn of_condition(condition: &Condition) -> Self {
        let polarity = polarity(&condition.type_);
        match (priority(condition, polarity), polarity) {
            (Priority::Info, _) => Self::Ok,
            (Priority::Unknown, _) => Self::Unknown,
            (Priority::Issue, super::condition_ops::Polarity::Negative) => Self::Progressing,
            (Priority::Issue, super::condition_ops::Polarity::Positive) => Self::Degraded,
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::condition::Status;
    use crate::status::condition_ops::condition;

    #[test]
    fn unknown_is_neither_green_nor_red() {
        assert_eq!(Health::worst([Health::Ok, Health::Unknown, Health::Progressing]), Health::Unknown);
        assert_eq!(Health::worst([Health::Unknown, Health::Degraded]), Health::Degraded);
        assert_eq!(Health::worst([]), Health::Ok);
    }

    #[test]
    fn polarity_decides() {
        for (type_, status, expected) in [
            ("Deleting", Status::True, Health::Progressing),
            ("Deleting", Status::False, Health::Ok),
            ("Ready", Status::False, Health::Degraded),
            ("Ready", Status::Unknown, Health::Unknown),
        ] {
            assert_eq!(Health::of_condition(&condition(type_, status, "R", "")), expected, "{type_}");
        }
    }
}
