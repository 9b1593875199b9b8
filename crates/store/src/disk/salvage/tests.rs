//! Damaged files against a model: what a store held, and which of its objects' bytes the damage left
//! alone. Every one of those comes back as it was; nothing that was deleted or replaced does, unless
//! it is named as uncertain. `CAPSTAN_ATTACK_DAMAGE` says how many files, `CAPSTAN_ATTACK_SEED` which.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use bytes::Bytes;

use super::directory::{Directory, OPEN_SHAPE, slots};
use super::node::Node;
use super::pages::{Extent, Pages, Pointer};
use super::tree::Walker;
use super::{Salvage, Scrub, salvage};
use crate::data_dir::private_tempdir;
use crate::{DiskStore, Outcome, Revision, Store as _, Txn, Write};
use capstan_base::rng::Rng;
use capstan_base::time::Timestamp;

const FILES_DEFAULT: u64 = 60;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// A data file and what it holds.
struct Original {
    bytes: Vec<u8>,
    model: BTreeMap<String, (Revision, Bytes)>,
    /// Where the newest commit has the key and the record of each object, and the offsets of its page.
    places: BTreeMap<String, Vec<Range<usize>>>,
}

fn text(rng: &Rng, max: u64) -> String {
    let length = usize::try_from(1 + rng.below(max)).unwrap();
    format!("{{\"n\":\"{}\"}}", rng.suffix(length))
}

/// Writes, replaces and deletes, with several keys at once now and then, and with values of all sizes.
async fn work(store: &DiskStore, rng: &Rng, turns: u64, model: &mut BTreeMap<String, (Revision, Bytes)>) {
    for turn in 0..turns {
        let mut writes = BTreeMap::new();
        for _ in 0..=(if rng.below(5) == 0 { rng.below(12) } else { 0 }) {
            let key = format!("/registry/kind-{}/default/{:04}", rng.below(4), rng.below(400));
            let max = if rng.below(40) == 0 { 30_000 } else { 1_500 };
            let value = (rng.below(5) > 0).then(|| Bytes::from(text(rng, max)));
            writes.insert(key, value);
        }
        let put = |(key, value): (&String, &Option<Bytes>)| match value {
            Some(value) => Write::Put(key.as_str().into(), value.clone()),
            None => Write::Delete(key.as_str().into()),
        };
        let txn = Txn { expect: Vec::new(), writes: writes.iter().map(put).collect() };
        let Outcome::Committed(revision) = store.txn(txn).await.unwrap() else { panic!("refused") };
        for (key, value) in writes {
            match value {
                Some(value) => model.insert(key, (revision, value)),
                None => model.remove(&key),
            };
        }
        if turn % 50 == 49 {
            store.compact(revision.saturating_sub(40)).await.unwrap();
        }
    }
}

/// A file as a clean end leaves it, or as a kill does.
fn original(seed: u64, turns: u64) -> Original {
    let rng = Rng::seeded(seed);
    let folder = private_tempdir();
    let path = folder.path().join("store.redb");
    let mut model = BTreeMap::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = DiskStore::open(folder.path(), Timestamp::default()).unwrap();
    runtime.block_on(work(&store, &rng, turns, &mut model));
    let killed = std::fs::read(&path).unwrap();
    drop(store);
    let bytes = if rng.below(2) == 0 { killed } else { std::fs::read(&path).unwrap() };
    std::fs::write(&path, &bytes).unwrap();
    let places = places(&path);
    assert_eq!(places.keys().collect::<Vec<_>>(), model.keys().collect::<Vec<_>>());
    Original { bytes, model, places }
}

fn places(path: &Path) -> BTreeMap<String, Vec<Range<usize>>> {
    let pages = Pages::open(path).unwrap();
    let mut walker = Walker::new(&pages);
    let newest = slots(&pages)[0];
    let root = Directory::of_slot(&mut walker, newest).unwrap().objects.unwrap().root;
    let mut found = BTreeMap::new();
    places_below(&pages, root, &mut found);
    found
}

fn places_below(pages: &Pages, pointer: Pointer, found: &mut BTreeMap<String, Vec<Range<usize>>>) {
    let place = pointer.place().unwrap();
    let bytes = pages.read(place);
    let node = Node::new(&bytes, OPEN_SHAPE);
    assert_eq!(node.checksum(), Some(pointer.checksum), "a page of the undamaged file");
    let start = usize::try_from(place.offset).unwrap();
    let within = |range: Range<usize>| start + range.start..start + range.end;
    if node.is_branch() {
        (0..=node.count).for_each(|n| places_below(pages, node.child(n).unwrap(), found));
        return;
    }
    for pair in (0..node.count).map(|n| node.pair(n).unwrap()) {
        let key = String::from_utf8(node.key(&pair).to_vec()).unwrap();
        found.insert(key, vec![within(pair.key), within(pair.value), within(0..node.keys_start())]);
    }
}

/// One way to harm a file.
#[derive(Clone, Debug)]
enum Damage {
    Bits(Vec<usize>),
    Garbage { at: usize, bytes: Vec<u8> },
    Zeros(usize),
    Cut(usize),
    Misdirected { from: usize, to: usize },
    Appended(Vec<u8>),
}

const PAGE: usize = 4096;

impl Damage {
    const KINDS: u64 = 11;

    fn random(kind: u64, rng: &Rng, original: &Original) -> Self {
        let size = original.bytes.len();
        let below = |bound: usize| usize::try_from(rng.below(bound as u64)).unwrap();
        let used = |rng: &Rng| {
            let places: Vec<_> = original.places.values().flatten().collect();
            let place = places[usize::try_from(rng.below(places.len() as u64)).unwrap()];
            place.start + usize::try_from(rng.below(place.len() as u64)).unwrap()
        };
        let garbage = |at: usize, length: usize| Self::Garbage {
            at: at.min(size - length),
            bytes: (0..length).map(|_| u8::try_from(rng.below(256)).unwrap()).collect(),
        };
        match kind {
            0 => Self::Bits(vec![below(320 * 8)]),
            1 => Self::Bits(vec![below(size * 8)]),
            2 => Self::Bits(vec![used(rng) * 8 + below(8)]),
            3 => garbage(below(size), 20),
            4 => garbage(used(rng), 20),
            5 => garbage(used(rng) / PAGE * PAGE + below(200), 20),
            6 => Self::Zeros(below(size / PAGE) * PAGE),
            7 => Self::Zeros(used(rng) / PAGE * PAGE),
            8 => Self::Cut(if rng.below(3) == 0 { size - 1 - below(PAGE) } else { below(size) }),
            9 => Self::Misdirected { from: below(size / PAGE), to: used(rng) / PAGE },
            _ => Self::Appended(vec![u8::try_from(rng.below(256)).unwrap(); 1 + below(3 * PAGE)]),
        }
    }

    fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        let mut damaged = bytes.to_vec();
        match self {
            Self::Bits(bits) => bits.iter().for_each(|bit| damaged[bit / 8] ^= 1 << (bit % 8)),
            Self::Garbage { at, bytes } => damaged[*at..at + bytes.len()].copy_from_slice(bytes),
            Self::Zeros(start) => damaged[*start..start + PAGE].fill(0),
            Self::Cut(size) => damaged.truncate(*size),
            Self::Misdirected { from, to } => {
                let page = bytes[from * PAGE..(from + 1) * PAGE].to_vec();
                damaged[to * PAGE..(to + 1) * PAGE].copy_from_slice(&page);
            }
            Self::Appended(more) => damaged.extend(more),
        }
        damaged
    }
}

/// What came of one repair, counted.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    files: u64,
    objects: usize,
    intact: usize,
    saved: usize,
    /// Intact, and not brought back.
    missing: usize,
    /// Of those: the offsets that say where they lie are intact too.
    missing_in_place: usize,
    /// Brought back though deleted, or as they once were, and not named as uncertain.
    resurrected: usize,
    /// Not what was ever written under the key, or a wrong revision.
    different: usize,
    /// The same, among those named as uncertain or behind a commit that is known to be lost.
    uncertain_wrong: usize,
    uncertain: usize,
    lost: usize,
    /// Intact ones among `lost`.
    falsely_lost: usize,
}

impl Tally {
    fn of(original: &Original, damaged: &[u8], found: &Salvage) -> Self {
        let is_intact = |key: &str| {
            original.places[key]
                .iter()
                .all(|range| damaged.get(range.clone()) == original.bytes.get(range.clone()))
        };
        let intact: Vec<&String> = original.model.keys().filter(|key| is_intact(key)).collect();
        let mut tally = Self {
            files: 1,
            objects: original.model.len(),
            intact: intact.len(),
            uncertain: found.uncertain.len(),
            lost: found.lost.len(),
            falsely_lost: found
                .lost
                .iter()
                .filter(|key| intact.iter().any(|there| **there == ***key))
                .count(),
            ..Self::default()
        };
        for entry in found.objects.iter() {
            let is_named = found.is_newest_commit_lost || found.uncertain.contains(&entry.key);
            let value = entry.value.unpack().unwrap_or_default();
            match original.model.get(&*entry.key) {
                Some((revision, expected)) if (*revision, expected) == (entry.modified, &value) => {
                    tally.saved += 1;
                }
                _ if is_named => tally.uncertain_wrong += 1,
                Some((revision, _)) if *revision == entry.modified => tally.different += 1,
                _ => tally.resurrected += 1,
            }
        }
        let is_back = |key: &&&String| {
            let there = found.objects.get(key);
            there.is_some_and(|entry| entry.modified == original.model[**key].0)
        };
        let has_offsets = |key: &&&String| {
            let table = original.places[**key][2].clone();
            damaged.get(table.clone()) == original.bytes.get(table)
        };
        tally.missing = intact.iter().filter(|key| !is_back(key)).count();
        tally.missing_in_place = intact.iter().filter(|key| !is_back(key) && has_offsets(key)).count();
        tally
    }

    fn add(&mut self, other: Self) {
        self.files += other.files;
        self.objects += other.objects;
        self.intact += other.intact;
        self.saved += other.saved;
        self.missing += other.missing;
        self.missing_in_place += other.missing_in_place;
        self.resurrected += other.resurrected;
        self.different += other.different;
        self.uncertain_wrong += other.uncertain_wrong;
        self.uncertain += other.uncertain;
        self.lost += other.lost;
        self.falsely_lost += other.falsely_lost;
    }

    fn is_clean(&self) -> bool {
        (self.missing_in_place, self.resurrected, self.different, self.falsely_lost) == (0, 0, 0, 0)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} files, {} objects, {} intact, {} saved: lost though intact {}, resurrected {}, different {}, said \
             lost though intact {}; uncertain {} (wrong {}), named lost {}",
            self.files,
            self.objects,
            self.intact,
            self.saved,
            self.missing,
            self.resurrected,
            self.different,
            self.falsely_lost,
            self.uncertain,
            self.uncertain_wrong,
            self.lost
        )
    }
}

fn repair(original: &Original, damage: &Damage) -> Tally {
    let folder = private_tempdir();
    let path = folder.path().join("store.redb");
    let damaged = damage.apply(&original.bytes);
    std::fs::write(&path, &damaged).unwrap();
    let found = salvage(&path, |value| value.starts_with(b"{")).unwrap();
    assert!(std::fs::read(&path).unwrap() == damaged, "the damaged file is only read");
    Tally::of(original, &damaged, &found)
}

#[test]
fn every_object_whose_bytes_are_intact_comes_back() {
    let files = number("CAPSTAN_ATTACK_DAMAGE", FILES_DEFAULT);
    let seed = number("CAPSTAN_ATTACK_SEED", 1);
    let rng = Rng::seeded(seed);
    let originals: Vec<Original> =
        (0..2 + files.min(1_000) / 100).map(|n| original(seed * 1_000 + n, 40 + 160 * n.min(8))).collect();
    let mut tallies: BTreeMap<u64, Tally> = BTreeMap::new();
    let mut failures = Vec::new();
    for file in 0..files {
        let kind = file % Damage::KINDS;
        let original = &originals[usize::try_from(rng.below(originals.len() as u64)).unwrap()];
        let damage = Damage::random(kind, &rng, original);
        let tally = repair(original, &damage);
        if !tally.is_clean() {
            let said = format!("{damage:?}");
            failures.push(format!("file {file}, {}: {tally}", &said[..said.len().min(120)]));
        }
        tallies.entry(kind).or_default().add(tally);
    }
    let mut all = Tally::default();
    for (kind, tally) in &tallies {
        println!("kind {kind}: {tally}");
        all.add(*tally);
    }
    println!("all: {all}");
    assert!(failures.is_empty(), "seed {seed}: {} failures\n{}", failures.len(), failures.join("\n"));
    // Rubbish over the offsets of a leaf can hide what is intact behind them, if rarely.
    assert!(all.saved > 0 && all.intact < all.objects && all.missing * 5_000 <= all.intact, "{all}");
}

/// Every object whose page the bytes did not split comes back as it was, and the others are named or counted.
#[test]
fn bytes_that_slipped_into_a_file_put_nothing_out_of_reach() {
    let rng = Rng::seeded(11);
    let original = original(12, 300);
    let folder = private_tempdir();
    let path = folder.path().join("store.redb");
    for length in [1, 17, 512, PAGE - 1, PAGE, PAGE + 512, 3 * PAGE] {
        for _ in 0..4 {
            let at = usize::try_from(rng.below(original.bytes.len() as u64)).unwrap();
            let slipped: Vec<u8> = (0..length).map(|_| u8::try_from(rng.below(256)).unwrap()).collect();
            let damaged = [&original.bytes[..at], &slipped, &original.bytes[at..]].concat();
            std::fs::write(&path, &damaged).unwrap();
            let found = salvage(&path, |value| value.starts_with(b"{")).unwrap();
            // From the beginning of its page to its end: what lies behind the bytes is not where the page says.
            let is_split = |key: &str| {
                let parts = &original.places[key];
                let ends = parts.iter().map(|part| part.end).max();
                parts[2].start < at && ends.is_some_and(|end| at < end)
            };
            for (key, (revision, value)) in original.model.iter().filter(|(key, _)| !is_split(key)) {
                let there = found.objects.get(key);
                let is_back = there.is_some_and(|there| {
                    there.modified == *revision && there.value.unpack().is_ok_and(|is| is == *value)
                });
                assert!(is_back, "{length} bytes at {at}: {key}");
            }
            let (saved, named) =
                (found.objects.iter().count(), found.lost.len() + found.lost_or_deleted.len());
            let counted = found.unknown.map(|unknown| usize::try_from(unknown).unwrap() + saved + named);
            assert!(counted.is_none_or(|counted| counted >= original.model.len()), "{length} at {at}");
        }
    }
}

fn bite_until_found(scrub: &mut Scrub, bites: usize) -> Option<super::scrub::Rotten> {
    (0..bites).find_map(|_| scrub.bite().unwrap())
}

#[test]
fn a_scrub_finds_a_damaged_page_while_the_store_is_open() {
    let rng = Rng::seeded(5);
    let folder = private_tempdir();
    let path = folder.path().join("store.redb");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = DiskStore::open(folder.path(), Timestamp::default()).unwrap();
    runtime.block_on(work(&store, &rng, 200, &mut BTreeMap::new()));
    let mut scrub = Scrub::new(&path);
    assert_eq!(bite_until_found(&mut scrub, 60), None);

    let places: Vec<_> = places(&path).into_values().flatten().collect();
    let at = places[places.len() / 2].start as u64;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x55], at).unwrap();
    let rotten = bite_until_found(&mut scrub, 60).expect("found within a round");
    assert!((rotten.offset..rotten.offset + rotten.bytes).contains(&at), "{rotten:?} for {at}");
}

/// Pages are used again while they are compared: that is not damage.
#[test]
fn a_scrub_says_nothing_while_commits_move_pages() {
    let folder = private_tempdir();
    let path = folder.path().join("store.redb");
    let store = DiskStore::open(folder.path(), Timestamp::default()).unwrap();
    let writer = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(work(&store, &Rng::seeded(6), 300, &mut BTreeMap::new()));
    });
    let mut scrub = Scrub::new(&path);
    let mut bites = 0;
    while !writer.is_finished() {
        assert_eq!(scrub.bite().unwrap(), None);
        bites += 1;
    }
    writer.join().unwrap();
    assert!(bites > 0);
}

/// A file of which only rubbish is left has nothing to bring back, and reading it ends.
#[test]
fn rubbish_is_read_to_its_end() {
    let rng = Rng::seeded(7);
    let folder = private_tempdir();
    let path = folder.path().join("store.redb");
    let original = original(8, 30);
    for round in 0..20_u64 {
        let mut bytes = original.bytes.clone();
        for byte in bytes.iter_mut().filter(|_| rng.below(20) < round) {
            *byte = u8::try_from(rng.below(256)).unwrap();
        }
        std::fs::write(&path, &bytes).unwrap();
        let found = salvage(&path, |_| true).unwrap();
        assert!(
            found.objects.iter().all(|entry| round == 0 || original.model.contains_key(&*entry.key)),
            "{round}"
        );
    }
    for bytes in [Vec::new(), vec![1; 50_000], vec![2; 50_000], vec![0xff; 50_000]] {
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(salvage(&path, |_| true).unwrap().objects.iter().count(), 0);
    }
}

#[test]
fn a_file_whose_head_is_gone_is_brought_back_whole() {
    let folder = private_tempdir();
    let path = folder.path().join("store.redb");
    let original = original(9, 120);
    let bytes = [vec![0; PAGE], original.bytes[PAGE..].to_vec()].concat();
    std::fs::write(&path, &bytes).unwrap();
    let tally = Tally::of(&original, &bytes, &salvage(&path, |_| false).unwrap());
    assert!(tally.is_clean() && tally.saved == original.model.len() && tally.uncertain == 0, "{tally}");
}

/// A server's file grows while it is compared.
#[test]
fn a_page_behind_the_end_of_when_the_file_was_opened_is_read() {
    let folder = private_tempdir();
    let path = folder.path().join("store.redb");
    std::fs::write(&path, [1; 8192]).unwrap();
    let pages = Pages::open_uncached(&path).unwrap();
    std::fs::write(&path, [1; 12288]).unwrap();
    assert_eq!(pages.read(Extent { offset: 8192, bytes: 4096 }), [1; 4096]);
}
