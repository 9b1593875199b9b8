//! Programs in Go from public modules (`tests/go`) against the real binary: client-go informers and a
//! controller-runtime manager. Built on first use; skipped, saying so, where Go is missing or cannot
//! get its modules.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};

use capstan_base::time::Clock;
use capstan_engine::client::Writer;
use capstan_engine::engine::lease::{Elector, Leadership, LeaseOptions};
use leader_migration::configuration::{ConfigVersion, Configuration};
use leader_migration::controller_names::Function;
use leader_migration::manager_kind::ManagerKind;
use leader_migration::placement::place;
use leader_migration::reading::read;
use leader_migration::release::Release;
use leader_migration::writing;
use tokio_util::sync::CancellationToken;

use crate::proxy_rules::RULES;
use crate::running::Running;
use crate::standalone::Standalone;

/// Modules that have not come by then do not come.
const MODULES_MAX: Duration = Duration::from_secs(180);
const BUILD_MAX: Duration = Duration::from_secs(900);

/// The program of `tests/go`; `None` where it cannot be had.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = PROGRAM.get_or_init(|| match build() {
        Ok(path) => Some(path),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    });
    built.as_deref()
}

fn build() -> Result<PathBuf, String> {
    let go = |args: &[&str], limit| {
        let mut command = Command::new("go");
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go"));
        command.args(args).env("GOFLAGS", "-mod=readonly -buildvcs=false");
        complaints(command, limit)
    };
    go(&["version"], MODULES_MAX).map_err(|why| format!("Go is not installed: {why}"))?;
    go(&["list", "-deps", "."], MODULES_MAX).map_err(|why| format!("Go cannot get the modules: {why}"))?;
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients");
    let built = go(&["build", "-o", &path.display().to_string(), "."], BUILD_MAX);
    built.unwrap_or_else(|why| panic!("tests/go does not build: {why}"));
    Ok(path)
}

/// Runs to its end; what it complained about when that was a bad one.
pub fn complaints(mut command: Command, limit: Duration) -> Result<(), String> {
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let mut stderr = child.stderr.take().expect("complaints");
    let (sender, complaints) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        sender.send(text)
    });
    let Ok(text) = complaints.recv_timeout(limit) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("no end within {} s", limit.as_secs()));
    };
    if child.wait().expect("an end").success() { Ok(()) } else { Err(text) }
}

fn start(program: &Path, server: &Standalone, what: &str, watch_list: bool) -> Running {
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(server.kubeconfig()).arg(what).stdin(Stdio::piped());
    command.env("KUBE_FEATURE_WatchListClient", watch_list.to_string());
    Running::start(command)
}

fn config_maps() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"))
}

fn machine_deployments() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "MachineDeployment"))
}

/// An object whose label says something.
fn noted(resource: &ApiResource, name: &str, note: &str) -> DynamicObject {
    let spec = if resource.kind == "ConfigMap" { json!({}) } else { json!({ "spec": workers() }) };
    let mut object = DynamicObject::new(name, resource).data(spec);
    object.labels_mut().insert("note".to_owned(), note.to_owned());
    object
}

fn workers() -> Value {
    json!({
        "clusterName": "blue", "replicas": 1, "selector": { "matchLabels": { "role": "web" } },
        "template": {
            "metadata": { "labels": { "role": "web" } },
            "spec": {
                "clusterName": "blue", "bootstrap": { "dataSecretName": "data" },
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t",
                },
            },
        },
    })
}

async fn note(objects: &Api<DynamicObject>, name: &str, note: &str) {
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "note": note } } }));
    objects.patch(name, &PatchParams::default(), &patch).await.expect("patched");
}

/// An informer, and the objects it follows.
struct Informer {
    running: Running,
    objects: Api<DynamicObject>,
    resource: ApiResource,
    name: String,
}

impl Informer {
    /// Sees what is there, then every change, once.
    async fn syncs_and_follows(&mut self, watch_list: bool) {
        let first = format!("{}-first", self.name);
        let asks = self.running.line().await;
        assert_eq!(asks, if watch_list { "asks watch-list" } else { "asks list" }, "{}", self.name);
        let mut seen = self.running.until("synced").await;
        if !seen.contains(&format!("add {first} old")) {
            seen.extend(self.running.until(&format!("add {first} old")).await);
        }
        note(&self.objects, &first, "new").await;
        self.tells(&format!("update {first} new")).await;
        self.objects.delete(&first, &DeleteParams::default()).await.expect("deleted");
        self.tells(&format!("delete {first} new")).await;
        let second = noted(&self.resource, &format!("{}-second", self.name), "old");
        self.objects.create(&PostParams::default(), &second).await.expect("created");
        self.tells(&format!("add {}-second old", self.name)).await;
    }

    /// Says this next about objects of its own; asks and other tests' objects are nobody's news.
    async fn tells(&mut self, wanted: &str) {
        let mut seen = self.running.until(wanted).await;
        seen.pop();
        let mine = format!(" {}-", self.name);
        seen.retain(|line| line.contains(&mine));
        assert_eq!(seen, [""; 0], "before {wanted}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s157_s158_informers_sync_follow_and_survive_a_restart() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let server = Standalone::start(folder.path(), &["--no-engine"]);
    let client = server.client().await;
    let mut informers = Vec::new();
    for (what, resource) in [("typed", config_maps()), ("dynamic", machine_deployments())] {
        let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
        for watch_list in [true, false] {
            let name = format!("{what}-{watch_list}");
            let first = noted(&resource, &format!("{name}-first"), "old");
            objects.create(&PostParams::default(), &first).await.expect("created");
            let running = start(program, &server, what, watch_list);
            let (objects, resource) = (objects.clone(), resource.clone());
            let mut informer = Informer { running, objects, resource, name };
            informer.syncs_and_follows(watch_list).await;
            informers.push(informer);
        }
    }
    let address = server.address.clone();
    server.kill();
    let server = Standalone::start_at(&address, folder.path(), &["--no-engine"]);
    for informer in &mut informers {
        let name = format!("{}-second", informer.name);
        note(&informer.objects, &name, "after").await;
        informer.tells(&format!("update {name} after")).await;
    }
    for informer in informers {
        assert!(informer.running.end().success(), "{}", informer.name);
    }
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s159_a_manager_leads_and_reconciles() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let server = Standalone::start(folder.path(), &["--no-engine"]);
    let client = server.client().await;
    let mut manager = start(program, &server, "manager", true);
    manager.until("leader").await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let lease = leases.get("capstan-clients").await.expect("a lease").spec.expect("a spec");
    assert!(lease.holder_identity.is_some_and(|holder| !holder.is_empty()));

    let resource = machine_deployments();
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    objects.create(&PostParams::default(), &noted(&resource, "web", "one")).await.expect("created");
    manager.until("reconciled web one created").await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map = maps.get("web").await.expect("a map");
    assert_eq!(map.owner_references().len(), 1);
    assert_eq!(map.data.expect("data")["note"], "one");
    let object = objects.get("web").await.expect("an object");
    assert_eq!(object.finalizers(), ["clients.example.io/seen"]);
    assert_eq!(object.data["status"]["observedGeneration"], json!(object.metadata.generation));
    note(&objects, "web", "two").await;
    manager.until("reconciled web two updated").await;
    maps.delete("web", &DeleteParams::default()).await.expect("deleted");
    manager.until("reconciled web two created").await;
    let uid = maps.get("web").await.expect("a map").metadata.uid.unwrap_or_default();

    let mut second = start(program, &server, "manager", false);
    second.until("started").await;
    assert!(manager.end().success());
    let seen = second.until("leader").await;
    assert_eq!(seen, ["leader"], "nothing is reconciled without leading");
    second.until("reconciled web two unchanged").await;
    objects.delete("web", &DeleteParams::default()).await.expect("deleted");
    second.until("deleting web").await;
    second.until("gone web").await;
    let gone = await_condition(maps, "web", conditions::is_deleted(&uid));
    tokio::time::timeout(MODULES_MAX, gone).await.expect("in time").expect("gone with its owner");

    let events: Api<Event> = Api::namespaced(client, "default");
    let events = events.list(&ListParams::default()).await.expect("events").items;
    assert!(events.iter().any(|event| event.reason.as_deref() == Some("Seen")), "{events:?}");
    assert!(second.end().success());
}

/// Our elector on the Lease that client-go's competes for.
struct OwnElector {
    leadership: Leadership,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

/// A client whose answers are late by so many milliseconds: what was asked for has happened meanwhile.
fn slow(client: &kube::Client, late_ms: &Arc<AtomicU64>) -> kube::Client {
    let (client, late_ms) = (client.clone(), Arc::clone(late_ms));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, late) = (client.clone(), Duration::from_millis(late_ms.load(Ordering::Relaxed)));
        async move {
            let answer = client.send(request).await;
            tokio::time::sleep(late).await;
            answer
        }
    });
    capstan_engine::client::in_process(service, "slow", "default", false).client
}

impl OwnElector {
    fn start(client: &kube::Client) -> Self {
        let options = LeaseOptions {
            duration: Duration::from_secs(4),
            renew_deadline: Duration::from_secs(2),
            retry: Duration::from_millis(300),
            stop_grace: Duration::from_secs(1),
            ..LeaseOptions::new("default", "contended", "ours")
        };
        options.check().expect("safe times");
        let writer = Writer::new(client.clone(), "test");
        let (elector, leadership) = Elector::new(options, writer, Clock::system());
        let stop = CancellationToken::new();
        Self { leadership, task: tokio::spawn(elector.run(stop.clone())), stop }
    }

    async fn until_it_leads(&mut self) {
        while !self.leadership.leads() {
            tokio::time::timeout(MODULES_MAX, self.leadership.changed()).await.expect("in time");
        }
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.expect("it ends");
    }
}

/// The Lease goes to and fro between client-go's elector and ours: after a kill, after a polite end of either, and
/// never to both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_go_and_our_elector_hand_a_lease_to_each_other() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let server = Standalone::start(folder.path(), &["--no-engine"]);
    let client = server.client().await;
    let compete = |identity: &str| {
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(server.kubeconfig()).arg("elector").stdin(Stdio::piped());
        Running::start({
            command.env("CLIENTS_IDENTITY", identity);
            command
        })
    };
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let held = async || {
        let spec = leases.get("contended").await.expect("a lease").spec.expect("a record");
        (spec.holder_identity.unwrap_or_default(), spec.lease_transitions.unwrap_or_default())
    };

    let mut first = compete("go-1");
    first.until("leading").await;
    let mut ours = OwnElector::start(&client);
    let mut second = compete("go-2");
    second.until("sees go-1").await;
    assert!(!ours.leadership.leads());
    second.end();
    // Killed: nothing is given back.
    drop(first);
    ours.until_it_leads().await;
    assert_eq!(held().await, ("ours".to_owned(), 1));

    let mut third = compete("go-3");
    third.until("sees ours").await;
    assert!(ours.leadership.leads());
    ours.end().await;
    third.until("leading").await;
    assert_eq!(held().await, ("go-3".to_owned(), 2));

    let mut again = OwnElector::start(&client);
    assert!(third.end().success());
    again.until_it_leads().await;
    assert_eq!(held().await, ("ours".to_owned(), 3));
    again.end().await;
    assert_eq!(held().await, (String::new(), 3));
}

/// A leader that hangs does not lead any more when it goes on, and answers that come late never let two lead: whoever of
/// both loses the Lease that way waits until the other one has given it back. On a busy machine either may lose its Lease
/// for want of a processor, which is no fault of theirs: so it runs when it is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hangs_and_slow_answers_never_let_client_go_and_our_elector_lead_both() {
    if std::env::var_os("CAPSTAN_CONTENTION").is_none() {
        println!("skipped: CAPSTAN_CONTENTION=1 runs it, on a machine that is quiet");
        return;
    }
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let server = Standalone::start(folder.path(), &["--no-engine"]);
    let client = server.client().await;
    let late_ms = Arc::new(AtomicU64::new(0));
    let compete = |identity: &str| {
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(server.kubeconfig()).arg("elector").stdin(Stdio::piped());
        command.env("CLIENTS_IDENTITY", identity);
        Running::start(command)
    };
    let mut go = compete("go");
    go.until("leading").await;
    let mut ours = OwnElector::start(&slow(&client, &late_ms));

    // client-go's process hangs for longer than its Lease is good.
    go.hang(true);
    ours.until_it_leads().await;
    go.hang(false);
    go.until("stopped").await;
    assert!(ours.leadership.leads(), "one that went on took it back");
    let said: Vec<String> = std::iter::from_fn(|| go.said()).collect();
    assert!(!said.contains(&"leading".to_owned()), "{said:?}");
    // An elector of client-go ends when it has lost.
    drop(go);

    // Our answers come later than a renewal may take, and every renewal is stored nevertheless.
    let mut go = compete("go-again");
    go.until("sees ours").await;
    late_ms.store(2_500, Ordering::Relaxed);
    while ours.leadership.leads() {
        tokio::time::timeout(MODULES_MAX, ours.leadership.changed()).await.expect("in time");
    }
    ours.stop.cancel();
    go.until("leading").await;
    assert!(!ours.leadership.leads(), "both lead");
    ours.end().await;

    // It waits as long as the other one lives, and hears nothing of its own late answers.
    let mut ours = OwnElector::start(&slow(&client, &late_ms));
    late_ms.store(0, Ordering::Relaxed);
    assert!(go.end().success());
    ours.until_it_leads().await;
    ours.end().await;
}

/// What a file says to a component, in the words of `classify`.
fn classified(program: &Path, text: &str, component: &str, names: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("leader-migration.yaml");
    std::fs::write(&file, text).expect("written");
    let mut command = Command::new(program);
    command.arg("classify").env("CLIENTS_FILE", &file).env("CLIENTS_COMPONENT", component);
    let output = command.env("CLIENTS_CONTROLLERS", names.join(",")).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.lines().map(str::to_owned).collect()
}

/// Upstream's own code reads every file that we write, and places every controller where we do. What we refuse as its
/// newest reader does, it refuses.
#[test]
fn upstream_reads_our_files_and_places_controllers_as_we_do() {
    let Some(program) = program() else { return };
    let functions = [Function::Routes, Function::LoadBalancers, Function::NodeIpam];
    let mut compared = 0;
    for release in [21, 23, 27, 28, 34].map(Release) {
        let names: Vec<&str> =
            Function::ALL.into_iter().flat_map(|f| [f.name_in(release), f.alias()]).collect();
        for owner in ["*", "kube-controller-manager", "cloud-controller-manager"] {
            let (made, version) =
                writing::generate("move", &functions, owner, release).expect("leader migration");
            for (configuration, text) in [
                (made.clone(), writing::write(&made, version)),
                (
                    Configuration::built_in(release),
                    writing::write(&Configuration::built_in(release), version),
                ),
            ] {
                for component in ManagerKind::ALL.map(ManagerKind::name) {
                    let said = classified(program, &text, component, &names);
                    let ours = names
                        .iter()
                        .map(|name| format!("{name} {}", place(name, component, &configuration).word()));
                    let lock = format!("lock {}", configuration.leader_name);
                    let expected: Vec<String> = std::iter::once(lock).chain(ours).collect();
                    assert_eq!(said, expected, "{component} {release}\n{text}");
                    compared += names.len();
                }
            }
        }
    }
    println!("{compared} placements compared");
    let good = writing::write(&Configuration::built_in(Release(27)), ConfigVersion::V1);
    for wrong in [
        good.replace("\"*\"", "*"),
        good.replace("leaderName: cloud-provider-extraction-migration\n", ""),
        good.replace("leaderName", "leader"),
        format!("{good}resourceLock: leases\n"),
        format!("{good}leaderName: twice\n"),
        good.replace("/v1\n", "/v2\n"),
        good.replace("/v1\n", "/v1beta1\n"),
        good.replace("LeaderMigrationConfiguration", "Configuration"),
        good.replace("component: \"*\"", "component: \"\""),
    ] {
        let said = classified(program, &wrong, "kube-controller-manager", &["route"]);
        assert!(said[0].starts_with("refused: "), "upstream takes\n{wrong}\n{said:?}");
        assert!(read(&wrong).ends(Release(36)), "we take\n{wrong}");
    }
}

/// Go's own rules, which kubectl follows, name the proxies that we take.
#[test]
fn proxies_of_the_environment_are_those_of_go() {
    let Some(program) = program() else { return };
    let rules: Vec<Value> = RULES
        .iter()
        .map(|(variables, server, _)| {
            let variables: serde_json::Map<String, Value> =
                variables.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
            json!({ "Variables": variables, "Server": server })
        })
        .collect();
    let mut command = Command::new(program);
    command.arg("proxies").env("PROXY_RULES", Value::from(rules).to_string());
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("text");
    let said: Vec<&str> = said.lines().map(|line| if line == "-" { "" } else { line }).collect();
    assert_eq!(said.len(), RULES.len());
    for ((variables, server, expected), said) in RULES.iter().zip(said) {
        assert_eq!(said, *expected, "{variables:?} {server}");
    }
}
