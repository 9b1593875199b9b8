//! kill -9 of the whole server at random moments, while it serves and while it starts, under writers that use every
//! verb, with a watch that goes on over all of it: what was acknowledged is there, nothing is torn, what was deleted
//! stays deleted, versions only grow, and the watch has each change once. What had no answer may be there or not.

mod model;
mod rollouts;
mod writers;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use self::model::{Event, Subject};
use self::writers::Writers;
use super::{Bounds, PATIENCE, Target, in_time};

/// Kills in the suite.
const KILLS: u64 = 5;
/// Longest time between the first acknowledged write of a life and its end.
const LIFE_MAX_US: u64 = 800_000;
/// One start of so many is killed before it is through.
const STARTS_KILLED_ONE_IN: u64 = 3;

/// What the watch has said, over all lives of the server.
#[derive(Default)]
struct Watched {
    events: Vec<Event>,
    /// The version of the newest event, or of the list that began anew.
    last: u64,
    /// How often it was told that its version is too old.
    gone: u64,
}

#[derive(Clone, Default)]
struct Watcher {
    told: Arc<Mutex<Watched>>,
    news: Arc<Notify>,
}

impl Watcher {
    fn told(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.told.lock().expect("no panic while held")
    }

    /// Watches until the connection breaks.
    fn watch(&self, client: Client) -> JoinHandle<()> {
        let watcher = self.clone();
        tokio::spawn(async move {
            let maps: Api<ConfigMap> = Api::namespaced(client, "default");
            while watcher.follow(&maps).await {}
        })
    }

    /// One watch; whether another can follow.
    async fn follow(&self, maps: &Api<ConfigMap>) -> bool {
        let last = self.told().last.to_string();
        let mut stream = match maps.watch(&WatchParams::default(), &last).await {
            Ok(stream) => stream.boxed(),
            Err(kube::Error::Api(status)) if status.code == 410 => return self.begin_anew(maps).await,
            Err(_) => return false,
        };
        while let Some(event) = stream.next().await {
            match event {
                Ok(WatchEvent::Added(map)) => self.note("ADDED", &map),
                Ok(WatchEvent::Modified(map)) => self.note("MODIFIED", &map),
                Ok(WatchEvent::Deleted(map)) => self.note("DELETED", &map),
                Ok(WatchEvent::Bookmark(_)) => {}
                Ok(WatchEvent::Error(status)) if status.code == 410 => return self.begin_anew(maps).await,
                Ok(WatchEvent::Error(status)) => panic!("the watch failed: {status:?}"),
                Err(_) => return false,
            }
        }
        true
    }

    async fn begin_anew(&self, maps: &Api<ConfigMap>) -> bool {
        let Ok(list) = maps.list(&ListParams::default()).await else { return false };
        let mut told = self.told();
        told.last = list.metadata.resource_version.expect("a version").parse().expect("a number");
        told.gone += 1;
        self.news.notify_one();
        true
    }

    fn note(&self, kind: &str, map: &ConfigMap) {
        let name = map.metadata.name.clone().expect("a name");
        let revision = map.metadata.resource_version.as_ref().expect("a version").parse().expect("a number");
        let mut told = self.told();
        assert!(revision > told.last, "twice or backwards: {kind} {name} at {revision} after {}", told.last);
        told.last = revision;
        let number = map.data.as_ref().and_then(|data| data.get("turn")?.parse().ok());
        if let Some(number) = number {
            told.events.push(Event { kind: kind.to_owned(), name, number, revision });
        }
        self.news.notify_one();
    }
}

/// What a run has seen.
#[derive(Debug, Default)]
struct Figures {
    kills: u64,
    kills_while_starting: u64,
    acknowledged: u64,
    unanswered: u64,
    unanswered_but_made: u64,
    objects_checked: u64,
    events: u64,
    told_410: u64,
    start_max: Duration,
}

struct Attack {
    bounds: Bounds,
    target: Target,
    writers: Writers,
    watcher: Watcher,
    /// The version of the last list.
    revision: u64,
    start_last: Duration,
    figures: Figures,
}

impl Attack {
    async fn begin() -> Self {
        let bounds = Bounds::of(KILLS);
        let mut target = Target::new(&["--no-engine"]);
        let start_last = target.start();
        let writers = Writers::new(&bounds.rng);
        let (watcher, figures) = (Watcher::default(), Figures::default());
        let mut attack = Self { bounds, target, writers, watcher, revision: 0, start_last, figures };
        (attack.revision, _) = attack.list().await;
        attack.watcher.told().last = attack.revision;
        attack
    }

    /// Its version, and the objects by name.
    async fn list(&self) -> (u64, BTreeMap<String, Value>) {
        let request = http::Request::get("/api/v1/namespaces/default/configmaps").body(Vec::new());
        let client = self.target.client().await;
        let list: Value =
            in_time("a list", client.request(request.expect("a request"))).await.expect("a list");
        let items = list["items"].as_array().expect("items").iter();
        let named =
            items.map(|item| (item["metadata"]["name"].as_str().expect("a name").to_owned(), item.clone()));
        (model::revision_of(&list).expect("a version"), named.collect())
    }

    /// One life: writers write until the server is killed.
    async fn live_and_die(&mut self) {
        let watch = self.watcher.watch(self.target.client().await);
        let writing = self.writers.start(&self.target.client().await);
        in_time("the first acknowledged write", self.writers.first_answer()).await;
        let life = Duration::from_micros(self.bounds.rng.below(LIFE_MAX_US));
        // Whichever comes first: nothing ends before the kill but a writer that failed.
        let ended_early = tokio::time::timeout(life, self.writers.failed()).await.is_ok();
        assert!(!ended_early, "a writer stopped before the kill: {}", self.target.complaints());
        self.target.kill();
        self.figures.kills += 1;
        self.figures.acknowledged += in_time("the writers' end", self.writers.join(writing)).await;
        in_time("the watch's end", watch).await.expect("a watch that breaks off");
    }

    /// Starts again, perhaps after starts that are killed.
    fn come_back(&mut self) {
        while self.bounds.rng.below(STARTS_KILLED_ONE_IN) == 0 {
            let longest = u64::try_from(self.start_last.as_micros()).expect("short");
            let served = self.target.start_and_kill(Duration::from_micros(self.bounds.rng.below(longest)));
            self.figures.kills += 1;
            self.figures.kills_while_starting += u64::from(!served);
        }
        self.start_last = self.target.start();
        self.figures.start_max = self.figures.start_max.max(self.start_last);
    }

    /// Compares everything with the model.
    async fn check(&mut self) {
        let (revision, mut found) = self.list().await;
        let newest = self.writers.subjects.iter().map(|subject| subject.revision).max().unwrap_or(0);
        assert!(revision >= newest.max(self.revision), "version {revision} after {newest}");
        self.revision = revision;
        for subject in &mut self.writers.subjects {
            let settled = subject.settle(found.remove(&subject.name).as_ref());
            self.figures.unanswered += u64::from(settled.is_some());
            self.figures.unanswered_but_made += u64::from(settled == Some(true));
            self.figures.objects_checked += 1;
        }
        found.remove("kube-root-ca.crt");
        assert!(found.is_empty(), "objects that no writer made: {:?}", found.keys());
        let watch = self.watcher.watch(self.target.client().await);
        self.compare_watch().await;
        watch.abort();
        let _ = watch.await;
    }

    /// Waits for every event that is to come, and compares.
    async fn compare_watch(&mut self) {
        let gone_before = self.watcher.told().gone;
        let expected: usize = self.writers.subjects.iter().map(Subject::unseen).sum();
        let all = async {
            while self.watcher.told().events.len() < expected && self.watcher.told().gone == gone_before {
                self.watcher.news.notified().await;
            }
        };
        in_time(&format!("{expected} events"), all).await;
        let (events, gone) = {
            let mut told = self.watcher.told();
            (std::mem::take(&mut told.events), told.gone)
        };
        self.figures.events += events.len() as u64;
        self.figures.told_410 = gone;
        for subject in &mut self.writers.subjects {
            if gone > gone_before {
                subject.forget_unseen();
                continue;
            }
            let about: Vec<&Event> = events.iter().filter(|event| event.name == subject.name).collect();
            subject.compare(&about);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_the_whole_server_lose_nothing_that_was_acknowledged() {
    let mut attack = Attack::begin().await;
    while attack.bounds.goes_on() {
        attack.live_and_die().await;
        attack.come_back();
        attack.check().await;
    }
    attack.target.assert_calm();
    println!(
        "lost 0, torn 0, resurrected 0, versions back 0, watch twice 0, watch gaps 0: {:#?}",
        attack.figures
    );
}
