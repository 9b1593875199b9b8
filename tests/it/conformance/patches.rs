//! Statements 106-110: JSON patches, merge patches, strategic merge patches.

use serde_json::{Value, json};

use super::lifecycle::{LEASES, lease, secret, stranger};
use super::{
    Ask, JSON_PATCH, MAPS, MERGE, NAMESPACES, SECRETS, STRATEGIC, Site, THINGS, config_map, namespace, thing,
    version,
};

const UNPATCHABLE: &str = "the server rejected our request due to an error in our request";

#[tokio::test]
async fn s106_a_json_patch_fits_or_is_refused() {
    let site = Site::open().await;
    let made = site.made(THINGS, &thing("a", json!({ "replicas": 1, "note": "n" }))).await;
    let at = format!("{THINGS}/a");
    for operation in [
        json!({ "op": "test", "path": "/spec/replicas", "value": 2 }),
        json!({ "op": "remove", "path": "/spec/missing" }),
        json!({ "op": "replace", "path": "/spec/missing/deep", "value": 1 }),
        json!({ "op": "add", "path": "/missing/deep", "value": 1 }),
        json!({ "op": "move", "from": "/missing", "path": "/spec/note" }),
        json!({ "op": "copy", "from": "/missing", "path": "/spec/note" }),
        json!({ "op": "zap", "path": "/spec/note" }),
        json!({ "op": "replace", "path": "", "value": 1 }),
        json!({ "op": "add", "path": "/metadata/finalizers/5", "value": "x" }),
    ] {
        let refusal = site.patch(&at, JSON_PATCH, &json!([operation])).await.refused(422, "Invalid");
        assert_eq!(refusal.message(), UNPATCHABLE, "{operation}");
        assert_eq!(refusal.details(), &json!({}), "{operation}");
    }
    for body in ["[", "{}", "null", "\"x\"", "[1]"] {
        let ask = Ask::patch(&at, JSON_PATCH, &Value::Null).body(JSON_PATCH, body.to_owned());
        let answer = site.send(ask).await;
        let expected = if body == "[1]" { 422 } else { 400 };
        assert_eq!(answer.code, expected, "{body}: {}", answer.text());
    }
    let many: Value = vec![json!({ "op": "test", "path": "/spec/replicas", "value": 1 }); 10_001].into();
    let refusal = site.patch(&at, JSON_PATCH, &many).await.refused(413, "RequestEntityTooLarge");
    assert_eq!(
        refusal.message(),
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
    let most: Value = vec![json!({ "op": "test", "path": "/spec/replicas", "value": 1 }); 10_000].into();
    assert_eq!(site.patch(&at, JSON_PATCH, &most).await.expect(200).json(), made);
    let all = json!([
        { "op": "test", "path": "/spec/note", "value": "n" },
        { "op": "replace", "path": "/spec/replicas", "value": 2 },
        { "op": "add", "path": "/metadata/labels", "value": { "a": "1" } },
        { "op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/b~1c" },
        { "op": "move", "from": "/spec/note", "path": "/metadata/labels/moved" },
        { "op": "remove", "path": "/metadata/labels/a" },
    ]);
    let patched = site.patch(&at, JSON_PATCH, &all).await.expect(200).json();
    assert_eq!(patched["spec"], json!({ "replicas": 2, "mode": "fast" }));
    assert_eq!(patched["metadata"]["labels"], json!({ "b/c": "1", "moved": "n" }));
}

#[tokio::test]
async fn s107_a_merge_patch_removes_with_null_and_replaces_arrays() {
    let site = Site::open().await;
    let mut object = thing("a", json!({ "replicas": 1, "note": "n" }));
    object["metadata"]["finalizers"] = json!(["example.io/a", "example.io/b"]);
    object["metadata"]["annotations"] = json!({ "x": "1", "y": "2" });
    let made = site.made(THINGS, &object).await;
    let at = format!("{THINGS}/a");
    let patch = json!({ "spec": { "note": null, "replicas": 2 }, "metadata": {
        "finalizers": ["example.io/c"], "annotations": { "x": null, "z": "3" }, "labels": { "gone": null } } });
    let patched = site.merge(&at, &patch).await.expect(200).json();
    assert_eq!(patched["spec"], json!({ "replicas": 2, "mode": "fast" }));
    assert_eq!(patched["metadata"]["finalizers"], json!(["example.io/c"]));
    assert_eq!(patched["metadata"]["annotations"], json!({ "y": "2", "z": "3" }));
    let lock =
        |seen: &Value| json!({ "metadata": { "resourceVersion": version(seen) }, "spec": { "replicas": 3 } });
    let refusal = site.merge(&at, &lock(&made)).await.refused(409, "Conflict");
    assert_eq!(
        refusal.message(),
        "Operation cannot be fulfilled on things.example.io \"a\": the object has been modified; please apply \
         your changes to the latest version and try again"
    );
    assert_eq!(site.merge(&at, &lock(&patched)).await.expect(200).json()["spec"]["replicas"], 3);
    let uid = json!({ "metadata": { "uid": "other" } });
    site.merge(&at, &uid).await.refused(409, "Conflict");
    for body in ["{", "[]", "1"] {
        let ask = Ask::patch(&at, MERGE, &Value::Null).body(MERGE, body.to_owned());
        let refusal = site.send(ask).await.refused(400, "BadRequest");
        assert!(refusal.message().starts_with("error decoding patch: "), "{}", refusal.message());
    }
}

#[tokio::test]
async fn s108_custom_resources_have_no_strategic_merge() {
    let site = Site::open().await;
    site.made(THINGS, &thing("a", json!({ "replicas": 1 }))).await;
    for at in [format!("{THINGS}/a"), format!("{THINGS}/a/status"), format!("{THINGS}/a/scale")] {
        let refusal = site.patch(&at, STRATEGIC, &json!({})).await.refused(415, "UnsupportedMediaType");
        assert_eq!(
            refusal.message(),
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            "{at}"
        );
    }
}

#[tokio::test]
async fn s108_every_built_in_kind_honours_merge_keys_and_directives() {
    let site = Site::open().await;
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "x" } });
    for (path, object) in [
        (MAPS, config_map("x", json!({}))),
        (SECRETS, secret("x")),
        (LEASES, lease("x")),
        (NAMESPACES, namespace("x")),
        ("/api/v1/nodes", node),
    ] {
        let mut object = object;
        object["metadata"]["finalizers"] = json!(["example.io/a", "example.io/b"]);
        object["metadata"]["ownerReferences"] = json!([stranger("u1"), stranger("u2")]);
        object["metadata"]["annotations"] = json!({ "keep": "1", "drop": "2" });
        site.made(path, &object).await;
        let mut first = stranger("u1");
        first["controller"] = true.into();
        for (patch, field, expected) in [
            (
                json!({ "finalizers": ["example.io/c"] }),
                "finalizers",
                json!(["example.io/a", "example.io/b", "example.io/c"]),
            ),
            (
                json!({ "$deleteFromPrimitiveList/finalizers": ["example.io/b"] }),
                "finalizers",
                json!(["example.io/a", "example.io/c"]),
            ),
            (
                json!({ "$setElementOrder/finalizers": ["example.io/d", "example.io/c", "example.io/a"],
                    "finalizers": ["example.io/d"] }),
                "finalizers",
                json!(["example.io/d", "example.io/c", "example.io/a"]),
            ),
            (
                json!({ "ownerReferences": [{ "uid": "u1", "controller": true }] }),
                "ownerReferences",
                json!([first, stranger("u2")]),
            ),
            (
                json!({ "$setElementOrder/ownerReferences": [{ "uid": "u2" }, { "uid": "u1" }] }),
                "ownerReferences",
                json!([stranger("u2"), first]),
            ),
            (
                json!({ "ownerReferences": [{ "$patch": "delete", "uid": "u1" }] }),
                "ownerReferences",
                json!([stranger("u2")]),
            ),
            (
                json!({ "ownerReferences": [{ "$patch": "replace" }, stranger("u3")] }),
                "ownerReferences",
                json!([stranger("u3")]),
            ),
            (json!({ "annotations": { "drop": null } }), "annotations", json!({ "keep": "1" })),
            (
                json!({ "annotations": { "$patch": "replace", "new": "1" } }),
                "annotations",
                json!({ "new": "1" }),
            ),
            (
                json!({ "annotations": { "$retainKeys": ["other"], "other": "1" } }),
                "annotations",
                json!({ "other": "1" }),
            ),
        ] {
            let at = format!("{path}/x");
            let patched = site.patch(&at, STRATEGIC, &json!({ "metadata": patch })).await.expect(200).json();
            assert_eq!(patched["metadata"][field], expected, "{path} {patch}");
        }
        let key = json!({ "metadata": { "ownerReferences": [{ "name": "x" }] } });
        let refusal = site.patch(&format!("{path}/x"), STRATEGIC, &key).await.refused(422, "Invalid");
        assert!(
            refusal.message().contains("does not contain declared merge key: uid"),
            "{}",
            refusal.message()
        );
        let odd = json!({ "metadata": { "annotations": { "$patch": "odd" } } });
        site.patch(&format!("{path}/x"), STRATEGIC, &odd).await.refused(400, "BadRequest");
    }
}

#[tokio::test]
async fn s108_conditions_and_addresses_merge_by_type() {
    let site = Site::open().await;
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" },
        "spec": { "taints": [{ "key": "a", "effect": "NoSchedule" }] } });
    site.made("/api/v1/nodes", &node).await;
    let status = "/api/v1/nodes/n/status";
    let ready = |value: &str| json!({ "type": "Ready", "status": value });
    let disk = json!({ "type": "DiskPressure", "status": "False" });
    let internal = json!({ "type": "InternalIP", "address": "10.0.0.1" });
    let host = json!({ "type": "Hostname", "address": "n" });
    for (patch, expected) in [
        (
            json!({ "conditions": [ready("False"), disk], "addresses": [internal, host] }),
            json!({ "conditions": [ready("False"), disk], "addresses": [internal, host] }),
        ),
        (
            json!({ "conditions": [ready("True")], "addresses": [{ "$patch": "delete", "type": "Hostname" }] }),
            json!({ "conditions": [ready("True"), disk], "addresses": [internal] }),
        ),
    ] {
        let patched = site.patch(status, STRATEGIC, &json!({ "status": patch })).await.expect(200).json();
        assert_eq!(patched["status"], expected);
    }
    let taints = json!({ "spec": { "taints": [{ "key": "b", "effect": "NoExecute" }] } });
    let patched = site.patch("/api/v1/nodes/n", STRATEGIC, &taints).await.expect(200).json();
    assert_eq!(patched["spec"]["taints"], taints["spec"]["taints"], "a list without a key is replaced");
    let conditions = json!({ "status": { "conditions": [{ "type": "Odd", "status": "True" }] } });
    for status in ["True", "False"] {
        let mut conditions = conditions.clone();
        conditions["status"]["conditions"][0]["status"] = status.into();
        let at = format!("{NAMESPACES}/default/status");
        let patched = site.patch(&at, STRATEGIC, &conditions).await.expect(200).json();
        assert_eq!(patched["status"]["conditions"], conditions["status"]["conditions"]);
    }
}

#[tokio::test]
async fn s109_a_patch_of_what_is_missing_creates_nothing() {
    let site = Site::open().await;
    for (path, kind, patch) in [
        (format!("{THINGS}/z"), MERGE, json!({})),
        (format!("{THINGS}/z"), JSON_PATCH, json!([])),
        (format!("{THINGS}/z/status"), MERGE, json!({})),
        (format!("{MAPS}/z"), STRATEGIC, json!({})),
        (format!("{LEASES}/z"), MERGE, json!({ "metadata": { "name": "z" } })),
    ] {
        let refusal = site.patch(&path, kind, &patch).await.refused(404, "NotFound");
        assert!(refusal.message().ends_with("\"z\" not found"), "{path}: {}", refusal.message());
        assert_eq!(refusal.details()["name"], "z");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s110_racing_patches_all_succeed() {
    let site = Site::open().await;
    site.made(MAPS, &config_map("m", json!({}))).await;
    let write = |n: usize| {
        let site = site.clone();
        tokio::spawn(async move {
            let patch = json!({ "data": { format!("k{n}"): "v" } });
            site.merge(&format!("{MAPS}/m"), &patch).await.code
        })
    };
    let writers: Vec<_> = (0..40).map(write).collect();
    for writer in writers {
        assert_eq!(writer.await.expect("a writer"), 200);
    }
    let map = site.get(&format!("{MAPS}/m")).await.json();
    assert_eq!(map["data"].as_object().map_or(0, serde_json::Map::len), 40);
}
