//! Carries an election out: sends what it says, hands it the answers, publishes the right. Must not decide.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::LeaseOptions;
use super::election::{Election, LeaseReply, LeaseRequest, Next, Standing};
use super::record::{Record, Seen, spec_with};
use super::right::{Leadership, Moment, Right};
use crate::client::errors::chain;
use crate::client::write::WriteError;
use crate::client::{Mode, Precondition, Writer};
use capstan_base::time::Clock;

/// Between attempts that the server forbids, in retry periods.
const FORBIDDEN_PAUSE: u32 = 5;

/// Takes and renews one Lease.
pub struct Elector {
    options: LeaseOptions,
    writer: Writer,
    clock: Clock,
    right: watch::Sender<Right>,
    election: Election,
    /// The Lease as it was last seen: what others keep in it is not written over.
    lease: Option<Lease>,
}

impl Elector {
    /// `writer` must carry no permit of its own.
    pub fn new(options: LeaseOptions, writer: Writer, clock: Clock) -> (Self, Leadership) {
        let (sender, right) = watch::channel(Right::No);
        let leadership = Leadership::new(right, clock.clone());
        let election = Election::new(options.clone());
        (Self { options, writer, clock, right: sender, election, lease: None }, leadership)
    }

    /// Competes until cancelled, then gives the lease back.
    pub async fn run(mut self, stop: CancellationToken) {
        self.compete(&stop).await;
        self.resign().await;
    }

    /// Competes while `above` leads, until cancelled; then gives the Lease back. When `above` is lost it is not given
    /// back: requests may be under way, so others wait until it runs out.
    pub(in crate::engine) async fn run_below(mut self, mut above: Leadership, stop: CancellationToken) {
        let retry = self.options.retry;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = turns(&mut above, true, retry) => {}
            }
            tokio::select! {
                biased;
                () = self.compete(&stop) => break,
                () = turns(&mut above, false, retry) => {}
            }
            self.election.abandon();
            self.publish();
        }
        self.resign().await;
    }

    async fn compete(&mut self, stop: &CancellationToken) {
        loop {
            let pause = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                outcome = self.attempt() => self.pause_after(&outcome),
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One attempt: at most a blind renewal, a read and a write.
    async fn attempt(&mut self) -> Standing {
        let mut request = self.election.begin(Moment::now(&self.clock));
        loop {
            let answer = self.send(request).await;
            let next = self.election.on(answer, Moment::now(&self.clock));
            self.publish();
            match next {
                Next::Send(more) => request = more,
                Next::Rest(outcome) => return outcome,
            }
        }
    }

    fn publish(&self) {
        let now = self.election.right().clone();
        let (led, leads) = (*self.right.borrow() != Right::No, now != Right::No);
        self.right.send_replace(now);
        match (led, leads) {
            (false, true) => tracing::info!("leading as {}: {}", self.options.identity, self.options.key()),
            (true, false) => tracing::warn!("no longer leading: {}", self.options.key()),
            _ => {}
        }
    }

    fn pause_after(&self, outcome: &Standing) -> Duration {
        let lease = self.options.key();
        match outcome {
            Standing::Holds | Standing::Waits => self.options.retry,
            Standing::Unknown(why) => {
                tracing::warn!("lease {lease}: {why}");
                self.options.retry
            }
            Standing::Coordinated => {
                tracing::warn!("lease {lease}: a server elects for it (spec.strategy); it is left alone");
                self.options.retry * FORBIDDEN_PAUSE
            }
            Standing::Forbidden(why) => {
                tracing::error!("lease {lease}: {why}; get, create and patch are needed");
                self.options.retry * FORBIDDEN_PAUSE
            }
        }
    }

    async fn send(&mut self, request: LeaseRequest) -> LeaseReply {
        // Half of it, so that after a request that hangs
        // there is time for another before the right ends.
        let limit = (self.options.renew_deadline / 2).max(Duration::from_secs(1));
        let answered = match request {
            LeaseRequest::Read => tokio::time::timeout(limit, self.read()).await,
            LeaseRequest::Create(record) => tokio::time::timeout(limit, self.create(&record)).await,
            LeaseRequest::Update { of, record } => {
                tokio::time::timeout(limit, self.update(&of, &record)).await
            }
        };
        answered.unwrap_or_else(|_| LeaseReply::Failed("no answer in time".to_owned()))
    }

    async fn read(&mut self) -> LeaseReply {
        let found = crate::client::get::<Lease>(self.writer.client(), &self.options.key()).await;
        match found {
            Ok(found) => {
                self.lease = found;
                LeaseReply::Found(self.lease.as_ref().map(Seen::of))
            }
            Err(kube::Error::Api(status)) if status.code == 403 => {
                LeaseReply::Forbidden(status.message.clone())
            }
            Err(error) => LeaseReply::Failed(chain(&error)),
        }
    }

    async fn create(&mut self, record: &Record) -> LeaseReply {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.options.name.clone()),
                namespace: Some(self.options.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(spec_with(None, record)),
        };
        let lease = self.marked(lease);
        let created = self.writer.create(&lease, Mode::Real).await;
        self.written(created)
    }

    /// A merge patch on the resourceVersion that was seen: as exclusive as an update, and fields that this version
    /// does not know stay.
    async fn update(&mut self, of: &Seen, record: &Record) -> LeaseReply {
        // The patch is a difference to what was read: with
        // another base it would undo others' fields.
        let Some(before) = self.lease.clone().filter(|lease| Seen::of(lease) == *of) else {
            return LeaseReply::Overtaken;
        };
        let spec = Some(spec_with(before.spec.as_ref(), record));
        let after = self.marked(Lease { metadata: before.metadata.clone(), spec });
        let patched = self.writer.patch(&before, &after, &Precondition::unchanged(&before), Mode::Real).await;
        self.written(patched)
    }

    fn marked(&self, mut lease: Lease) -> Lease {
        let LeaseOptions { labels, annotations, notes, .. } = &self.options;
        if !labels.is_empty() {
            lease.metadata.labels.get_or_insert_default().extend(labels.clone());
        }
        let mut annotations = annotations.clone();
        annotations.extend(notes.all());
        if !annotations.is_empty() {
            lease.metadata.annotations.get_or_insert_default().extend(annotations);
        }
        lease
    }

    fn written(&mut self, result: Result<Lease, WriteError>) -> LeaseReply {
        match result {
            Ok(lease) => {
                let seen = Seen::of(&lease);
                self.lease = Some(lease);
                LeaseReply::Stored(seen)
            }
            // All three mean that the Lease is not what was read; only a new read shows what it is.
            Err(error) if error.is_conflict() || error.already_exists() || error.is_not_found() => {
                LeaseReply::Overtaken
            }
            Err(error) if error.is_forbidden() => LeaseReply::Forbidden(error.message()),
            Err(error) => LeaseReply::Failed(error.to_string()),
        }
    }

    async fn resign(&mut self) {
        // The right ends before the first request, so that
        // no write can leave while the Lease is given back.
        let begun = self.election.resign();
        self.publish();
        let Some(read) = begun else { return };
        let given_back = match self.send(read).await {
            // Read first: a renewal without an answer may
            // have been stored, and its version is needed.
            LeaseReply::Found(found) => match self.election.give_back(found, Moment::now(&self.clock)) {
                Some(update) => self.send(update).await,
                None => return,
            },
            other => other,
        };
        if let LeaseReply::Failed(why) | LeaseReply::Forbidden(why) = given_back {
            tracing::warn!("the lease was not given back, others wait for it to run out: {why}");
        }
    }
}

/// Resolves when `leadership` leads, or does not lead.
async fn turns(leadership: &mut Leadership, leads: bool, look_every: Duration) {
    while leadership.leads() != leads {
        // It may have turned between the look and the wait.
        let _ = tokio::time::timeout(look_every, leadership.changed()).await;
    }
}
