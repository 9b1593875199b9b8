//! What a person sees before a change of a configuration is carried out. Owns the findings, the steps and the difference; what
//! a change means is the plan's.

use async_trait::async_trait;
use serde_json::Value;

use super::judged::{Aim, Judged};
use super::managed;
use super::source::ManagedCluster;
use crate::operations::diff::{DiffLine, Sign, diff};
use crate::operations::guard::{DryRun, Proposed, Refusal};
use crate::operations::{Finding, PatchedObject, Severity};
use capstan_base::text::counted;
use capstan_engine::reconfigure::preflight::{self, Hands};
use capstan_engine::reconfigure::rights;
use kubeadm_change::difference::without_secrets;
use kubeadm_change::document::DocumentKind;
use kubeadm_change::plan::{PlanState, PlannedStep};
use kubeadm_change::render::ClusterSettings;
use kubeadm_change::rules::Judgement;
use kubeadm_change::steps::StepId;

/// What was judged, while it is being looked at.
pub struct ProposedChange<'a> {
    judged: &'a Judged,
    /// Who runs commands on nodes; `None`: people do.
    hands: Option<Hands<'a>>,
    patched: Option<PatchedObject>,
}

impl<'a> ProposedChange<'a> {
    /// `hands`: who runs commands on nodes; `None`: people do.
    pub fn new(judged: &'a Judged, hands: Option<Hands<'a>>) -> Self {
        Self { judged, hands, patched: None }
    }

    /// What the dry run made of the object that is patched.
    pub(super) fn patched(self) -> Option<PatchedObject> {
        self.patched
    }

    /// The patch of a KubeadmControlPlane, where that is all that is written.
    fn patch(&self) -> Option<(&'a ManagedCluster, &'a Value)> {
        let Judged { live, plan, .. } = self.judged;
        live.managed.as_ref().zip(plan.control_plane_patch.as_ref())
    }
}

#[async_trait]
impl Proposed for ProposedChange<'_> {
    type Error = Refusal;

    async fn rights(&mut self) -> Result<Vec<Finding>, Refusal> {
        let missing = match self.patch() {
            Some((managed, _)) => managed::missing_right(managed).await.into_iter().collect(),
            None => rights::missing(&self.judged.live.client, &self.judged.plan, self.hands.is_some()).await,
        };
        let finding = |right| Finding::blocker("missing-right", format!("missing right: {right}"));
        Ok(missing.into_iter().map(finding).collect())
    }

    async fn preflight(&mut self) -> Result<Vec<Finding>, Refusal> {
        let mut found = findings(self.judged);
        if let Some(hands) = &self.hands {
            found.extend(hosts(self.judged, hands).await);
        }
        Ok(found)
    }

    /// Of a KubeadmControlPlane's patch. What a change writes into the cluster itself is tried right before it is written.
    async fn dry_run(&mut self) -> Result<DryRun, Refusal> {
        let Some((managed, patch)) = self.patch() else { return Ok(DryRun::default()) };
        match managed::tried(managed, patch).await {
            Ok(after) => {
                self.patched = Some(PatchedObject { before: managed.object.clone(), after });
                Ok(DryRun::default())
            }
            Err(why) => Ok(DryRun { findings: vec![Finding::blocker("dry-run", why)], ..DryRun::default() }),
        }
    }
}

/// What hosts lack. A change that was begun goes on, or is taken back, as far as hosts let it.
async fn hosts(judged: &Judged, hands: &Hands<'_>) -> Vec<Finding> {
    let cluster = judged.wanted.document(DocumentKind::Cluster);
    let Some(Ok(settings)) = cluster.map(|cluster| ClusterSettings::new(&cluster.new, None)) else {
        return Vec::new();
    };
    let missing = preflight::missing(hands, &judged.plan, &judged.found.reading.running, &settings).await;
    let severity = if judged.aim == Aim::Begin { Severity::Blocker } else { Severity::Warning };
    missing.into_iter().map(|text| Finding { severity, rule: HOST, text }).collect()
}

/// The rule of a finding about a host.
pub const HOST: &str = "host";

pub(super) fn summary(judged: &Judged) -> String {
    let fields = counted(judged.plan.changes.len(), "field");
    match (judged.aim, &judged.open) {
        (Aim::GoOn, Some(open)) => {
            format!(
                "Goes on with change {} of {}, begun {}, where the cluster shows it is.",
                open.id, open.by, open.begun
            )
        }
        (Aim::TakeBack, Some(open)) if judged.plan.state == PlanState::Nothing => {
            format!("Nothing of change {} is stored: closes its record.", open.id)
        }
        (Aim::TakeBack, _) => {
            format!("Takes the last change back: {fields} of the stored configuration, as before.")
        }
        _ => format!("Changes {fields} of the stored configuration, and begins what follows."),
    }
}

fn findings(judged: &Judged) -> Vec<Finding> {
    let plan = &judged.plan;
    let finding = |severity, rule, text: String| Finding { severity, rule, text };
    let is_begun = judged.items.is_some();
    let mut found: Vec<Finding> = Vec::new();
    for change in &plan.changes {
        let said = &change.finding;
        let instead =
            said.alternative.as_ref().map_or_else(String::new, |other| format!(" Instead: {other}"));
        let text = format!("{}: {}{instead}", change.change.path, said.message);
        match said.verdict {
            Judgement::Ok => {}
            Judgement::Advise => found.push(finding(Severity::Warning, "advise", text)),
            // Where the plan is not blocked, somebody passed it.
            Judgement::Block if plan.state != PlanState::Blocked => {
                found.push(finding(Severity::Warning, "block", text));
            }
            Judgement::Block => found.push(finding(Severity::Blocker, "block", text)),
        }
    }
    if plan.state == PlanState::Invalid {
        let wrong = plan.findings.iter().map(|wrong| format!("{}: {}", wrong.kind, wrong.message));
        found.extend(wrong.map(|text| finding(Severity::Blocker, "invalid", text)));
    }
    if plan.takes_back() && !is_begun {
        let drift = plan.drift.iter().map(|drift| format!("{} on {}", drift.component, drift.node));
        let text =
            format!("takes back what runs otherwise than stored: {}", drift.collect::<Vec<_>>().join(", "));
        found.push(finding(Severity::Warning, "drift", text));
    }
    // This was shown before the change was begun.
    if !is_begun {
        found.extend(plan.disruption.iter().map(|text| finding(Severity::Note, "disruption", text.clone())));
    }
    found
}

/// What is written now, and what is left.
pub(super) fn steps(judged: &Judged) -> Vec<String> {
    let plan = &judged.plan;
    if let (Some(patch), Some(managed)) = (&plan.control_plane_patch, &judged.live.managed) {
        return vec![format!(
            "now: patch {} with {patch}; it replaces its Machines one by one",
            managed.control_plane
        )];
    }
    let left: Vec<&PlannedStep> = plan.steps.iter().filter(|step| judged.is_left(step)).collect();
    let by_api = left.iter().filter(|step| step.id.is_by_api());
    let mut lines: Vec<String> = by_api.map(|step| format!("the API: {}", step.title)).collect();
    match left.iter().filter(|step| !step.nodes.is_empty()).count() {
        0 if lines.is_empty() => lines.push("nothing is left to do: the record of the change is closed".to_owned()),
        0 => {}
        count => lines.push(format!(
            "you: {count} steps on nodes, with their commands on the page Plan; nothing is done on nodes from here"
        )),
    }
    lines
}

pub(super) fn differences(judged: &Judged) -> Vec<DiffLine> {
    let mut lines = Vec::new();
    let is_written =
        |id: &StepId| judged.plan.steps.iter().any(|step| step.id == *id && judged.is_left(step));
    // A change under way whose documents are all stored has none left to write.
    if judged.items.is_some() && ![StepId::G1, StepId::G2, StepId::G3].iter().any(is_written) {
        return lines;
    }
    for wanted in judged.wanted.documents.iter().filter(|wanted| wanted.old != wanted.new) {
        lines.push(DiffLine { sign: Sign::Gap, text: wanted.kind.name().to_owned() });
        lines.extend(diff(&without_secrets(&wanted.old), &without_secrets(&wanted.new)));
    }
    lines
}
