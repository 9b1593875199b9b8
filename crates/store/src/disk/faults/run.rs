//! Plays one schedule: the store on a simulated disk, and beside it what it must hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::disk::{Fault, SimDisk};
use super::model::{Model, Spec, bytes, key};
use crate::disk::writer::{Asked, Request, Slack, Writer};
use crate::history::Bounds;
use crate::stage::Packed;
use crate::{Error, OpenError, Outcome, Revision, Sealing, Txn, Write};

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// Draws what survives of a power cut.
    pub(super) chance: u64,
    pub(super) sector: usize,
    /// Syncs do nothing.
    pub(super) lies: bool,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Transactions of one commit.
    Write(Vec<Spec>),
    Raise(u64),
    /// All but the newest revisions of the history go, and the file shrinks if it is due.
    Forget(u64),
    /// The file is written anew.
    Compact,
    Wait(u64),
    /// The store is closed, and opened by the next process.
    Restart,
    /// The process ends without a word.
    Kill,
    PowerCycle,
    Fault(Fault),
    /// Room for so many sectors is left.
    Fill(usize),
    /// No fault is due any more, and there is room.
    Mend,
}

/// What a schedule came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Played {
    pub(super) calls: u64,
}

struct Run {
    disk: SimDisk,
    lies: bool,
    /// `None` until it opens.
    store: Option<Writer>,
    now_s: Arc<AtomicU64>,
    /// What was acknowledged.
    known: Model,
    /// What may be on the disk instead: writes since then that were said to be in doubt.
    doubted: Vec<Model>,
}

/// # Errors
/// What the store did wrong.
pub(super) fn play(schedule: &Schedule) -> Result<Played, String> {
    let mut run = Run {
        disk: SimDisk::new(schedule.chance, schedule.sector, schedule.lies),
        lies: schedule.lies,
        store: None,
        now_s: Arc::default(),
        known: Model::new(),
        doubted: Vec::new(),
    };
    for (at, step) in schedule.steps.iter().enumerate() {
        run.step(step).map_err(|why| format!("step {at}, {step:?}: {why}"))?;
        if run.is_over() {
            break;
        }
    }
    let played = Played { calls: run.disk.calls() };
    run.finish().map_err(|why| format!("at the end: {why}"))?;
    Ok(played)
}

impl Run {
    /// A disk that lies may have lost the file; there is nothing more to compare then.
    fn is_over(&self) -> bool {
        self.lies && self.store.is_none()
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        if let Step::Fault(fault) = step {
            self.disk.add(*fault);
            return Ok(());
        }
        self.open()?;
        match step {
            Step::Write(specs) => self.write(specs)?,
            Step::Raise(by) => self.raise(*by)?,
            Step::Forget(kept) => self.forget(*kept),
            Step::Compact => self.store.iter_mut().for_each(Writer::compact),
            Step::Wait(seconds) => drop(self.now_s.fetch_add(*seconds, Ordering::Relaxed)),
            Step::Restart => self.restart(),
            Step::Kill => self.kill(),
            Step::PowerCycle => self.power_cycle(),
            Step::Fault(_) => {}
            Step::Fill(sectors) => self.disk.fill(*sectors),
            Step::Mend => self.disk.mend(),
        }
        if self.disk.revive() {
            self.store = None;
        }
        self.look()
    }

    fn restart(&mut self) {
        self.store = None;
        self.disk.kill();
    }

    fn kill(&mut self) {
        self.disk.kill();
        self.store = None;
    }

    fn power_cycle(&mut self) {
        self.disk.power_cycle();
        self.store = None;
    }

    /// Opens the store, if need be a second time without faults.
    fn open(&mut self) -> Result<(), String> {
        if self.store.is_some() {
            return Ok(());
        }
        let mut opened = self.open_once();
        if opened.is_err() {
            // A sync that failed leaves pages in the kernel that are not on the disk; when the store
            // is opened again it must not matter.
            if !self.disk.revive() {
                self.disk.kill();
            }
            self.disk.mend();
            opened = self.open_once();
        }
        match opened {
            Ok(store) => self.store = Some(store),
            Err(OpenError::Corrupt { .. }) if self.lies => return Ok(()),
            Err(error) => return Err(format!("the store does not open: {error}")),
        }
        self.settle()
    }

    fn open_once(&self) -> Result<Writer, OpenError> {
        let now_s = self.now_s.clone();
        let elapsed = Box::new(move || Duration::from_secs(now_s.load(Ordering::Relaxed)));
        Writer::open(self.disk.folder(), Bounds::default(), elapsed, &Sealing::none()).map(|(store, _)| store)
    }

    /// Finds out which of the possible contents the file has. It is the known one from now on.
    fn settle(&mut self) -> Result<(), String> {
        let Some(store) = &self.store else { return Ok(()) };
        if self.lies {
            return sound(store);
        }
        let candidates = std::iter::once(&self.known).chain(&self.doubted);
        let mut wrong = Vec::new();
        for candidate in candidates {
            match candidate.compare(store.image()) {
                Ok(()) => {
                    self.known = candidate.clone();
                    self.doubted.clear();
                    return Ok(());
                }
                Err(why) => wrong.push(why),
            }
        }
        Err(wrong.join("; and not a write in doubt: "))
    }

    /// Reads see what was acknowledged, whatever became of the file.
    fn look(&self) -> Result<(), String> {
        if let Some(call) = self.disk.misused() {
            return Err(format!("{call:?} of a file of which a sync failed"));
        }
        match &self.store {
            Some(store) if !self.lies => self.known.compare(store.image()),
            _ => Ok(()),
        }
    }

    fn ask(&mut self, asked: Vec<Asked>) -> Vec<Result<Outcome, Error>> {
        let mut answers = Vec::new();
        let request = |what| {
            let (answer, answered) = oneshot::channel();
            answers.push(answered);
            Request { what, answer }
        };
        let group = asked.into_iter().map(request).collect();
        if let Some(store) = &mut self.store {
            store.commit(group);
        }
        answers.into_iter().map(|mut answer| answer.try_recv().unwrap_or(Err(Error::Closed))).collect()
    }

    fn write(&mut self, specs: &[Spec]) -> Result<(), String> {
        let mut next = self.known.clone();
        let expected: Vec<_> = specs.iter().map(|spec| next.add(spec)).collect();
        let txn = |spec: &Spec| Asked::Txn(Packed::from(txn(spec)));
        let answers = self.ask(specs.iter().map(txn).collect());
        self.judge(next, &expected, answers)
    }

    fn raise(&mut self, by: u64) -> Result<(), String> {
        let mut next = self.known.clone();
        let expected = next.raise(by);
        let answers = self.ask(vec![Asked::Raise(expected)]);
        self.judge(next, &[Some(expected)], answers)
    }

    /// All answers to one commit agree, and are the model's.
    fn judge(
        &mut self,
        next: Model,
        expected: &[Option<Revision>],
        answers: Vec<Result<Outcome, Error>>,
    ) -> Result<(), String> {
        if self.lies {
            self.known = next;
            return Ok(());
        }
        let acknowledged = answers.iter().filter(|answer| answer.is_ok()).count();
        if acknowledged == 0 {
            return match answers.into_iter().next() {
                // "Nothing was written" must be true, so the next opening must not find it.
                Some(Err(Error::Write { .. } | Error::Suspended { .. })) => Ok(()),
                Some(Err(Error::Unsynced { .. })) => {
                    self.doubted.push(next);
                    Ok(())
                }
                other => Err(format!("an answer that is none: {other:?}")),
            };
        }
        for (answer, expected) in answers.iter().zip(expected) {
            let agrees = match (answer, expected) {
                (Ok(Outcome::Committed(revision)), Some(expected)) => revision == expected,
                (Ok(Outcome::Conflict { .. }), None) => true,
                _ => false,
            };
            if !agrees {
                return Err(format!("{answer:?} instead of {expected:?}"));
            }
        }
        if next.revision != self.known.revision {
            self.doubted.clear();
        }
        self.known = next;
        Ok(())
    }

    fn forget(&mut self, kept: u64) {
        let upto = self.known.revision.saturating_sub(kept);
        self.known.forget(upto);
        self.doubted.iter_mut().for_each(|doubted| doubted.forget(upto));
        if let Some(store) = &mut self.store {
            store.image().compact(upto);
            store.shrink(&Slack { file_bytes_min: 0, used_bytes_max: u64::MAX });
        }
    }

    /// Once the disk is well and some time has passed, a write gets through, and outlives a power cut.
    fn finish(mut self) -> Result<(), String> {
        self.disk.mend();
        self.open()?;
        if self.lies {
            return Ok(());
        }
        self.now_s.fetch_add(120, Ordering::Relaxed);
        let before = self.known.revision;
        self.write(&[Spec { writes: vec![(0, Some(77))], creates: false }])?;
        if self.known.revision == before {
            return Err("writes do not go on although the disk is well".to_owned());
        }
        self.look()?;
        self.power_cycle();
        self.open()
    }
}

/// It can be read from one end to the other.
fn sound(store: &Writer) -> Result<(), String> {
    let page = store.image().range(crate::Range::default()).map_err(|error| error.to_string())?;
    let unreadable = page.entries.iter().find(|entry| entry.value.unpack().is_err());
    unreadable.map_or(Ok(()), |entry| Err(format!("{} cannot be unpacked", entry.key)))
}

fn txn(spec: &Spec) -> Txn {
    let first = key(spec.writes[0].0);
    let write = |(number, size): &(u8, Option<u16>)| {
        let key = key(*number);
        match size {
            Some(size) => Write::Put(key.as_str().into(), Bytes::from(bytes(&key, usize::from(*size)))),
            None => Write::Delete(key.as_str().into()),
        }
    };
    Txn {
        expect: if spec.creates { vec![(first.as_str().into(), 0)] } else { Vec::new() },
        writes: spec.writes.iter().map(write).collect(),
    }
}
