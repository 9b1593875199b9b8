//! Changes of the kubeadm configuration of the clusters of one server: what is read, asked before and said after. Owns that; how far
//! a change is and what comes next are `change`'s and `reconfigure`'s. People do what is done on nodes.

mod confirmed;
mod judged;
pub mod managed;
mod mended;
mod proposed;
pub mod source;

use std::time::Duration;

use async_trait::async_trait;

pub use self::confirmed::{Carrying, ChangeError, ChangeWrite, ChangeWritten, ConfirmedChange};
pub use self::judged::{Aim, Judged, planned};
pub use self::mended::MendedMaps;
pub use self::proposed::{HOST, ProposedChange};
use self::proposed::{differences, steps, summary};
use self::source::{SourceReading, of_fleet, reading_of};
use super::guard::{Guard, Looked};
use super::{ChangeOrder, ChangePreview, ConfigurationReader, ConfigurationReading, Underway};
use capi_types::key::ObjectKey;
use capstan_engine::client::Connection;
use capstan_engine::reconfigure::apply::Applied;
use capstan_engine::reconfigure::drain::DrainTimes;
use capstan_engine::reconfigure::judge::{self, Consent, judge, permitted};
use kubeadm_change::gate::{self, Doing};
use kubeadm_change::plan::Acknowledged;
use kubeadm_change::record::ChangeRecord;

/// The field manager of what is written.
const MANAGER: &str = "capstan";

/// How often is looked while something restarts, and for how long.
const PACE: DrainTimes = DrainTimes { poll: Duration::from_secs(1), patience: Duration::from_secs(120) };

/// The clusters of one server.
pub struct ClusterConfigurations {
    connection: Connection,
    guard: Guard,
}

#[async_trait]
impl ConfigurationReader for ClusterConfigurations {
    async fn read(&self, cluster: &ObjectKey) -> Result<ConfigurationReading, String> {
        let SourceReading { mut reading, live } = self.find(cluster).await?;
        let open = reading.record.clone().filter(ChangeRecord::is_open);
        let mut underway = None;
        if let (Some(live), Some(open)) = (&live, &open) {
            // With every consent, because nothing is written here: what is under way is only looked
            // at.
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
        let mut proposed = ProposedChange::new(&judged, None);
        let looked = self.guard.look(&mut proposed).await;
        let Looked { findings, .. } = looked.map_err(|refusal| refusal.to_string())?;
        Ok(ChangePreview {
            order: order.clone(),
            plan_id: judged.plan.id.to_string(),
            summary: summary(&judged),
            findings,
            steps: steps(&judged),
            diff: differences(&judged),
            confirmation: judged.confirmation(),
            patched: proposed.patched(),
        })
    }

    async fn carry_out(&self, cluster: &ObjectKey, preview: &ChangePreview) -> Result<String, String> {
        let judged = self.judged(cluster, &preview.order).await?;
        // The id is made of what the plan is about: another one was not confirmed.
        if judged.plan.id.as_str() != preview.plan_id {
            let why = "the cluster changed since this was shown; nothing was written: look at it again";
            return Err(why.to_owned());
        }
        let action = match preview.order {
            ChangeOrder::Begin(_) | ChangeOrder::GoOn => "change apply",
            ChangeOrder::TakeBack => "change rollback",
        };
        let write = judged.write(&self.guard)?;
        let record = write.record().cloned();
        let carrying = Carrying {
            clock: self.guard.clock.clone(),
            // What speaks against it stood in the dialog that was confirmed; a block cannot be.
            consent: Consent { force: false, acknowledged: Acknowledged::Everything },
            confirmed: Vec::new(),
            pace: PACE,
            hands: None,
            tell: &mut |_| {},
        };
        let mut confirmed = ConfirmedChange { live: &judged.live, action, write, carrying };
        let written = self.guard.write(&mut confirmed, &preview.findings).await;
        in_words(written, record.as_ref())
    }
}

impl ClusterConfigurations {
    pub fn new(connection: Connection, guard: &Guard) -> Self {
        Self { guard: guard.over(connection.read_only), connection }
    }

    async fn find(&self, cluster: &ObjectKey) -> Result<SourceReading, String> {
        let live = of_fleet(self.connection.clone(), cluster).await.map_err(|error| error.to_string())?;
        reading_of(live).await.map_err(|error| error.to_string())
    }

    async fn judged(&self, cluster: &ObjectKey, order: &ChangeOrder) -> Result<Judged, String> {
        // A refusal needs no reading of the cluster.
        self.guard.check_writable().map_err(|refusal| refusal.to_string())?;
        Judged::of(self.find(cluster).await?, order).await
    }
}

/// What came of an order, in a sentence. `record`: of the change, where one is kept.
fn in_words(
    written: Result<ChangeWritten, ChangeError>,
    record: Option<&ChangeRecord>,
) -> Result<String, String> {
    let id = record.map_or("", |record| record.id.as_str());
    match written {
        Ok(ChangeWritten::Closed) => Ok(format!("nothing of change {id} is stored: its record is closed")),
        Ok(ChangeWritten::Patched(words)) => Ok(words.trim_end().to_owned()),
        Ok(ChangeWritten::Applied(Applied::Complete(_))) => Ok(format!("change {id} is complete")),
        Ok(ChangeWritten::Applied(Applied::ForPeople { plan, next, .. })) => {
            let step = &plan.steps[next];
            let nodes =
                if step.nodes.is_empty() { String::new() } else { format!(" on {}", step.nodes.join(", ")) };
            let after = if step.id.is_for_people() {
                format!("; when it is done: capstan change apply --done {}", step.id.name())
            } else {
                String::new()
            };
            Ok(format!("change {id} was written; now for you: {}{nodes}{after}", step.title))
        }
        Err(ChangeError::Apply(error)) => {
            let takes_back = record.is_some_and(|record| record.takes_back.is_some());
            let back = if takes_back { "" } else { ", `:rollback` takes it back" };
            Err(format!("{error}\n\nWhat was done stays. `:apply` goes on{back}."))
        }
        Err(error) => Err(error.to_string()),
    }
}
