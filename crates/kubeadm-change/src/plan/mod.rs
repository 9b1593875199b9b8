//! From a request to a plan: what changes, what follows from it, whether it may be made, which components of which
//! nodes it reaches, and in which steps it is done. Owns the plan as a value; must not know a client, a clock, or
//! how a plan is printed.

mod acknowledged;
mod artefacts;
mod derived;
mod drift;
mod effect;
mod files;
#[cfg(test)]
mod hostile_tests;
mod managed;
mod mounts;
mod refusals;
mod sequence;
mod validity;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::certificate_drift::CertificateDrift;
use super::change_id::ChangeId;
use super::check::DocumentFinding;
use super::difference::{FieldChange, differences};
use super::document::{DocumentKind, Inputs};
use super::facts::{ClusterFacts, ManagedBy};
use super::host_lock::pasted;
use super::network::is_dns_name;
use super::node_file::NodeFile;
use super::render::{self, API_SERVER, ClusterSettings, ETCD, HostFacts, RenderError};
use super::request::WantedDocuments;
use super::rollouts::{self, RolloutPart};
use super::rules::{self, Component, Judgement, RuleFinding};
use super::steps::StepId;
use capstan_base::command_line::CommandLine;

pub use acknowledged::Acknowledged;
pub use artefacts::Reach;
pub(super) use artefacts::pod_differences;
pub use drift::{Drift, find as find_drift, name_open_change};

/// What is to be done about a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanState {
    /// Nothing differs.
    Nothing,
    /// Every change may be made, and nothing has to be acknowledged.
    Ready,
    /// Somebody has to acknowledge what is said about some changes.
    NeedsAcknowledgement,
    /// The documents that are asked for are wrong.
    Invalid,
    /// Some changes must not be made.
    Blocked,
}

/// One change and what the rules say about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedChange {
    /// What differs.
    #[serde(flatten)]
    pub change: FieldChange,
    /// Whether it may be made, and what it reaches.
    #[serde(flatten)]
    pub finding: RuleFinding,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedStep {
    /// Stable: progress and runbooks name it.
    pub id: StepId,
    /// What is done, in a few words.
    pub title: String,
    /// Where; empty for a step that is done once. Several nodes are a batch.
    pub nodes: Vec<String>,
    /// In the order in which they are run, on each of the nodes.
    pub commands: Vec<CommandLine>,
    /// What the commands need on the node before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<NodeFile>,
    /// What must hold before the next step.
    pub check: String,
    /// How the step is taken back.
    pub undo: String,
    /// A step whose commands stand before those of this one, since one restart is enough for both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined: Option<StepId>,
}

/// What a change means for a cluster: verdict, differences, steps and ways back. Pure data, the same for the same inputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangePlan {
    /// Of the versions it was made from, the request and the rules.
    pub id: ChangeId,
    /// Whether the plan may be carried out as it is.
    pub state: PlanState,
    /// A plan for a KubeadmControlPlane is a patch of it, not steps on hosts.
    pub managed_by: ManagedBy,
    /// Those asked for, and those that follow from them.
    pub changes: Vec<JudgedChange>,
    /// What is wrong with the documents that are asked for.
    pub findings: Vec<DocumentFinding>,
    /// What writing manifests anew would take back.
    pub drift: Vec<Drift>,
    /// What differs on which nodes once the plan is carried out.
    pub reach: Vec<Reach>,
    /// In their order; empty for a plan that is invalid or blocked.
    pub steps: Vec<PlannedStep>,
    /// Which of several rollouts this is, when the request cannot be carried out in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutPart>,
    /// What people will notice while it is carried out.
    pub disruption: Vec<String>,
    /// What a person should know, and what had to be assumed.
    pub notes: Vec<String>,
    /// Nothing is asked for but what is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_stored: Option<AsStored>,
    /// The folder on the nodes with patches that kubeadm applies to what it writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patches: Option<String>,
    /// The conditions that nobody has acknowledged yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to_acknowledge: Vec<String>,
    /// The patch for the KubeadmControlPlane that looks after the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_patch: Option<Value>,
}

/// What is stored is rolled out as it stands: somebody stored it by hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AsStored {
    /// etcd's manifests, too: one of them runs otherwise.
    pub etcd: bool,
    /// Kubelets, too: one of them runs otherwise.
    pub kubelets: bool,
    /// Certificates, too: one of them is served with other names.
    #[serde(default)]
    pub certificates: ServedOtherwise,
}

/// The components of which some node serves a certificate with other names than those that are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedOtherwise {
    /// Some API server: its certificate is issued anew by C1.
    pub api_server: bool,
    /// Some member of etcd: C2 issues its certificate for peers anew as well.
    pub etcd: bool,
}

impl ServedOtherwise {
    /// The components of which certificates are drift.
    pub fn of(drift: &[CertificateDrift]) -> Self {
        let has = |component: &str| drift.iter().any(|drift| drift.component == component);
        Self { api_server: has(API_SERVER), etcd: has(ETCD) }
    }
}

/// How a plan is made.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Pass blocks that a rule allows to be passed.
    pub force: bool,
    /// The warnings that were read and taken.
    pub acknowledged: Acknowledged,
    /// Where the files are that `kubectl` is given.
    pub files: String,
    /// The node whose etcd member leads, where that is known.
    pub etcd_leader: Option<String>,
    /// Nodes whose own API server does not answer, where that is known: what kubeadm waits for there does not come.
    pub silent: BTreeSet<String>,
    /// Nothing is asked for but what is stored.
    pub as_stored: Option<AsStored>,
    /// Certificates that are served with other names than those that are stored, where they were looked at.
    pub served_otherwise: Vec<CertificateDrift>,
    /// The folder on the nodes with patches that kubeadm applies to what it writes.
    pub patches: Option<String>,
    /// The plan takes a change back: what that one kept is still there.
    pub takes_back: bool,
    /// The size of etcd's database, where that is known.
    pub etcd_database_bytes: Option<u64>,
    /// The id of a plan that is being carried out; without it one of the versions, the request and the rules.
    pub id: Option<ChangeId>,
}

/// Makes the plan for a request. `target` gets the changes that follow from those asked for, and where several rollouts
/// are needed, only what the first of them changes.
///
/// # Errors
/// The stored configuration cannot be rendered.
pub fn plan(
    inputs: &Inputs,
    target: &mut WantedDocuments,
    options: &PlanOptions,
) -> Result<ChangePlan, RenderError> {
    let mut facts = ClusterFacts::read(inputs);
    facts.etcd_database_bytes = options.etcd_database_bytes;
    // Before anything is judged: the request is cut down to its first rollout in place.
    let rollout = rollouts::first(target);
    let mut judged = judged(target, &facts);
    let mut notes = target.notes.clone();
    let hosts = hosts(inputs, &facts, &mut notes);
    // Before the KubeadmControlPlane judges: a change without effect passes its component, and may
    // not pass the webhook.
    judge_by_manifests(&mut judged, target, &hosts);
    let control_plane_patch = match facts.managed_by {
        ManagedBy::ControlPlane => managed::translate(inputs, target, &mut judged, &mut notes),
        ManagedBy::Kubeadm => None,
    };
    let id = options.id.clone().unwrap_or_else(|| identity(inputs, target));
    let mut plan = ChangePlan {
        id,
        state: PlanState::Nothing,
        managed_by: facts.managed_by,
        findings: validity::check(target, facts.minor),
        changes: judged,
        drift: Vec::new(),
        reach: Vec::new(),
        steps: Vec::new(),
        rollout,
        disruption: Vec::new(),
        notes,
        as_stored: options.as_stored,
        patches: options.patches.clone(),
        to_acknowledge: Vec::new(),
        control_plane_patch,
    };
    plan.state = state(&plan, options);
    add_steps(&mut plan, target, (&facts, &hosts), options)?;
    // Writing manifests anew takes back what was changed by hand: somebody has to know.
    if plan.state == PlanState::Ready {
        let open = plan.conditions().into_iter().filter(|name| !options.acknowledged.has(name));
        plan.to_acknowledge = open.collect();
        if !plan.to_acknowledge.is_empty() {
            plan.state = PlanState::NeedsAcknowledgement;
        }
    }
    let note = order_note(&plan, options);
    plan.notes.extend(note);
    plan.disruption = sequence::disruption(&plan, &facts);
    Ok(plan)
}

/// Adds what drifted, what the change reaches, and the steps in order.
fn add_steps(
    plan: &mut ChangePlan,
    target: &WantedDocuments,
    (facts, hosts): (&ClusterFacts, &[HostFacts]),
    options: &PlanOptions,
) -> Result<(), RenderError> {
    let Some(cluster) = target.document(DocumentKind::Cluster) else { return Ok(()) };
    let (old, new) = ClusterSettings::pair(&cluster.old, &cluster.new)?;
    let stored = ClusterSettings::new(&cluster.old, None)?;
    if matches!(plan.state, PlanState::Invalid | PlanState::Blocked) {
        // Nothing is going to be written, so no node can be half way to the target.
        plan.drift = drift::find(&stored, &stored, facts)?;
    } else {
        plan.drift = drift::find(&stored, &new, facts)?;
        plan.reach = artefacts::reach(&old, &new, hosts, &plan.changes, facts.coredns_image.as_deref())?;
        if let Some(as_stored) = options.as_stored {
            plan.drift.extend(options.served_otherwise.iter().map(drift::of_certificate));
            plan.reach.extend(artefacts::reach_of_drift(&plan.drift, as_stored));
        }
        plan.steps = sequence::steps(&sequence::Inputs {
            reach: &plan.reach,
            judged: &plan.changes,
            facts,
            hosts,
            files: &options.files,
            id: plan.id.as_str(),
            silent: &options.silent,
            takes_back: options.takes_back,
            as_stored: options.as_stored,
            patches: options.patches.as_deref(),
            old: &old,
            etcd_leader: options.etcd_leader.as_deref(),
            new: &new,
            kubelet: target.document(DocumentKind::Kubelet).map(|kubelet| &kubelet.new),
            patch: plan.control_plane_patch.as_ref(),
        });
    }
    Ok(())
}

/// Every change, those that follow from others included, with what the rules say.
fn judged(target: &mut WantedDocuments, facts: &ClusterFacts) -> Vec<JudgedChange> {
    let derived = derived::add(target);
    let documents = target.documents.iter();
    let changes = documents.flat_map(|wanted| differences(wanted.kind, &wanted.old, &wanted.new));
    let changes = changes.map(|change| derived::marked(change, &derived));
    let mut judged: Vec<JudgedChange> = changes
        .filter_map(|change| Some(JudgedChange { finding: rules::judge(&change, facts)?, change }))
        .collect();
    let cluster = target.document(DocumentKind::Cluster).map(|cluster| &cluster.new);
    refusals::block(&mut judged, cluster, facts);
    judged
}

/// Judges anew what leads to files that a component does not see or to an image that does not run, and what has no effect. What cannot be rendered is said
/// elsewhere.
fn judge_by_manifests(judged: &mut [JudgedChange], target: &WantedDocuments, hosts: &[HostFacts]) {
    let Some(cluster) = target.document(DocumentKind::Cluster) else { return };
    let Ok((old, new)) = ClusterSettings::pair(&cluster.old, &cluster.new) else { return };
    let mut nodes = Vec::new();
    for host in hosts {
        let rendered = render::node(&old, host).and_then(|before| Ok((before, render::node(&new, host)?)));
        let Ok((before, after)) = rendered else { continue };
        mounts::judge(judged, &before, &after);
        refusals::block_etcd_image(judged, host, (&before, &after));
        nodes.push((before, after));
    }
    effect::settle(judged, &nodes);
}

/// What the order of nodes could not be made from.
fn order_note(plan: &ChangePlan, options: &PlanOptions) -> Option<String> {
    let mut members: Vec<&str> = plan.steps_of(StepId::E1).chain(plan.steps_of(StepId::C2)).collect();
    // A single member has both steps on its one node, which leaves nothing to be ordered.
    members.dedup();
    let is_unknown = options.etcd_leader.is_none() && members.len() > 1;
    is_unknown.then(|| {
        "which etcd member leads is not known: do that node last (`etcdctl endpoint status` shows it)"
            .to_owned()
    })
}

fn state(plan: &ChangePlan, options: &PlanOptions) -> PlanState {
    let (judged, findings) = (&plan.changes, &plan.findings);
    let blocks = |judged: &JudgedChange| {
        judged.finding.verdict == Judgement::Block && !(options.force && judged.finding.forceable)
    };
    // Before the documents are judged: a block says what to do instead.
    if judged.iter().any(blocks) {
        return PlanState::Blocked;
    }
    if findings.iter().any(|finding| finding.severity == super::check::FindingSeverity::Error) {
        return PlanState::Invalid;
    }
    if judged.is_empty() && options.as_stored.is_none() {
        return PlanState::Nothing;
    }
    PlanState::Ready
}

/// The control plane nodes: those that run, else that of the InitConfiguration, else one that stands for all.
fn hosts(inputs: &Inputs, facts: &ClusterFacts, notes: &mut Vec<String>) -> Vec<HostFacts> {
    if !facts.control_plane.is_empty() {
        return facts.control_plane.iter().map(|node| node.host.clone()).collect();
    }
    let init = inputs.document(DocumentKind::Init).and_then(|document| HostFacts::of_init(&document.value));
    // Its name stands in commands and file names.
    if let Some(host) = init.filter(|host| is_dns_name(&host.name)) {
        return vec![host];
    }
    notes.push(
        "no control plane node is known: steps are for one node NODE, to be done on each in turn".to_owned(),
    );
    // An address of RFC 5737, which no host has: it shows that it is a placeholder.
    vec![HostFacts::new("NODE", "192.0.2.1")]
}

/// An id over everything that the plan was made from.
fn identity(inputs: &Inputs, target: &WantedDocuments) -> ChangeId {
    let mut hash = Sha256::new();
    for (name, version) in &inputs.versions {
        hash.update(format!("{name}={version}\n"));
    }
    for wanted in &target.documents {
        hash.update(format!("{}\n{}\n{}\n", wanted.kind.name(), wanted.old, wanted.new));
    }
    // A plan that was agreed to under other rules is another plan.
    hash.update(rules::version());
    ChangeId::of_hash(&hash.finalize())
}

impl PlannedStep {
    /// Is it that step, or joined with it?
    pub fn does(&self, id: StepId) -> bool {
        self.id == id || self.joined == Some(id)
    }

    /// Its lines for one shell of a person: where one fails, none behind it is run, and kubeadm waits for the host's lock. Those of people are done on several machines.
    pub fn script(&self) -> String {
        // Without braces what stands behind `||` would be run for a line before.
        let grouped = |line: &CommandLine| {
            let line = pasted(line);
            let line = line.as_str();
            if self.commands.len() > 1 && line.contains("||") {
                format!("{{ {line}; }}")
            } else {
                line.to_owned()
            }
        };
        let lines: Vec<String> = self.commands.iter().map(grouped).collect();
        lines.join(if self.id == StepId::P2 { "\n" } else { " &&\n" })
    }
}

impl ChangePlan {
    /// The nodes of the steps with this id.
    pub fn steps_of(&self, id: StepId) -> impl Iterator<Item = &str> {
        let steps = self.steps.iter().filter(move |step| step.does(id));
        steps.flat_map(|step| &step.nodes).map(String::as_str)
    }

    /// What is done before anything is written.
    pub fn preparation(&self) -> impl Iterator<Item = (usize, &PlannedStep)> {
        let steps = self.steps.iter().enumerate();
        steps.take_while(|(_, step)| matches!(step.id, StepId::H1 | StepId::I1))
    }

    /// Every component that is reached, with its nodes.
    pub fn components(&self) -> BTreeMap<Component, BTreeSet<&str>> {
        let mut found: BTreeMap<Component, BTreeSet<&str>> = BTreeMap::new();
        for reach in &self.reach {
            found.entry(reach.component).or_default().extend(reach.nodes.iter().map(String::as_str));
        }
        found
    }
}

#[cfg(test)]
mod files_tests;
#[cfg(test)]
mod managed_tests;
#[cfg(test)]
pub(super) mod tests;
#[cfg(test)]
mod verdict_tests;
