//! What one member of etcd is asked and what it answers: the little of etcd's API that the store
//! uses, as plain values. The real client (`grpc.rs`) and the model of the tests stand behind the
//! same trait. Must not know why anything is asked, nor how a request travels.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::Revision;

/// One key with its value, as etcd has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    pub(super) created: Revision,
    pub(super) modified: Revision,
}

/// A read through the leader: it sees every write that was acknowledged before.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    /// Bytes: others may keep keys below the prefix that are not text.
    pub(super) from: Vec<u8>,
    /// The first key behind the range; `None`: the one key.
    pub(super) end: Option<String>,
    /// At most this many; 0: all.
    pub(super) limit: i64,
    pub(super) at: Option<Revision>,
}

impl Query {
    pub(super) fn key(key: &str) -> Self {
        Self { from: key.as_bytes().to_vec(), ..Self::default() }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) items: Vec<Item>,
    pub(super) more: bool,
    /// What etcd was at when it answered.
    pub(super) revision: Revision,
}

/// The last write of `key` was at `modified`; 0: it is not there.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    pub(super) key: String,
    pub(super) modified: Revision,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Put(String, Bytes),
    Delete(String),
    Get(String),
}

/// `then` if every guard holds, else `otherwise`.
#[derive(Clone, Debug, Default)]
pub(super) struct Transaction {
    pub(super) guards: Vec<Guard>,
    pub(super) then: Vec<Op>,
    pub(super) otherwise: Vec<Op>,
}

#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// The guards held.
    pub(super) held: bool,
    /// That of the transaction, if it changed anything.
    pub(super) revision: Revision,
    /// What each `Get` that was done has found, in their order.
    pub(super) found: Vec<Option<Item>>,
}

/// Forgets what was before this revision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compaction(pub(super) Revision);

/// Changes of all keys from this revision on.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchFrom(pub(super) Revision);

/// One change of one key.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) key: Bytes,
    pub(super) revision: Revision,
    /// `None`: deleted.
    pub(super) put: Option<Item>,
}

/// What a watch brings.
#[derive(Clone, Debug)]
pub(super) enum News {
    /// The watch has begun at a member that is at this revision.
    Begun(Revision),
    /// Whole revisions, in their order.
    Changes(Vec<Event>),
    /// What was asked for is forgotten up to this revision.
    Compacted(Revision),
    /// A sign of life.
    Alive,
}

/// Why a request has no answer.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// It was never sent: the connection was refused.
    Unreachable(String),
    /// It was never sent: one of both sides does not accept the other's certificate.
    Untrusted(String),
    /// This member cannot do it now (it has no leader, for one); nothing was done.
    Unready(String),
    /// Whether it was done is not known.
    Lost(String),
    /// etcd is full; the write may have been made when that was noticed, and is not under way any more.
    Full(String),
    TooLarge(String),
    /// The revision is forgotten.
    Compacted(String),
    /// It is wrong; nothing was done, and nothing would be elsewhere.
    Refused(String),
}

impl Failure {
    pub(super) fn no_answer(after: Duration) -> Self {
        Self::Lost(format!("no answer within {:.1} s", after.as_secs_f64()))
    }

    /// Another member, or this one later, may do better.
    pub(super) fn is_of_member(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Untrusted(_) | Self::Unready(_) | Self::Lost(_))
    }

    /// It did not get to a member at all.
    pub(super) fn is_unsent(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Untrusted(_))
    }

    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Unreachable(reason)
            | Self::Untrusted(reason)
            | Self::Unready(reason)
            | Self::Lost(reason)
            | Self::Full(reason)
            | Self::TooLarge(reason)
            | Self::Compacted(reason)
            | Self::Refused(reason) => reason,
        }
    }
}

/// One member of etcd. A request whose future is dropped may be done all the same, also much later.
#[async_trait]
pub(super) trait Member: Send + Sync + 'static {
    async fn range(&self, query: &Query) -> Result<Found, Failure>;
    async fn txn(&self, transaction: &Transaction) -> Result<Answer, Failure>;
    async fn compact(&self, upto: Revision) -> Result<(), Failure>;
    async fn watch(&self, from: Revision) -> Result<Box<dyn Feed>, Failure>;
}

/// A running watch.
#[async_trait]
pub(super) trait Feed: Send {
    /// Waits for news. Safe to cancel.
    async fn next(&mut self) -> Result<News, Failure>;

    /// Asks for a sign of life.
    async fn ask(&mut self) -> Result<(), Failure>;
}

/// A request as a value, so that it can be made at one member after the other.
#[async_trait]
pub(super) trait Call: Sync {
    type Answer: Send;

    async fn make(&self, member: &dyn Member) -> Result<Self::Answer, Failure>;
}

#[async_trait]
impl Call for Query {
    type Answer = Found;

    async fn make(&self, member: &dyn Member) -> Result<Found, Failure> {
        member.range(self).await
    }
}

#[async_trait]
impl Call for Transaction {
    type Answer = Answer;

    async fn make(&self, member: &dyn Member) -> Result<Answer, Failure> {
        member.txn(self).await
    }
}

#[async_trait]
impl Call for Compaction {
    type Answer = ();

    async fn make(&self, member: &dyn Member) -> Result<(), Failure> {
        member.compact(self.0).await
    }
}

#[async_trait]
impl Call for WatchFrom {
    type Answer = Box<dyn Feed>;

    async fn make(&self, member: &dyn Member) -> Result<Box<dyn Feed>, Failure> {
        member.watch(self.0).await
    }
}
