//! MachineHealthChecks in simulated time: a Node falls silent, its Machine is marked and its owner replaces it, as far
//! as the limits allow.

use std::time::Duration;

use capi_types::condition::{Conditioned as _, find, is_true};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_health_check::MachineHealthCheck;
use capstan_base::rng::Rng;
use capstan_engine::client::read;
use capstan_engine::client::write::Mode;
use capstan_worlds::provider::faults::Fault;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::simulation::{Sim, labels, manifest, settled, worker_names};

const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

fn cluster() -> ObjectKey {
    ObjectKey::new("default", "harbor")
}

/// A Node may be silent for a minute.
fn check(name: &str, selector: &Value, remediation: Value) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterName": "harbor", "selector": selector, "remediation": remediation, "checks": {
            "nodeStartupTimeoutSeconds": 300,
            "unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 60}]}}})
}

fn of_workers() -> Value {
    json!({"matchLabels": {"cluster.x-k8s.io/deployment-name": "harbor-md-0"}})
}

fn of_control_plane() -> Value {
    json!({"matchExpressions": [{"key": CONTROL_PLANE, "operator": "Exists"}]})
}

async fn fleet(seed: u64, control_plane: u32, workers: u32, checks: Vec<Value>) -> Sim {
    let sim = Sim::start(seed).await;
    let mut objects = manifest(control_plane, workers);
    objects.extend(checks);
    sim.create(objects).await;
    let (want_control_plane, want_workers) = (control_plane.cast_signed(), workers.cast_signed());
    let is_up = async |s: &Sim| settled(s, want_control_plane, want_workers, "v1.34.1").await;
    sim.until("all machines up", 400, is_up).await;
    sim
}

fn silence(sim: &Sim, node: &str, on: bool) {
    sim.world.set_fault(&cluster(), Fault::NodeSilent(node.to_owned()), on);
}

async fn control_plane_names(sim: &Sim) -> Vec<String> {
    let machines: Vec<Machine> = sim.list().await;
    let mine = machines.iter().filter(|m| labels(*m).any(|label| label == CONTROL_PLANE));
    mine.filter_map(|m| m.metadata.name.clone()).collect()
}

/// `Status/Reason Message` of a Machine's condition.
async fn said(sim: &Sim, machine: &str, type_: &str) -> String {
    let machine: Option<Machine> = sim.get(machine).await;
    let found = machine.as_ref().and_then(|m| find(m.conditions(), type_));
    found.map(|c| format!("{}/{} {}", c.status, c.reason, c.message)).unwrap_or_default()
}

/// Healthy of expected, and how many may be remediated.
async fn counts(sim: &Sim, check: &str) -> [Option<i32>; 3] {
    let check: MachineHealthCheck = sim.get(check).await.expect("the check");
    let status = check.status.unwrap_or_default();
    [status.current_healthy, status.expected_machines, status.remediations_allowed]
}

async fn events(sim: &Sim, reason: &str) -> Vec<String> {
    let all: Vec<Event> = sim.list().await;
    let mine = all.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    mine.filter_map(|event| event.message).collect()
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_kubelet_is_silent_is_replaced() {
    let sim = fleet(41, 1, 3, vec![check("workers", &of_workers(), json!(null))]).await;
    sim.until("three healthy", 60, async |s| counts(s, "workers").await == [Some(3), Some(3), Some(3)]).await;
    let old = worker_names(&sim).await;
    assert_eq!(said(&sim, &old[0], "HealthCheckSucceeded").await, "True/HealthCheckSucceeded ");

    silence(&sim, &old[0], true);
    sim.until("the Machine is marked", 100, async |s| {
        let health = said(s, &old[0], "HealthCheckSucceeded").await;
        health.starts_with("False/UnhealthyNode Health check failed:\n  * Condition Ready on Node is reporting status Unknown")
            && !said(s, &old[0], "OwnerRemediated").await.is_empty()
    })
    .await;
    sim.until("it is replaced", 400, async |s| {
        settled(s, 1, 3, "v1.34.1").await && !worker_names(s).await.contains(&old[0])
    })
    .await;
    assert!(worker_names(&sim).await.contains(&old[1]), "a healthy worker stays");
    let expected = format!("Machine default/{} has been marked as unhealthy by default/workers", old[0]);
    assert!(events(&sim, "MachineMarkedUnhealthy").await.contains(&expected));

    sim.until("three healthy again", 60, async |s| counts(s, "workers").await == [Some(3), Some(3), Some(3)])
        .await;
    let check: MachineHealthCheck = sim.get("workers").await.expect("the check");
    assert_eq!(check.metadata.owner_references.unwrap_or_default()[0].kind, "Cluster");
    let from = sim.clock.now() + chrono::TimeDelta::seconds(60);
    tokio::time::sleep(Duration::from_secs(660)).await;
    let trace = sim.handle.trace().entries();
    let later: Vec<_> = trace.iter().filter(|run| run.at >= from && run.writes > 0).collect();
    assert!(later.is_empty(), "at rest nothing is written: {later:?}");
    let runs = trace.iter().filter(|run| run.at >= from && run.controller == "machine-health-check").count();
    assert!(runs <= 5, "{runs} looks in ten minutes of rest");
}

#[tokio::test(start_paused = true)]
async fn a_storm_is_left_alone_until_it_is_over() {
    let limit = json!({"triggerIf": {"unhealthyLessThanOrEqualTo": "40%"}});
    let sim = fleet(42, 1, 3, vec![check("workers", &of_workers(), limit)]).await;
    let old = worker_names(&sim).await;
    silence(&sim, &old[0], true);
    silence(&sim, &old[1], true);
    sim.until("remediation is not allowed", 150, async |s| {
        let check: MachineHealthCheck = s.get("workers").await.expect("the check");
        find(check.conditions(), "RemediationAllowed").is_some_and(|c| {
            c.reason == "TooManyUnhealthy"
                && c.message.ends_with("(total: 3, unhealthy: 2, maxUnhealthy: 40%)")
        })
    })
    .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(worker_names(&sim).await, old, "nothing is replaced in a storm");
    assert!(said(&sim, &old[0], "HealthCheckSucceeded").await.starts_with("False/UnhealthyNode"));
    assert_eq!(said(&sim, &old[0], "OwnerRemediated").await, "");
    assert_eq!(counts(&sim, "workers").await, [Some(1), Some(3), Some(0)]);
    assert_eq!(events(&sim, "RemediationRestricted").await.len(), 1);

    silence(&sim, &old[1], false);
    sim.until("the one that is left is replaced", 400, async |s| {
        let now = worker_names(s).await;
        settled(s, 1, 3, "v1.34.1").await && !now.contains(&old[0]) && now.contains(&old[1])
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn machines_that_ask_for_it_are_excepted_or_replaced() {
    let sim = fleet(43, 1, 2, vec![check("workers", &of_workers(), json!(null))]).await;
    let old = worker_names(&sim).await;
    let annotate = |key: &str| json!({"metadata": {"annotations": {key: ""}}});
    sim.patch::<Machine>(&old[0], annotate("cluster.x-k8s.io/skip-remediation")).await;
    sim.patch::<Machine>(&old[1], annotate("cluster.x-k8s.io/remediate-machine")).await;
    silence(&sim, &old[0], true);
    sim.until("the marked one is replaced", 400, async |s| {
        let now = worker_names(s).await;
        now.len() == 2 && !now.contains(&old[1])
    })
    .await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(worker_names(&sim).await.contains(&old[0]), "the excepted one stays, silent as it is");
    assert_eq!(counts(&sim, "workers").await, [Some(1), Some(1), Some(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_member_of_three_is_replaced_when_quorum_allows() {
    let sim = fleet(44, 3, 0, vec![check("control-plane", &of_control_plane(), json!(null))]).await;
    let old = control_plane_names(&sim).await;
    let full = |name: &str, on| sim.world.set_fault(&cluster(), Fault::EtcdNoSpace(name.to_owned()), on);
    silence(&sim, &old[0], true);
    full(&old[0], true);
    full(&old[1], true);
    let refusal = "False/CannotBeRemediated KubeadmControlPlane can't remediate this Machine because this could result in \
                   loosing Kubernetes control plane components or in etcd quorum loss";
    sim.until("it is refused", 150, async |s| said(s, &old[0], "OwnerRemediated").await == refusal).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(control_plane_names(&sim).await, old, "quorum comes first");

    full(&old[1], false);
    sim.until("it is replaced", 600, async |s| {
        settled(s, 3, 0, "v1.34.1").await && !control_plane_names(s).await.contains(&old[0])
    })
    .await;
    let now = control_plane_names(&sim).await;
    assert!(now.contains(&old[1]) && now.contains(&old[2]));
    let control_plane: KubeadmControlPlane = sim.get("harbor-cp").await.expect("the control plane");
    let last = control_plane.status.and_then(|status| status.last_remediation).expect("a remediation");
    assert_eq!((last.machine, last.retry_count), (old[0].clone(), 0));
}

#[tokio::test(start_paused = true)]
async fn replacements_that_fail_again_and_again_come_to_an_end() {
    let sim = fleet(45, 3, 0, vec![check("control-plane", &of_control_plane(), json!(null))]).await;
    let limit = json!({"spec": {"remediation": {"maxRetry": 1, "retryPeriodSeconds": 300}}});
    sim.patch::<KubeadmControlPlane>("harbor-cp", limit).await;
    let mut ill = control_plane_names(&sim).await[0].clone();
    for retry in 0..2 {
        let before = control_plane_names(&sim).await;
        silence(&sim, &ill, true);
        if retry == 1 {
            let too_soon = "False/RemediationDeferred KubeadmControlPlane can't remediate this machine because the operation \
                            already failed in the latest 5m0s (RetryPeriodSeconds)";
            sim.until("it is too soon", 200, async |s| said(s, &ill, "OwnerRemediated").await == too_soon)
                .await;
        }
        sim.until("it is replaced", 900, async |s| {
            settled(s, 3, 0, "v1.34.1").await && !control_plane_names(s).await.contains(&ill)
        })
        .await;
        let now = control_plane_names(&sim).await;
        ill = now.into_iter().find(|name| !before.contains(name)).expect("a replacement");
    }
    silence(&sim, &ill, true);
    let over = "False/CannotBeRemediated KubeadmControlPlane can't remediate this machine because the operation already failed \
                1 times (MaxRetry)";
    sim.until("the limit is reached", 900, async |s| said(s, &ill, "OwnerRemediated").await == over).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(control_plane_names(&sim).await.contains(&ill));
}

/// Kinds of somebody's remediator, which promise no contract.
async fn define(sim: &Sim, kind: &str) {
    let plural = format!("{}s", kind.to_lowercase());
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.vet.io")},
        "spec": {"group": "vet.io", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open}}}}]},
    });
    let gvk = Gvk { namespaced: false, ..Gvk::of::<CustomResourceDefinition>() };
    let target = ObjectRef { gvk, key: ObjectKey::new("", format!("{plural}.vet.io")), uid: String::new() };
    sim.writer.create_value(&target, &definition, Mode::Real).await.expect("created");
}

async fn cures(sim: &Sim) -> Vec<Value> {
    let gvk = Gvk {
        group: "vet.io".to_owned(),
        version: "v1".to_owned(),
        kind: "Cure".to_owned(),
        plural: "cures".to_owned(),
        namespaced: true,
    };
    read::list_values(&sim.connection.client, &gvk, "default", "").await.expect("a list")
}

#[tokio::test(start_paused = true)]
async fn an_outside_remediator_is_asked_and_thanked() {
    let reference =
        json!({"templateRef": {"apiVersion": "vet.io/v1", "kind": "CureTemplate", "name": "gentle"}});
    let sim = fleet(46, 1, 2, vec![check("workers", &of_workers(), reference)]).await;
    define(&sim, "Cure").await;
    define(&sim, "CureTemplate").await;
    sim.create(vec![json!({"apiVersion": "vet.io/v1", "kind": "CureTemplate",
        "metadata": {"name": "gentle", "namespace": "default"}, "spec": {"template": {"spec": {"dose": 3}}}})])
        .await;
    let old = worker_names(&sim).await;
    silence(&sim, &old[0], true);
    sim.until("a request is made", 150, async |s| !cures(s).await.is_empty()).await;
    let cure = &cures(&sim).await[0];
    assert_eq!((&cure["metadata"]["name"], &cure["spec"]), (&json!(old[0]), &json!({"dose": 3})));
    assert_eq!(cure["metadata"]["ownerReferences"][0]["kind"], "Machine");
    sim.until("the Machine says so", 30, async |s| {
        said(s, &old[0], "ExternallyRemediated").await == "False/WaitingForRemediation "
    })
    .await;
    assert_eq!(said(&sim, &old[0], "OwnerRemediated").await, "", "its MachineSet is not asked");
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!((cures(&sim).await.len(), worker_names(&sim).await), (1, old.clone()));

    silence(&sim, &old[0], false);
    sim.until("the request is taken back", 60, async |s| {
        cures(s).await.is_empty() && said(s, &old[0], "HealthCheckSucceeded").await.starts_with("True")
    })
    .await;
}

/// What no remediation may do, in every simulated second.
async fn never_two_at_once(sim: &Sim) {
    let machines: Vec<Machine> = sim.list().await;
    let on_their_way = |control_plane: bool| {
        let mine =
            machines.iter().filter(|m| labels(*m).any(|label| label == CONTROL_PLANE) == control_plane);
        mine.filter(|m| m.metadata.deletion_timestamp.is_some()).count()
    };
    assert!(on_their_way(true) <= 1, "two control plane Machines go at once");
    assert!(on_their_way(false) <= 1, "maxInFlight is 1");
    sim.check().await;
}

#[tokio::test(start_paused = true)]
async fn faults_at_random_never_cost_quorum_nor_two_at_once() {
    let lives: u64 = std::env::var("CAPSTAN_HEALTH_LIVES").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for seed in 51..51 + lives {
        let checks = vec![
            check("control-plane", &of_control_plane(), json!(null)),
            check("workers", &of_workers(), json!(null)),
        ];
        let sim = fleet(seed, 3, 3, checks).await;
        sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"remediation": {"maxInFlight": 1}}}))
            .await;
        let chance = Rng::seeded(seed).stream("faults");
        for _ in 0..8 {
            let machines: Vec<Machine> = sim.list().await;
            let chosen = usize::try_from(chance.below(machines.len() as u64)).unwrap_or_default();
            let name = machines[chosen].metadata.name.clone().unwrap_or_default();
            if chance.unit() < 0.7 {
                silence(&sim, &name, chance.unit() < 0.8);
            } else {
                sim.world.set_fault(&cluster(), Fault::EtcdNoSpace(name), chance.unit() < 0.5);
            }
            for _ in 0..60 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                never_two_at_once(&sim).await;
            }
        }
        for machine in sim.list::<Machine>().await {
            let name = machine.metadata.name.clone().unwrap_or_default();
            silence(&sim, &name, false);
            sim.world.set_fault(&cluster(), Fault::EtcdNoSpace(name), false);
        }
        sim.until("well again", 1200, async |s| {
            never_two_at_once(s).await;
            let machines: Vec<Machine> = s.list().await;
            settled(s, 3, 3, "v1.34.1").await
                && machines.iter().all(|m| is_true(m.conditions(), "HealthCheckSucceeded"))
        })
        .await;
    }
}

/// It was a note: the member list, which has the members of silent hosts, was believed.
#[cfg(feature = "etcd")]
#[tokio::test(start_paused = true)]
async fn the_last_api_server_that_answers_is_not_deleted() {
    use capi_rules::etcd::report::Report;
    use capstan_dashboard::actions::{Action, Executor, Request};
    use capstan_dashboard::operations::ClusterEtcd;
    use capstan_dashboard::operations::guard::Guard;
    use capstan_dashboard::operations::journal::Journal;
    use capstan_dashboard::operations::{EtcdReader as _, Severity};

    let sim = fleet(21, 3, 0, Vec::new()).await;
    let names = control_plane_names(&sim).await;
    let [last, silent @ ..] = names.as_slice() else { panic!("{names:?}") };
    silent.iter().for_each(|node| silence(&sim, node, true));
    let is_seen = async |s: &Sim| {
        said(s, &silent[0], "NodeReady").await.starts_with("Unknown")
            && said(s, &silent[1], "NodeReady").await.starts_with("Unknown")
    };
    sim.until("both Nodes are unknown", 120, is_seen).await;
    assert!(said(&sim, &silent[0], "EtcdMemberHealthy").await.starts_with("True"), "as upstream has it");

    let reader = || ClusterEtcd { connection: sim.connection.clone(), clock: sim.clock.clone() };
    let report = Report::of(&reader().look(&cluster()).await.expect("a look"), None);
    let answers: Vec<_> = report.members.iter().map(|row| row.answer()).collect();
    assert_eq!(report.healthy, 1, "{report:#?}");
    assert_eq!(answers.iter().filter(|answer| *answer == "node unreachable").count(), 2, "{answers:?}");

    let folder = tempfile::tempdir().expect("a folder");
    let journal = Journal::at(folder.path().join("journal.jsonl"));
    let executor =
        Executor::new(sim.connection.clone(), &Guard::new(journal, sim.clock.clone(), "ada".to_owned()));
    let executor = executor.with_etcd(reader());
    let machine = |name: &str| ObjectRef {
        gvk: Gvk::of::<Machine>(),
        key: ObjectKey::new("default", name),
        uid: String::new(),
    };
    for action in [Action::Delete, Action::Remediate] {
        let preview =
            executor.preview(&Request::new(machine(last), action.clone())).await.expect("a preview");
        let blockers: Vec<_> = preview.findings.iter().filter(|f| f.severity == Severity::Blocker).collect();
        let end = format!("{last} is the last API server that answers");
        let is_named = |text: &str| {
            text.starts_with("2 of 3 control plane Nodes are unreachable") && text.ends_with(&end)
        };
        assert!(
            blockers.iter().any(|f| f.rule == "last-api-server" && is_named(&f.text)),
            "{action}: {blockers:?}"
        );
        assert!(blockers.iter().any(|f| f.rule == "quorum-lost"), "{action}: {blockers:?}");
        assert!(executor.perform(&preview).await.is_err(), "{action}");
    }
    assert_eq!(control_plane_names(&sim).await.len(), 3);
}
