//! The order of steps: what is kept, what is written once, then etcd, API servers with the rest of the control plane,
//! add-ons, kubelets. Owns order, batches, commands and the expected disruption; must not know rules.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::document::DocumentKind;
use super::super::facts::{ClusterFacts, ManagedBy};
use super::super::host_folder;
use super::super::node_file::{NodeFile, NodeFileKind};
use super::super::render::{self, API_SERVER, AddonImages, ClusterSettings, ETCD, HostFacts};
use super::super::rules::{Component, ControlPlaneEffect};
use super::super::steps::{StepId, StepScope};
use super::super::way_back;
use super::artefacts::RESTARTS;
use super::files;
use super::{AsStored, ChangePlan, JudgedChange, PlannedStep, Reach};
use capstan_base::command_line::CommandLine;

/// What the order is made from.
pub(super) struct Inputs<'p> {
    pub(super) reach: &'p [Reach],
    pub(super) judged: &'p [JudgedChange],
    pub(super) facts: &'p ClusterFacts,
    pub(super) hosts: &'p [HostFacts],
    /// The folder for files where `kubectl` runs.
    pub(super) files: &'p str,
    /// The plan's id: files have it in their names, and what is moved away is kept under it.
    pub(super) id: &'p str,
    /// Nothing is asked for but what is stored.
    pub(super) as_stored: Option<AsStored>,
    /// The folder on the nodes with patches for what kubeadm writes.
    pub(super) patches: Option<&'p str>,
    /// The plan takes another one back.
    pub(super) takes_back: bool,
    /// Nodes whose own API server does not answer.
    pub(super) silent: &'p BTreeSet<String>,
    /// The node of the etcd member that leads: its turn comes last.
    pub(super) etcd_leader: Option<&'p str>,
    pub(super) old: &'p ClusterSettings<'p>,
    pub(super) new: &'p ClusterSettings<'p>,
    /// KubeletConfiguration as it is going to be.
    pub(super) kubelet: Option<&'p Value>,
    pub(super) patch: Option<&'p Value>,
}

impl<'p> Inputs<'p> {
    /// The nodes in the order in which etcd's members take their turn.
    fn etcd_order(&self) -> Vec<&'p HostFacts> {
        last(self.hosts, |host| self.etcd_leader == Some(host.name.as_str()))
    }

    fn add_ons(&self) -> AddonImages {
        self.new.addon_images(self.facts.coredns_image.as_deref())
    }

    /// The nodes in the order in which control planes take their turn: those that hold a lock come last.
    fn control_plane_order(&self) -> Vec<&'p HostFacts> {
        last(self.hosts, |host| self.facts.lock_holders.contains(&host.name))
    }
}

/// The hosts in order, those that are `late` behind the others.
fn last(hosts: &[HostFacts], late: impl Fn(&HostFacts) -> bool) -> Vec<&HostFacts> {
    let (late, early): (Vec<&HostFacts>, Vec<&HostFacts>) = hosts.iter().partition(|host| late(host));
    early.into_iter().chain(late).collect()
}

/// Kubelets of workers restart in batches of a tenth of the nodes.
const BATCH_PART: usize = 10;

/// Every step, in order.
pub(super) fn steps(plan: &Inputs<'_>) -> Vec<PlannedStep> {
    let mut steps = Vec::new();
    if plan.judged.is_empty() && plan.as_stored.is_none() {
        return steps;
    }
    if !plan.takes_back {
        prepared(plan, &mut steps);
    }
    kept(plan, &mut steps);
    snapshot(plan, &mut steps);
    if plan.facts.managed_by == ManagedBy::ControlPlane {
        managed(plan, &mut steps);
    } else {
        // ConfigMaps come before hosts: `kubeadm upgrade node` reads its configuration from them.
        documents(plan, &mut steps);
        if plan.takes_back {
            prepared(plan, &mut steps);
        }
        etcd(plan, &mut steps);
        control_plane(plan, &mut steps);
    }
    add_ons(plan, &mut steps);
    if plan.facts.managed_by == ManagedBy::Kubeadm {
        kubelets(plan, &mut steps);
    }
    // Secrets are written anew only when every API server can read the new key.
    if wants(plan, StepId::R1) {
        once(plan, StepId::R1, &mut steps);
    }
    once(plan, StepId::X, &mut steps);
    steps
}

fn wants(plan: &Inputs<'_>, id: StepId) -> bool {
    plan.judged.iter().any(|judged| judged.finding.steps.iter().any(|step| step == id.name()))
}

fn reaches(plan: &Inputs<'_>, component: Component) -> bool {
    plan.reach.iter().any(|reach| reach.component == component)
}

/// Is the manifest of one of the components written anew, beyond a restart for a certificate?
fn is_written(plan: &Inputs<'_>, components: &[Component]) -> bool {
    let mut reached = plan.reach.iter().filter(|reach| components.contains(&reach.component));
    // A restart for a certificate is part of C1 and C2.
    reached.any(|reach| reach.differences.iter().any(|line| line != RESTARTS))
}

fn is_changed(plan: &Inputs<'_>, kind: DocumentKind) -> bool {
    plan.judged.iter().any(|judged| judged.change.kind == kind)
}

fn step(plan: &Inputs<'_>, id: StepId, nodes: Vec<String>) -> PlannedStep {
    let commands = commands(plan, id, nodes.first().map(String::as_str).unwrap_or_default());
    let (check, undo) = (id.check().to_owned(), id.undo().to_owned());
    let files = named_files(plan, id, &nodes, &commands);
    PlannedStep { id, title: id.title().to_owned(), nodes, commands, files, check, undo, joined: None }
}

/// A component reads its certificates when it starts: where its manifest is written anew as well, on the same node, one restart is
/// enough. The certificates are in place before the manifest is written, and the lines are joined.
fn joined(plan: &Inputs<'_>, ids: [StepId; 2], host: &HostFacts) -> PlannedStep {
    let [certificates, manifest] = ids;
    let mut step = step(plan, manifest, vec![host.name.clone()]);
    // The manifest that is written restarts the component: a restart for its certificate would be a
    // second one.
    let restarts = false;
    let mut commands = certificate_lines(plan, certificates, &host.name, restarts);
    commands.append(&mut step.commands);
    step.files = named_files(plan, manifest, &step.nodes, &commands);
    step.title = format!("{}, and {}", certificates.part_title(), manifest.title());
    step.check = format!("{}; {}", certificates.check(), step.check);
    step.undo = format!("{} ({}); {}", certificates.undo(), certificates.name(), step.undo);
    PlannedStep { commands, joined: Some(certificates), ..step }
}

/// Is the manifest of a component another one on that node?
fn is_rewritten(plan: &Inputs<'_>, component: &str, host: &HostFacts) -> bool {
    let manifest = |settings: &ClusterSettings<'_>| {
        render::node(settings, host).ok().and_then(|mut node| node.static_pods.remove(component))
    };
    manifest(plan.old) != manifest(plan.new)
}

fn once(plan: &Inputs<'_>, id: StepId, steps: &mut Vec<PlannedStep>) {
    steps.push(step(plan, id, Vec::new()));
}

fn each_control_plane(plan: &Inputs<'_>, id: StepId, steps: &mut Vec<PlannedStep>) {
    steps.extend(plan.hosts.iter().map(|host| step(plan, id, vec![host.name.clone()])));
}

/// What hosts must have comes before the documents are stored: a node that joins meanwhile works with what it finds there. What is
/// taken back is gone from there first.
fn prepared(plan: &Inputs<'_>, steps: &mut Vec<PlannedStep>) {
    for id in [StepId::H1, StepId::I1] {
        if plan.facts.managed_by == ManagedBy::Kubeadm && wants(plan, id) {
            each_control_plane(plan, id, steps);
        }
    }
}

/// What stands there before: on hosts that are written to, else as documents. A change that takes another one back has what that
/// one kept.
fn kept(plan: &Inputs<'_>, steps: &mut Vec<PlannedStep>) {
    if plan.facts.managed_by == ManagedBy::ControlPlane {
        once(plan, StepId::B0, steps);
    } else if !plan.takes_back {
        let nodes = plan.hosts.iter().map(|host| host.name.clone()).collect();
        steps.push(step(plan, StepId::B0, nodes));
    }
}

/// Of one member: it has everything.
fn snapshot(plan: &Inputs<'_>, steps: &mut Vec<PlannedStep>) {
    let is_ours = plan.facts.managed_by == ManagedBy::Kubeadm && plan.new.has_local_etcd();
    if let Some(host) = plan.hosts.first().filter(|_| is_ours) {
        steps.push(step(plan, StepId::B1, vec![host.name.clone()]));
    }
}

fn documents(plan: &Inputs<'_>, steps: &mut Vec<PlannedStep>) {
    for (kind, id) in [
        (DocumentKind::Cluster, StepId::G1),
        (DocumentKind::Kubelet, StepId::G2),
        (DocumentKind::Proxy, StepId::G3),
    ] {
        if is_changed(plan, kind) {
            once(plan, id, steps);
        }
    }
}

/// One member after the other, the one that leads last.
fn etcd(plan: &Inputs<'_>, steps: &mut Vec<PlannedStep>) {
    let certificates = reaches(plan, Component::EtcdCertificates);
    let manifests = is_written(plan, &[Component::Etcd]) || plan.as_stored.is_some_and(|what| what.etcd);
    for host in plan.etcd_order() {
        if certificates && manifests && is_rewritten(plan, ETCD, host) {
            steps.push(joined(plan, [StepId::C2, StepId::E1], host));
            continue;
        }
        for (id, wanted) in [(StepId::C2, certificates), (StepId::E1, manifests)] {
            if wanted {
                steps.push(step(plan, id, vec![host.name.clone()]));
            }
        }
    }
}

/// Node after node: the certificate with the restart that makes it count, then the manifests.
fn control_plane(plan: &Inputs<'_>, steps: &mut Vec<PlannedStep>) {
    // What is stored is written on every node: kubeadm leaves alone what it finds as it would write it.
    let manifests = plan.as_stored.is_some()
        || is_written(plan, &[Component::ApiServer, Component::ControllerManager, Component::Scheduler]);
    let certificates = reaches(plan, Component::Certificates);
    for host in plan.control_plane_order() {
        let are_joined = certificates && manifests && is_rewritten(plan, API_SERVER, host);
        if are_joined {
            steps.push(joined(plan, [StepId::C1, StepId::M1], host));
        }
        for (id, wanted) in [
            (StepId::C1, certificates && !are_joined),
            (StepId::M1, manifests && !are_joined),
            (StepId::F1, reaches(plan, Component::Kubeconfigs)),
        ] {
            if wanted {
                steps.push(step(plan, id, vec![host.name.clone()]));
            }
        }
    }
}

fn add_ons(plan: &Inputs<'_>, steps: &mut Vec<PlannedStep>) {
    // A KubeadmControlPlane changes the image of kube-proxy and nothing in its ConfigMap.
    if plan.facts.managed_by == ManagedBy::ControlPlane && is_changed(plan, DocumentKind::Proxy) {
        once(plan, StepId::G3, steps);
    }
    let by_hand = plan.facts.managed_by == ManagedBy::Kubeadm || is_changed(plan, DocumentKind::Proxy);
    if reaches(plan, Component::KubeProxy) && by_hand {
        once(plan, StepId::P1, steps);
    }
    // Behind P1: the old kube-proxy would write its rules once more after a restart of the node.
    if wants(plan, StepId::P2) {
        each_node(plan, StepId::P2, steps);
    }
    // A KubeadmControlPlane sets the image of CoreDNS itself when its Machines are up to date.
    if reaches(plan, Component::CoreDns) && plan.facts.managed_by == ManagedBy::Kubeadm {
        once(plan, StepId::D1, steps);
    }
}

fn kubelets(plan: &Inputs<'_>, steps: &mut Vec<PlannedStep>) {
    if !reaches(plan, Component::Kubelet) {
        return;
    }
    each_node(plan, if wants(plan, StepId::K2) { StepId::K2 } else { StepId::K1 }, steps);
}

/// Control plane nodes one by one, then workers in batches; a node that is drained is always alone.
fn each_node(plan: &Inputs<'_>, id: StepId, steps: &mut Vec<PlannedStep>) {
    each_control_plane(plan, id, steps);
    let nodes = plan.facts.workers.len() + plan.hosts.len();
    let is_drained = matches!(id, StepId::K2 | StepId::P2);
    // A tenth of few nodes is zero, and `chunks(0)` panics.
    let batch = if is_drained { 1 } else { (nodes / BATCH_PART).max(1) };
    steps.extend(plan.facts.workers.chunks(batch).map(|batch| step(plan, id, batch.to_vec())));
}

fn managed(plan: &Inputs<'_>, steps: &mut Vec<PlannedStep>) {
    if plan.patch.is_none() {
        return;
    }
    let mut step = step(plan, StepId::G1, Vec::new());
    let (title, check, undo) = if has_effect(plan.judged, ControlPlaneEffect::Rollout) {
        (
            "patch the KubeadmControlPlane in the management cluster; it replaces its Machines one by one",
            "condition RollingOut is False, all Machines are UpToDate",
            "patch the old values back: another rollout",
        )
    } else {
        (
            "patch the KubeadmControlPlane in the management cluster; it changes CoreDNS in place",
            "the Deployment is available",
            "patch the old values back",
        )
    };
    title.clone_into(&mut step.title);
    check.clone_into(&mut step.check);
    undo.clone_into(&mut step.undo);
    let file = format!("{}/{}-kubeadmcontrolplane.json", plan.files, plan.id);
    // Without a version kubectl writes the one that the server prefers, and the patch has the form of the object's.
    step.commands = vec![if plan.facts.has_older_control_plane {
        CommandLine::of(
            "kubectl patch kubeadmcontrolplanes.v1beta1.controlplane.cluster.x-k8s.io NAME --type merge --patch-file {}",
            [&file],
        )
    } else {
        CommandLine::of("kubectl patch kubeadmcontrolplane NAME --type merge --patch-file {}", [&file])
    }];
    steps.push(step);
}

fn commands(plan: &Inputs<'_>, id: StepId, node: &str) -> Vec<CommandLine> {
    let file = NodeFile::of(NodeFileKind::Cluster, plan.id, node).path;
    let kept = host_folder::folder(plan.id);
    let local = |name: &str| format!("{}/{}-{name}", plan.files, plan.id);
    match id {
        StepId::B0 if !node.is_empty() => way_back::keep(plan.id),
        StepId::B0 => vec![CommandLine::of(
            "kubectl -n kube-system get configmap kubeadm-config kubelet-config kube-proxy coredns -o yaml > {}",
            [&local("before.yaml")],
        )],
        StepId::B1 => files::snapshot(plan.new, plan.id),
        StepId::G1 => vec![patch_map("kubeadm-config", &local("kubeadm-config.json"))],
        StepId::G2 => vec![patch_map("kubelet-config", &local("kubelet-config.json"))],
        StepId::G3 => vec![patch_map("kube-proxy", &local("kube-proxy.json"))],
        StepId::H1 => files::checks(plan.judged, plan.new),
        StepId::I1 => images(plan, node),
        StepId::C1 | StepId::C2 => certificate_lines(plan, id, node, true),
        StepId::E1 => vec![
            // With an empty folder the phase would begin a new cluster of one member: the data must
            // be there.
            CommandLine::of("test -d {}", [&format!("{}/member", plan.new.etcd_data_dir())]),
            files::folder(&kept),
            // `init phase` makes no backup of a manifest, unlike `upgrade node`.
            files::keep("/etc/kubernetes/manifests/etcd.yaml", &format!("{kept}/etcd.yaml")),
            patched(plan, CommandLine::of("kubeadm init phase etcd local --config {}", [&file])),
        ],
        StepId::M1 => vec![manifests(plan, node, &file)],
        StepId::F1 => files::kubeconfig(plan.new, plan.id, &file),
        StepId::P1 => kube_proxy(plan),
        StepId::P2 => {
            vec![drain(node), CommandLine::of("systemctl reboot", []), uncordon(node)]
        }
        StepId::D1 => vec![
            CommandLine::of(
                "kubectl -n kube-system set image deployment/coredns coredns={}",
                [&plan.add_ons().coredns],
            ),
            CommandLine::of("kubectl -n kube-system rollout status deployment/coredns", []),
        ],
        StepId::K1 => kubelet(plan),
        StepId::K2 => drained(node, kubelet(plan)),
        // A write that changes nothing is enough: the API server encrypts anew with its first key.
        StepId::R1 => vec![CommandLine::of("kubectl get secrets -A -o json | kubectl replace -f -", [])],
        StepId::X => vec![CommandLine::of("capstan change status", [])],
    }
}

/// Fetches the images that the manifests of a node are going to name, where its runtime does not have them: hosts whose images
/// are loaded by hand have no registry to ask.
fn images(plan: &Inputs<'_>, node: &str) -> Vec<CommandLine> {
    let Some(host) = plan.hosts.iter().find(|host| host.name == node) else { return Vec::new() };
    let images = |settings: &ClusterSettings<'_>| -> BTreeSet<String> {
        let pods = render::node(settings, host).map(|node| node.static_pods).unwrap_or_default();
        pods.into_values().map(|pod| pod.image).collect()
    };
    let before = images(plan.old);
    let new = images(plan.new).into_iter().filter(|image| !before.contains(image));
    new.map(|image| CommandLine::of("crictl inspecti -q {} || crictl pull {}", [&image, &image])).collect()
}

/// Writes the manifests of a node anew. etcd's is not touched: kubeadm would restart it with every API server, and on a node
/// that joined write another `--initial-cluster`. Where the API server of the node does not answer, kubeadm's upgrade cannot
/// work: it waits for a mirror pod that its kubelet cannot write, and puts the broken manifest back.
/// Source: kubeadm `phases/upgrade/staticpods.go` (`upgradeComponent`), `util/apiclient/wait.go`, v1.36.
fn manifests(plan: &Inputs<'_>, node: &str, file: &str) -> CommandLine {
    if plan.silent.contains(node) {
        return patched(plan, CommandLine::of("kubeadm init phase control-plane all --config {}", [file]));
    }
    let upgrade = "kubeadm upgrade node phase control-plane --etcd-upgrade=false --certificate-renewal=false";
    patched(plan, CommandLine::of(upgrade, []))
}

/// kubeadm remembers no folder of patches: without it, it writes what no patch has touched.
fn patched(plan: &Inputs<'_>, line: CommandLine) -> CommandLine {
    match plan.patches {
        Some(folder) => line.with(&CommandLine::of("--patches {}", [folder])),
        None => line,
    }
}

/// `restarts`: what reads them is started again by the last line.
fn certificate_lines(plan: &Inputs<'_>, id: StepId, node: &str, restarts: bool) -> Vec<CommandLine> {
    let (authority, certificates, component): (_, &[&str], _) = match id {
        StepId::C2 => ("etcd/ca", &["etcd/server", "etcd/peer"], ETCD),
        _ => ("ca", &["apiserver"], API_SERVER),
    };
    let file = NodeFile::of(NodeFileKind::Certificates, plan.id, node).path;
    let certificates = certificates.iter().map(|name| (*name, wanted_names(plan, node, name))).collect();
    let settings = plan.new;
    let restarts = restarts.then_some(component);
    files::Reissue { settings, plan: plan.id, authority, certificates, file: &file, restarts }.lines()
}

/// What a new certificate of a node is looked at for: its address, and the names that it did not have.
fn wanted_names(plan: &Inputs<'_>, node: &str, certificate: &str) -> Vec<String> {
    let Some(host) = plan.hosts.iter().find(|host| host.name == node) else { return Vec::new() };
    let names = |settings: &ClusterSettings<'_>| {
        let names = render::certificate_names(settings, host).unwrap_or_default();
        names.get(certificate.replace('/', "-").as_str()).cloned().unwrap_or_default()
    };
    // Which of them are new is not known where what is stored is issued.
    let mut before = if plan.as_stored.is_some() { Vec::new() } else { names(plan.old) };
    before.push(host.address.clone());
    let gained = names(plan.new).into_iter().filter(|name| !before.contains(name));
    // The address shows that the certificate was made for this host and not for another one.
    [host.address.clone()].into_iter().chain(gained).collect()
}

/// The files that the commands name; those of what is kept stay there for a person.
fn named_files(plan: &Inputs<'_>, id: StepId, nodes: &[String], commands: &[CommandLine]) -> Vec<NodeFile> {
    let files = |kinds: [NodeFileKind; 2], node: &str| kinds.map(|kind| NodeFile::of(kind, plan.id, node));
    match nodes {
        [_, ..] if id == StepId::B0 => files([NodeFileKind::Before, NodeFileKind::WayBack], "").into(),
        [node] => {
            let is_named = |file: &NodeFile| commands.iter().any(|line| line.as_str().contains(&file.path));
            let files = files([NodeFileKind::Cluster, NodeFileKind::Certificates], node);
            files.into_iter().filter(is_named).collect()
        }
        _ => Vec::new(),
    }
}

fn patch_map(name: &str, file: &str) -> CommandLine {
    CommandLine::of("kubectl -n kube-system patch configmap {} --type merge --patch-file {}", [name, file])
}

fn kube_proxy(plan: &Inputs<'_>) -> Vec<CommandLine> {
    // `artefacts` writes a changed image as a line that begins so.
    let image = plan.reach.iter().any(|r| {
        r.component == Component::KubeProxy && r.differences.iter().any(|l| l.starts_with("image "))
    });
    let mut lines = Vec::new();
    if image {
        lines.push(CommandLine::of(
            "kubectl -n kube-system set image daemonset/kube-proxy kube-proxy={}",
            [&plan.add_ons().kube_proxy],
        ));
    }
    // kube-proxy does not read its file again when the kubelet swaps the volume of the ConfigMap.
    if is_changed(plan, DocumentKind::Proxy) {
        lines.push(CommandLine::of("kubectl -n kube-system rollout restart daemonset/kube-proxy", []));
    }
    lines.push(CommandLine::of("kubectl -n kube-system rollout status daemonset/kube-proxy", []));
    lines
}

fn kubelet(plan: &Inputs<'_>) -> Vec<CommandLine> {
    let mut lines = way_back::keep_kubelet(plan.id);
    lines.push(patched(plan, CommandLine::of("kubeadm upgrade node phase kubelet-config", [])));
    // kubeadm writes the file and restarts nothing.
    lines.push(CommandLine::of("systemctl restart kubelet", []));
    lines.extend(plan.kubelet.and_then(files::kubelet_is_well));
    lines
}

/// The lines that restart a kubelet, on a node without pods: its managers of CPUs and memory begin anew.
fn drained(node: &str, restart: Vec<CommandLine>) -> Vec<CommandLine> {
    // A kubelet refuses to start with a state that was written under another policy.
    let state = "rm -f /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state";
    let mut lines = vec![drain(node), CommandLine::of(state, [])];
    lines.extend(restart);
    lines.push(uncordon(node));
    lines
}

fn drain(node: &str) -> CommandLine {
    // kubectl refuses a node with pods of DaemonSets or with emptyDir volumes without these two,
    // and kube-proxy is on every node.
    CommandLine::of("kubectl drain {} --ignore-daemonsets --delete-emptydir-data", [node])
}

fn uncordon(node: &str) -> CommandLine {
    CommandLine::of("kubectl uncordon {}", [node])
}

/// Does the KubeadmControlPlane do this with one of the changes?
fn has_effect(judged: &[JudgedChange], effect: ControlPlaneEffect) -> bool {
    let mut of_cluster = judged.iter().filter(|judged| judged.change.kind == DocumentKind::Cluster);
    of_cluster.any(|judged| judged.finding.control_plane_effect == effect)
}

/// What people will notice where a KubeadmControlPlane does the work.
fn managed_disruption(plan: &ChangePlan, facts: &ClusterFacts) -> Vec<String> {
    let machines = || {
        let count = facts.control_planes().map(|count| format!("{count} Machines"));
        count.unwrap_or_else(|| "the control plane's Machines".to_owned())
    };
    let mut lines = Vec::new();
    if has_effect(&plan.changes, ControlPlaneEffect::Rollout) {
        lines.push(format!("{} are replaced, one after the other", machines()));
    } else if has_effect(&plan.changes, ControlPlaneEffect::InPlace) {
        lines.push("CoreDNS restarts with the other image; no Machine is replaced".to_owned());
    }
    if plan.steps.iter().any(|step| step.id == StepId::P1) {
        lines.push(KUBE_PROXY_RESTARTS.to_owned());
    }
    lines.extend(restarted_by_people(&plan.steps));
    lines
}

const KUBE_PROXY_RESTARTS: &str = "kube-proxy restarts on every node; connections go on";

fn nodes_of(steps: &[PlannedStep], id: StepId) -> usize {
    steps.iter().filter(|step| step.id == id).map(|step| step.nodes.len()).sum()
}

fn restarted_by_people(steps: &[PlannedStep]) -> Option<String> {
    let nodes = nodes_of(steps, StepId::P2);
    (nodes > 0).then(|| format!("{nodes} nodes have to be drained and restarted by you, one at a time"))
}

/// What people will notice.
pub(super) fn disruption(plan: &ChangePlan, facts: &ClusterFacts) -> Vec<String> {
    let (reach, steps) = (&plan.reach, &plan.steps);
    if steps.is_empty() {
        return Vec::new();
    }
    if facts.managed_by == ManagedBy::ControlPlane {
        return managed_disruption(plan, facts);
    }
    let mut lines = Vec::new();
    let reaches = |component| reach.iter().any(|reach| reach.component == component);
    let alone = facts.control_planes() == Some(1);
    for (component, name) in [(Component::Etcd, "etcd"), (Component::ApiServer, "the API")] {
        match facts.control_planes() {
            _ if !reaches(component) => {}
            Some(1) => {
                lines.push(format!("{name} is away for 30 to 90 seconds: there is one control plane node"));
            }
            Some(count) => lines.push(format!("{name} restarts on {count} nodes, one at a time")),
            None => lines.push(format!("{name} restarts on each control plane node, one at a time")),
        }
    }
    if reaches(Component::ControllerManager) || reaches(Component::Scheduler) {
        lines.push(format!(
            "controllers and scheduler {}",
            if alone { "stop for some seconds" } else { "are led by another replica for some seconds" }
        ));
    }
    if reaches(Component::KubeProxy) {
        lines.push(KUBE_PROXY_RESTARTS.to_owned());
    }
    lines.extend(restarted_by_people(steps));
    let drained = nodes_of(steps, StepId::K2);
    if drained > 0 {
        lines.push(format!("{drained} nodes are drained, one at a time: disruption budgets may hold it up"));
    } else if reaches(Component::Kubelet) {
        let batches =
            steps.iter().filter(|s| s.id.scope() == StepScope::EachNode && s.id == StepId::K1).count();
        lines.push(format!("every kubelet restarts, in {batches} batches; pods go on running"));
    }
    lines
}
