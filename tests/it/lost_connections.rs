//! A workload API that is away: what was known of it stays until the grace period is over, and comes back with it.

use capi_types::condition::{Conditioned as _, find};
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capstan_worlds::provider::faults::Fault;

use super::simulation::{Sim, manifest};

async fn workers(sim: &Sim) -> Option<i32> {
    let deployment: MachineDeployment = sim.get("harbor-md-0").await.expect("the deployment");
    deployment.status.and_then(|status| status.available_replicas)
}

/// Status and reason of NodeReady, each once.
async fn nodes_ready(sim: &Sim) -> Vec<(String, String)> {
    let machines: Vec<Machine> = sim.list().await;
    let ready = machines.iter().filter_map(|machine| find(machine.conditions(), "NodeReady"));
    let mut ready: Vec<_> = ready.map(|c| (c.status.clone(), c.reason.clone())).collect();
    ready.sort();
    ready.dedup();
    ready
}

fn said(status: &str, reason: &str) -> Vec<(String, String)> {
    vec![(status.to_owned(), reason.to_owned())]
}

#[tokio::test(start_paused = true)]
async fn what_was_known_outlives_the_api_by_the_grace_period() {
    let sim = Sim::start(30).await;
    sim.create(manifest(3, 2)).await;
    sim.until("two workers", 300, async |sim: &Sim| workers(sim).await == Some(2)).await;
    let harbor = ObjectKey::new("default", "harbor");
    for away_s in [1, 45, 200] {
        sim.world.set_fault(&harbor, Fault::Unreachable, true);
        tokio::time::sleep(std::time::Duration::from_secs(away_s)).await;
        assert_eq!(nodes_ready(&sim).await, said("True", "NodeReady"), "after {away_s} s");
        assert_eq!(workers(&sim).await, Some(2), "after {away_s} s");
        sim.world.set_fault(&harbor, Fault::Unreachable, false);
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        assert_eq!(workers(&sim).await, Some(2), "after {away_s} s, and back");
    }
    sim.world.set_fault(&harbor, Fault::Unreachable, true);
    tokio::time::sleep(std::time::Duration::from_secs(310)).await;
    assert_eq!(nodes_ready(&sim).await, said("Unknown", "ConnectionDown"));
    sim.world.set_fault(&harbor, Fault::Unreachable, false);
    sim.until("two workers again", 60, async |sim: &Sim| workers(sim).await == Some(2)).await;
}
