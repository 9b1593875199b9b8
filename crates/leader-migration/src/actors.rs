//! Who runs a controller while which processes hold which locks, for every holder that upstream's sequence can
//! reach. The semantic core of the validator.
//!
//! A process competes for its migration lock only after it won its main lock: of the processes of one main lock, only
//! its holder can have the migration lock. Both are lost together, because the process exits.

use std::collections::{BTreeMap, BTreeSet};

use super::controller_names::Function;
use super::placement::{Placement, place};
use super::process::Process;

/// What one process would do, as far as locks and controllers go.
#[derive(Clone, Debug, PartialEq)]
pub struct Behaviour {
    /// `NAMESPACE/NAME`.
    main_lock: String,
    /// False: it acts without asking any lock.
    elects: bool,
    /// The migration lock that it can take. `None`: it runs none, or never competes for it.
    migration_lock: Option<String>,
    /// The controllers it has, each with its placement.
    placements: BTreeMap<Function, Placement>,
}

impl Behaviour {
    /// `competes`: no rule keeps it from the migration lock (a missing right, coordinated election, …).
    pub fn of(process: &Process, competes: bool) -> Self {
        let configuration = process.configuration().filter(|_| process.migrates());
        let placement = |function: Function| match &configuration {
            Some(c) => place(function.name_in(process.release), process.manager.name(), c),
            None => Placement::Main,
        };
        let has = Function::ALL.into_iter().filter(|function| process.has(*function));
        Self {
            main_lock: process.main_lock(),
            elects: process.flags.leader_elect,
            migration_lock: process.migration_lock().filter(|_| competes),
            placements: has.map(|function| (function, placement(function))).collect(),
        }
    }

    /// Can it run the controller at all: its program has it, and `--controllers` does not take it away?
    pub fn has(&self, function: Function) -> bool {
        self.placements.contains_key(&function)
    }

    /// Under which lock it runs the controller. `None`: it does not have it.
    pub fn placement(&self, function: Function) -> Option<Placement> {
        self.placements.get(&function).copied()
    }

    /// Would the migration lock give it anything to run?
    pub fn has_migrated(&self) -> bool {
        self.placements.values().any(|placement| *placement == Placement::Migration)
    }
}

/// Who holds what: indices of processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holders {
    /// Holders of their own main lock; with two main locks, there are two.
    pub main: BTreeSet<usize>,
    /// Holders of their migration lock. Only who holds a main lock gets here.
    pub migration: BTreeSet<usize>,
}

/// The processes that run `function` while `holders` have their locks.
pub fn who_runs(function: Function, processes: &[Behaviour], holders: &Holders) -> Vec<usize> {
    let runs = |index: usize, process: &Behaviour| match process.placements.get(&function) {
        // Leader election off switches migration off as well: every replica acts.
        _ if !process.elects => process.has(function),
        Some(Placement::Main) => holders.main.contains(&index),
        Some(Placement::Migration) => holders.migration.contains(&index),
        Some(Placement::Unowned) | None => false,
    };
    (0..).zip(processes).filter(|(index, process)| runs(*index, process)).map(|(index, _)| index).collect()
}

/// Every state in which each lock has a holder that can have it. States with a lock that is free for a moment have
/// fewer actors than one of these.
pub fn reachable_holders(processes: &[Behaviour]) -> BTreeSet<Holders> {
    let mut by_main: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, process) in (0..).zip(processes).filter(|(_, process)| process.elects) {
        let group = by_main.entry(process.main_lock.as_str()).or_default();
        // Of processes that do the same, one stands for all.
        if !group.iter().any(|other| processes[*other] == *process) {
            group.push(index);
        }
    }
    // One holder per main lock, in all ways: replicas of one kind exclude each other by it.
    let choices = product(&by_main.into_values().collect::<Vec<_>>());
    choices.into_iter().flat_map(|main| with_migration(processes, &main)).collect()
}

/// One of each group, in all ways.
fn product(groups: &[Vec<usize>]) -> Vec<BTreeSet<usize>> {
    groups.iter().fold(vec![BTreeSet::new()], |chosen, group| {
        let add = |set: &BTreeSet<usize>, index: usize| set.iter().copied().chain([index]).collect();
        chosen.iter().flat_map(|set| group.iter().map(move |index| add(set, *index))).collect()
    })
}

/// The ways in which the holders of main locks can share the migration locks that they compete for.
fn with_migration(processes: &[Behaviour], main: &BTreeSet<usize>) -> Vec<Holders> {
    let mut by_lock: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    // Only holders of main locks compete for a migration lock: upstream starts the second elector
    // behind the first.
    for index in main {
        if let Some(lock) = &processes[*index].migration_lock {
            by_lock.entry(lock).or_default().push(*index);
        }
    }
    let choices = product(&by_lock.into_values().collect::<Vec<_>>());
    choices.into_iter().map(|migration| Holders { main: main.clone(), migration }).collect()
}
