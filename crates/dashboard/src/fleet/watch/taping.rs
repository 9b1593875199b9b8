//! Watches the kinds of the fleet for a recording: every object in full, without managed fields, and the Events about Cluster API's
//! objects. Owns what is recorded, and that no value of a Secret is; must not know where the lines go.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::Api;
use kube::api::{DynamicObject, WatchEvent};
use serde_json::Value;
use serde_json::value::to_raw_value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::feed::{refused_or_lost, state_of};
use super::follow::presentable;
use super::listing::{self, AfterStep, Listener, Step};
use super::tape::{FeedLine, FeedWord, TapeLine, VERSION};
use super::{
    ASK_AGAIN, BATCHES_MAX, Context, JUDGED_KINDS, NAMED_KINDS_MAX, Scope, WANTED_MAX, may_be_control_plane,
    providers,
};
use crate::fleet::decode::{ControlPlaneKinds, named};
use crate::fleet::{Delta, FeedKey, FeedState, SourceId};
use capi_types::host::{HOST, is_host, is_host_machine};
use capi_types::key::{Gvk, group_of};
use capi_types::names::{CONTROL_PLANE_GROUP, INFRASTRUCTURE_GROUP};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_engine::client::Connection;
use capstan_engine::client::catalog::Missing;
use capstan_engine::client::watch::Backoff;

/// What groups of Cluster API and its providers end with.
const GROUPS: &str = "cluster.x-k8s.io";

/// A server being recorded; it ends when this is dropped.
pub struct Taping {
    _feeds: AbortOnDropHandle<()>,
    _guard: AbortOnDropHandle<()>,
}

/// Starts to record. Must be called in a tokio runtime. The receiver has the first line at once, and ends only when the
/// [`Taping`] is dropped.
pub fn tape(
    connection: &Connection,
    scope: Scope,
    clock: Clock,
    rng: Rng,
) -> (mpsc::Receiver<Vec<TapeLine>>, Taping) {
    let (lines, receiver) = mpsc::channel(BATCHES_MAX);
    let (context, guard) = super::context(connection, SourceId(0), scope, clock, rng);
    let source = capstan_base::text::sanitize_line(&connection.context);
    let feeds = AbortOnDropHandle::new(tokio::spawn(supervise(context, source, lines)));
    (receiver, Taping { _feeds: feeds, _guard: guard })
}

async fn supervise(context: Arc<Context>, source: String, lines: mpsc::Sender<Vec<TapeLine>>) {
    let at = now_ms(&context);
    if lines.send(vec![TapeLine::Recording { version: VERSION, source, at }]).await.is_err() {
        return;
    }
    let (wanted, mut wants) = mpsc::channel(WANTED_MAX);
    let (mut running, mut feeds) = (BTreeSet::new(), JoinSet::new());
    let reader = context.clone();
    feeds.spawn(async move { reader.history.verify(&reader.client).await });
    feeds.spawn(say_cluster_api(context.clone(), lines.clone()));
    let mut start = |group: &str, kind: &str, control_plane: bool| {
        let key = context.key(group, kind);
        // Events come beside them.
        let has_room = running.len() <= JUDGED_KINDS.len() + NAMED_KINDS_MAX;
        if has_room && running.insert(key.clone()) {
            let (wanted, lines) = (wanted.clone(), lines.clone());
            let tape =
                KindTape { context: context.clone(), key, control_plane, wanted, lines, listed: Vec::new() };
            feeds.spawn(tape.run());
        }
    };
    for (group, kind) in JUDGED_KINDS {
        start(group, kind, group == CONTROL_PLANE_GROUP);
    }
    start("", "Event", false);
    while let Some((group, kind)) = wants.recv().await {
        if may_be_control_plane(&group) {
            start(&group, &kind, !is_host(&group, &kind));
        }
    }
}

/// Which Cluster API looks after the clusters, as soon as it is known.
async fn say_cluster_api(context: Arc<Context>, lines: mpsc::Sender<Vec<TapeLine>>) {
    let (tell, mut told) = mpsc::channel(1);
    let reading = providers::say(context.clone(), tell);
    let (told, ()) = futures::join!(told.recv(), reading);
    let versions = told.into_iter().flatten().filter_map(|delta| match delta {
        Delta::ClusterApi { version, .. } => Some(version.to_string()),
        _ => None,
    });
    let at = now_ms(&context);
    let said = versions.map(|version| TapeLine::ClusterApi { at, version }).collect::<Vec<_>>();
    if !said.is_empty() {
        let _ = lines.send(said).await;
    }
}

fn now_ms(context: &Context) -> i64 {
    context.clock.now().timestamp_millis()
}

/// One kind that is recorded.
struct KindTape {
    context: Arc<Context>,
    key: FeedKey,
    control_plane: bool,
    wanted: mpsc::Sender<(String, String)>,
    lines: mpsc::Sender<Vec<TapeLine>>,
    /// What the running list has named so far.
    listed: Vec<String>,
}

impl KindTape {
    async fn run(self) {
        let mut backoff = Backoff::new(self.context.rng.stream(&self.key.to_string()));
        if !self.send_state(&FeedState::Connecting).await {
            return;
        }
        let gvk = loop {
            let (state, wait) = match self.context.catalog.resolve(&self.key.group, &self.key.kind).await {
                Ok(gvk) => break gvk,
                Err(Missing::NotServed(error)) => (FeedState::NotServed { error: error.into() }, ASK_AGAIN),
                Err(Missing::Unreachable(error)) => {
                    (refused_or_lost(&error, &self.context.server), backoff.next().unwrap_or(ASK_AGAIN))
                }
            };
            if !self.send_state(&state).await {
                return;
            }
            tokio::time::sleep(wait).await;
        };
        let (context, client) = (self.context.clone(), self.context.client.clone());
        let resource = gvk.api_resource();
        let api: Api<DynamicObject> = match &context.scope.namespace {
            Some(namespace) if gvk.namespaced => Api::namespaced_with(client, namespace, &resource),
            _ => Api::all_with(client, &resource),
        };
        listing::run(
            &context,
            api,
            None,
            backoff,
            TapeListener { tape: self, gvk, has_asked_for_hosts: false },
        )
        .await;
    }

    /// Says how the feed is. Answers whether anybody listens.
    async fn send_state(&self, state: &FeedState) -> bool {
        self.lines.send(vec![self.feed(state)]).await.is_ok()
    }

    fn feed(&self, state: &FeedState) -> TapeLine {
        let (state, error) = FeedWord::of(state);
        TapeLine::Feed(FeedLine {
            at: now_ms(&self.context),
            group: self.key.group.to_string(),
            kind: self.key.kind.to_string(),
            control_plane: self.control_plane,
            state,
            error,
        })
    }
}

struct TapeListener {
    tape: KindTape,
    gvk: Gvk,
    has_asked_for_hosts: bool,
}

/// Of a Machine: its infrastructure is a HostMachine.
fn has_host_machine(object: &Value) -> bool {
    let named = named(&object["spec"]["infrastructureRef"]);
    object["kind"] == "Machine" && named.is_some_and(|(group, kind)| is_host_machine(&group, &kind))
}

impl TapeListener {
    /// `None`: an Event about something else.
    fn put(&self, object: DynamicObject) -> Option<(TapeLine, Value)> {
        let value = presentable(object, &self.gvk);
        if self.gvk.kind == "Event" && !is_about_clusters(&value) {
            return None;
        }
        let object = to_raw_value(&value).ok()?;
        Some((TapeLine::Put { at: now_ms(&self.tape.context), object }, value))
    }

    async fn puts(&mut self, objects: Vec<DynamicObject>) -> Vec<TapeLine> {
        let mut lines = Vec::new();
        for object in objects {
            let Some((line, value)) = self.put(object) else { continue };
            lines.push(line);
            for named in ControlPlaneKinds::named_by([&value]).into_names() {
                let _ = self.tape.wanted.send(named).await;
            }
            if !self.has_asked_for_hosts && has_host_machine(&value) {
                self.has_asked_for_hosts = true;
                let _ = self.tape.wanted.send((INFRASTRUCTURE_GROUP.to_owned(), HOST.to_owned())).await;
            }
        }
        lines
    }

    async fn changes(&mut self, events: Vec<WatchEvent<DynamicObject>>) -> Vec<TapeLine> {
        let mut lines = Vec::new();
        for event in events {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    lines.extend(self.puts(vec![object]).await);
                }
                // Events go after an hour; they were no less for that.
                WatchEvent::Deleted(object) if self.gvk.kind != "Event" => {
                    let (at, uid) = (now_ms(&self.tape.context), object.metadata.uid.unwrap_or_default());
                    lines.push(TapeLine::Gone { at, uid });
                }
                WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
            }
        }
        lines
    }
}

fn is_about_clusters(event: &Value) -> bool {
    event["involvedObject"]["apiVersion"].as_str().is_some_and(|version| group_of(version).ends_with(GROUPS))
}

impl Listener<DynamicObject> for TapeListener {
    async fn step(&mut self, step: Step<DynamicObject>) -> AfterStep {
        let mut after = AfterStep::GoOn;
        let lines = match step {
            Step::Listing => {
                self.tape.listed.clear();
                vec![self.tape.feed(&FeedState::Listing)]
            }
            Step::Page(objects) => {
                self.tape.listed.extend(objects.iter().filter_map(|object| object.metadata.uid.clone()));
                self.puts(objects).await
            }
            Step::Listed => vec![TapeLine::Listed {
                at: now_ms(&self.tape.context),
                group: self.gvk.group.clone(),
                kind: self.gvk.kind.clone(),
                uids: std::mem::take(&mut self.tape.listed),
            }],
            Step::Live => vec![self.tape.feed(&FeedState::Live)],
            Step::Changes(events) => self.changes(events).await,
            Step::Failed(trouble) => {
                let state = state_of(&trouble, &self.tape.context.server);
                if matches!(state, FeedState::NoAccess { .. } | FeedState::NotServed { .. }) {
                    after = AfterStep::RetryAfter(ASK_AGAIN);
                }
                vec![self.tape.feed(&state)]
            }
        };
        if !lines.is_empty() && self.tape.lines.send(lines).await.is_err() {
            return AfterStep::Stop;
        }
        after
    }
}
