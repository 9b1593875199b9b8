//! Filling an empty prefix, so that a half full one is never taken for a whole one: from before the
//! first write until after the last, a key beside the prefix says that it is being filled, and no store
//! is opened on it. Owns that key; must not know what is filled in.
//!
//! The key is never removed, only changed, and every write of a restore depends on its revision. So
//! nothing that a restore has sent can happen once another goes on in its place or it is at its end,
//! however late a paused member brings it up.

use super::layout::Layout;
use super::members::{Members, Patience};
use super::wire::{Compaction, Failure, Guard, Item, Op, Query, Transaction};
use super::{EtcdOptions, EtcdStore};
use crate::history::Bounds;
use crate::{Error, Range, Revision, Store};
use capstan_base::rng::Rng;

/// Before the prefix in the key.
const MARK: &str = "capstan_restore";
/// How the value begins while the prefix is being filled, and afterwards.
const UNDER_WAY: &str = "restoring ";
const AT_ITS_END: &str = "restored ";
/// So that two processes that restore the same are two.
const NAME_LETTERS: usize = 16;

/// Why a prefix cannot be filled.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error(transparent)]
    Store(#[from] Error),
    #[error("the store is not empty; a backup is only restored into an empty store, so choose another one")]
    Occupied,
    #[error(
        "another backup was being restored here, and did not come to its end; restore that one again, or make room \
         with: etcdctl del --prefix {prefix}/ && etcdctl del {mark}"
    )]
    OtherBackup { prefix: String, mark: String },
    #[error("another process has begun to restore the same backup here, and goes on with it")]
    TakenOver,
}

/// A prefix that is being filled, or will be.
pub struct EtcdRestore {
    store: EtcdStore,
    mark: Mark,
    /// The rest of that key's value while the restore runs, after [`UNDER_WAY`].
    content: String,
}

impl EtcdRestore {
    /// Connects, and changes nothing. `checksum` names what is going to be filled in.
    ///
    /// # Errors
    /// As [`EtcdStore::connect`].
    pub async fn connect(options: EtcdOptions, checksum: &str) -> Result<Self, Error> {
        let rng = options.rng.clone();
        let store = EtcdStore::connect_bounded(options, Bounds::default()).await?;
        Ok(Self::over(store, checksum, &rng))
    }

    pub(super) fn over(store: EtcdStore, checksum: &str, rng: &Rng) -> Self {
        let mark = Mark::of(&store.0.layout);
        let content = format!("sha256:{checksum} by {}", rng.suffix(NAME_LETTERS));
        Self { store, mark, content }
    }

    /// Where to write once it is begun.
    pub fn store(&self) -> &EtcdStore {
        &self.store
    }

    /// Says that the prefix is being filled: an empty one, or one where the same was begun before and did
    /// not come to its end.
    ///
    /// # Errors
    /// [`RestoreError`]; nothing is written then.
    pub async fn begin(&self) -> Result<(), RestoreError> {
        let (members, mark) = (&self.store.0.members, &self.mark);
        // Read first: the write below fails then if another restore begins while the prefix is
        // looked at.
        let seen = mark.read(members).await.map_err(self.store.failed())?;
        match seen.as_ref().and_then(under_way) {
            Some(content) if same(content, &self.content) => {}
            Some(_) => {
                let prefix = self.store.0.layout.prefix().to_owned();
                return Err(RestoreError::OtherBackup { prefix, mark: mark.key.clone() });
            }
            None => self.check_empty().await?,
        }
        let at = seen.map_or(0, |item| item.modified);
        // The mark is changed only as it was read, so that one of two restores wins.
        let made = mark.put(members, at, format!("{UNDER_WAY}{}", self.content)).await;
        let made = made.map_err(self.store.failed())?.ok_or(RestoreError::TakenOver)?;
        self.store.0.writer.depend_on(Guard { key: mark.key.clone(), modified: made });
        Ok(())
    }

    async fn check_empty(&self) -> Result<(), RestoreError> {
        let page = self.store.range(Range { limit: 1, ..Range::default() }).await?;
        let has_garbage = !self.store.0.garbage.read().is_empty();
        if page.entries.is_empty() && !has_garbage { Ok(()) } else { Err(RestoreError::Occupied) }
    }

    /// Forgets how the prefix was filled, so that who has a version of a lost history has to read
    /// anew, and then marks the store as whole.
    ///
    /// # Errors
    /// [`RestoreError`]; the prefix counts as half full then.
    pub async fn finish(&self) -> Result<(), RestoreError> {
        let (members, mark) = (&self.store.0.members, &self.mark);
        let upto = self.store.revision().await?;
        match members.repeat(&Compaction(upto), Patience::REQUEST).await {
            // An earlier attempt may have compacted, and its answer was lost.
            Err(failure) if !matches!(failure, Failure::Compacted(_)) => {
                return Err(self.store.failed()(failure).into());
            }
            _ => self.store.0.image.compact(upto),
        }
        let seen = mark.read(members).await.map_err(self.store.failed())?;
        let ours = seen.filter(|item| under_way(item) == Some(&self.content));
        let at = ours.ok_or(RestoreError::TakenOver)?.modified;
        let made = mark.put(members, at, format!("{AT_ITS_END}{}", self.content)).await;
        made.map_err(self.store.failed())?.ok_or(RestoreError::TakenOver).map(drop)
    }
}

/// Refuses a prefix that is half full.
pub(super) async fn check_whole(members: &Members, layout: &Layout) -> Result<(), Error> {
    let mark = Mark::of(layout);
    let seen = mark.read(members).await.map_err(|failure| layout.failed(&failure))?;
    if seen.as_ref().and_then(under_way).is_none() {
        return Ok(());
    }
    Err(Error::HalfRestored { store: layout.store(), prefix: layout.prefix().to_owned(), mark: mark.key })
}

fn under_way(item: &Item) -> Option<&str> {
    std::str::from_utf8(&item.value).ok()?.strip_prefix(UNDER_WAY)
}

/// Whether two restores fill in the same.
fn same(one: &str, other: &str) -> bool {
    // The first word is the checksum; the rest names the process.
    one.split(' ').next() == other.split(' ').next()
}

/// The key beside the prefix.
struct Mark {
    key: String,
}

impl Mark {
    fn of(layout: &Layout) -> Self {
        Self { key: format!("{MARK}{}", layout.prefix()) }
    }

    async fn read(&self, members: &Members) -> Result<Option<Item>, Failure> {
        let found = members.repeat(&Query::key(&self.key), Patience::REQUEST).await?;
        Ok(found.items.into_iter().next())
    }

    /// Writes `value` if the key was last written at `modified`. The revision of this; `None`: somebody else
    /// wrote.
    async fn put(
        &self,
        members: &Members,
        modified: Revision,
        value: String,
    ) -> Result<Option<Revision>, Failure> {
        let request = Transaction {
            guards: vec![Guard { key: self.key.clone(), modified }],
            then: vec![Op::Put(self.key.clone(), value.clone().into())],
            otherwise: vec![Op::Get(self.key.clone())],
        };
        let answer = members.repeat(&request, Patience::REQUEST).await?;
        if answer.held {
            return Ok(Some(answer.revision));
        }
        // An earlier attempt of this very request, whose answer was lost.
        let there = answer.found.into_iter().flatten().next().filter(|item| item.value == value);
        Ok(there.map(|item| item.modified))
    }
}
