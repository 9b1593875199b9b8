//! What a store promises whose values are sealed, beside the conformance suite that runs over it: nothing of them is in the file,
//! what does not open is left out and never shown, and keys can be changed.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::data_dir::private_tempdir;
use crate::{DiskStore, Error, MemoryStore, OpenError, Outcome, Range, Revision, Store, Txn, Write};
use capstan_base::time::Timestamp;

const SCOPE: Coverage =
    Coverage { prefixes: &["/registry/secrets/"], is_value: |value| value.starts_with(b"{") };

fn key(name: &str) -> crate::Key {
    format!("/registry/secrets/default/{name}").into()
}

/// What is looked for in files: it does not shrink, so nothing packs it.
fn planted(name: &str) -> String {
    let noise = capstan_base::rng::Rng::seeded(name.len() as u64).suffix(120);
    format!("{{\"planted\":\"{name}-{noise}\"}}")
}

async fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    let write = Write::Put(key.into(), Bytes::copy_from_slice(value.as_bytes()));
    match store.txn(Txn { expect: Vec::new(), writes: vec![write] }).await.unwrap() {
        Outcome::Committed(revision) => revision,
        Outcome::Conflict { .. } => panic!("nothing was expected"),
    }
}

async fn listed(store: &dyn Store) -> Vec<(String, String)> {
    let page = store.range(Range { prefix: "/registry/", ..Range::default() }).await.unwrap();
    let text = |entry: &crate::Entry| String::from_utf8(entry.value.unpack().unwrap().to_vec()).unwrap();
    page.entries.iter().map(|entry| (entry.key.to_string(), text(entry))).collect()
}

fn ring() -> Keyring {
    Keyring::generate().unwrap()
}

/// The bits of the first key and the others again.
fn copy(ring: &Keyring) -> Keyring {
    let keys = ring.keys().map(|key| key::SealingKey::of(key.bytes()).unwrap()).collect();
    Keyring::of(keys).unwrap()
}

fn sealing(ring: &Keyring) -> Sealing {
    Sealing::new(SCOPE, Some(copy(ring)))
}

#[tokio::test]
async fn only_covered_values_are_sealed_and_they_weigh_what_they_are() {
    let inner = Arc::new(MemoryStore::new());
    let store = Sealed::new(inner.clone(), sealing(&ring()));
    let value = planted("a");
    put(&store, &key("a"), &value).await;
    put(&store, "/registry/configmaps/default/a", &value).await;
    assert_eq!(store.weight(&key("a")), value.len());
    assert_eq!(store.weight("/registry/configmaps/default/a"), value.len());
    assert_eq!(store.weight(&key("none")), 0);
    let kept = async |key: &str| inner.get(key).await.unwrap().unwrap().value.unpack().unwrap();
    assert_eq!(kept("/registry/configmaps/default/a").await, value, "a ConfigMap is kept as it is");
    let sealed = kept(&key("a")).await;
    assert!(is_sealed(&sealed) && !sealed.windows(9).any(|part| part == b"\"planted\""));
    assert!(listed(&store).await.iter().all(|(_, text)| *text == value));
    assert_eq!(store.limit().writes, inner.limit().writes);
    assert_eq!(store.limit().bytes, inner.limit().bytes - inner.limit().writes * value::SEALED_OVERHEAD);
}

/// Altered, moved, of another key, and in clear without being an object.
#[tokio::test]
async fn what_does_not_open_is_left_out_and_can_be_deleted_by_name() {
    let inner = Arc::new(MemoryStore::new());
    let store = Sealed::new(inner.clone(), sealing(&ring()));
    let start = inner.revision().await.unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        put(&store, &key(name), &planted(name)).await;
    }
    let mut watch = store.watch("/registry/secrets/", store.revision().await.unwrap()).await.unwrap();
    let sealed = async |name: &str| inner.get(&key(name)).await.unwrap().unwrap().value.unpack().unwrap();
    let raw = async |name: &str, value: Bytes| {
        let write = Write::Put(key(name), value);
        inner.txn(Txn { expect: Vec::new(), writes: vec![write] }).await.unwrap()
    };
    let mut altered = sealed("a").await.to_vec();
    *altered.last_mut().unwrap() ^= 1;
    raw("a", altered.into()).await;
    raw("b", sealed("c").await).await;
    raw("d", ring().seal(&key("d"), b"{}").unwrap()).await;
    raw("f", Bytes::from_static(b"junk")).await;
    let left: Vec<String> = listed(&store).await.into_iter().map(|(key, _)| key).collect();
    assert_eq!(left, [key("c").to_string(), key("e").to_string()]);
    let closed = ["a", "b", "d", "f"].map(key);
    assert_eq!(store.unreadable("/registry/secrets/default/"), closed);
    assert!(store.unreadable("/registry/configmaps/").is_empty());
    for name in &closed {
        assert_eq!(store.get(name).await.unwrap().unwrap().value.unpack().unwrap(), "", "{name}");
    }
    // Pages of one do not end where a value does not open.
    let first =
        store.range(Range { prefix: "/registry/secrets/", limit: 1, ..Range::default() }).await.unwrap();
    assert_eq!((&first.entries[0].key, first.remaining), (&key("c"), 3));
    // A watch saw them go; what came and never opened was nothing to it.
    let mut gone = Vec::new();
    while gone.len() < 3 {
        gone.extend(watch.next().await.unwrap());
    }
    let told: Vec<_> = gone
        .iter()
        .map(|change| (&change.key, change.current.is_some(), change.previous.is_some()))
        .collect();
    assert_eq!(told, [(&key("a"), false, true), (&key("b"), false, true), (&key("d"), false, true)]);
    assert_eq!(watch.progress().await.unwrap(), store.revision().await.unwrap());
    // As it was before: all of them open.
    let past = Range { prefix: "/registry/", at: Some(start + 5), ..Range::default() };
    assert_eq!(store.range(past).await.unwrap().entries.len(), 5);
    assert_eq!(store.unreadable("/registry/secrets/"), closed);

    let entry = store.get(&key("a")).await.unwrap().unwrap();
    let stale = store.txn(Txn::delete(key("a"), entry.modified - 1)).await.unwrap();
    assert!(matches!(stale, Outcome::Conflict { current: Some(current), .. } if current.value.bytes() == 0));
    store.txn(Txn::delete(key("a"), entry.modified)).await.unwrap();
    put(&store, &key("b"), &planted("b")).await;
    assert_eq!(store.unreadable("/registry/secrets/default/"), ["d", "f"].map(key));
    // Mended below, as by another server.
    raw("d", sealed("e").await).await;
    inner.txn(Txn { expect: Vec::new(), writes: vec![Write::Delete(key("f"))] }).await.unwrap();
    listed(&store).await;
    assert_eq!(store.unreadable("/registry/secrets/default/"), [key("d")]);
}

#[tokio::test]
async fn a_store_is_sealed_anew_in_batches_and_again_with_a_new_key() {
    let inner = Arc::new(MemoryStore::new());
    for n in 0..1_200 {
        put(&*inner, &key(&format!("{n:04}")), &planted("a")).await;
    }
    put(&*inner, &key("junk"), "junk").await;
    let before = inner.revision().await.unwrap();
    let mut ring = ring();
    let (store, census) = Sealed::open(inner.clone(), sealing(&ring), "here").await.unwrap();
    assert_eq!((census.clear, census.older, census.newest, census.closed.len()), (1_200, 0, 0, 1));
    let transactions = inner.revision().await.unwrap() - before;
    assert!(transactions <= 4, "{transactions} for 1,200 values");
    assert_eq!(listed(&store).await.len(), 1_200);
    let now = survey(&*inner, &sealing(&ring)).await.unwrap();
    assert_eq!((now.clear, now.newest), (0, 1_200));
    let (_, again) = Sealed::open(inner.clone(), sealing(&ring), "here").await.unwrap();
    assert_eq!((again.clear, again.older, again.newest), (0, 0, 1_200));

    ring.rotate().unwrap();
    let (store, census) = Sealed::open(inner.clone(), sealing(&ring), "here").await.unwrap();
    assert_eq!((census.clear, census.older, census.newest), (0, 1_200, 0));
    ring.prune();
    assert_eq!(survey(&*inner, &sealing(&ring)).await.unwrap().newest, 1_200);
    assert_eq!(listed(&store).await.len(), 1_200);
}

#[tokio::test]
async fn without_the_right_key_nothing_is_opened_and_the_sentence_names_it() {
    let inner = Arc::new(MemoryStore::new());
    let (right, wrong) = (ring(), ring());
    put(&Sealed::new(inner.clone(), sealing(&right)), &key("a"), &planted("a")).await;
    let refused =
        async |sealing| Sealed::open(inner.clone(), sealing, "this store").await.err().unwrap().to_string();
    let missing = refused(Sealing::new(SCOPE, None)).await;
    let needed = format!("this store is encrypted with key {}", right.newest());
    assert!(missing.starts_with(&needed) && missing.contains("--encryption-key"), "{missing}");
    let other = refused(sealing(&wrong)).await;
    assert!(other.starts_with(&needed) && other.contains(&format!("holds {}.", wrong.newest())), "{other}");
    // A server that began before there was anything sealed shows nothing of it.
    let keyless = Sealed::new(inner, Sealing::new(SCOPE, None));
    assert!(listed(&keyless).await.is_empty());
    assert_eq!(keyless.unreadable("/registry/"), [key("a")]);
    put(&keyless, &key("b"), &planted("b")).await;
    assert_eq!(listed(&keyless).await, [(key("b").to_string(), planted("b"))]);
}

/// A server without a key pays nothing for the keys of others.
#[tokio::test]
async fn without_a_key_values_weigh_what_they_are_and_transactions_are_as_large_as_below() {
    let inner = Arc::new(MemoryStore::new());
    let other = Sealed::new(inner.clone(), sealing(&ring()));
    let keyless = Sealed::new(inner.clone(), Sealing::new(SCOPE, None));
    let mut watch = keyless.watch("/registry/secrets/", inner.revision().await.unwrap()).await.unwrap();
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(5_000));
    put(&keyless, &key("a"), &large).await;
    put(&keyless, &key("b"), "capstan:sealed:").await;
    put(&other, &key("c"), &large).await;
    assert_eq!(keyless.weight(&key("a")), large.len());
    assert_eq!((keyless.limit().writes, keyless.limit().bytes), (inner.limit().writes, inner.limit().bytes));
    let packed = inner.get(&key("a")).await.unwrap().unwrap();
    assert_eq!(keyless.get(&key("a")).await.unwrap().unwrap(), packed, "as it is kept");
    assert_eq!(listed(&keyless).await, [(key("a").to_string(), large)]);
    assert_eq!(keyless.unreadable("/registry/"), ["b", "c"].map(key));
    let seen = watch.next().await.unwrap();
    assert_eq!(seen.iter().map(|change| &change.key).collect::<Vec<_>>(), [&key("a")]);
    let census = survey(&*inner, &Sealing::new(SCOPE, None)).await.unwrap();
    assert_eq!((census.clear, census.opened(), census.closed.len()), (1, 0, 2));
    keyless.txn(Txn { expect: Vec::new(), writes: vec![Write::Delete(key("b"))] }).await.unwrap();
    assert_eq!(keyless.unreadable("/registry/"), [key("c")]);
}

fn open(dir: &Path, sealing: &Sealing) -> Result<(Sealed, Census), OpenError> {
    let (store, census) = DiskStore::open_sealed(dir, Timestamp::default(), sealing)?;
    Ok((Sealed::new(Arc::new(store), sealing.clone()), census))
}

/// The files of a folder that hold a text.
fn files_with(dir: &Path, text: &str) -> Vec<String> {
    let holds = |path: &Path| fs::read(path).unwrap().windows(text.len()).any(|part| part == text.as_bytes());
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| holds(path)).map(|path| path.display().to_string()).collect()
}

/// Values of objects, of history, and of pages that have become free.
#[tokio::test]
async fn a_store_on_disk_that_gets_a_key_holds_no_value_in_clear_any_more() {
    let dir = private_tempdir();
    let needles = ["now", "before", "deleted", "forgotten"].map(planted);
    let [now, before, deleted, forgotten] = &needles;
    let store = DiskStore::open(dir.path(), Timestamp::default()).unwrap();
    // So many that later writes do not use all pages again that become free.
    let gone = |name: &str| Txn { expect: Vec::new(), writes: vec![Write::Delete(key(name))] };
    let all = (0..200).map(|n| key(&format!("d{n:03}")));
    let put_all = all.clone().map(|key| Write::Put(key, forgotten.clone().into())).collect();
    for writes in [put_all, all.map(Write::Delete).collect()] {
        store.txn(Txn { expect: Vec::new(), writes }).await.unwrap();
    }
    store.compact(store.revision().await.unwrap()).await.unwrap();
    put(&store, &key("a"), before).await;
    let start = put(&store, "/registry/configmaps/default/a", "{}").await;
    put(&store, &key("a"), now).await;
    put(&store, &key("b"), deleted).await;
    store.txn(gone("b")).await.unwrap();
    let revision = store.revision().await.unwrap();
    let entry = store.get(&key("a")).await.unwrap().unwrap();
    drop(store);
    for needle in &needles {
        assert!(!files_with(dir.path(), needle).is_empty(), "{needle}");
    }

    let mut ring = ring();
    let (store, census) = open(dir.path(), &sealing(&ring)).unwrap();
    assert_eq!((census.clear, census.older, census.newest), (1, 0, 0));
    for needle in &needles {
        assert_eq!(files_with(dir.path(), needle), [""; 0]);
    }
    // Nothing changed for a reader: neither revisions nor the past.
    assert_eq!(store.revision().await.unwrap(), revision);
    let again = store.get(&key("a")).await.unwrap().unwrap();
    assert_eq!(
        (again.created, again.modified, again.value.unpack().unwrap()),
        (entry.created, entry.modified, now.clone().into())
    );
    let changes = store.watch("/registry/secrets/", start).await.unwrap().next().await.unwrap();
    let text = |entry: &Option<crate::Entry>| {
        entry.as_ref().map(|e| String::from_utf8(e.value.unpack().unwrap().to_vec()).unwrap())
    };
    let told: Vec<_> = changes.iter().map(|change| (text(&change.previous), text(&change.current))).collect();
    let some = |text: &String| Some(text.clone());
    assert_eq!(told, [(some(before), some(now)), (None, some(deleted)), (some(deleted), None)]);
    put(&store, &key("c"), &planted("written later")).await;
    drop(store);
    assert_eq!(files_with(dir.path(), &planted("written later")), [""; 0]);

    // Without the key, and with another one.
    let refused = open(dir.path(), &Sealing::none()).err().unwrap().to_string();
    assert!(refused.contains(&format!("is encrypted with key {}", ring.newest())), "{refused}");
    let other = self::ring();
    let refused = open(dir.path(), &sealing(&other)).err().unwrap().to_string();
    assert!(refused.contains(&format!("holds {}.", other.newest())), "{refused}");
    assert!(matches!(DiskStore::read(dir.path(), &sealing(&other)), Err(OpenError::Key(_))));

    let (old, old_id) = (copy(&ring), ring.newest());
    ring.rotate().unwrap();
    let checked = DiskStore::check(dir.path(), &sealing(&ring)).unwrap();
    assert_eq!((checked.sealed_with, checked.census.older, checked.census.newest), (Some(old_id), 2, 0));
    let (store, census) = open(dir.path(), &sealing(&ring)).unwrap();
    assert_eq!((census.clear, census.older, census.newest), (0, 2, 0));
    drop(store);
    let checked = DiskStore::check(dir.path(), &sealing(&ring)).unwrap();
    assert_eq!(
        (checked.sealed_with, checked.census.older, checked.census.newest),
        (Some(ring.newest()), 0, 2)
    );
    // The old key opens nothing that is in the file.
    let closed = DiskStore::check(dir.path(), &sealing(&old)).unwrap().census;
    assert_eq!((closed.opened(), closed.closed.len()), (0, 2));
    let id = old_id.to_string();
    let bytes: Vec<u8> = (0..8).map(|n| u8::from_str_radix(&id[2 * n..2 * n + 2], 16).unwrap()).collect();
    let file = fs::read(dir.path().join("store.redb")).unwrap();
    assert!(!file.windows(8).any(|part| part == bytes), "no value of the old key is left, in whatever page");
}

/// A store without a value to seal is encrypted as well: the next one must not be written in clear by accident.
#[tokio::test]
async fn an_empty_store_with_a_key_needs_it_from_then_on() {
    for is_new in [true, false] {
        let dir = private_tempdir();
        if !is_new {
            drop(DiskStore::open(dir.path(), Timestamp::default()).unwrap());
        }
        let ring = ring();
        drop(open(dir.path(), &sealing(&ring)).unwrap());
        assert!(matches!(DiskStore::open(dir.path(), Timestamp::default()), Err(OpenError::Key(_))));
        let (store, _) = open(dir.path(), &sealing(&ring)).unwrap();
        put(&store, &key("a"), "{}").await;
        drop(store);
        // A write keeps the note of the key.
        assert!(matches!(DiskStore::open(dir.path(), Timestamp::default()), Err(OpenError::Key(_))));
        assert_eq!(listed(&open(dir.path(), &sealing(&ring)).unwrap().0).await.len(), 1);
    }
}

/// Cuts a byte off the data file, and repairs it without the key. Returns how many objects are left.
fn damaged_and_repaired(dir: &Path) -> usize {
    let path = dir.join("store.redb");
    let mut bytes = fs::read(&path).unwrap();
    bytes.pop();
    fs::write(&path, bytes).unwrap();
    let repaired = DiskStore::repair(dir, Timestamp::default(), |_| false, &Sealing::none()).unwrap();
    repaired.unwrap_err().kept
}

/// No value tells which key it is, and the next Secret must not be written in clear.
#[tokio::test]
async fn a_repaired_store_without_a_secret_is_still_encrypted() {
    let dir = private_tempdir();
    let ring = ring();
    let (store, _) = open(dir.path(), &sealing(&ring)).unwrap();
    for n in 0..50 {
        put(&store, &format!("/registry/configmaps/default/{n:02}"), &planted("a")).await;
    }
    drop(store);
    assert_eq!(damaged_and_repaired(dir.path()), 50);
    assert_eq!(DiskStore::check(dir.path(), &Sealing::none()).unwrap().sealed_with, Some(ring.newest()));
    assert!(matches!(DiskStore::open(dir.path(), Timestamp::default()), Err(OpenError::Key(_))));
    assert_eq!(listed(&open(dir.path(), &sealing(&ring)).unwrap().0).await.len(), 50);
}

/// Repair saves sealed values without their key, and the new file still needs it.
#[tokio::test]
async fn a_repaired_store_is_still_encrypted() {
    let dir = private_tempdir();
    let ring = ring();
    let (store, _) = open(dir.path(), &sealing(&ring)).unwrap();
    for n in 0..50 {
        put(&store, &key(&format!("{n:02}")), &planted("a")).await;
    }
    drop(store);
    assert_eq!(damaged_and_repaired(dir.path()), 50);
    assert!(matches!(DiskStore::open(dir.path(), Timestamp::default()), Err(OpenError::Key(_))));
    let (store, census) = open(dir.path(), &sealing(&ring)).unwrap();
    assert_eq!((census.newest, listed(&store).await.len()), (50, 50));
}

#[test]
fn words_about_keys_show_none_of_them() {
    let ring = ring();
    let (bits, shown) =
        (ring.keys().next().unwrap().bytes().to_vec(), format!("{ring:?} {:?}", sealing(&ring)));
    let hexadecimal: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(!shown.contains(&hexadecimal[..8]) && !shown.contains(&format!("{bits:?}")), "{shown}");
    let error = Error::NotSealed(CipherError::Random("none".to_owned()).to_string()).to_string();
    assert_eq!(
        error,
        "a value cannot be sealed: the operating system gives no random numbers: none. Nothing was written"
    );
}
