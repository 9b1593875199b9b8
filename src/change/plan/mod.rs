//! From a request to a plan: what changes, what follows from it, whether it may be made, which components of which
//! nodes it reaches, and in which steps it is done. Owns the plan as a value; must not know a client, a clock, or
//! how a plan is printed.

mod artefacts;
mod derived;
mod drift;
mod managed;
mod sequence;
mod validity;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::check::DocumentFinding;
use super::difference::{FieldChange, differences};
use super::document::{DocumentKind, Inputs};
use super::facts::{ClusterFacts, ManagedBy};
use super::render::{ClusterSettings, HostFacts, RenderError};
use super::request::WantedDocuments;
use super::rules::{self, Component, Judgement, RuleFinding};
use super::steps::StepId;

pub use artefacts::Reach;
pub use drift::Drift;

/// What is to be done about a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanState {
    /// Nothing differs.
    Nothing,
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
    #[serde(flatten)]
    pub change: FieldChange,
    #[serde(flatten)]
    pub finding: RuleFinding,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedStep {
    pub id: StepId,
    pub title: String,
    /// Where; empty for a step that is done once. Several nodes are a batch.
    pub nodes: Vec<String>,
    pub commands: Vec<String>,
    /// What must hold before the next step.
    pub check: String,
    pub undo: String,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangePlan {
    /// Of the versions it was made from, the request and the rules.
    pub id: String,
    pub state: PlanState,
    pub managed_by: ManagedBy,
    pub changes: Vec<JudgedChange>,
    pub findings: Vec<DocumentFinding>,
    pub drift: Vec<Drift>,
    pub reach: Vec<Reach>,
    pub steps: Vec<PlannedStep>,
    /// What people will notice while it is carried out.
    pub disruption: Vec<String>,
    pub notes: Vec<String>,
    /// The patch for the KubeadmControlPlane that looks after the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_patch: Option<Value>,
}

/// How a plan is made.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Pass blocks that a rule allows to be passed.
    pub force: bool,
    /// The changes whose warnings were read and taken: acknowledged as a whole.
    pub acknowledged: bool,
    /// Where the files are that commands name.
    pub files: String,
}

/// Makes the plan for a request. `target` gets the changes that follow from those asked for.
///
/// # Errors
/// The stored configuration cannot be rendered.
pub fn plan(
    inputs: &Inputs,
    target: &mut WantedDocuments,
    options: &PlanOptions,
) -> Result<ChangePlan, RenderError> {
    let facts = ClusterFacts::read(inputs);
    let derived = derived::add(target);
    let changes: Vec<FieldChange> = target
        .documents
        .iter()
        .flat_map(|wanted| differences(wanted.kind, &wanted.old, &wanted.new))
        .map(|change| derived::marked(change, &derived))
        .collect();
    let mut judged: Vec<JudgedChange> = changes
        .into_iter()
        .filter_map(|change| Some(JudgedChange { finding: rules::judge(&change, &facts)?, change }))
        .collect();
    let mut notes = target.notes.clone();
    let control_plane_patch = match facts.managed_by {
        ManagedBy::ControlPlane => managed::translate(inputs, target, &mut judged, &mut notes),
        ManagedBy::Kubeadm => None,
    };
    let hosts = hosts(inputs, &facts, &mut notes);
    let findings = validity::check(inputs, target, facts.minor);
    let state = state(&judged, &findings, options);
    let (mut reach, mut steps, mut drift) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(cluster) = target.document(DocumentKind::Cluster) {
        let old = ClusterSettings::new(&cluster.old, None)?;
        drift = drift::find(&old, &facts)?;
        if !matches!(state, PlanState::Invalid | PlanState::Blocked) {
            let new = ClusterSettings::new(&cluster.new, None)?;
            reach = artefacts::reach(&old, &new, &hosts, &judged)?;
            steps = sequence::steps(&sequence::Inputs {
                reach: &reach,
                judged: &judged,
                facts: &facts,
                hosts: &hosts,
                files: &options.files,
                new: &new,
                patch: control_plane_patch.as_ref(),
            });
        }
    }
    let disruption = sequence::disruption(&reach, &facts, &steps);
    let id = identity(inputs, target);
    Ok(ChangePlan {
        id,
        state,
        managed_by: facts.managed_by,
        changes: judged,
        findings,
        drift,
        reach,
        steps,
        disruption,
        notes,
        control_plane_patch,
    })
}

fn state(judged: &[JudgedChange], findings: &[DocumentFinding], options: &PlanOptions) -> PlanState {
    let blocks = |judged: &JudgedChange| {
        judged.finding.verdict == Judgement::Block && !(options.force && judged.finding.forceable)
    };
    if judged.iter().any(blocks) {
        return PlanState::Blocked;
    }
    if findings.iter().any(|finding| finding.severity == super::check::FindingSeverity::Error) {
        return PlanState::Invalid;
    }
    if judged.is_empty() {
        return PlanState::Nothing;
    }
    let advises = judged.iter().any(|judged| judged.finding.verdict != Judgement::Ok);
    if advises && !options.acknowledged { PlanState::NeedsAcknowledgement } else { PlanState::Ready }
}

/// The control plane nodes: those that run, else that of the InitConfiguration, else one that stands for all.
fn hosts(inputs: &Inputs, facts: &ClusterFacts, notes: &mut Vec<String>) -> Vec<HostFacts> {
    if !facts.control_plane.is_empty() {
        return facts.control_plane.iter().map(|node| node.host.clone()).collect();
    }
    if let Some(init) = inputs.document(DocumentKind::Init).map(|document| &document.value)
        && let Some(name) = init["nodeRegistration"]["name"].as_str()
        && let Some(address) = init["localAPIEndpoint"]["advertiseAddress"].as_str()
    {
        return vec![HostFacts::new(name, address)];
    }
    notes.push(
        "no control plane node is known: steps are for one node NODE, to be done on each in turn".to_owned(),
    );
    vec![HostFacts::new("NODE", "192.0.2.1")]
}

/// Twelve hexadecimal digits over everything that the plan was made from.
fn identity(inputs: &Inputs, target: &WantedDocuments) -> String {
    let mut hash = Sha256::new();
    for (name, version) in &inputs.versions {
        hash.update(format!("{name}={version}\n"));
    }
    for wanted in &target.documents {
        hash.update(format!("{}\n{}\n{}\n", wanted.kind.name(), wanted.old, wanted.new));
    }
    hash.update(rules::version());
    let digits: String = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    digits
}

impl ChangePlan {
    /// Every component that is reached, with its nodes.
    #[must_use]
    pub fn components(&self) -> BTreeMap<Component, BTreeSet<&str>> {
        let mut found: BTreeMap<Component, BTreeSet<&str>> = BTreeMap::new();
        for reach in &self.reach {
            found.entry(reach.component).or_default().extend(reach.nodes.iter().map(String::as_str));
        }
        found
    }
}

#[cfg(test)]
mod tests;
