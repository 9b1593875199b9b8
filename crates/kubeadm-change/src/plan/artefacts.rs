//! Which components of which nodes a change reaches: what kubeadm writes is rendered before and after, and only what
//! differs counts. Owns the reduction; must not know steps.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::certificate_drift::{API_SERVER_CERTIFICATE, ETCD_CERTIFICATE};
use super::super::document::DocumentKind;
use super::super::render::{
    self, API_SERVER, CONTROLLER_MANAGER, ClusterSettings, ETCD, HostFacts, NodeArtefacts, RenderError,
    SCHEDULER, StaticPod,
};
use super::super::rules::Component;
use super::super::steps::StepId;
use super::{AsStored, Drift, JudgedChange};

/// One component, the nodes on which it is reached, and what differs there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reach {
    /// What is restarted or written anew.
    pub component: Component,
    /// Empty for what is there once, and for every kubelet.
    pub nodes: Vec<String>,
    /// One line for each thing that differs, on the first of the nodes.
    pub differences: Vec<String>,
}

const PODS: [(&str, Component); 4] = [
    (ETCD, Component::Etcd),
    (API_SERVER, Component::ApiServer),
    (CONTROLLER_MANAGER, Component::ControllerManager),
    (SCHEDULER, Component::Scheduler),
];
/// How a restart for a certificate is told from a manifest that is written anew.
pub(super) const RESTARTS: &str = "restarts with the new certificate";
const CERTIFICATES: [(&str, Component); 3] = [
    ("apiserver", Component::Certificates),
    ("etcd-server", Component::EtcdCertificates),
    ("etcd-peer", Component::EtcdCertificates),
];

/// What a change reaches, in the order in which it is carried out. `coredns` is the image with which CoreDNS runs.
pub(super) fn reach(
    old: &ClusterSettings<'_>,
    new: &ClusterSettings<'_>,
    hosts: &[HostFacts],
    judged: &[JudgedChange],
    coredns: Option<&str>,
) -> Result<Vec<Reach>, RenderError> {
    let mut found: BTreeMap<Component, Reach> = BTreeMap::new();
    for host in hosts {
        let (before, after) = (render::node(old, host)?, render::node(new, host)?);
        for (component, lines) in node_differences(&before, &after) {
            let reach = found.entry(component).or_insert_with(|| Reach {
                component,
                nodes: Vec::new(),
                differences: Vec::new(),
            });
            // A certificate and a manifest may reach the same component.
            if reach.nodes.first().is_none_or(|first| *first == host.name) {
                reach.differences.extend(lines);
            }
            if !reach.nodes.contains(&host.name) {
                reach.nodes.push(host.name.clone());
            }
        }
    }
    let (before, after) = (old.addon_images(coredns), new.addon_images(coredns));
    let mut once = |component: Component, lines: Vec<String>| {
        if !lines.is_empty() {
            let reach = found.entry(component).or_insert_with(|| Reach {
                component,
                nodes: Vec::new(),
                differences: Vec::new(),
            });
            reach.differences.extend(lines);
        }
    };
    // An add-on that is switched off is not there, or somebody else's.
    if !new.is_disabled("proxy") {
        once(Component::KubeProxy, image_line(&before.kube_proxy, &after.kube_proxy));
    }
    if !new.is_disabled("dns") {
        once(Component::CoreDns, image_line(&before.coredns, &after.coredns));
    }
    for component in [Component::KubeProxy, Component::Kubelet] {
        once(component, changed_fields(judged, component));
    }
    // What no document shows.
    let rewritten =
        judged.iter().filter(|judged| judged.finding.steps.iter().any(|step| step == StepId::F1.name()));
    once(Component::Kubeconfigs, rewritten.map(|judged| format!("by {}", judged.change.path)).collect());
    // The variants of `Component` stand in the order in which they are carried out.
    Ok(found.into_values().collect())
}

/// What is rolled out where only what is stored is asked for: whatever runs otherwise.
pub(super) fn reach_of_drift(drift: &[Drift], as_stored: AsStored) -> Vec<Reach> {
    let mut found: BTreeMap<Component, Reach> = BTreeMap::new();
    let reach = |component| Reach { component, nodes: Vec::new(), differences: Vec::new() };
    let pods = PODS.into_iter().filter(|(name, _)| *name != ETCD || as_stored.etcd);
    let certificates =
        [(API_SERVER_CERTIFICATE, Component::Certificates), (ETCD_CERTIFICATE, Component::EtcdCertificates)];
    for (name, component) in pods.chain(certificates) {
        for drift in drift.iter().filter(|drift| drift.component == name) {
            let reach = found.entry(component).or_insert_with(|| reach(component));
            if reach.nodes.is_empty() {
                reach.differences = drift.differences.iter().map(|line| reversed(line)).collect();
            }
            reach.nodes.push(drift.node.clone());
        }
    }
    // Whoever goes on has not looked at the certificates before the plan: how far each node is, is seen later.
    for (is_otherwise, certificate, component) in [
        (as_stored.certificates.api_server, Component::Certificates, Component::ApiServer),
        (as_stored.certificates.etcd, Component::EtcdCertificates, Component::Etcd),
    ] {
        if is_otherwise {
            found.entry(certificate).or_insert_with(|| reach(certificate));
            let restarted = found.entry(component).or_insert_with(|| reach(component));
            restarted.differences.push(RESTARTS.to_owned());
        }
    }
    if as_stored.kubelets {
        found.insert(Component::Kubelet, reach(Component::Kubelet));
    }
    found.into_values().collect()
}

/// A line about what differs, read from the other side.
pub(super) fn reversed(line: &str) -> String {
    if let Some(rest) = line.strip_prefix("+ ") {
        return format!("- {rest}");
    }
    if let Some(rest) = line.strip_prefix("- ") {
        return format!("+ {rest}");
    }
    match line.rsplit_once(' ').and_then(|(head, new)| Some((head.strip_suffix(" →")?, new))) {
        Some((head, new)) => {
            let (what, old) = head.rsplit_once(' ').unwrap_or(("", head));
            format!("{what} {new} → {old}").trim_start().to_owned()
        }
        None => line.to_owned(),
    }
}

fn image_line(before: &str, after: &str) -> Vec<String> {
    if before == after { Vec::new() } else { vec![format!("image {before} → {after}")] }
}

/// The fields of the component's own document that reach it.
fn changed_fields(judged: &[JudgedChange], component: Component) -> Vec<String> {
    let kind = if component == Component::Kubelet { DocumentKind::Kubelet } else { DocumentKind::Proxy };
    let reaching = judged.iter().filter(|judged| judged.finding.touches.contains(&component));
    let changes = reaching.map(|judged| &judged.change).filter(|change| change.kind == kind);
    changes.map(|change| format!("{}: {} → {}", change.path, change.old_text(), change.new_text())).collect()
}

fn node_differences(before: &NodeArtefacts, after: &NodeArtefacts) -> Vec<(Component, Vec<String>)> {
    let mut found = Vec::new();
    for (name, component) in CERTIFICATES {
        let empty = Vec::new();
        let (old, new) =
            (before.certificates.get(name).unwrap_or(&empty), after.certificates.get(name).unwrap_or(&empty));
        let lines = lost_and_gained("name ", old, new);
        if !lines.is_empty() {
            found.push((component, lines));
            // A component reads its certificate when it starts.
            found.push((
                if component == Component::Certificates { Component::ApiServer } else { Component::Etcd },
                vec![RESTARTS.to_owned()],
            ));
        }
    }
    for (name, component) in PODS {
        let empty = StaticPod::default();
        let (old, new) =
            (before.static_pods.get(name).unwrap_or(&empty), after.static_pods.get(name).unwrap_or(&empty));
        let lines = pod_differences(old, new);
        if !lines.is_empty() {
            found.push((component, lines));
        }
    }
    found
}

/// What differs between two manifests. Flags are compared in order per name, and without order between names.
pub(in super::super) fn pod_differences(old: &StaticPod, new: &StaticPod) -> Vec<String> {
    let mut lines = lost_and_gained("", &by_name(&old.command), &by_name(&new.command));
    lines.extend(image_line(&old.image, &new.image));
    let texts = |values: &[serde_json::Value]| values.iter().map(ToString::to_string).collect::<Vec<_>>();
    // Not every kubeadm writes variables in one order.
    let count = lost_and_gained("", &texts(&old.env), &texts(&new.env)).len();
    if count > 0 {
        let plural = if count == 1 { "" } else { "s" };
        lines.push(format!("environment: {count} difference{plural}"));
    }
    let volume = |v: &render::Volume| format!("{} {} {}", v.name, v.host_path, v.type_);
    let mount = |m: &render::Mount| {
        format!("{} {}{}", m.name, m.mount_path, if m.read_only { " (read-only)" } else { "" })
    };
    let all = |pod: &StaticPod| pod.volumes.iter().map(volume).collect::<Vec<_>>();
    lines.extend(lost_and_gained("volume ", &all(old), &all(new)));
    let all = |pod: &StaticPod| pod.volume_mounts.iter().map(mount).collect::<Vec<_>>();
    lines.extend(lost_and_gained("mount ", &all(old), &all(new)));
    lines
}

/// All values of a flag in one text, so that their order counts.
fn by_name(command: &[String]) -> Vec<String> {
    let mut flags: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for argument in command {
        let name = argument.split('=').next().unwrap_or_default();
        flags.entry(name).or_default().push(argument);
    }
    flags.into_values().map(|values| values.join(" ")).collect()
}

fn lost_and_gained(what: &str, old: &[String], new: &[String]) -> Vec<String> {
    let lost = old.iter().filter(|item| !new.contains(item)).map(|item| format!("- {what}{item}"));
    let gained = new.iter().filter(|item| !old.contains(item)).map(|item| format!("+ {what}{item}"));
    lost.chain(gained).collect()
}
