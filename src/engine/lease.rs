//! Leader election on a Lease: writes only while leading. Owns the record and the right to write;
//! must not know what is written.
//! Source: client-go `tools/leaderelection`: expiry is judged by the local monotonic clock since the
//! record last changed, never by the times in it.
//!
//! A record is ours only when this elector sent it; the name in it is not enough: two processes that share
//! an identity (equal host names, process ids and seeds) are still two.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::key::ObjectKey;
use crate::client::write::Permit;
use crate::client::{Mode, Precondition, Writer};
use crate::rng::Rng;
use crate::time::{Clock, to_k8s_micro};

/// Records kept that were sent and not answered: each may still turn out to have been stored.
const SENT_MAX: usize = 8;

/// Which lease, and who asks for it.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    pub namespace: String,
    pub name: String,
    /// Unique per process; see [`identity_of`].
    pub identity: String,
    /// Others may take over when the record did not change for this long.
    pub duration: Duration,
    /// The holder stops writing when it could not renew for this long; less than `duration`.
    pub renew_deadline: Duration,
    /// Between attempts.
    pub retry: Duration,
    /// Take it once from whoever holds it, and lead only when that holder must have stopped. A lease that is lost
    /// later is waited for like any other.
    pub seize: bool,
}

impl LeaseOptions {
    /// client-go's usual times: 15 s, 10 s, 2 s.
    #[must_use]
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            seize: false,
        }
    }
}

/// An identity for one process on `host`: the host's name for people, and 64 random bits, since
/// containers share host names and process ids. `rng` must not be seeded by the user: processes that
/// are started with one seed would get one identity.
#[must_use]
pub fn identity_of(host: &str, rng: &Rng) -> String {
    let random = rng.below(u64::MAX);
    format!("{}_{random:016x}", host.trim())
}

/// Whether this process may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    No,
    /// It ends at this moment unless renewed.
    Until(Instant),
    Always,
}

impl Right {
    /// Both are needed.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Always, right) | (right, Self::Always) => right,
            (Self::Until(a), Self::Until(b)) => Self::Until(a.min(b)),
        }
    }

    fn holds(self) -> bool {
        match self {
            Self::No => false,
            Self::Until(end) => Instant::now() < end,
            Self::Always => true,
        }
    }
}

/// Who leads, as seen here. Clones watch the same state.
#[derive(Clone)]
pub struct Leadership {
    /// All of them are needed.
    rights: Vec<watch::Receiver<Right>>,
}

impl Leadership {
    /// May writes leave now? Checked against the clock, so a stuck elector cannot keep the right.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.right().holds()
    }

    pub(super) fn right(&self) -> Right {
        self.rights.iter().fold(Right::Always, |all, right| all.and(*right.borrow()))
    }

    /// Leads only while `right` holds too.
    pub(super) fn with(mut self, right: watch::Receiver<Right>) -> Self {
        self.rights.push(right);
        self
    }

    /// Resolves when it may have changed: won, lost, or run out.
    pub async fn changed(&mut self) {
        let each = self.rights.iter_mut().map(|right| Box::pin(turned(right)));
        futures::future::select_all(each).await;
    }

    /// For the writer.
    #[must_use]
    pub fn permit(&self) -> Permit {
        let leadership = self.clone();
        Arc::new(move || leadership.leads())
    }

    /// Leads without a lease: one process alone with its own server.
    #[must_use]
    pub fn alone() -> Self {
        // The sender may go: the last value stays readable.
        let (_, right) = watch::channel(Right::Always);
        Self { rights: vec![right] }
    }
}

async fn turned(right: &mut watch::Receiver<Right>) {
    let before = *right.borrow_and_update();
    tokio::select! {
        biased;
        () = flipped(right, before == Right::No) => {}
        () = ran_out(before) => {}
    }
}

async fn flipped(right: &mut watch::Receiver<Right>, had_none: bool) {
    if right.wait_for(|now| (*now == Right::No) != had_none).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn ran_out(right: Right) {
    match right {
        // Renewals move it while we sleep; the caller looks again.
        Right::Until(end) if end > Instant::now() => tokio::time::sleep_until(end).await,
        _ => std::future::pending().await,
    }
}

/// A record and since when it is the same, by our clock.
#[derive(Debug, Default)]
pub(super) struct LastRecord(Option<(Option<LeaseSpec>, Instant)>);

impl LastRecord {
    /// Notes what a lease says now. Has nobody renewed it for as long as it says, or does nobody hold it?
    pub(super) fn is_vacant(&mut self, lease: &Lease) -> bool {
        let since = match &self.0 {
            Some((spec, since)) if *spec == lease.spec => *since,
            _ => {
                let now = Instant::now();
                self.0 = Some((lease.spec.clone(), now));
                now
            }
        };
        lease.spec.as_ref().is_none_or(|spec| is_free(spec) || since.elapsed() > stated(spec))
    }
}

/// Takes and renews the lease.
pub struct Elector {
    options: LeaseOptions,
    writer: Writer,
    clock: Clock,
    right: watch::Sender<Right>,
    observed: Mutex<LastRecord>,
    /// The records that were sent: the last one that was stored, then those whose outcome is unknown.
    sent: Mutex<VecDeque<LeaseSpec>>,
    seizing: Mutex<Seizing>,
}

/// How far the taking from another holder is.
#[derive(Debug, Default)]
struct Seizing {
    /// It was ours: it is not taken from others again.
    is_over: bool,
    /// From then on a holder whose record was replaced must have stopped.
    former_stops: Option<Instant>,
}

impl Elector {
    /// `writer` must carry no permit of its own.
    #[must_use]
    pub fn new(options: LeaseOptions, writer: Writer, clock: Clock) -> (Self, Leadership) {
        let (sender, right) = watch::channel(Right::No);
        let (observed, sent, seizing) = (Mutex::default(), Mutex::default(), Mutex::default());
        let elector = Self { options, writer, clock, right: sender, observed, sent, seizing };
        (elector, Leadership { rights: vec![right] })
    }

    /// Competes until cancelled, then gives the lease back.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            let attempt = tokio::time::timeout(self.options.renew_deadline / 2, self.attempt());
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                answer = attempt => self.note(answer.unwrap_or_else(|_| Err("no answer in time".to_owned()))),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(self.options.retry) => {}
            }
        }
        self.right.send_replace(Right::No);
        // A record that was sent may be stored, whether it led or not.
        let may_hold = !self.sent.lock().is_empty();
        if may_hold && let Err(error) = self.release().await {
            tracing::warn!("the lease was not given back, others wait for it to run out: {error}");
        }
    }

    fn note(&self, answer: Result<Option<Instant>, String>) {
        match answer {
            Ok(Some(asked_at)) if !self.has_former_holder() => {
                let until = Right::Until(asked_at + self.options.renew_deadline);
                if self.right.send_replace(until) == Right::No {
                    tracing::info!("leading as {}", self.options.identity);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                if self.right.send_replace(Right::No) != Right::No {
                    tracing::warn!("no longer leading: another engine holds the lease");
                }
            }
            Err(error) => {
                tracing::warn!("lease {}/{}: {error}", self.options.namespace, self.options.name);
                self.right.send_if_modified(|right| {
                    let over = *right != Right::No && !right.holds();
                    if over {
                        *right = Right::No;
                    }
                    over
                });
            }
        }
    }

    /// One try. The moment it was begun when the lease is ours now, else `None`.
    async fn attempt(&self) -> Result<Option<Instant>, String> {
        let asked_at = Instant::now();
        let key = ObjectKey::new(&self.options.namespace, &self.options.name);
        let found: Option<Lease> = crate::client::get(self.writer.client(), &key)
            .await
            .map_err(|e| crate::client::errors::chain(&e))?;
        let result = match found {
            None => {
                let ours = self.fresh();
                self.remember(ours.spec.as_ref());
                self.writer.create(&ours, Mode::Real).await
            }
            Some(lease) => {
                if !self.may_take(&lease) && !self.seizes(&lease) {
                    return Ok(None);
                }
                let ours = self.renewed(&lease);
                self.remember(ours.spec.as_ref());
                self.writer.patch(&lease, &ours, &Precondition::unchanged(&lease), Mode::Real).await
            }
        };
        match result {
            Ok(_) => {
                self.forget_all_but_last();
                self.seizing.lock().is_over = true;
                Ok(Some(asked_at))
            }
            Err(error) if error.is_conflict() || error.already_exists() => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn may_take(&self, lease: &Lease) -> bool {
        let vacant = self.observed.lock().is_vacant(lease);
        vacant || lease.spec.as_ref().is_some_and(|spec| self.is_ours(spec))
    }

    /// Is it to be taken from its holder? The holder may write until its record would have run out.
    fn seizes(&self, lease: &Lease) -> bool {
        let mut seizing = self.seizing.lock();
        let Some(spec) = lease.spec.as_ref().filter(|_| self.options.seize && !seizing.is_over) else {
            return false;
        };
        if seizing.former_stops.is_none() {
            let (lease, wait_s) = (ObjectKey::of(lease), stated(spec).as_secs());
            let holder = spec.holder_identity.as_deref().unwrap_or_default();
            tracing::warn!("taking Lease {lease} from {holder}, which may go on for {wait_s} s");
        }
        seizing.former_stops = Some(Instant::now() + stated(spec));
        true
    }

    fn has_former_holder(&self) -> bool {
        self.seizing.lock().former_stops.is_some_and(|stops| Instant::now() < stops)
    }

    /// Did this elector write it? The name in it does not decide: another process may have the same.
    fn is_ours(&self, spec: &LeaseSpec) -> bool {
        self.sent.lock().iter().any(|sent| is_same_record(sent, spec))
    }

    fn remember(&self, spec: Option<&LeaseSpec>) {
        let mut sent = self.sent.lock();
        sent.extend(spec.cloned());
        if sent.len() > SENT_MAX {
            sent.pop_front();
        }
    }

    /// The last one was stored over all before it.
    fn forget_all_but_last(&self) {
        let mut sent = self.sent.lock();
        let surplus = sent.len().saturating_sub(1);
        sent.drain(..surplus);
    }

    fn fresh(&self) -> Lease {
        let name = Some(self.options.name.clone());
        let namespace = Some(self.options.namespace.clone());
        Lease {
            metadata: ObjectMeta { name, namespace, ..ObjectMeta::default() },
            spec: Some(self.record(None)),
        }
    }

    fn renewed(&self, lease: &Lease) -> Lease {
        Lease { metadata: lease.metadata.clone(), spec: Some(self.record(lease.spec.as_ref())) }
    }

    fn record(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = to_k8s_micro(self.clock.now());
        let same = before.filter(|spec| !is_free(spec) && self.is_ours(spec));
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        let changed_hands = before.is_some() && same.is_none();
        LeaseSpec {
            holder_identity: Some(self.options.identity.clone()),
            lease_duration_seconds: i32::try_from(self.options.duration.as_secs()).ok(),
            acquire_time: same.and_then(|spec| spec.acquire_time.clone()).or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(transitions + i32::from(changed_hands)),
            ..LeaseSpec::default()
        }
    }

    /// An empty holder lets the next one in at once. A lease that another has taken stays as it is.
    async fn release(&self) -> Result<(), String> {
        let key = ObjectKey::new(&self.options.namespace, &self.options.name);
        let found: Option<Lease> = crate::client::get(self.writer.client(), &key)
            .await
            .map_err(|e| crate::client::errors::chain(&e))?;
        let Some(lease) = found.filter(|lease| lease.spec.as_ref().is_some_and(|s| self.is_ours(s))) else {
            return Ok(());
        };
        let mut given_back = self.renewed(&lease);
        if let Some(spec) = &mut given_back.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        let sent = self.writer.patch(&lease, &given_back, &Precondition::unchanged(&lease), Mode::Real).await;
        sent.map(|_| ()).map_err(|error| error.to_string())
    }
}

/// For how long a record is good without a renewal.
fn stated(spec: &LeaseSpec) -> Duration {
    Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0))
}

fn is_free(spec: &LeaseSpec) -> bool {
    spec.holder_identity.as_deref().unwrap_or_default().is_empty()
}

/// The fields that every renewal changes, and who holds it.
fn is_same_record(a: &LeaseSpec, b: &LeaseSpec) -> bool {
    a.holder_identity == b.holder_identity
        && a.renew_time == b.renew_time
        && a.acquire_time == b.acquire_time
        && a.lease_transitions == b.lease_transitions
}
