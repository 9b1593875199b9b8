//! One suite for every backend: what the contract in `mod.rs` promises. A backend joins by adding
//! its constructor to `backends!`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use tokio::time::timeout;

use super::history::Bounds;
use super::*;

/// A backend under test, with whatever must outlive it.
struct Backend {
    store: Arc<dyn Store>,
    _alive: Box<dyn std::any::Any + Send>,
}

type Make = fn(Bounds) -> BoxFuture<'static, Backend>;

fn memory(bounds: Bounds) -> BoxFuture<'static, Backend> {
    let store = Arc::new(MemoryStore::bounded(bounds));
    async { Backend { store, _alive: Box::new(()) } }.boxed()
}

fn disk(bounds: Bounds) -> BoxFuture<'static, Backend> {
    let dir = crate::data_dir::private_tempdir();
    let now = capstan_base::time::Timestamp::default();
    let (store, _) = DiskStore::open_bounded(dir.path(), now, bounds, &Sealing::none()).unwrap();
    async { Backend { store: Arc::new(store), _alive: Box::new(dir) } }.boxed()
}

#[cfg(feature = "etcd")]
fn etcd(bounds: Bounds) -> BoxFuture<'static, Backend> {
    async move {
        let etcd = etcd::tests::server::Etcd::start();
        let store = EtcdStore::connect_bounded(etcd::tests::options(&etcd), bounds).await.unwrap();
        // Its first write prepares the writer, which takes a revision of its own.
        if let Outcome::Committed(at) = store.txn(Txn::create("/x".into(), Bytes::new())).await.unwrap() {
            store.txn(Txn::delete("/x".into(), at)).await.unwrap();
        }
        Backend { store: Arc::new(store), _alive: Box::new(etcd) }
    }
    .boxed()
}

/// The same with every value sealed.
async fn sealed(backend: Backend) -> Backend {
    let coverage = Coverage { prefixes: &["/"], is_value: |_| false };
    let sealing = Sealing::new(coverage, Some(Keyring::generate().unwrap()));
    Backend { store: Arc::new(Sealed::new(backend.store, sealing)), _alive: backend._alive }
}

fn sealed_memory(bounds: Bounds) -> BoxFuture<'static, Backend> {
    async move { sealed(memory(bounds).await).await }.boxed()
}

fn sealed_disk(bounds: Bounds) -> BoxFuture<'static, Backend> {
    async move { sealed(disk(bounds).await).await }.boxed()
}

/// Runs each named check on each backend.
macro_rules! backends {
    ($($check:ident),* $(,)?) => {
        mod on_memory { $(#[tokio::test] async fn $check() { super::$check(super::memory).await; })* }
        mod on_disk { $(#[tokio::test] async fn $check() { super::$check(super::disk).await; })* }
        mod on_sealed_memory { $(#[tokio::test] async fn $check() { super::$check(super::sealed_memory).await; })* }
        mod on_sealed_disk { $(#[tokio::test] async fn $check() { super::$check(super::sealed_disk).await; })* }
        #[cfg(feature = "etcd")]
        mod on_etcd {
            $(#[tokio::test] async fn $check() {
                if super::super::etcd::tests::server::is_installed() {
                    super::$check(super::etcd).await;
                }
            })*
        }
        #[cfg(feature = "etcd")]
        mod on_sealed_etcd {
            $(#[tokio::test] async fn $check() {
                if super::super::etcd::tests::server::is_installed() {
                    super::$check(super::sealed_etcd).await;
                }
            })*
        }
    };
}

backends!(
    one_revision_per_transaction,
    expectations_are_all_or_nothing,
    pages_cover_a_prefix_in_key_order,
    the_past_can_be_read_until_compacted,
    a_watch_reports_every_change_once_in_order,
    a_watch_resumes_or_is_told_it_cannot,
    a_quiet_watch_outlives_a_busy_neighbour,
    history_is_bounded,
    s153_racing_writers_lose_nothing,
    revisions_can_be_raised,
    the_past_is_paged_and_counted,
    random_histories_agree_with_a_model,
);

#[cfg(feature = "etcd")]
fn sealed_etcd(bounds: Bounds) -> BoxFuture<'static, Backend> {
    async move { sealed(etcd(bounds).await).await }.boxed()
}

async fn put(store: &Arc<dyn Store>, key: &str, value: &str) -> Revision {
    let txn = Txn {
        expect: vec![],
        writes: vec![Write::Put(key.into(), Bytes::copy_from_slice(value.as_bytes()))],
    };
    match store.txn(txn).await.unwrap() {
        Outcome::Committed(revision) => revision,
        Outcome::Conflict { .. } => panic!("nothing was expected"),
    }
}

fn text(entry: &Entry) -> String {
    String::from_utf8(entry.value.unpack().unwrap().to_vec()).unwrap()
}

async fn one_revision_per_transaction(make: Make) {
    let Backend { store, _alive } = make(Bounds::default()).await;
    let start = store.revision().await.unwrap();
    assert!(start > 0);
    let both = Txn {
        expect: vec![("/a/1".into(), 0)],
        writes: vec![Write::Put("/a/1".into(), "x".into()), Write::Put("/a/2".into(), "y".into())],
    };
    assert_eq!(store.txn(both).await.unwrap(), Outcome::Committed(start + 1));
    assert_eq!(store.get("/a/1").await.unwrap().unwrap().modified, start + 1);
    assert_eq!(store.get("/a/2").await.unwrap().unwrap().modified, start + 1);
    let nothing = Txn { expect: vec![], writes: vec![Write::Delete("/a/none".into())] };
    assert_eq!(store.txn(nothing).await.unwrap(), Outcome::Committed(start + 1));
    assert_eq!(put(&store, "/a/1", "z").await, start + 2);
    let entry = store.get("/a/1").await.unwrap().unwrap();
    assert_eq!((entry.created, entry.modified, text(&entry)), (start + 1, start + 2, "z".to_owned()));
    assert_eq!(store.revision().await.unwrap(), start + 2);
}

async fn expectations_are_all_or_nothing(make: Make) {
    let Backend { store, _alive } = make(Bounds::default()).await;
    let first = put(&store, "/a", "1").await;
    let Outcome::Conflict { key, current } = store.txn(Txn::create("/a".into(), "2".into())).await.unwrap()
    else {
        panic!("created twice");
    };
    assert_eq!((&*key, current.unwrap().modified), ("/a", first));
    let stale = Txn {
        expect: vec![("/a".into(), first), ("/b".into(), 7)],
        writes: vec![Write::Delete("/a".into()), Write::Put("/b".into(), "x".into())],
    };
    assert_eq!(store.txn(stale).await.unwrap(), Outcome::Conflict { key: "/b".into(), current: None });
    assert!(store.get("/a").await.unwrap().is_some());
    assert!(store.get("/b").await.unwrap().is_none());
    assert_eq!(
        store.txn(Txn::update("/a".into(), first, "3".into())).await.unwrap(),
        Outcome::Committed(first + 1)
    );
    assert_eq!(store.txn(Txn::delete("/a".into(), first + 1)).await.unwrap(), Outcome::Committed(first + 2));
    assert!(store.get("/a").await.unwrap().is_none());
}

async fn pages_cover_a_prefix_in_key_order(make: Make) {
    let Backend { store, _alive } = make(Bounds::default()).await;
    for key in ["/m/b", "/m/a", "/m/c", "/mm/x", "/l/z"] {
        put(&store, key, key).await;
    }
    let first = store.range(Range { prefix: "/m/", limit: 2, ..Range::default() }).await.unwrap();
    assert_eq!(first.entries.iter().map(text).collect::<Vec<_>>(), ["/m/a", "/m/b"]);
    assert_eq!(first.remaining, 1);
    // A write between pages is not seen by the pages of the earlier revision.
    put(&store, "/m/d", "later").await;
    put(&store, "/m/c", "changed").await;
    let rest = Range { prefix: "/m/", after: "/m/b", at: Some(first.revision), ..Range::default() };
    let rest = store.range(rest).await.unwrap();
    assert_eq!(rest.entries.iter().map(text).collect::<Vec<_>>(), ["/m/c"]);
    assert_eq!((rest.remaining, rest.revision), (0, first.revision));
}

async fn the_past_can_be_read_until_compacted(make: Make) {
    let Backend { store, _alive } = make(Bounds::default()).await;
    let one = put(&store, "/a", "1").await;
    let two = put(&store, "/a", "2").await;
    store.txn(Txn::delete("/a".into(), two)).await.unwrap();
    let four = put(&store, "/b", "4").await;
    let at = async |at| {
        let page = store.range(Range { prefix: "/", at: Some(at), ..Range::default() }).await;
        page.map(|page| page.entries.iter().map(text).collect::<Vec<_>>().join(","))
    };
    assert_eq!(at(one).await.unwrap(), "1");
    assert_eq!(at(two).await.unwrap(), "2");
    assert_eq!(at(two + 1).await.unwrap(), "");
    assert_eq!(at(four).await.unwrap(), "4");
    assert!(matches!(at(four + 1).await, Err(Error::Future { .. })));
    store.compact(two).await.unwrap();
    assert!(matches!(at(one).await, Err(Error::Compacted { .. })));
    assert_eq!(at(two).await.unwrap(), "2");
}

async fn a_watch_reports_every_change_once_in_order(make: Make) {
    let Backend { store, _alive } = make(Bounds::default()).await;
    let start = put(&store, "/a/0", "0").await;
    let mut watch = store.watch("/a/", start).await.unwrap();
    assert_eq!(watch.progress().await.unwrap(), start);
    let one = put(&store, "/a/1", "1").await;
    put(&store, "/b/1", "elsewhere").await;
    let three = put(&store, "/a/1", "2").await;
    store.txn(Txn::delete("/a/1".into(), three)).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.extend(timeout(Duration::from_secs(5), watch.next()).await.unwrap().unwrap());
    }
    let told: Vec<_> = seen
        .iter()
        .map(|c| (c.revision, c.previous.as_ref().map(text), c.current.as_ref().map(text)))
        .collect();
    let some = |s: &str| Some(s.to_owned());
    assert_eq!(told, [(one, None, some("1")), (three, some("1"), some("2")), (three + 1, some("2"), None)]);
    put(&store, "/b/2", "elsewhere").await;
    assert_eq!(watch.progress().await.unwrap(), three + 2);
    assert!(timeout(Duration::from_millis(20), watch.next()).await.is_err());
}

async fn a_watch_resumes_or_is_told_it_cannot(make: Make) {
    let Backend { store, _alive } = make(Bounds::default()).await;
    let start = store.revision().await.unwrap();
    for n in 0..2_000 {
        put(&store, "/a/x", &n.to_string()).await;
    }
    let mut watch = store.watch("/a/", start + 10).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 1_990 {
        seen.extend(watch.next().await.unwrap().iter().map(|c| c.revision));
    }
    assert_eq!(seen, (start + 11..=start + 2_000).collect::<Vec<_>>());
    store.compact(start + 100).await.unwrap();
    assert!(matches!(store.watch("/a/", start + 99).await, Err(Error::Compacted { .. })));
    assert!(store.watch("/a/", start + 100).await.is_ok());
    // A watch that waited for the future skipped what a store with a new history wrote until there.
    let now = store.revision().await.unwrap();
    assert!(store.watch("/a/", now).await.is_ok());
    assert!(
        matches!(store.watch("/a/", now + 1).await, Err(Error::Future { asked, current }) if (asked, current) == (now + 1, now))
    );
}

async fn a_quiet_watch_outlives_a_busy_neighbour(make: Make) {
    let Backend { store, _alive } = make(Bounds { changes_max: 10, ..Bounds::default() }).await;
    let start = store.revision().await.unwrap();
    let mut quiet = store.watch("/quiet/", start).await.unwrap();
    let mut busy = store.watch("/busy/", start).await.unwrap();
    for n in 0..50 {
        put(&store, "/busy/x", &n.to_string()).await;
    }
    let told = put(&store, "/quiet/x", "1").await;
    assert_eq!(quiet.next().await.unwrap().first().unwrap().revision, told);
    assert!(matches!(busy.next().await, Err(Error::Compacted { .. })));
}

async fn history_is_bounded(make: Make) {
    let Backend { store, _alive } = make(Bounds { changes_max: 1_000_000, bytes_max: 100_000 }).await;
    let big = capstan_base::rng::Rng::seeded(1).suffix(20_000);
    let start = store.revision().await.unwrap();
    for _ in 0..200 {
        put(&store, "/a/x", &big).await;
    }
    assert!(matches!(store.watch("/a/", start).await, Err(Error::Compacted { .. })));
    assert!(store.watch("/a/", start + 199).await.is_ok());
}

async fn s153_racing_writers_lose_nothing(make: Make) {
    let Backend { store, _alive } = make(Bounds::default()).await;
    put(&store, "/n", "0").await;
    let writers = (0..100).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..3 {
                loop {
                    let entry = store.get("/n").await.unwrap().unwrap();
                    let next = (text(&entry).parse::<u32>().unwrap() + 1).to_string();
                    let txn = Txn::update("/n".into(), entry.modified, next.into());
                    if matches!(store.txn(txn).await.unwrap(), Outcome::Committed(_)) {
                        break;
                    }
                }
            }
        })
    });
    futures::future::join_all(writers).await.into_iter().for_each(|done| done.unwrap());
    assert_eq!(text(&store.get("/n").await.unwrap().unwrap()), "300");
}

async fn revisions_can_be_raised(make: Make) {
    let Backend { store, _alive } = make(Bounds::default()).await;
    let one = put(&store, "/a/1", "1").await;
    let mut watch = store.watch("/a/", one).await.unwrap();
    store.raise(one + 200).await.unwrap();
    store.raise(1).await.unwrap();
    let two = put(&store, "/a/2", "2").await;
    assert!(two > one + 200);
    assert_eq!(watch.next().await.unwrap().iter().map(|c| c.revision).collect::<Vec<_>>(), [two]);
    let page = store.range(Range { prefix: "/a/", at: Some(one + 1), ..Range::default() }).await.unwrap();
    assert_eq!(page.entries.len(), 1);
}

/// Pages of an old revision hold what it held, and count what is left, whatever happened since.
async fn the_past_is_paged_and_counted(make: Make) {
    let Backend { store, _alive } = make(Bounds::default()).await;
    for n in 0..1_000 {
        put(&store, &format!("/m/{n:04}"), "old").await;
    }
    let then = store.revision().await.unwrap();
    for n in (0..1_000).step_by(7) {
        let key: Key = format!("/m/{n:04}").into();
        store.txn(Txn { expect: vec![], writes: vec![Write::Delete(key)] }).await.unwrap();
        put(&store, &format!("/m/{n:04}-new"), "new").await;
        put(&store, &format!("/m/{:04}", n + 1), "new").await;
    }
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let range = Range { prefix: "/m/", after: &after, limit: 33, at: Some(then) };
        let page = store.range(range).await.unwrap();
        found.extend(page.entries.iter().map(|entry| (entry.key.to_string(), text(entry))));
        after = found.last().unwrap().0.clone();
        assert_eq!(page.remaining, 1_000 - found.len());
        if page.remaining == 0 {
            break;
        }
    }
    let expected: Vec<_> = (0..1_000).map(|n| (format!("/m/{n:04}"), "old".to_owned())).collect();
    assert_eq!(found, expected);
}

/// Puts and deletes on few keys; afterwards every revision reads as the model had it then.
async fn random_histories_agree_with_a_model(make: Make) {
    let strategy = proptest::collection::vec((0_u8..6, proptest::option::of(0_u16..1000)), 1..60);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..16 {
        let writes = strategy.new_tree(&mut runner).unwrap().current();
        let Backend { store, _alive } = make(Bounds::default()).await;
        let mut model = std::collections::BTreeMap::new();
        let mut past = Vec::new();
        for (key, value) in writes {
            let key = format!("/k/{key}");
            let txn = match value {
                Some(value) => Write::Put(key.as_str().into(), value.to_string().into()),
                None => Write::Delete(key.as_str().into()),
            };
            store.txn(Txn { expect: vec![], writes: vec![txn] }).await.unwrap();
            match value {
                Some(value) => model.insert(key, value.to_string()),
                None => model.remove(&key),
            };
            past.push((store.revision().await.unwrap(), model.clone()));
        }
        for (revision, expected) in past {
            let page =
                store.range(Range { prefix: "/k/", at: Some(revision), ..Range::default() }).await.unwrap();
            let found: std::collections::BTreeMap<_, _> =
                page.entries.iter().map(|e| (e.key.to_string(), text(e))).collect();
            assert_eq!(found, expected);
        }
    }
}
