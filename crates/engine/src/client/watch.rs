//! One live copy of all objects of a kind: listed in pages, kept by watch. Owns the copy and calls listeners
//! after changes; must not know what the objects mean or who reads them.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use kube::api::Api;
use kube::core::{DynamicResourceScope, NamespaceResourceScope};
use kube::runtime::watcher::{self, Event};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};

use super::contents::Contents;
use super::received::Received;
use super::short_watch::refusing_short_watches;
use super::{Definition, Live};
use capi_types::key::ObjectKey;
use capi_types::managed_fields;
use capstan_base::rng::Rng;

/// Objects per page of the first list.
const PAGE_SIZE: u32 = 500;
/// Waits between attempts to list or watch again: doubling, with up to half as much again at random.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// What happened to one object: before and after. Both `None` never occurs.
pub struct Change<'a, K> {
    pub old: Option<&'a K>,
    pub new: Option<&'a K>,
}

/// How far a cache is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The first list is complete.
    pub ready: bool,
    /// Newest resourceVersion seen, as a number; 0 before the first object.
    pub seen: u64,
    /// Changes applied so far.
    pub changes: u64,
    /// Why the last attempt to list or watch failed; `None` while it works.
    pub trouble: Option<String>,
    /// How often a new list was asked for, and to how many of these requests the last complete list answers.
    pub renewals: (u64, u64),
}

impl Progress {
    /// What is in the copy is what the server last reported, and what is not in it does not exist there: no list is due, and none
    /// failed. A watch that ended without a word after a second or more is not seen here.
    pub fn is_current(&self) -> bool {
        let (asked, answered) = self.renewals;
        self.ready && self.trouble.is_none() && asked == answered
    }
}

type Listener<K> = Box<dyn Fn(&Change<'_, K>) + Send + Sync>;

/// Read access to the live copy. Cheap to clone; all clones read the same copy.
pub struct Cache<K: Live>(Arc<Shared<K>>);

struct Shared<K: Live> {
    objects: RwLock<Contents<K>>,
    listeners: Mutex<Vec<Listener<K>>>,
    progress: watch::Sender<Progress>,
    renewal: Notify,
}

impl<K: Live> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Live> Default for Cache<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Live> Cache<K> {
    /// An empty copy that nothing feeds yet; [`Cache::follow`] feeds it.
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            objects: RwLock::default(),
            listeners: Mutex::new(Vec::new()),
            progress: watch::Sender::new(Progress::default()),
            renewal: Notify::new(),
        }))
    }

    /// A ready copy of given objects: for tests of code that reads caches.
    pub fn of(objects: impl IntoIterator<Item = K>) -> Self {
        let cache = Self::new();
        for object in objects {
            cache.upsert(object);
        }
        cache.0.progress.send_modify(|p| p.ready = true);
        cache
    }

    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.0.objects.read().get(key).cloned()
    }

    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.0.objects.read().all().cloned().collect()
    }

    /// The objects of one namespace, ordered by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.select(namespace, |_| true)
    }

    /// The objects of one namespace that `wanted` picks, ordered by name.
    pub fn select(&self, namespace: &str, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let contents = self.0.objects.read();
        contents.in_namespace(namespace).filter(|object| wanted(object)).cloned().collect()
    }

    /// The objects with the label of a Cluster, ordered by name. The first question makes an index.
    pub fn of_cluster(&self, cluster: &ObjectKey) -> Vec<Arc<K>> {
        if let Some(found) = self.0.objects.read().of_cluster(cluster) {
            return found;
        }
        // Two first questions at once may both make the
        // index; the second one is only work done twice.
        let mut contents = self.0.objects.write();
        contents.index_clusters();
        contents.of_cluster(cluster).unwrap_or_default()
    }

    /// Objects that could not be decoded, with the reason.
    pub fn unreadable(&self) -> Vec<(ObjectKey, String)> {
        self.0.objects.read().unreadable.iter().map(|(k, e)| (k.clone(), e.clone())).collect()
    }

    pub fn progress(&self) -> Progress {
        self.0.progress.borrow().clone()
    }

    /// The first list is complete.
    pub fn is_ready(&self) -> bool {
        self.0.progress.borrow().ready
    }

    /// See [`Progress::is_current`].
    pub fn is_current(&self) -> bool {
        self.0.progress.borrow().is_current()
    }

    /// Asks for a new list. What is here stays readable, and is not current until that list is complete.
    pub fn renew(&self) {
        self.0.progress.send_modify(|p| p.renewals.0 += 1);
        self.0.renewal.notify_one();
    }

    /// Resolves when the copy is current, or cannot be because a list or a watch failed.
    pub async fn settled(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.subscribe().wait_for(|p| p.is_current() || p.trouble.is_some()).await;
    }

    /// For waiting on readiness and echoes.
    pub fn subscribe(&self) -> watch::Receiver<Progress> {
        self.0.progress.subscribe()
    }

    /// Resolves when the first list is complete.
    pub async fn ready(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.subscribe().wait_for(|p| p.ready).await;
    }

    /// Calls `listener` after every change, in order, on the task that feeds the copy: it must be quick
    /// and must not block. Objects that are already here are reported first.
    pub fn on_change(&self, listener: impl Fn(&Change<'_, K>) + Send + Sync + 'static) {
        // Held over the reports: a change that comes meanwhile
        // waits, so that none is missed or heard twice.
        let mut listeners = self.0.listeners.lock();
        for object in self.list() {
            listener(&Change { old: None, new: Some(&object) });
        }
        listeners.push(Box::new(listener));
    }

    /// Puts one object in, as if the watch had reported it.
    pub fn upsert(&self, mut object: K) {
        managed_fields::keep(object.meta_mut());
        let key = ObjectKey::of(&object);
        let new = Arc::new(object);
        // Taken before the contents, so that changes are
        // reported in the order in which they are made.
        let listeners = self.0.listeners.lock();
        let old = {
            let mut contents = self.0.objects.write();
            // A writer may have put its answer in before the watch brings what happened earlier.
            if contents.get(&key).is_some_and(|held| is_older(new.as_ref(), held.as_ref())) {
                return;
            }
            contents.insert(key, Arc::clone(&new))
        };
        self.report(&listeners, old.as_deref(), Some(&new));
    }

    /// Takes one object out, as if the watch had reported its deletion.
    pub fn remove(&self, key: &ObjectKey) {
        let listeners = self.0.listeners.lock();
        let old = self.0.objects.write().remove(key);
        if let Some(old) = old {
            self.report(&listeners, Some(&old), None);
        }
    }

    fn report(&self, listeners: &[Listener<K>], old: Option<&K>, new: Option<&K>) {
        // A new list names every object again; those that did not change are left out.
        let same = old.zip(new).is_some_and(|(o, n)| {
            o.meta().resource_version.is_some() && o.meta().resource_version == n.meta().resource_version
        });
        if !same {
            for listener in listeners {
                listener(&Change { old, new });
            }
        }
        // After the listeners: whoever sees this progress
        // finds the keys of the change in the queues.
        self.0.progress.send_modify(|p| {
            p.changes += 1;
            p.seen = p.seen.max(new.or(old).map_or(0, version_of));
        });
    }

    /// Keeps the copy up to date with a list and a watch of all namespaces, until dropped.
    /// Never ends by itself: an error is reported in [`Progress`], and the next attempt follows with growing waits.
    pub async fn follow(self, client: kube::Client, rng: Rng)
    where
        K: kube::Resource<DynamicType = ()>,
    {
        let api: Api<Received<K>> = Api::all(refusing_short_watches(client));
        self.feed(&K::kind(&()), rng, || watcher::watcher(api.clone(), config())).await;
    }

    /// [`Self::follow`] of one namespace; of all when it is empty.
    pub async fn follow_in(self, client: kube::Client, namespace: &str, rng: Rng)
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let client = refusing_short_watches(client);
        let api: Api<Received<K>> =
            if namespace.is_empty() { Api::all(client) } else { Api::namespaced(client, namespace) };
        self.feed(&K::kind(&()), rng, || watcher::watcher(api.clone(), config())).await;
    }

    /// [`Self::follow`] of the objects that a field selector picks.
    pub async fn follow_fields(self, client: kube::Client, fields: &str, rng: Rng)
    where
        K: kube::Resource<DynamicType = ()>,
    {
        let api: Api<Received<K>> = Api::all(refusing_short_watches(client));
        self.feed(&K::kind(&()), rng, || watcher::watcher(api.clone(), config().fields(fields))).await;
    }

    /// [`Self::follow_in`] for a kind that is named at run time.
    pub async fn follow_kind(self, client: kube::Client, namespace: &str, rng: Rng, kind: &K::DynamicType)
    where
        K: kube::Resource<Scope = DynamicResourceScope>,
    {
        let client = refusing_short_watches(client);
        let api: Api<Received<K>> = if namespace.is_empty() {
            Api::all_with(client, kind)
        } else {
            Api::namespaced_with(client, namespace, kind)
        };
        self.feed(&K::kind(kind), rng, || watcher::watcher(api.clone(), config())).await;
    }

    /// Follows one watch after the other; each begins with a list.
    async fn feed<S>(self, kind: &str, rng: Rng, watch: impl Fn() -> S + Send + Sync)
    where
        S: Stream<Item = watcher::Result<Event<Received<K>>>> + Send,
    {
        let mut pace = Pace { backoff: Backoff::new(rng), has_lost: false };
        loop {
            // Read before the list begins: what is asked for from now on needs another list.
            let asked = self.0.progress.borrow().renewals.0;
            self.follow_watch(kind, asked, Box::pin(watch()), &mut pace).await;
        }
    }

    /// Until a new list is needed: one was asked for, or something was reported that cannot be read.
    async fn follow_watch<S>(&self, kind: &str, answers: u64, mut events: S, pace: &mut Pace)
    where
        S: Stream<Item = watcher::Result<Event<Received<K>>>> + Send + Unpin,
    {
        let mut relist: Option<Relist> = None;
        while let Some(event) = self.next_unless_renewed(answers, &mut events).await {
            match event {
                Ok(event) => {
                    let is_success = !is_of_a_begun_list(&event);
                    if is_success {
                        pace.note_success(&event);
                    }
                    self.apply(kind, event, answers, &mut relist);
                    // After the contents: without trouble the copy counts as current.
                    if is_success {
                        self.0.progress.send_if_modified(|p| p.trouble.take().is_some());
                    }
                }
                Err(error) => {
                    self.note_trouble(kind, trouble_text(&error));
                    pace.has_lost = is_loss(&error);
                    // Before the return, too: a new list follows it at once, and lists are dear.
                    tokio::time::sleep(pace.backoff.next().unwrap_or(BACKOFF_MAX)).await;
                    if pace.has_lost {
                        return;
                    }
                }
            }
        }
    }

    async fn next_unless_renewed<S: Stream + Unpin>(&self, answers: u64, events: &mut S) -> Option<S::Item> {
        loop {
            tokio::select! {
                biased;
                () = self.0.renewal.notified() => {
                    // A permit may be left of a renewal that the list under way answers already.
                    if self.0.progress.borrow().renewals.0 > answers {
                        return None;
                    }
                }
                event = events.next() => return event,
            }
        }
    }

    /// Said once, however often it is met.
    fn note_trouble(&self, kind: &str, trouble: String) {
        if self.0.progress.borrow().trouble.as_deref() != Some(&trouble) {
            tracing::warn!(kind, "watch: {trouble}");
            self.0.progress.send_modify(|p| p.trouble = Some(trouble));
        }
    }

    fn apply(&self, kind: &str, event: Event<Received<K>>, answers: u64, relist: &mut Option<Relist>) {
        match event {
            Event::Init => *relist = Some(Relist::default()),
            Event::InitApply(object) => {
                // The old contents stay readable until the new list is complete; what is in both is
                // updated as it comes, what vanished is removed at the end.
                if let Some(relist) = relist {
                    relist.kept.push(ObjectKey::of(&object));
                }
                self.put(kind, object);
            }
            Event::InitDone => {
                let kept = relist.take().unwrap_or_default().kept;
                self.remove_all_but(kept);
                self.0.progress.send_modify(|p| (p.ready, p.renewals.1) = (true, answers));
            }
            Event::Apply(object) => self.put(kind, object),
            Event::Delete(object) => {
                // A deletion has a version of its own, newer than the last one of the object.
                let seen = kube::Resource::meta(&object).resource_version.as_deref().map_or(0, parse_version);
                self.remove(&ObjectKey::of(&object));
                self.0.progress.send_modify(|p| p.seen = p.seen.max(seen));
            }
        }
    }

    fn put(&self, kind: &str, object: Received<K>) {
        match object.0 {
            Ok(object) => self.upsert(object),
            Err(invalid) => {
                let key = ObjectKey::new(
                    invalid.metadata.namespace.clone().unwrap_or_default(),
                    invalid.metadata.name.clone().unwrap_or_default(),
                );
                tracing::warn!(kind, %key, "does not decode: {}", invalid.error);
                // The last readable state stays: a half-understood object must not look deleted.
                self.0.objects.write().unreadable.insert(key, invalid.error);
            }
        }
    }

    fn remove_all_but(&self, mut kept: Vec<ObjectKey>) {
        kept.sort_unstable();
        // Collected first, since each removal takes the lock for itself.
        let gone: Vec<ObjectKey> = {
            let contents = self.0.objects.read();
            contents.keys().filter(|key| kept.binary_search(key).is_err()).cloned().collect()
        };
        for key in gone {
            self.remove(&key);
        }
    }
}

impl Cache<Definition> {
    /// [`Cache::follow`]; only metadata travels.
    pub async fn follow_metadata(self, client: kube::Client, rng: Rng) {
        let api = Api::<Definition>::all(refusing_short_watches(client));
        let watch = || watcher::watcher(api.clone(), config()).map_ok(received);
        self.feed("CustomResourceDefinition", rng, watch).await;
    }
}

fn config() -> watcher::Config {
    watcher::Config::default().page_size(PAGE_SIZE)
}

/// An event of objects that always decode.
fn received<K>(event: Event<K>) -> Event<Received<K>> {
    let of = Received::of;
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(of(object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(of(object)),
        Event::Delete(object) => Event::Delete(of(object)),
    }
}

/// A list in progress: what it has named so far.
#[derive(Default)]
struct Relist {
    kept: Vec<ObjectKey>,
}

fn is_older<K: Live>(new: &K, held: &K) -> bool {
    new.meta().uid == held.meta().uid && version_of(new) < version_of(held)
}

fn version_of<K: Live>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().map_or(0, parse_version)
}

/// Resource versions are numbers that can be compared (API convention since Kubernetes 1.35, true of
/// every server before it). Anything else counts as 0 and is then never waited for.
pub fn parse_version(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// Comes before a list, and while it is read. A list that is refused begins anew with each try, which proves nothing.
fn is_of_a_begun_list<K>(event: &Event<K>) -> bool {
    matches!(event, Event::Init | Event::InitApply(_))
}

/// Something was reported that cannot be read: a watch that begins again where this one ended would meet it again. kube takes
/// a JSON object that is not an event for a bare `Status`.
fn is_loss(error: &watcher::Error) -> bool {
    use kube::Error::{Api, LinesCodecMaxLineLengthExceeded, SerdeError};
    matches!(error, watcher::Error::WatchFailed(SerdeError(_) | LinesCodecMaxLineLengthExceeded | Api(_)))
}

fn trouble_text(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(e)
        | watcher::Error::WatchStartFailed(e)
        | watcher::Error::WatchFailed(e) => super::errors::chain(e),
        watcher::Error::WatchError(status) => status.message.clone(),
        watcher::Error::NoResourceVersion => "the server's lists carry no resourceVersion".to_owned(),
    }
}

/// When the next attempt is due.
struct Pace {
    backoff: Backoff,
    /// The last watch reported something that cannot be read.
    has_lost: bool,
}

impl Pace {
    /// After a loss a list proves little: the next report may be as unreadable, and lists are dear.
    fn note_success<K>(&mut self, event: &Event<K>) {
        if !self.has_lost || !matches!(event, Event::InitDone) {
            self.backoff.reset();
            self.has_lost = false;
        }
    }
}

/// Doubling waits with jitter from the program's own generator, so that simulated runs repeat.
pub struct Backoff {
    next: Duration,
    rng: Rng,
}

impl Backoff {
    pub fn new(rng: Rng) -> Self {
        Self { next: BACKOFF_MIN, rng }
    }

    /// What was waited for is there: the next waits are short again.
    pub fn reset(&mut self) {
        self.next = BACKOFF_MIN;
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let base = self.next;
        self.next = (base * 2).min(BACKOFF_MAX);
        // Without chance all watches that a server dropped would come back at the same moment.
        Some(base.mul_f64(1.0 + self.rng.unit() / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::client::in_process;
    use capi_types::machine::Machine;

    /// A proxy that closed every watch was asked without a pause, and the copy counted as current.
    #[tokio::test(start_paused = true)]
    async fn watches_that_end_at_once_are_begun_more_and_more_seldom() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            count.fetch_add(usize::from(is_watch), Ordering::Relaxed);
            let list = r#"{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineList", "metadata": {"resourceVersion": "7"}, "items": []}"#;
            let text = if is_watch { "" } else { list };
            let answer = http::Response::new(kube::client::Body::from(text.as_bytes().to_vec()));
            async move { Ok::<_, std::convert::Infallible>(answer) }
        });
        let client = in_process(service, "proxy", "default", false).client;
        let cache = Cache::<Machine>::new();
        let task = tokio::spawn(cache.clone().follow(client, Rng::seeded(1)));
        tokio::time::sleep(Duration::from_secs(600)).await;
        task.abort();
        let asked = asked.load(Ordering::Relaxed);
        assert!((15..40).contains(&asked), "{asked} watches in ten minutes");
        assert!(cache.is_ready() && !cache.is_current(), "{:?}", cache.progress());
    }

    /// A right that is missing was asked about three times a second.
    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_refused_is_asked_for_more_and_more_seldom() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            let status = r#"{"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"}"#;
            let body = kube::client::Body::from(status.as_bytes().to_vec());
            let answer = http::Response::builder().status(403).body(body).expect("an answer");
            async move { Ok::<_, std::convert::Infallible>(answer) }
        });
        let client = in_process(service, "engine", "default", false).client;
        let cache = Cache::<Machine>::new();
        let task = tokio::spawn(cache.follow(client, Rng::seeded(1)));
        tokio::time::sleep(Duration::from_secs(600)).await;
        task.abort();
        let asked = asked.load(Ordering::Relaxed);
        assert!((15..40).contains(&asked), "{asked} times in ten minutes");
    }

    /// A server whose lists have one more Machine each time, and whose watches say this and stay open. Counts the lists.
    fn growing(said: &'static str) -> (kube::Client, Arc<AtomicUsize>) {
        let lists = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&lists);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let listed = if is_watch { 0 } else { count.fetch_add(1, Ordering::Relaxed) + 1 };
            let machine = |at: usize| {
                serde_json::json!({"metadata": {"name": format!("m{at}"), "resourceVersion": "1"}, "spec": {
                    "clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}})
            };
            let items: Vec<_> = (0..listed).map(machine).collect();
            let list = serde_json::json!({"kind": "MachineList", "apiVersion": "cluster.x-k8s.io/v1beta2",
                "metadata": {"resourceVersion": "1"}, "items": items});
            let text = if is_watch { said.to_owned() } else { list.to_string() };
            let frame = futures::stream::iter([Ok::<_, std::convert::Infallible>(http_body::Frame::data(
                text.into(),
            ))]);
            let body = if is_watch { frame.chain(futures::stream::pending()).boxed() } else { frame.boxed() };
            let answer = http::Response::new(http_body_util::StreamBody::new(body));
            async move { Ok::<http::Response<_>, std::convert::Infallible>(answer) }
        });
        (in_process(service, "engine", "default", false).client, lists)
    }

    /// What a watch had reported was lost for good: it began again where it had ended, and met the same words.
    #[tokio::test(start_paused = true)]
    async fn what_a_watch_cannot_read_is_listed_again_and_not_often() {
        let (client, lists) = growing("{\"type\": 7}\n");
        let cache = Cache::<Machine>::new();
        let task = tokio::spawn(cache.clone().follow(client, Rng::seeded(1)));
        tokio::time::sleep(Duration::from_secs(600)).await;
        task.abort();
        let progress = cache.progress();
        assert!(progress.trouble.is_some() && !progress.is_current(), "{progress:?}");
        let lists = lists.load(Ordering::Relaxed);
        assert!((15..40).contains(&lists), "{lists} lists in ten minutes");
        assert_eq!(cache.list().len(), lists, "each is read");
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_that_is_to_be_new_is_listed_once_and_current_then() {
        let (client, lists) = growing("");
        let cache = Cache::<Machine>::new();
        let task = tokio::spawn(cache.clone().follow(client, Rng::seeded(1)));
        cache.settled().await;
        for wanted in 1..5 {
            assert!(cache.is_current());
            assert_eq!((lists.load(Ordering::Relaxed), cache.list().len()), (wanted, wanted));
            cache.renew();
            assert!(!cache.is_current() && cache.is_ready(), "what is there stays readable");
            cache.settled().await;
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(lists.load(Ordering::Relaxed), 5, "once for each wish");
        task.abort();
    }
}
