//! Keeps a look at the locks of one server up to date by watches of Leases, of the controller managers' pods and
//! ConfigMaps, and of the Roles that rights come from. Owns when a look is handed over: after changes, and not more
//! often than people can read.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::rights;
use crate::client::watch::Progress;
use crate::client::{Cache, Client, Object};
use capstan_base::rng::Rng;
use capstan_base::text::sanitize_line;
use capstan_base::time::Clock;
use leader_migration::flag_places::FlagPlaces;
use leader_migration::inventory::{Inventory, assume_files};
use leader_migration::lock_watch::LockWatch;
use leader_migration::look::{LockLook, MigrationScope};
use leader_migration::process::Process;
use leader_migration::validate::RightFact;

/// Between two looks: Leases are renewed every two seconds, each at a time of its own.
const REST: Duration = Duration::from_millis(250);

/// Heartbeats of Nodes are Leases too, one for each Node, and locks of nothing.
const NOT_HEARTBEATS: &str = "metadata.namespace!=kube-node-lease";

/// Looks at the locks of a server until the stream is dropped. Nothing is asked again and again: all of it is watched.
pub fn follow(
    client: Client,
    scope: MigrationScope,
    clock: Clock,
    rng: &Rng,
) -> BoxStream<'static, LockLook> {
    let (send, looks) = mpsc::channel(1);
    let follower = Follower::start(client, scope, clock, rng);
    let task = tokio::spawn(follower.run(send));
    let guard = AbortOnDrop(task);
    futures::stream::unfold((looks, guard), |(mut looks, guard)| async move {
        let look = looks.recv().await?;
        Some((look, (looks, guard)))
    })
    .boxed()
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Follower {
    client: Client,
    scope: MigrationScope,
    clock: Clock,
    leases: Cache<Lease>,
    pods: Cache<Pod>,
    maps: Cache<ConfigMap>,
    roles: Cache<Role>,
    bindings: Cache<RoleBinding>,
    /// Tasks that end with this.
    feeds: JoinSet<()>,
}

/// The controller managers that pods and files make, until those change.
#[derive(Default)]
struct Managers {
    /// Changes of pods and of ConfigMaps that are in it.
    of: Option<(u64, u64)>,
    processes: Vec<Process>,
    places: FlagPlaces,
    remarks: Vec<String>,
}

/// What is not watched here, where only pods and ConfigMaps are.
const WORKLOADS: &str = "DaemonSets and Deployments are not read for this screen: `capstan leader-migration next` prints their patches";

impl Follower {
    fn start(client: Client, scope: MigrationScope, clock: Clock, rng: &Rng) -> Self {
        let mut this = Self {
            client,
            scope,
            clock,
            leases: Cache::new(),
            pods: Cache::new(),
            maps: Cache::new(),
            roles: Cache::new(),
            bindings: Cache::new(),
            feeds: JoinSet::new(),
        };
        let (client, namespace) = (this.client.clone(), this.scope.namespace.clone());
        let leases = this.leases.clone();
        let rng_of = |name: &str| rng.stream(name);
        this.feeds.spawn(leases.follow_fields(client.clone(), NOT_HEARTBEATS, rng_of("leases")));
        feed(&mut this.feeds, &this.pods, &client, &namespace, rng_of("pods"));
        feed(&mut this.feeds, &this.maps, &client, &namespace, rng_of("config maps"));
        feed(&mut this.feeds, &this.roles, &client, &namespace, rng_of("roles"));
        feed(&mut this.feeds, &this.bindings, &client, &namespace, rng_of("role bindings"));
        this
    }

    async fn run(self, send: mpsc::Sender<LockLook>) {
        let mut news = [
            self.leases.subscribe(),
            self.pods.subscribe(),
            self.maps.subscribe(),
            self.roles.subscribe(),
            self.bindings.subscribe(),
        ];
        let (began, mut watch, mut managers) = (Instant::now(), LockWatch::default(), Managers::default());
        let (mut answers, mut asked_at): (Vec<RightFact>, Option<u64>) = (Vec::new(), None);
        loop {
            let granted = self.roles.progress().changes + self.bindings.progress().changes;
            // Each question is a request, and only Roles and their bindings change the answers.
            if asked_at != Some(granted) {
                asked_at = Some(granted);
                let MigrationScope { subjects, namespace, leader_name, .. } = &self.scope;
                answers = rights(&self.client, subjects, namespace, leader_name).await;
            }
            // A screen that waits for a list that is refused must show why.
            if self.leases.is_ready() || self.leases.progress().trouble.is_some() {
                self.gather(&mut managers);
                let look = self.look(&mut watch, &managers, began.elapsed(), answers.clone());
                if send.send(look).await.is_err() {
                    return;
                }
            }
            any_changed(&mut news).await;
            tokio::time::sleep(REST).await;
        }
    }

    fn gather(&self, managers: &mut Managers) {
        let now = Some((self.pods.progress().changes, self.maps.progress().changes));
        // Leases change every two seconds; reading all pods for each of them would be in vain.
        if managers.of == now {
            return;
        }
        let mut inventory = Inventory::default();
        let pods = values(self.pods.list().into_iter().filter(|pod| may_be_manager(pod)), "Pod");
        let seen = [pods, values(self.maps.list(), "ConfigMap")].concat();
        inventory.objects("the cluster", &seen);
        let places = FlagPlaces { unread_workloads: Some(WORKLOADS.to_owned()), ..FlagPlaces::of(&seen) };
        let (mut processes, errors) = inventory.processes();
        let mut remarks: Vec<String> = errors.iter().map(|error| sanitize_line(&error.to_string())).collect();
        for process in &mut processes {
            process.name = sanitize_line(&process.name);
            process.node = process.node.as_deref().map(sanitize_line);
            process.trouble = process.trouble.as_deref().map(sanitize_line);
        }
        remarks.extend(assume_files(&mut processes, &self.scope.leader_name, &self.scope.functions));
        *managers = Managers { of: now, processes, places, remarks };
    }

    fn look(
        &self,
        watch: &mut LockWatch,
        managers: &Managers,
        elapsed: Duration,
        rights: Vec<RightFact>,
    ) -> LockLook {
        let now = self.clock.now();
        let leases = self.leases.list();
        watch.look(leases.iter().map(AsRef::as_ref), elapsed, now);
        let mut remarks = managers.remarks.clone();
        remarks.extend(unread("pods", "controller managers are not known", &self.pods.progress()));
        remarks.extend(unread("ConfigMaps", "files are assumed", &self.maps.progress()));
        LockLook {
            at: now,
            leases: watch.leases(elapsed),
            changes: watch.changes(),
            processes: managers.processes.clone(),
            rights,
            places: managers.places.clone(),
            remarks,
            trouble: self.leases.progress().trouble.map(|why| sanitize_line(&format!("leases: {why}"))),
        }
    }
}

fn feed<K>(feeds: &mut JoinSet<()>, cache: &Cache<K>, client: &Client, namespace: &str, rng: Rng)
where
    K: Object + kube::Resource<Scope = kube::core::NamespaceResourceScope>,
{
    let (cache, client, namespace) = (cache.clone(), client.clone(), namespace.to_owned());
    feeds.spawn(async move { cache.follow_in(client, &namespace, rng).await });
}

/// What is missing from what is shown, in a line that fits. The whole answer of the server is in the log, where the cache
/// puts it.
fn unread(what: &str, means: &str, progress: &Progress) -> Option<String> {
    let why = progress.trouble.as_ref()?;
    let says = |words: &[&str]| words.iter().any(|word| why.contains(word));
    let reason = if says(&["404", "NotFound"]) {
        "are not served here"
    } else if says(&["403", "Forbidden"]) {
        "may not be listed"
    } else if says(&["401", "Unauthorized"]) {
        "need credentials that are valid"
    } else {
        "cannot be read now (see the log)"
    };
    Some(format!("{what} {reason}: {means}"))
}

/// Worth a closer look: kube-system of a large cluster has many pods of other things.
fn may_be_manager(pod: &Pod) -> bool {
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    containers.iter().any(|container| {
        let program = container.command.as_ref().and_then(|command| command.first());
        let words = [container.image.as_deref(), program.map(String::as_str)];
        words.into_iter().flatten().any(|word| word.contains("controller-manager") || word.contains("ccm"))
    })
}

/// The objects as values, with the kind that items of a list leave out.
fn values<K: Object>(objects: impl IntoIterator<Item = Arc<K>>, kind: &str) -> Vec<Value> {
    let read = objects.into_iter().filter_map(|object| serde_json::to_value(object.as_ref()).ok());
    read.map(|mut value| {
        value["kind"] = Value::from(kind);
        value
    })
    .collect()
}

async fn any_changed(news: &mut [watch::Receiver<Progress>]) {
    let each = news.iter_mut().map(|receiver| Box::pin(receiver.changed()));
    // The senders live in the caches, so that waiting cannot fail.
    let _ = futures::future::select_all(each).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_in_a_line_that_fits() {
        let answers = "ApiError: pods is forbidden: User \"x\" cannot list: Forbidden (Status { code: 403 })";
        for (trouble, expected) in [
            (None, None),
            (
                Some("404 page not found: NotFound (Status { code: 404 })"),
                Some("pods are not served here: nobody is known"),
            ),
            (Some(answers), Some("pods may not be listed: nobody is known")),
            (Some("Unauthorized"), Some("pods need credentials that are valid: nobody is known")),
            (Some("connection refused"), Some("pods cannot be read now (see the log): nobody is known")),
        ] {
            let progress = Progress { trouble: trouble.map(str::to_owned), ..Progress::default() };
            let said = unread("pods", "nobody is known", &progress);
            assert_eq!(said.as_deref(), expected, "{trouble:?}");
            assert!(said.is_none_or(|said| said.len() < 78));
        }
    }
}
