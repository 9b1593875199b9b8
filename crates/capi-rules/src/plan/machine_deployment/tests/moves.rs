//! Rollouts in place, driven to their end: the sequences that upstream describes in the tests of its planner, in our
//! words and with a world of our own. MachineSets and Machines do what upstream's tests let theirs do: Machines are made
//! and go at once, an update ends with the next look of the MachineSet, and what is stored as an annotation stays until
//! it is overwritten. Bounds are checked after every look at the MachineDeployment.
//! Source of the cases and their ends: `machinedeployment_rollout_rollingupdate_test.go`, v1.14.2.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::super::{Observed, in_place, plan};
use super::{deployment, now};
use crate::plan::Write;
use crate::status::in_place::{Covered, InPlace, Replace, Verdict};
use crate::status::machines::is_updating_in_place;
use capi_types::key::annotation;
use capi_types::machine::Machine;
use capi_types::machine_deployment::{MachineDeployment, MachineDeploymentStatus};
use capi_types::machine_set::MachineSet;
use capi_types::names::annotation as keys;
use capstan_base::rng::Rng;
use capstan_testing::golden::golden;

/// What an extension says about the Machines of a MachineSet.
type Says = fn(&str) -> Verdict;

fn all(_: &str) -> Verdict {
    Verdict::InPlace { covered: vec![Covered { handler: "can.ext".to_owned(), fields: Vec::new() }] }
}

fn none(_: &str) -> Verdict {
    Verdict::Replace(Replace::NoExtension)
}

/// One rollout to `v2`, or to the newest of `sets`.
struct Case {
    replicas: i32,
    surge: i32,
    unavailable: i32,
    /// MachineSets at the start: version and Machines by number.
    sets: Vec<(&'static str, Vec<u32>)>,
    to: &'static str,
    says: Says,
    /// Scaled at the same time: the bounds of one direction do not hold at first.
    scaled: bool,
}

fn case(replicas: i32, surge: i32, unavailable: i32) -> Case {
    let all_old = (1..=u32::try_from(replicas).expect("a count")).collect();
    Case { replicas, surge, unavailable, sets: vec![("v1", all_old)], to: "v2", says: all, scaled: false }
}

struct World {
    case: Case,
    deployment: MachineDeployment,
    sets: Vec<MachineSet>,
    /// By number; with the MachineSet that it belongs to.
    machines: BTreeMap<u32, Machine>,
    log: String,
    asked: usize,
    /// An annotation that an apply does not have any more goes, as on a server.
    forgets: bool,
}

impl World {
    fn new(case: Case) -> Self {
        let mut deployment = deployment(case.replicas, case.surge, case.unavailable, case.to);
        deployment.metadata.name = Some("ms".into());
        let mut world = Self {
            deployment,
            sets: Vec::new(),
            machines: BTreeMap::new(),
            log: String::new(),
            asked: 0,
            forgets: false,
            case,
        };
        for (version, numbers) in world.case.sets.clone() {
            let mut set = MachineSet::default();
            let set_name = format!("ms-{}", world.sets.len() + 1);
            set.metadata.uid = Some(format!("uid-{set_name}"));
            set.metadata.namespace = Some("ns".into());
            set.spec.template.spec = world.deployment.spec.template.spec.clone();
            set.spec.template.spec.version = Some(version.into());
            set.spec.replicas = i32::try_from(numbers.len()).ok();
            set.metadata.name = Some(set_name.clone());
            world.sets.push(set);
            for number in numbers {
                world.make(number, &set_name);
            }
        }
        for index in 0..world.sets.len() {
            world.report(index);
        }
        world.sum();
        world
    }

    fn make(&mut self, number: u32, set: &str) {
        let mut machine = Machine::default();
        machine.metadata.name = Some(format!("m{number}"));
        machine.metadata.owner_references = Some(vec![owner(set)]);
        self.machines.insert(number, machine);
    }

    fn of(&self, set: &str) -> Vec<u32> {
        let owned = self.machines.iter().filter(|(_, machine)| owner_of(machine) == set);
        owned.map(|(number, _)| *number).collect()
    }

    /// One look at the MachineDeployment.
    fn look(&mut self) {
        let mut observed = Observed {
            deployment: self.deployment.clone(),
            sets: self.sets.iter().cloned().map(Arc::new).collect(),
            missing_templates: Vec::new(),
            suffix: (self.sets.len() + 1).to_string(),
            machines: self.machines.values().cloned().map(Arc::new).collect(),
            in_place: InPlace::On(BTreeMap::new()),
        };
        let asked = in_place::questions(&observed, now());
        self.asked += asked.len();
        let name_of = |set: &MachineSet| set.metadata.name.clone().unwrap_or_default();
        for question in &asked {
            let live =
                self.sets.iter().find(|set| name_of(set) == name_of(&question.old)).expect("it exists");
            assert_eq!(question.old.spec.replicas, live.spec.replicas, "asked with the replicas that it has");
            assert!(question.new.spec.replicas.is_some(), "upstream sends them, 0 too");
        }
        let answers = asked.iter().map(|q| (name_of(&q.old), Ok((self.case.says)(&name_of(&q.old)))));
        observed.in_place = InPlace::On(answers.collect());
        let plan = plan(&observed, now());
        assert!(plan.blockers.is_empty(), "{:?}\n{}", plan.blockers, self.log);
        for step in plan.steps {
            let sentence = step.to_string();
            for write in step.writes {
                self.carry_out(&sentence, write);
            }
        }
        self.sum();
    }

    fn carry_out(&mut self, sentence: &str, write: Write) {
        match write {
            Write::Create { content, .. } => {
                let mut set: MachineSet = serde_json::from_value(content).expect("a MachineSet");
                set.metadata.uid = Some(format!("uid-{}", set.metadata.name.as_deref().expect("a name")));
                let _ = writeln!(self.log, "  {sentence}");
                self.sets.push(set);
            }
            Write::Apply { object, body, intent, .. } => {
                let name = Some(object.key.name);
                let set = self.sets.iter_mut().find(|set| set.metadata.name == name).expect("known");
                let mut value = serde_json::to_value(&*set).expect("JSON");
                json_patch::merge(&mut value, &body);
                let kept = &intent["metadata"]["annotations"];
                if let (true, Some(notes)) = (self.forgets, value["metadata"]["annotations"].as_object_mut())
                {
                    notes.retain(|key, _| !kept[key].is_null());
                }
                *set = serde_json::from_value(value).expect("still a MachineSet");
                if body["spec"]["replicas"].is_i64() {
                    let _ = writeln!(self.log, "  {sentence}");
                }
            }
            // Empty MachineSets stay, and revisions do not matter here.
            _ => {}
        }
    }

    fn sum(&mut self) {
        let sum = |f: fn(&capi_types::machine_set::MachineSetStatus) -> Option<i32>| {
            Some(self.sets.iter().filter_map(|s| s.status.as_ref().and_then(f)).sum::<i32>())
        };
        self.deployment.status = Some(MachineDeploymentStatus {
            replicas: sum(|s| s.replicas),
            available_replicas: sum(|s| s.available_replicas),
            up_to_date_replicas: sum(|s| s.up_to_date_replicas),
            ..MachineDeploymentStatus::default()
        });
    }

    /// One look of a MachineSet at its Machines.
    fn follow(&mut self, index: usize) {
        let Some(set) = self.sets.get(index).cloned() else { return };
        let set_name = set.metadata.name.clone().expect("a name");
        let (mut done, receives) = (Vec::new(), !note(&set, keys::RECEIVE_MACHINES_FROM).is_empty());
        for number in self.of(&set_name) {
            let machine = self.machines.get_mut(&number).expect("known");
            if annotation(machine, keys::PENDING_ACKNOWLEDGE_MOVE).is_some() {
                let acknowledged =
                    note(&set, keys::ACKNOWLEDGED_MOVE).contains(&format!("m{number}").as_str());
                if !receives || acknowledged {
                    machine
                        .metadata
                        .annotations
                        .get_or_insert_default()
                        .remove(keys::PENDING_ACKNOWLEDGE_MOVE);
                }
            } else if is_updating_in_place(machine) {
                machine.metadata.annotations.get_or_insert_default().remove(keys::UPDATE_IN_PROGRESS);
                done.push(format!("m{number}"));
            }
        }
        if !done.is_empty() {
            let _ = writeln!(self.log, "  {} updated in place", done.join(", "));
        }
        self.correct(&set, &set_name);
        self.report(index);
    }

    fn correct(&mut self, set: &MachineSet, set_name: &str) {
        let mine = self.of(set_name);
        let wanted = usize::try_from(set.spec.replicas.unwrap_or(0)).expect("not negative");
        if mine.len() < wanted {
            let mut made = Vec::new();
            for _ in mine.len()..wanted {
                let number = self.next();
                self.make(number, set_name);
                made.push(format!("m{number}"));
            }
            let _ = writeln!(self.log, "  {} made for {set_name}", made.join(", "));
            return;
        }
        let receives = !note(set, keys::RECEIVE_MACHINES_FROM).is_empty();
        let waits = |number: &&u32| {
            receives && annotation(&self.machines[*number], keys::PENDING_ACKNOWLEDGE_MOVE).is_some()
        };
        let surplus = (mine.len() - mine.iter().filter(waits).count()).saturating_sub(wanted);
        if surplus == 0 {
            return;
        }
        match annotation(set, keys::MOVE_MACHINES_TO).map(str::to_owned) {
            Some(target) => self.hand_over(&mine, set_name, &target, surplus),
            None => self.delete(mine, set_name, surplus),
        }
    }

    /// The highest number there was, and one more; numbers are not used twice.
    fn next(&mut self) -> u32 {
        let highest = self.case.sets.iter().flat_map(|(_, numbers)| numbers).max().copied().unwrap_or(0);
        let made = self.log.matches(" made for ").count();
        debug_assert!(made < 1000);
        let used = self.machines.keys().max().copied().unwrap_or(0).max(highest);
        let gone = self.log.split_whitespace().filter_map(|word| {
            word.trim_end_matches(',').strip_prefix('m').and_then(|number| number.parse().ok())
        });
        gone.fold(used, u32::max) + 1
    }

    fn hand_over(&mut self, mine: &[u32], set_name: &str, target: &str, count: usize) {
        let to =
            self.sets.iter().find(|set| set.metadata.name.as_deref() == Some(target)).expect("the target");
        assert!(note(to, keys::RECEIVE_MACHINES_FROM).contains(&set_name), "nobody takes them\n{}", self.log);
        let movable = mine.iter().filter(|number| !is_updating_in_place(&self.machines[number]));
        let chosen: Vec<u32> = movable.take(count).copied().collect();
        for number in &chosen {
            let machine = self.machines.get_mut(number).expect("known");
            machine.metadata.owner_references = Some(vec![owner(target)]);
            let notes = machine.metadata.annotations.get_or_insert_default();
            notes.insert(keys::UPDATE_IN_PROGRESS.to_owned(), String::new());
            notes.insert(keys::PENDING_ACKNOWLEDGE_MOVE.to_owned(), String::new());
        }
        let _ = writeln!(self.log, "  {} moved from {set_name} to {target}", names(&chosen));
    }

    /// Those that are updated go first, the last of them before the others.
    fn delete(&mut self, mut mine: Vec<u32>, set_name: &str, count: usize) {
        mine.sort_by_key(|number| {
            let updating = is_updating_in_place(&self.machines[number]);
            (!updating, if updating { u32::MAX - number } else { *number })
        });
        mine.truncate(count);
        mine.iter().for_each(|number| drop(self.machines.remove(number)));
        let _ = writeln!(self.log, "  {} deleted from {set_name}", names(&mine));
    }

    fn report(&mut self, index: usize) {
        let set_name = self.sets[index].metadata.name.clone().expect("a name");
        let mine = self.of(&set_name);
        let settled = mine.iter().filter(|number| !is_updating_in_place(&self.machines[number])).count();
        let is_current = self.sets[index].spec.template.spec.version.as_deref() == Some(self.case.to);
        let count = |count: usize| i32::try_from(count).ok();
        let status = self.sets[index].status.get_or_insert_default();
        status.replicas = count(mine.len());
        status.available_replicas = count(settled);
        status.up_to_date_replicas = count(if is_current { settled } else { 0 });
    }

    fn check_bounds(&self) {
        if self.case.scaled {
            return;
        }
        let Case { replicas, surge, unavailable, .. } = self.case;
        let updating = self.machines.values().filter(|machine| is_updating_in_place(machine)).count();
        let count = |count: usize| i32::try_from(count).expect("few");
        let (there, available) = (count(self.machines.len()), count(self.machines.len() - updating));
        assert!(there <= replicas + surge, "{there} Machines\n{}", self.log);
        assert!(available >= replicas - unavailable, "{available} available\n{}", self.log);
    }

    fn is_done(&self) -> bool {
        let current =
            self.sets.iter().find(|set| set.spec.template.spec.version.as_deref() == Some(self.case.to));
        let Some(name) = current.and_then(|set| set.metadata.name.as_deref()) else { return false };
        let status = self.deployment.status.as_ref().expect("a status");
        let full = Some(self.case.replicas);
        self.of(name).len() == self.machines.len()
            && [status.replicas, status.available_replicas, status.up_to_date_replicas] == [full; 3]
            && self.machines.values().all(|machine| !is_updating_in_place(machine))
    }

    /// One round in the order of creation.
    fn settle_round(&mut self) {
        self.look();
        for index in 0..=self.sets.len() {
            self.follow(index);
            self.check_bounds();
        }
    }

    /// Looks until all is done: in the order of creation, or shuffled. How many rounds it took.
    fn settle(&mut self, rng: Option<&Rng>, rounds_max: usize) -> usize {
        for round in 1..=rounds_max {
            let _ = writeln!(self.log, "round {round}");
            let mut tasks: Vec<usize> = (0..self.sets.len() + 2).collect();
            if let Some(rng) = rng {
                for at in (1..tasks.len()).rev() {
                    let other = usize::try_from(rng.below(u64::try_from(at + 1).expect("few"))).expect("few");
                    tasks.swap(at, other);
                }
            }
            for task in tasks {
                match task {
                    0 => self.look(),
                    index => self.follow(index - 1),
                }
                self.check_bounds();
            }
            if self.is_done() {
                return round;
            }
        }
        panic!("no end after {rounds_max} rounds:\n{}", self.log)
    }

    fn ended_with(&self) -> String {
        let current =
            self.sets.iter().find(|set| set.spec.template.spec.version.as_deref() == Some(self.case.to));
        let name = current.and_then(|set| set.metadata.name.as_deref()).unwrap_or_default();
        format!("{} in {name}", names(&self.of(name)))
    }
}

fn names(numbers: &[u32]) -> String {
    numbers.iter().map(|number| format!("m{number}")).collect::<Vec<_>>().join(", ")
}

fn note<'a>(set: &'a MachineSet, key: &str) -> Vec<&'a str> {
    annotation(set, key).unwrap_or_default().split(',').filter(|name| !name.is_empty()).collect()
}

fn owner(set: &str) -> OwnerReference {
    OwnerReference {
        kind: "MachineSet".into(),
        name: set.into(),
        uid: format!("uid-{set}"),
        controller: Some(true),
        ..OwnerReference::default()
    }
}

fn owner_of(machine: &Machine) -> &str {
    machine.metadata.owner_references.as_deref().map_or("", |owners| &owners[0].name)
}

fn check(case: Case, rounds: usize, end: &str) {
    let mut world = World::new(case);
    let took = world.settle(None, 50);
    assert_eq!((took, world.ended_with().as_str()), (rounds, end), "{}", world.log);
}

fn from(sets: &[(&'static str, std::ops::RangeInclusive<u32>)], case: Case) -> Case {
    Case {
        sets: sets.iter().map(|(version, numbers)| (*version, numbers.clone().collect())).collect(),
        ..case
    }
}

/// The nine in-place cases, by upstream's counts.
fn cases() -> Vec<(Case, usize, &'static str)> {
    let halves = || from(&[("v1", 4..=6), ("v2", 1..=3)], case(6, 3, 1));
    vec![
        (case(3, 1, 0), 10, "m1, m2, m4 in ms-2"),
        (case(3, 0, 1), 10, "m1, m2, m3 in ms-2"),
        (case(6, 3, 1), 19, "m1, m2, m3, m4, m5, m6 in ms-2"),
        (case(6, 1, 3), 7, "m1, m2, m3, m4, m5, m6 in ms-2"),
        (case(6, 10, 0), 19, "m1, m2, m3, m4, m5, m7 in ms-2"),
        (case(6, 0, 10), 4, "m1, m2, m3, m4, m5, m6 in ms-2"),
        (
            Case { replicas: 12, scaled: true, ..halves() },
            11,
            "m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12 in ms-2",
        ),
        (
            Case { scaled: true, ..from(&[("v1", 4..=12), ("v2", 1..=3)], case(6, 3, 1)) },
            6,
            "m1, m2, m3, m4, m5, m6 in ms-2",
        ),
        (Case { to: "v3", ..halves() }, 19, "m1, m2, m3, m4, m5, m6 in ms-3"),
    ]
}

#[test]
fn in_place_rollouts_end_as_upstreams_do() {
    for (case, rounds, end) in cases() {
        check(case, rounds, end);
    }
}

#[test]
fn in_place_rollouts_keep_their_bounds_in_any_order() {
    for seed in 0..100 {
        for (case, ..) in cases() {
            let (replicas, rng) = (case.replicas, Rng::seeded(seed));
            let mut world = World::new(case);
            world.settle(Some(&rng), 150);
            assert_eq!(world.machines.len(), usize::try_from(replicas).expect("few"), "seed {seed}");
        }
    }
}

#[test]
fn without_an_extension_that_can_machines_are_replaced() {
    check(Case { says: none, ..case(3, 1, 0) }, 7, "m4, m5, m6 in ms-2");
    check(Case { says: none, ..case(6, 3, 1) }, 5, "m7, m8, m9, m10, m11, m12 in ms-2");
}

#[test]
fn one_machine_set_in_place_and_the_other_by_replacement() {
    let only_first: Says = |name| if name == "ms-1" { all(name) } else { none(name) };
    let case = from(&[("v1", 1..=3), ("v2", 4..=6)], case(6, 1, 1));
    let mut world = World::new(Case { to: "v3", says: only_first, ..case });
    world.settle(None, 50);
    let end = world.ended_with();
    for kept in ["m1,", "m2,", "m3,"] {
        assert!(end.contains(kept), "{end}\n{}", world.log);
    }
    assert!(!end.contains("m5") && !end.contains("m6"), "{end}\n{}", world.log);
}

/// As documentation: who moves when, and what is made for it.
#[test]
fn transcripts() {
    let mut until_second = World::new(case(3, 0, 1));
    until_second.forgets = true;
    for _ in 0..3 {
        until_second.settle_round();
    }
    let _ = writeln!(until_second.log, "the extension changes its mind");
    until_second.case.says = none;
    until_second.settle(None, 50);
    let mut told = vec![("fall_back", until_second)];
    for (name, case) in [("unavailable_0", case(3, 1, 0)), ("unavailable_1", case(3, 0, 1))] {
        let mut world = World::new(case);
        world.settle(None, 50);
        told.push((name, world));
    }
    assert!(told[0].1.ended_with().contains("m1") && !told[0].1.ended_with().contains("m3"), "it fell back");
    for (name, world) in told {
        let Case { replicas, surge, unavailable, .. } = world.case;
        let head = format!(
            "# {replicas} replicas, maxSurge {surge}, maxUnavailable {unavailable}, v1 to v2 in place"
        );
        let end = world.ended_with();
        golden(&format!("machine_deployment_in_place_{name}"), &format!("{head}\n{}end: {end}\n", world.log));
    }
}

#[test]
fn extensions_are_asked_only_while_machines_can_be_moved() {
    let mut world = World::new(case(3, 0, 1));
    world.settle(None, 50);
    assert!(world.asked > 0);
    let before = world.asked;
    world.look();
    assert_eq!(world.asked, before, "nothing is left to move");
}

#[test]
fn a_question_without_an_answer_stops_the_plan() {
    let world = World::new(case(3, 1, 0));
    let observed = |in_place| Observed {
        deployment: world.deployment.clone(),
        sets: world.sets.iter().cloned().map(Arc::new).collect(),
        missing_templates: Vec::new(),
        suffix: "2".to_owned(),
        machines: Vec::new(),
        in_place,
    };
    let failed = InPlace::On(BTreeMap::from([("ms-1".to_owned(), Err("extension x is down".to_owned()))]));
    for (in_place, rule) in
        [(InPlace::On(BTreeMap::new()), "extensions-not-asked"), (failed, "extensions-do-not-answer")]
    {
        let plan = plan(&observed(in_place), now());
        assert_eq!((plan.steps.len(), plan.blockers[0].reason.rule), (0, rule));
    }
}

#[test]
fn rollout_after_always_replaces() {
    let mut world = World::new(Case { to: "v1", ..case(3, 1, 0) });
    world.deployment.spec.rollout.as_mut().expect("a rollout").after =
        Some(capstan_base::time::to_k8s(now()));
    world.sets[0].metadata.creation_timestamp =
        Some(capstan_base::time::to_k8s(now() - chrono::Duration::hours(1)));
    world.look();
    assert_eq!(world.asked, 0);
    assert!(world.log.contains("no MachineSet has been created afterwards"), "{}", world.log);
}
