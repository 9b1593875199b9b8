//! Statements 50-63: what the server sets, names, counts and keeps when objects are created and updated.

use std::sync::Arc;

use capstan_apiserver::{ApiServer, Options};
use capstan_base::rng::Rng;
use capstan_store::MemoryStore;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{
    Ask, DEFINITIONS, JSON_PATCH, MAPS, MERGE, NAMESPACES, SECRETS, STRATEGIC, Site, THINGS, config_map,
    namespace, thing, version,
};
use crate::things::{definition, options};

pub const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const PLAINS: &str = "/apis/example.io/v1/namespaces/default/plains";
const NODES: &str = "/api/v1/nodes";

/// `plains.example.io`: without subresources.
fn plain_definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": { "name": "plains.example.io" },
        "spec": { "group": "example.io", "scope": "Namespaced",
            "names": { "kind": "Plain", "plural": "plains" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] },
    }))
    .expect("a definition")
}

fn plain(name: &str) -> Value {
    json!({ "apiVersion": "example.io/v1", "kind": "Plain", "metadata": { "name": name } })
}

pub fn lease(name: &str) -> Value {
    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": name },
        "spec": { "holderIdentity": "a" } })
}

pub fn secret(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name } })
}

fn node(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } })
}

/// Where each kind lives, and one object of it.
fn kinds(name: &str) -> [(&'static str, Value); 6] {
    [
        (THINGS, thing(name, json!({ "replicas": 1 }))),
        (MAPS, config_map(name, json!({ "k": "v" }))),
        (SECRETS, secret(name)),
        (LEASES, lease(name)),
        (NAMESPACES, namespace(name)),
        (NODES, node(name)),
    ]
}

/// An owner that the collector leaves alone: its kind is not served.
pub fn stranger(uid: &str) -> Value {
    json!({ "apiVersion": "other.io/v1", "kind": "Other", "name": "o", "uid": uid })
}

#[tokio::test(start_paused = true)]
async fn s050_what_only_the_server_sets_is_ignored_on_create() {
    let site = Site::paused().await;
    let system = json!({ "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9,
        "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5, "selfLink": "/x" });
    for (path, object) in kinds("a") {
        let mut object = object;
        for (field, value) in system.as_object().expect("fields") {
            object["metadata"][field] = value.clone();
        }
        object["status"] = json!({ "early": true });
        let made = site.made(path, &object).await;
        let metadata = &made["metadata"];
        assert_eq!(metadata["creationTimestamp"], "2026-11-20T10:00:00Z", "{path}");
        assert_ne!(metadata["uid"], "mine", "{path}");
        for gone in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            assert!(metadata.get(gone).is_none(), "{path}: {gone}");
        }
        assert!(made["status"].get("early").is_none(), "{path}");
        let generation = if path == THINGS { json!(1) } else { Value::Null };
        assert_eq!(metadata["generation"], generation, "{path}");
        assert_eq!(site.get(&format!("{path}/a")).await.expect(200).json(), made, "{path}");
    }
}

#[tokio::test]
async fn s050_status_is_content_where_there_is_no_status_endpoint() {
    let site = Site::serving(vec![plain_definition()]).await;
    let mut object = plain("a");
    object["status"] = json!({ "early": true });
    assert_eq!(site.made(PLAINS, &object).await["status"], json!({ "early": true }));
    let status = site.get(&format!("{PLAINS}/a/status")).await.refused(404, "NotFound");
    assert_eq!(status.message(), "plains.example.io \"a\" not found");
}

#[tokio::test]
async fn s051_uids_are_fresh_and_times_are_whole_seconds() {
    let site = Site::open().await;
    let mut seen = std::collections::BTreeSet::new();
    for (path, object) in kinds("a").into_iter().chain(kinds("b")) {
        let made = site.made(path, &object).await;
        let uid = made["metadata"]["uid"].as_str().expect("a uid").to_owned();
        let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uid}");
        assert_eq!(&uid[14..15], "4", "{uid}");
        assert!(matches!(&uid[19..20], "8" | "9" | "a" | "b"), "{uid}");
        assert!(seen.insert(uid), "a uid twice");
        let time = made["metadata"]["creationTimestamp"].as_str().expect("a time");
        assert!(time.len() == 20 && time.ends_with('Z') && !time.contains('.'), "{time}");
        assert_eq!(made["metadata"].get("generation").is_some(), path == THINGS, "{path}");
    }
}

#[tokio::test]
async fn s052_names_are_generated_from_58_characters_and_5_more() {
    let site = Site::open().await;
    for (prefix, kept) in [("pre-".to_owned(), 4), ("x".repeat(70), 58)] {
        let mut map = config_map("", json!({}));
        map["metadata"] = json!({ "generateName": prefix });
        let made = site.made(MAPS, &map).await;
        let name = made["metadata"]["name"].as_str().expect("a name");
        let (start, rest) = name.split_at(kept);
        assert_eq!(start, &prefix[..kept]);
        assert!(rest.len() == 5 && rest.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{name}");
        assert_eq!(made["metadata"]["generateName"], prefix.as_str());
    }
    let mut both = config_map("given", json!({}));
    both["metadata"]["generateName"] = "pre-".into();
    assert_eq!(site.made(MAPS, &both).await["metadata"]["name"], "given");
}

#[tokio::test]
async fn s052_a_taken_name_is_drawn_again() {
    let draw = |store: Arc<MemoryStore>| async move {
        let seeded = Options { rng: Rng::seeded(11), ..options(Vec::new()) };
        let server = ApiServer::open(store.clone(), seeded).await.expect("a server");
        let site = Site { server, store, ..Site::serving(Vec::new()).await };
        let mut map = config_map("", json!({}));
        map["metadata"] = json!({ "generateName": "pre-" });
        site.made(MAPS, &map).await["metadata"]["name"].as_str().expect("a name").to_owned()
    };
    let other = Site::serving(Vec::new()).await;
    other.made(MAPS, &config_map("unrelated", json!({}))).await;
    let first = draw(other.store.clone()).await;
    let other = Site::serving(Vec::new()).await;
    other.made(MAPS, &config_map(&first, json!({}))).await;
    assert_ne!(draw(other.store.clone()).await, first, "the same draws, but this name is taken");
}

#[tokio::test]
async fn s053_a_name_or_its_beginning_is_required() {
    let site = Site::open().await;
    for (path, object) in kinds("") {
        let mut object = object;
        object["metadata"] = json!({});
        let refusal = site.post(path, &object).await.refused(422, "Invalid");
        assert_eq!(refusal.causes(), [("FieldValueRequired", "metadata.name")], "{path}");
        assert_eq!(refusal.cause_messages(), ["Required value: name or generateName is required"]);
    }
}

#[tokio::test]
async fn s054_owners_with_the_same_uid_collapse_with_a_warning() {
    let site = Site::open().await;
    let warning = "299 - \".metadata.ownerReferences contains duplicate entries; API server dedups owner \
                   references in 1.20+, and may reject such requests as early as 1.24; please fix your \
                   requests; duplicate UID(s) observed: u1\"";
    let twice = json!([stranger("u1"), stranger("u2"), stranger("u1")]);
    let once = json!([stranger("u1"), stranger("u2")]);
    let mut map = config_map("a", json!({}));
    map["metadata"]["ownerReferences"] = twice.clone();
    let at = format!("{MAPS}/a");
    for ask in [
        Ask::post(MAPS, &map),
        Ask::put(&at, &map),
        Ask::patch(&at, MERGE, &json!({ "metadata": { "ownerReferences": twice } })),
        Ask::patch(
            &at,
            JSON_PATCH,
            &json!([{ "op": "add", "path": "/metadata/ownerReferences/-", "value": stranger("u1") }]),
        ),
    ] {
        let what = ask.to_string();
        let answer = site.send(ask).await;
        assert!(answer.code < 300, "{what}: {}", answer.text());
        assert_eq!(answer.warnings(), [warning], "{what}");
        assert_eq!(answer.json()["metadata"]["ownerReferences"], once, "{what}");
    }
}

#[tokio::test]
async fn s055_a_namespace_must_be_there_and_stay() {
    let site = Site::open().await;
    let elsewhere = "/api/v1/namespaces/nowhere/configmaps";
    // Even of an object that is wrong in itself.
    for name in ["a", "Not-A-Name"] {
        let refusal = site.post(elsewhere, &config_map(name, json!({}))).await.refused(404, "NotFound");
        assert_eq!(refusal.message(), "namespaces \"nowhere\" not found");
        assert_eq!(refusal.details(), &json!({ "name": "nowhere", "kind": "namespaces" }));
    }
    site.made(NAMESPACES, &namespace("ending")).await;
    let inside = "/apis/example.io/v1/namespaces/ending/things";
    let mut held = thing("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.io/hold"]);
    site.made(inside, &held).await;
    site.delete(&format!("{NAMESPACES}/ending")).await.expect(200);
    let refusal = site.post(inside, &thing("late", json!({}))).await.refused(403, "Forbidden");
    assert_eq!(
        refusal.message(),
        "things.example.io \"late\" is forbidden: unable to create new content in namespace ending because it \
         is being terminated"
    );
    assert_eq!(refusal.causes(), [("NamespaceTerminating", "metadata.namespace")]);
    assert_eq!(refusal.cause_messages(), ["namespace ending is being terminated"]);
    // Updates of what is there go on.
    site.merge(&format!("{inside}/held"), &json!({ "spec": { "note": "x" } })).await.expect(200);
}

#[tokio::test]
async fn s056_s057_writes_that_change_nothing_write_nothing() {
    let site = Site::open().await;
    for (path, object) in kinds("a") {
        let made = site.made(path, &object).await;
        let at = format!("{path}/a");
        let mut events = site.watch(&format!("{path}?watch=1&resourceVersion={}", version(&made))).await;
        let mut asks = vec![
            Ask::put(&at, &made),
            Ask::patch(&at, MERGE, &json!({})),
            Ask::patch(&at, JSON_PATCH, &json!([])),
            Ask::patch(&at, MERGE, &json!({ "metadata": { "labels": { "absent": null } } })),
        ];
        if path != THINGS {
            asks.push(Ask::patch(&at, STRATEGIC, &json!({})));
        }
        for ask in asks {
            let what = ask.to_string();
            assert_eq!(site.send(ask).await.expect(200).json(), made, "{what}");
        }
        let label = json!({ "metadata": { "labels": { "x": "y" } } });
        let changed = site.merge(&at, &label).await.expect(200).json();
        let event = events.event().await.expect("an event");
        assert_eq!((&event["type"], &event["object"]), (&json!("MODIFIED"), &changed), "{path}");
    }
}

#[tokio::test]
async fn s058_the_generation_counts_what_is_asked_for() {
    let site = Site::serving(vec![definition(), plain_definition()]).await;
    let mut object = thing("a", json!({ "replicas": 1 }));
    object["metadata"]["finalizers"] = json!(["example.io/hold"]);
    site.made(THINGS, &object).await;
    site.made(PLAINS, &plain("a")).await;
    let (a, plain) = (format!("{THINGS}/a"), format!("{PLAINS}/a"));
    let status = format!("{a}/status");
    let spec = |field: &str, value: Value| json!({ "spec": { field: value } });
    let steps = [
        (&a, spec("replicas", json!(2)), 2),
        (&a, spec("mode", json!("fast")), 2),
        (&a, json!({ "metadata": { "labels": { "x": "y" } } }), 2),
        (&a, json!({ "metadata": { "annotations": { "x": "y" } } }), 2),
        (&a, json!({ "metadata": { "ownerReferences": [stranger("u")] } }), 2),
        (&a, json!({ "metadata": { "generation": 40 } }), 2),
        (&status, json!({ "status": { "replicas": 1 } }), 2),
        (&a, json!({ "status": { "replicas": 4 } }), 2),
        (&a, spec("note", json!("x")), 3),
        (&plain, json!({ "metadata": { "labels": { "x": "y" } } }), 1),
        (&plain, json!({ "status": { "x": 1 } }), 2),
        (&plain, json!({ "top": 1 }), 3),
        // An integer and a float are two values.
        (&plain, json!({ "top": 1.0 }), 4),
    ];
    for (path, patch, expected) in steps {
        let written = site.merge(path, &patch).await.expect(200).json();
        assert_eq!(written["metadata"]["generation"], expected, "{path} {patch}");
    }
    let dry = site.merge(&format!("{a}?dryRun=All"), &spec("replicas", json!(7))).await.expect(200).json();
    assert_eq!(dry["metadata"]["generation"], 4);
    assert_eq!(site.get(&a).await.json()["metadata"]["generation"], 3);
    site.merge(&format!("{a}/scale"), &spec("replicas", json!(9))).await.expect(200);
    assert_eq!(site.get(&a).await.json()["metadata"]["generation"], 4);
    let asked = site.delete(&a).await.expect(200).json();
    assert_eq!(asked["metadata"]["generation"], 5);
}

#[tokio::test]
async fn s058_definitions_count_their_spec_and_others_count_nothing() {
    let site = Site::open().await;
    let at = format!("{DEFINITIONS}/things.example.io");
    for (patch, expected) in [
        (json!({ "metadata": { "labels": { "x": "y" } } }), 1),
        (json!({ "spec": { "names": { "categories": ["all"] } } }), 2),
    ] {
        let written = site.merge(&at, &patch).await.expect(200).json();
        assert_eq!(written["metadata"]["generation"], expected, "{patch}");
    }
    site.made(MAPS, &config_map("a", json!({}))).await;
    let written = site.merge(&format!("{MAPS}/a"), &json!({ "data": { "k": "v" } })).await.expect(200).json();
    assert!(written["metadata"].get("generation").is_none());
}

#[tokio::test]
async fn s059_the_main_endpoint_leaves_status_alone() {
    let site = Site::open().await;
    let a = format!("{THINGS}/a");
    site.made(THINGS, &thing("a", json!({}))).await;
    let stored = site.merge(&format!("{a}/status"), &json!({ "status": { "replicas": 3 } })).await.json();
    let mut other = stored.clone();
    other["status"] = json!({ "replicas": 9 });
    let mut none = stored.clone();
    none.as_object_mut().expect("an object").remove("status");
    for ask in [
        Ask::put(&a, &other),
        Ask::put(&a, &none),
        Ask::patch(&a, MERGE, &json!({ "status": { "replicas": 9 } })),
        Ask::patch(&a, MERGE, &json!({ "status": null })),
        Ask::patch(&a, JSON_PATCH, &json!([{ "op": "remove", "path": "/status" }])),
    ] {
        let what = ask.to_string();
        let answer = site.send(ask).await.expect(200);
        assert_eq!(answer.json(), stored, "{what}");
        assert!(answer.warnings().is_empty(), "{what}");
    }
}

#[tokio::test]
async fn s060_the_status_endpoint_changes_nothing_else() {
    let site = Site::open().await;
    let mut object = thing("a", json!({ "replicas": 1 }));
    object["metadata"]["labels"] = json!({ "keep": "me" });
    let made = site.made(THINGS, &object).await;
    let at = format!("{THINGS}/a/status");
    let mut body = made.clone();
    body["spec"] = json!({ "replicas": 5 });
    body["metadata"]["labels"] = json!({ "x": "y" });
    body["metadata"]["annotations"] = json!({ "x": "y" });
    body["metadata"]["finalizers"] = json!(["example.io/x"]);
    body["metadata"]["ownerReferences"] = json!([stranger("u")]);
    body["status"] = json!({ "replicas": 2, "free": { "form": true } });
    let without = |value: &Value| {
        let mut value = value.clone();
        let fields = value.as_object_mut().expect("an object");
        fields.remove("status");
        for field in ["resourceVersion", "managedFields"] {
            fields["metadata"].as_object_mut().expect("metadata").remove(field);
        }
        value
    };
    let written = site.put(&at, &body).await.expect(200).json();
    assert_eq!(written["status"], json!({ "replicas": 2, "free": { "form": true } }));
    assert_eq!(without(&written), without(&made));
    assert_eq!(site.get(&at).await.expect(200).json(), written);
    let mut patch = body.clone();
    patch["status"] = json!({ "free": null });
    patch["metadata"]["resourceVersion"] = Value::Null;
    let patched = site.merge(&at, &patch).await.refused(422, "Invalid");
    assert_eq!(patched.causes(), [("FieldValueInvalid", "metadata.resourceVersion")], "a removed version");
    patch["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    let patched = site.merge(&at, &patch).await.expect(200).json();
    assert_eq!((&patched["status"], without(&patched)), (&json!({ "replicas": 2 }), without(&made)));
    let stale = site.put(&at, &body).await.refused(409, "Conflict");
    assert!(stale.message().contains("the object has been modified"), "{}", stale.message());
    let mut none = patched.clone();
    none.as_object_mut().expect("an object").remove("status");
    assert!(site.put(&at, &none).await.expect(200).json().get("status").is_none());
}

#[tokio::test]
async fn s061_an_update_says_which_version_it_saw_where_that_is_required() {
    let site = Site::open().await;
    for (path, object) in kinds("a") {
        site.made(path, &object).await;
        let mut changed = object.clone();
        changed["metadata"]["labels"] = json!({ "x": "y" });
        let answer = site.put(&format!("{path}/a"), &changed).await;
        if matches!(path, THINGS | LEASES) {
            let refusal = answer.refused(422, "Invalid");
            assert_eq!(refusal.causes(), [("FieldValueInvalid", "metadata.resourceVersion")], "{path}");
            assert_eq!(refusal.cause_messages(), ["Invalid value: 0: must be specified for an update"]);
        } else {
            assert_eq!(answer.expect(200).json()["metadata"]["labels"]["x"], "y", "{path}");
        }
        changed["metadata"]["resourceVersion"] = "2".into();
        site.put(&format!("{path}/a"), &changed).await.refused(409, "Conflict");
    }
    let definition = serde_json::to_value(definition()).expect("a definition");
    let mut typed = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition" });
    typed["metadata"] = definition["metadata"].clone();
    typed["spec"] = definition["spec"].clone();
    let refusal = site.put(&format!("{DEFINITIONS}/things.example.io"), &typed).await.refused(422, "Invalid");
    assert_eq!(refusal.causes(), [("FieldValueInvalid", "metadata.resourceVersion")]);
}

#[tokio::test]
async fn s062_an_update_creates_leases_and_events_only() {
    let site = Site::open().await;
    let made = site.put(&format!("{LEASES}/l"), &lease("l")).await.expect(201).json();
    assert_eq!(site.get(&format!("{LEASES}/l")).await.expect(200).json(), made);
    let mut held = made.clone();
    held["spec"]["holderIdentity"] = "b".into();
    assert_eq!(
        site.put(&format!("{LEASES}/l"), &held).await.expect(200).json()["spec"]["holderIdentity"],
        "b"
    );
    // Somebody's old Lease is not another Lease.
    let mut gone = held.clone();
    gone["metadata"]["name"] = "m".into();
    let refusal = site.put(&format!("{LEASES}/m"), &gone).await.refused(409, "Conflict");
    assert!(refusal.message().contains("Precondition failed: UID in precondition"), "{}", refusal.message());
    gone["metadata"].as_object_mut().expect("metadata").remove("uid");
    site.put(&format!("{LEASES}/m"), &gone).await.expect(201);
    site.put(&format!("{LEASES}/n"), &gone).await.refused(400, "BadRequest");
    let event = json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": "e" },
        "involvedObject": { "namespace": "default" } });
    site.put("/api/v1/namespaces/default/events/e", &event).await.expect(201);
    for (path, object) in kinds("z").into_iter().filter(|(path, _)| *path != LEASES) {
        let refusal = site.put(&format!("{path}/z"), &object).await.refused(404, "NotFound");
        assert!(refusal.message().ends_with("\"z\" not found"), "{}", refusal.message());
    }
}

#[tokio::test]
async fn s063_identity_and_deletion_are_not_taken_back() {
    let site = Site::open().await;
    for (path, object) in kinds("a") {
        let mut object = object;
        object["metadata"]["finalizers"] = json!(["example.io/hold"]);
        let made = site.made(path, &object).await;
        let at = format!("{path}/a");
        let mut other = made.clone();
        other["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000".into();
        let refusal = site.put(&at, &other).await.refused(409, "Conflict");
        assert!(refusal.message().contains("Precondition failed: UID in precondition: 0"), "{path}");
        let earlier = json!({ "metadata": { "creationTimestamp": "2001-01-01T00:00:00Z" } });
        assert_eq!(site.merge(&at, &earlier).await.expect(200).json(), made, "{path}");
        let asked = site.delete(&at).await.expect(200).json();
        let undo = json!({ "metadata": { "deletionTimestamp": null, "deletionGracePeriodSeconds": null } });
        let after = site.merge(&at, &undo).await.expect(200).json();
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "creationTimestamp", "uid"] {
            assert_eq!(after["metadata"][field], asked["metadata"][field], "{path}: {field}");
        }
        let other_name = json!({ "metadata": { "name": "b" } });
        site.merge(&at, &other_name).await.refused(400, "BadRequest");
    }
}
