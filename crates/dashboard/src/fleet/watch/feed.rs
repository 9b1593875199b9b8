//! One kind as deltas: rows, what vanished, and how the feed is doing. Owns the order in which a list
//! and its end are told; must not know what is done with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::Api;
use kube::api::WatchEvent;
use tokio::sync::mpsc;

use super::history::Epoch;
use super::listing::{self, AfterStep, Listener, Step, Trouble};
use super::{ASK_AGAIN, Context};
use crate::fleet::decode::{Decoder, Slim};
use crate::fleet::row::{GroupKind, Row, Uid};
use crate::fleet::{Delta, FeedKey, FeedState};
use capstan_engine::client::errors::{Cause, classify};
use capstan_engine::client::explain;
use capstan_engine::client::pulse::Outage;
use capstan_engine::client::watch::Backoff;

/// The state that an error puts a feed in.
pub(super) fn refused_or_lost(error: &kube::Error, server: &str) -> FeedState {
    let text = capstan_base::text::sanitize_line(&explain(error, server)).into();
    match classify(error) {
        Cause::Forbidden => FeedState::NoAccess { error: text },
        Cause::NotServed => FeedState::NotServed { error: text },
        _ => FeedState::Lost { error: text },
    }
}

/// The state that a failure of a list or a watch puts a feed in.
pub(super) fn state_of(trouble: &Trouble, server: &str) -> FeedState {
    match trouble {
        Trouble::Request(error) => refused_or_lost(error, server),
        Trouble::Outage(Outage { is_silent: true, error, .. }) => {
            FeedState::Silent { error: error.as_ref().into() }
        }
        Trouble::Outage(Outage { error, .. }) => FeedState::Lost { error: error.as_ref().into() },
        Trouble::Silent => {
            FeedState::Lost { error: format!("{server} has gone silent: check the network").into() }
        }
        Trouble::Closed => FeedState::Lost {
            error: format!("{server} ends every watch at once: check proxies in between").into(),
        },
    }
}

/// Turns the steps of one collection into batches.
pub(super) struct Feed {
    context: Arc<Context>,
    key: FeedKey,
    decoder: Decoder,
    wanted: mpsc::Sender<Arc<GroupKind>>,
    /// Of which kinds a feed was wanted already.
    asked: BTreeSet<Arc<GroupKind>>,
    batches: mpsc::Sender<Vec<Delta>>,
    /// What the running list has named so far.
    listed: Vec<Uid>,
    /// The history that the rows are of.
    epoch: Epoch,
}

impl Feed {
    pub(super) fn new(
        context: Arc<Context>,
        key: FeedKey,
        decoder: Decoder,
        wanted: mpsc::Sender<Arc<GroupKind>>,
        batches: mpsc::Sender<Vec<Delta>>,
    ) -> Self {
        let epoch = context.history.epoch();
        Self { context, key, decoder, wanted, asked: BTreeSet::new(), batches, listed: Vec::new(), epoch }
    }

    pub(super) async fn run(self) {
        let resource = self.decoder.gvk().api_resource();
        let client = self.context.client.clone();
        let api: Api<Slim> = match &self.context.scope.namespace {
            Some(namespace) if self.decoder.gvk().namespaced => {
                Api::namespaced_with(client, namespace, &resource)
            }
            _ => Api::all_with(client, &resource),
        };
        let backoff = Backoff::new(self.context.rng.stream(&self.key.to_string()));
        let context = self.context.clone();
        listing::run(&context, api, None, backoff, self).await;
    }

    fn page(&mut self, objects: &[Slim]) -> Vec<Delta> {
        let rows = self.decoder.rows(objects);
        self.listed.extend(rows.iter().map(|row| row.uid));
        rows.into_iter().map(Delta::Upsert).collect()
    }

    fn changes(&self, events: Vec<WatchEvent<Slim>>) -> Vec<Delta> {
        events.into_iter().flat_map(|event| self.change(event)).collect()
    }

    fn change(&self, event: WatchEvent<Slim>) -> Vec<Delta> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.decoder.rows(std::slice::from_ref(&object)).into_iter().map(Delta::Upsert).collect()
            }
            WatchEvent::Deleted(object) => {
                vec![Delta::Remove { source: self.context.id, uid: self.decoder.uid(&object) }]
            }
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => Vec::new(),
        }
    }

    /// Asks for a feed of every kind that the rows name and that was not asked for yet. `None`: everything is being stopped.
    async fn ask_for_named_kinds(&mut self, batch: &[Delta]) -> Option<()> {
        for delta in batch {
            let Delta::Upsert(row) = delta else { continue };
            let Some(kind) = named_by(row) else { continue };
            // Most rows name a kind that was asked for.
            if !self.asked.contains(kind) {
                self.asked.insert(kind.clone());
                self.wanted.send(kind.clone()).await.ok()?;
            }
        }
        Some(())
    }
}

/// The control plane of a Cluster, and the HostMachine of a Machine, which has a Host.
fn named_by(row: &Row) -> Option<&Arc<GroupKind>> {
    let control_plane = row.cluster_facts().and_then(|cluster| cluster.control_plane_ref.as_ref());
    let infrastructure = row.machine().and_then(|machine| machine.infrastructure_ref.as_ref());
    let named = control_plane.or_else(|| infrastructure.filter(|reference| reference.is_host_machine()));
    named.map(|reference| &reference.kind)
}

impl Listener<Slim> for Feed {
    async fn step(&mut self, step: Step<Slim>) -> AfterStep {
        let mut after = AfterStep::GoOn;
        let batch = match step {
            Step::Listing => {
                // A list that broke off starts again from its first page.
                self.listed.clear();
                vec![self.context.feed(&self.key, FeedState::Listing)]
            }
            Step::Page(objects) => self.page(&objects),
            Step::Listed => {
                self.epoch = self.context.history.epoch();
                vec![Delta::Listed { feed: self.key.clone(), uids: std::mem::take(&mut self.listed) }]
            }
            Step::Live => vec![self.context.feed(&self.key, FeedState::Live)],
            Step::Changes(events) => self.changes(events),
            Step::Failed(trouble) => {
                let state = state_of(&trouble, &self.context.server);
                let is_refused = matches!(state, FeedState::NoAccess { .. } | FeedState::NotServed { .. });
                if is_refused {
                    after = AfterStep::RetryAfter(ASK_AGAIN);
                }
                tracing::warn!(feed = %self.key, ?state, "feed is interrupted");
                // The age of what is shown counts from the last
                // byte, not from when the outage was noticed.
                let since = if let Trouble::Outage(outage) = &trouble { Some(outage.since) } else { None };
                let at = since.unwrap_or_else(|| self.context.clock.now());
                let mut batch = vec![Delta::Feed { feed: self.key.clone(), state, at }];
                if is_refused && self.epoch != self.context.history.epoch() {
                    // Rows of a history that is gone, of a kind that cannot be read again.
                    batch.push(Delta::Listed { feed: self.key.clone(), uids: Vec::new() });
                }
                batch
            }
        };
        if batch.is_empty() {
            return after;
        }
        if self.ask_for_named_kinds(&batch).await.is_none() || self.batches.send(batch).await.is_err() {
            return AfterStep::Stop;
        }
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(kind: &str, spec: &serde_json::Value) -> Arc<Row> {
        let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": "a", "namespace": "default"}, "spec": spec});
        crate::fleet::tests::row_of(&object)
    }

    #[test]
    fn kinds_are_wanted_that_clusters_and_machines_on_hosts_name() {
        let reference = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "a"});
        let infrastructure = "infrastructure.cluster.x-k8s.io";
        for (kind, field, of, wanted) in [
            (
                "Cluster",
                "controlPlaneRef",
                reference("other.io", "OtherControlPlane"),
                Some("OtherControlPlane"),
            ),
            ("Cluster", "infrastructureRef", reference(infrastructure, "HostCluster"), None),
            ("Machine", "infrastructureRef", reference(infrastructure, "HostMachine"), Some("HostMachine")),
            ("Machine", "infrastructureRef", reference("other.io", "HostMachine"), None),
            ("Machine", "infrastructureRef", reference(infrastructure, "DevMachine"), None),
        ] {
            let row = row(kind, &json!({ field: of }));
            assert_eq!(named_by(&row).map(|named| named.kind.as_ref()), wanted, "{kind} {of}");
        }
    }
}
