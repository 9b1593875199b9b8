//! Rollouts of our engine and simulated machines under a paused clock, watched by the rollout screen: what it names as
//! acting never waits for its turn. Which Machines wait is taken from the API, not from the screen's own rules.

use std::time::Duration;

use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capstan_base::rng::Rng;
use capstan_dashboard::actions::{ClusterPlans, Planner};
use capstan_dashboard::fleet::watch::{self, Scope};
use capstan_dashboard::fleet::{Delta, SourceId};
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::plans::PlanReading;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::subject::Subject;
use capstan_dashboard::tui::update::update;
use ratatui::layout::Rect;
use serde_json::json;

use super::simulation::{Sim, manifest, settled};

struct Watched {
    sim: Sim,
    model: Model,
    planner: Planner,
    batches: tokio::sync::mpsc::Receiver<Vec<Delta>>,
    _source: watch::Source,
    /// Times at which the plans were read.
    readings: usize,
}

impl Watched {
    /// A well cluster whose rollout is open.
    async fn start(seed: u64, control_plane: u32, workers: u32) -> Self {
        let mut sim = Sim::start(seed).await;
        sim.machines_max = (9, 9);
        let scope = Scope { namespace: Some("default".to_owned()) };
        let (batches, source) =
            watch::spawn(&sim.connection, SourceId(0), scope, sim.clock.clone(), Rng::seeded(seed));
        let look = Look::load("default", "default", Tier::None, true, None, command::check)
            .expect("shipped files load");
        let model = Model::new(Session::default(), look, Rect::new(0, 0, 120, 40), sim.clock.now());
        let planner = Planner::new(sim.connection.clone(), sim.clock.clone());
        let mut watched = Self { sim, model, planner, batches, _source: source, readings: 0 };
        watched.sim.create(manifest(control_plane, workers)).await;
        watched.until_settled("v1.34.1", control_plane, workers).await;
        press(&mut watched.model, "2").expect("keys");
        watched
    }

    async fn second(&mut self) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.model.now = self.sim.clock.now();
        let mut effects = Vec::new();
        while let Ok(batch) = self.batches.try_recv() {
            effects.extend(update(&mut self.model, Msg::Fleet(batch)));
        }
        effects.extend(update(&mut self.model, Msg::Tick));
        for effect in effects {
            let Effect::Read { subject: subject @ Subject::Plans(_), .. } = effect else { continue };
            let key = ObjectKey::new("default", "harbor");
            let lists = self.planner.lists(&key).await.expect("lists");
            let ClusterPlans { forecast, ahead } = self.planner.plans(lists, &key, &[]);
            let reading = PlanReading { plans: Ok(forecast), ahead, authors: Vec::new(), took_ms: 0 };
            self.readings += 1;
            let outcome = EffectOutcome::Read { subject, reading: Reading::Plans(reading) };
            update(&mut self.model, Msg::Done(outcome));
        }
    }

    async fn until_settled(&mut self, version: &str, control_plane: u32, workers: u32) {
        let count = |n: u32| i32::try_from(n).expect("a few");
        for _ in 0..900 {
            self.second().await;
            if settled(&self.sim, count(control_plane), count(workers), version).await {
                for _ in 0..20 {
                    self.second().await;
                }
                return;
            }
        }
        panic!("not settled:\n{}", text(&mut self.model));
    }

    /// Old Machines that nothing happens to, by the API.
    async fn queued(&self, version: &str) -> Vec<String> {
        let machines = self.sim.list::<Machine>().await;
        let waits = |m: &Machine| {
            m.spec.version.as_deref() != Some(version) && m.metadata.deletion_timestamp.is_none()
        };
        let name = |m: Machine| m.metadata.name.unwrap_or_default();
        machines
            .into_iter()
            .filter(waits)
            .map(name)
            .map(|name| name.rsplit('-').next().unwrap_or_default().to_owned())
            .collect()
    }
}

/// The lines between NOW and NEXT.
fn now_of(screen: &str) -> String {
    let lines = screen.lines().skip_while(|line| !line.contains("NOW "));
    lines.take_while(|line| !line.contains("NEXT ")).collect::<Vec<_>>().join("\n")
}

#[tokio::test(start_paused = true)]
async fn what_acts_never_waits_for_its_turn() {
    let mut watched = Watched::start(21, 3, 3).await;
    assert_eq!(watched.readings, 0, "nothing rolls, so no plan is read");
    let version = json!({"spec": {"version": "v1.35.0"}});
    watched.sim.patch::<KubeadmControlPlane>("harbor-cp", version).await;
    let body = json!({"spec": {"template": {"spec": {"version": "v1.35.0"}}}});
    watched.sim.patch::<MachineDeployment>("harbor-md-0", body).await;
    let (mut named, mut waited) = (0, 0);
    for _ in 0..600 {
        watched.second().await;
        let screen = text(&mut watched.model);
        let now = now_of(&screen);
        let queued = watched.queued("v1.35.0").await;
        named += usize::from(now.contains("starts") || now.contains("joins") || now.contains("goes"));
        waited += usize::from(screen.contains("waits for the control plane"));
        for name in &queued {
            assert!(!now.contains(name.as_str()), "{name} waits for its turn:\n{screen}");
        }
        if settled(&watched.sim, 3, 3, "v1.35.0").await {
            break;
        }
    }
    assert!(
        named >= 30 && waited >= 10,
        "{named} seconds with something that acts, {waited} of waiting workers"
    );
    for _ in 0..20 {
        watched.second().await;
    }
    let screen = text(&mut watched.model);
    assert!(screen.contains("finished ") && screen.contains(", 6 Machines, slowest "), "{screen}");
    let readings = watched.readings;
    for _ in 0..120 {
        watched.second().await;
    }
    assert_eq!(watched.readings, readings, "nothing changes, so nothing is asked");
}

/// A Machine that somebody deletes in the middle acts as well, and the rest of the rollout goes on.
#[tokio::test(start_paused = true)]
async fn a_pause_and_a_deletion_in_the_middle() {
    let mut watched = Watched::start(22, 1, 3).await;
    let body = json!({"spec": {"template": {"spec": {"version": "v1.34.0"}}}});
    watched.sim.patch::<MachineDeployment>("harbor-md-0", body).await;
    for _ in 0..6 {
        watched.second().await;
    }
    watched.sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"paused": true}})).await;
    for _ in 0..90 {
        watched.second().await;
    }
    let screen = text(&mut watched.model);
    assert!(screen.contains("MachineDeployment harbor-md-0 is paused (paused"), "{screen}");
    assert!(screen.contains("P on this line resumes it"), "{screen}");
    let name = watched.queued("v1.34.0").await.pop().expect("an old Machine");
    let full = format!("-{name}");
    let machines = watched.sim.list::<Machine>().await;
    let doomed =
        machines.into_iter().filter_map(|m| m.metadata.name).find(|n| n.ends_with(&full)).expect("there");
    watched.sim.delete::<Machine>(&doomed).await;
    watched.sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"paused": false}})).await;
    watched.second().await;
    watched.second().await;
    let now = now_of(&text(&mut watched.model));
    assert!(now.contains(&format!("{name} goes")), "{now}");
}
