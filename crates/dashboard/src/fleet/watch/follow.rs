//! One object in full, or the events about it, live. Owns redaction: secret data does not leave here.
//! Must not know how either is shown.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{DynamicObject, WatchEvent};
use kube::core::Resource as _;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::Context;
use super::listing::{self, AfterStep, Listener, Step, Trouble};
use super::writers::{FieldManager, writers};
use crate::fleet::Target;
use capi_types::key::Gvk;
use capstan_base::text::{sanitize_block, sanitize_line};
use capstan_base::time::{Timestamp, from_k8s, from_k8s_micro};
use capstan_engine::client::explain;
use capstan_engine::client::watch::Backoff;

/// News that may wait for the screen.
const NEWS_MAX: usize = 16;
/// Events kept of one object, newest; and of a namespace, where those of what is below an object are asked for.
const EVENTS_MAX: usize = 200;
const NAMESPACE_EVENTS_MAX: usize = 2_000;
/// Events of a namespace that come within this time are told together.
const TOGETHER: Duration = Duration::from_millis(300);
/// What stands for secret data.
const REDACTED: &str = "(hidden)";

/// News of one followed object. Text is sanitised.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectNews {
    /// The object as it is now, without managed fields, secret data hidden.
    Object(Box<Value>),
    /// Who set its fields, the last one first; told after the object where it is other than before.
    Writers(Vec<FieldManager>),
    /// All known events about it, oldest first; of what has other objects below it those of its namespace.
    Events(Vec<EventLine>),
    /// It does not exist (any more).
    Gone,
    /// Could not be read, in a sentence; what was told before stays as it was then.
    Failed(String),
    /// It is read again after a failure, and is as it was told last.
    Unchanged,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLine {
    /// The object that it is about.
    pub kind: String,
    pub name: String,
    pub last_seen: Option<Timestamp>,
    pub count: u32,
    pub warning: bool,
    pub reason: String,
    pub from: String,
    pub message: String,
}

/// The object, until the receiver is dropped.
pub(super) fn object(context: Arc<Context>, target: Target) -> mpsc::Receiver<ObjectNews> {
    spawn(|news| follow_object(context, target, news))
}

/// Its events, until the receiver is dropped.
pub(super) fn events(context: Arc<Context>, target: Target) -> mpsc::Receiver<ObjectNews> {
    spawn(|news| follow_events(context, target, news))
}

fn spawn<F>(follow: impl FnOnce(mpsc::Sender<ObjectNews>) -> F) -> mpsc::Receiver<ObjectNews>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (news, receiver) = mpsc::channel(NEWS_MAX);
    let closed = news.clone();
    let following = follow(news);
    tokio::spawn(async move {
        tokio::select! {
            biased;
            // Whoever followed has left: a watch without news would notice that only at its end.
            () = closed.closed() => {}
            () = following => {}
        }
    });
    receiver
}

fn backoff(context: &Context, what: &str) -> Backoff {
    Backoff::new(context.rng.stream(what))
}

async fn follow_object(context: Arc<Context>, target: Target, news: mpsc::Sender<ObjectNews>) {
    let mut waits = backoff(&context, "resolve");
    let gvk = loop {
        match context.resolve(&target.group, &target.kind).await {
            Ok(gvk) => break gvk,
            Err(text) => {
                let _ = news.send(ObjectNews::Failed(sanitize_line(&text))).await;
                tokio::time::sleep(waits.next().unwrap_or(super::ASK_AGAIN)).await;
            }
        }
    };
    let resource = gvk.api_resource();
    let api: Api<DynamicObject> = if gvk.namespaced {
        Api::namespaced_with(context.client.clone(), &target.namespace, &resource)
    } else {
        Api::all_with(context.client.clone(), &resource)
    };
    let listener = ObjectListener {
        server: context.server.clone(),
        gvk,
        seen: false,
        failed: false,
        writers: Vec::new(),
        news,
    };
    let selector = format!("metadata.name={}", target.name);
    listing::run(&context, api, Some(selector), backoff(&context, "object"), listener).await;
}

async fn follow_events(context: Arc<Context>, target: Target, news: mpsc::Sender<ObjectNews>) {
    let api: Api<Event> = if target.namespace.is_empty() {
        Api::all(context.client.clone())
    } else {
        Api::namespaced(context.client.clone(), &target.namespace)
    };
    let selector = match target.kind.as_str() {
        // Infrastructure and bootstrap objects are called like their Machine.
        "Machine" => Some(format!("involvedObject.name={}", target.name)),
        // No selector names all that is below, so that the events of the whole namespace are read.
        kind if has_below(kind) => None,
        kind => Some(format!("involvedObject.kind={kind},involvedObject.name={}", target.name)),
    };
    let most = if selector.is_some() { EVENTS_MAX } else { NAMESPACE_EVENTS_MAX };
    let listener = EventListener { server: context.server.clone(), events: BTreeMap::new(), most, news };
    listing::run(&context, api, selector, backoff(&context, "events"), listener).await;
}

/// Objects of this kind have others below them, whose events matter as much.
pub(super) fn has_below(kind: &str) -> bool {
    matches!(kind, "Cluster" | "MachineDeployment" | "MachineSet" | "MachinePool")
        || kind.ends_with("ControlPlane")
}

struct ObjectListener {
    server: String,
    gvk: Gvk,
    /// It was there when it was last read.
    seen: bool,
    /// It could not be read since.
    failed: bool,
    /// As they were told.
    writers: Vec<FieldManager>,
    news: mpsc::Sender<ObjectNews>,
}

impl ObjectListener {
    fn report(&mut self, object: DynamicObject, news: &mut Vec<ObjectNews>) {
        (self.seen, self.failed) = (true, false);
        let writers = writers(object.metadata.managed_fields.as_deref().unwrap_or_default());
        news.push(ObjectNews::Object(Box::new(presentable(object, &self.gvk))));
        if writers != self.writers {
            self.writers.clone_from(&writers);
            news.push(ObjectNews::Writers(writers));
        }
    }
}

impl Listener<DynamicObject> for ObjectListener {
    async fn step(&mut self, step: Step<DynamicObject>) -> AfterStep {
        let mut news = Vec::new();
        match step {
            Step::Listing => self.seen = false,
            Step::Page(objects) => objects.into_iter().for_each(|o| self.report(o, &mut news)),
            Step::Listed if !self.seen => news.push(ObjectNews::Gone),
            Step::Changes(changes) => {
                for change in changes {
                    match change {
                        WatchEvent::Added(o) | WatchEvent::Modified(o) => self.report(o, &mut news),
                        WatchEvent::Deleted(_) => {
                            self.seen = false;
                            news.push(ObjectNews::Gone);
                        }
                        WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
                    }
                }
            }
            Step::Failed(trouble) => {
                self.failed = true;
                news.push(failed(&trouble, &self.server));
            }
            // A watch that stands again is silent while nothing changes.
            Step::Live if std::mem::take(&mut self.failed) => {
                news.push(if self.seen { ObjectNews::Unchanged } else { ObjectNews::Gone });
            }
            Step::Listed | Step::Live => {}
        }
        send_all(&self.news, news).await
    }
}

struct EventListener {
    server: String,
    events: BTreeMap<String, EventLine>,
    most: usize,
    news: mpsc::Sender<ObjectNews>,
}

impl EventListener {
    fn note(&mut self, event: &Event) {
        if let Some(uid) = event.meta().uid.clone() {
            self.events.insert(uid, line(event));
        }
        // Some room, so that not every event costs a search for the oldest.
        if self.events.len() > 2 * self.most {
            let mut seen: Vec<Option<Timestamp>> = self.events.values().map(|line| line.last_seen).collect();
            seen.sort_unstable();
            let oldest = seen[seen.len() - self.most];
            self.events.retain(|_, line| line.last_seen >= oldest);
        }
    }

    fn picture(&self) -> ObjectNews {
        let mut lines: Vec<EventLine> = self.events.values().cloned().collect();
        lines.sort_by_key(|l| l.last_seen);
        let surplus = lines.len().saturating_sub(self.most);
        ObjectNews::Events(lines.split_off(surplus))
    }
}

impl Listener<Event> for EventListener {
    async fn step(&mut self, step: Step<Event>) -> AfterStep {
        let news = match step {
            Step::Listing => {
                self.events.clear();
                None
            }
            Step::Page(events) => {
                events.iter().for_each(|e| self.note(e));
                None
            }
            Step::Listed => Some(self.picture()),
            Step::Live => None,
            Step::Changes(changes) => {
                for change in &changes {
                    match change {
                        WatchEvent::Added(e) | WatchEvent::Modified(e) => self.note(e),
                        // Events expire after an hour; while they are on the screen they may stay.
                        WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
                    }
                }
                if self.most == NAMESPACE_EVENTS_MAX {
                    // A busy namespace must not draw the screen again for every event.
                    tokio::time::sleep(TOGETHER).await;
                }
                Some(self.picture())
            }
            // A missing right to read events is not a fault of the object.
            Step::Failed(trouble) => {
                if let Trouble::Request(error) = &trouble {
                    tracing::debug!("events: {}", explain(error, &self.server));
                }
                return if refused(&trouble) {
                    AfterStep::RetryAfter(super::ASK_AGAIN)
                } else {
                    AfterStep::GoOn
                };
            }
        };
        send_all(&self.news, news).await
    }
}

fn refused(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Request(kube::Error::Api(status)) if status.code == 403 || status.code == 404)
}

async fn send_all(
    sender: &mpsc::Sender<ObjectNews>,
    news: impl IntoIterator<Item = ObjectNews>,
) -> AfterStep {
    for subject in news {
        if sender.send(subject).await.is_err() {
            return AfterStep::Stop;
        }
    }
    AfterStep::GoOn
}

fn failed(trouble: &Trouble, server: &str) -> ObjectNews {
    ObjectNews::Failed(match trouble {
        Trouble::Request(error) => sanitize_line(&explain(error, server)),
        Trouble::Outage(outage) => outage.error.to_string(),
        Trouble::Silent => format!("{server} has gone silent: check the network"),
        Trouble::Closed => format!("{server} ends every watch at once: check proxies in between"),
    })
}

pub(super) fn line(event: &Event) -> EventLine {
    let last = event.last_timestamp.as_ref().map(from_k8s);
    let micro = event.event_time.as_ref().map(from_k8s_micro);
    let series = event.series.as_ref();
    // Events of `events.k8s.io` name their component in another field.
    let from =
        event.source.as_ref().and_then(|s| s.component.clone()).or_else(|| event.reporting_component.clone());
    let about = &event.involved_object;
    EventLine {
        kind: sanitize_line(about.kind.as_deref().unwrap_or_default()),
        name: sanitize_line(about.name.as_deref().unwrap_or_default()),
        last_seen: series
            .and_then(|s| s.last_observed_time.as_ref())
            .map(from_k8s_micro)
            .or(last)
            .or(micro)
            .or_else(|| event.metadata.creation_timestamp.as_ref().map(from_k8s)),
        count: series.and_then(|s| s.count).or(event.count).and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
        warning: event.type_.as_deref() == Some("Warning"),
        reason: sanitize_line(event.reason.as_deref().unwrap_or_default()),
        from: sanitize_line(&from.unwrap_or_default()),
        message: sanitize_block(event.message.as_deref().unwrap_or_default()),
    }
}

/// The object as people want to read it.
pub(super) fn presentable(mut object: DynamicObject, gvk: &Gvk) -> Value {
    // These are told apart, as the writers of the object.
    object.metadata.managed_fields = None;
    // The items of a list come without version and kind.
    object.types = Some(kube::core::TypeMeta { api_version: gvk.api_version(), kind: gvk.kind.clone() });
    let mut value = serde_json::to_value(&object).unwrap_or(Value::Null);
    if gvk.group.is_empty() && gvk.kind == "Secret" {
        redact(&mut value);
    }
    sanitized(value)
}

/// Hides the data of a Secret, and the copy that `kubectl apply` leaves in an annotation.
pub fn redact(value: &mut Value) {
    for field in ["data", "stringData"] {
        if let Some(entries) = value.get_mut(field).and_then(Value::as_object_mut) {
            entries.values_mut().for_each(|v| *v = REDACTED.into());
        }
    }
    if let Some(annotations) = value.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        && let Some(applied) = annotations.get_mut(capi_types::names::annotation::LAST_APPLIED)
    {
        *applied = REDACTED.into();
    }
}

/// Every text in it, keys included, made safe for a terminal.
fn sanitized(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(sanitize_block(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(sanitized).collect()),
        Value::Object(entries) => Value::Object(
            entries.into_iter().map(|(k, v)| (sanitize_line(&k), sanitized(v))).collect::<Map<_, _>>(),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_data_is_hidden_everywhere() {
        let secret = serde_json::json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "a", "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"key\":\"czNjcmV0\"}}"}},
            "data": {"key": "czNjcmV0"}, "stringData": {"other": "s3cret"},
        });
        let gvk = Gvk {
            group: String::new(),
            version: "v1".into(),
            kind: "Secret".into(),
            plural: "secrets".into(),
            namespaced: true,
        };
        let object: DynamicObject = serde_json::from_value(secret).expect("an object");
        let shown = presentable(object, &gvk).to_string();
        assert!(!shown.contains("czNjcmV0") && !shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("\"key\":\"(hidden)\""), "{shown}");
    }
}
