//! Asking every host for what no API shows of it: files that are not what runs. Owns who is asked; what differs is
//! `kubeadm_change::host_drift`'s.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use futures::stream::iter;

use super::preflight::{Hands, answer};
use kubeadm_change::host_drift;
use kubeadm_change::render::ClusterSettings;
use kubeadm_change::running::Running;

/// Hosts that are asked at once.
const AT_ONCE: usize = 16;

/// What hosts say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLook {
    /// What differs, a sentence each, by node.
    pub differences: BTreeMap<String, Vec<String>>,
    /// Why a host could not be asked, a sentence each.
    pub gaps: Vec<String>,
}

/// Asks the hosts of all nodes.
pub async fn look(hands: &Hands<'_>, running: &Running, settings: &ClusterSettings<'_>) -> HostLook {
    let asked = iter(running.nodes.iter()).map(|(name, node)| async move {
        let mut live = running.control_plane.iter().map(|live| &live.host);
        let host = live.find(|host| host.name == *name);
        let answer = answer(hands, running, name, &host_drift::question(settings, host)).await;
        (name, answer.map(|answer| host_drift::differences(&answer, settings, host, &node.addresses)))
    });
    let mut found = HostLook::default();
    for (name, seen) in asked.buffered(AT_ONCE).collect::<Vec<_>>().await {
        match seen {
            Ok(lines) if lines.is_empty() => {}
            Ok(lines) => drop(found.differences.insert(name.clone(), lines)),
            Err(why) => found.gaps.push(format!("{name}: nothing can be run there: {why}")),
        }
    }
    found
}
