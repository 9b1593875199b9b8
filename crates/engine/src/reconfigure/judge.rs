//! A change that was begun, judged from the cluster as it is: its plan by the rules of now, and how far it is. Owns the order of
//! reading for that; must not write.

use std::collections::BTreeSet;

use super::failure::ApplyError;
use super::look;
use super::read::ClusterReading;
use crate::client::Client;
use kubeadm_change::plan::{Acknowledged, ChangePlan, PlanOptions, PlanState, plan};
use kubeadm_change::progress::{ProgressItem, Situation, progress};
use kubeadm_change::record::ChangeRecord;
use kubeadm_change::render::RenderError;
use kubeadm_change::request::WantedDocuments;
use kubeadm_change::running::{Running, RunningNode, Sighting};
use kubeadm_change::steps::StepId;

/// What a person said to what the rules say about a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// Pass blocks that a rule allows to be passed.
    pub force: bool,
    pub acknowledged: Acknowledged,
}

impl Consent {
    /// To everything: only to look at what is under way.
    pub const ALL: Self = Self { force: true, acknowledged: Acknowledged::Everything };
}

/// What a record asks for, what follows, and how far it is.
#[derive(Clone, Debug)]
pub struct Judged {
    pub target: WantedDocuments,
    pub plan: ChangePlan,
    pub items: Vec<ProgressItem>,
}

/// The plan of a record, by the rules as they are now, and how far it is. Fills in what has to be looked at.
///
/// # Errors
/// [`ApplyError`]: the record or the configuration cannot be read.
pub async fn judge(
    client: &Client,
    reading: &mut ClusterReading,
    record: &ChangeRecord,
    consent: Consent,
) -> Result<Judged, ApplyError> {
    let mut target = record.documents().map_err(ApplyError::Record)?;
    let mut options = PlanOptions {
        force: consent.force,
        acknowledged: consent.acknowledged,
        files: ".".to_owned(),
        id: Some(record.id.clone()),
        as_stored: record.as_stored,
        patches: record.patches.clone(),
        takes_back: record.takes_back.is_some(),
        ..PlanOptions::default()
    };
    let mut plan = plan_of(reading, &mut target, &options)?;
    // The first plan shows whether etcd's leader and size matter; members are asked only then.
    if look::etcd_members(client, &plan, &reading.running, &mut options).await {
        plan = plan_of(reading, &mut target, &options)?;
    }
    for node in reading.running.nodes.values_mut() {
        node.drained_by_us = node.drained_by.as_deref().is_some_and(|by| record.has_drained(by));
    }
    // After the plan, which says on which nodes a look is worth its requests.
    look::look(client, &plan, &mut reading.running).await;
    options.silent = silent(&reading.running);
    // A node whose API server is silent comes first, and
    // without kubeadm's wait for a pod that cannot come.
    if plan.steps_of(StepId::M1).any(|node| options.silent.contains(node)) {
        plan = plan_of(reading, &mut target, &options)?;
    }
    let situation =
        Situation { plan: &plan, target: &target, inputs: &reading.inputs, running: &reading.running };
    let items = progress(&situation)?;
    Ok(Judged { target, plan, items })
}

/// Refuses a plan that must not be carried out any more.
///
/// # Errors
/// [`ApplyError::Check`].
pub fn permitted(plan: &ChangePlan) -> Result<(), ApplyError> {
    if matches!(plan.state, PlanState::Blocked | PlanState::Invalid) {
        let why = "the change of the record may not be carried out any more: `capstan change rollback` takes it back";
        return Err(ApplyError::Check(why.to_owned()));
    }
    Ok(())
}

/// The control plane nodes whose own API server does not answer.
fn silent(running: &Running) -> BTreeSet<String> {
    let is_silent = |node: &RunningNode| matches!(node.api_server, Sighting::Unknown(_));
    let silent = running.nodes.iter().filter(|(_, node)| is_silent(node));
    silent.map(|(name, _)| name.clone()).collect()
}

fn plan_of(
    reading: &ClusterReading,
    target: &mut WantedDocuments,
    options: &PlanOptions,
) -> Result<ChangePlan, RenderError> {
    plan(&reading.inputs, target, options)
}
