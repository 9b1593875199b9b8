//! From an API server to batches of deltas: the only part of the fleet that waits, and the only one
//! that sees a client. Owns which kinds are watched, and one object in full on demand. Must not
//! know what becomes of the deltas.
//!
//! Per kind one paged list, then one watch with bookmarks; nothing is polled, but that a server which
//! has been silent for a while is asked whether it still answers (`client::pulse`). A server without the
//! kinds, or that refuses them, is asked again slowly; a lost one with growing waits.

mod feed;
mod follow;
mod history;
mod listing;
mod page;
mod played;
mod providers;
mod recording;
mod rest;
mod tape;
mod taping;
#[cfg(test)]
mod tests;
mod writers;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

pub use follow::{EventLine, ObjectNews, redact};
pub use played::Tape;
pub use recording::Recording;
pub use rest::nap_while_watches_rest;
pub use tape::TapeLine;
pub use taping::{Taping, tape};
pub use writers::FieldManager;

use super::decode::Decoder;
use super::{Delta, FeedKey, FeedState, GroupKind, HEALTH_CHECK, Interner, SourceId, Target};
use capi_types::host::{HOST, is_host_machine};
use capi_types::key::{Gvk, ObjectRef};
use capi_types::names::{CONTROL_PLANE_GROUP, CORE_GROUP, INFRASTRUCTURE_GROUP, VERSION};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_engine::client::catalog::{Catalog, Missing};
use capstan_engine::client::pulse::{self, Outage};
use capstan_engine::client::watch::Backoff;
use capstan_engine::client::{Connection, explain};
use history::History;

/// Batches that may wait for the screen; a full channel holds the feeds back, never grows.
const BATCHES_MAX: usize = 64;
/// Kinds of control planes that may wait for their feed to be started. A full channel holds back the feed
/// of Clusters, which asks for each kind once; no other request waits for that answer.
const WANTED_MAX: usize = 16;
/// Kinds of control planes that are watched beside Cluster API's own. Whoever may make Clusters names them.
pub const NAMED_KINDS_MAX: usize = 32;
/// How often a kind that is refused or not served is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(300);

/// The kinds that verdicts rest on, for whoever reads them; control planes of other kinds come beside them as Clusters name them.
pub const JUDGED_KINDS: [(&str, &str); 7] = [
    (CORE_GROUP, "Cluster"),
    (CORE_GROUP, "MachineDeployment"),
    (CORE_GROUP, "MachineSet"),
    (CORE_GROUP, "Machine"),
    (CORE_GROUP, "MachinePool"),
    (CORE_GROUP, HEALTH_CHECK),
    (CONTROL_PLANE_GROUP, "KubeadmControlPlane"),
];

/// Which namespace is read: one, or all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// `None`: all namespaces.
    pub namespace: Option<String>,
}

/// One management cluster being watched; watching ends when it is dropped.
pub struct Source {
    id: SourceId,
    context: Arc<Context>,
    _feeds: AbortOnDropHandle<()>,
    _guard: AbortOnDropHandle<()>,
}

/// What all tasks of one source share.
struct Context {
    id: SourceId,
    client: Client,
    server: String,
    scope: Scope,
    clock: Clock,
    rng: Rng,
    interner: Arc<Interner>,
    catalog: Catalog,
    history: History,
    /// `Some` while the server does not answer.
    outages: watch::Receiver<Option<Outage>>,
}

/// Starts watching the Cluster API kinds of one management cluster. Must be called in a tokio runtime.
/// The receiver ends only when the [`Source`] is dropped: a lost connection does not end it.
pub fn spawn(
    connection: &Connection,
    id: SourceId,
    scope: Scope,
    clock: Clock,
    rng: Rng,
) -> (mpsc::Receiver<Vec<Delta>>, Source) {
    let (batches, receiver) = mpsc::channel(BATCHES_MAX);
    let (context, guard) = context(connection, id, scope, clock, rng);
    let name = capstan_base::text::sanitize_line(&connection.context);
    let feeds = AbortOnDropHandle::new(tokio::spawn(supervise(context.clone(), name, batches)));
    (receiver, Source { id, context, _feeds: feeds, _guard: guard })
}

/// What the tasks of a source share, and the task that asks a silent server whether it still answers.
fn context(
    connection: &Connection,
    id: SourceId,
    scope: Scope,
    clock: Clock,
    rng: Rng,
) -> (Arc<Context>, AbortOnDropHandle<()>) {
    let (outage, outages) = watch::channel(None);
    let guard = pulse::guard(
        connection.pulse.clone(),
        connection.client.clone(),
        capstan_base::text::sanitize_line(&connection.server),
        clock.clone(),
        outage,
    );
    let context = Arc::new(Context::new(connection, id, scope, clock, rng, outages));
    (context, AbortOnDropHandle::new(tokio::spawn(guard)))
}

impl Source {
    pub fn id(&self) -> SourceId {
        self.id
    }

    /// One object in full, from now until the receiver is dropped.
    pub fn follow(&self, target: Target) -> mpsc::Receiver<ObjectNews> {
        follow::object(self.context.clone(), target)
    }

    /// Its events, from now until the receiver is dropped; of what has other objects below it those of its namespace.
    pub fn follow_events(&self, target: Target) -> mpsc::Receiver<ObjectNews> {
        follow::events(self.context.clone(), target)
    }

    /// The object that a target names, with the version it is served in: what an action needs. The uid
    /// is empty.
    ///
    /// # Errors
    /// A sentence: the kind is not served, or the server could not be asked.
    pub async fn resolve(&self, target: &Target) -> Result<ObjectRef, String> {
        let gvk = self.context.resolve(&target.group, &target.kind).await?;
        let key = capi_types::key::ObjectKey::new(target.namespace.clone(), target.name.clone());
        Ok(ObjectRef { gvk, key, uid: String::new() })
    }
}

/// One object in full, without watching anything else; see [`Source::follow`].
pub fn follow_one(connection: &Connection, target: Target, rng: Rng) -> mpsc::Receiver<ObjectNews> {
    // One read needs no watch over its connection: the request's own time-outs end it.
    let (_, outages) = watch::channel(None);
    let context = Context::new(connection, target.source, Scope::default(), Clock::system(), rng, outages);
    follow::object(Arc::new(context), target)
}

impl Context {
    fn new(
        connection: &Connection,
        id: SourceId,
        scope: Scope,
        clock: Clock,
        rng: Rng,
        outages: watch::Receiver<Option<Outage>>,
    ) -> Self {
        Self {
            id,
            client: connection.client.clone(),
            server: connection.server.clone(),
            scope,
            clock,
            rng,
            interner: Arc::default(),
            catalog: Catalog::new(connection.client.clone()),
            history: History::default(),
            outages,
        }
    }

    async fn resolve(&self, group: &str, kind: &str) -> Result<Gvk, String> {
        match self.catalog.resolve(group, kind).await {
            Ok(gvk) => Ok(gvk),
            Err(Missing::NotServed(text)) => Err(text),
            Err(Missing::Unreachable(error)) => Err(explain(&error, &self.server)),
        }
    }

    fn key(&self, group: &str, kind: &str) -> FeedKey {
        FeedKey { source: self.id, group: group.into(), kind: kind.into() }
    }

    fn feed(&self, key: &FeedKey, state: FeedState) -> Delta {
        Delta::Feed { feed: key.clone(), state, at: self.clock.now() }
    }
}

/// Starts a feed per kind: the known ones, the control planes that clusters refer to as they are seen, of whatever group, and
/// Hosts once a Machine has a HostMachine. Says when the server's history was replaced.
async fn supervise(context: Arc<Context>, name: String, batches: mpsc::Sender<Vec<Delta>>) {
    if batches.send(vec![Delta::Source { source: context.id, name: name.into() }]).await.is_err() {
        return;
    }
    let (wanted, mut wants) = mpsc::channel(WANTED_MAX);
    let (mut running, mut feeds) = (BTreeSet::new(), JoinSet::new());
    let reader = context.clone();
    // Which cluster it is has to be known before a connection is lost, to compare with afterwards.
    feeds.spawn(async move { reader.history.verify(&reader.client).await });
    feeds.spawn(providers::say(context.clone(), batches.clone()));
    let mut start = |group: &str, kind: &str, role: FeedRole| {
        let key = context.key(group, kind);
        let has_room = running.len() < JUDGED_KINDS.len() + NAMED_KINDS_MAX;
        if has_room && running.insert(key.clone()) {
            feeds.spawn(run_feed(context.clone(), (key, role), wanted.clone(), batches.clone()));
        }
    };
    for (group, kind) in JUDGED_KINDS {
        start(group, kind, FeedRole::Known);
    }
    let mut epochs = context.history.subscribe();
    loop {
        tokio::select! {
            Some(kind) = wants.recv() => {
                if is_host_machine(&kind.group, &kind.kind) {
                    start(INFRASTRUCTURE_GROUP, HOST, FeedRole::Known);
                } else if may_be_control_plane(&kind.group) {
                    start(&kind.group, &kind.kind, FeedRole::ControlPlane);
                }
            }
            Ok(()) = epochs.changed() => {
                let _ = batches.send(vec![Delta::Replaced { source: context.id }]).await;
            }
        }
    }
}

/// Why a kind is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FeedRole {
    /// What it is to the model follows from its name.
    Known,
    /// A Cluster names it as its control plane.
    ControlPlane,
}

/// Groups of the server's own kinds have no dot, or end so: no control plane is of one, and a Cluster that names one,
/// such as Secrets, does not have them listed.
pub fn may_be_control_plane(group: &str) -> bool {
    group.contains('.') && !group.ends_with(".k8s.io")
}

/// The hint for a server that is too old for the new status.
fn old_version_notice(version: &str) -> String {
    format!(
        "this server offers Cluster API only as {version}; capstan reads {VERSION}. Shown is what {version} can say: \
         conditions and counters of {VERSION} where status.v1beta2 has them, the old ones elsewhere. \
         Cluster API v1.11 or newer shows everything"
    )
}

/// One kind until the end: finds how it is served, then lists and watches it.
async fn run_feed(
    context: Arc<Context>,
    (key, role): (FeedKey, FeedRole),
    wanted: mpsc::Sender<Arc<GroupKind>>,
    batches: mpsc::Sender<Vec<Delta>>,
) {
    let mut backoff = Backoff::new(context.rng.stream(&key.to_string()));
    let _ = batches.send(vec![context.feed(&key, FeedState::Connecting)]).await;
    let gvk = loop {
        let (state, wait) = match context.catalog.resolve(&key.group, &key.kind).await {
            Ok(gvk) => break gvk,
            Err(Missing::NotServed(error)) => (FeedState::NotServed { error: error.into() }, ASK_AGAIN),
            Err(Missing::Unreachable(error)) => {
                (feed::refused_or_lost(&error, &context.server), backoff.next().unwrap_or(ASK_AGAIN))
            }
        };
        if batches.send(vec![context.feed(&key, state)]).await.is_err() {
            return;
        }
        tokio::time::sleep(wait).await;
    };
    // Cluster API is upgraded as a whole, so that one kind speaks for all.
    if key.kind.as_ref() == "Cluster" && gvk.version != VERSION {
        let notice = old_version_notice(&gvk.version);
        let _ = batches.send(vec![Delta::Notice { source: context.id, text: Some(notice.into()) }]).await;
    }
    let decoder = match role {
        FeedRole::Known => Decoder::for_kind(context.id, gvk, context.interner.clone()),
        FeedRole::ControlPlane => Decoder::for_control_plane(context.id, gvk, context.interner.clone()),
    };
    feed::Feed::new(context, key, decoder, wanted, batches).run().await;
}
