//! What feeds a fleet: one change each, as plain data that can be recorded and replayed. Must not
//! know where a change came from.

use std::fmt;
use std::sync::Arc;

use super::row::{Row, SourceId, Uid};
use capstan_base::time::Timestamp;

/// One kind of one source: the unit that is listed, watched, refused or lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FeedKey {
    pub source: SourceId,
    pub group: Arc<str>,
    pub kind: Arc<str>,
}

impl fmt::Display for FeedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.kind)
        } else {
            write!(f, "{}.{}", self.kind, self.group)
        }
    }
}

/// How far a feed is. Nothing here empties the model: rows stay until a list shows they are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedState {
    /// First contact; nothing is known yet.
    Connecting,
    /// Pages are coming in; what is missing may still come.
    Listing,
    /// Complete, and every change arrives.
    Live,
    /// Complete, as it was written down; no change will arrive.
    Recorded,
    /// The identity may not list and watch this kind: not the same as "there are none".
    NoAccess { error: Box<str> },
    /// The server does not know the kind.
    NotServed { error: Box<str> },
    /// The server does not answer; what is shown is as old as `last_good` of the feed. It goes on by itself.
    Silent { error: Box<str> },
    /// The connection failed; what is shown is as old as `last_good` of the feed. Retried by itself.
    Lost { error: Box<str> },
}

/// One change to the fleet model.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// The object is now like this; also when it is new.
    Upsert(Arc<Row>),
    /// The object is gone.
    Remove { source: SourceId, uid: Uid },
    /// A list is complete and holds exactly these objects: others of the kind have vanished.
    Listed { feed: FeedKey, uids: Vec<Uid> },
    /// The feed changed its state.
    Feed { feed: FeedKey, state: FeedState, at: Timestamp },
    /// The server's history is another one than before; everything is read again.
    Replaced { source: SourceId },
    /// Something the operator should know about a source ("only v1beta1 is served"), or `None` to
    /// take it back.
    Notice { source: SourceId, text: Option<Box<str>> },
    /// The version of Cluster API that looks after the clusters of a source.
    ClusterApi { source: SourceId, version: Box<str> },
    /// Name of the source as people know it (the kubeconfig context).
    Source { source: SourceId, name: Box<str> },
}

/// Last known state of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feed {
    pub state: FeedState,
    /// When this state began.
    pub since: Timestamp,
    /// Until when the rows are known to have been true; `None` while live, or before the first list.
    pub last_good: Option<Timestamp>,
    /// A complete list has been seen at least once.
    pub listed: bool,
}

impl Feed {
    /// Since when the rows are only what was seen last, seconds since the epoch; `None` while they are current, are
    /// being read, or may not be read.
    pub fn lost_s(&self) -> Option<u32> {
        let is_lost = matches!(self.state, FeedState::Lost { .. } | FeedState::Silent { .. });
        let at = self.last_good.filter(|_| is_lost)?;
        u32::try_from(at.timestamp()).ok()
    }

    /// No list will come.
    pub fn is_refused(&self) -> bool {
        matches!(self.state, FeedState::NoAccess { .. } | FeedState::NotServed { .. })
    }
}
