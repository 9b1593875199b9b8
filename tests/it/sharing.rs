//! Several engines on one server share its work by migration locks: each controller runs in exactly one of them, also
//! when one dies or leaves. Paused time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use capi_types::condition::Conditioned as _;
use capi_types::condition::is_true;
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capstan::cli::args::{Cli, Command};
use capstan::cli::sharing::{from_file, primary};
use capstan_apiserver::ApiServer;
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp};
use capstan_commands::arguments::PlanOutputArg;
use capstan_commands::output::Style;
use capstan_commands::{engine_status, leases};
use capstan_engine::client::write::{Mode, Part, Writer};
use capstan_engine::client::{Connection, in_process};
use capstan_engine::controllers;
use capstan_engine::engine::Handle;
use capstan_engine::engine::sharing::Sharing;
use capstan_store::MemoryStore;
use capstan_worlds::provider;
use capstan_worlds::standalone::engine::RunningEngine;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use clap::Parser as _;
use http::Request;
use kube::api::{Api, ListParams};
use kube::client::Body;
use serde_json::json;
use tower::ServiceExt as _;

use super::simulation::{Paused, manifest, target_of};

/// The lock of everything that looks into workload clusters, and the lock of worker sets.
fn file(machines: &str, sets: &str) -> String {
    let lock = |name: &str, controllers: &[&str], component: &str| {
        let entries: String = controllers
            .iter()
            .map(|controller| format!("  - name: {controller}\n    component: \"{component}\"\n"))
            .collect();
        format!(
            "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\nleaderName: {name}\ncontrollerLeaders:\n{entries}"
        )
    };
    let together = [controllers::REACH_WORKLOADS.as_slice(), provider::NAMES.as_slice()].concat();
    let others: Vec<&str> =
        controllers::NAMES.into_iter().filter(|name| !controllers::REACH_WORKLOADS.contains(name)).collect();
    format!("{}---\n{}", lock("capstan-machines", &together, machines), lock("capstan-sets", &others, sets))
}

fn sharing(text: &str, component: &str) -> Sharing {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("locks.yaml");
    std::fs::write(&path, text).expect("a file");
    let sharing = from_file(&path, component).expect("locks");
    let known = [controllers::NAMES.as_slice(), provider::NAMES.as_slice()].concat();
    let together = [controllers::REACH_WORKLOADS.as_slice(), provider::NAMES.as_slice()].concat();
    sharing.check(&primary("default", component, true, ""), &known, &together).expect("safe locks");
    sharing
}

/// A connection that stops answering when its process dies.
fn mortal(server: ApiServer, is_dead: Arc<AtomicBool>) -> Connection {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, is_dead) = (server.clone(), Arc::clone(&is_dead));
        async move {
            if is_dead.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            let answer = server.oneshot(request).await;
            if is_dead.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            answer
        }
    });
    in_process(service, "engine", "default", false)
}

struct Member {
    name: &'static str,
    engine: Option<RunningEngine>,
    handle: Handle,
    is_dead: Arc<AtomicBool>,
}

struct Crew {
    stack: Stack,
    connection: Connection,
    clock: Clock,
    began: tokio::time::Instant,
    members: Vec<Member>,
}

impl Crew {
    async fn start(text: &str, names: &[&'static str]) -> Self {
        let began = tokio::time::Instant::now();
        let clock = Clock::new(Paused(began));
        let options = StackOptions { engine: false, ..StackOptions::new(clock.clone(), Rng::seeded(3)) };
        let stack = Stack::start(Arc::new(MemoryStore::new()), options.clone()).await.expect("a server");
        let connection = stack.connection("test", false);
        let mut crew = Self { stack, connection, clock, began, members: Vec::new() };
        for name in names {
            crew.join(text, name, &options);
        }
        crew
    }

    fn join(&mut self, text: &str, name: &'static str, options: &StackOptions) {
        let options = StackOptions {
            rng: Rng::seeded(self.members.len() as u64),
            lease: Some(primary("default", name, true, &format!("{name}_1"))),
            sharing: Some(sharing(text, name)),
            ..options.clone()
        };
        let is_dead = Arc::new(AtomicBool::new(false));
        let connection = mortal(self.stack.server().clone(), Arc::clone(&is_dead));
        let engine = RunningEngine::start(connection, &options);
        let handle = engine.handle().clone();
        self.members.push(Member { name, engine: Some(engine), handle, is_dead });
    }

    async fn create(&self) {
        let writer = Writer::new(self.connection.client.clone(), "test");
        for object in manifest(1, 2) {
            writer.create_value(&target_of(&object), &object, Mode::Real).await.expect("created");
        }
    }

    async fn scale(&self, replicas: u32) {
        let writer = Writer::new(self.connection.client.clone(), "test");
        let key = ObjectKey::new("default", "harbor-md-0");
        let body = json!({"spec": {"replicas": replicas}});
        writer.patch_part::<MachineDeployment>(&key, Part::Main, &body, Mode::Real).await.expect("patched");
    }

    /// Waits for so many available Machines, and gives the seconds that it took.
    async fn until_available(&self, count: usize) -> u64 {
        let (machines, start): (Api<Machine>, _) =
            (Api::namespaced(self.connection.client.clone(), "default"), self.began.elapsed());
        loop {
            let list = machines.list(&ListParams::default()).await.expect("a list");
            let ready =
                list.items.iter().filter(|machine| is_true(machine.conditions(), "Available")).count();
            if ready == count && list.items.len() == count {
                return (self.began.elapsed() - start).as_secs();
            }
            assert!((self.began.elapsed() - start).as_secs() < 600, "{ready} of {count}\n{}", self.log());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Runs by controller, in the order of time: when, and by whom.
    fn runs(&self) -> BTreeMap<&'static str, Vec<(Timestamp, &'static str)>> {
        let mut runs: BTreeMap<&str, Vec<(Timestamp, &str)>> = BTreeMap::new();
        for member in &self.members {
            for entry in member.handle.trace().entries() {
                runs.entry(entry.controller).or_default().push((entry.at, member.name));
            }
        }
        runs.values_mut().for_each(|runs| runs.sort());
        runs
    }

    /// Who ran each controller, from when to when.
    fn log(&self) -> String {
        let mut log = String::new();
        for (controller, runs) in self.runs() {
            for span in runs.chunk_by(|a, b| a.1 == b.1) {
                let (from, to) = (span[0].0.time(), span[span.len() - 1].0.time());
                log.push_str(&format!("{controller} in {} {from} to {to}\n", span[0].1));
            }
        }
        log
    }

    /// Each controller goes from one process to another at most so often, and never back and forth.
    fn never_twice(&self, changes_max: usize) {
        for (controller, runs) in self.runs() {
            let changes = runs.chunk_by(|a, b| a.1 == b.1).count() - 1;
            assert!(changes <= changes_max, "{controller} changed {changes} times\n{}", self.log());
        }
    }

    fn holder(&self, controller: &str) -> &'static str {
        self.runs()[controller].last().expect("a run").1
    }

    fn kill(&self, name: &str) {
        let member = self.members.iter().find(|member| member.name == name).expect("a member");
        member.is_dead.store(true, Ordering::Relaxed);
    }

    async fn leave(&mut self, name: &str) {
        let member = self.members.iter_mut().find(|member| member.name == name).expect("a member");
        member.engine.take().expect("it runs").stop().await;
    }

    async fn status(&self) -> String {
        let leases = engine_status::look(&self.connection.client, "default").await.expect("leases");
        engine_status::print(&leases, self.clock.now(), PlanOutputArg::Text, Style::default())
            .expect("a table")
    }
}

#[tokio::test(start_paused = true)]
async fn each_controller_runs_in_the_process_that_the_file_names() {
    let crew = Crew::start(&file("east", "west"), &["east", "west"]).await;
    crew.create().await;
    crew.until_available(3).await;
    let runs = crew.runs();
    for controller in controllers::NAMES.into_iter().chain(provider::NAMES) {
        let expected =
            if controllers::REACH_WORKLOADS.contains(&controller) || provider::NAMES.contains(&controller) {
                "east"
            } else {
                "west"
            };
        let by: BTreeSet<&str> = runs.get(controller).into_iter().flatten().map(|(_, by)| *by).collect();
        assert!(by.is_subset(&BTreeSet::from([expected])), "{controller}: {by:?}");
    }
    assert_eq!((crew.holder("machine"), crew.holder("machine-deployment")), ("east", "west"));
    let status = crew.status().await;
    let words: Vec<Vec<&str>> = status.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[1][..4], ["capstan-engine-east", "east", "held", "east_1"], "{status}");
    assert_eq!(words[4][..4], ["capstan-sets", "west", "held", "west_1"], "{status}");
    assert_eq!(words[4][6], "machine-deployment,machine-set", "{status}");

    let command = Cli::try_parse_from(["capstan", "leases"]).expect("arguments").command;
    let Some(Command::Leases(args)) = command else { panic!("another command") };
    let client = &crew.connection.client;
    let locks =
        leases::leases(client, &args, "default", &crew.clock, Style::default()).await.expect("a table");
    let row = locks.lines().find(|line| line.starts_with("default/capstan-sets ")).expect("a row");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[1..6], ["own", "held", "west_1", "-", "west"], "{locks}");
    assert!(!locks.contains("odd:"), "{locks}");
}

#[tokio::test(start_paused = true)]
async fn when_one_of_three_dies_another_goes_on_with_its_controllers() {
    let mut crew = Crew::start(&file("*", "*"), &["east", "west", "south"]).await;
    crew.create().await;
    crew.until_available(3).await;
    crew.never_twice(0);

    let first = crew.holder("machine");
    crew.kill(first);
    crew.scale(3).await;
    let took_s = crew.until_available(4).await;
    assert_ne!(crew.holder("machine"), first, "{}", crew.log());
    // Lease duration and two retries; the new Machine takes some 20 s itself.
    assert!(took_s < 15 + 4 + 60, "{took_s} s\n{}", crew.log());
    crew.never_twice(1);

    let second = crew.holder("machine");
    crew.leave(second).await;
    crew.scale(4).await;
    crew.until_available(5).await;
    assert!(![first, second].contains(&crew.holder("machine")), "{}", crew.log());
    crew.never_twice(2);
    println!("{}", crew.log());
}

#[tokio::test(start_paused = true)]
async fn an_engine_of_the_other_kind_is_refused() {
    let crew = Crew::start(&file("*", "*"), &["east"]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let client = &crew.connection.client;
    let refused =
        engine_status::refuse_other_kind(client, "default", false).await.expect_err("refused").to_string();
    assert!(refused.starts_with("east_1 holds Lease default/capstan-"), "{refused}");
    engine_status::refuse_other_kind(client, "default", true).await.expect("another with a file may come");
    crew.kill("east");
    engine_status::refuse_other_kind(client, "default", false).await.expect("the dead do not count");
}

#[test]
fn a_wrong_file_is_answered_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("locks.yaml");
    let good = file("*", "*");
    let second = good.lines().position(|line| line == "---").expect("two documents") + 2;
    for (text, message) in [
        (
            good.replacen("leaderName: capstan-machines", "leader: x", 1),
            "locks.yaml:3: unknown field leader".to_owned(),
        ),
        (
            good.replace("---\napiVersion: controllermanager.config.k8s.io/v1\n", "---\napiVersion: v1\n"),
            format!("locks.yaml:{second}: apiVersion \"v1\": expected one of"),
        ),
        (good.replace("\"*\"", "*"), "locks.yaml:6: an unquoted * begins an alias".to_owned()),
        (
            "# nothing\n".to_owned(),
            "locks.yaml: expected a LeaderMigrationConfiguration for each lock".to_owned(),
        ),
    ] {
        std::fs::write(&path, text).expect("a file");
        let error = from_file(&path, "east").expect_err("an error").to_string();
        assert!(error.contains(&message), "{message}\n{error}");
    }
}
