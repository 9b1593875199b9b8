//! A headless server whose engine works on real machines, and its Hosts. Owns how a test waits for what becomes of a Host: by its
//! object, never by a clock of its own.

use std::time::Duration;

use capi_types::condition::find;
use capi_types::host::Host;
use capi_types::host_machine::HostMachine;
use capi_types::key::ObjectKey;
use capstan_engine::client::{Object, get};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::core::NamespaceResourceScope;
use serde_json::{Value, json};

use super::machine::Client as SshClient;
use crate::standalone::{BINARY, Standalone};

/// What this machine, which stands for the machine of a Host, lacks of a node.
const IGNORED: [&str; 18] = [
    "system",
    "kernel",
    "cgroup",
    "cgroup-controllers",
    "cpus",
    "memory",
    "disk",
    "swap",
    "clock",
    "hostname",
    "commands",
    "container-runtime",
    "runtime-version",
    "kubeadm",
    "kubelet",
    "kubelet-unit",
    "ip-forward",
    "firewall",
];
const GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// A look, and another one after a look that failed, with a machine that is busy.
const WAITED_MAX: Duration = Duration::from_secs(150);

pub struct Rack {
    pub server: Standalone,
    pub client: Client,
    _folders: [tempfile::TempDir; 2],
}

impl Rack {
    pub async fn start(ssh: &SshClient) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // Where a server that is killed leaves its control sockets; a longer name leaves them no room.
        let short = tempfile::Builder::new().prefix("c").rand_bytes(5).tempdir_in("/tmp").expect("a folder");
        let mut command = std::process::Command::new(BINARY);
        command.env("TMPDIR", short.path());
        let program = ssh.program();
        let extra = ["--ssh-program", &program, "--installation", "test"];
        let server = Standalone::start_by(command, "127.0.0.1:0", folder.path(), &extra);
        let client = server.client().await;
        Self { server, client, _folders: [folder, short] }
    }

    pub async fn create<K>(&self, name: &str, labels: Value, body: Value)
    where
        K: Object + kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let (api_version, kind) = (<K as kube::Resource>::api_version(&()), <K as kube::Resource>::kind(&()));
        let mut object = json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": "default", "labels": labels}});
        object.as_object_mut().expect("an object").extend(body.as_object().cloned().unwrap_or_default());
        let object: K = serde_json::from_value(object).expect("an object");
        let all: Api<K> = Api::namespaced(self.client.clone(), "default");
        all.create(&PostParams::default(), &object).await.expect("created");
    }

    /// A Host of which nothing is expected but that it is there.
    pub async fn host(&self, name: &str, spec: Value) {
        let mut spec = spec;
        spec["ignoredRules"] = json!(IGNORED);
        self.create::<Host>(name, json!({}), json!({ "spec": spec })).await;
    }

    pub async fn get<K: Object>(&self, name: &str) -> Option<K> {
        get(&self.client, &ObjectKey::new("default", name)).await.expect("an answer")
    }

    pub async fn of(&self, name: &str) -> Host {
        self.get(name).await.expect("a Host")
    }

    /// Waits for a Host of which this is so.
    pub async fn until(&self, name: &str, what: &str, is_so: impl Fn(&Host) -> bool) -> Host {
        let begun = tokio::time::Instant::now();
        loop {
            let host = self.of(name).await;
            if is_so(&host) {
                return host;
            }
            let said = serde_json::to_string_pretty(&host.status).expect("JSON");
            assert!(begun.elapsed() < WAITED_MAX, "{what} did not happen: {said}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    pub async fn until_state(&self, name: &str, state: &str) -> Host {
        self.until(name, state, |host| state_of(host) == state).await
    }

    /// A cluster of which one HostMachine becomes a node, by bootstrap data in a Secret.
    pub async fn machine(&self, name: &str, data: &str) {
        let of = |kind: &str, name: &str| json!({"apiGroup": GROUP, "kind": kind, "name": name});
        let endpoint = json!({"controlPlaneEndpoint": {"host": "lb.example", "port": 6443}});
        self.create::<capi_types::host_cluster::HostCluster>(
            "harbor",
            json!({}),
            json!({ "spec": endpoint }),
        )
        .await;
        let spec = json!({"infrastructureRef": of("HostCluster", "harbor")});
        self.create::<capi_types::cluster::Cluster>("harbor", json!({}), json!({ "spec": spec })).await;
        let secrets: Api<k8s_openapi::api::core::v1::Secret> =
            Api::namespaced(self.client.clone(), "default");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "data", "namespace": "default"},
            "stringData": {"value": data}});
        let secret = serde_json::from_value(secret).expect("a Secret");
        secrets.create(&PostParams::default(), &secret).await.expect("created");
        let labels = json!({"cluster.x-k8s.io/cluster-name": "harbor"});
        self.create::<HostMachine>(name, labels.clone(), json!({"spec": {}})).await;
        let spec = json!({"clusterName": "harbor", "version": "v1.36.3", "bootstrap": {"dataSecretName": "data"},
            "infrastructureRef": of("HostMachine", name)});
        self.create::<capi_types::machine::Machine>(name, labels, json!({ "spec": spec })).await;
    }

    /// `capstan host list`, as people read it.
    pub fn list(&self) -> String {
        self.server.says(&["host", "list"])
    }
}

pub fn state_of(host: &Host) -> &str {
    host.status.as_ref().and_then(|status| status.state.as_deref()).unwrap_or_default()
}

/// `status reason: message` of a condition.
pub fn said(host: &Host, type_: &str) -> String {
    let conditions = host.status.as_ref().map_or(&[][..], |status| &status.conditions);
    find(conditions, type_)
        .map(|it| format!("{} {}: {}", it.status, it.reason, it.message))
        .unwrap_or_default()
}

pub fn has_facts(host: &Host) -> bool {
    host.status
        .as_ref()
        .is_some_and(|status| status.facts.as_ref().is_some_and(|facts| facts.kernel.is_some()))
}
