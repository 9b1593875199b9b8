//! Extensions over HTTPS: registered with a real engine, well-behaved and not; called; and a simulated host that
//! really changes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use capi_types::condition::{Conditioned as _, find};
use capi_types::dev::DevMachine;
use capi_types::extension_config::{ClientConfig, ExtensionConfig, ExtensionConfigSpec};
use capi_types::hook::{
    CanUpdateMachineRequest, CanUpdateMachineSetRequest, DiscoveryRequest, DiscoveryResponse,
    Extensions as _, Hook, HookError, MachineObjects, UpdateMachineRequest, UpdateMachineResponse, subject,
};
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_base::toml_file::Source;
use capstan_engine::client::{Cache, Mode, Writer};
use capstan_engine::runtime_sdk::{Https, Question, Runtime, Transport};
use capstan_engine::workload::Workload as _;
use capstan_store::MemoryStore;
use capstan_worlds::extension::{
    Behaviour, DevHosts, Extension, HostUpdate, Hosts, Identity, Reply, Serving, serve,
};
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::simulation::{Sim, manifest, settled};

const LOOPBACK: &str = "127.0.0.1:0";

/// Hosts that are what they are asked to be, at once.
struct Instant;

#[async_trait]
impl Hosts for Instant {
    async fn update(&self, _: &MachineObjects, _: u32) -> Result<HostUpdate, String> {
        Ok(HostUpdate::Done)
    }
}

fn identity(names: &[&str]) -> Identity {
    Identity::generate(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        .expect("a certificate")
}

fn options(text: &str) -> Behaviour {
    Behaviour::read(&Source::new("extension.toml", text)).expect("options")
}

async fn served(text: &str, identity: &Identity) -> Serving {
    let extension = Extension::new(options(text), Arc::new(Instant));
    let address: SocketAddr = LOOPBACK.parse().expect("an address");
    serve(Arc::new(extension), address, identity).await.expect("served")
}

fn config(name: &str, address: SocketAddr, ca: Option<String>) -> ExtensionConfig {
    let client_config =
        ClientConfig { url: Some(format!("https://{address}")), ca_bundle: ca, ..ClientConfig::default() };
    ExtensionConfig::new(name, ExtensionConfigSpec { client_config, ..ExtensionConfigSpec::default() })
}

fn trusted(identity: &Identity) -> Option<String> {
    Some(STANDARD.encode(identity.certificate_pem()))
}

/// A server with an engine, in real time: what is asked comes over sockets.
struct Site {
    stack: Stack,
    configs: Cache<ExtensionConfig>,
    writer: Writer,
}

impl Site {
    async fn start() -> Self {
        let options = StackOptions::new(Clock::system(), Rng::seeded(1));
        let stack = Stack::start(Arc::new(MemoryStore::new()), options).await.expect("a server");
        let client = stack.connection("test", false).client;
        let configs = Cache::new();
        tokio::spawn(configs.clone().follow(client.clone(), Rng::seeded(2)));
        Self { stack, configs, writer: Writer::new(client, "test") }
    }

    async fn create<K: capstan_engine::client::Object>(&self, object: &K) {
        self.writer.create(object, Mode::Real).await.expect("created");
    }

    /// Waits until `done` is true of the ExtensionConfig.
    async fn until(&self, name: &str, done: impl Fn(&ExtensionConfig) -> bool) -> Arc<ExtensionConfig> {
        let mut news = self.configs.subscribe();
        loop {
            let found = self.configs.get(&ObjectKey::new("", name)).filter(|config| done(config));
            if let Some(config) = found {
                return config;
            }
            news.changed().await.expect("the cache lives");
        }
    }

    /// Status and message of `Discovered`, once it is there.
    async fn discovered(&self, name: &str) -> (String, String) {
        let config = self.until(name, |config| find(config.conditions(), "Discovered").is_some()).await;
        let condition = find(config.conditions(), "Discovered").expect("waited for");
        assert_eq!(condition.observed_generation, config.metadata.generation);
        (condition.status.clone(), condition.message.clone())
    }
}

/// What an extension does at its discovery, and what its ExtensionConfig then says.
const DISCOVERIES: &[(&str, &str)] = &[
    (
        "error500",
        "http call failed: got response with status code 500 != 200: response : \"the extension was asked",
    ),
    ("redirect", "got response with status code 302 != 200 (redirects are not followed)"),
    ("crash", "http call failed: client error"),
    ("malformed", "http call failed: failed to decode response: EOF"),
    ("wrong-shape", "http call failed: failed to decode response: invalid type"),
    ("oversize", "http call failed: the answer is larger than 20971520 bytes"),
    ("failure", "got failure response with message: the extension was asked to fail"),
    ("wrong-status", "got unknown response status \"Fine\" with message: "),
    (
        "unknown",
        "requestHook hooks.runtime.cluster.x-k8s.io/v1alpha1/DrainMachine is not in the Runtime SDK catalog",
    ),
    (
        "unfitting",
        "failed to validate discovery response: duplicate name for handler can-update-machine found",
    ),
];

#[tokio::test]
async fn a_misbehaving_extension_is_told_by_its_condition() {
    let (site, identity) = (Site::start().await, identity(&["127.0.0.1"]));
    for (does, expected) in DISCOVERIES {
        let wrong = format!("[[wrong]]\nhook = \"Discovery\"\ndoes = \"{does}\"\n");
        let serving = served(&wrong, &identity).await;
        site.create(&config(does, serving.address(), trusted(&identity))).await;
        let (status, message) = site.discovered(does).await;
        assert_eq!(status, "False", "{does}");
        let begins = format!("Error in discovery: failed to discover extension \"{does}\": ");
        assert!(message.starts_with(&begins) && message.contains(expected), "{does}: {message}");
    }
    site.stack.stop().await;
}

#[tokio::test]
async fn certificates_that_do_not_fit_are_told_by_the_condition() {
    let site = Site::start().await;
    let (own, other) = (identity(&["127.0.0.1"]), identity(&["127.0.0.1"]));
    let serving = served("", &own).await;
    let elsewhere = served("", &identity(&["example.org"])).await;
    let closed = std::net::TcpListener::bind(LOOPBACK).and_then(|free| free.local_addr()).expect("a port");
    let table = [
        ("other-ca", serving.address(), trusted(&other), "invalid peer certificate"),
        ("no-ca", serving.address(), None, "invalid peer certificate"),
        ("garbage", serving.address(), Some(STANDARD.encode("garbage")), "caBundle holds no PEM certificate"),
        ("other-name", elsewhere.address(), trusted(&own), "invalid peer certificate"),
        ("nobody", closed, trusted(&own), "Connection refused"),
    ];
    for (name, address, ca, expected) in table {
        site.create(&config(name, address, ca)).await;
        let (status, message) = site.discovered(name).await;
        assert_eq!(status, "False", "{name}");
        assert!(message.contains(expected), "{name}: {message}");
    }
    site.stack.stop().await;
}

#[tokio::test]
async fn a_ca_bundle_comes_from_a_secret_and_handlers_are_listed() {
    let (site, identity) = (Site::start().await, identity(&["127.0.0.1"]));
    let serving = served("timeoutSeconds = 3\nfailurePolicy = \"Ignore\"", &identity).await;
    let mut annotated = config("ext", serving.address(), None);
    let key = "runtime.cluster.x-k8s.io/inject-ca-from-secret";
    annotated.metadata.annotations = Some(BTreeMap::from([(key.to_owned(), "default/ext-ca".to_owned())]));
    site.create(&annotated).await;
    let (_, message) = site.discovered("ext").await;
    assert_eq!(
        message,
        "Error in discovery: failed to reconcile caBundle: failed to get secret \"default/ext-ca\": it does not exist"
    );
    let metadata = ObjectMeta {
        name: Some("ext-ca".to_owned()),
        namespace: Some("default".to_owned()),
        ..ObjectMeta::default()
    };
    let ca = ByteString(identity.certificate_pem().as_bytes().to_vec());
    let data = Some(BTreeMap::from([("ca.crt".to_owned(), ca)]));
    site.create(&Secret { metadata, data, ..Secret::default() }).await;
    // The engine tries again by itself.
    let is_discovered = |config: &ExtensionConfig| {
        find(config.conditions(), "Discovered").is_some_and(|c| c.status == "True")
    };
    let found = site.until("ext", is_discovered).await;
    assert_eq!(found.spec.client_config.ca_bundle, trusted(&identity));
    let handler = |name: &str, hook: &str| {
        json!({"name": format!("{name}.ext"), "timeoutSeconds": 3, "failurePolicy": "Ignore",
               "requestHook": {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": hook}})
    };
    let expected = json!([
        handler("can-update-machine", "CanUpdateMachine"),
        handler("can-update-machine-set", "CanUpdateMachineSet"),
        handler("update-machine", "UpdateMachine"),
    ]);
    assert_eq!(json!(found.status.as_ref().map(|status| &status.handlers)), expected);
    let paused = find(found.conditions(), "Paused").expect("a condition");
    assert_eq!((paused.status.as_str(), paused.reason.as_str()), ("False", "NotPaused"));
    site.stack.stop().await;
}

/// A client of a server that only has namespaces.
async fn runtime(transport: Arc<dyn Transport>) -> (Runtime, Stack) {
    let options = StackOptions { engine: false, ..StackOptions::new(Clock::system(), Rng::seeded(1)) };
    let stack = Stack::start(Arc::new(MemoryStore::new()), options).await.expect("a server");
    let client = stack.connection("test", false).client;
    (Runtime::new(client, Clock::system(), transport), stack)
}

fn request() -> CanUpdateMachineRequest {
    let machine = |version: &str| json!({"metadata": {"name": "m"}, "spec": {"version": version}});
    let objects = |version| MachineObjects { machine: machine(version), ..MachineObjects::default() };
    CanUpdateMachineRequest::new(objects("v1.34.0"), objects("v1.34.1"))
}

/// What an extension does when it is asked, and what becomes of the question: an error with these words, or an
/// answer that changes this much.
const CALLS: &[(&str, Result<&str, &str>)] = &[
    (
        "error500",
        Err(
            "cannot call extension handler can-update-machine.ext: http call failed: got response with status code 500",
        ),
    ),
    ("redirect", Err("status code 302 != 200 (redirects are not followed)")),
    ("crash", Err("http call failed")),
    ("hang", Err("did not answer within 1 s")),
    ("malformed", Err("failed to decode response: EOF")),
    ("wrong-shape", Err("failed to decode response: invalid type")),
    ("oversize", Err("the answer is larger than 20971520 bytes")),
    (
        "failure",
        Err("extension handler can-update-machine.ext answered Failure: the extension was asked to fail"),
    ),
    ("wrong-status", Err("extension handler can-update-machine.ext answered Fine: ")),
    ("unknown", Err("failed to apply patch: unknown patchType StrategicMergePatch")),
    ("unfitting", Err("failed to apply patch: error applying json patch (RFC6902)")),
    ("refuse", Ok("v1.34.0")),
    ("lie", Ok("v1.34.1")),
];

#[tokio::test]
async fn every_wrong_answer_is_an_error_in_words() {
    let (runtime, _stack) = runtime(Arc::new(Https::default())).await;
    let identity = identity(&["127.0.0.1"]);
    runtime.begin([]);
    for (does, expected) in CALLS {
        let timeout_s = if *does == "hang" { 1 } else { 30 };
        let text = format!(
            "timeoutSeconds = {timeout_s}\n[[wrong]]\nhook = \"CanUpdateMachine\"\ndoes = \"{does}\"\n"
        );
        let serving = served(&text, &identity).await;
        let config = config("ext", serving.address(), trusted(&identity));
        let handlers = runtime.discover(&config).await.expect("discovered");
        runtime.register(&config, &handlers);
        let mut request = request();
        let answer = runtime.can_update_machine("can-update-machine.ext", &request).await;
        let outcome = match answer {
            Err(error) => Err(error.to_string()),
            Ok(answer) => request.apply(&answer).map_err(|error| error.to_string()),
        };
        match (outcome, expected) {
            (Err(why), Err(words)) => assert!(why.contains(words), "{does}: {why}"),
            (Ok(()), Ok(version)) => {
                assert_eq!(request.current.machine["spec"]["version"], **version, "{does}");
            }
            (outcome, expected) => panic!("{does}: {outcome:?} instead of {expected:?}"),
        }
    }
}

#[tokio::test]
async fn ignored_failures_are_empty_answers_and_a_refusal_is_not_ignored() {
    let (runtime, _stack) = runtime(Arc::new(Https::default())).await;
    let identity = identity(&["127.0.0.1"]);
    runtime.begin([]);
    for (does, is_ignored) in [("error500", true), ("malformed", true), ("failure", false)] {
        let text =
            format!("failurePolicy = \"Ignore\"\n[[wrong]]\nhook = \"UpdateMachine\"\ndoes = \"{does}\"\n");
        let serving = served(&text, &identity).await;
        let config = config("ext", serving.address(), trusted(&identity));
        let handlers = runtime.discover(&config).await.expect("discovered");
        runtime.register(&config, &handlers);
        let question = UpdateMachineRequest::new(MachineObjects::default());
        let answer = runtime.update_machine("update-machine.ext", &question).await;
        if is_ignored {
            assert_eq!(answer, Ok(UpdateMachineResponse::success()), "{does}");
        } else {
            assert!(matches!(answer, Err(HookError::Refused { .. })), "{does}: {answer:?}");
        }
    }
}

/// Writes down what is sent, and answers the same to everything.
struct Recorder(Mutex<Vec<Question>>);

#[async_trait]
impl Transport for Recorder {
    async fn post(&self, call: Question) -> Result<Bytes, String> {
        self.0.lock().push(call);
        Ok(Bytes::from_static(br#"{"status": "Success"} and more"#))
    }
}

#[tokio::test]
async fn a_call_has_upstreams_address_and_the_settings_of_both() {
    let recorder = Arc::new(Recorder(Mutex::default()));
    let (runtime, stack) = runtime(recorder.clone()).await;
    assert!(matches!(
        runtime.handlers(Hook::UpdateMachine, "default").await,
        Err(HookError::NotReady { .. })
    ));
    runtime.begin([]);
    let mut config = config("ext", "127.0.0.1:1".parse().expect("an address"), None);
    config.spec.settings =
        BTreeMap::from([("a", "theirs"), ("b", "theirs")].map(|(k, v)| (k.to_owned(), v.to_owned())));
    config.spec.namespace_selector = Some(LabelSelector {
        match_labels: Some(BTreeMap::from([("env".to_owned(), "prod".to_owned())])),
        ..LabelSelector::default()
    });
    let identity = identity(&["127.0.0.1"]);
    let serving = served("", &identity).await;
    let well = ExtensionConfig::new(
        "ext",
        ExtensionConfigSpec {
            client_config: ClientConfig {
                url: Some(format!("https://{}", serving.address())),
                ca_bundle: trusted(&identity),
                ..ClientConfig::default()
            },
            ..ExtensionConfigSpec::default()
        },
    );
    let asked =
        Runtime::new(stack.connection("test", false).client, Clock::system(), Arc::new(Https::default()));
    let handlers = asked.discover(&well).await.expect("discovered");
    runtime.register(&config, &handlers);

    let mut request = request();
    request.settings.insert("a".to_owned(), "mine".to_owned());
    runtime.can_update_machine("can-update-machine.ext", &request).await.expect("an answer");
    let calls = recorder.0.lock().clone();
    let address = "https://127.0.0.1:1/hooks.runtime.cluster.x-k8s.io/v1alpha1/canupdatemachine/can-update-machine?timeout=10s";
    assert_eq!(calls[0].address.to_string(), address);
    let body: Value = serde_json::from_slice(&calls[0].body).expect("JSON");
    assert_eq!(body["settings"], json!({"a": "mine", "b": "theirs"}));
    assert_eq!(body["kind"], "CanUpdateMachineRequest");

    // The namespace selector.
    let labelled = ObjectMeta {
        name: Some("prod".to_owned()),
        labels: Some(BTreeMap::from([("env".to_owned(), "prod".to_owned())])),
        ..ObjectMeta::default()
    };
    let writer = Writer::new(stack.connection("test", false).client, "test");
    let namespace = Namespace { metadata: labelled, ..Namespace::default() };
    writer.create(&namespace, Mode::Real).await.expect("created");
    let names = |namespace: &'static str| runtime.handlers(Hook::UpdateMachine, namespace);
    assert_eq!(names("prod").await, Ok(vec!["update-machine.ext".to_owned()]));
    assert_eq!(names("default").await, Ok(Vec::new()));
    assert!(matches!(names("missing").await, Err(HookError::Namespace { .. })));
    let unknown =
        runtime.update_machine("other.ext", &UpdateMachineRequest::new(MachineObjects::default())).await;
    assert!(matches!(unknown, Err(HookError::NotRegistered { .. })));
    let wrong = runtime
        .update_machine("can-update-machine.ext", &UpdateMachineRequest::new(MachineObjects::default()))
        .await;
    assert!(matches!(wrong, Err(HookError::OtherHook { .. })));
}

/// One question to the extension about the one control plane Machine.
async fn ask(extension: &Extension, desired: &MachineObjects) -> Value {
    let path = Hook::UpdateMachine.path(Some("update-machine"));
    let body = json!(UpdateMachineRequest::new(desired.clone())).to_string();
    match extension.answer(&path, body.as_bytes()).await {
        Reply::Document { status: 200, body } => serde_json::from_slice(&body).expect("JSON"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_changes_the_simulated_host_in_its_time() {
    let sim = Sim::start(3).await;
    sim.create(manifest(1, 0)).await;
    sim.until("the control plane up", 180, async |s| settled(s, 1, 0, "v1.34.1").await).await;
    let machine = sim.list::<Machine>().await.remove(0);
    let name = machine.spec.infrastructure_ref.name.clone();
    let dev = sim.get::<DevMachine>(&name).await.expect("its DevMachine");
    let mut desired = MachineObjects { machine: subject(&json!(machine)), ..MachineObjects::default() };
    desired.infrastructure_machine = subject(&json!(dev));
    desired.machine["spec"]["version"] = json!("v1.35.0");
    desired.infrastructure_machine["metadata"]["annotations"]["provider.capstan.dev/memory"] = json!("16Gi");

    let extension = || {
        let hosts = DevHosts::new(sim.connection.client.clone(), sim.clock.clone(), 1.0);
        Extension::new(options("updateSeconds = 30\nretryAfterSeconds = 7"), Arc::new(hosts))
    };
    let shown = async || {
        let node = sim.world.node(&ObjectKey::new("default", "harbor"), &name).await;
        let status = node.expect("an answer").expect("the Node").status.clone().expect("a status");
        let memory = status.capacity.and_then(|c| c.get("memory").map(|m| m.0.clone()));
        (status.node_info.expect("info").kubelet_version, memory)
    };
    let first = ask(&extension(), &desired).await;
    assert_eq!((&first["status"], &first["retryAfterSeconds"]), (&json!("Success"), &json!(7)));
    tokio::time::sleep(std::time::Duration::from_secs(29)).await;
    // Another process goes on where the first one stopped.
    let again = ask(&extension(), &desired).await;
    assert_eq!(again["retryAfterSeconds"], 7);
    assert_eq!(shown().await, ("v1.34.1".to_owned(), None));
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    for _ in 0..2 {
        let last = ask(&extension(), &desired).await;
        assert_eq!((&last["status"], &last["retryAfterSeconds"]), (&json!("Success"), &json!(0)));
    }
    sim.until("the Node to show it", 10, async |_| shown().await.0 == "v1.35.0").await;
    assert_eq!(shown().await.1.as_deref(), Some("16Gi"));

    desired.infrastructure_machine["kind"] = json!("OtherMachine");
    let refused = ask(&extension(), &desired).await;
    assert_eq!(refused["status"], "Failure");
}

/// The JSON blocks of the document.
fn examples() -> Vec<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/extensions.md");
    let text = std::fs::read_to_string(path).expect("docs/extensions.md");
    let blocks = text.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    blocks
        .map(|block| serde_json::from_str(block).unwrap_or_else(|error| panic!("{error}: {block}")))
        .collect()
}

#[test]
fn the_examples_of_the_document_are_understood() {
    fn read<T: serde::de::DeserializeOwned>(example: &Value) -> T {
        serde_json::from_value(example.clone()).unwrap_or_else(|error| panic!("{error}: {example}"))
    }
    let examples: BTreeMap<String, Value> = examples()
        .into_iter()
        .map(|example| (example["kind"].as_str().expect("a kind").to_owned(), example))
        .collect();
    assert_eq!(examples.len(), 8, "a request and an answer of each hook");
    let mut machine: CanUpdateMachineRequest = read(&examples["CanUpdateMachineRequest"]);
    machine.apply(&read(&examples["CanUpdateMachineResponse"])).expect("applies");
    assert_eq!(machine.current.machine["spec"], machine.desired.machine["spec"]);
    let mut set: CanUpdateMachineSetRequest = read(&examples["CanUpdateMachineSetRequest"]);
    set.apply(&read(&examples["CanUpdateMachineSetResponse"])).expect("applies");
    assert_eq!(set.current, set.desired);
    let answer: UpdateMachineResponse = read(&examples["UpdateMachineResponse"]);
    assert_eq!(json!(answer), examples["UpdateMachineResponse"]);
    let question: UpdateMachineRequest = read(&examples["UpdateMachineRequest"]);
    assert_eq!(json!(question), examples["UpdateMachineRequest"]);
    let found: DiscoveryResponse = read(&examples["DiscoveryResponse"]);
    assert_eq!(json!(found), examples["DiscoveryResponse"]);
    assert_eq!(json!(DiscoveryRequest::default()), examples["DiscoveryRequest"]);
}
