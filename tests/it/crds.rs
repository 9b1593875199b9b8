//! The definitions we generate: against the structural rules of an API server, and, when the shared
//! folder is there, against upstream's schemas and sample objects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use capi_types as api;
use capi_types::crds;
use capstan_apiserver::internals::{Schema, crd};
use capstan_apiserver::{ApiServer, Options, Tokens};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_engine::client::in_process;
use capstan_store::MemoryStore;
use capstan_worlds::samples::{self, Sample};
use k8s_machinery::admission::AdmitAll;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

/// Schema paths that differ from upstream's on purpose, with the reason.
const ALLOWED: &[(&str, &str)] = &[
    (
        "KubeadmConfig.status.deprecated.v1beta1.failureReason",
        "upstream limits the length here and not in the same field of other kinds; one type serves all",
    ),
    ("DevMachinePool.spec.backend.inMemory", "upstream has no pools in memory"),
];

/// Kinds that upstream does not have.
const OF_THIS_PROJECT: &[&str] =
    &["HostPool", "Host", "HostMachine", "HostMachineTemplate", "HostCluster", "HostClusterTemplate"];

fn shared(folder: &str) -> Option<PathBuf> {
    let root = std::env::var_os("CAPSTAN_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = root.join(folder);
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: {} is not there", path.display());
    None
}

fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(yaml_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn documents(file: &Path) -> Vec<Value> {
    serde_saphyr::from_multiple(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn ours() -> BTreeMap<String, Value> {
    crds::all().into_iter().map(|crd| (crd.spec.names.kind.clone(), json!(crd))).collect()
}

/// Every path of a schema with what is compared there.
fn paths(schema: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    collect(schema, String::new(), &mut found);
    found
}

fn collect(schema: &Value, path: String, found: &mut BTreeMap<String, Value>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        collect(property, format!("{path}.{name}"), found);
    }
    if schema["items"].is_object() {
        collect(&schema["items"], format!("{path}[]"), found);
    }
    if schema["additionalProperties"].is_object() {
        collect(&schema["additionalProperties"], format!("{path}{{}}"), found);
    }
    found.insert(path, facts(schema));
}

/// The rules that must agree. Numbers are compared as floats, lists without order.
fn facts(schema: &Value) -> Value {
    const COMPARED: &[&str] = &[
        "type",
        "default",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-map-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-validations",
    ];
    let mut facts = serde_json::Map::new();
    for key in COMPARED {
        let value = &schema[*key];
        let value = value.as_f64().map_or_else(|| value.clone(), Value::from);
        facts.insert((*key).to_owned(), value);
    }
    for key in ["required", "enum"] {
        let sorted: BTreeSet<&str> =
            schema[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        facts.insert(key.to_owned(), json!(sorted));
    }
    Value::Object(facts)
}

/// The newest version: kinds of this project have an older name for theirs.
fn newest(crd: &Value) -> &Value {
    let versions = crd["spec"]["versions"].as_array().unwrap();
    versions.iter().find(|version| version["name"] == "v1beta2").unwrap_or(&versions[0])
}

/// What differs at the paths that both have, and the paths that only one has.
#[derive(Default)]
struct Comparison {
    compared: usize,
    differences: Vec<String>,
    missing: Vec<String>,
}

impl Comparison {
    fn add(&mut self, kind: &str, ours: &Value, theirs: &Value) {
        let (ours, theirs) = (paths(ours), paths(theirs));
        self.missing.extend(
            theirs.keys().filter(|path| !ours.contains_key(*path)).map(|path| format!("{kind}{path}")),
        );
        for (path, facts) in &ours {
            self.compared += 1;
            let full = format!("{kind}{path}");
            let is_below =
                |at: &str| full.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            if ALLOWED.iter().any(|(allowed, _)| is_below(allowed)) {
                continue;
            }
            match theirs.get(path) {
                None => self.differences.push(format!("{full}: upstream has no such path")),
                Some(their_facts) => self.compare_facts(&full, facts, their_facts),
            }
        }
    }

    fn compare_facts(&mut self, path: &str, ours: &Value, theirs: &Value) {
        for (rule, value) in ours.as_object().unwrap() {
            if *value != theirs[rule] {
                self.differences.push(format!("{path}: {rule} is {value}, upstream {}", theirs[rule]));
            }
        }
    }
}

#[test]
fn schemas_agree_with_upstream() {
    let Some(folder) = shared("crds") else { return };
    let ours = ours();
    let mut comparison = Comparison::default();
    let mut seen = BTreeSet::new();
    for theirs in yaml_files(&folder).iter().flat_map(|file| documents(file)) {
        let kind = theirs["spec"]["names"]["kind"].as_str().unwrap();
        let Some(crd) = ours.get(kind) else { continue };
        seen.insert(kind.to_owned());
        let schema = |crd: &Value| newest(crd)["schema"]["openAPIV3Schema"].clone();
        comparison.add(kind, &schema(crd), &schema(&theirs));
    }
    println!("{} paths compared, {} missing", comparison.compared, comparison.missing.len());
    comparison.missing.iter().for_each(|path| println!("missing: {path}"));
    let expected: BTreeSet<String> =
        ours.into_keys().filter(|kind| !OF_THIS_PROJECT.contains(&kind.as_str())).collect();
    assert_eq!(seen, expected, "a kind of ours is not among upstream's definitions");
    assert!(comparison.differences.is_empty(), "{}", comparison.differences.join("\n"));
}

#[test]
fn names_and_subresources_agree_with_upstream() {
    let Some(folder) = shared("crds") else { return };
    let ours = ours();
    for theirs in yaml_files(&folder).iter().flat_map(|file| documents(file)) {
        let kind = theirs["spec"]["names"]["kind"].as_str().unwrap();
        let Some(crd) = ours.get(kind) else { continue };
        assert_eq!(crd["metadata"]["name"], theirs["metadata"]["name"]);
        assert_eq!(crd["spec"]["names"], theirs["spec"]["names"]);
        assert_eq!(crd["spec"]["scope"], theirs["spec"]["scope"]);
        assert_eq!(newest(crd)["subresources"]["scale"], newest(&theirs)["subresources"]["scale"], "{kind}");
        let has_status = |crd: &Value| newest(crd)["subresources"]["status"].is_object();
        assert_eq!(has_status(crd), has_status(&theirs), "{kind}");
    }
}

/// Decodes into the typed kind and encodes again. None for a kind without a type.
fn round_trip(object: &Value) -> Option<Result<Value, String>> {
    fn via<K: serde::Serialize + serde::de::DeserializeOwned>(object: &Value) -> Result<Value, String> {
        let typed: K = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
        serde_json::to_value(typed).map_err(|error| error.to_string())
    }
    Some(match object["kind"].as_str()? {
        "Cluster" => via::<api::cluster::Cluster>(object),
        "Machine" => via::<api::machine::Machine>(object),
        "MachineSet" => via::<api::machine_set::MachineSet>(object),
        "MachineDeployment" => via::<api::machine_deployment::MachineDeployment>(object),
        "MachinePool" => via::<api::machine_pool::MachinePool>(object),
        "MachineHealthCheck" => via::<api::machine_health_check::MachineHealthCheck>(object),
        "MachineDrainRule" => via::<api::machine_drain_rule::MachineDrainRule>(object),
        "ExtensionConfig" => via::<api::extension_config::ExtensionConfig>(object),
        "KubeadmControlPlane" => via::<api::control_plane::KubeadmControlPlane>(object),
        "KubeadmControlPlaneTemplate" => via::<api::control_plane::KubeadmControlPlaneTemplate>(object),
        "KubeadmConfig" => via::<api::bootstrap::KubeadmConfig>(object),
        "KubeadmConfigTemplate" => via::<api::bootstrap::KubeadmConfigTemplate>(object),
        "DevCluster" => via::<api::dev::DevCluster>(object),
        "DevClusterTemplate" => via::<api::dev::DevClusterTemplate>(object),
        "DevMachine" => via::<api::dev::DevMachine>(object),
        "DevMachineTemplate" => via::<api::dev::DevMachineTemplate>(object),
        "DevMachinePool" => via::<api::dev_pool::DevMachinePool>(object),
        _ => return None,
    })
}

#[test]
fn sample_objects_survive_a_round_trip() {
    let Some(folder) = shared("samples") else { return };
    let validators = Validators::new();
    let (mut kept, mut untyped) = (0, BTreeMap::<String, usize>::new());
    for file in yaml_files(&folder) {
        for object in documents(&file) {
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            validators.assert_valid(&object);
            match round_trip(&object) {
                None => *untyped.entry(kind).or_default() += 1,
                Some(Err(error)) => {
                    panic!("{}: {kind} {}: {error}", file.display(), object["metadata"]["name"])
                }
                Some(Ok(encoded)) => {
                    let lost = k8s_machinery::merge::merge_diff(&encoded, &object);
                    assert_eq!(lost, None, "{}: {kind} {}", file.display(), object["metadata"]["name"]);
                    kept += 1;
                }
            }
        }
    }
    println!("{kept} objects kept every field; kinds without a type: {untyped:?}");
    assert!(kept > 0);
}

/// Our own server's view of our definitions.
struct Validators(BTreeMap<String, Schema>);

impl Validators {
    fn new() -> Self {
        let compile = |(kind, crd): (String, Value)| {
            let version = newest(&crd);
            let name = version["name"].as_str().unwrap();
            let schema = Schema::custom(&kind, name, &version["schema"]["openAPIV3Schema"], "schema");
            (kind.clone(), schema.unwrap_or_else(|causes| panic!("{kind}: {causes:?}")))
        };
        Self(ours().into_iter().map(compile).collect())
    }

    /// Nothing unknown, nothing invalid. Kinds without a definition pass.
    fn assert_valid(&self, object: &Value) {
        let Some(schema) = self.0.get(object["kind"].as_str().unwrap_or_default()) else { return };
        let name = &object["metadata"]["name"];
        let mut decoded = object.clone();
        let unknown = schema.decode(&mut decoded).unwrap_or_else(|failure| panic!("{name}: {failure:?}"));
        assert!(unknown.is_empty(), "{} {name}: {unknown:?}", object["kind"]);
        let causes = schema.validate(&decoded, None);
        assert!(causes.is_empty(), "{} {name}: {causes:?}", object["kind"]);
    }
}

#[test]
fn our_server_takes_our_definitions() {
    for (kind, mut crd) in ours() {
        crd::default(&mut crd);
        let causes = crd::check(&crd, None);
        assert!(causes.is_empty(), "{kind}: {causes:?}");
    }
}

/// By name, of a new server that serves these definitions.
async fn uids(definitions: &[CustomResourceDefinition]) -> BTreeMap<String, Option<String>> {
    let tokens = Tokens { admin: "a".to_owned(), read_only: "r".to_owned() };
    let (definitions, admission) = (definitions.to_vec(), Arc::new(AdmitAll));
    let options = Options { clock: Clock::system(), rng: Rng::seeded(7), definitions, tokens, admission };
    let server = ApiServer::open(Arc::new(MemoryStore::new()), options).await.unwrap();
    let client = in_process(server, "test", "default", false).client;
    let (namespaces, definitions) =
        (Api::<Namespace>::all(client.clone()), Api::<CustomResourceDefinition>::all(client));
    let all = ListParams::default();
    let (namespaces, definitions) =
        (namespaces.list(&all).await.unwrap(), definitions.list(&all).await.unwrap());
    let namespaces = namespaces.items.iter().map(|it| it.meta().clone());
    let all = namespaces.chain(definitions.items.iter().map(|it| it.meta().clone()));
    all.map(|meta| (meta.name.unwrap_or_default(), meta.uid)).collect()
}

/// What the same seed makes does not depend on how many kinds there are.
#[tokio::test]
async fn another_definition_changes_no_uid() {
    let all = crds::all();
    let (more, fewer) = (uids(&all).await, uids(&all[1..]).await);
    assert_eq!(more.len(), fewer.len() + 1);
    assert!(fewer.iter().all(|(name, uid)| uid.is_some() && more.get(name) == Some(uid)));
    let distinct: BTreeSet<_> = more.values().collect();
    assert_eq!(distinct.len(), more.len());
}

/// What a kube-apiserver demands of a schema beyond OpenAPI.
fn assert_structural(schema: &Value, path: &str) {
    let object = schema.as_object().unwrap_or_else(|| panic!("{path}: not a schema"));
    for forbidden in ["$ref", "$defs", "definitions", "uniqueItems", "nullable", "oneOf", "title"] {
        assert!(!object.contains_key(forbidden), "{path}: {forbidden}");
    }
    let free = object.contains_key("x-kubernetes-int-or-string")
        || object.contains_key("x-kubernetes-preserve-unknown-fields");
    assert!(free || schema["type"].is_string(), "{path}: no type");
    assert!(free || !object.contains_key("anyOf"), "{path}: anyOf");
    let properties = schema["properties"].as_object();
    assert!(
        properties.is_none() || !object.contains_key("additionalProperties"),
        "{path}: properties and additionalProperties"
    );
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(
            properties.is_some_and(|properties| properties.contains_key(name)),
            "{path}: required {name}"
        );
    }
    for key in schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str)
    {
        let required = schema["items"]["required"].as_array().into_iter().flatten();
        let defaulted = !schema["items"]["properties"][key]["default"].is_null();
        assert!(defaulted || required.into_iter().any(|name| name == key), "{path}: optional list key {key}");
    }
    for (name, property) in properties.into_iter().flatten() {
        assert_structural(property, &format!("{path}.{name}"));
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if object.contains_key(key) {
            assert_structural(&schema[key], &format!("{path}{mark}"));
        }
    }
}

#[test]
fn every_schema_is_structural() {
    for (kind, crd) in ours() {
        assert_structural(&newest(&crd)["schema"]["openAPIV3Schema"], &kind);
    }
}

#[test]
fn absent_fields_stay_absent() {
    let object = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "metadata": { "name": "md", "namespace": "default" },
        "spec": {
            "clusterName": "c",
            "replicas": 0,
            "selector": { "matchLabels": { "a": "b" } },
            "rollout": { "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": 0 } } },
            "template": { "spec": {
                "clusterName": "c",
                "bootstrap": { "dataSecretName": "" },
                "infrastructureRef": { "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t" },
            } },
        },
    });
    assert_eq!(round_trip(&object), Some(Ok(object)));
}

#[test]
fn unknown_fields_do_not_stop_decoding() {
    let object = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": { "name": "c", "namespace": "default" },
        "spec": { "paused": true, "novelty": { "x": 1 } },
        "status": { "phase": "Hovering", "novelty": [] },
    });
    let encoded = round_trip(&object).unwrap().unwrap();
    assert_eq!(encoded["spec"], json!({ "paused": true }));
    assert_eq!(encoded["status"], json!({ "phase": "Hovering" }));
}

#[test]
fn samples_are_valid_and_use_only_fields_that_the_types_know() {
    let validators = Validators::new();
    let now = capstan_base::time::parse_rfc3339("2026-11-20T10:00:00Z").unwrap();
    let names =
        samples::names().iter().map(|entry| entry.name).chain(["synthetic:clusters=30,machines=3000"]);
    for name in names {
        for object in Sample::parse(name).unwrap().objects(now) {
            validators.assert_valid(&object);
            let Some(encoded) = round_trip(&object) else {
                assert_eq!(object["kind"], "Namespace");
                continue;
            };
            let lost = k8s_machinery::merge::merge_diff(&encoded.unwrap(), &object);
            assert_eq!(lost, None, "{name}: {} {}", object["kind"], object["metadata"]["name"]);
        }
    }
}
