//! What is looked at node by node, only where a change reaches it: certificates that are served, kubelets, etcd's leader, the
//! endpoint. Owns which look a plan needs; must not judge what is seen.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use futures::stream::iter;
use serde_json::Value;

use super::node_lease;
use super::read::is_ready;
use crate::client::read::get_value;
use crate::client::{Client, Error, explain};
use crate::workload::WorkloadError;
use crate::workload::static_pods::{page, secure_page, served_names};
use kubeadm_change::kubelet_drift;
use kubeadm_change::live::LiveNode;
use kubeadm_change::plan::{ChangePlan, PlanOptions};
use kubeadm_change::render::{API_SERVER, ETCD};
use kubeadm_change::running::{EtcdProgress, Running, Sighting};
use kubeadm_change::steps::StepId;

/// Looks that are made at once.
const AT_ONCE: usize = 16;
/// kubeadm lets etcd serve its metrics there, on the loopback address.
const ETCD_METRICS_PORT: u16 = 2381;
const ETCD_PORT: u16 = 2379;
/// The certificates that are seen at a port, by the step that issues them anew.
const CERTIFICATES: [SeenCertificate; 2] = [(StepId::C1, "apiserver"), (StepId::C2, "etcd-server")];

/// The step that issues it anew, and kubeadm's name of it.
type SeenCertificate = (StepId, &'static str);

/// Fills in what the steps of a plan are judged by.
pub async fn look(client: &Client, plan: &ChangePlan, running: &mut Running) {
    running.is_endpoint_ready = Some(is_ready(client).await);
    if plan.steps.iter().any(|step| step.id.restarts_control_plane()) {
        control_plane(client, running).await;
    }
    for seen in CERTIFICATES {
        certificates(client, plan, running, seen).await;
    }
    kubelets(client, plan, running).await;
    members(client, plan, running).await;
}

/// Asks each member of etcd, where members take their turns.
async fn members(client: &Client, plan: &ChangePlan, running: &mut Running) {
    if !plan.steps.iter().any(|step| matches!(step.id, StepId::C2 | StepId::E1)) {
        return;
    }
    let nodes: Vec<String> = running.control_plane.iter().map(|node| node.host.name.clone()).collect();
    let asked = iter(nodes).map(|name| async move {
        let metrics = page(client.clone(), &format!("{ETCD}-{name}"), ETCD_METRICS_PORT, "/metrics").await;
        (name, metrics.map_or_else(|error| not_seen(&error), |metrics| member(&metrics)))
    });
    let seen = asked.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    // Where none of them shows its metrics, somebody has moved these elsewhere.
    if !seen.iter().any(|(_, member)| matches!(member, Sighting::Known(_))) {
        return;
    }
    for (name, member) in seen {
        if let Some(node) = running.nodes.get_mut(&name) {
            node.member = member;
        }
    }
}

/// Of a member that serves no such metrics nothing is known.
fn member(metrics: &str) -> Sighting<EtcdProgress> {
    let (committed, applied) = (
        number(metrics, "etcd_server_proposals_committed_total"),
        number(metrics, "etcd_server_proposals_applied_total"),
    );
    let (Some(committed), Some(applied)) = (committed, applied) else {
        return Sighting::Hidden("its metrics do not say how far it is".to_owned());
    };
    let has_leader = value(metrics, "etcd_server_has_leader").is_some_and(|value| value == "1");
    Sighting::Known(EtcdProgress { has_leader, committed, applied })
}

/// Asks each API server by itself, and its kubelet for a sign of life.
async fn control_plane(client: &Client, running: &mut Running) {
    let hosts: Vec<(String, u16)> =
        running.control_plane.iter().map(|node| (node.host.name.clone(), node.host.port)).collect();
    let asked = iter(hosts).map(|(name, port)| async move {
        // A kubelet reports through the API server beside it:
        // with that one down, pods and Node show the past.
        let (server, heartbeat) = tokio::join!(api_server(client, &name, port), heartbeat(client, &name));
        (name, server, heartbeat)
    });
    for (name, server, heartbeat) in asked.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
        if let Some(node) = running.nodes.get_mut(&name) {
            (node.api_server, node.heartbeat) = (server, heartbeat);
        }
    }
}

async fn api_server(client: &Client, node: &str, port: u16) -> Sighting<()> {
    for path in ["/livez", "/readyz"] {
        match secure_page(client.clone(), &format!("{API_SERVER}-{node}"), port, path).await {
            Ok(_) => {}
            // Without anonymous access it answers 401: it is there, but does not say how it is.
            Err(WorkloadError::Refused(words)) => return Sighting::Hidden(words),
            Err(other) => return Sighting::Unknown(other.to_string()),
        }
    }
    Sighting::Known(())
}

/// When the kubelet of a node last renewed its Lease, by its own clock. `None`: nobody may see that, or it never did.
pub async fn heartbeat(client: &Client, node: &str) -> Option<String> {
    let lease = get_value(client, &node_lease(node)).await.ok().flatten()?;
    lease["spec"]["renewTime"].as_str().map(str::to_owned)
}

async fn certificates(
    client: &Client,
    plan: &ChangePlan,
    running: &mut Running,
    (step, certificate): SeenCertificate,
) {
    let nodes: BTreeSet<&str> = plan.steps_of(step).collect();
    see_certificate(client, &nodes, running, (step, certificate)).await;
}

/// Fills in what the API server and the member of etcd of every control plane node serve.
pub async fn all_certificates(client: &Client, running: &mut Running) {
    for seen in CERTIFICATES {
        let component = if seen.0 == StepId::C1 { API_SERVER } else { ETCD };
        // An external etcd has no pod here.
        let live = running.control_plane.iter().filter(|live| live.static_pods.contains_key(component));
        let names: Vec<String> = live.map(|live| live.host.name.clone()).collect();
        let nodes: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        see_certificate(client, &nodes, running, seen).await;
    }
}

async fn see_certificate(
    client: &Client,
    nodes: &BTreeSet<&str>,
    running: &mut Running,
    (step, certificate): SeenCertificate,
) {
    let looks: Vec<(String, String, u16)> = running
        .control_plane
        .iter()
        .filter(|live| nodes.contains(live.host.name.as_str()))
        .map(|LiveNode { host, .. }| {
            let (component, port) =
                if step == StepId::C1 { (API_SERVER, host.port) } else { (ETCD, ETCD_PORT) };
            (host.name.clone(), format!("{component}-{}", host.name), port)
        })
        .collect();
    let seen = iter(looks).map(|(name, pod, port)| async move {
        let names = served_names(client.clone(), &pod, port).await;
        (name, names.map_or_else(|error| not_seen(&error), Sighting::Known))
    });
    for (name, names) in seen.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
        if let Some(node) = running.nodes.get_mut(&name) {
            node.served.insert(certificate, names);
        }
    }
}

fn not_seen<T>(error: &WorkloadError) -> Sighting<T> {
    match error {
        WorkloadError::Refused(words) => {
            Sighting::Hidden(format!("{words} (it needs the right: create pods/portforward)"))
        }
        other => Sighting::Unknown(other.to_string()),
    }
}

async fn kubelets(client: &Client, plan: &ChangePlan, running: &mut Running) {
    let names = plan.steps_of(StepId::K1).chain(plan.steps_of(StepId::K2)).map(str::to_owned).collect();
    ask_kubelets(client, names, running).await;
}

/// The nodes whose kubelet runs otherwise than `stored`, with what differs. Every kubelet is asked.
pub async fn stale_kubelets(
    client: &Client,
    stored: &Value,
    running: &mut Running,
) -> BTreeMap<String, Vec<String>> {
    ask_kubelets(client, running.nodes.keys().cloned().collect(), running).await;
    let differences = running.nodes.iter().filter_map(|(name, node)| {
        let Sighting::Known(live) = &node.kubelet else { return None };
        Some((name.clone(), kubelet_drift::find(stored, live, node.kubelet_minor)))
    });
    differences.filter(|(_, lines)| !lines.is_empty()).collect()
}

async fn ask_kubelets(client: &Client, names: Vec<String>, running: &mut Running) {
    let seen = iter(names).map(|name| async move {
        let seen = kubelet(client, &name).await;
        (name, seen)
    });
    for (name, kubelet) in seen.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
        if let Some(node) = running.nodes.get_mut(&name) {
            node.kubelet = kubelet;
        }
    }
}

/// The configuration that a kubelet has in effect.
async fn kubelet(client: &Client, node: &str) -> Sighting<Value> {
    let path = format!("/api/v1/nodes/{node}/proxy/configz");
    let Ok(request) = http::Request::get(path).body(Vec::new()) else {
        return Sighting::Hidden(format!("{node} cannot stand in an address"));
    };
    match client.request::<Value>(request).await {
        Ok(mut answer) => match answer.get_mut("kubeletconfig").map(Value::take) {
            Some(configuration @ Value::Object(_)) => Sighting::Known(configuration),
            _ => Sighting::Hidden("/configz shows no kubeletconfig".to_owned()),
        },
        Err(error @ Error::Api(_)) if is_refusal(&error) => Sighting::Hidden(format!(
            "{} (it needs the right: get nodes/proxy)",
            explain(&error, "the cluster")
        )),
        // Of the API server, which did not get an answer itself.
        Err(Error::Api(status)) if matches!(status.code, 500..=599) => Sighting::Unknown(format!(
            "the kubelet of {node} does not answer ({}): {}",
            status.code, status.message
        )),
        Err(error) => Sighting::Unknown(explain(&error, &format!("the kubelet of {node}"))),
    }
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Api(status) if matches!(status.code, 401 | 403 | 404 | 405))
}

/// Fills in what the metrics of etcd's members show, where the plan depends on it: who leads, and how large the largest
/// database is, each `None` when no member says so. False where the plan depends on neither; the members are not asked then.
pub async fn etcd_members(
    client: &Client,
    plan: &ChangePlan,
    running: &Running,
    options: &mut PlanOptions,
) -> bool {
    let (leader, database) = (needs_leader(plan), needs_database(plan));
    if !leader && !database {
        return false;
    }
    let pages = member_metrics(client, running).await;
    if leader {
        let leading = pages.iter().find(|(_, metrics)| leads(metrics));
        options.etcd_leader = leading.map(|(name, _)| name.clone());
    }
    if database {
        options.etcd_database_bytes = pages.iter().filter_map(|(_, metrics)| database_bytes(metrics)).max();
    }
    true
}

/// The metrics of each member that shows them, with its node.
async fn member_metrics(client: &Client, running: &Running) -> Vec<(String, String)> {
    let nodes: Vec<String> = running.control_plane.iter().map(|node| node.host.name.clone()).collect();
    let asked = iter(nodes).map(|name| async move {
        let metrics = page(client.clone(), &format!("{ETCD}-{name}"), ETCD_METRICS_PORT, "/metrics").await;
        Some((name, metrics.ok()?))
    });
    asked.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await.into_iter().flatten().collect()
}

fn leads(metrics: &str) -> bool {
    value(metrics, "etcd_server_is_leader").is_some_and(|value| value == "1")
}

fn database_bytes(metrics: &str) -> Option<u64> {
    number(metrics, "etcd_mvcc_db_total_size_in_bytes")
}

/// A metric that counts something.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // counts, and bytes of a database
fn number(metrics: &str, name: &str) -> Option<u64> {
    // Prometheus writes large numbers as 2.5e+07.
    let number: f64 = value(metrics, name)?.parse().ok()?;
    (number >= 0.0).then_some(number as u64)
}

/// The value of a metric without labels.
fn value<'m>(metrics: &'m str, name: &str) -> Option<&'m str> {
    metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::trim)
}

/// Does a verdict of the plan depend on the size of etcd's database?
fn needs_database(plan: &ChangePlan) -> bool {
    plan.changes.iter().any(|judged| judged.change.path.to_string() == QUOTA)
}

const QUOTA: &str = "etcd.local.extraArgs[quota-backend-bytes]";

/// Does the order of a plan depend on who leads?
fn needs_leader(plan: &ChangePlan) -> bool {
    let steps = plan.steps.iter().filter(|step| matches!(step.id, StepId::C2 | StepId::E1));
    steps.count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_say_who_leads() {
        assert!(leads(
            "# HELP etcd_server_is_leader Whether\netcd_server_has_leader 1\netcd_server_is_leader 1\n"
        ));
        assert!(!leads("etcd_server_has_leader 1\netcd_server_is_leader 0\n") && !leads(""));
    }

    #[test]
    fn metrics_say_how_far_a_member_is() {
        let page = "etcd_server_has_leader 1\netcd_server_proposals_applied_total 1.2e+03\netcd_server_proposals_committed_total 1201\n";
        let known = EtcdProgress { has_leader: true, committed: 1_201, applied: 1_200 };
        assert_eq!(member(page), Sighting::Known(known));
        assert!(matches!(member("etcd_server_has_leader 1\n"), Sighting::Hidden(_)));
    }

    #[test]
    fn metrics_say_how_large_the_database_is() {
        let page =
            "# TYPE etcd_mvcc_db_total_size_in_bytes gauge\netcd_mvcc_db_total_size_in_bytes 2.5165824e+07\n";
        assert_eq!(database_bytes(page), Some(25_165_824));
        assert_eq!(database_bytes("etcd_mvcc_db_total_size_in_use_in_bytes 1\n"), None);
    }
}
