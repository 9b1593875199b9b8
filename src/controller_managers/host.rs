//! The hosts of a cluster: which processes run, by the pods that say so; a changed pod is another process, one that ended
//! is started again. Owns starting and killing; must not know locks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;

use super::ledger::Ledger;
use super::process::Process;
use super::program::{Program, StartError};
use crate::client::Client;
use crate::engine::lease::identity_of;
use crate::leader_migration::manifest::{FoundManager, managers_in};
use crate::rng::Rng;
use crate::time::Clock;

/// Before a process that ended is started again: the kubelet's first wait.
const RESTART: Duration = Duration::from_secs(10);

/// Text of files, by path. What a container does not mount it does not see.
pub type HostFiles = BTreeMap<String, String>;

/// A pod whose process runs, or tries to.
struct Running {
    pod: Value,
    files: HostFiles,
    /// Why it exits at its start.
    failure: Option<StartError>,
    task: JoinHandle<()>,
}

/// All simulated processes of a cluster.
pub struct SimulatedHosts {
    client: Client,
    clock: Clock,
    rng: Rng,
    ledger: Ledger,
    running: BTreeMap<String, Running>,
}

impl SimulatedHosts {
    #[must_use]
    pub fn new(client: Client, clock: Clock, rng: Rng) -> Self {
        Self { client, clock, rng, ledger: Ledger::default(), running: BTreeMap::new() }
    }

    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Runs a pod: one that is as it was goes on, one that changed ends and begins anew.
    pub fn run(&mut self, pod: &Value, files: &HostFiles) {
        for found in managers_in(pod) {
            let is_same = |running: &Running| running.pod["spec"] == pod["spec"] && running.files == *files;
            if self.running.get(&found.name).is_some_and(is_same) {
                continue;
            }
            self.kill(&found.name);
            let started = self.start(&found, files);
            let (failure, task) = match started {
                Ok(task) => (None, task),
                Err(error) => {
                    tracing::warn!("{} exits at its start: {error}", found.name);
                    (Some(error), tokio::spawn(async {}))
                }
            };
            let running = Running { pod: pod.clone(), files: files.clone(), failure, task };
            self.running.insert(found.name, running);
        }
    }

    /// As `kill -9`: nothing is given back, and nothing starts it again.
    pub fn kill(&mut self, name: &str) {
        if let Some(running) = self.running.remove(name) {
            running.task.abort();
        }
    }

    /// Kills the processes of pods that are not there any more.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        let gone: Vec<String> = self.running.keys().filter(|name| !is_there(name)).cloned().collect();
        gone.iter().for_each(|name| self.kill(name));
    }

    /// Why a process exits at its start. `None`: it runs, or is not there.
    #[must_use]
    pub fn failure(&self, name: &str) -> Option<&StartError> {
        self.running.get(name)?.failure.as_ref()
    }

    fn start(&self, found: &FoundManager, files: &HostFiles) -> Result<JoinHandle<()>, StartError> {
        let is_mounted = |path: &str| {
            let below = |mount: &String| {
                path == mount || path.starts_with(&format!("{}/", mount.trim_end_matches('/')))
            };
            found.mounts.iter().any(below)
        };
        let seen: HostFiles =
            files.iter().filter(|(path, _)| is_mounted(path)).map(|(p, t)| (p.clone(), t.clone())).collect();
        let release = found.release.unwrap_or(crate::leader_migration::release::Release(0));
        let program = Program::start(found.manager, release, &found.args, &seen)?;
        let host = found.node.clone().unwrap_or_else(|| found.name.clone());
        let (name, client, clock, ledger) =
            (found.name.clone(), self.client.clone(), self.clock.clone(), self.ledger.clone());
        let rng = self.rng.clone();
        Ok(tokio::spawn(async move {
            loop {
                let process = Process {
                    program: program.clone(),
                    name: name.clone(),
                    identity: identity_of(&host, &rng),
                    client: client.clone(),
                    clock: clock.clone(),
                    ledger: ledger.clone(),
                };
                let why = process.run().await;
                tracing::info!("{name} exits: {why}");
                tokio::time::sleep(RESTART).await;
            }
        }))
    }
}

impl Drop for SimulatedHosts {
    fn drop(&mut self) {
        self.running.values().for_each(|running| running.task.abort());
    }
}
