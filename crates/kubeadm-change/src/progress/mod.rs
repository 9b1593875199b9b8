//! How far a change is, node by node and component by component, read from what runs: nothing is remembered. Owns the
//! states and their evidence; must not know in which order things are done, nor how they are seen.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::certificate_drift::other_names;
use super::difference::{FieldChange, differences};
use super::document::{DocumentKind, Inputs};
use super::facts::{ClusterFacts, ManagedBy};
use super::kubelet_drift;
use super::plan::{ChangePlan, find_drift, pod_differences};
use super::render::{
    self, API_SERVER, CONTROLLER_MANAGER, ClusterSettings, ETCD, HostFacts, NodeArtefacts, RenderError,
    SCHEDULER, StaticPod,
};
use super::request::WantedDocuments;
use super::rules::Component;
use super::running::{AddonState, Running, RunningNode, Sighting};
use super::steps::StepId;

/// How far something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ItemState {
    /// The cluster shows it.
    Done,
    /// No API shows it.
    Manual,
    /// Not begun.
    Pending,
    /// Begun, and not at its end.
    InProgress,
    /// It cannot be seen now.
    Unknown,
    /// It shows that it went wrong.
    Failed,
}

impl ItemState {
    /// As people read it, in lower case.
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Manual => "manual",
            Self::Pending => "pending",
            Self::InProgress => "in progress",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }
}

/// One thing of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgressItem {
    /// The step that it is a part of.
    pub step: StepId,
    /// Empty for what is there once.
    pub node: String,
    /// `None`: it is not about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component: Option<Component>,
    /// How far it is.
    pub state: ItemState,
    /// What shows it.
    pub evidence: String,
}

/// What progress is read from.
pub struct Situation<'s> {
    /// The plan that is being carried out.
    pub plan: &'s ChangePlan,
    /// The documents that it leads to.
    pub target: &'s WantedDocuments,
    /// As it is stored now.
    pub inputs: &'s Inputs,
    /// What the cluster shows now.
    pub running: &'s Running,
}

/// Every item, in the order of steps.
///
/// # Errors
/// The configuration cannot be rendered.
pub fn progress(situation: &Situation<'_>) -> Result<Vec<ProgressItem>, RenderError> {
    let artefacts = Artefacts::of(situation)?;
    let mut items = Vec::new();
    for step in &situation.plan.steps {
        if step.nodes.is_empty() {
            items.push(once(situation, step.id));
            continue;
        }
        for node in &step.nodes {
            items.extend(on_node(situation, &artefacts, step.id, node));
            if let Some(id) = step.joined {
                let joined = on_node(situation, &artefacts, id, node);
                items.extend(joined.into_iter().map(|item| ProgressItem { step: step.id, ..item }));
            }
        }
    }
    // The last step is judged behind all others: its state depends on theirs.
    if let Some(end) = items.iter().position(|item| item.step == StepId::X) {
        let mut others = items.iter().filter(|item| item.step != StepId::X);
        let is_over = others.all(|item| matches!(item.state, ItemState::Done | ItemState::Manual));
        (items[end].state, items[end].evidence) = compared(situation, is_over)?;
    }
    Ok(items)
}

/// The last step: what runs is what is stored.
fn compared(situation: &Situation<'_>, is_over: bool) -> Result<(ItemState, String), RenderError> {
    if !is_over {
        return Ok((ItemState::Pending, "after everything else".to_owned()));
    }
    let Some(cluster) = situation.target.document(DocumentKind::Cluster) else {
        return Ok((ItemState::Done, "nothing else runs".to_owned()));
    };
    let control_plane = situation.running.control_plane.clone();
    // Drift is found from manifests alone; the other facts are not read for progress.
    let facts = ClusterFacts { control_plane, ..ClusterFacts::default() };
    let settings = ClusterSettings::new(&cluster.new, None)?;
    // What was drift before, and no step of this plan writes, is not this plan's to mend.
    let drift = situation.plan.drift.iter().filter(|_| situation.plan.as_stored.is_none());
    let known: BTreeSet<(&str, &str)> =
        drift.map(|drift| (drift.node.as_str(), drift.component.as_str())).collect();
    let left = find_drift(&settings, &settings, &facts)?;
    let new = left.iter().find(|drift| !known.contains(&(drift.node.as_str(), drift.component.as_str())));
    Ok(match new {
        Some(drift) => (
            ItemState::Failed,
            format!(
                "{} on {} runs otherwise than stored: {}",
                drift.component,
                drift.node,
                drift.differences.join(", ")
            ),
        ),
        None => match new_trouble(situation) {
            Some(words) => (ItemState::InProgress, words),
            None => (ItemState::Done, "what runs is what is stored".to_owned()),
        },
    })
}

/// What does not run of any control plane node, and ran before: a restart may take its neighbours along, on other nodes, too.
fn new_trouble(situation: &Situation<'_>) -> Option<String> {
    let troubles = situation.running.troubles();
    let (node, component) = troubles.difference(&situation.running.before.troubles).next()?;
    let pod = situation.running.nodes.get(node).and_then(|node| node.pods.get(component.as_str()));
    let why = pod.and_then(|pod| pod.trouble.as_deref()).unwrap_or("it is not Ready");
    Some(format!("{component} on {node}: {why}"))
}

/// Before and after on each control plane node.
struct Artefacts(Vec<(HostFacts, NodeArtefacts, NodeArtefacts)>);

impl Artefacts {
    fn of(situation: &Situation<'_>) -> Result<Self, RenderError> {
        let Some(cluster) = situation.target.document(DocumentKind::Cluster) else {
            return Ok(Self(Vec::new()));
        };
        let (old, new) = ClusterSettings::pair(&cluster.old, &cluster.new)?;
        let hosts = situation.running.control_plane.iter().map(|node| node.host.clone());
        let rendered = hosts.map(|host| {
            let (before, after) = (render::node(&old, &host)?, render::node(&new, &host)?);
            Ok((host, before, after))
        });
        rendered.collect::<Result<_, _>>().map(Self)
    }

    fn node(&self, name: &str) -> Option<&(HostFacts, NodeArtefacts, NodeArtefacts)> {
        self.0.iter().find(|(host, ..)| host.name == name)
    }
}

fn item(step: StepId, node: &str, component: Option<Component>, seen: (ItemState, String)) -> ProgressItem {
    ProgressItem { step, node: node.to_owned(), component, state: seen.0, evidence: seen.1 }
}

fn once(situation: &Situation<'_>, id: StepId) -> ProgressItem {
    let running = situation.running;
    let (component, seen) = match id {
        StepId::G1 if situation.plan.managed_by == ManagedBy::ControlPlane => {
            (None, (ItemState::Manual, "the KubeadmControlPlane is in the management cluster".to_owned()))
        }
        StepId::G1 => (None, document(situation, DocumentKind::Cluster)),
        StepId::G2 => (None, document(situation, DocumentKind::Kubelet)),
        StepId::G3 => (None, document(situation, DocumentKind::Proxy)),
        StepId::P1 => (Some(Component::KubeProxy), kube_proxy(situation, running.kube_proxy.as_ref())),
        StepId::D1 => (Some(Component::CoreDns), coredns(situation, running.coredns.as_ref())),
        _ => (None, (ItemState::Manual, "no API shows it".to_owned())),
    };
    item(id, "", component, seen)
}

fn document(situation: &Situation<'_>, kind: DocumentKind) -> (ItemState, String) {
    let (Some(wanted), Some(stored)) = (situation.target.document(kind), situation.inputs.document(kind))
    else {
        return (ItemState::Unknown, format!("{} was not read", kind.name()));
    };
    let differs = |from: &Value| !differences(kind, from, &stored.value).is_empty();
    // The new one is compared first: where both mean the same, nothing is left to be written.
    if !differs(&wanted.new) {
        (ItemState::Done, "it is stored".to_owned())
    } else if !differs(&wanted.old) {
        (ItemState::Pending, "the old one is stored".to_owned())
    } else {
        let words = "something else is stored: somebody changed it since this change was begun; see `capstan change diff`";
        (ItemState::Failed, words.to_owned())
    }
}

fn rollout(state: &AddonState, what: &str) -> (ItemState, String) {
    if state.is_rolled_out() {
        (ItemState::Done, format!("{} of {} {what} are new and available", state.updated, state.wanted))
    } else {
        let words =
            format!("{} of {} {what} are new, {} available", state.updated, state.wanted, state.available);
        (ItemState::InProgress, words)
    }
}

fn kube_proxy(situation: &Situation<'_>, state: Option<&AddonState>) -> (ItemState, String) {
    let Some(state) = state else {
        return (ItemState::Unknown, "DaemonSet kube-system/kube-proxy was not read".to_owned());
    };
    // An image that the change does not touch is not judged: somebody may have set another one.
    if let Some((old, new)) = images(situation, |images| images.kube_proxy)
        && old != new
        && state.image != new
    {
        return (ItemState::Pending, format!("the image is {}", state.image));
    }
    let is_changed = situation.plan.changes.iter().any(|judged| judged.change.kind == DocumentKind::Proxy);
    if is_changed && state.is_older_than(&situation.running.proxy_written_at) {
        return (
            ItemState::Pending,
            "its pods were not restarted since the ConfigMap was written".to_owned(),
        );
    }
    rollout(state, "pods")
}

fn coredns(situation: &Situation<'_>, state: Option<&AddonState>) -> (ItemState, String) {
    let Some(state) = state else {
        return (ItemState::Unknown, "Deployment kube-system/coredns was not read".to_owned());
    };
    match images(situation, |images| images.coredns) {
        Some((_, new)) if state.image != new => (ItemState::Pending, format!("the image is {}", state.image)),
        _ => rollout(state, "pods"),
    }
}

fn images(situation: &Situation<'_>, of: impl Fn(render::AddonImages) -> String) -> Option<(String, String)> {
    let cluster = situation.target.document(DocumentKind::Cluster)?;
    let (old, new) = ClusterSettings::pair(&cluster.old, &cluster.new).ok()?;
    // Without a stored tag the one that runs stays: kubeadm's own changes with its patch releases.
    let running = situation.running.coredns.as_ref().map(|state| state.image.as_str());
    Some((of(old.addon_images(running)), of(new.addon_images(running))))
}

/// One for each part of it that can be looked at from outside.
fn on_node(situation: &Situation<'_>, artefacts: &Artefacts, id: StepId, name: &str) -> Vec<ProgressItem> {
    let Some(node) = situation.running.nodes.get(name) else {
        return vec![item(id, name, None, (ItemState::Unknown, "there is no such Node".to_owned()))];
    };
    match id {
        StepId::C1 => vec![certificates(situation, artefacts, id, name, Component::Certificates)],
        StepId::C2 => vec![certificates(situation, artefacts, id, name, Component::EtcdCertificates)],
        StepId::E1 => pods(situation, artefacts, id, name, node, &[(ETCD, Component::Etcd)]),
        StepId::M1 => {
            let all = [
                (API_SERVER, Component::ApiServer),
                (CONTROLLER_MANAGER, Component::ControllerManager),
                (SCHEDULER, Component::Scheduler),
            ];
            pods(situation, artefacts, id, name, node, &all)
        }
        StepId::K1 | StepId::K2 => {
            vec![item(id, name, Some(Component::Kubelet), kubelet(situation, id, node))]
        }
        _ => vec![item(id, name, None, (ItemState::Manual, "no API shows it".to_owned()))],
    }
}

fn pods(
    situation: &Situation<'_>,
    artefacts: &Artefacts,
    id: StepId,
    name: &str,
    node: &RunningNode,
    components: &[(&'static str, Component)],
) -> Vec<ProgressItem> {
    let live = situation.running.control_plane.iter().find(|live| live.host.name == name);
    let Some((_, before, after)) = artefacts.node(name) else {
        let seen = (ItemState::Unknown, "there is no mirror pod of its API server".to_owned());
        return vec![item(id, name, None, seen)];
    };
    let empty = StaticPod::default();
    let mut items = Vec::new();
    for (pod, component) in components {
        let of = |artefacts: &NodeArtefacts| artefacts.static_pods.get(pod).cloned().unwrap_or_default();
        let (old, new) = (of(before), of(after));
        let wanted = pod_differences(&old, &new);
        // A certificate's restart shows in the certificate.
        if wanted.is_empty() && situation.plan.as_stored.is_none() {
            continue;
        }
        let running = live.and_then(|live| live.static_pods.get(pod)).unwrap_or(&empty);
        let stale = situation.running.staleness(name);
        let seen = match otherwise(situation, name, pod) {
            Some(line) if node.ready && node.pods.contains_key(pod) => {
                (ItemState::Pending, format!("it runs otherwise than stored: {line}"))
            }
            _ => manifest(&wanted, (running, &new), node, pod, stale),
        };
        items.push(item(id, name, Some(*component), seen));
    }
    items
}

/// How a pod runs otherwise than stored, where what is stored is rolled out.
fn otherwise<'s>(situation: &Situation<'s>, node: &str, pod: &str) -> Option<&'s String> {
    situation.plan.as_stored?;
    let drift = situation.plan.drift.iter().find(|drift| drift.node == node && drift.component == pod)?;
    drift.differences.first()
}

/// One static pod: does it run with everything that the change makes different? Other differences are drift. One that lacks
/// something is to be mended, whatever its state: why it does not run may be what the change takes away.
fn manifest(
    wanted: &[String],
    (running, new): (&StaticPod, &StaticPod),
    node: &RunningNode,
    pod: &str,
    stale: Option<String>,
) -> (ItemState, String) {
    if let Some(why) = stale.as_ref().filter(|_| !node.ready) {
        return (ItemState::Unknown, why.clone());
    }
    let Some(state) = node.pods.get(pod) else {
        return (ItemState::InProgress, "there is no mirror pod now".to_owned());
    };
    let trouble = state.trouble.as_ref();
    let mut left = pod_differences(running, new).into_iter().filter(|line| is_wanted(line, wanted));
    // An old mirror pod proves what is missing, not what is there: staleness counts only against done.
    match (left.next(), stale, trouble) {
        (Some(first), _, None) => (ItemState::Pending, format!("it runs without {first}")),
        (Some(first), _, Some(trouble)) => {
            (ItemState::Pending, format!("it does not run ({trouble}), and lacks {first}"))
        }
        (None, Some(why), _) => (ItemState::Unknown, why),
        (None, None, Some(trouble)) => (ItemState::Failed, trouble.clone()),
        (None, None, None) if state.ready => {
            (ItemState::Done, "it runs with the new arguments and is Ready".to_owned())
        }
        (None, None, None) => {
            (ItemState::InProgress, "it runs with the new arguments and is not Ready".to_owned())
        }
    }
}

/// Lines about images and variables name both sides, and what runs may be a third one.
fn is_wanted(line: &str, wanted: &[String]) -> bool {
    let head = |line: &str| line.split([' ', ':']).next().unwrap_or_default().to_owned();
    match head(line).as_str() {
        kind @ ("image" | "environment") => wanted.iter().any(|other| head(other) == kind),
        _ => wanted.iter().any(|other| other == line),
    }
}

fn certificates(
    situation: &Situation<'_>,
    artefacts: &Artefacts,
    id: StepId,
    name: &str,
    component: Component,
) -> ProgressItem {
    let (certificate, pod) = match component {
        Component::Certificates => ("apiserver", API_SERVER),
        // One step issues both certificates, so that the server's stands for both.
        _ => ("etcd-server", ETCD),
    };
    let node = situation.running.nodes.get(name);
    let served = node.and_then(|node| node.served.get(certificate));
    let seen = match (artefacts.node(name), node, served) {
        (_, Some(node), Some(Sighting::Unknown(why))) => no_answer(situation, name, node, why),
        (_, _, Some(Sighting::Hidden(why))) => (ItemState::Manual, why.clone()),
        (Some((_, before, after)), _, _)
            if component == Component::EtcdCertificates && is_of_peers(before, after) =>
        {
            // The pod's port is forwarded from its loopback address, where etcd does not serve peers.
            (ItemState::Manual, "only the certificate for peers changes, and no API shows it".to_owned())
        }
        (Some((_, before, after)), Some(node), Some(Sighting::Known(served))) => {
            let names = |artefacts: &NodeArtefacts| names_of(artefacts, certificate);
            let left = if situation.plan.as_stored.is_some() {
                served_otherwise(&names(after), served)
            } else {
                served_names(&names(before), &names(after), served)
            };
            match (left, situation.running.staleness(name)) {
                (Some(left), _) => (ItemState::Pending, left),
                (None, Some(why)) => (ItemState::InProgress, why),
                (None, None) if node.pods.get(pod).is_some_and(|pod| !pod.ready) => {
                    (ItemState::InProgress, "the new certificate is served, the pod is not Ready".to_owned())
                }
                (None, None) => (ItemState::Done, "the certificate that is served has the names".to_owned()),
            }
        }
        _ => (ItemState::Manual, "the certificate that is served was not looked at".to_owned()),
    };
    item(id, name, Some(component), seen)
}

fn names_of(artefacts: &NodeArtefacts, certificate: &str) -> Vec<String> {
    artefacts.certificates.get(certificate).cloned().unwrap_or_default()
}

/// Does a change reach no name but those of etcd's certificate for its peers?
fn is_of_peers(before: &NodeArtefacts, after: &NodeArtefacts) -> bool {
    // Where both change, the certificate that etcd serves shows it for both.
    let changes = |certificate| names_of(before, certificate) != names_of(after, certificate);
    changes("etcd-peer") && !changes("etcd-server")
}

/// What restarts does not answer for a while; that is not the end of the change.
fn no_answer(situation: &Situation<'_>, name: &str, node: &RunningNode, why: &str) -> (ItemState, String) {
    match situation.running.staleness(name) {
        Some(stale) if !node.ready => (ItemState::Unknown, stale),
        _ => (ItemState::InProgress, why.to_owned()),
    }
}

/// What the certificate that is served lacks, or still has.
fn served_names(before: &[String], after: &[String], served: &BTreeSet<String>) -> Option<String> {
    // Names that stand on both sides are not of this change: what else is served is drift.
    if let Some(missing) = after.iter().find(|name| !before.contains(name) && !served.contains(*name)) {
        return Some(format!("the certificate that is served does not name {missing}"));
    }
    let left = before.iter().find(|name| !after.contains(name) && served.contains(*name))?;
    Some(format!("the certificate that is served still names {left}"))
}

/// How the certificate that is served differs, where what is stored is rolled out.
fn served_otherwise(stored: &[String], served: &BTreeSet<String>) -> Option<String> {
    let first = other_names(stored, served).into_iter().next()?;
    Some(format!("the certificate that is served differs from what is stored: {first}"))
}

fn kubelet(situation: &Situation<'_>, id: StepId, node: &RunningNode) -> (ItemState, String) {
    if !node.ready {
        return (ItemState::Unknown, "the Node is not Ready".to_owned());
    }
    let live = match &node.kubelet {
        Sighting::Known(live) => live,
        Sighting::Unknown(why) => return (ItemState::Unknown, why.clone()),
        Sighting::Hidden(why) => return (ItemState::Manual, why.clone()),
        Sighting::NotAsked => return (ItemState::Manual, "/configz was not asked for".to_owned()),
    };
    let changes = situation.plan.changes.iter().map(|judged| &judged.change);
    let mut ours = changes.filter(|change| change.kind == DocumentKind::Kubelet);
    let Some(wanted) = situation.target.document(DocumentKind::Kubelet) else {
        return (ItemState::Manual, "KubeletConfiguration was not read".to_owned());
    };
    let against = |document: &Value| differences(DocumentKind::Kubelet, live, document);
    let (mut from_new, from_old) = (against(&wanted.new), against(&wanted.old));
    // /configz never shows what this kubelet does not read.
    from_new.retain(|change| !kubelet_drift::is_ignored(change, node.kubelet_minor));
    let has =
        |found: &[FieldChange], change: &FieldChange| found.iter().any(|other| other.path == change.path);
    let is_left = |change: &&FieldChange| {
        // The default of a field that is taken away, or stored as zero, is the kubelet's own: it is only seen that the old
        // value is gone.
        let is_old = !has(&from_old, change);
        has(&from_new, change) && (is_old || !kubelet_drift::becomes_default(change))
    };
    if situation.plan.as_stored.is_some()
        && let Some(line) = kubelet_drift::find(&wanted.new, live, node.kubelet_minor).first()
    {
        return (ItemState::Pending, format!("/configz differs from what is stored: {line}"));
    }
    match ours.find(is_left) {
        Some(left) => (ItemState::Pending, format!("/configz still has the old {}", left.path)),
        None if id == StepId::K2 && node.drained_by_us => {
            (ItemState::InProgress, "/configz has the new values, the node does not take pods".to_owned())
        }
        None => (ItemState::Done, "/configz has the new values".to_owned()),
    }
}

/// The worst state of the items of a step on its nodes; done when there is none.
pub fn state_of<'i>(
    items: impl IntoIterator<Item = &'i ProgressItem>,
) -> (ItemState, Option<&'i ProgressItem>) {
    // The order of the variants is that of concern, from done to failed.
    let worst = items.into_iter().max_by_key(|item| item.state);
    (worst.map_or(ItemState::Done, |item| item.state), worst)
}

#[cfg(test)]
mod tests;
