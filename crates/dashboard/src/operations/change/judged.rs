//! What somebody wants done with a configuration, judged from the cluster as it is. Owns what it comes to and what would be written of
//! it; must not write.

use serde_json::Value;

use super::confirmed::ChangeWrite;
use super::source::{LiveCluster, SourceReading};
use crate::operations::guard::Guard;
use crate::operations::{ChangeOrder, Confirmation};
use capstan_base::time::rfc3339;
use capstan_engine::reconfigure::apply::ApplyError;
use capstan_engine::reconfigure::judge::{self, Consent, judge};
use capstan_engine::reconfigure::look;
use kubeadm_change::certificate_drift::{self, CertificateDrift};
use kubeadm_change::document::DocumentKind;
use kubeadm_change::document::InputError;
use kubeadm_change::gate;
use kubeadm_change::plan::{
    AsStored, ChangePlan, PlanOptions, PlanState, PlannedStep, ServedOtherwise, plan,
};
use kubeadm_change::progress::{ItemState, ProgressItem, state_of};
use kubeadm_change::record::{Beginning, ChangeRecord};
use kubeadm_change::render::{ClusterSettings, ETCD, RenderError};
use kubeadm_change::request::{PatchKind, RequestPart, WantedDocuments, apply};

/// What is done with a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    Begin,
    /// With the change that is not over.
    GoOn,
    TakeBack,
}

/// What somebody wants done, judged from the cluster as it is.
pub struct Judged {
    pub found: SourceReading,
    pub live: LiveCluster,
    pub plan: ChangePlan,
    pub(super) aim: Aim,
    pub(super) wanted: WantedDocuments,
    /// The change that is not over.
    pub(super) open: Option<ChangeRecord>,
    /// How far it is, where it goes on.
    pub(super) items: Option<Vec<ProgressItem>>,
}

impl Judged {
    /// What documents that are wanted come to.
    ///
    /// # Errors
    /// The configuration cannot be rendered.
    pub async fn of_documents(
        found: SourceReading,
        live: LiveCluster,
        (aim, mut wanted): (Aim, WantedDocuments),
        options: PlanOptions,
    ) -> Result<Self, RenderError> {
        let plan = planned(&found, &mut wanted, options).await?;
        let open = found.reading.record.clone().filter(ChangeRecord::is_open);
        Ok(Self { found, live, plan, aim, wanted, open, items: None })
    }

    /// What is left of a change that was begun. What stands in its record may be anybody's: it is judged anew.
    ///
    /// # Errors
    /// The record or the configuration cannot be read.
    pub async fn of_record(
        mut found: SourceReading,
        live: LiveCluster,
        open: ChangeRecord,
        consent: Consent,
    ) -> Result<Self, ApplyError> {
        let judged = judge(&live.client, &mut found.reading, &open, consent).await?;
        let judge::Judged { target: wanted, plan, items } = judged;
        Ok(Self { found, live, plan, aim: Aim::GoOn, wanted, open: Some(open), items: Some(items) })
    }

    /// What a person has to answer before.
    pub fn confirmation(&self) -> Confirmation {
        let is_doubtful = self.plan.state == PlanState::NeedsAcknowledgement;
        let usual = if is_doubtful { Confirmation::Name } else { Confirmation::Yes };
        usual.in_context(&self.live.setting)
    }

    /// What is written of it, by the person and at the moment of `guard`.
    ///
    /// # Errors
    /// It cannot be written from here, in a sentence.
    pub fn write(&self, guard: &Guard) -> Result<ChangeWrite<'_>, String> {
        let reading = &self.found.reading;
        match (self.aim, &self.open, &self.plan.control_plane_patch) {
            (Aim::GoOn, Some(open), _) => Ok(ChangeWrite::GoOn(open.clone())),
            // An open record of which nothing is stored would block every later change.
            (_, Some(open), _) if self.plan.state == PlanState::Nothing => Ok(ChangeWrite::Close(open)),
            (_, _, Some(patch)) => {
                let managed = self.live.managed.as_ref().ok_or(
                    "a KubeadmControlPlane looks after this cluster: run it against the management cluster with \
                     --cluster NS/NAME; nothing was written",
                )?;
                Ok(ChangeWrite::Patch { managed, patch })
            }
            _ => {
                let last = reading.record.as_ref();
                let takes_back = last.filter(|_| self.aim == Aim::TakeBack);
                let at = rfc3339(guard.clock.now());
                let beginning = Beginning { by: &guard.user, at, takes_back };
                let record = ChangeRecord::of_plan(&self.plan, &self.wanted, &reading.texts, last, beginning);
                let record = record.map_err(|error| error.to_string())?;
                Ok(ChangeWrite::Begin { record, reading, plan: &self.plan })
            }
        }
    }

    /// From what was read of a cluster.
    ///
    /// # Errors
    /// There is nothing to do, or it cannot be understood, in a sentence.
    pub(super) async fn of(found: SourceReading, order: &ChangeOrder) -> Result<Self, String> {
        let live = found.live.clone().ok_or("there is no server behind this cluster")?;
        let last = found.reading.record.clone();
        let open = last.clone().filter(ChangeRecord::is_open);
        let inputs = &found.reading.inputs;
        let documents = match (order, &open) {
            (ChangeOrder::GoOn, Some(open)) => {
                let judged = Self::of_record(found, live, open.clone(), Consent::default()).await;
                return judged.map_err(|error| error.to_string());
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
                (Aim::Begin, apply(inputs, &parts, PatchKind::Strategic).map_err(sentences)?)
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
                (Aim::TakeBack, last.taken_back(inputs).map_err(sentences)?)
            }
        };
        let takes_back = documents.0 == Aim::TakeBack;
        let options = PlanOptions { files: ".".to_owned(), takes_back, ..PlanOptions::default() };
        let judged = Self::of_documents(found, live, documents, options).await;
        let judged = judged.map_err(|error| error.to_string())?;
        if judged.plan.state == PlanState::Nothing && judged.open.is_none() {
            return Err("nothing differs from what is stored".to_owned());
        }
        Ok(judged)
    }

    /// Is a step still to be done?
    pub(super) fn is_left(&self, step: &PlannedStep) -> bool {
        let state = self.items.as_ref().map(|items| state_of(gate::items_of(step, items)).0);
        state.is_none_or(|state| !matches!(state, ItemState::Done | ItemState::Manual))
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
    let mut first = plan(inputs, target, &options)?;
    let mut notes = Vec::new();
    let Some(live) = &found.live else { return Ok(first) };
    // Mirror pods show neither certificates nor the configuration of kubelets: both are looked at,
    // and the plan is made again with what was seen.
    if options.as_stored.is_some() {
        let seen = Seen::of(found, live).await?;
        let etcd = first.drift.iter().any(|drift| drift.component == ETCD);
        let certificates = ServedOtherwise::of(&seen.certificates);
        options.as_stored = Some(AsStored { etcd, kubelets: seen.has_stale_kubelets, certificates });
        options.served_otherwise = seen.certificates;
        first = plan(inputs, target, &options)?;
        notes = seen.gaps;
        if first.drift.is_empty() && !seen.has_stale_kubelets {
            first.notes.extend(notes);
            return Ok(ChangePlan { state: PlanState::Nothing, steps: Vec::new(), ..first });
        }
    }
    let mut planned = first;
    // The request was cut to its first rollout by the first plan.
    if look::etcd_members(&live.client, &planned, &found.reading.running, &mut options).await {
        planned = ChangePlan { rollout: planned.rollout, ..plan(inputs, target, &options)? };
    }
    planned.notes.extend(notes);
    Ok(planned)
}

/// What runs otherwise than stored, and no mirror pod shows.
struct Seen {
    certificates: Vec<CertificateDrift>,
    has_stale_kubelets: bool,
    /// Certificates that could not be seen.
    gaps: Vec<String>,
}

impl Seen {
    async fn of(found: &SourceReading, live: &LiveCluster) -> Result<Self, RenderError> {
        let document =
            |kind| found.reading.inputs.document(kind).map_or(&Value::Null, |document| &document.value);
        let mut running = found.reading.running.clone();
        let stale = look::stale_kubelets(&live.client, document(DocumentKind::Kubelet), &mut running).await;
        look::all_certificates(&live.client, &mut running).await;
        let settings = ClusterSettings::new(document(DocumentKind::Cluster), None)?;
        Ok(Self {
            certificates: certificate_drift::find(&settings, &running)?,
            has_stale_kubelets: !stale.is_empty(),
            gaps: certificate_drift::unseen(&running),
        })
    }
}

fn sentences(errors: Vec<InputError>) -> String {
    errors.into_iter().map(|error| error.message).collect::<Vec<_>>().join("; ")
}
