//! Rollouts of a MachineDeployment, stepped: the planners of the deployment and of its MachineSets take turns over a list of objects,
//! in a fixed order and in orders by chance. What each said and what came of it is a golden file per scenario;
//! `UPDATE_GOLDEN=1` writes them anew. Machines are up at once: when they come up is not what is tested here.
//! The scenarios are those of cluster-api `machinedeployment_rollout_{rollingupdate,ondelete}_test.go`, v1.14.2, without in-place updates.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::sync::Arc;

use capi_rules::plan::machine_set::preflight::Preflight;
use capi_rules::plan::{Step, Write, machine_deployment as deployment_plan, machine_set as set_plan};
use capi_rules::status::in_place::InPlace;
use capi_rules::status::machine_deployment as deployment_status;
use capi_rules::status::machine_set as set_status;
use capi_rules::status::remediation::Limits;
use capi_types::key::{ObjectRef, controller_of};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capstan_base::rng::Rng;
use capstan_base::time::{Timestamp, rfc3339, to_k8s};
use serde_json::{Value, json};

use super::golden::golden;

/// The specs that follow each other; a version is what tells them apart.
const SPECS: [&str; 3] = ["v1.34.1", "v1.35.0", "v1.36.0"];

#[derive(Clone, Copy)]
enum Strategy {
    /// `maxSurge`, `maxUnavailable`.
    Rolling(i32, i32),
    /// Somebody deletes old Machines while fewer than so many are missing.
    OnDelete(usize),
}

struct Scenario {
    /// Of its golden file.
    name: &'static str,
    strategy: Strategy,
    /// Machines of the first spec.
    old: RangeInclusive<u32>,
    /// Machines of the second spec, where the rollout is on its way already.
    new: Option<RangeInclusive<u32>>,
    replicas: i32,
    /// Index of the wanted spec.
    spec: usize,
    end: RangeInclusive<u32>,
    /// In the fixed order.
    rounds: u32,
}

fn scenario(name: &'static str, strategy: Strategy, replicas: u32, rounds: u32) -> Scenario {
    let wanted = i32::try_from(replicas).expect("few");
    let end = replicas + 1..=2 * replicas;
    Scenario { name, strategy, old: 1..=replicas, new: None, replicas: wanted, spec: 1, end, rounds }
}

/// The same in the middle: some of the old Machines are gone, three new ones are there.
fn midway(scenario: Scenario, old: RangeInclusive<u32>, spec: usize, end: RangeInclusive<u32>) -> Scenario {
    let new = Some(old.end() + 1..=old.end() + 3);
    Scenario { old, new, spec, end, ..scenario }
}

fn scenarios() -> Vec<Scenario> {
    use Strategy::{OnDelete, Rolling};
    vec![
        scenario("rolling-3-surge-1-unavailable-0", Rolling(1, 0), 3, 7),
        scenario("rolling-3-surge-0-unavailable-1", Rolling(0, 1), 3, 7),
        scenario("rolling-6-surge-3-unavailable-1", Rolling(3, 1), 6, 5),
        scenario("rolling-6-surge-1-unavailable-3", Rolling(1, 3), 6, 5),
        scenario("rolling-6-surge-10-unavailable-0", Rolling(10, 0), 6, 3),
        scenario("rolling-6-surge-0-unavailable-10", Rolling(0, 10), 6, 3),
        midway(scenario("rolling-6-to-12", Rolling(3, 1), 12, 3), 4..=6, 1, 7..=18),
        midway(scenario("rolling-12-to-6", Rolling(3, 1), 6, 4), 4..=12, 1, 13..=18),
        midway(scenario("rolling-6-changed-again", Rolling(3, 1), 6, 5), 4..=6, 2, 10..=15),
        scenario("on-delete-3", OnDelete(1), 3, 11),
        scenario("on-delete-6-two-at-once", OnDelete(2), 6, 12),
        midway(scenario("on-delete-6-to-9", OnDelete(1), 9, 11), 4..=6, 1, 7..=15),
        midway(scenario("on-delete-12-to-6", OnDelete(1), 6, 11), 4..=12, 1, 13..=18),
        midway(scenario("on-delete-6-changed-again", OnDelete(1), 6, 20), 4..=6, 2, 10..=15),
    ]
}

fn read<K: serde::de::DeserializeOwned>(content: Value) -> K {
    serde_json::from_value(content).expect("an object of its kind")
}

fn deployment(scenario: &Scenario) -> MachineDeployment {
    let strategy = match scenario.strategy {
        Strategy::Rolling(surge, unavailable) => json!({ "type": "RollingUpdate",
            "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } }),
        Strategy::OnDelete(_) => json!({ "type": "OnDelete" }),
    };
    let group = "infrastructure.cluster.x-k8s.io";
    read(json!({
        "metadata": { "name": "md", "namespace": "default", "uid": "md" },
        "spec": {
            "clusterName": "c", "selector": { "matchLabels": { "pool": "md" } }, "rollout": { "strategy": strategy },
            "deletion": { "order": "Oldest" },
            "template": { "metadata": { "labels": { "pool": "md" } }, "spec": {
                "clusterName": "c", "version": SPECS[0], "bootstrap": { "dataSecretName": "boot" },
                "infrastructureRef": { "apiGroup": group, "kind": "DevMachineTemplate", "name": "t" } } },
        },
    }))
}

/// The objects of one MachineDeployment as a store would keep them.
struct Stage {
    deployment: MachineDeployment,
    sets: Vec<MachineSet>,
    /// By number.
    machines: Vec<Machine>,
    last_machine: u32,
    sets_made: u32,
    now: Timestamp,
    transcript: String,
}

impl Stage {
    fn set_up(scenario: &Scenario) -> Self {
        let now = Timestamp::from_timestamp(1_795_168_800, 0).expect("a moment");
        let (deployment, transcript) = (deployment(scenario), String::new());
        let (sets, machines) = (Vec::new(), Vec::new());
        let mut stage = Self { deployment, sets, machines, last_machine: 0, sets_made: 0, now, transcript };
        stage.fill(0, &scenario.old);
        if let Some(new) = &scenario.new {
            stage.fill(1, new);
        }
        stage.want(scenario.spec, scenario.replicas);
        stage.transcript.clear();
        stage
    }

    fn want(&mut self, spec: usize, replicas: i32) {
        self.deployment.spec.template.spec.version = Some(SPECS[spec].to_owned());
        self.deployment.spec.replicas = Some(replicas);
    }

    /// The planners make a MachineSet of this spec with these Machines; the sets that were there keep theirs.
    fn fill(&mut self, spec: usize, machines: &RangeInclusive<u32>) {
        self.want(spec, i32::try_from(*machines.end()).expect("few"));
        let before: Vec<_> = self.sets.iter().map(|set| set.spec.replicas).collect();
        self.turn_of_deployment();
        for (set, replicas) in self.sets.iter_mut().zip(&before) {
            set.spec.replicas = *replicas;
        }
        let made = machines.end() - self.last_machine;
        self.sets[spec].spec.replicas = Some(i32::try_from(made).expect("few"));
        self.turn_of_set(spec);
        let set = name(&self.sets[spec].metadata).to_owned();
        self.machines.retain(|machine| owner(machine) != set || number(machine) >= *machines.start());
        let count = self.machines_of(spec).len();
        self.sets[spec].spec.replicas = Some(i32::try_from(count).expect("few"));
        self.turn_of_set(spec);
    }

    /// Carries the deployment's plan out, and sums up.
    fn turn_of_deployment(&mut self) {
        let observed = deployment_plan::Observed {
            deployment: self.deployment.clone(),
            sets: self.shared_sets(),
            missing_templates: Vec::new(),
            suffix: (self.sets_made + 1).to_string(),
            machines: Vec::new(),
            in_place: InPlace::Off,
        };
        let plan = deployment_plan::plan(&observed, self.now);
        assert!(plan.blockers.is_empty(), "{:?}", plan.blockers);
        self.carry_out(plan.steps);
        let observed = deployment_status::Observed {
            deployment: self.deployment.clone(),
            sets: Some(self.shared_sets()),
            machines: self.machines.iter().cloned().map(Arc::new).collect(),
            missing_templates: Vec::new(),
        };
        self.deployment.status = Some(deployment_status::status(&observed, self.now));
    }

    fn turn_of_set(&mut self, index: usize) {
        let observed = set_plan::Observed {
            set: self.sets[index].clone(),
            machines: self.machines_of(index),
            clones: Vec::new(),
            infrastructure_template: Some(json!({ "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
                "kind": "DevMachineTemplate", "metadata": { "name": "t" }, "spec": { "template": { "spec": {} } } }).into()),
            bootstrap_template: None,
            missing_templates: Vec::new(),
            has_unreadable_template: false,
            needs_templates: true,
            preflight: Preflight::default(),
            remediation: Limits { is_current_revision: true, max_in_flight: None, replicas: 0 },
            suffixes: (self.last_machine + 1..=self.last_machine + 20).map(|n| format!("m{n}")).collect(),
            updates_in_place: false,
            target: None,
        };
        self.carry_out(set_plan::plan(&observed, self.now).steps);
        let (set, machines) = (self.sets[index].clone(), Some(self.machines_of(index)));
        let observed =
            set_status::Observed { set, machines, missing_templates: Vec::new(), preflight: Vec::new() };
        self.sets[index].status = Some(set_status::status(&observed, self.now));
    }

    fn shared_sets(&self) -> Vec<Arc<MachineSet>> {
        self.sets.iter().cloned().map(Arc::new).collect()
    }

    fn machines_of(&self, index: usize) -> Vec<Arc<Machine>> {
        let set = name(&self.sets[index].metadata);
        self.machines.iter().filter(|machine| owner(machine) == set).cloned().map(Arc::new).collect()
    }

    fn carry_out(&mut self, steps: Vec<Step>) {
        for step in steps {
            let sentence = step.to_string();
            for write in step.writes {
                if self.perform(write) {
                    let line = sentence.replace("default/", "");
                    writeln!(self.transcript, "    {line}").expect("a String");
                }
            }
        }
    }

    /// Was it about one of the objects here?
    fn perform(&mut self, write: Write) -> bool {
        match write {
            Write::Create { object, content, .. } => match object.gvk.kind.as_str() {
                "MachineSet" => self.add_set(content),
                "Machine" => self.add_machine(content),
                _ => return false,
            },
            Write::Patch { object, body } | Write::Apply { object, body, .. } => {
                match object.gvk.kind.as_str() {
                    "MachineSet" => merge(found(&mut self.sets, &object), &body),
                    "Machine" => merge(found(&mut self.machines, &object), &body),
                    "MachineDeployment" => merge(&mut self.deployment, &body),
                    other => panic!("{other} is not on this stage"),
                }
            }
            Write::Delete { object } => {
                self.sets.retain(|set| set.metadata.uid.as_deref() != Some(&object.uid));
                self.machines.retain(|machine| machine.metadata.uid.as_deref() != Some(&object.uid));
            }
            _ => return false,
        }
        true
    }

    fn add_set(&mut self, content: Value) {
        let mut set: MachineSet = read(content);
        self.sets_made += 1;
        set.metadata.uid.clone_from(&set.metadata.name);
        set.metadata.creation_timestamp = Some(to_k8s(self.now));
        self.sets.push(set);
    }

    /// It is up at once.
    fn add_machine(&mut self, content: Value) {
        let mut machine: Machine = read(content);
        self.last_machine += 1;
        assert_eq!(number(&machine), self.last_machine);
        self.now += chrono::Duration::seconds(1);
        machine.metadata.uid.clone_from(&machine.metadata.name);
        machine.metadata.creation_timestamp = Some(to_k8s(self.now));
        let condition = |type_: &str| {
            json!({ "type": type_, "status": "True", "reason": type_, "message": "",
                "lastTransitionTime": rfc3339(self.now) })
        };
        let conditions: Vec<Value> = ["Ready", "Available", "UpToDate"].map(condition).into();
        machine.status =
            Some(read(json!({ "nodeRef": { "name": name(&machine.metadata) }, "conditions": conditions })));
        self.machines.push(machine);
    }

    /// What is there, in one line.
    fn line(&self) -> String {
        let mut line = String::new();
        for (index, set) in self.sets.iter().enumerate() {
            let machines = self.machines_of(index);
            let status = set.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
            let spec = set.spec.replicas.unwrap_or(0);
            write!(line, "{}{} {status}/{spec}", if index > 0 { "; " } else { "" }, name(&set.metadata))
                .expect("a String");
            for machine in machines {
                let leaving = if machine.metadata.deletion_timestamp.is_some() { " (leaving)" } else { "" };
                write!(line, " m{}{leaving}", number(&machine)).expect("a String");
            }
        }
        line
    }

    /// Replicas wanted of all sets, and those available.
    fn totals(&self) -> (i32, i32) {
        let wanted = self.sets.iter().filter_map(|set| set.spec.replicas).sum();
        let available = self.sets.iter().filter_map(|set| set.status.as_ref()?.available_replicas).sum();
        (wanted, available)
    }

    fn is_at_the_end(&self, scenario: &Scenario) -> bool {
        let numbers: Vec<u32> = self.machines.iter().map(number).collect();
        let current = self.deployment.spec.template.spec.version.as_ref();
        let told = self.deployment.status.as_ref().map(|status| (status.replicas, status.available_replicas));
        numbers == scenario.end.clone().collect::<Vec<_>>()
            && told == Some((Some(scenario.replicas), Some(scenario.replicas)))
            && self.machines.iter().all(|machine| machine.spec.version.as_ref() == current)
            && self.sets.iter().enumerate().all(|(index, set)| {
                let count = i32::try_from(self.machines_of(index).len()).ok();
                set.spec.replicas == count && set.status.as_ref().and_then(|status| status.replicas) == count
            })
    }
}

fn name(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> &str {
    metadata.name.as_deref().expect("a name")
}

/// 7 of `md-2-m7`.
fn number(machine: &Machine) -> u32 {
    let number = name(&machine.metadata).rsplit_once("-m").and_then(|(_, number)| number.parse().ok());
    number.expect("a number")
}

fn owner(machine: &Machine) -> &str {
    &controller_of(machine).expect("an owner").name
}

fn found<'a, K: kube::Resource>(all: &'a mut [K], object: &ObjectRef) -> &'a mut K {
    all.iter_mut()
        .find(|one| one.meta().uid.as_deref() == Some(&object.uid))
        .expect("an object that is there")
}

fn merge<K: serde::Serialize + serde::de::DeserializeOwned>(object: &mut K, body: &Value) {
    let mut value = serde_json::to_value(&*object).expect("JSON");
    json_patch::merge(&mut value, body);
    *object = read(value);
}

/// Whose turn it is.
#[derive(Clone, Debug, PartialEq)]
enum Turn {
    Deployment,
    Set(String),
    /// Somebody deletes an old Machine.
    Person,
    /// A Machine in deletion goes.
    Machine(u32),
}

struct Play<'a> {
    scenario: &'a Scenario,
    stage: Stage,
    /// `None`: the fixed order.
    chance: Option<Rng>,
    /// Machines are deleted only after the new MachineSet is there: the old one would make them again.
    may_delete: bool,
    /// Of the last turn of the deployment: bounds that were broken when it began are not broken further.
    totals: (i32, i32),
}

impl Play<'_> {
    fn turns(&self) -> Vec<Turn> {
        let mut turns = vec![Turn::Deployment];
        turns.extend(self.stage.sets.iter().map(|set| Turn::Set(name(&set.metadata).to_owned())));
        // The set that the deployment may make in this round.
        turns.push(Turn::Set(format!("md-{}", self.stage.sets_made + 1)));
        if matches!(self.scenario.strategy, Strategy::OnDelete(_)) {
            turns.push(Turn::Person);
            turns.extend(self.stage.machines.iter().map(|machine| Turn::Machine(number(machine))));
        }
        match &self.chance {
            Some(rng) => shuffled(turns, rng),
            None => turns,
        }
    }

    fn take(&mut self, round: u32, turn: &Turn) {
        let who = match turn {
            Turn::Deployment => "md".to_owned(),
            Turn::Set(name) => name.clone(),
            Turn::Person => "person".to_owned(),
            Turn::Machine(number) => format!("m{number}"),
        };
        let before = self.stage.transcript.len();
        writeln!(self.stage.transcript, "{round:>2} {who}").expect("a String");
        let header = self.stage.transcript.len();
        let was = self.stage.line();
        match turn {
            Turn::Deployment => self.plan_deployment(),
            Turn::Set(of) => {
                let index = self.stage.sets.iter().position(|set| name(&set.metadata) == of.as_str());
                index.into_iter().for_each(|index| self.stage.turn_of_set(index));
            }
            Turn::Person => self.delete_one(),
            Turn::Machine(of) => {
                let stays = |m: &Machine| number(m) != *of || m.metadata.deletion_timestamp.is_none();
                self.stage.machines.retain(stays);
            }
        }
        let line = self.stage.line();
        if line == was && self.stage.transcript.len() == header {
            self.stage.transcript.truncate(before);
        } else {
            writeln!(self.stage.transcript, "    = {line}").expect("a String");
        }
    }

    fn plan_deployment(&mut self) {
        self.stage.turn_of_deployment();
        self.may_delete = true;
        let (wanted, available) = self.stage.totals();
        let (most, least) = match self.scenario.strategy {
            Strategy::Rolling(surge, unavailable) => {
                (self.scenario.replicas + surge, self.scenario.replicas - unavailable)
            }
            Strategy::OnDelete(together) => {
                (self.scenario.replicas, self.scenario.replicas - i32::try_from(together).expect("few"))
            }
        };
        let (wanted_before, available_before) = self.totals;
        assert!(wanted <= most.max(wanted_before), "{wanted} of {most} wanted\n{}", self.stage.transcript);
        assert!(
            available >= least.min(available_before),
            "{available} of {least}\n{}",
            self.stage.transcript
        );
        self.totals = (wanted, available);
    }

    /// The first old Machine, or any of them by chance.
    fn delete_one(&mut self) {
        let Strategy::OnDelete(together) = self.scenario.strategy else { return };
        let stays = |machine: &&mut Machine| machine.metadata.deletion_timestamp.is_none();
        let staying = self.stage.machines.iter_mut().filter(stays).count();
        let wanted = usize::try_from(self.scenario.replicas).expect("not negative");
        if !self.may_delete || staying + together <= wanted {
            return;
        }
        let current = self.stage.deployment.spec.template.spec.version.clone();
        let mut old: Vec<&mut Machine> =
            self.stage.machines.iter_mut().filter(|machine| machine.spec.version != current).collect();
        let index = match &self.chance {
            Some(rng) => usize::try_from(rng.below(old.len() as u64)).expect("few"),
            None => 0,
        };
        if let Some(machine) = old.get_mut(index) {
            machine.metadata.deletion_timestamp.get_or_insert(to_k8s(self.stage.now));
        }
    }
}

/// By chance some turns are left out, and some come twice.
fn shuffled(mut left: Vec<Turn>, rng: &Rng) -> Vec<Turn> {
    let mut order = Vec::new();
    while !left.is_empty() {
        let index = usize::try_from(rng.below(left.len() as u64)).expect("few");
        if rng.unit() < 0.3 {
            left.remove(index);
            continue;
        }
        order.push(left[index].clone());
        if rng.unit() >= 0.3 {
            left.remove(index);
        }
    }
    order
}

/// Rounds until the end was reached, and what was said.
fn play(scenario: &Scenario, seed: Option<u64>, rounds_max: u32) -> (u32, String) {
    let stage = Stage::set_up(scenario);
    let totals = stage.totals();
    let opening = format!("   = {}\n", stage.line());
    let mut play = Play { scenario, stage, chance: seed.map(Rng::seeded), may_delete: false, totals };
    for round in 1..=rounds_max {
        for turn in play.turns() {
            play.take(round, &turn);
        }
        if play.stage.is_at_the_end(scenario) {
            return (round, opening + &play.stage.transcript);
        }
    }
    panic!(
        "{} with seed {seed:?}: no end after {rounds_max} rounds\n{}",
        scenario.name, play.stage.transcript
    );
}

#[test]
fn rollouts_go_as_they_were_reviewed() {
    for scenario in scenarios() {
        let (rounds, fixed) = play(&scenario, None, 50);
        assert_eq!(rounds, scenario.rounds, "{}\n{fixed}", scenario.name);
        let (rounds, mixed) = play(&scenario, Some(0), 150);
        let text = format!("In the fixed order:\n{fixed}\nIn the order of seed 0, {rounds} rounds:\n{mixed}");
        golden(&format!("rollouts/{}", scenario.name), &text);
    }
}

/// `CAPSTAN_ROLLOUT_ORDERS=N` asks for more orders.
#[test]
fn rollouts_reach_their_end_within_bounds_in_any_order() {
    let orders =
        std::env::var("CAPSTAN_ROLLOUT_ORDERS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    for scenario in scenarios() {
        for seed in 1..=orders {
            play(&scenario, Some(seed), 150);
        }
    }
}
