//! The readings of one cluster that a screen asks for again and again: how urgent the next is, how old the last is, and why the one after it
//! failed. Must not know what is read.

use ratatui::text::Span;

use crate::fleet::{Fleet, Item, RowId};
use crate::tui::paint::Paint;
use crate::tui::subject::{PlannedCluster, Subject, Want};
use crate::tui::theme::Scope;
use capstan_base::text::sanitize_line;
use capstan_base::time::Timestamp;

pub struct Readings {
    pub cluster: PlannedCluster,
    /// Why the last one failed; what was read before stays.
    trouble: Option<String>,
    read_at: Option<Timestamp>,
    /// The next one does not wait.
    is_urgent: bool,
    /// How often what was under way came to be of no use.
    version: u64,
}

impl Readings {
    pub fn of(fleet: &Fleet, cluster: RowId) -> Option<Self> {
        let cluster = PlannedCluster::of(fleet, cluster)?;
        Some(Self { cluster, trouble: None, read_at: None, is_urgent: true, version: 0 })
    }

    /// The next one, and how long to rest before it.
    pub fn want(&self, subject: impl FnOnce(PlannedCluster) -> Subject, rest_ms: u64) -> Want {
        let wait_ms = if self.is_urgent { 0 } else { rest_ms };
        Want { subject: subject(self.cluster.clone()), version: self.version, wait_ms }
    }

    /// The cluster was changed: it is read again at once.
    pub fn hurry(&mut self) {
        // Another version stops a reading under way, which may show what was before the change.
        (self.version, self.is_urgent) = (self.version + 1, true);
    }

    /// What was read, if it is about this cluster and did not fail.
    pub fn take<T: Clone>(
        &mut self,
        of: &PlannedCluster,
        read: &Result<T, String>,
        now: Timestamp,
    ) -> Option<T> {
        if self.cluster != *of {
            return None;
        }
        // After a failure as well, or a cluster that cannot be read would be asked without a rest.
        self.is_urgent = false;
        match read {
            Ok(read) => {
                (self.trouble, self.read_at) = (None, Some(now));
                Some(read.clone())
            }
            Err(why) => {
                self.trouble = Some(sanitize_line(why));
                None
            }
        }
    }

    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// The Cluster as a row.
    pub fn row(&self, fleet: &Fleet) -> Option<Item> {
        fleet.find(self.cluster.source, self.cluster.uid).map(Item::Row)
    }

    /// How old the last one is.
    pub fn age(&self, paint: &Paint<'_>) -> Span<'static> {
        match (self.read_at, &self.trouble) {
            (Some(at), None) => paint.span(Scope::Muted, format!("read {} ago", paint.age(at))),
            (Some(at), Some(_)) => paint.span(Scope::Stale, format!("read {} ago, not since", paint.age(at))),
            (None, _) => Span::raw(""),
        }
    }
}
