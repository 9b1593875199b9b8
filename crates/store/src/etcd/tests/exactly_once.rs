//! Single cases of lost answers and bad members, played against the model of `model.rs`.

use tokio::time::{Duration, sleep, timeout};

use super::super::EtcdStore;
use super::super::layout::Layout;
use super::faults::options;
use super::model::{Condition, Fault, Model, Room};
use super::put;
use crate::history::Bounds;
use crate::{Error, Outcome, Store, Txn, Write};
use capstan_base::rng::Rng;

async fn store(model: &Model) -> EtcdStore {
    let members = model.members();
    EtcdStore::over(members, Layout::new(&options()), Rng::from_entropy(), Bounds::default()).await.unwrap()
}

fn committed(outcome: &Outcome) -> u64 {
    let Outcome::Committed(revision) = outcome else { panic!("{outcome:?}") };
    *revision
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_a_hung_member_kept_does_not_bring_a_deleted_object_back() {
    let model = Model::new();
    let store = store(&model).await;
    put(&store, "/r/first", "1").await;
    model.set(0, Condition::Hung);
    let made = committed(&store.txn(Txn::create("/r/a".into(), "1".into())).await.unwrap());
    committed(&store.txn(Txn::delete("/r/a".into(), made)).await.unwrap());
    model.set(0, Condition::Up);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(store.get("/r/a").await.unwrap(), None);
    assert_eq!(model.past("/r/a").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn two_who_write_the_same_bytes_are_not_both_told_that_they_wrote() {
    let model = Model::new();
    let (one, two) = (store(&model).await, store(&model).await);
    let at = put(&one, "/r/n", "4").await;
    put(&two, "/r/other", "1").await;
    // The first writer's request never arrives, and before it is repeated the second one is there.
    model.inject(vec![Fault::Vanishes]);
    let txn = || Txn::update("/r/n".into(), at, "5".into());
    let (first, second) = tokio::join!(one.txn(txn()), async {
        sleep(Duration::from_millis(10)).await;
        two.txn(txn()).await
    });
    let now = committed(&second.unwrap());
    let Outcome::Conflict { current, .. } = first.unwrap() else { panic!("both wrote") };
    assert_eq!(current.unwrap().modified, now);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_acknowledged_at_its_own_revision() {
    let model = Model::new();
    let store = store(&model).await;
    let at = put(&store, "/r/n", "1").await;
    for fault in [Fault::DoneUnsaid, Fault::DoneLater(50), Fault::Slow(3_000), Fault::Vanishes] {
        model.inject(vec![fault]);
        let now = store.get("/r/n").await.unwrap().unwrap().modified;
        model.inject(vec![fault]);
        let made = committed(&store.txn(Txn::update("/r/n".into(), now, "2".into())).await.unwrap());
        assert_eq!(store.get("/r/n").await.unwrap().unwrap().modified, made, "{fault:?}");
    }
    sleep(Duration::from_secs(10)).await;
    assert_eq!(model.past("/r/n").len(), 5, "since {at}");
    let now = store.get("/r/n").await.unwrap().unwrap().modified;
    model.inject(vec![Fault::DoneUnsaid]);
    let gone = committed(&store.txn(Txn::delete("/r/n".into(), now)).await.unwrap());
    assert_eq!(model.past("/r/n").last().unwrap().revision, gone);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_behind_is_not_taken_for_an_etcd_that_was_set_back() {
    let model = Model::new();
    let store = store(&model).await;
    let mut at = put(&store, "/r/n", "0").await;
    let mut watch = store.watch("/r/", at).await.unwrap();
    model.set(1, Condition::Behind);
    model.set(0, Condition::Dead);
    for _ in 0..5 {
        at = put(&store, "/r/n", "1").await;
    }
    let mut seen = 0;
    while seen < 5 {
        seen += timeout(Duration::from_secs(60), watch.next()).await.unwrap().unwrap().len();
    }
    assert_eq!(store.get("/r/n").await.unwrap().unwrap().modified, at);
}

#[tokio::test(start_paused = true)]
async fn when_no_member_answers_a_write_says_that_it_may_have_been_made() {
    let model = Model::new();
    let store = store(&model).await;
    put(&store, "/r/n", "0").await;
    (0..3).for_each(|place| model.set(place, Condition::Hung));
    let error = store.txn(Txn::create("/r/a".into(), "1".into())).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("no answer within 1.0 s; the write may have been made"), "{error}");
    (0..3).for_each(|place| model.set(place, Condition::Dead));
    let error = store.txn(Txn::create("/r/b".into(), "1".into())).await.unwrap_err().to_string();
    assert!(error.contains("refused") && !error.contains("may have been made"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_was_made_is_not_called_refused_when_its_history_is_late() {
    let model = Model::new();
    let store = store(&model).await;
    let at = put(&store, "/r/n", "0").await;
    (0..3).for_each(|place| model.set(place, Condition::Behind));
    model.inject(vec![Fault::DoneUnsaid]);
    let error = store.txn(Txn::delete("/r/n".into(), at)).await.unwrap_err().to_string();
    assert!(error.contains("may have been made"), "{error}");
    assert_eq!(model.past("/r/n").len(), 2);
}

/// The lost one is not made later either: what it depends on never comes back.
#[tokio::test(start_paused = true)]
async fn a_lost_deletion_that_depends_on_a_key_that_was_changed_is_refused() {
    let model = Model::new();
    let (one, two) = (store(&model).await, store(&model).await);
    let at = put(&one, "/r/n", "1").await;
    // The first answer is lost, and the next attempt comes after the other write.
    for faults in [vec![Fault::Vanishes], vec![Fault::DoneLater(5_000), Fault::Vanishes]] {
        let about = format!("{faults:?}");
        let lease = put(&two, "/r/lease", "a").await;
        model.inject(faults);
        let expect = vec![("/r/n".into(), at), ("/r/lease".into(), lease)];
        let (deleted, taken) =
            tokio::join!(one.txn(Txn { expect, writes: vec![Write::Delete("/r/n".into())] }), async {
                sleep(Duration::from_millis(10)).await;
                put(&two, "/r/lease", "b").await
            });
        let Outcome::Conflict { key, current } = deleted.unwrap() else { panic!("deleted, {about}") };
        assert_eq!((&*key, current.unwrap().modified), ("/r/lease", taken), "{about}");
        sleep(Duration::from_secs(10)).await;
        assert_eq!(one.get("/r/n").await.unwrap().unwrap().modified, at, "{about}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_etcd_refuses_what_is_put_in_a_sentence_and_nothing_else() {
    let model = Model::new();
    let store = store(&model).await;
    let at = put(&store, "/r/n", "1").await;
    let mut watch = store.watch("/r/", at).await.unwrap();
    // The write that finds the end of the room is made, and acknowledged.
    model.set_room(Room::Ends);
    let last = committed(&store.txn(Txn::create("/r/last".into(), "1".into())).await.unwrap());
    for _ in 0..3 {
        let refused = store.txn(Txn::create("/r/more".into(), "1".into())).await.unwrap_err();
        assert!(matches!(refused, Error::Write { .. }), "{refused:?}");
        let said = refused.to_string();
        assert!(said.contains("database space exceeded") && said.contains("etcdctl alarm disarm"), "{said}");
    }
    assert_eq!(store.get("/r/n").await.unwrap().unwrap().modified, at, "reads go on");
    let gone = committed(&store.txn(Txn::delete("/r/n".into(), at)).await.unwrap());
    model.set_room(Room::Enough);
    let made = committed(&store.txn(Txn::create("/r/more".into(), "1".into())).await.unwrap());
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let changes = timeout(Duration::from_secs(60), watch.next()).await.unwrap().unwrap();
        seen.extend(changes.iter().map(|change| change.revision));
    }
    assert_eq!(seen, [last, gone, made]);
}

/// What became of a lost write is found out with another one, for which there is no room.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_a_full_etcd_is_not_taken_for_a_refusal() {
    let model = Model::new();
    let store = store(&model).await;
    put(&store, "/r/n", "1").await;
    model.set_room(Room::Alarm);
    model.inject(vec![Fault::DoneLater(5_000)]);
    let unknown = store.txn(Txn::create("/r/a".into(), "1".into())).await.unwrap_err();
    assert!(unknown.to_string().contains("may have been made"), "{unknown}");
    assert_eq!(store.get("/r/a").await.unwrap(), None);
    model.set_room(Room::Enough);
    sleep(Duration::from_secs(10)).await;
    assert!(store.get("/r/a").await.unwrap().is_some(), "it was made late");
}
