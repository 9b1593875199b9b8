//! A server, an engine that reaches machines, and what tests do with both. Must not know what a test expects of them.

use std::sync::Arc;
use std::time::Duration;

use capi_types::condition::{Conditioned, find};
use capi_types::host::{Host, HostPool};
use capi_types::host_cluster::HostCluster;
use capi_types::host_machine::HostMachine;
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, TimeSource, Timestamp};
use capstan_engine::client::write::Part;
use capstan_engine::client::{
    Cache, Change, Connection, Mode, Object, Precondition, Writer, get, in_process,
};
use capstan_host_provider::HostSettings;
use capstan_store::MemoryStore;
use capstan_worlds::standalone::engine::RunningEngine;
use capstan_worlds::standalone::options::RealHosts;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use k8s_openapi::api::core::v1::Secret;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::machines::{Park, facts};

/// Cloud-init as the kubeadm bootstrap provider writes it, as far as it matters here.
const DATA: &str = "## template: jinja\n#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm.yaml\n  owner: root:root\n  \
                    permissions: '0640'\n  content: |\n    kind: ClusterConfiguration\n    certificateKey: planted-in-the-data\nruncmd:\n- kubeadm init --config \
                    /run/kubeadm/kubeadm.yaml\n";

/// A fixed moment plus the runtime's paused time.
struct Paused(tokio::time::Instant);

impl TimeSource for Paused {
    fn now(&self) -> Timestamp {
        let passed = chrono::TimeDelta::from_std(self.0.elapsed()).unwrap_or_default();
        Timestamp::from_timestamp(1_795_168_800, 0).unwrap_or_default() + passed
    }
}

/// A server, an engine, and machines.
pub struct Site {
    pub park: Park,
    pub connection: Connection,
    pub writer: Writer,
    stack: Stack,
    pub options: StackOptions,
    engine: Option<RunningEngine>,
}

impl Site {
    pub async fn start(count: u32) -> Self {
        Self::start_with(count, false).await
    }

    pub async fn start_with(count: u32, read_only: bool) -> Self {
        let park = Park::default();
        if read_only {
            park.be_read_only();
        }
        let clock = Clock::new(Paused(tokio::time::Instant::now()));
        let settings = HostSettings { installation: "here".to_owned(), read_only };
        let hosts = RealHosts { machines: Arc::new(park.clone()), settings };
        let options =
            StackOptions { engine: false, hosts: Some(hosts), ..StackOptions::new(clock, Rng::seeded(3)) };
        let stack = Stack::start(Arc::new(MemoryStore::new()), options.clone()).await.expect("a server");
        let connection = stack.connection("test", false);
        let writer = Writer::new(connection.client.clone(), "test");
        let mut site = Self { park, connection, writer, stack, options, engine: None };
        site.run();
        site.create::<HostPool>("rack", json!({})).await;
        for at in 1..=count {
            let address = format!("10.0.0.{at}");
            site.park.add(&address, facts(&at.to_string()));
            site.create::<Host>(&format!("h{at}"), json!({"pool": "rack", "address": address})).await;
        }
        site
    }

    pub fn run(&mut self) {
        let connection = in_process(self.stack.server().clone(), "engine", "default", false);
        self.engine = Some(RunningEngine::start(connection, &self.options));
    }

    pub async fn restart(&mut self) {
        self.stop().await;
        self.run();
    }

    pub async fn stop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.stop().await;
        }
    }

    /// The object is made anew, as `clusterctl move` makes it: with another uid, and without its status.
    pub async fn moved<K: Object>(&self, name: &str) {
        let object: K = self.get(name).await.expect("an object");
        let mut object = serde_json::to_value(object).expect("JSON");
        let key = ObjectKey::new("default", name);
        let none = json!({"metadata": {"finalizers": null}});
        self.writer.patch_part::<K>(&key, Part::Main, &none, Mode::Real).await.expect("patched");
        self.delete::<K>(name).await;
        object.as_object_mut().expect("an object").remove("status");
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        for field in
            ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences"]
        {
            metadata.remove(field);
        }
        let object: K = serde_json::from_value(object).expect("an object");
        self.writer.create(&object, Mode::Real).await.expect("created");
    }

    pub async fn create<K: Object>(&self, name: &str, spec: Value) {
        self.create_with::<K>(name, spec, json!({})).await;
    }

    pub async fn create_with<K: Object>(&self, name: &str, spec: Value, labels: Value) {
        let (api_version, kind) = (K::api_version(&()), K::kind(&()));
        let object = json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec});
        let object: K = serde_json::from_value(object).expect("an object");
        self.writer.create(&object, Mode::Real).await.expect("created");
    }

    pub async fn get<K: Object>(&self, name: &str) -> Option<K> {
        get(&self.connection.client, &ObjectKey::new("default", name)).await.expect("an answer")
    }

    pub async fn annotate<K: Object>(&self, name: &str, key: &str, value: &str) {
        let body = json!({"metadata": {"annotations": {key: value}}});
        self.writer
            .patch_part::<K>(&ObjectKey::new("default", name), Part::Main, &body, Mode::Real)
            .await
            .expect("patched");
    }

    pub async fn label<K: Object>(&self, name: &str, labels: Value) {
        let body = json!({"metadata": {"labels": labels}});
        self.writer
            .patch_part::<K>(&ObjectKey::new("default", name), Part::Main, &body, Mode::Real)
            .await
            .expect("patched");
    }

    pub async fn delete<K: Object>(&self, name: &str) {
        let key = ObjectKey::new("default", name);
        self.writer.delete::<K>(&key, &Precondition::default(), Mode::Real).await.expect("deleted");
    }

    pub async fn state(&self, host: &str) -> String {
        let host: Option<Host> = self.get(host).await;
        host.and_then(|host| host.status?.state).unwrap_or_default()
    }

    /// `reason: message`.
    pub async fn said<K: Object + Conditioned>(&self, name: &str, type_: &str) -> String {
        let object: Option<K> = self.get(name).await;
        let found = object.and_then(|object| find(object.conditions(), type_).cloned());
        found.map(|it| format!("{}: {}", it.reason, it.message)).unwrap_or_default()
    }

    /// A cluster whose endpoint is a load balancer, and the bootstrap data of its Machines.
    pub async fn cluster(&self) {
        use capi_types::cluster::Cluster;
        let endpoint = json!({"controlPlaneEndpoint": {"host": "lb.example", "port": 6443}});
        self.create::<HostCluster>("harbor", endpoint).await;
        let reference =
            json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostCluster", "name": "harbor"});
        self.create::<Cluster>("harbor", json!({"infrastructureRef": reference})).await;
        self.bootstrap_data().await;
    }

    pub async fn bootstrap_data(&self) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "data", "namespace": "default"},
            "stringData": {"value": DATA}});
        let secret: Secret = serde_json::from_value(secret).expect("a Secret");
        self.writer.create(&secret, Mode::Real).await.expect("created");
    }

    /// A Machine that is a node of its own.
    pub async fn machine(&self, name: &str, spec: Value) {
        let labels = json!({"cluster.x-k8s.io/cluster-name": "harbor"});
        self.create_with::<HostMachine>(name, spec, labels.clone()).await;
        let reference =
            json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostMachine", "name": name});
        let spec = json!({"clusterName": "harbor", "version": "v1.36.3", "bootstrap": {"dataSecretName": "data"},
            "infrastructureRef": reference});
        self.create_with::<Machine>(name, spec, labels).await;
    }

    pub async fn is_provisioned(&self, name: &str) -> bool {
        let own: Option<HostMachine> = self.get(name).await;
        let initialization = own.and_then(|own| own.status?.initialization);
        initialization.and_then(|it| it.provisioned) == Some(true)
    }

    /// In which revision of the server this was so for the first time.
    pub fn first_seen<K: Object>(&self, is_so: fn(&K) -> bool) -> Arc<Mutex<Option<u64>>> {
        let (cache, seen) = (Cache::<K>::new(), Arc::new(Mutex::new(None)));
        let first = Arc::clone(&seen);
        cache.on_change(move |change: &Change<'_, K>| {
            let version =
                change.new.filter(|new| is_so(new)).and_then(|new| new.meta().resource_version.clone());
            let mut first = first.lock();
            *first = first.or_else(|| version?.parse().ok());
        });
        tokio::spawn(cache.follow(self.connection.client.clone(), Rng::seeded(1)));
        seen
    }

    /// Another engine that begins looks at machines, and changes none.
    pub fn be_read_only(&mut self) {
        self.options.hosts.as_mut().expect("Hosts").settings.read_only = true;
        self.park.be_read_only();
    }

    pub async fn until(&self, what: &str, is_so: impl AsyncFn(&Self) -> bool) {
        for _ in 0..900 {
            if is_so(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let mut seen = Vec::new();
        for name in ["h1", "h2", "h3"] {
            seen.push(format!(
                "{name} {} {}",
                self.state(name).await,
                self.said::<Host>(name, "Available").await
            ));
        }
        for name in ["one", "two"] {
            let own: Option<HostMachine> = self.get(name).await;
            seen.push(json!(own.and_then(|own| own.status)).to_string());
        }
        panic!("{what} did not happen: {seen:#?} {:#?}", self.park.changes());
    }

    pub async fn until_state(&self, host: &str, state: &str) {
        self.until(&format!("{host} {state}"), async |site| site.state(host).await == state).await;
    }
}
