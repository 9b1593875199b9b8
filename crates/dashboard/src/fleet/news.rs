//! What is new in a cluster since a moment: how it stood then, and what of the changes since matters to somebody who was away.
//! Owns what matters; must not know how it is told.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::row::{Kind, RowId, SourceId, Uid};
use super::timeline::{Happened, TimelineEntry};
use super::turned::Turned;
use super::verdict::Verdict;
use super::{Fleet, short_name};

/// What is new in one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// `None`: it is gone.
    pub cluster: Option<(RowId, SourceId)>,
    pub uid: Uid,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// The verdict that it had then, where it has another one now; `Some(None)`: it was not there.
    pub was: Option<Option<Verdict>>,
    /// When the last of it happened, seconds since the epoch.
    pub last_s: u32,
    pub changes: NewsChanges,
}

/// What happened to the objects of a cluster, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewsChanges {
    pub made: usize,
    pub gone: usize,
    /// From the first to the last of them.
    pub version: Option<(Arc<str>, Arc<str>)>,
    /// What was scaled, its replicas then and now.
    pub scaled: Vec<(String, u32, u32)>,
    pub paused: Option<bool>,
}

impl NewsChanges {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes in what happened, the oldest first.
    fn note(&mut self, entry: &TimelineEntry, cluster: &str, gone: &mut FxHashSet<Uid>) {
        let is_owner = matches!(
            entry.kind,
            Kind::Cluster | Kind::ControlPlane | Kind::MachineDeployment | Kind::MachinePool
        );
        match &entry.happened {
            Happened::Made if entry.kind == Kind::Machine => self.made += 1,
            // Its deletion and its end are one loss.
            Happened::Deleted | Happened::Gone if entry.kind == Kind::Machine => {
                self.gone += usize::from(gone.insert(entry.uid));
            }
            Happened::Version { from, to } if is_owner => {
                let first = self.version.take().map_or_else(|| from.clone(), |(first, _)| first);
                self.version = Some((first, to.clone()));
            }
            Happened::Replicas { from, to } if is_owner => {
                self.scale(short_name(&entry.name, cluster), *from, *to);
            }
            Happened::Paused(is_paused) if is_owner => self.paused = Some(*is_paused),
            _ => {}
        }
    }

    fn scale(&mut self, name: &str, from: u32, to: u32) {
        match self.scaled.iter_mut().find(|(known, ..)| known == name) {
            Some((.., last)) => *last = to,
            None => self.scaled.push((name.to_owned(), from, to)),
        }
    }

    /// What was taken back is not new.
    fn settle(&mut self) {
        self.scaled.retain(|(_, from, to)| from != to);
        self.version = self.version.take().filter(|(from, to)| from != to);
    }
}

impl Fleet {
    /// What is new in a cluster since that moment; `None`: nothing that matters. `turned`: how it turned since then.
    pub fn news_of(&self, cluster: RowId, since_s: u32, turned: Option<&Turned>) -> Option<News> {
        let row = self.row(cluster)?;
        let mut entries = self.timeline(cluster);
        entries.retain(|entry| entry.at_s > since_s);
        let (mut changes, mut gone) = (NewsChanges::default(), FxHashSet::default());
        entries.iter().rev().for_each(|entry| changes.note(entry, &row.name, &mut gone));
        changes.settle();
        if turned.is_none() && changes.is_empty() {
            return None;
        }
        let matters = |entry: &&TimelineEntry| !matches!(entry.happened, Happened::Flip(_));
        let last_s = entries.iter().find(matters).map_or(0, |entry| entry.at_s);
        Some(News {
            cluster: Some((cluster, row.source)),
            uid: row.uid,
            namespace: row.namespace.as_ref().into(),
            name: row.name.as_ref().into(),
            was: turned.map(|turned| turned.from),
            last_s: last_s.max(turned.map_or(0, |turned| turned.at_s)),
            changes,
        })
    }
}

impl From<Turned> for News {
    /// Of a cluster that is gone.
    fn from(turned: Turned) -> Self {
        Self {
            cluster: None,
            uid: turned.cluster,
            namespace: turned.namespace,
            name: turned.name,
            was: Some(turned.from),
            last_s: turned.at_s,
            changes: NewsChanges::default(),
        }
    }
}
