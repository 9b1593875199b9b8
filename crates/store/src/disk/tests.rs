//! What only a store with a file promises: it comes back, it is held by one, it says what is wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use bytes::Bytes;

use crate::{DiskStore, OpenError, Outcome, Range, Sealing, Store as _, Txn};
use capstan_base::time::Timestamp;

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
    let dir = crate::data_dir::private_tempdir();
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
    let dir = crate::data_dir::private_tempdir();
    let store = open(dir.path()).unwrap();
    for n in 0..60_u32 {
        create(&store, &format!("/a/{n:03}"), n.to_string().as_bytes()).await;
        if n % 20 != 19 {
            continue;
        }
        let image = crate::data_dir::private_tempdir();
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
    let dir = crate::data_dir::private_tempdir();
    let path = dir.path().join("data");
    let store = open(&path).unwrap();
    create(&store, "/a", b"1").await;
    let mode = |name: &str| fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("store.redb"), mode("lock")), (0o700, 0o600, 0o600));
    let Err(error) = DiskStore::open(&path, Timestamp::default()) else { panic!("opened twice") };
    let said = error.to_string();
    assert!(said.contains(&format!("process {} since 1970", std::process::id())), "{said}");
}

/// Whatever happens to the bytes: the file is refused by name, or it holds exactly what it held.
#[tokio::test]
async fn an_altered_file_is_refused_or_whole() {
    let dir = crate::data_dir::private_tempdir();
    let store = open(dir.path()).unwrap();
    let rng = capstan_base::rng::Rng::seeded(3);
    for n in 0..40_u32 {
        create(&store, &format!("/a/{n:03}"), rng.suffix(2_000).as_bytes()).await;
    }
    let before = store.range(Range { prefix: "/", ..Range::default() }).await.unwrap();
    drop(store);
    let bytes = fs::read(dir.path().join("store.redb")).unwrap();
    let size = bytes.len();
    let mut altered: Vec<(String, Vec<u8>)> = vec![
        ("empty".to_owned(), Vec::new()),
        ("zero header".to_owned(), [vec![0; 512], bytes[512..].to_vec()].concat()),
        ("zero first page".to_owned(), [vec![0; 4096], bytes[4096..].to_vec()].concat()),
    ];
    for part in [1, 100, 4096, size / 2, size - 4096, size - 1] {
        altered.push((format!("cut at {part}"), bytes[..part].to_vec()));
    }
    for _ in 0..60 {
        let at = usize::try_from(rng.below(size as u64)).unwrap();
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << rng.below(8);
        altered.push((format!("flipped at {at}"), flipped));
    }
    let mut refused = 0;
    for (what, bytes) in altered {
        let dir = crate::data_dir::private_tempdir();
        let path = dir.path().join("store.redb");
        fs::write(&path, &bytes).unwrap();
        match open(dir.path()) {
            Ok(store) => {
                let page = store.range(Range { prefix: "/", ..Range::default() }).await.unwrap();
                assert_eq!(
                    (page.entries, page.revision),
                    (before.entries.clone(), before.revision),
                    "{what}"
                );
            }
            Err(error @ OpenError::Corrupt { .. }) => {
                refused += 1;
                let said = error.to_string();
                assert!(said.contains(&path.display().to_string()), "{what}: {said}");
                assert!(said.contains("capstan restore") && said.contains("--repair"), "{what}: {said}");
            }
            Err(other) => panic!("{what}: {other}"),
        }
    }
    assert!(refused > 15, "only {refused} refused");
}

#[tokio::test]
async fn a_damaged_file_is_repaired_as_far_as_it_can_be_read() {
    let dir = crate::data_dir::private_tempdir();
    let path = dir.path().join("store.redb");
    let whole: fn(&Bytes) -> bool = |value| !value.contains(&b'!');
    let store = open(dir.path()).unwrap();
    for n in 0..100_u32 {
        create(&store, &format!("/a/{n:03}"), format!("<{n:0>200}>").as_bytes()).await;
    }
    let revision = store.revision().await.unwrap();
    drop(store);
    let checked = DiskStore::check(dir.path(), &Sealing::none()).unwrap();
    assert_eq!((checked.objects, checked.revision), (100, revision));
    assert_eq!(
        DiskStore::repair(dir.path(), Timestamp::default(), whole, &Sealing::none()).unwrap(),
        Ok(checked)
    );

    let mut bytes = fs::read(&path).unwrap();
    let value = format!("<{:0>200}>", 42);
    let found: Vec<usize> =
        (0..bytes.len() - value.len()).filter(|at| bytes[*at..].starts_with(value.as_bytes())).collect();
    assert!(!found.is_empty());
    found.iter().for_each(|at| bytes[at + 50] = b'!');
    fs::write(&path, &bytes).unwrap();
    let error = DiskStore::check(dir.path(), &Sealing::none()).unwrap_err();
    assert!(
        matches!(&error, OpenError::Corrupt { path: named, .. } if *named == path.display().to_string()),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), bytes, "checking changes nothing");

    let repaired =
        DiskStore::repair(dir.path(), Timestamp::default(), whole, &Sealing::none()).unwrap().unwrap_err();
    assert_eq!((repaired.kept, repaired.lost), (99, vec!["/a/042".into()]));
    assert_eq!(fs::read(repaired.original).unwrap(), bytes);
    let store = open(dir.path()).unwrap();
    let page = store.range(Range { prefix: "/a/", ..Range::default() }).await.unwrap();
    assert_eq!(page.entries.len(), 99);
    assert!(page.revision >= revision + 1_000);
    let Err(lost) = store.watch("/a/", revision).await else { panic!("a watch over the gap") };
    assert!(matches!(lost, crate::Error::Compacted { .. }));
    assert!(create(&store, "/a/new", b"1").await > page.revision);
    drop(store);

    fs::write(&path, vec![0; 100_000]).unwrap();
    assert!(matches!(
        DiskStore::repair(dir.path(), Timestamp::default(), whole, &Sealing::none()),
        Err(OpenError::BeyondRepair { .. })
    ));
    assert_eq!(fs::read(&path).unwrap(), vec![0; 100_000], "nothing to save, nothing changed");
}

#[tokio::test]
async fn damage_is_named_and_left_alone() {
    let dir = crate::data_dir::private_tempdir();
    let path = dir.path().join("store.redb");
    fs::write(&path, b"this is not a data file, whatever its name says").unwrap();
    let Err(OpenError::Corrupt { .. }) = open(dir.path()) else { panic!("opened garbage") };
    assert_eq!(fs::read(&path).unwrap(), b"this is not a data file, whatever its name says");
}

/// Writes and deletes 20 MB; the history of it is still kept.
async fn churn(store: &DiskStore) -> u64 {
    let mut word = 1_u64;
    let mut noise = || {
        // Xorshift, as nothing that can be packed would fill a file.
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()
    };
    for n in 0..20 {
        let mut value = Vec::with_capacity(1 << 20);
        while value.len() < 1 << 20 {
            value.extend_from_slice(&noise());
        }
        let key = format!("/big/{n}");
        let revision = create(store, &key, &value).await;
        store.txn(Txn::delete(key.as_str().into(), revision)).await.unwrap();
    }
    store.revision().await.unwrap()
}

/// 162 MB stayed for 0.4 MB of objects, over restarts too.
#[tokio::test]
async fn a_file_that_is_mostly_free_shrinks() {
    let dir = crate::data_dir::private_tempdir();
    let size = || fs::metadata(dir.path().join("store.redb")).unwrap().len();
    let store = open(dir.path()).unwrap();
    create(&store, "/small", b"1").await;
    let revision = churn(&store).await;
    assert!(size() > 16 << 20, "{}", size());
    store.compact(revision - 1).await.unwrap();
    // The first may share a commit before the file is written anew; the second comes after it.
    create(&store, "/while/one", b"2").await;
    let last = create(&store, "/while/two", b"2").await;
    assert!(size() < 8 << 20, "{}", size());

    let revision = churn(&store).await;
    store.image.compact(revision - 1);
    create(&store, "/before/restart", b"3").await;
    assert!(size() > 16 << 20, "{}", size());
    drop(store);
    let store = open(dir.path()).unwrap();
    assert!(size() < 8 << 20, "{}", size());
    assert_eq!(fs::metadata(dir.path().join("store.redb")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!dir.path().join("store.redb.new").exists());
    let page = store.range(Range { prefix: "/", ..Range::default() }).await.unwrap();
    let keys: Vec<&str> = page.entries.iter().map(|entry| &*entry.key).collect();
    assert_eq!(keys, ["/before/restart", "/small", "/while/one", "/while/two"]);
    assert_eq!((page.entries[3].modified, page.revision), (last, revision + 1));
    // The history that is still promised goes on.
    let told = store.watch("/", revision - 1).await.unwrap().next().await.unwrap();
    assert_eq!(told.iter().map(|change| change.revision).collect::<Vec<_>>(), [revision, revision + 1]);
}

/// A damaged file without its last byte, in `dir`, and its bytes.
async fn damaged(dir: &std::path::Path) -> Vec<u8> {
    let store = open(dir).unwrap();
    create(&store, "/a", b"kept").await;
    drop(store);
    let mut bytes = fs::read(dir.join("store.redb")).unwrap();
    bytes.pop();
    fs::write(dir.join("store.redb"), &bytes).unwrap();
    bytes
}

#[tokio::test]
async fn a_repair_that_cannot_write_leaves_everything_as_it_was() {
    let dir = crate::data_dir::private_tempdir();
    let bytes = damaged(dir.path()).await;
    // Stands in the way of the new file.
    fs::create_dir(dir.path().join("store.redb.new")).unwrap();
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    DiskStore::repair(dir.path(), Timestamp::default(), |_| true, &Sealing::none()).unwrap_err();
    assert_eq!((names(), fs::read(dir.path().join("store.redb")).unwrap()), (before, bytes));
}

/// The link was moved away, and the new file took the place of what it led to.
#[tokio::test]
async fn a_damaged_file_behind_a_link_is_kept_beside_itself() {
    let (dir, disk) = (crate::data_dir::private_tempdir(), tempfile::tempdir().unwrap());
    let bytes = damaged(dir.path()).await;
    let (link, file) = (dir.path().join("store.redb"), disk.path().join("data"));
    fs::rename(&link, &file).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let Err(repaired) =
        DiskStore::repair(dir.path(), Timestamp::default(), |_| true, &Sealing::none()).unwrap()
    else {
        panic!("there was nothing to repair");
    };
    assert_eq!(repaired.original.parent(), Some(disk.path()));
    assert_eq!(fs::read(&repaired.original).unwrap(), bytes);
    assert_eq!(fs::read_link(&link).unwrap(), file);
    let store = open(dir.path()).unwrap();
    assert_eq!(store.get("/a").await.unwrap().unwrap().value.unpack().unwrap(), "kept");
}

/// That their names are synced is not seen here: it would take a disk that loses power.
#[test]
fn a_path_of_new_folders_is_made_private_and_a_dangling_one_is_refused() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("one/two");
    drop(open(&path).unwrap());
    for made in ["one", "one/two"] {
        let mode = fs::metadata(dir.path().join(made)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700, "{made}");
    }
    symlink(dir.path().join("away"), dir.path().join("link")).unwrap();
    for below in ["link", "link/three"] {
        let refused = open(&dir.path().join(below)).err();
        assert!(matches!(refused, Some(OpenError::Dangling { .. })), "{refused:?}");
    }
    assert!(!dir.path().join("away").exists());
}

#[test]
fn what_is_no_regular_file_is_named_and_not_waited_for() {
    use rustix::fs::{CWD, FileType, mknodat};
    let elsewhere = tempfile::tempdir().unwrap();
    let pipe = elsewhere.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, 0o600.into(), 0).unwrap();
    for (made, expected) in [
        ("pipe", "is a named pipe, not a regular file"),
        ("link", "is a named pipe, not a regular file"),
        ("folder", "is a folder, not a regular file"),
    ] {
        let dir = crate::data_dir::private_tempdir();
        let path = dir.path().join("store.redb");
        match made {
            "pipe" => mknodat(CWD, &path, FileType::Fifo, 0o600.into(), 0).unwrap(),
            "link" => std::os::unix::fs::symlink(&pipe, &path).unwrap(),
            _ => fs::create_dir(&path).unwrap(),
        }
        let said = [
            open(dir.path()).map(drop).unwrap_err(),
            DiskStore::check(dir.path(), &Sealing::none()).map(drop).unwrap_err(),
            DiskStore::read(dir.path(), &Sealing::none()).map(drop).unwrap_err(),
            DiskStore::repair(dir.path(), Timestamp::default(), |_| true, &Sealing::none())
                .map(drop)
                .unwrap_err(),
        ];
        for error in said {
            assert!(error.to_string().contains(expected), "{made}: {error}");
        }
    }
}
