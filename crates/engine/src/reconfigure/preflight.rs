//! Asking every host that a change goes to whether it has what the change needs, before anything is written. Owns who is asked;
//! what a host needs is `kubeadm_change::preflight`'s.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use futures::stream::iter;

use super::executor::{CommandTarget, NodeExecutor};
use super::way::HostWay;
use capstan_base::command_line::CommandLine;
use kubeadm_change::plan::ChangePlan;
use kubeadm_change::preflight::HostNeeds;
use kubeadm_change::render::ClusterSettings;
use kubeadm_change::running::Running;

/// Hosts that are asked at once.
const AT_ONCE: usize = 16;

/// Who runs commands on hosts, and how hosts are reached.
#[derive(Clone)]
pub struct Hands<'a> {
    pub executor: &'a dyn NodeExecutor,
    pub way: HostWay,
}

/// What is missing on hosts, a sentence each, by node.
pub async fn missing(
    hands: &Hands<'_>,
    plan: &ChangePlan,
    running: &Running,
    settings: &ClusterSettings<'_>,
) -> Vec<String> {
    let nodes: BTreeSet<String> = plan.steps.iter().flat_map(|step| step.nodes.iter().cloned()).collect();
    let asked = iter(nodes).map(|node| async move {
        let needs = HostNeeds::of(plan, &node, settings);
        let missing = match answer(hands, running, &node, &needs.question()).await {
            Ok(answer) => needs.missing(&answer),
            Err(why) => vec![format!("nothing can be run there: {why}")],
        };
        (node, missing)
    });
    let mut found = asked.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    // Hosts answer in any order.
    found.sort();
    found
        .into_iter()
        .flat_map(|(node, missing)| missing.into_iter().map(move |what| format!("{node}: {what}")))
        .collect()
}

/// What a line that only reads prints on the host of a node.
pub(super) async fn answer(
    hands: &Hands<'_>,
    running: &Running,
    node: &str,
    line: &CommandLine,
) -> Result<String, String> {
    let address = running.nodes.get(node).and_then(|seen| seen.address.as_deref());
    let host = hands.way.host(node, address).map_err(|error| error.to_string())?;
    let target = CommandTarget { node: node.to_owned(), host };
    hands.executor.look(&target, line).await.map_err(|error| error.words())
}
