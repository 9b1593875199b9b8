//! What only a store with a file promises: it comes back, it is held by one, it says what is wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use bytes::Bytes;

use crate::store::{DiskStore, OpenError, Outcome, Range, Store as _, Txn};
use crate::time::Timestamp;

fn open(dir: &std::path::Path) -> Result<DiskStore, OpenError> {
    DiskStore::open(dir, Timestamp::default())
}

async fn create(store: &DiskStore, key: &str, value: &[u8]) -> u64 {
    match store.txn(Txn::create(key.into(), Bytes::copy_from_slice(value))).await.unwrap() {
        Outcome::Committed(revision) => revision,
        Outcome::Conflict { .. } => panic!("{key} was there"),
    }
}

#[tokio::test]
async fn everything_comes_back_history_included() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let one = create(&store, "/a/1", &[b'x'; 5_000]).await;
    let two = create(&store, "/a/2", b"2").await;
    store.txn(Txn::update("/a/1".into(), one, "new".into())).await.unwrap();
    store.txn(Txn::delete("/a/2".into(), two)).await.unwrap();
    let before = store.range(Range { prefix: "/", ..Range::default() }).await.unwrap();
    let mut watch = store.watch("/a/", one - 1).await.unwrap();
    let changes = watch.next().await.unwrap();
    drop((watch, store));

    let store = open(dir.path()).unwrap();
    let after = store.range(Range { prefix: "/", ..Range::default() }).await.unwrap();
    assert_eq!((after.entries, after.revision), (before.entries, before.revision));
    assert_eq!(store.watch("/a/", one - 1).await.unwrap().next().await.unwrap(), changes);
    let past = store.range(Range { prefix: "/", at: Some(two), ..Range::default() }).await.unwrap();
    assert_eq!(past.entries.len(), 2);
    assert!(create(&store, "/a/3", b"3").await > before.revision);
}

/// Any moment a copy of the file is taken is a moment the power could have failed: what was
/// acknowledged before it is there, and nothing is torn.
#[tokio::test]
async fn a_crash_image_has_every_acknowledged_write() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    for n in 0..60_u32 {
        create(&store, &format!("/a/{n:03}"), n.to_string().as_bytes()).await;
        if n % 20 != 19 {
            continue;
        }
        let image = tempfile::tempdir().unwrap();
        fs::copy(dir.path().join("store.redb"), image.path().join("store.redb")).unwrap();
        let copy = open(image.path()).unwrap();
        let page = copy.range(Range { prefix: "/a/", ..Range::default() }).await.unwrap();
        assert_eq!(page.entries.len(), n as usize + 1);
        assert_eq!(page.revision, store.revision().await.unwrap());
        create(&copy, "/a/more", b"writable").await;
    }
}

#[tokio::test]
async fn the_directory_is_private_and_held_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let store = open(&path).unwrap();
    create(&store, "/a", b"1").await;
    let mode = |name: &str| fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("store.redb"), mode("lock")), (0o700, 0o600, 0o600));
    let Err(error) = DiskStore::open(&path, Timestamp::default()) else { panic!("opened twice") };
    let said = error.to_string();
    assert!(said.contains(&format!("process {} since 1970", std::process::id())), "{said}");
}

#[tokio::test]
async fn damage_is_named_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    fs::write(&path, b"this is not a data file, whatever its name says").unwrap();
    let Err(OpenError::Corrupt { .. }) = open(dir.path()) else { panic!("opened garbage") };
    assert_eq!(fs::read(&path).unwrap(), b"this is not a data file, whatever its name says");
}
