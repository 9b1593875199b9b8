//! Machines that answer as real ones do, without ssh: an owner file, runs that go on by themselves, and what they leave. Writes down
//! everything that would have changed a machine. Must not know a controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use capstan_host_provider::access::{Claim, Machines, Silence};
use capstan_host_provider::reach::SshReach;
use capstan_hosts::clean::{Leftover, LeftoverKind, Proof};
use capstan_hosts::facts::{CONTAINERD, ContainerRuntime, HostFacts, Privilege};
use capstan_hosts::owner::{HostOwner, OwnerAnswer};
use capstan_hosts::run::{
    Changed, Journal, KubeadmStep, KubeadmVerb, Redactor, RunId, RunPlan, SeenKubeadm, SeenStep, Start,
    StepEnd, Watched,
};
use capstan_remote::trouble::SshTrouble;
use parking_lot::Mutex;

/// What kubeadm leaves.
const OF_KUBEADM: [&str; 2] = ["/etc/kubernetes/admin.conf", "/var/lib/etcd/member"];

/// One run on a machine.
#[derive(Clone, Debug, Default)]
struct Run {
    digest: String,
    steps: u32,
    kubeadm: Option<u32>,
    attempt: u32,
    done: u32,
    is_active: bool,
    was_reset: bool,
    resets: u32,
    /// In which it was started.
    boot: u32,
}

impl Run {
    fn is_finished(&self) -> bool {
        self.attempt > 0 && self.done >= self.steps
    }
}

/// One machine.
#[derive(Clone, Debug)]
pub struct Machine {
    pub facts: HostFacts,
    pub owner: Option<HostOwner>,
    pub left: BTreeSet<String>,
    /// These no reset removes.
    pub sticky: BTreeSet<String>,
    pub is_silent: bool,
    /// So often kubeadm ran.
    pub kubeadm_runs: u32,
    /// The step of a bootstrap run that ends with 1.
    pub fails_at: Option<u32>,
    /// A bootstrap run stays in the step where it is, and holds the lock.
    pub is_hung: bool,
    /// What its runs print.
    pub log: String,
    boot: u32,
    runs: BTreeMap<String, Run>,
}

/// All machines, by their address.
#[derive(Clone, Default)]
pub struct Park(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    machines: BTreeMap<String, Machine>,
    changes: Vec<String>,
    is_read_only: bool,
}

pub fn facts(id: &str) -> HostFacts {
    let version = || Some("1.36.3".parse().expect("a version"));
    let controllers =
        ["cpu", "cpuset", "cpuacct", "memory", "devices", "freezer", "pids", "hugetlb", "io", "blkio"];
    HostFacts {
        privilege: Privilege::Root,
        clock_ahead_s: Some(0),
        system: Some("Linux".to_owned()),
        init: Some("systemd".to_owned()),
        kernel: Some("6.1.0".to_owned()),
        cpus: Some(4),
        memory_kib: Some(8_000_000),
        disk_kib: Some(100),
        disk_free_kib: Some(90),
        cgroup: Some(2),
        controllers: controllers.map(str::to_owned).into(),
        listens: Some(BTreeSet::new()),
        etcd_entries: Some(0),
        commands: ["losetup", "mount", "cp", "conntrack"].map(str::to_owned).into(),
        sockets: vec!["/var/run/containerd/containerd.sock".to_owned()],
        kubeadm: version(),
        kubelet: version(),
        runtime: Some(ContainerRuntime { name: CONTAINERD, version: "2.1.0".to_owned() }),
        kubelet_unit: Some("enabled".to_owned()),
        forwards_ipv4: Some(true),
        hostname: Some(format!("node-{id}")),
        name_addresses: Some(vec![format!("10.0.0.{id}")]),
        machine_id: Some(format!("machine-{id}")),
        boot_id: Some("boot-1".to_owned()),
        host_keys: vec![format!("SHA256:{id}")],
        addresses: vec![format!("10.0.0.{id}/24")],
        ..HostFacts::default()
    }
}

impl Park {
    pub fn add(&self, address: &str, facts: HostFacts) {
        let machine = Machine {
            facts,
            owner: None,
            left: BTreeSet::new(),
            sticky: BTreeSet::new(),
            is_silent: false,
            kubeadm_runs: 0,
            fails_at: None,
            is_hung: false,
            log: "the last line\n".to_owned(),
            boot: 1,
            runs: BTreeMap::new(),
        };
        self.0.lock().machines.insert(address.to_owned(), machine);
    }

    pub fn change(&self, address: &str, change: impl FnOnce(&mut Machine)) {
        change(self.0.lock().machines.get_mut(address).expect("a machine"));
    }

    /// The power is gone when kubeadm has begun; answers whether it had.
    pub fn lose_power_in_kubeadm(&self, address: &str) -> bool {
        let mut inner = self.0.lock();
        let machine = inner.machines.get_mut(address).expect("a machine");
        let in_kubeadm = |run: &&mut Run| run.is_active && run.kubeadm == Some(run.done + 1);
        let Some(run) = machine.runs.values_mut().find(in_kubeadm) else { return false };
        run.is_active = false;
        machine.boot += 1;
        machine.left.insert("/etc/kubernetes/pki/apiserver.key".to_owned());
        true
    }

    pub fn machine(&self, address: &str) -> Machine {
        self.0.lock().machines[address].clone()
    }

    /// From now on whatever would change a machine is refused, as in `--read-only`.
    pub fn be_read_only(&self) {
        self.0.lock().is_read_only = true;
    }

    fn may_change(&self) -> Result<(), Silence> {
        if self.0.lock().is_read_only { Err(Silence::read_only()) } else { Ok(()) }
    }

    /// What was changed, in order: `ADDRESS WORDS`.
    pub fn changes(&self) -> Vec<String> {
        self.0.lock().changes.clone()
    }

    fn at<T>(&self, reach: &SshReach, ask: impl FnOnce(&mut Machine) -> T) -> Result<T, Silence> {
        let mut inner = self.0.lock();
        let silent =
            || Silence { trouble: Some(SshTrouble::Unreachable), ..Silence::because("No route to host") };
        let machine = inner.machines.get_mut(&reach.to.host).filter(|machine| !machine.is_silent);
        machine.map(ask).ok_or_else(silent)
    }

    fn note(&self, reach: &SshReach, words: String) {
        self.0.lock().changes.push(format!("{} {words}", reach.to.host));
    }

    /// Who is not the owner changes nothing; what `needs_lock` waits for the job that runs.
    fn as_owner<T>(
        &self,
        reach: &SshReach,
        owner: &HostOwner,
        needs_lock: bool,
        change: impl FnOnce(&mut Machine) -> T,
    ) -> Result<Result<T, Changed>, Silence> {
        self.may_change()?;
        self.at(reach, |machine| match &machine.owner {
            Some(held) if held != owner => Err(Changed::NotOwner(other(held))),
            Some(_) if needs_lock && machine.runs.values().any(|run| run.is_active) => {
                Err(Changed::NotOwner(OwnerAnswer::Busy))
            }
            Some(_) => Ok(change(machine)),
            None => Err(Changed::NotOwner(OwnerAnswer::Free)),
        })
    }
}

fn other(owner: &HostOwner) -> OwnerAnswer {
    OwnerAnswer::Other { owner: owner.clone(), since_s: None }
}

/// A step forward of every run that is active.
fn go_on(machine: &mut Machine) {
    let mut undone = false;
    for (id, run) in machine.runs.iter_mut().filter(|(_, run)| run.is_active) {
        let is_reset = id.contains(".reset");
        if !is_reset && machine.is_hung {
            continue;
        }
        if !is_reset && machine.fails_at == Some(run.done + 1) {
            run.is_active = false;
            continue;
        }
        run.done += 1;
        if run.kubeadm == Some(run.done) {
            machine.kubeadm_runs += 1;
            machine.left.extend(OF_KUBEADM.map(str::to_owned));
        }
        if run.done >= run.steps {
            run.is_active = false;
            undone |= is_reset;
        }
    }
    if undone {
        machine.left = machine.sticky.clone();
        let bootstraps = machine.runs.iter_mut().filter(|(id, _)| !id.contains(".reset"));
        bootstraps.for_each(|(_, run)| {
            run.was_reset = true;
            run.resets += 1;
        });
    }
}

fn journal(run: &Run, fails_at: Option<u32>) -> Journal {
    let step = |number: u32| SeenStep {
        number,
        started_s: 1,
        end: match number {
            _ if number <= run.done => Some(StepEnd { code: 0, at_s: 2 }),
            _ if fails_at == Some(number) && !run.is_active => Some(StepEnd { code: 1, at_s: 2 }),
            _ => None,
        },
    };
    let begun = if run.attempt == 0 { 0 } else { (run.done + 1).min(run.steps) };
    Journal {
        digest: run.digest.clone(),
        kubeadm: run.kubeadm.map_or(SeenKubeadm::None, |number| {
            SeenKubeadm::Step(KubeadmStep { number, verb: KubeadmVerb::Init })
        }),
        attempt: run.attempt,
        from_step: 1,
        boot_id: format!("boot-{}", run.boot),
        started_s: 1,
        steps: (1..=begun).map(step).collect(),
        is_finished: run.is_finished(),
        was_reset: run.was_reset,
        resets: run.resets,
    }
}

#[async_trait]
impl Machines for Park {
    async fn facts(&self, at: &SshReach) -> Result<HostFacts, Silence> {
        self.at(at, |machine| machine.facts.clone())
    }

    async fn owner(&self, at: &SshReach) -> Result<OwnerAnswer, Silence> {
        self.at(at, |machine| machine.owner.as_ref().map_or(OwnerAnswer::Free, other))
    }

    async fn prove(&self, at: &SshReach) -> Result<Proof, Silence> {
        let of = |what: &String| Leftover { kind: LeftoverKind::File, what: what.clone() };
        self.at(at, |machine| Proof { left: machine.left.iter().map(of).collect(), unread: Vec::new() })
    }

    async fn claim(&self, at: &SshReach, claim: &Claim, owner: &HostOwner) -> Result<OwnerAnswer, Silence> {
        self.may_change()?;
        let (answer, words) = self.at(at, |machine| match (claim, machine.owner.clone()) {
            (Claim::Make, None) => {
                machine.owner = Some(owner.clone());
                (OwnerAnswer::Ours { owner: owner.clone(), is_new: true, since_s: None }, Some("claimed"))
            }
            (Claim::Make, Some(held)) if held == *owner => {
                (OwnerAnswer::Ours { owner: held, is_new: false, since_s: None }, None)
            }
            (Claim::TakeFrom(before), Some(held)) if held == *before => {
                let taken = owner.after(before);
                machine.owner = Some(taken.clone());
                (OwnerAnswer::Ours { owner: taken, is_new: true, since_s: None }, Some("taken over"))
            }
            (Claim::Release, Some(held)) if held == *owner => {
                machine.owner = None;
                machine.runs.clear();
                (OwnerAnswer::Free, Some("given back"))
            }
            (Claim::Release, None) => (OwnerAnswer::Free, None),
            (_, Some(held)) => (other(&held), None),
            (_, None) => (OwnerAnswer::Free, None),
        })?;
        if let Some(words) = words {
            self.note(at, words.to_owned());
        }
        Ok(answer)
    }

    async fn upload(&self, at: &SshReach, plan: &RunPlan, owner: &HostOwner) -> Result<Changed, Silence> {
        let steps = u32::try_from(plan.steps.len()).expect("few steps");
        let kubeadm = plan.kubeadm.map(|kubeadm| kubeadm.number);
        let run = Run { digest: plan.digest.clone(), steps, kubeadm, ..Run::default() };
        let put = self.as_owner(at, owner, true, |machine| {
            let before = machine.runs.get(plan.id.as_str()).cloned().unwrap_or_default();
            let run =
                Run { attempt: before.attempt, was_reset: before.was_reset, resets: before.resets, ..run };
            machine.runs.insert(plan.id.to_string(), run);
        })?;
        match put {
            Ok(()) => {
                self.note(at, kind("uploaded", &plan.id));
                Ok(Changed::Done)
            }
            Err(refused) => Ok(refused),
        }
    }

    async fn start(
        &self,
        at: &SshReach,
        id: &RunId,
        owner: &HostOwner,
        start: &Start,
    ) -> Result<Changed, Silence> {
        let started = self.as_owner(at, owner, true, |machine| {
            let boot = machine.boot;
            let Some(run) = machine.runs.get_mut(id.as_str()) else {
                return Changed::Refused("nothing was uploaded");
            };
            if run.attempt >= start.attempt {
                return Changed::Already;
            }
            *run = Run {
                attempt: start.attempt,
                done: start.from_step - 1,
                is_active: true,
                was_reset: false,
                boot,
                ..run.clone()
            };
            Changed::Done
        })?;
        if started == Ok(Changed::Done) {
            self.note(at, kind("started", id));
        }
        Ok(started.unwrap_or_else(|refused| refused))
    }

    async fn watch(
        &self,
        at: &SshReach,
        id: &RunId,
        log_from: u64,
        redactor: &Redactor,
    ) -> Result<Watched, Silence> {
        self.at(at, |machine| {
            go_on(machine);
            let from = usize::try_from(log_from).ok().filter(|from| *from <= machine.log.len()).unwrap_or(0);
            let log_bytes = machine.log.len() as u64;
            let run = machine.runs.get(id.as_str());
            Watched {
                journal: run.map(|run| journal(run, machine.fails_at)),
                is_unit_active: run.is_some_and(|run| run.is_active),
                boot_id: format!("boot-{}", machine.boot),
                log: redactor.redact(&machine.log[from..]),
                log_next: log_bytes,
                log_bytes,
                ..Watched::default()
            }
        })
    }

    async fn stop(&self, at: &SshReach, id: &RunId, owner: &HostOwner) -> Result<Changed, Silence> {
        let stopped = self.as_owner(at, owner, false, |machine| match machine.runs.get_mut(id.as_str()) {
            Some(run) if run.is_active => {
                run.is_active = false;
                Changed::Done
            }
            _ => Changed::Already,
        })?;
        Ok(stopped.unwrap_or_else(|refused| refused))
    }
}

/// Uids differ in each run of a test.
fn kind(word: &str, id: &RunId) -> String {
    let what = if id.as_str().contains(".reset") { "reset" } else { "bootstrap" };
    format!("{what} {word}")
}
