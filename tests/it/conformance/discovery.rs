//! Statements 1-21: URLs, discovery, OpenAPI.

use base64::Engine as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::wire::{Port, code};
use super::{Ask, DEFINITIONS, JSON, Site, THINGS, thing};

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const V2BETA1: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// A cluster-wide kind `Pet` with these versions: name, served, stored.
fn pets(versions: &[(&str, bool, bool)]) -> CustomResourceDefinition {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(name, served, storage)| {
            json!({ "name": name, "served": served, "storage": storage,
                    "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } })
        })
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "pets.zoo.io" },
        "spec": { "group": "zoo.io", "scope": "Cluster", "versions": versions,
                  "names": { "kind": "Pet", "plural": "pets", "shortNames": ["p"], "categories": ["all"] } },
    }))
    .expect("a definition")
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    list.as_array().into_iter().flatten().find(|item| item["name"] == name).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn s001_the_version_is_semantic() {
    let site = Site::open().await;
    let answer = site.guarded().get("/version").await.expect(200);
    assert_eq!(answer.header("content-type"), JSON);
    let version = answer.json();
    let text = version["gitVersion"].as_str().expect("a text").strip_prefix('v').expect("a v");
    let parsed = semver::Version::parse(text).expect("semantic");
    assert_eq!(version["major"], parsed.major.to_string());
    assert_eq!(version["minor"], parsed.minor.to_string());
    assert!(parsed.minor >= 20, "clusterctl wants at least 1.20");
    for field in ["gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"] {
        assert!(version[field].is_string(), "{field}");
    }
}

#[tokio::test]
async fn s002_health_is_told_to_everybody() {
    let site = Site::open().await.guarded();
    for path in [
        "/readyz",
        "/livez",
        "/healthz",
        "/healthz/",
        "/readyz/ping",
        "/livez/store",
        "/readyz?exclude=store",
        "/readyz?exclude=store&exclude=kubeconfigs",
    ] {
        let answer = site.get(path).await.expect(200);
        assert_eq!(
            (answer.text().as_str(), answer.header("content-type")),
            ("ok", "text/plain; charset=utf-8"),
            "{path}"
        );
    }
    let all = site.get("/readyz?verbose").await.expect(200).text();
    assert_eq!(all, "[+]ping ok\n[+]store ok\n[+]kubeconfigs ok\nreadyz check passed\n");
    site.get("/readyz/nonsense").await.expect(404);
    // Before a server serves there is nobody to answer: an address is refused, not half open.
    let port = Port::open().await;
    assert_eq!(code(&port.get("/readyz", None, &[]).await), 200);
    let address = port.address();
    drop(port);
    tokio::task::yield_now().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn s003_the_core_group_has_one_version() {
    let site = Site::open().await;
    let answer = site.send(Ask::get("/api").accept(JSON).header("host", "127.0.0.1:6443")).await.expect(200);
    assert_eq!(
        answer.json(),
        json!({ "kind": "APIVersions", "versions": ["v1"],
                "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443" }] })
    );
    assert_eq!(answer.header("vary"), "Accept");
}

#[tokio::test]
async fn s004_s005_groups_prefer_their_best_version() {
    let names = ["foo10", "v1beta1", "v1alpha3", "v1", "v1beta2"];
    let versions: Vec<_> = names.map(|name| (name, true, name == "v1beta1")).to_vec();
    let site = Site::serving(vec![pets(&versions)]).await;
    let list = site.get("/apis").await.expect(200).json();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("APIGroupList"), &json!("v1")));
    let zoo = named(&list["groups"], "zoo.io");
    assert_eq!(zoo["preferredVersion"], json!({ "groupVersion": "zoo.io/v1", "version": "v1" }));
    let order: Vec<&Value> =
        zoo["versions"].as_array().expect("versions").iter().map(|version| &version["version"]).collect();
    assert_eq!(order, ["v1", "v1beta2", "v1beta1", "v1alpha3", "foo10"]);
    for group in ["apiextensions.k8s.io", "authorization.k8s.io", "coordination.k8s.io", "events.k8s.io"] {
        assert_eq!(named(&list["groups"], group)["preferredVersion"]["version"], "v1", "{group}");
    }
    let mut alone = zoo.clone();
    alone["kind"] = json!("APIGroup");
    alone["apiVersion"] = json!("v1");
    assert_eq!(site.get("/apis/zoo.io").await.expect(200).json(), alone);
}

#[tokio::test]
async fn s006_resources_are_listed_with_their_subresources() {
    let site = Site::open().await;
    let list = site.get("/apis/example.io/v1").await.expect(200).json();
    assert_eq!((&list["kind"], &list["groupVersion"]), (&json!("APIResourceList"), &json!("example.io/v1")));
    let verbs = json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
    let things = named(&list["resources"], "things");
    assert_eq!((&things["singularName"], &things["namespaced"]), (&json!("thing"), &json!(true)));
    assert_eq!(
        (&things["kind"], &things["shortNames"], &things["verbs"]),
        (&json!("Thing"), &json!(["th"]), &verbs)
    );
    let scale = named(&list["resources"], "things/scale");
    assert_eq!(
        scale,
        &json!({ "name": "things/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
                 "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"] })
    );
    let status = named(&list["resources"], "things/status");
    assert_eq!((&status["kind"], status.get("group")), (&json!("Thing"), None));
    let core = site.get("/api/v1").await.expect(200).json();
    assert_eq!((&core["groupVersion"], core.get("apiVersion")), (&json!("v1"), None));
    for (plural, short) in [("namespaces", "ns"), ("configmaps", "cm"), ("events", "ev"), ("nodes", "no")] {
        assert_eq!(named(&core["resources"], plural)["shortNames"], json!([short]), "{plural}");
    }
    let namespace_verbs = &named(&core["resources"], "namespaces")["verbs"];
    assert!(!namespace_verbs.to_string().contains("deletecollection"), "{namespace_verbs}");
}

#[tokio::test]
async fn s007_aggregated_discovery_has_its_media_type() {
    let site = Site::open().await;
    let asked = format!("{V2},{V2BETA1},application/json");
    let answer = site.send(Ask::get("/apis").accept(&asked)).await.expect(200);
    assert_eq!(answer.header("content-type"), V2);
    let document = answer.json();
    assert_eq!(document["apiVersion"], "apidiscovery.k8s.io/v2");
    let items = document["items"].as_array().expect("groups");
    let group = items.iter().find(|item| item["metadata"]["name"] == "example.io").expect("the group");
    assert_eq!(
        group["versions"],
        json!([{ "version": "v1", "freshness": "Current", "resources": [{
            "resource": "things", "scope": "Namespaced", "singularResource": "thing", "shortNames": ["th"],
            "responseKind": { "group": "example.io", "version": "v1", "kind": "Thing" },
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "subresources": [
                { "subresource": "scale", "verbs": ["get", "patch", "update"],
                  "responseKind": { "group": "autoscaling", "version": "v1", "kind": "Scale" } },
                { "subresource": "status", "verbs": ["get", "patch", "update"],
                  "responseKind": { "group": "example.io", "version": "v1", "kind": "Thing" } }] }] }])
    );
    let core = site.send(Ask::get("/api").accept(&asked)).await.expect(200).json();
    assert_eq!(core["items"].as_array().map(Vec::len), Some(1));
    assert!(core["items"][0]["metadata"].get("name").is_none());
}

#[tokio::test]
async fn s008_old_clients_get_the_classic_document() {
    let site = Site::open().await;
    for accept in [format!("{V2BETA1},application/json"), format!("application/json,{V2}"), String::new()] {
        let answer = site.send(Ask::get("/apis").accept(&accept)).await.expect(200);
        assert_eq!(
            (answer.header("content-type"), &answer.json()["kind"]),
            (JSON, &json!("APIGroupList")),
            "{accept}"
        );
    }
}

#[tokio::test]
async fn s009_aggregated_discovery_is_tagged() {
    let site = Site::open().await;
    let ask = || Ask::get("/apis").accept(V2);
    let first = site.send(ask()).await.expect(200);
    let tag = first.header("etag").to_owned();
    assert!(tag.len() > 10 && tag.starts_with('"') && tag.ends_with('"'), "{tag}");
    assert_eq!((first.header("vary"), first.header("cache-control")), ("Accept", "public"));
    let same = site.send(ask().header("if-none-match", &tag)).await.expect(304);
    assert!(same.body.is_empty() && same.header("etag") == tag);
    site.made(DEFINITIONS, &serde_json::to_value(pets(&[("v1", true, true)])).expect("json")).await;
    let other = site.send(ask().header("if-none-match", &tag)).await.expect(200);
    assert_ne!(other.header("etag"), tag);
}

#[tokio::test]
async fn s010_s011_definitions_come_and_go() {
    let site = Site::open().await;
    let served = |answer: &super::Answer| answer.text().contains("zoo.io");
    assert!(!served(&site.get("/apis").await));
    let versions = [("v1", true, true), ("v1beta1", false, false)];
    site.made(DEFINITIONS, &serde_json::to_value(pets(&versions)).expect("json")).await;
    // Established when it was answered, so visible at once.
    let listed = site.get("/apis").await;
    assert!(served(&listed) && !listed.text().contains("v1beta1"));
    site.get("/apis/zoo.io/v1/pets").await.expect(200);
    for path in ["/apis/zoo.io/v1beta1", "/apis/zoo.io/v1beta1/pets", "/openapi/v3/apis/zoo.io/v1beta1"] {
        assert_eq!(site.get(path).await.expect(404).text(), "404 page not found\n", "{path}");
    }
    site.delete(&format!("{DEFINITIONS}/pets.zoo.io")).await.expect(200);
    site.until("/apis", |answer| !served(answer)).await;
    site.get("/apis/zoo.io/v1/pets").await.expect(404);
}

#[tokio::test]
async fn s012_storage_hashes_name_the_stored_version() {
    let site = Site::serving(vec![pets(&[("v1", true, false), ("v1beta1", true, true)])]).await;
    let digest = Sha256::digest("zoo.io/v1beta1/Pet");
    let expected = base64::engine::general_purpose::STANDARD.encode(&digest[..8]);
    for version in ["v1", "v1beta1"] {
        let list = site.get(&format!("/apis/zoo.io/{version}")).await.expect(200).json();
        assert_eq!(named(&list["resources"], "pets")["storageVersionHash"], expected.as_str());
    }
}

#[tokio::test]
async fn s013_what_is_not_served_is_not_found() {
    let site = Site::open().await;
    let core = site.get("/api/v1/gadgets").await.refused(404, "NotFound");
    assert_eq!(
        (core.message(), core.details()),
        ("the server could not find the requested resource", &json!({}))
    );
    for path in [
        "/apis/nope.io/v1/things",
        "/apis/example.io/v2/things",
        "/apis/example.io/v1/gadgets",
        "/apis/example.io/v1/namespaces/default/gadgets/a",
        "/apis/nope.io",
        "/nothing/at/all",
    ] {
        let answer = site.get(path).await.expect(404);
        assert_eq!(
            (answer.text().as_str(), answer.header("content-type")),
            ("404 page not found\n", "text/plain; charset=utf-8"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn s014_paths_and_metrics() {
    let site = Site::open().await;
    let paths = site.get("/").await.expect(200).json();
    let paths: Vec<&str> =
        paths["paths"].as_array().expect("paths").iter().filter_map(Value::as_str).collect();
    assert!(paths.is_sorted(), "{paths:?}");
    for path in ["/api/v1", "/apis/example.io", "/apis/example.io/v1", "/metrics", "/openapi/v3", "/version"]
    {
        assert!(paths.contains(&path), "{path}");
        site.get(path).await.expect(200);
    }
    let answer = site.get("/metrics").await.expect(200);
    assert!(answer.header("content-type").starts_with("text/plain; version=0.0.4"));
    let text = answer.text();
    assert!(text.contains("# TYPE apiserver_request_total counter\n"), "{text}");
    assert!(text.contains("apiserver_request_total{verb=\"GET\",code=\"200\"} 7\n"), "{text}");
    site.guarded().get("/metrics").await.refused(401, "Unauthorized");
}

async fn openapi(site: &Site, path: &str) -> Value {
    let index = site.get("/openapi/v3").await.expect(200).json();
    let url = index["paths"][path]["serverRelativeURL"].as_str().expect("listed").to_owned();
    site.get(&url).await.expect(200).json()
}

#[tokio::test]
async fn s015_s016_openapi_documents_are_found_by_hash() {
    let site = Site::open().await;
    let index = site.get("/openapi/v3?timeout=32s").await.expect(200).json();
    for path in ["api/v1", "apis/example.io/v1", "apis/coordination.k8s.io/v1"] {
        let url = index["paths"][path]["serverRelativeURL"].as_str().expect("listed");
        let (start, hash) = url.split_once("?hash=").expect("a hash");
        assert_eq!((start, hash.len()), (format!("/openapi/v3/{path}").as_str(), 64));
        let answer = site.get(&format!("{url}&timeout=32s")).await.expect(200);
        assert_eq!((answer.header("cache-control"), answer.header("vary")), ("public, immutable", "Accept"));
        assert!(answer.header("etag").starts_with('"') && answer.header("expires").ends_with("GMT"));
        let without = site.get(start).await.expect(200);
        assert_eq!((without.header("cache-control"), &without.body), ("public", &answer.body));
        let moved = site.get(&format!("{start}?hash=0123")).await.expect(301);
        assert_eq!(moved.header("location"), url);
    }
    site.get("/openapi/v3/apis/nope.io/v1").await.expect(404);
}

#[tokio::test]
async fn s017_s018_every_patch_says_what_it_takes() {
    let site = Site::open().await;
    for path in
        ["api/v1", "apis/example.io/v1", "apis/coordination.k8s.io/v1", "apis/apiextensions.k8s.io/v1"]
    {
        let document = openapi(&site, path).await;
        let operations: Vec<(&String, &Value)> = document["paths"]
            .as_object()
            .expect("paths")
            .iter()
            .filter_map(|(path, item)| item.get("patch").map(|patch| (path, patch)))
            .collect();
        assert!(!operations.is_empty(), "{path}");
        for (path, patch) in operations {
            let kind = &patch["x-kubernetes-group-version-kind"];
            assert!(
                kind["kind"].is_string() && kind["version"] == "v1" && kind["group"].is_string(),
                "{path}: {kind}"
            );
            for name in ["dryRun", "fieldValidation"] {
                let parameter = named(&patch["parameters"], name);
                assert_eq!(parameter["in"], "query", "{path}: {name}");
            }
        }
    }
    let core = openapi(&site, "api/v1").await;
    let patch = &core["paths"]["/api/v1/namespaces/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({ "group": "", "version": "v1", "kind": "Namespace" })
    );
}

#[tokio::test]
async fn s020_only_built_in_kinds_offer_strategic_merge() {
    let site = Site::open().await;
    for (document, path, expected) in [
        ("api/v1", "/api/v1/namespaces/{namespace}/configmaps/{name}", true),
        ("apis/example.io/v1", "/apis/example.io/v1/namespaces/{namespace}/things/{name}", false),
    ] {
        let document = openapi(&site, document).await;
        let content = document["paths"][path]["patch"]["requestBody"]["content"].as_object().expect("types");
        assert_eq!(content.contains_key("application/strategic-merge-patch+json"), expected, "{path}");
        assert!(content.contains_key("application/apply-patch+yaml"), "{path}");
    }
}

#[tokio::test]
async fn s021_the_old_openapi_has_no_paths() {
    let site = Site::open().await;
    let document = site.get("/openapi/v2").await.expect(200).json();
    assert_eq!((&document["swagger"], &document["paths"]), (&json!("2.0"), &json!({})));
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let answer = site.send(Ask::get("/openapi/v2").accept(protobuf)).await.expect(200);
    assert_eq!(answer.header("content-type"), "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
}

#[tokio::test]
async fn urls_find_what_they_name() {
    let site = Site::open().await;
    site.made(THINGS, &thing("a", json!({}))).await;
    // A name wins over `watch`; a namespace in the wrong place is no path.
    assert_eq!(site.get(&format!("{THINGS}/a?watch=1")).await.expect(200).json()["kind"], "Thing");
    site.get("/apis/example.io/v1/things").await.expect(200);
    site.get("/apis/example.io/v1/things/a").await.expect(404);
    site.get("/api/v1/namespaces/default/nodes").await.expect(404);
    site.post("/apis/example.io/v1/things", &thing("b", json!({}))).await.expect(404);
    // POST to a name creates; PUT without one cannot.
    site.post(&format!("{THINGS}/a"), &thing("a", json!({}))).await.refused(409, "AlreadyExists");
    let nameless = site.put(THINGS, &thing("a", json!({}))).await.refused(400, "BadRequest");
    assert_eq!(nameless.message(), "name must be provided");
    for method in [http::Method::OPTIONS, http::Method::TRACE] {
        site.send(Ask::new(method, THINGS)).await.refused(405, "MethodNotAllowed");
    }
}
