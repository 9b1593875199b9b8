//! Forecasts in previews, held against what then happens: actions in the middle of a rollout that an engine carries out.

use std::time::Duration;

use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capstan_dashboard::actions::{Action, Executor, Outlook, PlanChange, Preview, Request};
use capstan_dashboard::operations::guard::Guard;
use capstan_dashboard::operations::journal::Journal;
use serde_json::json;

use super::simulation::{Sim, manifest, settled};

async fn preview(sim: &Sim, gvk: Gvk, name: &str, action: Action) -> Preview {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = Journal::at(folder.path().join("journal"));
    let guard = Guard::new(journal, sim.clock.clone(), "ada".to_owned());
    let target = ObjectRef { gvk, key: ObjectKey::new("default", name), uid: String::new() };
    let executor = Executor::new(sim.connection.clone(), &guard);
    executor.preview(&Request::new(target, action)).await.expect("a preview")
}

fn known(preview: &Preview) -> &PlanChange {
    match &preview.outlook {
        Outlook::Known(change) => change,
        other => panic!("{other:?}"),
    }
}

/// Until the control plane has a Machine that has no Node yet.
async fn in_the_middle(sim: &Sim) {
    sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"version": "v1.34.2"}})).await;
    let is_coming = |machine: &Machine| machine.status.as_ref().is_none_or(|s| s.node_ref.is_none());
    sim.until("a Machine comes", 120, async |s| s.list::<Machine>().await.iter().any(is_coming)).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_waited_for_during_a_pause_is_not_overdue_after_it() {
    let sim = Sim::start(71).await;
    sim.create(manifest(3, 1)).await;
    sim.until("3 + 1 machines up", 400, async |s| settled(s, 3, 1, "v1.34.1").await).await;
    in_the_middle(&sim).await;
    let pause = preview(&sim, Gvk::of::<Cluster>(), "harbor", Action::Pause).await;
    let before = &known(&pause).before;
    assert!(before.contains("KubeadmControlPlane harbor-cp: "), "{before}");
    assert!(pause.findings.iter().any(|f| f.rule == "stops-halfway"), "{:?}", pause.findings);
    sim.patch::<Cluster>("harbor", json!({"spec": {"paused": true}})).await;
    tokio::time::sleep(Duration::from_secs(1_800)).await;
    let resume = preview(&sim, Gvk::of::<Cluster>(), "harbor", Action::Resume).await;
    let course = &known(&resume).course;
    assert!(course.first().is_some_and(|line| line.starts_with("done in ")), "{:?}", known(&resume));
    sim.patch::<Cluster>("harbor", json!({"spec": {"paused": null}})).await;
    sim.until("the upgrade ended", 400, async |s| {
        s.get::<KubeadmControlPlane>("harbor-cp")
            .await
            .is_some_and(|plane| plane.status.and_then(|status| status.version).as_deref() == Some("v1.34.2"))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_for_later_is_forecast_to_its_end() {
    let sim = Sim::start(72).await;
    sim.create(manifest(3, 2)).await;
    sim.until("3 + 2 machines up", 400, async |s| settled(s, 3, 2, "v1.34.1").await).await;
    let at = sim.clock.now() + chrono::TimeDelta::hours(2);
    for (gvk, name) in
        [(Gvk::of::<KubeadmControlPlane>(), "harbor-cp"), (Gvk::of::<MachineDeployment>(), "harbor-md-0")]
    {
        let later = preview(&sim, gvk, name, Action::RolloutAfter { at }).await;
        let course = &known(&later).course;
        assert!(
            course.first().is_some_and(|line| line.starts_with("done in about 2 hours")),
            "{name}: {course:?}"
        );
    }
}
