//! An order to change a configuration, judged from the cluster as it is. Owns what an order comes to; must not write.

use super::source::{LiveCluster, SourceReading};
use crate::operations::ChangeOrder;
use capstan_engine::reconfigure::judge::{self, Consent, judge};
use capstan_engine::reconfigure::look;
use kubeadm_change::document::InputError;
use kubeadm_change::gate;
use kubeadm_change::plan::{ChangePlan, PlanOptions, PlanState, PlannedStep, plan};
use kubeadm_change::progress::{ItemState, ProgressItem, state_of};
use kubeadm_change::record::ChangeRecord;
use kubeadm_change::render::RenderError;
use kubeadm_change::request::{PatchKind, RequestPart, WantedDocuments, apply};

/// An order, judged from the cluster as it is.
pub(super) struct Judged {
    pub found: SourceReading,
    pub live: LiveCluster,
    pub wanted: WantedDocuments,
    pub plan: ChangePlan,
    /// The change that is not over.
    pub open: Option<ChangeRecord>,
    /// How far it is, where it goes on.
    pub items: Option<Vec<ProgressItem>>,
}

impl Judged {
    /// From what was read of a cluster.
    ///
    /// # Errors
    /// There is nothing to do, or it cannot be understood, in a sentence.
    pub(super) async fn of(mut found: SourceReading, order: &ChangeOrder) -> Result<Self, String> {
        let live = found.live.clone().ok_or("there is no server behind this cluster")?;
        let last = found.reading.record.clone();
        let open = last.clone().filter(ChangeRecord::is_open);
        let inputs = &found.reading.inputs;
        let mut wanted = match (order, &open) {
            (ChangeOrder::GoOn, Some(open)) => {
                let judged = judge(&live.client, &mut found.reading, open, Consent::default()).await;
                let judge::Judged { target, plan, items } = judged.map_err(|e| e.to_string())?;
                let (open, items) = (Some(open.clone()), Some(items));
                return Ok(Self { found, live, wanted: target, plan, open, items });
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
        Ok(Self { found, live, wanted, plan, open, items: None })
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
    let first = plan(inputs, target, &options)?;
    let Some(live) = &found.live else { return Ok(first) };
    if !look::etcd_members(&live.client, &first, &found.reading.running, &mut options).await {
        return Ok(first);
    }
    // The request was cut to its first rollout by the first plan.
    Ok(ChangePlan { rollout: first.rollout, ..plan(inputs, target, &options)? })
}

fn sentences(errors: Vec<InputError>) -> String {
    errors.into_iter().map(|error| error.message).collect::<Vec<_>>().join("; ")
}
