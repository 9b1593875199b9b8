//! Workers that a health check found unhealthy, in simulated time: their MachineSet replaces them, no more at once
//! than its MachineDeployment allows.

use capi_types::condition::{Conditioned as _, find};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capstan_engine::client::write::{Mode, Precondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use super::simulation::{Sim, manifest, settled, worker_names};

/// What a MachineHealthCheck writes on a Machine that it wants replaced.
async fn find_unhealthy(sim: &Sim, name: &str) {
    let before: Machine = sim.get(name).await.expect("the Machine");
    let mut after = before.clone();
    for (type_, reason) in
        [("HealthCheckSucceeded", "UnhealthyNode"), ("OwnerRemediated", "WaitingForRemediation")]
    {
        after.conditions_mut().push(Condition {
            type_: type_.to_owned(),
            status: "False".to_owned(),
            reason: reason.to_owned(),
            message: "the Node is silent".to_owned(),
            last_transition_time: capstan_base::time::to_k8s(sim.clock.now()),
            observed_generation: None,
        });
    }
    sim.writer.patch(&before, &after, &Precondition::default(), Mode::Real).await.expect("patched");
}

async fn mark(sim: &Sim, name: &str) -> String {
    let machine: Option<Machine> = sim.get(name).await;
    let mark = machine.as_ref().and_then(|m| find(m.conditions(), "OwnerRemediated"));
    mark.map(|c| format!("{} {}", c.reason, c.message)).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn unhealthy_workers_are_replaced_one_at_a_time() {
    let sim = Sim::start(31).await;
    sim.create(manifest(1, 3)).await;
    sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"remediation": {"maxInFlight": 1}}})).await;
    sim.until("1 + 3 machines up", 180, async |s| settled(s, 1, 3, "v1.34.1").await).await;
    let old = worker_names(&sim).await;
    find_unhealthy(&sim, &old[0]).await;
    sim.until("the first is on its way", 10, async |s| {
        mark(s, &old[0]).await == "MachineDeleting Machine is deleting"
            || s.get::<Machine>(&old[0]).await.is_none()
    })
    .await;
    find_unhealthy(&sim, &old[1]).await;
    sim.until("the second waits for the first", 10, async |s| {
        mark(s, &old[1]).await
            == "RemediationDeferred Waiting because there are already too many remediations in progress \
                (spec.strategy.remediation.maxInFlight is 1)"
    })
    .await;
    sim.until("both replaced", 300, async |s| {
        let now = worker_names(s).await;
        settled(s, 1, 3, "v1.34.1").await && !now.contains(&old[0]) && !now.contains(&old[1])
    })
    .await;
    assert!(worker_names(&sim).await.contains(&old[2]), "a healthy worker stays");
}
