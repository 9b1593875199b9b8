//! API semantics through the real client, in process: what kube, client-go and kubectl rely on.
//! Numbers in comments are lines of the conformance list these tests were written from.

mod watching;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use capstan_apiserver::{ApiServer, Identity};
use capstan_store::{MemoryStore, Store};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Secret};
use k8s_openapi::api::events::v1::Event as NewEvent;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy, WatchParams,
};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::things::{definition, options};

const SOON: Duration = Duration::from_secs(20);

struct Fixture {
    server: ApiServer,
    client: Client,
    store: Arc<MemoryStore>,
}

async fn fixture() -> Fixture {
    let store = Arc::new(MemoryStore::new());
    let server = ApiServer::open(store.clone(), options(vec![definition()])).await.expect("a server");
    Fixture { client: Client::new(server.clone(), "default"), server, store }
}

impl Fixture {
    fn things(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), "default", &thing_resource())
    }

    async fn raw(&self, uri: &str, accept: &str) -> Result<String, kube::Error> {
        let request = http::Request::get(uri).header("accept", accept).body(Vec::new()).expect("a request");
        self.client.request_text(request).await
    }
}

fn thing_resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.io", "v1", "Thing"), "things")
}

fn thing(name: &str, spec: Value) -> DynamicObject {
    DynamicObject::new(name, &thing_resource()).data(json!({ "spec": spec }))
}

fn config_map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let data: BTreeMap<String, String> =
        data.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some(name.to_owned());
    map
}

fn status_of(error: kube::Error) -> Box<kube::core::Status> {
    match error {
        kube::Error::Api(status) => status,
        other => panic!("not an answer of the server: {other}"),
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> u16 {
    result.map_or_else(|error| status_of(error).code, |_| 0)
}

#[tokio::test]
async fn s006_s014_discovery_both_ways_names_the_same_kinds() {
    let fixture = fixture().await;
    let classic = kube::Discovery::new(fixture.client.clone()).run().await.expect("classic");
    let aggregated = kube::Discovery::new(fixture.client.clone()).run_aggregated().await.expect("aggregated");
    for discovery in [&classic, &aggregated] {
        let (resource, capabilities) =
            discovery.resolve_gvk(&GroupVersionKind::gvk("example.io", "v1", "Thing")).expect("served");
        assert_eq!(resource.plural, "things");
        assert_eq!(capabilities.subresources.len(), 2);
        assert!(discovery.has_group("coordination.k8s.io") && discovery.has_group("events.k8s.io"));
    }
    assert_eq!(fixture.client.apiserver_version().await.expect("a version").major, "1");
    assert_eq!(fixture.raw("/readyz", "*/*").await.expect("ready"), "ok");
    let paths = fixture.raw("/", "application/json").await.expect("paths");
    assert!(paths.contains("/apis/example.io/v1"));
    assert_eq!(code(fixture.raw("/api/v1/pods", "*/*").await), 404);
}

#[tokio::test]
async fn s058_s060_s081_an_object_lives() {
    let fixture = fixture().await;
    let things = fixture.things();
    // 50, 51, 58-60: what the server sets, and what it counts.
    let mut draft = thing("a", json!({ "replicas": 1 }));
    draft.data["status"] = json!({ "early": true });
    draft.metadata.uid = Some("mine".to_owned());
    draft.metadata.generation = Some(9);
    let made = things.create(&PostParams::default(), &draft).await.expect("created");
    assert_eq!((made.metadata.generation, &made.data["spec"]["mode"]), (Some(1), &json!("fast")));
    assert!(made.data.get("status").is_none() && made.uid().is_some_and(|uid| uid.len() == 36));
    assert_eq!(code(things.create(&PostParams::default(), &draft).await), 409);
    let merge = |patch: Value| Patch::Merge(patch);
    let params = PatchParams::default();
    let wider =
        things.patch("a", &params, &merge(json!({ "spec": { "replicas": 2 } }))).await.expect("patched");
    assert_eq!(wider.metadata.generation, Some(2));
    let labelled = things
        .patch("a", &params, &merge(json!({ "metadata": { "labels": { "x": "y" } } })))
        .await
        .expect("labelled");
    assert_eq!(labelled.metadata.generation, Some(2));
    let status = json!({ "status": { "replicas": 2, "selector": "a=b" }, "spec": { "replicas": 9 } });
    let reported = things.patch_status("a", &params, &merge(status)).await.expect("status");
    assert_eq!((reported.metadata.generation, &reported.data["spec"]["replicas"]), (Some(2), &json!(2)));
    // 57, 59: nothing changes, nothing is written.
    let version = reported.resource_version();
    for nothing in [json!({}), json!({ "status": { "replicas": 7 } }), json!({ "spec": { "mode": "fast" } })]
    {
        let same = things.patch("a", &params, &merge(nothing)).await.expect("no change");
        assert_eq!(same.resource_version(), version);
    }
    // 80, 81: scale.
    let scale = things.get_scale("a").await.expect("a scale");
    assert_eq!(
        (scale.spec.and_then(|s| s.replicas), scale.status.and_then(|s| s.selector)),
        (Some(2), Some("a=b".into()))
    );
    let scaled =
        things.patch_scale("a", &params, &merge(json!({ "spec": { "replicas": 5 } }))).await.expect("scaled");
    assert_eq!(scaled.spec.and_then(|s| s.replicas), Some(5));
    assert_eq!(things.get("a").await.expect("there").metadata.generation, Some(3));
    // JSON patch, with a test that fails.
    let operations = |value: u32| {
        serde_json::from_value(json!([
            { "op": "test", "path": "/spec/replicas", "value": value },
            { "op": "replace", "path": "/spec/replicas", "value": 6 }]))
        .map(Patch::<()>::Json)
        .expect("operations")
    };
    assert_eq!(code(things.patch("a", &params, &operations(1)).await), 422);
    assert!(things.patch("a", &params, &operations(5)).await.is_ok());
    let gone =
        things.delete("a", &DeleteParams::default()).await.expect("deleted").right().expect("a status");
    assert_eq!(gone.details.map(|d| d.uid), made.uid());
    assert_eq!(code(things.get("a").await), 404);
}

#[tokio::test]
async fn s044_s061_s068_writers_that_read_too_early_are_told() {
    let fixture = fixture().await;
    let things = fixture.things();
    let first = things.create(&PostParams::default(), &thing("a", json!({}))).await.expect("created");
    let mut second = first.clone();
    second.data["spec"]["note"] = "x".into();
    let updated = things.replace("a", &PostParams::default(), &second).await.expect("first wins");
    assert!(updated.resource_version() > first.resource_version());
    let late = status_of(things.replace("a", &PostParams::default(), &second).await.expect_err("late"));
    assert!(late.is_conflict() && late.message.contains("the object has been modified"), "{}", late.message);
    let lock =
        json!({ "metadata": { "resourceVersion": first.resource_version() }, "spec": { "note": "z" } });
    assert_eq!(code(things.patch("a", &PatchParams::default(), &Patch::Merge(lock)).await), 409);
    // 61: custom resources insist, ConfigMaps do not.
    second.metadata.resource_version = None;
    assert_eq!(code(things.replace("a", &PostParams::default(), &second).await), 422);
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client.clone());
    maps.create(&PostParams::default(), &config_map("m", &[("k", "1")])).await.expect("created");
    assert!(maps.replace("m", &PostParams::default(), &config_map("m", &[("k", "2")])).await.is_ok());
    let wrong_uid = DeleteParams {
        preconditions: Some(kube::api::Preconditions { uid: Some("nope".into()), resource_version: None }),
        ..DeleteParams::default()
    };
    assert_eq!(code(things.delete("a", &wrong_uid).await), 409);
}

#[tokio::test]
async fn invalid_objects_are_refused_with_causes() {
    let fixture = fixture().await;
    let things = fixture.things();
    let wrong = thing("a", json!({ "replicas": -1, "mode": "odd", "note": "n".repeat(30) }));
    let status = status_of(things.create(&PostParams::default(), &wrong).await.expect_err("invalid"));
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let causes = status.details.map(|details| details.causes).unwrap_or_default();
    // Replicas below zero are wrong twice: for the schema, and for the scale subresource.
    assert_eq!(causes.len(), 4, "{causes:?}");
    assert!(status.message.starts_with("Thing.example.io \"a\" is invalid: ["), "{}", status.message);
    for (name, expected) in [("Upper", 422), ("", 422), ("with/slash", 422)] {
        let mut bad = thing("x", json!({}));
        bad.metadata.name = Some(name.to_owned()).filter(|name| !name.is_empty());
        assert_eq!(code(things.create(&PostParams::default(), &bad).await), expected, "{name}");
    }
    let elsewhere: Api<ConfigMap> = Api::namespaced(fixture.client.clone(), "nowhere");
    let missing =
        status_of(elsewhere.create(&PostParams::default(), &config_map("m", &[])).await.expect_err("404"));
    assert_eq!(missing.message, "namespaces \"nowhere\" not found");
    // 75: unknown fields.
    let post = |query: &str| {
        let body = json!({ "apiVersion": "example.io/v1", "kind": "Thing", "metadata": { "name": "u" }, "spec": { "zork": 1 } });
        http::Request::post(format!("/apis/example.io/v1/namespaces/default/things?{query}"))
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&body).expect("json"))
            .expect("a request")
    };
    let strict = fixture.client.request::<Value>(post("fieldValidation=Strict")).await;
    let strict = status_of(strict.expect_err("strict"));
    assert!(
        strict.message.ends_with("strict decoding error: unknown field \"spec.zork\""),
        "{}",
        strict.message
    );
    assert_eq!(code(fixture.client.request::<Value>(post("dryRun=Some")).await), 422);
    let tried = fixture.client.request::<Value>(post("dryRun=All")).await.expect("tried");
    assert!(tried["spec"].get("zork").is_none() && tried["metadata"].get("resourceVersion").is_none());
    assert_eq!(code(things.get("u").await), 404);
    let warned = fixture.client.send(post("").map(kube::client::Body::from)).await.expect("warned");
    assert_eq!(warned.headers()["warning"], "299 - \"unknown field \\\"spec.zork\\\"\"");
}

#[tokio::test]
async fn names_are_generated() {
    let fixture = fixture().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client.clone());
    let mut map = config_map("", &[]);
    map.metadata.name = None;
    map.metadata.generate_name = Some("pre-".to_owned());
    let made = maps.create(&PostParams::default(), &map).await.expect("created");
    assert_eq!(made.name_any().len(), 9);
    assert!(made.metadata.generation.is_none());
}

#[tokio::test]
async fn s085_s086_s087_lists_page_over_one_moment() {
    let fixture = fixture().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client.clone());
    for n in 0..7 {
        let mut map = config_map(&format!("m{n}"), &[]);
        map.labels_mut().insert("odd".to_owned(), (n % 2 == 1).to_string());
        maps.create(&PostParams::default(), &map).await.expect("created");
    }
    let first = maps.list(&ListParams::default().limit(3)).await.expect("page");
    assert_eq!((first.items.len(), first.metadata.remaining_item_count), (3, Some(4)));
    maps.delete("m5", &DeleteParams::default()).await.expect("deleted between pages");
    maps.create(&PostParams::default(), &config_map("m9", &[])).await.expect("created between pages");
    let token = first.metadata.continue_.clone().expect("a token");
    let rest = maps.list(&ListParams::default().continue_token(&token)).await.expect("rest");
    let names: Vec<String> = rest.items.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(names, ["m3", "m4", "m5", "m6"]);
    assert_eq!(rest.metadata.resource_version, first.metadata.resource_version);
    let odd = maps.list(&ListParams::default().labels("odd in (true)").limit(1)).await.expect("odd");
    assert_eq!((odd.items.len(), odd.metadata.remaining_item_count), (1, None));
    assert_eq!(
        maps.list(&ListParams::default().fields("metadata.name=m2")).await.expect("one").items.len(),
        1
    );
    assert_eq!(code(maps.list(&ListParams::default().fields("spec.x=1")).await), 400);
    assert_eq!(code(maps.list(&ListParams::default().labels("a b")).await), 400);
    // 86: a token whose moment is forgotten says how to go on.
    let now = fixture.store.revision().await.expect("a revision");
    fixture.store.compact(now).await.expect("compacted");
    let uri = format!("/api/v1/namespaces/default/configmaps?limit=3&continue={token}");
    let expired = status_of(fixture.raw(&uri, "*/*").await.expect_err("expired"));
    assert_eq!((expired.code, expired.reason.as_str()), (410, "Expired"));
    let deleted =
        maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels("odd=true")).await;
    assert_eq!(deleted.expect("deleted").left().map(|list| list.items.len()), Some(2));
}

async fn until_gone<K>(api: &Api<K>, name: &str)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let gone = async {
        while api.get_opt(name).await.expect("readable").is_some() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, gone).await.unwrap_or_else(|_| panic!("{name} is still there"));
}

fn owned_by(name: &str, owner: &DynamicObject) -> ConfigMap {
    let mut map = config_map(name, &[]);
    let mut reference = owner.owner_ref(&thing_resource()).expect("an owner");
    reference.block_owner_deletion = Some(true);
    map.metadata.owner_references = Some(vec![reference]);
    map
}

#[tokio::test]
async fn s070_dependents_follow_their_owner() {
    let fixture = fixture().await;
    let (things, maps) = (fixture.things(), Api::<ConfigMap>::default_namespaced(fixture.client.clone()));
    let post = PostParams::default();
    let delete = |policy| DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
    for policy in [PropagationPolicy::Background, PropagationPolicy::Foreground] {
        let owner = things.create(&post, &thing("owner", json!({}))).await.expect("owner");
        maps.create(&post, &owned_by("child", &owner)).await.expect("child");
        things.delete("owner", &delete(policy)).await.expect("deleted");
        until_gone(&maps, "child").await;
        until_gone(&things, "owner").await;
    }
    let owner = things.create(&post, &thing("owner", json!({}))).await.expect("owner");
    maps.create(&post, &owned_by("child", &owner)).await.expect("child");
    things.delete("owner", &delete(PropagationPolicy::Orphan)).await.expect("deleted");
    until_gone(&things, "owner").await;
    assert!(maps.get("child").await.expect("kept").owner_references().is_empty());
    // 71: an owner that never was.
    let mut stray = thing("never", json!({}));
    stray.metadata.uid = Some("00000000-0000-4000-8000-000000000000".to_owned());
    maps.create(&post, &owned_by("stray", &stray)).await.expect("stray");
    until_gone(&maps, "stray").await;
}

#[tokio::test]
async fn s065_s066_s067_finalizers_hold_what_is_deleted() {
    let fixture = fixture().await;
    let things = fixture.things();
    let mut held = thing("held", json!({}));
    held.metadata.finalizers = Some(vec!["example.io/hold".to_owned()]);
    things.create(&PostParams::default(), &held).await.expect("created");
    let marked =
        things.delete("held", &DeleteParams::default()).await.expect("asked").left().expect("the object");
    assert!(marked.metadata.deletion_timestamp.is_some());
    assert_eq!(marked.metadata.generation, Some(2));
    let again =
        things.delete("held", &DeleteParams::default()).await.expect("asked").left().expect("the object");
    assert_eq!(again.resource_version(), marked.resource_version());
    let params = PatchParams::default();
    let more = json!({ "metadata": { "finalizers": ["example.io/hold", "example.io/more"] } });
    assert_eq!(code(things.patch("held", &params, &Patch::Merge(more)).await), 422);
    let taken = status_of(things.create(&PostParams::default(), &held).await.expect_err("taken"));
    assert!(taken.message.starts_with("object is being deleted: "), "{}", taken.message);
    let free = json!({ "metadata": { "finalizers": null } });
    things.patch("held", &params, &Patch::Merge(free)).await.expect("freed");
    assert_eq!(code(things.get("held").await), 404);
}

#[tokio::test]
async fn namespaces_take_their_content_with_them() {
    let fixture = fixture().await;
    let namespaces: Api<Namespace> = Api::all(fixture.client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("team".to_owned());
    let made = namespaces.create(&PostParams::default(), &namespace).await.expect("created");
    assert_eq!(made.labels()["kubernetes.io/metadata.name"], "team");
    let secrets: Api<Secret> = Api::namespaced(fixture.client.clone(), "team");
    let mut secret = Secret::default();
    secret.metadata.name = Some("s".to_owned());
    secret.string_data = Some([("k".to_owned(), "v".to_owned())].into());
    let stored = secrets.create(&PostParams::default(), &secret).await.expect("created");
    assert_eq!(
        (stored.type_.as_deref(), stored.data.map(|d| d["k"].0.clone())),
        (Some("Opaque"), Some(b"v".to_vec()))
    );
    let things: Api<DynamicObject> = Api::namespaced_with(fixture.client.clone(), "team", &thing_resource());
    let mut held = thing("held", json!({}));
    held.metadata.finalizers = Some(vec!["example.io/hold".to_owned()]);
    things.create(&PostParams::default(), &held).await.expect("created");
    namespaces.delete("team", &DeleteParams::default()).await.expect("deleted");
    until_gone(&secrets, "s").await;
    let refused = status_of(secrets.create(&PostParams::default(), &secret).await.expect_err("terminating"));
    assert_eq!(refused.code, 403);
    let free = json!({ "metadata": { "finalizers": null } });
    things.patch("held", &PatchParams::default(), &Patch::Merge(free)).await.expect("freed");
    until_gone(&namespaces, "team").await;
    assert_eq!(code(namespaces.delete("default", &DeleteParams::default()).await), 403);
}

#[tokio::test]
async fn a_definition_is_served_at_once_and_withdrawn() {
    let store = Arc::new(MemoryStore::new());
    let server = ApiServer::open(store, options(Vec::new())).await.expect("a server");
    let client = Client::new(server, "default");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let made = definitions.create(&PostParams::default(), &definition()).await.expect("created");
    let conditions = made.status.and_then(|status| status.conditions).unwrap_or_default();
    assert!(conditions.iter().any(|c| c.type_ == "Established" && c.status == "True"));
    let things: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &thing_resource());
    things.create(&PostParams::default(), &thing("a", json!({}))).await.expect("served");
    // What was stored under an older schema is shown by the newer one.
    let mut stricter = definitions.get("things.example.io").await.expect("there");
    let schema = &mut stricter.spec.versions[0].schema.as_mut().expect("a schema").open_api_v3_schema;
    let spec =
        schema.as_mut().and_then(|s| s.properties.as_mut()).and_then(|p| p.get_mut("spec")).expect("spec");
    let added = serde_json::from_value(json!({ "type": "string", "default": "now" })).expect("a schema");
    spec.properties.as_mut().expect("properties").insert("added".to_owned(), added);
    definitions.replace("things.example.io", &PostParams::default(), &stricter).await.expect("replaced");
    assert_eq!(things.get("a").await.expect("there").data["spec"]["added"], "now");
    definitions.delete("things.example.io", &DeleteParams::default()).await.expect("deleted");
    until_gone(&definitions, "things.example.io").await;
    let request = http::Request::get("/apis/example.io/v1").body(Vec::new()).expect("a request");
    assert!(client.request_text(request).await.is_err());
}

#[tokio::test]
async fn a_server_opened_on_a_store_serves_what_is_in_it() {
    let first = fixture().await;
    first.things().create(&PostParams::default(), &thing("a", json!({}))).await.expect("created");
    let reopened = ApiServer::open(first.store.clone(), options(Vec::new())).await.expect("a server");
    let again: Api<DynamicObject> =
        Api::default_namespaced_with(Client::new(reopened, "default"), &thing_resource());
    assert_eq!(again.list(&ListParams::default()).await.expect("served").items.len(), 1);
}

#[tokio::test]
async fn s104_servers_on_one_store_agree_on_what_is_served() {
    let first = fixture().await;
    let second = ApiServer::open(first.store.clone(), options(Vec::new())).await.expect("a server");
    let second = Client::new(second, "default");
    let watched: Api<DynamicObject> = Api::default_namespaced_with(second.clone(), &thing_resource());
    let now = first.store.revision().await.expect("a revision").to_string();
    let watch = watched.watch(&WatchParams::default(), &now).await.expect("a watch");
    let definitions: Api<CustomResourceDefinition> = Api::all(first.client.clone());
    definitions.delete("things.example.io", &DeleteParams::default()).await.expect("deleted");
    // The watch ends, because what it watches is no more.
    let rest: Vec<_> = timeout(SOON, watch.collect()).await.expect("in time");
    assert!(rest.is_empty(), "{rest:?}");
    let gone = async {
        while watched.list(&ListParams::default()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, gone).await.expect("in time");
}

#[tokio::test]
async fn events_are_one_storage_with_two_views() {
    let fixture = fixture().await;
    let new: Api<NewEvent> = Api::default_namespaced(fixture.client.clone());
    let old: Api<Event> = Api::default_namespaced(fixture.client.clone());
    let event: NewEvent = serde_json::from_value(json!({
        "metadata": { "name": "e" }, "eventTime": "2026-11-20T10:00:00.000000Z", "reason": "Tested",
        "note": "a note", "type": "Normal", "action": "Test", "reportingController": "capstan",
        "reportingInstance": "x", "regarding": { "kind": "Thing", "name": "a", "namespace": "default", "uid": "u1" },
    }))
    .expect("an event");
    new.create(&PostParams::default(), &event).await.expect("created");
    let seen =
        old.list(&ListParams::default().fields("involvedObject.uid=u1,reason=Tested")).await.expect("listed");
    assert_eq!(seen.items.first().and_then(|e| e.message.as_deref()), Some("a note"));
    assert_eq!(new.get("e").await.expect("there").note.as_deref(), Some("a note"));
}

#[tokio::test]
async fn s048_s148_readers_may_read_and_no_more() {
    let fixture = fixture().await;
    let viewer = Client::new(fixture.server.acting_as(Identity::READ_ONLY), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(viewer.clone());
    assert!(maps.list(&ListParams::default()).await.is_ok());
    let refused =
        status_of(maps.create(&PostParams::default(), &config_map("m", &[])).await.expect_err("refused"));
    assert_eq!(
        refused.message,
        "configmaps is forbidden: User \"capstan-viewer\" cannot create resource \"configmaps\" in API group \"\" in \
         the namespace \"default\""
    );
    let secrets: Api<Secret> = Api::default_namespaced(viewer.clone());
    assert_eq!(code(secrets.list(&ListParams::default()).await), 403);
    let stranger = Client::new(fixture.server.guarded(), "default");
    assert_eq!(
        code(Api::<ConfigMap>::default_namespaced(stranger.clone()).list(&ListParams::default()).await),
        401
    );
    assert!(stranger.apiserver_version().await.is_ok());
}

#[tokio::test]
async fn tables_and_metadata_are_served() {
    let fixture = fixture().await;
    fixture
        .things()
        .create(&PostParams::default(), &thing("a", json!({ "replicas": 3 })))
        .await
        .expect("created");
    let uri = "/apis/example.io/v1/namespaces/default/things";
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let table: Value = serde_json::from_str(&fixture.raw(uri, table).await.expect("a table")).expect("json");
    assert_eq!((&table["kind"], &table["rows"][0]["cells"]), (&json!("Table"), &json!(["a", 3])));
    let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let list: Value =
        serde_json::from_str(&fixture.raw(uri, partial).await.expect("metadata")).expect("json");
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    assert!(list["items"][0].get("spec").is_none());
    assert_eq!(code(fixture.raw(uri, "text/html").await), 406);
}
