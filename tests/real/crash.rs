//! kill -9 under load, at random moments: no acknowledged write is lost, nothing is torn, revisions
//! only grow, and watches go on without a gap. A child process of this test binary writes and says
//! what was acknowledged; the parent kills it, opens the store and looks. `tests/attack/run
//! store-kills` does it for minutes.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use capstan_base::rng::Rng;
use capstan_base::time::Timestamp;
use capstan_store::{DiskStore, Error, Key, Outcome, Range, Revision, Store, Txn, Write};

/// Names the store's folder to a child.
const FOLDER: &str = "CAPSTAN_CRASH_FOLDER";
/// How many kills.
const KILLS: &str = "CAPSTAN_CRASH_KILLS";
const KILLS_DEFAULT: u64 = 200;
const WRITERS: u64 = 8;
/// Keys of one writer, written in turn.
const SLOTS: u64 = 16;
/// Longest time between a child's first acknowledged write and its end.
const LIFE_MAX_MS: u64 = 60;
/// Rounds on one store, before the next begins with an empty one.
const ROUNDS: u64 = 100;

fn open(dir: &Path) -> DiskStore {
    DiskStore::open(dir, Timestamp::default()).expect("the store opens after every crash")
}

fn number_key(writer: u64) -> Key {
    format!("/number/{writer}").into()
}

fn slot_key(writer: u64, slot: u64) -> Key {
    format!("/slot/{writer}/{slot}").into()
}

/// The value of turn `number`: as long as it is random, and made again to be compared.
fn payload(writer: u64, number: u64) -> String {
    let rng = Rng::seeded(writer * 1_000_000_007 + number);
    let length = usize::try_from(rng.below(6_000)).expect("small");
    format!("{number}:{}", rng.suffix(length))
}

/// What turn `number` writes, in one transaction: its number, one slot, and another one away.
fn turn(writer: u64, number: u64, last: Revision) -> Txn {
    let gone = (number + SLOTS / 2) % SLOTS;
    Txn {
        expect: vec![(number_key(writer), last)],
        writes: vec![
            Write::Put(number_key(writer), number.to_string().into()),
            Write::Put(slot_key(writer, number % SLOTS), payload(writer, number).into()),
            Write::Delete(slot_key(writer, gone)),
        ],
    }
}

/// What the slots of a writer hold after turn `number`.
fn slots_after(writer: u64, number: u64) -> BTreeMap<String, String> {
    let mut slots = BTreeMap::new();
    for turn in number.saturating_sub(SLOTS) + 1..=number {
        slots.insert(slot_key(writer, turn % SLOTS).to_string(), payload(writer, turn));
        slots.remove(&*slot_key(writer, (turn + SLOTS / 2) % SLOTS));
    }
    slots
}

async fn number_of(store: &DiskStore, writer: u64) -> (u64, Revision) {
    match store.get(&number_key(writer)).await.expect("a read") {
        None => (0, 0),
        Some(entry) => {
            let text = entry.value.unpack().expect("a whole value");
            let number = std::str::from_utf8(&text).expect("text").parse().expect("a number");
            (number, entry.modified)
        }
    }
}

/// The child: writes until it is killed, and says every acknowledged turn. Nothing to do when no
/// parent asked.
#[test]
fn the_child_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let store = open(Path::new(&folder));
    // Old history goes, in the commits that follow; the parent watches from here on.
    let compacted = runtime.block_on(async { store.compact(store.revision().await?).await });
    compacted.expect("a compaction");
    let writers: Vec<_> = (0..WRITERS).map(|writer| runtime.spawn(write(store.clone(), writer))).collect();
    for writer in writers {
        runtime.block_on(writer).expect("a writer");
    }
}

async fn write(store: DiskStore, writer: u64) {
    let (mut number, mut last) = number_of(&store, writer).await;
    loop {
        number += 1;
        match store.txn(turn(writer, number, last)).await {
            Ok(Outcome::Committed(revision)) => last = revision,
            other => panic!("writer {writer}, turn {number}: {other:?}"),
        }
        // One call, so that a line is whole or not there.
        let line = format!("\nack {writer} {number} {last}\n");
        std::io::stdout().write_all(line.as_bytes()).expect("somebody listens");
    }
}

/// One acknowledged turn.
#[derive(Clone, Copy, Debug)]
struct Ack {
    writer: u64,
    number: u64,
    revision: Revision,
}

impl Ack {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<u64> =
            line.strip_prefix("ack ")?.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [writer, number, revision] = words[..] else { return None };
        Some(Self { writer, number, revision })
    }
}

/// Starts a child, kills it at a random moment, and returns what it had acknowledged.
fn kill_one(folder: &Path, rng: &Rng) -> Vec<Ack> {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "crash::the_child_that_is_killed", "--nocapture", "--test-threads", "1"])
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let (heard, acks) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for ack in lines.map_while(Result::ok).filter_map(|line| Ack::read(&line)) {
            heard.send(ack).expect("the parent listens");
        }
    });
    let first = acks.recv_timeout(Duration::from_secs(60)).expect("the child writes");
    let until = Instant::now() + Duration::from_micros(rng.below(LIFE_MAX_MS * 1_000));
    let mut acked = vec![first];
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        match acks.recv_timeout(left) {
            Ok(ack) => acked.push(ack),
            Err(_) => break,
        }
    }
    child.kill().expect("kill -9");
    child.wait().expect("gone");
    reader.join().expect("the reader ends with the pipe");
    acked.extend(acks.try_iter());
    acked
}

/// What the parent knows of one store.
#[derive(Default)]
struct Known {
    numbers: BTreeMap<u64, u64>,
    /// The store's revision after the last look.
    revision: Revision,
}

impl Known {
    async fn look(&mut self, folder: &Path, acks: &[Ack]) {
        let before = self.revision;
        let newest = acks.iter().map(|ack| ack.revision).max().unwrap_or(0);
        assert!(acks.iter().all(|ack| ack.revision > before), "a revision was given twice");
        let store = open(folder);
        self.revision = store.revision().await.expect("a revision");
        assert!(self.revision >= newest.max(before), "revision {} after {newest}", self.revision);
        for ack in acks {
            let known = self.numbers.entry(ack.writer).or_default();
            assert_eq!(ack.number, *known + 1, "writer {} told every turn once", ack.writer);
            *known = ack.number;
        }
        for writer in 0..WRITERS {
            let (number, _) = number_of(&store, writer).await;
            let acked = self.numbers.get(&writer).copied().unwrap_or(0);
            assert!(number == acked || number == acked + 1, "writer {writer} is at {number}, told {acked}");
            self.numbers.insert(writer, number);
            let prefix = format!("/slot/{writer}/");
            let page = store.range(Range { prefix: &prefix, ..Range::default() }).await.expect("a list");
            let text = |bytes: bytes::Bytes| String::from_utf8(bytes.to_vec()).expect("text");
            let found = page
                .entries
                .iter()
                .map(|e| (e.key.to_string(), text(e.value.unpack().expect("a whole value"))));
            assert_eq!(
                found.collect::<BTreeMap<_, _>>(),
                slots_after(writer, number),
                "writer {writer} at {number}"
            );
        }
        told_again(&store, before, acks).await;
    }
}

/// A watch from before the crash has every acknowledged turn, or is refused.
async fn told_again(store: &DiskStore, before: Revision, acks: &[Ack]) {
    let mut watch = match store.watch("/number/", before).await {
        Ok(watch) => watch,
        Err(Error::Compacted { .. }) => return,
        Err(other) => panic!("{other}"),
    };
    let mut missing: std::collections::BTreeSet<Revision> = acks.iter().map(|ack| ack.revision).collect();
    let mut last = before;
    while !missing.is_empty() {
        for change in watch.next().await.expect("changes") {
            assert!(change.revision > last, "in order");
            last = change.revision;
            missing.remove(&last);
        }
    }
}

#[test]
fn s151_s152_kill_9_loses_nothing_that_was_acknowledged() {
    if std::env::var_os(FOLDER).is_some() {
        return;
    }
    let kills = std::env::var(KILLS).ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS_DEFAULT);
    let seed = std::env::var("CAPSTAN_CRASH_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let (rng, start) = (Rng::seeded(seed), Instant::now());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let mut writes = 0;
    let mut done = 0;
    while done < kills {
        let folder = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .tempdir()
            .expect("a folder");
        let path: PathBuf = folder.path().join("data");
        let mut known = Known::default();
        for _ in 0..ROUNDS.min(kills - done) {
            let acks = kill_one(&path, &rng);
            writes += acks.len();
            runtime.block_on(known.look(&path, &acks));
            done += 1;
        }
    }
    println!("{kills} kills, {writes} acknowledged writes, none lost, {:.0?}", start.elapsed());
}
