//! What encryption at rest costs: one write, and a list of all Secrets, with a key and without, in memory and in a file.
//!
//!   cargo bench --bench sealed                10,000 Secrets, best of 5 lists
//!   cargo bench --bench sealed -- 1000        another number
//!
//! Without `--bench` (as `cargo test` runs it) there are only a few.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a script for people")]

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use capstan_base::rng::Rng;
use capstan_base::time::Timestamp;
use capstan_store::{
    Coverage, DiskStore, Keyring, MemoryStore, Range, Sealed, Sealing, Store, Txn, Write, write_all,
};

/// What the program itself allocates with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FULL: usize = 10_000;
const TINY: usize = 20;
const LISTS: usize = 5;
const WRITES: usize = 200;
/// As long as a kubeconfig in base64.
const VALUE_BYTES: usize = 5_600;

const PREFIX: &str = "/registry/secrets/";
const SCOPE: Coverage = Coverage { prefixes: &[PREFIX], is_value: |_| true };

fn key(n: usize) -> capstan_store::Key {
    format!("{PREFIX}default/s{n:06}").into()
}

async fn measured(name: &str, store: &dyn Store, count: usize) {
    let rng = Rng::seeded(1);
    let values: Vec<Bytes> = (0..count).map(|_| rng.suffix(VALUE_BYTES).into()).collect();
    let all = values.iter().enumerate().map(|(n, value)| Write::Put(key(n), value.clone())).collect();
    write_all(store, all).await.expect("written");
    let mut best = Duration::MAX;
    for _ in 0..LISTS {
        let begun = Instant::now();
        let page = store.range(Range { prefix: PREFIX, ..Range::default() }).await.expect("a list");
        // A reader unpacks what it lists.
        let bytes: usize =
            page.entries.iter().map(|entry| entry.value.unpack().expect("a value").len()).sum();
        best = best.min(begun.elapsed());
        assert_eq!(bytes, count * VALUE_BYTES);
    }
    let begun = Instant::now();
    let writes = WRITES.min(count);
    for (n, value) in values.iter().enumerate().take(writes) {
        let txn = Txn { expect: Vec::new(), writes: vec![Write::Put(key(n), value.clone())] };
        store.txn(txn).await.expect("a write");
    }
    let write = begun.elapsed() / u32::try_from(writes).unwrap_or(u32::MAX).max(1);
    println!(
        "{name:<22} list {:>8.1} ms   write {:>8.1} µs",
        best.as_secs_f64() * 1e3,
        write.as_secs_f64() * 1e6
    );
}

fn sealed(store: impl Store) -> Sealed {
    let ring = Keyring::generate().expect("random numbers");
    Sealed::new(Arc::new(store), Sealing::new(SCOPE, Some(ring)))
}

fn main() {
    let is_full = std::env::args().any(|word| word == "--bench");
    let asked = std::env::args().find_map(|word| word.parse().ok());
    let count: usize = asked.unwrap_or(if is_full { FULL } else { TINY });
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let folder = || {
        let mode = std::fs::Permissions::from_mode(0o700);
        tempfile::Builder::new().permissions(mode).tempdir().expect("a folder")
    };
    println!("{count} Secrets of {VALUE_BYTES} bytes");
    runtime.block_on(async {
        measured("memory, in clear", &MemoryStore::new(), count).await;
        measured("memory, encrypted", &sealed(MemoryStore::new()), count).await;
        let (one, two) = (folder(), folder());
        let disk =
            |dir: &tempfile::TempDir| DiskStore::open(dir.path(), Timestamp::default()).expect("a store");
        measured("file, in clear", &disk(&one), count).await;
        measured("file, encrypted", &sealed(disk(&two)), count).await;
    });
}
