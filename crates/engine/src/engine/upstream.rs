//! Upstream's managers on the same server: sees the Leases they hold, and waits for them, or takes them and gives
//! them back. Owns the second half of the right to write; must not know what is written.
//! Source: client-go `tools/leaderelection`: a holder stops before its record runs out.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::ListParams;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::lease::record::{LastRecord, Seen};
use super::lease::right::{Moment, Right};
use super::lease::{Elector, Leadership, LeaseNotes, LeaseOptions};
use crate::client::errors::chain;
use crate::client::{Client, Writer};
use capi_types::key::ObjectKey;
use capstan_base::time::Clock;

/// Whose Leases, and what is done about a manager that leads.
#[derive(Clone, Debug)]
pub struct UpstreamLeases {
    /// Usual namespace and name. Leases of these names count in every namespace that may be read.
    pub leases: Vec<(&'static str, &'static str)>,
    /// Take them; false: wait until nobody leads.
    pub take_over: bool,
}

/// A Lease that this process takes or has taken.
struct Taken {
    leadership: Leadership,
    task: JoinHandle<()>,
    stop: CancellationToken,
}

/// Looks after the Leases while the engine's own lease is held.
pub struct Upstream {
    leases: UpstreamLeases,
    /// Identity and times for Leases that are taken.
    options: LeaseOptions,
    writer: Writer,
    clock: Clock,
    own: Leadership,
    right: watch::Sender<Right>,
    observed: BTreeMap<ObjectKey, LastRecord>,
    taken: BTreeMap<ObjectKey, Taken>,
    /// Who leads, as it was last said.
    said: Vec<String>,
}

impl Upstream {
    /// `own` is the right that the engine's own lease gives; the leadership returned needs both. `writer` must
    /// carry no permit of its own.
    pub fn new(
        leases: UpstreamLeases,
        options: &LeaseOptions,
        writer: &Writer,
        clock: &Clock,
        own: Leadership,
    ) -> (Self, Leadership) {
        let (right, receiver) = watch::channel(Right::No);
        let both = own.clone().with(receiver);
        let options = LeaseOptions { seize: true, ..options.clone() };
        let (writer, clock) = (writer.clone(), clock.clone());
        let (observed, taken, said) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        (Self { leases, options, writer, clock, own, right, observed, taken, said }, both)
    }

    /// Looks every few seconds until cancelled, then gives back what was taken.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.look() => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(self.options.retry) => {}
            }
        }
        // Before the Leases are given back: whoever takes them next writes at once.
        self.right.send_replace(Right::No);
        self.give_back().await;
    }

    async fn look(&mut self) {
        if !self.own.leads() {
            self.right.send_replace(Right::No);
            self.give_back().await;
            return;
        }
        // From before the request: a Lease may be won by somebody right after it was read.
        let asked = Moment::now(&self.clock);
        let deadline = self.options.renew_deadline;
        let end = Moment { steady: asked.steady + deadline, wall: asked.wall + deadline };
        let until = Right::Until { end, tokens: Vec::new() };
        // Half of it, so that after a look that hangs there
        // is time for another before the right ends.
        let limit: Duration = self.options.renew_deadline / 2;
        let found = tokio::time::timeout(limit, find(self.writer.client(), &self.leases.leases)).await;
        match found.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            Ok(found) => {
                let right = if self.leases.take_over { self.take(&found) } else { self.wait_for(&found) };
                self.right.send_replace(right.and(until));
            }
            // The right that there is runs out by itself.
            Err(error) => tracing::warn!("whether upstream's managers lead cannot be seen: {error}"),
        }
    }

    /// Everything, unless somebody leads.
    fn wait_for(&mut self, found: &[Lease]) -> Right {
        let mut leading = Vec::new();
        for lease in found {
            let key = ObjectKey::of(lease);
            let record = Seen::of(lease).record;
            let now = Moment::now(&self.clock).steady;
            if !self.observed.entry(key.clone()).or_default().is_vacant(&record, now) {
                leading.push(format!("{} holds Lease {key}", record.holder));
            }
        }
        if leading != self.said {
            match leading.as_slice() {
                [] => tracing::info!("no manager of upstream leads any more"),
                _ => tracing::warn!(
                    "waiting for upstream's managers: {}; --take-over takes their Leases",
                    leading.join(", ")
                ),
            }
            self.said = leading;
        }
        if self.said.is_empty() { Right::Always } else { Right::No }
    }

    /// What all that are taken give together.
    fn take(&mut self, found: &[Lease]) -> Right {
        for lease in found {
            let key = ObjectKey::of(lease);
            if !self.taken.contains_key(&key) {
                let taken = self.elect(&key);
                self.taken.insert(key, taken);
            }
        }
        self.taken.values().fold(Right::Always, |all, taken| all.and(taken.leadership.right()))
    }

    fn elect(&self, key: &ObjectKey) -> Taken {
        let options = LeaseOptions {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            // These Leases are upstream's: they get no marks of this engine.
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            notes: LeaseNotes::default(),
            ..self.options.clone()
        };
        let (elector, leadership) = Elector::new(options, self.writer.clone(), self.clock.clone());
        let stop = CancellationToken::new();
        Taken { leadership, task: tokio::spawn(elector.run(stop.clone())), stop }
    }

    async fn give_back(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        // All are stopped before one is waited for: each needs requests of its own.
        taken.values().for_each(|taken| taken.stop.cancel());
        for (key, taken) in taken {
            match taken.task.await {
                Ok(()) => tracing::info!("gave back Lease {key}"),
                Err(error) => tracing::warn!("Lease {key} runs out by itself: {error}"),
            }
        }
    }
}

/// The Leases of these names in all namespaces; in their usual ones for somebody who may not list all.
async fn find(client: &Client, leases: &[(&'static str, &'static str)]) -> Result<Vec<Lease>, String> {
    let mut found = Vec::new();
    for (namespace, name) in leases {
        // A manager's namespace is a choice of who installed it, so the name alone decides.
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        match Api::<Lease>::all(client.clone()).list(&params).await {
            Ok(list) => found.extend(list.items),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let key = ObjectKey::new(*namespace, *name);
                found.extend(crate::client::get(client, &key).await.map_err(|error| chain(&error))?);
            }
            Err(error) => return Err(chain(&error)),
        }
    }
    Ok(found)
}
