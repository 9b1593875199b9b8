//! The one severity scale of screens, counters and exit codes. Owns the words and their order; must
//! not know how they are drawn.

use std::fmt;

/// How an object or a cluster is doing. Ordered from best to worst, so that the worst of many is
/// their maximum; *unknown* is worse than any known progress and better than a known fault.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing to do and nothing wrong.
    Ok,
    /// On its way: creating, scaling, rolling out, deleting.
    Progressing,
    /// Could not be read, or was not reported.
    #[default]
    Unknown,
    /// Works, or half works, with something wrong.
    Degraded,
    /// Does not get further until a person acts.
    Blocked,
}

impl Verdict {
    pub const ALL: [Self; 5] = [Self::Ok, Self::Progressing, Self::Unknown, Self::Degraded, Self::Blocked];

    /// Is something wrong? Whose state is not known is not at fault.
    pub fn is_at_fault(self) -> bool {
        matches!(self, Self::Degraded | Self::Blocked)
    }

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
    pub fn worst(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().max().unwrap_or(Self::Ok)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_neither_green_nor_red() {
        assert_eq!(Verdict::worst([Verdict::Ok, Verdict::Unknown, Verdict::Progressing]), Verdict::Unknown);
        assert_eq!(Verdict::worst([Verdict::Unknown, Verdict::Degraded]), Verdict::Degraded);
        assert_eq!(Verdict::worst([]), Verdict::Ok);
    }
}
