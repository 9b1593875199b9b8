//! A provider of kinds that capstan has no types for, which does what the contract asks of it and no more:
//! infrastructure (`forge.example.com`, contract v1beta2, two versions), bootstrap (`spark.example.com`, contract
//! v1beta1) and control plane (`smith.example.com`).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan_engine::client::write::{Mode, Part, Precondition, Writer};
use capstan_engine::client::{Client, read};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

pub const FORGE: &str = "forge.example.com";
pub const SPARK: &str = "spark.example.com";
pub const SMITH: &str = "smith.example.com";
const FINALIZER: &str = "forge.example.com/box";

/// Group, kind, plural, versions (the last one is stored), contract label.
type Kind = (&'static str, &'static str, &'static str, &'static [&'static str], (&'static str, &'static str));

const INFRASTRUCTURE: (&str, &str) = ("v1beta2", "v1alpha1_v1");
const BOOTSTRAP: (&str, &str) = ("v1beta1", "v1alpha4");

pub const KINDS: [Kind; 6] = [
    (FORGE, "ForgeCluster", "forgeclusters", &["v1alpha1", "v1"], INFRASTRUCTURE),
    (FORGE, "ForgeBox", "forgeboxes", &["v1alpha1", "v1"], INFRASTRUCTURE),
    (FORGE, "ForgeBoxTemplate", "forgeboxtemplates", &["v1alpha1", "v1"], INFRASTRUCTURE),
    (SPARK, "SparkConfig", "sparkconfigs", &["v1alpha4"], BOOTSTRAP),
    (SPARK, "SparkConfigTemplate", "sparkconfigtemplates", &["v1alpha4"], BOOTSTRAP),
    (SMITH, "SmithControlPlane", "smithcontrolplanes", &["v1beta3"], ("v1beta2", "v1beta3")),
];

fn kind(name: &str) -> Kind {
    *KINDS.iter().find(|k| k.1 == name).expect("a kind of this provider")
}

pub fn gvk(name: &str) -> Gvk {
    let (group, kind, plural, versions, _) = kind(name);
    let version = versions.last().expect("a version");
    Gvk {
        group: group.to_owned(),
        version: (*version).to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        namespaced: true,
    }
}

pub fn target(kind: &str, name: &str) -> ObjectRef {
    ObjectRef { gvk: gvk(kind), key: ObjectKey::new("default", name), uid: String::new() }
}

pub fn definition(name: &str) -> Value {
    let (group, kind, plural, versions, (contract, promised)) = kind(name);
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |name: &&str| {
        json!({"name": name, "served": true, "storage": Some(name) == versions.last(), "subresources": {"status": {}},
               "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}})
    };
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"),
                     "labels": {format!("cluster.x-k8s.io/{contract}"): promised}},
        "spec": {"group": group, "scope": "Namespaced", "versions": versions,
                 "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")}},
    })
}

/// As the server takes them at its start.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    KINDS.iter().map(|k| serde_json::from_value(definition(k.1)).expect("a definition")).collect()
}

/// An object of one of its kinds.
pub fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": gvk(kind).api_version(), "kind": kind,
           "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// Where its hosts become Nodes.
#[async_trait]
pub trait Hosts: Send + Sync {
    /// A Node that is ready, if it is not there yet.
    async fn join(&self, cluster: &ObjectKey, name: &str, provider_id: &str, version: &str);

    async fn leave(&self, cluster: &ObjectKey, name: &str);
}

/// Brings its objects to life, one look per second.
pub struct Provider {
    pub client: Client,
    pub writer: Writer,
    pub hosts: Arc<dyn Hosts>,
}

impl Provider {
    pub async fn run(self) {
        loop {
            self.turn().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn turn(&self) {
        for cluster in self.list("ForgeCluster").await {
            self.serve_cluster(&cluster).await;
        }
        for control_plane in self.list("SmithControlPlane").await {
            self.serve_control_plane(&control_plane).await;
        }
        for config in self.list("SparkConfig").await {
            if owner(&config, "Machine").is_some() {
                let status = json!({"ready": true, "dataSecretName": name(&config)});
                self.report("SparkConfig", &config, status).await;
            }
        }
        for host in self.list("ForgeBox").await {
            self.serve_box(&host).await;
        }
    }

    async fn serve_cluster(&self, cluster: &Value) {
        if owner(cluster, "Cluster").is_none() {
            return;
        }
        let endpoint = json!({"controlPlaneEndpoint": {"host": "forge.example.com", "port": 7443}});
        self.change("ForgeCluster", cluster, json!({ "spec": endpoint })).await;
        let status = json!({"initialization": {"provisioned": true},
                            "failureDomains": [{"name": "hearth-1", "controlPlane": true}, {"name": "hearth-2"}]});
        self.report("ForgeCluster", cluster, status).await;
    }

    async fn serve_control_plane(&self, control_plane: &Value) {
        let version = &control_plane["spec"]["version"];
        let condition = json!({"type": "Available", "status": "True", "reason": "Available", "message": "",
                               "lastTransitionTime": "2026-11-20T10:00:00Z"});
        let status = json!({
            "initialization": {"controlPlaneInitialized": true}, "externalManagedControlPlane": true,
            "version": version, "versions": [{"version": version, "replicas": 3}],
            "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "upToDateReplicas": 3,
            "conditions": [condition],
        });
        self.report("SmithControlPlane", control_plane, status).await;
    }

    async fn serve_box(&self, host: &Value) {
        let cluster = ObjectKey::new("default", "harbor");
        let id = format!("forge://{}", name(host));
        if !host["metadata"]["deletionTimestamp"].is_null() {
            self.hosts.leave(&cluster, name(host)).await;
            self.change("ForgeBox", host, json!({"metadata": {"finalizers": null}})).await;
            return;
        }
        self.change("ForgeBox", host, json!({"metadata": {"finalizers": [FINALIZER]}})).await;
        let Some(machine) = owner(host, "Machine") else { return };
        let machine = ObjectRef {
            gvk: Gvk::of::<capi_types::machine::Machine>(),
            key: ObjectKey::new("default", machine),
            uid: String::new(),
        };
        let Some(machine) = read::get_value(&self.client, &machine).await.expect("an answer") else { return };
        if machine["spec"]["bootstrap"]["dataSecretName"].is_null() {
            return;
        }
        let version = machine["spec"]["version"].as_str().unwrap_or_default();
        self.hosts.join(&cluster, name(host), &id, version).await;
        self.change("ForgeBox", host, json!({"spec": {"providerID": id}})).await;
        let status = json!({"initialization": {"provisioned": true}, "failureDomain": "hearth-2",
                            "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}]});
        self.report("ForgeBox", host, status).await;
    }

    async fn list(&self, kind: &str) -> Vec<Value> {
        // It may not be installed, or no longer.
        read::list_values(&self.client, &gvk(kind), "default", "").await.unwrap_or_default()
    }

    async fn change(&self, kind: &str, object: &Value, body: Value) {
        self.patch(kind, object, Part::Main, body).await;
    }

    async fn report(&self, kind: &str, object: &Value, status: Value) {
        self.patch(kind, object, Part::Status, json!({ "status": status })).await;
    }

    async fn patch(&self, kind: &str, object: &Value, part: Part, body: Value) {
        let mut after = object.clone();
        json_patch::merge(&mut after, &body);
        if after != *object {
            // It may have gone meanwhile; the next look shows it.
            let _ = self
                .writer
                .patch_value(&target(kind, name(object)), part, &body, &Precondition::default(), Mode::Real)
                .await;
        }
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The name of the owner of this kind.
pub fn owner<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["kind"] == kind).and_then(|owner| owner["name"].as_str())
}
