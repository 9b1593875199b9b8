//! `capstan simulate`: what is forecast is what the engine then does; what is tried is refused as it would be; nothing is
//! written.

use capi_types::bootstrap::{KubeadmConfig, KubeadmConfigTemplate};
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::dev::{DevCluster, DevMachine, DevMachineTemplate};
use capi_types::key::Gvk;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capstan::cli::args::{Cli, Command};
use capstan_base::time::{Timestamp, parse_rfc3339};
use capstan_commands::output::Style;
use capstan_commands::simulate::args::SimulateArgs;
use capstan_commands::simulate::{SimulationAnswer, from_files, from_server};
use capstan_engine::client::clusters::list_clusters;
use capstan_engine::client::read::list_values;
use clap::Parser as _;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::simulation::{Sim, labels, manifest, settled};

fn args(words: &[&str]) -> Result<SimulateArgs, String> {
    let words = ["capstan", "simulate"].iter().chain(words);
    match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
        Some(Command::Simulate(args)) => Ok(args),
        _ => panic!("another command"),
    }
}

async fn simulated(sim: &Sim, words: &[&str]) -> Result<SimulationAnswer, String> {
    let now = sim.clock.now();
    let answer = from_server(&sim.connection, &args(words)?, "default", (now, &[]), Style::default()).await;
    answer.map_err(|error| format!("{error:#}"))
}

/// The only Cluster of a simulation.
async fn forecast(sim: &Sim, words: &[&str]) -> Value {
    let words: Vec<&str> = words.iter().copied().chain(["-o", "json"]).collect();
    let answer = simulated(sim, &words).await.expect("a forecast");
    let found: Value = serde_json::from_str(&answer.document).expect("JSON");
    assert_eq!(found["clusters"].as_array().map(Vec::len), Some(1), "{}", answer.document);
    found["clusters"][0].clone()
}

fn pool<'a>(forecast: &'a Value, owner: &str) -> &'a Value {
    let pools = forecast["pools"].as_array().expect("pools");
    pools.iter().find(|pool| pool["owner"] == owner).unwrap_or_else(|| panic!("{owner}: {forecast}"))
}

/// A rollout that is forecast, and then done.
struct Rollout {
    what: &'static str,
    set: &'static [&'static str],
    patch: Value,
    is_of_workers: bool,
    end: (i32, i32, &'static str),
    /// Available at least, Machines at most, those on their way out included, of what rolls.
    bounds: (u64, u64),
}

fn rollouts() -> Vec<Rollout> {
    let version = |version: &str| json!({"spec": {"template": {"spec": {"version": version}}}});
    vec![
        Rollout {
            what: "more workers",
            set: &["--set", "md/harbor-md-0:spec.replicas=5"],
            patch: json!({"spec": {"replicas": 5}}),
            is_of_workers: true,
            end: (3, 5, "v1.34.1"),
            bounds: (3, 5),
        },
        Rollout {
            what: "a version of the control plane",
            set: &["--set", "kcp/harbor-cp:spec.version=v1.35.0"],
            patch: json!({"spec": {"version": "v1.35.0"}}),
            is_of_workers: false,
            end: (3, 5, ""),
            bounds: (3, 4),
        },
        Rollout {
            what: "a version of the workers",
            set: &["--set", "md/harbor-md-0:spec.template.spec.version=v1.35.0"],
            patch: version("v1.35.0"),
            is_of_workers: true,
            end: (3, 5, "v1.35.0"),
            bounds: (5, 6),
        },
        Rollout {
            what: "a patch release, two at a time",
            set: &[
                "--set",
                "md/harbor-md-0:version=v1.35.2",
                "--set",
                "md/harbor-md-0:surge=2",
                "--set",
                "md/harbor-md-0:unavailable=1",
            ],
            patch: json!({"spec": {"template": {"spec": {"version": "v1.35.2"}},
                "rollout": {"strategy": {"type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}}}}),
            is_of_workers: true,
            end: (3, 5, "v1.35.2"),
            bounds: (4, 8),
        },
        Rollout {
            what: "fewer workers",
            set: &["--set", "md/harbor-md-0:spec.replicas=2"],
            patch: json!({"spec": {"replicas": 2}}),
            is_of_workers: true,
            end: (3, 2, "v1.35.2"),
            bounds: (2, 5),
        },
    ]
}

/// Of the control plane while its workers are behind: only its own counters.
async fn is_rolled(sim: &Sim, version: &str) -> bool {
    let Some(plane) = sim.get::<KubeadmControlPlane>("harbor-cp").await else { return false };
    let status = plane.status.unwrap_or_default();
    status.versions.len() == 1
        && status.versions[0].version == version
        && status.available_replicas == Some(3)
        && status.replicas == Some(3)
}

/// Seconds of a forecast and of what then happened.
struct Scored {
    what: &'static str,
    seed: u64,
    short_s: u64,
    long_s: u64,
    took_s: u64,
}

impl Scored {
    /// A second at each end: conditions have whole seconds, and the engine is looked at once a second.
    fn is_right(&self) -> bool {
        (self.short_s..=self.long_s + 1).contains(&self.took_s)
    }
}

/// Forecasts and does every rollout in one cluster.
async fn scored(seed: u64) -> Vec<Scored> {
    let mut sim = Sim::start(seed).await;
    sim.machines_max = (4, 7);
    sim.create(manifest(3, 3)).await;
    sim.until("3 + 3 machines up", 300, async |s| settled(s, 3, 3, "v1.34.1").await).await;
    let mut all = Vec::new();
    for rollout in rollouts() {
        let Rollout { what, set, patch, is_of_workers, end, bounds } = rollout;
        let forecast = forecast(&sim, set).await;
        assert_eq!(forecast["ending"]["state"], "settled", "{what}: {forecast}");
        let owner =
            if is_of_workers { "MachineDeployment/harbor-md-0" } else { "KubeadmControlPlane/harbor-cp" };
        let pool = pool(&forecast, owner);
        let (low, most) = (pool["availableMin"].as_u64(), pool["machinesMax"].as_u64());
        let holds = low >= Some(bounds.0) && most.is_some_and(|most| most <= bounds.1);
        assert!(holds, "{what}: {low:?} available, {most:?} Machines: {forecast}");
        let began = sim.elapsed_s();
        if is_of_workers {
            sim.patch::<MachineDeployment>("harbor-md-0", patch).await;
            sim.until(what, 900, async |s| is_rolled_out(s, end.1, end.2).await).await;
        } else {
            sim.patch::<KubeadmControlPlane>("harbor-cp", patch).await;
            sim.until(what, 900, async |s| is_rolled(s, "v1.35.0").await).await;
        }
        let took_s = sim.elapsed_s() - began;
        let seconds = |part: &str| forecast["duration"][part].as_u64().expect("seconds");
        all.push(Scored { what, seed, short_s: seconds("shortS"), long_s: seconds("longS"), took_s });
        // Nothing of one rollout is left when the next begins.
        tokio::time::sleep(std::time::Duration::from_secs(40)).await;
    }
    all
}

/// Only workers that are wanted are there, available, at this version.
async fn is_rolled_out(sim: &Sim, replicas: i32, version: &str) -> bool {
    let Some(pool) = sim.get::<MachineDeployment>("harbor-md-0").await else { return false };
    let status = pool.status.unwrap_or_default();
    let all = [status.replicas, status.available_replicas, status.up_to_date_replicas];
    let machines: Vec<Machine> = sim.list().await;
    let of_set = |machine: &&Machine| labels(*machine).any(|l| l == "cluster.x-k8s.io/set-name");
    let mine: Vec<&Machine> = machines.iter().filter(of_set).collect();
    let is_right = |m: &&Machine| m.spec.version.as_deref() == Some(version);
    all.iter().all(|count| *count == Some(replicas))
        && mine.len() == usize::try_from(replicas).expect("few")
        && mine.iter().all(is_right)
}

/// Nine of ten end within their range. `CAPSTAN_FORECAST_SEEDS=N` asks for more clusters than the suite has time for.
#[tokio::test(start_paused = true)]
async fn what_is_forecast_then_happens() {
    let seeds = std::env::var("CAPSTAN_FORECAST_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut all = Vec::new();
    for seed in 0..seeds {
        all.extend(scored(21 + seed).await);
    }
    for one in &all {
        let Scored { what, seed, short_s, long_s, took_s } = one;
        let word = if one.is_right() { "" } else { "  <- not within" };
        println!("{seed}  {what:<32} {short_s:>4} to {long_s:>4} s, took {took_s:>4} s{word}");
    }
    let right = all.iter().filter(|one| one.is_right()).count();
    println!("{right} of {} forecasts within their range", all.len());
    assert!(10 * right >= 9 * all.len(), "{right} of {} forecasts were right", all.len());
}

#[tokio::test(start_paused = true)]
async fn what_cluster_api_refuses_is_refused_and_nothing_is_written() {
    let sim = Sim::start(22).await;
    sim.create(manifest(1, 1)).await;
    sim.until("1 + 1 machines up", 180, async |s| settled(s, 1, 1, "v1.34.1").await).await;
    let before: MachineDeployment = sim.get("harbor-md-0").await.expect("it");
    let refused = simulated(&sim, &["kcp/harbor-cp", "--set", "spec.replicas=2"]).await.expect_err("even");
    assert!(refused.starts_with("--set spec.replicas=2: Cluster API refuses it: "), "{refused}");
    let missing =
        simulated(&sim, &["md/nowhere", "--set", "spec.replicas=2"]).await.expect_err("no such object");
    assert!(missing.contains("nowhere"), "{missing}");
    let answer = simulated(&sim, &["md/harbor-md-0", "--set", "spec.replicas=4"]).await.expect("a forecast");
    assert!(answer.document.contains("create Machine"), "{}", answer.document);
    let after: MachineDeployment = sim.get("harbor-md-0").await.expect("it");
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version, "nothing is written");
}

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

#[test]
fn files_and_patches_that_do_not_fit_say_where() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_string_lossy().into_owned()
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": manifest(1, 2)});
    let dump = write("dump.json", &list.to_string());
    let run = |more: &[&str]| {
        let words: Vec<&str> = ["-f", dump.as_str()].iter().chain(more).copied().collect();
        from_files(&args(&words)?, None, now(), Style::default()).map_err(|error| format!("{error:#}"))
    };
    let document = run(&[]).expect("a forecast").document;
    assert!(document.starts_with("Cluster default/harbor  done in about "), "{document}");
    let patch =
        write("patch.yaml", "kind: MachineDeployment\nmetadata: {name: other}\nspec: {replicas: 3}\n");
    let wrong = run(&["--change", &patch]).expect_err("no such object");
    assert!(
        wrong.ends_with("patch.yaml:1: there is no MachineDeployment default/other among the objects"),
        "{wrong}"
    );
    let nameless = write("nameless.yaml", "spec: {replicas: 3}\n");
    let wrong = run(&["--change", &nameless]).expect_err("about nothing");
    assert!(wrong.contains("the patch names no object"), "{wrong}");
    let fine =
        write("fine.yaml", "kind: MachineDeployment\nmetadata: {name: harbor-md-0}\nspec: {replicas: 4}\n");
    let document = run(&["--change", &fine]).expect("a forecast").document;
    assert!(
        document
            .contains("MachineDeployment/harbor-md-0: never below 0 available, never more than 4 Machines"),
        "{document}"
    );
    let until = run(&["--until", "soon"]).expect_err("no such end");
    assert!(until.contains("expected settled, or a number of steps such as 20steps"), "{until}");
    let document = run(&["--until", "1steps"]).expect("a forecast").document;
    assert!(document.starts_with("Cluster default/harbor  not at its end after 0s"), "{document}");
}

#[test]
fn faults_by_chance_break_nothing_and_a_seed_shows_itself_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("dump.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": manifest(3, 3)});
    std::fs::write(&path, list.to_string()).expect("written");
    let file = path.to_string_lossy().into_owned();
    let run = |more: &[&str]| {
        let words: Vec<&str> = ["-f", file.as_str(), "--faults"].iter().chain(more).copied().collect();
        from_files(&args(&words).expect("arguments"), None, now(), Style::default()).expect("runs").document
    };
    let hunts: Value = serde_json::from_str(&run(&["--seeds", "25", "-o", "json"])).expect("JSON");
    assert_eq!(hunts[0]["broken"], json!([]), "{hunts}");
    let settled = hunts[0]["settled"].as_u64().expect("a count");
    let waiting = hunts[0]["waiting"].as_array().expect("findings").iter();
    let waiting: u64 = waiting.map(|finding| finding["runs"].as_u64().expect("a count")).sum();
    assert_eq!(settled + waiting, 25, "{hunts}");
    assert_eq!(run(&["--seed", "7"]), run(&["--seed", "7"]), "a seed gives the same run again");
}

/// What the command prints, of a cluster of five Machines in a file.
fn printed(manifest: Vec<Value>, more: &[&str]) -> Result<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("dump.json");
    std::fs::write(&path, json!({"apiVersion": "v1", "kind": "List", "items": manifest}).to_string())
        .expect("written");
    let file = path.to_string_lossy().into_owned();
    let words: Vec<&str> = ["-f", file.as_str()].iter().chain(more).copied().collect();
    let answer = from_files(&args(&words)?, None, now(), Style::default());
    answer.map(|answer| answer.document).map_err(|error| format!("{error:#}"))
}

/// The objects of a server, as a dump has them.
async fn dumped(sim: &Sim) -> Vec<Value> {
    let lists = list_clusters(&sim.connection, "default", None).await.expect("lists");
    let kinds = lists.kinds.into_iter();
    kinds.flat_map(|(_, objects)| objects).collect()
}

#[tokio::test(start_paused = true)]
async fn two_forecasts_side_by_side_and_a_calendar() {
    let sim = Sim::start(24).await;
    sim.create(manifest(1, 3)).await;
    sim.until("1 + 3 machines up", 300, async |s| settled(s, 1, 3, "v1.34.1").await).await;
    let mut objects = dumped(&sim).await;
    let upgrade = ["md/harbor-md-0", "--set", "version=v1.34.2"];
    let beside: Vec<&str> =
        upgrade.iter().chain(&["--beside", "unavailable=1", "--beside", "surge=0"]).copied().collect();
    let both = printed(objects.clone(), &beside).expect("two forecasts");
    // The times of the dump are ahead of the clock that `printed` has.
    let lowest: Vec<&str> = both.lines().filter(|line| line.contains("harbor-md-0: never below")).collect();
    assert!(lowest.len() == 1 && lowest[0].contains("never below 3"), "{both}");
    assert!(lowest[0].contains("harbor-md-0: never below 2"), "{both}");
    let wrong = [&upgrade[..], &["--beside", "failing=nowhere"]].concat();
    let wrong = printed(objects.clone(), &wrong).expect_err("no such Machine");
    assert_eq!(wrong, "--beside failing=nowhere: there is no such Machine among the objects");

    let machines: Vec<Machine> = sim.list().await;
    for object in &mut objects {
        if object["kind"] == "KubeadmControlPlane" {
            object["spec"]["rollout"]["before"] = json!({"certificatesExpiryDays": 10});
        }
        if object["kind"] == "MachineDeployment" {
            object["spec"]["rollout"]["after"] = json!("2026-11-24T22:00:00Z");
        }
        if object["kind"] == "Machine" {
            object["status"]["certificatesExpiryDate"] = json!("2026-12-30T00:00:00Z");
        }
    }
    assert_eq!(machines.len(), 4);
    let calendar = printed(objects.clone(), &["--calendar", "90d"]).expect("a calendar");
    let heads: Vec<&str> = calendar.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(
        heads,
        [
            "2026-11-24T22:00:00Z  default/harbor  MachineDeployment/harbor-md-0  scheduled",
            "2026-12-20T00:00:00Z  default/harbor  KubeadmControlPlane/harbor-cp  certificates end 2026-12-30T00:00:00Z",
        ],
        "{calendar}"
    );
    assert!(calendar.contains(", harbor-md-0 never below 3 available"), "{calendar}");
    let week = printed(objects.clone(), &["--calendar", "7d"]).expect("a calendar");
    assert!(week.contains("scheduled") && !week.contains("certificates"), "{week}");
    let wrong = printed(objects.clone(), &["--calendar", "soon"]).expect_err("no duration");
    assert!(wrong.contains("expected a duration such as 2h, 7d or 90d"), "{wrong}");

    let upgrade = ["--upgrade", "v1.35.0", "--window", "22:00-04:00"];
    let waves = printed(objects.clone(), &upgrade).expect("waves");
    assert!(waves.starts_with("wave 1  2026-11-20T22:00:00Z to "), "{waves}");
    let stages: Vec<usize> = ["KubeadmControlPlane/harbor-cp", "MachineDeployment/harbor-md-0"]
        .iter()
        .map(|stage| waves.find(stage).unwrap_or_else(|| panic!("{stage}: {waves}")))
        .collect();
    assert!(stages[0] < stages[1], "the control plane comes first: {waves}");
    for (more, expected) in [
        (&["--upgrade", "v1.37.0"][..], "Cluster API refuses it: "),
        (&["--upgrade", "v1.35.0", "--window", "22-4"], "expected HH:MM-HH:MM such as 22:00-04:00"),
        (&["--upgrade", "v1.35.0", "--wave", "other"], "there is no Cluster other that is not in a wave yet"),
        (&["--upgrade", "v1.35.0", "--pools", "other"], "--pools other: there is no such MachineDeployment"),
    ] {
        let said = printed(objects.clone(), more).expect_err(expected);
        assert!(said.contains(expected), "{said}");
    }
    // A control plane that Cluster API would refuse counts only where its Cluster is upgraded.
    let mut two = objects.clone();
    two.extend(objects.iter().filter_map(another_that_is_far_behind));
    let of_harbor = printed(two.clone(), &["cluster/harbor", "--upgrade", "v1.35.0"]).expect("waves");
    assert!(of_harbor.contains("KubeadmControlPlane/harbor-cp"), "{of_harbor}");
    let of_all = printed(two, &["--upgrade", "v1.35.0"]).expect_err("two minors at once");
    assert!(of_all.contains("KubeadmControlPlane default/other-cp"), "{of_all}");
}

/// A Cluster `other` and its control plane, made from those of `harbor`.
fn another_that_is_far_behind(object: &Value) -> Option<Value> {
    let mut other = object.clone();
    match object["kind"].as_str()? {
        "Cluster" => {
            other["metadata"]["name"] = json!("other");
            other["spec"]["controlPlaneRef"]["name"] = json!("other-cp");
        }
        "KubeadmControlPlane" => {
            other["metadata"]["name"] = json!("other-cp");
            other["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] = json!("other");
            other["spec"]["version"] = json!("v1.32.0");
        }
        _ => return None,
    }
    other["metadata"]["uid"] = json!(format!("other-{}", object["kind"]));
    Some(other)
}

#[tokio::test(start_paused = true)]
async fn an_earlier_forecast_is_scored() {
    let sim = Sim::start(25).await;
    sim.create(manifest(1, 2)).await;
    sim.until("1 + 2 machines up", 300, async |s| settled(s, 1, 2, "v1.34.1").await).await;
    let words = ["md/harbor-md-0", "--set", "replicas=3", "-o", "json"];
    let recorded = simulated(&sim, &words).await.expect("a forecast").document;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("forecast.json");
    std::fs::write(&file, recorded).expect("written");
    let path = file.to_string_lossy().into_owned();
    let score = ["--score", path.as_str()];
    let before = simulated(&sim, &score).await.expect("a score").document;
    assert!(before.contains("nothing has changed since"), "{before}");
    sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"replicas": 3}})).await;
    sim.until("3 workers", 300, async |s| is_rolled_out(s, 3, "v1.34.1").await).await;
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    let after = simulated(&sim, &score).await.expect("a score").document;
    assert!(after.contains("; took ") && after.contains(" of 1 within their range"), "{after}");
    std::fs::write(&file, "{\n  \"at\": 3}").expect("written");
    let wrong = simulated(&sim, &score).await.expect_err("not a forecast");
    assert!(wrong.contains("forecast.json:2: expected what `capstan simulate -o json` prints"), "{wrong}");
}

#[tokio::test(start_paused = true)]
async fn the_planners_alone_take_turns() {
    let sim = Sim::start(26).await;
    sim.create(manifest(1, 3)).await;
    sim.until("1 + 3 machines up", 300, async |s| settled(s, 1, 3, "v1.34.1").await).await;
    let words = ["md/harbor-md-0", "--set", "version=v1.34.2", "--actors", "planner"];
    let told = simulated(&sim, &words).await.expect("a sequence").document;
    assert!(told.contains("round 1") && told.contains("round 6"), "{told}");
    let words = [&words[..], &["--order", "random", "--seed", "3"]].concat();
    let again = simulated(&sim, &words).await.expect("a sequence").document;
    assert_eq!(again, simulated(&sim, &words).await.expect("the same").document);
}

/// Absurd and endless input is said, not followed.
#[test]
fn endless_rollouts_and_what_was_assumed_are_said() {
    let mut objects = manifest(1, 2);
    // A check that never finds a Machine healthy replaces Machines for ever.
    objects.push(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": "never", "namespace": "default"},
        "spec": {"clusterName": "harbor", "selector": {"matchLabels": {"cluster.x-k8s.io/deployment-name": "harbor-md-0"}},
            "checks": {"nodeStartupTimeoutSeconds": 30,
                "unhealthyNodeConditions": [{"type": "Ready", "status": "True", "timeoutSeconds": 0}]}}}));
    let told = printed(objects, &["--timing", "node=10m"]).expect("a forecast");
    assert!(told.contains("does not end: since ") && told.contains("Machines were made"), "{told}");
    let absurd = printed(manifest(1, 2), &["--timing", "node=400d"]).expect_err("too long");
    assert!(absurd.contains("7 days are the limit"), "{absurd}");
    // Templates are not in the dump, and a kind without rules is.
    let mut partial: Vec<Value> =
        manifest(1, 2).into_iter().filter(|object| object["kind"] != "KubeadmConfigTemplate").collect();
    partial.push(json!({"apiVersion": "example.io/v1", "kind": "Gadget", "metadata": {"name": "g", "namespace": "default"}}));
    let told = printed(partial, &[]).expect("a forecast");
    assert!(told.contains("assumed") || told.contains("held"), "{told}");
}

/// Who may read Cluster API's kinds alone has no provider objects in his files: what was not read is assumed, and nothing waits for it.
#[tokio::test(start_paused = true)]
async fn files_without_provider_objects_come_to_the_same_end() {
    let sim = Sim::start(23).await;
    sim.create(manifest(3, 3)).await;
    sim.until("3 + 3 machines up", 300, async |s| settled(s, 3, 3, "v1.34.1").await).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (all, core) = (folder.path().join("all.json"), folder.path().join("core.json"));
    let of = async |kinds: Vec<Gvk>| {
        let mut objects = Vec::new();
        for kind in kinds {
            objects.extend(list_values(&sim.connection.client, &kind, "default", "").await.expect("a list"));
        }
        objects
    };
    let of_cluster_api = of(vec![
        Gvk::of::<Cluster>(),
        Gvk::of::<KubeadmControlPlane>(),
        Gvk::of::<MachineDeployment>(),
        Gvk::of::<MachineSet>(),
        Gvk::of::<Machine>(),
    ])
    .await;
    let of_providers = of(vec![
        Gvk::of::<DevCluster>(),
        Gvk::of::<DevMachineTemplate>(),
        Gvk::of::<DevMachine>(),
        Gvk::of::<KubeadmConfigTemplate>(),
        Gvk::of::<KubeadmConfig>(),
        Gvk::of::<Secret>(),
    ])
    .await;
    let list = |items: &[Value]| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    std::fs::write(&core, list(&of_cluster_api)).expect("written");
    std::fs::write(&all, list(&[of_cluster_api, of_providers].concat())).expect("written");

    let changes =
        ["md/harbor-md-0 replicas=1", "md/harbor-md-0 replicas=5", "md/harbor-md-0 version=v1.34.0"];
    let changes = changes.iter().chain(&[
        "kcp/harbor-cp version=v1.35.0",
        "kcp/harbor-cp replicas=1",
        "kcp/harbor-cp replicas=5",
    ]);
    for change in changes {
        let (object, set) = change.split_once(' ').expect("an object");
        let ended = |file: &std::path::Path| {
            let file = file.display().to_string();
            let words = ["-f", &file, object, "--set", set, "-o", "json"];
            let answer =
                from_files(&args(&words).expect("arguments"), None, sim.clock.now(), Style::default());
            let answer = answer.unwrap_or_else(|error| panic!("{change}: {error:#}"));
            let found: Value = serde_json::from_str(&answer.document).expect("JSON");
            let cluster = &found["clusters"][0];
            assert_eq!(cluster["ending"]["state"], "settled", "{change}: {}", answer.document);
            cluster["pools"].clone()
        };
        assert_eq!(ended(&core), ended(&all), "{change}");
    }
}
