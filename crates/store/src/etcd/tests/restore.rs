//! Restores that are cut off, meet faults or are made twice, against the model of `model.rs`: a prefix is
//! refused, or has nothing, or everything; and nothing of a restore that was given up happens later.

use tokio::time::{Duration, sleep};

use super::super::layout::Layout;
use super::super::restore::{EtcdRestore, RestoreError, check_whole};
use super::super::{EtcdStore, Plain};
use super::faults::options;
use super::model::{Fault, Model};
use super::put;
use crate::history::Bounds;
use crate::{Error, Outcome, Range, Revision, Store as _, Txn};
use capstan_base::rng::Rng;

const OBJECTS: usize = 6;
/// The last revision that the lost store gave out.
const FLOOR: Revision = 30;
/// Longer than anything stays under way.
const LATEST: Duration = Duration::from_secs(60);

fn key(number: usize) -> String {
    format!("/r/{number}")
}

async fn connect(model: &Model) -> Result<EtcdStore, Error> {
    EtcdStore::over(model.members(), Layout::new(&options()), Rng::from_entropy(), Bounds::default()).await
}

/// As a server does.
async fn open(model: &Model) -> Result<EtcdStore, Error> {
    let store = connect(model).await?;
    check_whole(&store.0.members, &store.0.layout).await?;
    Ok(store)
}

async fn begin(model: &Model, checksum: &str) -> Result<EtcdRestore, RestoreError> {
    let restore = EtcdRestore::over(connect(model).await?, checksum, &Rng::from_entropy());
    restore.begin().await?;
    Ok(restore)
}

async fn restore(model: &Model, checksum: &str) -> Result<(), RestoreError> {
    let restore = begin(model, checksum).await?;
    restore.store().raise(FLOOR).await?;
    for number in 0..OBJECTS {
        let txn = Txn { expect: Vec::new(), ..Txn::create(key(number).as_str().into(), "whole".into()) };
        restore.store().txn(txn).await?;
    }
    restore.finish().await
}

/// The same, by a process that is killed after this many requests; `None`: it was.
async fn killed_after(requests: usize, model: &Model) -> Option<Result<(), RestoreError>> {
    model.cut_after(requests);
    let result = tokio::select! {
        biased;
        result = restore(model, "one") => Some(result),
        () = model.until_cut() => None,
    };
    model.heal();
    result
}

async fn count(store: &EtcdStore) -> usize {
    let page = store.range(Range { prefix: "/r/", ..Range::default() }).await.unwrap();
    assert!(page.entries.iter().all(|entry| entry.value.unpack().unwrap() == "whole"));
    page.entries.len()
}

/// Everything is there, above the lost history and without one of its own.
async fn assert_whole(model: &Model) -> EtcdStore {
    let store = open(model).await.unwrap();
    assert_eq!(count(&store).await, OBJECTS);
    assert!(store.revision().await.unwrap() > FLOOR);
    for lost in [1, FLOOR] {
        let watched = store.watch("/r/", lost).await;
        assert!(matches!(watched, Err(Error::Compacted { .. })), "a watch from {lost} goes on");
    }
    store
}

#[tokio::test(start_paused = true)]
async fn a_restore_that_is_cut_off_anywhere_is_refused_until_it_was_made_again() {
    let (mut empty, mut refused, mut whole) = (0, 0, 0);
    for requests in 1.. {
        let model = Model::new();
        // The last request is made, and its answer does not arrive any more.
        model.inject([vec![Fault::None; requests - 1], vec![Fault::DoneUnsaid]].concat());
        if let Some(result) = killed_after(requests, &model).await {
            result.unwrap();
            break;
        }
        match open(&model).await {
            Ok(store) if count(&store).await == 0 => empty += 1,
            Ok(_) => {
                assert_whole(&model).await;
                whole += 1;
                assert!(matches!(restore(&model, "one").await, Err(RestoreError::Occupied)));
                continue;
            }
            Err(error) => {
                let said = error.to_string();
                assert!(
                    said.contains("did not come to its end") && said.contains("etcdctl del --prefix /r/ "),
                    "{said}"
                );
                let other = restore(&model, "two").await;
                assert!(matches!(other, Err(RestoreError::OtherBackup { .. })), "{requests}: {other:?}");
                refused += 1;
            }
        }
        restore(&model, "one").await.unwrap();
        assert_whole(&model).await;
    }
    println!(
        "cut off {empty} times before it began, {refused} times in the middle, {whole} times at its end"
    );
    assert!(empty > 0 && refused > OBJECTS && whole > 0, "{empty}, {refused}, {whole}");
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_any_request_of_a_restore_leaves_nothing_half() {
    let ways =
        [Fault::Unready, Fault::Vanishes, Fault::DoneUnsaid, Fault::DoneLater(20_000), Fault::Slow(20_000)];
    for fault in ways {
        for before in 0..80 {
            let model = Model::new();
            model.inject([vec![Fault::None; before], vec![fault]].concat());
            if restore(&model, "one").await.is_err() {
                model.heal();
                match open(&model).await {
                    Ok(store) => assert_eq!(count(&store).await, 0, "{fault:?} after {before}"),
                    Err(error) => assert!(matches!(error, Error::HalfRestored { .. }), "{error:?}"),
                }
                restore(&model, "one").await.unwrap();
            }
            model.heal();
            assert_whole(&model).await;
            sleep(LATEST).await;
            assert_whole(&model).await;
        }
    }
}

/// A request of a killed restore that a paused member brings up when the store is served again.
#[tokio::test(start_paused = true)]
async fn what_a_killed_restore_had_sent_does_not_undo_later_writes() {
    let mut late = 0;
    for requests in 1.. {
        let model = Model::new();
        model.inject([vec![Fault::None; requests - 1], vec![Fault::DoneLater(20_000)]].concat());
        if killed_after(requests, &model).await.is_some() {
            break;
        }
        match restore(&model, "one").await {
            Ok(()) => late += 1,
            Err(RestoreError::Occupied) => continue,
            Err(error) => panic!("{requests}: {error}"),
        }
        let store = assert_whole(&model).await;
        for number in 0..OBJECTS {
            let now = store.get(&key(number)).await.unwrap().unwrap().modified;
            let gone = store.txn(Txn::delete(key(number).as_str().into(), now)).await.unwrap();
            assert!(matches!(gone, Outcome::Committed(_)));
        }
        sleep(LATEST).await;
        assert_eq!(count(&open(&model).await.unwrap()).await, 0, "{requests}: a deleted object is back");
    }
    assert!(late > OBJECTS, "{late}");
}

#[tokio::test(start_paused = true)]
async fn of_two_who_restore_the_same_the_later_one_goes_on_alone() {
    let model = Model::new();
    let first = begin(&model, "one").await.unwrap();
    put(first.store(), "/r/0", "whole").await;
    let second = begin(&model, "one").await.unwrap();
    let said = first.store().txn(Txn::create("/r/1".into(), "late".into())).await.unwrap_err().to_string();
    assert!(said.contains("somebody else has changed capstan_restore/r"), "{said}");
    assert!(matches!(first.finish().await, Err(RestoreError::TakenOver)));
    assert!(matches!(open(&model).await, Err(Error::HalfRestored { .. })));
    put(second.store(), "/r/1", "whole").await;
    second.finish().await.unwrap();
    assert_eq!(count(&open(&model).await.unwrap()).await, 2);
}

/// Lists leave out values that are not objects; a restore still refuses to overwrite them.
#[tokio::test(start_paused = true)]
async fn a_prefix_with_something_else_in_it_is_not_empty() {
    let model = Model::new();
    put(&connect(&model).await.unwrap(), "/r/a", "not an object").await;
    let plain = Plain { write: bytes::Bytes::clone, read: |_| None };
    let layout = Layout::new(&super::super::EtcdOptions { plain, ..options() });
    let store =
        EtcdStore::over(model.members(), layout, Rng::from_entropy(), Bounds::default()).await.unwrap();
    let refused = EtcdRestore::over(store, "one", &Rng::from_entropy()).begin().await;
    assert!(matches!(refused, Err(RestoreError::Occupied)), "{refused:?}");
}
