//! A world for planner sequences: Machines come up and go away as simply as possible, steps take
//! effect at once, and bounds are checked after every one. It shares no rule with the planner.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::super::{Decision, Observed, Workload, decide, in_place};
use crate::etcd::{Member, Members, Membership};
use crate::plan::keys::KeyCall;
use crate::plan::{Step, WorkloadCall, Write};
use crate::status::conditions::setter::{self, condition};
use crate::status::control_plane::certificates::Certificates;
use crate::status::control_plane::fixtures::{self, of};
use crate::status::control_plane::{Kubeconfig, OwnedMachine, Reached, status};
use crate::status::in_place::{InPlace, Verdict};
use capi_types::condition::Status;
use capi_types::key::ObjectRef;
use capi_types::names::annotation;
use capstan_base::time::{Timestamp, to_k8s};

/// Passes take this long.
const TICK_S: i64 = 10;
/// Ticks from creation to a Node.
const BOOT_TICKS: i64 = 3;
/// Ticks that an extension takes.
const UPDATE_TICKS: i64 = 3;

/// What an extension says about the Machine of this name.
pub type Says = fn(&str) -> Result<Verdict, String>;

pub struct World {
    pub observed: Observed,
    pub now: Timestamp,
    pub members: Vec<Member>,
    pub leader: Option<u64>,
    /// Machines by name whose components report false.
    pub broken: Vec<String>,
    pub max_surge: usize,
    /// What an extension says about a Machine; `None`: updates in place are off.
    pub says: Option<Says>,
    /// Ticks that an update has taken, by Machine.
    updates: BTreeMap<String, i64>,
    /// More than this is a violation; raised while a scale-down starts from above.
    pub machines_max: usize,
    configuration: Option<Value>,
    made: usize,
    /// Objects created in this step, before the Machine that they are for.
    made_parts: Vec<Value>,
    log: Vec<String>,
    last_blockers: Vec<String>,
}

impl World {
    /// A Cluster whose infrastructure is there, and a control plane of `replicas` that has nothing.
    pub fn new(replicas: i32) -> Self {
        let mut observed = fixtures::observed(Vec::new());
        observed.control_plane = fixtures::control_plane(replicas);
        observed.control_plane.status = None;
        observed.certificates = Certificates::Found(Vec::new());
        observed.kubeconfig = Kubeconfig::Missing;
        observed.workload = Workload::NotAsked;
        let machines_max = usize::try_from(replicas).unwrap() + 1;
        Self {
            observed,
            now: fixtures::now(),
            members: Vec::new(),
            leader: None,
            broken: Vec::new(),
            max_surge: 1,
            says: None,
            updates: BTreeMap::new(),
            machines_max,
            configuration: None,
            made: 0,
            made_parts: Vec::new(),
            log: Vec::new(),
            last_blockers: Vec::new(),
        }
    }

    /// One that has been running for a while.
    pub fn running(replicas: i32) -> Self {
        let mut world = Self::new(replicas);
        world.settle();
        world.log.clear();
        world
    }

    pub fn set_replicas(&mut self, replicas: i32) {
        self.observed.control_plane.spec.replicas = Some(replicas);
        let wanted = usize::try_from(replicas).unwrap();
        self.machines_max = (wanted + self.max_surge).max(self.observed.machines.len());
    }

    pub fn say(&mut self, text: &str) {
        self.log.push(format!("# {text}"));
    }

    /// Runs passes until nothing happens for a while; at most 200.
    pub fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..200 {
            quiet = if self.pass() { 0 } else { quiet + 1 };
            if quiet > 5 {
                return;
            }
        }
        panic!("no rest after 200 passes:\n{}", self.log.join("\n"));
    }

    /// One tick of the world and one pass of the planner. True when something moved.
    pub fn pass(&mut self) -> bool {
        let moved = self.advance();
        let decision = self.decide();
        self.note_blockers(&decision);
        let mut steps = decision.plan.steps.clone();
        // What is only told changes nothing.
        steps.retain(|step| !step.writes.iter().all(|write| matches!(write, Write::Event { .. })));
        for step in &steps {
            self.log.push(format!("{} {step}", self.clock()));
            self.perform(step);
            self.check_bounds(step);
        }
        let new = status(&decision.observed, &decision.pass, self.now);
        self.observed.control_plane.status = Some(new);
        moved || !steps.is_empty()
    }

    pub fn decide(&mut self) -> Decision {
        self.made += 1;
        self.observed.name_suffix = format!("{:05}-----", self.made);
        self.observed.workload = self.workload();
        let nothing_asked = InPlace::On(BTreeMap::new());
        self.observed.in_place = self.says.map_or(InPlace::Off, |_| nothing_asked);
        if let (Some(name), Some(says)) = (in_place::asks(&self.observed, self.now), self.says) {
            self.observed.in_place = InPlace::On(BTreeMap::from([(name.clone(), says(&name))]));
        }
        let decision = decide(self.observed.clone(), self.now);
        self.observed.machines.clone_from(&decision.observed.machines);
        decision
    }

    pub fn transcript(&self) -> String {
        self.log.join("\n") + "\n"
    }

    pub fn names(&self) -> Vec<&str> {
        self.observed.machines.iter().map(OwnedMachine::name).collect()
    }

    pub fn versions(&self) -> Vec<&str> {
        self.observed.machines.iter().map(OwnedMachine::version).collect()
    }

    /// `True`, `False`, `Unknown` or nothing, with the reason.
    pub fn condition(&self, type_: &str) -> String {
        let found = capi_types::condition::find(self.observed.conditions(), type_);
        found.map_or_else(String::new, |c: &Condition| format!("{}/{}", c.status, c.reason))
    }

    fn clock(&self) -> String {
        let seconds = (self.now - fixtures::now()).num_seconds();
        format!("{seconds:>5}s")
    }

    fn note_blockers(&mut self, decision: &Decision) {
        let blockers: Vec<String> =
            decision.plan.blockers.iter().map(|b| format!("{}: {b}", b.reason.rule)).collect();
        if blockers != self.last_blockers {
            for blocker in &blockers {
                self.log.push(format!("{}   waits, {blocker}", self.clock()));
            }
            self.last_blockers = blockers;
        }
    }

    /// What the other controllers, kubelets and etcd do in one tick.
    fn advance(&mut self) -> bool {
        self.now += TimeDelta::seconds(TICK_S);
        let mut moved = false;
        let mut gone = Vec::new();
        for index in 0..self.observed.machines.len() {
            moved |= self.boot(index) | self.update(index);
            let machine = &mut self.observed.machines[index];
            if !machine.is_deleting() {
                report(machine, self.now);
                continue;
            }
            if machine.annotation(annotation::KCP_CLEANUP_HOOK).is_none() {
                gone.push(machine.name().to_owned());
            } else if machine.condition("Deleting").is_none_or(|c| c.reason != "WaitingForPreTerminateHook") {
                let draining = condition("Deleting", Status::True, "WaitingForPreTerminateHook", "");
                set(machine, draining, self.now);
                moved = true;
            }
        }
        for name in gone {
            self.log.push(format!("{}   Machine {name} is gone", self.clock()));
            self.observed.machines.retain(|m| m.name() != name);
            moved = true;
        }
        moved
    }

    /// A Machine gets its host, then its Node and its member.
    fn boot(&mut self, index: usize) -> bool {
        let now = self.now;
        let machine = &mut self.observed.machines[index];
        let age = (now - machine.created_at()).num_seconds() / TICK_S;
        if machine.is_deleting() || machine.node_name().is_some() {
            return false;
        }
        if machine.provider_id().is_none() {
            machine.machine.spec.provider_id = Some(format!("in-memory://{}", machine.name()));
            return true;
        }
        if age < BOOT_TICKS {
            return true;
        }
        let node = format!("node-{}", machine.name());
        let version = machine.version().to_owned();
        let new = machine.machine.status.get_or_insert_default();
        new.node_ref = Some(of(json!({ "name": node })));
        let id = self.members.iter().map(|m| m.id).max().unwrap_or(0) + 1;
        self.members.push(fixtures::member(id, &node));
        self.leader.get_or_insert(id);
        self.configuration.get_or_insert_with(|| json!({ "kubernetesVersion": version }));
        self.log.push(format!("{}   Node {node} is up, {} etcd members", self.clock(), self.members.len()));
        true
    }

    /// An extension makes the host what the Machine says; its kubelet follows.
    fn update(&mut self, index: usize) -> bool {
        let owned = &mut self.observed.machines[index];
        let name = owned.name().to_owned();
        if owned.is_deleting() || owned.annotation(annotation::PENDING_HOOKS) != Some("UpdateMachine") {
            return false;
        }
        let ticks = self.updates.entry(name.clone()).or_default();
        *ticks += 1;
        if *ticks < UPDATE_TICKS {
            return true;
        }
        self.updates.remove(&name);
        let version = owned.version().to_owned();
        let info = json!({"architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": version, "machineID": "", "operatingSystem": "", "osImage": "",
            "systemUUID": ""});
        owned.machine.status.get_or_insert_default().node_info = Some(of(info));
        let gone = [annotation::UPDATE_IN_PROGRESS, annotation::PENDING_HOOKS];
        owned
            .machine
            .metadata
            .annotations
            .get_or_insert_default()
            .retain(|key, _| !gone.contains(&key.as_str()));
        self.log.push(format!("{}   Machine {name} is updated to {version}", self.clock()));
        true
    }

    fn workload(&self) -> Workload {
        if self.configuration.is_none() {
            return Workload::NotAsked;
        }
        let hosts: Vec<OwnedMachine> =
            self.observed.machines.iter().filter(|m| m.node_name().is_some()).cloned().collect();
        let mut facts: Reached = fixtures::reached(&hosts);
        facts.kubeadm_config = Ok(self.configuration.clone());
        facts.etcd = Membership::Known(Members { list: self.members.clone(), leader: self.leader });
        if let Ok(pods) = &mut facts.pods {
            let broken: Vec<String> =
                self.broken.iter().map(|m| format!("kube-apiserver-node-{m}")).collect();
            pods.retain(|p| !broken.contains(p.metadata.name.as_ref().unwrap()));
        }
        Workload::Reached(Box::new(facts))
    }

    fn perform(&mut self, step: &Step) {
        assert!(!step.writes.is_empty(), "nothing is written for: {step}");
        for write in &step.writes {
            match write {
                Write::Create { object, content, .. } => self.create(object, content),
                Write::Handover { .. } | Write::Event { .. } | Write::MachineConditions { .. } => {}
                Write::Delete { object } => {
                    let now = to_k8s(self.now);
                    let owned = self.machine(&object.key.name);
                    owned.machine.metadata.deletion_timestamp.get_or_insert(now);
                }
                Write::Patch { object, body } | Write::Apply { object, body, .. } => self.patch(object, body),
                Write::MachineCondition { machine, type_, condition } => {
                    let now = self.now;
                    let owned = self.machine(&machine.key.name);
                    match condition {
                        Some(new) => set(owned, (**new).clone(), now),
                        None => setter::remove(&mut owned.machine.status.as_mut().unwrap().conditions, type_),
                    }
                }
                Write::Workload { call, .. } => self.call(call),
                Write::Keys { call: KeyCall::CreateCertificates { purposes, .. }, .. } => {
                    self.observed.certificates = Certificates::Found(purposes.clone());
                }
                Write::Keys { .. } => {
                    let (ours, controlled) = (true, true);
                    self.observed.kubeconfig = Kubeconfig::Found { ours, controlled, expires: None };
                }
                other => panic!("unexpected: {other}"),
            }
        }
    }

    fn call(&mut self, call: &WorkloadCall) {
        match call {
            WorkloadCall::RemoveEtcdMember(member) => {
                assert_ne!(Some(member.id), self.leader, "the leader was removed\n{}", self.transcript());
                self.members.retain(|m| m.id != member.id);
            }
            WorkloadCall::MoveEtcdLeader { candidates, .. } => self.leader = Some(candidates[0].id),
            WorkloadCall::SetClusterConfiguration(new) => self.configuration = Some(new.clone()),
            other => panic!("unexpected: {other}"),
        }
    }

    /// Merge patches as a server applies them.
    fn patch(&mut self, object: &ObjectRef, body: &Value) {
        let name = &object.key.name;
        match object.gvk.kind.as_str() {
            "KubeadmControlPlane" => merge(&mut self.observed.control_plane, body),
            "Machine" => merge(&mut self.machine(name).machine, body),
            "KubeadmConfig" => merge(&mut self.machine(name).bootstrap, body),
            _ => merge(&mut self.machine(name).infrastructure, body),
        }
    }

    /// The Machine comes last; what was made before it is its own.
    fn create(&mut self, object: &ObjectRef, content: &Value) {
        self.made_parts.push(content.clone());
        if object.gvk.kind != "Machine" {
            return;
        }
        let parts = std::mem::take(&mut self.made_parts);
        let [infrastructure, bootstrap, machine] = parts.try_into().expect("three objects");
        let mut machine: capi_types::machine::Machine = of(machine);
        machine.metadata.creation_timestamp = Some(to_k8s(self.now));
        // Admission fills this in.
        machine.spec.deletion.get_or_insert_default().node_deletion_timeout_seconds.get_or_insert(10);
        self.observed.machines.push(OwnedMachine {
            machine,
            bootstrap: Some(of(bootstrap)),
            infrastructure: Some(infrastructure),
        });
    }

    pub fn machine(&mut self, name: &str) -> &mut OwnedMachine {
        self.observed.machines.iter_mut().find(|m| m.name() == name).expect("a Machine of this name")
    }

    fn check_bounds(&self, step: &Step) {
        let machines = &self.observed.machines;
        let updating = machines.iter().filter(|m| m.is_updating_in_place()).count();
        assert!(updating <= 1, "{updating} Machines are updated at once after {step}\n{}", self.transcript());
        let context = || format!("after {step}\n{}", self.transcript());
        assert!(machines.len() <= self.machines_max, "{} Machines {}", machines.len(), context());
        let ending = self.observed.is_deleting() || self.members.is_empty();
        let alive = |m: &Member| {
            let host = machines.iter().find(|x| x.node_name() == Some(m.name.as_str()));
            host.is_some_and(|x| x.annotation(annotation::KCP_CLEANUP_HOOK).is_some())
        };
        let living = self.members.iter().filter(|m| alive(m)).count();
        assert!(
            ending || machines.len() <= 1 || living > self.members.len() / 2,
            "{living} of {} etcd members are left {}",
            self.members.len(),
            context()
        );
        let leader = self.members.iter().find(|m| Some(m.id) == self.leader);
        assert!(ending || leader.is_some_and(alive) || machines.len() <= 1, "no leader {}", context());
    }
}

fn merge<K: serde::Serialize + serde::de::DeserializeOwned>(object: &mut K, body: &Value) {
    let mut value = serde_json::to_value(&*object).unwrap();
    json_patch::merge(&mut value, body);
    *object = serde_json::from_value(value).unwrap();
}

fn set(machine: &mut OwnedMachine, new: Condition, now: Timestamp) {
    let list = &mut machine.machine.status.get_or_insert_default().conditions;
    setter::set(list, new, None, now);
}

/// The Machine controller: ready once all gates are.
fn report(machine: &mut OwnedMachine, now: Timestamp) {
    let gates = machine.machine.spec.readiness_gates.clone();
    let ready = !gates.is_empty()
        && gates.iter().all(|g| machine.is_true(&g.condition_type))
        && !machine.is_updating_in_place();
    for type_ in ["Ready", "Available"] {
        let reason = if ready { type_ } else { "NotReady" };
        set(machine, condition(type_, Status::of(ready), reason, ""), now);
    }
}
