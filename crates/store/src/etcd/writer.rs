//! Writes, each done once or not at all, whatever becomes of its answer. Must not know who reads.
//!
//! A transaction that puts something also writes its turn into a slot, a key of this process alone,
//! and holds only while nobody else has written there since. After a lost answer one more transaction
//! through any member decides: it writes into the slot if the slot is unchanged, so that the lost one
//! can never happen any more (a paused member may bring it up minutes later), and else reads from the
//! slot whether the lost one was made, and at which revision. Then it is made anew if it was not.
//!
//! Deletions have no slot, since a full etcd takes nothing but them. They are guarded by the revision
//! that they delete, which never comes back, so they can be repeated; a repeated one that finds the
//! object gone is answered as "not found", and the history has the revision of its deletion.
//!
//! Slots without a write for a while are removed by the server that compacts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::layout::Layout;
use super::members::{Attempts, Members, Patience};
use super::wire::{Answer, Failure, Guard, Op, Query, Transaction};
use crate::{Entry, Error, Key, Revision, Txn, Write};
use capstan_base::rng::Rng;

/// Before the name of a slot.
const SLOT_PREFIX: &str = "capstan_writer/";
/// What a slot holds when the turn that was lost is given up. Turns are numbers.
const GIVEN_UP: &str = "given up";
/// Slots made at a time. One is needed per transaction under way.
const SLOTS_TOGETHER: usize = 32;
/// Slots removed in one transaction.
const SWEPT_TOGETHER: usize = 60;
/// So that two processes do not share slots.
const NAME_LETTERS: usize = 16;

pub(super) struct Writer {
    members: std::sync::Arc<Members>,
    layout: Layout,
    rng: Rng,
    turns: AtomicU64,
    idle: Mutex<Vec<Slot>>,
    /// Held while slots are made, so that those who wait share them.
    making: tokio::sync::Mutex<()>,
    /// What every write depends on, besides its own expectations.
    condition: OnceLock<Guard>,
}

struct Slot {
    key: String,
    /// Its last write.
    modified: Revision,
}

/// What became of a transaction.
#[derive(Debug)]
pub(super) enum Written {
    At(Revision),
    Conflict {
        key: Key,
        current: Option<Entry>,
    },
    /// An answer was lost, and now the object is not what was to be deleted. What happened first to
    /// `key` after `expected` says whether it was this deletion; the history knows it up to `now`.
    Gone {
        key: Key,
        expected: Revision,
        now: Revision,
        current: Option<Entry>,
    },
}

/// What became of one attempt of a transaction with a slot.
enum Turn {
    Done(Written),
    /// Not done, and it can be tried again.
    Again(Failure),
    Failed(Failure),
    /// Not known.
    Unknown(Failure),
    /// Not done: the slot was removed.
    NoSlot,
}

impl Writer {
    pub(super) fn new(members: std::sync::Arc<Members>, layout: Layout, rng: Rng) -> Self {
        Self {
            members,
            layout,
            rng,
            turns: AtomicU64::new(0),
            idle: Mutex::default(),
            making: tokio::sync::Mutex::default(),
            condition: OnceLock::new(),
        }
    }

    /// From now on nothing is written once this does not hold. The first such guard stays.
    pub(super) fn depend_on(&self, guard: Guard) {
        let _ = self.condition.set(guard);
    }

    pub(super) async fn commit(&self, txn: &Txn) -> Result<Written, Error> {
        let puts = txn.writes.iter().any(|write| matches!(write, Write::Put(..)));
        if puts { self.put(txn).await } else { self.delete(txn).await }
    }

    async fn put(&self, txn: &Txn) -> Result<Written, Error> {
        let mut attempts = Attempts::within(Patience::REQUEST);
        loop {
            let mut slot = self.slot().await.map_err(|failure| self.layout.failed(&failure))?;
            let turn = self.turn(txn, &mut slot, &mut attempts).await;
            match turn {
                Turn::NoSlot => {
                    // The others are as old.
                    self.idle.lock().clear();
                    continue;
                }
                // What may still happen to the slot is not known either.
                Turn::Unknown(failure) => return Err(self.layout.unknown(&failure)),
                _ => self.idle.lock().push(slot),
            }
            match turn {
                Turn::Done(written) => return Ok(written),
                Turn::Again(failure) if self.members.may_go_on(&failure, &mut attempts).await => {}
                Turn::Again(failure) | Turn::Failed(failure) | Turn::Unknown(failure) => {
                    return Err(self.layout.failed(&failure));
                }
                Turn::NoSlot => {}
            }
        }
    }

    async fn turn(&self, txn: &Txn, slot: &mut Slot, attempts: &mut Attempts) -> Turn {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed).to_string();
        let mut request = self.request(txn);
        request.guards.push(Guard { key: slot.key.clone(), modified: slot.modified });
        request.then.push(Op::Put(slot.key.clone(), turn.clone().into()));
        // The slot comes last, where `pop` finds it behind the expectations.
        request.otherwise.push(Op::Get(slot.key.clone()));
        match self.members.attempt(&request, attempts).await {
            Ok(answer) if answer.held => {
                slot.modified = answer.revision;
                Turn::Done(Written::At(answer.revision))
            }
            Ok(mut answer) => {
                let held = answer.found.pop().flatten();
                match self.conflict(txn, &answer) {
                    // A removed slot fails the guards by itself, so the expectations prove nothing
                    // then.
                    _ if held.is_none_or(|item| item.modified != slot.modified) => Turn::NoSlot,
                    Some(conflict) => Turn::Done(conflict),
                    None => Turn::Failed(self.refused()),
                }
            }
            Err(Failure::Full(reason)) => self.look(slot, &turn, Failure::Full(reason)).await,
            Err(Failure::Lost(reason)) => match self.settle(slot, &turn).await {
                Ok(Some(revision)) => Turn::Done(Written::At(revision)),
                Ok(None) => Turn::Again(Failure::Lost(reason)),
                Err(_) => Turn::Unknown(Failure::Lost(reason)),
            },
            Err(failure) if failure.is_of_member() => Turn::Again(failure),
            Err(failure) => Turn::Failed(failure),
        }
    }

    /// The revision of a turn whose answer was lost; `None`: it was not made and never will be.
    async fn settle(&self, slot: &mut Slot, turn: &str) -> Result<Option<Revision>, Failure> {
        let request = Transaction {
            guards: vec![Guard { key: slot.key.clone(), modified: slot.modified }],
            then: vec![Op::Put(slot.key.clone(), GIVEN_UP.into())],
            otherwise: vec![Op::Get(slot.key.clone())],
        };
        let answer = self.members.repeat(&request, Patience::SETTLE).await?;
        if answer.held {
            slot.modified = answer.revision;
            return Ok(None);
        }
        match answer.found.into_iter().flatten().next() {
            Some(item) if item.value == turn => {
                slot.modified = item.modified;
                Ok(Some(item.modified))
            }
            // An earlier attempt of this very request, whose answer was lost as well.
            Some(item) if item.value == GIVEN_UP => {
                slot.modified = item.modified;
                Ok(None)
            }
            _ => Err(Failure::Refused("the slot of the write is gone".to_owned())),
        }
    }

    /// After a NOSPACE answer: no request is under way, so one read is enough.
    async fn look(&self, slot: &mut Slot, turn: &str, full: Failure) -> Turn {
        match self.members.repeat(&Query::key(&slot.key), Patience::SETTLE).await {
            Ok(found) => match found.items.into_iter().next() {
                Some(item) if item.value == turn => {
                    slot.modified = item.modified;
                    Turn::Done(Written::At(item.modified))
                }
                _ => Turn::Failed(full),
            },
            Err(_) => Turn::Unknown(full),
        }
    }

    async fn delete(&self, txn: &Txn) -> Result<Written, Error> {
        let mut attempts = Attempts::within(Patience::REQUEST);
        let request = self.request(txn);
        let mut lost = None;
        loop {
            let failure = match self.members.attempt(&request, &mut attempts).await {
                Ok(answer) if answer.held => return Ok(Written::At(answer.revision)),
                Ok(answer) => return self.deleted_before(txn, &answer, lost),
                Err(failure) => failure,
            };
            let go_on = self.members.may_go_on(&failure, &mut attempts).await;
            if let Failure::Lost(_) = failure {
                lost = Some(failure.clone());
            }
            if !go_on {
                // An attempt whose answer was lost may still be made, whatever a later attempt was
                // told.
                return Err(match lost {
                    Some(lost) => self.layout.unknown(&lost),
                    None => self.layout.failed(&failure),
                });
            }
        }
    }

    /// A deletion whose guards did not hold, perhaps because an earlier attempt was made.
    fn deleted_before(&self, txn: &Txn, answer: &Answer, lost: Option<Failure>) -> Result<Written, Error> {
        let conflict = self.conflict(txn, answer);
        let Some(Written::Conflict { key, current }) = conflict else {
            return Err(self.layout.failed(&self.refused()));
        };
        let Some(lost) = lost else { return Ok(Written::Conflict { key, current }) };
        let deletes =
            txn.writes.iter().any(|write| matches!(write, Write::Delete(deleted) if *deleted == key));
        let expected = txn.expect.iter().find(|(guarded, _)| *guarded == key).map_or(0, |(_, at)| *at);
        match (expected, deletes) {
            // Without a revision to go by, somebody else's deletion looks like this one.
            (0, _) => Err(self.layout.unknown(&lost)),
            (_, true) => Ok(Written::Gone { key, expected, now: answer.revision, current }),
            // What was expected before it holds, so no attempt was made; that revision never comes back, so none will be.
            (_, false) if is_behind_deletions(txn, &key) => Ok(Written::Conflict { key, current }),
            (_, false) => Err(self.layout.unknown(&lost)),
        }
    }

    /// The transaction in etcd's words.
    fn request(&self, txn: &Txn) -> Transaction {
        let layout = &self.layout;
        let guard = |(key, at): &(Key, Revision)| Guard { key: layout.etcd_key(key), modified: *at };
        Transaction {
            guards: txn.expect.iter().map(guard).chain(self.condition.get().cloned()).collect(),
            then: (txn.writes.iter())
                .map(|write| match write {
                    Write::Put(key, value) => Op::Put(layout.etcd_key(key), layout.value(key, value)),
                    Write::Delete(key) => Op::Delete(layout.etcd_key(key)),
                })
                .collect(),
            otherwise: txn.expect.iter().map(|(key, _)| Op::Get(layout.etcd_key(key))).collect(),
        }
    }

    /// The first expectation that did not hold.
    fn conflict(&self, txn: &Txn, answer: &Answer) -> Option<Written> {
        txn.expect.iter().zip(&answer.found).find_map(|((key, expected), found)| {
            let at = found.as_ref().map_or(0, |item| item.modified);
            let current = found.as_ref().and_then(|item| self.layout.entry(item));
            (at != *expected).then(|| Written::Conflict { key: key.clone(), current })
        })
    }

    /// Of a transaction whose expectations held, and which was not made all the same.
    fn refused(&self) -> Failure {
        let reason = match self.condition.get() {
            Some(guard) => format!("somebody else has changed {}, on which this write depends", guard.key),
            None => "it gave no reason".to_owned(),
        };
        Failure::Refused(reason)
    }

    /// A slot for one transaction.
    async fn slot(&self) -> Result<Slot, Failure> {
        loop {
            // A statement of its own, so that the lock is not held over the await below.
            let idle = self.idle.lock().pop();
            if let Some(slot) = idle {
                return Ok(slot);
            }
            let _making = self.making.lock().await;
            if self.idle.lock().is_empty() {
                self.make_slots().await?;
            }
        }
    }

    /// Makes slots before they are used: none is ever used at revision 0, to which a removed one returns.
    pub(super) async fn make_slots(&self) -> Result<(), Failure> {
        let name = self.rng.suffix(NAME_LETTERS);
        let keys = (0..SLOTS_TOGETHER).map(|number| format!("{SLOT_PREFIX}{name}/{number}"));
        let keys: Vec<String> = keys.collect();
        let request = Transaction {
            // So that a late repetition does not touch slots in use.
            guards: keys.iter().map(|key| Guard { key: key.clone(), modified: 0 }).collect(),
            then: keys.iter().map(|key| Op::Put(key.clone(), GIVEN_UP.into())).collect(),
            otherwise: keys.iter().take(1).map(|key| Op::Get(key.clone())).collect(),
        };
        let answer = self.members.repeat(&request, Patience::REQUEST).await?;
        // The name is new, so only an earlier attempt of this request can have made them.
        let made_before = answer.found.into_iter().flatten().next().map(|item| item.modified);
        let modified = made_before.unwrap_or(answer.revision);
        self.idle.lock().extend(keys.into_iter().map(|key| Slot { key, modified }));
        Ok(())
    }

    /// Removes slots last written at `upto` or before.
    pub(super) async fn sweep(&self, upto: Revision) -> Result<(), Failure> {
        // `0` follows `/`, so this is the first key behind all slots.
        let end = format!("{}0", SLOT_PREFIX.trim_end_matches('/'));
        let all = Query { from: SLOT_PREFIX.as_bytes().to_vec(), end: Some(end), ..Query::default() };
        let found = self.members.repeat(&all, Patience::PAGE).await?;
        let old: Vec<_> = found.items.iter().filter(|item| item.modified <= upto).collect();
        for batch in old.chunks(SWEPT_TOGETHER) {
            let key = |item: &super::wire::Item| String::from_utf8_lossy(&item.key).into_owned();
            let request = Transaction {
                // A slot that was used meanwhile saves its whole batch, until the next compaction.
                guards: batch.iter().map(|item| Guard { key: key(item), modified: item.modified }).collect(),
                then: batch.iter().map(|item| Op::Delete(key(item))).collect(),
                otherwise: Vec::new(),
            };
            self.members.repeat(&request, Patience::REQUEST).await?;
        }
        Ok(())
    }
}

/// Whatever `txn` deletes is expected before `key`.
fn is_behind_deletions(txn: &Txn, key: &str) -> bool {
    let before = txn.expect.iter().take_while(|(guarded, _)| &**guarded != key);
    let before: Vec<&Key> = before.filter(|(_, at)| *at > 0).map(|(guarded, _)| guarded).collect();
    txn.writes.iter().all(|write| matches!(write, Write::Delete(deleted) if before.contains(&deleted)))
}
