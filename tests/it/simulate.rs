//! `capstan simulate`: what is forecast is what the engine then does; what is tried is refused as it would be; nothing is
//! written.

use capstan::api::control_plane::KubeadmControlPlane;
use capstan::api::machine_deployment::MachineDeployment;
use capstan::cli::args::{Cli, Command};
use capstan::cli::output::Style;
use capstan::cli::simulate::args::SimulateArgs;
use capstan::cli::simulate::{SimulationAnswer, from_files, from_server};
use capstan::time::{Timestamp, parse_rfc3339};
use clap::Parser as _;
use serde_json::{Value, json};

use super::simulation::{Sim, manifest, settled};

fn args(words: &[&str]) -> SimulateArgs {
    let words = ["capstan", "simulate"].iter().chain(words);
    match Cli::try_parse_from(words).expect("arguments").command {
        Some(Command::Simulate(args)) => args,
        _ => panic!("another command"),
    }
}

async fn simulated(sim: &Sim, words: &[&str]) -> Result<SimulationAnswer, String> {
    let now = sim.clock.now();
    let answer = from_server(&sim.connection, &args(words), "default", now, Style::default()).await;
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
    /// Available at the lowest, Machines at most, of what rolls.
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
            what: "fewer workers",
            set: &["--set", "md/harbor-md-0:spec.replicas=2"],
            patch: json!({"spec": {"replicas": 2}}),
            is_of_workers: true,
            end: (3, 2, "v1.35.0"),
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

#[tokio::test(start_paused = true)]
async fn what_is_forecast_then_happens() {
    let mut sim = Sim::start(21).await;
    sim.machines_max = (4, 6);
    sim.create(manifest(3, 3)).await;
    sim.until("3 + 3 machines up", 300, async |s| settled(s, 3, 3, "v1.34.1").await).await;
    for rollout in rollouts() {
        let Rollout { what, set, patch, is_of_workers, end, bounds } = rollout;
        let forecast = forecast(&sim, set).await;
        assert_eq!(forecast["ending"]["state"], "settled", "{what}: {forecast}");
        let owner =
            if is_of_workers { "MachineDeployment/harbor-md-0" } else { "KubeadmControlPlane/harbor-cp" };
        let pool = pool(&forecast, owner);
        let found = (pool["availableMin"].as_u64(), pool["machinesMax"].as_u64());
        assert_eq!(found, (Some(bounds.0), Some(bounds.1)), "{what}: {forecast}");
        let began = sim.elapsed_s();
        if is_of_workers {
            sim.patch::<MachineDeployment>("harbor-md-0", patch).await;
            sim.until(what, 900, async |s| settled(s, end.0, end.1, end.2).await || end.2.is_empty()).await;
        } else {
            sim.patch::<KubeadmControlPlane>("harbor-cp", patch).await;
            sim.until(what, 900, async |s| is_rolled(s, "v1.35.0").await).await;
        }
        let took = sim.elapsed_s() - began;
        let seconds = |part: &str| forecast["duration"][part].as_u64().expect("seconds");
        let (short, long) = (seconds("shortS"), seconds("longS"));
        // The provider draws each step, and five Machines of a young Cluster tell little: within twice the range.
        let (least, most) = (short / 2, 2 * long + 20);
        assert!(took + 20 >= least && took <= most, "{what}: {took} s, forecast {short} to {long} s");
    }
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
        from_files(&args(&words), None, now(), Style::default()).map_err(|error| format!("{error:#}"))
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
    assert_eq!(until, "--until soon: expected settled, or a number of steps such as 20steps");
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
        from_files(&args(&words), None, now(), Style::default()).expect("runs").document
    };
    let hunts: Value = serde_json::from_str(&run(&["--seeds", "25", "-o", "json"])).expect("JSON");
    assert_eq!(hunts[0]["broken"], json!([]), "{hunts}");
    let settled = hunts[0]["settled"].as_u64().expect("a count");
    let waiting = hunts[0]["waiting"].as_array().expect("findings").iter();
    let waiting: u64 = waiting.map(|finding| finding["runs"].as_u64().expect("a count")).sum();
    assert_eq!(settled + waiting, 25, "{hunts}");
    assert_eq!(run(&["--seed", "7"]), run(&["--seed", "7"]), "a seed gives the same run again");
}
