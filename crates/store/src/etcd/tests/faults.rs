//! Every kind of fault at every request, by chance, against the model of `model.rs`: an acknowledged
//! write was made once, a refused one never, an unknown one once or never; reads see what was
//! acknowledged; the watch has no gap and nothing twice. A failing schedule is shrunk to the smallest.
//!
//! `CAPSTAN_ETCD_SCHEDULES=N` runs N schedules, `CAPSTAN_ETCD_SEED` others than usual
//! (`tests/attack/run etcd-faults`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::time::{sleep, timeout};

use super::super::layout::Layout;
use super::super::wire::Event;
use super::super::{EtcdOptions, EtcdStore, Plain};
use super::model::{Condition, Fault, MEMBERS, Model, Room};
use crate::history::Bounds;
use crate::{Change, Error, Outcome, Revision, Store, Txn, Write};
use capstan_base::rng::Rng;

const SCHEDULES: &str = "CAPSTAN_ETCD_SCHEDULES";
const SCHEDULES_DEFAULT: u32 = 300;
const SEED: &str = "CAPSTAN_ETCD_SEED";
const KEYS: usize = 3;
const CLIENTS: usize = 3;
/// Longer than any request takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a client does next, on one key.
#[derive(Clone, Copy, Debug)]
enum Act {
    Create,
    /// Reads a number and writes the next one: two clients write the same bytes.
    Count,
    Delete,
    /// Without a look at what is there.
    Put,
}

/// One thing of a schedule.
#[derive(Clone, Copy, Debug)]
enum Step {
    Act {
        client: usize,
        key: usize,
        act: Act,
    },
    /// After this many milliseconds a member becomes like this.
    Member {
        after_ms: u64,
        place: usize,
        condition: Condition,
    },
    /// After this many milliseconds etcd has so much room.
    Room {
        after_ms: u64,
        room: Room,
    },
}

#[derive(Clone, Debug)]
struct Schedule {
    steps: Vec<Step>,
    faults: Vec<Fault>,
}

/// The answer that a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ack {
    Made(Revision),
    NotMade,
    Unknown,
}

/// One write with its content (`None`: a deletion).
#[derive(Clone, Debug)]
struct Record {
    key: String,
    content: Option<String>,
    told: Ack,
}

fn acts() -> impl Strategy<Value = Step> {
    let act = prop_oneof![
        3 => Just(Act::Count), 2 => Just(Act::Create), 2 => Just(Act::Delete), 1 => Just(Act::Put)
    ];
    (0..CLIENTS, 0..KEYS, act).prop_map(|(client, key, act)| Step::Act { client, key, act })
}

fn conditions(places: impl Strategy<Value = usize>) -> impl Strategy<Value = Step> {
    let condition = prop_oneof![
        3 => Just(Condition::Up), 1 => Just(Condition::Dead), 2 => Just(Condition::Hung),
        1 => Just(Condition::NoLeader), 1 => Just(Condition::Behind)
    ];
    (0..3_000_u64, places, condition).prop_map(|(after_ms, place, condition)| Step::Member {
        after_ms,
        place,
        condition,
    })
}

fn rooms() -> impl Strategy<Value = Step> {
    let room = prop_oneof![2 => Just(Room::Enough), 2 => Just(Room::Ends), 1 => Just(Room::Alarm)];
    (0..3_000_u64, room).prop_map(|(after_ms, room)| Step::Room { after_ms, room })
}

fn faults() -> impl Strategy<Value = Fault> {
    prop_oneof![
        8 => Just(Fault::None), 1 => Just(Fault::Unready), 1 => Just(Fault::Vanishes),
        3 => Just(Fault::DoneUnsaid), 3 => (0..9_000_u64).prop_map(Fault::DoneLater),
        2 => (0..9_000_u64).prop_map(Fault::Slow)
    ]
}

/// Anything at any time.
fn storms() -> impl Strategy<Value = Schedule> {
    let step = prop_oneof![12 => acts(), 3 => conditions(0..MEMBERS), 1 => rooms()];
    let steps = prop::collection::vec(step, 1..40);
    (steps, prop::collection::vec(faults(), 0..80)).prop_map(|(steps, faults)| Schedule { steps, faults })
}

/// One member is bad, in one way after the other, and the others are well.
fn one_bad_member() -> impl Strategy<Value = Schedule> {
    (0..MEMBERS).prop_flat_map(|place| {
        let steps = prop::collection::vec(prop_oneof![4 => acts(), 1 => conditions(Just(place))], 1..40);
        steps.prop_map(|steps| Schedule { steps, faults: Vec::new() })
    })
}

pub(super) fn options() -> EtcdOptions {
    EtcdOptions {
        endpoints: (0..MEMBERS).map(|place| format!("member-{place}")).collect(),
        prefix: "/r".to_owned(),
        within: "/r".to_owned(),
        tls: None,
        plain: Plain::same(),
        sealed: &[],
        rng: Rng::seeded(1),
    }
}

struct Run {
    store: EtcdStore,
    model: Model,
    records: Mutex<Vec<Record>>,
    /// The newest acknowledged revision.
    acknowledged: Mutex<Revision>,
    /// What was not answered.
    failed: Mutex<Vec<String>>,
}

impl Run {
    async fn act(&self, number: usize, key: usize, act: Act) -> Result<(), String> {
        let key = format!("/r/{key}");
        let before = *self.acknowledged.lock();
        let entry = match self.store.get(&key).await {
            Ok(entry) => entry,
            Err(Error::Unavailable { reason, .. }) => {
                self.failed.lock().push(reason);
                return Ok(());
            }
            Err(error) => return Err(format!("a read: {error}")),
        };
        let modified = entry.as_ref().map_or(0, |entry| entry.modified);
        let past = self.model.past(&key);
        let last = past.iter().rfind(|event| event.revision <= before);
        let is_stale = |last: &Event| match modified {
            // Somebody may have deleted it since.
            0 => {
                last.put.is_some() && past.iter().all(|event| event.revision <= before || event.put.is_some())
            }
            _ => last.revision > modified,
        };
        if last.is_some_and(is_stale) {
            return Err(format!("{key} was read at {modified} after {before} was acknowledged"));
        }
        let text = entry.map(|entry| String::from_utf8_lossy(&entry.value.unpack().unwrap()).into_owned());
        let next = text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) + 1;
        let (expect, content) = match act {
            Act::Create => (vec![(key.as_str().into(), 0)], Some(format!("new {number}"))),
            Act::Count => (vec![(key.as_str().into(), modified)], Some(next.to_string())),
            Act::Delete if modified == 0 => return Ok(()),
            Act::Delete => (vec![(key.as_str().into(), modified)], None),
            Act::Put => (Vec::new(), Some(format!("put {number}"))),
        };
        let write = match &content {
            Some(value) => Write::Put(key.as_str().into(), value.clone().into()),
            None => Write::Delete(key.as_str().into()),
        };
        let told = match self.store.txn(Txn { expect, writes: vec![write] }).await {
            Ok(Outcome::Committed(revision)) => {
                let mut acknowledged = self.acknowledged.lock();
                *acknowledged = revision.max(*acknowledged);
                Ack::Made(revision)
            }
            Ok(Outcome::Conflict { .. }) => Ack::NotMade,
            Err(error) => {
                let reason = error.to_string();
                let told = if reason.contains("may have been made") { Ack::Unknown } else { Ack::NotMade };
                self.failed.lock().push(reason);
                told
            }
        };
        self.records.lock().push(Record { key, content, told });
        Ok(())
    }
}

fn content(event: &Event) -> Option<String> {
    event.put.as_ref().map(|item| String::from_utf8_lossy(&item.value).into_owned())
}

/// Every change comes from exactly one write, and every acknowledged write is a change.
fn judge(records: &[Record], past: &[Event]) -> Result<(), String> {
    let mut unclaimed: BTreeMap<Revision, &Event> = past.iter().map(|e| (e.revision, e)).collect();
    for record in records {
        let Ack::Made(revision) = record.told else { continue };
        let event = past.iter().find(|event| event.revision == revision && event.key == record.key);
        if event.is_none_or(|event| content(event) != record.content) {
            return Err(format!("acknowledged, and not there: {record:?}"));
        }
        // Of two deletions of one state, with an answer lost, both may hear that it is gone.
        if unclaimed.remove(&revision).is_none() && record.content.is_some() {
            return Err(format!("acknowledged to two: {record:?}"));
        }
    }
    let mut unknown: Vec<_> = records.iter().filter(|record| record.told == Ack::Unknown).collect();
    for event in unclaimed.values() {
        let is_its = |record: &&Record| event.key == record.key && content(event) == record.content;
        match unknown.iter().position(is_its) {
            Some(place) => drop(unknown.swap_remove(place)),
            None => return Err(format!("made, and refused or made twice: {event:?}")),
        }
    }
    Ok(())
}

/// The watch of the whole run saw every change once, in order, with the value before it.
fn judge_watch(seen: &[Arc<Change>], past: &[Event]) -> Result<(), String> {
    let told: Vec<_> = seen.iter().map(|change| (change.revision, change.key.to_string())).collect();
    let made: Vec<_> =
        past.iter().map(|event| (event.revision, String::from_utf8_lossy(&event.key).into_owned())).collect();
    if told != made {
        return Err(format!("the watch saw {told:?} of {made:?}"));
    }
    let mut last = BTreeMap::new();
    for change in seen {
        if last.insert(&change.key, change.current.clone()).flatten() != change.previous {
            return Err(format!("not what was there before: {change:?}"));
        }
    }
    Ok(())
}

async fn run(schedule: Schedule, must_answer: bool) -> Result<(), String> {
    let model = Model::new();
    let layout = Layout::new(&options());
    let connected = EtcdStore::over(model.members(), layout, Rng::seeded(1), Bounds::default()).await;
    let store = connected.map_err(|error| error.to_string())?;
    let mut watch = store.watch("/r/", 1).await.map_err(|error| error.to_string())?;
    model.inject(schedule.faults);
    let run = Run {
        store,
        model: model.clone(),
        records: Mutex::default(),
        acknowledged: Mutex::default(),
        failed: Mutex::default(),
    };
    let client = |client: usize| {
        let (run, steps) = (&run, &schedule.steps);
        async move {
            for (number, step) in steps.iter().enumerate() {
                if let Step::Act { client: whose, key, act } = *step
                    && whose == client
                {
                    timeout(PATIENCE, run.act(number, key, act)).await.map_err(|_| "no end".to_owned())??;
                }
            }
            Ok::<(), String>(())
        }
    };
    let members = async {
        for step in &schedule.steps {
            match *step {
                Step::Act { .. } => {}
                Step::Member { after_ms, place, condition } => {
                    sleep(Duration::from_millis(after_ms)).await;
                    model.set(place, condition);
                }
                Step::Room { after_ms, room } => {
                    sleep(Duration::from_millis(after_ms)).await;
                    model.set_room(room);
                }
            }
        }
    };
    let (clients, ()) = tokio::join!(futures::future::try_join_all((0..CLIENTS).map(client)), members);
    clients?;
    model.heal();
    // What was to be done later is done.
    sleep(Duration::from_secs(10)).await;
    let (records, failed) = (run.records.lock().clone(), run.failed.lock().clone());
    if must_answer && !failed.is_empty() {
        return Err(format!("two members are well, and these had no answer: {failed:?}"));
    }
    let past = model.past("/r/");
    judge(&records, &past)?;
    let mut seen = Vec::new();
    while seen.len() < past.len() {
        let news =
            timeout(PATIENCE, watch.next()).await.map_err(|_| format!("the watch stops at {seen:?}"))?;
        seen.extend(news.map_err(|error| error.to_string())?);
    }
    judge_watch(&seen, &past)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn check(strategy: impl Strategy<Value = Schedule>, must_answer: bool) {
    let schedules = number(SCHEDULES).and_then(|n| u32::try_from(n).ok()).unwrap_or(SCHEDULES_DEFAULT);
    let seed = number(SEED).unwrap_or(1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: schedules, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let result = runner.run(&strategy, |schedule| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(run(schedule, must_answer)).map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => println!("{schedules} schedules, seed {seed}"),
        Err(TestError::Fail(why, schedule)) => panic!("seed {seed}: {why}\n{schedule:#?}"),
        Err(error) => panic!("seed {seed}: {error}"),
    }
}

#[test]
fn whatever_fails_a_write_is_made_once_or_not_at_all_and_the_watch_is_whole() {
    check(storms(), false);
}

#[test]
fn one_bad_member_of_three_costs_no_request() {
    check(one_bad_member(), true);
}
