//! Upstream's own test extension (`test/extension` of cluster-api), called with the objects of a fleet that our engine
//! made. It is built and started by hand; its address and the certificate that it is to be trusted by are given as
//! `CAPSTAN_UPSTREAM_EXTENSION=https://127.0.0.1:9443` and `CAPSTAN_UPSTREAM_EXTENSION_CA=FILE`.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use capi_types::bootstrap::KubeadmConfig;
use capi_types::dev::DevMachine;
use capi_types::extension_config::{ClientConfig, ExtensionConfig, ExtensionConfigSpec};
use capi_types::hook::{
    CanUpdateMachineRequest, CanUpdateMachineSetRequest, Extensions as _, HookError, MachineObjects,
    MachineSetObjects, UpdateMachineRequest, subject,
};
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_engine::client::{Cache, Client, Mode, Object, Writer, read};
use capstan_engine::runtime_sdk::{Https, Runtime};
use capstan_store::MemoryStore;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use serde_json::{Value, json};

use super::simulation::manifest;

struct Upstream {
    runtime: Runtime,
    client: Client,
    _stack: Stack,
}

impl Upstream {
    async fn start(spec: ExtensionConfigSpec) -> Self {
        let options =
            StackOptions { time_scale: 1000.0, ..StackOptions::new(Clock::system(), Rng::seeded(1)) };
        let stack = Stack::start(Arc::new(MemoryStore::new()), options).await.expect("a server");
        let client = stack.connection("test", false).client;
        let runtime = Runtime::new(client.clone(), Clock::system(), Arc::new(Https::default()));
        runtime.begin([]);
        let config = ExtensionConfig::new("ext", spec);
        let handlers = runtime.discover(&config).await.expect("discovered");
        let offered: Vec<String> =
            handlers.iter().map(|h| format!("{} {}", h.name, h.request_hook.hook)).collect();
        println!("{offered:#?}");
        runtime.register(&config, &handlers);
        Self { runtime, client, _stack: stack }
    }

    /// The handler of a hook.
    async fn handler(&self, hook: capi_types::hook::Hook) -> String {
        let names = self.runtime.handlers(hook, "default").await.expect("known");
        assert_eq!(names.len(), 1, "{names:?}");
        names[0].clone()
    }

    async fn first<K: Object>(&self) -> Value {
        let found = read::list_values(&self.client, &Gvk::of::<K>(), "default", "").await.expect("a list");
        let mut object = found.first().expect("one").clone();
        object["apiVersion"] = json!(Gvk::of::<K>().api_version());
        object["kind"] = json!(Gvk::of::<K>().kind);
        subject(&object)
    }

    /// A control plane Machine that our engine made, with what is behind it.
    async fn objects(&self) -> MachineObjects {
        let writer = Writer::new(self.client.clone(), "test");
        for object in manifest(1, 0) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (group, version) =
                object["apiVersion"].as_str().and_then(|v| v.split_once('/')).expect("a version");
            let kind = text(&object["kind"]);
            let plural = format!("{}s", kind.to_lowercase());
            let gvk =
                Gvk { group: group.to_owned(), version: version.to_owned(), kind, plural, namespaced: true };
            let key = ObjectKey::new("default", text(&object["metadata"]["name"]));
            let target = ObjectRef { gvk, key, uid: String::new() };
            writer.create_value(&target, &object, Mode::Real).await.expect("created");
        }
        let machines = Cache::<Machine>::new();
        tokio::spawn(machines.clone().follow(self.client.clone(), Rng::seeded(2)));
        let mut news = machines.subscribe();
        while machines.list().is_empty() {
            news.changed().await.expect("the cache lives");
        }
        MachineObjects {
            machine: self.first::<Machine>().await,
            infrastructure_machine: self.first::<DevMachine>().await,
            bootstrap_config: self.first::<KubeadmConfig>().await,
        }
    }

    /// The specs of the current objects after the answer.
    async fn answered(&self, current: &MachineObjects, desired: &MachineObjects) -> MachineObjects {
        let mut request = CanUpdateMachineRequest::new(current.clone(), desired.clone());
        let handler = self.handler(capi_types::hook::Hook::CanUpdateMachine).await;
        let answer = self.runtime.can_update_machine(&handler, &request).await.expect("an answer");
        println!("{}", String::from_utf8_lossy(&answer.machine_patch.patch));
        println!("{}", String::from_utf8_lossy(&answer.infrastructure_machine_patch.patch));
        println!("{}", String::from_utf8_lossy(&answer.bootstrap_config_patch.patch));
        request.apply(&answer).expect("the patches fit");
        request.current
    }
}

fn spec(setting: Option<(&str, &str)>) -> Option<ExtensionConfigSpec> {
    let given = |name: &str| std::env::var(name).ok();
    let (url, ca) = (given("CAPSTAN_UPSTREAM_EXTENSION"), given("CAPSTAN_UPSTREAM_EXTENSION_CA"));
    let (Some(url), Some(ca)) = (url, ca) else {
        println!("skipped: CAPSTAN_UPSTREAM_EXTENSION and CAPSTAN_UPSTREAM_EXTENSION_CA are not set");
        return None;
    };
    let ca_bundle = Some(STANDARD.encode(std::fs::read(ca).expect("the certificate")));
    Some(ExtensionConfigSpec {
        client_config: ClientConfig { url: Some(url), ca_bundle, ..ClientConfig::default() },
        settings: setting.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        ..ExtensionConfigSpec::default()
    })
}

fn assert_same_specs(left: &MachineObjects, right: &MachineObjects, what: &str) {
    assert_eq!(left.machine["spec"], right.machine["spec"], "{what}: Machine");
    let infrastructure = |o: &MachineObjects| o.infrastructure_machine["spec"].clone();
    assert_eq!(infrastructure(left), infrastructure(right), "{what}: DevMachine");
    assert_eq!(left.bootstrap_config["spec"], right.bootstrap_config["spec"], "{what}: KubeadmConfig");
}

#[tokio::test]
async fn upstreams_extension_understands_our_requests_and_we_its_answers() {
    let Some(spec) = spec(None) else { return };
    let upstream = Upstream::start(spec).await;
    let current = upstream.objects().await;
    assert_same_specs(&upstream.answered(&current, &current).await, &current, "nothing changes");
    let mut desired = current.clone();
    desired.machine["spec"]["version"] = json!("v1.35.0");
    assert_same_specs(&upstream.answered(&current, &desired).await, &desired, "version");
    desired.bootstrap_config["spec"]["files"] = json!([{"path": "/etc/motd", "content": "hello"}]);
    desired.bootstrap_config["spec"]["clusterConfiguration"]["etcd"]["local"]["imageTag"] = json!("3.6.4-0");
    assert_same_specs(&upstream.answered(&current, &desired).await, &desired, "version, files and image tag");
    let covered = desired.clone();
    desired.infrastructure_machine["spec"]["backend"]["inMemory"]["vm"]["provisioning"]["startupDuration"] =
        json!("1m");
    let after = upstream.answered(&current, &desired).await;
    assert_same_specs(&after, &covered, "what it does not cover stays");

    let set = |version: &str| MachineSetObjects {
        machine_set: json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
            "metadata": {"name": "ms", "namespace": "default"},
            "spec": {"clusterName": "harbor", "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "version": version, "clusterName": "harbor", "bootstrap": current.machine["spec"]["bootstrap"],
                "infrastructureRef": current.machine["spec"]["infrastructureRef"]}}}}),
        infrastructure_machine_template: json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "DevMachineTemplate", "metadata": {"name": "t", "namespace": "default"},
            "spec": {"template": {"spec": current.infrastructure_machine["spec"]}}}),
        bootstrap_config_template: json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2",
            "kind": "KubeadmConfigTemplate", "metadata": {"name": "t", "namespace": "default"},
            "spec": {"template": {"spec": current.bootstrap_config["spec"]}}}),
    };
    let mut request = CanUpdateMachineSetRequest::new(set("v1.34.1"), set("v1.35.0"));
    let handler = upstream.handler(capi_types::hook::Hook::CanUpdateMachineSet).await;
    let answer = upstream.runtime.can_update_machine_set(&handler, &request).await.expect("an answer");
    request.apply(&answer).expect("the patches fit");
    assert_eq!(request.current, request.desired);

    // It pretends to work for 15 to 20 seconds.
    let handler = upstream.handler(capi_types::hook::Hook::UpdateMachine).await;
    let question = UpdateMachineRequest::new(covered);
    let mut asked = 0;
    loop {
        let answer = upstream.runtime.update_machine(&handler, &question).await.expect("an answer");
        asked += 1;
        println!("{} {}", answer.retry_after_seconds, answer.message);
        if answer.retry_after_seconds == 0 {
            assert_eq!(answer.message, "Extension completed updating Machine");
            break;
        }
        assert_eq!(
            (answer.retry_after_seconds, answer.message.as_str()),
            (5, "Extension is updating Machine")
        );
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!((4..=7).contains(&asked), "{asked}");
}

#[tokio::test]
async fn settings_reach_upstreams_extension() {
    let Some(spec) = spec(Some(("disableInPlaceUpdates", "true"))) else { return };
    let upstream = Upstream::start(spec).await;
    let current = upstream.objects().await;
    let mut desired = current.clone();
    desired.machine["spec"]["version"] = json!("v1.35.0");
    assert_same_specs(&upstream.answered(&current, &desired).await, &current, "it changes nothing");
    let handler = upstream.handler(capi_types::hook::Hook::UpdateMachine).await;
    let refused = upstream.runtime.update_machine(&handler, &UpdateMachineRequest::new(desired)).await;
    assert!(matches!(refused, Err(HookError::Refused { .. })), "{refused:?}");
}
