//! Changes of the kubeadm configuration of the clusters of one server: what is read, asked before and said after. Owns that; how far a change is and what comes next are `change`'s and `reconfigure`'s. People do what is done on nodes.

pub mod journal;
pub mod managed;
pub mod source;

use std::time::Duration;

use async_trait::async_trait;

use self::journal::Said;
use self::source::{LiveCluster, SourceReading, of_fleet, reading_of};
use super::diff::{DiffLine, Sign, diff};
use super::journal::{Entry, Journal};
use super::{
    ChangeOrder, ChangePreview, ConfigurationReader, ConfigurationReading, Confirmation, Finding, Severity,
    Underway,
};
use capi_types::key::ObjectKey;
use capstan_base::text::counted;
use capstan_base::time::{Clock, rfc3339};
use capstan_engine::client::{Connection, Writer};
use capstan_engine::reconfigure::apply::{Application, Applied, ApplyEvent};
use capstan_engine::reconfigure::drain::DrainTimes;
use capstan_engine::reconfigure::judge::{self, Consent, judge, permitted};
use capstan_engine::reconfigure::way::HostWay;
use capstan_engine::reconfigure::{look, rights, write};
use kubeadm_change::difference::without_secrets;
use kubeadm_change::gate::{self, Doing};
use kubeadm_change::plan::{ChangePlan, PlanOptions, PlanState, PlannedStep, plan};
use kubeadm_change::progress::{ItemState, ProgressItem, state_of};
use kubeadm_change::record::{Beginning, ChangeRecord};
use kubeadm_change::render::RenderError;
use kubeadm_change::request::{PatchKind, RequestPart, WantedDocuments, apply};
use kubeadm_change::rules::Judgement;
use kubeadm_change::steps::StepId;

/// The field manager of what is written.
pub const MANAGER: &str = "capstan";

/// How often is looked while something restarts, and for how long.
const PACE: DrainTimes = DrainTimes { poll: Duration::from_secs(1), patience: Duration::from_secs(120) };

/// The clusters of one server.
pub struct ClusterConfigurations {
    pub connection: Connection,
    pub journal: Journal,
    pub clock: Clock,
    pub user: String,
}

/// An order, judged from the cluster as it is.
struct Judged {
    found: SourceReading,
    live: LiveCluster,
    wanted: WantedDocuments,
    plan: ChangePlan,
    /// The change that is not over.
    open: Option<ChangeRecord>,
    /// How far it is, where it goes on.
    items: Option<Vec<ProgressItem>>,
}

impl Judged {
    /// Is a step still to be done?
    fn is_left(&self, step: &PlannedStep) -> bool {
        let state = self.items.as_ref().map(|items| state_of(gate::items_of(step, items)).0);
        state.is_none_or(|state| !matches!(state, ItemState::Done | ItemState::Manual))
    }
}

#[async_trait]
impl ConfigurationReader for ClusterConfigurations {
    async fn read(&self, cluster: &ObjectKey) -> Result<ConfigurationReading, String> {
        let SourceReading { mut reading, live } = self.find(cluster).await?;
        let open = reading.record.clone().filter(ChangeRecord::is_open);
        let mut underway = None;
        if let (Some(live), Some(open)) = (&live, &open) {
            let judged = judge(&live.client, &mut reading, open, Consent::ALL).await;
            match judged.and_then(|judged| permitted(&judged.plan).map(|()| judged)) {
                Ok(judge::Judged { plan, items, .. }) => {
                    let doing = Doing::begin(open, true);
                    let next = gate::next(&plan, &items, &reading.running, &doing);
                    underway = Some(Underway { plan, items, next });
                }
                Err(why) => reading.running.gaps.push(format!("how far change {} is: {why}", open.id)),
            }
        }
        let (inputs, record, gaps) = (reading.inputs, reading.record, reading.running.gaps);
        Ok(ConfigurationReading { inputs, record, underway, gaps })
    }

    async fn preview(&self, cluster: &ObjectKey, order: &ChangeOrder) -> Result<ChangePreview, String> {
        let judged = self.judged(cluster, order).await?;
        let mut findings = findings(&judged);
        let missing = rights::missing(&judged.live.client, &judged.plan, false).await;
        findings.extend(missing.into_iter().map(|right| Finding {
            severity: Severity::Blocker,
            rule: "missing-right",
            text: format!("missing right: {right}"),
        }));
        let is_doubtful = judged.plan.state == PlanState::NeedsAcknowledgement;
        Ok(ChangePreview {
            order: order.clone(),
            plan_id: judged.plan.id.to_string(),
            summary: summary(&judged, order),
            findings,
            steps: steps(&judged),
            diff: differences(&judged),
            confirmation: if is_doubtful { Confirmation::Name } else { Confirmation::Yes },
        })
    }

    async fn carry_out(&self, cluster: &ObjectKey, preview: &ChangePreview) -> Result<String, String> {
        let judged = self.judged(cluster, &preview.order).await?;
        if judged.plan.id.as_str() != preview.plan_id {
            let why = "the cluster changed since this was shown; nothing was written: look at it again";
            return Err(why.to_owned());
        }
        let action = match preview.order {
            ChangeOrder::Begin(_) | ChangeOrder::GoOn => "change apply",
            ChangeOrder::TakeBack => "change rollback",
        };
        let writer = Writer::new(judged.live.client.clone(), MANAGER);
        let record = match (&preview.order, &judged.open) {
            (ChangeOrder::GoOn, Some(open)) => open.clone(),
            (_, Some(open)) if judged.plan.state == PlanState::Nothing => {
                let closed = write::close(&writer, open, rfc3339(self.clock.now())).await;
                closed.map_err(|error| error.to_string())?;
                return Ok(format!("nothing of change {} is stored: its record is closed", open.id));
            }
            _ if judged.plan.control_plane_patch.is_some() => {
                return self.patch_control_plane(&judged, action).await;
            }
            _ => {
                let (reading, at) = (&judged.found.reading, rfc3339(self.clock.now()));
                let last = reading.record.as_ref();
                let takes_back = last.filter(|_| preview.order == ChangeOrder::TakeBack);
                let beginning = Beginning { by: &self.user, at, takes_back };
                let record =
                    ChangeRecord::of_plan(&judged.plan, &judged.wanted, &reading.texts, last, beginning);
                let record = record.map_err(|error| error.to_string())?;
                self.note(&judged.live, action, record.id.as_str(), Ok(false))?;
                if let Err(error) = write::begin(&writer, reading, &record).await {
                    self.note(&judged.live, action, record.id.as_str(), Err(&error.to_string()))?;
                    return Err(error.to_string());
                }
                record
            }
        };
        self.by_api(&judged.live, &record, action, writer).await
    }
}

impl ClusterConfigurations {
    async fn find(&self, cluster: &ObjectKey) -> Result<SourceReading, String> {
        let live = of_fleet(self.connection.clone(), cluster).await.map_err(|error| error.to_string())?;
        reading_of(live).await.map_err(|error| error.to_string())
    }

    async fn judged(&self, cluster: &ObjectKey, order: &ChangeOrder) -> Result<Judged, String> {
        if self.connection.read_only {
            return Err("this capstan is read-only (--read-only); nothing was sent".to_owned());
        }
        let mut found = self.find(cluster).await?;
        let live = found.live.clone().ok_or("there is no server behind this cluster")?;
        let last = found.reading.record.clone();
        let open = last.clone().filter(ChangeRecord::is_open);
        let inputs = &found.reading.inputs;
        let mut wanted = match (order, &open) {
            (ChangeOrder::GoOn, Some(open)) => {
                let judged = judge(&live.client, &mut found.reading, open, Consent::default()).await;
                let judge::Judged { target, plan, items } = judged.map_err(|e| e.to_string())?;
                let (open, items) = (Some(open.clone()), Some(items));
                return Ok(Judged { found, live, wanted: target, plan, open, items });
            }
            (ChangeOrder::GoOn, None) => return Err("no change is under way".to_owned()),
            (ChangeOrder::Begin(_), Some(open)) => {
                return Err(format!(
                    "change {} of {} is not over: go on with it, or take it back",
                    open.id, open.by
                ));
            }
            (ChangeOrder::Begin(edits), None) => {
                let parts: Vec<RequestPart> = edits.iter().cloned().map(RequestPart::Set).collect();
                apply(inputs, &parts, PatchKind::Strategic).map_err(sentences)?
            }
            (ChangeOrder::TakeBack, _) => {
                let last =
                    last.ok_or("capstan has not changed this cluster: there is nothing to take back")?;
                if let Some(taken) = last.takes_back.as_ref().filter(|_| last.is_open()) {
                    return Err(format!(
                        "change {} takes {} back and is not over: `:apply` goes on with it",
                        last.id, taken.id
                    ));
                }
                if let Some(taken) = &last.takes_back {
                    return Err(format!(
                        "change {id} took {} back: taking that back as well stores again what it took away; \
                         if that is meant: capstan change rollback --change {id}",
                        taken.id,
                        id = last.id
                    ));
                }
                last.taken_back(inputs).map_err(sentences)?
            }
        };
        let options = PlanOptions { files: ".".to_owned(), ..PlanOptions::default() };
        let plan = planned(&found, &mut wanted, options).await.map_err(|error| error.to_string())?;
        if plan.state == PlanState::Nothing && open.is_none() {
            return Err("nothing differs from what is stored".to_owned());
        }
        Ok(Judged { found, live, wanted, plan, open, items: None })
    }

    async fn patch_control_plane(&self, judged: &Judged, action: &str) -> Result<String, String> {
        let patch = judged.plan.control_plane_patch.as_ref();
        let (Some(managed), Some(patch)) = (&judged.live.managed, patch) else {
            return Err("the KubeadmControlPlane that looks after this cluster is not known".to_owned());
        };
        let said = |outcome, error| Said { clock: &self.clock, user: &self.user, action, outcome, error };
        let note = |said: Said<'_>| self.append(&said.about_control_plane(managed, patch));
        note(said("asked", None))?;
        let patched = managed::patch(managed, patch, MANAGER).await;
        match &patched {
            Ok(_) => note(said("done", None))?,
            Err(why) => note(said("failed", Some(why)))?,
        }
        patched.map(|words| words.trim_end().to_owned())
    }

    /// Goes through the steps as far as the API does them.
    async fn by_api(
        &self,
        live: &LiveCluster,
        record: &ChangeRecord,
        action: &str,
        writer: Writer,
    ) -> Result<String, String> {
        let mut tell = |_: &ApplyEvent| {};
        let mut application = Application {
            writer,
            server: live.server.clone(),
            executor: None,
            way: HostWay::default(),
            change: record.clone(),
            // What speaks against it stood in the dialog that was confirmed; a block cannot be.
            consent: Consent { force: false, acknowledged: true },
            clock: self.clock.clone(),
            pace: PACE,
            tell: &mut tell,
        };
        match application.carry_out().await {
            Ok(Applied::Complete(_)) => {
                self.note(live, action, record.id.as_str(), Ok(true))?;
                Ok(format!("change {} is complete", record.id))
            }
            Ok(Applied::ForPeople { plan, next, .. }) => {
                let step = &plan.steps[next];
                let nodes = if step.nodes.is_empty() {
                    String::new()
                } else {
                    format!(" on {}", step.nodes.join(", "))
                };
                Ok(format!("change {} was written; now for you: {}{nodes}", record.id, step.title))
            }
            Err(error) => {
                let why = error.to_string();
                self.note(live, action, record.id.as_str(), Err(&why))?;
                let back = if record.takes_back.is_none() { ", `:rollback` takes it back" } else { "" };
                Err(format!("{why}\n\nWhat was done stays. `:apply` goes on{back}."))
            }
        }
    }

    /// `Ok(false)`: it was asked for; `Ok(true)`: it is done.
    fn note(
        &self,
        live: &LiveCluster,
        action: &str,
        id: &str,
        outcome: Result<bool, &str>,
    ) -> Result<(), String> {
        let word = match outcome {
            Ok(false) => "asked",
            Ok(true) => "done",
            Err(_) => "failed",
        };
        let said = Said { clock: &self.clock, user: &self.user, action, outcome: word, error: outcome.err() };
        self.append(&said.about_record(&live.server, id))
    }

    fn append(&self, entry: &Entry<'_>) -> Result<(), String> {
        let path = self.journal.path().display().to_string();
        self.journal
            .append(entry)
            .map_err(|error| format!("cannot write the journal {path}: {error}; nothing further was done"))
    }
}

/// The plan, with what etcd's members show in a running cluster where it depends on that.
///
/// # Errors
/// The configuration cannot be rendered.
pub async fn planned(
    found: &SourceReading,
    target: &mut WantedDocuments,
    mut options: PlanOptions,
) -> Result<ChangePlan, RenderError> {
    let inputs = &found.reading.inputs;
    let first = plan(inputs, target, &options)?;
    let (leader, database) = (look::needs_leader(&first), look::needs_database(&first));
    let Some(live) = found.live.as_ref().filter(|_| leader || database) else { return Ok(first) };
    let running = &found.reading.running;
    if leader {
        options.etcd_leader = look::etcd_leader(&live.client, running).await;
    }
    if database {
        options.etcd_database_bytes = look::etcd_database_bytes(&live.client, running).await;
    }
    // The request was cut to its first rollout by the first plan.
    Ok(ChangePlan { rollout: first.rollout, ..plan(inputs, target, &options)? })
}

fn sentences(errors: Vec<kubeadm_change::document::InputError>) -> String {
    errors.into_iter().map(|error| error.message).collect::<Vec<_>>().join("; ")
}

fn summary(judged: &Judged, order: &ChangeOrder) -> String {
    let fields = counted(judged.plan.changes.len(), "field");
    match (order, &judged.open) {
        (ChangeOrder::GoOn, Some(open)) => {
            format!(
                "Goes on with change {} of {}, begun {}, where the cluster shows it is.",
                open.id, open.by, open.begun
            )
        }
        (ChangeOrder::TakeBack, Some(open)) if judged.plan.state == PlanState::Nothing => {
            format!("Nothing of change {} is stored: closes its record.", open.id)
        }
        (ChangeOrder::TakeBack, _) => {
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
    if !is_begun {
        found.extend(plan.disruption.iter().map(|text| finding(Severity::Note, "disruption", text.clone())));
    }
    found
}

/// What is written now, and what is left.
fn steps(judged: &Judged) -> Vec<String> {
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

fn differences(judged: &Judged) -> Vec<DiffLine> {
    let mut lines = Vec::new();
    let is_written =
        |id: &StepId| judged.plan.steps.iter().any(|step| step.id == *id && judged.is_left(step));
    if judged.items.is_some() && ![StepId::G1, StepId::G2, StepId::G3].iter().any(is_written) {
        return lines;
    }
    for wanted in judged.wanted.documents.iter().filter(|wanted| wanted.old != wanted.new) {
        lines.push(DiffLine { sign: Sign::Gap, text: wanted.kind.name().to_owned() });
        lines.extend(diff(&without_secrets(&wanted.old), &without_secrets(&wanted.new)));
    }
    lines
}
