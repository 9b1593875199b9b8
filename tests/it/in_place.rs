//! Updates in place in a whole engine: rollouts that keep their Machines, and extensions that fail, hang, lie, answer
//! nonsense and change their mind. Checkers look after every simulated second; an extension here is code of the test,
//! asked through the interface that the one over HTTPS has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use capi_rules::plan::in_place::Handlers;
use capi_types::condition::{Conditioned, find};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::dev::{DevMachine, HOST_ANNOTATION, Host};
use capi_types::hook::{
    CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSetRequest,
    CanUpdateMachineSetResponse, Extensions, Hook, HookError, Patch, UpdateMachineRequest,
    UpdateMachineResponse,
};
use capi_types::key::{ObjectKey, annotation};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::names::annotation as keys;
use capstan_engine::client::write::{Mode, Part, Writer};
use capstan_engine::controllers::in_place::Settings;
use serde_json::{Value, json};

use super::simulation::{Sim, labels, manifest, settled, worker_names};

pub const OLD: &str = "v1.34.1";
pub const NEW: &str = "v1.34.2";
/// Seconds between two calls, and calls that an update takes.
const AGAIN_S: i32 = 5;
const CALLS: u32 = 3;

/// How an extension behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Works,
    /// Covers nothing.
    Cannot,
    /// Covers the objects behind a Machine, and not its version.
    CoversObjects,
    /// Covers the version only.
    CoversVersion,
    /// HTTP 500, or no connection.
    Down,
    /// Answers `Failure`.
    Refuses,
    /// Answers after the handler's time is over.
    Hangs,
    /// A patch that does not apply.
    Nonsense,
    /// Covers everything, and ends in another state.
    Lies,
    /// Never done.
    Endless,
}

pub const BAD: [Mood; 6] =
    [Mood::Down, Mood::Hangs, Mood::Nonsense, Mood::Endless, Mood::Cannot, Mood::Refuses];

pub struct Extension {
    names: Vec<&'static str>,
    moods: Mutex<BTreeMap<String, Mood>>,
    /// Hook and object, in the order of the calls.
    calls: Mutex<Vec<(Hook, String)>>,
    rounds: Mutex<BTreeMap<String, u32>>,
    writer: OnceLock<Writer>,
}

impl Extension {
    pub fn new(names: &[&'static str], mood: Mood) -> Arc<Self> {
        let moods = names.iter().map(|name| ((*name).to_owned(), mood)).collect();
        Arc::new(Self {
            names: names.to_vec(),
            moods: Mutex::new(moods),
            calls: Mutex::default(),
            rounds: Mutex::default(),
            writer: OnceLock::new(),
        })
    }

    pub fn turn(&self, name: &str, mood: Mood) {
        self.moods.lock().expect("no panic while held").insert(name.to_owned(), mood);
    }

    fn mood(&self, handler: &str) -> Mood {
        self.moods.lock().expect("no panic while held")[handler]
    }

    pub fn count(&self, hook: Hook) -> usize {
        self.calls.lock().expect("no panic while held").iter().filter(|(called, _)| *called == hook).count()
    }

    fn note(&self, hook: Hook, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.calls.lock().expect("no panic while held").push((hook, name));
    }

    /// The failure of a call, if it fails.
    async fn fails(&self, handler: &str) -> Result<Mood, HookError> {
        let unanswered =
            |why: &str| HookError::Unanswered { handler: handler.to_owned(), why: why.to_owned() };
        match self.mood(handler) {
            Mood::Down => Err(unanswered("HTTP 500: out of order")),
            Mood::Refuses => Err(HookError::Refused {
                handler: handler.to_owned(),
                status: "Failure".to_owned(),
                message: "not today".to_owned(),
            }),
            Mood::Hangs => {
                tokio::time::sleep(Duration::from_secs(10)).await;
                Err(unanswered("no answer within 10s"))
            }
            mood => Ok(mood),
        }
    }

    /// Makes the simulated host what its objects say.
    async fn update_host(&self, machine: &Value) {
        let name = machine["metadata"]["name"].as_str().expect("a name");
        let version = machine["spec"]["version"].as_str().expect("a version").to_owned();
        let host = Host { kubelet_version: version, memory: None };
        let note = serde_json::to_string(&host).expect("JSON");
        let body = json!({"metadata": {"annotations": {HOST_ANNOTATION: note}}});
        let key = ObjectKey::new("default", name);
        let writer = self.writer.get().expect("set before the first update");
        writer.patch_part::<DevMachine>(&key, Part::Main, &body, Mode::Real).await.expect("patched");
    }
}

/// The whole spec as a merge patch; fields that have to go are nulled.
fn towards(current: &Value, desired: &Value, path: &[&str]) -> Patch {
    let Some(diff) = k8s_machinery::merge::merge_diff(current, desired) else { return Patch::default() };
    let part = path.iter().try_fold(&diff, |at, field| at.get(field));
    let Some(part) = part else { return Patch::default() };
    let body = path.iter().rev().fold(part.clone(), |below, field| json!({ *field: below }));
    Patch::merge(body.to_string().as_bytes())
}

fn nonsense() -> Patch {
    Patch::json(br#"[{"op":"replace","path":"/spec/not/there","value":1}]"#)
}

#[async_trait]
impl Extensions for Extension {
    async fn handlers(&self, _: Hook, _: &str) -> Result<Vec<String>, HookError> {
        Ok(self.names.iter().map(|name| (*name).to_owned()).collect())
    }

    async fn can_update_machine(
        &self,
        handler: &str,
        request: &CanUpdateMachineRequest,
    ) -> Result<CanUpdateMachineResponse, HookError> {
        self.note(Hook::CanUpdateMachine, &request.current.machine);
        let mood = self.fails(handler).await?;
        let (now, then) = (&request.current, &request.desired);
        let mut answer = CanUpdateMachineResponse::success();
        if !matches!(mood, Mood::Cannot | Mood::CoversVersion | Mood::Nonsense) {
            let path = &["spec"];
            answer.bootstrap_config_patch = towards(&now.bootstrap_config, &then.bootstrap_config, path);
            let hosts = (&now.infrastructure_machine, &then.infrastructure_machine);
            answer.infrastructure_machine_patch = towards(hosts.0, hosts.1, path);
        }
        if !matches!(mood, Mood::Cannot | Mood::CoversObjects | Mood::Nonsense) {
            answer.machine_patch = towards(&now.machine, &then.machine, &["spec"]);
        }
        match mood {
            Mood::Nonsense => answer.machine_patch = nonsense(),
            Mood::Lies => answer.machine_patch = Patch::merge(br#"{"spec":{"version":"v1.99.0"}}"#),
            _ => {}
        }
        Ok(answer)
    }

    async fn can_update_machine_set(
        &self,
        handler: &str,
        request: &CanUpdateMachineSetRequest,
    ) -> Result<CanUpdateMachineSetResponse, HookError> {
        self.note(Hook::CanUpdateMachineSet, &request.current.machine_set);
        let mood = self.fails(handler).await?;
        let (now, then, path) = (&request.current, &request.desired, &["spec", "template", "spec"]);
        let mut answer = CanUpdateMachineSetResponse::success();
        if !matches!(mood, Mood::Cannot | Mood::CoversVersion | Mood::Nonsense) {
            let templates = (&now.bootstrap_config_template, &then.bootstrap_config_template);
            answer.bootstrap_config_template_patch = towards(templates.0, templates.1, path);
            let templates = (&now.infrastructure_machine_template, &then.infrastructure_machine_template);
            answer.infrastructure_machine_template_patch = towards(templates.0, templates.1, path);
        }
        if !matches!(mood, Mood::Cannot | Mood::CoversObjects | Mood::Nonsense) {
            answer.machine_set_patch = towards(&now.machine_set, &then.machine_set, path);
        }
        if mood == Mood::Nonsense {
            answer.machine_set_patch = nonsense();
        }
        Ok(answer)
    }

    async fn update_machine(
        &self,
        handler: &str,
        request: &UpdateMachineRequest,
    ) -> Result<UpdateMachineResponse, HookError> {
        self.note(Hook::UpdateMachine, &request.desired.machine);
        let mood = self.fails(handler).await?;
        if mood == Mood::Nonsense {
            return Err(HookError::Unanswered { handler: handler.to_owned(), why: "not JSON".to_owned() });
        }
        let key = format!("{handler}/{}", request.desired.machine["metadata"]["name"]);
        let round = {
            let mut rounds = self.rounds.lock().expect("no panic while held");
            let round = rounds.entry(key.clone()).or_default();
            *round += 1;
            *round
        };
        let mut answer = UpdateMachineResponse::success();
        if round < CALLS || mood == Mood::Endless {
            answer.retry_after_seconds = AGAIN_S;
            answer.message = format!("step {round}");
            return Ok(answer);
        }
        self.rounds.lock().expect("no panic while held").remove(&key);
        if mood != Mood::Lies {
            self.update_host(&request.desired.machine).await;
        }
        Ok(answer)
    }
}

pub fn settings(extension: &Arc<Extension>, handlers: Handlers) -> Settings {
    Settings { on: true, handlers, extensions: Some(extension.clone()) }
}

/// A cluster that has come up, with this extension.
pub async fn up(seed: u64, extension: &Arc<Extension>, handlers: Handlers, size: (u32, u32)) -> Sim {
    let mut sim = Sim::with_updates(seed, settings(extension, handlers)).await;
    extension.writer.set(sim.writer.clone()).map_err(|_| "twice").expect("once");
    let (control_plane, workers) =
        (usize::try_from(size.0).expect("few"), usize::try_from(size.1).expect("few"));
    sim.machines_max = (control_plane + 1, workers + 1);
    sim.create(manifest(size.0, size.1)).await;
    let counts = (i32::try_from(size.0).expect("few"), i32::try_from(size.1).expect("few"));
    sim.until("the cluster up", 400, async |s| settled(s, counts.0, counts.1, OLD).await).await;
    sim
}

pub fn strategy(surge: i32, unavailable: i32) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

pub async fn roll_workers(sim: &Sim, surge: i32, unavailable: i32) {
    let body = json!({"spec": {
        "rollout": {"strategy": strategy(surge, unavailable)},
        "template": {"spec": {"version": NEW}},
    }});
    sim.patch::<MachineDeployment>("harbor-md-0", body).await;
}

pub async fn roll_control_plane(sim: &Sim, surge: i32) {
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}});
    let body = json!({"spec": {"version": NEW, "rollout": {"strategy": rolling}}});
    sim.patch::<KubeadmControlPlane>("harbor-cp", body).await;
}

pub async fn control_plane_names(sim: &Sim) -> BTreeSet<String> {
    let machines: Vec<Machine> = sim.list().await;
    let mine = machines.iter().filter(|m| labels(*m).any(|l| l == "cluster.x-k8s.io/control-plane"));
    mine.filter_map(|m| m.metadata.name.clone()).collect()
}

pub async fn kept_workers(sim: &Sim, before: &[String]) -> usize {
    worker_names(sim).await.iter().filter(|name| before.contains(name)).count()
}

/// No Machine is on its way to another MachineSet and on its way out at once, none is updated and shown as up to date,
/// and nothing of an update is left on a Machine that is not updated.
pub async fn check_updates(sim: &Sim) {
    for machine in sim.list::<Machine>().await {
        let name = machine.metadata.name.clone().unwrap_or_default();
        let moves = annotation(&machine, keys::PENDING_ACKNOWLEDGE_MOVE).is_some();
        assert!(!(moves && machine.metadata.deletion_timestamp.is_some()), "{name} is moved and deleted");
        let pending = annotation(&machine, keys::PENDING_HOOKS).is_some();
        assert!(!(moves && pending), "{name} is updated before it was counted");
    }
}

pub async fn until(sim: &Sim, what: &str, limit_s: u64, done: impl AsyncFn(&Sim) -> bool) {
    let watched = async |s: &Sim| {
        check_updates(s).await;
        done(s).await
    };
    sim.until(what, limit_s, watched).await;
}

#[tokio::test(start_paused = true)]
async fn workers_are_updated_where_they_stand() {
    for (surge, unavailable, kept) in [(1, 0, 2), (0, 1, 3)] {
        let extension = Extension::new(&["x.ext"], Mood::Works);
        let mut sim = up(21, &extension, Handlers::One, (1, 3)).await;
        let before = worker_names(&sim).await;
        sim.workers_available_min = usize::try_from(3 - unavailable).expect("few");
        sim.machines_max = (1, usize::try_from(3 + surge).expect("few"));
        roll_control_plane(&sim, 1).await;
        sim.machines_max.0 = 2;
        until(&sim, "the control plane rolled", 900, async |s| {
            let kcp =
                s.get::<KubeadmControlPlane>("harbor-cp").await.and_then(|k| k.status).unwrap_or_default();
            kcp.versions.len() == 1 && kcp.versions[0].version == NEW && kcp.replicas == Some(1)
        })
        .await;
        roll_workers(&sim, surge, unavailable).await;
        until(&sim, "the workers rolled", 900, async |s| settled(s, 1, 3, NEW).await).await;
        assert_eq!(kept_workers(&sim, &before).await, kept, "surge {surge}, unavailable {unavailable}");
        assert_eq!(extension.count(Hook::CanUpdateMachineSet), 1, "the answer is remembered");
        for machine in sim.list::<Machine>().await {
            let marks = [keys::UPDATE_IN_PROGRESS, keys::PENDING_HOOKS, keys::PENDING_ACKNOWLEDGE_MOVE];
            assert!(marks.iter().all(|key| annotation(&machine, key).is_none()), "nothing is left of it");
        }
        for host in sim.list::<DevMachine>().await {
            assert!(annotation(&host, keys::UPDATE_IN_PROGRESS).is_none());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_is_updated_one_machine_at_a_time() {
    let extension = Extension::new(&["x.ext"], Mood::Works);
    let mut sim = up(22, &extension, Handlers::One, (3, 0)).await;
    let before = control_plane_names(&sim).await;
    sim.machines_max = (3, 0);
    roll_control_plane(&sim, 0).await;
    until(&sim, "the control plane rolled", 900, async |s| settled(s, 3, 0, NEW).await).await;
    assert_eq!(control_plane_names(&sim).await, before);
    let calls = extension.calls.lock().expect("no panic while held").clone();
    let updates: Vec<&String> =
        calls.iter().filter(|(hook, _)| *hook == Hook::UpdateMachine).map(|(_, name)| name).collect();
    assert_eq!(
        updates.len(),
        3 * usize::try_from(CALLS).expect("few"),
        "polled as it asked for: {updates:?}"
    );
    assert!(updates.chunks(3).all(|calls| calls.iter().all(|name| name == &calls[0])), "{updates:?}");
}

#[tokio::test(start_paused = true)]
async fn two_extensions_cover_a_change_together_only_when_allowed() {
    for (handlers, moves) in [(Handlers::Union, true), (Handlers::One, false)] {
        let extension = Extension::new(&["objects.ext", "version.ext"], Mood::Works);
        extension.turn("objects.ext", Mood::CoversObjects);
        extension.turn("version.ext", Mood::CoversVersion);
        let mut sim = up(23, &extension, handlers, (1, 2)).await;
        let before = worker_names(&sim).await;
        sim.machines_max = (1, 2);
        roll_workers(&sim, 0, 1).await;
        if moves {
            until(&sim, "the workers rolled", 900, async |s| updated(s, 2).await).await;
            assert_eq!(kept_workers(&sim, &before).await, 2);
        } else {
            tokio::time::sleep(Duration::from_secs(120)).await;
            assert_eq!(extension.count(Hook::CanUpdateMachineSet), 0, "none of several is asked");
            assert_eq!(kept_workers(&sim, &before).await, 2, "and nothing is replaced instead");
        }
    }
}

/// All workers run the new version.
pub async fn updated(sim: &Sim, count: i32) -> bool {
    at_version(sim, NEW, count).await
}

pub async fn at_version(sim: &Sim, version: &str, count: i32) -> bool {
    let deployment = sim.get::<MachineDeployment>("harbor-md-0").await.expect("a MachineDeployment");
    let status = deployment.status.unwrap_or_default();
    let is_new = status.versions.len() == 1 && status.versions[0].version == version;
    is_new
        && status.up_to_date_replicas == Some(count)
        && status.available_replicas == Some(count)
        && status.replicas == Some(count)
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_cannot_means_replacement() {
    let extension = Extension::new(&["x.ext"], Mood::Cannot);
    let mut sim = up(24, &extension, Handlers::One, (1, 2)).await;
    let before = worker_names(&sim).await;
    sim.workers_available_min = 1;
    roll_workers(&sim, 1, 0).await;
    until(&sim, "the workers rolled", 900, async |s| updated(s, 2).await).await;
    assert_eq!(kept_workers(&sim, &before).await, 0);
    assert_eq!(extension.count(Hook::UpdateMachine), 0);
}

#[tokio::test(start_paused = true)]
async fn whatever_is_wrong_with_the_questions_nothing_is_replaced_and_it_goes_on_later() {
    for (seed, mood) in (30..).zip([Mood::Down, Mood::Hangs, Mood::Nonsense]) {
        let extension = Extension::new(&["x.ext"], mood);
        let sim = up(seed, &extension, Handlers::One, (1, 2)).await;
        let before = worker_names(&sim).await;
        roll_workers(&sim, 0, 1).await;
        for _ in 0..120 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            check_updates(&sim).await;
        }
        assert_eq!(kept_workers(&sim, &before).await, 2, "{mood:?}");
        assert!(extension.count(Hook::CanUpdateMachineSet) > 2, "{mood:?}: it is asked again");
        extension.turn("x.ext", Mood::Works);
        until(&sim, "the workers rolled", 900, async |s| updated(s, 2).await).await;
        assert_eq!(kept_workers(&sim, &before).await, 2, "{mood:?}");
    }
}

/// What the Machine that is updated says of it.
pub async fn said(sim: &Sim) -> Option<(String, String)> {
    let machines: Vec<Machine> = sim.list().await;
    let updating =
        machines.iter().filter_map(|m| find(m.conditions(), "Updating")).find(|c| c.status == "True");
    updating.map(|c| (c.reason.clone(), c.message.clone()))
}

#[tokio::test(start_paused = true)]
async fn a_failing_update_is_seen_tried_again_and_recovers() {
    let extension = Extension::new(&["x.ext"], Mood::Works);
    let sim = up(40, &extension, Handlers::One, (1, 2)).await;
    let before = worker_names(&sim).await;
    roll_workers(&sim, 0, 1).await;
    let step = Some(("InPlaceUpdating".to_owned(), "In-place update in progress: step 1".to_owned()));
    until(&sim, "the first step", 300, async |s| said(s).await == step).await;
    extension.turn("x.ext", Mood::Down);
    let failed = Some((
        "InPlaceUpdateFailed".to_owned(),
        "UpdateMachine hook failed: please check controller logs for errors".to_owned(),
    ));
    until(&sim, "the failure shown", 60, async |s| said(s).await == failed).await;
    extension.turn("x.ext", Mood::Works);
    until(&sim, "the workers rolled", 1200, async |s| updated(s, 2).await).await;
    assert_eq!(kept_workers(&sim, &before).await, 2);
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_lies_about_the_kubelet_is_found_out() {
    let extension = Extension::new(&["x.ext"], Mood::Works);
    let sim = up(41, &extension, Handlers::One, (1, 2)).await;
    roll_workers(&sim, 0, 1).await;
    until(&sim, "the first step", 300, async |s| said(s).await.is_some()).await;
    extension.turn("x.ext", Mood::Lies);
    let found_out = async |s: &Sim| {
        let machines: Vec<Machine> = s.list().await;
        let lines = machines.iter().filter_map(|m| find(m.conditions(), "UpToDate"));
        let wrong = format!("* Node.status.nodeInfo.kubeletVersion {OLD}, {NEW} required");
        lines.filter(|c| c.status == "False").any(|c| c.message == wrong)
    };
    until(&sim, "the old kubelet noticed", 300, found_out).await;
    assert!(!updated(&sim, 2).await, "the rollout does not end");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_dies_in_between_goes_on() {
    let extension = Extension::new(&["x.ext"], Mood::Works);
    let mut sim = up(43, &extension, Handlers::One, (3, 2)).await;
    let before = (control_plane_names(&sim).await, worker_names(&sim).await);
    sim.machines_max = (3, 2);
    roll_control_plane(&sim, 0).await;
    roll_workers(&sim, 0, 1).await;
    for seed in 0..6 {
        let pause = Duration::from_millis(3700 + 900 * seed);
        tokio::time::sleep(pause).await;
        sim.restart(100 + seed);
        check_updates(&sim).await;
    }
    until(&sim, "all rolled", 1500, async |s| settled(s, 3, 2, NEW).await).await;
    assert_eq!(control_plane_names(&sim).await, before.0);
    assert_eq!(kept_workers(&sim, &before.1).await, 2);
}
