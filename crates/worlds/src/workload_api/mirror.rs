//! Keeps what the simulation makes and what the API shows of it in step, in both directions. Owns which side a
//! difference goes to; must not know what the objects mean.
//!
//! Of each object is kept what the simulation wished last, and what the API had last. What clients changed since is
//! offered to the simulation, which takes what is not its own; then what the simulation changed since is written as a
//! merge patch. What a client changed and the simulation did not take stays the client's.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::gate::Front;
use crate::provider::World;
use crate::provider::served::ShownKind;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan_base::rng::Rng;
use capstan_engine::client::read::list_values;
use capstan_engine::client::write::Part;
use capstan_engine::client::{Cache, Client, Mode, Object, Precondition, WriteError, Writer};
use capstan_engine::workload::Announcement;
use k8s_machinery::merge::{self, merge_diff};

/// Field manager of what the simulation writes.
const MANAGER: &str = "kubelet";

type Objects = BTreeMap<ObjectKey, Value>;

/// One object, as both sides had it last.
struct Known {
    wish: Value,
    seen: Value,
}

pub struct Mirror {
    world: Arc<World>,
    cluster: ObjectKey,
    writer: Writer,
    known: BTreeMap<ShownKind, BTreeMap<ObjectKey, Known>>,
    /// The uids that the server gave to DaemonSets, which pods name as their owners.
    daemon_sets: BTreeMap<ObjectKey, String>,
}

impl Mirror {
    pub fn new(world: Arc<World>, cluster: ObjectKey, client: Client) -> Self {
        let writer = Writer::new(client, MANAGER);
        Self { world, cluster, writer, known: BTreeMap::new(), daemon_sets: BTreeMap::new() }
    }

    /// Runs until it is dropped: whenever either side changed, and not while the API is down.
    pub async fn run(mut self, mut front: watch::Receiver<Front>, rng: Rng) {
        let changed = Arc::new(Notify::new());
        let mut feeds = JoinSet::new();
        let client = self.writer.client().clone();
        // Namespaces are missing here: of those the simulation takes no change.
        notice::<Node>(&mut feeds, &client, &changed, &rng);
        notice::<Pod>(&mut feeds, &client, &changed, &rng);
        notice::<ConfigMap>(&mut feeds, &client, &changed, &rng);
        notice::<DaemonSet>(&mut feeds, &client, &changed, &rng);
        notice::<Deployment>(&mut feeds, &client, &changed, &rng);
        // Before the first round, or what happens during it would be missed.
        let mut news = self.world.subscribe();
        loop {
            if front.wait_for(|front| front.up).await.is_err() {
                return;
            }
            for shown in ShownKind::ALL {
                // A kind that fails keeps none of the others from being shown.
                if let Err(error) = self.round(shown).await {
                    tracing::warn!(cluster = %self.cluster, "the simulation is not shown in the API: {error}");
                }
            }
            loop {
                tokio::select! {
                    () = changed.notified() => break,
                    heard = news.recv() => match heard {
                        Ok(Announcement::Missed) | Err(RecvError::Lagged(_)) => break,
                        Ok(Announcement::Cluster(of) | Announcement::Node { cluster: of, .. }) => {
                            if of == self.cluster { break }
                        }
                        Err(RecvError::Closed) => return,
                    },
                }
            }
        }
    }

    /// Brings one kind in step.
    async fn round(&mut self, shown: ShownKind) -> Result<(), WriteError> {
        let gvk = gvk(shown);
        let listed = list_values(self.writer.client(), &gvk, "", "").await;
        let listed = listed.map_err(|source| WriteError::Refused {
            verb: "list",
            what: gvk.plural.clone(),
            source,
        })?;
        // Items of a list do not say what they are.
        let typed = |mut object: Value| {
            object["apiVersion"] = gvk.api_version().into();
            object["kind"] = gvk.kind.clone().into();
            (key_of(&object), object)
        };
        let api: Objects = listed.into_iter().map(typed).collect();
        if shown == ShownKind::DaemonSet {
            let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            // Sets come before pods in `ALL`: the pods' owners need these uids.
            self.daemon_sets = api.iter().map(|(key, object)| (key.clone(), uid(object))).collect();
        }
        // First, so that what the simulation makes of the change is in the wishes below.
        self.offer(shown, &api);
        let made = self.world.read(&self.cluster, |sim, now| sim.objects(shown, now)).unwrap_or_default();
        let made: Objects =
            made.into_iter().map(|(key, object)| (key, own(object, &api, &self.daemon_sets))).collect();
        let known = self.known.entry(shown).or_default();
        let at = |key: &ObjectKey| ObjectRef { gvk: gvk.clone(), key: key.clone(), uid: String::new() };
        // Only what the mirror has written is deleted: the rest belongs to clients.
        let gone: Vec<ObjectKey> = known.keys().filter(|key| !made.contains_key(key)).cloned().collect();
        for key in gone {
            self.writer.delete_value(&at(&key), &Precondition::default(), Mode::Real).await?;
            known.remove(&key);
        }
        for (key, wish) in made {
            // What was seen is kept apart from the wish: a client's own fields are in the one only.
            let mut seen = match (known.get(&key), api.get(&key)) {
                (Some(known), _) => known.seen.clone(),
                (None, Some(object)) => bare(object),
                (None, None) => {
                    create(&self.writer, &at(&key), &wish).await?;
                    known.insert(key, Known { seen: wish.clone(), wish });
                    continue;
                }
            };
            // Of an object that was there before, nothing is taken away.
            let patch = match known.get(&key) {
                Some(known) => merge_diff(&known.wish, &wish),
                None => Some(wish.clone()),
            };
            if let Some(patch) = patch {
                let before = seen.clone();
                // Sent is what differs from the API, as a client may have made the same change.
                merge::apply(&mut seen, &patch);
                if let Some(patch) = merge_diff(&before, &seen) {
                    send(&self.writer, &at(&key), patch).await?;
                }
            }
            known.insert(key, Known { wish, seen });
        }
        Ok(())
    }

    /// What clients changed goes to the simulation.
    fn offer(&mut self, shown: ShownKind, api: &Objects) {
        let known = self.known.entry(shown).or_default();
        let mut deleted = Vec::new();
        for (key, known) in known.iter_mut() {
            let Some(object) = api.get(key) else {
                deleted.push(key.clone());
                continue;
            };
            let Some(patch) = merge_diff(&known.seen, &bare(object)) else { continue };
            let now = self.world.now();
            let taken = self.world.change(&self.cluster, |sim| sim.accept(shown, key, &patch, now));
            if let Err(error) = taken {
                tracing::debug!(cluster = %self.cluster, %key, "a client's change is not taken over: {error}");
            }
            // Also where the change was not taken: offered
            // again, it would be refused in each round.
            known.seen = bare(object);
        }
        for key in deleted {
            known.remove(&key);
            let now = self.world.now();
            self.world.change(&self.cluster, |sim| sim.deleted(shown, &key, now));
        }
    }
}

/// Wakes `changed` whenever an object of a kind changes.
fn notice<K: Object>(feeds: &mut JoinSet<()>, client: &Client, changed: &Arc<Notify>, rng: &Rng) {
    let (cache, changed) = (Cache::<K>::new(), Arc::clone(changed));
    cache.on_change(move |_| changed.notify_one());
    feeds.spawn(cache.follow(client.clone(), rng.stream(&K::kind(&()))));
}

/// One that a client made in between is met in the next round.
async fn create(writer: &Writer, target: &ObjectRef, wish: &Value) -> Result<(), WriteError> {
    match writer.create_value(target, wish, Mode::Real).await {
        Err(error) if !error.already_exists() => Err(error),
        _ => Ok(()),
    }
}

async fn send(writer: &Writer, target: &ObjectRef, mut patch: Value) -> Result<(), WriteError> {
    // The main resource ignores the status, and the status the rest: two writes.
    let status = patch.as_object_mut().and_then(|patch| patch.remove("status"));
    let always = Precondition::default();
    if patch.as_object().is_some_and(|patch| !patch.is_empty()) {
        writer.patch_value(target, Part::Main, &patch, &always, Mode::Real).await?;
    }
    if let Some(status) = status {
        writer.patch_value(target, Part::Status, &json!({ "status": status }), &always, Mode::Real).await?;
    }
    Ok(())
}

/// An object of the API without what the server gave it.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(field);
        }
    }
    object
}

/// An object of the simulation as it is written: the server gives it times, an owner has the uid that the server gave
/// it, and a controller has seen what the server counts.
fn own(object: Value, api: &Objects, daemon_sets: &BTreeMap<ObjectKey, String>) -> Value {
    let mut object = bare(&object);
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
        // An owner that is not there would take the object with it; one of a kind that is not served does not.
        owners.retain_mut(|owner| {
            let is_set = owner["kind"] == "DaemonSet";
            let name = owner["name"].as_str().unwrap_or_default().to_owned();
            let uid = daemon_sets.get(&ObjectKey::new(&namespace, name));
            uid.iter().filter(|_| is_set).for_each(|uid| owner["uid"] = json!(uid));
            owner["kind"] == "ReplicaSet" || (is_set && uid.is_some())
        });
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        // A server sets it, when a client asks for the deletion.
        metadata.remove("deletionTimestamp");
        metadata.remove("deletionGracePeriodSeconds");
    }
    if object["apiVersion"] == "apps/v1" {
        let generation =
            api.get(&key_of(&object)).map_or(1, |o| o["metadata"]["generation"].as_i64().unwrap_or(1));
        object["status"]["observedGeneration"] = json!(generation);
    }
    object
}

fn key_of(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::new(text("namespace"), text("name"))
}

fn gvk(shown: ShownKind) -> Gvk {
    match shown {
        ShownKind::Namespace => Gvk::of::<Namespace>(),
        ShownKind::Node => Gvk::of::<Node>(),
        ShownKind::ConfigMap => Gvk::of::<ConfigMap>(),
        ShownKind::DaemonSet => Gvk::of::<DaemonSet>(),
        ShownKind::Deployment => Gvk::of::<Deployment>(),
        ShownKind::Pod => Gvk::of::<Pod>(),
    }
}
