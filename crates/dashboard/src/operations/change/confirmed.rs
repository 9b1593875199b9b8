//! A change of a configuration after it was confirmed. Owns which of the three writes it is: the record and what the API does from
//! there, the patch of a KubeadmControlPlane, or closing a record of which nothing is stored. The loop is `reconfigure::apply`'s.

use async_trait::async_trait;
use serde_json::Value;

use super::source::{LiveCluster, ManagedCluster, SourceError};
use super::{MANAGER, managed};
use crate::operations::guard::{Confirmed, Refusal};
use crate::operations::journal::About;
use capstan_base::time::{Clock, rfc3339};
use capstan_engine::client::Writer;
use capstan_engine::reconfigure::apply::{Application, Applied, ApplyError, ApplyEvent};
use capstan_engine::reconfigure::drain::DrainTimes;
use capstan_engine::reconfigure::judge::Consent;
use capstan_engine::reconfigure::preflight::Hands;
use capstan_engine::reconfigure::read::ClusterReading;
use capstan_engine::reconfigure::write::{self, ChangeWriteError};
use kubeadm_change::plan::ChangePlan;
use kubeadm_change::record::ChangeRecord;
use kubeadm_change::steps::StepId;

/// What is written.
pub enum ChangeWrite<'a> {
    /// What comes before the record, the record, and then what the API, or an executor, does of the change.
    Begin { record: ChangeRecord, reading: &'a ClusterReading, plan: &'a ChangePlan },
    /// The same of a change whose record stands.
    GoOn(ChangeRecord),
    /// The patch of the KubeadmControlPlane that looks after the cluster.
    Patch { managed: &'a ManagedCluster, patch: &'a Value },
    /// Nothing of this change is stored: its record is closed.
    Close(&'a ChangeRecord),
}

impl ChangeWrite<'_> {
    /// Of the change, where one is kept.
    pub fn record(&self) -> Option<&ChangeRecord> {
        match self {
            Self::Begin { record, .. } | Self::GoOn(record) => Some(record),
            Self::Close(record) => Some(record),
            Self::Patch { .. } => None,
        }
    }
}

/// How it is carried out.
pub struct Carrying<'a> {
    pub clock: Clock,
    pub consent: Consent,
    /// Steps that only people do, and that the person says are done.
    pub confirmed: Vec<StepId>,
    pub pace: DrainTimes,
    /// `None`: people do what is done on nodes.
    pub hands: Option<Hands<'a>>,
    pub tell: &'a mut (dyn FnMut(&ApplyEvent) + Send),
}

/// What came of it.
#[derive(Debug)]
pub enum ChangeWritten {
    Closed,
    /// In a sentence.
    Patched(String),
    Applied(Applied),
}

/// Why it was not written, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    Refusal(#[from] Refusal),
    #[error(transparent)]
    Write(#[from] ChangeWriteError),
    /// The Machines of the cluster could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The KubeadmControlPlane was not patched.
    #[error("{0}")]
    Patch(String),
    /// A host lacks what the change needs.
    #[error("{0}; nothing of this plan is written")]
    Prepare(ApplyError),
    /// It was begun; what was done stays.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

pub struct ConfirmedChange<'a> {
    pub live: &'a LiveCluster,
    /// The command's name, for the journal.
    pub action: &'a str,
    pub write: ChangeWrite<'a>,
    pub carrying: Carrying<'a>,
}

#[async_trait]
impl Confirmed for ConfirmedChange<'_> {
    type Written = ChangeWritten;
    type Error = ChangeError;

    fn about(&self) -> About<'_> {
        match &self.write {
            ChangeWrite::Patch { managed, patch } => about_control_plane(self.action, managed, patch),
            of_record => self.about_record(of_record.record().map_or("", |record| record.id.as_str())),
        }
    }

    async fn write(&mut self) -> Result<ChangeWritten, ChangeError> {
        let writer = Writer::new(self.live.client.clone(), MANAGER);
        let Self { live, write, carrying, .. } = self;
        let applied = match write {
            ChangeWrite::Begin { record, reading, plan } => {
                let mut application = application(live, carrying, writer.clone(), record.clone());
                let prepared =
                    // Before the record is stored: what a host lacks must not leave an open change
                    // behind.
                    application.prepare(plan, &reading.running).await.map_err(ChangeError::Prepare)?;
                // The record comes first, so that a change that stops in the middle can go on or be
                // taken back.
                write::begin(&writer, reading, record).await?;
                (application.tell)(&ApplyEvent::Begun(changed_maps(record)));
                application.carry_out(&prepared).await?
            }
            ChangeWrite::GoOn(record) => {
                application(live, carrying, writer, record.clone()).carry_out(&[]).await?
            }
            ChangeWrite::Patch { managed, patch } => {
                let patched = managed::patch(managed, patch).await;
                return patched.map(ChangeWritten::Patched).map_err(ChangeError::Patch);
            }
            ChangeWrite::Close(open) => {
                write::close(&writer, open, rfc3339(carrying.clock.now())).await?;
                return Ok(ChangeWritten::Closed);
            }
        };
        Ok(ChangeWritten::Applied(applied))
    }

    fn is_over(written: &ChangeWritten) -> bool {
        match written {
            ChangeWritten::Closed
            | ChangeWritten::Patched(_)
            | ChangeWritten::Applied(Applied::Complete(_)) => true,
            ChangeWritten::Applied(Applied::ForPeople { .. }) => false,
        }
    }
}

impl ConfirmedChange<'_> {
    /// The ConfigMap that has the record of the change `id`.
    fn about_record<'s>(&'s self, id: &'s str) -> About<'s> {
        About {
            server: &self.live.server,
            action: self.action,
            api_version: "v1".to_owned(),
            kind: "ConfigMap",
            namespace: "kube-system",
            name: "capstan-change",
            seen: id,
            ..About::default()
        }
    }
}

/// What goes through the steps, as far as the API, or the executor, does them.
fn application<'s>(
    live: &LiveCluster,
    carrying: &'s mut Carrying<'_>,
    writer: Writer,
    change: ChangeRecord,
) -> Application<'s> {
    Application {
        writer,
        server: live.server.clone(),
        hands: carrying.hands.clone(),
        change,
        consent: carrying.consent.clone(),
        confirmed: carrying.confirmed.clone(),
        clock: carrying.clock.clone(),
        pace: carrying.pace,
        tell: &mut *carrying.tell,
    }
}

fn changed_maps(record: &ChangeRecord) -> Vec<String> {
    let changed = |map: &&String| record.before.get(*map) != record.after.get(*map);
    record.after.keys().filter(changed).cloned().collect()
}

fn about_control_plane<'s>(action: &'s str, managed: &'s ManagedCluster, patch: &'s Value) -> About<'s> {
    let metadata = |field: &str| managed.object["metadata"][field].as_str().unwrap_or_default();
    About {
        server: &managed.management.server,
        action,
        api_version: managed.object["apiVersion"].as_str().unwrap_or_default().to_owned(),
        kind: "KubeadmControlPlane",
        namespace: &managed.control_plane.key.namespace,
        name: &managed.control_plane.key.name,
        uid: metadata("uid"),
        seen: metadata("resourceVersion"),
        patch: Some(patch),
        ..About::default()
    }
}
