//! A disk in memory that fails as scripted: errors at any call, short and torn writes, syncs that
//! fail or lie, no room, power that goes. Owns what survives; must not know what is written.
//!
//! A file is what the kernel shows (`cached`), what is on the disk (`stored`), and the changes between
//! them in order. A sync stores all of them. When power goes, any of them are stored, sector by
//! sector, or all up to some moment. When a sync fails some are stored and the rest are forgotten (the
//! kernel goes on to show them) or stay to be written. Names are kept in a journal: they reach the
//! disk in order, and what a sync did not store stays to be stored.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::StorageBackend;

use crate::disk::folder::Folder;
use capstan_base::rng::Rng;

/// What a store asks of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Read,
    Write,
    Resize,
    Sync,
    Open,
    Create,
    Rename,
    SyncFolder,
}

/// What happens instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// An error, and nothing else.
    Error,
    /// An error after a part was done, or after all was.
    Torn,
    /// A part is done, then there is no room.
    NoRoom,
    /// A part is done, then power goes: every further call fails until [`SimDisk::power_on`].
    PowerOff,
    /// A part is done, then the process is gone; the kernel keeps what it has.
    Killed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    /// `None`: any call.
    pub(super) call: Option<Call>,
    /// After so many calls of the kind.
    pub(super) after: u32,
    pub(super) effect: Effect,
}

type Inode = u64;
type Names = BTreeMap<&'static str, Inode>;

const CURRENT: &str = "store.redb";
const FRESH: &str = "store.redb.new";

enum Pending {
    Sector(usize, Vec<u8>),
    Length(usize),
}

#[derive(Default)]
struct SimFile {
    cached: Vec<u8>,
    stored: Vec<u8>,
    pending: Vec<Pending>,
    /// Sectors that take room.
    used: BTreeSet<usize>,
    /// The process that saw a sync of it fail.
    distrusted_by: Option<u64>,
}

/// `Vec::resize` goes byte by byte when it is not optimised.
fn resize(bytes: &mut Vec<u8>, length: usize) {
    if length <= bytes.len() {
        bytes.truncate(length);
    } else {
        let mut longer = vec![0; length];
        longer[..bytes.len()].copy_from_slice(bytes);
        *bytes = longer;
    }
}

impl SimFile {
    /// The change reaches the disk.
    fn store(&mut self, change: Pending, sector: usize) {
        match change {
            Pending::Length(length) => resize(&mut self.stored, length),
            Pending::Sector(at, bytes) => {
                let (start, end) = (at * sector, (at * sector + bytes.len()).min(self.stored.len()));
                if start < end {
                    self.stored[start..end].copy_from_slice(&bytes[..end - start]);
                }
            }
        }
    }

    fn store_all(&mut self, sector: usize) {
        for change in std::mem::take(&mut self.pending) {
            self.store(change, sector);
        }
    }

    /// Some of the changes reach the disk: those up to some moment, or any of them.
    fn store_some(&mut self, sector: usize, rng: &Rng) {
        let changes = std::mem::take(&mut self.pending);
        let upto = if rng.below(3) == 0 { rng.below(changes.len() as u64 + 1) } else { u64::MAX };
        for (at, change) in changes.into_iter().enumerate() {
            let kept = if upto == u64::MAX { rng.below(2) == 0 } else { (at as u64) < upto };
            if kept {
                self.store(change, sector);
            }
        }
    }
}

struct Inner {
    rng: Rng,
    sector: usize,
    /// Syncs succeed without an effect.
    lies: bool,
    /// Every process that used the disk has its own number; calls of earlier ones fail.
    boot: u64,
    powered: bool,
    /// The process that uses the disk is gone.
    killed: bool,
    /// Sectors that all files may take.
    room: usize,
    faults: Vec<Fault>,
    calls: u64,
    files: BTreeMap<Inode, SimFile>,
    names: Names,
    stored_names: Names,
    pending_names: Vec<Names>,
    inodes: Inode,
    /// What a process did first with a file of which it saw a sync fail.
    misused: Option<Call>,
}

#[derive(Clone)]
pub(super) struct SimDisk(Arc<Mutex<Inner>>);

fn io_error(kind: ErrorKind) -> io::Error {
    let words = if kind == ErrorKind::StorageFull { "no space left" } else { "input/output error" };
    io::Error::new(kind, format!("simulated: {words}"))
}

/// How a call goes on.
enum CallOutcome {
    Do,
    /// Do a part, then fail.
    Part(ErrorKind),
}

impl Inner {
    /// Whether the process that calls has no disk any more.
    fn is_dead(&self, boot: u64) -> bool {
        !self.powered || self.killed || boot != self.boot
    }

    /// Notes that a process goes on with a file after a sync of it failed.
    fn check_trust(&mut self, inode: Inode, call: Call) {
        if self.files.get(&inode).is_some_and(|file| file.distrusted_by == Some(self.boot)) {
            self.misused.get_or_insert(call);
        }
    }

    /// Counts the call and finds out whether it fails.
    fn outcome(&mut self, boot: u64, call: Call) -> io::Result<CallOutcome> {
        if self.is_dead(boot) {
            return Err(io_error(ErrorKind::Other));
        }
        self.calls += 1;
        let due = |fault: &mut Fault| {
            let counts = fault.call.is_none_or(|kind| kind == call);
            let due = counts && fault.after == 0;
            fault.after -= u32::from(counts && !due);
            due
        };
        let mut effect = None;
        self.faults.retain_mut(|fault| {
            let now = effect.is_none() && due(fault);
            if now {
                effect = Some(fault.effect);
            }
            !now
        });
        match effect {
            None => Ok(CallOutcome::Do),
            Some(Effect::Error) => Err(io_error(ErrorKind::Other)),
            Some(Effect::Torn) => Ok(CallOutcome::Part(ErrorKind::Other)),
            Some(Effect::NoRoom) => Ok(CallOutcome::Part(ErrorKind::StorageFull)),
            Some(effect) => {
                self.powered = effect != Effect::PowerOff;
                self.killed = effect == Effect::Killed;
                Ok(CallOutcome::Part(ErrorKind::Other))
            }
        }
    }

    fn used(&self) -> usize {
        self.files.values().map(|file| file.used.len()).sum()
    }

    fn write(&mut self, inode: Inode, offset: usize, data: &[u8], outcome: CallOutcome) -> io::Result<()> {
        let (sector, free) = (self.sector, self.room.saturating_sub(self.used()));
        let last = (offset + data.len()).div_ceil(sector);
        let (mut result, mut parts) = (Ok(()), (offset / sector..last).collect::<Vec<_>>());
        if let CallOutcome::Part(kind) = outcome {
            // A short write leaves the first sectors, a torn one any of them.
            let torn = self.rng.below(2) == 0;
            let upto = parts.len() - usize::try_from(self.rng.below(parts.len() as u64 + 1)).unwrap();
            parts.truncate(if torn { parts.len() } else { upto });
            parts.retain(|_| !torn || self.rng.below(2) == 0);
            result = Err(io_error(kind));
        }
        let Some(file) = self.files.get_mut(&inode) else { return Err(io_error(ErrorKind::Other)) };
        let fresh = parts.iter().filter(|part| !file.used.contains(part)).count();
        if fresh > free {
            let mut left = free;
            let fits =
                |part: &usize| file.used.contains(part) || left.checked_sub(1).map(|l| left = l).is_some();
            parts = parts.iter().copied().take_while(fits).collect();
            result = Err(io_error(ErrorKind::StorageFull));
        }
        for part in parts {
            let (from, to) = ((part * sector).max(offset), ((part + 1) * sector).min(offset + data.len()));
            if file.cached.len() < to {
                resize(&mut file.cached, to);
                file.pending.push(Pending::Length(to));
            }
            file.cached[from..to].copy_from_slice(&data[from - offset..to - offset]);
            let end = ((part + 1) * sector).min(file.cached.len());
            file.pending.push(Pending::Sector(part, file.cached[part * sector..end].to_vec()));
            file.used.insert(part);
        }
        result
    }

    fn sync(&mut self, inode: Inode, outcome: io::Result<CallOutcome>) -> io::Result<()> {
        let (sector, lies, forgets) = (self.sector, self.lies, self.rng.below(4) > 0);
        let Some(file) = self.files.get_mut(&inode) else { return Err(io_error(ErrorKind::Other)) };
        match outcome {
            Ok(CallOutcome::Do) if lies => return Ok(()),
            Ok(CallOutcome::Do) => file.store_all(sector),
            // Nothing failed: power went, or the process did. What is stored comes out later.
            _ if !self.powered || self.killed => {}
            _ if forgets => file.store_some(sector, &self.rng),
            _ => {}
        }
        if !matches!(outcome, Ok(CallOutcome::Do)) {
            file.distrusted_by = Some(self.boot);
        }
        match outcome {
            Ok(CallOutcome::Do) => Ok(()),
            Ok(CallOutcome::Part(kind)) => Err(io_error(kind)),
            Err(error) => Err(error),
        }
    }

    fn sync_names(&mut self, outcome: io::Result<CallOutcome>) -> io::Result<()> {
        match outcome {
            Ok(CallOutcome::Do) if self.lies => Ok(()),
            Ok(CallOutcome::Do) => {
                self.stored_names =
                    self.pending_names.pop().unwrap_or(std::mem::take(&mut self.stored_names));
                self.pending_names.clear();
                Ok(())
            }
            failed => {
                if self.powered && !self.killed {
                    let upto = usize::try_from(self.rng.below(self.pending_names.len() as u64 + 1)).unwrap();
                    if let Some(names) = self.pending_names.drain(..upto).next_back() {
                        self.stored_names = names;
                    }
                }
                failed.and_then(|_| Err(io_error(ErrorKind::Other)))
            }
        }
    }

    fn store_some_names(&mut self) {
        let upto = usize::try_from(self.rng.below(self.pending_names.len() as u64 + 1)).unwrap();
        if let Some(names) = upto.checked_sub(1).and_then(|last| self.pending_names.get(last)) {
            self.stored_names = names.clone();
        }
        self.pending_names.clear();
    }

    fn rename(&mut self, change: impl FnOnce(&mut Names)) {
        change(&mut self.names);
        self.pending_names.push(self.names.clone());
        // A file without a name takes no room, but may get its name back when power goes.
        let named: BTreeSet<Inode> = self.names.values().copied().collect();
        for (inode, file) in &mut self.files {
            if !named.contains(inode) {
                file.used.clear();
            }
        }
    }
}

impl SimDisk {
    pub(super) fn new(seed: u64, sector: usize, lies: bool) -> Self {
        let inner = Inner {
            rng: Rng::seeded(seed),
            sector,
            lies,
            boot: 0,
            powered: true,
            killed: false,
            room: usize::MAX,
            faults: Vec::new(),
            calls: 0,
            files: BTreeMap::new(),
            names: Names::new(),
            stored_names: Names::new(),
            pending_names: Vec::new(),
            inodes: 0,
            misused: None,
        };
        Self(Arc::new(Mutex::new(inner)))
    }

    pub(super) fn add(&self, fault: Fault) {
        self.0.lock().faults.push(fault);
    }

    /// No further fault, and room for everything.
    pub(super) fn mend(&self) {
        let mut inner = self.0.lock();
        inner.faults.clear();
        inner.room = usize::MAX;
    }

    /// Leaves room for so many more sectors.
    pub(super) fn fill(&self, sectors: usize) {
        let mut inner = self.0.lock();
        inner.room = inner.used() + sectors;
    }

    /// Does what has to be done before anybody can use the disk again after a fault.
    pub(super) fn revive(&self) -> bool {
        let state = {
            let inner = self.0.lock();
            (inner.powered, inner.killed)
        };
        match state {
            (false, _) => self.power_cycle(),
            (true, true) => self.kill(),
            (true, false) => return false,
        }
        true
    }

    /// What was done to a file by the process that saw a sync of it fail.
    pub(super) fn misused(&self) -> Option<Call> {
        self.0.lock().misused
    }

    pub(super) fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// Ends the process that uses the disk: its calls fail from now on. The kernel keeps what it has.
    pub(super) fn kill(&self) {
        let mut inner = self.0.lock();
        inner.boot += 1;
        inner.killed = false;
    }

    /// Power went and came back.
    pub(super) fn power_cycle(&self) {
        let mut inner = self.0.lock();
        let inner = &mut *inner;
        inner.boot += 1;
        inner.powered = true;
        inner.killed = false;
        inner.store_some_names();
        inner.names = inner.stored_names.clone();
        let named: BTreeSet<Inode> = inner.names.values().copied().collect();
        inner.files.retain(|inode, _| named.contains(inode));
        for file in inner.files.values_mut() {
            file.store_some(inner.sector, &inner.rng);
            file.cached = file.stored.clone();
            file.used = (0..file.stored.len().div_ceil(inner.sector)).collect();
        }
    }

    pub(super) fn folder(&self) -> Box<dyn Folder> {
        Box::new(SimFolder { disk: self.clone(), boot: self.0.lock().boot })
    }
}

/// The disk as one process sees it.
struct SimFolder {
    disk: SimDisk,
    boot: u64,
}

impl SimFolder {
    fn backend(&self, inode: Inode) -> Box<dyn StorageBackend> {
        Box::new(SimBackend { disk: self.disk.clone(), boot: self.boot, inode })
    }
}

impl Folder for SimFolder {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        let mut inner = self.disk.0.lock();
        if let CallOutcome::Part(kind) = inner.outcome(self.boot, Call::Open)? {
            return Err(io_error(kind));
        }
        let inode = *inner.names.get(CURRENT).ok_or_else(|| io_error(ErrorKind::NotFound))?;
        inner.check_trust(inode, Call::Open);
        let outcome = inner.outcome(self.boot, Call::Sync);
        inner.sync(inode, outcome).map_err(io::Error::other)?;
        let lies = inner.lies;
        if let Some(file) = inner.files.get_mut(&inode)
            && !lies
            && file.pending.is_empty()
        {
            file.cached.clone_from(&file.stored);
        }
        Ok(self.backend(inode))
    }

    fn create(&self) -> io::Result<Box<dyn StorageBackend>> {
        let mut inner = self.disk.0.lock();
        let outcome = inner.outcome(self.boot, Call::Create)?;
        inner.inodes += 1;
        let inode = inner.inodes;
        inner.files.insert(inode, SimFile::default());
        inner.rename(|names| {
            names.insert(FRESH, inode);
        });
        match outcome {
            CallOutcome::Do => Ok(self.backend(inode)),
            CallOutcome::Part(kind) => Err(io_error(kind)),
        }
    }

    fn replace(&self) -> io::Result<()> {
        let mut inner = self.disk.0.lock();
        let outcome = inner.outcome(self.boot, Call::Rename)?;
        inner.rename(|names| {
            if let Some(inode) = names.remove(FRESH) {
                names.insert(CURRENT, inode);
            }
        });
        match outcome {
            CallOutcome::Do => Ok(()),
            CallOutcome::Part(kind) => Err(io_error(kind)),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.disk.0.lock();
        let outcome = inner.outcome(self.boot, Call::SyncFolder);
        inner.sync_names(outcome)
    }

    fn discard(&self) {
        let mut inner = self.disk.0.lock();
        if !inner.is_dead(self.boot) && inner.names.contains_key(FRESH) {
            inner.rename(|names| {
                names.remove(FRESH);
            });
        }
    }

    fn bytes(&self) -> io::Result<Option<u64>> {
        let inner = self.disk.0.lock();
        if inner.is_dead(self.boot) {
            return Err(io_error(ErrorKind::Other));
        }
        Ok(inner.names.get(CURRENT).map(|inode| inner.files[inode].cached.len() as u64))
    }

    fn path(&self) -> &Path {
        Path::new("/simulated/store.redb")
    }
}

struct SimBackend {
    disk: SimDisk,
    boot: u64,
    inode: Inode,
}

impl std::fmt::Debug for SimBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimBackend({})", self.inode)
    }
}

impl StorageBackend for SimBackend {
    fn len(&self) -> io::Result<u64> {
        let inner = self.disk.0.lock();
        inner
            .files
            .get(&self.inode)
            .map(|file| file.cached.len() as u64)
            .ok_or_else(|| io_error(ErrorKind::Other))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut inner = self.disk.0.lock();
        if let CallOutcome::Part(kind) = inner.outcome(self.boot, Call::Read)? {
            return Err(io_error(kind));
        }
        let start = usize::try_from(offset).unwrap();
        let file = inner.files.get(&self.inode).ok_or_else(|| io_error(ErrorKind::Other))?;
        let found = file
            .cached
            .get(start..start + out.len())
            .ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof))?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut inner = self.disk.0.lock();
        let outcome = inner.outcome(self.boot, Call::Resize)?;
        let sector = inner.sector;
        let length = usize::try_from(len).unwrap();
        let done = matches!(outcome, CallOutcome::Do) || inner.rng.below(2) == 0;
        let file = inner.files.get_mut(&self.inode).ok_or_else(|| io_error(ErrorKind::Other))?;
        if done {
            resize(&mut file.cached, length);
            file.pending.push(Pending::Length(length));
            file.used.retain(|part| part * sector < length);
        }
        match outcome {
            CallOutcome::Do => Ok(()),
            CallOutcome::Part(kind) => Err(io_error(kind)),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut inner = self.disk.0.lock();
        if inner.is_dead(self.boot) {
            return Err(io_error(ErrorKind::Other));
        }
        inner.check_trust(self.inode, Call::Sync);
        let outcome = inner.outcome(self.boot, Call::Sync);
        inner.sync(self.inode, outcome)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.disk.0.lock();
        let outcome = inner.outcome(self.boot, Call::Write)?;
        inner.check_trust(self.inode, Call::Write);
        inner.write(self.inode, usize::try_from(offset).unwrap(), data, outcome)
    }
}
