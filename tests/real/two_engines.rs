//! Two whole engines on one etcd, in separate process namespaces: the same host name and the same
//! process id, as in two containers. Exactly one leads, and a rollout makes no Machine more than
//! one engine would. `CAPSTAN_TWO_ENGINES_ROLLOUTS=N` asks for more rollouts than the suite has time for.

#![cfg(feature = "etcd")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use capi_types::machine::Machine;
use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::runtime::wait::await_condition;
use parking_lot::Mutex;

use crate::keeping::etcd::{self, Etcd};
use crate::standalone::{BINARY, Standalone};

const REPLICAS: usize = 6;
/// The deployment's default.
const SURGE: usize = 1;
const SELECTOR: &str = "cluster.x-k8s.io/deployment-name=aurora-web";

/// A command that becomes process 1 of a namespace of its own. `None`, with a word, when this machine
/// does not allow it.
fn namespaced(program: &str) -> Option<Command> {
    let own = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    let as_user = ["--user", "--map-root-user"];
    for extra in [&[][..], &as_user[..]] {
        let tried = Command::new("unshare").args(extra).args(own).arg("true").output();
        if tried.is_ok_and(|output| output.status.success()) {
            let mut command = Command::new("unshare");
            command.args(extra).args(own).arg(program);
            return Some(command);
        }
    }
    println!("skipped: unshare --pid is not there or not allowed (util-linux; user namespaces)");
    None
}

fn start(folder: &Path, store: &str) -> Option<Standalone> {
    let log = folder.join("log").display().to_string();
    let extra = ["--sample", "healthy-ha", "--store", store, "--log-file", &log];
    Some(Standalone::start_by(namespaced(BINARY)?, "127.0.0.1:0", folder, &extra))
}

/// What a watch has seen of the deployment's Machines.
#[derive(Default)]
struct Seen {
    alive: BTreeSet<String>,
    made: BTreeSet<String>,
    alive_max: usize,
}

impl Seen {
    fn take(&mut self, event: WatchEvent<Machine>) {
        let (machine, is_gone) = match event {
            WatchEvent::Added(machine) | WatchEvent::Modified(machine) => (machine, false),
            WatchEvent::Deleted(machine) => (machine, true),
            other => panic!("{other:?}"),
        };
        let uid = machine.metadata.uid.expect("a uid");
        self.made.insert(uid.clone());
        if is_gone || machine.metadata.deletion_timestamp.is_some() {
            self.alive.remove(&uid);
        } else {
            self.alive.insert(uid);
        }
        self.alive_max = self.alive_max.max(self.alive.len());
    }
}

/// Watches the deployment's Machines from now on.
async fn observe(server: &Standalone) -> Arc<Mutex<Seen>> {
    let machines: Api<Machine> = Api::namespaced(server.client().await, "default");
    let list = machines.list(&ListParams::default().labels(SELECTOR)).await.expect("a list");
    let from = list.metadata.resource_version.clone().expect("a version");
    let seen = Arc::new(Mutex::new(Seen::default()));
    list.items.into_iter().for_each(|machine| seen.lock().take(WatchEvent::Added(machine)));
    let params = WatchParams::default().labels(SELECTOR).disable_bookmarks();
    let mut events = machines.watch(&params, &from).await.expect("a watch").boxed();
    let taker = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Some(Ok(event)) = events.next().await {
            taker.lock().take(event);
        }
    });
    seen
}

fn rolled_out(server: &Standalone) {
    server.says(&["wait", "cluster/aurora", "--for=verdict=ok", "--timeout=180s"]);
    server.says(&["wait", "md/aurora-web", "--for=condition=RollingOut=False", "--timeout=180s"]);
}

/// How often each engine says that it began to lead.
fn leaders(folders: &[tempfile::TempDir]) -> Vec<usize> {
    let logs = folders.iter().map(|folder| std::fs::read_to_string(folder.path().join("log")));
    logs.map(|log| log.unwrap_or_default().matches("leading as ").count()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_engines_with_one_host_name_and_process_id_make_no_machine_twice() {
    if !etcd::is_installed() || namespaced(BINARY).is_none() {
        return;
    }
    let rollouts: usize =
        std::env::var("CAPSTAN_TWO_ENGINES_ROLLOUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let etcd = Etcd::start();
    let store = format!("etcd://{}", etcd.endpoint());
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let started: Vec<Standalone> = folders.iter().filter_map(|folder| start(folder.path(), &store)).collect();
    let [one, _two] = started.as_slice() else { panic!("two servers") };
    rolled_out(one);
    one.says(&["scale", "md/aurora-web", "--replicas", &REPLICAS.to_string(), "--yes"]);
    rolled_out(one);

    let seen = observe(one).await;
    for _ in 0..rollouts {
        one.says(&["rollout", "restart", "md/aurora-web", "--yes"]);
        one.says(&["wait", "md/aurora-web", "--for=condition=RollingOut=True", "--timeout=60s"]);
        rolled_out(one);
    }
    let (alive_max, made) = {
        let seen = seen.lock();
        (seen.alive_max, seen.made.len())
    };
    println!("Machines at once: {alive_max} of {} allowed; made: {made}", REPLICAS + SURGE);
    assert!(alive_max <= REPLICAS + SURGE, "{alive_max} Machines at once");
    assert_eq!(made, REPLICAS * (rollouts + 1), "every rollout replaces each Machine once");
    let mut led = leaders(&folders);
    led.sort_unstable();
    assert_eq!(led, [0, 1], "one engine led once, the other never");
}

/// The server whose engine holds the Lease, by the identity that its log names.
async fn leading(folders: &[tempfile::TempDir], through: &Standalone) -> usize {
    let leases: Api<Lease> = Api::namespaced(through.client().await, "default");
    let lease = leases.get("capstan-engine").await.expect("a Lease");
    let holder = lease.spec.and_then(|spec| spec.holder_identity).expect("a holder");
    let says = |folder: &tempfile::TempDir| {
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        log.contains(&format!("leading as {holder}"))
    };
    folders.iter().position(says).expect("the holder is one of the servers")
}

/// Waits until the Lease has another holder.
async fn taken_over(through: &Standalone, from: &str) -> Duration {
    let leases: Api<Lease> = Api::namespaced(through.client().await, "default");
    let began = Instant::now();
    let is_other = move |lease: Option<&Lease>| {
        let holder = lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.clone());
        holder.is_some_and(|holder| !holder.is_empty() && holder != from)
    };
    let waited = await_condition(leases, "capstan-engine", is_other);
    tokio::time::timeout(Duration::from_secs(180), waited).await.expect("in time").expect("a Lease");
    began.elapsed()
}

/// Three servers on one etcd, and clients with any of them. The one whose engine works is killed, then one of the other
/// two: what was acknowledged is there, no Machine is made twice, and an engine goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_of_three_servers_may_be_killed() {
    if !etcd::is_installed() {
        return;
    }
    let etcd = Etcd::start();
    let store = format!("etcd://{}", etcd.endpoint());
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let mut servers: Vec<Option<Standalone>> = Vec::new();
    for folder in &folders {
        let log = folder.path().join("log").display().to_string();
        let extra = ["--sample", "healthy-ha", "--store", &store, "--log-file", &log];
        servers.push(Some(Standalone::start(folder.path(), &extra)));
    }
    rolled_out(servers[0].as_ref().expect("it serves"));
    let leader = leading(&folders, servers[0].as_ref().expect("it serves")).await;
    let [stays, other] = [(leader + 1) % 3, (leader + 2) % 3];
    let seen = observe(servers[stays].as_ref().expect("it serves")).await;

    // Asked of one server, and that is killed: the answer was the promise.
    let dying = servers[leader].take().expect("it serves");
    dying.says(&["scale", "md/aurora-web", "--replicas", &REPLICAS.to_string(), "--yes"]);
    let leases: Api<Lease> = Api::namespaced(dying.client().await, "default");
    let lease = leases.get("capstan-engine").await.expect("a Lease");
    let former = lease.spec.and_then(|spec| spec.holder_identity).expect("a holder");
    dying.kill();
    let survivor = servers[stays].as_ref().expect("it serves");
    println!("taken over after {:.1} s", taken_over(survivor, &former).await.as_secs_f64());
    rolled_out(servers[other].as_ref().expect("it serves"));

    servers[other].take().expect("it serves").kill();
    let survivor = servers[stays].as_ref().expect("it serves");
    rolled_out(survivor);
    survivor.says(&["rollout", "restart", "md/aurora-web", "--yes"]);
    survivor.says(&["wait", "md/aurora-web", "--for=condition=RollingOut=True", "--timeout=120s"]);
    rolled_out(survivor);
    let (alive_max, made) = {
        let seen = seen.lock();
        (seen.alive_max, seen.made.len())
    };
    assert!(alive_max <= REPLICAS + SURGE, "{alive_max} Machines at once");
    assert_eq!(made, REPLICAS * 2, "the scaling and the rollout make each Machine once");
}
