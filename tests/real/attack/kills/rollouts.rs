//! kill -9 of a server with its engine in the middle of rollouts: the rollouts converge, there are never more Machines
//! than a rollout may have at once, and no host serves two of them. What a kill between a clone and its Machine leaves
//! behind is swept ten minutes later. Those minutes are real ones, so younger leftovers are counted; older ones, which
//! only runs see that are longer than that, must be gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use capi_types::bootstrap::KubeadmConfig;
use capi_types::dev::DevMachine;
use capi_types::machine::Machine;
use capstan_base::time::{Clock, from_k8s};
use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};

use super::{Bounds, PATIENCE, Target};

/// Kills in one rollout: of one MachineDeployment in the suite, of everything in the long form.
const KILLS_SHORT: u64 = 1;
const KILLS: u64 = 2;
/// A kill leaves at most a host and a configuration behind in each part.
const LEFT_BY_A_KILL_MAX: u64 = 2 * PARTS.len() as u64;
/// By then what a kill left behind is gone, with two minutes to spare.
const SWEPT_AFTER_S: i64 = 720;
/// Longest life within a rollout; simulated machines start a thousand times faster.
const LIFE_MAX_US: u64 = 2_000_000;
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
const DEPLOYMENT: &str = "cluster.x-k8s.io/deployment-name";
/// What is rolled out, and how many Machines it has at rest: one more at most while it rolls.
const PARTS: [(&str, &str, usize); 3] =
    [("kcp", "aurora-control-plane", 3), ("md", "aurora-web", 3), ("md", "aurora-batch", 2)];

#[derive(Debug, Default)]
struct Figures {
    rollouts: u64,
    kills: u64,
    machines_at_once_max: usize,
    /// Clones without a Machine at the last look, all of them young.
    left_behind: usize,
}

struct Fleet {
    target: Target,
    machines: BTreeMap<String, Machine>,
    figures: Figures,
}

/// Which part a Machine belongs to.
fn part_of(machine: &Machine) -> &str {
    let labels = machine.labels();
    if labels.contains_key(CONTROL_PLANE) {
        PARTS[0].1
    } else {
        labels.get(DEPLOYMENT).map_or("", |name| name)
    }
}

impl Fleet {
    /// Follows the Machines until `done` says so or the time is over; whether it was done.
    async fn follow(&mut self, time: Duration, done: impl Fn(&Self) -> bool) -> bool {
        let machines: Api<Machine> = Api::namespaced(self.target.client().await, "default");
        let end = Instant::now() + time;
        while Instant::now() < end {
            let list = machines.list(&ListParams::default()).await.expect("a list");
            self.machines = list.items.into_iter().map(|machine| (machine.name_any(), machine)).collect();
            self.check();
            let version = list.metadata.resource_version.expect("a version");
            let watch = machines.watch(&WatchParams::default(), &version).await.expect("a watch");
            let mut watch = watch.boxed();
            while !done(self) {
                match tokio::time::timeout(end.saturating_duration_since(Instant::now()), watch.next()).await
                {
                    Err(_) => return false,
                    Ok(Some(Ok(event))) => self.note(event),
                    Ok(Some(Err(_)) | None) => break,
                }
            }
            if done(self) {
                return true;
            }
        }
        false
    }

    fn note(&mut self, event: WatchEvent<Machine>) {
        match event {
            WatchEvent::Added(machine) | WatchEvent::Modified(machine) => {
                self.machines.insert(machine.name_any(), machine);
            }
            WatchEvent::Deleted(machine) => {
                self.machines.remove(&machine.name_any());
            }
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
        }
        self.check();
    }

    /// What must hold at every moment.
    fn check(&mut self) {
        self.figures.machines_at_once_max = self.figures.machines_at_once_max.max(self.machines.len());
        for (_, name, replicas) in PARTS {
            let staying = self
                .machines
                .values()
                .filter(|m| part_of(m) == name && m.metadata.deletion_timestamp.is_none());
            let count = staying.count();
            assert!(count <= replicas + 1, "{count} Machines of {name} at once: {:?}", self.machines.keys());
        }
    }

    fn is_complete(&self) -> bool {
        let all: usize = PARTS.iter().map(|(_, _, replicas)| replicas).sum();
        self.machines.len() == all && self.machines.values().all(|m| m.metadata.deletion_timestamp.is_none())
    }

    async fn has_settled(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        assert!(
            self.follow(PATIENCE, done).await,
            "{what}: not after {PATIENCE:?}: {:?}",
            self.machines.keys()
        );
        self.target.server().says(&["wait", "cluster/aurora", "--for=verdict=ok", "--timeout=120s"]);
    }

    async fn roll_out(&mut self, bounds: &Bounds) {
        let (parts, kills) = if bounds.is_long() { (&PARTS[..], KILLS) } else { (&PARTS[1..2], KILLS_SHORT) };
        let is_rolled = |machine: &Machine| parts.iter().any(|(_, name, _)| part_of(machine) == *name);
        let rolled = self.machines.iter().filter(|(_, machine)| is_rolled(machine));
        let old: BTreeSet<String> = rolled.map(|(name, _)| name.clone()).collect();
        for (kind, name, _) in parts {
            self.target.server().says(&["rollout", "restart", &format!("{kind}/{name}"), "--yes"]);
        }
        for _ in 0..kills {
            self.follow(Duration::from_micros(bounds.rng.below(LIFE_MAX_US)), |_| false).await;
            self.target.kill();
            self.figures.kills += 1;
            self.target.start();
        }
        let replaced =
            |fleet: &Self| fleet.is_complete() && fleet.machines.keys().all(|name| !old.contains(name));
        self.has_settled("every Machine replaced", replaced).await;
        self.figures.rollouts += 1;
    }

    /// Hosts and bootstrap configurations belong to a Machine that is there but for what kills have just left
    /// behind, and hosts to one each.
    async fn check_belongings(&mut self) {
        let left = self.without_machine().await;
        let max = self.figures.kills * LEFT_BY_A_KILL_MAX;
        assert!(left.len() as u64 <= max, "without a Machine after {} kills: {left:?}", self.figures.kills);
        let old: Vec<_> = left.iter().filter(|(_, age_s)| *age_s > SWEPT_AFTER_S).collect();
        assert!(old.is_empty(), "without a Machine for too long, with ages in seconds: {old:?}");
        self.figures.left_behind = left.len();
        let ids: BTreeSet<_> =
            self.machines.values().map(|machine| machine.spec.provider_id.clone()).collect();
        assert_eq!(ids.len(), self.machines.len(), "a host serves two Machines");
    }

    /// Kind, name and age in seconds.
    async fn without_machine(&self) -> Vec<(String, i64)> {
        let client = self.target.client().await;
        let hosts: Api<DevMachine> = Api::namespaced(client.clone(), "default");
        let configs: Api<KubeadmConfig> = Api::namespaced(client, "default");
        let hosts = hosts.list(&ListParams::default()).await.expect("a list").items;
        let configs = configs.list(&ListParams::default()).await.expect("a list").items;
        let hosts = hosts.iter().map(|host| ("DevMachine", &host.metadata));
        let configs = configs.iter().map(|config| ("KubeadmConfig", &config.metadata));
        let is_left = |metadata: &ObjectMeta| {
            let mut owners = metadata.owner_references.iter().flatten();
            !owners.any(|owner| self.machines.contains_key(&owner.name))
        };
        let now = Clock::system().now();
        let left = hosts.chain(configs).filter(|(_, metadata)| is_left(metadata));
        left.map(|(kind, metadata)| {
            let made = from_k8s(metadata.creation_timestamp.as_ref().expect("a time of creation"));
            (format!("{kind} {}", metadata.name.as_deref().unwrap_or_default()), (now - made).num_seconds())
        })
        .collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollouts_converge_over_kills_without_too_many_machines() {
    let mut bounds = Bounds::of(1);
    let target = Target::started(&["--sample", "healthy-ha"]);
    let mut fleet = Fleet { target, machines: BTreeMap::new(), figures: Figures::default() };
    fleet.has_settled("a fleet", Fleet::is_complete).await;
    while bounds.goes_on() {
        fleet.roll_out(&bounds).await;
        fleet.check_belongings().await;
    }
    fleet.target.assert_calm();
    println!("hosts used twice 0: {:#?}", fleet.figures);
}
