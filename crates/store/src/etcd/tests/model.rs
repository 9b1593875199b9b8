//! An etcd of three members in memory, behind the same trait as the real one, whose members die,
//! hang, lose their leader and run out of space, and whose requests fail in every way a request can: not sent, not
//! done, done without an answer, done late, done after everybody has given up. Time is tokio's, so
//! a run with the same faults is the same run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::Revision;
use crate::etcd::wire::{Answer, Event, Failure, Feed, Found, Item, Member, News, Op, Query, Transaction};

pub(super) const MEMBERS: usize = 3;

/// How a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Up,
    Dead,
    /// As under SIGSTOP: takes requests, and does them when it goes on.
    Hung,
    NoLeader,
    /// Its watches bring nothing new.
    Behind,
}

/// How much room etcd has for what is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Enough,
    /// The next transaction that puts something finds the end of it: it is made, its answer says that there
    /// is no room, and the alarm is raised.
    Ends,
    /// NOSPACE: puts are refused until the alarm is disarmed. Reads and deletions go on.
    Alarm,
}

/// What happens to one request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    None,
    Unready,
    /// Not done; the client gets no answer.
    Vanishes,
    /// Done; the client gets no answer.
    DoneUnsaid,
    /// The connection breaks at once; done after this many milliseconds all the same.
    DoneLater(u64),
    /// Takes this many milliseconds, whether anybody waits or not.
    Slow(u64),
}

struct State {
    revision: Revision,
    /// What was before is forgotten.
    compacted: Revision,
    items: BTreeMap<String, Item>,
    past: Vec<Event>,
    conditions: [Condition; MEMBERS],
    /// Transactions that a hung member has taken.
    taken: [Vec<Transaction>; MEMBERS],
    faults: VecDeque<Fault>,
    room: Room,
    /// So many requests more are looked at, and none after them; `None`: all are.
    left: Option<usize>,
}

#[derive(Clone)]
pub(super) struct Model {
    state: Arc<Mutex<State>>,
    /// Wakes watches: something happened.
    stirred: watch::Sender<u64>,
}

impl Model {
    pub(super) fn new() -> Self {
        let state = State {
            revision: 1,
            compacted: 0,
            items: BTreeMap::new(),
            past: Vec::new(),
            conditions: [Condition::Up; MEMBERS],
            taken: Default::default(),
            faults: VecDeque::new(),
            room: Room::Enough,
            left: None,
        };
        Self { state: Arc::new(Mutex::new(state)), stirred: watch::Sender::new(0) }
    }

    pub(super) fn members(&self) -> Vec<(String, Box<dyn Member>)> {
        let member = |place| -> (String, Box<dyn Member>) {
            (format!("member-{place}"), Box::new(ModelMember { model: self.clone(), place }))
        };
        (0..MEMBERS).map(member).collect()
    }

    pub(super) fn set(&self, place: usize, condition: Condition) {
        let mut state = self.state.lock();
        state.conditions[place] = condition;
        if condition != Condition::Hung {
            let taken = std::mem::take(&mut state.taken[place]);
            // What a killed process had in its buffers is gone.
            for transaction in taken.iter().filter(|_| condition != Condition::Dead) {
                drop(state.apply(transaction));
            }
        }
        drop(state);
        self.stir();
    }

    /// What happens to the next requests.
    pub(super) fn inject(&self, faults: Vec<Fault>) {
        self.state.lock().faults = faults.into();
    }

    pub(super) fn set_room(&self, room: Room) {
        self.state.lock().room = room;
    }

    /// After this many requests no more is looked at, until [`Model::heal`].
    pub(super) fn cut_after(&self, requests: usize) {
        self.state.lock().left = Some(requests);
    }

    /// Waits until the last request was let in.
    pub(super) async fn until_cut(&self) {
        let mut stirred = self.stirred.subscribe();
        while self.state.lock().left != Some(0) {
            // The model has the sender.
            let _ = stirred.changed().await;
        }
    }

    /// No more faults, room for everything, and every member is up.
    pub(super) fn heal(&self) {
        let mut state = self.state.lock();
        state.faults.clear();
        state.left = None;
        state.room = Room::Enough;
        drop(state);
        (0..MEMBERS).for_each(|place| self.set(place, Condition::Up));
    }

    /// Every change so far of keys that begin with `prefix`.
    pub(super) fn past(&self, prefix: &str) -> Vec<Event> {
        let state = self.state.lock();
        state.past.iter().filter(|event| event.key.starts_with(prefix.as_bytes())).cloned().collect()
    }

    fn stir(&self) {
        self.stirred.send_modify(|count| *count += 1);
    }

    fn condition(&self, place: usize) -> Condition {
        self.state.lock().conditions[place]
    }

    fn apply(&self, transaction: &Transaction) -> Result<Answer, Failure> {
        let answer = self.state.lock().apply(transaction);
        self.stir();
        answer
    }

    /// What a member does before it looks at a request; ends only if it gets to look at it.
    async fn admit(&self, place: usize, write: Option<&Transaction>) -> Result<Fault, Failure> {
        let left = self.state.lock().left;
        match left {
            Some(0) => std::future::pending().await,
            Some(left) => {
                self.state.lock().left = Some(left - 1);
                self.stir();
            }
            None => {}
        }
        match self.condition(place) {
            Condition::Dead => Err(Failure::Unreachable("refused".to_owned())),
            Condition::NoLeader => Err(Failure::Unready("no leader".to_owned())),
            Condition::Hung => {
                if let Some(transaction) = write {
                    self.state.lock().taken[place].push(transaction.clone());
                }
                std::future::pending().await
            }
            Condition::Up | Condition::Behind => {
                Ok(self.state.lock().faults.pop_front().unwrap_or(Fault::None))
            }
        }
    }
}

impl State {
    /// Source: etcd `server/etcdserver/apply` (`quotaApplierV3`, `applierV3Capped`), v3.5.
    fn apply(&mut self, transaction: &Transaction) -> Result<Answer, Failure> {
        let mut ops = transaction.then.iter().chain(&transaction.otherwise);
        let full = || Failure::Full("etcdserver: mvcc: database space exceeded".to_owned());
        match self.room {
            Room::Enough => Ok(self.make(transaction)),
            _ if !ops.any(|op| matches!(op, Op::Put(..))) => Ok(self.make(transaction)),
            Room::Alarm => Err(full()),
            Room::Ends => {
                self.room = Room::Alarm;
                self.make(transaction);
                Err(full())
            }
        }
    }

    fn make(&mut self, transaction: &Transaction) -> Answer {
        let at = |items: &BTreeMap<String, Item>, key: &str| items.get(key).map_or(0, |item| item.modified);
        let held = transaction.guards.iter().all(|guard| at(&self.items, &guard.key) == guard.modified);
        let next = self.revision + 1;
        let mut found = Vec::new();
        for op in if held { &transaction.then } else { &transaction.otherwise } {
            match op {
                Op::Get(key) => found.push(self.items.get(key).cloned()),
                Op::Put(key, value) => {
                    let created = self.items.get(key).map_or(next, |item| item.created);
                    let (value, bytes) = (value.clone(), Bytes::from(key.clone()));
                    let item = Item { key: bytes.clone(), value, created, modified: next };
                    self.items.insert(key.clone(), item.clone());
                    self.past.push(Event { key: bytes, revision: next, put: Some(item) });
                    self.revision = next;
                }
                Op::Delete(key) => {
                    if self.items.remove(key).is_some() {
                        self.past.push(Event { key: key.clone().into(), revision: next, put: None });
                        self.revision = next;
                    }
                }
            }
        }
        Answer { held, revision: self.revision, found }
    }

    fn range(&self, query: &Query) -> Result<Found, Failure> {
        let from = String::from_utf8(query.from.clone()).expect("the model's keys are text");
        let end = query.end.clone().unwrap_or_else(|| format!("{from}\0"));
        let at = query.at.unwrap_or(self.revision);
        if at < self.compacted {
            return Err(Failure::Compacted("required revision has been compacted".to_owned()));
        }
        let past = (at < self.revision).then(|| self.items_at(at));
        let items = past.as_ref().unwrap_or(&self.items).range(from..end);
        let items = items.map(|(_, item)| item.clone()).collect();
        Ok(Found { items, more: false, revision: self.revision })
    }

    fn items_at(&self, revision: Revision) -> BTreeMap<String, Item> {
        let mut items = BTreeMap::new();
        for event in self.past.iter().filter(|event| event.revision <= revision) {
            let key = String::from_utf8_lossy(&event.key).into_owned();
            match &event.put {
                Some(item) => items.insert(key, item.clone()),
                None => items.remove(&key),
            };
        }
        items
    }
}

struct ModelMember {
    model: Model,
    place: usize,
}

fn lost() -> Failure {
    Failure::Lost("connection reset".to_owned())
}

#[async_trait]
impl Member for ModelMember {
    async fn range(&self, query: &Query) -> Result<Found, Failure> {
        match self.model.admit(self.place, None).await? {
            Fault::None => {}
            Fault::Unready => return Err(Failure::Unready("no leader".to_owned())),
            Fault::Vanishes => std::future::pending().await,
            Fault::DoneUnsaid | Fault::DoneLater(_) => return Err(lost()),
            Fault::Slow(ms) => sleep(Duration::from_millis(ms)).await,
        }
        self.model.state.lock().range(query)
    }

    async fn txn(&self, transaction: &Transaction) -> Result<Answer, Failure> {
        let later = |ms| {
            let (model, transaction) = (self.model.clone(), transaction.clone());
            tokio::spawn(async move {
                sleep(Duration::from_millis(ms)).await;
                model.apply(&transaction)
            })
        };
        match self.model.admit(self.place, Some(transaction)).await? {
            Fault::None => self.model.apply(transaction),
            Fault::Unready => Err(Failure::Unready("no leader".to_owned())),
            Fault::Vanishes => std::future::pending().await,
            Fault::DoneUnsaid => {
                drop(self.model.apply(transaction));
                Err(lost())
            }
            Fault::DoneLater(ms) => {
                drop(later(ms));
                Err(lost())
            }
            Fault::Slow(ms) => later(ms).await.map_err(|_| lost())?,
        }
    }

    async fn compact(&self, upto: Revision) -> Result<(), Failure> {
        let fault = self.model.admit(self.place, None).await?;
        match fault {
            Fault::Unready => return Err(Failure::Unready("no leader".to_owned())),
            Fault::Vanishes => std::future::pending().await,
            _ => {}
        }
        let mut state = self.model.state.lock();
        state.compacted = state.compacted.max(upto);
        if matches!(fault, Fault::DoneUnsaid | Fault::DoneLater(_)) { Err(lost()) } else { Ok(()) }
    }

    async fn watch(&self, from: Revision) -> Result<Box<dyn Feed>, Failure> {
        match self.model.admit(self.place, None).await? {
            Fault::None | Fault::Slow(_) => {}
            Fault::Unready => return Err(Failure::Unready("no leader".to_owned())),
            _ => return Err(lost()),
        }
        let stirred = self.model.stirred.subscribe();
        let (model, place) = (self.model.clone(), self.place);
        Ok(Box::new(ModelFeed { model, place, next: from, begun: false, asked: false, stirred }))
    }
}

struct ModelFeed {
    model: Model,
    place: usize,
    next: Revision,
    begun: bool,
    asked: bool,
    stirred: watch::Receiver<u64>,
}

impl ModelFeed {
    /// `None`: nothing new.
    fn news(&mut self) -> Result<Option<News>, Failure> {
        match self.model.condition(self.place) {
            Condition::Dead => return Err(lost()),
            Condition::NoLeader => return Err(Failure::Unready("no leader".to_owned())),
            Condition::Hung => return Ok(None),
            Condition::Up | Condition::Behind => {}
        }
        if !std::mem::replace(&mut self.begun, true) {
            // A member may be behind what was seen elsewhere.
            let behind = u64::from(self.model.condition(self.place) == Condition::Behind) * 5;
            return Ok(Some(News::Begun(self.model.state.lock().revision.saturating_sub(behind))));
        }
        if std::mem::take(&mut self.asked) {
            return Ok(Some(News::Alive));
        }
        if self.model.condition(self.place) == Condition::Behind {
            return Ok(None);
        }
        let state = self.model.state.lock();
        if self.next < state.compacted {
            return Ok(Some(News::Compacted(state.compacted)));
        }
        let events: Vec<Event> =
            state.past.iter().filter(|event| event.revision >= self.next).cloned().collect();
        if events.is_empty() {
            return Ok(None);
        }
        self.next = state.revision + 1;
        Ok(Some(News::Changes(events)))
    }
}

#[async_trait]
impl Feed for ModelFeed {
    async fn next(&mut self) -> Result<News, Failure> {
        loop {
            self.stirred.borrow_and_update();
            if let Some(news) = self.news()? {
                return Ok(news);
            }
            // The model outlives its watches.
            let _ = self.stirred.changed().await;
        }
    }

    async fn ask(&mut self) -> Result<(), Failure> {
        self.asked = true;
        self.model.stir();
        Ok(())
    }
}
