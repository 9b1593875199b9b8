//! Pods of the DaemonSets that clients keep in a simulated cluster: one on each Node that fits, made, replaced and taken
//! away as its controller would, and reported as a kubelet would. Owns which pods there are; must not know what their
//! programs do.
//!
//! Source: kubernetes `pkg/controller/daemon/{daemon_controller,update}.go`, v1.35. Not here: affinity of nodes, surge,
//! readiness (a pod is ready when its program runs).

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::TimeDelta;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinSet;

use super::daemon_fit::fits;
use crate::provider::World;
use crate::provider::served::ShownKind;
use capi_types::key::{ObjectKey, ObjectRef};
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp, from_k8s, rfc3339};
use capstan_engine::client::write::{Part, gvk_of};
use capstan_engine::client::{Cache, Client, Mode, Object, Precondition, WriteError, Writer};
use capstan_engine::workload::Announcement;

const MANAGER: &str = "kube-controller-manager";
const HASH: &str = "controller-revision-hash";
const NAME_LENGTH: usize = 5;
const HASH_LENGTH: usize = 10;
/// When a pod that is not ready is looked at again, although news of it are awaited.
const UNREADY_LOOK: TimeDelta = TimeDelta::seconds(5);

/// The DaemonSets of one cluster.
pub struct DaemonSets {
    world: Arc<World>,
    cluster: ObjectKey,
    writer: Writer,
    clock: Clock,
    rng: Rng,
    sets: Cache<DaemonSet>,
    pods: Cache<Pod>,
    nodes: Cache<Node>,
}

/// One DaemonSet as it is now.
struct Round<'r> {
    set: &'r DaemonSet,
    key: ObjectKey,
    hash: String,
    /// Its pods, by node.
    pods: BTreeMap<String, Arc<Pod>>,
    /// Nodes that want one.
    wanted: Vec<String>,
    now: Timestamp,
}

impl DaemonSets {
    pub fn new(world: Arc<World>, cluster: ObjectKey, client: Client, clock: Clock, rng: Rng) -> Self {
        let writer = Writer::new(client, MANAGER);
        let (sets, pods, nodes) = (Cache::new(), Cache::new(), Cache::new());
        Self { world, cluster, writer, clock, rng, sets, pods, nodes }
    }

    /// Runs until it is dropped.
    pub async fn run(self) {
        let changed = Arc::new(Notify::new());
        let mut feeds = JoinSet::new();
        let client = self.writer.client().clone();
        feed(&mut feeds, &self.sets, &client, &changed, self.rng.stream("daemon sets"));
        feed(&mut feeds, &self.pods, &client, &changed, self.rng.stream("pods"));
        feed(&mut feeds, &self.nodes, &client, &changed, self.rng.stream("nodes"));
        // Before the first look, or what happens between the two would be missed.
        let mut news = self.world.subscribe();
        loop {
            let mut look_again = None;
            // Half a view would make pods that are there already, or delete those of unseen nodes.
            if self.sets.is_ready() && self.pods.is_ready() && self.nodes.is_ready() {
                look_again = self.settle().await.unwrap_or_else(|error| {
                    tracing::debug!(cluster = %self.cluster, "a DaemonSet is not brought in line: {error}");
                    Some(TimeDelta::seconds(1))
                });
            }
            let wait = look_again.and_then(|wait| wait.to_std().ok());
            tokio::select! {
                () = changed.notified() => {}
                () = of_cluster(&mut news, &self.cluster) => {}
                () = async { match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                } } => {}
            }
        }
    }

    /// Brings every DaemonSet in line; when to look again although nothing happened.
    async fn settle(&self) -> Result<Option<TimeDelta>, WriteError> {
        let simulated = self.world.read(&self.cluster, |sim, now| sim.objects(ShownKind::DaemonSet, now));
        let simulated: Vec<ObjectKey> =
            simulated.unwrap_or_default().into_iter().map(|(key, _)| key).collect();
        let mut again = None;
        for set in self.sets.list() {
            let key = ObjectKey::of(set.as_ref());
            // The simulation makes the pods of its own
            // sets; those of a set that goes are collected.
            if simulated.contains(&key) || set.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let wait = self.bring_in_line(&self.round(&set, key)).await?;
            // The soonest of all sets; an earlier look than the others need costs little.
            again = again.into_iter().chain(wait).min();
        }
        Ok(again)
    }

    fn round<'r>(&self, set: &'r DaemonSet, key: ObjectKey) -> Round<'r> {
        let uid = set.metadata.uid.as_deref();
        // By uid: a set that was made anew under its name has none of the old pods.
        let is_own =
            |pod: &Pod| pod.metadata.owner_references.iter().flatten().any(|o| Some(o.uid.as_str()) == uid);
        let pods = self.pods.in_namespace(&key.namespace).into_iter().filter(|pod| is_own(pod));
        let pods = pods.filter_map(|pod| Some((pod.spec.as_ref()?.node_name.clone()?, pod)));
        let template = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let nodes = self.nodes.list();
        let wanted = nodes.iter().filter(|node| fits(node, template));
        Round {
            set,
            key,
            hash: hash_of(set),
            pods: pods.collect(),
            wanted: wanted.filter_map(|node| node.metadata.name.clone()).collect(),
            now: self.clock.now(),
        }
    }

    async fn bring_in_line(&self, round: &Round<'_>) -> Result<Option<TimeDelta>, WriteError> {
        for node in round.wanted.iter().filter(|node| !round.pods.contains_key(*node)) {
            self.create(round, node).await?;
        }
        for (node, pod) in &round.pods {
            if round.wanted.contains(node) {
                // Every round, since a failure may begin or end without a change of the pod.
                self.report(pod, round.now).await?;
            } else {
                self.delete(pod).await?;
            }
        }
        let outdated = round.outdated();
        // The next pod goes only when all the others are available.
        let wait = round.rest(outdated);
        if let (Some(pod), None, true) = (outdated, wait, round.rolls()) {
            self.delete(pod).await?;
        }
        self.show(round).await?;
        Ok(wait)
    }

    async fn create(&self, round: &Round<'_>, node: &str) -> Result<(), WriteError> {
        let pod = round.pod(node);
        match self.writer.create_value(&target(&pod), &pod, Mode::Real).await {
            // The cache may be behind by the pod of the round before.
            Err(error) if !error.already_exists() => Err(error),
            _ => Ok(()),
        }
    }

    async fn delete(&self, pod: &Pod) -> Result<(), WriteError> {
        // By uid, as the next pod of the node may have the same name.
        let same = Precondition { uid: pod.metadata.uid.clone(), resource_version: None };
        match self.writer.delete::<Pod>(&ObjectKey::of(pod), &same, Mode::Real).await {
            // Another one has its name by now.
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    /// What the kubelet of its node says of a pod.
    async fn report(&self, pod: &Pod, now: Timestamp) -> Result<(), WriteError> {
        let key = ObjectKey::of(pod);
        let failure = self.world.read(&self.cluster, |sim, _| sim.failure(&key).map(str::to_owned)).flatten();
        let status = pod_status(pod, failure.as_deref(), now);
        // A write would wake this loop again.
        if pod.status == status {
            return Ok(());
        }
        self.patch_status::<Pod>(&key, &json!({ "status": status })).await
    }

    async fn show(&self, round: &Round<'_>) -> Result<(), WriteError> {
        let status = round.status();
        if round.set.status == status {
            return Ok(());
        }
        self.patch_status::<DaemonSet>(&round.key, &json!({ "status": status })).await
    }

    /// One that is gone by now needs no status.
    async fn patch_status<K: Object>(&self, key: &ObjectKey, patch: &Value) -> Result<(), WriteError> {
        match self.writer.patch_part::<K>(key, Part::Status, patch, Mode::Real).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

impl Round<'_> {
    fn min_ready(&self) -> TimeDelta {
        let seconds = self.set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        TimeDelta::seconds(seconds.into())
    }

    fn is_new(&self, pod: &Pod) -> bool {
        let labels = pod.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(HASH)).is_some_and(|hash| *hash == self.hash)
    }

    /// How long until a pod counts as available. `None`: it does.
    fn until_available(&self, pod: &Pod) -> Option<TimeDelta> {
        // A pod that is not ready has no moment at which it will be; its news wake the loop.
        let wait = ready_since(pod).map_or(UNREADY_LOOK, |since| self.min_ready() - (self.now - since));
        (wait > TimeDelta::zero()).then_some(wait)
    }

    /// The pod that is to be replaced next: one that is not available costs nothing.
    fn outdated(&self) -> Option<&Pod> {
        let old = self.pods.values().map(AsRef::as_ref).filter(|pod| !self.is_new(pod));
        // `false` sorts first, which is a pod that is not available.
        old.min_by_key(|pod| self.until_available(pod).is_none())
    }

    /// How long until another pod may be replaced. `None`: now.
    fn rest(&self, next: Option<&Pod>) -> Option<TimeDelta> {
        let others = self
            .pods
            .values()
            .map(AsRef::as_ref)
            // The pod to be replaced may itself be the one that is missing.
            .filter(|pod| next.is_none_or(|next| !std::ptr::eq(*pod, next)));
        let waits = others.filter_map(|pod| self.until_available(pod));
        // A pod that is not made yet is unavailable too.
        let missing = self.wanted.iter().any(|node| !self.pods.contains_key(node)).then_some(UNREADY_LOOK);
        waits.chain(missing).max()
    }

    fn rolls(&self) -> bool {
        let strategy = self.set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        // An unset strategy rolls, as the server's default does.
        strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete")
    }

    /// A pod for a node. Its name follows from what it is made from, so that it is not made twice.
    fn pod(&self, node: &str) -> Value {
        let template = self.set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
        let uid = self.set.metadata.uid.clone().unwrap_or_default();
        let mut pod = serde_json::to_value(template).unwrap_or_default();
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(format!(
            "{}-{}",
            self.key.name,
            digest(&format!("{uid} {node} {}", self.hash), NAME_LENGTH)
        ));
        pod["metadata"]["namespace"] = json!(self.key.namespace);
        // By this label a pod of an older template is told from a new one.
        pod["metadata"]["labels"][HASH] = json!(self.hash);
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "DaemonSet", "name": self.key.name, "uid": uid, "controller": true,
            "blockOwnerDeletion": true,
        }]);
        // Bound at once: there is no scheduler in a simulated cluster.
        pod["spec"]["nodeName"] = json!(node);
        pod
    }

    fn status(&self) -> Option<DaemonSetStatus> {
        let count = |is: &dyn Fn(&Pod) -> bool| {
            let on_wanted = self.pods.iter().filter(|(node, _)| self.wanted.contains(node));
            i32::try_from(on_wanted.filter(|(_, pod)| is(pod)).count()).unwrap_or(i32::MAX)
        };
        let (desired, current) = (i32::try_from(self.wanted.len()).unwrap_or(i32::MAX), count(&|_| true));
        let available = count(&|pod| self.until_available(pod).is_none());
        Some(DaemonSetStatus {
            desired_number_scheduled: desired,
            current_number_scheduled: current,
            number_misscheduled: i32::try_from(self.pods.len()).unwrap_or(i32::MAX) - current,
            number_ready: count(&|pod| ready_since(pod).is_some()),
            number_available: Some(available),
            number_unavailable: Some(desired - available).filter(|missing| *missing > 0),
            updated_number_scheduled: Some(count(&|pod| self.is_new(pod))),
            observed_generation: self.set.metadata.generation,
            ..DaemonSetStatus::default()
        })
    }
}

/// Of what pods are made from.
fn hash_of(set: &DaemonSet) -> String {
    let template = set.spec.as_ref().map(|spec| serde_json::to_string(&spec.template).unwrap_or_default());
    digest(&template.unwrap_or_default(), HASH_LENGTH)
}

fn digest(text: &str, length: usize) -> String {
    let hex = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    hex.chars().take(length).collect()
}

fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready =
        conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    ready.last_transition_time.as_ref().map(from_k8s)
}

/// A pod whose program runs is ready at once; one whose program ends is started again and again.
fn pod_status(pod: &Pod, failure: Option<&str>, now: Timestamp) -> Option<PodStatus> {
    let before = serde_json::to_value(&pod.status).unwrap_or_default();
    let started = before["startTime"].as_str().map_or_else(|| rfc3339(now), str::to_owned);
    let ready = if failure.is_none() { "True" } else { "False" };
    let condition = &before["conditions"][0];
    // Kept while the status is the same, or `minReadySeconds` would never be over.
    let turned = condition["lastTransitionTime"].as_str().filter(|_| condition["status"] == ready);
    let turned = turned.map_or_else(|| rfc3339(now), str::to_owned);
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let containers: Vec<Value> = containers
        .iter()
        .map(|container| {
            let mut shown = json!({
                "name": container.name, "image": container.image.clone().unwrap_or_default(), "imageID": "",
                "ready": failure.is_none(), "started": failure.is_none(), "restartCount": 0,
                "state": { "running": { "startedAt": started } },
            });
            if let Some(why) = failure {
                let message = "back-off restarting failed container";
                shown["state"] = json!({ "waiting": { "reason": "CrashLoopBackOff", "message": message } });
                shown["lastState"] =
                    json!({ "terminated": { "exitCode": 1, "reason": "Error", "message": why } });
            }
            shown
        })
        .collect();
    let status = json!({
        "phase": "Running",
        "startTime": started,
        "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": turned }],
        "containerStatuses": containers,
    });
    serde_json::from_value(status).ok()
}

fn target(object: &Value) -> ObjectRef {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectRef {
        gvk: gvk_of::<Pod>(),
        key: ObjectKey::new(text("namespace"), text("name")),
        uid: String::new(),
    }
}

fn feed<K: Object>(
    feeds: &mut JoinSet<()>,
    cache: &Cache<K>,
    client: &Client,
    changed: &Arc<Notify>,
    rng: Rng,
) {
    let changed = Arc::clone(changed);
    // A single permit is kept, however many changes come while the loop is busy.
    cache.on_change(move |_| changed.notify_one());
    feeds.spawn(cache.clone().follow(client.clone(), rng));
}

/// Waits for news of the simulation about this cluster: why a program ended is told there.
async fn of_cluster(news: &mut broadcast::Receiver<Announcement>, cluster: &ObjectKey) {
    loop {
        match news.recv().await {
            Ok(Announcement::Cluster(of)) if of == *cluster => return,
            Ok(Announcement::Missed) | Err(RecvError::Lagged(_)) => return,
            Ok(_) => {}
            // The other branches of the select go on; an end here would spin them.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}
