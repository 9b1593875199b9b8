//! A store on a disk that fails in every way a disk fails: what was acknowledged is there afterwards,
//! nothing is torn, versions only grow, watches have no gap, and writes go on once the disk is well.
//!
//! A schedule is a list of steps (writes, faults, kills, power cuts) drawn from a seed. One that fails
//! is shrunk to the smallest that still does and printed with its seed:
//!
//!   CAPSTAN_ATTACK_SCHEDULES  how many schedules (default 200)
//!   CAPSTAN_ATTACK_SEED       the seed (default 1)

mod disk;
mod model;
mod run;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::sync::oneshot;

use super::DiskStore;
use super::writer::{Asked, Request, Writer};
use crate::history::Bounds;
use crate::stage::Packed;
use crate::{Error, Outcome, Sealing, Store as _, Txn};
use disk::{Call, Effect, Fault, SimDisk};
use model::Spec;
use run::{Schedule, Step, play};

/// How many schedules are played.
const SCHEDULES: &str = "CAPSTAN_ATTACK_SCHEDULES";
const SCHEDULES_DEFAULT: u32 = 200;
const EFFECTS: [Effect; 5] = [Effect::Error, Effect::Torn, Effect::NoRoom, Effect::PowerOff, Effect::Killed];

fn number_from(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn spec() -> impl Strategy<Value = Spec> {
    let write = (0_u8..8, prop_oneof![4 => (0_u16..9_000).prop_map(Some), 1 => Just(None)]);
    (proptest::collection::vec(write, 1..3), proptest::bool::weighted(0.1)).prop_map(
        |(mut writes, creates)| {
            writes.dedup_by_key(|write| write.0);
            Spec { writes, creates }
        },
    )
}

fn call() -> impl Strategy<Value = Option<Call>> {
    use Call::{Create, Open, Read, Rename, Resize, Sync, SyncFolder, Write};
    let named = prop::sample::select(vec![
        Sync, Sync, Sync, Write, Write, Resize, Read, Open, Create, Rename, SyncFolder, SyncFolder,
    ]);
    prop_oneof![2 => Just(None), 3 => named.prop_map(Some)]
}

fn fault() -> impl Strategy<Value = Step> {
    let effect = prop::sample::select(EFFECTS.to_vec());
    (call(), 0_u32..40, effect).prop_map(|(call, after, effect)| {
        // Of a kind there are few calls.
        let after = if call.is_none() { after } else { after / 8 };
        Step::Fault(Fault { call, after, effect })
    })
}

fn write() -> impl Strategy<Value = Step> {
    proptest::collection::vec(spec(), 1..4).prop_map(Step::Write)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => write(),
        6 => fault(),
        1 => (1_u64..2_000).prop_map(Step::Raise),
        2 => (0_u64..6).prop_map(Step::Forget),
        2 => Just(Step::Compact),
        2 => (0_u64..5).prop_map(Step::Wait),
        1 => Just(Step::Restart),
        1 => Just(Step::Kill),
        2 => Just(Step::PowerCycle),
        1 => (0_usize..40).prop_map(Step::Fill),
        1 => Just(Step::Mend),
    ]
}

/// What chance alone seldom finds: a sync fails, the store lives on in this process or the next, and
/// writes, and then power goes.
fn failed_sync() -> impl Strategy<Value = Vec<Step>> {
    let effect = prop::sample::select(vec![Effect::Error, Effect::Torn]);
    let fault = (0_u32..3, effect)
        .prop_map(|(after, effect)| Step::Fault(Fault { call: Some(Call::Sync), after, effect }));
    let between = prop::sample::select(vec![Step::Kill, Step::Restart, Step::Wait(1), Step::Compact]);
    (fault, write(), between, write())
        .prop_map(|(fault, one, between, two)| vec![fault, one, between, two, Step::PowerCycle])
}

fn schedule(lies: bool) -> impl Strategy<Value = Schedule> {
    let sector = prop::sample::select(vec![512_usize, 4096]);
    let part = prop_oneof![20 => step().prop_map(|step| vec![step]), 1 => failed_sync()];
    (any::<u64>(), sector, proptest::collection::vec(part, 1..20))
        .prop_map(move |(chance, sector, parts)| Schedule { chance, sector, lies, steps: parts.concat() })
}

/// Plays schedules drawn from the seed; the first that fails is shrunk and printed.
fn play_many(lies: bool) {
    let cases = number_from(SCHEDULES).map_or(SCHEDULES_DEFAULT, |n| u32::try_from(n).unwrap());
    let seed = number_from("CAPSTAN_ATTACK_SEED").unwrap_or(1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let outcome =
        runner.run(&schedule(lies), |schedule| play(&schedule).map(drop).map_err(TestCaseError::fail));
    match outcome {
        Ok(()) => println!("{cases} schedules of seed {seed}"),
        Err(TestError::Fail(why, schedule)) => panic!("seed {seed}: {why}\nsmallest schedule: {schedule:#?}"),
        Err(TestError::Abort(why)) => panic!("seed {seed}: {why}"),
    }
}

#[test]
fn faults_lose_nothing_that_was_acknowledged() {
    play_many(false);
}

/// A disk that answers "synced" without syncing may lose anything; the store is then refused or sound.
#[test]
fn a_disk_that_lies_about_syncs_is_refused_or_sound() {
    play_many(true);
}

/// What the sweep does: every way into the file, twice, so that a fault meets each of them.
fn errand() -> Vec<Step> {
    let write = |number: u8, size: u16| Spec {
        writes: vec![(number, Some(size)), (number + 1, Some(9))],
        creates: false,
    };
    vec![
        Step::Write(vec![write(0, 5_000)]),
        Step::Write(vec![write(2, 300), write(0, 8_000)]),
        Step::Forget(1),
        Step::Compact,
        Step::Write(vec![write(4, 100)]),
        Step::Restart,
        Step::Write(vec![write(0, 200)]),
    ]
}

/// One fault at each call that a short life of a store makes of its disk, the making of its file
/// included.
#[test]
fn a_fault_at_every_single_call() {
    let clean = Schedule { chance: 1, sector: 512, lies: false, steps: errand() };
    let calls = play(&clean).expect("without a fault").calls;
    assert!(calls > 50, "{calls} calls are not a life");
    // One kind of fault at each call, or in a standing attack all of them.
    let stride = if number_from(SCHEDULES).is_some() { 1 } else { EFFECTS.len() };
    let (mut played, mut failed) = (0, Vec::new());
    for (nth, effect) in EFFECTS.into_iter().enumerate() {
        for after in (0..u32::try_from(calls).unwrap()).skip(nth % stride).step_by(stride) {
            let fault = Step::Fault(Fault { call: None, after, effect });
            let steps = std::iter::once(fault).chain(errand()).collect();
            let schedule = Schedule { chance: u64::from(after), steps, ..clean.clone() };
            played += 1;
            if let Err(why) = play(&schedule) {
                failed.push(format!("{effect:?} after {after} calls: {why}"));
            }
        }
    }
    println!("{played} faults at {calls} calls");
    assert!(failed.is_empty(), "{} of {played}:\n{}", failed.len(), failed.join("\n"));
}

/// After one failed sync the kernel shows what is not on the disk, and every later sync succeeds: 40
/// writes were acknowledged upon it.
#[tokio::test]
async fn writes_after_one_failed_sync_are_durable_or_refused() {
    let disk = SimDisk::new(1, 4096, false);
    let open = || DiskStore::start(disk.folder(), Bounds::default(), &Sealing::none(), |_| ()).unwrap().0;
    let store = open();
    disk.add(Fault { call: Some(Call::Sync), after: 4, effect: Effect::Error });
    let (mut acknowledged, mut refused) = (Vec::new(), Vec::new());
    for n in 0..40 {
        let key = format!("/k/{n}");
        match store.txn(Txn::create(key.as_str().into(), "x".into())).await {
            Ok(outcome) => acknowledged.push((key, outcome)),
            Err(error) => refused.push(error.to_string()),
        }
    }
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].contains("store.redb: sync: simulated: input/output error"), "{refused:?}");
    assert!(refused[0].contains("It is not acknowledged"), "{refused:?}");
    disk.power_cycle();
    drop(store);
    let store = open();
    for (key, outcome) in acknowledged {
        let entry = store.get(&key).await.unwrap().expect("an acknowledged write");
        assert_eq!(outcome, Outcome::Committed(entry.modified), "{key}");
    }
}

/// A disk that stays broken is tried again with pauses, and says so meanwhile; reads go on.
#[test]
fn a_disk_that_stays_broken_is_not_tried_at_every_write() {
    let disk = SimDisk::new(1, 512, false);
    let now_s = Arc::new(AtomicU64::new(0));
    let clock = now_s.clone();
    let elapsed = Box::new(move || Duration::from_secs(clock.load(Ordering::Relaxed)));
    let mut store = Writer::open(disk.folder(), Bounds::default(), elapsed, &Sealing::none()).unwrap().0;
    for _ in 0..1_000 {
        disk.add(Fault { call: Some(Call::Sync), after: 0, effect: Effect::Error });
    }
    let write = |store: &mut Writer| {
        let (answer, mut answered) = oneshot::channel();
        let what = Asked::Txn(Packed::from(Txn::create("/k/1".into(), "x".into())));
        store.commit(vec![Request { what, answer }]);
        answered.try_recv().unwrap()
    };
    assert!(matches!(write(&mut store), Err(Error::Unsynced { .. })));
    let mut tried = 0;
    for _ in 0..600 {
        let before = disk.calls();
        let Err(error @ Error::Suspended { .. }) = write(&mut store) else { panic!("acknowledged") };
        assert!(error.to_string().contains("this one was not made"), "{error}");
        tried += u32::from(disk.calls() > before);
        now_s.fetch_add(1, Ordering::Relaxed);
    }
    assert!((5..20).contains(&tried), "{tried} attempts in 10 minutes");
    assert!(store.image().get("/k/1").is_none());
    disk.mend();
    now_s.fetch_add(60, Ordering::Relaxed);
    assert!(matches!(write(&mut store), Ok(Outcome::Committed(2))));
}
