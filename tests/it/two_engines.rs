//! Two whole engines on one etcd, in separate process namespaces: the same host name and the same
//! process id, as in two containers. Exactly one leads, and a rollout makes no Machine more than
//! one engine would. `CAPSTAN_TWO_ENGINES_ROLLOUTS=N` asks for more rollouts than the suite has time for.

#![cfg(feature = "etcd")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use capstan::api::machine::Machine;
use futures::StreamExt as _;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
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
